"""The small-data protocol: draw replicates, shuffle, and split by source into train, validate and test.

The paper selects two random replicates of every source, splits the sources into thirds, and does so P = 21
times from a new shuffle. Sources of one group (two windows of one vehicle) stay in one part.

Split ``p`` depends on the sources, the protocol and the seed alone. It does not depend on the features, on the
order of the sources in the file, or on how many splits are made, so that any two models and any two experiments
compare split by split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.table.scaling import Scaling
from lindley.table.table import Table

__all__ = ["MIN_GROUPS_PER_PART", "PARTS", "Part", "Protocol", "Side", "Split", "make_split", "make_splits"]

Floats = NDArray[np.float64]
PARTS = ("train", "validate", "test")
MIN_GROUPS_PER_PART = 2
"""A part with one source has no different-source pair, and no variance between sources."""


@dataclass(frozen=True)
class Protocol:
    """How a table becomes P train/validate/test splits.

    ``replicates`` instances are drawn from every source, without replacement; a source that has fewer gives all
    that it has. The first ``trace_instances`` of them act as the trace, the others as the ref. ``shares`` are the
    sizes of train, validate and test, in any unit.
    """

    splits: int = 21
    replicates: int = 2
    trace_instances: int = 1
    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.splits < 1:
            raise LindleyError(f"splits must be 1 or more, not {self.splits}")
        if self.seed < 0:
            raise LindleyError(f"the seed must be 0 or more, not {self.seed}")
        if not 1 <= self.trace_instances < self.replicates:
            raise LindleyError(
                f"{self.trace_instances} of {self.replicates} replicates as the trace leaves none for the ref: "
                "trace_instances must be 1 or more, and less than replicates"
            )
        if len(self.shares) != 3 or not all(np.isfinite(s) and s > 0 for s in self.shares):
            raise LindleyError(f"shares must be three numbers above 0 (train, validate, test), not {self.shares}")


@dataclass(frozen=True, eq=False)
class Side:
    """The traces, or the refs, of a part: items of one or more instances each."""

    values: Floats  # (rows, features)
    item: NDArray[np.intp]  # (rows,) index of the item that a row belongs to
    source: NDArray[np.str_]  # (items,)

    def __getitem__(self, items: slice) -> Side:
        """Some of the items: a slice without a step."""
        if items.step not in (None, 1):
            raise ValueError(f"items are taken in one piece: a step of {items.step} is not offered")
        start, stop, _ = items.indices(len(self.source))
        rows = (self.item >= start) & (self.item < stop)
        return Side(self.values[rows], self.item[rows] - start, self.source[start:stop])

    @cached_property
    def count(self) -> NDArray[np.intp]:
        """Instances per item (items,)."""
        return np.bincount(self.item, minlength=len(self.source))

    @cached_property
    def mean(self) -> Floats:
        """The mean instance of every item (items, features)."""
        total = np.zeros((len(self.source), self.values.shape[1]))
        np.add.at(total, self.item, self.values)
        return total / self.count[:, None]


@dataclass(frozen=True, eq=False)
class Part:
    """The drawn instances of the sources of one part."""

    values: Floats  # (rows, features)
    source: NDArray[np.str_]  # (rows,)
    is_trace: NDArray[np.bool_]  # (rows,)
    group: NDArray[np.str_] | None = None  # (rows,); None if every source is its own group

    @cached_property
    def trace(self) -> Side:
        """One trace per source."""
        return self._side(self.is_trace)

    @cached_property
    def ref(self) -> Side:
        """One ref per source that has an instance left for it."""
        return self._side(~self.is_trace)

    def _side(self, rows: NDArray[np.bool_]) -> Side:
        source, item = np.unique(self.source[rows], return_inverse=True)
        return Side(self.values[rows], item, source)

    def with_values(self, values: Floats) -> Part:
        """The same instances with other values, such as scaled ones."""
        return Part(values, self.source, self.is_trace, self.group)


@dataclass(frozen=True, eq=False)
class Split:
    """One shuffle: three parts, standardised with the statistics of the training part."""

    index: int
    train: Part
    validate: Part
    test: Part
    scaling: Scaling

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """Train, validate, test."""
        return self.train, self.validate, self.test


def make_splits(table: Table, protocol: Protocol) -> list[Split]:
    """Every split of the protocol, see `make_split`."""
    return [make_split(table, protocol, index) for index in range(protocol.splits)]


def make_split(table: Table, protocol: Protocol, index: int) -> Split:
    """Split number ``index``, from 0.

    Raises:
        LindleyError: if a part would hold fewer than two groups, if a feature is constant over the training
            part of a split or leaves the range of floating point, or if the test part of a split has no
            same-source pair.
    """
    rng = np.random.default_rng((protocol.seed, index))
    sources, first, code = np.unique(table.source, return_index=True, return_inverse=True)
    groups, group_code = np.unique(table.group[first], return_inverse=True)

    part_of_group = _allot(len(groups), protocol.shares, rng, table.name)
    row, is_trace = _draw(code, len(sources), protocol, rng)
    part_of_row = part_of_group[group_code[code[row]]]

    raw = [
        Part(table.values[r], table.source[r], is_trace[part_of_row == k], table.group[r])
        for k in range(3)
        for r in [row[part_of_row == k]]
    ]
    for name, part in zip(PARTS[1:], raw[1:], strict=True):
        if len(part.ref.source) == 0:
            raise LindleyError(
                f"{table.name}, split {index + 1}: no source of the {name} part has a second measurement, so it "
                "has no same-source pair. Give more sources with replicates."
            )
    scaling = Scaling.fit(raw[0].values, table.features, f"{table.name}, split {index + 1}")
    train, validate, test = (part.with_values(scaling(part.values)) for part in raw)
    return Split(index, train, validate, test, scaling)


def _shuffle(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """A random order. Sorting uniforms keeps it the same over NumPy versions, which `permutation` does not promise."""
    return np.argsort(rng.random(n), kind="stable")


def _allot(n_groups: int, shares: tuple[float, ...], rng: np.random.Generator, name: str) -> NDArray[np.intp]:
    """The part (0, 1, 2) of every group, (n_groups,)."""
    edges = np.rint(np.cumsum((0.0, *shares)) / sum(shares) * n_groups).astype(int)
    sizes = np.diff(edges)
    if (sizes < MIN_GROUPS_PER_PART).any():
        given = ", ".join(f"{part} {size}" for part, size in zip(PARTS, sizes, strict=True))
        raise LindleyError(
            f"{name}: {n_groups} sources (or groups of sources) are too few to split ({given}). Every part needs "
            f"at least {MIN_GROUPS_PER_PART}; give more sources, or other shares."
        )
    part = np.empty(n_groups, dtype=np.intp)
    part[_shuffle(n_groups, rng)] = np.repeat(np.arange(3), sizes)
    return part


def _draw(
    code: NDArray[np.intp], n_sources: int, protocol: Protocol, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The rows drawn from every source, in the order of the sources, and which of them are traces."""
    by_source = np.argsort(code, kind="stable")
    rows = by_source[np.lexsort((rng.random(len(code)), code[by_source]))]  # replicates in random order
    available = np.bincount(code, minlength=n_sources)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(available) - available, available)
    drawn = rank < protocol.replicates
    # A source of two or more instances always keeps one for the ref.
    n_drawn = np.minimum(available, protocol.replicates)
    n_trace = np.where(n_drawn > 1, np.minimum(protocol.trace_instances, n_drawn - 1), 1)
    return rows[drawn], (rank < np.repeat(n_trace, available))[drawn]

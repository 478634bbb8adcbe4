"""The small-data protocol: draw replicates, shuffle, split by source into train, validate and test, and choose pairs.

The paper selects two random replicates of every source, splits the sources into thirds, and does so P = 21
times from a new shuffle. Sources of one group (two windows of one vehicle) stay in one part.

Split ``p`` depends on the sources, the protocol and the seed alone. It does not depend on the features, on the
order of the sources in the file, or on how many splits are made, so that any two models and any two experiments
compare split by split. For that, random numbers belong to a place in the order by source, and not to a row of a file.

Measurements of one *session*, a fragment or a day, may share what others of their source do not. Where a table names sessions,
the trace of a source is of one and the ref of others, for every source that has two or more.

Different sources of one group are *mates*. A part holds groups as a whole, and so a larger share of its different-source pairs
are mates than in the table: three times as many in a third of it. How often the other source would be a mate is a setting, and
mates are weighted to that share wherever pairs are counted: in fits, calibrations and figures alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.limits import limit, limit_text
from lindley.llrs import LLRs, Names
from lindley.table.scaling import Scaling
from lindley.table.table import Table

__all__ = [
    "MIN_GROUPS_PER_PART",
    "MOST_INSTANCES",
    "PARTS",
    "Mates",
    "Part",
    "Protocol",
    "Side",
    "Size",
    "Split",
    "choose_pairs",
    "draw_instances",
    "draw_nested",
    "have_pairs",
    "make_split",
    "make_splits",
    "mate_share",
    "order_instances",
    "pair_weights",
    "series_sizes",
    "session_first",
    "session_pairs",
    "weigh_mates",
    "weights_of_mates",
]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
Size = tuple[int, int]
"""Instances of a trace and of a ref: M × N."""
Mates = Literal["as-in-table", "never"] | float
"""How often the other source of H2 is of the same group: as often as among all pairs of a table, never, or a share of them."""
PARTS = ("train", "validate", "test")
MIN_GROUPS_PER_PART = 2
"""A part with one source has no different-source pair, and no variance between sources."""
MOST_INSTANCES = 10
"""Of a trace and a ref together, in the largest size of a series: 5×5."""


@dataclass(frozen=True)
class Protocol:
    """How a table becomes P train/validate/test splits.

    ``replicates`` instances are drawn from every source, without replacement; a source that has fewer gives all
    that it has. The first ``trace_instances`` of them act as the trace, the others as the ref. ``shares`` are the
    sizes of train, validate and test, in any unit. ``mates`` tells how often different sources are of one group.
    """

    splits: int = 21
    replicates: int = 2
    trace_instances: int = 1
    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    seed: int = 0
    mates: Mates = "as-in-table"

    def __post_init__(self) -> None:
        if self.splits < 1:
            raise LindleyError(f"splits must be 1 or more, not {self.splits}")
        if self.splits > limit("SPLITS"):
            raise LindleyError(f"splits are too many: {limit_text('SPLITS')}")
        for name in ("replicates", "trace_instances", "seed"):
            if getattr(self, name) >= 2**63:
                raise LindleyError(f"{name} is too large: it must be below 2^63")
        if self.seed < 0:
            raise LindleyError(f"the seed must be 0 or more, not {self.seed}")
        if not 1 <= self.trace_instances < self.replicates:
            raise LindleyError(
                f"{self.trace_instances} of {self.replicates} replicates as the trace leaves none for the ref: "
                "trace_instances must be 1 or more, and less than replicates"
            )
        if len(self.shares) != 3 or not all(np.isfinite(s) and s > 0 for s in self.shares):
            raise LindleyError(f"shares must be three numbers above 0 (train, validate, test), not {self.shares}")
        require_mates(self.mates)


def require_mates(setting: Any) -> None:
    """Refuse what is no way to tell how often different sources are mates."""
    is_share = isinstance(setting, int | float) and not isinstance(setting, bool) and 0 <= setting < 1
    if not is_share and setting not in ("as-in-table", "never"):
        raise LindleyError(f"mates must be as-in-table, never, or a share such as 0.01 (0 to below 1), not {setting!r}")


def mate_share(table: Table, setting: Mates = "as-in-table") -> float | None:
    """The share of different-source pairs that are mates, by a setting; None for a table without mates.

    Raises:
        LindleyError: if a share is asked for, and the table has no two sources of one group.
    """
    require_mates(setting)
    natural = _share_of_mates(table.source, table.group)
    if natural == 0:
        if isinstance(setting, str) or setting == 0:
            return None
        raise LindleyError(
            f"{table.name}: mates are different sources of one group, and no group has two sources. Name the column that "
            "tells the groups, or leave mates out."
        )
    return natural if setting == "as-in-table" else 0.0 if setting == "never" else float(setting)


def _share_of_mates(source: NDArray[Any], group: NDArray[Any]) -> float:
    """Of all pairs of different sources, from the source and the group of every row."""
    _, first = np.unique(source, return_index=True)
    _, size = np.unique(group[first], return_counts=True)
    return float((size * (size - 1)).sum() / max(1, len(first) * (len(first) - 1)))


def weigh_mates(is_mate: NDArray[np.bool_], share: float | None) -> Floats | None:
    """What each different-source pair weighs, so that mates have this share of the weight; the mean weight is one.

    None where all weigh one: if no share is asked for, or if there are no mates, or nothing else.
    """
    weights = weights_of_mates(int(np.count_nonzero(is_mate)), is_mate.size, share)
    return None if weights is None else np.where(is_mate, *weights)


def weights_of_mates(number: int, of_all: int, share: float | None) -> tuple[float, float] | None:
    """What a pair of mates and any other different-source pair weighs, given how many mates there are; as `weigh_mates`."""
    if share is None or number in (0, of_all):
        return None
    found = number / of_all
    return share / found, (1 - share) / (1 - found)


def pair_weights(is_same: NDArray[np.bool_], is_mate: NDArray[np.bool_], share: float | None) -> Floats | None:
    """What every pair of a matrix weighs: different-source pairs as `weigh_mates` says, same-source pairs one."""
    weights = weigh_mates(is_mate[~is_same], share)
    if weights is None:
        return None
    weight = np.ones(is_same.shape)
    weight[~is_same] = weights
    return weight


@dataclass(frozen=True, eq=False)
class Side:
    """The traces, or the refs, of a part: items of one or more instances each."""

    values: Floats  # (rows, features)
    item: Index  # (rows,) index of the item that a row belongs to
    source: NDArray[np.str_]  # (items,)

    def __getitem__(self, items: slice) -> Side:
        """Some of the items: a slice without a step."""
        if items.step not in (None, 1):
            raise ValueError(f"items are taken in one piece: a step of {items.step} is not offered")
        start, stop, _ = items.indices(len(self.source))
        rows = (self.item >= start) & (self.item < stop)
        return Side(self.values[rows], self.item[rows] - start, self.source[start:stop])

    @cached_property
    def count(self) -> Index:
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
    mates: float | None = None  # the share of mates that its different-source pairs stand for; None: as they come
    session: NDArray[np.str_] | None = None  # (rows,) of its source; None where it is not known

    @classmethod
    def drawn(
        cls,
        values: Floats,
        source: NDArray[np.str_],
        group: NDArray[np.str_] | None = None,
        *,
        n_trace: int = 1,
        n_ref: int | None = None,
        rng: np.random.Generator | None = None,
        complete: bool = False,
        mates: float | None = None,
        session: NDArray[np.str_] | None = None,
    ) -> Part:
        """Of instances (rows, features) those that `draw_instances` draws of every source."""
        rows, is_trace = draw_instances(source, n_trace, n_ref, rng, complete=complete, session=session)
        group, session = (None if each is None else each[rows] for each in (group, session))
        return cls(values[rows], source[rows], is_trace, group, mates, session)

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

    @property
    def groups(self) -> NDArray[np.str_]:
        """The group of every row (rows,): its source, if every source is a group of its own."""
        return self.source if self.group is None else self.group

    def rows(self, which: NDArray[np.bool_]) -> Part:
        """Some of the instances."""
        rows = ("values", "source", "is_trace", "group", "session")
        some: dict[str, Any] = {name: each[which] for name in rows if (each := getattr(self, name)) is not None}
        return replace(self, **some)

    def joined(self, other: Part) -> Part:
        """The sources of two parts as one."""
        values, source, is_trace, group = (
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("values", "source", "is_trace", "groups")
        )
        session = None
        if self.session is not None and other.session is not None:
            session = np.concatenate([self.session, other.session])
        return Part(values, source, is_trace, group, self.mates, session)

    def with_values(self, values: Floats) -> Part:
        """The same instances with other values, such as scaled ones."""
        return replace(self, values=values)

    @cached_property
    def is_mate(self) -> NDArray[np.bool_]:
        """Which of the pairs are different sources of one group (traces, refs)."""
        return self.mates_among(slice(None), slice(None))

    def mates_among(self, rows: slice, columns: slice) -> NDArray[np.bool_]:
        """Which pairs of some traces and some refs are different sources of one group."""
        trace, ref = self.trace.source[rows, None], self.ref.source[columns]
        if self.group is None:
            return np.zeros((len(trace), len(ref)), dtype=np.bool_)
        of_trace, of_ref = self._groups_of_sides
        return np.asarray((of_trace[rows, None] == of_ref[columns]) & (trace != ref))

    @cached_property
    def _groups_of_sides(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """The group of every trace and of every ref."""
        names, first = np.unique(self.source, return_index=True)
        of_trace, of_ref = (self.groups[first[np.searchsorted(names, side.source)]] for side in (self.trace, self.ref))
        return of_trace, of_ref

    @cached_property
    def n_mates(self) -> int:
        """The number of pairs of mates, without a look at every pair."""
        (of_trace, traces), (of_ref, refs) = (np.unique(each, return_counts=True) for each in self._groups_of_sides)
        _, i, j = np.intersect1d(of_trace, of_ref, return_indices=True)
        return int(traces[i] @ refs[j]) - self.n_same

    @cached_property
    def n_same(self) -> int:
        """The number of same-source pairs."""
        return len(np.intersect1d(self.trace.source, self.ref.source))

    @property
    def n_different(self) -> int:
        """The number of different-source pairs."""
        return len(self.trace.source) * len(self.ref.source) - self.n_same

    @property
    def mate_share(self) -> float | None:
        """The share of mates that its different-source pairs stand for; as many as it has, unless told; None without groups."""
        if self.mates is not None or self.group is None:
            return self.mates
        return _share_of_mates(self.source, self.group) or None

    @property
    def mate_ratio(self) -> float:
        """What a pair of mates weighs in units of any other different-source pair."""
        weights = None if self.mates is None else weights_of_mates(self.n_mates, self.n_different, self.mates)
        return 1.0 if weights is None else weights[0] / weights[1]

    @cached_property
    def weight(self) -> Floats | None:
        """What every pair weighs (traces, refs), mates being weighted to their share; None where all weigh one."""
        if self.mates is None:
            return None
        return pair_weights(self.trace.source[:, None] == self.ref.source, self.is_mate, self.mates)

    def llrs(self, matrix: Floats) -> LLRs:
        """LLRs of all pairs (traces, refs) by hypothesis, each with its weight."""
        llrs = LLRs.from_matrix(matrix, self.trace.source, self.ref.source, self.weight)
        return replace(llrs, matrices=(self.names,))

    @property
    def names(self) -> Names:
        """The sources of the rows and of the columns of its pairs, and their groups."""
        return self.trace.source, self.ref.source, *self._groups_of_sides


@dataclass(frozen=True, eq=False)
class Split:
    """One shuffle: three parts, standardised with the statistics of the training part; and as they were before."""

    index: int
    train: Part
    validate: Part
    test: Part
    scaling: Scaling
    raw: tuple[Part, Part, Part]

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
    groups = np.unique(table.group)
    part_of_group = _allot(len(groups), protocol.shares, rng, table.name)
    n_trace, n_ref = protocol.trace_instances, protocol.replicates - protocol.trace_instances
    mates = mate_share(table, protocol.mates)
    drawn = Part.drawn(
        table.values,
        table.source,
        table.group,
        n_trace=n_trace,
        n_ref=n_ref,
        rng=rng,
        mates=mates,
        session=table.session,
    )
    part_of_row = part_of_group[np.searchsorted(groups, drawn.groups)]
    raw = [drawn.rows(part_of_row == k) for k in range(3)]
    for name, part in zip(PARTS[1:], raw[1:], strict=True):
        if len(part.ref.source) == 0:
            raise LindleyError(
                f"{table.name}, split {index + 1}: no source of the {name} part has a second measurement, so it "
                "has no same-source pair. Give more sources with replicates."
            )
    scaling = Scaling.fit(raw[0].values, table.features, f"{table.name}, split {index + 1}")
    train, validate, test = (part.with_values(scaling(part.values)) for part in raw)
    return Split(index, train, validate, test, scaling, (raw[0], raw[1], raw[2]))


def _allot(n_groups: int, shares: tuple[float, ...], rng: np.random.Generator, name: str) -> Index:
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
    # sorting uniforms keeps the order the same over NumPy versions, which `permutation` does not promise
    part[np.argsort(rng.random(n_groups), kind="stable")] = np.repeat(np.arange(3), sizes)
    return part


def order_instances(source: NDArray[Any], rng: np.random.Generator | None = None) -> tuple[Index, Index]:
    """The rows of all instances, source by source (rows,), and how many each source has (sources,).

    Sources come in the order of their labels. The instances of a source are shuffled, or stay in their order without ``rng``.
    """
    _, code, count = np.unique(source, return_inverse=True, return_counts=True)
    by_source = np.argsort(code, kind="stable")
    if rng is not None:
        by_source = by_source[np.lexsort((rng.random(len(code)), code[by_source]))]
    return by_source, count


def draw_instances(
    source: NDArray[Any],
    n_trace: int = 1,
    n_ref: int | None = None,
    rng: np.random.Generator | None = None,
    *,
    complete: bool = False,
    session: NDArray[Any] | None = None,
) -> tuple[Index, NDArray[np.bool_]]:
    """``n_trace`` instances of every source as its trace and ``n_ref`` others, or all others, as its ref.

    They are drawn at random, or from the front where there is no ``rng``. A source with fewer gives what it has, and keeps
    one for the ref if it has two; with ``complete`` it gives none. Of a source with several sessions (rows,) the trace is of
    one and the ref of others; with all others as its ref, the trace is the whole of its session, so that no row is left out.

    Returns:
        The rows drawn, source by source with the traces of each in front, and which of them are traces.
    """
    rows, count = order_instances(source, rng)
    least = 1 if n_ref is None else n_ref
    rows, front = session_first(rows, count, session, [(n_trace, least)])
    of_session = front if n_ref is None else np.minimum(front, n_trace)
    as_trace = np.where(front == 0, np.clip(count - 1, 1, n_trace), of_session)
    begin = np.where(front == 0, as_trace, front)  # the ref
    as_ref = count - begin if n_ref is None else np.minimum(count - begin, n_ref)
    if complete:
        enough = (as_trace >= n_trace) & (as_ref >= least)
        as_trace, as_ref = as_trace * enough, as_ref * enough
    rank, begin = _rank(count), np.repeat(begin, count)
    is_trace = rank < np.repeat(as_trace, count)
    drawn = is_trace | ((rank >= begin) & (rank < begin + np.repeat(as_ref, count)))
    return rows[drawn], is_trace[drawn]


def session_first(
    rows: Index, count: Index, session: NDArray[Any] | None, sizes: Sequence[Size]
) -> tuple[Index, Index]:
    """Put one session of every source in front, to take the trace from it and the ref from the rows behind it.

    It is the first, in the order of ``rows``, of those that allow pairs of the most of some sizes.

    Args:
        rows: of a table, source by source in the order of a draw, as `order_instances` has them.
        count: rows of every source (sources,).
        session: of every row of the table; None where it is not known.
        sizes: of the pairs that are wanted.

    Returns:
        The rows, and how many of each source are in front (sources,): none of a source with one session alone.
    """
    if session is None or not len(rows):
        return rows, np.zeros_like(count)
    owner = np.repeat(np.arange(len(count)), count)
    labels, code = np.unique(session[rows], return_inverse=True)
    _, which, size = np.unique(owner * len(labels) + code, return_inverse=True, return_counts=True)
    size = size[which]  # of the session of every row
    behind = count[owner] - size
    allowed = sum(((size >= m) & (behind >= n) for m, n in sizes), start=np.zeros(len(rows), dtype=np.intp))
    best = np.lexsort((-allowed, owner))[np.cumsum(count) - count]  # a row of every source
    is_behind = which != which[best][owner]
    return rows[np.lexsort((is_behind, owner))], np.where(size[best] == count, 0, size[best])


def have_pairs(source: NDArray[Any], session: NDArray[Any] | None, sizes: Sequence[Size]) -> NDArray[np.bool_]:
    """Which sources, in the order of their labels, have the measurements for pairs of some sizes (sizes, sources)."""
    rows, count = order_instances(source)
    session = None if session is None else np.unique(session, return_inverse=True)[1]
    found = np.zeros((len(sizes), len(count)), dtype=np.bool_)
    for each, (m, n) in zip(found, sizes, strict=True):
        _, front = session_first(rows, count, session, [(m, n)])
        each[:] = np.where(front == 0, count >= m + n, (front >= m) & (count - front >= n))
    return found


def session_pairs(source: NDArray[Any], session: NDArray[Any] | None) -> dict[str, int] | None:
    """How many same-source pairs, one of every source measured twice, are of ``two_sessions`` and of ``one_session``.

    None where sessions are not known.

    >>> session_pairs(np.array(list("aabbc")), np.array(list("xyxxx")))
    {'two_sessions': 1, 'one_session': 1}
    """
    if session is None:
        return None
    rows, count = order_instances(source)
    several = int(np.count_nonzero(session_first(rows, count, session, [(1, 1)])[1]))
    return {"two_sessions": several, "one_session": int((count > 1).sum()) - several}


def _rank(count: Index) -> Index:
    """The place of every instance among those of its source (rows,), from 0."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def series_sizes(source: NDArray[Any], session: NDArray[Any] | None = None) -> list[Size]:
    """1×1, 2×2, … as far as half of the sources have the instances, with k×(k + 1) as the last if they have one more.

    Where 1×1 is all that they have, there is no series.

    >>> series_sizes(np.repeat(["a", "b", "c"], [5, 5, 2]))
    [(1, 1), (2, 2), (2, 3)]
    """
    sizes = [(total // 2, total - total // 2) for total in range(2, MOST_INSTANCES + 1)]
    enough = have_pairs(source, session, sizes).mean(axis=1) >= 0.5
    sizes = [size for size, one in zip(sizes, enough.tolist(), strict=True) if one]
    sizes = [(m, n) for m, n in sizes if m == n or (m, n) == sizes[-1]]
    return sizes if len(sizes) > 1 else []


def draw_nested(
    source: NDArray[Any], sizes: Sequence[Size], rng: np.random.Generator, session: NDArray[Any] | None = None
) -> list[tuple[Index, NDArray[np.bool_]]]:
    """Instances of every source that has enough, for every size of `series_sizes`: the rows, and which are traces.

    The instances of a source become trace and ref by turns, or by their session, so that the trace of 1×1 is part of that of
    2×2, and the ref too.
    """
    rows, count = order_instances(source, rng)
    rows, front = session_first(rows, count, session, sizes)
    rank, count, front = _rank(count), np.repeat(count, count), np.repeat(front, count)
    found = []
    for m, n in sizes:
        by_turns = (rank < m + n) & (count >= m + n), (rank % 2 == 0) & (rank < 2 * m)
        apart = (front >= m) & (count - front >= n)
        by_session = apart & ((rank < m) | ((rank >= front) & (rank < front + n))), rank < m
        drawn, is_trace = (np.where(front == 0, *each) for each in zip(by_turns, by_session, strict=True))
        found.append((rows[drawn], is_trace[drawn]))
    return found


def choose_pairs(
    trace: Side, ref: Side, most_different: int | None, seed: int | Sequence[int]
) -> tuple[Index, Index, Index, Index]:
    """Items of the same-source pairs (traces, refs) and of the different-source pairs (traces, refs).

    Numbering pairs row by row, the k-th different-source pair is found without a list of all pairs: it comes after
    those same-source pairs s_m (m = 0, 1, …) for which s_m − m ≤ k.

    Args:
        trace: items of one source each, every source once.
        ref: likewise.
        most_different: a random choice of that many different-source pairs, or ``None`` for all of them.
        seed: of that choice.
    """
    n_ref = len(ref.source)
    _, i_same, j_same = np.intersect1d(trace.source, ref.source, return_indices=True)
    same = np.sort(i_same * n_ref + j_same)
    n_different = len(trace.source) * n_ref - len(same)
    if most_different is None or most_different >= n_different:
        k = np.arange(n_different)
    else:
        k = np.sort(np.random.default_rng(seed).choice(n_different, most_different, replace=False))
    flat = k + np.searchsorted(same - np.arange(len(same)), k, side="right")
    return same // n_ref, same % n_ref, flat // n_ref, flat % n_ref

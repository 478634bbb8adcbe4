"""Pairs that a model has not seen: sources are dealt into folds, and those of a fold are compared by what the others teach.

Coordinates flatter the sources that they were made of, so covariances, kernels and the heavy-tailed law come from the other
folds. Sources of one group go into one fold. Nothing depends on names, on the order of rows or on a seed: sources are put in an
order by their values, and what is drawn is drawn from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.between import Scatter
from lindley.models.blocks import pieces
from lindley.models.fitting import Sources, Task, caught_warnings
from lindley.models.heavy_tailed.fit import fit as fit_heavy
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.robust.coordinates import Coordinates, Setting
from lindley.models.robust.model import Basis
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part, have_pairs, session_first, weights_of_mates

__all__ = ["FOLDS", "Block", "Folds", "Member", "basis_of", "beside_of", "in_order"]

FOLDS = 5
MOST_DEALS, ENOUGH_SOURCES, MOST_WORK = 2, 200, 4_000_000
"""Few sources have few pairs within a fold: they are dealt anew until so many were held out. Work is sources × features²."""
MOST_OF_A_BLOCK = 60
"""Sources whose pairs are looked at together: of many, all pairs would tell little more than those of one block each."""
MOST_TERMS, MOST_MEASUREMENTS = 1 << 17, 3
"""Features × pairs whose gradient is held at a time; measurements of a trace, and of a ref, in held-out pairs of several."""

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Member:
    """Coordinates that the model is made of: their setting, their unit of variance, and how much they count."""

    setting: Setting
    scale: float = 1.0
    share: float = 1.0


def in_order(part: Part) -> Sources:
    """The sources of a part, in an order that their values alone decide, and so are the measurements of each.

    Raises:
        LindleyError: if a value is not finite.
    """
    if not np.isfinite(part.values).all():
        raise LindleyError("the robust model needs finite values")
    rows = np.lexsort(part.values.T[::-1])
    session = None if part.session is None else part.session[rows]
    sources = Sources.of(part.values[rows], part.source[rows], part.groups[rows], session)
    means, last = sources.means, sources.first + sources.count - 1
    digits = ((means - means.min(0)) / np.maximum(np.ptp(means, axis=0), 1e-300)).round(9)  # equal in any unit
    keys = np.hstack([digits, sources.values[sources.first], sources.values[last]])
    ordered = sources.take(np.lexsort(keys.T[::-1]))
    _, first, group = np.unique(ordered.group, return_index=True, return_inverse=True)
    return replace(ordered, group=np.argsort(np.argsort(first))[group])


def basis_of(coordinates: Coordinates, member: Member) -> Basis:
    """Coordinates as tensors of one run, without a run dimension, in the unit of variance of the member."""
    axes = coordinates.axes(replace(member.setting, axes=min(member.setting.axes, coordinates.most_axes)))
    centre, projection = map(torch.from_numpy, (axes.centre[None], axes.projection / math.sqrt(member.scale)))
    kernels = (torch.from_numpy(coordinates.means * coordinates.spread) - centre) @ projection
    var, known = torch.from_numpy(axes.var / member.scale)[None], torch.full((1, 1), len(kernels), dtype=torch.float64)
    return Basis(centre, projection, var, kernels, known, torch.full((1, 1), member.share, dtype=torch.float64))


def beside_of(sources: Sources) -> TwoLevel:
    """The heavy-tailed law of some sources; in plain coordinates, where it cannot be fitted."""
    names = np.char.zfill(sources.item.astype(np.str_), 12)
    try:
        with caught_warnings():
            model = fit_heavy(Task(learn=[Part.drawn(sources.values, names, names)], seeds=[0])).model
    except (LindleyError, np.linalg.LinAlgError, ValueError):
        coordinates = Coordinates(sources)
        axes = coordinates.axes(Setting(1.0, 1.0, len(coordinates.spread)))
        arrays = axes.centre[None], axes.projection, axes.var[None]
        centre, projection, var = (torch.from_numpy(array)[None] for array in arrays)
        ones, nu = torch.ones_like(var), torch.full((1, 1, 1), 10.0, dtype=torch.float64)
        model = TwoLevel(centre, projection, ones, ones, HeavyTailed(var * 0, var, nu, nu))
    assert isinstance(model, TwoLevel)
    return model


@dataclass(frozen=True, eq=False)
class Block:
    """Traces and refs of one fold, all pairs of them."""

    fold: int
    which: Index  # the sources (traces,)
    trace: Tensor  # values (traces, M, feature)
    ref: Tensor  # (refs, N, feature)
    heavy: Tensor  # ln LR of the heavy-tailed law (traces, refs)
    weight: Tensor  # of each pair in the cost, negative for different sources (traces, refs)
    is_mate: Tensor  # (traces, refs)

    def rows(self, some: slice) -> Block:
        """Some of the traces, with all refs."""
        names = ("which", "trace", "heavy", "weight", "is_mate")
        return replace(self, **{name: getattr(self, name)[some] for name in names})

    def costs(self, ln_lr: Tensor) -> Tensor:
        """The part of the Cllr that the pairs of each trace have (sources,)."""
        signs = self.weight.sign()
        return (self.weight.abs() * torch.nn.functional.softplus(-signs * ln_lr)).sum(1) / math.log(2)


class Folds:
    """Held-out pairs of some sources, and what the other folds teach about them."""

    def __init__(self, sources: Sources, mates: float | None) -> None:
        self.sources, self.mates = sources, mates
        groups = int(sources.group.max()) + 1
        replicated = np.bincount(sources.group, weights=sources.count > 1, minlength=groups)
        number = min(FOLDS, int((replicated > 0).sum()) // 2)
        n, p = len(sources), sources.values.shape[1]
        self.deals = max(1, min(MOST_DEALS, -(-ENOUGH_SOURCES // n), MOST_WORK // (n * p**2)))
        if number < 2 or len(sources) < 6:
            raise LindleyError(
                "the robust model needs six sources or more, and four groups with a source that was measured more than once "
                f"(a source is a group by itself where none are given): it got {len(sources)} sources, {groups} groups, and "
                f"{int((replicated > 0).sum())} of these with replicates"
            )
        rng = np.random.default_rng(0)
        self.folds: list[NDArray[np.bool_]] = []  # which sources each holds out
        for _ in range(self.deals):
            # Groups by turns, those with many replicated sources first, so that folds are of about the same size.
            by_size = np.lexsort((-np.bincount(sources.group) + rng.random(groups), -replicated))
            of_group = np.empty(groups, dtype=np.intp)
            of_group[by_size] = np.arange(groups) % number
            self.folds.extend(of_group[sources.group] == f for f in range(number))
        self.place = rng.permutation(len(sources))  # neighbours in the order of values would be hard to tell apart
        self.order = [rng.permutation(int(n)) for n in sources.count]
        others = [sources.take(np.flatnonzero(~fold)) for fold in self.folds]
        self.coordinates = [Coordinates(each) for each in others]
        self.beside = [beside_of(each) for each in others]
        self.blocks = list(self.of_size(1))

    def have(self, number: int) -> NDArray[np.bool_]:
        """Which sources have so many measurements for a trace and as many for a ref, of other sessions where there are."""
        (have,) = have_pairs(self.sources.item, self.sources.session, [(number, number)])
        return np.asarray(have)

    def sizes(self) -> list[int]:
        """M = N above one that half of the sources or more have measurements for."""
        return [m for m in range(2, MOST_MEASUREMENTS + 1) if self.have(m).mean() >= 0.5]

    def of_size(self, number: int) -> Iterator[Block]:
        """Pairs of so many measurements against as many, of all sources that have them."""
        have = self.have(number)
        for f in range(len(self.coordinates)):
            some = np.flatnonzero(self.folds[f] & have)
            some = some[np.argsort(self.place[some])]
            for piece in pieces(len(some), MOST_OF_A_BLOCK):
                if len(which := some[piece]) > 1:
                    block = self._block(f, which, number, self.deals * int(have.sum()))
                    at_a_time = max(1, MOST_TERMS // (len(which) * self.sources.values.shape[1]))
                    yield from map(block.rows, pieces(len(which), at_a_time))

    def _block(self, f: int, which: Index, number: int, of_all: int) -> Block:
        rows, count = np.concatenate([self.sources.first[i] + self.order[i] for i in which]), self.sources.count[which]
        rows, front = session_first(rows, count, self.sources.session, [(number, number)])
        begin, some = np.cumsum(count) - count, np.arange(number)
        of_sides = begin, begin + np.maximum(front, number)  # where the trace begins, and where the ref does
        trace, ref = (torch.from_numpy(self.sources.values[rows[each[:, None] + some]]) for each in of_sides)
        beside, scatter = self.beside[f], None
        if number > 1:
            of_x, of_y = (beside.scatter_of(each[None]) for each in (trace, ref))
            scatter = Scatter(of_x, of_y, number - 1, number - 1)
        with torch.no_grad():
            heavy = beside.ln_lr(trace.mean(1)[None], ref.mean(1)[None], number, number, scatter)[0]
        group, n = self.sources.group[which], len(which)
        is_mate = (group[:, None] == group) & ~np.eye(n, dtype=np.bool_)
        weights = weights_of_mates(int(is_mate.sum()), n * (n - 1), self.mates) or (1.0, 1.0)
        weight = np.where(np.eye(n, dtype=np.bool_), 1 / n, -np.where(is_mate, *weights) / (n * (n - 1)))
        return Block(
            f, which, trace, ref, heavy, torch.from_numpy(weight * (0.5 * n / of_all)), torch.from_numpy(is_mate)
        )

"""Batches for all runs at once: which pairs, with which weight, at which step of an epoch.

Runs of one program have the same number of batches. They may differ in their numbers of sources and instances: what a
run lacks is padded, with weight zero. Every run is shuffled from a seed of its own, and does not depend on the others.

A shuffle is cheap: the items stand in a random order, drawn once per run, and epoch t visits positions
(a_t k + c_t) mod n, k = 0 … n − 1, with a random shift c_t and a random multiplier a_t that shares no factor with n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lindley.llrs import Floats
from lindley.table.splits import Part, Side, choose_pairs

__all__ = ["Evaluation", "MateWeights", "PairBatches", "Shuffle", "SourceBatches", "n_batches"]

LN2 = math.log(2.0)


def n_batches(n: int, size: int) -> int:
    """Batches of ``size`` items; the left-over items are spread over them, as in the paper (351 = 6 · 50 + 51)."""
    return max(1, n // size)


@dataclass(frozen=True, eq=False)
class Shuffle:
    """The orders of all epochs: positions (a k + c) mod n of a random order, per run."""

    order: Tensor  # (run, longest)
    n: Tensor  # (run, 1), float64: products stay below 2⁵³ and are exact
    multiplier: Tensor  # (epoch, run, 1)
    shift: Tensor  # (epoch, run, 1)

    @classmethod
    def draw(cls, numbers: Sequence[int], epochs: int, seeds: Sequence[int]) -> Shuffle:
        """A shuffle of so many items of each run, from its own seed."""
        order = np.zeros((len(numbers), max(numbers)), dtype=np.int64)
        steps = np.ones((epochs, len(numbers), 2))
        for run, (n, seed) in enumerate(zip(numbers, seeds, strict=True)):
            rng = np.random.default_rng((seed, 0))
            order[run, :n] = np.argsort(rng.random(n), kind="stable")
            coprime = np.flatnonzero(np.gcd(np.arange(n), n) == 1) if n > 1 else np.array([1])
            steps[:, run, 0] = coprime[(rng.random(epochs) * len(coprime)).astype(int)]
            steps[:, run, 1] = (rng.random(epochs) * n).astype(int)
        n_items = torch.tensor([[float(n)] for n in numbers], dtype=torch.float64)
        schedule = torch.from_numpy(steps)
        return cls(torch.from_numpy(order), n_items, schedule[..., :1], schedule[..., 1:])

    def take(self, epoch: Tensor, positions: Tensor) -> Tensor:
        """The items at ``positions`` (run, size; float64) of the order of ``epoch``, a tensor with one element."""
        a, c = self.multiplier.index_select(0, epoch)[0], self.shift.index_select(0, epoch)[0]
        return self.order.gather(1, torch.fmod(a * positions + c, self.n).long())


def _slots(n: Sequence[int], n_parts: int) -> list[tuple[Tensor, Tensor]]:
    """For every batch: positions (run, size) of n items per run, and which of them are there (run, size)."""
    edges = np.array([[round(k * b / n_parts) for b in range(n_parts + 1)] for k in n])
    slots = []
    for b in range(n_parts):
        size = int((edges[:, b + 1] - edges[:, b]).max())
        positions = edges[:, b, None] + np.arange(size)
        there = positions < edges[:, b + 1, None]
        # What is not there repeats the first of the batch, which changes nothing in a store of instances.
        inside = np.where(there, positions, edges[:, b, None]).astype(np.float64)
        slots.append((torch.from_numpy(inside), torch.from_numpy(there)))
    return slots


def _padded(values: Sequence[Floats], dtype: torch.dtype) -> Tensor:
    """(run, longest, …) with zeros where a run is shorter."""
    longest = max(len(v) for v in values)
    result = np.zeros((len(values), longest, *values[0].shape[1:]))
    for run, v in enumerate(values):
        result[run, : len(v)] = v
    return torch.from_numpy(result).to(dtype)


@dataclass(frozen=True, eq=False)
class MateWeights:
    """What a pair of different sources weighs: mates, two sources of one group, may count for more or less than others."""

    group: Tensor  # of every source (run, source), as a number
    ratio: Tensor  # what mates weigh, in units of other pairs (run, 1, 1)

    @classmethod
    def of(cls, parts: Sequence[Part], dtype: torch.dtype) -> MateWeights | None:
        """Of the sources of the parts, in the order of their names; None where all pairs weigh the same."""
        ratio = [part.mate_ratio for part in parts]
        if all(each == 1.0 for each in ratio):
            return None
        group = []
        for part in parts:
            first = np.unique(part.source, return_index=True)[1]
            group.append(np.unique(part.groups[first], return_inverse=True)[1].astype(np.float64))
        return cls(_padded(group, torch.float64).long(), torch.tensor(ratio, dtype=dtype)[:, None, None])

    def between(self, row: Tensor, column: Tensor) -> Tensor:
        """Of pairs of sources (run, rows) and (run, columns): (run, rows, columns)."""
        of_row, of_column = (self.group.gather(1, which) for which in (row, column))
        return torch.where(of_row[..., None] == of_column[:, None], self.ratio, 1.0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All pairs of a part of every run: which are same-source, and what each kind weighs, without a list of them."""

    x: Tensor  # traces (run, n, feature), their first instance
    y: Tensor  # refs (run, m, feature), their first instance
    there_x: Tensor  # 1, or 0 for padding (run, n)
    there_y: Tensor  # (run, m)
    same: Tensor  # flat indices of the same-source pairs (run, same); padding repeats one of them
    weight_same: Tensor  # of each (run, same); 0 for padding
    weight_different: Tensor  # of each of the others (run,)
    mates: Tensor  # flat indices of those that are mates (run, mates); padding repeats one of them
    weight_mates: Tensor  # what they weigh beyond that (run, mates); 0 for padding
    watched: Tensor  # flat indices of the pairs on which axes are watched (run, pairs)
    watched_sign: Tensor  # −1 for a same-source pair, +1 for a different-source pair (run, pairs)
    watched_weight: Tensor  # (run, pairs); 0 for padding

    @classmethod
    def of(cls, parts: Sequence[Part], dtype: torch.dtype, n_watched: int, seeds: Sequence[int]) -> Evaluation:
        """The pairs of the parts; ``n_watched`` different-source pairs per run are watched axis by axis."""
        x, y = (
            _padded([_first(side) for side in s], dtype) for s in zip(*((p.trace, p.ref) for p in parts), strict=True)
        )
        m = y.shape[1]
        same, weight_same, weight_different, watched, sign, weight = [], [], [], [], [], []
        mates, weight_mates = [], []
        for part, seed in zip(parts, seeds, strict=True):
            i, j, k, l = choose_pairs(part.trace, part.ref, n_watched, (seed, 1))
            n_different = len(part.trace.source) * len(part.ref.source) - len(i)
            ratio = part.mate_ratio
            of_mate = np.argwhere(part.is_mate) if ratio != 1.0 else np.empty((0, 2), dtype=np.intp)
            each = np.full(len(i), 0.5 / LN2 / max(1, len(i)))
            same.append(i * m + j)
            weight_same.append(each)
            weight_different.append(0.5 / LN2 / max(1, n_different + (ratio - 1) * len(of_mate)))
            mates.append(of_mate[:, 0] * m + of_mate[:, 1] if len(of_mate) else np.zeros(1, dtype=np.intp))
            weight_mates.append(np.full(max(1, len(of_mate)), (ratio - 1) * weight_different[-1]))
            watched.append(np.r_[i * m + j, k * m + l])
            sign.append(np.r_[np.full(len(i), -1.0), np.ones(len(k))])
            weight.append(np.r_[each, np.full(len(k), 0.5 / LN2 / max(1, len(k)))])
        most = max(map(len, same))
        same = [np.pad(s, (0, most - len(s)), mode="edge") for s in same]
        most = max(map(len, mates))
        mates = [np.pad(s, (0, most - len(s)), mode="edge") for s in mates]
        return cls(
            x, y,
            _padded([np.ones(len(p.trace.source)) for p in parts], dtype),
            _padded([np.ones(len(p.ref.source)) for p in parts], dtype),
            torch.from_numpy(np.stack(same)), _padded(weight_same, dtype),
            torch.tensor(weight_different, dtype=dtype),
            torch.from_numpy(np.stack(mates)), _padded(weight_mates, dtype),
            _padded([w.astype(np.float64) for w in watched], torch.float64).long(),
            _padded(sign, dtype), _padded(weight, dtype),
        )  # fmt: skip

    def cllr(self, ln_lr: Tensor) -> Tensor:
        """Cllr of every run (run,) from the ln LRs of all pairs (run, n, m), which are written over."""
        flat = ln_lr.flatten(1)
        of_same = (self.weight_same * softplus(-flat.gather(1, self.same))).sum(1)
        cost = softplus(flat.scatter_(1, self.same, -torch.inf)).view_as(ln_lr)
        of_different = (self.there_x[:, None] @ cost @ self.there_y[..., None])[:, 0, 0]
        of_mates = (self.weight_mates * cost.flatten(1).gather(1, self.mates)).sum(1)
        return of_same + self.weight_different * of_different + of_mates


def _first(side: Side) -> Floats:
    """The first instance of every trace or ref: training pairs are one instance against one."""
    return side.values[np.unique(side.item, return_index=True)[1]]


def _one_of(known: list[Tensor], tensor: Tensor) -> Tensor:
    """The one of the ``known`` that equals a tensor, or else itself: batches that are alike share their memory."""
    return next((k for k in reversed(known) if torch.equal(k, tensor)), tensor)


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Same-source pairs in batches of 50 and, with each, its share of the different-source pairs (8750 in the paper).

    Let the sources stand in a circle, in the order of the epoch. A source is compared, as the trace, with itself and with the
    refs of the next h = (n − 1)/2 sources. So every two different sources meet once per epoch, one of them as the trace; 50
    sources have 50 same-source and 50 h different-source pairs: 8750 for n = 351. (For even n, sources that face each other
    across the circle meet once, too.) A batch needs 50 traces and the 50 + h refs that follow, one after the other: the pairs
    are a band of a small matrix. A source without a ref is a trace only, and a pair that falls on its missing ref is left
    out in that epoch.
    """

    x: Tensor  # traces by source (run, source, feature)
    y: Tensor  # refs by source (run, source, feature), zero where there is none
    has_ref: Tensor  # (run, source)
    sources: Shuffle
    rows: list[Tensor]  # per batch: positions of the traces (run, size)
    n: Tensor  # sources of every run (run, 1), float64
    sign: list[Tensor]  # per batch: −1 for a same-source pair, else 1 (1, size, size + h)
    band: list[Tensor]  # per batch: 1 for a pair of the batch, else 0 (run, size, size + h); few of them differ
    mates: MateWeights | None

    @classmethod
    def of(cls, parts: Sequence[Part], size: int, epochs: int, seeds: Sequence[int], dtype: torch.dtype) -> PairBatches:
        """The pairs of the training parts, which must have the same number of batches."""
        x = _padded([_first(p.trace) for p in parts], dtype)
        y, has_ref = torch.zeros_like(x), torch.zeros_like(x[..., 0])
        for run, part in enumerate(parts):
            place = torch.from_numpy(np.searchsorted(part.trace.source, part.ref.source))
            y[run, place] = torch.from_numpy(_first(part.ref)).to(dtype)
            has_ref[run, place] = 1
        n = [len(part.trace.source) for part in parts]
        shuffle = Shuffle.draw(n, epochs, seeds)
        slots = _slots(n, n_batches(min(n), size))
        reach = max(k // 2 for k in n)
        rows = []
        sign: list[Tensor] = []
        band: list[Tensor] = []
        circle = torch.tensor([[float(k)] for k in n], dtype=torch.float64)
        for positions, there in slots:
            ahead = torch.arange(positions.shape[1] + reach, dtype=torch.float64)
            step = ahead - torch.arange(positions.shape[1])[:, None]  # (size, size + h): how far ahead the ref stands
            full = circle[..., None]
            facing = (2 * step == full) & (positions[..., None] < full / 2)
            meets = (step >= 0) & ((2 * step < full) | facing) & there[..., None]
            rows.append(positions)
            sign.append(_one_of(sign, torch.where(step == 0, -1.0, 1.0).to(dtype)[None]))
            band.append(_one_of(band, meets.to(dtype)))
        return cls(x, y, has_ref, shuffle, rows, circle, sign, band, MateWeights.of(parts, dtype))

    def columns(self, batch: int) -> Tensor:
        """Positions of the refs of a batch (run, size + h): those from its first trace on, around the circle."""
        first = self.rows[batch][:, :1]
        ahead = torch.arange(self.band[batch].shape[2], dtype=first.dtype, device=first.device)
        return torch.fmod(first + ahead, self.n)

    def take(self, epoch: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Traces (run, size, feature), refs (run, size + h, feature) and the weights of their pairs."""
        row, column = (self.sources.take(epoch, p) for p in (self.rows[batch], self.columns(batch)))
        x, y = self.x.take_along_dim(row[..., None], 1), self.y.take_along_dim(column[..., None], 1)
        pairs = self.band[batch] * self.has_ref.gather(1, column)[:, None]
        same = pairs * (self.sign[batch] < 0)
        different = pairs - same
        if self.mates is not None:
            different = different * self.mates.between(row, column)
        n_same, n_different = (k.sum((1, 2), keepdim=True).clamp_min(1) for k in (same, different))
        return x, y, (same / n_same + different / n_different) * (0.5 / LN2)


@dataclass(frozen=True, eq=False)
class SourceBatches:
    """Batches of sources with all their instances."""

    instances: Tensor  # (run, source, replicate, feature)
    there: Tensor  # (run, source, replicate): 1, or 0 for padding
    sources: Shuffle
    rows: list[Tensor]  # per batch: positions of its sources (run, size)
    there_rows: list[Tensor]  # per batch: which of them are there (run, size)
    mates: MateWeights | None

    @classmethod
    def of(
        cls, parts: Sequence[Part], size: int, epochs: int, seeds: Sequence[int], dtype: torch.dtype
    ) -> SourceBatches:
        """The instances of the training parts, which must have the same number of batches."""
        counts = [np.unique(p.source, return_inverse=True, return_counts=True) for p in parts]
        n = [len(labels) for labels, _, _ in counts]
        most = max(int(c.max()) for _, _, c in counts)
        instances = np.zeros((len(parts), max(n), most, parts[0].values.shape[1]))
        there = np.zeros((len(parts), max(n), most))
        for run, (part, (_, code, count)) in enumerate(zip(parts, counts, strict=True)):
            rows = np.argsort(code, kind="stable")  # the trace's instances come first, in the order drawn
            rank = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
            instances[run, code[rows], rank] = part.values[rows]
            there[run, code[rows], rank] = 1
        slots = _slots(n, n_batches(min(n), size))
        shuffle = Shuffle.draw(n, epochs, seeds)
        return cls(
            torch.from_numpy(instances).to(dtype), torch.from_numpy(there).to(dtype), shuffle,
            [positions for positions, _ in slots], [there_rows for _, there_rows in slots], MateWeights.of(parts, dtype),
        )  # fmt: skip

"""Batches for all runs at once: which pairs, with which weight, at which step of an epoch.

Runs of one program have the same number of batches. They may differ in their numbers of sources and instances: what a
run lacks is padded, with weight zero. Every run is shuffled from a seed of its own, and does not depend on the others.

A shuffle is cheap: the items stand in a random order, drawn once per run, and epoch t visits positions
(a_t k + c_t) mod n, k = 0 … n − 1, with a random shift c_t and a random multiplier a_t that shares no factor with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lindley.llrs import Floats
from lindley.models.blocks import at_a_time, pieces
from lindley.table.splits import Part, Side, choose_pairs

__all__ = ["Dealt", "Evaluation", "MateWeights", "PairBatches", "Shuffle", "SourceBatches", "n_batches"]

LN2 = math.log(2.0)


def n_batches(n: int, size: int) -> int:
    """Batches of ``size`` items; the left-over items are spread over them, as in the paper (351 = 6 · 50 + 51)."""
    return max(1, n // size)


@dataclass(frozen=True, eq=False)
class Shuffle:
    """The orders of all epochs: positions (a k + c) mod n of a random order, per run."""

    order: Tensor  # (run, longest)
    n: Tensor  # (run, 1)
    multiplier: Tensor  # (epoch, run, 1)
    shift: Tensor  # (epoch, run, 1)

    @classmethod
    def draw(cls, numbers: Sequence[int], epochs: int, seeds: Sequence[int]) -> Shuffle:
        """A shuffle of so many items of each run, from its own seed."""
        order = np.zeros((len(numbers), max(numbers)), dtype=np.int64)
        steps = np.ones((epochs, len(numbers), 2), dtype=np.int64)
        for run, (n, seed) in enumerate(zip(numbers, seeds, strict=True)):
            rng = np.random.default_rng((seed, 0))
            order[run, :n] = np.argsort(rng.random(n), kind="stable")
            coprime = np.flatnonzero(np.gcd(np.arange(n), n) == 1) if n > 1 else np.array([1])
            steps[:, run, 0] = coprime[(rng.random(epochs) * len(coprime)).astype(int)]
            steps[:, run, 1] = (rng.random(epochs) * n).astype(int)
        schedule = torch.from_numpy(steps)
        return cls(torch.from_numpy(order), torch.tensor(numbers)[:, None], schedule[..., :1], schedule[..., 1:])

    def of(self, epoch: Tensor) -> Tensor:
        """The order of ``epoch``, a tensor with one element: items (run, longest). A shorter run begins again."""
        a, c = self.multiplier.index_select(0, epoch)[0], self.shift.index_select(0, epoch)[0]
        place = torch.arange(self.order.shape[1], device=self.order.device)
        return self.order.gather(1, (a * place + c) % self.n)


def _slots(n: Sequence[int], n_parts: int) -> list[tuple[Tensor, Tensor]]:
    """For every batch: positions (run, size) of n items per run, and which of them are there (run, size)."""
    edges = np.array([[round(k * b / n_parts) for b in range(n_parts + 1)] for k in n])
    slots = []
    for b in range(n_parts):
        size = int((edges[:, b + 1] - edges[:, b]).max())
        positions = edges[:, b, None] + np.arange(size)
        there = positions < edges[:, b + 1, None]
        # What is not there repeats the first of the batch, and weighs nothing.
        inside = np.where(there, positions, edges[:, b, None])
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
    own: Tensor  # which ref is of the same source as a trace (run, n, 1); 0 where there is none
    has_own: Tensor  # whether there is one (run, n, 1)
    weight_same: Tensor  # of the pair with it (run, n, 1); 0 where there is none
    weight_different: Tensor  # of each other pair (run,)
    mates: MateWeights | None  # where some of them weigh more or less
    source_x: Tensor  # number of the source of each trace, as `MateWeights` counts (run, n)
    source_y: Tensor  # (run, m)
    watched_x: Tensor  # traces of the pairs on which axes are watched (run, pairs, feature)
    watched_y: Tensor  # and their refs
    watched_sign: Tensor  # −1 for a same-source pair, +1 for a different-source pair (run, pairs)
    watched_weight: Tensor  # (run, pairs); 0 for padding

    @classmethod
    def of(cls, parts: Sequence[Part], dtype: torch.dtype, n_watched: int, seeds: Sequence[int]) -> Evaluation:
        """The pairs of the parts; ``n_watched`` different-source pairs per run are watched axis by axis."""
        columns: dict[str, list[Floats]] = {}
        weight_different = []
        for part, seed in zip(parts, seeds, strict=True):
            trace, ref = part.trace, part.ref
            x, y = _first(trace), _first(ref)
            i, j, k, l = choose_pairs(trace, ref, n_watched, (seed, 1))
            own, weight = np.zeros((len(x), 1)), np.zeros((len(x), 1))
            own[i, 0], weight[i, 0] = j, 0.5 / LN2 / max(1, len(i))
            n_different, ratio = float(len(x) * len(y) - len(i)), part.mate_ratio
            if ratio != 1.0:
                n_different += (ratio - 1) * np.count_nonzero(part.is_mate)
            weight_different.append(0.5 / LN2 / max(1.0, n_different))
            names = np.unique(part.source)
            each = {
                "x": x, "y": y, "there_x": np.ones(len(x)), "there_y": np.ones(len(y)), "own": own, "weight_same": weight,
                "source_x": np.searchsorted(names, trace.source), "source_y": np.searchsorted(names, ref.source),
                "watched_x": x[np.r_[i, k]], "watched_y": y[np.r_[j, l]],
                "watched_sign": np.r_[np.full(len(i), -1.0), np.ones(len(k))],
                "watched_weight": np.r_[weight[i, 0], np.full(len(k), 0.5 / LN2 / max(1, len(k)))],
            }  # fmt: skip
            for name, values in each.items():
                columns.setdefault(name, []).append(values)
        whole = {name: _padded(columns.pop(name), torch.int64) for name in ("own", "source_x", "source_y")}
        real = {name: _padded(values, dtype) for name, values in columns.items()}
        return cls(
            **whole, **real, has_own=real["weight_same"] > 0, mates=MateWeights.of(parts, dtype),
            weight_different=torch.tensor(weight_different, dtype=dtype),
        )  # fmt: skip

    def cllr(self, ln_lr: Callable[[slice], Tensor]) -> Tensor:
        """Cllr of every run (run,), from the ln LRs of some of the traces with all refs (run, rows, m) at a time.

        They are written over.
        """
        total = torch.zeros_like(self.weight_different)
        for rows in pieces(self.x.shape[1], at_a_time(VALIDATED, self.x) // max(1, len(self.x) * self.y.shape[1])):
            found, own = ln_lr(rows), self.own[:, rows]
            of_same = found.gather(2, own)
            total = total + (self.weight_same[:, rows] * softplus(-of_same)).sum((1, 2))
            cost = softplus(found.scatter_(2, own, of_same.masked_fill(self.has_own[:, rows], -torch.inf)))
            if self.mates is not None:
                cost = cost * self.mates.between(self.source_x[:, rows], self.source_y)
            of_different = (self.there_x[:, None, rows] @ cost @ self.there_y[..., None])[:, 0, 0]
            total = total + self.weight_different * of_different
        return total


VALIDATED = 1 << 18
"""Pairs that are validated at a time on a processor, over all runs: 1 MiB, which it keeps close at hand."""


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
    circle: Tensor  # places 0, 1, … n − 1, 0, … of the order, once around and on (run, n + h + 1)
    rows: list[Places]  # per batch: places of the traces
    columns: list[Places]  # per batch: places of the refs in the circle, those from its first trace on
    sign: list[Tensor]  # per batch: −1 for a same-source pair, else 1 (1, size, size + h)
    band: list[Tensor]  # per batch: 1 for a pair of the batch, else 0 (run, size, size + h); few of them differ
    weight: (
        list[Tensor] | None
    )  # per batch: what its pairs weigh (run, size, size + h), where that is alike in all epochs
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
        full = torch.tensor(n)[:, None, None]
        reach = max(k // 2 for k in n)
        rows, columns = [], []
        sign: list[Tensor] = []
        band: list[Tensor] = []
        for positions, there in _slots(n, n_batches(min(n), size)):
            ahead = torch.arange(positions.shape[1] + reach)
            step = ahead - torch.arange(positions.shape[1])[:, None]  # (size, size + h): how far ahead the ref stands
            facing = (2 * step == full) & (2 * positions[..., None] < full)
            meets = (step >= 0) & ((2 * step < full) | facing) & there[..., None]
            rows.append(_places(positions))
            columns.append(_places(positions[:, :1] + ahead))
            sign.append(_one_of(sign, torch.where(step == 0, -1.0, 1.0).to(dtype)[None]))
            band.append(_one_of(band, meets.to(dtype)))
        circle = torch.arange(max(n) + reach + 1) % full[..., 0]
        mates, weight = MateWeights.of(parts, dtype), None
        if mates is None and all(len(part.ref.source) == k for part, k in zip(parts, n, strict=True)):
            known = {(id(s), id(b)): _as_cllr(b * (s < 0), b * (s > 0)) for s, b in zip(sign, band, strict=True)}
            weight = [known[id(s), id(b)] for s, b in zip(sign, band, strict=True)]
        return cls(
            x, y, has_ref, Shuffle.draw(n, epochs, seeds), circle, rows, columns, sign, band, weight, mates
        )  # fmt: skip

    def deal(self, epoch: Tensor) -> Dealt:
        """The sources in the order of an epoch, for `take` to cut batches out of."""
        around = self.sources.of(epoch).gather(1, self.circle)
        trace = around[:, : self.x.shape[1]]
        return Dealt(around, self.x.take_along_dim(trace[..., None], 1), self.y.take_along_dim(around[..., None], 1))

    def take(self, dealt: Dealt, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Traces (run, size, feature), refs (run, size + h, feature) and the weights of their pairs."""
        rows, columns = self.rows[batch], self.columns[batch]
        if self.weight is not None:
            weight = self.weight[batch]
        else:
            row, column = _at(rows, dealt.source), _at(columns, dealt.source)
            pairs = self.band[batch] * self.has_ref.gather(1, column)[:, None]
            same = pairs * (self.sign[batch] < 0)
            different = pairs - same
            if self.mates is not None:
                different = different * self.mates.between(row, column)
            weight = _as_cllr(same, different)
        return _at(rows, dealt.x), _at(columns, dealt.y), weight


@dataclass(frozen=True, eq=False)
class Dealt:
    """Sources in the order of an epoch, in a circle: from its begin once around, and on."""

    source: Tensor  # (run, n + h + 1)
    x: Tensor  # traces, once around (run, n, feature)
    y: Tensor  # refs (run, n + h + 1, feature)


Places = slice | Tensor
"""Places of a batch in an order: one range where all runs have the same (nothing is copied then), else (run, size)."""


def _places(positions: Tensor) -> Places:
    first, size = int(positions[0, 0]), positions.shape[1]
    alike = bool((positions == torch.arange(first, first + size)).all())
    return slice(first, first + size) if alike else positions


def _at(places: Places, values: Tensor) -> Tensor:
    """What stands at the places, of (run, place) or (run, place, feature)."""
    if isinstance(places, slice):
        return values[:, places]
    return values.take_along_dim(places if values.ndim == 2 else places[..., None], 1)


def _as_cllr(same: Tensor, different: Tensor) -> Tensor:
    """What each pair weighs in Cllr (run, …), of what it weighs among those of its kind: each kind has one half."""
    n_same, n_different = (k.sum((1, 2), keepdim=True).clamp_min(1) for k in (same, different))
    return (same / n_same + different / n_different) * (0.5 / LN2)


@dataclass(frozen=True, eq=False)
class SourceBatches:
    """Batches of sources with all their instances."""

    instances: Tensor  # (run, source, replicate, feature)
    there: Tensor  # (run, source, replicate): 1, or 0 for padding
    sources: Shuffle
    rows: list[Places]  # per batch: places of its sources
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
            [_places(positions) for positions, _ in slots], [there_rows for _, there_rows in slots],
            MateWeights.of(parts, dtype),
        )  # fmt: skip

    def deal(self, epoch: Tensor) -> Tensor:
        """The sources in the order of an epoch (run, source), for `take` to cut batches out of."""
        return self.sources.of(epoch)

    def take(self, dealt: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Sources (run, size), their instances (run, size, replicate, feature), and which of those are there."""
        source = _at(self.rows[batch], dealt)
        instances = self.instances.take_along_dim(source[..., None, None], 1)
        return source, instances, self.there.take_along_dim(source[..., None], 1) * self.there_rows[batch][..., None]

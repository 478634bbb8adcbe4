"""Batches for all runs at once: which pairs, with which weight, at which step of an epoch.

Runs of one program have the same number of batches. They may differ in their numbers of sources and instances: what a
run lacks is padded, with weight zero. Every run is shuffled from a seed of its own, and does not depend on the others.

A shuffle is cheap: the items stand in a random order, drawn once per run, and epoch t visits positions
(a_t k + c_t) mod n, k = 0 … n − 1, with a random shift c_t and a random multiplier a_t that shares no factor with n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lindley.llrs import Floats
from lindley.models.exponentials import LOG2_E
from lindley.models.neural.cost import PairWeights, rows_of
from lindley.table.splits import Part, Side, choose_pairs

__all__ = ["Dealt", "Evaluation", "MateWeights", "PairBatches", "Shuffle", "SourceBatches", "n_batches"]


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

    def between(self, row: Tensor, column: Tensor) -> WeightsOfMates:
        """Of all pairs of sources (run, rows) and (run, columns)."""
        return WeightsOfMates(self.group.gather(1, row), self.group.gather(1, column), self.ratio)


@dataclass(frozen=True, eq=False)
class WeightsOfMates:
    """What pairs of sources weigh (run, rows, columns), made of those that are asked for: there may be very many."""

    row: Tensor  # group of the source of every row (run, rows)
    column: Tensor  # (run, columns)
    ratio: Tensor  # (run, 1, 1)

    def __getitem__(self, part: tuple[slice, slice]) -> Tensor:
        """Of some runs and some of their rows (run, rows, columns)."""
        runs, rows = part
        is_mate = self.row[runs, rows, None] == self.column[runs, None]
        return torch.where(is_mate, self.ratio[runs], 1.0)

    def total(self, row: Tensor, column: Tensor) -> Tensor:
        """Σ of all pairs (run,), of rows and columns that weigh 1 or 0 themselves."""
        of_group = torch.zeros_like(column).scatter_add(1, self.column, column)
        mates = (row * of_group.gather(1, self.row)).sum(1)
        return row.sum(1) * column.sum(1) + (self.ratio[:, 0, 0] - 1) * mates


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All pairs of a part of every run, without a list of them, and some that are watched axis by axis."""

    items: Tensor  # traces, and then refs (run, n + m, feature), their first instance
    weights: PairWeights  # as in Cllr
    watched: Tensor  # which items make the pairs on which axes are watched: trace and ref (run, pairs, 2)
    watched_sign: Tensor  # −1 for a same-source pair, +1 for a different-source pair (run, pairs)
    watched_weight: Tensor  # (run, pairs); 0 for padding

    @classmethod
    def of(cls, parts: Sequence[Part], dtype: torch.dtype, n_watched: int, seeds: Sequence[int]) -> Evaluation:
        """The pairs of the parts; ``n_watched`` different-source pairs per run are watched axis by axis."""
        columns: dict[str, list[Floats]] = {}
        for part, seed in zip(parts, seeds, strict=True):
            trace, ref = part.trace, part.ref
            x, y = _first(trace), _first(ref)
            i, j, k, l = choose_pairs(trace, ref, n_watched, (seed, 1))
            # The ref of a trace whose source has none is one behind the others, which weighs nothing.
            own, behind = np.full((len(x), 1), len(y)), int(len(i) < len(x))
            own[i, 0] = j
            n_different, ratio = float(len(x) * len(y) - len(i)), part.mate_ratio
            if ratio != 1.0:
                n_different += (ratio - 1) * np.count_nonzero(part.is_mate)
            names, half = np.unique(part.source), 0.5 * LOG2_E
            each = {
                "x": x, "y": np.pad(y, ((0, behind), (0, 0))), "traces": np.ones(len(x)),
                "refs": np.pad(np.ones(len(y)), (0, behind)), "own": own, "is_pair": own < len(y),
                "different": np.array([n_different]),
                "source_x": np.searchsorted(names, trace.source), "source_y": np.searchsorted(names, ref.source),
                "watched": np.c_[np.r_[i, k], np.r_[j, l]],
                "watched_sign": np.r_[np.full(len(i), -1.0), np.ones(len(k))],
                "watched_weight": np.r_[np.full(len(i), half / max(1, len(i))), np.full(len(k), half / max(1, len(k)))],
            }  # fmt: skip
            for name, values in each.items():
                columns.setdefault(name, []).append(values)
        whole = {name: _padded(columns.pop(name), torch.int64) for name in ("own", "watched", "source_x", "source_y")}
        real = {name: _padded(values, dtype) for name, values in columns.items()}
        traces, refs, is_pair, different = (real.pop(name) for name in ("traces", "refs", "is_pair", "different"))
        items = torch.cat([real.pop("x"), real.pop("y")], 1)
        whole["watched"][..., 1] += traces.shape[1]
        mates = MateWeights.of(parts, dtype)
        of_others = None if mates is None else mates.between(whole["source_x"], whole["source_y"])
        weights = PairWeights.as_cllr(traces, refs, whole["own"], is_pair, different[:, 0], of_others)
        return cls(items, weights, whole["watched"], **real)


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
    there: list[Tensor]  # per batch: 1 for a trace that is there, else 0 (run, size)
    band: list[Tensor]  # per batch: 1 for a pair of different sources, else 0 (run, size, size + h); few of them differ
    weights: list[PairWeights] | None  # per batch, where they are alike in all epochs
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
        rows, columns, there = [], [], []
        band: list[Tensor] = []
        for positions, is_there in _slots(n, n_batches(min(n), size)):
            ahead = torch.arange(positions.shape[1] + reach)
            step = ahead - torch.arange(positions.shape[1])[:, None]  # (size, size + h): how far ahead the ref stands
            facing = (2 * step == full) & (2 * positions[..., None] < full)
            meets = (step > 0) & ((2 * step < full) | facing) & is_there[..., None]
            rows.append(_places(positions))
            columns.append(_places(positions[:, :1] + ahead))
            there.append(is_there.to(dtype))
            alike = bool((meets == meets[:1]).all())
            band.append(_one_of(band, (meets[:1] if alike else meets).to(dtype).expand(len(n), -1, -1)))
        circle = torch.arange(max(n) + reach + 1) % full[..., 0]
        mates, weights = MateWeights.of(parts, dtype), None
        if mates is None and all(len(part.ref.source) == k for part, k in zip(parts, n, strict=True)):
            weights = [_weights_in_band(t, torch.ones_like(b[:, 0]), b) for t, b in zip(there, band, strict=True)]
        shuffle = Shuffle.draw(n, epochs, seeds)
        return cls(x, y, has_ref, shuffle, circle, rows, columns, there, band, weights, mates)

    def deal(self, epoch: Tensor) -> Dealt:
        """The sources in the order of an epoch, for `take` to cut batches out of."""
        around = self.sources.of(epoch).gather(1, self.circle)
        trace = around[:, : self.x.shape[1]]
        return Dealt(around, rows_of(self.x, trace), rows_of(self.y, around))

    def take(self, dealt: Dealt, batch: int) -> tuple[Tensor, PairWeights]:
        """Traces and then refs (run, size + size + h, feature), and the weights of their pairs."""
        rows, columns = self.rows[batch], self.columns[batch]
        if self.weights is not None:
            weights = self.weights[batch]
        else:
            row, column, band = _at(rows, dealt.source), _at(columns, dealt.source), self.band[batch]
            if self.mates is not None:
                band = band * self.mates.between(row, column)[:, :]
            weights = _weights_in_band(self.there[batch], self.has_ref.gather(1, column), band)
        return torch.cat([_at(rows, dealt.x), _at(columns, dealt.y)], 1), weights


def _weights_in_band(there: Tensor, has_ref: Tensor, band: Tensor) -> PairWeights:
    """Of traces (run, size) and the refs from the first one's on (run, size + h), those of the same source on the diagonal."""
    size = there.shape[1]
    own = torch.arange(size, device=there.device)[:, None].expand(len(there), -1, -1)
    is_pair, different = (there * has_ref[:, :size])[..., None], (band * has_ref[:, None]).sum((1, 2))
    return PairWeights.as_cllr(there, has_ref, own, is_pair, different, band)


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


@dataclass(frozen=True, eq=False)
class SourceBatches:
    """Batches of sources with all their instances, which are compared with each other and with all that came before."""

    instances: Tensor  # (run, source, replicate, feature)
    there: Tensor  # (run, source, replicate): 1, or 0 for padding
    sources: Shuffle
    rows: list[Places]  # per batch: places of its sources
    there_rows: list[Tensor]  # per batch: which of them are there (run, size)
    stored: Tensor  # 1 for instances that came in a batch already (run, source, replicate)
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
        is_there = torch.from_numpy(there).to(dtype)
        return cls(
            torch.from_numpy(instances).to(dtype), is_there, Shuffle.draw(n, epochs, seeds),
            [_places(positions) for positions, _ in slots], [there_rows for _, there_rows in slots],
            torch.zeros_like(is_there), MateWeights.of(parts, dtype),
        )  # fmt: skip

    def deal(self, epoch: Tensor) -> Tensor:
        """The sources in the order of an epoch (run, source), for `take` to cut batches out of."""
        return self.sources.of(epoch)

    def take(self, dealt: Tensor, batch: int) -> tuple[Tensor, PairWeights]:
        """Instances of a batch and then all instances (run, …, feature), and the weights of their pairs.

        The batch is stored. What is not stored yet weighs nothing.
        """
        source, replicates = _at(self.rows[batch], dealt), self.there.shape[2]
        present = rows_of(self.there, source) * self.there_rows[batch][..., None]
        self.stored.scatter_reduce_(1, source[..., None].expand_as(present), present, "amax")
        traces, refs, number = present.flatten(1), self.stored.flatten(1), present.sum(2)

        # A source of the batch is stored, too. Of its instances, one is compared with those that follow.
        replicate = torch.arange(replicates, device=source.device)
        own = (source[..., None] * replicates + replicate).repeat_interleave(replicates, 1)
        is_pair = (present[..., None] * present[..., None, :]).triu(1).flatten(1, 2)
        itself = (number**2).sum(1)
        if self.mates is None:
            of_others = None
            different = traces.sum(1) * refs.sum(1) - itself
        else:
            everyone = torch.arange(self.there.shape[1], device=source.device).expand(len(source), -1)
            of_others = self.mates.between(*(s.repeat_interleave(replicates, 1) for s in (source, everyone)))
            different = of_others.total(traces, refs) - self.mates.ratio[:, 0, 0] * itself
        weights = PairWeights.as_cllr(traces, refs, own, is_pair, different, of_others)
        items = torch.cat([rows_of(self.instances.flatten(2), source), self.instances.flatten(2)], 1)
        return items.reshape(len(source), -1, self.instances.shape[-1]), weights

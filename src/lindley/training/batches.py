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
from numpy.typing import NDArray
from torch import Tensor

from lindley.data.splits import Part

__all__ = ["Evaluation", "PairBatches", "Shuffle", "SourceBatches", "n_batches"]

LN2 = math.log(2.0)
Ints = NDArray[np.int64]


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
    def draw(cls, items: Sequence[Ints], epochs: int, generators: Sequence[np.random.Generator]) -> Shuffle:
        """A shuffle of each run's items from its own generator."""
        longest = max(len(i) for i in items)
        order = np.zeros((len(items), longest), dtype=np.int64)
        steps = np.ones((epochs, len(items), 2))
        for run, (item, rng) in enumerate(zip(items, generators, strict=True)):
            n = len(item)
            order[run, :n] = item[np.argsort(rng.random(n), kind="stable")]
            coprime = np.flatnonzero(np.gcd(np.arange(n), n) == 1) if n > 1 else np.array([1])
            steps[:, run, 0] = coprime[(rng.random(epochs) * len(coprime)).astype(int)]
            steps[:, run, 1] = (rng.random(epochs) * n).astype(int)
        n_items = torch.tensor([[float(len(i))] for i in items], dtype=torch.float64)
        schedule = torch.from_numpy(steps)
        return cls(torch.from_numpy(order), n_items, schedule[..., :1], schedule[..., 1:])

    def take(self, epoch: Tensor, positions: Tensor) -> Tensor:
        """The items at ``positions`` (run, size; float64) of the order of ``epoch``, a tensor with one element."""
        a, c = self.multiplier.index_select(0, epoch)[0], self.shift.index_select(0, epoch)[0]
        return self.order.gather(1, torch.fmod(a * positions + c, self.n).long())


def _slots(n: Sequence[int], n_parts: int, of: Sequence[int] | None = None) -> list[tuple[Tensor, Tensor]]:
    """For every batch: positions (run, size) of n items per run, and which of them are there (run, size).

    The items are spread as evenly as ``of`` is, where given: batch edges are proportional to those of ``of``.
    """
    of = n if of is None else of
    edges = np.array(
        [[m * round(o * b / n_parts) // o for b in range(n_parts + 1)] for m, o in zip(n, of, strict=True)]
    )
    slots = []
    for b in range(n_parts):
        size = int((edges[:, b + 1] - edges[:, b]).max())
        positions = edges[:, b, None] + np.arange(size)
        there = positions < edges[:, b + 1, None]
        slots.append((torch.from_numpy(np.where(there, positions, 0).astype(np.float64)), torch.from_numpy(there)))
    return slots


def _padded(values: Sequence[NDArray[np.float64]], dtype: torch.dtype) -> Tensor:
    """(run, longest, …) with zeros where a run is shorter."""
    longest = max(len(v) for v in values)
    result = np.zeros((len(values), longest, *values[0].shape[1:]))
    for run, v in enumerate(values):
        result[run, : len(v)] = v
    return torch.from_numpy(result).to(dtype)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All pairs of a part of every run, weighted such that Σ w softplus(s · ln LR) is its Cllr."""

    x: Tensor  # traces (run, n, feature), their first instance
    y: Tensor  # refs (run, m, feature), their first instance
    sign: Tensor  # −1 for a same-source pair, +1 for a different-source pair (run, n, m)
    weight: Tensor  # (run, n, m)
    some: Tensor  # flat indices of the pairs on which axes are watched (run, pairs)
    some_weight: Tensor  # (run, pairs)

    @classmethod
    def of(cls, parts: Sequence[Part], dtype: torch.dtype, n_watched: int, seeds: Sequence[int]) -> Evaluation:
        """The pairs of the parts; ``n_watched`` different-source pairs per run are watched axis by axis."""
        x, y = (_padded([_first(p, s) for p in parts], dtype) for s in ("trace", "ref"))
        n, m = x.shape[1], y.shape[1]
        sign, weight = np.ones((len(parts), n, m)), np.zeros((len(parts), n, m))
        some, some_weight = [], []
        for run, (part, seed) in enumerate(zip(parts, seeds, strict=True)):
            same = part.trace.source[:, None] == part.ref.source[None, :]
            i, j = np.nonzero(same)
            k, l = np.nonzero(~same)
            sign[run][: same.shape[0], : same.shape[1]] = np.where(same, -1.0, 1.0)
            weight[run][i, j], weight[run][k, l] = 0.5 / LN2 / len(i), 0.5 / LN2 / len(k)
            pick = np.random.default_rng((seed, 1)).random(len(k)).argsort(kind="stable")[:n_watched]
            some.append(np.r_[i * m + j, k[pick] * m + l[pick]])
            some_weight.append(np.r_[np.full(len(i), 0.5 / LN2 / len(i)), np.full(len(pick), 0.5 / LN2 / len(pick))])
        indices = _padded([s.astype(np.float64) for s in some], torch.float64).long()
        return cls(
            x, y, torch.from_numpy(sign).to(dtype), torch.from_numpy(weight).to(dtype),
            indices, _padded(some_weight, dtype),
        )  # fmt: skip


def _first(part: Part, side: str) -> NDArray[np.float64]:
    """The first instance of every trace or ref: training pairs are one instance against one."""
    items = getattr(part, side)
    _, first = np.unique(items.item, return_index=True)
    result: NDArray[np.float64] = items.values[first]
    return result


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Same-source pairs in batches of 50 and, with each, its share of the different-source pairs (8750 in the paper).

    Every pair of different sources occurs once per epoch, one of the two as the trace. Pairs are flat indices into the
    (traces, refs) matrix of all pairs.
    """

    x: Tensor  # (run, n, feature)
    y: Tensor  # (run, m, feature)
    same: Shuffle
    different: Shuffle
    slots: list[tuple[Tensor, Tensor]]  # per batch: positions of same-source pairs, and of different-source pairs
    sign: list[Tensor]  # per batch (run, size)
    weight: list[Tensor]  # per batch (run, size)

    @classmethod
    def of(cls, parts: Sequence[Part], size: int, epochs: int, seeds: Sequence[int], dtype: torch.dtype) -> PairBatches:
        """The pairs of the training parts, which must have the same number of batches."""
        x, y = (_padded([_first(p, s) for p in parts], dtype) for s in ("trace", "ref"))
        m = y.shape[1]
        generators = [np.random.default_rng((seed, 0)) for seed in seeds]
        pairs = [_pairs(part, m, rng) for part, rng in zip(parts, generators, strict=True)]
        n_same, n_different = ([len(p[k]) for p in pairs] for k in (0, 1))
        same_slots = _slots(n_same, n_batches(min(n_same), size))
        different_slots = _slots(n_different, len(same_slots), of=n_same)
        slots, sign, weight = [], [], []
        for (s, s_there), (d, d_there) in zip(same_slots, different_slots, strict=True):
            there = [t.double() / t.sum(1, keepdim=True) * (0.5 / LN2) for t in (s_there, d_there)]
            slots.append((s, d))
            sign.append(torch.cat([-torch.ones_like(s), torch.ones_like(d)], 1).to(dtype))
            weight.append(torch.cat(there, 1).to(dtype))
        same, different = (Shuffle.draw([p[k] for p in pairs], epochs, generators) for k in (0, 1))
        return cls(x, y, same, different, slots, sign, weight)

    def pairs(self, epoch: Tensor, batch: int) -> Tensor:
        """Flat indices of the pairs of a batch, (run, size)."""
        same, different = self.slots[batch]
        return torch.cat([self.same.take(epoch, same), self.different.take(epoch, different)], 1)


def _pairs(part: Part, n_columns: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Flat indices of the same-source pairs, and of one pair of each two different sources."""
    sources = part.trace.source
    column = np.full(len(sources), -1)  # the ref of a source, where it has one
    column[np.searchsorted(sources, part.ref.source)] = np.arange(len(part.ref.source))
    with_ref = np.flatnonzero(column >= 0)
    i, j = np.triu_indices(len(sources), 1)
    swap = (rng.random(len(i)) < 0.5) & (column[i] >= 0) | (column[j] < 0)
    trace, ref = np.where(swap, j, i), np.where(swap, i, j)
    usable = column[ref] >= 0
    different = trace[usable] * n_columns + column[ref[usable]]
    return (with_ref * n_columns + column[with_ref]).astype(np.int64), different.astype(np.int64)


@dataclass(frozen=True, eq=False)
class SourceBatches:
    """Batches of sources with all their instances."""

    instances: Tensor  # (run, source, replicate, feature)
    there: Tensor  # (run, source, replicate): 1, or 0 for padding
    sources: Shuffle
    slots: list[tuple[Tensor, Tensor]]  # per batch: positions (run, size), and which of them are there

    @classmethod
    def of(
        cls, parts: Sequence[Part], size: int, epochs: int, seeds: Sequence[int], dtype: torch.dtype
    ) -> SourceBatches:
        """The instances of the training parts, which must have the same number of batches."""
        generators = [np.random.default_rng((seed, 0)) for seed in seeds]
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
        shuffle = Shuffle.draw([np.arange(k, dtype=np.int64) for k in n], epochs, generators)
        return cls(torch.from_numpy(instances).to(dtype), torch.from_numpy(there).to(dtype), shuffle, slots)

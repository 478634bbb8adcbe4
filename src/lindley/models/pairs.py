"""LLRs of given pairs, where `lindley.models.two_level.score` gives those of all traces against all refs.

Pairs often repeat their items: n traces against n refs are n² pairs of 2 n items. So items are told apart first. Where the
pairs fill a good part of the matrix of all traces against all refs, the matrix is computed and they are taken from it;
otherwise they are computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import TypeGuard, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats
from lindley.models.between import KernelBetween, Scatter
from lindley.models.blocks import pieces
from lindley.models.two_level import PairModel, TwoLevel, item_scatter, score
from lindley.table.splits import Side

__all__ = ["distinct_items", "equal_numbers", "means_and_scatter", "score_pairs"]

Index = NDArray[np.intp]

BY_KERNELS, BY_AXES, OTHERWISE = 20, 15, 50
"""Entries of a matrix for the time of a pair on its own: for laws that sum over kernels, that go by axes, and others."""
BLOCK_MATRIX = 1 << 22
"""Entries of the matrix at a time: 32 MiB."""
BLOCK_PAIRS, BLOCK_KERNELS = 1 << 12, 1 << 16
"""Pairs at a time where they are computed one by one, and where that is by sums over kernels."""


def distinct_items(values: Floats) -> tuple[Side, Index]:
    """Items (n, instances, feature) as a side of the distinct ones, and which of them every item is (n,).

    An instance with a NaN is one that was not measured: items may so differ in their numbers of instances.

    >>> side, which = distinct_items(np.array([[[1.0], [2.0]], [[3.0], [np.nan]], [[1.0], [2.0]]]))
    >>> side.count, which
    (array([2, 1]), array([0, 1, 0]))
    """
    n, instances, features = values.shape
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(n, instances * features)
    first, which = _distinct_rows(flat)
    items = flat[first].reshape(len(first), instances, features)
    there = np.logical_not(np.isnan(items).any(axis=2))
    empty = np.flatnonzero(~there.any(axis=1))
    if empty.size or not np.isfinite(items[there]).all():
        bad = empty if empty.size else np.flatnonzero((~np.isfinite(items) & there[..., None]).any(axis=(1, 2)))
        pair = int(np.flatnonzero(np.isin(which, bad))[0])
        raise LindleyError(
            f"pair {pair + 1}: " + ("no instance is without NaN" if empty.size else "a value is infinite")
        )
    return Side(items[there], np.nonzero(there)[0], np.arange(len(first)).astype(np.str_)), which


def score_pairs(model: PairModel, traces: Side, refs: Side, trace: Index, ref: Index) -> Floats:
    """log10 LRs (pairs,) by a model of one run; pair k sets item ``trace[k]`` of the traces beside ``ref[k]`` of the refs."""
    if len(model.centre) != 1:
        raise ValueError(f"pairs are scored by a model of one run: this one has {len(model.centre)}")
    if not len(trace):
        return np.empty(0)
    a_pair = BY_AXES if model.has_axis_shares else BY_KERNELS if _has_kernels(model) else OTHERWISE
    if len(traces.source) * len(refs.source) <= a_pair * len(trace):
        return _from_matrix(model, traces, refs, trace, ref)
    return _one_by_one(model, traces, refs, trace, ref)


def _from_matrix(model: PairModel, traces: Side, refs: Side, trace: Index, ref: Index) -> Floats:
    llr = np.empty(len(trace))
    order = np.argsort(trace, kind="stable")
    rows = max(1, BLOCK_MATRIX // len(refs.source))
    edges = np.arange(0, len(traces.source) + rows, rows)
    for start, (begin, end) in zip(edges, pairwise(np.searchsorted(trace[order], edges).tolist()), strict=False):
        some = order[begin:end]
        if some.size:
            matrix = score(model, [traces[int(start) : int(start) + rows]], [refs])[0]
            llr[some] = matrix[trace[some] - start, ref[some]]
    return llr


def _one_by_one(model: PairModel, traces: Side, refs: Side, trace: Index, ref: Index) -> Floats:
    llr = np.empty(len(trace))
    for some in equal_numbers(traces, refs, trace, ref, len(trace) if _has_kernels(model) else BLOCK_PAIRS):
        i, j = trace[some], ref[some]
        with torch.inference_mode():
            if _has_kernels(model):
                ln_lr = _by_kernels(model, traces, refs, i, j)
            else:
                ln_lr = model.ln_lr_given(*means_and_scatter(model, traces, refs, i, j))[0]
        llr[some] = ln_lr.cpu().numpy() / LN10
    return llr


def equal_numbers(traces: Side, refs: Side, trace: Index, ref: Index, size: int) -> Iterator[Index]:
    """Which pairs have items of equal numbers of instances, ``size`` pairs at a time at most."""
    for n_trace, n_ref in product(np.unique(traces.count), np.unique(refs.count)):
        chosen = np.flatnonzero((traces.count[trace] == n_trace) & (refs.count[ref] == n_ref))
        for begin in range(0, len(chosen), size):
            yield chosen[begin : begin + size]


def means_and_scatter(
    model: PairModel, traces: Side, refs: Side, trace: Index, ref: Index
) -> tuple[Tensor, Tensor, int, int, Scatter | None]:
    """What ``ln_lr_given`` and ``ln_lr_pairs`` of a model of one run take, of pairs with equal numbers of instances."""
    both = (traces, trace), (refs, ref)
    (n_trace, n_ref), scatter = (int(side.count[which[0]]) for side, which in both), None
    if model.uses_scatter and n_trace + n_ref > 2:
        of_x, of_y = (item_scatter(model, side, which)[None] for side, which in both)
        scatter = Scatter(of_x, of_y, n_trace - 1, n_ref - 1)
    x, y = (torch.from_numpy(side.mean[which]).to(model.centre)[None] for side, which in both)
    return x, y, n_trace, n_ref, scatter


def _by_kernels(model: TwoLevel, traces: Side, refs: Side, trace: Index, ref: Index) -> Tensor:
    """ln LRs (pairs,) of a kernel density; what belongs to an item alone is computed once."""
    (used_x, i), (used_y, j) = (np.unique(k, return_inverse=True) for k in (trace, ref))
    x, y = (torch.from_numpy(s.mean[u]).to(model.centre)[None] for s, u in ((traces, used_x), (refs, used_y)))
    x, y = model.project(x), model.project(y)
    d, e = model.variances(int(traces.count[trace[0]]), int(refs.count[ref[0]]))
    law = cast(KernelBetween, model.between)
    of_x, of_y = law.ln_marginal(x, d)[0], law.ln_marginal(y, e)[0]
    blocks = [(i[some], j[some]) for some in pieces(len(i), BLOCK_KERNELS)]
    return torch.cat([law.ln_joint_given(x[:, k], y[:, l], d, e)[0] - of_x[k] - of_y[l] for k, l in blocks])


def _has_kernels(model: PairModel) -> TypeGuard[TwoLevel]:
    return isinstance(model, TwoLevel) and isinstance(model.between, KernelBetween)


def _distinct_rows(rows: Floats) -> tuple[Index, Index]:
    """The first of every set of equal rows, and the set of every row: by a hash of the bits, which is then verified."""
    bits = rows.view(np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**63, size=bits.shape[1], dtype=np.uint64)
    odd = factors * np.uint64(2) + np.uint64(1)
    code = ((bits ^ (bits >> np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    if not (bits[first][which] == bits).all():  # two rows of one hash
        _, first, which = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))  # in the order in which they come
    return np.sort(first), place[which.reshape(-1)]

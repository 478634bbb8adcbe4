"""Which pairs of traces and refs are of one source, and a choice of those that are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lindley.table.splits import Side

__all__ = ["choose_pairs"]

Index = NDArray[np.intp]


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

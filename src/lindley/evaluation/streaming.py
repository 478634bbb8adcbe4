"""Evaluate more pairs than memory holds: all pairs, tile by tile, into a few weighted LLRs.

Same-source LLRs are few and are kept as they are. Different-source LLRs are counted in bins, and every bin
becomes one LLR, the mean of its members, that weighs their number. The bins are split at zero and at every
same-source LLR, and what equals such a value exactly is counted apart. Hence

- whatever depends on the order of the LLRs alone (Cllr_min, EER, the misleading rates) is exact;
- Cllr and ECE are too small by at most (w ln 10)² / 8 = 4e-8 of the different-source cost, w the bin width
  (the cost is convex in ln LR, with a second derivative below the cost itself);
- curves against the LLR (Tippett, histogram, devPAV) are right to w.

Bins are 1/4096 wide for |LLR| ≤ 20 and 10 % of the LLR beyond, where the cost is linear or below 1e-19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.errors import LindleyError
from lindley.llrs import Floats, LLRs

__all__ = ["compress"]

Block = Callable[[slice, slice], ArrayLike]

BINS_PER_UNIT = 4096
FINE_TO = 20


def compress(
    block: Block, row_source: ArrayLike, column_source: ArrayLike, *, tile: int = 2048, workers: int = 1
) -> LLRs:
    """Weighted LLRs that stand for all row × column pairs.

    ``block(rows, columns)`` gives the log10 LRs of two slices of rows and columns as a matrix. Tiles that
    hold a same-source pair are asked for twice: first for the same-source LLRs, then with all others for the
    different-source counts. With the sources in the same order along both sides these are the tiles on the
    diagonal. ``row_source`` and ``column_source`` name the sources. Memory is a few tiles (``tile``² numbers)
    per worker. With ``workers`` > 1, ``block`` is called from several threads at a time.

    >>> llr = np.array([[2.0, -1.0], [-3.0, 1.5]])
    >>> compress(lambda rows, columns: llr[rows, columns], ["a", "b"], ["a", "b"]).same
    array([1.5, 2. ])
    """
    n_row = np.asarray(row_source).size
    names = np.concatenate([np.asarray(row_source), np.asarray(column_source)])
    _, number = np.unique(names, return_inverse=True)  # whole numbers compare faster than names
    row, column = number[:n_row], number[n_row:]
    tiles = list(_tiles(n_row, column.size, tile))
    mixed = [(i, j) for i, j in tiles if np.isin(row[i], column[j]).any()]
    if not mixed:
        raise LindleyError("no row and column have a source in common: there are no same-source pairs")
    mixed_corners = {(rows.start, columns.start) for rows, columns in mixed}
    lock = Lock()
    found: list[Floats] = []

    def collect_same(rows: slice, columns: slice) -> None:
        is_same = row[rows, None] == column[None, columns]
        found.append(_finite(block, rows, columns)[is_same])

    def count_different(rows: slice, columns: slice) -> None:
        values = _finite(block, rows, columns)
        if (rows.start, columns.start) in mixed_corners:
            values = values[row[rows, None] != column[None, columns]]
        filled, counts, sums = _count(values.reshape(-1), edges)
        with lock:
            count[filled] += counts
            total[filled] += sums

    _each(collect_same, mixed, workers)
    same = np.sort(np.concatenate(found))
    edges = _edges(same)
    count, total = np.zeros(2 * edges.size + 1), np.zeros(2 * edges.size + 1)
    _each(count_different, tiles, workers)

    filled = np.flatnonzero(count)
    lower = np.concatenate([[-np.inf], np.repeat(edges, 2)])  # segments: below, at and above every edge in turn
    upper = np.concatenate([np.repeat(edges, 2), [np.inf]])
    at_edge = np.arange(lower.size) % 2 == 1
    # a mean must not round onto the edge of its bin: there it would tie with a same-source LLR
    lower, upper = (
        np.where(at_edge, lower, np.nextafter(lower, np.inf)),
        np.where(at_edge, upper, np.nextafter(upper, -np.inf)),
    )
    means = np.clip(total[filled] / count[filled], lower[filled], upper[filled])
    return LLRs(same, means, None, count[filled])


def _tiles(n_row: int, n_column: int, size: int) -> Iterator[tuple[slice, slice]]:
    for i in range(0, n_row, size):
        for j in range(0, n_column, size):
            yield slice(i, min(i + size, n_row)), slice(j, min(j + size, n_column))


def _each(task: Callable[[slice, slice], None], tiles: list[tuple[slice, slice]], workers: int) -> None:
    if workers <= 1:
        for rows, columns in tiles:
            task(rows, columns)
        return
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(task, rows, columns) for rows, columns in tiles]
        try:
            for future in futures:
                future.result()
        except BaseException:  # an error or Ctrl-C: do not work through the rest first
            pool.shutdown(cancel_futures=True)
            raise


def _finite(block: Block, rows: slice, columns: slice) -> Floats:
    """The LLRs of one tile, after a look at shape and values."""
    values = np.asarray(block(rows, columns), dtype=np.float64)
    expected = (rows.stop - rows.start, columns.stop - columns.start)
    if values.shape != expected:
        raise LindleyError(f"block({rows}, {columns}) gave shape {values.shape}, expected {expected}")
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise LindleyError(
            f"the LLR of row {rows.start + i} and column {columns.start + j} is {values[i, j]}; LLRs must be finite"
        )
    return values


def _edges(same: Floats) -> Floats:
    """Increasing edges of the bins: regular ones, zero, and every same-source LLR."""
    n_fine = FINE_TO * BINS_PER_UNIT
    fine = np.arange(-n_fine, n_fine + 1) / BINS_PER_UNIT
    coarse = FINE_TO * 1.1 ** np.arange(1, 7000)  # up to 1e290
    return np.unique(np.concatenate([-coarse, fine, coarse, same]))


def _count(values: Floats, edges: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Which of the 2 n_edge + 1 segments hold values, how many and their sum.

    Sorting the values and looking the edges up in them is many times faster than the other way round.
    """
    ordered = np.sort(values)
    start = np.zeros(2 * edges.size + 1, dtype=np.intp)
    start[1::2] = np.searchsorted(ordered, edges, side="left")
    start[2::2] = np.searchsorted(ordered, edges, side="right")
    counts = np.diff(start, append=ordered.size)
    filled = np.flatnonzero(counts)
    sums = np.add.reduceat(ordered, start[filled]) if filled.size else np.empty(0)
    return filled, counts[filled].astype(np.float64), sums

"""All pairs of a matrix, traces along its rows and refs along its columns: which are same-source, and sums by source.

`compress` evaluates more pairs than memory holds: all of them, tile by tile, become a few weighted LLRs. On a GPU they are
counted where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.errors import LindleyError
from lindley.evaluation.metrics import log2_cost
from lindley.llrs import Floats, LLRs

__all__ = ["NamedPair", "PairBlocks", "PairGrid", "PairSums", "compress", "compress_several", "count_pairs"]

Index = NDArray[np.intp]
NamedPair = tuple[str, str, float]
"""The source of the trace, the source of the ref, and their LLR."""
Block = Callable[[slice, slice], Any]
"""A matrix of two slices, of rows and of columns: an array, or a tensor."""

BINS_PER_UNIT, FINE_TO = 4096, 32
"""Bins of `compress` for each unit of the LLR, and how far they go: calibrations clip LLRs below that."""
BINS_PER_SIZE, MIDDLE_TO = 1000, 10_000
"""Beyond, bins for each factor e of the LLR, and how far they go; then they are a tenth of it."""
TILE = 2048
"""Rows and columns at a time: 32 MiB of LLRs."""
SMALL_TILE = 256
"""The same where only same-source LLRs are wanted: most of a larger tile would be for nothing."""


@dataclass(frozen=True, eq=False)
class PairGrid:
    """The sources of rows and columns, as numbers: comparing names for every pair, again and again, would take long."""

    names: NDArray[np.str_]  # (sources,) sorted
    trace: Index  # (traces,) the source of every row, as its position in ``names``
    ref: Index  # (refs,) the source of every column
    weight: Floats | None = None  # of every pair (traces, refs): that of different-source pairs counts; None: one

    @classmethod
    def of(cls, trace_source: ArrayLike, ref_source: ArrayLike, weight: Floats | None = None) -> PairGrid:
        """The grid of traces and refs whose sources have these names."""
        traces, refs = np.asarray(trace_source), np.asarray(ref_source)
        names, number = np.unique(np.concatenate([traces, refs]), return_inverse=True)
        return cls(names, number[: traces.size], number[traces.size :], weight)

    @cached_property
    def is_same(self) -> NDArray[np.bool_]:
        """Whether trace and ref are of one source, (traces, refs)."""
        return np.asarray(self.trace[:, None] == self.ref[None, :])

    @cached_property
    def n_same(self) -> int:
        """The number of same-source pairs."""
        return int(self.is_same.sum())

    @property
    def n_different(self) -> int:
        """The number of different-source pairs."""
        return self.is_same.size - self.n_same

    def llrs(self, matrix: Floats, times: Floats | None = None) -> LLRs:
        """The LLRs (traces, refs) by hypothesis; ``times``: how often every source counts, see `count_pairs`."""
        if matrix.shape != self.is_same.shape:
            raise LindleyError(f"{matrix.shape} LLRs for {len(self.trace)} traces and {len(self.ref)} refs")
        if times is None:
            weight = None if self.weight is None else self.weight[~self.is_same]
            return LLRs(matrix[self.is_same], matrix[~self.is_same], None, weight)
        return LLRs(
            matrix[self.is_same], matrix[~self.is_same], times[self.same_source], self.weights(times)[~self.is_same]
        )

    def weights(self, times: Floats) -> Floats:
        """What every pair weighs (traces, refs), where source i counts ``times[i]`` times."""
        weight = np.outer(times[self.trace], times[self.ref])
        return weight if self.weight is None else weight * self.weight

    @cached_property
    def same_source(self) -> Index:
        """(n_same,) The source of every same-source pair, in the order of the rows."""
        return self.trace[np.nonzero(self.is_same)[0]]

    def misleading_first(self, matrix: Floats, same: bool) -> Index:
        """The cells of the pairs of one hypothesis, counted along the rows, those that mislead most first."""
        cells = np.flatnonzero(self.is_same == same)
        values = matrix.reshape(-1)[cells]
        return cells[np.argsort(values if same else -values, kind="stable")]

    def named(self, matrix: Floats, cells: Index) -> tuple[NamedPair, ...]:
        """The pairs of some cells by name."""
        i, j = np.unravel_index(cells, self.is_same.shape)
        traces, refs = self.names[self.trace[i]].tolist(), self.names[self.ref[j]].tolist()
        return tuple(zip(traces, refs, matrix[i, j].tolist(), strict=True))


def count_pairs(times: Floats, traces: Floats, refs: Floats) -> tuple[Floats, Floats]:
    """The numbers of same-source and of different-source pairs, where source i counts m_i times.

    The same-source pairs of i weigh m_i and the different-source pairs of i and j weigh m_i m_j: copies of one source are
    not set against each other. ``times`` is (…, sources); ``traces`` and ``refs`` are how many every source has.
    """
    return times @ (traces * refs), (times @ traces) * (times @ refs) - times**2 @ (traces * refs)


@dataclass(frozen=True, eq=False)
class PairSums:
    """A value of every pair, its cost for one, summed by source: all that means need, however often a source counts."""

    traces: Floats  # (sources,) how many each has
    refs: Floats  # (sources,)
    same: Floats  # (sources,) over its same-source pairs
    different: Floats  # (sources, sources) over the pairs of a trace of one and a ref of the other; 0 on the diagonal
    weight: Floats | None = None  # (sources, sources) of these pairs together; 0 on the diagonal; None: their number

    @classmethod
    def of(cls, grid: PairGrid, same: Floats, different: Floats) -> PairSums:
        """Sums of the values of same-source pairs (n_same,), in the order of the rows, and of all others (traces, refs)."""
        n = len(grid.names)
        cell = (n * grid.trace[:, None] + grid.ref).reshape(-1)

        def by_two(values: Floats) -> Floats:
            total = np.bincount(cell, values.reshape(-1), minlength=n * n).reshape(n, n).astype(np.float64)
            np.fill_diagonal(total, 0.0)
            return total

        return cls(
            np.bincount(grid.trace, minlength=n).astype(np.float64),
            np.bincount(grid.ref, minlength=n).astype(np.float64),
            np.bincount(grid.same_source, same, minlength=n).astype(np.float64),
            by_two(different if grid.weight is None else different * grid.weight),
            None if grid.weight is None else by_two(grid.weight),
        )

    @classmethod
    def costs(cls, grid: PairGrid, *matrices: Floats) -> PairSums:
        """What pairs cost in bits: log2(1 + 1/LR) if same-source, log2(1 + LR) if not; the mean of several matrices."""
        same = np.asarray(sum(log2_cost(-llr[grid.is_same]) for llr in matrices))
        different = np.asarray(sum(log2_cost(llr) for llr in matrices))
        return cls.of(grid, same / len(matrices), different / len(matrices))

    def means(self, times: Floats) -> tuple[Floats, Floats]:
        """Means over the same-source and over the different-source pairs, for every row of ``times`` (…, sources).

        A row says how often every source counts. NaN where there are no pairs.
        """
        same, n_same, different, n_different = self.totals(times)
        with np.errstate(invalid="ignore"):  # 0/0
            return same / n_same, different / n_different

    def totals(self, times: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The sum over the same-source pairs and their number, and both of the different-source pairs, for every row."""
        n_same, n_different = self._count(times)
        return times @ self.same, n_same, np.sum(times @ self.different * times, axis=-1), n_different

    def _count(self, times: Floats) -> tuple[Floats, Floats]:
        """`count_pairs`, with the weights of the different-source pairs."""
        n_same, n_different = count_pairs(times, self.traces, self.refs)
        return n_same, n_different if self.weight is None else np.sum(times @ self.weight * times, axis=-1)

    def mean(self, times: Floats) -> Floats:
        """Half of each of `means`; of costs this is Cllr."""
        same, different = self.means(times)
        return np.asarray(0.5 * (same + different))

    def shares(self) -> tuple[Floats, Floats]:
        """What every source adds to the `mean` (sources,), by its same-source and by its different-source pairs.

        A different-source pair belongs half to the source of its trace and half to that of its ref, so that the shares of all
        sources sum to the mean.
        """
        n_same, n_different = self._count(np.ones(len(self.same)))
        different = self.different.sum(axis=0) + self.different.sum(axis=1)
        return self.same / (2 * n_same), different / (4 * n_different)


@dataclass(frozen=True, eq=False)
class PairBlocks:
    """Pairs of rows and columns that are scored a block at a time, as there are more than memory holds.

    ``block(rows, columns)`` gives the log10 LRs of two slices as a matrix: an array, or a tensor, which is counted where it is.
    ``weight`` is that of every pair (rows, columns), one unless given: a matrix, or what gives the weights of two slices.
    """

    block: Block
    row_source: ArrayLike
    column_source: ArrayLike
    weight: Floats | Block | None = None

    @cached_property
    def grid(self) -> PairGrid:
        """Which pairs are same-source."""
        return PairGrid.of(self.row_source, self.column_source)

    def tiles(self, size: int) -> list[_Tile]:
        """All pairs, as squares of so many rows and columns at most."""
        return _Tile(self, slice(0, self.grid.trace.size), slice(0, self.grid.ref.size), True).cut(size)


@dataclass(frozen=True, eq=False)
class _Tile:
    """A block of rows and columns."""

    pairs: PairBlocks
    rows: slice
    columns: slice
    has_same: bool  # whether there is a same-source pair among them

    def cut(self, size: int) -> list[_Tile]:
        """The same pairs, as squares of so many rows and columns at most."""
        row, column = self.pairs.grid.trace, self.pairs.grid.ref
        both = product(_slices(self.rows, size), _slices(self.columns, size))
        return [_Tile(self.pairs, i, j, self.has_same and bool(np.isin(row[i], column[j]).any())) for i, j in both]

    @property
    def is_same(self) -> NDArray[np.bool_]:
        """(rows, columns)."""
        grid = self.pairs.grid
        return np.asarray(grid.trace[self.rows, None] == grid.ref[None, self.columns])

    @property
    def weight(self) -> Floats | None:
        """(rows, columns)."""
        weight = self.pairs.weight
        if weight is None or isinstance(weight, np.ndarray):
            return None if weight is None else weight[self.rows, self.columns]
        return np.asarray(weight(self.rows, self.columns), dtype=np.float64)

    def llr(self) -> Any:
        """(rows, columns), as an array; as a tensor where it lies on a GPU. Shape and values are looked at."""
        found: Any = self.pairs.block(self.rows, self.columns)
        on_gpu = hasattr(found, "device") and getattr(found.device, "type", "cpu") != "cpu"
        values: Any = found.double() if on_gpu else np.asarray(found, dtype=np.float64)
        expected = (self.rows.stop - self.rows.start, self.columns.stop - self.columns.start)
        if tuple(values.shape) != expected:
            shape = tuple(values.shape)
            raise LindleyError(f"block({self.rows}, {self.columns}) gave shape {shape}, expected {expected}")
        finite = values.isfinite() if on_gpu else np.isfinite(values)
        if not finite.all():
            i, j = np.argwhere(~_array(finite))[0]
            raise LindleyError(
                f"the LLR of row {self.rows.start + i} and column {self.columns.start + j} is {float(values[i, j])}; LLRs must "
                "be finite"
            )
        return values


def compress(
    block: Block,
    row_source: ArrayLike,
    column_source: ArrayLike,
    *,
    weight: Floats | Block | None = None,
    tile: int = TILE,
) -> LLRs:
    """Weighted LLRs that stand for all row × column pairs.

    Same-source LLRs are few and are kept as they are. Different-source LLRs are counted in bins, and every bin
    becomes one LLR, the mean of its members, that weighs their number. The bins are split at zero and at every
    same-source LLR, and what equals such a value exactly is counted apart. Hence

    - whatever depends on the order of the LLRs alone (Cllr_min, EER, the misleading rates) is exact;
    - Cllr and ECE are too small by at most (w ln 10)² / 8 = 4e-8 of the different-source cost, w the bin width
      (the cost is convex in ln LR, with a second derivative below the cost itself);
    - curves against the LLR (Tippett, histogram, devPAV) are right to w: T(x + w) ≤ the curve at x ≤ T(x − w), with T that
      of all pairs.

    Bins are w = 1/4096 wide for |LLR| ≤ 32. Beyond, where the cost is linear or below 1e-31, they are a thousandth of the LLR,
    and a tenth of it from 10,000 on.

    ``block``, ``row_source``, ``column_source`` and ``weight`` are those of `PairBlocks`. Tiles that hold a same-source pair
    are asked for twice: first, in small pieces, for the same-source LLRs, then with all others for the different-source counts.
    With the sources in the same order along both sides these are the tiles on the diagonal.
    Memory is a few tiles (``tile``² numbers).

    >>> llr = np.array([[2.0, -1.0], [-3.0, 1.5]])
    >>> compress(lambda rows, columns: llr[rows, columns], ["a", "b"], ["a", "b"]).same
    array([1.5, 2. ])
    """
    return compress_several([PairBlocks(block, row_source, column_source, weight)], tile)


def compress_several(several: Sequence[PairBlocks], tile: int = TILE, side_by_side: Map = map) -> LLRs:
    """`compress` of several sets of pairs together, such as those of the folds of a cross-fit.

    ``side_by_side`` may count several tiles at once; it gives the counts in the order of the tiles.
    """
    tiles = [each for pairs in several for each in pairs.tiles(tile)]
    mixed = [small for each in tiles if each.has_same for small in each.cut(SMALL_TILE) if small.has_same]
    if not mixed:
        raise LindleyError("no row and column have a source in common: there are no same-source pairs")
    same = np.sort(np.concatenate([_chosen(each.llr(), each.is_same) for each in mixed]))
    edges = _edges(same)
    count, total = np.zeros(2 * edges.size + 1), np.zeros(2 * edges.size + 1)
    for filled, counts, sums in side_by_side(lambda each: _counted(each, edges), tiles):
        count[filled] += counts
        total[filled] += sums

    filled = np.flatnonzero(count)
    # Segments are below, at and above every edge in turn. A mean must not round onto the edge of its bin: there it would tie
    # with a same-source LLR.
    at_edge, ends = filled % 2 == 1, np.concatenate([[-np.inf], edges, [np.inf]])
    lower, upper = ends[(filled + 1) // 2], ends[filled // 2 + 1]
    lower, upper = (np.where(at_edge, e, np.nextafter(e, to)) for e, to in ((lower, np.inf), (upper, -np.inf)))
    means = np.clip(total[filled] / count[filled], lower, upper)
    return LLRs(same, means, None, count[filled])


def _slices(whole: slice, size: int) -> list[slice]:
    return [slice(i, min(i + size, whole.stop)) for i in range(whole.start, whole.stop, size)]


def _array(values: Any) -> NDArray[Any]:
    """A tensor on a GPU as an array here; an array as it is."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _chosen(values: Any, which: NDArray[np.bool_]) -> Floats:
    """Some of the values of a tile."""
    if isinstance(values, np.ndarray):
        return np.asarray(values[which])
    i, j = np.nonzero(which)
    return _array(values[i.tolist(), j.tolist()])


def _edges(same: Floats) -> Floats:
    """Increasing edges of the bins: regular ones, zero, and every same-source LLR."""
    n_fine = FINE_TO * BINS_PER_UNIT
    fine = np.arange(-n_fine, n_fine + 1) / BINS_PER_UNIT
    middle = np.geomspace(FINE_TO, MIDDLE_TO, round(np.log(MIDDLE_TO / FINE_TO) * BINS_PER_SIZE) + 1)[1:]
    coarse = MIDDLE_TO * 1.1 ** np.arange(1, 6900)  # up to 1e289
    return np.unique(np.concatenate([-coarse, -middle, fine, middle, coarse, same]))


Map = Callable[[Callable[["_Tile"], "Counted"], Sequence["_Tile"]], Iterable["Counted"]]
Counted = tuple[NDArray[np.intp], Floats, Floats]
"""Which of the 2 n_edge + 1 segments hold values, how many (by weight) and their sum."""


def _counted(tile: _Tile, edges: Floats) -> Counted:
    """The different-source pairs of a tile, by segment."""
    values, weight = tile.llr(), tile.weight
    if not isinstance(values, np.ndarray):
        return _count_there(values, tile.is_same if tile.has_same else None, weight, edges)
    if not tile.has_same:
        return _count(values.reshape(-1), None if weight is None else weight.reshape(-1), edges)
    different = ~tile.is_same
    return _count(values[different], None if weight is None else weight[different], edges)


def _count(values: Floats, weight: Floats | None, edges: Floats) -> Counted:
    """Sorting the values and looking the edges up in them is many times faster than the other way round."""
    if weight is None:
        ordered, heavy = np.sort(values), None
    else:
        order = np.argsort(values)
        ordered, heavy = values[order], weight[order]
    if not ordered.size:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    start = np.zeros(2 * edges.size + 1, dtype=np.intp)
    # Of the edges, those among the values: there are none below and above.
    first, end = np.searchsorted(edges, ordered[0], side="left"), np.searchsorted(edges, ordered[-1], side="right")
    inside = edges[first:end]
    left = np.searchsorted(ordered, inside, side="left")
    right, equal = left.copy(), ordered[left] == inside
    right[equal] = np.searchsorted(ordered, inside[equal], side="right")
    start[2 * first + 1 : 2 * end : 2], start[2 * first + 2 : 2 * end + 1 : 2] = left, right
    start[2 * end + 1 :] = ordered.size
    counts = np.diff(start, append=ordered.size)
    filled = np.flatnonzero(counts)
    if heavy is None:
        return filled, counts[filled].astype(np.float64), np.add.reduceat(ordered, start[filled])
    totals, sums = (np.add.reduceat(each, start[filled]) for each in (heavy, heavy * ordered))
    return filled[totals > 0], totals[totals > 0], sums[totals > 0]


def _count_there(values: Any, is_same: NDArray[np.bool_] | None, weight: Floats | None, edges: Floats) -> Counted:
    """The same for a tensor, where it lies: a GPU looks every value up in the edges faster than it sorts them."""
    import torch  # only for tensors, so that it is loaded already

    ends = torch.from_numpy(edges).to(values.device)
    n = 2 * edges.size + 1
    at = torch.searchsorted(ends, values)
    segment = 2 * at + (ends[at.clamp_max(edges.size - 1)] == values)
    if is_same is not None:
        segment[torch.from_numpy(is_same).to(values.device)] = n  # one more, which is left out
    heavy = None if weight is None else torch.from_numpy(weight).to(values.device)
    flat = segment.reshape(-1)
    counts = torch.bincount(flat, None if heavy is None else heavy.reshape(-1), minlength=n + 1)[:n].double()
    sums = torch.bincount(flat, (values if heavy is None else heavy * values).reshape(-1), minlength=n + 1)[:n]
    filled = torch.nonzero(counts > 0)[:, 0]
    return _array(filled), _array(counts[filled]), _array(sums[filled])

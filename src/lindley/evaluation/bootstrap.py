"""Confidence intervals by resampling sources.

Pairs that share a source are dependent, so that resampling pairs gives intervals that are far too narrow. Here n sources are
drawn with replacement from the n sources; related sources, a group, are drawn together. What a pair of sources that are drawn
so many times weighs is in `lindley.evaluation.pair_grid.count_pairs`. The same draws serve several figures at once, *paired*:
the difference of two systems, or of two numbers of measurements, is that of the same sources drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from lindley.arrays import as_numbers
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min, eer
from lindley.evaluation.pair_grid import PairGrid, PairSums, count_pairs
from lindley.llrs import Floats, LLRs

__all__ = ["LEVEL", "Estimate", "bootstrap", "bootstrap_llrs", "draw_sources", "proportion", "replicates"]

LEVEL = 0.95
"""The share of the replicates that an interval holds, unless another is asked for."""

Metric = Callable[[LLRs], float]


@dataclass(frozen=True)
class Estimate:
    """A figure on the sources as they are, and its percentile interval."""

    value: float
    lower: float
    upper: float

    @classmethod
    def of(cls, figure: Floats, level: float = LEVEL) -> Estimate:
        """Of a figure on the sources as they are and as `draw_sources` has drawn them, (1 + draws,).

        The interval is the central ``level`` of the draws; a bound is infinite where the draws around it are.
        """
        value, replicated = float(figure[0]), figure[1:]
        if undefined := np.count_nonzero(np.isnan(replicated)):
            raise LindleyError(
                f"bootstrap: the metric is not a number in {undefined} of {replicated.size} replicates, so that it has no "
                "interval; choose another metric"
            )
        shares = (1 - level) / 2, (1 + level) / 2
        if np.isfinite(replicated).all():
            lower, upper = np.quantile(replicated, shares)
        else:  # there is nothing between a finite value and ∞: the next replicate further out
            lower = np.quantile(replicated, shares[0], method="lower")
            upper = np.quantile(replicated, shares[1], method="higher")
        return cls(value, float(lower), float(upper))


def proportion(figure: Floats, least: float, most: float, level: float = LEVEL) -> Estimate:
    """A share of pairs, and limits that are right when it is 0 too, where resampling finds nothing but 0.

    ``figure`` is as in `Estimate.of`. If its replicates have the variance v, a share p is as certain as one of
    n = p (1 − p)/v independent pairs, and the limits are the exact ones of p n events among n (Clopper and Pearson 1934, with
    the effective number of Korn and Graubard 1998). ``least`` and ``most`` bound n: so many pairs are independent for sure, and
    so many at the best. Where all replicates agree, n is ``most``.

    >>> round(proportion(np.zeros(100), 315, 315).upper, 4)
    0.0116
    """
    value, variance = float(figure[0]), float(figure[1:].var())
    n = min(max(value * (1 - value) / variance, least), most) if variance > 0 else most
    events, tail = value * n, (1 - level) / 2
    lower = float(betaincinv(events, n - events + 1, tail)) if events > 0 else 0.0
    upper = float(betaincinv(events + 1, n - events, 1 - tail)) if events < n else 1.0
    return Estimate(value, min(lower, value), max(upper, value))


def bootstrap(
    llr: ArrayLike,
    trace_source: ArrayLike,
    ref_source: ArrayLike,
    metric: Metric = cllr,
    *,
    n: int = 1000,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """``metric`` with its percentile interval over ``n`` resamplings of the sources (Efron 1979).

    ``llr`` is the matrix (n_trace, n_ref) of log10 LRs of all pairs; ``trace_source`` and ``ref_source`` name
    the source of every row and column. A resampling without any same-source or any different-source pair is
    drawn again. Any metric of `LLRs` will do; `cllr`, `cllr_min` and `eer` are faster than others.

    A bound is infinite where the metric of the replicates around it is, as ``devpav`` of separated LLRs.
    """
    if not 0 < level < 1 or n < 1:
        raise LindleyError(f"bootstrap: level must lie between 0 and 1 and n above 0, got {level} and {n}")
    matrix, grid = as_numbers(llr, "the LLRs"), PairGrid.of(trace_source, ref_source)
    _ = grid.llrs(matrix)  # refuses wrong shapes, infinities and one-sided data
    costs = PairSums.costs(grid, matrix)
    times = draw_sources(grid.names, n, seed, costs.traces, costs.refs)
    if metric is cllr:
        return Estimate.of(costs.mean(times), level)
    if metric in (cllr_min, eer):
        return Estimate.of(replicates(grid, matrix, times, {"metric": metric})["metric"], level)
    return Estimate.of(np.array([metric(grid.llrs(matrix, row)) for row in times]), level)


def bootstrap_llrs(llrs: LLRs, *, n: int = 1000, seed: int = 0, level: float = LEVEL) -> Estimate | None:
    """Cllr of held-out pairs, with its interval over ``n`` resamplings of the groups of sources that they are of.

    The models and the calibration stay as they are. There is no interval where it is not known of which sources the pairs are,
    or where resamplings leave no pairs.
    """
    groups = np.unique([group for *_, trace, ref in llrs.matrices for group in (*trace.tolist(), *ref.tolist())])
    if len(groups) < 2:
        return None
    draws = np.random.default_rng(seed).multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=n)
    times = np.concatenate([np.ones((1, len(groups))), draws])
    totals, at_same, at_different = np.zeros((4, n + 1)), 0, 0
    for trace, ref, trace_group, ref_group in llrs.matrices:
        grid = PairGrid.of(trace, ref)
        same, different = slice(at_same, at_same + grid.n_same), slice(at_different, at_different + grid.n_different)
        at_same, at_different = same.stop, different.stop
        matrix = np.empty(grid.is_same.shape)
        matrix[grid.is_same], matrix[~grid.is_same] = llrs.same[same], llrs.different[different]
        if llrs.different_weight is not None:
            weight = np.zeros(matrix.shape)
            weight[~grid.is_same] = llrs.different_weight[different]
            grid = replace(grid, weight=weight)
        group_of = dict(
            zip([*trace.tolist(), *ref.tolist()], [*trace_group.tolist(), *ref_group.tolist()], strict=True)
        )
        member = np.searchsorted(groups, [group_of[name] for name in grid.names.tolist()])
        totals += PairSums.costs(grid, matrix).totals(times[:, member])
    cost_same, n_same, cost_different, n_different = totals[:, (totals[1] > 0) & (totals[3] > 0)]
    cllrs = 0.5 * (cost_same / n_same + cost_different / n_different)
    return Estimate.of(cllrs, level) if len(cllrs) > 1 else None


def draw_sources(
    group: ArrayLike, n: int, seed: int, traces: Floats | float = 1.0, refs: Floats | float = 1.0
) -> Floats:
    """How often every source counts, (1 + n, sources): once each, and then as often as it is drawn.

    Sources of one ``group`` are drawn together. ``traces`` and ``refs``: how many every source has. Draws without any
    same-source or any different-source pair are replaced by others.
    """
    labels, member = np.unique(np.asarray(group), return_inverse=True)
    if len(labels) < 2:
        raise LindleyError(f"a bootstrap over sources needs two of them, or two groups, and there is {len(labels)}")
    rng = np.random.default_rng(seed)
    even, each = np.full(len(labels), 1 / len(labels)), np.ones(len(member))
    kept = each[None]
    while len(kept) <= n:
        draws = rng.multinomial(len(labels), even, size=n).astype(np.float64)[:, member]
        n_same, n_different = count_pairs(draws, traces * each, refs * each)
        kept = np.concatenate([kept, draws[(n_same > 0) & (n_different > 0)]])
    return kept[: n + 1]


def replicates(grid: PairGrid, llr: Floats, times: Floats, metrics: Mapping[str, Metric]) -> dict[str, Floats]:
    """Metrics that depend on the order of the LLRs (Cllr_min, EER, devPAV), for every row of ``times``.

    Different-source pairs between two neighbouring same-source LLRs are counted as one: nothing separates them. So every
    replicate is a count of 2 n_same bins. devPAV is right to the distance between two neighbouring LLRs.
    """
    values, unit_of_same = np.unique(llr[grid.is_same], return_inverse=True)
    unit = np.searchsorted(values, llr, side="right")  # 0: below every same-source LLR
    tied = llr == values[unit - 1]
    n_cells = 2 * len(values) + 2
    cell = np.where(grid.is_same, n_cells, 2 * unit + ~tied)  # the last one: not a different-source pair
    flat = cell.reshape(-1)
    at = np.full(n_cells + 1, -np.inf)
    np.maximum.at(at, flat, llr.reshape(-1))  # the highest LLR of a bin stands for all of it …
    if (cell == 1).any():
        at[1] = llr[cell == 1].min()  # … but the lowest of all is where the LLRs begin
    filled = np.flatnonzero(np.isfinite(at[:n_cells]))
    found: dict[str, list[float]] = {name: [] for name in metrics}
    for row in times:
        different = np.bincount(flat, grid.weights(row).reshape(-1), minlength=n_cells + 1)[filled].astype(np.float64)
        same = np.bincount(unit_of_same, row[grid.same_source], minlength=len(values)).astype(np.float64)
        llrs = LLRs(values, at[filled], same, different)
        for name, metric in metrics.items():
            found[name].append(metric(llrs))
    return {name: np.array(each) for name, each in found.items()}

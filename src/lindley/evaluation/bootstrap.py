"""Confidence intervals by resampling sources.

Pairs that share a source are dependent, so that resampling pairs gives intervals that are far too narrow.
Here n sources are drawn with replacement from the n sources. With multiplicity m_i of source i, the
same-source pairs of i weigh m_i and the different-source pairs of i and j weigh m_i m_j (the copies of one
source are not set against each other).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min, cllr_min_of_counts, log2_cost
from lindley.llrs import Floats, LLRs

__all__ = ["Interval", "bootstrap", "percentiles"]

Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Interval:
    """A metric with its percentile interval."""

    estimate: float  # on the pairs as they are
    lower: float
    upper: float
    level: float
    n: int  # replicates


def bootstrap(
    llr: ArrayLike,
    trace_source: ArrayLike,
    ref_source: ArrayLike,
    metric: Callable[[LLRs], float] = cllr,
    *,
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    fast: bool = True,
) -> Interval:
    """Percentile interval of ``metric`` over ``n`` resamplings of the sources (Efron 1979).

    ``llr`` is the matrix (n_trace, n_ref) of log10 LRs of all pairs; ``trace_source`` and ``ref_source`` name
    the source of every row and column. A resampling without any same-source or any different-source pair is
    drawn again. ``fast`` uses matrix products for ``cllr`` and a single sort for ``cllr_min``; the numbers
    are the same.

    A bound is infinite where the metric of the replicates around it is, as ``devpav`` of separated LLRs.
    """
    if not 0 < level < 1 or n < 1:
        raise LindleyError(f"bootstrap: level must lie between 0 and 1 and n above 0, got {level} and {n}")
    pairs = _Pairs.of(llr, trace_source, ref_source)
    rng = np.random.default_rng(seed)
    replicates = _FAST[metric] if fast and metric in _FAST else _any_metric(metric)
    values = np.array(list(replicates(pairs, _multiplicities(pairs, rng, n))))
    lower, upper = percentiles(values, level)
    return Interval(metric(pairs.llrs()), lower, upper, level, n)


def percentiles(values: Floats, level: float) -> tuple[float, float]:
    """The central ``level`` of the replicates of a metric, some of which may be infinite."""
    if np.isnan(values).any():
        raise LindleyError(
            f"bootstrap: the metric is not a number in {np.count_nonzero(np.isnan(values))} of {values.size} "
            "replicates, so that it has no interval; choose another metric"
        )
    lower, upper = (1 - level) / 2, (1 + level) / 2
    if np.isfinite(values).all():
        return float(np.quantile(values, lower)), float(np.quantile(values, upper))
    # there is nothing between a finite value and ∞: the next replicate further out
    return float(np.quantile(values, lower, method="lower")), float(np.quantile(values, upper, method="higher"))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs with the number of their sources, different-source pairs in order of LLR."""

    n_source: int
    same: Floats  # (n_same,) LLRs
    same_source: Ints  # (n_same,)
    different: Floats  # (n_different,) increasing LLRs
    different_trace: Ints  # (n_different,) source of the trace
    different_ref: Ints  # (n_different,) source of the ref

    @classmethod
    def of(cls, llr: ArrayLike, trace_source: ArrayLike, ref_source: ArrayLike) -> _Pairs:
        traces, refs = np.asarray(trace_source), np.asarray(ref_source)
        matrix = np.asarray(llr, dtype=np.float64)
        LLRs.from_matrix(matrix, traces, refs)  # refuses wrong shapes, infinities and one-sided data
        names, number = np.unique(np.concatenate([traces, refs]), return_inverse=True)
        trace_number, ref_number = number[: traces.size], number[traces.size :]
        is_same = trace_number[:, None] == ref_number[None, :]
        row, column = np.nonzero(~is_same)
        different = matrix[row, column]
        order = np.argsort(different)
        return cls(
            names.size,
            matrix[is_same],
            trace_number[np.nonzero(is_same)[0]],
            different[order],
            trace_number[row[order]],
            ref_number[column[order]],
        )

    def llrs(self, times: Floats | None = None) -> LLRs:
        """The pairs weighed by the multiplicities of their sources."""
        if times is None:
            return LLRs(self.same, self.different)
        weight_different = times[self.different_trace] * times[self.different_ref]
        return LLRs(self.same, self.different, times[self.same_source], weight_different)

    def by_source(self, values: Floats) -> Floats:
        """Sum one value per different-source pair into a matrix (source of trace, source of ref)."""
        cell = self.different_trace * self.n_source + self.different_ref
        total = np.bincount(cell, values, minlength=self.n_source**2)
        return np.asarray(total.reshape(self.n_source, self.n_source), dtype=np.float64)


Replicates = Callable[[_Pairs, Floats], Iterator[float]]


def _multiplicities(pairs: _Pairs, rng: np.random.Generator, n: int) -> Floats:
    """(n, n_source) counts of draws with replacement, each leaving pairs of both kinds."""
    even = np.full(pairs.n_source, 1 / pairs.n_source)
    per_source = np.bincount(pairs.same_source, minlength=pairs.n_source)
    per_cell = pairs.by_source(np.ones_like(pairs.different))
    kept = np.empty((0, pairs.n_source))
    while kept.shape[0] < n:
        draws = rng.multinomial(pairs.n_source, even, size=n).astype(np.float64)
        usable = (draws @ per_source > 0) & (np.sum(draws @ per_cell * draws, axis=1) > 0)
        kept = np.concatenate([kept, draws[usable]])
    return kept[:n]


def _any_metric(metric: Callable[[LLRs], float]) -> Replicates:
    def replicates(pairs: _Pairs, multiplicities: Floats) -> Iterator[float]:
        for times in multiplicities:
            yield metric(pairs.llrs(times))

    return replicates


def _cllr(pairs: _Pairs, multiplicities: Floats) -> Iterator[float]:
    """Cllr is a ratio of forms in m: linear for same-source pairs, quadratic for different-source pairs."""
    cost_same = np.bincount(pairs.same_source, log2_cost(-pairs.same), minlength=pairs.n_source)
    n_same = np.bincount(pairs.same_source, minlength=pairs.n_source)
    cost_different = pairs.by_source(log2_cost(pairs.different))
    n_different = pairs.by_source(np.ones_like(pairs.different))

    def quadratic(matrix: Floats) -> Floats:
        return np.asarray(np.sum(multiplicities @ matrix * multiplicities, axis=1))

    same = (multiplicities @ cost_same) / (multiplicities @ n_same)
    yield from 0.5 * (same + quadratic(cost_different) / quadratic(n_different))


def _cllr_min(pairs: _Pairs, multiplicities: Floats) -> Iterator[float]:
    """The order of the LLRs is the same in every replicate: only the counts between them change."""
    value, unit_of_same = np.unique(pairs.same, return_inverse=True)
    start = np.searchsorted(pairs.different, value, side="left")
    cell = np.repeat(np.arange(value.size + 1), np.diff(start, prepend=0, append=pairs.different.size))

    def count(unit: Ints, weight: Floats) -> Floats:
        return np.asarray(np.bincount(unit, weight, minlength=value.size + 1), dtype=np.float64)

    for times in multiplicities:
        weight = times[pairs.different_trace] * times[pairs.different_ref]
        yield cllr_min_of_counts(count(unit_of_same + 1, times[pairs.same_source]), count(cell, weight))


_FAST: dict[Callable[[LLRs], float], Replicates] = {cllr: _cllr, cllr_min: _cllr_min}

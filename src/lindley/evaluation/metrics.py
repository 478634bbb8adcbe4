"""Metrics: pure functions from LLRs to one number, every pair counted with its weight.

Each takes the log10 LRs of same-source and of different-source pairs as two arrays, or as one `LLRs`:

    >>> round(cllr([1.0, 2.0, -0.3], [-2.0, -1.0, 0.1, -4.0]), 4)
    0.455

⟨·⟩_same and ⟨·⟩_different are weighted means over the pairs of one hypothesis.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lindley.calibration.counted import pav, tally
from lindley.llrs import LN10, Floats, LLRs

__all__ = [
    "cllr",
    "cllr_cal",
    "cllr_different",
    "cllr_min",
    "cllr_same",
    "devpav",
    "eer",
    "error_rates",
    "log2_cost",
    "mean",
    "misleading_different",
    "misleading_same",
    "summary",
]

MAX_LLR = 1e200
"""LLRs beyond ± this count as this in a cost: sums of costs stay finite, whatever LLRs there are."""


def mean(values: Floats, weight: Floats | None) -> float:
    """Weighted mean, ``None`` being equal weights."""
    return float(values.mean() if weight is None else np.sum(weight * values) / weight.sum())


def log2_cost(llr: Floats) -> Floats:
    """log2(1 + 10^llr): the cost in bits of a log10 LLR for a different-source pair; always finite.

    LLRs count up to ±1e200.
    """
    ln_lr = LN10 * np.clip(llr, -MAX_LLR, MAX_LLR)
    return np.asarray((np.maximum(ln_lr, 0.0) + np.log1p(np.exp(-np.abs(ln_lr)))) / math.log(2.0))


def cllr_same(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Same-source half of Cllr: ⟨log2(1 + 1/LR)⟩_same."""
    llrs = LLRs.of(same, different)
    return mean(log2_cost(-llrs.same), llrs.same_weight)


def cllr_different(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Different-source half of Cllr: ⟨log2(1 + LR)⟩_different."""
    llrs = LLRs.of(same, different)
    return mean(log2_cost(llrs.different), llrs.different_weight)


def cllr(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Log-likelihood-ratio cost, ½ ⟨log2(1 + 1/LR)⟩_same + ½ ⟨log2(1 + LR)⟩_different.

    Brümmer and du Preez (2006), Computer Speech & Language 20, 230–275. 0 is perfect; 1 is what LR = 1 for
    every pair scores; a value above 1 is worse than no LR at all.
    """
    llrs = LLRs.of(same, different)
    return 0.5 * (cllr_same(llrs) + cllr_different(llrs))


def cllr_min(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Cllr after PAV on the same pairs: what the best monotone recalibration would leave (discrimination).

    Brümmer and du Preez (2006). 0 for perfectly separated LLRs; never above Cllr or 1.
    """
    blocks = pav(LLRs.of(same, different))
    mixed = np.isfinite(blocks.llr)  # a block of one kind of pairs has LR 0 or ∞, and costs nothing
    cost_same = np.sum(blocks.same[mixed] * log2_cost(-blocks.llr[mixed])) / blocks.same.sum()
    cost_different = np.sum(blocks.different[mixed] * log2_cost(blocks.llr[mixed])) / blocks.different.sum()
    return float(0.5 * (cost_same + cost_different))


def cllr_cal(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Calibration loss, Cllr − Cllr_min ≥ 0 (Brümmer and du Preez 2006)."""
    llrs = LLRs.of(same, different)
    return cllr(llrs) - cllr_min(llrs)


def eer(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Equal error rate: where P(LLR < t | same) = P(LLR ≥ t | different).

    The errors at the thresholds t between the observed LLRs are points of the ROC; the rate is read where the
    straight lines between consecutive points cross the diagonal. Above ½ when LLRs point the wrong way.
    """
    miss, false_alarm = error_rates(LLRs.of(same, different))
    excess = miss - false_alarm  # from −1 to 1, never decreasing
    after = int(np.argmax(excess >= 0))
    if after == 0 or excess[after] == 0:
        return float(miss[after])
    part = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(miss[after - 1] + part * (miss[after] - miss[after - 1]))


def error_rates(llrs: LLRs) -> tuple[Floats, Floats]:
    """P(LLR < t | same) and P(LLR ≥ t | different) as t rises past all LLRs: the corners of the ROC."""
    counts = tally(llrs)
    # raise the threshold: past a same-source value with its ties, then past what lies above it in the unit
    beyond = counts.different - counts.tied
    steps_same = np.stack([counts.same, np.zeros_like(counts.same)], axis=1).reshape(-1)
    steps_different = np.stack([counts.tied, beyond], axis=1).reshape(-1)
    miss = np.concatenate([[0.0], np.cumsum(steps_same)]) / counts.same.sum()
    false_alarm = 1 - np.concatenate([[0.0], np.cumsum(steps_different)]) / counts.different.sum()
    return miss, false_alarm


def misleading_same(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Share of same-source pairs with LLR < 0."""
    llrs = LLRs.of(same, different)
    return mean((llrs.same < 0).astype(np.float64), llrs.same_weight)


def misleading_different(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Share of different-source pairs with LLR > 0."""
    llrs = LLRs.of(same, different)
    return mean((llrs.different > 0).astype(np.float64), llrs.different_weight)


def devpav(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> float:
    """Mean distance, in log10 units, between the LLRs and their PAV transform.

    Vergeer, van Schaik and Sjerps (2021), Forensic Science International 321, 110722. The PAV transform y(x)
    is a line through the points (LLR, PAV LLR) with a finite PAV LLR; devPAV is ∫ |y(x) − x| dx over the
    range of these points, divided by the length of that range, and |y − x| itself for a single point. As in
    LiR.

    Infinite when no PAV LLR is finite, that is, for perfectly separated LLRs (LiR: NaN): every LLR is then
    infinitely far from its PAV transform, −∞ or ∞.
    """
    blocks = pav(LLRs.of(same, different))
    finite = np.isfinite(blocks.llr)
    if not finite.any():
        return math.inf
    x = np.stack([blocks.lower[finite], blocks.upper[finite]], axis=1).reshape(-1).clip(-MAX_LLR, MAX_LLR)
    off = np.repeat(blocks.llr[finite], 2) - x
    length = x[-1] - x[0]
    if length == 0:
        return float(abs(off[0]))
    left, right = np.abs(off[:-1]), np.abs(off[1:])
    # ∫ |linear| / Δx: a trapezium, or two triangles where the line crosses the identity
    crosses = np.sign(off[:-1]) * np.sign(off[1:]) < 0
    total = np.where(crosses, left + right, np.inf)
    height = np.where(crosses, (left * (left / total) + right * (right / total)) / 2, (left + right) / 2)
    return float(np.sum(height * (np.diff(x) / length)))


def summary(same: ArrayLike | LLRs, different: ArrayLike | None = None) -> dict[str, float]:
    """All metrics by name, with the number of pairs (the sum of the weights) under each hypothesis."""
    llrs = LLRs.of(same, different)
    metrics = (cllr, cllr_min, cllr_cal, cllr_same, cllr_different, eer, misleading_same, misleading_different, devpav)
    n_same, n_different = (float(weight.sum()) for weight in llrs.weights)
    return {metric.__name__: metric(llrs) for metric in metrics} | {"n_same": n_same, "n_different": n_different}

"""Metrics: pure functions from LLRs to one number, every pair counted with its weight.

⟨·⟩_same and ⟨·⟩_different are weighted means over the pairs of one hypothesis.
"""

from __future__ import annotations

import math

import numpy as np

from lindley.calibration.pav import Blocks, log10_ratio, pav, pool, tally
from lindley.llrs import LN10, Floats, LLRs

__all__ = [
    "cllr",
    "cllr_cal",
    "cllr_different",
    "cllr_min",
    "cllr_min_of_counts",
    "cllr_same",
    "devpav",
    "eer",
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


def cllr_same(llrs: LLRs) -> float:
    """Same-source half of Cllr: ⟨log2(1 + 1/LR)⟩_same."""
    return mean(log2_cost(-llrs.same), llrs.same_weight)


def cllr_different(llrs: LLRs) -> float:
    """Different-source half of Cllr: ⟨log2(1 + LR)⟩_different."""
    return mean(log2_cost(llrs.different), llrs.different_weight)


def cllr(llrs: LLRs) -> float:
    """Log-likelihood-ratio cost, ½ ⟨log2(1 + 1/LR)⟩_same + ½ ⟨log2(1 + LR)⟩_different.

    Brümmer and du Preez (2006), Computer Speech & Language 20, 230–275. 0 is perfect; 1 is what LR = 1 for
    every pair scores; a value above 1 is worse than no LR at all.
    """
    return 0.5 * (cllr_same(llrs) + cllr_different(llrs))


def cllr_min(llrs: LLRs) -> float:
    """Cllr after PAV on the same pairs: what the best monotone recalibration would leave (discrimination).

    Brümmer and du Preez (2006). 0 for perfectly separated LLRs; never above Cllr or 1.
    """
    counts = tally(llrs)
    return cllr_min_of_counts(counts.same, counts.different)


def cllr_min_of_counts(same: Floats, different: Floats) -> float:
    """`cllr_min` from the counts per unit of a `lindley.calibration.pav.Tally`."""
    first = pool(same, different)
    block_same, block_different = np.add.reduceat(same, first), np.add.reduceat(different, first)
    n_same, n_different = float(same.sum()), float(different.sum())
    mixed = (block_same > 0) & (block_different > 0)  # a pure block has LR 0 or ∞, and costs nothing
    block_same, block_different = block_same[mixed], block_different[mixed]
    llr = log10_ratio(block_same, block_different, n_same, n_different)
    cost_same = float(np.sum(block_same * log2_cost(-llr))) / n_same
    cost_different = float(np.sum(block_different * log2_cost(llr))) / n_different
    return 0.5 * (cost_same + cost_different)


def cllr_cal(llrs: LLRs) -> float:
    """Calibration loss, Cllr − Cllr_min ≥ 0 (Brümmer and du Preez 2006)."""
    return cllr(llrs) - cllr_min(llrs)


def eer(llrs: LLRs) -> float:
    """Equal error rate: where P(LLR < t | same) = P(LLR ≥ t | different).

    The errors at the thresholds t between the observed LLRs are points of the ROC; the rate is read where the
    straight lines between consecutive points cross the diagonal. Above ½ when LLRs point the wrong way.
    """
    counts = tally(llrs)
    # raise the threshold: past a same-source value with its ties, then past what lies above it in the unit
    beyond = counts.different - counts.tied
    steps_same = np.stack([counts.same, np.zeros_like(counts.same)], axis=1).reshape(-1)
    steps_different = np.stack([counts.tied, beyond], axis=1).reshape(-1)
    miss = np.concatenate([[0.0], np.cumsum(steps_same)]) / counts.same.sum()
    false_alarm = 1 - np.concatenate([[0.0], np.cumsum(steps_different)]) / counts.different.sum()
    excess = miss - false_alarm  # from −1 to 1, never decreasing
    after = int(np.argmax(excess >= 0))
    if after == 0 or excess[after] == 0:
        return float(miss[after])
    part = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(miss[after - 1] + part * (miss[after] - miss[after - 1]))


def misleading_same(llrs: LLRs) -> float:
    """Share of same-source pairs with LLR < 0."""
    return mean((llrs.same < 0).astype(np.float64), llrs.same_weight)


def misleading_different(llrs: LLRs) -> float:
    """Share of different-source pairs with LLR > 0."""
    return mean((llrs.different > 0).astype(np.float64), llrs.different_weight)


def devpav(llrs: LLRs) -> float:
    """Mean distance, in log10 units, between the LLRs and their PAV transform.

    Vergeer, van Schaik and Sjerps (2021), Forensic Science International 321, 110722. The PAV transform y(x)
    is a line through the points (LLR, PAV LLR) with a finite PAV LLR; devPAV is ∫ |y(x) − x| dx over the
    range of these points, divided by the length of that range, and |y − x| itself for a single point. As in
    LiR.

    Infinite when no PAV LLR is finite, that is, for perfectly separated LLRs (LiR: NaN): every LLR is then
    infinitely far from its PAV transform, −∞ or ∞.
    """
    return _devpav_of_blocks(pav(llrs))


def _devpav_of_blocks(blocks: Blocks) -> float:
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


def summary(llrs: LLRs) -> dict[str, float]:
    """All metrics by name, with the number of pairs (the sum of the weights) under each hypothesis."""
    weight_same, weight_different = llrs.weights
    return {
        "cllr": cllr(llrs),
        "cllr_min": cllr_min(llrs),
        "cllr_cal": cllr_cal(llrs),
        "cllr_same": cllr_same(llrs),
        "cllr_different": cllr_different(llrs),
        "eer": eer(llrs),
        "misleading_same": misleading_same(llrs),
        "misleading_different": misleading_different(llrs),
        "devpav": devpav(llrs),
        "n_same": float(weight_same.sum()),
        "n_different": float(weight_different.sum()),
    }

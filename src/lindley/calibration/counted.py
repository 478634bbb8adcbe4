"""Calibrations by counts of pairs: pool-adjacent-violators (PAV), on which Cllr_min and devPAV rest, and bounds on the LLR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats, LLRs, weight_above

__all__ = ["Blocks", "Bounds", "Elub", "InvarianceBounds", "Pav", "Tally", "elub", "iv", "pav", "tally"]


@dataclass(frozen=True, eq=False)
class Tally:
    """Pairs counted (weighed) by the same-source value that they reach.

    Unit 0 holds the different-source pairs below every same-source value; unit i ≥ 1 holds what lies in
    [value_i, value_{i+1}), the last one being open-ended. For everything that depends on the order of the
    LLRs alone (PAV, ROC) these counts say all: different-source pairs between two same-source values never
    separate.
    """

    same: Floats  # (n_unit,) weight of the same-source pairs at value_i; 0 for unit 0
    different: Floats  # (n_unit,) weight of the different-source pairs in the unit
    tied: Floats  # (n_unit,) the part of ``different`` that equals value_i exactly
    lower: Floats  # (n_unit,) smallest LLR in the unit: value_i
    upper: Floats  # (n_unit,) largest LLR in the unit


def tally(llrs: LLRs) -> Tally:
    """Count pairs by unit; pairs of weight zero are not there."""
    llrs = llrs.present
    different, weight_different = llrs.different, llrs.different_weight
    value, unit_of_same = np.unique(llrs.same, return_inverse=True)
    n_unit = value.size + 1
    unit = np.searchsorted(value, different, side="right")

    def weigh(index: NDArray[np.intp], weight: Floats | None) -> Floats:
        return np.bincount(index, weights=weight, minlength=n_unit).astype(np.float64)

    at_value = different == value[unit - 1]  # unit 0 looks at the last value, which it cannot equal
    tied = weigh(unit[at_value], None if weight_different is None else weight_different[at_value])
    lowest = min(value[0], different.min())
    lower = np.concatenate([[lowest], value])
    upper = lower.copy()
    np.maximum.at(upper, unit, different)
    return Tally(weigh(unit_of_same + 1, llrs.same_weight), weigh(unit, weight_different), tied, lower, upper)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a PAV, lowest first. All that lies in a block gets the block's LLR."""

    lower: Floats  # (n_block,) smallest LLR in the block
    upper: Floats  # (n_block,) largest LLR in the block
    same: Floats  # (n_block,) weight of same-source pairs
    different: Floats  # (n_block,) weight of different-source pairs
    llr: Floats  # (n_block,) log10 LR, increasing; −inf or inf where one of the two has no weight


def pav(llrs: LLRs, misleading: int = 0) -> Blocks:
    """Blocks of the pool-adjacent-violators algorithm, both hypotheses weighing one half.

    LR of a block = (its share of the same-source pairs) / (its share of the different-source pairs), after
    pooling neighbours until this increases (Zadrozny and Elkan 2002; Brümmer and du Preez 2006). Same-source
    and different-source pairs with equal LLRs are in one block. ``misleading``: how many same-source pairs
    are added below, and different-source pairs above, everything else.
    """
    from scipy.optimize import isotonic_regression  # on demand: it takes a third of a second

    counts = tally(llrs)
    same, different = counts.same.copy(), counts.different.copy()
    same[0] += misleading
    different[-1] += misleading
    # isotonic regression of the share of same-source pairs: whether two neighbours violate the order depends on their ratios
    # alone, so the blocks are the same for every prior. Ratios above some 1e15 are not told apart.
    total = same + different
    present = np.flatnonzero(total > 0)  # units without weight join the block before them
    pooled = isotonic_regression(same[present] / total[present], weights=total[present]).blocks
    first = present[pooled[:-1]]
    last = np.append(first[1:], same.size) - 1
    block_same, block_different = np.add.reduceat(same, first), np.add.reduceat(different, first)
    with np.errstate(divide="ignore"):
        ln_lr = np.log(block_same) - np.log(same.sum()) - np.log(block_different) + np.log(different.sum())
    return Blocks(counts.lower[first], counts.upper[last], block_same, block_different, ln_lr / LN10)


@dataclass(frozen=True, eq=False)
class Pav:
    """PAV as a calibration: monotone, finite, linear in the posterior probability between blocks.

    Inside a block the output is the block's LLR. Between the end of one block and the start of the next, the
    posterior probability at prior odds 1 runs linearly, as in scikit-learn's ``IsotonicRegression`` and LiR.
    Beyond the fitted LLRs the outermost value is held.
    """

    llr_in: Floats  # (n_point,) ends of the blocks, increasing
    llr_out: Floats  # (n_point,) their calibrated LLRs, non-decreasing, finite

    @classmethod
    def fit(cls, llrs: LLRs, misleading: int = 1) -> Self:
        """Fit on ``llrs``; ``misleading`` ≥ 1 pairs added to each side keep the outermost LRs finite."""
        if misleading < 1:
            raise LindleyError(f"PAV calibration needs misleading ≥ 1 for finite LLRs, got {misleading}")
        blocks = pav(llrs, misleading)
        points = np.stack([blocks.lower, blocks.upper], axis=1).reshape(-1)
        values = np.maximum.accumulate(np.repeat(blocks.llr, 2))
        new = np.append(True, np.diff(points) > 0)  # a block of one value has its two ends in one place
        return cls(points[new], values[new])

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10)."""
        # probability and complement are interpolated apart: 1 − p would lose the small one's digits
        p_same = np.interp(llr, self.llr_in, 1 / (1 + 10**-self.llr_out))
        p_different = np.interp(llr, self.llr_in, 1 / (1 + 10**self.llr_out))
        return np.asarray(np.log10(p_same) - np.log10(p_different), dtype=np.float64)

    def describe(self) -> dict[str, float]:
        """Size and range as plain numbers."""
        return {
            "points": float(self.llr_in.size),
            "llr_lowest": float(self.llr_out[0]),
            "llr_highest": float(self.llr_out[-1]),
        }


@dataclass(frozen=True)
class Bounds:
    """LLRs below ``lower`` become ``lower``, those above ``upper`` become ``upper`` (log10)."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"the lower bound {self.lower} is above the upper bound {self.upper}")

    def __call__(self, llr: Floats) -> Floats:
        """Bounded LLRs (log10)."""
        return np.asarray(np.clip(llr, self.lower, self.upper), dtype=np.float64)

    def describe(self) -> dict[str, float]:
        """The bounds as plain numbers."""
        return {"lower": self.lower, "upper": self.upper}


class Elub(Bounds):
    """Bounds by `elub`."""

    @classmethod
    def fit(cls, llrs: LLRs) -> Self:
        """Fit on ``llrs``."""
        return cls(*elub(llrs))


class InvarianceBounds(Bounds):
    """Bounds by `iv`."""

    @classmethod
    def fit(cls, llrs: LLRs) -> Self:
        """Fit on ``llrs``."""
        return cls(*iv(llrs))


def elub(
    same: ArrayLike | LLRs,
    different: ArrayLike | None = None,
    *,
    misleading: int = 1,
    step: float = 0.01,
    extremes: tuple[float, float] = (-9.0, 9.0),
) -> tuple[float, float]:
    """Empirical lower and upper bound of the LLR.

    Vergeer, van Es, de Jongh, Alberink and Stoel (2016), Science & Justice 56, 482–491. Whoever accepts
    "same source" when LR > t loses, per pair and up to a constant,

        E(t) = P(LR ≤ t | same) + t · P(LR > t | different),

    and min(1, t) with no LR at all. An LLR is supported as far as E(t) ≤ min(1, t) between it and zero, with
    ``misleading`` same-source pairs of LR = 0 and different-source pairs of LR = ∞ added. Thresholds are the
    multiples of ``step`` (log10) within the LLRs and within −log10(n_same + 1), log10(n_different + 1); LLRs
    beyond ``extremes`` count as those. A bound on the wrong side of zero is zero. As in LiR.
    """
    llrs = LLRs.of(same, different).present.map(lambda llr: np.clip(llr, *extremes))
    weight_same, weight_different = llrs.weights
    n_same, n_different = float(weight_same.sum()), float(weight_different.sum())
    lowest, highest = llrs.range
    lowest, highest = max(lowest, -np.log10(n_same + 1)), min(highest, np.log10(n_different + 1))
    first = min(0, int(np.floor_divide(lowest, step)))
    last = max(0, int(np.floor_divide(highest, step)) + 1)
    threshold = np.arange(first, last + 1, dtype=np.float64) * step  # with an exact zero

    # compared as LRs, as LiR does: an LLR on a threshold falls to the same side
    lr_threshold = 10**threshold
    same_lr, different_lr = (np.power(10.0, each, out=each) for each in (llrs.same, llrs.different))  # clipped copies
    same_above = weight_above(same_lr, weight_same, lr_threshold, at=False)
    different_above = weight_above(different_lr, weight_different, lr_threshold, at=False)
    share_same = same_above / (n_same + misleading)
    share_different = (different_above + misleading) / (n_different + misleading)
    worse = 1 - share_same + lr_threshold * share_different > np.minimum(1.0, lr_threshold)

    lower = np.max(threshold[worse & (threshold <= 0)] + step, initial=threshold[0])
    upper = np.min(threshold[worse & (threshold >= 0)] - step, initial=threshold[-1])
    return min(float(lower), 0.0), max(float(upper), 0.0)


def iv(
    same: ArrayLike | LLRs,
    different: ArrayLike | None = None,
    *,
    step: float = 0.001,
    extremes: tuple[float, float] = (-20.0, 20.0),
) -> tuple[float, float]:
    """Bounds by invariance verification.

    Alberink, Leegwater, Malmborg, Nordgaard, Sjerps and van der Ham (2025), A transparent method to determine
    limit values for likelihood ratio systems. The LR of the event "LLR ≥ t" should be at least 10ᵗ, that of
    "LLR < t" at most 10ᵗ. With p(t) = (weight at or above t + ½) / (total weight + 1), Jeffreys' estimate,

        Δ_upper(t) = log10 p_same(t) − log10 p_different(t) − t,
        Δ_lower(t) = t − log10(1 − p_same(t)) + log10(1 − p_different(t)).

    The upper bound is the last threshold before the first one with Δ_upper < 0, or the largest same-source
    LLR if there is none; the lower bound is the first threshold after the last one with Δ_lower < 0, or the
    smallest different-source LLR. Thresholds run from the smallest LLR (or 0) in steps of ``step`` (log10)
    past the largest (or 0); LLRs beyond ``extremes`` count as those. A bound on the wrong side of zero is
    zero.

    As in LiR, but where the outermost threshold itself fails the bound is 0; there, LiR 1.8 indexes past the
    end of the thresholds (upper: wraps round to the largest; lower: IndexError).
    """
    llrs = LLRs.of(same, different).present.map(lambda llr: np.clip(llr, *extremes))
    weight_same, weight_different = llrs.weights
    lowest, highest = llrs.range
    threshold = np.arange(min(0.0, lowest), max(0.0, highest) + step, step)

    p_same = _share_above(llrs.same, weight_same, threshold)
    p_different = _share_above(llrs.different, weight_different, threshold)
    delta_upper = np.log10(p_same) - np.log10(p_different) - threshold
    delta_lower = threshold - np.log10(1 - p_same) + np.log10(1 - p_different)

    before, after = np.append(0.0, threshold[:-1]), np.append(threshold[1:], 0.0)  # of every threshold, its neighbours
    fails = np.flatnonzero(delta_upper < 0)
    upper = before[fails[0]] if fails.size else llrs.same.max()
    fails = np.flatnonzero(delta_lower < 0)
    lower = after[fails[-1]] if fails.size else llrs.different.min()
    return min(float(lower), 0.0), max(float(upper), 0.0)


def _share_above(values: Floats, weight: Floats, threshold: Floats) -> Floats:
    """Jeffreys' estimate of the share at or above each threshold: (weight + ½) / (total + 1)."""
    return np.asarray((weight_above(values, weight, threshold) + 0.5) / (weight.sum() + 1))

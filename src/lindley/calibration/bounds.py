"""Bounds on the LLR: how far the number of pairs lets an LR be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from lindley.llrs import Floats, LLRs

__all__ = ["Bounds", "Elub", "InvarianceBounds", "elub", "iv"]


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
    llrs: LLRs, misleading: int = 1, step: float = 0.01, extremes: tuple[float, float] = (-9.0, 9.0)
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
    same, different = np.clip(llrs.same, *extremes), np.clip(llrs.different, *extremes)
    weight_same, weight_different = llrs.weights
    n_same, n_different = float(weight_same.sum()), float(weight_different.sum())
    lowest, highest = _range(same, different, weight_same, weight_different)
    lowest, highest = max(lowest, -np.log10(n_same + 1)), min(highest, np.log10(n_different + 1))
    first = min(0, int(np.floor_divide(lowest, step)))
    last = max(0, int(np.floor_divide(highest, step)) + 1)
    threshold = np.arange(first, last + 1, dtype=np.float64) * step  # with an exact zero

    # compared as LRs, as LiR does: an LLR on a threshold falls to the same side
    lr_threshold = 10**threshold
    same_above = _weight_above(10**same, weight_same, lr_threshold, "right")
    different_above = _weight_above(10**different, weight_different, lr_threshold, "right")
    share_same = same_above / (n_same + misleading)
    share_different = (different_above + misleading) / (n_different + misleading)
    worse = 1 - share_same + lr_threshold * share_different > np.minimum(1.0, lr_threshold)

    lower = np.max(threshold[worse & (threshold <= 0)] + step, initial=threshold[0])
    upper = np.min(threshold[worse & (threshold >= 0)] - step, initial=threshold[-1])
    return min(float(lower), 0.0), max(float(upper), 0.0)


def iv(llrs: LLRs, step: float = 0.001, extremes: tuple[float, float] = (-20.0, 20.0)) -> tuple[float, float]:
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
    same, different = np.clip(llrs.same, *extremes), np.clip(llrs.different, *extremes)
    weight_same, weight_different = llrs.weights
    lowest, highest = _range(same, different, weight_same, weight_different)
    threshold = np.arange(min(0.0, lowest), max(0.0, highest) + step, step)

    p_same = _share_above(same, weight_same, threshold)
    p_different = _share_above(different, weight_different, threshold)
    delta_upper = np.log10(p_same) - np.log10(p_different) - threshold
    delta_lower = threshold - np.log10(1 - p_same) + np.log10(1 - p_different)

    fails = np.flatnonzero(delta_upper < 0)
    if fails.size == 0:
        upper = same[weight_same > 0].max()
    else:
        upper = threshold[fails[0] - 1] if fails[0] > 0 else 0.0
    fails = np.flatnonzero(delta_lower < 0)
    if fails.size == 0:
        lower = different[weight_different > 0].min()
    else:
        lower = threshold[fails[-1] + 1] if fails[-1] + 1 < threshold.size else 0.0
    return min(float(lower), 0.0), max(float(upper), 0.0)


def _range(same: Floats, different: Floats, weight_same: Floats, weight_different: Floats) -> tuple[float, float]:
    values = np.concatenate([same[weight_same > 0], different[weight_different > 0]])
    return float(values.min()), float(values.max())


def _weight_above(values: Floats, weight: Floats, threshold: Floats, side: str) -> Floats:
    """Weight of the values above each of the increasing thresholds: > for side "right", ≥ for "left"."""
    # the number of thresholds below (or at) a value tells which of them it passes: no sort of the values
    passed = np.searchsorted(threshold, values, side="left" if side == "right" else "right")
    by_passed = np.bincount(passed, weight, minlength=threshold.size + 1)
    return np.asarray(np.cumsum(by_passed[::-1])[::-1][1:], dtype=np.float64)


def _share_above(values: Floats, weight: Floats, threshold: Floats) -> Floats:
    """Jeffreys' estimate of the share at or above each threshold: (weight + ½) / (total + 1)."""
    return np.asarray((_weight_above(values, weight, threshold, "left") + 0.5) / (weight.sum() + 1))

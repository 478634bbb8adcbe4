"""Kernel calibration: the ratio of two kernel densities of the LLR itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats, LLRs

__all__ = ["Kernel"]

BINS_PER_BANDWIDTH = 8
BANDWIDTHS_PER_RANGE = 2000  # a bandwidth is at least the range of the LLRs over this
REACH = 9  # bandwidths: a kernel this much further away than the nearest one adds less than e^−40 of it


@dataclass(frozen=True, eq=False)
class Kernel:
    """LLR → log10 f(LLR | same) − log10 f(LLR | different), f a Gaussian kernel density.

    Bandwidth per hypothesis: Silverman (1986, eq. 3.31), h = 0.9 · min(sd, IQR / 1.349) · n^(−1/5), n the sum
    of the weights; sd alone where the IQR is zero, a spread of 1 where both are; never below 1/2000 of the
    range of the LLRs. The pairs are binned (linear binning, 8 bins to a bandwidth), the log density is a
    log-sum-exp over the kernels near a point, hence finite everywhere, and the ratio is tabulated at 8 points
    to the smaller bandwidth, linear in between.

    Beyond the fitted LLRs the value at the edge is held: out there both densities are the tail of one
    Gaussian kernel, and their ratio tells about bandwidths, not about evidence. The map need not be monotone.
    If all LLRs are equal they tell nothing, and the output is 0.
    """

    llr_in: Floats  # (n_knot,) increasing
    llr_out: Floats  # (n_knot,)
    bandwidth_same: float
    bandwidth_different: float

    @classmethod
    def fit(cls, llrs: LLRs, clip: float | None = 26.0) -> Self:
        """Fit on ``llrs``; LLRs beyond ±clip (log10) count as ±clip, here and in every later use."""
        if clip is not None and not clip > 0:
            raise LindleyError(f"kernel calibration: clip must be above 0, got {clip}")
        limit = np.inf if clip is None else clip
        weight_same, weight_different = llrs.weights
        same = np.clip(llrs.same[weight_same > 0], -limit, limit)
        different = np.clip(llrs.different[weight_different > 0], -limit, limit)
        weight_same, weight_different = weight_same[weight_same > 0], weight_different[weight_different > 0]
        lowest, highest = min(same.min(), different.min()), max(same.max(), different.max())
        floor = (highest - lowest) / BANDWIDTHS_PER_RANGE
        h_same = max(_silverman(same, weight_same), floor)
        h_different = max(_silverman(different, weight_different), floor)
        if highest == lowest:
            return cls(np.array([lowest]), np.zeros(1), h_same, h_different)
        n_knot = int(np.ceil((highest - lowest) / min(h_same, h_different) * BINS_PER_BANDWIDTH)) + 1
        knots = np.linspace(lowest, highest, max(n_knot, 2))
        ln_same = _ln_density(knots, same, weight_same, h_same)
        ln_different = _ln_density(knots, different, weight_different, h_different)
        return cls(knots, (ln_same - ln_different) / LN10, h_same, h_different)

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10)."""
        return np.asarray(np.interp(llr, self.llr_in, self.llr_out), dtype=np.float64)

    def describe(self) -> dict[str, float]:
        """Bandwidths and range (log10) as plain numbers."""
        return {
            "bandwidth_same": self.bandwidth_same,
            "bandwidth_different": self.bandwidth_different,
            "llr_from": float(self.llr_in[0]),
            "llr_to": float(self.llr_in[-1]),
        }


def _silverman(values: Floats, weight: Floats) -> float:
    n = weight.sum()
    mean = np.sum(weight * values) / n
    sd = float(np.sqrt(np.sum(weight * (values - mean) ** 2) / n))
    low, high = np.quantile(values, [0.25, 0.75], method="inverted_cdf", weights=weight)
    iqr = float(high - low)
    if sd <= 1e-12 * float(np.abs(values).max()):  # equal values: what is left is the rounding of their mean
        sd = 0.0
    spread = min(sd, iqr / 1.349) or sd or 1.0
    return float(0.9 * spread * n**-0.2)


def _ln_density(at: Floats, values: Floats, weight: Floats, bandwidth: float) -> Floats:
    """Natural log of Σ_k w_k N(at; x_k, bandwidth²) / Σ_k w_k over the bins x_k that hold weight.

    Bins are ``bandwidth`` / 8 apart or more, so the REACH · 8 bins on either side of a point cover at least
    REACH bandwidths beyond the nearest one: what is left out is below e^(−REACH²/2) of what is kept.
    """
    width = bandwidth / BINS_PER_BANDWIDTH
    place = (values - values.min()) / width
    left = np.floor(place).astype(np.intp)
    right_share = place - left
    mass = np.bincount(left, weight * (1 - right_share), minlength=left.max() + 2)
    mass += np.bincount(left + 1, weight * right_share, minlength=mass.size)
    held = np.flatnonzero(mass > 0)
    x, ln_mass = values.min() + held * width, np.log(mass[held] / weight.sum())

    reach = REACH * BINS_PER_BANDWIDTH
    k = np.searchsorted(x, at)[:, None] + np.arange(-reach, reach)  # (n_at, 2 · reach)
    inside = (k >= 0) & (k < x.size)
    k = np.where(inside, k, 0)
    ln_term = np.where(inside, ln_mass[k] - 0.5 * ((at[:, None] - x[k]) / bandwidth) ** 2, -np.inf)
    largest = ln_term.max(axis=1)
    ln_sum = largest + np.log(np.exp(ln_term - largest[:, None]).sum(axis=1))
    return np.asarray(ln_sum - np.log(bandwidth * np.sqrt(2 * np.pi)), dtype=np.float64)

"""Smooth calibrations: the affine map of the LLR that minimises Cllr, and the ratio of two kernel densities of the LLR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats, LLRs

__all__ = ["Kernel", "Logistic"]

SLOPE_SD = 10.0  # prior sd of the slope around 1
CENTRE_SD = 100.0  # prior sd, in log10 units, of the shift at the centre of the LLRs around 0
NO_CLIP = 1e12  # what clip=None clips at: only there to keep products from overflowing
MAX_STEPS = 500
BINS_PER_BANDWIDTH = 8
BANDWIDTHS_PER_RANGE = 2000  # a bandwidth is at least the range of the LLRs over this
REACH = 9  # bandwidths: a kernel this much further away than the nearest one adds less than e^−40 of it


@dataclass(frozen=True)
class Logistic:
    """LLR → intercept + slope · LLR, slope ≥ 0, with the least Cllr.

    Brümmer and du Preez (2006), doi:10.1016/j.csl.2005.08.001. With softplus(z) = ln(1 + eᶻ), x = ln LR and
    both hypotheses weighing one half, the fit minimises over (a, b)

        ½ ⟨softplus(−a − b x)⟩_same + ½ ⟨softplus(a + b x)⟩_different + prior / N,

    where N is the number of pairs under the rarer hypothesis and

        prior = (b − 1)² / (2 · 10²) + shift² / (2 · 100²),

    shift being what the map adds, in log10 units, to the mean of the two hypotheses' mean LLRs. Perfectly
    separated LLRs would otherwise have an infinite slope, and saturated ones no definite intercept. The prior
    is zero where the map changes nothing, so that a fit never has a larger Cllr than the (clipped) LLRs it
    was made on. It is weak: with a few hundred overlapping pairs it moves the slope by less than 1e-3.

    Where the best slope is negative, the LLRs are worthless and every output is 0 (slope 0, intercept 0).
    """

    intercept: float  # log10
    slope: float
    clip: float | None = 26.0

    @classmethod
    def fit(cls, llrs: LLRs, clip: float | None = 26.0) -> Self:
        """Fit on ``llrs``.

        ``clip``: LLRs beyond ±clip (log10) count as ±clip, here and in every later use. Without it, one
        same-source LLR of −200 drags the slope to zero. 26 is about 60 in natural units.
        """
        if clip is not None and not clip > 0:
            raise LindleyError(f"logistic calibration: clip must be above 0, got {clip}")
        limit = NO_CLIP if clip is None else clip
        (same, weight_same), (different, weight_different) = (
            _clipped(side, weight, limit)
            for side, weight in zip((llrs.same, llrs.different), llrs.weights, strict=True)
        )
        ln_same, ln_different = LN10 * same, LN10 * different
        n_rarer = float(min(weight_same.sum(), weight_different.sum()))
        weight_same = 0.5 * weight_same / weight_same.sum()
        weight_different = 0.5 * weight_different / weight_different.sum()
        centre = float(np.sum(weight_same * ln_same) + np.sum(weight_different * ln_different))
        value_at_centre, slope = _newton(
            ln_same - centre, ln_different - centre, weight_same, weight_different, centre, n_rarer
        )
        if slope <= 0:
            return cls(0.0, 0.0, clip)
        return cls((value_at_centre - slope * centre) / LN10, slope, clip)

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10)."""
        limit = NO_CLIP if self.clip is None else self.clip
        return np.asarray(self.intercept + self.slope * np.clip(llr, -limit, limit), dtype=np.float64)

    def describe(self) -> dict[str, float]:
        """The parameters as plain numbers."""
        numbers = {"intercept": self.intercept, "slope": self.slope}
        return numbers if self.clip is None else numbers | {"clip": self.clip}


def _clipped(llr: Floats, weight: Floats, limit: float) -> tuple[Floats, Floats]:
    """LLRs within the limits, and one for all at or beyond each limit, with their weights: most pairs can be out there."""
    low, high = llr <= -limit, llr >= limit
    inside = ~(low | high)
    ends = [(end, weight[there].sum()) for end, there in ((-limit, low), (limit, high)) if there.any()]
    return np.r_[llr[inside], [end for end, _ in ends]], np.r_[weight[inside], [total for _, total in ends]]


def _newton(
    same: Floats, different: Floats, weight_same: Floats, weight_different: Floats, centre: float, n_rarer: float
) -> tuple[float, float]:
    """Damped Newton on (value at the centre, slope); the prior makes the objective strongly convex.

    ``same`` and ``different`` are natural LLRs minus ``centre``: the two parameters are then nearly
    uncorrelated, and the 2 × 2 system is well conditioned for LLRs of any size.
    """
    prior_mean = np.array([centre, 1.0])
    prior_precision = np.array([1 / (CENTRE_SD * LN10) ** 2, 1 / SLOPE_SD**2]) / n_rarer

    def evaluate(at: Floats) -> tuple[float, Floats, Floats]:
        off = at - prior_mean
        value = 0.5 * float(prior_precision @ off**2)
        gradient = prior_precision * off
        hessian = np.diag(prior_precision)
        for x, weight, sign in ((same, weight_same, -1.0), (different, weight_different, 1.0)):
            z = sign * (at[0] + at[1] * x)
            decayed = np.exp(-np.abs(z))  # e^{−|z|}: neither softplus nor its derivatives can overflow
            value += float(np.sum(weight * (np.maximum(z, 0.0) + np.log1p(decayed))))
            share = weight / (1.0 + decayed)
            first = sign * share * np.where(z > 0, 1.0, decayed)
            second = share * decayed / (1.0 + decayed)
            second_x = second * x
            # sums, not dot products: on a busy machine BLAS threads cost more than they save
            gradient += np.array([first.sum(), np.sum(first * x)])
            cross = second_x.sum()
            hessian += np.array([[second.sum(), cross], [cross, np.sum(second_x * x)]])
        return value, gradient, hessian

    at = prior_mean.copy()
    value, gradient, hessian = evaluate(at)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(hessian, -gradient)
        decrement = -float(gradient @ step)  # twice the expected decrease
        if decrement <= 1e-15:
            return float(at[0]), float(at[1])
        size = 1.0
        while True:
            candidate = at + size * step
            new_value, new_gradient, new_hessian = evaluate(candidate)
            if new_value <= value - 1e-4 * size * decrement:
                break
            size /= 2
            if size * decrement <= 1e-15:  # below the rounding error of the objective
                return float(at[0]), float(at[1])
        at, value, gradient, hessian = candidate, new_value, new_gradient, new_hessian
    raise LindleyError(f"logistic calibration did not converge in {MAX_STEPS} steps; at {at.tolist()}")


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
        llrs = llrs.present.map(lambda llr: np.clip(llr, -limit, limit))
        (same, different), (weight_same, weight_different) = (llrs.same, llrs.different), llrs.weights
        lowest, highest = llrs.range
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

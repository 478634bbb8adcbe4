"""How the within variance varies between sources: an inverse gamma law per axis, fitted to sums of squares.

For a source with n instances SSQ/σ² ~ χ²(n − 1), and with σ² ~ InvGamma(α, β)

    SSQ/(2β) ~ BetaPrime((n − 1)/2, α)                                                        (Eq. 7)

The paper's recipe, as written:

1. Maximum likelihood by L-BFGS-B from α = 4 and β = mean(SSQ)/((n − 1)(α − 1)); where it does not converge, again from
   α + 0.5, and so on.
2. Maximum a posteriori with an exponential prior on β of rate ½ β_ml.
3. An α below 2 (infinite variance of σ²) is set to 2 + 1e-6, and β to 3 β_ml/(α_ml + 1 + 1e-6), which keeps the mode (Eq. 8).

What to know about it, each held by a test:

- The start for β divides by (α − 1), where matching the mean β/(α − 1) of σ² multiplies. It is only a start.
- The prior's rate ½ β_ml is not free of units. SSQs are therefore divided by their mean per degree of freedom before the
  fit (β_ml is then of order α), and β is multiplied back: the prior's weight does not depend on the scale of an axis.
- "This promotes smaller values of β resulting in a bias towards larger σ_w": at fixed α a smaller β means a *smaller* σ_w.
  In the joint fit a smaller β pulls α down with it, and the tail gets heavier: larger σ_w become more probable, which is
  the conservative direction that the paper wants.
- "The estimated α" of step 3 may be that of step 1 or of step 2: both are looked at. The prior of step 2 pulls hardest where
  variances are nearly equal (α_ml large), so that such an axis, too, ends at α = 2, with the mode of step 1: conservative,
  and a jump from an axis whose α stays just above 2.
- Sources with more than two instances count with their own degrees of freedom.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, digamma

from lindley.errors import LindleyError

__all__ = ["InverseGamma", "fit_inverse_gamma", "sums_of_squares"]

Floats = NDArray[np.float64]
START_ALPHA, CLAMP, TINY = 4.0, 2.0, 1e-6
MOST_TRIES = 40


@dataclass(frozen=True)
class InverseGamma:
    """The law of σ² on one axis, and the maximum-likelihood fit it came from."""

    alpha: float
    beta: float
    alpha_ml: float
    beta_ml: float
    tries: int
    clamped: bool

    @property
    def mode(self) -> float:
        """β/(α + 1)."""
        return self.beta / (self.alpha + 1)


def fit_inverse_gamma(ssq: Floats, freedom: Floats) -> InverseGamma:
    """The paper's recipe on one axis: sums of squares of sources (sources,) with n − 1 degrees of freedom each."""
    used = freedom > 0
    ssq, freedom = np.asarray(ssq, dtype=np.float64)[used], np.asarray(freedom, dtype=np.float64)[used]
    if len(ssq) < 2 or not ssq.sum() > 0:
        raise LindleyError(
            f"the varying within variance needs validation sources with two measurements that differ: got {len(ssq)}"
        )
    unit = ssq.sum() / freedom.sum()
    scaled = np.maximum(ssq / unit, 1e-300)  # equal replicates on one axis: a density at zero would be infinite

    alpha_ml, beta_ml, tries = _maximise(scaled, freedom, rate=0.0, start=START_ALPHA)
    if alpha_ml < CLAMP:
        beta = (CLAMP + 1) * beta_ml / (alpha_ml + 1 + TINY)
        return InverseGamma(CLAMP + TINY, beta * unit, alpha_ml, beta_ml * unit, tries, clamped=True)
    alpha, beta, more = _maximise(scaled, freedom, rate=0.5 * beta_ml, start=alpha_ml)
    if alpha < CLAMP:
        alpha, beta = CLAMP + TINY, (CLAMP + 1) * beta_ml / (alpha_ml + 1 + TINY)
        return InverseGamma(alpha, beta * unit, alpha_ml, beta_ml * unit, tries + more, clamped=True)
    return InverseGamma(alpha, beta * unit, alpha_ml, beta_ml * unit, tries + more, clamped=False)


def negative_ln_likelihood(ln_alpha_beta: Floats, ssq: Floats, freedom: Floats, rate: float) -> tuple[float, Floats]:
    """−Σ ln BetaPrime(SSQ/(2β); (n−1)/2, α) + rate·β and its gradient in (ln α, ln β), without terms that are constant.

    The density of SSQ is u^(k−1) (1 + u)^(−k−α) / (2β B(k, α)) with u = SSQ/(2β) and k = (n − 1)/2.
    """
    alpha, beta = np.exp(ln_alpha_beta)
    k, u = freedom / 2, ssq / (2 * beta)
    value = -np.sum(k * np.log(u) - (k + alpha) * np.log1p(u) - betaln(k, alpha)) + rate * beta
    d_alpha = -np.sum(-np.log1p(u) - digamma(alpha) + digamma(k + alpha))
    d_ln_beta = -np.sum(-k + (k + alpha) * u / (1 + u)) + rate * beta
    return float(value), np.array([alpha * d_alpha, d_ln_beta])


def _maximise(ssq: Floats, freedom: Floats, rate: float, start: float) -> tuple[float, float, int]:
    """α, β and the number of tries. Bounded: normal data have their maximum at α = ∞, which 1e4 is close to."""
    for tries in range(1, MOST_TRIES + 1):
        alpha = start + 0.5 * (tries - 1)
        beta = float(np.mean(ssq / freedom)) / max(alpha - 1, 0.1)
        # L-BFGS-B hands its 2 × 2 matrices to BLAS, whose threads cost 40 times the fit on cores that are busy.
        with _one_thread():
            found = minimize(
                negative_ln_likelihood,
                np.log([alpha, beta]),
                args=(ssq, freedom, rate),
                jac=True,
                method="L-BFGS-B",
                bounds=[(np.log(1e-3), np.log(1e4)), (np.log(1e-8), np.log(1e8))],
            )
        if found.success and np.isfinite(found.fun):
            best: Floats = np.exp(found.x)
            return float(best[0]), float(best[1]), tries
    raise LindleyError(f"the law of the within variance could not be fitted in {MOST_TRIES} tries")


def _one_thread() -> AbstractContextManager[Any]:
    """Linear algebra on one thread; where nobody can tell it so, a lean machine with torch and SciPy alone, as it is."""
    controller = _blas()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    """Finding the libraries takes a millisecond or two: once is enough."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()


def sums_of_squares(values: Floats, source: NDArray[np.str_]) -> tuple[Floats, Floats]:
    """Σ (z − z̄)² per source and axis (sources, axis), and n − 1 per source (sources,)."""
    _, item, count = np.unique(source, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), values.shape[1]))
    np.add.at(total, item, values)
    deviations = values - (total / count[:, None])[item]
    ssq = np.zeros_like(total)
    np.add.at(ssq, item, deviations**2)
    return ssq, (count - 1).astype(np.float64)

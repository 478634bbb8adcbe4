"""A covariance matrix that can be inverted, also from few measurements."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["ShrinkageWarning", "shrink_covariance"]

Floats = NDArray[np.float64]

FREEDOM_PER_FEATURE = 2
"""With fewer degrees of freedom per feature than this, a sample covariance is nearly singular by chance."""
SMALLEST_EIGENVALUE = 1e-10
"""Of a correlation matrix; below it, the matrix is singular for practical purposes."""
ZERO, SUBSTITUTE = 1e-12, 1e-6
"""A variance below ZERO of the total is no variance; the feature gets SUBSTITUTE of the total instead."""


class ShrinkageWarning(UserWarning):
    """A covariance matrix had to be changed to be usable."""

    def __init__(self, what: str, intensity: float, n_zero: int, freedom: int, n_features: int) -> None:
        self.what, self.intensity, self.n_zero = what, intensity, n_zero
        self.freedom, self.n_features = freedom, n_features
        texts = []
        if intensity:
            texts.append(
                f"the {what} covariance of {n_features} features rests on {freedom} degrees of freedom: it was shrunk "
                f"towards uncorrelated features with Ledoit and Wolf's weight, {intensity:.2f}"
            )
        if n_zero:
            texts.append(
                f"{n_zero} of {n_features} features never vary {what} sources, and got a millionth of their total variance"
            )
        super().__init__("; ".join(texts))

    def over_runs(self, same: Sequence[ShrinkageWarning], n_runs: int) -> ShrinkageWarning:
        """One warning for several runs, with the largest intensity."""
        worst = max(same, key=lambda w: w.intensity)
        n_zero = max(w.n_zero for w in same)
        joint = ShrinkageWarning(self.what, worst.intensity, n_zero, worst.freedom, worst.n_features)
        joint.args = (f"in {len(same)} of {n_runs} splits {joint.args[0]} at most",)
        return joint


def shrink_covariance(contrasts: Floats, total_variance: Floats, what: str) -> Floats:
    """XᵀX/rows of contrasts X (rows, feature), independent with expectation zero; changed only if it has to be.

    The rows are the degrees of freedom. With fewer than two of them per feature, or when the correlation matrix R is
    singular, R becomes (1 − δ) R + δ 1, with Ledoit and Wolf's (2004) intensity δ, in units in which every feature has
    variance one (so that the units of a feature do not matter). From fewer rows f than features p, δ is at least 1 − f/p:
    a handful of rows cannot tell that they are few. A feature without variance gets a millionth of ``total_variance``,
    uncorrelated. ``what`` names the matrix in the warning.
    """
    freedom, p = contrasts.shape
    covariance: Floats = contrasts.T @ contrasts / freedom
    zero = covariance.diagonal() <= ZERO * total_variance
    sd = np.sqrt(np.where(zero, SUBSTITUTE * total_variance, covariance.diagonal()))
    scaled = np.where(zero, 0.0, contrasts) / np.where(sd > 0, sd, 1.0)
    correlation = scaled.T @ scaled / freedom
    np.fill_diagonal(correlation, 1.0)
    few = freedom < FREEDOM_PER_FEATURE * p
    intensity = 0.0
    if few or np.linalg.eigvalsh(correlation)[0] < SMALLEST_EIGENVALUE:
        from sklearn.covariance import ledoit_wolf_shrinkage  # on demand: the models run without scikit-learn

        intensity = float(ledoit_wolf_shrinkage(scaled, assume_centered=True)) if freedom > 1 else 1.0
        intensity = min(max(intensity, 1 - freedom / p, SMALLEST_EIGENVALUE), 1.0)
    if not intensity and not zero.any():
        return covariance
    warnings.warn(ShrinkageWarning(what, intensity, int(zero.sum()), freedom, p), stacklevel=2)
    shrunk = (1 - intensity) * correlation
    np.fill_diagonal(shrunk, 1.0)
    result: Floats = shrunk * np.outer(sd, sd)
    return result

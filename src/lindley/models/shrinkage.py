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


class ShrinkageWarning(UserWarning):
    """A covariance matrix had to be shrunk or floored to be usable."""

    def __init__(self, what: str, intensity: float, n_floored: int, freedom: int, n_features: int) -> None:
        self.what, self.intensity, self.n_floored = what, intensity, n_floored
        self.freedom, self.n_features = freedom, n_features
        text = (
            f"the {what} covariance of {n_features} features rests on {freedom} degrees of freedom: it was shrunk "
            f"towards uncorrelated features with Ledoit and Wolf's weight, {intensity:.2f}"
        )
        if n_floored:
            text += f"; {n_floored} features never vary within a source, and got a millionth of their total variance"
        super().__init__(text)

    def over_runs(self, same: Sequence[ShrinkageWarning], n_runs: int) -> ShrinkageWarning:
        """One warning for several runs, with the largest intensity."""
        worst = max(same, key=lambda w: w.intensity)
        joint = ShrinkageWarning(
            self.what, worst.intensity, max(w.n_floored for w in same), worst.freedom, worst.n_features
        )
        joint.args = (f"in {len(same)} of {n_runs} splits {joint.args[0]} at most",)
        return joint


def shrink_covariance(deviations: Floats, freedom: int, floor: Floats, what: str) -> Floats:
    """XᵀX/rows of deviations X (rows, feature) with expectation zero; shrunk if, and only if, it has to be.

    It has to be when there are fewer than two degrees of freedom per feature, or when the correlation matrix is
    singular. Then the correlation matrix R becomes (1 − δ) R + δ 1, with Ledoit and Wolf's (2004) intensity δ, in
    units in which every feature has variance one (so that the units of a feature do not matter). A variance below
    ``floor`` is raised to it. ``what`` names the matrix in the warning.
    """
    covariance: Floats = deviations.T @ deviations / len(deviations)
    variance = covariance.diagonal()
    floored = variance < floor
    sd = np.sqrt(np.where(floored, floor, variance))
    usable = sd > 0
    safe_sd = np.where(usable, sd, 1.0)
    correlation = covariance / np.outer(safe_sd, safe_sd)
    np.fill_diagonal(correlation, 1.0)
    few = freedom < FREEDOM_PER_FEATURE * len(variance)
    if not (few or floored.any() or np.linalg.eigvalsh(correlation)[0] < SMALLEST_EIGENVALUE):
        return covariance

    from sklearn.covariance import ledoit_wolf_shrinkage  # on demand: the models run without scikit-learn

    intensity = float(ledoit_wolf_shrinkage(deviations / safe_sd, assume_centered=True))
    intensity = min(max(intensity, SMALLEST_EIGENVALUE), 1.0)
    warnings.warn(ShrinkageWarning(what, intensity, int(floored.sum()), freedom, len(variance)), stacklevel=2)
    shrunk = (1 - intensity) * correlation
    np.fill_diagonal(shrunk, 1.0)
    result: Floats = shrunk * np.outer(sd, sd)
    return result

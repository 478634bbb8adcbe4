r"""Even scatter: features whose replicates vary more at one level than at another, mapped to where they do not.

If the scatter of replicates goes with the level of a feature x, standardised over sources, as sd(x) ∝ exp(r x), then

    u(x) = ∫₀ˣ exp(−r s) ds = (1 − exp(−r x))/r

has the same scatter everywhere (the logarithm, a root and the identity are such maps). Beyond the levels of known sources u
goes on along its tangent. An LR does not change under a one-to-one map of a feature: this is a choice of coordinates, in
which one within covariance fits all sources better.

r is the slope of a regression of ½ ln(c² + ¼ m²) on the level, c being the contrasts of replicates and m their median size:
half a median keeps the logarithm of near-coincidences, and rounding, from deciding. A slope r with standard error s is
shrunk to r (1 − 2 s²/r²)₊, so that features without such a trend are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lindley.models.sources import Sources

__all__ = ["Stabiliser", "fit_stabiliser"]

STEEPEST = 1.0
"""|r| at most: e-fold scatter per standard deviation of the level."""


@dataclass(frozen=True, eq=False)
class Stabiliser:
    """u of every feature, one set per run: tensors (run, 1, feature)."""

    level: Tensor  # mean over sources
    spread: Tensor  # standard deviation over sources
    slope: Tensor  # r
    low: Tensor  # of the known levels, standardised
    high: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        """(run, items, feature) → the same shape, in units of the spread."""
        x = (values - self.level) / self.spread
        inside = torch.minimum(torch.maximum(x, self.low), self.high)
        flat = self.slope == 0
        b = torch.where(flat, 1.0, self.slope)
        curved = torch.where(flat, inside, -torch.expm1(-b * inside) / b)
        return curved + torch.exp(-self.slope * inside) * (x - inside)

    def ln_slope(self, values: Tensor) -> Tensor:
        """ln du/d(value), the shape of the values: what takes a density of u to one of the feature."""
        x = (values - self.level) / self.spread
        inside = torch.minimum(torch.maximum(x, self.low), self.high)
        return -self.slope * inside - self.spread.log()


def fit_stabiliser(sources: Sources) -> Stabiliser:
    """The stabiliser of one run, from sources of which some were measured twice or more."""
    means = sources.means
    level, spread = means.mean(axis=0), means.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    x = (means - level) / spread
    contrasts, owner = sources.contrasts()
    size = np.median(np.abs(contrasts), axis=0)
    size = np.where(size > 0, size, np.where(contrasts.std(axis=0) > 0, contrasts.std(axis=0), 1.0))
    y = 0.5 * np.log((contrasts / size) ** 2 + 0.25)
    at = x[owner] - x[owner].mean(axis=0)
    square = (at**2).sum(axis=0)
    square = np.where(square > 0, square, np.inf)
    slope = (at * y).sum(axis=0) / square
    rest = y - y.mean(axis=0) - slope * at
    error2 = (rest**2).sum(axis=0) / max(len(y) - 2, 1) / square
    slope = slope * np.maximum(0.0, 1 - 2 * error2 / np.where(slope == 0, 1.0, slope**2))
    slope = np.clip(slope, -STEEPEST, STEEPEST)
    return Stabiliser(*(torch.from_numpy(v[None, None]) for v in (level, spread, slope, x.min(axis=0), x.max(axis=0))))

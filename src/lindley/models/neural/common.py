"""One within variance for all sources, its uncertainty integrated out: Student-t predictive laws.

The trained model predicts a trace, on every axis, as N(m, v): under H1 given the ref, with

    m = μ + (y − μ) b/(b + e),  v = d + b e/(b + e),

and under H2 with m = μ, v = b + d. A normal-inverse-gamma prior NIG(μ₀ = 0, ν₀ = 0, α₀ = 2, β₀ = 3 v) on the location and
the variance of the deviations, updated by n data points of mean square v, gives (the paper's "common")

    α = α₀ + n/2,  β = β₀ + n v/2,  ν = ν₀ + n,
    trace ~ t with 2α degrees of freedom, location m and squared scale β (ν + 1)/(α ν).

Choices where the paper is silent. The "data variance" in β₀ is the variance of the trained model on that axis, so that
the prior's mode, β₀/(α₀ + 1), is the point value that is integrated. n is the number of training sources (351 in the
paper), for numerator and denominator alike. With n that large the t law is close to normal: the gain is small, as in the
paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lindley.models.axis_laws import AxisLaw, Scatter
from lindley.models.between import NormalBetween
from lindley.models.two_level import TwoLevel

__all__ = ["CommonVariance", "integrate_common"]

ALPHA, BETA_SCALED = 2.0, 3.0


@dataclass(frozen=True, eq=False)
class CommonVariance(AxisLaw):
    """Student-t predictive laws in place of the normal ones of ``base``."""

    base: NormalBetween
    n_points: Tensor  # n (run, 1, 1)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Those of the law that the variance was integrated out of."""
        return self.base.moments()

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln t(x; m₁, v₁) and ln t(x; μ, v₂)."""
        mean, b = self.base.mean[:, :, axis, None], self.base.var[:, :, axis, None]
        from_ref = (x - mean) - (y - mean) * (b / (b + e))
        return self._ln_t(from_ref, d + b * e / (b + e)), self._ln_t(x - mean, b + d)

    def _ln_t(self, deviation: Tensor, v: Tensor) -> Tensor:
        """ln of a Student-t density with 2α degrees of freedom and squared scale v β(ν + 1)/(αν)."""
        n = self.n_points
        alpha, beta, nu = ALPHA + n / 2, BETA_SCALED + n / 2, n
        squared_scale = v * beta * (nu + 1) / (alpha * nu)
        constant = torch.lgamma(alpha + 0.5) - torch.lgamma(alpha) - 0.5 * (2 * math.pi * alpha * squared_scale).log()
        return constant - (alpha + 0.5) * torch.log1p(deviation**2 / squared_scale / (2 * alpha))


def integrate_common(model: TwoLevel, n_sources: list[int]) -> TwoLevel:
    """The model with its variances integrated out, given the number of training sources of every run."""
    if not isinstance(model.between, NormalBetween):
        raise TypeError("the variance is integrated out of models with a normal law between sources")
    if len(n_sources) != len(model.projection):
        raise ValueError(f"a model of {len(model.projection)} runs got {len(n_sources)} numbers of sources")
    if not all(math.isfinite(n) and n >= 1 for n in n_sources):
        raise ValueError(f"the numbers of sources must be 1 or more: {n_sources}")
    points = torch.tensor(n_sources, dtype=model.projection.dtype, device=model.projection.device)[:, None, None]
    return replace(model, between=CommonVariance(model.between, points))

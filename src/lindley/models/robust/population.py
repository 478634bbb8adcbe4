"""Where sources are: kernels of two widths over known sources, and a broad background for the regions between them.

    f(θ) = (1 − π) Σ_k w_k [(1 − η) N(θ; μ_k, h² λ) + η N(θ; μ_k, h_n² λ)] + π Σ_j a_j N(θ; 0, m_j λ)

The wide kernels (h) describe the population, the narrow ones (h_n) its production batches: sources that nearly repeat one
another. The background (m = 4, 20 and 100 with a = 0.9, 0.09 and 0.01) has room for sources far from all others: a rare source
must not be taken for a spoilt measurement of a common one. Seen with a normal error of variance v, every variance grows by v.

For the fit of scalars only the variance V of the kernels changes. With p_k the posterior of kernel k at a point x,

    ∂/∂V ln Σ_k w_k N(x; μ_k, V) = ½ (Σ_k p_k (x − μ_k)²/V − 1)/V,

so a matrix product with (μ, μ²) beside the sum gives the gradient, and no (point, kernel) matrix has to be kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lindley.models.between import LN_2PI, coupled, ln_sum_of_products
from lindley.models.blocks import at_a_time

__all__ = ["BACKGROUND", "Population", "ln_kernel_sum", "ln_population"]

BACKGROUND = ((0.9, 4.0), (0.09, 20.0), (0.01, 100.0))
"""a and m: weights and variances of the background, in units of the variance between sources."""
NEGLIGIBLE = 35.0
"""Kernels below e^−35 of the background are left out where they cost time."""
LEAST_EXPONENT = -80.0
"""Terms below e^−80 of the largest count as that much: single precision has no room for less."""
TERMS = 1 << 22
"""Kernel terms held at a time when points are looked up: 32 MiB."""


@dataclass(frozen=True, eq=False)
class Population:
    """The law of a source's mean. All axes are uncorrelated, and variances are per axis."""

    centres: Tensor  # μ_k (run, kernel, axis)
    ln_weights: Tensor  # ln w_k (run, kernel); −inf for padding
    var: Tensor  # λ (run, 1, axis)
    width: Tensor  # h (run, 1, 1)
    narrow_width: Tensor  # h_n (run, 1, 1)
    narrow_weight: Tensor  # η (run, 1, 1)
    background: Tensor  # π (run, 1, 1)

    def ln_density(self, points: Tensor, error: Tensor) -> Tensor:
        """ln f(points) with an error of variance ``error`` (run, 1, axis): (run, points)."""
        block = max(1, at_a_time(TERMS, points) // (self.centres.shape[0] * self.centres.shape[1]))
        return torch.cat([self._ln_density(p, error) for p in torch.split(points, block, dim=1)], 1)

    def _ln_density(self, points: Tensor, error: Tensor) -> Tensor:
        kernels = []
        for width in (self.width, self.narrow_width):
            total = width**2 * self.var + error
            exponent = (points / total) @ self.centres.mT
            exponent = exponent + (self.ln_weights - 0.5 * (self.centres**2 / total).sum(-1))[..., None, :]
            kernels.append(torch.logsumexp(exponent, -1) - 0.5 * (points**2 / total + total.log() + LN_2PI).sum(-1))
        broad = ln_background(points, self.var, error)
        return ln_mixture(self.background, self.narrow_weight, kernels[0], kernels[1], broad)

    def ln_density_between(self, x: Tensor, y: Tensor, share: float, error: Tensor) -> Tensor:
        """ln f at ``share`` · x + (1 − share) · y of all pairs, (run, traces, refs), by matrix products."""
        x, y = share * x, (1 - share) * y

        def ln_normal(total: Tensor, ln_weight: float = 0.0) -> Tensor:
            rows = ln_weight - 0.5 * (x**2 / total + total.log() + LN_2PI).sum(-1)
            return coupled(-x / total, y, rows, -0.5 * (y**2 / total).sum(-1))

        broads = [ln_normal(scale * self.var + error, math.log(weight)) for weight, scale in BACKGROUND]
        broad = torch.logaddexp(torch.logaddexp(broads[0], broads[1]), broads[2])
        least = (broad + self.background.log()).detach() - NEGLIGIBLE
        kernels = []
        for width in (self.width, self.narrow_width):
            total = width**2 * self.var + error
            pair = ln_normal(total)
            own = 0.5 * (self.ln_weights - 0.5 * (self.centres**2 / total).sum(-1))[..., None, :]
            a, c = (x / total) @ self.centres.mT + own, (y / total) @ self.centres.mT + own
            kernels.append(pair + ln_sum_of_products(a, c, least - pair.detach()))
        return ln_mixture(self.background, self.narrow_weight, kernels[0], kernels[1], broad)


def ln_background(points: Tensor, var: Tensor, error: Tensor) -> Tensor:
    """ln Σ_j a_j N(points; 0, m_j λ + error), (run, points)."""
    parts = []
    for weight, scale in BACKGROUND:
        total = scale * var + error
        parts.append(math.log(weight) - 0.5 * (points**2 / total + total.log() + LN_2PI).sum(-1))
    return torch.logsumexp(torch.stack(parts), 0)


def ln_mixture(background: Tensor, narrow_weight: Tensor, wide: Tensor, narrow: Tensor, broad: Tensor) -> Tensor:
    """ln[(1 − π)(1 − η) e^wide + (1 − π) η e^narrow + π e^broad]; the weights are (run, 1, 1), the parts (run, …)."""
    shape = (-1, *(1,) * (wide.dim() - 1))
    pi, eta = background.reshape(shape), narrow_weight.reshape(shape)
    kernels = torch.logaddexp(torch.log1p(-eta) + wide, eta.log() + narrow)
    return torch.logaddexp(torch.log1p(-pi) + kernels, pi.log() + broad)


class _LnKernelSum(torch.autograd.Function):
    """Exponents in double precision, their exponentials in single: a relative error of some 1e-7 at twice the speed."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, var: Tensor, centres: Tensor, ln_weights: Tensor) -> Tensor:
        n_axes = points.shape[-1]
        value, slope = points.new_empty(points.shape[:2]), torch.empty_like(points)
        for i in range(len(points)):
            x, mu = points[i] * var[i].rsqrt(), centres[i] * var[i].rsqrt()
            exponent = torch.addmm(ln_weights[i] - 0.5 * (mu**2).sum(-1), x, mu.T)
            top = exponent.amax(1, keepdim=True)
            terms = exponent.sub_(top).float().clamp_min_(LEAST_EXPONENT).exp_()
            moments = terms @ torch.cat([torch.ones_like(mu[:, :1]), mu, mu**2], 1).float()
            total = moments[:, :1].double()
            first, second = moments[:, 1 : n_axes + 1] / total, moments[:, n_axes + 1 :] / total
            value[i] = (top + total.log())[:, 0] - 0.5 * ((x**2).sum(-1) + (var[i].log() + LN_2PI).sum())
            slope[i] = 0.5 * (second - 2 * x * first + x**2 - 1) / var[i]
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return None, (grads[0][..., None] * slope).sum(1, keepdim=True), None, None


def ln_kernel_sum(points: Tensor, var: Tensor, centres: Tensor, ln_weights: Tensor) -> Tensor:
    """ln Σ_k w_k N(points; μ_k, var), (run, points), with a gradient in ``var`` (run, 1, axis) alone."""
    result: Tensor = _LnKernelSum.apply(points, var, centres, ln_weights)  # type: ignore[no-untyped-call]
    return result


def ln_population(population: Population, points: Tensor, error: Tensor) -> Tensor:
    """`Population.ln_density`, with gradients in its scalars and in ``error`` alone."""
    wide, narrow = (
        ln_kernel_sum(points, width**2 * population.var + error, population.centres, population.ln_weights)
        for width in (population.width, population.narrow_width)
    )
    broad = ln_background(points, population.var, error)
    return ln_mixture(population.background, population.narrow_weight, wide, narrow, broad)

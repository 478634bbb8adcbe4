"""Sources that scatter more or less than others: a scale of the within variance, integrated out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lindley.models.between import KernelBetween

__all__ = ["ScaleMixture", "inverse_gamma_nodes"]


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """A kernel law whose within variance is τ times as large, τ shared by all axes and instances of a source.

        p(x) = Σ_q ω_q p(x | τ_q d),   p(x, y) = Σ_q ω_q p(x, y | τ_q d, τ_q e).

    Narrow nodes underflow for distant pairs, where wide ones decide the sum. So lost terms are left out, and
    brought back only if their upper bound could change a sum by more than 1e-12.
    """

    base: KernelBetween
    ln_scales: Tensor  # ln τ_q (node,)
    ln_weights: Tensor  # ln ω_q (node,)

    def ln_marginal(self, x: Tensor, d: Tensor) -> Tensor:
        """ln p(x), (run, traces)."""
        nodes = zip(self.ln_scales.exp(), self.ln_weights, strict=True)
        return torch.logsumexp(torch.stack([w + self.base.ln_marginal(x, d * t) for t, w in nodes]), 0)

    def ln_joint(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln p(x, y | one source), (run, traces, refs)."""
        lower = upper = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        for t, w in zip(self.ln_scales.exp(), self.ln_weights, strict=True):
            node_lower, node_upper = self.base.ln_joint_bounds(x, y, d * t, e * t)
            lower, upper = torch.logaddexp(lower, node_lower + w), torch.logaddexp(upper, node_upper + w)
        if bool((upper - lower <= 1e-12).all()):
            return lower
        exact = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        for t, w in zip(self.ln_scales.exp(), self.ln_weights, strict=True):
            exact = torch.logaddexp(exact, self.base.ln_joint(x, y, d * t, e * t) + w)
        return exact

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln p(x, y) − ln p(x) − ln p(y)."""
        marginals = self.ln_marginal(x, d)[..., :, None] + self.ln_marginal(y, e)[..., None, :]
        return self.ln_joint(x, y, d, e) - marginals


def inverse_gamma_nodes(shape: float, scale: float, n_axes: int) -> tuple[Tensor, Tensor]:
    """ln τ_q and ln ω_q for τ ~ InvGamma(shape, scale): the trapezium rule in ln τ.

    The rule converges like exp(−2π² s²/h²) for a bell of standard deviation s in ln τ. A pair of instances on
    ``n_axes`` axes leaves s² ≥ 2/(2 n_axes + 2 shape), and the step h is 1.2 times that bound's root: an error near
    1e-6. The nodes run from where the prior is e⁻⁴⁰ of its peak up to τ = 1e4, where only pairs of hopeless LRs look.
    """
    step = 1.2 * math.sqrt(2 / (2 * n_axes + 2 * shape))
    low, high = math.log(scale / 45), math.log(1e4)
    u = torch.arange(low, high, step, dtype=torch.float64)
    ln_density = shape * math.log(scale) - math.lgamma(shape) - shape * u - scale * torch.exp(-u)
    return u, ln_density + math.log(step)

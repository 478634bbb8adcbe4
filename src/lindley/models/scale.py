"""Sources that scatter more or less than others: a scale of the within variance, integrated out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lindley.models.axis_laws import Scatter
from lindley.models.between import KernelBetween

__all__ = ["ScaleMixture", "inverse_gamma_nodes"]


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """A kernel law whose within variance is τ times as large, τ shared by all axes and instances of a source.

        p(x) = Σ_q ω_q p(x | τ_q d),   p(x, y) = Σ_q ω_q p(x, y | τ_q d, τ_q e).

    Narrow nodes underflow for distant pairs, where wide ones decide the sum. So lost terms are left out, and
    brought back only if their upper bound could change a sum by more than 1e-12.
    """

    uses_scatter: ClassVar[bool] = True

    base: KernelBetween
    ln_scales: Tensor  # ln τ_q (node,)
    ln_weights: Tensor  # ln ω_q (node,)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Those of the law that the variance was integrated out of."""
        return self.base.moments()

    def ln_marginal(self, x: Tensor, d: Tensor, scatter: Tensor | None = None) -> Tensor:
        """ln p(x), (run, traces); ``scatter`` is ln p(scatter of the instances | τ_q) per node (node, run, traces)."""
        terms = [
            w + self.base.ln_marginal(x, d * t) for t, w in zip(self.ln_scales.exp(), self.ln_weights, strict=True)
        ]
        nodes = torch.stack(terms)
        return torch.logsumexp(nodes if scatter is None else nodes + scatter, 0)

    def ln_joint(
        self,
        x: Tensor,
        y: Tensor,
        d: Tensor,
        e: Tensor,
        scatter_x: Tensor | None = None,
        scatter_y: Tensor | None = None,
    ) -> Tensor:
        """ln p(x, y | one source), (run, traces, refs)."""
        lower = upper = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        weights = [
            w
            + (0 if scatter_x is None else scatter_x[q][..., :, None])
            + (0 if scatter_y is None else scatter_y[q][..., None, :])
            for q, w in enumerate(self.ln_weights)
        ]
        for t, w in zip(self.ln_scales.exp(), weights, strict=True):
            node_lower, node_upper = self.base.ln_joint_bounds(x, y, d * t, e * t)
            lower, upper = torch.logaddexp(lower, node_lower + w), torch.logaddexp(upper, node_upper + w)
        if bool((upper - lower <= 1e-12).all()):
            return lower
        exact = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        for t, w in zip(self.ln_scales.exp(), weights, strict=True):
            exact = torch.logaddexp(exact, self.base.ln_joint(x, y, d * t, e * t) + w)
        return exact

    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x, y) − ln p(y), and ln p(x)."""
        of_x = of_y = None
        if scatter is not None:
            # Of one instance the variances are freedom + 1 times those of the mean.
            of_x = self._ln_scatter(scatter.trace, d * (scatter.freedom_trace + 1), scatter.freedom_trace)
            of_y = self._ln_scatter(scatter.ref, e * (scatter.freedom_ref + 1), scatter.freedom_ref)
        joint = self.ln_joint(x, y, d, e, of_x, of_y)
        return joint - self.ln_marginal(y, e, of_y)[..., None, :], self.ln_marginal(x, d, of_x)[..., :, None]

    def _ln_scatter(self, squares: Tensor, var: Tensor, freedom: int) -> Tensor:
        """ln p(scatter | τ_q) up to what does not depend on τ: (node, run, items)."""
        total = (squares / var).sum(-1)
        n = freedom * squares.shape[-1]
        return torch.stack([-0.5 * (n * u + total * torch.exp(-u)) for u in self.ln_scales])

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln p(x, y) − ln p(x) − ln p(y)."""
        numerator, denominator = self.ln_parts(x, y, d, e, scatter)
        return numerator - denominator


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

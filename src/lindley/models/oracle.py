"""The true LR of the simulated population: the floor that no model beats on average.

Its sources scatter more or less than others: a scale of the within variance, integrated out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from lindley.models.between import Between, KernelBetween, Scatter
from lindley.models.exponentials import ln_sum_exp
from lindley.models.two_level import SHARED, TwoLevel
from lindley.table.scaling import Scaling
from lindley.table.simulated import GlassPopulation

__all__ = ["ScaleMixture", "oracle"]


@dataclass(frozen=True, eq=False)
class ScaleMixture(Between):
    """A kernel law whose within variance is τ times as large, τ shared by all axes and instances of a source.

        p(x) = Σ_q ω_q p(x | τ_q d),   p(x, y) = Σ_q ω_q p(x, y | τ_q d, τ_q e).

    Narrow nodes underflow for distant pairs, where wide ones decide the sum. So lost terms are left out, and
    brought back only if their upper bound could change a sum by more than 1e-12.
    """

    uses_scatter: ClassVar[bool] = True

    base: KernelBetween
    ln_scales: Tensor = field(metadata=SHARED)  # ln τ_q (node,)
    ln_weights: Tensor = field(metadata=SHARED)  # ln ω_q (node,)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Those of the law that the variance was integrated out of."""
        return self.base.moments()

    def ln_marginal(self, x: Tensor, d: Tensor, scatter: Tensor) -> Tensor:
        """ln p(x), (run, items); ``scatter`` is ln p(scatter of the instances | τ_q) per node (node, run, items)."""
        nodes = zip(self.ln_scales.exp(), self.ln_weights, strict=True)
        return ln_sum_exp(torch.stack([w + self.base.ln_marginal(x, d * t) for t, w in nodes]) + scatter, 0)

    def ln_joint(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter_x: Tensor, scatter_y: Tensor) -> Tensor:
        """ln p(x, y | one source), (run, traces, refs)."""
        lower = upper = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        weights = [
            w + of_x[..., :, None] + of_y[..., None, :]
            for w, of_x, of_y in zip(self.ln_weights, scatter_x, scatter_y, strict=True)
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
        scatter = Scatter(torch.zeros_like(x), torch.zeros_like(y), 0, 0) if scatter is None else scatter
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


def oracle(population: GlassPopulation, scaling: Scaling) -> TwoLevel:
    """A two-level model that knows the population, for values standardised by ``scaling``.

    LR = ∫ p(x, y | τ) π(τ) dτ / (∫ p(x | τ) π(τ) dτ · ∫ p(y | τ) π(τ) dτ), with the batches as kernels of covariance φB
    and one scatter τ per source. The instances of an item around their mean tell of τ too, and `score` lets them.
    """
    var_between, basis = scipy.linalg.eigh(population.between, population.within)
    # Standardised z = (x − m)/s, so x A = (z + m/s) · diag(s) A.
    projection = torch.from_numpy(scaling.sd[:, None] * basis)[None]
    centre = torch.from_numpy(-scaling.mean / scaling.sd)[None, None]
    ones = torch.ones((1, 1, len(var_between)), dtype=torch.float64)
    batches = KernelBetween(
        centres=torch.from_numpy(population.batch_means @ basis)[None],
        var=torch.from_numpy(population.batch_share * var_between)[None, None],
        ln_weights=torch.from_numpy(np.log(population.batch_weights))[None],
    )
    ln_scales, ln_weights = inverse_gamma_nodes(population.shape, population.scale, len(var_between))
    return TwoLevel(centre, projection, ones, ones, ScaleMixture(batches, ln_scales, ln_weights))

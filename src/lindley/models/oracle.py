"""The true LR of the simulated population, which no model beats on average.

Its sources scatter more or less than others: a scale of the within variance, integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from lindley.models.between import LN_2PI, Between, KernelBetween, Scatter, coupled
from lindley.models.exponentials import ln_sum_exp
from lindley.models.two_level import SHARED, TwoLevel, take_runs
from lindley.table.scaling import Scaling
from lindley.table.simulated import GlassPopulation

__all__ = ["ScaleMixture", "oracle"]

NEGLIGIBLE = -32.0
"""ln of what a node may add to a sum without being counted: of all nodes together, 1e-12."""
FEW = 1 / 32
"""Share of all pairs below which each is computed by itself, as a matrix product would be of all."""


@dataclass(frozen=True, eq=False)
class ScaleMixture(Between):
    """A kernel law whose within variance is τ times as large, τ shared by all axes and instances of a source.

        p(x) = Σ_q ω_q p(x | τ_q d),   p(x, y) = Σ_q ω_q p(x, y | τ_q d, τ_q e).

    Given τ, how far apart x and y are says one thing and where they are another: with h = de/(d+e) and m = (ex + dy)/(d+e),

        p(x, y | τ d, τ e) = N(x − y; 0, τ(d+e)) Σ_k w_k N(m; μ_k, b + τh) ≤ N(x − y; 0, τ(d+e)) Π (2π(b + τh))^−½.

    Nodes are summed from the widest down, and the bound tells for which pairs the next one can still matter: few, where it is
    narrow, as most pairs are far apart.
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
        """ln p(x, y | one source), (run, traces, refs), to 1e-12 of p."""
        weights = [
            w + of_x[..., :, None] + of_y[..., None, :]
            for w, of_x, of_y in zip(self.ln_weights, scatter_x, scatter_y, strict=True)
        ]
        widest_first = self.ln_scales.argsort(descending=True).tolist()
        total = torch.tensor(-torch.inf, dtype=x.dtype, device=x.device)
        if torch.is_grad_enabled() and any(t.requires_grad for t in (x, y, d, e, *weights)):
            for node in widest_first:
                t = self.ln_scales[node].exp()
                total = torch.logaddexp(total, self.base.ln_joint(x, y, d * t, e * t) + weights[node])
            return total
        total = total.expand(len(x), x.shape[1], y.shape[1]).clone()
        lost = total.clone()  # a bound of what sums that underflowed have left out
        bounds = self._bounds(x, y, d, e)
        for node in widest_first:
            t, bound = self.ln_scales[node].exp(), bounds(node) + weights[node]
            matters = bound > total + NEGLIGIBLE
            n_pairs = int(matters.sum())
            if n_pairs > FEW * matters.numel():
                lower, upper = self.base.ln_joint_bounds(x, y, d * t, e * t)
                total = torch.logaddexp(total, lower + weights[node])
                left_out = torch.where(torch.isinf(lower), torch.minimum(upper + weights[node], bound), -torch.inf)
                lost = torch.logaddexp(lost, left_out)
            elif n_pairs:
                self._add(total, matters, node, weights[node], x, y, d, e)
        unsure = lost > total + NEGLIGIBLE
        if bool(unsure.any()):
            total[unsure] = -torch.inf
            for node in widest_first:
                self._add(total, unsure, node, weights[node], x, y, d, e)
        return total

    def _bounds(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Callable[[int], Tensor]:
        """Of a node, what ln p(x, y | τ_q) cannot exceed (run, traces, refs): the bound of the class."""
        var = d + e
        apart = coupled(-2 * x / var, y, (x**2 / var).sum(-1), (y**2 / var).sum(-1))
        ln_all = torch.logsumexp(self.base.ln_weights, -1)[:, None, None]

        def of(node: int) -> Tensor:
            t = self.ln_scales[node].exp()
            spread = (t * var).log() + (self.base.var + t * d * e / var).log() + 2 * LN_2PI
            return ln_all - 0.5 * (spread.sum(-1, keepdim=True) + apart / t)

        return of

    def _add(
        self, total: Tensor, some: Tensor, node: int, weight: Tensor, x: Tensor, y: Tensor, d: Tensor, e: Tensor
    ) -> None:
        """Add a node to the sums of some pairs, each by itself; in their place."""
        t = self.ln_scales[node].exp()
        for run in range(len(x)):
            i, j = some[run].nonzero(as_tuple=True)
            law, d_run, e_run = take_runs(self.base, [run]), *(v[run % len(v), None] * t for v in (d, e))
            found = law.ln_joint_given(x[run, None, i], y[run, None, j], d_run, e_run)[0]
            total[run, i, j] = torch.logaddexp(total[run, i, j], found + weight[run, i, j])

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

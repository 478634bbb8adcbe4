"""Sources with within variances of their own, integrated out with an inverse gamma law per axis (the paper's Eq. 6).

    LR = ∫ p(x, y | σ²) π(σ²) dσ² / ( ∫ p(x | σ²) π(σ²) dσ² · ∫ p(y | σ²) π(σ²) dσ² )      on every axis

Training may have blown up the within variance v of an axis far beyond the variance s̄² of the data, to keep the axis quiet.
The paper therefore replaces "the data-variance by the sampled within-variance […] and not the within-variance parameter
itself". Read literally, v = (v − s̄²) + s̄² becomes

    v(σ²) = max(v − s̄², 0) + σ²

for trace and ref alike, with s̄² the mean square of the validation data per degree of freedom. A blown-up axis stays quiet, and
an axis on which v is the data's variance gets σ² in its place.

The integral is a sum over nodes: by quadrature (the default), or by samples as in the paper. Each axis has nodes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln
from torch import Tensor

from lindley.models.axis_laws import AxisLaw, Scatter
from lindley.models.between import LN_2PI, NormalBetween
from lindley.models.blocks import at_a_time, pieces
from lindley.models.neural.prior import InverseGamma, fit_inverse_gamma, sums_of_squares
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["VaryingVariance", "integrate_varying", "quadrature_nodes", "sampled_nodes"]

Floats = NDArray[np.float64]

TERMS = 1 << 18
"""Exponents held at a time: 2 MiB, which a processor keeps close at hand."""


@dataclass(frozen=True, eq=False)
class VaryingVariance(AxisLaw):
    """A normal law between sources whose within variances are scaled at each node, on every axis of its own."""

    uses_scatter: ClassVar[bool] = True

    base: NormalBetween
    scale_trace: Tensor  # v(σ²)/v of the trace (run, node, axis)
    scale_ref: Tensor  # v(σ²)/v of the ref (run, node, axis)
    ln_weight: Tensor  # (run, node, axis)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Those of the law that the variance was integrated out of."""
        return self.base.moments()

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """The integrals of Eq. 6 by log-sum-exp over the nodes.

        The exponents of all nodes are linear in (x − y)², x², y² and the sums of squares of several instances: a matrix
        product with a few columns.
        """
        mean, b = self.base.mean[:, :, axis, None], self.base.var[:, :, axis, None]
        x, y = x - mean, y - mean
        to_d, to_e, ln_w = (t[:, None, :, axis] for t in (self.scale_trace, self.scale_ref, self.ln_weight))
        of_x, of_y = _Scattered.none(), _Scattered.none()
        if scatter is not None:
            of_x = _Scattered.of(scatter.trace, d * to_d * (scatter.freedom_trace + 1), scatter.freedom_trace)
            of_y = _Scattered.of(scatter.ref, e * to_e * (scatter.freedom_ref + 1), scatter.freedom_ref)
        d, e = d * to_d, e * to_e  # (run, 1, node)
        delta = b * d + b * e + d * e
        weight = -2 * ln_w
        # [(b + e) x² + (b + d) y² − 2b xy]/Δ as a sum of squares: nothing cancels for a close pair far from the mean.
        joint = _ln_sum(
            [(x - y) ** 2, x**2, y**2, *of_x.values, *of_y.values],
            [b / delta, e / delta, d / delta, *of_x.rates, *of_y.rates],
            delta.log() + 2 * LN_2PI + of_x.constant + of_y.constant + weight,
        )
        trace = _ln_sum(
            [x**2, *of_x.values], [1 / (b + d), *of_x.rates], (b + d).log() + LN_2PI + of_x.constant + weight
        )
        ref = _ln_sum([y**2, *of_y.values], [1 / (b + e), *of_y.rates], (b + e).log() + LN_2PI + of_y.constant + weight)
        return joint - ref, trace


@dataclass(frozen=True, eq=False)
class _Scattered:
    """−2 ln p(S | σ²) = f ln σ² + S/σ² of a sum of squares S with f degrees of freedom, up to what is not in σ²."""

    values: list[Tensor]
    rates: list[Tensor]
    constant: Tensor | float

    @classmethod
    def none(cls) -> _Scattered:
        return cls([], [], 0.0)

    @classmethod
    def of(cls, squares: Tensor, var: Tensor, freedom: int) -> _Scattered:
        return cls([squares], [1 / var], freedom * var.log()) if freedom else cls.none()


def _ln_sum(values: list[Tensor], rates: list[Tensor], constant: Tensor) -> Tensor:
    """ln Σ_q exp(−½ [Σ_k v_k r_kq + c_q]) of values v that broadcast to (run, i, j), a few at a time.

    Rates r and constants c are (run, 1, node).
    """
    shape = torch.broadcast_shapes(*(v.shape for v in values))  # type: ignore[no-untyped-call]
    exponents = -0.5 * torch.cat([*rates, constant], 1)  # (run, k + 1, node)
    pairs = max(1, at_a_time(TERMS, constant) // max(1, shape[0] * constant.shape[-1]))
    columns = pieces(shape[2], pairs)
    rows = pieces(shape[1], pairs // max(1, shape[2]))
    spread = [v.expand(shape) for v in values]
    result = constant.new_empty(shape)
    for i, j in product(rows, columns):
        here = [v[:, i, j] for v in spread]
        terms = torch.stack([*here, torch.ones_like(here[0])], -1).flatten(1, 2)  # (run, pairs, k + 1)
        result[:, i, j] = torch.logsumexp(terms @ exponents, -1).reshape(here[0].shape)
    return result


def quadrature_nodes(prior: InverseGamma) -> tuple[Floats, Floats]:
    """Nodes σ² and ln weights of the trapezium rule in u = ln(σ²/mode).

    The law of u falls off doubly exponentially below its mode and like e^(−αu) above it; the likelihood of a pair narrows
    it by a degree of freedom or two. The step is 0.8/√(α + 1), or 0.4 if that is less. The nodes reach from where the law
    is e⁻³⁵ of its peak up to a σ² of 1e8 modes, and beyond by the factor with which the tail (σ²)^(−α−½) of an instance
    falls to 1e-7: a pair 10,000 standard deviations apart is still integrated to a relative 1e-6.
    """
    rate = prior.alpha + 1  # β/mode
    step = min(0.8 / np.sqrt(rate), 0.4)
    u = np.arange(-np.log(35 / rate + 2.5), np.log(1e8) + np.log(1e7) / (prior.alpha + 0.5), step)
    ln_density = prior.alpha * np.log(rate) - gammaln(prior.alpha) - prior.alpha * u - rate * np.exp(-u)
    return prior.mode * np.exp(u), ln_density + np.log(step)


def sampled_nodes(prior: InverseGamma, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """n samples of σ² with equal weights, as in the paper."""
    return prior.beta / rng.gamma(prior.alpha, size=n), np.full(n, -np.log(n))


def integrate_varying(
    model: TwoLevel, validate: Sequence[Part], *, samples: int | None = None, seeds: Sequence[int] | None = None
) -> TwoLevel:
    """The model with the within variance of every source integrated out, its law fitted on the validation parts.

    By quadrature, or with that many ``samples`` per axis (the paper: 2000), drawn with the seed of each run.
    """
    if not isinstance(model.between, NormalBetween):
        raise TypeError("the variance is integrated out of models with a normal law between sources")
    n_runs, _, n_axes = model.projection.shape
    if len(validate) != n_runs:
        raise ValueError(f"a model of {n_runs} runs got {len(validate)} validation parts")
    nodes, data_variance = [], []
    for run, part in enumerate(validate):
        centred = torch.from_numpy(part.values).to(model.projection) - model.centre[run]
        projected = (centred @ model.projection[run]).cpu().numpy()
        ssq, freedom = sums_of_squares(projected, part.source)
        data_variance.append(ssq.sum(axis=0) / freedom.sum())
        priors = [fit_inverse_gamma(ssq[:, axis], freedom) for axis in range(n_axes)]
        if samples is None:
            nodes.append([quadrature_nodes(prior) for prior in priors])
        else:
            rng = np.random.default_rng(run if seeds is None else seeds[run])
            nodes.append([sampled_nodes(prior, rng, samples) for prior in priors])
    most = max(len(sigma2) for run_nodes in nodes for sigma2, _ in run_nodes)
    sigma2, ln_weight = (np.full((len(nodes), most, n_axes), fill) for fill in (1.0, -np.inf))
    for run, run_nodes in enumerate(nodes):
        for axis, (values, weights) in enumerate(run_nodes):
            sigma2[run, : len(values), axis], ln_weight[run, : len(values), axis] = values, weights

    like = model.projection
    sampled, data = (torch.from_numpy(a).to(like) for a in (sigma2, np.stack(data_variance)[:, None]))
    scale_trace, scale_ref = (
        (v - data).clamp_min(0) / v + sampled / v for v in (model.var_within_trace, model.var_within_ref)
    )
    law = VaryingVariance(model.between, scale_trace, scale_ref, torch.from_numpy(ln_weight).to(like))
    return replace(model, between=law)

"""The within variance integrated out of a trained model: one for all sources, or one of each source's own.

*Common*: one within variance for all sources, and Student-t predictive laws for its uncertainty. The trained model predicts a
trace, on every axis, as N(m, v): under H1 given the ref, with

    m = μ + (y − μ) b/(b + e),  v = d + b e/(b + e),

and under H2 with m = μ, v = b + d. A normal-inverse-gamma prior NIG(μ₀ = 0, ν₀ = 0, α₀ = 2, β₀ = 3 v) on the location and
the variance of the deviations, updated by n data points of mean square v, gives (the paper's "common")

    α = α₀ + n/2,  β = β₀ + n v/2,  ν = ν₀ + n,
    trace ~ t with 2α degrees of freedom, location m and squared scale β (ν + 1)/(α ν).

Choices where the paper is silent. The "data variance" in β₀ is the variance of the trained model on that axis, so that
the prior's mode, β₀/(α₀ + 1), is the point value that is integrated. n is the number of training sources (351 in the
paper), for numerator and denominator alike. With n that large the t law is close to normal: the gain is small, as in the
paper.

*Varying*: sources with within variances of their own, which have an inverse gamma law per axis (the paper's Eq. 6).

    LR = ∫ p(x, y | σ²) π(σ²) dσ² / ( ∫ p(x | σ²) π(σ²) dσ² · ∫ p(y | σ²) π(σ²) dσ² )      on every axis

Training may have blown up the within variance v of an axis far beyond the variance s̄² of the data, to keep the axis quiet.
The paper therefore replaces "the data-variance by the sampled within-variance […] and not the within-variance parameter
itself". Read literally, v = (v − s̄²) + s̄² becomes

    v(σ²) = max(v − s̄², 0) + σ²

for trace and ref alike, with s̄² the mean square of the validation data per degree of freedom. A blown-up axis stays quiet, and
an axis on which v is the data's variance gets σ² in its place.

The integral is a sum over nodes: by quadrature (the default), or by samples as in the paper. Each axis has nodes of its own.
2000 samples stop short of the tail of the law, and give lower LLRs to pairs that are far apart.

The law is fitted to sums of squares. For a source with n instances SSQ/σ² ~ χ²(n − 1), and with σ² ~ InvGamma(α, β)

    SSQ/(2β) ~ BetaPrime((n − 1)/2, α)                                                        (Eq. 7)

The paper's recipe, as written:

1. Maximum likelihood by L-BFGS-B from α = 4 and β = mean(SSQ)/((n − 1)(α − 1)); where it does not converge, again from
   α + 0.5, and so on.
2. Maximum a posteriori with an exponential prior on β of rate ½ β_ml.
3. An α below 2 (infinite variance of σ²) is set to 2 + 1e-6, and β to 3 β_ml/(α_ml + 1 + 1e-6), which keeps the mode (Eq. 8).

What to know about it, each held by a test:

- The start for β divides by (α − 1), where matching the mean β/(α − 1) of σ² multiplies. It is only a start.
- The prior's rate ½ β_ml is not free of units. SSQs are therefore divided by their mean per degree of freedom before the
  fit (β_ml is then of order α), and β is multiplied back: the prior's weight does not depend on the scale of an axis.
  ``prior="as-printed"`` leaves them as they come. Those of standardised features are so small that the prior then weighs next
  to nothing, and step 2 gives what step 1 gave.
- "This promotes smaller values of β resulting in a bias towards larger σ_w": at fixed α a smaller β means a *smaller* σ_w.
  In the joint fit a smaller β pulls α down with it, and the tail gets heavier: larger σ_w become more probable, which is
  the conservative direction that the paper wants.
- "The estimated α" of step 3 may be that of step 1 or of step 2: both are looked at. The prior of step 2 pulls hardest where
  variances are nearly equal (α_ml large), so that such an axis, too, ends at α = 2, with the mode of step 1: conservative,
  and a jump from an axis whose α stays just above 2.
- Sources with more than two instances count with their own degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.special import betaln, digamma, gammaln
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.between import LN_2PI, AxisLaw, NormalBetween, Scatter
from lindley.models.blocks import at_a_time, pieces
from lindley.models.exponentials import ln_sum_exp
from lindley.models.neural.interpolation import interpolated
from lindley.models.two_level import TwoLevel, item_squares, take_runs
from lindley.table.splits import Part, Side

__all__ = ["CommonVariance", "VaryingVariance", "fit_inverse_gamma", "integrate_common", "integrate_varying"]

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


PriorUnits = Literal["scaled", "as-printed"]
"""Of the sums of squares to which the prior on β is put: their own mean, or those of the features."""
START_ALPHA, CLAMP, TINY = 4.0, 2.0, 1e-6
MOST_TRIES = 40


@dataclass(frozen=True)
class InverseGamma:
    """The law of σ² on one axis, and the maximum-likelihood fit it came from."""

    alpha: float
    beta: float
    alpha_ml: float
    beta_ml: float

    @property
    def mode(self) -> float:
        """β/(α + 1)."""
        return self.beta / (self.alpha + 1)


def fit_inverse_gamma(ssq: Floats, freedom: Floats, prior: PriorUnits = "scaled") -> InverseGamma:
    """The paper's recipe on one axis: sums of squares of sources (sources,) with n − 1 degrees of freedom each."""
    used = freedom > 0
    ssq, freedom = np.asarray(ssq, dtype=np.float64)[used], np.asarray(freedom, dtype=np.float64)[used]
    if len(ssq) < 2 or not ssq.sum() > 0:
        raise LindleyError(
            f"the varying within variance needs validation sources with two measurements that differ: got {len(ssq)}"
        )
    unit = ssq.sum() / freedom.sum()
    scaled = np.maximum(ssq / unit, 1e-300)  # equal replicates on one axis: a density at zero would be infinite

    alpha_ml, beta_ml = _maximise(scaled, freedom, rate=0.0, start=START_ALPHA)
    alpha, beta = alpha_ml, beta_ml
    if alpha_ml >= CLAMP:
        squared_unit = unit**2 if prior == "as-printed" else 1.0  # rate and β are both in units of a sum of squares
        alpha, beta = _maximise(scaled, freedom, rate=0.5 * beta_ml * squared_unit, start=alpha_ml)
    if alpha < CLAMP:
        alpha, beta = CLAMP + TINY, (CLAMP + 1) * beta_ml / (alpha_ml + 1 + TINY)
    return InverseGamma(alpha, beta * unit, alpha_ml, beta_ml * unit)


def negative_ln_likelihood(ln_alpha_beta: Floats, ssq: Floats, freedom: Floats, rate: float) -> tuple[float, Floats]:
    """−Σ ln BetaPrime(SSQ/(2β); (n−1)/2, α) + rate·β and its gradient in (ln α, ln β), without terms that are constant.

    The density of SSQ is u^(k−1) (1 + u)^(−k−α) / (2β B(k, α)) with u = SSQ/(2β) and k = (n − 1)/2.
    """
    alpha, beta = np.exp(ln_alpha_beta)
    k, u = freedom / 2, ssq / (2 * beta)
    value = -np.sum(k * np.log(u) - (k + alpha) * np.log1p(u) - betaln(k, alpha)) + rate * beta
    d_alpha = -np.sum(-np.log1p(u) - digamma(alpha) + digamma(k + alpha))
    d_ln_beta = -np.sum(-k + (k + alpha) * u / (1 + u)) + rate * beta
    return float(value), np.array([alpha * d_alpha, d_ln_beta])


def _maximise(ssq: Floats, freedom: Floats, rate: float, start: float) -> tuple[float, float]:
    """α and β. Bounded: normal data have their maximum at α = ∞, which 1e4 is close to."""
    from scipy.optimize import minimize  # on demand: it takes a third of a second

    for alpha in start + 0.5 * np.arange(MOST_TRIES):
        beta = float(np.mean(ssq / freedom)) / max(alpha - 1, 0.1)
        # L-BFGS-B hands its 2 × 2 matrices to BLAS, whose threads cost 40 times the fit on cores that are busy.
        with _one_thread():
            found = minimize(
                negative_ln_likelihood,
                np.log([alpha, beta]),
                args=(ssq, freedom, rate),
                jac=True,
                method="L-BFGS-B",
                bounds=[(np.log(1e-3), np.log(1e4)), (np.log(1e-8), np.log(1e8))],
            )
        if found.success and np.isfinite(found.fun):
            best: Floats = np.exp(found.x)
            return float(best[0]), float(best[1])
    raise LindleyError(f"the law of the within variance could not be fitted in {MOST_TRIES} tries")


def _one_thread() -> AbstractContextManager[Any]:
    """Linear algebra on one thread; where nobody can tell it so, a lean machine with torch and SciPy alone, as it is."""
    controller = _blas()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    """Finding the libraries takes a millisecond or two: once is enough."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()


TERMS = 1 << 18
"""Exponents held at a time: 2 MiB, which a processor keeps close at hand."""
FEW, FEW_ON_GPU = 48, 1024
"""Items of a side, of which all pairs are computed one by one: a GPU has done so before it is told where to look instead."""
HALF = 1.5
"""Half the length of a piece of the line on which ln p(x, y) is a polynomial, in standard deviations of x given y."""


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

    def ln_lr_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR on one axis, in the memory of the numerator."""
        numerator, denominator = self.ln_parts_axis(axis, x, y, d, e, scatter)
        return numerator - denominator if numerator.requires_grad else numerator.sub_(denominator)

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """The integrals of Eq. 6 by log-sum-exp over the nodes.

        The exponents of all nodes are linear in (x − y)², x², y² and the sums of squares of several instances: a matrix
        product with a few columns. Of all pairs of many items, each measured once, a few are computed so, and the others follow
        (`interpolation`).
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
        trace = _ln_sum(
            [x**2, *of_x.values], [1 / (b + d), *of_x.rates], (b + d).log() + LN_2PI + of_x.constant + weight
        )
        ref = _ln_sum([y**2, *of_y.values], [1 / (b + e), *of_y.rates], (b + e).log() + LN_2PI + of_y.constant + weight)
        # [(b + e) x² + (b + d) y² − 2b xy]/Δ as a sum of squares: nothing cancels for a close pair far from the mean.
        rates = [b / delta, e / delta, d / delta, *of_x.rates, *of_y.rates]
        constant = delta.log() + 2 * LN_2PI + of_x.constant + of_y.constant + weight
        is_differentiated = any(t.requires_grad for t in (x, y, constant))
        few = FEW if x.device.type == "cpu" else FEW_ON_GPU
        is_of_all_pairs = x.shape[2] == y.shape[1] == 1 and max(x.shape[1], y.shape[2]) > few
        if is_of_all_pairs and scatter is None and not is_differentiated:
            usual = ln_w.argmax(-1, keepdim=True)
            d, e = (t.take_along_dim(usual, -1) for t in (d, e))
            wide = torch.cat([d + b * e / (b + e), e + b * d / (b + d)], 1).sqrt()[..., 0].mul(HALF).tolist()
            joint = _ln_sum_of_all_pairs(x, y, rates, constant, wide)
        else:
            joint = _ln_sum([(x - y) ** 2, x**2, y**2, *of_x.values, *of_y.values], rates, constant)
        return joint - ref if joint.requires_grad else joint.sub_(ref), trace


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
    shape = np.broadcast_shapes(*(v.shape for v in values))  # torch's own would import a second of symbolic algebra
    exponents = -0.5 * torch.cat([*rates, constant], 1)  # (run, k + 1, node)
    pairs = max(1, at_a_time(TERMS, constant) // max(1, shape[0] * constant.shape[-1]))
    columns = pieces(shape[2], pairs)
    rows = pieces(shape[1], pairs // max(1, shape[2]))
    spread = [v.expand(shape) for v in values]
    result = constant.new_empty(shape)
    for i, j in product(rows, columns):
        here = [v[:, i, j] for v in spread]
        terms = torch.stack([*here, torch.ones_like(here[0])], -1).flatten(1, 2)  # (run, pairs, k + 1)
        result[:, i, j] = ln_sum_exp(terms @ exponents).reshape(here[0].shape)
    return result


def _ln_sum_of_all_pairs(
    x: Tensor, y: Tensor, rates: list[Tensor], constant: Tensor, half: list[list[float]]
) -> Tensor:
    """`_ln_sum` of (x − y)², x² and y² of all pairs of x (run, i, 1) and y (run, 1, j), from few of them where it can be.

    ``half``: of every run, how wide the function is along x and along y.
    """
    found = []
    for run, (half_x, half_y) in enumerate(half):
        own_rates, own_constant = [t[run, None] for t in rates], constant[run, None]

        def exact(x: Tensor, y: Tensor, rates: list[Tensor] = own_rates, constant: Tensor = own_constant) -> Tensor:
            squares = [t[None] for t in ((x[:, None] - y) ** 2, x[:, None] ** 2, y[None] ** 2)]
            return _ln_sum(squares, rates, constant)[0]

        own_y = y[run, 0]

        def of(x: Tensor, y: Tensor = own_y, half: float = half_y, exact: Any = exact) -> Tensor:
            along_y = interpolated(lambda points: exact(x, points).mT, y, half)
            return exact(x, y) if along_y is None else along_y.mT

        along_x = interpolated(of, x[run, :, 0], half_x)
        found.append(of(x[run, :, 0]) if along_x is None else along_x)
    return found[0][None] if len(found) == 1 else torch.stack(found)


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
    model: TwoLevel,
    validate: Sequence[Part],
    *,
    samples: int | None = None,
    prior: PriorUnits = "scaled",
    seeds: Sequence[int] | None = None,
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
        source, item = np.unique(part.source, return_inverse=True)
        side = Side(part.values, item, source)
        ssq, freedom = item_squares(take_runs(model, [run]), side).cpu().numpy(), (side.count - 1).astype(np.float64)
        data_variance.append(ssq.sum(axis=0) / freedom.sum())
        laws = [fit_inverse_gamma(ssq[:, axis], freedom, prior) for axis in range(n_axes)]
        if samples is None:
            nodes.append([quadrature_nodes(law) for law in laws])
        else:
            rng = np.random.default_rng(run if seeds is None else seeds[run])
            nodes.append([sampled_nodes(law, rng, samples) for law in laws])
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

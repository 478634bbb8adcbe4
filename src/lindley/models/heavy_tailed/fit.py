r"""Fit heavy-tailed PLDA by maximum likelihood: W, B, μ, ν and ν_b of every run, from all its sources.

The items of a source are its trace and its ref: x̄_k is the mean of m_k instances, S_k their scatter. In the notation of
`lindley.models.heavy_tailed.model`, with z the instances in the eigenbasis of the moment: W = 1, B = diag(λ), μ = 0,

1. E. For every source, the scales have a posterior on the lattice of t_k = τ_k/ω, with weights w; at a node 1/ω has the mean
   κ = A/R, and θ is N(m, ω V) with V = 1/(1/λ + Σ m_k/t_k) and m = V Σ m_k x̄_k/t_k.
2. M. With u_k = E[κ/t_k] = E[1/τ_k] and v = E[κ] = E[1/ω],

       W = Σ_sources Σ_k {m_k E[κ (x̄_k − m)(x̄_k − m)ᵀ/t_k + V/t_k] + u_k S_k} / (instances · mean of all u_k)
       μ = Σ_sources E[κ m] / Σ v,      B = Σ_sources {E[κ (m − μ)(m − μ)ᵀ] + E[V]} / Σ v

   where the divisors, instead of the number of instances and of sources, are those of parameter-expanded EM (Liu, Rubin and
   Wu 1998, Biometrika 85, 755): no step lowers the likelihood, and far fewer are needed.
3. ν and ν_b: a Newton step on the likelihood itself (ECME), shortened until it rises.

Nothing is random. With fewer degrees of freedom than two per feature, W, or B, is the mode of a posterior: its prior is an
inverse Wishart law around the classical estimate, with as many degrees of freedom as there are too few. Validation pairs are
not needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import tee

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.blocks import pieces
from lindley.models.classical import Moments, estimate_moments
from lindley.models.fitting import Fitted, Sources, Task, refittable
from lindley.models.heavy_tailed.model import HeavyTailed, scale_lattice
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["fit"]

Index = NDArray[np.intp]

LEAST_NU, MOST_NU = 1.0, 1000.0
"""Bounds of ν and ν_b: tails of a Cauchy law, and as good as none."""
START_NU, START_NU_BETWEEN = 6.0, 12.0
LEAST_LAMBDA = 0.01
"""Variance between sources on an axis at the start, at least: EM cannot leave zero."""
TOLERANCE, REACH = 3e-3, 24.0
"""Of the lattice: coarser than in the model, as errors of single sources average out."""
ITERATIONS, CONVERGED = 300, 1e-4
"""At most; and the gain in ln likelihood, per source, at which an iteration is the last."""
LONGEST_STEP = 0.4
"""In ln ν: the lattice is made for the ν at the start of the step."""
SINGULAR = 1e7
"""Condition of a basis, in units of the spread of each feature, that only features which depend on each other bring about."""
PER_FEATURE = 2
"""Degrees of freedom per feature with which a covariance matrix needs no prior."""
SQUARES, LEAST_SQUARES = 1 << 23, 1 << 12
"""Numbers that are held at a time, 64 MiB; a source has as many as nodes, at least."""
NEGLIGIBLE = 1e-11
"""Posterior weight of a node of a source below which it is left out of the sums."""


def fit(task: Task) -> Fitted:
    """The heavy-tailed model of every run, from the part that it learns from. It has no options.

    Raises:
        LindleyError: if a run has fewer than two sources, none measured twice, or a value that is not finite.
    """
    return refittable(_fit_all, task)


def _fit_all(task: Task) -> TwoLevel:
    fitted: list[tuple[Floats, ...]] = []
    parts, again = tee(map(_finite, task.learn))
    for part, moments in zip(parts, estimate_moments(again), strict=True):
        fitted.append(_fit(part, moments))
        task.count(len(fitted))
    centre, basis, var, nu, nu_between = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*fitted, strict=True))
    ones = torch.ones_like(var)
    return TwoLevel(centre, basis, ones, ones, HeavyTailed(torch.zeros_like(var), var, nu, nu_between))


def _finite(part: Part) -> Part:
    if not np.isfinite(part.values).all():
        raise LindleyError("heavy-tailed PLDA needs finite values")
    return part


def _fit(part: Part, moments: Moments) -> tuple[Floats, ...]:
    """Centre (1, feature), basis (feature, axis), λ (1, axis), ν and ν_b (1, 1) of one run.

    The basis moves with the estimates, such that W = 1, B = diag(λ) and μ = 0 at each start.
    """
    data = _Data.of(part)
    start, var = moments.eigenbasis()
    prior = _Prior.of(data, scipy.linalg.inv(start), var)
    basis, centre, var = start, moments.source_means.mean(axis=0), np.maximum(var, LEAST_LAMBDA)
    ln_nu, spread = np.log([START_NU, START_NU_BETWEEN]), part.values.std(axis=0)
    before = -math.inf
    for _ in range(ITERATIONS):
        nodes = _Nodes.of_all(data.on(centre, basis), var, np.exp(ln_nu))
        value, ln_nu = _newton(nodes, ln_nu)
        value += data.n_instances * np.linalg.slogdet(basis)[1] + prior.ln_density(basis, var)
        if value - before < CONVERGED * data.n_sources:
            break
        before = value
        within, between, mean = _maximise(nodes, data.on(centre, basis), np.exp(ln_nu) / 2, prior.on(basis))
        centre = centre + np.linalg.solve(basis.T, mean)
        var, turn = scipy.linalg.eigh(between, within)
        basis, var = basis @ turn, np.maximum(var, 0.0)
        # A variance falls by a share in each step, down to rounding errors.
        if np.linalg.cond(basis * spread[:, None]) > SINGULAR:
            raise np.linalg.LinAlgError("the covariance within sources is singular")
    return centre[None], basis, var[None], *np.exp(ln_nu).reshape(2, 1, 1)


@dataclass(frozen=True, eq=False)
class _Data:
    """The items of all sources, and which of them belong to sources of the same numbers of instances."""

    means: Floats  # (items, feature)
    contrasts: Floats  # of the instances of items (rows, feature); their squares sum to the scatter
    owner: Index  # (rows,) item of a contrast
    groups: list[tuple[Index, Index]]
    """Items of sources (sources, k), and their numbers of instances (k,); k is 1 or 2. Some sources at a time."""
    n_sources: int
    n_instances: int

    @classmethod
    def of(cls, part: Part) -> _Data:
        _, source = np.unique(part.source, return_inverse=True)
        number = 2 * source + ~part.is_trace
        items, numbers = Sources.of(part.values, number), np.unique(number)
        item_of = np.full((int(source.max()) + 1, 2), -1)
        item_of[numbers // 2, numbers % 2] = np.arange(len(numbers))
        there = item_of >= 0
        count = np.where(there, items.count[item_of], 0)
        groups = []
        for pattern in np.unique(count, axis=0):
            which = np.flatnonzero((count == pattern).all(axis=1))
            for some in pieces(len(which), SQUARES // max(part.values.shape[1] ** 2, LEAST_SQUARES)):
                groups.append((item_of[which[some]][:, pattern > 0], pattern[pattern > 0]))
        contrasts, owner = np.empty((0, part.values.shape[1])), np.empty(0, dtype=np.intp)
        if (items.count > 1).any():
            contrasts, owner = items.contrasts()
        return cls(items.means, contrasts, owner, groups, len(item_of), len(part.values))

    def on(self, centre: Floats, basis: Floats) -> _Data:
        """The data on the axes of a basis."""
        return replace(self, means=(self.means - centre) @ basis, contrasts=self.contrasts @ basis)

    def scatter(self) -> Floats:
        """Sum of squares of every item, over all axes (items,)."""
        squares = (self.contrasts**2).sum(axis=1)
        return np.bincount(self.owner, squares, minlength=len(self.means)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Prior:
    """Inverse Wishart laws around W₀ = F Fᵀ and B₀ = F diag(λ₀) Fᵀ, with so many degrees of freedom; none, as a rule."""

    root: Floats  # Fᵀ (axis, feature): the inverse of the classical basis
    var: Floats  # λ₀
    freedom: tuple[float, float]  # of W and of B

    @classmethod
    def of(cls, data: _Data, root: Floats, var: Floats) -> _Prior:
        enough = PER_FEATURE * len(var)
        within, between = data.n_instances - data.n_sources, data.n_sources - 1
        return cls(root, var, (float(max(0, enough - within)), float(max(0, enough - between))))

    def on(self, basis: Floats) -> tuple[tuple[float, Floats], tuple[float, Floats]]:
        """Degrees of freedom and centre of either law, on the axes of a basis."""
        moved = self.root @ basis
        return (self.freedom[0], moved.T @ moved), (self.freedom[1], (moved.T * self.var) @ moved)

    def ln_density(self, basis: Floats, var: Floats) -> float:
        """−½ κ [ln |V| + tr(V⁻¹ V₀)] of both, for W and B of the features that the basis stands for."""
        (n_within, within), (n_between, between) = self.on(basis)
        ln_det = -2 * float(np.linalg.slogdet(basis)[1])
        least = np.maximum(var, 1e-300)
        of_within = ln_det + np.trace(within)
        of_between = ln_det + np.log(least).sum() + (between.diagonal() / least).sum()
        return float(-0.5 * ((n_within * of_within if n_within else 0) + (n_between * of_between if n_between else 0)))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The sources of one pattern on their lattice: all that does not depend on ν and ν_b."""

    items: Index  # (sources, k)
    count: Index  # (k,)
    u: Floats  # ln t (node, k)
    quadratic: Floats  # (sources, node): twice what stands with 1/ω in the exponent
    fixed: Floats  # (node,)
    freedom: int  # squares in the quadratic
    shrunk: Floats  # V (node, axis)

    @classmethod
    def of_all(cls, data: _Data, var: Floats, nu: Floats) -> list[_Nodes]:
        scatter, p = data.scatter(), len(var)
        reach = math.ceil(REACH + 0.5 * np.log1p(var).sum())
        # Steps for tails as light as a step of ν may make them, which are the narrowest.
        lightest = np.minimum(nu * math.exp(LONGEST_STEP), MOST_NU) / 2
        made = []
        for items, count in data.groups:
            k = len(count)
            u, ln_cell = scale_lattice(
                (*[float(lightest[0])] * k, float(lightest[1])), (*(p * int(m) for m in count), p), reach, TOLERANCE
            )
            per = np.exp(-u)  # 1/t (node, k)
            rate = count * per
            total = rate.sum(axis=1)[:, None]
            shrunk = var / (1 + var * total)  # V
            x = [data.means[items[:, i]] for i in range(k)]
            quadratic = np.zeros((len(items), len(u)))
            for i in range(k):
                quadratic += np.outer((x[i] ** 2).sum(axis=1), rate[:, i])
                quadratic += np.outer(scatter[items[:, i]], per[:, i])
                for j in range(k):
                    quadratic -= (x[i] * x[j]) @ (shrunk * (rate[:, i] * rate[:, j])[:, None]).T
            fixed = ln_cell - 0.5 * np.log1p(var * total).sum(axis=1) + 0.5 * p * np.log(rate).sum(axis=1)
            fixed -= 0.5 * p * ((count - 1) * u).sum(axis=1)
            # Rounding can leave a little less than nothing.
            made.append(cls(items, count, u, np.maximum(quadratic, 0.0), fixed, int(count.sum()) * p, shrunk))
        return made

    def posterior(self, alpha: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Weights w and κ (sources, node) and ln p (sources,), up to a constant, for α = (ν/2, ν_b/2); and A."""
        k = len(self.count)
        a = float(k * alpha[0] + alpha[1] + self.freedom / 2)
        rest = alpha[0] * np.exp(-self.u).sum(axis=1) + alpha[1] + 0.5 * self.quadratic
        constant = k * _normaliser(alpha[0]) + _normaliser(alpha[1]) + gammaln(a)
        exponent = constant + self.fixed - alpha[0] * self.u.sum(axis=1) - a * np.log(rest)
        top = exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent - top)
        total = weight.sum(axis=1, keepdims=True)
        return weight / total, a / rest, (top + np.log(total))[:, 0], a


def _normaliser(alpha: float) -> float:
    return float(alpha * math.log(alpha) - gammaln(alpha))


def _ln_likelihood(nodes: Sequence[_Nodes], ln_nu: Floats) -> tuple[float, Floats]:
    """Σ ln p and its gradient in (ln ν, ln ν_b).

    By Fisher's identity the gradient in α = ν/2 is the posterior mean of ln α + 1 − ψ(α) − ln τ − 1/τ, over all τ, where
    given a node E[ln ω] = ln R − ψ(A) and E[1/ω] = A/R.
    """
    alpha = np.exp(ln_nu) / 2
    value, slope = 0.0, np.zeros(2)
    for group in nodes:
        weight, kappa, ln_p, a = group.posterior(alpha)
        k, n = len(group.count), len(ln_p)
        ln_omega = math.log(a) - np.log(kappa) - digamma(a)
        mass = weight.sum(axis=0)
        of_omega = float((weight * (ln_omega + kappa)).sum())
        of_tau = k * float((weight * ln_omega).sum()) + float(mass @ group.u.sum(axis=1))
        of_tau += float(((weight * kappa).sum(axis=0)) @ np.exp(-group.u).sum(axis=1))
        value += float(ln_p.sum())
        slope += [k * n * _slope(alpha[0]) - of_tau, n * _slope(alpha[1]) - of_omega]
    return value, slope * alpha


def _slope(alpha: float) -> float:
    """The derivative of `_normaliser`."""
    return float(math.log(alpha) + 1 - digamma(alpha))


def _newton(nodes: Sequence[_Nodes], ln_nu: Floats) -> tuple[float, Floats]:
    """A step of ln ν and ln ν_b that does not lower the likelihood, and what that is then."""
    value, slope = _ln_likelihood(nodes, ln_nu)
    h = 1e-3
    hessian = np.stack([(_ln_likelihood(nodes, ln_nu + h * e)[1] - slope) / h for e in np.eye(2)])
    curvature, axes = np.linalg.eigh((hessian + hessian.T) / 2)
    along = (slope @ axes) / np.maximum(np.abs(curvature), 1e-6)  # uphill where the likelihood is not concave
    step = axes @ along
    step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
    for _ in range(8):
        new = np.clip(ln_nu + step, math.log(LEAST_NU), math.log(MOST_NU))
        new_value = _ln_likelihood(nodes, new)[0]
        if new_value >= value:
            return new_value, new
        step = step / 3
    return value, ln_nu


def _maximise(
    nodes: Sequence[_Nodes], data: _Data, alpha: Floats, prior: tuple[tuple[float, Floats], tuple[float, Floats]]
) -> tuple[Floats, Floats, Floats]:
    """W, B and μ of the module's formulas, on the axes of the data."""
    p = data.means.shape[1]
    within, second, first = np.zeros((p, p)), np.zeros((p, p)), np.zeros(p)
    u_items, u_sources = np.zeros(len(data.means)), 0.0
    for group in nodes:
        weight, kappa, _, _ = group.posterior(alpha)
        scaled = weight * kappa
        per = np.exp(-group.u)
        for i in range(len(group.count)):
            u_items[group.items[:, i]] = scaled @ per[:, i]
        u_sources += float(scaled.sum())
        of_within, of_second, of_first = _expected(group, data, weight, scaled)
        within += of_within
        second += of_second
        first += of_first
    within += (data.contrasts * u_items[data.owner][:, None]).T @ data.contrasts
    mean = first / u_sources
    between = second - u_sources * np.outer(mean, mean)
    # Parameter expansion and a prior do not go together: with a prior, the steps are those of plain EM.
    (n_within, at_within), (n_between, at_between) = prior
    weight_within = data.n_instances * (1.0 if n_within else float(u_items.mean()))
    weight_between = data.n_sources if n_between else u_sources
    return (
        (within + n_within * at_within) / (weight_within + n_within),
        (between + n_between * at_between) / (weight_between + n_between),
        mean,
    )


def _expected(group: _Nodes, data: _Data, weight: Floats, scaled: Floats) -> tuple[Floats, Floats, Floats]:
    """Σ_sources of: Σ_k m_k E[κ (x̄_k − m)(x̄_k − m)ᵀ/t_k + V/t_k];  E[κ m mᵀ + V];  E[κ m].

    A source has few nodes whose weight matters; each is a row of the products.
    """
    p, rate = data.means.shape[1], group.count * np.exp(-group.u)  # m_k/t_k (node, k)
    mass = weight.sum(axis=0)
    within, second, first = np.diag((mass * rate.sum(axis=1)) @ group.shrunk), np.diag(mass @ group.shrunk), np.zeros(p)
    sources, nodes = np.nonzero(weight > NEGLIGIBLE)
    for some in pieces(len(sources), max(1, SQUARES // p)):
        s, q = sources[some], nodes[some]
        x, times = [data.means[group.items[s, i]] for i in range(len(group.count))], scaled[s, q, None]
        mean = group.shrunk[q] * sum(each * rate[q, i, None] for i, each in enumerate(x))
        for i, each in enumerate(x):
            away = each - mean
            within += (away * (times * rate[q, i, None])).T @ away
        second += (mean * times).T @ mean
        first += (mean * times).sum(axis=0)
    return within, second, first

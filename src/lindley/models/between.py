"""How sources scatter: the law of a source's mean, per axis, and what it makes of a pair.

All laws here see instances in a basis where covariances are diagonal. A trace is the mean x of M instances, with
variance d = var_within_trace / M per axis; a ref is the mean y of N instances, with e = var_within_ref / N. Shapes
carry a leading run dimension: x is (run, traces, axis), y is (run, refs, axis), d and e broadcast to (run, 1, axis).

Every law gives ``ln_lr(x, y, d, e)`` = ln p(x, y | one source) − ln p(x) − ln p(y), (run, traces, refs), for all pairs
at once. The normal and the kernel law do so by matrix products: memory is traces × refs, never traces × refs × axes.

Laws that factor over axes have an LLR that is a sum of LLRs per axis, which are what an analyst reads: an `AxisLaw`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from lindley.models.blocks import at_a_time, pieces
from lindley.models.exponentials import exp_, ln_sum_exp

__all__ = [
    "LN_2PI",
    "AxisLaw",
    "Between",
    "KernelBetween",
    "NormalBetween",
    "Scatter",
    "coupled",
    "factors",
    "ln_sum_of_products",
]


@dataclass(frozen=True, eq=False)
class Scatter:
    """How the instances of an item scatter around their mean: what they tell of a within variance that is not known.

    What a model's ``scatter_of`` makes of them: for most, sums of squares per axis, each with as many degrees of freedom as the
    item has instances, less one.
    """

    trace: Tensor  # (run, traces, axis or what else the model asks for)
    ref: Tensor  # (run, refs, …)
    freedom_trace: int
    freedom_ref: int


class Between(ABC):
    """A between-source law. One with a faster form for all pairs overrides ``ln_lr``."""

    uses_scatter: ClassVar[bool] = False
    """Whether more than the means of the instances counts: where the within variance is known, it does not."""

    @abstractmethod
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of source means, (run, 1, axis) each."""

    @abstractmethod
    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x | y, one source) and ln p(x | another source) of all pairs: they broadcast to (run, traces, refs)."""

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln LR of all pairs of x (run, traces, axis) and y (run, refs, axis): (run, traces, refs)."""
        numerator, denominator = self.ln_parts(x, y, d, e, scatter)
        return numerator - denominator


class AxisLaw(Between):
    """A law given by its two densities on one axis: ``ln_parts_axis``, from which everything else follows."""

    @abstractmethod
    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x | y, one source) and ln p(x | another source) on one axis.

        x and y broadcast to (run, i, j); their variances d and e are (run, 1, 1). Sums of squares in ``scatter`` have the
        shapes of x and y.
        """

    def ln_lr_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR on one axis, of x and y that broadcast to (run, i, j)."""
        numerator, denominator = self.ln_parts_axis(axis, x, y, d, e, scatter)
        return numerator - denominator

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln LR of all pairs of x (run, traces, axis) and y (run, refs, axis): (run, traces, refs)."""
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            more = self.ln_lr_axis(axis, *_columns(axis, x, y, d, e), _on_axis(axis, scatter))
            total = total + more if more.requires_grad or axis == 0 else total.add_(more)
        return total

    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x | y, one source) and ln p(x | another source) of all pairs, (run, traces, refs) and (run, traces, 1)."""
        numerator = denominator = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            up, down = self.ln_parts_axis(axis, *_columns(axis, x, y, d, e), _on_axis(axis, scatter))
            numerator, denominator = numerator + up, denominator + down
        return numerator, denominator

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln LR per axis of given pairs: x and y are (run, pairs, axis), and so is the result."""
        llrs = []
        for axis in range(x.shape[-1]):
            one = scatter and replace(scatter, trace=scatter.trace[..., axis, None], ref=scatter.ref[..., axis, None])
            x_k, y_k, d_k, e_k = (t[:, :, axis, None] for t in (x, y, d, e))
            llrs.append(self.ln_lr_axis(axis, x_k, y_k, d_k, e_k, one))
        return torch.cat(llrs, -1)


def _columns(axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One axis of traces as rows and of refs as columns, with their variances."""
    return x[:, :, axis, None], y[:, None, :, axis], d[:, :, axis, None], e[:, :, axis, None]


def _on_axis(axis: int, scatter: Scatter | None) -> Scatter | None:
    return scatter and replace(scatter, trace=scatter.trace[:, :, axis, None], ref=scatter.ref[:, None, :, axis])


LN_2PI = math.log(2 * math.pi)
UNDERFLOW, SINGLE_UNDERFLOW = 1e-280, 1e-30
"""A sum of products of exponentials below this may have lost terms; it is redone by an exact log-sum-exp."""
TERMS = 1 << 22
"""Items × kernels held at a time for a product: 32 MiB."""
SUMMED = 1 << 17
"""Items × kernels at a time that are summed one by one: 1 MiB, which a processor keeps close at hand."""
LEAST_POINTS = 32
"""Items at a time, at least: with fewer the time would go into fetching the kernels."""
TERMS_PER_REDO = 1 << 24
"""Terms of exact sums held at a time: 128 MiB."""


@dataclass(frozen=True, eq=False)
class NormalBetween(AxisLaw):
    """Source means are N(mean, var) per axis: Lindley's normal–normal model."""

    mean: Tensor  # (run, 1, axis)
    var: Tensor  # b (run, 1, axis)

    def moments(self) -> tuple[Tensor, Tensor]:
        """μ and b."""
        return self.mean, self.var

    def ln_marginal(self, x: Tensor, d: Tensor) -> Tensor:
        """ln N(x; μ, b + d)."""
        total = self.var + d
        return -0.5 * ((x - self.mean) ** 2 / total + total.log() + LN_2PI).sum(-1)

    def ln_joint_factors(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Two factors whose matrix product is ln N((x, y); (μ, μ), [[b + d, b], [b, b + e]]) of all pairs.

        Terms of a trace alone are the last column but one of the first, those of a ref the last of the second.
        """
        b = self.var
        delta = b * d + b * e + d * e
        x, y = x - self.mean, y - self.mean
        rows = -0.5 * ((b + e) / delta * x**2 + delta.log() + 2 * LN_2PI).sum(-1)
        columns = -0.5 * ((b + d) / delta * y**2).sum(-1)
        return factors(x * (b / delta), y, rows, columns)

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """N(x; m, d + be/(b+e)) given the ref, with m = μ + (y − μ) b/(b+e); and N(x; μ, b + d)."""
        mean, b = self.mean[:, :, axis, None], self.var[:, :, axis, None]
        x, y = x - mean, y - mean
        given, free = d + b * e / (b + e), b + d
        from_ref = x - y * (b / (b + e))
        return -0.5 * (from_ref**2 / given + given.log() + LN_2PI), -0.5 * (x**2 / free + free.log() + LN_2PI)

    def ln_lr_terms(self, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """c, α, β and γ of ln LR = Σ [c − ½ α x̃² − ½ β ỹ² + γ x̃ ỹ], (run, 1, axis) each.

        x̃ and ỹ are deviations from the mean. With Δ = bd + be + de: c = ½ ln[(b+d)(b+e)/Δ], α = b²/((b+d)Δ), β = b²/((b+e)Δ)
        and γ = b/Δ.
        """
        b = self.var
        total_d, total_e, delta = b + d, b + e, b * d + b * e + d * e
        both = b / delta
        return 0.5 * (total_d * total_e / delta).log(), both * b / total_d, both * b / total_e, both

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """All axes of given pairs at once, (run, pairs, axis)."""
        constant, of_x, of_y, of_both = self.ln_lr_terms(d, e)
        x, y = x - self.mean, y - self.mean
        # Few passes: constant + x (γ y − ½ α x) − ½ β y².
        by_x = torch.addcmul(of_both * y, of_x, x, value=-0.5)
        return torch.addcmul(torch.addcmul(constant, x, by_x), of_y, y**2, value=-0.5)

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """The sum of `ln_lr_terms` over axes: only its last term couples a pair."""
        constant, of_x, of_y, of_both = self.ln_lr_terms(d, e)
        x, y = x - self.mean, y - self.mean
        rows, columns = (constant - 0.5 * of_x * x**2).sum(-1), -0.5 * (of_y * y**2).sum(-1)
        return coupled(of_both * x, y, rows, columns)


@dataclass(frozen=True, eq=False)
class KernelBetween(Between):
    """Source means are a mixture Σ_k w_k N(μ_k, var): a kernel density over training sources, or known batches.

    With Δ = bd + be + de, summed over axes,

        ln p(x, y) = −½ Σ [x² (b+e) + y² (b+d) − 2xyb]/Δ − ½ Σ ln[(2π)² Δ]
                     + ln Σ_k w_k exp(A_xk + B_yk − ½ Σ μ_k² (d+e)/Δ)
        A_xk = Σ x μ_k e/Δ,  B_yk = Σ y μ_k d/Δ

    so the sum over kernels is a product of two matrices of exponentials, each scaled by its row's maximum, some kernels
    at a time. No term divides by b, so an axis without any between variance is fine. Where the product falls below
    `UNDERFLOW` the terms it lost could matter, and those pairs are summed again by an exact log-sum-exp.
    """

    centres: Tensor  # μ_k (run, kernel, axis)
    var: Tensor  # b (run, 1, axis)
    ln_weights: Tensor  # ln w_k (run, kernel); −inf for padding

    def moments(self) -> tuple[Tensor, Tensor]:
        """Σ_k w_k μ_k, and b + Σ_k w_k (μ_k − mean)²."""
        weight = self.ln_weights.exp()[..., None]
        mean = (weight * self.centres).sum(1, keepdim=True)
        return mean, self.var + (weight * (self.centres - mean) ** 2).sum(1, keepdim=True)

    def ln_marginal(self, x: Tensor, d: Tensor) -> Tensor:
        """ln Σ_k w_k N(x; μ_k, b + d)."""
        total = self.var + d
        rows = -0.5 * (x**2 / total + total.log() + LN_2PI).sum(-1)
        kernels = _Kernels(self.centres, self.ln_weights - 0.5 * (self.centres**2 / total).sum(-1))
        return rows + kernels.ln_sum(x / total)

    def ln_joint(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """The formula of the class."""
        pair, kernels, u, v = self._terms(x, y, d, e)
        return pair + kernels.exact(*kernels.ln_product(u, v), u, v)

    def ln_joint_given(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """The same of given pairs: x and y are (run, pairs, axis), the result (run, pairs)."""
        b, delta = self.var, self.var * d + self.var * e + d * e
        quadratic = (b + e) / delta * x**2 + (b + d) / delta * y**2 - 2 * b / delta * x * y
        pair = -0.5 * (quadratic + delta.log() + 2 * LN_2PI).sum(-1)
        return pair + self._kernels(d, e, delta).ln_sum(x * (e / delta) + y * (d / delta))

    def ln_lr_given(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln LR of given pairs: x and y are (run, pairs, axis), the result (run, pairs)."""
        return self.ln_joint_given(x, y, d, e) - self.ln_marginal(x, d) - self.ln_marginal(y, e)

    def ln_joint_bounds(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """A lower and an upper bound of `ln_joint`, at the price of a product: equal where nothing underflowed.

        The lower bound is −inf where terms were lost; the upper one is `UNDERFLOW` times the largest exponentials.
        """
        pair, kernels, u, v = self._terms(x, y, d, e)
        ln_sum, lost = kernels.ln_product(u, v)
        upper = pair + ln_sum
        return torch.where(lost, -torch.inf, upper), upper

    def _terms(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> tuple[Tensor, _Kernels, Tensor, Tensor]:
        """All but the sum (run, traces, refs), the kernels, and u and v with A_xk = u · μ_k and B_yk = v · μ_k."""
        b = self.var
        delta = b * d + b * e + d * e
        rows = -0.5 * ((b + e) / delta * x**2 + delta.log() + 2 * LN_2PI).sum(-1)
        columns = -0.5 * ((b + d) / delta * y**2).sum(-1)
        pair = coupled(x * (b / delta), y, rows, columns)
        return pair, self._kernels(d, e, delta), x * (e / delta), y * (d / delta)

    def _kernels(self, d: Tensor, e: Tensor, delta: Tensor) -> _Kernels:
        return _Kernels(self.centres, self.ln_weights - 0.5 * ((d + e) / delta * self.centres**2).sum(-1))

    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x, y) − ln p(y), and ln p(x)."""
        return self.ln_joint(x, y, d, e) - self.ln_marginal(y, e)[..., None, :], self.ln_marginal(x, d)[..., :, None]


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Sums over kernels of exponentials that are linear in a point: w · μ_k + own_k.

    With a gradient, all kernels and points are taken at once: it would keep them all anyway.
    """

    centres: Tensor  # μ_k (run, kernel, axis)
    own: Tensor  # (run, kernel)

    def ln_sum(self, points: Tensor) -> Tensor:
        """ln Σ_k exp(w · μ_k + own_k) of points w (run, items, axis): (run, items)."""
        some = max(LEAST_POINTS, at_a_time(SUMMED, points) // max(1, self.own.numel()))
        blocks = pieces(points.shape[1], some)
        return torch.cat([ln_sum_exp(self._exponents(points[:, block], self.own)) for block in blocks], 1)

    def ln_product(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """ln Σ_k exp((u + v) · μ_k + own_k) of all pairs of u (run, traces, axis) and v, and where it underflowed."""
        some = max(1, at_a_time(TERMS, u) // max(1, len(u) * max(u.shape[1], v.shape[1])))
        blocks = pieces(self.own.shape[1], some)
        if len(blocks) == 1 or self._wants_gradient(u, v):
            return _ln_product(*(self._exponents(w, 0.5 * self.own) for w in (u, v)))
        top_u, top_v = (self._top(w, blocks) for w in (u, v))
        total = torch.zeros(len(u), u.shape[1], v.shape[1], dtype=u.dtype, device=u.device)
        for block in blocks:
            a, c = (exp_(self._exponents(w, 0.5 * self.own, block).sub_(top)) for w, top in ((u, top_u), (v, top_v)))
            total.baddbmm_(a, c.mT)
        return _ln_scaled(total, top_u, top_v)

    def exact(self, ln_sum: Tensor, lost: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """``ln_sum`` (run, traces, refs) with the sums that were ``lost`` once more, term by term."""
        n_kernels = self.own.shape[1]
        return _redo(
            ln_sum, lost, n_kernels, lambda r, i, j: torch.addmm(self.own[r], u[r, i] + v[r, j], self.centres[r].mT)
        )

    def _exponents(self, points: Tensor, own: Tensor, some: slice = slice(None)) -> Tensor:
        """w · μ_k + own_k of some kernels (run, items, kernel)."""
        return torch.baddbmm(own[:, None, some], points, self.centres[:, some].mT)

    def _wants_gradient(self, *points: Tensor) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.centres, self.own, *points))

    def _top(self, points: Tensor, blocks: list[slice]) -> Tensor:
        """The largest exponent of every point (run, items, 1)."""
        return torch.stack([self._exponents(points, 0.5 * self.own, b).amax(-1, keepdim=True) for b in blocks]).amax(0)


def coupled(x: Tensor, y: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """x yᵀ + rows + columns as one matrix product, so that the (traces, refs) result is written once."""
    left, right = factors(x, y, rows, columns)
    return left @ right.mT


def factors(x: Tensor, y: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Of the product that is `coupled`: x, rows and ones, and y, ones and columns."""
    ones_x, ones_y = torch.ones_like(x[..., :1]), torch.ones_like(y[..., :1])
    return torch.cat([x, rows[..., None], ones_x], -1), torch.cat([y, ones_y, columns[..., None]], -1)


def ln_sum_of_products(a: Tensor, c: Tensor) -> Tensor:
    """ln Σ_k exp(a_ik + c_jk) of (run, traces, kernel) and (run, refs, kernel): a matrix product, exact where it underflows."""
    return _redo(*_ln_product(a, c), a.shape[-1], lambda run, i, j: a[run, i] + c[run, j])


def _ln_product(a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """ln Σ_k exp(a_ik + c_jk) of (run, traces, kernel) and (run, refs, kernel), and where it underflowed."""
    a_max, c_max = a.amax(-1, keepdim=True).detach(), c.amax(-1, keepdim=True).detach()
    return _ln_scaled(exp_(a - a_max) @ exp_(c - c_max).mT, a_max, c_max)


def _ln_scaled(total: Tensor, a_max: Tensor, c_max: Tensor) -> tuple[Tensor, Tensor]:
    """ln of sums (run, traces, refs) that were scaled by their rows' and columns' maxima, and where they underflowed."""
    least = UNDERFLOW if total.dtype == torch.float64 else SINGLE_UNDERFLOW
    lost = total < least
    if total.requires_grad:
        return total.clamp_min(least).log() + a_max + c_max.mT, lost
    return total.clamp_min_(least).log_().add_(a_max).add_(c_max.mT), lost


def _redo(ln_sum: Tensor, lost: Tensor, n_terms: int, terms: Callable[[int, Tensor, Tensor], Tensor]) -> Tensor:
    """``ln_sum`` (run, traces, refs), with the sums that were ``lost`` once more from their terms.

    ``terms`` gives the exponents (pairs, n_terms) of some pairs of a run: of these traces (pairs,) and these refs (pairs,).
    """
    run_i_j = lost.nonzero(as_tuple=True)
    if len(run_i_j[0]) == 0:
        return ln_sum
    n_pairs, of_run, redone = max(1, TERMS_PER_REDO // n_terms), lost.sum((1, 2)).tolist(), []
    for run, pairs in enumerate(zip(*(torch.split(index, of_run) for index in run_i_j[1:]), strict=True)):
        some = zip(*(torch.split(index, n_pairs) for index in pairs), strict=True)
        redone += [ln_sum_exp(terms(run, i, j)) for i, j in some]
    return ln_sum.index_put(run_i_j, torch.cat(redone))

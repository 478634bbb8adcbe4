"""Heavy tails, contamination and spikes: what the instances of one source may differ by.

An item has a scatter τ of its own, shared by all axes, and a source another one on each axis, which makes a Student-t of a
normal law. For m contrasts of instances with the sum of squares D on an axis, in units of their variances,

    t_ν,m(D; v) = Γ((ν+m)/2)/Γ(ν/2) (πνv)^−m/2 (1 + D/νv)^−(ν+m)/2,      ω_q ∝ τ_q^−α exp(−α/τ_q),

ω being an inverse gamma law of τ on a few scales: differences are judged by what the instances themselves say of the scatter,
and the more of them, the more.

Instances may be *off*. If r of n = M + N instances (or of the M of an item) share an offset, let d be the sum of their
deviations from the mean of all, and γ = r (1 − r/n). Either

- all axes are off alike (*contamination*: a wrong fragment, a disturbed ablation), with a variance k w on each, or
- a feature is, or two, while the others are as good as ever (a *spike*: an inclusion in glass, a formant that was missed). A
  spike of feature f moves instances along its direction u_f (the feature's row of the projection, scaled to length one).

Both are updates of the sum of squares. With Q = Σ D/w over all axes, C = |d|²/w and c_f = u_f · d/√w,

    contaminated:  Q − k C / (1 + k γ),                     determinant (1 + k γ)^p
    a spike:       Q − k c_f² / (1 + k γ |u_f|²),           determinant 1 + k γ |u_f|²

and, with a scatter that follows an inverse gamma law of shape α (no axis has its own here), the density is that of a Student-t
law, ∝ det^−½ (1 + Q/2α)^−(α + mp/2), in the mean over a few k, and over features.

Of two features off, f with a fixed large k₀ and g with any k, f is taken to be the one that explains most by itself, and g the
one that explains most of the rest: one term of the p (p − 1) in the mean over pairs. The others are smaller, and of the same
sign: it is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import torch
from torch import Tensor

from lindley.models.blocks import pieces, room

__all__ = [
    "LN_GROSS",
    "LN_SCATTER",
    "OFF_SCALES",
    "SPIKE_SCALES",
    "SharedTail",
    "Tails",
    "ln_mean_scatter_weights",
    "ln_products",
    "ln_scatter_weights",
    "ln_student",
    "ln_sum",
    "ln_weighted_sum",
    "of_products",
]

LN_SCATTER = tuple(-1.4 + 1.1 * q for q in range(5))
"""ln τ_q: how much a source may scatter, in five steps."""
LN_GROSS = (3.5, 5.8, 8.1)
"""ln τ of an item whose instances have little to do with one another."""
OFF_SCALES = (10.0, 100.0, 1000.0, 10_000.0)
"""1 + k/2: how many times as large the variance of a difference may be, if one of two instances is contaminated."""
SPIKE_SCALES = (30.0, 1000.0)
"""1 + k/2: likewise of a feature that is off, in units of what it has when all others are known."""
WORST_SCALE = 1000.0
"""1 + k₀/2: the same of the feature that explains most, where two are off."""
LEAST = -1e300
"""In place of the logarithm of zero, where one is subtracted."""
AXES_PER_LOGARITHM, LARGEST = 10, 1e28
"""Factors up to about `LARGEST` are multiplied for this many axes before a logarithm is taken: no overflow, few logarithms."""


@dataclass(frozen=True, eq=False)
class Tails:
    """How instances of a source scatter: scalars, one per run, shared by all axes, as tensors (run, 1, 1)."""

    nu: Tensor  # ν, degrees of freedom on each axis
    scatter_shape: Tensor  # α, of the inverse gamma law of a source's scatter
    contamination: (
        Tensor  # ε: a quarter of it that an instance is contaminated, half that all of an item scatter grossly
    )
    spike: Tensor  # σ: half of it that a feature of an instance is off
    second_spike: Tensor  # κ, probability that a second one is off too

    def chances(self, number: float) -> tuple[Tensor, Tensor, Tensor]:
        """That all is as usual; that a given one of ``number`` instances is contaminated; and that it has a spike.

        (run, 1, 1) each. At most one is off.
        """
        one, spike = self.contamination / 4, self.spike / 2
        usual = 1 - one - spike
        total = usual + number * (one + spike)
        return usual / total, one / total, spike / total


def ln_scatter_weights(shape: Tensor) -> Tensor:
    """ln ω_q (run, node) of the inverse gamma shapes α (run, 1, 1)."""
    alpha = shape.reshape(-1, 1)
    u = torch.tensor(LN_SCATTER, dtype=shape.dtype, device=shape.device)
    return torch.log_softmax(-alpha * u - alpha * torch.exp(-u), -1)


def ln_mean_scatter_weights(shape: Tensor) -> Tensor:
    """ln of the weights (run, node) of the mean of two scatters: shared out over the two nodes next to each."""
    weight = ln_scatter_weights(shape).exp()
    u = torch.tensor(LN_SCATTER, dtype=shape.dtype, device=shape.device)
    step = LN_SCATTER[1] - LN_SCATTER[0]
    mean = torch.log((u.exp() + u.exp()[:, None]) / 2)
    near = (1 - (mean[..., None] - u).abs() / step).clamp_min(0.0)  # (node, node, node)
    return torch.einsum("rq,rp,qpn->rn", weight, weight, near).log()


def ln_student(squares: Tensor, scales: Tensor, nu: Tensor, contrasts: int) -> Tensor:
    """Σ_axis ln t_ν,m(squares; scale) of squares (run, axis, …), ν (run, 1, 1) and scales (run, node, axis): (run, node, …)."""
    logarithm, _ = ln_products([squares], [1 / (nu * scales)])
    return of_products(logarithm, nu, contrasts, contrasts * scales.log().sum(-1), scales.shape[-1])


def of_products(logarithm: Tensor, nu: Tensor, contrasts: int, ln_scale: Tensor, n_axes: int) -> Tensor:
    """Σ_axis ln t_ν,m from Σ_axis ln(1 + D/νv), (run, node, …), which is used up.

    ``ln_scale`` is Σ_axis ln of the product of the m scales of all contrasts (run, node).
    """
    one = torch.lgamma((nu + contrasts) / 2) - torch.lgamma(nu / 2) - 0.5 * contrasts * (nu * math.pi).log()
    constant, power = n_axes * one[..., 0] - 0.5 * ln_scale, -0.5 * (nu + contrasts)[..., 0]
    constant, power = (t.reshape(*t.shape, *(1,) * (logarithm.dim() - 2)) for t in (constant, power))
    return (logarithm * power if logarithm.requires_grad else logarithm.mul_(power)).add_(constant)


def ln_products(parts: Sequence[Tensor], factors: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Σ_axis ln(1 + Σ_part square · factor) of all parts, and of all but the last, if there are: (run, node, …) each.

    Squares are (run, axis, …) and factors (run, node, axis).
    """
    ones = (1,) * (parts[0].dim() - 2)
    parts = [
        torch.minimum(part, (LARGEST / factor.amax(1)).reshape(*part.shape[:2], *ones))
        if part.numel() > 0 and float(part.detach().amax()) * float(factor.detach().amax()) > LARGEST
        else part
        for part, factor in zip(parts, factors, strict=True)
    ]
    # In place takes one pass over the memory instead of three, for one run and without a gradient.
    in_place = len(factors[0]) == 1 and not any(t.requires_grad for t in (*parts, *factors))
    groups = pieces(parts[0].shape[1], AXES_PER_LOGARITHM)
    products = zip(*((_in_place if in_place else _products)(parts, factors, axes) for axes in groups), strict=True)
    ln_all, ln_fewer = (
        None if each[0] is None else reduce(torch.add, [t.log_() if in_place else t.log() for t in each])
        for each in products
    )
    assert ln_all is not None
    return ln_all, ln_fewer


def _products(parts: Sequence[Tensor], factors: Sequence[Tensor], axes: slice) -> tuple[Tensor, Tensor | None]:
    """∏_axis (1 + Σ_part square · factor) of all parts, and of all but the last, over some axes."""
    ones = (1,) * (parts[0].dim() - 2)
    of_all, of_fewer = [], []
    for axis in range(axes.start, axes.stop):
        rates = (factor[..., axis].reshape(*factor.shape[:2], *ones) for factor in factors)
        *fewer, last = (part[:, None, axis] * rate for part, rate in zip(parts, rates, strict=True))
        if fewer:
            of_fewer.append(1 + reduce(torch.add, fewer))
        of_all.append(of_fewer[-1] + last if fewer else 1 + last)
    return reduce(torch.mul, of_all), reduce(torch.mul, of_fewer) if of_fewer else None


def _in_place(parts: Sequence[Tensor], factors: Sequence[Tensor], axes: slice) -> tuple[Tensor, Tensor | None]:
    """The same for one run and without a gradient."""
    *fewer, last = (part.unbind(1) for part in parts)
    first, *between, rates = (
        factor[0].T.tolist() for factor in (factors[0], *factors[1:-1], factors[-1])
    )  # [axis][node]
    nodes, shape = factors[0].shape[1], np.broadcast_shapes(*(part.shape[2:] for part in parts))
    of_all, term = _empty(parts[0], 1, nodes, *shape).fill_(1.0), _empty(parts[0], 1, *shape)
    if not fewer:
        for axis in range(axes.start, axes.stop):
            for row, rate in zip(of_all.unbind(1), rates[axis], strict=True):
                row.addcmul_(row, last[axis], value=rate)
        return of_all, None
    shape = np.broadcast_shapes(*(part.shape[2:] for part in parts[:-1]))
    of_fewer, of_term = _empty(parts[0], 1, nodes, *shape).fill_(1.0), _empty(parts[0], 1, *shape)
    for axis in range(axes.start, axes.stop):
        for node, (row, row_of_fewer) in enumerate(zip(of_all.unbind(1), of_fewer.unbind(1), strict=True)):
            so_far = torch.mul(fewer[0][axis], first[axis][node], out=None if between else of_term).add_(1.0)
            for part, rate in zip(fewer[1:], between, strict=True):
                so_far = torch.add(so_far, part[axis], alpha=rate[axis][node], out=of_term)
            row_of_fewer.mul_(so_far)
            row.mul_(torch.add(so_far, last[axis], alpha=rates[axis][node], out=term))
    return of_all, of_fewer


def _empty(like: Tensor, *shape: int) -> Tensor:
    lent = room(*shape)
    return like.new_empty(shape) if lent is None else lent


def ln_sum(terms: Sequence[Tensor]) -> Tensor:
    """ln Σ exp."""
    if len(terms) == 2:
        return torch.logaddexp(terms[0], terms[1])
    top = reduce(torch.maximum, terms).detach().clamp_min(LEAST)
    if any(term.requires_grad for term in terms):
        return top + reduce(torch.add, (torch.exp(term - top) for term in terms)).log()
    total = torch.exp(terms[0] - top)
    for term in terms[1:]:
        total += (term - top).exp_()
    return total.log_().add_(top)


def ln_weighted_sum(terms: Tensor, ln_weights: Tensor) -> Tensor:
    """ln Σ_q ω_q exp(term_q), (run, …), of terms (run, node, …) and ln ω (run, node)."""
    ln_weights = ln_weights.reshape(*ln_weights.shape, *(1,) * (terms.dim() - 2))
    terms = torch.add(terms, ln_weights, out=room(*terms.shape))
    top = terms.detach().amax(1).clamp_min_(LEAST)
    terms = terms - top[:, None] if terms.requires_grad else terms.sub_(top[:, None])
    return terms.exp_().sum(1).log_().add_(top)


@dataclass(frozen=True, eq=False)
class SharedTail:
    """Densities of m contrasts on all axes, whose scatter follows an inverse gamma law that the axes share."""

    shape: Tensor  # α (run, 1, 1)
    second_spike: Tensor  # κ (run, 1, 1)
    ln_within: Tensor  # Σ_axis ln w (run,)
    directions: Tensor  # u_f (run, feature, axis), of length one, or less where axes are left out
    contrasts: int  # m

    def ln_density(self, squares: Tensor) -> Tensor:
        """Of sums of squares Q (run, …)."""
        alpha, power, constant = (t.reshape(-1, *(1,) * (squares.dim() - 1)) for t in self._law)
        return constant - power * torch.log1p(squares / (2 * alpha))

    @cached_property
    def _law(self) -> tuple[Tensor, Tensor, Tensor]:
        """α, α + mp/2 and the logarithm of the density at zero, each (run, 1, 1)."""
        alpha, half = self.shape, 0.5 * self.contrasts * self.directions.shape[-1]
        constant = torch.lgamma(alpha + half) - torch.lgamma(alpha) - half * (2 * math.pi * alpha).log()
        return alpha, alpha + half, constant - 0.5 * self.contrasts * self.ln_within[:, None, None]

    @cached_property
    def _overlap(self) -> Tensor:
        """u_f · u_g (run, feature, feature)."""
        return self.directions @ self.directions.mT

    def ln_one_off(self, squares: Tensor, deviation: Tensor, known: float) -> Tensor:
        """One instance contaminated, from Q and C (run, …); ``known`` is γ."""
        alpha, power, constant = self._law
        squares, deviation, shape = squares.flatten(1)[:, None], deviation.flatten(1)[:, None], squares.shape
        k = squares.new_tensor([2 * (s - 1) for s in OFF_SCALES])[:, None]
        spread = 1 + k * known
        memory = room(len(squares), len(k), squares.shape[-1])
        left = torch.addcmul(1 + squares / (2 * alpha), deviation, k / spread / (2 * alpha), value=-1, out=memory)
        left = left.clamp_min_(1.0)
        ln_least = left.detach().amin(1, keepdim=True).log_()
        weight = spread[:, 0] ** (-0.5 * self.directions.shape[-1]) / len(k)
        density = (weight @ _powers(left, ln_least, power))[:, None]
        return (density.log_() - power * ln_least).add_(constant).reshape(shape)

    def ln_spikes(self, squares: Tensor, along: Tensor, known: float) -> Tensor:
        """A feature or two of one instance off, from Q (run, …) and c_f (run, feature, …); ``known`` is γ."""
        alpha, power, constant = self._law
        along = along.flatten(2)
        runs, n, pairs = along.shape
        unit, top = 2 * alpha * known, 1 + squares.flatten(1)[:, None] / (2 * alpha)  # (run, 1, pair)
        own = torch.mul(along, along, out=room(runs, n, pairs))
        k = squares.new_tensor(SPIKE_SCALES).sub_(1)[:, None, None] * (2 * known)
        det = 1 + k * self._overlap.diagonal(dim1=1, dim2=2)[:, None, :, None]  # (run, k, feature, 1)
        share, weight = k / det / unit[:, None], det.rsqrt().flatten(1).div(n * len(k))[:, None]
        singles = torch.addcmul(top[:, None], own[:, None], share, value=-1, out=room(runs, len(k), n, pairs))
        singles = singles.clamp_min_(1.0).flatten(1, 2)
        if n == 1:
            ln_least = singles.detach().amin(1, keepdim=True).log_()
            total = weight @ _powers(singles, ln_least, power)
        else:
            doubles, its_weight = self._two_off(top, along, own, unit, known)
            ln_least = doubles.detach().amin(1, keepdim=True).log_()  # two explain more than each of them does
            two = (_powers(doubles, ln_least, power) * its_weight).sum(1, keepdim=True) / (len(k) * n * (n - 1))
            kappa = self.second_spike
            total = (1 - kappa) * (weight @ _powers(singles, ln_least, power)) + kappa * two
        return (total.log_() - power * ln_least).add_(constant).reshape(squares.shape)

    def _two_off(self, top: Tensor, along: Tensor, own: Tensor, unit: Tensor, known: float) -> tuple[Tensor, Tensor]:
        """1 + Q/2α less what the two features explain that explain most, and det^−½: (run, k, pair) each.

        Which features these are is marked by a one among zeros, so that what belongs to them is looked up by matrix products.
        """
        k0 = 2 * known * (WORST_SCALE - 1)
        overlap, length2 = self._overlap, self._overlap.diagonal(dim1=1, dim2=2)  # |u_f|² (run, feature)
        share = k0 / (1 + k0 * length2)
        number = torch.arange(along.shape[1], dtype=own.dtype, device=own.device)
        first_of_equals, of_zeros = 1 - number * 2.0**-50, (number * -1e-300)[:, None]
        with torch.no_grad():
            worst = torch.addcmul(of_zeros, own, (share * first_of_equals)[..., None], out=room(*own.shape))
            worst = _mark_largest(worst)
        its_own = torch.mul(worst, along, out=room(*own.shape))
        others = torch.baddbmm(along, overlap * share[:, None], its_own, alpha=-1, out=room(*own.shape))
        others = others**2 if others.requires_grad else others.square_()
        # What the others explain then, given the worst, which explains nothing more (run, other feature, worst feature).
        gain = 1 / (1 / k0 + length2[..., None] - share[:, None] * overlap**2)
        gain = gain * (first_of_equals[:, None] - torch.eye(len(number), dtype=own.dtype, device=own.device))
        tables = torch.cat([gain, share[:, None], (1 + k0 * length2).rsqrt()[:, None]], 1)
        looked_up = torch.bmm(tables, worst, out=room(len(own), len(number) + 2, own.shape[-1]))
        gain, its_share, its_weight = looked_up[:, :-2], looked_up[:, -2:-1], looked_up[:, -1:]
        memory, more = room(*own.shape), room(*own.shape)
        with torch.no_grad():
            second = torch.addcmul(torch.sub(of_zeros, worst, out=memory), others, gain, out=more)
            second = _mark_largest(second)
        its_gain, its_other = (torch.mul(second, t, out=memory).sum(1, keepdim=True) for t in (gain, others))
        k = own.new_tensor(SPIKE_SCALES).sub_(1)[:, None] * (2 * known)
        gain = 1 / (1 / its_gain + (1 / k - 1 / k0))  # k/(1 + k |u|²) of what is left of u
        left = top - its_own.sum(1, keepdim=True) ** 2 * (its_share / unit)
        left = torch.addcmul(left, its_other, gain / unit, value=-1).clamp_min_(1.0)
        return left, (gain / k).sqrt() * its_weight


def _mark_largest(explained: Tensor) -> Tensor:
    """One at the largest of (run, feature, pair), zero elsewhere, in its place."""
    return explained.eq_(explained.amax(1, keepdim=True))


def _powers(base: Tensor, ln_least: Tensor, power: Tensor) -> Tensor:
    """(base/least)^−power, (run, …, pair); in the place of the base, where no gradient needs it."""
    if base.requires_grad or power.requires_grad:
        return torch.exp(power * (ln_least - base.log()))
    return torch.addcmul(power * ln_least, base.log_(), power, value=-1, out=base).exp_()

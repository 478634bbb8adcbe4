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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lindley.models.blocks import pieces, room
from lindley.models.exponentials import exp_, ln_sum_exp
from lindley.models.robust.kept import kept

__all__ = [
    "LN_GROSS",
    "LN_SCATTER",
    "OFF_SCALES",
    "SPIKE_SCALES",
    "Left",
    "Number",
    "Offsets",
    "SharedTail",
    "Tails",
    "ln_mean_scatter_weights",
    "ln_products",
    "ln_scatter_weights",
    "ln_student",
    "ln_sum",
    "ln_weighted_sum",
    "student_law",
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
FEW = 1 << 12
"""Numbers that are handled at once: what counts then are the operations, and not the passes over the memory."""
Number = float | Tensor
"""One of all pairs, or one of each (…): numbers of instances differ between views of one item."""


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

    def chances(self, number: Number, shape: Sequence[int] = (-1, 1, 1)) -> tuple[Tensor, Tensor, Tensor]:
        """That all is as usual; that a given one of ``number`` instances is contaminated; and that it has a spike.

        At most one is off. Each is of a ``shape`` (run, …) of ones, or of what it makes with the number.
        """
        one, spike = self.contamination.reshape(shape) / 4, self.spike.reshape(shape) / 2
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
    ones = (1,) * (logarithm.dim() - 2)
    ln_scale = contrasts * scales.log().sum(-1)
    power, constant = student_law(
        nu.reshape(-1, 1, *ones), contrasts, ln_scale.reshape(*ln_scale.shape, *ones), scales.shape[-1]
    )
    return (logarithm * power if logarithm.requires_grad else logarithm.mul_(power)).add_(constant)


def student_law(nu: Tensor, contrasts: Number, ln_scale: Tensor, n_axes: int) -> tuple[Tensor, Tensor]:
    """What Σ_axis ln(1 + D/νv) is multiplied by, and what is added, for Σ_axis ln t_ν,m(D; v).

    ``ln_scale`` is Σ_axis ln of the product of the m scales of all contrasts.
    """
    one = torch.lgamma((nu + contrasts) / 2) - torch.lgamma(nu / 2) - 0.5 * contrasts * (nu * math.pi).log()
    return -0.5 * (nu + contrasts), n_axes * one - 0.5 * ln_scale


def ln_products(parts: Sequence[Tensor], factors: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Σ_axis ln(1 + Σ_part square · factor) of all parts, and of all but the last, if there are: (run, node, …) each.

    Squares are (run, axis, …) and factors (run, node, axis), or (run, node, axis, …) where those of pairs differ.
    """
    if factors[-1].dim() > 3:
        *fewer, last = (part[:, None] * factor for part, factor in zip(parts, factors, strict=True))
        if not fewer:
            return _ln_product(1 + last), None
        of_fewer = reduce(torch.add, fewer) + 1
        return _ln_product(of_fewer + last), _ln_product(of_fewer)
    ones = (1,) * (parts[0].dim() - 2)
    parts = [
        torch.minimum(part, (LARGEST / factor.amax(1)).reshape(*part.shape[:2], *ones))
        if part.numel() > 0 and float(part.detach().amax()) * float(factor.detach().amax()) > LARGEST
        else part
        for part, factor in zip(parts, factors, strict=True)
    ]
    if len(parts) == 1 and factors[0].requires_grad and not parts[0].requires_grad:
        summed: Tensor = _LnFactors.apply(parts[0], factors[0])  # type: ignore[no-untyped-call]
        return summed, None
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


class _LnFactors(torch.autograd.Function):
    """Σ_axis ln(1 + square · factor) with a gradient in the factors alone: that of a fit, whose squares are known."""

    @staticmethod
    def forward(ctx: Any, squares: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(squares, factors)
        groups = pieces(squares.shape[1], AXES_PER_LOGARITHM)
        return reduce(torch.add, [_products([squares], [factors], axes)[0].log_() for axes in groups])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        squares, factors = (t.flatten(2) for t in ctx.saved_tensors)
        slope = grads[0].flatten(2)  # (run, node, pair)
        found = torch.empty_like(factors)
        for axis in range(factors.shape[-1]):
            square, factor = squares[:, axis, None], factors[..., axis, None]
            found[..., axis] = (square / torch.addcmul(torch.ones_like(square), square, factor)).mul_(slope).sum(-1)
        return None, found


def _ln_product(values: Tensor) -> Tensor:
    """Σ_axis ln of values (run, node, axis, …), which are one or more."""
    if values.requires_grad:
        return values.log().sum(2)
    groups = torch.split(values.clamp_max_(LARGEST), AXES_PER_LOGARITHM, 2)
    return reduce(torch.add, [some.prod(2).log_() for some in groups])


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
        for node, row in enumerate(of_all.unbind(1)):
            for axis in range(axes.start, axes.stop):
                row.addcmul_(row, last[axis], value=rates[axis][node])
        return of_all, None
    shape = np.broadcast_shapes(*(part.shape[2:] for part in parts[:-1]))
    of_fewer, of_term = _empty(parts[0], 1, nodes, *shape).fill_(1.0), _empty(parts[0], 1, *shape)
    for node, (row, row_of_fewer) in enumerate(zip(of_all.unbind(1), of_fewer.unbind(1), strict=True)):
        for axis in range(axes.start, axes.stop):
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
    if terms[0].numel() <= FEW:
        shape = np.broadcast_shapes(*(term.shape for term in terms))
        return ln_sum_exp(torch.stack([term.expand(shape) for term in terms]), 0)
    top = reduce(torch.maximum, terms).detach().clamp_min(LEAST)
    if any(term.requires_grad for term in terms):
        return top + reduce(torch.add, (torch.exp(term - top) for term in terms)).log()
    total = exp_(terms[0] - top)
    for term in terms[1:]:
        total += exp_(term - top)
    return total.log_().add_(top)


def ln_weighted_sum(terms: Tensor, ln_weights: Tensor) -> Tensor:
    """ln Σ_q ω_q exp(term_q), (run, …), of terms (run, node, …) and ln ω (run, node), or one of each term."""
    if ln_weights.dim() == 2:
        ln_weights = ln_weights.reshape(*ln_weights.shape, *(1,) * (terms.dim() - 2))
    terms = torch.add(terms, ln_weights, out=room(*terms.shape))
    if terms.numel() <= FEW:
        return torch.logsumexp(terms, 1)
    top = terms.detach().amax(1).clamp_min_(LEAST)
    if terms.requires_grad:
        return (terms - top[:, None]).exp_().sum(1).log_().add_(top)
    return exp_(terms.sub_(top[:, None])).sum(1).log_().add_(top)


Left = tuple[Tensor, Tensor]
"""What is left of sums of squares (run, term, pair) by something off, and the weights (run or 1, term, pair or 1)."""


@dataclass(frozen=True, eq=False)
class SharedTail:
    """Densities of m contrasts on all axes, whose scatter follows an inverse gamma law that the axes share."""

    shape: Tensor  # α (run, 1, 1)
    second_spike: Tensor  # κ (run, 1, 1)
    ln_within: Tensor  # Σ_axis ln w (run,)
    n_axes: int
    contrasts: Number  # m, of all pairs or of each (…)

    def ln_density(self, squares: Tensor) -> Tensor:
        """Of sums of squares Q (run, …)."""
        power, constant = self._law_of(squares.shape)
        unit = 2 * self.shape
        return (constant - power * torch.log1p(squares.flatten(1)[:, None] / unit)).reshape(squares.shape)

    @kept
    def _law(self) -> tuple[Tensor, Tensor]:
        """α + mp/2 and the logarithm of the density at zero, (run, 1, 1) or (run, …) each."""
        half = 0.5 * self.n_axes * self.contrasts
        ones = half.shape if isinstance(half, Tensor) else (1, 1)
        alpha, ln_within = (t.reshape(-1, *(1,) * len(ones)) for t in (self.shape, self.ln_within))
        constant = torch.lgamma(alpha + half) - torch.lgamma(alpha) - half * (2 * math.pi * alpha).log()
        return alpha + half, constant - 0.5 * self.contrasts * ln_within

    def _law_of(self, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The law of pairs of a shape (run, …), as (run, 1, pair or 1); of few pairs, whose law differs, it is kept."""
        if not isinstance(self.contrasts, Tensor):
            return self._law
        if (law := self._laws.get(shape := tuple(shape))) is None:
            with torch.inference_mode(False):
                law = _of_pairs(self._law[0], shape), _of_pairs(self._law[1], shape)
            if math.prod(shape) <= FEW:
                self._laws[shape] = law
        return law

    @cached_property
    def _laws(self) -> dict[tuple[int, ...], tuple[Tensor, Tensor]]:
        return {}

    def ln_mixture(self, terms: Sequence[Left], shares: Sequence[Tensor | float], shape: Sequence[int]) -> Tensor:
        """ln Σ_term share · weight · density, of pairs of a shape (run, …).

        What is left is given in units of 2α, and used up; the last kind of terms has the least.
        """
        power, constant = self._law_of(shape)
        logs = [left.log1p() if left.requires_grad else left.log1p_() for left, _ in terms]
        ln_least = logs[-1].detach().amin(1, keepdim=True)
        total: Tensor | None = None
        for ln_left, (_, weight), share in zip(logs, terms, shares, strict=True):
            if ln_left.requires_grad or power.requires_grad:
                powers = torch.exp(power * (ln_least - ln_left))
            else:
                powers = exp_(torch.addcmul(power * ln_least, ln_left, power, value=-1, out=ln_left))
            summed = weight.mT @ powers if weight.shape[-1] == 1 else (weight * powers).sum(1, keepdim=True)
            total = share * summed if total is None else total + share * summed
        assert total is not None
        return (total.log() - power * ln_least + constant).reshape(shape)

    def ln_one_off(self, terms: Left, shape: Sequence[int]) -> Tensor:
        """One instance contaminated, from `Offsets.contaminated`."""
        return self.ln_mixture([terms], [1.0], shape)

    def ln_spikes(self, terms: Sequence[Left], shape: Sequence[int]) -> Tensor:
        """A feature or two of one instance off, from `Offsets.spiked`."""
        kappa = self.second_spike
        return self.ln_mixture(terms, [1 - kappa, kappa] if len(terms) == 2 else [1.0], shape)


def _of_pairs(value: Tensor, shape: Sequence[int]) -> Tensor:
    """What is given (run or 1, …) in the last dimensions of pairs of a shape (run, …), of each pair: (run or 1, 1, pair)."""
    missing = (1,) * (len(shape) - value.dim())
    return value.reshape(len(value), *missing, *value.shape[1:]).expand(-1, *shape[1:]).reshape(len(value), 1, -1)


@dataclass(frozen=True, eq=False)
class Offsets:
    """What is left of sums of squares if instances are off: everything of that which the scalars do not change.

    Sums of squares, and what is left of them, may be in any unit: they are divided by ``unit`` on the way (run, 1, 1). γ, the
    ``known``, is one of all pairs, or one of each (…), in the last dimensions of the pairs.
    """

    directions: Tensor  # u_f (run, feature, axis), of length one, or less where axes are left out

    def contaminated(self, squares: Tensor, deviation: Tensor, known: Number, unit: Tensor) -> Left:
        """One instance is, from Q and C (run, …)."""
        law = self._law(known, squares.shape)
        squares, deviation = ((t.flatten(1)[:, None] / unit) for t in (squares, deviation))
        memory = room(len(squares), len(OFF_SCALES), squares.shape[-1])
        left = torch.addcmul(squares, deviation, law.contaminated, value=-1, out=memory)
        return left.clamp_min_(0.0), law.weight_contaminated

    def spiked(self, squares: Tensor, along: Tensor, known: Number, unit: Tensor) -> list[Left]:
        """A feature is off, and two are, if there are: from Q (run, …) and c_f (run, feature, …)."""
        law = self._law(known, squares.shape)
        along, squares = along.flatten(2), squares.flatten(1)[:, None] / unit
        runs, n, pairs = along.shape
        own = torch.mul(along, along, out=room(runs, n, pairs))
        memory = room(runs, len(SPIKE_SCALES), n, pairs)
        left = torch.addcmul(squares[:, None], own[:, None], law.spiked / unit[:, None], value=-1, out=memory)
        singles = left.clamp_min_(0.0).flatten(1, 2), law.weight_spiked
        return [singles] if n == 1 else [singles, self._two_off(squares, along, own, law, unit)]

    def _two_off(self, squares: Tensor, along: Tensor, own: Tensor, law: _Known, unit: Tensor) -> Left:
        """What the two features leave that explain most (run, k, pair), and the weight of that.

        Which features these are is marked by a one among zeros, so that what belongs to them is looked up by matrix products.
        """
        n = along.shape[1]
        with torch.no_grad():
            worst = torch.addcmul(law.of_zeros, own, law.ranked, out=room(*own.shape))
            worst = _mark_largest(worst)
        its_own = torch.mul(worst, along, out=room(*own.shape))
        # What the others explain then, given the worst, which explains nothing more.
        if law.tables is None:
            looked_up = law.lengths @ worst
            overlaps, its_length2 = looked_up[:, :-1], looked_up[:, -1:]
            spread = 1 + law.k0 * its_length2
            its_share, its_weight = law.k0 / spread, spread.rsqrt()
            gain = (law.first_of_equals - worst) / (law.left_alone - its_share * overlaps**2)
            its_along = its_own.sum(1, keepdim=True)
            others = along - overlaps * (its_along * its_share)
        else:
            looked_up = torch.bmm(law.tables, worst, out=room(len(own), n + 2, own.shape[-1]))
            gain, its_share, its_weight = looked_up[:, :-2], looked_up[:, -2:-1], looked_up[:, -1:]
            its_along = its_own.sum(1, keepdim=True)
            others = torch.baddbmm(along, law.shared, its_own, alpha=-1, out=room(*own.shape))
        others = others**2 if others.requires_grad else others.square_()
        memory, more = room(*own.shape), room(*own.shape)
        with torch.no_grad():
            second = torch.addcmul(torch.sub(law.of_zeros, worst, out=memory), others, gain, out=more)
            second = _mark_largest(second)
        its_gain, its_other = (torch.mul(second, t, out=memory).sum(1, keepdim=True) for t in (gain, others))
        gain = 1 / (1 / its_gain + law.less_than_k0)  # k/(1 + k |u|²) of what is left of u
        known = law.known * unit
        left = squares - its_along**2 * (its_share / known)
        left = torch.addcmul(left, its_other, gain / known, value=-1).clamp_min_(0.0)
        return left, (gain * law.weight_second).sqrt() * its_weight

    def _law(self, known: Number, shape: Sequence[int]) -> _Known:
        """Of one γ, or of that of each of a few pairs, it is kept."""
        if not isinstance(known, Tensor):
            key: object = known
        elif math.prod(shape) > FEW:
            return self._known(_of_pairs(known[None], shape))
        else:
            key = id(known), tuple(shape[1:])
        if key not in self._laws:
            with torch.inference_mode(False):
                law = self._known(_of_pairs(known[None], shape) if isinstance(known, Tensor) else known)
            self._laws[key] = law, known  # while it is kept, no other has its number
        return self._laws[key][0]

    @cached_property
    def _laws(self) -> dict[object, tuple[_Known, Number]]:
        return {}

    def _known(self, known: Number) -> _Known:
        """Of γ, or of that of each pair (1, 1, pair)."""
        directions, overlap = self.directions, self.directions @ self.directions.mT  # u_f · u_g (run, feature, feature)
        n, length2 = (
            directions.shape[1],
            overlap.diagonal(dim1=1, dim2=2)[..., None].contiguous(),
        )  # |u_f|² (run, feature, 1)
        k = directions.new_tensor([2 * (s - 1) for s in OFF_SCALES])[:, None]
        spread = (1 + k * known).expand(1, -1, -1)
        weight = spread ** (-0.5 * directions.shape[-1]) / len(k)
        spikes = directions.new_tensor(SPIKE_SCALES).sub_(1)[:, None, None] * (2 * known)
        det = 1 + spikes * length2[:, None]  # (run, k, feature, pair or 1)
        k0 = 2 * known * (WORST_SCALE - 1)
        number = torch.arange(n, dtype=directions.dtype, device=directions.device)[:, None]
        first_of_equals = 1 - number * 2.0**-50
        share = k0 / (1 + k0 * length2)  # (run, feature, pair or 1)
        second = directions.new_tensor(SPIKE_SCALES).sub_(1)[:, None] * (2 * known)
        tables = None
        if not isinstance(known, Tensor):
            gain = 1 / (1 / k0 + length2 - share.mT * overlap**2)  # (run, other feature, worst feature)
            gain = gain * (first_of_equals - torch.eye(n, dtype=overlap.dtype, device=overlap.device))
            tables = torch.cat([gain, share.mT, (1 + k0 * length2).rsqrt().mT], 1)
        return _Known(
            known=known,
            contaminated=k / spread,
            weight_contaminated=weight,
            spiked=spikes / det / known,
            weight_spiked=det.rsqrt().flatten(1, 2).div(n * len(SPIKE_SCALES)),
            k0=k0,
            of_zeros=number * -1e-300,
            first_of_equals=first_of_equals,
            ranked=share * first_of_equals,
            lengths=torch.cat([overlap, length2.mT], 1),
            left_alone=1 / k0 + length2,
            shared=overlap * share.mT if tables is not None else overlap,
            tables=tables,
            less_than_k0=1 / second - 1 / k0,
            weight_second=1 / (second * (len(SPIKE_SCALES) * max(1, n * (n - 1))) ** 2),
        )


@dataclass(frozen=True, eq=False)
class _Known:
    """What hangs on γ and on the directions of features alone; of all pairs, or of each (…, pair)."""

    known: Number  # γ
    contaminated: Tensor  # k/(1 + k γ) (1, k, …)
    weight_contaminated: Tensor
    spiked: Tensor  # k/(1 + k γ |u|²) (run, k, feature, …)
    weight_spiked: Tensor  # (run, k × feature, …)
    k0: Number  # k₀ γ
    of_zeros: Tensor  # among features that explain nothing, the first is taken (feature, 1)
    first_of_equals: Tensor  # and of those that explain as much as each other (feature, 1)
    ranked: Tensor  # k₀ γ/(1 + k₀ γ |u|²), by which the worst is found (run, feature, …)
    lengths: Tensor  # u_f · u_g, and |u_g|² below (run, feature + 1, feature)
    left_alone: Tensor  # 1/k₀γ + |u|² (run, feature, …)
    shared: Tensor  # what the worst explains of the others (run, other feature, worst feature)
    tables: (
        Tensor | None
    )  # what the others explain then, and share and weight of the worst (run, feature + 2, worst feature)
    less_than_k0: Tensor  # 1/kγ − 1/k₀γ (k, …)
    weight_second: Tensor


def _mark_largest(explained: Tensor) -> Tensor:
    """One at the largest of (run, feature, pair), zero elsewhere, in its place."""
    return explained.eq_(explained.amax(1, keepdim=True))

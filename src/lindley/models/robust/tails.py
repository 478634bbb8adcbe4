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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

__all__ = [
    "LN_GROSS",
    "LN_SCATTER",
    "OFF_SCALES",
    "SPIKE_SCALES",
    "SharedTail",
    "Tails",
    "ln_mean_scatter_weights",
    "ln_scatter_weights",
    "ln_student",
    "ln_sum",
    "ln_weighted_sum",
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
AXES_PER_LOGARITHM, LARGEST = 8, 1e35
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


def ln_student(
    squares: Iterable[Sequence[Tensor]], scales: Sequence[Tensor], nu: Tensor, contrasts: int, ln_scale: Tensor
) -> list[Tensor]:
    """Σ_axis ln t_ν,m of sums of squares D, for several scales at once: one tensor (run, …) per node.

    D has a part or more, each with scales of its own: D/v = Σ_part squares/scale.

    Args:
        squares: of one axis after the other, those of every part, each (run, …).
        scales: of every part (run, node, axis).
        nu: ν (run, 1, 1).
        contrasts: m.
        ln_scale: Σ_axis ln of the product of the m scales of all contrasts (run, node).
    """
    n_nodes, n_axes = scales[0].shape[1:]
    factors = [1 / (nu * scale) for scale in scales]
    most = [LARGEST / factor.amax(1) for factor in factors]  # (run, axis)
    # In place takes one pass over the memory instead of three, for one run and without a gradient.
    in_place = len(nu) == 1 and not torch.is_grad_enabled()
    numbers = [factor[0].tolist() for factor in factors] if in_place else []
    products: list[Tensor | None] = [None] * n_nodes
    logarithms: list[Tensor | float] = [0.0] * n_nodes
    shape: tuple[int, ...] = ()
    for axis, parts in enumerate(squares):
        shape = (-1, *(1,) * (parts[0].dim() - 1))
        parts = [torch.minimum(part, top[:, axis].reshape(shape)) for part, top in zip(parts, most, strict=True)]
        for node in range(n_nodes):
            if in_place:
                own = [each[node][axis] for each in numbers]
                products[node] = _multiply_in_place(products[node], parts, own)
            else:
                terms = (p * f[:, node, axis].reshape(shape) for p, f in zip(parts, factors, strict=True))
                term = 1 + reduce(torch.add, terms)
                so_far = products[node]
                products[node] = term if so_far is None else so_far * term
        if axis % AXES_PER_LOGARITHM == AXES_PER_LOGARITHM - 1 or axis == n_axes - 1:
            for node, product in enumerate(products):
                assert product is not None
                logarithms[node] = logarithms[node] + product.log()
            products = [None] * n_nodes
    one = torch.lgamma((nu + contrasts) / 2) - torch.lgamma(nu / 2) - 0.5 * contrasts * (nu * math.pi).log()
    constant = n_axes * one[..., 0] - 0.5 * ln_scale
    power = (0.5 * (nu + contrasts)).reshape(shape)
    return [constant[:, node].reshape(shape) - power * logarithms[node] for node in range(n_nodes)]


def _multiply_in_place(product: Tensor | None, squares: Sequence[Tensor], factors: Sequence[float]) -> Tensor:
    """product · (1 + Σ square · factor), in the place of the product."""
    if product is not None and len(squares) == 1:
        return product.addcmul_(product, squares[0], value=factors[0])
    term = reduce(torch.add, (square * factor for square, factor in zip(squares, factors, strict=True))).add_(1.0)
    return term if product is None else product.mul_(term)


def ln_sum(terms: Sequence[Tensor]) -> Tensor:
    """ln Σ exp."""
    if len(terms) == 2:
        return torch.logaddexp(terms[0], terms[1])
    top = reduce(torch.maximum, terms).detach().clamp_min(LEAST)
    if torch.is_grad_enabled():
        return top + reduce(torch.add, (torch.exp(term - top) for term in terms)).log()
    total = torch.exp(terms[0] - top)
    for term in terms[1:]:
        total += (term - top).exp_()
    return total.log_().add_(top)


def ln_weighted_sum(terms: Sequence[Tensor], ln_weights: Tensor) -> Tensor:
    """ln Σ_q ω_q exp(term_q) of terms (run, …) and ln ω (run, node)."""
    shape = (-1, *(1,) * (terms[0].dim() - 1))
    return ln_sum([ln_weights[:, q].reshape(shape) + term for q, term in enumerate(terms)])


@dataclass(frozen=True, eq=False)
class SharedTail:
    """Densities of m contrasts on all axes, whose scatter follows an inverse gamma law that the axes share."""

    shape: Tensor  # α (run, 1, 1)
    second_spike: Tensor  # κ (run, 1, 1)
    ln_within: Tensor  # Σ_axis ln w (run,)
    directions: Tensor  # u_f (run, feature, axis), of length one, or less where axes are left out
    contrasts: int  # m

    def ln_density(self, squares: Tensor, ln_scale: Tensor | float = 0.0) -> Tensor:
        """Of sums of squares Q (run, …), ``ln_scale`` being half the logarithm of a determinant."""
        alpha, power, constant = self._law(squares.dim())
        return constant - ln_scale - power * torch.log1p(squares / (2 * alpha))

    def _law(self, dim: int) -> tuple[Tensor, Tensor, Tensor]:
        """α, α + mp/2 and the logarithm of the density at zero, each (run, 1, …)."""
        per_run = (-1, *(1,) * (dim - 1))
        alpha, half = self.shape.reshape(per_run), 0.5 * self.contrasts * self.directions.shape[-1]
        constant = torch.lgamma(alpha + half) - torch.lgamma(alpha) - half * (2 * math.pi * alpha).log()
        return alpha, alpha + half, constant - 0.5 * self.contrasts * self.ln_within.reshape(per_run)

    def ln_one_off(self, squares: Tensor, deviation: Tensor, known: float) -> Tensor:
        """One instance contaminated, from Q and C (run, …); ``known`` is γ."""
        n_axes, terms = self.directions.shape[-1], []
        for s in OFF_SCALES:
            k = 2 * (s - 1)
            spread = 1 + k * known
            left = (squares - deviation * (k / spread)).clamp_min(0.0)
            terms.append(self.ln_density(left, 0.5 * n_axes * math.log(spread)))
        return _ln_mean(terms)

    def ln_spikes(self, squares: Tensor, along: Tensor, known: float) -> Tensor:
        """A feature or two of one instance off, from Q (run, …) and c_f (run, …, feature); ``known`` is γ."""
        square, along = squares[..., None], along / math.sqrt(known)
        strength = 2 * known
        n_features = self.directions.shape[-2]
        alpha, power, constant = self._law(square.dim())
        overlap = self.directions @ self.directions.mT  # u_f · u_g (run, feature, feature)
        length2 = overlap.diagonal(dim1=1, dim2=2).reshape(len(overlap), *(1,) * (square.dim() - 2), n_features)
        singles = _updated(square, along, length2, strength)
        if n_features == 1:
            base, (total,) = _sums([singles], power, 2 * alpha)
        else:
            k = strength * (WORST_SCALE - 1)
            worst = (along**2 * (k / (1 + k * length2))).detach().argmax(-1, keepdim=True)
            run = torch.arange(len(overlap), device=overlap.device).reshape(-1, *(1,) * (square.dim() - 2))
            its_overlap = overlap[run, worst[..., 0]]  # with all features (run, …, feature)
            its_along, its_length2 = along.gather(-1, worst), length2.expand_as(along).gather(-1, worst)
            share = k / (1 + k * its_length2)
            others = along - share * its_along * its_overlap, length2 - share * its_overlap**2
            explained = (others[0] ** 2 / (1 / k + others[1])).detach().scatter(-1, worst, -1.0)
            second_along, second_length2 = (t.gather(-1, explained.argmax(-1, keepdim=True)) for t in others)
            doubles = _updated(square - share * its_along**2, second_along, second_length2, strength)
            base, (one, two) = _sums([singles, doubles], power, 2 * alpha)
            kappa = self.second_spike.reshape(alpha.shape)
            two = two * (1 + k * its_length2).rsqrt() / (n_features * (n_features - 1))
            total = (1 - kappa) * one + kappa * two
        return (constant + total.log() - power * base)[..., 0]


def _ln_mean(terms: list[Tensor]) -> Tensor:
    return ln_sum(terms) - math.log(len(terms))


def _updated(square: Tensor, along: Tensor, length2: Tensor, strength: float) -> list[tuple[Tensor, Tensor]]:
    """Q less what the spike of each feature explains, and (1 + k |u_f|²)^−½, for each k: (…, feature) each."""
    own, terms = along**2, []
    for scale in SPIKE_SCALES:
        k = strength * (scale - 1)
        det = 1 + k * length2
        terms.append((torch.addcmul(square, own, -k / det).clamp_min_(0.0), det.rsqrt()))
    return terms


def _sums(kinds: list[list[tuple[Tensor, Tensor]]], power: Tensor, unit: Tensor) -> tuple[Tensor, list[Tensor]]:
    """b = ln(1 + lowest/unit), and means over features and k of weight · (1 + left/unit)^−power e^(power b)."""
    lowest = torch.stack([left.amin(-1, keepdim=True) for terms in kinds for left, _ in terms]).amin(0)
    ln_highest = (unit + lowest).log()

    def mean(left: Tensor, weight: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return (torch.exp(power * (ln_highest - (unit + left).log())) * weight).mean(-1, keepdim=True)
        density = (unit + left).log_().sub_(ln_highest).mul_(-power).exp_()
        return density.mul_(weight).mean(-1, keepdim=True)

    sums = [reduce(torch.add, (mean(left, weight) for left, weight in terms)) / len(terms) for terms in kinds]
    return torch.log1p(lowest / unit), sums

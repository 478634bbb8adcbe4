"""Heavy tails and spikes: what two sets of replicates of one source, and of two related ones, may differ by.

A source has a scatter τ of its own, shared by all axes, and on each axis another that makes a Student-t of a normal law.
Instances share both, so the difference δ of a trace's mean of M instances and a ref's mean of N, with variance
v = (1/M + 1/N) · var_within, has the density

    g(δ; v) = Σ_q ω_q ∏_axis t_ν(δ; τ_q v),      ω_q ∝ τ_q^−α exp(−α/τ_q)  (an inverse gamma law on a few scales).

Rarely, an instance is contaminated (a wrong fragment, a disturbed ablation), or all of a source's are. With s = 10,
100, 1000, 10,000, alike likely,

    a trace instance:  ∏ t_ν(δ; v + 2 (s − 1) var_within / M²)   and the source is where the ref says,
    a ref instance:    ∏ t_ν(δ; v + 2 (s − 1) var_within / N²)   and the source is where the trace says,
    all of them:       ∏ t_ν(δ; s v)                             and the source is in between, as without contamination.

For M = N = 1 the three laws of δ are the same. More than one contaminated instance among M + N is neglected.

Two sources of one batch may differ by a little or more, 2 γ λ being usual: ∏ t_ν(δ; v + 2 j γ λ) with j = 0.1, 1, 10.

*Spikes*: a feature or two are off, while all others are as good as ever (an inclusion in glass, a formant that was missed).
On axes where a difference δ has the variance v, let d = δ/√v. A spike of feature f moves d along its direction u_f (the
feature's row of the projection, scaled to length one) with a variance k: d is multivariate t with the covariance 1 + k u_f u_fᵀ
and 2α degrees of freedom, α being the shape of a source's scatter. With two features off and p in all,

    s(δ) = ∏ v^−½ { (1 − κ) Σ_f Σ_k t_2α(d; 1 + k u_f u_fᵀ) / 2p
                    + κ Σ_{f,g} Σ_k t_2α(d; 1 + k₀ u_f u_fᵀ + k u_g u_gᵀ) / 2(p choose 2) }.

The sum over pairs {f, g} is taken over those with the feature that explains most of d by itself, which gets k₀: p − 1 pairs
instead of p (p − 1)/2. The others are smaller, and of the same sign: s is a little below its value. 1 + k is 30 or 1000, and
1 + k₀ is 1000, for M = N = 1: variances in units of what a feature has when all others are known, since the squared length of
its row of the projection is the inverse of that.

Rank-one updates keep it cheap: with c_f = u_f · d,  dᵀ (1 + k u_f u_fᵀ)⁻¹ d = |d|² − k c_f² / (1 + k |u_f|²).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from lindley.models.between import LN_2PI

__all__ = [
    "BATCH_SCALES",
    "CONTAMINATION_SCALES",
    "LN_SCATTER",
    "Differences",
    "Tails",
    "ln_scatter_weights",
    "ln_spiked",
    "ln_spikes",
    "ln_student",
    "ln_sum",
]

LN_SCATTER = tuple(-1.4 + 1.1 * q for q in range(5))
"""ln τ_q: how much a source may scatter, in five steps."""
CONTAMINATION_SCALES = (10.0, 100.0, 1000.0, 10_000.0)
"""s: how many times as large the variance of what is contaminated may be."""
BATCH_SCALES = (0.1, 1.0, 10.0)
"""j: variance between two sources of one batch, in units of the usual."""
AXES_PER_LOGARITHM, LARGEST = 8, 1e35
"""Factors up to about `LARGEST` are multiplied for this many axes before a logarithm is taken: no overflow, few logarithms."""


@dataclass(frozen=True, eq=False)
class Tails:
    """The laws of a difference: scalars, one per run, shared by all axes, as tensors (run, 1, 1)."""

    nu: Tensor  # ν, degrees of freedom on each axis
    scatter_shape: Tensor  # α, of the inverse gamma law of a source's scatter
    contamination: Tensor  # ε
    spike: Tensor  # σ, probability that a feature of a pair of instances is off
    second_spike: Tensor  # κ, probability that a second one is off too
    relatedness: Tensor  # ρ, probability that two different sources are of one batch
    variants: Tensor  # ψ, probability that two sources of one batch differ in a feature or two
    batch_var: Tensor  # γ, variance within a batch in units of the variance between sources

    def ln_seen(self, ln_f: Sequence[Tensor]) -> Tensor:
        """ln f(x) from ln f_q(x) for every scatter, (run, …) each."""
        shape = (-1, *(1,) * (ln_f[0].dim() - 1))
        ln_scatter = ln_scatter_weights(self.scatter_shape)
        return ln_sum([ln_scatter[:, q].reshape(shape) + ln_f[q] for q in range(len(LN_SCATTER))])

    def off(self, number: int) -> tuple[Tensor, Tensor]:
        """ε_M and σ_M, (run, 1, 1) each: that one of M instances is contaminated, and that one has a spike."""
        return 1 - (1 - self.contamination / 4) ** number, 1 - (1 - self.spike / 2) ** number


def ln_scatter_weights(shape: Tensor) -> Tensor:
    """ln ω_q (run, node) of the inverse gamma shapes α (run, 1, 1)."""
    alpha = shape.reshape(-1, 1)
    u = torch.tensor(LN_SCATTER, dtype=shape.dtype, device=shape.device)
    return torch.log_softmax(-alpha * u - alpha * torch.exp(-u), -1)


def ln_student(squares: Iterable[Tensor], scales: Tensor, nu: Tensor) -> list[Tensor]:
    """Σ_axis ln t_ν(δ; scale) for several squared scales (run, node, axis) at once: one tensor (run, …) per node.

    ``squares`` are δ² of one axis after the other, each (run, …); ν is (run, 1, 1).
    """
    n_nodes, n_axes = scales.shape[1:]
    factor = 1 / (nu * scales)
    most = LARGEST / factor.amax(1)  # (run, axis)
    # In place takes one pass over the memory instead of three, for one run and without a gradient.
    numbers = factor[0].tolist() if len(factor) == 1 and not torch.is_grad_enabled() else None
    products: list[Tensor | None] = [None] * n_nodes
    logarithms: list[Tensor | float] = [0.0] * n_nodes
    shape: tuple[int, ...] = ()
    for axis, square in enumerate(squares):
        shape = (-1, *(1,) * (square.dim() - 1))
        square = torch.minimum(square, most[:, axis].reshape(shape))
        for node in range(n_nodes):
            if numbers is None:
                products[node] = _multiply(products[node], square, factor[:, node, axis].reshape(shape))
            else:
                products[node] = _multiply_in_place(products[node], square, numbers[node][axis])
        if axis % AXES_PER_LOGARITHM == AXES_PER_LOGARITHM - 1 or axis == n_axes - 1:
            for node, product in enumerate(products):
                assert product is not None
                logarithms[node] = logarithms[node] + product.log()
            products = [None] * n_nodes
    one = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
    constant = n_axes * one[..., 0] - 0.5 * scales.log().sum(-1)  # (run, node)
    power = (0.5 * (nu + 1)).reshape(shape)
    return [constant[:, node].reshape(shape) - power * logarithms[node] for node in range(n_nodes)]


def _multiply(product: Tensor | None, square: Tensor, factor: Tensor) -> Tensor:
    """product · (1 + square · factor)."""
    term = 1 + square * factor
    return term if product is None else product * term


def _multiply_in_place(product: Tensor | None, square: Tensor, factor: float) -> Tensor:
    """product · (1 + square · factor), in the place of the product."""
    if product is None:
        return torch.add(torch.ones_like(square), square, alpha=factor)
    return product.addcmul_(product, square, value=factor)


def ln_sum(terms: Sequence[Tensor]) -> Tensor:
    """ln Σ exp."""
    return reduce(torch.logaddexp, terms)


SPIKE_SCALES = (30.0, 1000.0)
"""1 + k: variance of a feature that is off, in units of what it has when all others are known."""
WORST_SCALE = 1000.0
"""1 + k₀: the same of the feature that explains most, where two are off."""


@dataclass(frozen=True, eq=False)
class Differences:
    """δ of pairs in any arrangement, axis by axis and feature by feature; w is the variance within sources."""

    x: Tensor  # on the axes (run, …, axis)
    y: Tensor  # broadcasts against x
    along_x: Tensor  # u_f · x/√w (run, …, feature)
    along_y: Tensor
    var_within: Tensor  # w (run, axis)

    @classmethod
    def of_all(cls, x: Tensor, y: Tensor, directions: Tensor, var_within: Tensor) -> Differences:
        """All pairs of x (run, traces, axis) and y (run, refs, axis).

        ``directions`` u_f are (run, feature, axis), and ``var_within`` is (run, 1, axis).
        """
        given = cls.of_given(x, y, directions, var_within)
        return replace(
            given, x=x[:, :, None], y=y[:, None], along_x=given.along_x[:, :, None], along_y=given.along_y[:, None]
        )

    @classmethod
    def of_given(cls, x: Tensor, y: Tensor, directions: Tensor, var_within: Tensor) -> Differences:
        """Given pairs: x and y are (run, pairs, axis)."""
        along_x, along_y = ((t * var_within.rsqrt()) @ directions.mT for t in (x, y))
        return cls(x, y, along_x, along_y, var_within[:, 0])

    def block(self, traces: slice, refs: slice) -> Differences:
        """Of all pairs, those of some traces and some refs."""
        x, along_x = self.x[:, traces], self.along_x[:, traces]
        y, along_y = self.y[:, :, refs], self.along_y[:, :, refs]
        return Differences(x, y, along_x, along_y, self.var_within)

    def squares(self) -> Iterator[Tensor]:
        """δ² of one axis after the other, each (run, …)."""
        return ((self.x[..., axis] - self.y[..., axis]) ** 2 for axis in range(self.x.shape[-1]))

    def square(self) -> Tensor:
        """Σ δ²/w over the axes, (run, …)."""
        per_run = (-1, *(1,) * (self.x.dim() - 2))
        variances = (var.reshape(per_run) for var in self.var_within.unbind(1))
        return reduce(torch.add, (square / var for square, var in zip(self.squares(), variances, strict=True)))

    def along(self) -> Tensor:
        """u_f · δ/√w (run, …, feature)."""
        return self.along_x - self.along_y


def ln_spikes(
    differences: Differences, factor: float, directions: Tensor, strength: float, shape: Tensor, second: Tensor
) -> Tensor:
    """ln s(δ) of pairs (run, …), whose variance without spikes is ``factor`` = v/w times that within sources.

    ``directions`` u_f (run, feature, axis) are of length one, or less where axes are left out. ``strength`` multiplies k: it is
    1 for one instance against one. ``shape`` is α and ``second`` κ, (run, 1, 1) each.
    """
    square, along = differences.square()[..., None], differences.along()
    n_axes, n_features = directions.shape[-1], directions.shape[-2]
    per_run = (-1, *(1,) * (square.dim() - 1))
    alpha, kappa = shape.reshape(per_run), second.reshape(per_run)
    power, unit = alpha + 0.5 * n_axes, 2 * factor * alpha
    overlap = directions @ directions.mT  # u_f · u_g (run, feature, feature)
    length2 = overlap.diagonal(dim1=1, dim2=2).reshape(len(overlap), *(1,) * (square.dim() - 2), n_features)
    singles = _updated(square, along, length2, strength)
    lowest = _lowest([left for left, _ in singles])
    if n_features == 1:
        base, (total,) = _sums([singles], lowest, power, unit)
    else:
        k = strength * (WORST_SCALE - 1)
        share = k / (1 + k * length2)
        worst = (along**2 * share).detach().argmax(-1, keepdim=True)
        run = torch.arange(len(overlap), device=overlap.device).reshape(per_run[:-1])
        its_overlap = overlap[run, worst[..., 0]]  # with all features (run, …, feature)
        its_share, its_length2 = (t.expand_as(along).gather(-1, worst) for t in (share, length2))
        along_worst = its_share * along.gather(-1, worst)
        doubles = _updated(
            square - along_worst * along.gather(-1, worst),
            along - along_worst * its_overlap,
            length2 - its_share * its_overlap**2,
            strength,
        )
        itself = torch.arange(n_features, device=worst.device) == worst
        doubles = [(left, weight.masked_fill(itself, 0.0)) for left, weight in doubles]
        lowest = torch.minimum(lowest, _lowest([left for left, _ in doubles]))
        base, (one, two) = _sums([singles, doubles], lowest, power, unit)
        two = two * (1 + k * its_length2).rsqrt() * (n_features / math.comb(n_features, 2))
        total = (1 - kappa) * one + kappa * two
    ln_w = differences.var_within.log().sum(-1).reshape(per_run)
    constant = torch.lgamma(power) - torch.lgamma(alpha) - 0.5 * (n_axes * (math.pi * unit).log() + ln_w)
    return (total.log() - power * base + constant)[..., 0]


def _updated(square: Tensor, along: Tensor, length2: Tensor, strength: float) -> list[tuple[Tensor, Tensor]]:
    """|d|² less what the spike of each feature explains, and (1 + k |u_f|²)^−½, for each k: (…, feature) each."""
    own, terms = along**2, []
    for scale in SPIKE_SCALES:
        k = strength * (scale - 1)
        det = 1 + k * length2
        terms.append((square - own * (k / det), det.rsqrt()))
    return terms


def _lowest(lefts: list[Tensor]) -> Tensor:
    return torch.stack([left.amin(-1, keepdim=True) for left in lefts]).amin(0)


def _sums(
    kinds: list[list[tuple[Tensor, Tensor]]], lowest: Tensor, power: Tensor, unit: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """b = ln(1 + lowest/unit), and means over features and k of weight · (1 + left/unit)^−power e^(power b)."""
    base = torch.log1p(lowest / unit)
    sums = []
    for terms in kinds:
        densities = [torch.exp(power * (base - torch.log1p(left / unit))) * weight for left, weight in terms]
        sums.append(torch.stack([d.mean(-1, keepdim=True) for d in densities]).mean(0))
    return base, sums


def ln_spiked(points: Tensor, variance: Tensor, directions: Tensor, strength: float) -> Tensor:
    """ln Σ_f Σ_k N(x; 0, V + k u_f u_fᵀ) / 2p of points x (run, points, axis): where instances with one spike lie.

    The diagonal of V is (run, 1, axis), the directions u_f are (run, feature, axis), and ``strength`` multiplies k.
    """
    along = (points / variance) @ directions.mT  # (run, points, feature)
    length2 = (directions**2 / variance).sum(-1)[:, None]  # (run, 1, feature)
    square = (points**2 / variance + variance.log() + LN_2PI).sum(-1, keepdim=True)
    terms = []
    for scale in SPIKE_SCALES:
        k = strength * (scale - 1)
        spread = 1 + k * length2
        terms.append(-0.5 * (square - along**2 * k / spread + spread.log()))
    return torch.logsumexp(torch.cat(terms, -1), -1) - math.log(len(terms) * directions.shape[1])

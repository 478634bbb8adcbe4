r"""The robust two-level model: feature-based LRs that need no calibration afterwards.

In the generalised eigenbasis of within and between covariances (`eigenbasis`) an item has M instances with the mean x and, on
every axis, the sum of squares S_x around it. f is the law of source means (`population`), w the variance of one instance.

**One item.** Its instances share a scatter τ_x; with the laws t of `tails`, the density of mean and squares is

    p(x, S_x) = Σ_q ω_q f_q(x) ∏_axis t_ν,M−1(S_x; τ_q w),          f_q(x) = f seen with the normal error τ_q w / M.

**Two items of one source**, with δ = x − y and z = (M x + N y)/(M + N): each has a scatter of its own, and

    g(x, y, S_x, S_y) = Σ_qr ω_q ω_r f_q̄(z) ∏_axis t_ν,M+N−1(δ² / v_qr + S_x / τ_q + S_y / τ_r; w),   v_qr = τ_q/M + τ_r/N,

with the Jacobian of these scales, and q̄ next to the scatter of z. For M = N = 1 the two scatters are taken as their mean, on
the same five nodes. An offset that all instances of one of the items share is rarely an error of measurement, the more rarely
the more of them there are. With off(δ, S) as in `tails`, where all M or all N are off, and the chances π₀, ε₁ and σ₁ that all
is as usual, that one item is contaminated, or has a spike,

    p(x, y, S | H1) ∝ π₀ g + (ε₁ off_contaminated + σ₁ off_spike) [β^(M−1) f(y) + β^(N−1) f(x)],      β = 1/10.

How alike two items scatter is not taken as evidence: both terms are scaled so that p(S) = p(S_x) p(S_y).

**Different sources.** They may be related (made in one batch; the cousin of the θ-correction of forensic DNA): as alike as one
source is to itself, different by a little on all axes (j λ, for a few j), or in a feature or two. With ρ_c how often each of
these ways is,

    p(x, y, S | H2) = (1 − Σ ρ_c) p(x, S_x) p(y, S_y) + Σ_c ρ_c p_c(x, y, S).

The first way bounds the LR: LR ≤ 1/ρ_alike, however rare the features and however poor the model far from all sources. ρ is
learnt from pairs of different sources (`folds`); as H2 is linear in it, its posterior mean is all that is needed.

**Groups** are a third level, between the population and the source: windows of one vehicle, fragments of one pane. Sources of
one group are *mates*. Pairs that are known to be mates teach a ρ of their own, and so how much sources of one group differ:
with the variance j λ̃, for each j as often as they say. λ̃ is λ, moved towards what mates differ by on each axis
(`eigenbasis.related_variance`). With m how often H2 means a mate,

    ρ = (1 − m) ρ_others + m ρ_mates,

so that m = 0 and m = 1 answer the two propositions apart: another source of another group, another one of the same group.

**What is off.** A single instance is contaminated or has a spike with the chances of `tails`. Of several, some may be off
together: of two or more instances, in the order in which they lie along the direction that they scatter most in, the first r or
the last. How probable that is, is judged by each item alone, with f at the mean of the other instances; and with these others,
the *view* of the item, it is compared. Items may also scatter grossly (τ of 30 and more). An LR is the ratio of sums over the
views of both items,

    LR = Σ_ab p(x, a) p(y, b) [p(x_a, y_b | H1) / p(x_a) p(y_b)] / Σ_ab p(x, a) p(y, b) [p(x_a, y_b | H2) / p(x_a) p(y_b)].

What is exact: with normal replicates (ν and α large), without background and nothing off, it is the classical two-level
model with kernels, for any M and N. f_q̄(z) outside of the integral over the scatter of each axis is an approximation, good
where sources differ by more than their replicates do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.blocks import room
from lindley.models.robust.all_pairs import over_views
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.population import FREEDOM, Population, ln_background
from lindley.models.robust.tails import (
    LN_GROSS,
    LN_SCATTER,
    OFF_SCALES,
    SPIKE_SCALES,
    SharedTail,
    Tails,
    ln_mean_scatter_weights,
    ln_products,
    ln_scatter_weights,
    ln_student,
    ln_sum,
    ln_weighted_sum,
    of_products,
)
from lindley.models.two_level import map_tensors, take_runs

__all__ = ["WAYS", "Items", "Robust"]

SHARED_BY_ANOTHER = 0.1
"""Probability that what an instance is off by, another one of the item is off by as well."""
BATCH_SCALES = (0.002, 0.02, 0.2)
"""j: variance of the difference between two sources of one batch, in units of the variance between sources."""
WAYS = ("alike", *(f"batch {j}" for j in BATCH_SCALES), "variant")
"""The ways in which two different sources may be related, each with its weight in `Robust.relatedness`."""
Density = Callable[[Tensor, Tensor], Tensor]
"""ln f at points (run, points, axis) that are seen with an error of a variance (run, 1, axis): (run, points)."""


@dataclass(frozen=True, eq=False)
class Items:
    """Traces or refs of equally many instances, on the axes of a model, with what belongs to an item alone."""

    number: int  # M, of instances
    mean: Tensor  # (run, …, axis)
    along: Tensor  # u_f · mean/√w (run, …, feature)
    ln_f: Tensor  # ln f(mean) (run, …)
    ln_p: Tensor  # ln p(item) (run, …)
    ln_within: Tensor  # ln p(S), of the instances around their mean (run, …); zero for one instance
    squares: Tensor | None = None  # S, their sum of squares (run, …, axis); None for one instance
    ln_tau: Tensor | None = None  # the mean of ln τ, given S (run, …); None for one instance
    is_gross: bool = False  # whether their scatter is one of LN_GROSS, and not of LN_SCATTER

    def map(self, function: Callable[[Tensor], Tensor]) -> Items:
        """Every tensor sent through ``function``."""
        return map_tensors(self, function)


@dataclass(frozen=True, eq=False)
class View:
    """Items as they look if some of their instances are off: the others, and the density of all instances then."""

    items: Items
    ln_joint: Tensor  # ln p(item, these are off) (run, items)


@dataclass(frozen=True, eq=False)
class Robust:
    """A robust model of every run: plain tensors with a leading run dimension."""

    stabiliser: Stabiliser
    centre: Tensor  # of stabilised features (run, 1, feature)
    projection: Tensor  # (run, feature, axis); axes with the largest λ first
    var_within: Tensor  # w, of one instance (run, 1, axis)
    directions: Tensor  # u_f, of the features (run, feature, axis)
    population: Population
    tails: Tails
    relatedness: (
        Tensor  # ρ_c, how often sources are related in each of the `WAYS`, of two groups and of one (run, 1 or 2, way)
    )
    # Files of layout 3 have neither: they know no groups.
    var_related: Tensor = field(default=cast(Tensor, None), metadata={"since": 4})
    """λ̃: how related sources differ on the axes, for j = 1 (run, 1, axis); λ unless given."""
    mates: Tensor = field(default=cast(Tensor, None), metadata={"since": 4})
    """m, how often two different sources are of one group (run, 1, 1); 0 unless given."""

    def __post_init__(self) -> None:
        if cast(object, self.var_related) is None:
            object.__setattr__(self, "var_related", self.population.var)
        if cast(object, self.mates) is None:
            object.__setattr__(self, "mates", torch.zeros_like(self.var_within[..., :1]))

    def map(self, function: Callable[[Tensor], Tensor]) -> Robust:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
        return map_tensors(self, function)

    uses_scatter: ClassVar[bool] = True
    has_axis_shares: ClassVar[bool] = True

    @property
    def var_within_trace(self) -> Tensor:
        """Of one instance (run, 1, axis); the same for trace and ref."""
        return self.var_within

    @property
    def var_within_ref(self) -> Tensor:
        """Of one instance (run, 1, axis)."""
        return self.var_within

    @property
    def knows_mates(self) -> bool:
        """Whether it was fitted on a table with groups, and tells sources of one group from those of two."""
        return self.relatedness.shape[1] == 2

    def under(self, mates: float) -> Robust:
        """The same model where the other source of H2 is of the same group with this probability."""
        return replace(self, mates=torch.full_like(self.mates, mates))

    def unrelated(self) -> Robust:
        """The same model for sources that have nothing in common: H2 is p(trace) p(ref) then, and no LR has a ceiling."""
        return replace(self, relatedness=torch.zeros_like(self.relatedness))

    @property
    def how_related(self) -> Tensor:
        """ρ_c of any two different sources (run, way)."""
        share = self.mates[:, 0]
        return (1 - share) * self.relatedness[:, 0] + share * self.relatedness[:, -1]

    @property
    def ln_ceiling(self) -> Tensor:
        """ln of the largest LR that the model can give, (run,): two different sources may be as alike as one is to itself."""
        return -self.how_related[:, 0].log()

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the axes, (run, 1, axis) each."""
        return torch.zeros_like(self.population.var), self.population.var

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis)."""
        return (self.stabiliser(values) - self.centre) @ self.projection

    def scatter_of(self, instances: Tensor) -> Tensor:
        """Where instances (run, items, instance, feature) lie from their mean on the axes, (run, items, instance × axis).

        One instance after the other, as it counts which of them is off, and not only how far they scatter.
        """
        on_axes = self.project(instances.flatten(1, 2)).reshape(*instances.shape[:3], -1)
        return (on_axes - self.project(instances.mean(2))[:, :, None]).flatten(2)

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature), (run, traces, refs).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances, ``scatter`` how these lie around them
        (`scatter_of`); left out, they are taken to agree perfectly.
        """
        found = []
        for model, x, y in self._runs(trace, ref, n_trace, n_ref, scatter):
            same, different = over_views(model, x, y)
            found.append(same.sub_(different))
        return torch.cat(found)

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity ln p(trace | ref, H1) and typicality ln p(trace | ref, H2) of all pairs, (run, traces, refs) each.

        Densities of the trace's instances in the features that go into the model (for several, up to a constant): ln |det| of
        the projection and of the stabiliser takes them there from the axes. Their difference is `ln_lr`; under H2 the ref
        matters through relatedness alone.
        """
        similarity, typicality = self.ln_parts_on_axes(trace, ref, n_trace, n_ref, scatter)
        if self.projection.shape[-1] != self.projection.shape[-2]:
            return similarity, typicality
        determinant = torch.linalg.slogdet(self.projection).logabsdet[:, None]
        jacobian = (determinant + self.stabiliser.ln_slope(trace).sum(-1))[..., None]
        return similarity + jacobian, typicality + jacobian

    def ln_parts_on_axes(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity and typicality of all pairs as densities on the axes, (run, traces, refs) each."""
        similarity, typicality = [], []
        for model, x, y in self._runs(trace, ref, n_trace, n_ref, scatter):
            same, different = over_views(model, x, y)
            ln_ref = ln_sum([view.ln_joint for view in y])[:, None]
            similarity.append(same - ln_ref)
            typicality.append(different - ln_ref)
        return torch.cat(similarity), torch.cat(typicality)

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        number = self._n_axes()
        if min(number) < self.projection.shape[-1]:
            runs = self._runs(trace, ref, n_trace, n_ref, scatter)
            return torch.cat([model._ln_lr_of_views(x, y) for model, x, y in runs])
        return self._ln_lr_of_views(*self._sides(trace, ref, n_trace, n_ref, scatter))

    def _ln_lr_of_views(self, views_x: list[View], views_y: list[View]) -> Tensor:
        """ln LR of given pairs, whose items come in views."""
        same, different = [], []
        for of_x in views_x:
            for of_y in views_y:
                x, y = of_x.items, of_y.items
                z = (x.number * x.mean + y.number * y.mean) / (x.number + y.number)
                weight = of_x.ln_joint + of_y.ln_joint - x.ln_p - y.ln_p
                ln_h1, ln_h2 = self.ln_pair(x, y, self.ln_seen_with(z, x.number + y.number))
                same.append(ln_h1 + weight)
                different.append(ln_h2 + weight)
        return ln_sum(same) - ln_sum(different)

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """What every axis adds to the ln LR of given pairs, (run, pairs, axis): the shares sum to the ln LR.

        The model of some axes is the model with the other axes integrated out. So with LR_k of the first k axes, the share
        ln LR_k − ln LR_{k−1} is the ln LR of axis k given those before it, the ones that separate sources better.
        """
        total = []
        for k in range(1, self.projection.shape[-1] + 1):
            some = _first_axes(scatter, n_trace, n_ref, k)
            total.append(self._of_first_axes(k).ln_lr_given(trace, ref, n_trace, n_ref, some))
        return torch.diff(torch.stack(total, -1), dim=-1, prepend=torch.zeros_like(total[0][..., None]))

    def _of_first_axes(self, k: int) -> Robust:
        """The model of the first k axes."""
        own = {name: getattr(self, name)[..., :k] for name in ("projection", "var_within", "directions", "var_related")}
        centres, var = self.population.centres[..., :k], self.population.var[..., :k]
        return replace(self, **own, population=replace(self.population, centres=centres, var=var))

    def _n_axes(self) -> list[int]:
        """The number of axes of every run: those that a run was filled up with have no direction."""
        return self.projection.abs().sum(1).gt(0).sum(-1).tolist()

    def _sides(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> tuple[list[View], list[View]]:
        """Both sides on the axes, in all views."""
        of_x, of_y = (None, None) if scatter is None else (scatter.trace, scatter.ref)
        sides = (trace, n_trace, of_x), (ref, n_ref, of_y)
        x, y = (self.views(self.project(mean), number, scattered) for mean, number, scattered in sides)
        return x, y

    def _runs(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> Iterator[tuple[Robust, list[View], list[View]]]:
        """The model of one run after the other, with both sides."""
        for run in range(len(self.centre)):
            one, pick = take_runs(self, [run])._of_first_axes(self._n_axes()[run]), slice(run, run + 1)
            some = scatter and replace(scatter, trace=scatter.trace[pick], ref=scatter.ref[pick])
            some = _first_axes(some, n_trace, n_ref, one.projection.shape[-1])
            yield one, *one._sides(trace[pick], ref[pick], n_trace, n_ref, some)

    def ln_seen_with(self, points: Tensor, number: int, density: Density | None = None) -> Tensor:
        """ln f_q at means of so many instances (run, points, axis), for every scatter: (run, scatter, points)."""
        density = density or self.population.ln_density
        return torch.stack([density(points, math.exp(u) * self.var_within / number) for u in LN_SCATTER], 1)

    def items(self, mean: Tensor, density: Density | None = None) -> Items:
        """Items of one instance, on the axes; ``density`` is that of the population, or the same with a gradient."""
        at_means = self.ln_seen_with(mean, 1, density)
        ln_f = ln_weighted_sum(at_means, self._ln_weights(False))
        return Items(1, mean, self._along(mean), ln_f, self._ln_single(mean, ln_f), torch.zeros_like(ln_f))

    def views(self, mean: Tensor, number: int = 1, scatter: Tensor | None = None) -> list[View]:
        """Items on the axes in all views: means (run, items, axis) of ``number`` instances, and `scatter_of` them.

        The first view has all instances. Of two or more, some may be off together; which, is told by the item alone. Ordered
        along the direction in which they scatter most, these are the first r of them or the last.
        """
        if number == 1:
            items = self.items(mean)
            return [View(items, items.ln_p)]
        if scatter is None:
            scatter = mean.new_zeros((*mean.shape[:-1], number * mean.shape[-1]))
        w = self.var_within
        values = mean[..., None, :] + scatter.reshape(*scatter.shape[:-1], number, mean.shape[-1])
        around = values - values.mean(-2, keepdim=True)
        scaled = (around * w.rsqrt()[..., None, :]).detach()
        order = torch.linalg.eigh(scaled @ scaled.mT).eigenvectors[..., -1].argsort(-1)
        values, around = (t.take_along_dim(order[..., None], -2) for t in (values, around))
        gross = self.tails.contamination[..., 0] / 2
        usual, one, spike = (t[..., 0] * (1 - gross) for t in self.tails.chances(2 * number - 2))
        views = [self._several(values), self._several(values, is_gross=True)]
        joint = [usual.log() + views[0].ln_p, gross.log() + views[1].ln_p]
        shared, total = self._shared(number - 1), (around**2 / w[..., None, :]).sum((-1, -2))
        partial_sums = around.cumsum(-2)
        for r in range(1, number):
            known, moved = r * (1 - r / number), partial_sums[..., r - 1, :]
            off = torch.logaddexp(
                one.log() + shared.ln_one_off(total, (moved**2 / w).sum(-1), known),
                spike.log() + shared.ln_spikes(total, _first(self._along(moved)), known),
            )
            for rest in (values[..., r:, :], values[..., :r, :]):  # the first r are off, or the others are
                items = self._several(rest) if rest.shape[-2] > 1 else self.items(rest[..., 0, :])
                views.append(items)
                joint.append(off + items.ln_f)
        return [View(items, ln) for items, ln in zip(views, joint, strict=True)]

    def _several(self, values: Tensor, *, is_gross: bool = False) -> Items:
        """Items of two or more instances (run, items, instance, axis), none of them off."""
        number, w = values.shape[-2], self.var_within
        mean = values.mean(-2)
        squares = ((values - mean[..., None, :]) ** 2).sum(-2)
        nodes = LN_GROSS if is_gross else LN_SCATTER
        ln_weights = self._ln_weights(is_gross)
        scales = torch.cat([math.exp(u) * w for u in nodes], 1)
        at_means = torch.stack([self.population.ln_density(mean, math.exp(u) * w / number) for u in nodes], 1)
        terms = ln_student(_first(squares), scales, self.tails.nu, number - 1)
        ln_f, ln_within, ln_p = (ln_weighted_sum(each, ln_weights) for each in (at_means, terms, terms + at_means))
        posterior = (ln_weights[..., None] + terms).softmax(1)
        ln_tau = torch.tensor(nodes, dtype=w.dtype, device=w.device) @ posterior
        return Items(number, mean, self._along(mean), ln_f, ln_p, ln_within, squares, ln_tau, is_gross)

    def _ln_weights(self, is_gross: bool) -> Tensor:
        """ln ω of the scatters of an item (run, node)."""
        if is_gross:
            return torch.full_like(self.var_within[:, 0, :1], -math.log(len(LN_GROSS))).expand(-1, len(LN_GROSS))
        return self._ln_usual_weights

    @cached_property
    def _ln_usual_weights(self) -> Tensor:
        return ln_scatter_weights(self.tails.scatter_shape)

    @cached_property
    def _ln_mean_weights(self) -> Tensor:
        return ln_mean_scatter_weights(self.tails.scatter_shape)

    def _ln_single(self, points: Tensor, ln_f: Tensor) -> Tensor:
        """ln p(x) of single instances (run, points, axis), from ln f(x) (run, points)."""
        usual, one, spike = (t[..., 0] for t in self.tails.chances(1))
        return ln_sum([usual.log() + ln_f, one.log() + self._ln_far(points), spike.log() + self._ln_spiked(points)])

    def _ln_far(self, points: Tensor) -> Tensor:
        """Where contaminated instances lie: the background, seen with their variance."""
        var, w = self.population.var, self.var_within
        terms = [ln_background(points, var + (2 * s - 1) * w) for s in OFF_SCALES]
        return ln_sum(terms) - math.log(len(terms))

    def _ln_spiked(self, points: Tensor) -> Tensor:
        """Where instances with a spike lie: the background, seen with the variance 1 + k u_f u_fᵀ of any feature."""
        total = self.population.var + self.var_within
        directions = self.directions * self.var_within.sqrt()
        along = (points / total) @ directions.mT  # (run, points, feature)
        length2 = (directions**2 / total).sum(-1)[:, None]  # (run, 1, feature)
        square = (points**2 / total).sum(-1, keepdim=True)
        n_features, n_axes = directions.shape[1:]
        terms = []
        for scale in SPIKE_SCALES:
            k = 2 * (scale - 1)
            spread = 1 + k * length2
            left = (square - along**2 * (k / spread)).clamp_min(0.0)
            terms.append(-0.5 * (spread.log() + (FREEDOM + n_axes) * torch.log1p(left / FREEDOM)))
        at_zero = ln_background(torch.zeros_like(points[:, :1]), total)
        return at_zero + torch.logsumexp(torch.cat(terms, -1), -1) - math.log(len(terms) * n_features)

    def ln_pair(self, x: Items, y: Items, at_means: Tensor) -> tuple[Tensor, Tensor]:
        """ln p(x, y | H1) and ln p(x, y | H2) of pairs of any arrangement; ``at_means`` has ln f_q(z) for every scatter."""
        ln_h1, ln_mates = self.ln_related(x, y, at_means)
        shape = (-1, *(1,) * (ln_h1.dim() - 1))
        related = self.how_related
        ln_ways = [rho.reshape(shape).log() for rho in related.unbind(-1)]
        ln_apart = torch.log1p(-related.sum(-1)).reshape(shape) + x.ln_p + y.ln_p
        return ln_h1, ln_sum([ln_apart, *(a + b for a, b in zip(ln_ways, ln_mates, strict=True))])

    def ln_related(self, x: Items, y: Items, at_means: Tensor) -> tuple[Tensor, list[Tensor]]:
        """ln p(x, y | H1), and ln p(x, y) of sources that are related in each of the `WAYS`."""
        tails, w, m, n = self.tails, self.var_within, x.number, y.number
        together, contrasts = 1 / m + 1 / n, m + n - 1
        apart2 = _apart(x.mean, y.mean).square_()  # δ² (run, axis, …)
        shape = (-1, *(1,) * (apart2.dim() - 2))
        delta2 = (w.reciprocal() @ apart2.flatten(2)).reshape(-1, *apart2.shape[2:])
        q, within = delta2 / together, None
        scattered = [_first(side.squares) for side in (x, y) if side.squares is not None]
        if scattered:
            per_axis = w.mT.reshape(*w.shape[::2], *(1,) * len(shape[1:]))
            within = reduce(torch.add, [(squares / per_axis).sum(1) for squares in scattered])  # Σ (S_x + S_y)/w
            q = q + within
        # A density of contrasts is one of δ and the contrasts of each item: they differ by this constant.
        ln_unit = -0.5 * w.shape[-1] * math.log(together)

        clean = self._ln_clean(x, y, apart2, at_means)
        # An offset that all instances of an item share is rarely an error: the more rarely, the more instances there are.
        share_x, share_y = SHARED_BY_ANOTHER ** (m - 1), SHARED_BY_ANOTHER ** (n - 1)
        usual, one, spike = (t.reshape(shape) for t in tails.chances(share_x + share_y))
        shared, known = self._shared(contrasts), 1 / together
        spikes = shared.ln_spikes(q, _apart(x.along / together, y.along / together), known)
        off = torch.logaddexp(one.log() + shared.ln_one_off(q, delta2 / together**2, known), spike.log() + spikes)
        ln_f = torch.logaddexp(x.ln_f, y.ln_f)
        elsewhere = ln_f + math.log(share_x)
        if share_x != share_y:
            elsewhere = torch.logaddexp(math.log(share_x) + y.ln_f, math.log(share_y) + x.ln_f)
        ln_within = x.ln_within + y.ln_within
        if within is not None:
            # How alike two items scatter is not evidence: p(S) is the same under both hypotheses, whatever is off.
            of_squares = self._shared(contrasts - 1).ln_density(within)
            off, spikes = off - of_squares, spikes - of_squares
        ln_h1 = torch.logaddexp(usual.log() + clean, off + elsewhere) + ln_unit + ln_within

        at_mean = ln_weighted_sum(at_means, self._ln_weights(False))
        batches = self._ln_batches(x, y, apart2)
        variant = spikes + ln_f + (ln_unit - math.log(2))
        return ln_h1, [ln_h1, *(ln_within + at_mean + batch for batch in batches.unbind(1)), ln_within + variant]

    def _ln_batches(self, x: Items, y: Items, apart2: Tensor) -> Tensor:
        """ln of the density of δ between two sources of one batch, for each of `BATCH_SCALES`: (run, scale, …).

        Items of several instances tell how far they scatter: their variance within is τ w, τ being what they make probable.
        """
        nu, w = self.tails.nu, self.var_within
        var = torch.cat([j * self.var_related for j in BATCH_SCALES], 1)  # (run, scale, axis)
        if x.ln_tau is None and y.ln_tau is None:
            return ln_student(apart2, w * (1 / x.number + 1 / y.number) + var, nu, 1)
        taus = [torch.zeros_like(side.ln_p) if side.ln_tau is None else side.ln_tau for side in (x, y)]
        within = taus[0].exp() / x.number + taus[1].exp() / y.number
        within = within[:, None].expand(-1, w.shape[-1], *[-1] * (apart2.dim() - 2))
        # With the variance v = (1 + τ w/jλ) jλ of δ, the density is ∏ v^ν/2 (v + δ²/ν)^−(ν+1)/2, up to a constant.
        ln_total, ln_var = ln_products([within, apart2], [w / var, 1 / (nu * var)])
        assert ln_var is not None
        nu, ln_scale = (t.reshape(*t.shape[:2], *(1,) * (apart2.dim() - 2)) for t in (nu[..., 0], var.log().sum(-1)))
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
        return w.shape[-1] * constant + 0.5 * (nu * ln_var - (nu + 1) * ln_total - ln_scale)

    def _ln_clean(self, x: Items, y: Items, apart2: Tensor, at_means: Tensor) -> Tensor:
        """ln of the density of δ and mean of two items of one source, none off, given how each scatters around its mean.

        The items scatter with τ_x and τ_y; ``apart2`` is δ² (run, axis, …).
        """
        tails, w, m, n = self.tails, self.var_within, x.number, y.number
        if m == n == 1:
            terms = ln_student(apart2, 2 * self._scatters(), tails.nu, 1)
            return ln_weighted_sum(terms.add_(at_means), self._ln_mean_weights) + 0.5 * w.shape[-1] * math.log(2)
        u = torch.tensor(LN_SCATTER, dtype=w.dtype, device=w.device)
        gross = torch.tensor(LN_GROSS, dtype=w.dtype, device=w.device)
        of_x, of_y = (gross if side.is_gross else u for side in (x, y))
        ln_x, ln_y = (t.flatten() for t in torch.meshgrid(of_x, of_y, indexing="ij"))  # of all pairs of scatters
        ln_weights = (self._ln_weights(x.is_gross)[:, :, None] + self._ln_weights(y.is_gross)[:, None]).flatten(1)
        parts: list[Tensor] = []
        scales: list[Tensor] = []
        ln_scale = (m + n - 2) * w.log().sum(-1)
        for side, ln_tau in ((x, ln_x), (y, ln_y)):
            if side.squares is not None:
                parts.append(_first(side.squares))
                scales.append(ln_tau.exp()[:, None] * w)
                ln_scale = ln_scale + (side.number - 1) * w.shape[-1] * ln_tau
        var = ln_x.exp() / m + ln_y.exp() / n  # of δ
        ln_all, ln_within = ln_products([*parts, apart2], [1 / (tails.nu * v) for v in (*scales, var[:, None] * w)])
        assert ln_within is not None
        within = of_products(ln_within, tails.nu, m + n - 2, ln_scale, w.shape[-1])
        ln_scale = ln_scale + w.log().sum(-1) + w.shape[-1] * (var / (1 / m + 1 / n)).log()
        terms = of_products(ln_all, tails.nu, m + n - 1, ln_scale, w.shape[-1])
        of_mean = ((m + n) / (m / ln_x.exp() + n / ln_y.exp())).log()
        nearest = (of_mean[:, None] - u).abs().argmin(-1).tolist()
        for node, q in enumerate(nearest):
            terms[:, node] += at_means[:, q]
        return ln_weighted_sum(terms, ln_weights) - ln_weighted_sum(within, ln_weights)

    def _scatters(self) -> Tensor:
        """τ_q w (run, scatter, axis)."""
        return torch.cat([math.exp(u) * self.var_within for u in LN_SCATTER], 1)

    def _shared(self, contrasts: int) -> SharedTail:
        if contrasts not in self._shared_tails:
            tails, ln_within = self.tails, self.var_within.log().sum((-1, -2))
            self._shared_tails[contrasts] = SharedTail(
                tails.scatter_shape, tails.second_spike, ln_within, self.directions, contrasts
            )
        return self._shared_tails[contrasts]

    @cached_property
    def _shared_tails(self) -> dict[int, SharedTail]:
        """Those that were asked for, by their contrasts."""
        return {}

    def _along(self, points: Tensor) -> Tensor:
        """u_f · x/√w (run, …, feature)."""
        return (points * self.var_within.rsqrt()) @ self.directions.mT


def _first_axes(scatter: Scatter | None, n_trace: int, n_ref: int, k: int) -> Scatter | None:
    """How instances lie around their mean on the first k axes, of all that a `Scatter` has."""
    if scatter is None:
        return None
    sides = (scatter.trace, n_trace), (scatter.ref, n_ref)
    of_x, of_y = (t.reshape(*t.shape[:-1], number, -1)[..., :k].flatten(-2) for t, number in sides)
    return replace(scatter, trace=of_x, ref=of_y)


def _first(values: Tensor) -> Tensor:
    """Axes or features next to the runs (run, axis, …): operations on many pairs then go along the pairs."""
    return values.movedim(-1, 1).contiguous()


def _apart(x: Tensor, y: Tensor) -> Tensor:
    """x − y of items (run, …, axis), with the axes first."""
    x, y = _first(x), _first(y)
    return torch.sub(x, y, out=room(*np.broadcast_shapes(x.shape, y.shape)))

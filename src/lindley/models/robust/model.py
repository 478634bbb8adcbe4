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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import ClassVar, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.blocks import room
from lindley.models.robust.all_pairs import distinct, of_given_pairs, over_views
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.items import (
    Apart,
    Items,
    Numbers,
    Views,
    WaysToSee,
    are_gross,
    numbers_kept,
    ways_to_see,
)
from lindley.models.robust.kept import kept
from lindley.models.robust.population import Population
from lindley.models.robust.single import SingleInstance
from lindley.models.robust.tails import (
    LN_GROSS,
    LN_SCATTER,
    Number,
    Offsets,
    SharedTail,
    Tails,
    ln_mean_scatter_weights,
    ln_products,
    ln_scatter_weights,
    ln_student,
    ln_sum,
    ln_weighted_sum,
    student_law,
)
from lindley.models.two_level import map_tensors, take_runs

__all__ = ["WAYS", "Robust"]

T = TypeVar("T")

FEW_INSTANCES = 8
"""Of a trace and a ref by themselves, up to which the one with fewer is filled up: what counts then are the operations."""
SHARED_BY_ANOTHER = 0.1
"""Probability that what an instance is off by, another one of the item is off by as well."""
BATCH_SCALES = (0.002, 0.02, 0.2)
"""j: variance of the difference between two sources of one batch, in units of the variance between sources."""
WAYS = ("alike", *(f"batch {j}" for j in BATCH_SCALES), "variant")
"""The ways in which two different sources may be related, each with its weight in `Robust.relatedness`."""


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
        number = instances.shape[2]
        on_axes = self.project(torch.cat([instances, instances.mean(2, keepdim=True)], 2).flatten(1, 2))
        on_axes = on_axes.reshape(len(instances), -1, number + 1, on_axes.shape[-1])
        return (on_axes[:, :, :number] - on_axes[:, :, number:]).flatten(2)

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature), (run, traces, refs).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances, ``scatter`` how these lie around them
        (`scatter_of`); left out, they are taken to agree perfectly.
        """
        same, different, _ = self._over_views(trace, ref, n_trace, n_ref, scatter)
        return same.sub_(different)

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
        same, different, ln_ref = self._over_views(trace, ref, n_trace, n_ref, scatter)
        return same - ln_ref[:, None], different - ln_ref[:, None]

    def _over_views(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ln p(x, y | H1), ln p(x, y | H2) (run, traces, refs) and ln p(y) (run, refs)."""
        found = [
            (*over_views(model, x, y), y.ln_p) for model, x, y in self._groups(trace, ref, n_trace, n_ref, scatter)
        ]
        same, different, ln_ref = (each[0] if len(each) == 1 else torch.cat(each) for each in zip(*found, strict=True))
        return same, different, ln_ref

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        return next(self._of_given((self,), trace, ref, n_trace, n_ref, scatter))

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """What every axis adds to the ln LR of given pairs, (run, pairs, axis): the shares sum to the ln LR.

        The model of some axes is the model with the other axes integrated out. So with LR_k of the first k axes, the share
        ln LR_k − ln LR_{k−1} is the ln LR of axis k given those before it, the ones that separate sources better.
        """
        models = [self._of_first_axes(k) for k in range(1, self.projection.shape[-1] + 1)]
        total = torch.stack(list(self._of_given(models, trace, ref, n_trace, n_ref, scatter)), -1)
        return torch.diff(total, dim=-1, prepend=torch.zeros_like(total[..., :1]))

    @staticmethod
    def _of_given(
        models: Sequence[Robust], trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> Iterator[Tensor]:
        """ln LRs of given pairs (run, pairs), by one model after the other; what belongs to an item alone is computed once."""
        i = j = np.arange(trace.shape[1])
        if not torch.is_grad_enabled():
            of_x, of_y = (None, None) if scatter is None else (scatter.trace, scatter.ref)
            (first_x, i), (first_y, j) = distinct(trace, of_x), distinct(ref, of_y)
            trace, ref = trace[:, first_x], ref[:, first_y]
            if scatter is not None:
                scatter = replace(scatter, trace=scatter.trace[:, first_x], ref=scatter.ref[:, first_y])
        for each in models:
            sides = each._groups(trace, ref, n_trace, n_ref, scatter)
            same, different = zip(*(of_given_pairs(model, x, y, i, j) for model, x, y in sides), strict=True)
            yield torch.cat(same) - torch.cat(different)

    def _of_first_axes(self, k: int) -> Robust:
        """The model of the first k axes."""
        own = {name: getattr(self, name)[..., :k] for name in ("projection", "var_within", "directions", "var_related")}
        centres, var = self.population.centres[..., :k], self.population.var[..., :k]
        return replace(self, **own, population=replace(self.population, centres=centres, var=var))

    @kept
    def _same_axes(self) -> tuple[tuple[slice, Robust], ...]:
        """The model as it is, if all runs have all axes; otherwise one run after the other, with the axes that it has.

        Axes that a run was filled up with have no direction.
        """
        number = self.projection.abs().sum(1).gt(0).sum(-1).tolist()
        if min(number) == self.projection.shape[-1]:
            return ((slice(None), self),)
        return tuple((slice(i, i + 1), take_runs(self, [i])._of_first_axes(k)) for i, k in enumerate(number))

    @kept
    def by_run(self) -> tuple[Robust, ...]:
        """The models of all runs, each by itself."""
        return (self,) if len(self.centre) == 1 else tuple(take_runs(self, [run]) for run in range(len(self.centre)))

    def _groups(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> Iterator[tuple[Robust, Views, Views]]:
        """Both sides on the axes, in all views, with the model: of all runs at once, if they have the same axes.

        Traces and refs of equally many instances are seen at once, and so are a trace and a ref by themselves: for a single
        pair, operations count.
        """
        for runs, model in self._same_axes:
            of_x, of_y = (None, None) if scatter is None else (scatter.trace[runs], scatter.ref[runs])
            x, y = model.project(trace[runs]), model.project(ref[runs])
            n_x, n_y = x.shape[1], y.shape[1]
            few = n_x == n_y == 1 and min(n_trace, n_ref) > 1 and max(n_trace, n_ref) <= FEW_INSTANCES
            if n_trace == n_ref or few:
                scattered = None
                if of_x is not None and of_y is not None:
                    of_x, of_y = _filled_up(of_x, n_trace, n_ref), _filled_up(of_y, n_ref, n_trace)
                    scattered = torch.cat([of_x, of_y], 1)
                both = model.views(
                    torch.cat([x, y], 1), (n_trace,) if n_trace == n_ref else (n_trace, n_ref), scattered
                )
                yield model, both.some(slice(n_x), n_trace), both.some(slice(n_x, None), n_ref)
            else:
                yield model, model.views(x, (n_trace,), of_x), model.views(y, (n_ref,), of_y)

    def ln_seen_with(self, points: Tensor, number: Number) -> Tensor:
        """ln f_q at means (run, points, axis) of so many instances, all or each, for every scatter: (run, scatter, points)."""
        taus = self._once("scatters", lambda: self._tensor(LN_SCATTER).exp()[:, None])
        return self._ln_seen(points, taus / number)

    def _ln_seen(self, points: Tensor, share: Tensor) -> Tensor:
        """ln f at points (run, points, axis) with an error of so many w (node, 1 or points): (run, node, points)."""
        nodes, n = len(share), points.shape[1]
        error = (share[..., None] * self.var_within[:, None]).expand(-1, -1, n, -1).flatten(1, 2)
        each = points[:, None].expand(-1, nodes, -1, -1).flatten(1, 2)
        return self.population.ln_density(each, error).reshape(len(points), nodes, n)

    def _tensor(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=self.var_within.dtype, device=self.var_within.device)

    def items(self, mean: Tensor) -> Items:
        """Items of one instance, on the axes."""
        ln_f = ln_weighted_sum(self.ln_seen_with(mean, 1), self._ln_usual_weights)
        return Items(1, mean, self._along(mean), ln_f, self.ln_single(mean, ln_f), torch.zeros_like(ln_f))

    def views(self, mean: Tensor, numbers: tuple[int, ...] = (1,), scatter: Tensor | None = None) -> Views:
        """Items on the axes in all views: means (run, items, axis) of so many instances, and `scatter_of` them.

        One number is that of all items; or each has its own, and those of fewer instances are filled up with their mean. The
        first view has all instances. Of two or more, some may be off together; which, is told by the item alone. Ordered
        along the direction in which they scatter most, these are the first r of them or the last. A scatter may have more
        axes than the model.
        """
        most = max(numbers)
        assert most == 1 or min(numbers) > 1
        if most == 1:
            items = self.items(mean).map(lambda t: t[:, :, None])
            return Views(replace(items, number=numbers_kept(1), is_gross=are_gross(1)), items.ln_p)
        values = mean[..., None, :].expand(-1, -1, most, -1)
        if scatter is not None:
            each = scatter.reshape(*scatter.shape[:2], most, scatter.shape[2] // most)
            values = values + each[..., : mean.shape[-1]]
        scaled = (values - values.mean(-2, keepdim=True)) * self._rsqrt_within[:, :, None]
        table = ways_to_see(numbers, mean.dtype, mean.device)
        with torch.no_grad():
            place = torch.linalg.eigh(scaled @ scaled.mT).eigenvectors[..., -1:]
            order = (place if table.last is None else place + table.last).argsort(-2)
        values, scaled = (t.take_along_dim(order, -2) for t in (values, scaled))
        items = self._in_views(values, table)

        ln_usual, ln_gross, ln_one, ln_spike, unit = self._once(("views", table), lambda: self._chances_of_views(table))
        shared = self._shared(table.total - 1, table)
        moved = scaled.cumsum(-2)[..., :-1, :]  # (run, items, r, axis)
        total = scaled.square().sum((-1, -2))[..., None].expand(moved.shape[:-1])
        spiked = self._offsets.spiked(total, _first(moved @ self.directions.mT[:, None]), table.known, unit)
        contaminated = self._offsets.contaminated(total, moved.square().sum(-1), table.known, unit)
        off = torch.logaddexp(
            ln_one + shared.ln_one_off(contaminated, total.shape), ln_spike + shared.ln_spikes(spiked, total.shape)
        )
        off = off.take_along_dim(table.off[None], -1)
        whole = [ln_usual + items.ln_p[..., :1], ln_gross + items.ln_p[..., 1:2]]
        return Views(items, torch.cat([*whole, off + items.ln_f[..., 2:]], -1))

    def _chances_of_views(self, table: WaysToSee) -> tuple[Tensor, ...]:
        """ln of the chances that all is as usual, that all scatter grossly, that some given are contaminated or have a spike;
        and the unit of sums of squares.
        """
        gross = self.tails.contamination / 2
        usual, one, spike = ((t * (1 - gross)).log() for t in self.tails.chances(2 * table.total - 2))
        return usual, gross.log(), one, spike, 2 * self.tails.scatter_shape

    def _in_views(self, values: Tensor, table: WaysToSee) -> Items:
        """Items of two or more instances (run, items, instance, axis), in order, in all views."""
        mean = (table.is_kept @ values) / table.count[..., None]  # (run, items, view, axis)
        squares = ((values[:, :, None] - mean[..., None, :]).square_() * table.is_kept[..., None]).sum(-2)
        (n_items, n_views), nodes = mean.shape[1:3], len(table.ln_tau)
        ln_weights, factor, power, constant = self._once(table, lambda: self._law_of_squares(table))
        share = table.share.expand(-1, n_items, -1).flatten(1)
        at_means = self._ln_seen(mean.flatten(1, 2), share).reshape(len(mean), nodes, n_items, n_views)
        terms = constant + power * ln_products([_first(squares)], [factor])[0]
        ln_f, ln_within, ln_p = (ln_weighted_sum(t, ln_weights) for t in (at_means, terms, terms + at_means))
        ln_tau = ((ln_weights + terms).softmax(1) * table.ln_tau).sum(1)
        # A single instance, the third view and the fourth have, may be off itself, and tells nothing of its scatter.
        alone = self.ln_single(mean[:, :, 2:4].flatten(1, 2), ln_f[..., 2:4].flatten(1)).reshape(len(mean), n_items, 2)
        ln_p = torch.cat([ln_p[..., :2], alone, ln_p[..., 4:]], -1)
        ln_tau = torch.cat([ln_tau[..., :2], torch.zeros_like(alone), ln_tau[..., 4:]], -1)
        most = n_views // 2
        return Items(
            numbers_kept(most), mean, self._along(mean), ln_f, ln_p, ln_within, squares, ln_tau, table.is_gross
        )

    def _law_of_squares(self, table: WaysToSee) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of the instances that a view keeps: ln ω, 1/ντw, and what their Student-t law has for power and constant.

        All are (run, node, 1 or item, view) but for the second, which is (run, node, axis, 1, view).
        """
        w, nu, contrasts = self.var_within[..., None, None], self.tails.nu[..., None], table.count - 1
        scales = table.ln_tau.exp()[:, None] * w  # (run, node, axis, 1, view)
        ln_scale = contrasts * scales.log().sum(2)
        law = student_law(nu, contrasts, ln_scale, w.shape[2])
        return self._ln_weights_of_all[:, table.weight], 1 / (nu[..., None] * scales), *law

    @kept
    def _ln_usual_weights(self) -> Tensor:
        """ln ω of the scatters of an item (run, node)."""
        return ln_scatter_weights(self.tails.scatter_shape)

    @kept
    def _ln_weights_of_all(self) -> Tensor:
        """ln ω of the usual scatters, of gross ones and of the mean of two; one, and none: (run, place)."""
        usual = self._ln_usual_weights
        gross = torch.full_like(usual[:, :1], -math.log(len(LN_GROSS))).expand(-1, len(LN_GROSS))
        one, none = torch.zeros_like(usual[:, :1]), torch.full_like(usual[:, :1], -math.inf)
        return torch.cat([usual, gross, ln_mean_scatter_weights(self.tails.scatter_shape), one, none], 1)

    def ln_single(self, points: Tensor, ln_f: Tensor) -> Tensor:
        """ln p(x) of single instances (run, points, axis), from ln f(x) (run, points)."""
        return self._single.ln_density(points, ln_f)

    @cached_property
    def _single(self) -> SingleInstance:
        return SingleInstance(self.tails, self.population.var, self.var_within, self.directions)

    def ln_pair(self, x: Items, y: Items, at_means: Tensor) -> tuple[Tensor, Tensor]:
        """ln p(x, y | H1) and ln p(x, y | H2) of pairs of any arrangement; ``at_means`` has ln f_q(z) for every scatter."""
        ln_h1, ln_mates = self.ln_related(x, y, at_means)
        related = self._once(
            "ways", lambda: torch.cat([self.how_related, 1 - self.how_related.sum(-1, keepdim=True)], -1).log()
        )
        *ln_ways, ln_apart = (ln_rho.reshape(-1, *(1,) * (ln_h1.dim() - 1)) for ln_rho in related.unbind(-1))
        terms = (a + b for a, b in zip(ln_ways, ln_mates, strict=True))
        return ln_h1, ln_sum([ln_apart + x.ln_p + y.ln_p, *terms])

    def apart(self, x: Tensor, y: Tensor) -> Apart:
        """How far single instances (run, pairs, axis) are apart: all that the scalars change of it is its unit."""
        of_x, of_y = (Items(1, t, self._along(t), t[..., 0], t[..., 0], t[..., 0]) for t in (x, y))
        return self._of_pairs(of_x, of_y, torch.ones_like(self.tails.nu))

    def _of_pairs(self, x: Items, y: Items, unit: Tensor) -> Apart:
        """How far items are apart, of pairs of any arrangement; what is left of that is divided by a unit (run, 1, 1)."""
        numbers, w = Numbers.of(x, y), self.var_within
        together, known = numbers.together, numbers.known
        squares = _apart(x.mean, y.mean).square_()  # δ² (run, axis, …)
        delta2 = (w.reciprocal() @ squares.flatten(2)).reshape(-1, *squares.shape[2:])
        q, within = delta2 * known, None
        scattered = [_first(side.squares) for side in (x, y) if side.squares is not None]
        if scattered:
            per_axis = w.mT.reshape(*w.shape[::2], *(1,) * (squares.dim() - 2))
            within = reduce(torch.add, [(s / per_axis).sum(1) for s in scattered])  # Σ (S_x + S_y)/w
            q = q + within
        if isinstance(together, Tensor):
            along = _apart(x.along, y.along) * known
        else:
            along = _apart(x.along / together, y.along / together)
        return Apart(
            squares,
            self._offsets.contaminated(q, delta2 * known**2, known, unit),
            self._offsets.spiked(q, along, known, unit),
            within,
        )

    def ln_related(
        self, x: Items, y: Items, at_means: Tensor, apart: Apart | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """ln p(x, y | H1), and ln p(x, y) of sources that are related in each of the `WAYS`.

        ``apart`` is what `apart` says of the pairs, in units of 2α, where it is known already.
        """
        if apart is None:
            apart = self._of_pairs(x, y, 2 * self.tails.scatter_shape)
        numbers, n_axes, shape = Numbers.of(x, y), self.var_within.shape[-1], (len(at_means), *at_means.shape[2:])
        m, n = numbers.m, numbers.n
        ones = (-1, *(1,) * (len(shape) - 1))
        # An offset that all instances of an item share is rarely an error: the more rarely, the more instances there are.
        shares = [SHARED_BY_ANOTHER ** (k - 1) for k in (m, n)]
        contrasts, ln_unit, ln_share_x, ln_share_y, usual, one, spike = self._once(
            ("numbers", numbers, len(ones)),
            lambda: (
                m + n - 1,
                # A density of contrasts is one of δ and the contrasts of each item: they differ by this constant.
                -0.5 * n_axes * _ln(numbers.together),
                *map(_ln, shares),
                *(t.log() for t in self.tails.chances(sum(shares), ones)),
            ),
        )
        clean = self._ln_clean(x, y, apart.squares, at_means)
        shared = self._shared(contrasts, numbers)
        spikes = shared.ln_spikes(apart.spiked, shape)
        off = torch.logaddexp(one + shared.ln_one_off(apart.contaminated, shape), spike + spikes)
        elsewhere = torch.logaddexp(ln_share_x + y.ln_f, ln_share_y + x.ln_f)
        ln_f = torch.logaddexp(x.ln_f, y.ln_f) if apart.within is not None else elsewhere
        ln_within = x.ln_within + y.ln_within
        if apart.within is not None:
            # How alike two items scatter is not evidence: p(S) is the same under both hypotheses, whatever is off.
            of_squares = self._shared(contrasts - 1, (numbers, "squares")).ln_density(apart.within)
            off, spikes = off - of_squares, spikes - of_squares
        ln_h1 = torch.logaddexp(usual + clean, off + elsewhere) + ln_unit + ln_within

        at_mean = ln_weighted_sum(at_means, self._ln_usual_weights)
        batches = self._ln_batches(x, y, apart.squares)
        variant = spikes + ln_f + (ln_unit - math.log(2))
        return ln_h1, [ln_h1, *(ln_within + at_mean + batch for batch in batches.unbind(1)), ln_within + variant]

    def _ln_batches(self, x: Items, y: Items, apart2: Tensor) -> Tensor:
        """ln of the density of δ between two sources of one batch, for each of `BATCH_SCALES`: (run, scale, …).

        Items of several instances tell how far they scatter: their variance within is τ w, τ being what they make probable.
        """
        numbers, nu, w = Numbers.of(x, y), self.tails.nu, self.var_within
        if x.ln_tau is None and y.ln_tau is None and not isinstance(numbers.m, Tensor):
            return ln_student(
                apart2, w * numbers.together + self._tensor(BATCH_SCALES)[:, None] * self.var_related, nu, 1
            )
        dim = apart2.dim()
        factors, power, constant = self._once(("batches", dim), lambda: self._law_of_batches(dim))
        taus = [torch.zeros_like(side.ln_p) if side.ln_tau is None else side.ln_tau for side in (x, y)]
        within = taus[0].exp() / numbers.m + taus[1].exp() / numbers.n
        within = within[:, None].expand(-1, w.shape[-1], *[-1] * (apart2.dim() - 2))
        # With the variance v = (1 + τ w/jλ) jλ of δ, the density is ∏ v^ν/2 (v + δ²/ν)^−(ν+1)/2, up to a constant.
        if not isinstance(numbers.m, Tensor):
            factors = [factor.flatten(2) for factor in factors]
        ln_total, ln_var = ln_products([within, apart2], factors)
        assert ln_var is not None
        return constant + power * ln_var - (power + 0.5) * ln_total

    def _law_of_batches(self, dim: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """w/jλ and 1/νjλ, ν/2 and the constant of the law of δ: (run, scale, …) each, for pairs (run, axis, …) of so many
        dimensions.
        """
        nu, w, ones = self.tails.nu, self.var_within, (1,) * (dim - 2)
        var = self._tensor(BATCH_SCALES)[:, None] * self.var_related  # (run, scale, axis)
        factors = [t.reshape(*t.shape, *ones) for t in (w / var, 1 / (nu * var))]
        nu, ln_scale = (t.reshape(*t.shape[:2], *ones) for t in (nu[..., 0], var.log().sum(-1)))
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
        return factors, 0.5 * nu, w.shape[-1] * constant - 0.5 * ln_scale

    def _ln_clean(self, x: Items, y: Items, apart2: Tensor, at_means: Tensor) -> Tensor:
        """ln of the density of δ and mean of two items of one source, none off, given how each scatters around its mean.

        The items scatter with τ_x and τ_y; ``apart2`` is δ² (run, axis, …).
        """
        numbers = Numbers.of(x, y)
        which = tuple(side.squares is not None for side in (x, y))
        ln_weights, factors, of_all, of_squares = self._once(
            ("clean", numbers, which, at_means.dim()), lambda: self._law_of_clean(numbers, which, at_means.dim())
        )
        parts = [_first(side.squares) for side in (x, y) if side.squares is not None]
        ln_all, ln_squares = ln_products([*parts, apart2], factors)
        ln_within: Tensor | float = 0.0
        if ln_squares is not None:
            ln_within = ln_weighted_sum(_scaled(ln_squares, *of_squares), ln_weights)
        terms = _scaled(ln_all, *of_all)
        if numbers.nearest.dim() > 1:
            nearest = numbers.nearest.reshape(1, -1, *(1,) * (at_means.dim() - 4), *numbers.nearest.shape[1:])
            terms = terms + at_means.take_along_dim(nearest, 1)
        elif len(numbers.nearest) == len(LN_SCATTER):
            terms.add_(at_means)
        else:
            for node, q in enumerate(numbers.nearest.tolist()):
                terms[:, node] += at_means[:, q]
        return ln_weighted_sum(terms, ln_weights) - ln_within

    def _law_of_clean(
        self, numbers: Numbers, has_squares: tuple[bool, ...], dim: int
    ) -> tuple[Tensor, list[Tensor], tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Of pairs (run, node, …) of so many dimensions: ln ω of pairs of scatters, 1/ντw of the squares of both items and of
        δ², and powers and constants of the Student-t laws of all contrasts, and of those of each item.
        """
        w, nu, m, n = self.var_within, self.tails.nu, numbers.m, numbers.n
        n_axes, views = w.shape[-1], numbers.tau_x.dim() - 1
        middle = (1,) * (dim - 2 - views)

        def of_nodes(values: Tensor) -> Tensor:
            """(…, node) or (…, node, view, view), with ones for the items before the views."""
            at = values.dim() - views
            return values.reshape(*values.shape[:at], *middle, *values.shape[at:])

        ln_weights = of_nodes(
            self._ln_weights_of_all[:, numbers.weight_x] + self._ln_weights_of_all[:, numbers.weight_y]
        )
        var = numbers.tau_x / m + numbers.tau_y / n  # of δ
        sides = [
            (tau, k) for tau, k, has in zip((numbers.tau_x, numbers.tau_y), (m, n), has_squares, strict=True) if has
        ]
        if views:
            per_axis = (nu * w).reshape(len(w), 1, n_axes, *middle, *(1,) * views)
            factors = [1 / (of_nodes(tau)[:, None] * per_axis) for tau in (*(tau for tau, _ in sides), var)]
        else:
            factors = [1 / (tau[:, None] * nu * w) for tau in (*(tau for tau, _ in sides), var)]
        nu, ln_w = (t.reshape(-1, *(1,) * (dim - 1)) for t in (nu, w.log().sum(-1)))
        ln_scale = (m + n - 2) * ln_w
        for tau, k in sides:
            ln_scale = ln_scale + of_nodes((k - 1) * n_axes * tau.log())
        of_squares = student_law(nu, m + n - 2, ln_scale, n_axes)
        ln_scale = ln_scale + ln_w + of_nodes(n_axes * (var / (1 / m + 1 / n)).log())
        return ln_weights, factors, student_law(nu, m + n - 1, ln_scale, n_axes), of_squares

    def _shared(self, contrasts: Number, key: object = None) -> SharedTail:
        """The law of so many contrasts; where they differ, ``key`` tells which these are."""
        tails, w = self.tails, self.var_within

        def made() -> SharedTail:
            ln_within = w.log().sum((-1, -2))
            return SharedTail(tails.scatter_shape, tails.second_spike, ln_within, w.shape[-1], contrasts)

        return self._once(("shared", contrasts if key is None else key), made)

    def _once(self, key: object, make: Callable[[], T]) -> T:
        """What is made of the model's scalars alone, kept by its name; see `kept`."""
        if key not in self._made:
            with torch.inference_mode(False):
                self._made[key] = make()
        return cast(T, self._made[key])

    @cached_property
    def _made(self) -> dict[object, object]:
        return {}

    @kept
    def _rsqrt_within(self) -> Tensor:
        return self.var_within.rsqrt()

    @kept
    def _to_features(self) -> Tensor:
        """u_f/√w (run, axis, feature)."""
        return (self.directions * self._rsqrt_within).mT.contiguous()

    @cached_property
    def _offsets(self) -> Offsets:
        return Offsets(self.directions)

    def _along(self, points: Tensor) -> Tensor:
        """u_f · x/√w (run, …, feature)."""
        return (points.flatten(1, -2) @ self._to_features).reshape(*points.shape[:-1], self.directions.shape[1])


def _first(values: Tensor) -> Tensor:
    """Axes or features next to the runs (run, axis, …): operations on many pairs then go along the pairs."""
    return values.movedim(-1, 1).contiguous()


def _apart(x: Tensor, y: Tensor) -> Tensor:
    """x − y of items (run, …, axis), with the axes first."""
    x, y = _first(x), _first(y)
    return torch.sub(x, y, out=room(*np.broadcast_shapes(x.shape, y.shape)))


def _filled_up(scatter: Tensor, number: int, another: int) -> Tensor:
    """The scatter of so many instances (run, items, instance × axis), with their mean for those that others have more."""
    if number >= another:
        return scatter
    values = scatter.reshape(*scatter.shape[:2], number, scatter.shape[2] // number)
    return torch.cat([values, values.mean(2, keepdim=True).expand(-1, -1, another - number, -1)], 2).flatten(2)


def _ln(value: Number) -> Number:
    return value.log() if isinstance(value, Tensor) else math.log(value)


def _scaled(logarithm: Tensor, power: Tensor, constant: Tensor) -> Tensor:
    """power · logarithm + constant, in the place of the logarithm where no gradient needs it."""
    return (logarithm * power if logarithm.requires_grad or power.requires_grad else logarithm.mul_(power)).add_(
        constant
    )

r"""The robust model: a plain two-level law and a heavy-tailed one beside it, errors that say nothing, sources that are alike.

**LR₀** pools the plain law of `law`, in some `coordinates` j with weights w_j, and heavy-tailed PLDA, as densities are pooled,
p ∝ ∏ p_k^w_k, under each hypothesis; what is not believed of them, 1 − β, goes to a law that says nothing:

    ln LR₀ = β [(1 − η) Σ_j w_j ln LR_j + η ln LR_heavy],   ln LR₋ = β ln Σ_f LR₋f/p in the main coordinates of the plain law

**Errors and likeness.** With σ how often one feature of one of two measurements is wrong, ε how often an item is foreign, ρ how
often two sources are as alike as one is to itself, and ρ_v how often they are in all features but one,

    LR = [(1 − σ_MN − ε) LR₀ + σ_MN LR₋ + ε] / [1 − ρ − ρ_v + ρ LR₀ + ρ_v LR₋]

Both sides are mixtures of densities over that of two unrelated items. Errors of single measurements are independent, and all
M > 1 of an item may be wrong together: with s = σ/2p, an item has the share p s^M + σ_s/2 of σ_MN, or σ/2 where M is 1. Where
both have several, σ_MN is at most ρ_v, so that a clash that every replicate shows is no support.

**Some measurements wrong among several.** An item is seen as a whole, and without the first few or the last few measurements
along the direction that they scatter most in. The odds that these, R, are wrong and the others, K, right are those of the same
law by the difference of their means (`Law.ln_differences`); both sides of the LR are sums over what both are seen as.

    r = [s^|R| Σ_f LR₋f(R; K) + ε] / [(1 − σ − ε) LR₀(R; K)]

**Groups.** Different sources of one group are mates: they have ρ and ρ_v of their own, and may differ by j λ on every axis, for
some j. With μ how often H2 means a mate, the denominator is (1 − μ) that of others plus μ that of mates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.robust.law import TERMS, AllPairs, GivenPairs, Items, Law, Pairs, Seen
from lindley.models.robust.scalars import values_of
from lindley.models.two_level import TwoLevel, map_tensors

__all__ = ["APART", "WAYS", "Basis", "Ratios", "Robust", "Run", "View"]

APART = (0.02, 0.2)
"""j: how much mates may differ, in units of what sources do."""
WAYS = ("alike", "variant", *(f"apart {j}" for j in APART))
"""The ways in which two different sources may be related, each with its weight in `Robust.relatedness`."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates, and the known sources in them: tensors with a leading run dimension."""

    centre: Tensor  # (run, 1, feature)
    projection: Tensor  # (run, feature, axis), filled up with zeros
    var: Tensor  # λ (run, 1, axis)
    kernels: Tensor  # μ_j (run, kernel, axis), filled up with zeros
    known: Tensor  # how many of the kernels are sources (run, 1, 1)
    share: Tensor  # w_j (run, 1, 1)

    def of_run(self, run: int) -> Basis:
        """One run, without a run dimension and without what it was filled up with."""
        loads = self.projection[run].abs().sum(0) > 0
        kernels = self.kernels[run, : int(self.known[run]), loads]
        projection, var = self.projection[run][:, loads], self.var[run][:, loads]
        return Basis(self.centre[run], projection, var, kernels, self.known[run], self.share[run])


@dataclass(frozen=True, eq=False)
class Robust:
    """A robust model of every run."""

    bases: tuple[Basis, ...]  # the first is the main one
    beside: TwoLevel  # heavy-tailed PLDA
    scalars: Tensor  # in the form that is fitted, see `scalars.SCALARS` (run, scalar)
    relatedness: Tensor  # how often sources are related, of two groups and of one (run, 1 or 2, way)
    mates: Tensor  # μ, how often two different sources are of one group (run, 1, 1)

    uses_scatter: ClassVar[bool] = True
    has_axis_shares: ClassVar[bool] = False

    def map(self, function: Callable[[Tensor], Tensor]) -> Robust:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
        return map_tensors(self, function)

    @property
    def centre(self) -> Tensor:
        """A typical measurement (run, 1, feature)."""
        return self.bases[0].centre

    @property
    def projection(self) -> Tensor:
        """How features load on the main axes (run, feature, axis)."""
        return self.bases[0].projection

    @property
    def var_within_ref(self) -> Tensor:
        """Of one measurement on the main axes (run, 1, axis): the same for trace and ref."""
        return values_of(self.scalars)["scale"][:, None, None].expand_as(self.bases[0].var)

    var_within_trace = var_within_ref

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the main axes, (run, 1, axis) each."""
        return torch.zeros_like(self.bases[0].var), self.bases[0].var

    @property
    def knows_mates(self) -> bool:
        """Whether it was fitted on a table with groups, and tells sources of one group from those of two."""
        return self.relatedness.shape[1] == 2

    def under(self, mates: float) -> Robust:
        """The same model where the other source of H2 is of the same group with this probability."""
        return replace(self, mates=torch.full_like(self.mates, mates))

    def unrelated(self) -> Robust:
        """The same model for sources that have nothing in common: no LR has a ceiling then."""
        return replace(self, relatedness=torch.zeros_like(self.relatedness))

    @property
    def how_related(self) -> Tensor:
        """ρ_c of any two different sources (run, way)."""
        share = self.mates[:, 0]
        return (1 - share) * self.relatedness[:, 0] + share * self.relatedness[:, -1]

    @property
    def ln_ceiling(self) -> Tensor:
        """ln of the largest LR that the model can give, (run,): 1/ρ, or σ/ρ_v where wrong features are that frequent."""
        related = self.how_related
        return torch.maximum(-related[:, 0].log(), (values_of(self.scalars)["wrong"] / related[:, 1]).log())

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis), on the main axes."""
        return (values - self.centre) @ self.projection

    def scatter_of(self, instances: Tensor) -> Tensor:
        """How measurements (run, items, measurement, feature) lie around their mean, (run, items, …).

        In the features, one measurement after the other, and then as the heavy-tailed law wants it.
        """
        away = instances - instances.mean(2, keepdim=True)
        return torch.cat([away.flatten(2), self.beside.scatter_of(instances)], -1)

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature), (run, traces, refs).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` measurements, ``scatter`` how these lie around them
        (`scatter_of`); left out, nothing is known of it.
        """
        same, different = self._sides(AllPairs(), trace, ref, n_trace, n_ref, scatter)
        return same - different

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        same, different = self._sides(GivenPairs(), trace, ref, n_trace, n_ref, scatter)
        return same - different

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """A mixture has no LR of an axis by itself."""
        raise TypeError("the robust model does not factor over axes")

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity ln p(trace | ref, H1) and typicality ln p(trace | ref, H2) of all pairs, (run, traces, refs) each.

        Their difference is `ln_lr`. Typicality is the pool of both laws' densities of the trace by itself, each on its own axes
        or, where there are as many as features, in the features; under H2 the ref matters through relatedness alone.
        """
        same, different = self._sides(AllPairs(), trace, ref, n_trace, n_ref, scatter)
        alone = self._ln_alone(trace, n_trace, None if scatter is None else scatter.trace)[..., None]
        return same + alone, different + alone

    def _sides(
        self, pairs: Pairs, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> tuple[Tensor, Tensor]:
        """ln of numerator and denominator of the LR, (run, traces, refs) or (run, pairs)."""
        p, of_heavy, found = trace.shape[-1], scatter, []
        if scatter is not None:
            of_heavy = replace(scatter, trace=scatter.trace[..., n_trace * p :], ref=scatter.ref[..., n_ref * p :])
        score = self.beside.ln_lr if isinstance(pairs, AllPairs) else self.beside.ln_lr_given
        heavy = score(trace, ref, n_trace, n_ref, of_heavy)
        for number in range(len(self.centre)):
            run = Run.of(self, number)
            of_x, of_y = (None, None) if scatter is None else (scatter.trace[number], scatter.ref[number])
            x, y = run.views(trace[number], n_trace, of_x), run.views(ref[number], n_ref, of_y)
            found.append(run.ln_sides(x, y, heavy[number], pairs))
        same, different = zip(*found, strict=True)
        return torch.stack(same), torch.stack(different)

    def _ln_alone(self, trace: Tensor, number: int, scattered: Tensor | None) -> Tensor:
        """ln of the pooled density of traces by themselves (run, traces)."""
        heavy, of_heavy, plain = values_of(self.scalars)["heavy"][:, None], None, []
        for place in range(len(self.centre)):
            run = Run.of(self, place)
            law, basis = run.laws[0], run.bases[0]
            items = run.views(trace[place], number, None if scattered is None else scattered[place])[0].on(basis)
            found = law.see(items, without=False).ln_p[0] - 0.5 * len(law.var) * math.log(2 * math.pi)
            if len(law.var) == trace.shape[-1]:
                found = found + torch.linalg.slogdet(basis.projection).logabsdet
            plain.append(found)
        if scattered is not None:
            squares = scattered[..., number * trace.shape[-1] :]
            of_heavy = Scatter(squares, squares[:, :1], number - 1, number - 1)
        beside = self.beside.ln_parts(trace, trace[:, :1], number, number, of_heavy)[1][..., 0]
        return (1 - heavy) * torch.stack(plain) + heavy * beside


@dataclass(frozen=True, eq=False)
class View:
    """Items as they are seen: in the features, so many measurements of each."""

    mean: Tensor  # (items, feature)
    number: int
    away: Tensor | None  # of each measurement from the mean (items, measurement, feature)
    ln_share: Tensor  # ln of how probable it is that the item is to be seen so (items,)

    def on(self, basis: Basis) -> Items:
        """On the axes of a basis of one run."""
        squares = None if self.away is None else ((self.away @ basis.projection) ** 2).sum((-1, -2))
        return Items((self.mean - basis.centre) @ basis.projection, self.number, squares)

    def part(self, away: Tensor) -> View:
        """The same items of some of their measurements, as far from the mean of all (items, measurement, feature)."""
        middle = away.mean(1, keepdim=True)
        number = away.shape[1]
        return View(self.mean + middle[:, 0], number, away - middle if number > 1 else None, self.ln_share)


@dataclass(frozen=True, eq=False)
class Ratios:
    """What the laws of a run say of pairs, each ln of a ratio to the density of two unrelated items."""

    whole: Tensor  # ln LR of every basis (basis, …)
    left: Tensor  # ln of the mean of LR₋f by the main one (…)
    apart: Tensor  # of sources that are `APART`, by the main one (way, …); of no way, where that is never so


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a robust model: tensors without a run dimension."""

    bases: Sequence[Basis]
    shares: Tensor  # w_j (basis,)
    values: dict[str, Tensor]  # the scalars by name
    related: Tensor  # (way,)
    without: bool = True  # whether features are left out

    @classmethod
    def of(cls, model: Robust, run: int) -> Run:
        """One of the runs of a model."""
        bases = [each.of_run(run) for each in model.bases if float(each.share[run]) > 0]
        shares = torch.cat([each.share.flatten() for each in bases])
        return cls(bases, shares, values_of(model.scalars[run]), model.how_related[run])

    @cached_property
    def laws(self) -> list[Law]:
        """The plain law in the coordinates of each basis."""
        return [self._law(basis) for basis in self.bases]

    def _law(self, basis: Basis) -> Law:
        loadings = basis.projection.norm(dim=1, keepdim=True)
        loads = loadings[:, 0] > 0
        names = ("scale", "shape", "spread", "width", "weight", "shared")
        features = basis.projection[loads] / loadings[loads]
        return Law(basis.var[0], features, basis.kernels, *(self.values[name] for name in names))

    def views(self, mean: Tensor, number: int = 1, scattered: Tensor | None = None) -> list[View]:
        """What items (items, feature) are seen as: whole, and without some measurements.

        In the order in which they lie along the direction that they scatter most in, these are the first few or the last few.
        """
        n, p = mean.shape
        if number == 1 or scattered is None:
            return [View(mean, number, None, mean.new_zeros(n))]
        away = scattered[:, : number * p].reshape(n, number, p)
        on_axes = away @ self.bases[0].projection
        place = torch.linalg.eigh(on_axes @ on_axes.mT).eigenvectors[..., -1]
        ordered = away.take_along_dim(place.argsort(-1)[..., None], 1)
        whole = View(mean, number, away, mean.new_zeros(n))
        views, ln_odds = [whole], [mean.new_zeros(n)]
        for cut in range(1, number):
            parts = [whole.part(ordered[:, some]) for some in (slice(cut), slice(cut, None))]
            for wrong, right in (parts, parts[::-1]):
                views.append(right)
                ln_odds.append(self._ln_odds(wrong, right))
        ln_shares = torch.log_softmax(torch.stack(ln_odds), 0)
        return [replace(view, ln_share=ln_share) for view, ln_share in zip(views, ln_shares, strict=True)]

    def _ln_odds(self, wrong: View, right: View) -> Tensor:
        """ln r: the odds that these measurements of each item are wrong (items,)."""
        v, found = self.values, self.laws[0].ln_differences(wrong.on(self.bases[0]), right.on(self.bases[0]))
        whole, left = v["trust"] * found[0], v["trust"] * found[1:]
        ln_wrong = torch.logsumexp(left, 0) + wrong.number * (v["wrong"] / max(1, 2 * len(left))).log()
        return torch.logaddexp(ln_wrong, v["foreign"].log()) - (1 - v["wrong"] - v["foreign"]).log() - whole

    def see(self, view: View) -> list[Seen]:
        """By the law of every basis, by the main one without each feature as well."""
        laws = enumerate(zip(self.laws, self.bases, strict=True))
        return [law.see(view.on(basis), without=self.without and place == 0) for place, (law, basis) in laws]

    def ratios(self, x: Sequence[Seen], y: Sequence[Seen], pairs: Pairs) -> Ratios:
        """What every law says of pairs."""
        whole = [law.ln_ratio(a, b, pairs) for law, a, b in zip(self.laws, x, y, strict=True)]
        ways = APART if bool(self.related[2:].detach().sum() > 0) else ()
        apart = [self.laws[0].ln_ratio(x[0], y[0], pairs, j) for j in ways]
        left = self.laws[0].ln_mean_without(x[0], y[0], pairs) if self.without else torch.zeros_like(whole[0])
        return Ratios(torch.stack(whole), left, torch.stack([*apart, left])[: len(apart)])

    def ln_ways(self, ratios: Ratios, heavy: Tensor | None = None) -> Tensor:
        """ln of the density of pairs that are related in each of the `WAYS`, and of unrelated ones, over that of these.

        (way + 1, …). The first is ln LR₀, the second that of all features but one; ``heavy`` is ln LR of the heavy-tailed law.
        """
        plain = torch.tensordot(self.shares, ratios.whole, 1)
        pooled = plain if heavy is None else torch.lerp(plain, heavy, self.values["heavy"])
        of_pairs = self.values["trust"] * torch.stack([pooled, ratios.left, *ratios.apart])
        return torch.cat([of_pairs, torch.zeros_like(plain)[None]])

    def wrong(self, numbers: tuple[int, int], *, replicated: bool) -> Tensor:
        """σ_MN, how often all M or all N measurements are wrong in one feature; ``replicated``: both items have several."""
        v, p = self.values, max(1, len(self.laws[0].features))
        several = (v["steady"] / 2 + p * (v["wrong"] / (2 * p)) ** n for n in numbers if n > 1)
        found = sum(several, numbers.count(1) * v["wrong"] / 2)
        return torch.minimum(found, self.related[1]) if replicated else found

    def ln_mixtures(self, ln_ways: Tensor, numbers: tuple[int, int], *, replicated: bool) -> tuple[Tensor, Tensor]:
        """ln of numerator and denominator of the LR of pairs, of which M and N measurements are seen; as for `wrong`."""
        v, wrong = self.values, self.wrong(numbers, replicated=replicated)
        ln_wrong = torch.stack([1 - wrong - v["foreign"], wrong, v["foreign"]]).log()
        same = ln_ways[[0, 1, -1]] + ln_wrong.reshape(-1, *(1,) * (ln_ways.dim() - 1))
        related = self.related[: len(ln_ways) - 1]
        ln_often = torch.cat([related, (1 - related.sum())[None]]).log().reshape(-1, *(1,) * (ln_ways.dim() - 1))
        return torch.logsumexp(same, 0), torch.logsumexp(ln_often + ln_ways, 0)

    def ln_sides(self, x: list[View], y: list[View], heavy: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """ln of numerator and denominator, (traces, refs) or (pairs,): sums over what both are seen as."""
        replicated = min(x[0].number, y[0].number) > 1
        totals = heavy.new_full(heavy.shape, -math.inf), heavy.new_full(heavy.shape, -math.inf)
        seen_x, seen_y = ([(view, self.see(view)) for view in side] for side in (x, y))
        number = max(1, TERMS // (4 + len(self.laws[0].features)))
        for a, of_a in seen_x:
            for b, of_b in seen_y:
                # The heavy-tailed law sees items as a whole only.
                beside = heavy if a is x[0] and b is y[0] else None
                for rows, columns, at in pairs.blocks(a.ln_share, b.ln_share, number):
                    ratios = self.ratios([s.take(rows) for s in of_a], [s.take(columns) for s in of_b], pairs)
                    ways = self.ln_ways(ratios, None if beside is None else beside[at])
                    ways = ways + pairs.sum(a.ln_share[rows], b.ln_share[columns])
                    sides = self.ln_mixtures(ways, (a.number, b.number), replicated=replicated)
                    for total, side in zip(totals, sides, strict=True):
                        total[at] = torch.logaddexp(total[at], side)
        return totals

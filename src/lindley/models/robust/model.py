r"""The robust two-level model: feature-based LRs that need no calibration afterwards.

In the generalised eigenbasis of within and between covariances (`eigenbasis`) a trace is the mean x of M
instances and a ref the mean y of N. With f the law of source means (`population`), δ = x − y,
z = (M x + N y)/(M + N), g, c and s the laws of δ of `tails`, and w the variance
within of one instance,

    p(x, y | H1) = (1 − ε_M − ε_N − ½ε − σ_M − σ_N) Σ_q ω_q g_q(δ) f_q(z) + ½ε c_both(δ) f_5(z)
                   + [ε_M c_trace(δ) + σ_M s_trace(δ)] f(y) + [ε_N c_ref(δ) + σ_N s_ref(δ)] f(x)
    p(x, y | H2) = (1 − ρ) p(x) p(y)
                   + ρ (1 − ψ) ¼ [p(x, y | H1) + Σ_j ∏ t_ν(δ; v + 2 j γ λ) f(z)] + ρ ψ s(δ) ½ [f(x) + f(y)]
    p(x) = (1 − ε_M − ½ε − σ_M) f(x) + (ε_M + ½ε) Σ_s ¼ ∏_axis t_ν(x; λ + 2 s w / M)
           + σ_M Σ_f Σ_k N(x; 0, 4 λ + w/M + 2 k (w/M²) u_f u_fᵀ) / 2p

with ε_M = 1 − (1 − ε/4)^M and σ_M = 1 − (1 − σ/2)^M. The last term of p(x) is the narrowest part of f's background, 4 λ, moved
by a spike in one of the p features (u_f and k as in `tails`). An instance is contaminated with the probability
ε/4, all of a pair's with ½ε, and an instance has a spike with σ/2. f_q is the law of sources seen with the normal error of its
argument, for a source that scatters with τ_q (f_5 with the largest of five), and f = Σ_q ω_q f_q.

f_q(z) g_q(δ) is exact for normal replicates, where mean and difference are independent. With a scatter of its own on every axis
it is an approximation that is good where sources differ by more than their replicates do: with var_between/var_within = 10, 100
and 1000 on each of four axes, ln LR was off by 0.15, 0.02 and 0.003 in the mean, for one instance against one and for more.
Contaminated instances are taken to be rare, and are not looked for among those that a mean was taken of.

The terms with ρ say that the two sources of H2 may be of one batch (*relatedness*, the cousin of the θ-correction of forensic
DNA). They may be as alike as one source is to itself, differ a little on all axes, or in a feature or two (ψ). The first of
these bounds the LR, from data: LR ≤ 4/(ρ (1 − ψ)), however rare the features and however poor the model far from all sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.blocks import at_a_time, pieces, side_by_side
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.population import BACKGROUND, Population
from lindley.models.robust.tails import (
    BATCH_SCALES,
    CONTAMINATION_SCALES,
    LN_SCATTER,
    Differences,
    Tails,
    ln_scatter_weights,
    ln_spiked,
    ln_spikes,
    ln_student,
    ln_sum,
)
from lindley.models.two_level import map_tensors, take_runs

__all__ = ["Robust"]

BLOCK = 1 << 18
"""Pairs × features computed at a time: many enough for what belongs to an item alone to be little, few enough for the cache."""
OUTER = len(LN_SCATTER) << 18
"""Pairs × scatters whose kernels are summed over at a time: 512 traces and 512 refs."""
Result = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of ln p(x, y | H1), ln p(x, y | H2) and ln p(y)."""
MOST = 0.9
"""Share of sets of instances that are contaminated, at most, by however many instances there are."""


@dataclass(frozen=True, eq=False)
class Robust:
    """A robust model of every run: plain tensors with a leading run dimension."""

    stabiliser: Stabiliser
    centre: Tensor  # of stabilised features (run, 1, feature)
    projection: Tensor  # (run, feature, axis); axes with the largest λ first
    var_within: Tensor  # of one instance (run, 1, axis)
    directions: Tensor  # u_f, of the features (run, feature, axis)
    population: Population
    tails: Tails

    def map(self, function: Callable[[Tensor], Tensor]) -> Robust:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
        return map_tensors(self, function)

    uses_scatter: ClassVar[bool] = False
    has_axis_shares: ClassVar[bool] = True

    @property
    def var_within_trace(self) -> Tensor:
        """Of one instance (run, 1, axis); the same for trace and ref."""
        return self.var_within

    @property
    def var_within_ref(self) -> Tensor:
        """Of one instance (run, 1, axis)."""
        return self.var_within

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the axes, (run, 1, axis) each."""
        return torch.zeros_like(self.population.var), self.population.var

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis)."""
        return (self.stabiliser(values) - self.centre) @ self.projection

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature), (run, traces, refs).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances.
        """
        return self._all_pairs(trace, ref, n_trace, n_ref, lambda h1, h2, at_ref: h1 - h2)

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity ln p(trace | ref, H1) and typicality ln p(trace | ref, H2) of all pairs, (run, traces, refs) each.

        Densities of the (mean) trace in the features that go into the model: ln |det| of the projection and of the
        stabiliser takes them there from the axes. Their difference is `ln_lr`; under H2 the ref matters through
        relatedness alone.
        """
        similarity, typicality = self.ln_parts_on_axes(trace, ref, n_trace, n_ref)
        if self.projection.shape[-1] != self.projection.shape[-2]:
            return similarity, typicality
        determinant = torch.linalg.slogdet(self.projection).logabsdet[:, None]
        jacobian = (determinant + self.stabiliser.ln_slope(trace).sum(-1))[..., None]
        return similarity + jacobian, typicality + jacobian

    def ln_parts_on_axes(self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1) -> tuple[Tensor, Tensor]:
        """Similarity and typicality of all pairs as densities on the axes, (run, traces, refs) each."""
        both = self._all_pairs(
            trace, ref, n_trace, n_ref, lambda h1, h2, at_ref: torch.stack([h1 - at_ref, h2 - at_ref], -1)
        )
        return both[..., 0], both[..., 1]

    def _all_pairs(self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, result: Result) -> Tensor:
        runs = []
        for run in range(len(self.centre)):
            one = take_runs(self, [run])
            x, y = one.project(trace[run : run + 1]), one.project(ref[run : run + 1])
            runs.append(_AllPairs(one, x, y, n_trace, n_ref)(result))
        return torch.cat(runs)

    def _at(self, points: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """ln f and ln p at means of ``number`` instances (run, points, axis), (run, points) each."""
        ln_f = self.tails.ln_seen(
            [self.population.ln_density(points, math.exp(u) * self.var_within / number) for u in LN_SCATTER]
        )
        return ln_f, self.ln_single(points, ln_f, number)

    def ln_pair(
        self,
        differences: Differences,
        n_trace: int,
        n_ref: int,
        ln_f: tuple[Sequence[Tensor], Tensor, Tensor],
        ln_p: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """ln p(x, y | H1) and ln p(x, y | H2) of pairs of any arrangement, of M = ``n_trace`` and N = ``n_ref`` instances.

        ``ln_f`` has ln f_q(z) for every scatter, ln f(x) and ln f(y), and ``ln_p`` has ln p(x) and ln p(y): each broadcasts to
        (run, …).
        """
        at_means, at_trace, at_ref = ln_f
        tails, var_within = self.tails, self.var_within
        together = 1 / n_trace + 1 / n_ref
        v = var_within * together
        alone = n_trace == n_ref == 1
        scales = [v * math.exp(u) for u in LN_SCATTER] + [v * s for s in CONTAMINATION_SCALES]
        if not alone:
            scales += [v + 2 * (s - 1) * var_within / n_trace**2 for s in CONTAMINATION_SCALES]
            scales += [v + 2 * (s - 1) * var_within / n_ref**2 for s in CONTAMINATION_SCALES]
        scales += [v + 2 * s * tails.batch_var * self.population.var for s in BATCH_SCALES]
        terms = ln_student(differences.squares(), torch.cat(scales, 1), tails.nu)

        shape = (-1, *(1,) * (terms[0].dim() - 1))
        n, k = len(LN_SCATTER), len(CONTAMINATION_SCALES)
        ln_scatter = ln_scatter_weights(tails.scatter_shape)
        clean = ln_sum([ln_scatter[:, q].reshape(shape) + terms[q] + at_means[q] for q in range(n)])
        at_mean = tails.ln_seen(at_means)
        both = ln_sum(terms[n : n + k])
        trace = ref = both
        if not alone:
            trace, ref = ln_sum(terms[n + k : n + 2 * k]), ln_sum(terms[n + 2 * k : n + 3 * k])
        eps, rho, psi = (t.reshape(shape) for t in (tails.contamination, tails.relatedness, tails.variants))
        (eps_trace, spike_trace), (eps_ref, spike_ref) = (
            (e.reshape(shape), s.reshape(shape)) for e, s in (tails.off(n_trace), tails.off(n_ref))
        )
        off = eps_trace + eps_ref + eps / 2 + spike_trace + spike_ref
        ln_h1 = ln_sum(
            [
                torch.log1p(-off.clamp_max(MOST)) + clean,
                at_means[-1] + (eps / 2 / k).log() + both,
                at_ref + (eps_trace / k).log() + trace,
                at_trace + (eps_ref / k).log() + ref,
            ]
        )
        ln_apart = torch.log1p(-rho) + ln_p[0] + ln_p[1]

        def spikes(strength: float) -> Tensor:
            return ln_spikes(differences, together, self.directions, strength, tails.scatter_shape, tails.second_spike)

        spiked = spiked_trace = spiked_ref = spikes(2 / together)
        if not alone:
            spiked_trace, spiked_ref = (spikes(2 / (number**2 * together)) for number in (n_trace, n_ref))
        ln_h1 = ln_sum([ln_h1, at_ref + spike_trace.log() + spiked_trace, at_trace + spike_ref.log() + spiked_ref])
        batch = ln_sum(terms[-len(BATCH_SCALES) :])
        alike = torch.logaddexp(ln_h1, at_mean + batch) - math.log(1 + len(BATCH_SCALES))
        variant = torch.logaddexp(at_trace, at_ref) + spiked
        mates = torch.logaddexp(torch.log1p(-psi) + alike, (psi / 2).log() + variant)
        return ln_h1, torch.logaddexp(ln_apart, rho.log() + mates)

    def ln_single(self, points: Tensor, ln_f: Tensor, number: int) -> Tensor:
        """ln p(x) of means of ``number`` instances (run, points, axis), from ln f(x) (run, points)."""
        tails, var_within, var_between = self.tails, self.var_within, self.population.var
        scales = torch.cat([var_between + 2 * s * var_within / number for s in CONTAMINATION_SCALES], 1)
        far = ln_sum(ln_student((points**2).unbind(-1), scales, tails.nu))
        broad = BACKGROUND[0][1] * var_between + var_within / number
        spiked = ln_spiked(points, broad, self.directions * var_within.sqrt(), 2 / number**2)
        eps, spike = (t[..., 0] for t in tails.off(number))
        eps = (eps + tails.contamination[..., 0] / 2).clamp_max(MOST)
        clean = torch.log1p(-(eps + spike).clamp_max(MOST))
        return ln_sum([clean + ln_f, (eps / len(CONTAMINATION_SCALES)).log() + far, spike.log() + spiked])

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        x, y = self.project(trace), self.project(ref)
        z = (n_trace * x + n_ref * y) / (n_trace + n_ref)
        (ln_fx, ln_px), (ln_fy, ln_py) = self._at(x, n_trace), self._at(y, n_ref)
        ln_fz = [self.population.ln_density(z, math.exp(u) * self.var_within / (n_trace + n_ref)) for u in LN_SCATTER]
        differences = Differences.of_given(x, y, self.directions, self.var_within)
        h1, h2 = self.ln_pair(differences, n_trace, n_ref, (ln_fz, ln_fx, ln_fy), (ln_px, ln_py))
        return h1 - h2

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """What every axis adds to the ln LR of given pairs, (run, pairs, axis): the shares sum to the ln LR.

        The model of some axes is the model with the other axes integrated out. So with LR_k of the first k axes, the share
        ln LR_k − ln LR_{k−1} is the ln LR of axis k given those before it, the ones that separate sources better.
        """
        total = torch.stack([m.ln_lr_given(trace, ref, n_trace, n_ref) for m in self._leading()], -1)
        return torch.diff(total, dim=-1, prepend=torch.zeros_like(total[..., :1]))

    def _leading(self) -> Iterator[Robust]:
        """The models of the first axis, of the first two, and so on."""
        for k in range(1, self.projection.shape[-1] + 1):
            own = {name: getattr(self, name)[..., :k] for name in ("projection", "var_within", "directions")}
            centres, var = self.population.centres[..., :k], self.population.var[..., :k]
            yield replace(self, **own, population=replace(self.population, centres=centres, var=var))


class _AllPairs:
    """All pairs of x (1, traces, axis) and y (1, refs, axis), on the axes of a model of one run.

    Kernels are summed over in large blocks, where what belongs to an item alone is little; the rest is done in small ones.
    """

    def __init__(self, model: Robust, x: Tensor, y: Tensor, n_trace: int, n_ref: int) -> None:
        self.model, self.x, self.y, self.n_trace, self.n_ref = model, x, y, n_trace, n_ref
        self.at_x, self.at_y = model._at(x, n_trace), model._at(y, n_ref)
        self.differences = Differences.of_all(x, y, model.directions, model.var_within)
        self.edge = math.isqrt(at_a_time(BLOCK, x) // model.directions.shape[1])
        self.outer_edge = math.isqrt(at_a_time(OUTER, x) // len(LN_SCATTER))

    def __call__(self, result: Result) -> Tensor:
        """(1, traces, refs, …)."""
        rows, columns = (pieces(side.shape[1], self.outer_edge) for side in (self.x, self.y))
        return torch.cat([torch.cat([self._outer(i, j, result) for j in columns], 2) for i in rows], 1)

    def _outer(self, rows: slice, columns: slice, result: Result) -> Tensor:
        ln_fz = self._at_means(self.x[:, rows], self.y[:, columns])
        differences = self.differences.block(rows, columns)
        ln_fx, ln_px = (t[:, rows, None] for t in self.at_x)
        ln_fy, ln_py = (t[:, None, columns] for t in self.at_y)

        def inner(tile: tuple[slice, slice]) -> Tensor:
            i, j = tile
            ln_f = [t[:, i, j] for t in ln_fz], ln_fx[:, i], ln_fy[:, :, j]
            ln_p = ln_px[:, i], ln_py[:, :, j]
            h1, h2 = self.model.ln_pair(differences.block(i, j), self.n_trace, self.n_ref, ln_f, ln_p)
            return result(h1, h2, ln_p[1])

        across = pieces(ln_fy.shape[2], self.edge)
        down = pieces(ln_fx.shape[1], self.edge)
        tiles = side_by_side(inner, [(i, j) for i in down for j in across], self.x)
        n = len(across)
        return torch.cat([torch.cat(tiles[i * n : (i + 1) * n], 2) for i in range(len(down))], 1)

    def _at_means(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """ln f_q(z) of all pairs for every scatter, (1, traces, refs) each."""
        number, of = self.n_trace + self.n_ref, self.model

        def at(u: float) -> Tensor:
            error = math.exp(u) * of.var_within / number
            return of.population.ln_density_between(x, y, self.n_trace / number, error)

        return side_by_side(at, LN_SCATTER, x)

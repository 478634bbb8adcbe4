"""One case: the LR, what it is made of, and how sure it is.

The log10 LR is the difference of similarity, log10 p(trace | ref, same source), and typicality, log10 p(trace | another
source). What each feature contributes is told along a path. Let c be the centre of the population, m the midpoint of trace
and ref, δ = trace − ref their difference. Then

    LLR(trace, ref) = LLR(c, c)                              two identical measurements at the centre: the *match*
                    + [LLR(m, m) − LLR(c, c)]                how much rarer the midpoint is: *rarity*
                    + [LLR(m + δ/2, m − δ/2) − LLR(m, m)]    how far trace and ref are apart: *difference*

and the last two are integrals of the gradient along a straight line, so that each feature, or each axis, has its part of
them (Aumann and Shapley; "integrated gradients"). The match is shared out in proportion to how well a feature on its own
tells sources apart, ½ log10(1 + between/within variance). Where the model factors over axes, the LLR of an axis is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import stdtrit

from lindley.llrs import LN10, Floats
from lindley.models.between import Scatter
from lindley.models.robust.law import GivenPairs
from lindley.models.robust.model import WAYS, Robust, Run
from lindley.models.two_level import PairModel, item_scatter, score
from lindley.system.storage import require_finite
from lindley.system.system import System
from lindley.table.splits import Side

__all__ = ["AxisShare", "ByGroup", "Explanation", "FeatureShare", "Interval", "Relatedness", "explain", "interval"]

LEVEL = 0.9
PATH_NODES = 48


@dataclass(frozen=True)
class Interval:
    """How far the log10 LR depends on which sources were there to learn from, by replicates of the system."""

    level: float
    lower: float
    upper: float
    replicates: int
    how: str  # it was made of the replicates; records of older versions have other intervals, and do not say how


@dataclass(frozen=True)
class FeatureShare:
    """A feature's part of the log10 LR: match + rarity + difference; the parts of all features sum to it."""

    feature: str
    unit: str | None
    log10_lr: float
    match: float
    rarity: float
    difference: float
    trace: float  # mean, as transformed
    ref: float
    trace_percentile: float  # share of the training sources below it, 0 to 100
    ref_percentile: float


@dataclass(frozen=True)
class AxisShare:
    """An axis' part of the log10 LR, and the features that weigh most in it; the parts of all axes sum to it."""

    axis: int
    log10_lr: float
    features: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ByGroup:
    """The log10 LR, within the bounds, if the other source would be of another group, or of the same; and how it was meant."""

    other_group: float
    same_group: float
    share: float  # how often it would be of the same group, as the LR that is reported has it


@dataclass(frozen=True)
class Relatedness:
    """What it does to the LR that two different sources may be related, as two windows of one production batch are."""

    log10_typicality: float  # of the trace, if it comes from a source that has nothing to do with that of the ref
    log10_raised: float  # by so much related sources raise it: the reported typicality is the sum
    share: float  # of the typicality that comes from related sources, 0 to 1
    log10_ceiling: float  # the largest LR that this system can give to any two items
    alike: float  # how often two different sources are as alike as one is to itself
    but_one: AllButOne


@dataclass(frozen=True)
class AllButOne:
    """What it does to the LR that two different sources may agree in all features but one, and that one may be wrong."""

    feature: str  # without which trace and reference agree best
    log10_lr: float  # of the other features, nothing being wrong and no sources alike
    share: float  # of the typicality that comes from sources which agree in all features but one, 0 to 1
    alike: float  # how often two different sources do
    wrong: float  # how often a feature is wrong in comparisons of so many measurements


@dataclass(frozen=True)
class Explanation:
    """All that can be said about one trace and one ref."""

    log10_lr: float  # after the post-hoc calibration, where the system has one
    log10_lr_bounded: float
    log10_lr_model: float  # before it: similarity − typicality
    log10_similarity: float
    log10_typicality: float
    bounds: tuple[float, float]
    bounds_of: tuple[int, int]  # trace and ref measurements of the validation pairs that the bounds come from
    interval: Interval | None
    axes: tuple[AxisShare, ...]
    features: tuple[FeatureShare, ...]
    n_trace: int
    n_ref: int
    calibrated: bool
    as_near: int  # training sources with which the trace agrees at least as well as with the ref
    by_group: ByGroup | None = None  # where the model tells sources of one group from others, and nothing is calibrated
    relatedness: Relatedness | None = None  # where the model knows of related sources


def explain(system: System, trace: Side, ref: Side) -> Explanation:
    """Explain the LR of one trace and one ref, given as the system's `side` makes them: transformed, not standardised."""
    pair = _Pair.of(system.point, system.prepared(trace), system.prepared(ref))
    with torch.inference_mode():
        similarity, typicality = (float(t.reshape(())) / LN10 for t in pair.ln_parts())
    raw = system.llr_sides(trace, ref) if not system.calibration.steps else None
    modelled = float(raw[0, 0]) if raw is not None else float(similarity - typicality)
    llr = modelled if raw is not None else float(system.calibrated(np.array([modelled]))[0])
    require_finite(np.array([llr, modelled, similarity, typicality]))
    bounds, bounds_of = system.bounds_for(pair.n_trace, pair.n_ref)
    path = _path(system, pair)
    return Explanation(
        log10_lr=llr,
        log10_lr_bounded=float(np.clip(llr, *bounds)),
        log10_lr_model=modelled,
        log10_similarity=similarity,
        log10_typicality=typicality,
        bounds=bounds,
        bounds_of=bounds_of,
        interval=interval(llr, system.llr_replicates(trace, ref)),
        axes=_axes(system, pair, path, modelled),
        features=_features(system, (trace, ref), path, modelled),
        n_trace=int(trace.count[0]),
        n_ref=int(ref.count[0]),
        calibrated=bool(system.calibration.steps),
        as_near=_as_near(system, pair, similarity),
        relatedness=_relatedness(system, pair, typicality),
        by_group=_by_group(system, trace, ref, bounds),
    )


def _as_near(system: System, pair: _Pair, similarity: float) -> int:
    """Training sources in whose place of the ref the trace would be as probable under H1, or more."""
    known = torch.from_numpy(_known(system))[None]
    scatter = pair.scatter(1)
    if scatter is not None:
        scatter = replace(scatter, ref=scatter.ref.new_zeros((1, known.shape[1], scatter.ref.shape[-1])))
    with torch.inference_mode():
        parts, _ = pair.model.ln_parts(pair.x[None, None], known, pair.n_trace, pair.n_ref, scatter)
    return int((parts.numpy() / LN10 >= similarity).sum())


def _relatedness(system: System, pair: _Pair, typicality: float) -> Relatedness | None:
    model = pair.model
    if not isinstance(model, Robust):
        return None
    others = torch.tensor([way != "variant" for way in WAYS]).to(model.relatedness)
    with torch.inference_mode():
        without = (model.unrelated(), replace(model, relatedness=model.relatedness * others))
        alone, but_for = (float(replace(pair, model=each).ln_parts()[1].reshape(())) / LN10 for each in without)
        related, run = model.how_related[0], Run.of(model, 0)
        scattered = (None, None) if pair.scattered is None else (each[None] for each in pair.scattered)
        sides = zip((pair.x, pair.y), (pair.n_trace, pair.n_ref), scattered, strict=True)
        x, y = (run.see(run.views(mean[None], number, of_side)[0]) for mean, number, of_side in sides)
        left = run.values["trust"] * run.laws[0].ln_ratios_without(x[0], y[0], GivenPairs())[:, 0] / LN10
        wrong = run.wrong((pair.n_trace, pair.n_ref), replicated=min(pair.n_trace, pair.n_ref) > 1)
    named = [
        name for name, loads in zip(system.features, run.bases[0].projection.abs().sum(1) > 0, strict=True) if loads
    ]
    raised = typicality - alone
    share = float(np.clip(1 - float(1 - related.sum()) * 10.0**-raised, 0.0, 1.0))
    of_but_one = 1 - 10.0 ** (but_for - typicality) + float(related[1]) * 10.0**-raised
    best = int(left.argmax())
    but_one = AllButOne(
        named[best], float(left[best]), float(np.clip(of_but_one, 0.0, share)), float(related[1]), float(wrong)
    )
    return Relatedness(alone, raised, share, float(model.ln_ceiling) / LN10, float(related[0]), but_one)


def _by_group(system: System, trace: Side, ref: Side, bounds: tuple[float, float]) -> ByGroup | None:
    model = system.point
    if not isinstance(model, Robust) or not model.knows_mates or system.calibration.steps:
        return None
    sides = [system.prepared(trace)], [system.prepared(ref)]
    other, same = (float(np.clip(score(model.under(m), *sides)[0][0, 0], *bounds)) for m in (0.0, 1.0))
    return ByGroup(other, same, float(model.mates))


@dataclass(frozen=True, eq=False)
class _Pair:
    """One trace and one ref, ready to be moved about: everything but their means stays as it is."""

    model: PairModel
    x: torch.Tensor  # (feature,), standardised
    y: torch.Tensor
    n_trace: int
    n_ref: int
    scattered: tuple[torch.Tensor, torch.Tensor] | None  # how the instances of each lie around their mean

    @classmethod
    def of(cls, model: PairModel, trace: Side, ref: Side) -> _Pair:
        n_trace, n_ref = int(trace.count[0]), int(ref.count[0])
        scattered = None
        if model.uses_scatter and n_trace + n_ref > 2:
            scattered = item_scatter(model, trace, np.arange(1))[0], item_scatter(model, ref, np.arange(1))[0]
        x, y = (torch.from_numpy(side.mean[0].copy()) for side in (trace, ref))
        return cls(model, x, y, n_trace, n_ref, scattered)

    def scatter(self, n: int) -> Scatter | None:
        """The scatter of n copies of the pair."""
        if self.scattered is None:
            return None
        of_x, of_y = (t.expand(1, n, -1) for t in self.scattered)
        return Scatter(of_x, of_y, self.n_trace - 1, self.n_ref - 1)

    def ln_parts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Similarity and typicality, in the units of the standardised features."""
        return self.model.ln_parts(self.x[None, None], self.y[None, None], self.n_trace, self.n_ref, self.scatter(1))

    def ln_lr(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """ln LR with other means (points, feature) in place of its own."""
        return self.model.ln_lr_given(x[None], y[None], self.n_trace, self.n_ref, self.scatter(len(x)))[0]

    def gradients(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Floats, Floats]:
        """∂ ln LR/∂x and ∂ ln LR/∂y at several points (points, feature)."""
        x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
        of_x, of_y = torch.autograd.grad(self.ln_lr(x, y).sum(), (x, y))
        return of_x.numpy(), of_y.numpy()


@dataclass(frozen=True, eq=False)
class _Path:
    """From two identical measurements at the centre of the population to the pair, in log10."""

    match: float  # LLR(c, c)
    at_middle: float  # LLR(m, m)
    rarity: Floats  # mean gradient from the centre to the midpoint (feature,)
    to_middle: Floats  # m − c
    difference: Floats  # mean gradient from the midpoint to the pair
    half: Floats  # δ/2


def _path(system: System, pair: _Pair) -> _Path:
    centre = torch.from_numpy(_known(system).mean(axis=0))
    middle, half = (pair.x + pair.y) / 2, (pair.x - pair.y) / 2
    nodes, weights = np.polynomial.legendre.leggauss(PATH_NODES)
    t = torch.from_numpy((nodes + 1) / 2)[:, None]
    w = (weights / 2)[:, None]
    to_middle = centre + t * (middle - centre)
    of_x, of_y = pair.gradients(to_middle, to_middle)
    rarity = (w * (of_x + of_y)).sum(axis=0) / LN10
    of_x, of_y = pair.gradients(middle + t * half, middle - t * half)
    difference = (w * (of_x - of_y)).sum(axis=0) / LN10
    with torch.inference_mode():
        match, at_middle = (float(v) / LN10 for v in pair.ln_lr(*(torch.stack([centre, middle]),) * 2))
    return _Path(match, at_middle, rarity, (middle - centre).numpy(), difference, half.numpy())


def _summing_to(parts: Floats, total: float) -> Floats:
    """Parts corrected for the error of the quadrature, in proportion to their sizes."""
    error = total - parts.sum()
    size = np.abs(parts).sum()
    share = np.abs(parts) / size if size > 0 else np.full(len(parts), 1 / len(parts))
    return np.asarray(parts + error * share)


def _known(system: System) -> Floats:
    """The means of the training sources as the model sees them (sources, feature)."""
    return system.prepare(system.scaling.undo(system.population.means))


def _features(system: System, sides: tuple[Side, Side], path: _Path, modelled: float) -> tuple[FeatureShare, ...]:
    rarity = _summing_to(path.rarity * path.to_middle, path.at_middle - path.match)
    difference = _summing_to(path.difference * path.half, modelled - path.at_middle)
    information = system.population.match_information + 1e-12
    matched = path.match * information / information.sum()
    means = system.population.means
    raw = [side.mean[0] for side in sides]
    percentiles = [100 * (means < system.scaling(values)).mean(axis=0) for values in raw]
    # in the order of the fields: the share and its three parts, the values, the percentiles
    columns = np.stack([matched + rarity + difference, matched, rarity, difference, *raw, *percentiles], axis=1)
    named = zip(system.features, system.units, columns.tolist(), strict=True)
    return tuple(FeatureShare(feature, unit, *numbers) for feature, unit, numbers in named)


def _axes(system: System, pair: _Pair, path: _Path, modelled: float) -> tuple[AxisShare, ...]:
    projection, var = pair.model.projection[0], pair.model.var_within_ref[0, 0]
    loads = projection.abs().sum(0) > 0  # a run may have fewer axes than another
    projection, var = projection[:, loads], var[loads]
    if pair.model.has_axis_shares:
        with torch.inference_mode():
            means = pair.x[None, None], pair.y[None, None]
            shares = pair.model.ln_lr_pairs(*means, pair.n_trace, pair.n_ref, pair.scatter(1))[0, 0].numpy() / LN10
    else:
        # On axes z = x P a gradient is P⁻¹ that in the features, and a displacement is that in the features times P.
        back, forth = torch.linalg.pinv(projection).numpy(), projection.numpy()
        along = (back @ path.rarity) * (path.to_middle @ forth) + (back @ path.difference) * (path.half @ forth)
        spread = np.var(_known(system) @ forth, axis=0, ddof=1)
        information = np.log1p(spread / var.numpy())
        shares = _summing_to(along, modelled - path.match) + path.match * information / information.sum()
    loadings = projection.numpy() / np.linalg.norm(projection.numpy(), axis=0)
    return tuple(
        AxisShare(
            axis,
            float(share),
            tuple((system.features[k], float(loadings[k, axis])) for k in np.argsort(-np.abs(loadings[:, axis]))[:3]),
        )
        for axis, share in enumerate(shares)
    )


def interval(llr: float, replicates: Floats) -> Interval | None:
    """Student's interval of an LLR from those of R replicates; nothing if there are fewer than two.

    With t the quantile of Student's law of R degrees of freedom,

        LLR ± t √(Σ_r (LLR_r − LLR)² / R).

    It holds its level with few replicates, where their own quantiles are far too narrow; and as they are measured from the LR
    and not from their mean, it knows of an LR that shifts when there are fewer sources.
    """
    if len(replicates) < 2:
        return None
    half = float(stdtrit(len(replicates), (1 + LEVEL) / 2) * np.sqrt(np.mean((replicates - llr) ** 2)))
    return Interval(LEVEL, llr - half, llr + half, len(replicates), "student")

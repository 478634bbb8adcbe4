"""The data of the pictures of a case, apart from their drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lindley.llrs import Floats
from lindley.pages.numerals import log_ticks, nice_ticks, tick_label

if TYPE_CHECKING:
    from lindley.casework.case import Case
    from lindley.casework.explanation import FeatureShare

__all__ = ["Limits", "ScaleFigure", "ScatterFigure", "Strip", "scale_figure", "scatter_figure", "strips"]

Limits = tuple[float, float]
GRID = 160
HILL_SHARE = 0.005
"""The share of training sources at either end that a strip may leave out of sight."""
RING_95 = math.sqrt(-2 * math.log(0.05))
"""Radius, in standard deviations, of the circle that holds 95 % of a normal law in two dimensions."""
SCALE_EDGE = 7.0
"""The log10 LR up to which the picture of the LR goes, at most: beyond it an arrow points on."""
NEAR_SHARE = 0.5
"""The share of the population above which a picture of the neighbourhood would show nothing new."""


@dataclass(frozen=True, eq=False)
class Strip:
    """One feature: how the training sources are spread, and where trace and ref are."""

    share: FeatureShare
    limits: Limits
    hill: Floats  # (points, 2): value, and density from 0 to 1
    trace: Floats  # instances
    ref: Floats
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, eq=False)
class ScatterFigure:
    """The two axes that tell sources apart best, in standard deviations of a measurement."""

    axes: tuple[tuple[int, str], tuple[int, str]]  # number of the axis, and its heaviest features
    sources: Floats  # (sources, 2)
    trace: Floats  # (instances, 2)
    ref: Floats

    @property
    def ref_mean(self) -> Floats:
        """The middle of the circle."""
        return np.asarray(self.ref.mean(axis=0))

    @property
    def ring(self) -> float:
        """Radius within which 95 % of further measurements lie around the mean of N: that mean is uncertain too."""
        return RING_95 * math.sqrt(1 + 1 / len(self.ref))

    @property
    def near(self) -> tuple[Limits, Limits] | None:
        """A square around trace and ref, where it shows much more than the whole does."""
        both = np.concatenate([self.trace, self.ref, [self.ref_mean + self.ring, self.ref_mean - self.ring]])
        low, high = both.min(axis=0), both.max(axis=0)
        middle, half = (low + high) / 2, 0.6 * float((high - low).max())
        if 2 * half > NEAR_SHARE * float(np.ptp(self.sources, axis=0).min()):
            return None
        return (middle[0] - half, middle[0] + half), (middle[1] - half, middle[1] + half)


@dataclass(frozen=True)
class ScaleFigure:
    """The LR on its scale."""

    limits: Limits
    steps: tuple[float, ...]  # edges of the verbal scale (log10), increasing
    band: Limits  # of the reported LR
    words: str
    raw: float
    bounded: float
    bounds: Limits
    interval: Limits | None

    @property
    def raw_visible(self) -> bool:
        """Whether the calculated LR is in the picture."""
        return self.limits[0] <= self.raw <= self.limits[1]

    @property
    def interval_visible(self) -> bool:
        """Whether any of the interval is in the picture."""
        return self.interval is not None and self.interval[1] > self.limits[0] and self.interval[0] < self.limits[1]


def strips(case: Case) -> list[Strip]:
    """One strip for every feature, in the units of the measurements; on a log scale where the system takes logs."""
    system, means = case.system, case.system.population.means
    raw = system.scaling.undo(means)
    found = []
    for k, share in enumerate(case.explanation.features):
        trace, ref = (evidence.items.values[:, k] for evidence in (case.trace, case.ref))
        low, high = np.quantile(raw[:, k], [HILL_SHARE, 1 - HILL_SHARE])
        low, high = min(low, trace.min(), ref.min()), max(high, trace.max(), ref.max())
        margin = 0.04 * (high - low) or 1.0
        limits = (float(low - margin), float(high + margin))
        ticks = tuple(_ticks(limits, system.transform, case.language))
        found.append(Strip(share, limits, _hill(raw[:, k], limits), trace, ref, ticks))
    return found


def _hill(values: Floats, limits: Limits) -> Floats:
    """A kernel density with Silverman's width, scaled to 1."""
    spread = min(values.std(ddof=1), float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.349) or values.std()
    width = max(0.9 * spread * len(values) ** -0.2, 1e-12 + 1e-3 * (limits[1] - limits[0]))
    grid = np.linspace(*limits, GRID)
    density = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).sum(axis=1)
    return np.column_stack([grid, density / density.max()])


def _ticks(limits: Limits, transform: str, language: str = "en") -> list[tuple[float, str]]:
    if transform == "none":
        return [(tick, tick_label(tick, language=language)) for tick in nice_ticks(*limits, 4)]
    log, back = (math.log10, lambda v: 10**v) if transform == "log10" else (math.log, math.exp)
    low, high = (back(limit) for limit in limits)
    if 0 < low < high < math.inf and high / low > 3:
        ticks = log_ticks(low, high)
        ticks = ticks[:: math.ceil(len(ticks) / 5)]
    elif 0 < low < high < math.inf:
        ticks = [tick for tick in nice_ticks(low, high, 4) if tick > 0]
    else:
        return []
    return [(log(tick), tick_label(tick, language=language)) for tick in ticks]


def scatter_figure(case: Case) -> ScatterFigure | None:
    """Sources, trace and ref on the two axes along which sources differ most; none if the model has one axis only."""
    model = case.system.point
    if model.projection.shape[-1] < 2:
        return None
    sd = np.sqrt(model.var_within_ref[0, 0].numpy())

    def on_axes(values: Floats) -> Floats:
        return np.asarray(model.project(torch.from_numpy(values)[None])[0].numpy() / sd)

    sources = on_axes(case.system.population.means)
    first, second = (int(k) for k in np.argsort(-sources.var(axis=0), kind="stable")[:2])
    pick = [first, second]

    def at(values: Floats) -> Floats:
        return on_axes(values)[:, pick]

    names = {axis.axis: ", ".join(feature for feature, _ in axis.features[:2]) for axis in case.explanation.axes}
    axes = (first, names[first]), (second, names[second])
    return ScatterFigure(axes, sources[:, pick], at(case.trace.side.values), at(case.ref.side.values))


def scale_figure(case: Case) -> ScaleFigure:
    """The reported LR, the calculated one, the bounds, the interval and the steps of the verbal scale."""
    said = case.explanation
    edges = [math.log10(step.above) for step in case.scale.steps if step.above > 1]
    steps = (*(-edge for edge in reversed(edges)), *edges)
    place = case.verbal.step
    if place == 0:
        band = (-edges[0], edges[0])
    else:
        outer = edges[place] if place < len(edges) else math.inf
        band = (edges[place - 1], outer) if case.verbal.favours_same else (-outer, -edges[place - 1])
    wanted = [*said.bounds, said.log10_lr, *steps]
    if said.interval is not None:
        wanted += [said.interval.lower, said.interval.upper]
    limits = (max(min(wanted) - 0.7, -SCALE_EDGE), min(max(wanted) + 0.7, SCALE_EDGE))
    limits = (min(limits[0], said.bounds[0] - 0.7), max(limits[1], said.bounds[1] + 0.7))
    interval = None if said.interval is None else (said.interval.lower, said.interval.upper)
    return ScaleFigure(
        limits, steps, band, case.verbal.words, said.log10_lr, said.log10_lr_bounded, said.bounds, interval
    )

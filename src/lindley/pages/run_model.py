"""The figures of one model: of one run its training, its axes, its calibration and its LLRs; of all runs its outliers.

Curves are thinned to fewer points that look the same: what a figure of a few hundred pixels can show, and nothing that it
would hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lindley.evaluation.axes import QQ, AxisAnalysis, analyse_axes
from lindley.evaluation.curves import PavCurve, ece, histogram, histogram_limits, pav_curve, tippett
from lindley.evaluation.metrics import eer, log2_cost
from lindley.evaluation.pair_grid import NamedPair, PairGrid, PairSums, compress
from lindley.llrs import Floats
from lindley.models.fitting import History, find_spikes
from lindley.pages.run_figures import (
    AxisPanel,
    CalibrationPanel,
    Curve,
    LossFigure,
    OmnibusFigure,
    Outlier,
    OutlierFigure,
)

if TYPE_CHECKING:
    from lindley.experiment.saved import SavedRun

__all__ = [
    "axis_analysis",
    "axis_panels",
    "calibration_panel",
    "find_outliers",
    "loadings",
    "loss_figure",
    "omnibus_figure",
]

Index = NDArray[np.intp]

MOST_EPOCHS, MOST_AXIS_EPOCHS, MOST_CORNERS, MOST_QUANTILES, MOST_MARKS = 400, 160, 400, 101, 150
"""Points of a loss curve, of the thin one of an axis, of a PAV curve and of a QQ plot; pairs marked below a PAV curve."""
FIRST_MARKS = 10
"""Pairs that are always marked: those that mislead most."""
MOST_MISLEADING = 8
"""Misleading pairs that are named, of each hypothesis."""
AXIS_PAIRS = 10_000
"""Different-source pairs, drawn at random, that an axis is judged by."""
AXIS_BINS = 40
LOADINGS = 3
"""Features that are named for an axis."""
MOST_OUTLIERS = 20
"""Sources that are named."""
MOST_LEFT_OUT = 10
"""Sources that are left out, one after the other."""


def loss_figure(history: History) -> LossFigure:
    """Figure 2: Cllr over the epochs, which count from 1 here; every curve is thinned on its own."""
    train, validate, best = history.train[0], history.validate[0], int(history.best_epoch[0])
    spikes = find_spikes(train)
    keep = [best, *spikes[np.argsort(-train[spikes], kind="stable")].tolist()]
    axes = np.empty((len(train), 0)) if history.validate_axes is None else history.validate_axes[0]

    def curve(called: str, values: Floats, most: int = MOST_EPOCHS) -> Curve:
        at = thin_series(values, most, keep)
        return Curve(called, (at + 1).astype(np.float64), values[at])

    return LossFigure(
        train=curve("train", train),
        validate=curve("validate", validate),
        axes=tuple(curve(f"axis {axis}", values, MOST_AXIS_EPOCHS) for axis, values in enumerate(axes.T)),
        best_epoch=best + 1,
        best_cllr=float(validate[best]),
        spikes=tuple((spikes + 1).tolist()),
        focus=None if history.validate_focus is None else curve("focus", history.validate_focus[0], MOST_AXIS_EPOCHS),
    )


def axis_analysis(name: str, split: int, run: SavedRun, which: Literal["validate", "test"]) -> AxisAnalysis | None:
    """Every axis of a model on a part of a split; None if its LLR is not a sum over axes, as if calibrated."""
    if run.spec(name).calibrations:
        return None
    system = run.system(name, split)
    if not system.model.has_axis_shares:
        return None
    raw = run.splits[split].raw[1 if which == "validate" else 2]
    return analyse_axes(system.model, raw.with_values(system.prepare(raw.values)), most_different=AXIS_PAIRS)


def axis_panels(name: str, split: int, run: SavedRun, analysis: AxisAnalysis) -> tuple[AxisPanel, ...]:
    """Figures 3 and 4: every axis of a model on its test part."""
    h1, h2 = ((qq, thin_qq(len(qq.quantile), MOST_QUANTILES)) for qq in (analysis.qq_h1, analysis.qq_h2))

    def curve(name: str, qq: QQ, at: Index, axis: int) -> Curve:
        return Curve(name, qq.quantile[at], qq.z[at, axis])

    projection = run.system(name, split).model.projection[0].double().cpu().numpy()
    panels = []
    for axis in range(analysis.n_axes):
        llrs = analysis.llrs(axis)
        panels.append(
            AxisPanel(
                axis=axis,
                kind=analysis.kinds[axis],
                cllr=float(analysis.cllr[axis]),
                histogram=histogram(llrs, AXIS_BINS, histogram_limits(llrs)),
                qq=(curve("h1", *h1, axis), curve("h2", *h2, axis)),
                features=loadings(projection[:, axis], run.table.features),
            )
        )
    return tuple(panels)


def loadings(column: Floats, features: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The standardised features that weigh most in an axis; all squares sum to 1, and the first one is positive.

    The sign of an axis is free: turned round it gives the same LLRs.
    """
    order = np.argsort(-np.abs(column), kind="stable")[:LOADINGS]
    unit = column / (np.linalg.norm(column) or 1.0)
    sign = -1.0 if unit[order[0]] < 0 else 1.0
    return tuple((features[i], float(sign * unit[i])) for i in order)


def calibration_panel(
    grid: PairGrid, llr: Floats, cllr: float, cllr_min: float, *, which: str = "", split: int = 0, validate: float = nan
) -> CalibrationPanel:
    """A PAV plot of LLRs (traces, refs), with the pairs that mislead most first; ``which``: as the figure calls it."""

    def marks(same: bool) -> tuple[NamedPair, ...]:
        cells = grid.misleading_first(llr, same)
        return grid.named(llr, cells[spread_ranks(len(cells), MOST_MARKS)])

    curve = thin_pav(pav_curve(grid.llrs(llr)), MOST_CORNERS)
    return CalibrationPanel(split, which, cllr, cllr_min, curve, validate, marks(True), marks(False))


def omnibus_figure(panel: CalibrationPanel, grid: PairGrid, llr: Floats) -> OmnibusFigure:
    """Figure 6: the LLRs of the run of a calibration panel, as histogram, ECE and Tippett plot."""
    llrs = grid.llrs(llr)
    # ECE from binned LLRs is right to 4e-8, and ten times as fast
    binned = compress(lambda rows, columns: llr[rows, columns], grid.trace, grid.ref, weight=grid.weight)
    return OmnibusFigure(
        pairs_same=grid.n_same,
        pairs_different=grid.n_different,
        cllr=panel.cllr,
        cllr_min=panel.cllr_min,
        eer=eer(llrs),
        histogram=histogram(llrs, limits=histogram_limits(llrs)),
        ece=ece(binned),
        tippett=tippett(llrs),
        misleading_same=panel.same[:MOST_MISLEADING],
        misleading_different=panel.different[:MOST_MISLEADING],
    )


def find_outliers(grids: Sequence[PairGrid], llrs: Sequence[Floats]) -> OutlierFigure:
    """The sources that cost a model most, over the test parts of all splits: their pairs, and the LLRs (traces, refs)."""
    names = np.unique(np.concatenate([grid.names for grid in grids]))
    places = [np.searchsorted(names, grid.names) for grid in grids]  # of the sources of a split among all
    costs = [PairSums.costs(grid, llr) for grid, llr in zip(grids, llrs, strict=True)]
    same, different, present = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names), dtype=np.intp)
    for at, cost in zip(places, costs, strict=True):
        of_same, of_different = cost.shares()
        same[at] += of_same / len(costs)
        different[at] += of_different / len(costs)
        present[at] += cost.traces + cost.refs > 0
    total = same + different
    order = np.argsort(-total, kind="stable")[: int((present > 0).sum())]

    kept = np.ones((min(len(order), MOST_LEFT_OUT) + 1, len(names)))
    for number, source in enumerate(order[:MOST_LEFT_OUT]):
        kept[number + 1 :, source] = 0
    # what remains is added up and not subtracted from the whole: an outlier may cost 1e15 times as much as the rest
    without = np.mean([cost.mean(kept[:, at]) for at, cost in zip(places, costs, strict=True)], axis=0)
    defined = int(np.argmin(np.append(np.isfinite(without), False)))  # with few sources, pairs run out
    outliers = []
    for source in order[:MOST_OUTLIERS].tolist():
        worst = [_worst_pair(names[source], grid, llr) for grid, llr in zip(grids, llrs, strict=True)]
        _, (trace, ref, llr) = max(worst, key=lambda found: found[0])
        outliers.append(
            Outlier(
                source=str(names[source]),
                cost=float(total[source]),
                same=float(same[source]),
                different=float(different[source]),
                splits=int(present[source]),
                worst_llr=llr,
                worst_pair=(trace, ref),
            )
        )
    return OutlierFigure(
        outliers=tuple(outliers),
        cllr=float(without[0]),
        without=tuple(without[:defined].tolist()),
        even_share=float(total.sum() / (present > 0).sum()),
    )


def _worst_pair(source: str, grid: PairGrid, llr: Floats) -> tuple[float, NamedPair]:
    """What the worst pair of a source adds to the Cllr of a split, and that pair; −1 if the source is in none."""
    cells = np.flatnonzero((grid.names[grid.trace] == source)[:, None] | (grid.names[grid.ref] == source))
    if not cells.size:
        return -1.0, ("", "", 0.0)
    values, is_same = llr.reshape(-1)[cells], grid.is_same.reshape(-1)[cells]
    cost = log2_cost(np.where(is_same, -values, values)) / np.where(is_same, 2 * grid.n_same, 2 * grid.n_different)
    if grid.weight is not None:
        cost = np.where(is_same, cost, cost * grid.weight.reshape(-1)[cells])
    worst = cost.argmax()
    return float(cost[worst]), grid.named(llr, cells[[worst]])[0]


def thin_series(values: Floats, most: int, keep: Sequence[int] = ()) -> Index:
    """The places of at most ``most`` values of a long series, such as a loss curve: no spike is lost.

    The series is cut into pieces of equal length, and each gives its lowest and its highest value. The first and the last
    value stay, and so do those at ``keep``, the most important first: at most half of the places are for them.
    """
    n = len(values)
    if n <= most:
        return np.arange(n)
    fixed = np.unique([0, n - 1, *keep[: most // 2 - 2]])
    length = -(-n // ((most - len(fixed)) // 2))
    pieces = -(-n // length)
    # filled up with the last value, the place of which is never taken before its own
    padded = np.pad(values, (0, pieces * length - n), mode="edge").reshape(pieces, length)
    first = np.arange(pieces) * length
    return np.unique(np.concatenate([fixed, first + padded.argmin(axis=1), first + padded.argmax(axis=1)]))


def thin_qq(n: int, most: int) -> Index:
    """Which of n sorted values a QQ plot shows: a tenth of the places for each tail, whole, the others evenly spaced."""
    if n <= most:
        return np.arange(n)
    tail, end = most // 10, ndtri(1 - 0.5 / n)
    places = n * ndtr(np.linspace(-end, end, most - 2 * tail)) - 0.5
    tails = np.concatenate([np.arange(tail), np.arange(n - tail, n)])
    return np.unique(np.concatenate([tails, np.rint(places).astype(np.intp)]))


def thin_pav(curve: PavCurve, most: int) -> PavCurve:
    """A PAV curve with at most ``most`` corners: those go first whose absence moves the line least.

    The measure is the area between the line with and without a corner (Visvalingam and Whyatt 1993). Corners at infinity
    and next to it stay.
    """
    x, y = curve.llr, curve.pav_llr
    if len(x) > most:  # a block of one value has both ends in one place
        new = np.append(True, (x[1:] != x[:-1]) | (y[1:] != y[:-1]))
        x, y = x[new], y[new]
    while len(x) > most:
        with np.errstate(invalid="ignore"):  # ∞ − ∞ at the ends
            to_corner_x, to_next_x = x[1:-1] - x[:-2], x[2:] - x[:-2]
            to_corner_y, to_next_y = y[1:-1] - y[:-2], y[2:] - y[:-2]
            area = np.abs(to_corner_x * to_next_y - to_next_x * to_corner_y)
        area[~np.isfinite(area)] = np.inf
        drop = 1 + int(area.argmin())
        x, y = np.delete(x, drop), np.delete(y, drop)
    return PavCurve(x, y)


def spread_ranks(n: int, most: int) -> Index:
    """At most ``most`` of the ranks 0 … n − 1: the first `FIRST_MARKS`, some evenly spread, others denser at the beginning."""
    if n <= most:
        return np.arange(n)
    half = (most - FIRST_MARKS) // 2
    even, dense = np.linspace(0, n - 1, half), np.geomspace(FIRST_MARKS, n - 1, half)
    return np.unique(np.rint(np.concatenate([np.arange(FIRST_MARKS), even, dense])).astype(np.intp))

"""The figures of one model on one run: its training, its axes, its calibration and its LLRs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lindley.evaluation.axes import analyse_axes
from lindley.evaluation.curves import ece, histogram, pav_curve, tippett
from lindley.evaluation.metrics import eer
from lindley.evaluation.streaming import compress
from lindley.experiment.results import ModelResult
from lindley.llrs import Floats, LLRs
from lindley.models.neural.history import History, find_spikes
from lindley.models.two_level import PairModel
from lindley.pages.pair_grid import NamedPair, PairGrid
from lindley.pages.run_figures import (
    AxisFigure,
    AxisPanel,
    CalibrationPanel,
    Curve,
    LossFigure,
    OmnibusFigure,
)
from lindley.pages.thinning import histogram_limits, spread_ranks, thin_pav, thin_qq, thin_series
from lindley.table.splits import Part

if TYPE_CHECKING:
    from lindley.experiment.saved import SavedRun

__all__ = ["axis_figure", "axis_panels", "calibration_panel", "loadings", "loss_figure", "omnibus_figure"]

MOST_EPOCHS, MOST_CORNERS, MOST_QUANTILES, MOST_MARKS = 400, 400, 150, 150
"""Points of a loss curve, a PAV curve and a QQ plot, and pairs marked below a PAV curve."""
MOST_MISLEADING = 8
"""Misleading pairs that are named, of each hypothesis."""
AXIS_PAIRS = 10_000
"""Different-source pairs, drawn at random, that an axis is judged by."""
AXIS_BINS, OMNIBUS_BINS, TIPPETT_POINTS = 40, 60, 300
LOADINGS = 3
"""Features that are named for an axis."""


def loss_figure(name: str, split: int, history: History) -> LossFigure:
    """Figure 2: Cllr over the epochs, which count from 1 here; every curve is thinned on its own."""
    train, validate, best = history.train[0], history.validate[0], int(history.best_epoch[0])
    spikes = find_spikes(train)
    keep = [best, *spikes[np.argsort(-train[spikes], kind="stable")].tolist()]
    axes = np.empty((len(train), 0)) if history.validate_axes is None else history.validate_axes[0]

    def curve(called: str, values: Floats) -> Curve:
        at = thin_series(values, MOST_EPOCHS, keep)
        return Curve(called, (at + 1).astype(np.float64), values[at])

    return LossFigure(
        model=name,
        split=split,
        train=curve("train", train),
        validate=curve("validate", validate),
        axes=tuple(curve(f"axis {axis}", values) for axis, values in enumerate(axes.T)),
        best_epoch=best + 1,
        best_cllr=float(validate[best]),
        spikes=tuple((spikes + 1).tolist()),
    )


def axis_figure(name: str, split: int, run: SavedRun) -> AxisFigure | None:
    """Figures 3 and 4, if the LLR of the model is shared out over axes; a calibrated one is not."""
    model = run.model(name, split)
    if model is None or not model.has_axis_shares:
        return None
    return AxisFigure(name, split, axis_panels(model, run.parts(name, split)[2], run.table.features))


def axis_panels(model: PairModel, part: Part, features: Sequence[str]) -> tuple[AxisPanel, ...]:
    """Every axis of a model of one run, on its test part."""
    analysis = analyse_axes(model, part, most_different=AXIS_PAIRS)
    h1, h2 = analysis.qq_h1, analysis.qq_h2
    at_h1, at_h2 = thin_qq(len(h1.quantile), MOST_QUANTILES), thin_qq(len(h2.quantile), MOST_QUANTILES)
    projection = model.projection[0].double().cpu().numpy()
    panels = []
    for axis in range(analysis.n_axes):
        llrs = analysis.llrs(axis)
        panels.append(
            AxisPanel(
                axis=axis,
                kind=analysis.kinds[axis],
                cllr=float(analysis.cllr[axis]),
                cllr_min=float(analysis.cllr_min[axis]),
                histogram=histogram(llrs, AXIS_BINS, histogram_limits(llrs)),
                quantile_h1=h1.quantile[at_h1],
                z_h1=h1.z[at_h1, axis],
                quantile_h2=h2.quantile[at_h2],
                z_h2=h2.z[at_h2, axis],
                features=loadings(projection[:, axis], features),
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


def calibration_panel(name: str, split: int, result: ModelResult, grid: PairGrid, llr: Floats) -> CalibrationPanel:
    """A PAV plot, with the pairs that mislead most first; ``which`` is for the figure to say."""

    def marks(same: bool) -> tuple[NamedPair, ...]:
        cells = grid.misleading_first(llr, same)
        return grid.named(llr, cells[spread_ranks(len(cells), MOST_MARKS)])

    return CalibrationPanel(
        model=name,
        split=split,
        which="",
        cllr=result.test_cllr[split],
        cllr_min=result.test_cllr_min[split],
        pav=thin_pav(pav_curve(grid.llrs(llr)), MOST_CORNERS),
        validate=result.validate_cllr[split],
        same=marks(True),
        different=marks(False),
    )


def omnibus_figure(panel: CalibrationPanel, grid: PairGrid, llr: Floats) -> OmnibusFigure:
    """Figure 6: the LLRs of the run of a calibration panel, as histogram, ECE and Tippett plot."""
    llrs = grid.llrs(llr)
    limits = histogram_limits(llrs)
    cllr, cllr_min = panel.cllr, panel.cllr_min
    # ECE from binned LLRs is right to 4e-8, and ten times as fast
    binned = compress(lambda rows, columns: llr[rows, columns], grid.trace, grid.ref)
    return OmnibusFigure(
        model=panel.model,
        split=panel.split,
        pairs_same=grid.n_same,
        pairs_different=grid.n_different,
        cllr=cllr,
        cllr_min=cllr_min,
        eer=eer(llrs),
        calibration_share=(cllr - cllr_min) / cllr if cllr > 0 else 0.0,
        histogram=histogram(llrs, OMNIBUS_BINS, limits),
        ece=ece(binned),
        tippett=tippett(llrs, _tippett_points(llrs, limits)),
        misleading_same=panel.same[:MOST_MISLEADING],
        misleading_different=panel.different[:MOST_MISLEADING],
    )


def _tippett_points(llrs: LLRs, limits: tuple[float, float]) -> Floats:
    """Most of the points where the histogram is, some out to all LLRs: both curves run from 1 to 0."""
    lowest = min(llrs.same.min(), llrs.different.min())
    highest = max(llrs.same.max(), llrs.different.max())
    margin = 0.02 * (limits[1] - limits[0])
    inside = np.linspace(*limits, TIPPETT_POINTS)
    below = np.linspace(min(lowest, limits[0]) - margin, limits[0], 50)
    above = np.linspace(limits[1], max(highest, limits[1]) + margin, 50)
    return np.unique(np.concatenate([below, inside, above]))

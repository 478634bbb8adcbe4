"""The printed figures of a run, drawn with matplotlib, each on a sheet as wide as the text of an A4 page."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from lindley.files import write_atomically
from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.numerals import fixed, log_ticks, number, shorten, times
from lindley.pages.page import Picture, picture, sheet
from lindley.pages.palette import DASHES
from lindley.pages.run_figures import (
    AxisPanel,
    CalibrationFigure,
    LossFigure,
    OmnibusFigure,
    OutlierFigure,
    Report,
    SeriesFigure,
    SummaryFigure,
    SummaryLayout,
    calibration_limits,
    loss_limits,
    series_layout,
    summary_layout,
)
from lindley.pages.run_words import panel_title
from lindley.plot import draw_ece, draw_histogram, draw_pav, draw_tippett
from lindley.workers import Notify, Workers

__all__ = [
    "MOST_FEATURES",
    "draw_axis_histograms",
    "draw_axis_qq",
    "draw_calibration",
    "draw_loss",
    "draw_omnibus",
    "draw_outliers",
    "draw_pictures",
    "draw_scatter_matrix",
    "draw_series",
    "draw_summary",
    "save_pictures",
]

WIDTH = 7.5  # inches: the text width of A4
BESIDE: dict[str, Any] = {"textcoords": "offset points", "annotation_clip": False}
"""Text some points beside a place, also where that is beyond the axes."""
MOST_FEATURES = 18
"""More features than this in a scatter matrix cannot be read."""
MOST_POINTS = 2000
"""More points than this in a cell are a blot; a fixed random choice of them is drawn, with every extreme."""
_CORE = 0.86  # the share of a cell's width that points may use


def draw_pictures(
    report: Report,
    every_loss: bool = True,
    workers: Workers | None = None,
    progress: Callable[[float], None] = lambda done: None,
) -> dict[str, Picture]:
    """The summary, the data, the model that is shown first and the loss of every neural model, by file name.

    Each is one job of the workers. ``progress`` hears of the share that is drawn.
    """
    data = report.data
    drawings: dict[str, Callable[[], Figure]] = {"summary": partial(draw_summary, report.summary)}
    if report.series is not None:
        drawings["series"] = partial(draw_series, report.series)
    for at, figure in enumerate(report.kinds):
        drawings[f"calibration-kinds-{at + 1}"] = partial(draw_calibration, figure)
    model = next((m for m in report.models if m.name == report.best), None)
    if model is not None:
        if model.loss is not None:
            drawings["best-loss"] = partial(draw_loss, model.loss)
        if model.axes:
            drawings["best-axes-llr"] = partial(draw_axis_histograms, model.axes)
            drawings["best-axes-qq-h1"] = partial(draw_axis_qq, model.axes, "h1")
            drawings["best-axes-qq-h2"] = partial(draw_axis_qq, model.axes, "h2")
        drawings["best-calibration-runs"] = partial(draw_calibration, model.runs)
        drawings["best-omnibus"] = partial(draw_omnibus, model.omnibus)
        drawings["best-outliers"] = partial(draw_outliers, model.outliers)
    drawings["data-source-means"] = partial(draw_scatter_matrix, data.features, data.source_means)
    drawings["data-deviations"] = partial(draw_scatter_matrix, data.features, data.deviations)
    for each in report.models if every_loss else ():
        if each.loss is not None:
            drawings[f"loss-{_file_name(each.name)}"] = partial(draw_loss, each.loss)
    # Models that build on one training share its loss, which is drawn once. Those of many panels take longest, and come first.
    what = {name: pickle.dumps(draw) for name, draw in drawings.items()}
    drawn: dict[bytes, Picture] = {}
    for shown, made in (workers or Workers(1)).run(_drawn, sorted(set(what.values()), key=len, reverse=True)):
        drawn[shown] = made
        progress(len(drawn) / len(set(what.values())))
    return {name: drawn[shown] for name, shown in what.items()}


def _drawn(what: bytes, notify: Notify) -> Picture:
    return picture(pickle.loads(what))


def save_pictures(folder: Path, pictures: Mapping[str, Picture]) -> list[Path]:
    """Write the pictures as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, drawn in pictures.items():
        for ending, content in (("svg", drawn.svg), ("png", drawn.png)):
            paths.append(folder / f"{name}.{ending}")
            write_atomically(paths[-1], content)
    return paths


def _file_name(model: str) -> str:
    """A model's name as a file name on every system: ``yeo-johnson:tlm`` becomes ``yeo-johnson_tlm``."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", model)


def draw_summary(figure: SummaryFigure) -> Figure:
    """Figure 1: a line per model, Cllr to the right, with the best benchmarks as bands across."""
    layout = summary_layout(figure)
    lines = len(layout.labels)
    inner = 0.27 * lines + 0.1
    top, bottom = 0.1 + 0.17 * len(layout.bands), 0.85
    paper, ax = sheet(WIDTH, inner + top + bottom)
    height = inner + top + bottom
    ax.set_position((2.25 / WIDTH, bottom / height, (WIDTH - 2.4) / WIDTH, inner / height))
    if layout.log:
        ax.set_xscale("log")
        _log_ticks(ax.xaxis, *layout.limits)
    ax.set_xlim(*layout.limits)
    ax.set_ylim(lines - 0.4, -0.6)
    ax.set_yticks(range(lines), [shorten(label, 36) for label in layout.labels])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.set_axisbelow(True)
    _draw_bands(ax, layout, inner)
    if 0 < layout.benchmarks < lines:
        ax.axhline(lines - layout.benchmarks - 0.5, color=palette.RULE, lw=0.8)
    for part, colour, shift in (("validate", palette.VALIDATE, -0.09), ("test", palette.TEST, 0.09)):
        for family, mark in palette.MARKS.items():
            rows = [(r, p) for r, p in zip(figure.rows, layout.places, strict=True) if r.family == family]
            if rows:
                values = [getattr(r, part) for r, _ in rows]
                spans = np.array([layout.span(getattr(r, part), getattr(r, f"{part}_error")) for r, _ in rows]).T
                ax.errorbar(
                    values,
                    [p + shift for _, p in rows],
                    xerr=spans,
                    fmt=mark.print,
                    ms=5 if family != "benchmark" else 4.5,
                    color=colour,
                    mec=palette.TEST,
                    mew=0.6,
                    elinewidth=1.1,
                    capsize=2,
                    label=f"{'validation' if part == 'validate' else 'test'}, {family}",
                )
    ax.set_xlabel("Cllr (0 perfect, 1 says nothing)" + (", log scale" if layout.log else ""))
    columns = max(3, len({r.family for r in figure.rows}))
    paper.legend(loc="lower center", ncols=columns, bbox_to_anchor=(0.5, 0.0), columnspacing=1.4, handletextpad=0.4)
    return paper


def _draw_bands(ax: Axes, layout: SummaryLayout, inner: float) -> None:
    """Bands and lines across, their names above each other; ``inner``: how high the axes are, in inches."""
    for level, band in enumerate(layout.bands):
        below, above = layout.span(band.mean, band.error)
        if band.error > 0:
            ax.axvspan(band.mean - below, band.mean + above, color=band.colour, alpha=0.12, lw=0)
        up = 1 + (0.04 + 0.17 * level) / inner
        ax.axvline(
            band.mean, 0, up + 0.11 / inner, color=band.colour, lw=1.1, ls=DASHES[band.dash], clip_on=False, zorder=1
        )
        side, away = ("left", 3) if layout.has_room(band.label, band.mean, 96) else ("right", -3)
        box = {"fc": "white", "alpha": 0.8, "lw": 0, "pad": 0.5}
        at: Any = {"xy": (band.mean, up), "xycoords": ("data", "axes fraction"), "xytext": (away, 0)}
        ax.annotate(band.label, **at, **BESIDE, ha=side, color=band.colour, fontsize=7.5, bbox=box)


def draw_series(figure: SeriesFigure) -> Figure:
    """Cllr as measurements are added: a line per model."""
    layout = series_layout(figure)
    paper, ax = sheet(WIDTH, 3.3 + 0.09 * len(layout.lines))
    for line in layout.lines:
        mark = "" if line.mark is None else line.mark.print
        style: dict[str, Any] = {"marker": mark, "ms": 4, "lw": 1.3, "ls": DASHES.get(line.dash, "-")}
        ax.plot(line.places, line.cllr, color=line.colour, label=shorten(line.row.label, 36), **style)
        if line.has_errors:
            ends = np.array([line.below, line.above])
            ax.errorbar(line.places, line.cllr, ends, fmt="none", ecolor=line.colour, elinewidth=0.8)
    if layout.log:
        ax.set_yscale("log")
        _log_ticks(ax.yaxis, *layout.limits)
    ax.set_ylim(*layout.limits)
    ax.set_xticks(range(len(figure.sizes)), [times(size) for size in figure.sizes])
    ax.set(xlabel="measurements: trace × ref", ylabel="mean test Cllr" + (", log scale" if layout.log else ""))
    ax.grid(axis="y")
    paper.legend(loc="outside upper center", ncols=3, columnspacing=1.4, handlelength=3.4)  # dashes need length
    return paper


def draw_loss(figure: LossFigure) -> Figure:
    """Figure 2: training, validation and single axes over the epochs, and the epoch that was kept."""
    paper, ax = sheet(WIDTH, 3.9)
    shades = matplotlib.colormaps["cividis"](np.linspace(0.15, 0.85, max(len(figure.axes), 1)))
    for curve, shade in zip(figure.axes, shades, strict=False):
        ax.plot(curve.x, curve.y, color=shade, lw=0.7, label="_")
        end, name = (curve.x[-1], curve.y[-1]), curve.name.removeprefix("axis ")
        ax.annotate(name, end, xytext=(2, 0), **BESIDE, va="center", color=shade, fontsize=5.5)
    ax.plot(figure.train.x, figure.train.y, ".", ms=2, color=palette.TEST, label="training")
    ax.plot(figure.validate.x, figure.validate.y, color=palette.BEST, lw=1.6, label="validation")
    if figure.focus is not None:
        ax.plot(figure.focus.x, figure.focus.y, color=palette.NEUTRAL, lw=1.1, ls=DASHES["dashdot"], label="focus axes")
    if figure.axes:
        ax.plot([], [], color=shades[len(shades) // 2], lw=0.8, label="single axes, validation (number at the right)")
    ax.axhline(1, color=palette.NEUTRAL, lw=1.1, ls=DASHES["dash"], label="neutral")
    kept = f"kept: epoch {figure.best_epoch}, Cllr {number(figure.best_cllr)}"
    ax.axvline(figure.best_epoch, color=palette.BEST, lw=1.1, ls=DASHES["dot"], label=kept)
    ax.set_yscale("log")
    ax.set_ylim(*loss_limits(figure))
    _log_ticks(ax.yaxis, *ax.get_ylim())
    ax.grid(axis="y")
    ax.set_xlim(0, figure.validate.x[-1] * 1.03 if len(figure.validate.x) else None)
    ax.set_xlabel("epoch")
    ax.set_ylabel("Cllr, log scale")
    paper.legend(loc="outside upper center", ncols=3)
    return paper


def draw_axis_histograms(panels: Sequence[AxisPanel]) -> Figure:
    """Figure 3: small multiples."""
    paper, cells = _cells(len(panels), 1.25)
    for ax, panel in zip(cells, panels, strict=True):
        draw_histogram(ax, panel.histogram)
        ax.set(xlabel="", ylabel="")
        ax.set_title(f"axis {panel.axis}: Cllr {number(panel.cllr)}", fontsize=8)
    paper.legend(*cells[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    paper.supxlabel("LLR (log10) of the axis alone", fontsize=8.5)
    return paper


def draw_axis_qq(panels: Sequence[AxisPanel], hypothesis: str) -> Figure:
    """Figure 4: small multiples under one hypothesis."""
    paper, cells = _cells(len(panels), 1.4)
    for ax, panel in zip(cells, panels, strict=True):
        curve = next(curve for curve in panel.qq if curve.name == hypothesis)
        end = float(np.abs(curve.x).max())
        ax.plot([-end, end], [-end, end], color=palette.NEUTRAL, lw=1, ls=DASHES["dash"])
        ax.plot(curve.x, curve.y, ".", ms=2.5, color=palette.SAME)
        ax.set_title(f"axis {panel.axis}: {panel.kind}", fontsize=8)
    paper.supxlabel("quantile of the standard normal distribution", fontsize=8.5)
    paper.supylabel(f"z-score under {'H₁' if hypothesis == 'h1' else 'H₂'}", fontsize=8.5)
    return paper


def draw_calibration(figure: CalibrationFigure, columns: int | None = None, width: float = WIDTH) -> Figure:
    """Figure 5: PAV plots side by side, the pairs below the curve; by default three or four in a row."""
    columns = columns or min(max(len(figure.panels), 3), 4)
    rows = math.ceil(len(figure.panels) / columns) or 1
    paper = Figure(figsize=(width, (width / columns + 0.55) * rows), layout="constrained")
    limits = calibration_limits(figure)
    for at, panel in enumerate(figure.panels):
        ax = paper.add_subplot(rows, columns, at + 1)
        same, different = ([llr for *_, llr in marks] for marks in (panel.same, panel.different))
        draw_pav(ax, panel.pav, limits, same, different)
        if at % columns:
            ax.set_ylabel("")
        cost = f"Cllr {number(panel.cllr)}, Cllr_min {number(panel.cllr_min)}"
        ax.set_title(f"{shorten(panel_title(panel), 36)}\n{cost}", fontsize=8)
    return paper


def draw_omnibus(figure: OmnibusFigure) -> Figure:
    """Figure 6: histogram, ECE and Tippett plot."""
    paper = Figure(figsize=(WIDTH, 2.9), layout="constrained")
    left, middle, right = (paper.add_subplot(1, 3, at) for at in (1, 2, 3))
    draw_histogram(left, figure.histogram)
    draw_ece(middle, figure.ece)
    draw_tippett(right, figure.tippett)
    for ax, above in ((left, 1.2), (middle, 1.27), (right, 1.2)):
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, above))
        ax.set_box_aspect(0.95)
    return paper


def draw_outliers(figure: OutlierFigure) -> Figure:
    """Figure 8: the costliest sources, and the mean Cllr without them."""
    count = len(figure.outliers)
    paper = Figure(figsize=(WIDTH, max(2.6, 0.17 * count + 1.1)), layout="constrained")
    left, right = paper.subplots(1, 2, width_ratios=(1.4, 1))
    place = np.arange(count)
    same = np.array([o.same for o in figure.outliers])
    different = np.array([o.different for o in figure.outliers])
    left.barh(place, same, color=palette.SAME, label="as same source")
    hatched: dict[str, Any] = {"color": palette.DIFFERENT, "hatch": "////", "ec": "white", "lw": 0}
    left.barh(place, different, left=same, label="in different-source pairs", **hatched)
    left.axvline(figure.even_share, color=palette.NEUTRAL, lw=1.1, ls=DASHES["dash"], label="an even share")
    left.set_yticks(place, [shorten(o.source, 24) for o in figure.outliers])
    left.set_ylim(count - 0.4, -0.6)
    left.tick_params(axis="y", length=0)
    left.set_xlabel("share in the mean test Cllr")
    left.legend(fontsize=7.5, loc="lower right")
    right.plot(range(len(figure.without)), figure.without, "o-", ms=4, color=palette.TEST)
    right.set_ylim(0, None)
    right.xaxis.get_major_locator().set_params(integer=True)
    right.grid(axis="y")
    right.set(xlabel="costliest sources left out", ylabel="mean test Cllr")
    return paper


def draw_scatter_matrix(features: tuple[str, ...], values: Floats) -> Figure:
    """Figure 7: every pair of features; scatter plots below the diagonal, histograms on it, correlations above.

    Three hundred little axes take matplotlib half a minute; one axis with the cells computed by hand takes a second.
    """
    names = features[:MOST_FEATURES]
    chosen = _choose(values[:, : len(names)])
    d = len(names)
    paper = Figure(figsize=(WIDTH, WIDTH))
    ax = paper.add_axes((0.085, 0.055, 0.91, 0.94))
    ax.set(xlim=(0, d), ylim=(d, 0))
    low, high = values[:, :d].min(axis=0), values[:, :d].max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    unit = (chosen - low) / width * _CORE + (1 - _CORE) / 2  # (points, d) inside a cell
    size = float(np.clip(60 / np.sqrt(len(unit)) * 4 / d, 0.35, 4.0))
    rows, columns = np.tril_indices(d, -1)
    x = (unit[:, columns] + columns).reshape(-1)
    y = (rows + 1 - unit[:, rows]).reshape(-1)
    ax.plot(x, y, "o", ms=size, mew=0, alpha=0.55, color=palette.SAME, rasterized=True)
    correlation = _correlation(values[:, :d])
    for i in range(d):
        count, edges = np.histogram(values[:, i], 24, (low[i], low[i] + width[i]))
        height = count / max(count.max(), 1) * _CORE
        ax.stairs(
            i + 1 - height,
            (edges - low[i]) / width[i] * _CORE + (1 - _CORE) / 2 + i,
            baseline=i + 1,
            fill=True,
            color=palette.MUTED,
            lw=0,
        )
        for j in range(i + 1, d):
            r = correlation[i, j]
            colour = palette.SAME if r >= 0 else palette.BANDS[1]
            ax.fill([j, j + 1, j + 1, j], [i, i, i + 1, i + 1], color=colour, alpha=0.45 * abs(r), lw=0)
            ax.text(j + 0.5, i + 0.5, fixed(r), ha="center", va="center", fontsize=min(9, 110 / d))
    ax.hlines(range(d + 1), 0, d, color=palette.GRID, lw=0.6)
    ax.vlines(range(d + 1), 0, d, color=palette.GRID, lw=0.6)
    labels = [shorten(name, 8) for name in names]
    ax.set_xticks(np.arange(d) + 0.5, labels, rotation=90 if d > 9 else 0)
    ax.set_yticks(np.arange(d) + 0.5, labels)
    ax.tick_params(length=0, labelsize=min(9, 130 / d))
    ax.spines[:].set_visible(False)
    return paper


def _choose(values: Floats) -> Floats:
    if len(values) <= MOST_POINTS:
        return values
    extremes = np.concatenate([values.argmin(axis=0), values.argmax(axis=0)])
    others = np.random.default_rng(0).choice(len(values), MOST_POINTS - len(extremes), replace=False)
    chosen: Floats = values[np.unique(np.concatenate([extremes, others]))]
    return chosen


def _correlation(values: Floats) -> Floats:
    """Correlations; 0 where a feature does not vary."""
    deviation = values - values.mean(axis=0)
    length = np.sqrt((deviation**2).sum(axis=0))
    unit = deviation / np.where(length > 0, length, 1.0)
    return np.asarray(unit.T @ unit, dtype=np.float64)


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a log axis as numbers in full, and no other."""
    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _cells(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """A grid of small multiples, at most five in a row."""
    columns = min(5, max(count, 1))
    rows = math.ceil(count / columns) or 1
    paper = Figure(figsize=(WIDTH, height * rows + 0.5), layout="constrained")
    cells = [paper.add_subplot(rows, columns, at + 1) for at in range(count)]
    for ax in cells:
        ax.tick_params(labelsize=6.5)
        ax.locator_params(nbins=4)
    return paper, cells

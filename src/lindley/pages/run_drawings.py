"""The figures of a report drawn with matplotlib, each on a sheet as wide as the text of an A4 page."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from lindley.evaluation.curves import Histogram
from lindley.pages import palette
from lindley.pages.palette import number, shorten
from lindley.pages.run_figures import (
    AxisFigure,
    CalibrationFigure,
    LossFigure,
    OmnibusFigure,
    OutlierFigure,
    SummaryFigure,
)
from lindley.pages.thinning import thin_qq

__all__ = [
    "draw_axis_histograms",
    "draw_axis_qq",
    "draw_calibration",
    "draw_loss",
    "draw_omnibus",
    "draw_outliers",
    "draw_summary",
]

WIDTH = 7.5  # inches: the text width of A4
_DASH = {"dash": (0, (5, 2.5)), "dashdot": (0, (6, 2, 1, 2)), "dot": (0, (1, 1.6)), "longdash": (0, (9, 3))}


def draw_summary(figure: SummaryFigure) -> Figure:
    """Figure 1."""
    layout = palette.summary_layout(figure)
    lines = len(layout.labels)
    inner = 0.27 * lines + 0.1
    top, bottom = 0.1 + 0.17 * len(layout.bands), 0.85
    paper, ax = _sheet(WIDTH, inner + top + bottom)
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
    for level, band in enumerate(layout.bands):
        below, above = layout.span(band.mean, band.error)
        if band.error > 0:
            ax.axvspan(band.mean - below, band.mean + above, color=band.colour, alpha=0.12, lw=0)
        up = 1 + (0.04 + 0.17 * level) / inner
        ax.axvline(
            band.mean, 0, up + 0.11 / inner, color=band.colour, lw=1.1, ls=_DASH[band.dash], clip_on=False, zorder=1
        )
        right = layout.has_room(band.label, band.mean, 96)
        ax.annotate(
            band.label,
            (band.mean, up),
            xytext=(3 if right else -3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if right else "right",
            color=band.colour,
            fontsize=7.5,
            bbox={"fc": "white", "alpha": 0.8, "lw": 0, "pad": 0.5},
            annotation_clip=False,
        )
    if 0 < layout.benchmarks < lines:
        ax.axhline(lines - layout.benchmarks - 0.5, color="#b9c2ca", lw=0.8)
    for part, colour, shift in (("validate", palette.VALIDATE, -0.09), ("test", palette.TEST, 0.09)):
        for family, marker in (("single", "s"), ("double", "o"), ("robust", "^"), ("benchmark", "D")):
            rows = [(r, p) for r, p in zip(figure.rows, layout.places, strict=True) if r.family == family]
            if rows:
                values = [getattr(r, part) for r, _ in rows]
                spans = np.array([layout.span(getattr(r, part), getattr(r, f"{part}_error")) for r, _ in rows]).T
                ax.errorbar(
                    values,
                    [p + shift for _, p in rows],
                    xerr=spans,
                    fmt=marker,
                    ms=5 if family != "benchmark" else 4.5,
                    color=colour,
                    mec=palette.TEST,
                    mew=0.6,
                    elinewidth=1.1,
                    capsize=2,
                    label=f"{'validation' if part == 'validate' else 'test'}, {family}",
                )
    ax.set_xlabel("Cllr (0 perfect, 1 says nothing)" + (", log scale" if layout.log else ""))
    paper.legend(
        loc="lower center",
        ncols=max(3, len({r.family for r in figure.rows})),
        bbox_to_anchor=(0.5, 0.0),
        columnspacing=1.4,
        handletextpad=0.4,
    )
    return paper


def draw_loss(figure: LossFigure) -> Figure:
    """Figure 2."""
    paper, ax = _sheet(WIDTH, 3.9)
    shades = matplotlib.colormaps["cividis"](np.linspace(0.15, 0.85, max(len(figure.axes), 1)))
    for curve, shade in zip(figure.axes, shades, strict=False):
        ax.plot(curve.x, curve.y, color=shade, lw=0.7, label="_")
        ax.annotate(
            curve.name.removeprefix("axis "),
            (curve.x[-1], curve.y[-1]),
            xytext=(2, 0),
            textcoords="offset points",
            fontsize=5.5,
            va="center",
            color=shade,
            annotation_clip=False,
        )
    ax.plot(figure.train.x, figure.train.y, ".", ms=2, color=palette.TEST, label="training")
    ax.plot(figure.validate.x, figure.validate.y, color=palette.BEST, lw=1.6, label="validation")
    if figure.axes:
        ax.plot([], [], color=shades[len(shades) // 2], lw=0.8, label="single axes, validation (number at the right)")
    ax.axhline(1, color=palette.NEUTRAL, lw=1.1, ls=_DASH["dash"], label="neutral")
    kept = f"kept: epoch {figure.best_epoch}, Cllr {number(figure.best_cllr)}"
    ax.axvline(figure.best_epoch, color=palette.BEST, lw=1.1, ls=_DASH["dot"], label=kept)
    ax.set_yscale("log")
    every = np.concatenate([c.y for c in (figure.train, figure.validate, *figure.axes)])
    every = every[np.isfinite(every) & (every > 0)]
    if every.size:
        ax.set_ylim(every.min() * 0.85, max(float(np.quantile(every, 0.999)), 1.0) * 1.3)
    _log_ticks(ax.yaxis, *ax.get_ylim())
    ax.grid(axis="y")
    ax.set_xlim(0, figure.validate.x[-1] * 1.03 if len(figure.validate.x) else None)
    ax.set_xlabel("epoch")
    ax.set_ylabel("Cllr, log scale")
    paper.legend(loc="outside upper center", ncols=3)
    return paper


def draw_axis_histograms(figure: AxisFigure) -> Figure:
    """Figure 3: small multiples."""
    paper, cells = _cells(len(figure.panels), 1.25)
    for ax, panel in zip(cells, figure.panels, strict=True):
        _histogram(ax, panel.histogram)
        ax.set_title(f"axis {panel.axis}: Cllr {number(panel.cllr)}", fontsize=8)
    _legend(paper, cells[0])
    paper.supxlabel("LLR (log10) of the axis alone", fontsize=8.5)
    return paper


def draw_axis_qq(figure: AxisFigure, hypothesis: str) -> Figure:
    """Figure 4: small multiples under one hypothesis."""
    paper, cells = _cells(len(figure.panels), 1.4)
    for ax, panel in zip(cells, figure.panels, strict=True):
        x, z = (panel.quantile_h1, panel.z_h1) if hypothesis == "h1" else (panel.quantile_h2, panel.z_h2)
        keep = thin_qq(len(z), 201)
        x, z = x[keep], z[keep]
        end = float(np.abs(x).max()) if len(x) else 3.0
        ax.plot([-end, end], [-end, end], color=palette.NEUTRAL, lw=1, ls=_DASH["dash"])
        ax.plot(x, z, ".", ms=2.5, color=palette.SAME)
        ax.set_title(f"axis {panel.axis}: {panel.kind}", fontsize=8)
    paper.supxlabel("quantile of the standard normal distribution", fontsize=8.5)
    paper.supylabel(f"z-score under {'H₁' if hypothesis == 'h1' else 'H₂'}", fontsize=8.5)
    return paper


def draw_calibration(figure: CalibrationFigure) -> Figure:
    """Figure 5: PAV plots side by side, the pairs below the curve."""
    columns = min(max(len(figure.panels), 3), 4)
    rows = math.ceil(len(figure.panels) / columns) or 1
    paper = Figure(figsize=(WIDTH, (WIDTH / columns + 0.55) * rows), layout="constrained")
    low, high = palette.calibration_limits(figure)
    for at, panel in enumerate(figure.panels):
        ax = paper.add_subplot(rows, columns, at + 1)
        ax.plot([low, high], [low, high], color=palette.IDENTITY, lw=1.2, ls=_DASH["dash"])
        llr, after = panel.pav.llr, panel.pav.pav_llr
        shown = np.isfinite(after)
        ax.plot(llr[shown], after[shown], color=palette.SAME, lw=1.5)
        for infinite, marker, y in ((-np.inf, "v", low + 0.03 * (high - low)), (np.inf, "^", high)):
            ends = llr[after == infinite]
            if ends.size:
                x = min(max(float(ends.max() if infinite < 0 else ends.min()), low), high)
                ax.plot([x], [y], marker, ms=5, color=palette.SAME, clip_on=False)
        for marks, marker, colour, y in (
            (panel.different, "+", palette.DIFFERENT, 0.055),
            (panel.same, "|", palette.SAME, 0.105),
        ):
            ax.plot([v for *_, v in marks], [low + y * (high - low)] * len(marks), marker, ms=4, mew=0.7, color=colour)
        ax.set(
            xlim=(low, high),
            ylim=(low, high),
            xlabel="LLR as given",
            ylabel="LLR after PAV" if at % columns == 0 else "",
        )
        ax.set_aspect("equal")
        ax.grid()
        ax.set_title(
            f"{shorten(palette.panel_title(panel), 36)}\nCllr {number(panel.cllr)}, Cllr_min {number(panel.cllr_min)}",
            fontsize=8,
        )
    return paper


def draw_omnibus(figure: OmnibusFigure) -> Figure:
    """Figure 6: histogram, ECE and Tippett plot."""
    paper = Figure(figsize=(WIDTH, 2.9), layout="constrained")
    left, middle, right = (paper.add_subplot(1, 3, at) for at in (1, 2, 3))
    _histogram(left, figure.histogram)
    left.set(xlabel="LLR (log10)", ylabel="share of pairs")
    left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.2))
    ece = figure.ece
    middle.plot(ece.prior_log10_odds, ece.neutral, color=palette.MUTED, ls=_DASH["dot"], label="no LR (LR = 1)")
    middle.plot(ece.prior_log10_odds, ece.system, color=palette.SAME, label="this system")
    middle.plot(ece.prior_log10_odds, ece.pav, color=palette.BANDS[0], ls=_DASH["dash"], label="after PAV")
    middle.set(xlabel="prior log10 odds", ylabel="empirical cross-entropy (bits)")
    middle.set_ylim(0, max(1.03, 1.1 * figure.cllr) if figure.cllr < 2 else 2.0)
    middle.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.27))
    tippett = figure.tippett
    right.plot(tippett.llr, tippett.same, color=palette.SAME, label="same-source")
    right.plot(tippett.llr, tippett.different, color=palette.DIFFERENT, ls=_DASH["dash"], label="different-source")
    right.axvline(0, color=palette.MUTED, lw=0.8, ls=_DASH["dot"])
    right.set(xlabel="LLR (log10)", ylabel="share of pairs at or above")
    right.set_xlim(max(float(tippett.llr[0]), -12), min(float(tippett.llr[-1]), 12))
    right.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.2))
    for ax in (left, middle, right):
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
    left.barh(
        place,
        different,
        left=same,
        color=palette.DIFFERENT,
        hatch="////",
        ec="white",
        lw=0,
        label="in different-source pairs",
    )
    left.axvline(figure.even_share, color=palette.NEUTRAL, lw=1.1, ls=_DASH["dash"], label="an even share")
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


def _histogram(ax: Axes, histogram: Histogram) -> None:
    """Different-source light with an outline, same-source dark over it: apart in greyscale too."""
    edges = histogram.edges
    ax.stairs(
        histogram.different, edges, fill=True, color=palette.DIFFERENT, alpha=0.75, lw=0, label="different-source"
    )
    ax.stairs(histogram.same, edges, fill=True, color=palette.SAME, alpha=0.7, lw=0, label="same-source")
    ax.axvline(0, color=palette.MUTED, lw=0.6, ls=_DASH["dot"], zorder=0)
    ax.set_ylim(0, None)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a log axis as numbers in full, and no other."""
    axis.set_major_locator(FixedLocator(palette.log_ticks(low, high)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _sheet(width: float, height: float) -> tuple[Figure, Axes]:
    paper = Figure(figsize=(width, height), layout="constrained")
    return paper, paper.add_subplot()


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


def _legend(paper: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    paper.legend(handles, labels, loc="outside upper center", ncols=len(labels))

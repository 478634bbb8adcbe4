"""Figures 2 to 6 and 8 on the screen: how a model was trained, what its axes do, its LLRs, and the sources that cost most."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from lindley.evaluation.curves import Histogram
from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.numerals import number, shorten
from lindley.pages.run_figures import (
    CalibrationFigure,
    CalibrationPanel,
    Curve,
    LossFigure,
    ModelFigures,
    OmnibusFigure,
    OutlierFigure,
    calibration_limits,
    loss_limits,
)
from lindley.pages.run_screen.parts import (
    Figure,
    axis,
    identity,
    line,
    lines_of_names,
    log_axis_ticks,
    marks,
    note,
    pair_marks,
    pair_name,
    plot,
    rounded,
    ruler,
    safe,
)
from lindley.plot import LIMIT_TIPPETT

__all__ = ["calibration_figure", "histogram_figure", "kind_figures", "model_figures"]

SMALL = {"l": 34, "r": 8, "t": 6, "b": 24}
"""Margins of a small multiple."""


def model_figures(model: ModelFigures) -> dict[str, Figure]:
    """Every figure of one model under the name that the page asks for."""
    figures: dict[str, Figure] = {}
    if model.loss is not None:
        figures["loss"] = loss_figure(model.loss)
    for panel in model.axes:
        figures[f"axis-{panel.axis}"] = histogram_figure(panel.histogram, 170)
        figures |= {f"{curve.name}-{panel.axis}": qq_figure(panel.axis, curve) for curve in panel.qq}
    return figures | _calibrations(model.runs, "run") | omnibus_figures(model.omnibus) | outlier_figures(model.outliers)


def kind_figures(kinds: Iterable[CalibrationFigure]) -> dict[str, Figure]:
    """The calibration plots of raw, point-value and integrated predictions."""
    each = (_calibrations(figure, f"kind-{at}") for at, figure in enumerate(kinds))
    return {name: figure for figures in each for name, figure in figures.items()}


def _calibrations(figure: CalibrationFigure, name: str) -> dict[str, Figure]:
    limits = calibration_limits(figure)
    return {f"{name}-{at}": calibration_figure(panel, limits) for at, panel in enumerate(figure.panels)}


def loss_figure(figure: LossFigure) -> Figure:
    """Figure 2: training as dots, validation as a line, every axis as a thin line, the epoch that was kept."""
    hover = "<b>%{meta}</b>, epoch %{x}<br>validation Cllr %{y:.4g}<extra></extra>"
    group: Figure = {"name": "single axes, validation", "legendgroup": "axes", "opacity": 0.75, "hovertemplate": hover}
    traces = [
        line(curve.x, curve.y, shade, width=1.0, meta=safe(curve.name), showlegend=at == 0, **group)
        for at, (curve, shade) in enumerate(zip(figure.axes, _shades(len(figure.axes)), strict=True))
    ]
    told = "<b>{}</b>, epoch %{{x}}<br>Cllr %{{y:.4g}}<extra></extra>".format
    train, validate = figure.train, figure.validate
    traces += [
        marks(train.x, train.y, palette.TEST, size=3.2, name="training", hovertemplate=told("training")),
        line(validate.x, validate.y, palette.BEST, name="validation", hovertemplate=told("validation")),
    ]
    if figure.focus is not None:
        style: Figure = {"name": "focus axes, validation", "hovertemplate": told("focus axes, validation")}
        traces.append(line(figure.focus.x, figure.focus.y, palette.NEUTRAL, dash="dashdot", width=1.4, **style))
    kept = f"kept: epoch {figure.best_epoch}, Cllr {number(figure.best_cllr)}"
    low, high = loss_limits(figure)
    view = [math.log10(low), math.log10(high)]
    return plot(
        traces,
        440,
        shapes=[ruler("y", 1.0, palette.NEUTRAL, "dash"), ruler("x", figure.best_epoch, palette.BEST, "dot")],
        annotations=[
            note(kept, palette.BEST, "right", x=figure.best_epoch, xshift=-5, y=0.5, yref="paper"),
            note("neutral", palette.NEUTRAL, "right", x=1, xref="paper", y=0),
        ],
        xaxis=axis("epoch", rangemode="tozero"),
        yaxis=axis("Cllr, log scale", type="log", range=view, **log_axis_ticks(low, high)),
    )


def histogram_figure(histogram: Histogram, height: int, title: str = "") -> Figure:
    """LLR shares of same-source and different-source pairs: dark over light."""
    edges = histogram.edges
    width = np.diff(edges)
    if np.allclose(width, width[0], rtol=1e-6):
        first, step = rounded([(edges[0] + edges[1]) / 2, width[0]], 7)
        place: Figure = {"x0": first, "dx": step, "width": step}
    else:
        place = {"x": rounded((edges[1:] + edges[:-1]) / 2), "width": rounded(width)}
    traces = [
        {
            "type": "bar",
            "name": name,
            "y": rounded(share, 4),
            **place,
            "marker": {"color": colour, "opacity": opacity, "line": {"width": 0}},
            "hovertemplate": f"{name}: %{{y:.2%}} of the pairs<br>at LLR %{{x:.3g}}<extra></extra>",
        }
        for name, share, colour, opacity in (
            ("different-source", histogram.different, palette.DIFFERENT, 0.75),
            ("same-source", histogram.same, palette.SAME, 0.7),
        )
    ]
    x_axis: Figure = axis(title) if title else {"nticks": 4, "automargin": False}
    y_axis: Figure = axis("share of pairs") if title else {"nticks": 5}
    return plot(
        traces,
        height,
        barmode="overlay",
        bargap=0,
        showlegend=bool(title),
        xaxis={"zeroline": True, "tickangle": 0, **x_axis},
        yaxis={"tickformat": ".0%", "rangemode": "tozero", **y_axis},
        **({} if title else {"margin": SMALL}),
    )


def qq_figure(number: int, curve: Curve) -> Figure:
    """Figure 4: z-scores of one axis against standard normal quantiles, and the identity."""
    end = float(np.abs(curve.x).max())
    hover = f"axis {number}: z %{{y:.3g}} where a normal<br>distribution has %{{x:.3g}}<extra></extra>"
    symbol = "circle-open" if curve.name == "h2" else "circle"
    points = marks(curve.x, curve.y, palette.SAME, symbol, size=4, showlegend=False, hovertemplate=hover)
    across = {"tickangle": 0, "nticks": 5, "automargin": False}
    return plot([identity(-end, end, palette.NEUTRAL), points], 190, margin=SMALL, xaxis=across, yaxis={"nticks": 6})


def _shades(count: int) -> list[str]:
    """Muted colours along one dark-to-light path, so that neighbours differ in greyscale as well."""
    stops = np.array([[68, 84, 120], [120, 130, 140], [196, 160, 96]])
    place = np.linspace(0, 2, max(count, 1))
    channels = [np.interp(place, [0, 1, 2], stops[:, c]).round().astype(int) for c in range(3)]
    return [f"rgb({r},{g},{b})" for r, g, b in zip(*channels, strict=True)][:count]


def calibration_figure(panel: CalibrationPanel, limits: tuple[float, float]) -> Figure:
    """Figure 5: LLR after PAV against LLR as given, and the pairs below; ±∞ stands at the edge as a triangle."""
    low, high = limits
    llr, after = panel.pav.llr, panel.pav.pav_llr
    shown = np.isfinite(after)
    hover = "LLR as given %{x:.3g}<br>LLR after PAV %{y:.3g}<extra></extra>"
    traces = [identity(low, high, palette.IDENTITY), line(llr[shown], after[shown], palette.SAME, hovertemplate=hover)]
    below, above = llr[after == -np.inf], llr[after == np.inf]
    if below.size:
        traces.append(_infinite(float(below.max()), "below", "different", limits))
    if above.size:
        traces.append(_infinite(float(above.min()), "above", "same", limits))
    for pairs, same, at in ((panel.different, False, 0.055), (panel.same, True, 0.105)):
        if pairs:
            traces.append(pair_marks(pairs, same, low + at * (high - low), 6, (-np.inf, np.inf)))
    step = 1 if high - low < 7 else 2 if high - low < 14 else 5
    across, up = (axis(f"LLR {name}", range=[low, high], dtick=step) for name in ("as given", "after PAV"))
    margin = {"l": 48, "r": 12, "t": 10, "b": 44}
    return plot(traces, 330, showlegend=False, margin=margin, xaxis=across, yaxis=up)


def _infinite(edge: float, where: str, side: str, limits: tuple[float, float]) -> Figure:
    """The triangle at the LLR beyond which one kind of pairs occurs only."""
    low, high = limits
    down = where == "below"
    return marks(
        [min(max(edge, low), high)],
        [low + 0.03 * (high - low) if down else high],
        palette.SAME,
        "triangle-down" if down else "triangle-up",
        size=9,
        cliponaxis=False,
        hovertemplate=f"{where} LLR {number(edge)} there are {side}-source pairs only:<br>"
        f"PAV gives {'−∞' if down else '∞'}<extra></extra>",
    )


def omnibus_figures(figure: OmnibusFigure) -> dict[str, Figure]:
    """Figure 6: histogram with the most misleading pairs, ECE and Tippett."""
    histogram = histogram_figure(figure.histogram, 360, "LLR (log10)")
    edges = figure.histogram.edges
    tallest = float(max(figure.histogram.same.max(), figure.histogram.different.max()))
    for pairs, same in ((figure.misleading_different, False), (figure.misleading_same, True)):
        if pairs:
            histogram["data"].append(pair_marks(pairs, same, -0.035 * tallest, 9, (edges[0], edges[-1])))
    histogram["layout"]["yaxis"]["range"] = [-0.07 * tallest, 1.05 * tallest]
    ece, tippett = figure.ece, figure.tippett
    zero = [ruler("x", 0, palette.MUTED, "dot")]
    view = [max(float(tippett.llr[0]), -LIMIT_TIPPETT), min(float(tippett.llr[-1]), LIMIT_TIPPETT)]
    most = max(1.03, 1.1 * figure.cllr) if figure.cllr < 2 else 2.0
    entropy = _curves(
        ece.prior_log10_odds,
        "{name}<br>prior log10 odds %{{x:.2g}}: %{{y:.4f}} bits<extra></extra>",
        ("no LR (LR = 1)", ece.neutral, palette.MUTED, "dot"),
        ("this system", ece.system, palette.SAME, "solid"),
        ("after PAV", ece.pav, palette.BANDS[0], "dash"),
    )
    bits = axis("empirical cross-entropy (bits)", range=[0, most])
    shares = _curves(
        tippett.llr,
        "%{{y:.2%}} of the {name} pairs<br>have an LLR of at least %{{x:.3g}}<extra></extra>",
        ("same-source", tippett.same, palette.SAME, "solid"),
        ("different-source", tippett.different, palette.DIFFERENT, "dash"),
    )
    share = axis("share of pairs at or above", tickformat=".0%", range=[-0.02, 1.02])
    return {
        "histogram": histogram,
        "ece": plot(entropy, 360, shapes=zero, xaxis=axis("prior log10 odds"), yaxis=bits),
        "tippett": plot(shares, 360, shapes=zero, xaxis=axis("LLR (log10)", range=view), yaxis=share),
    }


def _curves(x: Floats, hover: str, *curves: tuple[str, Floats, str, str]) -> list[Figure]:
    """Lines over one x: name, y, colour and dash of each."""
    return [
        line(x, y, colour, dash=dash, name=name, hovertemplate=hover.format(name=name))
        for name, y, colour, dash in curves
    ]


def outlier_figures(figure: OutlierFigure) -> dict[str, Figure]:
    """Figure 8: what the costliest sources cost, and the mean Cllr without the k costliest."""
    outliers, without = figure.outliers, figure.without
    told = [[safe(o.source), number(o.cost), number(o.worst_llr), pair_name(*o.worst_pair), o.splits] for o in outliers]
    hatching = {"fillmode": "overlay", "fgcolor": "#ffffff", "size": 6, "solidity": 0.3}
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(range(len(outliers))),
            "x": rounded(getattr(o, part) for o in outliers),
            "marker": {"color": colour, "pattern": {"shape": shape} | hatching},
            "customdata": told,
            "hovertemplate": f"<b>%{{customdata[0]}}</b><br>{name}: %{{x:.4g}} of %{{customdata[1]}}"
            "<br>worst LLR %{customdata[2]}: %{customdata[3]}<br>in %{customdata[4]} test parts<extra></extra>",
        }
        for name, part, colour, shape in (
            ("as same source", "same", palette.SAME, ""),
            ("in different-source pairs", "different", palette.DIFFERENT, "/"),
        )
    ]
    last = ["nothing left out", *(f"last left out: {safe(o.source)}" for o in outliers)]
    falling = line(
        range(len(without)),
        without,
        palette.TEST,
        width=2,
        mode="lines+markers",
        showlegend=False,
        marker={"size": 7, "color": palette.TEST},
        customdata=last[: len(without)],
        hovertemplate="without %{x}: mean Cllr <b>%{y:.4g}</b><br>%{customdata}<extra></extra>",
    )
    return {
        "cost": plot(
            bars,
            110 + 22 * len(outliers),
            barmode="stack",
            bargap=0.3,
            shapes=[ruler("x", figure.even_share, palette.NEUTRAL, "dash")],
            xaxis=axis("share in the mean test Cllr", rangemode="tozero"),
            yaxis=lines_of_names([shorten(o.source, 24) for o in outliers]),
        ),
        "without": plot(
            [falling],
            320,
            xaxis=axis("costliest sources left out", dtick=max(1, len(without) // 10)),
            yaxis=axis("mean test Cllr", rangemode="tozero"),
        ),
    }

"""Figures 2 to 4 on the screen: how a model was trained, and what each of its axes does."""

from __future__ import annotations

import math

import numpy as np

from lindley.evaluation.curves import Histogram
from lindley.pages import palette
from lindley.pages.palette import number
from lindley.pages.run_figures import AxisPanel, Curve, LossFigure
from lindley.pages.screen.base import QUIET, Figure, log_axis_ticks, note, rounded, ruler, safe
from lindley.pages.thinning import thin_qq, thin_series

__all__ = ["histogram_figure", "loss_figure", "qq_figure"]

SMALL = {"l": 34, "r": 8, "t": 6, "b": 24}
"""Margins of a small multiple."""
MOST_QQ = 101
"""Points of a QQ plot that are drawn: more lie on top of each other."""
MOST_EPOCHS = 160
"""Epochs of a thin line, the Cllr of one axis, that are drawn; the loss itself is drawn as it comes."""


def loss_figure(figure: LossFigure) -> Figure:
    """Figure 2: training as dots, validation as a line, every axis as a thin line, the epoch that was kept."""
    traces: list[Figure] = []
    shades = _shades(len(figure.axes))
    for at, (curve, shade) in enumerate(zip(figure.axes, shades, strict=True)):
        keep = thin_series(curve.y, MOST_EPOCHS)
        line = _line(Curve(curve.name, curve.x[keep], curve.y[keep]), shade, 1.0, "solid")
        line |= {
            "legendgroup": "axes",
            "showlegend": at == 0,
            "name": "single axes, validation",
            "opacity": 0.75,
            "meta": safe(curve.name),
            "hovertemplate": "<b>%{meta}</b>, epoch %{x}<br>validation Cllr %{y:.4g}<extra></extra>",
        }
        traces.append(line)
    dots = _line(figure.train, palette.TEST, 0, "solid")
    dots |= {"mode": "markers", "marker": {"size": 3.2, "color": palette.TEST}, "name": "training"}
    traces.append(dots)
    traces.append(_line(figure.validate, palette.BEST, 2.2, "solid") | {"name": "validation"})
    for trace in traces[-2:]:
        trace["hovertemplate"] = f"<b>{trace['name']}</b>, epoch %{{x}}<br>Cllr %{{y:.4g}}<extra></extra>"
    every = np.concatenate([c.y for c in (figure.train, figure.validate, *figure.axes)])
    every = every[np.isfinite(every) & (every > 0)]
    low, high = (float(every.min()), float(np.quantile(every, 0.999))) if every.size else (0.1, 1.0)
    return {
        "data": traces,
        "layout": {
            "height": 440,
            "shapes": [
                ruler("y", 1.0, palette.NEUTRAL, "dash"),
                ruler("x", figure.best_epoch, palette.BEST, "dot"),
            ],
            "annotations": [
                note(f"kept: epoch {figure.best_epoch}, Cllr {number(figure.best_cllr)}", palette.BEST)
                | {
                    "x": figure.best_epoch,
                    "xshift": -5,
                    "y": 0.5,
                    "yref": "paper",
                    "xanchor": "right",
                    "yanchor": "bottom",
                },
                note("neutral", palette.NEUTRAL)
                | {"x": 1, "xref": "paper", "y": 0, "xanchor": "right", "yanchor": "bottom"},
            ],
            "xaxis": {"title": {"text": "epoch"}, "rangemode": "tozero"},
            "yaxis": {
                "title": {"text": "Cllr, log scale"},
                "type": "log",
                "range": [math.log10(low * 0.85), math.log10(max(high, 1.0) * 1.3)],
                **log_axis_ticks(low * 0.85, max(high, 1.0) * 1.3),
            },
        },
    }


def histogram_figure(histogram: Histogram, height: int, title: str = "") -> Figure:
    """LLR shares of same-source and different-source pairs: dark over light."""
    edges = histogram.edges
    width = np.diff(edges)
    even = bool(np.allclose(width, width[0], rtol=1e-6))
    place: Figure = (
        {"x0": rounded([(edges[0] + edges[1]) / 2], 7)[0], "dx": rounded([width[0]], 7)[0]}
        if even
        else {"x": rounded((edges[1:] + edges[:-1]) / 2), "width": rounded(width)}
    )
    traces = [
        {
            "type": "bar",
            "name": name,
            "y": rounded(share, 4),
            **place,
            **({"width": place["dx"]} if even else {}),
            "marker": {"color": colour, "opacity": opacity, "line": {"width": 0}},
            "hovertemplate": f"{name}: %{{y:.2%}} of the pairs<br>at LLR %{{x:.3g}}<extra></extra>",
        }
        for name, share, colour, opacity in (
            ("different-source", histogram.different, palette.DIFFERENT, 0.75),
            ("same-source", histogram.same, palette.SAME, 0.7),
        )
    ]
    x_axis: Figure = {"title": {"text": title}} if title else {"nticks": 4, "automargin": False}
    y_axis: Figure = {"title": {"text": "share of pairs"}} if title else {"nticks": 5}
    return {
        "data": traces,
        "layout": {
            "height": height,
            "barmode": "overlay",
            "bargap": 0,
            "showlegend": bool(title),
            "xaxis": {"zeroline": True, "tickangle": 0, **x_axis},
            "yaxis": {"tickformat": ".0%", "rangemode": "tozero", **y_axis},
            **({} if title else {"margin": SMALL}),
        },
    }


def qq_figure(panel: AxisPanel, hypothesis: str) -> Figure:
    """Figure 4: z-scores of one axis against standard normal quantiles, and the identity."""
    quantile, z = (panel.quantile_h1, panel.z_h1) if hypothesis == "h1" else (panel.quantile_h2, panel.z_h2)
    keep = thin_qq(len(z), MOST_QQ)
    end = float(np.abs(quantile).max()) if len(quantile) else 3.0
    return {
        "data": [
            {"x": [-end, end], "y": [-end, end], "line": {"color": palette.NEUTRAL, "width": 1.4, "dash": "dash"}}
            | QUIET,
            {
                "type": "scatter",
                "mode": "markers",
                "showlegend": False,
                "x": rounded(quantile[keep], 4),
                "y": rounded(z[keep], 4),
                "marker": {
                    "size": 4,
                    "color": palette.SAME,
                    "symbol": "circle-open" if hypothesis == "h2" else "circle",
                },
                "hovertemplate": f"axis {panel.axis}: z %{{y:.3g}} where a normal<br>distribution has %{{x:.3g}}"
                "<extra></extra>",
            },
        ],
        "layout": {
            "height": 190,
            "margin": SMALL,
            "xaxis": {"tickangle": 0, "nticks": 5, "automargin": False},
            "yaxis": {"nticks": 6},
        },
    }


def _line(curve: Curve, colour: str, width: float, dash: str) -> Figure:
    line = {"color": colour, "width": width, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": rounded(curve.x), "y": rounded(curve.y, 4), "line": line}


def _shades(count: int) -> list[str]:
    """Muted colours along one dark-to-light path, so that neighbours differ in greyscale as well."""
    stops = np.array([[68, 84, 120], [120, 130, 140], [196, 160, 96]])
    place = np.linspace(0, 2, max(count, 1))
    channels = [np.interp(place, [0, 1, 2], stops[:, c]).round().astype(int) for c in range(3)]
    return [f"rgb({r},{g},{b})" for r, g, b in zip(*channels, strict=True)]

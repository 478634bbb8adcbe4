"""Figures 5, 6 and 8 on the screen: calibration, the LLRs of all axes together, and the sources that cost most."""

from __future__ import annotations

import numpy as np

from lindley.pages import palette
from lindley.pages.palette import number, shorten
from lindley.pages.run_figures import CalibrationPanel, OmnibusFigure, OutlierFigure
from lindley.pages.screen.base import QUIET, Figure, pair_name, rounded, ruler, safe
from lindley.pages.screen.per_axis import histogram_figure

__all__ = ["calibration_figure", "omnibus_figures", "outlier_figures"]

LIMIT_TIPPETT = 12.0
"""The first view of a Tippett plot: different-source LLRs run far below, where nothing happens."""


def calibration_figure(panel: CalibrationPanel, limits: tuple[float, float]) -> Figure:
    """Figure 5: LLR after PAV against LLR as given, and the pairs below; ±∞ stands at the edge as a triangle."""
    low, high = limits
    llr, after = panel.pav.llr, panel.pav.pav_llr
    shown = np.isfinite(after)
    traces: list[Figure] = [
        {"x": [low, high], "y": [low, high], "line": {"color": palette.IDENTITY, "width": 1.6, "dash": "dash"}} | QUIET,
        {
            "type": "scatter",
            "mode": "lines",
            "x": rounded(llr[shown]),
            "y": rounded(after[shown]),
            "line": {"color": palette.SAME, "width": 2.2},
            "hovertemplate": "LLR as given %{x:.3g}<br>LLR after PAV %{y:.3g}<extra></extra>",
        },
    ]
    floor = low + 0.03 * (high - low)
    for infinite, symbol, at, side in (
        (-np.inf, "triangle-down", floor, "different"),
        (np.inf, "triangle-up", high, "same"),
    ):
        ends = llr[after == infinite]
        if ends.size:
            edge = float(ends.max() if infinite < 0 else ends.min())
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [rounded([min(max(edge, low), high)])[0]],
                    "y": [at],
                    "marker": {"symbol": symbol, "size": 9, "color": palette.SAME},
                    "cliponaxis": False,
                    "hovertemplate": f"{'below' if infinite < 0 else 'above'} LLR {number(edge)} there are "
                    f"{side}-source pairs only:<br>PAV gives {'−∞' if infinite < 0 else '∞'}<extra></extra>",
                }
            )
    for marks, symbol, colour, name, at in (
        (panel.different, "cross-thin-open", palette.DIFFERENT, "different-source", 0.055),
        (panel.same, "line-ns-open", palette.SAME, "same-source", 0.105),
    ):
        if marks:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": rounded(value for _, _, value in marks),
                    "y": [rounded([low + at * (high - low)])[0]] * len(marks),
                    "marker": {"symbol": symbol, "size": 6, "color": colour, "line": {"width": 1.2}},
                    "customdata": [pair_name(trace, ref) for trace, ref, _ in marks],
                    "hovertemplate": f"{name} pair<br><b>%{{customdata}}</b><br>LLR %{{x:.3g}}<extra></extra>",
                }
            )
    step = 1 if high - low < 7 else 2 if high - low < 14 else 5
    return {
        "data": traces,
        "layout": {
            "height": 330,
            "showlegend": False,
            "margin": {"l": 48, "r": 12, "t": 10, "b": 44},
            "xaxis": {"title": {"text": "LLR as given"}, "range": [low, high], "dtick": step},
            "yaxis": {"title": {"text": "LLR after PAV"}, "range": [low, high], "dtick": step},
        },
    }


def omnibus_figures(figure: OmnibusFigure) -> dict[str, Figure]:
    """Figure 6: histogram with the most misleading pairs, ECE and Tippett."""
    histogram = histogram_figure(figure.histogram, 360, "LLR (log10)")
    edges = figure.histogram.edges
    tallest = float(max(figure.histogram.same.max(), figure.histogram.different.max()))
    for marks, name, symbol, colour in (
        (figure.misleading_different, "different-source", "cross-thin-open", palette.DIFFERENT),
        (figure.misleading_same, "same-source", "line-ns-open", palette.SAME),
    ):
        if marks:
            histogram["data"].append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "showlegend": False,
                    "x": rounded(np.clip([v for _, _, v in marks], edges[0], edges[-1])),
                    "y": [rounded([-0.035 * tallest])[0]] * len(marks),
                    "marker": {"symbol": symbol, "size": 9, "color": colour, "line": {"width": 1.6}},
                    "customdata": [[pair_name(trace, ref), number(value)] for trace, ref, value in marks],
                    "hovertemplate": f"{name} pair<br><b>%{{customdata[0]}}</b>"
                    "<br>LLR %{customdata[1]}<extra></extra>",
                }
            )
    histogram["layout"]["yaxis"]["range"] = [-0.07 * tallest, 1.05 * tallest]
    ece, tippett = figure.ece, figure.tippett
    prior = rounded(ece.prior_log10_odds)
    ece_traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": prior,
            "y": rounded(values),
            "line": {"color": colour, "width": 2.2, "dash": dash},
            "hovertemplate": f"{name}<br>prior log10 odds %{{x:.2g}}: %{{y:.4f}} bits<extra></extra>",
        }
        for name, values, colour, dash in (
            ("no LR (LR = 1)", ece.neutral, palette.MUTED, "dot"),
            ("this system", ece.system, palette.SAME, "solid"),
            ("after PAV", ece.pav, palette.BANDS[0], "dash"),
        )
    ]
    tippett_traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": rounded(tippett.llr),
            "y": rounded(share, 4),
            "line": {"color": colour, "width": 2.2, "dash": dash},
            "hovertemplate": f"%{{y:.2%}} of the {name} pairs<br>have an LLR of at least %{{x:.3g}}<extra></extra>",
        }
        for name, share, colour, dash in (
            ("same-source", tippett.same, palette.SAME, "solid"),
            ("different-source", tippett.different, palette.DIFFERENT, "dash"),
        )
    ]
    left, right = max(float(tippett.llr[0]), -LIMIT_TIPPETT), min(float(tippett.llr[-1]), LIMIT_TIPPETT)
    return {
        "histogram": histogram,
        "ece": {
            "data": ece_traces,
            "layout": {
                "height": 360,
                "shapes": [ruler("x", 0, palette.MUTED, "dot")],
                "xaxis": {"title": {"text": "prior log10 odds"}},
                "yaxis": {
                    "title": {"text": "empirical cross-entropy (bits)"},
                    "range": [0, max(1.03, 1.1 * figure.cllr) if figure.cllr < 2 else 2.0],
                },
            },
        },
        "tippett": {
            "data": tippett_traces,
            "layout": {
                "height": 360,
                "shapes": [ruler("x", 0, palette.MUTED, "dot")],
                "xaxis": {"title": {"text": "LLR (log10)"}, "range": [left, right]},
                "yaxis": {"title": {"text": "share of pairs at or above"}, "tickformat": ".0%", "range": [-0.02, 1.02]},
            },
        },
    }


def outlier_figures(figure: OutlierFigure) -> dict[str, Figure]:
    """Figure 8: what the costliest sources cost, and the mean Cllr without the k costliest."""
    outliers = figure.outliers
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(range(len(outliers))),
            "x": rounded(getattr(o, part) for o in outliers),
            "marker": {
                "color": colour,
                "pattern": {"shape": shape, "fillmode": "overlay", "fgcolor": "#ffffff", "size": 6, "solidity": 0.3},
            },
            "customdata": [
                [safe(o.source), number(o.cost), number(o.worst_llr), pair_name(*o.worst_pair), o.splits]
                for o in outliers
            ],
            "hovertemplate": f"<b>%{{customdata[0]}}</b><br>{name}: %{{x:.4g}} of %{{customdata[1]}}"
            "<br>worst LLR %{customdata[2]}: %{customdata[3]}<br>in %{customdata[4]} test parts<extra></extra>",
        }
        for name, part, colour, shape in (
            ("as same source", "same", palette.SAME, ""),
            ("in different-source pairs", "different", palette.DIFFERENT, "/"),
        )
    ]
    without = figure.without
    return {
        "cost": {
            "data": bars,
            "layout": {
                "height": 110 + 22 * len(outliers),
                "barmode": "stack",
                "bargap": 0.3,
                "shapes": [ruler("x", figure.even_share, palette.NEUTRAL, "dash")],
                "xaxis": {"title": {"text": "share in the mean test Cllr"}, "rangemode": "tozero"},
                "yaxis": {
                    "range": [len(outliers) - 0.4, -0.6],
                    "tickvals": list(range(len(outliers))),
                    "ticktext": [safe(shorten(o.source, 24)) for o in outliers],
                    "ticks": "",
                    "zeroline": False,
                    "fixedrange": True,
                },
            },
        },
        "without": {
            "data": [
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "showlegend": False,
                    "x": list(range(len(without))),
                    "y": rounded(without),
                    "line": {"color": palette.TEST, "width": 2},
                    "marker": {"size": 7, "color": palette.TEST},
                    "customdata": ["nothing left out", *(f"last left out: {safe(o.source)}" for o in outliers)][
                        : len(without)
                    ],
                    "hovertemplate": "without %{x}: mean Cllr <b>%{y:.4g}</b><br>%{customdata}<extra></extra>",
                }
            ],
            "layout": {
                "height": 320,
                "xaxis": {"title": {"text": "costliest sources left out"}, "dtick": max(1, len(without) // 10)},
                "yaxis": {"title": {"text": "mean test Cllr"}, "rangemode": "tozero"},
            },
        },
    }

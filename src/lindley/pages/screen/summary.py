"""Figure 1 on the screen: the grand summary."""

from __future__ import annotations

import math
from textwrap import wrap

from lindley.pages import palette
from lindley.pages.palette import number, shorten
from lindley.pages.run_figures import SummaryFigure
from lindley.pages.screen.base import Figure, log_axis_ticks, rounded, ruler, safe

__all__ = ["summary_figure"]

SYMBOLS = {"single": "square", "double": "circle", "robust": "triangle-up", "benchmark": "diamond"}
LINE, LABEL = 34, 20
"""Pixels for a line of the figure, and for a label above it."""


def summary_figure(figure: SummaryFigure) -> Figure:
    """Figure 1: a line per model, Cllr to the right; validation light, test dark; squares single, circles double."""
    layout = palette.summary_layout(figure)
    lines = len(layout.labels)
    traces: list[Figure] = []
    for part, colour in (("validate", palette.VALIDATE), ("test", palette.TEST)):
        for family, symbol in SYMBOLS.items():
            rows = [(r, p) for r, p in zip(figure.rows, layout.places, strict=True) if r.family == family]
            if not rows:
                continue
            spans = [layout.span(getattr(r, part), getattr(r, f"{part}_error")) for r, _ in rows]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{'validation' if part == 'validate' else 'test'}, {family}",
                    "x": rounded(getattr(r, part) for r, _ in rows),
                    "y": [p + (-0.07 if part == "validate" else 0.07) for _, p in rows],
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": rounded(s[1] for s in spans),
                        "arrayminus": rounded(s[0] for s in spans),
                        "thickness": 1.6,
                        "width": 4,
                        "color": colour,
                    },
                    "marker": {
                        "symbol": symbol,
                        "size": 9,
                        "color": colour,
                        "line": {"color": palette.TEST, "width": 1},
                    },
                    "customdata": [
                        [
                            safe(r.label),
                            safe(r.name),
                            number(getattr(r, f"{part}_error"), 2),
                            f"median {number(r.test_median)}, Cllr_min {number(r.test_min)}"
                            + (", post-hoc calibrated" if r.calibrated else ""),
                        ]
                        for r, _ in rows
                    ],
                    "hovertemplate": "<b>%{customdata[0]}</b>, "
                    + family
                    + f"<br>{'validation' if part == 'validate' else 'test'} "
                    "Cllr %{x:.4f} ± %{customdata[2]}<br>test: %{customdata[3]}<br>%{customdata[1]}<extra></extra>",
                }
            )
    notes = _labels(layout, 120)
    low, high = layout.limits
    labels = [safe(shorten(label, 40)) for label in layout.labels]
    ticks = log_axis_ticks(low, high) if layout.log else {}
    decades = [at for at in ticks.get("tickvals", ()) if math.log10(at).is_integer()]
    return {
        "data": traces,
        "layout": {
            "height": 64 + LABEL * len(notes) + LINE * lines,
            "margin": {"t": 14 + LABEL * len(notes), "r": 20, "b": 50},
            "showlegend": False,
            "shapes": _lines(layout),
            "annotations": notes,
            "xaxis": {
                "title": {"text": "Cllr (0 perfect, 1 says nothing)" + (", log scale" if layout.log else "")},
                "type": "log" if layout.log else "linear",
                "range": [math.log10(low), math.log10(high)] if layout.log else [low, high],
                **ticks,
            },
            "yaxis": {
                "range": [lines - 0.4, -0.6],
                "tickvals": list(range(lines)),
                "ticktext": labels,
                "zeroline": False,
                "ticks": "",
                "fixedrange": True,
            },
        },
        "medium": {"annotations": _labels(layout, 70, short=True)},
        "narrow": {
            "yaxis.ticktext": ["<br>".join(wrap(shorten(label, 40), 18)) for label in labels],
            "yaxis.tickfont": {"size": 10.5},
            **({"xaxis.tickvals": decades, "xaxis.ticktext": [f"{at:g}" for at in decades]} if layout.log else {}),
            "xaxis.title": {"text": "Cllr" + (", log scale" if layout.log else "")},
            "annotations": _labels(layout, 36, short=True),
        },
    }


def _lines(layout: palette.SummaryLayout) -> list[Figure]:
    """Bands and lines from the axis up to their labels."""
    inner = LINE * len(layout.labels)
    shapes: list[Figure] = []
    if 0 < layout.benchmarks < len(layout.labels):
        between = len(layout.labels) - layout.benchmarks - 0.5
        shapes.append(ruler("y", between, "#b9c2ca", "solid") | {"layer": "below"})
    across = {"yref": "paper", "y0": 0, "layer": "below"}
    for level, band in enumerate(layout.bands):
        below, above = layout.span(band.mean, band.error)
        if band.error > 0:
            ends = {"x0": band.mean - below, "x1": band.mean + above, "y1": 1}
            shapes.append(
                {"type": "rect", "fillcolor": band.colour, "opacity": 0.12, "line": {"width": 0}} | ends | across
            )
        line = {"color": band.colour, "width": 1.6, "dash": band.dash}
        top = 1 + (18 + LABEL * level) / inner
        shapes.append({"type": "line", "x0": band.mean, "x1": band.mean, "y1": top, "line": line} | across)
    return shapes


def _labels(layout: palette.SummaryLayout, letters: int, short: bool = False) -> list[Figure]:
    """The names of the lines, above each other: the line furthest left goes highest, so that it crosses no other's name."""
    inner = LINE * len(layout.labels)
    notes: list[Figure] = []
    for level, band in enumerate(layout.bands):
        text = band.short if short else band.label
        right = layout.has_room(text, band.mean, letters)
        notes.append(
            {
                "x": math.log10(band.mean) if layout.log else band.mean,
                "y": 1 + (4 + LABEL * level) / inner,
                "yref": "paper",
                "yanchor": "bottom",
                "xanchor": "left" if right else "right",
                "xshift": 4 if right else -4,
                "text": safe(text),
                "font": {"color": band.colour, "size": 12},
                "bgcolor": "rgba(255,255,255,0.8)",
                "borderpad": 0,
                "showarrow": False,
            }
        )
    return notes

"""The figures of a report for the screen: plain dictionaries as plotly.js reads them, nothing drawn here.

Names from the user's table travel as data (``customdata``), never inside a template, and with their markup escaped:
plotly reads a few HTML tags in any text. Numbers keep five digits, which no screen can tell from all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from lindley.pages import palette
from lindley.pages.numerals import number, shorten, times
from lindley.pages.run_figures import (
    DataFigure,
    SeriesFigure,
    SummaryFigure,
    SummaryLayout,
    SummaryRow,
    series_layout,
    summary_layout,
)
from lindley.pages.run_screen.one_model import kind_figures, model_figures
from lindley.pages.run_screen.parts import (
    CONFIG,
    TEMPLATE,
    Figure,
    axis,
    line,
    lines_of_names,
    log_axis_ticks,
    marks,
    note,
    plot,
    rounded,
    ruler,
    safe,
)
from lindley.system.kinds import Family

__all__ = ["CONFIG", "TEMPLATE", "data_figures", "kind_figures", "model_figures", "series_figure", "summary_figure"]

LINE, LABEL = 34, 20
"""Pixels for a line of the figure, and for a label above it."""


def summary_figure(figure: SummaryFigure) -> Figure:
    """Figure 1: a line per model, Cllr to the right; validation light, test dark; squares single, circles double."""
    layout = summary_layout(figure)
    traces = []
    for part in ("validate", "test"):
        for family in palette.MARKS:
            rows = [(r, p) for r, p in zip(figure.rows, layout.places, strict=True) if r.family == family]
            if rows:
                traces.append(_family(rows, family, part, layout))
    notes = _labels(layout, 120)
    low, high = layout.limits
    scale: Figure = {"range": [low, high]}
    narrow: Figure = {}
    if layout.log:
        scale = {"type": "log", "range": [math.log10(low), math.log10(high)], **log_axis_ticks(low, high)}
        decades = [at for at in scale["tickvals"] if math.log10(at).is_integer()]
        narrow = {"xaxis.tickvals": decades, "xaxis.ticktext": [f"{at:g}" for at in decades]}
    in_log = ", log scale" if layout.log else ""
    labels = [shorten(label, 40) for label in layout.labels]
    wide = plot(
        traces,
        64 + LABEL * len(notes) + LINE * len(labels),
        margin={"t": 14 + LABEL * len(notes), "r": 20, "b": 50},
        showlegend=False,
        shapes=_lines(layout),
        annotations=notes,
        xaxis=axis(f"Cllr (0 perfect, 1 says nothing){in_log}", **scale),
        yaxis=lines_of_names(labels),
    )
    return wide | {
        "medium": {"annotations": _labels(layout, 70, short=True)},
        "narrow": {
            "yaxis.ticktext": ["<br>".join(wrap(safe(label), 18)) for label in labels],
            "yaxis.tickfont": {"size": 10.5},
            **narrow,
            "xaxis.title": {"text": f"Cllr{in_log}"},
            "annotations": _labels(layout, 36, short=True),
        },
    }


def _family(rows: list[tuple[SummaryRow, float]], family: Family, part: str, layout: SummaryLayout) -> Figure:
    """The rows of one family, with their places, on the validation or on the test sources."""
    word, colour, shift = (
        ("validation", palette.VALIDATE, -0.07) if part == "validate" else ("test", palette.TEST, 0.07)
    )
    values = [getattr(row, part) for row, _ in rows]
    errors = [getattr(row, f"{part}_error") for row, _ in rows]
    below, above = zip(*map(layout.span, values, errors), strict=True)
    bars = {"type": "data", "symmetric": False, "array": rounded(above), "arrayminus": rounded(below)}
    told = [
        f"median {number(row.test_median)}, Cllr_min {number(row.test_min)}"
        + (", post-hoc calibrated" if row.calibrated else "")
        for row, _ in rows
    ]
    return marks(
        values,
        [place + shift for _, place in rows],
        colour,
        palette.MARKS[family].screen,
        size=9,
        edge={"color": palette.TEST, "width": 1},
        name=f"{word}, {family}",
        error_x=bars | {"thickness": 1.6, "width": 4, "color": colour},
        customdata=[
            [safe(row.label), safe(row.name), number(error, 2), about]
            for (row, _), error, about in zip(rows, errors, told, strict=True)
        ],
        hovertemplate=f"<b>%{{customdata[0]}}</b>, {family}<br>{word} Cllr %{{x:.4f}} ± %{{customdata[2]}}<br>"
        "test: %{customdata[3]}<br>%{customdata[1]}<extra></extra>",
    )


def _lines(layout: SummaryLayout) -> list[Figure]:
    """Bands and lines from the axis up to their labels."""
    inner = LINE * len(layout.labels)
    shapes: list[Figure] = []
    if 0 < layout.benchmarks < len(layout.labels):
        between = len(layout.labels) - layout.benchmarks - 0.5
        shapes.append(ruler("y", between, palette.RULE, "solid", layer="below"))
    for level, band in enumerate(layout.bands):
        below, above = layout.span(band.mean, band.error)
        if band.error > 0:
            ends = {"x0": band.mean - below, "x1": band.mean + above, "y0": 0, "y1": 1, "yref": "paper"}
            look = {"fillcolor": band.colour, "opacity": 0.12, "line": {"width": 0}, "layer": "below"}
            shapes.append({"type": "rect", **ends, **look})
        top = 1 + (18 + LABEL * level) / inner
        shapes.append(ruler("x", band.mean, band.colour, band.dash, y1=top, layer="below"))
    return shapes


def _labels(layout: SummaryLayout, letters: int, short: bool = False) -> list[Figure]:
    """The names of the lines, above each other: the line furthest left goes highest, so that it crosses no other's name."""
    inner = LINE * len(layout.labels)
    notes: list[Figure] = []
    for level, band in enumerate(layout.bands):
        text = band.short if short else band.label
        side, shift = ("left", 4) if layout.has_room(text, band.mean, letters) else ("right", -4)
        x = math.log10(band.mean) if layout.log else band.mean
        y = 1 + (4 + LABEL * level) / inner
        notes.append(note(text, band.colour, side, x=x, xshift=shift, y=y, yref="paper", borderpad=0))
    return notes


def series_figure(figure: SeriesFigure) -> Figure:
    """Cllr as measurements are added: a line per model; the table below is its legend where there is no room for one."""
    layout = series_layout(figure)
    sizes = [times(size) for size in figure.sizes]
    traces = []
    for drawn in layout.lines:
        ends = {"array": rounded(drawn.above), "arrayminus": rounded(drawn.below), "thickness": 1.2, "width": 3}
        symbol = {} if drawn.mark is None else {"symbol": drawn.mark.screen, "size": 8}
        traces.append(
            line(
                drawn.places,
                drawn.cllr,
                drawn.colour,
                dash=drawn.dash,
                mode="lines" if drawn.mark is None else "lines+markers",
                marker=symbol,
                name=safe(shorten(drawn.row.label, 40)),
                customdata=[
                    [safe(drawn.row.label), size, number(error, 2)]
                    for size, error in zip(sizes, drawn.row.error, strict=True)
                ],
                hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}: mean test Cllr %{y:.4f} ± %{customdata[2]}"
                "<extra></extra>",
                error_y={"type": "data", "symmetric": False, "visible": drawn.has_errors, **ends},
            )
        )
    low, high = layout.limits
    scale: Figure = {"range": [low, high]}
    if layout.log:
        scale = {"type": "log", "range": [math.log10(low), math.log10(high)], **log_axis_ticks(low, high)}
    across = {"tickvals": list(range(len(sizes))), "ticktext": sizes, "zeroline": False}
    wide = plot(
        traces,
        max(400, 110 + 20 * len(traces)),
        legend={"orientation": "v", "x": 1.02, "xanchor": "left", "y": 1, "yanchor": "top"},
        xaxis=axis("measurements: trace × ref", range=[-0.3, len(sizes) - 0.7], **across),
        yaxis=axis("mean test Cllr" + (", log scale" if layout.log else ""), **scale),
    )
    return wide | {"medium": {"showlegend": False}, "narrow": {"showlegend": False}}


def data_figures(data: DataFigure, marked: Mapping[str, str]) -> dict[str, Any]:
    """Source means by feature, for the scatter plot of two features; ``marked``: sources to point out, and why."""
    return {
        "features": [safe(name) for name in data.features],
        "columns": [rounded(column, 5) for column in data.source_means.T],
        "sources": [safe(name) for name in data.sources],
        "marked": {str(i): marked[name] for i, name in enumerate(data.sources) if name in marked},
        "colours": [palette.SAME, palette.NEUTRAL],
    }

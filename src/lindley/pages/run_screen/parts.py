"""What every figure on the screen is made of: plotly's template and settings, safe names, short numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lindley.evaluation.pair_grid import NamedPair
from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.numerals import log_ticks, number, plain

__all__ = [
    "CONFIG",
    "TEMPLATE",
    "Figure",
    "axis",
    "identity",
    "line",
    "lines_of_names",
    "log_axis_ticks",
    "marks",
    "note",
    "pair_marks",
    "pair_name",
    "plot",
    "rounded",
    "ruler",
    "safe",
]

Figure = dict[str, Any]
Numbers = Floats | Iterable[float]

CONFIG: Figure = {
    "displaylogo": False,
    "responsive": True,
    "showLink": False,
    "plotlyServerURL": "",
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "svg"},
}

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
_AXIS: Figure = {
    "gridcolor": palette.GRID,
    "linecolor": palette.MUTED,
    "zerolinecolor": palette.RULE,
    "zerolinewidth": 1,
    "ticks": "outside",
    "ticklen": 4,
    "tickcolor": palette.MUTED,
    "automargin": True,
    "title": {"standoff": 8, "font": {"size": 12.5}},
}
TEMPLATE: Figure = {
    "layout": {
        "font": {"family": FONT, "size": 12.5, "color": palette.INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": palette.MUTED, "font": {"family": FONT, "size": 13}},
        "hovermode": "closest",
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
    }
}


def safe(text: str) -> str:
    """A user's name that plotly shows as it is, without reading markup in it."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rounded(values: Numbers, digits: int = 5) -> list[float | None]:
    """Numbers with few digits; what is not finite becomes a gap."""
    out: list[float | None] = []
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=np.float64)
    for value in array.reshape(-1).tolist():
        short = float(f"{value:.{digits}g}") if math.isfinite(value) else None
        out.append(int(short) if short is not None and short == int(short) and abs(short) < 1e9 else short)
    return out


def plot(data: list[Figure], height: int, **layout: Any) -> Figure:
    """A figure: what it shows, how high it is in pixels, and the rest of plotly's layout."""
    return {"data": data, "layout": {"height": height, **layout}}


def line(x: Numbers, y: Numbers, colour: str, *, dash: str = "solid", width: float = 2.2, **more: Any) -> Figure:
    """A line through points."""
    style = {"color": colour, "width": width, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": rounded(x), "y": rounded(y), "line": style} | more


def marks(
    x: Numbers, y: Numbers, colour: str, symbol: str = "circle", *, size: float, edge: Figure | None = None, **more: Any
) -> Figure:
    """Points that are not joined."""
    marker = {"symbol": symbol, "size": size, "color": colour} | ({} if edge is None else {"line": edge})
    return {"type": "scatter", "mode": "markers", "x": rounded(x), "y": rounded(y), "marker": marker} | more


def identity(low: float, high: float, colour: str) -> Figure:
    """The dashed diagonal on which two axes say the same."""
    return line([low, high], [low, high], colour, dash="dash", width=1.5, hoverinfo="skip", showlegend=False)


def axis(title: str, **more: Any) -> Figure:
    """An axis with its title."""
    return {"title": {"text": title}} | more


def ruler(axis: str, at: float, colour: str, dash: str, **more: Any) -> Figure:
    """A straight line across the plot at one value of an axis."""
    other = "y" if axis == "x" else "x"
    ends = {f"{axis}0": at, f"{axis}1": at, f"{other}0": 0, f"{other}1": 1, f"{other}ref": "paper"}
    return {"type": "line", **ends, "line": {"color": colour, "width": 1.5, "dash": dash}} | more


def lines_of_names(names: Sequence[str]) -> Figure:
    """An axis upwards with one line per name, the first at the top."""
    return {
        "range": [len(names) - 0.4, -0.6],
        "tickvals": list(range(len(names))),
        "ticktext": [safe(name) for name in names],
        "zeroline": False,
        "ticks": "",
        "fixedrange": True,
    }


def log_axis_ticks(low: float, high: float) -> Figure:
    """Ticks of a log axis as numbers in full."""
    values = log_ticks(low, high)
    return {"tickvals": rounded(values), "ticktext": [f"{value:g}" for value in values]}


def note(text: str, colour: str, side: str, **more: Any) -> Figure:
    """A word beside a line, in its colour; it ends or begins where ``side``, left or right, says."""
    font = {"color": colour, "size": 12}
    ground = {"bgcolor": "rgba(255,255,255,0.75)", "showarrow": False}
    return {"text": safe(text), "font": font, "xanchor": side, "yanchor": "bottom", **ground} | more


def pair_name(trace: str, ref: str) -> str:
    """Trace and ref as a hover shows them."""
    return f"{safe(trace)} – {safe(ref)}"


def pair_marks(pairs: Sequence[NamedPair], same: bool, y: float, size: float, limits: tuple[float, float]) -> Figure:
    """Pairs at their LLRs, held within limits; a hover names them."""
    kind, symbol, colour = (
        ("same-source", "line-ns-open", palette.SAME)
        if same
        else ("different-source", "cross-thin-open", palette.DIFFERENT)
    )
    return marks(
        np.clip([llr for *_, llr in pairs], *limits),
        [y] * len(pairs),
        colour,
        symbol,
        size=size,
        edge={"width": 1.4},
        showlegend=False,
        customdata=[[pair_name(trace, ref), number(llr)] for trace, ref, llr in pairs],
        hovertemplate=f"{kind} pair<br><b>%{{customdata[0]}}</b><br>LLR %{{customdata[1]}}<extra></extra>",
    )

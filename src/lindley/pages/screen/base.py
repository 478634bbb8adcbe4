"""What every figure on the screen is made of: plotly's template and settings, safe names, short numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.palette import plain

__all__ = ["CONFIG", "QUIET", "TEMPLATE", "Figure", "log_axis_ticks", "note", "pair_name", "rounded", "ruler", "safe"]

Figure = dict[str, Any]

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
    "zerolinecolor": "#b9c2ca",
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
QUIET: Figure = {"hoverinfo": "skip", "showlegend": False, "mode": "lines"}


def safe(text: str) -> str:
    """A user's name that plotly shows as it is, without reading markup in it."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rounded(values: Floats | Iterable[float], digits: int = 5) -> list[float | None]:
    """Numbers with few digits; what is not finite becomes a gap."""
    out: list[float | None] = []
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=np.float64)
    for value in array.reshape(-1).tolist():
        short = float(f"{value:.{digits}g}") if math.isfinite(value) else None
        out.append(int(short) if short is not None and short == int(short) and abs(short) < 1e9 else short)
    return out


def ruler(axis: str, at: float, colour: str, dash: str) -> Figure:
    """A straight line across the plot at one value of an axis."""
    other = "y" if axis == "x" else "x"
    return {
        "type": "line",
        f"{axis}0": at,
        f"{axis}1": at,
        f"{other}0": 0,
        f"{other}1": 1,
        f"{other}ref": "paper",
        "line": {"color": colour, "width": 1.5, "dash": dash},
    }


def log_axis_ticks(low: float, high: float) -> Figure:
    """Ticks of a log axis as numbers in full."""
    values = palette.log_ticks(low, high)
    return {"tickvals": rounded(values), "ticktext": [f"{value:g}" for value in values]}


def note(text: str, colour: str) -> Figure:
    """A word beside a line, in its colour."""
    return {
        "text": text,
        "font": {"color": colour, "size": 12},
        "showarrow": False,
        "bgcolor": "rgba(255,255,255,0.75)",
    }


def pair_name(trace: str, ref: str) -> str:
    """Trace and ref as a hover shows them."""
    return f"{safe(trace)} – {safe(ref)}"

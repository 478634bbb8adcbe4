"""The figures of a report as still pictures, SVG and PNG: for papers, for print, for a page without scripts.

matplotlib's object interface with the Agg and SVG writers: no window, no state, no date in a file, so that the same
report gives the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from lindley.pages import palette
from lindley.pages.run_drawings import (
    draw_axis_histograms,
    draw_axis_qq,
    draw_calibration,
    draw_loss,
    draw_omnibus,
    draw_outliers,
    draw_summary,
)
from lindley.pages.run_figures import Report
from lindley.pages.scatter import draw_scatter_matrix
from lindley.table.export import write_atomically

__all__ = ["Picture", "draw_pictures", "picture", "save_figures"]

_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.edgecolor": palette.MUTED,
    "axes.labelcolor": palette.INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "text.color": palette.INK,
    "text.parse_math": False,  # a dollar in the name of a source is a dollar
    "xtick.color": palette.INK,
    "ytick.color": palette.INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "lindley",
    "svg.fonttype": "path",
}


@contextmanager
def _style() -> Iterator[None]:
    """House style; a letter that the font lacks shows as a box rather than as a warning on the terminal."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@dataclass(frozen=True)
class Picture:
    """One picture as the two kinds of file."""

    svg: bytes  # text as outlines
    png: bytes


def picture(draw: Callable[[], Figure], dpi: int = 200) -> Picture:
    """Draw once, write twice."""
    vector, raster = io.BytesIO(), io.BytesIO()
    with _style():
        figure = draw()
        figure.savefig(raster, format="png", dpi=dpi, metadata={"Software": None})
        figure.set_layout_engine("none")  # the layout is found; a second search for it takes as long as the drawing
        figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(vector.getvalue(), raster.getvalue())


def draw_pictures(report: Report, every_loss: bool = True) -> dict[str, Picture]:
    """The summary, the data, the model that is shown first and the loss of every neural model, by file name."""
    drawings = _drawings(report)
    for model in report.models:
        if model.loss is not None and every_loss:
            drawings[f"loss-{_file_name(model.loss.model)}"] = partial(draw_loss, model.loss)
    return {name: picture(draw) for name, draw in drawings.items()}


def save_figures(report: Report, folder: Path, pictures: Mapping[str, Picture] | None = None) -> list[Path]:
    """Write the pictures as SVG and PNG; ``pictures``: if they are drawn already."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, drawn in (draw_pictures(report) if pictures is None else pictures).items():
        for ending, content in (("svg", drawn.svg), ("png", drawn.png)):
            paths.append(folder / f"{name}.{ending}")
            write_atomically(paths[-1], content)
    return paths


def _drawings(report: Report) -> dict[str, Callable[[], Figure]]:
    """What is to draw of the whole run, and of the model that is shown first."""
    data = report.data
    drawings: dict[str, Callable[[], Figure]] = {"summary": partial(draw_summary, report.summary)}
    for at, figure in enumerate(report.kinds):
        drawings[f"calibration-kinds-{at + 1}"] = partial(draw_calibration, figure)
    model = next((m for m in report.models if m.name == report.best), None)
    if model is not None:
        if model.loss is not None:
            drawings["best-loss"] = partial(draw_loss, model.loss)
        if model.axes is not None:
            drawings["best-axes-llr"] = partial(draw_axis_histograms, model.axes)
            drawings["best-axes-qq-h1"] = partial(draw_axis_qq, model.axes, "h1")
            drawings["best-axes-qq-h2"] = partial(draw_axis_qq, model.axes, "h2")
        drawings["best-calibration-runs"] = partial(draw_calibration, model.runs)
        drawings["best-omnibus"] = partial(draw_omnibus, model.omnibus)
        drawings["best-outliers"] = partial(draw_outliers, model.outliers)
    drawings["data-source-means"] = partial(draw_scatter_matrix, data.features, data.source_means)
    drawings["data-deviations"] = partial(draw_scatter_matrix, data.features, data.deviations)
    return drawings


def _file_name(model: str) -> str:
    """A model's name as a file name on every system: ``yeo-johnson:tlm`` becomes ``yeo-johnson_tlm``."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", model)

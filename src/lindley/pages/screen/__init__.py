"""The figures of a report for the screen: plain dictionaries as plotly.js reads them, nothing drawn here.

Names from the user's table travel as data (``customdata``), never inside a template, and with their markup escaped:
plotly reads a few HTML tags in any text. Numbers keep five digits, which no screen can tell from all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lindley.pages import palette
from lindley.pages.run_figures import CalibrationFigure, DataFigure, ModelFigures
from lindley.pages.screen.base import CONFIG, TEMPLATE, Figure, rounded, safe
from lindley.pages.screen.omnibus import calibration_figure, omnibus_figures, outlier_figures
from lindley.pages.screen.per_axis import histogram_figure, loss_figure, qq_figure
from lindley.pages.screen.summary import summary_figure

__all__ = ["CONFIG", "TEMPLATE", "data_figures", "kind_figures", "model_figures", "summary_figure"]


def model_figures(model: ModelFigures) -> dict[str, Figure]:
    """Every figure of one model under the name that the page asks for."""
    figures: dict[str, Figure] = {}
    if model.loss is not None:
        figures["loss"] = loss_figure(model.loss)
    if model.axes is not None:
        for panel in model.axes.panels:
            figures[f"axis-{panel.axis}"] = histogram_figure(panel.histogram, 170)
            figures[f"h1-{panel.axis}"] = qq_figure(panel, "h1")
            figures[f"h2-{panel.axis}"] = qq_figure(panel, "h2")
    figures |= _calibrations(model.runs, "run")
    figures |= omnibus_figures(model.omnibus)
    figures |= outlier_figures(model.outliers)
    return figures


def kind_figures(kinds: Iterable[CalibrationFigure]) -> dict[str, Figure]:
    """The calibration plots of raw, point-value and integrated predictions."""
    figures: dict[str, Figure] = {}
    for at, figure in enumerate(kinds):
        figures |= _calibrations(figure, f"kind-{at}")
    return figures


def data_figures(data: DataFigure, marked: Mapping[str, str]) -> dict[str, Any]:
    """Source means by feature, for the scatter plot of two features; ``marked``: sources to point out, and why."""
    return {
        "features": [safe(name) for name in data.features],
        "columns": [rounded(column, 5) for column in data.source_means.T],
        "sources": [safe(name) for name in data.sources],
        "marked": {str(i): marked[name] for i, name in enumerate(data.sources) if name in marked},
        "colours": [palette.SAME, palette.NEUTRAL],
    }


def _calibrations(figure: CalibrationFigure, name: str) -> dict[str, Figure]:
    limits = palette.calibration_limits(figure)
    return {f"{name}-{at}": calibration_figure(panel, limits) for at, panel in enumerate(figure.panels)}

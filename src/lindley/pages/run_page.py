"""The report of a run: text, tables, figure data, plotly.js and pictures in one HTML file.

Inside figure data every "<" is written as its number, so that no name of a user's table can end a script.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from threadpoolctl import threadpool_limits

from lindley.experiment.saved import SavedRun
from lindley.files import write_atomically
from lindley.llrs import Floats
from lindley.models.blocks import one_thread
from lindley.pages import palette, run_screen
from lindley.pages.numerals import number, scientific
from lindley.pages.page import Picture, Step, asset, render_page, silently
from lindley.pages.pdf import page_as_pdf
from lindley.pages.run_build import build_report
from lindley.pages.run_drawings import MOST_FEATURES, draw_pictures, save_pictures
from lindley.pages.run_figures import Report, series_layout
from lindley.pages.run_sketch import draw_focus, draw_sketch, focus_words
from lindley.pages.run_words import AXIS_KINDS, headline, model_labels, panel_title, series_words
from lindley.workers import MOST_WORKERS, Workers

__all__ = ["MOST_COLUMNS", "covariance_table", "render_run", "write_report", "write_run_report"]

MOST_COLUMNS = 30
"""More columns than this on a page are no table for a person; the first are shown, and the page says so."""


def write_run_report(folder: Path, step: Step = silently, *, pdf: bool = False, workers: int | None = None) -> Path:
    """The report of the run that was saved in a folder, written there; the path of the page.

    On one thread: operations are short, and on a machine with other work threads would wait for one another at each. The
    figures are made by so many ``workers``, or as many as torch may use threads.
    """
    step("drawing the report", "reading the results", 0.0)
    run = SavedRun.open(folder)
    number = min(torch.get_num_threads(), MOST_WORKERS) if workers is None else workers
    ours = all(run.spec(name).kind.is_ours for name in run.models)
    with Workers(number if ours else 1) as pool, one_thread(), threadpool_limits(1):
        report = build_report(run, pool, lambda done: step("drawing the report", "reading the results", 0.4 * done))
        return write_report(report, folder, step, pool, pdf=pdf)


def write_report(
    report: Report, folder: Path, step: Step = silently, workers: Workers | None = None, *, pdf: bool = False
) -> Path:
    """Write ``report.html`` and ``figures/`` into a folder, and ``report.pdf`` if asked; the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    step("drawing the report", "figures", 0.4)
    pictures = draw_pictures(
        report, workers=workers, progress=lambda done: step("drawing the report", "figures", 0.4 + 0.4 * done)
    )
    save_pictures(folder / "figures", pictures)
    for name, drawn in _drawn_by_hand(report).items():
        write_atomically(folder / "figures" / f"{name}.svg", drawn.encode("utf-8"))
    step("drawing the report", "the page", 0.8)
    path, page = folder / "report.html", render_run(report, pictures)
    write_atomically(path, page.encode("utf-8"))
    if pdf:
        step("drawing the report", "the PDF", 0.9)
        write_atomically(path.with_suffix(".pdf"), page_as_pdf(page))
    else:
        path.with_suffix(".pdf").unlink(missing_ok=True)  # of what this page said before
    return path


def _drawn_by_hand(report: Report) -> dict[str, str]:
    """The pictures of the model that is shown first which are on the page as they are."""
    model = next((each for each in report.models if each.name == report.best), None)
    drawn: dict[str, str] = {}
    if model is not None and model.sketch is not None:
        drawn["best-sketch"] = draw_sketch(model.sketch)
    if model is not None and model.focus is not None:
        drawn["best-focus"] = draw_focus(model.focus)
    return drawn


def render_run(report: Report, pictures: Mapping[str, Picture] | None = None) -> str:
    """The page as text; ``pictures``: if they are drawn already."""
    drawn = draw_pictures(report, every_loss=False) if pictures is None else pictures
    store = _Store()
    overall = {"summary": run_screen.summary_figure(report.summary)}
    if report.series is not None:
        overall["series"] = run_screen.series_figure(report.series)
    store.add("all", {**overall, **run_screen.kind_figures(report.kinds)})
    for at, model in enumerate(report.models):
        store.add(f"model-{at}", run_screen.model_figures(model))
    shown_first = next((at for at, model in enumerate(report.models) if model.name == report.best), 0)
    return render_page(
        "run.html",
        {"first": asset("first.js"), "plotly": _plotly(), "page": asset("run.js")},
        language="en",
        report=report,
        headline=headline(report),
        labels=model_labels(report.summary),
        series_words=series_words(report),
        series_lines=() if report.series is None else series_layout(report.series).lines,
        dashes={name: " ".join(f"{length:g}" for length in pattern) for name, (_, pattern) in palette.DASHES.items()},
        marks=palette.MARKS,
        kinds=AXIS_KINDS,
        shown_first=shown_first,
        panel_title=panel_title,
        draw_sketch=draw_sketch,
        draw_focus=draw_focus,
        focus_words=focus_words,
        place=store.place,
        sets=store.sets,
        settings=_json({"config": run_screen.CONFIG, "template": run_screen.TEMPLATE}),
        scatter=_json(run_screen.data_figures(report.data, _marked(report, shown_first))),
        tables=[
            ("within", "Within-source covariance", covariance_table(report.data.features, report.data.within)),
            ("between", "Between-source covariance", covariance_table(report.data.features, report.data.between)),
        ],
        most_features=MOST_FEATURES,
        image=lambda name: drawn[name].address() if name in drawn else None,
        still=lambda name, at: drawn[name].address(smaller=True) if at == shown_first and name in drawn else None,
    )


@dataclass
class _Store:
    """Figure data by set, one set per model, read by the page when it is needed; equal figures are kept once.

    The variants of a trained model share its loss plot, for one.
    """

    sets: dict[str, Markup] = field(default_factory=dict)
    _known: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # set, name and height, by the data
    _of: dict[tuple[str, str], tuple[str, str, int]] = field(default_factory=dict)

    def add(self, name: str, figures: Mapping[str, dict[str, Any]]) -> None:
        """Keep the figures of a set."""
        kept = []
        for key, figure in figures.items():
            text = _json(figure)
            if text not in self._known:
                self._known[text] = name, key, figure["layout"]["height"]
                kept.append(f"{_json(key)}:{text}")
            self._of[name, key] = self._known[text]
        self.sets[name] = Markup("{" + ",\n".join(kept) + "}")

    def place(self, name: str, key: str, alt: str) -> Markup:
        """The element in which the page draws a figure; its height is known before, so that nothing jumps."""
        return Markup(
            '<div class="plot" data-set="{}" data-figure="{}" style="height:{}px" role="img" aria-label="{}"></div>'
        ).format(*self._of[name, key], alt)


@dataclass(frozen=True)
class Cell:
    """A covariance, and the correlation that it amounts to as a tint: blue above 0, red below."""

    text: str
    tint: str  # CSS colour
    correlation: float


@dataclass(frozen=True)
class CovarianceTable:
    """Rows and columns are features."""

    features: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int


def covariance_table(features: tuple[str, ...], covariance: Floats) -> CovarianceTable:
    """A covariance as text, tinted by correlation: the units of two features need not be the same.

    Three digits as in the paper, 4.11e−2; the variances of the diagonal are grey.
    """
    d = min(len(features), MOST_COLUMNS)
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0).clip(-1, 1)

    def cell(i: int, j: int) -> Cell:
        r = float(correlation[i, j])
        colour, strength = ("0,88,143" if r >= 0 else "179,64,31", 0.42 * abs(r)) if i != j else ("93,106,118", 0.16)
        return Cell(scientific(float(covariance[i, j])), f"rgba({colour},{strength:.2f})", r)

    rows = tuple(tuple(cell(i, j) for j in range(d)) for i in range(d))
    return CovarianceTable(features[:d], rows, len(features) - d)


def _marked(report: Report, shown_first: int) -> dict[str, str]:
    """The five costliest sources of the model that is shown first, to find in the scatter plot."""
    worst = report.models[shown_first].outliers.outliers[:5] if report.models else ()
    return {o.source: f"one of the five costliest sources (share in Cllr {number(o.cost)})" for o in worst}


def _json(value: object) -> Markup:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")

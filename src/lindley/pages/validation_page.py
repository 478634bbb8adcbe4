"""The report of a validation: one HTML file without scripts, that reads on a screen and prints on A4; and the same as JSON
and as rows for a terminal: the names of its figures, how to read them, and what is needed to repeat it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from markupsafe import Markup
from matplotlib.figure import Figure

from lindley.casework.validation import Line, Validation
from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import LEVEL, Estimate
from lindley.evaluation.curves import Ece, ece, histogram_limits, tippett
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.evaluation.pair_grid import PairGrid, compress
from lindley.files import write_together
from lindley.llrs import Floats, LLRs
from lindley.pages import palette
from lindley.pages.numerals import figure, grouped, times, with_units
from lindley.pages.page import asset, picture, render_page, sheet
from lindley.pages.palette import DASHES
from lindley.pages.pdf import page_as_pdf
from lindley.pages.run_drawings import draw_calibration
from lindley.pages.run_figures import CalibrationFigure
from lindley.pages.run_model import calibration_panel
from lindley.plot import draw_ece, draw_tippett
from lindley.shown import json_text
from lindley.system.provenance import today, versions
from lindley.system.system import System
from lindley.table.table import Table
from lindley.version import __version__

__all__ = [
    "CHARACTERISTICS",
    "METRICS",
    "Metric",
    "estimate_json",
    "limit",
    "render_validation",
    "rows",
    "table_json",
    "write_pair",
    "write_validation",
]

FORMAT = "lindley-validation/1"
FILES = ("validation.html", "validation.json")
WIDTH, HEIGHT = 3.7, 3.0
OUTCOMES = {"pass": "✓ pass", "fail": "✗ fail", "not judged": "✗ not judged", "no criterion": "no criterion"}
VERDICTS = {
    "pass": "The system passes: every criterion is met.",
    "fail": "The system does not pass: not every criterion is met.",
    "no criteria": "No criteria were given, so that nothing passes or fails.",
}


@dataclass(frozen=True)
class Metric:
    """How a figure is called, in which unit it is, and how to read it."""

    title: str
    unit: Literal["bits", "share", "log10"]
    reading: str


_WORDS = yaml.safe_load(asset("validation_words.yaml"))
CHARACTERISTICS: dict[str, str] = {name: words["title"] for name, words in _WORDS.items()}
METRICS = {(name, key): Metric(**metric) for name, words in _WORDS.items() for key, metric in words["metrics"].items()}


def write_validation(validation: Validation, folder: Path, *, pdf: bool = False) -> None:
    """The page and its figures, and the page as PDF if asked."""
    write_pair(folder, FILES, render_validation(validation), to_json(validation), pdf=pdf)


def write_pair(
    folder: Path, names: tuple[str, str], page: str, content: Mapping[str, Any], *, pdf: bool = False
) -> None:
    """A page and its JSON, and a PDF if asked: all files, or none; they take their names when all are written in full."""
    on_paper = Path(names[0]).with_suffix(".pdf").name
    contents = [page.encode("utf-8"), json_text(content, indent=1).encode("utf-8")]
    files = {folder / name: data for name, data in zip(names, contents, strict=True)}
    if pdf:
        files[folder / on_paper] = page_as_pdf(page)
    try:
        write_together(files)
        if not pdf:
            (folder / on_paper).unlink(missing_ok=True)  # of what this page said before
    except OSError as error:
        raise LindleyError(f"The report cannot be written to {folder} ({error.strerror or error}).") from error


def render_validation(validation: Validation) -> str:
    """The page as text."""
    return render_page(
        "validation.html",
        language="en",
        listed=facts(validation),
        validation=validation,
        title=f"{validation.system.name} on {validation.table.name}",
        groups=[(name, [line for line in validation.lines if line.characteristic == name]) for name in CHARACTERISTICS],
        characteristics=CHARACTERISTICS,
        metrics=METRICS,
        limit=limit,
        outcomes=OUTCOMES,
        verdict=VERDICTS[validation.verdict],
        failed=[line for line in validation.lines if line.outcome in ("fail", "not judged")],
        figures=_figures(validation),
    )


def _figures(validation: Validation) -> dict[str, Markup]:
    """The pictures as SVG elements, by name."""
    grid = replace(validation.grid, names=validation.sources)
    raw, bounded = validation.llr, np.clip(validation.llr, *validation.bounds)
    tippett_of = partial(_tippett, grid.llrs(raw), validation.bounds)
    drawings: dict[str, tuple[Callable[[], Figure], str]] = {
        "tippett": (tippett_of, "Tippett plot of the raw LRs, with the bounds of the system"),
        "ece": (partial(_entropy, grid, raw, bounded), "Empirical cross-entropy of the raw and the bounded LRs"),
        "pav": (partial(_pav, grid, raw, bounded), "Calibration plots of the raw and of the bounded LRs"),
    }
    if validation.steps:
        drawings["coherence"] = (partial(_coherence, validation), "Cllr against the number of measurements")
    return {name: picture(draw).element(name, alt) for name, (draw, alt) in drawings.items()}


def _tippett(llrs: LLRs, bounds: tuple[float, float]) -> Figure:
    """Shares of the pairs with an LR of at least x; the bounds as lines."""
    limits = histogram_limits(llrs)
    paper, ax = sheet(WIDTH, HEIGHT)
    draw_tippett(ax, tippett(llrs, np.linspace(*limits, 400)))
    for label, bound in zip(("bounds", "_"), bounds, strict=True):
        ax.axvline(bound, color=palette.NEUTRAL, lw=1, ls=DASHES["dashdot"], label=label)
    ax.set(xlim=limits, ylim=(0, 1.02), xlabel="log10 LR (raw)")
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    paper.legend(loc="outside upper center", ncols=3)
    return paper


def _entropy(grid: PairGrid, raw: Floats, bounded: Floats) -> Figure:
    """Empirical cross-entropy over prior odds: at log10 odds 0 it is Cllr."""
    as_is, kept = _ece(grid, raw), _ece(grid, bounded)
    paper, ax = sheet(WIDTH, HEIGHT)
    draw_ece(ax, as_is)
    for line, label in zip(ax.get_lines(), ("no LR", "raw LRs", "best calibration"), strict=True):
        line.set_label(label)
    ax.plot(kept.prior_log10_odds, kept.system, color=palette.NEUTRAL, ls=DASHES["dashdot"], label="bounded LRs")
    top = max(float(as_is.neutral.max()), min(float(max(as_is.system.max(), kept.system.max())), 2.0))
    ax.set(ylim=(0, 1.05 * top), xlim=(-3, 3))
    paper.legend(loc="outside upper center", ncols=2)
    return paper


def _ece(grid: PairGrid, llr: Floats) -> Ece:
    """From binned LLRs, which is right to 4e-8."""
    return ece(compress(lambda rows, columns: llr[rows, columns], grid.trace, grid.ref, weight=grid.weight))


def _pav(grid: PairGrid, raw: Floats, bounded: Floats) -> Figure:
    """Calibration plots: on the diagonal if an LR means what it says."""
    panels = []
    for which, llr in (("raw LRs", raw), ("bounded LRs", bounded)):
        llrs = grid.llrs(llr)
        panels.append(calibration_panel(grid, llr, cllr(llrs), cllr_min(llrs), which=which))
    return draw_calibration(CalibrationFigure("", tuple(panels)), columns=2, width=6.0)


def _coherence(validation: Validation) -> Figure:
    """Cllr as measurements are added one by one."""
    paper, ax = sheet(WIDTH, HEIGHT)
    place = np.arange(len(validation.steps))
    for kind, colour, marker, shift in (("raw", palette.SAME, "o", -0.06), ("bounded", palette.NEUTRAL, "s", 0.06)):
        found = [step.raw if kind == "raw" else step.bounded for step in validation.steps]
        value = np.array([each.value for each in found])
        error = np.array([[max(e.value - e.lower, 0) for e in found], [max(e.upper - e.value, 0) for e in found]])
        style: dict[str, Any] = {"ms": 4, "lw": 1.2, "elinewidth": 0.9, "capsize": 2.5}
        ax.errorbar(place + shift, value, error, fmt=f"{marker}-", color=colour, label=f"Cllr, {kind} LRs", **style)
    least = [step.cllr_min for step in validation.steps]
    ax.plot(place, least, "^--", ms=4, lw=1, color=palette.BEST, label="Cllr_min")
    ax.set_xticks(place, [times(step.instances) for step in validation.steps])
    ax.set(xlabel="measurements: trace × ref", ylabel="Cllr", ylim=(0, None))
    ax.grid(axis="y")
    paper.legend(loc="outside upper center", ncols=3, columnspacing=1.0, handletextpad=0.4)
    return paper


def facts(v: Validation) -> list[tuple[str, str]]:
    """What is needed to repeat it, in the order of a table."""
    system, about, settings = v.system, v.system.about, v.settings
    trained = about.get("data", {})
    draws = f"{settings.draws} draws of the measurements"
    trained_on = f"{trained.get('sources', '?')} sources of {trained.get('name', '?')}"
    lower, upper = v.bounds
    n = len(v.sources)
    pairs = f"{grouped(n)} same-source and {grouped(n * (n - 1))} different-source pairs"
    return [
        ("System", f"{system.file}, SHA-256 {system.sha256}" + _signed(system)),
        ("Model", system.name),
        ("Trained", f"{about.get('created', '')}, on {trained_on}"),
        ("Its own validation", _own(about.get("validation", {}))),
        ("Features", ", ".join(with_units(system.features, system.units))),
        ("Bounds", f"log10 LR from {figure(lower, 'log10')} to {figure(upper, 'log10')}"),
        ("Table", _table(v.table)),
        *([] if v.other is None else [("Other table", _table(v.other))]),
        ("Overlap", _overlap(v)),
        ("Comparison", f"{times(settings.instances)} measurements, {n} sources: {pairs}"),
        ("Criteria", v.criteria_file or "none"),
        ("Intervals", f"{LEVEL:.0%}, bootstrap over sources (or groups of them), {settings.replicates} replicates"),
        ("Draws", f"seed {settings.seed}; {draws} where figures are means over draws"),
        ("Made", f"{today()}, with " + ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]


def _signed(system: System) -> str:
    key = system.about.get("signed_by")
    return f", signed with the key {key}" if key else ""


def _overlap(v: Validation) -> str:
    if not v.system.digests:
        return "not known: the system is private"
    return f"{v.overlap}" if v.overlap.rows else "none of the measurements was used to train the system"


def to_json(v: Validation) -> dict[str, Any]:
    """Everything, as plain values; null stands for an infinite end of an interval."""
    system, about = v.system, v.system.about
    return {
        "format": FORMAT,
        "verdict": v.verdict,
        "judged": v.judged,
        "lines": [_line(line) for line in v.lines],
        "coherence": [
            {
                "trace": step.instances[0],
                "ref": step.instances[1],
                "cllr": {"raw": estimate_json(step.raw), "bounded": estimate_json(step.bounded)},
                "cllr_min": step.cllr_min,
            }
            for step in v.steps
        ],
        "coherence_sources": v.step_sources,
        "costliest_sources": [{"source": source, "adds_to_cllr": cost} for source, cost in v.costliest],
        "remarks": list(v.remarks),
        "overlap": asdict(v.overlap),
        "criteria": None if v.criteria is None else v.criteria.to_json(),
        "settings": {**asdict(v.settings), "interval": LEVEL},
        "sources": len(v.sources),
        "system": {
            "file": system.file,
            "sha256": system.sha256,
            "signed_by": about.get("signed_by"),
            "model": system.name,
            "created": about.get("created"),
            "features": list(system.features),
            "units": list(system.units),
            "transform": system.transform,
            "reference": system.reference,
            "reference_unit": system.reference_unit,
            "bounds": list(v.bounds),
            "validation": about.get("validation"),
            "data": about.get("data"),
        },
        "data": table_json(v.table),
        "other": None if v.other is None else table_json(v.other),
        "made": {"date": today(), "lindley": __version__, "versions": versions()},
    }


def limit(line: Line) -> str:
    """The criterion of a line, in the unit of its figure."""
    if line.criterion is None:
        return "–"
    return line.criterion.describe(METRICS[line.characteristic, line.metric].unit == "share")


def rows(validation: Validation) -> list[tuple[str, str, str, str, str, str]]:
    """The matrix as text: characteristic, metric, figure judged, interval, criterion, outcome."""
    table: list[tuple[str, str, str, str, str, str]] = []
    before = ""
    for line in validation.lines:
        metric = METRICS[line.characteristic, line.metric]
        name = CHARACTERISTICS[line.characteristic]
        value, interval = "–", "–"
        if line.estimate is not None:
            value = figure(line.estimate.value, metric.unit)
            interval = f"{figure(line.estimate.lower, metric.unit)} to {figure(line.estimate.upper, metric.unit)}"
        criterion = limit(line)
        table.append(("" if name == before else name, metric.title, value, interval, criterion, line.outcome))
        before = name
    return table


def _own(validation: dict[str, Any]) -> str:
    cllr = validation.get("cllr")
    if not isinstance(cllr, int | float):
        return "not in the file"
    return f"Cllr {figure(float(cllr), 'bits')} of the raw LRs ({validation.get('how', 'not known how')})"


def _table(table: Table) -> str:
    return f"{table.name}: {len(table.values)} measurements of {len(table.sources)} sources, SHA-256 {table.sha256()}"


def table_json(table: Table) -> dict[str, Any]:
    """A table by its digest, its size and what is odd with it."""
    return {
        "name": table.name,
        "sha256": table.sha256(),
        "rows": len(table.values),
        "sources": len(table.sources),
        "findings": [str(finding) for finding in table.findings],
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "characteristic": line.characteristic,
        "metric": line.metric,
        "title": METRICS[line.characteristic, line.metric].title,
        "unit": METRICS[line.characteristic, line.metric].unit,
        "judged": line.judged,
        "raw": estimate_json(line.raw),
        "bounded": estimate_json(line.bounded),
        "criterion": None if line.criterion is None else line.criterion.model_dump(exclude_none=True),
        "outcome": line.outcome,
        "why": line.why,
    }


def estimate_json(estimate: Estimate | None) -> dict[str, float | None] | None:
    """A figure and its interval; null stands for an infinite end."""
    if estimate is None:
        return None
    return {name: value if math.isfinite(value) else None for name, value in asdict(estimate).items()}

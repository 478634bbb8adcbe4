"""The validation report: one HTML file without scripts, that loads nothing, reads on a screen and prints on A4."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lindley.casework.validation import Line, Validation
from lindley.evaluation.curves import Ece, ece, pav_curve, tippett
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.evaluation.square import square_llrs
from lindley.evaluation.streaming import compress
from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.pair_grid import PairGrid
from lindley.pages.pictures import picture
from lindley.pages.run_drawings import draw_calibration
from lindley.pages.run_figures import CalibrationFigure, CalibrationPanel
from lindley.pages.templates import asset, template
from lindley.pages.thinning import histogram_limits, spread_ranks, thin_pav
from lindley.pages.validation_record import CHARACTERISTICS, METRICS, Record, grouped, limit, shown, times

__all__ = ["draw_coherence", "draw_ece", "draw_pav", "draw_tippett", "render"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
WIDTH, HEIGHT = 3.7, 3.0
MOST_CORNERS, MOST_MARKS = 400, 150
DASH = (0, (5, 2.5))
OUTCOMES = {"pass": "✓ pass", "fail": "✗ fail", "not judged": "✗ not judged", "no criterion": "no criterion"}
VERDICTS = {
    "pass": "The system passes: every criterion is met.",
    "fail": "The system does not pass: not every criterion is met.",
    "no criteria": "No criteria were given, so that nothing passes or fails.",
}


def render(record: Record) -> str:
    """The page as text."""
    validation = record.validation
    page = template(
        "lindley.pages",
        "validation.html",
        plain=palette.plain,
        count_of=grouped,
        limit=limit,
        shown=shown,
        times=times,
    )
    return page.render(
        record=record,
        validation=validation,
        title=f"{record.system.name} on {record.table.name}",
        groups=_groups(validation),
        characteristics=CHARACTERISTICS,
        metrics=METRICS,
        outcomes=OUTCOMES,
        verdict=VERDICTS[validation.verdict],
        failed=[line for line in validation.lines if line.outcome in ("fail", "not judged")],
        facts=record.facts(),
        figures=_figures(validation),
        style=Markup(asset("lindley.pages", "style.css")),
        policy=POLICY,
    )


def _groups(validation: Validation) -> list[tuple[str, list[Line]]]:
    return [(name, [line for line in validation.lines if line.characteristic == name]) for name in CHARACTERISTICS]


def _figures(validation: Validation) -> dict[str, Markup]:
    """The pictures as SVG elements, by name."""
    raw, bounded = validation.llr, np.clip(validation.llr, *validation.bounds)
    drawings: dict[str, tuple[Callable[[], Figure], str]] = {
        "tippett": (partial(draw_tippett, validation), "Tippett plot of the raw LRs, with the bounds of the system"),
        "ece": (partial(draw_ece, _ece(raw), _ece(bounded)), "Empirical cross-entropy of the raw and the bounded LRs"),
        "pav": (partial(draw_pav, validation), "Calibration plots of the raw and of the bounded LRs"),
    }
    if validation.steps:
        drawings["coherence"] = (partial(draw_coherence, validation), "Cllr against the number of measurements")
    return {name: _inline(name, draw, alt) for name, (draw, alt) in drawings.items()}


def draw_tippett(validation: Validation) -> Figure:
    """Shares of the pairs with an LR of at least x; the bounds as lines."""
    llrs = square_llrs(validation.llr)
    low, high = histogram_limits(llrs)
    curves = tippett(llrs, np.linspace(low, high, 400))
    paper, ax = _sheet()
    ax.plot(curves.llr, curves.same, color=palette.SAME, label="same source")
    ax.plot(curves.llr, curves.different, color=palette.DIFFERENT, ls=DASH, label="different sources")
    ax.axvline(0, color=palette.MUTED, lw=0.8, ls=(0, (1, 1.6)))
    for number, bound in enumerate(validation.bounds):
        ax.axvline(bound, color=palette.NEUTRAL, lw=1, ls=(0, (6, 2, 1, 2)), label="_" if number else "bounds")
    ax.set(xlim=(low, high), ylim=(0, 1.02), xlabel="log10 LR (raw)", ylabel="share of pairs at or above")
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    paper.legend(loc="outside upper center", ncols=3)
    return paper


def draw_ece(raw: Ece, bounded: Ece) -> Figure:
    """Empirical cross-entropy over prior odds: at log10 odds 0 it is Cllr."""
    paper, ax = _sheet()
    ax.plot(raw.prior_log10_odds, raw.neutral, color=palette.MUTED, ls=(0, (1, 1.6)), label="no LR")
    ax.plot(raw.prior_log10_odds, raw.system, color=palette.SAME, label="raw LRs")
    ax.plot(bounded.prior_log10_odds, bounded.system, color=palette.NEUTRAL, ls=(0, (6, 2, 1, 2)), label="bounded LRs")
    ax.plot(raw.prior_log10_odds, raw.pav, color=palette.BEST, ls=DASH, label="best calibration")
    top = max(float(raw.neutral.max()), min(float(max(raw.system.max(), bounded.system.max())), 2.0))
    ax.set(xlabel="prior log10 odds", ylabel="empirical cross-entropy (bits)", ylim=(0, 1.05 * top), xlim=(-3, 3))
    paper.legend(loc="outside upper center", ncols=2)
    return paper


def draw_pav(validation: Validation) -> Figure:
    """Calibration plots: on the diagonal if an LR means what it says."""
    number = np.arange(len(validation.sources))
    grid = PairGrid(validation.sources, number, number)
    panels = []
    for name, llr in (("raw LRs", validation.llr), ("bounded LRs", np.clip(validation.llr, *validation.bounds))):
        llrs = square_llrs(llr)
        cells = [grid.misleading_first(llr, same) for same in (True, False)]
        same, different = (grid.named(llr, each[spread_ranks(len(each), MOST_MARKS)]) for each in cells)
        panels.append(
            CalibrationPanel(
                model="",
                split=0,
                which=name,
                cllr=cllr(llrs),
                cllr_min=cllr_min(llrs),
                pav=thin_pav(pav_curve(llrs), MOST_CORNERS),
                same=same,
                different=different,
            )
        )
    paper = draw_calibration(CalibrationFigure("", tuple(panels)))
    paper.set_size_inches(2 * HEIGHT, HEIGHT + 0.3)
    places = paper.add_gridspec(1, len(panels))  # it was laid out for three
    for at, ax in enumerate(paper.axes):
        ax.set_subplotspec(places[0, at])
    return paper


def draw_coherence(validation: Validation) -> Figure:
    """Cllr as measurements are added one by one."""
    paper, ax = _sheet()
    place = np.arange(len(validation.steps))
    for kind, colour, marker, shift in (("raw", palette.SAME, "o", -0.06), ("bounded", palette.NEUTRAL, "s", 0.06)):
        found = [step.raw if kind == "raw" else step.bounded for step in validation.steps]
        value = np.array([each.value for each in found])
        error = np.array([[max(e.value - e.lower, 0) for e in found], [max(e.upper - e.value, 0) for e in found]])
        ax.errorbar(
            place + shift,
            value,
            error,
            fmt=f"{marker}-",
            ms=4,
            lw=1.2,
            elinewidth=0.9,
            capsize=2.5,
            color=colour,
            label=f"Cllr, {kind} LRs",
        )
    ax.plot(
        place, [step.cllr_min for step in validation.steps], "^--", ms=4, lw=1, color=palette.BEST, label="Cllr_min"
    )
    ax.set_xticks(place, [times(step.instances) for step in validation.steps])
    ax.set(xlabel="measurements: trace × ref", ylabel="Cllr", ylim=(0, None))
    ax.grid(axis="y")
    paper.legend(loc="outside upper center", ncols=3, columnspacing=1.0, handletextpad=0.4)
    return paper


def _sheet() -> tuple[Figure, Axes]:
    paper = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    return paper, paper.add_subplot()


def _ece(llr: Floats) -> Ece:
    """From binned LLRs, which is right to 4e-8."""
    sources = np.arange(len(llr))
    return ece(compress(lambda rows, columns: llr[rows, columns], sources, sources))


def _inline(name: str, draw: Callable[[], Figure], alt: str) -> Markup:
    """A picture as an element of the page: its ids are its own, and it has words for those who cannot see it."""
    svg = picture(draw).svg.decode("utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]+"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]+"', r"\1", svg, count=1)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{Markup.escape(alt)}"', 1))

"""Colours, marks and wording that the screen and the printed figures share.

Colours are Okabe and Ito's or close to them, chosen so that the two of a pair differ in lightness too: they stay apart
in greyscale and for every common colour blindness. Nothing is told by colour alone: marks and dashes say it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lindley.pages.run_figures import CalibrationFigure, CalibrationPanel, SummaryFigure, SummaryRow

__all__ = [
    "DIFFERENT",
    "IDENTITY",
    "INK",
    "NEUTRAL",
    "SAME",
    "TEST",
    "VALIDATE",
    "Band",
    "SummaryLayout",
    "calibration_limits",
    "log_ticks",
    "model_labels",
    "number",
    "panel_title",
    "plain",
    "shorten",
    "summary_layout",
]

INK = "#1c2733"
MUTED = "#5d6a76"
GRID = "#e4e8ec"
SAME = "#00588f"  # dark blue; lightness 36
DIFFERENT = "#e69f00"  # orange; lightness 71
VALIDATE = "#8cc1e3"  # light blue
TEST = "#0b4775"  # dark blue
IDENTITY = "#c8921a"  # the paper's yellow reference line, dark enough for paper
NEUTRAL = "#b3401f"  # the line of a system that says nothing
BEST = "#00775a"  # the epoch that was kept
BANDS = ("#007f63", "#b3401f")  # the best benchmark as it is, and the best one after calibration
ORACLE = "#1c2733"
KINDS = {"discriminating": "discriminates", "neutral": "says nothing", "bias": "shifts", "mixed": "mixed"}
"""What an axis does, in a word or two."""

LIMIT = 10.0
"""The first view of a calibration plot goes no further out than this LLR: beyond it, one pair would decide the scale."""


def plain(text: str) -> str:
    """A user's name without control characters, which neither XML nor a label can show."""
    return "".join(c if c.isprintable() else " " for c in text)


def shorten(text: str, most: int = 28) -> str:
    """A user's name for a label: the middle of a long one is left out."""
    text = plain(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def number(value: float, digits: int = 3) -> str:
    """A number as a person writes it: significant digits, a real minus, no exponent unless it is tiny or huge."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e6:
        text = f"{value:.{max(digits - 1, 0)}e}"
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        decimals = 0 if size == 0 else max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:.{decimals}f}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Band:
    """A benchmark across the grand summary: mean test Cllr and two standard errors either side."""

    label: str
    short: str  # for a phone
    mean: float
    error: float
    colour: str
    dash: str  # plotly's name


@dataclass(frozen=True)
class SummaryLayout:
    """Where things go in the grand summary; computed once so that screen and paper agree."""

    labels: tuple[str, ...]  # of the lines, from the top
    places: tuple[float, ...]  # of every row of the figure, counted in lines from the top
    bands: tuple[Band, ...]  # also the oracle and the neutral line; from the right
    benchmarks: int  # how many of the lines, at the end, are benchmarks
    log: bool
    limits: tuple[float, float]  # of Cllr

    def share(self, cllr: float) -> float:
        """How far along the axis a Cllr is, 0 to 1."""
        low, high = self.limits
        if self.log:
            return math.log(cllr / low) / math.log(high / low)
        return (cllr - low) / (high - low)

    def has_room(self, text: str, cllr: float, letters: int) -> bool:
        """Whether a label fits to the right of a line; ``letters``: how many the whole axis is wide."""
        return len(text) < (1 - self.share(cllr)) * letters

    def span(self, mean: float, error: float) -> tuple[float, float]:
        """How long an error bar is below and above its mean; on a log axis the lower end stays on the paper."""
        return (min(error, mean - self.limits[0] * 1.001) if self.log else error), error


def summary_layout(figure: SummaryFigure) -> SummaryLayout:
    """Neural models first, one line for a single and a double of the same label; then the benchmarks.

    Across run the best benchmark as it is and the best one after calibration (by validation, so that the test figures
    choose nothing), as the paper's two dashed lines.
    """
    lines: list[list[int]] = []
    of_label: dict[tuple[str, bool], int] = {}
    order = sorted(range(len(figure.rows)), key=lambda i: figure.rows[i].family == "benchmark")
    for i in order:
        row = figure.rows[i]
        key = (row.label, row.family == "benchmark")
        at = of_label.get(key)
        if at is None or row.family in {figure.rows[j].family for j in lines[at]}:
            of_label[key] = len(lines)
            lines.append([i])
        else:
            lines[at].append(i)
    places = [0.0] * len(figure.rows)
    for at, members in enumerate(lines):
        for i in members:
            shift = {"single": -0.17, "double": 0.17}.get(figure.rows[i].family, 0.0) if len(members) > 1 else 0.0
            places[i] = at + shift
    seen: dict[str, int] = {}
    labels = []
    for members in lines:
        first = figure.rows[members[0]]
        seen[first.label] = seen.get(first.label, 0) + 1
        labels.append(first.label if seen[first.label] == 1 else f"{first.label} ({first.name})")
    low, high, log = _summary_limits(figure)
    bands = [*_bands(figure)]
    if figure.oracle is not None and figure.oracle[0] > 0:
        bands.append(Band("oracle: the true LRs", "oracle", *figure.oracle, ORACLE, "dot"))
    if low < 1 < high:
        bands.append(Band("neutral", "neutral", 1.0, 0.0, MUTED, "longdash"))
    bands.sort(key=lambda band: -band.mean)
    benchmarks = sum(figure.rows[members[0]].family == "benchmark" for members in lines)
    return SummaryLayout(tuple(labels), tuple(places), tuple(bands), benchmarks, log, (low, high))


def _summary_limits(figure: SummaryFigure) -> tuple[float, float, bool]:
    means = [v for row in figure.rows for v in (row.validate, row.test) if math.isfinite(v) and v > 0]
    means += [figure.oracle[0]] if figure.oracle and figure.oracle[0] > 0 else []
    if not means:
        return 0.0, 1.0, False
    tops = [v + e for row in figure.rows for v, e in _both(row) if math.isfinite(v + e)]
    log = max(means) / min(means) > 10
    if log:
        ends = [v - e for row in figure.rows for v, e in _both(row) if v - e > min(means) / 2]
        return min([*means, *ends]) / 1.25, max([*means, *tops]) * 1.25, True
    return 0.0, max([*means, *tops]) * 1.08, False


def _both(row: SummaryRow) -> tuple[tuple[float, float], tuple[float, float]]:
    return (row.validate, row.validate_error), (row.test, row.test_error)


def _bands(figure: SummaryFigure) -> list[Band]:
    if all(row.family == "benchmark" for row in figure.rows):
        return []
    bands = []
    for calibrated, colour, dash in zip((False, True), BANDS, ("dash", "dashdot"), strict=True):
        some = [r for r in figure.rows if r.family == "benchmark" and r.calibrated == calibrated and r.test > 0]
        if some:
            best = min(some, key=lambda row: row.validate)
            kind = f"{'calibrated' if calibrated else 'raw'} benchmark"
            label = f"best {kind}, {shorten(best.label, 40)}: {number(best.test)}"
            bands.append(Band(label, f"{kind} {number(best.test)}", best.test, best.test_error, colour, dash))
    return bands


def panel_title(panel: CalibrationPanel) -> str:
    """Which run it is, or which kind of prediction."""
    return f"{panel.which} run" if panel.which in ("worst", "median", "best") else panel.which


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade, or fewer if that is many: written in full, unlike plotly's own."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1, 3) if len(decades) <= 7 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]


def model_labels(figure: SummaryFigure) -> dict[str, str]:
    """Model names in words: with the projection, where the label leaves it out."""
    networks = ("single", "double")
    return {row.name: f"{row.label}, {row.family}" if row.family in networks else row.label for row in figure.rows}


def calibration_limits(figure: CalibrationFigure) -> tuple[float, float]:
    """One view for all panels, so that they can be compared: where PAV is finite and pairs are, at most ±`LIMIT`."""
    values = [np.array([-2.0, 2.0])]
    for panel in figure.panels:
        finite = np.isfinite(panel.pav.pav_llr)
        values += [panel.pav.llr[finite], panel.pav.pav_llr[finite]]
        values.append(np.array([llr for _, _, llr in panel.same]))
    every = np.concatenate(values)
    low, high = max(float(every.min()), -LIMIT), min(float(every.max()), LIMIT)
    margin = 0.06 * (high - low)
    return low - margin, high + margin

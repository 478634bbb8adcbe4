"""What the figures of a report show, as plain numbers: computed in one place, drawn in others, tested as data.

Every class is one figure, or one panel of it, ready to be drawn. Where things go in it is computed once as well, below, so
that the screen and the printed figures agree. LLRs are log10. Arrays are float64. Nothing here knows of matplotlib or plotly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lindley.evaluation.axes import AxisKind
from lindley.evaluation.curves import Ece, Histogram, PavCurve, Tippett
from lindley.evaluation.pair_grid import NamedPair
from lindley.llrs import Floats
from lindley.pages.numerals import number, shorten
from lindley.pages.palette import BANDS, INK, LINE_DASHES, LINES, MARKS, MUTED, Mark
from lindley.pages.run_sketch import FocusFigure, Sketch
from lindley.plot import pav_limits
from lindley.system.kinds import Family
from lindley.table.splits import Size

__all__ = [
    "AxisPanel",
    "Band",
    "CalibrationFigure",
    "CalibrationPanel",
    "Curve",
    "DataFigure",
    "LossFigure",
    "ModelFigures",
    "OmnibusFigure",
    "Outlier",
    "OutlierFigure",
    "Report",
    "SeriesFigure",
    "SeriesLayout",
    "SeriesLine",
    "SeriesRow",
    "SummaryFigure",
    "SummaryLayout",
    "SummaryRow",
    "calibration_limits",
    "loss_limits",
    "series_layout",
    "summary_layout",
]


def calibration_share(cllr: float, cllr_min: float) -> float:
    """(Cllr − Cllr_min)/Cllr, or 0 where nothing is wrong."""
    return (cllr - cllr_min) / cllr if cllr > 0 else 0.0


@dataclass(frozen=True)
class SummaryRow:
    """One model in the grand summary: means over the splits with two standard errors of the mean."""

    name: str  # as in results.json
    label: str  # in words, short enough for an axis: "sources, N=2, varying"
    family: Family  # squares, circles, triangles, bands
    calibrated: bool  # post-hoc
    validate: float
    validate_error: float  # 2 s.e.m.; 0 with one split
    test: float
    test_error: float
    test_median: float
    test_min: float  # mean Cllr_min
    is_score: bool = False  # trained as a score, without densities

    @property
    def keeps_reading(self) -> bool:
        """Whether its LR is similarity over typicality."""
        return not (self.calibrated or self.is_score)

    @property
    def calibration_share(self) -> float:
        """What part of the mean test Cllr is for want of calibration."""
        return calibration_share(self.test, self.test_min)


@dataclass(frozen=True)
class SummaryFigure:
    """Figure 1: Cllr per model. Benchmarks are drawn as bands across, neural models as points."""

    rows: tuple[SummaryRow, ...]
    oracle: tuple[float, float] | None  # mean and 2 s.e.m. of the true LRs, on simulated data
    splits: int


@dataclass(frozen=True)
class SeriesRow:
    """One model, or the oracle, as measurements are added: mean test Cllr of every size, with two standard errors."""

    name: str
    label: str
    family: Family | None  # None: the oracle
    root: str  # the model that was fitted; those that build on it share its colour
    cllr: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True)
class SeriesFigure:
    """Cllr over the number of measurements per item."""

    sizes: tuple[Size, ...]
    sources: tuple[int, ...]  # of the table, that have enough measurements for a size
    all_sources: int
    rows: tuple[SeriesRow, ...]  # the oracle last
    fitted: Size  # what the protocol says

    @property
    def lowest(self) -> tuple[float, ...]:
        """Of the models, at every size."""
        return tuple(map(min, zip(*(row.cllr for row in self.rows if row.family is not None), strict=True)))


@dataclass(frozen=True, eq=False)
class Curve:
    """A named line."""

    name: str
    x: Floats
    y: Floats


@dataclass(frozen=True, eq=False)
class LossFigure:
    """Figure 2: Cllr over the epochs of one run of a neural model; neutral is 1. Long trainings are thinned."""

    train: Curve
    validate: Curve
    axes: tuple[Curve, ...]  # validation Cllr of every axis on its own
    best_epoch: int
    best_cllr: float
    spikes: tuple[int, ...]  # epochs
    focus: Curve | None = None  # validation Cllr of the axes together that do not mislead by themselves


@dataclass(frozen=True, eq=False)
class AxisPanel:
    """One axis: its LLR histogram (figure 3) and its QQ data under H1 and H2 (figure 4), test pairs of one run."""

    axis: int  # from 0
    kind: AxisKind
    cllr: float
    histogram: Histogram
    qq: tuple[Curve, Curve]  # h1, h2: sorted z-scores over normal quantiles, on the identity if the model is right
    features: tuple[tuple[str, float], ...]  # the features that weigh most in the axis, with their loadings


@dataclass(frozen=True, eq=False)
class CalibrationPanel:
    """A calibration (PAV) plot: LLR as given against LLR after PAV; on the identity if it is calibrated."""

    split: int  # from 0; people count from 1
    which: str  # "median", "worst", "best": of the runs, by their validation Cllr
    cllr: float
    cllr_min: float
    pav: PavCurve
    validate: float = math.nan  # Cllr of the run on its validation pairs
    same: tuple[NamedPair, ...] = ()  # to mark below the curve: a few hundred at most,
    different: tuple[NamedPair, ...] = ()  # spread over the ranks, the misleading extremes always


@dataclass(frozen=True, eq=False)
class CalibrationFigure:
    """Figure 5: the kinds of prediction side by side (median run), or the runs of one model side by side."""

    title: str
    panels: tuple[CalibrationPanel, ...]


@dataclass(frozen=True, eq=False)
class OmnibusFigure:
    """Figure 6: the LLRs of the median run on test pairs."""

    pairs_same: int
    pairs_different: int
    cllr: float
    cllr_min: float
    eer: float
    histogram: Histogram
    ece: Ece
    tippett: Tippett
    misleading_same: tuple[NamedPair, ...]  # the worst same-source pairs: trace, ref, LLR
    misleading_different: tuple[NamedPair, ...]  # the worst different-source pairs

    @property
    def calibration_share(self) -> float:
        """What part of the Cllr is for want of calibration."""
        return calibration_share(self.cllr, self.cllr_min)


@dataclass(frozen=True)
class Outlier:
    """A source and what it costs: the rise of the model's mean test Cllr by the pairs that it is in."""

    source: str
    cost: float  # mean over the splits of its share in Cllr (the shares of all sources sum to the Cllr)
    same: float  # of which as a same-source pair
    different: float  # of which in different-source pairs
    splits: int  # in how many test parts it was
    worst_llr: float  # its worst LLR
    worst_pair: tuple[str, str]  # trace and ref of that


@dataclass(frozen=True, eq=False)
class OutlierFigure:
    """Figure 8: the sources that cost most, and the mean Cllr when the k worst are left out."""

    outliers: tuple[Outlier, ...]  # the costliest first
    cllr: float  # mean over the splits
    without: tuple[float, ...]  # mean Cllr without the 0, 1, 2, … costliest sources
    even_share: float  # what a source would cost if all cost the same


@dataclass(frozen=True, eq=False)
class DataFigure:
    """Figure 7: within and between covariance, and the values to scatter."""

    features: tuple[str, ...]
    within: Floats  # (d, d), in the units of the table
    between: Floats  # (d, d)
    source_means: Floats  # (sources, d)
    deviations: Floats  # (rows, d) of instances from the mean of their source
    sources: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ModelFigures:
    """All that is shown of one model."""

    name: str
    split: int  # the median run, by validation Cllr
    loss: LossFigure | None  # neural models
    axes: tuple[AxisPanel, ...]  # figures 3 and 4; none of a model that does not factor over axes
    runs: CalibrationFigure  # worst, median and best run
    omnibus: OmnibusFigure
    outliers: OutlierFigure
    sketch: Sketch | None = None  # networks
    focus: FocusFigure | None = None  # networks whose LLR is a sum over axes


@dataclass(frozen=True, eq=False)
class Report:
    """A whole report."""

    title: str
    facts: tuple[tuple[str, str], ...]  # data, protocol, versions, machine, seeds: what is needed to repeat it
    summary: SummaryFigure
    kinds: tuple[CalibrationFigure, ...]  # raw, point-value and integrated side by side, one per neural family
    models: tuple[ModelFigures, ...]
    data: DataFigure
    findings: tuple[str, ...]  # what the checks of the table noticed
    best: str  # the uncalibrated model with the lowest mean validation Cllr: the one that is shown first
    series: SeriesFigure | None = None  # where the table has more than one size to show


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
        return _span(mean, error, self.limits[0], self.log)


def _span(mean: float, error: float, low: float, log: bool) -> tuple[float, float]:
    return (min(error, mean - low * 1.001) if log else error), error


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
    points = [point for row in figure.rows for point in _both(row)]
    low, high, log = _cllr_limits(points, None if figure.oracle is None else figure.oracle[0])
    bands = [*_bands(figure)]
    if figure.oracle is not None and figure.oracle[0] > 0:
        bands.append(Band("oracle: the true LRs", "oracle", *figure.oracle, INK, "dot"))
    if low < 1 < high:
        bands.append(Band("neutral", "neutral", 1.0, 0.0, MUTED, "longdash"))
    bands.sort(key=lambda band: -band.mean)
    benchmarks = sum(figure.rows[members[0]].family == "benchmark" for members in lines)
    return SummaryLayout(tuple(labels), tuple(places), tuple(bands), benchmarks, log, (low, high))


def _cllr_limits(points: Sequence[tuple[float, float]], oracle: float | None = None) -> tuple[float, float, bool]:
    """The range of an axis for means of Cllr and their errors, and whether it is log: if they span more than a decade."""
    means = [v for v in (*(v for v, _ in points), oracle) if v is not None and math.isfinite(v) and v > 0]
    if not means:
        return 0.0, 1.0, False
    tops = [v + e for v, e in points if math.isfinite(v + e)]
    log = max(means) / min(means) > 10
    if log:
        ends = [v - e for v, e in points if v - e > min(means) / 2]
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


@dataclass(frozen=True)
class SeriesLine:
    """A model in a plot of Cllr over sizes."""

    row: SeriesRow
    places: tuple[float, ...]  # of its marks, counted in sizes: a little beside those of others
    cllr: tuple[float, ...]  # NaN where there is none to show: 0 on a log axis
    below: tuple[float, ...]  # ends of the error bars
    above: tuple[float, ...]
    colour: str
    dash: str  # plotly's name
    mark: Mark | None  # None: no marks

    @property
    def has_errors(self) -> bool:
        """Not with a single split."""
        return any(self.row.error)


@dataclass(frozen=True)
class SeriesLayout:
    """Where things go in it."""

    lines: tuple[SeriesLine, ...]
    log: bool
    limits: tuple[float, float]  # of Cllr


def series_layout(figure: SeriesFigure) -> SeriesLayout:
    """A colour for every model that was fitted, and for every row of that colour a dash of its own."""
    points = [point for row in figure.rows for point in zip(row.cllr, row.error, strict=True)]
    low, high, log = _cllr_limits(points)
    beside = min(0.05, 0.4 / len(figure.rows))
    colours: dict[str, str] = {}  # of roots
    drawn = Counter[str]()  # lines of a colour
    lines = []
    for at, row in enumerate(figure.rows):
        colour, dash = INK, "dot"  # the oracle
        if row.family is not None:
            colour = colours.setdefault(row.root, LINES[len(colours) % len(LINES)])
            dash = LINE_DASHES[drawn[colour] % len(LINE_DASHES)]
            drawn[colour] += 1
        shift = beside * (at - (len(figure.rows) - 1) / 2)
        spans = [_span(mean, error, low, log) for mean, error in zip(row.cllr, row.error, strict=True)]
        lines.append(
            SeriesLine(
                row=row,
                places=tuple(place + shift for place in range(len(figure.sizes))),
                cllr=tuple(math.nan if log and mean <= 0 else mean for mean in row.cllr),
                below=tuple(max(below, 0.0) for below, _ in spans),
                above=tuple(above for _, above in spans),
                colour=colour,
                dash=dash,
                mark=None if row.family is None else MARKS[row.family],
            )
        )
    return SeriesLayout(tuple(lines), log, (low, high))


def loss_limits(figure: LossFigure) -> tuple[float, float]:
    """The range of Cllr that a loss plot shows, for its log axis: a few spikes may be beyond it."""
    focus = () if figure.focus is None else (figure.focus,)
    every = np.concatenate([curve.y for curve in (figure.train, figure.validate, *focus, *figure.axes)])
    every = every[np.isfinite(every) & (every > 0)]
    low, high = (float(every.min()), float(np.quantile(every, 0.999))) if every.size else (0.1, 1.0)
    return low * 0.85, max(high, 1.0) * 1.3


def calibration_limits(figure: CalibrationFigure) -> tuple[float, float]:
    """One view for all panels, so that they can be compared."""
    same = np.array([llr for panel in figure.panels for *_, llr in panel.same])
    return pav_limits(same, *(panel.pav for panel in figure.panels))

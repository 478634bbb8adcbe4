"""What the figures of a report show, as plain numbers: computed in one place, drawn in others, tested as data.

Every class is one figure, or one panel of it, ready to be drawn: no drawing computes anything but positions.
LLRs are log10. Arrays are float64. Nothing here knows of matplotlib or plotly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from lindley.evaluation.axes import AxisKind
from lindley.evaluation.curves import Ece, Histogram, PavCurve, Tippett
from lindley.llrs import Floats

__all__ = [
    "AxisFigure",
    "AxisPanel",
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
    "SummaryFigure",
    "SummaryRow",
]


@dataclass(frozen=True)
class SummaryRow:
    """One model in the grand summary: means over the splits with two standard errors of the mean."""

    name: str  # as in results.json
    label: str  # in words, short enough for an axis: "sources, N=2, varying"
    family: Literal["single", "double", "robust", "benchmark"]  # squares, circles, triangles, bands
    calibrated: bool  # post-hoc
    validate: float
    validate_error: float  # 2 s.e.m.; 0 with one split
    test: float
    test_error: float
    test_median: float
    test_min: float  # mean Cllr_min
    per_split: tuple[float, ...]  # test Cllr
    is_score: bool = False  # trained as a score, without densities

    @property
    def keeps_reading(self) -> bool:
        """Whether its LR is similarity over typicality."""
        return not (self.calibrated or self.is_score)


@dataclass(frozen=True)
class SummaryFigure:
    """Figure 1: Cllr per model. Benchmarks are drawn as bands across, neural models as points."""

    rows: tuple[SummaryRow, ...]
    oracle: tuple[float, float] | None  # mean and 2 s.e.m. of the true LRs, on simulated data
    splits: int


@dataclass(frozen=True, eq=False)
class Curve:
    """A named line."""

    name: str
    x: Floats
    y: Floats


@dataclass(frozen=True, eq=False)
class LossFigure:
    """Figure 2: Cllr over the epochs of one run of a neural model; neutral is 1. Long trainings are thinned."""

    model: str
    split: int  # from 0; people count from 1
    train: Curve
    validate: Curve
    axes: tuple[Curve, ...]  # validation Cllr of every axis on its own
    best_epoch: int
    best_cllr: float
    spikes: tuple[int, ...]  # epochs


@dataclass(frozen=True, eq=False)
class AxisPanel:
    """One axis: its LLR histogram (figure 3) and its QQ data under H1 and H2 (figure 4), test pairs of one run."""

    axis: int  # from 0
    kind: AxisKind
    cllr: float
    cllr_min: float
    histogram: Histogram
    quantile_h1: Floats  # standard normal quantiles
    z_h1: Floats  # sorted z-scores of same-source pairs; on the identity if the model is right
    quantile_h2: Floats
    z_h2: Floats
    features: tuple[tuple[str, float], ...]  # the features that weigh most in the axis, with their loadings


@dataclass(frozen=True, eq=False)
class AxisFigure:
    """Figures 3 and 4."""

    model: str
    split: int  # from 0; people count from 1
    panels: tuple[AxisPanel, ...]


@dataclass(frozen=True, eq=False)
class CalibrationPanel:
    """A calibration (PAV) plot: LLR as given against LLR after PAV; on the identity if it is calibrated."""

    model: str
    split: int  # from 0; people count from 1
    which: str  # "median", "worst", "best": of the runs, by their validation Cllr
    cllr: float
    cllr_min: float
    pav: PavCurve
    validate: float = math.nan  # Cllr of the run on its validation pairs
    same: tuple[tuple[str, str, float], ...] = ()  # trace, ref and LLR to mark below the curve: a few hundred at
    different: tuple[tuple[str, str, float], ...] = ()  # most, spread over the ranks, the misleading extremes always


@dataclass(frozen=True, eq=False)
class CalibrationFigure:
    """Figure 5: the kinds of prediction side by side (median run), or the runs of one model side by side."""

    title: str
    panels: tuple[CalibrationPanel, ...]


@dataclass(frozen=True, eq=False)
class OmnibusFigure:
    """Figure 6: the LLRs of the median run on test pairs."""

    model: str
    split: int  # from 0; people count from 1
    pairs_same: int
    pairs_different: int
    cllr: float
    cllr_min: float
    eer: float
    calibration_share: float  # (Cllr − Cllr_min)/Cllr
    histogram: Histogram
    ece: Ece
    tippett: Tippett
    misleading_same: tuple[tuple[str, str, float], ...]  # the worst same-source pairs: trace, ref, LLR
    misleading_different: tuple[tuple[str, str, float], ...]  # the worst different-source pairs


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

    model: str
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
    axes: AxisFigure | None  # models that factor over axes
    runs: CalibrationFigure  # worst, median and best run
    omnibus: OmnibusFigure
    outliers: OutlierFigure


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

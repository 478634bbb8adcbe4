"""Evaluation: metrics, the data of plots, confidence intervals, and more pairs than memory holds."""

from lindley.evaluation.axes import AxisAnalysis, analyse_axes
from lindley.evaluation.bootstrap import Estimate, bootstrap
from lindley.evaluation.curves import det, ece, histogram, pav_curve, tippett
from lindley.evaluation.metrics import (
    cllr,
    cllr_cal,
    cllr_different,
    cllr_min,
    cllr_same,
    devpav,
    eer,
    misleading_different,
    misleading_same,
    summary,
)
from lindley.evaluation.pair_grid import compress

__all__ = [
    "AxisAnalysis",
    "Estimate",
    "analyse_axes",
    "bootstrap",
    "cllr",
    "cllr_cal",
    "cllr_different",
    "cllr_min",
    "cllr_same",
    "compress",
    "det",
    "devpav",
    "ece",
    "eer",
    "histogram",
    "misleading_different",
    "misleading_same",
    "pav_curve",
    "summary",
    "tippett",
]

"""lindley's metrics for LiR's tables: finite for any finite LLRs, where LiR's own Cllr may overflow."""

from __future__ import annotations

from lir.data.models import LLRData

from lindley.adapters.lir.data import labelled
from lindley.evaluation import metrics

__all__ = ["cllr", "cllr_cal", "cllr_min", "devpav", "eer", "misleading_different", "misleading_same"]


def cllr(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.cllr`."""
    return metrics.cllr(labelled(llrs, "Cllr"))


def cllr_min(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.cllr_min`."""
    return metrics.cllr_min(labelled(llrs, "Cllr_min"))


def cllr_cal(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.cllr_cal`."""
    return metrics.cllr_cal(labelled(llrs, "Cllr_cal"))


def devpav(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.devpav`."""
    return metrics.devpav(labelled(llrs, "devPAV"))


def eer(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.eer`."""
    return metrics.eer(labelled(llrs, "the equal error rate"))


def misleading_same(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.misleading_same`."""
    return metrics.misleading_same(labelled(llrs, "the share of misleading LLRs"))


def misleading_different(llrs: LLRData) -> float:
    """`lindley.evaluation.metrics.misleading_different`."""
    return metrics.misleading_different(labelled(llrs, "the share of misleading LLRs"))

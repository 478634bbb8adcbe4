"""lindley's models, calibrations and bounds as steps of LiR's pipelines, and its metrics for LiR's tables.

The metrics are finite for any finite LLRs, where LiR's own Cllr may overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from lir.bounding import LLRBounder
from lir.data.models import InstanceData, LLRData, PairedFeatureData
from lir.transform.base import Transformer

from lindley.adapters.lir.choices import LIR_MODEL, Choices
from lindley.adapters.lir.data import as_llr_data, bounds_of, fit_on, instances_of, labelled, naming_pairs
from lindley.calibration import Calibration, Kernel, Logistic, Pav, elub, iv
from lindley.errors import LindleyError
from lindley.evaluation import metrics
from lindley.llrs import LLRs
from lindley.system.system import System

__all__ = [
    "ElubBounder",
    "InvarianceBounder",
    "KernelCalibrator",
    "LogisticCalibrator",
    "PavCalibrator",
    "TwoLevelModel",
    "cllr",
    "cllr_cal",
    "cllr_min",
    "devpav",
    "eer",
    "misleading_different",
    "misleading_same",
]


class TwoLevelModel(Transformer):  # type: ignore[misc]
    """Any lindley model as a step that turns pairs into LLRs: the ``comparing`` step of LiR's ``score_based`` architecture.

    It is fitted on instances with their sources, or on pairs: then on the distinct instances that they consist of. Takes
    ``model``, ``options``, ``validation`` and ``seed`` as `lindley.adapters.lir.two_level` does.
    """

    def __init__(self, model: str = LIR_MODEL, **choices: Any) -> None:
        self.choices = Choices.read({"model": model, **choices})
        self.system: System | None = None

    def fit(self, instances: InstanceData) -> Self:
        """Fit on FeatureData with sources, or on PairedFeatureData."""
        paired = isinstance(instances, PairedFeatureData)
        counts = (instances.n_trace_instances, instances.n_ref_instances) if paired else (1, 1)
        self.system, _ = fit_on(instances_of(instances, "a two-level model"), self.choices, counts)
        return self

    def apply(self, instances: InstanceData) -> LLRData:
        """The LLRs of pairs."""
        if self.system is None:
            raise LindleyError("the model was not fitted yet: call fit first")
        if not isinstance(instances, PairedFeatureData):
            raise LindleyError(
                f"a two-level model compares pairs: give PairedFeatureData, not {type(instances).__name__}"
            )
        with naming_pairs(instances):
            llr = self.system.llr_pairs(instances.features_trace, instances.features_ref)
        return instances.replace_as(LLRData, features=llr, **bounds_of(self.system.calibration.steps))


class _Calibrator(Transformer):  # type: ignore[misc]
    """A calibration of lindley's, fitted on LLRs whose truth is known."""

    kind: ClassVar[type[Calibration]]

    def __init__(self) -> None:
        self.calibration: Calibration | None = None

    def fit(self, instances: InstanceData) -> Self:
        """Fit on labelled LLRs, which stay as they are."""
        self.calibration = self._fitted(as_llr_data(instances, type(self).__name__))
        return self

    def _fitted(self, llrs: LLRData) -> Calibration:
        return self.kind.fit(labelled(llrs, type(self).__name__))

    def apply(self, instances: InstanceData) -> LLRData:
        """Calibrated LLRs, without bounds that were set before."""
        if self.calibration is None:
            raise LindleyError(f"{type(self).__name__} was not fitted yet: call fit first")
        llrs = as_llr_data(instances, type(self).__name__)
        calibrated = self.calibration(np.asarray(llrs.llrs, dtype=np.float64))
        return llrs.replace(features=calibrated.reshape(-1, 1), llr_lower_bound=None, llr_upper_bound=None)


class PavCalibrator(_Calibrator):
    """`lindley.calibration.Pav`: the best monotone map, with one misleading pair added on either side."""

    kind = Pav


class _ClippedCalibrator(_Calibrator):
    """A calibration that takes LLRs beyond ± ``clip`` for that."""

    kind: ClassVar[type[Logistic | Kernel]]

    def __init__(self, clip: float | None = 26.0) -> None:
        super().__init__()
        self.clip = clip

    def _fitted(self, llrs: LLRData) -> Calibration:
        return self.kind.fit(labelled(llrs, type(self).__name__), self.clip)


class LogisticCalibrator(_ClippedCalibrator):
    """`lindley.calibration.Logistic`: the affine map of the least Cllr; LLRs beyond ± ``clip`` count as that."""

    kind = Logistic


class KernelCalibrator(_ClippedCalibrator):
    """`lindley.calibration.Kernel`: the ratio of two kernel densities; LLRs beyond ± ``clip`` count as that."""

    kind = Kernel


class ElubBounder(LLRBounder):  # type: ignore[misc]
    """`lindley.calibration.elub`: LiR's bounds, found without changing the LLRs that they are found on."""

    def calculate_bounds(self, llrdata: LLRData) -> tuple[float | None, float | None]:
        """The bounds that the LLRs support."""
        return elub(labelled(llrdata, type(self).__name__))


class InvarianceBounder(LLRBounder):  # type: ignore[misc]
    """`lindley.calibration.iv`: bounds by invariance verification."""

    def calculate_bounds(self, llrdata: LLRData) -> tuple[float | None, float | None]:
        """The bounds that the LLRs support."""
        return iv(labelled(llrdata, type(self).__name__))


def _for_lir(metric: Callable[[LLRs], float], called: str) -> Callable[[LLRData], float]:
    """A metric of lindley's on LiR's data; ``called`` names it in errors."""

    def measured(llrs: LLRData) -> float:
        return metric(labelled(llrs, called))

    measured.__name__ = measured.__qualname__ = metric.__name__  # so that a worker process finds it
    measured.__doc__ = f"`lindley.evaluation.metrics.{metric.__name__}`."
    return measured


cllr = _for_lir(metrics.cllr, "Cllr")
cllr_min = _for_lir(metrics.cllr_min, "Cllr_min")
cllr_cal = _for_lir(metrics.cllr_cal, "Cllr_cal")
devpav = _for_lir(metrics.devpav, "devPAV")
eer = _for_lir(metrics.eer, "the equal error rate")
misleading_same = _for_lir(metrics.misleading_same, "the share of misleading LLRs")
misleading_different = _for_lir(metrics.misleading_different, "the share of misleading LLRs")

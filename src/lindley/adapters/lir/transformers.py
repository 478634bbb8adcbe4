"""lindley's models, calibrations and bounds as steps of LiR's pipelines."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from lir.bounding import LLRBounder
from lir.data.models import InstanceData, LLRData, PairedFeatureData
from lir.transform.base import Transformer

from lindley.adapters.lir.data import (
    as_llr_data,
    bounds_of,
    features_of,
    fit_on,
    instances_of,
    labelled,
    naming_pairs,
)
from lindley.calibration import Calibration, Kernel, Logistic, Pav, elub, iv
from lindley.errors import LindleyError
from lindley.system.named import FittedModel, ModelChoices

__all__ = [
    "ElubBounder",
    "InvarianceBounder",
    "KernelCalibrator",
    "LogisticCalibrator",
    "PavCalibrator",
    "TwoLevelModel",
]


class TwoLevelModel(Transformer):  # type: ignore[misc]
    """Any lindley model as a step that turns pairs into LLRs: the ``comparing`` step of LiR's ``score_based`` architecture.

    It is fitted on instances with their sources, or on pairs: then on the distinct instances that they consist of. Takes
    ``model``, ``options``, ``validation`` and ``seed`` as `lindley.adapters.lir.two_level` does.
    """

    def __init__(self, model: str = "tlm-kde", **choices: Any) -> None:
        self.choices = ModelChoices.read({"model": model, **choices})
        self.fitted: FittedModel | None = None

    def fit(self, instances: InstanceData) -> Self:
        """Fit on FeatureData with sources, or on PairedFeatureData."""
        counts = (1, 1)
        if isinstance(instances, PairedFeatureData):
            counts = instances.n_trace_instances, instances.n_ref_instances
            instances = instances_of(instances, "a two-level model")
        else:
            instances = features_of(instances, "a two-level model")
        self.fitted = fit_on(instances, self.choices, counts)
        return self

    def apply(self, instances: InstanceData) -> LLRData:
        """The LLRs of pairs."""
        if self.fitted is None:
            raise LindleyError("the model was not fitted yet: call fit first")
        if not isinstance(instances, PairedFeatureData):
            raise LindleyError(
                f"a two-level model compares pairs: give PairedFeatureData, not {type(instances).__name__}"
            )
        with naming_pairs(instances):
            llr = self.fitted.llr_pairs(instances.features_trace, instances.features_ref)
        return instances.replace_as(LLRData, features=llr, **bounds_of(self.fitted.calibration.steps))


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


class LogisticCalibrator(_Calibrator):
    """`lindley.calibration.Logistic`: the affine map of the least Cllr; LLRs beyond ± ``clip`` count as that."""

    kind = Logistic

    def __init__(self, clip: float | None = 26.0) -> None:
        super().__init__()
        self.clip = clip

    def _fitted(self, llrs: LLRData) -> Calibration:
        return Logistic.fit(labelled(llrs, type(self).__name__), self.clip)


class KernelCalibrator(_Calibrator):
    """`lindley.calibration.Kernel`: the ratio of two kernel densities; LLRs beyond ± ``clip`` count as that."""

    kind = Kernel

    def __init__(self, clip: float | None = 26.0) -> None:
        super().__init__()
        self.clip = clip

    def _fitted(self, llrs: LLRData) -> Calibration:
        return Kernel.fit(labelled(llrs, type(self).__name__), self.clip)


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

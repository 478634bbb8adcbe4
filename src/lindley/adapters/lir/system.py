"""LR systems of LiR's: any lindley model, fitted by LiR; and a system that lindley trained and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from lir.data.io import search_path
from lir.data.models import FeatureData, InstanceData, LLRData, PairedFeatureData
from lir.lrsystems.base import LRSystem
from lir.transform import Identity
from lir.transform.base import Transformer
from lir.transform.pairing import PairingMethod
from lir.transform.pipeline import Pipeline

from lindley.adapters.lir.data import features_of, instances_of, paired_like
from lindley.adapters.lir.pairing import AllPairs
from lindley.casework.system import System, load
from lindley.data.splits import Side
from lindley.errors import LindleyError
from lindley.experiment.named import FittedModel, ModelChoices, fit_model
from lindley.llrs import Floats
from lindley.models.pairs import distinct_items, score_pairs

__all__ = ["SavedSystem", "TwoLevelSystem"]

PREPROCESSING = "preprocessing"


class _PairSystem(LRSystem):  # type: ignore[misc]
    """A system that gives LLRs for pairs: those that it is given, or those that its pairing makes of instances."""

    def __init__(self, pairing: PairingMethod | None, n_trace_instances: int, n_ref_instances: int) -> None:
        for name, count in (("n_trace_instances", n_trace_instances), ("n_ref_instances", n_ref_instances)):
            if count < 1:
                raise LindleyError(f"{name} must be 1 or more, not {count}")
        self.pairing_function = AllPairs() if pairing is None else pairing
        self.n_trace_instances = n_trace_instances
        self.n_ref_instances = n_ref_instances

    def _paired(self, instances: InstanceData) -> PairedFeatureData:
        if isinstance(instances, PairedFeatureData):
            return instances
        return self.pairing_function.pair(instances, self.n_trace_instances, self.n_ref_instances)


class TwoLevelSystem(_PairSystem):
    """Any lindley model as an LR system of LiR's, in the place of `lir.lrsystems.two_level.TwoLevelSystem`.

    ``fit`` takes instances with their sources, or pairs. A share ``validation`` of the sources is kept from the model where
    something needs pairs of sources that it has not seen: the training of a neural model, a calibration in the model's name,
    or ``postprocessing``. With ``validation=0`` postprocessing is fitted on pairs of the sources that the model was fitted
    on, as LiR's own system does. ``apply`` takes instances, which it pairs, or given pairs.

    Args:
        model: its name, as in ``lindley run``.
        pairing: how instances are paired; default `AllPairs`.
        n_trace_instances: how many instances make a trace.
        n_ref_instances: how many instances make a ref.
        preprocessing: a transformer of instances, in front of the model.
        postprocessing: a transformer of LLRs, behind it.
        choices: ``options``, ``integration`` and ``calibration`` as in an experiment file of lindley's; ``validation``;
            ``seed``; ``device``.

    Raises:
        LindleyError: if the choices do not do; it says why.
    """

    def __init__(
        self,
        model: str = "tlm-kde",
        pairing: PairingMethod | None = None,
        n_trace_instances: int = 1,
        n_ref_instances: int = 1,
        preprocessing: Transformer | None = None,
        postprocessing: Transformer | None = None,
        **choices: Any,
    ) -> None:
        super().__init__(pairing, n_trace_instances, n_ref_instances)
        self.choices = ModelChoices.read({"model": model, **choices})
        self.preprocessing_pipeline = Identity() if preprocessing is None else preprocessing
        self.postprocessing_pipeline = Identity() if postprocessing is None else postprocessing
        self.fitted: FittedModel | None = None

    def fit(self, instances: InstanceData) -> Self:
        """Fit preprocessing, model and postprocessing, one after the other."""
        pairs = instances if isinstance(instances, PairedFeatureData) else None
        what = "a two-level system"
        rows = features_of(instances, what) if pairs is None else instances_of(pairs, what)
        rows = features_of(self.preprocessing_pipeline.fit_apply(rows), PREPROCESSING)
        after = not _does_nothing(self.postprocessing_pipeline)
        self.fitted = fit_model(
            rows.features,
            rows.source_ids,
            self.choices,
            group=getattr(rows, "group_ids", None),
            n_trace=self.n_trace_instances if pairs is None else pairs.n_trace_instances,
            n_ref=self.n_ref_instances if pairs is None else pairs.n_ref_instances,
            hold_out=after,
        )
        if after:
            unseen = self.fitted.validation_sources
            if pairs is None:
                pairs = self._paired(rows[np.isin(rows.source_ids, unseen)] if unseen.size else rows)
            else:
                pairs = self._preprocessed(pairs)
                if unseen.size:
                    pairs = pairs[np.isin(pairs.source_ids, unseen).all(axis=1)]
            self.postprocessing_pipeline.fit(self._llrs(pairs))
        return self

    def apply(self, instances: InstanceData) -> LLRData:
        """LLRs of the pairs that are given, or of those that the pairing makes of instances."""
        if isinstance(instances, PairedFeatureData):
            pairs = self._preprocessed(instances)
        else:
            pairs = self._paired(self.preprocessing_pipeline.apply(instances))
        return self.postprocessing_pipeline.apply(self._llrs(pairs)).replace_as(LLRData)

    def _llrs(self, pairs: PairedFeatureData) -> LLRData:
        if self.fitted is None:
            raise LindleyError("the system was not fitted yet: call fit first")
        llr = self.fitted.llr_pairs(pairs.features_trace, pairs.features_ref)
        return pairs.replace_as(LLRData, features=llr)

    def _preprocessed(self, pairs: PairedFeatureData) -> PairedFeatureData:
        """Every instance of every pair sent through the preprocessing."""
        if _does_nothing(self.preprocessing_pipeline):
            return pairs
        rows = FeatureData(features=pairs.features.reshape(-1, pairs.features.shape[-1]))
        return paired_like(pairs, self.preprocessing_pipeline.apply(rows), PREPROCESSING)


class SavedSystem(_PairSystem):
    """A system that ``lindley train`` wrote, as an LR system of LiR's. It is fitted already, and ``fit`` leaves it as it is.

    Args:
        path: the file; LiR looks for it beside the experiment file, too.
        pairing: how instances are paired; default `AllPairs`.
        n_trace_instances: how many instances make a trace.
        n_ref_instances: how many instances make a ref.
        bounded: whether LLRs are held within what the validation of the system supports.
        transformed: whether the logarithm that the system may take was taken already. By default features are as measured,
            in the order of the system's ``columns``.
    """

    def __init__(
        self,
        path: str | Path,
        pairing: PairingMethod | None = None,
        n_trace_instances: int = 1,
        n_ref_instances: int = 1,
        bounded: bool = True,
        transformed: bool = False,
    ) -> None:
        super().__init__(pairing, n_trace_instances, n_ref_instances)
        self.system: System = load(search_path(path))
        self.bounded = bounded
        self.transformed = transformed

    def apply(self, instances: InstanceData) -> LLRData:
        """LLRs of the pairs that are given, or of those that the pairing makes of instances."""
        pairs = self._paired(instances)
        (traces, i), (refs, j) = (self._distinct(side) for side in (pairs.features_trace, pairs.features_ref))
        llr = self.system.calibrated(score_pairs(self.system.point, traces, refs, i, j))
        if not self.bounded:
            return pairs.replace_as(LLRData, features=llr)
        lower, upper = self.system.bounds
        return pairs.replace_as(
            LLRData, features=np.clip(llr, lower, upper), llr_lower_bound=lower, llr_upper_bound=upper
        )

    def _distinct(self, values: Floats) -> tuple[Side, Any]:
        system = self.system
        expected = system.features if self.transformed else system.columns
        if values.ndim != 3 or values.shape[2] != len(expected):
            raise LindleyError(
                f"the system needs {len(expected)} features ({', '.join(expected)}), and the data has {values.shape[2:]}"
            )
        side, which = distinct_items(values)
        rows = system.scaling(side.values) if self.transformed else system.side([side.values], "instances").values
        return Side(rows, side.item, side.source), which


def _does_nothing(transformer: Transformer) -> bool:
    return isinstance(transformer, Identity) or (type(transformer) is Pipeline and not transformer.steps)

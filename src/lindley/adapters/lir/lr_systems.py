"""LR systems of LiR's: any lindley model, fitted by LiR; and a system that lindley trained and saved.

`two_level` and `saved_system` make them of what stands behind ``architecture`` in LiR's experiment files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from lir.config.base import ConfigValue, YamlParseError, check_is_empty, config_parser, pop_field
from lir.config.lrsystem_architectures import parse_default_pipeline
from lir.config.transform import parse_module, parse_pairing_config
from lir.data.io import search_path
from lir.data.models import FeatureData, InstanceData, LLRData, PairedFeatureData
from lir.lrsystems.base import LRSystem
from lir.transform import Identity
from lir.transform.base import Transformer
from lir.transform.pairing import InstancePairing, PairingMethod
from lir.transform.pipeline import Pipeline

from lindley.adapters.lir.choices import LIR_MODEL, Choices
from lindley.adapters.lir.data import (
    bounds_of,
    by_name,
    features_of,
    fit_on,
    instances_of,
    names_of,
    naming_pairs,
    paired_like,
    plain_labels,
    transform_of,
    whole_number,
)
from lindley.adapters.lir.pairing import AllPairs
from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.system.system import System, load
from lindley.table.findings import listing, quoted
from lindley.table.scaling import Transform, TransformKind

__all__ = ["SavedSystem", "TwoLevelSystem", "saved_system", "two_level"]

PREPROCESSING = "preprocessing"
MODULES = (PREPROCESSING, "postprocessing")
COUNTS = ("n_trace_instances", "n_ref_instances")
BESIDE = ("pairing", *COUNTS, *MODULES)
"""What a system takes beside the choices of its model."""
WITHOUT_STATE = (AllPairs, InstancePairing)
"""Pairings that give the same pairs however often they were asked before."""
FAR = 10
"""Times the farthest training instance: values that are usually beyond are not what the system was trained on."""


class _PairSystem(LRSystem):  # type: ignore[misc]
    """A system that gives LLRs for pairs: those that it is given, or those that its pairing makes of instances."""

    def __init__(self, pairing: PairingMethod | None, n_trace_instances: int, n_ref_instances: int) -> None:
        self.pairing_function = AllPairs() if pairing is None else pairing
        self.n_trace_instances = whole_number("n_trace_instances", n_trace_instances, 1)
        self.n_ref_instances = whole_number("n_ref_instances", n_ref_instances, 1)

    def _paired(self, instances: InstanceData) -> PairedFeatureData:
        if isinstance(instances, PairedFeatureData):
            return instances
        return self.pairing_function.pair(instances, self.n_trace_instances, self.n_ref_instances)


class TwoLevelSystem(_PairSystem):
    """Any lindley model as an LR system of LiR's, in the place of `lir.lrsystems.two_level.TwoLevelSystem`.

    ``fit`` takes instances with their sources, or pairs. A share ``validation`` of the sources is kept from the model where
    something needs sources that it has not seen: the training of a neural model, or ``postprocessing``. Other models are
    calibrated on pairs that are held out in turns, if their name has a calibration. With ``validation=0`` postprocessing is
    fitted on pairs of the sources that the model was fitted on, as LiR's own system does. ``apply`` takes instances, which it
    pairs, or given pairs. Where both tell the names of their features, as `Table` does, it takes those that the system was
    fitted on, in their order.

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
        model: str = LIR_MODEL,
        pairing: PairingMethod | None = None,
        n_trace_instances: int = 1,
        n_ref_instances: int = 1,
        preprocessing: Transformer | None = None,
        postprocessing: Transformer | None = None,
        **choices: Any,
    ) -> None:
        super().__init__(pairing, n_trace_instances, n_ref_instances)
        self.choices = Choices.read({"model": model, **choices}, beside=BESIDE)
        self.preprocessing_pipeline = Identity() if preprocessing is None else preprocessing
        self.postprocessing_pipeline = Identity() if postprocessing is None else postprocessing
        self.system: System | None = None
        self.kept_sources: Any = None  # from the model
        self.feature_names: tuple[str, ...] | None = None
        self.transform: Transform | None = None

    def fit(self, instances: InstanceData) -> Self:
        """Fit preprocessing, model and postprocessing, one after the other."""
        pairs = plain_labels(instances) if isinstance(instances, PairedFeatureData) else None
        rows = instances_of(instances, "a two-level system")
        self.feature_names, self.transform = names_of(rows), transform_of(rows)
        rows = features_of(self.preprocessing_pipeline.fit_apply(rows), PREPROCESSING)
        counts = self.n_trace_instances, self.n_ref_instances
        if pairs is not None:
            counts = pairs.n_trace_instances, pairs.n_ref_instances
        after = not _does_nothing(self.postprocessing_pipeline)
        self.system, self.kept_sources = fit_on(rows, self.choices, counts, keep=after)
        if after:
            self.postprocessing_pipeline.fit(self._llrs(self._unseen(rows, pairs, self.kept_sources)))
        elif pairs is None and not isinstance(self.pairing_function, WITHOUT_STATE):
            self._paired(rows)  # as LiR's own system does: the pairs that come next depend on it
        return self

    def _unseen(self, rows: FeatureData, pairs: PairedFeatureData | None, sources: Any) -> PairedFeatureData:
        """Pairs of sources that were kept from the model, or all if there are none."""
        if pairs is None:
            return self._paired(rows[np.isin(rows.source_ids, sources)] if sources.size else rows)
        pairs = self._preprocessed(pairs)
        return pairs[np.isin(pairs.source_ids, sources).all(axis=1)] if sources.size else pairs

    def apply(self, instances: InstanceData) -> LLRData:
        """LLRs of the pairs that are given, or of those that the pairing makes of instances."""
        instances = self._as_fitted(instances)
        if isinstance(instances, PairedFeatureData):
            pairs = self._preprocessed(instances)
        else:
            pairs = self._paired(self.preprocessing_pipeline.apply(plain_labels(instances)))
        llrs = self._llrs(pairs)
        if _does_nothing(self.postprocessing_pipeline) and self.system is not None:
            return llrs.replace(**bounds_of(self.system.calibration.steps))
        return self.postprocessing_pipeline.apply(llrs).replace_as(LLRData)

    def _as_fitted(self, instances: InstanceData) -> InstanceData:
        """The features that the system was fitted on, in their order, where it and the data know their names."""
        transform = transform_of(instances)
        if None not in (transform, self.transform) and transform != self.transform:
            raise LindleyError(
                f"the system was fitted on features with transform: {self.transform}, and the data has transform: "
                f"{transform}: read both in the same way"
            )
        if self.feature_names is None or not isinstance(instances, FeatureData):
            return instances
        return by_name(instances, self.feature_names)

    def _llrs(self, pairs: PairedFeatureData) -> LLRData:
        if self.system is None:
            raise LindleyError("the system was not fitted yet: call fit first")
        with naming_pairs(pairs):
            llr = self.system.llr_pairs(pairs.features_trace, pairs.features_ref)
        return pairs.replace_as(LLRData, features=llr)

    def _preprocessed(self, pairs: PairedFeatureData) -> PairedFeatureData:
        """Every instance of every pair sent through the preprocessing."""
        if _does_nothing(self.preprocessing_pipeline):
            return pairs
        rows = FeatureData(features=pairs.features.reshape(-1, pairs.features.shape[-1]))
        return paired_like(pairs, self.preprocessing_pipeline.apply(rows), PREPROCESSING)


class SavedSystem(_PairSystem):
    """A system that ``lindley train`` wrote, as an LR system of LiR's. It is fitted already, and ``fit`` leaves it as it is.

    Where the data tells the names of its features, as `Table` does, those of the system are taken, in its order. Otherwise
    they must be the system's ``columns``, and a warning says so.

    Args:
        path: the file; LiR looks for it beside the experiment file, too.
        pairing: how instances are paired; default `AllPairs`.
        n_trace_instances: how many instances make a trace.
        n_ref_instances: how many instances make a ref.
        bounded: whether LLRs are held within what the validation of the system supports.
        transformed: whether the logarithm that the system may take was taken already. By default this is what the data
            says, and features are as measured if it says nothing.
    """

    def __init__(
        self,
        path: str | Path,
        pairing: PairingMethod | None = None,
        n_trace_instances: int = 1,
        n_ref_instances: int = 1,
        bounded: bool = True,
        transformed: bool | None = None,
    ) -> None:
        super().__init__(pairing, n_trace_instances, n_ref_instances)
        self.system: System = load(search_path(path))
        self.bounded = bounded
        self.transformed = transformed
        self._warned = False

    def apply(self, instances: InstanceData) -> LLRData:
        """LLRs of the pairs that are given, or of those that the pairing makes of instances."""
        transformed = self._is_transformed(instances)
        pairs = self._paired(self._columns(instances, transformed))
        with naming_pairs(pairs):
            sides = (self._transformed(side, transformed) for side in (pairs.features_trace, pairs.features_ref))
            llr = self.system.llr_pairs(*sides)
        bounds = bounds_of(self.system.calibration.steps)
        if self.bounded and self.system.casework is not None:
            lower, upper = self.system.bounds
            llr = np.clip(llr, lower, upper)
            bounds = {"llr_lower_bound": lower, "llr_upper_bound": upper}
        return pairs.replace_as(LLRData, features=llr, **bounds)

    def _is_transformed(self, instances: InstanceData) -> bool:
        """Whether the system's logarithm was taken already, by what the data and the user say."""
        told = transform_of(instances)
        own = Transform(cast(TransformKind, self.system.transform), self.system.reference)
        if told is None or told.kind == "none":
            return bool(self.transformed)
        if self.transformed is False:
            raise LindleyError(
                f"transformed: false contradicts the data, which was read with transform: {told}. Leave "
                "transformed out, or read the data with transform: none."
            )
        if told != own and not (own.kind == "none" and self.transformed):
            mend = "Read the data with transform: none"
            if own.kind == "none":
                mend += ", or say transformed: true if the system was trained on a table of such logarithms"
            raise LindleyError(
                f"the system takes {own} of its features, and the data was read with transform: {told}. {mend}."
            )
        return True

    def _columns(self, instances: InstanceData, transformed: bool) -> InstanceData:
        """The system's features in its order, if the data names its own."""
        if not isinstance(instances, FeatureData):
            return instances
        system = self.system
        columns = system.features if transformed else system.columns
        named, n = getattr(instances, "feature_names", None), instances.features.shape[-1]
        if named is None and n != len(columns):
            return instances
        if named is None:
            if not self._warned:
                told = f"the data does not name its features: its columns are taken to be {', '.join(columns)}, in this order"
                warnings.warn(told, stacklevel=3)
            self._warned = True
            return instances.replace(feature_names=columns)
        if len(named) != n:
            raise LindleyError(
                f"feature_names of the data are {', '.join(map(str, named))}, and it has {n} columns: a step "
                "before has changed them. Set feature_names to what they are now."
            )
        return by_name(instances, columns, system.column_units[: len(columns)])

    def _transformed(self, values: Floats, transformed: bool) -> Floats:
        """Instances (pairs, instances, feature) after the system's own transform; those with a NaN stay so."""
        system = self.system
        expected = system.features if transformed else system.columns
        if values.ndim != 3 or values.shape[2] != len(expected):
            raise LindleyError(
                f"the system needs {len(expected)} features ({', '.join(expected)}), and the data has {values.shape[2:]}"
            )
        rows = values.reshape(-1, values.shape[2])
        there = ~np.isnan(rows).any(axis=1)
        found = np.full((len(rows), len(system.features)), np.nan)
        if transformed:
            self._require_near(system.scaling(rows[there]))
        if there.any():
            found[there] = rows[there] if transformed else system.side([rows[there]], "instances").values
        return found.reshape(*values.shape[:2], -1)

    def _require_near(self, rows: Floats) -> None:
        """Refuse features that cannot be logarithms, though they are said to be: (rows, feature), standardised."""
        if self.system.casework is None:
            return
        known = self.system.population
        limit = FAR * np.maximum(np.abs(known.lowest), np.abs(known.highest))
        far = np.flatnonzero(np.median(np.abs(rows), axis=0) > limit) if len(rows) else ()
        if len(far):
            names = listing(quoted(self.system.features[place] for place in far))
            raise LindleyError(
                f"transformed: true says that the logarithm was taken ({self.system.transform}), and the values of {names} "
                "are nowhere near those that the system was trained on. Leave it out if they are as measured."
            )


def _does_nothing(transformer: Transformer) -> bool:
    return isinstance(transformer, Identity) or (type(transformer) is Pipeline and not transformer.steps)


def _two_level(config: ConfigValue, output_dir: Path) -> TwoLevelSystem:
    """A lindley model as an LR system.

    The keys of LiR's own ``two_level``: ``preprocessing``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``,
    ``postprocessing`` and ``intermediate_output``; each may be left out. And lindley's: ``model``, ``integration``,
    ``calibration``, ``options``, ``validation``, ``seed``, ``device``.
    """
    default = parse_default_pipeline(config)
    before, after = (
        parse_module(pop_field(config, key, required=False), output_dir, default_method=default) for key in MODULES
    )
    pairs = _pairs(config, output_dir)
    rest = config.as_dict()
    config.value = {}
    with _told_at(config.context):
        Choices.read(rest, beside=(*BESIDE, "intermediate_output"))
        return TwoLevelSystem(preprocessing=before, postprocessing=after, **pairs, **rest)


def _saved_system(config: ConfigValue, output_dir: Path) -> SavedSystem:
    """A saved lindley system as an LR system.

    The keys are ``path``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``, ``bounded`` and ``transformed``.
    """
    path = pop_field(config, "path", validate_type=str)
    bounded = pop_field(config, "bounded", default=True, validate_type=bool)
    transformed = pop_field(config, "transformed", required=False, validate_type=bool)
    pairs = _pairs(config, output_dir)
    check_is_empty(config)
    with _told_at(config.context):
        return SavedSystem(path=path, bounded=bounded, transformed=transformed, **pairs)


def _pairs(config: ConfigValue, output_dir: Path) -> dict[str, Any]:
    """What both architectures say about pairs."""
    pairing = pop_field(config, "pairing", required=False)
    return {
        "pairing": None if pairing is None or pairing.value is None else parse_pairing_config(pairing, output_dir),
        **{key: pop_field(config, key, default=1, validate_type=int) for key in COUNTS},
    }


@contextmanager
def _told_at(context: list[str]) -> Iterator[None]:
    """An error names its place in the file, and nothing else."""
    try:
        yield
    except LindleyError as error:
        raise YamlParseError(context, str(error)) from None


two_level = config_parser(_two_level, reference=TwoLevelSystem)
saved_system = config_parser(_saved_system, reference=SavedSystem)

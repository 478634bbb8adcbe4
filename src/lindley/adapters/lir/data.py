"""Between LiR's data objects and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from lir.data.models import DataProvider, FeatureData, InstanceData, LLRData, PairedFeatureData
from numpy.typing import NDArray
from pydantic import ValidationError

from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig
from lindley.llrs import Floats, LLRs
from lindley.models.pairs import distinct_items

__all__ = ["Table", "as_llr_data", "features_of", "instances_of", "labelled", "paired_like"]


class Table(DataProvider):  # type: ignore[misc]
    """A named data set of lindley's, or any CSV or Excel file that it reads, checked as ``lindley check`` does.

    Takes what the ``data`` section of an experiment file takes: ``data: nfi-glass``, or ``data: glass.csv`` with
    ``source_column``, ``group_column``, ``transform`` and so on. A group column becomes the field ``group_ids``, and the
    validation share of a lindley architecture then keeps groups together.
    """

    def __init__(self, data: str, **reading: Any) -> None:
        try:
            self.config = DataConfig.model_validate({"data": data, **reading})
        except ValidationError as error:
            known = ", ".join(name for name in DataConfig.model_fields if name != "data")
            problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
            raise LindleyError(f"{problems}. Beside data there are {known}.") from error

    def get_instances(self) -> FeatureData:
        """One instance per row of the table, with its source."""
        table = self.config.load()
        groups = {} if table.group is table.source else {"group_ids": table.group}
        return FeatureData(features=table.values, source_ids=table.source, instance_ids=table.instance, **groups)


def features_of(instances: InstanceData, what: str) -> FeatureData:
    """Instances with features (rows, feature) and one source each."""
    if not isinstance(instances, FeatureData) or instances.features.ndim != 2:
        raise LindleyError(
            f"{what} needs FeatureData with one row of features per instance, and not {_told(instances)}"
        )
    if instances.source_ids is None or instances.source_ids.ndim != 1:
        raise LindleyError(f"{what} needs one source per instance: set source_ids of the data")
    return instances


def instances_of(pairs: PairedFeatureData, what: str) -> FeatureData:
    """The distinct instances that pairs consist of, each with its source."""
    if pairs.source_ids is None:
        raise LindleyError(f"{what} needs the sources of the pairs that it is fitted on: set source_ids of the data")
    n_trace, n_ref = pairs.n_trace_instances, pairs.n_ref_instances
    rows = np.asarray(pairs.features, dtype=np.float64).reshape(-1, pairs.features.shape[-1])
    labels = np.repeat(pairs.source_ids, (n_trace, n_ref), axis=1).reshape(-1)
    there = ~np.isnan(rows).any(axis=1)
    rows, labels = rows[there], labels[there]
    sources, code = np.unique(labels, return_inverse=True)
    distinct = distinct_items(np.column_stack([code, rows])[:, None])[0].values
    return FeatureData(features=distinct[:, 1:], source_ids=sources[distinct[:, 0].astype(np.intp)])


def paired_like(pairs: PairedFeatureData, rows: InstanceData, what: str) -> PairedFeatureData:
    """The pairs with other features, given row by row."""
    n, size = pairs.features.shape[:2]
    if not isinstance(rows, FeatureData) or len(rows) != n * size or rows.features.ndim != 2:
        raise LindleyError(
            f"{what}: of {n * size} instances of pairs it left {_told(rows)}. It must keep every instance."
        )
    return pairs.replace(features=rows.features.reshape(n, size, -1))


def as_llr_data(instances: InstanceData, what: str) -> LLRData:
    """Scores or LLRs, one per pair."""
    if isinstance(instances, LLRData):
        return instances
    if not isinstance(instances, FeatureData) or instances.features.ndim != 2 or instances.features.shape[1] != 1:
        raise LindleyError(f"{what} needs one LLR per pair, and not {_told(instances)}")
    return instances.replace_as(LLRData)


def labelled(instances: LLRData, what: str) -> LLRs:
    """LLRs of pairs whose truth is known, by that truth."""
    llr: Floats = np.asarray(instances.llrs, dtype=np.float64)
    truth: NDArray[Any] | None = instances.hypothesis
    if truth is None or not {0, 1} <= set(np.unique(truth).tolist()):
        raise LindleyError(f"{what} needs same-source and different-source pairs, labelled 1 and 0 as their hypothesis")
    if not np.isfinite(llr).all():
        raise LindleyError(
            f"{what} needs finite LLRs, and {np.count_nonzero(~np.isfinite(llr))} are not: bound them before, for example "
            "with LiR's static_bounder"
        )
    return LLRs(llr[truth == 1], llr[truth == 0])


def _told(instances: Any) -> str:
    shape = getattr(getattr(instances, "features", None), "shape", None)
    return type(instances).__name__ + (f" with features of shape {shape}" if shape is not None else "")

"""What LiR's experiment files name as data: a table, and the pairs of a case, of which nobody knows the truth.

Files are found where LiR looks for its own, and errors are in the words of its YAML.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from lir.data.io import search_path
from lir.data.models import DataProvider, FeatureData, PairedFeatureData
from numpy.typing import ArrayLike
from pydantic import ValidationError

from lindley.adapters.lir.data import told_in_yaml
from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.settings import speaking
from lindley.table.columns import Purpose
from lindley.table.config import DataConfig
from lindley.table.datasets import dataset_names
from lindley.table.table import Table as Measurements

__all__ = ["CasePairs", "Table", "case_pairs"]


class Table(DataProvider):  # type: ignore[misc]
    """A named data set of lindley's, or any CSV or Excel file that it reads, checked as ``lindley check`` does.

    Takes what the ``data`` section of an experiment file takes: ``data: nfi-glass``, or ``data: glass.csv`` with
    ``source_column``, ``group_column``, ``transform`` and so on. LiR looks for the file beside the experiment file, too. As
    LiR splits the data, or does not, a few sources will do.

    A group column becomes the field ``group_ids``, and the validation share of a lindley architecture then keeps groups
    together; a session column becomes ``session_ids``, by which `AllPairs` and an architecture draw pairs. The fields
    ``feature_names`` and ``transform`` say what the features are: a system takes them by their names.
    """

    def __init__(self, data: str, **options: Any) -> None:
        self.config = _reading(data, options)

    def get_instances(self) -> FeatureData:
        """One instance per row of the table, with its source."""
        table = _loaded(self.config, "whole")
        labels = {} if table.group is table.source else {"group_ids": table.group}
        labels |= {} if table.session is None else {"session_ids": table.session}
        return FeatureData(
            features=table.values, source_ids=table.source, instance_ids=table.instance, **labels, **_told_fields(table)
        )


class CasePairs(DataProvider):  # type: ignore[misc]
    """Every trace of one file against every ref of another, unlabelled: what LiR's output ``case_llr`` asks for.

    The files are read with the options of `Table`. A column ``source``, or the ``source_column``, tells items apart; without
    one, a file is one item. Refs may have their columns in another order than traces.
    """

    def __init__(self, trace: str, ref: str, **options: Any) -> None:
        self.trace, self.ref = (_reading(file, options) for file in (trace, ref))

    def get_instances(self) -> PairedFeatureData:
        """One row per pair, of all refs with the first trace, then with the second, and so on."""
        traces = _loaded(self.trace, "case")
        refs = _loaded(self.ref, "case", features=traces.features, units=traces.column_units)
        pairs = case_pairs(_items(traces), _items(refs), **_told_fields(traces))
        return pairs.replace(source_ids=np.array(list(product(traces.labels, refs.labels))))


def case_pairs(
    trace: ArrayLike | Sequence[ArrayLike],
    ref: ArrayLike | Sequence[ArrayLike],
    feature_names: Sequence[str] | None = None,
    **fields: Any,
) -> PairedFeatureData:
    """Pairs of measurements whose truth is not known.

    ``trace`` and ``ref`` are arrays of instances × features, of one item each, or lists of such arrays: then every trace is
    set against every ref. Where items differ in their numbers of instances, NaN stands for what was not measured.
    ``feature_names`` lets a system find its features by their names. Further ``fields`` become fields of the pairs.

    >>> case_pairs([[2.9, 2.5]], [[2.8, 2.4], [3.0, 2.6]]).features.shape
    (1, 3, 2)
    """
    traces, refs = (_padded(items, name) for items, name in ((trace, "trace"), (ref, "ref")))
    if traces.shape[2] != refs.shape[2]:
        raise LindleyError(
            f"the trace has {traces.shape[2]} features and the ref {refs.shape[2]}: they must be the same"
        )
    i, j = (index.reshape(-1) for index in np.indices((len(traces), len(refs))))
    counts = {"trace": traces.shape[1], "ref": refs.shape[1]}
    if feature_names is not None:
        fields["feature_names"] = tuple(feature_names)
        fields["header"] = [
            f"{side}_{number + 1}_{name}" for side, n in counts.items() for number in range(n) for name in feature_names
        ]
    return PairedFeatureData(
        features=np.concatenate([traces[i], refs[j]], axis=1),
        n_trace_instances=counts["trace"],
        n_ref_instances=counts["ref"],
        **fields,
    )


def _padded(items: Any, name: str) -> Floats:
    """Items as one array (items, instances, feature), with NaN for instances that an item does not have."""
    try:
        several = len(items) > 0 and np.ndim(items[0]) == 2
        arrays = [np.atleast_2d(np.asarray(item, dtype=np.float64)) for item in (items if several else [items])]
    except (TypeError, ValueError) as error:
        raise LindleyError(f"the {name} is not an array of instances × features ({error})") from None
    sizes = {array.shape[1:] for array in arrays}
    if len(sizes) > 1 or any(array.ndim != 2 or not array.size for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise LindleyError(f"the {name} must be an array of instances × features, or a list of such: it has {shapes}")
    padded = np.full((len(arrays), max(map(len, arrays)), arrays[0].shape[1]), np.nan)
    for item, array in zip(padded, arrays, strict=True):
        item[: len(array)] = array
    return padded


def _items(items: Measurements) -> list[Floats]:
    return [items.values[items.item == number] for number in range(len(items.labels))]


def _reading(data: str, options: Mapping[str, Any]) -> DataConfig:
    """How a table is read: a named data set, or a file that is looked for where LiR looks for its own."""
    try:
        config = DataConfig.model_validate({"data": data, **options})
    except ValidationError as error:
        known = ", ".join(name for name in DataConfig.model_fields if name != "data")
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise LindleyError(f"{problems}. Beside data there are {known}.") from None
    if config.data in dataset_names():
        return config
    found = search_path(config.data)
    return config.model_copy(update={"data": str(found)}) if found.exists() else config


def _loaded(config: DataConfig, purpose: Purpose, **further: Any) -> Measurements:
    """The table; what is wrong with it is an error in the words of an experiment file, and what is odd a Python warning."""
    with told_in_yaml():
        table = config.load(purpose, **further)
    with speaking("yaml"):
        for finding in table.findings:
            if finding.level == "warning":
                warnings.warn(str(finding), stacklevel=3)
    return table


def _told_fields(table: Measurements) -> dict[str, Any]:
    """What a table says of its features, as further fields of LiR's data."""
    reference = table.transform.reference
    divided = {} if reference is None else {"reference_column": reference}
    return {"feature_names": table.header, "transform": table.transform.kind, **divided}

"""The pairs of a case: traces against refs, of which nobody knows the truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lir.data.models import DataProvider, PairedFeatureData
from numpy.typing import ArrayLike

from lindley.adapters.lir.reading import reading, told_in_yaml
from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig
from lindley.llrs import Floats
from lindley.table.findings import TableError
from lindley.table.items import Items, read_items
from lindley.table.read import read_grid
from lindley.table.transform import Transform

__all__ = ["CasePairs", "case_pairs"]


class CasePairs(DataProvider):  # type: ignore[misc]
    """Every trace of one file against every ref of another, unlabelled: what LiR's output ``case_llr`` asks for.

    The files are read with the options of `Table`. A column ``source``, or the ``source_column``, tells items apart; without
    one, a file is one item. Refs may have their columns in another order than traces.
    """

    def __init__(self, trace: str, ref: str, **options: Any) -> None:
        self.trace, self.ref = (reading(file, options) for file in (trace, ref))

    def get_instances(self) -> PairedFeatureData:
        """One row per pair, of all refs with the first trace, then with the second, and so on."""
        with told_in_yaml():
            features = _features(self.trace)
            traces, refs = (_read(config, features) for config in (self.trace, self.ref))
        config = self.trace
        fields = {} if config.reference_column is None else {"reference_column": config.reference_column}
        pairs = case_pairs(_items(traces), _items(refs), features, transform=config.transform, **fields)
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


def _features(config: DataConfig) -> tuple[str, ...]:
    """The features of a file: those that are included, or every column that has no other part to play."""
    if config.include_columns:
        return config.include_columns
    grid, findings = read_grid(Path(config.data), config.sheet)
    if grid is None:
        raise TableError(findings)
    others = {config.source_column, config.group_column, config.instance_column, config.reference_column}
    others.update(config.ignore_columns)
    labels = ("source", "group", "instance")
    return tuple(name for name in grid.header if name not in others and name.casefold() not in labels)


def _read(config: DataConfig, features: tuple[str, ...]) -> Items:
    return read_items(
        config.data,
        features,
        [None] * len(features),
        Transform(config.transform, config.reference_column),
        source_column=config.source_column,
        sheet=config.sheet,
    )


def _items(items: Items) -> list[Floats]:
    return [items.values[items.item == number] for number in range(len(items.labels))]

"""Between LiR's data objects and arrays, with features by their names.

LiR's data objects hold columns of numbers; `Table` adds what they are, as further fields, which LiR hands on as they are:
``feature_names`` is a tuple of names, ``transform`` the logarithm that was taken ("none", "log10" or "ln") and
``reference_column`` the column that they were divided by before.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, TypeVar, cast

import numpy as np
from lir.data.models import FeatureData, InstanceData, LLRData, PairedFeatureData
from numpy.typing import NDArray

from lindley.adapters.lir.choices import Choices
from lindley.calibration.counted import Bounds
from lindley.errors import LindleyError
from lindley.llrs import Floats, LLRs
from lindley.models.pairs import distinct_items
from lindley.settings import speaking
from lindley.system.fit import Settings
from lindley.system.system import System
from lindley.system.train import fit_table
from lindley.table.columns import feature_places
from lindley.table.findings import listing, quoted
from lindley.table.scaling import Transform, TransformKind
from lindley.table.table import Table
from lindley.table.units import convert, power_between, split_unit

__all__ = [
    "as_llr_data",
    "bounds_of",
    "by_name",
    "features_of",
    "fit_on",
    "instances_of",
    "labelled",
    "names_of",
    "naming_pairs",
    "paired_like",
    "plain_labels",
    "told_in_yaml",
    "transform_of",
    "whole_number",
]

Some = TypeVar("Some", bound=InstanceData)
F = TypeVar("F", bound=FeatureData)


@contextmanager
def told_in_yaml() -> Iterator[None]:
    """Errors name keys of an experiment file."""
    with speaking("yaml"):
        try:
            yield
        except LindleyError as error:
            raise LindleyError(str(error)) from None


def names_of(instances: FeatureData) -> tuple[str, ...] | None:
    """What the features are called; None where the data does not say, or names more or fewer than it has."""
    names = getattr(instances, "feature_names", None)
    if names is None or len(names) != instances.features.shape[-1]:
        return None
    return tuple(str(name) for name in names)


def _feature_name(instances: FeatureData, place: int) -> str:
    """A feature as an error calls it: by its name, or else by its number."""
    names = names_of(instances)
    return f"feature {place + 1}" if names is None else f"'{names[place]}'"


def by_name(instances: F, wanted: Sequence[str], units: Sequence[str | None] | None = None) -> F:
    """The wanted features in their order, where the data names its own; else the data as it is.

    Features that are not wanted are left out.

    Raises:
        LindleyError: if one is missing, is there twice, or is in another unit.
    """
    names = names_of(instances)
    if names is None or (names == tuple(wanted) and units is None):
        return instances
    places, findings = feature_places(names, wanted, units or [None] * len(wanted), "the data")
    if findings:
        there = f"The data has {listing(quoted(names), 30)}."
        raise LindleyError(" ".join([*(str(finding).removeprefix("the data: ") for finding in findings), there]))
    order = [places[name] for name in wanted]
    before = tuple(split_unit(names[place])[1] for place in order)
    after = tuple(units or [None] * len(wanted))
    taken = transform_of(instances)
    if taken is not None and taken.kind != "none" and any(map(power_between, before, after)):
        raise LindleyError(f"the data holds {taken} of values in other units than the system's: give it in those")
    features, notes = convert(instances.features[..., order], wanted, before, after, "the data")
    for note in notes:
        warnings.warn(str(note), stacklevel=2)
    return cast(F, instances.replace(features=features, feature_names=tuple(wanted)))


def transform_of(instances: Any) -> Transform | None:
    """The logarithm that was taken of the features, where the data says so."""
    kind = getattr(instances, "transform", None)
    if not isinstance(kind, str):
        return None
    return Transform(cast(TransformKind, kind), getattr(instances, "reference_column", None))


def features_of(instances: InstanceData, what: str) -> FeatureData:
    """Instances with features (rows, feature) and one source each."""
    if not isinstance(instances, FeatureData) or instances.features.ndim != 2:
        raise LindleyError(
            f"{what} needs FeatureData with one row of features per instance, and not {_told(instances)}"
        )
    if instances.source_ids is None or instances.source_ids.ndim != 1:
        raise LindleyError(f"{what} needs one source per instance: set source_ids of the data")
    return plain_labels(instances)


def plain_labels(instances: Some) -> Some:
    """The instances with sources that can be compared: where some are text and others numbers, all become text.

    Raises:
        LindleyError: if a source is None or NaN.
    """
    labels = instances.source_ids
    if labels is None or labels.dtype.kind not in "Of":
        return instances
    flat = labels.reshape(-1)
    if labels.dtype.kind == "f":
        missing = np.isnan(flat)
    else:
        missing = np.array([not isinstance(x, str) and str(x) in ("None", "nan", "<NA>", "NaT") for x in flat], bool)
    if missing.any():
        place = int(np.argmax(missing))
        row = f"pair {place // 2 + 1}" if labels.ndim == 2 else f"instance {place + 1}"
        raise LindleyError(
            f"source_ids: the source of {row} of {len(labels)} is {flat[place]}. Every instance needs one: leave those "
            "without out, or give each a source of its own"
        )
    if len({isinstance(label, str) for label in flat}) == 1:
        return instances
    return cast(Some, instances.replace(source_ids=labels.astype(np.str_)))


def instances_of(data: InstanceData, what: str) -> FeatureData:
    """Instances, each with its source: as given, or the distinct ones that pairs consist of, with their groups and sessions."""
    if not isinstance(data, PairedFeatureData):
        return features_of(data, what)
    if data.source_ids is None:
        raise LindleyError(f"{what} needs the sources of the pairs that it is fitted on: set source_ids of the data")
    pairs = plain_labels(data)
    rows = np.asarray(pairs.features, dtype=np.float64).reshape(-1, pairs.features.shape[-1])
    labels = _by_instance(pairs, pairs.source_ids, "source_ids")
    there = ~np.isnan(rows).any(axis=1)
    code = np.unique(labels[there], return_inverse=True)[1]
    which = distinct_items(np.column_stack([code, rows[there]])[:, None])[1]
    first = np.flatnonzero(there)[np.unique(which, return_index=True)[1]]
    fields = {name: value for name, value in (pairs.model_extra or {}).items() if not isinstance(value, np.ndarray)}
    for name in ("group_ids", "session_ids"):
        if (field := getattr(pairs, name, None)) is not None:
            fields[name] = _by_instance(pairs, np.asarray(field), name)[first]
    return FeatureData(**{**fields, "features": rows[first], "source_ids": labels[first]})


def _by_instance(pairs: PairedFeatureData, values: NDArray[Any], name: str) -> NDArray[Any]:
    """A field of pairs for every instance of every pair, given so (pairs, instances) or for trace and ref (pairs, 2)."""
    counts = pairs.n_trace_instances, pairs.n_ref_instances
    if values.shape == (len(pairs), sum(counts)):
        return values.reshape(-1)
    if values.shape == (len(pairs), 2):
        return np.repeat(values, counts, axis=1).reshape(-1)
    raise LindleyError(
        f"{name} of {len(pairs)} pairs of {sum(counts)} instances must be an array ({len(pairs)}, {sum(counts)}), or "
        f"({len(pairs)}, 2) for trace and ref: it is {values.shape}"
    )


def fit_on(
    rows: FeatureData, choices: Choices, counts: tuple[int, int], keep: bool = False
) -> tuple[System, NDArray[Any]]:
    """A system fitted on instances, for pairs of so many trace and ref instances; and the sources that were kept from it."""
    _require_finite(rows)
    labels, code = np.unique(rows.source_ids, return_inverse=True)
    table = Table.from_arrays(
        rows.features,
        np.array([f"{k:08d}" for k in range(len(labels))])[code],
        group=getattr(rows, "group_ids", None),
        session=getattr(rows, "session_ids", None),
        features=names_of(rows),
        name="the data",
    )
    with told_in_yaml():
        fitted = fit_table(
            table,
            choices.name,
            seed=choices.seed,
            validation=choices.validation,
            instances=counts,
            keep=keep,
            settings=Settings(device=choices.device),
        )
    return fitted.stage.system, labels[np.unique(code[fitted.kept])]


def _require_finite(rows: FeatureData) -> None:
    bad = ~np.isfinite(np.asarray(rows.features, dtype=np.float64))
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0].tolist()
    n = np.count_nonzero(bad.any(axis=1))
    raise LindleyError(
        f"a model is fitted on finite numbers, and {n} of {len(rows)} instances have others: the first is instance "
        f"{row + 1}, of source '{rows.source_ids[row]}', where {_feature_name(rows, column)} is {rows.features[row, column]}. "
        "Leave such instances out, or fill the values in beforehand."
    )


@contextmanager
def naming_pairs(pairs: PairedFeatureData) -> Iterator[None]:
    """Where pairs cannot be scored because of a value, say whose it is."""
    try:
        yield
    except LindleyError:
        for side, values in enumerate((pairs.features_trace, pairs.features_ref)):
            if values.ndim == 3:
                _require_measured(pairs, side, np.asarray(values, dtype=np.float64))
        raise


def _require_measured(pairs: PairedFeatureData, side: int, values: Floats) -> None:
    missing: NDArray[np.bool_] = np.any(np.isnan(values), axis=2)  # (pairs, instances)
    infinite = np.isinf(values) & ~missing[..., None]
    bad = np.flatnonzero(missing.all(axis=1) | infinite.any(axis=(1, 2)))
    if not bad.size:
        return
    pair = int(bad[0])
    who = ("trace", "ref")[side]
    if pairs.source_ids is not None:
        who = f"{who} of source '{pairs.source_ids[pair, side]}'"
    wrong = infinite[pair].any(axis=0) if infinite[pair].any() else np.isnan(values[pair]).any(axis=0)
    names = ", ".join(_feature_name(pairs, place) for place in np.flatnonzero(wrong).tolist())
    why = f"infinite in {names}" if infinite[pair].any() else f"without an instance that has no NaN ({names})"
    raise LindleyError(
        f"{bad.size} of {len(pairs)} pairs cannot be scored: in the first, pair {pair + 1}, the {who} is {why}. Leave them "
        "out, or fill the values in beforehand."
    ) from None


def bounds_of(steps: Sequence[Any]) -> dict[str, float | None]:
    """The bounds of LLRs as LiR has them, if bounds are the last step of a calibration."""
    last = steps[-1] if steps else None
    if not isinstance(last, Bounds):
        return {}
    lower, upper = (bound if np.isfinite(bound) else None for bound in (last.lower, last.upper))
    return {"llr_lower_bound": lower, "llr_upper_bound": upper}


def whole_number(name: str, value: Any, least: int) -> int:
    """A setting that counts something."""
    try:
        number = index(value)
    except TypeError:
        raise LindleyError(f"{name} must be a whole number, not {value!r}") from None
    if isinstance(value, bool) or number < least:
        raise LindleyError(f"{name} must be {least} or more, not {value}")
    return number


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

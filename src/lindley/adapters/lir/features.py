"""Features by their names. LiR's data objects hold columns of numbers; `Table` adds what they are, as further fields.

``feature_names`` is a tuple of names, ``transform`` the logarithm that was taken ("none", "log10" or "ln") and
``reference_column`` the column that they were divided by before. LiR hands such fields on as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from lir.data.models import FeatureData

from lindley.errors import LindleyError
from lindley.table.findings import listing, quoted
from lindley.table.grid import Grid
from lindley.table.items import feature_places
from lindley.table.transform import Transform, TransformKind

__all__ = ["by_name", "feature_name", "names_of", "told_transform", "transform_of"]

F = TypeVar("F", bound=FeatureData)


def names_of(instances: FeatureData) -> tuple[str, ...] | None:
    """What the features are called; None where the data does not say, or names more or fewer than it has."""
    names = getattr(instances, "feature_names", None)
    if names is None or len(names) != instances.features.shape[-1]:
        return None
    return tuple(str(name) for name in names)


def feature_name(instances: FeatureData, place: int) -> str:
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
    header = Grid("the data", names, (), (), "", True)
    places, findings = feature_places(header, wanted, units or [None] * len(wanted))
    if findings:
        there = f"The data has {listing(quoted(names), 30)}."
        raise LindleyError(" ".join([*(str(finding).removeprefix("the data: ") for finding in findings), there]))
    order = [places[name] for name in wanted]
    return cast(F, instances.replace(features=instances.features[..., order], feature_names=tuple(wanted)))


def transform_of(instances: Any) -> Transform | None:
    """The logarithm that was taken of the features, where the data says so."""
    kind = getattr(instances, "transform", None)
    return (
        Transform(cast(TransformKind, kind), getattr(instances, "reference_column", None))
        if isinstance(kind, str)
        else None
    )


def told_transform(transform: Transform) -> str:
    """A transform in words.

    >>> told_transform(Transform("log10", "Si28")), told_transform(Transform())
    ('log10 of the ratio to Si28', 'no logarithm')
    """
    if transform.kind == "none":
        return "no logarithm"
    return transform.kind + (f" of the ratio to {transform.reference}" if transform.reference else "")

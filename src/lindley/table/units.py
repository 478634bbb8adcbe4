"""Units of features: from headers such as ``K39 [ppm]``, and from the option ``--units``."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lindley.errors import LindleyError
from lindley.table.findings import listing, quoted
from lindley.table.items import split_unit
from lindley.table.table import Table

__all__ = ["parse_units", "without_units"]

Units = tuple[str | None, ...]


def without_units(table: Table, reference: str | None = None) -> tuple[Table, Units, str | None]:
    """The table, its features called by their names alone; their units; and the reference's name alone.

    Names stay as they are where two would become one.
    """
    split = [split_unit(feature) for feature in table.features]
    often = Counter(name.casefold() for name, _ in split)
    plain = [
        (name, unit) if often[name.casefold()] == 1 else (feature, None)
        for feature, (name, unit) in zip(table.features, split, strict=True)
    ]
    named = replace(table, features=tuple(name for name, _ in plain))
    return named, tuple(unit for _, unit in plain), None if reference is None else split_unit(reference)[0]


def parse_units(text: str, features: Sequence[str], known: Units) -> Units:
    """The units of ``--units``: one for all features (``ppm``), or some by name (``K39=ppm,Fe57=%``).

    >>> parse_units("K39=ppm", ["K39", "Fe57"], (None, "%"))
    ('ppm', '%')
    """
    given: dict[str, str]
    try:
        fields = [field.strip() for line in csv.reader([text], skipinitialspace=True, strict=True) for field in line]
    except csv.Error as error:
        raise LindleyError(f"--units {text} does not read ({error}): give 'ppm', or 'K39=ppm,Fe57=%'") from error
    fields = [field for field in fields if field]
    if len(fields) == 1 and "=" not in fields[0]:
        given = dict.fromkeys(features, fields[0])
    else:
        split = [field.rpartition("=") for field in fields]
        if not fields or not all(name.strip() and unit.strip() for name, _, unit in split):
            raise LindleyError(f"--units {text} does not read: give one unit for all, 'ppm', or some, 'K39=ppm,Fe57=%'")
        given = {name.strip(): unit.strip() for name, _, unit in split}
    if unknown := [name for name in given if name not in features]:
        raise LindleyError(
            f"--units names {listing(quoted(unknown), 8)}; the features are {listing(quoted(features), 30)}"
        )
    units = tuple(given.get(feature, unit) for feature, unit in zip(features, known, strict=True))
    for feature, before, after in zip(features, known, units, strict=True):
        if before is not None and after is not None and before.casefold() != after.casefold():
            raise LindleyError(
                f"--units says that {feature} is in {after}, and its header says {before}: which is right?"
            )
    return units

"""Read a table of many sources for a system that knows its features: those columns, in its order, units and transform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lindley.table.columns import Columns
from lindley.table.findings import Finding, TableError, listing, quoted
from lindley.table.items import feature_places
from lindley.table.read import read_grid, read_table
from lindley.table.table import Table
from lindley.table.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_known", "select_known"]


def read_known(
    path: str | Path,
    features: Sequence[str],
    units: Sequence[str | None],
    transform: Transform,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    sheet: str | None = None,
    allow_duplicates: bool = False,
) -> Table:
    """Read a table as `read_table` does, with the features, the units and the transform given.

    ``columns`` names source, group and instance; a unit in a header (``K39 [ppm]``) must be the one given, and other
    columns are left out.

    Raises:
        TableError: with everything that is wrong, if anything is.
    """
    path = Path(path)
    grid, findings = read_grid(path, sheet)
    if grid is None:
        raise TableError(findings)
    places, missing = feature_places(grid, features, units)
    reference = None
    if transform.reference is not None:
        found, problems = feature_places(grid, [transform.reference], [None])
        missing += problems
        reference = grid.header[found[transform.reference]] if found else None
    if missing:
        raise TableError([*findings, *missing])
    headers = tuple(grid.header[places[feature]] for feature in features)
    table = read_table(
        path,
        replace(columns, include=headers, ignore=()),
        Transform(transform.kind, reference),
        sheet=sheet,
        allow_duplicates=allow_duplicates,
    )
    order = [table.features.index(header) for header in headers]
    return replace(table, values=table.values[:, order], features=tuple(features))


def select_known(table: Table, features: Sequence[str]) -> Table:
    """The features of a table that was read already, in the order given."""
    missing = [feature for feature in features if feature not in table.features]
    if missing:
        message = f"the system needs {listing(quoted(missing), 8)}, and the table has no such column"
        fix = f"It has {listing(quoted(table.features), 30)}"
        raise TableError([Finding("error", "missing-feature", message, fix, table.name)])
    return replace(table, values=table.values[:, [table.features.index(f) for f in features]], features=tuple(features))

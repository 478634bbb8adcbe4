"""Read the measurements of a case: traces or refs, against the features that a system knows.

Unlike a table to train on, a case has few rows, perhaps of one item only, and must have exactly the system's features, in
its units.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lindley.table.columns import Roles
from lindley.table.findings import Finding, TableError, errors_first, listing, quoted
from lindley.table.grid import Grid
from lindley.table.labels import read_labels
from lindley.table.numbers import mark_findings, number_findings, parse_numbers
from lindley.table.read import non_positive, read_grid
from lindley.table.transform import Transform

__all__ = ["Items", "feature_places", "read_items", "split_unit"]

_UNIT = re.compile(r"^(?P<name>.*\S)\s*(?:\[(?P<square>[^\[\]]+)\]|\((?P<round>[^()]+)\))$")
TABLES = (".csv", ".tsv", ".tab", ".txt", ".xlsx", ".xlsm")


@dataclass(frozen=True, eq=False)
class Items:
    """Measured items: their instances, transformed as the system wants them, and their labels."""

    file: str
    values: NDArray[np.float64]  # (rows, features), transformed
    measured: NDArray[np.float64]  # (rows, features), as they are in the file
    divisor: NDArray[np.float64] | None  # (rows,) the reference that they are divided by, where the system has one
    item: NDArray[np.intp]  # (rows,)
    labels: tuple[str, ...]  # (items,)
    findings: tuple[Finding, ...]


def split_unit(header: str) -> tuple[str, str | None]:
    """The name and the unit of a column: ``K39 [ppm]`` and ``K39 (ppm)`` are K39, in ppm.

    >>> split_unit("K39 [ppm]"), split_unit("K39")
    (('K39', 'ppm'), ('K39', None))
    """
    match = _UNIT.match(header.strip())
    if match is None:
        return header.strip(), None
    return match["name"].strip(), (match["square"] or match["round"]).strip()


def read_items(
    path: str | Path,
    features: Sequence[str],
    units: Sequence[str | None],
    transform: Transform,
    *,
    source_column: str | None = None,
    sheet: str | None = None,
) -> Items:
    """Read a table of one or more items, or a folder of tables with one item each.

    A column called ``source``, or the one that ``source_column`` names, tells items apart; without one, a file is one item
    and its name is the label.

    Raises:
        TableError: with everything that is wrong, if anything is.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in TABLES and file.name[0] not in ".~")
        if not files:
            message = f"the folder holds no table ({', '.join(TABLES)})"
            raise TableError([Finding("error", "empty-folder", message, "Check the path", path.name)])
        return _joined(path.name, [_read(file, features, units, transform, source_column, sheet) for file in files])
    return _read(path, features, units, transform, source_column, sheet)


def _read(
    path: Path,
    features: Sequence[str],
    units: Sequence[str | None],
    transform: Transform,
    source_column: str | None,
    sheet: str | None,
) -> Items:
    grid, findings = read_grid(path, sheet)
    if grid is None:
        raise TableError(errors_first(findings))
    places, place_findings = feature_places(grid, features, units)
    findings += place_findings
    findings += _units_not_given(grid, places, dict(zip(features, units, strict=True)))
    reference = None
    if transform.reference is not None:
        found, reference_findings = feature_places(grid, [transform.reference], [None])
        findings += reference_findings
        reference = found.get(transform.reference)
    source = _source_place(grid, source_column, findings)
    used = {*places.values(), reference, source}
    others = [
        name
        for place, name in enumerate(grid.header)
        if place not in used and name.casefold() not in ("instance", "group", "source")
    ]
    if others:
        message = f"left out, as the system does not use it: {listing(quoted(others), 8)}"
        findings.append(Finding("note", "ignored-columns", message, file=grid.file))
    wanted = [*places.values(), *([] if reference is None else [reference])]
    parsed = {place: parse_numbers(grid.columns[place]) for place in wanted}
    findings += mark_findings(grid, parsed)
    for place, numbers in parsed.items():
        findings += number_findings(grid, place, numbers)
    if transform.kind != "none":
        findings += non_positive(grid, parsed, transform)
    labels = np.full(len(grid.rows), path.stem)
    if source is not None:
        read, label_findings = read_labels(grid, Roles(source, None, None, None, tuple(places.values())))
        findings += label_findings
        if read is not None:
            labels = read.source
    found_all = errors_first(findings)
    if any(finding.level == "error" for finding in found_all):
        raise TableError(found_all)
    measured = np.column_stack([parsed[places[feature]].values for feature in features])
    divisor = None if reference is None else parsed[reference].values
    names, first, item = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # as in the file
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    findings += _repeated(grid, measured, item, names)
    return Items(
        grid.file,
        transform.apply(measured, divisor),
        measured,
        divisor,
        rank[item].astype(np.intp),
        tuple(names[order].tolist()),
        errors_first(findings),
    )


def feature_places(
    grid: Grid, features: Sequence[str], units: Sequence[str | None]
) -> tuple[dict[str, int], list[Finding]]:
    """The column of every feature; errors for those that are missing or in another unit."""
    named = [split_unit(name) for name in grid.header]
    places: dict[str, int] = {}
    findings = []
    missing = []
    for feature, unit in zip(features, units, strict=True):
        exact = [place for place, name in enumerate(grid.header) if name == feature]
        loose = [place for place, (name, _) in enumerate(named) if name.casefold() == feature.casefold()]
        hits = exact or loose
        if not hits:
            missing.append(feature)
            continue
        if len(hits) > 1:
            message = f"the columns {listing(quoted([grid.header[place] for place in hits]))} could each be '{feature}'"
            findings.append(Finding("error", "ambiguous-column", message, "Rename one of them", grid.file))
            continue
        places[feature] = hits[0]
        there = named[hits[0]][1]
        if there is not None and unit is not None and there.casefold() != unit.casefold():
            message = f"the values are in {there}, and the system was trained on {unit}"
            fix = f"Convert them to {unit}, and say so in the header"
            findings.append(Finding("error", "other-unit", message, fix, grid.file, column=grid.header[hits[0]]))
    if missing:
        message = f"the system needs {listing(quoted(missing), 8)}, and the table has no such column"
        close = difflib.get_close_matches(missing[0], [name for name, _ in named], 1)
        fix = f"Did you mean '{close[0]}'? " if close else ""
        fix += f"The system's features are {listing(quoted(features), 30)}"
        findings.append(Finding("error", "missing-feature", message, fix, grid.file))
    return places, findings


def _units_not_given(grid: Grid, places: Mapping[str, int], units: Mapping[str, str | None]) -> list[Finding]:
    """A header without units is taken at its word."""
    untold = [name for name, place in places.items() if units[name] and split_unit(grid.header[place])[1] is None]
    if not untold:
        return []
    message = f"the header gives no unit for {listing(quoted(untold), 8)}"
    taken = sorted({str(units[name]) for name in untold})
    return [Finding("note", "unit-not-given", message, f"Taken to be as in training: {listing(taken, 8)}", grid.file)]


def _source_place(grid: Grid, source_column: str | None, findings: list[Finding]) -> int | None:
    if source_column is not None:
        if source_column not in grid.header:
            message = f"there is no column '{source_column}', as --source-column asks for"
            fix = f"Name one of the columns: {listing(quoted(grid.header), 12)}"
            findings.append(Finding("error", "missing-column", message, fix, grid.file))
            return None
        return grid.header.index(source_column)
    return next((place for place, name in enumerate(grid.header) if name.casefold() == "source"), None)


def _repeated(
    grid: Grid, measured: NDArray[np.float64], item: NDArray[np.intp], names: NDArray[np.str_]
) -> list[Finding]:
    """Rows of one item that are identical: most likely one measurement that was pasted twice."""
    seen: dict[tuple[object, ...], int] = {}
    findings = []
    for index, (values, which) in enumerate(zip(measured.tolist(), item.tolist(), strict=True)):
        first = seen.setdefault((which, *values), index)
        if first != index:
            message = f"identical measurements of '{names[which]}': they would count twice"
            fix = "If one was copied, leave it out"
            rows = (grid.rows[first], grid.rows[index])
            findings.append(Finding("warning", "repeated-row", message, fix, grid.file, rows))
    return findings


def _joined(name: str, parts: Sequence[Items]) -> Items:
    offsets = np.cumsum([0, *(len(part.labels) for part in parts)])
    labels = [label for part in parts for label in part.labels]
    if doubles := sorted({label for label in labels if labels.count(label) > 1}):
        message = f"{listing(quoted(doubles), 8)} is in more than one file of the folder"
        raise TableError([Finding("error", "repeated-label", message, "Give every item its own label", name)])
    return Items(
        name,
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.measured for part in parts]),
        None
        if parts[0].divisor is None
        else np.concatenate([part.divisor for part in parts if part.divisor is not None]),
        np.concatenate([part.item + offset for part, offset in zip(parts, offsets, strict=False)]),
        tuple(labels),
        tuple(finding for part in parts for finding in part.findings),
    )

"""Read a table of measurements, and find everything that is wrong with it at once."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lindley.table.check import Measurements, check_counts, check_features, check_rows
from lindley.table.columns import Columns, Roles, assign_roles
from lindley.table.delimited import read_delimited
from lindley.table.excel import read_workbook
from lindley.table.findings import Finding, TableError, errors_first, listing, option_list
from lindley.table.grid import Grid
from lindley.table.labels import read_labels
from lindley.table.numbers import Numbers, mark_findings, number_findings, parse_numbers
from lindley.table.summary import Summary, summarise
from lindley.table.table import Table
from lindley.table.transform import Transform

__all__ = ["Columns", "Examination", "Transform", "examine_table", "non_positive", "read_grid", "read_table"]

_TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
_WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
_SAVE_AS = "Open it in the program that wrote it and save it as .xlsx or CSV UTF-8"


@dataclass(frozen=True, eq=False)
class Examination:
    """All findings on a table, and the table with its summary, which are ``None`` after an error."""

    table: Table | None
    findings: tuple[Finding, ...]
    summary: Summary | None


def read_table(
    path: str | Path,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    transform: Transform = Transform(),  # noqa: B008 - frozen
    *,
    sheet: str | None = None,
    allow_duplicates: bool = False,
    to_split: bool = True,
    name: str | None = None,
) -> Table:
    """Read a CSV file or an Excel workbook with one row per measurement.

    Raises `TableError`, with every problem that there is, if any of them is an error. Warnings and
    notes travel with the table. ``sheet`` names a sheet of a workbook, else it is the first;
    ``allow_duplicates`` accepts rows that repeat another of the same source, with a warning. A table that
    is not ``to_split``, such as that of a case, may hold few sources, measured once.
    """
    examined = examine_table(
        path, columns, transform, sheet=sheet, allow_duplicates=allow_duplicates, to_split=to_split, name=name
    )
    if examined.table is None:
        raise TableError(examined.findings)
    return examined.table


def examine_table(
    path: str | Path,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    transform: Transform = Transform(),  # noqa: B008 - frozen
    *,
    sheet: str | None = None,
    allow_duplicates: bool = False,
    to_split: bool = True,
    name: str | None = None,
) -> Examination:
    """Read a table as `read_table` does, but hand back what was found instead of raising."""
    path = Path(path)
    grid, findings = read_grid(path, sheet)
    if grid is None:
        return Examination(None, errors_first(findings), None)
    roles, role_findings = assign_roles(grid, columns, transform.reference)
    labels, label_findings = read_labels(grid, roles)
    parsed = _parse(grid, roles)
    findings += role_findings + label_findings + mark_findings(grid, parsed)
    for place, numbers in parsed.items():
        findings += number_findings(grid, place, numbers)
    raw = _stack(grid, [parsed[place] for place in roles.features if place in parsed])
    reference = parsed[roles.reference].values if roles.reference in parsed else None
    features = tuple(grid.header[place] for place in roles.features if place in parsed)
    transformed = raw
    if transform.kind != "none":
        findings += non_positive(grid, parsed, transform)
        if reference is not None or transform.reference is None:
            transformed = transform.apply(raw, reference)
    if labels is not None and grid.complete and grid.rows:
        data = Measurements(grid.file, grid.rows, features, raw, transformed, labels)
        if labels.complete:
            findings += check_counts(data, to_split=to_split)
        findings += check_features(data, logged=transform.kind != "none")
        if labels.complete:
            findings += check_rows(data, allow_duplicates=allow_duplicates)
    found = errors_first(findings)
    if labels is None or any(finding.level == "error" for finding in found):
        return Examination(None, found, None)
    table = Table(
        path.stem if name is None else name,
        transformed,
        features,
        labels.source,
        labels.group,
        labels.instance,
        found,
    )
    return Examination(table, found, summarise(table))


def read_grid(path: Path, sheet: str | None) -> tuple[Grid | None, list[Finding]]:
    """The cells of a file, or what keeps them from being read."""
    file, ending = path.name, path.suffix.lower()
    if not path.exists():
        return None, [_missing_file(path)]
    if path.is_dir():
        message = "this is a folder, not a file"
        return None, [Finding("error", "not-a-file", message, "Give the name of a table in it", file)]
    if ending not in _TEXT_ENDINGS + _WORKBOOK_ENDINGS:
        if ending in (".xls", ".xlsb", ".ods", ".numbers"):
            message = f"tables of the kind {ending} are not read"
            return None, [Finding("error", "unread-format", message, _SAVE_AS, file)]
        message = f"the ending '{ending}' is not known" if ending else "the file name has no ending"
        fix = f"Give a file that ends in {listing(_TEXT_ENDINGS + _WORKBOOK_ENDINGS, 8)}"
        return None, [Finding("error", "unknown-ending", message, fix, file)]
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"the file cannot be opened ({error.strerror or error})"
        fix = "Close it in Excel, and check that you may read it"
        return None, [Finding("error", "unreadable-file", message, fix, file)]
    if not data:
        return None, [Finding("error", "empty-file", "the file is empty", "Export it again", file)]
    if ending in _WORKBOOK_ENDINGS:
        return read_workbook(file, data, sheet)
    grid, findings = read_delimited(file, data)
    if sheet is not None:
        message = f"the sheet '{sheet}' was asked for, but a text file has none"
        findings.append(Finding("warning", "sheet-of-text", message, "Leave --sheet out", file))
    return grid, findings


def _missing_file(path: Path) -> Finding:
    from lindley.table.datasets import dataset_names  # which itself reads tables

    folder = path.parent
    if not folder.is_dir():
        message = f"there is no such file, nor its folder {folder}"
        return Finding("error", "missing-file", message, "Check the path", path.name)
    close = difflib.get_close_matches(path.name, [each.name for each in folder.iterdir()], 1)
    fix = f"Did you mean '{close[0]}'?" if close else "Check the name and the folder"
    if path.name == str(path):
        wanted = path.name.casefold().replace("_", "-").replace(" ", "-")
        named = difflib.get_close_matches(wanted, dataset_names(), 1, cutoff=0.75)
        if named and (not close or named[0] == wanted):
            fix = f"Did you mean the data set '{named[0]}'?"
    return Finding("error", "missing-file", f"there is no such file in {folder.resolve()}", fix, path.name)


def _parse(grid: Grid, roles: Roles) -> dict[int, Numbers]:
    """Numbers of the features and the reference, by column.

    Without a source column nobody knows which columns are labels: then those that are mostly numbers count.
    """
    wanted = [*roles.features, *([] if roles.reference is None else [roles.reference])]
    parsed = {place: parse_numbers(grid.columns[place]) for place in dict.fromkeys(wanted)}
    if roles.source is None:
        return {place: each for place, each in parsed.items() if np.isfinite(each.values).sum() > len(grid.rows) / 2}
    return parsed


def _stack(grid: Grid, columns: list[Numbers]) -> NDArray[np.float64]:
    if not columns:
        return np.empty((len(grid.rows), 0))
    return np.column_stack([each.values for each in columns]) + 0.0  # a −0.0 becomes 0.0


def non_positive(grid: Grid, parsed: dict[int, Numbers], transform: Transform) -> list[Finding]:
    """Values that have no logarithm."""
    findings = []
    for place, numbers in parsed.items():
        hits = np.flatnonzero(numbers.values <= 0)
        if not len(hits):
            continue
        name = grid.header[place]
        some = listing([f"{value:g}" for value in dict.fromkeys(numbers.values[hits].tolist())])
        message = f"{some} is not positive and has no {transform.kind}"
        if "," in some or " and " in some:
            message = f"{some} are not positive and have no {transform.kind}"
        if name == transform.reference:
            fix = "Every feature is divided by it: give the measured value, or leave the measurement out"
        else:
            fix = (
                "Give the measured value; if values are below the detection limit, leave the column out with "
                f"--ignore-columns {option_list(name)}; if they are logs already, leave the transform out"
            )
        rows = tuple(grid.rows[each] for each in hits.tolist())
        findings.append(Finding("error", "non-positive", message, fix, grid.file, rows, name))
    return findings

"""The one reader of tables: files, named data sets, data frames and arrays, with everything that is wrong told at once."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

from lindley.errors import LindleyError
from lindley.limits import limit, limit_text
from lindley.settings import setting
from lindley.table.check import Measurements, Summary, check_counts, check_features, check_range, check_rows, summarise
from lindley.table.columns import (
    BelowLimit,
    Decimal,
    Purpose,
    Reading,
    Roles,
    assign_roles,
    feature_places,
)
from lindley.table.files import Grid, read_delimited, rows_of_text
from lindley.table.findings import Finding, TableError, did_you_mean, errors_first, listing, quoted, stop
from lindley.table.frames import frame_grid
from lindley.table.header import Row
from lindley.table.labels import ask_about_labels, read_labels, similar_labels
from lindley.table.marks import mark_findings
from lindley.table.numbers import Numbers, number_findings, parse_numbers
from lindley.table.scaling import Transform, TransformKind
from lindley.table.table import ROLES, Table, in_units, join_sessions, with_unit
from lindley.table.units import column_units, convert, plain_names, require_units, split_unit
from lindley.table.values import check_concentrations, check_growth, check_summaries, check_values
from lindley.table.workbook import Hidden, read_workbook, rows_of_workbook

__all__ = ["Examination", "column_parts", "examine_table", "file_rows", "read_table", "require_files"]

_TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
_WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
_ENDINGS = _TEXT_ENDINGS + _WORKBOOK_ENDINGS
_SAVE_AS = "Open it in the program that wrote it and save it as .xlsx or CSV UTF-8"


@dataclass(frozen=True, eq=False)
class Examination:
    """All findings on a table, and the table, which is ``None`` after an error."""

    table: Table | None
    findings: tuple[Finding, ...]

    @property
    def summary(self) -> Summary | None:
        """Of the table, if there is one."""
        return None if self.table is None else summarise(self.table)


def read_table(
    data: Any,
    *,
    source: Any = None,
    group: Any = None,
    session: Any = None,
    instance: Any = None,
    include: Sequence[str] = (),
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    units: str | Mapping[str, str] | Sequence[str | None] | None = None,
    transform: TransformKind = "none",
    reference: str | None = None,
    header_row: int | None = None,
    sheet: str | None = None,
    hidden: Hidden | None = None,
    decimal: Decimal | None = None,
    below_limit: BelowLimit | None = None,
    allow_duplicates: bool = False,
    purpose: Purpose = "split",
    name: str | None = None,
) -> Table:
    """Read and check a table with one row per measurement.

    >>> read_table("glass.xlsx", source="item", transform="log10", reference="Si28")  # doctest: +SKIP
    <Table glass: 977 rows of 326 sources, 10 features (K39, Ti49, …)>

    Args:
        data: the path of a CSV file or an Excel workbook; the name of a data set, which knows its columns; a data frame of
            pandas, polars or pyarrow; a dictionary of columns; an array of rows × features; or a `Table`.
        source: the column that names the source, else ``source``; in front of a data frame or an array also an array.
        group: likewise, of sources that are related, such as two windows of one vehicle; else ``group``, if it is there.
        session: likewise, of what some measurements of a source share: the fragment, day or instrument; else ``session``, if it
            is there. Same-source pairs are then of two sessions, wherever the source has two.
        instance: likewise, the column that numbers the measurements of a source; else ``instance``, if it is there.
        include: columns that are the features, and no others.
        ignore: columns to leave out. In a ``case``, a column that may tell items apart must be named here or as the source.
        features: the features of a system, which the table must have; they are taken in this order, by their names with or
            without a unit, and others are left out. Of an array, the names of its columns.
        units: one for all features (``ppm``), some by name (``K39=ppm,Fe57=%``, or a dictionary), or one for each. A header
            ``K39 [ppm]`` tells it as well. With ``features`` they are what the system needs.
        transform: ``none``, or the logarithm to take of every feature, ``log10`` or ``ln``.
        reference: the column to divide every feature by before the logarithm.
        header_row: of a file, the row of the header as Excel counts, from 1; else the first row, or the one below a title
            where no other can be meant. A row of units under it is found by itself.
        sheet: of a workbook; else the first that is not hidden.
        hidden: what to do with hidden rows and columns of a workbook, ``include`` or ``ignore``; else they are an error.
        decimal: the decimal mark, ``.`` or ``,``; else numbers such as 1,934, which could be 1.934 or 1934, are an error.
        below_limit: what values below the detection limit, such as <0.02, are read as: ``half`` of the limit, the ``limit``, or
            ``sqrt2``, the limit over √2, with a warning; else they are an error.
        allow_duplicates: accept rows that repeat another of the same source, with a warning.
        purpose: a table to ``split`` needs six sources, some with replicates. A ``whole`` one, that is used as it is, may
            hold few. A ``part`` is joined to others (`join_tables`), and checked with them. The items of a ``case`` are not
            checked against each other; without a column ``source`` a file is one item, and a folder of files is read as one
            table.
        name: what the table is called; else by its file.

    Raises:
        TableError: with every problem that there is, if any of them is an error. Warnings and notes travel with the table.
        LindleyError: if a setting does not fit the data.
    """
    return _read(
        data,
        Reading(
            source, group, session, instance, include, ignore, features, units,
            transform, reference, header_row, sheet, hidden, decimal, below_limit, allow_duplicates, purpose, name,
        ),
    )  # fmt: skip


def examine_table(data: Any, **settings: Any) -> Examination:
    """Read a table as `read_table` does, which tells the settings, but hand back what was found instead of raising."""
    try:
        table = _read(data, Reading(**settings))
    except TableError as error:
        return Examination(None, error.findings)
    return Examination(table, table.findings)


def file_rows(
    path: Path, sheet: str | None = None, header_row: int | None = None
) -> tuple[dict[str, bool], str, list[Row]]:
    """The rows of a file as they stand in it, before anybody asks what they mean; of a workbook its sheets, and which it is.

    Raises:
        TableError: if rows and columns cannot be told apart.
    """
    content = _content(path)
    if path.suffix.lower() in _WORKBOOK_ENDINGS:
        return rows_of_workbook(path.name, content, sheet)
    return {}, "", rows_of_text(path.name, content, header_row)


def column_parts(path: Path, **settings: Any) -> dict[str, str]:
    """What the columns of a file were taken for, by their names: one of `ROLES`, reference, feature or ignore.

    Raises:
        TableError: if its columns cannot be told.
    """
    reading = Reading(**settings)
    grid, _ = _cells(path, _content(path), reading)
    roles, _ = assign_roles(grid, reading)
    parts = dict.fromkeys(grid.header, "ignore")
    parts |= {grid.header[place]: "feature" for place in roles.features}
    for role in (*ROLES, "reference"):
        place = getattr(roles, role)
        if place is not None:
            parts[grid.header[place]] = role
    return parts


def _read(data: Any, reading: Reading) -> Table:
    if isinstance(data, Table):
        _refuse_settings(reading, f"{data.name} was read already: leave out {{}}.")
        return _select(data, reading)
    if not isinstance(data, str | os.PathLike):
        if reading.header_row is not None:
            raise LindleyError(f"{setting('header_row')} is of a file: a table in memory has names of its own")
        return _read_grid(*frame_grid(data, reading))
    for role in ROLES:
        if not isinstance(getattr(reading, role), str | None):
            raise LindleyError(f"{role}: of a file, the name of a column is needed, and not an array")
    from lindley.table.datasets import dataset_names, load_dataset  # which read tables themselves

    if data in dataset_names():
        knows = f"{data} is a named data set, and knows its columns: leave out {{}}, or write the set to a file with "
        _refuse_settings(reading, f"{knows}'lindley data export {data}' and read that.")
        return _select(load_dataset(str(data)), reading)
    path = Path(data)
    if os.path.isdir(path) and reading.purpose == "case":  # which says no of a name that is too long
        return _read_folder(path, reading)
    content = _content(path)
    grid, findings = _cells(path, content, reading)
    table = _read_grid(grid, findings, replace(reading, name=reading.name or path.stem))
    return replace(table, files=((path.name, hashlib.sha256(content).hexdigest()),))


def _read_grid(grid: Grid, findings: list[Finding], reading: Reading) -> Table:
    """From cells to a table: the part of every column, labels, numbers, the transform, and the checks of the whole."""
    transform = reading.applied
    roles, role_findings = assign_roles(grid, reading)
    labels, label_findings = read_labels(grid, roles, str(reading.name) if reading.purpose == "case" else None)
    if labels is not None and reading.purpose == "case":
        label_findings += ask_about_labels(grid, roles, labels.source)
    parsed = _parse(grid, roles, reading.below_limit, labelled=labels is not None)
    findings = findings + role_findings + label_findings + mark_findings(grid, parsed, reading.decimal)
    for place, numbers in parsed.items():
        findings += number_findings(grid, place, numbers, needed=reading.features is not None)
    places = [place for place in (*roles.features, roles.reference) if place in parsed]
    none = np.empty((len(grid.rows), 0))  # where there is no feature
    columns = np.column_stack([none, *(parsed[place].values for place in places)])
    columns += 0.0  # a −0.0 becomes 0.0
    if len(places) == len(reading.wanted):
        header = [grid.header[place] for place in places]
        units_there = tuple(split_unit(each)[1] for each in header)
        columns, notes = convert(columns, header, units_there, reading.required_units, grid.file)
        findings += notes
    reference = columns[:, -1] if roles.reference in parsed else None
    raw = columns if reference is None else columns[:, :-1]
    headers = tuple(grid.header[place] for place in places[: raw.shape[1]])
    transformed = raw
    if transform.kind != "none":
        findings += _non_positive(grid, parsed, transform, roles.reference)
        if reference is not None or transform.reference is None:
            transformed = transform.apply(raw, reference)
    if labels is not None and grid.complete and grid.rows:
        checked = Measurements(grid.file, grid.rows, headers, raw, transformed, labels)
        findings += _check(checked, reading, logged=transform.kind != "none")
    found = errors_first(findings)
    if labels is None or any(finding.level == "error" for finding in found):
        raise TableError(found)
    divided = transform.reference is not None
    if divided:
        headers = (*headers, grid.header[cast(int, roles.reference)])
    names, units = _named(headers, reading)
    found = errors_first([*found, *check_concentrations(grid.file, grid.rows, headers, units, columns)])
    n = raw.shape[1]
    return Table(
        str(reading.name), transformed, names[:n], labels.source, labels.group, labels.instance,
        found, units[:n], replace(transform, reference=names[n] if divided else None),
        None if transform.kind == "none" else columns, reference_unit=units[n] if divided else None, session=labels.session,
    )  # fmt: skip


def _check(data: Measurements, reading: Reading, *, logged: bool) -> list[Finding]:
    if reading.purpose == "case":
        return check_range(data) + check_rows(data, of_a_case=True) + check_summaries(data, of_a_case=True)
    to_split, findings = reading.purpose == "split", []
    if reading.purpose == "part":
        findings = check_range(data)
    else:
        findings = check_counts(data, to_split=to_split) if data.labels.complete else []
        findings += check_features(data, logged=logged, to_split=to_split)
    if data.labels.complete:
        findings += check_rows(data, allow_duplicates=reading.allow_duplicates)
        findings += check_summaries(data, allowed=reading.allow_duplicates)
        findings += check_values(data, reading.transform)
        if not logged:
            findings += check_growth(data)
    return findings


def _named(headers: tuple[str, ...], reading: Reading) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    """What the features, and the reference behind them, are called, and their units."""
    if reading.features is not None:
        units = (unit or split_unit(header)[1] for unit, header in zip(reading.required_units, headers, strict=True))
        return reading.wanted, tuple(units)
    names, told = plain_names(headers)
    return names, require_units(column_units(reading.units, names, told, reading.reference is not None))


def _refuse_settings(reading: Reading, why: str) -> None:
    """Of a table whose columns are known, the settings that say what they are; told before anything is fetched."""
    free = ("features", "units", "purpose", "name", *(() if reading.features is None else ("transform", "reference")))
    if given := [
        each.name for each in fields(Reading) if each.name not in free and getattr(reading, each.name) != each.default
    ]:
        raise LindleyError(why.replace("{}", ", ".join(map(setting, given))))


def _select(table: Table, reading: Reading) -> Table:
    """A table that was read already: as it is, or in the features and the units of a system."""
    table = replace(table, name=reading.name or table.name)
    if reading.features is None:
        divided, n = table.transform.reference is not None, len(table.features)
        units = require_units(column_units(reading.units, table.columns, table.column_units, divided))
        return replace(table, units=units[:n], reference_unit=units[n] if divided else None)
    if table.transform != reading.applied:
        logged = reading.transform != "none"
        raise LindleyError(
            f"the system takes {f'the logarithm of measurements ({reading.applied})' if logged else reading.applied}, and "
            f"{table.name} was read with {table.transform}. Read a file, and make sure that it holds measurements and not "
            "their logarithms; 'lindley data export' writes a named data set to one."
        )
    header = [*map(with_unit, table.columns, table.column_units)]
    places, problems = feature_places(header, reading.wanted, reading.required_units, table.name)
    if problems:
        raise TableError([*table.findings, *problems])
    chosen = table.with_features([place for place in places.values() if place < len(table.features)])
    chosen, notes = in_units(replace(chosen, features=tuple(reading.features)), reading.required_units)
    return replace(chosen, findings=errors_first([*chosen.findings, *notes]))


def _read_folder(folder: Path, reading: Reading) -> Table:
    """The tables of a folder as one, each with items of its own."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _ENDINGS and file.name[0] not in ".~")
    if not files:
        stop("empty-folder", f"the folder holds no table ({', '.join(_ENDINGS)})", "Check the path", folder.name)
    findings: list[Finding] = []
    tables = []
    for file in files:
        try:
            tables.append(_read(file, reading))
            findings += tables[-1].findings
        except TableError as error:
            findings += error.findings
    labels = Counter(label for table in tables for label in table.labels)
    findings += similar_labels(labels, "source", folder.name)
    if doubles := sorted(label for label, count in labels.items() if count > 1):
        message = f"{listing(quoted(doubles), 8)} is in more than one file of the folder"
        findings.append(Finding("error", "repeated-label", message, "Give every item its own label", folder.name))
    if any(finding.level == "error" for finding in findings):
        raise TableError(findings)
    source = np.concatenate([table.source for table in tables])
    raws = [table.raw for table in tables if table.raw is not None]
    return replace(
        tables[0],
        name=reading.name or folder.name,
        values=np.concatenate([table.values for table in tables]),
        source=source,
        group=source,
        session=join_sessions(tables),
        instance=np.concatenate([table.instance for table in tables]),
        findings=errors_first(findings),
        raw=np.concatenate(raws) if raws else None,
        files=tuple(file for table in tables for file in table.files),
    )


def require_files(tables: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse tables that are no named data sets, and no files either: all at once, and before any is read.

    Raises:
        TableError: with every one that is not there.
    """
    from lindley.table.datasets import dataset_names  # which itself reads tables

    findings: list[Finding] = []
    for each in tables:
        if each not in dataset_names() and not os.path.exists(each):
            try:
                _missing_file(Path(each))
            except TableError as error:
                findings += error.findings
    if findings:
        raise TableError(findings)


def _content(path: Path) -> bytes:
    """The content of a file that may hold a table."""
    file, ending = path.name, path.suffix.lower()
    if not os.path.exists(path):
        _missing_file(path)
    if path.is_dir():
        stop("not-a-file", "this is a folder, not a file", "Give the name of a table in it", file)
    if ending in (".xls", ".xlsb", ".ods", ".numbers"):
        stop("unread-format", f"tables of the kind {ending} are not read", _SAVE_AS, file)
    if ending not in _ENDINGS:
        message = f"the ending '{ending}' is not known" if ending else "the file name has no ending"
        stop("unknown-ending", message, f"Give a file that ends in {listing(_ENDINGS, 8)}", file)
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            stop("not-a-file", "this is no ordinary file", "Give the name of a table", file)
        if size > limit("TABLE_MB") * 1_000_000:
            message = f"the file has {size / 1e6:,.0f} MB; {limit_text('TABLE_MB')}"
            stop("too-large", message, "Check that it is the table that you mean", file)
        data = path.read_bytes()
    except OSError as error:
        message = f"the file cannot be opened ({error.strerror or error})"
        stop("unreadable-file", message, "Close it in Excel, and check that you may read it", file)
    if not data:
        stop("empty-file", "the file is empty", "Export it again", file)
    return data


def _cells(path: Path, data: bytes, reading: Reading) -> tuple[Grid, list[Finding]]:
    if path.suffix.lower() in _WORKBOOK_ENDINGS:
        return read_workbook(path.name, data, reading.sheet, reading.hidden, reading.header_row)
    grid, findings = read_delimited(path.name, data, reading.header_row)
    if reading.sheet is not None:
        message = f"the sheet '{reading.sheet}' was asked for, but a text file has none"
        findings.append(Finding("warning", "sheet-of-text", message, f"Leave {setting('sheet')} out", path.name))
    return grid, findings


def _missing_file(path: Path) -> NoReturn:
    from lindley.table.datasets import dataset_names  # which itself reads tables

    folder = path.parent
    if not os.path.isdir(folder):
        stop("missing-file", f"there is no such file, nor its folder {folder}", "Check the path", path.name)
    close = did_you_mean(path.name, [each.name for each in folder.iterdir()])
    fix = close.strip() or "Check the name and the folder"
    if path.name == str(path):
        wanted = path.name.casefold().replace("_", "-").replace(" ", "-")
        named = difflib.get_close_matches(wanted, dataset_names(), 1, cutoff=0.75)
        if named and (not close or named[0] == wanted):
            fix = f"Did you mean the data set '{named[0]}'?"
    stop("missing-file", f"there is no such file in {folder.resolve()}", fix, path.name)


def _parse(grid: Grid, roles: Roles, below_limit: BelowLimit | None, *, labelled: bool) -> dict[int, Numbers]:
    """Numbers of the features and the reference, by column.

    Without a source column nobody knows which columns are labels: then those that are mostly numbers count.
    """
    wanted = [*roles.features, *([] if roles.reference is None else [roles.reference])]
    parsed = {place: parse_numbers(grid.columns[place], below_limit) for place in dict.fromkeys(wanted)}
    if not labelled:
        return {place: each for place, each in parsed.items() if np.isfinite(each.values).sum() > len(grid.rows) / 2}
    return parsed


def _non_positive(grid: Grid, parsed: dict[int, Numbers], transform: Transform, reference: int | None) -> list[Finding]:
    """Values that have no logarithm."""
    findings = []
    for place, numbers in parsed.items():
        hits = np.flatnonzero(numbers.values <= 0)
        if not len(hits):
            continue
        name = grid.header[place]
        some = listing([f"{value:g}" for value in dict.fromkeys(numbers.values[hits].tolist())])
        be, have = ("are", "have") if " and " in some else ("is", "has")
        message = f"{some} {be} not positive and {have} no {transform.kind}"
        if place == reference:
            fix = "Every feature is divided by it: give the measured value, or leave the measurement out"
        else:
            fix = (
                "Give the measured value; if values are below the detection limit, leave the column out with "
                f"{setting('ignore', name)}; if they are logs already, leave the transform out"
            )
        rows = tuple(grid.rows[each] for each in hits.tolist())
        findings.append(Finding("error", "non-positive", message, fix, grid.file, rows, name))
    return findings

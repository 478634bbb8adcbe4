"""A table as its page shows it: the rows of the file, what each column was taken for, and every finding at its cells.

Runs in the process of `lindley.app.reader`. Everything is plain data: texts and numbers for a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError
from lindley.experiment.config import load_experiment
from lindley.files import write_atomically
from lindley.shown import visible
from lindley.table.cells import is_blank
from lindley.table.check import summarise, summary_rows
from lindley.table.columns import Purpose
from lindley.table.config import DataConfig, profile_beside, profile_text
from lindley.table.findings import Finding, TableError
from lindley.table.header import Row, find_header
from lindley.table.read import column_parts, file_rows
from lindley.table.splits import make_split
from lindley.table.table import Table
from lindley.table.units import split_unit
from lindley.table.workbook import read_once

__all__ = ["column_names", "keep", "look", "plan", "settings_of", "settled", "told"]

FIRST = 12
"""Rows that are always shown."""
MOST = 150
"""Rows that are shown, with those that have a finding."""
WIDEST = 200
"""Columns that are shown."""
LONGEST = 80
"""Letters of a cell that are shown."""
ABOVE = 8
"""Rows that may be chosen as the header."""


def look(path: str, reading: Mapping[str, Any], purpose: Purpose = "split") -> dict[str, Any]:
    """Everything that the page of a table shows; ``reading`` are options by the names of `DataConfig`."""
    with read_once():
        return _look(DataConfig(data=path, **_tuples(reading)).with_profile(), purpose)


def _look(described: DataConfig, purpose: Purpose) -> dict[str, Any]:
    path = Path(described.data)
    table: Table | None = None
    try:
        table = described.load(purpose)
        findings = table.findings
    except TableError as error:
        findings = error.findings
    sheets: dict[str, bool] = {}
    chosen, rows = "", list[Row]()
    with suppress(TableError):
        sheets, chosen, rows = file_rows(path, described.sheet, described.header_row)
    header, parts = _header(path.name, rows, described), {}
    if header is not None:
        with suppress(LindleyError):
            parts = column_parts(path, **settings_of(described, purpose))
    columns = _columns(rows, header, parts)
    return {
        "usable": table is not None,
        "sheets": [{"name": name, "seen": seen} for name, seen in sheets.items()],
        "sheet": chosen,
        "header_row": header,
        "columns": columns[:WIDEST],
        "more_columns": max(0, len(columns) - WIDEST),
        **_shown_rows(rows, header, columns, findings),
        "findings": [told(finding) for finding in findings],
        "summary": None if table is None else _summary(table),
        "options": _listed(described),
        "kept": _kept(path),
    }


def keep(path: str, reading: Mapping[str, Any]) -> str:
    """Write options to lindley.yaml beside the table, as ``lindley check --keep-profile`` does; the file's text."""
    described = DataConfig(data=path, **{**_tuples(reading), "no_profile": True})
    place = profile_beside(path)
    options = {name: value for name, value in described.given.items() if name in described.options()}
    if place is None or not options:
        raise LindleyError("nothing was chosen that could be kept")
    described.load()  # raises where the table cannot be used with them
    text = profile_text(options)
    write_atomically(place, text.encode("utf-8"))
    return text


def plan(path: str, reading: Mapping[str, Any], models: Sequence[str], splits: int, seed: int) -> dict[str, Any]:
    """Check that a run can be, before it waits in the queue."""
    overrides: dict[str, dict[str, Any]] = {
        "data": {"data": path, **_tuples(reading)},
        "protocol": {"splits": splits, "seed": seed},
        "experiment": {"models": list(models)},
    }
    experiment = load_experiment("demo", overrides)
    described = experiment.data.with_profile()
    table = described.load()
    make_split(table, experiment.protocol, 0)
    return {"sources": len(table.sources), "reading": settled(described)}


def settled(described: DataConfig) -> dict[str, Any]:
    """All options by which a table is read now, also those kept beside it: what is kept later changes none of them."""
    return {**_listed(described), "no_profile": True}


def _tuples(reading: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in reading.items()}


def _listed(described: DataConfig) -> dict[str, Any]:
    """The options that hold, as JSON has them."""
    given = {name: value for name, value in described.given.items() if name in described.options()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def _kept(path: Path) -> str:
    """What lindley.yaml beside the table says."""
    place = profile_beside(str(path))
    with suppress(OSError, UnicodeDecodeError):
        if place is not None and place.is_file():
            return place.read_text(encoding="utf-8")[:4000]
    return ""


def settings_of(described: DataConfig, purpose: Purpose) -> dict[str, Any]:
    """How a table is read, by the names of `lindley.table.read_table`."""
    names = described.options()
    found = {name.removesuffix("_columns").removesuffix("_column"): getattr(described, name) for name in names}
    return {**found, "purpose": purpose}


def _header(file: str, rows: Sequence[Row], described: DataConfig) -> int | None:
    """The number of the row that was taken for the header, if that is known."""
    with suppress(TableError, IndexError):
        return rows[find_header(file, rows, described.header_row, [])][0]
    return None


def column_names(file: str, rows: Sequence[Row], described: DataConfig) -> list[str]:
    """The names in the header, as they stand there; none if no row was taken for it."""
    return [str(column["key"]) for column in _columns(rows, _header(file, rows, described), {})]


def _columns(rows: Sequence[Row], header: int | None, parts: Mapping[str, str]) -> list[dict[str, Any]]:
    """The columns that have a name: their place, their name in the reader's words, and what they were taken for."""
    cells = next((cells for number, cells in rows if number == header), ())
    plain = {split_unit(name)[0]: name for name in parts}
    columns = []
    for place, cell in enumerate(cells):
        if is_blank(cell):
            continue
        name = " ".join(str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).split())
        known = name if name in parts else plain.get(split_unit(name)[0], name)
        unit = split_unit(known)[1]
        columns.append(
            {"place": place, "name": visible(known), "unit": unit, "part": parts.get(known, ""), "key": known}
        )
    return columns


def _shown_rows(
    rows: Sequence[Row], header: int | None, columns: Sequence[Mapping[str, Any]], findings: Sequence[Finding]
) -> dict[str, Any]:
    """Rows with what was found in their cells: those above the header, the first under it, and every one with a finding."""
    place_of = {str(column["key"]): int(column["place"]) for column in columns}
    by_cell: dict[tuple[int, int], list[int]] = {}
    by_row: dict[int, list[int]] = {}
    by_column: dict[int, list[int]] = {}
    for number, finding in enumerate(findings):
        place = place_of.get(finding.column or "")
        for row in finding.rows[:MOST]:
            if place is None:
                by_row.setdefault(row, []).append(number)
            else:
                by_cell.setdefault((row, place), []).append(number)
        if not finding.rows and place is not None:
            by_column.setdefault(place, []).append(number)
    for column in columns:
        column["findings"] = by_column.get(int(column["place"]), [])  # type: ignore[index]
    found = {row for row, _ in by_cell} | set(by_row)
    units = {row for finding in findings if finding.code == "units-row" for row in finding.rows}
    first = [number for number, _ in rows if header is None or number > header][:FIRST]
    above = [number for number, _ in rows if header is not None and number <= header][-ABOVE:]
    wanted = {*above, *first, *sorted(found)[: MOST - len(first) - len(above)]}
    width = min(max((len(cells) for _, cells in rows), default=0), WIDEST)
    shown: list[dict[str, Any]] = []
    last = None
    for at, (number, cells) in enumerate(rows):
        if number not in wanted:
            continue
        kind = "data" if header is None or number > header else "header" if number == header else "above"
        kind = "units" if number in units else kind
        shown.append(
            {
                "number": number,
                "kind": kind,
                "skipped": 0 if last is None else at - last - 1,
                "findings": by_row.get(number, []),
                "cells": [
                    {
                        "text": _text(cells[place]) if place < len(cells) else "",
                        "findings": by_cell.get((number, place), []),
                    }
                    for place in range(width)
                ],
            }
        )
        last = at
    left = 0 if last is None else len(rows) - last - 1
    return {"rows": shown, "left": left, "width": width, "height": len(rows)}


def _text(cell: object) -> str:
    if is_blank(cell):
        return ""
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return visible(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def told(finding: Finding) -> dict[str, Any]:
    """A finding for a template."""
    return {
        "level": finding.level,
        "code": finding.code,
        "text": str(finding),
        "rows": list(finding.rows[:MOST]),
        "column": finding.column,
    }


def _summary(table: Table) -> dict[str, Any]:
    summary = summarise(table)
    counts, head, rows = summary_rows(summary)
    return {
        "counts": counts,
        "head": list(head),
        "rows": [list(row) for row in rows],
        "measurements": summary.rows,
        "sources": summary.sources,
        "groups": summary.groups,
        "sessions": summary.sessions,
        "features": len(summary.features),
        "least": summary.replicates_min,
        "most": summary.replicates_max,
    }

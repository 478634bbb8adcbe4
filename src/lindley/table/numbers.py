"""Turn the cells of a feature column into numbers, and say which are none."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lindley.table.findings import Finding, listing, option_list, quoted
from lindley.table.grid import FORMULA, Grid

__all__ = ["Numbers", "mark_findings", "number_findings", "parse_numbers"]

EXCEL_ERRORS = frozenset(
    ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#GETTING_DATA")
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:([.,])\d*)?|([.,])\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity|∞|1\.#(?:qnan|ind|inf)\w*)", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d*|(?:,\d{3})+\.\d*|(?:\.\d{3}){2,}|(?:,\d{3}){2,}"
    r"|(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d*)?)"
)
_PERHAPS_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column as float64, NaN where a cell is no number; ``problems`` lists these cells by their kind."""

    values: NDArray[np.float64]
    points: bool = False  # some cell has a decimal point
    commas: bool = False  # some cell has a decimal comma
    problems: Mapping[str, Sequence[int]] = field(default_factory=dict)


def parse_numbers(cells: Sequence[object]) -> Numbers:
    """Read a column: at once where all cells are plain numbers, cell by cell where one is not."""
    kinds = set(map(type, cells))
    if kinds <= {float, int}:
        return Numbers(np.array(cells, dtype=np.float64))
    if kinds == {str}:
        texts = cast(Sequence[str], cells)
        joined = "\n".join(texts)
        points, commas = "." in joined, "," in joined
        # float() takes 1_000 and foreign digits, which no laboratory means
        if joined.isascii() and "_" not in joined and not (points and commas):
            try:
                if commas:
                    texts = [text.replace(",", ".") for text in texts]
                values = np.fromiter(map(float, texts), np.float64, len(texts))
            except ValueError:
                pass
            else:
                if np.isfinite(values).all():
                    return Numbers(values, points, commas)
    return _parse_one_by_one(cells)


def _parse_one_by_one(cells: Sequence[object]) -> Numbers:
    values = np.full(len(cells), np.nan)
    seen: set[str] = set()
    problems: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        kind, value = _classify(cell)
        values[place] = value
        seen.add(kind)
        if kind not in ("whole", "point", "comma"):
            problems.setdefault(kind, []).append(place)
    return Numbers(values, "point" in seen, "comma" in seen, problems)


def _classify(cell: object) -> tuple[str, float]:
    if isinstance(cell, bool):
        return "text", math.nan
    if isinstance(cell, int | float):
        return ("whole", float(cell)) if math.isfinite(cell) else ("not-finite", math.nan)
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return "date", math.nan
    if cell is FORMULA:
        return "formula", math.nan
    text = str(cell if cell is not None else "").strip().replace("−", "-")
    if not text:
        return "blank", math.nan
    if text.upper() in EXCEL_ERRORS:
        return "excel-error", math.nan
    number = _NUMBER.fullmatch(text) if text.isascii() else None
    if number:
        value = float(text.replace(",", "."))
        if not math.isfinite(value):
            return "not-finite", math.nan
        return {None: "whole", ".": "point", ",": "comma"}[number[1] or number[2]], value
    if _NOT_FINITE.fullmatch(text):
        return "not-finite", math.nan
    return ("thousands" if _THOUSANDS.fullmatch(text) else "text"), math.nan


def number_findings(grid: Grid, place: int, numbers: Numbers) -> list[Finding]:
    """One finding for each kind of problem in a column, with all its rows."""
    name = grid.header[place]
    cells = grid.columns[place]
    findings = []
    for kind, places in numbers.problems.items():
        texts = quoted(dict.fromkeys(str(cells[each]).strip() for each in places))
        everywhere = len(places) == len(cells) > 1
        code, message, fix = _describe(kind, texts, name, everywhere=everywhere)
        rows = tuple(grid.rows[each] for each in places)
        findings.append(Finding("error", code, message, fix, grid.file, rows, name))
    if not grid.delimiter:
        finite = np.isfinite(numbers.values)
        as_text = [each for each, cell in enumerate(cells) if isinstance(cell, str) and finite[each]]
        if as_text:
            message = "stored as text in Excel and read as a number"
            rows = tuple(grid.rows[each] for each in as_text)
            findings.append(Finding("note", "number-as-text", message, "", grid.file, rows, name))
    return findings


def _describe(kind: str, texts: Sequence[str], column: str, *, everywhere: bool) -> tuple[str, str, str]:
    """Code, message and fix for cells of one kind, of which ``texts`` are the different contents."""
    leave_out = f"leave the column out with --ignore-columns {option_list(column)}"
    some = listing(texts)
    one = len(texts) == 1
    match kind:
        case "blank":
            message = "the column has no values" if everywhere else "the cell is empty"
            fix = f"Give the measured value, leave the measurement out or {leave_out}"
            return "missing-value", message, fix
        case "not-finite":
            message = f"{some} is not a finite number" if one else f"{some} are not finite numbers"
            return "not-finite", message, f"Give the measured value, leave the measurement out or {leave_out}"
        case "thousands":
            message = f"{some} has thousands marks" if one else f"{some} have thousands marks"
            fix = "Write 1234.56 or 1234,56: in Excel, take 'Use 1000 Separator' off the format of the cells"
            return "thousands-mark", message, fix
        case "excel-error":
            message = f"{some} is the error of an Excel formula" if one else f"{some} are errors of Excel formulas"
            return "excel-error", message, f"Mend the formula, or {leave_out}"
        case "date":
            message = f"the cell holds the date or time {some}" if one else f"the cells hold dates or times, {some}"
            fix = f"Excel may have turned a number into a date: type it again in a Number cell, or {leave_out}"
            return "date-in-number", message, fix
        case "formula":
            message = "the cell holds a formula whose value was never calculated"
            return (
                "formula-without-value",
                message,
                "Open the workbook in Excel, which calculates it, and save it",
            )
        case _:
            message = f"{some} is not a number" if one else f"{some} are not numbers"
            return "not-a-number", message, f"Give a number, or {leave_out}"


def mark_findings(grid: Grid, columns: Mapping[int, Numbers]) -> list[Finding]:
    """Decimal points and commas in one file, or a mark that could as well be one of thousands."""
    points = any(numbers.points for numbers in columns.values())
    commas = any(numbers.commas for numbers in columns.values())
    if points and commas:
        return _mixed_marks(grid, columns)
    if (commas or (points and grid.delimiter in (";", "\t"))) and _all_perhaps_thousands(grid, columns):
        return [_ambiguous_mark(grid, columns, certain=grid.delimiter in (";", "\t"))]
    return []


def _mixed_marks(grid: Grid, columns: Mapping[int, Numbers]) -> list[Finding]:
    """Name the cells of the rarer mark, and one cell of the other to compare with."""
    cells: dict[str, list[tuple[int, int]]] = {"point": [], "comma": []}
    for place in columns:
        for each, cell in enumerate(grid.columns[place]):
            kind = _classify(cell)[0]
            if isinstance(cell, str) and kind in cells:
                cells[kind].append((place, each))
    rare, common = sorted(cells, key=lambda kind: len(cells[kind]))
    place, each = cells[common][0]
    example = f"row {grid.rows[each]}, column '{grid.header[place]}' has {quoted([grid.columns[place][each]])[0]}"
    findings = []
    for place in dict.fromkeys(place for place, _ in cells[rare]):
        hits = [each for other, each in cells[rare] if other == place]
        text = listing(quoted(grid.columns[place][each] for each in hits))
        message = f"a decimal {rare} ({text}) in a file of decimal {common}s ({example})"
        fix = f"Use the decimal {common} throughout"
        rows = tuple(grid.rows[each] for each in hits)
        findings.append(Finding("error", "mixed-decimal-marks", message, fix, grid.file, rows, grid.header[place]))
    return findings


def _marked(cell: object) -> bool:
    return isinstance(cell, str) and ("." in cell or "," in cell)


def _all_perhaps_thousands(grid: Grid, columns: Mapping[int, Numbers]) -> bool:
    return all(
        _PERHAPS_THOUSANDS.fullmatch(str(cell)) is not None
        for place in columns
        for cell in grid.columns[place]
        if _marked(cell)
    )


def _ambiguous_mark(grid: Grid, columns: Mapping[int, Numbers], *, certain: bool) -> Finding:
    """Every marked cell is like ``1,518``: 1.518 or 1518? Semicolons speak for the first, else we ask."""
    place, row, cell = next(
        (place, row, str(cell).strip())
        for place in columns
        for row, cell in zip(grid.rows, grid.columns[place], strict=True)
        if _marked(cell)
    )
    plain = cell.replace(",", ".")
    message = f"'{cell}' could be {plain} or {plain.replace('.', '')}, and so could every such number of the file"
    if certain:
        return Finding(
            "warning",
            "ambiguous-mark",
            f"{message}: it was read as {plain}",
            "If it is a thousands mark, save the numbers without it",
            grid.file,
            (row,),
            grid.header[place],
        )
    fix = "Save with decimal points, or without thousands marks"
    return Finding("error", "ambiguous-mark", message, fix, grid.file, (row,), grid.header[place])

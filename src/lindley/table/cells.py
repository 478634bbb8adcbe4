"""What the cells of a column say: labels (source, group and instance of every row) as text, and features as numbers."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lindley.settings import setting
from lindley.table.columns import Roles
from lindley.table.files import FORMULA, Grid, apostrophes, is_blank, without_apostrophes
from lindley.table.findings import Finding, Level, listing, quoted

__all__ = ["Labels", "Numbers", "mark_findings", "number_findings", "parse_numbers", "read_labels"]

EXCEL_ERRORS = frozenset(
    ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#GETTING_DATA")
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:([.,])\d*)?|([.,])\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity|∞|1\.#(?:qnan|ind|inf)\w*)", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d*|(?:,\d{3})+\.\d*|(?:\.\d{3}){2,}|(?:,\d{3}){2,}"
    r"|(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d*)?)"
)
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")

_GIVE = "Give the measured value, leave the measurement out or {}"
_PROBLEMS = {
    "blank": ("missing-value", "the cell is empty", "the cell is empty", _GIVE),
    "not-finite": ("not-finite", "{} is not a finite number", "{} are not finite numbers", _GIVE),
    "thousands": (
        "thousands-mark", "{} has thousands marks", "{} have thousands marks",
        "Write 1234.56 or 1234,56: in Excel, take 'Use 1000 Separator' off the format of the cells",
    ),
    "excel-error": (
        "excel-error", "{} is the error of an Excel formula", "{} are errors of Excel formulas", "Mend the formula, or {}",
    ),
    "date": (
        "date-in-number", "the cell holds the date or time {}", "the cells hold dates or times, {}",
        "Excel may have turned a number into a date: type it again in a Number cell, or {}",
    ),
    "formula": (
        "formula-without-value", *["the cell holds a formula whose value was never calculated"] * 2,
        "Open the workbook in Excel, which calculates it, and save it",
    ),
    "text": ("not-a-number", "{} is not a number", "{} are not numbers", "Give a number, or {}"),
}  # fmt: skip
"""Of every kind of cell that is no number: the code, the message for one and for several contents, and the fix."""

Texts = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of all rows: without a column for them, a source is its own group and instances count up.

    ``complete`` is false when the source or group of a row is not known: nothing is concluded from the others.
    """

    source: Texts
    group: Texts
    instance: Texts
    complete: bool = True


def read_labels(grid: Grid, roles: Roles, only: str | None = None) -> tuple[Labels | None, list[Finding]]:
    """The labels, and what is wrong with them. Without a source column, all rows are of the ``only`` source, or unlabelled."""
    if roles.source is None:
        if only is None:
            return None, []
        source = [only] * len(grid.rows)
        return Labels(_array(source), _array(source), _array(_count_within(source))), []
    source, findings = _label_texts(grid, roles.source)
    findings += _label_cells(grid, roles.source, "source") + _look_alikes(grid, source, grid.header[roles.source])
    group = source
    if roles.group is not None:
        group, noted = _label_texts(grid, roles.group)
        findings += noted + _label_cells(grid, roles.group, "group")
        findings += _split_sources(grid, source, group, grid.header[roles.group])
    if roles.instance is not None:
        instance, noted = _label_texts(grid, roles.instance)
        findings += noted + _label_cells(grid, roles.instance, "instance")
        findings += _repeated_instances(grid, source, instance, grid.header[roles.instance])
    else:
        instance = _count_within(source)
    known = all(source) and all(group) and EXCEL_ERRORS.isdisjoint(source) and EXCEL_ERRORS.isdisjoint(group)
    return Labels(_array(source), _array(group), _array(instance), known), findings


def _label_texts(grid: Grid, place: int) -> tuple[list[str], list[Finding]]:
    """The labels of a column; of a text file, without the apostrophes that keep them from being computed."""
    texts = list(map(_text, grid.columns[place]))
    if not grid.delimiter:
        return texts, []
    texts, taken_off = without_apostrophes(texts)
    return texts, [apostrophes(grid.file, taken_off, column=grid.header[place])] if taken_off else []


def _array(texts: Sequence[str]) -> Texts:
    return np.array(texts, dtype=np.str_)


def _text(cell: object) -> str:
    """A cell as a label: the number 12.0 of a workbook is the label 12, as Excel shows it."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or cell is FORMULA:
        return ""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else str(cell)


def _count_within(source: Sequence[str]) -> list[str]:
    counters: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    return [str(next(counters[label])) for label in source]


def _label_cells(grid: Grid, place: int, role: str) -> list[Finding]:
    """Cells that hold no label, or one that Excel may have made up."""
    name = grid.header[place]
    empty, broken, dates = [], [], []
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if cell is FORMULA or is_blank(cell):
            empty.append(row)
        elif isinstance(cell, str):
            if cell[:1] == "#" and cell in EXCEL_ERRORS:
                broken.append(row)
        elif isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
            dates.append(row)
    fill = f"Name the {role} in every row; merged cells hold their text in the first row only"
    if role == "instance":
        fill += f". If it is not meant as the instance, leave the column out with {setting('ignore')}"
    made_up = "is a date or time: Excel may have made it of a label such as 1-2"
    cases: tuple[tuple[list[int], Level, str, str, str], ...] = (
        (empty, "error", f"empty-{role}", "is empty", fill),
        (broken, "error", "excel-error", "is the error of an Excel formula", "Mend the formula"),
        (dates, "warning", "date-label", made_up, "If so, type the labels again in cells of format Text"),
    )
    return [
        Finding(level, code, f"the {role} {what}", fix, grid.file, tuple(rows), name)
        for rows, level, code, what, fix in cases
        if rows
    ]


def _look_alikes(grid: Grid, source: Sequence[str], name: str) -> list[Finding]:
    """Sources whose labels differ by capitals or spaces only: a slip of the hand makes two sources of one."""
    folded: dict[str, list[str]] = {}
    for label in dict.fromkeys(source):
        folded.setdefault("".join(label.casefold().split()), []).append(label)
    twins = [labels for labels in folded.values() if len(labels) > 1]
    if not twins:
        return []
    text = listing([" / ".join(quoted(labels)) for labels in twins], 8)
    message = f"labels that differ by capitals or spaces only count as different sources: {text}"
    fix = "If they are one source, write it in one way"
    return [Finding("warning", "similar-sources", message, fix, grid.file, (), name)]


def _split_sources(grid: Grid, source: Sequence[str], group: Sequence[str], name: str) -> list[Finding]:
    first: dict[str, tuple[str, int]] = {}
    rows: list[int] = []
    cases: dict[str, str] = {}
    for row, label, its_group in zip(grid.rows, source, group, strict=True):
        if not label or not its_group:
            continue
        known, known_row = first.setdefault(label, (its_group, row))
        if known != its_group:
            rows.append(row)
            cases.setdefault(label, f"'{label}' ('{known}' in row {known_row}, '{its_group}' in row {row})")
    if not rows:
        return []
    message = f"a source lies in two groups: {listing(list(cases.values()))}"
    fix = "Give each source one group, or different sources different labels"
    return [Finding("error", "source-in-two-groups", message, fix, grid.file, tuple(rows), name)]


def _repeated_instances(grid: Grid, source: Sequence[str], instance: Sequence[str], name: str) -> list[Finding]:
    first: dict[tuple[str, str], int] = {}
    rows: list[int] = []
    cases: list[str] = []
    for row, label, its_instance in zip(grid.rows, source, instance, strict=True):
        if not label or not its_instance:
            continue
        known_row = first.setdefault((label, its_instance), row)
        if known_row != row:
            rows.append(row)
            cases.append(f"instance '{its_instance}' of source '{label}' (rows {known_row} and {row})")
    if not rows:
        return []
    message = f"an instance of a source occurs twice: {listing(cases)}"
    fix = (
        "Give each measurement of a source its own label; if the column is no instance, leave it out with "
        f"{setting('ignore', name)}"
    )
    return [Finding("error", "repeated-instance", message, fix, grid.file, tuple(rows), name)]


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
        code, of_one, of_several, fix = _PROBLEMS[kind]
        texts = quoted(dict.fromkeys(str(cells[each]).strip() for each in places))
        message = (of_one if len(texts) == 1 else of_several).format(listing(texts))
        if kind == "blank" and len(places) == len(cells) > 1:
            message = "the column has no values"
        fix = fix.format(f"leave the column out with {setting('ignore', name)}")
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


def mark_findings(grid: Grid, columns: Mapping[int, Numbers]) -> list[Finding]:
    """Decimal points and commas in one file, or a mark that could as well be one of thousands."""
    points = any(numbers.points for numbers in columns.values())
    commas = any(numbers.commas for numbers in columns.values())
    if points and commas:
        return _mixed_marks(grid, columns)
    certain = grid.delimiter in (";", "\t")
    if not commas and not (points and certain):
        return []
    if not all(_PERHAPS_THOUSANDS.fullmatch(text) for *_, text in _marked(grid, columns)):
        return []
    return [_ambiguous_mark(grid.file, *next(_marked(grid, columns)), certain=certain)]


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


def _marked(grid: Grid, columns: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Column, row and text of every cell that has a point or a comma."""
    for place in columns:
        for row, cell in zip(grid.rows, grid.columns[place], strict=True):
            if isinstance(cell, str) and ("." in cell or "," in cell):
                yield grid.header[place], row, cell.strip()


def _ambiguous_mark(file: str, column: str, row: int, cell: str, *, certain: bool) -> Finding:
    """Every marked cell is like ``1,518``: 1.518 or 1518? Semicolons speak for the first, else we ask."""
    plain = cell.replace(",", ".")
    message = f"'{cell}' could be {plain} or {plain.replace('.', '')}, and so could every such number of the file"
    level: Level = "error"
    fix = "Save with decimal points, or without thousands marks"
    if certain:
        level, message = "warning", f"{message}: it was read as {plain}"
        fix = "If it is a thousands mark, save the numbers without it"
    return Finding(level, "ambiguous-mark", message, fix, file, (row,), column)

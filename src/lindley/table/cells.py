"""What the cells of a column say: labels (source, group and instance of every row) as text, and features as numbers."""

from __future__ import annotations

import datetime
import itertools
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lindley.limits import limit, limit_text
from lindley.settings import setting
from lindley.table.columns import BelowLimit, Decimal, Roles, split_unit
from lindley.table.files import FORMULA, Grid, Shown, apostrophes, is_blank, without_apostrophes
from lindley.table.findings import Finding, Level, listing, quoted
from lindley.table.lookalikes import look_alikes, unmistakable

__all__ = [
    "Labels", "Numbers", "ask_about_labels", "mark_findings", "number_findings", "parse_numbers", "read_labels",
    "similar_labels",
]  # fmt: skip

EXCEL_ERRORS = frozenset(
    ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#GETTING_DATA")
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:([.,])\d*)?|([.,])\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity|∞|1\.#(?:qnan|ind|inf)\w*)", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d*|(?:,\d{3})+\.\d*|(?:\.\d{3}){2,}|(?:,\d{3}){2,}"
    r"|(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d*)?)"
)
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")

_BELOW_LIMIT: dict[BelowLimit, tuple[float, str]] = {
    "half": (0.5, "half of the limit"),
    "limit": (1.0, "the limit itself"),
    "sqrt2": (math.sqrt(0.5), "the limit over √2"),
}
_GIVE = "Give the measured value, leave the measurement out or {}"
_PROBLEMS = {
    "blank": ("missing-value", "the cell is empty", "the cell is empty", _GIVE),
    "not-finite": ("not-finite", "{} is not a finite number", "{} are not finite numbers", _GIVE),
    "too-small": (
        "too-small", "{} is so small that it would be read as 0", "{} are so small that they would be read as 0",
        "Give the feature in another unit, of ordinary numbers, or {}",
    ),
    "shown-otherwise": (
        "shown-otherwise", "a cell holds {} in Excel: it cannot be known which is meant",
        "cells hold {} in Excel: it cannot be known which is meant",
        "Format the cells as Number, so that the number you see is the one that is read, and check it",
    ),
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
    "below-limit": (
        "below-limit", "{} is below the detection limit", "{} are below the detection limit",
        f"Say what they are to be read as with {setting('below_limit', 'half')} (or limit, or sqrt2), or {{}}",
    ),
    "text": ("not-a-number", "{} is not a number", "{} are not numbers", "Give a number, or {}"),
}  # fmt: skip
"""Of every kind of cell that is no number: the code, the message for one and for several contents, and the fix."""

_MEASURED = {"blank", "not-finite", "excel-error", "below-limit"}  # cells that a column of numbers may hold

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
        one = _array(source)
        return Labels(one, one, _array(_count_within(source))), []
    source, findings = _read_column(grid, roles.source, "source")
    group = source
    if roles.group is not None:
        group, found = _read_column(grid, roles.group, "group")
        findings += found + _split_sources(grid, source, group, grid.header[roles.group])
    if roles.instance is not None:
        instance, found = _read_column(grid, roles.instance, "instance")
        findings += found + _repeated_instances(grid, source, instance, grid.header[roles.instance])
    else:
        instance = _count_within(source)
    if any(finding.code == "long-label" for finding in findings):
        return None, findings
    known = all(source) and all(group) and EXCEL_ERRORS.isdisjoint(source) and EXCEL_ERRORS.isdisjoint(group)
    sources = _array(source)
    return Labels(sources, sources if group is source else _array(group), _array(instance), known), findings


def ask_about_labels(grid: Grid, roles: Roles, source: Texts) -> list[Finding]:
    """Columns of a case that may tell items apart, and differ within what would be one: nobody knows whether these are several.

    Text that differs is asked about; numbers are where they repeat as labels do, so that one which counts the measurements is
    not. What is explained by a column that is asked about already, such as a description of the item, is not asked about.
    """
    others = [(_repeats_as_labels(grid, place), place) for place in roles.others]
    parts = source.tolist()
    findings = []
    for repeats, place in sorted(others, key=lambda other: other[0] is not None):  # text first
        labels, _ = _label_texts(grid, place)
        held: dict[str, list[str]] = defaultdict(list)
        for part, label in zip(parts, labels, strict=True):
            if label:
                held[part].append(label)
        mixed = next(
            (each for each in held.values() if len(set(each)) > 1 and (repeats is None or repeats(each))), None
        )
        if mixed is None:
            continue
        parts = [f"{part}\0{label}" for part, label in zip(parts, labels, strict=True)]
        some = listing(quoted(dict.fromkeys(mixed)), 4)
        message = f"the column differs within what would be one item ({some}): does it tell items apart"
        name = grid.header[place]
        fix = f"If so, name it with {setting('source', name)}; if it does not matter, leave it out with "
        fix += setting("ignore", name)
        findings.append(Finding("error", "several-items", f"{message}?", fix, grid.file, (), name))
    return findings


def _repeats_as_labels(grid: Grid, place: int) -> Callable[[Sequence[str]], bool] | None:
    """Of a column of numbers, what tells whether those of an item repeat as labels do; ``None`` of one of text.

    A whole number need repeat once only, unless the header gives a unit. Of other numbers, each must be there twice: measured
    values may repeat by chance, and 1.1, 1.1, 1.2, 1.2 do not.
    """
    name = grid.header[place]
    numbers = parse_numbers(grid.columns[place])
    if name.casefold() != "instance" and not numbers.problems.keys() <= _MEASURED:
        return None
    values = numbers.values[np.isfinite(numbers.values)]
    if (values == np.round(values)).all() and split_unit(name)[1] is None:
        return lambda labels: len(set(labels)) < len(labels)
    return lambda labels: min(Counter(labels).values()) > 1


def _label_texts(grid: Grid, place: int) -> tuple[list[str], list[Finding]]:
    """The labels of a column; of a text file, without the apostrophes that keep them from being computed."""
    texts = list(map(_text, grid.columns[place]))
    if not grid.delimiter:
        return texts, []
    texts, taken_off = without_apostrophes(texts)
    return texts, [apostrophes(grid.file, taken_off, column=grid.header[place])] if taken_off else []


def _array(texts: Sequence[str]) -> Texts:
    return np.array(texts, dtype=np.str_)


def _read_column(grid: Grid, place: int, role: str) -> tuple[list[str], list[Finding]]:
    """A column of labels, and what is wrong or odd with them."""
    name, cells = grid.header[place], grid.columns[place]
    labels, noted = _label_texts(grid, place)
    findings = noted + _label_cells(grid, place, role) + _long_labels(grid, labels, name)
    if role != "instance":
        findings += similar_labels(labels, role, grid.file, name) + _merged_labels(grid, cells, labels, name)
        findings += _numbers_as_labels(grid, cells, name)
    return labels, findings


def _long_labels(grid: Grid, labels: Sequence[str], name: str) -> list[Finding]:
    """Labels are kept as wide as the longest of them, so that one could fill the memory."""
    longest = max(map(len, labels), default=0)
    size = 4 * longest * len(labels)
    if longest > limit("LETTERS"):
        what = limit_text("LETTERS")
    elif size > limit("TABLE_MB") * 1_000_000:
        what = f"labels as long as it take {size / 1e6:,.0f} MB in {len(labels):,} rows, and {limit_text('TABLE_MB')}"
    else:
        return []
    at = next(at for at, label in enumerate(labels) if len(label) == longest)
    message = f"the label {quoted([labels[at]])[0]} has {longest:,} letters; {what}"
    fix = "Shorten the label, and look for a quotation mark that was never closed"
    return [Finding("error", "long-label", message, fix, grid.file, (grid.rows[at],), name)]


def similar_labels(labels: Iterable[str], role: str, file: str, column: str | None = None) -> list[Finding]:
    """Labels that look alike: a slip of the hand makes two sources of one."""
    twins = look_alikes(label for label in labels if label)
    if not twins:
        return []
    text = listing([" / ".join(map(unmistakable, group[:4])) for group in twins], 8)
    message = f"labels that look alike count as different {role}s: {text}"
    fix = f"If they are one {role}, write it in one way"
    return [Finding("warning", f"similar-{role}s", message, fix, file, (), column)]


def _merged_labels(grid: Grid, cells: Sequence[object], labels: Sequence[str], name: str) -> list[Finding]:
    """Cells that are read as one label although they differ: by spaces around them, or a number and a text."""
    forms: dict[str, dict[str | None, None]] = defaultdict(dict)
    for cell, label in zip(cells, labels, strict=True):
        if label:
            forms[label][cell if isinstance(cell, str) else None] = None
    merged = [
        " / ".join(f"{label} (no text)" if form is None else unmistakable(form) for form in list(each)[:4])
        for label, each in forms.items()
        if len(each) > 1
    ]
    if not merged:
        return []
    message = f"cells that differ by spaces, or as text and number, were read as one label: {listing(merged, 8)}"
    return [Finding("warning", "merged-labels", message, "If they are two, name them differently", grid.file, (), name)]


def _numbers_as_labels(grid: Grid, cells: Sequence[object], name: str) -> list[Finding]:
    """1.10 is the number 1.1, and a number has 15 digits in Excel: labels that differ may have become one."""
    odd = [at for at, cell in enumerate(cells) if isinstance(cell, int | float) and not _is_plain(cell)]
    if not odd:
        return []
    some = listing(list(dict.fromkeys(_text(cells[at]) for at in odd)))
    message = f"labels are numbers ({some}): 1.1 and 1.10 are one number, and so are two that differ beyond 15 digits"
    fix = "If labels were lost, keep them as text: in Excel, choose the format Text for the column, and type them again"
    rows = tuple(grid.rows[at] for at in odd)
    return [Finding("warning", "numbers-as-labels", message, fix, grid.file, rows, name)]


def _is_plain(number: float) -> bool:
    """Whether a number is whole, and short enough to be exactly what was typed."""
    return isinstance(number, bool) or (abs(number) < 1e15 and number == int(number))


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
    empty, broken, dates, cut = [], [], [], []
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if cell is FORMULA or is_blank(cell):
            empty.append(row)
        elif isinstance(cell, str):
            if cell[:1] == "#" and cell in EXCEL_ERRORS:
                broken.append(row)
            elif "\0" in cell:  # at its end, numpy would drop it
                cut.append(row)
        elif isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
            dates.append(row)
    fill = f"Name the {role} in every row; merged cells hold their text in the first row only"
    if role == "instance":
        fill += f". If it is not meant as the instance, leave the column out with {setting('ignore')}"
    made_up = "is a date or time: Excel may have made it of a label such as 1-2"
    cases: tuple[tuple[list[int], Level, str, str, str], ...] = (
        (empty, "error", f"empty-{role}", "is empty", fill),
        (broken, "error", "excel-error", "is the error of an Excel formula", "Mend the formula"),
        (cut, "error", "binary-label", "holds a NUL character", "Write the label as plain text"),
        (dates, "warning", "date-label", made_up, "If so, type the labels again in cells of format Text"),
    )
    return [
        Finding(level, code, f"the {role} {what}", fix, grid.file, tuple(rows), name)
        for rows, level, code, what, fix in cases
        if rows
    ]


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
            here, one, other = quoted([label, known, its_group])
            cases.setdefault(label, f"{here} ({one} in row {known_row}, {other} in row {row})")
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
            which, whose = quoted([its_instance, label])
            cases.append(f"instance {which} of source {whose} (rows {known_row} and {row})")
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
    replaced: Sequence[int] = ()  # cells below the detection limit
    read_as: str = ""  # in words


def parse_numbers(cells: Sequence[object], below_limit: BelowLimit | None = None) -> Numbers:
    """Read a column: at once where all cells are plain numbers, cell by cell where one is not."""
    kinds = set(map(type, cells))
    if kinds <= {float, int}:
        with suppress(OverflowError):  # a whole number of 400 digits
            values = np.array(cells, dtype=np.float64)
            if np.isfinite(values).all():
                return Numbers(values)
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
                vanished = any(_NOT_ZERO.match(texts[at]) for at in np.flatnonzero(values == 0).tolist())
                if np.isfinite(values).all() and not vanished:
                    return Numbers(values, points, commas)
    return _parse_one_by_one(cells, below_limit)


def _parse_one_by_one(cells: Sequence[object], below_limit: BelowLimit | None) -> Numbers:
    share, read_as = (math.nan, "") if below_limit is None else _BELOW_LIMIT[below_limit]
    values = np.full(len(cells), np.nan)
    seen: set[str] = set()
    problems: dict[str, list[int]] = {}
    replaced = []
    for place, cell in enumerate(cells):
        kind, value = _classify(cell)
        if kind == "text" and (of_limit := _classify(_without_sign(cell)))[1] > 0:
            kind, value = "below-limit", of_limit[1] * share
            if below_limit is not None:
                kind = of_limit[0]
                replaced.append(place)
        values[place] = value
        seen.add(kind)
        if kind not in ("whole", "point", "comma"):
            problems.setdefault(kind, []).append(place)
    return Numbers(values, "point" in seen, "comma" in seen, problems, replaced, read_as)


def _without_sign(cell: object) -> object:
    """The limit of a cell such as ``<0.02``; any other cell as it is."""
    text = cell.strip() if isinstance(cell, str) else ""
    return text[1:] if text.startswith("<") else cell


def _classify(cell: object) -> tuple[str, float]:
    if isinstance(cell, bool):
        return "text", math.nan
    if isinstance(cell, Shown):
        return "shown-otherwise", math.nan
    if is_blank(cell):
        return "blank", math.nan
    if isinstance(cell, int | float):
        finite = -sys.float_info.max <= cell <= sys.float_info.max
        return ("whole", float(cell)) if finite else ("not-finite", math.nan)
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return "date", math.nan
    if cell is FORMULA:
        return "formula", math.nan
    text = str(cell).strip().replace("−", "-")
    if text.upper() in EXCEL_ERRORS:
        return "excel-error", math.nan
    number = _NUMBER.fullmatch(text) if text.isascii() else None
    if number:
        value = float(text.replace(",", "."))
        if not math.isfinite(value):
            return "not-finite", math.nan
        if value == 0 and _NOT_ZERO.match(text):
            return "too-small", math.nan
        return {None: "whole", ".": "point", ",": "comma"}[number[1] or number[2]], value
    if _NOT_FINITE.fullmatch(text):
        return "not-finite", math.nan
    return ("thousands" if _THOUSANDS.fullmatch(text) else "text"), math.nan


def number_findings(grid: Grid, place: int, numbers: Numbers, *, needed: bool = False) -> list[Finding]:
    """One finding for each kind of problem in a column, with all its rows; ``needed``: it cannot be left out."""
    name = grid.header[place]
    cells = grid.columns[place]
    findings = []
    for kind, places in numbers.problems.items():
        code, of_one, of_several, fix = _PROBLEMS[kind]
        texts = quoted(dict.fromkeys(str(cells[each]).strip() for each in places))
        message = (of_one if len(texts) == 1 else of_several).format(listing(texts))
        if kind == "blank" and len(places) == len(cells) > 1:
            message = "the column has no values"
        otherwise = f"leave the column out with {setting('ignore', name)}"
        fix = fix.format("measure it again: the system needs this column" if needed else otherwise)
        rows = tuple(grid.rows[each] for each in places)
        findings.append(Finding("error", code, message, fix, grid.file, rows, name))
    if numbers.replaced:
        some = listing(quoted(dict.fromkeys(str(cells[each]).strip() for each in numbers.replaced)))
        message = (
            f"{len(numbers.replaced)} below the detection limit ({some}) read as {numbers.read_as}, as was asked for"
        )
        rows = tuple(grid.rows[each] for each in numbers.replaced)
        findings.append(Finding("warning", "below-limit", message, "", grid.file, rows, name))
    if not grid.delimiter:
        finite = np.isfinite(numbers.values)
        as_text = [each for each, cell in enumerate(cells) if isinstance(cell, str) and finite[each]]
        if as_text:
            message = "stored as text in Excel and read as a number"
            rows = tuple(grid.rows[each] for each in as_text)
            findings.append(Finding("note", "number-as-text", message, "", grid.file, rows, name))
    return findings


def mark_findings(grid: Grid, columns: Mapping[int, Numbers], decimal: Decimal | None = None) -> list[Finding]:
    """Decimal points and commas in one file, or a mark that could as well be one of thousands.

    ``1,934`` is 1.934 or 1934. Where the ``decimal`` mark is told there is nothing to ask; nor in a file with commas between
    its columns and points in its numbers, or where other cells of the column show what the mark is.
    """
    points = any(numbers.points for numbers in columns.values())
    commas = any(numbers.commas for numbers in columns.values())
    if (points and commas) or (decimal == "," and points) or (decimal == "." and commas):
        return _mixed_marks(grid, columns, decimal)
    if decimal is not None or not (points or commas) or (points and grid.delimiter == ","):
        return []
    marked = [place for place, numbers in columns.items() if numbers.points or numbers.commas]
    doubtful = [
        place for place in marked if all(_PERHAPS_THOUSANDS.fullmatch(text) for *_, text in _marked(grid, place))
    ]
    if len(doubtful) == len(marked):
        return [_ambiguous_mark(grid.file, *next(_marked(grid, marked[0])), "every such number of the file")]
    # another column shows what the mark is, but whole numbers between the others speak for thousands
    every = "every such number of the column, which has whole numbers between them"
    return [
        _ambiguous_mark(grid.file, *next(_marked(grid, place)), every)
        for place in doubtful
        if sum(1 for _ in _marked(grid, place)) < len(grid.rows)
    ]


def _mixed_marks(grid: Grid, columns: Mapping[int, Numbers], decimal: Decimal | None) -> list[Finding]:
    """Name the cells of the rarer mark, or of the one that it should not be, and one cell of the other to compare with."""
    cells: dict[str, list[tuple[int, int]]] = {"point": [], "comma": []}
    for place in columns:
        for each, cell in enumerate(grid.columns[place]):
            kind = _classify(_without_sign(cell))[0]
            if isinstance(cell, str) and kind in cells:
                cells[kind].append((place, each))
    rare, common = sorted(cells, key=lambda kind: len(cells[kind]))
    if decimal is not None:
        rare, common = ("comma", "point") if decimal == "." else ("point", "comma")
    example = f"as {setting('decimal', decimal)} says" if decimal is not None else ""
    if not example:
        place, each = cells[common][0]
        example = f"row {grid.rows[each]}, column '{grid.header[place]}' has {quoted([grid.columns[place][each]])[0]}"
    findings = []
    for place in dict.fromkeys(place for place, _ in cells[rare]):
        hits = [each for other, each in cells[rare] if other == place]
        text = listing(quoted(grid.columns[place][each] for each in hits))
        message = f"a decimal {rare} ({text}) in a file of decimal {common}s ({example})"
        fix = f"Use the decimal {common} throughout, and no mark for thousands"
        rows = tuple(grid.rows[each] for each in hits)
        findings.append(Finding("error", "mixed-decimal-marks", message, fix, grid.file, rows, grid.header[place]))
    return findings


def _marked(grid: Grid, place: int) -> Iterator[tuple[str, int, str]]:
    """Column, row and text of every cell of a column that has a point or a comma."""
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if isinstance(cell, str) and ("." in cell or "," in cell):
            yield grid.header[place], row, str(_without_sign(cell)).strip()


def _ambiguous_mark(file: str, column: str, row: int, cell: str, every: str) -> Finding:
    """1.934 or 1934? We ask."""
    plain, mark = cell.replace(",", "."), "," if "," in cell else "."
    message = f"'{cell}' could be {plain} or {plain.replace('.', '')}, and so could {every}"
    fix = f"If it is {plain}, say so with {setting('decimal', mark)}; if not, save the numbers without thousands marks"
    return Finding("error", "ambiguous-mark", message, fix, file, (row,), column)

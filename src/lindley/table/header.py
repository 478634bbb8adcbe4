"""Which row of a file is the header: below a title, if there is one, and above a row of units, if there is one.

A first row that names every column with values is the header, whatever it looks like. Only where it leaves columns without a
name is the header looked for below it, and taken where no other row can be meant; else the question is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from lindley.settings import setting
from lindley.table.cells import NUMBERS, classify, is_blank, without_sign
from lindley.table.findings import Finding, TableError, listing, quoted
from lindley.table.table import ROLES, with_unit
from lindley.table.units import is_known_unit, is_unit, power_between, split_unit

__all__ = ["Row", "find_header", "header_place", "take_units"]

Row = tuple[int, Sequence[object]]
"""The number of a row in its file, as Excel counts, and its cells."""

_MOST_ABOVE = 30  # rows that are not blank, above a header that is looked for
_LOOKED_AT = 50  # rows below it, to see which columns hold numbers
_NO_UNIT = ("-", "\u2013", "\u2014")
_UNIT_WORDS = frozenset(("unit", "units", "eenheid", "eenheden", "einheit", "einheiten", "unité", "unités"))


def find_header(file: str, rows: Sequence[Row], asked: int | None, findings: list[Finding]) -> int:
    """Which of the rows, none of which is blank, is the header; a note tells of others above it.

    ``asked`` is the number of its row in the file, where somebody said it.

    Raises:
        TableError: if there is no such row; or with the question which it is.
    """
    if asked is not None:
        at = next((at for at, (row, _) in enumerate(rows) if row == asked), None)
        if at is None:
            there = f"the first that is not empty is row {rows[0][0]}, and the last row {rows[-1][0]}"
            message = f"the header is to be in row {asked}, and that row is empty or is not there: {there}"
            fix = f"Give another with {setting('header_row')}, counted as Excel counts, from 1"
            raise TableError([*findings, Finding("error", "no-header-row", message, fix, file)])
        if at:
            findings.append(_above(file, rows, at, ", as was asked"))
        findings += _measurements_above(file, rows, at)
        return at
    at, doubtful = _below_titles(rows)
    if doubtful:
        raise TableError([*findings, _which_header(file, rows, at)])
    if at:
        findings.append(_above(file, rows, at, ""))
    return at


def header_place(records: Sequence[Sequence[object]], *, sure: bool) -> int:
    """Which of the first rows of a file is the header, where that is sure; else 0, or the one that may be meant."""
    at, doubtful = _below_titles(list(enumerate(records))) if records else (0, False)
    return 0 if sure and doubtful else at


def _below_titles(rows: Sequence[Row]) -> tuple[int, bool]:
    """Which row is the header, and whether that must be asked.

    The header names every column that holds a value below it, with texts that differ and are no numbers; below it there are
    numbers; and every row above it fills half of its columns at most.
    """
    if len(_filled(rows[0][1])) >= max(len(cells) for _, cells in rows):
        return 0, False  # as nearly always, and without a look at every cell
    last = _last_filled(rows)
    if _names_all(rows[0], 0, last):
        return 0, False
    first = rows[: _MOST_ABOVE + 1]
    filled = [len(_filled(cells)) for _, cells in first]
    most = max(len(_filled(cells)) for _, cells in rows[:_LOOKED_AT])
    full = next((at for at, row in enumerate(first) if _names_all(row, at, last)), None)
    if full is not None and _holds_names(rows[full][1]) and _number_columns(rows[full + 1 :]):
        return full, any(2 * count > most for count in filled[:full])
    wide = next((at for at, count in enumerate(filled) if 2 * count > most), 0)
    return wide, wide > 0


def _last_filled(rows: Sequence[Row]) -> dict[int, int]:
    """For every column that holds values, the last of the rows with one."""
    last: dict[int, int] = {}
    for at, (_, cells) in enumerate(rows):
        for column in _filled(cells):
            last[column] = at
    return last


def _names_all(row: Row, at: int, last: dict[int, int]) -> bool:
    named = set(_filled(row[1]))
    return all(column in named for column, end in last.items() if end > at)


def _filled(cells: Sequence[object]) -> list[int]:
    return [column for column, cell in enumerate(cells) if not is_blank(cell)]


def _is_text(cell: object) -> bool:
    """A cell with words in it, that are neither a number nor what stands in the place of one."""
    return isinstance(cell, str) and classify(cell)[0] == "text" and classify(without_sign(cell))[0] == "text"


def _is_number(cell: object) -> bool:
    """A number, also one below a limit, or one that Excel shows otherwise."""
    return classify(without_sign(cell))[0] in (*NUMBERS, "shown-otherwise")


def _holds_names(cells: Sequence[object]) -> bool:
    texts = [cells[column] for column in _filled(cells)]
    folded = {str(text).strip().casefold() for text in texts}
    units = sum(is_known_unit(str(text).strip()) for text in texts)
    return len(texts) > 1 and all(map(_is_text, texts)) and len(folded) == len(texts) and 2 * units <= len(texts)


def _number_columns(rows: Sequence[Row]) -> list[int]:
    """The columns in which more than half of the next cells that are not blank are numbers."""
    numbers: dict[int, int] = {}
    for _, cells in rows[:_LOOKED_AT]:
        for column in _filled(cells):
            numbers[column] = numbers.get(column, 0) + (1 if _is_number(cells[column]) else -1)
    return [column for column, more in sorted(numbers.items()) if more > 0]


def _some_cells(row: Row) -> str:
    number, cells = row
    return f"{listing(quoted(cells[column] for column in _filled(cells)), 4)} (row {number})"


def _above(file: str, rows: Sequence[Row], at: int, how: str) -> Finding:
    above = "; ".join(_some_cells(row) for row in rows[:3][:at])
    more = f"; and {at - 3} rows more" if at > 3 else ""
    message = f"the header was taken from row {rows[at][0]}{how}; above it stands {above}{more}"
    fix = "" if how else f"If another row is the header, say which with {setting('header_row')}"
    return Finding("note", "header-row", message, fix, file)


def _measurements_above(file: str, rows: Sequence[Row], at: int) -> list[Finding]:
    """Rows above a header that was asked for, and that hold numbers in most of its columns: perhaps it is the wrong row."""
    columns = len(_filled(rows[at][1]))
    lost = [number for number, cells in rows[:at] if 2 * sum(map(_is_number, cells)) > columns]
    if not lost:
        return []
    message = f"above the header and not read, although most of the cells are numbers: is row {rows[at][0]} right?"
    fix = f"If these are measurements, say which row is the header with {setting('header_row')}"
    return [Finding("warning", "rows-above-header", message, fix, file, tuple(lost))]


def _which_header(file: str, rows: Sequence[Row], at: int) -> Finding:
    number = rows[at][0]
    message = (
        f"which row is the header? {_some_cells(rows[0])} does not name every column that holds values; "
        f"{_some_cells(rows[at])} may be meant"
    )
    fix = f"Say which with {setting('header_row', str(number))}, or another number; or delete the rows above the header"
    return Finding("error", "which-header", message, fix, file)


def take_units(
    file: str, header_row: int, names: Sequence[str], rows: Sequence[Row], findings: list[Finding]
) -> tuple[list[str], bool]:
    """The names, with units behind them where the first of the rows gives them; and whether that row is no measurement.

    A row of units has no number: a known unit, or one between brackets, or nothing, in each column of numbers, and nothing but
    the word "unit" or a dash in the others. What is a row without a number, and not that, is asked about.
    """
    if not rows or any(map(_is_number, rows[0][1])):
        return list(names), False
    row, cells = rows[0]
    of_numbers = set(_number_columns(rows[1 : _LOOKED_AT + 1]))
    texts = {column: str(cells[column]).strip() for column in _filled(cells)}
    if not of_numbers & texts.keys() or not all(_is_text(cells[column]) for column in of_numbers & texts.keys()):
        return list(names), False
    units = {column: _told_unit(text) for column, text in texts.items() if column in of_numbers}
    of_features = [column for column, unit in units.items() if unit and names[column].casefold() not in ROLES]
    beside = [text for column, text in texts.items() if column not in of_numbers]
    alone = all(text in _NO_UNIT or text.strip("[]():. ").casefold() in _UNIT_WORDS for text in beside)
    sure_units = bool(of_features) and None not in units.values()
    if alone and sure_units:
        told = {column: str(units[column]) for column in of_features}
        return _with_units(file, header_row, row, names, told, findings), True
    if 2 * len(units) > max(len(of_numbers), 2) and (alone or sure_units or _holds_names(cells)):
        findings.append(_which_units(file, rows[0]))
        return list(names), True
    return list(names), False


def _told_unit(text: str) -> str | None:
    """The unit in a cell; nothing for a dash, and ``None`` where it is not sure to be one."""
    if text in _NO_UNIT:
        return ""
    bracketed = (text[0], text[-1]) in (("[", "]"), ("(", ")"))
    unit = text[1:-1].strip() if bracketed else text
    return unit if is_known_unit(unit) or (bracketed and is_unit(unit)) else None


def _with_units(
    file: str, header_row: int, row: int, names: Sequence[str], units: dict[int, str], findings: list[Finding]
) -> list[str]:
    """The names as if their header had told the units, which is where the rest of the reader looks for them."""
    told = list(names)
    for column, unit in units.items():
        before = split_unit(names[column])[1]
        if before is None or (power_between(before, unit) != 0 and not is_known_unit(before)):
            told[column] = with_unit(names[column], unit) if names[column] else ""
        elif power_between(before, unit) != 0:
            message = f"the header says {before} (row {header_row}), and the row of units says {unit}: which is right?"
            findings.append(
                Finding("error", "unit-told-twice", message, "Give one of them", file, (row,), names[column])
            )
    some = listing([f"{names[column]} in {unit}" for column, unit in units.items()], 4)
    message = f"read as the units of the columns, and not as a measurement: {some}"
    findings.append(Finding("note", "units-row", message, file=file, rows=(row,)))
    return told


def _which_units(file: str, row: Row) -> Finding:
    number, cells = row
    some = listing(quoted(cells[column] for column in _filled(cells)), 4)
    message = f"the row under the header holds no number ({some}): is it the header, or does it give units?"
    fix = (
        f"If it is the header, say so with {setting('header_row', str(number))}; if these are units, put each between square "
        "brackets, such as [counts/s], and leave the cells under labels empty; if neither, delete the row"
    )
    return Finding("error", "which-units", message, fix, file, (number,))

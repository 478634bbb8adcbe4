"""Excel workbooks (.xlsx) as columns of cells: one sheet, as it is seen on the screen, or what is hidden is asked about.

openpyxl reads the book (its sheets, texts and styles) and single cells. Cells that are not empty are collected here by their
coordinates, as they may stand in any order.
"""

from __future__ import annotations

import difflib
import functools
import io
import itertools
import operator
import re
import warnings
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from xml.etree.ElementTree import Element, iterparse

from lindley.limits import limit, limit_text
from lindley.settings import setting
from lindley.table.cells import FORMULA, Merged, Shown, is_blank
from lindley.table.files import Grid, build_grid
from lindley.table.findings import Finding, TableError, listing, quoted, stop
from lindley.table.header import Row, find_header

__all__ = ["Hidden", "read_once", "read_workbook", "rows_of_workbook"]

Hidden = Literal["include", "ignore"]
"""What is done with hidden rows and columns: they are read as if they were seen, or left out."""

_ANOTHER = f"Name another one with {setting('sheet')}"
_SAVE_AGAIN = "Open it in Excel and save it again as 'Excel Workbook (*.xlsx)'"
_ROWS, _COLUMNS = 1_048_576, 16_384  # of a sheet
_MOST_PARTS = 10_000  # of one cell: the letters of a text may each have a font of their own
_MOST_PACKED = 150  # times: a table shrinks to a tenth when it is packed, and a bomb to a thousandth
_BYTES_OF_A_CELL = 8  # of a table in memory, where it is empty
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_PIXEL = 0.05  # a height in points or a width in letters of which nothing is seen
_FORMAT = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[([^\]]*)\]|(.)', re.DOTALL)
_WHEN = re.compile(r"(<=|>=|<>|<|>|=)(-?[\d.]+)")
_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
_SIGNS = "<>≤≥~≈"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class _Damaged(Exception):
    """A sheet that Excel would not open as it is; the message says why."""


@dataclass
class _Sheet:
    """What a sheet holds, and what of it is not seen."""

    cells: dict[int, dict[int, object]] = field(default_factory=dict)  # by row and column, from 1; none is blank
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    merged: list[tuple[int, int, int, int, object]] = field(default_factory=list)
    """First and last row, first and last column, and what is shown there."""


def read_workbook(
    file: str, data: bytes, sheet: str | None = None, hidden: Hidden | None = None, header_row: int | None = None
) -> tuple[Grid, list[Finding]]:
    """The cells of the named sheet, or of the first one that is not hidden, and what is to be said of them.

    ``header_row`` is the row of the header, where somebody said it.

    Raises:
        TableError: if there is no such sheet, or no workbook.
    """
    _, chosen, read, findings = _opened(file, data, sheet)
    findings += _hide(file, read, hidden)
    if not read.cells:
        raise TableError([*findings, Finding("error", "empty-file", f"the sheet '{chosen}' is empty", _ANOTHER, file)])
    numbers = sorted(read.cells)
    between = itertools.chain.from_iterable(range(a + 1, b) for a, b in itertools.pairwise([0, *numbers]))
    if gaps := tuple(row for row in between if row not in read.hidden_rows):
        findings.append(Finding("note", "empty-rows", "empty and skipped", file=file, rows=gaps))
    rows, places = _rows(file, read, numbers)
    if at := find_header(file, rows, header_row, findings):
        rows, places = _rows(file, read, numbers[at:])
    if read.merged:
        _spread_merged(file, read, numbers[at + 1 :], places)
        rows, places = _rows(file, read, numbers[at:])
    (row, header), *body = rows
    return build_grid(file, header, body, findings, places=places, header_row=row), findings


def rows_of_workbook(file: str, data: bytes, sheet: str | None = None) -> tuple[dict[str, bool], str, list[Row]]:
    """The sheets, and whether each is seen; the one that is read; and its rows with their numbers, hidden ones too.

    Cells stand at their places, from column A on.

    Raises:
        TableError: if there is no such sheet, or no workbook.
    """
    states, chosen, read, _ = _opened(file, data, sheet)
    width = max((place for cells in read.cells.values() for place in cells), default=0)
    _require_room(file, len(read.cells), width)
    rows: list[Row] = [(row, [read.cells[row].get(place + 1) for place in range(width)]) for row in sorted(read.cells)]
    return {name: state == "visible" for name, state in states.items()}, chosen, rows


_Opened = tuple[dict[str, str], str, _Sheet, list[Finding]]
"""The sheets of a workbook, the one that is chosen, its cells, and what is to be said of the choice."""
_READ: ContextVar[dict[tuple[str, bytes, str | None], _Opened] | None] = ContextVar("read", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Read every sheet once inside this context, however often it is asked for."""
    token = _READ.set({})
    try:
        yield
    finally:
        _READ.reset(token)


def _opened(file: str, data: bytes, sheet: str | None) -> _Opened:
    before, key = _READ.get(), (file, data, sheet)
    if before is None:
        return _read_opened(*key)
    if key not in before:
        before[key] = _read_opened(*key)
    states, chosen, read, findings = before[key]
    own = _Sheet(dict(read.cells), set(read.hidden_rows), read.hidden_columns, read.merged)  # which `_hide` changes
    return states, chosen, own, list(findings)


def _read_opened(file: str, data: bytes, sheet: str | None) -> _Opened:
    _require_workbook(file, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and validations, which hold no measurements
            _require_small(file, data)
            with _open(data) as book:
                chosen, findings = _choose(file, book.states, sheet)
                return book.states, chosen, _read_sheet(book, chosen), findings
    except TableError:
        raise
    except _Damaged as error:
        stop("corrupt-workbook", f"the workbook is damaged: {error}", _SAVE_AGAIN, file)
    except Exception as error:  # whatever openpyxl, zipfile or the XML parser stumble over in a damaged file
        stop("corrupt-workbook", f"the workbook is damaged ({type(error).__name__}: {error})", _SAVE_AGAIN, file)


def _spread_merged(file: str, sheet: _Sheet, rows: Sequence[int], places: Sequence[int]) -> None:
    """Give merged cells in these rows and columns, all below the header, the value that Excel shows in their place."""
    spread: set[tuple[int, int]] = set()
    for first, last, left, right, value in sheet.merged:
        if not rows or first < rows[0]:
            continue  # a title, or a header over several rows
        columns = places[bisect_left(places, left) : bisect_right(places, right)]
        for row in rows[bisect_left(rows, first) : bisect_right(rows, last)]:
            new = dict.fromkeys(columns, Merged(value) if value is not None else None)
            if not spread.isdisjoint((row, place) for place in columns):
                stop(
                    "corrupt-workbook", f"the workbook is damaged: merged cells overlap in row {row}", _SAVE_AGAIN, file
                )
            spread.update((row, place) for place in columns)
            sheet.cells[row] = {place: cell for place, cell in {**sheet.cells[row], **new}.items() if cell is not None}


def _rows(file: str, sheet: _Sheet, numbers: Sequence[int]) -> tuple[list[Row], list[int]]:
    """These rows of a sheet, and the columns, from 1, that hold anything in them."""
    places = sorted({place for number in numbers for place in sheet.cells[number]})
    _require_room(file, len(numbers), len(places))
    return [(number, [sheet.cells[number].get(place) for place in places]) for number in numbers], places


def _require_workbook(file: str, data: bytes) -> None:
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        message = "this is an old .xls workbook, or one that is protected with a password"
        fix = "Open it in Excel, take the password off and save it as 'Excel Workbook (*.xlsx)'"
        stop("corrupt-workbook", message, fix, file)
    if not data.startswith(b"PK"):
        fix = "Save it again from Excel as .xlsx; if it is a text file, give it the ending .csv"
        stop("corrupt-workbook", "the content is not that of an Excel workbook", fix, file)


def _require_small(file: str, data: bytes) -> None:
    """Refuse what unpacks to more than the limit; no part of a zip file gives more than it says."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    message = f"the workbook of {len(data) / 1e6:,.1f} MB unpacks to {unpacked / 1e6:,.0f} MB"
    fix = "Save the sheet of measurements alone, as a workbook of its own or as CSV UTF-8"
    if unpacked > limit("TABLE_MB") * 1_000_000:
        stop("too-large", f"{message}; {limit_text('TABLE_MB')}", fix, file)
    if unpacked > 10_000_000 and unpacked > _MOST_PACKED * len(data):
        stop("too-large", f"{message}, as no table of measurements does", fix, file)


@dataclass
class _Book:
    """What is known of a workbook before a sheet is read."""

    archive: zipfile.ZipFile
    texts: list[str]
    styles: Any  # openpyxl's workbook, which knows formats and dates
    states: dict[str, str]  # of the sheets by their names, in order: visible, hidden or veryHidden
    parts: dict[str, str]  # where in the archive they are


@contextmanager
def _open(data: bytes) -> Iterator[_Book]:
    """The steps of openpyxl's own reader, less those that look into every sheet."""
    from openpyxl.reader.excel import ExcelReader  # here: it takes a quarter of a second, and a CSV needs none of it
    from openpyxl.styles.stylesheet import apply_stylesheet

    reader = ExcelReader(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    with reader.archive:
        reader.read_manifest()
        reader.read_strings()
        reader.read_workbook()
        apply_stylesheet(reader.archive, reader.wb)
        sheets = [(sheet, link) for sheet, link in reader.parser.find_sheets() if link.Type.endswith("/worksheet")]
        book = _Book(
            reader.archive,
            reader.shared_strings,
            reader.wb,
            {sheet.name: sheet.state for sheet, _ in sheets},
            {sheet.name: link.target for sheet, link in sheets},
        )
        if len(book.states) < len(sheets):
            raise _Damaged("two of its sheets have one name")
        yield book


def _choose(file: str, states: Mapping[str, str], sheet: str | None) -> tuple[str, list[Finding]]:
    """The sheet to read, and what is to be said of the choice: one that nobody sees is read if it is named."""
    if not states:
        stop("missing-sheet", "the workbook has no sheet of cells", _SAVE_AGAIN, file)
    seen = [name for name, state in states.items() if state == "visible"]
    if sheet is not None:
        if sheet not in states:
            close = difflib.get_close_matches(sheet, states, 1)
            hint = f"; did you mean '{close[0]}'" if close else ""
            message = f"there is no sheet '{sheet}' (the workbook has {listing(quoted(states), 12)}){hint}"
            stop("missing-sheet", message, f"Name one of these with {setting('sheet')}", file)
        if sheet in seen:
            return sheet, []
        message = f"the sheet '{sheet}' is hidden in the workbook, and was read as it was asked for"
        fix = "Show it in Excel (right-click on a sheet's name, Unhide), and check that it is the right one"
        return sheet, [Finding("warning", "hidden-sheet", message, fix, file)]
    if not seen:
        message = f"all sheets of the workbook are hidden ({listing(quoted(states), 8)})"
        stop("hidden-sheet", message, f"Name the one to read with {setting('sheet')}", file)
    before = list(states)[: list(states).index(seen[0])]
    if before:
        message = f"the sheet '{seen[0]}' was read, the first that is seen: {listing(quoted(before), 8)} before it "
        message += "is hidden" if len(before) == 1 else "are hidden"
        return seen[0], [Finding("warning", "hidden-sheet", message, _ANOTHER, file)]
    if len(states) > 1:
        message = f"the first sheet '{seen[0]}' was read, of {listing(quoted(states), 8)}"
        return seen[0], [Finding("note", "first-sheet", message, _ANOTHER, file)]
    return seen[0], []


def _read_sheet(book: _Book, name: str) -> _Sheet:
    """All cells of a sheet by their coordinates. What was read is forgotten at once, so that empty cells take no memory."""
    from openpyxl.utils.cell import range_boundaries
    from openpyxl.worksheet._reader import WorkSheetParser

    styles = book.styles
    formats = _formats(styles)
    sheet = _Sheet()
    unseen_rows = unseen_columns = False  # those of which nothing is said
    sized_columns: set[int] = set()
    with book.archive.open(book.parts[name]) as source:
        parser = WorkSheetParser(
            source, book.texts, True, styles.epoch, styles._date_formats, styles._timedelta_formats
        )
        opened: list[Element] = []
        parts = 0  # of the cell that is open
        for event, element in iterparse(source, ("start", "end")):
            tag = element.tag.removeprefix(_MAIN)
            if event == "start":
                opened.append(element)
                parts += bool(parts) or tag == "c"
                if parts > _MOST_PARTS:
                    raise _Damaged(f"a cell of row {parser.row_counter} has more than {_MOST_PARTS:,} parts")
                if tag == "row":
                    _begin_row(parser, element)
                    unsaid = element.get("ht") is None and element.get("hidden") is None
                    if _is_hidden(element, "ht") or (unseen_rows and unsaid):
                        sheet.hidden_rows.add(parser.row_counter)
                elif tag == "sheetFormatPr":
                    unseen_columns = _is_zero(element.get("defaultColWidth"))
                    unseen_rows = _flag(element, "zeroHeight") or _is_zero(element.get("defaultRowHeight"))
                elif tag == "mergeCell":
                    left, first, right, last = range_boundaries(element.attrib["ref"])
                    sheet.merged.append((first, last, left, right, sheet.cells.get(first, {}).get(left)))
                elif tag == "col":
                    some = range(int(element.attrib["min"]), min(int(element.attrib["max"]), _COLUMNS) + 1)
                    sized_columns.update(some)
                    if _is_hidden(element, "width"):
                        sheet.hidden_columns.update(some)
                continue
            opened.pop()
            if tag == "c":
                _add_cell(sheet, parser, element, formats)
                parts = 0
            if not parts and opened:
                opened[-1].clear()
    if unseen_columns:
        sheet.hidden_columns |= {place for cells in sheet.cells.values() for place in cells} - sized_columns
    return sheet


def _begin_row(parser: Any, row: Element) -> None:
    """Rows count up from the one before where they have no number of their own."""
    number = row.get("r")
    parser.row_counter = parser.row_counter + 1 if number is None else int(number)
    parser.col_counter = 0
    if not 1 <= parser.row_counter <= _ROWS:
        raise _Damaged(f"it has a row {number}")


def _add_cell(sheet: _Sheet, parser: Any, element: Element, formats: Mapping[int, str]) -> None:
    kind, text = element.get("t", "n"), element.findtext(f"{_MAIN}v")
    value: object
    if kind == "s" and text and not (text.isascii() and text.isdigit()):
        raise _Damaged(f"the cell {element.get('r')} has a text number {text[:20]}")
    if kind == "n" and text and "," in text:
        raise _Damaged(f"the cell {element.get('r')} has the number {text[:20]}")
    if kind == "n" and text and not _is_number(text):  # reported as a cell that is no number, with its row and column
        value = text
        element[:] = []
        cell = parser.parse_cell(element)
    else:
        formula = element.find(f"{_MAIN}f") is not None
        cell = parser.parse_cell(element)
        value = FORMULA if formula and cell["value"] is None else cell["value"]
        if isinstance(value, int | float) and not isinstance(value, bool) and cell["style_id"] in formats:
            value = _as_shown(value, formats[cell["style_id"]])
    place, row = cell["column"], parser.row_counter
    if cell["row"] != row or not 1 <= place <= _COLUMNS:
        raise _Damaged(f"the cell {element.get('r')} stands in row {row}")
    if is_blank(value):
        return
    cells = sheet.cells.setdefault(row, {})
    if place in cells:
        raise _Damaged(f"the cell {element.get('r') or f'{place} of row {row}'} is there twice")
    cells[place] = value


def _is_number(text: str) -> bool:
    """Whether a number means what it says, and is neither beyond all floating-point numbers nor below them."""
    if len(text) > 400 or not _NUMBER.fullmatch(text.strip()):
        return False
    value = float(text)
    return abs(value) < float("inf") and (value != 0 or not re.search("[1-9]", re.split("[eE]", text)[0]))


def _flag(element: Element, name: str) -> bool:
    return element.get(name, "0").strip().lower() in ("1", "true")


def _is_zero(size: str | None) -> bool:
    return size is not None and float(size) < _PIXEL


def _is_hidden(element: Element, size: str) -> bool:
    """A row or a column that is hidden, by hand, by a filter or by a folded group, or has no height or width."""
    return _flag(element, "hidden") or _is_zero(element.get(size))


def _formats(styles: Any) -> dict[int, str]:
    """The formats of the styles, by their numbers, that may show a number as something else."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS, BUILTIN_FORMATS_MAX_SIZE

    formats = {}
    for number, style in enumerate(styles._cell_styles):
        own = style.numFmtId - BUILTIN_FORMATS_MAX_SIZE
        code = BUILTIN_FORMATS.get(style.numFmtId, "") if own < 0 else styles._number_formats[own]
        if code and any(section.how or section.text for section in _sections(code)):
            formats[number] = code
    return formats


class _Section(NamedTuple):
    """One of the parts of a format, between semicolons."""

    when: tuple[str, float] | None  # as in [<0.05]
    how: str  # it shows a number as another one, or not at all
    text: str  # what it shows in place of a number, with a NUL where the number stands


def _as_shown(number: float, code: str) -> object:
    """A number as its Excel format shows it: the number, a text such as ``<0.05``, or `Shown` where that is another number.

    >>> [str(_as_shown(0.05, code)) for code in ("0.0", '"<"0.00', '[<0.1]"n.d.";0.0', "0.00%", "#,##0,", ";;;")]
    ['0.05', '<0.05', 'n.d.', '0.05 shown as per cent', '0.05 shown in thousands', '0.05 not shown']
    """
    sections = _sections(code)[:3]
    whens = [each.when for each in sections]
    if any(whens):
        of_rest = len(sections) - 1 - (len(sections) == 3 and whens[1] is None and number < 0)
        at = next((at for at, when in enumerate(whens) if when and _COMPARE[when[0]](number, when[1])), of_rest)
    else:
        at = 0 if len(sections) == 1 or number > 0 else 1 if number < 0 else 2 * (len(sections) > 2)
    _, how, text = sections[at]
    if how:
        return Shown(number, how)
    if not text or (number == 0 and text in ("-", "–", "—")):  # a dash for nothing, as in the formats for money
        return number
    digits = f"{abs(number):.15g}"
    digits += "0" * bool(re.search(r"\.\d{3}$", digits))  # so that nobody takes the point for a mark of thousands
    return ("-" if number < 0 and at == 0 else "") + text.replace("\0", digits)


@functools.cache
def _sections(code: str) -> tuple[_Section, ...]:
    """The sections of an Excel format; what is in quotation marks or behind a backslash is shown as it stands."""
    sections = []
    parts: list[list[tuple[str, ...]]] = [[]]
    for part in _FORMAT.findall(code):
        if part[-1] == ";":
            parts.append([])
        else:
            parts[-1].append(part)
    for each in parts:
        when = next(((found[1], float(found[2])) for p in each if (found := _WHEN.fullmatch(p[2]))), None)
        plain = "".join(rest for *_, rest in each)
        shown = "".join(quoted or escaped or (currency[1:].partition("-")[0] if currency[:1] == "$" else "") or
                        (rest if rest in _SIGNS else "\0" * bool(rest.strip()))
                        for quoted, escaped, currency, rest in each)  # fmt: skip
        text = re.sub("\0(?:.*\0)?", "\0", shown).strip()
        how = ""
        if not text:
            how = "not shown"
        elif "%" in plain:
            how = "shown as per cent"
        elif re.search(r"[0#?],+(?![0#?,])", plain):
            how = "shown in thousands"
        if how or ("\0" in text and not set(text) & set(_SIGNS)):
            text = ""
        sections.append(_Section(when, how, text))
    return tuple(sections)


def _hide(file: str, sheet: _Sheet, hidden: Hidden | None) -> list[Finding]:
    """Leave hidden rows and columns out, or count them, as was chosen; without a choice, ask."""
    rows = tuple(sorted(sheet.hidden_rows & sheet.cells.keys()))
    columns = sorted(sheet.hidden_columns & {place for cells in sheet.cells.values() for place in cells})
    sheet.hidden_rows = set(rows)
    if not rows and not columns:
        return []
    if hidden == "ignore":
        seen = {
            row: {place: cell for place, cell in cells.items() if place not in sheet.hidden_columns}
            for row, cells in sheet.cells.items()
            if row not in sheet.hidden_rows
        }
        sheet.cells = {row: cells for row, cells in seen.items() if cells}
    both: tuple[tuple[str, Sequence[int]], ...] = ("row", rows), ("column", columns)
    return [_hidden_finding(file, kind, what, hidden) for kind, what in both if what]


def _hidden_finding(file: str, kind: str, what: Sequence[int], hidden: Hidden | None) -> Finding:
    from openpyxl.utils import get_column_letter

    rows = tuple(what) if kind == "row" else ()
    some = f"{len(what)} {kind}{'s' if len(what) > 1 else ''}"
    if kind == "column":
        some += f" ({listing([get_column_letter(place) for place in what], 8)} in Excel)"
    are, them = ("are", "them") if len(what) > 1 else ("is", "it")
    if hidden is not None:
        done = "counted, as was asked" if hidden == "include" else "left out, as was asked"
        return Finding(
            "warning", f"hidden-{kind}s", f"{some} with values {are} hidden and {are} {done}", "", file, rows
        )
    why = ", by hand or by a filter" if kind == "row" else ""
    message = f"{some} with values {are} hidden in the sheet{why}: it cannot be known whether {them} should count"
    fix = (
        f"Show {them} or delete {them}; or count {them} with {setting('hidden', 'include')}, or leave {them} out with "
    )
    return Finding("error", f"hidden-{kind}s", message, fix + setting("hidden", "ignore"), file, rows)


def _require_room(file: str, rows: int, columns: int) -> None:
    """A few cells in far corners make a table of many that are empty."""
    size = rows * columns * _BYTES_OF_A_CELL
    if size > limit("TABLE_MB") * 1_000_000:
        message = (
            f"a table of {rows:,} rows and {columns:,} columns takes {size / 1e6:,.0f} MB; {limit_text('TABLE_MB')}"
        )
        stop("too-large", message, "Delete what stands beside or below the measurements", file)

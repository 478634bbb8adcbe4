"""Text files as columns of cells, before anybody decides what they mean: commas, semicolons or tabs between, in UTF-8 or
Windows-1252.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lindley.limits import limit, limit_text
from lindley.settings import setting
from lindley.shown import CONTROLS, from_text_cell, starts_formula
from lindley.table.cells import is_blank
from lindley.table.findings import Finding, TableError, listing, quoted, stop
from lindley.table.header import Row, find_header, header_place, take_units
from lindley.table.lookalikes import look_alikes, unmistakable

__all__ = ["Grid", "apostrophes", "build_grid", "read_delimited", "rows_of_text", "without_apostrophes"]

DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
_SAVE_UTF8 = "In Excel, choose Save As and 'CSV UTF-8 (Comma delimited)'; in an editor, save with encoding UTF-8"
_NUMBER_LIKE = re.compile(r"\s*[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?\s*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")

_HEAD = 200_000  # characters to detect the delimiter by
_ROWS = 50  # and rows
_NEARLY_ALL = 0.9  # of the rows: a few bad ones do not decide about the others
_PREFERRED = ("\t", ";", ",")  # a comma may stand in a name or a number, a tab hardly anywhere

_NOT_WINDOWS = re.compile(rb"[\x81-\x84\x86-\x90\x98-\x9f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
"""Letters of another code page, such as that of DOS or of the Mac, or of UTF-8 in the same file: nobody knows which it is."""

Record = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """The header and the cells under it, by column.

    A cell of a text file is a ``str``; one of a workbook or a data frame is whatever that holds: text, a number, a
    truth value, a date, ``None`` for a blank, `Shown` or `FORMULA`. ``delimiter`` is empty for a workbook.
    ``complete`` is false when rows were set aside because of an error: nothing is concluded from how many are
    left.
    """

    file: str
    header: tuple[str, ...]
    columns: tuple[Sequence[object], ...]
    rows: tuple[int, ...]  # the row number of each cell in a column
    delimiter: str
    complete: bool


def filled_rows(file: str, records: Sequence[Record], findings: list[Finding]) -> list[tuple[int, Record]]:
    """The records that are not blank, with the numbers of their rows; a note tells of the others."""
    blank = [all(is_blank(cell) for cell in record) for record in records]
    if any(blank):
        skipped = tuple(place + 1 for place, empty in enumerate(blank) if empty)
        findings.append(Finding("note", "empty-rows", "empty and skipped", file=file, rows=skipped))
    return [(place + 1, record) for place, record in enumerate(records) if not blank[place]]


def build_grid(
    file: str,
    header: Sequence[object],
    body: Sequence[Row],
    findings: list[Finding],
    *,
    places: Sequence[int] | None = None,
    header_row: int = 1,
    delimiter: str = "",
    complete: bool = True,
    columns: Sequence[Sequence[object]] | None = None,
) -> Grid:
    """Stand rows of equal length up as named columns, and add what is wrong with their names to the findings.

    ``places`` are the numbers of the columns, from 1, where some between them were empty. A table in memory has its
    header in row 0, no row of units under it, and ``columns`` in place of a body.

    Raises:
        TableError: with all findings, if there is no measurement in them, or too many columns.
    """
    if len(header) > limit("COLUMNS"):
        message = f"the table has {len(header):,} columns; {limit_text('COLUMNS')}"
        fix = "Give one row per measurement and one column per feature"
        raise TableError([*findings, Finding("error", "too-many-columns", message, fix, file)])
    if not (columns[0] if columns else body) and complete:
        message = "there is a header and no measurement under it"
        fix = "Add one row per measurement, or check that the right file or sheet was given"
        raise TableError([*findings, Finding("error", "empty-table", message, fix, file)])
    texts = [_name(cell) for cell in header]
    if delimiter:
        texts, taken_off = without_apostrophes(texts)
        findings += [] if not taken_off else [apostrophes(file, taken_off, (header_row,))]
    names = [" ".join(text.split()) for text in texts]
    places = range(1, len(names) + 1) if places is None else places
    findings += _odd_names(file, header_row, dict(zip(places, names, strict=True)))
    if header_row:
        names, of_units = take_units(file, header_row, names, body, findings)
        body = body[1:] if of_units else body
    rows = [row for row, _ in body] if columns is None else range(len(columns[0]))
    if columns is None:
        columns = list(zip(*(cells for _, cells in body), strict=True)) or [() for _ in names]
    kept = [at for at, name in enumerate(names) if name]
    unnamed = {places[at]: columns[at] for at, name in enumerate(names) if not name}
    findings += _unnamed(file, header_row, unnamed, rows)
    named = tuple(names[at] for at in kept)
    return Grid(file, named, tuple(columns[at] for at in kept), tuple(rows), delimiter, complete)


def without_apostrophes(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels of a text file as they were before they were made safe for a spreadsheet program, and which ones changed.

    Whoever makes labels safe does so with all of them: where one begins like a formula, an apostrophe in front of another is
    part of its name. So no two labels become one.
    """
    if any(starts_formula(text) for text in texts):
        return list(texts), []
    plain = [from_text_cell(text) for text in texts]
    return plain, list(dict.fromkeys(new for old, new in zip(texts, plain, strict=True) if old != new))


def apostrophes(file: str, labels: Sequence[str], rows: tuple[int, ...] = (), column: str | None = None) -> Finding:
    """A note on the apostrophes that were taken off."""
    message = f"an apostrophe that keeps spreadsheet programs from computing a label was taken off {listing(quoted(labels), 8)}"
    return Finding("note", "text-apostrophe", message, file=file, rows=rows, column=column)


def _name(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if is_blank(cell) else str(cell)


def _odd_names(file: str, header_row: int, names: Mapping[int, str]) -> list[Finding]:
    """Names that stand twice, that look alike, or that are no names."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in names.items():
        if name:
            places[name].append(place)
    findings = []
    for name, found in places.items():
        if len(found) > 1:
            message = f"{len(found)} columns have this name (columns {listing(found)} from the left)"
            fix = "Give each column its own name"
            findings.append(Finding("error", "duplicate-column", message, fix, file, (header_row,), name))
        if len(name) > limit("LETTERS"):
            message = f"the name of column {found[0]} has {len(name):,} letters ({quoted([name])[0]}); {limit_text('LETTERS')}"
            findings.append(Finding("error", "long-name", message, "Shorten it", file, (header_row,)))
        if CONTROLS.search(name):
            message = (
                f"the name of column {found[0]} holds control characters, which terminals obey: {unmistakable(name)}"
            )
            findings.append(Finding("error", "control-character", message, "Rename the column", file, (header_row,)))
    if twins := look_alikes(places):
        text = listing([" / ".join(map(unmistakable, group[:4])) for group in twins], 8)
        message = f"names of columns that look alike count as different ones: {text}"
        fix = "If they are one, write the name in one way and give the column once"
        findings.append(Finding("warning", "similar-columns", message, fix, file, (header_row,)))
    return findings


def _unnamed(file: str, header_row: int, columns: Mapping[int, Sequence[object]], rows: Sequence[int]) -> list[Finding]:
    """Columns without a name: an error where one holds values, and one note of all that are empty."""
    if not columns:
        return []
    from openpyxl.utils import get_column_letter  # loaded here: it takes a quarter of a second, and few tables need it

    findings, empty = [], []
    for place, cells in columns.items():
        where = f"column {place} from the left" + (f" ({get_column_letter(place)} in Excel)" if place <= 16_384 else "")
        filled = tuple(row for row, cell in zip(rows, cells, strict=True) if not is_blank(cell))
        if not filled:
            empty.append(where)
            continue
        message = f"{where} holds values but has no name in row {header_row}"
        fix = "Name it; if it is no measurement, such as a row number, delete it or name it and leave it out with "
        findings.append(Finding("error", "unnamed-column", message, fix + setting("ignore"), file, filled))
    if empty:
        have = "has no name and no values and was" if len(empty) == 1 else "have no name and no values and were"
        findings.append(Finding("note", "empty-column", f"{listing(empty)} {have} left out", file=file))
    return findings


def read_delimited(file: str, data: bytes, header_row: int | None = None) -> tuple[Grid, list[Finding]]:
    """The cells of a text file, and what is wrong with its rows; ``header_row`` is said, or found.

    Raises:
        TableError: if not even rows and columns can be told apart.
    """
    text, findings = _decode(file, data)
    first_line = text.lstrip().partition("\n")[0].strip()
    if not first_line:
        stop("empty-file", "the file is empty", "Export it again", file)
    if re.fullmatch(r'"?sep=.?"?', first_line, re.IGNORECASE):
        message = f"the first line '{first_line}' is an instruction to Excel, not a header"
        stop("sep-line", message, "Delete that line", file, (1,))
    delimiter = _detect_delimiter(text, header_row)
    filled = filled_rows(file, _records(file, text, delimiter or ","), findings)
    at = find_header(file, filled, header_row, findings)
    (row, header), body = filled[at], filled[at + 1 :]
    if delimiter is None:
        message = f"the header {quoted([' '.join(header)])[0]} is one single column"
        stop("one-column", message, "Separate the columns by commas, semicolons or tabs", file, (row,))
    # Only in a comma file can a row of another delimiter have the right length, by its decimal commas.
    suspicious = delimiter == "," and (";" in text or "\t" in text)
    good, misfits = _equal_lengths(file, header, body, delimiter, suspicious=suspicious)
    findings += misfits
    complete = len(good) == len(body)
    return build_grid(file, header, good, findings, header_row=row, delimiter=delimiter, complete=complete), findings


def rows_of_text(file: str, data: bytes, header_row: int | None = None) -> list[Row]:
    """Every row of a text file that is not blank, with its number, before anybody asks which is the header.

    Raises:
        TableError: if not even rows and columns can be told apart.
    """
    text, _ = _decode(file, data)
    return list(filled_rows(file, _records(file, text, _detect_delimiter(text, header_row) or ","), []))


def _decode(file: str, data: bytes) -> tuple[str, list[Finding]]:
    """The text of a file in UTF-8; or in Windows-1252, as Excel's plain CSV is, with a note, where it can be nothing else."""
    if data.startswith(b"PK\x03\x04"):
        message = "the content is that of an Excel workbook, not of a text file"
        stop("binary-file", message, "Give the file the ending .xlsx", file)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "the file is in UTF-16 ('Unicode Text' in Excel), not in UTF-8, from byte 0 on"
        stop("not-utf8", message, _SAVE_UTF8, file)
    if b"\x00" in data or data.startswith(b"\xd0\xcf\x11\xe0"):
        stop("binary-file", "the content is binary, not text", "Export the table as CSV UTF-8 or .xlsx", file)
    try:
        return data.decode("utf-8-sig").lstrip("\ufeff"), []  # more of these marks, where files were joined
    except UnicodeDecodeError as error:
        if not data.startswith(b"\xef\xbb\xbf") and not _NOT_WINDOWS.search(data):
            text = data.decode("cp1252")
            odd = "".join(dict.fromkeys(each for each in text if not each.isascii()))
            message = f"the file is not UTF-8, and was read as Windows-1252, with the letters {listing(list(odd), 12)}"
            fix = "If these are others in your file, save it as UTF-8"
            return text, [Finding("note", "windows-1252", message, fix, file)]
        # utf-8-sig counts from behind the byte-order mark
        position = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        row = len(re.findall(rb"\r\n|\r|\n", data[:position])) + 1
        stop("not-utf8", f"byte {position} (0x{data[position]:02x}) is not UTF-8 text", _SAVE_UTF8, file, (row,))


def _detect_delimiter(text: str, header_row: int | None) -> str | None:
    """The delimiter that splits the header, and nearly all rows into as many fields.

    If several do, as in ``source;Na, ppm`` above ``s0;1,5``, it is the one that leaves more numbers whole, then
    the one that stands first among tab, semicolon, comma. Where the first row is not such a header, it may be a title: then
    it is the one that splits the rows below into a header and numbers.
    """
    rows = {delimiter: _first_rows(text, delimiter, header_row or 1) for delimiter in _PREFERRED}
    chosen, fitting = _best_delimiter(rows)
    if header_row is not None or fitting >= _NEARLY_ALL:
        return chosen
    places = {delimiter: header_place(some, sure=chosen is not None) for delimiter, some in rows.items()}
    below = {delimiter: some[places[delimiter] :] if places[delimiter] else [] for delimiter, some in rows.items()}
    return _best_delimiter(below)[0] or chosen


def _best_delimiter(rows: Mapping[str, Sequence[Record]]) -> tuple[str | None, float]:
    """By the rows that each delimiter makes, the first of them the header: the best, and the share of rows that fit."""
    best: tuple[float, float] | None = None
    chosen = None
    for delimiter in _PREFERRED:
        header, *body = rows[delimiter] or [()]
        if len(header) < 2:
            continue
        fitting = sum(_fits(record, len(header)) for record in body) / max(len(body), 1)
        numbers = sum(map(_numbers_in, body)) / max(sum(map(len, body)), 1)
        if best is None or (min(fitting, _NEARLY_ALL), numbers) > best:
            best, chosen = (min(fitting, _NEARLY_ALL), numbers), delimiter
    return chosen, 0.0 if best is None else best[0]


def _first_rows(text: str, delimiter: str, start: int) -> list[Record]:
    """The first rows, from this one on, that are not blank; fewer where one does not read, which is told when all are read."""
    rows: list[Record] = []
    with suppress(csv.Error):
        for row, fields in enumerate(csv.reader(io.StringIO(text[:_HEAD], newline=""), delimiter=delimiter), 1):
            record = tuple(fields)
            if row >= start and any(field.strip() for field in record):
                rows.append(record)
            if len(rows) > _ROWS:
                break
    return rows


def _fits(record: Record, width: int) -> bool:
    """Whether a row has as many fields as the header, not counting empty ones behind the last column."""
    return len(record) == width or (len(record) > width and not "".join(record[width:]).strip())


def _records(file: str, text: str, delimiter: str) -> list[Record]:
    records: list[Record] = []
    try:
        # tuples of text, unlike lists, are not looked at again and again by Python's garbage collector
        records.extend(map(tuple, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)))
    except csv.Error as error:
        message = f"the quotation marks do not pair up ({error})"
        if "field limit" in str(error):
            message = (
                f"a cell has more than {csv.field_size_limit():,} letters, as if a quotation mark were never closed"
            )
        fix = 'Close every opened quotation mark, and double those inside a quoted text ("")'
        stop("broken-quotes", message, fix, file, (len(records) + 1,))
    return records


def _equal_lengths(
    file: str, header: Record, body: Sequence[tuple[int, Record]], delimiter: str, *, suspicious: bool
) -> tuple[list[tuple[int, Record]], list[Finding]]:
    """Set aside the rows that do not fit the header, and say why for each kind of misfit."""
    width = len(header)
    good: list[tuple[int, Record]] = []
    trimmed: list[int] = []
    mixed: dict[str, list[int]] = {}
    split: list[int] = []
    misfit: dict[int, list[int]] = {}
    others = [other for other in DELIMITER_NAMES if other != delimiter]
    for row, record in body:
        fits = _fits(record, width)
        doubtful = not fits or (suspicious and len(record) == width)
        other = _other_delimiter(record, width, delimiter, others) if doubtful else None
        if other is not None:
            mixed.setdefault(other, []).append(row)
        elif fits:
            good.append((row, record if len(record) == width else record[:width]))
            if len(record) > width:
                trimmed.append(row)
        elif delimiter == "," and _split_decimals(record, width):
            split.append(row)
        else:
            misfit.setdefault(len(record), []).append(row)
    findings = []
    for other, rows in mixed.items():
        here, there = DELIMITER_NAMES[other], DELIMITER_NAMES[delimiter]
        message = f"the header has {there}s between the columns, here there are {here}s"
        fix = "Save the whole file with one separator"
        findings.append(Finding("error", "mixed-delimiters", message, fix, file, tuple(rows)))
    if split:
        message = f"more fields than the {width} of the header: decimal commas seem to split numbers in two"
        fix = "Save with semicolons between the columns, or with decimal points"
        findings.append(Finding("error", "split-decimal-comma", message, fix, file, tuple(split)))
    for length, rows in misfit.items():
        message = f"{length} field{'s' if length > 1 else ''} where the header has {width}"
        fix = "Give one field per column, and quote a text that holds the separator"
        if len(rows) == len(body) and length == width + 1:
            fix = "If the first column holds row names, as R writes them, give it a name in the header"
        findings.append(Finding("error", "field-count", message, fix, file, tuple(rows)))
    if trimmed:
        message = f"empty fields beyond the last of the {width} columns were left out"
        findings.append(Finding("note", "trailing-delimiters", message, file=file, rows=tuple(trimmed)))
    return good, findings


def _other_delimiter(record: Record, width: int, delimiter: str, others: Sequence[str]) -> str | None:
    line = delimiter.join(record)
    for other in others:
        if other not in line:
            continue
        try:
            fields = next(csv.reader(io.StringIO(line, newline=""), delimiter=other))
        except csv.Error:  # a quotation mark or a line end inside a field, read with the wrong delimiter
            continue
        if len(record) != width and (len(record) == 1 or len(fields) == width):
            return other
        if len(record) == width == len(fields) and _numbers_in(fields) > _numbers_in(record):
            return other
    return None


def _numbers_in(fields: Sequence[str]) -> int:
    return sum(_NUMBER_LIKE.fullmatch(field) is not None for field in fields)


def _split_decimals(record: Record, width: int) -> bool:
    """Whether at least every extra field can be the digits behind a comma, and no number has a point."""
    whole = [_WHOLE.fullmatch(field) is not None for field in record]
    pairs = sum(a and b for a, b in itertools.pairwise(whole))
    return pairs >= len(record) - width > 0 and not any("." in field for field in record[1:])

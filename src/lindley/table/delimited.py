"""Read CSV and its relatives: comma, semicolon or tab between the columns, UTF-8."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Sequence

from lindley.table.findings import Finding, quoted
from lindley.table.grid import Grid, build_grid

__all__ = ["DELIMITER_NAMES", "read_delimited"]

DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
_SAVE_UTF8 = "In Excel, choose Save As and 'CSV UTF-8 (Comma delimited)'; in an editor, save with encoding UTF-8"
_NUMBER_LIKE = re.compile(r"\s*[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?\s*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")

_HEAD = 200_000  # characters to detect the delimiter by
_ROWS = 50  # and rows
_NEARLY_ALL = 0.9  # of the rows: a few bad ones do not decide about the others
_PREFERRED = ("\t", ";", ",")  # a comma may stand in a name or a number, a tab hardly anywhere

Record = list[str]


def read_delimited(file: str, data: bytes) -> tuple[Grid | None, list[Finding]]:
    """The cells of a text file; ``None`` with an error when not even rows and columns can be told apart."""
    text, problem = _decode(file, data)
    if problem is not None:
        return None, [problem]
    first_line = text.lstrip().partition("\n")[0].strip()
    if not first_line:
        return None, [Finding("error", "empty-file", "the file is empty", "Export it again", file)]
    if re.fullmatch(r'"?sep=.?"?', first_line, re.IGNORECASE):
        message = f"the first line '{first_line}' is an instruction to Excel, not a header"
        return None, [Finding("error", "sep-line", message, "Delete that line", file, (1,))]
    delimiter = _detect_delimiter(text)
    if delimiter is None:
        message = f"the header {quoted([first_line])[0]} is one single column"
        fix = "Separate the columns by commas, semicolons or tabs"
        return None, [Finding("error", "one-column", message, fix, file, (1,))]
    records, problem = _records(file, text, delimiter)
    if problem is not None:
        return None, [problem]
    findings: list[Finding] = []
    blank = [not "".join(record).strip() for record in records]
    start = blank.index(False)
    header = records[start]
    if any(blank):
        skipped = tuple(place + 1 for place, empty in enumerate(blank) if empty)
        findings.append(Finding("note", "empty-rows", "empty and skipped", file=file, rows=skipped))
    body = [(place + 1, records[place]) for place in range(start + 1, len(records)) if not blank[place]]
    # Only in a comma file can a row of another delimiter have the right length, by its decimal commas.
    suspicious = delimiter == "," and (";" in text or "\t" in text)
    good, row_findings = _equal_lengths(file, header, body, delimiter, suspicious=suspicious)
    grid, grid_findings = build_grid(
        file,
        header,
        [record for _, record in good],
        [row for row, _ in good],
        header_row=start + 1,
        delimiter=delimiter,
        complete=len(good) == len(body),
    )
    return grid, findings + row_findings + grid_findings


def _decode(file: str, data: bytes) -> tuple[str, Finding | None]:
    if data.startswith(b"PK\x03\x04"):
        message = "the content is that of an Excel workbook, not of a text file"
        return "", Finding("error", "binary-file", message, "Give the file the ending .xlsx", file)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "the file is in UTF-16 ('Unicode Text' in Excel), not in UTF-8, from byte 0 on"
        return "", Finding("error", "not-utf8", message, _SAVE_UTF8, file)
    if b"\x00" in data or data.startswith(b"\xd0\xcf\x11\xe0"):
        message = "the content is binary, not text"
        return "", Finding("error", "binary-file", message, "Export the table as CSV UTF-8 or .xlsx", file)
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte-order mark
        position = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        row = len(re.findall(rb"\r\n|\r|\n", data[:position])) + 1
        message = f"byte {position} (0x{data[position]:02x}) is not UTF-8 text"
        return "", Finding("error", "not-utf8", message, _SAVE_UTF8, file, (row,))


def _detect_delimiter(text: str) -> str | None:
    """The delimiter that splits the header, and nearly all rows into as many fields.

    If several do, as in ``source;Na, ppm`` above ``s0;1,5``, it is the one that leaves more numbers whole, then
    the one that stands first among tab, semicolon, comma.
    """
    best: tuple[float, float] | None = None
    chosen = None
    for delimiter in _PREFERRED:
        reader = csv.reader(io.StringIO(text[:_HEAD], newline=""), delimiter=delimiter)
        filled = (record for record in reader if any(field.strip() for field in record))
        try:
            header, *rows = itertools.islice(filled, _ROWS + 1)
        except (csv.Error, ValueError):  # no row at all
            continue
        if len(header) == 1:
            continue
        fitting = sum(_fits(record, len(header)) for record in rows) / max(len(rows), 1)
        numbers = sum(map(_numbers_in, rows)) / max(sum(map(len, rows)), 1)
        if best is None or (min(fitting, _NEARLY_ALL), numbers) > best:
            best, chosen = (min(fitting, _NEARLY_ALL), numbers), delimiter
    return chosen


def _fits(record: Record, width: int) -> bool:
    """Whether a row has as many fields as the header, not counting empty ones behind the last column."""
    return len(record) == width or (len(record) > width and not "".join(record[width:]).strip())


def _records(file: str, text: str, delimiter: str) -> tuple[list[Record], Finding | None]:
    records: list[Record] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        records.extend(reader)
    except csv.Error as error:
        message = f"the quotation marks do not pair up ({error})"
        fix = 'Close every opened quotation mark, and double those inside a quoted text ("")'
        return records, Finding("error", "broken-quotes", message, fix, file, (len(records) + 1,))
    return records, None


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
        if len(record) == width:
            other = _other_delimiter(record, width, delimiter, others) if suspicious else None
            if other is None:
                good.append((row, record))
            else:
                mixed.setdefault(other, []).append(row)
        elif _fits(record, width):
            good.append((row, record[:width]))
            trimmed.append(row)
        elif (other := _other_delimiter(record, width, delimiter, others)) is not None:
            mixed.setdefault(other, []).append(row)
        elif delimiter == "," and _split_decimals(record, width):
            split.append(row)
        else:
            misfit.setdefault(len(record), []).append(row)
    findings = []
    for other, rows in mixed.items():
        message = (
            f"the header has {DELIMITER_NAMES[delimiter]}s between the columns, "
            f"here there are {DELIMITER_NAMES[other]}s"
        )
        fix = "Save the whole file with one separator"
        findings.append(Finding("error", "mixed-delimiters", message, fix, file, tuple(rows)))
    if split:
        message = f"more fields than the {width} of the header: decimal commas seem to split numbers in two"
        fix = "Save with semicolons between the columns, or with decimal points"
        findings.append(Finding("error", "split-decimal-comma", message, fix, file, tuple(split)))
    for length, rows in misfit.items():
        findings.append(_misfit(file, length, width, rows, everywhere=len(rows) == len(body)))
    if trimmed:
        message = f"empty fields beyond the last of the {width} columns were left out"
        findings.append(Finding("note", "trailing-delimiters", message, file=file, rows=tuple(trimmed)))
    return good, findings


def _misfit(file: str, length: int, width: int, rows: Sequence[int], everywhere: bool) -> Finding:
    message = f"{length} field{'s' if length > 1 else ''} where the header has {width}"
    fix = "Give one field per column, and quote a text that holds the separator"
    if everywhere and length == width + 1:
        fix = "If the first column holds row names, as R writes them, give it a name in the header"
    return Finding("error", "field-count", message, fix, file, tuple(rows))


def _other_delimiter(record: Record, width: int, delimiter: str, others: Sequence[str]) -> str | None:
    line = delimiter.join(record)
    for other in others:
        if other not in line:
            continue
        fields = next(csv.reader([line], delimiter=other))
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

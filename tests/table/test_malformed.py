"""Tables as they come on bad days: of each the reader must say what is wrong, where, and how to mend it.

A good table has 8 sources × 3 instances and the features K39 and Ti49; row 1 is the header, source S1 is in
rows 2 to 4, S2 in rows 5 to 7 and so on. Each case spoils it in one way, or in several.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lindley.settings import speaking
from lindley.table import Finding, TableError, examine_table, exit_status, read_table

Row = list[Any]


@pytest.fixture(autouse=True)
def on_the_command_line() -> Iterator[None]:
    """Findings name options of the command, as ``lindley check`` shows them."""
    with speaking("shell"):
        yield


def good() -> list[Row]:
    """The header and 24 rows; no two values are alike, and all are positive."""
    rows: list[Row] = [["source", "instance", "K39", "Ti49"]]
    for s in range(8):
        for i in range(3):
            rows.append([f"S{s + 1}", str(i + 1), f"{2 + 0.31 * s + 0.017 * i:.3f}", f"{5 - 0.2 * s + 0.013 * i:.3f}"])
    return rows


def csv_bytes(rows: list[Row], delimiter: str = ",") -> bytes:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows).encode()


def xlsx_bytes(rows: list[Row], sheets: tuple[str, ...] = ("Sheet1",)) -> bytes:
    book = openpyxl.Workbook()
    book.active.title = sheets[0]
    for title in sheets[1:]:
        book.create_sheet(title)
    for row in rows:
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def typed() -> list[Row]:
    """The good table as Excel holds it: numbers as numbers."""
    head, *rows = good()
    return [head, *([s, int(i), float(k), float(t)] for s, i, k, t in rows)]


def put(row: int, column: int, value: Any) -> Callable[[list[Row]], list[Row]]:
    """Set one cell; ``row`` as the user counts it, ``column`` from 0."""

    def spoil(rows: list[Row]) -> list[Row]:
        rows[row - 1][column] = value
        return rows

    return spoil


def spoilt(*changes: Callable[[list[Row]], list[Row]], rows: list[Row] | None = None) -> list[Row]:
    table = good() if rows is None else rows
    for change in changes:
        table = change(table)
    return table


def decimal_commas(rows: list[Row]) -> list[Row]:
    return [rows[0], *([s, i, k.replace(".", ","), t.replace(".", ",")] for s, i, k, t in rows[1:])]


def with_column(name: str, values: Callable[[int, Row], Any]) -> Callable[[list[Row]], list[Row]]:
    def spoil(rows: list[Row]) -> list[Row]:
        return [[*rows[0], name], *([*row, values(place, row)] for place, row in enumerate(rows[1:]))]

    return spoil


@dataclass
class Case:
    """A file, how it is read, and the finding that it must give."""

    id: str
    code: str
    data: bytes
    parts: tuple[str, ...]  # of the rendered finding
    rows: tuple[int, ...] | None = None
    column: str | None = None
    level: str = "error"
    file: str = "glass.csv"
    options: dict[str, Any] = field(default_factory=dict)


LOG = {"transform": "log10"}
CASES = [
    # files
    Case("empty", "empty-file", b"", ("glass.csv", "empty")),
    Case("only a byte-order mark", "empty-file", b"\xef\xbb\xbf", ("empty",)),
    Case("only line ends", "empty-file", b"\r\n\r\n", ("empty",)),
    Case("only a header", "empty-table", csv_bytes(good()[:1]), ("no measurement", "one row per measurement")),
    Case("header and blank rows", "empty-table", csv_bytes(good()[:1]) + b",,,\n\n", ("no measurement",)),
    Case("old xls", "unread-format", b"\xd0\xcf\x11\xe0rest", (".xls", "save it as .xlsx"), file="glass.xls"),
    Case("open document", "unread-format", b"PK\x03\x04", (".ods", "CSV UTF-8"), file="glass.ods"),
    Case("unknown ending", "unknown-ending", b"a,b\n", ("'.dat'", ".csv", ".xlsx"), file="glass.dat"),
    Case("no ending", "unknown-ending", b"a,b\n", ("no ending", ".csv"), file="glass"),
    Case("binary csv", "binary-file", b"\x89PNG\r\n\x00\x01", ("binary", "CSV UTF-8")),
    Case("workbook named csv", "binary-file", xlsx_bytes(typed()), ("Excel workbook", "ending .xlsx")),
    Case(
        "the code page of DOS",
        "not-utf8",
        csv_bytes(good()).replace(b"S2", "Süd".encode("cp850"), 1),
        ("row 5", "byte 77 (0x81)", "UTF-8", "Save As"),
        (5,),
    ),
    Case(
        "latin-1 behind a byte-order mark",
        "not-utf8",
        b"\xef\xbb\xbf" + csv_bytes(good()).replace(b"S2", "Süd".encode("latin-1"), 1),
        ("byte 80 (0xfc)",),
        (5,),
    ),
    Case("utf-16", "not-utf8", csv_bytes(good()).decode().encode("utf-16"), ("UTF-16", "CSV UTF-8")),
    Case(
        "corrupt xlsx",
        "corrupt-workbook",
        b"PK\x03\x04 cut short",
        ("damaged", "save it again"),
        file="glass.xlsx",
    ),
    Case("truncated xlsx", "corrupt-workbook", xlsx_bytes(typed())[:2000], ("damaged",), file="glass.xlsx"),
    Case(
        "text named xlsx",
        "corrupt-workbook",
        csv_bytes(good()),
        ("not that of an Excel", ".csv"),
        file="glass.xlsx",
    ),
    Case("xls named xlsx", "corrupt-workbook", b"\xd0\xcf\x11\xe0", ("old .xls", "password"), file="glass.xlsx"),
    Case(
        "no such sheet",
        "missing-sheet",
        xlsx_bytes(typed(), ("Data", "Notes")),
        ("no sheet 'data'", "'Data' and 'Notes'", "--sheet"),
        file="glass.xlsx",
        options={"sheet": "data"},
    ),
    Case("empty sheet", "empty-file", xlsx_bytes([]), ("'Sheet1' is empty", "--sheet"), file="glass.xlsx"),
    # rows and separators
    Case("one column", "one-column", b"source|K39\nA|1\n", ("single column", "semicolons"), (1,)),
    Case("sep line", "sep-line", b"sep=;\n" + csv_bytes(good(), ";"), ("'sep=;'", "Delete that line"), (1,)),
    Case(
        "semicolon rows in a comma file",
        "mixed-delimiters",
        csv_bytes(good()[:10]) + csv_bytes(good()[10:12], ";") + csv_bytes(good()[12:]),
        ("rows 11 and 12", "commas between", "semicolons", "one separator"),
        (11, 12),
    ),
    Case(
        "tab row in a semicolon file",
        "mixed-delimiters",
        csv_bytes(good()[:20], ";") + csv_bytes(good()[20:21], "\t") + csv_bytes(good()[21:], ";"),
        ("row 21", "semicolons between", "tabs"),
        (21,),
        options={"decimal": "."},
    ),
    Case(
        "semicolon rows that have the right length by their decimal commas",
        "mixed-delimiters",
        b"source,K39,Ti49\n" + b"".join(b"S%d;1,%d;2,%d\n" % (s // 2, s, s) for s in range(14)),
        ("rows 2, 3, 4 and 11 more", "semicolons"),
        tuple(range(2, 16)),
    ),
    Case(
        "short row",
        "field-count",
        csv_bytes([*good(), ["S9", "1", "2.5"]]),
        ("row 26", "3 fields", "has 4"),
        (26,),
    ),
    Case(
        "long row",
        "field-count",
        csv_bytes([*good(), ["S9", "1", "2.5", "3.1", "note"]]),
        ("row 26", "5 fields", "has 4", "quote"),
        (26,),
    ),
    Case(
        "row names of R without a header",
        "field-count",
        csv_bytes([good()[0], *([f"r{n}", *row] for n, row in enumerate(good()[1:]))]),
        ("rows 2, 3, 4 and 21 more", "row names"),
        tuple(range(2, 26)),
    ),
    Case(
        "decimal commas between commas",
        "split-decimal-comma",
        csv_bytes(decimal_commas(good())),
        ("rows 2, 3, 4 and 21 more", "decimal commas", "semicolons"),
        tuple(range(2, 26)),
    ),
    Case(
        "open quotation mark",
        "broken-quotes",
        csv_bytes(spoilt(put(9, 0, '"S3'))),
        ("row 9", "quotation mark"),
        (9,),
    ),
    # columns
    Case("no source", "missing-column", csv_bytes(spoilt(put(1, 0, "pane"))), ("'pane'", "--source-column")),
    Case(
        "no header",
        "missing-column",
        csv_bytes([row[1:] for row in good()[1:]]),
        ("no column is named 'source'", "no header", "--source-column"),
    ),
    Case(
        "misspelt source",
        "missing-column",
        csv_bytes(spoilt(put(1, 0, "Item"))),
        ("no column 'Itm'", "--source-column", "Did you mean 'Item'?"),
        options={"source": "Itm"},
    ),
    Case(
        "feature in other capitals",
        "missing-column",
        csv_bytes(good()),
        ("no column 'k39'", "--include-columns", "Did you mean 'K39'?"),
        options={"include": ("k39",)},
    ),
    Case(
        "unknown ignored column",
        "missing-column",
        csv_bytes(good()),
        ("no column 'colour'", "--ignore-columns", "'K39' and 'Ti49'"),
        options={"ignore": ("colour",)},
    ),
    Case(
        "unknown reference",
        "missing-column",
        csv_bytes(good()),
        ("no column 'Si28'", "reference"),
        options={"transform": "ln", "reference": "Si28"},
    ),
    Case(
        "source is also ignored",
        "column-used-twice",
        csv_bytes(good()),
        ("source and ignored",),
        column="source",
        options={"source": "source", "ignore": ("source",)},
    ),
    Case(
        "two sources by capitals",
        "ambiguous-column",
        csv_bytes(spoilt(with_column("Source", lambda n, row: n * n * 0.1))),
        ("'source' and 'Source'", "--source-column"),
    ),
    Case(
        "no feature",
        "no-feature",
        csv_bytes([row[:2] for row in good()]),
        ("no column is left as a feature", "'instance'"),
    ),
    Case(
        "duplicated column",
        "duplicate-column",
        csv_bytes(spoilt(put(1, 3, "K39"))),
        ("column 'K39'", "columns 3 and 4 from the left", "own name"),
        (1,),
        "K39",
    ),
    Case(
        "unnamed column with values",
        "unnamed-column",
        csv_bytes(spoilt(put(1, 3, ""))),
        ("column 4 from the left (D in Excel)", "no name in row 1", "--ignore-columns"),
        tuple(range(2, 26)),
    ),
    # labels
    Case(
        "empty source",
        "empty-source",
        csv_bytes(spoilt(put(7, 0, "  "))),
        ("row 7", "empty", "merged"),
        (7,),
        "source",
    ),
    Case(
        "empty group",
        "empty-group",
        csv_bytes(spoilt(with_column("group", lambda n, row: "" if n == 4 else row[0]))),
        ("row 6", "group is empty"),
        (6,),
        "group",
    ),
    Case(
        "empty instance",
        "empty-instance",
        csv_bytes(spoilt(put(7, 1, ""))),
        ("row 7", "--ignore-columns"),
        (7,),
        "instance",
    ),
    Case(
        "source in two groups",
        "source-in-two-groups",
        csv_bytes(spoilt(with_column("group", lambda n, row: "car 9" if n == 4 else row[0]))),
        ("'S2' ('S2' in row 5, 'car 9' in row 6)", "one group"),
        (6,),
        "group",
    ),
    Case(
        "instance twice",
        "repeated-instance",
        csv_bytes(spoilt(put(4, 1, "1"))),
        ("instance '1' of source 'S1' (rows 2 and 4)", "own label"),
        (4,),
        "instance",
    ),
    # numbers
    Case(
        "text in a number",
        "not-a-number",
        csv_bytes(spoilt(put(14, 2, "n.d."))),
        (
            "glass.csv, row 14, column 'K39': 'n.d.' is not a number. "
            "Give a number, or leave the column out with --ignore-columns K39.",
        ),
        (14,),
        "K39",
    ),
    Case(
        "different texts",
        "not-a-number",
        csv_bytes(spoilt(put(3, 2, "little"), put(4, 2, "NA"))),
        ("rows 3 and 4", "'little' and 'NA' are not numbers"),
        (3, 4),
        "K39",
    ),
    Case(
        "underscores are no thousands",
        "not-a-number",
        csv_bytes(spoilt(put(3, 2, "1_000"))),
        ("'1_000' is not a number",),
        (3,),
        "K39",
    ),
    Case(
        "a column of text",
        "not-a-number",
        csv_bytes(spoilt(with_column("lab colour", lambda n, row: "green"))),
        ("rows 2, 3, 4 and 21 more", "'green'", '--ignore-columns "lab colour"'),
        tuple(range(2, 26)),
        "lab colour",
    ),
    Case("blank cell", "missing-value", csv_bytes(spoilt(put(9, 3, " "))), ("row 9", "empty"), (9,), "Ti49"),
    Case(
        "empty column",
        "missing-value",
        csv_bytes(spoilt(with_column("Pb208", lambda n, row: ""))),
        ("no values", "--ignore-columns Pb208"),
        tuple(range(2, 26)),
        "Pb208",
    ),
    Case("nan", "not-finite", csv_bytes(spoilt(put(9, 3, "NaN"))), ("row 9", "'NaN'", "finite"), (9,), "Ti49"),
    Case("inf", "not-finite", csv_bytes(spoilt(put(9, 3, "-inf"))), ("row 9", "'-inf'"), (9,), "Ti49"),
    Case("overflow", "not-finite", csv_bytes(spoilt(put(9, 3, "1e999"))), ("row 9", "'1e999'"), (9,), "Ti49"),
    Case(
        "mixed decimal marks",
        "mixed-decimal-marks",
        csv_bytes(spoilt(put(6, 2, "2,5")), ";"),
        ("row 6", "decimal comma ('2,5')", "row 2, column 'K39' has '2.000'", "decimal point throughout"),
        (6,),
        "K39",
    ),
    Case(
        "mixed decimal marks, commas the rule",
        "mixed-decimal-marks",
        csv_bytes(spoilt(decimal_commas, put(6, 3, "2.5")), "\t"),
        ("row 6", "decimal point ('2.5')", "decimal comma throughout"),
        (6,),
        "Ti49",
    ),
    Case(
        "thousands, German",
        "thousands-mark",
        csv_bytes(spoilt(decimal_commas, put(6, 2, "1.234,56")), ";"),
        ("row 6", "'1.234,56'", "1000 Separator"),
        (6,),
        "K39",
    ),
    Case(
        "thousands, English",
        "thousands-mark",
        csv_bytes(spoilt(put(6, 2, '"1,234.56"'))),
        ("row 6", "'1,234.56'"),
        (6,),
        "K39",
    ),
    Case(
        "thousands, with a space",
        "thousands-mark",
        csv_bytes(spoilt(put(6, 2, "1\u00a0234.5"))),
        ("row 6", "1234.56"),
        (6,),
        "K39",
    ),
    Case(
        "a comma that could be either",
        "ambiguous-mark",
        csv_bytes(
            [
                good()[0],
                *([s, i, f'"{n + 1},{n:03d}"', n % 7 + n] for n, (s, i, _, _) in enumerate(good()[1:])),
            ]
        ),
        ("row 2", "'1,000' could be 1.000 or 1000", '--decimal ","', "without thousands marks"),
        (2,),
        "K39",
    ),
    Case(
        "a comma that semicolons do not explain",
        "ambiguous-mark",
        csv_bytes(
            [
                good()[0],
                *([s, i, f"{n + 1},{n:03d}", n % 7 + n] for n, (s, i, _, _) in enumerate(good()[1:])),
            ],
            ";",
        ),
        ("row 2", "'1,000' could be 1.000 or 1000", '--decimal ","', "without thousands marks"),
        (2,),
        "K39",
    ),
    Case(
        "zero before a log",
        "non-positive",
        csv_bytes(spoilt(put(5, 2, "0"))),
        ("row 5", "0 is not", "log10"),
        (5,),
        "K39",
        options=LOG,
    ),
    Case(
        "negative before a log",
        "non-positive",
        csv_bytes(spoilt(put(5, 2, "-1"), put(8, 2, "-2"))),
        ("rows 5 and 8", "-1 and -2 are not positive", "logs already"),
        (5, 8),
        "K39",
        options=LOG,
    ),
    Case(
        "reference of zero",
        "non-positive",
        csv_bytes(spoilt(put(5, 3, "0"))),
        ("row 5", "divided by it"),
        (5,),
        "Ti49",
        options={"transform": "ln", "reference": "Ti49"},
    ),
    # workbooks
    Case(
        "excel error",
        "excel-error",
        xlsx_bytes(spoilt(put(5, 2, "#DIV/0!"), rows=typed())),
        ("row 5", "'#DIV/0!'", "Mend the formula"),
        (5,),
        "K39",
        file="glass.xlsx",
    ),
    Case(
        "excel date",
        "date-in-number",
        xlsx_bytes(spoilt(put(5, 2, datetime.date(2024, 2, 1)), rows=typed())),
        ("row 5", "2024-02-01", "Number"),
        (5,),
        "K39",
        file="glass.xlsx",
    ),
    Case(
        "excel formula never calculated",
        "formula-without-value",
        xlsx_bytes(spoilt(put(5, 2, "=C4*2"), rows=typed())),
        ("row 5", "never calculated", "Open the workbook in Excel"),
        (5,),
        "K39",
        file="glass.xlsx",
    ),
    Case(
        "excel blank",
        "missing-value",
        xlsx_bytes(spoilt(put(5, 3, None), rows=typed())),
        ("glass.xlsx, row 5", "empty"),
        (5,),
        "Ti49",
        file="glass.xlsx",
    ),
    Case(
        "excel truth value",
        "not-a-number",
        xlsx_bytes(spoilt(put(5, 3, True), rows=typed())),
        ("row 5", "'True'"),
        (5,),
        "Ti49",
        file="glass.xlsx",
    ),
    Case(
        "excel merged source",
        "empty-source",
        xlsx_bytes(spoilt(put(3, 0, None), put(4, 0, None), rows=typed())),
        ("rows 3 and 4", "merged cells"),
        (3, 4),
        "source",
        file="glass.xlsx",
    ),
    Case(
        "excel label made a date",
        "date-label",
        xlsx_bytes(spoilt(put(5, 0, datetime.date(2024, 2, 1)), rows=typed())),
        ("row 5", "1-2", "format Text"),
        (5,),
        "source",
        "warning",
        file="glass.xlsx",
    ),
    # the table as a whole
    Case(
        "values too large to square",
        "value-range",
        csv_bytes(spoilt(with_column("Pb208", lambda n, row: f"{n + 1}e200"))),
        ("rows 2, 3, 4 and 21 more", "1e+200 is so large", "another unit", "--ignore-columns Pb208"),
        tuple(range(2, 26)),
        "Pb208",
    ),
    Case(
        "values too small to square",
        "value-range",
        csv_bytes(spoilt(with_column("Pb208", lambda n, row: f"{n + 1}e-200"))),
        ("differ by 2.3e-199", "so small", "another unit"),
        (),
        "Pb208",
    ),
    Case(
        "merged sources, nearly all",
        "empty-source",
        xlsx_bytes([typed()[0], *([row[0] if n == 0 else None, None, *row[2:]] for n, row in enumerate(typed()[1:]))]),
        ("merged cells",),
        tuple(range(3, 26)),
        "source",
        file="glass.xlsx",
        options={"ignore": ("instance",)},
    ),
    Case(
        "excel errors as sources",
        "excel-error",
        xlsx_bytes(spoilt(*(put(row, 0, "#REF!") for row in range(4, 26)), rows=[[r[0], *r[2:]] for r in typed()])),
        ("error of an Excel formula",),
        tuple(range(4, 26)),
        "source",
        file="glass.xlsx",
    ),
    Case(
        "constant feature",
        "constant-feature",
        csv_bytes(spoilt(with_column("Si28", lambda n, row: "33.7"))),
        ("column 'Si28'", "constant (33.7)", "--ignore-columns Si28"),
        (),
        "Si28",
    ),
    Case(
        "constant after the transform only",
        "constant-feature",
        csv_bytes(spoilt(with_column("twice", lambda n, row: repr(2 * float(row[2]))))),
        ("column 'twice'", "after the transform"),
        (),
        "twice",
        options={"transform": "log10", "reference": "K39"},
    ),
    Case(
        "a property of the source",
        "no-within-variation",
        csv_bytes(spoilt(with_column("born", lambda n, row: 1950 + n // 3))),
        ("column 'born'", "infinite", "--ignore-columns born"),
        (),
        "born",
    ),
    Case(
        "copied row",
        "duplicate-row",
        csv_bytes(spoilt(put(6, 2, good()[4][2]), put(6, 3, good()[4][3]))),
        ("row 6 repeats row 5 of source 'S2'", "better than they are", "--allow-duplicates"),
        (6,),
    ),
    Case(
        "copied row, allowed",
        "duplicate-row",
        csv_bytes(spoilt(put(6, 2, good()[4][2]), put(6, 3, good()[4][3]))),
        ("row 6 repeats row 5 of source 'S2'", "better than they are"),
        (6,),
        level="warning",
        options={"allow_duplicates": True},
    ),
    Case("five sources", "too-few-sources", csv_bytes(good()[:16]), ("5 sources", "6 at least", "validate")),
    Case(
        "five groups",
        "too-few-sources",
        csv_bytes(spoilt(with_column("group", lambda n, row: min(n // 3, 4)))),
        ("5 groups of sources",),
    ),
    Case(
        "no replicates",
        "no-replicates",
        csv_bytes([good()[0], *good()[1::3][:-1], ["S8", "1", "3.1", "5.2"]]),
        ("two measurements", "source column"),
    ),
    Case(
        "single measurement",
        "single-measurement",
        csv_bytes([*good(), ["S9", "1", "4.1", "2.2"]]),
        ("row 26", "1 source has one measurement", "no same-source pair", "'S9'"),
        (26,),
        level="warning",
    ),
    Case(
        "more features than sources carry",
        "many-features",
        csv_bytes(good()),
        ("2 features for 8 sources", "shrunk", "--include-columns"),
        level="warning",
    ),
    Case(
        "sources that share a row",
        "shared-row",
        csv_bytes(spoilt(put(9, 2, good()[4][2]), put(9, 3, good()[4][3]))),
        ("'S2' and 'S3' (rows 5 and 9)", "one label"),
        (5, 9),
        level="warning",
    ),
    Case(
        "row number",
        "looks-like-instance",
        csv_bytes(spoilt(with_column("id", lambda n, row: n + 1))),
        ("column 'id'", "row number", "--ignore-columns id"),
        (),
        "id",
        "warning",
    ),
    Case(
        "instance number",
        "looks-like-instance",
        csv_bytes(spoilt(with_column("piece", lambda n, row: n % 3))),
        ("column 'piece'", "--instance-column piece"),
        (),
        "piece",
    ),
    Case(
        "number of a fragment, measured twice",
        "looks-like-instance",
        csv_bytes([["source", "fragment", "K39"], *([n // 4, n % 4 // 2 + 1, 2 + 0.07 * n] for n in range(32))]),
        ("column 'fragment'", "the same 1 to 2 within every source"),
        (),
        "fragment",
    ),
    Case(
        "look-alike sources",
        "similar-sources",
        csv_bytes(spoilt(put(7, 0, "s 2"))),
        ("'S2' / 's 2'", "one way"),
        (),
        "source",
        "warning",
    ),
    Case(
        "sheet of a text file",
        "sheet-of-text",
        csv_bytes(good()),
        ("'Data'", "--sheet"),
        level="warning",
        options={"sheet": "Data"},
    ),
    # what was done, for the record
    Case(
        "blank rows",
        "empty-rows",
        csv_bytes(good()).replace(b"S3,1", b"\n,,,\nS3,1"),
        ("rows 8 and 9", "skipped"),
        (8, 9),
        level="note",
    ),
    Case(
        "columns not included",
        "ignored-columns",
        csv_bytes(good()),
        ("'Ti49'",),
        level="note",
        options={"include": ("K39",)},
    ),
    Case(
        "empty unnamed column",
        "empty-column",
        csv_bytes([[*row, ""] for row in good()]),
        ("column 5 from the left (E in Excel)", "left out"),
        level="note",
    ),
    Case(
        "separators behind the last field",
        "trailing-delimiters",
        csv_bytes([good()[0], [*good()[1], "", ""], *good()[2:]]),
        ("row 2", "left out"),
        (2,),
        level="note",
    ),
    Case(
        "first of two sheets",
        "first-sheet",
        xlsx_bytes(typed(), ("Data", "Notes")),
        ("'Data' was read", "'Data' and 'Notes'", "--sheet"),
        file="glass.xlsx",
        level="note",
    ),
    Case(
        "number stored as text",
        "number-as-text",
        xlsx_bytes(spoilt(put(5, 2, "2.31"), rows=typed())),
        ("row 5", "text"),
        (5,),
        "K39",
        "note",
        file="glass.xlsx",
    ),
]


def only(findings: tuple[Finding, ...], code: str) -> Finding:
    """The one finding of a code: many cells of one cause must not give many findings."""
    found = [finding for finding in findings if finding.code == code]
    assert len(found) == 1, [str(finding) for finding in findings]
    return found[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_malformed_table_says_what_is_wrong(case: Case, tmp_path: Path) -> None:
    path = tmp_path / case.file
    path.write_bytes(case.data)
    examined = examine_table(path, **case.options)
    finding = only(examined.findings, case.code)
    assert finding.level == case.level
    assert finding.column == case.column
    assert finding.file == case.file
    assert finding.rows == (case.rows or ())
    for part in case.parts:
        assert part in str(finding)
    if case.level == "error":
        assert finding.fix
        assert examined.table is None
        assert examined.summary is None
        with pytest.raises(TableError) as raised:
            read_table(path, **case.options)
        assert str(finding) in str(raised.value)
    else:
        assert examined.table is not None
        assert finding in examined.table.findings
    # one mistake, one error: nothing else may be called an error by way of it
    assert [each.code for each in examined.findings if each.level == "error" and each.code != case.code] == []


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40
    assert len({case.id for case in CASES}) == len(CASES)


def test_all_problems_of_a_table_are_told_at_once(tmp_path: Path) -> None:
    rows = spoilt(
        put(2, 2, "n.d."),
        put(3, 2, "inf"),
        put(5, 3, ""),
        put(7, 0, ""),
        put(9, 1, "1"),
        put(10, 1, "1"),
        with_column("Si28", lambda n, row: "33.7"),
        with_column("Si28", lambda n, row: "33.7"),
        with_column("", lambda n, row: n),
    )
    path = tmp_path / "bad.csv"
    path.write_bytes(b"\n" + csv_bytes(rows))  # and a blank line on top: every row is one further down
    with pytest.raises(TableError) as raised:
        read_table(path)
    findings = raised.value.findings
    places = {(finding.code, finding.column, finding.rows) for finding in findings}
    assert places >= {
        ("not-a-number", "K39", (3,)),
        ("not-finite", "K39", (4,)),
        ("missing-value", "Ti49", (6,)),
        ("empty-source", "source", (8,)),
        ("repeated-instance", "instance", (10, 11)),
        ("duplicate-column", "Si28", (2,)),
        ("unnamed-column", None, tuple(range(3, 27))),
        ("constant-feature", "Si28", ()),
        ("empty-rows", None, (1,)),
    }
    text = str(raised.value)
    assert all(str(finding) in text for finding in findings)
    levels = [finding.level for finding in findings]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert text.splitlines()[1].startswith("error: bad.csv, ")
    assert exit_status(findings) == 2


def test_cells_are_checked_although_rows_and_the_source_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    rows = spoilt(put(1, 0, "pane"), put(4, 2, "n.d."))
    path.write_bytes(csv_bytes([*rows, ["S9", "1"]]))
    codes = {(finding.code, finding.column) for finding in examine_table(path).findings}
    assert codes == {("missing-column", None), ("field-count", None), ("not-a-number", "K39")}


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "glass.csv").write_bytes(csv_bytes(good()))
    finding = only(examine_table(tmp_path / "glas.csv").findings, "missing-file")
    assert "glas.csv" in str(finding)
    assert str(finding).endswith("Did you mean 'glass.csv'?")
    nowhere = only(examine_table(tmp_path / "no" / "glass.csv").findings, "missing-file")
    assert "nor its folder" in str(nowhere)


@pytest.mark.parametrize("name", ["nfi_glass", "NFI-glass", "nfi-glas", "glass-simulatd"])
def test_a_missing_file_suggests_a_data_set(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finding = only(examine_table(name).findings, "missing-file")
    meant = "glass-simulated" if "sim" in name else "nfi-glass"
    assert str(finding).endswith(f"Did you mean the data set '{meant}'?")
    elsewhere = only(examine_table(tmp_path / name).findings, "missing-file")
    assert "data set" not in str(elsewhere)


def test_a_neighbour_comes_before_a_data_set_that_is_only_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nfi-glass.csv").write_bytes(csv_bytes(good()))
    assert only(examine_table("nfi-glas.csv").findings, "missing-file").fix == "Did you mean 'nfi-glass.csv'?"
    fix = only(examine_table("nfi_glass").findings, "missing-file").fix
    assert fix == "Did you mean the data set 'nfi-glass'?"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    finding = only(examine_table(tmp_path).findings, "not-a-file")
    assert "folder" in finding.message


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "glass.csv"
    path.write_bytes(csv_bytes(good()))

    def locked(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", locked)
    finding = only(examine_table(path).findings, "unreadable-file")
    assert "Permission denied" in finding.message
    assert "Excel" in finding.fix


def test_two_thousand_bad_cells_are_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "glass.csv"
    rows = [["source", "K39", "Ti49"], *([n // 2, "n.d.", 0.1 * n] for n in range(1999))]
    path.write_bytes(csv_bytes(rows))
    finding = only(examine_table(path).findings, "not-a-number")
    assert len(finding.rows) == 1999
    assert "rows 2, 3, 4 and 1996 more, column 'K39'" in str(finding)


WORKBOOK = xlsx_bytes(typed())  # once: a workbook holds the time of its making


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_content_makes_the_examination_itself_fail(data: st.DataObject, tmp_path: Path) -> None:
    """Cut, overwrite and repeat parts of good files at random: there is a table, or an error that says why."""
    ending = data.draw(st.sampled_from(["csv", "xlsx"]))
    delimiter = data.draw(st.sampled_from([",", ";", "\t"]))
    content = bytearray(csv_bytes(good(), delimiter) if ending == "csv" else WORKBOOK)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 5, 100]))
        filling = st.sampled_from([b"", b'"', b"\n", b",", b";", b"\t", b"0", b"-", b"1,5", b"nan", b"\xff"])
        content[start : start + length] = data.draw(st.one_of(filling, st.binary(max_size=3)))
    path = tmp_path / f"glass.{ending}"
    path.write_bytes(content)
    transform, reference = data.draw(st.sampled_from([("none", None), ("log10", None), ("ln", "K39")]))
    examined = examine_table(path, transform=transform, reference=reference)
    assert (examined.table is None) == (exit_status(examined.findings) == 2)
    if examined.table is not None:
        assert np.isfinite(examined.table.values).all()

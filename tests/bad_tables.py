"""One list of bad tables, and what is found in each; every door that a table comes in by says the same of it.

A good table has 8 sources × 3 measurements of K39 and Ti49; row 1 is the header. `BAD_TABLES` is run by
``tests/test_bad_tables.py`` through `read_table`, ``lindley check``, the app and LiR.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lindley.table.findings import Level
from tests.attacks.workbooks import book, cell, line, sheet

Row = list[Any]
HEAD: Row = ["source", "K39", "Ti49"]
VALUES = np.array([[2 + 0.3101 * s + 0.0172 * i, 5 - 0.2203 * s + 0.0131 * i * i] for s in range(8) for i in range(3)])
LABELS = [f"S{s + 1}" for s in range(8) for _ in range(3)]


def good() -> list[Row]:
    return [HEAD, *([label, *values] for label, values in zip(LABELS, VALUES.tolist(), strict=True))]


def put(*changes: tuple[int, int, Any], rows: list[Row] | None = None) -> list[Row]:
    """Other cells: row as the user counts it, column from 0."""
    table = [list(row) for row in (rows or good())]
    for row, column, value in changes:
        table[row - 1][column] = value
    return table


def text(rows: list[Row], delimiter: str = ",") -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode()


def commas(rows: list[Row]) -> list[Row]:
    """Numbers with decimal commas."""
    return [[str(each).replace(".", ",") if isinstance(each, float) else each for each in row] for row in rows]


def labelled(*labels: str, rows: list[Row] | None = None) -> list[Row]:
    """The first rows have these labels."""
    return put(*((2 + at, 0, label) for at, label in enumerate(labels)), rows=rows)


class BadTable(NamedTuple):
    """A file, what it holds, and the finding that is expected of it; ``options`` by the names of `DataConfig`."""

    file: str
    data: Callable[[], bytes]
    code: str
    said: str  # part of what the command line says
    level: Level
    options: dict[str, Any]

    def write(self, folder: Path) -> Path:
        path = folder / self.file
        path.write_bytes(self.data())
        return path


def bad(
    file: str, data: Callable[[], bytes], code: str, said: str = "", level: Level = "error", **options: Any
) -> BadTable:
    return BadTable(file, data, code, said, level, options)


def shown(how: str) -> bytes:
    """Numbers of Ti49 in cells of this format."""
    rows = "".join(
        f'<row r="{at}">{cell(at, 1, label)}{cell(at, 2, k)}{cell(at, 3, ti, 1)}</row>'
        for at, (label, k, ti) in enumerate(good()[1:], 2)
    )
    return book(sheet([HEAD], rows), formats=[how])


def odd_cells(xml: str, row: int = 26) -> bytes:
    """The good table and one more row, whose cells are these."""
    return book(sheet(good(), f'<row r="{row}">{xml}</row>'))


def merged(*places: str, rows: list[Row] | None = None) -> str:
    """A sheet with merged cells, such as A2:A4."""
    cells = "".join(f'<mergeCell ref="{place}"/>' for place in places)
    return sheet(rows or good()) + f"<mergeCells>{cells}</mergeCells>"


HIDE = 'hidden="1"'
ROWS_HIDDEN = sheet(good(), line(26, ["S9", 1.25, 9.5], HIDE) + line(27, ["S9", 1.26, 9.6], HIDE))
COLUMN_HIDDEN = sheet(good(), before='<cols><col min="3" max="3" hidden="1"/></cols>')
LONG = "x" * 130_000
LABELS_MERGED = [f"A{at}:A{at + 2}" for at in range(2, 26, 3)]
ONCE_LABELLED = put(*((at, 0, None) for at in range(2, 26) if at % 3 != 2))


def glass(unit: str = "", sources: int = 12) -> list[Row]:
    """Concentrations that scatter by 2 %, of sources that differ by far more."""
    rng = np.random.default_rng(7)
    values = np.exp(np.repeat(rng.normal(3, 0.7, (sources, 4)), 3, axis=0) + rng.normal(0, 0.02, (3 * sources, 4)))
    head = ["source", *(f"{name} {unit}".strip() for name in ("K39", "Ti49", "Mn55", "Rb85"))]
    labels = [f"W{place // 3 + 1}" for place in range(len(values))]
    return [head, *([label, *row] for label, row in zip(labels, np.round(values, 2).tolist(), strict=True))]


def times(rows: list[Row], factor: float, *which: int, columns: tuple[int, ...] = (1,)) -> list[Row]:
    """Some cells multiplied: rows as the user counts them."""
    return put(*((row, at, round(rows[row - 1][at] * factor, 6)) for row in which for at in columns), rows=rows)


def summary(label: str, *statistics: Callable[..., Any], rows: list[Row] | None = None) -> list[Row]:
    """The table with means or standard deviations under the measurements of a source, to two decimals more than these have."""
    table = rows or glass()
    last = max(at for at, row in enumerate(table) if row[0] == label)
    measured = np.array([row[1:] for row in table if row[0] == label])
    added = [[label, *np.round(each(measured, axis=0), 4).tolist()] for each in statistics]
    return [*table[: last + 1], *added, *table[last + 1 :]]


BAD_TABLES: dict[str, BadTable] = {
    # numbers that could be another
    "thousands by commas, semicolons": bad(
        "t.csv",
        lambda: text([HEAD, *([s, f"{97 * n:,}", f"{n},5"] for n, s in enumerate(LABELS))], ";"),
        "ambiguous-mark",
        "'1,067' could be 1.067 or 1067, and so could every such number of the column, which has whole numbers",
    ),
    "three decimals after commas": bad(
        "t.csv",
        lambda: text([HEAD, *([s, f"{n + 1},{n:03d}", n % 7] for n, s in enumerate(LABELS))], ";"),
        "ambiguous-mark",
        "'1,000' could be 1.000 or 1000",
    ),
    "three decimals after points": bad(
        "t.csv",
        lambda: text([HEAD, *([s, f"{n + 1}.{n:03d}", n % 7] for n, s in enumerate(LABELS))], ";"),
        "ambiguous-mark",
        '--decimal "."',
    ),
    "three decimals after commas, tabs": bad(
        "t.tsv",
        lambda: text([HEAD, *([s, f"{n + 1},{n:03d}", n % 7] for n, s in enumerate(LABELS))], "\t"),
        "ambiguous-mark",
        '--decimal ","',
    ),
    "texts of a workbook with commas": bad(
        "t.xlsx", lambda: book(sheet(put((5, 1, "1,934")))), "ambiguous-mark", "1.934 or 1934"
    ),
    "texts of a workbook with points": bad(
        "t.xlsx", lambda: book(sheet(put((5, 1, "1.934")))), "ambiguous-mark", "1.934 or 1934"
    ),
    "thousands by commas among decimal points": bad(
        "t.csv", lambda: text(put((5, 1, "1,934")), ";"), "mixed-decimal-marks", "no mark for thousands"
    ),
    "thousands by points among decimal commas": bad(
        "t.csv", lambda: text(put((5, 1, "1.934"), rows=commas(good())), ";"), "mixed-decimal-marks", "'1.934'"
    ),
    "a point where commas were said": bad(
        "t.csv", lambda: text(good(), ";"), "mixed-decimal-marks", '--decimal "," says', decimal=","
    ),
    "commas where points were said": bad(
        "t.csv", lambda: text(commas(good()), ";"), "mixed-decimal-marks", '--decimal "." says', decimal="."
    ),
    "thousands by apostrophes": bad("t.csv", lambda: text(put((5, 1, "1'934.5"))), "thousands-mark", "row 5"),
    "thousands by thin spaces": bad("t.csv", lambda: text(put((5, 1, "1\u202f934.5"))), "thousands-mark", "row 5"),
    "millions": bad("t.csv", lambda: text(put((5, 1, "1,934,000"))), "thousands-mark", "1,934,000"),
    "too large": bad("t.csv", lambda: text(put((5, 1, "1E400"))), "not-finite", "'1E400'"),
    "too small": bad("t.csv", lambda: text(put((5, 1, "1E-400"))), "too-small", "read as 0"),
    "too large, decimal comma": bad(
        "t.csv", lambda: text(put((5, 1, "1,5E400"), rows=commas(good())), ";"), "not-finite"
    ),
    "a whole number of 400 digits": bad("t.csv", lambda: text(put((5, 1, "9" * 400))), "not-finite", "row 5"),
    "a whole number of 5000 digits": bad("t.csv", lambda: text(put((5, 1, "9" * 5000))), "not-finite", "row 5"),
    "workbook: 1E400": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"1E400")))), "not-finite", "'1E400'"),
    "workbook: -1E400": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"-1E400")))), "not-finite", "row 5"),
    "workbook: 1E-400": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"1E-400")))), "too-small", "'1E-400'"),
    "workbook: 400 digits": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"9" * 400)))), "not-finite", "row 5"),
    "workbook: 5000 digits": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"9" * 5000)))), "not-finite", "row 5"),
    "workbook: NaN": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"NaN")))), "not-finite", "'NaN'"),
    "workbook: INF": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"INF")))), "not-finite", "'INF'"),
    "workbook: 1_000": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"1_000")))), "not-a-number", "'1_000'"),
    "workbook: other digits": bad("t.xlsx", lambda: book(sheet(put((5, 1, "١٢".encode())))), "not-a-number", "row 5"),
    "workbook: a comma in a number": bad(
        "t.xlsx", lambda: book(sheet(put((5, 1, b"1,5")))), "corrupt-workbook", "B5 has the number 1,5"
    ),
    "workbook: hexadecimal": bad("t.xlsx", lambda: book(sheet(put((5, 1, b"0x10")))), "not-a-number", "'0x10'"),
    "shown as per cent": bad("t.xlsx", lambda: shown("0.0%"), "shown-otherwise", "shown as per cent"),
    "shown in thousands": bad("t.xlsx", lambda: shown("#,##0,"), "shown-otherwise", "shown in thousands"),
    "shown in millions": bad("t.xlsx", lambda: shown('0.0,,"M"'), "shown-otherwise", "shown in thousands"),
    "not shown": bad("t.xlsx", lambda: shown(";;;"), "shown-otherwise", "not shown"),
    "shown below a limit": bad("t.xlsx", lambda: shown('"<"0.00'), "below-limit", "'<5', '<5.0131'"),
    "shown below a limit, escaped": bad("t.xlsx", lambda: shown("\\<0.00"), "below-limit", "below the detection limit"),
    "shown below a limit, no quotation marks": bad("t.xlsx", lambda: shown("[Red]<0.00"), "below-limit", "'<5'"),
    "shown below a limit, as money": bad("t.xlsx", lambda: shown("[$<]0.00"), "below-limit", "'<5'"),
    "shown below a limit where it is small": bad(
        "t.xlsx", lambda: shown('[<4]"<4";0.00'), "below-limit", "'<4' is below"
    ),
    "shown below a limit, read as half": bad(
        "t.xlsx",
        lambda: shown('[<4]"<4";0.00'),
        "below-limit",
        "read as half of the limit",
        level="warning",
        below_limit="half",
    ),
    "shown above a range": bad("t.xlsx", lambda: shown('[>4.5]">"0.0;0.0'), "not-a-number", "'>5'"),
    "shown as words": bad("t.xlsx", lambda: shown('[<4]"n.d.";General'), "not-a-number", "'n.d.' is not a number"),
    "shown as nearly": bad("t.xlsx", lambda: shown('"~"0.0'), "not-a-number", "'~5'"),
    "small numbers not shown": bad("t.xlsx", lambda: shown("[<4];0.00"), "shown-otherwise", "not shown"),
    "a date in a number": bad("t.xlsx", lambda: shown("yyyy-mm-dd"), "date-in-number", "type it again"),
    "per cent as text": bad("t.csv", lambda: text(put((5, 1, "5 %"))), "not-a-number", "'5 %'"),
    "a date as text": bad("t.csv", lambda: text(put((5, 1, "1. Feb"))), "not-a-number", "'1. Feb'"),
    "minus behind": bad("t.csv", lambda: text(put((5, 1, "1.5-"))), "not-a-number", "'1.5-'"),
    "minus as brackets": bad("t.csv", lambda: text(put((5, 1, "(1.5)"))), "not-a-number", "'(1.5)'"),
    "full-width digits": bad("t.csv", lambda: text(put((5, 1, "１.５"))), "not-a-number", "row 5"),
    "NaN of MSVC": bad("t.csv", lambda: text(put((5, 1, "1.#QNAN"))), "not-finite", "row 5"),
    "n/a": bad("t.csv", lambda: text(put((5, 1, "n/a"))), "not-a-number", "row 5"),
    "a NUL": bad("t.csv", lambda: text(put((5, 0, "S\0"))), "binary-file", "binary"),
    # what is hidden
    "hidden rows": bad(
        "t.xlsx", lambda: book(ROWS_HIDDEN), "hidden-rows", "--hidden include, or leave them out with --hidden"
    ),
    "a row without height": bad(
        "t.xlsx",
        lambda: book(sheet(good(), line(26, ["S8", 1.25, 9.5], 'ht="0" customHeight="1"'))),
        "hidden-rows",
        "1 row with values is hidden",
    ),
    "rows that a filter hides": bad(
        "t.xlsx",
        lambda: book(sheet(good(), line(26, ["S8", 1.25, 9.5], HIDE)) + '<autoFilter ref="A1:C26"/>'),
        "hidden-rows",
        "by a filter",
    ),
    "rows that have no height unless they say so": bad(
        "t.xlsx",
        lambda: book(
            sheet(
                [],
                "".join(line(at, row, 'ht="15"') for at, row in enumerate(good(), 1)) + line(26, ["S8", 1.25, 9.5]),
                before='<sheetFormatPr defaultRowHeight="15" zeroHeight="1"/>',
            )
        ),
        "hidden-rows",
        "row 26: 1 row with values is hidden",
    ),
    "a row of less than a pixel": bad(
        "t.xlsx",
        lambda: book(sheet(good(), line(26, ["S8", 1.25, 9.5], 'ht="0.01" customHeight="1"'))),
        "hidden-rows",
        "1 row with values is hidden",
    ),
    "a hidden header": bad(
        "t.xlsx", lambda: book(sheet([], line(1, HEAD, HIDE) + line(2, good()[1]))), "hidden-rows", "row 1"
    ),
    "a hidden column": bad(
        "t.xlsx", lambda: book(COLUMN_HIDDEN), "hidden-columns", "1 column (C in Excel) with values is hidden"
    ),
    "a column without width": bad(
        "t.xlsx",
        lambda: book(sheet(good(), before='<cols><col min="2" max="3" width="0" customWidth="1"/></cols>')),
        "hidden-columns",
        "(B and C in Excel)",
    ),
    "columns without width, all": bad(
        "t.xlsx",
        lambda: book(sheet(good(), before='<sheetFormatPr defaultColWidth="0"/>')),
        "hidden-columns",
        "(A, B and C",
    ),
    "all sheets hidden": bad(
        "t.xlsx",
        lambda: book(sheet(good()), states=["veryHidden"]),
        "hidden-sheet",
        "Name the one to read with --sheet",
    ),
    "two sheets of one name": bad(
        "t.xlsx", lambda: book(sheet(good()), sheet(good()), names=["A", "A"]), "corrupt-workbook", "one name"
    ),
    # merged cells
    "merged measurements": bad(
        "t.xlsx",
        lambda: book(merged("B2:B3", "C9:C10", rows=put((3, 1, None), (10, 2, None)))),
        "merged-cells",
        "rows 2 and 3, column 'K39': the cell '2.0' is merged with others",
    ),
    "merged measurements with values under them": bad(
        "t.xlsx", lambda: book(merged("B2:B3")), "merged-cells", "which row it is measured of"
    ),
    "a label merged with a measurement": bad(
        "t.xlsx", lambda: book(merged("A2:B2", rows=put((2, 1, None)))), "merged-cells", "'S1'"
    ),
    "merged cells that overlap": bad(
        "t.xlsx", lambda: book(merged("A2:A4", "A3:A5")), "corrupt-workbook", "merged cells overlap in row 3"
    ),
    "merged cells of no place": bad("t.xlsx", lambda: book(merged("A0:B")), "corrupt-workbook", "damaged"),
    "merged labels": bad(
        "t.xlsx",
        lambda: book(merged(*LABELS_MERGED, rows=ONCE_LABELLED)),
        "merged-cells",
        "read as the label of each of their rows",
        level="note",
    ),
    "merged labels of no text": bad(
        "t.xlsx", lambda: book(merged("A2:A4", rows=put((2, 0, None)))), "empty-source", "rows 2, 3 and 4"
    ),
    # cells that stand where they should not
    "a cell twice": bad(
        "t.xlsx",
        lambda: odd_cells(cell(26, 1, "S8") + cell(26, 2, 1.5) + cell(26, 2, 9.5)),
        "corrupt-workbook",
        "the cell B26 is there twice",
    ),
    "a row twice": bad(
        "t.xlsx", lambda: book(sheet(good(), line(25, ["S8", 1.5, 2.5]))), "corrupt-workbook", "A25 is there twice"
    ),
    "a cell of another row": bad(
        "t.xlsx", lambda: odd_cells(cell(7, 1, "S8")), "corrupt-workbook", "A7 stands in row 26"
    ),
    "row 0": bad("t.xlsx", lambda: book(sheet(good(), '<row r="0"></row>')), "corrupt-workbook", "a row 0"),
    "a row beyond the last": bad("t.xlsx", lambda: odd_cells("", 1_048_577), "corrupt-workbook", "1048577"),
    "a text that is not there": bad(
        "t.xlsx", lambda: odd_cells('<c r="A26" t="s"><v>7</v></c>'), "corrupt-workbook", "damaged"
    ),
    "a text counted from the end": bad(
        "t.xlsx", lambda: odd_cells('<c r="A26" t="s"><v>-1</v></c>'), "corrupt-workbook", "text number -1"
    ),
    "unclosed XML": bad("t.xlsx", lambda: book("<sheetData><row>"), "corrupt-workbook", "damaged"),
    "XML behind the end": bad("t.xlsx", lambda: book(sheet(good()), more="<x/>"), "corrupt-workbook", "damaged"),
    # columns
    "a column twice": bad(
        "t.csv", lambda: text([[*row, row[1]] for row in good()]), "duplicate-column", "columns 2 and 4"
    ),
    "a column twice by a space": bad(
        "t.csv",
        lambda: text([[*row, row[1]] for row in put((1, 1, "K39"), (1, 2, " K39 "))]),
        "duplicate-column",
        "K39",
    ),
    "values of another column": bad(
        "t.csv", lambda: text([[*HEAD, "copy"], *([*row, row[1]] for row in good()[1:])]), "repeated-feature", "'K39'"
    ),
    # sizes
    "a label of 130,000 letters": bad(
        "t.csv", lambda: text(put((5, 0, LONG))), "long-label", "130,000 letters; the limit is 255 letters, which"
    ),
    "a label of 140,000 letters": bad(
        "t.csv", lambda: text(put((5, 0, LONG + LONG))), "broken-quotes", "131,072 letters"
    ),
    "a name of 100,000 letters": bad(
        "t.csv", lambda: text(put((1, 2, LONG[:100_000]))), "long-name", "LINDLEY_MAX_LETTERS"
    ),
    "20,000 columns": bad(
        "t.csv",
        lambda: text([["source", *range(20_000)], ["S1", *range(20_000)]]),
        "too-many-columns",
        "LINDLEY_MAX_COLUMNS",
    ),
    "a cell in the last corner": bad(
        "t.xlsx", lambda: odd_cells(cell(1_048_576, 16_384, 1.0), 1_048_576), "unnamed-column", "XFD in Excel"
    ),
    "a bomb of spaces": bad("t.xlsx", lambda: book(sheet(good()) + " " * 30_000_000), "too-large", "as no table"),
    "a row of many empty cells": bad("t.xlsx", lambda: odd_cells("<c/>" * 20_000), "corrupt-workbook", "damaged"),
    "a cell of many parts": bad(
        "t.xlsx", lambda: odd_cells(f"<c>{'<x/>' * 11_000}</c>"), "corrupt-workbook", "10,000 parts"
    ),
    "rows and columns far apart": bad(
        "t.xlsx",
        lambda: book(
            sheet(
                [["source", *range(6000)]],
                "".join(f'<row r="{at}">{cell(at, 1, "S")}{cell(at, at, 1.5)}</row>' for at in range(2, 6000)),
            )
        ),
        "too-large",
        "LINDLEY_MAX_TABLE_MB",
    ),
    # files
    "UTF-32": bad("t.csv", lambda: text(good()).decode().encode("utf-32"), "not-utf8", "UTF-16"),
    "only marks of order": bad("t.csv", lambda: b"\xef\xbb\xbf" * 3, "empty-file", "empty"),
    "two files in one": bad("t.csv", lambda: text(good()) + b"\xef\xbb\xbf" + text(good()), "not-a-number", "row 26"),
    "a header twice": bad("t.csv", lambda: text(good()) + text(good()), "not-a-number", "row 26"),
    "a zip that is no workbook": bad("t.xlsx", lambda: book()[:40] + b"\0" * 100, "corrupt-workbook", "damaged"),
    "no sheet": bad("t.xlsx", lambda: book(), "missing-sheet", "no sheet of cells"),
    "a hidden first sheet": bad(
        "t.xlsx",
        lambda: book(sheet([["x"]]), sheet(good()), states=["hidden", "visible"], names=["secret", "data"]),
        "hidden-sheet",
        "'data' was read, the first that is seen: 'secret' before it is hidden",
        level="warning",
    ),
    "a very hidden first sheet": bad(
        "t.xlsx",
        lambda: book(sheet([["x"]]), sheet(good()), states=["veryHidden", "visible"]),
        "hidden-sheet",
        "'Sheet2' was read",
        level="warning",
    ),
    "a hidden sheet by its name": bad(
        "t.xlsx",
        lambda: book(sheet([["x"]]), sheet(good()), states=["visible", "hidden"]),
        "hidden-sheet",
        "'Sheet2' is hidden",
        level="warning",
        sheet="Sheet2",
    ),
    "a hidden second sheet": bad(
        "t.xlsx",
        lambda: book(sheet(good()), sheet([["x"]]), states=["visible", "hidden"]),
        "first-sheet",
        "'Sheet1'",
        level="note",
    ),
    "hidden rows left out": bad(
        "t.xlsx", lambda: book(ROWS_HIDDEN), "hidden-rows", "left out", level="warning", hidden="ignore"
    ),
    "labels by zeros": bad(
        "t.csv", lambda: text(labelled("1", "01", "1.0")), "similar-sources", "'1' / '01' / '1.0'", level="warning"
    ),
    "labels by capitals": bad(
        "t.csv", lambda: text(labelled("Pane", "pane")), "similar-sources", "'Pane' / 'pane'", level="warning"
    ),
    "labels by spaces": bad(
        "t.csv", lambda: text(labelled("a b", "ab")), "similar-sources", "'a b' / 'ab'", level="warning"
    ),
    "labels by a hard space": bad(
        "t.csv", lambda: text(labelled("a b", "a\u00a0b")), "similar-sources", "'a b' / 'a<U+00A0>b'", level="warning"
    ),
    "labels by composition": bad(
        "t.csv",
        lambda: text(labelled("caf\u00e9", "cafe\u0301")),
        "similar-sources",
        "'café' / 'cafe<U+0301>'",
        level="warning",
    ),
    "labels by a zero-width space": bad(
        "t.csv", lambda: text(labelled("A1", "A1\u200b")), "similar-sources", "'A1' / 'A1<U+200B>'", level="warning"
    ),
    "labels by a joiner": bad(
        "t.csv", lambda: text(labelled("A1", "A\u200d1")), "similar-sources", "'A<U+200D>1'", level="warning"
    ),
    "labels by a soft hyphen": bad(
        "t.csv", lambda: text(labelled("A1", "A\u00ad1")), "similar-sources", "'A<U+00AD>1'", level="warning"
    ),
    "labels by a mark of order": bad(
        "t.csv", lambda: text(labelled("A1", "A\ufeff1")), "similar-sources", "'A<U+FEFF>1'", level="warning"
    ),
    "labels by direction": bad(
        "t.csv", lambda: text(labelled("A1", "\u202eA1")), "similar-sources", "'<U+202E>A1'", level="warning"
    ),
    "labels by alphabet": bad(
        "t.csv", lambda: text(labelled("A1", "\u04101")), "similar-sources", "'A1' / '<U+0410>1'", level="warning"
    ),
    "labels by width": bad(
        "t.csv", lambda: text(labelled("A1", "Ａ１")), "similar-sources", "'A1' / 'Ａ１'", level="warning"
    ),
    "labels by a dash": bad(
        "t.csv", lambda: text(labelled("A-1", "A–1")), "similar-sources", "'A-1' / 'A–1'", level="warning"
    ),
    "labels by inner zeros": bad(
        "t.csv", lambda: text(labelled("A-01", "A-1")), "similar-sources", "'A-01' / 'A-1'", level="warning"
    ),
    "labels by a control character": bad(
        "t.csv", lambda: text(labelled("A1", "A\x1b1")), "similar-sources", "'A<U+001B>1'", level="warning"
    ),
    "groups by capitals": bad(
        "t.csv",
        lambda: text(
            [
                [*HEAD, "group"],
                *([*row, "car" if n < 3 else "Car" if n < 6 else row[0]] for n, row in enumerate(good()[1:])),
            ]
        ),
        "similar-groups",
        "different groups: 'car' / 'Car'",
        level="warning",
    ),
    "names of columns by capitals": bad(
        "t.csv",
        lambda: text([["source", "K39", "k39"], *good()[1:]]),
        "similar-columns",
        "'K39' / 'k39'",
        level="warning",
    ),
    "names of columns by what is not seen": bad(
        "t.csv",
        lambda: text([["source", "K39", "K39\u200b"], *good()[1:]]),
        "similar-columns",
        "'K39<U+200B>'",
        level="warning",
    ),
    "a label with a space behind": bad(
        "t.csv", lambda: text(put((3, 0, "S1 "))), "merged-labels", "'S1' / 'S1 '", level="warning"
    ),
    "a label as text and number": bad(
        "t.xlsx", lambda: book(sheet(labelled("7", 7, "7"))), "merged-labels", "'7' / 7 (no text)", level="warning"
    ),
    "decimal numbers as labels": bad(
        "t.xlsx",
        lambda: book(sheet(put(*((at, 0, 1 + at // 4 / 10) for at in range(2, 26))))),
        "numbers-as-labels",
        "choose the format Text",
        level="warning",
    ),
    "long numbers as labels": bad(
        "t.xlsx",
        lambda: book(sheet(put(*((at, 0, 1_234_567_890_123_456 + at // 4) for at in range(2, 26))))),
        "numbers-as-labels",
        "beyond 15 digits",
        level="warning",
    ),
    "numbers stored as text": bad(
        "t.xlsx", lambda: book(sheet(put((5, 1, "2.31")))), "number-as-text", "row 5", level="note"
    ),
    "empty columns without names": bad(
        "t.csv",
        lambda: text([[*row, *[""] * 300] for row in good()]),
        "empty-column",
        "297 more have no name",
        level="note",
    ),
    # numbers that are no measurements
    "a slipped decimal": bad(
        "t.csv",
        lambda: text(times(glass(), 10, 5)),
        "far-from-replicates",
        "row 5, column 'K39': 146.7 is 10.2 times the other measurements of source 'W2' (14.34)",
        level="warning",
    ),
    "a decimal that slipped to the left, in a workbook": bad(
        "t.xlsx",
        lambda: book(sheet(times(glass(), 0.1, 5))),
        "far-from-replicates",
        "row 5, column 'K39'",
        level="warning",
    ),
    "a slipped decimal before a logarithm": bad(
        "t.csv",
        lambda: text(times(glass(), 0.1, 5)),
        "far-from-replicates",
        ": a slipped decimal?",
        level="warning",
        transform="log10",
    ),
    "a slipped decimal of logarithms": bad(
        "t.csv",
        lambda: text(put((5, 1, VALUES[3, 0] + 1))),
        "far-from-replicates",
        "a factor of 10, a slipped decimal?",
        level="warning",
    ),
    "a measurement of two that slipped": bad(
        "t.csv",
        lambda: text(times([row for at, row in enumerate(glass(sources=30)) if at % 3 != 1], 0.01, 6)),
        "far-from-replicates",
        "row 6, column 'K39'",
        level="warning",
    ),
    "-999 for what was not detected": bad(
        "t.csv",
        lambda: text(put(*((row, 1, -999) for row in (2, 9, 20)))),
        "code-for-missing",
        "rows 2, 9 and 20, column 'K39': -999 stands in 3 cells",
        level="warning",
    ),
    "a source a thousand times too high": bad(
        "t.csv",
        lambda: text(times(glass(), 1000, 8, 9, 10, columns=(1, 2, 3, 4))),
        "far-from-sources",
        "the source 'W3' is far from all others in 4 of 4 features",
        level="warning",
    ),
    "a feature of a source in another unit": bad(
        "t.csv", lambda: text(times(glass(), 1000, 8, 9, 10)), "far-from-sources", "'W3'", level="warning"
    ),
    "more than a million mg/kg": bad(
        "t.csv",
        lambda: text(put((5, 1, 1_108_000), rows=glass("[mg/kg]"))),
        "more-than-whole",
        "1,108,000 mg/kg is more than the whole, which is 1,000,000 mg/kg",
        level="warning",
    ),
    "more than 100 %": bad(
        "t.xlsx",
        lambda: book(sheet(put((5, 1, 108.0), rows=glass("(wt.%)")))),
        "more-than-whole",
        "108 wt.% is more than the whole",
        level="warning",
    ),
    "less than nothing": bad(
        "t.csv",
        lambda: text(put((5, 1, -0.1), rows=glass())),
        "negative-concentration",
        "-0.1 ppm is less than nothing",
        level="warning",
        units="ppm",
    ),
    "a row of means": bad(
        "t.csv", lambda: text(summary("W2", np.mean)), "summary-row", "row 8 is the mean of 3 others of source 'W2'"
    ),
    "a row of means between two measurements": bad(
        "t.csv",
        lambda: text(summary("S2", np.mean, rows=good()[:6] + good()[7:])),
        "summary-row",
        "row 7 is the mean of 2 others",
    ),
    "rows of means and standard deviations": bad(
        "t.xlsx",
        lambda: book(sheet(summary("W2", np.mean, lambda x, axis: x.std(axis, ddof=1)))),
        "summary-row",
        "row 8 is the mean of 3 others of source 'W2' and row 9 is the standard deviation of 3 others",
    ),
    "rows of standard deviations and means": bad(
        "t.csv", lambda: text(summary("W2", np.std, np.mean)), "summary-row", "row 8 is the standard deviation"
    ),
    "rows of means that are allowed": bad(
        "t.csv", lambda: text(summary("W2", np.mean)), "summary-row", "row 8", level="warning", allow_duplicates=True
    ),
    "concentrations as they are": bad(
        "t.csv",
        lambda: text(glass(sources=40)),
        "scatter-grows",
        "where the level is 10 times higher, the scatter within sources is",
        level="warning",
    ),
}

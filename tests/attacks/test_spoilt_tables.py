"""Tables as they should not be, each spoilt in one way that happens to laboratories: every command that reads one ends with a
message that tells it, and leaves nothing behind that looks like a result.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.attacks.door import lindley
from tests.attacks.workbooks import book, cell, line, sheet
from tests.casework.factory import FEATURES, population
from tests.casework.golden.make import FOLDER

SYSTEM = FOLDER / "normal-logistic.safetensors"
Rows = list[list[object]]


def good(sources: int = 12, replicates: int = 3) -> Rows:
    """A table that nothing is wrong with: the header, then measurements as text."""
    values, labels = population(sources, replicates, 7)
    numbers = [[f"{x:.5f}" for x in row] for row in values]
    return [["source", *FEATURES], *([str(label), *row] for label, row in zip(labels, numbers, strict=True))]


def text(rows: Rows, between: str = ",", encoding: str = "utf-8") -> bytes:
    """The rows as a text file."""
    return "\n".join(between.join(map(str, row)) for row in rows).encode(encoding) + b"\n"


def numbers(rows: Rows) -> list[list[object]]:
    """The rows with numbers in place of their texts, as a workbook holds them."""
    return [[_number(each) for each in row] for row in rows]


def _number(each: object) -> object:
    try:
        return float(str(each))
    except ValueError:
        return each


def changed(row: int, column: int, value: object) -> Rows:
    """A good table with another cell, counted from the header and the source."""
    rows = good()
    rows[row][column] = value
    return rows


def column(name: str, values: Callable[[int], object]) -> Rows:
    """A good table with one column more."""
    rows = good()
    return [[*rows[0], name], *([*row, values(at)] for at, row in enumerate(rows[1:]))]


def without(part: str, data: bytes) -> bytes:
    """A workbook that lacks one of its parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
    return stream.getvalue()


BOOK = book(sheet(numbers(good())))
TEXT = text(good())
COMMAS = [str(x).replace(".", ",") for x in good()[4]]
SUM = np.array([[float(str(x)) for x in row[1:]] for row in good()[1:]]).sum(axis=1)

SPOILT: dict[str, tuple[str, bytes | None]] = {
    "text in a column of numbers": ("t.csv", text(changed(5, 2, "high"))),
    "an empty file": ("t.csv", b""),
    "only blank lines": ("t.csv", b"\n\n  \n"),
    "a header and nothing else": ("t.csv", text(good()[:1])),
    "one source": ("t.csv", text([good()[0], *(["s1", *row[1:]] for row in good()[1:])])),
    "five sources": ("t.csv", text(good(5))),
    "one measurement of each source": ("t.csv", text(good(12, 1))),
    "two columns of one name": ("t.csv", text([["source", "K39", "K39", *FEATURES[2:]], *good()[1:]])),
    "a column without a name": ("t.csv", text([["source", "K39", "", *FEATURES[2:]], *good()[1:]])),
    "a column without values": ("t.csv", text(column("Ca42", lambda at: ""))),
    "a column of nan": ("t.csv", text(column("Ca42", lambda at: "nan"))),
    "an infinite value": ("t.csv", text(changed(3, 1, "inf"))),
    "a value that floating point has not": ("t.csv", text(changed(3, 1, "1e999"))),
    "an empty cell": ("t.csv", text(changed(3, 1, ""))),
    "an empty source": ("t.csv", text(changed(3, 0, ""))),
    "a row that is too short": ("t.csv", text([*good()[:4], good()[4][:-1], *good()[5:]])),
    "a row that is too long": ("t.csv", text([*good()[:4], [*good()[4], "1.0"], *good()[5:]])),
    "another delimiter from row 6 on": ("t.csv", text(good()[:5]) + text(good()[5:], ";")),
    "bars between the columns": ("t.csv", text(good(), "|")),
    "spaces between the columns": ("t.csv", text(good(), " ")),
    "decimal points and commas": (
        "t.csv",
        text([*good()[:4], COMMAS, *good()[5:]], ";"),
    ),
    "a mark of thousands": ("t.csv", text(changed(3, 1, "1.234.567"))),
    "a value below the limit": ("t.csv", text(changed(3, 1, "<0.02"))),
    "a constant column": ("t.csv", text(column("Ca42", lambda at: "7.0"))),
    "a total": ("t.csv", text(column("total", lambda at: f"{SUM[at]:.5f}"))),
    "a copied column": ("t.csv", text([[*row, row[1] if at else "copy"] for at, row in enumerate(good())])),
    "a number of the piece": ("t.csv", text(column("piece", lambda at: at % 3 + 1))),
    "a year of each source": ("t.csv", text(column("year", lambda at: 1990 + at // 3))),
    "a copied row": ("t.csv", text([*good(), good()[1]])),
    "no column of sources": ("t.csv", text([["window", *FEATURES], *good()[1:]])),
    "no header": ("t.csv", text(good()[1:])),
    "columns and rows turned around": ("t.csv", text([list(each) for each in zip(*good(), strict=True)])),
    "a quotation mark that is never closed": ("t.csv", text(changed(3, 0, '"s1'))),
    "UTF-16": ("t.csv", text(good(), encoding="utf-16")),
    "a file with NUL": ("t.csv", TEXT[:200] + b"\0" * 20 + TEXT[200:]),
    "a PDF with another ending": ("t.csv", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< >>\nendobj\n"),
    "a page of HTML": ("t.csv", b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n"),
    "JSON": ("t.csv", b'{"source": ["s1", "s2"], "K39": [1.0, 2.0]}\n'),
    "a workbook called .csv": ("t.csv", BOOK),
    "text called .xlsx": ("t.xlsx", TEXT),
    "an old workbook called .xlsx": ("t.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
    "a workbook with a password": (
        "t.xlsx",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le"),
    ),
    "an old workbook": ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
    "an OpenDocument table": ("t.ods", BOOK),
    "a workbook cut off": ("t.xlsx", BOOK[: len(BOOK) // 2]),
    "a workbook without its sheet": ("t.xlsx", without("xl/worksheets/sheet1.xml", BOOK)),
    "an empty sheet": ("t.xlsx", book(sheet([]))),
    "a chart before the table": ("t.xlsx", book(sheet([["see the next sheet"]]), sheet(numbers(good())))),
    "all sheets hidden": ("t.xlsx", book(sheet(numbers(good())), states=["hidden"])),
    "hidden rows": (
        "t.xlsx",
        book(sheet(numbers(good())[:-1], line(37, numbers(good())[-1], 'hidden="1"'))),
    ),
    "merged cells of the source": (
        "t.xlsx",
        book(sheet([[None if at % 3 != 1 and at else row[0], *row[1:]] for at, row in enumerate(numbers(good()))])),
    ),
    "a formula without a value": (
        "t.xlsx",
        book(sheet(numbers(good())[:-1], f'<row r="37">{cell(37, 1, "s9")}<c r="B37"><f>1+1</f></c></row>')),
    ),
    "an error of a formula": ("t.xlsx", book(sheet(numbers(changed(3, 1, "#DIV/0!"))))),
    "dates in place of numbers": ("t.xlsx", book(sheet(numbers(changed(3, 1, "2026-01-02"))))),
    "numbers shown as per cent": (
        "t.xlsx",
        book(
            sheet(numbers(good())[:-1], f'<row r="37">{cell(37, 1, "s9")}{cell(37, 2, 0.5, 1)}</row>'), formats=["0.0%"]
        ),
    ),
    "a title of as many cells as columns": ("t.csv", text([["Laboratory", "Here", "Examiner", "Me", "Too"], *good()])),
    "a title above years": (
        "t.csv",
        text([["Glass of 2026"], ["source", "2021", "2022", "2023", "2024"], *good()[1:]]),
    ),
    "a unit that nobody knows": ("t.csv", text([good()[0], ["", "furlong", "stone", "fathom", "rod"], *good()[1:]])),
    "two units of one column": (
        "t.csv",
        text([["source", "K39 [ppm]", *FEATURES[1:]], ["", "%", "%", "%", "%"], *good()[1:]]),
    ),
    "a folder": ("t.csv", None),
    "no file": ("nowhere.csv", None),
    "no ending": ("table", TEXT),
    "a picture": ("t.png", b"\x89PNG\r\n\x1a\n"),
}
"""The name of the file, and what it holds; ``None`` for a folder, or for nothing."""


SAID: dict[str, str | tuple[str, str | None]] = {
    "text in a column of numbers": "row 6, column 'Ti49': 'high' is not a number",
    "an empty file": "t.csv: the file is empty. Export it again",
    "only blank lines": "t.csv: the file is empty",
    "a header and nothing else": "there is a header and no measurement under it",
    "one source": ("1 source cannot be split: it takes 6 at least", "the measurements scatter 68 times more"),
    "five sources": ("5 sources cannot be split: it takes 6 at least", None),
    "one measurement of each source": ("no source has two measurements", None),
    "two columns of one name": "column 'K39': 2 columns have this name (columns 2 and 3 from the left)",
    "a column without a name": "column 3 from the left (C in Excel) holds values but has no name in row 1",
    "a column without values": ("column 'Ca42': the column has no values", None),
    "a column of nan": ("column 'Ca42': 'nan' is not a finite number", None),
    "an infinite value": "row 4, column 'K39': 'inf' is not a finite number",
    "a value that floating point has not": "row 4, column 'K39': '1e999' is not a finite number",
    "an empty cell": "row 4, column 'K39': the cell is empty",
    "an empty source": "row 4, column 'source': the source is empty",
    "a row that is too short": "row 5: 4 fields where the header has 5",
    "a row that is too long": "row 5: 6 fields where the header has 5",
    "another delimiter from row 6 on": "rows 6, 7, 8 and 29 more: the header has commas between the columns, here",
    "bars between the columns": "row 1: the header 'source|K39|Ti49|Mn55|Rb85' is one single column",
    "spaces between the columns": "row 1: the header 'source K39 Ti49 Mn55 Rb85' is one single column",
    "decimal points and commas": "row 5, column 'K39': a decimal comma ('-0,94082') in a file of decimal points",
    "a mark of thousands": "row 4, column 'K39': '1.234.567' has thousands marks",
    "a value below the limit": "row 4, column 'K39': '<0.02' is below the detection limit. Say what",
    "a constant column": ("column 'Ca42': the feature is constant (7) and tells nothing", None),
    "a total": ("column 'total': the feature follows from 'K39', 'Ti49', 'Mn55' and 'Rb85' in every row", None),
    "a copied column": ("column 'copy': the feature has the values of 'K39' in every row", None),
    "a number of the piece": ("column 'piece': the feature looks like an instance number", None),
    "a year of each source": ("column 'year': the feature is the same in all measurements of a source", None),
    "a copied row": ("row 38 repeats row 2 of source 'S000'", None),
    "no column of sources": (
        "no column is named 'source' (the table has 'window',",
        "column 'window': the column differs within what would be one item",
    ),
    "no header": (
        "if the table has no header, add a row of names on top",
        "the system needs 'K39', 'Ti49', 'Mn55' and 'Rb85'",
    ),
    "columns and rows turned around": "row 1, column 'S000': 3 columns have this name",
    "a quotation mark that is never closed": "row 4: the quotation marks do not pair up",
    "UTF-16": "the file is in UTF-16 ('Unicode Text' in Excel), not in UTF-8",
    "a file with NUL": "the content is binary, not text",
    "a PDF with another ending": "the header '%PDF-1.7' is one single column",
    "a page of HTML": "the header '<!DOCTYPE html>' is one single column",
    "JSON": "there is a header and no measurement under it",
    "a workbook called .csv": "the content is that of an Excel workbook, not of a text file",
    "text called .xlsx": "the content is not that of an Excel workbook",
    "an old workbook called .xlsx": "this is an old .xls workbook, or one that is protected with a password",
    "a workbook with a password": "or one that is protected with a password. Open it in Excel, take the password off",
    "an old workbook": "tables of the kind .xls are not read",
    "an OpenDocument table": "tables of the kind .ods are not read",
    "a workbook cut off": "the workbook is damaged",
    "a workbook without its sheet": "the workbook is damaged",
    "an empty sheet": "the sheet 'Sheet1' is empty. Name another one with --sheet",
    "a chart before the table": "the first sheet 'Sheet1' was read, of 'Sheet1' and 'Sheet2'. Name another one with --sheet",
    "all sheets hidden": "all sheets of the workbook are hidden ('Sheet1'). Name the one to read with --sheet",
    "hidden rows": "row 37: 1 row with values is hidden in the sheet",
    "merged cells of the source": "Name the source in every row; merged cells hold their text in the first row",
    "a formula without a value": "row 37, column 'K39': the cell holds a formula whose value was never calculated",
    "an error of a formula": "row 4, column 'K39': '#DIV/0!' is the error of an Excel formula",
    "dates in place of numbers": "row 4, column 'K39': '2026-01-02' is not a number",
    "numbers shown as per cent": "row 37, column 'K39': a cell holds '0.5 shown as per cent' in Excel",
    "a title of as many cells as columns": (
        "row 2: the row under the header holds no number ('source', 'K39', 'Ti49', 'Mn55' and 'Rb85')",
        "row 2: the row under the header holds no number",
    ),
    "a title above years": "which row is the header? 'Glass of 2026' (row 1) does not name every column that holds values",
    "a unit that nobody knows": "row 2: the row under the header holds no number ('furlong',",
    "two units of one column": "row 2, column 'K39 [ppm]': the header says ppm (row 1), and the row of units says %",
    "a folder": ("this is a folder, not a file. Give the name of a table in it", "the folder holds no table"),
    "no file": "nowhere.csv: there is no such file in",
    "no ending": "the file name has no ending. Give a file that ends in .csv",
    "a picture": "the ending '.png' is not known",
}
"""What is said of it; and, where that differs, of such a trace of a case, or ``None`` where it is no harm there."""


def write(name: str, folder: Path) -> Path:
    """The spoilt table in this folder."""
    file, data = SPOILT[name]
    path = folder / file
    if data is not None:
        path.write_bytes(data)
    elif name == "a folder":
        path.mkdir()
    return path


COMMANDS: dict[str, list[str]] = {
    "check": ["check", "{table}"],
    "train": ["train", "{table}", "--model", "tlm", "--replicates", "0", "--out", "system.safetensors"],
    "run": ["run", "--data", "{table}", "--models", "tlm", "--splits", "2", "--out", "results/t"],
    "case": ["case", str(SYSTEM), "--trace", "{table}", "--ref", "ref.csv", "--out", "report.html"],
    "a folder of reports": ["case", str(SYSTEM), "--trace", "{table}", "--ref", "ref.csv", "--out", "reports"],
    "evaluate": ["evaluate", str(SYSTEM), "{table}", "--out", "validation"],
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_table_ends_in_one_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = write(name, tmp_path)
    (tmp_path / "ref.csv").write_bytes(text([row[1:] for row in good(1)]))
    before = sorted(tmp_path.rglob("*"))
    of_table, of_case = SAID[name] if isinstance(SAID[name], tuple) else (SAID[name], SAID[name])
    for command, arguments in COMMANDS.items():
        in_case = arguments[0] == "case"
        message = of_case if in_case else of_table
        if message is None or (arguments[0] == "evaluate" and SAID[name] != of_table):
            continue
        answer = lindley(*(table.name if each == "{table}" else each for each in arguments))
        assert answer.status == 2, command
        said = " ".join(answer.text.split())
        assert message in said, (command, said)
        assert "Traceback" not in said
        assert "not made for" not in said
        assert sorted(tmp_path.rglob("*")) == before, command


def test_nothing_else_is_spoilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table that all of these were made of can be used."""
    monkeypatch.chdir(tmp_path)
    for file, data in (("t.csv", TEXT), ("t.xlsx", BOOK)):
        (tmp_path / file).write_bytes(data)
        assert lindley("check", file).status == 0


def test_what_fails_later_leaves_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six sources can be split, and are too few for some models: the run ends there, and its folder says so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(text(good(6)))
    answer = lindley("run", "--data", "t.csv", "--models", "robust", "--splits", "2", "--out", "results")
    assert answer.status == 2
    assert "the robust model needs six sources or more, and four groups with a source that was measured" in answer.err
    for command in ("report", "compare"):
        answer = lindley(command, "results")
        assert answer.status == 2
        assert "holds no results.json. Its run is not finished" in " ".join(answer.err.split())

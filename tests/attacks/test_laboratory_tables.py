"""Tables as laboratories have them: titles above the header, units below it, and options that are kept beside the data.

Nothing is guessed in silence: what was found is said, what could be two things is asked, and a table whose first row names its
columns is read as if nothing were ever looked for.
"""

from __future__ import annotations

import io
import json
import os
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

import lindley as lindley_package
from lindley.casework.laboratory import READING as CASE_FILE_READING
from lindley.cli.options import CASE_READING, READING
from lindley.errors import LindleyError
from lindley.settings import setting, speaking, spoken
from lindley.table import Table, TableError, examine_table, read_table
from lindley.table.config import DataConfig
from lindley.table.table import with_unit
from lindley.table.units import is_known_unit, is_unit, split_unit
from tests.attacks.door import Answer, lindley
from tests.casework.factory import FEATURES, items, population
from tests.casework.golden.make import FOLDER

SYSTEM = FOLDER / "normal-logistic.safetensors"
HEADER = ["source", *FEATURES]
Rows = list[list[Any]]


@pytest.fixture(autouse=True)
def on_the_command_line() -> Iterator[None]:
    with speaking("shell"):
        yield


def measured(sources: int = 8) -> Rows:
    values, labels = population(sources, 3, 7)
    return [[str(label), *np.round(row, 5).tolist()] for label, row in zip(labels, values, strict=True)]


def as_text(rows: Rows, between: str = ",", mark: str = ".") -> bytes:
    def field(cell: Any) -> str:
        text = "" if cell is None else str(cell).replace(".", mark) if isinstance(cell, float) else str(cell)
        return f'"{text}"' if between in text or "\n" in text else text

    return "\n".join(between.join(map(field, row)) for row in rows).encode() + b"\n"


def as_workbook(rows: Rows, merged: str | None = None) -> bytes:
    book, stream = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row or [None])
    if merged:
        book.active.merge_cells(merged)
    book.save(stream)
    return stream.getvalue()


KINDS = ("a.csv", "b.csv", "c.txt", "d.xlsx")


def write(folder: Path, kind: str, rows: Rows) -> Path:
    """The same rows with commas, with semicolons and decimal commas, with tabs, or as a workbook."""
    path = folder / kind
    between, mark = {"a.csv": (",", "."), "b.csv": (";", ","), "c.txt": ("\t", ".")}.get(kind, (",", "."))
    path.write_bytes(as_workbook(rows) if kind == "d.xlsx" else as_text(rows, between, mark))
    return path


def same(one: Table, other: Table) -> None:
    assert one.features == other.features
    assert one.units == other.units
    np.testing.assert_array_equal(one.values, other.values)
    for name in ("source", "group", "instance"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


TITLES: dict[str, tuple[Rows, int]] = {
    # rows above the header, and the row of the header in Excel
    "one": ([["Glass of 2026"]], 2),
    "one, and an empty row": ([["Glass of 2026"], []], 3),
    "an empty row first": ([[], ["Glass of 2026"], []], 4),
    "three": ([["Glass of 2026"], ["Operator: J. de Vries"], ["LA-ICP-MS, method 7"]], 4),
    "two cells": ([["Date", "2026-01-02"]], 2),
    "two cells and one": ([["Date", "2026-01-02"], ["Glass"], []], 4),
    "a name that looks like a column": ([["source"]], 2),
    "a number": ([[2026]], 2),
    "a title further to the right": ([[None, None, "Glass of 2026"]], 2),
    "commas and quotation marks": ([["Glass, float; of 2026, 'all'"]], 2),
    "two lines in a cell": ([["Glass\nof 2026"]], 2),
    "padded with empty cells": ([["Glass of 2026", None, None, None, None]], 2),
    "groups of columns": ([[None, "alkali", None, "others"]], 2),
    "twenty rows": ([[f"remark {k}"] for k in range(20)], 21),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TITLES)
def test_a_title_is_found_and_said(name: str, kind: str, tmp_path: Path) -> None:
    above, row = TITLES[name]
    plain = read_table(write(tmp_path, kind, [HEADER, *measured()]))
    table = read_table(write(tmp_path, kind, [*above, HEADER, *measured()]))
    same(table, plain)
    (note,) = (each for each in table.findings if each.code == "header-row")
    assert note.level == "note"
    assert f"the header was taken from row {row}; above it stands " in note.message
    first = next(cell for cells in above for cell in cells if cell is not None)
    assert " ".join(str(first).split()) in note.message
    assert str(note).endswith("If another row is the header, say which with --header-row.")
    told = read_table(write(tmp_path, kind, [*above, HEADER, *measured()]), header_row=row)
    same(told, plain)
    assert [each.message for each in told.findings if each.code == "header-row"] == [
        note.message.replace(f"row {row};", f"row {row}, as was asked;")
    ]


@pytest.mark.parametrize("kind", ["a.csv", "d.xlsx"])
def test_rows_are_those_of_the_file(kind: str, tmp_path: Path) -> None:
    rows = [["Glass of 2026"], [], HEADER, ["unit", *["ppm"] * 4], *measured()]
    rows[10][2] = "high"
    (error,) = (each for each in examine_table(write(tmp_path, kind, rows)).findings if each.level == "error")
    assert str(error).startswith(f"{kind}, row 11, column 'Ti49 [ppm]': 'high' is not a number.")


def test_a_merged_title(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(as_workbook([["Glass of 2026"], HEADER, *measured()], "A1:E1"))
    same(read_table(path), read_table(write(tmp_path, "a.csv", [HEADER, *measured()])))


def test_a_title_beside_the_table_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(as_workbook([["Glass", *[None] * 9, "confidential"], HEADER, *measured()]))
    assert read_table(path).features == FEATURES


ASKED: dict[str, tuple[Rows, str, int]] = {
    # the first rows, the code of the question, and the row that it names
    "a title over masses": ([["Glass"], ["source", 23, 24, 27, 39]], "which-header", 2),
    "a title over years": ([["Glass"], [], ["source", 2021, 2022, 2023, 2024]], "which-header", 3),
    "a title of most columns": ([["Date", "Monday", "by", "me"], HEADER], "which-header", 2),
    "a title of all columns": ([["Date", "Monday", "by", "me", "too"], HEADER], "which-units", 2),
    "a title over a header with a gap": ([["Glass"], ["source", "K39", None, "Mn55", "Rb85"]], "which-header", 2),
    "a title over names that repeat": ([["Glass"], ["source", "K39", "K39", "Mn55", "Rb85"]], "which-header", 2),
    "two headers": ([HEADER, ["source", "a", "b", "c", "d"]], "which-units", 2),
    "unknown units": ([HEADER, [None, "foo", "bar", "baz", "qux"]], "which-units", 2),
    "unknown units, and none of a count": ([["nr", *HEADER], [None, None, "a", "b", "c", "d"]], "which-units", 2),
    "one unknown unit": ([HEADER, [None, "ppm", "ppm", "ppm", "qux"]], "which-units", 2),
    "chemical elements": ([["source", "w", "x", "y", "z"], [None, "K", "V", "W", "C"]], "which-units", 2),
    "units with a label beside": ([HEADER, ["S000", "ppm", "mg/kg", "%", "g"]], "which-units", 2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ASKED)
def test_what_could_be_two_things_is_asked(name: str, kind: str, tmp_path: Path) -> None:
    first, code, row = ASKED[name]
    numbered = len(first[0]) > 5
    path = write(tmp_path, kind, [*first, *([[at, *row] if numbered else row for at, row in enumerate(measured())])])
    found = examine_table(path)
    assert found.table is None
    (asked,) = (each for each in found.findings if each.code == code)
    assert asked.level == "error"
    assert f"--header-row {row}" in str(asked)
    told = examine_table(path, header_row=row, source=str(first[-1][0]))
    assert not [each for each in told.findings if each.code == code]


NEVER: dict[str, Rows] = {
    # first rows of tables that are read as if nothing were looked for
    "years": [["source", 2021, 2022, 2023, 2024]],
    "masses": [["source", "23", "24", "27", "39"]],
    "units as names": [["source", "ppm", "mg", "kg", "s"]],
    "sentences as names": [["source", "the first of all", "the second, perhaps", "a third", "and so on"]],
    "dates as names": [["source", "2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"]],
    "capitals": [["SOURCE", "A", "B", "C", "D"]],
    "an empty row first": [[], HEADER],
    "a label that is a title": [HEADER, ["Glass of 2026", 1.5, 2.5, 3.5, 4.5]],
    "a label that is a unit": [HEADER, ["ppm", 1.5, 2.5, 3.5, 4.5]],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NEVER)
def test_a_first_row_that_names_every_column_is_the_header(name: str, kind: str, tmp_path: Path) -> None:
    rows = [*NEVER[name], *measured()]
    path = write(tmp_path, kind, rows)
    found = read_table(path)
    header = next(row for row in rows if row)
    records = [row for row in rows if row][1:]
    columns = {str(label): [row[at] for row in records] for at, label in enumerate(header)}
    np.testing.assert_array_equal(found.values, read_table(columns).values)
    assert found.features == tuple(str(each) for each in header[1:])
    assert not {each.code for each in found.findings} & {"header-row", "units-row"}


cells = st.one_of(
    st.text(string.ascii_letters + string.digits + " .%/[]()<-", min_size=1, max_size=8).map(str.strip).filter(bool),
    st.integers(0, 3000).map(str),
    st.sampled_from(["ppm", "mg/kg", "unit", "-", "n.d.", "<0.02", "nan", "K", "Na [ppm]"]),
)
some_titles = st.lists(st.lists(cells, min_size=1, max_size=2), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(cells, min_size=2, max_size=6, unique_by=lambda text: text.casefold()), data=st.data())
def test_law_no_header_changes_a_table_that_has_one(names: list[str], data: Any, tmp_path: Path) -> None:
    """Whatever the names are and the labels say: where numbers are under a full first row, they are all read."""
    labels = data.draw(st.lists(cells, min_size=1, max_size=3))
    rows = [["source", *names], *([label, *np.arange(len(names)) + at] for at, label in enumerate(labels))]
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join("\t".join(map(str, row)) for row in rows).encode())
    found = examine_table(path, purpose="whole", header_row=None)
    codes = {each.code for each in found.findings}
    assert not codes & {"header-row", "units-row", "which-header", "which-units", "no-header-row"}
    assert codes == {each.code for each in examine_table(path, purpose="whole", header_row=1).findings}
    if found.table is not None:
        assert len(found.table.values) == len(labels)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(titles=some_titles, kind=st.sampled_from(["a.csv", "c.txt"]))
def test_law_titles_change_nothing(titles: list[list[str]], kind: str, tmp_path: Path) -> None:
    """A title of at most half of the columns leaves the table as it is, and the header is told by its row in the file."""
    table = read_table(write(tmp_path, kind, [*titles, HEADER, *measured()]))
    same(table, read_table(write(tmp_path, kind, [HEADER, *measured()])))
    assert f"row {len(titles) + 1};" in next(each.message for each in table.findings if each.code == "header-row")


HEADER_ROWS: dict[str, tuple[int, str]] = {
    "an empty row": (2, "row 2, and that row is empty or is not there: the first that is not empty is row 1"),
    "beyond the end": (400, "row 400, and that row is empty or is not there"),
    "a row of numbers": (4, "no column is named 'source'"),
    "the title": (1, "holds values but has no name in row 1"),
}


@pytest.mark.parametrize("kind", ["b.csv", "d.xlsx"])
@pytest.mark.parametrize("name", HEADER_ROWS)
def test_header_rows_that_are_none(name: str, kind: str, tmp_path: Path) -> None:
    row, message = HEADER_ROWS[name]
    path = write(tmp_path, kind, [["Glass"], [], HEADER, *measured()])
    answer = lindley("check", path, "--header-row", str(row))
    assert answer.status == 2
    if kind == "b.csv" and name == "the title":
        message = "is one single column"  # with nothing that parts it from others
    assert message in " ".join(answer.text.split())


@pytest.mark.parametrize("row", [0, -1, 1.0, True, "3"])
def test_header_rows_that_do_not_count(row: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", [HEADER, *measured()])
    with pytest.raises(LindleyError, match="--header-row is a whole number from 1 on, and not "):
        read_table(path, header_row=row)


@pytest.mark.parametrize("row", ["0", "-1", "1.5", "", "x", "99999999999999999999", "1e3"])
@pytest.mark.parametrize("command", ["check", "run", "case"])
def test_header_rows_that_no_command_takes(row: str, command: str, tmp_path: Path) -> None:
    answer = lindley(*commands(tmp_path)[command], f"--header-row={row}")
    assert answer.status == 2
    assert "--header-row" in answer.err
    assert "not made for" not in answer.err


@pytest.mark.parametrize("kind", ["a.csv", "d.xlsx"])
def test_measurements_above_a_header_are_not_lost_in_silence(kind: str, tmp_path: Path) -> None:
    """Two exports, one under the other: the second header was asked for."""
    path = write(tmp_path, kind, [HEADER, *measured(3), HEADER, *measured()])
    table = read_table(path, header_row=11)
    assert len(table.values) == 24
    (warned,) = (each for each in table.findings if each.code == "rows-above-header")
    assert (warned.level, warned.rows) == ("warning", tuple(range(2, 11)))
    assert "most of the cells are numbers: is row 11 right?" in warned.message


def test_a_table_in_memory_has_no_header_row() -> None:
    with pytest.raises(LindleyError, match="--header-row is of a file: a table in memory has names of its own"):
        read_table({"source": ["a"], "x": [1.0]}, header_row=1)
    with pytest.raises(LindleyError, match="knows its columns: leave out --header-row"):
        read_table("glass-simulated", header_row=1)


UNITS: dict[str, tuple[list[Any], tuple[str | None, ...]]] = {
    "one for all": ([None, "ppm", "ppm", "ppm", "ppm"], ("ppm",) * 4),
    "several": ([None, "mg/kg", "µg/g", "%", "counts"], ("mg/kg", "µg/g", "%", "counts")),
    "the word": (["unit", "ppm", "wt.%", "cps", "mg kg-1"], ("ppm", "wt.%", "cps", "mg kg-1")),
    "the Dutch word": (["Eenheid:", "ppm", "wt %", "‰", "mol/L"], ("ppm", "wt %", "‰", "mol/L")),
    "some without": ([None, "ppm", None, "-", "ppb"], ("ppm", None, None, "ppb")),
    "between brackets": (["[unit]", "[ppm]", "(%)", "[au, dry]", "[furlong]"], ("ppm", "%", "au, dry", "furlong")),
    "powers": (["-", "mg·kg⁻¹", "m^2", "counts/s", "1/s"], ("mg·kg⁻¹", "m^2", "counts/s", "1/s")),
}


@pytest.mark.parametrize("kind", ["a.csv", "c.txt", "d.xlsx"])
@pytest.mark.parametrize("name", UNITS)
def test_a_row_of_units_is_read_as_units(name: str, kind: str, tmp_path: Path) -> None:
    row, units = UNITS[name]
    table = read_table(write(tmp_path, kind, [HEADER, row, *measured()]))
    assert (table.features, table.units) == (FEATURES, units)
    assert len(table.values) == 24
    (note,) = (each for each in table.findings if each.code == "units-row")
    assert (note.level, note.rows) == ("note", (2,))
    assert f"K39 in {units[0]}" in note.message
    in_header = [with_unit(each, unit) for each, unit in zip(FEATURES, units, strict=True)]
    same(table, read_table(write(tmp_path, kind, [["source", *in_header], *measured()])))


def test_units_told_twice(tmp_path: Path) -> None:
    header = ["source", "K39 [ppm]", "Ti49 (PPM)", "Mn55 (ICP)", "Rb85"]
    table = read_table(write(tmp_path, "a.csv", [header, [None, "ppm", "ppm", "ppm", "ppm"], *measured()]))
    assert table.features == ("K39", "Ti49", "Mn55 (ICP)", "Rb85")
    with pytest.raises(TableError, match=r"row 2, column 'K39 \[ppm\]': the header says ppm \(row 1\), .* says %"):
        read_table(write(tmp_path, "a.csv", [header, [None, "%", "%", "%", "%"], *measured()]))
    with pytest.raises(LindleyError, match="--units says that K39 is in ppb, and its header says ppm"):
        read_table(write(tmp_path, "a.csv", [HEADER, [None, *["ppm"] * 4], *measured()]), units="ppb")


def test_columns_are_still_called_by_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", [["item", *FEATURES], [None, *["ppm"] * 4], *measured()])
    assert read_table(path, source="item", ignore=["K39"]).header == ("Ti49 [ppm]", "Mn55 [ppm]", "Rb85 [ppm]")
    assert read_table(path, source="item", include=["Rb85"]).header == ("Rb85 [ppm]",)


@pytest.mark.parametrize("named", [True, False])
def test_labels_have_no_unit(named: bool, tmp_path: Path) -> None:
    """A number of the piece stays one, whatever stands under its name."""
    label = "piece" if named else "instance"
    rows = [[row[0], at % 3 + 1, *row[1:]] for at, row in enumerate(measured())]
    header, units = ["source", label, *FEATURES], [None, "counts", *["ppm"] * 4]
    table = read_table(write(tmp_path, "d.xlsx", [header, units, *rows]), instance=label if named else None)
    assert table.header == tuple(f"{each} [ppm]" for each in FEATURES)
    assert set(table.instance) == {"1", "2", "3"}


def test_a_unit_of_labels_alone_makes_no_row_of_units(tmp_path: Path) -> None:
    rows = [[row[0], at % 3 + 1, *row[1:]] for at, row in enumerate(measured())]
    header, units = ["source", "instance", *FEATURES], [None, "counts", *[None] * 4]
    with pytest.raises(TableError, match=r"row 2, column 'source': the source is empty"):
        read_table(write(tmp_path, "d.xlsx", [header, units, *rows]))


def trained_in_ppm(folder: Path) -> lindley_package.System:
    rows = [["Glass of 2026"], [], HEADER, ["unit", *["ppm"] * 4], *measured(12)]
    return lindley_package.train(read_table(write(folder, "d.xlsx", rows)), "tlm", replicates=0)


def test_a_case_in_other_units_is_refused(tmp_path: Path) -> None:
    system = trained_in_ppm(tmp_path)
    assert system.units == ("ppm",) * 4
    values = [row.tolist() for row in np.concatenate(items(5, 2, 3))]
    sides = []
    for side, unit, rows in (("t.csv", "ppm", values[:3]), ("r.csv", "mg/L", values[3:])):
        sides.append(tmp_path / side)
        sides[-1].write_bytes(as_text([["Item 1"], list(FEATURES), [unit] * 4, *rows]))
    with pytest.raises(
        TableError, match=r"column 'K39 \[mg/L\]': the values are in mg/L, and the system was trained on ppm"
    ):
        system.case(*sides)
    sides[1].write_bytes(as_text([list(FEATURES), ["ppm"] * 4, *values[3:]]))
    told = system.case(*sides).to_json()
    notes = [each["code"] for each in told["trace"]["findings"] if each["level"] == "note"]
    assert notes == ["header-row", "units-row"]
    assert told["trace"]["instances"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "/b",
        "/",
        "39",
        "1",
        "",
        "a>b",
        "<script>",
        "x=1",
        "a|b",
        "a\\b",
        " ppm",
        "x" * 31,
        "{x}",
        "&amp;",
        "a;b",
        "\x1b[2J",
    ],
)
def test_what_is_no_unit(text: str) -> None:
    assert not is_unit(text)
    if text.strip() == text and "[" not in text:
        assert split_unit(f"x[{text}]") == (f"x[{text}]", None)
    if text:
        with pytest.raises(LindleyError, match=r"--units gives the unit .* a unit has letters, or a sign such as %"):
            read_table({"source": list("aabb"), "x": [1.0, 2, 3, 4]}, units={"x": text}, purpose="whole")


def test_systems_that_took_anything_for_a_unit_still_find_their_columns() -> None:
    columns = {"K (39)": [1.0, 2.0], "Ti [ppm]": [3.0, 4.0]}
    known: Any = {"features": ["K", "Ti"], "units": ["39", "ppm"], "purpose": "case"}
    np.testing.assert_array_equal(read_table(columns, **known).values, [[1, 3], [2, 4]])
    with pytest.raises(TableError, match=r"the system needs 'K', and the table has no such column"):
        read_table({"K (40)": [1.0, 2.0], "Ti [ppm]": [3.0, 4.0]}, **known)


@given(st.text("abcµ%°/·^-., 0123456789²³()", min_size=1, max_size=12).filter(is_unit))
def test_law_a_unit_in_a_header_is_read_again(unit: str) -> None:
    assert split_unit(with_unit("K39", unit)) == ("K39", unit)


def test_known_units_are_units() -> None:
    known = [
        *(
            "mg/kg",
            "µg/g",
            "ug/g",
            "ng/mL",
            "ppm",
            "ppb",
            "%",
            "‰",
            "wt%",
            "wt.%",
            "mol/L",
            "counts",
            "counts/s",
            "cps",
        ),
        *("Hz", "kHz", "nm", "µm", "°C", "a.u.", "mg·kg⁻¹", "g/t"),
    ]
    assert all(is_known_unit(each) and is_unit(each) for each in known)
    names = [
        "source",
        "Na",
        "Na2O",
        "SiO2",
        "K",
        "V",
        "W",
        "C",
        "N",
        "F",
        "Mg",
        "Pa",
        "Au",
        "K39",
        "F1",
        "F2",
        "s1",
        "A",
        "B",
        "item",
        "piece",
        "LOD",
        "n.d.",
        "unit",
        "log10",
        "x",
    ]
    assert not [each for each in names if is_known_unit(each)]


# Every door to a table


def rows_with_title(items_: bool = True) -> Rows:
    header = ["item" if items_ else "source", *FEATURES]
    return [["Laboratory", "Here", "Examiner", "Me", "Too"], header, *measured(12)]


def sides_with_title(folder: Path) -> tuple[Path, Path]:
    values = [row.tolist() for row in np.concatenate(items(5, 2, 3))]
    for name, rows in (("t.csv", values[:3]), ("r.csv", values[3:])):
        (folder / name).write_bytes(as_text([["some", "words", "on", "top"], list(FEATURES), *rows]))
    return folder / "t.csv", folder / "r.csv"


def commands(folder: Path) -> dict[str, list[str | Path]]:
    table = write(folder, "a.csv", rows_with_title(items_=False))
    trace, ref = sides_with_title(folder)
    return {
        "check": ["check", table],
        "train": ["train", table, "--model", "tlm", "--replicates", "0", "--out", folder / "s.safetensors"],
        "run": ["run", "--data", table, "--models", "tlm", "--splits", "2", "--no-report", "--out", folder / "out"],
        "case": ["case", SYSTEM, "--trace", trace, "--ref", ref, "--json"],
        "evaluate": ["evaluate", SYSTEM, table, "--out", folder / "validation", "--allow-overlap"],
    }


@pytest.mark.parametrize("name", ["check", "train", "run", "case", "evaluate"])
def test_every_command_takes_the_row(name: str, tmp_path: Path) -> None:
    arguments = commands(tmp_path)[name]
    refused = lindley(*arguments)
    assert refused.status == 2
    assert "is it the header, or does it give units? If it is the header, say so with --header-row 2" in " ".join(
        refused.text.split()
    )
    answer = lindley(*arguments, "--header-row", "2")
    assert answer.status == 0, answer.err
    assert "the header was taken from row 2, as was asked" in " ".join(answer.text.split())
    if name == "case":
        assert "--header-row 2" in json.loads(answer.out)["command"]


def test_files_of_experiments_and_cases_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    every = commands(tmp_path)
    (tmp_path / "x.yaml").write_text("data: {data: a.csv, header_row: 2}\nmodels: [tlm]\nprotocol: {splits: 2}\n")
    assert lindley("run", "x.yaml", "--no-report", "--out", "out").status == 0
    kept = yaml.safe_load((tmp_path / "out" / "experiment.yaml").read_text(encoding="utf-8"))
    assert kept["data"]["header_row"] == 2
    (tmp_path / "case.yaml").write_text("case: 2026-17\nheader_row: 2\n")
    told = json.loads(lindley(*every["case"], "--case-file", "case.yaml").out)
    assert told["case"] == "2026-17"
    assert "--header-row 2" in told["command"]
    for text, message in (
        ("header_row: yes", "line 1, header_row: Input should be a valid integer"),
        ("header_row: 0", "line 1, header_row: Input should be greater than or equal to 1"),
        ("header_raw: 2", "there is no such entry: case, examiner,"),
        ("transform: log10", "there is no such entry: case, examiner,"),
    ):
        (tmp_path / "case.yaml").write_text(f"{text}\n")
        answer = lindley(*every["case"], "--case-file", "case.yaml")
        assert (answer.status, answer.out) == (2, "")
        assert message in " ".join(answer.err.split())


def test_the_words_of_each_door() -> None:
    for language, words in (("shell", "--header-row 3"), ("yaml", "header_row: 3"), ("python", "header_row=3")):
        with speaking(language):  # type: ignore[arg-type]
            assert spoken(setting("header_row", "3")) == words


def test_one_list_of_options() -> None:
    assert set(READING) == {*DataConfig.options(), "no_profile"}
    assert set(CASE_FILE_READING) == {"source_column", *CASE_READING}


# A profile beside the data


def kept(folder: Path, text: str | bytes) -> Path:
    path = folder / "lindley.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def said(answer: Answer) -> str:
    return " ".join(answer.text.split())


def test_options_are_kept_and_found(tmp_path: Path) -> None:
    rows = [[*row, "remark" if at == 1 else f"r{at}"] for at, row in enumerate(rows_with_title())]
    table = write(tmp_path, "a.csv", rows)
    options = ["--source-column", "item", "--ignore-columns", "remark", "--header-row", "2"]
    refused = lindley("check", table, "--header-row", "2", "--keep-profile")
    assert refused.status == 2
    assert "lindley.yaml was not written, as the table cannot be used." in said(refused)
    assert not (tmp_path / "lindley.yaml").exists()
    answer = lindley("check", table, *options, "--keep-profile")
    assert answer.status == 0, answer.text
    assert yaml.safe_load((tmp_path / "lindley.yaml").read_text(encoding="utf-8")) == {
        "source_column": "item",
        "ignore_columns": ["remark"],
        "header_row": 2,
    }
    again = lindley("check", table)
    assert again.status == 0
    assert (
        "lindley.yaml in its folder was used: --source-column item, --ignore-columns remark and --header-row 2."
        in said(again)
    )
    assert "is there already. Change it in an editor, or remove it first." in said(
        lindley("check", table, *options, "--keep-profile")
    )
    assert "lindley.yaml in its folder" not in said(lindley("check", table, *options, "--no-profile"))
    assert lindley("check", table, "--no-profile").status == 2


def test_nothing_to_keep(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", [HEADER, *measured()])
    assert "no option was given that describes the table" in said(lindley("check", table, "--keep-profile"))
    assert "glass-simulated is no file" in said(lindley("check", "glass-simulated", "--keep-profile", "--sheet", "x"))
    assert not (tmp_path / "lindley.yaml").exists()


def test_names_that_yaml_would_read_otherwise_are_kept(tmp_path: Path) -> None:
    names = ["yes", "2024", "null", "a: b", "# x", "'q'", "é – ü", "[x]"]
    rows = [["source", *names, *FEATURES], *([row[0], *["x"] * len(names), *row[1:]] for row in measured())]
    table = write(tmp_path, "c.txt", rows)
    assert lindley("check", table, "--ignore-columns", ",".join(names), "--keep-profile").status == 0
    assert DataConfig(data=str(table)).with_profile().ignore_columns == tuple(names)


def test_what_is_given_wins_key_by_key(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", rows_with_title())
    kept(tmp_path, "source_column: window\nheader_row: 2\n")
    answer = lindley("check", table, "--source-column", "item")
    assert answer.status == 0
    assert (
        "was used: --header-row 2. Not used of it, as the command or the system settles that: --source-column window."
        in said(answer)
    )


def test_results_hold_the_values(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", rows_with_title())
    kept(tmp_path, "source_column: item\nheader_row: 2\n")
    out = tmp_path / "out"
    run = ["run", "--data", table, "--models", "tlm", "--splits", "2", "--no-report", "--out"]
    assert "lindley.yaml in its folder was used" in said(lindley(*run, out))
    told = yaml.safe_load((out / "experiment.yaml").read_text(encoding="utf-8"))["data"]
    assert told == {"data": "a.csv", "source_column": "item", "header_row": 2, "no_profile": True}
    system = tmp_path / "s.safetensors"
    assert lindley("train", table, "--model", "tlm", "--replicates", "0", "--out", system).status == 0
    configuration = json.loads(lindley("info", system, "--json").out)["configuration"]
    assert (configuration["source_column"], configuration["header_row"], configuration["no_profile"]) == (
        "item",
        2,
        True,
    )
    kept(tmp_path, "source_column: item\nheader_row: 2\nignore_columns: [K39]\n")
    assert lindley(*run, tmp_path / "other").status == 0
    changed = yaml.safe_load((tmp_path / "other" / "experiment.yaml").read_text(encoding="utf-8"))["data"]
    assert changed == {**told, "ignore_columns": ["K39"]}


def test_each_side_of_a_case_has_its_own_folder(tmp_path: Path) -> None:
    for name in ("traces", "refs"):
        (tmp_path / name).mkdir()
    values = [row.tolist() for row in np.concatenate(items(5, 2, 3))]
    trace, ref = tmp_path / "traces" / "t.csv", tmp_path / "refs" / "r.csv"
    trace.write_bytes(as_text([["some", "words", "on", "top"], list(FEATURES), *values[:3]]))
    ref.write_bytes(as_text([["window", *FEATURES], *(["W1", *row] for row in values[3:])]))
    kept(tmp_path / "traces", "header_row: 2\ntransform: log10\n")
    kept(tmp_path / "refs", "source_column: window\n")
    told = json.loads(lindley("case", SYSTEM, "--trace", trace, "--ref", ref, "--json").out)
    profile = {
        side: [each["message"] for each in told[side]["findings"] if each["code"] == "profile"]
        for side in ("trace", "ref")
    }
    assert profile == {
        "trace": [
            "t.csv: lindley.yaml in its folder was used: --header-row 2. Not used of it, as the command or the system "
            "settles that: --transform log10."
        ],
        "ref": ["r.csv: lindley.yaml in its folder was used: --source-column window."],
    }
    assert "--header-row" not in told["command"]
    one = json.loads(lindley("case", SYSTEM, "--trace", trace, "--ref", trace, "--json", "--allow-same-file").out)
    assert "--trace t.csv --ref t.csv --header-row 2 --no-profile" in one["command"]
    of_folder = lindley("case", SYSTEM, "--trace", tmp_path / "traces", "--ref", ref, "--json")
    assert of_folder.status == 0, of_folder.err
    assert "traces: lindley.yaml in its folder was used: --header-row 2" in of_folder.out


def test_a_page_says_that_a_profile_was_used(tmp_path: Path) -> None:
    trace, ref = sides_with_title(tmp_path)
    kept(tmp_path, "header_row: 2\n")
    assert lindley("case", SYSTEM, "--trace", trace, "--ref", ref, "--out", tmp_path / "r.html").status == 0
    assert "lindley.yaml in its folder was used: --header-row 2" in (tmp_path / "r.html").read_text(encoding="utf-8")


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "another table": ("data: /etc/passwd", "there is no option 'data' of a table"),
    "a folder of results": ("folder: /tmp", "there is no option 'folder' of a table"),
    "an experiment": (
        "data: a.csv\nmodels: [tlm]",
        "If the file is for something else, leave it alone with --no-profile.",
    ),
    "models": ("models: [tlm]", "there is no option 'models' of a table"),
    "a slip of the keys": ("sorce_column: item", "no option 'sorce_column' of a table. Did you mean 'source_column'?"),
    "the option of a command": ("source-column: item", "Did you mean 'source_column'?"),
    "itself": ("no_profile: true", "there is no option 'no_profile' of a table"),
    "code": ("source_column: !!python/object/apply:os.system [id]", "is not YAML"),
    "a key of code": ("!!python/name:os.system : x", "is not YAML"),
    "a number as a key": ("1: x", "there is no option '1' of a table"),
    "a list": ("- source_column", "holds no options, such as source_column: item"),
    "nothing": ("", "holds no options"),
    "a comment alone": ("# source_column: item", "holds no options"),
    "a number": ("source_column: 7", "line 1, source_column: must be a text"),
    "a list of numbers": ("ignore_columns: [7]", "must be a text"),
    "a text for a list": ("ignore_columns: K39", "must be a list, such as [A, B]"),
    "yes for a row": ("header_row: yes", "header_row: Input should be a valid integer"),
    "a row that is none": ("header_row: -3", "header_row: Input should be greater than or equal to 1"),
    "a row in octal": ("header_row: 010", "write 010 as a plain whole number"),
    "a decimal mark that is none": ("decimal: ';'", "decimal: Input should be '.' or ','"),
    "twice": ("source_column: a\nsource_column: b", "the key 'source_column' stands on line 1 already"),
    "a bomb": ("a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{n}: &{n} [{', '.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)), "is too large"),
    "a large file": (b"# " + b"x" * 300_000, "is too large"),
    "not UTF-8": (b"source_column: \xff\xfe\xfd", "is not UTF-8 text"),
    "a workbook": (b"PK\x03\x04" + bytes(range(256)), "is not"),
    "control characters": ("source_column: \"\\e[2J\"", "there is no column '\\x1b[2J'"),
    "a column that is not there": ("group_column: vehicle", "there is no column 'vehicle', as --group-column asks for"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_profile_does_no_harm(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE[name]
    table = write(tmp_path, "a.csv", [HEADER, *measured()])
    place = kept(tmp_path, text)
    before = place.read_bytes()
    answer = lindley("check", table)
    assert answer.status == 2
    assert message in said(answer)
    assert "not made for" not in said(answer)
    assert place.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.csv", "lindley.yaml"]
    assert lindley("check", table, "--no-profile").status == 0


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of Unix")
@pytest.mark.parametrize("what", ["a link", "a link to nothing", "a pipe", "a folder"])
def test_a_profile_is_an_ordinary_file(what: str, tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", [HEADER, *measured()])
    place, elsewhere = tmp_path / "lindley.yaml", tmp_path / "other" / "secret"
    elsewhere.parent.mkdir()
    elsewhere.write_text("source_column: source\n")
    if what == "a pipe":
        os.mkfifo(place)
    elif what == "a folder":
        place.mkdir()
    else:
        place.symlink_to(elsewhere if what == "a link" else tmp_path / "gone")
    answer = lindley("check", table)
    assert answer.status == 2
    assert "lindley.yaml is no ordinary file. Remove it, or leave it alone with --no-profile." in said(answer)
    assert lindley("check", table, "--no-profile").status == 0
    assert "is there already" in said(lindley("check", table, "--sheet", "x", "--keep-profile"))


def test_tables_of_one_background_are_told_of_alike(tmp_path: Path) -> None:
    """A system says once how its tables were read, so that they can be read again; profiles that differ are asked about."""
    rows = measured(16)
    for name, some in (("old", rows[:24]), ("new", rows[24:])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_bytes(as_text([["item", *FEATURES], *some]))
    old, new, out = tmp_path / "old" / "a.csv", tmp_path / "new" / "a.csv", tmp_path / "s.safetensors"
    kept(tmp_path / "old", "source_column: item\n")
    train = ["train", old, new, "--model", "tlm", "--replicates", "0", "--out", out]
    assert "says different things of their tables. Give the options that hold for all" in said(lindley(*train))
    assert lindley(*train, "--source-column", "item").status == 0
    kept(tmp_path / "new", "source_column: item\n")
    answer = lindley(*train, "--force")
    assert answer.status == 0, answer.err
    assert said(answer).count("lindley.yaml in its folder was used: --source-column item.") == 2
    assert json.loads(lindley("info", out, "--json").out)["configuration"]["source_column"] == "item"
    assert "check one at a time" in said(lindley("check", old, new, "--sheet", "x", "--keep-profile"))


def test_more_background_is_read_as_its_folder_says(tmp_path: Path) -> None:
    rows = measured(24)
    for name, label, some in (("old", "item", rows[:36]), ("new", "window", rows[36:])):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.csv").write_bytes(as_text([[label, *FEATURES], *some]))
    kept(tmp_path / "old", "source_column: item\n")
    kept(tmp_path / "new", "source_column: window\n")
    out, more = tmp_path / "old" / "s.safetensors", tmp_path / "new" / "new.csv"
    assert (
        lindley("train", tmp_path / "old" / "old.csv", "--model", "tlm", "--replicates", "0", "--out", out).status == 0
    )
    answer = lindley("update", out, more)
    assert answer.status == 0, answer.err
    assert "lindley.yaml in its folder was used: --source-column window." in said(answer)
    assert lindley("update", out, more, "--no-profile", "--force").status == 2
    compared = lindley("evaluate", out, tmp_path / "old" / "s-2.safetensors", more, "--allow-overlap", "--json")
    assert compared.status == 0, compared.err
    assert "lindley.yaml in its folder was used: --source-column window." in compared.out


def test_python_reads_no_profile(tmp_path: Path) -> None:
    """What a program says is all that counts there."""
    table = write(tmp_path, "a.csv", [HEADER, *measured()])
    kept(tmp_path, "ignore_columns: [K39]\n")
    assert read_table(table).features == FEATURES
    assert DataConfig(data=str(table)).load().features == FEATURES
    assert DataConfig(data=str(table)).with_profile().load().features == FEATURES[1:]

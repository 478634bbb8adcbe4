"""Tables that would give a wrong LR, mix sources up, or fill the memory: each is read right, or refused with its reason.

A good table has 8 sources × 3 measurements of K39 and Ti49; row 1 is the header.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lindley.casework.case import make_case, read_evidence
from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.system.system import System, load
from lindley.table import Examination, Finding, examine_table, read_table
from tests.attacks.workbooks import book, cell, letters, line, sheet
from tests.bad_tables import (
    BAD_TABLES,
    COLUMN_HIDDEN,
    HEAD,
    HIDE,
    LABELS,
    LONG,
    ROWS_HIDDEN,
    VALUES,
    commas,
    good,
    odd_cells,
    put,
    shown,
    text,
)
from tests.casework.factory import FEATURES, items, write_csv
from tests.casework.golden.make import FOLDER


@pytest.fixture(autouse=True)
def on_the_command_line() -> Iterator[None]:
    with speaking("shell"):
        yield


def examine(folder: Path, file: str, data: bytes, **options: Any) -> Examination:
    path = folder / file
    path.write_bytes(data)
    return examine_table(path, **options)


def found(examined: Examination, code: str) -> Finding:
    """The first finding of a kind, where a column has one of it at most."""
    hits = [each for each in examined.findings if each.code == code]
    assert len({each.column for each in hits}) == len(hits) > 0, [str(each) for each in examined.findings]
    return hits[0]


# what is odd and has one meaning: the same numbers, in the same order
RIGHT: dict[str, tuple[str, Callable[[], bytes], dict[str, Any]]] = {
    "decimal commas": ("t.csv", lambda: text(commas(good()), ";"), {}),
    "decimal commas that are told": ("t.csv", lambda: text(commas(good()), ";"), {"decimal": ","}),
    "decimal points that are told": ("t.csv", lambda: text(good(), ";"), {"decimal": "."}),
    "rows out of order": (
        "t.xlsx",
        lambda: book(
            f"<sheetData>{''.join(line(at, row) for at, row in reversed([*enumerate(good(), 1)]))}</sheetData>"
        ),
        {},
    ),
    "cells out of order": (
        "t.xlsx",
        lambda: book(
            "<sheetData>"
            + "".join(
                f'<row r="{at}">{"".join(cell(at, k + 1, row[k]) for k in (2, 0, 1))}</row>'
                for at, row in enumerate(good(), 1)
            )
            + "</sheetData>"
        ),
        {},
    ),
    "cells without coordinates": (
        "t.xlsx",
        lambda: book(
            "<sheetData>"
            + "".join(
                "<row>"
                + "".join(
                    f'<c t="inlineStr"><is><t>{v}</t></is></c>' if isinstance(v, str) else f"<c><v>{v!r}</v></c>"
                    for v in row
                )
                + "</row>"
                for row in good()
            )
            + "</sheetData>"
        ),
        {},
    ),
    "a size that is too small": ("t.xlsx", lambda: book('<dimension ref="A1:B3"/>' + sheet(good())), {}),
    "a size that is too large": ("t.xlsx", lambda: book('<dimension ref="A1:XFD1048576"/>' + sheet(good())), {}),
    "hidden rows ignored": ("t.xlsx", lambda: book(ROWS_HIDDEN), {"hidden": "ignore"}),
    "a hidden empty row": ("t.xlsx", lambda: book(sheet(good(), f'<row r="26" {HIDE}/>')), {}),
    "a hidden empty column": (
        "t.xlsx",
        lambda: book(sheet(good(), before='<cols><col min="9" max="16384" hidden="1"/></cols>')),
        {},
    ),
    "a hidden column included": ("t.xlsx", lambda: book(COLUMN_HIDDEN), {"hidden": "include"}),
    "a hidden sheet before": ("t.xlsx", lambda: book(sheet([["x"]]), sheet(good()), states=["hidden", "visible"]), {}),
    "16,000 empty cells": ("t.xlsx", lambda: odd_cells("<c/>" * 16_000), {}),
    "thousands of empty rows": ("t.xlsx", lambda: book(sheet(good(), "<row/>" * 20_000)), {}),
    "a format with per cent in words": ("t.xlsx", lambda: shown('0.0000" %"'), {}),
    "a format with thousands marks": ("t.xlsx", lambda: shown("#,##0.0000"), {}),
    "mixed line ends": ("t.csv", lambda: text(good()).replace(b"\n", b"\r\n", 5).replace(b"\r\n", b"\r", 2), {}),
    "several marks of order": ("t.csv", lambda: b"\xef\xbb\xbf" * 3 + text(good()), {}),
    "quoted numbers": (
        "t.csv",
        lambda: text(
            [[f'"{v}"' if n and isinstance(v, float) else v for v in row] for n, row in enumerate(good())]
        ).replace(b'"""', b'"'),
        {},
    ),
    "an endless empty tail": ("t.csv", lambda: text(good()) + b",,\n" * 5000, {}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_read_right(name: str, tmp_path: Path) -> None:
    file, data, options = RIGHT[name]
    table = examine(tmp_path, file, data(), **options).table
    assert table is not None
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.source.tolist() == LABELS


def test_hidden_rows_count_where_that_is_said(tmp_path: Path) -> None:
    table = examine(tmp_path, "t.xlsx", book(ROWS_HIDDEN), hidden="include").table
    assert table is not None
    np.testing.assert_array_equal(table.values, [*VALUES, [1.25, 9.5], [1.26, 9.6]])


def test_hidden_columns_are_left_out_where_that_is_said(tmp_path: Path) -> None:
    table = examine(tmp_path, "t.xlsx", book(COLUMN_HIDDEN), hidden="ignore").table
    assert table is not None
    assert table.features == ("K39",)


@pytest.mark.parametrize("mark", [",", "."])
def test_a_decimal_mark_that_is_told_is_believed(mark: str, tmp_path: Path) -> None:
    rows = [HEAD, *([s, f"{n + 1}{mark}{n:03d}", n % 7] for n, s in enumerate(LABELS))]
    table = examine(tmp_path, "t.csv", text(rows, ";"), decimal=mark).table
    assert table is not None
    np.testing.assert_array_equal(table.values[:, 0], [float(f"{n + 1}.{n:03d}") for n in range(24)])


@pytest.mark.parametrize("options", [{"hidden": "show"}, {"decimal": "·"}, {"hidden": True}])
def test_choices_that_are_none(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match=r"--(hidden|decimal) is '"):
        examine(tmp_path, "t.csv", text(good()), **options)


# data frames
def test_numbers_of_a_frame_are_finite() -> None:
    frame = pd.DataFrame({"source": LABELS, "K39": VALUES[:, 0], "Ti49": [10**400, *VALUES[1:, 1]]})
    assert found(examine_table(frame), "not-finite").rows == (0,)
    frame["Ti49"] = [np.inf, *VALUES[1:, 1]]
    assert found(examine_table(frame), "not-finite").rows == (0,)
    frame["Ti49"] = [np.nan, *VALUES[1:, 1]]
    assert found(examine_table(frame), "missing-value").rows == (0,)


def test_sources_that_are_missing_are_not_one_source() -> None:
    numbers = np.repeat(np.arange(8.0), 3)
    numbers[5] = np.nan
    examined = examine_table(VALUES, source=numbers)
    assert found(examined, "empty-source").rows == (5,)
    assert found(examine_table(VALUES, source=np.repeat(np.arange(8) / 10, 3)), "numbers-as-labels").level == "warning"


def test_labels_that_numpy_would_cut() -> None:
    labels = ["S1\0", *LABELS[1:]]
    assert found(examine_table({"source": labels, "K39": VALUES[:, 0]}), "binary-label").rows == (0,)


def test_cells_that_are_no_plain_values() -> None:
    frame = {"source": [["a"], {"b": 1}, *LABELS[2:]], "K39": [object(), [1], 1j, *VALUES[3:, 0]]}
    assert found(examine_table(frame), "not-a-number").rows == (0, 1, 2)


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".csv", "a\0b.csv", "x" * 5000 + ".xlsx", "", ".", "..", "/", "\ud800.csv"]
)
def test_names_that_no_file_can_have(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for purpose in ("split", "case"):
        assert examine_table(name, purpose=purpose).table is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    assert found(examine_table(tmp_path / "t.csv"), "not-a-file").level == "error"


# memory and many of a kind
BIG: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a long label above many rows": (
        "t.csv",
        lambda: text([HEAD, [LONG, 1, 2], *([f"s{n}", n, 2] for n in range(5_000))]),
    ),
    "a cell in the last corner": ("t.xlsx", lambda: odd_cells(cell(1_048_576, 16_384, 1.0), 1_048_576)),
    "a row of many empty cells": ("t.xlsx", lambda: odd_cells("<c/>" * 200_000)),
    "rows with a cell far to the right": (
        "t.xlsx",
        lambda: book(
            sheet(
                [HEAD],
                "".join(
                    f'<row r="{at}">{cell(at, 1, "S")}{cell(at, 2, 1.5)}{cell(at, 16_000, 1)}</row>'
                    for at in range(2, 2000)
                ),
            )
        ),
    ),
}


@pytest.mark.parametrize("name", BIG)
def test_memory_grows_with_what_is_there(name: str, tmp_path: Path) -> None:
    file, data = BIG[name]
    path = tmp_path / file
    path.write_bytes(data())
    examine_table(path)  # once, so that nothing is loaded below
    tracemalloc.start()
    try:
        examine_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6


@pytest.mark.parametrize("variable", ["LINDLEY_MAX_LETTERS", "LINDLEY_MAX_COLUMNS", "LINDLEY_MAX_TABLE_MB"])
def test_limits_are_settable(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text([[*HEAD, "note"], *([*row, "x" * 60_000] for row in put((5, 0, "S2" + "y" * 400))[1:])]))
    refused = {"LINDLEY_MAX_COLUMNS": "3", "LINDLEY_MAX_TABLE_MB": "1"}.get(variable, "255")
    monkeypatch.setenv("LINDLEY_MAX_LETTERS", "1000")
    read_table(path, ignore=("note",), purpose="whole")
    monkeypatch.setenv(variable, refused)
    with pytest.raises(LindleyError, match=variable):
        read_table(path, ignore=("note",), purpose="whole")


@pytest.mark.parametrize("given", ["", "0", "-5", "1e6", "many", "9" * 50, "１２"])
def test_a_limit_that_is_no_number(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINDLEY_MAX_TABLE_MB", given)
    with pytest.raises(LindleyError, match=r"LINDLEY_MAX_TABLE_MB is .*give a whole number above 0"):
        examine(tmp_path, "t.csv", text(good()))


MANY: dict[str, tuple[Callable[[], bytes], dict[str, Any]]] = {
    "identical rows of a case": (lambda: b"K39,Ti49\n" + b"1.5,2.5\n" * 1000, {"purpose": "case"}),
    "identical rows": (lambda: text([HEAD, *(["S1", 1.5, 2.5] for _ in range(1000))]), {}),
    "one row of a thousand sources": (lambda: text([HEAD, *([f"S{n}", 1.5, 2.5] for n in range(1000))]), {}),
    "a thousand ways to write a label": (
        lambda: text([HEAD, *(["S" + " " * (n % 40) + "0" * (n // 40) + "1", n, 2.5] for n in range(1000))]),
        {},
    ),
    "a thousand columns of text": (
        lambda: text([["source", *(f"h{n}" for n in range(1000))], *([s, *"x" * 1000] for s in LABELS)]),
        {},
    ),
    "a thousand columns without names": (
        lambda: text([["source", *[""] * 1000], *([s, *range(1000)] for s in LABELS)]),
        {},
    ),
    "a thousand names twice": (
        lambda: text([["source", *(f"h{n // 2}" for n in range(2000))], ["S", *range(2000)]]),
        {},
    ),
    "rows of a thousand lengths": (
        lambda: b"source,K39\n" + b"".join(b"S" + b",x" * n + b"\n" for n in range(1000)),
        {},
    ),
    "a thousand labels with a space": (
        lambda: text([HEAD, *([f"S{n // 2}{' ' * (n % 2)}", n, 2.5] for n in range(2000))]),
        {},
    ),
    "a thousand constant columns": (
        lambda: text([["source", *(f"h{n}" for n in range(1000))], *([s, *[1.5] * 1000] for s in LABELS)]),
        {},
    ),
    "a thousand sources in two groups": (
        lambda: text([[*HEAD, "group"], *([f"S{n // 2}", n, n % 7, f"g{n % 2}"] for n in range(2000))]),
        {},
    ),
    "a thousand instances twice": (
        lambda: text([[*HEAD, "instance"], *([f"S{n // 2}", n, n % 7, 1] for n in range(2000))]),
        {},
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_of_a_kind_are_few_findings(name: str, tmp_path: Path) -> None:
    data, options = MANY[name]
    examined = examine(tmp_path, "t.csv", data(), **options)
    assert examined.findings
    assert len(examined.findings) < 60
    for code in {finding.code for finding in examined.findings}:
        assert sum(finding.code == code for finding in examined.findings) <= 20
    assert all(len(str(finding)) < 1500 for finding in examined.findings)


# what a case says
@pytest.fixture(scope="module")
def system() -> System:
    return load(FOLDER / "normal-logistic.safetensors")


def case_book(values: np.ndarray, **how: Any) -> bytes:
    return book(sheet([list(FEATURES), *values.tolist()]), **how)


def run_case(folder: Path, *more: str) -> Any:
    command = [
        "case",
        FOLDER / "normal-logistic.safetensors",
        "--trace",
        folder / "trace.xlsx",
        "--ref",
        folder / "ref.csv",
    ]
    return CliRunner().invoke(app, [*map(str, command), *more])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace in a workbook whose first sheet is hidden and of another source, and its ref."""
    (a, b) = items(3, 2, 5)
    other, seen = (sheet([list(FEATURES), *values.tolist()]) for values in (b, a[:2]))
    (tmp_path / "trace.xlsx").write_bytes(book(other, seen, states=["hidden", "visible"], names=["old", "new"]))
    write_csv(tmp_path / "plain.csv", a[:2])
    write_csv(tmp_path / "ref.csv", a[2:])
    return tmp_path


def test_a_case_reads_the_sheet_that_is_seen(folder: Path, system: System) -> None:
    by_hand = make_case(system, folder / "plain.csv", folder / "ref.csv").explanation.log10_lr
    answer = run_case(folder, "--json", "--out", str(folder / "page.html"))
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.stdout)
    assert said["log10_lr"] == pytest.approx(by_hand, abs=1e-9)
    message = "the sheet 'new' was read, the first that is seen: 'old' before it is hidden"
    assert [each["level"] for each in said["trace"]["findings"] if message in each["message"]] == ["warning"]
    assert [each["code"] for each in said["warnings"]].count("hidden-sheet") == 1
    page = (folder / "page.html").read_text("utf-8").replace("&#39;", "'")
    assert message in page
    assert message in " ".join(run_case(folder).stdout.split())


def test_a_hidden_sheet_is_read_by_its_name_and_told(folder: Path) -> None:
    said = json.loads(run_case(folder, "--sheet", "old", "--json").stdout)
    assert "the sheet 'old' is hidden in the workbook" in said["warnings"][0]["message"]


def test_hidden_rows_of_a_case_are_asked_about(folder: Path, system: System) -> None:
    a, b = items(3, 2, 5)
    rows = [list(FEATURES), *a[:2].tolist()]
    (folder / "trace.xlsx").write_bytes(book(sheet(rows, line(4, b[0].tolist(), HIDE))))
    answer = run_case(folder)
    assert isinstance(answer.exception, LindleyError)
    assert answer.stdout == ""
    assert "trace.xlsx, row 4: 1 row with values is hidden" in str(answer.exception)
    assert "--hidden include" in str(answer.exception)
    by_hand = make_case(system, folder / "plain.csv", folder / "ref.csv").explanation.log10_lr
    said = json.loads(run_case(folder, "--hidden", "ignore", "--json").stdout)
    assert said["log10_lr"] == pytest.approx(by_hand, abs=1e-9)
    assert "--hidden ignore" in said["command"]
    assert said["trace"]["instances"] == 2
    assert [each["code"] for each in said["trace"]["findings"]] == ["hidden-rows"]


@pytest.mark.parametrize("level", ["warning", "note"])
def test_every_finding_reaches_console_json_and_page(level: str, folder: Path) -> None:
    a, _ = items(3, 2, 5)
    rows = [
        [*FEATURES, "colour"],
        *([*map(repr, row), "green"] for row in (a[0].tolist(), a[1].tolist(), a[1].tolist())),
    ]
    (folder / "trace.xlsx").write_bytes(book(sheet(rows), sheet([["notes"]]), names=["data", "more"]))
    said = json.loads(run_case(folder, "--json", "--out", str(folder / "page.html")).stdout)
    codes = {each["code"] for each in said["trace"]["findings"] if each["level"] == level}
    expected = {"warning": {"repeated-row"}, "note": {"first-sheet", "ignored-columns", "number-as-text"}}
    assert codes == expected[level]
    console = " ".join(run_case(folder).stdout.split())
    page = " ".join((folder / "page.html").read_text("utf-8").replace("&#39;", "'").split())
    for finding in said["trace"]["findings"]:
        assert finding["message"] in console
        assert finding["message"] in page


def test_every_finding_of_a_matrix_reaches_console_and_json(folder: Path) -> None:
    a, b = items(3, 2, 5)
    rows = [
        ["source", *FEATURES, "colour"],
        *([label, *values.tolist(), "green"] for label, values in (("A", a[0]), ("B", b[0]))),
    ]
    (folder / "trace.xlsx").write_bytes(book(sheet(rows)))
    said = json.loads(run_case(folder, "--json").stdout)
    (finding,) = said["findings"]["trace"]
    assert (finding["level"], finding["code"]) == ("note", "ignored-columns")
    assert said["findings"]["ref"] == []
    assert finding["message"] in " ".join(run_case(folder).stdout.split())


def test_look_alikes_in_files_of_a_folder(tmp_path: Path, system: System) -> None:
    for name in ("A1.csv", "A01.csv"):
        write_csv(tmp_path / name, items(1, 1, 2)[0] + len(name) / 100)
    evidence = read_evidence(system, tmp_path, "trace")
    assert [each.code for each in evidence.items.findings] == ["similar-sources"]
    assert "'A01' / 'A1'" in str(evidence.items.findings[0])


@pytest.mark.parametrize("value", [1e308, -1e308, 1e160, 1e-320, 4.9e-324])
def test_a_case_of_extreme_numbers_has_no_silent_lr(value: float, tmp_path: Path, system: System) -> None:
    a, _ = items(3, 2, 5)
    trace = a[:2].copy()
    trace[:, 0] = value
    paths = write_csv(tmp_path / "trace.csv", trace), write_csv(tmp_path / "ref.csv", a[2:])
    if abs(value) > 1:
        with pytest.raises(LindleyError, match="so large that its square"):
            make_case(system, *paths)
    else:
        assert np.isfinite(make_case(system, *paths).explanation.log10_lr)


def test_column_letters() -> None:
    assert [letters(n) for n in (1, 26, 27, 702, 703, 16_384)] == ["A", "Z", "AA", "ZZ", "AAA", "XFD"]


def test_there_are_enough_inputs() -> None:
    assert len(BAD_TABLES) + len(RIGHT) + len(BIG) + len(MANY) >= 120


@pytest.mark.parametrize("row", ['"s3\r9,1";1,5\n', '"s3\n9,1";1,5\n', '"x\ry";"1,2"\n', '"a""\n,b";1\n'])
def test_a_line_end_inside_a_field_of_a_short_row_is_no_traceback(row: str, tmp_path: Path) -> None:
    """The row is tried with another delimiter, for which its fields are not quoted."""
    rows = "".join(f"s{n // 2};{n},5;{2 * n}\n" for n in range(16))
    (tmp_path / "t.csv").write_text(f"source;a;b\n{rows}{row}", encoding="utf-8", newline="")
    with pytest.raises(LindleyError, match=r"fields? where the header has 3"):
        read_table(tmp_path / "t.csv")

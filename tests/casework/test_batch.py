"""Many traces against many refs: a report of each, and one matrix of them all."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from typer.testing import CliRunner

from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.pages import matrix
from lindley.pages.case_record import reports_in, verify_reports
from lindley.system.system import load
from lindley.table.read import read_table
from tests.casework.factory import FEATURES, items, write_csv
from tests.casework.golden.make import FOLDER

SYSTEM = FOLDER / "normal-logistic.safetensors"
TRACES = ("=1+1", "@SUM(A1)", "../../t<3>")
REFS = ("CON", "wïndow/2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, labels, first in (("traces", TRACES, 0), ("refs", REFS, 2)):
        values = items(8, len(labels), 4)
        rows = [each[first : first + 2] for each in values]
        write_csv(tmp_path / f"{name}.csv", np.concatenate(rows), source=[label for label in labels for _ in range(2)])
    return tmp_path


def run(folder: Path, *more: str | Path) -> str:
    words = ["case", SYSTEM, "--trace", folder / "traces.csv", "--ref", folder / "refs.csv", "--allow-same-file", *more]
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def expected(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    content = json.loads(run(folder, "--json"))
    return np.array(content["log10_lr"]), np.array(content["log10_lr_bounded"])


def test_a_folder_of_reports_that_are_verified(folder: Path) -> None:
    out = folder / "reports"
    said = run(folder, "--out", out, "--case", "A-1", "--h1", "{trace} is of {ref}", "--h2", "{trace} is of another")
    assert f"Reports: 6, in {out}" in said
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        "1-1-1-CON.html", "2-1-1-w-ndow-2.html", "3-SUM-A1-CON.html", "4-SUM-A1-w-ndow-2.html", "5-t-3-CON.html",
        "6-t-3-w-ndow-2.html", "matrix.html", "matrix.xlsx",
    ]  # fmt: skip
    raw, bounded = expected(folder)
    verified = list(verify_reports(reports_in([out]), [SYSTEM]))
    assert [one.report.name for one in verified] == names[:6]
    assert all(one.same for one in verified), verified
    records = [one.record for one in verified]
    np.testing.assert_allclose([one.log10_lr for one in records], raw.ravel(), atol=1e-9)
    np.testing.assert_allclose([one.log10_lr_bounded for one in records], bounded.ravel(), atol=1e-9)
    assert [(one.trace.label, one.ref.label) for one in records] == [(t, r) for t in TRACES for r in REFS]
    assert [len(one.trace.measured) for one in records] == [2] * 6
    page = (out / "matrix.html").read_text("utf-8")
    assert re.findall(r'<a href="([^"]+)">', page) == names[:6]


def test_a_workbook_holds_labels_and_no_formulas(folder: Path) -> None:
    run(folder, "--out", folder / "matrix.xlsx")
    raw, bounded = expected(folder)
    book = openpyxl.load_workbook(folder / "matrix.xlsx")
    assert book.sheetnames == ["log10 LR reported", "log10 LR calculated", "about"]
    for sheet, llrs in zip(book.worksheets, (bounded, raw), strict=False):
        assert [cell.value for cell in sheet[1]] == ["trace", *REFS]
        assert [sheet.cell(row, 1).value for row in (2, 3, 4)] == list(TRACES)
        assert all(cell.data_type == "s" for cell in (*sheet[1], *(sheet.cell(row, 1) for row in (2, 3, 4))))
        assert sheet.cell(2, 1).quotePrefix
        found = [[cell.value for cell in row[1:]] for row in sheet.iter_rows(min_row=2)]
        np.testing.assert_allclose(found, llrs, atol=1e-12)
    assert not any(cell.data_type == "f" for sheet in book for row in sheet.iter_rows() for cell in row)
    assert load(SYSTEM).sha256 in " ".join(str(cell.value) for row in book["about"].iter_rows() for cell in row)


def test_a_label_with_a_control_character_can_be_written(folder: Path) -> None:
    text = (folder / "traces.csv").read_text("utf-8").replace("@SUM(A1)", "a\u202eb")
    (folder / "traces.csv").write_text(text, "utf-8")
    run(folder, "--out", folder / "matrix.xlsx")
    assert openpyxl.load_workbook(folder / "matrix.xlsx").worksheets[0].cell(3, 1).value == "a\\u202eb"


def test_a_csv_names_reported_and_calculated(folder: Path) -> None:
    run(folder, "--out", folder / "matrix.csv")
    raw, bounded = expected(folder)
    assert (raw != bounded).any()
    with (folder / "matrix.csv").open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["trace", "log10_lr", *REFS]
    assert [row[0] for row in rows[:3]] == ["'=1+1", "'@SUM(A1)", "../../t<3>"]
    for which, llrs in (("reported", bounded), ("calculated", raw)):
        np.testing.assert_array_equal([[float(cell) for cell in row[2:]] for row in rows if row[1] == which], llrs)


@pytest.mark.parametrize(("language", "words"), [("en", "Reported log10 LRs"), ("nl", "Gerapporteerde log10 LR")])
def test_a_page_of_the_matrix_has_the_bounded_lrs(folder: Path, language: str, words: str) -> None:
    said = run(folder, "--out", folder / "matrix.html", "--language", language)
    assert f"Matrix: {folder / 'matrix.html'}" in said.replace("\n", "")
    page = (folder / "matrix.html").read_text("utf-8")
    assert words in page
    assert "t&lt;3&gt;" in page
    assert ("liggen buiten" in page, "lie outside" in page) == (language == "nl", language == "en")
    raw, bounded = expected(folder)
    cells = re.findall(r'<td class="num">([^<]*)</td>', page)
    shown = [f"{b:.2f}{'' if a == b else '*'}".replace("-", "−") for a, b in zip(raw.flat, bounded.flat, strict=True)]
    assert cells == ([text.replace(".", ",") for text in shown] if language == "nl" else shown)
    assert not re.search(r"(?:src|href)=\"(?!data:)", page)


def test_what_is_there_is_left_unless_force(folder: Path) -> None:
    out = folder / "reports"
    out.mkdir()
    (out / "matrix.xlsx").write_text("mine")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(LindleyError, match="is there already"):
        run(folder, "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["matrix.xlsx", "notes.txt"]
    assert (out / "matrix.xlsx").read_text() == "mine"
    run(folder, "--out", out, "--force")
    assert (out / "notes.txt").read_text() == "mine"
    assert len(list(out.iterdir())) == 9


def test_a_refused_item_leaves_no_folder(folder: Path) -> None:
    write_csv(folder / "refs.csv", np.concatenate([1e6 + items(8, 1, 1)[0], items(8, 1, 1)[0]]), source=["A", "B"])
    with pytest.raises(LindleyError, match="no LR is given"):
        run(folder, "--out", folder / "reports")
    assert not (folder / "reports").exists()


def test_limits_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_REPORTS", "MOST_ON_A_PAGE"):
        monkeypatch.setattr(matrix, name, 5)
    monkeypatch.setattr(matrix, "MOST_COLUMNS", 1)
    for out, message in (
        ("r", "are 6 cases, and 5 are the most"),
        ("m.html", "a page has 5"),
        ("m.xlsx", "has 1 at most"),
    ):
        with pytest.raises(LindleyError, match=message):
            run(folder, "--out", folder / out)
        assert not (folder / out).exists()


def test_one_case_into_a_folder(folder: Path) -> None:
    table = read_table(folder / "traces.csv", purpose="case", features=FEATURES)
    write_csv(folder / "traces.csv", table.values[:2])
    write_csv(folder / "refs.csv", table.values[2:4])
    run(folder, "--out", folder / "one")
    assert sorted(path.name for path in (folder / "one").iterdir()) == [
        "1-traces-refs.html",
        "matrix.html",
        "matrix.xlsx",
    ]

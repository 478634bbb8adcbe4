"""The walk of docs/walk.md: from Excel files as a laboratory has them to twenty reports, a matrix and a log, all verified.

The commands are those that an examiner types in the folder of the case; a command that is refused asks, and writes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from lindley.casework.log import read_log
from lindley.pages.case_record import read_report
from tests.attacks.door import lindley
from tests.casework.factory import FEATURES, Floats, items

CASE = """\
case: "2026-0609"
examiner: R. Okafor
laboratory: Glass laboratory, Port Elder
h1: "{trace} comes from {ref}"
h2: "{trace} comes from another window"
"""
DESCRIBED = "--source-column item --ignore-columns piece,remark --transform log10"
TRAIN = "train background.xlsx --model tlm-kde --replicates 5 --out glass.safetensors"
BATCH = "case glass.safetensors --trace fragments.xlsx --ref windows.xlsx --case-file case.yaml"


def write(path: Path, windows: Iterable[tuple[str, Floats]], unit: str = "mg/kg") -> None:
    """A workbook with two rows of title, the header, a row of units, and columns that are no measurements."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["Glass laboratory, Port Elder"])
    sheet.append(["LA-ICP-MS 2", "9 June 2026"])
    sheet.append(["item", "piece", "remark", *FEATURES])
    sheet.append([None, None, None, *[unit] * len(FEATURES)])
    for label, measurements in windows:
        for piece, log10 in enumerate(measurements, 1):
            values = [float(f"{100 * 10**value:.5g}") for value in log10]
            sheet.append([label, piece, "edge" if piece == 2 else None, *values])
    book.save(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a case: 60 known windows; four windows, and five fragments of which the last is of none of them."""
    glass = items(21, 5, 7)
    write(tmp_path / "background.xlsx", [(f"B{n:02}", window) for n, window in enumerate(items(22, 60, 5), 1)])
    write(tmp_path / "windows.xlsx", [(f"W{n}", window[4:]) for n, window in enumerate(glass[:4], 1)])
    fragments = (glass[0][:2], glass[0][2:4], glass[1][:2], glass[2][:2], glass[4][:2])
    write(tmp_path / "fragments.xlsx", [(f"F{n}", fragment) for n, fragment in enumerate(fragments, 1)])
    (tmp_path / "case.yaml").write_text(CASE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(command: str, status: int = 0) -> str:
    """What a command answers, on one line."""
    answer = lindley(*shlex.split(command))
    assert answer.status == status, answer.text
    return " ".join(answer.text.split())


def refused(command: str, folder: Path) -> str:
    """What is asked by a command that writes nothing."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    said = typed(command, status=2)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return said


def test_from_workbooks_to_twenty_verified_reports(folder: Path) -> None:
    said = typed(f"check background.xlsx {DESCRIBED} --keep-profile")
    assert "300 measurements of 60 sources, 4 features" in said
    assert "the header was taken from row 3; above it stands 'Glass laboratory, Port Elder' (row 1)" in said
    assert "row 4: read as the units of the columns, and not as a measurement: K39 in mg/kg" in said
    assert "lindley.yaml holds these options" in said

    said = typed(TRAIN)
    assert "trained on 300 measurements of 60 sources in 4 features" in said
    assert "lindley.yaml in its folder was used: --source-column item" in said
    told = re.search(r"bounds of their own, from .* \(log10 −(\S+) to (\S+)\) at the widest", said)
    assert told is not None
    lower, upper = -float(told[1]), float(told[2])

    said = typed(f"{BATCH} --out reports/ --log lindley-log.jsonl")
    assert "5 traces × 4 refs; system glass.safetensors, tlm-kde" in said
    assert "Reports: 20, in reports" in said
    pairs = [(f"F{trace}", f"W{ref}") for trace in range(1, 6) for ref in range(1, 5)]
    names = [f"{number:02}-{trace}-{ref}.html" for number, (trace, ref) in enumerate(pairs, 1)]
    assert sorted(path.name for path in Path("reports").iterdir()) == [*names, "matrix.html", "matrix.xlsx"]

    records = [read_report(Path("reports", name)).record for name in names]
    reported = np.array([record.log10_lr_bounded for record in records]).reshape(5, 4)
    assert lower - 0.005 <= reported.min()
    assert reported.max() <= upper + 0.005  # what was said when the system was made is so
    right = {(0, 0), (1, 0), (2, 1), (3, 2)}
    assert {(i, j) for i in range(5) for j in range(4) if reported[i, j] > 0} == right
    page = Path("reports", names[0]).read_text("utf-8")
    for text in (
        "2026-0609",
        "R. Okafor",
        "Glass laboratory, Port Elder",
        "F1 comes from W1",
        "F1 comes from another window",
    ):
        assert text in page

    sheet = openpyxl.load_workbook("reports/matrix.xlsx")["log10 LR reported"]
    rows = list(sheet.iter_rows(values_only=True))
    assert rows[0][1:] == ("W1", "W2", "W3", "W4")
    assert [row[0] for row in rows[1:]] == ["F1", "F2", "F3", "F4", "F5"]
    assert np.array([row[1:] for row in rows[1:]]) == pytest.approx(reported)
    links = re.findall(r'<td class="num"><a href="([^"]+)">', Path("reports/matrix.html").read_text("utf-8"))
    assert links == names

    log = read_log(Path("lindley-log.jsonl"))
    assert [(entry["trace"], entry["ref"]) for entry in log.entries] == pairs
    assert [entry["log10_lr_bounded"] for entry in log.entries] == pytest.approx(reported.ravel().tolist())

    assert "20 of 20 reports verified." in typed("verify reports/")  # the system is in the working folder
    said = typed("verify " + " ".join(f"reports/{name}" for name in [*names, "matrix.html"]))  # as reports/*.html
    assert "20 of 20 reports verified." in said
    assert "reports/matrix.html: a matrix, which is not verified itself" in said
    assert "20 entries, nothing is wrong" in typed("log lindley-log.jsonl")

    assert "these are matrices, which cannot be verified themselves" in refused("verify reports/matrix.html", folder)
    forged = Path("reports", names[1])
    text = forged.read_text("utf-8")
    forged.write_text(text.replace('"log10_lr_bounded": -', '"log10_lr_bounded": '), "utf-8")
    assert forged.read_text("utf-8") != text
    assert "19 of 20 reports verified." in refused("verify reports/", folder)


def test_what_is_asked_on_the_way(folder: Path) -> None:
    assert "Name the column that tells the sources apart with --source-column." in refused(
        "check background.xlsx", folder
    )
    assert "leave the column out with --ignore-columns remark" in refused(
        "check background.xlsx --source-column item", folder
    )
    typed(f"check background.xlsx {DESCRIBED} --keep-profile")
    typed(TRAIN)
    told = refused(f"{BATCH} --out reports/ --no-profile", folder)
    assert "fragments.xlsx, column 'item': the column differs within what would be one item ('F1', 'F2'" in told
    assert "name it with --source-column item" in told
    told = refused("case glass.safetensors --trace windows.xlsx --ref windows.xlsx --out reports/", folder)
    assert "Trace and reference are from one file, 'windows.xlsx'" in told
    write(folder / "volume.xlsx", [("F1", items(21, 5, 7)[0][:2])], unit="mg/L")
    told = refused("case glass.safetensors --trace volume.xlsx --ref windows.xlsx --out reports/", folder)
    assert "column 'K39 [mg/L]': the values are in mg/L, and the system was trained on mg/kg" in told
    typed(f"{BATCH} --out matrix.xlsx")
    assert "matrix.xlsx is there already" in refused(f"{BATCH} --out matrix.xlsx", folder)

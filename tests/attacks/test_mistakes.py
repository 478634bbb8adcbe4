"""Slips of a hand that would give a case another LR than its examiner means: each is refused, or said, in its own words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lindley as lindley_package
from lindley.casework.case import Refusal, read_evidence
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.table import examine_table, read_table
from lindley.table.findings import TableError
from lindley.table.table import Table
from tests.attacks.door import Answer, lindley
from tests.attacks.test_cases import plain
from tests.casework.factory import FEATURES, items, population
from tests.casework.golden.make import FOLDER

SYSTEM = FOLDER / "normal-logistic.safetensors"
Columns = dict[str, list[Any]]


@pytest.fixture(autouse=True)
def on_the_command_line() -> Iterator[None]:
    with speaking("shell"):
        yield


def measured(n: int, rows: int, seed: int = 5) -> np.ndarray:
    """Several items of the population, one under the other."""
    return np.round(np.concatenate(items(seed, n, rows)), 5)


def write(path: Path, columns: Columns, values: np.ndarray, features: tuple[str, ...] = FEATURES) -> Path:
    """A table with columns beside those of the features."""
    rows = zip(*columns.values(), *values.T.tolist(), strict=True)
    lines = [",".join(f'"{name}"' for name in (*columns, *features)), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def evaluate(folder: Path, columns: Columns, *options: str, rows: int = 12) -> Answer:
    """The command on a trace with these columns beside its features, of one window throughout."""
    values = measured(1, rows + 2)
    trace, ref = write(folder / "trace.csv", columns, values[:rows]), write(folder / "ref.csv", {}, values[rows:])
    return lindley("case", SYSTEM, "--trace", trace, "--ref", ref, "--json", *options)


WINDOWS = ["W1"] * 3 + ["W2"] * 3 + ["W3"] * 3 + ["W4"] * 3
COUNT = [1, 2, 3] * 4
ASKED: dict[str, tuple[Columns, list[str]]] = {
    # columns of a trace of twelve measurements, and those that are asked about
    "four windows": ({"item": WINDOWS}, ["item"]),
    "four windows, out of order": ({"item": COUNT}, ["item"]),
    "numbers of windows": ({"window": [101] * 6 + [102] * 6}, ["window"]),
    "numbers with a point": ({"window": [1.1] * 6 + [1.2] * 6}, ["window"]),
    "one of each": ({"item": [f"W{k}" for k in range(12)]}, ["item"]),
    "text and its number": ({"nr": COUNT, "item": WINDOWS}, ["item"]),
    "a description of each": ({"item": WINDOWS, "colour": ["green"] * 6 + ["brown"] * 6}, ["item"]),
    "two questions": ({"item": WINDOWS, "day": ["Mon", "Tue", "Wed"] * 4}, ["item", "day"]),
    "merged cells": ({"item": ["W1", *[""] * 5, "W2", *[""] * 5]}, ["item"]),
    "another window in the last row": ({"item": ["W1"] * 11 + ["W2"]}, ["item"]),
    "one source of two panes": ({"source": ["S"] * 12, "pane": ["a"] * 6 + ["b"] * 6}, ["pane"]),
    "a group that differs": ({"group": ["car 1"] * 6 + ["car 2"] * 6}, ["group"]),
    "an instance that starts again": ({"instance": COUNT}, ["instance"]),
    "numbers and text": ({"item": [1] * 6 + ["1b"] * 6}, ["item"]),
    "truth values": ({"control": ["TRUE"] * 6 + ["FALSE"] * 6}, ["control"]),
    "dates": ({"day": ["2026-01-02"] * 6 + ["2026-01-03"] * 6}, ["day"]),
    # what is not asked about
    "the number of the measurement": ({"instance": list(range(1, 13))}, []),
    "a number under another name": ({"nr": list(range(12))}, []),
    "an instance with letters": ({"instance": list("abcdefghijkl")}, []),
    "one window": ({"item": ["W1"] * 12}, []),
    "one window, in a merged cell": ({"item": ["W1", *[""] * 11]}, []),
    "an element that is not used": ({"Ca42": [0.5, 0.5, *np.arange(10) / 7]}, []),
    "an element in whole ppm": ({"Al27 [ppm]": [650, 651, 650, *range(652, 661)]}, []),
    "an empty column": ({"remark": [""] * 12}, []),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_column_that_may_tell_items_apart_is_asked_about(name: str, tmp_path: Path) -> None:
    columns, asked = ASKED[name]
    answer = evaluate(tmp_path, columns)
    if not asked:
        assert answer.status == 0, answer.err
        assert json.loads(answer.out)["trace"]["instances"] == 12
        return
    assert (answer.status, answer.out) == (2, "")
    said = " ".join(answer.err.split())
    for column in asked:
        assert f"column '{column}': the column differs within what would be one item" in said
        assert f"name it with --source-column {column};" in said
        assert f"leave it out with --ignore-columns {column}." in said
    assert said.count("does it tell items apart?") == len(asked)


def test_the_answers_to_that_question(tmp_path: Path) -> None:
    columns: Columns = {"item": WINDOWS, "nr": COUNT, "remark, if any": list("abcdefghijkl")}
    told = json.loads(evaluate(tmp_path, columns, "--ignore-columns", '"remark, if any",item,nr').out)
    assert told["trace"]["instances"] == 12
    assert [each["message"] for each in told["trace"]["findings"]] == [
        "trace.csv: left out, as it was asked for: 'item', 'nr' and 'remark, if any'."
    ]
    assert """--ignore-columns '"remark, if any",item,nr'""" in told["command"]
    write(tmp_path / "ref2.csv", {"item": ["R", "R"]}, measured(1, 2, 9))
    answer = lindley(
        "case", SYSTEM, "--trace", tmp_path / "trace.csv", "--ref", tmp_path / "ref2.csv", "--json",
        "--source-column", "item", "--ignore-columns", '"remark, if any"',
    )  # fmt: skip
    assert json.loads(answer.out)["traces"] == ["W1", "W2", "W3", "W4"]


def test_a_feature_cannot_be_left_out(tmp_path: Path) -> None:
    answer = evaluate(tmp_path, {}, "--ignore-columns", "K39")
    assert "column 'K39': the column is asked to be feature and ignored at once" in " ".join(answer.err.split())


@pytest.mark.parametrize("which", ["a folder", "a data frame", "a workbook"])
def test_every_door_asks(which: str, tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(measured(2, 3), columns=list(FEATURES)).assign(item=["W1"] * 3 + ["W2"] * 3)
    data: Any = frame
    if which == "a folder":
        frame.to_csv(tmp_path / "x.csv", index=False)
        data = tmp_path
    elif which == "a workbook":
        data = tmp_path / "x.xlsx"
        frame.to_excel(data, index=False)
    with pytest.raises(TableError, match=r"'item': the column differs .* \('W1' and 'W2'\)"):
        read_evidence(plain(), data, "trace")
    assert read_evidence(plain(), data, "trace", source="item").labels == ("W1", "W2")


def sides(folder: Path, trace: np.ndarray, ref: np.ndarray) -> tuple[Path, Path]:
    return write(folder / "trace.csv", {}, trace), write(folder / "ref.csv", {}, ref)


def in_case(trace: Path, ref: Path, *options: str) -> Answer:
    return lindley("case", SYSTEM, "--trace", trace, "--ref", ref, "--json", *options)


def of_two(folder: Path) -> tuple[Path, Path]:
    """A table of two items, against itself."""
    file = write(folder / "all.csv", {"source": ["A", "A", "B", "B"]}, measured(2, 2))
    return file, file


def renamed(folder: Path) -> tuple[Path, Path]:
    trace, ref = sides(folder, measured(1, 2), measured(1, 2, 9))
    ref.write_bytes(trace.read_bytes())
    return trace, ref


def in_a_folder(folder: Path) -> tuple[Path, Path]:
    trace, _ = sides(folder, measured(1, 2), measured(1, 2))
    (folder / "refs").mkdir()
    write(folder / "refs" / "other.csv", {}, measured(1, 2, 9))
    (folder / "refs" / "copy.csv").write_bytes(trace.read_bytes())
    return trace, folder / "refs"


SAME: dict[str, tuple[Callable[[Path], tuple[Path, Path]], str]] = {
    "one file twice": (lambda folder: (sides(folder, measured(1, 2), measured(1, 2))[0],) * 2, "one file, 'trace.csv'"),
    "one file of two items": (of_two, "one file, 'all.csv'"),
    "a copy of the file": (renamed, "one file, 'trace.csv'"),
    "a copy in a folder": (in_a_folder, "one file, 'trace.csv'"),
    "rows in another order": (
        lambda folder: sides(folder, measured(1, 3), measured(1, 3)[::-1]),
        "Trace 'trace': a meas",
    ),
    "one row that was pasted": (
        lambda folder: sides(folder, measured(1, 4)[:2], measured(1, 4)[1:]),
        "identical to one",
    ),
    "more digits": (lambda folder: sides(folder, measured(1, 2), measured(1, 2) * (1 + 1e-12)), "identical to one"),
}


@pytest.mark.parametrize("name", SAME)
def test_one_thing_on_both_sides_is_refused_and_can_be_asked_for(name: str, tmp_path: Path) -> None:
    make, message = SAME[name]
    files = make(tmp_path)
    refused = in_case(*files)
    assert (refused.status, refused.out) == (2, "")
    said = " ".join(refused.err.split())
    assert message in said
    assert "For a test of the method, --allow-same-file gives an LR all the same, and the report says so." in said
    told = json.loads(in_case(*files, "--allow-same-file").out)
    (warned,) = (each for each in told["warnings"] if each["code"] in ("same-file", "same-measurement"))
    assert message in warned["message"]
    assert "because it was asked for all the same, as a test of the method: it is no evidence." in warned["message"]
    assert "--allow-same-file" in told["command"]


def test_the_report_of_a_test_of_the_method_says_so(tmp_path: Path) -> None:
    trace, _ = sides(tmp_path, measured(1, 2), measured(1, 2))
    with speaking("python"), pytest.raises(Refusal, match="allow_same_file=True gives an LR all the same"):
        plain().case(trace, trace)
    plain().case(trace, trace, allow_same_file=True, language="nl").write(tmp_path / "r.html")
    assert "als test van de methode: bewijs is het niet" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_coarse_measurements_may_be_equal_by_chance(tmp_path: Path) -> None:
    """Where training data are equal too, as rounded ones of one feature are, that is no reason to refuse a case."""
    of = plain()
    coarse = replace(of, casework=replace(of.casework, digests=(*of.digests[1:], of.digests[1])))
    files = sides(tmp_path, measured(1, 4)[:2], measured(1, 4)[1:])
    (said,) = (each.message for each in coarse.case(*files).remarks if each.code == "same-measurement")
    assert said.endswith("Equal measurements are among the training data as well, so that it may be chance.")
    with pytest.raises(Refusal, match=r"from one file, 'trace\.csv'"):
        coarse.case(files[0], files[0])


def test_which_measurements_were_in_the_training_data(tmp_path: Path) -> None:
    values, _ = population(40, 3, 7)
    trace, ref = sides(tmp_path, np.round(values[[51, 53]], 5), measured(1, 2))
    told = json.loads(in_case(trace, ref).out)
    (said,) = (each["message"] for each in told["warnings"] if each["code"] == "seen-in-training")
    assert "2 of 2 measurements are among those that the system was trained on" in said
    assert "here rows 1, 2, in its training table" in said
    assert "rows 52, 54, counted without the header" in said


MEASURED, SOURCE = population(16, 3, 3, 3)
VALUES = np.round(MEASURED, 4)
NUMBER = np.unique(SOURCE, return_inverse=True)[1]
SPOILT: dict[str, tuple[np.ndarray, str, str]] = {
    # a column x4 beside x1, x2 and x3, and what is said of it
    "a constant": (np.full(48, 7.0), "constant-feature", "the feature is constant (7)"),
    "a sum": (VALUES.sum(axis=1), "dependent-feature", "follows from 'x1', 'x2' and 'x3'"),
    "the rest to 100": (100 - VALUES.sum(axis=1), "dependent-feature", "follows from 'x1', 'x2' and 'x3'"),
    "the sum of two": (VALUES[:, 0] + VALUES[:, 2], "dependent-feature", "follows from 'x1' and 'x3' in every"),
    "a mean, in other units": (
        2e4 + 1e3 * VALUES.mean(axis=1),
        "dependent-feature",
        "follows from 'x1', 'x2' and 'x3'",
    ),
    "a multiple": (2.5 * VALUES[:, 1], "dependent-feature", "the feature follows from 'x2'"),
    "a number of the piece": (np.tile([1.0, 2, 3], 16), "looks-like-instance", "counts up within every source"),
    "pieces out of order": (np.tile([3.0, 1, 2], 16), "looks-like-instance", "an instance number"),
    "what is left of each source": (
        np.tile([-0.5, 0, 0.5], 16),
        "no-between-variation",
        "the same mean in every source",
    ),
    "the number of the source": (NUMBER + 0.0, "no-within-variation", "the same in all measurements of a source"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_columns_that_make_matrices_singular_are_errors(name: str) -> None:
    extra, code, message = SPOILT[name]
    examined = examine_table(np.column_stack([VALUES, extra]), source=SOURCE)
    (error,) = (each for each in examined.findings if each.level == "error")
    assert (error.code, error.column) == (code, "x4")
    assert message in error.message
    assert "--ignore-columns x4" in str(error)


@pytest.mark.parametrize("extra", [np.round(VALUES.sum(axis=1), 2), VALUES[:, 0] * VALUES[:, 1], np.arange(48) % 5.0])
def test_columns_that_are_only_close_to_it_are_none(extra: np.ndarray) -> None:
    assert not [
        each
        for each in examine_table(np.column_stack([VALUES, extra]), source=SOURCE).findings
        if each.level == "error"
    ]


def test_the_logarithms_of_shares_are_independent() -> None:
    shares = np.abs(VALUES) + 0.1
    shares = np.column_stack([shares, 100 - shares.sum(axis=1)])
    assert {each.code for each in examine_table(shares, source=SOURCE).findings} >= {"dependent-feature"}
    assert examine_table(shares, source=SOURCE, transform="log10").table is not None


@pytest.mark.parametrize("model", ["tlm", "tlm-kde", "ht-plda"])
def test_what_a_model_cannot_invert_is_said_in_words(model: str) -> None:
    """A column that differs in one cell passes the check, and leaves folds of sources without any scatter in it."""
    table = read_table(np.column_stack([VALUES, np.r_[np.ones(47), 2]]), source=SOURCE)
    with pytest.raises(LindleyError, match=rf"{model} cannot be fitted, .* are 'x4' \(2\), .* --ignore-columns"):
        lindley_package.train(table, model, replicates=0)


@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
def test_an_offset_of_each_source_gives_no_traceback() -> None:
    table = read_table(np.column_stack([VALUES, VALUES[:, 0] + NUMBER]), source=SOURCE)
    with pytest.raises(LindleyError, match="ht-plda cannot be fitted, as some features, or sums of them, hardly vary"):
        lindley_package.train(table, "ht-plda", replicates=0)


@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
@pytest.mark.parametrize("model", ["tlm", "robust", "ntlm-single-pairs-n1-common"])
def test_a_table_that_no_check_saw_gives_no_traceback(model: str) -> None:
    """Arrays go around the checks of a file."""
    table = Table.from_arrays(np.column_stack([VALUES, np.tile([1.0, 2, 3], 16)]), SOURCE, name="panes")
    options = {"epochs": 2} if model.startswith("ntlm") else None
    with pytest.raises(LindleyError, match=rf"panes: {model}.* cannot be fitted, .* 'x4' \(3\)"):
        lindley_package.train(table, model, replicates=0, options=options)


def encoded(name: str, encoding: str, folder: Path, more: bytes = b"") -> Path:
    """A table for training whose first source has this name."""
    values = population(8, 3, 7)[0]
    lines = ["source,K39,Ti49,Mn55,Rb85"]
    lines += [f"{name if at < 3 else at // 3},{','.join(f'{x:.5f}' for x in row)}" for at, row in enumerate(values)]
    path = folder / "t.csv"
    path.write_bytes("\n".join(lines).encode(encoding) + more)
    return path


@pytest.mark.parametrize("name", ["Süd", "café", "naïve – “x”", "10 µm", "25 °C", "€", "Årsta"])
def test_files_of_windows_are_read_with_a_note(name: str, tmp_path: Path) -> None:
    table = read_table(encoded(name, "cp1252", tmp_path))
    assert name in table.sources
    (note,) = (each for each in table.findings if each.code == "windows-1252")
    assert note.level == "note"
    assert "is not UTF-8, and was read as Windows-1252, with the letters" in note.message
    assert all(each in note.message for each in name if not each.isascii())


MIXED_UP: dict[str, tuple[str, str, bytes]] = {
    "DOS": ("Süd", "cp850", b""),
    "the old Mac": ("Süd", "mac_roman", b""),
    "UTF-8 and Windows in one file": ("Süd", "cp1252", "\nüber,1,2,3,4".encode()),
    "the mark of UTF-8 in front of Windows": ("Süd", "cp1252", b""),
}


@pytest.mark.parametrize("name", MIXED_UP)
def test_files_that_could_be_several_things_are_refused(name: str, tmp_path: Path) -> None:
    path = encoded(*MIXED_UP[name][:2], tmp_path, MIXED_UP[name][2])
    if name.startswith("the mark"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with pytest.raises(TableError, match=r"row 2: byte \d+ \(0x..\) is not UTF-8 text. .* save with encoding UTF-8"):
        read_table(path)


def limited(folder: Path, *cells: str, mark: str = ".") -> Path:
    """A table for training whose first values of Rb85 are these."""
    values, source = population(8, 3, 7)
    rows = [
        [label, *(f"{5 + x:.5f}".replace(".", mark) for x in row)] for label, row in zip(source, values, strict=True)
    ]
    for row, cell in zip(rows, cells, strict=False):
        row[-1] = cell
    path = folder / "t.csv"
    path.write_text("\n".join(";".join(row) for row in [["source", *FEATURES], *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("choice", "share"), [("half", 0.5), ("limit", 1.0), ("sqrt2", 2**-0.5)])
@pytest.mark.parametrize("mark", [".", ","])
def test_values_below_the_limit_are_read_as_was_chosen(choice: Any, share: float, mark: str, tmp_path: Path) -> None:
    path = limited(tmp_path, f"<0{mark}02", f"< 0{mark}4", mark=mark)
    refused = lindley("check", path)
    assert refused.status == 2
    said = " ".join(refused.text.split())
    assert "are below the detection limit" in said
    assert "with --below-limit half (or limit, or sqrt2), or leave the column out with --ignore-columns Rb85" in said
    table = read_table(path, below_limit=choice)
    np.testing.assert_allclose(table.values[:2, -1], np.array([0.02, 0.4]) * share)
    (warned,) = (each for each in table.findings if each.code == "below-limit")
    assert (warned.level, warned.rows) == ("warning", (2, 3))
    assert "2 below the detection limit" in warned.message


@pytest.mark.parametrize("cell", ["<", "<0", "<-1", "<x", ">5", "<<2", "<1,2.3", "n.d.", "~0.02", "< LOD"])
def test_what_is_no_limit_is_no_number(cell: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"'Rb85': .* is not a number"):
        read_table(limited(tmp_path, cell), below_limit="half")


def test_marks_of_limits_count(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"a decimal comma \('<0,02'\) in a file of decimal points"):
        read_table(limited(tmp_path, "<0,02"), below_limit="half")


def test_a_case_states_what_it_did_with_limits(tmp_path: Path) -> None:
    values = measured(1, 4)
    trace, ref = sides(tmp_path, values[:2], values[2:])
    lines = trace.read_text(encoding="utf-8").splitlines()
    limit = 2 * abs(values[0, -1])
    trace.write_text("\n".join([lines[0], lines[1].rpartition(",")[0] + f",<{limit:.5f}", lines[2]]), encoding="utf-8")
    refused = in_case(trace, ref)
    assert (refused.status, refused.out) == (2, "")
    assert "is below the detection limit. Say what they are to be read as with --below-limit half" in " ".join(
        refused.err.split()
    )
    answer = in_case(trace, ref, "--below-limit", "half", "--allow-outside")
    told = json.loads(answer.out)
    (said,) = (each["message"] for each in told["warnings"] if each["code"] == "below-limit")
    assert said.startswith(
        f"trace.csv, row 2, column 'Rb85': 1 below the detection limit ('<{limit:.5f}') read as half of the"
    )
    assert "--below-limit half" in told["command"]

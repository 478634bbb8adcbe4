"""Tables of a case that cannot be what the system was trained on: each is refused with its message."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lindley.casework.case import Refusal, evaluate_batch, evaluate_case, read_evidence
from lindley.casework.laboratory import load_scale
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.system.system import System, load
from lindley.table.units import split_unit
from tests.casework.factory import FEATURES, items, saved, write_csv
from tests.casework.golden.make import FOLDER, measured

HEADER = ",".join(FEATURES)
RATIO = HEADER + ",Si28"


@cache
def plain() -> System:
    return load(FOLDER / "normal-logistic.safetensors")


@cache
def ratio() -> System:
    return load(FOLDER / "kernel-ratio.safetensors")


BAD: dict[str, tuple[Callable[[], System], str, str]] = {
    "empty file": (plain, "", "empty"),
    "header alone": (plain, f"{HEADER}\n", "a header and no measurement under it"),
    "missing feature": (plain, "K39,Ti49,Mn55\n1,2,3\n", r"the system needs 'Rb85'.*The system's columns are"),
    "misspelt feature": (plain, "K39,Ti49,Mn55,Rb58\n1,2,3,4\n", "Did you mean 'Rb58'"),
    "no features at all": (plain, "a,b\n1,2\n", "the system needs 'K39', 'Ti49', 'Mn55' and 'Rb85'"),
    "a feature twice": (plain, f"{HEADER},K39\n1,2,3,4,5\n", "K39"),
    "two columns for one": (plain, "K39 [ppm],K39 [%],Ti49,Mn55,Rb85\n1,2,3,4,5\n", "could each be 'K39'"),
    "text in a number": (plain, f"{HEADER}\n1,2,three,4\n", r"row 2, column 'Mn55'.*three"),
    "below detection": (plain, f"{HEADER}\n1,2,<0.5,4\n", r"column 'Mn55'.*<0.5"),
    "a blank": (plain, f"{HEADER}\n1,2,,4\n", "column 'Mn55'"),
    "NaN": (plain, f"{HEADER}\n1,2,nan,4\n", "column 'Mn55'"),
    "infinity": (plain, f"{HEADER}\n1,2,inf,4\n", "column 'Mn55'"),
    "a short row": (plain, f"{HEADER}\n1,2,3,4\n1,2\n", "row 3"),
    "a mix of decimal marks": (plain, "K39;Ti49;Mn55;Rb85\n1,5;2,5;3,5;4,5\n1.5;2.5;3.5;4.5\n", "decimal"),
    "another unit": (ratio, "K39 [mg/L],Ti49,Mn55,Rb85,Si28\n1,2,3,4,5\n", "the values are in mg/L.*ppm"),
    "another unit in round brackets": (ratio, "K39 (cps),Ti49,Mn55,Rb85,Si28\n1,2,3,4,5\n", "the values are in cps"),
    "no reference": (ratio, f"{HEADER}\n1,2,3,4\n", "the system needs 'Si28'"),
    "zero under a log": (ratio, f"{RATIO}\n1,0,3,4,5\n", "column 'Ti49'"),
    "negative under a log": (ratio, f"{RATIO}\n1,-2,3,4,5\n", "column 'Ti49'"),
    "zero as reference": (ratio, f"{RATIO}\n1,2,3,4,0\n", "column 'Si28'"),
    "an unnamed source": (plain, f"source,{HEADER}\nA,1,2,3,4\n,1,2,3,4\n", "row 3"),
    "not UTF-8": (plain, "\udcff\udcfe" + HEADER, "UTF"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused_with_its_message(name: str, tmp_path: Path) -> None:
    file, text, message = BAD[name]
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LindleyError, match=f"(?s){message}") as caught:
        read_evidence(file(), path, "trace")
    assert "trace.csv" in str(caught.value)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("K39,Ti49,Mn55\nx,2,3\n1,y,3\n")
    with pytest.raises(LindleyError) as caught:
        read_evidence(plain(), path, "trace")
    assert all(part in str(caught.value) for part in ("'Rb85'", "'K39'", "'Ti49'"))


def test_other_files_and_columns_are_refused(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.csv", "none.csv"),
        (tmp_path / "empty", "the folder holds no table"),
        (write_csv(tmp_path / "t.dat", items(1, 1, 1)[0]), "t.dat"),
        (write_csv(tmp_path / "t.xls", items(1, 1, 1)[0]), "t.xls"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(LindleyError, match=message):
            read_evidence(plain(), path, "trace")
    good = write_csv(tmp_path / "good.csv", items(1, 1, 1)[0])
    with (
        speaking("shell"),
        pytest.raises(LindleyError, match="there is no column 'item', as --source-column asks for"),
    ):
        read_evidence(plain(), good, "trace", source="item")


def test_one_label_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        write_csv(tmp_path / name, items(1, 1, 1)[0], source=["same"])
    with pytest.raises(LindleyError, match="'same' is in more than one file of the folder"):
        read_evidence(plain(), tmp_path, "trace")


def test_values_of_another_world_are_refused(tmp_path: Path) -> None:
    """Parts per billion for parts per million: the values are fine numbers, and an LR of them is not."""
    good, bad = items(1, 1, 2)[0], 1000 * (1 + items(1, 1, 2)[0])
    sides = [read_evidence(plain(), write_csv(tmp_path / f"{i}.csv", v), "trace") for i, v in enumerate((bad, good))]
    with pytest.raises(Refusal, match="more than 50 standard deviations outside the range of the population") as caught:
        evaluate_case(plain(), *sides, load_scale("nfi"))
    assert "outside-population" in [remark.code for remark in caught.value.remarks]


def test_replicates_that_are_none_are_refused_in_both_languages(tmp_path: Path) -> None:
    a, b = items(1, 2, 2)
    mixed = np.concatenate([a[:1], b[:1]])
    sides = [read_evidence(plain(), write_csv(tmp_path / f"{i}.csv", v), "trace") for i, v in enumerate((mixed, a))]
    with pytest.raises(
        Refusal, match=r"no LR is given for this case:\n  Trace '0': the measurements scatter \d+ times"
    ):
        evaluate_case(plain(), *sides, load_scale("nfi"))
    with pytest.raises(Refusal, match="Spoor '0': de metingen lopen"):
        evaluate_case(plain(), *sides, load_scale("nfi"), "nl")
    with pytest.raises(Refusal):
        evaluate_batch(plain(), *sides)


def test_one_case_needs_one_of_each(tmp_path: Path) -> None:
    two = np.concatenate(items(1, 2, 1))
    sides = [read_evidence(plain(), write_csv(tmp_path / f"{i}.csv", two, source=["A", "B"]), "ref") for i in range(2)]
    with pytest.raises(LindleyError, match="one ref is needed, and there are 2"):
        evaluate_case(plain(), *sides, load_scale("nfi"))


def test_units_names_and_order_that_agree_are_read(tmp_path: Path) -> None:
    system = ratio()
    values = measured(system, items(5, 1, 3)[0])
    names = ["K39 [ppm]", "ti49 (PPM)", "Mn55", "Rb85", "Si28 [ppm]"]
    order = [4, 2, 0, 3, 1]
    path = write_csv(tmp_path / "t.csv", values[:, order], [names[k] for k in order])
    evidence = read_evidence(system, path, "trace")
    np.testing.assert_array_equal(evidence.items.measured, values[:, :4])
    np.testing.assert_array_equal(evidence.items.divisor, values[:, 4])
    np.testing.assert_allclose(evidence.side.values, system.side([values], "trace").values, atol=1e-12)
    notes = {finding.code: str(finding) for finding in evidence.items.findings}
    assert "no unit for 'Mn55' and 'Rb85'. Taken to be as in training: ppm." in notes["unit-not-given"]
    assert split_unit("K39[ppm]") == ("K39", "ppm")
    assert split_unit("[ppm]") == ("[ppm]", None)


def test_a_file_is_an_item_unless_a_column_says_otherwise(tmp_path: Path) -> None:
    system = load(saved(tmp_path))
    values = np.concatenate(items(1, 2, 2))
    alone = read_evidence(system, write_csv(tmp_path / "fragment 3.csv", values), "trace")
    assert alone.labels == ("fragment 3",)
    several = read_evidence(system, write_csv(tmp_path / "t.csv", values, source=["B", "A", "B", "A"]), "trace")
    assert several.labels == ("B", "A")
    np.testing.assert_array_equal(several.side.count, [2, 2])
    np.testing.assert_array_equal(several.side.item, [0, 1, 0, 1])

"""Several systems on the same pairs: figures as of each alone, differences of the same sources drawn, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lindley.casework.comparison import COMPARED, Comparison, compare_systems
from lindley.casework.performance import Scores, Settings
from lindley.casework.validation import validate
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min, misleading_different, misleading_same
from lindley.pages.comparison_page import comparison_json, conclusions, sections, write_comparison
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.table import Table
from tests.attacks.door import lindley
from tests.casework.factory import FEATURES, population, system, table, write_csv

FAST = Settings(replicates=40)


@cache
def new() -> Table:
    """40 sources that no system has seen, half of them close to another one."""
    values, source = population(40, 3, 77)
    values[60:] = values[:60] + np.tile([0.25, 0.0, -0.2, 0.1], (60, 1))
    return Table.from_arrays(np.round(values, 6), source, features=FEATURES, name="new")


@cache
def narrow() -> System:
    """A system of three of the features."""
    whole = table()
    return train(replace(whole, values=whole.values[:, :3], features=FEATURES[:3], units=()), "tlm", replicates=0)


@cache
def compared() -> Comparison:
    return compare_systems([system("tlm-kde"), system("tlm"), narrow()], new(), settings=FAST)


def test_the_figures_are_those_of_every_system_alone() -> None:
    for each in compared().systems:
        alone = validate(each.system, each.table, settings=FAST)
        for key in COMPARED:
            line = alone.line(*key)
            assert each.figures[key] == {"raw": line.raw, "bounded": line.bounded}


@pytest.mark.parametrize("kind", ["raw", "bounded"])
def test_differences_are_of_the_same_sources_drawn(kind: str) -> None:
    metrics = (cllr, cllr_min, misleading_same, misleading_different)
    scores = [Scores.of(each.system, each.table, FAST) for each in compared().systems[:2]]
    limits = [(-np.inf, np.inf) if kind == "raw" else each.bounds for each in scores]
    for key, metric in zip(COMPARED, metrics, strict=True):
        slow = []
        for one, ends in zip(scores, limits, strict=True):
            drawn = [np.clip(llr, *ends) for llr in one.matrices]
            every = np.mean([metric(one.grid.llrs(llr, one.times[0])) for llr in drawn])
            again = [metric(one.grid.llrs(drawn[i % len(drawn)], row)) for i, row in enumerate(one.times[1:])]
            slow.append([every, *again])
        difference = np.array(slow[1]) - np.array(slow[0])
        found = compared().systems[1].differences[key][kind]  # type: ignore[index]
        if slow[0] == slow[1]:
            assert found is None
            continue
        assert found is not None
        assert found.value == pytest.approx(difference[0], abs=1e-12)
        assert (found.lower, found.upper) == pytest.approx(np.quantile(difference[1:], [0.025, 0.975]), abs=1e-12)


def test_a_system_and_its_copy_do_not_differ() -> None:
    one = system("tlm")
    other = replace(one, about={**one.about, "created": "2020-01-01"})
    _, copy = compare_systems([one, other], new(), settings=FAST).systems
    assert copy.better is None
    for pair in copy.differences.values():
        assert {(each.value, each.lower, each.upper) for each in pair.values() if each is not None} <= {(0.0, 0.0, 0.0)}


def test_a_better_system_is_told_from_a_worse_one() -> None:
    """One that sees all features, and one whose LRs were turned round."""
    one = system("tlm")
    casework = replace(one.casework, bounds=(-0.01, 0.01))  # type: ignore[type-var]
    timid = replace(one, casework=casework, about={**one.about, "file": "timid.safetensors", "file_sha256": "0" * 64})
    comparison = compare_systems([timid, one], new(), settings=FAST)
    assert comparison.systems[1].better is True
    assert "not saved did better than timid.safetensors on these data" in conclusions(comparison)[0]
    comparison = compare_systems([one, timid], new(), settings=FAST)
    assert comparison.systems[1].better is False
    difference = comparison.systems[1].differences[COMPARED[0]]
    assert difference["raw"].value == 0  # type: ignore[union-attr]
    assert difference["bounded"].lower > 0.5  # type: ignore[union-attr]


def test_systems_of_other_features_take_their_own_columns() -> None:
    assert compared().systems[2].table.features == FEATURES[:3]
    (remark,) = [each for each in compared().remarks if "different features" in each]
    assert "takes K39, Ti49, Mn55 and Rb85" in remark
    assert "takes K39, Ti49 and Mn55" in remark


def test_what_is_odd_for_one_system_is_told_once(folder: Path) -> None:
    """Of units, that the table gives and only one of the systems lacks."""
    in_ppm = system("tlm", units=("ppm",) * 4)
    write_csv(folder / "units.csv", new().values, [f"{each} [ppm]" for each in FEATURES], source=new().source.tolist())
    comparison = compare_systems([in_ppm, system("tlm-kde")], folder / "units.csv", settings=FAST)
    (remark,) = [each for each in comparison.remarks if "trained without one" in each]
    assert "the header gives a unit for 'K39 [ppm]'" in remark


def test_groups_are_drawn_together_and_weigh_as_the_first_was_made_for() -> None:
    grouped = replace(new(), group=np.array([label[:3] for label in new().source.tolist()]))
    one = system("tlm")
    other = replace(one, about={**one.about, "mates": {"setting": 0.2, "share": 0.2}})
    comparison = compare_systems([one, other], grouped, settings=FAST)
    assert any("pairs of one group weigh what" in each for each in comparison.remarks)
    assert comparison.systems[1].differences[COMPARED[0]]["raw"].value == 0  # type: ignore[union-attr]


def test_page_json_and_screen_say_the_same(tmp_path: Path) -> None:
    write_comparison(compared(), tmp_path)
    told = json.loads((tmp_path / "comparison.json").read_text("utf-8"))
    assert told == json.loads(json.dumps(comparison_json(compared()), allow_nan=False))
    assert [each["model"] for each in told["systems"]] == ["tlm-kde", "tlm", "tlm"]
    assert told["systems"][0]["less_the_first"] is None
    assert set(told["systems"][1]["less_the_first"]) == {"cllr", "cllr_min", "misleading_same", "misleading_different"}
    page = (tmp_path / "comparison.html").read_text("utf-8")
    assert "<script" not in page
    for section in sections(compared()):
        for row in section.rows:
            for cell in row:
                assert cell.replace("<", "&lt;").replace(">", "&gt;") in page


def test_names_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[2J.safetensors"
    one, other = (
        replace(system("tlm"), about={**system("tlm").about, "file": hostile, "file_sha256": digit * 64})
        for digit in "01"
    )
    write_comparison(compare_systems([one, other], replace(new(), name=hostile), settings=FAST), tmp_path)
    page = (tmp_path / "comparison.html").read_text("utf-8")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    system("tlm-kde").save(tmp_path / "a.safetensors")
    system("tlm").save(tmp_path / "b.safetensors")
    narrow().save(tmp_path / "c.safetensors")
    write_csv(tmp_path / "new.csv", new().values, source=new().source.tolist())
    write_csv(tmp_path / "three.csv", new().values[:, :3], FEATURES[:3], source=new().source.tolist())
    write_csv(tmp_path / "two.csv", new().values[:, :2], FEATURES[:2], source=new().source.tolist())
    write_csv(tmp_path / "old.csv", np.concatenate([table().values[:8], new().values]),
              source=[*table().source[:8].tolist(), *(f"n{s}" for s in new().source)])  # fmt: skip
    write_csv(tmp_path / "ppm.csv", new().values * 1e4, source=new().source.tolist())
    return tmp_path


def test_the_command_fits_a_narrow_terminal_and_cuts_no_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    paths = "a.safetensors", "b.safetensors"
    answer = lindley("evaluate", *paths, "--data", "new.csv", "--out", "cmp", width=80)
    assert answer.status == 0, answer.err
    colours = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
    assert max(map(len, colours.sub("", answer.out).splitlines())) <= 80
    assert "…" not in answer.out
    assert (folder / "cmp" / "comparison.html").exists()
    again = lindley("evaluate", *paths, "new.csv", "--json")
    assert (
        json.loads(again.out)["systems"]
        == json.loads((folder / "cmp" / "comparison.json").read_text("utf-8"))["systems"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a.safetensors", "Systems and the data to evaluate them on are needed"),
        ("a.safetensors b.safetensors", "other.safetensors --data new.xlsx."),
        ("new.csv", "Systems and the data to evaluate them on are needed"),
        ("--data new.csv a.safetensors", "--out DIR is needed"),
        ("a.safetensors new.csv --out v --json", "--json is for several systems"),
        ("a.safetensors a.safetensors --data new.csv", "are the same system: there is nothing to compare"),
        ("a.safetensors b.safetensors --data old.csv",
         "old is not new to every system. a.safetensors: 8 of 128 measurements, of 2 of 42 sources ('S000' and 'S001')"),
        ("a.safetensors b.safetensors --data old.csv", "b.safetensors: 8 of 128 measurements"),
        ("a.safetensors c.safetensors --data three.csv", "for a.safetensors: the system needs 'Rb85'"),
        ("a.safetensors c.safetensors --data two.csv", "for c.safetensors: the system needs 'Mn55'"),
        ("a.safetensors b.safetensors --data ppm.csv", "a.safetensors: ppm: "),
        ("a.safetensors b.safetensors --data none.csv", "none.csv: there is no such file"),
        ("a.safetensors none.safetensors --data new.csv", "there is no file"),
        ("a.safetensors new.csv --data new.csv", "does not hold a lindley system"),
        ("a.safetensors b.safetensors --data new.csv --criteria c.yaml", "--criteria is for the validation of one system"),
        ("a.safetensors b.safetensors --data new.csv --other new.csv", "--other is for the validation of one system"),
        ("a.safetensors b.safetensors --data new.csv --out there", "holds a comparison already"),
        ("a.safetensors b.safetensors --data new.csv --ref-instances 3", "0 of 40 sources have the 4 measurements"),
        ("a.safetensors b.safetensors --data new.csv --source-column item", "there is no column 'item'"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(words: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "there").mkdir()
    (folder / "there" / "comparison.json").write_text("{}")
    before = set(folder.rglob("*"))
    answer = lindley("evaluate", *words.split())
    assert answer.status == 2
    assert message in " ".join(answer.err.split())
    assert answer.out == ""
    assert set(folder.rglob("*")) - before <= {folder / "v"}


def test_too_few_systems_in_python() -> None:
    with pytest.raises(LindleyError, match="two systems at least"):
        compare_systems([system("tlm")], new())

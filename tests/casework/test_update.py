"""More background for a system, and a background of several files: the same as training anew, what is recorded and reported."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lindley.casework.case import Notes, evaluate_case, read_evidence
from lindley.casework.laboratory import load_scale
from lindley.errors import LindleyError
from lindley.pages.update_page import Update, past_cases, update_json
from lindley.system.system import System, load
from lindley.system.train import train
from lindley.system.update import read_background, update
from lindley.table.join import join_tables
from lindley.table.read import read_table
from lindley.table.table import export_csv
from tests.attacks.door import lindley
from tests.casework.factory import items, population, write_csv

FAST = ("--model", "tlm", "--replicates", "3")


def background(path: Path, seed: int, n: int, label: str) -> Path:
    values, source = population(n, 3, seed)
    return write_csv(path, np.round(values, 6), source=[f"{label}{each}" for each in source])


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two background files and more, systems that were trained on them, and reports of two cases."""
    folder = tmp_path_factory.mktemp("laboratory")
    background(folder / "one.csv", 1, 40, "a")
    background(folder / "two.csv", 2, 20, "b")
    background(folder / "more.csv", 3, 20, "c")
    background(folder / "labels.csv", 4, 20, "a")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert lindley("train", "one.csv", *FAST, "--out", "old.safetensors").status == 0
        assert lindley("train", "one.csv", "two.csv", *FAST, "--out", "both.safetensors").status == 0
        for k, item in enumerate(items(5, 2, 4)):
            write_csv(folder / f"trace{k}.csv", item[:2])
            write_csv(folder / f"ref{k}.csv", item[2:])
            words = ("--trace", f"trace{k}.csv", "--ref", f"ref{k}.csv", "--out", f"case{k}.html")
            assert lindley("case", "old.safetensors", *words).status == 0
        words = ("--trace", "trace0.csv", "--ref", "ref1.csv", "--out", "apart.json")
        assert lindley("case", "old.safetensors", *words).status == 0
    return folder


@pytest.fixture
def here(laboratory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, to work in."""
    folder = tmp_path / "laboratory"
    shutil.copytree(laboratory, folder)
    monkeypatch.chdir(folder)
    return folder


def same_system(one: System, other: System) -> bool:
    a, b = (items(9, 2, 4)[k] for k in (0, 1))
    return one.digests == other.digests and one.bounds == other.bounds and one.llr(a, b) == other.llr(a, b)


def test_a_system_names_every_file_of_its_background(laboratory: Path) -> None:
    system = load(laboratory / "both.safetensors")
    assert system.background == [
        {
            "file": name,
            "sha256": hashlib.sha256((laboratory / name).read_bytes()).hexdigest(),
            "rows": rows,
            "sources": n,
        }
        for name, rows, n in (("one.csv", 120, 40), ("two.csv", 60, 20))
    ]
    assert system.about["configuration"]["data"] == ["one.csv", "two.csv"]
    told = " ".join(lindley("info", laboratory / "both.safetensors").out.split())
    for each in system.background:
        assert (
            f"{each['file']}: {each['rows']} measurements of {each['sources']} sources, SHA-256 {each['sha256']}"
            in told
        )


def test_several_files_are_the_same_as_one_that_holds_them_all(here: Path) -> None:
    whole = here / "whole.csv"
    whole.write_text((here / "one.csv").read_text() + "".join((here / "two.csv").read_text().splitlines(True)[1:]))
    assert lindley("train", "whole.csv", *FAST, "--out", "whole.safetensors").status == 0
    assert same_system(load("whole.safetensors"), load("both.safetensors"))


def test_an_update_is_the_same_as_training_on_all_of_it(here: Path) -> None:
    answer = lindley("update", "old.safetensors", "two.csv")
    assert answer.status == 0, answer.err
    new = load("old-2.safetensors")
    assert same_system(new, load("both.safetensors"))
    assert new.background == load("both.safetensors").background
    old = load("old.safetensors")
    assert new.about["updates"] == {"file": "old.safetensors", "sha256": old.sha256}
    assert (new.about["seed"], new.about["bootstrap"], new.name) == (old.about["seed"], 3, "tlm")
    told = " ".join(lindley("info", "old-2.safetensors").out.split())
    assert f"Updates old.safetensors, SHA-256 {old.sha256}" in told
    assert lindley("update", "old-2.safetensors", "more.csv").status == 0
    assert [each["file"] for each in load("old-3.safetensors").background] == ["one.csv", "two.csv", "more.csv"]


def test_the_old_files_are_found_by_what_is_in_them(here: Path) -> None:
    (here / "archive").mkdir()
    (here / "one.csv").rename(here / "archive" / "renamed.csv")
    background(here / "one.csv", 8, 40, "a")  # another file under the old name
    answer = lindley("update", "old.safetensors", "two.csv", "--background", "archive", "--out", "new.safetensors")
    assert answer.status == 0, answer.err
    assert same_system(load("new.safetensors"), load("both.safetensors"))


def test_a_system_that_was_trained_in_python_takes_files_that_make_the_same_table(tmp_path: Path) -> None:
    table = read_table(background(tmp_path / "one.csv", 1, 40, "a"))
    export_csv(table, tmp_path / "exported.csv")
    more = background(tmp_path / "more.csv", 3, 20, "c")
    system = train(replace(table, files=()), "tlm", replicates=0)
    with pytest.raises(LindleyError, match=r"one \(120 measurements of 40 sources, SHA-256 of its table"):
        update(system, [more])
    assert len(update(system, [more], background=[tmp_path / "exported.csv"]).population.means) == 60


@pytest.mark.parametrize("choice", ["same", "different"])
@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")  # of so few sources
def test_labels_of_two_files_are_taken_as_they_were(choice: str, tmp_path: Path) -> None:
    paths = [
        background(tmp_path / f"{name}.csv", seed, 20, "a") for name, seed in (("one", 1), ("two", 2), ("more", 3))
    ]
    joined = join_tables([read_table(path) for path in paths[:2]], same_labels=choice)  # type: ignore[arg-type]
    system = train(joined, "tlm", replicates=0)
    assert read_background(system, [tmp_path]).same_labels == choice
    new = update(system, paths[2:], background=[tmp_path])
    assert new.about["data"]["sources"] == (20 if choice == "same" else 60)
    with pytest.raises(LindleyError, match=f'were joined with same_labels="{choice}"'):
        update(system, paths[2:], background=[tmp_path], same_labels={"same": "different"}.get(choice, "same"))


def test_new_files_are_read_as_the_old_ones_were_and_may_hold_one_source(here: Path) -> None:
    for name in ("one", "more"):
        lines = (here / f"{name}.csv").read_text().splitlines()
        kept = lines[1:] if name == "one" else lines[1:4]
        rows = [f"{lines[0]},vehicle", *(f"{line},{line[0]}{int(line[2:5]) // 2}" for line in kept)]
        (here / f"{name}-item.csv").write_text("\n".join(rows).replace("source,", "item,") + "\n")
    words = ("--source-column", "item", "--group-column", "vehicle")
    assert lindley("train", "one-item.csv", *words, *FAST, "--out", "item.safetensors").status == 0
    answer = lindley("update", "item.safetensors", "more-item.csv")
    assert answer.status == 0, answer.err
    new = load("item-2.safetensors")
    assert (new.about["data"]["sources"], new.about["data"]["groups"]) == (41, 21)
    assert new.about["configuration"]["source_column"] == "item"
    assert (
        lindley(
            "update", "item-2.safetensors", "two.csv", "--source-column", "source", "--group-column", "source"
        ).status
        == 2
    )
    assert "there is no column 'item'" in lindley("update", "item-2.safetensors", "two.csv").err


def test_the_report_tells_what_changed(here: Path) -> None:
    words = ("--cases", "case0.html", "--cases", "apart.json")
    answer = lindley("update", "old.safetensors", "two.csv", *words, width=80)
    assert answer.status == 0, answer.err
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", answer.out)
    assert max(map(len, plain.splitlines())) <= 80
    told = json.loads((here / "old-2-update.json").read_text("utf-8"))
    old, new = load("old.safetensors"), load("old-2.safetensors")
    for name, system in (("old", old), ("new", new)):
        assert told[name]["sha256"] == system.sha256
        assert told[name]["bounds"] == list(system.bounds)
        assert told[name]["validation"]["cllr"] == system.about["validation"]["cllr"]
    assert [each["report"] for each in told["cases"]] == ["case0.html", "apart.json"]
    for each, (trace, ref) in zip(told["cases"], (("trace0", "ref0"), ("trace0", "ref1")), strict=True):
        for name, system in (("old", old), ("new", new)):
            sides = (
                read_evidence(system, here / f"{trace}.csv", "trace"),
                read_evidence(system, here / f"{ref}.csv", "ref"),
            )
            said = evaluate_case(system, *sides, load_scale("nfi"), "en", Notes()).explanation
            assert each[name]["log10_lr"] == pytest.approx(said.log10_lr, abs=1e-9)
            assert each[name]["log10_lr_bounded"] == pytest.approx(said.log10_lr_bounded, abs=1e-9)
            assert said.interval is not None
            assert each[name]["interval"]["lower"] == pytest.approx(said.interval.lower, abs=1e-9)
    page = (here / "old-2-update.html").read_text("utf-8")
    assert "<script" not in page
    for text in (old.sha256, new.sha256, "120 measurements of 40 sources", "Past cases", "apart.json", "Cllr_min"):
        assert text in page
    assert "The background grew from 120 measurements of 40 sources to 180 of 60." in plain


def test_words_that_change_are_told(laboratory: Path) -> None:
    old = load(laboratory / "old.safetensors")
    timid = replace(old, casework=replace(old.casework, bounds=(-0.5, 0.5), shapes=()))  # type: ignore[type-var]
    cases = past_cases([laboratory / "case0.html", laboratory / "apart.json"], old, timid)
    assert [each.words_change for each in cases] == [True, True]
    told = Update(old, timid, cases)
    assert "The words change in 2 of 2 past cases." in told.conclusions
    assert any("case0.html: before, " in sentence and " Now, " in sentence for sentence in told.conclusions)
    rows = told.sections()[-1].rows
    assert [row[1] for row in rows] == ["changed", "changed"]
    assert update_json(told)["cases"][0]["words_change"] is True
    same = Update(old, old, past_cases([laboratory / "case0.html"], old, old))
    assert "The words for the past case are the same." in same.conclusions
    assert not same.cases[0].words_change


def test_a_case_that_is_in_the_new_background_is_told(here: Path) -> None:
    values, source = population(20, 3, 2)
    seen = np.concatenate([np.round(values, 6), np.round(items(5, 2, 4)[0], 6)])
    write_csv(here / "with-case.csv", seen, source=[*(f"b{each}" for each in source), *["case"] * 4])
    write_csv(here / "t.csv", np.round(items(5, 2, 4)[0][:2], 6))
    write_csv(here / "r.csv", np.round(items(5, 2, 4)[0][2:], 6))
    assert lindley("case", "old.safetensors", "--trace", "t.csv", "--ref", "r.csv", "--out", "c.json").status == 0
    answer = lindley("update", "old.safetensors", "with-case.csv", "--cases", "c.json")
    assert answer.status == 0, answer.err
    assert "c.json: its measurements are in the new background" in " ".join(answer.err.split())


def test_a_report_of_another_system_is_told(here: Path) -> None:
    answer = lindley("update", "both.safetensors", "more.csv", "--cases", "case0.html", "--json")
    assert answer.status == 0, answer.err
    (case,) = json.loads(answer.out)["cases"]
    assert case["remarks"] == ["it was made with another system than the old one, which computed its LR again"]

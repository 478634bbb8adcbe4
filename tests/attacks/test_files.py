"""Files and processes: no formulas for spreadsheets, nothing replaced, no paths of people, one run in a folder at a time."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, strategies as st

from lindley.errors import LindleyError
from lindley.experiment.folder import LOCK, held_folder
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.files import json_digest, write_atomically
from lindley.shown import as_text_cell, from_text_cell, starts_formula
from lindley.system.names import ModelName
from lindley.system.system import load
from lindley.table import datasets
from lindley.table.read import read_table
from lindley.table.table import Table, export_csv
from tests.attacks.door import lindley
from tests.casework import factory
from tests.experiment.conftest import make_experiment, make_table

FORMULAS = (
    "=1+1", "=cmd|' /C calc'!A0", "@SUM(1,2)", "+1", "-1", "-1+1", "+cmd|x", "=HYPERLINK(\"http://x\",\"y\")", "='a'", "'=1+1",
    "''=1", "'-1", "＝1+1", "＋1", "－1", "＠x", "a;=1+1", "a;-1", "a,=1", "a\t=1", "a\n=1", "a;'=1", "=", "-", "+", "@",
    "=\"x\"", "-Fe", "+31 6 123",
)  # fmt: skip
HARMLESS = ("pane 1", "'pane'", "it's", "a = b", "a-b", "a+b", "x@y", "'", "''", " =", "a; =b", "1-2", "1.5", "“=”")


def computed(text: str) -> bool:
    """Whether Excel computes a cell, in a country of commas or of semicolons."""
    return any(
        part[:1] in set("=+-@\t\r＝＋－＠") for part in text.replace(";", ",").replace("\n", ",").split(",") if part
    )


@pytest.mark.parametrize("label", FORMULAS)
def test_an_exported_table_computes_nothing_and_reads_back_the_same(label: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    source = np.repeat([label, *(f"s{k}" for k in range(9))], 2)
    table = Table.from_arrays(rng.normal(size=(20, 2)), source, features=(" ".join(label.split()), "K"))
    export_csv(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    for cell in (*header, *(row[0] for row in rows), *(row[1] for row in rows)):
        assert not computed(cell), cell
    again = read_table(tmp_path / "t.csv")
    assert again.source.tolist() == source.tolist()
    if "(" not in label:  # where a header names a unit
        assert again.features == table.features
    np.testing.assert_array_equal(again.values, table.values)


@pytest.mark.parametrize("label", HARMLESS)
def test_other_labels_are_left_as_they_are(label: str, tmp_path: Path) -> None:
    assert as_text_cell(label) == from_text_cell(label) == label
    lines = ["source,K", *(f'"{each}",{k}' for k, each in enumerate([label, label, *"abcdefghij"]))]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    table = read_table(tmp_path / "t.csv", purpose="whole")
    assert table.labels[0] == label.strip()
    assert not any(finding.code == "text-apostrophe" for finding in table.findings)


@given(st.text(alphabet="=+-@'\t\r\n;, a1＝"))
def test_every_label_comes_back(label: str) -> None:
    assert from_text_cell(as_text_cell(label)) == label
    assert not starts_formula(as_text_cell(label))


def test_apostrophes_of_somebody_else_never_make_one_source_of_two(tmp_path: Path) -> None:
    """A file that has both '=1 and =1 was not made safe by anybody: its labels are what they are."""
    lines = ["source,K", "'=1,1", "=1,2", "'=1,3", "=1,4", *(f"s{k // 2},{k}" for k in range(12))]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    assert read_table(tmp_path / "t.csv", purpose="whole").labels[:2] == ("'=1", "=1")
    lines = [line for line in lines if not line.startswith("=1")]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    table = read_table(tmp_path / "t.csv", purpose="whole")
    assert table.labels[0] == "=1"
    (note,) = (finding for finding in table.findings if finding.code == "text-apostrophe")
    assert "was taken off '=1'" in str(note)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system and the tables of a case, in a folder of somebody's."""
    home = tmp_path / "Users" / "j.smith"
    home.mkdir(parents=True)
    factory.saved(home)
    a = factory.items(3, 1, 3)[0]
    factory.write_csv(home / "trace.csv", a[:2])
    factory.write_csv(home / "ref.csv", a[2:])
    factory.write_csv(home / "two.csv", np.concatenate(factory.items(8, 2, 1)), source=["'=x", "-1"])
    return home


def case(folder: Path, ref: str = "ref.csv", *more: str | Path) -> list[str | Path]:
    return ["case", folder / "system.safetensors", "--trace", folder / "trace.csv", "--ref", folder / ref, *more]


def test_a_matrix_computes_nothing(folder: Path) -> None:
    assert lindley(*case(folder, "two.csv", "--out", folder / "m.csv")).status == 0
    with (folder / "m.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["trace", "log10_lr", "''=x", "'-1"]
    assert [from_text_cell(cell) for cell in header] == ["trace", "log10_lr", "'=x", "-1"]
    assert all(float(cell) is not None for row in rows for cell in row[2:])


def test_no_path_of_a_case_is_written_down(folder: Path) -> None:
    scale = folder / "scale.yaml"
    scale.write_text(Path("src/lindley/casework/scales/nfi.yaml").read_text("utf-8"), encoding="utf-8")
    for name in ("r.json", "r.html"):
        answer = lindley(*case(folder, "ref.csv", "--out", folder / name, "--scale", scale))
        assert answer.status == 0, answer.text
        text = (folder / name).read_text("utf-8")
        assert "j.smith" not in text
        assert "--trace trace.csv --ref ref.csv" in text.replace("&#34;", '"')
    assert lindley(*case(folder, "two.csv", "--out", folder / "m.json")).status == 0
    assert "j.smith" not in (folder / "m.json").read_text("utf-8")
    assert "j.smith" not in lindley(*case(folder, "ref.csv", "--json")).out


def everything(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_no_path_of_a_run_is_written_down(folder: Path) -> None:
    export_csv(make_table(), folder / "panes.csv")
    (folder / "mine.yaml").write_text(
        yaml.safe_dump({"data": str(folder / "panes.csv"), "models": ["tlm"], "protocol": {"splits": 1}}),
        encoding="utf-8",
    )
    out = folder / "out"
    answer = lindley("run", folder / "mine.yaml", "--out", out, "--no-report")
    assert answer.status == 0, answer.text
    assert b"j.smith" not in everything(out)
    assert yaml.safe_load((out / "experiment.yaml").read_text("utf-8"))["data"] == "panes.csv"
    told = lindley("compare", out, "--to", "tlm", "--json")
    assert json.loads(told.out)[0]["run"] == "out"


@pytest.mark.parametrize("path", [r"C:\Users\j.smith\t.csv", "/home/j.smith/t.csv", r"\\server\j.smith\t.csv", "t.csv"])
def test_a_model_names_its_table_and_not_the_folder(path: str) -> None:
    name = ModelName.of("robust+logistic", options={"pretrain": path})
    assert str(name) == "robust[pretrain=t.csv]+logistic"
    told = make_experiment(models=[{"model": "robust", "options": {"pretrain": path}}], data=path).told()
    assert "j.smith" not in json.dumps(told)
    assert told["data"] == "t.csv"


def test_two_models_that_differ_by_a_folder_alone() -> None:
    with pytest.raises(ValueError, match="differ by the folders of their files alone"):
        make_experiment(models=["robust[pretrain=a/t.csv]", "robust[pretrain=b/t.csv]"])


def test_no_path_of_a_training_is_written_down(folder: Path) -> None:
    export_csv(factory.table(20, 3), folder / "glass.csv")
    out = folder / "new.safetensors"
    answer = lindley("train", folder / "glass.csv", "--out", out, "--model", "tlm", "--replicates", "0")
    assert answer.status == 0, answer.text
    assert b"j.smith" not in out.read_bytes()
    assert load(out).about["configuration"]["data"] == "glass.csv"


OUTPUTS: dict[str, tuple[list[str], str]] = {
    "a page": (["case", "{}/system.safetensors", "--trace", "{}/trace.csv", "--ref", "{}/ref.csv"], "r.html"),
    "its JSON": (["case", "{}/system.safetensors", "--trace", "{}/trace.csv", "--ref", "{}/ref.csv"], "r.json"),
    "a matrix": (["case", "{}/system.safetensors", "--trace", "{}/trace.csv", "--ref", "{}/two.csv"], "m.csv"),
    "its JSON too": (["case", "{}/system.safetensors", "--trace", "{}/trace.csv", "--ref", "{}/two.csv"], "m.json"),
    "a system": (["train", "{}/glass.csv", "--model", "tlm", "--replicates", "0"], "s.safetensors"),
    "a table": (["data", "export", "glass-simulated"], "t.csv"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_nothing_is_replaced_unless_forced(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.table.simulated.N_SOURCES", 20)
    export_csv(factory.table(20, 3), folder / "glass.csv")
    arguments, file = OUTPUTS[name]
    arguments = [each.format(folder) for each in arguments]
    out = folder / file
    out.write_text("mine")
    refused = lindley(*arguments, "--out", out)
    assert refused.status == 2
    assert f"{out} is there already. Give another name, or --force to replace it." in refused.err
    assert refused.out == ""
    assert out.read_text() == "mine"
    forced = lindley(*arguments, "--out", out, "--force")
    assert forced.status == 0, forced.text
    assert out.read_bytes() != b"mine"
    for place, why in (
        (folder / "none" / file, "there is no folder"),
        (Path("/proc") / file, "nothing can be written"),
    ):
        if why == "there is no folder" or Path("/proc").is_dir():
            answer = lindley(*arguments, "--out", place)
            assert answer.status == 2
            assert why in answer.err
            assert answer.out == ""


def test_a_file_that_comes_up_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.html"
    path.write_text("of another process")
    with pytest.raises(LindleyError, match="is there already"):
        write_atomically(path, b"new", replace=False)
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    path.unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(LindleyError, match="No space left"):
        write_atomically(path, b"new", replace=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [200, 250, 255, 256, 300])
def test_names_of_files_that_are_long(length: int, tmp_path: Path) -> None:
    """What the disk takes is written; what it does not take is told."""
    path = tmp_path / f"{'x' * (length - 4)}.csv"
    if length <= 255:
        write_atomically(path, b"a")
        assert path.read_bytes() == b"a"
    else:
        with pytest.raises(LindleyError, match="File name too long"):
            write_atomically(path, b"a")


def test_one_run_in_a_folder_at_a_time(tmp_path: Path) -> None:
    """Another process holds it, says who it is, is killed, and leaves nothing that holds."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom lindley.experiment.folder import held_folder\n"
        "with held_folder(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        export_csv(make_table(), tmp_path / "panes.csv")
        words = ("run", "--data", tmp_path / "panes.csv", "--splits", "1", "--models", "tlm", "--no-report")
        refused = lindley(*words, "--out", tmp_path / "out")
        assert refused.status == 2
        assert f"Somebody is at work in the folder {tmp_path / 'out'}: process {holder.pid} on " in refused.err
        assert "or name another folder with --out" in refused.err
        assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    done = lindley(*words, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert not (tmp_path / "out" / LOCK).exists()


def test_a_lock_goes_with_its_holder(tmp_path: Path) -> None:
    who = r"Somebody is at work .*process \d+ on .*, since 20\d\d-"
    with held_folder(tmp_path / "a"):
        with pytest.raises(LindleyError, match=who), held_folder(tmp_path / "a"):
            raise AssertionError("two at once")
        assert (tmp_path / "a" / LOCK).exists()
    assert not (tmp_path / "a" / LOCK).exists()
    with pytest.raises(KeyboardInterrupt), held_folder(tmp_path / "b"):
        raise KeyboardInterrupt
    assert not (tmp_path / "b").exists()
    (tmp_path / "a" / LOCK).write_text("process 1 on a machine that lost its power")
    with held_folder(tmp_path / "a"):
        pass


def test_a_disk_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(file: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("lindley.files._lock_at_once", none)
    with pytest.warns(UserWarning, match="has no locks"), held_folder(tmp_path):
        pass


def test_report_and_evaluate_wait_for_nobody(tmp_path: Path, folder: Path) -> None:
    export_csv(factory.table(30, 3, 9), tmp_path / "new.csv")
    with held_folder(tmp_path / "out"):
        answer = lindley("evaluate", folder / "system.safetensors", tmp_path / "new.csv", "--out", tmp_path / "out")
        assert answer.status == 2
        assert "Somebody is at work" in answer.err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    run_experiment(SMALL, make_table(), out).write(out)
    return out


SMALL = make_experiment(models=("tlm", "tlm+logistic"), protocol={"splits": 2})
FORGED_FACTS: dict[str, tuple[Any, ...]] = {
    "a figure": ("models", "tlm", "test", "cllr", 0),
    "another figure": ("models", "tlm", "validate", "cllr", 1),
    "the count of sources": ("data", "sources"),
    "the count of rows": ("data", "rows"),
    "the name of the data": ("data", "name"),
    "the features": ("data", "features", 0),
    "the findings": ("data", "findings"),
    "the seed": ("protocol", "seed"),
    "the seed of the experiment": ("experiment", "protocol", "seed"),
    "the epochs": ("training", "epochs"),
    "the version": ("environment", "lindley"),
    "the code": ("environment", "code_sha256"),
    "the machine": ("environment", "platform"),
    "the seconds": ("models", "tlm", "seconds"),
}
UNKNOWN_TO_THE_FOLDER = ("the findings", "the version", "the code", "the machine")


@pytest.mark.parametrize("fact", FORGED_FACTS)
def test_facts_that_were_changed_are_told(fact: str, finished: Path) -> None:
    path = finished / "results.json"
    good = path.read_bytes()
    content = json.loads(good)
    *steps, last = FORGED_FACTS[fact]
    inside = content
    for step in steps:
        inside = inside[step]
    inside[last] = {int: 7777, float: 7777.5, str: "forged", list: ["forged"]}[type(inside[last])]
    try:
        path.write_text(json.dumps(content), encoding="utf-8")
        answer = lindley("report", finished)
        assert answer.status == 2
        assert "was changed after it was written, or is damaged: its digest is another" in answer.err
        content.pop("sha256")
        path.write_text(json.dumps({**content, "sha256": json_digest(content)}), encoding="utf-8")
        if fact in UNKNOWN_TO_THE_FOLDER:  # a digest has no key: this is what it does not protect against
            SavedRun.open(finished)
        else:
            with pytest.raises(LindleyError, match=r"damaged|not those of|another"):
                SavedRun.open(finished)
    finally:
        path.write_bytes(good)


def test_another_out_is_no_damage(tmp_path: Path, finished: Path) -> None:
    export_csv(make_table(), tmp_path / "panes.csv")
    words = ("run", "--data", tmp_path / "panes.csv", "--splits", "1", "--models", "tlm")
    assert lindley(*words, "--out", tmp_path / "a", "--no-report").status == 0
    (tmp_path / "a").rename(tmp_path / "b")
    moved = lindley(*words, "--out", tmp_path / "b", "--no-report")
    assert moved.status == 0
    assert moved.err.startswith("note: 1 of 1 parts of this experiment are finished already, and are used.\n")
    assert len(moved.err.splitlines()) == 2  # the other tells the figures
    other = lindley(*words, "--seed", "4", "--out", tmp_path / "b", "--no-report")
    assert "experiment.yaml is of other settings: it is written again." in other.err
    assert "damaged" not in other.err
    (tmp_path / "b" / "experiment.yaml").write_text("name: [")
    assert (
        "experiment.yaml is damaged: it is written again."
        in lindley(*words, "--out", tmp_path / "b", "--no-report").err
    )


def test_a_named_data_set_that_changed_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))

    def write(change: float) -> None:
        lines = ["speaker,rep,gender,yob,F1,F2"]
        for k, (a, b) in enumerate(rng.normal(size=(60, 2)).round(4).tolist()):
            lines.append(f"v{k // 3},{k % 3},x,1900,{a + change},{b}")
        (tmp_path / "onze_vowels.csv").write_text("\n".join(lines), encoding="utf-8")

    write(0.0)
    words = (
        "run",
        "--data",
        "onze-vowels",
        "--splits",
        "1",
        "--models",
        "tlm",
        "--no-report",
        "--out",
        tmp_path / "out",
    )
    assert lindley(*words).status == 0
    before = everything(tmp_path / "out")
    write(0.1)
    answer = lindley(*words)
    assert answer.status == 2
    assert "onze-vowels is not what it was when the run in" in answer.err
    assert everything(tmp_path / "out") == before

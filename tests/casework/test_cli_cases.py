"""``lindley train`` and ``lindley case`` as their users meet them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.system.system import load
from tests.casework.factory import FEATURES, items, population, saved, write_csv
from tests.command import here

ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "120"}
KEYS = {
    "log10_lr", "log10_lr_bounded", "log10_similarity", "log10_typicality", "interval", "verbal", "axes", "features",
    "warnings", "system", "trace", "ref",
}  # fmt: skip


def lindley(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own: for statuses and streams."""
    return subprocess.run(
        [sys.executable, "-m", "lindley", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=ENVIRONMENT, check=False,
    )  # fmt: skip


def run(*arguments: str | Path) -> str:
    """In this process: what it prints, or what it raises."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system, and the tables of a case."""
    saved(tmp_path)
    a, b = items(3, 2, 5)
    write_csv(tmp_path / "trace.csv", a[:2])
    write_csv(tmp_path / "ref.csv", a[2:])
    write_csv(tmp_path / "other.csv", b)
    return tmp_path


def command(folder: Path, trace: str = "trace.csv", ref: str = "ref.csv", *more: str | Path) -> list[str | Path]:
    return ["case", folder / "system.safetensors", "--trace", folder / trace, "--ref", folder / ref, *more]


def test_train_then_case_in_processes_of_their_own(tmp_path: Path) -> None:
    values, source = population(24, 3, 4)
    names = [f"{name} [ppm]" for name in FEATURES[:3]] + ["Si28"]
    write_csv(tmp_path / "glass.csv", 10**values, names, source.tolist())
    answer = lindley(
        "train", "glass.csv", "--out", "glass.safetensors", "--transform", "log10", "--reference-column", "Si28",
        "--replicates", "2", "--seed", "3", cwd=tmp_path,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    said = " ".join(answer.stdout.split())
    assert "robust, trained on 72 measurements of 24 sources in 3 features" in said
    assert "Cllr" in said
    assert "These pairs support LRs from 1/" in said
    digest = hashlib.sha256((tmp_path / "glass.safetensors").read_bytes()).hexdigest()
    assert said.endswith(f"System: glass.safetensors SHA-256: {digest} Keep it in the laboratory's archive.")
    system = load(tmp_path / "glass.safetensors")
    about = system.about
    assert system.features == FEATURES[:3]
    assert system.units == ("ppm",) * 3
    assert (system.transform, system.reference) == ("log10", "Si28")
    assert about["configuration"]["data"] == "glass.csv"
    assert {"data", "versions", "created", "validation", "seed"} <= set(about)
    item = 10 ** items(5, 1, 3)[0]
    write_csv(tmp_path / "t.csv", item[:1], ["K39 [ppm]", "Ti49", "Mn55", "Si28"])
    write_csv(tmp_path / "r.csv", item[1:], ["K39", "Ti49", "Mn55", "Si28"])
    arguments = ("case", "glass.safetensors", "--trace", "t.csv", "--ref", "r.csv", "--out", "report.html", "--json")
    answer = lindley(*arguments, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    content = json.loads(answer.stdout)
    assert set(content) >= KEYS
    assert content["log10_lr"] == pytest.approx(system.llr(item[:1], item[1:]), abs=1e-9)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    write_csv(tmp_path / "volume.csv", item[:1], ["K39 [mg/L]", "Ti49", "Mn55", "Si28"])
    answer = here("case", "glass.safetensors", "--trace", "volume.csv", "--ref", "r.csv", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "the values are in mg/L, and the system was trained on ppm" in answer.stderr


def test_the_report_on_standard_output(folder: Path) -> None:
    said = run(*command(folder))
    for words in ("The findings are", "log10 LR, calculated", "log10 LR, reported", "log10 similarity", "log10 typicality",
                  "90 % interval", "What to keep in mind"):  # fmt: skip
        assert words in said
    dutch = run(*command(folder, "trace.csv", "other.csv", "--language", "nl", "--scale", "enfsi"))
    assert "De bevindingen geven" in dutch
    assert "Aandachtspunten" in dutch


def test_json_is_one_object_with_the_numbers_of_python(folder: Path) -> None:
    content = json.loads(
        run(*command(folder, "trace.csv", "other.csv", "--json", "--case", "A1", "--trace-label", "jacket"))
    )
    assert set(content) >= KEYS
    a, b = items(3, 2, 5)
    said = load(folder / "system.safetensors").explain(a[:2], b)
    assert content["log10_lr"] == pytest.approx(said.log10_lr, rel=1e-12)
    assert content["log10_lr_bounded"] == said.log10_lr_bounded
    assert content["interval"]["replicates"] == 6
    assert content["verbal"]["sentence"].startswith("The findings are")
    assert sum(f["log10_lr"] for f in content["features"]) == pytest.approx(content["log10_lr"])
    assert len(content["axes"]) == 4
    assert {warning["code"] for warning in content["warnings"]} >= {"beyond-bounds"}
    assert content["trace"]["label"] == "jacket"
    assert content["ref"]["label"] == "other"
    assert content["trace"]["measured"][0]["K39"] == a[0, 0]
    assert len(content["system"]["sha256"]) == len(content["trace"]["files"][0]["sha256"]) == 64
    assert content["case"] == "A1"
    assert "--trace-label jacket" in content["command"]


def test_a_calibrated_system_says_that_its_lr_is_no_ratio_of_both(tmp_path: Path) -> None:
    saved(tmp_path, "tlm-kde+logistic")
    a = items(3, 1, 4)[0]
    write_csv(tmp_path / "trace.csv", a[:2])
    write_csv(tmp_path / "ref.csv", a[2:])
    said = " ".join(run(*command(tmp_path)).split())
    assert "What is reported is therefore not similarity over typicality" in said
    assert "log10 LR of the model, before calibration" in said
    content = json.loads(run(*command(tmp_path, "trace.csv", "ref.csv", "--json")))
    assert content["calibrated"] is True
    assert content["log10_similarity"] - content["log10_typicality"] == pytest.approx(content["log10_lr_model"])
    assert content["log10_lr"] != pytest.approx(content["log10_lr_model"])


@pytest.mark.parametrize("ending", ["html", "json"])
def test_out_by_its_ending(folder: Path, ending: str) -> None:
    out = folder / f"report.{ending}"
    said = run(*command(folder, "trace.csv", "ref.csv", "--out", out))
    assert f"Report: {out}" in said.replace("\n", "")
    text = out.read_text(encoding="utf-8")
    if ending == "json":
        assert set(json.loads(text)) >= KEYS
    else:
        assert text.startswith("<!doctype html>")


def test_a_batch_from_a_table_and_a_folder(folder: Path) -> None:
    traces = items(8, 3, 2)
    labels = ["T1", "T1", "T2", "T2", "T3", "T3"]
    write_csv(folder / "traces.csv", np.concatenate(traces), source=labels)
    (folder / "refs").mkdir()
    refs = items(9, 4, 3)
    for k, ref in enumerate(refs):
        write_csv(folder / "refs" / f"window {k}.csv", ref)
    matrix = load(folder / "system.safetensors").llr_matrix(traces, refs)
    content = json.loads(run(*command(folder, "traces.csv", "refs", "--json")))
    assert content["traces"] == ["T1", "T2", "T3"]
    assert content["refs"] == [f"window {k}" for k in range(4)]
    np.testing.assert_allclose(content["log10_lr"], matrix, rtol=1e-9, atol=1e-9)
    bounds = load(folder / "system.safetensors").bounds
    np.testing.assert_allclose(content["log10_lr_bounded"], np.clip(matrix, *bounds), rtol=1e-9)
    for out in (folder / "matrix.csv", folder / "matrix.json"):
        said = run(*command(folder, "traces.csv", "refs", "--out", out))
        assert "3 traces × 4 refs" in said
        assert "window 3" in said
        assert "*" in said
    with (folder / "matrix.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["trace", "log10_lr", *content["refs"]]
    assert [row[:2] for row in rows[1:]] == [
        [f"T{k}", which] for which in ("reported", "calculated") for k in (1, 2, 3)
    ]
    llrs = [[float(cell) for cell in row[2:]] for row in rows[1:]]
    assert llrs == content["log10_lr_bounded"] + content["log10_lr"]
    assert json.loads((folder / "matrix.json").read_text(encoding="utf-8"))["log10_lr"] == content["log10_lr"]


def test_a_large_matrix_is_not_printed(folder: Path) -> None:
    write_csv(folder / "many.csv", np.concatenate(items(8, 30, 1)), source=[f"T{k}" for k in range(30)])
    said = run(*command(folder, "many.csv", "ref.csv"))
    assert "30 traces × 1 refs" in said
    assert "write it with --out matrix.csv" in said
    assert "measured once" in said


def arguments_of(
    trace: str = "trace.csv", ref: str = "ref.csv", *more: str, system: str = "system.safetensors"
) -> list[str]:
    return ["case", system, "--trace", trace, "--ref", ref, *more]


def training(out: str, *more: str) -> list[str]:
    return ["train", "train.csv", "--out", out, *more]


REFUSED: dict[str, tuple[list[str], str]] = {
    "no system": (arguments_of(system="none.safetensors"), "there is no file none.safetensors"),
    "no trace": (arguments_of("none.csv"), "none.csv"),
    "a table as system": (arguments_of(system="trace.csv"), "does not hold a lindley system"),
    "no such scale": (arguments_of("trace.csv", "ref.csv", "--scale", "x"), "no verbal scale 'x'"),
    "no such folder": (arguments_of("trace.csv", "ref.csv", "--out", "no/r.html"), "there is no folder no"),
    "a strange ending": (arguments_of("trace.csv", "ref.csv", "--out", "r.docx"), "ends in .html"),
    "CSV of one case": (arguments_of("trace.csv", "ref.csv", "--out", "new.csv"), ".csv is for the matrix"),
    "over the trace": (arguments_of("trace.csv", "two.csv", "--out", "trace.csv"), "among the files that are read"),
    "a workbook of one case": (arguments_of("trace.csv", "ref.csv", "--out", "new.xlsx"), ".xlsx is for the matrix"),
    "into a folder that is read": (arguments_of(".", "ref.csv", "--out", "."), "is a folder that is read"),
    "meaningless": (arguments_of("far.csv", "ref.csv", "--out", "r.html"), "no LR is given for this case"),
    "meaningless in a batch": (arguments_of("far.csv", "two.csv", "--out", "m.csv"), "no LR is given"),
    "over a system": (training("system.safetensors"), "system.safetensors is there already"),
    "a system called CSV": (training("new.csv"), "new.csv: give a file that ends in .safetensors"),
    "a system nowhere": (training("no/new.safetensors"), "there is no folder no"),
    "an unknown model": (training("new.safetensors", "--model", "tml"), "tml"),
    "unknown units": (training("new.safetensors", "--units", "Xe=ppm"), "--units names 'Xe'"),
    "too few sources": (training("new.safetensors"), "too few for a system"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_is_written(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, source = population(8, 3, 4)
    write_csv(folder / "train.csv", values, source=source.tolist())
    write_csv(folder / "two.csv", np.concatenate(items(8, 2, 1)), source=["A", "B"])
    write_csv(folder / "far.csv", 1e6 + items(8, 1, 2)[0])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.chdir(folder)
    arguments, message = REFUSED[name]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, LindleyError), result.output
    with speaking("shell"):
        assert message in str(result.exception)
    assert result.stdout == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_problems_of_both_tables_are_told_at_once(folder: Path) -> None:
    for name in ("trace.csv", "ref.csv"):
        (folder / name).write_text("K39\n1\n")
    result = CliRunner().invoke(app, [str(a) for a in command(folder)])
    assert "trace.csv" in str(result.exception)
    assert "ref.csv" in str(result.exception)


def test_a_refusal_ends_with_status_2_and_the_reasons_on_standard_error(folder: Path) -> None:
    write_csv(folder / "far.csv", 1e6 + items(8, 1, 1)[0])
    answer = here(*map(str, command(folder, "far.csv", "ref.csv", "--json", "--out", folder / "r.html")))
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "outside the range of the population" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (folder / "r.html").exists()


def test_a_disk_that_is_full_leaves_no_half_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(path.name for path in folder.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = CliRunner().invoke(
        app, [str(a) for a in command(folder, "trace.csv", "ref.csv", "--out", folder / "r.html")]
    )
    assert "cannot be written" in str(result.exception)
    assert result.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == before


def test_force_replaces_a_system(folder: Path) -> None:
    values, source = population(30, 3, 4)
    write_csv(folder / "train.csv", values, source=source.tolist())
    out = folder / "system.safetensors"
    run("train", folder / "train.csv", "--out", out, "--force", "--model", "tlm", "--replicates", "0", "--units", "ppm")
    assert load(out).name == "tlm"
    assert load(out).units == ("ppm",) * 4
    assert not math.isnan(load(out).llr(values[0], values[1]))


def test_the_command_in_the_report_repeats_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its files are: it names no folder."""
    import shlex

    content = json.loads(run(*command(folder, "trace.csv", "ref.csv", "--json", "--examiner", "A. 'B' $C")))
    words = shlex.split(content["command"])
    assert words[:2] == ["lindley", "case"]
    assert str(folder) not in content["command"]
    monkeypatch.chdir(folder)
    again = json.loads(run(*words[1:], "--json"))
    assert again == content

"""The command as its users meet it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lindley.data.export import export_csv
from lindley.data.simulated import glass_population, simulate_table

ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}


def lindley(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lindley", *arguments],
        capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=ENVIRONMENT, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "glass.csv"
    export_csv(simulate_table(glass_population(), 150, 3, seed=1), path)
    return path


def test_help_is_quick_and_loads_no_torch() -> None:
    heavy = "{'torch', 'sklearn', 'scipy', 'numpy'} & set(sys.modules)"
    code = f"import sys, lindley, lindley.cli; sys.exit(len({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        assert lindley("--help").returncode == 0
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 1.0


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["check", "--help"], ["data", "--help"], []])
def test_help(arguments: list[str]) -> None:
    answer = lindley(*arguments)
    assert "Usage" in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def test_run_on_a_table(small_table: Path, tmp_path: Path) -> None:
    answer = lindley(
        "run", "--data", str(small_table), "--splits", "2", "--seed", "3",
        "--models", "tlm,tlm+logistic+elub", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "tlm+logistic+elub" in answer.stdout
    assert "150 sources, 18 features, 2 splits, seed 3" in answer.stdout
    assert str(tmp_path / "out" / "results.json") in answer.stdout.replace("\n", "")
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(content["models"]) == ["tlm", "tlm+logistic+elub"]
    assert "oracle" not in content  # a file is a file, whatever it was made from
    assert "tlm, 2 splits" in answer.stderr


def test_run_warns_about_the_table_and_shrinkage(small_table: Path, tmp_path: Path) -> None:
    lines = small_table.read_text().splitlines()
    short = tmp_path / "short.csv"
    short.write_text("\n".join(lines[: 1 + 3 * 24]) + "\n")
    answer = lindley("run", "--data", str(short), "--splits", "2", "--models", "tlm", "--out", str(tmp_path))
    assert answer.returncode == 0, answer.stderr
    assert "warning:" in answer.stderr
    assert "Ledoit and Wolf" in answer.stderr
    assert ".py:" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--data", "nowhere.csv"], "nowhere.csv"),
        (["run", "--models", "tlm+logit"], "there is no calibration 'logit'"),
        (["run", "--models", ""], "no model to run"),
        (["run", "--splits", "0"], "splits must be 1 or more"),
        (["run", "papre"], "there is no experiment 'papre'"),
        (["run", "--data", "glass-simulated", "--source-column", "x"], "leave out --source-column"),
        (["data", "export", "glass"], "glass-simulated"),
    ],
)
def test_errors_are_plain_and_end_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    answer = lindley(*arguments, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith("Error:")
    assert list(tmp_path.iterdir()) == []


def test_check_and_its_exit_status(small_table: Path, tmp_path: Path) -> None:
    good = lindley("check", str(small_table))
    assert good.returncode == 0
    assert "150" in good.stdout
    lines = small_table.read_text().splitlines()
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(lines[:-2]) + "\n")  # the last source keeps one measurement
    assert lindley("check", str(alone)).returncode == 0
    strict = lindley("check", str(alone), "--strict")
    assert strict.returncode == 1
    assert "S0150" in strict.stdout
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([*lines[:-2], lines[-2].replace("0.", "zero", 1), ""]))
    answer = lindley("check", str(bad))
    assert answer.returncode == 2
    assert "is not a number" in answer.stdout


def test_data_list_and_export(tmp_path: Path) -> None:
    listing = lindley("data", "list")
    for name in ("glass-simulated", "nfi-glass", "fiu-vehicle-glass", "onze-vowels"):
        assert name in listing.stdout
    answer = lindley("data", "export", "glass-simulated", cwd=tmp_path)
    assert answer.returncode == 0
    assert "6318 rows, 1053 sources, 18 features" in answer.stdout
    assert len((tmp_path / "glass-simulated.csv").read_text().splitlines()) == 6319
    assert lindley("check", "glass-simulated.csv", cwd=tmp_path).returncode == 0

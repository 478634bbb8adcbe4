"""The gauntlet: its figures from known rows, and a whole run on a table that is made here."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from bench.gauntlet import figures, main, summary

from lindley.experiment.results import ModelResult, SizeResult


def row(model: str, test: list[float], series: tuple[SizeResult, ...] = ()) -> ModelResult:
    return ModelResult(model, tuple(test), tuple(test), tuple(c / 2 for c in test), (), 1.0, series)


def test_figures_are_ratios_of_means_over_splits_and_seeds() -> None:
    size = SizeResult((2, 2), (9, 9), (0.1, 0.3), (0.1, 0.1))
    runs = [
        {
            "raw": row("raw", [0.1, 0.3], (size,)),
            "a": row("a", [0.4, 0.4], (size,)),
            "b": row("b", [0.1, 0.1], (size,)),
        },
        {
            "raw": row("raw", [0.2, 0.2], (size,)),
            "a": row("a", [0.4, 0.4], (size,)),
            "b": row("b", [0.9, 0.9], (size,)),
        },
    ]
    found = figures(runs, "raw")
    assert found["best"] == "a"
    assert found["cllr"] == pytest.approx(0.2)
    assert found["cllr_min"] == pytest.approx(0.1)
    assert found["ratio"] == pytest.approx(0.5)
    assert found["sizes"]["2x2"]["raw"] == pytest.approx(0.2)
    both = summary({"x": found, "y": {"ratio": 2.0}, "z": {"ratio": 8.0}})
    assert both["geometric_mean"] == pytest.approx(2.0)
    assert both["worst"] == 8.0


def test_a_table_that_is_there_is_compared_and_the_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    (tmp_path / "xtc").mkdir()
    with (tmp_path / "xtc" / "xtc.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "replicate", "a", "b"])
        for source, mean in enumerate(rng.normal(scale=5, size=(60, 2))):
            writer.writerows([f"s{source}", i, *(mean + rng.normal(size=2)).round(6)] for i in range(2))
    monkeypatch.setenv("LINDLEY_DATA", str(tmp_path))
    out = tmp_path / "figures.json"
    given = ["--quick", "--model", "tlm", "--rivals", "tlm+logistic", "--tables", "xtc", "olive-oils"]
    assert main([*given, "--folder", str(tmp_path / "runs"), "--json", str(out)]) == 0
    found = json.loads(out.read_text("utf-8"))
    assert len(found["missing"]) == 1
    assert "olive_oils_ftir" in found["missing"][0]
    rows = found["tables"]["xtc"]["rows"]
    assert found["tables"]["xtc"]["ratio"] == pytest.approx(rows["tlm"] / rows["tlm+logistic"])
    assert 0 < rows["tlm"] < 1
    assert math.isfinite(rows["tlm+logistic"])
    assert "olive-oils" in capsys.readouterr().out

"""The files in examples/lindley run, and those in examples/lir are sent on to LiR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.experiment.config import load_experiment
from lindley.experiment.saved import SavedRun
from lindley.table import simulated

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("path", sorted((EXAMPLES / "lindley").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "N_SOURCES", 240)
    size = ["--splits", "2", "--epochs", "3", "--no-report"]
    run = CliRunner().invoke(app, ["run", str(path), *size, "--out", str(tmp_path)], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    saved = SavedRun.open(tmp_path)
    assert list(saved.models) == list(load_experiment(str(path)).rows)
    cllr = [saved.result(row).test_cllr for row in saved.models]
    assert all(len(splits) == 2 and np.isfinite(splits).all() for splits in cllr)
    assert min(map(max, cllr)) < 1  # of 80 sources and three epochs, the worst rows say nothing
    assert f"lindley run examples/lindley/{path.name}" in path.read_text("utf-8")


@pytest.mark.parametrize("path", sorted((EXAMPLES / "lir").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_of_lirs_is_sent_on_to_lir(path: Path) -> None:
    with pytest.raises(LindleyError, match=r"line \d+, .* a file of LiR's") as told:
        load_experiment(str(path))
    assert f"'lir {path}'" in str(told.value)

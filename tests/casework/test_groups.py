"""Groups of sources in casework: both propositions in a case, one share of mates from training to validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lindley
from lindley.casework.performance import Settings, square
from lindley.cli import app
from lindley.evaluation.metrics import cllr
from lindley.models.two_level import score
from lindley.pages.case_page import render_case
from lindley.pages.case_words import describe_case, describe_training
from lindley.system.system import System
from lindley.table.table import Table, export_csv

BETWEEN, GROUP = np.array([60.0, 40.0, 30.0]), np.array([3.0, 1.0, 0.3])
"""Variances of groups, and of the sources of one; that of a measurement is 1."""


def table(groups: int, seed: int, size: int = 3) -> Table:
    """Two measurements of every source, of three sources in every group."""
    rng, n = np.random.default_rng(seed), groups * size
    of_group = np.sqrt(BETWEEN) * rng.normal(size=(groups, 3))
    of_source = np.repeat(of_group, size, axis=0) + np.sqrt(GROUP) * rng.normal(size=(n, 3))
    values = np.repeat(of_source, 2, axis=0) + rng.normal(size=(2 * n, 3)) + 50
    source = np.repeat([f"s{i:04d}" for i in range(n)], 2)
    group = np.repeat([f"g{i // size:04d}" for i in range(n)], 2)
    return Table("panes", values, ("a", "b", "c"), source, group, np.arange(2 * n).astype(str))


@pytest.fixture(scope="module")
def system() -> System:
    return lindley.train(table(30, 0), "robust", replicates=0)


def pair(system: System) -> tuple[Any, Any]:
    values = table(30, 0).values
    return values[:1] + 0.3, values[1:2]


def test_a_case_gives_both_propositions(system: System) -> None:
    trace, ref = pair(system)
    case = system.case(trace, ref)
    said = case.explanation.by_group
    assert said is not None
    sides = [system.prepared(system.side([trace], "trace"))], [system.prepared(system.side([ref], "ref"))]
    for share, found in ((0.0, said.other_group), (1.0, said.same_group), (said.share, case.explanation.log10_lr)):
        expected = score(system.point.under(share), *sides)[0][0, 0]  # type: ignore[attr-defined]
        assert found == pytest.approx(
            np.clip(expected, *system.bounds) if found is not case.explanation.log10_lr else expected
        )
    assert said.same_group < said.other_group
    assert said.share == pytest.approx(2 / 89)
    assert case.to_json()["by_group"]["same_group"] == said.same_group
    for text in (describe_case(case), render_case(case)):
        assert "are of one group (as two windows of one" in " ".join(text.split())
        assert "2.2 % of pairs" in " ".join(text.split())
    dutch = render_case(system.case(trace, ref, language="nl"))
    assert "van dezelfde groep" in " ".join(dutch.split())
    assert "2.2 % of the pairs of different sources, in fit, calibration, bounds and validation" in render_case(case)


def test_a_training_says_its_share(system: System) -> None:
    assert system.about["mates"] == {"setting": "as-in-table", "share": pytest.approx(2 / 89)}
    assert system.mates == pytest.approx(2 / 89)
    assert "Different sources of one group are 2.2 % of the pairs" in " ".join(describe_training(system).split())


def test_a_calibrated_system_has_no_lr_by_group() -> None:
    calibrated = lindley.train(table(30, 0), "tlm+logistic", replicates=0)
    case = calibrated.case(*pair(calibrated))
    assert case.explanation.by_group is None
    assert "by_group" not in case.to_json()
    assert calibrated.mates == pytest.approx(2 / 89)


def test_calibration_and_bounds_go_by_the_share() -> None:
    never, often = (lindley.train(table(30, 0), "tlm+logistic", replicates=0, mates=m) for m in ("never", 0.3))
    trace, ref = pair(never)
    assert never.llr(trace, ref) > often.llr(trace, ref) + 0.1
    assert never.about["validation"]["cllr"] < often.about["validation"]["cllr"]
    assert never.bounds != often.bounds


def test_a_validation_goes_by_the_share_of_the_system(system: System) -> None:
    new = table(25, 7)
    found = system.evaluate(new, settings=Settings(replicates=20, draws=1))
    grid = square(system, new, found.sources)
    assert grid.weight is not None
    assert found.line("accuracy", "cllr").raw.value == pytest.approx(cllr(grid.llrs(found.llr)))  # type: ignore[union-attr]
    plain = cllr(lindley.evaluation.pair_grid.PairGrid.of(grid.trace, grid.ref).llrs(found.llr))  # type: ignore[attr-defined]
    assert plain > cllr(grid.llrs(found.llr))  # as they come, mates are 2 of 74 and not of 89


def test_the_commands_know_the_setting(tmp_path: Path) -> None:
    export_csv(table(12, 0), tmp_path / "panes.csv")

    def command(*words: str) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    out = tmp_path / "tlm.safetensors"
    done = command(
        "train", tmp_path / "panes.csv", "--out", out, "--model", "tlm", "--replicates", "0", "--mates", "never"
    )
    assert done.exit_code == 0, done.output
    assert lindley.load(out).about["mates"] == {"setting": "never", "share": 0.0}
    wrong = command(
        "train", tmp_path / "panes.csv", "--out", tmp_path / "b.safetensors", "--model", "tlm", "--mates", "seldom"
    )
    assert wrong.exit_code != 0
    assert "mates must be as-in-table, never, or a share" in str(wrong.exception)
    run = command(
        "run", "demo", "--data", tmp_path / "panes.csv", "--models", "tlm+logistic", "--splits", "2", "--mates", "0.1",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert '"mates": 0.1' in (tmp_path / "run/results.json").read_text()
    page = " ".join((tmp_path / "run/report.html").read_text().split())
    assert "10 % of the pairs of different sources (0.1)" in page

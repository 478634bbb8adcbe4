"""A run and its report with helpers beside this process: the same bytes as without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lindley import apart
from lindley.experiment import runner
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.models.robust import fit
from lindley.models.robust.fit import fit_robust
from lindley.pages.run_build import build_report
from lindley.pages.run_drawings import draw_pictures
from lindley.pages.run_page import render_run, write_run_report
from lindley.system.kinds import KINDS, register
from lindley.table.table import Table
from tests.experiment.conftest import make_experiment
from tests.models.robust.test_fit import draw, learn
from tests.system.test_kinds import DOUBTFUL


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What helpers were asked to do, by the name of the function; torch may use two threads, and any work is worth a helper."""
    calls: list[str] = []
    call = apart.Helper.__call__

    def noted(self: apart.Helper, function: object, *given: object, **more: object) -> object:
        calls.append(getattr(function, "func", function).__name__)  # type: ignore[attr-defined]
        return call(self, function, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(apart.Helper, "__call__", noted)
    monkeypatch.setattr(runner, "WORTH_HELPERS", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield calls
    torch.set_num_threads(before)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run(pristine: Path, table: Table, tmp_path: Path, asked: list[str]) -> None:
    run_experiment(make_experiment(), table, tmp_path)
    assert "_do_here" in asked
    theirs = {name: content for name, content in files(pristine).items() if name.startswith("models/")}
    assert {name: content for name, content in files(tmp_path).items() if name.startswith("models/")} == theirs


def test_a_report(pristine: Path, asked: list[str]) -> None:
    run = SavedRun.open(pristine)
    alone = build_report(run)
    with apart.some_helpers(1) as helpers:
        shared = build_report(run, helpers)
        few = replace(shared, models=(), kinds=(), data=replace(shared.data, features=shared.data.features[:2]))
        pictures = draw_pictures(few, helpers=helpers)
    assert set(asked) == {"figures", "_drawn"}
    assert render_run(shared, {}) == render_run(alone, {})
    assert pictures == draw_pictures(few)


def test_what_others_do_not_know_stays_here(
    table: Table, tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lindley.pages.run_page.draw_pictures", lambda report, **_: {})  # takes seconds
    with register(DOUBTFUL):
        both = make_experiment(models=("tlm", "doubtful"))
        run_experiment(both, table, tmp_path).write(tmp_path)  # a helper could not do 'doubtful'
        asked.clear()
        write_run_report(tmp_path)
    assert not asked
    assert KINDS["tlm"].is_ours
    assert not DOUBTFUL.is_ours


@pytest.mark.usefixtures("short_search")
def test_runs_of_robust(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    """A helper searches as far as ever: what it is asked for is one replicate, which does not go far."""
    parts, _ = learn(draw(30, 2), splits=2)
    jobs: list[Any] = []
    search = fit._search
    with monkeypatch.context() as noting:
        noting.setattr(fit, "_search", lambda job, tell: jobs.append(job) or search(job, tell))
        fit_robust(parts, [5, 6], replicates=1, threads=1)
    told: list[float] = []
    with apart.Helper("lindley.models.robust.fit") as helper:
        found = helper(search, jobs[1], tell=told.append)
    assert told
    monkeypatch.setattr(fit, "STEPS", 30)
    here = search(jobs[1], told.append)
    assert torch.equal(found.scalars, here.scalars)
    assert torch.equal(found.relatedness, here.relatedness)

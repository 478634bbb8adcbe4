"""A run and its report by worker processes: the same bytes as in this process alone, also when one of them dies."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from lindley.experiment import runner
from lindley.experiment.runner import on_this_machine, run_experiment
from lindley.experiment.saved import SavedRun
from lindley.models.blocks import one_thread
from lindley.models.classical import ShrinkageWarning
from lindley.pages.run_build import build_report
from lindley.pages.run_drawings import draw_pictures
from lindley.pages.run_page import render_run, write_run_report
from lindley.system.kinds import KINDS, register
from lindley.table.splits import Protocol
from lindley.table.table import Table
from lindley.workers import Workers
from tests.experiment.conftest import make_experiment, make_table
from tests.system.test_kinds import DOUBTFUL


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many workers were wanted; torch may use two threads, and any work is worth them."""
    wanted: list[int] = []
    begin = Workers.__init__
    monkeypatch.setattr(Workers, "__init__", lambda self, number: (wanted.append(number), begin(self, number))[1])
    monkeypatch.setattr(runner, "WORTH_WORKERS", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield wanted
    torch.set_num_threads(before)


def models(folder: Path) -> dict[str, bytes]:
    """Every file of LLRs, models and training."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in (folder / "models").rglob("*") if p.is_file()}


def test_a_run(pristine: Path, table: Table, tmp_path: Path, numbers: list[int]) -> None:
    run_experiment(make_experiment(), table, tmp_path)
    assert numbers[0] == 2
    assert models(tmp_path) == models(pristine)


def test_every_kind_on_a_small_table(tmp_path: Path) -> None:
    """A dozen sources are fewer than most fits like: their warnings come through, and no number changes."""
    kinds = (*KINDS, "quantile:tlm", "yeo-johnson:tlm")  # a flow refuses so few
    chosen = make_experiment(models=kinds, protocol=Protocol(splits=1, seed=1), training={"epochs": 2})
    found = []
    for workers in (1, 4):
        (folder := tmp_path / str(workers)).mkdir()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run_experiment(chosen, make_table(12, 20), folder, executor=partial(on_this_machine, workers=workers))
        assert {one.category for one in caught} == {ShrinkageWarning}
        found.append((models(folder), sorted(str(one.message) for one in caught)))
    assert found[0] == found[1]


def test_a_report(pristine: Path) -> None:
    run = SavedRun.open(pristine)
    alone = build_report(run)
    with Workers(2) as workers:
        shared = build_report(run, workers)
        few = replace(shared, models=(), kinds=(), data=replace(shared.data, features=shared.data.features[:2]))
        pictures = draw_pictures(few, workers=workers)
    assert render_run(shared, {}) == render_run(alone, {})
    assert pictures == draw_pictures(few)


def test_what_others_do_not_know_stays_here(
    table: Table, tmp_path: Path, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lindley.pages.run_page.draw_pictures", lambda report, **_: {})  # takes seconds
    with register(DOUBTFUL):
        both = make_experiment(models=("tlm", "doubtful"))
        run_experiment(both, table, tmp_path).write(tmp_path)  # a worker could not do 'doubtful'
        numbers.clear()
        write_run_report(tmp_path)
    assert set(numbers) == {1}
    assert KINDS["tlm"].is_ours
    assert not DOUBTFUL.is_ours


class Watcher:
    """Looks at the worker processes while a run goes on; given to it in place of a progress bar."""

    def __init__(self, *, kill: bool) -> None:
        self.kill = kill
        self.seen: set[int] = set()
        self.listening: list[Any] = []

    def __call__(self, doing: str, detail: str, share: float) -> None:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "LokyProcess" in "".join(child.cmdline()):
                    self.seen.add(child.pid)
                    self.listening += [c for c in child.net_connections() if c.status == psutil.CONN_LISTEN]
                    if self.kill:
                        self.kill = False
                        child.kill()


@pytest.mark.parametrize("kill", [False, True])
def test_so_many_processes_as_one_asks_for(pristine: Path, table: Table, tmp_path: Path, kill: bool) -> None:
    """Also where torch has one thread and the work is little. None opens a port, and one that is killed costs but time."""
    watcher = Watcher(kill=kill)
    with one_thread():
        executor = partial(on_this_machine, workers=3)
        run_experiment(make_experiment(), table, tmp_path, executor=executor, progress=watcher)
    assert len(watcher.seen) == 3
    assert watcher.listening == []
    assert models(tmp_path) == models(pristine)

"""A run and its report with helpers beside this process: the same bytes as without, also when one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from lindley import apart
from lindley.experiment import runner
from lindley.experiment.config import load_experiment
from lindley.experiment.runner import on_this_machine, run_experiment
from lindley.experiment.saved import SavedRun
from lindley.models.blocks import one_thread
from lindley.models.robust import fit
from lindley.models.robust.fit import fit_robust
from lindley.pages.run_build import build_report
from lindley.pages.run_drawings import draw_pictures
from lindley.pages.run_page import render_run, write_run_report
from lindley.system.kinds import KINDS, register
from lindley.table.table import Table, export_csv
from tests.experiment.conftest import make_experiment, make_table
from tests.models.robust.test_fit import draw, learn
from tests.system.test_kinds import DOUBTFUL

psutil = pytest.importorskip("psutil")


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
    assert_same_models(tmp_path, pristine)


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


def assert_same_models(folder: Path, reference: Path) -> None:
    """Every file of LLRs, models and training, to the bit."""
    ours, theirs = (
        {name: content for name, content in files(each).items() if name.startswith("models/")}
        for each in (folder, reference)
    )
    assert ours == theirs


class Watcher:
    """Looks at the processes beside this one while a run goes on; given to it in place of a progress bar."""

    def __init__(self, *, kill: bool) -> None:
        self.kill = kill
        self.seen: set[int] = set()
        self.listening: list[Any] = []

    def __call__(self, doing: str, detail: str, share: float) -> None:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "lindley.apart" in child.cmdline():
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
    assert len(watcher.seen) == 2
    assert watcher.listening == []
    assert_same_models(tmp_path, pristine)


def run(arguments: list[str], where: Path) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    more: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "lindley", "run", *arguments],
        cwd=where, env=environment, text=True, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )  # fmt: skip
    out, err = process.communicate(timeout=300)
    if os.name == "posix":
        end = time.monotonic() + 20
        while (left := _of_session(process.pid)) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == []
    return process.returncode, out, err


def _of_session(session: int) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session:
                found.append(" ".join(process.cmdline()))
    return found


def test_the_command(tmp_path: Path) -> None:
    """Its processes are started without running the command in each of them, and are gone when it ends."""
    export_csv(make_table(), tmp_path / "panes.csv")
    chosen = {
        "data": "panes.csv", "protocol": {"splits": 2}, "models": ["tlm"], "training": {"group": 1},
        "output": {"report": False},
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(json.dumps(chosen))
    code, _, err = run(["mine.yaml", "--out", "two", "--workers", "2"], tmp_path)
    assert code == 0, err
    assert "Traceback" not in err
    assert "warning" not in err
    config = load_experiment(str(tmp_path / "mine.yaml"), {"data": {"data": str(tmp_path / "panes.csv")}})
    (tmp_path / "here").mkdir()
    results = run_experiment(config, config.data.load(), tmp_path / "here")
    theirs = json.loads((tmp_path / "two" / "results.json").read_bytes())["models"]["tlm"]
    assert {**results.to_json()["models"]["tlm"], "seconds": 0} == {**theirs, "seconds": 0}

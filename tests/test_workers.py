"""Workers: the results of a serial loop, whatever dies; and they end with the process that started them."""

from __future__ import annotations

import importlib
import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import lindley
from lindley.casework.applicability import Remark
from lindley.casework.case import Refusal
from lindley.errors import LindleyError
from lindley.models.classical import ShrinkageWarning
from lindley.table.findings import Finding, TableError
from lindley.workers import Workers
from tests.jobs import Odd, die_elsewhere, double, fail, fail_oddly, go_on, own_process, warn


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    """For all tests that leave them alive."""
    with Workers(2) as started:
        yield started


def children() -> set[psutil.Process]:
    return {p for p in psutil.Process().children(recursive=True) if "tracker" not in " ".join(p.cmdline())}


def test_results_reports_and_warnings(two: Workers) -> None:
    reports: list[Any] = []
    for _ in range(2):
        reports.clear()
        assert dict(two.run(double, range(20), lambda *what: reports.append(what))) == {n: 2 * n for n in range(20)}
        assert sorted(reports) == [(number, "doubling", number) for number in range(20)]
    processes = set(dict(two.run(own_process, range(20))).values())
    assert len(processes) == 2
    assert os.getpid() not in processes
    with pytest.warns(RuntimeWarning) as caught:
        assert sorted(two.run(warn, [3, 4])) == [(3, 3), (4, 4)]
    assert sorted(str(one.message) for one in caught) == ["few sources: 3", "few sources: 4"]


def test_what_must_stay_stays() -> None:
    with Workers(2) as workers:
        found = dict(workers.run(own_process, range(10), here=range(10, 20), threads=3))
    assert set(found) == set(range(20))
    assert {found[number] for number in range(10, 20)} == {os.getpid()}
    assert len({found[number] for number in range(10)} - {os.getpid()}) == 2


def test_one_worker_is_this_process_and_begins_what_is_asked_for() -> None:
    reports: list[int] = []
    given = Workers(1).run(double, range(100), lambda job, *_: reports.append(job))
    assert next(given) == (0, 0)
    assert reports == [0]


@pytest.mark.parametrize("number", [2, 5])
def test_what_dead_workers_had_in_hand_is_done_here(number: int) -> None:
    with Workers(number) as workers:
        assert list(workers.run(die_elsewhere, [os.getpid()] * 9)) == [(os.getpid(), os.getpid())] * 9
        assert list(workers.run(double, [1, 2])) == [(1, 2), (2, 4)]  # they are of use afterwards


def test_where_no_process_can_be_started_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/such/python")
    with Workers(2) as workers:
        assert set(dict(workers.run(own_process, range(3))).values()) == {os.getpid()}


def test_an_error_ends_all() -> None:
    before = children()
    with Workers(2) as workers:
        with pytest.raises(LindleyError, match="has no inverse"):
            list(workers.run(fail, range(5)))
        with pytest.raises(Odd, match="one, two"):
            list(workers.run(fail_oddly, range(5)))
        assert children() == before


@pytest.mark.parametrize("here", [[], [2]])
def test_an_error_of_the_reader_ends_all(here: list[int]) -> None:
    """Ctrl-C is one."""
    heard: set[int] = set()

    def hear(job: int, *what: object) -> None:
        heard.add(job)
        if len(heard) == 2 + len(here):
            raise KeyboardInterrupt

    before = children()
    with Workers(2) as workers, pytest.raises(KeyboardInterrupt):
        list(workers.run(go_on, [0, 1], hear, here=here))
    assert children() == before


SCRIPT = """
import sys, time
import lindley
from lindley.experiment import runner
from lindley.workers import Workers

print("begins")
def job(number, notify):
    sys.stdout.write("is no result\\n")  # at once: print writes the end of a line by itself
    notify(number)
    while sys.argv[1] == "wait":
        time.sleep(0.05)
    return number

with Workers(2) as workers:
    for number, _ in sorted(workers.run(job, range(2))):
        print(number)
runner.WORTH_WORKERS = 0.0
print(sorted(lindley.run("demo", splits=2, models=["tlm", "tlm-kde"]).models))
"""
"""A user's script, which does not ask for its name."""


def started(folder: Path, how: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "random.py").write_text("raise SystemExit('this is not the module random')")
    return subprocess.Popen(
        [sys.executable, "-P", "script.py", how], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=os.name == "posix", env={**os.environ, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip


def test_a_script_is_not_run_again(tmp_path: Path) -> None:
    """Nor does what workers print mix with what it prints, or what lies beside it count as Python's."""
    out, err = started(tmp_path, "go").communicate(timeout=120)
    assert out.splitlines() == ["begins", "0", "1", "['tlm', 'tlm-kde']"]
    assert err.splitlines() == ["is no result"] * 2


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals to send")
@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_workers_end_with_the_process_that_started_them(which: str, tmp_path: Path) -> None:
    with started(tmp_path, "wait") as process:
        end = time.monotonic() + 60
        while len(_of_session(process.pid)) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        if which == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        else:
            os.kill(process.pid, signal.Signals[which])
        _, err = process.communicate(timeout=20)
        while (left := _of_session(process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
    assert left == []
    assert err.count("Traceback") == (which == "SIGINT")


def _of_session(session: int) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return [command for command in found if "tracker" not in command]


EXAMPLES: dict[str, Any] = {
    "ShrinkageWarning": ShrinkageWarning("within", 0.5, 1, 3, 20, "2 of 3 splits"),
    "TableError": TableError([Finding("error", "code", "it is wrong", "mend it", "file.csv", (1, 2))]),
    "Refusal": Refusal([Remark("code", "it is wrong", True)], "nl"),
}


def test_every_warning_and_error_survives_pickle() -> None:
    """A worker's come by it."""
    classes: set[type[BaseException]] = set()
    for module in pkgutil.walk_packages(lindley.__path__, "lindley."):
        if not module.name.startswith("lindley.adapters.lir") and not module.name.endswith("__main__"):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, type) and issubclass(each, BaseException) and each.__module__.startswith("lindley"):
                    classes.add(each)
    assert {LindleyError, ShrinkageWarning, TableError, Refusal} < classes
    for kind in classes:
        one = EXAMPLES.get(kind.__name__) or kind("it is wrong")
        again = pickle.loads(pickle.dumps(one))
        assert (type(again), str(again), vars(again)) == (kind, str(one), vars(one))

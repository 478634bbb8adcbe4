"""Thousands of units: what a run does for each of them, and what it holds, does not grow with their number."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch

from lindley.experiment import folder as folder_module, runner
from lindley.experiment.config import Experiment
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.experiment.work import Finished, Unit, do_unit, make_units
from lindley.table.splits import Protocol
from lindley.table.table import Table
from tests.experiment.conftest import make_experiment

LARGE = 1 << 17
"""Bytes of the file that a unit of this test leaves."""


def many(splits: int) -> Experiment:
    return make_experiment(models=("tlm", "tlm+logistic"), protocol=Protocol(splits=splits), training={"group": 1})


class Copies:
    """Units that cost nothing: each is a copy of the first, with a large file that is its own."""

    def __init__(self, table: Table, size: int = LARGE) -> None:
        first = many(1)
        (unit,) = make_units(first)
        self.record, self.size = do_unit(first, table, unit, threads=1).record, size

    def __call__(self, experiment: Experiment, table: Table, units: Sequence[Unit], report: Any) -> Iterator[Any]:
        for unit in units:
            for share in (0.0, 0.5):
                report(unit, "", share)
            yield unit, Finished({f"models/tlm/llrs-{unit.span}.npz": bytes(self.size)}, self.record)


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, counts: Counter[str]) -> None:
    real: Callable[..., Any] = getattr(place, name)

    def count(*given: Any, **more: Any) -> Any:
        counts[name] += 1
        return real(*given, **more)

    monkeypatch.setattr(place, name, count)


def test_no_unit_is_looked_at_for_another(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    copies = Copies(table, 10)
    counted(monkeypatch, folder_module, "_write_whole", counts)
    counted(monkeypatch, folder_module, "read_unit_file", counts)
    counted(monkeypatch, folder_module, "read_whole", counts)
    effort = Unit.effort.fget

    def counting(unit: Unit) -> float:
        counts["effort"] += 1
        return effort(unit)  # type: ignore[misc]

    monkeypatch.setattr(Unit, "effort", property(counting))
    told: list[float] = []
    rows: list[str] = []
    n = 2000
    run_experiment(
        many(n), table, tmp_path, executor=copies, progress=lambda doing, detail, done: told.append(done),
        row_is_done=lambda row, result: rows.append(f"{row} {len(result.test_cllr)}"),
    ).write(tmp_path)  # fmt: skip
    assert counts["_write_whole"] == 2 * n + 2  # its file and its record; and of the run, data and configuration
    assert counts["read_unit_file"] == n
    assert counts["effort"] <= 5 * n
    assert told == sorted(told)
    assert len(told) == 2 * n + 1
    assert rows == [f"tlm {n}", f"tlm+logistic {n}"]

    counts.clear()
    again = run_experiment(many(n), table, tmp_path, executor=copies)
    assert (counts["read_unit_file"], counts["read_whole"], counts["_write_whole"]) == (n, n, 0)
    assert len(again.models["tlm"].test_cllr) == n
    assert len(SavedRun.open(tmp_path).result("tlm").test_cllr) == n


@pytest.mark.parametrize("where", ["a folder", "nowhere"])
def test_what_is_finished_is_not_held(where: str, table: Table, tmp_path: Path) -> None:
    """The figures of a unit are; its files are written, or wanted by nobody."""
    n = 300
    copies = Copies(table)
    chosen, folder = many(n), tmp_path if where == "a folder" else None
    tracemalloc.start()
    try:
        run_experiment(chosen, table, folder, executor=copies)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * n * LARGE


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_are_begun_than_there_are_threads(threads: int, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on one thread of torch; a finished one waits for whoever writes it, and holds up the next."""
    held, most = 0, 0
    alone = []
    lock = Lock()
    record = Copies(table).record

    def count(experiment: Experiment, table: Table, unit: Unit, report: Any, threads: int) -> Finished:
        nonlocal held, most
        with lock:
            held += 1
            most = max(most, held)
            alone.append((torch.get_num_threads(), threads))
        return Finished({}, record)

    monkeypatch.setattr(runner, "do_unit", count)
    units = make_units(many(40))
    finished = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for unit, _ in runner.on_this_machine(many(40), table, units, lambda *_: None):
            finished.append(unit)
            with lock:
                held -= 1
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert sorted(unit.splits for unit in finished) == [(split,) for split in range(40)]
    assert most <= threads
    assert set(alone) == {(1, 1)}


def test_a_failure_ends_the_others(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def fail(experiment: Experiment, table: Table, unit: Unit, report: Any, threads: int) -> Finished:
        begun.append(unit)
        if len(begun) == 3:
            raise RuntimeError("the third")
        return Finished({}, {})

    monkeypatch.setattr(runner, "do_unit", fail)
    with pytest.raises(RuntimeError, match="the third"):
        list(runner.on_this_machine(many(40), table, make_units(many(40)), lambda *_: None))
    assert len(begun) < 8

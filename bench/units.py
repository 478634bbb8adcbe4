"""Units of an experiment: what the scheduler costs for each, and how much sooner several processes are through than one.

*Cost*: thousands of units that take milliseconds each (`tlm` on a few sources), kept in a folder as they come, in this process
and through Dask with one worker. The cost of one is the time of the whole run by their number, less what a unit takes by
itself. Memory is that of this process, after a quarter of the units and at the end.

*Splits*: every split of `robust` is a unit. One process does them all; then as many as there are cores, eight at most
(``--workers``); then one worker of a Dask cluster on this machine, and as many. Each has one thread. Rounds alternate between
them, and the best of each counts: other work on a machine slows one or the other. The clock starts when the first unit is
begun: processes beside this one still import lindley and torch then, while workers of a cluster have done so. All give the
same figures, or the section fails.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import distributed
import numpy as np

from bench.machine import rss_bytes
from bench.plan import Plan
from bench.timing import seconds_of
from lindley.experiment.config import Experiment, TrainingConfig
from lindley.experiment.cores import usable_cores
from lindley.experiment.runner import Executor, on_cluster, on_this_machine, run_experiment
from lindley.experiment.work import Finished, Unit, do_unit, make_units
from lindley.models.blocks import one_thread
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Protocol
from lindley.table.table import Table

__all__ = ["measure"]

BY_ITSELF = 50
"""Units that are done without a scheduler, before and after each way."""
ROUNDS = 2
"""How often all splits are done in each way."""


def measure(plan: Plan) -> dict[str, Any]:
    """Seconds that a unit costs beside its work, what memory grows by, and seconds of all splits by processes."""
    return {"rows": [*_costs(plan), *_splits(plan)]}


def _costs(plan: Plan) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    means = 3 * np.repeat(rng.normal(size=(45, 3)), 2, axis=0)
    table = Table.from_arrays(means + rng.normal(size=means.shape), np.repeat([f"{i:02d}" for i in range(45)], 2))
    experiment = _experiment("tlm", plan.units)
    some = make_units(experiment)[:BY_ITSELF]

    def itself() -> list[float]:
        return [seconds_of(lambda unit=unit: do_unit(experiment, table, unit, threads=1)) for unit in some]  # type: ignore[misc]

    itself()  # what is imported and made once does not count
    rows = []
    for way, executor in {"in this process": on_this_machine, "through Dask": _on_dask(1)}.items():
        watch = Watch(executor)
        alone = itself()
        with TemporaryDirectory() as folder, one_thread():
            run_experiment(experiment, table, Path(folder), executor=watch)
        by_itself = statistics.median(alone + itself())
        rows.append(
            {
                "what": "cost", "way": way, "device": "cpu", "units": plan.units, "itself": by_itself,
                "cost": watch.seconds / plan.units - by_itself, "memory_early": watch.memory[0], "memory": watch.memory[1],
            }
        )  # fmt: skip
    return rows


def _splits(plan: Plan) -> list[dict[str, Any]]:
    if not plan.workers:
        return []
    table = simulate_table(glass_population(), plan.split_sources, 2, seed=0)
    experiment = _experiment("robust", plan.runs)
    units = make_units(experiment)
    numbers = tuple(dict.fromkeys((1, min(plan.workers, usable_cores()))))
    ways: dict[tuple[str, int], Executor] = {("process", n): partial(on_this_machine, workers=n) for n in numbers}
    ways |= {("Dask worker", n): _on_dask(n) for n in numbers}
    seconds: dict[tuple[str, int], float] = {}
    first: dict[Unit, Any] = {}
    for _ in range(ROUNDS):
        for way, executor in ways.items():
            watch = Watch(executor)
            found = {unit: _figures(done) for unit, done in watch(experiment, table, units, lambda *_: None)}
            first = first or found
            if found != first:
                raise AssertionError(f"{way} gave other figures than one process")
            seconds[way] = min(watch.seconds, seconds.get(way, math.inf))
    rows = []
    for (kind, number), best in seconds.items():
        plural = "" if number == 1 else "es" if kind.endswith("s") else "s"
        rows.append(
            {
                "what": "splits", "way": f"{number} {kind}{plural}", "device": "cpu", "workers": number,
                "units": len(units), "sources": plan.split_sources, "seconds": best,
                "best_possible": len(units) / -(-len(units) // number), "times_faster": seconds[kind, 1] / best,
            }
        )  # fmt: skip
    return rows


def _experiment(model: str, splits: int) -> Experiment:
    """A unit for every split; the name of the data is not that of the embedded ones, whose oracle would be computed too."""
    return Experiment(
        name="units", data=DataConfig(data="units.csv"), protocol=Protocol(splits=splits), models=(model,),
        training=TrainingConfig(group=1),
    )  # fmt: skip


def _on_dask(number: int) -> Executor:
    """A cluster of so many workers, each of which imports all that it needs before it is there."""

    def execute(
        experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
    ) -> Iterator[tuple[Unit, Finished]]:
        with (
            dask.config.set({"distributed.worker.preload": ["lindley.experiment.runner"]}),
            distributed.LocalCluster(
                n_workers=number,
                threads_per_worker=1,
                memory_limit=0,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as cluster,
        ):
            yield from on_cluster(cluster.scheduler_address)(experiment, table, units, report)

    return execute


class Watch:
    """An executor with a clock: from the first unit that is handed out until the last one is kept."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.started = self.ended = 0.0
        self.memory: tuple[int | None, int | None] = None, None

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def __call__(
        self, experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
    ) -> Iterator[tuple[Unit, Finished]]:
        """What the executor gives, as it gives it."""

        def tell(unit: Unit, detail: str, share: float) -> None:
            self.started = self.started or time.perf_counter()
            report(unit, detail, share)

        early: int | None = None
        for number, done in enumerate(self.executor(experiment, table, units, tell), 1):
            yield done
            self.ended = time.perf_counter()
            if number == -(-len(units) // 4):
                early = rss_bytes()
            if number == len(units):
                self.memory = early, rss_bytes()


def _figures(done: Finished) -> Any:
    """Of every model, without how long it took."""
    return {name: {k: v for k, v in one.items() if k != "seconds"} for name, one in done.record["models"].items()}

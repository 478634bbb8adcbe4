"""Run an experiment: do the units that are not finished, keep each as it comes, and put the results together.

Units need nothing of each other and come out the same anywhere. So worker processes of this machine share them
(`lindley.workers`), or other machines do them, through Dask (extra ``cluster``), with the results of a serial run. What a
worker had in hand that is lost is done again. Workers write nothing: results come back to this process. Every unit carries
its data with it, so that no worker is needed to stay: a scattered table is gone with the last that has it.
"""

from __future__ import annotations

import logging
import math
import platform
import socket
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from threadpoolctl import threadpool_limits

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.folder import drop_results, group_in, read_unit, start_folder, write_unit
from lindley.experiment.results import ModelResult, Results
from lindley.experiment.work import ORACLE, Finished, Unit, code_digest, do_unit, make_units, unit_keys, with_groups
from lindley.models.blocks import one_thread
from lindley.models.fitting import require_device
from lindley.system.names import ModelName
from lindley.system.provenance import versions
from lindley.table.splits import make_split
from lindley.table.table import Table
from lindley.workers import MOST_WORKERS, Workers, with_warnings

__all__ = ["Executor", "on_cluster", "on_this_machine", "run_experiment", "workers_at"]

Progress = Callable[[str, str, float], None]
"""Called with what is being done, a detail of it, and the share of the experiment that is done, 0 to 1."""
Executor = Callable[
    [Experiment, Table, Sequence[Unit], Callable[[Unit, str, float], None]], Iterator[tuple[Unit, Finished]]
]
"""Does the units in any order, and gives each as it is finished; tells of progress in a unit, 0 to 1."""
IN_HAND = 64
"""Units that a scheduler holds at a time, unless it has many workers."""
ASK_AGAIN = 1.0
"""Seconds after which a scheduler is asked again how many workers it has, as more may have joined."""
WORKERS_WITHIN, NO_WORKER = 25.0, 20.0
"""Seconds in which the first worker must be there, and in which another one must come when the last is lost."""
BESIDE_A_GPU = 10
"""Units at a time where trainings are on a GPU: the paper's six together take a third of the time that they take one after the
other."""
WORTH_WORKERS = 100.0
"""Effort from which on worker processes are started unasked: some ten seconds of work. To start one takes two."""
SOON = 0.05
"""Share of the work that comes first, in its shortest units: there is something to see soon."""


def on_this_machine(
    experiment: Experiment,
    table: Table,
    units: Sequence[Unit],
    report: Callable[[Unit, str, float], None],
    workers: int | None = None,
) -> Iterator[tuple[Unit, Finished]]:
    """In so many worker processes: by default, where there is much to do, as many as torch may use threads.

    Every unit runs on one thread. Where there are fewer trainings than workers, each of them has several. What uses a GPU
    stays in this process, on threads of its own, as it leaves most of the GPU idle; so does a model of somebody else's, which
    other processes may not know.
    """
    require_device(experiment.training.device)
    order = _in_order(units)
    here = [unit for unit in order if _stays(unit, experiment)]
    shared = [unit for unit in order if not _stays(unit, experiment)]
    cores = torch.get_num_threads() if workers is None else workers
    much = workers is not None or sum(unit.effort for unit in shared) >= WORTH_WORKERS
    number = min(cores, len(shared), MOST_WORKERS if workers is None else cores) if much else 1
    threads = max(1, cores // max(1, sum(unit.is_trained for unit in units)))
    threads_here = 1 if experiment.training.device == "cpu" else BESIDE_A_GPU
    with one_thread(), threadpool_limits(1), Workers(number) as pool:
        do = partial(_do_here, experiment, table, threads)
        yield from pool.run(do, shared, report, here=here, threads=threads_here)


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    """Some short ones first; then the longest, so that no process is left with a training at the end."""
    shortest = sorted(units, key=lambda unit: unit.effort)
    total = list(accumulate(unit.effort for unit in shortest))
    soon = bisect_right(total, SOON * total[-1]) if total else 0
    return [*shortest[:soon], *sorted(shortest[soon:], key=lambda unit: -unit.effort)]


def _stays(unit: Unit, experiment: Experiment) -> bool:
    """Whether this process alone can do a unit."""
    if unit.root == ORACLE:
        return experiment.training.device != "cpu"
    kind = unit.root.kind
    return not kind.is_ours or (experiment.training.device != "cpu" and "gpu" in kind.can)


def _do_here(
    experiment: Experiment, table: Table, threads: int, unit: Unit, report: Callable[[str, float], None]
) -> Finished:
    """A unit; so many threads are for a training."""
    torch.set_num_threads(1)
    report("", 0.0)
    return do_unit(experiment, table, unit, report, threads=threads if unit.is_trained else 1)


def run_experiment(
    experiment: Experiment,
    table: Table,
    folder: Path | None = None,
    *,
    progress: Progress = lambda doing, detail, done: None,
    notice: Callable[[str], None] = lambda message: None,
    executor: Executor = on_this_machine,
    workers: int = 1,
    row_is_done: Callable[[str, ModelResult], None] = lambda row, result: None,
) -> Results:
    """Every model of the experiment on every split.

    With a ``folder``, finished units are kept there, and those that are there already are not done again: a run that was
    killed goes on where it was, and ends with the results that it would have had. Without, nothing is written.
    ``workers``: among how many the executor deals out the units; groups of splits go by it, where the experiment leaves them
    open. ``row_is_done`` is called with every row of the results as soon as its figures are there.
    """
    _refuse_early(experiment, table)
    sha256 = table.sha256()
    experiment = _settled(experiment, table, sha256, folder, workers)
    units = make_units(experiment)
    keys = unit_keys(units, experiment, sha256)
    records: dict[Unit, dict[str, Any]] = {}
    if folder is not None:
        start_folder(folder, experiment, table, notice)
        for unit in units:
            record = read_unit(folder, unit.id, keys[unit], notice)
            if record is not None:
                records[unit] = record
        if len(records) < len(units):
            drop_results(folder)
    if records:
        notice(f"{len(records)} of {len(units)} parts of this experiment are finished already, and are used.")

    begun: dict[Unit, float] = {}  # the shares that are done of units which are not finished
    total = sum(unit.effort for unit in units)
    finished_effort = sum(unit.effort for unit in records)
    rows = _Rows(experiment, units, row_is_done)
    for unit, record in records.items():
        rows.add(unit, record)

    def report(unit: Unit, detail: str, share: float) -> None:
        name = "the oracle" if unit.root == ORACLE else str(unit.root)
        first, last = unit.splits[0] + 1, unit.splits[-1] + 1
        splits = f"split {first}" if first == last else f"splits {first}–{last}"
        begun[unit] = share
        done = min(1.0, (finished_effort + sum(u.effort * s for u, s in begun.items())) / total)
        progress(name, f"{splits} of {experiment.protocol.splits}" + (f", {detail}" if detail else ""), done)

    for unit, finished in executor(experiment, table, [unit for unit in units if unit not in records], report):
        if folder is not None:
            write_unit(folder, unit.id, keys[unit], finished.files, finished.record)
        records[unit] = finished.record
        begun.pop(unit, None)
        finished_effort += unit.effort
        rows.add(unit, finished.record)
    progress("done", "", 1.0)
    return Results.join(experiment, table, {unit: records[unit] for unit in units})


class _Rows:
    """Tells of every row of the results as soon as all units of its family are finished."""

    def __init__(self, experiment: Experiment, units: Sequence[Unit], tell: Callable[[str, ModelResult], None]) -> None:
        self.tell = tell
        self.rows: dict[ModelName, list[tuple[str, ModelName]]] = {}
        for row, name in experiment.rows.items():
            self.rows.setdefault(name.root, []).append((row, name))
        self.waiting: dict[ModelName, set[Unit]] = {}
        for unit in units:
            self.waiting.setdefault(unit.root, set()).add(unit)
        self.records: dict[ModelName, dict[Unit, dict[str, Any]]] = {}

    def add(self, unit: Unit, record: dict[str, Any]) -> None:
        """One more unit is finished."""
        self.records.setdefault(unit.root, {})[unit] = record
        self.waiting[unit.root].discard(unit)
        if not self.waiting[unit.root]:
            found = self.records.pop(unit.root)
            entries = [found[each]["models"] for each in sorted(found, key=lambda each: each.splits)]
            for row, name in self.rows.get(unit.root, ()):
                self.tell(row, ModelResult.join(str(name), [entry[str(name)] for entry in entries]))


def _settled(experiment: Experiment, table: Table, sha256: str, folder: Path | None, workers: int) -> Experiment:
    """With groups of a size that is settled: as in the folder, where work of a run that was broken off can be used."""
    settled = with_groups(experiment, table, workers)
    there = None if folder is None else group_in(folder)
    if folder is None or there is None or experiment.training.group is not None or there == settled.training.group:
        return settled
    training = experiment.training.model_copy(update={"group": there})
    before = experiment.model_copy(update={"training": training})
    grouped = [unit for unit in make_units(before) if unit.root != ORACLE and not unit.root.alone]
    keys = unit_keys(grouped, before, sha256)
    usable = any(read_unit(folder, unit.id, keys[unit], lambda message: None) is not None for unit in grouped)
    return before if usable else settled


def _refuse_early(experiment: Experiment, table: Table) -> None:
    """Tell what cannot work now, and not after the training."""
    varying = any(name.integration == "varying" for name in experiment.rows.values())
    for index in range(experiment.protocol.splits):
        split = make_split(table, experiment.protocol, index)
        if varying and len(split.validate.ref.source) < 2:
            raise LindleyError(
                f"{table.name}, split {index + 1}: the law of a varying within variance is fitted on validation sources "
                "that were measured twice, and there are fewer than two. Leave -varying out, or give more sources."
            )


def on_cluster(address: str) -> Executor:
    """Do units on the Dask cluster whose scheduler is at ``address``."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise LindleyError("--cluster needs Dask, which is not installed: pip install 'lindley[cluster]'.") from error

    def execute(
        experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
    ) -> Iterator[tuple[Unit, Finished]]:
        if not units:
            return
        with _quiet(), dask.config.set({"distributed.comm.timeouts.connect": "10s"}), ExitStack() as stack:
            client = _client(stack, distributed, address)
            cluster = _Cluster(client, address)
            cluster.require_same_scheduler()
            # The longest first, so that no worker is left with a training at the end.
            waiting = iter(sorted(units, key=lambda unit: -unit.effort))
            futures: dict[Any, Unit] = {}
            to_go, most, asked = len(units), 0, -math.inf
            while to_go:
                if time.monotonic() >= asked + ASK_AGAIN:
                    most, asked = max(IN_HAND, 4 * cluster.threads()), time.monotonic()
                # Many at a time, as to send work costs milliseconds; not all, as every unit carries its data with it.
                handed = list(islice(waiting, most - len(futures))) if len(futures) <= most / 2 else []
                if handed:
                    new = client.map(partial(_do, experiment, table, wanted=cluster.here), handed, pure=False)
                    futures.update(zip(new, handed, strict=True))
                    if to_go == len(units):
                        report(handed[0], "handed to the workers", 0.0)
                for future in _finished(futures):
                    unit, to_go = futures.pop(future), to_go - 1
                    finished, warned = _result(future)
                    future.release()
                    for warning in warned:
                        warnings.warn(warning, stacklevel=2)
                    report(unit, f"{to_go} parts to go", 1.0)
                    yield unit, finished

    return execute


def workers_at(address: str) -> int:
    """How many workers the cluster at an address has now, each with one thread of work."""
    import distributed

    with _quiet(), ExitStack() as stack:
        return sum(_client(stack, distributed, address).nthreads().values())


Numbers = tuple[dict[str, str], str]
"""Versions of lindley and of its libraries, and the digest of its code."""


class _Cluster:
    """The workers of a scheduler, each of which must have what is here."""

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address, self.here = client, address, _numbers()
        self._known: set[str] = set()
        self._seen = time.monotonic()

    def threads(self) -> int:
        """How many units the workers can do at a time. Those that are new must have the lindley of this machine.

        Raises:
            LindleyError: of a worker that cannot do a unit; or if there has been none for `NO_WORKER`.
        """
        threads: dict[str, int] = {}
        with suppress(OSError):  # a connection that is lost is told of the units that it had
            threads = self.client.nthreads()
            if new := sorted(set(threads) - self._known):
                for worker, found in self.client.run(_numbers, workers=new, on_error="return").items():
                    if not isinstance(found, OSError):  # it is gone again
                        _require_same(f"worker {worker}", found, self.here)
                        self._known.add(worker)
        if threads:
            self._seen = time.monotonic()
        elif time.monotonic() > self._seen + NO_WORKER:
            raise LindleyError(
                f"The Dask scheduler {self.address} has lost its last worker. What is finished is kept: start workers with "
                f"'dask worker {self.address}', and the same command goes on where it was."
            )
        return sum(threads.values())

    def require_same_scheduler(self) -> None:
        """It looks into the work that it hands on."""
        try:
            found = self.client.run_on_scheduler(_numbers)
        except Exception as error:
            found = error
        _require_same(f"scheduler {self.address}", found, self.here)


def _numbers() -> Numbers:
    return versions(), code_digest()


def _require_same(where: str, found: Numbers | Exception, here: Numbers) -> None:
    if isinstance(found, Exception):
        raise LindleyError(
            f"The Dask {where} cannot use lindley ({found}). Install lindley {here[0]['lindley']} in the Python that it runs "
            "in, with the libraries of this machine, and start it again."
        )
    if found != here:
        raise LindleyError(
            f"The Dask {where} has another version of lindley or of its libraries than this machine: {_listing(found[0])}, "
            f"here {_listing(here[0])}. Install the same on all machines."
        )


def _do(experiment: Experiment, table: Table, unit: Unit, wanted: Numbers) -> tuple[Finished, list[Warning]]:
    """A unit, on a worker, which may have joined a moment ago."""
    _require_same(f"worker on {platform.node()}", _numbers(), wanted)
    return with_warnings(partial(do_unit, threads=1), experiment, table, unit)


def _listing(numbers: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _client(stack: ExitStack, distributed: Any, address: str) -> Any:
    """A client of the scheduler at ``address``, which ``stack`` closes; without workers, work would wait there for ever."""
    try:
        _require_listener(address)
        client = stack.enter_context(distributed.Client(address, timeout="10s"))
    except (OSError, ValueError, TimeoutError) as error:
        raise LindleyError(
            f"There is no Dask scheduler at {address} ({error or type(error).__name__}). Start one with 'dask scheduler', and "
            "workers with 'dask worker ADDRESS', and give its address, such as tcp://192.168.1.20:8786."
        ) from error
    try:
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    except TimeoutError as error:
        raise LindleyError(
            f"The Dask scheduler {address} has no workers. Start some with 'dask worker {address}'."
        ) from error
    return client


def _require_listener(address: str) -> None:
    """Knock first: a client that finds nobody can leave its event loop half started, and the next one fails for it."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tcp", "tls"):
        if not parts.hostname or parts.port is None:
            raise ValueError("the address needs a host and a port")
        with socket.create_connection((parts.hostname, parts.port), timeout=10):
            pass


def _finished(futures: Iterable[Any]) -> Collection[Any]:
    """Those that are finished, as soon as there are any, or none after a while."""
    from distributed import wait

    try:
        return wait(list(futures), ASK_AGAIN, "FIRST_COMPLETED").done  # type: ignore[no-untyped-call, no-any-return]
    except TimeoutError:
        return ()
    except CancelledError as error:
        raise LindleyError(
            "The connection to the Dask scheduler was lost. What is finished is kept: once the scheduler runs, the same "
            "command goes on where it was."
        ) from error


def _result(future: Any) -> tuple[Finished, list[Warning]]:
    from distributed import KilledWorker

    try:
        return future.result()  # type: ignore[no-any-return]
    except KilledWorker as error:
        raise LindleyError(
            "A part of the work was lost with several workers, one after the other: they may have run out of memory. What "
            "is finished is kept; give the same command to a cluster whose machines have more memory for each worker."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask's loggers tell every lost connection; what a user must know is told otherwise."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

"""The units of an experiment on many processes or machines, through Dask (extra ``cluster``).

Units need nothing of each other and come out the same anywhere, so the results are those of a serial run. A worker that is
lost costs the unit it had in hand, which another one does again. Workers write nothing: results come back to this process.
Every unit carries its data with it, so that no worker is needed to stay: a scattered table is gone with the last that has it.
"""

from __future__ import annotations

import logging
import platform
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.plan import Unit, code_digest, versions
from lindley.experiment.runner import Executor
from lindley.experiment.work import Finished, do_unit
from lindley.table.table import Table

__all__ = ["on_cluster"]

Told = tuple[Finished, list[str]]
"""What a unit gave, and the warnings on the way: those of another process would be lost."""
LOST_AT_MOST = 10
"""Workers that may be lost while they have the same unit in hand; more, and the unit is held to be the cause."""
WORKERS_WITHIN = 30
"""Seconds in which the first worker must be there."""


def on_cluster(address: str | None = None, workers: int | None = None) -> Executor:
    """Do units on the cluster at ``address``, or on so many processes of this machine."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise LindleyError(
            "--workers and --cluster need Dask, which is not installed: pip install 'lindley[cluster]'."
        ) from error

    def execute(
        experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
    ) -> Iterator[tuple[Unit, Finished]]:
        if not units:
            return
        with ExitStack() as stack:
            stack.enter_context(_quiet())
            stack.enter_context(
                dask.config.set(
                    {
                        "distributed.scheduler.allowed-failures": LOST_AT_MOST,
                        "distributed.comm.timeouts.connect": "10s",
                        "distributed.worker.daemon": True,
                    }
                )
            )
            client = stack.enter_context(_client(distributed, address, workers, len(units)))
            _require_workers(client, address)
            here = (versions(), code_digest())
            # The longest first, so that no worker is left with a training at the end.
            order = sorted(units, key=lambda unit: -unit.effort)
            futures = {client.submit(_do, experiment, table, unit, here, pure=False): unit for unit in order}
            for unit in order[: workers or 1]:
                report(unit, "handed to the workers", 0.0)
            for future in distributed.as_completed(list(futures)):  # type: ignore[no-untyped-call]
                unit = futures.pop(future)
                finished, told = _result(future)
                for message in told:
                    warnings.warn(message, stacklevel=2)
                report(unit, f"{len(futures)} parts to go", 1.0)
                yield unit, finished
                future.release()

    return execute


def _do(experiment: Experiment, table: Table, unit: Unit, wanted: tuple[dict[str, str], str]) -> Told:
    """A unit, on a worker: one that joined late, or was started again, is asked for its versions too."""
    if (versions(), code_digest()) != wanted:
        raise LindleyError(
            f"The worker on {platform.node()} has another version of lindley or of its libraries than this machine: "
            f"{_listing(versions())}, here {_listing(wanted[0])}. Install the same on all machines."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        finished = do_unit(experiment, table, unit, threads=1)
    return finished, [str(one.message) for one in caught]


def _listing(numbers: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _client(distributed: Any, address: str | None, workers: int | None, n_units: int) -> Any:
    if address is not None:
        try:
            _require_listener(address)
            return distributed.Client(address, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise LindleyError(
                f"There is no Dask scheduler at {address} ({error or type(error).__name__}). Start one with "
                "'dask scheduler', and workers with 'dask worker ADDRESS', and give its address, such as "
                "tcp://192.168.1.20:8786."
            ) from error
    n_workers = min(workers or 1, n_units)
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
    )
    return _Closing(distributed.Client(cluster), cluster)


def _require_listener(address: str) -> None:
    """Knock first: a client that finds nobody can leave its event loop half started, and the next one fails for it."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tcp", "tls"):
        if not parts.hostname or parts.port is None:
            raise ValueError("the address needs a host and a port")
        with socket.create_connection((parts.hostname, parts.port), timeout=10):
            pass


class _Closing:
    """A client that closes its cluster behind it."""

    def __init__(self, client: Any, cluster: Any) -> None:
        self.client, self.cluster = client, cluster

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.cluster.close()


def _require_workers(client: Any, address: str | None) -> None:
    """A scheduler without workers would let the work wait for ever."""
    try:
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    except TimeoutError as error:
        where = address if address is not None else "of this machine"
        raise LindleyError(
            f"The Dask scheduler {where} has no workers. Start some with 'dask worker {address or 'ADDRESS'}'."
        ) from error


def _result(future: Any) -> Told:
    from distributed import KilledWorker

    try:
        return future.result()  # type: ignore[no-any-return]
    except KilledWorker as error:
        raise LindleyError(
            "A part of the work was lost with several workers, one after the other: they may have run out of memory. What "
            "is finished is kept; give the same command with fewer --workers, or machines with more memory."
        ) from error
    except CancelledError as error:
        raise LindleyError(
            "The connection to the Dask scheduler was lost. What is finished is kept: once the scheduler runs, the same "
            "command goes on where it was."
        ) from error


class _quiet:
    """Dask's loggers tell every lost connection; what a user must know is told otherwise."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("distributed")
        self.level = self.logger.level
        self.logger.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.level)

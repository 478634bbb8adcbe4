"""The units of an experiment on many processes or machines, through Dask (extra ``cluster``).

Units need nothing of each other and come out the same anywhere, so the results are those of a serial run. A worker that is
lost costs the unit it had in hand, which another one does again. Workers write nothing: results come back to this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.plan import Unit, code_digest, versions
from lindley.experiment.runner import Executor
from lindley.experiment.work import Finished, do_unit

__all__ = ["on_cluster"]

LOST_AT_MOST = 10
"""Workers that may be lost while they have the same unit in hand; more, and the unit is held to be the cause."""


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
            _require_same_versions(client)
            shared = client.scatter((experiment, table), broadcast=True, hash=False)
            # The longest first, so that no worker is left with a training at the end.
            order = sorted(units, key=lambda unit: -unit.effort)
            futures = {client.submit(_do, shared, unit, pure=False): unit for unit in order}
            for unit in order[: workers or 1]:
                report(unit, "handed to the workers", 0.0)
            for future in distributed.as_completed(list(futures)):  # type: ignore[no-untyped-call]
                unit = futures.pop(future)
                finished = _result(future)
                report(unit, f"{len(futures)} parts to go", 1.0)
                yield unit, finished
                future.release()

    return execute


def _do(shared: tuple[Experiment, Table], unit: Unit) -> Finished:
    experiment, table = shared
    return do_unit(experiment, table, unit, threads=1)


def _client(distributed: Any, address: str | None, workers: int | None, n_units: int) -> Any:
    if address is not None:
        try:
            return distributed.Client(address, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise LindleyError(
                f"There is no Dask scheduler at {address} ({error or type(error).__name__}). Start one with "
                "'dask scheduler', and workers with 'dask worker ADDRESS', and give its address, such as "
                "tcp://192.168.1.20:8786."
            ) from error
    n_workers = min(workers or 1, n_units)
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    )
    return _Closing(distributed.Client(cluster), cluster)


class _Closing:
    """A client that closes its cluster behind it."""

    def __init__(self, client: Any, cluster: Any) -> None:
        self.client, self.cluster = client, cluster

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.cluster.close()


def _require_same_versions(client: Any) -> None:
    """Refuse workers whose numbers could differ."""
    here = (versions(), code_digest())
    for worker, there in client.run(_numbers_of).items():
        if there != here:
            raise LindleyError(
                f"The worker {worker} has another version of lindley or of its libraries than this machine: {there[0]}, "
                f"here {here[0]}. Install the same versions on all machines."
            )


def _numbers_of() -> tuple[dict[str, str], str]:
    return versions(), code_digest()


def _result(future: Any) -> Finished:
    from distributed import KilledWorker

    try:
        return future.result()  # type: ignore[no-any-return]
    except KilledWorker as error:
        raise LindleyError(
            f"A part of the work was lost with {LOST_AT_MOST} workers, one after the other: they may have run out of "
            "memory. What is finished is kept; give fewer --workers, or machines with more memory."
        ) from error


class _quiet:
    """Dask's loggers tell every lost connection; what a user must know is told otherwise."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("distributed")
        self.level = self.logger.level
        self.logger.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.level)

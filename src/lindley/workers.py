"""Run picklable jobs in worker processes.

Threads share Python's lock, and jobs that take it for operations of a few milliseconds hardly gain from a second one. Worker
processes share nothing, and the process that a job runs in changes no number. They are loky's, which comes with joblib: they
are started anew, import no user's script, and open no port.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from itertools import chain
from multiprocessing import resource_tracker
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from typing import Any, TypeVar

__all__ = ["MOST_WORKERS", "Notify", "Workers", "with_warnings"]

J = TypeVar("J")
R = TypeVar("R")
Notify = Callable[..., None]
"""Called by a job with how far it is; an error that it raises ends the work."""

MOST_WORKERS = 8
"""Worker processes without ``--workers``, at most: each takes some 300 MB of memory."""
LOOK_EVERY = 0.1
"""Seconds between two looks at what the workers report."""


class Workers:
    """Worker processes; they start with the first jobs, and end with the ``with`` block. One worker is this process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._executor: Any = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def run(
        self,
        function: Callable[[J, Notify], R],
        jobs: Iterable[J],
        report: Callable[..., None] = lambda job, *what: None,
        *,
        here: Iterable[J] = (),
        threads: int = 1,
    ) -> Iterator[tuple[J, R]]:
        """Do ``function(job, report)`` of every job, and give each job with its result as soon as it is done.

        Jobs begin in their order. When a worker dies, half as many do what is left, in the end this process alone: the system
        kills a process if memory is short. When an error comes, or no further result is asked for, everything ends.

        Args:
            function: can be pickled, as can jobs and what they give.
            jobs: for the workers.
            report: is called in this thread with a job and what it reports. Warnings are given here too.
            here: jobs for this process.
            threads: on how many threads it does those.
        """
        here = list(here)
        threads = min(threads, len(here))
        alone = threads < 2 and self.number < 2  # then jobs are made one after the other
        shared = [] if alone else list(jobs)
        if alone or (threads < 2 and len(shared) < 2):
            for job in chain(here, jobs if alone else shared):
                yield job, function(job, partial(report, job))
            return
        stop = Event()
        reported: SimpleQueue[tuple[J, tuple[Any, ...]]] = SimpleQueue()  # by threads

        def on_thread(job: J) -> tuple[R, list[Warning]]:
            def tell(*what: Any) -> None:
                if stop.is_set():
                    raise CancelledError
                reported.put((job, what))

            return function(job, tell), []

        pool = ThreadPoolExecutor(max(1, threads))
        doing: dict[Future[tuple[R, list[Warning]]], J] = {pool.submit(on_thread, job): job for job in here}
        lost: list[J] = []
        try:
            executor: Any = self._started() if shared else None
            with _interrupts_wait():
                for at, job in enumerate(shared):
                    try:
                        doing[executor.submit(_do, function, job, at)] = job
                    except (OSError, BrokenExecutor):
                        lost = shared[at:]
                        break
            while doing:
                done, _ = wait(doing, LOOK_EVERY, FIRST_COMPLETED)
                while not reported.empty():
                    job, what = reported.get()
                    report(job, *what)
                while self._executor is not None and self._reports.poll():
                    at, what = self._reports.recv()
                    report(shared[at], *what)
                for future in done:
                    job = doing.pop(future)
                    try:
                        result, warned = future.result()
                    except BrokenExecutor:
                        lost.append(job)
                        continue
                    for warning in warned:
                        warnings.warn(warning, stacklevel=2)
                    yield job, result
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            if doing or lost:
                self._end()
        if lost:
            self.number //= 2
            yield from self.run(function, lost, report)

    def _started(self) -> Any:
        """The executor, begun if there is none."""
        if self._executor is None:
            from joblib.externals.loky import ProcessPoolExecutor
            from joblib.externals.loky.backend import get_context

            # It replaces a worker whose memory has grown by 300 MB, and warns of it; ours may grow.
            warnings.filterwarnings("ignore", module=r"joblib\.externals\.loky")
            context = get_context("loky")
            self._reports, to_us = context.Pipe(duplex=False)
            lifeline, self._alive = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(
                max(1, self.number), context=context, initializer=_begin, initargs=(to_us, lifeline),
                env={"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"},
            )  # fmt: skip
        return self._executor

    def _end(self) -> None:
        """End all workers at once, whatever they do."""
        if self._executor is not None:
            executor, self._executor = self._executor, None
            self._alive.close()  # and they end, which the executor takes for a break: its own way to kill fails of jobs in hand
            executor.shutdown()


def with_warnings(function: Callable[..., R], *arguments: Any) -> tuple[R, list[Warning]]:
    """The result of a function and the warnings on the way, which another process can give."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    return result, [one.message for one in caught if isinstance(one.message, Warning)]


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits until processes have started; and these never get it, as it is for the one that started them."""
    if sys.platform == "win32" or current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    resource_tracker.ensure_running()  # which unblocks the signal when it starts
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))  # another thread may be sent it
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in came[:1]:
            signal.raise_signal(number)


# In a worker.

_reports: Any = None


def _begin(reports: Any, lifeline: Any) -> None:
    """What a worker does first: its output goes to the errors, and it ends with the process that started it."""
    global _reports
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for Windows
    with suppress(OSError):
        os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a worker may end with no time to write what it holds
    Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Any) -> None:
    with suppress(OSError, EOFError):
        lifeline.recv_bytes()  # nothing ever comes but its end
    os._exit(1)


def _do(function: Callable[[J, Notify], R], job: J, at: int) -> tuple[R, list[Warning]]:
    return with_warnings(function, job, lambda *what: _reports.send((at, what)))

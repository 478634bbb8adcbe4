"""Work in processes beside this one: fits and trainings of a run, the figures of its report.

Threads of one process share Python's lock, and take it for every operation: hundreds of times in a step of a few milliseconds,
so that two of them hardly do more than one. Processes share nothing, and have nothing to wait for. Where a thing is computed
changes no number.

A helper is started with this module by its name, and not by `multiprocessing`, which would run a user's script again. It reads
a function and its arguments, writes what that tells on the way and what it gives, and waits for the next; it ends when nobody
is there to read it. What goes to and fro is pickled: a helper is told what to do by the process that started it, and by no
other.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Event
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from lindley.errors import LindleyError

__all__ = ["MOST_HELPERS", "Helper", "Tell", "share_out", "some_helpers"]

J = TypeVar("J")
R = TypeVar("R")
Tell = Callable[..., None]
"""Called with whatever a function tells on its way; when it raises an error, the work ends."""


MOST_HELPERS = 7
"""Processes beside this one that nobody asked for, at most: each takes some 300 MB of memory."""


class Lost(LindleyError):
    """A helper ended before it was done."""


class Helper:
    """A process that calls functions for this one, one at a time. Where no process may be started, they are called here."""

    def __init__(self, *modules: str) -> None:
        """``modules``: what it will need, and imports at once, while this process does something else."""
        places = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        flags: dict[str, Any] = {}
        if sys.platform == "win32":
            flags["creationflags"] = subprocess.CREATE_NO_WINDOW
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": places, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}, **flags,
            )  # fmt: skip
            self._to, self._from = cast(Any, self._process.stdin), cast(Any, self._process.stdout)

    def __enter__(self) -> Helper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, function: Callable[..., R], *arguments: Any, tell: Tell) -> R:
        """``function(*arguments, tell)``. Warnings on the way are given here.

        Raises:
            Lost: if the process ends before it is done.
        """
        if self._process is None:
            return function(*arguments, tell)
        try:
            # As one piece: it is read at once, and not after all that the function needs was imported.
            pickle.dump(pickle.dumps((function, arguments)), self._to)
            self._to.flush()
        except OSError:
            pass  # nobody reads it; what there was to say is still there to be read
        while True:
            try:
                kind, told = pickle.load(self._from)
            except (EOFError, pickle.UnpicklingError):
                self.end()
                self._process.wait()
                raise Lost(
                    "a process that had a part of the work ended before it was done: perhaps there was too little memory"
                ) from None
            if kind == "given":
                return told  # type: ignore[no-any-return]
            if kind == "error":
                raise told
            if kind == "warning":
                warnings.warn(told, stacklevel=2)
            else:
                tell(*told)

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended."""
        return self._process is not None and self._process.poll() is not None

    def end(self) -> None:
        """Stop it at once, whatever it does; a call that waits for it raises an error."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End it, when nobody waits for it."""
        self.end()
        if self._process is not None:
            self._process.wait()
            for pipe in (self._to, self._from):
                with suppress(OSError):
                    pipe.close()


@dataclass(frozen=True, eq=False)
class _Done(Generic[J, R]):
    """A job that is done; whoever did it goes on when what it gave is taken, so that no more is held than is worked on."""

    job: J
    given: R
    taken: Event = field(default_factory=Event)


@contextmanager
def some_helpers(number: int, *modules: str, most: int = MOST_HELPERS) -> Iterator[list[Helper]]:
    """So many helpers, ``most`` at most, which will need these modules; they end with the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(Helper(*modules)) for _ in range(min(number, most))]


def share_out(
    function: Callable[[J, Tell], R],
    jobs: Iterable[J],
    helpers: Sequence[Helper],
    *,
    tell: Callable[..., None] = lambda job, *told: None,
    here: Iterable[J] = (),
    threads: int = 1,
) -> Iterator[tuple[J, R]]:
    """``function(job, tell)`` of every job, by this process and the helpers beside it; each is given as soon as it is done.

    Args:
        function: what is done with a job; it can be pickled, as must be the jobs and what they give.
        jobs: are begun in this order.
        helpers: each does one at a time, as does one thread of this process.
        tell: is called with a job and what is told of it.
        here: jobs that only this process can do; it does them first.
        threads: how many of those at a time.

    When an error comes, or what is given is not asked for any more, the helpers are ended, and jobs of this process stop when
    they tell the next time. What a helper had in hand that is lost, perhaps for want of memory, is done at the end, here.
    """
    own, shared, left = deque(here), deque(jobs), deque[J]()
    stop = Event()
    done: SimpleQueue[_Done[J, R] | BaseException | None] = SimpleQueue()

    def work(helper: Helper | None, *queues: deque[J]) -> None:
        try:
            for queue in queues:
                while not stop.is_set():
                    try:
                        job = queue.popleft()
                    except IndexError:
                        break

                    def tell_of(*told: Any, job: J = job) -> None:
                        if stop.is_set():
                            raise CancelledError
                        tell(job, *told)

                    try:
                        given = function(job, tell_of) if helper is None else helper(function, job, tell=tell_of)
                    except Lost:
                        if helper is None or not helper.is_gone:  # one that it had for itself is
                            raise
                        left.append(job)
                        break
                    one = _Done(job, given)
                    done.put(one)
                    while not one.taken.wait(0.2) and not stop.is_set():
                        pass
            done.put(None)
        except BaseException as error:
            done.put(error)

    more = min(threads, len(own)) - 1
    workers = [partial(work, None, own, shared), *[partial(work, None, own)] * more]
    workers += [partial(work, helper, shared) for helper in helpers]
    with ThreadPoolExecutor(len(workers)) as pool:
        for worker in workers:
            pool.submit(worker)
        busy = len(workers)
        try:
            while busy:
                try:
                    found = done.get(timeout=0.5)  # Windows lets nobody interrupt a longer wait
                except Empty:
                    continue
                if found is None:
                    busy -= 1
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield found.job, found.given
                    found.taken.set()
        finally:
            stop.set()
            if busy:
                for helper in helpers:
                    helper.end()
    if left:
        yield from share_out(function, left, (), tell=tell)


def _serve() -> None:
    """In the process: one call after the other, until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this, who ends it then
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever else is written goes to the errors

        def answer(kind: str, what: Any) -> None:
            pickle.dump((kind, what), answers)
            answers.flush()

        for module in sys.argv[1:]:
            import_module(module)
        with suppress(OSError, EOFError):  # nobody asks any more, or listens
            while True:
                function, arguments = pickle.loads(pickle.load(sys.stdin.buffer))
                try:
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        given = function(*arguments, lambda *told: answer("told", told))
                    for one in caught:
                        answer("warning", one.message)
                    answer("given", given)
                except BrokenPipeError:
                    raise
                except Exception as error:
                    answer("error", _sendable(error))


def _sendable(error: Exception) -> Exception:
    """An error as it is, or in words if it does not survive the way."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    _serve()

"""A program in a process of its own: a long training on two cores has one here, and the other one apart.

Two threads of one process share Python's lock, and take it once for every operation: hundreds of times in a step of a few
milliseconds. Two processes share nothing, and have nothing to wait for. Which of the two it is changes no number.

The process is started with this module, reads the arguments of a `Program`, and writes how far it is, and at last what it
found. It ends when nobody reads that any more.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import torch

from lindley.errors import LindleyError
from lindley.models.fitting import History
from lindley.models.neural.parameters import Parameters
from lindley.models.neural.program import Program, Progress

__all__ = ["run_apart"]


def run_apart(arguments: tuple[Any, ...], progress: Progress) -> tuple[Parameters, History]:
    """What ``Program(*arguments).run(progress)`` gives. When ``progress`` raises an error, the process is ended.

    Raises:
        LindleyError: if the process ends before it is done.
    """
    places = os.pathsep.join(os.path.abspath(place) for place in sys.path)
    flags: dict[str, Any] = {}
    if sys.platform == "win32":
        flags["creationflags"] = subprocess.CREATE_NO_WINDOW
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": places, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}, **flags,
        )  # fmt: skip
    except OSError:  # where no process may be started, here will do
        return Program(*arguments).run(progress)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            pickle.dump(arguments, process.stdin)
            process.stdin.flush()
        while True:
            try:
                kind, *told = pickle.load(process.stdout)
            except (EOFError, pickle.UnpicklingError):
                raise LindleyError(
                    "a process that trained some of the runs ended before it was done: perhaps there was too little memory"
                ) from None
            if kind == "found":
                return told[0], told[1]
            if kind == "error":
                raise told[0]
            progress(*told)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()


def _serve() -> None:
    """In the process: one program, from the arguments that are read to what it found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this, who ends it then
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever else is written goes to the errors

        def tell(kind: str, *told: Any) -> None:
            pickle.dump((kind, *told), answers)
            answers.flush()

        torch.set_num_threads(1)
        with suppress(BrokenPipeError):
            try:
                tell("found", *Program(*pickle.load(sys.stdin.buffer)).run(lambda *told: tell("epoch", *told)))
            except BrokenPipeError:
                raise
            except Exception as error:
                tell("error", error)


if __name__ == "__main__":
    _serve()

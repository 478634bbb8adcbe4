"""A process that reads files for the server: tables of strangers, headers of systems. The server itself opens none of them.

A table can be large, slow to read, or made to do harm: so the server stays quick and small, and a process that hangs or fills
the memory is ended, and started again for the next question. It lives on between questions, as a table is read again with
every click, and it never loads torch.

Questions and answers are lines of JSON. `ANSWERS` are the questions that it knows: ``module:function``; arguments and results
are what JSON can hold.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from lindley.errors import LindleyError
from lindley.settings import speaking

__all__ = ["ANSWERS", "Reader", "answer"]

ANSWERS = {
    "look": "lindley.app.look:look",
    "keep": "lindley.app.look:keep",
    "plan": "lindley.app.look:plan",
    "headers": "lindley.app.headers:headers",
    "plan_training": "lindley.app.headers:plan_training",
    "plan_validation": "lindley.app.headers:plan_validation",
    "criteria": "lindley.app.headers:criteria",
    "notes": "lindley.app.evidence:notes",
    "evidence": "lindley.app.evidence:evidence",
    "results": "lindley.app.evidence:results",
    "review": "lindley.app.evidence:review",
    "pdf": "lindley.app.evidence:pdf",
    "log": "lindley.app.evidence:log_of_cases",
    "try_out": "lindley.app.evidence:try_out",
}
"""Questions by name. Whoever adds a page adds its own here."""
PATIENCE = 120.0
"""Seconds for one answer."""
LARGEST = 1_000_000_000
"""Bytes of memory at which it is started anew after an answer."""


class Reader:
    """Asks the process, which is started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "reader")  # who has to wait holds up nobody but those behind

    async def ask(self, question: str, **arguments: Any) -> Any:
        """The answer to a question; what a user can mend comes as a `LindleyError`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, question, arguments)

    def _ask(self, question: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            process = self._started()
            timer = threading.Timer(PATIENCE, process.kill)
            timer.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps([question, arguments]).encode("ascii") + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = b""
            finally:
                timer.cancel()
            if not line.endswith(b"\n"):
                self._end()
                raise LindleyError("This file takes too long or too much memory to read: give a smaller one.")
            answered = json.loads(line)
            if answered.get("memory", 0) > LARGEST:
                self._end()
        if "error" in answered:
            raise LindleyError(answered["error"])
        return answered["result"]

    def warm(self) -> None:
        """Start the process before anybody asks."""
        with self._lock:
            self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            flags: dict[str, Any] = {}
            if sys.platform == "win32":
                flags["creationflags"] = subprocess.CREATE_NO_WINDOW
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lindley.app.reader"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}, **flags,
            )  # fmt: skip
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()

    def close(self) -> None:
        """End the process, also one that is at work."""
        if self._process is not None:
            self._process.kill()
        with self._lock:
            self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)


def answer(question: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question, as the process gives it."""
    module, _, function = ANSWERS[question].partition(":")
    with speaking("page"):
        try:
            return {"result": getattr(importlib.import_module(module), function)(**arguments)}
        except LindleyError as error:
            return {"error": str(error)}
        except MemoryError:
            return {"error": "There is not enough memory to read this file: give a smaller one."}
        except Exception as error:
            return {"error": f"This file cannot be read ({type(error).__name__})."}


def _serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    import psutil

    from lindley.app import look  # noqa: F401 - most questions need it

    for line in questions:
        question, arguments = json.loads(line)
        told = {**answer(question, arguments), "memory": psutil.Process().memory_info().rss}
        answers.write(json.dumps(told, allow_nan=False).encode("ascii") + b"\n")
        answers.flush()


if __name__ == "__main__":
    _answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # whatever a library prints is no answer
    _serve(sys.stdin.buffer, _answers)

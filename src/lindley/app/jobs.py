"""The queue: one command at a time, in the order in which they were asked for, each a process of its own.

A job is a command line of ``lindley``; what the bench does, a command could have done. Its folder, ``jobs/ID``, holds

    job.json       what it is: the database can be made from these
    events.jsonl   how far it is, and how it ended, as the command itself writes it (`lindley.cli.events`)
    output.txt     what it printed

How a job ended is read from the events, and not from the process: a server that was killed and started again finds a process
that is still at work and waits for it, or sees how it ended meanwhile. One that ended without a word was killed: it is
*broken*, and can go on where its command can (a run does what is missing in its folder), or start again.

What a job reads belongs to it: its command says everything that can be said otherwise later, and it holds the digests of its
files. If one of them is another file when its turn comes, it is not started.

Where something cannot be written down, as on a full disk, the queue stays as it is, pages say so, and it is tried again until
it can: nothing is lost, and no job is started meanwhile.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

import psutil

from lindley.app.database import UNREADABLE, Database, is_full, read_row
from lindley.errors import LindleyError
from lindley.files import sha256_of
from lindley.settings import option_value

__all__ = ["ACTIVE", "Events", "Job", "Limits", "Progress", "Queue", "State", "now", "typed"]

State = Literal["waiting", "running", "done", "failed", "cancelled", "broken"]
ACTIVE: tuple[State, ...] = ("waiting", "running")
EVENTS, OUTPUT, JOB = "events.jsonl", "output.txt", "job.json"
PROGRAM = (sys.executable, "-m", "lindley")
LOOK = 0.2
"""Seconds between two looks at the process."""
GRACE = 5.0
"""Seconds that a process has to end by itself when it is told to."""
PAUSE = 2.0
"""Seconds until what could not be written is tried again."""
MOST_TOLD = 200
"""Events of warnings and errors that a page shows."""


def now() -> str:
    """The time here, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def typed(command: Sequence[str]) -> str:
    """A command as somebody would type it."""
    return " ".join(["lindley", *map(option_value, command)])


@dataclass(frozen=True)
class Limits:
    """Of one job: more, and it is ended."""

    memory: int = 0  # bytes of the process and those that it started; 0 for three quarters of this machine's
    hours: float = 48.0

    @property
    def bytes(self) -> int:
        """The limit of memory that holds here."""
        return self.memory or int(psutil.virtual_memory().total * 0.75)


@dataclass(frozen=True)
class Progress:
    """How far a job is, as its events tell."""

    doing: str = ""
    detail: str = ""
    done: float = 0.0
    left: float | None = None  # seconds, where that can be told
    said: tuple[tuple[str, str], ...] = ()  # level and message
    status: int | None = None

    @property
    def error(self) -> str:
        """What the command gave as the reason of its end."""
        return next((text for level, text in reversed(self.said) if level == "error"), "")


@dataclass(frozen=True)
class Job:
    """One command in the queue."""

    id: int
    kind: str
    title: str
    command: tuple[str, ...]
    output: str | None
    about: Mapping[str, Any]
    state: State
    said: str
    added: str
    started: str | None
    ended: str | None

    @property
    def typed(self) -> str:
        """The command as it can be copied."""
        return typed(self.command)

    @property
    def active(self) -> bool:
        """Whether it waits or is at work."""
        return self.state in ACTIVE

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Job:
        """From the database."""
        return cls(
            row["id"], row["kind"], row["title"], tuple(json.loads(row["command"])), row["output"],
            json.loads(row["about"]), row["state"], row["said"], row["added"], row["started"], row["ended"],
        )  # fmt: skip


class Queue:
    """All jobs of a bench; `start` works on those that wait."""

    def __init__(self, database: Database, folder: Path, limits: Limits | None = None) -> None:
        self.database = database
        self.folder = folder
        self.limits = limits or Limits()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._cancelled: set[int] = set()
        self._events: dict[int, Events] = {}
        self._thread: threading.Thread | None = None
        self.trouble = ""  # why the queue waits, where something cannot be written
        self._unwritten: tuple[int, dict[str, Any]] | None = None  # a job, and what became of it

    # what pages ask

    def job(self, number: int) -> Job | None:
        """One job, by its number."""
        row = self.database.one("SELECT * FROM jobs WHERE id = ?", number)
        return None if row is None else self._job(row)

    def jobs(self, *kinds: str) -> list[Job]:
        """All jobs of some kinds, or all; the latest first."""
        rows = self.database.all("SELECT * FROM jobs ORDER BY id DESC")
        return [self._job(row) for row in rows if not kinds or row["kind"] in kinds]

    def _job(self, row: Mapping[str, Any]) -> Job:
        unwritten = self._unwritten
        return Job.of({**row, **unwritten[1]} if unwritten is not None and unwritten[0] == row["id"] else row)

    def is_unwritten(self, job: Job) -> bool:
        """Whether what became of a job is known here, and nowhere else."""
        return self._unwritten is not None and self._unwritten[0] == job.id

    def place(self, number: int) -> Path:
        """The folder of a job."""
        return self.folder / "jobs" / str(number)

    def progress(self, number: int) -> Progress:
        """How far a job is."""
        return self._events.setdefault(number, Events(self.place(number) / EVENTS)).progress()

    def printed(self, number: int) -> str:
        """What a job printed, or the end of it."""
        with suppress(OSError), open(self.place(number) / OUTPUT, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 100_000))
            return file.read().decode("utf-8", "replace")
        return ""

    # what pages do

    def add(
        self,
        kind: str,
        title: str,
        command: Sequence[str],
        *,
        output: str | None = None,
        about: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Job:
        """Put a command at the end of the queue; one that waits or is at work already is not added again.

        ``files``: those that it reads, in the bench's folder, and their SHA-256 now.
        """
        text = json.dumps(list(command))
        about = {**(about or {}), "files": dict(files or {})}
        with self.database.change() as database:
            same = database.execute(
                "SELECT id FROM jobs WHERE command = ? AND state IN ('waiting', 'running')", (text,)
            ).fetchone()
            if same is None:
                values = (kind, title, text, output, json.dumps(about), now())
                added = database.execute(
                    "INSERT INTO jobs (kind, title, command, output, about, state, added) "
                    "VALUES (?, ?, ?, ?, ?, 'waiting', ?)",
                    values,
                )
            number = int(added.lastrowid or 0) if same is None else int(same["id"])
            self._write(number)
        self._wake.set()
        job = self.job(number)
        assert job is not None
        return job

    def go_on(self, number: int) -> None:
        """Do a job that ended before it was done once more: the same command, which uses what is finished."""
        self._cancelled.discard(number)
        with self.database.change() as database:
            database.execute(
                "UPDATE jobs SET state = 'waiting', said = '', started = NULL, ended = NULL, process = NULL "
                "WHERE id = ? AND state IN ('failed', 'cancelled', 'broken')",
                (number,),
            )
            self._write(number)
        self._wake.set()

    def cancel(self, number: int) -> None:
        """End a job, or take it out of the queue; what it has finished is kept."""
        with self.database.change() as database:
            waiting = database.execute(
                "UPDATE jobs SET state = 'cancelled', ended = ? WHERE id = ? AND state = 'waiting'", (now(), number)
            )
            running = database.execute("SELECT id FROM jobs WHERE id = ? AND state = 'running'", (number,)).fetchone()
            self._write(number)
        if not waiting.rowcount and running is not None:
            self._cancelled.add(number)
        self._wake.set()

    # the work

    def start(self) -> None:
        """Work on what waits, in a thread of its own; first on what an earlier server left running."""
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process that is at work, which can go on later, and the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2 * GRACE + 5)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                row = self.database.one(
                    "SELECT * FROM jobs WHERE state IN ('running', 'waiting') ORDER BY state = 'waiting', id LIMIT 1"
                )
                if row is not None:
                    self._do(row)
                else:
                    self._wake.wait(30)
                    self._wake.clear()
            except Exception as error:  # whatever it is, the queue goes on
                self._wait(error)

    def _do(self, row: Mapping[str, Any]) -> None:
        try:
            if row["state"] == "running":  # that an earlier server left
                self._watch(row["id"], _still_running(row["process"], row["process_started"]))
            else:
                self._watch(row["id"], self._begin(row))
        except LindleyError as error:
            self._end(row["id"], "failed", str(error))
        except Exception as error:  # the others in the queue have nothing to do with it
            if is_full(error):  # it could not begin
                self._wait(error)
                if (job := self.job(row["id"])) is not None and job.state == "running":
                    self._record(row["id"], state="waiting", started=None, process=None)
                return
            reason = getattr(error, "strerror", None) or type(error).__name__
            self._end(row["id"], "failed", f"The command could not be started, or not be watched: {reason}.")

    def _require_files(self, row: Mapping[str, Any]) -> None:
        """Refuse to begin with other files than those that the job was asked for with."""
        for name, sha256 in json.loads(row["about"]).get("files", {}).items():
            digest = ""
            with suppress(OSError):
                digest = sha256_of(self.folder / name)
            if digest != sha256:
                raise LindleyError(f"{name} is not the file any more that this was asked for with. Ask for it anew.")

    def _begin(self, row: Mapping[str, Any]) -> psutil.Process:
        self._require_files(row)
        place = self.place(row["id"])
        place.mkdir(parents=True, exist_ok=True)
        (place / EVENTS).unlink(missing_ok=True)
        self._events.pop(row["id"], None)
        environment = {**os.environ, "LINDLEY_EVENTS": str(place / EVENTS), "PYTHONUTF8": "1", "NO_COLOR": "1"}
        environment.pop("LINDLEY_LOG", None)  # a page says what is logged
        separate: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            separate = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
        with self.database.change() as database:  # first: if the machine goes off now, it is known to have begun
            database.execute("UPDATE jobs SET state = 'running', started = ? WHERE id = ?", (now(), row["id"]))
            self._write(row["id"])
        with open(place / OUTPUT, "wb") as output:
            started = psutil.Popen(
                [*PROGRAM, *json.loads(row["command"])],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **separate,
            )  # fmt: skip
        with suppress(psutil.Error):  # pages come first
            started.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else 10)
        try:
            with self.database.change() as database:
                database.execute(
                    "UPDATE jobs SET process = ?, process_started = ? WHERE id = ?",
                    (started.pid, started.create_time(), row["id"]),
                )
                self._write(row["id"])
        except Exception:
            _end_tree(started)
            raise
        return started

    def _watch(self, number: int, process: psutil.Process | None) -> None:
        """Wait for a process, within its limits, and write down how it ended."""
        since = time.time()
        while process is not None and _alive(process):
            if number in self._cancelled:
                _end_tree(process)
                break
            if self._stop.is_set():
                _end_tree(process)
                self._end(number, "broken", "The program was closed.")
                return
            if _memory(process) > self.limits.bytes:
                _end_tree(process)
                size = self.limits.bytes / 1e9
                self._end(number, "failed", f"It needed more than {size:.1f} GB of memory, and was ended.")
                return
            if time.time() - since > self.limits.hours * 3600:
                _end_tree(process)
                self._end(number, "failed", f"It took more than {self.limits.hours:g} hours, and was ended.")
                return
            time.sleep(LOOK)
        progress = self.progress(number)
        status = progress.status
        if status is None and isinstance(process, psutil.Popen) and process.returncode == 0:
            status = 0  # its last word could not be written
        if status is not None:
            done = status in (0, 1)  # 1 is an answer too: a criterion fails; after an error it is 2
            self._end(number, "done" if done else "failed", "" if done else progress.error)
        elif number in self._cancelled:
            self._end(number, "cancelled", "")
        elif isinstance(process, psutil.Popen) and (process.returncode or 0) > 0 and sys.platform != "win32":
            self._end(
                number, "failed", f"The command could not be started: see what was printed ({process.returncode})."
            )
        else:
            self._end(number, "broken", "It ended without a word: it was killed, or the machine went off.")

    def _end(self, number: int, state: State, said: str) -> None:
        self._cancelled.discard(number)
        self._record(number, state=state, said=said, ended=now(), process=None)

    def _record(self, number: int, **columns: Any) -> None:
        """Write down what became of a job, however long it takes until that can be done.

        A server that is closed meanwhile finds out when it is started again.
        """
        changed = ", ".join(f"{name} = ?" for name in columns)
        self._unwritten = number, columns
        while True:
            try:
                with self.database.change() as database:
                    database.execute(f"UPDATE jobs SET {changed} WHERE id = ?", (*columns.values(), number))
                    self._write(number)
            except (OSError, sqlite3.Error, LindleyError) as error:
                self._wait(error)
                if not self._stop.is_set():
                    continue
            self._unwritten = None
            return

    def _wait(self, error: Exception) -> None:
        """Say on the pages why nothing goes on, and wait a moment."""
        self.trouble = str(getattr(error, "strerror", None) or error or type(error).__name__)
        self._stop.wait(PAUSE)
        self.trouble = ""

    def _write(self, number: int) -> None:
        """Write the job as a file, from which the database can be made again; in a transaction, so that one does at a time."""
        self.database.save("jobs", number, self.place(number) / JOB)

    def rebuild(self) -> None:
        """Make the list of jobs say what their folders say; those that were at work are looked at by `start`."""
        known = {row["id"]: row for row in self.database.all("SELECT * FROM jobs")}
        for path in sorted((self.folder / "jobs").glob(f"*/{JOB}")):
            with suppress(*UNREADABLE):
                row = read_row(path)
                job = Job.of(row)
                if str(job.id) == path.parent.name and job.state in get_args(State) and row != known.get(job.id):
                    self.database.put("jobs", row)


class Events:
    """The events of a job, of which only what is new is read; a line that is not whole yet is left for later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._read = 0  # bytes
        self._doing, self._detail, self._done = "", "", 0.0
        self._status: int | None = None
        self._said: deque[tuple[str, str]] = deque(maxlen=MOST_TOLD)
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def progress(self) -> Progress:
        """What they tell now."""
        with self._lock:
            self._catch_up()
            left = _left(self._first, self._last)
            return Progress(self._doing, self._detail, self._done, left, tuple(self._said), self._status)

    def _catch_up(self) -> None:
        try:
            size = self.path.stat().st_size
            if size < self._read:  # a job that was started anew
                self._forget()
            if size == self._read:
                return
            with open(self.path, "rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            self._forget()
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError, TypeError, KeyError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        if "status" in event:
            self._status = int(event["status"])
        elif "said" in event:
            self._said.append((str(event.get("level", "")), str(event["said"])))
        elif "doing" in event:
            done, at = min(max(float(event["done"]), 0.0), 1.0), float(event["time"])
            if done < self._done:  # another bar: the report, after the run
                self._first = None
            self._doing, self._detail, self._done = str(event["doing"]), str(event["detail"]), done
            self._last = (at, done)
            self._first = self._first or self._last


def _left(first: tuple[float, float] | None, last: tuple[float, float] | None) -> float | None:
    """Seconds, as the share that was done in the time so far tells; nothing from the first moments."""
    if first is None or last is None or last[1] - first[1] < 0.01 or last[0] - first[0] < 2:
        return None
    gone = time.time() - last[0]
    return max(0.0, (1 - last[1]) * (last[0] - first[0]) / (last[1] - first[1]) - gone)


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        if isinstance(process, psutil.Popen) and process.poll() is not None:
            return False
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


def _still_running(number: int | None, started: float | None) -> psutil.Process | None:
    """The process with this number, if it is the one that was started then, and not a later one."""
    with suppress(psutil.Error, TypeError):
        process = psutil.Process(number)
        if number is not None and abs(process.create_time() - float(started or 0)) < 2:
            return process
    return None


def _tree(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [*process.children(recursive=True), process]
    return [process]


def _memory(process: psutil.Process) -> int:
    total = 0
    for each in _tree(process):
        with suppress(psutil.Error):
            total += each.memory_info().rss
    return total


def _end_tree(process: psutil.Process) -> None:
    """Ask the process and all that it started to end; what has not after a while is killed."""
    every = _tree(process)
    for each in every:
        with suppress(psutil.Error):
            each.terminate()
    _, left = psutil.wait_procs(every, timeout=GRACE)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left, timeout=GRACE)
    if isinstance(process, psutil.Popen):
        process.poll()

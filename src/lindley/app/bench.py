"""A bench: one folder, its database, its queue of jobs, and the process that reads files.

    tables/DIGEST/NAME      a table that was sent, and lindley.yaml beside it if its options were kept
    runs/NUMBER/            what 'lindley run' wrote
    systems/                what 'lindley train' wrote, and what was said of it
    cases/NUMBER-ID/        a case, and what 'lindley case' wrote (`lindley.app.cases`); tryout/ is the same for try-outs
    jobs/NUMBER/            what was done, how far it is, and what it printed
    bench.sqlite            what is relational of all this

Everything but the database is as the commands write it, and the commands can go on with it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any
from weakref import WeakValueDictionary

from lindley.app import approvals
from lindley.app.cases import Cases
from lindley.app.database import UNREADABLE, Database, is_full
from lindley.app.files import ENDINGS, sent_table
from lindley.app.jobs import Limits, Queue, now
from lindley.app.reader import Reader
from lindley.errors import LindleyError
from lindley.files import sha256_of, write_whole

__all__ = ["Bench", "Stored"]

FOLDERS = ("tables", "runs", "systems", "cases", "tryout", "jobs")
DIGITS = 16
"""Letters of a digest that name a folder."""


@dataclass(frozen=True)
class Stored:
    """A table that was sent."""

    id: int
    sha256: str
    name: str
    added: str
    reading: dict[str, Any]
    relative: str  # its place in the bench's folder, as a command takes it


class Bench:
    """What all pages share: ``request.app.state.bench``."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        reader: Reader | None = None,
        unforeseen: Callable[[Exception], str] = lambda error: type(error).__name__,
    ) -> None:
        self.unforeseen = unforeseen  # what is said of an error that nobody has words for
        self.folder = folder.resolve()
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.database = Database(self.folder / "bench.sqlite", self.rebuild)
        self.queue = Queue(self.database, self.folder, limits)
        self.reader = reader or Reader()
        self._storing = Lock()
        self.sending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # forms that are being done
        self.cases = Cases(self)
        try:
            self.rebuild()
            _ = self.queue.jobs(), self.cases.all(), self.tables(), approvals.systems(self)
        except (sqlite3.Error, *UNREADABLE) as error:
            if is_full(error):
                raise LindleyError(
                    f"There is no room on the disk for the bench in {folder} ({error}). Make some."
                ) from error
            if isinstance(error, OSError):
                raise
            self.database.put_aside()  # its pages are whole, and hold nonsense

    def rebuild(self) -> None:
        """Make the database say what the files say; of approvals only where it knows none at all."""
        with self.database.change():
            self.queue.rebuild()
            approvals.rebuild(self)
            self.cases.rebuild()
            for folder in sorted((self.folder / "tables").iterdir()):
                query = "SELECT file FROM tables WHERE substr(sha256, 1, ?) = ?"
                known = self.database.one(query, DIGITS, folder.name)
                if folder.is_dir() and (known is None or not (folder / str(known["file"])).is_file()):
                    for path in sorted(folder.iterdir()):
                        if path.suffix.lower() in ENDINGS and not path.name.startswith("."):
                            with suppress(OSError):
                                self._note(sha256_of(path), path.name, path.name)

    def close(self) -> None:
        """End what is at work: jobs go on when the bench is opened again."""
        self.queue.stop()
        self.reader.close()
        self.database.close()

    # tables

    def tables(self) -> list[Stored]:
        """All tables, the latest first."""
        return [self._stored(row) for row in self.database.all("SELECT * FROM tables ORDER BY id DESC")]

    def table(self, number: int) -> Stored | None:
        """One table, by its number."""
        row = self.database.one("SELECT * FROM tables WHERE id = ?", number)
        return None if row is None else self._stored(row)

    def path(self, relative: str) -> Path:
        """A place in the bench's folder, of a table, a run, a system or a case; never one that a request gave."""
        return self.folder / relative

    def store(self, name: str, file: IO[bytes]) -> Stored:
        """Keep a file that was sent: under its digest, once, with its own name as far as a file system takes it."""
        plain, sha256 = sent_table(name, file)
        with self._storing:  # of two who send the same under two names, the second finds what the first has sent
            known = self.database.one("SELECT * FROM tables WHERE sha256 = ?", sha256)
            if known is not None and self.path(self._stored(known).relative).is_file():
                return self._stored(known)
            folder = self.folder / "tables" / sha256[:DIGITS]
            folder.mkdir(exist_ok=True)
            write_whole(folder / plain, file)
            return self._note(sha256, plain, name)

    def digests(self, *relative: str) -> dict[str, str]:
        """The SHA-256 of files in the bench's folder, of those that are there: a job begins only if they still are the same."""
        found = {}
        for name in relative:
            with suppress(FileNotFoundError):
                found[name] = sha256_of(self.path(name))
        return found

    def choose(self, number: int, reading: dict[str, Any]) -> None:
        """Remember how a table is to be read, until that is kept in lindley.yaml."""
        with self.database.change() as database:
            database.execute("UPDATE tables SET reading = ? WHERE id = ?", (json.dumps(reading), number))

    async def look(self, stored: Stored) -> Any:
        """What the page of a table shows (`lindley.app.look`)."""
        return await self.reader.ask("look", path=str(self.path(stored.relative)), reading=stored.reading)

    def _note(self, sha256: str, file: str, name: str) -> Stored:
        with self.database.change() as database:
            database.execute(
                "INSERT INTO tables (sha256, file, name, added) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (sha256) DO UPDATE SET file = excluded.file",
                (sha256, file, name[:200], now()),
            )
        row = self.database.one("SELECT * FROM tables WHERE sha256 = ?", sha256)
        assert row is not None
        return self._stored(row)

    def _stored(self, row: dict[str, Any]) -> Stored:
        relative = f"tables/{row['sha256'][:DIGITS]}/{row['file']}"
        return Stored(row["id"], row["sha256"], row["name"], row["added"], json.loads(row["reading"]), relative)

    # progress

    async def changes(self, number: int, every: float = 0.5) -> AsyncIterator[int]:
        """Yields whenever there is something new to say of a job, and at last when it has ended."""
        before: tuple[Any, ...] | None = None
        while True:
            job = self.queue.job(number)
            if job is None:
                return
            progress = self.queue.progress(number)
            seen = (job.state, progress.doing, progress.detail, round(progress.done, 3), int(progress.left or 0))
            if seen != before:
                before = seen
                yield number
            if not job.active:
                return
            await asyncio.sleep(every)

"""``bench.sqlite``: what is relational of a bench. What it holds is beside it as files too, or its loss is harmless.

One connection for the whole process, under a lock: every statement takes less than a millisecond. Write-ahead logging, so that
a power cut leaves the last whole transaction. A database that is damaged, which is looked at when it is opened, and whenever
SQLite says so later, is put aside under another name, and a new one is filled from the files
(`lindley.app.bench.Bench.rebuild`).

The connection holds the file for itself as long as it lives, which the operating system ends with the process: two servers can
not work in one folder.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError
from lindley.files import write_whole

__all__ = ["UNREADABLE", "Database", "is_full", "read_row"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS tables (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,       -- of the file; the first letters are the name of its folder
    file TEXT NOT NULL,                -- its name in that folder
    name TEXT NOT NULL,                -- as it was called where it came from
    added TEXT NOT NULL,
    reading TEXT NOT NULL DEFAULT '{}' -- options that were chosen and not kept in lindley.yaml yet
);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                -- which page it belongs to: run, train, case, …
    title TEXT NOT NULL,
    command TEXT NOT NULL,             -- the arguments behind 'lindley', as JSON
    output TEXT,                       -- what it makes, in the bench's folder: runs/3, systems/glass.safetensors
    about TEXT NOT NULL DEFAULT '{}',  -- what its page wants to remember, as JSON
    state TEXT NOT NULL,               -- waiting, running, done, failed, cancelled, broken
    said TEXT NOT NULL DEFAULT '',     -- why it failed or was broken off
    added TEXT NOT NULL,
    started TEXT,
    ended TEXT,
    process INTEGER,
    process_started REAL
);
CREATE TABLE IF NOT EXISTS once (
    key TEXT PRIMARY KEY,              -- of a form that was sent
    place TEXT NOT NULL,               -- where its answer leads
    sent REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS systems (
    id INTEGER PRIMARY KEY,
    file TEXT NOT NULL UNIQUE,         -- its name in systems/
    added TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS approvals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file TEXT NOT NULL,                -- of the system
    sha256 TEXT NOT NULL,              -- of the bytes that were approved
    what TEXT NOT NULL CHECK (what IN ('approved', 'withdrawn')),
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    why TEXT NOT NULL,
    exception TEXT NOT NULL,           -- why it was approved although no validation passed
    validation TEXT,                   -- the folder of its report
    validation_sha256 TEXT,
    verdict TEXT
);
CREATE TRIGGER IF NOT EXISTS approvals_stay BEFORE UPDATE ON approvals
    BEGIN SELECT RAISE(ABORT, 'what was approved or withdrawn is not changed'); END;
CREATE TRIGGER IF NOT EXISTS approvals_are_kept BEFORE DELETE ON approvals
    BEGIN SELECT RAISE(ABORT, 'what was approved or withdrawn is not deleted'); END;
CREATE TABLE IF NOT EXISTS cases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a folder is named after it, and none twice
    number TEXT NOT NULL,              -- as the laboratory counts
    examiner TEXT NOT NULL,
    folder TEXT NOT NULL,              -- in the bench's folder
    added TEXT NOT NULL,
    tryout INTEGER NOT NULL DEFAULT 0,
    about TEXT NOT NULL DEFAULT '{}',  -- what is said of it, files, system, items, as JSON
    job INTEGER                        -- that computes it; a draft has none
);
"""
OF_JSON = ("command", "about")
"""Columns that hold JSON as text; a file has it as it is."""
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, sqlite3.IntegrityError, sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)  # fmt: skip
"""Errors of a file that holds no row of a table."""
FORGET_AFTER = 7 * 24 * 3600.0
"""Seconds for which a form that was sent is known."""


_NOT_DAMAGED = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
)
"""Errors of a database that is sound, as far as one can tell."""


def read_row(path: Path) -> dict[str, Any]:
    """A row from the file that `Database.save` wrote; any of `UNREADABLE` is raised if it is none."""
    return {
        name: json.dumps(value) if name in OF_JSON else value for name, value in json.loads(path.read_bytes()).items()
    }


def is_full(error: BaseException) -> bool:
    """Whether something could not be written for want of room on the disk."""
    if isinstance(error, sqlite3.Error):  # of a full disk too, where SQLite makes its files longer, it says IOERR
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Database:
    """Rows by name; ``change`` is one transaction.

    ``rebuild`` fills a new database from the files, after a damaged one was put aside.
    """

    def __init__(self, path: Path, rebuild: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._rebuild = rebuild
        self._lock = threading.RLock()
        self._before: dict[Path, Path | None] = {}
        try:
            self._open()
            with self.change() as database:
                database.execute("DELETE FROM once WHERE sent < ?", (time.time() - FORGET_AFTER,))
        except sqlite3.Error as error:
            if not self._is_damaged(error):
                raise LindleyError(
                    f"The bench in {path.parent} is open already, or cannot be written to ({error}). Close the other one "
                    "first, make room on the disk, or name another folder with --folder."
                ) from error
            self._replace()

    def _open(self) -> None:
        self._connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=1)
        self._connection.row_factory = sqlite3.Row
        try:
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute("PRAGMA foreign_keys=ON")
            self._connection.execute("PRAGMA trusted_schema=OFF")
            self._connection.executescript(SCHEMA)
            (found,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        except UnicodeDecodeError as error:  # SQLite quotes damaged bytes in its message
            self._connection.close()
            raise sqlite3.DatabaseError("damaged") from error
        except sqlite3.Error:
            self._connection.close()
            raise

    def _is_damaged(self, error: sqlite3.Error) -> bool:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF == sqlite3.SQLITE_READONLY:  # as a file says of itself, too
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return code == sqlite3.SQLITE_IOERR_SHORT_READ or code & 0xFF not in _NOT_DAMAGED

    def put_aside(self) -> None:
        """Keep the file under another name, begin a new one, and fill it from the files."""
        with self._lock:
            self._connection.close()
            self._replace()
            self._rebuild()

    def _replace(self) -> None:
        at = f"{datetime.now():%Y-%m-%d-%H%M%S}"
        aside = self.path.with_name(f"{self.path.name}.damaged-{at}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}-again")
        for ending in ("-wal", "-shm", ""):  # the database last: until then it is not done
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + ending).replace(aside.with_name(aside.name + ending))
        self._open()

    @property
    def damaged(self) -> list[str]:
        """Names of the files that were put aside, the latest first; of those that nobody has taken away."""
        found = self.path.parent.glob(f"{self.path.name}.damaged-*")
        return sorted((path.name for path in found if not path.name.endswith(("-wal", "-shm"))), reverse=True)

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one at a time; a database that turns out to be damaged is put aside."""
        with self._lock:
            try:
                yield self._connection
            except sqlite3.DatabaseError as error:
                if not hasattr(error, "sqlite_errorcode") or error.sqlite_errorcode & 0xFF not in (
                    sqlite3.SQLITE_CORRUPT,
                    sqlite3.SQLITE_NOTADB,
                ):
                    raise
                self.put_aside()
                raise LindleyError(
                    "The database of the bench was damaged: it was put aside, and made again from the files. Do it once more."
                ) from error

    def close(self) -> None:
        """Nothing can be read or written any more."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing if the body fails; one inside of another is part of it."""
        with self._used() as connection:
            inside = connection.in_transaction
            if inside:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may have been put aside
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                for path, before in self._before.items():
                    with suppress(OSError):
                        before.replace(path) if before is not None else path.unlink()
                raise
            finally:
                for before in self._before.values():
                    if before is not None:
                        before.unlink(missing_ok=True)
                self._before.clear()

    def keep(self, path: Path) -> None:
        """Put a file that is written in this transaction back as it is now, if the transaction fails."""
        if path in self._before:
            return
        before = path.with_name(f".{path.name[:60]}.before")
        before.unlink(missing_ok=True)
        if not path.exists():
            self._before[path] = None
            return
        try:
            os.link(path, before)
        except OSError:  # where a file has one name only
            shutil.copyfile(path, before)
        self._before[path] = before

    def write(self, path: Path, data: bytes | None) -> None:
        """Write a file, or remove it, as a part of this transaction."""
        self.keep(path)
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_whole(path, data)

    def save(self, table: str, number: int, path: Path) -> None:
        """Write a row to a file, as a part of this transaction."""
        if (row := self.one(f"SELECT * FROM {table} WHERE id = ?", number)) is not None:
            content = {name: json.loads(value) if name in OF_JSON else value for name, value in row.items()}
            path.parent.mkdir(parents=True, exist_ok=True)
            self.write(path, (json.dumps(content, indent=1) + "\n").encode("ascii"))

    def put(self, table: str, row: Mapping[str, Any]) -> None:
        """Insert a row, or replace the one with its id."""
        with self.change() as connection:
            names = [each["name"] for each in connection.execute(f"PRAGMA table_info({table})")]
            values = [row[name] for name in names]
            connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' for _ in names)})", values)

    def all(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Every row that the query finds; no row has a number that SQLite cannot hold."""
        with self._used() as connection, suppress(OverflowError):
            return [dict(row) for row in connection.execute(query, values)]
        return []

    def one(self, query: str, *values: Any) -> dict[str, Any] | None:
        """The first row that the query finds."""
        return next(iter(self.all(query, *values)), None)

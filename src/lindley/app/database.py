"""``bench.sqlite``: what is relational of a bench. What it holds is beside it as files too, or its loss is harmless.

One connection for the whole process, under a lock: every statement takes less than a millisecond. Write-ahead logging, so that
a power cut leaves the last whole transaction. A database that cannot be read is put aside under another name, and a new one is
filled from the files (`lindley.app.bench.Bench.rebuild`).

The connection holds the file for itself as long as it lives, which the operating system ends with the process: two servers can
not work in one folder.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError

__all__ = ["Database"]

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
FORGET_AFTER = 7 * 24 * 3600.0
"""Seconds for which a form that was sent is known."""


class Database:
    """Rows by name; ``change`` is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._open()
        except sqlite3.OperationalError as error:
            raise LindleyError(
                f"The bench in {path.parent} is open already, or cannot be written to ({error}). Close the other one first, or "
                "name another folder with --folder."
            ) from error
        except sqlite3.DatabaseError:
            self._put_aside()
            self._open()
        with self.change() as database:
            database.execute("DELETE FROM once WHERE sent < ?", (time.time() - FORGET_AFTER,))

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
        except sqlite3.DatabaseError:
            self._connection.close()
            raise

    def _put_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{int(time.time())}")
        self.path.replace(aside)
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing can be read or written any more."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing if the body fails."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def all(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Every row that the query finds; no row has a number that SQLite cannot hold."""
        with self._lock, suppress(OverflowError):
            return [dict(row) for row in self._connection.execute(query, values)]
        return []

    def one(self, query: str, *values: Any) -> dict[str, Any] | None:
        """The first row that the query finds."""
        return next(iter(self.all(query, *values)), None)

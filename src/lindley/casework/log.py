"""The log of a laboratory's cases: one line of JSON for each, in the order they were evaluated; lines are added, never changed.

Every entry holds the digest of the one before it, so that one that was edited, taken out, put in or moved is told by the next.
Digests have no key: whoever rewrites an entry and all that follow it, or cuts off the end, leaves a log that fits together. The
digest of the last entry, kept elsewhere from time to time, tells of that too.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lindley.casework.case import Batch, Case, Notes
from lindley.errors import LindleyError
from lindley.experiment.folder import json_digest, lock_file
from lindley.version import __version__

__all__ = ["Log", "add_to_log", "changed_reports", "entry_of", "read_log", "require_log"]

BEFORE_THE_FIRST = "0" * 64
PATIENCE = 30.0
"""Seconds to wait for others who add to the log."""


@dataclass(frozen=True)
class Log:
    """What a log holds, and what is wrong with it."""

    entries: tuple[Mapping[str, Any], ...]  # those that read
    problems: tuple[str, ...]

    @property
    def last(self) -> str:
        """The digest of the last entry."""
        return str(self.entries[-1]["sha256"]) if self.entries else BEFORE_THE_FIRST


def entry_of(evaluated: Case | Batch, notes: Notes, report: Path | None) -> dict[str, Any]:
    """What the log says of a case, or of a matrix of them, and of the report that was written."""
    if isinstance(evaluated, Case):
        said = evaluated.explanation
        result: dict[str, Any] = {
            "trace": evaluated.trace_label,
            "ref": evaluated.ref_label,
            "log10_lr": said.log10_lr,
            "log10_lr_bounded": said.log10_lr_bounded,
        }
    else:
        result = {
            "trace": list(evaluated.trace.labels),
            "ref": list(evaluated.ref.labels),
            "log10_lr": evaluated.log10_lr.tolist(),
            "log10_lr_bounded": evaluated.bounded.tolist(),
        }
    return {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "case": notes.case,
        "examiner": notes.examiner,
        **result,
        "system": evaluated.system.sha256,
        "report": None if report is None else report.name,
        "report_sha256": None if report is None else hashlib.sha256(report.read_bytes()).hexdigest(),
        "lindley": __version__,
    }


def require_log(path: Path) -> None:
    """Refuse a log that cannot be added to, before the work and not after it."""
    if not path.parent.is_dir():
        raise LindleyError(f"--log {path}: there is no folder {path.parent}. Make it first.")
    if path.exists():
        _refuse_damaged(path, read_log(path))


def read_log(path: Path) -> Log:
    """Read a log, and check every entry and that each follows the one before it.

    Raises:
        LindleyError: if there is no such file, or it cannot be read.
    """
    try:
        return _checked(path.read_bytes())
    except FileNotFoundError:
        raise LindleyError(f"there is no log {path}: 'lindley case … --log {path.name}' begins one") from None
    except (OSError, ValueError) as error:
        raise LindleyError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error


def add_to_log(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add entries to the end of a log, all at once; others who do so meanwhile wait.

    Raises:
        LindleyError: if the log is damaged or cannot be written to; then nothing is added.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b") as file:
            _wait_for(file.fileno(), path)
            log = _checked(file.read())
            _refuse_damaged(path, log)
            lines, previous = [], log.last
            for number, entry in enumerate(entries, start=len(log.entries) + 1):
                whole = {"number": number, **entry, "previous": previous}
                previous = json_digest(whole)
                lines.append(json.dumps({**whole, "sha256": previous}, allow_nan=False) + "\n")
            file.seek(0, os.SEEK_END)
            file.write("".join(lines).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        raise LindleyError(
            f"the log {path} cannot be written to ({getattr(error, 'strerror', None) or error}). Check that its folder is "
            "there and that you may write to it, or name another file with --log."
        ) from error


def _refuse_damaged(path: Path, log: Log) -> None:
    if log.problems:
        raise LindleyError(
            f"the log {path} is damaged, and nothing is added to it: {log.problems[0]}. Keep it as it is, find out what "
            "happened ('lindley log' tells all), and name another file with --log to go on in."
        )


def _wait_for(file: int, path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            lock_file(file)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise LindleyError(
                    f"somebody else has been writing to the log {path} for {PATIENCE:.0f} seconds"
                ) from error
            time.sleep(0.02)
        except OSError as error:  # some disks of a network have no locks
            reason = error.strerror or error
            warnings.warn(
                f"{path} is on a disk that has no locks ({reason}): take care that nobody else adds to it now",
                stacklevel=3,
            )
            return


def _checked(data: bytes) -> Log:
    entries: list[Mapping[str, Any]] = []
    problems: list[str] = []
    previous: str | None = BEFORE_THE_FIRST
    number = 0
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    if lines[-1]:
        problems.append(f"line {len(lines)}: the last line is not whole")
    for at, line in enumerate(lines[:-1], start=1):
        try:
            entry = json.loads(line)
            digest, said_previous, said_number = entry["sha256"], entry["previous"], entry["number"]
            if not (isinstance(digest, str) and isinstance(said_previous, str) and type(said_number) is int):
                raise ValueError("its number or its digests are none")
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"line {at}: it is no entry of a log")
            previous, number = None, number + 1  # taken for the entry that should stand here
            continue
        if json_digest({key: value for key, value in entry.items() if key != "sha256"}) != digest:
            problems.append(f"line {at}: entry {said_number} was edited: it has not the digest that it gives")
        if said_number == number + 1 and previous is not None and said_previous != previous:
            problems.append(
                f"line {at}: entry {said_number} does not follow the one before it, which was edited or replaced"
            )
        elif said_number > number + 1:
            gone = (
                f"entry {number + 1} is"
                if said_number == number + 2
                else f"entries {number + 1} to {said_number - 1} are"
            )
            problems.append(f"line {at}: {gone} missing before entry {said_number}")
        elif said_number <= number:
            problems.append(f"line {at}: entry {said_number} stands behind entry {number}: it was moved or copied")
        previous, number = digest, max(number, said_number)
        entries.append(entry)
    return Log(tuple(entries), tuple(problems))


def changed_reports(log: Log, folder: Path) -> list[str]:
    """Reports that lie beside the log and are not what was logged; of one name, the last entry counts."""
    told = {entry.get("report"): entry for entry in log.entries if isinstance(entry.get("report"), str)}
    problems = []
    for name, entry in told.items():
        path = folder / Path(str(name)).name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != entry.get("report_sha256"):
            problems.append(
                f"{path.name} is not the report that entry {entry['number']} is about: it was changed or replaced"
            )
    return problems

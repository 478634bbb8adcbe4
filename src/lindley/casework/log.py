"""The log of a laboratory's cases: one line of JSON for each, in the order they were evaluated; lines are added, never changed.

Every entry holds the digest of the one before it, so that one that was edited, taken out, put in or moved is told by the next.
Digests have no key: whoever rewrites an entry and all that follow it, or cuts off the end, leaves a log that fits together. The
digest of the last entry, kept elsewhere from time to time, tells of that too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lindley.errors import LindleyError
from lindley.files import json_digest, lock, require_name, sha256_of
from lindley.shown import read_json
from lindley.version import __version__

if TYPE_CHECKING:
    from lindley.casework.case import Batch, Case, Notes

__all__ = ["Log", "add_to_log", "changed_reports", "entry_of", "read_log", "require_log"]

BEFORE_THE_FIRST = "0" * 64
BLOCK = 4096
"""Bytes of the end that are looked at first for the last entry."""
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
    from lindley.casework.case import Case  # brings torch, and a log is read without it

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
        "report_sha256": None if report is None else sha256_of(report),
        "lindley": __version__,
    }


def require_log(path: Path) -> None:
    """Refuse a log that cannot be added to, before the work and not after it: every entry of it is checked, once."""
    require_name(path)
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

    Only the last entry is read, which they follow, so that it takes no longer as the log grows. `require_log` and ``lindley
    log`` check the others.

    Raises:
        LindleyError: if the last entry is damaged, or the log cannot be written to; then nothing is added.
    """
    try:
        with path.open("a+b") as file:
            if not lock(file, path, "nobody else adds to it now", PATIENCE):
                raise LindleyError(f"somebody else has been writing to the log {path} for {PATIENCE:.0f} seconds")
            log = _checked(_last_line(file), alone=True)
            _refuse_damaged(path, log)
            lines, previous = [], log.last
            for number, entry in enumerate(entries, start=log.entries[-1]["number"] + 1 if log.entries else 1):
                whole = {"number": number, **entry, "previous": previous}
                previous = json_digest(whole)
                lines.append(json.dumps({**whole, "sha256": previous}, allow_nan=False) + "\n")
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


def _last_line(file: IO[bytes]) -> bytes:
    """The last line of an open file, with its end; and what stands behind it, if it has none."""
    end = file.seek(0, os.SEEK_END)
    length = BLOCK
    while True:
        start = max(0, end - length)
        file.seek(start)
        tail = file.read(end - start)
        if start == 0 or b"\n" in tail[:-1]:
            return tail[tail.rfind(b"\n", 0, -1) + 1 :]
        length *= 2


def _checked(data: bytes, *, alone: bool = False) -> Log:
    """What lines hold: all of a log, or one ``alone``, that is not asked what it follows."""
    entries: list[Mapping[str, Any]] = []
    problems: list[str] = []
    previous: str | None = BEFORE_THE_FIRST
    number = 0
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    where = "the last line" if alone else "line {}"
    if lines[-1]:
        problems.append(f"{where.format(len(lines))}: it is not whole")
    for at, line in enumerate(lines[:-1], start=1):
        try:
            entry = read_json(line)
            digest, said_previous, said_number = entry["sha256"], entry["previous"], entry["number"]
            if not (isinstance(digest, str) and isinstance(said_previous, str) and type(said_number) is int):
                raise ValueError("its number or its digests are none")
        except (ValueError, KeyError, TypeError):
            problems.append(f"{where.format(at)}: it is no entry of a log")
            previous, number = None, number + 1  # taken for the entry that should stand here
            continue
        if json_digest({key: value for key, value in entry.items() if key != "sha256"}) != digest:
            problems.append(f"{where.format(at)}: entry {said_number} was edited: it has not the digest that it gives")
        if not alone and (parted := _parted(said_number, said_previous, number, previous)):
            problems.append(f"{where.format(at)}: {parted}")
        previous, number = digest, max(number, said_number)
        entries.append(entry)
    return Log(tuple(entries), tuple(problems))


def _parted(number: int, follows: str, before: int, previous: str | None) -> str:
    """Why an entry does not follow the one ``before`` it; empty if it does."""
    if number == before + 1:
        edited = previous is not None and follows != previous
        return f"entry {number} does not follow the one before it, which was edited or replaced" if edited else ""
    if number <= before:
        return f"entry {number} stands behind entry {before}: it was moved or copied"
    gone = f"entry {before + 1} is" if number == before + 2 else f"entries {before + 1} to {number - 1} are"
    return f"{gone} missing before entry {number}"


def changed_reports(log: Log, folder: Path) -> list[str]:
    """Reports that lie beside the log and are not what was logged; of one name, the last entry counts."""
    told = {entry.get("report"): entry for entry in log.entries if isinstance(entry.get("report"), str)}
    problems = []
    for name, entry in told.items():
        path = folder / Path(str(name)).name
        if os.path.isfile(path) and sha256_of(path) != entry.get("report_sha256"):
            problems.append(
                f"{path.name} is not the report that entry {entry['number']} is about: it was changed or replaced"
            )
    return problems

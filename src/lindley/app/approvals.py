"""Which systems may be used for cases: approved by whom, when and why, on which validation; and what was withdrawn.

A system is a file in ``systems/``, and an approval is of its bytes: a file that was changed or put in the place of another is
not approved. Nothing is ever taken out of the list of a system, which is kept twice: in the database, where triggers refuse any
change, and as ``systems/NAME.approvals.json``, for people and archives. Where the two differ somebody changed one of them: the
system is not offered until it is approved anew, and the file as it was is kept under another name.

`approved` is what may be offered for cases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lindley.app.jobs import now
from lindley.app.words import Words
from lindley.errors import LindleyError
from lindley.files import sha256_of, write_whole
from lindley.shown import read_json

if TYPE_CHECKING:
    from lindley.app.bench import Bench
    from lindley.app.cases import Chosen

__all__ = [
    "ENDING",
    "Entry",
    "System",
    "Validated",
    "approve",
    "approved",
    "read_validation",
    "rebuild",
    "system",
    "systems",
    "unread",
    "was_approved",
    "withdraw",
    "withdrawn",
]

ENDING = ".safetensors"
BESIDE = ".approvals.json"
FORMAT = "lindley-approvals/1"
LONGEST_NAME, LONGEST_REASON = 200, 2000
"""Letters of who, and of why."""
LARGEST_LIST = 10_000_000
"""Bytes of a list beside a system; no list is so long."""

What = Literal["approved", "withdrawn"]
State = Literal["approved", "none", "withdrawn", "changed", "differs"]


@dataclass(frozen=True)
class Validated:
    """A validation that an approval rests on."""

    folder: str  # in the bench's folder
    sha256: str  # of its validation.json
    verdict: str  # pass, fail, or no criteria
    of: str  # the SHA-256 of the system that was validated
    table: str
    failed: tuple[tuple[str, str], ...] = ()  # characteristic and title of each figure that did not pass

    @property
    def passed(self) -> bool:
        """Whether every criterion was met."""
        return self.verdict == "pass"


@dataclass(frozen=True)
class Entry:
    """One line of the list of a system."""

    file: str
    sha256: str
    what: What
    who: str
    at: str
    why: str
    exception: str = ""  # why it was approved although no validation passed
    validation: str | None = None  # the folder of the report, in the bench's folder
    validation_sha256: str | None = None
    verdict: str | None = None


COLUMNS = tuple(each.name for each in fields(Entry))


@dataclass(frozen=True)
class System:
    """A system file of the bench as it is now, and what was said of it."""

    id: int
    file: str
    sha256: str
    entries: tuple[Entry, ...]  # the oldest first
    differs: bool = False  # the list in the file is not that in the database

    @property
    def relative(self) -> str:
        """Its place in the bench's folder, as a command takes it."""
        return f"systems/{self.file}"

    @property
    def last(self) -> Entry | None:
        """What was said of it last."""
        return self.entries[-1] if self.entries else None

    @property
    def state(self) -> State:
        """Approved only if the last word is an approval of exactly these bytes, and both lists have it."""
        if self.differs:
            return "differs"
        if self.last is None:
            return "none"
        if self.last.what == "withdrawn":
            return "withdrawn"
        return "approved" if self.last.sha256 == self.sha256 else "changed"


def systems(bench: Bench) -> list[System]:
    """All system files of the bench, the latest first: those that jobs trained, and those that somebody put there."""
    names = (path.name for path in (bench.folder / "systems").glob(f"*{ENDING}"))
    found = {name for name in names if not name.startswith(".") and _can_be_written(name)}
    known = {row["file"] for row in bench.database.all("SELECT file FROM systems")}
    for name in sorted(found - known):
        with bench.database.change() as database:
            database.execute("INSERT OR IGNORE INTO systems (file, added) VALUES (?, ?)", (name, now()))
    rows = bench.database.all("SELECT id, file FROM systems ORDER BY id DESC")
    seen = [_system(bench, row) for row in rows if row["file"] in found]
    return [each for each in seen if each is not None]


def system(bench: Bench, number: int) -> System | None:
    """One of them; nothing if its file is gone."""
    row = bench.database.one("SELECT id, file FROM systems WHERE id = ?", number)
    return None if row is None else _system(bench, row)


def approved(bench: Bench) -> list[System]:
    """The systems that may be offered for cases, the latest first, with their digests at this moment.

    A case waits in the queue while files can change: whoever shows its report compares the SHA-256 of the system in it with
    that of the approval.
    """
    return [each for each in systems(bench) if each.state == "approved"]


def withdrawn(bench: Bench, chosen: Chosen) -> Entry | None:
    """The withdrawal of the bytes that were chosen, or of the last that were approved under their name.

    It stays one where the file is gone, or has another name.
    """
    lists = _entries(bench, "sha256", chosen.sha256), _entries(bench, "file", chosen.name)
    return next((entries[-1] for entries in lists if entries and entries[-1].what == "withdrawn"), None)


def was_approved(bench: Bench, chosen: Chosen) -> bool:
    """Whether an approval of these bytes is known."""
    return any(entry.what == "approved" for entry in _entries(bench, "sha256", chosen.sha256))


def _entries(bench: Bench, column: Literal["file", "sha256"], value: str) -> list[Entry]:
    """What the database has of a system, by its file name or its digest; the oldest first."""
    query = f"SELECT {', '.join(COLUMNS)} FROM approvals WHERE {column} = ? ORDER BY id"
    return [Entry(**row) for row in bench.database.all(query, value)]


def read_validation(bench: Bench, folder: str) -> Validated | None:
    """What the validation in a folder says; nothing if there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = (bench.path(folder) / "validation.json").read_bytes()
        said = read_json(data)
        failed = tuple(
            (str(line["characteristic"]), str(line["title"]))
            for line in said["lines"]
            if line["outcome"] in ("fail", "not judged")
        )
        return Validated(
            folder, hashlib.sha256(data).hexdigest(), str(said["verdict"]), str(said["system"]["sha256"]),
            str(said["data"]["name"]), failed,
        )  # fmt: skip
    return None


def approve(
    bench: Bench, t: Words, number: int, seen: str, who: str, why: str, validation: Validated | None, exception: str
) -> None:
    """Approve the bytes that were seen; refusals are said in the words of ``t``."""
    who, why, exception = _said(t, who, why, exception)
    if validation is not None and validation.of != seen:
        raise LindleyError(t("This validation is of another file than the system as it is now. Validate it again."))
    if (validation is None or not validation.passed) and not exception:
        raise LindleyError(
            t(
                "No validation that passes was chosen. Choose one, or write why the system is approved all the same: it "
                "stands in the list for ever."
            )
        )
    entry = Entry("", seen, "approved", who, now(), why)
    if validation is not None:
        entry = replace(
            entry, validation=validation.folder, validation_sha256=validation.sha256, verdict=validation.verdict
        )
    if validation is None or not validation.passed:
        entry = replace(entry, exception=exception)
    _add(bench, t, number, entry)


def withdraw(bench: Bench, t: Words, number: int, who: str, why: str) -> None:
    """Take an approval back; it stays in the list, with this behind it."""
    who, why, _ = _said(t, who, why)
    _add(bench, t, number, Entry("", "", "withdrawn", who, now(), why))


def rebuild(bench: Bench) -> None:
    """Fill a database that knows no approval at all from the files beside the systems."""
    if bench.database.one("SELECT id FROM approvals") is not None:
        return
    for entries in _lists(bench).values():
        with bench.database.change() as database:
            for entry in entries or ():
                _insert(database, entry)


def unread(bench: Bench) -> list[str]:
    """Lists beside systems that cannot be read."""
    return [name for name, entries in _lists(bench).items() if entries is None]


def _lists(bench: Bench) -> dict[str, Sequence[Entry] | None]:
    """The lists beside systems, by file name."""
    places = sorted((bench.folder / "systems").glob(f"*{BESIDE}"))
    return {each.name: _beside(each.with_name(each.name.removesuffix(BESIDE) + ENDING)) for each in places}


def _said(t: Words, who: str, why: str, exception: str = "") -> tuple[str, str, str]:
    who = " ".join(who.split())
    if not who or not why.strip():
        raise LindleyError(t("Write who decides this, and why."))
    if len(who) > LONGEST_NAME or max(len(why), len(exception)) > LONGEST_REASON:
        raise LindleyError(
            t("A name has {n} letters at most, a reason {m}: write less.", n=LONGEST_NAME, m=LONGEST_REASON)
        )
    return who, why.strip(), exception.strip()


def _add(bench: Bench, t: Words, number: int, entry: Entry) -> None:
    """Into the database and the file, or into neither."""
    with bench.database.change() as database:  # nobody else adds anything meanwhile
        now_there = system(bench, number)
        if now_there is None:
            raise LindleyError(t("The file of this system is not there any more."))
        last = now_there.last
        if entry.what == "withdrawn":
            if last is None or last.what == "withdrawn":
                raise LindleyError(t("This system is not approved, so that there is nothing to withdraw."))
            entry = replace(entry, sha256=last.sha256)
        else:
            if now_there.sha256 != entry.sha256:
                raise LindleyError(
                    t(
                        "The file of the system was changed since its page was shown. Look at it again before you decide."
                    )
                )
            if now_there.state == "approved" and last is not None:
                raise LindleyError(t("This system was approved already, by {who}.", who=last.who))
        entry = replace(entry, file=now_there.file)
        _insert(database, entry)
        place = _place(bench, now_there.file)
        bench.database.keep(place)
        if now_there.differs and place.exists():
            _keep_as_it_was(place)
        entries = [asdict(each) for each in (*now_there.entries, entry)]
        text = json.dumps(
            {"format": FORMAT, "system": now_there.file, "entries": entries}, indent=1, ensure_ascii=False
        )
        try:
            write_whole(place, (text + "\n").encode("utf-8", "replace"))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise LindleyError(
                t("The list beside the system cannot be written ({reason}): nothing was done.", reason=reason)
            ) from error


def _insert(database: Any, entry: Entry) -> None:
    marks = ", ".join("?" for _ in COLUMNS)
    values = [getattr(entry, name) for name in COLUMNS]
    database.execute(f"INSERT INTO approvals ({', '.join(COLUMNS)}) VALUES ({marks})", values)


def _keep_as_it_was(place: Path) -> None:
    number = 1
    while (aside := place.with_name(f"{place.stem}-{number}-as-found{place.suffix}")).exists():
        number += 1
    place.replace(aside)


def _system(bench: Bench, row: dict[str, Any]) -> System | None:
    name = row["file"]
    try:
        digest = sha256_of(bench.folder / "systems" / name)
    except OSError:
        return None
    entries = _entries(bench, "file", name)
    beside = _beside(bench.folder / "systems" / name)
    return System(row["id"], name, digest, tuple(entries), beside != entries)


def _can_be_written(name: str) -> bool:
    """Whether a name is text at all: on some systems a file can be called by bytes that are none."""
    with suppress(UnicodeEncodeError):
        name.encode("utf-8")
        return True
    return False


def _place(bench: Bench, file: str) -> Path:
    return (bench.folder / "systems" / file).with_suffix(BESIDE)


def _beside(path: Path) -> Sequence[Entry] | None:
    """The list in the file beside a system: empty where there is no file, nothing where it cannot be read."""
    place = path.with_suffix(BESIDE)
    try:
        if place.stat().st_size > LARGEST_LIST:
            return None
        said = read_json(place.read_bytes())
        if said["format"] != FORMAT or said["system"] != path.name:
            return None
        entries = [Entry(**each) for each in said["entries"]]
        return entries if all(map(_plain, entries)) else None
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _plain(entry: Entry) -> bool:
    """Whether it holds what the database can: texts, and nothing in a few places."""
    maybe = ("validation", "validation_sha256", "verdict")
    texts = all(
        isinstance(getattr(entry, name), str) or (name in maybe and getattr(entry, name) is None) for name in COLUMNS
    )
    return texts and entry.what in ("approved", "withdrawn")

"""The cases of a bench: what was said of each, its files, the system that was chosen, and what came out.

A case is a folder, ``cases/NUMBER-ID``, that a command could have worked in:

    case.yaml          what the report says: number, examiner, propositions, items (``--case-file``)
    trace/, ref/       the files that were sent, and lindley.yaml where somebody said how they are read
    report.html        of one pair; of several, reports/ with one of every pair, and their matrix
    bench.json         what the bench wants to remember: the row of the database, which can be made from these

and ``cases/lindley-log.jsonl`` is the log of them all. Try-outs are cases in ``tryout/``, with a log and a system of their own,
so that nothing of theirs gets among the others.

Until it is computed a case is a draft, and everything of it can be changed. What was *seen* before it is computed is told by a
digest: of the files, how they are read, the system, and what is said. It is computed only if that digest is still the same, and
its reports are shown as sound only if they hold the digests of the same files and the same system.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

import yaml

from lindley.app.database import UNREADABLE, read_row
from lindley.app.files import ENDINGS, plain_file_name, sent_table
from lindley.app.jobs import Job, now
from lindley.errors import LindleyError
from lindley.files import sha256_of, write_whole

if TYPE_CHECKING:
    from lindley.app.bench import Bench

__all__ = ["NOTES", "SIDES", "TRYOUT", "Case", "Cases", "Chosen", "Side"]

Side = Literal["trace", "ref"]
SIDES: tuple[Side, Side] = ("trace", "ref")
TRYOUT = "tryout"
"""The folder of try-outs, and what they are called."""
LOG = "lindley-log.jsonl"
ROW = "bench.json"
READING = "lindley.yaml"
NOTES = (
    "case",
    "examiner",
    "laboratory",
    "method",
    "h1",
    "h2",
    "trace_label",
    "trace_number",
    "ref_label",
    "ref_number",
)
"""What can be said of a case, by the names of a case file."""
MOST_FILES = 200
"""Of one side."""


@dataclass(frozen=True)
class Chosen:
    """A system that may be used for a case, with its digest when it was chosen."""

    relative: str
    sha256: str

    @property
    def name(self) -> str:
        """Of the file."""
        return self.relative.rpartition("/")[2]


@dataclass(frozen=True)
class Case:
    """A case as it is now."""

    id: int
    number: str
    examiner: str
    folder: str  # in the bench's folder
    added: str
    tryout: bool
    notes: Mapping[str, str]
    words: Mapping[str, str]  # language and scale of its reports
    reading: Mapping[str, Mapping[str, Any]]  # of each side
    files: Mapping[str, Mapping[str, str]]  # of each side: names and digests, when it was computed
    system: Chosen | None
    items: tuple[str, ...]  # labels, when it was computed
    job: int | None

    @property
    def draft(self) -> bool:
        """Whether it can be changed."""
        return self.job is None

    def side(self, which: Side) -> str:
        """The folder of a side."""
        return f"{self.folder}/{which}"

    @property
    def log(self) -> str:
        """The log that it goes into."""
        return f"{self.folder.partition('/')[0]}/{LOG}"


class Cases:
    """All cases of a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._lock = threading.RLock()  # a case is changed by one at a time

    # what pages ask

    def case(self, number: int) -> Case | None:
        """One case, by its number in the bench."""
        row = self.bench.database.one("SELECT * FROM cases WHERE id = ?", number)
        return None if row is None else _case(row)

    def all(self) -> list[Case]:
        """The latest first."""
        return [_case(row) for row in self.bench.database.all("SELECT * FROM cases ORDER BY id DESC")]

    def search(self, words: str) -> list[Case]:
        """Cases that hold every word: in their number, an item, the examiner, the date, or the system (its name or digest)."""
        found = self.all()
        for word in words.casefold().split()[:20]:
            found = [case for case in found if word in _told(case)]
        return found

    def job(self, case: Case) -> Job | None:
        """The job that computes it."""
        return None if case.job is None else self.bench.queue.job(case.job)

    def files(self, case: Case, which: Side) -> list[tuple[str, str]]:
        """Names and digests of the files of a side, as they are on the disk now."""
        folder = self.bench.path(case.side(which))
        found = []
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.suffix.lower() in ENDINGS and path.name[0] not in ".~" and path.is_file():
                    found.append((path.name, sha256_of(path)))
        return found

    def seen(self, case: Case) -> str:
        """The digest of everything that a result follows from, as it is now."""
        told = {
            "notes": dict(case.notes),
            "words": dict(case.words),
            "reading": {side: dict(case.reading.get(side, {})) for side in SIDES},
            "files": {side: self.files(case, side) for side in SIDES},
            "system": None if case.system is None else [case.system.relative, case.system.sha256],
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    # what pages do

    def create(self, notes: Mapping[str, str], words: Mapping[str, str], *, tryout: bool = False) -> Case:
        """A new draft."""
        number = notes["case"]
        with self.bench.database.change() as database:
            added = database.execute(
                "INSERT INTO cases (number, examiner, folder, added, tryout, about) VALUES (?, ?, '', ?, ?, '{}')",
                (number, notes["examiner"], now(), int(tryout)),
            )
            number_of_row = int(added.lastrowid or 0)
            parent = TRYOUT if tryout else "cases"
            folder = f"{parent}/{_folder_name(number)}-{number_of_row}"
            database.execute("UPDATE cases SET folder = ? WHERE id = ?", (folder, number_of_row))
            try:
                for side in SIDES:
                    (self.bench.folder / folder / side).mkdir(parents=True, exist_ok=True)
                return self._change(number_of_row, notes=dict(notes), words=dict(words))
            except OSError:
                shutil.rmtree(self.bench.folder / folder, ignore_errors=True)
                raise

    def say(self, case: Case, notes: Mapping[str, str], words: Mapping[str, str]) -> Case:
        """Say other things of a draft."""
        with self._lock:
            self._require_draft(case)
            with self.bench.database.change() as database:
                database.execute(
                    "UPDATE cases SET number = ?, examiner = ? WHERE id = ?",
                    (notes["case"], notes["examiner"], case.id),
                )
                return self._change(case.id, notes=dict(notes), words=dict(words))

    def add_file(self, case: Case, which: Side, name: str, file: IO[bytes]) -> None:
        """Keep a file that was sent; the same once more changes nothing, another of the same name is refused."""
        with self._lock:
            self._require_draft(case)
            plain, digest = sent_table(name, file)
            here = dict(self.files(case, which))
            if len(here) >= MOST_FILES:
                raise LindleyError(f"There are {MOST_FILES} files already, which is the most.")
            same = next((known for known in here if known.casefold() == plain.casefold()), None)
            if same is not None:
                if here[same] == digest:
                    return
                raise LindleyError(
                    f"{plain} is here already, and holds something else. Take it out first, or give this one another name."
                )
            write_whole(self.bench.path(case.side(which)) / plain, file)

    def remove_file(self, case: Case, which: Side, sha256: str) -> None:
        """Take a file out, by its digest."""
        with self._lock:
            self._require_draft(case)
            for name, digest in self.files(case, which):
                if digest == sha256:
                    (self.bench.path(case.side(which)) / name).unlink(missing_ok=True)

    def read(self, case: Case, which: Side, reading: Mapping[str, Any]) -> None:
        """Say how the files of a side are read: lindley.yaml among them, where the command finds it."""
        with self._lock, self.bench.database.change():
            self._require_draft(case)
            self._change(case.id, reading={**case.reading, which: dict(reading)})
            place = self.bench.path(case.side(which)) / READING
            text = yaml.safe_dump(dict(reading), allow_unicode=True, sort_keys=False)
            self.bench.database.write(place, text.encode("utf-8") if reading else None)

    def choose(self, case: Case, system: Chosen | None) -> None:
        """Take another system."""
        with self._lock:
            self._require_draft(case)
            self._change(case.id, system=None if system is None else [system.relative, system.sha256])

    def discard(self, case: Case) -> None:
        """Remove a draft, and the files that were sent for it."""
        with self._lock:
            self._require_draft(case)
            with self.bench.database.change() as database:
                database.execute("DELETE FROM cases WHERE id = ? AND job IS NULL", (case.id,))
                self.bench.database.write(self.bench.path(case.folder) / ROW, None)
            shutil.rmtree(self.bench.path(case.folder), ignore_errors=True)

    def begin(self, case: Case, seen: str, items: Mapping[Side, Sequence[str]], title: str) -> Job:
        """Put the command into the queue, if the case still is what was ``seen``; one that was begun is not begun again."""
        system = case.system
        if system is None:
            raise LindleyError("Choose a system first.")
        with self._lock, self.bench.database.change():  # of two who begin, one comes first
            self._require_draft(case)
            if self.seen(case) != seen:
                raise LindleyError("The case was changed meanwhile. Look at it again.")
            notes = {name: text for name, text in case.notes.items() if text}
            text = yaml.safe_dump(notes, allow_unicode=True, sort_keys=False)
            write_whole(self.bench.path(case.folder) / "case.yaml", text.encode("utf-8"))
            command, output = self._command(case, system, items)
            labels = [label for side in SIDES for label in items[side]]
            files = {side: dict(self.files(case, side)) for side in SIDES}
            read = {f"{case.side(side)}/{name}": digest for side in SIDES for name, digest in files[side].items()}
            read |= self.bench.digests(f"{case.folder}/case.yaml", *(f"{case.side(side)}/{READING}" for side in SIDES))
            read[system.relative] = system.sha256
            about = {"case": case.id}
            job = self.bench.queue.add("case", title, command, output=output, about=about, files=read)
            self._change(case.id, job=job.id, items=labels, files=files)
        return job

    def reopen(self, case: Case) -> None:
        """Make a draft again of a case whose command gave no result."""
        with self._lock:
            job = self.job(case)
            if job is not None and (job.active or job.state == "done"):
                raise LindleyError("This case is computed, or is being computed: begin another one.")
            if job is not None and job.output is not None:
                left = self.bench.path(job.output)  # by a command that was broken off: no result of what comes next
                with suppress(FileNotFoundError):
                    left.replace(left.with_name(f"{left.stem}-broken-off-{job.id}{left.suffix}"))
            self._change(case.id, job=None)

    def _command(self, case: Case, system: Chosen, items: Mapping[Side, Sequence[str]]) -> tuple[list[str], str]:
        paths = []
        for side in SIDES:
            names = [name for name, _ in self.files(case, side)]
            paths.append(f"{case.side(side)}/{names[0]}" if len(names) == 1 else case.side(side))
        one = all(len(items[side]) == 1 for side in SIDES)
        output = f"{case.folder}/report.html" if one else f"{case.folder}/reports"
        words = [word for name, value in case.words.items() if value for word in (f"--{name}", value)]
        command = ["case", system.relative, "--trace", paths[0], "--ref", paths[1]]
        command += ["--case-file", f"{case.folder}/case.yaml", *words, "--log", case.log, "--force", "--out", output]
        return command, output

    def _require_draft(self, case: Case) -> None:
        now_there = self.case(case.id)
        if now_there is None or not now_there.draft:
            raise LindleyError("This case was computed, or is being computed, and is not changed any more.")

    def _change(self, number: int, job: int | Literal[False] | None = False, **about: Any) -> Case:
        with self.bench.database.change() as database:
            row = database.execute("SELECT * FROM cases WHERE id = ?", (number,)).fetchone()
            if row is None:
                raise LindleyError("This case is not there any more.")
            whole = {**json.loads(row["about"]), **about}
            database.execute("UPDATE cases SET about = ? WHERE id = ?", (json.dumps(whole), number))
            if job is not False:
                database.execute("UPDATE cases SET job = ? WHERE id = ?", (job, number))
            row = dict(database.execute("SELECT * FROM cases WHERE id = ?", (number,)).fetchone())
            self.bench.database.save("cases", number, self.bench.path(row["folder"]) / ROW)
        return _case(row)

    def rebuild(self) -> None:
        """Make the list of cases say what their folders say."""
        known = {row["folder"]: row for row in self.bench.database.all("SELECT * FROM cases")}
        for parent in ("cases", TRYOUT):
            for path in sorted((self.bench.folder / parent).glob(f"*/{ROW}")):
                with suppress(*UNREADABLE):
                    row = read_row(path)
                    row["folder"], row["tryout"] = f"{parent}/{path.parent.name}", int(parent == TRYOUT)
                    _case(row)
                    if row != known.get(row["folder"]):
                        self.bench.database.put("cases", row)


def _case(row: Mapping[str, Any]) -> Case:
    about = json.loads(row["about"])
    system = about.get("system")
    return Case(
        int(row["id"]), str(row["number"]), str(row["examiner"]), str(row["folder"]), str(row["added"]), bool(row["tryout"]),
        about.get("notes", {}), about.get("words", {}), about.get("reading", {}), about.get("files", {}),
        None if system is None else Chosen(*system), tuple(about.get("items", ())), row["job"],
    )  # fmt: skip


def _told(case: Case) -> str:
    system = () if case.system is None else (case.system.name, case.system.sha256)
    labels = (case.notes.get("trace_label", ""), case.notes.get("ref_label", ""))
    return " ".join((case.number, case.examiner, case.added[:10], *system, *case.items, *labels)).casefold()


def _folder_name(number: str) -> str:
    """What is left of a case number on every disk; the number of the row behind it makes it one of its kind."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", number)[:40].strip("-") or "case"
    return plain_file_name(plain)

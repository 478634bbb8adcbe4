"""A system with more background: trained afresh, with the settings of the old one, on its measurements and new ones.

A system file holds no measurements. Those of the old background are read again from its files, which the system knows by their
SHA-256, wherever they are now; and the table that they make must be the one that it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from lindley.errors import LindleyError
from lindley.files import sha256_of
from lindley.settings import setting
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.columns import Reading
from lindley.table.datasets import dataset_names
from lindley.table.findings import Finding, TableError, listing
from lindley.table.join import SameLabels, join_tables
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["Background", "grown_background", "read_background", "retrained", "update"]

FIXED = ("include", "ignore", "features", "units", "transform", "reference", "purpose", "name")
"""What of the reading of a table a system knows by itself."""
Progress = Callable[[str, str, float], None]


@dataclass(frozen=True, eq=False)
class Background:
    """The tables that a system was trained on, read again, and what it took to make one of them."""

    tables: tuple[Table, ...]
    same_labels: SameLabels | None


def update(
    system: System, more: Sequence[Any], progress: Progress = lambda doing, detail, done: None, **settings: Any
) -> System:
    """Train a system afresh with more background: the old and the new measurements, the same model, settings and seed.

    ``more`` and ``settings`` are those of `grown_background`: ``background``, ``same_labels``, and how tables are read.

    >>> new = update(lindley.load("glass.safetensors"), ["2026.xlsx"], background=["archive"])  # doctest: +SKIP
    """
    return retrained(system, grown_background(system, more, **settings), progress)


def grown_background(
    system: System,
    more: Sequence[Any],
    *,
    background: Iterable[str | Path] = (),
    same_labels: SameLabels | None = None,
    allow_duplicates: bool = False,
    **reading: Any,
) -> Table:
    """The measurements that a system was trained on, and more.

    Args:
        system: that was trained for casework.
        more: files, data frames or tables with further sources, or further measurements of known ones.
        background: files that it was trained on, and folders that hold them; the working folder is looked into as well.
        same_labels: what a label stands for that is in the old and in the new tables, as in `lindley.join_tables`.
        allow_duplicates: accept measurements that are in two of the tables, with a warning.
        reading: how the new tables are read, by the names of `lindley.read_table`, where it differs from how those of the
            background were read at training. These are read likewise where the system does not remember how.

    Raises:
        LindleyError: if the old measurements are not found, or the tables do not go together.
    """
    if not more:
        raise LindleyError("there are no further measurements: name a table of them")
    as_trained = _as_trained(system) or {}
    allow_duplicates = allow_duplicates or bool(as_trained.get("allow_duplicates"))
    old = read_background(system, background, **reading)
    if None not in (same_labels, old.same_labels) and same_labels != old.same_labels:
        raise LindleyError(
            f"the tables of the old background were joined with {setting('same_labels', str(old.same_labels))}: labels of the "
            "new ones are taken likewise, or renamed"
        )
    new: list[Table] = []
    problems: list[Finding] = []
    for each in more:
        try:
            new.append(_read(system, each, {**as_trained, **reading, "allow_duplicates": allow_duplicates}))
        except TableError as error:
            problems += error.findings
    if problems:
        raise TableError(problems)
    choice = same_labels or old.same_labels
    return join_tables([*old.tables, *new], same_labels=choice, allow_duplicates=allow_duplicates)


def retrained(system: System, table: Table, progress: Progress = lambda doing, detail, done: None) -> System:
    """A system like another, trained on another table: the same model, settings and seed; its record names the other."""
    about = system.about
    made = train(
        table,
        system.name,
        replicates=about["bootstrap"],
        seed=about["seed"],
        mates=about.get("mates", {}).get("setting", "as-in-table"),
        private=bool(about.get("private")),
        progress=progress,
    )
    known = about.get("configuration")
    files = [each.get("file", each.get("table")) for each in made.background]
    kept = {"configuration": {**known, "data": files}} if isinstance(known, Mapping) else {}
    return replace(made, about={**made.about, **kept, "updates": {"file": system.file, "sha256": system.sha256}})


def read_background(system: System, places: Iterable[str | Path] = (), **reading: Any) -> Background:
    """The measurements that a system was trained on, from the files that it names, found by their SHA-256.

    Raises:
        LindleyError: if one is not among the ``places`` and not in the working folder, or if they make another table.
    """
    _ = system.population  # tells of a system that was not trained for casework
    given = [Path(place) for place in places]
    for place in given:
        if not place.exists():
            raise LindleyError(f"{setting('background', str(place))}: there is no such file or folder")
    how = _as_trained(system)
    how = dict(reading) if how is None else how
    records = system.background
    if records and all("file" in each or each.get("table") in dataset_names() for each in records):
        found = _found(records, given)
    else:  # trained in Python on what was in memory, or by an older version, which named the table alone
        found = [(place.stem, place) for place in given if place.is_file()]
        if not found:
            _ask_for(records or [system.about["data"]])
    tables = tuple(_read(system, data, how | {"allow_duplicates": True}, name) for name, data in found)
    wanted = system.about["data"]["sha256"]
    choices: tuple[SameLabels | None, ...] = (None, "same", "different")
    for choice in choices:
        try:
            if join_tables(tables, same_labels=choice, allow_duplicates=True).sha256() == wanted:
                return Background(tables, choice)
        except TableError:  # labels that are in two tables, which another choice allows
            continue
    raise LindleyError(
        f"{listing([name for name, _ in found])}: read as it is now, this is another table than the one that the system was "
        "trained on. Give the files of its background and no others, with the options that they were read with at training "
        f"({setting('source')}, {setting('group')} …)."
    )


def _as_trained(system: System) -> dict[str, Any] | None:
    """How the tables of a system were read, by the names of `read_table`; None if it does not remember."""
    known = system.about.get("configuration")
    if not isinstance(known, Mapping):
        return None
    names = {each.name for each in fields(Reading)} - set(FIXED)
    told = {name.removesuffix("_columns").removesuffix("_column"): value for name, value in known.items()}
    return {name: value for name, value in told.items() if name in names}


def _read(system: System, data: Any, reading: Mapping[str, Any], name: str | None = None) -> Table:
    """A table in the columns of a system."""
    of_system: dict[str, Any] = {each: getattr(system, each) for each in ("features", "transform", "reference")}
    known = isinstance(data, Table) or (isinstance(data, str) and data in dataset_names())
    settings = {} if known else dict(reading)
    return read_table(data, **{**settings, **of_system, "units": system.column_units, "purpose": "part", "name": name})


def _found(records: Sequence[Mapping[str, Any]], given: Sequence[Path]) -> list[tuple[str, Any]]:
    """Every file that a system names, with the name that it had; or a data set that is known by its name."""
    digests: dict[Path, str] = {}
    found: list[tuple[str, Any]] = []
    missing = []
    for record in records:
        if "file" not in record:
            found.append((str(record["table"]), record["table"]))
        elif (path := _file(record, [*given, Path()], digests)) is not None:
            found.append((Path(str(record["file"])).stem, path))
        else:
            missing.append(record)
    if missing:
        _ask_for(missing)
    known = {record.get("sha256") for record in records}
    if strange := [path for path in given if path.is_file() and _digest(path, digests) not in known]:
        raise LindleyError(
            f"{setting('background', str(strange[0]))}: the system was not trained on this file, as it is now. Name it as a "
            "table of further measurements if it holds such."
        )
    return found


def _file(record: Mapping[str, Any], places: Sequence[Path], digests: dict[Path, str]) -> Path | None:
    """The file with the digest of a record: by the name that it had, or by any other of the same kind."""
    ending = Path(str(record["file"])).suffix.lower()
    inside = [path for place in places if place.is_dir() for path in sorted(place.iterdir())]
    paths = [place for place in places if place.is_file()]
    paths += [path for path in inside if path.is_file() and path.suffix.lower() == ending]
    paths.sort(key=lambda path: path.name != record["file"])
    return next((path for path in paths if _digest(path, digests) == record.get("sha256")), None)


def _digest(path: Path, known: dict[Path, str]) -> str:
    if path not in known:
        try:
            known[path] = sha256_of(path)
        except OSError:
            known[path] = ""  # nobody can say that it is the one
    return known[path]


def _ask_for(records: Sequence[Mapping[str, Any]]) -> NoReturn:
    def told(record: Mapping[str, Any]) -> str:
        name = record.get("file") or record.get("table") or record.get("name", "?")
        kind = "SHA-256" if "file" in record else "SHA-256 of its table"
        counts = f"{record.get('rows', '?')} measurements of {record.get('sources', '?')} sources"
        return f"{name} ({counts}, {kind} {record.get('sha256', '?')})"

    raise LindleyError(
        "a system holds no measurements, and those that it was trained on are needed again. Not found: "
        f"{listing([told(record) for record in records], 20)}. Name the files, or the folder that holds them, with "
        f"{setting('background')}."
    )

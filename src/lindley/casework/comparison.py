"""Two or more systems on the same new data, pair by pair.

Every system scores the same pairs of the same measurements: it takes its own columns of the table, with its own transform,
calibration and bounds. Sources are drawn once for all systems, so that a difference is that of the same sources drawn, and its
interval is narrower than those of the two figures suggest: what makes the data hard is hard for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lindley.casework.performance import DEFAULTS, KINDS, Kind, Pair, Scores, Settings, Sources
from lindley.casework.validation import Overlap, find_overlap, require_new, require_unit
from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import Estimate
from lindley.llrs import Floats
from lindley.settings import setting
from lindley.system.system import System
from lindley.table.findings import Finding, TableError, listing
from lindley.table.join import told_apart
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["COMPARED", "Compared", "Comparison", "compare_systems"]

Figure = tuple[str, str]
COMPARED: tuple[Figure, ...] = (
    ("accuracy", "cllr"),
    ("discriminating_power", "cllr_min"),
    ("misleading_evidence", "same"),
    ("misleading_evidence", "different"),
)
"""Characteristic and figure, as in a validation."""
Progress = Callable[[str, str, float], None]


@dataclass(frozen=True, eq=False)
class Compared:
    """One of the systems: its figures, and how they differ from those of the first."""

    name: str  # of its file; numbered where two have the same
    system: System
    table: Table  # the data in its own features
    overlap: Overlap
    figures: Mapping[Figure, Pair]  # of the raw and of the bounded LRs
    differences: Mapping[Figure, Mapping[Kind, Estimate | None]]  # less those of the first; none of the first itself

    @property
    def better(self) -> bool | None:
        """Whether its reported LRs cost less than those of the first, or more; None where the interval holds 0."""
        found = self.differences[COMPARED[0]]["bounded"]
        if found is None or found.lower <= 0 <= found.upper:
            return None
        return found.upper < 0


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several systems on the same pairs."""

    systems: tuple[Compared, ...]
    sources: Sources
    remarks: tuple[str, ...]
    settings: Settings

    @property
    def table(self) -> Table:
        """The data, in the features of the first system."""
        return self.systems[0].table

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.systems)
        return f"<Comparison of {names} on {self.table.name}: {len(self.sources)} sources>"


def compare_systems(
    systems: Sequence[System],
    data: Any,
    *,
    settings: Settings = DEFAULTS,
    progress: Progress = lambda doing, detail, done: None,
    **reading: Any,
) -> Comparison:
    """Evaluate several systems on the same data, which none of them has seen; differences are from the first.

    Args:
        systems: two at least, that were trained for casework; they may differ in features, transform and all else.
        data: a file, a data frame or a `Table`, with the columns of all of them.
        settings: numbers of measurements and replicates, and the seed.
        progress: told of what is being done.
        reading: how the data are read, by the names of `lindley.read_table`.

    Raises:
        LindleyError: if a system was trained on some of the data, unless ``settings`` allow it; if a system's columns are not
            among the data; or if the data are too few, or of another unit.

    >>> compare_systems([lindley.load("old.safetensors"), lindley.load("new.safetensors")], "new.xlsx")  # doctest: +SKIP
    <Comparison of old.safetensors, new.safetensors on new: 120 sources>
    """
    if len(systems) < 2:
        raise LindleyError("a comparison needs two systems at least")
    names = told_apart([each.file for each in systems])
    _refuse_twice(systems, names)
    tables = _read(systems, names, data, reading)
    remarks = [str(each) for table in tables for each in table.findings if each.level == "warning"]
    remarks += _require_new_to_all(systems, names, tables, settings)
    if len({frozenset(each.columns) for each in systems}) > 1:
        takes = (f"{name} takes {listing(each.columns, 8)}" for name, each in zip(names, systems, strict=True))
        remarks.append(f"the systems are of different features, and each has its own columns: {'; '.join(takes)}")
    scores = []
    for number, (system, table) in enumerate(zip(systems, tables, strict=True)):
        progress("evaluating", names[number], number / len(systems))
        scores.append(Scores.of(system, table, settings))
    remarks += scores[0].remarks
    grid = scores[0].grid
    if any(not _weigh_alike(each, scores[0]) for each in scores):
        remarks.append(f"pairs of one group weigh what {names[0]} was made for, in the figures of all systems")
    scores = [replace(each, grid=grid) for each in scores]
    first = {kind: scores[0].drawn(kind) for kind in KINDS}
    compared = []
    for number, each in enumerate(scores):
        progress("comparing", names[number], number / len(scores))
        drawn = {kind: each.drawn(kind) for kind in KINDS} if number else first
        kept: dict[Figure, Pair] = {
            key: {kind: each.estimate(key, drawn[kind][key]) for kind in KINDS} for key in COMPARED
        }
        differences = {
            key: {kind: _difference(key, drawn[kind][key], first[kind][key]) for kind in KINDS} for key in COMPARED
        }
        system, table = systems[number], tables[number]
        overlap = find_overlap(system, table)
        compared.append(Compared(names[number], system, table, overlap, kept, differences if number else {}))
    progress("done", "", 1.0)
    return Comparison(tuple(compared), scores[0].sources, tuple(dict.fromkeys(remarks)), settings)


def _refuse_twice(systems: Sequence[System], names: Sequence[str]) -> None:
    known: dict[str, str] = {}
    for name, system in zip(names, systems, strict=True):
        if system.sha256 in known:
            raise LindleyError(f"{known[system.sha256]} and {name} are the same system: there is nothing to compare")
        known[system.sha256] = name


def _read(systems: Sequence[System], names: Sequence[str], data: Any, reading: Mapping[str, Any]) -> list[Table]:
    """The data in the columns of every system; what is wrong for some of them only is told with their names."""
    tables: list[Table] = []
    problems: dict[Finding, list[str]] = {}
    for system, name in zip(systems, names, strict=True):
        of_system: dict[str, Any] = {each: getattr(system, each) for each in ("features", "transform", "reference")}
        try:
            tables.append(read_table(data, **{**reading, **of_system, "units": system.column_units}))
        except TableError as error:
            for finding in error.findings:
                problems.setdefault(finding, []).append(name)
    if problems:
        raise TableError(
            finding if len(of) == len(systems) else replace(finding, message=f"for {listing(of)}: {finding.message}")
            for finding, of in problems.items()
        )
    return tables


def _require_new_to_all(
    systems: Sequence[System], names: Sequence[str], tables: Sequence[Table], settings: Settings
) -> list[str]:
    seen = [
        f"{name}: {overlap}"
        for name, system, table in zip(names, systems, tables, strict=True)
        if system.digests and (overlap := find_overlap(system, table)).rows
    ]
    if seen and not settings.allow_overlap:
        raise LindleyError(
            f"{tables[0].name} is not new to every system. {'. '.join(seen)}. Figures on data that a system has seen flatter "
            f"it: give a table of other sources, or {setting('allow_overlap')} if that is what you want, and the report will "
            "say so."
        )
    remarks = []
    for name, system, table in zip(names, systems, tables, strict=True):
        try:
            told = require_new(system, table, settings.allow_overlap) + require_unit(system, table)
        except LindleyError as error:
            raise LindleyError(f"{name}: {error}") from error
        remarks += [f"{name}: {each}" for each in told]
    return remarks


def _weigh_alike(one: Scores, other: Scores) -> bool:
    a, b = one.grid.weight, other.grid.weight
    return a is b is None or (a is not None and b is not None and np.array_equal(a, b))


def _difference(figure: Figure, here: Floats, first: Floats) -> Estimate | None:
    """The paired difference; none of rates where the same pairs mislead, or none do: no drawing of sources tells them apart."""
    if figure[0] == "misleading_evidence" and np.array_equal(here, first):
        return None
    return Estimate.of(here - first)

"""Which column of a table says what: source, group, instance, feature."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lindley.table.findings import Finding, listing, quoted
from lindley.table.grid import Grid

__all__ = ["Columns", "Roles", "assign_roles"]


@dataclass(frozen=True)
class Columns:
    """The names of the columns; one left ``None`` is looked for as ``source``, ``group`` or ``instance``.

    ``group`` keeps together sources that are related, such as two windows of one vehicle. ``include`` names
    the features and leaves every other column out; ``ignore`` leaves out the columns named.
    """

    source: str | None = None
    group: str | None = None
    instance: str | None = None
    include: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roles:
    """Where in the grid each part stands; ``source`` is ``None`` only together with an error."""

    source: int | None
    group: int | None
    instance: int | None
    reference: int | None
    features: tuple[int, ...]


def assign_roles(grid: Grid, columns: Columns, reference: str | None) -> tuple[Roles, list[Finding]]:
    """Give every column its part, or say which name is not there, or asked to play two parts."""
    findings = _unknown_names(grid, columns, reference) + _double_parts(grid.file, columns, reference)
    taken = {name for name in (columns.source, columns.group, columns.instance, reference) if name is not None}
    spoken_for = taken.union(columns.include, columns.ignore)
    places: dict[str, int | None] = {}
    for role in ("source", "group", "instance"):
        named: str | None = getattr(columns, role)
        if named is not None:
            places[role] = _place(grid, named)
            continue
        matches = [name for name in grid.header if name.casefold() == role and name not in spoken_for]
        places[role] = _place(grid, matches[0]) if matches else None
        if len(set(matches)) > 1:
            message = f"the columns {listing(quoted(matches))} could each be the {role}"
            fix = f"Name one with --{role}-column, and leave the other out with --ignore-columns"
            findings.append(Finding("error", "ambiguous-column", message, fix, grid.file))
        elif not matches and role == "source":
            findings.append(_no_source(grid))
    reference_place = _place(grid, reference)
    used = {*places.values(), reference_place}
    rest = [place for place in range(len(grid.header)) if place not in used]
    if columns.include:
        features = [place for place in rest if grid.header[place] in columns.include]
        left_out = [
            grid.header[place] for place in rest if grid.header[place] not in {*columns.include, *columns.ignore}
        ]
        if left_out:
            message = f"left out, as it is not among the included features: {listing(quoted(left_out), 8)}"
            findings.append(Finding("note", "ignored-columns", message, file=grid.file))
    else:
        features = [place for place in rest if grid.header[place] not in columns.ignore]
    if not features and not any(finding.code == "missing-column" for finding in findings):
        message = f"no column is left as a feature (the table has {_names(grid)})"
        fix = "Give at least one column of numbers beside the labels, and check --ignore-columns"
        findings.append(Finding("error", "no-feature", message, fix, grid.file))
    roles = Roles(places["source"], places["group"], places["instance"], reference_place, tuple(features))
    return roles, findings


def _place(grid: Grid, name: str | None) -> int | None:
    return grid.header.index(name) if name is not None and name in grid.header else None


def _names(grid: Grid) -> str:
    return listing(quoted(grid.header), 12) if grid.header else "no named columns"


def _no_source(grid: Grid) -> Finding:
    message = f"no column is named 'source' (the table has {_names(grid)})"
    fix = "Name the column that tells the sources apart with --source-column"
    if sum(re.fullmatch(r"[+-]?\d*[.,]?\d+", name) is not None for name in grid.header) > len(grid.header) / 2:
        fix = "The first row holds numbers: if the table has no header, add a row of names on top. Else " + fix
        fix = fix.replace("Else Name", "Else name")
    return Finding("error", "missing-column", message, fix, grid.file)


def _unknown_names(grid: Grid, columns: Columns, reference: str | None) -> list[Finding]:
    wanted: list[tuple[str, Iterable[str | None]]] = [
        ("--source-column", [columns.source]),
        ("--group-column", [columns.group]),
        ("--instance-column", [columns.instance]),
        ("--include-columns", columns.include),
        ("--ignore-columns", columns.ignore),
        ("the reference of the transform", [reference]),
    ]
    findings = []
    for option, names in wanted:
        for name in names:
            if name is None or name in grid.header:
                continue
            close = _closest(name, grid.header)
            message = f"there is no column '{name}', as {option} asks for"
            if close:
                fix = f"Did you mean '{close}'? The table has {_names(grid)}"
            else:
                fix = f"Name one of the columns: the table has {_names(grid)}"
            findings.append(Finding("error", "missing-column", message, fix, grid.file))
    return findings


def _closest(name: str, names: Sequence[str]) -> str | None:
    folded = {each.casefold(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), 1)
    return folded[close[0]] if close else None


def _double_parts(file: str, columns: Columns, reference: str | None) -> list[Finding]:
    parts: dict[str, list[str]] = {}
    for part, names in (
        ("source", [columns.source]),
        ("group", [columns.group]),
        ("instance", [columns.instance]),
        ("reference", [reference]),
        ("feature", dict.fromkeys(columns.include)),
        ("ignored", dict.fromkeys(columns.ignore)),
    ):
        for name in names:
            if name is not None:
                parts.setdefault(name, []).append(part)
    return [
        Finding(
            "error",
            "column-used-twice",
            f"the column is asked to be {' and '.join(played)} at once",
            "Name it in one option only",
            file,
            column=name,
        )
        for name, played in parts.items()
        # a reference is no feature after the division, so that ignoring it too, or including it, does no harm
        if len(played) > 1 and set(played) not in ({"reference", "ignored"}, {"reference", "feature"})
    ]

"""How a table is read, and which of its columns says what: source, group, session, instance or feature."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.files import Grid
from lindley.table.findings import Finding, did_you_mean, listing, quoted
from lindley.table.scaling import Transform, TransformKind
from lindley.table.table import ROLES
from lindley.table.units import Units, column_units, is_unit, power_between, split_unit
from lindley.table.workbook import Hidden

__all__ = [
    "BelowLimit",
    "Decimal",
    "Purpose",
    "Reading",
    "Roles",
    "assign_roles",
    "feature_places",
]

Purpose = Literal["split", "whole", "part", "case"]
Decimal = Literal[".", ","]
BelowLimit = Literal["half", "limit", "sqrt2"]
"""What a value below the detection limit is read as: half of the limit, the limit itself, or the limit over √2."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The arguments of `lindley.table.read_table`, which says what they mean."""

    source: Any = None
    group: Any = None
    session: Any = None
    instance: Any = None
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()
    features: Sequence[str] | None = None
    units: str | Mapping[str, str] | Sequence[str | None] | None = None
    transform: TransformKind = "none"
    reference: str | None = None
    header_row: int | None = None
    sheet: str | None = None
    hidden: Hidden | None = None
    decimal: Decimal | None = None
    below_limit: BelowLimit | None = None
    allow_duplicates: bool = False
    purpose: Purpose = "split"
    name: str | None = None

    def __post_init__(self) -> None:
        for each in ("include", "ignore"):
            names = getattr(self, each)
            object.__setattr__(self, each, (names,) if isinstance(names, str) else tuple(names))
        choices = {"hidden": get_args(Hidden), "decimal": get_args(Decimal), "below_limit": get_args(BelowLimit)}
        for each, choice in choices.items():
            if getattr(self, each) not in (None, *choice):
                raise LindleyError(f"{setting(each)} is {' or '.join(quoted(choice))}, and not {getattr(self, each)!r}")

        row = self.header_row
        if row is not None and (isinstance(row, bool) or not isinstance(row, int) or row < 1):
            raise LindleyError(f"{setting('header_row')} is a whole number from 1 on, and not {row!r}")

    @cached_property
    def applied(self) -> Transform:
        """What is done to the features."""
        return Transform(self.transform, self.reference)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that a system computes with: its features, and the reference that they are divided by, if any."""
        return (*(self.features or ()), *([] if self.reference is None else [self.reference]))

    @cached_property
    def required_units(self) -> Units:
        """A unit, or None, for each of the ``wanted`` columns."""
        return column_units(self.units, self.wanted, (None,) * len(self.wanted), self.reference is not None)


@dataclass(frozen=True)
class Roles:
    """Where in the grid each part stands; ``source`` is ``None`` with an error, or where a file is one item of a case.

    ``others`` are the columns that have no part and that nobody asked to leave out.
    """

    source: int | None
    group: int | None
    session: int | None
    instance: int | None
    reference: int | None
    features: tuple[int, ...]
    others: tuple[int, ...] = ()


def assign_roles(grid: Grid, reading: Reading) -> tuple[Roles, list[Finding]]:
    """Give every column its part, or say which name is not there, or asked to play two parts."""
    include, ignore = (_headers(grid, names) for names in (reading.include, reading.ignore))
    given = {role: getattr(reading, role) for role in ROLES}
    named = {role: None if name is None else _headers(grid, [name])[0] for role, name in given.items()}
    wanted: dict[str, int] = {}
    if reading.features is None:
        (reference,) = _headers(grid, [reading.reference]) if reading.reference is not None else [None]
        findings = _unknown_names(grid, {**named, "include": include, "ignore": ignore, "reference": reference})
    else:
        wanted, findings = feature_places(grid.header, reading.wanted, reading.required_units, grid.file)
        findings += _units_untold(grid, wanted, dict(zip(reading.wanted, reading.required_units, strict=True)))
        findings += _unknown_names(grid, named)
        divisor = wanted.pop(reading.reference, None) if reading.reference is not None else None
        reference = None if divisor is None else grid.header[divisor]
        include = tuple(grid.header[place] for place in wanted.values())
    findings += _double_parts(grid.file, {**named, "reference": reference}, include, ignore)
    spoken_for = {*named.values(), reference, *include, *ignore}
    roles: dict[str, Any] = {}
    for role, name in named.items():
        if name is not None:
            roles[role] = _place(grid, name)
            continue
        matches = [name for name in grid.header if name.casefold() == role and name not in spoken_for]
        roles[role] = _place(grid, matches[0]) if matches else None
        if len(set(matches)) > 1:
            message = f"the columns {listing(quoted(matches))} could each be the {role}"
            fix = f"Name one with {setting(role)}, and leave the other out with {setting('ignore')}"
            findings.append(Finding("error", "ambiguous-column", message, fix, grid.file))
        elif not matches and role == "source" and reading.purpose != "case":
            findings.append(_no_source(grid))
    used = {*roles.values(), _place(grid, reference)}
    rest = [place for place in range(len(grid.header)) if place not in used]
    features = [place for place in rest if grid.header[place] not in ignore]
    others: list[int] = []
    if reading.features is not None or include:
        others = [place for place in features if grid.header[place] not in include]
        features = list(wanted.values()) or [place for place in features if grid.header[place] in include]
        why = "it is not among the included features" if reading.features is None else "the system does not use it"
        findings += _left_out(grid, others, why)
    if reading.purpose == "case":
        findings += _left_out(grid, [place for place in rest if grid.header[place] in ignore], "it was asked for")
    if not features and not any(finding.code in ("missing-column", "missing-feature") for finding in findings):
        message = f"no column is left as a feature (the table has {_names(grid)})"
        fix = f"Give at least one column of numbers beside the labels, and look at what is left out with {setting('ignore')}"
        findings.append(Finding("error", "no-feature", message, fix, grid.file))
    if reading.purpose == "case":  # which has items, and neither groups nor numbers of its measurements
        others += [place for role in ("group", "instance") if (place := roles[role]) is not None]
        roles.update(group=None, instance=None)
    found = Roles(**roles, reference=_place(grid, reference), features=tuple(features), others=tuple(others))
    return found, findings


def _left_out(grid: Grid, places: Sequence[int], why: str) -> list[Finding]:
    if not places:
        return []
    message = f"left out, as {why}: {listing(quoted(grid.header[place] for place in places), 8)}"
    return [Finding("note", "ignored-columns", message, file=grid.file)]


def feature_places(
    header: Sequence[str], features: Sequence[str], units: Sequence[str | None], file: str
) -> tuple[dict[str, int], list[Finding]]:
    """Where the columns of a system stand, in its order; errors for those that are missing, or in a unit of another kind."""
    named = [split_unit(name) for name in header]
    places: dict[str, int] = {}
    findings = []
    missing = []
    for feature, unit in zip(features, units, strict=True):
        # older systems took whatever stands between brackets for a unit, as in K (39)
        spelled = [] if unit is None or is_unit(unit) else [f"{feature} [{unit}]", f"{feature} ({unit})"]
        exact = [place for place, name in enumerate(header) if name == feature or name in spelled]
        loose = [place for place, (name, _) in enumerate(named) if name.casefold() == feature.casefold()]
        hits = exact or loose
        if not hits:
            missing.append(feature)
            continue
        if len(hits) > 1:
            message = f"the columns {listing(quoted([header[place] for place in hits]))} could each be '{feature}'"
            findings.append(Finding("error", "ambiguous-column", message, "Rename one of them", file))
            continue
        places[feature] = hits[0]
        there = named[hits[0]][1]
        if power_between(there, unit) is None:
            message = f"the values are in {there}, and the system was trained on {unit}"
            fix = f"Convert them to {unit}, and say so where the table gives the unit"
            findings.append(Finding("error", "other-unit", message, fix, file, column=header[hits[0]]))
    if missing:
        message = f"the system needs {listing(quoted(missing), 8)}, and the table has no such column"
        meant = did_you_mean(missing[0], [name for name, _ in named])
        fix = f"{meant}The system's columns are {listing(quoted(features), 30)}"
        findings.append(Finding("error", "missing-feature", message, fix, file))
    return places, findings


def _units_untold(grid: Grid, places: Mapping[str, int], units: Mapping[str, str | None]) -> list[Finding]:
    """Units that only the header knows, or only the system: nothing tells whether they are the same."""
    told = {name: split_unit(grid.header[place])[1] for name, place in places.items()}
    findings = []
    if untold := [name for name in places if units[name] and told[name] is None]:
        message = f"the header gives no unit for {listing(quoted(untold), 8)}"
        fix = f"Taken to be as in training: {listing(sorted({str(units[name]) for name in untold}), 8)}"
        findings.append(Finding("note", "unit-not-given", message, fix, grid.file))
    if unknown := [grid.header[place] for name, place in places.items() if told[name] and not units[name]]:
        message = f"the header gives a unit for {listing(quoted(unknown), 8)}, and the system was trained without one"
        fix = f"Make sure that the training data were in the same unit; {setting('units')} says it at training"
        findings.append(Finding("warning", "unit-not-checked", message, fix, grid.file))
    return findings


def _headers(grid: Grid, names: Sequence[str]) -> tuple[str, ...]:
    """Names as the header has them: K39 is the column ``K39 [ppm]`` too, if no other is."""
    plain: dict[str, list[str]] = {}
    for header in grid.header:
        plain.setdefault(split_unit(header)[0], []).append(header)
    return tuple(
        plain[name][0] if name not in grid.header and len(plain.get(name, ())) == 1 else name for name in names
    )


def _place(grid: Grid, name: str | None) -> int | None:
    return grid.header.index(name) if name is not None and name in grid.header else None


def _names(grid: Grid) -> str:
    return listing(quoted(grid.header), 12) if grid.header else "no named columns"


def _no_source(grid: Grid) -> Finding:
    message = f"no column is named 'source' (the table has {_names(grid)})"
    fix = f"Name the column that tells the sources apart with {setting('source')}"
    if sum(re.fullmatch(r"[+-]?\d*[.,]?\d+", name) is not None for name in grid.header) > len(grid.header) / 2:
        fix = "The first row holds numbers: if the table has no header, add a row of names on top. Else " + fix
        fix = fix.replace("Else Name", "Else name")
    return Finding("error", "missing-column", message, fix, grid.file)


def _unknown_names(grid: Grid, wanted: Mapping[str, Any]) -> list[Finding]:
    findings = []
    for role, names in wanted.items():
        asked = "the reference of the transform" if role == "reference" else setting(role)
        for name in names if isinstance(names, tuple) else (names,):
            if name is None or name in grid.header:
                continue
            message = f"there is no column '{name}', as {asked} asks for"
            meant = did_you_mean(name, grid.header)
            fix = f"{f'{meant}The' if meant else 'Name one of the columns: the'} table has {_names(grid)}"
            findings.append(Finding("error", "missing-column", message, fix, grid.file))
    return findings


def _double_parts(
    file: str, named: Mapping[str, str | None], include: Iterable[str], ignore: Iterable[str]
) -> list[Finding]:
    parts: dict[str, list[str]] = {}
    labels: dict[str, Iterable[str | None]] = {role: [name] for role, name in named.items()}
    for part, names in {**labels, "feature": include, "ignored": ignore}.items():
        for name in dict.fromkeys(names):
            if name is not None:
                parts.setdefault(name, []).append(part)
    findings = []
    for name, played in parts.items():
        # a reference is no feature after the division, so that ignoring it too, or including it, does no harm
        if len(played) > 1 and set(played) not in ({"reference", "ignored"}, {"reference", "feature"}):
            message = f"the column is asked to be {' and '.join(played)} at once"
            fix = "Name it in one option only"
            findings.append(Finding("error", "column-used-twice", message, fix, file, column=name))
    return findings

"""Several tables as one: the background of a system that was measured in parts, or that grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.check import Measurements, check_counts, check_features
from lindley.table.findings import Finding, TableError, did_you_mean, errors_first, listing, quoted
from lindley.table.labels import Labels, similar_labels
from lindley.table.table import Table, in_units, join_sessions
from lindley.table.units import Units, power_between

__all__ = ["SameLabels", "join_tables", "told_apart"]

SameLabels = Literal["same", "different"]
"""What a label in two tables stands for: one source, of which both hold measurements; or two sources."""
Texts = NDArray[np.str_]


def join_tables(
    tables: Sequence[Table],
    *,
    same_labels: SameLabels | None = None,
    allow_duplicates: bool = False,
    name: str | None = None,
) -> Table:
    """Several tables as one, with the features of the first, in its order; checked as a table to split is.

    Args:
        tables: with the same features by name, in the same units, and read with the same transform. One that is too small to
            stand alone is read with the purpose ``part``.
        same_labels: what a source, or a group, stands for whose label is in two of the tables: the ``same`` one, or a
            ``different`` one, which has the name of its table in front of it from then on. Else such a label is an error.
        allow_duplicates: accept measurements of one table that are in another too, with a warning.
        name: of the whole; else those of the tables.

    Raises:
        TableError: with everything that keeps them from being one table.

    >>> join_tables([read_table("2024.xlsx"), read_table("2025.xlsx")])  # doctest: +SKIP
    <Table 2024 + 2025: 1954 rows of 652 sources, 10 features (K39, Ti49, …)>
    """
    if same_labels not in (None, *get_args(SameLabels)):
        raise LindleyError(f"{setting('same_labels')} is 'same' or 'different', and not {same_labels!r}")
    if not tables:
        raise LindleyError("there is no table to join")
    if len(tables) == 1:
        return replace(tables[0], name=name or tables[0].name)
    names = told_apart([each.name for each in tables])
    whole = name or " + ".join(names)
    _refuse_twice(tables, names)
    if other := [each for each in tables if each.transform != tables[0].transform]:
        raise LindleyError(
            f"{other[0].name} was read with {other[0].transform}, and {tables[0].name} with {tables[0].transform}: read them "
            "alike"
        )
    problems = [problem for i in range(1, len(tables)) for problem in _other_features(tables[0], tables[i], names[i])]
    if problems:
        raise TableError(problems)
    alike = [each.with_features([each.features.index(name) for name in tables[0].features]) for each in tables]
    units, findings = _units(alike, names)
    converted = [in_units(each, units) for each in alike]
    alike = [each for each, _ in converted]
    findings += [replace(note, file=name) for name, (_, notes) in zip(names, converted, strict=True) for note in notes]
    findings += _apart(alike, names)
    labels = {role: [getattr(each, role) for each in alike] for role in ("source", "group")}
    if same_labels is None:
        findings += _ask(labels, names, whole)
    elif same_labels == "different":
        shared = _shared(labels["source"]) | _shared(labels["group"])
        labels = {role: _renamed(each, shared, names) for role, each in labels.items()}
    findings += _copies(alike, labels["source"], names, whole, allow_duplicates)
    source, group = (np.concatenate(labels[role]) for role in ("source", "group"))
    findings += similar_labels(dict.fromkeys(source.tolist()), "source", whole)
    findings += _two_groups(source, group, whole)
    raws = [each.raw for each in alike if each.raw is not None]
    raw = np.concatenate(raws) if len(raws) == len(alike) else None
    values, instance = (np.concatenate([getattr(each, name) for each in alike]) for name in ("values", "instance"))
    measured = values if raw is None else raw[:, : values.shape[1]]
    data = Measurements(
        whole, tuple(range(len(values))), tables[0].features, measured, values, Labels(source, group, instance)
    )
    checked = check_counts(data) + check_features(data, logged=tables[0].transform.kind != "none", to_split=True)
    findings += [replace(finding, rows=()) for finding in checked]  # whose rows are of no file
    found = errors_first([*(finding for each in tables for finding in each.findings), *findings])
    if any(finding.level == "error" for finding in found):
        raise TableError(found)
    return replace(
        alike[0],
        name=whole,
        values=values,
        source=source,
        group=source if np.array_equal(source, group) else group,
        session=join_sessions([replace(each, name=name) for each, name in zip(alike, names, strict=True)]),
        instance=instance,
        findings=found,
        units=units[: len(alike[0].features)],
        reference_unit=units[-1] if alike[0].transform.reference is not None else None,
        raw=raw,
        files=tuple(file for each in tables for file in each.files),
        parts=tuple(part for each in tables for part in (each.parts or (each,))),
    )


def told_apart(names: Sequence[str]) -> list[str]:
    """Names of which those that are the same are numbered.

    >>> told_apart(["one", "two", "one"])
    ['one (1)', 'two', 'one (2)']
    """
    return [
        each if names.count(each) == 1 else f"{each} ({names[: place + 1].count(each)})"
        for place, each in enumerate(names)
    ]


def _refuse_twice(tables: Sequence[Table], names: Sequence[str]) -> None:
    known: dict[str, str] = {}
    for name, table in zip(names, tables, strict=True):
        digest = table.sha256()
        if digest in known:
            raise LindleyError(
                f"{known[digest]} and {name} hold the same table: every measurement would count twice. Name each table once."
            )
        known[digest] = name


def _other_features(first: Table, table: Table, name: str) -> list[Finding]:
    """Features that only one of two tables has."""
    missing = [each for each in first.features if each not in table.features]
    further = [each for each in table.features if each not in first.features]
    if not missing and not further:
        return []
    told = [f"it lacks {listing(quoted(missing), 8)}"] if missing else []
    told += [f"it has {listing(quoted(further), 8)} besides"] if further else []
    meant = did_you_mean(missing[0], further) if missing else ""
    both = [each for each in first.features if each in table.features]
    fix = f"{meant}Tables of one background have the same features: rename the columns that are called otherwise"
    if both:
        fix += f", or take those that both have with {setting('include', *both)}"
    return [Finding("error", "other-features", f"{' and '.join(told)}, unlike {first.name}", fix, name)]


def _units(tables: Sequence[Table], names: Sequence[str]) -> tuple[Units, list[Finding]]:
    """The units of all columns, those of the first table that gives one, and an error for every one that is of two kinds."""
    units: list[str | None] = []
    findings = []
    for place, column in enumerate(tables[0].columns):
        given = [(name, unit) for name, each in zip(names, tables, strict=True) if (unit := each.column_units[place])]
        units.append(given[0][1] if given else None)
        if any(power_between(unit, given[0][1]) is None for _, unit in given):
            message = f"the values are in {' and in '.join(f'{unit} ({name})' for name, unit in given)}"
            fix = f"Convert them to {given[0][1]}, and say so where the table gives the unit"
            findings.append(Finding("error", "other-unit", message, fix, column=column))
        elif given and len(given) < len(tables):
            silent = [name for name in names if name not in dict(given)]
            message = f"{listing(silent, 4)} gives no unit, and {given[0][0]} gives {given[0][1]}"
            fix = f"Make sure that all are in {given[0][1]}"
            findings.append(Finding("warning", "unit-not-given", message, fix, column=column))
    return tuple(units), findings


def _apart(tables: Sequence[Table], names: Sequence[str]) -> list[Finding]:
    """Tables whose values do not even touch, on half of the features or more: another unit or method, whatever headers say."""
    findings = []
    for (one, table), (other, another) in combinations(zip(names, tables, strict=True), 2):
        a, b = table.measured, another.measured
        far = (a.min(axis=0) > b.max(axis=0)) | (a.max(axis=0) < b.min(axis=0))
        if far.sum() >= max(2, a.shape[1] / 2) or far.all():
            apart = [name for name, is_far in zip(table.features, far.tolist(), strict=True) if is_far]
            message = f"no value of {listing(quoted(apart), 8)} in {other} lies among those in {one}"
            fix = "Make sure that both were measured in the same unit and by the same method"
            findings.append(Finding("warning", "tables-apart", message, fix))
    return findings


def _shared(labels: Sequence[Texts]) -> set[str]:
    """Labels that are in more than one table."""
    each = [set(one.tolist()) for one in labels]
    return {label for one, other in combinations(each, 2) for label in one & other}


def _ask(labels: Mapping[str, Sequence[Texts]], names: Sequence[str], whole: str) -> list[Finding]:
    """Labels that are in two tables: nobody but the user knows whether they stand for one source."""
    findings = []
    for role, each in labels.items():
        # a source without a group is its own, and is asked about once
        shared = _shared(each) - (_shared(labels["source"]) if role == "group" else set())
        if not shared:
            continue
        where = [name for name, one in zip(names, each, strict=True) if shared & set(one.tolist())]
        are = f"{role} {{}} is" if len(shared) == 1 else f"{role}s {{}} are"
        message = f"the {are.format(listing(quoted(sorted(shared)), 8))} in {listing(where, 4)}"
        fix = (
            f"If a label means the same {role} in each of them, say so with {setting('same_labels', 'same')}; if it means "
            f"another {role}, with {setting('same_labels', 'different')}"
        )
        findings.append(Finding("error", f"{role}-in-two-tables", message, fix, whole))
    return findings


def _renamed(labels: Sequence[Texts], shared: set[str], names: Sequence[str]) -> list[Texts]:
    """The labels that are in two tables with the name of their table in front."""
    return [
        np.array([f"{name}: {label}" if label in shared else label for label in each.tolist()], dtype=np.str_)
        for name, each in zip(names, labels, strict=True)
    ]


def _copies(
    tables: Sequence[Table], sources: Sequence[Texts], names: Sequence[str], whole: str, allowed: bool
) -> list[Finding]:
    """Measurements that are in two tables: of the same source they count twice, of two sources they make these look alike."""
    first: dict[str, tuple[int, str]] = {}
    copied: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for number, (table, labels) in enumerate(zip(tables, sources, strict=True)):
        for row, label in zip(_as_text(table.values), labels.tolist(), strict=True):
            before, known = first.setdefault(row, (number, label))
            if before != number:
                copied.setdefault((before, number), []).append((known, label))
    findings = []
    for (before, number), pairs in copied.items():
        some = [f"'{a}'" if a == b else f"'{b}' ('{a}' there)" for a, b in dict.fromkeys(pairs)]
        be = "measurement is" if len(pairs) == 1 else "measurements are"
        message = f"{len(pairs)} {be} in {names[before]} too: of {listing(some, 5)}"
        fix = f"Delete the copies; if they were truly measured so, allow them with {setting('allow_duplicates')}"
        level: Literal["warning", "error"] = "warning" if allowed else "error"
        findings.append(Finding(level, "measured-in-two-tables", message, "" if allowed else fix, names[number]))
    return findings


def _as_text(values: NDArray[np.float64]) -> list[str]:
    """Every row with nine digits a number, as the same one may have another last digit after Excel."""
    return [" ".join(f"{value:.9g}" for value in row) for row in values.tolist()]


def _two_groups(source: Texts, group: Texts, whole: str) -> list[Finding]:
    of: dict[str, set[str]] = {}
    for label, its in zip(source.tolist(), group.tolist(), strict=True):
        of.setdefault(label, set()).add(its)
    if not (torn := [label for label, groups in of.items() if len(groups) > 1]):
        return []
    be = "is" if len(torn) == 1 else "are"
    message = f"{listing(quoted(torn), 8)} {be} of one group in one table and of another in another"
    fix = f"Give a source one group; or say that they are different sources with {setting('same_labels', 'different')}"
    return [Finding("error", "source-in-two-groups", message, fix, whole)]

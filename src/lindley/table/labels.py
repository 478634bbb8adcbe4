"""Source, group and instance of every row, as text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.table.columns import Roles
from lindley.table.findings import Finding, listing, option_list, quoted
from lindley.table.grid import FORMULA, Grid
from lindley.table.numbers import EXCEL_ERRORS

__all__ = ["Labels", "read_labels"]

Texts = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of all rows: without a column for them, a source is its own group and instances count up.

    ``complete`` is false when the source or group of a row is not known: nothing is concluded from the others.
    """

    source: Texts
    group: Texts
    instance: Texts
    complete: bool = True


def read_labels(grid: Grid, roles: Roles) -> tuple[Labels | None, list[Finding]]:
    """The labels, or ``None`` if there is no source column, and what is wrong with them."""
    if roles.source is None:
        return None, []
    source = _texts(grid.columns[roles.source])
    findings = _label_cells(grid, roles.source, "source") + _look_alikes(grid, source, grid.header[roles.source])
    group = source
    if roles.group is not None:
        group = _texts(grid.columns[roles.group])
        findings += _label_cells(grid, roles.group, "group")
        findings += _split_sources(grid, source, group, grid.header[roles.group])
    if roles.instance is not None:
        instance = _texts(grid.columns[roles.instance])
        findings += _label_cells(grid, roles.instance, "instance")
        findings += _repeated_instances(grid, source, instance, grid.header[roles.instance])
    else:
        instance = _count_within(source)
    known = all(source) and all(group) and EXCEL_ERRORS.isdisjoint(source) and EXCEL_ERRORS.isdisjoint(group)
    return Labels(_array(source), _array(group), _array(instance), known), findings


def _array(texts: Sequence[str]) -> Texts:
    return np.array(texts, dtype=np.str_)


def _texts(cells: Sequence[object]) -> list[str]:
    return [cell.strip() if isinstance(cell, str) else _text(cell) for cell in cells]


def _text(cell: object) -> str:
    """A cell of a workbook as a label: the number 12.0 is the label 12, as Excel shows it."""
    if cell is None or cell is FORMULA:
        return ""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else str(cell)


def _count_within(source: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    instance = []
    for label in source:
        counts[label] = counts.get(label, 0) + 1
        instance.append(str(counts[label]))
    return instance


def _label_cells(grid: Grid, place: int, role: str) -> list[Finding]:
    """Cells that hold no label, or one that Excel may have made up."""
    name = grid.header[place]
    empty, broken, dates = [], [], []
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if cell is None or cell is FORMULA or (isinstance(cell, str) and not cell.strip()):
            empty.append(row)
        elif isinstance(cell, str):
            if cell[:1] == "#" and cell in EXCEL_ERRORS:
                broken.append(row)
        elif isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
            dates.append(row)
    findings = []
    if empty:
        fix = f"Name the {role} in every row; merged cells hold their text in the first row only"
        if role == "instance":
            fix += ". If it is not meant as the instance, leave the column out with --ignore-columns"
        message = f"the {role} is empty"
        findings.append(Finding("error", f"empty-{role}", message, fix, grid.file, tuple(empty), name))
    if broken:
        message = f"the {role} is the error of an Excel formula"
        findings.append(Finding("error", "excel-error", message, "Mend the formula", grid.file, tuple(broken), name))
    if dates:
        message = f"the {role} is a date or time: Excel may have made it of a label such as 1-2"
        fix = "If so, type the labels again in cells of format Text"
        findings.append(Finding("warning", "date-label", message, fix, grid.file, tuple(dates), name))
    return findings


def _look_alikes(grid: Grid, source: Sequence[str], name: str) -> list[Finding]:
    """Sources whose labels differ by capitals or spaces only: a slip of the hand makes two sources of one."""
    folded: dict[str, list[str]] = {}
    for label in dict.fromkeys(source):
        folded.setdefault("".join(label.casefold().split()), []).append(label)
    twins = [labels for labels in folded.values() if len(labels) > 1]
    if not twins:
        return []
    text = listing([" / ".join(quoted(labels)) for labels in twins], 8)
    message = f"labels that differ by capitals or spaces only count as different sources: {text}"
    fix = "If they are one source, write it in one way"
    return [Finding("warning", "similar-sources", message, fix, grid.file, (), name)]


def _split_sources(grid: Grid, source: Sequence[str], group: Sequence[str], name: str) -> list[Finding]:
    first: dict[str, tuple[str, int]] = {}
    rows: list[int] = []
    cases: dict[str, str] = {}
    for row, label, its_group in zip(grid.rows, source, group, strict=True):
        if not label or not its_group:
            continue
        known, known_row = first.setdefault(label, (its_group, row))
        if known != its_group:
            rows.append(row)
            cases.setdefault(label, f"'{label}' ('{known}' in row {known_row}, '{its_group}' in row {row})")
    if not rows:
        return []
    message = f"a source lies in two groups: {listing(list(cases.values()))}"
    fix = "Give each source one group, or different sources different labels"
    return [Finding("error", "source-in-two-groups", message, fix, grid.file, tuple(rows), name)]


def _repeated_instances(grid: Grid, source: Sequence[str], instance: Sequence[str], name: str) -> list[Finding]:
    first: dict[tuple[str, str], int] = {}
    rows: list[int] = []
    cases: list[str] = []
    for row, label, its_instance in zip(grid.rows, source, instance, strict=True):
        if not label or not its_instance:
            continue
        known_row = first.setdefault((label, its_instance), row)
        if known_row != row:
            rows.append(row)
            cases.append(f"instance '{its_instance}' of source '{label}' (rows {known_row} and {row})")
    if not rows:
        return []
    message = f"an instance of a source occurs twice: {listing(cases)}"
    fix = (
        "Give each measurement of a source its own label; if the column is no instance, leave it out with "
        f"--ignore-columns {option_list(name)}"
    )
    return [Finding("error", "repeated-instance", message, fix, grid.file, tuple(rows), name)]

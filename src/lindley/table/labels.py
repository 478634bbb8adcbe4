"""The labels of a table: source, group, session and instance of every row as text, and what is odd with them."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lindley.limits import limit, limit_text
from lindley.settings import setting
from lindley.table.cells import EXCEL_ERRORS, FORMULA, Merged, is_blank
from lindley.table.columns import Roles
from lindley.table.files import Grid, apostrophes, without_apostrophes
from lindley.table.findings import Finding, Level, listing, quoted
from lindley.table.lookalikes import look_alikes, unmistakable
from lindley.table.numbers import MEASURED, parse_numbers
from lindley.table.table import ROLES
from lindley.table.units import split_unit

__all__ = ["Labels", "ask_about_labels", "read_labels", "similar_labels"]

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
    session: Texts | None = None  # of what its measurements share, where a column names it


def read_labels(grid: Grid, roles: Roles, only: str | None = None) -> tuple[Labels | None, list[Finding]]:
    """The labels, and what is wrong with them. Without a source column, all rows are of the ``only`` source, or unlabelled."""
    if roles.source is None and only is None:
        return None, []
    grid, findings = _unmerged(grid, [place for role in ROLES if (place := getattr(roles, role)) is not None])
    source = [str(only)] * len(grid.rows)
    if roles.source is not None:
        source, found = _read_column(grid, roles.source, "source")
        findings = found + findings
    session, group = None, source
    if roles.session is not None:
        session, found = _read_column(grid, roles.session, "session")
        findings += found
    if roles.group is not None:
        group, found = _read_column(grid, roles.group, "group")
        findings += found + _split_sources(grid, source, group, grid.header[roles.group])
    if roles.instance is not None:
        instance, found = _read_column(grid, roles.instance, "instance")
        findings += found + _repeated_instances(grid, source, session, instance, grid.header[roles.instance])
    else:
        instance = _count_within(source)
    if any(finding.code == "long-label" for finding in findings):
        return None, findings
    known = all(source) and all(group) and EXCEL_ERRORS.isdisjoint(source) and EXCEL_ERRORS.isdisjoint(group)
    sources = _array(source)
    groups, sessions = sources if group is source else _array(group), None if session is None else _array(session)
    return Labels(sources, groups, _array(instance), known, sessions), findings


def _unmerged(grid: Grid, places: Sequence[int]) -> tuple[Grid, list[Finding]]:
    """The grid with labels in these columns where cells are merged over several rows, as they are shown, and notes on them."""
    columns, findings = list(grid.columns), []
    for place in places:
        if rows := tuple(row for row, cell in zip(grid.rows, columns[place], strict=True) if isinstance(cell, Merged)):
            columns[place] = [cell.value if isinstance(cell, Merged) else cell for cell in columns[place]]
            message = "merged cells in Excel, read as the label of each of their rows"
            findings.append(Finding("note", "merged-cells", message, "", grid.file, rows, grid.header[place]))
    return replace(grid, columns=tuple(columns)), findings


def ask_about_labels(grid: Grid, roles: Roles, source: Texts) -> list[Finding]:
    """Columns of a case that may tell items apart, and differ within what would be one: nobody knows whether these are several.

    Text that differs is asked about; numbers are where they repeat as labels do, so that one which counts the measurements is
    not. What is explained by a column that is asked about already, such as a description of the item, is not asked about.
    """
    others = [(_repeats_as_labels(grid, place), place) for place in roles.others]
    parts = source.tolist()
    findings = []
    for repeats, place in sorted(others, key=lambda other: other[0] is not None):  # text first
        labels, _ = _label_texts(grid, place)
        held: dict[str, list[str]] = defaultdict(list)
        for part, label in zip(parts, labels, strict=True):
            if label:
                held[part].append(label)
        mixed = next(
            (each for each in held.values() if len(set(each)) > 1 and (repeats is None or repeats(each))), None
        )
        if mixed is None:
            continue
        parts = [f"{part}\0{label}" for part, label in zip(parts, labels, strict=True)]
        some = listing(quoted(dict.fromkeys(mixed)), 4)
        message = f"the column differs within what would be one item ({some}): does it tell items apart"
        name = grid.header[place]
        fix = f"If so, name it with {setting('source', name)}; if it does not matter, leave it out with "
        fix += setting("ignore", name)
        findings.append(Finding("error", "several-items", f"{message}?", fix, grid.file, (), name))
    return findings


def _repeats_as_labels(grid: Grid, place: int) -> Callable[[Sequence[str]], bool] | None:
    """Of a column of numbers, what tells whether those of an item repeat as labels do; ``None`` of one of text.

    A whole number need repeat once only, unless the header gives a unit. Of other numbers, each must be there twice: measured
    values may repeat by chance, and 1.1, 1.1, 1.2, 1.2 do not.
    """
    name = grid.header[place]
    numbers = parse_numbers(grid.columns[place])
    if name.casefold() != "instance" and not numbers.problems.keys() <= MEASURED:
        return None
    values = numbers.values[np.isfinite(numbers.values)]
    if (values == np.round(values)).all() and split_unit(name)[1] is None:
        return lambda labels: len(set(labels)) < len(labels)
    return lambda labels: min(Counter(labels).values()) > 1


def _label_texts(grid: Grid, place: int) -> tuple[list[str], list[Finding]]:
    """The labels of a column; of a text file, without the apostrophes that keep them from being computed."""
    texts = list(map(_text, grid.columns[place]))
    if not grid.delimiter:
        return texts, []
    texts, taken_off = without_apostrophes(texts)
    return texts, [apostrophes(grid.file, taken_off, column=grid.header[place])] if taken_off else []


def _array(texts: Sequence[str]) -> Texts:
    return np.array(texts, dtype=np.str_)


def _read_column(grid: Grid, place: int, role: str) -> tuple[list[str], list[Finding]]:
    """A column of labels, and what is wrong or odd with them."""
    name, cells = grid.header[place], grid.columns[place]
    labels, noted = _label_texts(grid, place)
    findings = noted + _label_cells(grid, place, role) + _long_labels(grid, labels, name)
    if role != "instance":
        findings += similar_labels(labels, role, grid.file, name) + _merged_labels(grid, cells, labels, name)
        findings += _numbers_as_labels(grid, cells, name)
    return labels, findings


def _long_labels(grid: Grid, labels: Sequence[str], name: str) -> list[Finding]:
    """Labels are kept as wide as the longest of them, so that one could fill the memory."""
    longest = max(map(len, labels), default=0)
    size = 4 * longest * len(labels)
    if longest > limit("LETTERS"):
        what = limit_text("LETTERS")
    elif size > limit("TABLE_MB") * 1_000_000:
        what = f"labels as long as it take {size / 1e6:,.0f} MB in {len(labels):,} rows, and {limit_text('TABLE_MB')}"
    else:
        return []
    at = next(at for at, label in enumerate(labels) if len(label) == longest)
    message = f"the label {quoted([labels[at]])[0]} has {longest:,} letters; {what}"
    fix = "Shorten the label, and look for a quotation mark that was never closed"
    return [Finding("error", "long-label", message, fix, grid.file, (grid.rows[at],), name)]


def similar_labels(labels: Iterable[str], role: str, file: str, column: str | None = None) -> list[Finding]:
    """Labels that look alike: a slip of the hand makes two sources of one."""
    twins = look_alikes(label for label in labels if label)
    if not twins:
        return []
    text = listing([" / ".join(map(unmistakable, group[:4])) for group in twins], 8)
    message = f"labels that look alike count as different {role}s: {text}"
    fix = f"If they are one {role}, write it in one way"
    return [Finding("warning", f"similar-{role}s", message, fix, file, (), column)]


def _merged_labels(grid: Grid, cells: Sequence[object], labels: Sequence[str], name: str) -> list[Finding]:
    """Cells that are read as one label although they differ: by spaces around them, or a number and a text."""
    forms: dict[str, dict[str | None, None]] = defaultdict(dict)
    for cell, label in zip(cells, labels, strict=True):
        if label:
            forms[label][cell if isinstance(cell, str) else None] = None
    merged = [
        " / ".join(f"{label} (no text)" if form is None else unmistakable(form) for form in list(each)[:4])
        for label, each in forms.items()
        if len(each) > 1
    ]
    if not merged:
        return []
    message = f"cells that differ by spaces, or as text and number, were read as one label: {listing(merged, 8)}"
    return [Finding("warning", "merged-labels", message, "If they are two, name them differently", grid.file, (), name)]


def _numbers_as_labels(grid: Grid, cells: Sequence[object], name: str) -> list[Finding]:
    """1.10 is the number 1.1, and a number has 15 digits in Excel: labels that differ may have become one."""
    odd = [at for at, cell in enumerate(cells) if isinstance(cell, int | float) and not _is_plain(cell)]
    if not odd:
        return []
    some = listing(list(dict.fromkeys(_text(cells[at]) for at in odd)))
    message = f"labels are numbers ({some}): 1.1 and 1.10 are one number, and so are two that differ beyond 15 digits"
    fix = "If labels were lost, keep them as text: in Excel, choose the format Text for the column, and type them again"
    rows = tuple(grid.rows[at] for at in odd)
    return [Finding("warning", "numbers-as-labels", message, fix, grid.file, rows, name)]


def _is_plain(number: float) -> bool:
    """Whether a number is whole, and short enough to be exactly what was typed."""
    return isinstance(number, bool) or (abs(number) < 1e15 and number == int(number))


def _text(cell: object) -> str:
    """A cell as a label: the number 12.0 of a workbook is the label 12, as Excel shows it."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, Merged):
        return _text(cell.value)
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
    counters: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    return [str(next(counters[label])) for label in source]


def _label_cells(grid: Grid, place: int, role: str) -> list[Finding]:
    """Cells that hold no label, or one that Excel may have made up."""
    name = grid.header[place]
    empty, broken, dates, cut = [], [], [], []
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if cell is FORMULA or is_blank(cell):
            empty.append(row)
        elif isinstance(cell, str):
            if cell[:1] == "#" and cell in EXCEL_ERRORS:
                broken.append(row)
            elif "\0" in cell:  # at its end, numpy would drop it
                cut.append(row)
        elif role != "session" and isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
            dates.append(row)  # a session may well be a day
    fill = f"Name the {role} in every row; merged cells hold their text in the first row only"
    if role in ("session", "instance"):
        fill += f". If it is not meant as the {role}, leave the column out with {setting('ignore')}"
    made_up = "is a date or time: Excel may have made it of a label such as 1-2"
    cases: tuple[tuple[list[int], Level, str, str, str], ...] = (
        (empty, "error", f"empty-{role}", "is empty", fill),
        (broken, "error", "excel-error", "is the error of an Excel formula", "Mend the formula"),
        (cut, "error", "binary-label", "holds a NUL character", "Write the label as plain text"),
        (dates, "warning", "date-label", made_up, "If so, type the labels again in cells of format Text"),
    )
    return [
        Finding(level, code, f"the {role} {what}", fix, grid.file, tuple(rows), name)
        for rows, level, code, what, fix in cases
        if rows
    ]


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
            here, one, other = quoted([label, known, its_group])
            cases.setdefault(label, f"{here} ({one} in row {known_row}, {other} in row {row})")
    if not rows:
        return []
    message = f"a source lies in two groups: {listing(list(cases.values()))}"
    fix = "Give each source one group, or different sources different labels"
    return [Finding("error", "source-in-two-groups", message, fix, grid.file, tuple(rows), name)]


def _repeated_instances(
    grid: Grid, source: Sequence[str], session: Sequence[str] | None, instance: Sequence[str], name: str
) -> list[Finding]:
    """Measurements of one number: a source, or a session of it where there are sessions, has each number once."""
    first: dict[tuple[str, str, str], int] = {}
    rows: list[int] = []
    cases: list[str] = []
    for row, label, within, its_instance in zip(grid.rows, source, session or source, instance, strict=True):
        if not label or not its_instance:
            continue
        known_row = first.setdefault((label, within, its_instance), row)
        if known_row != row:
            rows.append(row)
            which, whose = quoted([its_instance, label])
            cases.append(f"instance {which} of source {whose} (rows {known_row} and {row})")
    if not rows:
        return []
    message = f"an instance of a source occurs twice: {listing(cases)}"
    fix = (
        "Give each measurement of a source its own label; if the column is no instance, leave it out with "
        f"{setting('ignore', name)}"
    )
    return [Finding("error", "repeated-instance", message, fix, grid.file, tuple(rows), name)]

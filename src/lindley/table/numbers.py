"""The features of a table: columns of cells as numbers, and everything that stands where a number should."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from lindley.settings import setting
from lindley.table.cells import NOT_ZERO, NUMBERS, classify, without_sign
from lindley.table.columns import BelowLimit
from lindley.table.files import Grid
from lindley.table.findings import Finding, listing, quoted

__all__ = ["MEASURED", "NumberCells", "Numbers", "number_findings", "parse_numbers"]

_BELOW_LIMIT: dict[BelowLimit, tuple[float, str]] = {
    "half": (0.5, "half of the limit"),
    "limit": (1.0, "the limit itself"),
    "sqrt2": (math.sqrt(0.5), "the limit over √2"),
}
_GIVE = "Give the measured value, leave the measurement out or {}"
_PROBLEMS = {
    "blank": ("missing-value", "the cell is empty", "the cell is empty", _GIVE),
    "not-finite": ("not-finite", "{} is not a finite number", "{} are not finite numbers", _GIVE),
    "too-small": (
        "too-small", "{} is so small that it would be read as 0", "{} are so small that they would be read as 0",
        "Give the feature in another unit, of ordinary numbers, or {}",
    ),
    "shown-otherwise": (
        "shown-otherwise", "a cell holds {} in Excel: it cannot be known which is meant",
        "cells hold {} in Excel: it cannot be known which is meant",
        "Format the cells as Number, so that the number you see is the one that is read, and check it",
    ),
    "merged": (
        "merged-cells", "the cell {} is merged with others in Excel: it cannot be known which row it is measured of",
        "the cells {} are merged with others in Excel: it cannot be known which rows they are measured of",
        "Unmerge the cells, and give each row its own value, or {}",
    ),
    "thousands": (
        "thousands-mark", "{} has thousands marks", "{} have thousands marks",
        "Write 1234.56 or 1234,56: in Excel, take 'Use 1000 Separator' off the format of the cells",
    ),
    "excel-error": (
        "excel-error", "{} is the error of an Excel formula", "{} are errors of Excel formulas", "Mend the formula, or {}",
    ),
    "date": (
        "date-in-number", "the cell holds the date or time {}", "the cells hold dates or times, {}",
        "Excel may have turned a number into a date: type it again in a Number cell, or {}",
    ),
    "formula": (
        "formula-without-value", *["the cell holds a formula whose value was never calculated"] * 2,
        "Open the workbook in Excel, which calculates it, and save it",
    ),
    "below-limit": (
        "below-limit", "{} is below the detection limit", "{} are below the detection limit",
        f"Say what they are to be read as with {setting('below_limit', 'half')} (or limit, or sqrt2), or {{}}",
    ),
    "text": ("not-a-number", "{} is not a number", "{} are not numbers", "Give a number, or {}"),
}  # fmt: skip
"""Of every kind of cell that is no number: the code, the message for one and for several contents, and the fix."""

MEASURED = {"blank", "not-finite", "excel-error", "below-limit"}
"""The kinds of cells that a column of numbers may hold beside them."""


class NumberCells(Sequence[float]):
    """An array of numbers as a column of cells, which become Python numbers only when somebody looks at one."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> float: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[float]: ...
    def __getitem__(self, at: int | slice) -> float | Sequence[float]:
        return self.values[at].tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column as float64, NaN where a cell is no number; ``problems`` lists these cells by their kind."""

    values: NDArray[np.float64]
    points: bool = False  # some cell has a decimal point
    commas: bool = False  # some cell has a decimal comma
    problems: Mapping[str, Sequence[int]] = field(default_factory=dict)
    replaced: Sequence[int] = ()  # cells below the detection limit
    read_as: str = ""  # in words


def parse_numbers(cells: Sequence[object], below_limit: BelowLimit | None = None) -> Numbers:
    """Read a column: at once where all cells are plain numbers, cell by cell where one is not."""
    if isinstance(cells, NumberCells):
        values = np.asarray(cells.values, dtype=np.float64)
        if np.isfinite(values).all():
            return Numbers(values)
    kinds = set(map(type, cells))
    if kinds <= {float, int}:
        with suppress(OverflowError):  # a whole number of 400 digits
            values = np.array(cells, dtype=np.float64)
            if np.isfinite(values).all():
                return Numbers(values)
    if kinds == {str}:
        texts = cast(Sequence[str], cells)
        joined = "\n".join(texts)
        points, commas = "." in joined, "," in joined
        # float() takes 1_000 and foreign digits, which no laboratory means
        if joined.isascii() and "_" not in joined and not (points and commas):
            try:
                if commas:
                    texts = [text.replace(",", ".") for text in texts]
                values = np.fromiter(map(float, texts), np.float64, len(texts))
            except ValueError:
                pass
            else:
                vanished = any(NOT_ZERO.match(texts[at]) for at in np.flatnonzero(values == 0).tolist())
                if np.isfinite(values).all() and not vanished:
                    return Numbers(values, points, commas)
    return _parse_one_by_one(cells, below_limit)


def _parse_one_by_one(cells: Sequence[object], below_limit: BelowLimit | None) -> Numbers:
    share, read_as = (math.nan, "") if below_limit is None else _BELOW_LIMIT[below_limit]
    values = np.full(len(cells), np.nan)
    seen: set[str] = set()
    problems: dict[str, list[int]] = {}
    replaced = []
    for place, cell in enumerate(cells):
        kind, value = classify(cell)
        if kind == "text" and (of_limit := classify(without_sign(cell)))[1] > 0:
            kind, value = "below-limit", of_limit[1] * share
            if below_limit is not None:
                kind = of_limit[0]
                replaced.append(place)
        values[place] = value
        seen.add(kind)
        if kind not in NUMBERS:
            problems.setdefault(kind, []).append(place)
    return Numbers(values, "point" in seen, "comma" in seen, problems, replaced, read_as)


def number_findings(grid: Grid, place: int, numbers: Numbers, *, needed: bool = False) -> list[Finding]:
    """One finding for each kind of problem in a column, with all its rows; ``needed``: it cannot be left out."""
    name = grid.header[place]
    cells = grid.columns[place]
    findings = []
    for kind, places in numbers.problems.items():
        code, of_one, of_several, fix = _PROBLEMS[kind]
        texts = quoted(dict.fromkeys(str(cells[each]).strip() for each in places))
        message = (of_one if len(texts) == 1 else of_several).format(listing(texts))
        if kind == "blank" and len(places) == len(cells) > 1:
            message = "the column has no values"
        otherwise = f"leave the column out with {setting('ignore', name)}"
        fix = fix.format("measure it again: the system needs this column" if needed else otherwise)
        rows = tuple(grid.rows[each] for each in places)
        findings.append(Finding("error", code, message, fix, grid.file, rows, name))
    if numbers.replaced:
        some = listing(quoted(dict.fromkeys(str(cells[each]).strip() for each in numbers.replaced)))
        message = (
            f"{len(numbers.replaced)} below the detection limit ({some}) read as {numbers.read_as}, as was asked for"
        )
        rows = tuple(grid.rows[each] for each in numbers.replaced)
        findings.append(Finding("warning", "below-limit", message, "", grid.file, rows, name))
    if not grid.delimiter:
        finite = np.isfinite(numbers.values)
        as_text = [each for each, cell in enumerate(cells) if isinstance(cell, str) and finite[each]]
        if as_text:
            message = "stored as text in Excel and read as a number"
            rows = tuple(grid.rows[each] for each in as_text)
            findings.append(Finding("note", "number-as-text", message, "", grid.file, rows, name))
    return findings

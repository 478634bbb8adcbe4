"""Decimal marks: two of them in one file, and numbers such as 1,934 that could be 1.934 or 1934."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lindley.settings import setting
from lindley.table.cells import classify, without_sign
from lindley.table.columns import Decimal
from lindley.table.files import Grid
from lindley.table.findings import Finding, listing, quoted
from lindley.table.numbers import Numbers

__all__ = ["mark_findings"]

_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")


def mark_findings(grid: Grid, columns: Mapping[int, Numbers], decimal: Decimal | None = None) -> list[Finding]:
    """Decimal points and commas in one file, or a mark that could as well be one of thousands.

    ``1,934`` is 1.934 or 1934. Where the ``decimal`` mark is told there is nothing to ask; nor in a file with commas between
    its columns and points in its numbers, or where other cells of the column show what the mark is.
    """
    points = any(numbers.points for numbers in columns.values())
    commas = any(numbers.commas for numbers in columns.values())
    if (points and commas) or (decimal == "," and points) or (decimal == "." and commas):
        return _mixed_marks(grid, columns, decimal)
    if decimal is not None or not (points or commas) or (points and grid.delimiter == ","):
        return []
    marked = [place for place, numbers in columns.items() if numbers.points or numbers.commas]
    doubtful = [
        place for place in marked if all(_PERHAPS_THOUSANDS.fullmatch(text) for *_, text in _marked(grid, place))
    ]
    if len(doubtful) == len(marked):
        return [_ambiguous_mark(grid.file, *next(_marked(grid, marked[0])), "every such number of the file")]
    # another column shows what the mark is, but whole numbers between the others speak for thousands
    every = "every such number of the column, which has whole numbers between them"
    return [
        _ambiguous_mark(grid.file, *next(_marked(grid, place)), every)
        for place in doubtful
        if sum(1 for _ in _marked(grid, place)) < len(grid.rows)
    ]


def _mixed_marks(grid: Grid, columns: Mapping[int, Numbers], decimal: Decimal | None) -> list[Finding]:
    """Name the cells of the rarer mark, or of the one that it should not be, and one cell of the other to compare with."""
    cells: dict[str, list[tuple[int, int]]] = {"point": [], "comma": []}
    for place in columns:
        for each, cell in enumerate(grid.columns[place]):
            kind = classify(without_sign(cell))[0]
            if isinstance(cell, str) and kind in cells:
                cells[kind].append((place, each))
    rare, common = sorted(cells, key=lambda kind: len(cells[kind]))
    if decimal is not None:
        rare, common = ("comma", "point") if decimal == "." else ("point", "comma")
    example = f"as {setting('decimal', decimal)} says" if decimal is not None else ""
    if not example:
        place, each = cells[common][0]
        example = f"row {grid.rows[each]}, column '{grid.header[place]}' has {quoted([grid.columns[place][each]])[0]}"
    findings = []
    for place in dict.fromkeys(place for place, _ in cells[rare]):
        hits = [each for other, each in cells[rare] if other == place]
        text = listing(quoted(grid.columns[place][each] for each in hits))
        message = f"a decimal {rare} ({text}) in a file of decimal {common}s ({example})"
        fix = f"Use the decimal {common} throughout, and no mark for thousands"
        rows = tuple(grid.rows[each] for each in hits)
        findings.append(Finding("error", "mixed-decimal-marks", message, fix, grid.file, rows, grid.header[place]))
    return findings


def _marked(grid: Grid, place: int) -> Iterator[tuple[str, int, str]]:
    """Column, row and text of every cell of a column that has a point or a comma."""
    for row, cell in zip(grid.rows, grid.columns[place], strict=True):
        if isinstance(cell, str) and ("." in cell or "," in cell):
            yield grid.header[place], row, str(without_sign(cell)).strip()


def _ambiguous_mark(file: str, column: str, row: int, cell: str, every: str) -> Finding:
    """1.934 or 1934? We ask."""
    plain, mark = cell.replace(",", "."), "," if "," in cell else "."
    message = f"'{cell}' could be {plain} or {plain.replace('.', '')}, and so could {every}"
    fix = f"If it is {plain}, say so with {setting('decimal', mark)}; if not, save the numbers without thousands marks"
    return Finding("error", "ambiguous-mark", message, fix, file, (row,), column)

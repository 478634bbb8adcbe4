"""A file as columns of cells, before anybody decides what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lindley.table.findings import Finding, listing

__all__ = ["FORMULA", "Grid", "build_grid", "is_blank"]


class _Formula:
    """Stands in an Excel cell whose formula was never calculated, so that it does not look blank."""

    def __str__(self) -> str:
        return "a formula without a value"


FORMULA = _Formula()


@dataclass(frozen=True, eq=False)
class Grid:
    """The header and the cells under it, by column.

    A cell of a text file is a ``str``; one of a workbook is whatever Excel holds: text, a number, a truth
    value, a date, ``None`` for a blank, or `FORMULA`. ``delimiter`` is empty for a workbook.
    ``complete`` is false when rows were set aside because of an error: nothing is concluded from how many are
    left.
    """

    file: str
    header: tuple[str, ...]
    columns: tuple[Sequence[object], ...]
    rows: tuple[int, ...]  # the row number of each cell in a column
    delimiter: str
    complete: bool


def is_blank(cell: object) -> bool:
    """Whether a cell holds nothing, or spaces only."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def build_grid(
    file: str,
    header: Sequence[object],
    records: Sequence[Sequence[object]],
    rows: Sequence[int],
    *,
    header_row: int = 1,
    delimiter: str = "",
    complete: bool = True,
) -> tuple[Grid | None, list[Finding]]:
    """Stand records of equal length up as named columns; ``None`` if there is no measurement in them."""
    if not records and complete:
        message = "there is a header and no measurement under it"
        fix = "Add one row per measurement, or check that the right file or sheet was given"
        return None, [Finding("error", "empty-table", message, fix, file)]
    names = [" ".join(_name(cell).split()) for cell in header]
    findings = _duplicated_names(file, header_row, names)
    columns: list[Sequence[object]] = list(zip(*records, strict=True)) if records else [() for _ in names]
    kept = []
    for place, name in enumerate(names):
        if name:
            kept.append(place)
        else:
            findings.append(_unnamed(file, place, header_row, columns[place], rows))
    grid = Grid(
        file,
        tuple(names[place] for place in kept),
        tuple(columns[place] for place in kept),
        tuple(rows),
        delimiter,
        complete,
    )
    return grid, findings


def _name(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell)


def _duplicated_names(file: str, header_row: int, names: Sequence[str]) -> list[Finding]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place + 1)
    return [
        Finding(
            "error",
            "duplicate-column",
            f"{len(found)} columns have this name (columns {listing(found)} from the left)",
            "Give each column its own name",
            file,
            (header_row,),
            name,
        )
        for name, found in places.items()
        if name and len(found) > 1
    ]


def _unnamed(file: str, place: int, header_row: int, cells: Sequence[object], rows: Sequence[int]) -> Finding:
    where = f"column {place + 1} from the left ({_letters(place)} in Excel)"
    filled = tuple(row for row, cell in zip(rows, cells, strict=True) if not is_blank(cell))
    if not filled:
        return Finding("note", "empty-column", f"{where} has no name and no values and was left out", file=file)
    return Finding(
        "error",
        "unnamed-column",
        f"{where} holds values but has no name in row {header_row}",
        "Name it; if it is no measurement, such as a row number, delete it or name it and leave it out with "
        "--ignore-columns",
        file,
        filled,
    )


def _letters(place: int) -> str:
    """The letters by which Excel names a column, here counted from 0."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(65 + rest) + letters
    return letters

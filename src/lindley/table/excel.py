"""Read one sheet of an Excel workbook (.xlsx)."""

from __future__ import annotations

import difflib
import io
import warnings
from collections.abc import Sequence
from typing import Any

from lindley.table.findings import Finding, listing, quoted
from lindley.table.grid import FORMULA, Grid, build_grid, is_blank

__all__ = ["read_workbook"]

_SAVE_AGAIN = "Open it in Excel and save it again as 'Excel Workbook (*.xlsx)'"


def read_workbook(file: str, data: bytes, sheet: str | None = None) -> tuple[Grid | None, list[Finding]]:
    """The cells of the named sheet, of the first one without a name."""
    problem = _not_a_workbook(file, data)
    if problem is not None:
        return None, [problem]
    try:
        names, chosen, records = _load(data, sheet, calculated=True)
    except Exception as error:  # whatever openpyxl, zipfile or the XML parser stumble over in a damaged file
        message = f"the workbook is damaged ({type(error).__name__}: {error})"
        return None, [Finding("error", "corrupt-workbook", message, _SAVE_AGAIN, file)]
    if chosen is None:
        return None, [_missing_sheet(file, sheet, names)]
    findings = []
    if sheet is None and len(names) > 1:
        message = f"the first sheet '{chosen}' was read, of {listing(quoted(names), 8)}"
        findings.append(Finding("note", "first-sheet", message, "Name another one with --sheet", file))
    while records and all(is_blank(cell) for cell in records[-1]):
        records.pop()
    blank = [all(is_blank(cell) for cell in record) for record in records]
    if not records:
        message = f"the sheet '{chosen}' is empty"
        return None, [
            *findings,
            Finding("error", "empty-file", message, "Name another one with --sheet", file),
        ]
    start = blank.index(False)
    if any(blank):
        skipped = tuple(place + 1 for place, empty in enumerate(blank) if empty)
        findings.append(Finding("note", "empty-rows", "empty and skipped", file=file, rows=skipped))
    width = max(place + 1 for record in records for place, cell in enumerate(record) if not is_blank(cell))
    padded = [[*record[:width], *[None] * (width - len(record))] for record in records]
    if any(is_blank(cell) for record, empty in zip(padded, blank, strict=True) if not empty for cell in record):
        _mark_formulas(data, chosen, padded)
    kept = [place for place in range(start + 1, len(padded)) if not blank[place]]
    grid, grid_findings = build_grid(
        file,
        padded[start],
        [padded[place] for place in kept],
        [place + 1 for place in kept],
        header_row=start + 1,
    )
    return grid, findings + grid_findings


def _not_a_workbook(file: str, data: bytes) -> Finding | None:
    if data.startswith(b"PK"):
        return None
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        message = "this is an old .xls workbook, or one that is protected with a password"
        fix = "Open it in Excel, take the password off and save it as 'Excel Workbook (*.xlsx)'"
        return Finding("error", "corrupt-workbook", message, fix, file)
    message = "the content is not that of an Excel workbook"
    fix = "Save it again from Excel as .xlsx; if it is a text file, give it the ending .csv"
    return Finding("error", "corrupt-workbook", message, fix, file)


def _load(data: bytes, sheet: str | None, *, calculated: bool) -> tuple[list[str], str | None, list[list[object]]]:
    """Names of the sheets, the one chosen (``None``: not there) and its cells, calculated or as formulas."""
    import openpyxl  # loaded here: it takes a quarter of a second, and a CSV needs none of it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of styles and validations, which hold no measurements
        book: Any = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=calculated)
        try:
            names: list[str] = [each.title for each in book.worksheets]
            chosen = sheet if sheet is not None else names[0]
            if chosen not in names:
                return names, None, []
            page = book[chosen]
            page.reset_dimensions()  # some writers state a size that is too small, and rows would be lost
            return names, chosen, [list(record) for record in page.iter_rows(values_only=True)]
        finally:
            book.close()


def _mark_formulas(data: bytes, sheet: str, records: Sequence[list[object]]) -> None:
    """Put FORMULA into the cells that look blank because a program wrote a formula and no result."""
    for record, formulas in zip(records, _load(data, sheet, calculated=False)[2], strict=False):
        for place, formula in enumerate(formulas[: len(record)]):
            if record[place] is None and formula is not None:
                record[place] = FORMULA


def _missing_sheet(file: str, sheet: str | None, names: Sequence[str]) -> Finding:
    close = difflib.get_close_matches(sheet or "", names, 1)
    hint = f"; did you mean '{close[0]}'" if close else ""
    message = f"there is no sheet '{sheet}' (the workbook has {listing(quoted(names), 12)}){hint}"
    return Finding("error", "missing-sheet", message, "Name one of these with --sheet", file)

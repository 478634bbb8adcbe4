"""What one cell of a table holds: a number, and how it is written, or what else stands in its place."""

from __future__ import annotations

import datetime
import math
import re
import sys
from dataclasses import dataclass

__all__ = ["EXCEL_ERRORS", "FORMULA", "NOT_ZERO", "NUMBERS", "Merged", "Shown", "classify", "is_blank", "without_sign"]

EXCEL_ERRORS = frozenset(
    ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#GETTING_DATA")
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:([.,])\d*)?|([.,])\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity|∞|1\.#(?:qnan|ind|inf)\w*)", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d*|(?:,\d{3})+\.\d*|(?:\.\d{3}){2,}|(?:,\d{3}){2,}"
    r"|(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d*)?)"
)
NOT_ZERO = re.compile(r"[^eE]*[1-9]")
"""A number that is not 0, by its digits."""
NUMBERS = ("whole", "point", "comma")
"""The kinds of cells that are numbers."""


class _Formula:
    """Stands in an Excel cell whose formula was never calculated, so that it does not look blank."""

    def __str__(self) -> str:
        return "a formula without a value"


FORMULA = _Formula()


class Shown(float):
    """A number that Excel shows as another one, as per cent or in thousands, or not at all: which is meant is not known."""

    how: str

    def __new__(cls, number: float, how: str) -> Shown:
        """The number in the cell, and how it is shown."""
        made = super().__new__(cls, number)
        made.how = how
        return made

    def __str__(self) -> str:
        return f"{float(self):.15g} {self.how}"


@dataclass(frozen=True)
class Merged:
    """A cell that Excel shows as one with others: the label of all their rows, and the measurement of none."""

    value: object

    def __str__(self) -> str:
        return str(self.value)


def is_blank(cell: object) -> bool:
    """Whether a cell holds nothing, or spaces only; in a data frame, NaN is nothing."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def classify(cell: object) -> tuple[str, float]:
    """The kind of a cell, and its number: ``whole``, ``point`` and ``comma`` are numbers, and all others have none."""
    if isinstance(cell, bool):
        return "text", math.nan
    if isinstance(cell, Shown):
        return "shown-otherwise", math.nan
    if isinstance(cell, Merged):
        return "merged", math.nan
    if is_blank(cell):
        return "blank", math.nan
    if isinstance(cell, int | float):
        finite = -sys.float_info.max <= cell <= sys.float_info.max
        return ("whole", float(cell)) if finite else ("not-finite", math.nan)
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return "date", math.nan
    if cell is FORMULA:
        return "formula", math.nan
    text = str(cell).strip().replace("−", "-")
    if text.upper() in EXCEL_ERRORS:
        return "excel-error", math.nan
    number = _NUMBER.fullmatch(text) if text.isascii() else None
    if number:
        value = float(text.replace(",", "."))
        if not math.isfinite(value):
            return "not-finite", math.nan
        if value == 0 and NOT_ZERO.match(text):
            return "too-small", math.nan
        return {None: "whole", ".": "point", ",": "comma"}[number[1] or number[2]], value
    if _NOT_FINITE.fullmatch(text):
        return "not-finite", math.nan
    return ("thousands" if _THOUSANDS.fullmatch(text) else "text"), math.nan


def without_sign(cell: object) -> object:
    """The limit of a cell such as ``<0.02``; any other cell as it is."""
    text = cell.strip() if isinstance(cell, str) else ""
    return text[1:] if text.startswith("<") else cell

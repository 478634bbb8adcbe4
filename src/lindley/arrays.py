"""Numbers from whatever holds them: lists, arrays of numpy with or without a mask, columns of data frames."""

from __future__ import annotations

import decimal
import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError

__all__ = ["as_numbers"]

_NO_NUMBERS = {"b": "a truth value", "c": "a complex number", "M": "a date", "m": "a time", "U": "text", "S": "text"}
"""What an array holds, by its kind in numpy."""


def as_numbers(data: Any, what: str) -> NDArray[np.float64]:
    """An array of float64, with NaN where a value is masked or missing; ``what`` names it in errors.

    Refuse what numpy alone makes numbers of: truth values, dates and texts such as ``2_63``.

    >>> as_numbers([[2.9, None], np.ma.array([3, 4], mask=[True, False])], "trace 1").tolist()
    [[2.9, nan], [nan, 4.0]]

    Raises:
        LindleyError: if something in it is no number, or its rows differ in length.
    """
    try:
        if isinstance(data, list | tuple):
            plain = all(map(_is_number, set(map(type, data))))
            return np.array(data if plain else [as_numbers(each, what) for each in data], dtype=np.float64)
        array = np.asanyarray(data)
        if array.dtype.kind in "iuf":
            with np.errstate(over="ignore"):
                values = np.asarray(array, dtype=np.float64)
            return np.where(array.mask, np.nan, values) if isinstance(array, np.ma.MaskedArray) else values
        cells = array.ravel().tolist()
        if array.dtype.kind == "O":
            if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
                return as_numbers(array.tolist(), what)
            return np.array([_number(cell, what) for cell in cells], dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise LindleyError(f"{what}: not an array of numbers, with rows of equal length ({error})") from error
    raise _no_number(array.ravel()[0] if cells else data, what, _NO_NUMBERS.get(array.dtype.kind, type(data).__name__))


def _is_number(kind: type) -> bool:
    return kind is not bool and issubclass(kind, numbers.Real | decimal.Decimal)


def _number(cell: Any, what: str) -> float:
    """A cell of an array of objects as a number; NaN for what pandas and numpy call missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return math.nan
    if not _is_number(type(cell)):
        kind = "text" if isinstance(cell, str | bytes) else type(cell).__name__
        raise _no_number(cell, what, "a truth value" if kind in ("bool", "bool_") else kind)
    return float(cell)


def _no_number(value: Any, what: str, kind: str) -> LindleyError:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    return LindleyError(f"{what}: {shown} is {kind}, where a number is needed")

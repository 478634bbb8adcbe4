"""Tables that are in memory: data frames of pandas, polars or pyarrow, dictionaries of columns, and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.table.columns import Reading, feature_places
from lindley.table.files import Grid, build_grid
from lindley.table.findings import Finding
from lindley.table.numbers import NumberCells
from lindley.table.table import ROLES

__all__ = ["by_name", "columns_of", "frame_grid"]

Column = NDArray[Any]


def columns_of(data: Any) -> dict[str, Column] | None:
    """The columns of a data frame or a dictionary by their names, ``None`` in place of what is missing; else ``None``.

    >>> columns_of({"K39": [2.9, 3.1]}), columns_of([[2.9], [3.1]])
    ({'K39': array([2.9, 3.1])}, None)
    """
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals  # loaded here: a file needs none of it

    if isinstance(data, Mapping):
        return {str(name): _column(values) for name, values in data.items()}
    try:
        frame = narwhals.from_native(data, pass_through=True)
    except Exception as error:  # such as two columns of one name
        raise LindleyError(f"the data frame cannot be read: {error}") from error
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, narwhals.DataFrame):
        return None
    return {str(name): _column(frame[name]) for name in frame.columns}


def by_name(
    data: Any, wanted: Sequence[str], what: str, units: Sequence[str | None] | None = None
) -> NDArray[np.float64]:
    """The wanted columns in their order, (rows, wanted), of anything that `columns_of` knows; ``what`` names it in errors.

    A column ``K39 [ppm]`` is K39, too. A cell that is missing becomes NaN.

    Raises:
        LindleyError: if a column is not there, there are two for one, or one says another unit than ``units``.
    """
    columns = columns_of(data)
    if columns is None:
        raise LindleyError(f"{what}: named columns are needed, as those of a data frame or a dictionary")
    names = list(columns)
    places, findings = feature_places(names, wanted, units or [None] * len(wanted), what)
    if findings:
        raise LindleyError(" ".join(map(str, findings)))
    try:
        return np.column_stack([np.asarray(columns[names[places[name]]], dtype=np.float64) for name in wanted])
    except (TypeError, ValueError) as error:
        raise LindleyError(f"{what}: its columns are not numbers of equal count ({error})") from error


def frame_grid(data: Any, reading: Reading) -> tuple[Grid, list[Finding], Reading]:
    """The cells of a data frame, a dictionary or an array, with labels that are arrays as further columns.

    The reading that comes back names every label by a column. Rows are counted from 0.
    """
    columns = columns_of(data)
    if columns is None:
        columns = _of_array(data, reading.features)
        reading = replace(reading, features=None, name=reading.name or "arrays")
    named: dict[str, Any] = {"name": reading.name or "table"}
    for role in ROLES:
        label = getattr(reading, role)
        if label is None or isinstance(label, str):
            continue
        if role in columns:
            raise LindleyError(
                f"{role}: an array was given, and the data has a column '{role}' as well. Leave one out."
            )
        columns[role] = _column(label)
        named[role] = role
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise LindleyError(f"all columns need as many rows, and they have others: {told}")
    cells = [NumberCells(each) if each.dtype.kind in "iuf" else each.tolist() for each in columns.values()]
    # text in a cell is judged as that of a file with commas between its columns
    findings: list[Finding] = []
    grid = build_grid(named["name"], list(columns), (), findings, header_row=0, delimiter=",", columns=cells)
    return grid, findings, replace(reading, **named)


def _of_array(data: Any, features: Sequence[str] | None) -> dict[str, Column]:
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise LindleyError(f"the data is not an array of rows × features ({error})") from error
    if array.ndim != 2:
        raise LindleyError(
            f"a table is a file, a data frame, a dictionary of columns or an array of rows × features, and not "
            f"{type(data).__name__}" + (f" of shape {array.shape}" if array.ndim else "")
        )
    names = [f"x{i + 1}" for i in range(array.shape[1])] if features is None else list(features)
    if len(names) != array.shape[1] or len(set(names)) != len(names):
        raise LindleyError(f"{len(set(names))} different names of features do not fit {array.shape[1]} columns")
    return dict(zip(names, array.T, strict=True))


def _column(values: Any) -> Column:
    import narwhals

    series = narwhals.from_native(values, allow_series=True, pass_through=True)
    if isinstance(series, narwhals.Series):
        missing = series.is_null()
        if series.dtype.is_numeric() and not missing.any():
            return np.asarray(series.to_numpy())
        cells = zip(series.to_list(), missing.to_list(), strict=True)
        return _objects([None if gone else cell for cell, gone in cells])
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:  # lists of several lengths, each in a cell
        return _objects(list(values))
    if isinstance(values, list | tuple) and array.dtype.kind not in "biuf":
        return _objects(list(values))  # of which numpy would make text, where a number stands beside text
    return array


def _objects(cells: list[Any]) -> Column:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column

"""Tables that are in memory: data frames of pandas, polars or pyarrow, dictionaries of columns, and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lindley.arrays import as_numbers
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.columns import Reading
from lindley.table.files import Grid, build_grid
from lindley.table.findings import Finding, stop
from lindley.table.numbers import NumberCells
from lindley.table.table import ROLES

__all__ = ["columns_of", "frame_grid", "require_unnamed"]

Column = NDArray[Any]


def columns_of(data: Any) -> dict[str, Column] | None:
    """The columns of a data frame or a dictionary by their names, ``None`` in place of what is missing; else ``None``.

    A Series with names in its index is one row; one that has a name itself is a column.

    >>> columns_of({"K39": [2.9, 3.1]}), columns_of([[2.9], [3.1]])
    ({'K39': array([2.9, 3.1])}, None)
    """
    if isinstance(data, np.ndarray | list | tuple):
        names = data.dtype.names if isinstance(data, np.ndarray) else None
        return None if names is None else {name: _column(np.atleast_1d(data)[name]) for name in names}
    import narwhals  # loaded here: a file needs none of it

    if isinstance(data, Mapping):
        _require_one_index(data.values())
        return {str(name): _column(values) for name, values in data.items()}
    try:
        frame = narwhals.from_native(data, pass_through=True, allow_series=True)
    except Exception as error:  # such as two columns of one name
        raise LindleyError(f"the data frame cannot be read: {error}") from error
    if isinstance(frame, narwhals.Series):
        return _of_series(data, frame)
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, narwhals.DataFrame):
        return None
    return {str(name): _column(frame[name]) for name in frame.columns}


def _of_series(data: Any, series: Any) -> dict[str, Column] | None:
    """One row, by the names in the index; or one column; or ``None`` of values without any name."""
    index = getattr(data, "index", ())
    if any(isinstance(label, str) for label in index):
        if len(set(index)) < len(index):
            raise LindleyError("the index of a Series gives one name to two values: give a data frame, or an array")
        return {str(label): _column([cell]) for label, cell in zip(index, series.to_list(), strict=True)}
    if series.name not in (None, ""):
        return {str(series.name): _column(series)}
    if list(index) not in ([], list(range(len(index)))):
        raise LindleyError(
            "the index of a Series names no features: if its values are in the order of the features, give series.to_numpy()"
        )
    return None


def require_unnamed(rows: Any, what: str) -> None:
    """Refuse a list of what has names, such as rows of a data frame: by position their values may be mixed up."""
    plain = (int, float, list, tuple, np.ndarray, np.generic)
    if isinstance(rows, list | tuple) and any(not isinstance(each, plain) and columns_of(each) for each in rows):
        raise LindleyError(
            f"{what}: a list of rows with names ({type(rows[0]).__name__}) is no array: make a data frame of them, such as "
            "pandas.DataFrame(rows)"
        )


def _require_one_index(values: Iterable[Any]) -> None:
    """Refuse columns of pandas whose rows are numbered or called otherwise: by position they would be mixed up."""
    indices = [each.index for each in values if hasattr(each, "index") and hasattr(each, "to_numpy")]
    if not all(indices[0].equals(each) for each in indices[1:]):
        raise LindleyError(
            "the index of one column or label is not that of another: join them into one data frame, or give each as "
            "series.to_numpy() if their rows are in the same order"
        )


def _add_index(columns: dict[str, Column], data: Any, reading: Reading) -> None:
    """Levels of the index of a data frame as columns: those that are labels; of a case, all with names or text.

    A level of text without a name is called ``index``, as in ``frame.reset_index()``.
    """
    index: Any = getattr(data, "index", None) if getattr(data, "ndim", 0) == 2 else None  # of a Series, features
    levels = {}
    for number, name in enumerate(getattr(index, "names", ())):
        cells = index.get_level_values(number).to_numpy()
        if name is not None or any(isinstance(cell, str) for cell in cells):
            levels[str("index" if name is None else name)] = _column(cells)
    given = {role: getattr(reading, role) for role in ROLES}
    free = {role for role, name in given.items() if name is None} - {name.casefold() for name in columns}
    for name in [name for name in levels if name not in columns]:
        if (
            reading.purpose == "case"
            or name.casefold() in free
            or name in [each for each in given.values() if isinstance(each, str)]
        ):
            columns[name] = levels[name]
    if levels and reading.source is None and reading.purpose != "case" and "source" not in map(str.casefold, columns):
        fix = f"If the index names the sources, say so with {setting('source', next(iter(levels)))}"
        stop("missing-column", "no column is named 'source'", fix, reading.name or "table")


def frame_grid(data: Any, reading: Reading) -> tuple[Grid, list[Finding], Reading]:
    """The cells of a data frame, a dictionary or an array, with labels that are arrays as further columns.

    The reading that comes back names every label by a column. Rows are counted from 0.
    """
    columns = columns_of(data)
    if columns is not None:
        _add_index(columns, data, reading)
    else:
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
        _require_one_index([data, label])
        columns[role] = _column(label)
        named[role] = role
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise LindleyError(f"all columns need as many rows, and they have others: {counts}")
    cells = [NumberCells(each) if each.dtype.kind in "iuf" else each.tolist() for each in columns.values()]
    # text in a cell is judged as that of a file with commas between its columns
    findings: list[Finding] = []
    grid = build_grid(named["name"], list(columns), (), findings, header_row=0, delimiter=",", columns=cells)
    return grid, findings, replace(reading, **named)


def _of_array(data: Any, features: Sequence[str] | None) -> dict[str, Column]:
    require_unnamed(data, "the data")
    try:
        array = data if isinstance(data, np.ndarray) else as_numbers(data, "the data")
    except LindleyError:
        array = np.asarray(data, dtype=object)  # what is no number is found cell by cell
    if array.ndim != 2:
        raise LindleyError(
            f"a table is a file, a data frame, a dictionary of columns or an array of rows × features, and not "
            f"{type(data).__name__}" + (f" of shape {array.shape}" if array.ndim else "")
        )
    names = [f"x{i + 1}" for i in range(array.shape[1])] if features is None else list(features)
    if len(names) != array.shape[1] or len(set(names)) != len(names):
        raise LindleyError(f"{len(set(names))} different names of features do not fit {array.shape[1]} columns")
    return dict(zip(names, map(_column, array.T), strict=True))


def _column(values: Any) -> Column:
    if isinstance(values, np.ma.MaskedArray):
        return _objects(values.tolist())  # None where it is masked
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
    if array.ndim > 1:  # a cell that holds a list is no number, however short the list
        return _objects(list(values))
    if isinstance(values, list | tuple) and (
        array.dtype.kind not in "iuf" or not {bool, np.bool_}.isdisjoint(map(type, values))
    ):
        return _objects(list(values))  # numpy makes text of a number beside text, and a number of a truth value
    return array


def _objects(cells: list[Any]) -> Column:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column

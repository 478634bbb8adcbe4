"""A table of measurements after it was read, checked and transformed; and its CSV."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lindley.arrays import as_numbers
from lindley.errors import LindleyError
from lindley.files import write_atomically
from lindley.shown import as_text_cell, csv_bytes
from lindley.table.scaling import Transform
from lindley.table.units import Units, convert, power_between

if TYPE_CHECKING:
    from lindley.table.findings import Finding

__all__ = ["ROLES", "Table", "export_csv", "in_units", "join_sessions", "with_unit"]

ROLES = ("source", "group", "session", "instance")
"""The columns of labels, by their names where nobody gives others."""


@dataclass(frozen=True, eq=False)
class Table:
    """One row per instance: its features, the source it was measured on, the group of that source, and its session.

    Without a group column every source is its own group. A session belongs to its source: one label in two sources stands for
    two sessions. ``findings`` holds what the checks noticed and the
    table survived: warnings and notes, never errors. ``transform`` was applied to what was measured, in ``units``.
    """

    name: str
    values: NDArray[np.float64]  # (rows, features)
    features: tuple[str, ...]
    source: NDArray[np.str_]  # (rows,)
    group: NDArray[np.str_]  # (rows,)
    instance: NDArray[np.str_]  # (rows,)
    findings: tuple[Finding, ...] = field(default=())
    units: tuple[str | None, ...] = ()  # (features,); left out, none is known
    transform: Transform = Transform()  # noqa: RUF009 - frozen
    raw: NDArray[np.float64] | None = None  # (rows, columns) before a transform; the reference last
    files: tuple[tuple[str, str], ...] = ()  # name and SHA-256 of what was read
    reference_unit: str | None = None  # of what the features were divided by, where it is known
    parts: tuple[Table, ...] = ()  # the tables that it was joined of, as they were; none of one that was read alone
    session: NDArray[np.str_] | None = None  # (rows,), where a column names it

    def __post_init__(self) -> None:
        rows = len(self.values)
        if not any(self.units):
            object.__setattr__(self, "units", (None,) * len(self.features))
        if len(self.units) != len(self.features):
            raise ValueError(f"{len(self.units)} units do not fit {len(self.features)} features")
        if self.values.shape != (rows, len(self.features)):
            raise ValueError(f"values {self.values.shape} do not fit {len(self.features)} features")
        for name in ROLES:
            labels = getattr(self, name)
            if labels is not None and labels.shape != (rows,):
                raise ValueError(f"{name} {labels.shape} does not fit {rows} rows")
        if self.group is not self.source:
            _, first, code = np.unique(self.source, return_index=True, return_inverse=True)
            other = np.flatnonzero(self.group != self.group[first][code])
            if other.size:
                row = other[0]
                raise ValueError(
                    f"source '{self.source[row]}' is in two groups, '{self.group[first][code[row]]}' and "
                    f"'{self.group[row]}': a source belongs to one group"
                )

    @classmethod
    def from_arrays(
        cls,
        values: Any,
        source: Any,
        group: Any = None,
        features: Sequence[str] | None = None,
        name: str = "arrays",
        session: Any = None,
    ) -> Table:
        """A table from arrays that are already clean, such as those of another program."""
        matrix = as_numbers(values, "values")
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError(f"values must be finite, one row per instance: got shape {matrix.shape}")
        labels = np.asarray(source).astype(np.str_)
        names = tuple(features) if features is not None else tuple(f"x{i + 1}" for i in range(matrix.shape[1]))
        groups, sessions = (None if each is None else np.asarray(each).astype(np.str_) for each in (group, session))
        numbers = np.arange(1, len(matrix) + 1).astype(np.str_)
        return cls(name, matrix, names, labels, labels if groups is None else groups, numbers, session=sessions)

    def __repr__(self) -> str:
        some = ", ".join(self.features[:2]) + (", …" if len(self.features) > 2 else "")
        count = f"{len(self.features)} feature" + ("s" if len(self.features) != 1 else "")
        return f"<Table {self.name}: {len(self.values)} rows of {len(self.sources)} sources, {count} ({some})>"

    @property
    def sources(self) -> NDArray[np.str_]:
        """The distinct sources, sorted."""
        return np.unique(self.source)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The distinct sources in the order of the rows, as the items of a case are listed."""
        return tuple(dict.fromkeys(self.source.tolist()))

    @property
    def item(self) -> NDArray[np.intp]:
        """For every row, which of the ``labels`` it belongs to (rows,)."""
        number = {label: place for place, label in enumerate(self.labels)}
        return np.array([number[label] for label in self.source.tolist()], dtype=np.intp)

    @property
    def measured(self) -> NDArray[np.float64]:
        """The features before the transform (rows, features)."""
        return self.values if self.raw is None else self.raw[:, : len(self.features)]

    @property
    def divisor(self) -> NDArray[np.float64] | None:
        """The reference that they were divided by (rows,), where there is one."""
        return None if self.raw is None or self.transform.reference is None else self.raw[:, -1]

    @property
    def columns(self) -> tuple[str, ...]:
        """The features, and the reference behind them, where there is one."""
        reference = self.transform.reference
        return self.features if reference is None else (*self.features, reference)

    @property
    def column_units(self) -> tuple[str | None, ...]:
        """Of the `columns`."""
        return self.units if self.transform.reference is None else (*self.units, self.reference_unit)

    @property
    def header(self) -> tuple[str, ...]:
        """The features with their units, as in ``K39 [ppm]``."""
        return tuple(map(with_unit, self.features, self.units))

    def with_features(self, order: Sequence[int]) -> Table:
        """The same table with the features at these places, in this order."""
        n = len(self.features)
        return replace(
            self,
            values=self.values[:, order],
            features=tuple(self.features[place] for place in order),
            units=tuple(self.units[place] for place in order),
            raw=None if self.raw is None else self.raw[:, [*order, *range(n, self.raw.shape[1])]],
        )

    def sha256(self) -> str:
        """A digest of the measurements and their labels: equal for equal data, whatever file held them."""
        digest = hashlib.sha256()
        for labels in (self.header, self.source, self.group, *([] if self.session is None else [self.session])):
            digest.update("\x1f".join(map(str, labels)).encode() + b"\x1e")
        digest.update(np.ascontiguousarray(self.values, dtype="<f8").tobytes())
        return digest.hexdigest()


def in_units(table: Table, units: Units) -> tuple[Table, list[Finding]]:
    """A table with its columns, and the reference behind them, in these units where they are known; and notes on it."""
    before, n = table.column_units, len(table.features)
    now = tuple(unit or known for unit, known in zip(units, before, strict=True))
    named = replace(table, units=now[:n], reference_unit=now[n] if now[n:] else table.reference_unit)
    if table.raw is None and table.transform.kind != "none":
        if any(map(power_between, before, now)):
            raise LindleyError(
                f"{table.name} holds {table.transform} of values in other units: read it again in those wanted"
            )
        return named, []
    measured, findings = convert(
        table.values if table.raw is None else table.raw, table.columns, before, now, table.name
    )
    if table.raw is None:
        return replace(named, values=measured), findings
    values = table.transform.apply(measured[:, :n], measured[:, n] if now[n:] else None) if findings else table.values
    return replace(named, values=values, raw=measured), findings


def join_sessions(tables: Sequence[Table]) -> NDArray[np.str_] | None:
    """The sessions of the rows of several tables; a source of a table without any has one session there, its name."""
    if all(each.session is None for each in tables):
        return None
    return np.concatenate(
        [np.full(len(each.values), each.name) if each.session is None else each.session for each in tables]
    )


def with_unit(name: str, unit: str | None) -> str:
    """A column as headers name it.

    >>> with_unit("K39", "ppm"), with_unit("ratio", None)
    ('K39 [ppm]', 'ratio')
    """
    return name if unit is None else f"{name} [{unit}]"


def export_csv(table: Table, path: str | Path, *, replace: bool = True) -> None:
    """Write source, group (if any differs from its source), session (if known), instance and features, as Excel reads it.

    With commas, points and UTF-8. Numbers are written in full, so that `lindley.table.read_table` gives back exactly the same
    ones. A label that a spreadsheet program would take for a formula stands behind an apostrophe, which `read_table` takes off.
    """
    reserved = [name for name in table.features if name.casefold() in ROLES]
    if reserved:
        raise LindleyError(
            f"The feature '{reserved[0]}' has the name of a label column and would be read back as one. Rename it."
        )
    without = [] if table.session is not None else ["session"]
    without += ["group"] if np.array_equal(table.group, table.source) else []
    labels = {role: getattr(table, role).tolist() for role in ROLES if role not in without}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*labels, *map(as_text_cell, table.header)])
    for *row_labels, values in zip(*labels.values(), table.values.tolist(), strict=True):
        writer.writerow([*map(as_text_cell, row_labels), *map(repr, values)])
    write_atomically(Path(path), csv_bytes(text.getvalue()), replace=replace)

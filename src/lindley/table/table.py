"""A table of measurements after it was read, checked and transformed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lindley.table.findings import Finding

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """One row per instance: its features, the source it was measured on, and the group of that source.

    Without a group column every source is its own group. ``findings`` holds what the checks noticed and the
    table survived: warnings and notes, never errors.
    """

    name: str
    values: NDArray[np.float64]  # (rows, features)
    features: tuple[str, ...]
    source: NDArray[np.str_]  # (rows,)
    group: NDArray[np.str_]  # (rows,)
    instance: NDArray[np.str_]  # (rows,)
    findings: tuple[Finding, ...] = field(default=())

    def __post_init__(self) -> None:
        rows = len(self.values)
        if self.values.shape != (rows, len(self.features)):
            raise ValueError(f"values {self.values.shape} do not fit {len(self.features)} features")
        for name in ("source", "group", "instance"):
            if getattr(self, name).shape != (rows,):
                raise ValueError(f"{name} {getattr(self, name).shape} does not fit {rows} rows")
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
    ) -> Table:
        """A table from arrays that are already clean, such as those of another program."""
        matrix = np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError(f"values must be finite, one row per instance: got shape {matrix.shape}")
        labels = np.asarray(source).astype(np.str_)
        names = tuple(features) if features is not None else tuple(f"x{i + 1}" for i in range(matrix.shape[1]))
        groups = labels if group is None else np.asarray(group).astype(np.str_)
        return cls(name, matrix, names, labels, groups, np.arange(1, len(matrix) + 1).astype(np.str_))

    @property
    def sources(self) -> NDArray[np.str_]:
        """The distinct sources, sorted."""
        return np.unique(self.source)

    def sha256(self) -> str:
        """A digest of the measurements and their labels: equal for equal data, whatever file held them."""
        digest = hashlib.sha256()
        for labels in (self.features, self.source, self.group):
            digest.update("\x1f".join(map(str, labels)).encode() + b"\x1e")
        digest.update(np.ascontiguousarray(self.values, dtype="<f8").tobytes())
        return digest.hexdigest()

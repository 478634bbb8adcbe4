"""The test pairs of one split: which are same-source, and how each is called."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lindley.llrs import Floats, LLRs
from lindley.table.splits import Part

__all__ = ["NamedPair", "PairGrid"]

Index = NDArray[np.intp]
NamedPair = tuple[str, str, float]
"""The source of the trace, the source of the ref, and their LLR."""


@dataclass(frozen=True, eq=False)
class PairGrid:
    """Rows and columns of the LLR matrices of one split, the same for every model: made once, used for all.

    Sources are numbers here, as comparing names for every pair of every model would take most of the time of a report.
    """

    names: NDArray[np.str_]  # (sources of the table,) sorted
    trace: Index  # (traces,) the source of every row, as its position in ``names``
    ref: Index  # (refs,) the source of every column

    @classmethod
    def of(cls, part: Part, names: NDArray[np.str_]) -> PairGrid:
        """The grid of a part whose sources are all in ``names``."""
        return cls(names, np.searchsorted(names, part.trace.source), np.searchsorted(names, part.ref.source))

    @cached_property
    def is_same(self) -> NDArray[np.bool_]:
        """Whether trace and ref are of one source, (traces, refs)."""
        return np.asarray(self.trace[:, None] == self.ref[None, :])

    @cached_property
    def n_same(self) -> int:
        """The number of same-source pairs."""
        return int(self.is_same.sum())

    @property
    def n_different(self) -> int:
        """The number of different-source pairs."""
        return self.is_same.size - self.n_same

    def llrs(self, matrix: Floats) -> LLRs:
        """The LLRs (traces, refs) of a model by hypothesis."""
        return LLRs(matrix[self.is_same], matrix[~self.is_same])

    def misleading_first(self, matrix: Floats, same: bool) -> Index:
        """The cells of the pairs of one hypothesis, counted along the rows, those that mislead most first."""
        cells = np.flatnonzero(self.is_same == same)
        values = matrix.reshape(-1)[cells]
        return cells[np.argsort(values if same else -values, kind="stable")]

    def named(self, matrix: Floats, cells: Index) -> tuple[NamedPair, ...]:
        """The pairs of some cells by name."""
        i, j = np.unravel_index(cells, self.is_same.shape)
        traces, refs = self.names[self.trace[i]].tolist(), self.names[self.ref[j]].tolist()
        return tuple(zip(traces, refs, matrix[i, j].tolist(), strict=True))

"""Draw the measurements of sources as traces and refs: so many of each, at random, and nested.

In a draw the measurements of every source stand in a random order. A comparison of M × N measurements takes them from the
front, in the order trace, ref, ref, trace, ref, trace, ref, …; so that 1×2 is 1×1 with one measurement more, 2×2 is 1×2
with one more, and so on: what changes from one to the next is that measurement and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.system.system import System
from lindley.table.splits import Side
from lindley.table.table import Table

__all__ = ["Draw", "counts", "draw", "ladder"]

Index = NDArray[np.intp]
Shape = tuple[int, int]


def counts(table: Table) -> NDArray[np.intp]:
    """Measurements of every source (sources,), in the order of ``table.sources``."""
    return np.unique(table.source, return_counts=True)[1]


def ladder(most: int) -> list[Shape]:
    """1×1, 1×2, 2×2, 2×3, …: one measurement more at every step, up to ``most`` in all.

    >>> ladder(5)
    [(1, 1), (1, 2), (2, 2), (2, 3)]
    """
    return [(total // 2, total - total // 2) for total in range(2, most + 1)]


@dataclass(frozen=True, eq=False)
class Draw:
    """The measurements of some sources in a random order each."""

    table: Table
    sources: NDArray[np.str_]  # (sources,)
    rows: tuple[Index, ...]  # of every source, in the order of the draw

    def llr(self, system: System, shape: Shape | None = None) -> Floats:
        """log10 LRs (sources, sources) of M × N measurements; or of all: half as trace, and the others as ref."""
        shapes = (shape or (len(rows) // 2, len(rows) - len(rows) // 2) for rows in self.rows)
        places = [_places(each) for each in shapes]
        trace = [rows[at] for rows, (at, _) in zip(self.rows, places, strict=True)]
        ref = [rows[at] for rows, (_, at) in zip(self.rows, places, strict=True)]
        llr = system.llr_sides(self._side(system, trace), self._side(system, ref))
        if not np.isfinite(llr).all():
            i, j = np.argwhere(~np.isfinite(llr))[0]
            raise LindleyError(
                f"{self.table.name}: the LR of '{self.sources[i]}' and '{self.sources[j]}' is not finite. Look at their "
                "measurements with 'lindley check'."
            )
        return llr

    def _side(self, system: System, rows: list[Index]) -> Side:
        item = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        return system.side_of_transformed(self.table.values[np.concatenate(rows)], item, sources=self.sources.tolist())


def draw(table: Table, sources: NDArray[np.str_], *seed: int) -> Draw:
    """Shuffle the measurements of the sources that are named."""
    rng = np.random.default_rng(seed)
    names, code = np.unique(table.source, return_inverse=True)
    by_source = np.argsort(code, kind="stable")
    shuffled = by_source[np.lexsort((rng.random(len(code)), code[by_source]))]
    ends = np.cumsum(np.bincount(code))
    each = np.split(shuffled, ends[:-1])
    return Draw(table, sources, tuple(each[i] for i in np.searchsorted(names, sources).tolist()))


def _places(shape: Shape) -> tuple[list[int], list[int]]:
    """Where the traces and the refs stand: turn by turn from trace, ref, ref, trace, ref, trace, … until each has its own."""
    trace, ref = [0], [1]
    while len(trace) < shape[0] or len(ref) < shape[1]:
        place = len(trace) + len(ref)
        to_ref = len(ref) < shape[1] and (len(ref) <= len(trace) or len(trace) == shape[0])
        (ref if to_ref else trace).append(place)
    return trace, ref

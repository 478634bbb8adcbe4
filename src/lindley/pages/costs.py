"""Which sources cost most: the Cllr of a model, shared out over the sources that its pairs are made of.

Cllr is a sum over pairs, ½ log2(1 + 1/LR)/n_same of a same-source pair and ½ log2(1 + LR)/n_different of a different-source
pair. The first belongs to its source; the second half to the source of the trace and half to that of the ref. So the shares
of all sources sum to the Cllr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.evaluation.metrics import log2_cost
from lindley.llrs import Floats
from lindley.pages.pair_grid import Index, PairGrid
from lindley.pages.run_figures import Outlier, OutlierFigure

__all__ = ["MOST_LEFT_OUT", "MOST_OUTLIERS", "PairCosts", "find_outliers"]

MOST_OUTLIERS = 20
"""Sources that are named."""
MOST_LEFT_OUT = 10
"""Sources that are left out, one after the other."""


@dataclass(frozen=True, eq=False)
class PairCosts:
    """What every test pair of one split costs, in bits: log2(1 + 1/LR), or log2(1 + LR)."""

    grid: PairGrid
    llr: Floats  # (traces, refs)
    same: Floats  # (n_same,) in the order of the rows
    different: Floats  # (traces, refs), 0 for same-source pairs

    @classmethod
    def of(cls, grid: PairGrid, llr: Floats) -> PairCosts:
        """The costs of the LLRs of a model."""
        different = log2_cost(llr)
        different[grid.is_same] = 0.0
        return cls(grid, llr, log2_cost(-llr[grid.is_same]), different)

    @property
    def cllr(self) -> float:
        """The sum of all, each weighed by the number of pairs of its kind."""
        return float(self.same.sum() / self.grid.n_same + self.different.sum() / self.grid.n_different) / 2

    def shares(self) -> tuple[Floats, Floats]:
        """The shares of every source of the table in the Cllr: of its same-source and its different-source pairs."""
        grid, size = self.grid, len(self.grid.names)
        rows = grid.trace[np.nonzero(grid.is_same)[0]]
        same = np.bincount(rows, self.same, minlength=size) / (2 * grid.n_same)
        as_trace = np.bincount(grid.trace, self.different.sum(axis=1), minlength=size)
        as_ref = np.bincount(grid.ref, self.different.sum(axis=0), minlength=size)
        return same, (as_trace + as_ref) / (4 * grid.n_different)

    def cllr_without(self, order: Index) -> Floats:
        """Cllr without all pairs of the first 0, 1, … sources of ``order``; NaN where a kind of pairs is gone.

        A pair goes with the first of its two sources that goes, so one count of the pairs by when they go gives all. What
        remains is added up and not subtracted from the whole: an outlier may cost 1e15 times as much as the rest.
        """
        grid, last = self.grid, len(order)
        rank = np.full(len(grid.names), last)
        rank[order] = np.arange(last)
        goes = np.minimum.outer(rank[grid.trace], rank[grid.ref])

        def remaining(when: Index, cost: Floats | None) -> NDArray[np.float64]:
            per_step = np.bincount(when, cost, minlength=last + 1)
            return np.cumsum(per_step[::-1])[::-1].astype(np.float64)

        same_goes = goes[grid.is_same]
        n_same, cost_same = remaining(same_goes, None), remaining(same_goes, self.same)
        n_different = remaining(goes.reshape(-1), None) - n_same
        cost_different = remaining(goes.reshape(-1), self.different.reshape(-1))
        with np.errstate(invalid="ignore"):  # 0/0: no pairs left
            return np.asarray(0.5 * (cost_same / n_same + cost_different / n_different))

    def worst_of(self, source: int) -> tuple[float, tuple[int, int]]:
        """What the worst pair of a source adds to the Cllr, and the cell of that pair; −1 if the source is in none."""
        grid = self.grid
        rows, columns = (np.flatnonzero(side == source).tolist() for side in (grid.trace, grid.ref))
        cells = [(i, j) for i in rows for j in columns]
        cells += [(i, int(np.where(grid.ref == source, -np.inf, self.llr[i]).argmax())) for i in rows]
        cells += [(int(np.where(grid.trace == source, -np.inf, self.llr[:, j]).argmax()), j) for j in columns]
        worst = (-1.0, (0, 0))
        for i, j in cells:
            if grid.is_same[i, j]:
                cost = float(log2_cost(-self.llr[i, j])) / (2 * grid.n_same)
            else:
                cost = float(self.different[i, j]) / (2 * grid.n_different)
            if cost > worst[0]:
                worst = (cost, (i, j))
        return worst


def find_outliers(model: str, splits: Sequence[PairCosts]) -> OutlierFigure:
    """The sources that cost a model most, over the test parts of all splits."""
    names = splits[0].grid.names
    same, different, present = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names), dtype=np.intp)
    for split in splits:
        of_same, of_different = split.shares()
        same += of_same / len(splits)
        different += of_different / len(splits)
        present[np.union1d(split.grid.trace, split.grid.ref)] += 1
    cost = same + different
    order = np.argsort(-cost, kind="stable")[: int((present > 0).sum())]

    without = np.mean([split.cllr_without(order[:MOST_LEFT_OUT]) for split in splits], axis=0)
    defined = int(np.argmin(np.append(np.isfinite(without), False)))  # with few sources, pairs run out
    outliers = []
    for source in order[:MOST_OUTLIERS].tolist():
        there = [split for split in splits if source in split.grid.trace or source in split.grid.ref]
        candidates = [(split.worst_of(source), split) for split in there]
        (_, (i, j)), split = max(candidates, key=lambda candidate: candidate[0][0])
        pair = (str(names[split.grid.trace[i]]), str(names[split.grid.ref[j]]))
        outliers.append(
            Outlier(
                source=str(names[source]),
                cost=float(cost[source]),
                same=float(same[source]),
                different=float(different[source]),
                splits=int(present[source]),
                worst_llr=float(split.llr[i, j]),
                worst_pair=pair,
            )
        )
    return OutlierFigure(
        model=model,
        outliers=tuple(outliers),
        cllr=float(np.mean([split.cllr for split in splits])),
        without=tuple(without[:defined].tolist()),
        even_share=float(cost.sum() / (present > 0).sum()),
    )

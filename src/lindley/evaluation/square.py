"""Bootstrap over sources where every source has one trace and one ref: a square matrix of LLRs, same-source on its diagonal.

`lindley.evaluation.bootstrap` takes any matrix and any metric. Here the same draws give all metrics at once, many times
faster, and *paired*: the difference of two systems, or of two numbers of measurements, is that of the same sources drawn.
Related sources, a group, are drawn together. With multiplicities m the same-source pair of i weighs m_i, and the pair of i
and j weighs m_i m_j.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from lindley.errors import LindleyError
from lindley.evaluation.metrics import log2_cost
from lindley.llrs import Floats, LLRs

__all__ = ["Costs", "Metric", "draw_sources", "rates", "replicates", "square_llrs"]

Metric = Callable[[LLRs], float]


def square_llrs(llr: Floats) -> LLRs:
    """The diagonal as same-source pairs, all others as different-source pairs."""
    off = ~np.eye(len(llr), dtype=bool)
    return LLRs(llr.diagonal(), llr[off])


def draw_sources(group: ArrayLike, n: int, seed: int) -> Floats:
    """How often every source is drawn, (n, sources), given the group of each: sources of one group are drawn together.

    Where every source is a group of its own, the draws are those of `lindley.evaluation.bootstrap` with the same seed.
    """
    labels, member = np.unique(np.asarray(group), return_inverse=True)
    if len(labels) < 2:
        raise LindleyError(f"a bootstrap over sources needs two of them, or two groups, and there is {len(labels)}")
    rng = np.random.default_rng(seed)
    even = np.full(len(labels), 1 / len(labels))
    kept = np.empty((0, len(member)))
    while len(kept) < n:
        draws = rng.multinomial(len(labels), even, size=n).astype(np.float64)[:, member]
        kept = np.concatenate([kept, draws[(draws > 0).sum(axis=1) > 1]])  # one source alone has no other beside it
    return kept[:n]


@dataclass(frozen=True, eq=False)
class Costs:
    """What every pair costs, in bits: log2(1 + 1/LR) of a same-source pair, log2(1 + LR) of a different-source pair."""

    same: Floats  # (sources,)
    different: Floats  # (sources, sources), 0 on the diagonal

    @classmethod
    def of(cls, matrices: Sequence[Floats]) -> Self:
        """The mean costs of several matrices of the same sources, such as several draws of their measurements."""
        same, different = np.zeros(len(matrices[0])), np.zeros_like(matrices[0])
        for llr in matrices:
            same += log2_cost(-llr.diagonal()) / len(matrices)
            different += log2_cost(llr) / len(matrices)
        np.fill_diagonal(different, 0.0)
        return cls(same, different)

    def cllr(self, times: Floats | None = None) -> Floats:
        """Cllr, the mean over the matrices; one for every row of multiplicities (…, sources)."""
        weight = np.ones((1, len(self.same))) if times is None else np.atleast_2d(times)
        total = weight.sum(axis=1)
        same = weight @ self.same / total
        different = np.sum(weight @ self.different * weight, axis=1) / (total**2 - np.sum(weight**2, axis=1))
        return np.asarray(0.5 * (same + different))

    def shares(self) -> Floats:
        """What every source adds to Cllr (sources,): its same-source pair, and half of the pairs that it is in."""
        n = len(self.same)
        return np.asarray(
            self.same / (2 * n) + (self.different.sum(axis=0) + self.different.sum(axis=1)) / (4 * n * (n - 1))
        )


def rates(hit: np.ndarray, times: Floats | None = None) -> tuple[Floats, Floats]:
    """Shares of the same-source and of the different-source pairs for which ``hit`` (sources, sources) holds."""
    weight = np.ones((1, len(hit))) if times is None else np.atleast_2d(times)
    different = hit.astype(np.float64)
    same = different.diagonal().copy()
    np.fill_diagonal(different, 0.0)
    total = weight.sum(axis=1)
    pairs = total**2 - np.sum(weight**2, axis=1)
    return np.asarray(weight @ same / total), np.asarray(np.sum(weight @ different * weight, axis=1) / pairs)


def replicates(llr: Floats, times: Floats, metrics: Mapping[str, Metric]) -> dict[str, Floats]:
    """Metrics that depend on the order of the LLRs (Cllr_min, EER, devPAV), for every row of ``times``.

    Different-source pairs between two neighbouring same-source LLRs are counted as one: nothing separates them. So every
    replicate is a count of 2 n bins. devPAV is right to the distance between two neighbouring LLRs.
    """
    values, unit_of_same = np.unique(llr.diagonal(), return_inverse=True)
    unit = np.searchsorted(values, llr, side="right")  # 0: below every same-source LLR
    tied = llr == values[unit - 1]
    cell = 2 * unit + ~tied
    n_cells = 2 * len(values) + 2
    np.fill_diagonal(cell, n_cells)  # not a different-source pair
    flat = cell.reshape(-1)
    at = np.full(n_cells + 1, -np.inf)
    np.maximum.at(at, flat, llr.reshape(-1))  # the highest LLR of a bin stands for all of it …
    if (cell == 1).any():
        at[1] = llr[cell == 1].min()  # … but the lowest of all is where the LLRs begin
    filled = np.flatnonzero(np.isfinite(at[:n_cells]))
    found: dict[str, list[float]] = {name: [] for name in metrics}
    for row in times:
        counts = np.bincount(flat, np.outer(row, row).reshape(-1), minlength=n_cells + 1)[filled].astype(np.float64)
        same = np.bincount(unit_of_same, row, minlength=len(values)).astype(np.float64)
        llrs = LLRs(values, at[filled], same, counts)
        for name, metric in metrics.items():
            found[name].append(metric(llrs))
    return {name: np.array(each) for name, each in found.items()}

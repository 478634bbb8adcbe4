"""log10 likelihood ratios of pairs whose truth is known: what calibration and evaluation work on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.arrays import as_numbers
from lindley.errors import LindleyError

__all__ = ["LN10", "LLRs", "weight_above"]

LN10 = math.log(10.0)
"""ln LR = LN10 · log10 LR."""

Floats = NDArray[np.float64]
Names = tuple[NDArray[np.str_], NDArray[np.str_], NDArray[np.str_], NDArray[np.str_]]
"""Of a matrix of pairs: the sources of its rows and of its columns, and the groups of both."""


@dataclass(frozen=True, eq=False)
class LLRs:
    """log10 LRs of same-source and of different-source pairs, each with an optional weight.

    A weight counts how often a pair occurs: a bootstrap over sources sets it, the compression of many pairs into few
    bins does, and so does the share of mates (`lindley.table.splits`). ``None`` is a weight of one each. Values are finite;
    infinities and NaN are refused.
    """

    same: Floats  # (n_same,)
    different: Floats  # (n_different,)
    same_weight: Floats | None = None
    different_weight: Floats | None = None
    matrices: tuple[Names, ...] = ()  # that they were taken from, one after the other, where that is known

    def __post_init__(self) -> None:
        for side in ("same", "different"):
            values = _vector(getattr(self, side), side)
            if values.size == 0:
                raise LindleyError(f"there are no {side}-source pairs: LLRs of pairs of both kinds are needed")
            object.__setattr__(self, side, values)
            weight = getattr(self, f"{side}_weight")
            if weight is not None:
                weight = _vector(weight, f"{side}_weight")
                if weight.shape != values.shape or (weight < 0).any() or weight.sum() <= 0:
                    raise LindleyError(
                        f"{side}_weight must hold one number ≥ 0 per pair, not all zero: "
                        f"got shape {weight.shape} for {values.shape}"
                    )
                object.__setattr__(self, f"{side}_weight", weight)

    @classmethod
    def of(cls, same: ArrayLike | LLRs, different: ArrayLike | None = None) -> LLRs:
        """Two arrays of log10 LRs, of same-source and of different-source pairs, or `LLRs` as they are.

        Labels beside the LLRs, 1 and 0 or 1 and −1, are refused; so are LLRs that look like labels, which `LLRs` itself takes.

        >>> LLRs.of([2.0, 0.5], [-1.0])
        LLRs of 2 same-source and 1 different-source pairs
        """
        if isinstance(same, LLRs):
            if different is not None:
                raise LindleyError("LLRs hold the pairs of both kinds: give them alone, or two arrays")
            return same
        if different is None:
            raise LindleyError("the LLRs of the different-source pairs are missing: give two arrays, or one LLRs")
        call = "of LLRs and labels, give cllr(llrs[labels == 1], llrs[labels == 0])"
        try:
            of_same, of_different = as_numbers(same, "same"), as_numbers(different, "different")
        except LindleyError as error:
            raise LindleyError(f"{error}: log10 LRs of both kinds of pairs; {call}") from None
        if of_same.shape == of_different.shape and any(map(_are_labels, (of_same, of_different))):
            raise LindleyError(
                "one of the two arrays holds labels, where the LLRs of same-source and of different-source pairs are needed: "
                f"{call}; if they are LLRs, give cllr(LLRs(same, different))"
            )
        return cls(of_same, of_different)

    def __repr__(self) -> str:
        n_same, n_different = (round(float(np.sum(weight))) for weight in self.weights)
        return f"LLRs of {n_same} same-source and {n_different} different-source pairs"

    @classmethod
    def from_matrix(
        cls, llr: ArrayLike, trace_source: ArrayLike, ref_source: ArrayLike, weight: Floats | None = None
    ) -> LLRs:
        """Split a matrix of all trace × ref pairs by whether the two sources are the same.

        ``weight``: of every pair (traces, refs), of which that of the different-source pairs counts.
        """
        matrix = as_numbers(llr, "the LLRs")
        same = np.asarray(trace_source)[:, None] == np.asarray(ref_source)[None, :]
        if matrix.shape != same.shape:
            raise LindleyError(f"{matrix.shape} LLRs for {same.shape[0]} traces and {same.shape[1]} refs")
        return cls(matrix[same], matrix[~same], None, None if weight is None else weight[~same])

    def map(self, function: Callable[[Floats], Floats]) -> LLRs:
        """The same pairs with every LLR sent through ``function``, a calibration for one."""
        return replace(self, same=function(self.same), different=function(self.different))

    @property
    def present(self) -> LLRs:
        """Without the pairs of weight zero, which are not there."""
        if self.same_weight is None and self.different_weight is None:
            return self
        same, different = (weight > 0 for weight in self.weights)
        same_weight, different_weight = (weight[weight > 0] for weight in self.weights)
        return LLRs(self.same[same], self.different[different], same_weight, different_weight)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest LLR of all."""
        lowest, highest = min(self.same.min(), self.different.min()), max(self.same.max(), self.different.max())
        return float(lowest), float(highest)

    @property
    def weights(self) -> tuple[Floats, Floats]:
        """The weights of both sides; where none were given, ones that share their memory and cannot be written to."""
        same = np.broadcast_to(1.0, self.same.shape) if self.same_weight is None else self.same_weight
        different = (
            np.broadcast_to(1.0, self.different.shape) if self.different_weight is None else self.different_weight
        )
        return same, different


AT_A_TIME = 1 << 18
"""Values that are compared with thresholds at a time: 2 MiB."""


def _are_labels(values: Floats) -> bool:
    """Whether values can be labels of pairs: all are 1 and 0, or 1 and −1, and both are there."""
    few = bool(np.isin(values.ravel()[:1000], (-1, 0, 1)).all())  # others need not be sorted
    return few and np.unique(values).tolist() in ([0, 1], [-1, 1])


def _vector(values: ArrayLike, name: str) -> Floats:
    vector = as_numbers(values, name)
    if vector.ndim != 1:
        raise LindleyError(
            f"{name}: shape {vector.shape} where a list of numbers is needed, one per pair; a matrix of all pairs "
            "becomes LLRs by LLRs.from_matrix(llr, trace_source, ref_source)"
        )
    if not np.isfinite(vector).all():
        raise LindleyError(
            f"{name}: {np.count_nonzero(~np.isfinite(vector))} of {vector.size} values are infinite or not a number; "
            "LLRs must be finite"
        )
    return vector


def weight_above(values: Floats, weight: Floats, threshold: Floats, *, at: bool = True) -> Floats:
    """The weight of the values at or above each of the increasing thresholds; above it, if not ``at``."""
    # the number of thresholds below (or at) a value tells which of them it passes: no sort of the values
    by_passed = np.zeros(threshold.size + 1)
    for some in (slice(begin, begin + AT_A_TIME) for begin in range(0, len(values), AT_A_TIME)):
        passed = np.searchsorted(threshold, values[some], side="right" if at else "left")
        by_passed += np.bincount(passed, weight[some], minlength=threshold.size + 1)
    return np.asarray(np.cumsum(by_passed[::-1])[::-1][1:], dtype=np.float64)

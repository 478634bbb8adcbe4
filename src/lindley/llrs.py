"""log10 likelihood ratios of pairs whose truth is known: what calibration and evaluation work on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LN10", "LLRs"]

LN10 = math.log(10.0)
"""ln LR = LN10 · log10 LR."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LLRs:
    """log10 LRs of same-source and of different-source pairs, each with an optional weight.

    A weight counts how often a pair occurs: a bootstrap over sources sets it, and so does the compression of
    many pairs into few bins. ``None`` is a weight of one each. Values are finite; infinities and NaN are refused
    here, once, so that no later step has to look for them.
    """

    same: Floats  # (n_same,)
    different: Floats  # (n_different,)
    same_weight: Floats | None = None
    different_weight: Floats | None = None

    def __post_init__(self) -> None:
        for side in ("same", "different"):
            values = _vector(getattr(self, side), side)
            if values.size == 0:
                raise ValueError(f"there are no {side}-source pairs")
            object.__setattr__(self, side, values)
            weight = getattr(self, f"{side}_weight")
            if weight is not None:
                weight = _vector(weight, f"{side}_weight")
                if weight.shape != values.shape or (weight < 0).any() or weight.sum() <= 0:
                    raise ValueError(
                        f"{side}_weight must hold one number ≥ 0 per pair, not all zero: "
                        f"got shape {weight.shape} for {values.shape}"
                    )
                object.__setattr__(self, f"{side}_weight", weight)

    @classmethod
    def from_matrix(cls, llr: ArrayLike, trace_source: ArrayLike, ref_source: ArrayLike) -> LLRs:
        """Split a matrix of all trace × ref pairs by whether the two sources are the same."""
        matrix = np.asarray(llr, dtype=np.float64)
        same = np.asarray(trace_source)[:, None] == np.asarray(ref_source)[None, :]
        if matrix.shape != same.shape:
            raise ValueError(f"{matrix.shape} LLRs for {same.shape[0]} traces and {same.shape[1]} refs")
        return cls(matrix[same], matrix[~same])

    def map(self, function: Callable[[Floats], Floats]) -> LLRs:
        """The same pairs with every LLR sent through ``function``, a calibration for one."""
        return LLRs(function(self.same), function(self.different), self.same_weight, self.different_weight)

    @property
    def weights(self) -> tuple[Floats, Floats]:
        """The weights of both sides, ones where none were given."""
        same = np.ones_like(self.same) if self.same_weight is None else self.same_weight
        different = np.ones_like(self.different) if self.different_weight is None else self.different_weight
        return same, different


def _vector(values: ArrayLike, name: str) -> Floats:
    vector = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(vector).all():
        raise ValueError(f"{name}: {np.count_nonzero(~np.isfinite(vector))} values are not finite")
    return vector

"""Pool-adjacent-violators: the best monotone calibration, and the basis of Cllr_min and devPAV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats, LLRs

__all__ = ["Blocks", "Pav", "Tally", "log10_ratio", "pav", "pool", "tally"]


@dataclass(frozen=True, eq=False)
class Tally:
    """Pairs counted (weighed) by the same-source value that they reach.

    Unit 0 holds the different-source pairs below every same-source value; unit i ≥ 1 holds what lies in
    [value_i, value_{i+1}), the last one being open-ended. For everything that depends on the order of the
    LLRs alone (PAV, ROC) these counts say all: different-source pairs between two same-source values never
    separate.
    """

    same: Floats  # (n_unit,) weight of the same-source pairs at value_i; 0 for unit 0
    different: Floats  # (n_unit,) weight of the different-source pairs in the unit
    tied: Floats  # (n_unit,) the part of ``different`` that equals value_i exactly
    lower: Floats  # (n_unit,) smallest LLR in the unit: value_i
    upper: Floats  # (n_unit,) largest LLR in the unit


def tally(llrs: LLRs) -> Tally:
    """Count pairs by unit; pairs of weight zero are not there."""
    same, weight_same = _present(llrs.same, llrs.same_weight)
    different, weight_different = _present(llrs.different, llrs.different_weight)
    value, unit_of_same = np.unique(same, return_inverse=True)
    n_unit = value.size + 1
    unit = np.searchsorted(value, different, side="right")

    def weigh(index: NDArray[np.intp], weight: Floats | None) -> Floats:
        return np.bincount(index, weights=weight, minlength=n_unit).astype(np.float64)

    at_value = different == value[unit - 1]  # unit 0 looks at the last value, which it cannot equal
    tied = weigh(unit[at_value], None if weight_different is None else weight_different[at_value])
    lowest = min(value[0], different.min())
    lower = np.concatenate([[lowest], value])
    upper = lower.copy()
    np.maximum.at(upper, unit, different)
    return Tally(weigh(unit_of_same + 1, weight_same), weigh(unit, weight_different), tied, lower, upper)


def pool(same: Floats, different: Floats) -> NDArray[np.intp]:
    """Pool adjacent units until same / different increases; returns the first unit of every block.

    Isotonic regression of the share of same-source pairs. Whether two neighbours violate the order depends on
    their ratios same / different alone, so the blocks are the same for every prior. Ratios above some 1e15
    are not told apart. Units without weight join the block before them.
    """
    total = same + different
    present = np.flatnonzero(total > 0)
    share = same[present] / total[present]
    blocks = isotonic_regression(share, weights=total[present]).blocks
    return np.asarray(present[blocks[:-1]], dtype=np.intp)


def log10_ratio(same: Floats, different: Floats, n_same: float, n_different: float) -> Floats:
    """log10 of (same / n_same) / (different / n_different); ±inf where a count is zero."""
    with np.errstate(divide="ignore"):
        ln_ratio = np.log(same) - np.log(n_same) - np.log(different) + np.log(n_different)
    return np.asarray(ln_ratio / LN10, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a PAV, lowest first. All that lies in a block gets the block's LLR."""

    lower: Floats  # (n_block,) smallest LLR in the block
    upper: Floats  # (n_block,) largest LLR in the block
    same: Floats  # (n_block,) weight of same-source pairs
    different: Floats  # (n_block,) weight of different-source pairs
    llr: Floats  # (n_block,) log10 LR, increasing; −inf or inf where one of the two has no weight


def pav(llrs: LLRs, misleading: int = 0) -> Blocks:
    """Blocks of the pool-adjacent-violators algorithm, both hypotheses weighing one half.

    LR of a block = (its share of the same-source pairs) / (its share of the different-source pairs), after
    pooling neighbours until this increases (Zadrozny and Elkan 2002; Brümmer and du Preez 2006). Same-source
    and different-source pairs with equal LLRs are in one block. ``misleading``: how many same-source pairs
    are added below, and different-source pairs above, everything else.
    """
    counts = tally(llrs)
    same, different = counts.same.copy(), counts.different.copy()
    same[0] += misleading
    different[-1] += misleading
    first = pool(same, different)
    last = np.append(first[1:], same.size) - 1
    block_same, block_different = np.add.reduceat(same, first), np.add.reduceat(different, first)
    llr = log10_ratio(block_same, block_different, same.sum(), different.sum())
    return Blocks(counts.lower[first], counts.upper[last], block_same, block_different, llr)


@dataclass(frozen=True, eq=False)
class Pav:
    """PAV as a calibration: monotone, finite, linear in the posterior probability between blocks.

    Inside a block the output is the block's LLR. Between the end of one block and the start of the next, the
    posterior probability at prior odds 1 runs linearly, as in scikit-learn's ``IsotonicRegression`` and LiR.
    Beyond the fitted LLRs the outermost value is held.
    """

    llr_in: Floats  # (n_point,) ends of the blocks, increasing
    llr_out: Floats  # (n_point,) their calibrated LLRs, non-decreasing, finite

    @classmethod
    def fit(cls, llrs: LLRs, misleading: int = 1) -> Self:
        """Fit on ``llrs``; ``misleading`` ≥ 1 pairs added to each side keep the outermost LRs finite."""
        if misleading < 1:
            raise LindleyError(f"PAV calibration needs misleading ≥ 1 for finite LLRs, got {misleading}")
        blocks = pav(llrs, misleading)
        points = np.stack([blocks.lower, blocks.upper], axis=1).reshape(-1)
        values = np.maximum.accumulate(np.repeat(blocks.llr, 2))
        new = np.append(True, np.diff(points) > 0)  # a block of one value has its two ends in one place
        return cls(points[new], values[new])

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10)."""
        # probability and complement are interpolated apart: 1 − p would lose the small one's digits
        p_same = np.interp(llr, self.llr_in, 1 / (1 + 10**-self.llr_out))
        p_different = np.interp(llr, self.llr_in, 1 / (1 + 10**self.llr_out))
        return np.asarray(np.log10(p_same) - np.log10(p_different), dtype=np.float64)

    def describe(self) -> dict[str, float]:
        """Size and range as plain numbers."""
        return {
            "points": float(self.llr_in.size),
            "llr_lowest": float(self.llr_out[0]),
            "llr_highest": float(self.llr_out[-1]),
        }


def _present(values: Floats, weight: Floats | None) -> tuple[Floats, Floats | None]:
    if weight is None:
        return values, None
    present = weight > 0
    return values[present], weight[present]

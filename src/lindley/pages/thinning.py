"""Fewer points that look the same: what a figure of a few hundred pixels can show, and nothing that it would hide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lindley.evaluation.curves import PavCurve
from lindley.llrs import Floats, LLRs

__all__ = ["histogram_limits", "spread_ranks", "thin_pav", "thin_qq", "thin_series"]

Index = NDArray[np.intp]

CORE = (0.02, 0.98)
"""The share of the same-source LLRs that a histogram is laid out for."""
REACH = 2.0
"""How far a histogram goes beyond that core, in widths of it."""
FIRST = 10
"""Pairs that are always shown: those that mislead most."""


def thin_series(values: Floats, most: int, keep: Sequence[int] = ()) -> Index:
    """The places of at most ``most`` values of a long series, such as a loss curve: no spike is lost.

    The series is cut into pieces of equal length, and each gives its lowest and its highest value. The first and the last
    value stay, and so do those at ``keep``, the most important first: at most half of the places are for them.
    """
    n = len(values)
    if n <= most:
        return np.arange(n)
    fixed = np.unique([0, n - 1, *keep[: most // 2 - 2]])
    length = -(-n // ((most - len(fixed)) // 2))
    pieces = -(-n // length)
    # filled up with the last value, the place of which is never taken before its own
    padded = np.pad(values, (0, pieces * length - n), mode="edge").reshape(pieces, length)
    first = np.arange(pieces) * length
    return np.unique(np.concatenate([fixed, first + padded.argmin(axis=1), first + padded.argmax(axis=1)]))


def thin_qq(n: int, most: int) -> Index:
    """Which of n sorted values a QQ plot shows: a tenth of the places for each tail, whole, the others evenly spaced."""
    if n <= most:
        return np.arange(n)
    tail, end = most // 10, ndtri(1 - 0.5 / n)
    places = n * ndtr(np.linspace(-end, end, most - 2 * tail)) - 0.5
    tails = np.concatenate([np.arange(tail), np.arange(n - tail, n)])
    return np.unique(np.concatenate([tails, np.rint(places).astype(np.intp)]))


def thin_pav(curve: PavCurve, most: int) -> PavCurve:
    """A PAV curve with at most ``most`` corners: those go first whose absence moves the line least.

    The measure is the area between the line with and without a corner (Visvalingam and Whyatt 1993). Corners at infinity
    and next to it stay.
    """
    x, y = curve.llr, curve.pav_llr
    if len(x) > most:  # a block of one value has both ends in one place
        new = np.append(True, (x[1:] != x[:-1]) | (y[1:] != y[:-1]))
        x, y = x[new], y[new]
    while len(x) > most:
        with np.errstate(invalid="ignore"):  # ∞ − ∞ at the ends
            to_corner_x, to_next_x = x[1:-1] - x[:-2], x[2:] - x[:-2]
            to_corner_y, to_next_y = y[1:-1] - y[:-2], y[2:] - y[:-2]
            area = np.abs(to_corner_x * to_next_y - to_next_x * to_corner_y)
        area[~np.isfinite(area)] = np.inf
        drop = 1 + int(area.argmin())
        x, y = np.delete(x, drop), np.delete(y, drop)
    return PavCurve(x, y)


def histogram_limits(llrs: LLRs) -> tuple[float, float]:
    """Limits within which the LLRs of both hypotheses are told apart by eye; what is beyond goes into the outermost bins.

    Laid out for the central same-source LLRs, with `REACH` times their width (at least that many units of log10) to both
    sides where there are LLRs: most different-source LLRs of a good system are far below all that matters, and a handful of
    extreme LLRs would squash the rest. LLR = 0 is always there, and the whole is at least one unit wide, so that an axis
    that says nothing is seen as a spike.
    """
    low, high = np.quantile(llrs.same, CORE)
    reach = REACH * max(high - low, 1.0)
    low = min(max(low - reach, min(llrs.same.min(), llrs.different.min())), 0.0)
    high = max(min(high + reach, max(llrs.same.max(), llrs.different.max())), 0.0)
    widen = max(1.0 - (high - low), 0.0) / 2
    return float(low - widen), float(high + widen)


def spread_ranks(n: int, most: int) -> Index:
    """At most ``most`` of the ranks 0 … n − 1: the first `FIRST`, some evenly spread, others denser at the beginning."""
    if n <= most:
        return np.arange(n)
    half = (most - FIRST) // 2
    even, dense = np.linspace(0, n - 1, half), np.geomspace(FIRST, n - 1, half)
    return np.unique(np.rint(np.concatenate([np.arange(FIRST), even, dense])).astype(np.intp))

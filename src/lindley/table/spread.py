"""How little scatter is none, and how large or small a feature may be: one answer for the checks and the scaling.

A float64 has 16 digits and reaches from 1e-308 to 1e308. A variance is a sum of squares, so that a feature must keep
well within the roots of these: its values below ``LARGEST``, and their spread above ``SMALLEST``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST", "ROUNDING", "SMALLEST", "leaves_range", "rounding_error", "spread"]

ROUNDING = 1e-13
"""A spread below this share of the values is the rounding error of a calculation: 1e12 ± 1 is above it."""

LARGEST, SMALLEST = 1e150, 1e-150

Floats = NDArray[np.float64]


def spread(values: Floats) -> Floats:
    """The largest value less the smallest one, along the first axis."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ptp(values, axis=0), dtype=np.float64)


def rounding_error(values: Floats, least_size: float = 0.0) -> Floats:
    """The spread up to which values count as one, along the first axis.

    ``least_size`` is what the values were calculated from, if that is larger than they are: the difference of two
    logs may be 0 up to the rounding of the logs.
    """
    return np.asarray(ROUNDING * np.maximum(np.abs(values).max(axis=0), least_size), dtype=np.float64)


def leaves_range(values: Floats) -> NDArray[np.bool_]:
    """Whether squares of the values, or of their differences, leave the range of floating point."""
    return np.asarray((np.abs(values).max(axis=0) > LARGEST) | (spread(values) < SMALLEST), dtype=np.bool_)

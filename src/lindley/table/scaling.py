"""What is done to the features: a ratio and a log when a table is read, standardisation when a model is fitted.

A float64 has 16 digits and reaches from 1e-308 to 1e308. A variance is a sum of squares, so that a feature must keep
well within the roots of these: its values below ``LARGEST``, and their spread above ``SMALLEST``. The checks of a table
and the standardisation ask the same functions how little scatter is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.findings import listing, quoted

__all__ = ["LARGEST", "SMALLEST", "Scaling", "Transform", "TransformKind", "leaves_range", "rounding_error", "spread"]

ROUNDING = 1e-13
"""A spread below this share of the values is the rounding error of a calculation: 1e12 ± 1 is above it."""

LARGEST, SMALLEST = 1e150, 1e-150

Floats = NDArray[np.float64]
TransformKind = Literal["none", "log10", "ln"]


@dataclass(frozen=True)
class Transform:
    """The log of every feature, or of its ratio to one reference column, such as Si28 for glass.

    Concentrations scatter by a factor, not by an amount, so that their logs are closer to normal; a ratio to
    an element that is the same in all glass takes out how much was ablated. The reference is then no feature.
    """

    kind: TransformKind = "none"
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(TransformKind):
            raise LindleyError(f"There is no transform '{self.kind}'. Choose none, log10 or ln.")
        if self.reference is not None and self.kind == "none":
            raise LindleyError(
                f"The reference column '{self.reference}' needs a log: choose the transform log10 or ln too. "
                "A ratio without a log is not offered, as its scatter depends on its size."
            )

    def __str__(self) -> str:
        """In words.

        >>> str(Transform("log10", "Si28")), str(Transform())
        ('log10 of the ratio to Si28', 'no logarithm')
        """
        if self.kind == "none":
            return "no logarithm"
        return self.kind + (f" of the ratio to {self.reference}" if self.reference else "")

    def apply(self, values: Floats, reference: Floats | None = None) -> Floats:
        """Transform ``values`` (rows × features), given the reference's value of each row if there is one.

        The ratio is taken after the log, log x − log r, so that it cannot overflow. Where a value is not
        positive the result is NaN; `lindley.table.read_table` reports these cells, and returns none.
        """
        if (reference is None) != (self.reference is None):
            raise ValueError(f"reference column {self.reference!r}, but its values were given or left out")
        if self.kind == "none":
            return values
        log = np.log10 if self.kind == "log10" else np.log
        result: Floats = log(np.where(values > 0, values, np.nan))
        if reference is not None:
            result = result - log(np.where(reference > 0, reference, np.nan))[:, None]
        return result


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / sd, per feature."""

    mean: Floats  # (features,)
    sd: Floats  # (features,)

    @classmethod
    def fit(cls, values: Floats, features: Sequence[str], where: str) -> Scaling:
        """The grand mean and standard deviation of all instances; ``where`` names them in an error."""
        if constant := list(compress(features, spread(values) <= rounding_error(values))):
            has, says, it = ("has", "says", "it") if len(constant) == 1 else ("have", "say", "them")
            raise LindleyError(
                f"{where}: {listing(quoted(constant))} {has} one value over the whole training part and {says} "
                f"nothing about sources. Leave {it} out with {setting('ignore', *constant)}."
            )
        if extreme := list(compress(features, leaves_range(values))):
            raise LindleyError(
                f"{where}: the variance of {listing(quoted(extreme))} leaves the range of floating point, as values "
                f"are above {LARGEST:g} or differ by less than {SMALLEST:g}. Give them in another unit."
            )
        return cls(values.mean(axis=0), values.std(axis=0, ddof=1))

    def __call__(self, values: Floats) -> Floats:
        """Raw to standardised."""
        scaled = values - self.mean
        scaled /= self.sd
        return scaled

    def undo(self, values: Floats) -> Floats:
        """Standardised to raw."""
        return values * self.sd + self.mean


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

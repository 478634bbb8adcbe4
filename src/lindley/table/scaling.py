"""Standardisation with the statistics of the training part only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.table.findings import listing, option_list, quoted
from lindley.table.spread import LARGEST, SMALLEST, leaves_range, rounding_error, spread

__all__ = ["Scaling"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / sd, per feature."""

    mean: Floats  # (features,)
    sd: Floats  # (features,)

    @classmethod
    def fit(cls, values: Floats, features: Sequence[str], where: str) -> Scaling:
        """The grand mean and standard deviation of all instances; ``where`` names them in an error."""
        if len(constant := _names(features, spread(values) <= rounding_error(values))):
            has, says, it = ("has", "says", "it") if len(constant) == 1 else ("have", "say", "them")
            raise LindleyError(
                f"{where}: {listing(quoted(constant))} {has} one value over the whole training part and {says} "
                f"nothing about sources. Leave {it} out with --ignore-columns {option_list(*constant)}."
            )
        if len(extreme := _names(features, leaves_range(values))):
            raise LindleyError(
                f"{where}: the variance of {listing(quoted(extreme))} leaves the range of floating point, as values "
                f"are above {LARGEST:g} or differ by less than {SMALLEST:g}. Give them in another unit."
            )
        return cls(values.mean(axis=0), values.std(axis=0, ddof=1))

    def __call__(self, values: Floats) -> Floats:
        """Raw to standardised."""
        return (values - self.mean) / self.sd

    def undo(self, values: Floats) -> Floats:
        """Standardised to raw."""
        return values * self.sd + self.mean


def _names(features: Sequence[str], which: NDArray[np.bool_]) -> list[str]:
    return [name for name, chosen in zip(features, which.tolist(), strict=True) if chosen]

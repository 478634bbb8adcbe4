"""Standardisation with the statistics of the training part only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError

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
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
        # A constant column can leave a rounding error behind: 1e-12 of its size is no spread.
        constant = sd <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
        if constant.any():
            names = ", ".join(np.asarray(features)[constant])
            raise LindleyError(
                f"{where}: {names} has one value over the whole training part and says nothing about sources. "
                f"Leave it out with --ignore-columns {names.replace(', ', ',')}."
            )
        return cls(mean, sd)

    def __call__(self, values: Floats) -> Floats:
        """Raw to standardised."""
        return (values - self.mean) / self.sd

    def undo(self, values: Floats) -> Floats:
        """Standardised to raw."""
        return values * self.sd + self.mean

"""Calibration: maps from LLR to LLR, fitted on pairs whose truth is known.

Every calibration is a frozen dataclass with ``fit(llrs)``, a call that takes log10 LLRs of any shape and
leaves them unchanged, and ``describe()`` with the numbers for a results file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from lindley.calibration.counted import Bounds, Elub, InvarianceBounds, Pav, elub, iv, pav
from lindley.calibration.smooth import Kernel, Logistic
from lindley.errors import LindleyError
from lindley.llrs import Floats, LLRs

__all__ = [
    "CALIBRATIONS",
    "Bounds",
    "Calibration",
    "Chain",
    "Elub",
    "InvarianceBounds",
    "Kernel",
    "Logistic",
    "Pav",
    "elub",
    "iv",
    "pav",
]


class Calibration(Protocol):
    """What every calibration offers."""

    @classmethod
    def fit(cls, llrs: LLRs) -> Self:
        """Fit on pairs whose truth is known."""
        ...

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10), in the shape of ``llr``."""
        ...

    def describe(self) -> dict[str, float]:
        """Plain numbers for a results file."""
        ...


CALIBRATIONS: dict[str, type[Calibration]] = {
    "logistic": Logistic,
    "kde": Kernel,
    "pav": Pav,
    "elub": Elub,
    "iv": InvarianceBounds,
}


@dataclass(frozen=True, eq=False)
class Chain:
    """Calibrations applied one after the other; no calibration at all leaves the LLRs as they are."""

    names: tuple[str, ...]
    steps: tuple[Calibration, ...]

    def __call__(self, llr: Floats) -> Floats:
        """Calibrated LLRs (log10)."""
        result = np.array(llr, dtype=np.float64)
        for step in self.steps:
            result = step(result)
        return result

    @classmethod
    def fit(cls, names: Sequence[str], llrs: LLRs) -> Chain:
        """Fit the named calibrations in order, each on the output of the one before.

        >>> import numpy as np
        >>> Chain.fit(["logistic", "elub"], LLRs(np.array([0.5, 1.0]), np.array([-2.0, 0.1]))).names
        ('logistic', 'elub')
        """
        if unknown := [name for name in names if name not in CALIBRATIONS]:
            raise LindleyError(f"unknown calibration {', '.join(unknown)}; known are {', '.join(CALIBRATIONS)}")
        chain = cls((), ())
        for name in names:
            step = CALIBRATIONS[name].fit(llrs)
            llrs, chain = llrs.map(step), cls((*chain.names, name), (*chain.steps, step))
        return chain

    def then(self, other: Chain) -> Chain:
        """Both, one after the other."""
        return Chain(self.names + other.names, self.steps + other.steps)

    def describe(self) -> list[dict[str, object]]:
        """One entry per step: its name and its numbers."""
        return [{"name": n, **step.describe()} for n, step in zip(self.names, self.steps, strict=True)]

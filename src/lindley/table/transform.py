"""What is done to the features before anything else: a ratio to a reference column, and a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError

__all__ = ["Transform", "TransformKind"]

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

    def apply(self, values: NDArray[np.float64], reference: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Transform ``values`` (rows × features), given the reference's value of each row if there is one.

        The ratio is taken after the log, log x − log r, so that it cannot overflow. Where a value is not
        positive the result is NaN; `lindley.table.read_table` reports these cells, and returns none.
        """
        if (reference is None) != (self.reference is None):
            raise ValueError(f"reference column {self.reference!r}, but its values were given or left out")
        if self.kind == "none":
            return values
        log = np.log10 if self.kind == "log10" else np.log
        result: NDArray[np.float64] = log(np.where(values > 0, values, np.nan))
        if reference is not None:
            result = result - log(np.where(reference > 0, reference, np.nan))[:, None]
        return result

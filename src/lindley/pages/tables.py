"""Tables of a report as plain rows: numbers as text, and how strongly to tint them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lindley.llrs import Floats

__all__ = ["MOST_COLUMNS", "Cell", "CovarianceTable", "covariance_table"]

MOST_COLUMNS = 30
"""More columns than this on a page are no table for a person; the first are shown, and the page says so."""


@dataclass(frozen=True)
class Cell:
    """A covariance, and the correlation that it amounts to as a tint: blue above 0, red below."""

    text: str
    tint: str  # CSS colour
    correlation: float


@dataclass(frozen=True)
class CovarianceTable:
    """Rows and columns are features."""

    features: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int


def covariance_table(features: tuple[str, ...], covariance: Floats) -> CovarianceTable:
    """Three digits as in the paper, 4.11e−2, tinted by correlation: the units of two features need not be the same."""
    d = min(len(features), MOST_COLUMNS)
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)
    rows = tuple(
        tuple(_cell(float(covariance[i, j]), float(np.clip(correlation[i, j], -1, 1)), i == j) for j in range(d))
        for i in range(d)
    )
    return CovarianceTable(features[:d], rows, len(features) - d)


def _cell(covariance: float, correlation: float, diagonal: bool) -> Cell:
    mantissa, exponent = f"{covariance:.2e}".split("e")
    colour = "93,106,118" if diagonal else "0,88,143" if correlation >= 0 else "179,64,31"
    strength = 0.16 if diagonal else 0.42 * abs(correlation)
    return Cell(f"{mantissa}e{int(exponent)}".replace("-", "−"), f"rgba({colour},{strength:.2f})", correlation)

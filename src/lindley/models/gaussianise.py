"""Transforms that make features closer to normal, fitted on the training part only.

They are the Gaussianising benchmark of the paper (Ramirez et al.). Two are marginal, one feature at a
time, and as in scikit-learn: one sends the empirical quantiles of a feature to those of the standard normal law, the other fits
Yeo and Johnson's one-parameter family by maximum likelihood. scikit-learn sends the smallest and the largest training value,
and all beyond them, to ±5.2. Here they go where the extremes of n normal values are expected, ±Φ⁻¹(1 − 1/2n): a pair beyond the
training range looks alike, but not outlandish. The third, ``flow``, bends all features together, and knows of sources
(`lindley.models.flow`). Beside these, ``log10`` takes the logarithm of every feature, as ``--transform log10`` does of a
table, so that one run compares both.

Each is a dataclass of plain arrays, so that it can be stored, and is called with values (rows, feature).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.flow import Flow, fit_flow

__all__ = [
    "GAUSSIANISERS",
    "Gaussianiser",
    "GaussianiserName",
    "Logarithm",
    "Quantile",
    "YeoJohnson",
    "fit_gaussianiser",
]

GaussianiserName = Literal["log10", "quantile", "yeo-johnson", "flow"]
GAUSSIANISERS: tuple[GaussianiserName, ...] = get_args(GaussianiserName)
MOST_QUANTILES = 1000
AT_THE_END = 1e-7
"""A value this close to the smallest or the largest training value counts as beyond it."""


def fit_gaussianiser(
    kind: GaussianiserName,
    values: Floats,
    *,
    source: NDArray[Any] | None = None,
    group: NDArray[Any] | None = None,
    seed: int = 0,
    zero: Floats | float = 0.0,
) -> Gaussianiser:
    """The transform of values (rows, feature), fitted on training instances.

    Args:
        kind: which of them.
        values: instances (rows, feature).
        source: of every row. A flow must know; a marginal transform does not look at it.
        group: of every row, if sources come in groups.
        seed: of what a flow draws; a marginal transform draws nothing.
        zero: what 0 is in these units, where measurements were standardised (feature,); a logarithm needs it.
    """
    if kind == "log10":
        return Logarithm.fit(values, np.broadcast_to(zero, values.shape[1:]))
    if kind == "quantile":
        return Quantile.fit(values)
    if kind == "yeo-johnson":
        return YeoJohnson.fit(values)
    if source is None:
        raise ValueError("a flow is fitted on sources: say which one every row is of")
    return fit_flow(values, source, group=group, seed=seed)


@dataclass(frozen=True, eq=False)
class Quantile:
    """Φ⁻¹ of the share of training values below a value, interpolated between quantiles, and at most ``end`` in size."""

    quantiles: Floats  # of every feature (feature, n)
    references: Floats  # the shares that they stand for (n,)
    end: float

    @classmethod
    def fit(cls, values: Floats) -> Quantile:
        """From instances (rows, feature)."""
        references = np.linspace(0.0, 1.0, min(MOST_QUANTILES, len(values)))
        quantiles = np.maximum.accumulate(np.percentile(values, 100 * references, axis=0))
        return cls(np.ascontiguousarray(quantiles.T), references, float(ndtri(1 - 0.5 / len(values))))

    def __call__(self, values: Floats) -> Floats:
        """Values (rows, feature), transformed."""
        columns = [self._share(x, q) for x, q in zip(np.asarray(values).T, self.quantiles, strict=True)]
        result: Floats = np.clip(ndtri(np.stack(columns, 1)), -self.end, self.end)
        return result

    def _share(self, x: Floats, quantiles: Floats) -> Floats:
        """The share of training values below x (rows,); of several equal quantiles, the middle one counts."""
        up = np.interp(x, quantiles, self.references)
        down = np.interp(-x, -quantiles[::-1], -self.references[::-1])
        inside = np.where(x + AT_THE_END > quantiles[-1], 1.0, 0.5 * (up - down))
        return np.where(x - AT_THE_END < quantiles[0], 0.0, inside)


@dataclass(frozen=True, eq=False)
class YeoJohnson:
    """((1 + x)^λ − 1)/λ for x ≥ 0 and −((1 − x)^(2−λ) − 1)/(2 − λ) below, standardised over the training values."""

    power: Floats  # λ (feature,)
    mean: Floats  # of the training values, transformed (feature,)
    sd: Floats  # (feature,)

    @classmethod
    def fit(cls, values: Floats) -> YeoJohnson:
        """From instances (rows, feature). A feature of one value stays as it is."""
        from scipy.stats import yeojohnson  # on demand: it takes half a second

        power = np.array([yeojohnson(x)[1] if np.ptp(x) > 0 else 1.0 for x in values.T])
        bent = _bend(values, power)
        sd = bent.std(axis=0)
        return cls(power, bent.mean(axis=0), np.where(sd > 0, sd, 1.0))

    def __call__(self, values: Floats) -> Floats:
        """Values (rows, feature), transformed."""
        return (_bend(np.asarray(values), self.power) - self.mean) / self.sd


@dataclass(frozen=True, eq=False)
class Logarithm:
    """ln(x − zero), standardised over the training values: the same for any base."""

    zero: Floats  # what 0 was before the values were standardised (feature,)
    mean: Floats  # of the logarithms of training values (feature,)
    sd: Floats  # (feature,)

    @classmethod
    def fit(cls, values: Floats, zero: Floats) -> Logarithm:
        """From instances (rows, feature)."""
        plain = cls(np.array(zero), np.zeros(values.shape[1]), np.ones(values.shape[1]))
        sd = plain(values).std(axis=0)
        return cls(plain.zero, plain(values).mean(axis=0), np.where(sd > 0, sd, 1.0))

    def __call__(self, values: Floats) -> Floats:
        """Values (rows, feature), transformed."""
        above = np.asarray(values) - self.zero
        if (above <= 0).any():
            raise LindleyError(
                "log10: in front of a model takes logarithms, and some values are not positive: leave it out, or give the "
                "measured values"
            )
        return np.asarray((np.log(above) - self.mean) / self.sd)


Gaussianiser = Logarithm | Quantile | YeoJohnson | Flow


def _bend(values: Floats, power: Floats) -> Floats:
    """The formula of `YeoJohnson`, before it is standardised."""
    return np.where(values >= 0, _root(values, power), -_root(-values, 2 - power))


def _root(x: Floats, power: Floats) -> Floats:
    """((1 + x)^λ − 1)/λ, which is ln(1 + x) for λ = 0, of the part of x above zero."""
    ln = np.log1p(np.maximum(x, 0.0))
    flat = np.abs(power) < np.finfo(np.float64).eps
    return np.where(flat, ln, np.expm1(power * ln) / np.where(flat, 1.0, power))

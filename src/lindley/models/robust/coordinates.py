r"""Coordinates: few axes on which measurements and sources are uncorrelated, from shrunk covariances.

With C the contrasts of the measurements of each source (f of them), and the means x̄_i of n sources of n_i measurements, the
covariances of p features, in units of the spread of each, are

    W = (1 − a) S_W + a diag(S_W),   S_W Student scatter of C,                      a = c_W p / (c_W p + f)
    B = (1 − b) S_B + b diag(S_B) − W mean(1/n_i),   S_B robust scatter of x̄_i,     b = c_B p / (c_B p + n)

and the axes are the k generalised eigenvectors of (B, W) with the largest λ: W is the identity on them and B diag(λ). c_W, c_B
and k are chosen on held-out sources (`lindley.models.robust.fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.fitting import Sources

__all__ = ["Axes", "Coordinates", "Setting"]

FREEDOM = 5.0
"""ν of the Student law whose maximum-likelihood scatter is S_W: heavy, as single contrasts may be wrong."""
LEAST_VAR = 1e-8
"""Of a feature, in units of its squared spread: a feature whose measurements of each source are all equal has no variance."""
LEAST_LAMBDA = 1e-3
"""Of an axis on which sources differ less than chance would have it."""
MANY, LITTLE = 64, 0.01
"""Axes that there may be more of than sources, as shrinkage tells of the others; a shrinkage that changes next to nothing."""
STEPS, CLOSE = 20, 1e-3
"""Of the iterations of S_W and S_B: at most, and the relative change that ends them."""


@dataclass(frozen=True)
class Setting:
    """What decides the coordinates: c_W, c_B and the number of axes."""

    within: float
    between: float
    axes: int


@dataclass(frozen=True, eq=False)
class Axes:
    """An origin and axes in the space of the features."""

    centre: Floats  # (feature,)
    projection: Floats  # (feature, axis)
    var: Floats  # λ (axis,)


class Coordinates:
    """The covariances of some sources, each computed once for every shrinkage."""

    def __init__(self, sources: Sources) -> None:
        contrasts, _ = sources.contrasts()
        if len(contrasts) < 2 or len(sources) < 3:
            raise LindleyError("the robust model needs three sources or more, two of them measured twice")
        self.spread = _spread(sources.values)
        self.contrasts, self.means = contrasts / self.spread, sources.means / self.spread
        self.share = float((1 / sources.count).mean())
        self._within: dict[float, Floats] = {}
        self._between: dict[float, tuple[Floats, Floats]] = {}

    @property
    def most_axes(self) -> int:
        """How many axes there can be: of many features, no more than sources tell of."""
        n, p = self.means.shape
        return min(int(p), max(MANY, int(n) - 3))

    def shrinkage(self, c: float) -> float:
        """a, the weight of the diagonal in W."""
        f, p = self.contrasts.shape
        return float(c * p / (c * p + f))

    def distinct(self, values: Sequence[float]) -> list[float]:
        """Those c that make a difference: of all that hardly shrink at all, the largest."""
        little = [c for c in values if self.shrinkage(c) < LITTLE]
        return [c for c in values if c not in little[:-1]]

    def within(self, c: float) -> Floats:
        """W (feature, feature), in units of the spreads."""
        if c not in self._within:
            f, p = self.contrasts.shape
            shrinkage = self.shrinkage(c)
            scatter = _shrunk(self.contrasts.T @ self.contrasts / f, shrinkage)
            for _ in range(STEPS):
                weight = (FREEDOM + p) / (FREEDOM + _distances(self.contrasts, scatter))
                new = _shrunk((self.contrasts * weight[:, None]).T @ self.contrasts / f, shrinkage)
                change, scatter = np.abs(new - scatter).max() / np.abs(new).max(), new
                if change < CLOSE:
                    break
            self._within[c] = scatter
        return self._within[c]

    def between(self, c: float) -> tuple[Floats, Floats]:
        """The mean of the source means (feature,) and S_B, shrunk: sources far out weigh less."""
        if c not in self._between:
            n, p = self.means.shape
            shrinkage, weight = c * p / (c * p + n), np.ones(n)
            for _ in range(STEPS):
                centre = np.average(self.means, axis=0, weights=weight)
                away = self.means - centre
                scatter = _shrunk((away * weight[:, None]).T @ away / (n - 1), shrinkage)
                new = np.minimum(1.0, 10 * p / np.maximum(_distances(away, scatter), 1e-300))
                change, weight = np.abs(new / weight - 1).max(), new  # of a source far out, the smallest weight counts
                if change < CLOSE:
                    break
            self._between[c] = centre, scatter
        return self._between[c]

    def axes(self, setting: Setting) -> Axes:
        """The axes of a setting, those with the largest λ first."""
        within = self.within(setting.within)
        centre, total = self.between(setting.between)
        within = within + np.eye(len(within)) * (1e-9 * np.trace(within) / len(within))
        first = max(0, len(within) - setting.axes)
        var, basis = scipy.linalg.eigh(total - within * self.share, within, subset_by_index=(first, len(within) - 1))
        var, basis = var[::-1], basis[:, ::-1]
        basis = basis * np.where(basis[np.abs(basis).argmax(0), np.arange(len(var))] < 0, -1.0, 1.0)
        return Axes(centre * self.spread, basis / self.spread[:, None], np.maximum(var, LEAST_LAMBDA))


def _spread(values: Floats) -> Floats:
    """The spread of every feature: from its quartiles, or its standard deviation where half of the values are equal."""
    low, high = np.quantile(values, (0.25, 0.75), axis=0)
    deviation = values.std(axis=0)
    spread = (high - low) / 1.349
    return np.where(spread > 1e-9 * deviation, spread, np.where(deviation > 0, deviation, 1.0))


def _shrunk(scatter: Floats, share: float) -> Floats:
    """A covariance whose correlations are smaller by a share."""
    shrunk = (1 - share) * scatter
    np.fill_diagonal(shrunk, np.maximum(np.diag(scatter), LEAST_VAR))
    return np.asarray(shrunk)


def _distances(rows: Floats, scatter: Floats) -> Floats:
    """Squared Mahalanobis distances of rows from the origin (rows,)."""
    jitter = np.eye(len(scatter)) * (1e-12 * np.trace(scatter) / len(scatter))
    root = scipy.linalg.solve_triangular(np.linalg.cholesky(scatter + jitter), rows.T, lower=True)
    return np.asarray((root**2).sum(axis=0))

"""Axes on which replicates and sources are uncorrelated, from few and outlying measurements.

With the contrasts c of a source with n_i instances (n_i − 1 of them, each with covariance τ_i W), the within matrix
is that of a Student-t law with ν degrees of freedom, τ_i being a scale of the whole source (Lange et al. 1989, J. Am.
Statist. Assoc. 84, 881):

    u_i = (ν + (n_i − 1) p) / (ν + Σ_c cᵀ W⁻¹ c),      W = Σ_i u_i Σ_c c cᵀ / Σ_i (n_i − 1),

iterated. A source that scatters wildly gets a small weight u_i, and does not turn the axes. W is then shrunk towards its
diagonal. The between matrix B comes from the source means as in the classical model, and the axes solve B a = λ W a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from lindley.errors import LindleyError

__all__ = ["Eigenbasis", "Sources", "fit_eigenbasis"]

Floats = NDArray[np.float64]

FREEDOM = 5.0
"""ν of the within law: low, as single outliers must not decide."""
SHRINKAGE = 0.02
"""Least weight of the diagonal in the within matrix."""
ITERATIONS, CONVERGED = 100, 1e-8
LEAST_LAMBDA = 0.05
"""Variance between sources, in units of the variance within, that every axis is given at least."""
LEAST_VARIANCE = 1e-8
"""Within variance, in units of the total variance of a feature, that every feature is given at least."""


@dataclass(frozen=True, eq=False)
class Sources:
    """Instances sorted by source, with the number of instances of each."""

    values: Floats  # (rows, feature)
    first: NDArray[np.intp]  # (sources,) first row of a source
    count: NDArray[np.intp]  # (sources,)
    group: NDArray[np.intp]  # (sources,) number of its group

    @classmethod
    def of(cls, values: Floats, source: NDArray[np.str_], group: NDArray[np.str_] | None = None) -> Sources:
        """From rows in any order; the order of the sources is that of their names."""
        labels, row, item, count = np.unique(source, return_index=True, return_inverse=True, return_counts=True)
        groups = labels if group is None else group[row]
        order = np.argsort(item, kind="stable")
        return cls(values[order], np.cumsum(count) - count, count, np.unique(groups, return_inverse=True)[1])

    def __len__(self) -> int:
        return len(self.count)

    def take(self, which: NDArray[np.intp]) -> Sources:
        """Some of the sources."""
        count = self.count[which]
        first = np.cumsum(count) - count
        rows = np.repeat(self.first[which] - first, count) + np.arange(count.sum())
        return Sources(self.values[rows], first, count, self.group[which])

    @property
    def item(self) -> NDArray[np.intp]:
        """The source of every row, (rows,)."""
        return np.repeat(np.arange(len(self)), self.count)

    @property
    def means(self) -> Floats:
        """(sources, feature)."""
        result: Floats = np.add.reduceat(self.values, self.first, axis=0) / self.count[:, None]
        return result


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """x ↦ (x − centre) A: variance one within sources on every axis, λ between them, largest λ first."""

    centre: Floats  # (feature,)
    axes: Floats  # A (feature, axis)
    var_between: Floats  # λ (axis,)

    def __call__(self, values: Floats) -> Floats:
        """(rows, feature) → (rows, axis)."""
        result: Floats = (values - self.centre) @ self.axes
        return result


def fit_eigenbasis(sources: Sources) -> Eigenbasis:
    """The eigenbasis of these sources.

    Raises:
        LindleyError: if there are not three sources, or no two of them were measured twice.
    """
    if len(sources) < 3 or (sources.count > 1).sum() < 2:
        raise LindleyError(
            f"the robust model needs at least three sources to learn from at a time, two of them measured twice: got "
            f"{len(sources)} sources, {(sources.count > 1).sum()} of them measured twice or more"
        )
    m, n = len(sources), len(sources.values)
    means = sources.means
    centre = means.mean(axis=0)
    total = sources.values.var(axis=0)
    total = np.where(total > 0, total, 1.0)
    # In units of the features' own spread, so that no unit is special.
    unit = np.sqrt(total)
    contrasts, owner = _contrasts(sources)
    within = _student_scatter(contrasts / unit, owner)
    kappa = (n - (sources.count**2).sum() / n) / (m - 1)
    weighted = (means - np.average(means, axis=0, weights=sources.count)) * np.sqrt(sources.count)[:, None] / unit
    between = (weighted.T @ weighted / (m - 1) - within) / kappa
    lam, axes = scipy.linalg.eigh((between + between.T) / 2, within)
    order = np.argsort(-lam, kind="stable")
    return Eigenbasis(centre, axes[:, order] / unit[:, None], np.maximum(lam[order], LEAST_LAMBDA))


def _contrasts(sources: Sources) -> tuple[Floats, NDArray[np.intp]]:
    """n_i − 1 orthonormal contrasts of every source with n_i ≥ 2, (contrasts, feature), and whose they are."""
    parts, owners = [], []
    for n in np.unique(sources.count[sources.count > 1]):
        which = np.flatnonzero(sources.count == n)
        replicates = sources.values[sources.first[which][:, None] + np.arange(n)]  # (sources, n, feature)
        parts.append(np.einsum("kn,snf->skf", scipy.linalg.helmert(n), replicates).reshape(-1, replicates.shape[-1]))
        owners.append(np.repeat(which, n - 1))
    return np.concatenate(parts), np.concatenate(owners)


def _student_scatter(contrasts: Floats, owner: NDArray[np.intp]) -> Floats:
    """W of the module's formula, shrunk, from contrasts in units of the total standard deviation."""
    freedom, p = contrasts.shape
    _, source, count = np.unique(owner, return_inverse=True, return_counts=True)
    # Light shrinkage where measurements abound; most of the weight where there are fewer of them than features.
    shrinkage = SHRINKAGE + (1 - SHRINKAGE) * (p / (p + freedom)) ** 2
    scatter = _regular(contrasts.T @ contrasts / freedom, shrinkage)
    for _ in range(ITERATIONS):
        distance = np.einsum("cf,cf->c", contrasts, scipy.linalg.solve(scatter, contrasts.T, assume_a="pos").T)
        squared = np.bincount(source, distance)
        weight = ((FREEDOM + count * p) / (FREEDOM + squared))[source]
        new = _regular((contrasts * weight[:, None]).T @ contrasts / freedom, shrinkage)
        change = np.abs(new - scatter).max() / np.abs(new).max()
        scatter = new
        if change < CONVERGED:
            break
    return scatter


def _regular(covariance: Floats, shrinkage: float) -> Floats:
    """(1 − s) W + s diag(W), with a floor under the variances."""
    result = (1 - shrinkage) * covariance
    np.fill_diagonal(result, np.maximum(covariance.diagonal(), LEAST_VARIANCE))
    return result

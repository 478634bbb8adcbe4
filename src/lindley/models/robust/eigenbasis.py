"""Coordinates of the robust model: features of even scatter, and axes on which replicates and sources are uncorrelated.

*Even scatter.* Features whose replicates vary more at one level than at another are mapped to where they do not. If the scatter
of replicates goes with the level of a feature x, standardised over sources, as sd(x) ∝ exp(r x), then

    u(x) = ∫₀ˣ exp(−r s) ds = (1 − exp(−r x))/r

has the same scatter everywhere (the logarithm, a root and the identity are such maps). Beyond the levels of known sources u
goes on along its tangent. An LR does not change under a one-to-one map of a feature: this is a choice of coordinates, in
which one within covariance fits all sources better.

r is the slope of a regression of ½ ln(c² + ¼ m²) on the level, c being the contrasts of replicates and m their median size:
half a median keeps the logarithm of near-coincidences, and rounding, from deciding. A slope r with standard error s is
shrunk to r (1 − 2 s²/r²)₊, so that features without such a trend are left alone.

*Axes*, from few and outlying measurements. With the contrasts c of a source with n_i instances (n_i − 1 of them, each with
covariance τ_i W), the within matrix is that of a Student-t law with ν degrees of freedom, τ_i being a scale of the whole source
(Lange et al. 1989, J. Am. Statist. Assoc. 84, 881):

    u_i = (ν + (n_i − 1) p) / (ν + Σ_c cᵀ W⁻¹ c),      W = Σ_i u_i Σ_c c cᵀ / Σ_i (n_i − 1),

iterated. A source that scatters wildly gets a small weight u_i, and does not turn the axes. W is then shrunk towards its
diagonal. The between matrix B is the covariance of the source means, shrunk towards its own, less W/n, with gross outliers
pulled in, and the axes solve B a = λ W a. Of many features, such as bands of a spectrum, the diagonals are those of principal
components: neighbours that vary as one would look independent. (A Student-t estimate of B, which describes the bulk of the
sources, did much worse: the population is not its bulk.)

*Related sources* differ more on some axes than on others: windows of one vehicle may share their iron and not their sodium.
From the differences δ of the means of mates (different sources of one group), with the variance v due to replicates,

    s = (median δ² / 0.455 − v) / λ,      λ̃ = λ (s/s̄)^(d/(d + 20)),

0.455 being the median of χ²₁, s̄ the geometric mean over axes, and d the degrees of freedom: sources in groups, less groups.
Without groups λ̃ is λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.fitting import Sources
from lindley.models.robust.kept import kept

__all__ = ["Bases", "Eigenbasis", "Shrinkage", "Stabiliser", "fit_eigenbasis", "fit_stabiliser", "related_variance"]

T = TypeVar("T")

STEEPEST = 1.0
"""|r| at most: e-fold scatter per standard deviation of the level."""


@dataclass(frozen=True, eq=False)
class Stabiliser:
    """u of every feature, one set per run: tensors (run, 1, feature)."""

    level: Tensor  # mean over sources
    spread: Tensor  # standard deviation over sources
    slope: Tensor  # r
    low: Tensor  # of the known levels, standardised
    high: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        """(run, items, feature) → the same shape, in units of the spread."""
        flat, minus_b = self._where_flat
        x = (values - self.level) / self.spread
        inside = torch.minimum(torch.maximum(x, self.low), self.high)
        less = torch.expm1(minus_b * inside)
        curved = torch.where(flat, inside, less / minus_b)
        return curved + torch.where(flat, 1.0, 1 + less) * (x - inside)

    @kept
    def _where_flat(self) -> tuple[Tensor, Tensor]:
        """Where r is zero, and −r, or −1 there."""
        flat = self.slope == 0
        return flat, torch.where(flat, -1.0, -self.slope)

    def ln_slope(self, values: Tensor) -> Tensor:
        """ln du/d(value), the shape of the values: what takes a density of u to one of the feature."""
        x = (values - self.level) / self.spread
        inside = torch.minimum(torch.maximum(x, self.low), self.high)
        return -self.slope * inside - self.spread.log()


def fit_stabiliser(sources: Sources) -> Stabiliser:
    """The stabiliser of one run, from sources of which some were measured twice or more."""
    means = sources.means
    level, spread = means.mean(axis=0), means.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    x = (means - level) / spread
    contrasts, owner = sources.contrasts()
    size = np.median(np.abs(contrasts), axis=0)
    size = np.where(size > 0, size, np.where(contrasts.std(axis=0) > 0, contrasts.std(axis=0), 1.0))
    y = 0.5 * np.log((contrasts / size) ** 2 + 0.25)
    at = x[owner] - x[owner].mean(axis=0)
    square = (at**2).sum(axis=0)
    square = np.where(square > 0, square, np.inf)
    slope = (at * y).sum(axis=0) / square
    rest = y - y.mean(axis=0) - slope * at
    error2 = (rest**2).sum(axis=0) / max(len(y) - 2, 1) / square
    slope = slope * np.maximum(0.0, 1 - 2 * error2 / np.where(slope == 0, 1.0, slope**2))
    slope = np.clip(slope, -STEEPEST, STEEPEST)
    return Stabiliser(*(torch.from_numpy(v[None, None]) for v in (level, spread, slope, x.min(axis=0), x.max(axis=0))))


FREEDOM = 5.0
"""ν of the within law: low, as single outliers must not decide."""
ITERATIONS, CONVERGED = 100, 1e-8
FAR = 10.0
"""Squared distance of a source mean from the centre, per feature and in units of the variance, from which it is gross."""
LEAST_LAMBDA = 0.05
"""Variance between sources, in units of the variance within, that every axis is given at least."""
LEAST_COMPONENT = 1e-6
"""Size of a principal component, in units of the largest, that is kept at least."""
LEAST_VARIANCE = 1e-8
"""Within variance, in units of the total variance of a feature, that every feature is given at least."""


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """x ↦ (x − centre) A: variance one within sources on every axis, λ between them, largest λ first."""

    centre: Floats  # (feature,)
    axes: Floats  # A (feature, axis)
    directions: Floats  # the rows of A with all axes scaled to length one (feature, axis)
    var_between: Floats  # λ (axis,)

    def __call__(self, values: Floats) -> Floats:
        """(rows, feature) → (rows, axis)."""
        return (values - self.centre) @ self.axes


@dataclass(frozen=True)
class Shrinkage:
    """How much of an eigenbasis is left to few measurements: what a table wants is chosen on held-out pairs."""

    within: float = 0.1  # least weight of the diagonal in the within matrix
    between: float = 0.3  # b: the diagonal has the weight bp/(bp + n) in the between matrix of p features and n sources
    components: bool = False  # the diagonals are those of principal components of the features, and not of the features
    axes: int | None = None  # those with the largest λ, of as many components; None for all


def fit_eigenbasis(sources: Sources, shrinkage: Shrinkage) -> Eigenbasis:
    """The eigenbasis of these sources.

    Raises:
        LindleyError: if there are not three sources, or no two of them were measured twice.
    """
    return Bases(sources)(shrinkage)


class Bases:
    """Eigenbases of the same sources, for one shrinkage after the other: each part is found once for what it hangs on."""

    def __init__(self, sources: Sources) -> None:
        if len(sources) < 3 or (sources.count > 1).sum() < 2:
            raise LindleyError(
                f"the robust model needs at least three sources to learn from at a time, two of them measured twice: got "
                f"{len(sources)} sources, {(sources.count > 1).sum()} of them measured twice or more"
            )
        self.sources, self.means = sources, sources.means
        # In units of the features' own spread, so that no unit is special.
        self._unit = _spread(sources.values)
        contrasts, self._owner = sources.contrasts()
        self._contrasts, self._scaled = contrasts / self._unit, self.means / self._unit
        self._found: dict[tuple[object, ...], Any] = {}

    def __call__(self, shrinkage: Shrinkage) -> Eigenbasis:
        """The basis of a shrinkage."""
        turn_by = (shrinkage.axes,) if shrinkage.components else ()
        turn, contrasts, means = self._once(("turned", *turn_by), lambda: self._turned(shrinkage))
        within = self._once(
            ("within", shrinkage.within, *turn_by), lambda: _student_scatter(contrasts, self._owner, shrinkage.within)
        )
        centre, total = self._once(
            ("between", shrinkage.between, *turn_by), lambda: _centre_and_scatter(means, shrinkage.between)
        )
        between = total - within * np.mean(1 / self.sources.count)
        lam, axes = scipy.linalg.eigh((between + between.T) / 2, within)
        order = np.argsort(-lam, kind="stable")[: shrinkage.axes]
        axes = turn @ axes
        # W⁻¹ = A Aᵀ: the squared length of a feature's row of A is the inverse of its variance given all others.
        directions = axes[:, order] / np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-300)
        middle = turn @ centre if shrinkage.components else centre
        in_features = axes[:, order] / self._unit[:, None]
        return Eigenbasis(middle * self._unit, in_features, directions, np.maximum(lam[order], LEAST_LAMBDA))

    def _turned(self, shrinkage: Shrinkage) -> tuple[Floats, Floats, Floats]:
        """Principal components, or the features as they are; contrasts and means there."""
        if not shrinkage.components:
            return np.eye(len(self._unit)), self._contrasts, self._scaled
        turn = _components(self._scaled, self._contrasts, shrinkage.axes)
        return turn, self._contrasts @ turn, self._scaled @ turn

    def _once(self, key: tuple[object, ...], find: Callable[[], T]) -> T:
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]
        return found


def _components(means: Floats, contrasts: Floats, most: int | None) -> Floats:
    """Principal components of the features (feature, component), as many as there are measurements for, ``most`` at most."""
    deviations = np.concatenate([means - means.mean(axis=0), contrasts])
    _, size, rows = np.linalg.svd(deviations, full_matrices=False)
    number = int((size > LEAST_COMPONENT * size[0]).sum())
    kept: Floats = rows[: number if most is None else min(number, most)].T
    return kept


def _spread(values: Floats) -> Floats:
    """A standard deviation per feature that outliers do not decide: of the middle half, if that is not zero."""
    quarter, three = np.quantile(values, [0.25, 0.75], axis=0)
    spread = (three - quarter) / 1.349
    spread = np.where(spread > 0, spread, values.std(axis=0))
    return np.where(spread > 0, spread, 1.0)


def _centre_and_scatter(means: Floats, shrinkage: float) -> tuple[Floats, Floats]:
    """Mean and covariance of source means, those beyond `FAR` pulled in to it: gross outliers count, but not for more."""
    n, p = means.shape
    diagonal = shrinkage * p / (shrinkage * p + n)
    weight = np.ones(n)
    for _ in range(ITERATIONS):
        centre = np.average(means, axis=0, weights=weight)
        deviations = means - centre
        covariance = _regular(_products(deviations, weight) / (n - 1), diagonal)
        new = np.minimum(1.0, FAR * p / np.maximum(_squared(deviations, covariance), 1e-300))
        change = np.abs(new - weight).max()
        weight = new
        if change < 1e-6:
            break
    return centre, covariance


def _student_scatter(contrasts: Floats, owner: NDArray[np.intp], least: float) -> Floats:
    """W of the module's formula, shrunk, from contrasts in units of the total standard deviation and their sources."""
    freedom, p = contrasts.shape
    _, source, count = np.unique(owner, return_inverse=True, return_counts=True)
    # Light shrinkage where measurements abound; most of the weight where there are fewer of them than features.
    shrinkage = least + (1 - least) * p / (p + freedom)
    scatter = _regular(_products(contrasts, np.ones(freedom)) / freedom, shrinkage)
    for _ in range(ITERATIONS):
        squared = np.bincount(source, _squared(contrasts, scatter))
        weight = ((FREEDOM + count * p) / (FREEDOM + squared))[source]
        new = _regular(_products(contrasts, weight) / freedom, shrinkage)
        change = np.abs(new - scatter).max() / np.abs(new).max()
        scatter = new
        if change < CONVERGED:
            break
    return scatter


# By torch, and not by NumPy: fits side by side have one of torch's threads each, and NumPy's would get in each other's way.


def _products(rows: Floats, weight: Floats) -> Floats:
    """Σ weight · x xᵀ over the rows x."""
    of_rows = torch.from_numpy(rows)
    found: Floats = ((of_rows * torch.from_numpy(weight)[:, None]).T @ of_rows).numpy()
    return found


def _squared(rows: Floats, scatter: Floats) -> Floats:
    """xᵀ S⁻¹ x of every row."""
    root = torch.linalg.cholesky(torch.from_numpy(scatter))
    found: Floats = torch.linalg.solve_triangular(root, torch.from_numpy(rows).T, upper=False).square_().sum(0).numpy()
    return found


def _regular(covariance: Floats, shrinkage: float) -> Floats:
    """(1 − s) W + s diag(W), with a floor under the variances."""
    result = (1 - shrinkage) * covariance
    np.fill_diagonal(result, np.maximum(covariance.diagonal(), LEAST_VARIANCE))
    return result


MEDIAN_SQUARE = 0.4549
"""Of a standard normal variable."""
MOST_MATES = 20_000
"""Pairs of mates that are looked at; of more, an even choice."""
ALIKE_AXES = 20.0
"""Degrees of freedom that the assumption counts as, that related sources differ on all axes alike."""


def related_variance(basis: Eigenbasis, sources: Sources, means: Floats) -> Floats:
    """λ̃ (axis,) of these sources, with their ``means`` on the axes."""
    by_group = np.argsort(sources.group, kind="stable")
    size = np.bincount(sources.group)[np.unique(sources.group)]
    freedom = int((size - 1).sum())
    if freedom == 0:
        return basis.var_between
    pairs = [(a, b) for group in np.split(by_group, np.cumsum(size)[:-1]) for a, b in combinations(group.tolist(), 2)]
    i, j = np.array(pairs[:: -(-len(pairs) // MOST_MATES)]).T
    noise = (1 / sources.count[i] + 1 / sources.count[j]).mean()  # replicates have variance one on every axis
    square = np.median((means[i] - means[j]) ** 2, axis=0) / MEDIAN_SQUARE
    share = np.log(np.maximum(square - noise, noise / 4) / basis.var_between)
    return np.asarray(basis.var_between * np.exp((share - share.mean()) * freedom / (freedom + ALIKE_AXES)))

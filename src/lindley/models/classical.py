"""The classical two-level model: within and between covariances from moments, normal or kernel between.

With source means z_i of n_i instances, i = 1 … m, and n = Σ n_i:

    W = mean over sources with n_i ≥ 2 of their covariance matrices       (within)
    n₀ = (n − Σ n_i²/n) / (m − 1)                                        (the effective number of replicates)
    B = (Σ n_i (z_i − z̄)(z_i − z̄)ᵀ/(m − 1) − W) / n₀                     (between)

These are the maximum-likelihood estimates (with n − 1 for n) of a balanced table, and the estimates of the
reference implementations for any other. The normal model takes source means as N(z̄, B); the kernel model as
(1/m) Σ_i N(z_i, h² B) with Silverman's h² = (4 / ((p + 2) m))^(2/(p+4)) for p features.

A covariance matrix that few measurements leave singular, or nearly so, is shrunk until it can be inverted, with a warning.

Lindley (1977) Biometrika 64, 207; Aitken and Lucy (2004) Appl. Statist. 53, 109; Bolck et al. (2009) Forensic Sci.
Int. 191, 42.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.between import Between, KernelBetween, NormalBetween
from lindley.models.blocks import pieces
from lindley.models.fitting import Fitted, Sources, Task, caught_warnings, refittable, tell
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = [
    "Moments",
    "ShrinkageWarning",
    "Sums",
    "estimate_moments",
    "fit_classical",
    "fit_tlm",
    "fit_tlm_kde",
    "shrink_covariance",
]

FREEDOM_PER_FEATURE = 2
"""With fewer degrees of freedom per feature than this, a sample covariance is nearly singular by chance."""
SMALLEST_EIGENVALUE = 1e-10
"""Of a correlation matrix; below it, the matrix is singular for practical purposes."""
ZERO, SUBSTITUTE = 1e-12, 1e-6
"""A variance below ZERO of the total is no variance; the feature gets SUBSTITUTE of the total instead."""
ROUNDING = 64 * np.finfo(np.float64).eps
"""Standard deviation, in units of the mean, below which a feature is constant."""
ROWS = 1 << 13
"""Rows that are weighed at a time."""


class ShrinkageWarning(UserWarning):
    """A covariance matrix had to be changed to be usable."""

    def __init__(self, what: str, intensity: float, n_zero: int, freedom: int, n_features: int, runs: str = "") -> None:
        super().__init__(what, intensity, n_zero, freedom, n_features, runs)  # as pickle makes it again
        self.what, self.intensity, self.n_zero = what, intensity, n_zero
        self.freedom, self.n_features, self.runs = freedom, n_features, runs

    def __str__(self) -> str:
        texts = []
        if self.intensity:
            texts.append(
                f"the {self.what} covariance of {self.n_features} features rests on {self.freedom} degrees of freedom: it was "
                f"shrunk towards uncorrelated features with Ledoit and Wolf's weight, {self.intensity:.2f}"
            )
        if self.n_zero:
            texts.append(
                f"{self.n_zero} of {self.n_features} features never vary {self.what} sources, and got a millionth of their "
                "total variance"
            )
        return f"in {self.runs} {'; '.join(texts)} at most" if self.runs else "; ".join(texts)

    def over_runs(self, same: Sequence[ShrinkageWarning], n_runs: int) -> ShrinkageWarning:
        """One warning for several runs, with the largest intensity."""
        worst = max(same, key=lambda w: w.intensity)
        n_zero = max(w.n_zero for w in same)
        runs = f"{len(same)} of {n_runs} splits"
        return ShrinkageWarning(self.what, worst.intensity, n_zero, worst.freedom, worst.n_features, runs)


def shrink_covariance(
    contrasts: Floats,
    total_variance: Floats,
    what: str,
    times: NDArray[np.integer[Any]] | None = None,
    divisor: float | None = None,
) -> Floats:
    """XᵀX/rows of contrasts X (rows, feature), independent with expectation zero; changed only if it has to be.

    The rows are the degrees of freedom. With fewer than two of them per feature, or when the correlation matrix R is
    singular, R becomes (1 − δ) R + δ 1, with Ledoit and Wolf's (2004) intensity δ, in units in which every feature has
    variance one (so that the units of a feature do not matter). From fewer rows f than features p, δ is at least 1 − f/p:
    a handful of rows cannot tell that they are few. A feature without variance gets a millionth of ``total_variance``,
    uncorrelated. ``what`` names the matrix in the warning. A row counts ``times`` times, once unless given, and the sum is
    divided by ``divisor`` where that is not the number of rows.
    """
    freedom, p = len(contrasts) if times is None else int(times.sum()), contrasts.shape[1]
    divisor = freedom if divisor is None else divisor
    covariance = _products(contrasts, times) / divisor
    zero = covariance.diagonal() <= ZERO * total_variance
    sd = np.sqrt(np.where(zero, SUBSTITUTE * total_variance, covariance.diagonal()))
    unit = np.where(sd > 0, sd, 1.0)
    correlation = np.where(zero | zero[:, None], 0.0, covariance / np.outer(unit, unit))
    np.fill_diagonal(correlation, 1.0)
    few = freedom < FREEDOM_PER_FEATURE * p
    intensity = 0.0
    if few or np.linalg.eigvalsh(correlation)[0] < SMALLEST_EIGENVALUE:
        from sklearn.covariance import ledoit_wolf_shrinkage  # on demand: the models run without scikit-learn

        scaled = np.where(zero, 0.0, contrasts) / (unit * np.sqrt(divisor / freedom))
        scaled = scaled if times is None else np.repeat(scaled, times, axis=0)
        correlation = scaled.T @ scaled / freedom
        intensity = float(ledoit_wolf_shrinkage(scaled, assume_centered=True)) if freedom > 1 else 1.0
        intensity = min(max(intensity, 1 - freedom / p, SMALLEST_EIGENVALUE), 1.0)
    if not intensity and not zero.any():
        return covariance
    tell(ShrinkageWarning(what, intensity, int(zero.sum()), freedom, p), stacklevel=2)
    shrunk = (1 - intensity) * correlation
    np.fill_diagonal(shrunk, 1.0)
    result: Floats = shrunk * np.outer(sd, sd)
    return result


def _products(rows: Floats, times: NDArray[np.integer[Any]] | None) -> Floats:
    """Σ times x xᵀ of rows x (rows, feature), some at a time."""
    if times is None:
        return np.asarray(rows.T @ rows)
    return np.asarray(sum((rows[some] * times[some, None]).T @ rows[some] for some in pieces(len(rows), ROWS)))


@dataclass(frozen=True, eq=False)
class Moments:
    """What the classical models learn from one training part."""

    source_means: Floats  # z_i (sources, feature)
    within: Floats  # W (feature, feature)
    between: Floats  # B (feature, feature)
    replicates: float  # n₀, kappa in the R reference
    bandwidth2: float  # h²

    @classmethod
    def estimate(cls, values: Floats, source: NDArray[Any]) -> Moments:
        """From instances (rows, feature) and their sources (rows,).

        Raises:
            LindleyError: if there are not two sources, or no source has two instances.
        """
        return Sums.of(values, source).moments()

    def eigenbasis(self) -> tuple[Floats, Floats]:
        """A and b with Aᵀ W A = 1 and Aᵀ B A = diag(b): on these axes sources and replicates are uncorrelated.

        Sampling can make B indefinite; an axis with b < 0 shows no difference between sources and gets b = 0, and
        so, in the normal model, an LR of one.
        """
        var_between, basis = scipy.linalg.eigh(self.between, self.within)
        return basis, np.maximum(var_between, 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """What moments are made of, source by source: with them, a source may count any number of times, as in a bootstrap."""

    means: Floats  # z_i (sources, feature)
    count: NDArray[np.intp]  # n_i (sources,)
    squares: Floats  # of the instances of a source around their mean, summed (sources, feature)
    contrasts: Floats
    """n_i − 1 independent ones of every source with n_i ≥ 2, (rows, feature): weighted such that their mean square is the mean
    of the sources' covariance matrices, each source counting the same."""
    owner: NDArray[np.intp]  # (rows,) the source of a contrast

    @classmethod
    def of(cls, values: Floats, source: NDArray[Any]) -> Sums:
        """From instances (rows, feature) and their sources (rows,).

        Raises:
            LindleyError: if there are not two sources, or no source has two instances.
        """
        sources = Sources.of(values, source)
        sources.require_replicates()
        contrasts, owner = sources.contrasts()
        squares = np.zeros((len(sources), values.shape[1]))
        for some in pieces(len(contrasts), ROWS):
            np.add.at(squares, owner[some], contrasts[some] ** 2)
        contrasts /= np.sqrt(sources.count[owner] - 1)[:, None]
        contrasts *= np.sqrt(len(contrasts) / (sources.count >= 2).sum())
        return cls(sources.means, sources.count, squares, contrasts, owner)

    def moments(self, times: NDArray[np.integer[Any]] | None = None) -> Moments:
        """The moments, where a source counts ``times`` times (sources,), once unless given.

        Raises:
            LindleyError: if no two sources are left, or none with two instances.
        """
        which = np.arange(len(self.count)) if times is None else np.repeat(np.arange(len(self.count)), times)
        means, count = self.means[which], self.count[which]
        m, n, p = len(count), int(count.sum()), means.shape[1]
        share = (count >= 2).sum() / (self.count >= 2).sum()  # of the sources that have contrasts
        if m < 2 or not share:
            raise LindleyError(f"a two-level model needs a source that was measured twice: none of {m} was")
        centre = np.average(means, axis=0, weights=count)
        total_variance = (self.squares[which].sum(axis=0) + count @ (means - centre) ** 2) / n
        total_variance[total_variance <= (ROUNDING * centre) ** 2] = 0.0  # a constant, but for rounding
        of_rows = None if times is None else times[self.owner]
        within = shrink_covariance(self.contrasts, total_variance, "within", of_rows, share * len(self.contrasts))
        between_means = shrink_covariance(_between_contrasts(means, count), total_variance, "between")
        kappa = float((n - (count**2).sum() / n) / (m - 1))
        bandwidth2 = float((4 / ((p + 2) * m)) ** (2 / (p + 4)))
        return Moments(means, within, (between_means - within) / kappa, kappa, bandwidth2)


def _between_contrasts(means: Floats, count: NDArray[np.intp]) -> Floats:
    """m − 1 contrasts of the source means, (m − 1, feature), whose squares sum to Σ n_i (z_i − z̄)(z_i − z̄)ᵀ.

    A reflection that sends the weights √n_i to the first axis leaves the weighted mean in the first row.
    """
    weights = np.sqrt(count)
    mirror = weights / np.linalg.norm(weights)
    mirror[0] -= 1
    weighted = (means - np.average(means, axis=0, weights=count)) * weights[:, None]
    reflected: Floats = weighted - np.outer(mirror, mirror @ weighted) * (2 / (mirror @ mirror))
    return reflected[1:]


def estimate_moments(parts: Iterable[Part]) -> Iterator[Moments]:
    """The moments of every run's training part, one after the other, with one `ShrinkageWarning` for all runs."""
    return _each(Moments.estimate(part.values, part.source) for part in parts)


def _each(moments: Iterator[Moments]) -> Iterator[Moments]:
    """Moments that are estimated when they are asked for; after the last, one `ShrinkageWarning` for all runs."""
    caught: list[warnings.WarningMessage] = []
    runs = 0
    while True:
        with caught_warnings() as found:
            one = next(moments, None)
        caught += found
        if one is None:
            break
        runs += 1
        yield one
    _warn_once(caught, runs)


def fit_tlm(task: Task) -> Fitted:
    """The classical model with a normal law between sources, of every run. It has no options."""
    return refittable(lambda t: fit_classical(t.learn, "normal", t.times), task)


def fit_tlm_kde(task: Task) -> Fitted:
    """The classical model with a kernel density between sources, of every run. It has no options."""
    return refittable(lambda t: fit_classical(t.learn, "kernel", t.times), task)


def fit_classical(
    parts: Sequence[Part], between: Literal["normal", "kernel"], times: Sequence[NDArray[np.integer[Any]]] = ()
) -> TwoLevel:
    """The classical model of every run, from its training part.

    With ``times``, further runs are of the sources of the one part that there is, each counting so many times (sources,).
    """
    n_runs, most = len(parts) + len(times), 0
    if times:
        (part,) = parts
        sums = Sums.of(part.values, part.source)
        estimated = _each(sums.moments(each) for each in (None, *times))
        most = max(len(sums.count), *(int(each.sum()) for each in times))
    else:
        estimated = estimate_moments(parts)
    kernels: list[Tensor] = []
    centres, bases, var_between, bandwidth2 = [], [], [], []
    room = torch.zeros(n_runs if between == "kernel" else 0, most, parts[0].values.shape[1], dtype=torch.float64)
    for m in estimated:
        basis, variances = m.eigenbasis()
        centres.append(m.source_means.mean(axis=0)[None])
        bases.append(basis)
        var_between.append(variances[None])
        bandwidth2.append(m.bandwidth2)
        if between == "kernel":
            at = torch.from_numpy((m.source_means - centres[-1]) @ basis)
            kernels.append(room[len(kernels), : len(at)].copy_(at) if most else at)
    centre, projection, var = _stack(centres), _stack(bases), _stack(var_between)

    law: Between
    if between == "normal":
        law = NormalBetween(mean=torch.zeros_like(var), var=var)
    else:
        n = torch.tensor([len(at) for at in kernels])[:, None]
        if not most:
            room = torch.nn.utils.rnn.pad_sequence(kernels, batch_first=True)
        there = torch.arange(room.shape[1]) < n
        ln_weights = torch.where(there, -n.double().log(), -torch.inf)
        law = KernelBetween(room, _stack(bandwidth2)[:, None, None] * var, ln_weights)
    return TwoLevel(centre, projection, torch.ones_like(var), torch.ones_like(var), law)


def _stack(arrays: Sequence[Floats] | Sequence[float]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))


def _warn_once(caught: Sequence[warnings.WarningMessage], n_runs: int) -> None:
    """Pass on what was caught, shrinkage of several runs as one warning."""
    shrunk: dict[str, list[ShrinkageWarning]] = {}
    for w in caught:
        if isinstance(w.message, ShrinkageWarning):
            shrunk.setdefault(w.message.what, []).append(w.message)
        else:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    for _, same in sorted(shrunk.items()):
        tell(same[0] if n_runs == 1 else same[0].over_runs(same, n_runs), stacklevel=4)

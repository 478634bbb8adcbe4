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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.between import Between, KernelBetween, NormalBetween
from lindley.models.fitting import Fitted, Sources, Task, caught_warnings, refittable, tell
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = [
    "Moments",
    "ShrinkageWarning",
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


def shrink_covariance(contrasts: Floats, total_variance: Floats, what: str) -> Floats:
    """XᵀX/rows of contrasts X (rows, feature), independent with expectation zero; changed only if it has to be.

    The rows are the degrees of freedom. With fewer than two of them per feature, or when the correlation matrix R is
    singular, R becomes (1 − δ) R + δ 1, with Ledoit and Wolf's (2004) intensity δ, in units in which every feature has
    variance one (so that the units of a feature do not matter). From fewer rows f than features p, δ is at least 1 − f/p:
    a handful of rows cannot tell that they are few. A feature without variance gets a millionth of ``total_variance``,
    uncorrelated. ``what`` names the matrix in the warning.
    """
    freedom, p = contrasts.shape
    covariance: Floats = contrasts.T @ contrasts / freedom
    zero = covariance.diagonal() <= ZERO * total_variance
    sd = np.sqrt(np.where(zero, SUBSTITUTE * total_variance, covariance.diagonal()))
    scaled = np.where(zero, 0.0, contrasts) / np.where(sd > 0, sd, 1.0)
    correlation = scaled.T @ scaled / freedom
    np.fill_diagonal(correlation, 1.0)
    few = freedom < FREEDOM_PER_FEATURE * p
    intensity = 0.0
    if few or np.linalg.eigvalsh(correlation)[0] < SMALLEST_EIGENVALUE:
        from sklearn.covariance import ledoit_wolf_shrinkage  # on demand: the models run without scikit-learn

        intensity = float(ledoit_wolf_shrinkage(scaled, assume_centered=True)) if freedom > 1 else 1.0
        intensity = min(max(intensity, 1 - freedom / p, SMALLEST_EIGENVALUE), 1.0)
    if not intensity and not zero.any():
        return covariance
    tell(ShrinkageWarning(what, intensity, int(zero.sum()), freedom, p), stacklevel=2)
    shrunk = (1 - intensity) * correlation
    np.fill_diagonal(shrunk, 1.0)
    result: Floats = shrunk * np.outer(sd, sd)
    return result


@dataclass(frozen=True, eq=False)
class Moments:
    """What the classical models learn from one training part."""

    source_means: Floats  # z_i (sources, feature)
    within: Floats  # W (feature, feature)
    between: Floats  # B (feature, feature)
    replicates: float  # n₀, kappa in the R reference
    bandwidth2: float  # h²

    @classmethod
    def estimate(cls, values: Floats, source: NDArray[np.str_]) -> Moments:
        """From instances (rows, feature) and their sources (rows,).

        Raises:
            LindleyError: if there are not two sources, or no source has two instances.
        """
        labels, item, count = np.unique(source, return_inverse=True, return_counts=True)
        m, (n, p) = len(labels), values.shape
        if m < 2 or (count < 2).all():
            raise LindleyError(
                f"a two-level model needs at least two sources, one of them measured twice: got {m} sources and "
                f"{count.max(initial=0)} measurements of one at most"
            )
        total = np.zeros((m, p))
        np.add.at(total, item, values)
        means = total / count[:, None]

        total_variance = values.var(axis=0)
        within = shrink_covariance(_within_contrasts(values, source), total_variance, "within")
        between_means = shrink_covariance(_between_contrasts(means, count), total_variance, "between")
        kappa = float((n - (count**2).sum() / n) / (m - 1))
        bandwidth2 = float((4 / ((p + 2) * m)) ** (2 / (p + 4)))
        return cls(means, within, (between_means - within) / kappa, kappa, bandwidth2)

    def eigenbasis(self) -> tuple[Floats, Floats]:
        """A and b with Aᵀ W A = 1 and Aᵀ B A = diag(b): on these axes sources and replicates are uncorrelated.

        Sampling can make B indefinite; an axis with b < 0 shows no difference between sources and gets b = 0, and
        so, in the normal model, an LR of one.
        """
        var_between, basis = scipy.linalg.eigh(self.between, self.within)
        return basis, np.maximum(var_between, 0.0)


def _within_contrasts(values: Floats, source: NDArray[np.str_]) -> Floats:
    """n_i − 1 independent contrasts of every source with n_i ≥ 2, (degrees of freedom, feature).

    Weighted such that their mean square is the mean of the sources' covariance matrices, each source counting the same.
    """
    sources = Sources.of(values, source)
    contrasts, owner = sources.contrasts()
    weighted = contrasts / np.sqrt(sources.count[owner] - 1)[:, None]
    result: Floats = weighted * np.sqrt(len(contrasts) / (sources.count >= 2).sum())
    return result


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


def estimate_moments(parts: Sequence[Part]) -> list[Moments]:
    """The moments of every run's training part, with one `ShrinkageWarning` for all runs."""
    with caught_warnings() as caught:
        moments = [Moments.estimate(part.values, part.source) for part in parts]
    _warn_once(caught, len(parts))
    return moments


def fit_tlm(task: Task) -> Fitted:
    """The classical model with a normal law between sources, of every run. It has no options."""
    return refittable(lambda t: fit_classical(t.learn, "normal"), task)


def fit_tlm_kde(task: Task) -> Fitted:
    """The classical model with a kernel density between sources, of every run. It has no options."""
    return refittable(lambda t: fit_classical(t.learn, "kernel"), task)


def fit_classical(parts: Sequence[Part], between: Literal["normal", "kernel"]) -> TwoLevel:
    """The classical model of every run, from its training part."""
    moments = estimate_moments(parts)
    bases, var_between = zip(*(m.eigenbasis() for m in moments), strict=True)
    centre = _stack([m.source_means.mean(axis=0)[None] for m in moments])
    projection = _stack(bases)
    var = _stack([v[None] for v in var_between])

    law: Between
    if between == "normal":
        law = NormalBetween(mean=torch.zeros_like(var), var=var)
    else:
        most = max(len(m.source_means) for m in moments)
        centres = centre.expand(-1, most, -1).clone()
        ln_weights = torch.full((len(moments), most), -torch.inf, dtype=torch.float64)
        for run, m in enumerate(moments):
            size = len(m.source_means)
            centres[run, :size] = torch.from_numpy(m.source_means)
            ln_weights[run, :size] = -np.log(size)
        bandwidth2 = torch.tensor([m.bandwidth2 for m in moments], dtype=torch.float64)[:, None, None]
        law = KernelBetween((centres - centre) @ projection, bandwidth2 * var, ln_weights)
    return TwoLevel(centre, projection, torch.ones_like(var), torch.ones_like(var), law)


def _stack(arrays: Sequence[Floats]) -> Tensor:
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

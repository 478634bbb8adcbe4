"""The classical two-level model: within and between covariances from moments, normal or kernel between.

With source means z_i of n_i instances, i = 1 … m, and n = Σ n_i:

    W = mean over sources with n_i ≥ 2 of their covariance matrices       (within)
    n₀ = (n − Σ n_i²/n) / (m − 1)                                        (the effective number of replicates)
    B = (Σ n_i (z_i − z̄)(z_i − z̄)ᵀ/(m − 1) − W) / n₀                     (between)

These are the maximum-likelihood estimates (with n − 1 for n) of a balanced table, and the estimates of the
reference implementations for any other. The normal model takes source means as N(z̄, B); the kernel model as
(1/m) Σ_i N(z_i, h² B) with Silverman's h² = (4 / ((p + 2) m))^(2/(p+4)) for p features.

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
from lindley.models.between import Between, KernelBetween, NormalBetween
from lindley.models.shrinkage import ShrinkageWarning, shrink_covariance
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["Moments", "estimate_moments", "fit_classical"]

Floats = NDArray[np.float64]


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
        within = shrink_covariance(_within_contrasts(values, item, count), total_variance, "within")
        between_means = shrink_covariance(_between_contrasts(means, count), total_variance, "between")
        kappa = float((n - (count**2).sum() / n) / (m - 1))
        return cls(
            source_means=means,
            within=within,
            between=(between_means - within) / kappa,
            replicates=kappa,
            bandwidth2=float((4 / ((p + 2) * m)) ** (2 / (p + 4))),
        )

    def eigenbasis(self) -> tuple[Floats, Floats]:
        """A and b with Aᵀ W A = 1 and Aᵀ B A = diag(b): on these axes sources and replicates are uncorrelated.

        Sampling can make B indefinite; an axis with b < 0 shows no difference between sources and gets b = 0, and
        so, in the normal model, an LR of one.
        """
        var_between, basis = scipy.linalg.eigh(self.between, self.within)
        return basis, np.maximum(var_between, 0.0)


def _within_contrasts(values: Floats, item: NDArray[np.intp], count: NDArray[np.intp]) -> Floats:
    """n_i − 1 independent contrasts of every source with n_i ≥ 2, (degrees of freedom, feature).

    Weighted such that their mean square is the mean of the sources' covariance matrices, each source counting the same.
    """
    rows = np.argsort(item, kind="stable")
    first = np.cumsum(count) - count
    contrasts = []
    for n in np.unique(count[count >= 2]):
        replicates = values[rows[first[count == n][:, None] + np.arange(n)]]  # (sources, n, feature)
        contrasts.append(np.einsum("kn,snf->skf", scipy.linalg.helmert(n), replicates).reshape(-1, values.shape[1]))
        contrasts[-1] /= np.sqrt(n - 1)
    stacked = np.concatenate(contrasts)
    result: Floats = stacked * np.sqrt(len(stacked) / (count >= 2).sum())
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moments = [Moments.estimate(part.values, part.source) for part in parts]
    _warn_once(caught, len(parts))
    return moments


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
    shrunk = [w for w in caught if isinstance(w.message, ShrinkageWarning)]
    for w in caught:
        if w not in shrunk:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    for what in sorted({w.message.what for w in shrunk if isinstance(w.message, ShrinkageWarning)}):
        same = [w.message for w in shrunk if isinstance(w.message, ShrinkageWarning) and w.message.what == what]
        message = same[0] if n_runs == 1 else same[0].over_runs(same, n_runs)
        warnings.warn(message, stacklevel=4)

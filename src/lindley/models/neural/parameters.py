"""The choice of a neural two-level model, and its parameters as mathematics has them: what is saved and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.between import Between, NormalBetween
from lindley.models.classical import estimate_moments
from lindley.models.neural.mixture import MixtureBetween
from lindley.models.neural.orthonormal import OrthonormalKind
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["Architecture", "Parameters"]


@dataclass(frozen=True)
class Architecture:
    """Which two-level model: a choice for each of its parts.

    ``projection``
        *single*: z = d Q. *double* (the paper's Eq. 3): z = d Q_w diag(1/√var_within) Q_b; instances are whitened within
        sources, so that one within variance is 1 on every axis.
    ``within``
        1: trace and ref share their within variance (the "TLM-formula"). 2: each has its own.
    ``components``
        of the Gaussian mixture between sources, per axis; 1 is the normal law.
    ``orthonormal``
        how Q is made of free parameters, see `lindley.models.neural.orthonormal`.
    ``start``
        *random*: random axes, unit variances. *maximum-likelihood*: the classical solution of the training part.
    """

    projection: Literal["single", "double"] = "single"
    within: Literal[1, 2] = 1
    components: int = 1
    orthonormal: OrthonormalKind = "exponential"
    start: Literal["random", "maximum-likelihood"] = "random"

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ValueError(f"a mixture needs at least one component, not {self.components}")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Axes, variances, means and weights, one set per run: where a training begins, and what it leaves behind.

    A single projection has neither ``q_within`` nor ``var_whiten``.
    """

    q_between: Tensor  # (run, d, axis): Q, or Q_b of a double projection
    var_within: Tensor  # (run, N, axis)
    mean_between: Tensor  # (run, K, axis)
    var_between: Tensor  # (run, K, axis)
    ln_weights: Tensor  # (run, K, axis)
    q_within: Tensor | None = None  # Q_w (run, d, d)
    var_whiten: Tensor | None = None  # (run, 1, d)

    @classmethod
    def random(cls, architecture: Architecture, d: int, seeds: Sequence[int]) -> Parameters:
        """Random axes and unit variances, as standardised features have them."""
        draws = torch.stack(
            [torch.randn(2, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
        )
        q_b, q_w = (torch.linalg.qr(draws[:, i])[0] for i in (0, 1))
        one = torch.ones(len(seeds), 1, d, dtype=torch.float64)
        return cls._make(architecture, q_b, q_w, one, one, one, torch.zeros_like(one))

    @classmethod
    def maximum_likelihood(cls, architecture: Architecture, train: Sequence[Part]) -> Parameters:
        """The classical solution of every training part.

        A double projection holds it exactly. One orthonormal basis cannot diagonalise both covariances: a single
        projection takes the eigenvectors of the within covariance, and the between variances along them.
        """
        starts = []
        for m in estimate_moments(train):
            var_whiten, q_w = np.linalg.eigh(m.within)
            if architecture.projection == "double":
                whiten = q_w / np.sqrt(var_whiten)
                var_between, q_b = np.linalg.eigh(whiten.T @ m.between @ whiten)
                basis, var_within = whiten @ q_b, np.ones_like(var_between)
            else:
                q_b = basis = q_w
                var_within, var_between = var_whiten, (q_w * (m.between @ q_w)).sum(axis=0)
            mean = m.source_means.mean(axis=0) @ basis
            # An axis without between variance keeps a trace of it, or its logarithm could not be trained.
            starts.append((q_b, q_w, var_whiten, var_within, np.maximum(var_between, 1e-3 * var_within), mean))
        axes_b, axes_w, *vectors = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*starts, strict=True))
        return cls._make(architecture, axes_b, axes_w, *(vector[:, None] for vector in vectors))

    @classmethod
    def _make(
        cls,
        architecture: Architecture,
        q_b: Tensor,
        q_w: Tensor,
        var_whiten: Tensor,
        var_within: Tensor,
        var_between: Tensor,
        mean: Tensor,
    ) -> Parameters:
        k, double = architecture.components, architecture.projection == "double"
        # Equal components would stay equal: they start spread over ± one standard deviation.
        spread = torch.linspace(-1, 1, k, dtype=mean.dtype)[:, None] if k > 1 else torch.zeros(1, 1, dtype=mean.dtype)
        return cls(
            q_between=q_b,
            var_within=var_within.repeat(1, architecture.within, 1),
            mean_between=mean + spread * var_between.sqrt(),
            var_between=var_between.repeat(1, k, 1),
            ln_weights=torch.full_like(var_between.repeat(1, k, 1), -np.log(k)),
            q_within=q_w if double else None,
            var_whiten=var_whiten if double else None,
        )

    @property
    def n_runs(self) -> int:
        """How many sets there are."""
        return len(self.q_between)

    def two_level(self) -> TwoLevel:
        """The two-level models that the parameters stand for."""
        projection = self.q_between
        if self.q_within is not None and self.var_whiten is not None:
            projection = (self.q_within * self.var_whiten.rsqrt()) @ projection
        law: Between
        if self.mean_between.shape[1] == 1:
            law = NormalBetween(self.mean_between, self.var_between)
        else:
            law = MixtureBetween(self.mean_between, self.var_between, self.ln_weights)
        centre = torch.zeros_like(projection[:, None, :, 0])
        return TwoLevel(centre, projection, self.var_within[:, :1], self.var_within[:, -1:], law)

    def for_runs(self, runs: Sequence[int]) -> Parameters:
        """The parameters of the given runs, in that order; a run may occur more than once."""
        index = torch.tensor(list(runs))
        return self.map(lambda t: t[index])

    def map(self, function: Callable[[Tensor], Tensor]) -> Parameters:
        """Every tensor sent through ``function``."""
        return Parameters(**{name: function(t) for name, t in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        return {f.name: t for f in fields(self) if (t := getattr(self, f.name)) is not None}

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, which holds numbers and no code."""
        from safetensors.torch import save_file

        save_file({name: t.contiguous().cpu() for name, t in self.tensors().items()}, str(path))

    @classmethod
    def load(cls, path: str | Path) -> Parameters:
        """Read what `save` wrote."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return cls(**load_file(str(path)))
        except (SafetensorError, TypeError) as error:
            raise LindleyError(f"{path} does not hold the parameters of a neural two-level model: {error}") from error
        except FileNotFoundError as error:
            raise LindleyError(f"there is no file {path}") from error

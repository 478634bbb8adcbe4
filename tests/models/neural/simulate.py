"""Models and data that the tests of this folder share: everything is made of known parameters, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.models.between import NormalBetween
from lindley.models.neural.integration import InverseGamma, VaryingVariance, quadrature_nodes
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

Floats = NDArray[np.float64]


def row(values: Sequence[float] | Floats) -> Tensor:
    """(axis,) → (run = 1, 1, axis)."""
    return torch.tensor(np.asarray(values, dtype=np.float64))[None, None]


def scalar(value: float) -> Tensor:
    return row([value])


def inverse_gamma(alpha: float, beta: float) -> InverseGamma:
    """A law with given parameters, as if fitted."""
    return InverseGamma(alpha, beta, alpha, beta)


def identity_model(
    var_within_trace: Sequence[float], var_within_ref: Sequence[float], var_between: Sequence[float]
) -> TwoLevel:
    """Axes are features, with mean 0."""
    n = len(var_between)
    eye, zero = torch.eye(n, dtype=torch.float64)[None], torch.zeros(1, 1, n, dtype=torch.float64)
    return TwoLevel(zero, eye, row(var_within_trace), row(var_within_ref), NormalBetween(zero, row(var_between)))


def varying_law(
    prior: InverseGamma,
    b: float,
    *,
    added: tuple[float, float] = (0.0, 0.0),
    nodes: tuple[Floats, Floats] | None = None,
) -> VaryingVariance:
    """One axis with mean 0; the variances of trace and ref are σ² + ``added``, for d = 1/M and e = 1/N."""
    sigma2, ln_weight = quadrature_nodes(prior) if nodes is None else nodes
    scale_trace, scale_ref, weight = (
        torch.from_numpy(a)[None, :, None] for a in (added[0] + sigma2, added[1] + sigma2, ln_weight)
    )
    return VaryingVariance(NormalBetween(scalar(0.0), scalar(b)), scale_trace, scale_ref, weight)


def two_replicates(
    rng: np.random.Generator, n: int, var_within: Floats, var_between: Floats, shape: float | None = None
) -> Part:
    """n sources of two instances; their within variances are var_within · InvGamma(shape, shape − 1), of mean 1."""
    axes = len(var_between)
    sigma2 = np.broadcast_to(var_within, (n, axes))
    if shape is not None:
        sigma2 = sigma2 * (shape - 1) / rng.gamma(shape, size=(n, axes))
    mean = rng.normal(size=(n, axes)) * np.sqrt(var_between)
    values = mean[:, None] + rng.normal(size=(n, 2, axes)) * np.sqrt(sigma2)[:, None]
    source = np.repeat([f"{i:05d}" for i in range(n)], 2)
    return Part(values.reshape(-1, axes), source, np.tile([True, False], n))

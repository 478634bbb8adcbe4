"""Robust models of any size, items for them, how these are handed over, and tables to fit."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.robust.law import Law
from lindley.models.robust.model import WAYS, Basis, Robust
from lindley.models.robust.scalars import SCALARS
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["case", "flat", "instances", "items", "law", "ln_lr", "make", "measured", "part_of", "table"]

Floats = NDArray[np.float64]


def law(seed: int = 0, axes: int = 3, features: int = 4, kernels: int = 5, **changed: float) -> Law:
    """A plain law of its own in everything."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    values = {"scale": 1.1, "shape": 3.0, "spread": 0.7, "width": 0.4, "weight": 0.45, "shared": 0.2, **changed}
    directions = torch.nn.functional.normalize(normal(features, axes), dim=1)
    scalars = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
    return Law(3 * normal(axes).exp(), directions, 2 * normal(kernels, axes), **scalars)


def make(
    seed: int = 0,
    runs: int = 2,
    axes: int = 4,
    kernels: int = 6,
    *,
    features: int | None = None,
    bases: int = 2,
    **scalars: float,
) -> Robust:
    """A model of its own in everything, with mates; ``scalars`` are set in all runs, ``mates`` too."""
    g = torch.Generator().manual_seed(seed)
    p = axes if features is None else features

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    mates = torch.full((runs, 1, 1), scalars.pop("mates", 0.02), dtype=torch.float64)
    theta = torch.stack([torch.full((runs,), s.fitted(s.start), dtype=torch.float64) for s in SCALARS], -1)
    theta = theta + 0.2 * normal(*theta.shape)
    for i, scalar in enumerate(SCALARS):
        theta[:, i] = scalar.fitted(scalars[scalar.name]) if scalar.name in scalars else theta[:, i]
    related = 0.002 * torch.exp(0.5 * normal(runs, 2, len(WAYS)))
    related[:, 1] *= 20
    for way, name in enumerate(("alike", "variant")):
        if name in scalars:
            related[:, :, way] = scalars[name]
    shares = torch.softmax(normal(runs, bases), -1)
    known = torch.full((runs, 1, 1), kernels, dtype=torch.float64)

    def basis(share: Tensor) -> Basis:
        var = 10 * normal(runs, 1, axes).exp()
        centre, projection = 0.1 * normal(runs, 1, p), 3 * normal(runs, p, axes)
        return Basis(centre, projection, var, 3 * normal(runs, kernels, axes), known, share)

    members = tuple(basis(share[:, None, None]) for share in shares.unbind(-1))
    nu = torch.full((runs, 1, 1), 8.0, dtype=torch.float64)
    var = 10 * normal(runs, 1, p).exp()
    ones = torch.ones_like(var)
    beside = TwoLevel(0.1 * normal(runs, 1, p), 3 * normal(runs, p, p), ones, ones, HeavyTailed(0 * var, var, nu, nu))
    return Robust(members, beside, theta, related, mates)


def items(model: Robust, n: int, seed: int, scale: float = 1.0) -> Tensor:
    """Items of one instance (run, item, feature)."""
    g = torch.Generator().manual_seed(seed)
    return scale * torch.randn((len(model.centre), n, model.centre.shape[-1]), generator=g, dtype=torch.float64)


def instances(model: Robust, n: int, m: int, seed: int, spread: float = 0.2, scale: float = 1.0) -> Tensor:
    """Items of m instances (run, item, instance, feature)."""
    g = torch.Generator().manual_seed(seed + 1000)
    noise = torch.randn((len(model.centre), n, m, model.centre.shape[-1]), generator=g, dtype=torch.float64)
    return items(model, n, seed, scale)[:, :, None] + spread * noise


def case(model: Robust, trace: Tensor, ref: Tensor) -> tuple[Tensor, Tensor, int, int, Scatter | None]:
    """Instances (run, item, instance, feature) as a model takes them."""
    m, n = trace.shape[2], ref.shape[2]
    scatter = None if m == n == 1 else Scatter(model.scatter_of(trace), model.scatter_of(ref), m - 1, n - 1)
    return trace.mean(2), ref.mean(2), m, n, scatter


def ln_lr(model: Robust, trace: Tensor, ref: Tensor) -> Tensor:
    """ln LR of given pairs of items, each (run, pair, instance, feature): (run, pair)."""
    with torch.no_grad():
        return model.ln_lr_given(*case(model, trace, ref))


def measured(model: Robust, values: Floats) -> Floats:
    """ln LR of all pairs of the first and the second measurement of sources (sources, 2, feature), by a model of one run."""
    x, y = torch.from_numpy(values).unbind(1)
    with torch.no_grad():
        return np.asarray(model.ln_lr(x[None], y[None])[0])


def table(n: int, p: int, reps: int = 2, *, seed: int = 0, noise: float = 0.1, tails: float = 6.0) -> Floats:
    """Sources that scatter differently (source, replicate, feature)."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(p).normal(size=(p, p)) / math.sqrt(p)
    scatter = noise / np.sqrt(rng.chisquare(tails, size=(n, 1, 1)) / tails)
    return rng.normal(size=(n, 1, p)) @ mix + scatter * rng.normal(size=(n, reps, p))


def part_of(values: Floats, **given: object) -> Part:
    """Sources (source, replicate, feature) as a part to learn from; all replicates of one are drawn."""
    n, reps, p = values.shape
    return Part.drawn(values.reshape(-1, p), np.repeat([f"S{i:04d}" for i in range(n)], reps), **given)  # type: ignore[arg-type]


def flat(value: object, prefix: str = "robust") -> dict[str, Tensor]:
    """All tensors of a model by name."""
    if isinstance(value, Tensor):
        return {prefix: value}
    if isinstance(value, tuple):
        return {k: t for i, each in enumerate(value) for k, t in flat(each, f"{prefix}.{i}").items()}
    assert is_dataclass(value)
    return {k: t for f in fields(value) for k, t in flat(getattr(value, f.name), f"{prefix}.{f.name}").items()}

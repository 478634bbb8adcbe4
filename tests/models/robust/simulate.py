"""Robust models of any size, items for them, and how they are handed over."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from lindley.models.between import Scatter
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.model import WAYS, Robust
from lindley.models.robust.population import Population
from lindley.models.robust.tails import Tails

__all__ = ["case", "instances", "items", "ln_lr", "make", "plain", "simulated"]


def make(
    seed: int = 0, runs: int = 2, axes: int = 4, kernels: int = 6, *, features: int | None = None, **scalars: float
) -> Robust:
    """A model of its own in everything; ``scalars`` are set in all runs, ``relatedness`` in all ways."""
    g = torch.Generator().manual_seed(seed)
    p = axes if features is None else features

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    def scalar(name: str, value: float) -> Tensor:
        noise = torch.exp(0.1 * normal(runs, 1, 1))
        return torch.full((runs, 1, 1), scalars[name], dtype=torch.float64) if name in scalars else value * noise

    projection = 3 * normal(runs, p, p)
    directions = projection / projection.norm(dim=-1, keepdim=True)
    lam = 10 * torch.exp(normal(runs, 1, axes))
    ln_weights = torch.log_softmax(normal(runs, kernels), -1)
    if kernels > 1:
        ln_weights[0, -1] = -torch.inf  # padding
        ln_weights = torch.log_softmax(ln_weights, -1)
    related = 0.002 * torch.exp(0.5 * normal(runs, 1, len(WAYS)))
    model = Robust(
        stabiliser=Stabiliser(
            level=normal(runs, 1, p),
            spread=torch.exp(0.2 * normal(runs, 1, p)),
            slope=torch.where(torch.arange(p) % 2 == 0, 0.0, 0.3 * normal(runs, 1, p)),
            low=torch.full((runs, 1, p), -2.0, dtype=torch.float64),
            high=torch.full((runs, 1, p), 2.0, dtype=torch.float64),
        ),
        centre=0.1 * normal(runs, 1, p),
        projection=projection[..., :axes],
        var_within=torch.exp(0.2 * normal(runs, 1, axes)),
        directions=directions[..., :axes],
        population=Population(
            centres=normal(runs, kernels, axes) * lam.sqrt(),
            ln_weights=ln_weights,
            var=lam,
            width=scalar("width", 0.4),
            background=scalar("background", 0.2),
        ),
        tails=Tails(
            nu=scalar("nu", 8.0),
            scatter_shape=scalar("scatter_shape", 6.0),
            contamination=scalar("contamination", 0.003),
            spike=scalar("spike", 0.01),
            second_spike=scalar("second_spike", 0.1),
        ),
        var_related=lam * torch.exp(0.5 * normal(runs, 1, axes)),
        relatedness=torch.cat([related, 30 * related * torch.rand(related.shape, generator=g)], 1),
        mates=scalar("mates", 0.02),
    )
    if "relatedness" not in scalars:
        return model
    return replace(model, relatedness=torch.full_like(model.relatedness, scalars["relatedness"]))


def plain(model: Robust, *, orthogonal: bool = True) -> Robust:
    """The same model where features are axes: values go in as they are."""
    runs, p, axes = model.projection.shape
    assert p == axes
    one, zero = torch.ones(runs, 1, p, dtype=torch.float64), torch.zeros(runs, 1, p, dtype=torch.float64)
    eye = torch.eye(p, dtype=torch.float64).expand(runs, p, p)
    return replace(
        model,
        stabiliser=Stabiliser(zero, one, zero, zero, zero),
        centre=zero,
        projection=eye,
        directions=eye if orthogonal else model.directions,
    )


def simulated(axes: int = 3, ratio: float = 30.0, seed: int = 0, kernels: int = 40, **scalars: float) -> Robust:
    """A plain model of one run with within variance one and between variance ``ratio``: values are in standard deviations."""
    model = plain(make(seed, 1, axes, kernels, **scalars))
    lam = torch.full((1, 1, axes), ratio, dtype=torch.float64)
    centres = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, kernels, axes))) * math.sqrt(ratio)
    return replace(
        model,
        var_within=torch.ones(1, 1, axes, dtype=torch.float64),
        population=replace(
            model.population,
            centres=centres,
            var=lam,
            ln_weights=torch.full((1, kernels), -math.log(kernels), dtype=torch.float64),
        ),
    )


def items(model: Robust, n: int, seed: int, scale: float = 1.0) -> Tensor:
    """Items of one instance (run, item, feature)."""
    g = torch.Generator().manual_seed(seed)
    shape = (len(model.centre), n, model.centre.shape[-1])
    return scale * torch.randn(shape, generator=g, dtype=torch.float64)


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

"""Simulated casework glass: the embedded data set, whose population, and so whose true LR, is known.

The paper's measurements are private, but it prints the mean covariance W of repetitions and the covariance B of
panel means, 18 × 18 each (P. Vergeer, *Feature-Based Likelihood Ratios for Forensic Science*, Tables 1 and 2).
The simulated population adds the departures from normality that the paper describes:

    batch      c_k ~ N(0, (1 − φ) B),  k = 1 … K, with weight π_k ∝ k^−0.7  (glass comes in production batches)
    source     θ ~ Σ_k π_k N(c_k, φ B),  τ ~ InvGamma(3, 2)                (mean 1: some panels scatter more)
    instance   x ~ N(θ, τ W)

1053 sources × 6 replicates are drawn from it. With K = 2000 rather more than half of the sources share a batch with
another, and two different sources are batch mates with probability Σ π_k² ≈ 0.0034.

Random numbers are uniforms sent through inverse distribution functions, and values are rounded to six decimals, so
that the table is the same on every machine and over versions of NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from lindley.table.table import Table

__all__ = ["GlassPopulation", "glass_population", "simulate_table", "simulated_table"]

Floats = NDArray[np.float64]

N_BATCHES = 2000
ZIPF = 0.7
BATCH_SHARE = 0.003
"""φ, the share of the between covariance that lies within a production batch."""
SHAPE, SCALE = 3.0, 2.0
"""The inverse gamma law of a source's scatter τ."""
N_SOURCES, N_REPLICATES = 1053, 6
SEED = 20240615


@dataclass(frozen=True, eq=False)
class GlassPopulation:
    """Everything there is to know about the simulated population."""

    features: tuple[str, ...]
    within: Floats  # W (features, features)
    between: Floats  # B (features, features)
    batch_means: Floats  # c_k (batches, features)
    batch_weights: Floats  # π_k (batches,)
    batch_share: float  # φ
    shape: float  # of the inverse gamma law of τ
    scale: float


@cache
def glass_population() -> GlassPopulation:
    """The population of ``glass-simulated``."""
    features, within = _matrix("glass_within.csv")
    _, between = _matrix("glass_between.csv")
    weights = np.arange(1, N_BATCHES + 1) ** -ZIPF
    normals = _normals(np.random.default_rng((SEED, 0)), N_BATCHES, len(features))
    means = np.sqrt(1 - BATCH_SHARE) * normals @ np.linalg.cholesky(between).T
    return GlassPopulation(features, within, between, means, weights / weights.sum(), BATCH_SHARE, SHAPE, SCALE)


def simulate_table(population: GlassPopulation, n_sources: int, n_replicates: int, seed: int) -> Table:
    """Draw sources, and replicates of each, from the population."""
    rng = np.random.default_rng((SEED, 1, seed))
    d = len(population.features)
    batch = np.searchsorted(np.cumsum(population.batch_weights), rng.random(n_sources), side="right")
    batch = np.minimum(batch, len(population.batch_weights) - 1)  # the cumulated weights may end below 1
    spread = np.linalg.cholesky(population.batch_share * population.between)
    theta = population.batch_means[batch] + _normals(rng, n_sources, d) @ spread.T
    tau = population.scale / gammaincinv(population.shape, rng.random(n_sources))
    noise = _normals(rng, n_sources * n_replicates, d) @ np.linalg.cholesky(population.within).T
    values = np.repeat(theta, n_replicates, axis=0) + np.sqrt(np.repeat(tau, n_replicates))[:, None] * noise
    source = np.repeat([f"S{i:04d}" for i in range(1, n_sources + 1)], n_replicates)
    replicate = np.tile(np.arange(1, n_replicates + 1), n_sources).astype(np.str_)
    return Table("glass-simulated", values.round(6), population.features, source, source, replicate)


def simulated_table() -> Table:
    """The embedded data set ``glass-simulated``: 1053 sources × 6 replicates × 18 features."""
    return simulate_table(glass_population(), N_SOURCES, N_REPLICATES, seed=0)


def _normals(rng: np.random.Generator, n: int, d: int) -> Floats:
    # random() can return 0, which ndtri would send to -inf; half a step up never does.
    draws: Floats = ndtri(rng.random((n, d)) + 2.0**-54)
    return draws


def _matrix(name: str) -> tuple[tuple[str, ...], Floats]:
    lines = files("lindley.table").joinpath(name).read_text(encoding="utf-8").splitlines()
    return tuple(lines[0].split(",")), np.array([[float(x) for x in line.split(",")] for line in lines[1:]])

"""The true LR of the simulated population: the floor that no model beats on average."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch

from lindley.models.between import KernelBetween
from lindley.models.scale import ScaleMixture, inverse_gamma_nodes
from lindley.models.two_level import TwoLevel
from lindley.table.scaling import Scaling
from lindley.table.simulated import GlassPopulation

__all__ = ["oracle"]


def oracle(population: GlassPopulation, scaling: Scaling) -> TwoLevel:
    """A two-level model that knows the population, for values standardised by ``scaling``.

    LR = ∫ p(x, y | τ) π(τ) dτ / (∫ p(x | τ) π(τ) dτ · ∫ p(y | τ) π(τ) dτ), with the batches as kernels of covariance φB
    and one scatter τ per source. The instances of an item around their mean tell of τ too, and `score` lets them.
    """
    var_between, basis = scipy.linalg.eigh(population.between, population.within)
    # Standardised z = (x − m)/s, so x A = (z + m/s) · diag(s) A.
    projection = torch.from_numpy(scaling.sd[:, None] * basis)[None]
    centre = torch.from_numpy(-scaling.mean / scaling.sd)[None, None]
    ones = torch.ones((1, 1, len(var_between)), dtype=torch.float64)
    batches = KernelBetween(
        centres=torch.from_numpy(population.batch_means @ basis)[None],
        var=torch.from_numpy(population.batch_share * var_between)[None, None],
        ln_weights=torch.from_numpy(np.log(population.batch_weights))[None],
    )
    ln_scales, ln_weights = inverse_gamma_nodes(population.shape, population.scale, len(var_between))
    return TwoLevel(centre, projection, ones, ones, ScaleMixture(batches, ln_scales, ln_weights))

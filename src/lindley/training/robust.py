"""Fit the robust model of every run: scalars on held-out pairs, then basis and kernels from all sources.

With n sources and C the Cllr of held-out pairs, mean over folds, the scalars θ minimise

    C(θ) − ln π(θ) / (2 n ln 2)

which is the posterior mode if the n same-source pairs and as many different-source ones were independent and the cost of
Cllr their negative log likelihood. π is the prior of `lindley.training.scalars`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lindley.data.splits import Part
from lindley.errors import LindleyError
from lindley.models.robust import Robust
from lindley.models.sources import Sources
from lindley.training.crossfit import HeldOut, held_out, ln_lr_held_out, model_of
from lindley.training.quasi_newton import minimise
from lindley.training.scalars import SCALARS, START, assemble, ln_prior

__all__ = ["STEPS", "FittedRobust", "fit_robust", "with_scalars"]

STEPS = 40


@dataclass(frozen=True, eq=False)
class FittedRobust:
    """The models, and the scalars that were found on held-out pairs: with them, other sources can make the rest."""

    model: Robust
    scalars: Tensor  # (run, scalar)


def with_scalars(sides: Sequence[Sequence[Part]], scalars: Tensor) -> Robust:
    """Robust models with given scalars, basis and kernels being made of the given parts: a fold, or a bootstrap."""
    return model_of([_sources(parts) for parts in sides], scalars).map(lambda t: t.detach().contiguous())


def fit_robust(
    sides: Sequence[Sequence[Part]],
    seeds: Sequence[int],
    progress: Callable[[int, float], None] | None = None,
) -> FittedRobust:
    """The robust model of every run.

    Args:
        sides: the parts that a run may learn from, such as (train, validate) of a split.
        seeds: one per run, for its folds and draws.
        progress: called with the step and the mean held-out cost.

    Raises:
        LindleyError: if a run has too few sources with replicates.
    """
    if len(sides) != len(seeds):
        raise ValueError(f"{len(sides)} runs got {len(seeds)} seeds")
    runs = [_sources(parts) for parts in sides]
    folds, n_folds = held_out(runs, [np.random.default_rng((seed, 6)) for seed in seeds])
    theta = _fit(folds, n_folds, [len(sources) for sources in runs], progress)
    return FittedRobust(model_of(runs, theta).map(lambda t: t.detach().contiguous()), theta.detach())


def _sources(parts: Sequence[Part]) -> Sources:
    """All sources of the parts of one run."""
    values = np.concatenate([part.values for part in parts])
    source = np.concatenate([part.source for part in parts])
    group = np.concatenate([part.source if part.group is None else part.group for part in parts])
    if not np.isfinite(values).all():
        raise LindleyError("the robust model needs finite values")
    return Sources.of(values, source, group)


def _fit(
    folds: HeldOut, n_folds: Sequence[int], n_sources: Sequence[int], progress: Callable[[int, float], None] | None
) -> Tensor:
    """The scalars of every run, (run, scalar)."""
    count = torch.tensor(n_folds)
    run_of_fold = torch.repeat_interleave(torch.arange(len(n_folds)), count)
    strength = 1 / (2 * math.log(2) * torch.tensor(n_sources, dtype=torch.float64))

    def cost(theta: Tensor, which: Tensor) -> Tensor:
        used = torch.isin(run_of_fold, which)
        some = folds if len(which) == len(n_folds) else _subset(folds, used)
        # ``which`` is in increasing order, and folds go run by run.
        row = torch.repeat_interleave(torch.arange(len(which)), count[which])
        base = some.model
        model = assemble(
            theta[row],
            stabiliser=base.stabiliser,
            centre=base.centre,
            projection=base.projection,
            var_between=base.population.var,
            centres=base.population.centres,
            ln_weights=base.population.ln_weights,
        )
        each = some.cllr(ln_lr_held_out(some, model))
        mean = torch.zeros(len(which), dtype=each.dtype).index_add(0, row, each) / count[which]
        return mean - strength[which] * ln_prior(theta)

    def report(step: int, value: Tensor) -> None:
        if progress is not None:
            progress(step, float(value.mean()))

    start = START.expand(len(n_folds), len(SCALARS)).clone()
    return minimise(cost, start, steps=STEPS, progress=report)


def _subset(folds: HeldOut, used: Tensor) -> HeldOut:
    return HeldOut(
        folds.model.map(lambda t: t[used]),
        folds.instances[used],
        folds.trace[used],
        folds.ref[used],
        folds.same[used],
        folds.weight[used],
    )

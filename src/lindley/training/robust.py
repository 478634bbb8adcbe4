"""Fit the robust model of every run: scalars on held-out pairs, then basis and kernels from all sources.

With n sources and C the Cllr of held-out pairs, mean over folds, the scalars θ minimise

    C(θ) − ln π(θ) / (2 n ln 2)

which is the posterior mode if the n same-source pairs and as many different-source ones were independent and the cost of
Cllr their negative log likelihood. π is the prior of `lindley.training.scalars`. How far the within matrix is shrunk is chosen
by the same cost, with a prior of the same kind, from a few weights: it matters more than any scalar, and tables differ in what
they want.

The scalars mean the same in all tables. So those of another table, of other features even, may be the centre of the prior:
*pretraining*, in a model whose axes and kernels are not trained.
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
from lindley.models.blocks import one_thread
from lindley.models.robust import Robust
from lindley.models.sources import Sources
from lindley.training.crossfit import HeldOut, held_out, ln_parts_held_out, model_of
from lindley.training.quasi_newton import minimise
from lindley.training.scalars import START, assemble, ln_prior

__all__ = ["ALL_STEPS", "FittedRobust", "fit_robust"]

STEPS = 40
SHRINKAGES = (0.1, 0.02, 0.3, 0.6)
"""Of the within matrix towards its diagonal: the held-out cost chooses, run by run. The first is the usual one."""
SHRINKAGE_SD = 1.5
"""Of the normal prior of ln(shrinkage), around the usual one."""
ALL_STEPS = STEPS * len(SHRINKAGES)


@dataclass(frozen=True, eq=False)
class FittedRobust:
    """The models, and what was found on held-out pairs: with that, other sources can make the rest."""

    model: Robust
    scalars: Tensor  # (run, scalar)
    shrinkage: tuple[float, ...]  # (run,)

    def again(self, sides: Sequence[Sequence[Part]], run: int = 0) -> Robust:
        """Models with the scalars of a run, basis and kernels being made of the given parts: a fold, or a bootstrap."""
        scalars = self.scalars[run].expand(len(sides), -1)
        return _made([_sources(parts) for parts in sides], scalars, [self.shrinkage[run]] * len(sides))


def fit_robust(
    sides: Sequence[Sequence[Part]],
    seeds: Sequence[int],
    progress: Callable[[int, float], None] | None = None,
    centre: Tensor = START,
) -> FittedRobust:
    """The robust model of every run.

    Args:
        sides: the parts that a run may learn from, such as (train, validate) of a split.
        seeds: one per run, for its folds and draws.
        progress: called with the step, of `ALL_STEPS` at most, and the mean held-out cost.
        centre: of the prior of the scalars (scalar,); those of another table, where there is one.

    Raises:
        LindleyError: if a run has too few sources with replicates.
    """
    if len(sides) != len(seeds):
        raise ValueError(f"{len(sides)} runs got {len(seeds)} seeds")
    runs = [_sources(parts) for parts in sides]
    n_sources = [len(sources) for sources in runs]
    theta = centre.expand(len(runs), -1)
    found, costs = [], []
    trials, n_folds = held_out(runs, [np.random.default_rng((seed, 6)) for seed in seeds], SHRINKAGES)
    for trial, folds in enumerate(trials):

        def report(step: int, value: Tensor, trial: int = trial) -> None:
            if progress is not None:
                progress(trial * STEPS + step, float(value.mean()))

        theta, cost = _fit(folds, n_folds, n_sources, theta, centre, report)
        found.append(theta)
        ln_prior_shrinkage = -0.5 * (math.log(SHRINKAGES[trial] / SHRINKAGES[0]) / SHRINKAGE_SD) ** 2
        costs.append(cost - _strength(n_sources) * ln_prior_shrinkage)
    best = torch.stack(costs).argmin(0)  # (run,)
    chosen = torch.stack(found)[best, torch.arange(len(runs))]
    chosen_shrinkage = tuple(SHRINKAGES[k] for k in best.tolist())
    return FittedRobust(_made(runs, chosen, chosen_shrinkage), chosen.detach(), chosen_shrinkage)


def _made(runs: Sequence[Sources], scalars: Tensor, shrinkage: Sequence[float]) -> Robust:
    return model_of(runs, scalars, list(shrinkage)).map(lambda t: t.detach().contiguous())


def _sources(parts: Sequence[Part]) -> Sources:
    """All sources of the parts of one run."""
    values = np.concatenate([part.values for part in parts])
    source = np.concatenate([part.source for part in parts])
    group = np.concatenate([part.source if part.group is None else part.group for part in parts])
    if not np.isfinite(values).all():
        raise LindleyError("the robust model needs finite values")
    return Sources.of(values, source, group)


def _fit(
    folds: HeldOut,
    n_folds: Sequence[int],
    n_sources: Sequence[int],
    start: Tensor,
    centre: Tensor,
    report: Callable[[int, Tensor], None],
) -> tuple[Tensor, Tensor]:
    """The scalars of every run (run, scalar), and the cost that they reach (run,)."""
    count = torch.tensor(n_folds)
    run_of_fold = torch.repeat_interleave(torch.arange(len(n_folds)), count)
    strength = _strength(n_sources)

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
        ln_h1, ln_h2 = ln_parts_held_out(some, model)
        each = some.cllr(ln_h1 - ln_h2)
        mean = torch.zeros(len(which), dtype=each.dtype).index_add(0, row, each) / count[which]
        return mean - strength[which] * ln_prior(theta, centre)

    with one_thread():
        theta = minimise(cost, start, steps=STEPS, progress=report)
    with torch.no_grad():
        return theta, cost(theta, torch.arange(len(n_folds)))


def _strength(n_sources: Sequence[int]) -> Tensor:
    """1/(2 n ln 2) of every run: how much a prior counts beside a Cllr."""
    return 1 / (2 * math.log(2) * torch.tensor(n_sources, dtype=torch.float64))


def _subset(folds: HeldOut, used: Tensor) -> HeldOut:
    return HeldOut(
        folds.model.map(lambda t: t[used]),
        folds.instances[used],
        folds.trace[used],
        folds.ref[used],
        folds.same[used],
        folds.weight[used],
    )

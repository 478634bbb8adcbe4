"""Fit the robust model of every run: scalars on held-out pairs, then basis and kernels from all sources.

With n sources and C the Cllr of held-out pairs, mean over folds, the scalars θ minimise

    C(θ) − ln π(θ) / (2 n ln 2)

which is the posterior mode if the n same-source pairs and as many different-source ones were independent and the cost of
Cllr their negative log likelihood. π is the prior of `folds`. How far the within matrix is shrunk is chosen
by the same cost, with a prior of the same kind, from a few weights: it matters more than any scalar, and tables differ in what
they want.

The scalars mean the same in all tables. So those of another table, of other features even, may be the centre of the prior:
*pretraining*, in a model whose axes and kernels are not trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.blocks import or_stop
from lindley.models.fitting import Fitted, Progress, Sources, Task, silent
from lindley.models.robust.folds import START, HeldOut, assemble, held_out, ln_parts_held_out, ln_prior, model_of
from lindley.models.robust.model import Robust
from lindley.table.scaling import Scaling
from lindley.table.splits import Part
from lindley.table.table import Table

__all__ = ["FittedRobust", "fit", "fit_robust"]

LONGEST_STEP = 1.0
"""In the units of the parameters, which are logarithms."""
ARMIJO, SHRINK, HALVINGS = 1e-4, 0.3, 6
TOLERANCE = 3e-6
"""A step that gains less than this is the last."""


def minimise(
    cost: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int = 40,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Tensor, float]:
    """The parameters (k,) at a minimum, and their cost, by BFGS with a backtracking line search: the cost is dear.

    The cost has a gradient. ``progress`` is called with the step, of ``steps`` at most, and the cost.
    """

    def evaluate(at: Tensor) -> tuple[float, Tensor]:
        at = at.detach().requires_grad_()
        value = cost(at)
        (gradient,) = torch.autograd.grad(value, at)
        return float(value.detach()), gradient

    theta = start.detach().clone()
    value, slope = evaluate(theta)
    identity = torch.eye(len(theta), dtype=theta.dtype)
    inverse = identity * (0.3 / max(float(slope.norm()), 1e-12))
    for step in range(steps):
        if progress is not None:
            progress(step, value)
        direction = -(inverse @ slope)
        if float(direction @ slope) >= 0:
            direction = -slope
        direction = direction * min(1.0, LONGEST_STEP / max(float(direction.norm()), 1e-30))
        gain = float(direction @ slope)

        for halving in range(HALVINGS + 1):  # until the cost falls (Armijo)
            length = SHRINK**halving
            new = theta + length * direction
            new_value, new_slope = evaluate(new)
            if new_value <= value + ARMIJO * length * gain:
                break
        else:
            break

        moved, turned = new - theta, new_slope - slope
        curvature = float(moved @ turned)
        if curvature > 1e-14:
            if step == 0:
                inverse = identity * (curvature / max(float(turned @ turned), 1e-30))
            left = identity - torch.outer(moved, turned) / curvature
            inverse = left @ inverse @ left.T + torch.outer(moved, moved) / curvature
        gained = value - new_value
        theta, value, slope = new, new_value, new_slope
        if gained <= TOLERANCE:
            break
    return theta, value


STEPS = 40
SHRINKAGES = (0.1, 0.02, 0.3, 0.6)
"""Of the within matrix towards its diagonal: the held-out cost chooses, run by run. The first is the usual one."""
SHRINKAGE_SD = 1.5
"""Of the normal prior of ln(shrinkage), around the usual one."""
ALL_STEPS = STEPS * len(SHRINKAGES)
MOST_THREADS = 4
"""Runs that are fitted side by side, at most: operations are short, and Python hands them out one at a time."""


def fit(task: Task) -> Fitted:
    """The robust model of every run.

    Option: ``pretrain``, a `Table` of whatever features, whose scalars are the centre of the prior.
    """
    centre = _scalars_of(task.options["pretrain"]) if "pretrain" in task.options else START
    fitted = fit_robust([[part] for part in task.learn], task.seeds, task.progress, centre, task.threads)
    return Fitted(fitted.model, again=lambda run: lambda part: fitted.again([[part]], run))


def _scalars_of(table: Table) -> Tensor:
    """The scalars (scalar,) that are fitted on all sources of another table."""
    values = Scaling.fit(table.values, table.features, table.name)(table.values)
    return fit_robust([[Part.drawn(values, table.source, table.group)]], [0]).scalars[0]


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
    progress: Progress = silent,
    centre: Tensor = START,
    threads: int | None = None,
) -> FittedRobust:
    """The robust model of every run.

    Args:
        sides: the parts that a run may learn from, such as (train, validate) of a split.
        seeds: one per run, for its folds and draws.
        progress: is told the step, of `ALL_STEPS` at most, and the held-out cost, both in the mean over runs.
        centre: of the prior of the scalars (scalar,); those of another table, where there is one.
        threads: runs that are fitted side by side, as many as torch may use unless given, `MOST_THREADS` at most; they
            change no number.

    Raises:
        LindleyError: if a run has too few sources with replicates.
    """
    if len(sides) != len(seeds):
        raise ValueError(f"{len(sides)} runs got {len(seeds)} seeds")
    runs = [_sources(parts) for parts in sides]
    done, costs = [0] * len(runs), [0.0] * len(runs)
    stop = Event()

    def one(run: int) -> tuple[Tensor, float]:
        def report(step: int, cost: float) -> None:
            if stop.is_set():
                raise CancelledError
            done[run], costs[run] = step, cost
            at, cost = sum(done) // len(runs), sum(costs) / max(1, sum(c > 0 for c in costs))
            progress(f"step {at} of {ALL_STEPS}, held-out cost {cost:.4f}", at / ALL_STEPS)

        found = _fit(runs[run], np.random.default_rng((seeds[run], 6)), centre, report)
        done[run] = ALL_STEPS
        return found

    side_by_side = min(MOST_THREADS, torch.get_num_threads() if threads is None else threads)
    found = or_stop(one, len(runs), side_by_side, stop)
    scalars, shrinkage = torch.stack([theta for theta, _ in found]), tuple(weight for _, weight in found)
    return FittedRobust(_made(runs, scalars, shrinkage), scalars, shrinkage)


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
    sources: Sources, rng: np.random.Generator, centre: Tensor, report: Callable[[int, float], None]
) -> tuple[Tensor, float]:
    """The scalars (scalar,) of one run, and its shrinkage."""
    strength = 1 / (2 * math.log(2) * len(sources))  # how much a prior counts beside a Cllr
    theta, found = centre, []
    for trial, folds in enumerate(held_out(sources, rng, SHRINKAGES)):
        theta, cost = minimise(
            partial(_cost, folds, centre, strength),
            theta,
            steps=STEPS,
            progress=lambda step, value, trial=trial: report(trial * STEPS + step, value),  # type: ignore[misc]
        )
        ln_prior_shrinkage = -0.5 * (math.log(SHRINKAGES[trial] / SHRINKAGES[0]) / SHRINKAGE_SD) ** 2
        found.append((cost - strength * ln_prior_shrinkage, theta, SHRINKAGES[trial]))
    _, theta, shrinkage = min(found, key=lambda each: each[0])
    return theta, shrinkage


def _cost(folds: HeldOut, centre: Tensor, strength: float, theta: Tensor) -> Tensor:
    """What the scalars minimise."""
    base, kernels, each = folds.model, folds.model.population, theta.expand(len(folds.trace), -1)
    basis = base.stabiliser, base.centre, base.projection, kernels.var
    model = assemble(each, *basis, kernels.centres, kernels.ln_weights)
    ln_h1, ln_h2 = ln_parts_held_out(folds, model)
    return folds.cllr(ln_h1 - ln_h2).mean() - strength * ln_prior(theta, centre)

"""Fit the robust model of every run: scalars on held-out pairs, then basis and kernels from all sources.

With n sources and C the Cllr of held-out pairs, mean over folds, the scalars θ minimise

    C(θ) − ln π(θ) / (2 n ln 2)

which is the posterior mode if the n same-source pairs and as many different-source ones were independent and the cost of
Cllr their negative log likelihood. π is the prior of `folds`. How far the two covariances are shrunk and, of many features, the
number of axes are chosen by the same cost, with priors of the same kind: they matter more than any scalar, and tables differ in
what they want. Each is the posterior mean over a few values. How often sources are related is learnt in between, from pairs of
different sources (`folds.learn_relatedness`): Cllr hardly sees it.

Replicates, which tell how sure a fit is, start where it ended and take its shrinkage. Their LRs scatter as much as those of
fits from the usual start that choose a shrinkage anew.

Of more than `MOST_SEARCHED` sources, scalars and shrinkage are searched with a choice of them: a basis of thousands of sources
hardly changes with more, and of each fold a few hundred are paired in any case.

The scalars mean the same in all tables. So those of another table, of other features even, may be the centre of the prior:
*pretraining*, in a model whose axes and kernels are not trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.blocks import one_thread
from lindley.models.fitting import Fitted, Progress, Sources, Task, require_device, silent
from lindley.models.robust.eigenbasis import Shrinkage
from lindley.models.robust.folds import (
    PRIOR,
    SCALARS,
    START,
    Folds,
    HeldOut,
    learn_relatedness,
    ln_lr_held_out,
    ln_parts_held_out,
    ln_prior,
    model_of,
    stabilised,
)
from lindley.models.robust.model import Robust
from lindley.table.scaling import Scaling
from lindley.table.splits import Part
from lindley.table.table import Table
from lindley.workers import MOST_WORKERS, Notify, Workers

__all__ = ["FittedRobust", "fit", "fit_robust"]

LONGEST_STEP = 1.0
"""In the units of the parameters, which are logarithms."""
ARMIJO, SHRINK, HALVINGS = 1e-4, 0.3, 6
TOLERANCE = 3e-6
"""A step that gains less than this is the last."""


def minimise(
    cost: Callable[[Tensor], Tensor],
    start: Tensor,
    inverse: Tensor | None = None,
    *,
    steps: int = 40,
    progress: Callable[[float], None] | None = None,
    to_go_on: bool = True,
) -> tuple[Tensor, float, Tensor]:
    """The parameters (k,) at a minimum, their cost, and its inverse Hessian: BFGS, as the cost is dear, with backtracking.

    The cost has a gradient. ``inverse`` is an inverse Hessian to start with, such as that of a similar cost. ``progress`` is
    called with the cost at every step, of ``steps`` at most. If nobody wants ``to_go_on`` from there, the gradient after the
    last step is not asked for, and the inverse Hessian is that before it.
    """

    def evaluate(at: Tensor, *, with_slope: bool = True) -> tuple[float, Tensor]:
        if not with_slope:
            with torch.no_grad():
                return float(cost(at)), torch.empty(0)
        at = at.detach().requires_grad_()
        value = cost(at)
        (gradient,) = torch.autograd.grad(value, at)
        return float(value.detach()), gradient

    theta = start.detach().clone()
    value, slope = evaluate(theta)
    identity = torch.eye(len(theta), dtype=theta.dtype)
    is_new = inverse is None
    if inverse is None:
        inverse = identity * (0.3 / max(float(slope.norm()), 1e-12))
    for step in range(steps):
        if progress is not None:
            progress(value)
        direction = -(inverse @ slope)
        if float(direction @ slope) >= 0:
            direction = -slope
        direction = direction * min(1.0, LONGEST_STEP / max(float(direction.norm()), 1e-30))
        gain = float(direction @ slope)
        with_slope = to_go_on or step < steps - 1

        for halving in range(HALVINGS + 1):  # until the cost falls (Armijo)
            length = SHRINK**halving
            new = theta + length * direction
            new_value, new_slope = evaluate(new, with_slope=with_slope)
            if new_value <= value + ARMIJO * length * gain:
                break
        else:
            break

        if not with_slope:
            return new, new_value, inverse

        moved, turned = new - theta, new_slope - slope
        curvature = float(moved @ turned)
        if curvature > 1e-14:
            if step == 0 and is_new:
                inverse = identity * (curvature / max(float(turned @ turned), 1e-30))
            left = identity - torch.outer(moved, turned) / curvature
            inverse = left @ inverse @ left.T + torch.outer(moved, moved) / curvature
        gained = value - new_value
        theta, value, slope = new, new_value, new_slope
        if gained <= TOLERANCE:
            break
    return theta, value, inverse


STEPS, STEPS_OF_A_TRIAL = 30, 2
WITHIN_SCALAR = [s.name for s in SCALARS].index("within")
WITHIN, BETWEEN, AXES = (0.02, 0.1, 0.3, 0.6, 0.9), (0.03, 0.1, 0.3, 1.0, 3.0), (10, 20, 40, 60)
"""What shrinkages and numbers of axes there are to choose from, by the held-out cost of the run."""
SHRINKAGE_SD = 1.5
"""Of the normal priors of ln(within) and ln(between), around the usual ones."""
OUT_OF_THE_QUESTION = 15.0
"""Values that are e^15 times less probable than the best, and those beyond them, are not looked at."""
FEW_FEATURES = 60
"""Up to so many, all axes are kept."""
ALL_STEPS = 2 * STEPS + (2 * len(WITHIN) + len(BETWEEN)) * STEPS_OF_A_TRIAL
STEPS_OF_A_REPLICATE = 15
"""About as many as it takes from where the fit on all sources ended; for the progress."""
MOST_SEARCHED = 10_000
"""Sources that scalars and shrinkage are searched with: basis and kernels are made of all of them afterwards."""
WORTH_WORKERS = 4
"""Runs from which on worker processes do them: one takes seconds, and a process two to start."""


def fit(task: Task) -> Fitted:
    """The robust model of every run.

    Option: ``pretrain``, a `Table` of whatever features, whose scalars are the centre of the prior.
    """
    centre = _scalars_of(task.options["pretrain"]) if "pretrain" in task.options else START
    require_device(task.device)
    fitted = fit_robust(task.learn, task.seeds, task.progress, centre, task.threads, task.replicates, task.device)
    return Fitted(fitted.model, again=lambda run: lambda part: fitted.again([part], run))


def _scalars_of(table: Table) -> Tensor:
    """The scalars (scalar,) that are fitted on all sources of another table."""
    values = Scaling.fit(table.values, table.features, table.name)(table.values)
    return fit_robust([Part.drawn(values, table.source, table.group)], [0]).scalars[0]


@dataclass(frozen=True, eq=False)
class FittedRobust:
    """The models, and what was found on held-out pairs: with that, other sources can make the rest."""

    model: Robust
    scalars: Tensor  # (run, scalar)
    relatedness: Tensor  # (run, 1 or 2, way)
    shrinkage: tuple[Shrinkage, ...]  # (run,)

    def again(self, parts: Sequence[Part], run: int = 0) -> Robust:
        """Models with the scalars of a run, basis and kernels being made of the given parts: a fold, or a bootstrap."""
        n = len(parts)
        scalars, relatedness = self.scalars[run].expand(n, -1), self.relatedness[run].expand(n, -1, -1)
        mates = self.model.mates[run].expand(n, -1, -1)
        return _made(list(map(_sources, parts)), scalars, relatedness, mates, [self.shrinkage[run]] * n)


def fit_robust(
    parts: Sequence[Part],
    seeds: Sequence[int],
    progress: Progress = silent,
    centre: Tensor = START,
    threads: int | None = None,
    replicates: int = 0,
    device: str = "cpu",
) -> FittedRobust:
    """The robust model of every run.

    Args:
        parts: what each run may learn from.
        seeds: one per run, for its folds and draws.
        progress: is told the step, of `ALL_STEPS` or so, and the held-out cost, both in the mean over runs.
        centre: of the prior of the scalars (scalar,); those of another table, where there is one.
        threads: runs that are fitted side by side, each in a process, as many as torch may use unless given; they change no
            number.
        replicates: of the runs, the last so many start from what is found for the first.
        device: where the densities of held-out pairs are computed; bases are made on the processor.

    Raises:
        LindleyError: if a run has too few sources with replicates.
    """
    if len(parts) != len(seeds):
        raise ValueError(f"{len(parts)} runs got {len(seeds)} seeds")
    runs, mates = list(map(_sources, parts)), [part.mate_share for part in parts]
    anew = len(runs) - replicates
    steps = [ALL_STEPS] * anew + [STEPS_OF_A_REPLICATE] * replicates
    done, costs = [0] * len(runs), [0.0] * len(runs)
    found: dict[int, _Found] = {}

    def report(run: int, cost: float) -> None:
        done[run], costs[run] = min(done[run] + 1, steps[run] - 1), cost
        share, mean = sum(done) / sum(steps), sum(costs) / max(1, sum(c > 0 for c in costs))
        at = math.floor(ALL_STEPS * share)
        progress(f"step {at} of {ALL_STEPS}, held-out cost {mean:.4f}", at / ALL_STEPS)

    def job(run: int, start: _Found | None) -> _Job:
        searched = _some(runs[run], np.random.default_rng((seeds[run], 7)))
        return _Job(run, searched, mates[run] or 0.0, seeds[run], centre, start, device)

    def search(some: range, start: _Found | None, workers: Workers) -> None:
        jobs = [job(run, start) for run in some]
        with one_thread():
            for one, what in workers.run(_search, jobs, lambda one, cost: report(one.run, cost)):
                found[one.run], done[one.run] = what, steps[one.run]

    side_by_side = torch.get_num_threads() if threads is None else threads
    worth = device == "cpu" and len(runs) >= WORTH_WORKERS
    with Workers(min(side_by_side, max(anew, replicates), MOST_WORKERS) if worth else 1) as workers:
        search(range(anew), None, workers)
        search(range(anew, len(runs)), found.get(0), workers)
    in_order = [found[run] for run in range(len(runs))]
    scalars, relatedness = (torch.stack([getattr(f, name) for f in in_order]) for name in ("scalars", "relatedness"))
    shrinkage = tuple(f.shrinkage for f in in_order)
    if all(share is None for share in mates):
        relatedness = relatedness[:, :1]
    shares = torch.tensor([share or 0.0 for share in mates], dtype=torch.float64)[:, None, None]
    model = _made(runs, scalars, relatedness, shares, shrinkage)
    return FittedRobust(model, scalars, relatedness, shrinkage)


def _made(
    runs: Sequence[Sources], scalars: Tensor, relatedness: Tensor, mates: Tensor, shrinkage: Sequence[Shrinkage]
) -> Robust:
    model = model_of(list(map(stabilised, runs)), scalars, relatedness, mates, shrinkage)
    return model.map(lambda t: t.detach().contiguous())


def _sources(part: Part) -> Sources:
    """All sources of one run; the order of a source's instances does not matter, so they are sorted."""
    if not np.isfinite(part.values).all():
        raise LindleyError("the robust model needs finite values")
    order = np.lexsort(part.values.T)
    return Sources.of(part.values[order], part.source[order], part.groups[order])


def _some(sources: Sources, rng: np.random.Generator) -> Sources:
    """Of more than `MOST_SEARCHED` sources, about so many, in whole groups."""
    if len(sources) <= MOST_SEARCHED:
        return sources
    place = np.empty(sources.group.max() + 1, dtype=np.intp)
    place[rng.permutation(len(place))] = np.arange(len(place))  # of every group
    order = np.argsort(place[sources.group], kind="stable")
    last = place[sources.group[order[MOST_SEARCHED - 1]]]
    return sources.take(np.flatnonzero(place[sources.group] <= last))


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found for one run."""

    scalars: Tensor  # (scalar,)
    relatedness: Tensor  # (2, way)
    shrinkage: Shrinkage
    inverse: Tensor  # of the Hessian, for a replicate to start with (scalar, scalar)


@dataclass(frozen=True, eq=False)
class _Job:
    """What is searched for one run."""

    run: int
    sources: Sources
    mates: float
    seed: int
    centre: Tensor
    start: _Found | None
    device: str


def _search(job: _Job, notify: Notify) -> _Found:
    torch.set_num_threads(1)
    rng = np.random.default_rng((job.seed, 6))
    return _fit(job.sources, job.mates, rng, job.centre, notify, job.start, job.device)


def _fit(
    sources: Sources,
    mates: float,
    rng: np.random.Generator,
    centre: Tensor,
    report: Callable[[float], None],
    start: _Found | None = None,
    device: str = "cpu",
) -> _Found:
    """Scalars at the usual shrinkage, then one number of the shrinkage after the other, and the scalars once more.

    From where another fit ended: the scalars, and once more with how often these sources are related.
    """
    many = sources.values.shape[1] > FEW_FEATURES
    usual = Shrinkage(components=many, axes=AXES[1] if many else None) if start is None else start.shrinkage
    folds = Folds(sources, mates, rng, usual, device)
    search = _Search(folds, usual, centre, 1 / (2 * math.log(2) * len(sources)), report)
    if start is not None:
        search.theta, search.relatedness, search.inverse = start.scalars, start.relatedness, start.inverse
        search.go_on(STEPS)
        search.go_on(STEPS)
        return search.found()
    search.go_on(STEPS)
    if many:
        search.choose("axes", AXES)
    search.choose("within", WITHIN)
    search.choose("between", BETWEEN)
    search.choose("within", WITHIN)
    search.go_on(STEPS)
    return search.found()


class _Search:
    """Where scalars and shrinkage have a low held-out cost."""

    def __init__(
        self, folds: Folds, at: Shrinkage, centre: Tensor, strength: float, report: Callable[[float], None]
    ) -> None:
        """``centre`` is that of the prior of the scalars, ``strength`` how much a prior counts beside a Cllr."""
        self.folds, self.centre, self.strength, self.report = folds, centre, strength, report
        self.at, self.held_out = at, folds.held_out(at)
        self.theta, self.relatedness = centre, PRIOR
        self.inverse: Tensor | None = None

    def go_on(self, steps: int) -> None:
        """Some steps of the scalars, and how often sources are related as things stand then."""
        self.theta, _, self.inverse = self._minimise(self.held_out, self.theta, steps)
        with torch.no_grad():
            self.relatedness = learn_relatedness(self.held_out, ln_parts_held_out(self.held_out, self.theta))

    def found(self) -> _Found:
        """Where it stands."""
        assert self.inverse is not None
        return _Found(self.theta, self.relatedness, self.at, self.inverse)

    def choose(self, name: Literal["within", "between", "axes"], values: Sequence[float]) -> None:
        """One of the numbers of the shrinkage: its posterior mean over some values, each with a few steps of the scalars.

        The best value alone would follow the luck of few held-out pairs. From the value nearest to where it stands they are
        tried on both sides, up to one that is `OUT_OF_THE_QUESTION`.
        """

        def changed(value: float) -> Shrinkage:
            new: dict[str, Any] = {name: round(value) if name == "axes" else value}
            return replace(self.at, **new)

        here = math.log(getattr(self.at, name))
        nearest = min(range(len(values)), key=lambda i: abs(math.log(values[i]) - here))
        costs: dict[float, float] = {}
        for side in (values[nearest:], values[:nearest][::-1]):
            for value in side:
                _, _, cost, _ = self._tried(changed(value), to_go_on=False)
                costs[value] = cost - self.strength * ln_prior_of(changed(value))
                if costs[value] > min(costs.values()) + OUT_OF_THE_QUESTION * self.strength:
                    break
        weight = np.exp((min(costs.values()) - np.array(list(costs.values()))) / self.strength)
        at = changed(math.exp(float(np.average(np.log(list(costs)), weights=weight))))
        held_out, theta, _, inverse = self._tried(at)
        self.at, self.held_out, self.theta, self.inverse = at, held_out, theta, inverse

    def _tried(self, shrinkage: Shrinkage, *, to_go_on: bool = True) -> tuple[HeldOut, Tensor, float, Tensor]:
        """The folds with another shrinkage, and scalars, their cost and inverse Hessian after a few steps from here."""
        held_out = self.folds.held_out(shrinkage)
        start = self.theta.clone()
        start[WITHIN_SCALAR] += math.log(held_out.spread() / self.held_out.spread())
        return held_out, *self._minimise(held_out, start, STEPS_OF_A_TRIAL, to_go_on=to_go_on)

    def _minimise(
        self, held_out: HeldOut, start: Tensor, steps: int, *, to_go_on: bool = True
    ) -> tuple[Tensor, float, Tensor]:
        cost = partial(_cost, held_out, self.relatedness, self.centre, self.strength)
        return minimise(cost, start, self.inverse, steps=steps, progress=self.report, to_go_on=to_go_on)


def ln_prior_of(shrinkage: Shrinkage) -> float:
    """ln of the prior of a shrinkage, up to a constant."""
    usual = Shrinkage()
    pairs = (shrinkage.within, usual.within), (shrinkage.between, usual.between)
    return -0.5 * sum((math.log(value / centre) / SHRINKAGE_SD) ** 2 for value, centre in pairs)


def _cost(folds: HeldOut, relatedness: Tensor, centre: Tensor, strength: float, theta: Tensor) -> Tensor:
    """What the scalars minimise."""
    ln_lr = ln_lr_held_out(ln_parts_held_out(folds, theta), relatedness, folds.mates)
    return folds.cllr(ln_lr).mean().cpu() - strength * ln_prior(theta, centre)

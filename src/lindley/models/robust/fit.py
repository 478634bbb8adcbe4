r"""Fit the robust model of every run: coordinates and scalars on held-out pairs, then the densities from all sources.

With n sources and C the Cllr of held-out pairs, mean over `folds`, the scalars θ minimise

    C(θ) − ln π(θ) / (2 n ln 2)

which is the posterior mode if the n same-source pairs and as many different-source ones were independent and the cost of
Cllr their negative log likelihood. π is the prior of `scalars`. Coordinates are searched with the laws alone, nothing being
wrong: from the best of a coarse grid, one of c_W, c_B and the number of axes is changed at a time. The best are compared with
the whole law and averaged, with the weights exp(−2 n ln 2 · cost) in the mean over bootstraps of the sources. How often mates
are alike is learnt by EM, and last what measurements of an item share. Replicates start from what the first run found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import softmax
from torch import Tensor

from lindley.llrs import Floats
from lindley.models.blocks import one_thread
from lindley.models.fitting import Fitted, Progress, Sources, Task, require_device, silent
from lindley.models.robust.coordinates import Coordinates, Setting
from lindley.models.robust.folds import Block, Folds, Member, basis_of, beside_of, in_order
from lindley.models.robust.law import AllPairs
from lindley.models.robust.model import WAYS, Basis, Ratios, Robust, Run, View
from lindley.models.robust.scalars import SCALARS, SD, START, ln_prior, values_of
from lindley.models.two_level import TwoLevel, map_tensors
from lindley.table.scaling import Scaling
from lindley.table.splits import Part
from lindley.workers import MOST_WORKERS, Notify, Workers

__all__ = ["FittedRobust", "fit", "fit_robust"]

SHRINKAGES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Values of c_W and c_B that are tried."""
AXES = (2, 4, 8, 16, 32, 64)
"""Numbers of axes that are tried, beside all of them."""
STARTS, AXES_OF_STARTS = ((0.1, 0.1), (1.0, 0.1), (0.01, 0.01), (0.001, 0.001), (10.0, 10.0)), (4, 16)
"""c_W and c_B, and numbers of axes beside all of them, of the coarse grid."""
ORDER = ("axes", "within", "between", "axes", "within")
"""What is changed from the best of the grid, one after the other."""
STEPS_OF_A_TRIAL, STEPS_OF_A_CANDIDATE, STEPS = 6, 4, 20
SOURCES_OF_A_TRIAL, OUT_OF_THE_QUESTION = 200, 8.0
"""Of held-out pairs that a trial looks at; a value that is e^8 times less probable than the best is the last on its side."""
MOST_MEMBERS, LEAST_SHARE, DRAWS = 5, 0.05, 200
"""Coordinates that are averaged, their least weight, and bootstraps of the sources that weights are averaged over."""
NAMES = [s.name for s in SCALARS]
OF_SEVERAL = [NAMES.index(name) for name in ("shared", "steady")]
FITTED = [i for i in range(len(NAMES)) if i not in OF_SEVERAL]
POOLED = [NAMES.index(name) for name in ("trust", "heavy")]
SEARCHED = [i for i in FITTED if NAMES[i] not in ("wrong", "variant")]
"""Scalars that are fitted with each setting."""
SD_OF_WEIGHTS, ENOUGH = 2.0, 1e-4
"""Of the normal prior of the ln weights of members; and a step that changes −ln posterior by a smaller share is the last."""
BEGIN = {"width": -1.7, "heavy": -3.0}
"""Fitted forms of h and η where a search begins: from small ones it finds large ones; LRs at their bounds have no gradient."""
MOST_SEARCHED, PRIOR_MATES, NEVER = 2000, 0.3, -60.0
"""Sources that are searched with; pairs of mates that each way is thought to have been seen in; fitted form of no chance."""
ALL_STEPS, WORTH_WORKERS = 40, 4
"""About as many trials as a fit has, for the progress; and runs from which on worker processes do them."""


def fit(task: Task) -> Fitted:
    """The robust model of every run.

    Option: ``pretrain``, a `Table` of whatever features, whose scalars are the centre of the prior.
    """
    centre, table = START, task.options.get("pretrain")
    if table is not None:
        values = Scaling.fit(table.values, table.features, table.name)(table.values)
        centre = fit_robust([Part.drawn(values, table.source, table.group)]).found[0].theta
    require_device(task.device)
    fitted = fit_robust(task.learn, task.progress, centre, task.threads, task.replicates)
    return Fitted(fitted.model, again=lambda run: lambda part: fitted.again(part, run))


@dataclass(frozen=True, eq=False)
class Found:
    """What was found on held-out pairs of one run."""

    theta: Tensor  # (scalar,)
    members: tuple[Member, ...]
    of_mates: Tensor  # how often mates are related, in each of the `WAYS` (way,)
    several: bool  # whether there were held-out pairs of several measurements: without, σ_s is 0


@dataclass(frozen=True, eq=False)
class FittedRobust:
    """The models, and what they were made with: with that, other sources make the densities."""

    model: Robust
    found: tuple[Found, ...]
    mates: float | None

    def again(self, part: Part, run: int = 0) -> Robust:
        """A model with what was found for a run, the densities being made of another part: a fold, or a bootstrap."""
        return _made([in_order(part)], [self.found[run]], [self.mates])


def fit_robust(
    parts: Sequence[Part],
    progress: Progress = silent,
    centre: Tensor = START,
    threads: int | None = None,
    replicates: int = 0,
) -> FittedRobust:
    """The robust model of every run.

    Args:
        parts: what each run may learn from.
        progress: is told the step, of `ALL_STEPS` or so, in the mean over runs, and a held-out cost.
        centre: of the prior of the scalars (scalar,); those of another table, where there is one.
        threads: processes that fit runs side by side, as many as torch may use unless given; they change no number.
        replicates: of the runs, the last so many start from what is found for the first.

    Raises:
        LindleyError: if a run has too few sources with replicates.
    """
    runs, mates = list(map(in_order, parts)), [part.mate_share for part in parts]
    anew, done = len(runs) - replicates, [0] * len(runs)
    found: dict[int, tuple[Found, TwoLevel]] = {}

    def report(job: _Job, cost: float) -> None:
        done[job.run] = min(done[job.run] + 1, ALL_STEPS - 1)
        at = sum(done) // len(runs)
        progress(f"step {at} of {ALL_STEPS}, held-out cost {cost:.4f}", at / ALL_STEPS)

    def search(some: range, start: Found | None, workers: Workers) -> None:
        jobs = [_Job(run, runs[run], mates[run], centre, start) for run in some]
        with one_thread():
            for job, what in workers.run(_search, jobs, report):
                found[job.run], done[job.run] = what, ALL_STEPS

    side_by_side = torch.get_num_threads() if threads is None else threads
    number = min(side_by_side, max(anew, replicates), MOST_WORKERS) if len(runs) >= WORTH_WORKERS else 1
    with Workers(number) as workers:
        search(range(anew), None, workers)
        search(range(anew, len(runs)), found[0][0] if replicates else None, workers)
    in_turn, beside = zip(*(found[run] for run in range(len(runs))), strict=True)
    return FittedRobust(_made(runs, in_turn, mates, beside), in_turn, mates[0])


class _Job(NamedTuple):
    """What is searched for one run."""

    run: int
    sources: Sources
    mates: float | None
    centre: Tensor
    start: Found | None


def _search(job: _Job, notify: Notify) -> tuple[Found, TwoLevel]:
    """What is found for one run, and the heavy-tailed law of all its sources."""
    torch.set_num_threads(1)
    search = _Search(Folds(_some(job.sources), job.mates), job.centre, notify)
    return search.find(job.start), beside_of(job.sources)


def _some(sources: Sources) -> Sources:
    """Of more than `MOST_SEARCHED` sources, about so many, in whole groups."""
    if len(sources) <= MOST_SEARCHED:
        return sources
    place = np.random.default_rng(0).permutation(int(sources.group.max()) + 1)[sources.group]
    return sources.take(np.flatnonzero(place <= np.sort(place)[MOST_SEARCHED - 1]))


class _Search:
    """Where coordinates and scalars have a low held-out cost."""

    def __init__(self, folds: Folds, centre: Tensor, report: Callable[[float], None]) -> None:
        self.folds, self.centre, self.report = folds, centre, report
        self.strength = 1 / (2 * math.log(2) * len(folds.sources))  # how much a prior counts beside a Cllr
        self.share = folds.mates or 0.0
        self.of_mates = torch.zeros(len(WAYS), dtype=torch.float64)
        if any(bool(block.is_mate.any()) for block in folds.blocks):
            self.of_mates = torch.full_like(self.of_mates, PRIOR_MATES / (1 + PRIOR_MATES * len(WAYS)))

    def find(self, start: Found | None) -> Found:
        """Coordinates, then scalars, then what mates and measurements of one item share; or from what was found elsewhere."""
        if start is None:
            members, theta = self._members()
        else:
            members, theta = start.members, start.theta
            self.of_mates = start.of_mates if bool(self.of_mates.sum() > 0) else self.of_mates
        main = self._ready(members[:1])
        theta, _ = self._minimise(main, theta, FITTED, STEPS)
        if bool(self.of_mates.sum() > 0):
            self.of_mates = self._learn_mates(main, theta)
            theta, _ = self._minimise(main, theta, FITTED, STEPS)
        members, theta = self._pooled(members, theta)
        if start is None:  # it is what takes longest
            theta = self._learn_shared(members[:1], theta)
        return Found(theta, members, self.of_mates, bool(self.folds.sizes()) if start is None else start.several)

    def _pooled(self, members: tuple[Member, ...], theta: Tensor) -> tuple[tuple[Member, ...], Tensor]:
        """The members with the weights, and the scalars with the β and η, whose pool has the lowest cost."""
        start = torch.cat([theta, torch.tensor([member.share for member in members], dtype=torch.float64).log()])
        with torch.no_grad():
            ready = [replace(each, known=each.ratios(each.run(start))) for each in self._ready(members)]
        found, _ = self._minimise(ready, start, [*POOLED, *range(len(SCALARS), len(start))], STEPS)
        theta, shares = found[: len(SCALARS)], torch.softmax(found[len(SCALARS) :], 0)
        return tuple(replace(m, share=w) for m, w in zip(members, shares.tolist(), strict=True)), theta

    def _learn_shared(self, members: Sequence[Member], theta: Tensor) -> Tensor:
        """The scalars with g and σ_s, by held-out pairs of several measurements, where there are such."""
        sizes = self.folds.sizes()
        blocks = [replace(b, weight=b.weight / len(sizes)) for size in sizes for b in self.folds.of_size(size)]
        ready = self._ready(members, blocks, few=True) if blocks else []
        return self._minimise(ready, theta, OF_SEVERAL, STEPS_OF_A_TRIAL)[0] if ready else theta

    def _members(self) -> tuple[tuple[Member, ...], Tensor]:
        """The settings that are averaged, and scalars to start from."""
        most = min(each.most_axes for each in self.folds.coordinates)  # axes that every fold can have
        numbers = sorted({*(k for k in AXES if k < most), most})
        tried: dict[Setting, tuple[float, Tensor]] = {}

        def cost_of(setting: Setting, start: Tensor) -> float:
            if setting not in tried:
                trial = self._ready((Member(setting),), few=True, without=False)
                theta, cost = self._minimise(trial, start, SEARCHED, STEPS_OF_A_TRIAL)
                tried[setting] = cost, theta
                self.report(cost)
            return tried[setting][0]

        shrinkages = self.folds.coordinates[0].distinct(SHRINKAGES)
        start = self.centre.clone()
        for name, fitted in BEGIN.items():
            start[NAMES.index(name)] = fitted
        for k in sorted({*(min(k, most) for k in AXES_OF_STARTS), most}, reverse=True):
            for within, between in STARTS:
                if within in shrinkages and between in shrinkages:
                    cost_of(Setting(within, between, k), start)
                    start = min(tried.values(), key=lambda found: found[0])[1]
        at = min(tried, key=lambda setting: tried[setting][0])
        for name in ORDER:
            values = numbers if name == "axes" else shrinkages
            here = min(range(len(values)), key=lambda i: abs(math.log(values[i] / getattr(at, name))))
            start, costs = tried[at][1], {getattr(at, name): tried[at][0]}
            for side in (values[here + 1 :], values[:here][::-1]):
                for value in side:
                    changed = Setting(**{**asdict(at), name: value})
                    costs[value] = cost_of(changed, start)
                    if costs[value] > min(costs.values()) + OUT_OF_THE_QUESTION * self.strength:
                        break
            at = Setting(**{**asdict(at), name: min(costs, key=lambda value: costs[value])})
        return self._averaged(tried)

    def _averaged(self, tried: dict[Setting, tuple[float, Tensor]]) -> tuple[tuple[Member, ...], Tensor]:
        """Settings with their weights, each c_W and number of axes once, and scalars to start from.

        The best of the search are compared with the whole law. Their weights are exp(−2 n ln 2 · cost), in the mean over
        Bayesian bootstraps of the sources: what a few of these decide is not decided.
        """
        best: dict[tuple[float, int], Setting] = {}
        for setting in sorted(tried, key=lambda setting: tried[setting][0]):
            best.setdefault((setting.within, setting.axes), setting)
        candidates, thetas, costs = list(best.values())[:MOST_MEMBERS], [], []
        for setting in candidates:
            trial = self._ready((Member(setting),), few=True)
            theta, _ = self._minimise(trial, tried[setting][1], FITTED, STEPS_OF_A_CANDIDATE)
            of_source = np.zeros(len(self.folds.sources))
            with torch.no_grad():
                for each in self._ready((Member(setting),)):
                    np.add.at(of_source, each.block.which, each.costs(theta).numpy())
            thetas.append(theta)
            costs.append(of_source - self.strength * float(ln_prior(theta, self.centre)) / len(of_source))
            self.report(float(of_source.sum()))
        drawn = np.random.default_rng(0).dirichlet(np.ones(len(of_source)), DRAWS) * len(of_source)
        shares = softmax(-drawn @ np.stack(costs, 1) / self.strength, axis=1).mean(axis=0)
        chosen = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] >= LEAST_SHARE]
        scales = [math.exp(float(thetas[i][0] - thetas[chosen[0]][0])) for i in chosen]
        weights = shares[chosen] / shares[chosen].sum()
        members = map(Member, [candidates[i] for i in chosen], scales, weights.tolist())
        return tuple(members), thetas[chosen[0]]

    def _ready(
        self, members: Sequence[Member], blocks: Sequence[Block] = (), *, few: bool = False, without: bool = True
    ) -> list[_Ready]:
        """The held-out pairs, or a few of them, and the coordinates of some members that have not seen them."""
        bases = [[basis_of(coordinates, member) for member in members] for coordinates in self.folds.coordinates]
        blocks = blocks or self.folds.blocks
        some = blocks[:: max(1, sum(len(block.trace) for block in blocks) // SOURCES_OF_A_TRIAL) if few else 1]
        times = len(blocks) / len(some)
        return [_Ready(replace(b, weight=b.weight * times), bases[b.fold], self.related, without) for b in some]

    def _minimise(self, ready: list[_Ready], start: Tensor, free: Sequence[int], steps: int) -> tuple[Tensor, float]:
        """Scalars, and ln weights of members behind them, of which the ``free`` ones were fitted, and their cost."""
        places, centre = (torch.tensor(free),), torch.cat([self.centre, start[len(SCALARS) :]])
        sd = torch.nn.functional.pad(SD, (0, len(start) - len(SD)), value=SD_OF_WEIGHTS)

        def cost(at: Floats) -> tuple[float, Floats]:
            """−ln of the posterior, of scalars in standard deviations of their priors, and its gradient."""
            some, total = torch.tensor(at, requires_grad=True), 0.0
            for each in (None, *ready):
                theta = start.index_put(places, some * sd[places])
                part = -ln_prior(theta, centre, sd) if each is None else each.costs(theta).sum() / self.strength
                part.backward()  # type: ignore[no-untyped-call]
                total += float(part.detach())
            assert some.grad is not None
            return total, some.grad.numpy()

        options = {"maxiter": steps, "ftol": ENOUGH}
        found = minimize(cost, (start / sd)[places].numpy(), jac=True, method="L-BFGS-B", options=options)
        return start.index_put(places, torch.from_numpy(found.x) * sd[places]), float(found.fun) * self.strength

    def related(self, values: dict[str, Tensor]) -> Tensor:
        """How often two different sources are related, in each of the `WAYS` (way,)."""
        return (1 - self.share) * _related_of(values) + self.share * self.of_mates

    def _learn_mates(self, ready: Sequence[_Ready], theta: Tensor) -> Tensor:
        """How often mates are related, in each of the `WAYS` (way,): EM on held-out pairs of them."""
        with torch.no_grad():
            runs = [replace(each.run(theta), related=self.of_mates) for each in ready]
            ways = (run.ln_ways(each.ratios(run), each.block.heavy) for run, each in zip(runs, ready, strict=True))
            terms = torch.cat([of[:, each.block.is_mate] for of, each in zip(ways, ready, strict=True)], 1)
            seen = torch.full((len(WAYS),), PRIOR_MATES, dtype=torch.float64)
            rho = seen / (1 + seen.sum())
            for _ in range(200):
                share = torch.softmax(torch.cat([rho.log(), (1 - rho.sum()).log()[None]])[:, None] + terms, 0).sum(1)
                rho = (share[:-1] + seen) / (share.sum() + seen.sum() + 1)
        return rho


@dataclass(frozen=True, eq=False)
class _Ready:
    """A block of held-out pairs, and coordinates that their sources had no part in."""

    block: Block
    bases: list[Basis]
    related: Callable[[dict[str, Tensor]], Tensor]
    without: bool  # whether features are left out as well
    known: Ratios | None = None  # what the laws say, where only the pool is fitted

    def run(self, theta: Tensor) -> Run:
        """The model at these scalars; the ln weights of several members stand behind them."""
        values, ln_shares = values_of(theta[: len(SCALARS)]), theta[len(SCALARS) :]
        if not self.without:
            values |= {name: values[name] * 0 for name in ("wrong", "variant")}
        often = self.related(values) * (torch.arange(len(WAYS)) < (len(WAYS) if self.without else 1))
        shares = torch.softmax(ln_shares, 0) if len(ln_shares) else torch.ones_like(theta[:1])
        return Run(self.bases, shares, values, often, self.without)

    def views(self, run: Run) -> Iterator[list[View]]:
        """What its traces are seen as, and its refs."""
        for side in (self.block.trace, self.block.ref):
            mean = side.mean(1)
            yield run.views(mean, side.shape[1], (side - mean[:, None]).flatten(1))

    def ratios(self, run: Run) -> Ratios:
        """What the laws say of all pairs of single measurements."""
        (x,), (y,) = self.views(run)
        return run.ratios(run.see(x), run.see(y), AllPairs())

    def costs(self, theta: Tensor) -> Tensor:
        """What the pairs of each trace add to the Cllr (sources,)."""
        run = self.run(theta)
        if self.known is None:
            x, y = self.views(run)
            same, different = run.ln_sides(x, y, self.block.heavy, AllPairs())
        else:
            same, different = run.ln_mixtures(run.ln_ways(self.known, self.block.heavy), (1, 1), replicated=False)
        return self.block.costs(same - different)


def _made(
    runs: Sequence[Sources],
    found: Sequence[Found],
    mates: Sequence[float | None],
    beside: Sequence[TwoLevel] | None = None,
) -> Robust:
    """The models of what was found, with densities of all sources, as one of all runs."""
    beside = [beside_of(sources) for sources in runs] if beside is None else beside
    of_runs = zip(map(Coordinates, runs), beside, found, mates, strict=True)
    models = [_one_run(*each) for each in of_runs]
    members = max(len(model.bases) for model in models)
    parts: list[list[Tensor]] = []
    for model in models:
        unused = (replace(model.bases[0], share=torch.zeros_like(model.bases[0].share)),) * (members - len(model.bases))
        parts.append([])
        replace(model, bases=(*model.bases, *unused)).map(lambda t: parts[-1].append(t) or t)  # type: ignore[func-returns-value]
    joined = (_filled_up(each) for each in zip(*parts, strict=True))
    return max(models, key=lambda model: len(model.bases)).map(lambda _: next(joined))


def _filled_up(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of a run each (1, …) as one of all runs, filled up with zeros to the largest (run, …)."""
    joined = torch.zeros(len(tensors), *np.max([t.shape[1:] for t in tensors], axis=0).tolist(), dtype=torch.float64)
    for run, tensor in zip(joined, tensors, strict=True):
        run[tuple(slice(n) for n in tensor.shape[1:])] = tensor.detach()[0]
    return joined


def _one_run(coordinates: Coordinates, beside: TwoLevel, found: Found, mates: float | None) -> Robust:
    """Make the model of one run from what was found for it."""
    others = _related_of(values_of(found.theta))
    related = others[None] if mates is None else torch.stack([others, found.of_mates])
    share = torch.full((1, 1, 1), mates or 0.0, dtype=torch.float64)
    bases = tuple(map_tensors(basis_of(coordinates, member), lambda t: t[None]) for member in found.members)
    theta = found.theta if found.several else found.theta.index_fill(0, torch.tensor(NAMES.index("steady")), NEVER)
    return Robust(bases, beside, theta[None], related[None], share)


def _related_of(values: dict[str, Tensor]) -> Tensor:
    """How often sources of two groups are related, in each of the `WAYS` (way,)."""
    return torch.nn.functional.pad(torch.stack([values["alike"], values["variant"]]), (0, len(WAYS) - 2))

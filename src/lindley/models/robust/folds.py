"""What the robust model is fitted on: its few scalars, and pairs that a basis has not seen.

*Scalars.* Each is fitted as a logarithm (a probability as log odds) under a normal prior around its start. The priors are weak:
they say what is usual of measurements of sources, and matter where a table is small or silent on a number.

*Pairs.* A basis flatters the sources it was made from: their replicates look closer than those of other sources will. So
sources are dealt into folds (sources of one group together); basis and kernels come from the other folds, and the pairs of a
fold's own instances say how good they are.

Of the many different-source pairs most are hopelessly different and cost nothing. Of each fold, pairs are drawn with a
probability that grows with their cost under the start values, and weighted with its inverse: sums over them are unbiased.

*Mates*, different sources of one group (windows of one vehicle), are drawn apart from other pairs. As groups are dealt as a
whole, a fold holds more of them than the population does: together they have the share of the cost that H2 is to have of them,
and how alike they are is learnt of them alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.blocks import pieces
from lindley.models.exponentials import exp_
from lindley.models.fitting import Sources
from lindley.models.robust.eigenbasis import Bases, Shrinkage, Stabiliser, fit_stabiliser, related_variance
from lindley.models.robust.items import Apart, Items
from lindley.models.robust.model import Robust
from lindley.models.robust.population import Population, ln_population
from lindley.models.robust.tails import LN_SCATTER, Tails, ln_scatter_weights, ln_sum, ln_weighted_sum
from lindley.models.two_level import map_tensors, take_runs

__all__ = [
    "FOLDS",
    "PRIOR",
    "SCALARS",
    "START",
    "Folds",
    "HeldOut",
    "learn_relatedness",
    "ln_lr_held_out",
    "ln_parts_held_out",
    "ln_prior",
    "model_of",
    "stabilised",
]


@dataclass(frozen=True)
class Scalar:
    """One number: its start value, and the standard deviation of its prior in the logarithm, or in the log odds."""

    name: str
    start: float
    sd: float
    kind: Literal["positive", "probability", "width"] = "positive"
    least: float = 0.0  # of a positive number

    @property
    def fitted(self) -> float:
        """The start value in the form that is fitted."""
        if self.kind == "positive":
            return math.log(self.start - self.least)
        power = 1 if self.kind == "probability" else 2
        return math.log(self.start) - math.log1p(-(self.start**power)) / power

    def value(self, fitted: Tensor) -> Tensor:
        """The number itself."""
        if self.kind == "positive":
            return self.least + fitted.exp()
        # A width h has the form ln h/√(1 − h²): a small one its logarithm, and none is above one.
        return torch.sigmoid(fitted) if self.kind == "probability" else torch.sigmoid(2 * fitted).sqrt()


SCALARS = (
    Scalar("within", 1.0, 0.5),  # variance within sources, in units of the basis's own
    Scalar("width", 0.4, 1.0, "width"),  # h
    Scalar("background", 0.3, 1.5, "probability"),  # π
    Scalar("nu", 10.0, 0.6),  # ν
    Scalar("scatter_shape", 6.0, 1.0, least=1.6),  # α: 2α is above the background's degrees of freedom
    Scalar("contamination", 0.003, 1.0, "probability"),  # ε
    Scalar("spike", 0.01, 1.5, "probability"),  # σ
    Scalar("second_spike", 0.1, 1.0, "probability"),  # κ
)
START = torch.tensor([s.fitted for s in SCALARS], dtype=torch.float64)
"""The fitted form of the start values (scalar,)."""
SD = torch.tensor([s.sd for s in SCALARS], dtype=torch.float64)

PRIOR_PAIRS = 100.0
"""Different-source pairs that the prior of relatedness counts as."""
PRIOR_RELATED = torch.tensor([0.3, 0.1, 0.1, 0.1, 0.1], dtype=torch.float64)
"""How many of them are related, in each of the `WAYS`: what is not known of a few sources keeps LRs low."""
PRIOR_MATES, PRIOR_RELATED_MATES = 2.0, torch.full((5,), 0.3, dtype=torch.float64)
"""The same of pairs of one group, of which less is known: they may be alike, or have nothing in common."""
PRIOR = torch.stack([PRIOR_RELATED / PRIOR_PAIRS, PRIOR_RELATED_MATES / PRIOR_MATES])
"""How often sources of two groups, and sources of one, are related, as far as that is known before (2, way)."""


def ln_prior(theta: Tensor, centre: Tensor = START) -> Tensor:
    """ln of the prior of ``theta`` (…, scalar) around a centre (scalar,), up to a constant."""
    return -0.5 * (((theta - centre) / SD) ** 2).sum(-1)


def values_of(theta: Tensor) -> dict[str, Tensor]:
    """The numbers themselves by name, (run, 1, 1) each, from their fitted form (run, scalar)."""
    return {s.name: s.value(theta[:, i])[:, None, None] for i, s in enumerate(SCALARS)}


def assemble(
    theta: Tensor,
    relatedness: Tensor,
    mates: Tensor,
    stabiliser: Stabiliser,
    centre: Tensor,
    projection: Tensor,
    directions: Tensor,
    var_between: Tensor,
    var_related: Tensor,
    centres: Tensor,
    ln_weights: Tensor,
) -> Robust:
    """A model from scalars, a basis and kernels; ``relatedness`` is (run, 1 or 2, way)."""
    value = values_of(theta)
    return Robust(
        stabiliser=stabiliser,
        centre=centre,
        projection=projection,
        var_within=value["within"].expand(-1, -1, var_between.shape[-1]),
        directions=directions,
        population=Population(
            centres=centres,
            ln_weights=ln_weights,
            var=var_between,
            **{name: value[name] for name in ("width", "background")},
        ),
        tails=Tails(**{f.name: value[f.name] for f in fields(Tails)}),
        var_related=var_related,
        relatedness=relatedness,
        mates=mates,
    )


Index = NDArray[np.intp]

FOLDS = 5
MOST_KERNELS = 2000
"""Of more sources than this, an even choice gets a kernel."""
MOST_SOURCES = 400
"""Of more held-out sources than this, an even choice is paired."""
SAME_PER_SOURCE = 3
DIFFERENT_PER_FOLD = 600
"""Expected number of different-source pairs that are drawn."""
PARTS_OF_A_DRAW = 4
"""In which instances meet those of later sources alone: most pairs of earlier ones are left out."""
EM_STEPS = 200
UNIFORM_SHARE = 0.1
"""Of the draws that go to all pairs alike, for those that the start values misjudge."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The folds of a run as one batch."""

    model: Robust  # basis and kernels of the other folds, start scalars
    instances: Tensor  # on the axes (fold, instance, axis)
    trace: Tensor  # (fold, pair) number of an instance
    ref: Tensor  # (fold, pair)
    same: Tensor  # (fold, pair)
    mate: Tensor  # (fold, pair) whether of different sources of one group
    weight: Tensor  # (fold, pair); ½/ln 2 for each hypothesis in every fold, 0 for padding
    count: Tensor  # (fold, pair) how many pairs of different sources it stands for; 0 for others
    mates: float  # m, the share of mates that the weights of different-source pairs have
    middle: Tensor  # of the two instances (fold, pair, axis)
    apart: Apart  # how far they are apart, in units of the model's variance within

    def spread(self) -> float:
        """Median over same-source pairs of their squared difference, in the mean over axes: how large w is in this basis."""
        x, y = (_gather(self.instances, which) for which in (self.trace, self.ref))
        return float(((x - y) ** 2).mean(-1)[self.same & (self.weight > 0)].median())

    def cllr(self, ln_lr: Tensor) -> Tensor:
        """Cllr of every fold (fold,) from the ln LRs of its pairs (fold, pair)."""
        cost = torch.nn.functional.softplus(torch.where(self.same, -ln_lr, ln_lr))
        return (cost * self.weight).sum(-1)


def deal(sources: Sources, rng: np.random.Generator) -> Index:
    """The fold of every source (source,): groups in random order are dealt out in turn."""
    groups = np.unique(sources.group)
    n_folds = min(FOLDS, len(groups))
    rank = np.empty(groups[-1] + 1, dtype=np.intp)
    rank[groups[np.argsort(rng.random(len(groups)), kind="stable")]] = np.arange(len(groups))
    # Sources that were measured once give no same-source pair: groups with replicates are dealt first, and evenly.
    replicated = np.bincount(sources.group, sources.count > 1, minlength=len(rank)) > 0
    order = np.lexsort((rank[groups], ~replicated[groups]))
    fold = np.empty(len(rank), dtype=np.intp)
    fold[groups[order]] = np.arange(len(groups)) % n_folds
    return fold[sources.group]


def stabilised(sources: Sources) -> tuple[Stabiliser, Bases]:
    """How the features of some sources are mapped to where they scatter evenly, and bases of the sources there."""
    stabiliser = fit_stabiliser(sources)
    return stabiliser, Bases(replace(sources, values=stabiliser(torch.from_numpy(sources.values)[None])[0].numpy()))


def model_of(
    known: Sequence[tuple[Stabiliser, Bases]],
    theta: Tensor,
    relatedness: Tensor,
    mates: Tensor,
    shrinkages: Sequence[Shrinkage],
) -> Robust:
    """Basis and kernels of sets of sources, `stabilised`, each with scalars (set, scalar), relatedness, mates and shrinkage."""
    stabilisers, parts = zip(*known, strict=True)
    bases = [of_part(shrinkage) for of_part, shrinkage in zip(parts, shrinkages, strict=True)]
    means = [basis(part.means) for basis, part in zip(bases, parts, strict=True)]
    kernels = [each[_even(len(each), MOST_KERNELS)] for each in means]
    related = [related_variance(basis, part.sources, at) for basis, part, at in zip(bases, parts, means, strict=True)]
    # Runs may differ in their numbers of axes: one that has fewer is filled up with axes on which nothing differs.
    most, n_axes = max(map(len, kernels)), max(len(basis.var_between) for basis in bases)
    centres = np.zeros((len(parts), most, n_axes))
    ln_weights = np.full((len(parts), most), -np.inf)
    for i, kernel in enumerate(kernels):
        centres[i, : len(kernel), : kernel.shape[1]] = kernel
        ln_weights[i, : len(kernel)] = -math.log(len(kernel))
    return assemble(
        theta,
        relatedness,
        mates,
        stabiliser=Stabiliser(
            *(torch.cat([getattr(s, field.name) for s in stabilisers]) for field in fields(Stabiliser))
        ),
        centre=torch.from_numpy(np.stack([b.centre for b in bases])[:, None]),
        projection=torch.from_numpy(np.stack([_widened(b.axes, n_axes) for b in bases])),
        directions=torch.from_numpy(np.stack([_widened(b.directions, n_axes) for b in bases])),
        var_between=torch.from_numpy(np.stack([_widened(b.var_between, n_axes) for b in bases])[:, None]),
        var_related=torch.from_numpy(np.stack([_widened(v, n_axes) for v in related])[:, None]),
        centres=torch.from_numpy(centres),
        ln_weights=torch.from_numpy(ln_weights),
    )


def _widened(values: Floats, n_axes: int) -> Floats:
    """With zeros for axes that are not there, which a model leaves out of every LR."""
    return np.concatenate([values, np.zeros((*values.shape[:-1], n_axes - values.shape[-1]))], -1)


class Folds:
    """The sources of one run, dealt into folds, with the pairs of each: the same ones for every shrinkage."""

    def __init__(
        self, sources: Sources, mates: float, rng: np.random.Generator, first: Shrinkage, device: str = "cpu"
    ) -> None:
        """Draw the pairs, by how the usual scalars judge them with a basis of the ``first`` shrinkage.

        ``mates``: how often two different sources are of one group. ``device``: where the densities of pairs are computed.
        """
        self.device = device
        self.own, self.others = [], []
        fold = deal(sources, rng)
        for k in range(int(fold.max()) + 1):
            inside = sources.take(np.flatnonzero(fold == k))
            if len(inside) < 2 or (inside.count > 1).sum() < 1:
                continue  # no pairs of both kinds
            self.own.append(inside.take(_even(len(inside), MOST_SOURCES)))
            self.others.append(stabilised(sources.take(np.flatnonzero(fold != k))))
        if len(self.own) < 2:
            raise LindleyError(
                f"the robust model is fitted on folds of sources: {len(sources)} sources, {(sources.count > 1).sum()} of them "
                "measured twice or more, are too few for two folds with pairs of both kinds. Give more sources with replicates."
            )
        self.mates = mates
        model = self._model(first).map(lambda t: t.to(device))
        self.drawn = [_draw(take_runs(model, [i]), inside, rng) for i, inside in enumerate(self.own)]

    def _model(self, shrinkage: Shrinkage) -> Robust:
        n = len(self.own)
        relatedness, mates = PRIOR.expand(n, -1, -1), torch.full((n, 1, 1), self.mates, dtype=torch.float64)
        return model_of(self.others, START.expand(n, -1), relatedness, mates, [shrinkage] * n)

    def held_out(self, shrinkage: Shrinkage) -> HeldOut:
        """The pairs as bases of this shrinkage see them."""
        held_out = _stack(self._model(shrinkage), self.mates, self.own, self.drawn)
        return map_tensors(held_out, lambda t: t.to(self.device))


SAME, MATE, APART = 0, 1, 2
"""What a pair is: of one source, of two sources of one group, or of two groups."""


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Pairs of a fold."""

    trace: Index  # (pair,) number of an instance
    ref: Index  # (pair,)
    kind: Index  # (pair,) one of `SAME`, `MATE`, `APART`
    share: Floats  # (pair,) of all pairs of its kind in the fold; an estimate without bias
    n_pairs: tuple[int, int, int]  # pairs of sources of each kind


def _draw(model: Robust, sources: Sources, rng: np.random.Generator) -> _Drawn:
    twice = sources.count > 1
    first, second = sources.first, np.where(twice, sources.first + 1, -1)
    same = [np.stack([first[twice], second[twice]], 1)]
    for k in range(1, SAME_PER_SOURCE):  # 0–1, 1–2 and 2–0 of three; on along the instances of more
        more = sources.first[sources.count > max(2, k)]
        other = k + 1 if k < SAME_PER_SOURCE - 1 else 0
        same.append(np.stack([more + k, more + other], 1))
    same_pairs = np.concatenate(same)
    per_source = np.minimum(np.where(sources.count == 2, 1, sources.count), SAME_PER_SOURCE)
    pairs, shares = [same_pairs], [1 / per_source[sources.item[same_pairs[:, 0]]] / twice.sum()]

    # Two instances of a source, at most, meet those of other sources.
    used = np.concatenate([first, second[twice]])
    values = torch.from_numpy(sources.values[used])[None]
    owner = sources.item[used]
    ln_lr = _of_later(model, values, owner)
    i, j = np.nonzero(owner[:, None] < owner)
    cost, group = np.sqrt(np.logaddexp(0.0, ln_lr[i, j])), sources.group[owner]
    is_mate = group[i] == group[j]
    for which in (np.flatnonzero(is_mate), np.flatnonzero(~is_mate)):
        chance = _chances(cost[which], DIFFERENT_PER_FOLD)
        kept = which[drawn := rng.random(len(chance)) < chance]
        pairs.append(np.stack([used[i[kept]], used[j[kept]]], 1))
        shares.append(1 / chance[drawn] / max(1, len(which)))
    n_mates = sum(math.comb(int(size), 2) for size in np.bincount(sources.group))
    trace, ref = np.concatenate(pairs).T
    return _Drawn(
        trace,
        ref,
        np.repeat([SAME, MATE, APART], [len(each) for each in pairs]),
        np.concatenate(shares),
        (int(twice.sum()), n_mates, math.comb(len(sources), 2) - n_mates),
    )


def _of_later(model: Robust, values: Tensor, owner: Index) -> Floats:
    """ln LRs of instances (1, instance, feature) against those of sources that come later, (instance, instance)."""
    n, order = len(owner), np.argsort(owner, kind="stable")
    found, values = np.zeros((n, n)), values[:, order].to(model.centre.device)
    with torch.inference_mode():
        for some in pieces(n, -(-n // PARTS_OF_A_DRAW)):
            ln_lr = model.ln_lr(values[:, some], values[:, some.start :])[0]
            found[order[some, None], order[some.start :]] = ln_lr.cpu().numpy()
    return found


def _chances(importance: Floats, expected: float) -> Floats:
    """Probabilities of about ``expected`` draws in all, as proportional to the importance as they can be."""
    n = len(importance)
    if n <= expected:
        return np.ones(n)
    floor = UNIFORM_SHARE * expected / n
    low, high = 0.0, 1e12
    for _ in range(100):
        factor = math.sqrt(max(low, 1e-12) * high)
        chance = np.minimum(1.0, factor * importance + floor)
        low, high = (low, factor) if chance.sum() > expected else (factor, high)
    return chance


def _stack(model: Robust, mates: float, own: Sequence[Sources], drawn: Sequence[_Drawn]) -> HeldOut:
    used = [np.unique(np.stack([each.trace, each.ref]), return_inverse=True) for each in drawn]
    n_folds, n_instances = len(drawn), max(len(rows) for rows, _ in used)
    n_pairs = max(len(each.trace) for each in drawn)
    instances = torch.zeros((n_folds, n_instances, model.projection.shape[-1]), dtype=torch.float64)
    trace, ref, kind = (np.zeros((n_folds, n_pairs), dtype=np.intp) for _ in range(3))
    weight, count = np.zeros((n_folds, n_pairs)), np.zeros((n_folds, n_pairs))
    # Cllr is a mean over folds. Every pair of mates has the same weight in it, whichever fold it is in.
    all_mates = sum(each.n_pairs[MATE] for each in drawn)
    for i, (sources, each) in enumerate(zip(own, drawn, strict=True)):
        rows, number = used[i]  # the instances of the fold that are in a pair, and their new numbers
        with torch.inference_mode():
            instances[i, : len(rows)] = take_runs(model, [i]).project(torch.from_numpy(sources.values[rows])[None])[0]
        n = len(each.trace)
        (trace[i, :n], ref[i, :n]), kind[i, :n] = number.reshape(2, -1), each.kind
        of_mates = mates * n_folds * each.n_pairs[MATE] / max(1, all_mates)
        total = np.array([1.0, of_mates, 1 - mates * (all_mates > 0)])
        weight[i, :n] = each.share * total[each.kind] * 0.5 / math.log(2)
        count[i, :n] = each.share * np.array([0, *each.n_pairs[1:]])[each.kind]
    x, y, same, mate, w, n_for = (torch.from_numpy(a) for a in (trace, ref, kind == SAME, kind == MATE, weight, count))
    traces, refs = (_gather(instances, which) for which in (x, y))
    apart = model.apart(traces, refs)
    return HeldOut(model, instances, x, y, same, mate, w, n_for, mates, (traces + refs) / 2, apart)


def _even(n: int, most: int) -> Index:
    """At most ``most`` of 0 … n − 1, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def ln_parts_held_out(folds: HeldOut, theta: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """ln p(x, y) of the pairs of the folds (fold, pair) under other scalars (scalar,).

    From one source, from sources that are related in each of the ways, and from sources that have nothing in common.
    Densities on the axes; gradients reach the scalars alone.
    """
    base, kernels, theta = folds.model, folds.model.population, theta.to(folds.weight.device)
    basis = base.stabiliser, base.centre, base.projection, base.directions, kernels.var, base.var_related
    each = theta.expand(len(folds.trace), -1)
    model = assemble(each, base.relatedness, base.mates, *basis, kernels.centres, kernels.ln_weights)
    taus = torch.tensor(LN_SCATTER, dtype=theta.dtype, device=theta.device).exp()
    at_instances, at_means = (
        ln_population(model.population, points, model.var_within[:, 0, :1] * taus / n)
        for points, n in ((folds.instances, 1), (folds.middle, 2))
    )
    ln_f = ln_weighted_sum(at_instances, ln_scatter_weights(model.tails.scatter_shape))
    ln_p = model.ln_single(folds.instances, ln_f)
    x, y = (
        Items(1, folds.middle, folds.middle, _gather(ln_f, which), _gather(ln_p, which), torch.zeros_like(folds.weight))
        for which in (folds.trace, folds.ref)
    )
    unit = 2 * model.tails.scatter_shape * (model.var_within / base.var_within)[..., :1]
    ln_h1, ln_mates = model.ln_related(x, y, at_means, folds.apart.times(1 / unit))
    return ln_h1, ln_mates, x.ln_p + y.ln_p


def _gather(values: Tensor, which: Tensor) -> Tensor:
    """Instances (fold, instance, …) by their numbers (fold, pair)."""
    return values.take_along_dim(which[..., None] if values.dim() == 3 else which, 1)


def ln_lr_held_out(parts: tuple[Tensor, list[Tensor], Tensor], relatedness: Tensor, mates: float) -> Tensor:
    """ln LR (fold, pair) from `ln_parts_held_out`, how often sources are related (2, way), and how often they are mates."""
    ln_h1, ln_mates, ln_apart = parts
    related = ((1 - mates) * relatedness[0] + mates * relatedness[-1]).to(ln_h1.device)
    ways = [rho.log() + ln_way for rho, ln_way in zip(related, ln_mates, strict=True)]
    return ln_h1 - ln_sum([torch.log1p(-related.sum()) + ln_apart, *ways])


def learn_relatedness(folds: HeldOut, parts: tuple[Tensor, list[Tensor], Tensor]) -> Tensor:
    """How often two sources of two groups, and two of one, are related in each of the ways (2, way).

    Pairs of different sources are a mixture of unrelated and related ones. With r the probability that a pair is related in a
    way, a Dirichlet prior that counts as so many pairs, and P pairs of held-out sources in all, EM finds the posterior mean

        ρ_c = (prior count + Σ_pairs r_c) / (prior pairs + P).

    p(x, y | H2) is linear in ρ: its mean is what an LR needs that knows of this uncertainty.
    """
    _, ln_ways, ln_apart = parts
    ratio = torch.stack(
        [exp_((ln_way - ln_apart).clamp_max_(600.0)) for ln_way in ln_ways], -1
    ).cpu()  # (fold, pair, way)
    count, mate = folds.count.cpu(), folds.mate.cpu()
    others = _shares(ratio, count * ~mate, PRIOR_RELATED, PRIOR_PAIRS)
    return torch.stack([others, _shares(ratio, count * mate, PRIOR_RELATED_MATES, PRIOR_MATES)])


def _shares(ratio: Tensor, count: Tensor, prior: Tensor, prior_pairs: float) -> Tensor:
    """EM over the pairs that count."""
    ratio, count = ratio[count > 0], count[count > 0]
    rho, total = prior / prior_pairs, prior_pairs + count.sum()
    for _ in range(EM_STEPS if len(count) else 0):
        joint = rho * ratio
        share = joint / ((1 - rho.sum()) + joint.sum(-1, keepdim=True))
        rho = (prior + (count[:, None] * share).sum(0)) / total
    return rho

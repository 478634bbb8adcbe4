"""What the robust model is fitted on: its few scalars, and pairs that a basis has not seen.

*Scalars.* Each is fitted as a logarithm (a probability as log odds) under a normal prior around its start. The priors are weak:
they say what is usual of measurements of sources, and matter where a table is small or silent on a number.

*Pairs.* A basis flatters the sources it was made from: their replicates look closer than those of other sources will. So
sources are dealt into folds (sources of one group together); basis and kernels come from the other folds, and the pairs of a
fold's own instances say how good they are.

Of the many different-source pairs most are hopelessly different and cost nothing. Of each fold, pairs are drawn with a
probability that grows with their cost under the start values, and weighted with its inverse: sums over them are unbiased.

Different sources of one group (windows of one vehicle) teach how alike related sources are. As groups are dealt as a whole, a
fold holds more such pairs than the population does: each counts as often as it would among all sources of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.fitting import Sources
from lindley.models.robust.eigenbasis import Stabiliser, fit_eigenbasis, fit_stabiliser
from lindley.models.robust.model import Robust
from lindley.models.robust.population import Population, ln_population
from lindley.models.robust.tails import LN_SCATTER, Differences, Tails
from lindley.models.two_level import take_runs

__all__ = ["FOLDS", "START", "HeldOut", "assemble", "held_out", "ln_parts_held_out", "ln_prior", "model_of"]


@dataclass(frozen=True)
class Scalar:
    """One number: its start value, and the standard deviation of its prior in the logarithm."""

    name: str
    start: float
    sd: float
    is_probability: bool = False


SCALARS = (
    Scalar("within", 1.0, 0.5),  # variance within sources, in units of the basis's own
    Scalar("width", 0.35, 0.5),  # h
    Scalar("narrow_width", 0.08, 1.0),  # h_n
    Scalar("narrow_weight", 0.1, 1.0, True),  # η
    Scalar("background", 0.1, 1.0, True),  # π
    Scalar("nu", 10.0, 1.0),  # ν
    Scalar("scatter_shape", 6.0, 1.0),  # α
    Scalar("contamination", 0.003, 1.0, True),  # ε
    Scalar("spike", 0.01, 1.5, True),  # σ
    Scalar("second_spike", 0.1, 1.0, True),  # κ
    Scalar("relatedness", 0.001, 1.5, True),  # ρ
    Scalar("variants", 0.1, 1.0, True),  # ψ
    Scalar("batch_var", 0.01, 1.5),  # γ
)
START = torch.tensor(
    [math.log(s.start) - (math.log1p(-s.start) if s.is_probability else 0.0) for s in SCALARS], dtype=torch.float64
)
"""The fitted form of the start values (scalar,)."""
SD = torch.tensor([s.sd for s in SCALARS], dtype=torch.float64)


def ln_prior(theta: Tensor, centre: Tensor = START) -> Tensor:
    """ln of the prior of ``theta`` (…, scalar) around a centre (scalar,), up to a constant."""
    return -0.5 * (((theta - centre) / SD) ** 2).sum(-1)


def values_of(theta: Tensor) -> dict[str, Tensor]:
    """The numbers themselves by name, (run, 1, 1) each, from their fitted form (run, scalar)."""
    return {
        s.name: (torch.sigmoid(theta[:, i]) if s.is_probability else theta[:, i].exp())[:, None, None]
        for i, s in enumerate(SCALARS)
    }


def assemble(
    theta: Tensor,
    stabiliser: Stabiliser,
    centre: Tensor,
    projection: Tensor,
    var_between: Tensor,
    centres: Tensor,
    ln_weights: Tensor,
) -> Robust:
    """A model from scalars, a basis and kernels."""
    value = values_of(theta)
    # W⁻¹ = A Aᵀ: the squared length of a feature's row of A is the inverse of its variance given all others.
    directions = projection / projection.norm(dim=-1, keepdim=True)
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
            **{name: value[name] for name in ("width", "narrow_width", "narrow_weight", "background")},
        ),
        tails=Tails(**{f.name: value[f.name] for f in fields(Tails)}),
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
    weight: Tensor  # (fold, pair); ½/ln 2 for each hypothesis in every fold, 0 for padding

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


def model_of(parts: Sequence[Sources], theta: Tensor, shrinkages: Sequence[float]) -> Robust:
    """Basis and kernels of every set of sources, with its scalars (set, scalar) and its shrinkage of the within matrix."""
    stabilisers = [fit_stabiliser(sources) for sources in parts]
    even = [s(torch.from_numpy(sources.values)[None])[0].numpy() for s, sources in zip(stabilisers, parts, strict=True)]
    parts = [replace(sources, values=values) for sources, values in zip(parts, even, strict=True)]
    bases = [fit_eigenbasis(sources, weight) for sources, weight in zip(parts, shrinkages, strict=True)]
    kernels = [
        basis(sources.means)[_even(len(sources), MOST_KERNELS)] for basis, sources in zip(bases, parts, strict=True)
    ]
    most = max(map(len, kernels))
    centres = np.zeros((len(parts), most, kernels[0].shape[1]))
    ln_weights = np.full((len(parts), most), -np.inf)
    for i, kernel in enumerate(kernels):
        centres[i, : len(kernel)] = kernel
        ln_weights[i, : len(kernel)] = -math.log(len(kernel))
    return assemble(
        theta,
        stabiliser=Stabiliser(
            *(torch.cat([getattr(s, field.name) for s in stabilisers]) for field in fields(Stabiliser))
        ),
        centre=torch.from_numpy(np.stack([b.centre for b in bases])[:, None]),
        projection=torch.from_numpy(np.stack([b.axes for b in bases])),
        var_between=torch.from_numpy(np.stack([b.var_between for b in bases])[:, None]),
        centres=torch.from_numpy(centres),
        ln_weights=torch.from_numpy(ln_weights),
    )


def held_out(sources: Sources, rng: np.random.Generator, shrinkages: Sequence[float]) -> list[HeldOut]:
    """The folds of one run: the same pairs with bases of every shrinkage."""
    others, own = [], []
    fold = deal(sources, rng)
    for k in range(int(fold.max()) + 1):
        inside = sources.take(np.flatnonzero(fold == k))
        if len(inside) < 2 or (inside.count > 1).sum() < 1:
            continue  # no pairs of both kinds
        own.append(inside.take(_even(len(inside), MOST_SOURCES)))
        others.append(sources.take(np.flatnonzero(fold != k)))
    if len(own) < 2:
        raise LindleyError(
            f"the robust model is fitted on folds of sources: {len(sources)} sources, {(sources.count > 1).sum()} of them "
            "measured twice or more, are too few for two folds with pairs of both kinds. Give more sources with replicates."
        )
    models = [model_of(others, START.expand(len(own), -1), [shrinkage] * len(own)) for shrinkage in shrinkages]
    drawn = [_draw(take_runs(models[0], [i]), inside, len(sources), rng) for i, inside in enumerate(own)]
    return [_stack(model, own, drawn) for model in models]


def _draw(model: Robust, sources: Sources, n_sources: int, rng: np.random.Generator) -> tuple[Index, Floats]:
    """Pairs (pair, 3) of trace, ref and whether same-source, and the pairs' weights.

    ``n_sources`` is the number of all sources of the run.
    """
    twice = sources.count > 1
    first, second = sources.first, np.where(twice, sources.first + 1, -1)
    same = [np.stack([first[twice], second[twice]], 1)]
    for k in range(1, SAME_PER_SOURCE):  # 0–1, 1–2 and 2–0 of three; on along the instances of more
        more = sources.first[sources.count > max(2, k)]
        other = k + 1 if k < SAME_PER_SOURCE - 1 else 0
        same.append(np.stack([more + k, more + other], 1))
    same_pairs = np.concatenate(same)
    per_source = np.minimum(np.where(sources.count == 2, 1, sources.count), SAME_PER_SOURCE)
    same_weight = 1 / per_source[sources.item[same_pairs[:, 0]]] / twice.sum()

    # Two instances of a source, at most, meet those of other sources.
    used = np.concatenate([first, second[twice]])
    values = torch.from_numpy(sources.values[used])[None]
    with torch.inference_mode():
        ln_lr = model.ln_lr(values, values)[0].numpy()
    owner = sources.item[used]
    i, j = np.nonzero(owner[:, None] < owner)
    cost = np.sqrt(np.logaddexp(0.0, ln_lr[i, j]))
    chance = _chances(cost, DIFFERENT_PER_FOLD)
    kept = rng.random(len(chance)) < chance
    different_pairs = np.stack([used[i[kept]], used[j[kept]]], 1)
    group = sources.group[owner]
    share = np.where(group[i] == group[j], (len(sources) - 1) / (n_sources - 1), 1.0)
    different_weight = (share / share.sum())[kept] / chance[kept]

    kind = np.repeat([1, 0], [len(same_pairs), len(different_pairs)])
    pairs = np.column_stack([np.concatenate([same_pairs, different_pairs]), kind])
    return pairs, np.concatenate([same_weight, different_weight]) * 0.5 / math.log(2)


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


def _stack(model: Robust, own: Sequence[Sources], drawn: Sequence[tuple[Index, Floats]]) -> HeldOut:
    n_instances = max(len(sources.values) for sources in own)
    n_pairs = max(len(p) for p, _ in drawn)
    instances = torch.zeros((len(drawn), n_instances, model.projection.shape[-1]), dtype=torch.float64)
    pairs = torch.zeros((len(drawn), n_pairs, 3), dtype=torch.int64)
    weight = torch.zeros((len(drawn), n_pairs), dtype=torch.float64)
    for i, (sources, (p, w)) in enumerate(zip(own, drawn, strict=True)):
        values = torch.from_numpy(sources.values)[None]
        with torch.inference_mode():
            instances[i, : values.shape[1]] = take_runs(model, [i]).project(values)[0]
        pairs[i, : len(p)] = torch.from_numpy(p)
        weight[i, : len(p)] = torch.from_numpy(w)
    return HeldOut(model, instances, pairs[..., 0], pairs[..., 1], pairs[..., 2].bool(), weight)


def _even(n: int, most: int) -> Index:
    """At most ``most`` of 0 … n − 1, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def ln_parts_held_out(folds: HeldOut, model: Robust) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of the pairs of the folds (fold, pair) under a model with other scalars.

    Densities on the axes; gradients reach the scalars alone.
    """
    x, y = (folds.instances.take_along_dim(which[..., None], 1) for which in (folds.trace, folds.ref))
    ln_f = model.tails.ln_seen(
        [ln_population(model.population, folds.instances, math.exp(u) * model.var_within) for u in LN_SCATTER]
    )
    ln_p = model.ln_single(folds.instances, ln_f, 1)
    ln_fz = [ln_population(model.population, (x + y) / 2, math.exp(u) * model.var_within / 2) for u in LN_SCATTER]
    return model.ln_pair(
        Differences.of_given(x, y, model.directions, model.var_within),
        1,
        1,
        (ln_fz, ln_f.gather(1, folds.trace), ln_f.gather(1, folds.ref)),
        (ln_p.gather(1, folds.trace), ln_p.gather(1, folds.ref)),
    )

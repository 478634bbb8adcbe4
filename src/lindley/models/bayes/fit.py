"""Fit the full Bayesian two-level model: draws of the mean and the covariances from their posterior.

    x_ij | θ_i ~ N(θ_i, W)      instance j of source i, n_i of them; one is enough
    θ_i ~ N(μ, B),  μ ~ flat

    W | a ~ IW(ν + p − 1, 2 ν diag(1/a)),   a_l ~ InvGamma(½, 1/A_l²),   ν = 2,     and B likewise, with scales of its own

for p features. This inverse Wishart law with scales of its own (Huang and Wand 2013, Bayesian Anal. 8, 439) is weak: every
correlation is uniform, and every standard deviation is half-t with 2 degrees of freedom and scale A_l, which is flat below A_l.
A_l is ten times the feature's standard deviation over all instances, so the units of a feature do not matter.

The LR of a case is the ratio of posterior predictive densities,

    LR = ∫ p(x, y | H1, μ, B, W) π(μ, B, W | data) / ∫ p(x, y | H2, μ, B, W) π(μ, B, W | data),

an average of two-level models over draws (`averaged`). So few sources make for modest LRs, with no calibration.

Draws come from a Gibbs sampler. With A the axes on which Aᵀ W A = 1 and Aᵀ B A = diag(λ), where source means are x̃_i:

    μ̃ | W, B       ~ N(Σ_i w_i x̃_i / Σ_i w_i, 1 / Σ_i w_i),   w_i = n_i/(1 + n_i λ)       per axis, all θ_i integrated out
    θ̃_i | μ, W, B  ~ N(μ̃ + λ w_i (x̃_i − μ̃), λ/(1 + n_i λ))
    B | θ, μ, a    ~ IW(ν + p − 1 + m, 2 ν diag(1/a) + Σ_i (θ_i − μ)(θ_i − μ)ᵀ)
    W | θ, a       ~ IW(ν + p − 1 + Σ n_i, 2 ν diag(1/a) + S + Σ_i n_i (x̄_i − θ_i)(x̄_i − θ_i)ᵀ)
    1/a_l | W      ~ Gamma((ν + p)/2, rate 1/A_l² + ν (W⁻¹)_ll)                            and so for B

for m sources, S being the scatter of instances around the means of their sources.

Of many sources the sums over θ_i are drawn as a whole, which is as exact and takes no time that grows with m. Of M sources
with n instances each, D has the rows x̃_i − μ̃ and E rows of standard normal numbers, so that on the axes θ̃_i − μ̃ are the rows of
D g + E c with g = λn/(1 + nλ) and c² = λ/(1 + nλ). With DᵀD = R Rᵀ,

    DᵀE = R Z,   EᵀE = ZᵀZ + Wishart(M − p, 1),   Z (p, p) standard normal,

as an orthonormal basis of D sees as many normal numbers in E, and what is left of E is independent of them.

`CHAINS` chains start apart. Where they do
not agree after a number of sweeps, by R̂, they run on for twice that number, in up to `ROUNDS` rounds; the last one is kept.
Directions in which sources hardly differ, λ ≪ 1, are the slow ones. With the chains cut in halves, W the mean variance inside a
half of n draws and B/n the variance of the halves' means,

    R̂ = √[((n − 1)/n · W + B/n) / W]

is near one if the halves agree (Gelman et al. 2013, *Bayesian Data Analysis*, 11.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.bayes.averaged import Averaged
from lindley.models.between import NormalBetween
from lindley.models.fitting import Fitted, Sources, Task, refittable, tell
from lindley.models.two_level import TwoLevel, take_runs
from lindley.table.splits import Part

__all__ = ["ConvergenceWarning", "Posterior", "fit", "fit_full_bayes", "sample_posterior"]

LARGEST_R_HAT = 1.05


class ConvergenceWarning(UserWarning):
    """Markov chains that do not agree with one another."""


def split_r_hat(chains: NDArray[np.float64]) -> float:
    """R̂ of chains (chain, draw), each cut in halves."""
    n = chains.shape[1] // 2
    if n < 2:
        raise ValueError(f"chains of {chains.shape[1]} draws are too short: 4 are the least")
    halves = np.concatenate([chains[:, :n], chains[:, -n:]])
    inside = max(float(halves.var(axis=1, ddof=1).mean()), np.finfo(np.float64).tiny)  # even if nothing moves
    together = (n - 1) / n * inside + float(halves.mean(axis=1).var(ddof=1))
    return float(np.sqrt(together / inside))


def warn_once(found: Sequence[Mapping[str, float]]) -> None:
    """One `ConvergenceWarning` for all runs in which a watched quantity has an R̂ above `LARGEST_R_HAT`."""
    worst = [max((value, name) for name, value in r_hat.items()) for r_hat in found]
    bad = [each for each in worst if each[0] > LARGEST_R_HAT]
    if bad:
        where = "" if len(found) == 1 else f" in {len(bad)} of {len(found)} splits"
        value, name = max(bad)
        tell(
            ConvergenceWarning(
                f"the chains of the posterior of the two-level model do not agree{where}: R-hat is {value:.2f} for {name}, "
                f"where {LARGEST_R_HAT} is the most. Take the LRs with caution, or give more sources."
            ),
            stacklevel=3,
        )


DRAWS = 400
"""A finite number of draws leaves LRs a little too bold: on six splits of two tables Cllr was 0.185 and 0.417 with 50 draws,
0.181 and 0.386 with 200, 0.175 and 0.376 with 400, and 0.174 and 0.364 with 1600."""
CHAINS = 4
BURN_IN = 300
"""Sweeps of every chain that are thrown away."""
THIN = 10
"""Of as many sweeps, one is kept; of twice as many in every further round."""
ROUNDS = 4
NU = 2.0
SCALE = 10.0
"""A_l in standard deviations of the feature."""
MANY, MANY_PER_FEATURE = 5000, 4
"""Sources of equally many instances from which on their θ are drawn as a whole, and so many for every feature."""
RESOLUTION = 1e-10
"""Variance within sources, in units of the feature's, that is added to what was seen: features may be copies of one another."""
START_FREEDOM = 5.0
"""Chains start at inverse Wishart draws around simple estimates, with that many degrees of freedom more than they need."""
STREAM = 7
"""Keeps these random numbers apart from others of the same seed."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of one run, in the features."""

    mean: Floats  # μ (draw, feature)
    within: Floats  # W (draw, feature, feature)
    between: Floats  # B (draw, feature, feature)
    r_hat: dict[str, float]  # of every watched quantity


def fit(task: Task) -> Fitted:
    """The full Bayesian normal model of every run. It has no options."""
    return refittable(lambda t: fit_full_bayes(t.learn, t.seeds, progress=t.count), task)


def fit_full_bayes(
    parts: Sequence[Part], seeds: Sequence[int], draws: int = DRAWS, progress: Callable[[int], None] = lambda runs: None
) -> Averaged:
    """The full Bayesian normal model of every run, from the part that it may learn from.

    Args:
        parts: one per run.
        seeds: one per run. A run does not depend on the others.
        draws: kept in all, over all chains.
        progress: called with the number of runs that are done.

    Raises:
        LindleyError: if a run has fewer than two sources, none measured twice, or values that are not finite.
    """
    if len(parts) != len(seeds):
        raise ValueError(f"{len(parts)} runs got {len(seeds)} seeds")
    r_hat, typical, members = [], [], []
    for run, (part, seed) in enumerate(zip(parts, seeds, strict=True)):
        sources = Sources.of(part.values, part.source)
        found = sample_posterior(sources, np.random.default_rng((seed, STREAM)), draws)
        r_hat.append(found.r_hat)
        of_draws = found.mean, found.within, found.between
        members.append(_two_level(*of_draws))
        typical.append(_two_level(*(each.mean(0, keepdims=True) for each in of_draws)))
        progress(run + 1)
    warn_once(r_hat)
    weights = torch.zeros(len(r_hat), draws, dtype=torch.float64).log_softmax(-1)
    every = tuple(_runs([take_runs(of_run, [k]) for of_run in members]) for k in range(draws))
    return Averaged(_runs(typical), every, weights)


def _runs(models: Sequence[TwoLevel]) -> TwoLevel:
    """Models of one run each as one."""
    centre, axes = torch.cat([m.centre for m in models]), torch.cat([m.projection for m in models])
    mean, var = (torch.cat(each) for each in zip(*(m.between_moments() for m in models), strict=True))
    ones = torch.ones_like(var)
    return TwoLevel(centre, axes, ones, ones, NormalBetween(mean, var))


def _two_level(mean: Floats, within: Floats, between: Floats) -> TwoLevel:
    """The model with these parameters (run, …), on the axes that make both covariances diagonal."""
    var_between, axes, _ = _eigenbasis(within, between)
    var = torch.from_numpy(var_between[:, None])
    law = NormalBetween(torch.zeros_like(var), var)
    ones = torch.ones_like(var)
    return TwoLevel(torch.from_numpy(mean[:, None]), torch.from_numpy(axes), ones, ones, law)


def sample_posterior(sources: Sources, rng: np.random.Generator, draws: int = DRAWS) -> Posterior:
    """Draws of (μ, W, B) given one set of sources."""
    if draws < CHAINS:
        raise ValueError(f"{CHAINS} draws are the least, one of each chain: got {draws}")
    sources.require_replicates()
    if not np.isfinite(sources.values).all():
        raise LindleyError("the full Bayesian model needs finite values")
    data = _Data.of(sources)
    state = _start(data, rng)
    for _ in range(BURN_IN):
        state = _sweep(data, state, rng)[1]
    for thin in (THIN * 2**k for k in range(ROUNDS)):
        kept, r_hat, state = _round(data, state, rng, -(-draws // CHAINS), thin)
        if max(r_hat.values()) <= LARGEST_R_HAT:
            break
    mean, within, between = (
        np.concatenate([getattr(draw, name) for draw in kept])[:draws] for name in ("mean", "within", "between")
    )
    unit2 = np.outer(data.unit, data.unit)
    return Posterior(data.centre + mean * data.unit, within * unit2, between * unit2, r_hat)


def _round(
    data: _Data, state: _State, rng: np.random.Generator, per_chain: int, thin: int
) -> tuple[list[_Draw], dict[str, float], _State]:
    """So many draws of every chain, R̂ of what is watched over all sweeps, and where the chains are."""
    kept, watched = [], []
    for sweep in range(thin * per_chain):
        draw, state = _sweep(data, state, rng)
        watched.append(draw.watched())
        if sweep % thin == thin - 1:
            kept.append(draw)
    series = np.stack(watched, -1)  # (quantity, chain, sweep)
    return kept, {name: split_r_hat(chains) for name, chains in zip(_WATCHED, series, strict=True)}, state


@dataclass(frozen=True, eq=False)
class _Many:
    """Sources of equally many instances, by what the sums over them depend on."""

    number: int  # M
    count: float  # n, instances of each
    total: Floats  # Σ x̄ (feature,)
    products: Floats  # Σ x̄ x̄ᵀ (feature, feature)


@dataclass(frozen=True, eq=False)
class _Data:
    """What the posterior depends on, in units of the features' standard deviations."""

    means: Floats  # x̄ of the sources that are drawn one by one (source, feature)
    count: Floats  # n (source, 1)
    many: tuple[_Many, ...]  # all others
    scatter: Floats  # S (feature, feature)
    freedom: int  # of S
    centre: Floats  # (feature,), in the units of the table
    unit: Floats  # (feature,)

    @classmethod
    def of(cls, sources: Sources) -> _Data:
        centre, unit = sources.values.mean(axis=0), sources.values.std(axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        contrasts = sources.contrasts()[0] / unit
        scatter = contrasts.T @ contrasts + len(contrasts) * RESOLUTION * np.eye(len(unit))
        means = (sources.means - centre) / unit
        one_by_one, many = np.ones(len(means), dtype=np.bool_), []
        counts, numbers = np.unique(sources.count, return_counts=True)
        for n in counts[numbers >= max(MANY, MANY_PER_FEATURE * len(unit))]:
            alike = sources.count == n
            x = means[alike]
            many.append(_Many(len(x), float(n), x.sum(axis=0), x.T @ x))
            one_by_one &= ~alike
        count = sources.count[one_by_one, None].astype(np.float64)
        return cls(means[one_by_one], count, tuple(many), scatter, len(contrasts), centre, unit)

    @property
    def n_sources(self) -> int:
        return len(self.count) + sum(each.number for each in self.many)

    @property
    def n_instances(self) -> float:
        return float(self.count.sum()) + sum(each.number * each.count for each in self.many)

    @property
    def products(self) -> Floats:
        """Σ x̄ x̄ᵀ of all sources."""
        return self.means.T @ self.means + sum(each.products for each in self.many)


@dataclass(frozen=True, eq=False)
class _State:
    """W and B of all chains, and the diagonals of their prior scales 2ν diag(1/a)."""

    within: Floats  # (chain, feature, feature)
    between: Floats
    scale_within: Floats  # (chain, feature)
    scale_between: Floats


_WATCHED = ("ln|W|", "ln|B|", "tr W", "tr B", "information")


@dataclass(frozen=True, eq=False)
class _Draw:
    """A draw of every chain."""

    mean: Floats  # (chain, feature)
    within: Floats
    between: Floats
    var_between: Floats  # λ (chain, axis)

    def watched(self) -> Floats:
        """ln |W|, ln |B|, their traces, and ½ Σ ln(1 + λ), which is what the LR of a match grows with: (quantity, chain)."""
        ln_within = np.linalg.slogdet(self.within).logabsdet
        return np.stack(
            [
                ln_within,
                ln_within + np.log(np.maximum(self.var_between, np.finfo(np.float64).tiny)).sum(-1),
                np.trace(self.within, axis1=1, axis2=2),
                np.trace(self.between, axis1=1, axis2=2),
                0.5 * np.log1p(self.var_between).sum(-1),
            ]
        )


def _start(data: _Data, rng: np.random.Generator) -> _State:
    """Chains apart from one another."""
    p = data.means.shape[1]
    moments = data.scatter / data.freedom, data.products / data.n_sources
    freedom = p + 1 + START_FREEDOM
    covariances, scales = [], []
    for moment in moments:
        regular = 0.5 * (moment + np.diag(moment.diagonal() + RESOLUTION))
        drawn, inverse = _inverse_wishart(rng, freedom, np.repeat(START_FREEDOM * regular[None], CHAINS, 0))
        covariances.append(drawn)
        scales.append(_prior_scale(rng, inverse))
    return _State(covariances[0], covariances[1], scales[0], scales[1])


def _sweep(data: _Data, state: _State, rng: np.random.Generator) -> tuple[_Draw, _State]:
    """The mean, for the covariances of the state; then all source means, and covariances and scales anew."""
    var_between, axes, back = _eigenbasis(state.within, state.between)
    p, lam, n = data.means.shape[1], var_between[:, None], data.count
    x = data.means @ axes  # (chain, source, axis)
    spread = 1 / (1 + n * lam)
    weight = n * spread
    precision, weighted = weight.sum(1, keepdims=True), (weight * x).sum(1, keepdims=True)
    for each in data.many:
        of_each = each.count / (1 + each.count * lam)
        precision, weighted = precision + each.number * of_each, weighted + of_each * (each.total @ axes)[:, None]
    mean = weighted / precision + rng.standard_normal(precision.shape) / np.sqrt(precision)
    x -= mean
    theta = lam * weight * x + np.sqrt(lam * spread) * rng.standard_normal(x.shape)  # from μ
    x -= theta
    squares, rest = theta.swapaxes(-1, -2) @ theta, (n * x).swapaxes(-1, -2) @ x
    for each in data.many:
        of_theta, of_rest = _draw_sums(rng, each, axes, lam, mean)
        squares, rest = squares + of_theta, rest + each.count * of_rest
    back_t = back.swapaxes(-1, -2)
    of_between = back_t @ squares @ back
    of_within = back_t @ rest @ back + data.scatter
    freedom = NU + p - 1 + data.n_sources, NU + p - 1 + data.n_instances
    between, inverse_between = _inverse_wishart(rng, freedom[0], of_between + _diagonal(state.scale_between))
    within, inverse_within = _inverse_wishart(rng, freedom[1], of_within + _diagonal(state.scale_within))
    draw = _Draw((mean @ back)[:, 0], state.within, state.between, var_between)
    return draw, _State(within, between, _prior_scale(rng, inverse_within), _prior_scale(rng, inverse_between))


def _draw_sums(rng: np.random.Generator, many: _Many, axes: Floats, lam: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Σ (θ̃ − μ̃)(θ̃ − μ̃)ᵀ and Σ (x̃ − θ̃)(x̃ − θ̃)ᵀ of the sources of one kind, (chain, axis, axis); as in the module."""
    chains, _, p = lam.shape
    total = (many.total @ axes)[:, None]
    crossed = total.swapaxes(-1, -2) @ mean
    deviations = axes.swapaxes(-1, -2) @ many.products @ axes + many.number * mean.swapaxes(-1, -2) @ mean
    deviations -= crossed + crossed.swapaxes(-1, -2)  # DᵀD
    length, turn = np.linalg.eigh(deviations)
    root = turn * np.sqrt(np.maximum(length, 0.0))[:, None]  # R
    normal = rng.standard_normal((chains, p, p))  # Z
    left = _bartlett(rng, many.number - p, chains, p)
    noise = np.sqrt(lam / (1 + many.count * lam))  # c
    of_noise = (normal.swapaxes(-1, -2) @ normal + left @ left.swapaxes(-1, -2)) * noise * noise.swapaxes(-1, -2)
    both = root @ normal * noise  # DᵀE c
    drawn = many.count * lam / (1 + many.count * lam)  # g

    def squares(of_mean: Floats, sign: float) -> Floats:
        crossed = sign * of_mean.swapaxes(-1, -2) * both
        found: Floats = deviations * of_mean * of_mean.swapaxes(-1, -2) + crossed + crossed.swapaxes(-1, -2) + of_noise
        return found

    return squares(drawn, 1.0), squares(1 - drawn, -1.0)


def _eigenbasis(within: Floats, between: Floats) -> tuple[Floats, Floats, Floats]:
    """λ (…, axis), A with Aᵀ W A = 1 and Aᵀ B A = diag(λ) (…, feature, axis), and A⁻¹."""
    root = _cholesky(within)
    inverse = np.linalg.inv(root)
    var_between, turn = np.linalg.eigh(inverse @ between @ inverse.swapaxes(-1, -2))
    back = (root @ turn).swapaxes(-1, -2)
    return np.maximum(var_between, 0.0), inverse.swapaxes(-1, -2) @ turn, back


def _inverse_wishart(rng: np.random.Generator, freedom: float, scale: Floats) -> tuple[Floats, Floats]:
    """Draws of IW(freedom, scale) (chain, feature, feature), and the diagonals of their inverses (chain, feature).

    With scale = L Lᵀ and Bartlett's T, T Tᵀ ~ Wishart(freedom, 1), the draw is L T⁻ᵀ T⁻¹ Lᵀ.
    """
    chains, p, _ = scale.shape
    root = _cholesky(scale)
    factor = root @ np.linalg.inv(_bartlett(rng, freedom, chains, p)).swapaxes(-1, -2)
    inverse = np.linalg.inv(factor)
    return factor @ factor.swapaxes(-1, -2), (inverse**2).sum(1)


def _bartlett(rng: np.random.Generator, freedom: float, chains: int, p: int) -> Floats:
    """Lower triangles T (chain, p, p) with T Tᵀ ~ Wishart(freedom, 1)."""
    below, at, _ = _places(p)
    triangle: Floats = np.where(below, rng.standard_normal((chains, p, p)), 0.0)
    triangle[:, at, at] = np.sqrt(rng.chisquare(freedom - at, (chains, p)))
    return triangle


@cache
def _places(p: int) -> tuple[NDArray[np.bool_], NDArray[np.int64], Floats]:
    """Of p × p matrices: what is below the diagonal, the diagonal, and the identity; a sampler asks ten thousands of times."""
    return np.tri(p, k=-1, dtype=np.bool_), np.arange(p), np.eye(p)


def _cholesky(matrix: Floats) -> Floats:
    try:
        return cast(Floats, np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError as error:
        raise LindleyError(
            "the full Bayesian model came upon a covariance matrix that cannot be inverted. Are features functions of others?"
        ) from error


def _prior_scale(rng: np.random.Generator, inverse: Floats) -> Floats:
    """2ν/a given the diagonal of the inverse covariance (chain, feature)."""
    rate = 1 / SCALE**2 + NU * inverse
    return 2 * NU * rng.gamma((NU + inverse.shape[1]) / 2, size=inverse.shape) / rate


def _diagonal(values: Floats) -> Floats:
    return values[..., None] * _places(values.shape[-1])[2]

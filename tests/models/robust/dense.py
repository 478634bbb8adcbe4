"""The robust model once more, slowly: one pair, all of its instances, with dense covariance matrices and nothing shared.

Straight from the equations of `lindley.models.robust`. Instances go to contrasts by Helmert's matrix; what is off is a
Student-t density with a covariance matrix of all contrasts × axes; sums over scatters, kernels, features and scales are loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg

from lindley.models.robust.model import Robust

__all__ = ["Dense", "all_pairs", "all_parts"]

Floats = NDArray[np.float64]
USUAL = tuple(math.exp(-1.4 + 1.1 * q) for q in range(5))
"""τ of an item."""
GROSS = tuple(math.exp(u) for u in (3.5, 5.8, 8.1))
OFF = tuple(2 * (10.0**k - 1) for k in range(1, 5))
"""k of a contamination."""
SPIKES = (2 * 29.0, 2 * 999.0)
WORST = 2 * 999.0
BATCHES = (0.002, 0.02, 0.2)


@cache
def helmert(number: int) -> Floats:
    """Helmert's matrix, which takes instances to their contrasts."""
    return np.asarray(linalg.helmert(number))


def logsumexp(terms: Sequence[float] | Floats) -> float:
    """ln Σ exp(term), as SciPy's, which takes twenty times as long for the few terms that there are here."""
    most = max(terms)
    return float(most + np.log(np.exp(np.asarray(terms) - most).sum())) if math.isfinite(most) else float(most)


def ln_t(x: Floats, covariance: Floats, freedom: float) -> float:
    """Multivariate Student-t around zero."""
    p = len(x)
    if p == 0:
        return 0.0
    square = x @ np.linalg.solve(covariance, x)
    constant = math.lgamma((freedom + p) / 2) - math.lgamma(freedom / 2) - 0.5 * p * math.log(freedom * math.pi)
    return float(constant - 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * (freedom + p) * np.log1p(square / freedom))


def ln_normal(x: Floats, var: Floats) -> float:
    return float(-0.5 * (x**2 / var + np.log(2 * math.pi * var)).sum())


def ln_mean(terms: Sequence[float]) -> float:
    return float(logsumexp(terms) - math.log(len(terms)))


def log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


@dataclass(frozen=True, eq=False)
class Seen:
    """Instances (instance, axis) of an item, none of them off, with the scatters that it may have."""

    values: Floats
    scatters: tuple[float, ...]
    ln_weights: Floats

    @property
    def number(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> Floats:
        return self.values.mean(0)


class Dense:
    """Run ``run`` of a model."""

    def __init__(self, model: Robust, run: int = 0) -> None:
        law, tails = model.population, model.tails
        self.u: Floats = model.directions[run].detach().numpy()
        self.w: Floats = model.var_within[run, 0].detach().numpy()
        self.lam: Floats = law.var[run, 0].detach().numpy()
        self.weights: Floats = law.ln_weights[run].detach().exp().numpy()
        h = float(law.width[run])
        self.kernels: Floats = math.sqrt(1 - h**2) * law.centres[run].detach().numpy()
        self.var_related: Floats = model.var_related[run, 0].detach().numpy()
        self.var_kernel: Floats = h**2 * self.lam
        self.pi, self.nu, self.alpha = float(law.background[run]), float(tails.nu[run]), float(tails.scatter_shape[run])
        self.eps, self.sigma, self.kappa = (
            float(t[run]) for t in (tails.contamination, tails.spike, tails.second_spike)
        )
        others, mates = model.relatedness[run].detach().numpy()
        share = float(model.mates[run, 0, 0])
        self.rho: Floats = (1 - share) * others + share * mates
        ln_omega = np.array([-self.alpha * math.log(t) - self.alpha / t for t in USUAL])
        self.ln_omega: Floats = ln_omega - logsumexp(ln_omega)
        self.known: dict[Seen, float] = {}

    # Where sources are.

    def ln_f(self, x: Floats, error: Floats) -> float:
        kernels = [
            log(weight) + ln_normal(x - mu, self.var_kernel + error)
            for weight, mu in zip(self.weights, self.kernels, strict=True)
        ]
        broad = ln_t(x, np.diag(self.lam + error), 3.0)
        return float(np.logaddexp(log(1 - self.pi) + logsumexp(kernels), log(self.pi) + broad))

    def ln_f_of(self, item: Seen) -> float:
        """ln f(x) in the mean over the scatters of an item."""
        terms = [
            w + self.ln_f(item.mean, t * self.w / item.number)
            for t, w in zip(item.scatters, item.ln_weights, strict=True)
        ]
        return float(logsumexp(terms))

    # One item.

    def usual(self, values: Floats) -> Seen:
        return Seen(values, USUAL, self.ln_omega)

    def gross(self, values: Floats) -> Seen:
        return Seen(values, GROSS, np.full(3, -math.log(3)))

    def ln_contrasts(self, item: Seen) -> list[float]:
        """ln t of the contrasts of an item, for every scatter."""
        contrasts = helmert(item.number) @ item.values
        return [
            sum(ln_t(contrasts[:, axis], t * w * np.eye(item.number - 1), self.nu) for axis, w in enumerate(self.w))
            for t in item.scatters
        ]

    def ln_p(self, item: Seen) -> float:
        if item not in self.known:
            self.known[item] = self._ln_p(item)
        return self.known[item]

    def _ln_p(self, item: Seen) -> float:
        if item.number == 1:
            return self.ln_single(item.values[0])
        terms = [
            weight + of_contrasts + self.ln_f(item.mean, t * self.w / item.number)
            for weight, of_contrasts, t in zip(item.ln_weights, self.ln_contrasts(item), item.scatters, strict=True)
        ]
        return float(logsumexp(terms))

    def ln_within(self, item: Seen) -> float:
        """ln p(S)."""
        return float(logsumexp(item.ln_weights + np.array(self.ln_contrasts(item)))) if item.number > 1 else 0.0

    def chances(self, number: float) -> tuple[float, float, float]:
        usual = 1 - self.eps / 4 - self.sigma / 2
        total = usual + number * (self.eps / 4 + self.sigma / 2)
        return usual / total, self.eps / 4 / total, self.sigma / 2 / total

    def ln_single(self, x: Floats) -> float:
        usual, one, spike = self.chances(1)
        near = np.diag(self.lam + self.w)
        far = ln_mean([ln_t(x, near + k * np.diag(self.w), 3.0) for k in OFF])
        root = np.sqrt(self.w)
        spiked = ln_mean([ln_t(x, near + k * np.outer(root * u, root * u), 3.0) for u in self.u for k in SPIKES])
        terms = [log(usual) + self.ln_f_of(self.usual(x[None])), log(one) + far, log(spike) + spiked]
        return float(logsumexp(terms))

    # What is off, of any instances: densities of all orthonormal contrasts × axes.

    def ln_contaminated(self, values: Floats, off: Sequence[int]) -> float:
        contrasts, moved = self._contrasts(values, off)
        shape = np.eye(len(contrasts))
        return ln_mean(
            [
                ln_t(contrasts.ravel(), np.kron(shape + k * np.outer(moved, moved), np.diag(self.w)), 2 * self.alpha)
                for k in OFF
            ]
        )

    def ln_spiked(self, values: Floats, off: Sequence[int], *, every_pair: bool = False) -> float:
        """With the pair of features that explains most, one after the other, or with all of them."""
        contrasts, moved = self._contrasts(values, off)
        plain = np.kron(np.eye(len(contrasts)), np.diag(self.w))
        along = [np.outer(v, v) for v in (np.kron(moved, np.sqrt(self.w) * u) for u in self.u)]
        x, n = contrasts.ravel(), len(self.u)
        single = ln_mean([ln_t(x, plain + k * s, 2 * self.alpha) for s in along for k in SPIKES])
        if n == 1:
            return single
        left = [x @ np.linalg.solve(plain + WORST * s, x) for s in along]
        pairs = [(f, g) for f in range(n) for g in range(n) if g != f]
        if not every_pair:
            f = int(np.argmin(left))
            rest = [
                np.inf if g == f else x @ np.linalg.solve(plain + WORST * (along[f] + s), x)
                for g, s in enumerate(along)
            ]
            pairs = [(f, int(np.argmin(rest)))]
        double = [ln_t(x, plain + WORST * along[f] + k * along[g], 2 * self.alpha) for f, g in pairs for k in SPIKES]
        ln_double = logsumexp(double) - math.log(2 * n * (n - 1))
        return float(np.logaddexp(log(1 - self.kappa) + single, log(self.kappa) + ln_double))

    def _contrasts(self, values: Floats, off: Sequence[int]) -> tuple[Floats, Floats]:
        """The contrasts, and how an offset of one moves them."""
        turn, e = helmert(len(values)), np.zeros(len(values))
        e[list(off)] = 1
        return turn @ values, turn @ e

    # Two items of one source, or of related ones.

    def ln_clean(self, x: Seen, y: Seen, *, of_squares: bool = False) -> float:
        """ln g of z, δ and the contrasts of each item; or of these contrasts alone."""
        m, n = x.number, y.number
        z, delta = (m * x.mean + n * y.mean) / (m + n), x.mean - y.mean
        if m == n == 1:
            return self._ln_clean_singles(z, delta)
        turn = np.zeros((m + n - 1, m + n))
        turn[: m - 1, :m], turn[m - 1 : m + n - 2, m:] = helmert(m), helmert(n)
        turn[-1] = np.r_[np.full(m, 1 / m), np.full(n, -1 / n)]
        if of_squares:
            turn = turn[:-1]
        contrasts = turn @ np.concatenate([x.values, y.values])
        terms = []
        for t_x, w_x in zip(x.scatters, x.ln_weights, strict=True):
            for t_y, w_y in zip(y.scatters, y.ln_weights, strict=True):
                shape = turn @ np.diag(np.r_[np.full(m, t_x), np.full(n, t_y)]) @ turn.T
                term = w_x + w_y + sum(ln_t(contrasts[:, a], w * shape, self.nu) for a, w in enumerate(self.w))
                if not of_squares:
                    of_mean = (m + n) / (m / t_x + n / t_y)
                    nearest = min(USUAL, key=lambda t: abs(math.log(t / of_mean)))
                    term += self.ln_f(z, nearest * self.w / (m + n))
                terms.append(term)
        return float(logsumexp(terms))

    def _ln_clean_singles(self, z: Floats, delta: Floats) -> float:
        """The mean of two scatters is shared out over the nodes next to it, evenly in the logarithm."""
        weights = np.zeros(5)
        for a, w_a in zip(USUAL, self.ln_omega, strict=True):
            for b, w_b in zip(USUAL, self.ln_omega, strict=True):
                at = (math.log((a + b) / 2) + 1.4) / 1.1
                below = min(int(at + 1e-9), 3)
                weights[below : below + 2] += math.exp(w_a + w_b) * np.array([1 - (at - below), at - below])
        terms = [
            log(weight)
            + sum(ln_t(delta[[a]], np.array([[2 * t * w]]), self.nu) for a, w in enumerate(self.w))
            + self.ln_f(z, t * self.w / 2)
            for t, weight in zip(USUAL, np.maximum(weights, 0), strict=True)
        ]
        return float(logsumexp(terms))

    def ln_h1_h2(self, x: Seen, y: Seen) -> tuple[float, float]:
        m, n, p = x.number, y.number, len(self.w)
        values, of_x = np.concatenate([x.values, y.values]), range(m)
        together = 1 / m + 1 / n
        unit = -0.5 * p * math.log(together)  # from orthonormal contrasts to δ and those of each item
        share_x, share_y = 0.1 ** (m - 1), 0.1 ** (n - 1)
        usual, one, spike = self.chances(share_x + share_y)
        f_x, f_y = self.ln_f_of(x), self.ln_f_of(y)
        elsewhere = float(np.logaddexp(log(share_x) + f_y, log(share_y) + f_x))
        spiked = self.ln_spiked(values, of_x) + unit
        contaminated = self.ln_contaminated(values, of_x) + unit
        clean, ln_within = self.ln_clean(x, y), self.ln_within(x) + self.ln_within(y)
        if m + n > 2:
            inside = np.concatenate([helmert(k.number) @ k.values for k in (x, y) if k.number > 1])
            off_squares = ln_t(inside.ravel(), np.kron(np.eye(len(inside)), np.diag(self.w)), 2 * self.alpha)
            clean -= self.ln_clean(x, y, of_squares=True)
            spiked, contaminated = spiked - off_squares, contaminated - off_squares
        off = [log(one) + contaminated + elsewhere, log(spike) + spiked + elsewhere]
        ln_h1 = float(logsumexp([log(usual) + clean, *off])) + ln_within

        z, delta = (m * x.mean + n * y.mean) / (m + n), x.mean - y.mean
        ln_z = logsumexp([o + self.ln_f(z, t * self.w / (m + n)) for o, t in zip(self.ln_omega, USUAL, strict=True)])
        scale = self.ln_typical_scatter(x) / m + self.ln_typical_scatter(y) / n
        batches = [
            sum(ln_t(delta[[a]], np.array([[scale * self.w[a] + j * self.var_related[a]]]), self.nu) for a in range(p))
            for j in BATCHES
        ]
        variant = spiked + float(np.logaddexp(f_x, f_y)) - math.log(2)
        mates = [ln_h1, *(ln_within + ln_z + b for b in batches), ln_within + variant]
        apart = log(1 - self.rho.sum()) + self.ln_p(x) + self.ln_p(y)
        return ln_h1, float(logsumexp([apart, *(log(r) + mate for r, mate in zip(self.rho, mates, strict=True))]))

    def ln_typical_scatter(self, item: Seen) -> float:
        """exp E[ln τ | S]; one of a single instance."""
        if item.number == 1:
            return 1.0
        ln_weight = item.ln_weights + np.array(self.ln_contrasts(item))
        return math.exp(np.exp(ln_weight - logsumexp(ln_weight)) @ np.log(item.scatters))

    # What of an item may be off.

    def views(self, values: Floats, *, every_subset: bool = False) -> list[tuple[Seen, float]]:
        """The instances (instance, axis) that are not off, and ln p(item, the others are).

        Those that are off are the first or the last along the direction of the largest scatter, or any subset.
        """
        m = len(values)
        if m == 1:
            return [(self.usual(values), self.ln_single(values[0]))]
        usual, one, spike = self.chances(2 * m - 2)
        found = [(self.usual(values), log((1 - self.eps / 2) * usual) + self.ln_p(self.usual(values)))]
        found.append((self.gross(values), log(self.eps / 2) + self.ln_p(self.gross(values))))
        along = np.linalg.svd((values - values.mean(0)) / np.sqrt(self.w))[0][:, 0]
        order = np.argsort(along)
        subsets = [tuple(part) for r in range(1, m) for part in (order[:r], order[r:])]
        if every_subset:
            subsets = [part for r in range(1, m) for part in combinations(range(m), r)]
        for off in subsets:
            rest = self.usual(np.delete(values, list(off), axis=0))
            ln_off = np.logaddexp(
                log(one) + self.ln_contaminated(values, off), log(spike) + self.ln_spiked(values, off)
            )
            found.append((rest, log(1 - self.eps / 2) + float(ln_off) + self.ln_f_of(rest)))
        return found

    def ln_parts(self, x: Floats, y: Floats, *, every_subset: bool = False) -> tuple[float, float, float]:
        """ln p(x, y | H1), ln p(x, y | H2) and ln p(y) of instances (instance, axis)."""
        same, different = [], []
        of_y = self.views(y, every_subset=every_subset)
        for a, ln_a in self.views(x, every_subset=every_subset):
            for b, ln_b in of_y:
                weight = ln_a + ln_b - self.ln_p(a) - self.ln_p(b)
                h1, h2 = self.ln_h1_h2(a, b)
                same.append(weight + h1)
                different.append(weight + h2)
        return float(logsumexp(same)), float(logsumexp(different)), float(logsumexp([ln for _, ln in of_y]))

    def ln_lr(self, x: Floats, y: Floats, *, every_subset: bool = False) -> float:
        same, different, _ = self.ln_parts(x, y, every_subset=every_subset)
        return same - different


def all_parts(model: Robust, trace: Floats, ref: Floats) -> Floats:
    """ln p(x, y | H1), ln p(x, y | H2) and ln p(y) of all pairs of instances (run, item, instance, feature): (run, i, j, 3)."""
    x, y = (
        model.project(torch.from_numpy(t).flatten(1, 2)).unflatten(1, t.shape[1:3]).detach().numpy()
        for t in (trace, ref)
    )
    dense = [Dense(model, run) for run in range(len(x))]
    return np.array(
        [[[one.ln_parts(a, b) for b in of_y] for a in of_x] for one, of_x, of_y in zip(dense, x, y, strict=True)]
    )


def all_pairs(model: Robust, trace: Floats, ref: Floats) -> Floats:
    """ln LR of all pairs (run, i, j)."""
    parts = all_parts(model, trace, ref)
    return parts[..., 0] - parts[..., 1]

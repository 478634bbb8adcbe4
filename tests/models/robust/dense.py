"""The robust model once more, slowly: one pair, all of its measurements, dense covariance matrices, loops.

Straight from the equations of `lindley.models.robust.law` and `lindley.models.robust.model`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import helmert, null_space

from lindley.models.robust.law import FINEST_S, FINEST_T, LEAST, LN_S, LN_T, Items, Law
from lindley.models.robust.model import APART, Robust, Run
from lindley.models.robust.scalars import values_of

__all__ = ["Dense", "ln_lr_of_pair", "on_axes"]

Floats = NDArray[np.float64]


def logsumexp(terms: list[float]) -> float:
    top = max(terms)
    return float(top + np.log(np.exp(np.array(terms) - top).sum()))


def ln_normal(x: Floats, covariance: Floats) -> float:
    if len(x) == 0:
        return 0.0
    square = x @ np.linalg.solve(covariance, x)
    return float(-0.5 * (square + np.linalg.slogdet(covariance)[1] + len(x) * math.log(2 * math.pi)))


def weighed(values: list[float], ln_weights: list[float]) -> list[tuple[float, float]]:
    """ln of a weight, of weights that sum to one, and e^value."""
    total = logsumexp(ln_weights)
    return [(w - total, math.exp(v)) for v, w in zip(values, ln_weights, strict=True)]


class Dense:
    """The plain law: measurements x (M, axis), y (N, axis); ``f`` is a feature that is left out."""

    def __init__(self, law: Law, *, scatter: bool = True) -> None:
        self.var, self.features, self.kernels = (t.detach().numpy() for t in (law.var, law.features, law.kernels))
        names = ("scale", "shape", "spread", "width", "weight", "shared")
        self.a, alpha, d, self.h, b, self.g = (float(getattr(law, name)) for name in names)
        ln_t, ln_s = (law.ln_nodes(*ends).tolist() for ends in ((LN_T, FINEST_T), (LN_S, FINEST_S)))
        self.t = [(w, self.a * t) for w, t in weighed(ln_t, [-alpha * (u + math.exp(-u)) for u in ln_t])]
        self.s = weighed(ln_s, [-0.5 * (u / d) ** 2 for u in ln_s])
        self.ln_b, self.ln_normal_part = (math.log(b), math.log(1 - b)) if len(self.kernels) else (-math.inf, 0.0)
        self.scatter = scatter

    def left(self, f: int | None) -> Floats:
        """An orthonormal basis of what is left of the axes (left, axis)."""
        return np.eye(len(self.var)) if f is None else null_space(self.features[f][None]).T

    def seen(self, number: int, f: int | None) -> Floats:
        """From the measurements of an item, one after the other, to their contrasts and what is left of their mean."""
        k = len(self.var)
        contrasts = np.kron(helmert(number), np.eye(k)) if self.scatter and number > 1 else np.empty((0, number * k))
        return np.vstack([contrasts, np.kron(np.full((1, number), 1 / number), self.left(f))])

    def within(self, number: int, t: float) -> Floats:
        """Covariance of the measurements of an item around their source."""
        shared = self.g * np.ones((number, number)) + (1 - self.g) * np.eye(number)
        return np.kron(t * shared, np.eye(len(self.var)))

    def ln_scatter(self, x: Floats, t: float) -> float:
        if not self.scatter or len(x) == 1:
            return 0.0
        contrasts = (helmert(len(x)) @ x).ravel()
        return ln_normal(contrasts, (1 - self.g) * t * np.eye(len(contrasts)))

    def ln_kernels(self, x: Floats, error: float, f: int | None) -> float:
        left = self.left(f)
        covariance = left @ np.diag(self.h**2 * self.var + error) @ left.T
        centres = math.sqrt(1 - self.h**2) * self.kernels
        return logsumexp([ln_normal(left @ (x - c), covariance) for c in centres]) - math.log(len(centres))

    def worth(self, number: int) -> float:
        return 1 / (self.g + (1 - self.g) / number)

    def ln_item(self, x: Floats, f: int | None = None) -> float:
        seen, m = self.seen(len(x), f), self.worth(len(x))
        terms = []
        for ln_q, t in self.t:
            for ln_r, s in self.s:
                covariance = np.kron(np.ones((len(x), len(x))), s * np.diag(self.var)) + self.within(len(x), t)
                of_node = ln_normal(seen @ x.ravel(), seen @ covariance @ seen.T)
                terms.append(ln_q + ln_r + self.ln_normal_part + of_node)
            if len(self.kernels):
                terms.append(ln_q + self.ln_b + self.ln_scatter(x, t) + self.ln_kernels(x.mean(0), self.a / m, f))
        return logsumexp(terms)

    def ln_pair(self, x: Floats, y: Floats, apart: float = 0.0) -> float:
        """Under H1; with ``apart``, of two sources that differ."""
        m, n = self.worth(len(x)), self.worth(len(y))
        mean, delta = (m * x.mean(0) + n * y.mean(0)) / (m + n), x.mean(0) - y.mean(0)
        both = np.concatenate([x, y])
        seen = np.zeros((0, both.size))
        for first, side in ((0, x), (len(x), y)):
            of_side = self.seen(len(side), None)
            place = np.zeros((len(of_side), both.size))
            place[:, first * len(self.var) : (first + len(side)) * len(self.var)] = of_side
            seen = np.vstack([seen, place])
        terms = []
        for ln_q, t in self.t:
            ln_scatter = self.ln_scatter(x, t) + self.ln_scatter(y, t)
            ln_delta = ln_normal(delta, np.diag(t * (1 / m + 1 / n) + apart * self.var))
            for ln_r, s in self.s:
                if apart:
                    of_node = ln_scatter + ln_delta + ln_normal(mean, np.diag(s * self.var + t / (m + n)))
                else:
                    covariance = np.kron(np.ones((len(both), len(both))), s * np.diag(self.var))
                    covariance[: x.size, : x.size] += self.within(len(x), t)
                    covariance[x.size :, x.size :] += self.within(len(y), t)
                    of_node = ln_normal(seen @ both.ravel(), seen @ covariance @ seen.T)
                terms.append(ln_q + ln_r + self.ln_normal_part + of_node)
            if len(self.kernels):
                terms.append(ln_q + self.ln_b + ln_scatter + ln_delta + self.ln_kernels(mean, self.a / (m + n), None))
        return logsumexp(terms)

    def ln_ratio(self, x: Floats, y: Floats, apart: float = 0.0) -> float:
        return self.ln_pair(x, y, apart) - self.ln_item(x) - self.ln_item(y)

    def ln_without(self, x: Floats, y: Floats, f: int) -> float:
        """ln LR₋f."""
        left, error = self.left(f), 1 / self.worth(len(x)) + 1 / self.worth(len(y))
        delta = left @ (x.mean(0) - y.mean(0))
        same = [
            ln_q + self.ln_scatter(x, t) + self.ln_scatter(y, t) + ln_normal(delta, t * error * np.eye(len(delta)))
            for ln_q, t in self.t
        ]
        alone = [self.ln_item(z, f) + logsumexp([ln_q + self.ln_scatter(z, t) for ln_q, t in self.t]) for z in (x, y)]
        return logsumexp(same) - sum(alone) / 2

    def ln_mean_without(self, x: Floats, y: Floats) -> float:
        found = logsumexp([self.ln_without(x, y, f) for f in range(len(self.features))])
        return max(LEAST, found - math.log(len(self.features)))

    def ln_difference(self, x: Floats, y: Floats, f: int | None = None) -> float:
        """LR of two parts of one item by their difference, beside that of two sources."""
        each, left = (1 - self.g) * (1 / len(x) + 1 / len(y)), self.left(f)
        delta = left @ (x.mean(0) - y.mean(0))
        scatter = [ln_q + self.ln_scatter(x, t) + self.ln_scatter(y, t) for ln_q, t in self.t]
        same = [s + ln_normal(delta, each * t * np.eye(len(delta))) for s, (_, t) in zip(scatter, self.t, strict=True)]
        unrelated = left @ np.diag(2 * self.var + each * self.a) @ left.T
        return logsumexp(same) - logsumexp(scatter) - ln_normal(delta, unrelated)


def on_axes(x: Floats, *, scatter: bool = True) -> Items:
    """Items (item, measurement, axis) as the plain law takes them."""
    mean = x.mean(1)
    squares = ((x - mean[:, None]) ** 2).sum((1, 2)) if scatter and x.shape[1] > 1 else None
    return Items(torch.from_numpy(mean), x.shape[1], None if squares is None else torch.from_numpy(squares))


def ln_lr_of_pair(model: Robust, run: int, x: Floats, y: Floats) -> float:
    """Of measurements (M, feature) and (N, feature): views, coordinates, mixtures, each by its formula."""
    v = {name: float(value) for name, value in values_of(model.scalars[run]).items()}
    bases = [basis.of_run(run) for basis in model.bases]
    laws = Run.of(model, run).laws
    mu, rho = float(model.mates[run]), model.relatedness[run].numpy()
    rho = (1 - mu) * rho[0] + mu * rho[-1]

    dense = [Dense(law) for law in laws]

    def seen(a: Floats, place: int) -> Floats:
        return np.asarray((a - bases[place].centre.numpy()) @ bases[place].projection.numpy())

    def views(a: Floats) -> list[tuple[Floats, float]]:
        """What is seen of an item, and how probable that is."""
        if len(a) == 1:
            return [(a, 1.0)]
        on_main = seen(a, 0)
        _, _, directions = np.linalg.svd(on_main - on_main.mean(0))
        order = np.argsort(on_main @ directions[0])
        found, odds = [a], [1.0]
        for cut in range(1, len(a)):
            for wrong, right in ((order[:cut], order[cut:]), (order[cut:], order[:cut])):
                lr, *without = (
                    math.exp(v["trust"] * dense[0].ln_difference(on_main[wrong], on_main[right], f))
                    for f in (None, *range(a.shape[1]))
                )
                s = v["wrong"] / (2 * len(without))
                found.append(a[right])
                odds.append((s ** len(wrong) * sum(without) + v["foreign"]) / ((1 - v["wrong"] - v["foreign"]) * lr))
        return [(view, r / sum(odds)) for view, r in zip(found, odds, strict=True)]

    same = different = 0.0
    for a, share_a in views(x):
        for b, share_b in views(y):
            plain = sum(float(basis.share) * dense[j].ln_ratio(seen(a, j), seen(b, j)) for j, basis in enumerate(bases))
            heavy = plain
            if len(a) == len(x) and len(b) == len(y):
                heavy = heavy_of(model, run, x, y)
            lr = math.exp(v["trust"] * ((1 - v["heavy"]) * plain + v["heavy"] * heavy))
            on_main, p, m, n = (seen(a, 0), seen(b, 0)), x.shape[1], len(a), len(b)
            without = math.exp(v["trust"] * dense[0].ln_mean_without(*on_main))
            apart = np.exp([v["trust"] * dense[0].ln_ratio(*on_main, apart=j) for j in APART])
            s = v["wrong"] / (2 * p)
            wrong = sum(p * s**k + (v["steady"] / 2 if k > 1 else 0.0) for k in (m, n))
            if min(len(x), len(y)) > 1:
                wrong = min(wrong, rho[1])
            up = (1 - wrong - v["foreign"]) * lr + wrong * without + v["foreign"]
            down = 1 - rho.sum() + rho[0] * lr + rho[1] * without + rho[2:] @ apart
            same, different = same + share_a * share_b * up, different + share_a * share_b * down
    return math.log(same / different)


def heavy_of(model: Robust, run: int, x: Floats, y: Floats) -> float:
    """ln LR of the heavy-tailed law beside."""
    from lindley.models.between import Scatter
    from lindley.models.two_level import take_runs

    beside = take_runs(model.beside, [run])
    a, b = (torch.from_numpy(s)[None, None] for s in (x, y))
    scatter = Scatter(beside.scatter_of(a), beside.scatter_of(b), len(x) - 1, len(y) - 1)
    found = beside.ln_lr(a.mean(2), b.mean(2), len(x), len(y), None if len(x) == len(y) == 1 else scatter)
    return float(found)

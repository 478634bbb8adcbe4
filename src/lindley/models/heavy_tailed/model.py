r"""Heavy-tailed PLDA: normal laws within and between sources, each with a scale of its own that is integrated out.

On axes where replicates and sources are uncorrelated, with W the variance of an instance and B that of a source mean,

    x_m = θ + e_m,  m = 1 … M      e_m | τ ~ N(0, τ W)      τ ~ InvGamma(ν/2, ν/2)      (an item: a trace, or a ref)
    θ | ω ~ N(μ, ω B)                                       ω ~ InvGamma(ν_b/2, ν_b/2)

so that instances have a Student-t law around their source, and source means one around μ. τ is shared by all axes, and by the
instances of an item: they are taken to be of one session. Trace and ref of one source have scales of their own. The means x
and y of M and N instances, with their scatter, are then sufficient, and M against N is exact.

Kenny (2010), *Bayesian speaker verification with heavy-tailed priors*, Odyssey, approximates the posterior of θ, τ and ω by
one that factors. Brümmer, Silnova et al. (2018), *Gaussian meta-embeddings* and *Fast variational Bayes for heavy-tailed
PLDA*, replace the likelihood of θ by a normal one with a scaled precision, which needs fewer between axes than features. Here
nothing is approximated but by a sum. Sources and replicates share all axes, and the integrals are done so:

1. Multiply τ_x, τ_y and ω by one factor, and all variances are multiplied by it. With t = τ_x/ω and u = τ_y/ω, the integral
   over ω is that of an inverse gamma law, in closed form. With d = W/M, e = W/N, Δ = bdt + beu + detu, sums of squares S_x and
   S_y (in units of W) with f and g degrees of freedom in all, and p axes,

       p(x, y, S | one source) ∝ ∫∫ t^−(ν+f)/2 u^−(ν+g)/2 ∏ Δ^−½ Γ(A) R^−A dln t dln u
       R = ½ [ν/t + ν/u + ν_b + S_x/t + S_y/u + Σ (b (x−y)² + eu x² + dt y²)/Δ]
       A = ν + ½ν_b + p + ½(f + g)

   and p(x) is one such integral over t alone.
2. What is left is summed over a lattice of (ln t, ln u) (`scale_lattice`). R is a matrix product of the squares of a block of
   pairs with the coefficients of the nodes; then follow one logarithm and one exponential for every pair and node. For one
   instance against one on ten to twenty axes there are some 500 to 1000 nodes; more instances take more.

Where |log10 LR| < 6, ln LR is right to 1e-3: against lattices with steps for 1e-9, over sixty laws with 1 to 24 axes, ν and ν_b
from 1.2 to 200 and up to five instances against five, the largest error was 9.8e-4.

With ν and ν_b towards infinity this is `lindley.models.between.NormalBetween`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from scipy.special import lambertw, loggamma
from torch import Tensor

from lindley.llrs import Floats
from lindley.models.between import LN_2PI, Between, Scatter
from lindley.models.blocks import at_a_time
from lindley.models.exponentials import ln_sum_exp

__all__ = ["HeavyTailed", "scale_lattice"]

TOLERANCE, FINE = 1e-3, 1e-7
"""Bounds on the error of ln p: of a pair, and of an item alone, where fine steps cost nothing."""
REACH, REACH_PER_AXIS = 24.0, 1.5
"""How unlikely a pair the lattice still has to reach, in nats: an ln LR of −14 (a log10 LR of −6) and ten more; and, on every
axis, what the densities of trace and ref fall short of their peaks by, which their ratio does not show."""
RARE = 7.0
"""−ln of the probability of a scale that the lattice still has to reach: P(τ > s) falls like s^−ν/2."""
TERMS = 1 << 17
"""Pairs × nodes at a time: 1 MiB, which a processor keeps close at hand."""


@dataclass(frozen=True, eq=False)
class HeavyTailed(Between):
    """Source means are Student-t around ``mean``, and so are instances around them; the scales are shared by all axes."""

    uses_scatter: ClassVar[bool] = True

    mean: Tensor  # μ (run, 1, axis)
    var: Tensor  # b, the squared scale (run, 1, axis)
    nu: Tensor  # ν, within (run, 1, 1)
    nu_between: Tensor  # ν_b (run, 1, 1)

    def moments(self) -> tuple[Tensor, Tensor]:
        """μ and the squared scale b: what would be the variance if ω were one.

        The variance is ν_b/(ν_b − 2) times as large, and infinite for ν_b ≤ 2.
        """
        return self.mean, self.var

    def ln_marginal(self, x: Tensor, d: Tensor, squares: Tensor, freedom: int) -> Tensor:
        """ln p(x), (run, items), of means with variances d and sums of squares (run, items, axis)."""
        runs = range(len(self.mean))
        return torch.stack([_Run(self, run).ln_marginal(x[run], d[run], squares[run], freedom) for run in runs])

    def ln_joint(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter) -> Tensor:
        """ln p(x, y | one source), (run, traces, refs)."""
        runs = range(len(self.mean))
        return torch.stack([_Run(self, run).ln_joint(x[run], y[run], d[run], e[run], run, scatter) for run in runs])

    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x, y) − ln p(y), and ln p(x): with ``scatter``, of the means and their scatter."""
        scatter = Scatter(torch.zeros_like(x), torch.zeros_like(y), 0, 0) if scatter is None else scatter
        trace = self.ln_marginal(x, d, scatter.trace, scatter.freedom_trace)
        ref = self.ln_marginal(y, e, scatter.ref, scatter.freedom_ref)
        return self.ln_joint(x, y, d, e, scatter) - ref[..., None, :], trace[..., :, None]


class _Run:
    """The law of one run: its lattices depend on ν and ν_b, so that runs do not share them."""

    def __init__(self, law: HeavyTailed, run: int) -> None:
        self.mean, self.b = law.mean[run], law.var[run]  # (1, axis)
        self.alpha, self.alpha_b = law.nu[run].reshape(()) / 2, law.nu_between[run].reshape(()) / 2
        self.n_axes = self.mean.shape[-1]

    def ln_marginal(self, x: Tensor, d: Tensor, squares: Tensor, freedom: int) -> Tensor:
        """(items,) from x (items, axis) and d (1, axis)."""
        alpha, alpha_b, n_axes = self.alpha, self.alpha_b, self.n_axes
        f = freedom * n_axes
        u, ln_cell = self._lattice((n_axes + f,), d, FINE)
        u = u[:, 0]
        t = u.exp()
        total = self.b + d * t[:, None]  # (node, axis)
        rest = alpha / t + alpha_b + 0.5 * ((x - self.mean) ** 2 @ (1 / total).mT)
        rest = rest + 0.5 * _scattered(squares, d, freedom)[:, None] / t
        shape = alpha + alpha_b + (n_axes + f) / 2
        constant = _normaliser(alpha) + _normaliser(alpha_b) + torch.lgamma(shape) - 0.5 * n_axes * LN_2PI
        weight = constant + ln_cell - 0.5 * total.log().sum(-1) - (alpha + f / 2) * u
        return ln_sum_exp(weight - shape * rest.log())

    def ln_joint(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, run: int, scatter: Scatter) -> Tensor:
        """(traces, refs) from x (traces, axis) and y (refs, axis), and the scatter of their instances."""
        alpha, alpha_b, n_axes, b = self.alpha, self.alpha_b, self.n_axes, self.b
        f, g = scatter.freedom_trace * n_axes, scatter.freedom_ref * n_axes
        nodes, ln_cell = self._lattice((n_axes + f, n_axes + g), torch.minimum(d, e), TOLERANCE)
        (ln_t, ln_u), (t, u) = nodes.unbind(1), nodes.exp().unbind(1)
        dt, eu = d * t[:, None], e * u[:, None]  # (node, axis)
        delta = b * dt + b * eu + dt * eu
        x, y = x - self.mean, y - self.mean
        rows = alpha / t + 0.5 * (x**2 @ (eu / delta).mT)  # (traces, node)
        columns = alpha / u + alpha_b + 0.5 * (y**2 @ (dt / delta).mT)  # (refs, node)
        rows = rows + 0.5 * _scattered(scatter.trace[run], d, scatter.freedom_trace)[:, None] / t
        columns = columns + 0.5 * _scattered(scatter.ref[run], e, scatter.freedom_ref)[:, None] / u
        shape = 2 * alpha + alpha_b + n_axes + (f + g) / 2
        constant = 2 * _normaliser(alpha) + _normaliser(alpha_b) + torch.lgamma(shape) - n_axes * LN_2PI
        weight = constant + ln_cell - 0.5 * delta.log().sum(-1)
        weight = weight - (alpha + f / 2) * ln_t - (alpha + g / 2) * ln_u
        return _sum_over_pairs(x, y, rows, columns, 0.5 * (b / delta).mT, weight, shape)

    def _lattice(self, freedom: tuple[int, ...], least_var: Tensor, tolerance: float) -> tuple[Tensor, float]:
        """Nodes (node, item) and the logarithm of what each stands for, for items of so many degrees of freedom."""
        with torch.no_grad():
            peak = 0.5 * float(torch.log1p(self.b / least_var).sum())  # ln LR of a perfect pair, nearly
            reach = math.ceil(REACH + REACH_PER_AXIS * self.n_axes + peak)
            alpha, alpha_b = float(self.alpha), float(self.alpha_b)
        shapes = (*(alpha for _ in freedom), alpha_b)
        nodes, ln_cell = scale_lattice(shapes, (*freedom, self.n_axes), reach, tolerance)
        return torch.from_numpy(nodes).to(self.b), ln_cell


def _sum_over_pairs(
    x: Tensor, y: Tensor, rows: Tensor, columns: Tensor, apart: Tensor, weight: Tensor, shape: Tensor
) -> Tensor:
    """ln Σ_q exp(weight_q − shape · ln[rows_iq + columns_jq + Σ_axis (x_i − y_j)² apart_q]), (traces, refs), in blocks."""
    n_nodes = len(weight)
    most = max(1, at_a_time(TERMS, x) // n_nodes)
    n_columns = max(1, min(len(y), most))
    n_rows = max(1, most // n_columns)
    done = []
    for some_x, some_rows in zip(torch.split(x, n_rows), torch.split(rows, n_rows), strict=True):
        blocks = []
        for some_y, some_columns in zip(torch.split(y, n_columns), torch.split(columns, n_columns), strict=True):
            squares = (some_x[:, None] - some_y) ** 2
            rest = (some_rows[:, None] + some_columns).reshape(-1, n_nodes)
            rest.addmm_(squares.reshape(-1, x.shape[-1]), apart)
            ln_sum = ln_sum_exp(torch.addcmul(weight, rest.log_(), -shape))
            blocks.append(ln_sum.reshape(len(some_x), len(some_y)))
        done.append(torch.cat(blocks, 1))
    return torch.cat(done)


def _scattered(squares: Tensor, var_of_mean: Tensor, freedom: int) -> Tensor:
    """Sums of squares (items, axis) in units of the variance of one instance, summed over axes (items,)."""
    return (squares / (var_of_mean * (freedom + 1))).sum(-1)


def _normaliser(alpha: Tensor) -> Tensor:
    """α ln α − ln Γ(α), of the law of ln τ with density ∝ exp(−α ln τ − α/τ)."""
    return alpha * alpha.log() - torch.lgamma(alpha)


@lru_cache(maxsize=256)
def scale_lattice(
    shapes: tuple[float, ...], freedom: tuple[int, ...], reach: float, tolerance: float
) -> tuple[Floats, float]:
    """Nodes of ln(τ_k/ω) for one item or two, (node, item), and the logarithm of the length or area that each stands for.

    ``shapes`` are those of the inverse gamma laws, ν/2 of every item and ν_b/2 of the source, and ``freedom`` the numbers of
    squares that tell of each scale. Given all the rest, the logarithm of a scale has the law of an inverse gamma variable of
    shape A = shape + freedom/2 at the narrowest, whose characteristic function is Γ(A + ik)/Γ(A). By Poisson's formula the sum
    over a lattice errs by that of the shortest vectors k of the dual lattice, and these are made just long enough:

    - One item: steps 2π/k of ln(τ/ω), with |Γ(A + ik) Γ(A_b + ik)| = ε Γ(A) Γ(A_b).
    - Two: steps 2π/k of ln(τ_x/τ_y), with ε from A_x and A_y as above, and 2π/s of the mean of ln(τ_x/ω) and ln(τ_y/ω), half a
      step further in every second row. The vectors are (k, −k), and ((s + k)/2, (s − k)/2) with ε from A_x and A_y, and from
      A_b at s. Where the three scales are alike, the lattice is a hexagonal one: the best there is.

    ε is ``tolerance`` over the number of such vectors, two or six. The law of a scale peaks at ln(shape/A) for an item that
    fits perfectly. With A of a single instance, it peaks reach/A above that for an item that is e^−reach as likely; or as far
    up as the one scale in a thousand, if that is further. The lattice covers what lies between and, beyond, all that is above
    ``tolerance`` of a peak.
    """
    peaked = [shape + n / 2 for shape, n in zip(shapes, freedom, strict=True)]
    low, high = [], []
    for shape, a in zip(shapes, peaked, strict=True):
        # A (v + e^−v − 1) = −ln tolerance: how far below (v < 0) and above a peak its law falls to the tolerance.
        c = 1 - math.log(tolerance) / a
        below, above = (c + float(lambertw(-math.exp(-c), branch).real) for branch in (-1, 0))
        of_mean = shape + freedom[-1] / 2
        low.append(math.log(shape / a) + below)
        high.append(max(math.log(shape / of_mean) + reach / of_mean, RARE / shape) + above)
    if len(shapes) == 2:
        step = 2 * math.pi / _root(lambda k: _decay(peaked[0], k) + _decay(peaked[1], k), -math.log(tolerance / 2))
        return _multiples(low[0] - high[1], high[0] - low[1], step)[:, None], math.log(step)

    (a, b, of_source), enough = peaked, -math.log(tolerance / 6)
    k = _root(lambda k: _decay(a, k) + _decay(b, k), enough)
    s = max(
        _root(lambda s: _decay(a, (s + k) / 2) + _decay(b, (s - k) / 2) + _decay(of_source, s), enough),
        _root(lambda s: _decay(b, (s + k) / 2) + _decay(a, (s - k) / 2) + _decay(of_source, s), enough),
    )
    apart, middle = 2 * math.pi / k, 2 * math.pi / s
    rows = _multiples(low[0] - high[1], high[0] - low[1], apart)
    along = _multiples(min(low[:2]) - high[2] - middle, max(high[:2]) - low[2] + middle, middle)
    shifted = np.where(np.rint(rows / apart) % 2 == 0, 0.0, middle / 2)
    mean = along[None, :] + shifted[:, None]
    nodes = np.stack([(mean + side * rows[:, None] / 2).ravel() for side in (1, -1)], 1)
    margin = max(apart, middle) / 2
    inside = (nodes >= np.array(low[:2]) - high[2] - margin) & (nodes <= np.array(high[:2]) - low[2] + margin)
    return np.ascontiguousarray(nodes[inside.all(axis=1)]), math.log(apart * middle)


def _multiples(low: float, high: float, step: float) -> Floats:
    """The multiples of a step that cover a range."""
    return step * np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64)


def _decay(a: float, k: float) -> float:
    """−ln |Γ(a + ik)/Γ(a)|."""
    return float(loggamma(a).real - loggamma(a + 1j * k).real)


def _root(function: Callable[[float], float], value: float) -> float:
    """Where a function that starts below a value and grows without bound comes to it, on the positive side."""
    from scipy.optimize import brentq  # on demand: it takes a third of a second

    top = 1.0
    while function(top) < value:
        top *= 2
    return float(brentq(lambda k: function(k) - value, 0.0, top, xtol=1e-9, rtol=1e-6))

r"""The plain law of one run: two levels whose scales are integrated out, and what is left of it without one feature.

On the axes of `coordinates` a source mean θ and the mean x of M measurements of it, whose sum of squares around x is S, have

    θ | s ~ N(0, s λ)                 ln s ~ N(0, d²), a sum over nodes r with weights ω_r;
    or, with the weight b, one of the kernels N(√(1 − h²) μ_j, h² λ) at the means of the known sources
    x | θ, t ~ N(θ, t (g + (1 − g)/M)),     S | t ~ (1 − g) t χ²     t/a inverse gamma (α, α), a sum over nodes q.

t widens all measurements of a source alike; g is the share of the variance within a source that measurements of one item have
in common. With 1/m = g + (1 − g)/M the mean is worth m independent measurements, and that of N others n. The difference
δ = x − y and the mean z = (m x + n y)/(m + n) of two items of one source are independent given t and s:

    p(x, y | H1) = Σ_qr ω_q ω_r N(δ; 0, t_q (1/m + 1/n)) N(z; 0, s_r λ + t_q/(m + n)) p(S_x | t_q) p(S_y | t_q)
    p(x)         = Σ_qr ω_q ω_r N(x; 0, s_r λ + t_q/m) p(S_x | t_q),            LR₀ = p(x, y | H1) / p(x) p(y)

*Without feature f.* An error c in feature f moves an item by c v_f, v_f being row f of the projection. All c being as good, the
density of an item is what is left of it,

    p₋f(u) = ∫ N(u + c v; 0, P⁻¹) dc = N(u; 0, P⁻¹) exp[½ (vᵀPu)²/vᵀPv] √(2π / vᵀPv)

and where two items agree but for one feature, their mean lies where they do: p₋f(z) is the geometric mean of both sides'.

    LR₋f = Σ_q ω_q N₋f(δ; 0, t_q (1/m + 1/n)) p(S_x | t_q) p(S_y | t_q) / √[p₋f(x, S_x) p(S_x) p₋f(y, S_y) p(S_y)]

Under H2 its mean is at most one (Cauchy and Schwarz).
Kernels are seen with the error of the usual scale t = a alone: they are far wider than it where they matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lindley.models.between import ln_sum_of_products
from lindley.models.blocks import pieces
from lindley.models.exponentials import ln_sum_exp

__all__ = ["AllPairs", "GivenPairs", "Items", "Law", "Pairs", "Seen"]

LN_T, LN_S = (-1.3, 4.55, 0.65), (-1.2, 2.4, 1.2)
"""The first node of ln t/a and of ln s, the last, and the longest step from one to the next."""
FINEST_T, FINEST_S = 1.3, 4.0
"""The step on many axes, in units of √(2/k): as well as k axes tell of the logarithm of a scale."""
NEGLIGIBLE = -11.0
"""ln of the weight of what two items are seen as below which it is left out."""
TERMS = 1 << 19
"""Features × pairs at a time, of which each takes some ten numbers where a feature may be wrong."""
LEAST = -40.0
"""ln LR₋f below which it is held: it matters beside what is foreign only."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items on the axes: the mean of so many measurements each, and how these scatter around it."""

    mean: Tensor  # (items, axis)
    number: int = 1  # M
    squares: Tensor | None = None  # S, summed over axes (items,); None for one measurement, or where it is not known


@dataclass(frozen=True, eq=False)
class Seen:
    """Items, and how probable each is by itself: ln p(x, S) up to a constant, whole and without each feature."""

    items: Items
    ln_p: Tensor  # (1 + feature, items), or (1, items) where no feature is to be left out
    ln_scatter: Tensor  # ln p(S) (items,)

    def take(self, some: Tensor) -> Seen:
        """Select items by their indices (items,)."""
        squares = None if self.items.squares is None else self.items.squares[some]
        items = Items(self.items.mean[some], self.items.number, squares)
        return Seen(items, self.ln_p[:, some], self.ln_scatter[some])


class AllPairs:
    """Pair every trace with every ref."""

    def blocks(self, x: Tensor, y: Tensor, number: int) -> Iterator[tuple[Tensor, Tensor, tuple[Tensor, ...]]]:
        """Pairs whose weight e^(x + y) may matter, about so many at a time: their traces, their refs, and their places."""
        most = [torch.nn.functional.pad(side, (0, 1), value=-math.inf).amax() for side in (x, y)]  # there may be none
        rows, columns = (torch.nonzero(side + m > NEGLIGIBLE)[:, 0] for side, m in zip((x, y), most[::-1], strict=True))
        for some in pieces(len(rows), max(1, number // max(1, len(columns)))):
            yield rows[some], columns, (rows[some][:, None], columns)

    def sum(self, x: Tensor, y: Tensor) -> Tensor:
        """x_i + y_j of (…, traces) and (…, refs): (…, traces, refs)."""
        return x[..., :, None] + y[..., None, :]

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """Σ_c x_ic y_jc of (…, traces, c) and (…, refs, c): (…, traces, refs)."""
        return x @ y.mT

    def ln_sum(self, x: Tensor, y: Tensor) -> Tensor:
        """ln Σ_k exp(x_ik + y_jk) of (node, traces, kernel) and (node, refs, kernel): (node, traces, refs)."""
        return ln_sum_of_products(x, y)


class GivenPairs:
    """Pair the first trace with the first ref, the second with the second."""

    def blocks(self, x: Tensor, y: Tensor, number: int) -> Iterator[tuple[Tensor, Tensor, tuple[Tensor, ...]]]:
        """Pairs whose weight e^(x + y) may matter, so many at a time, three times."""
        pairs = torch.nonzero(x + y > NEGLIGIBLE)[:, 0]
        for some in pieces(len(pairs), number):
            yield pairs[some], pairs[some], (pairs[some],)

    def sum(self, x: Tensor, y: Tensor) -> Tensor:
        """x_i + y_i: (…, pairs)."""
        return x + y

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """Σ_c x_ic y_ic: (…, pairs)."""
        return (x * y).sum(-1)

    def ln_sum(self, x: Tensor, y: Tensor) -> Tensor:
        """ln Σ_k exp(x_ik + y_ik): (node, pairs)."""
        return ln_sum_exp(x + y, -1)


Pairs = AllPairs | GivenPairs


@dataclass(frozen=True, eq=False)
class Law:
    """The law of one run, without a run dimension."""

    var: Tensor  # λ (axis,)
    features: Tensor  # v_f of the features that load on the axes, each of length one (feature, axis)
    kernels: Tensor  # μ_j (kernel, axis)
    scale: Tensor  # a
    shape: Tensor  # α
    spread: Tensor  # d
    width: Tensor  # h
    weight: Tensor  # b
    shared: Tensor  # g

    @cached_property
    def nodes(self) -> tuple[Tensor, Tensor, Tensor]:
        """ln ω_q ω_r (node,), t_q (node,) and s_r λ (node, axis) of the normal part."""
        ln_weight, t = self._nodes_of_t
        ln_s = self.ln_nodes(LN_S, FINEST_S)
        both = ln_weight[:, None] + torch.log_softmax(-0.5 * (ln_s / self.spread) ** 2, 0)
        if len(self.kernels):
            both = both + torch.log1p(-self.weight)
        return both.flatten(), t.repeat_interleave(len(ln_s)), ln_s.exp().repeat(len(t))[:, None] * self.var

    @cached_property
    def _nodes_of_t(self) -> tuple[Tensor, Tensor]:
        ln_t = self.ln_nodes(LN_T, FINEST_T)
        return torch.log_softmax(-self.shape * (ln_t + (-ln_t).exp()), 0), self.scale * ln_t.exp()

    def ln_nodes(self, ends: tuple[float, float, float], finest: float) -> Tensor:
        """ln of the scales that are looked at (node,)."""
        (first, last, longest), k = ends, max(1, len(self.var))
        number = 1 + math.ceil((last - first) / min(longest, finest * math.sqrt(2 / k)))
        return torch.linspace(first, last, number, dtype=torch.float64).to(self.var)

    def worth(self, number: int) -> Tensor:
        """m: so many independent measurements the mean of M measurements of one item is worth."""
        return 1 / (self.shared + (1 - self.shared) / number)

    def ln_scatter(self, items: Items, t: Tensor) -> Tensor:
        """ln p(S | t) up to a constant, (node, items) or (node, 1), for t (node,)."""
        if items.squares is None:
            return torch.zeros_like(t)[:, None]
        own = ((1 - self.shared) * t)[:, None]
        return -0.5 * ((items.number - 1) * len(self.var) * own.log() + items.squares / own)

    @cached_property
    def directions(self) -> Tensor:
        """What may be left out: nothing, and the direction v_f of each feature (1 + feature, axis)."""
        return torch.cat([0 * self.var[None], self.features])

    def ln_ratio(self, x: Seen, y: Seen, pairs: Pairs, apart: float = 0.0) -> Tensor:
        """ln LR₀ of pairs; with ``apart`` j, that of two sources that differ by j λ."""
        return self.ln_joint(x.items, y.items, pairs, apart) - pairs.sum(x.ln_p[0], y.ln_p[0])

    def ln_ratios_without(self, x: Seen, y: Seen, pairs: Pairs) -> Tensor:
        """ln LR₋f of pairs (feature, …)."""
        squares, ln_alone = self._without(x, y, pairs)
        return self._ln_of_difference(x.items, y.items, squares, pairs) - ln_alone

    def ln_mean_without(self, x: Seen, y: Seen, pairs: Pairs) -> Tensor:
        """ln of the mean of LR₋f over features, at least `LEAST` (…).

        It is computed where a bound of it, by the feature whose loss brings the items closest, is larger than that.
        """
        squares, ln_alone = self._without(x, y, pairs)
        with torch.no_grad():
            closest = squares.amin(0, keepdim=True)
            bound = self._ln_of_difference(x.items, y.items, closest, pairs)[0] - ln_alone.amin(0)
        at = torch.nonzero(bound > LEAST, as_tuple=True)
        some_squares, some_alone = (each.movedim(0, -1)[at].mT for each in (squares, ln_alone))
        found = (
            self._ln_of_difference(x.take(at[0]).items, y.take(at[-1]).items, some_squares, GivenPairs()) - some_alone
        )
        mean = ln_sum_exp(found, 0) - math.log(len(found))
        return torch.full_like(bound, LEAST).index_put(at, mean.clamp(min=LEAST))

    def _without(self, x: Seen, y: Seen, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """|δ|² without each feature, and ½ ln p₋f(x, S_x) p(S_x) p₋f(y, S_y) p(S_y) (feature, …)."""
        a, b = x.items.mean, y.items.mean
        squares = pairs.sum((a**2).sum(-1), (b**2).sum(-1)) - 2 * pairs.product(a, b)
        squares = squares - pairs.sum(self.features @ a.mT, -self.features @ b.mT) ** 2
        ln_alone = pairs.sum(*(0.5 * (side.ln_p[1:] + side.ln_scatter) for side in (x, y)))
        return squares.clamp(min=0.0), ln_alone

    def _ln_of_difference(self, x: Items, y: Items, squares: Tensor, pairs: Pairs) -> Tensor:
        """ln Σ_q ω_q N₋f(δ; 0, t_q (1/m + 1/n)) p(S_x | t_q) p(S_y | t_q) by |δ|² without a feature (feature, …)."""
        ln_q, t = self._nodes_of_t
        error, left = t * (1 / self.worth(x.number) + 1 / self.worth(y.number)), len(self.var) - 1
        scatter = pairs.sum((ln_q - 0.5 * left * error.log())[:, None] + self.ln_scatter(x, t), self.ln_scatter(y, t))
        return ln_sum_exp(scatter[:, None] - squares / (2 * error.reshape(-1, *(1,) * squares.dim())), 0)

    def ln_differences(self, x: Items, y: Items) -> Tensor:
        """ln LR₀ and ln LR₋f of given pairs by what the difference of parts of one item says (1 + feature, pairs).

        It is set beside the difference of unrelated sources, N(δ; 0, 2 λ + …): where the item lies does not matter.
        """
        (ln_q, t), delta = self._nodes_of_t, x.mean - y.mean
        each = (1 - self.shared) * (1 / x.number + 1 / y.number)
        scatter = ln_q[:, None] + self.ln_scatter(x, t) + self.ln_scatter(y, t)
        same = _ln_normal(delta, 1 / (each * t[:, None]).expand(-1, len(self.var)), self.directions)
        unrelated = _ln_normal(delta, 1 / (2 * self.var + each * self.scale)[None], self.directions)[0]
        return ln_sum_exp(scatter[:, None] + same, 0) - ln_sum_exp(scatter, 0) - unrelated

    def see(self, items: Items, *, without: bool = True) -> Seen:
        """How probable items are by themselves."""
        (ln_weight, t, var), (ln_q, t_q) = self.nodes, self._nodes_of_t
        x, m, directions = items.mean, self.worth(items.number), self.directions[: None if without else 1]
        terms = (ln_weight[:, None] + self.ln_scatter(items, t))[:, None]
        found = ln_sum_exp(terms + _ln_normal(x, 1 / (var + t[:, None] / m), directions), 0)
        scatter = ln_sum_exp(ln_q[:, None] + self.ln_scatter(items, t_q), 0).expand(len(x))
        if len(self.kernels):
            kernels = _Kernels(self, self.scale / m, directions)
            found = torch.logaddexp(found, self.weight.log() + scatter + kernels.ln_density(x))
        return Seen(items, found, scatter)

    def ln_joint(self, x: Items, y: Items, pairs: Pairs, apart: float = 0.0) -> Tensor:
        """ln p(x, y, S | H1) up to the same constants (…).

        With ``apart`` j, that of two sources that differ by j λ as well.
        """
        (ln_weight, t, var), (ln_q, t_q) = self.nodes, self._nodes_of_t
        m, n = self.worth(x.number), self.worth(y.number)
        alpha, beta = m / (m + n), n / (m + n)

        def ln_sum(ln_weight: Tensor, t: Tensor, q: Tensor) -> Tensor:
            """ln of the sum over nodes of N(δ) N(z; 0, 1/q), or of N(δ) alone where q is 0, and both scatters."""
            p = 1 / (t[:, None] * (1 / m + 1 / n) + apart * self.var)
            ln_det = (p.log() + torch.where(q > 0, q, 1.0).log()).sum(-1)
            rows = (
                (ln_weight + 0.5 * ln_det)[:, None] + self.ln_scatter(x, t) - 0.5 * (p + alpha**2 * q) @ (x.mean**2).mT
            )
            columns = self.ln_scatter(y, t) - 0.5 * (p + beta**2 * q) @ (y.mean**2).mT
            left = x.mean * (p - alpha * beta * q)[:, None]
            return ln_sum_exp(pairs.product(*_factors(left, y.mean.expand(len(p), -1, -1), rows, columns)), 0)

        found = ln_sum(ln_weight, t, 1 / (var + t[:, None] / (m + n)))
        if len(self.kernels):
            kernels = _Kernels(self, self.scale / (m + n), self.directions[:1])
            of_delta = ln_sum(ln_q + self.weight.log(), t_q, torch.zeros_like(var[: len(t_q)]))
            found = torch.logaddexp(found, of_delta + kernels.ln_density_between(x.mean, y.mean, alpha, pairs))
        return found


def _of_v(precision: Tensor, directions: Tensor) -> Tensor:
    """vᵀP v (node, direction, 1), and 1 of no direction."""
    of_v = (precision @ (directions**2).mT)[..., None]
    return torch.where(of_v > 0, of_v, 1.0)


def _ln_normal(points: Tensor, precision: Tensor, directions: Tensor) -> Tensor:
    """ln N(u; 0, 1/P) without 2π and without each direction, (node, direction, points)."""
    along, of_v = (precision[:, None] * directions) @ points.mT, _of_v(precision, directions)  # vᵀP u
    whole = 0.5 * precision.log().sum(-1, keepdim=True) - 0.5 * precision @ (points**2).mT
    return whole[:, None] + 0.5 * (along**2 / of_v - of_v.log())


def _factors(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Factors, of traces and of refs, whose product is left · right + rows + columns."""
    rows, columns = rows.expand(left.shape[:-1])[..., None], columns.expand(right.shape[:-1])[..., None]
    return torch.cat([left, rows, torch.ones_like(rows)], -1), torch.cat([right, torch.ones_like(columns), columns], -1)


class _Kernels:
    """Σ_j N(u; √(1 − h²) μ_j, h² λ + e)/K with an error e, without 2π and without each direction."""

    def __init__(self, law: Law, error: Tensor, directions: Tensor) -> None:
        self.precision = 1 / (law.width**2 * law.var + error)  # P (axis,)
        self.centres = (1 - law.width**2).sqrt() * law.kernels
        of_v = _of_v(self.precision[None], directions)[0]
        self.ln_scale = 0.5 * self.precision.log().sum() - 0.5 * of_v.log() - math.log(max(1, len(law.kernels)))
        self.v = self.precision * directions / of_v.sqrt()  # Pv/√(vᵀP v)

    def _exponents(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """−½ uᵀQ u (direction, points) and uᵀQ μ_j − ½ μ_jᵀQ μ_j (direction, points, kernel): Q is P − v vᵀ."""
        along, of_centres = self.v @ points.mT, self.v @ self.centres.mT
        squares, squares_of_centres = (0.5 * (each**2) @ self.precision for each in (points, self.centres))
        product = (points * self.precision) @ self.centres.mT - squares_of_centres
        exponents = product - along[..., None] * of_centres[:, None] + 0.5 * of_centres[:, None] ** 2
        return 0.5 * along**2 - squares, exponents

    def ln_density(self, points: Tensor) -> Tensor:
        """Of items by themselves (direction, items)."""
        alone, exponents = self._exponents(points)
        return self.ln_scale + alone + ln_sum_exp(exponents, -1)

    def ln_density_between(self, x: Tensor, y: Tensor, alpha: Tensor, pairs: Pairs) -> Tensor:
        """Of z = αx + (1 − α)y of pairs (…), with all features."""
        beta, (alone_x, of_x), (alone_y, of_y) = 1 - alpha, self._exponents(x), self._exponents(y)
        rows, columns = self.ln_scale + alpha**2 * alone_x, beta**2 * alone_y
        quadratic = pairs.product(*_factors(-alpha * beta * x * self.precision, y, rows[0], columns[0]))
        return quadratic + pairs.ln_sum(alpha * of_x, beta * of_y)[0]

"""Where sources are: kernels over known sources, and a heavy-tailed background for the regions between them.

    f(θ) = (1 − π) Σ_k w_k N(θ; √(1−h²) μ_k, h² λ) + π t₃(θ; 0, λ)

Kernels are drawn towards the centre so that the mixture keeps the variance λ of the source means: with h towards one
it is their normal law, which is what many features and few sources ask for. The background is a multivariate Student-t law with
three degrees of freedom: it has room for sources far from all others, as a rare source must not be taken for a spoilt
measurement of a common one. Seen with a normal error of variance v, every variance grows by v; of the background, λ does.

For the fit of scalars only shift c and variance V of the kernels change. With p_k the posterior of kernel k at a point x, and
kernels at c μ_k,

    ∂/∂V ln Σ_k w_k N(x; c μ_k, V) = ½ (Σ_k p_k (x − c μ_k)²/V − 1)/V,      ∂/∂c … = Σ_k p_k (x − c μ_k) μ_k / V.

All of it hangs on two scalars, h and the error. So a matrix product with μ, and with the two sums over axes of μ² that these
ask for, beside the sum gives the gradient, and no (point, kernel) matrix has to be kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lindley.models.between import LN_2PI, coupled, ln_sum_of_products
from lindley.models.blocks import at_a_time
from lindley.models.exponentials import exp_, ln_sum_exp
from lindley.models.robust.kept import kept

__all__ = ["FREEDOM", "Half", "Population", "ln_background", "ln_kernel_sum", "ln_population"]

FREEDOM = 3.0
"""Degrees of freedom of the background: of one source in seven the variance is above 4, of one in 700 above 100."""
NEGLIGIBLE = 35.0
"""Kernels below e^−35 of the background are left out where they cost time."""
MOST_RATIO = 600.0
"""Up to e^600 times the background, a sum of exponentials whose products may underflow is precise beside it."""
PER_LN2 = 1 / math.log(2)
LEAST_EXPONENT = -115.0
"""Terms below 2^−115 of the largest count as that much: single precision has no room for less."""
TERMS = 1 << 17
"""Kernel terms held at a time when points are looked up: 1 MiB."""


@dataclass(frozen=True, eq=False)
class Half:
    """x or y of points x + y, with what belongs to it alone where a population is looked up at all of them."""

    points: Tensor  # (run, items, axis)
    error: Tensor  # variance of x + y (run, 1, axis)
    ln_most: Tensor  # the largest exponent of a kernel (run, items)
    products: Tensor  # e^exponent of every kernel in units of the largest (run, items, kernel)


@dataclass(frozen=True, eq=False)
class Population:
    """The law of a source's mean. All axes are uncorrelated, and variances are per axis."""

    centres: Tensor  # μ_k (run, kernel, axis)
    ln_weights: Tensor  # ln w_k (run, kernel); −inf for padding
    var: Tensor  # λ (run, 1, axis)
    width: Tensor  # h (run, 1, 1), below one
    background: Tensor  # π (run, 1, 1)

    def kernels(self) -> tuple[Tensor, Tensor]:
        """√(1 − h²), by which the centres are drawn in, and h² λ, the variance of a kernel."""
        return self._kernels

    @kept
    def _kernels(self) -> tuple[Tensor, Tensor]:
        return (1 - self.width**2).sqrt(), self.width**2 * self.var

    def ln_density(self, points: Tensor, error: Tensor) -> Tensor:
        """ln f(points) with an error of variance ``error`` (run, 1 or points, axis): (run, points)."""
        block = max(1, at_a_time(TERMS, points) // (self.centres.shape[0] * self.centres.shape[1]))
        if points.shape[1] <= block:
            return self._ln_density(points, error)
        each = zip(*(torch.split(t, block, 1) for t in (points, error.expand_as(points))), strict=True)
        return torch.cat([self._ln_density(*some) for some in each], 1)

    def _ln_density(self, points: Tensor, error: Tensor) -> Tensor:
        total = self.kernels()[1] + error
        scaled, inverse = points / total, (1 / total).expand_as(points)
        exponent = torch.baddbmm(self.ln_weights[:, None], torch.cat([scaled, inverse], -1), self._linear)
        kernels = ln_sum_exp(exponent) - 0.5 * ((points * scaled).sum(-1) + (total.log() + LN_2PI).sum(-1))
        return self._mixture(kernels, ln_background(points, self.var + error))

    @kept
    def _linear(self) -> Tensor:
        """What the exponent of a kernel is linear in, (run, 2 axes, kernel): with x/V and 1/V it is c μ·x/V − ½ c² μ²·1/V."""
        centres = self.kernels()[0] * self.centres
        return torch.cat([centres, -0.5 * centres**2], -1).mT.contiguous()

    def half(self, points: Tensor, error: Tensor) -> Half:
        """One half of points x + y that are seen with an error of variance ``error``: x or y (run, items, axis)."""
        exponents = self._exponents(points, error)
        ln_most = exponents.amax(-1, keepdim=True)
        return Half(points, error, ln_most[..., 0], exp_(exponents.sub_(ln_most)))

    def _exponents(self, points: Tensor, error: Tensor) -> Tensor:
        """a_ik of a half (run, items, kernel): ln Σ_k exp(a_ik + a_jk) of two halves is the sum over kernels."""
        shift, var = self.kernels()
        total, centres = var + error, shift * self.centres
        own = 0.5 * (self.ln_weights - 0.5 * (centres**2 / total).sum(-1))[:, None]
        return torch.baddbmm(own, points / total, centres.mT)

    def ln_density_between(self, x: Half, y: Half) -> Tensor:
        """ln f at x + y of all pairs of halves, (run, traces, refs), by matrix products; without a gradient."""
        total = self.var + x.error
        squares = coupled(2 * x.points / total, y.points, *((half.points**2 / total).sum(-1) for half in (x, y)))
        broad = _ln_student(squares.clamp_min_(0.0), total).add_(self._ln_shares[1])
        # ln of kernels over background, if the sum of products over the kernels were one.
        ln_ratio = self._ln_apart(x.points, y.points, x.error, x.ln_most, y.ln_most).sub_(broad)
        far = ln_ratio > MOST_RATIO if float(ln_ratio.amax()) > MOST_RATIO else None
        ratio = exp_(ln_ratio.clamp_max_(MOST_RATIO)).mul_(x.products @ y.products.mT)
        if far is None:
            return broad.add_(ratio.log1p_())
        i, j = (far.any(dim).any(0).nonzero()[:, 0] for dim in (2, 1))
        corner = slice(None), i[:, None], j
        points, background = (x.points[:, i], y.points[:, j]), broad[corner]
        pair = self._ln_apart(*points, x.error)
        a, c = (self._exponents(each, x.error) for each in points)
        kernels = pair + ln_sum_of_products(a, c, background - pair - NEGLIGIBLE)
        found = broad.add_(ratio.log1p_())
        found[corner] = torch.logaddexp(background, kernels)
        return found

    def _ln_apart(
        self, x: Tensor, y: Tensor, error: Tensor, of_x: Tensor | float = 0.0, of_y: Tensor | float = 0.0
    ) -> Tensor:
        """ln of the kernels' part at x + y without the sum over kernels, plus ``of_x`` and ``of_y``: (run, traces, refs)."""
        total = self.kernels()[1] + error
        constant = self._ln_shares[0][..., 0] - 0.5 * (total.log() + LN_2PI).sum(-1)
        rows, columns = (of - 0.5 * (points**2 / total).sum(-1) for points, of in ((x, of_x), (y, of_y)))
        return coupled(-x / total, y, rows + constant, columns)

    def _mixture(self, kernels: Tensor, broad: Tensor) -> Tensor:
        """ln[(1 − π) e^kernels + π e^broad] of parts (run, …), which are used up."""
        of_kernels, of_background = (t.reshape(-1, *(1,) * (broad.dim() - 1)) for t in self._ln_shares)
        return torch.logaddexp(kernels.add_(of_kernels), broad.add_(of_background))

    @kept
    def _ln_shares(self) -> tuple[Tensor, Tensor]:
        """ln(1 − π) and ln π (run, 1, 1)."""
        return torch.log1p(-self.background), self.background.log()


def ln_background(points: Tensor, total: Tensor) -> Tensor:
    """ln t₃(points; 0, total) of points (run, points, axis) and squared scales (run, 1 or points, axis): (run, points)."""
    return _ln_student((points**2 / total).sum(-1), total)


def _ln_student(squares: Tensor, total: Tensor) -> Tensor:
    """From Σ x²/total (run, points, …) and the squared scales (run, 1 or points, axis)."""
    n_axes = total.shape[-1]
    constant = (
        math.lgamma((FREEDOM + n_axes) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * n_axes * math.log(FREEDOM * math.pi)
    )
    ln_scales = 0.5 * total.log().sum(-1)
    ln_scales = ln_scales.reshape(*ln_scales.shape, *(1,) * (squares.dim() - 2))
    ln_power = torch.log1p(squares / FREEDOM) * (-0.5 * (FREEDOM + n_axes))
    return ln_power.add_(constant - ln_scales)


class _LnKernelSum(torch.autograd.Function):
    """Exponents in double precision, their exponentials in single: a relative error of some 1e-7 at a third of the time.

    Exponentials are powers of two, which torch has faster than those of e.
    """

    @staticmethod
    def forward(ctx: Any, points: Tensor, width: Tensor, error: Tensor, law: Population, with_slopes: bool) -> Tensor:
        n_nodes, n_points = error.shape[1], points.shape[1]
        value, by_width, by_error = (points.new_empty((len(points), n_nodes, n_points)) for _ in range(3))
        exponent = points.new_empty((law.centres.shape[1], n_points))
        terms = torch.empty_like(exponent, dtype=torch.float32)
        for i in range(len(points)):
            h, lam = width[i, 0, 0], law.var[i, 0]
            x = torch.cat([points[i].T, torch.ones_like(points[i, None, :, 0])])  # (axis and one, point)
            mu = (1 - h**2).sqrt() * law.centres[i]
            x2, mu2, of_mu = x[:-1] ** 2, mu**2, mu.T.float()
            drawn_in = -h / (1 - h**2)  # d ln √(1 − h²) / dh
            for q in range(n_nodes):
                inverse = 1 / (h**2 * lam + error[i, q])  # 1/V (axis,)
                own = law.ln_weights[i] - 0.5 * (mu2 @ inverse)
                torch.mm(torch.cat([mu * inverse, own[:, None]], 1).mul_(PER_LN2), x, out=exponent)
                top = exponent.amax(0)
                terms.copy_(exponent.sub_(top)).clamp_min_(LEAST_EXPONENT).exp2_()
                constant = 0.5 * (inverse @ x2 - (inverse.log() - LN_2PI).sum())
                if not with_slopes:
                    value[i, q] = (top + terms.sum(0).double().log2()) / PER_LN2 - constant
                    continue
                by_h = 2 * h * lam * inverse  # of ln V, by h; by the error it is 1/V
                rates = torch.stack([by_h, inverse]) * inverse
                less = torch.stack([drawn_in * inverse, torch.zeros_like(inverse)])
                squared = (0.5 * rates - less) @ mu2.T  # (2, kernel)
                moments = torch.cat([torch.ones_like(squared[:1]), squared]).float()
                moments = torch.cat([moments, of_mu]) @ terms
                sums = moments[0].double()
                value[i, q] = (top + sums.log2()) / PER_LN2 - constant
                crossed = (moments[3:] / moments[0]).double().mul_(x[:-1])
                slopes = torch.addmm(moments[1:3] / sums, less - rates, crossed).addmm_(rates, x2, alpha=0.5)
                by_width[i, q], by_error[i, q] = slopes - 0.5 * torch.stack([by_h, inverse]).sum(-1, keepdim=True)
        ctx.save_for_backward(by_width, by_error)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor, None, None]:
        by_width, by_error = ctx.saved_tensors
        return None, (grads[0] * by_width).sum((1, 2))[:, None, None], (grads[0] * by_error).sum(-1), None, None


def ln_kernel_sum(law: Population, points: Tensor, width: Tensor, error: Tensor) -> Tensor:
    """ln Σ_k w_k N(points; √(1−h²) μ_k, h² λ + error) for several errors (run, node), (run, node, points).

    Gradients reach the ``width`` h (run, 1, 1) and the ``error`` alone.
    """
    with_slopes = torch.is_grad_enabled() and (width.requires_grad or error.requires_grad)
    result: Tensor = _LnKernelSum.apply(points, width, error, law, with_slopes)  # type: ignore[no-untyped-call]
    return result


def ln_population(law: Population, points: Tensor, error: Tensor) -> Tensor:
    """`Population.ln_density` for several errors (run, node), the same on all axes: (run, node, points).

    Gradients reach its scalars and the errors alone.
    """
    total = law.var + error[..., None]  # (run, node, axis)
    squares = (1 / total) @ (points**2).mT
    return law._mixture(ln_kernel_sum(law, points, law.width, error), _ln_student(squares, total))

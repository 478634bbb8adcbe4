"""What is left out on purpose, measured: subsets of instances that may be off, and f taken out of an integral.

*Subsets.* Of three or more instances, the model lets the first or the last along one direction be off, and not any subset.

*The integral.* The law that the model stands for gives each item a scatter τ, and a source on each axis another one,
s ~ InvGamma(ν/2, ν/2). Given all of them, everything is normal:

    p(x, y, S) = Σ_qr ω_q ω_r Σ_k w_k ∏_axis ∫ N(x, y, S; μ_k, h² λ, τ_q s w, τ_r s w) π(s) ds,

which is computed here on a grid of s. The model takes f(z) out of the integral.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lindley.llrs import LN10
from lindley.models.robust.tails import LN_SCATTER, ln_scatter_weights
from tests.models.robust.dense import Dense
from tests.models.robust.simulate import ln_lr, simulated


@pytest.mark.parametrize("shift", [0.0, 5.0, 140.0])
@pytest.mark.parametrize(("m", "n"), [(3, 1), (4, 1)])
def test_subsets_that_are_left_out_change_little(m: int, n: int, shift: float) -> None:
    """log10 LR by all subsets of instances that may be off, of same-source pairs and of others."""
    model = simulated(2, 30.0, kernels=5)
    rng = np.random.default_rng(m)
    dense, error = Dense(model), []
    for pair in range(8):
        theta = rng.normal(size=2) * math.sqrt(30)
        x, y = (theta + rng.normal(size=(k, 2)) for k in (m, n))
        x[0, 1] += shift
        if pair % 2:
            y += 5 * rng.normal(size=2)
        found = float(ln_lr(model, *(torch.from_numpy(v)[None, None] for v in (x, y))))
        error.append(abs(found - dense.ln_lr(x, y, every_subset=True)) / LN10)
    assert max(error) < 0.15
    assert np.median(error) < 0.03


def exact(x: Tensor, y: Tensor, centres: Tensor, b: float, nu: float, ln_omega: Tensor) -> Tensor:
    """ln LR of pairs of instances (pair, instance, axis), with w = 1 and kernels of equal weight."""
    u = torch.linspace(-4, 6, 51).double()
    ln_prior = nu / 2 * math.log(nu / 2) - math.lgamma(nu / 2) - nu / 2 * u - nu / 2 * torch.exp(-u) + math.log(0.2)
    s = torch.exp(u)
    m, n = x.shape[1], y.shape[1]
    mean_x, mean_y = x.mean(1)[:, None, :, None], y.mean(1)[:, None, :, None]  # (pair, kernel, axis, node)
    square_x, square_y = (((t - t.mean(1, keepdim=True)) ** 2).sum(1)[:, None, :, None] for t in (x, y))
    at = centres[None, :, :, None]

    def ln_contrasts(square: Tensor, var: Tensor, number: int) -> Tensor:
        return -0.5 * (square / var + number * torch.log(2 * math.pi * var))

    def ln_normal(a: Tensor, var: Tensor) -> Tensor:
        return -0.5 * (a**2 / var + torch.log(2 * math.pi * var))

    def total(terms: list[Tensor]) -> Tensor:
        return torch.logsumexp(torch.stack(terms), 0)

    def axes(ln: Tensor, weight: Tensor) -> Tensor:
        """Integrated over s on each axis, and summed over kernels."""
        return weight + torch.logsumexp(torch.logsumexp(ln + ln_prior, -1).sum(-1), -1) - math.log(ln.shape[1])

    scatters = list(zip([math.exp(v) for v in LN_SCATTER], ln_omega, strict=True))
    joint, squares, alone = [], [], []
    for of, square, number in ((mean_x, square_x, m), (mean_y, square_y, n)):
        terms = [ln_contrasts(square, t * s, number - 1) for t, _ in scatters]
        f = [ln_normal(of - at, b + t * s / number) for t, _ in scatters]
        p = total([axes(a + c, w) for a, c, (_, w) in zip(terms, f, scatters, strict=True)])
        alone.append((p, total([axes(a, w) for a, (_, w) in zip(terms, scatters, strict=True)])))
    for t_x, w_x in scatters:
        for t_y, w_y in scatters:
            d, e = t_x * s / m, t_y * s / n
            inside = ln_contrasts(square_x, t_x * s, m - 1) + ln_contrasts(square_y, t_y * s, n - 1)
            given = (e * (mean_x - at) + d * (mean_y - at)) / (d + e)
            both = ln_normal(mean_x - mean_y, d + e) + ln_normal(given, b + d * e / (d + e))
            joint.append(axes(inside + both, w_x + w_y))
            squares.append(axes(inside.expand_as(both), w_x + w_y))
    (p_x, s_x), (p_y, s_y) = alone
    return total(joint) - total(squares) + s_x + s_y - p_x - p_y


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2), (6, 1)])
@pytest.mark.parametrize(("ratio", "most"), [(10.0, 0.25), (100.0, 0.12)])
def test_f_outside_of_the_integral(m: int, n: int, ratio: float, most: float) -> None:
    """The mean error of ln LR, over same-source and near different-source pairs, falls as sources differ more."""
    nu, width, axes, pairs = 8.0, 0.35, 3, 40
    model = simulated(
        axes, ratio, kernels=15, nu=nu, scatter_shape=6.0, contamination=1e-12, spike=1e-12, relatedness=1e-12,
        background=1e-12, width=width,
    )  # fmt: skip
    centres = math.sqrt(1 - width**2) * model.population.centres[0]
    rng = np.random.default_rng(int(ratio) + 10 * m + n)
    theta = centres[torch.from_numpy(rng.integers(15, size=pairs))].numpy()
    theta = theta + width * math.sqrt(ratio) * rng.normal(size=(pairs, axes))
    scatter = np.sqrt(nu / 2 / rng.gamma(nu / 2, size=(pairs, 1, axes)))
    x, y = (torch.from_numpy(theta[:, None] + scatter * rng.normal(size=(pairs, k, axes))) for k in (m, n))
    y[pairs // 2 :] += 2 * torch.from_numpy(rng.normal(size=(pairs - pairs // 2, 1, axes)))
    omega = ln_scatter_weights(model.tails.scatter_shape)[0]
    truth = exact(x, y, centres, width**2 * ratio, nu, omega)
    error = (ln_lr(model, x[None], y[None])[0] - truth).abs().mean()
    assert error < most

"""What the split into mean and difference costs when replicates are heavy-tailed, for any numbers of instances.

The law that the model stands for gives a source a scatter τ, and on each axis another, s ~ InvGamma(ν/2, ν/2), shared by all
of its instances. Given both, everything is normal. Summed over τ and integrated over s, with kernels between sources,

    p(x, y) = Σ_q ω_q Σ_k w_k ∏_axis ∫ N((x, y); μ_k, τ_q s w, b) π(s) ds,

which is computed here on a fine grid of s. The model takes f(z) out of the integral.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from lindley.models.robust.tails import LN_SCATTER, ln_scatter_weights
from tests.models.robust.test_model import make


def exact(
    x: Tensor, y: Tensor, centres: Tensor, b: Tensor, w: float, nu: float, ln_omega: Tensor, m: int, n: int
) -> Tensor:
    """ln LR of pairs (pair, axis), kernels of equal weight."""
    u = torch.linspace(-6, 10, 81).double()
    ln_prior = nu / 2 * math.log(nu / 2) - math.lgamma(nu / 2) - nu / 2 * u - nu / 2 * torch.exp(-u) + math.log(0.2)

    def ln_axes(a: Tensor, var: Tensor) -> Tensor:  # deviations (pair, kernel, axis, 1), variances (axis, node)
        return -0.5 * (a[..., None] ** 2 / var + torch.log(2 * math.pi * var))

    joint, trace, ref = [], [], []
    for ln_tau, ln_w in zip(LN_SCATTER, ln_omega, strict=True):
        s = math.exp(ln_tau) * torch.exp(u) * w
        z = (m * x + n * y) / (m + n)
        both = ln_axes((x - y)[:, None], s * (1 / m + 1 / n)) + ln_axes(z[:, None] - centres, b[:, None] + s / (m + n))
        for terms, found in (
            (joint, both),
            (trace, ln_axes(x[:, None] - centres, b[:, None] + s / m)),
            (ref, ln_axes(y[:, None] - centres, b[:, None] + s / n)),
        ):
            terms.append(ln_w + torch.logsumexp(torch.logsumexp(found + ln_prior, -1).sum(-1), -1))
    k = math.log(len(centres))
    parts = [torch.logsumexp(torch.stack(t), 0) - k for t in (joint, trace, ref)]
    return parts[0] - parts[1] - parts[2]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2), (10, 1)])
@pytest.mark.parametrize(("ratio", "most"), [(10.0, 0.2), (100.0, 0.04), (1000.0, 0.006)])
def test_error_of_the_split(m: int, n: int, ratio: float, most: float) -> None:
    """The mean error of ln LR, over same-source and near different-source pairs, falls as sources differ more."""
    axes, kernels, nu, alpha = 4, 40, 8.0, 6.0
    g = torch.Generator().manual_seed(int(ratio) + 10 * m + n)
    model = make(
        1, 1, axes, kernels, nu=nu, scatter_shape=alpha, contamination=1e-12, spike=1e-12, relatedness=1e-12,
        background=1e-12, narrow_weight=1e-12, width=0.35,
    )  # fmt: skip
    lam = torch.full((1, 1, axes), ratio).double()
    centres = torch.randn(1, kernels, axes, generator=g).double() * ratio**0.5
    plain = {"level": 0.0, "spread": 1.0, "slope": 0.0, "low": 0.0, "high": 0.0}
    model = replace(
        model,
        stabiliser=replace(model.stabiliser, **{k: torch.full((1, 1, axes), v).double() for k, v in plain.items()}),
        centre=torch.zeros(1, 1, axes).double(),
        projection=torch.eye(axes).double()[None],
        directions=torch.eye(axes).double()[None],
        var_within=torch.ones(1, 1, axes).double(),
        population=replace(
            model.population, centres=centres, var=lam, ln_weights=torch.full((1, kernels), -math.log(kernels)).double()
        ),
    )
    pairs = 100
    theta = centres[0, torch.randint(kernels, (pairs,), generator=g)] + 0.35 * ratio**0.5 * torch.randn(
        pairs, axes, generator=g
    )
    draws = np.random.default_rng(int(ratio) + 10 * m + n).gamma(nu / 2, size=(pairs, axes))
    scatter = (nu / 2) / torch.from_numpy(draws)
    x = theta + scatter.sqrt() / m**0.5 * torch.randn(pairs, axes, generator=g)
    y = theta + scatter.sqrt() / n**0.5 * torch.randn(pairs, axes, generator=g)
    y[pairs // 2 :] += 2 * torch.randn(pairs - pairs // 2, axes, generator=g)
    x, y = x.double(), y.double()
    omega = ln_scatter_weights(model.tails.scatter_shape)[0]
    truth = exact(x, y, centres[0], 0.35**2 * lam[0, 0], 1.0, nu, omega, m, n)
    found = model.ln_lr_given(x[None], y[None], m, n)[0]
    error = (found - truth).abs().mean()
    assert error < most

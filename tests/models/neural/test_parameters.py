from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.classical import fit_classical
from lindley.models.neural.parameters import Architecture, NeuralTwoLevel, OrthonormalKind, Parameters
from lindley.models.two_level import map_tensors, score
from tests.models import dense
from tests.models.test_classical import sources

EVERY = [Architecture(p, n, k) for p in ("single", "double") for n in (1, 2) for k in (1, 3)]  # type: ignore[arg-type]
IDS = [f"{a.projection}-n{a.within}-k{a.components}" for a in EVERY]


def perturbed(architecture: Architecture, seed: int, d: int = 3, runs: int = 2) -> NeuralTwoLevel:
    net = NeuralTwoLevel(architecture, Parameters.random(architecture, d, range(seed, seed + runs)))
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p += 0.4 * torch.randn(p.shape, generator=g, dtype=p.dtype)
    return net


def dense_ln_lr(net: NeuralTwoLevel, x: Tensor, y: Tensor) -> Tensor:
    """Per axis and component from its definition: Eq. 3, then bivariate normal densities."""
    p = net.mathematical()
    runs = []
    for r in range(len(x)):
        projection = p.q_between[r]
        if p.q_within is not None and p.var_whiten is not None:
            projection = p.q_within[r] @ torch.diag(p.var_whiten[r, 0] ** -0.5) @ projection
        u, v = x[r] @ projection, y[r] @ projection
        total = torch.zeros(len(u), len(v), dtype=x.dtype)
        for axis in range(u.shape[1]):
            d, e = p.var_within[r, 0, axis].view(1, 1), p.var_within[r, -1, axis].view(1, 1)
            pair, trace, ref = [], [], []
            for k in range(p.mean_between.shape[1]):
                mean, b = p.mean_between[r, k, axis].view(1), p.var_between[r, k, axis].view(1, 1)
                ln_w = p.ln_weights[r, k, axis]
                pair.append(
                    torch.stack([torch.stack([ln_w + dense.ln_pair(i, j, mean, b, d, e) for j in v[:, axis, None]])
                                 for i in u[:, axis, None]])
                )  # fmt: skip
                trace.append(torch.stack([ln_w + dense.ln_normal(i, mean, b + d) for i in u[:, axis, None]]))
                ref.append(torch.stack([ln_w + dense.ln_normal(j, mean, b + e) for j in v[:, axis, None]]))
            total = total + (
                torch.logsumexp(torch.stack(pair), 0)
                - torch.logsumexp(torch.stack(trace), 0)[:, None]
                - torch.logsumexp(torch.stack(ref), 0)[None, :]
            )
        runs.append(total)
    return torch.stack(runs)


@pytest.mark.parametrize("architecture", EVERY, ids=IDS)
def test_value_and_gradient_equal_the_dense_form(architecture: Architecture) -> None:
    net = perturbed(architecture, 3)
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 2, 3, 3, generator=g, dtype=torch.float64)
    fast, slow = net().ln_lr(x, y), dense_ln_lr(net, x, y)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    weight = torch.randn(fast.shape, generator=g, dtype=torch.float64)
    parameters = list(net.parameters())
    for a, b in zip(
        torch.autograd.grad((fast * weight).sum(), parameters),
        torch.autograd.grad((slow * weight).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("architecture", EVERY, ids=IDS)
def test_axes_sum_to_the_whole(architecture: Architecture) -> None:
    model = perturbed(architecture, 5)()
    x, y = torch.randn(2, 2, 4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    whole = model.ln_lr(x, y).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(model.ln_lr_pairs(x, y).sum(-1), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("architecture", EVERY, ids=IDS)
@pytest.mark.parametrize("ln_var", [-27.6, 27.6])
def test_finite_at_extremes(architecture: Architecture, ln_var: float) -> None:
    """Variances at 1e-12 and 1e12, instances 1e6 standard deviations away."""
    net = perturbed(architecture, 6)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.startswith("ln_var"):
                p.fill_(ln_var)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for distance in (1.0, 1e6):
        assert torch.isfinite(net().ln_lr(distance * x, -distance * x)).all()


def test_two_hundred_axes_and_one_item() -> None:
    model = perturbed(Architecture("double", 2), 7, d=200)()
    x = torch.randn(2, 1, 200, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.isfinite(model.ln_lr(x, x)).all()


@pytest.mark.parametrize("kind", get_args(OrthonormalKind))
def test_maximum_likelihood_start_of_a_double_projection_is_the_classical_model(kind: str) -> None:
    parts = [sources(seed, 60, 2, 4) for seed in (1, 2)]
    others = [sources(seed, 9, 2, 4) for seed in (3, 4)]
    architecture = Architecture("double", 1, orthonormal=kind, start="maximum-likelihood")  # type: ignore[arg-type]
    net = NeuralTwoLevel(architecture, Parameters.maximum_likelihood(architecture, parts))
    sides = [o.trace for o in others], [o.ref for o in others]
    with torch.no_grad():
        ours = score(net(), *sides)
    for a, b in zip(ours, score(fit_classical(parts, "normal"), *sides), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("architecture", EVERY, ids=IDS)
def test_a_training_can_begin_where_another_ended(architecture: Architecture) -> None:
    parameters = map_tensors(perturbed(architecture, 8).mathematical(), Tensor.detach)
    again = NeuralTwoLevel(architecture, parameters)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(again().ln_lr(x, x), parameters.two_level().ln_lr(x, x), rtol=1e-9, atol=1e-9)


def test_a_start_must_fit() -> None:
    with pytest.raises(LindleyError, match="does not fit the architecture"):
        NeuralTwoLevel(Architecture("double"), Parameters.random(Architecture("single"), 3, [0]))
    with pytest.raises(LindleyError, match="does not fit the architecture"):
        NeuralTwoLevel(Architecture("single", 1), Parameters.random(Architecture("single", 2), 3, [0]))
    with pytest.raises(ValueError, match="at least one component"):
        Architecture(components=0)

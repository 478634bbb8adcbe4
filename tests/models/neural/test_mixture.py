"""A Gaussian mixture per axis: against dense densities, in value and gradient, and the laws of an LR."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from lindley.models.between import NormalBetween
from lindley.models.neural.parameters import MixtureBetween
from tests.models import dense, test_between

LAW = ("means", "var", "ln_weights")
DATA = ("x", "y", "d", "e")


def draw(seed: int, runs: int, n: int, m: int, components: int, axes: int) -> dict[str, Tensor]:
    p = test_between.draw(seed, runs, n, m, components, axes)
    g = torch.Generator().manual_seed(seed + 1_000_000)
    shape = (
        2,
        runs,
        components,
        axes,
    )  # unlike a kernel, a component has a variance and a weight of its own on every axis
    var, logits = torch.randn(*shape, generator=g, dtype=torch.float64)
    return {**{k: p[k] for k in DATA}, "means": p["centres"], "var": var.exp(), "ln_weights": logits.log_softmax(1)}


def law(p: dict[str, Tensor]) -> MixtureBetween:
    return MixtureBetween(*(p[name] for name in LAW))


def data(p: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return p["x"], p["y"], p["d"], p["e"]


def dense_axis(p: dict[str, Tensor], run: int, axis: int, x: Tensor, y: Tensor) -> Tensor:
    """ln LR of two numbers: one- and two-dimensional normal densities of every component."""
    d, e = (p[name][run, :, axis, None] for name in ("d", "e"))
    joint, trace, ref = [], [], []
    for k in range(p["means"].shape[1]):
        mean, b = p["means"][run, k, axis][None], p["var"][run, k, axis][None, None]
        joint.append(dense.ln_pair(x[None], y[None], mean, b, d, e))
        trace.append(dense.ln_normal(x[None], mean, b + d))
        ref.append(dense.ln_normal(y[None], mean, b + e))
    weights = p["ln_weights"][run, :, axis]
    pair, left, right = (torch.logsumexp(torch.stack(t) + weights, 0) for t in (joint, trace, ref))
    return pair - left - right


def dense_ln_lr(p: dict[str, Tensor]) -> Tensor:
    """(run, traces, refs, axis)."""
    runs, n, axes = p["x"].shape
    m = p["y"].shape[1]
    terms = [
        dense_axis(p, r, a, p["x"][r, i, a], p["y"][r, j, a])
        for r in range(runs)
        for i in range(n)
        for j in range(m)
        for a in range(axes)
    ]
    return torch.stack(terms).reshape(runs, n, m, axes)


@pytest.mark.parametrize(("runs", "components", "axes"), [(1, 1, 1), (2, 3, 2), (1, 5, 4)])
def test_value_and_gradient_equal_the_dense_form(runs: int, components: int, axes: int) -> None:
    p = draw(runs + 7 * axes, runs, 3, 2, components, axes)
    used = [tensor.requires_grad_() for tensor in p.values()]
    fast, slow = law(p).ln_lr(*data(p)), dense_ln_lr(p).sum(-1)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    seed = torch.randn(fast.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for a, b in zip(
        torch.autograd.grad((fast * seed).sum(), used), torch.autograd.grad((slow * seed).sum(), used), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_every_axis_equals_the_dense_form_and_they_sum_to_the_omnibus() -> None:
    p = draw(2, 2, 3, 3, 4, 3)
    between, expected = law(p), dense_ln_lr(p)
    x, y, d, e = data(p)
    per_axis = between.ln_lr_pairs(x.repeat_interleave(y.shape[1], 1), y.repeat(1, x.shape[1], 1), d, e)
    per_axis = per_axis.unflatten(1, (x.shape[1], y.shape[1]))
    torch.testing.assert_close(per_axis, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(between.ln_lr(*data(p)), per_axis.sum(-1), rtol=1e-12, atol=1e-12)
    pairs = between.ln_lr_pairs(*data(p))  # (run, pairs, axis)
    torch.testing.assert_close(pairs, torch.einsum("riia->ria", expected), rtol=1e-10, atol=1e-10)


@given(st.integers(0, 10_000))
def test_one_component_is_the_normal_law(seed: int) -> None:
    p = draw(seed, 2, 4, 4, 1, 3)
    mixture, normal = law(p), NormalBetween(p["means"], p["var"])
    for method in ("ln_lr", "ln_lr_pairs"):
        torch.testing.assert_close(getattr(mixture, method)(*data(p)), getattr(normal, method)(*data(p)))


@given(st.integers(0, 10_000))
def test_equal_components_are_one_and_an_empty_one_is_none(seed: int) -> None:
    p = draw(seed, 1, 4, 3, 1, 2)
    expected = law(p).ln_lr(*data(p))
    doubled = p | {name: p[name].repeat(1, 2, 1) for name in LAW}
    doubled["ln_weights"] = torch.log(torch.tensor([0.3, 0.7], dtype=torch.float64))[None, :, None].expand(1, 2, 2)
    torch.testing.assert_close(law(doubled).ln_lr(*data(p)), expected)
    empty = doubled | {"means": torch.cat([p["means"], p["means"] + 5], 1)}
    empty["ln_weights"] = torch.tensor([0.0, -torch.inf], dtype=torch.float64)[None, :, None].expand(1, 2, 2)
    torch.testing.assert_close(law(empty).ln_lr(*data(p)), expected)


@given(st.integers(0, 10_000))
def test_signs_order_and_symmetry(seed: int) -> None:
    """Axes may be flipped and reordered, components reordered, and trace and ref swapped."""
    p = draw(seed, 1, 4, 3, 3, 4)
    ln_lr = law(p).ln_lr(*data(p))
    rng = np.random.default_rng(seed)
    order, sign = torch.from_numpy(rng.permutation(4)), torch.from_numpy(rng.choice([-1.0, 1.0], 4))
    moved = {name: (t * sign if name in ("x", "y", "means") else t)[..., order] for name, t in p.items()}
    torch.testing.assert_close(law(moved).ln_lr(*data(moved)), ln_lr)
    components = torch.from_numpy(rng.permutation(3))
    renamed = p | {name: p[name][:, components] for name in LAW}
    torch.testing.assert_close(law(renamed).ln_lr(*data(p)), ln_lr)
    torch.testing.assert_close(law(p).ln_lr(p["y"], p["x"], p["e"], p["d"]).mT, ln_lr)


@given(st.integers(0, 10_000))
def test_llr_vanishes_as_the_within_variance_grows(seed: int) -> None:
    p = draw(seed, 1, 4, 3, 3, 3)
    assert law(p).ln_lr(p["x"], p["y"], 1e10 * p["d"], 1e10 * p["e"]).abs().max() < 1e-6


def test_the_lr_averages_to_one_over_different_sources() -> None:
    """∫ p(x, y) dy = p(x), so ∫ LR(x, y) p(y) dy = 1."""
    p = draw(8, 1, 3, 1, 3, 1)
    grid = torch.linspace(-60, 60, 40_001, dtype=torch.float64)[None, :, None]
    density = torch.logsumexp(_components(p, grid), 1).exp()
    lr = law(p).ln_lr(p["x"], grid, p["d"], p["e"]).exp()[0]
    torch.testing.assert_close(
        torch.trapezoid(lr * density, grid[0, :, 0]), torch.ones(3, dtype=torch.float64), rtol=1e-8, atol=1e-8
    )


def _components(p: dict[str, Tensor], grid: Tensor) -> Tensor:
    """ln w_k N(y; μ_k, b_k + e), (1, component, grid)."""
    total = p["var"] + p["e"]
    return p["ln_weights"] - 0.5 * ((grid.mT - p["means"]) ** 2 / total + (2 * torch.pi * total).log())


@pytest.mark.parametrize(
    ("within", "distance", "axes"), [(1e-12, 1.0, 3), (1e12, 1.0, 3), (1.0, 1e6, 3), (1.0, 3.0, 200)]
)
def test_finite_at_extremes(within: float, distance: float, axes: int) -> None:
    """Value and gradient; all components may be as far away as they like."""
    p = draw(1, 1, 6, 6, 3, axes)
    used = [p[name].requires_grad_() for name in LAW]
    arguments = distance * p["x"], distance * p["y"], within * p["d"], within * p["e"]
    ln_lr = law(p).ln_lr(*arguments)
    assert torch.isfinite(ln_lr).all()
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(ln_lr.sum(), used))

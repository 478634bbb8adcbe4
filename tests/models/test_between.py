"""The fast forms equal the dense ones, in value and in gradient, and keep the laws of an LR."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from lindley.models.between import Between, KernelBetween, NormalBetween
from lindley.models.oracle import ScaleMixture, inverse_gamma_nodes
from tests.models import dense

KINDS = ["normal", "kernel"]


def draw(seed: int, runs: int, n: int, m: int, kernels: int, axes: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return {
        "x": 2 * normal(runs, n, axes),
        "y": 2 * normal(runs, m, axes),
        "centres": 2 * normal(runs, kernels, axes),
        "var": normal(runs, 1, axes).exp(),
        "d": normal(runs, 1, axes).exp(),
        "e": normal(runs, 1, axes).exp(),
        "ln_weights": torch.log_softmax(normal(runs, kernels), -1),
    }


def law(kind: str, p: dict[str, Tensor]) -> Between:
    if kind == "normal":
        return NormalBetween(p["centres"][:, :1], p["var"])
    return KernelBetween(p["centres"], p["var"], p["ln_weights"])


def dense_ln_lr(kind: str, p: dict[str, Tensor]) -> Tensor:
    results = []
    for r in range(len(p["x"])):
        centres, weights = p["centres"][r], p["ln_weights"][r]
        if kind == "normal":
            centres, weights = centres[:1], torch.zeros(1, dtype=torch.float64)
        diagonals = [torch.diag(p[name][r, 0]) for name in ("var", "d", "e")]
        results.append(dense.all_pairs(p["x"][r], p["y"][r], centres, weights, *diagonals))
    return torch.stack(results)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("runs", "axes"), [(1, 1), (3, 4), (2, 12)])
def test_value_and_gradient_equal_the_dense_form(kind: str, runs: int, axes: int) -> None:
    p = draw(7 * axes + runs, runs, 4, 3, 5, axes)
    for tensor in p.values():
        tensor.requires_grad_()
    used = [t for name, t in p.items() if kind == "kernel" or name != "ln_weights"]
    fast, slow = law(kind, p).ln_lr(p["x"], p["y"], p["d"], p["e"]), dense_ln_lr(kind, p)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    seed = torch.randn(fast.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for a, b in zip(
        torch.autograd.grad((fast * seed).sum(), used),
        torch.autograd.grad((slow * seed).sum(), used),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_ln_lr_is_joint_over_marginals(kind: str) -> None:
    p = draw(3, 2, 6, 5, 7, 4)
    between = law(kind, p)
    marginals = between.ln_marginal(p["x"], p["d"])[..., :, None] + between.ln_marginal(p["y"], p["e"])[..., None, :]
    if isinstance(between, NormalBetween):
        left, right = between.ln_joint_factors(p["x"], p["y"], p["d"], p["e"])
        joint = left @ right.mT
    else:
        joint = between.ln_joint(p["x"], p["y"], p["d"], p["e"])
    expected = joint - marginals
    torch.testing.assert_close(between.ln_lr(p["x"], p["y"], p["d"], p["e"]), expected, rtol=1e-11, atol=1e-11)


def test_marginal_integrates_to_one() -> None:
    p = draw(5, 1, 1, 1, 4, 1)
    grid = torch.linspace(-40, 40, 200_001, dtype=torch.float64)[None, :, None]
    for kind in KINDS:
        density = law(kind, p).ln_marginal(grid, p["d"]).exp()[0]
        assert torch.trapezoid(density, grid[0, :, 0]).item() == pytest.approx(1.0, abs=1e-9)


def test_underflow_is_redone_exactly() -> None:
    """Narrow kernels far apart: every term of the product of exponentials is zero, the LLR is not."""
    p = draw(11, 2, 6, 5, 9, 3)
    p |= {"x": p["x"] * 60, "y": p["y"] * 60, "centres": p["centres"] * 40, "var": p["var"] * 1e-3}
    between = law("kernel", p)
    assert isinstance(between, KernelBetween)
    lower, upper = between.ln_joint_bounds(p["x"], p["y"], p["d"], p["e"])
    lost = torch.isinf(lower)
    assert lost.any()
    assert not lost.all()
    exact = between.ln_joint(p["x"], p["y"], p["d"], p["e"])
    assert (lower <= exact + 1e-9).all()
    assert (exact <= upper + 1e-9).all()
    fast = between.ln_lr(p["x"], p["y"], p["d"], p["e"])
    torch.testing.assert_close(fast, dense_ln_lr("kernel", p), rtol=1e-9, atol=1e-6)


def test_single_precision_underflows_earlier_and_is_redone_too() -> None:
    p = draw(11, 2, 6, 5, 9, 3)
    p |= {"x": p["x"] * 30, "y": p["y"] * 30, "centres": p["centres"] * 30, "var": p["var"] * 1e-2}
    double = law("kernel", p).ln_lr(p["x"], p["y"], p["d"], p["e"])
    p = {name: value.float() for name, value in p.items()}
    single = law("kernel", p).ln_lr(p["x"], p["y"], p["d"], p["e"])
    assert torch.isfinite(single).all()
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("terms", [1, 40, 100])
@pytest.mark.parametrize("far", [1.0, 60.0])
def test_few_kernels_at_a_time_change_nothing(terms: int, far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where terms underflow."""
    p = draw(11, 2, 6, 5, 9, 3)
    p |= {"x": p["x"] * far, "y": p["y"] * far, "centres": p["centres"] * far, "var": p["var"] / far**2}
    between = law("kernel", p)
    arguments = p["x"], p["y"], p["d"], p["e"]
    with torch.no_grad():
        whole = [between.ln_lr(*arguments), between.ln_marginal(p["x"], p["d"]), *between.ln_parts(*arguments)]
        monkeypatch.setattr("lindley.models.between.TERMS", terms)
        parts = [between.ln_lr(*arguments), between.ln_marginal(p["x"], p["d"]), *between.ln_parts(*arguments)]
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(parts[0], dense_ln_lr("kernel", p), rtol=1e-9, atol=1e-6)


def test_padding_kernels_change_nothing() -> None:
    p = draw(2, 2, 4, 4, 6, 3)
    padded = p | {
        "centres": torch.cat([p["centres"], torch.full((2, 3, 3), 1e3, dtype=torch.float64)], 1),
        "ln_weights": torch.cat([p["ln_weights"], torch.full((2, 3), -torch.inf, dtype=torch.float64)], 1),
    }
    for name in ("x", "y"):
        padded[name] = p[name] * 200  # far enough for the exact sum to be used too
        p[name] = padded[name]
    arguments = (p["x"], p["y"], p["d"], p["e"])
    torch.testing.assert_close(law("kernel", p).ln_lr(*arguments), law("kernel", padded).ln_lr(*arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_an_axis_without_between_variance(kind: str) -> None:
    """b = 0: sources do not differ on this axis, or only by their kernels."""
    p = draw(4, 1, 5, 5, 1, 2)
    p["var"] = torch.zeros_like(p["var"])
    ln_lr = law(kind, p).ln_lr(p["x"], p["y"], p["d"], p["e"])  # one source in the population: LR = 1
    torch.testing.assert_close(ln_lr, torch.zeros_like(ln_lr), rtol=0, atol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_signs_order_and_symmetry(seed: int, kind: str) -> None:
    """Flipping or reordering axes changes nothing; swapping trace and ref transposes, if they are measured alike."""
    p = draw(seed, 1, 4, 3, 5, 4)
    ln_lr = law(kind, p).ln_lr(p["x"], p["y"], p["d"], p["e"])
    g = np.random.default_rng(seed)
    order, sign = torch.from_numpy(g.permutation(4)), torch.from_numpy(g.choice([-1.0, 1.0], 4))
    moved = {k: v[..., order] if k != "ln_weights" else v for k, v in p.items()}
    for name in ("x", "y", "centres"):
        moved[name] = moved[name] * sign
    torch.testing.assert_close(law(kind, moved).ln_lr(*(moved[k] for k in ("x", "y", "d", "e"))), ln_lr)
    swapped = law(kind, p).ln_lr(p["y"], p["x"], p["e"], p["d"])
    torch.testing.assert_close(swapped.mT, ln_lr)


@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_llr_vanishes_as_the_within_variance_grows(seed: int, kind: str) -> None:
    p = draw(seed, 1, 4, 3, 5, 3)
    ln_lr = law(kind, p).ln_lr(p["x"], p["y"], 1e9 * p["d"], 1e9 * p["e"])
    assert ln_lr.abs().max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("within", "distance", "axes"), [(1e-12, 1.0, 3), (1e12, 1.0, 3), (1.0, 1e6, 3), (1.0, 3.0, 200)]
)
def test_finite_at_extremes(kind: str, within: float, distance: float, axes: int) -> None:
    p = draw(1, 1, 6, 6, 5, axes)
    ln_lr = law(kind, p).ln_lr(distance * p["x"], distance * p["y"], within * p["d"], within * p["e"])
    assert torch.isfinite(ln_lr).all()


def test_scale_mixture_equals_a_fine_dense_integral() -> None:
    """τ ~ InvGamma(3, 2) on a uniform fine grid of ln τ, pair by pair, against the few nodes of the mixture."""
    p = draw(9, 1, 5, 4, 6, 4)
    p["x"], p["y"] = 3 * p["x"], 3 * p["y"]
    mixture = ScaleMixture(
        KernelBetween(p["centres"], 0.01 * p["var"], p["ln_weights"]), *inverse_gamma_nodes(3.0, 2.0, 4)
    )
    fine = torch.linspace(-6, 16, 4000, dtype=torch.float64)
    ln_prior = 3 * math.log(2) - math.lgamma(3) - 3 * fine - 2 * torch.exp(-fine) + math.log(22 / 3999)
    reference = ScaleMixture(mixture.base, fine, ln_prior)
    arguments = (p["x"], p["y"], p["d"], p["e"])
    torch.testing.assert_close(mixture.ln_lr(*arguments), reference.ln_lr(*arguments), rtol=0, atol=1e-4)


def test_scale_mixture_brings_lost_terms_back_when_they_matter() -> None:
    """A single narrow node has no wide one to decide the sum: the exact form must be used."""
    p = draw(11, 1, 6, 5, 9, 3)
    p |= {"x": p["x"] * 60, "y": p["y"] * 60, "centres": p["centres"] * 40, "var": p["var"] * 1e-3}
    base = law("kernel", p)
    assert isinstance(base, KernelBetween)
    zero = torch.zeros(1, dtype=torch.float64)
    arguments = (p["x"], p["y"], p["d"], p["e"])
    assert torch.isinf(base.ln_joint_bounds(*arguments)[0]).any()
    torch.testing.assert_close(ScaleMixture(base, zero, zero).ln_lr(*arguments), base.ln_lr(*arguments))


@pytest.mark.parametrize("axes", [2, 12])
def test_scale_mixture_leaves_out_only_what_cannot_matter(axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pairs near and far, the sum is that over all nodes, though narrow ones are asked of a few pairs alone."""
    p = draw(3, 2, 24, 20, 30, axes)
    p |= {"centres": 30 * p["centres"], "x": 30 * p["x"], "y": 30 * p["y"], "var": 0.1 * p["var"]}
    p["y"][:, ::7] = p["x"][:, :20:7] + 0.3 * p["y"][:, ::7] / 30
    base = KernelBetween(p["centres"], p["var"], p["ln_weights"])
    nodes, ln_weights = inverse_gamma_nodes(3.0, 2.0, axes)
    x, y, d, e = (p[name] for name in ("x", "y", "d", "e"))
    scatter_x, scatter_y = (draw(4, len(nodes), 2, 2, 1, n)["x"] for n in (24, 20))
    scatter = scatter_x[..., None] + scatter_y[..., None, :]
    every = [base.ln_joint(x, y, d * t, e * t) + w for t, w in zip(nodes.exp(), ln_weights, strict=True)]
    alone: list[int] = []
    by_pair = KernelBetween.ln_joint_given
    monkeypatch.setattr(
        KernelBetween, "ln_joint_given", lambda law, x, *rest: (alone.append(x.shape[1]), by_pair(law, x, *rest))[1]
    )
    found = ScaleMixture(base, nodes, ln_weights).ln_joint(x, y, d, e, scatter_x, scatter_y)
    torch.testing.assert_close(found, torch.logsumexp(torch.stack(every) + scatter, 0), rtol=1e-12, atol=1e-11)
    assert 0 < sum(alone) < 0.2 * len(nodes) * found.numel()
    with_gradient = ScaleMixture(base, nodes, ln_weights).ln_joint(
        x.clone().requires_grad_(), y, d, e, scatter_x, scatter_y
    )
    torch.testing.assert_close(found, with_gradient.detach(), rtol=1e-12, atol=1e-11)

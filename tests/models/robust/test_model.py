"""The robust model: its fast forms equal the dense one, and it keeps the laws of an LR."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from lindley.llrs import LN10
from lindley.models.between import KernelBetween, ln_sum_of_products
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.model import Robust, Tails
from lindley.models.robust.population import Population
from lindley.models.two_level import score
from lindley.table.splits import Side
from tests.models.robust import dense as robust_dense


def make(seed: int = 0, runs: int = 2, axes: int = 4, kernels: int = 6, **scalars: float) -> Robust:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    def scalar(name: str, value: float) -> Tensor:
        return torch.full((runs, 1, 1), scalars.get(name, value), dtype=torch.float64) * (
            1 if name in scalars else torch.exp(0.1 * normal(runs, 1, 1))
        )

    projection = 3 * normal(runs, axes, axes)
    lam = 10 * torch.exp(normal(runs, 1, axes))
    ln_weights = torch.log_softmax(normal(runs, kernels), -1)
    ln_weights[0, -1] = -torch.inf  # padding
    return Robust(
        stabiliser=Stabiliser(
            level=normal(runs, 1, axes),
            spread=torch.exp(0.2 * normal(runs, 1, axes)),
            slope=torch.where(torch.arange(axes) % 2 == 0, 0.0, 0.3 * normal(runs, 1, axes)),
            low=torch.full((runs, 1, axes), -2.0, dtype=torch.float64),
            high=torch.full((runs, 1, axes), 2.0, dtype=torch.float64),
        ),
        centre=0.1 * normal(runs, 1, axes),
        projection=projection,
        var_within=torch.exp(0.2 * normal(runs, 1, axes)),
        directions=projection / projection.norm(dim=-1, keepdim=True),
        population=Population(
            centres=normal(runs, kernels, axes) * lam.sqrt(),
            ln_weights=ln_weights,
            var=lam,
            width=scalar("width", 0.35),
            narrow_width=scalar("narrow_width", 0.08),
            narrow_weight=scalar("narrow_weight", 0.1),
            background=scalar("background", 0.1),
        ),
        tails=Tails(
            nu=scalar("nu", 8.0),
            scatter_shape=scalar("scatter_shape", 6.0),
            contamination=scalar("contamination", 0.003),
            spike=scalar("spike", 0.01),
            second_spike=scalar("second_spike", 0.1),
            relatedness=scalar("relatedness", 0.001),
            variants=scalar("variants", 0.1),
            batch_var=scalar("batch_var", 0.01),
        ),
    )


def items(model: Robust, n: int, seed: int, scale: float = 1.0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    shape = (len(model.centre), n, model.centre.shape[-1])
    return scale * torch.randn(shape, generator=g, dtype=torch.float64)


def leaves(value: object) -> list[tuple[object, str]]:
    """Every tensor field of a nested dataclass, as its owner and its name."""
    found: list[tuple[object, str]] = []
    assert is_dataclass(value)
    for f in fields(value):
        inner = getattr(value, f.name)
        found += [(value, f.name)] if isinstance(inner, Tensor) else leaves(inner)
    return found


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (5, 1)])
@pytest.mark.parametrize(("runs", "axes"), [(1, 1), (2, 4), (1, 18)])
def test_value_and_gradient_equal_the_dense_form(runs: int, axes: int, m: int, n: int) -> None:
    model = make(axes, runs, axes)
    model = model.map(lambda t: t.clone().requires_grad_())
    trace = items(model, 3, 1, 0.5)
    ref = torch.cat([trace[:, :1] + 0.05 * items(model, 1, 2), items(model, 1, 3, 0.5)], 1)
    fast, slow = model.ln_lr(trace, ref, m, n), robust_dense.all_pairs(model, trace, ref, m, n)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    seed = torch.randn(fast.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    named = [(owner, name) for owner, name in leaves(model) if name not in ("low", "high", "level", "spread", "slope")]
    tensors = [getattr(owner, name) for owner, name in named]
    for (_, name), a, b in zip(
        named,
        torch.autograd.grad((fast * seed).sum(), tensors, allow_unused=True),
        torch.autograd.grad((slow * seed).sum(), tensors, allow_unused=True),
        strict=True,
    ):
        if a is None or b is None:  # one feature has no second spike
            assert a is b is None
            assert (axes, name) == (1, "second_spike")
            continue
        known = torch.isfinite(getattr(_, name))
        torch.testing.assert_close(
            a[known], b[known], rtol=1e-8, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2)])
def test_all_pairs_equal_given_pairs(m: int, n: int) -> None:
    model = make(3, 2, 5)
    trace, ref = items(model, 7, 1), items(model, 7, 2)
    given_pairs = model.ln_lr_given(trace, ref, m, n)
    torch.testing.assert_close(torch.diagonal(model.ln_lr(trace, ref, m, n), dim1=1, dim2=2), given_pairs)


def test_blocks_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(3, 2, 5)
    trace, ref = items(model, 13, 1), items(model, 11, 2)
    whole = model.ln_lr(trace, ref)
    monkeypatch.setattr("lindley.models.robust.model.BLOCK", 30)
    monkeypatch.setattr("lindley.models.robust.population.TERMS", 20)
    torch.testing.assert_close(model.ln_lr(trace, ref), whole, rtol=1e-12, atol=1e-12)


def test_similarity_over_typicality() -> None:
    model = make(4)
    trace, ref = items(model, 5, 1), items(model, 6, 2)
    similarity, typicality = model.ln_parts_on_axes(trace, ref, 2, 1)
    torch.testing.assert_close(similarity - typicality, model.ln_lr(trace, ref, 2, 1))
    dense = robust_dense.Dense(model, 0)
    x, y = model.project(trace)[0, 1], model.project(ref)[0, 4]
    h1, h2 = dense.ln_h1_h2(x, y, 2, 1)
    torch.testing.assert_close(similarity[0, 1, 4], h1 - dense.ln_p(y, 1))
    torch.testing.assert_close(typicality[0, 1, 4], h2 - dense.ln_p(y, 1))


def test_densities_in_the_features_integrate_as_those_on_the_axes() -> None:
    """p(features) = p(axes) · |∂axes/∂features|, by finite differences of the map."""
    model = make(4)
    trace, ref = items(model, 3, 1), items(model, 2, 2)
    for in_features, on_axes in zip(model.ln_parts(trace, ref), model.ln_parts_on_axes(trace, ref), strict=True):
        for run in range(len(trace)):
            for i in range(3):
                jacobian = torch.autograd.functional.jacobian(
                    lambda v, run=run: model.project(v.expand(len(trace), 1, -1))[run, 0], trace[run, i]
                )
                expected = on_axes[run, i] + torch.linalg.slogdet(jacobian).logabsdet
                torch.testing.assert_close(in_features[run, i], expected, rtol=1e-9, atol=1e-9)


def test_shares_of_axes_are_those_of_the_models_of_fewer_axes_and_sum_to_the_whole() -> None:
    model = make(5, 2, 5)
    trace, ref = items(model, 9, 1, 0.5), items(model, 9, 2, 0.5)
    shares = model.ln_lr_pairs(trace, ref, 2, 1)
    assert shares.shape == (2, 9, 5)
    torch.testing.assert_close(shares.sum(-1), model.ln_lr_given(trace, ref, 2, 1), rtol=1e-10, atol=1e-10)
    x, y = model.project(trace)[1, 3], model.project(ref)[1, 3]
    partial = []
    for k in (2, 3):
        dense = robust_dense.Dense(model, 1)
        dense.centres, dense.lam, dense.w = dense.centres[:, :k], dense.lam[:k], dense.w[:k]
        dense.u = dense.u[:, :k]
        partial.append(dense.ln_lr(x[:k], y[:k], 2, 1))
    torch.testing.assert_close(shares[1, 3, 2], partial[1] - partial[0])


def test_an_axis_integrated_out_is_an_axis_left_out() -> None:
    """∫∫ p(x, y | H) over the last axis is the density of the others: what gives the shares their meaning."""
    model = replace(make(6, 1, 2, contamination=1e-9, relatedness=0.01), projection=torch.eye(2).double()[None])
    model = replace(model, stabiliser=replace(model.stabiliser, slope=torch.zeros(1, 1, 2).double()))
    x, y = torch.tensor([0.4]).double(), torch.tensor([1.1]).double()
    grid = torch.linspace(-60, 60, 601).double()  # of values on the axes, before they are sent back to features
    sent = [
        model.stabiliser.level + model.stabiliser.spread * (model.centre + p)
        for p in (torch.stack([v.expand(601), grid], -1)[None] for v in (x, y))
    ]
    similarity, typicality = model.ln_parts_on_axes(*sent)
    ln_ref = model._at(model.project(sent[1]), 1)[1][:, None]
    fewer = next(model._leading())
    h1, h2 = fewer.ln_parts_on_axes(sent[0][:, :1], sent[1][:, :1])
    single = fewer._at(fewer.project(sent[1][:, :1]), 1)[1]
    for ln_pair, expected in ((similarity + ln_ref, h1 + single), (typicality + ln_ref, h2 + single)):
        integral = torch.logsumexp(ln_pair.flatten(), 0) + 2 * math.log(0.2)
        torch.testing.assert_close(integral, expected[0, 0, 0], rtol=0, atol=1e-3)


@given(st.integers(0, 10_000))
def test_trace_and_ref_may_change_places(seed: int) -> None:
    model = make(seed, 1, 3)
    trace, ref = items(model, 4, seed), items(model, 3, seed + 1)
    torch.testing.assert_close(model.ln_lr(trace, ref, 2, 3), model.ln_lr(ref, trace, 3, 2).mT, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10_000))
def test_signs_and_order_of_axes_change_nothing(seed: int) -> None:
    model = make(seed, 1, 4)
    trace, ref = items(model, 4, seed), items(model, 3, seed + 1)
    g = np.random.default_rng(seed)
    order, sign = torch.from_numpy(g.permutation(4)), torch.from_numpy(g.choice([-1.0, 1.0], 4))
    moved = replace(
        model,
        projection=(model.projection * sign)[..., order],
        directions=(model.directions * sign)[..., order],
        var_within=model.var_within[..., order],
        population=replace(
            model.population,
            centres=(model.population.centres * sign)[..., order],
            var=model.population.var[..., order],
        ),
    )
    torch.testing.assert_close(moved.ln_lr(trace, ref), model.ln_lr(trace, ref), rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10_000), st.floats(1e-4, 0.2))
def test_relatedness_bounds_the_lr(seed: int, rho: float) -> None:
    """Sources that are as alike as one is to itself are a quarter of the related ones: no LR is above 4/(ρ (1 − τ))."""
    model = make(seed, 1, 4, relatedness=rho, variants=0.1)
    trace = torch.cat([items(model, 6, seed, scale) for scale in (1.0, 30.0)], 1)
    trace[:, 6:, 1:] *= 0.01  # far from all sources, in one feature
    ref = trace + 1e-3 * items(model, 12, seed + 1)
    ref[:, ::3, 0] += 1.0
    bound = math.log(4 / (rho * 0.9))
    for m, n in ((1, 1), (2, 3)):
        assert float(model.ln_lr_given(trace, ref, m, n).max()) <= bound + 1e-9


def test_a_feature_that_is_off_leaves_the_others_their_say() -> None:
    """One feature far off, or two, costs no more than their rarity; three are beyond what a measurement does."""
    model = make(2, 1, 6, contamination=1e-9)
    trace = items(model, 1, 1, 0.3)
    off = torch.zeros(4, 6).double()
    for k, shift in enumerate((3.0, -4.0, 5.0)):
        # along a feature's direction on the axes: W e_f, brought back to features
        along = torch.linalg.lstsq(model.projection[0].T, model.directions[0, k]).solution
        off[k + 1 :] += 10 * shift * along
    ref = trace + (off * model.stabiliser.spread[0])[None]
    plain = replace(model, stabiliser=replace(model.stabiliser, slope=torch.zeros(1, 1, 6).double()))
    ln_lr = plain.ln_lr_given(trace.expand(1, 4, 6), ref)[0]
    without = replace(plain, tails=replace(plain.tails, spike=torch.full((1, 1, 1), 1e-300).double()))
    assert float(ln_lr[0]) > math.log(100)
    assert (ln_lr[1:3] > without.ln_lr_given(trace.expand(1, 4, 6), ref)[0, 1:3] + 3).all()
    assert (ln_lr.diff() < 0).all()


def test_without_tails_it_is_the_classical_kernel_model() -> None:
    """ν → ∞, no scatter, contamination, relatedness, background or narrow kernels: normal within, kernels between."""
    model = make(
        8,
        1,
        3,
        nu=1e7,
        scatter_shape=1e9,
        contamination=1e-300,
        spike=1e-300,
        relatedness=1e-300,
        background=1e-300,
        narrow_weight=1e-300,
    )
    node = math.exp(-1.4 + 1.1)  # the scatter law sits on the scale nearest to one
    trace, ref = items(model, 5, 1, 0.3), items(model, 4, 2, 0.3)
    x, y = model.project(trace), model.project(ref)
    kernel = KernelBetween(
        model.population.centres, model.population.width**2 * model.population.var, model.population.ln_weights
    )
    d = node * model.var_within
    torch.testing.assert_close(model.ln_lr(trace, ref), kernel.ln_lr(x, y, d, d), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("distance", [30.0, 1e3, 1e6])
def test_distant_pairs_are_finite_and_exact(distance: float) -> None:
    """Every product of exponentials underflows; a floor there would make nonsense of a heavy tail."""
    model = make(9, 1, 4, narrow_width=0.02)
    trace, ref = items(model, 5, 1, distance), items(model, 5, 2, distance)
    fast = model.ln_lr(trace, ref)
    assert torch.isfinite(fast).all()
    torch.testing.assert_close(fast, robust_dense.all_pairs(model, trace, ref), rtol=1e-9, atol=1e-6)


def test_a_sum_is_left_out_only_where_it_is_negligible() -> None:
    g = torch.Generator().manual_seed(0)
    a, c = (2000 * torch.randn(1, 30, 12, generator=g, dtype=torch.float64) for _ in range(2))
    exact = torch.logsumexp(a[:, :, None] + c[:, None], -1)
    threshold = torch.full_like(exact, 500.0)
    result = ln_sum_of_products(a, c, threshold)
    left_out = torch.isinf(result)
    assert left_out.any()
    assert (exact[left_out] < 500.0).all()
    torch.testing.assert_close(result[~left_out], exact[~left_out])


@pytest.mark.parametrize("axes", [1, 60, 300])
def test_finite_at_extremes(axes: int) -> None:
    model = make(1, 1, axes)
    trace = torch.cat([items(model, 3, 1), items(model, 2, 2, 1e12), torch.zeros(1, 1, axes, dtype=torch.float64)], 1)
    for m, n in ((1, 1), (1000, 1)):
        assert torch.isfinite(model.ln_lr(trace, trace, m, n)).all()


def test_score_works_on_it() -> None:
    model = make(2, 2, 3)
    sides = [
        Side(np.random.default_rng(r).normal(size=(5, 3)), np.array([0, 0, 1, 2, 2]), np.array(["a", "b", "c"]))
        for r in (0, 1)
    ]
    llr = score(model, sides, sides)
    mean = torch.from_numpy(np.stack([side.mean for side in sides]))
    expected = model.ln_lr(mean[:, :1], mean[:, 1:2], 2, 1)[:, 0, 0] / LN10
    assert [matrix[0, 1] for matrix in llr] == pytest.approx(expected.tolist(), rel=1e-10)


def test_a_stabiliser_is_monotone_and_undoes_a_trend_of_scatter() -> None:
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)[None, :, None]
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    for slope in (-1.0, 0.0, 0.4):
        u = Stabiliser(0 * one, one, slope * one, -2 * one, 3 * one)(x)
        assert (torch.diff(u[0, :, 0]) > 0).all()
        derivative = torch.diff(u[0, :, 0]) / 0.01
        inside = x[0, :-1, 0].clamp(-2, 3)
        torch.testing.assert_close(derivative, torch.exp(-slope * inside), rtol=0.02, atol=0)

"""The robust model keeps the laws of an LR; its limits are known models; its densities integrate to one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from lindley.llrs import LN10
from lindley.models.between import KernelBetween, ln_sum_of_products
from lindley.models.robust.eigenbasis import Stabiliser
from lindley.models.robust.model import Robust
from lindley.models.two_level import score
from lindley.table.splits import Side
from tests.models.robust.dense import Dense
from tests.models.robust.simulate import case, instances, items, ln_lr, make, plain, simulated

NUMBERS = [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2)]


# All pairs, given pairs, blocks.


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2)])
def test_all_pairs_equal_given_pairs(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(3, 2, 5)
    trace, ref = instances(model, 7, m, 1, 0.05), instances(model, 7, n, 2, 0.05)
    ref[:, :4] = trace[:, :4, :1] + 0.05 * instances(model, 4, n, 3)
    monkeypatch.setattr("lindley.models.robust.all_pairs.FEW", 3)
    monkeypatch.setattr("lindley.models.robust.all_pairs.FEW_IN_VIEWS", 3)  # given pairs, some at a time
    found = torch.diagonal(model.ln_lr(*case(model, trace, ref)), dim1=1, dim2=2)
    torch.testing.assert_close(found, ln_lr(model, trace, ref), rtol=1e-9, atol=1e-7)  # views of 1e-9 are left out
    monkeypatch.setattr("lindley.models.robust.all_pairs.LEAST_WEIGHT", -math.inf)
    found = torch.diagonal(model.ln_lr(*case(model, trace, ref)), dim1=1, dim2=2)
    torch.testing.assert_close(found, ln_lr(model, trace, ref), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("worth_all", [0, 100])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (3, 2)])
def test_items_that_are_in_many_given_pairs_have_the_lrs_of_pairs_by_themselves(
    m: int, n: int, worth_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items are seen once, and the law of sources is looked up at the means of all of them, or of the given pairs alone."""
    model = make(3, 2, 5)
    trace, ref = instances(model, 4, m, 1, 0.05), instances(model, 3, n, 2, 0.05)
    ref[:, 0] = trace[:, 0, :1] + 0.05 * instances(model, 1, n, 3)[:, 0]
    i, j = [2, 0, 0, 3, 1, 2, 0], [1, 0, 1, 2, 0, 1, 2]
    trace, ref = trace[:, i], ref[:, j]
    alone = torch.cat([ln_lr(model, trace[:, k : k + 1], ref[:, k : k + 1]) for k in range(len(i))], 1)
    monkeypatch.setattr("lindley.models.robust.all_pairs.WORTH_ALL", worth_all)
    monkeypatch.setattr("lindley.models.robust.all_pairs.FEW_IN_VIEWS", 60)
    with torch.inference_mode():
        found = model.ln_lr_given(*case(model, trace, ref))
    torch.testing.assert_close(found, alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2)])
def test_blocks_of_pairs_change_nothing(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(3, 2, 5)
    some = 13 if m == 1 else 4
    sides = case(model, instances(model, some, m, 1), instances(model, some - 1, n, 2))
    whole, parts = model.ln_lr(*sides), model.ln_parts(*sides)
    monkeypatch.setattr("lindley.models.robust.all_pairs.FEW", 0)  # which are computed at once, in all views
    torch.testing.assert_close(model.ln_lr(*sides), whole, rtol=1e-11, atol=1e-11)
    monkeypatch.setattr("lindley.models.robust.all_pairs.BLOCK", 30)
    monkeypatch.setattr("lindley.models.robust.all_pairs.REFS", 5)
    monkeypatch.setattr("lindley.models.robust.population.TERMS", 20)
    torch.testing.assert_close(model.ln_lr(*sides), whole, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(model.ln_parts(*sides), parts, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("m", "n"), [(1, 3), (2, 2), (2, 3), (5, 2)])
def test_a_pair_by_itself_has_the_lr_that_it_has_among_others(m: int, n: int) -> None:
    """A trace and a ref of different numbers of instances go through the same operations; among others, each side by itself."""
    model = make(3, 2, 5)
    traces, refs = instances(model, 3, m, 1), instances(model, 2, n, 2)
    refs[:, 0, 0, 1] += 50.0  # an instance with a feature that is off
    whole, parts = (ask(*case(model, traces, refs)) for ask in (model.ln_lr, model.ln_parts))
    for i in range(3):
        for j in range(2):
            alone = case(model, traces[:, i : i + 1], refs[:, j : j + 1])
            torch.testing.assert_close(model.ln_lr(*alone)[:, 0, 0], whole[:, i, j], rtol=1e-11, atol=1e-11)
            for found, part in zip(model.ln_parts(*alone), parts, strict=True):
                torch.testing.assert_close(found[:, 0, 0], part[:, i, j], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3)])
def test_no_traces_or_no_refs_have_no_pairs(m: int, n: int) -> None:
    model = make(3, 2, 5)
    trace, ref = items(model, 3, 1), items(model, 2, 2)
    assert model.ln_lr(trace[:, :0], ref, m, n).shape == (2, 0, 2)
    assert model.ln_lr(trace, ref[:, :0], m, n).shape == (2, 3, 0)


def test_views_that_are_left_out_change_only_lrs_that_are_tiny() -> None:
    """All pairs leave out views below 1e-9 of an item: an LR may change by that much of the largest one."""
    model = simulated(6)
    trace = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 40, 4, 6)))
    trace[:, 20:, 0, 0] += 140.0
    ref = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 40, 2, 6))) * 5
    found = torch.diagonal(model.ln_lr(*case(model, trace, ref)), dim1=1, dim2=2).exp()
    exact = ln_lr(model, trace, ref).exp()
    assert ((found - exact).abs() <= 1e-7 * exact + 1e-8 * model.ln_ceiling.exp()).all()


@pytest.mark.parametrize("bound", [500.0, 9000.0])
def test_a_sum_is_left_out_only_where_it_is_negligible(bound: float) -> None:
    """Exact above the bound, and below it where a sum comes out as less."""
    g = torch.Generator().manual_seed(0)
    a, c = (2000 * torch.randn(1, 30, 12, generator=g, dtype=torch.float64) for _ in range(2))
    exact = torch.logsumexp(a[:, :, None] + c[:, None], -1)
    result = ln_sum_of_products(a, c, torch.full_like(exact, bound))
    matters = exact >= bound
    assert matters.any()
    assert (~matters).any()
    torch.testing.assert_close(result[matters], exact[matters])
    assert (result[~matters] < bound).all()


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_the_population_between_two_items_is_that_at_their_sum(spread: float) -> None:
    """By products of halves, where kernels and background are near and where their ratio overflows."""
    law, error = make(4, 1, 3, 8).population, torch.full((1, 1, 3), 0.4).double()
    x, y = (spread * items(make(4, 1, 3), 9, seed) for seed in (1, 2))
    x[:, 0] = y[:, 0] = law.centres[:, 0] / 2
    found = law.ln_density_between(law.half(x, error), law.half(y, error))
    expected = law.ln_density((x[:, :, None] + y[:, None]).flatten(1, 2), error).reshape(1, 9, 9)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-7)


def test_score_hands_over_how_instances_scatter() -> None:
    model = make(2, 2, 3)
    rng = np.random.default_rng(0)
    item = np.array([2, 0, 1, 0, 2, 2])
    sides = [Side(rng.normal(size=(6, 3)), item, np.array(["a", "b", "c"])) for _ in range(2)]
    llr = score(model, sides, sides)
    values = torch.from_numpy(np.stack([side.values for side in sides]))
    for i in range(3):
        for j in range(3):
            expected = ln_lr(model, values[:, None, item == i], values[:, None, item == j])[:, 0] / LN10
            assert [matrix[i, j] for matrix in llr] == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (2, 3)])
def test_gradients_in_the_values_are_those_of_differences(m: int, n: int) -> None:
    """What the explanation of a case asks for; with a second feature off, and far apart."""
    model = make(6, 1, 3, 5, features=4)
    trace, ref = instances(model, 4, m, 1, 0.05, 0.3), instances(model, 4, n, 2, 0.05, 0.3)
    ref[:, :2] = trace[:, :2, :1] + 0.05 * instances(model, 2, n, 3)
    trace[:, 1, :, 0] += 2.0
    x, y, *others = case(model, trace, ref)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(model.ln_lr_given(x, y, *others).sum(), x)
    step = 1e-5
    with torch.no_grad():
        for feature in range(4):
            moved = step * torch.eye(4, dtype=torch.float64)[feature]
            there, here = (model.ln_lr_given(x + sign * moved, y, *others) for sign in (1, -1))
            torch.testing.assert_close(slope[..., feature], (there - here) / (2 * step), rtol=1e-4, atol=1e-4)


# Densities.


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3)])
def test_densities_in_the_features_are_those_on_the_axes_times_the_jacobian(m: int, n: int) -> None:
    """p(features) = p(axes) · |∂axes/∂features|, by differentiating the map at the mean."""
    model = make(4)
    sides = case(model, instances(model, 3, m, 1), instances(model, 2, n, 2))
    trace = sides[0]
    for in_features, on_axes in zip(model.ln_parts(*sides), model.ln_parts_on_axes(*sides), strict=True):
        for run in range(len(trace)):
            for i in range(3):
                jacobian = torch.autograd.functional.jacobian(
                    lambda v, run=run: model.project(v.expand(len(trace), 1, -1))[run, 0], trace[run, i]
                )
                expected = on_axes[run, i] + torch.linalg.slogdet(jacobian).logabsdet
                torch.testing.assert_close(in_features[run, i], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.sub(*model.ln_parts(*sides)), model.ln_lr(*sides), rtol=1e-9, atol=1e-9)


def test_fewer_axes_than_features_have_no_jacobian() -> None:
    model = make(4, 2, 3, features=5)
    sides = case(model, instances(model, 3, 2, 1), instances(model, 2, 1, 2))
    torch.testing.assert_close(model.ln_parts(*sides), model.ln_parts_on_axes(*sides), rtol=0, atol=0)


def pair_on_axes(model: Robust, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ln p(x, y | H1), ln p(x, y | H2) and ln p(x) of points (points, axis) of a model of one run."""
    of_x, of_y = model.items(x[None]), model.items(y[None])
    return *(t[0] for t in model.ln_pair(of_x, of_y, model.ln_seen_with((x + y)[None] / 2, 2))), of_x.ln_p[0]


class Draws:
    """Points of heavy-tailed laws on all scales, with their density: any density can be integrated over them."""

    def __init__(self, axes: int, least: float, most: float, seed: int, n: int) -> None:
        self.scales, self.axes, self.n = np.geomspace(least, most, 3), axes, n
        self.shares = np.array([0.7, 0.15, 0.15])
        self.rng = np.random.default_rng(seed)

    def points(self) -> Tensor:
        scale = self.rng.choice(self.scales, size=(self.n, self.axes), p=self.shares)
        return torch.from_numpy(scale * self.rng.standard_cauchy((self.n, self.axes)))

    def ln_density(self, x: Tensor) -> Tensor:
        """On each axis a mixture of Cauchy laws, whose product has tails above those of a joint Student-t law."""
        scale = torch.from_numpy(self.scales)
        terms = -math.log(math.pi) - scale.log() - torch.log1p((x[..., None] / scale) ** 2)
        return torch.logsumexp(terms + torch.from_numpy(self.shares).log(), -1).sum(-1)


def near_and_apart(axes: int, share: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x, y and the ln density of such draws; and points with theirs.

    One of x, y and their mean ``share`` · x + (1 − share) · y lies where sources are; the difference is on any scale.
    """
    n = 1 << 14 + 2 * axes
    where, apart = Draws(axes, 2.0, 60.0, 1, n), Draws(axes, 1.0, 80.0, 2, n)
    base, delta = where.points(), apart.points()
    ways = (0.0, share, 1.0)  # of the point that lies where sources are, on the way from y to x
    y = base - torch.from_numpy(np.random.default_rng(3).choice(ways, size=(len(base), 1))) * delta
    near = torch.logsumexp(torch.stack([where.ln_density(y + way * delta) for way in ways]), 0) - math.log(3)
    return y + delta, y, near + apart.ln_density(delta), base, where.ln_density(base)


def drawn_in(model: Robust) -> Robust:
    """With kernels nearer to the centre, where most draws are."""
    law = model.population
    return replace(model, population=replace(law, centres=0.4 * law.centres))


def assert_one(ln_p: Tensor, ln_draws: Tensor) -> None:
    """∫ p = 1, within four standard errors of the mean over draws."""
    ratio = (ln_p - ln_draws).exp()
    error = float(ratio.std()) / math.sqrt(len(ratio))
    assert error < 0.02
    assert float(ratio.mean()) == pytest.approx(1, abs=4 * error)


@pytest.mark.parametrize("axes", [1, 2])
def test_densities_of_single_instances_integrate_to_one(axes: int) -> None:
    """Of a pair under both hypotheses, and of one instance; two features off would be a little short of one."""
    model = drawn_in(plain(make(11, 1, axes, 3, contamination=0.2, spike=0.3, second_spike=1e-12, relatedness=0.1)))
    x, y, ln_draws, points, ln_points = near_and_apart(axes, 0.5)
    same, different, _ = pair_on_axes(model, x, y)
    assert_one(same, ln_draws)
    assert_one(different, ln_draws)
    assert_one(model.items(points[None]).ln_p[0], ln_points)


@pytest.mark.parametrize("axes", [1, 2])
def test_how_instances_scatter_is_as_probable_under_both_hypotheses(axes: int) -> None:
    """∫ p(x, y, S | H) over both means is p(S), for two instances against one and a few S."""
    model = drawn_in(plain(make(12, 1, axes, 3, contamination=0.1, spike=0.2, second_spike=1e-12, relatedness=0.1)))
    x, y, ln_draws, _, _ = near_and_apart(axes, 2 / 3)

    def ln_given_squares(x: Tensor, y: Tensor, half: float) -> Tensor:
        """ln p(x, y | S, H) of both hypotheses (2, points)."""
        scatter = torch.cat([torch.full((len(x), axes), s * half).double() for s in (1, -1)], -1)[None]
        of_x, of_y = model.views(x[None], (2,), scatter).one(0)[0], model.items(y[None])
        found = model.ln_pair(of_x, of_y, model.ln_seen_with((2 * x + y)[None] / 3, 3))
        return torch.cat(found) - of_x.ln_within

    for half in (0.2, 6.0):
        some = zip(*(side.split(1 << 12) for side in (x, y)), strict=True)  # as many as the cache holds
        for ln_p in torch.cat([ln_given_squares(*sides, half) for sides in some], 1):
            assert_one(ln_p, ln_draws)


# Limits.


@pytest.mark.parametrize(("m", "n"), NUMBERS)
def test_without_tails_it_is_the_classical_kernel_model(m: int, n: int) -> None:
    """ν, α → ∞, no background, nothing off and nobody related: normal within, kernels between."""
    model = make(
        8, 1, 3, nu=1e7, scatter_shape=1e9, contamination=1e-300, spike=1e-300, relatedness=1e-300, background=1e-300
    )
    node = math.exp(-1.4 + 1.1)  # the scatter law sits on the scale nearest to one
    trace, ref = instances(model, 5, m, 1, 0.1, 0.3), instances(model, 4, n, 2, 0.1, 0.3)
    ref[:, :2] = trace[:, :2, :1] + 0.1 * instances(model, 2, n, 3)
    x, y = (model.project(t.flatten(1, 2)).unflatten(1, t.shape[1:3]).mean(2) for t in (trace, ref))
    h = model.population.width
    kernel = KernelBetween(
        (1 - h**2).sqrt() * model.population.centres, h**2 * model.population.var, model.population.ln_weights
    )
    d = node * model.var_within
    found = model.ln_lr(*case(model, trace, ref))
    torch.testing.assert_close(found, kernel.ln_lr(x, y, d / m, d / n), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [0.05, 0.5, 0.95])
def test_the_population_keeps_its_variance(width: float) -> None:
    """Kernels over standard normal sources, drawn in and widened, have the variance of the sources, whatever the width."""
    model = simulated(2, 30.0, kernels=1000, width=width, background=1e-12)
    centres = model.population.centres - model.population.centres.mean(1, keepdim=True)
    centres = centres * (30 / (centres**2).mean(1, keepdim=True)).sqrt()
    law = replace(model.population, centres=centres)
    grid = torch.linspace(-40, 40, 161, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid)[None]
    density = law.ln_density(points, torch.full((1, 1, 2), 0.5).double()).exp()[0] * 0.25
    assert float(density.sum()) == pytest.approx(1, abs=1e-3)
    moments = (density[:, None] * points[0] ** 2).sum(0)
    torch.testing.assert_close(moments, torch.full((2,), 30.5).double(), rtol=5e-3, atol=0)


# Shares of axes.


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3)])
def test_shares_of_axes_are_those_of_the_models_of_fewer_axes_and_sum_to_the_whole(m: int, n: int) -> None:
    model = make(5, 2, 4)
    trace, ref = instances(model, 5, m, 1, 0.05, 0.5), instances(model, 5, n, 2, 0.05, 0.5)
    sides = case(model, trace, ref)
    shares = model.ln_lr_pairs(*sides)
    assert shares.shape == (2, 5, 4)
    torch.testing.assert_close(shares.sum(-1), model.ln_lr_given(*sides), rtol=1e-10, atol=1e-10)
    x, y = (model.project(t.flatten(1, 2)).unflatten(1, t.shape[1:3])[1, 3].numpy() for t in (trace, ref))
    partial = []
    for k in (2, 3):
        dense = Dense(model, 1)
        dense.kernels, dense.lam, dense.w = dense.kernels[:, :k], dense.lam[:k], dense.w[:k]
        dense.u, dense.var_kernel = dense.u[:, :k], dense.var_kernel[:k]
        partial.append(dense.ln_lr(x[:, :k], y[:, :k]))
    assert float(shares[1, 3, 2]) == pytest.approx(partial[1] - partial[0], abs=1e-9)


# Laws of an LR.


@given(st.integers(0, 10_000), st.sampled_from(NUMBERS))
@settings(max_examples=15)
def test_trace_and_ref_may_change_places(seed: int, numbers: tuple[int, int]) -> None:
    model = make(seed, 1, 3)
    trace, ref = instances(model, 4, numbers[0], seed), instances(model, 3, numbers[1], seed + 1)
    ref[:, 0] = trace[:, 0, :1]
    here, there = model.ln_lr(*case(model, trace, ref)), model.ln_lr(*case(model, ref, trace))
    torch.testing.assert_close(here, there.mT, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([(2, 3), (4, 1), (5, 5)]))
@settings(max_examples=15)
def test_the_order_of_instances_and_of_features_changes_nothing(seed: int, numbers: tuple[int, int]) -> None:
    model = make(seed, 1, 3, features=4)
    trace, ref = instances(model, 4, numbers[0], seed), instances(model, 4, numbers[1], seed + 1)
    ref[:, :2] = trace[:, :2, :1] + 0.2 * instances(model, 2, numbers[1], seed)
    trace[:, 1, 0, 2] += 10.0
    rng = np.random.default_rng(seed)
    order = torch.from_numpy(rng.permutation(4))
    moved = replace(
        model,
        stabiliser=Stabiliser(
            *(getattr(model.stabiliser, name)[..., order] for name in ("level", "spread", "slope", "low", "high"))
        ),
        centre=model.centre[..., order],
        projection=model.projection[:, order],
        directions=model.directions[:, order],
    )
    x, y = (t[:, :, rng.permutation(t.shape[2])][..., order] for t in (trace, ref))
    torch.testing.assert_close(ln_lr(moved, x, y), ln_lr(model, trace, ref), rtol=1e-8, atol=1e-8)


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_signs_and_order_of_axes_change_nothing(seed: int) -> None:
    model = make(seed, 1, 4)
    trace, ref = instances(model, 4, 2, seed), instances(model, 4, 1, seed + 1)
    g = np.random.default_rng(seed)
    order, sign = torch.from_numpy(g.permutation(4)), torch.from_numpy(g.choice([-1.0, 1.0], 4))
    moved = replace(
        model,
        projection=(model.projection * sign)[..., order],
        directions=(model.directions * sign)[..., order],
        var_within=model.var_within[..., order],
        var_related=model.var_related[..., order],
        population=replace(
            model.population,
            centres=(model.population.centres * sign)[..., order],
            var=model.population.var[..., order],
        ),
    )
    torch.testing.assert_close(ln_lr(moved, trace, ref), ln_lr(model, trace, ref), rtol=1e-8, atol=1e-8)


@given(st.integers(0, 10_000), st.sampled_from(NUMBERS), st.floats(1e-5, 0.1))
@settings(max_examples=20)
def test_relatedness_bounds_the_lr(seed: int, numbers: tuple[int, int], rho: float) -> None:
    """Two different sources may be as alike as one is to itself: no LR is above 1/ρ, however wild the values."""
    model = make(seed, 1, 4, relatedness=rho)
    m, n = numbers
    torch.testing.assert_close(model.ln_ceiling, torch.tensor([-math.log(rho)]).double())
    base = torch.cat([items(model, 4, seed, scale) for scale in (1.0, 30.0, 1e5)], 1)[:, :, None]
    base[:, 6:8, :, 1:] *= 0.01  # far from all sources, in one feature
    trace, ref = (base + 1e-3 * instances(model, 12, k, seed + k) for k in (m, n))
    ref[:, ::3, 0, 0] += 1.0
    assert float(ln_lr(model, trace, ref).max()) <= -math.log(rho) + 1e-9
    assert float(model.ln_lr(*case(model, trace, ref)).max()) <= -math.log(rho) + 1e-9


@pytest.mark.parametrize(("axes", "m", "n"), [(1, 1, 1), (300, 1, 1), (1, 3, 2), (60, 3, 2)])
def test_finite_at_extremes(axes: int, m: int, n: int) -> None:
    """Values 1e8 and 1e12 standard deviations off, at the centre, and identical ones."""
    model = make(1, 1, axes)
    base = torch.cat([items(model, 3, 1), items(model, 2, 2, 1e12), items(model, 2, 3, 1e8)], 1)
    base = torch.cat([base, torch.zeros(1, 1, axes, dtype=torch.float64)], 1)[:, :, None]
    base = base if m == 1 else base[:, 2::2]
    for spread in (0.0, 1e8):
        trace, ref = (base + spread * instances(model, base.shape[1], k, k, 1.0, 0.0) for k in (m, n))
        assert torch.isfinite(model.ln_lr(*case(model, trace, ref))).all()
        assert torch.isfinite(ln_lr(model, trace, ref)).all()
    means = base[:, :, 0]
    assert torch.isfinite(model.ln_lr(means, means, m, n)).all()  # without a scatter, they agree perfectly


@pytest.mark.parametrize("axes", [1, 2, 4, 10])
@pytest.mark.parametrize("distance", [30.0, 1e3, 1e6])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (4, 5)])
def test_an_identical_pair_far_out_is_never_evidence_against_one_source(
    axes: int, distance: float, m: int, n: int
) -> None:
    model = simulated(axes)
    far = distance * math.sqrt(30.0) * torch.ones(1, 1, 1, axes, dtype=torch.float64)
    trace, ref = far.expand(1, 1, m, axes), far.expand(1, 1, n, axes)
    assert float(ln_lr(model, trace, ref)) >= 0


@pytest.mark.parametrize("axes", [1, 3, 8])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (4, 5)])
def test_a_huge_difference_in_one_feature_is_evidence_against_one_source(axes: int, m: int, n: int) -> None:
    model = simulated(axes)
    trace, ref = (instances(model, 20, k, k, 1.0, 0.0) for k in (m, n))
    ref[..., 0] += 1e8
    assert (ln_lr(model, trace, ref) < 0).all()


def agreeing(model: Robust, pairs: int, m: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Same-source pairs of a plain model with normal replicates, (1, pair, instance, axis) each."""
    rng = np.random.default_rng(seed)
    axes = model.var_within.shape[-1]
    theta = rng.normal(size=(1, pairs, 1, axes)) * model.population.var.sqrt().numpy()[:, None]
    x, y = (torch.from_numpy(theta + rng.normal(size=(1, pairs, k, axes))) for k in (m, n))
    return x, y


@pytest.mark.parametrize("axes", [2, 4, 8, 30])
def test_one_instance_off_leaves_the_others_their_say_and_an_offset_of_all_does_not(axes: int) -> None:
    """140 standard deviations in one feature, of one of four instances or of all of them, against five of a ref."""
    model = simulated(axes, relatedness=1e-3)
    trace, ref = agreeing(model, 10, 4, 5, 1)
    assert (ln_lr(model, trace, ref) > 0).all()
    one, every = trace.clone(), trace.clone()
    one[:, :, 2, 1] += 140.0
    every[:, :, :, 1] += 140.0
    assert (ln_lr(model, one, ref) > 0).all()
    assert (ln_lr(model, every, ref) < 0).all()


def test_a_feature_that_is_off_leaves_the_others_their_say() -> None:
    """One feature far off, or two, costs no more than their rarity; three are beyond what a measurement does."""
    model = simulated(6, contamination=1e-9)
    trace = torch.zeros(1, 4, 1, 6, dtype=torch.float64)
    ref = trace.clone()
    for k, shift in enumerate((30.0, -40.0, 50.0)):
        ref[:, k + 1 :, :, k] += shift
    found = ln_lr(model, trace, ref)[0]
    without = replace(model, tails=replace(model.tails, spike=torch.full((1, 1, 1), 1e-300).double()))
    assert float(found[0]) > math.log(100)
    assert (found[1:3] > ln_lr(without, trace, ref)[0, 1:3] + 3).all()
    assert (found.diff() < 0).all()


def test_more_instances_tell_more() -> None:
    """In the mean: larger LRs of one source, up to the ceiling, and smaller ones of different sources."""
    model = simulated(3, 10.0, relatedness=1e-4)
    same, different = [], []
    for m, n in ((1, 1), (2, 2), (4, 4)):
        trace, ref = agreeing(model, 200, m, n, 2)
        same.append(float(ln_lr(model, trace, ref).mean()))
        other = ref.roll(1, 1)
        close = trace.mean(2, keepdim=True) - other.mean(2, keepdim=True)
        other = other + 0.5 * close  # sources that are near one another
        different.append(float(ln_lr(model, trace, other).mean()))
    assert same[0] < same[1] < same[2] < float(model.ln_ceiling)
    assert different[0] > different[1] > different[2]


def test_a_stabiliser_is_monotone_and_undoes_a_trend_of_scatter() -> None:
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)[None, :, None]
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    for slope in (-1.0, 0.0, 0.4):
        law = Stabiliser(0 * one, one, slope * one, -2 * one, 3 * one)
        u = law(x)
        assert (torch.diff(u[0, :, 0]) > 0).all()
        derivative = torch.diff(u[0, :, 0]) / 0.01
        inside = x[0, :-1, 0].clamp(-2, 3)
        torch.testing.assert_close(derivative, torch.exp(-slope * inside), rtol=0.02, atol=0)
        torch.testing.assert_close(law.ln_slope(x)[0, :-1, 0], -slope * inside, rtol=0, atol=1e-12)

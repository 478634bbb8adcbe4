"""The plain law of one run: against its equations, and as a law of probability."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.models.robust.law import FINEST_T, LEAST, LN_T, AllPairs, GivenPairs, Items, Law, Pairs
from tests.models.robust.dense import Dense, on_axes
from tests.models.robust.simulate import law

Floats = NDArray[np.float64]
SCALARS = ("scale", "shape", "spread", "width", "weight", "shared")


def ratios(plain: Law, x: Items, y: Items, pairs: Pairs) -> Tensor:
    """ln LR₀ and ln LR₋f (1 + feature, …)."""
    of_x, of_y = plain.see(x), plain.see(y)
    return torch.cat([plain.ln_ratio(of_x, of_y, pairs)[None], plain.ln_ratios_without(of_x, of_y, pairs)])


def drawn(n: int, m: int, axes: int, seed: int, scale: float = 2.0) -> Floats:
    """Items (item, measurement, axis), the first of which lie near those of every other seed."""
    rng, near = np.random.default_rng(seed), np.random.default_rng(99).normal(size=(n, 1, axes))
    where = scale * np.where(np.arange(n)[:, None, None] < n // 2, near, rng.normal(size=(n, 1, axes)))
    return where + 0.7 * rng.normal(size=(n, m, axes))


@pytest.mark.parametrize("kernels", [0, 4])
@pytest.mark.parametrize(("m", "n", "scatter"), [(1, 1, True), (2, 1, True), (3, 2, True), (3, 2, False)])
def test_the_ratios_are_those_of_dense_covariances(m: int, n: int, scatter: bool, kernels: int) -> None:
    plain = law(m + n, 3, 4, kernels)
    x, y = drawn(4, m, 3, 1), drawn(3, n, 3, 2)
    x[3, :, 0] += 40.0
    dense = Dense(plain, scatter=scatter)
    sides = on_axes(x, scatter=scatter), on_axes(y, scatter=scatter)
    of_all = ratios(plain, *sides, AllPairs())
    expected = [[[dense.ln_ratio(a, b) for b in y] for a in x]]
    expected += [[[dense.ln_without(a, b, f) for b in y] for a in x] for f in range(4)]
    np.testing.assert_allclose(of_all, expected, rtol=1e-9, atol=1e-9)
    of_mean = plain.ln_mean_without(*map(plain.see, sides), AllPairs())
    np.testing.assert_allclose(of_mean, [[dense.ln_mean_without(a, b) for b in y] for a in x], rtol=1e-9, atol=1e-9)
    # The same of given pairs, and of two sources that differ a little.
    some = slice(3)
    given = ratios(plain, on_axes(x[some], scatter=scatter), sides[1], GivenPairs())
    torch.testing.assert_close(given, of_all[:, some].diagonal(dim1=-2, dim2=-1), rtol=1e-10, atol=1e-10)
    usual, apart = (plain.ln_joint(*sides, AllPairs(), j) for j in (0.0, 0.2))
    gain = [[dense.ln_pair(a, b, apart=0.2) - dense.ln_pair(a, b) for b in y] for a in x]
    np.testing.assert_allclose(apart - usual, gain, rtol=1e-9, atol=1e-9)


def test_without_a_feature_items_that_have_nothing_in_common_are_held_at_a_floor() -> None:
    plain = law(2, 3, 4)
    x, y = drawn(4, 1, 3, 1), drawn(3, 1, 3, 2)
    x[2] += 1e4
    found = plain.ln_mean_without(*(plain.see(on_axes(side)) for side in (x, y)), AllPairs())
    assert (found[2] == LEAST).all()
    assert (found[[0, 1, 3]] > LEAST).all()


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 2), (3, 2)])
def test_what_a_difference_says_is_that_of_dense_covariances(m: int, n: int) -> None:
    plain, x, y = law(4, 3, 4), drawn(5, m, 3, 1), drawn(5, n, 3, 2)
    found = plain.ln_differences(on_axes(x), on_axes(y))
    dense = Dense(plain)
    expected = [[dense.ln_difference(a, b, f) for a, b in zip(x, y, strict=True)] for f in (None, *range(4))]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    there = plain.ln_differences(on_axes(x + 1e3), on_axes(y + 1e3))  # wherever the item lies
    torch.testing.assert_close(there, found, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kernels", [0, 4])
def test_its_gradient_is_that_of_differences(kernels: int) -> None:
    plain = law(3, 2, 3, kernels)
    sides = on_axes(drawn(3, 2, 2, 1)), on_axes(drawn(3, 1, 2, 2))

    def total(values: Tensor) -> Tensor:
        of_values = replace(plain, **dict(zip(SCALARS, values.unbind(), strict=True)))
        of_mean = of_values.ln_mean_without(*map(of_values.see, sides), AllPairs())
        return ratios(of_values, *sides, AllPairs()).sum() + of_mean.sum()

    at = torch.stack([getattr(plain, name) for name in SCALARS]).requires_grad_()
    assert torch.autograd.gradcheck(total, at, eps=1e-6, atol=1e-5)


# Integrals.


def grid(points: int, most: float = 7.0, scale: float = 0.3) -> tuple[Tensor, Tensor]:
    """Points of a line that is long and fine in the middle, and ln of their steps."""
    u = torch.linspace(-most, most, points, dtype=torch.float64)
    return scale * u.sinh(), (scale * u.cosh() * (u[1] - u[0])).log()


def integral(ln_density: Tensor, steps: Tensor, dimensions: int) -> float:
    """Of a density without its 2π."""
    return float((ln_density + steps - 0.5 * dimensions * math.log(2 * math.pi)).exp().sum())


@pytest.mark.parametrize("kernels", [0, 3])
@pytest.mark.parametrize("axes", [1, 2])
def test_the_density_of_an_item_integrates_to_one(axes: int, kernels: int) -> None:
    plain = law(5, axes, 2, kernels)
    line, steps = grid(241)
    points = torch.cartesian_prod(*[line] * axes).reshape(-1, axes)
    of_points = torch.cartesian_prod(*[steps] * axes).reshape(len(points), -1).sum(-1)
    assert integral(plain.see(Items(points)).ln_p[0], of_points, axes) == pytest.approx(1, abs=1e-4)
    for f, v in enumerate(plain.features):
        across = torch.tensor([[-v[-1], v[0]]]) if axes == 2 else torch.zeros(1, 1)
        on_line = Items((line[:, None] @ across.double()) if axes == 2 else torch.zeros(1, 1, dtype=torch.float64))
        found = integral(plain.see(on_line).ln_p[1 + f], steps if axes == 2 else torch.zeros(1), axes - 1)
        assert found == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kernels", [0, 3])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2)])
def test_the_density_of_a_pair_integrates_to_that_of_its_scatter(m: int, n: int, kernels: int) -> None:
    """∫ p(x, y, S | H1) over both means: on one axis, and on two at random points; without a feature, a little less."""
    plain = law(6, 1, 2, kernels)
    t = plain.scale * plain.ln_nodes(LN_T, FINEST_T).exp()
    ln_weight = torch.log_softmax(-plain.shape * ((t / plain.scale).log() + plain.scale / t), 0)

    def sides(x: Tensor, y: Tensor) -> tuple[Items, Items]:
        squares = (None if k == 1 else torch.full((len(x),), s).double() for k, s in ((m, 2.0), (n, 7.0)))
        return Items(x, m, next(squares)), Items(y, n, next(squares))

    def expected(axes: int) -> float:
        of_axes = replace(plain, var=torch.ones(axes).double())
        each = [of_axes.ln_scatter(side, t)[:, 0] for side in sides(t[:1, None], t[:1, None])]
        return float((ln_weight + sum(each)).logsumexp(0).exp())

    line, steps = grid(121)
    x, y = torch.cartesian_prod(line, line)[:, :1], torch.cartesian_prod(line, line)[:, 1:]
    of_points = torch.cartesian_prod(steps, steps).sum(-1)
    whole = plain.ln_joint(*sides(x, y), GivenPairs())
    assert integral(whole, of_points, 2) == pytest.approx(expected(1), rel=2e-4)
    two = law(6, 2, 2, kernels)
    v = two.features[0]
    across = torch.stack([-v[1], v[0]])[None]
    of_x, of_y = map(two.see, sides(x @ across, y @ across))
    found = two.ln_ratios_without(of_x, of_y, GivenPairs())[0] + of_x.ln_p[1] + of_y.ln_p[1]
    assert 0.8 * expected(2) < integral(found, of_points, 2) <= expected(2) * (1 + 2e-4)
    g = torch.Generator().manual_seed(0)
    cauchy = (math.pi * (torch.rand(2, 1 << 14, 2, generator=g, dtype=torch.float64) - 0.5)).tan()
    ln_drawn = -(math.log(math.pi) + (1 + cauchy**2).log()).sum((0, 2))
    delta, mean = 2 * cauchy[0], 3 * cauchy[1]
    share = two.worth(m) / (two.worth(m) + two.worth(n))
    found = two.ln_joint(*sides(mean + (1 - share) * delta, mean - share * delta), GivenPairs())
    ratio = (found - 2 * math.log(2 * math.pi) + math.log(36) - ln_drawn).exp() / expected(2)
    assert float(ratio.mean()) == pytest.approx(1, abs=4 * float(ratio.std()) / math.sqrt(len(ratio)))
    assert float(ratio.std()) / math.sqrt(len(ratio)) < 0.04


# What must not matter.


@pytest.mark.parametrize("kernels", [0, 4])
def test_places_orders_and_signs_change_nothing(kernels: int) -> None:
    plain = law(7, 4, 5, kernels)
    x, y = on_axes(drawn(6, 3, 4, 1)), on_axes(drawn(5, 2, 4, 2))
    here = ratios(plain, x, y, AllPairs())
    torch.testing.assert_close(ratios(plain, y, x, AllPairs()).mT, here, rtol=1e-10, atol=1e-10)
    rng = np.random.default_rng(0)
    axes, features, kernel = (torch.from_numpy(rng.permutation(k)) for k in (4, 5, kernels))
    sign = torch.tensor([1.0, -1, -1, 1]).double()
    turned = replace(
        plain,
        var=plain.var[axes],
        features=(plain.features * sign)[features][:, axes],
        kernels=(plain.kernels * sign)[kernel][:, axes],
    )
    a, b = (replace(side, mean=(side.mean * sign)[:, axes]) for side in (x, y))
    order = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + features])
    torch.testing.assert_close(ratios(turned, a, b, AllPairs()), here[order], rtol=1e-10, atol=1e-10)


def test_without_a_feature_its_value_does_not_matter() -> None:
    plain, x, y = law(9), on_axes(drawn(5, 3, 3, 1)), on_axes(drawn(4, 2, 3, 2))
    moved = replace(x, mean=x.mean + 30 * plain.features[1])
    before, after = (ratios(plain, side, y, AllPairs())[1:] for side in (x, moved))
    torch.testing.assert_close(after[1], before[1], rtol=1e-8, atol=1e-8)
    others = [0, 2, 3]
    assert (after[others].mean((1, 2)) < before[others].mean((1, 2)) - 3).all()


def test_measurements_of_one_item_are_worth_less_the_more_they_share() -> None:
    """g = 0: M independent ones; g = 1: one."""
    assert float(law(shared=1e-12).worth(4)) == pytest.approx(4)
    assert float(law(shared=1 - 1e-12).worth(4)) == pytest.approx(1)
    sure, shared = (law(2, 3, 4, 0, shared=g) for g in (0.01, 0.9))
    same = on_axes(np.zeros((1, 4, 3))), on_axes(np.full((1, 4, 3), 0.1))
    assert ratios(sure, *same, AllPairs())[0] > ratios(shared, *same, AllPairs())[0]

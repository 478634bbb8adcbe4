"""Varying within variance: the nodes against adaptive integration, the laws of an LR, and recovery."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from lindley.evaluation import cllr
from lindley.llrs import LLRs
from lindley.models.between import KernelBetween, NormalBetween
from lindley.models.neural.integration import (
    InverseGamma,
    VaryingVariance,
    fit_inverse_gamma,
    integrate_varying,
    quadrature_nodes,
    sampled_nodes,
)
from lindley.models.two_level import TwoLevel, item_squares, score
from lindley.table.splits import Part, Side
from tests.models.neural.simulate import (
    Floats,
    identity_model,
    inverse_gamma,
    row,
    scalar,
    two_replicates,
    varying_law,
)


def ln_integral(prior: InverseGamma, ln_likelihood: Callable[[Floats], Floats]) -> float:
    """ln ∫ L(σ²) π(σ²) dσ² by adaptive quadrature in ln σ², over all that is above e⁻⁶⁰ of the peak."""

    def ln_integrand(ln_sigma2: Floats) -> Floats:
        sigma2 = np.exp(ln_sigma2)
        return stats.invgamma.logpdf(sigma2, prior.alpha, scale=prior.beta) + ln_sigma2 + ln_likelihood(sigma2)

    grid = math.log(prior.mode) + np.linspace(-8, 40, 10_001)
    values = ln_integrand(grid)
    peak, support = values.max(), grid[values > values.max() - 60]
    integral, _ = integrate.quad(
        lambda u: np.exp(ln_integrand(u) - peak),
        support[0],
        support[-1],
        points=[grid[values.argmax()]],
        epsabs=0,
        epsrel=1e-9,
        limit=300,
    )
    return math.log(integral) + float(peak)


def dense(
    prior: InverseGamma, x: float, y: float, b: float, added: tuple[float, float] = (0.0, 0.0), m: int = 1, n: int = 1
) -> float:
    """Eq. 6 for one pair on one axis with mean 0; (b+e)x² + (b+d)y² − 2bxy is b(x−y)² + ex² + dy²."""

    def joint(s: Floats) -> Floats:
        d, e = (added[0] + s) / m, (added[1] + s) / n
        delta = b * d + b * e + d * e
        return -0.5 * ((b * (x - y) ** 2 + e * x**2 + d * y**2) / delta + np.log(delta))

    def marginal(value: float, extra: float, k: int) -> float:
        return ln_integral(prior, lambda s: -0.5 * (value**2 / (b + (extra + s) / k) + np.log(b + (extra + s) / k)))

    return ln_integral(prior, joint) - marginal(x, added[0], m) - marginal(y, added[1], n)


PAIRS = [(0.3, 0.5), (5.0, -3.0), (30.0, 29.0), (1000.0, -1000.0), (3000.0, 3001.0), (1e4, 0.0)]


@pytest.mark.parametrize("alpha", [2 + 1e-6, 3.0, 9.0])
@pytest.mark.parametrize("b", [1e-3, 100.0])
def test_quadrature_equals_adaptive_integration(alpha: float, b: float) -> None:
    """Near pairs and far ones, up to 10,000 standard deviations; trace and ref alike, or not ("N=2"), M × N instances."""
    prior = inverse_gamma(alpha, alpha + 1)
    for x, y in PAIRS:
        alike = varying_law(prior, b).ln_lr(scalar(x), scalar(y), scalar(1.0), scalar(1.0)).item()
        assert alike == pytest.approx(dense(prior, x, y, b), rel=1e-6, abs=1e-6)
    for x, y in PAIRS[1::2]:
        law = varying_law(prior, b, added=(3.0, 0.5))
        unlike = law.ln_lr(scalar(x), scalar(y), scalar(1 / 2), scalar(1 / 3)).item()
        assert unlike == pytest.approx(dense(prior, x, y, b, (3.0, 0.5), 2, 3), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("alpha", [2 + 1e-6, 3.0, 20.0, 1e4])
def test_nodes_integrate_the_law_itself(alpha: float) -> None:
    sigma2, ln_weight = quadrature_nodes(inverse_gamma(alpha, 7.0))
    weight = np.exp(ln_weight)
    assert weight.sum() == pytest.approx(1, abs=1e-6)
    assert (weight * sigma2).sum() == pytest.approx(7.0 / (alpha - 1), rel=1e-5)
    assert (weight / sigma2).sum() == pytest.approx(alpha / 7.0, rel=1e-5)


@pytest.mark.parametrize("alpha", [2 + 1e-6, 6.0])
def test_samples_agree_with_quadrature(alpha: float) -> None:
    """2000 samples, as in the paper, for near pairs: their mean over seeds within five standard errors."""
    prior, n = inverse_gamma(alpha, alpha + 1), 2000
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)[None, :, None]
    y = x + 0.8
    one = scalar(1.0)
    exact = varying_law(prior, 25.0).ln_lr_pairs(x, y, one, one)
    draws = [
        varying_law(prior, 25.0, nodes=sampled_nodes(prior, np.random.default_rng(seed), n)).ln_lr_pairs(x, y, one, one)
        for seed in range(8)
    ]
    errors = torch.stack(draws) - exact  # (seed, 1, pair, 1)
    spread = errors.std(0)
    assert spread.max() < 0.08
    assert (errors.mean(0).abs() < 5 * spread / math.sqrt(8) + 1e-3).all()


def test_samples_stop_short_of_the_tail() -> None:
    """Pairs that are far apart need a σ² that 2000 samples hardly ever hold: their LLR comes out lower, and never higher."""
    prior, one = inverse_gamma(3.0, 4.0), scalar(1.0)
    apart = torch.tensor([100.0, 300.0], dtype=torch.float64)[None, :, None]
    exact = varying_law(prior, 1e4).ln_lr_pairs(apart / 2, -apart / 2, one, one)
    for seed in range(8):
        nodes = sampled_nodes(prior, np.random.default_rng(seed), 2000)
        sampled = varying_law(prior, 1e4, nodes=nodes).ln_lr_pairs(apart / 2, -apart / 2, one, one)
        assert (sampled < exact - math.log(10)).all()


def test_samples_and_quadrature_agree_from_end_to_end() -> None:
    rng = np.random.default_rng(0)
    within, between = np.array([1.0, 0.2, 3.0]), np.array([30.0, 5.0, 10.0])
    model, validate = identity_model(within, within, between), two_replicates(rng, 300, within, between, 4.0)
    near = torch.from_numpy(rng.normal(size=(1, 8, 3)))
    exact = integrate_varying(model, [validate]).ln_lr_pairs(near, near + 0.3)
    sampled = integrate_varying(model, [validate], samples=2000, seeds=[1])
    torch.testing.assert_close(sampled.ln_lr_pairs(near, near + 0.3), exact, rtol=0, atol=0.15)
    again = integrate_varying(model, [validate], samples=2000, seeds=[1])
    assert torch.equal(sampled.ln_lr(near, near), again.ln_lr(near, near))
    other = integrate_varying(model, [validate], samples=2000, seeds=[2])
    assert not torch.equal(sampled.ln_lr(near, near), other.ln_lr(near, near))


@given(st.integers(0, 10_000))
@settings(max_examples=10)
def test_a_point_mass_is_the_point_model(seed: int) -> None:
    """Huge α: all sources have the variance of the mode."""
    rng = np.random.default_rng(seed)
    b = math.exp(rng.normal())
    law = varying_law(inverse_gamma(1e8, 1e8 + 1), b, nodes=sampled_nodes(inverse_gamma(1e8, 1e8 + 1), rng, 200))
    x, y = (torch.from_numpy(rng.normal(size=(1, 5, 1))) for _ in range(2))
    d, e = scalar(1 / 2), scalar(1 / 3)
    torch.testing.assert_close(law.ln_lr(x, y, d, e), law.base.ln_lr(x, y, d, e), rtol=1e-3, atol=1e-3)
    narrow = varying_law(inverse_gamma(1e4, 1e4 + 1), b).ln_lr(x, y, d, e)
    torch.testing.assert_close(narrow, law.base.ln_lr(x, y, d, e), rtol=1e-2, atol=1e-2)


@pytest.fixture(scope="module")
def validation() -> Part:
    return two_replicates(np.random.default_rng(5), 351, np.array([1.0, 1.0]), np.array([40.0, 40.0]), 3.0)


def test_variances_are_replaced_as_the_docstring_says(validation: Part) -> None:
    """v(σ²) = max(v − s̄², 0) + σ² with the fitted nodes, each side with its own v, per axis."""
    model = identity_model([1.5, 0.2], [7.0, 1e4], [40.0, 40.0])
    law = integrate_varying(model, [validation]).between
    assert isinstance(law, VaryingVariance)
    labels, item = np.unique(validation.source, return_inverse=True)
    side = Side(validation.values, item, labels)
    ssq, freedom = item_squares(model, side).numpy(), side.count - 1.0
    for axis in range(2):
        sigma2, ln_weight = quadrature_nodes(fit_inverse_gamma(ssq[:, axis], freedom))
        data = ssq[:, axis].sum() / freedom.sum()
        for v, scale in ((model.var_within_trace, law.scale_trace), (model.var_within_ref, law.scale_ref)):
            trained = v[0, 0, axis].item()
            replaced = scale[0, : len(sigma2), axis].numpy() * trained
            np.testing.assert_allclose(replaced, max(trained - data, 0) + sigma2, rtol=1e-12)
        np.testing.assert_array_equal(law.ln_weight[0, : len(sigma2), axis], ln_weight)
        assert torch.isneginf(law.ln_weight[0, len(sigma2) :, axis]).all()


def test_a_blown_up_axis_stays_as_it_was(validation: Part) -> None:
    model = identity_model([1e5, 1e5], [1e5, 1e5], [1e5, 40.0])
    x = torch.linspace(-30, 30, 9, dtype=torch.float64)[None, :, None].expand(1, 9, 2)
    point, varying = model.ln_lr_pairs(x, x.flip(1)), integrate_varying(model, [validation]).ln_lr_pairs(x, x.flip(1))
    torch.testing.assert_close(varying, point, rtol=0, atol=1e-4)
    assert point[..., 0].abs().max() > 0.1  # axis 0 is a bias axis: it stays one
    assert point[..., 1].abs().max() < 0.1  # axis 1 is silent: it stays so


def test_same_source_outliers_are_tempered(validation: Part) -> None:
    """The further apart, the more: the point model falls off like a square, the integral like a logarithm."""
    model = identity_model([1.0, 1.0], [1.0, 1.0], [40.0, 40.0])
    varying = integrate_varying(model, [validation])
    gap = torch.tensor([6.0, 10.0, 30.0, 100.0], dtype=torch.float64)[None, :, None].expand(1, 4, 2)
    near = torch.zeros_like(gap)
    before, after = model.ln_lr_pairs(gap / 2, -gap / 2), varying.ln_lr_pairs(gap / 2, -gap / 2)
    assert (before < 0).all()
    assert (after.abs() < before.abs()).all()
    assert (after.diff(dim=1)[:, :2] < 0).all()
    assert (before[:, -1] / after[:, -1]).abs().min() > 10
    assert (varying.ln_lr_pairs(near, near) > 0).all()


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_signs_order_symmetry_and_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes, nodes = 3, 5
    x, y = (torch.from_numpy(3 * rng.normal(size=(2, n, axes))) for n in (4, 5))
    mean = torch.from_numpy(rng.normal(size=(2, 1, axes)))
    b, d, e = (torch.from_numpy(np.exp(rng.normal(size=(2, 1, axes)))) for _ in range(3))
    s, t, w = (torch.from_numpy(rng.normal(size=(2, nodes, axes))) for _ in range(3))
    law = VaryingVariance(NormalBetween(mean, b), s.exp(), t.exp(), w.log_softmax(1))
    ln_lr = law.ln_lr(x, y, d, e)

    total = law.ln_lr_pairs(x.repeat_interleave(5, 1), y.repeat(1, 4, 1), d, e).sum(-1)
    torch.testing.assert_close(total.unflatten(1, (4, 5)), ln_lr, rtol=1e-12, atol=1e-12)
    pairs = law.ln_lr_pairs(x, y[:, :4], d, e).sum(-1)
    torch.testing.assert_close(pairs, ln_lr[:, :, :4].diagonal(dim1=1, dim2=2), rtol=1e-12, atol=1e-12)

    order, sign = torch.from_numpy(rng.permutation(axes)), torch.from_numpy(rng.choice([-1.0, 1.0], axes))
    moved = VaryingVariance(
        NormalBetween((mean * sign)[..., order], b[..., order]),
        *(v[..., order] for v in (law.scale_trace, law.scale_ref, law.ln_weight)),
    )
    again = moved.ln_lr((x * sign)[..., order], (y * sign)[..., order], d[..., order], e[..., order])
    torch.testing.assert_close(again, ln_lr)
    swapped = replace(law, scale_trace=law.scale_ref, scale_ref=law.scale_trace).ln_lr(y, x, e, d)
    torch.testing.assert_close(swapped.mT, ln_lr)


def test_llr_vanishes_as_the_trained_variance_grows() -> None:
    """But not as σ² itself grows: then a pair still tells whether its two instances share one σ²."""
    prior = inverse_gamma(3.0, 2.0)
    x = torch.linspace(-5, 5, 7, dtype=torch.float64)[None, :, None]
    one = scalar(1.0)
    for added in (1e3, 1e6, 1e9):
        assert varying_law(prior, 1.0, added=(added, added)).ln_lr(x, x, one, one).abs().max() < 100 / added
    assert varying_law(inverse_gamma(3.0, 2e9), 1.0).ln_lr(x, x, one, one).abs().max() > 0.05


def test_a_close_pair_far_from_the_mean_keeps_its_digits() -> None:
    """x and y a million standard deviations out and half of one apart: the quadratic form must not cancel.

    With b this large, p(x) and p(y) hardly depend on σ² and the LR is ∫ N(x − y; 2σ²) π(σ²) dσ² over N(x; b).
    """
    prior, b, x, y = inverse_gamma(3.0, 4.0), 1e12, 1e6, 1e6 + 0.5
    found = varying_law(prior, b).ln_lr(scalar(x), scalar(y), scalar(1.0), scalar(1.0)).item()
    gap = stats.t.logpdf(0.5, df=6, scale=math.sqrt(2 * 4 / 3))
    midpoint = 0.5 * (x + y)
    expected = gap + stats.norm.logpdf(midpoint, scale=1e6) - stats.norm.logpdf([x, y], scale=1e6).sum()
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alpha", [2 + 1e-6, 30.0])
@pytest.mark.parametrize("within", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("distance", [0.0, 1.0, 1e6])
def test_finite_at_extremes(alpha: float, within: float, distance: float) -> None:
    """Instances a million standard deviations away, variances that differ by 1e12."""
    law = varying_law(inverse_gamma(alpha, within * (alpha + 1)), 1.0, added=(0.0, 100 * within))
    x = distance * max(1.0, math.sqrt(within)) * torch.tensor([-1.0, 0.0, 0.3, 1.0], dtype=torch.float64)[None, :, None]
    for m in (1, 1000):
        ln_lr = law.ln_lr(x, x, scalar(1.0 / m), scalar(1.0))
        assert torch.isfinite(ln_lr).all()


@cache
def of_unequal_nodes() -> tuple[TwoLevel, torch.Tensor, list[torch.Tensor]]:
    """Two runs of 200 axes, a few points, and ln LRs of the points by each run alone."""
    rng = np.random.default_rng(3)
    within, between = np.exp(rng.normal(size=200)), np.exp(rng.normal(size=200)) * 10
    parts = [two_replicates(rng, 30, within, between, shape) for shape in (2.5, 50.0)]
    one = identity_model(within, within, between)
    two = one.map(lambda t: t.repeat(2, 1, 1))
    together = integrate_varying(two, parts)
    x = torch.from_numpy(rng.normal(size=(1, 4, 200)))
    return together, x.repeat(2, 1, 1), [integrate_varying(one, [part]).ln_lr(x, x, 2, 3)[0] for part in parts]


@pytest.mark.parametrize("terms", [1, 1000, 1 << 18])
def test_many_axes_and_runs_of_unequal_nodes(terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run by run the same as alone, although runs share one table of nodes, and however few rows at a time."""
    together, x, alone = of_unequal_nodes()
    monkeypatch.setattr("lindley.models.neural.integration.TERMS", terms)
    ln_lr = together.ln_lr(x, x, 2, 3)
    assert torch.isfinite(ln_lr).all()
    for found, expected in zip(ln_lr, alone, strict=True):
        torch.testing.assert_close(found, expected)


def test_refuses_what_it_cannot_integrate(validation: Part) -> None:
    with pytest.raises(ValueError, match="1 runs got 2"):
        integrate_varying(identity_model([1.0] * 2, [1.0] * 2, [1.0] * 2), [validation, validation])
    kernels = KernelBetween(row([0.0]), row([1.0]), torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(TypeError, match="normal law"):
        integrate_varying(TwoLevel(row([0.0]), row([1.0]), row([1.0]), row([1.0]), kernels), [validation])


def test_recovers_nearly_all_that_an_oracle_knows() -> None:
    """σ² ~ InvGamma(3, 2) · W per axis and source: better than the point model, and close to knowing the law."""
    rng = np.random.default_rng(7)
    within, between = np.array([1.0, 0.3, 2.0, 5.0]), np.array([40.0, 6.0, 20.0, 50.0])
    validate, test = (two_replicates(rng, n, within, between, 3.0) for n in (351, 180))
    model = identity_model(within, within, between)  # E[σ²] = W
    nodes = [quadrature_nodes(inverse_gamma(3.0, 2.0 * w)) for w in within]
    scale = torch.from_numpy(np.stack([s / w for (s, _), w in zip(nodes, within, strict=True)], axis=1))[None]
    ln_weight = torch.from_numpy(np.stack([ln_w for _, ln_w in nodes], axis=1))[None]
    assert isinstance(model.between, NormalBetween)
    oracle = replace(model, between=VaryingVariance(model.between, scale, scale, ln_weight))

    def cost(system: TwoLevel) -> float:
        (llr,) = score(system, [test.trace], [test.ref])
        return cllr(LLRs.from_matrix(llr, test.trace.source, test.ref.source))

    point, varying, floor = cost(model), cost(integrate_varying(model, [validate])), cost(oracle)
    assert varying < 0.9 * point
    assert abs(varying - floor) < 0.05 * floor

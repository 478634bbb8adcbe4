"""The inverse gamma law of the within variance: likelihood, recovery, and the paper's recipe as written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, stats

from lindley.errors import LindleyError
from lindley.models.neural import integration as module
from lindley.models.neural.integration import fit_inverse_gamma, negative_ln_likelihood

MINIMIZE = optimize.minimize


def simulate(seed: int, n: int, alpha: float, beta: float, freedom: list[int]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    nu = rng.choice(np.asarray(freedom, dtype=np.float64), n)
    return beta / rng.gamma(alpha, size=n) * rng.chisquare(nu), nu


@given(st.floats(-1, 4), st.floats(-3, 3), st.floats(0, 3))
def test_likelihood_is_that_of_the_beta_prime_law(ln_alpha: float, ln_beta: float, rate: float) -> None:
    """Up to terms without α and β: compared as differences from one fixed point."""
    ssq, nu = simulate(0, 30, 3.0, 2.0, [1, 2, 5])

    def dense(at: np.ndarray) -> float:
        alpha, beta = np.exp(at)
        ln_density = stats.betaprime.logpdf(ssq / (2 * beta), nu / 2, alpha) - np.log(2 * beta)
        return float(-ln_density.sum() + rate * beta)

    here, there = np.array([ln_alpha, ln_beta]), np.array([0.5, 0.1])
    difference = negative_ln_likelihood(here, ssq, nu, rate)[0] - negative_ln_likelihood(there, ssq, nu, rate)[0]
    assert difference == pytest.approx(dense(here) - dense(there), rel=1e-9, abs=1e-8)


@given(st.floats(-1, 4), st.floats(-3, 3), st.floats(0, 3))
def test_gradient_is_that_of_finite_differences(ln_alpha: float, ln_beta: float, rate: float) -> None:
    ssq, nu = simulate(1, 20, 3.0, 2.0, [1, 3])
    at, h = np.array([ln_alpha, ln_beta]), 1e-5
    numeric = [
        (negative_ln_likelihood(at + h * e, ssq, nu, rate)[0] - negative_ln_likelihood(at - h * e, ssq, nu, rate)[0])
        / (2 * h)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(negative_ln_likelihood(at, ssq, nu, rate)[1], numeric, rtol=1e-5, atol=1e-5)


def test_the_beta_prime_law_is_the_law_of_simulated_sums_of_squares() -> None:
    """Eq. 7 itself, by a Kolmogorov–Smirnov test."""
    ssq, _ = simulate(2, 20_000, 3.0, 2.0, [4])
    assert stats.kstest(ssq / 4, stats.betaprime(2, 3).cdf).pvalue > 0.01


@pytest.mark.parametrize(("alpha", "beta"), [(2.5, 1.5), (3.0, 2e-6), (6.0, 5e6)])
def test_recovers_alpha_and_beta_from_unequal_degrees_of_freedom(alpha: float, beta: float) -> None:
    ssq, nu = simulate(3, 40_000, alpha, beta, [1, 2, 4, 9])
    found = fit_inverse_gamma(ssq, nu)
    assert found.alpha_ml == pytest.approx(alpha, rel=0.05)
    assert found.beta_ml == pytest.approx(beta, rel=0.05)
    assert found.alpha == pytest.approx(found.alpha_ml, rel=0.05)  # many data: the prior hardly counts
    assert found.alpha > module.CLAMP + module.TINY


@given(st.integers(0, 1000), st.floats(-20, 20))
def test_units_scale_beta_and_leave_alpha(seed: int, ln_c: float) -> None:
    """The prior's rate ½ β_ml has a unit; the fit must not."""
    ssq, nu = simulate(seed, 200, 3.0, 2.0, [1, 2])
    a, b = fit_inverse_gamma(ssq, nu), fit_inverse_gamma(math.exp(ln_c) * ssq, nu)
    assert b.alpha == pytest.approx(a.alpha, rel=1e-5)
    assert b.beta == pytest.approx(a.beta * math.exp(ln_c), rel=1e-5)
    assert b.mode == pytest.approx(a.mode * math.exp(ln_c), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_as_printed_the_prior_weighs_by_the_units_of_the_features(seed: int) -> None:
    """As heavy as the scaled one where a sum of squares is one per degree of freedom, and nothing where they are small."""
    ssq, nu = simulate(seed, 351, 4.0, 3.0, [1])
    scaled = fit_inverse_gamma(ssq, nu)
    in_units = fit_inverse_gamma(ssq / (ssq.sum() / nu.sum()), nu, "as-printed")
    assert in_units.alpha == pytest.approx(scaled.alpha, rel=1e-9)
    small = fit_inverse_gamma(1e-3 * ssq, nu, "as-printed")
    assert small.alpha == pytest.approx(scaled.alpha_ml, rel=1e-3)
    assert small.beta == pytest.approx(1e-3 * scaled.beta_ml, rel=1e-3)
    assert scaled.alpha < 0.95 * scaled.alpha_ml


def test_as_printed_is_the_best_of_a_grid_in_the_units_of_the_features() -> None:
    ssq, nu = simulate(4, 351, 4.0, 0.3, [1])
    found = fit_inverse_gamma(ssq, nu, "as-printed")

    def cost(alpha: float, beta: float) -> float:
        return negative_ln_likelihood(np.log([alpha, beta]), ssq, nu, 0.5 * found.beta_ml)[0]

    grid = [cost(a, b) for a in np.geomspace(0.1, 1e3, 60) for b in np.geomspace(0.001, 1e2, 60)]
    assert cost(found.alpha, found.beta) <= min(grid) + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_the_exponential_prior_makes_the_tail_heavier(seed: int) -> None:
    """The paper's "bias towards larger σ_w": β falls, and α falls with it, so large σ² become more probable."""
    ssq, nu = simulate(seed, 351, 4.0, 3.0, [1])
    found = fit_inverse_gamma(ssq, nu)
    assert found.alpha > module.CLAMP + module.TINY
    assert found.beta < found.beta_ml
    assert found.alpha < found.alpha_ml

    def tail(alpha: float, beta: float) -> float:
        return float(stats.invgamma.sf(5 * beta / (alpha + 1), alpha, scale=beta))

    assert tail(found.alpha, found.beta) > tail(found.alpha_ml, found.beta_ml)
    # The trap in that sentence: at fixed α a smaller β means smaller σ², not larger.
    at = 5 * found.mode
    smaller = stats.invgamma.sf(at, found.alpha, scale=0.5 * found.beta)
    assert smaller < stats.invgamma.sf(at, found.alpha, scale=found.beta)


def test_maximum_a_posteriori_is_the_best_of_a_grid() -> None:
    ssq, nu = simulate(4, 351, 4.0, 3.0, [1])
    found = fit_inverse_gamma(ssq, nu)
    unit = ssq.sum() / nu.sum()
    rate = 0.5 * found.beta_ml / unit

    def cost(alpha: float, beta: float) -> float:
        return negative_ln_likelihood(np.log([alpha, beta]), ssq / unit, nu, rate)[0]

    best = cost(found.alpha, found.beta / unit)
    grid = [cost(a, b) for a in np.geomspace(0.1, 1e3, 80) for b in np.geomspace(0.01, 1e3, 80)]
    assert best <= min(grid) + 1e-6


@pytest.mark.parametrize("alpha", [0.8, 1.3])
def test_alpha_below_two_is_clamped_with_the_mode_kept(alpha: float) -> None:
    ssq, nu = simulate(5, 2000, alpha, 1.0, [1])
    found = fit_inverse_gamma(ssq, nu)
    assert found.alpha == module.CLAMP + module.TINY
    assert found.alpha_ml == pytest.approx(alpha, rel=0.15)
    assert found.alpha == 2 + 1e-6
    assert found.beta == pytest.approx(3 * found.beta_ml / (found.alpha_ml + 1 + 1e-6), rel=1e-12)  # Eq. 8 as written
    # Its two 1e-6 leave the mode a little below the maximum-likelihood one: by so much, and no more.
    shift = 3 / (3 + 1e-6) * (found.alpha_ml + 1) / (found.alpha_ml + 1 + 1e-6)
    assert found.mode == pytest.approx(shift * found.beta_ml / (found.alpha_ml + 1), rel=1e-12)


def test_equal_variances_end_at_the_clamp_with_their_mode() -> None:
    """α_ml → ∞ makes the rate ½ β_ml, and so the pull on β, as strong as can be: the recipe's most cautious answer."""
    rng = np.random.default_rng(11)
    nu = np.ones(60)
    found = fit_inverse_gamma(1.0 * rng.chisquare(1, 60).clip(0.2, 2.0), nu)
    assert found.alpha_ml > 1e3
    assert found.alpha == module.CLAMP + module.TINY
    assert found.beta == pytest.approx(3 * found.beta_ml / (found.alpha_ml + 1 + 1e-6), rel=1e-12)
    assert found.mode == pytest.approx(3 / (3 + 1e-6) * found.beta_ml / (found.alpha_ml + 1 + 1e-6), rel=1e-12)


def test_the_start_for_beta_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper divides by (α − 1) where moment matching multiplies."""
    ssq, nu = simulate(6, 351, 3.0, 2.0, [1])
    as_written = fit_inverse_gamma(ssq, nu)
    starts = []

    def with_moments(function: Any, start: np.ndarray, **options: Any) -> Any:
        starts.append(start)
        factor = max(math.exp(start[0]) - 1, 0.1)
        return MINIMIZE(function, start + np.array([0, 2 * math.log(factor)]), **options)

    monkeypatch.setattr(optimize, "minimize", with_moments)
    by_moments = fit_inverse_gamma(ssq, nu)
    scaled = ssq / ssq.mean()
    np.testing.assert_allclose(starts[0], np.log([4.0, np.mean(scaled) / 3.0]))
    assert by_moments.alpha == pytest.approx(as_written.alpha, rel=1e-4)
    assert by_moments.beta == pytest.approx(as_written.beta, rel=1e-4)


def test_retries_from_a_larger_alpha_until_it_converges(monkeypatch: pytest.MonkeyPatch) -> None:
    ssq, nu = simulate(7, 2000, 4.0, 3.0, [1])
    expected = fit_inverse_gamma(ssq, nu)
    alphas = []

    def failing(function: Any, start: np.ndarray, **options: Any) -> Any:
        alphas.append(math.exp(start[0]))
        found = MINIMIZE(function, start, **options)
        if len(alphas) < 4:
            found.success = False
        return found

    monkeypatch.setattr(optimize, "minimize", failing)
    found = fit_inverse_gamma(ssq, nu)
    assert alphas[:4] == pytest.approx([4.0, 4.5, 5.0, 5.5])
    assert len(alphas) == 5  # four for maximum likelihood, one for maximum a posteriori
    assert found.alpha == pytest.approx(expected.alpha, rel=1e-4)

    def never(function: Any, start: np.ndarray, **options: Any) -> Any:
        found = MINIMIZE(function, start, **options)
        found.success = False
        return found

    monkeypatch.setattr(optimize, "minimize", never)
    with pytest.raises(LindleyError, match="40 tries"):
        fit_inverse_gamma(ssq, nu)


def test_sources_with_one_instance_are_ignored() -> None:
    ssq, nu = simulate(8, 200, 3.0, 2.0, [1])
    more = np.concatenate([ssq, np.zeros(50)]), np.concatenate([nu, np.zeros(50)])
    assert fit_inverse_gamma(*more) == fit_inverse_gamma(ssq, nu)


@pytest.mark.parametrize(
    ("ssq", "freedom"), [([0.0] * 9, [1.0] * 9), ([3.0], [1.0]), ([1.0, 2.0], [0.0, 0.0]), ([], [])]
)
def test_without_any_scatter_there_is_nothing_to_fit(ssq: list[float], freedom: list[float]) -> None:
    with pytest.raises(LindleyError, match="two measurements that differ"):
        fit_inverse_gamma(np.array(ssq), np.array(freedom))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.95])
def test_equal_replicates_stay_finite(share: float) -> None:
    ssq, nu = simulate(9, 200, 3.0, 2.0, [1])
    ssq[: int(share * 200)] = 0.0
    found = fit_inverse_gamma(ssq, nu)
    assert all(math.isfinite(v) and v > 0 for v in (found.alpha, found.beta, found.alpha_ml, found.beta_ml, found.mode))
    assert found.alpha >= 2
    if share <= 0.1:
        assert 0.05 < found.mode < 1.0  # the truth: 0.5

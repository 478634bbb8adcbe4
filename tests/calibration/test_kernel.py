import numpy as np
import pytest
from scipy.stats import gaussian_kde

from lindley.calibration import Kernel
from lindley.errors import LindleyError
from lindley.llrs import LN10, LLRs


def dense(values: np.ndarray, bandwidth: float, at: np.ndarray) -> np.ndarray:
    """Natural log of a Gaussian kernel density, one kernel per value."""
    ln_kernel = -0.5 * ((at[:, None] - values) / bandwidth) ** 2
    return np.logaddexp.reduce(ln_kernel, axis=1) - np.log(values.size * bandwidth * np.sqrt(2 * np.pi))


def test_equals_the_ratio_of_dense_kernel_densities():
    rng = np.random.default_rng(0)
    same, different = rng.normal(2, 1, 120), rng.normal(-2, 2, 1500)
    fitted = Kernel.fit(LLRs(same, different))
    at = np.linspace(-4, 4, 300)
    expected = dense(same, fitted.bandwidth_same, at) - dense(different, fitted.bandwidth_different, at)
    np.testing.assert_allclose(fitted(at), expected / LN10, rtol=2e-3, atol=2e-3)


def test_dense_oracle_equals_scipy():
    values = np.random.default_rng(1).normal(0, 1, 50)
    bandwidth = 0.3
    at = np.linspace(-2, 2, 9)
    scipy_kde = gaussian_kde(values, bw_method=bandwidth / values.std(ddof=1))
    np.testing.assert_allclose(dense(values, bandwidth, at), scipy_kde.logpdf(at), rtol=1e-10)


def test_far_tails_of_one_density_stay_finite_and_right():
    """The two hypotheses 20 apart: e^−1000 is nothing in a sum of densities, and fine in a log-sum-exp."""
    rng = np.random.default_rng(2)
    same, different = rng.normal(10, 0.5, 200), rng.normal(-10, 0.5, 200)
    fitted = Kernel.fit(LLRs(same, different))
    at = fitted.llr_in[::50]
    expected = dense(same, fitted.bandwidth_same, at) - dense(different, fitted.bandwidth_different, at)
    np.testing.assert_allclose(fitted(at), expected / LN10, rtol=5e-3, atol=5e-3)
    assert np.abs(fitted.llr_out).max() > 400


def test_bandwidth_is_silvermans_with_a_robust_spread():
    rng = np.random.default_rng(3)
    same, different = rng.normal(1, 1.3, 400), rng.normal(-1, 2, 5000)
    fitted = Kernel.fit(LLRs(same, different))
    for values, bandwidth in [(same, fitted.bandwidth_same), (different, fitted.bandwidth_different)]:
        low, high = np.quantile(values, [0.25, 0.75], method="inverted_cdf")
        spread = min(values.std(), (high - low) / 1.349)
        assert bandwidth == pytest.approx(0.9 * spread * values.size**-0.2, rel=1e-12)
    outliers = Kernel.fit(LLRs(np.append(same, [25.0] * 5), different))
    assert outliers.bandwidth_same == pytest.approx(fitted.bandwidth_same, rel=0.1)


def test_spread_falls_back_where_the_iqr_or_everything_is_zero():
    mostly_equal = np.append(np.zeros(50), [1.0, -1.0])
    fitted = Kernel.fit(LLRs(mostly_equal, np.linspace(-4, 2, 100)))
    assert fitted.bandwidth_same == pytest.approx(0.9 * mostly_equal.std() * 52**-0.2)
    fitted = Kernel.fit(LLRs(np.full(32, 0.1), np.linspace(-4, 2, 100)))
    assert fitted.bandwidth_same == pytest.approx(0.9 * 32**-0.2)


def test_equal_llrs_tell_nothing():
    fitted = Kernel.fit(LLRs(np.full(3, 0.7), np.full(300, 0.7)))
    np.testing.assert_array_equal(fitted(np.array([-1.0, 0.7, 5.0])), np.zeros(3))


def test_value_at_the_edge_is_held_and_clip_is_an_edge():
    rng = np.random.default_rng(4)
    fitted = Kernel.fit(LLRs(np.append(rng.normal(2, 1, 50), 200.0), rng.normal(-3, 2, 500)))
    assert fitted.describe()["llr_to"] == 26.0
    assert fitted(np.array([26.0])) == fitted(np.array([1e6]))
    lowest = fitted.llr_in[:1]
    assert fitted(lowest) == fitted(lowest - 50)


def test_calibrates_normal_llrs():
    """Natural LLR ~ N(±s²/2, s²): the ratio of the densities is the LLR itself."""
    rng = np.random.default_rng(5)
    s = 2.0
    llrs = LLRs(rng.normal(s**2 / 2, s, 100_000) / LN10, rng.normal(-(s**2) / 2, s, 100_000) / LN10)
    at = np.linspace(-1, 1, 31)
    np.testing.assert_allclose(Kernel.fit(llrs)(at), at, atol=0.06)


def test_refuses_a_clip_that_leaves_nothing():
    with pytest.raises(LindleyError, match="above 0"):
        Kernel.fit(LLRs(np.ones(2), np.zeros(2)), clip=-1.0)

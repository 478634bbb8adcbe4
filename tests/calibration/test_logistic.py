import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from lindley.calibration import Logistic
from lindley.errors import LindleyError
from lindley.llrs import LN10, LLRs


def cost(llrs: LLRs, intercept: float, slope: float) -> float:
    """Cllr in nats, written out."""
    same, different = (LN10 * (intercept + slope * side) for side in (llrs.same, llrs.different))
    weight_same, weight_different = llrs.weights
    return 0.5 * np.average(np.logaddexp(0, -same), weights=weight_same) + 0.5 * np.average(
        np.logaddexp(0, different), weights=weight_different
    )


def overlapping(seed: int, n_same: int = 150, n_different: int = 900) -> LLRs:
    rng = np.random.default_rng(seed)
    return LLRs(2 * rng.normal(1, 1, n_same) + 0.5, 2 * rng.normal(-1, 1, n_different) + 0.5)


def test_minimises_the_stated_objective():
    llrs = overlapping(0)
    fitted = Logistic.fit(llrs)
    centre = 0.5 * (llrs.same.mean() + llrs.different.mean())

    def objective(at):
        shift = at[0] + (at[1] - 1) * centre
        return cost(llrs, *at) + ((at[1] - 1) ** 2 / 200 + shift**2 / 20_000) / llrs.same.size

    found = minimize(objective, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15})
    assert found.x == pytest.approx([fitted.intercept, fitted.slope], abs=1e-6)


def test_agrees_with_scikit_learn_without_a_prior():
    llrs = overlapping(1)
    x = np.concatenate([llrs.same, llrs.different])[:, None]
    y = np.repeat([1, 0], [llrs.same.size, llrs.different.size])
    # classes balanced: each weighs one half
    weight = np.where(y == 1, 0.5 / llrs.same.size, 0.5 / llrs.different.size) * y.size
    oracle = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(x, y, weight)
    fitted = Logistic.fit(llrs)
    assert fitted.slope == pytest.approx(oracle.coef_[0, 0] / LN10, abs=1e-3)
    assert fitted.intercept == pytest.approx(oracle.intercept_[0] / LN10, abs=1e-3)


def test_recovers_the_affine_map_that_spoilt_good_llrs():
    """Natural LLR ~ N(±s²/2, s²) is calibrated; 0.7 + 2.5 LLR is not."""
    rng = np.random.default_rng(2)
    s = 3.0
    good = LLRs(rng.normal(s**2 / 2, s, 40_000) / LN10, rng.normal(-(s**2) / 2, s, 40_000) / LN10)
    fitted = Logistic.fit(good.map(lambda llr: 0.7 + 2.5 * llr))
    assert fitted.slope == pytest.approx(1 / 2.5, rel=0.02)
    assert fitted.intercept == pytest.approx(-0.7 / 2.5, abs=0.02)


@settings(max_examples=60)
@given(
    same=st.integers(1, 15).flatmap(lambda n: arrays(np.float64, n, elements=st.floats(-20, 20))),
    different=st.integers(1, 15).flatmap(lambda n: arrays(np.float64, n, elements=st.floats(-20, 20))),
)
def test_never_raises_cllr_of_the_fitted_pairs(same, different):
    llrs = LLRs(same, different)
    fitted = Logistic.fit(llrs)
    assert fitted.slope >= 0
    assert cost(llrs, fitted.intercept, fitted.slope) <= cost(llrs, 0, 1) + 1e-9


@pytest.mark.parametrize("clip", [26.0, None])
@pytest.mark.parametrize(
    ("same", "different"),
    [
        ([5.0, 6.0], [-3.0, -4.0]),  # separated
        ([1e-3, 2e-3], [-1e-3]),  # hardly separated
        ([1e4], [-1e4]),  # saturated
        ([1.0], [1.0]),  # no slope at all
        (np.append(np.linspace(-1, 4, 300), -1e4), np.linspace(-5, 1, 1000)),
        (np.append(np.linspace(-1, 4, 300), -1e6), np.append(np.linspace(-5, 1, 1000), 1e6)),
        (np.linspace(999, 1003, 300), np.linspace(997, 1001, 1000)),
    ],
)
def test_converges_from_any_finite_input(same, different, clip):
    fitted = Logistic.fit(LLRs(np.array(same), np.array(different)), clip)
    assert np.isfinite([fitted.intercept, fitted.slope]).all()
    assert fitted.slope >= 0
    assert np.isfinite(fitted(np.array([-1e300, 0.0, 1e300]))).all()


def test_llrs_that_point_the_wrong_way_become_neutral():
    fitted = Logistic.fit(LLRs(np.array([-1.0, -2.0]), np.array([1.0, 3.0])))
    np.testing.assert_array_equal(fitted(np.array([-3.0, 0.0, 3.0])), np.zeros(3))


def test_clip_keeps_one_extreme_pair_from_ruling_the_slope():
    rng = np.random.default_rng(4)
    same, different = rng.normal(2, 1, 300), rng.normal(-2, 1, 3000)
    slope = Logistic.fit(LLRs(same, different)).slope
    same[0] = -2000.0
    assert Logistic.fit(LLRs(same, different), clip=None).slope < 0.1 * slope
    fitted = Logistic.fit(LLRs(same, different), clip=5.0)
    assert fitted.slope > 0.5 * slope
    assert fitted(np.array([1e3])) == fitted(np.array([5.0]))


def test_refuses_a_clip_that_leaves_nothing():
    with pytest.raises(LindleyError, match="above 0"):
        Logistic.fit(overlapping(0), clip=0.0)

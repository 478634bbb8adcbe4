import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import roc_curve

from lindley.calibration import elub, iv
from lindley.errors import LindleyError
from lindley.evaluation import (
    cllr,
    cllr_cal,
    cllr_different,
    cllr_min,
    cllr_same,
    devpav,
    eer,
    misleading_different,
    misleading_same,
    pav_curve,
    summary,
)
from lindley.llrs import LN10, LLRs

METRICS = [cllr, cllr_min, cllr_cal, eer, misleading_same, misleading_different, devpav]
TENTHS = st.integers(-30, 30).map(lambda k: k / 10)
SIDE = st.integers(1, 20).flatmap(lambda n: arrays(np.float64, n, elements=TENTHS))


def normal_llrs(s: float, reach: float = 9.0, step: float = 1e-3) -> LLRs:
    """Quadrature of natural LLR ~ N(±s²/2, s²), for which the LLR is exactly calibrated."""
    ln_lr = np.arange(-s * s / 2 - reach * s, s * s / 2 + reach * s, step)
    same, different = norm.pdf(ln_lr, s**2 / 2, s), norm.pdf(ln_lr, -(s**2) / 2, s)
    return LLRs(ln_lr / LN10, ln_lr / LN10, same, different)


@pytest.mark.parametrize("s", [0.5, 1.5, 4.0])
def test_closed_forms_for_normal_llrs(s):
    def integrand(ln_lr):
        return norm.pdf(ln_lr, s**2 / 2, s) * np.logaddexp(0, -ln_lr) / math.log(2)

    expected, _ = quad(integrand, -9 * s, s**2 + 9 * s, epsabs=1e-12, limit=200)
    llrs = normal_llrs(s)
    assert cllr(llrs) == pytest.approx(expected, abs=1e-9)
    assert cllr_same(llrs) == pytest.approx(cllr_different(llrs), abs=1e-9)  # by symmetry
    assert cllr_min(llrs) == pytest.approx(expected, abs=1e-6)
    assert cllr_cal(llrs) == pytest.approx(0, abs=1e-6)
    assert eer(llrs) == pytest.approx(norm.cdf(-s / 2), abs=1e-6)
    assert misleading_same(llrs) == pytest.approx(norm.cdf(-s / 2), abs=1e-3)
    assert devpav(normal_llrs(s, reach=5)) == pytest.approx(0, abs=1e-5)


def test_closed_forms_on_a_large_sample():
    rng = np.random.default_rng(0)
    s = 2.0
    llrs = LLRs(rng.normal(s**2 / 2, s, 200_000) / LN10, rng.normal(-(s**2) / 2, s, 200_000) / LN10)
    assert cllr(llrs) == pytest.approx(cllr(normal_llrs(s)), rel=0.01)
    assert eer(llrs) == pytest.approx(norm.cdf(-s / 2), rel=0.02)


def test_neutral_llrs_cost_one_bit():
    llrs = LLRs(np.zeros(3), np.zeros(7))
    assert cllr(llrs) == 1.0
    assert cllr_min(llrs) == pytest.approx(1.0, abs=1e-15)
    assert eer(llrs) == 0.5
    assert misleading_same(llrs) == misleading_different(llrs) == 0.0
    assert devpav(llrs) == pytest.approx(0.0, abs=1e-15)


def test_by_hand():
    """Same: LR 1 and 3. Different: LR 1/3."""
    llrs = LLRs(np.log10([1.0, 3.0]), np.log10([1 / 3]))
    assert cllr_same(llrs) == pytest.approx((1 + math.log2(4 / 3)) / 2)
    assert cllr_different(llrs) == pytest.approx(math.log2(4 / 3))
    assert cllr_min(llrs) == eer(llrs) == 0.0


@settings(max_examples=100)
@given(same=SIDE, different=SIDE)
def test_cllr_is_at_least_cllr_min(same, different):
    llrs = LLRs(same, different)
    assert -1e-12 <= cllr_min(llrs) <= min(cllr(llrs), 1.0) + 1e-12


@settings(max_examples=100)
@given(same=SIDE, different=SIDE, scale=st.floats(0.1, 5), shift=st.floats(-2, 2))
def test_order_alone_decides_cllr_min_and_eer(same, different, scale, shift):
    llrs = LLRs(same, different)
    mapped = llrs.map(lambda llr: np.arctan(np.round(llr * 10)) * scale + shift)
    assert cllr_min(mapped) == pytest.approx(cllr_min(llrs), abs=1e-12)
    assert eer(mapped) == pytest.approx(eer(llrs), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=50)
@given(same=SIDE, different=SIDE, seed=st.integers(0, 1000))
def test_a_weight_of_two_is_a_pair_twice_and_order_means_nothing(metric, same, different, seed):
    rng = np.random.default_rng(seed)
    times_same = rng.integers(0, 3, same.size)
    times_different = rng.integers(0, 3, different.size)
    times_same[0] = times_different[-1] = 2
    weighted = metric(LLRs(same, different, times_same, times_different))
    repeated = LLRs(
        rng.permutation(np.repeat(same, times_same)), rng.permutation(np.repeat(different, times_different))
    )
    assert weighted == pytest.approx(metric(repeated), abs=1e-12)
    halves = LLRs(same, different, times_same / 2, times_different / 8)
    assert metric(halves) == pytest.approx(weighted, abs=1e-12)


@settings(max_examples=100)
@given(same=SIDE, different=SIDE)
def test_eer_is_where_the_linear_roc_meets_the_diagonal(same, different):
    truth = np.repeat([1, 0], [same.size, different.size])
    false_alarm, hit, _ = roc_curve(truth, np.concatenate([same, different]), drop_intermediate=False)
    # arc length makes the curve a function: false alarms alone are constant along vertical steps
    length = np.concatenate([[0], np.cumsum(np.diff(false_alarm) + np.diff(hit))])
    at = brentq(lambda u: 1 - np.interp(u, length, hit) - np.interp(u, length, false_alarm), 0, 2, xtol=1e-14)
    assert eer(LLRs(same, different)) == pytest.approx(np.interp(at, length, false_alarm), abs=1e-9)


def test_extremes_stay_finite():
    llrs = LLRs(np.array([1e6, -1e6, 1e300]), np.array([-1e6, 1e6, 1e4, -1e300]))
    values = summary(llrs)
    assert np.isfinite(list(values.values())).all()
    assert cllr(LLRs(np.array([-1e6]), np.array([-1e6]))) == pytest.approx(0.5e6 * math.log2(10))
    json.dumps(values, allow_nan=False)


@pytest.mark.parametrize("size", [1e155, 1e300, 1e308, np.finfo(float).max])
def test_every_finite_llr_has_a_finite_cost(size):
    for llrs in (
        LLRs(np.array([-size]), np.array([0.0])),
        LLRs(np.full(1000, -size), np.full(1000, size), np.full(1000, 50.0), np.full(1000, 50.0)),
        LLRs(np.array([-size, 1.0, size]), np.array([0.0, size, -size])),
    ):
        assert np.isfinite(list(summary(llrs).values())).all()
        assert cllr(llrs) > 1e100


def test_perfectly_separated_llrs():
    llrs = LLRs(np.array([1.0, 2.0]), np.array([-1.0, 0.5]))
    assert cllr_min(llrs) == 0.0
    assert eer(llrs) == 0.0
    assert devpav(llrs) == math.inf  # every PAV LLR is −∞ or ∞


def test_devpav_by_hand():
    # one tie at 0.3 holds everything: PAV LLR 0, a single finite point
    assert devpav(LLRs(np.array([0.3]), np.array([0.3]))) == pytest.approx(0.3)
    # blocks: (−1: ½ of same, ⅔ of different) and (2: ½, ⅓); from (−1, a) to (2, b), in log10
    llrs = LLRs(np.array([-1.0, 2.0]), np.array([-1.0, -1.0, 2.0]))
    a, b = math.log10(3 / 4), math.log10(3 / 2)
    grid = np.linspace(-1, 2, 300_001)
    expected = np.mean(np.abs(a + (b - a) * (grid + 1) / 3 - grid))
    assert devpav(llrs) == pytest.approx(expected, abs=1e-5)


@settings(max_examples=50)
@given(same=SIDE, different=SIDE)
def test_devpav_is_the_area_between_pav_and_identity(same, different):
    """Numerical integration of the line through the points (LLR, PAV LLR)."""
    llrs = LLRs(same, different)
    curve = pav_curve(llrs)
    finite = np.isfinite(curve.pav_llr)
    x, y = curve.llr[finite], curve.pav_llr[finite]
    if x.size == 0:
        assert devpav(llrs) == math.inf
        return
    grid = np.linspace(x[0], x[-1], 40_001)
    assert devpav(llrs) == pytest.approx(np.mean(np.abs(np.interp(grid, x, y) - grid)), abs=2e-3)


def test_summary_holds_every_metric():
    rng = np.random.default_rng(1)
    llrs = LLRs(rng.normal(1, 1, 20), rng.normal(-1, 1, 90), None, np.full(90, 2.0))
    values = summary(llrs)
    for metric in METRICS:
        assert values[metric.__name__] == metric(llrs)
    assert values["n_same"] == 20
    assert values["n_different"] == 180


@pytest.mark.parametrize("metric", [*METRICS, cllr_same, cllr_different, summary, elub, iv])
def test_two_arrays_are_as_good_as_llrs(metric):
    rng = np.random.default_rng(8)
    same, different = rng.normal(1, 1, 30), rng.normal(-1, 1, 90)
    assert metric(same, list(different)) == metric(LLRs(same, different))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (([], [1.0]), "there are no same-source pairs"),
        (([1.0], []), "there are no different-source pairs"),
        (([1.0, np.nan], [1.0]), "same: 1 of 2 values are infinite or not a number"),
        (([1.0], [1.0, -np.inf, np.inf]), "different: 2 of 3 values are infinite"),
        ((np.eye(3), [1.0]), r"same: shape \(3, 3\) where a list of numbers is needed.*LLRs.from_matrix"),
        ((2.0, [1.0]), r"same: shape \(\) where a list"),
        ((["high"], [1.0]), "same: 'high' is text, where a number is needed: log10 LRs"),
        (([1.0],), "the LLRs of the different-source pairs are missing"),
        ((LLRs([1.0], [0.0]), [1.0]), "give them alone, or two arrays"),
    ],
)
def test_what_is_wrong_with_the_llrs_is_said(given, told):
    with pytest.raises(LindleyError, match=told):
        cllr(*given)


def test_llrs_show_how_many_pairs_they_stand_for():
    assert repr(LLRs([1.0, 2.0], [0.0], None, [40.0])) == "LLRs of 2 same-source and 40 different-source pairs"


@pytest.mark.parametrize(
    "labels", [[1, 1, 0, 0], [1.0, 1.0, 0.0, 0.0], [1, 1, -1, -1], np.array([True, True, False, False])]
)
@pytest.mark.parametrize("metric", [cllr, cllr_min, eer, devpav, summary])
def test_labels_beside_llrs_are_refused_with_the_right_call(labels: Any, metric: Any) -> None:
    llrs = [2.0, 0.5, -1.0, 0.1]
    for arrays_given in ((llrs, labels), (labels, llrs)):
        with pytest.raises(LindleyError, match=r"cllr\(llrs\[labels == 1\], llrs\[labels == 0\]\)"):
            metric(*arrays_given)


def test_llrs_that_look_like_labels_are_taken_where_they_are_said_to_be_llrs() -> None:
    assert cllr(LLRs([2.0, 1.5], [0.0, 1.0])) == pytest.approx(cllr([2.0, 1.5], [1e-15, 1.0]))
    assert cllr([0.0, 0.0], [0.0, 0.0]) == 1.0
    assert cllr([2.0, 1.5, 1.0], [0.0, 1.0]) > 0

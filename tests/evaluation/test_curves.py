import numpy as np
import pytest

from lindley.evaluation import cllr, cllr_min, ece, histogram, pav_curve, tippett
from lindley.llrs import LLRs


@pytest.fixture
def llrs() -> LLRs:
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, 400)
    return LLRs(np.round(rng.normal(1, 1, 60), 1), np.round(rng.normal(-1.5, 1, 400), 1), None, weight)


def test_ece_at_even_odds_is_cllr(llrs):
    curve = ece(llrs)
    middle = np.argmin(np.abs(curve.prior_log10_odds))
    assert curve.prior_log10_odds[[0, middle, -1]] == pytest.approx([-3, 0, 3], abs=1e-12)
    assert curve.system[middle] == pytest.approx(cllr(llrs), abs=1e-12)
    assert curve.pav[middle] == pytest.approx(cllr_min(llrs), abs=1e-12)
    assert curve.neutral[middle] == pytest.approx(1.0)


def test_ece_of_pav_is_the_least_at_every_prior(llrs):
    curve = ece(llrs, np.linspace(-5, 5, 41))
    assert (curve.pav <= curve.system + 1e-12).all()
    assert (curve.pav <= curve.neutral + 1e-12).all()


def test_ece_by_its_definition(llrs):
    odds = 10.0 ** np.array([-2.0, 0.3])
    p = odds / (1 + odds)
    same, different = 10**llrs.same, 10**llrs.different
    expected = [
        p_i * np.mean(np.log2(1 + 1 / (o * same)))
        + (1 - p_i) * np.average(np.log2(1 + o * different), weights=llrs.different_weight)
        for o, p_i in zip(odds, p, strict=True)
    ]
    curve = ece(llrs, np.log10(odds))
    np.testing.assert_allclose(curve.system, expected, rtol=1e-12)
    np.testing.assert_allclose(curve.neutral, -p * np.log2(p) - (1 - p) * np.log2(1 - p), rtol=1e-12)


def test_ece_stays_finite_for_extremes():
    curve = ece(LLRs(np.array([-1e6, 5.0]), np.array([1e6, -5.0])), np.array([-300.0, 0.0, 300.0]))
    for values in (curve.system, curve.pav, curve.neutral):
        assert np.isfinite(values).all()


def test_pav_curve_never_decreases(llrs):
    curve = pav_curve(llrs)
    assert (np.diff(curve.llr) >= 0).all()
    assert (curve.pav_llr[1:] >= curve.pav_llr[:-1]).all()
    assert curve.llr[-1] == max(llrs.same.max(), llrs.different[llrs.different_weight > 0].max())


def test_tippett_counts_what_is_at_or_above(llrs):
    curve = tippett(llrs)
    assert (curve.same[0], curve.same[-1], curve.different[0], curve.different[-1]) == (1, 0, 1, 0)
    at = np.array([-1.0, 0.0, 0.5])  # some LLRs are exactly there
    curve = tippett(llrs, at)
    for k, x in enumerate(at):
        assert curve.same[k] == pytest.approx(np.mean(llrs.same >= x))
        share = np.average(llrs.different >= x, weights=llrs.different_weight)
        assert curve.different[k] == pytest.approx(share)


def test_histogram_keeps_every_pair_in_sight(llrs):
    for limits in (None, (-1.0, 1.0)):
        data = histogram(llrs, 20, limits)
        assert data.edges.size == 21
        assert data.same.sum() == pytest.approx(1)
        assert data.different.sum() == pytest.approx(1)
    assert data.same[-1] >= np.mean(llrs.same >= 1.0)


def test_curves_of_equal_llrs():
    equal = LLRs(np.zeros(2), np.zeros(3))
    assert histogram(equal).same.sum() == 1
    assert tippett(equal).same[0] == 1
    np.testing.assert_allclose(ece(equal).system, ece(equal).neutral)

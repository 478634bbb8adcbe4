"""Thinning leaves out what nobody would see, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from lindley.evaluation.curves import PavCurve, histogram, histogram_limits, pav_curve
from lindley.llrs import LLRs
from lindley.pages.run_model import spread_ranks, thin_pav, thin_qq, thin_series

LOSS = arrays(np.float64, st.integers(1, 900), elements=st.floats(0, 50, width=32))


@given(LOSS, st.integers(20, 120), st.data())
def test_a_thinned_series_has_every_peak_and_every_dip(values, most, data):
    keep = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=most // 2 - 2))
    at = thin_series(values, most, keep)
    assert len(at) <= most
    assert {0, len(values) - 1, *keep} <= set(at.tolist())
    assert (np.diff(at) > 0).all()
    window = -(-len(values) // (most // 4))  # in the worst case half of the places are taken
    for i in range(len(values)):
        near = values[at[np.abs(at - i) < window]]
        assert near.max() >= values[i] >= near.min()


def test_a_short_series_stays_whole():
    np.testing.assert_array_equal(thin_series(np.arange(5.0), 5), np.arange(5))


def test_a_spike_of_one_epoch_is_never_hidden():
    for spike in range(2000):
        values = np.linspace(1, 0.03, 2000)
        values[spike] += 3
        assert spike in thin_series(values, 400)


def test_the_most_important_places_come_first():
    """There are more spikes than places: the first in the list stay, and the curve keeps half of the places."""
    values = np.random.default_rng(0).random(5000)
    keep = list(range(1, 4000, 3))
    at = thin_series(values, 100, keep)
    assert len(at) <= 100
    assert set(keep[:48]) <= set(at.tolist())
    assert (at > 4500).sum() >= 3


@given(st.integers(1, 5000), st.integers(20, 200))
def test_a_thinned_qq_plot_is_evenly_spaced_and_has_its_tails(n, most):
    at = thin_qq(n, most)
    assert len(at) <= most
    assert at[0] == 0
    assert at[-1] == n - 1
    quantile = ndtri((np.arange(n) + 0.5) / n)
    step = (quantile[-1] - quantile[0]) / (most - 1)
    gaps = np.diff(quantile[at])
    assert ((np.diff(at) == 1) | (gaps < 3 * step)).all()


def test_the_tails_of_a_qq_plot_of_350_pairs_are_whole():
    at = thin_qq(350, 150)
    assert set(range(15)) | set(range(335, 350)) <= set(at.tolist())


def staircase(blocks: int, seed: int = 0) -> PavCurve:
    """A PAV curve with that many blocks, the outermost ones at infinity."""
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.exponential(size=2 * blocks)) - blocks
    y = np.cumsum(rng.exponential(size=blocks)) - blocks / 2
    y[0], y[-1] = -np.inf, np.inf
    return PavCurve(x, np.repeat(y, 2))


def test_a_pav_curve_with_few_corners_stays_as_it_is():
    curve = staircase(200)
    thin = thin_pav(curve, 400)
    np.testing.assert_array_equal(thin.llr, curve.llr)
    np.testing.assert_array_equal(thin.pav_llr, curve.pav_llr)


@pytest.mark.parametrize("seed", range(3))
def test_a_thinned_pav_curve_looks_the_same(seed):
    curve = staircase(1000, seed)
    thin = thin_pav(curve, 400)
    assert len(thin.llr) == 400
    assert (np.diff(thin.llr) >= 0).all()
    assert (np.diff(thin.pav_llr[2:-2]) >= 0).all()
    np.testing.assert_array_equal(thin.llr[[0, 1, -2, -1]], curve.llr[[0, 1, -2, -1]])
    np.testing.assert_array_equal(thin.pav_llr[[0, 1, -2, -1]], [-np.inf, -np.inf, np.inf, np.inf])
    at = np.linspace(curve.llr[2], curve.llr[-3], 5000)
    difference = np.interp(at, thin.llr[2:-2], thin.pav_llr[2:-2]) - np.interp(at, curve.llr[2:-2], curve.pav_llr[2:-2])
    assert np.abs(difference).max() < 0.01 * np.ptp(at)  # a pixel or two of a few hundred
    assert np.abs(difference).mean() < 0.002 * np.ptp(at)


def test_corners_in_one_place_go_first():
    """Blocks of one value have both ends in one place: 2 × 300 corners are 300 places, and none of them is lost."""
    x, y = np.arange(300.0), np.arange(300.0) ** 2
    thin = thin_pav(PavCurve(np.repeat(x, 2), np.repeat(y, 2)), 400)
    np.testing.assert_array_equal(thin.llr, x)
    np.testing.assert_array_equal(thin.pav_llr, y)


def test_a_handful_of_extreme_llrs_does_not_squash_a_histogram():
    rng = np.random.default_rng(0)
    same, different = rng.normal(8, 3, 350), rng.normal(-300, 200, 20_000)
    same[:3], different[:5] = -5000, 40
    llrs = LLRs(same, different)
    low, high = histogram_limits(llrs)
    assert -60 < low < -5
    assert 14 < high < 60
    bins = histogram(llrs, 60, (low, high))
    assert bins.same[0] == pytest.approx(3 / 350)  # in sight, at the edge
    assert (bins.same > 0).sum() > 10


def test_a_silent_axis_is_a_spike_at_zero():
    rng = np.random.default_rng(0)
    llrs = LLRs(rng.normal(0, 1e-4, 300), rng.normal(0, 1e-4, 3000))
    low, high = histogram_limits(llrs)
    assert high - low == pytest.approx(1.0)
    assert low < 0 < high
    assert (histogram(llrs, 40, (low, high)).different > 0).sum() <= 2


FINITE = st.floats(-1e6, 1e6, width=32)


@given(st.lists(FINITE, min_size=1, max_size=30), st.lists(FINITE, min_size=1, max_size=30))
def test_histogram_limits_hold_zero_and_the_middle(same, different):
    llrs = LLRs(np.array(same), np.array(different))
    low, high = histogram_limits(llrs)
    assert low <= 0 <= high
    assert high - low >= 1 - 1e-9
    assert low <= np.median(same) <= high
    assert low >= min(*same, *different, 0) - 0.5
    assert high <= max(*same, *different, 0) + 0.5
    bins = histogram(llrs, 40, (low, high))
    assert bins.same.sum() == pytest.approx(1)
    assert bins.different.sum() == pytest.approx(1)


@given(st.integers(0, 200_000), st.integers(30, 200))
def test_spread_ranks(n, most):
    ranks = spread_ranks(n, most)
    assert len(ranks) <= most
    assert (np.diff(ranks) > 0).all()
    assert set(range(min(n, 10))) <= set(ranks.tolist())
    if n:
        assert ranks[-1] == n - 1
        assert np.diff(ranks, prepend=-1).max() <= 1 + 2 * n / (most - 10) * 1.2


def test_equal_llrs():
    llrs = LLRs(np.full(5, -2.0), np.full(9, -2.0))
    assert histogram_limits(llrs) == (-2.0, 0.0)
    curve = thin_pav(pav_curve(llrs), 400)
    np.testing.assert_array_equal(curve.llr, [-2.0, -2.0])
    np.testing.assert_allclose(curve.pav_llr, 0.0, atol=1e-12)

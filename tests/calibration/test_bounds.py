import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from lindley.calibration import elub, iv
from lindley.llrs import LLRs

VALUE = st.one_of(st.integers(-40, 40).map(lambda k: k / 10), st.floats(-12, 12))
SIDE = st.integers(1, 25).flatmap(lambda n: arrays(np.float64, n, elements=VALUE))


def naive_elub(llrs: LLRs) -> tuple[float, float]:
    """Vergeer et al. (2016), threshold by threshold."""
    same, different = np.clip(llrs.same, -9, 9), np.clip(llrs.different, -9, 9)
    everything = np.concatenate([same, different])
    first = min(0, int(max(everything.min(), -np.log10(same.size + 1)) // 0.01))
    last = max(0, int(min(everything.max(), np.log10(different.size + 1)) // 0.01) + 1)
    thresholds = np.arange(first, last + 1) * 0.01
    lower, upper = thresholds[0], thresholds[-1]
    for t in thresholds:
        miss = (np.sum(10**same <= 10**t) + 1) / (same.size + 1)
        false_alarm = (np.sum(10**different > 10**t) + 1) / (different.size + 1)
        if miss + 10**t * false_alarm > min(1.0, 10**t) * (1 + 1e-14):
            if t <= 0:
                lower = max(lower, t + 0.01)
            if t >= 0:
                upper = min(upper, t - 0.01)
    return min(lower, 0.0), max(upper, 0.0)


def naive_iv(llrs: LLRs) -> tuple[float, float]:
    """Alberink et al. (2025), threshold by threshold."""
    same, different = np.clip(llrs.same, -20, 20), np.clip(llrs.different, -20, 20)
    everything = np.append(np.concatenate([same, different]), 0.0)
    thresholds = np.arange(everything.min(), everything.max() + 0.001, 0.001)
    too_high, too_low = [], []
    for k, t in enumerate(thresholds):
        p_same = (np.sum(same >= t) + 0.5) / (same.size + 1)
        p_different = (np.sum(different >= t) + 0.5) / (different.size + 1)
        if np.log10(p_same) - np.log10(p_different) < t:
            too_high.append(k)
        if np.log10(1 - p_same) - np.log10(1 - p_different) > t:
            too_low.append(k)
    upper = same.max()
    if too_high:
        upper = thresholds[too_high[0] - 1] if too_high[0] > 0 else 0.0
    lower = different.min()
    if too_low:
        lower = thresholds[too_low[-1] + 1] if too_low[-1] + 1 < thresholds.size else 0.0
    return min(lower, 0.0), max(upper, 0.0)


@settings(max_examples=60)
@given(same=SIDE, different=SIDE)
def test_elub_equals_its_definition(same, different):
    llrs = LLRs(same, different)
    assert elub(llrs) == pytest.approx(naive_elub(llrs), abs=1e-12)


@settings(max_examples=15)
@given(same=SIDE, different=SIDE)
def test_iv_equals_its_definition(same, different):
    llrs = LLRs(same, different)
    assert iv(llrs) == pytest.approx(naive_iv(llrs), abs=1e-12)


@pytest.mark.parametrize("bounds", [elub, iv])
def test_more_pairs_support_wider_bounds(bounds):
    narrow = bounds(LLRs(np.full(20, 5.0), np.full(50, -5.0)))
    wide = bounds(LLRs(np.full(200, 5.0), np.full(5000, -5.0)))
    assert wide[0] < narrow[0] < 0 < narrow[1] < wide[1]


def test_elub_of_separated_llrs_is_what_one_misleading_pair_allows():
    """E(t) = t / (n_different + 1) + 1 / (n_same + 1) ≤ 1 above zero; likewise below; in steps of 0.01."""
    lower, upper = elub(LLRs(np.full(200, 8.0), np.full(5000, -8.0)))
    assert upper == pytest.approx(np.log10(5001 * (1 - 1 / 201)), abs=0.01)
    assert lower == pytest.approx(-np.log10(201 * (1 - 1 / 5001)), abs=0.01)


def test_thresholds_of_elub_are_the_multiples_of_its_step():
    """P(LR ≤ t | same) counts the pair at 0.1 from the threshold 0.1 on, where E(t) > 1: the last good one is 0.09."""
    assert elub(LLRs(np.array([0.1, 0.4]), np.array([-0.4])))[1] == pytest.approx(0.09)


def test_iv_of_separated_llrs_is_jeffreys_ratio():
    lower, upper = iv(LLRs(np.full(200, 8.0), np.full(5000, -8.0)))
    assert upper == pytest.approx(np.log10(200.5 / 201) - np.log10(0.5 / 5001), abs=0.001)
    assert lower == pytest.approx(np.log10(0.5 / 201) - np.log10(5000.5 / 5001), abs=0.001)


@pytest.mark.parametrize("bounds", [elub, iv])
def test_worthless_llrs_are_bounded_to_zero(bounds):
    assert bounds(LLRs(np.array([-2.0, -1.0, -1.5]), np.array([1.0, 2.0, 1.5]))) == (0.0, 0.0)


def test_iv_where_the_outermost_threshold_fails():
    """All LLRs above zero and fewer same- than different-source pairs: Δ_upper < 0 at the first threshold."""
    assert iv(LLRs(np.linspace(0.5, 3, 30), np.linspace(0.1, 1, 100))) == (0.0, 0.0)
    assert iv(LLRs(np.linspace(-3, -0.5, 100), np.linspace(-1, -0.1, 30)))[1] == 0.0


@pytest.mark.parametrize("bounds", [elub, iv])
def test_finite_for_extremes(bounds):
    lower, upper = bounds(LLRs(np.array([1e6, -1e6, 1e300]), np.array([-1e6, 1e6, -1e300])))
    assert np.isfinite([lower, upper]).all()
    assert lower <= 0 <= upper

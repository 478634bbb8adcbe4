"""One contract for every calibration: shape, finiteness, weights, order of the pairs, no change in place."""

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from lindley.calibration import CALIBRATIONS, Bounds, Chain
from lindley.errors import LindleyError
from lindley.llrs import LLRs

NAMES = list(CALIBRATIONS)
MONOTONE = ["logistic", "pav", "elub", "iv"]

# coarse values make ties between the hypotheses likely; a few are extreme
VALUE = st.one_of(st.integers(-30, 30).map(lambda k: k / 10), st.floats(-8, 8), st.sampled_from([-1e6, 1e4, 1e6]))


def sides(low: int = 1, high: int = 12) -> st.SearchStrategy[np.ndarray]:
    return st.integers(low, high).flatmap(lambda n: arrays(np.float64, n, elements=VALUE))


def example(seed: int = 0, n_same: int = 80, n_different: int = 700) -> LLRs:
    rng = np.random.default_rng(seed)
    return LLRs(rng.normal(1.2, 1.5, n_same), rng.normal(-2, 2, n_different))


@pytest.mark.parametrize("name", NAMES)
def test_keeps_shape_and_dtype(name):
    calibration = CALIBRATIONS[name].fit(example())
    for shape in [(), (5,), (2, 3), (0,), (2, 0, 4)]:
        out = calibration(np.zeros(shape))
        assert out.shape == shape
        assert out.dtype == np.float64


@pytest.mark.parametrize("name", NAMES)
def test_changes_neither_fitting_data_nor_input(name):
    llrs = example()
    llrs = LLRs(np.append(llrs.same, [-300.0, 300.0]), np.append(llrs.different, [-300.0, 300.0]))
    weighted = LLRs(llrs.same, llrs.different, np.full(82, 2.0), np.full(702, 3.0))
    llr = np.linspace(-400, 400, 50)
    held = [llrs.same, llrs.different, weighted.same_weight, weighted.different_weight, llr]
    before = [array.copy() for array in held]
    for array in held:
        array.setflags(write=False)
    CALIBRATIONS[name].fit(weighted)
    out = CALIBRATIONS[name].fit(llrs)(llr)
    for array, copy in zip(held, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert not np.shares_memory(out, llr)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(same=sides(), different=sides())
def test_finite_for_any_finite_llr(name, same, different):
    calibration = CALIBRATIONS[name].fit(LLRs(same, different))
    probe = np.concatenate([same, different, [-1e300, -1e6, -1.0, 0.0, 0.3, 1e6, 1e300]])
    assert np.isfinite(calibration(probe)).all()
    json.dumps(calibration.describe(), allow_nan=False)


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=40)
@given(same=sides(), different=sides())
def test_monotone(name, same, different):
    calibration = CALIBRATIONS[name].fit(LLRs(same, different))
    probe = np.sort(np.concatenate([same, different, np.linspace(-5, 5, 101)]))
    out = calibration(probe)
    assert (np.diff(out) >= -1e-12 * (1 + np.abs(out[1:]))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_of_two_is_a_pair_twice(name):
    rng = np.random.default_rng(3)
    same, different = np.round(rng.normal(1, 1, 40), 1), np.round(rng.normal(-1, 1, 90), 1)
    times_same, times_different = rng.integers(0, 4, 40), rng.integers(0, 4, 90)
    weighted = CALIBRATIONS[name].fit(LLRs(same, different, times_same, times_different))
    repeated = CALIBRATIONS[name].fit(LLRs(np.repeat(same, times_same), np.repeat(different, times_different)))
    llr = np.linspace(-4, 4, 200)
    np.testing.assert_allclose(weighted(llr), repeated(llr), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_pairs_does_not_matter(name):
    llrs = example(5)
    rng = np.random.default_rng(0)
    shuffled = LLRs(rng.permutation(llrs.same), rng.permutation(llrs.different))
    llr = np.linspace(-6, 6, 100)
    one, other = CALIBRATIONS[name].fit(llrs)(llr), CALIBRATIONS[name].fit(shuffled)(llr)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_chain_fits_each_step_on_the_output_of_the_last():
    llrs = example(1)
    chain = Chain.fit(["logistic", "elub"], llrs)
    logistic = CALIBRATIONS["logistic"].fit(llrs)
    bounds = CALIBRATIONS["elub"].fit(llrs.map(logistic))
    llr = np.linspace(-10, 10, 41).reshape(1, 41)
    np.testing.assert_array_equal(chain(llr), bounds(logistic(llr)))
    assert chain.names == ("logistic", "elub")


def test_empty_chain_is_the_identity_on_a_copy():
    chain = Chain.fit([], example())
    llr = np.array([[1.0, -2.0]])
    assert isinstance(chain, Chain)
    np.testing.assert_array_equal(chain(llr), llr)
    assert not np.shares_memory(chain(llr), llr)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(LindleyError, match=r"unknown calibration logit; known are logistic, kde, pav, elub, iv"):
        Chain.fit(["elub", "logit"], example())


def test_fixed_bounds():
    bounds = Bounds(-1.0, 2.0)
    np.testing.assert_array_equal(bounds(np.array([-5.0, 0.5, 9.0])), [-1.0, 0.5, 2.0])
    with pytest.raises(ValueError, match="above the upper"):
        Bounds(1.0, -1.0)

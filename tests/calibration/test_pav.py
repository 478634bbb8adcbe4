import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression

from lindley.calibration import Pav, pav
from lindley.errors import LindleyError
from lindley.llrs import LLRs

TENTHS = st.integers(-20, 20).map(lambda k: k / 10)
SIDE = st.integers(1, 20).flatmap(lambda n: arrays(np.float64, n, elements=TENTHS))


def textbook(llrs: LLRs, misleading: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distinct LLRs and their PAV LLRs: merge neighbours until nothing decreases, in whole numbers."""
    values = np.unique(np.concatenate([llrs.same, llrs.different]))
    units = [[int((llrs.same == v).sum()), int((llrs.different == v).sum()), [v]] for v in values]
    units = [[misleading, 0, []], *units, [0, misleading, []]]
    blocks: list[list] = []
    for unit in (u for u in units if u[0] + u[1]):
        blocks.append(unit)
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    n_same, n_different = llrs.same.size + misleading, llrs.different.size + misleading
    with np.errstate(divide="ignore"):
        llr = [np.log10(np.float64(s) / n_same) - np.log10(np.float64(d) / n_different) for s, d, _ in blocks]
    return values, np.repeat(llr, [len(block[2]) for block in blocks])


def at(blocks, values):
    """The PAV LLR of fitted values, from the blocks."""
    index = np.searchsorted(blocks.lower, values, side="right") - 1
    assert (values <= blocks.upper[index]).all()
    return blocks.llr[index]


@settings(max_examples=200)
@given(same=SIDE, different=SIDE, misleading=st.integers(0, 2))
def test_equals_the_textbook_algorithm_ties_included(same, different, misleading):
    llrs = LLRs(same, different)
    values, expected = textbook(llrs, misleading)
    blocks = pav(llrs, misleading)
    np.testing.assert_allclose(at(blocks, values), expected, rtol=1e-12, atol=1e-12)
    assert blocks.same.sum() == same.size + misleading
    assert blocks.different.sum() == different.size + misleading
    assert (np.diff(blocks.llr) > -1e-12).all()


@settings(max_examples=100)
@given(same=SIDE, different=SIDE)
def test_idempotent(same, different):
    llrs = LLRs(same, different)
    blocks = pav(llrs)

    def transform(llr):
        return np.clip(at(blocks, llr), -50, 50)  # infinite LLRs have no place in LLRs

    once = llrs.map(transform)
    again = pav(once)
    finite = np.abs(once.same) < 50
    np.testing.assert_allclose(at(again, once.same)[finite], once.same[finite], atol=1e-12)
    finite = np.abs(once.different) < 50
    np.testing.assert_allclose(at(again, once.different)[finite], once.different[finite], atol=1e-12)


@pytest.mark.parametrize("misleading", [1, 3])
def test_calibration_equals_scikit_learns_isotonic_regression(misleading):
    rng = np.random.default_rng(0)
    same, different = np.round(rng.normal(1, 1, 50), 2), np.round(rng.normal(-1, 1, 400), 2)
    x = np.concatenate([same, np.full(misleading, -9.0), different, np.full(misleading, 9.0)])
    y = np.repeat([1.0, 0.0], [50 + misleading, 400 + misleading])
    weight = np.where(y == 1, 1 / (50 + misleading), 1 / (400 + misleading))
    oracle = IsotonicRegression(out_of_bounds="clip").fit(x, y, weight)
    llr = np.linspace(-6, 6, 1001)
    p = oracle.predict(llr)
    np.testing.assert_allclose(Pav.fit(LLRs(same, different), misleading)(llr), np.log10(p / (1 - p)), atol=1e-9)


def test_finite_for_separated_llrs():
    """50 same, 300 different: the outermost blocks hold one added pair each."""
    fitted = Pav.fit(LLRs(np.linspace(1, 6, 50), np.linspace(-8, -1, 300)))
    low, high = fitted(np.array([-100.0, 100.0]))
    assert low == pytest.approx(np.log10((1 / 51) / (300 / 301)))
    assert high == pytest.approx(np.log10((50 / 51) / (1 / 301)))
    assert fitted.describe() == pytest.approx({"points": 4.0, "llr_lowest": low, "llr_highest": high})


def test_digits_of_a_large_lr_are_kept():
    fitted = Pav.fit(LLRs(np.ones(10), -np.ones(1), None, np.array([1e15])))
    assert fitted(np.array([1.0]))[0] == pytest.approx(np.log10(10 / 11 * (1e15 + 1)), rel=1e-13)


def test_pairs_of_weight_zero_are_not_there():
    with_zero = LLRs(np.array([1.0, 7.0]), np.array([-9.0, -1.0, 0.5]), np.array([1.0, 0]), np.array([0, 1.0, 1]))
    without = LLRs(np.array([1.0]), np.array([-1.0, 0.5]))
    for name in ("lower", "upper", "same", "different", "llr"):
        np.testing.assert_array_equal(getattr(pav(with_zero), name), getattr(pav(without), name))


def test_needs_misleading_pairs_to_be_finite():
    with pytest.raises(LindleyError, match="misleading"):
        Pav.fit(LLRs(np.ones(1), np.zeros(1)), misleading=0)

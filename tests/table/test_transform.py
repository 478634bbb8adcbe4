"""The transform before everything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lindley.errors import LindleyError
from lindley.table import Transform

VALUES = np.array([[1.0, 10.0], [100.0, 0.5], [3.0, 1e-3]])
REFERENCE = np.array([10.0, 2.0, 0.1])


def test_none_changes_nothing() -> None:
    assert Transform().apply(VALUES) is VALUES


def test_logs() -> None:
    np.testing.assert_allclose(Transform("log10").apply(VALUES)[0], [0.0, 1.0])
    np.testing.assert_allclose(Transform("ln").apply(np.array([[np.e**2]])), [[2.0]])


def test_reference_is_a_ratio() -> None:
    np.testing.assert_allclose(
        Transform("log10", "Si28").apply(VALUES, REFERENCE), np.log10(VALUES / REFERENCE[:, None]), atol=1e-15
    )


@given(scale=st.floats(1e-3, 1e3))
def test_a_ratio_forgets_how_much_was_ablated(scale: float) -> None:
    transform = Transform("ln", "Si28")
    np.testing.assert_allclose(
        transform.apply(scale * VALUES, scale * REFERENCE), transform.apply(VALUES, REFERENCE), atol=1e-12
    )


def test_extreme_ratios_stay_finite() -> None:
    result = Transform("log10", "r").apply(np.array([[1e300]]), np.array([1e-300]))
    np.testing.assert_allclose(result, [[600.0]])


def test_non_positive_values_have_no_log_and_raise_no_warning() -> None:
    result = Transform("log10").apply(np.array([[0.0, -1.0, 10.0, np.nan]]))
    np.testing.assert_array_equal(result, [[np.nan, np.nan, 1.0, np.nan]])


def test_a_reference_needs_a_log() -> None:
    with pytest.raises(LindleyError, match=r"'Si28' needs a log: choose the transform log10 or ln"):
        Transform("none", "Si28")


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(LindleyError, match=r"'log2'\. Choose none, log10 or ln"):
        Transform("log2")  # type: ignore[arg-type]


def test_reference_values_must_be_given_if_and_only_if_named() -> None:
    with pytest.raises(ValueError, match="Si28"):
        Transform("ln", "Si28").apply(VALUES)
    with pytest.raises(ValueError, match="None"):
        Transform("ln").apply(VALUES, REFERENCE)

"""Numbers and names as people read them: one test per rule."""

from __future__ import annotations

import doctest
import math

import pytest

from lindley.pages import numerals
from lindley.pages.numerals import (
    aligned,
    capital,
    figure,
    fixed,
    grouped,
    log_ticks,
    measured,
    nice_ticks,
    number,
    percent,
    plain,
    scientific,
    shorten,
    signed,
    tick_label,
    times,
)


def test_the_examples_are_true() -> None:
    result = doctest.testmod(numerals)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0341, "0.0341"),
        (-2.5, "−2.50"),
        (0.0, "0"),
        (1e-6, "1.00e−6"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_read_as_a_person_writes_them(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_number_has_the_digits_that_are_asked_for() -> None:
    assert [number(0.012344, digits) for digits in (1, 2, 4)] == ["0.01", "0.012", "0.01234"]
    assert number(1234.4) == "1234"
    assert number(2e6, 2) == "2.0e6"


def test_fixed_decimals_with_a_true_minus_that_stays_at_zero() -> None:
    assert (fixed(-1.005), fixed(-0.001), fixed(12.3456, 4)) == ("−1.00", "−0.00", "12.3456")


def test_a_sign_is_shown_where_it_is_asked_for() -> None:
    assert [signed(fixed(v)) for v in (0.5, 0.0, -0.5)] == ["+0.50", "+0.00", "−0.50"]
    assert signed(number(0.034, 2)) == "+0.034"


def test_exponents_are_short() -> None:
    assert (scientific(-2.0), scientific(0.0411), scientific(1.5e12, 1)) == ("−2.00e0", "4.11e−2", "1.5e12")


def test_measurements_are_as_in_the_file_and_stand_under_each_other() -> None:
    assert [measured(v) for v in (1.5, -0.25, 1234567.0)] == ["1.5", "−0.25", "1.23457e+06"]
    assert aligned(["1.5", "−0.25", "3"]) == ("1.50", "−0.25", "3.00")
    assert aligned(["1.5", "1e+06"]) == ("1.5", "1e+06")
    assert aligned(["1", "2"]) == ("1", "2")


def test_shares_are_in_per_cent() -> None:
    assert [percent(v) for v in (0.01234, 0.5, 0.0, None)] == ["1.2 %", "50 %", "0 %", "–"]


def test_figures_of_a_validation() -> None:
    assert figure(0.01234, "share") == "1.23 %"
    assert figure(0.4567, "share") == "45.7 %"
    assert figure(-0.00001, "bits") == "0.0000"
    assert figure(-0.0123, "bits") == "−0.0123"
    assert figure(0.31234, "bits") == "0.312"
    assert figure(-2.346, "log10") == "−2.35"
    assert figure(float("inf"), "log10") == "∞"
    assert figure(float("nan"), "share") == "–"


def test_counts() -> None:
    assert grouped(1234567) == "1,234,567"
    assert grouped(1234567, language="nl") == "1\u202f234\u202f567"
    assert times((2, 3)) == "2×3"


def test_sentences_begin_with_a_capital() -> None:
    assert (capital("it is McDonald's."), capital("")) == ("It is McDonald's.", "")


def test_long_names_are_shortened_in_the_middle() -> None:
    assert shorten("a" * 50, 11) == "aaaaa…aaaaa"
    assert shorten("a\x00b\n") == r"a\x00b\n"
    assert plain("a\tb\u2028c") == r"a\tb\u2028c"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.13, 0.88, [0.2, 0.4, 0.6, 0.8]),
        (-1, 1, [-1, 0, 1]),
        (0, 1e-7, [0, 5e-8, 1e-7]),
        (990, 1010, [990, 1000, 1010]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high, 4) == pytest.approx(ticks)


def test_ticks_of_a_log_axis_are_fewer_over_many_decades() -> None:
    assert log_ticks(0.15, 6) == pytest.approx([0.2, 0.5, 1, 2, 5])
    assert log_ticks(0.001, 900) == pytest.approx([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300])
    assert log_ticks(1e-6, 1e4) == pytest.approx([10.0**k for k in range(-6, 5)])


def test_tick_labels_have_no_needless_zeros() -> None:
    assert [tick_label(v) for v in (0.2, 10.0, -1.5, 1e-7, 0.0)] == ["0.2", "10", "−1.5", "1.000e−7", "0"]

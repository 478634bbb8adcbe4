"""Units from headers and from the option."""

from __future__ import annotations

import pytest

from lindley.errors import LindleyError
from lindley.table.units import parse_units, without_units
from tests.casework.factory import table

NAMES = ["K39", "Ti49"]


def test_headers_give_names_and_units() -> None:
    plain, units, reference = without_units(table(features=["K39 [ppm]", "Ti49 (%)", "Mn55"]), "Si28 [ppm]")
    assert plain.features == ("K39", "Ti49", "Mn55")
    assert units == ("ppm", "%", None)
    assert reference == "Si28"


def test_names_that_would_become_one_stay_apart() -> None:
    plain, units, _ = without_units(table(features=["K39 [ppm]", "K39 [%]", "Mn55 [ppm]"]))
    assert plain.features == ("K39 [ppm]", "K39 [%]", "Mn55")
    assert units == (None, None, "ppm")


def test_the_option() -> None:
    assert parse_units("ppm", NAMES, (None, None)) == ("ppm", "ppm")
    assert parse_units("Ti49=%", NAMES, ("ppm", None)) == ("ppm", "%")
    assert parse_units('"K39=mg, dry",Ti49=%', NAMES, (None, None)) == ("mg, dry", "%")
    assert parse_units("PPM", NAMES, ("ppm", None)) == ("PPM", "PPM")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not read"),
        ("K39=", "does not read"),
        ("K39=ppm,%", "does not read"),
        ("=ppm,=ppm", "does not read"),
        ("K40=ppm", "--units names 'K40'; the features are 'K39' and 'Ti49'"),
        ("K39=%", "says that K39 is in %, and its header says ppm: which is right"),
        ('"K39=ppm', "does not read"),
    ],
)
def test_options_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        parse_units(text, NAMES, ("ppm", None))

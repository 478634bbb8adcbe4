"""Units from headers and from the option."""

from __future__ import annotations

import pytest

from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.table.units import given_units, plain_names

NAMES = ["K39", "Ti49"]


def test_headers_give_names_and_units() -> None:
    assert plain_names(["K39 [ppm]", "Ti49 (%)", "Mn55"]) == (("K39", "Ti49", "Mn55"), ("ppm", "%", None))


def test_names_that_would_become_one_stay_apart() -> None:
    names, units = plain_names(["K39 [ppm]", "K39 [%]", "Mn55 [ppm]"])
    assert names == ("K39 [ppm]", "K39 [%]", "Mn55")
    assert units == (None, None, "ppm")


def test_the_option() -> None:
    assert given_units("ppm", NAMES, (None, None)) == ("ppm", "ppm")
    assert given_units("Ti49=%", NAMES, ("ppm", None)) == ("ppm", "%")
    assert given_units('"K39=mg, dry",Ti49=%', NAMES, (None, None)) == ("mg, dry", "%")
    assert given_units("PPM", NAMES, ("ppm", None)) == ("PPM", "PPM")
    assert given_units({"Ti49": "%"}, NAMES, ("ppm", None)) == ("ppm", "%")
    assert given_units(["ppm", None], NAMES, (None, "%")) == ("ppm", "%")


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
    with speaking("shell"), pytest.raises(LindleyError, match=message):
        given_units(text, NAMES, ("ppm", None))

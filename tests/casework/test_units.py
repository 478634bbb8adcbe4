"""Units from headers and from the option."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.pages.case_record import verify_reports
from lindley.settings import speaking
from lindley.system.train import train
from lindley.table import Table, TableError, join_tables, read_table
from lindley.table.units import given_units, plain_names, power_between

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


@pytest.mark.parametrize(
    ("unit", "power"),
    [
        *[(unit, 0) for unit in ("ppm", "PPM", "mg/kg", "MG/KG", "Mg/kg", "µg/g", "\u03bcg/g", "ug/g", "mcg/g", "g/t")],
        *[(unit, 0) for unit in ("mg kg-1", "mg·kg⁻¹", "mg kg^-1", "mg.kg\u22121", "mg per kg", "ppmw", "ppm (m/m)")],
        *[(unit, 4) for unit in ("%", "wt%", "wt.%", "wt.-%", "mass %", "% w/w", "g/100 g", "g/100g")],
        *[(unit, -3) for unit in ("ppb", "µg/kg", "ng/g", "ug kg-1")],
        *[(unit, 3) for unit in ("g/kg", "mg/g", "‰")],
        *[
            (unit, None)
            for unit in ("at.%", "mol%", "vol%", "ppmv", "mg/L", "µL/L", "mmol/mol", "mg/kg dw", "cps", "ppt")
        ],
        ("log10 mg/kg", None),
    ],
)
def test_names_of_one_unit_and_powers_of_ten_between_units(unit: str, power: int | None) -> None:
    assert power_between(unit, "mg/kg") == power
    assert power_between("ppm", unit) == (None if power is None else -power)
    assert power_between(unit, unit.casefold().upper()) in (0, None)
    assert power_between(unit, None) == 0


def test_other_units_of_the_si_are_converted_too() -> None:
    assert power_between("mg/L", "µg/mL") == power_between("mm3", "uL") == 0
    assert power_between("mHz", "MHz") == -9
    assert power_between("µm", "mm2") is None


def test_a_second_name_of_the_unit_in_the_header_is_no_contradiction() -> None:
    assert given_units("mg/kg", NAMES, ("ppm", None)) == ("mg/kg", "mg/kg")
    with pytest.raises(LindleyError, match="which is right"):
        given_units("ppb", NAMES, ("ppm", None))


@pytest.mark.parametrize("transform", [{}, {"transform": "log10"}, {"transform": "ln", "reference": "Si29"}], ids=str)
def test_a_table_in_other_units_is_converted_wherever_it_meets_another(transform: dict[str, Any]) -> None:
    """Read in the features of a system, read before, and joined: the values are those of a table in its units."""
    rng = np.random.default_rng(5)
    values = rng.lognormal(3, 1, (24, 3)).round(3)
    source = [f"s{row // 3}" for row in range(24)]
    columns = ("K39 [ppm]", "Ti49 [mg/kg]", "Si29 [%]")
    first = dict(zip(columns, values.T, strict=True)) | {"source": source}
    other = {"source": [f"t{each}" for each in source], "K39 [%]": values[:, 0] / 10_000}
    other |= {"Ti49 [ng/g]": values[:, 1] * 1000, "Si29 [g/kg]": values[:, 2] * 10}
    table, expected = read_table(first, **transform), read_table({**first, "source": other["source"]}, **transform)
    wanted = {"features": table.features, "units": table.column_units, **transform}
    again = read_table(read_table(other, **transform), features=table.features, units=table.column_units, **transform)
    joined = join_tables([table, read_table(other, **transform, name="other")], allow_duplicates=True)
    for found in (read_table(other, **wanted), again):
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-15, atol=1e-15)
        assert (found.units, found.reference_unit) == (table.units, table.reference_unit)
        told = [str(each) for each in found.findings if each.code == "unit-converted"]
        assert len(told) == 3
        assert "values in % were multiplied by 10,000, which makes them ppm" in told[0]
    np.testing.assert_allclose(joined.values, np.concatenate([table.values, expected.values]), rtol=1e-15, atol=1e-15)
    assert joined.units == table.units
    assert sum(each.code == "unit-converted" for each in joined.findings) == 3
    assert {each.file for each in joined.findings if each.code == "unit-converted"} == {"other"}


def test_a_case_in_other_units_says_so_and_verifies(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    values = np.repeat(rng.normal(50, 9, (40, 1, 2)), 3, axis=1) + rng.normal(0, 1, (40, 3, 2))
    table = Table.from_arrays(values.reshape(-1, 2), np.repeat(np.arange(40), 3), features=["K39", "Ti49"])
    system = train(replace(table, units=("ppm", "mg/kg")), "tlm", replicates=4)
    system.save(tmp_path / "system.safetensors")
    trace, ref = values[0, :1], values[0, 1:]
    plain = system.case(trace, ref).explanation.log10_lr
    in_percent = {"K39 [%]": trace[:, 0] / 10_000, "Ti49 [ug/g]": trace[:, 1]}
    case = system.case(in_percent, ref)
    assert case.explanation.log10_lr == pytest.approx(plain, abs=1e-9)
    assert system.llr(in_percent, ref) == pytest.approx(plain, abs=1e-9)
    for ending in ("html", "json"):
        case.write(tmp_path / f"case.{ending}")
        told = " ".join(html.unescape((tmp_path / f"case.{ending}").read_text()).split())
        assert "'K39 [%]': values in % were multiplied by 10,000, which makes them ppm" in told
        assert "'Ti49 [ug/g]': ug/g is another name of mg/kg" in told
        (found,) = verify_reports([tmp_path / f"case.{ending}"])
        assert found.same, found.problems
    with pytest.raises(TableError, match="the values are in mg/L, and the system was trained on ppm"):
        system.llr({"K39 [mg/L]": [5.0], "Ti49": [5.0]}, ref)

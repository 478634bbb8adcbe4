"""Cases that are not what they seem: other units, values of another size, measurements that were seen before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lindley
from lindley.casework.applicability import looks_foreign
from lindley.casework.case import Case, Refusal, evaluate_batch, read_evidence
from lindley.cli import app
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.system.system import System, load, row_digests
from lindley.table.read import read_table
from tests.casework.factory import FEATURES, items, population, write_csv
from tests.casework.golden.make import FOLDER, measured

Floats = Any
RUNNER = CliRunner()
SI = "Si28"


@cache
def ratio(unit: str | None = "ppm", units: str | None = "ppm") -> System:
    """log10 of ratios to Si28, the features in ppm, and Si28 in a unit that the system knows or not."""
    golden = load(FOLDER / "kernel-ratio.safetensors")
    return replace(golden, units=(units,) * len(FEATURES), reference_unit=unit)


@cache
def plain() -> System:
    return load(FOLDER / "normal-logistic.safetensors")


def pair(of: System, seed: int = 4) -> tuple[Floats, Floats]:
    values = items(seed, 1, 4)[0]
    return measured(of, values[:2]), measured(of, values[2:])


def csv(folder: Path, name: str, header: list[str], values: Floats) -> Path:
    return write_csv(folder / f"{name}.csv", values, header)


def made(folder: Path, of: System, header: list[str], factor: Floats = 1.0, **settings: Any) -> Case:
    trace, ref = pair(of)
    trace_file = csv(folder, "trace", header, trace * factor)
    ref_file = csv(folder, "ref", list(of.columns), ref)
    return of.case(trace_file, ref_file, **settings)


PPM = [f"{name} [ppm]" for name in FEATURES]
HEADERS: dict[str, tuple[str | None, str | None, list[str], str | None]] = {
    # what the system knows of the reference and of the features, the header of the trace, and what is refused
    "the same everywhere": ("ppm", "ppm", [*PPM, f"{SI} [ppm]"], None),
    "round brackets": ("ppm", "ppm", [*PPM, f"{SI} (ppm)"], None),
    "capitals": ("ppm", "ppm", [*PPM, f"{SI} [PPM]"], None),
    "no unit of the reference": ("ppm", "ppm", [*PPM, SI], None),
    "no unit at all": ("ppm", "ppm", [*FEATURES, SI], None),
    "another name of the unit": ("%", "ppm", [*(f"{name} [mg/kg]" for name in FEATURES), f"{SI} (wt%)"], None),
    "the reference by volume": (
        "ppm",
        "ppm",
        [*PPM, f"{SI} [mg/L]"],
        rf"column '{SI} \[mg/L\]': the values are in mg/L, and the",
    ),
    "the reference in at.%": ("%", "ppm", [*PPM, f"{SI} (at.%)"], "in at.%, and the system was trained on %"),
    "a feature by volume": ("ppm", "ppm", ["K39 [vol%]", *PPM[1:], SI], "'K39 \\[vol%\\]': the values are in vol%"),
    "all by volume": ("ppm", "ppm", [f"{name} [mg/L]" for name in (*FEATURES, SI)], "5 errors"),
    "capitals of the reference": ("ppm", "ppm", [*PPM, "SI28 [at.%]"], "in at.%, and the system was trained on ppm"),
    "the reference twice": ("ppm", "ppm", [*PPM[:3], "si28 [ppm]", "SI28 [%]"], "could each be 'Si28'"),
    "no reference": ("ppm", "ppm", [*PPM, "Si29 [ppm]"], "the system needs 'Si28'"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_units_of_every_column_that_is_computed_with(name: str, tmp_path: Path) -> None:
    unit, units, header, message = HEADERS[name]
    of = ratio(unit, units)
    if message is None:
        assert made(tmp_path, of, header).explanation.log10_lr == pytest.approx(of.llr(*pair(of)), abs=1e-9)
        return
    with pytest.raises(LindleyError, match=message):
        made(tmp_path, of, header)


@pytest.mark.parametrize(
    ("header", "factor"),
    [
        ([*PPM, f"{SI} [%]"], [1, 1, 1, 1, 1e-4]),
        (["K39 [%]", *PPM[1:], f"{SI} [µg/g]"], [1e-4, 1, 1, 1, 1]),
        ([f"{name} [ppb]" for name in (*FEATURES, SI)], [1000] * 5),
    ],
    ids=["the reference", "a feature", "all"],
)
def test_units_of_one_kind_are_converted_and_said(header: list[str], factor: list[float], tmp_path: Path) -> None:
    of = ratio("ppm", "ppm")
    case = made(tmp_path, of, header, np.array(factor))
    trace, ref = pair(of)
    assert case.explanation.log10_lr == pytest.approx(of.llr(trace, ref), abs=1e-9)
    assert of.llr(dict(zip(header, (trace * factor).T, strict=True)), ref) == pytest.approx(
        of.llr(trace, ref), abs=1e-9
    )
    assert "unit-converted" in {each.code for each in case.trace.items.findings}
    made_of_it = case.to_json()["trace"]
    np.testing.assert_allclose([list(row.values()) for row in made_of_it["measured"]], trace[:, :4], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in HEADERS if name != "the reference twice"])
def test_units_of_columns_that_are_given_by_name(name: str) -> None:
    unit, units, header, message = HEADERS[name]
    of = ratio(unit, units)
    trace, ref = pair(of)
    columns = dict(zip(header, trace.T, strict=True))
    if message is None:
        assert of.llr(columns, ref) == of.llr(trace, ref)
        return
    with pytest.raises(LindleyError, match=message.replace("5 errors", "in mg/L")):
        of.llr(columns, ref)


@pytest.mark.parametrize(("unit", "units"), [(None, "ppm"), ("ppm", None), (None, None)])
def test_a_unit_that_the_system_does_not_know_is_said(unit: str | None, units: str | None, tmp_path: Path) -> None:
    of = ratio(unit, units)
    said = [r.message for r in made(tmp_path, of, [*PPM, f"{SI} [ppm]"]).remarks if r.code == "unit-not-checked"]
    named = [*(PPM if units is None else []), *([f"{SI} [ppm]"] if unit is None else [])]
    assert len(said) == 1
    assert all(f"'{name}'" in said[0] for name in named)
    assert "trained without one" in said[0]


def test_what_is_said_of_units_reaches_the_console_and_json(tmp_path: Path) -> None:
    of = ratio(None)
    of.save(tmp_path / "s.safetensors")
    trace, ref = pair(of)
    command = [
        "case", str(tmp_path / "s.safetensors"), "--trace", str(csv(tmp_path, "t", [*PPM, f"{SI} [%]"], trace)),
        "--ref", str(csv(tmp_path, "r", [*PPM, SI], ref)),
    ]  # fmt: skip
    assert "trained without one" in " ".join(RUNNER.invoke(app, command).stdout.split())
    codes = [each["code"] for each in json.loads(RUNNER.invoke(app, [*command, "--json"]).stdout)["warnings"]]
    assert "unit-not-checked" in codes


TRAINING_UNITS: dict[str, tuple[list[str], str | dict[str, str] | None, tuple[Any, ...]]] = {
    "the header of the reference": ([*PPM, f"{SI} [%]"], None, ("ppm",) * 4 + ("%",)),
    "one for all": ([*FEATURES, SI], "ppm", ("ppm",) * 5),
    "one for all, the header says another": ([*FEATURES, f"{SI} [%]"], "ppm", ("ppm",) * 4 + ("%",)),
    "by name": ([*FEATURES, SI], "K39=%,Si28=ppm", ("%", None, None, None, "ppm")),
    "a dictionary": ([*FEATURES, SI], {"Si28": "%"}, (None,) * 4 + ("%",)),
    "none": ([*FEATURES, SI], None, (None,) * 5),
}


@pytest.mark.parametrize("name", TRAINING_UNITS)
def test_training_reads_the_unit_of_the_reference(name: str) -> None:
    header, units, told = TRAINING_UNITS[name]
    values, source = population(8, 3, 7)
    columns = dict(zip(header, np.column_stack([10.0**values, np.full(len(values), 7.0)]).T, strict=True))
    table = read_table(columns, source=source, transform="log10", reference=SI, units=units)
    assert table.column_units == told
    again = read_table(table, features=FEATURES, units=told, transform="log10", reference=SI)
    assert again.column_units == told
    if told[-1]:
        with pytest.raises(LindleyError, match="and the system was trained on mg/L"):
            read_table(table, features=FEATURES, units=(*told[:-1], "mg/L"), transform="log10", reference=SI)


def test_a_reference_and_a_feature_of_one_name_stay_apart() -> None:
    values, source = population(8, 3, 7)
    columns = dict(zip(["K39", "Si28 [%]", "Si28 [ppm]"], 10.0 ** values[:, :3].T, strict=True))
    table = read_table(columns, source=source, transform="log10", reference="Si28 [ppm]")
    assert table.features == ("K39", "Si28 [%]")
    assert table.transform.reference == "Si28 [ppm]"


TIGHT = 0.2
"""Real elements scatter by a fifth of what the golden ones do, which is a decade."""


def tight(of: System) -> System:
    return replace(of, scalings=tuple(replace(each, sd=TIGHT * each.sd) for each in of.scalings))


def tight_ratio() -> System:
    return tight(ratio())


def logged() -> System:
    """Logarithms without a ratio, which no common factor leaves alone."""
    return replace(tight_ratio(), reference=None, reference_unit=None, units=(None,) * 4)


def usual(of: System) -> tuple[Floats, Floats]:
    """An item of the population, measured twice and twice again."""
    if of.transform == "none":
        return pair(of)
    values = of.scaling.mean + TIGHT * (items(4, 1, 4)[0] - of.scaling.mean)
    rows = 10.0**values if of.reference is None else np.column_stack([700 * 10.0**values, np.full(len(values), 700.0)])
    return rows[:2], rows[2:]


FACTORS: dict[str, tuple[Callable[[], System], Floats, str]] = {
    # the system, what the trace is multiplied by, and whether it is refused, warned of, or the same LR as before
    "ppb for ppm, logarithms": (logged, 1e3, "refused"),
    "% for ppm, logarithms": (logged, 1e-4, "refused"),
    "five decades up": (logged, 1e5, "refused"),
    "five decades down": (logged, 1e-5, "refused"),
    "twenty decades up": (logged, 1e20, "refused"),
    "half of the features": (logged, np.array([1e4, 1e4, 1, 1]), "refused"),
    "some up, some down": (logged, np.array([1e5, 1e-5, 1, 1]), "refused"),
    "three features": (logged, np.array([1e4, 1e4, 1e4, 1]), "refused"),
    "one feature": (logged, np.array([1e4, 1, 1, 1]), "warned"),
    "one feature down": (logged, np.array([1, 1, 1, 1e-5]), "warned"),
    "ten times one tight feature": (logged, np.array([10, 1, 1, 1]), "warned"),
    "features, not the reference": (tight_ratio, np.array([1e3] * 4 + [1]), "refused"),
    "the reference alone": (tight_ratio, np.array([1] * 4 + [1e-3]), "refused"),
    "the reference alone, down": (tight_ratio, np.array([1] * 4 + [1e4]), "refused"),
    "all, and a ratio of them": (tight_ratio, 1e3, "same"),
    "all by a little": (tight_ratio, 1e-4, "same"),
    "no logarithm": (plain, 1e3, "refused"),
    "no logarithm, 30 times": (plain, 30.0, "refused"),
}


@pytest.mark.parametrize("name", FACTORS)
def test_values_of_another_size(name: str, tmp_path: Path) -> None:
    make, factor, outcome = FACTORS[name]
    of = make()
    trace, ref = usual(of)
    header = list(of.columns)
    files = csv(tmp_path, "trace", header, trace * factor), csv(tmp_path, "ref", header, ref)
    if outcome == "refused":
        with pytest.raises(Refusal) as caught:
            of.case(*files)
        assert {remark.which for remark in caught.value.remarks} == {"trace"}
        return
    case = of.case(*files)
    codes = {remark.code for remark in case.remarks if remark.which == "trace"}
    if outcome == "warned":
        assert {"outside-range", "unlike-population"} & codes
    else:
        assert codes == ({"more-than-whole"} if np.max(trace * factor) > 1e6 else set())
        assert case.explanation.log10_lr == pytest.approx(of.llr(trace, ref), abs=1e-6)


def test_real_sources_are_not_refused_and_a_thousand_of_them_are(data_folder: Path) -> None:
    """Half of the sources of NFI glass, looked at by a system of the other half; the table holds logarithms."""
    data = read_table("nfi-glass")
    kept = np.isin(data.source, np.random.default_rng(1).permutation(data.sources)[::2])
    parts = ("values", "source", "group", "instance")
    train, rest = (replace(data, **{part: getattr(data, part)[rows] for part in parts}) for rows in (kept, ~kept))
    of = replace(lindley.train(train, "tlm", replicates=0), transform="log10")
    assert not looks_foreign(of, rest.values).any()
    for factor in (1e3, 1e-3):
        assert looks_foreign(of, rest.values + np.log10(factor)).mean() > 0.98


def test_a_thousand_times_smaller_is_told_before_any_logarithm() -> None:
    """A range that begins near 0 hides it from standard deviations."""
    rng = np.random.default_rng(1)
    values, source = population(30, 3, 7)
    positive = np.exp(0.3 * values) + 0.05 * rng.random(values.shape)
    of = lindley.train(read_table(positive, source=source, features=FEATURES), "tlm", replicates=0)
    assert not looks_foreign(of, positive).any()
    assert looks_foreign(of, positive / 1000).all()
    assert looks_foreign(of, positive * 1000).all()


def test_it_can_be_asked_for_all_the_same_and_the_report_says_so(tmp_path: Path) -> None:
    of = logged()
    of.save(tmp_path / "s.safetensors")
    trace, ref = usual(of)
    files = csv(tmp_path, "trace", list(FEATURES), trace * 1e3), csv(tmp_path, "ref", list(FEATURES), ref)
    command = ["case", str(tmp_path / "s.safetensors"), "--trace", str(files[0]), "--ref", str(files[1])]
    refused = RUNNER.invoke(app, command)
    assert refused.stdout == ""
    with speaking("shell"):
        assert "--allow-outside gives an LR all the same" in str(refused.exception)
    told = json.loads(RUNNER.invoke(app, [*command, "--allow-outside", "--json"]).stdout)
    (said,) = (each["message"] for each in told["warnings"] if each["code"] == "another-unit")
    assert said.endswith("There is an LR because it was asked for all the same; the population says little about it.")
    assert "--allow-outside" in told["command"]
    of.case(*files, allow_outside=True, language="nl").write(tmp_path / "r.html")
    assert "omdat daar toch om is gevraagd" in (tmp_path / "r.html").read_text(encoding="utf-8")
    with pytest.raises(Refusal, match="allow_outside=True"):
        of.case(*files)


def test_nothing_can_be_asked_of_values_beyond_everything(tmp_path: Path) -> None:
    trace, ref = pair(plain())
    files = csv(tmp_path, "t", list(FEATURES), trace * 1e6), csv(tmp_path, "r", list(FEATURES), ref)
    with pytest.raises(Refusal, match="more than 50 standard deviations"):
        plain().case(*files, allow_outside=True)


def test_a_batch_is_refused_for_one_item_and_says_which(tmp_path: Path) -> None:
    of = logged()
    trace, ref = usual(of)
    file = write_csv(tmp_path / "t.csv", np.concatenate([trace, trace * 1e4]), source=["a", "a", "b", "b"])
    evidence = read_evidence(of, file, "trace"), read_evidence(of, csv(tmp_path, "r", list(FEATURES), ref), "ref")
    with pytest.raises(Refusal, match="Trace 'b' lies far outside"):
        evaluate_batch(of, *evidence)
    assert "another-unit" in {remark.code for remark in evaluate_batch(of, *evidence, allow_outside=True).remarks}


def test_the_same_rows_on_both_sides_and_rows_of_the_training_data_are_said(tmp_path: Path) -> None:
    of = plain()
    values, _ = population(40, 3, 7)
    known = np.round(values, 5)
    assert set(row_digests(known)) == set(of.digests)
    trace, ref = known[:2], known[1:3]
    files = (csv(tmp_path, name, list(FEATURES), values) for name, values in (("t", trace), ("r", ref)))
    said = {(remark.code, remark.which) for remark in of.case(*files, allow_same_file=True).remarks}
    assert {("seen-in-training", "trace"), ("seen-in-training", "ref"), ("same-measurement", "trace")} <= said


@pytest.mark.parametrize("digits", [9, 12, 15])
def test_a_copy_that_lost_its_last_digits_is_still_a_copy(digits: int, tmp_path: Path) -> None:
    trace, _ = pair(plain())
    copy = np.array([[float(f"{value:.{digits}g}") for value in row] for row in trace])
    with pytest.raises(Refusal, match="a measurement is identical to one of the reference"):
        plain().case(csv(tmp_path, "t", list(FEATURES), trace), csv(tmp_path, "r", list(FEATURES), copy))


def test_copies_that_differ_by_a_common_factor_are_one_measurement_of_a_ratio(tmp_path: Path) -> None:
    of = ratio()
    trace, _ = pair(of)
    files = csv(tmp_path, "t", list(of.columns), trace), csv(tmp_path, "r", list(of.columns), trace * 3)
    with pytest.raises(Refusal, match="a measurement is identical to one of the reference"):
        of.case(*files)

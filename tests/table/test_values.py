"""Numbers that are no measurements: found where they are, and not where they are not."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from lindley.system.train import train
from lindley.table import Finding, Table, export_csv, load_dataset, read_table
from lindley.table.check import Measurements
from lindley.table.labels import Labels
from lindley.table.scaling import TransformKind
from lindley.table.values import check_growth, check_summaries, check_values
from tests.attacks.door import lindley
from tests.attacks.fuzz_tables import fuzz

Floats = NDArray[np.float64]


def measurements(values: Floats, source: Any, transform: TransformKind = "none") -> Measurements:
    labels = np.asarray(source).astype(np.str_)
    transformed = values if transform == "none" else np.log10(values) if transform == "log10" else np.log(values)
    names = tuple(f"x{place}" for place in range(values.shape[1]))
    return Measurements("t", tuple(range(len(values))), names, values, transformed, Labels(labels, labels, labels))


def rows(findings: list[Finding], code: str = "far-from-replicates") -> set[int]:
    return {row for each in findings if each.code == code for row in each.rows}


def concentrations(
    sources: int = 60, replicates: int = 3, features: int = 4, power: float = 1.0, seed: int = 0
) -> Floats:
    """Whose scatter grows with this power of their level."""
    rng = np.random.default_rng(seed)
    level = np.repeat(np.exp(rng.normal(4, 1, (sources, features))), replicates, axis=0)
    return level + 0.02 * level**power * np.exp(4 * (1 - power)) * rng.normal(size=level.shape)


SOURCE = np.repeat(np.arange(60), 3)


@pytest.fixture(scope="module")
def glass() -> Table:
    return load_dataset("glass-simulated")


@pytest.mark.parametrize("change", ["x 10", "x 0.1", "+ 1", "- 1"])
def test_one_slipped_decimal_is_found_wherever_it_is(change: str, glass: Table) -> None:
    """In a table of concentrations, and in one of their log10: in the cell where it is, and in no other."""
    operation, size = change.split()
    of_logs = operation in "+-"
    values = glass.values if of_logs else 10**glass.values
    rng, found = np.random.default_rng(0), 0
    for _ in range(60):
        row, column = int(rng.integers(len(values))), int(rng.integers(values.shape[1]))
        one = values[:, [column]].copy()
        one[row] = one[row] * float(size) if not of_logs else one[row] + float(operation + size)
        told = check_values(measurements(one, glass.source))
        assert rows(told) <= {row}
        found += rows(told) == {row} and "a slipped decimal?" in str(told[0])
    assert found >= 59


def test_normal_measurements_are_not_far_from_each_other() -> None:
    """In small tables neither, whose scatter nobody knows well: of 300, one."""
    told = 0
    for seed in range(100):
        for sources, replicates, features in ((6, 2, 20), (12, 3, 20), (40, 5, 10)):
            rng = np.random.default_rng((seed, sources))
            source = np.repeat(np.arange(sources), replicates)
            values = rng.normal(size=(sources, features))[source] + 0.1 * rng.normal(size=(len(source), features))
            data = measurements(values.round(4), source)
            told += bool(check_values(data) + check_summaries(data) + check_growth(data))
    assert told <= 1


PUBLIC: dict[str, tuple[dict[str, Any], int, int]] = {
    # how it is read; rows far from the others of their source, and sources far from all others, at most
    "nfi_glass/training": ({"source": "Item", "instance": "Piece", "ignore": ("id",)}, 0, 0),
    "fiu_vehicle_glass/fiu_vehicle_glass": ({"source": "item", "group": "vehicle", "instance": "replicate"}, 41, 0),
    "onze_vowels/onze_vowels": ({"source": "speaker", "instance": "rep", "ignore": ("gender", "yob")}, 0, 0),
    "cvl_handwriting/cvl_handwriting": ({"ignore": ("replicate",)}, 0, 0),
    "peterson_barney/peterson_barney": ({"ignore": ("replicate",)}, 0, 0),
    "paint_ftir/paint_ftir": ({}, 12, 0),
    "xtc/xtc": ({"ignore": ("replicate",), "allow_duplicates": True}, 2, 0),
    "zadora_glass/zadora_glass": ({"ignore": ("fragment",), "allow_duplicates": True}, 9, 0),
    "libri_xvectors_pca64/libri_xvectors_pca64": ({}, 0, 0),
    "olive_oils_ftir/olive_oils_ftir": ({"ignore": ("group",)}, 0, 0),
    "bones_humerus/bones_humerus": ({}, 0, 1),
    "touch_keystrokes/touch_keystrokes": ({"allow_duplicates": True}, 0, 0),
    "parakeet_contact_calls/parakeet_contact_calls": ({}, 0, 0),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_few_alarms_on_public_tables(name: str, data_folder: Path) -> None:
    options, most_rows, most_sources = PUBLIC[name]
    table = read_table(data_folder / f"{name}.csv", **options)
    data = measurements(table.values, table.source)
    told = check_values(data)
    assert len(rows(told)) <= most_rows
    assert sum(each.code == "far-from-sources" for each in told) <= most_sources
    assert {each.code for each in told} <= {"far-from-replicates", "far-from-sources"}
    assert check_summaries(data) == []


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), factors=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4))
def test_law_units_and_the_order_of_rows_change_nothing(seed: int, factors: list[float]) -> None:
    values = concentrations(seed=seed)
    values[10, 0] *= 10
    values[50] = values[100]
    told = rows(check_values(measurements(values, SOURCE)))
    assert {10, 50} <= told
    assert rows(check_values(measurements(values * factors, SOURCE))) == told
    order = np.random.default_rng(seed).permutation(len(values))
    assert {int(order[row]) for row in rows(check_values(measurements(values[order], SOURCE[order])))} == told


def test_law_bases_of_a_logarithm_are_one() -> None:
    values = concentrations()
    values[10, 0] *= 10
    told = [check_values(measurements(values, SOURCE, kind), kind) for kind in ("log10", "ln")]
    assert [str(each) for each in told[0]] == [str(each) for each in told[1]]
    assert rows(told[0]) == {10}


@pytest.mark.parametrize("coded", [-999.0, 9999999.0])
def test_a_code_is_told_and_hides_nothing_in_other_columns(coded: float) -> None:
    values = concentrations()
    values[[3, 70, 110], 1] = coded
    values[10, 0] *= 10
    told = check_values(measurements(values, SOURCE))
    assert rows(told, "code-for-missing") == {3, 70, 110}
    assert rows(told) == {10}


def test_a_code_among_other_values_is_one_too() -> None:
    """A zero in a table of logarithms, in so many cells that each is less odd than one would be."""
    values = np.log10(concentrations()) - 1.5
    values[[3, 70, 110, 111, 130, 150], 1] = 0.0
    values[10, 0] += 1
    told = check_values(measurements(values, SOURCE))
    assert rows(told, "code-for-missing") == {3, 70, 110, 111, 130, 150}
    assert rows(told) == {10}


def test_the_others_of_a_ratio_are_said_in_the_unit_of_the_measurements() -> None:
    """A measurement that is rather far in every feature, and these divided by a reference of 100."""
    values = concentrations()
    values[4] *= 1.2
    data = measurements(values, SOURCE, "log10")
    (plain,) = (each for each in check_values(data, "log10") if 4 in each.rows)
    (ratio,) = (
        each for each in check_values(replace(data, transformed=data.transformed - 2), "log10") if 4 in each.rows
    )
    assert "a measurement of another source" in plain.message
    assert plain.message == ratio.message


def test_two_sources_a_thousand_times_too_high_do_not_hide_each_other() -> None:
    values = concentrations()
    values[(SOURCE == 7) | (SOURCE == 20)] *= 1000
    assert rows(check_values(measurements(values, SOURCE)), "far-from-sources") == {21, 22, 23, 60, 61, 62}


def with_summary(values: Floats, digits: int, *statistics: Any) -> tuple[Floats, NDArray[np.intp], list[int]]:
    """Rows behind the measurements of source 5."""
    at = 3 * 6
    added = [np.round(each(values[15:18]), digits) for each in statistics]
    return (
        np.insert(values, [at] * len(added), added, axis=0),
        np.insert(SOURCE, at, [5] * len(added)),
        [*range(at, at + len(added))],
    )


MEAN, SD = (lambda x: x.mean(axis=0)), (lambda x: x.std(axis=0, ddof=1))


@pytest.mark.parametrize("statistics", [(MEAN,), (SD,), (MEAN, SD), (SD, MEAN)])
@pytest.mark.parametrize("digits", [2, 3, 12])
def test_means_and_deviations_are_found_in_the_digits_they_are_printed_in(statistics: Any, digits: int) -> None:
    values, source, expected = with_summary(concentrations().round(3), digits, *statistics)
    (told,) = check_summaries(measurements(values, source))
    assert told.rows == tuple(expected)
    assert told.level == "error"


def test_what_may_be_chance_is_not_asked_about() -> None:
    """One feature of few digits, where one measurement in three may be the mean of the others."""
    values, source, _ = with_summary(concentrations(features=1).round(0), 0, MEAN)
    assert check_summaries(measurements(values, source)) == []


@pytest.mark.parametrize(("power", "told"), [(0.0, False), (0.3, False), (0.8, True), (1.0, True)])
def test_growth_of_the_scatter_is_recovered(power: float, told: bool) -> None:
    values = concentrations(400, 3, power=power)
    found = check_growth(measurements(values, np.repeat(np.arange(400), 3)))
    assert bool(found) == told
    if told:
        times = float(found[0].message.split("sources is ")[1].split()[0])
        assert np.log10(times) == pytest.approx(power, abs=0.15)


def test_no_logarithm_is_advised_of_what_has_none_nor_where_levels_are_alike() -> None:
    values = concentrations()
    shifted = values.copy()
    shifted[0, 0] = -1.0
    assert check_growth(measurements(shifted, SOURCE)) == []
    assert check_growth(measurements(1000 + values, SOURCE)) == []


def test_a_logarithm_in_front_of_a_model_is_that_of_the_table() -> None:
    values = concentrations()
    plain = Table.from_arrays(values, SOURCE)
    taken = read_table(
        {"source": SOURCE.astype(str), **{f"x{n + 1}": values[:, n] for n in range(4)}}, transform="log10"
    )
    in_front, of_table = train(plain, "log10:tlm+logistic", replicates=0), train(taken, "tlm+logistic", replicates=0)
    for trace, ref in ((0, 1), (5, 3), (30, 33)):
        lrs = [system.llr(values[[trace]], values[ref : ref + 2]) for system in (in_front, of_table)]
        assert lrs[0] == pytest.approx(lrs[1], abs=1e-8)


def test_every_command_that_reads_a_table_warns(tmp_path: Path, glass: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = glass.values[:600].copy()
    values[7, 0] += 1
    export_csv(
        replace(
            glass, values=values, source=glass.source[:600], group=glass.source[:600], instance=glass.instance[:600]
        ),
        "t.csv",
    )
    for command in (
        ("check", "t.csv"),
        ("train", "t.csv", "--model", "tlm", "--replicates", "0", "--out", "s.safetensors"),
        ("run", "--data", "t.csv", "--models", "tlm", "--splits", "1", "--no-report", "--out", "r"),
    ):
        said = " ".join(lindley(*command).text.split())
        assert "a factor of 10, a slipped decimal?" in said, command


def test_a_large_table_takes_seconds() -> None:
    sources, replicates, features = 4000, 5, 50
    values = concentrations(sources, replicates, features).round(4)
    data = measurements(values, np.repeat(np.arange(sources), replicates))
    start = time.process_time()
    check_values(data)
    check_summaries(data)
    check_growth(data)
    assert time.process_time() - start < 3  # 0.3 where nothing else runs


def test_a_few_tables_of_the_fuzzing() -> None:
    """The longer run is a command of its own; what it left was columns of a whole source that changed places."""
    ends = fuzz(5.0, seed=1_000_000)
    assert ends["crashed"] == 0
    assert ends["silent"] <= 0.02 * ends["inputs"]

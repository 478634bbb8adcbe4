"""The checks of a whole table and its summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lindley.table import Table, examine_table, export_csv, render_summary, summarise
from lindley.table.check import Measurements, check_counts, check_features, check_rows
from lindley.table.findings import Finding
from lindley.table.labels import Labels


def measured(values: np.ndarray, source: np.ndarray, group: np.ndarray | None = None) -> Measurements:
    labels = Labels(
        source.astype(np.str_), (source if group is None else group).astype(np.str_), source.astype(np.str_)
    )
    names = tuple(f"x{k}" for k in range(values.shape[1]))
    return Measurements("t.csv", tuple(range(2, len(values) + 2)), names, values, values, labels)


def scattered(sources: int, replicates: int, features: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(sources, 1, features)) + 0.1 * rng.normal(size=(sources, replicates, features))
    return values.reshape(-1, features), np.repeat(np.arange(sources), replicates)


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("sources", "features", "expected"),
    [
        (5, 1, ["too-few-sources"]),
        (6, 1, []),
        (6, 2, ["many-features"]),
        (12, 2, []),
        (12, 3, ["many-features"]),
    ],
)
def test_limits_of_counts(sources: int, features: int, expected: list[str]) -> None:
    assert codes(check_counts(measured(*scattered(sources, 2, features)))) == expected


def test_groups_count_not_sources() -> None:
    values, source = scattered(12, 2, 1)
    assert codes(check_counts(measured(values, source, source // 2))) == []
    assert codes(check_counts(measured(values, source, source // 3))) == ["too-few-sources"]


def test_singles_are_listed_but_allowed() -> None:
    values, source = scattered(20, 2, 1)
    source = np.r_[source, np.arange(100, 115)]
    values = np.r_[values, np.arange(15.0)[:, None]]
    (finding,) = check_counts(measured(values, source))
    assert (finding.level, finding.code, len(finding.rows)) == ("warning", "single-measurement", 15)
    assert "15 sources have one measurement only" in finding.message
    assert "'109' and 5 more" in finding.message


def test_clean_features_have_no_findings() -> None:
    data = measured(*scattered(30, 3, 4))
    assert check_features(data, logged=False) == []
    assert check_rows(data, allow_duplicates=False) == []


@pytest.mark.parametrize("scale", [1e-140, 1e-9, 1.0, 1e9, 1e140])
def test_a_small_scale_is_not_constant(scale: float) -> None:
    values, source = scattered(30, 3, 1)
    assert check_features(measured(values * scale, source), logged=False) == []


def test_a_small_spread_around_a_large_value_is_not_constant() -> None:
    values, source = scattered(30, 3, 1)
    assert check_features(measured(values + 1e12, source), logged=False) == []


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307])
def test_values_whose_squares_leave_the_range(scale: float) -> None:
    values, source = scattered(30, 3, 2)
    values[:, 1] *= scale
    (finding,) = check_features(measured(values, source), logged=False)
    assert (finding.level, finding.code, finding.column) == ("error", "value-range", "x1")
    assert "another unit" in finding.fix
    assert bool(finding.rows) == (scale > 1)


def test_one_value_out_of_range_is_named_with_its_row() -> None:
    values, source = scattered(30, 3, 1)
    values[7] = -3e200
    (finding,) = check_features(measured(values, source), logged=False)
    assert str(finding).startswith("t.csv, row 9, column 'x0': -3e+200 is so large")


def test_without_all_labels_nothing_is_said_about_sources() -> None:
    values, source = scattered(30, 3, 1)
    values = np.c_[values, source, np.ones(len(source))]
    data = measured(values, source)
    assert codes(check_features(data, logged=False)) == ["no-within-variation", "constant-feature"]
    unlabelled = replace(data, labels=replace(data.labels, complete=False))
    assert codes(check_features(unlabelled, logged=False)) == ["constant-feature"]


@given(size=st.integers(2, 5), start=st.integers(0, 1), seed=st.integers(0, 99))
def test_an_instance_number_is_seen_in_any_order(size: int, start: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(8), size)
    number = np.concatenate([rng.permutation(size) + start for _ in range(8)]).astype(float)
    shuffle = rng.permutation(len(source))
    (finding,) = check_features(measured(number[shuffle, None], source[shuffle]), logged=False)
    assert finding.code == "looks-like-instance"


@pytest.mark.parametrize(
    "change", [lambda n: n + 0.5, lambda n: n + 5, lambda n: n * 2, lambda n: np.r_[n[:-1], n[-1] + 7]]
)
def test_other_numbers_are_no_instance_number(change) -> None:  # type: ignore[no-untyped-def]
    number = change(np.tile(np.arange(3.0), 8))[:, None]
    found = check_features(measured(number, np.repeat(np.arange(8), 3)), logged=False)
    assert set(codes(found)) <= {"no-between-variation"}


def test_copies_within_and_between_sources_are_told_apart() -> None:
    values, source = scattered(8, 3, 2)
    values[1] = values[0]  # within source 0
    values[9] = values[5]  # source 3 holds a row of source 1
    copied, shared = check_rows(measured(values, source), allow_duplicates=False)
    assert (copied.level, copied.code, copied.rows) == ("error", "duplicate-row", (3,))
    assert (shared.level, shared.code, shared.rows) == ("warning", "shared-row", (7, 11))
    allowed, _ = check_rows(measured(values, source), allow_duplicates=True)
    assert allowed.level == "warning"


def test_a_row_with_a_bad_cell_is_no_copy_and_minus_zero_is_zero() -> None:
    values, source = scattered(8, 3, 2)
    values[0] = values[1] = [np.nan, 1.0]
    values[3], values[4] = [0.0, 1.0], [-0.0, 1.0]
    (finding,) = check_rows(measured(values, source), allow_duplicates=False)
    assert finding.rows == (6,)


def anova_by_hand(values: np.ndarray, source: np.ndarray) -> tuple[float, float, float]:
    """Within variance, between variance and ICC(1), written out source by source."""
    groups = [values[source == label] for label in dict.fromkeys(source.tolist())]
    n, k = len(values), len(groups)
    msw = sum(((g - g.mean()) ** 2).sum() for g in groups) / (n - k)
    msb = sum(len(g) * (g.mean() - values.mean()) ** 2 for g in groups) / (k - 1)
    n0 = (n - sum(len(g) ** 2 for g in groups) / n) / (k - 1)
    return msw, (msb - msw) / n0, (msb - msw) / (msb + (n0 - 1) * msw)


def test_variance_parts_of_unequal_counts_by_hand() -> None:
    rng = np.random.default_rng(4)
    source = np.repeat(np.arange(15), rng.integers(1, 6, 15))
    values = rng.normal(size=15)[source] + 0.3 * rng.normal(size=len(source))
    (feature,) = summarise(Table.from_arrays(values[:, None], source)).features
    within, between, icc = anova_by_hand(values, source)
    assert feature.within_sd == pytest.approx(np.sqrt(within), rel=1e-12)
    assert feature.between_sd == pytest.approx(np.sqrt(between), rel=1e-12)
    assert feature.replicate_correlation == pytest.approx(icc, rel=1e-12)


def test_variance_parts_are_recovered() -> None:
    rng = np.random.default_rng(5)
    values = 2.0 * rng.normal(size=(4000, 1)) + 0.5 * rng.normal(size=(4000, 4))
    table = Table.from_arrays(values.reshape(-1, 1), np.repeat(np.arange(4000), 4))
    (feature,) = summarise(table).features
    assert feature.within_sd == pytest.approx(0.5, rel=0.03)
    assert feature.between_sd == pytest.approx(2.0, rel=0.04)
    assert feature.replicate_correlation == pytest.approx(4 / 4.25, abs=0.01)


def test_no_replicates_have_no_scatter_within() -> None:
    (feature,) = summarise(Table.from_arrays(np.arange(6.0)[:, None], np.arange(6))).features
    assert np.isnan(feature.within_sd)
    assert np.isnan(feature.replicate_correlation)
    assert (feature.min, feature.mean, feature.max) == (0.0, 2.5, 5.0)


def test_summary_counts_and_text(tmp_path: Path) -> None:
    values, source = scattered(20, 3, 3)
    group = source // 2
    keep = np.flatnonzero(~((source < 4) & (np.arange(60) % 3 == 2)))  # four sources have two measurements
    table = Table.from_arrays(values[keep], source[keep], group[keep], ["K39", "Ti49", "Mn55"], "glass")
    path = tmp_path / "glass.csv"
    export_csv(table, path)
    summary = examine_table(path).summary
    assert summary is not None
    assert (summary.rows, summary.sources, summary.groups) == (56, 20, 10)
    assert (summary.replicates_min, summary.replicates_median, summary.replicates_max) == (2, 3.0, 3)
    assert summary.replicates == ((2, 4), (3, 16))
    lines = render_summary(summary).splitlines()
    assert lines[0] == "glass: 56 measurements of 20 sources in 10 groups, 3 features"
    assert lines[1] == "2 to 3 measurements of a source, median 3 (sources × measurements: 4 × 2, 16 × 3)"
    assert lines[3].split() == [
        "feature",
        "min",
        "mean",
        "max",
        "sd",
        "within",
        "sd",
        "between",
        "correlation",
    ]
    assert [line.split()[0] for line in lines[4:]] == ["K39", "Ti49", "Mn55"]
    assert len({len(line) for line in lines[3:]}) == 1

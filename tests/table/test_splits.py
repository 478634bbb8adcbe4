"""The protocol: what is drawn, what goes where, and what the splits may and may not depend on."""

from __future__ import annotations

import os
import shlex

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.table.splits import PARTS, Protocol, Split, make_splits
from lindley.table.table import Table


def table(n_sources: int, counts: int | list[int], group_size: int = 1, features: int = 2, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    reps = np.broadcast_to(counts, n_sources)
    source = np.repeat([f"s{i:03d}" for i in range(n_sources)], reps)
    group = np.repeat([f"g{i // group_size:03d}" for i in range(n_sources)], reps)
    return Table.from_arrays(rng.normal(size=(len(source), features)), source, group)


def members(split: Split) -> list[set[str]]:
    return [set(part.source.tolist()) for part in split.parts]


@given(st.integers(6, 60), st.integers(2, 6), st.integers(1, 3), st.integers(0, 50))
def test_every_source_in_one_part_and_groups_together(n: int, reps: int, group_size: int, seed: int) -> None:
    n *= group_size
    for split in make_splits(table(n, reps, group_size), Protocol(splits=2, seed=seed)):
        parts = members(split)
        assert sum(map(len, parts)) == n
        assert len(set().union(*parts)) == n
        for part in parts:
            groups = {int(s[1:]) // group_size for s in part}
            assert len(part) == len(groups) * group_size
        n_groups = [len(part) / group_size for part in parts]
        assert max(n_groups) - min(n_groups) <= 1


@given(st.lists(st.integers(1, 7), min_size=9, max_size=30), st.integers(2, 5), st.data())
def test_replicates_and_roles(counts: list[int], replicates: int, data: st.DataObject) -> None:
    counts += [2, 3] * 6  # so that every part has a source with a ref
    n_trace = data.draw(st.integers(1, replicates - 1))
    t = table(len(counts), counts)
    (split,) = make_splits(t, Protocol(splits=1, replicates=replicates, trace_instances=n_trace, seed=1))
    raw = {tuple(row) for row in t.values}
    for part in split.parts:
        assert {tuple(row) for row in split.scaling.undo(part.values).round(12)} <= {
            tuple(np.round(row, 12)) for row in raw
        }
        for source in np.unique(part.source):
            rows = part.source == source
            has = counts[int(source[1:])]
            assert rows.sum() == min(has, replicates)
            traces = int(part.is_trace[rows].sum())
            assert traces == (min(n_trace, rows.sum() - 1) if rows.sum() > 1 else 1)
            assert len(np.unique(part.values[rows], axis=0)) == rows.sum()  # without replacement
        assert (part.trace.count >= 1).all()
        assert set(part.trace.source) == set(part.source)
        assert set(part.ref.source) == {s for s in part.source if counts[int(s[1:])] > 1}


def test_split_p_depends_on_sources_protocol_and_seed_alone() -> None:
    t = table(30, 4)
    three, nine = make_splits(t, Protocol(splits=3, seed=5)), make_splits(t, Protocol(splits=9, seed=5))
    order = np.random.default_rng(1).permutation(30)
    rows = (order[:, None] * 4 + np.arange(4)).reshape(-1)  # the sources in another order
    shuffled = Table.from_arrays(t.values[rows], t.source[rows], t.group[rows])
    other = Table.from_arrays(np.c_[t.values, t.values**2], t.source, t.group)  # more features
    for a, b, c, d in zip(
        three,
        nine,
        make_splits(shuffled, Protocol(splits=3, seed=5)),
        make_splits(other, Protocol(splits=3, seed=5)),
        strict=False,
    ):
        for name in PARTS:
            one = getattr(a, name)
            for split in (b, c):
                np.testing.assert_array_equal(getattr(split, name).source, one.source)
                np.testing.assert_array_equal(getattr(split, name).is_trace, one.is_trace)
                np.testing.assert_allclose(getattr(split, name).values, one.values, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(getattr(d, name).values[:, :2], one.values, rtol=1e-12, atol=1e-12)
    assert members(three[0]) != members(three[1])
    assert members(three[0]) != members(make_splits(t, Protocol(splits=1, seed=6))[0])


def test_known_split() -> None:
    """Splits are a promise to whoever compares experiments: these must never change."""
    (split,) = make_splits(table(9, 2), Protocol(splits=1, seed=0))
    assert [sorted(p) for p in members(split)] == KNOWN
    # and so must the replicates that are drawn, and which of them is the trace: here a value is the number of its row
    numbered = Table.from_arrays(np.arange(36.0)[:, None], np.repeat([f"s{i:03d}" for i in range(9)], 4))
    (split,) = make_splits(numbered, Protocol(splits=1, seed=0, replicates=3))
    assert [sorted(p) for p in members(split)] == KNOWN
    assert split.test.source.tolist() == np.repeat(KNOWN[2], 3).tolist()
    np.testing.assert_allclose(split.scaling.undo(split.test.values)[:, 0], [16, 19, 18, 23, 22, 20, 30, 31, 28])
    assert split.test.is_trace.tolist() == [True, False, False] * 3


KNOWN = [["s001", "s002", "s003"], ["s000", "s006", "s008"], ["s004", "s005", "s007"]]


def test_standardised_with_train_statistics_only() -> None:
    t = table(30, 4, features=3)
    (split,) = make_splits(Table.from_arrays(t.values * [1, 10, 100] + 5, t.source), Protocol(splits=1))
    np.testing.assert_allclose(split.train.values.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.train.values.std(axis=0, ddof=1), 1, rtol=1e-12)
    assert np.abs(split.test.values.mean(axis=0)).max() > 1e-3


def test_unequal_shares() -> None:
    (split,) = make_splits(table(100, 2), Protocol(splits=1, shares=(0.7, 0.1, 0.2)))
    assert [len(m) for m in members(split)] == [70, 10, 20]


def test_a_source_with_one_measurement_is_a_trace_without_ref() -> None:
    (split,) = make_splits(table(12, [1, 3] * 6), Protocol(splits=1))
    for part in split.parts:
        assert len(part.ref.source) < len(part.trace.source)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"splits": 0}, "splits must be 1 or more, not 0"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"replicates": 1}, "leaves none for the ref"),
        ({"replicates": 3, "trace_instances": 3}, "leaves none for the ref"),
        ({"shares": (1.0, 0.0, 1.0)}, "three numbers above 0"),
        ({"shares": (1.0, float("nan"), 1.0)}, "three numbers above 0"),
    ],
)
def test_bad_protocol(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        Protocol(**kwargs)  # type: ignore[arg-type]


def test_too_few_sources_to_split() -> None:
    with pytest.raises(LindleyError, match=r"5 sources .* too few to split \(train 2, validate 1, test 2\)"):
        make_splits(table(5, 2), Protocol(splits=1))
    with pytest.raises(LindleyError, match="too few to split"):
        make_splits(table(20, 2, group_size=5), Protocol(splits=1))


def test_feature_constant_in_train() -> None:
    t = table(12, 2)
    t.values[:, 1] = 3.0
    with pytest.raises(LindleyError, match=r"split 1: 'x2' has one value .* Leave it out with ") as raised:
        make_splits(t, Protocol(splits=1))
    assert str(raised.value).endswith(' Leave it out with ignore=["x2"].')
    with speaking("shell"):
        assert str(raised.value).endswith(" Leave it out with --ignore-columns x2.")
    t = Table.from_arrays(np.c_[t.values, t.values[:, 1]], t.source, features=["K39", "Na, %", "Si 28"])
    with pytest.raises(LindleyError) as raised:
        make_splits(t, Protocol(splits=1))
    assert "'Na, %' and 'Si 28' have one value" in str(raised.value)
    with speaking("shell"):
        command = str(raised.value).split("--ignore-columns ")[1].rstrip(".")
    if os.name == "posix":
        assert shlex.split(command) == ['"Na, %",Si 28']


@pytest.mark.parametrize("centre", [1e12, -1e12, 1.0, 0.0])
def test_a_small_spread_around_a_large_value_is_not_constant(centre: float) -> None:
    t = table(12, 2)
    (split,) = make_splits(Table.from_arrays(0.5 * t.values + centre, t.source), Protocol(splits=1))
    np.testing.assert_allclose(split.train.values.std(axis=0, ddof=1), 1, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e308, 1e-320])
def test_values_whose_squares_leave_the_range_are_refused(scale: float) -> None:
    t = table(12, 2)
    values = np.c_[t.values[:, 0], np.tanh(t.values[:, 1]) * scale]
    with pytest.raises(LindleyError, match=r"the variance of 'x2' leaves the range .* another unit"):
        make_splits(Table.from_arrays(values, t.source), Protocol(splits=1))


def test_items_are_taken_in_one_piece() -> None:
    (split,) = make_splits(table(30, 2), Protocol(splits=1))
    side = split.test.trace
    assert side[2:5].source.tolist() == side[2:5:1].source.tolist() == side.source[2:5].tolist()
    for step in (2, -1):
        with pytest.raises(ValueError, match=f"a step of {step}"):
            side[::step]


def test_a_source_belongs_to_one_group() -> None:
    t = table(6, 2)
    group = t.group.copy()
    group[3] = "g005"
    with pytest.raises(ValueError, match="source 's001' is in two groups, 'g001' and 'g005'"):
        Table.from_arrays(t.values, t.source, group)


def test_no_pair_in_a_part() -> None:
    with pytest.raises(LindleyError, match=r"no source of the (validate|test) part has a second measurement"):
        make_splits(table(12, [1] * 10 + [2, 2]), Protocol(splits=30))

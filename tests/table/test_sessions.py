"""Sessions: what some measurements of a source share, read at every door, and kept apart wherever pairs are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import lindley
from lindley.experiment.folder import read_table_file, start_folder
from lindley.table.check import summarise
from lindley.table.config import DataConfig
from lindley.table.findings import TableError
from lindley.table.join import join_tables
from lindley.table.read import column_parts, examine_table, read_table
from lindley.table.splits import (
    Part,
    Protocol,
    draw_instances,
    draw_nested,
    have_pairs,
    make_splits,
    series_sizes,
    session_pairs,
)
from lindley.table.table import Table, export_csv
from tests.command import here
from tests.experiment.conftest import make_experiment

RNG = np.random.default_rng(5)
ROWS = [
    [f"w{k}", f"f{j}", float(round(3 + k + x, 3))] for k in range(8) for j in (1, 1, 2) for x in RNG.normal(0, 0.1, 1)
]
FRAME = pd.DataFrame(ROWS, columns=["source", "fragment", "Fe"])
SESSIONS = FRAME["fragment"].tolist()


def write(path: Path, rows: list[list[Any]], header: tuple[str, ...] = ("source", "fragment", "Fe")) -> Path:
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n", encoding="utf-8")
    return path


def as_text(folder: Path) -> Table:
    return read_table(write(folder / "t.csv", ROWS), session="fragment")


def as_workbook(folder: Path) -> Table:
    book = openpyxl.Workbook()
    for row in (FRAME.columns.tolist(), *ROWS):
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return read_table(folder / "t.xlsx", session="fragment")


def as_configured(folder: Path) -> Table:
    return DataConfig(data=str(write(folder / "t.csv", ROWS)), session_column="fragment").load()


def beside(folder: Path) -> Table:
    (folder / "lindley.yaml").write_text("session_column: fragment\n")
    return DataConfig(data=str(write(folder / "t.csv", ROWS))).with_profile().load()


def by_name(folder: Path) -> Table:
    return read_table(write(folder / "t.csv", ROWS, ("source", "Session", "Fe")))


DOORS = {
    "text": as_text,
    "workbook": as_workbook,
    "data frame": lambda folder: read_table(FRAME, session="fragment"),
    "array beside a frame": lambda folder: read_table(FRAME[["source", "Fe"]], session=SESSIONS),
    "configuration": as_configured,
    "kept beside the table": beside,
    "called so": by_name,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_the_sessions(door: str, tmp_path: Path) -> None:
    table = DOORS[door](tmp_path)
    assert table.session is not None
    assert table.session.tolist() == SESSIONS
    assert table.features == ("Fe",)
    assert not [each for each in table.findings if each.level != "note"]
    assert summarise(table).sessions == {"two_sessions": 8, "one_session": 0}


def test_the_command_reads_them(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", ROWS)
    assert here("check", "t.csv", cwd=tmp_path).returncode != 0  # f1 is no number
    told = here("check", "t.csv", "--session-column", "fragment", cwd=tmp_path)
    assert told.returncode == 0
    assert "8 sources in two sessions or more" in " ".join(told.stdout.split())


def test_a_session_is_no_feature_and_changes_the_fingerprint(tmp_path: Path) -> None:
    rows = [[source, session[1:], value] for source, session, value in ROWS]  # numbers
    path = write(tmp_path / "t.csv", rows)
    assert column_parts(path, session="fragment")["fragment"] == "session"
    with_them, without = read_table(path, session="fragment"), read_table(path, ignore=["fragment"])
    assert with_them.features == without.features == ("Fe",)
    assert without.session is None
    assert with_them.sha256() != without.sha256()


def test_measurements_are_numbered_within_a_session(tmp_path: Path) -> None:
    rows = [[s, f, place % 3 % 2 + 1, x] for place, (s, f, x) in enumerate(ROWS)]
    path = write(tmp_path / "t.csv", rows, ("source", "fragment", "instance", "Fe"))
    assert read_table(path, session="fragment").instance.tolist()[:4] == ["1", "2", "1", "1"]
    found = examine_table(path, ignore=["fragment"]).findings
    assert "repeated-instance" in {each.code for each in found}


@pytest.mark.parametrize(("cell", "code"), [("", "empty-session"), ("#N/A", "excel-error")])
def test_a_row_without_its_session_is_an_error(cell: str, code: str, tmp_path: Path) -> None:
    rows = [*ROWS[:4], [ROWS[4][0], cell, ROWS[4][2]], *ROWS[5:]]
    with pytest.raises(TableError) as told:
        read_table(write(tmp_path / "t.csv", rows), session="fragment")
    ((_, finding),) = [(each.code, each) for each in told.value.findings if each.level == "error"]
    assert (finding.code, finding.rows, finding.column) == (code, (6,), "fragment")


def test_a_day_is_a_session() -> None:
    days = FRAME.assign(fragment=pd.to_datetime("2026-01-0" + FRAME["fragment"].str[1]))
    table = read_table(days, session="fragment")
    assert table.session is not None
    assert table.session[:3].tolist() == ["2026-01-01", "2026-01-01", "2026-01-02"]
    assert not [each for each in table.findings if each.code == "date-label"]


def test_they_travel_through_files_and_folders(tmp_path: Path) -> None:
    table = as_text(tmp_path)
    export_csv(table, tmp_path / "out.csv")
    start_folder(tmp_path / "run", make_experiment(data=DataConfig(data="t.csv")), table)
    for again in (read_table(tmp_path / "out.csv"), read_table_file(tmp_path / "run")):
        assert again.session is not None
        assert again.session.tolist() == SESSIONS
        assert again.sha256() == table.sha256()


def test_joined_tables_keep_them(tmp_path: Path) -> None:
    one = as_text(tmp_path)
    other = replace(one, name="other", source=np.char.add("x", one.source), values=one.values + 0.01, session=None)
    other = replace(other, group=other.source)
    assert (
        join_tables([other, replace(other, name="third", values=other.values + 0.01)], same_labels="same").session
        is None
    )
    session = join_tables([one, other]).session
    assert session is not None
    assert session.tolist() == [*SESSIONS, *["other"] * len(ROWS)]  # one session, of a table that names none


def test_a_folder_of_a_case_keeps_them(tmp_path: Path) -> None:
    for name, session in (("a", "day 1"), ("b", "day 2")):
        write(tmp_path / f"{name}.csv", [[session, 3.1], [session, 3.2]], ("session", "Fe"))
    items = read_table(tmp_path, purpose="case", features=["Fe"])
    assert items.session is not None
    assert list(zip(items.source.tolist(), items.session.tolist(), strict=True)) == [
        ("a", "day 1"), ("a", "day 1"), ("b", "day 2"), ("b", "day 2"),
    ]  # fmt: skip


# ── draws ───────────────────────────────────────────────────────────────────────────────────────────────────────────

tables = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=6).map(
    lambda each: (
        np.repeat([f"s{k}" for k in range(len(each))], list(map(len, each))),
        np.concatenate(each).astype(str),
    )
)
"""Sources and sessions of the rows of a table."""


def sizes_of(source: Any, session: Any, each: Any) -> tuple[int, int, int]:
    """How many measurements a source has, in how many sessions, and how many the largest of these has."""
    counts = np.unique(session[source == each], return_counts=True)[1]
    return int(counts.sum()), len(counts), int(counts.max())


def possible(source: Any, session: Any, each: Any, m: int, n: int) -> bool:
    """By looking at every session."""
    of = session[source == each].tolist()
    if len(set(of)) == 1:
        return len(of) >= m + n
    return any(of.count(one) >= m and len(of) - of.count(one) >= n for one in of)


@given(tables, st.integers(1, 3), st.sampled_from([None, 1, 2, 3]), st.booleans(), st.integers(0, 99))
def test_trace_and_ref_share_no_session(drawn_of: Any, m: int, n: int | None, complete: bool, seed: int) -> None:
    source, session = drawn_of
    rows, is_trace = draw_instances(source, m, n, np.random.default_rng(seed), complete=complete, session=session)
    before, was_trace = draw_instances(source, m, n, np.random.default_rng(seed), complete=complete)
    assert len(set(rows.tolist())) == len(rows)
    for each in np.unique(source):
        trace, ref = (rows[(source[rows] == each) & side] for side in (is_trace, ~is_trace))
        if sizes_of(source, session, each)[1] == 1:  # as without sessions, by the same random numbers
            assert trace.tolist() == before[(source[before] == each) & was_trace].tolist()
            assert ref.tolist() == before[(source[before] == each) & ~was_trace].tolist()
            continue
        assert len(set(session[trace])) <= 1
        assert not set(session[trace]) & set(session[ref])
        enough = possible(source, session, each, m, n or 1)
        if n is None:  # nothing is left out
            assert len(trace) + len(ref) == (enough or not complete) * (source == each).sum()
        elif complete or enough:
            assert (len(trace), len(ref)) == ((m, n) if enough else (0, 0))
        else:
            assert 1 <= len(trace) <= m
            assert 1 <= len(ref) <= n


@given(tables, st.integers(0, 99))
def test_the_draws_of_a_series_share_none_and_lie_within_each_other(drawn_of: Any, seed: int) -> None:
    source, session = drawn_of
    sizes = [(1, 1), (2, 2), (2, 3)]
    assert have_pairs(source, session, sizes).tolist() == [
        [possible(source, session, each, m, n) for each in np.unique(source)] for m, n in sizes
    ]
    assert draw_nested(source, [], np.random.default_rng(seed), session) == []
    whole: dict[Any, tuple[set[int], set[int]]] = {}
    for (m, n), (rows, is_trace) in reversed(
        list(zip(sizes, draw_nested(source, sizes, np.random.default_rng(seed), session), strict=True))
    ):
        assert set(source[rows]) == {each for each in np.unique(source) if possible(source, session, each, m, n)}
        for each in set(source[rows].tolist()):
            trace, ref = (set(rows[(source[rows] == each) & side].tolist()) for side in (is_trace, ~is_trace))
            assert (len(trace), len(ref)) == (m, n)
            if sizes_of(source, session, each)[1] > 1:
                assert not set(session[list(trace)]) & set(session[list(ref)])
            if each in whole:
                assert trace <= whole[each][0]
                assert ref <= whole[each][1]
            whole[each] = trace, ref


def test_any_session_may_be_that_of_the_trace() -> None:
    session, rng = np.array(["x", "y", "y", "z"]), np.random.default_rng(1)
    counts = np.zeros(4)
    for _ in range(2000):
        rows, is_trace = draw_instances(np.array(["a"] * 4), 1, 1, rng, session=session)
        counts[rows[is_trace]] += 1
    assert np.abs(counts / 2000 - 0.25).max() < 0.05


def test_a_series_ends_where_sessions_do() -> None:
    source = np.repeat(np.arange(4), 6)
    assert series_sizes(source, np.tile(["x", "y"], 12))[-1] == (3, 3)
    assert series_sizes(source, np.tile(list("xyyyyy"), 4)) == [
        (1, 1),
        (1, 2),
    ]  # one for the trace, and three for nobody
    assert session_pairs(source, None) is None


def test_splits_keep_them_apart_and_are_otherwise_the_same() -> None:
    values = np.random.default_rng(2).normal(size=(96, 2))
    source, session = np.repeat([f"w{k}" for k in range(24)], 4), np.tile(["a", "a", "b", "b"], 24)
    table, protocol = Table.from_arrays(values, source), Protocol(splits=5, replicates=3, trace_instances=1)
    same = Table.from_arrays(values, source, session=np.full(96, "one"))
    apart = Table.from_arrays(values, source, session=session)
    plain = make_splits(table, protocol)
    for one, other, split in zip(plain, make_splits(same, protocol), make_splits(apart, protocol), strict=True):
        for k, part in enumerate(split.raw):
            np.testing.assert_array_equal(one.raw[k].values, other.raw[k].values)
            assert set(part.source) == set(one.raw[k].source)  # the shuffle of sources
            of_trace = dict(zip(part.source[part.is_trace], part.session[part.is_trace], strict=True))
            refs = zip(part.source[~part.is_trace], part.session[~part.is_trace], strict=True)
            assert all(of_trace[name] != its for name, its in refs)
        joined = split.raw[0].joined(split.raw[1])
        assert joined.session is not None
        assert len(joined.session) == len(joined.source)


def test_a_part_takes_them_along() -> None:
    part = Part.drawn(np.arange(6.0)[:, None], np.array(list("aaabbb")), session=np.array(list("xxyxyy")))
    assert part.session is not None
    assert part.values[:, 0].tolist() == [0, 1, 2, 3, 4, 5]  # to learn from: every row
    assert part.is_trace.tolist() == [True, True, False, True, False, False]
    assert part.rows(part.is_trace).session.tolist() == ["x", "x", "x"]  # type: ignore[union-attr]


def test_public_glass(data_folder: Path) -> None:
    path = data_folder / "zadora_glass" / "zadora_glass.csv"
    table = lindley.read_table(path, session="fragment", allow_duplicates=True)
    assert session_pairs(table.source, table.session) == {"two_sessions": 200, "one_session": 0}
    for split in make_splits(table, Protocol(splits=3)):
        trace, ref = (split.test.session[side] for side in (split.test.is_trace, ~split.test.is_trace))  # type: ignore[index]
        assert len(trace) == len(ref)
        assert (trace != ref).all()
    assert series_sizes(table.source, table.session) == [(1, 1), (2, 2), (3, 3), (3, 4)]  # three of a fragment
    assert series_sizes(table.source)[-1] == (5, 5)

"""The one draw of instances: how many of a source are trace and ref, and that only its rank by source decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lindley.table.splits import Part, draw_instances, draw_nested, order_instances, series_sizes

SOURCE = np.array(["b", "a", "b", "c", "b", "a", "b"])


def test_without_a_generator_instances_keep_their_order() -> None:
    rows, count = order_instances(SOURCE)
    assert rows.tolist() == [1, 5, 0, 2, 4, 6, 3]
    assert count.tolist() == [2, 4, 1]


@pytest.mark.parametrize(
    ("n_trace", "n_ref", "complete", "rows", "traces"),
    [
        (1, None, False, [1, 5, 0, 2, 4, 6, 3], [1, 0, 3]),
        (1, 1, False, [1, 5, 0, 2, 3], [1, 0, 3]),
        (2, 1, False, [1, 5, 0, 2, 4, 3], [1, 0, 2, 3]),
        (3, 3, False, [1, 5, 0, 2, 4, 6, 3], [1, 0, 2, 4, 3]),
        (1, 1, True, [1, 5, 0, 2], [1, 0]),
        (2, None, True, [0, 2, 4, 6], [0, 2]),
        (4, 4, True, [], []),
    ],
)
def test_a_source_gives_what_it_has_and_keeps_one_for_the_ref(
    n_trace: int, n_ref: int | None, complete: bool, rows: list[int], traces: list[int]
) -> None:
    drawn, is_trace = draw_instances(SOURCE, n_trace, n_ref, complete=complete)
    assert drawn.tolist() == rows
    assert drawn[is_trace].tolist() == traces


@given(st.permutations(range(6)), st.integers(0, 2**32 - 1))
def test_the_order_of_sources_in_a_table_does_not_matter(order: list[int], seed: int) -> None:
    labels = np.array([f"s{i}" for i in range(6)])
    values = np.arange(18.0).reshape(6, 3)  # three instances of each source
    whole, moved = (
        Part.drawn(values[which].reshape(-1, 1), np.repeat(labels[which], 3), n_ref=1, rng=np.random.default_rng(seed))
        for which in (np.arange(6), np.array(order))
    )
    assert np.array_equal(whole.values, moved.values)
    assert np.array_equal(whole.is_trace, moved.is_trace)


def test_every_instance_is_drawn_as_often_as_any_other() -> None:
    rng = np.random.default_rng(3)
    source = np.repeat(["a", "b"], 4)
    counts = np.zeros((8, 2))
    for _ in range(2000):
        rows, is_trace = draw_instances(source, 1, 1, rng)
        counts[rows, is_trace.astype(int)] += 1
    assert np.abs(counts / 2000 - 0.25).max() < 0.05


def test_a_part_takes_the_group_along() -> None:
    part = Part.drawn(np.arange(7.0)[:, None], SOURCE, np.char.upper(SOURCE), n_trace=1, n_ref=1, complete=True)
    assert part.group is not None
    assert part.group.tolist() == ["A", "A", "B", "B"]
    assert part.trace.source.tolist() == ["a", "b"] == part.ref.source.tolist()


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [
        ([2, 2, 2], []),  # 1×1 is all there is
        ([3, 3, 3], [(1, 1), (1, 2)]),
        ([6] * 4, [(1, 1), (2, 2), (3, 3)]),
        ([9] * 4, [(1, 1), (2, 2), (3, 3), (4, 4), (4, 5)]),
        ([40] * 4, [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]),
        ([4, 4, 1, 1], [(1, 1), (2, 2)]),  # half of the sources will do
        ([4, 4, 1, 1, 1], []),
    ],
)
def test_a_series_goes_as_far_as_half_of_the_sources_do(counts: list[int], sizes: list[tuple[int, int]]) -> None:
    assert series_sizes(np.repeat(np.arange(len(counts)), counts)) == sizes


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 2**32))
def test_the_draws_of_a_series_lie_within_each_other(counts: list[int], seed: int) -> None:
    source = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    sizes = [(1, 1), (2, 2), (3, 3), (3, 4)]
    before: dict[int, tuple[set[int], set[int]]] = {}
    for (m, n), (rows, is_trace) in reversed(
        list(zip(sizes, draw_nested(source, sizes, np.random.default_rng(seed)), strict=True))
    ):
        assert set(source[rows].tolist()) == {i for i, count in enumerate(counts) if count >= m + n}
        for each in set(source[rows].tolist()):
            trace, ref = (set(rows[(source[rows] == each) & side].tolist()) for side in (is_trace, ~is_trace))
            assert (len(trace), len(ref)) == (m, n)
            if each in before:
                assert trace <= before[each][0]
                assert ref <= before[each][1]
            before[each] = trace, ref

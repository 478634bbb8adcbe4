"""Every pair once per epoch, in batches of the paper's sizes, whatever the runs look like."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from lindley.evaluation.metrics import cllr
from lindley.llrs import LN10, LLRs
from lindley.models.neural.batches import Evaluation, PairBatches, SourceBatches, _at, n_batches
from lindley.models.neural.program import _to
from lindley.table.splits import Part, Side
from tests.models.test_classical import sources

F64 = torch.float64


Pairs = list[list[tuple[int, int]]]


def epoch_of(batches: PairBatches, epoch: int, run: int = 0) -> tuple[Pairs, Pairs]:
    """(trace source, ref source) of the pairs that count, per batch, of one run: same, different."""
    same: Pairs = []
    different: Pairs = []
    dealt = batches.deal(torch.tensor([epoch]))
    for b in range(len(batches.rows)):
        row, column = (_at(p[b], dealt.source)[run].tolist() for p in (batches.rows, batches.columns))
        weight = batches.take(dealt, b)[1].signed()[run]
        kinds: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        for i, j in weight.nonzero().tolist():
            kinds[int(weight[i, j] > 0)].append((row[i], column[j]))
        same.append(kinds[0])
        different.append(kinds[1])
    return same, different


def test_the_papers_sizes() -> None:
    """351 sources: six batches of 50 same-source pairs and one of 51; 8750 different-source pairs with each 50."""
    batches = PairBatches.of([sources(1, 351, 2, 2)], 50, 3, [0], F64)
    same, different = epoch_of(batches, 0)
    assert sorted(map(len, same)) == [50] * 6 + [51]
    assert sorted(map(len, different)) == [8750] * 6 + [8925]


@pytest.mark.parametrize(("n", "expected"), [(10, 1), (99, 1), (100, 2), (149, 2)])
def test_left_over_pairs_are_spread(n: int, expected: int) -> None:
    assert n_batches(n, 50) == expected
    same, _ = epoch_of(PairBatches.of([sources(1, n, 2, 2)], 50, 1, [0], F64), 0)
    assert len(same) == expected
    assert max(map(len, same)) - min(map(len, same)) <= 1
    assert sum(map(len, same)) == n


@pytest.mark.parametrize("n", [23, 64])
def test_every_pair_once_per_epoch(n: int) -> None:
    """Also for even n, and for runs of different sizes in one program."""
    batches = PairBatches.of([sources(1, n, 2, 2), sources(2, n - 3, 2, 2)], 10, 4, [0, 1], F64)
    for run, size in enumerate((n, n - 3)):
        orders = []
        for epoch in range(4):
            same, different = (list(chain(*pairs)) for pairs in epoch_of(batches, epoch, run))
            assert sorted(same) == [(i, i) for i in range(size)]
            unordered = {frozenset(pair) for pair in different}
            assert len(unordered) == len(different) == size * (size - 1) // 2
            orders.append(different)
        assert all(orders[0] != order for order in orders[1:])  # shuffled anew
        assert {trace for trace, _ in orders[0]} == set(range(size))
        assert set(orders[0]) != set(orders[1])  # and now the other one of some pairs is the trace


def test_traces_and_refs_are_those_of_the_sources() -> None:
    part = sources(1, 23, 2, 2)
    batches = PairBatches.of([part], 10, 1, [0], F64)
    dealt = batches.deal(torch.tensor([0]))
    items, _ = batches.take(dealt, 1)
    rows, columns = (_at(p[1], dealt.source)[0].numpy() for p in (batches.rows, batches.columns))
    np.testing.assert_array_equal(items[0].numpy(), np.r_[part.trace.values[rows], part.ref.values[columns]])


def test_weights_make_a_cllr() -> None:
    """Each batch weighs both kinds of pairs one half, per pair of its own."""
    batches = PairBatches.of([sources(1, 64, 2, 2), sources(2, 61, 2, 2)], 10, 1, [0, 1], F64)
    for b in range(len(batches.rows)):
        weight = batches.take(batches.deal(torch.tensor([0])), b)[1].signed()
        for kind in (-weight, weight):
            torch.testing.assert_close(kind.clamp_min(0).sum((1, 2)) * np.log(2), torch.full((2,), 0.5, dtype=F64))


def test_sources_without_a_ref_are_traces_only() -> None:
    part = sources(1, 30, np.arange(30) % 3 + 1, 2)
    with_ref = {i for i in range(30) if i % 3}
    same, different = (list(chain(*pairs)) for pairs in epoch_of(PairBatches.of([part], 10, 1, [0], F64), 0))
    assert {i for i, _ in same} == with_ref
    assert {ref for _, ref in different} == with_ref
    assert {trace for trace, _ in different} == set(range(30))
    assert 0 < len(different) < 30 * 29 // 2


def test_source_batches_hold_all_instances() -> None:
    part = sources(1, 33, np.arange(33) % 4 + 1, 2)
    batches = SourceBatches.of([part], 10, 2, [3], F64)
    assert int(batches.there.sum()) == len(part.values)
    for epoch in range(2):
        dealt = batches.deal(torch.tensor([epoch]))
        slots = enumerate(batches.there_rows)
        seen = torch.cat([_at(batches.rows[batch], dealt)[0][there[0]] for batch, there in slots])
        assert sorted(seen.tolist()) == list(range(33))
    for code, source in enumerate(np.unique(part.source)):
        ours = batches.instances[0, code][batches.there[0, code] > 0].numpy()
        np.testing.assert_array_equal(ours, part.values[part.source == source])


def test_batches_that_are_alike_share_their_memory() -> None:
    for n in (1051, 1052):
        batches = PairBatches.of([sources(1, n, 2, 2)] * 3, 50, 1, [0, 1, 2], F64)
        assert len({t.data_ptr() for t in batches.band}) <= 5  # of even n, those before, across and after the middle
        assert len(batches.band) == 21
        assert all(
            t.untyped_storage().size() <= 8 * 51 * (51 + n // 2 + 1) for t in batches.band
        )  # runs share theirs, too


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 30), st.integers(0, 5))
def test_evaluation_is_the_cllr_of_all_pairs(first: int, second: int, n_watched: int, seed: int) -> None:
    """Of runs of different sizes, with sources that have no ref: padding counts for nothing."""
    parts: list[Part] = [sources(1, first, np.where(np.arange(first) == 1, 1, 2), 2), sources(2, second, 2, 2)]
    evaluation = Evaluation.of(parts, F64, n_watched, [seed, 1])
    n, m = evaluation.weights.traces.shape[1], evaluation.weights.refs.shape[1]
    ln_lr = torch.from_numpy(np.random.default_rng(seed).normal(0, 30, (2, n, m)))
    found = evaluation.weights.cost(ln_lr)
    for run, part in enumerate(parts):
        is_same = part.trace.source[:, None] == part.ref.source
        own = ln_lr[run, : len(part.trace.source), : len(part.ref.source)].numpy()
        expected = cllr(LLRs(own[is_same] / LN10, own[~is_same] / LN10))
        assert found[run].item() == pytest.approx(expected, rel=1e-8)  # torch's softplus(x) is x above 20

        weight, sign = evaluation.watched_weight[run], evaluation.watched_sign[run]
        used = weight > 0
        sides = zip(evaluation.watched[run][used].T, (part.trace, part.ref), strict=True)
        row, column = ([_item(v, side) for v in evaluation.items[run][which].numpy()] for which, side in sides)
        assert len({*zip(row, column, strict=True)}) == int(used.sum())
        np.testing.assert_array_equal(sign[used] < 0, is_same[row, column])
        assert int((sign[used] > 0).sum()) == min(n_watched, int((~is_same).sum()))
        assert weight[sign < 0].sum().item() == pytest.approx(0.5 / np.log(2))
        assert weight[sign > 0].sum().item() == pytest.approx(0.5 / np.log(2) if n_watched else 0)


def _item(values: np.ndarray, side: Side) -> int:
    """Which item of a side has these values."""
    (found,) = {int(item) for item in side.item[(side.values == values).all(1)]}
    return found


def test_what_is_shared_stays_shared_on_another_device() -> None:
    one, two = torch.zeros(2), torch.zeros(2)
    there = _to([one, two, (one,)], torch.device("meta"))
    assert there[0] is there[2][0]
    assert there[0] is not there[1]

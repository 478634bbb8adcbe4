"""The Cllr shared out over sources: by hand, against a plain recomputation, and in odd cases."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.evaluation.pair_grid import PairGrid, PairSums
from lindley.llrs import LLRs
from lindley.pages.run_model import find_outliers

NAMES = np.array([f"s{i:02d}" for i in range(12)])


def split(llr, trace, ref, names=NAMES) -> tuple[PairGrid, np.ndarray]:
    return PairGrid.of(names[trace], names[ref]), np.asarray(llr, dtype=np.float64)


def outliers(*splits):
    return find_outliers(*zip(*splits, strict=True))


def test_by_hand():
    """Three sources, the third measured once: two same-source pairs and four others."""
    names = np.array(["a", "b", "c"])
    one = split([[2.0, -1.0], [0.5, -0.5], [-3.0, 1.0]], [0, 1, 2], [0, 1], names)
    same, different = PairSums.costs(*one).shares()
    cost = {llr: log2(1 + 10**llr) for llr in (-1.0, 0.5, -3.0, 1.0)}  # of the different-source pairs
    np.testing.assert_allclose(same, [log2(1 + 10**-2) / 4, log2(1 + 10**0.5) / 4, 0], rtol=1e-12)
    pairs = {"ab": -1.0, "ba": 0.5, "ca": -3.0, "cb": 1.0}
    expected = [sum(cost[llr] for pair, llr in pairs.items() if name in pair) / (2 * 4 * 2) for name in names]
    np.testing.assert_allclose(different, expected, rtol=1e-12)

    figure = outliers(one)
    assert [outlier.source for outlier in figure.outliers] == ["b", "c", "a"]
    b, c, a = figure.outliers
    assert (b.worst_llr, b.worst_pair) == (-0.5, ("b", "b"))  # 2.06/4 of a Cllr of 1.27, c–b costs 3.46/8
    assert (c.worst_llr, c.worst_pair) == (1.0, ("c", "b"))
    assert (a.worst_llr, a.worst_pair) == (0.5, ("b", "a"))
    assert (b.splits, b.same, b.different) == (1, pytest.approx(same[1]), pytest.approx(different[1]))
    # without b: one same-source pair, a, and one different-source pair, c–a; without c too there is no pair of two sources
    assert figure.without == (
        pytest.approx(figure.cllr),
        pytest.approx(log2(1 + 10**-2) / 2 + log2(1 + 10**-3) / 2),
    )
    assert figure.even_share == pytest.approx(figure.cllr / 3)


@st.composite
def runs(draw):
    """Test parts of some splits: some sources are in them, and some of these were measured twice."""
    splits = []
    llr = st.floats(-60, 60, width=32)
    for _ in range(draw(st.integers(1, 3))):
        trace = sorted(draw(st.sets(st.integers(0, 11), min_size=2, max_size=12)))
        ref = sorted(draw(st.sets(st.sampled_from(trace), min_size=1)))
        row = st.lists(llr, min_size=len(ref), max_size=len(ref))
        splits.append((draw(st.lists(row, min_size=len(trace), max_size=len(trace))), trace, ref))
    return splits


def plain_cllr(llr, trace, ref, gone) -> float | None:
    """Cllr without some sources, by deleting rows and columns; nothing if a kind of pair is gone."""
    rows, columns = (np.array([s not in gone for s in side]) for side in (trace, ref))
    try:
        some = np.array(llr)[rows][:, columns]
        return cllr(LLRs.from_matrix(some, np.array(trace)[rows], np.array(ref)[columns]))
    except LindleyError:
        return None


@given(runs())
def test_shares_sum_to_the_cllr(splits):
    for llr, trace, ref in splits:
        costs = PairSums.costs(PairGrid(NAMES, np.array(trace), np.array(ref)), np.array(llr))
        truth = plain_cllr(llr, trace, ref, ())
        same, different = costs.shares()
        assert costs.mean(np.ones(12)) == pytest.approx(truth, rel=1e-12)
        assert same.sum() + different.sum() == pytest.approx(truth, rel=1e-12)
        assert not same[np.setdiff1d(np.arange(12), ref)].any()
        assert not different[np.setdiff1d(np.arange(12), trace)].any()


@given(runs())
def test_outliers_against_a_plain_recomputation(splits):
    figure = outliers(*(split(*each) for each in splits))
    present = {source for _, trace, _ in splits for source in trace}
    assert {outlier.source for outlier in figure.outliers} == {NAMES[source] for source in present}
    cost = [outlier.cost for outlier in figure.outliers]
    assert cost == sorted(cost, reverse=True)
    assert sum(cost) == pytest.approx(figure.cllr, rel=1e-12)
    assert figure.even_share * len(present) == pytest.approx(figure.cllr, rel=1e-12)
    order = [int(outlier.source[1:]) for outlier in figure.outliers]
    for k in range(min(len(order), 10) + 1):
        truth = [plain_cllr(*each, order[:k]) for each in splits]
        if None in truth:
            assert len(figure.without) == k
            break
        assert figure.without[k] == pytest.approx(np.mean(truth), rel=1e-9)
    for outlier in figure.outliers:
        assert outlier.cost == pytest.approx(outlier.same + outlier.different, rel=1e-12)
        source = int(outlier.source[1:])
        assert outlier.splits == sum(source in trace for _, trace, _ in splits)
        assert outlier.source in outlier.worst_pair
        worst = 0.0
        for llr, trace, ref in splits:
            n_same = len(ref)
            n_different = len(trace) * len(ref) - n_same
            for i, row in zip(trace, llr, strict=True):
                for j, value in zip(ref, row, strict=True):
                    bits = np.logaddexp2(0, (-1 if i == j else 1) * value * log2(10))
                    worst = max(worst, bits / (n_same if i == j else n_different) if source in (i, j) else 0)
            hit = [
                np.logaddexp2(0, (-1 if i == j else 1) * outlier.worst_llr * log2(10))
                / (n_same if i == j else n_different)
                for i, row in zip(trace, llr, strict=True)
                for j, value in zip(ref, row, strict=True)
                if (NAMES[i], NAMES[j]) == outlier.worst_pair and value == outlier.worst_llr
            ]
            if hit and max(hit) == pytest.approx(worst, rel=1e-9):
                break
        else:
            pytest.fail(f"{outlier} is not the worst pair")


def test_the_mean_may_rise_without_the_costliest_source():
    """Source 0 costs a little in each of ten test parts, and so more than those that fail badly in one of them."""
    far = np.full((3, 3), -50.0)
    splits = [split(far + np.diag([49.9, 47.0, 55.0]), [0, bad, 11], [0, bad, 11]) for bad in range(1, 11)]
    figure = outliers(*splits)
    assert (figure.outliers[0].source, figure.outliers[0].splits) == ("s00", 10)
    assert figure.outliers[0].cost > figure.outliers[1].cost > 5 * figure.outliers[-1].cost
    assert figure.without[1] > 1.3 * figure.without[0]


def test_an_enormous_outlier_does_not_wipe_out_the_rest():
    llr = np.full((4, 4), -1.0) + 2 * np.eye(4)
    llr[2, 2] = -1e17
    figure = outliers(split(llr, range(4), range(4)))
    assert figure.outliers[0].source == "s02"
    assert figure.outliers[0].worst_llr == -1e17
    assert figure.without[0] > 1e16
    assert figure.without[1] == pytest.approx(log2(1.1), rel=1e-12)  # every pair left has an LLR of 1 or −1

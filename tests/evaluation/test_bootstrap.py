from dataclasses import replace

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.evaluation import bootstrap, cllr, cllr_min, devpav, eer
from lindley.evaluation.bootstrap import bootstrap_llrs, draw_sources, replicates
from lindley.evaluation.pair_grid import PairGrid, PairSums
from lindley.llrs import LLRs


def matrix(seed: int, n: int) -> np.ndarray:
    """LLR-like numbers whose pairs share their sources' noise."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n)
    trace, ref = mean + 0.1 * rng.normal(size=n), mean + 0.1 * rng.normal(size=n)
    return 1.0 - 3 * (trace[:, None] - ref) ** 2


def repeated(llr, trace_source, ref_source, times):
    """The replicate as copies of pairs, by the rule: m_i for a same-source pair, m_i m_j for the others."""
    same, different = [], []
    for i, trace in enumerate(trace_source):
        for j, ref in enumerate(ref_source):
            if trace == ref:
                same += [llr[i, j]] * int(times[trace])
            else:
                different += [llr[i, j]] * int(times[trace] * times[ref])
    return LLRs(np.array(same), np.array(different))


def test_pairs_of_one_matrix_have_the_same_interval_wherever_they_are_kept():
    llr, names = matrix(3, 12), np.array([f"S{number}" for number in range(12)])
    kept = replace(LLRs.from_matrix(llr, names, names), matrices=((names, names, names, names),))
    assert bootstrap_llrs(kept, n=200, seed=5) == bootstrap(llr, names, names, n=200, seed=5)


def test_pairs_of_several_matrices_are_resampled_by_groups_over_all_of_them():
    rng = np.random.default_rng(1)
    trace, ref = np.array(["a", "b", "c", "d"]), np.array(["b", "a", "d", "e"])
    group = {"a": "g", "b": "g", "c": "h", "d": "i", "e": "e", "f": "f", "k": "k"}
    other = np.array(["f", "k"])
    first, second = rng.normal(size=(4, 4)), rng.normal(size=(2, 2))
    parts = ((first, trace, ref), (second, other, other))
    same = np.concatenate([llr[rows[:, None] == columns] for llr, rows, columns in parts])
    different = np.concatenate([llr[rows[:, None] != columns] for llr, rows, columns in parts])
    weight = rng.uniform(1, 2, size=different.size)
    names = tuple(
        (rows, columns, np.array([group[each] for each in rows]), np.array([group[each] for each in columns]))
        for _, rows, columns in parts
    )
    found = bootstrap_llrs(LLRs(same, different, None, weight, names), n=300, seed=2)
    groups = sorted(set(group.values()))
    expected = []
    for counts in np.random.default_rng(2).multinomial(6, np.full(6, 1 / 6), size=300):
        times = {source: counts[groups.index(of)] for source, of in group.items()}
        costs, at = ([[], []], [[], []]), 0
        for llr, rows, columns in parts:
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    if row == column:
                        costs[0][0].append(times[row] * np.log2(1 + 10 ** -llr[i, j]))
                        costs[0][1].append(times[row])
                    else:
                        share = times[row] * times[column] * weight[at]
                        costs[1][0].append(share * np.log2(1 + 10 ** llr[i, j]))
                        costs[1][1].append(share)
                        at += 1
        if sum(costs[0][1]) and sum(costs[1][1]):
            expected.append(sum(sum(cost) / sum(n) for cost, n in costs) / 2)
    assert (found.lower, found.upper) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])), rel=1e-9)
    assert bootstrap_llrs(LLRs(same, different)) is None


@pytest.mark.parametrize("metric", [cllr, cllr_min, eer])
def test_weights_are_copies_of_pairs(metric):
    rng = np.random.default_rng(0)
    trace_source = np.array([0, 0, 1, 2, 3, 3])  # several traces of one source, and sources with one side only
    ref_source = np.array([3, 2, 1, 0, 4])
    llr = np.round(rng.normal(size=(6, 5)), 1)
    grid = PairGrid.of(trace_source, ref_source)
    costs = PairSums.costs(grid, llr)
    for times in draw_sources(grid.names, 20, 0, costs.traces, costs.refs):
        expected = metric(repeated(llr, trace_source, ref_source, times))
        assert metric(grid.llrs(llr, times)) == pytest.approx(expected, abs=1e-12)
        if metric is cllr:
            assert costs.mean(times) == pytest.approx(expected, abs=1e-12)
        else:
            assert replicates(grid, llr, times[None], {"it": metric})["it"][0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", [cllr, cllr_min, eer])
def test_fast_paths_equal_the_generic_one(metric):
    llr = np.round(matrix(1, 40), 2)  # rounding makes ties
    source = np.random.default_rng(2).permutation(40)
    llr = llr[source]
    fast = bootstrap(llr, source, np.arange(40), metric, n=60, seed=3)
    generic = bootstrap(llr, source, np.arange(40), lambda llrs: metric(llrs), n=60, seed=3)
    for name in ("value", "lower", "upper"):
        assert getattr(fast, name) == pytest.approx(getattr(generic, name), abs=1e-12)


def test_estimate_is_the_metric_of_all_pairs():
    llr = matrix(4, 30)
    names = np.array([f"window {i}" for i in range(30)])
    interval = bootstrap(llr, names, names, eer, n=50)
    assert interval.value == eer(LLRs.from_matrix(llr, names, names))
    assert interval.lower <= interval.value <= interval.upper


def test_same_seed_same_interval():
    llr, source = matrix(5, 25), np.arange(25)
    one = bootstrap(llr, source, source, n=100, seed=7)
    assert one == bootstrap(llr, source, source, n=100, seed=7)
    assert one != bootstrap(llr, source, source, n=100, seed=8)
    wider = bootstrap(llr, source, source, n=100, seed=7, level=0.99)
    assert wider.lower <= one.lower
    assert wider.upper >= one.upper


def test_covers_the_truth_about_as_often_as_it_says():
    """100 data sets of 60 sources: the 80 % interval of Cllr holds the long-run Cllr in 80 ± 4 of them."""
    source = np.arange(60)
    truth = np.mean([cllr(LLRs.from_matrix(matrix(s, 60), source, source)) for s in range(1000, 1400)])
    intervals = [bootstrap(matrix(s, 60), source, source, n=200, level=0.8) for s in range(100)]
    assert 65 <= sum(i.lower <= truth <= i.upper for i in intervals) <= 95


def test_width_is_the_spread_between_data_sets():
    source = np.arange(60)
    spread = np.std([cllr(LLRs.from_matrix(matrix(s, 60), source, source)) for s in range(300)])
    interval = bootstrap(matrix(0, 60), source, source, n=400, level=0.6827)
    assert (interval.upper - interval.lower) / 2 == pytest.approx(spread, rel=0.5)


def test_replicates_without_one_kind_of_pair_are_drawn_again():
    llr = np.array([[1.0, -1.0], [-1.5, 0.5]])  # half of the draws from two sources hold one source twice
    interval = bootstrap(llr, [0, 1], [0, 1], n=50)
    assert interval.lower == interval.upper == pytest.approx(interval.value)


def test_errors():
    llr = np.zeros((2, 2))
    with pytest.raises(LindleyError, match="level"):
        bootstrap(llr, [0, 1], [0, 1], level=1.5)
    with pytest.raises(LindleyError, match="no same-source"):
        bootstrap(llr, [0, 1], [2, 3])
    with pytest.raises(LindleyError, match="3 traces"):
        bootstrap(llr, [0, 1, 2], [0, 1])


def test_infinite_metrics_have_infinite_bounds():
    separated = np.where(np.eye(12, dtype=bool), 2.0, -2.0)
    interval = bootstrap(separated, np.arange(12), np.arange(12), devpav, n=40)
    assert (interval.value, interval.lower, interval.upper) == (np.inf, np.inf, np.inf)
    nearly = separated + np.where(np.arange(12) == 3, 5.0, 0.0)  # one ref is misleading, if it is drawn
    interval = bootstrap(nearly, np.arange(12), np.arange(12), devpav, n=40)
    assert np.isfinite([interval.value, interval.lower]).all()
    assert interval.upper == np.inf


def test_a_metric_that_is_not_a_number_is_an_error():
    with pytest.raises(LindleyError, match="not a number in 5 of 5 replicates"):
        bootstrap(matrix(0, 10), np.arange(10), np.arange(10), lambda llrs: float("nan"), n=5)

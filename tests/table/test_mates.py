"""Mates, different sources of one group: what share of the pairs they are, and that every figure goes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import replicates
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.evaluation.pair_grid import PairGrid, PairSums, compress
from lindley.llrs import LLRs
from lindley.table.splits import Part, Protocol, make_split, mate_share, weigh_mates
from lindley.table.table import Table


def table(groups: int = 30, size: int = 3, replicates: int = 2, seed: int = 0) -> Table:
    """Sources of ``size`` in every group."""
    n = groups * size
    source = np.repeat([f"s{i:03d}" for i in range(n)], replicates)
    group = np.repeat([f"g{i // size:03d}" for i in range(n)], replicates)
    values = np.random.default_rng(seed).normal(size=(len(source), 2)) + np.repeat(np.arange(n), replicates)[:, None]
    return Table("glass", values, ("a", "b"), source, group, np.arange(len(source)).astype(str))


@pytest.mark.parametrize(
    ("setting", "share"), [("as-in-table", 2 / 89), ("never", 0.0), (0.25, 0.25), (0, 0.0), (0.0, 0.0)]
)
def test_the_share_of_mates(setting: Any, share: float) -> None:
    """Of 89 other sources two are of the same group."""
    assert mate_share(table(), setting) == pytest.approx(share)


@pytest.mark.parametrize("setting", ["as-in-table", "never", 0, 0.0])
def test_a_table_without_groups_has_none(setting: Any) -> None:
    assert mate_share(table(30, 1), setting) is None


def test_a_share_without_groups_is_refused() -> None:
    with pytest.raises(LindleyError, match=r"glass: mates are different sources of one group, and no group has two"):
        mate_share(table(30, 1), 0.1)


@pytest.mark.parametrize("setting", ["often", "as in table", -0.1, 1.0, 2, float("nan"), True, None, [0.1]])
def test_what_is_no_share_is_refused(setting: Any) -> None:
    with pytest.raises(LindleyError, match="mates must be as-in-table, never, or a share"):
        Protocol(mates=setting)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
def test_weights_have_that_share_and_a_mean_of_one(share: float) -> None:
    is_mate = np.arange(50) % 7 == 0
    weight = weigh_mates(is_mate, share)
    assert weight is not None
    assert weight.mean() == pytest.approx(1)
    assert weight[is_mate].sum() / weight.sum() == pytest.approx(share)


def test_nothing_is_weighted_where_nothing_can_be() -> None:
    some = np.arange(5) == 0
    assert weigh_mates(some, None) is None
    assert weigh_mates(some & False, 0.1) is None
    assert weigh_mates(some | True, 0.1) is None


@pytest.mark.parametrize("mates", ["as-in-table", "never", 0.2])
def test_every_part_of_a_split_stands_for_the_same_share(mates: Any) -> None:
    data = table()
    split = make_split(data, Protocol(splits=1, mates=mates), 0)
    wanted = mate_share(data, mates)
    both = split.train.joined(split.validate)
    for part in (*split.parts, *split.raw, both, both.rows(both.source < "s050")):
        assert part.mates == wanted
        found = part.is_mate.sum() / (part.is_mate.size - len(part.ref.source))
        assert found > 2 / 89  # as they come they are more
        llrs = part.llrs(np.zeros(part.is_mate.shape))
        assert llrs.different_weight is not None
        of_mates = llrs.different_weight[part.is_mate[part.trace.source[:, None] != part.ref.source]]
        assert of_mates.sum() / llrs.different_weight.sum() == pytest.approx(wanted)


def test_without_a_share_pairs_count_as_they_come() -> None:
    part = Part.drawn(table().values, table().source, table().group)
    assert part.weight is None
    assert part.mate_ratio == 1.0
    assert part.mate_share == pytest.approx(2 / 89)
    assert Part.drawn(table().values, table().source).mate_share is None


def weighted() -> tuple[Part, np.ndarray]:
    part = make_split(table(), Protocol(splits=1, mates=0.2), 0).test
    rng = np.random.default_rng(1)
    same = part.trace.source[:, None] == part.ref.source
    llr = rng.normal(size=same.shape) - 1 + 2 * same + 1.5 * part.is_mate
    return part, np.round(llr, 2)


def test_figures_of_weighted_pairs_are_those_of_copied_pairs() -> None:
    """Against brute force: with whole weights, a pair that weighs three is there three times."""
    part, llr = weighted()
    same = part.trace.source[:, None] == part.ref.source
    times = np.where(part.is_mate, 3, 1)
    llrs = LLRs.from_matrix(llr, part.trace.source, part.ref.source, times.astype(float))
    copied = LLRs(llr[same], np.repeat(llr[~same], times[~same]))
    assert cllr(llrs) == pytest.approx(cllr(copied))
    assert cllr_min(llrs) == pytest.approx(cllr_min(copied))


def test_sums_by_source_compression_and_replicates_know_the_weights() -> None:
    part, llr = weighted()
    grid, llrs = PairGrid.of(part.trace.source, part.ref.source, part.weight), part.llrs(llr)
    ones = np.ones((1, len(grid.names)))
    assert cllr(grid.llrs(llr)) == pytest.approx(cllr(llrs))
    assert abs(cllr(llrs) - cllr(LLRs.from_matrix(llr, part.trace.source, part.ref.source))) > 0.005  # they matter
    sums = PairSums.costs(grid, llr)
    assert float(sums.mean(ones)[0]) == pytest.approx(cllr(llrs))
    assert sum(map(np.sum, sums.shares())) == pytest.approx(cllr(llrs))
    binned = compress(lambda i, j: llr[i, j], grid.trace, grid.ref, weight=grid.weight, tile=7)
    assert cllr(binned) == pytest.approx(cllr(llrs), abs=1e-6)
    assert cllr_min(binned) == pytest.approx(cllr_min(llrs))
    assert np.sum(binned.different_weight) == pytest.approx(grid.n_different)
    times = np.stack([ones[0], np.random.default_rng(0).integers(0, 3, len(grid.names)).astype(float)])
    by_order = replicates(grid, llr, times, {"cllr_min": cllr_min})["cllr_min"]
    for row, found, mean in zip(times, by_order, sums.mean(times), strict=True):
        assert found == pytest.approx(cllr_min(grid.llrs(llr, row)))
        assert mean == pytest.approx(cllr(grid.llrs(llr, row)))

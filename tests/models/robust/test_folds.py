"""Folds: pairs that nothing has seen, groups that stay together, and an order that values alone decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.models.robust.folds import FOLDS, MOST_DEALS, Folds, in_order
from lindley.table.splits import Part
from tests.models.robust.simulate import Floats, part_of, table


def grouped(values: Floats, size: int = 3, **given: float) -> Part:
    names = np.repeat([f"g{i // size:03d}" for i in range(len(values))], values.shape[1])
    return part_of(values, group=names, **given)


def test_held_out_pairs_are_of_sources_that_their_coordinates_have_not_seen() -> None:
    values = table(33, 2, 4)
    folds = Folds(in_order(part_of(values)), None)
    assert len(folds.coordinates) == FOLDS * folds.deals == 10
    for number in (1, 2):
        seen = []
        for block in folds.of_size(number):
            means = folds.coordinates[block.fold].means * folds.coordinates[block.fold].spread
            rows = values.reshape(-1, 2)
            for side in (block.trace, block.ref):
                source = [np.flatnonzero((rows == row).all(1))[0] // 4 for row in side[:, 0].numpy()]
                away = np.abs(values[source].mean(1)[:, None] - means).max(-1)
                assert away.min() > 1e-9
            assert not set(map(bytes, block.trace.numpy().reshape(-1, 2))) & set(
                map(bytes, block.ref.numpy().reshape(-1, 2))
            )
            seen += source
        assert sorted(seen) == sorted(list(range(33)) * folds.deals)  # every source once in each deal
    assert folds.sizes() == [2]
    for deal in range(folds.deals):
        held_out = np.sum(folds.folds[deal * FOLDS : (deal + 1) * FOLDS], axis=0)
        assert (held_out == 1).all()
    assert np.ptp([fold.sum() for fold in folds.folds]) <= 1
    assert Folds(in_order(part_of(table(200, 2))), None).deals == 1  # many sources are dealt once


def test_the_cost_of_a_block_is_its_part_of_the_cllr() -> None:
    folds = Folds(in_order(part_of(table(40, 2))), None)
    costs, same, different = 0.0, [], []
    for block in folds.blocks:
        own = torch.eye(len(block.trace), dtype=torch.bool)
        costs += float(block.costs(block.heavy).sum())
        same.append(block.heavy[own].numpy())
        different.append(block.heavy[~own].numpy())
    found = cllr(np.concatenate(same) / math.log(10), np.concatenate(different) / math.log(10))
    assert costs == pytest.approx(found, rel=1e-9)  # folds of the same size


def test_groups_stay_together_and_mates_weigh_what_they_are_said_to() -> None:
    part = grouped(table(45, 2), mates=0.01)
    folds = Folds(in_order(part), part.mate_share)
    for fold in folds.folds:
        assert not set(folds.sources.group[fold]) & set(folds.sources.group[~fold])
    total = mates = 0.0
    for block in folds.blocks:
        assert int(block.is_mate.sum()) == 2 * len(block.trace)
        total += float(-block.weight[block.weight < 0].sum())
        mates += float(-block.weight[block.is_mate].sum())
    assert total == pytest.approx(0.5)
    assert mates / total == pytest.approx(0.01)


@pytest.mark.parametrize("rounded", [False, True])
def test_names_and_order_of_rows_and_units_decide_nothing(rounded: bool) -> None:
    values = table(40, 2 - rounded, noise=0.3)
    values = values.round(1) if rounded else values
    part = grouped(values)
    rng = np.random.default_rng(1)
    order, names = rng.permutation(len(part.values)), rng.permutation(40)
    renamed = np.array([f"x{names[int(s[1:])]:02d}" for s in part.source])
    groups = np.array([f"y{names[int(g[1:])]:02d}" for g in part.groups])
    moved = Part(part.values[order] * 100.0, renamed[order], part.is_trace[order], groups[order])
    here, there = (Folds(in_order(each), None) for each in (part, moved))
    np.testing.assert_allclose(there.sources.values, here.sources.values * 100.0, rtol=1e-12)
    np.testing.assert_array_equal(there.sources.count, here.sources.count)
    np.testing.assert_array_equal(there.folds, here.folds)
    for a, b in zip(here.blocks, there.blocks, strict=True):
        torch.testing.assert_close(a.heavy, b.heavy, rtol=1e-4, atol=1e-4)


def test_too_few_sources_with_replicates_are_refused() -> None:
    for sources in (1, 3, 5):
        with pytest.raises(LindleyError, match=rf"got {sources} sources"):
            Folds(in_order(part_of(table(sources, 2))), None)
    once = table(40, 2, 1)
    with pytest.raises(LindleyError, match="0 of these with replicates"):
        Folds(in_order(part_of(once)), None)
    with pytest.raises(LindleyError, match="2 groups"):
        Folds(in_order(grouped(table(20, 2), 10)), None)
    assert len(Folds(in_order(part_of(table(6, 2))), None).blocks) == 3 * MOST_DEALS
    few = part_of(table(40, 2)).rows(np.arange(80) % 2 * (np.arange(80) > 7) == 0)  # four sources of 40 have replicates
    assert [len(block.trace) for block in Folds(in_order(few), None).blocks] == [2, 2] * MOST_DEALS

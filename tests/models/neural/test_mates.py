"""Trainings weigh mates, different sources of one group, as the figures do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lindley.evaluation.metrics import cllr
from lindley.models.fitting import Task
from lindley.models.neural import nplda
from lindley.models.neural.batches import Evaluation, PairBatches, _at
from lindley.models.neural.parameters import Architecture
from lindley.models.neural.program import Program, Training
from lindley.models.two_level import score
from lindley.table.splits import Part, Protocol, make_split
from tests.table.test_mates import table

SHARES = [0.0, 0.2]


def part(mates: float | None, **shape: int) -> Part:
    split = make_split(table(**shape), Protocol(splits=1, mates="as-in-table" if mates is None else mates), 0)
    return split.train


@pytest.mark.parametrize("mates", SHARES)
def test_validation_costs_what_the_figures_say(mates: float) -> None:
    parts = [part(mates), part(mates, groups=21)]
    evaluation = Evaluation.of(parts, torch.float64, 5, [0, 1])
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=p.is_mate.shape) + 2 * p.is_mate for p in parts]
    padded = torch.zeros_like(evaluation.weights.signed())
    for run, matrix in enumerate(matrices):
        padded[run, : matrix.shape[0], : matrix.shape[1]] = torch.from_numpy(matrix)
    found = evaluation.weights.cost(padded * math.log(10)).tolist()
    assert found == pytest.approx([cllr(p.llrs(m)) for p, m in zip(parts, matrices, strict=True)])


@pytest.mark.parametrize("mates", SHARES)
def test_batches_of_pairs_weigh_mates(mates: float) -> None:
    """Over an epoch every two sources meet once: the weights of its one batch have the share."""
    train = part(mates)
    batches = PairBatches.of([train], 1000, 2, [0], torch.float64)
    assert len(batches.rows) == 1
    dealt = batches.deal(torch.tensor([1]))
    weight = batches.take(dealt, 0)[1].signed()
    row, column = (_at(p[0], dealt.source) for p in (batches.rows, batches.columns))
    names, first = np.unique(train.source, return_index=True)
    group = train.groups[first]
    i, j = row[0].numpy(), column[0].numpy()
    different = (names[i][:, None] != names[j]) & (weight[0].numpy() > 0)
    is_mate = (group[i][:, None] == group[j]) & (names[i][:, None] != names[j])
    of_mates, total = weight[0].numpy()[is_mate].sum(), weight[0].numpy()[different].sum()
    assert total == pytest.approx(0.5 / math.log(2))
    assert of_mates / total == pytest.approx(mates)


@pytest.mark.parametrize("mates", SHARES)
def test_batches_of_sources_weigh_mates(mates: float) -> None:
    """One batch of all sources: the loss is Cllr of all pairs of instances, by brute force."""
    train = part(mates)
    training = Training("sources", epochs=1, batch=1000, watched=0, dtype=torch.float64)
    program = Program(Architecture(), training, [train], [train], [0], None)
    with torch.no_grad():
        model = program.net()
        loss = float(program._loss(model, program.batches.deal(program.epoch), 0))
    values = torch.from_numpy(train.values)[None]
    with torch.no_grad():
        ln_lr = model.ln_lr(values, values)[0].numpy()
    n = np.arange(len(train.source))
    same = train.source[:, None] == train.source
    is_mate = (train.groups[:, None] == train.groups) & ~same
    weight = np.where(is_mate, train.mate_ratio, 1.0) * ~same
    different = (weight * np.logaddexp(0, ln_lr)).sum() / weight.sum()
    once = same & (n[:, None] < n)
    expected = (np.logaddexp(0, -ln_lr[once]).mean() + different) * 0.5 / math.log(2)
    assert loss == pytest.approx(expected)


@pytest.mark.parametrize("mates", SHARES)
def test_neural_plda_weighs_mates(mates: float) -> None:
    train = part(mates)
    items = nplda._Items.of([train], torch.zeros(1, dtype=torch.float64))
    same, different = items.shares
    assert float(same.sum()) == pytest.approx(1)
    assert float(different.sum()) == pytest.approx(1)
    names, first = np.unique(train.source, return_index=True)
    group = train.groups[first]
    is_mate = torch.from_numpy((group[:, None] == group) & (names[:, None] != names))
    assert float((different[0] * is_mate).sum()) == pytest.approx(mates)
    model = nplda.fit(Task([train], [train], [0], {"epochs": 2})).model
    assert np.isfinite(score(model, [train.trace], [train.ref])[0]).all()

"""Cross-fitting: nothing is scored by a model that has seen it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lindley.evaluation.metrics import cllr
from lindley.experiment.config import Experiment
from lindley.experiment.runner import run_experiment
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.two_level import TwoLevel, score
from lindley.system.fit import cross_fitted, deal_folds
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, make_splits
from lindley.table.table import Table


@pytest.fixture(scope="module")
def table() -> Table:
    return simulate_table(glass_population(), 150, 3, seed=2)


def test_folds_keep_groups_together_and_are_even() -> None:
    group = np.repeat([f"g{i:02d}" for i in range(23)], 3)
    fold = deal_folds(group, np.random.default_rng(0))
    assert all(len(set(fold[group == g])) == 1 for g in set(group))
    sizes = np.bincount(fold) / 3
    assert sorted(sizes) == [4, 4, 5, 5, 5]
    assert deal_folds(group[:12], np.random.default_rng(0)).max() == 1  # four groups: two folds of two


def test_held_out_pairs_are_those_of_models_fitted_without_them(table: Table) -> None:
    split = make_splits(table, Protocol(splits=1))[0]
    whole = split.train.joined(split.validate)

    def learn(rest: Part) -> tuple[TwoLevel, Callable[[Part], Part]]:
        return fit_classical([rest], "normal"), lambda part: part

    llrs = cross_fitted(whole, [lambda: whole], learn, np.random.default_rng(3))[0]()
    fold = deal_folds(whole.groups, np.random.default_rng(3))
    same = []
    for number in range(5):
        inside = fold == number
        model = fit_classical([Part(whole.values[~inside], whole.source[~inside], whole.is_trace[~inside])], "normal")
        part = Part(whole.values[inside], whole.source[inside], whole.is_trace[inside])
        same.append(np.diag(score(model, [part.trace], [part.ref])[0]))
    np.testing.assert_allclose(llrs.same, np.concatenate(same))
    assert len(llrs.same) == len(split.train.trace.source) + len(split.validate.trace.source)


def test_a_cross_fitted_row_learns_from_train_and_validation(table: Table) -> None:
    experiment = Experiment(
        name="cv",
        data=DataConfig(data="elsewhere.csv"),
        protocol=Protocol(splits=2),
        models=("tlm@cv", "tlm", "tlm+logistic@cv"),  # type: ignore[arg-type]
    )
    results = run_experiment(experiment, table)
    for index, split in enumerate(make_splits(table, experiment.protocol)):
        model = fit_classical([split.train.joined(split.validate)], "normal")
        llr = score(model, [split.test.trace], [split.test.ref])[0]
        expected = cllr(LLRs.from_matrix(llr, split.test.trace.source, split.test.ref.source))
        assert results.models["tlm@cv"].test_cllr[index] == pytest.approx(expected, rel=1e-9)
    assert results.models["tlm@cv"].test_cllr != results.models["tlm"].test_cllr
    assert np.mean(results.models["tlm+logistic@cv"].test_cllr) < np.mean(results.models["tlm@cv"].test_cllr)
    assert results.models["tlm+logistic@cv"].calibration[0][0]["name"] == "logistic"

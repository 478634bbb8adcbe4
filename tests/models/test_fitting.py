"""Every kind of model is fitted in the same way: a task goes in, models of all its runs come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lindley.errors import LindleyError
from lindley.models.bayes.fit import fit as fit_bayes
from lindley.models.classical import fit_tlm, fit_tlm_kde
from lindley.models.fitting import Fitted, Task
from lindley.models.heavy_tailed.fit import fit as fit_heavy_tailed
from lindley.models.neural.fit import fit as fit_neural
from lindley.models.neural.nplda import fit as fit_nplda
from lindley.models.robust.fit import fit as fit_robust
from lindley.models.two_level import TwoLevel, score, take_runs
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Protocol, make_splits
from lindley.table.table import Table

pytestmark = pytest.mark.usefixtures("short_search")
Fit = Callable[[Task], Fitted]
WITHOUT_TRAINING: dict[str, Fit] = {
    "tlm": fit_tlm, "tlm-kde": fit_tlm_kde, "bayes": fit_bayes, "heavy-tailed": fit_heavy_tailed, "robust": fit_robust
}  # fmt: skip
TRAINED: dict[str, tuple[Fit, dict[str, Any]]] = {
    "nplda": (fit_nplda, {"epochs": 3}),
    "neural": (fit_neural, {"projection": "double", "mode": "sources", "within": 2, "components": 2, "epochs": 3}),
}


def table(sources: int = 60, seed: int = 1, features: int = 4) -> Table:
    whole = simulate_table(glass_population(), sources, 3, seed=seed)
    return replace(
        whole,
        values=whole.values[:, :features],
        features=whole.features[:features],
        units=whole.units[:features],
    )


SPLITS = make_splits(table(), Protocol(splits=2))
TEST = [SPLITS[0].test.trace], [SPLITS[0].test.ref]


def task(**more: Any) -> Task:
    return Task([s.train for s in SPLITS], [s.validate for s in SPLITS], [3, 4], features=table().features, **more)


def llrs(fitted: Fitted) -> np.ndarray:
    return score(take_runs(fitted.model, [0]), *TEST)[0]


@pytest.mark.parametrize("kind", WITHOUT_TRAINING)
def test_a_run_can_be_fitted_again_on_other_sources(kind: str) -> None:
    seen: list[float] = []
    fitted = WITHOUT_TRAINING[kind](task(progress=lambda detail, share: seen.append(share)))
    assert len(fitted.model.centre) == 2
    assert fitted.history is None
    assert seen == sorted(seen)
    told = len(seen)
    assert fitted.again is not None
    same, other = (fitted.again(0)(part) for part in (SPLITS[0].train, SPLITS[0].validate))
    np.testing.assert_allclose(score(same, *TEST)[0], llrs(fitted), rtol=1e-12, atol=1e-12)
    assert np.abs(score(other, *TEST)[0] - llrs(fitted)).max() > 1e-3
    assert len(seen) == told  # a refit is not a step of the task


@pytest.mark.parametrize("kind", TRAINED)
def test_a_training_tells_its_epochs_and_takes_its_options(kind: str) -> None:
    fit, options = TRAINED[kind]
    seen: list[tuple[str, float]] = []
    fitted = fit(task(options=options, threads=1, progress=lambda detail, share: seen.append((detail, share))))
    assert fitted.again is None
    assert seen[-1][0].startswith("epoch 3 of 3, validation ")
    assert seen[-1][1] == 1.0
    assert np.abs(llrs(fit(task(options={**options, "epochs": 20}))) - llrs(fitted)).max() > 1e-3


def test_the_neural_model_is_the_one_of_its_options() -> None:
    fit, options = TRAINED["neural"]
    fitted = fit(task(options=options, watched=5))
    model = fitted.model
    assert isinstance(model, TwoLevel)
    assert model.between_moments()[0].shape == (2, 1, 4)
    assert not torch.equal(model.var_within_trace, model.var_within_ref)
    assert fitted.history is not None
    assert fitted.history.train.shape == (2, 3)
    assert fitted.history.validate_axes is not None
    unwatched = fit(task(options=options, watched=0)).history
    assert unwatched is not None
    assert unwatched.validate_axes is None


@pytest.mark.parametrize(
    ("fit", "options"),
    [(fit_robust, {}), (fit_neural, {"projection": "single", "mode": "pairs", "within": 1, "epochs": 3})],
)
def test_pretraining_starts_elsewhere(fit: Fit, options: dict[str, Any]) -> None:
    other = table(50, seed=7, features=6)  # more features than the data has: the neural model takes those that it needs
    plain, after = (llrs(fit(task(options=given))) for given in (options, {**options, "pretrain": other}))
    assert np.isfinite(after).all()
    assert np.abs(after - plain).max() > 1e-6


def test_pretraining_that_cannot_be_is_told() -> None:
    few = table(30, features=3)
    with pytest.raises(LindleyError, match=r"does not have the features .*robust on any table"):
        fit_neural(task(options={"pretrain": few}))
    with pytest.raises(LindleyError, match="needs the names of features"):
        fit_neural(replace(task(options={"pretrain": few}), features=None))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", TRAINED)
def test_a_gpu_that_is_not_there_is_told(kind: str) -> None:
    fit, options = TRAINED[kind]
    with pytest.raises(LindleyError, match="no CUDA device"):
        fit(task(options=options, device="cuda"))

"""Laws of the robust model that hold on any table: it can say nothing, a clash is no support, normal data cost no more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import lindley
from lindley.evaluation.metrics import cllr
from lindley.experiment.config import load_experiment
from lindley.llrs import LN10
from lindley.models.robust.fit import fit_robust
from lindley.models.robust.model import Robust
from lindley.table.table import Table
from tests.models.robust.simulate import Floats, ln_lr, measured, part_of

LEARN = 60
"""Sources that a model is fitted on; the others of a table are for its test."""


def simulated(n: int, p: int, seed: int, ratio: float = 2.5, reps: int = 2) -> Floats:
    """Normal sources, normal measurements (source, replicate, feature)."""
    rng = np.random.default_rng(seed)
    within, between = rng.normal(size=(2, p, p)) / np.sqrt(p)
    return ratio * rng.normal(size=(n, 1, p)) @ between + rng.normal(size=(n, reps, p)) @ within


def scores(values: Floats, learn: int = LEARN) -> tuple[Floats, Floats]:
    """log10 LRs of same-source and of different-source pairs that a model of the first sources has not seen."""
    found = measured(fit_robust([part_of(values[:learn])]).model, values[learn:]) / LN10
    own = np.eye(len(found), dtype=np.bool_)
    return found[own], found[~own]


@pytest.mark.parametrize("p", [3, 12])
def test_where_sources_do_not_differ_it_says_nothing(p: int) -> None:
    same, different = scores(np.random.default_rng(p).normal(size=(160, 2, p)))
    assert cllr(same, different) <= 1.02
    assert np.median(np.abs(different)) < 0.1


def test_permuted_labels_say_nothing() -> None:
    values = simulated(160, 4, 5)
    measurements = np.random.default_rng(0).permutation(values.reshape(-1, 4)).reshape(values.shape)
    assert cllr(*scores(measurements)) <= 1.02


@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
@pytest.mark.parametrize(("p", "n", "ratio"), [(10, 30, 2.5), (40, 15, 1.5)])
def test_on_normal_data_it_costs_little_more_than_the_normal_law(p: int, n: int, ratio: float) -> None:
    costs: dict[str, float] = {"robust": 0.0, "tlm": 0.0, "tlm+logistic@cv": 0.0}
    for seed in range(2):
        values = simulated(n + 150, p, seed, ratio)
        table = Table.from_arrays(values.reshape(-1, p), np.repeat([f"s{i:03d}" for i in range(n + 150)], 2))
        protocol = {"splits": 1, "seed": 0, "shares": [n / 2, n / 2, 150.0]}
        settings = {"data": {"data": "simulated"}, "protocol": protocol, "experiment": {"models": list(costs)}}
        rows = lindley.run(load_experiment("demo", settings), table).models
        costs = {name: cost + float(np.mean(rows[name].test_cllr)) for name, cost in costs.items()}
    assert costs["robust"] <= 1.1 * min(costs["tlm"], costs["tlm+logistic@cv"])


def test_a_feature_of_noise_costs_next_to_nothing() -> None:
    plain = noisy = 0.0
    for seed in range(2):
        values = simulated(LEARN + 150, 4, seed, 2.0)
        noise = np.random.default_rng(100 + seed).normal(size=(*values.shape[:2], 1))
        plain, noisy = plain + cllr(*scores(values)), noisy + cllr(*scores(np.concatenate([values, noise], 2)))
    assert noisy <= 1.03 * plain


def test_the_share_of_large_lrs_is_what_they_promise() -> None:
    """k P(LR ≥ k | H2) ≤ 1, fitted on twenty sources."""
    found = np.concatenate([scores(simulated(120, 4, seed), 20)[1] for seed in range(3)])
    for k in (1.0, 3.0, 10.0, 30.0, 100.0):
        assert k * (found >= np.log10(k)).mean() <= 1


@pytest.fixture(scope="module")
def fitted() -> tuple[Robust, Floats, Floats]:
    """A model, sources that it has not seen (source, replicate, feature), and the within standard deviations."""
    values = simulated(100, 6, 9, 10.0, 5)
    model = fit_robust([part_of(values[:80])]).model
    return model, values[80:], values.std(axis=1, ddof=1).mean(axis=0)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_a_feature_that_moves_away_is_less_and_less_support(
    fitted: tuple[Robust, Floats, Floats], m: int, n: int
) -> None:
    """From four standard deviations on; of several measurements of both, a clash in all of them is none."""
    model, values, sd = fitted
    x, y = values[:, :m], values[:, 5 - n :]
    for feature in range(x.shape[-1]):
        before = np.full(len(x), np.inf)
        for far in (4.0, 6.0, 8.0, 12.0, 20.0, 50.0, 200.0):
            moved = x.copy()
            moved[..., feature] += y[..., feature].mean(1, keepdims=True) - x[..., feature].mean(1, keepdims=True)
            moved[..., feature] += far * sd[feature]
            found = ln_lr(model, torch.from_numpy(moved)[None], torch.from_numpy(y)[None])[0].numpy()
            assert (found <= before + 0.02).all()
            before = found
        if min(m, n) > 1:
            assert (before <= 0).all()

"""What a name stands for: pretraining, refits, and peers as systems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lindley
from lindley.casework.train import TrainingChoices, train_system
from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig, Experiment, ModelConfig, OptionsConfig, TrainingConfig
from lindley.experiment.plan import make_units
from lindley.models.two_level import score
from lindley.system.fitting import fit_root
from lindley.system.names import BASES, ModelName
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Protocol, make_splits
from lindley.table.table import Table


def table(sources: int = 60, seed: int = 1, features: int = 4) -> Table:
    whole = simulate_table(glass_population(), sources, 3, seed=seed)
    return replace(whole, values=whole.values[:, :features], features=whole.features[:features])


def write(path: Path, of: Table) -> str:
    rows = [",".join(["source", *of.features])]
    rows += [",".join([s, *(repr(float(v)) for v in row)]) for s, row in zip(of.source, of.values, strict=True)]
    path.write_text("\n".join(rows), "utf-8")
    return str(path)


def named(model: str, **options: object) -> ModelName:
    return ModelConfig(model=model, options=OptionsConfig.model_validate(options)).name


def scores(name: ModelName, features: tuple[str, ...] | None = None) -> np.ndarray:
    split = make_splits(table(), Protocol(splits=1))[0]
    learn = [split.train]
    fitted = fit_root(
        name, learn, [split.validate], [3], training=TrainingConfig(epochs=3), features=features, watched=0
    )
    return score(fitted.model, [split.test.trace], [split.test.ref])[0]


@pytest.mark.parametrize("base", [base for base in BASES if not ModelName.parse(base).is_trained])
def test_the_same_fit_on_the_same_sources_is_the_same_model(base: str) -> None:
    split = make_splits(table(), Protocol(splits=1))[0]
    fitted = fit_root(ModelName.parse(base), [split.train], [], [3])
    assert fitted.again is not None
    again = fitted.again(0)(split.train)
    sides = [split.test.trace], [split.test.ref]
    np.testing.assert_array_equal(score(again, *sides)[0], score(fitted.model, *sides)[0])


@pytest.mark.parametrize("base", ["robust", "ntlm-single-pairs-n1"])
def test_pretraining_starts_elsewhere(base: str, tmp_path: Path) -> None:
    other = table(50, seed=7, features=6)  # more features than the data has: the neural model takes those that it needs
    plain = scores(named(base))
    after = scores(named(base, pretrain=write(tmp_path / "other.csv", other)), table().features)
    assert np.isfinite(after).all()
    assert np.abs(after - plain).max() > 1e-6


def test_pretraining_that_cannot_be_is_told(tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", table(30, features=3))
    with pytest.raises(LindleyError, match=r"few does not have the features .*robust on any table"):
        scores(named("ntlm-single-pairs-n1", pretrain=few), table().features)
    with pytest.raises(LindleyError, match="needs the names of features"):
        scores(named("ntlm-single-pairs-n1", pretrain=few))
    assert np.isfinite(scores(named("robust", pretrain=few))).all()
    for model, option in (("tlm", {"pretrain": few}), ("robust", {"epochs": 3}), ("nplda", {"batch": 3})):
        with pytest.raises(LindleyError, match="robust knows pretrain, and nplda epochs"):
            _ = ModelConfig.model_construct(
                model=model, integration=None, calibration=(), options=OptionsConfig.model_validate(option)
            ).name


def test_a_unit_knows_what_it_was_pretrained_on(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"

    def key() -> str:
        config = ModelConfig(model="robust", options=OptionsConfig(pretrain=str(path)))
        experiment = Experiment(name="it", data=DataConfig(data="glass-simulated"), models=(config,))
        return make_units(experiment)[0].key(experiment, "0")

    write(path, table(30))
    before = key()
    assert key() == before
    write(path, table(30, seed=2))
    assert key() != before


@pytest.mark.parametrize("model", ["ht-plda", "tlm-bayes+logistic"])
def test_peers_make_systems(model: str, tmp_path: Path) -> None:
    data = table(40)
    made = train_system(data, TrainingChoices(model=model, replicates=2))
    made.system.save(tmp_path / "it.safetensors", made.about)
    system = lindley.load(tmp_path / "it.safetensors")
    trace, ref = data.values[:1], data.values[1:3]
    case = system.explain(trace, ref)
    assert np.isfinite(case.log10_lr)
    np.testing.assert_allclose(case.log10_lr, made.system.explain(trace, ref).log10_lr)


def test_a_score_without_densities_is_not_made_into_a_system() -> None:
    with pytest.raises(LindleyError, match="no similarity and no typicality to report"):
        train_system(table(40), TrainingChoices(model="nplda"))

"""lindley inside the real LiR: the same numbers on the same pairs, and everything that an experiment file can ask for.

Runs where LiR is installed, which needs Python 3.12 or newer: `make test-lir`.
"""

from __future__ import annotations

import csv
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lir", reason="LiR is not installed (Python 3.12 or newer): make test-lir")

import yaml
from bench.beside_lir import measure
from bench.plan import Plan
from lir import registry
from lir.algorithms.bayeserror import ELUBBounder, elub
from lir.algorithms.devpav import devpav
from lir.algorithms.invariance_bounds import IVBounder
from lir.algorithms.isotonic_regression import IsotonicCalibrator
from lir.algorithms.kde import KDECalibrator
from lir.algorithms.logistic_regression import LogitCalibrator
from lir.config.base import ConfigValue, GenericConfigParser, YamlParseError
from lir.config.data import parse_data_provider
from lir.config.lrsystem_architectures import parse_lrsystem
from lir.data.models import FeatureData, LLRData, PairedFeatureData
from lir.data_strategies import PairsTrainTestSplit, SourcesCrossValidation, SourcesTrainTestSplit
from lir.lrsystems.score_based import ScoreBasedSystem
from lir.lrsystems.two_level import TwoLevelModelNormalKDE, TwoLevelSystem as LirTwoLevelSystem
from lir.metrics import cllr, cllr_cal, cllr_min
from lir.persistence import load_model, save_model
from lir.transform.pairing import InstancePairing, SourcePairing
from lir.transform.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import lindley.adapters.lir as adapter
from lindley.adapters.lir.choices import Choices
from lindley.adapters.sklearn import TwoLevelClassifier
from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.runner import run_experiment
from lindley.system.kinds import register
from lindley.system.names import ModelName, known_names
from lindley.system.train import train
from lindley.table.splits import Protocol, make_split
from lindley.table.table import Table
from tests.system.test_kinds import DOUBTFUL

ROOT = Path(__file__).parents[2]


def glass_like(n: int = 80, replicates: int = 4, seed: int = 0) -> FeatureData:
    rng = np.random.default_rng(seed)
    source = np.repeat([f"s{k:03d}" for k in range(n)], replicates)
    means = np.repeat(rng.normal(size=(n, 3)) * [3, 5, 8], replicates, axis=0)
    return FeatureData(features=10 + means + rng.normal(size=means.shape), source_ids=source)


TRAIN, TEST = glass_like(), glass_like(40, seed=1)


def pairs_of(instances: FeatureData, n_trace: int = 1, n_ref: int = 1) -> PairedFeatureData:
    return adapter.AllPairs().pair(instances, n_trace, n_ref)


# ── the system ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("n_trace", "n_ref"), [(1, 1), (1, 3), (2, 2)])
def test_the_kernel_model_is_lirs(n_trace: int, n_ref: int) -> None:
    theirs = TwoLevelModelNormalKDE().fit_on_unpaired_instances(TRAIN.features, TRAIN.source_ids)
    pairs = pairs_of(TEST, n_trace, n_ref)
    ours = adapter.TwoLevelSystem("tlm-kde").fit(TRAIN).apply(pairs)
    np.testing.assert_allclose(ours.llrs, theirs.transform(pairs.features_trace, pairs.features_ref), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(ours.hypothesis, pairs.hypothesis)
    np.testing.assert_array_equal(ours.source_ids, pairs.source_ids)


def test_instances_that_were_not_measured_count_as_in_lir() -> None:
    theirs = TwoLevelModelNormalKDE().fit_on_unpaired_instances(TRAIN.features, TRAIN.source_ids)
    pairs = pairs_of(TEST, 2, 2)
    features = pairs.features.copy()
    features[::3, 1] = np.nan
    features[::5, 3] = np.nan
    pairs = pairs.replace(features=features)
    ours = adapter.TwoLevelSystem("tlm-kde").fit(TRAIN).apply(pairs)
    np.testing.assert_allclose(ours.llrs, theirs.transform(pairs.features_trace, pairs.features_ref), rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", [1, 2])
def test_in_the_place_of_lirs_own_system(seed: int) -> None:
    """Instances in, preprocessing, pairing, postprocessing: the same LLRs out, to 1e-8."""
    systems = []
    for kind in (LirTwoLevelSystem, None):
        parts = {
            "before": Pipeline([("scale", StandardScaler())]),
            "pairing": InstancePairing(different_source_limit=400, seed=seed),
            "after": Pipeline([("logit", LogitCalibrator()), ("elub", ELUBBounder())]),
        }
        if kind is None:
            system = adapter.TwoLevelSystem(
                "tlm-kde",
                parts["pairing"],
                preprocessing=parts["before"],
                postprocessing=parts["after"],
                validation=0,  # LiR calibrates on the sources that the model was fitted on
            )
        else:
            system = kind(parts["before"], parts["pairing"], parts["after"], 1, 1)
        systems.append(system.fit(TRAIN).apply(TEST))
    theirs, ours = systems
    np.testing.assert_allclose(ours.llrs, theirs.llrs, rtol=0, atol=1e-8)
    assert ours.llr_bounds == pytest.approx(theirs.llr_bounds, abs=1e-8)
    np.testing.assert_array_equal(ours.hypothesis, theirs.hypothesis)


@pytest.mark.parametrize("base", [name for name, _ in known_names()])
def test_every_model_is_a_system(base: str, tmp_path: Path) -> None:
    options = {"options": {"epochs": 1}} if "epochs" in ModelName.parse(base).kind.options.model_fields else {}
    system = adapter.TwoLevelSystem(base, **options).fit(TRAIN)
    result = system.apply(TEST)
    assert isinstance(result, LLRData)
    assert np.isfinite(result.llrs).all()
    assert len(result) == 40 * 40
    save_model(tmp_path / "model.pkl", system)
    np.testing.assert_array_equal(load_model(tmp_path / "model.pkl").apply(TEST).llrs, result.llrs)


def test_postprocessing_sees_sources_that_the_model_has_not_seen() -> None:
    class Spy(adapter.LogisticCalibrator):
        def fit(self, instances: LLRData) -> Spy:
            self.seen = set(instances.source_ids.reshape(-1).tolist())
            return super().fit(instances)

    spy = Spy()
    system = adapter.TwoLevelSystem("tlm", postprocessing=spy, validation=0.25).fit(TRAIN)
    assert spy.seen == set(system.kept_sources.tolist())
    assert len(spy.seen) == 20
    everything = adapter.TwoLevelSystem("tlm", postprocessing=Pipeline([]), validation=0.25).fit(TRAIN)
    assert not everything.kept_sources.size


def test_groups_of_sources_stay_together() -> None:
    group = np.char.add("g", (np.arange(320) // 4 // 2).astype(str))
    options = {"options": {"epochs": 1}}
    system = adapter.TwoLevelSystem("ntlm-single-pairs-n1", **options).fit(TRAIN.replace(group_ids=group))
    of = dict(zip(TRAIN.source_ids.tolist(), group.tolist(), strict=True))
    kept = set(system.kept_sources.tolist())
    assert kept
    assert not {of[s] for s in kept} & {of[s] for s in of if s not in kept}


def test_lir_is_one_more_door_to_the_same_system() -> None:
    """The LLRs of `lindley.train` and of scikit-learn, with and without a calibration."""
    table = Table.from_arrays(TRAIN.features, TRAIN.source_ids)
    for model in ("tlm", "tlm-kde+logistic", "quantile:tlm+elub"):
        pairs = adapter.AllPairs().pair(TEST)
        through_lir = adapter.TwoLevelSystem(model, seed=5).fit(TRAIN).apply(pairs).llrs
        system = train(table, model, replicates=0, seed=5)
        np.testing.assert_allclose(system.llr_pairs(pairs.features_trace, pairs.features_ref), through_lir, rtol=1e-9)
        classifier = TwoLevelClassifier(model, random_state=5).fit(TRAIN.features, TRAIN.source_ids)
        np.testing.assert_allclose(classifier.decision_function(pairs.features), through_lir, rtol=1e-9)


def test_a_kind_of_ones_own_is_at_home_in_lir(tmp_path: Path) -> None:
    with register(DOUBTFUL):
        fitted = adapter.TwoLevelSystem("doubtful+logistic", options={"doubt": 0.3}).fit(TRAIN)
        assert np.isfinite(fitted.apply(TEST).llrs).all()
        plain, half = (adapter.TwoLevelSystem(name).fit(TRAIN).apply(TEST).llrs for name in ("tlm", "doubtful"))
        np.testing.assert_allclose(half, 0.5 * plain)
        train(Table.from_arrays(TRAIN.features, TRAIN.source_ids), "doubtful").save(tmp_path / "it.safetensors")
        saved = adapter.SavedSystem(tmp_path / "it.safetensors", bounded=False)
        with pytest.warns(UserWarning, match="does not name its features"):
            np.testing.assert_allclose(saved.apply(TEST).llrs, half)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"model": "tml"}, "there is no model 'tml'. Did you mean 'tlm'"),
        ({"model": "tlm", "colour": 5}, "colour: there is no such setting; there are model, integration"),
        ({"model": "tlm", "validaton": 0.2}, "validaton: there is no such setting. Did you mean 'validation'? There are"),
        ({"model": "tlm", "epochs": 5}, "epochs: it is an option of the model: write it under options, as in 'options: {epo"),
        ({"model": "ntlm-single-pairs-n1", "options": {"epoch": 5}}, "options.epoch: there is no such setting. Did you mean"),
        ({"model": "tlm", "options": {"epochs": 5}}, "there is no option epochs; it has no options"),
        ({"model": "ntlm-single-pairs-n1", "options": {"epochs": 0}}, "options.epochs: Input should be greater"),
        ({"model": "tlm", "validation": 33}, "validation: Input should be less than 1, and not 33: it is a share, such as"),
        ({"model": "tlm", "calibration": 5}, "it is a list, as in [logistic, elub]"),
        ({"model": "tlm", "options": "fast"}, "not 'fast': write them as in {epochs: 500, learning_rate: 0.003}"),
        ({"model": "ntlm-single-pairs-n1", "validation": 0}, "needs sources that it has not seen"),
        ({"model": "tlm", "label": "mine"}, "a label is for the models of an experiment"),
        ({"model": "tlm", "seed": -1}, "seed: Input should be greater"),
    ],
)  # fmt: skip
def test_wrong_choices_are_told_plainly(choices: dict[str, object], message: str) -> None:
    with pytest.raises(LindleyError) as told:
        Choices.read(choices)
    assert message in str(told.value)
    assert told.value.__suppress_context__


def test_one_calibration_needs_no_list() -> None:
    assert str(Choices.read({"model": "tlm", "calibration": "logistic"}).name) == "tlm+logistic"
    assert str(Choices.read({"model": "tlm", "calibration": ["kde", "elub"]}).name) == "tlm+kde+elub"


def test_settings_of_the_caller_are_named_too() -> None:
    with pytest.raises(LindleyError, match=r"Did you mean 'n_trace_instances'\? There are model.*device, n_trace_inst"):
        Choices.read({"n_trace_instance": 2}, beside=("n_trace_instances", "pairing"))


def test_lir_data_strategies() -> None:
    system = adapter.TwoLevelSystem("tlm+logistic")
    for strategy, n in ((SourcesTrainTestSplit(0.4, seed=1), 1), (SourcesCrossValidation(4), 4)):
        results = [system.fit(train).apply(test) for train, test in strategy.apply(TRAIN)]
        assert len(results) == n
        assert all(adapter.cllr(result) < 0.6 for result in results)
    pairs = InstancePairing(different_source_limit=4000, seed=1).pair(TRAIN)
    (train, test) = next(iter(PairsTrainTestSplit(0.4, seed=1).apply(pairs)))
    assert adapter.cllr(system.fit(train).apply(test)) < 0.6
    scaled = adapter.TwoLevelSystem(
        "tlm-kde", preprocessing=Pipeline([("scale", StandardScaler())]), postprocessing=LogitCalibrator()
    )
    assert adapter.cllr(scaled.fit(train).apply(test)) < 0.6


def test_a_model_as_a_step_of_lirs_score_based_system() -> None:
    steps = [("model", adapter.TwoLevelModel("tlm")), ("calibration", adapter.LogisticCalibrator())]
    system = ScoreBasedSystem(None, InstancePairing(different_source_limit=2000, seed=1), Pipeline(steps)).fit(TRAIN)
    assert adapter.cllr(system.apply(TEST)) < 0.6
    model = adapter.TwoLevelModel("tlm").fit(TRAIN)
    expected = adapter.TwoLevelSystem("tlm").fit(TRAIN).apply(pairs_of(TEST)).llrs
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).apply(pairs_of(TEST)).llrs, expected)


def test_all_pairs() -> None:
    pairs = pairs_of(TEST, 1, 2)
    assert pairs.features.shape == (1600, 3, 3)
    assert pairs.hypothesis.sum() == 40
    same = pairs.source_ids[:, 0] == pairs.source_ids[:, 1]
    np.testing.assert_array_equal(pairs.hypothesis, same)
    np.testing.assert_array_equal(TEST.source_ids[pairs.instance_indices[:, 0]], pairs.source_ids[:, 0])
    np.testing.assert_array_equal(TEST.source_ids[pairs.instance_indices[:, 2]], pairs.source_ids[:, 1])
    np.testing.assert_array_equal(TEST.features[pairs.instance_indices], pairs.features)
    assert all(len(set(row)) == 3 for row in pairs.instance_indices.tolist())
    some = adapter.AllPairs(different_source_limit=100, seed=3)
    assert len(some.pair(TEST)) == 140
    np.testing.assert_array_equal(some.pair(TEST).features, some.pair(TEST).features)
    with pytest.raises(LindleyError, match="0 of 40 sources have 3 instances for a trace and 2 for a ref"):
        pairs_of(TEST, 3, 2)


# ── a saved system ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = Table.from_arrays(TRAIN.features, TRAIN.source_ids, features=["K", "Ti", "Mn"], name="glass")
    path = tmp_path_factory.mktemp("saved") / "glass.safetensors"
    train(table, "tlm-kde+logistic", replicates=0).save(path)
    return path


def test_a_saved_system_gives_its_own_lrs(saved: Path, tmp_path: Path) -> None:
    system = adapter.SavedSystem(saved, n_ref_instances=2, bounded=False)
    assert system.fit(TRAIN) is system
    named = TEST.replace(feature_names=("K", "Ti", "Mn"))
    pairs = pairs_of(named, 1, 2)
    llrs = system.apply(pairs).llrs
    for k in (0, 7, 41):
        assert llrs[k] == pytest.approx(system.system.llr(pairs.features_trace[k], pairs.features_ref[k]), abs=1e-10)
    np.testing.assert_array_equal(system.apply(named).llrs, llrs)
    bounded = adapter.SavedSystem(saved, n_ref_instances=2).apply(named)
    lower, upper = system.system.bounds
    np.testing.assert_array_equal(bounded.llrs, np.clip(llrs, lower, upper))
    assert bounded.llr_bounds == (lower, upper)
    assert adapter.SavedSystem(saved, transformed=True, bounded=False).apply(pairs).llrs == pytest.approx(llrs)
    save_model(tmp_path / "model.pkl", system)
    np.testing.assert_array_equal(load_model(tmp_path / "model.pkl").apply(named).llrs, llrs)
    with pytest.raises(LindleyError, match=r"needs 3 features \(K, Ti, Mn\)"):
        system.apply(pairs.replace(features=pairs.features[:, :, :2], feature_names=None))


# ── experiment files ────────────────────────────────────────────────────────────────────────────────────────────────


def parsed(text: str) -> object:
    return parse_lrsystem(ConfigValue.wrap(["lrsystem"], yaml.safe_load(text)), Path()).lrsystem


def test_the_architecture_takes_lirs_keys_and_ours() -> None:
    system = parsed("""
        architecture: lindley.adapters.lir.two_level
        model: ntlm-double-sources-n1+logistic
        integration: varying
        options: {epochs: 3, learning_rate: 3e-3}
        validation: 0.4
        seed: 5
        preprocessing: {steps: {scale: standard_scaler}}
        pairing: {method: source_pairs, different_source_limit: 200, seed: 1}
        n_trace_instances: 1
        n_ref_instances: 2
        postprocessing: {steps: {bounds: elub_bounder}}
    """)
    assert isinstance(system, adapter.TwoLevelSystem)
    assert str(system.choices.name) == "ntlm-double-sources-n1-varying[epochs=3,learning_rate=0.003]+logistic"
    assert isinstance(system.pairing_function, SourcePairing)
    assert (system.n_trace_instances, system.n_ref_instances, system.choices.seed) == (1, 2, 5)
    result = system.fit(TRAIN).apply(TEST)
    assert len(result) == 240
    assert result.llr_upper_bound is not None
    short = parsed("{architecture: lindley.adapters.lir.two_level}")
    assert isinstance(short, adapter.TwoLevelSystem)
    assert isinstance(short.pairing_function, adapter.AllPairs)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("model: tml", "lrsystem: model 'tml': there is no model 'tml'. Did you mean 'tlm'?"),
        ("colour: 5", "lrsystem: colour: there is no such setting; there are model"),
        ("options: {epochs: 5}", "lrsystem: model 'tlm-kde': there is no option epochs; it has no options"),
        ("validation: 2", "lrsystem: validation: Input should be less than 1"),
        ("n_trace_instances: many", "n_trace_instances"),
        ("n_trace_instances: 0", "n_trace_instances must be 1 or more"),
        ("pairing: {method: lindley.adapters.lir.AllPairs, different_source_limit: 0}", "must be 1 or more, not 0"),
    ],
)
def test_mistakes_in_an_experiment_file_are_told_with_their_place(line: str, message: str) -> None:
    with pytest.raises(YamlParseError) as told:
        parsed(f"architecture: lindley.adapters.lir.two_level\n{line}")
    assert message in str(told.value)


def test_a_missing_system_file_is_told(saved: Path) -> None:
    with pytest.raises(YamlParseError, match=r"there is no file .*none.safetensors"):
        parsed("{architecture: lindley.adapters.lir.saved_system, path: none.safetensors}")
    with pytest.raises(YamlParseError, match="missing field: `path`"):
        parsed("architecture: lindley.adapters.lir.saved_system")
    with pytest.raises(YamlParseError, match="unrecognized argument: bound"):
        parsed("{architecture: lindley.adapters.lir.saved_system, path: none.safetensors, bound: true}")
    assert isinstance(
        parsed(f"{{architecture: lindley.adapters.lir.saved_system, path: '{saved}', n_ref_instances: 2}}"),
        adapter.SavedSystem,
    )


def test_wrong_data_is_told() -> None:
    system = adapter.TwoLevelSystem("tlm")
    with pytest.raises(LindleyError, match="not fitted yet"):
        system.apply(TEST)
    with pytest.raises(LindleyError, match="set source_ids"):
        system.fit(FeatureData(features=TEST.features))
    with pytest.raises(LindleyError, match="set source_ids"):
        system.fit(pairs_of(TEST).replace(source_ids=None))
    with pytest.raises(LindleyError, match="compares pairs"):
        adapter.TwoLevelModel("tlm").fit(TRAIN).apply(TEST)
    with pytest.raises(LindleyError, match="not fitted yet"):
        adapter.TwoLevelModel("tlm").apply(pairs_of(TEST))
    with pytest.raises(LindleyError, match="not fitted yet"):
        adapter.PavCalibrator().apply(LLRData(features=np.zeros(3)))
    with pytest.raises(LindleyError, match="needs same-source and different-source pairs"):
        adapter.PavCalibrator().fit(LLRData(features=np.zeros(3)))
    with pytest.raises(LindleyError, match="needs finite LLRs, and 1 are not"):
        adapter.cllr(LLRData(features=np.array([np.inf, 0]), hypothesis=np.array([1, 0])))
    with pytest.raises(LindleyError, match="one LLR per pair"):
        adapter.PavCalibrator().fit(TEST)
    pairs = pairs_of(TEST)
    halved = adapter.TwoLevelSystem("tlm", preprocessing=_Half()).fit(TRAIN)
    with pytest.raises(LindleyError, match="It must keep every instance"):
        halved.apply(pairs)


class _Half(adapter.PavCalibrator):
    """Leaves every other instance out."""

    def fit(self, instances: FeatureData) -> _Half:
        return self

    def apply(self, instances: FeatureData) -> FeatureData:
        return instances[np.arange(0, len(instances), 2)]


def test_tables_of_lindleys_in_lir(tmp_path: Path) -> None:
    rows = "".join(f"{k // 3},{k // 6},{k % 7 + 0.5},{k % 5 + 0.25}\n" for k in range(60))
    (tmp_path / "glass.csv").write_text("item,car,K,Ti\n" + rows)
    config = {
        "method": "lindley.adapters.lir.Table",
        "data": str(tmp_path / "glass.csv"),
        "source_column": "item",
        "group_column": "car",
        "transform": "log10",
    }
    with pytest.warns(UserWarning, match="2 features for 10 sources or groups"):
        instances = parse_data_provider(ConfigValue.wrap([], config), tmp_path).get_instances()
    assert instances.features.shape == (60, 2)
    np.testing.assert_allclose(instances.features[0], np.log10([0.5, 0.25]))
    assert len(np.unique(instances.source_ids)) == 20
    assert len(np.unique(instances.group_ids)) == 10
    with pytest.raises(YamlParseError, match=r"columns: Extra inputs.* Beside data there are source_column"):
        parse_data_provider(ConfigValue.wrap([], {**config, "columns": "K"}), tmp_path)


def test_every_short_name_leads_somewhere() -> None:
    names = yaml.safe_load(adapter.REGISTRY.read_text("utf-8"))
    for section in names.values():
        for target in section.values():
            assert registry.registry().get(target, GenericConfigParser) is not None
    listed = {target.rpartition(".")[2] for section in names.values() for target in section.values()}
    assert listed == set(adapter.__all__) - {"REGISTRY", "SavedSystem", "TwoLevelSystem", "case_pairs"}


def test_short_names_through_the_registry(tmp_path: Path) -> None:
    where = _run([sys.executable, "-m", "lindley.adapters.lir"], tmp_path).strip()
    assert Path(where) == adapter.REGISTRY
    listed = _run([sys.executable, "-m", "lir", "--list-registry"], tmp_path, REGISTRY_CONFIG_FILE=where)
    assert "lrsystem_architectures.lindley_two_level" in listed
    (tmp_path / "short.yaml").write_text("""
output_path: out
experiments:
  - name: short
    strategy: single_run
    data:
      provider: {method: synthesized_normal_multiclass, seed: 1, population: {size: 100, instances_per_source: 3},
                 dimensions: [{mean: 0, std: 1, error_std: 0.1}, {mean: 0, std: 1, error_std: 0.2}]}
      splits: {strategy: train_test_sources, test_size: 0.5, seed: 1}
    lrsystem:
      architecture: lindley_two_level
      model: tlm
      pairing: lindley_all_pairs
      postprocessing: {steps: {calibration: lindley_logistic, bounds: lindley_elub}}
    output:
      - {method: metrics, columns: [cllr, lindley_cllr]}
""")
    _run([sys.executable, "-m", "lir", "short.yaml"], tmp_path, REGISTRY_CONFIG_FILE=where)
    (row,) = _rows(tmp_path / "out" / "short" / "metrics.csv")
    assert float(row["cllr"]) == pytest.approx(float(row["lindley_cllr"]), rel=1e-12)
    assert float(row["cllr"]) < 0.6


# ── metrics, calibrations, bounds ───────────────────────────────────────────────────────────────────────────────────


def llr_sets() -> dict[str, LLRData]:
    rng = np.random.default_rng(0)
    sets = {
        "normal": (rng.normal(1.5, 1, 80), rng.normal(-2, 1.5, 900)),
        "overconfident": (3 * rng.normal(1, 1, 150), 3 * rng.normal(-1, 1, 400)),
        "rounded": (np.round(rng.normal(0.6, 0.8, 80), 1), np.round(rng.normal(-0.6, 0.8, 500), 1)),
    }
    system = adapter.TwoLevelSystem("tlm").fit(TRAIN).apply(TEST)
    data = {
        name: LLRData(features=np.concatenate(both), hypothesis=np.repeat([1, 0], [len(side) for side in both]))
        for name, both in sets.items()
    }
    return {**data, "two-level": LLRData(features=system.llrs.copy(), hypothesis=system.hypothesis)}


def fresh(llrs: LLRData) -> LLRData:
    """A copy: LiR's elub changes the LLRs that it is given."""
    return LLRData(features=llrs.llrs.copy(), hypothesis=llrs.hypothesis)


@pytest.mark.parametrize("name", list(llr_sets()))
def test_metrics_and_bounds_agree_with_lirs(name: str) -> None:
    llrs = llr_sets()[name]
    for ours, theirs in (
        (adapter.cllr, cllr),
        (adapter.cllr_min, cllr_min),
        (adapter.cllr_cal, cllr_cal),
        (adapter.devpav, devpav),
    ):
        assert ours(fresh(llrs)) == pytest.approx(theirs(fresh(llrs)), rel=1e-9, abs=1e-12)
    for ours, theirs in ((adapter.ElubBounder(), ELUBBounder()), (adapter.InvarianceBounder(), IVBounder())):
        bounded, expected = ours.fit(fresh(llrs)).apply(fresh(llrs)), theirs.fit(fresh(llrs)).apply(fresh(llrs))
        assert bounded.llr_bounds == pytest.approx(expected.llr_bounds, abs=1e-10)
        np.testing.assert_allclose(bounded.llrs, expected.llrs, atol=1e-10)


@pytest.mark.parametrize("name", list(llr_sets()))
def test_calibrations_agree_with_lirs(name: str) -> None:
    llrs = llr_sets()[name]
    at = LLRData(features=np.linspace(-3, 3, 61))
    pav, theirs = adapter.PavCalibrator().fit(llrs), IsotonicCalibrator(add_misleading=1).fit(fresh(llrs))
    np.testing.assert_allclose(pav.apply(at).llrs, theirs.apply(fresh(at)).llrs, atol=1e-9)
    # Without its penalty LiR's logistic calibration is ours, but for a prior that is weaker still.
    logistic = adapter.LogisticCalibrator(clip=None).fit(llrs).apply(at)
    assert logistic.features.shape == (61, 1)
    np.testing.assert_allclose(logistic.llrs, LogitCalibrator(C=1e9).fit(fresh(llrs)).apply(fresh(at)).llrs, atol=0.02)
    # With our bandwidths LiR's kernel calibration is ours, inside the range of the LLRs of both hypotheses.
    kernel = adapter.KernelCalibrator().fit(llrs)
    numbers = kernel.calibration.describe()
    kde = KDECalibrator(bandwidth=(numbers["bandwidth_different"], numbers["bandwidth_same"])).fit(fresh(llrs))
    same, different = (llrs.llrs[llrs.hypothesis == h] for h in (1, 0))
    inside = (at.llrs > max(np.quantile(same, 0.02), different.min())) & (
        at.llrs < min(same.max(), np.quantile(different, 0.98))
    )
    np.testing.assert_allclose(kernel.apply(at).llrs[inside], kde.apply(fresh(at)).llrs[inside], atol=0.02)


def test_what_lir_does_to_llrs_and_we_do_not() -> None:
    far = LLRData(features=np.array([-400.0, 2.0, -3.0, 30.0]), hypothesis=np.array([1, 1, 0, 0]))
    assert np.isinf(cllr(fresh(far)))  # 10^-400 is zero
    assert np.isfinite(adapter.cllr(far))
    ours = fresh(far)
    adapter.ElubBounder().fit(ours)
    np.testing.assert_array_equal(ours.llrs, far.llrs)
    theirs = fresh(far)
    elub(theirs)
    assert theirs.llrs.min() == -9  # LiR clips in place


# ── end to end ──────────────────────────────────────────────────────────────────────────────────────────────────────

EXAMPLES = {
    "glass": "kernel-density",
    "glass-models": "models",
    "glass-side-by-side": "side-by-side",
    "glass-optuna": "learning-rate",
    "glass-saved-system": "saved-system",
    "vehicle-glass": "by-vehicle",
}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in (ROOT / "examples" / "lir").glob("*.yaml")} == set(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run_through_lir(example: str, data_folder: Path, tmp_path: Path) -> None:
    if example == "glass-saved-system":
        from lindley.table.datasets import load_dataset

        train(load_dataset("nfi-glass"), replicates=0).save(tmp_path / "glass.safetensors")
    _run(
        [sys.executable, "-m", "lir", str(ROOT / "examples" / "lir" / f"{example}.yaml")],
        tmp_path,
        LINDLEY_DATA=str(data_folder),
    )
    results = tmp_path / "results" / f"lir-{example}" / EXAMPLES[example]
    rows = _rows(results / "metrics.csv")
    for row in rows:
        for name in ("cllr", "cllr_min"):
            if ours := row.get(f"lindley.adapters.lir.{name}"):
                assert float(ours) == pytest.approx(float(row[name]), rel=1e-9)
        assert 0.01 < float(row["cllr"]) < 0.5
    if example == "glass":
        assert {path.name for path in results.iterdir()} >= {"PAV.png", "Tippett.png", "model.pkl"}
        assert isinstance(load_model(results / "model.pkl").lrsystem, adapter.TwoLevelSystem)
    if example == "glass-models":
        assert len(rows) == 6
    if example == "glass-side-by-side":
        theirs, ours = rows
        assert float(ours["cllr"]) == pytest.approx(float(theirs["cllr"]), abs=1e-10)
        assert float(ours["cllr_min"]) == pytest.approx(float(theirs["cllr_min"]), abs=1e-10)


def test_lirs_figures_are_those_of_lindley_run() -> None:
    """The same split, scored by LiR with a lindley system and by lindley's own experiment."""
    names = ("tlm", "tlm-kde")
    table = Table.from_arrays(TRAIN.features, TRAIN.source_ids)
    experiment = Experiment.model_validate({"name": "same", "data": "glass.csv", "models": names})
    experiment = experiment.model_copy(update={"protocol": Protocol(splits=2)})
    results = run_experiment(experiment, table)
    for index in range(2):
        split = make_split(table, experiment.protocol, index)
        train, test = (
            FeatureData(features=split.scaling.undo(part.values), source_ids=part.source)
            for part in (split.train, split.test)
        )
        i, j = (k.reshape(-1) for k in np.indices((len(split.test.trace.source), len(split.test.ref.source))))
        rows = [test.features[split.test.is_trace][i], test.features[~split.test.is_trace][j]]
        pairs = PairedFeatureData(
            features=np.stack(rows, axis=1), hypothesis=(i == j).astype(int), n_trace_instances=1, n_ref_instances=1
        )
        for name in names:
            llrs = adapter.TwoLevelSystem(name).fit(train).apply(pairs)
            assert cllr(llrs) == pytest.approx(results.models[name].test_cllr[index], rel=1e-9)
            assert cllr_min(llrs) == pytest.approx(results.models[name].test_cllr_min[index], rel=1e-9)


def test_scoring_beside_lir() -> None:
    figures = measure(Plan(lir_items=150, lir_pairs=600))
    assert figures["difference"] < 1e-8
    ratio = {row["way"]: row["times_faster"] for row in figures["rows"]}
    assert ratio["lindley, all pairs, matrix"] > 500
    assert ratio["lindley, all pairs, given"] > 500
    assert ratio["lindley, some of them"] > 10
    assert ratio["lindley, unrelated pairs"] > 10


# ── the documentation ───────────────────────────────────────────────────────────────────────────────────────────────

PAGE = (ROOT / "docs" / "lir.md").read_text("utf-8")


@pytest.mark.parametrize("block", re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S))
def test_python_of_the_page(block: str, data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(block, encoding="utf-8")
    assert _run([sys.executable, "block.py"], tmp_path, LINDLEY_DATA=str(data_folder))


@pytest.mark.parametrize("block", re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S))
def test_yaml_of_the_page(block: str, data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "block.yaml").write_text(block, encoding="utf-8")
    _run(
        [sys.executable, "-m", "lir", "block.yaml"],
        tmp_path,
        LINDLEY_DATA=str(data_folder),
        REGISTRY_CONFIG_FILE=str(adapter.REGISTRY),
    )
    assert list(tmp_path.rglob("metrics.csv"))


def _run(command: list[str], folder: Path, **environment: str) -> str:
    path = os.pathsep.join(p for p in (str(ROOT / "src"), os.environ.get("PYTHONPATH")) if p)
    everything = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, cwd=folder, env=everything, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))

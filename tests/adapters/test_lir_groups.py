"""Groups of sources in LiR's splits, and mistakes in experiment files."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lir", reason="LiR is not installed (Python 3.12 or newer): make test-lir")

import yaml
from lir.config.base import ConfigValue, YamlParseError
from lir.config.data import parse_data_strategy
from lir.config.lrsystem_architectures import parse_lrsystem
from lir.data.models import FeatureData
from lir.data_strategies import SourcesCrossValidation, SourcesTrainTestSplit
from lir.lrsystems.two_level import TwoLevelModelNormalKDE
from lir.transform.pairing import InstancePairing

import lindley.adapters.lir as adapter
from lindley.errors import LindleyError


def in_cars(n: int = 60, replicates: int = 4, per_car: int = 3, seed: int = 0) -> FeatureData:
    """Windows of cars: a few sources of each group."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), replicates)
    means = (rng.normal(size=(n, 3)) * [3, 5, 8])[source]
    names = np.char.add("s", source.astype(str))
    cars = np.char.add("car ", (source // per_car).astype(str))
    return FeatureData(features=means + rng.normal(size=means.shape), source_ids=names, group_ids=cars)


def named(instances: FeatureData, field: str) -> set[str]:
    return set(np.asarray(getattr(instances, field)).reshape(-1).tolist())


DATA = in_cars()
SPLITS = [
    adapter.GroupsTrainTestSplit(0.4, seed=1),
    adapter.GroupsTrainTestSplit(7),
    adapter.GroupsCrossValidation(4),
    adapter.GroupsCrossValidation(4, random_state=2),
    adapter.GroupsCrossValidation(3, shuffle=True),
]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("data", [DATA, InstancePairing(seed=1).pair(DATA), adapter.AllPairs().pair(DATA, 1, 2)])
def test_no_group_is_in_both_parts(split: object, data: FeatureData) -> None:
    tested: list[str] = []
    for train, test in split.apply(data):
        assert len(train)
        assert len(test)
        for field in ("group_ids", "source_ids"):
            assert not named(train, field) & named(test, field)
        if data is DATA:
            assert len(train) + len(test) == len(data)
        tested += sorted(named(test, "group_ids"))
    assert len(tested) == len(set(tested))
    if isinstance(split, adapter.GroupsCrossValidation):
        assert set(tested) == named(DATA, "group_ids")


def test_lirs_split_by_sources_does_not_keep_groups_apart() -> None:
    (train, test) = next(iter(SourcesTrainTestSplit(0.4, seed=1).apply(DATA)))
    assert named(train, "group_ids") & named(test, "group_ids")


def test_with_a_group_for_every_source_the_parts_are_lirs() -> None:
    data = DATA.replace(group_ids=DATA.source_ids)
    for ours, theirs in (
        (adapter.GroupsTrainTestSplit(0.3, seed=5), SourcesTrainTestSplit(0.3, seed=5)),
        (adapter.GroupsTrainTestSplit(11, seed=5), SourcesTrainTestSplit(11, seed=5)),
        (adapter.GroupsCrossValidation(5), SourcesCrossValidation(5)),
        (adapter.GroupsCrossValidation(5, random_state=3), SourcesCrossValidation(5, random_state=3)),
    ):
        for our_parts, their_parts in zip(ours.apply(data), theirs.apply(data), strict=True):
            for our_part, their_part in zip(our_parts, their_parts, strict=True):
                np.testing.assert_array_equal(our_part.features, their_part.features)


def test_the_seed_decides() -> None:
    def tests(split: adapter.GroupsTrainTestSplit) -> Iterable[set[str]]:
        return [named(test, "group_ids") for _, test in split.apply(DATA)]

    assert tests(adapter.GroupsTrainTestSplit(0.4, 1)) == tests(adapter.GroupsTrainTestSplit(0.4, 1))
    assert tests(adapter.GroupsTrainTestSplit(0.4, 1)) != tests(adapter.GroupsTrainTestSplit(0.4, 2))


def test_data_that_cannot_be_split_by_groups_is_told() -> None:
    split = adapter.GroupsTrainTestSplit(0.4, seed=1)
    with pytest.raises(LindleyError, match=r"give lindley.adapters.lir.Table a group_column"):
        list(split.apply(FeatureData(features=DATA.features, source_ids=DATA.source_ids)))
    days = np.where(np.arange(len(DATA)) % 2, "monday", "tuesday")
    with pytest.raises(LindleyError, match=r"source s0 is in group monday and in group tuesday"):
        list(split.apply(DATA.replace(group_ids=days)))
    with pytest.raises(LindleyError, match=r"source s\d+ is in group monday and in group tuesday"):
        list(split.apply(adapter.AllPairs().pair(DATA.replace(group_ids=days), 1, 2)))
    with pytest.raises(LindleyError, match=r"test_size: 20 groups cannot be split so: .*test_size=30"):
        list(adapter.GroupsTrainTestSplit(30).apply(DATA))
    with pytest.raises(LindleyError, match=r"folds: 20 groups do not make 21 folds"):
        list(adapter.GroupsCrossValidation(21).apply(DATA))


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("{strategy: lindley.adapters.lir.GroupsTrainTestSplit, test_size: 0.3, seed: 1}", 1),
        ("{strategy: lindley.adapters.lir.GroupsCrossValidation, folds: 4, random_state: 0}", 4),
    ],
)
def test_splits_from_an_experiment_file(text: str, n: int) -> None:
    strategy = parse_data_strategy(ConfigValue.wrap(["splits"], yaml.safe_load(text)), Path())
    system = adapter.TwoLevelSystem("tlm")
    results = [system.fit(train).apply(test) for train, test in strategy.apply(DATA)]
    assert len(results) == n
    assert all(adapter.cllr(result) < 0.6 for result in results)


@pytest.mark.parametrize("wrong", ["{test_size: 0.3, sed: 1}", "{}", "{test_size: 0.3, folds: 2}"])
def test_a_wrong_split_is_told_with_its_place(wrong: str) -> None:
    content = {"strategy": "lindley.adapters.lir.GroupsTrainTestSplit", **yaml.safe_load(wrong)}
    with pytest.raises(YamlParseError, match=r"splits: unable to initialize .*GroupsTrainTestSplit"):
        parse_data_strategy(ConfigValue.wrap(["splits"], content), Path())


@pytest.mark.parametrize(("n", "same"), [(20, False), (21, True)])
def test_from_two_degrees_of_freedom_per_feature_on_the_numbers_are_lirs(n: int, same: bool) -> None:
    rng = np.random.default_rng(3)
    source = np.repeat(np.arange(40), 4)
    x = 3 * rng.normal(size=(40, 10))[source] + rng.normal(size=(160, 10))
    train, test = (FeatureData(features=x[rows], source_ids=source[rows]) for rows in (source < n, source >= n))
    pairs = adapter.AllPairs().pair(test)
    theirs = TwoLevelModelNormalKDE().fit_on_unpaired_instances(train.features, train.source_ids)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours = adapter.TwoLevelSystem("tlm-kde").fit(train).apply(pairs)
    difference = np.abs(ours.llrs - theirs.transform(pairs.features_trace, pairs.features_ref))
    assert (difference.max() < 1e-8) == same
    assert bool(told) != same


# ── calibration, and mistakes in a file ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["tlm+logistic", "tlm+logistic@cv"])
def test_a_calibration_is_for_the_pairs_that_are_asked_for(model: str) -> None:
    system = adapter.TwoLevelSystem(model, n_trace_instances=3, n_ref_instances=2)
    with pytest.raises(LindleyError, match=r"of 3 trace and 2 ref instances: 0 of the \d+ sources.*ask for fewer"):
        system.fit(in_cars(replicates=2))
    one = adapter.TwoLevelSystem(model).fit(in_cars(replicates=5))
    system.fit(in_cars(replicates=5))
    assert system.system is not None
    assert one.system is not None
    assert system.system.calibration.describe() != one.system.calibration.describe()


def parse(line: str) -> adapter.TwoLevelSystem:
    content = yaml.safe_load(f"architecture: lindley.adapters.lir.two_level\n{line}")
    return parse_lrsystem(ConfigValue.wrap(["lrsystem"], content), Path()).lrsystem


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n_trace_instance: 2", "lrsystem: n_trace_instance: there is no such setting. Did you mean 'n_trace_instances'?"),
        ("preprocesing: standard_scaler", "Did you mean 'preprocessing'?"),
        ("colour: red", "pairing, n_trace_instances, n_ref_instances, preprocessing, postprocessing, intermediate_output"),
        ("epochs: 5", "lrsystem: epochs: it is an option of the model: write it under options, as in 'options: {epochs: 5}'"),
        ("validation: 33", "validation: Input should be less than 1, and not 33: it is a share, such as 0.33"),
        ("calibration: logistics", "calibration.0: Input should be 'logistic', 'kde'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_key_is_told(line: str, message: str) -> None:
    with pytest.raises(YamlParseError) as told:
        parse(line)
    assert message in str(told.value)
    assert told.value.__suppress_context__


def test_one_calibration_needs_no_list() -> None:
    assert str(parse("model: tlm\ncalibration: logistic").choices.name) == "tlm+logistic"


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text("""
output_path: out
experiments:
  - name: typo
    strategy: single_run
    data:
      provider: {method: synthesized_normal_multiclass, seed: 1, population: {size: 20, instances_per_source: 3},
                 dimensions: [{mean: 0, std: 1, error_std: 0.1}]}
      splits: {strategy: train_test_sources, test_size: 0.5, seed: 1}
    lrsystem: {architecture: lindley.adapters.lir.two_level, model: tml}
    output: [{method: metrics, columns: [cllr]}]
""")
    command = [sys.executable, "-m", "lir", "typo.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode
    assert done.stderr.count("Traceback") == 1
    assert "experiments.0.lrsystem: model 'tml': there is no model 'tml'" in done.stderr.splitlines()[-1]

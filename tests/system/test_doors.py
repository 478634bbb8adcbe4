"""Equal parts in, equal LLRs out, whichever door they come through: against numbers from before there was one system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.adapters.sklearn import TwoLevelClassifier
from lindley.experiment.config import Experiment
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.llrs import Floats
from lindley.system.names import ModelName
from lindley.system.system import load
from lindley.system.train import train
from lindley.table.splits import Part, Split, make_split
from lindley.table.table import Table

NUMBERS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("doors.json").read_text())
BEFORE = NUMBERS["run"]
SEED = 3


def make_table() -> Table:
    """Sources whose scatter differs from one to the next."""
    rng = np.random.default_rng(20261116)
    n, k, p = 60, 3, 3
    between = 4 * rng.normal(size=(n, p)) @ np.array([[1, 0.4, 0], [0, 1, 0.3], [0, 0, 0.7]])
    scatter = np.sqrt(1 / rng.gamma(3, 0.5, size=(n, 1, 1)))
    values = np.round(between[:, None] + scatter * rng.normal(size=(n, k, p)), 6)
    source = np.repeat([f"s{i:02d}" for i in range(n)], k)
    return Table.from_arrays(values.reshape(-1, p), source, features=("a", "b", "c"), name="doors")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    content = {
        "name": "doors",
        "data": "doors",
        "protocol": {"splits": 2, "seed": SEED},
        "training": {"epochs": 5},
        "models": list(BEFORE),
    }
    folder = tmp_path_factory.mktemp("doors")
    run_experiment(Experiment.model_validate(content), make_table(), folder).write(folder)
    return SavedRun.open(folder)


@pytest.mark.parametrize("name", BEFORE)
def test_a_run_gives_the_numbers_that_it_always_gave(run: SavedRun, name: str) -> None:
    result, before = run.result(name), BEFORE[name]
    for figure in ("validate_cllr", "test_cllr", "test_cllr_min"):
        np.testing.assert_allclose(getattr(result, figure), before[figure], rtol=1e-6, atol=1e-9, err_msg=figure)
    np.testing.assert_allclose(run.llr(name, 0)[:4, :4], before["llr"], rtol=1e-5, atol=1e-5)
    for now, then in zip(result.calibration, before["calibration"], strict=False):
        assert [step["name"] for step in now] == [step["name"] for step in then]


@pytest.mark.parametrize("name", NUMBERS["train"])
def test_a_training_gives_the_numbers_that_it_always_gave(name: str) -> None:
    """On three instances of every source, where it matters which of them are set beside each other."""
    table = make_table()
    llr = train(table, name, replicates=0, seed=SEED).llr_matrix(table.values[:12:3], table.values[1:12:3] + 0.05)
    np.testing.assert_allclose(llr, NUMBERS["train"][name], rtol=1e-6, atol=1e-6)


def items(part: Part, source: np.ndarray, of_trace: bool) -> list[Floats]:
    return [part.values[(part.source == each) & (part.is_trace == of_trace)] for each in source]


def material(split: Split, name: str) -> Table:
    """What a run of that model learns from, as a table."""
    learn, validate, _ = split.raw
    if ModelName.parse(name).learns_from_all:
        learn = learn.joined(validate)
    return Table.from_arrays(learn.values, learn.source, features=("a", "b", "c"))


@pytest.mark.parametrize("name", BEFORE)
def test_a_saved_run_scores_again(run: SavedRun, name: str) -> None:
    test = run.splits[1].raw[2]
    again = run.system(name, 1).llr_sides(test.trace, test.ref)
    np.testing.assert_allclose(again, run.llr(name, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["tlm", "tlm-kde", "ht-plda", "tlm-bayes", "robust", "quantile:tlm", "yeo-johnson:tlm-kde"]
)
@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")  # of so few sources
def test_every_door_gives_the_same(run: SavedRun, name: str, tmp_path: Path) -> None:
    split = make_split(make_table(), run.experiment.protocol, 0)
    table, test = material(split, name), split.raw[2]
    traces, refs = items(test, test.trace.source, True), items(test, test.ref.source, False)
    through_run = run.system(name, 0).llr_sides(test.trace, test.ref)

    system = train(table, name, replicates=0, seed=SEED)
    classifier = TwoLevelClassifier(name, random_state=SEED).fit(table.values, table.source)
    system.save(tmp_path / "system.safetensors")
    doors = {
        "train": system.llr_matrix(traces, refs),
        "a file": load(tmp_path / "system.safetensors").llr_matrix(traces, refs),
        "one by one": np.array([[system.llr(trace, ref) for ref in refs[:3]] for trace in traces]),
        "a case": np.array([[system.explain(trace, ref).log10_lr for ref in refs[:1]] for trace in traces[:5]]),
        "scikit-learn": classifier.decision_matrix(np.stack(traces), np.stack(refs)),
        "pairs": classifier.decision_function(np.stack([np.concatenate(traces), np.concatenate(refs)], axis=1)),
    }
    for door, llr in doors.items():
        expected = through_run.diagonal() if llr.ndim == 1 else through_run[: llr.shape[0], : llr.shape[1]]
        np.testing.assert_allclose(llr, expected, rtol=1e-6, atol=1e-6, err_msg=door)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    "name", ["tlm+logistic", "tlm-kde+logistic+elub", "quantile:tlm+pav", "robust+kde", "ntlm-single-pairs-n1+logistic"]
)
def test_calibrated_models_are_one_system_too(name: str) -> None:
    table = make_table()
    options = {"epochs": 3} if name.startswith("ntlm") else None
    system = train(table, name, options=options, replicates=0, seed=SEED)
    classifier = TwoLevelClassifier(name, options=options, random_state=SEED).fit(table.values, table.source)
    traces, refs = table.values[::9], table.values[1::9]
    np.testing.assert_allclose(
        system.llr_matrix(traces, refs), classifier.decision_matrix(traces, refs), rtol=1e-10, atol=1e-10
    )
    assert [step["name"] for step in system.calibration.describe()] == list(ModelName.parse(name).calibrations)

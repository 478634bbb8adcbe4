"""An experiment from table to numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lindley.calibration import fit_chain
from lindley.data.simulated import glass_population, simulate_table
from lindley.data.splits import Protocol, make_splits
from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import DataConfig, Experiment, load_experiment
from lindley.experiment.runner import run_experiment
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.two_level import score

MODELS = ("tlm+logistic+elub", "tlm-kde", "tlm", "yeo-johnson:tlm+kde")


def experiment(splits: int = 3, models: tuple[str, ...] = MODELS, seed: int = 4) -> Experiment:
    return Experiment(
        name="test",
        data=DataConfig(data="glass-simulated"),
        protocol=Protocol(splits=splits, seed=seed),
        models=models,
    )


@pytest.fixture(scope="module")
def table() -> Table:
    return simulate_table(glass_population(), 180, 3, seed=1)


def test_results(table: Table, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    results = run_experiment(experiment(), table, lambda doing, done: seen.append((doing, done)))
    path = results.write(tmp_path / "deep" / "folder")
    content = json.loads(path.read_text())
    assert content["schema"] == 1
    assert list(content["models"]) == list(MODELS)
    for model in content["models"].values():
        assert [len(model[part]["cllr"]) for part in ("validate", "test")] == [3, 3]
        assert len(model["test"]["cllr_min"]) == 3
        assert all(
            0 <= low <= high + 1e-12 for low, high in zip(model["test"]["cllr_min"], model["test"]["cllr"], strict=True)
        )
        assert model["seconds"] > 0
    assert len(content["oracle"]["test"]["cllr"]) == 3
    assert content["data"]["sha256"] == table.sha256()
    assert content["data"]["sources"] == 180
    assert content["protocol"] == {
        "splits": 3, "replicates": 2, "trace_instances": 1, "shares": [1.0, 1.0, 1.0], "seed": 4,
    }  # fmt: skip
    assert seen[-1] == ("done", 1.0)
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert list(path.parent.iterdir()) == [path]  # nothing half-written is left


def test_numbers_equal_the_parts_put_together_by_hand(table: Table) -> None:
    results = run_experiment(experiment(splits=2), table)
    for split in make_splits(table, Protocol(splits=2, seed=4)):
        model = fit_classical([split.train], "normal")
        validate, test = (
            LLRs.from_matrix(score(model, [part.trace], [part.ref])[0], part.trace.source, part.ref.source)
            for part in (split.validate, split.test)
        )
        calibrated = test.map(fit_chain(["logistic", "elub"], validate))
        assert results.models["tlm"].test_cllr[split.index] == pytest.approx(cllr(test), rel=1e-9)
        assert results.models["tlm"].test_cllr_min[split.index] == pytest.approx(cllr_min(test), rel=1e-9)
        assert results.models["tlm"].validate_cllr[split.index] == pytest.approx(cllr(validate), rel=1e-9)
        ours = results.models["tlm+logistic+elub"].test_cllr[split.index]
        assert ours == pytest.approx(cllr(calibrated), rel=1e-6)


def test_repeatable_and_comparable(table: Table) -> None:
    """The same again is the same to the bit; other models or fewer splits leave a model's numbers as they are."""
    full = run_experiment(experiment(), table)
    again = run_experiment(experiment(), table)
    fewer = run_experiment(experiment(splits=1, models=("tlm", "tlm-kde")), table)
    for name in MODELS:
        assert full.models[name].test_cllr == again.models[name].test_cllr
    for name in ("tlm", "tlm-kde"):
        np.testing.assert_allclose(fewer.models[name].test_cllr, full.models[name].test_cllr[:1], rtol=1e-10)
    assert full.oracle_cllr is not None
    assert fewer.oracle_cllr is not None
    assert fewer.oracle_cllr[0] == pytest.approx(full.oracle_cllr[0], rel=1e-10)


def test_real_tables_have_no_oracle(table: Table) -> None:
    renamed = Table.from_arrays(table.values, table.source, name="mine")
    results = run_experiment(experiment(splits=1, models=("tlm",)), renamed)
    assert results.oracle_cllr is None
    assert "oracle" not in results.to_json()
    assert len(results.rows()) == 1


def test_groups_and_unequal_replicates(table: Table) -> None:
    keep = np.ones(len(table.values), dtype=bool)
    keep[1::9] = False  # every third source loses an instance
    keep[:2] = False  # and the first one has a single one left
    group = np.array([f"g{int(s[1:]) // 3}" for s in table.source])
    ragged = Table.from_arrays(table.values[keep], table.source[keep], group[keep])
    results = run_experiment(experiment(splits=4, models=("tlm", "tlm-kde+logistic")), ragged)
    assert all(np.isfinite(results.models["tlm"].test_cllr))


def test_anchor_figures_on_real_glass(data_folder: Path) -> None:
    """The paper's protocol on 976 sources of NFI glass: within noise of what others measured."""
    models = ("tlm", "tlm+logistic", "tlm+logistic+elub")
    chosen = load_experiment(
        "demo",
        {"data": {"data": "nfi-glass"}, "protocol": {"splits": 21}, "experiment": {"models": models}},
    )
    results = run_experiment(chosen, chosen.data.load()).models
    mean = {name: float(np.mean(results[name].test_cllr)) for name in models}
    assert 0.10 < mean["tlm"] < 0.33  # 0.196 ± 0.066 in one set of splits, 0.258 ± 0.093 in another
    assert 0.035 < mean["tlm+logistic"] < 0.055  # 0.043 ± 0.008
    assert 0.037 < mean["tlm+logistic+elub"] < 0.047  # 0.041 ± 0.004
    assert 0.018 < float(np.mean(results["tlm"].test_cllr_min)) < 0.030  # 0.022


class TestConfig:
    def test_built_in(self) -> None:
        demo = load_experiment("demo")
        assert demo.name == "demo"
        assert demo.data.data == "glass-simulated"
        assert "tlm+logistic" in demo.models

    def test_own_file_and_overrides(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "data: {data: t.csv, source_column: pane}\nprotocol: {splits: 2, shares: [2, 1, 1]}\nmodels: [tlm]\n"
        )
        mine = load_experiment(str(path), {"protocol": {"seed": 9}})
        assert (mine.name, mine.protocol.splits, mine.protocol.seed) == ("mine", 2, 9)
        assert mine.protocol.shares == (2.0, 1.0, 1.0)
        assert mine.data.source_column == "pane"
        assert load_experiment(str(path), {"data": {"data": "u.csv"}}).data.source_column is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("models: [tlm]\n", "data"),
            ("data: {data: a.csv}\nmodels: [tlm]\nmodel: x\n", "model"),
            ("data: {data: a.csv, colour: red}\nmodels: [tlm]\n", "data.colour"),
            ("data: {data: a.csv}\nprotocol: {split: 3}\nmodels: [tlm]\n", "protocol.split"),
            ("data: {data: a.csv}\nprotocol: {splits: many}\nmodels: [tlm]\n", "protocol.splits"),
            ("data: {data: a.csv}\nprotocol: {splits: 0}\nmodels: [tlm]\n", "splits must be 1 or more"),
            ("data: [unclosed\n", "is not YAML"),
            ("just text\n", "must hold the keys"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(LindleyError, match=message):
            load_experiment(str(path))

    def test_unknown_experiment(self) -> None:
        with pytest.raises(LindleyError, match="there is no experiment 'papre'"):
            load_experiment("papre")

    def test_named_data_knows_its_columns(self) -> None:
        config = DataConfig(data="glass-simulated", source_column="pane")
        with pytest.raises(LindleyError, match="leave out --source-column"):
            config.load()

"""A model by its name, fitted on a table that is not split: what is kept from it, what it is calibrated on, plain errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lindley
from lindley.calibration import CALIBRATIONS
from lindley.errors import LindleyError
from lindley.experiment.config import Experiment, ModelConfig
from lindley.experiment.work import make_units, unit_keys
from lindley.models.classical import fit_classical
from lindley.models.two_level import score
from lindley.system.fit import Settings, cross_fitted
from lindley.system.kinds import KINDS
from lindley.system.names import ModelName, known_names
from lindley.system.system import System
from lindley.system.train import Trained, fit_table, train
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, Side, make_split
from lindley.table.table import Table

pytestmark = pytest.mark.usefixtures("short_search")
FEATURES = 3
NAMES = [name for name, _ in known_names()]


def instances(n: int = 60, replicates: int = 4, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), replicates)
    values = 4 * rng.normal(size=(n, FEATURES))[source] + rng.normal(size=(len(source), FEATURES))
    return Table.from_arrays(values, [f"{k:03d}" for k in source], name="instances")


def fitted(model: str, table: Table | None = None, **settings: object) -> Trained:
    name = ModelName.parse(model)
    short = Settings(training=(("epochs", 2),))
    return fit_table(instances() if table is None else table, name, settings=short, **settings)  # type: ignore[arg-type]


def kept_sources(table: Table, trained: Trained) -> set[str]:
    return set(table.source[trained.kept].tolist())


@pytest.mark.parametrize("name", NAMES)
def test_every_model_fits_scores_and_travels(name: str) -> None:
    options = {"epochs": 2} if "epochs" in ModelName.parse(name).kind.options.model_fields else {}
    system = fit_table(instances(), ModelName.of(name, options=options)).stage.system
    x = instances(10, seed=1).values
    trace, ref = x[:20, None], x[20:40].reshape(20, 1, -1)
    llr = system.llr_pairs(trace, ref)
    assert llr.shape == (20,)
    assert np.isfinite(llr).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(system)).llr_pairs(trace, ref), llr)
    np.testing.assert_array_equal(System.from_bytes(system.to_bytes(), "it").llr_pairs(trace, ref), llr)
    same = np.arange(20)
    sides = [Side(side[:, 0], same, same.astype(str)) for side in (trace, ref)]
    np.testing.assert_allclose(system.llr_sides(*sides).diagonal(), llr, rtol=1e-9, atol=1e-9)
    assert repr(system).startswith(f"<System {name}")


@pytest.mark.parametrize(
    "name",
    [
        "quantile:tlm",
        "yeo-johnson:tlm-kde+logistic",
        "tlm+kde",
        "tlm+pav+elub",
        "tlm+iv@cv",
        "robust+logistic",
        "flow:tlm",
    ],
)
def test_transforms_and_calibrations_travel(name: str) -> None:
    system = fitted(name).stage.system
    x = instances(10, seed=1).values
    trace, ref = x[:20, None], x[20:40, None]
    llr = system.llr_pairs(trace, ref)
    for again in (pickle.loads(pickle.dumps(system)), System.from_bytes(system.to_bytes(), "it")):
        np.testing.assert_array_equal(again.llr_pairs(trace, ref), llr)
    assert not any(np.array_equal(instances().values, part) for part in vars(system).values()), "training data travel"


@pytest.mark.parametrize(("name", "between"), [("tlm", "normal"), ("tlm-kde", "kernel")])
def test_a_classical_model_is_the_plain_fit(name: str, between: str) -> None:
    split = make_split(instances(90), Protocol(splits=1, replicates=3), 0)
    learn, _, test = split.raw
    trained = fitted(name, Table.from_arrays(learn.values, learn.source))
    assert not trained.kept.any()
    expected = score(fit_classical([split.train], between), [split.test.trace], [split.test.ref])[0]  # type: ignore[arg-type]
    np.testing.assert_allclose(trained.stage.system.llr_sides(test.trace, test.ref), expected, rtol=1e-9, atol=1e-9)


def test_a_network_is_kept_from_some_sources_and_other_models_from_none() -> None:
    table = instances()
    for model, settings, kept in [
        ("tlm", {}, 0),
        ("tlm", {"keep": True}, 20),
        ("tlm", {"keep": True, "validation": 0.0}, 0),
        ("tlm+logistic", {"validation": 0.5}, 0),
        ("tlm+logistic@cv", {}, 0),
        ("ntlm-single-pairs-n1", {}, 20),
        ("ntlm-single-pairs-n1+logistic", {"validation": 0.5}, 30),
    ]:
        trained = fitted(model, **settings)  # type: ignore[arg-type]
        seen = kept_sources(table, trained)
        assert len(seen) == kept
        assert not seen & set(table.source[~trained.kept].tolist())


def test_groups_stay_together() -> None:
    table = instances()
    table = replace(table, group=np.array([str(int(s) // 3) for s in table.source]))
    kept = fitted("ntlm-single-pairs-n1", table).kept
    assert not set(table.group[kept].tolist()) & set(table.group[~kept].tolist())


def test_the_seed_decides_and_the_order_of_sources_does_not() -> None:
    table = instances()
    order = np.argsort(-np.array(table.source, dtype=int), kind="stable")
    backwards = Table.from_arrays(table.values[order], table.source[order])
    once, again = (fitted("tlm+logistic", each).stage.system.calibration.describe() for each in (table, backwards))
    assert [step.pop("name") for step in once] == [step.pop("name") for step in again]
    for here, there in zip(once, again, strict=True):
        np.testing.assert_allclose(list(here.values()), list(there.values()), rtol=1e-8)  # type: ignore[arg-type]
    assert fitted("tlm+logistic", seed=1).stage.system.calibration.describe() != once
    kept = [kept_sources(table, fitted("ntlm-single-pairs-n1", seed=seed)) for seed in (0, 0, 1)]
    assert kept[0] == kept[1] != kept[2]


def test_replicates_do_not_change_the_system() -> None:
    """Every purpose has random numbers of its own: the LR of a case does not depend on how many replicates there are."""
    trace, ref = instances(2, seed=3).values[:2], instances(2, seed=3).values[2:4]
    for model, numbers in (("tlm+logistic", (0, 2, 5)), ("robust+logistic", (0, 3))):
        llrs = [train(instances(), model, replicates=n).llr(trace, ref) for n in numbers]
        np.testing.assert_allclose(llrs, llrs[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "step"),
    [*(("tlm", step) for step in CALIBRATIONS), ("robust", "pav"), ("ntlm-single-pairs-n1", "pav")],
)
def test_replicates_have_a_calibration_of_their_own(model: str, step: str) -> None:
    options = {"epochs": 5} if model.startswith("ntlm") else None
    system = train(instances(), f"{model}+{step}", options=options, replicates=4)
    assert len({tuple(chain.describe()[0].values()) for chain in system.calibrations}) > 2
    assert {chain.names for chain in system.calibrations} == {(step,)}


@pytest.mark.parametrize("step", ["pav", "elub", "iv"])
def test_the_interval_of_an_lr_at_the_end_of_its_calibration_has_a_width(step: str) -> None:
    """The calibrated LR is the outermost that the pairs support, which depends on the sources that there happened to be."""
    table = instances(90, 4)
    system = train(table, f"tlm+{step}", replicates=20)
    middle, apart = table.values.mean(axis=0), 3 * table.values.std(axis=0)
    interval = system.explain([middle - apart], [middle + apart]).interval
    assert interval is not None
    assert interval.upper - interval.lower > 0.02
    assert interval.lower <= system.llr([middle - apart], [middle + apart]) <= interval.upper


@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")  # of so few sources
def test_too_few_sources_for_replicates_with_a_calibration_are_told() -> None:
    table = instances(10, 2)
    train(table, "tlm+logistic", replicates=0)
    few = Table.from_arrays(table.values[:15], [*table.source[:10], "5", "6", "7", "8", "9"])
    with pytest.raises(LindleyError, match=r"half of the sources.*replicates=0"):
        train(few, "tlm+logistic", replicates=12)


def test_the_steps_of_a_name_are_those_of_the_chain() -> None:
    chain = fitted("tlm+logistic+elub", instances=(2, 2)).stage.system.calibration
    assert chain.names == ("logistic", "elub")
    assert {type(step) for step in chain.steps} == {CALIBRATIONS["logistic"], CALIBRATIONS["elub"]}


@pytest.mark.parametrize("model", ["tlm+logistic", "ntlm-single-pairs-n1+logistic"])
def test_calibration_pairs_have_the_shape_that_is_asked_for(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(model: object, traces: list[Side], refs: list[Side]) -> object:
        seen.append((traces[0].count, refs[0].count))
        return score(model, traces, refs)  # type: ignore[arg-type]

    monkeypatch.setattr("lindley.system.fit.score", spy)
    table = instances(60, replicates=5)
    number = np.array(table.source, dtype=int)
    keep = (number % 3 > 0) | (np.arange(len(number)) % 5 < 3)
    few = Table.from_arrays(table.values[keep], table.source[keep], group=(number // 2)[keep])
    fitted(model, few, instances=(2, 3))
    assert seen
    for trace, ref in seen:
        assert set(trace.tolist()) == {2}
        assert set(ref.tolist()) == {3}
        assert len(trace) == len(ref)


def test_a_cross_fit_learns_from_sources_that_are_too_small_to_calibrate_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = instances(60, replicates=3)
    number = np.array(table.source, dtype=int)
    keep = (number % 2 == 0) | (np.arange(len(number)) % 3 == 0)
    some = Table.from_arrays(table.values[keep], table.source[keep], group=(number // 4)[keep])
    calls: list[tuple[Part, list[Callable[[], Part]]]] = []
    monkeypatch.setattr(
        "lindley.system.fit.cross_fitted",
        lambda everything, pairs, learn, rng: (
            calls.append((everything, pairs)), cross_fitted(everything, pairs, learn, rng)
        )[1],
    )  # fmt: skip
    fitted("tlm+logistic", some, instances=(1, 2))
    everything, (pairs,) = calls[0]
    assert set(everything.source.tolist()) == set(table.source.tolist())
    assert set(pairs().source.tolist()) == {f"{k:03d}" for k in range(0, 60, 2)}


def test_too_little_data_is_told_plainly() -> None:
    table = instances(4)
    for n, verb in ((3, "are"), (1, "is")):
        few = Table.from_arrays(table.values[: 4 * n], table.source[: 4 * n])
        with pytest.raises(
            LindleyError, match=rf"4 sources .* at least are needed, .* and there {verb} {n}: give more"
        ):
            fitted("ntlm-single-pairs-n1", few)
    with pytest.raises(LindleyError, match=r"of 10 sources .* a share of 0.9 leaves 1 to fit on"):
        fitted("ntlm-single-pairs-n1", instances(10), validation=0.9)
    with pytest.raises(LindleyError, match="needs at least two sources, one of them measured twice"):
        fitted("tlm", Table.from_arrays(table.values, np.arange(16)))
    with pytest.raises(LindleyError, match=r"of 3 trace and 2 ref instances: 0 of the 4 sources have 5 instances"):
        fitted("tlm+logistic", table, instances=(3, 2))
    system = fitted("tlm").stage.system
    with pytest.raises(LindleyError, match=r"this one is \(5, 2\)"):
        system.llr_pairs(np.zeros((5, 2)), np.zeros((5, 2)))
    with pytest.raises(LindleyError, match="5 traces and 4 refs"):
        system.llr_pairs(np.zeros((5, 1, 3)), np.zeros((4, 1, 3)))
    assert system.llr_pairs(np.zeros((0, 1, 3)), np.zeros((0, 1, 3))).shape == (0,)
    with pytest.raises(LindleyError, match="was not trained for casework"):
        _ = system.bounds


def test_features_are_called_by_their_names() -> None:
    table = instances()
    values = table.values.copy()
    values[:, 1] = 3.0
    with pytest.raises(LindleyError, match="'element B'"):
        fitted("tlm", replace(table, values=values, features=("element A", "element B", "element C")))


def glass(sources: int = 60, seed: int = 1, features: int = 4) -> Table:
    whole = simulate_table(glass_population(), sources, 3, seed=seed)
    return Table.from_arrays(whole.values[:, :features], whole.source, features=whole.features[:features])


def write(path: Path, of: Table) -> str:
    rows = [",".join(["source", *of.features])]
    rows += [",".join([s, *(repr(float(v)) for v in row)]) for s, row in zip(of.source, of.values, strict=True)]
    path.write_text("\n".join(rows), "utf-8")
    return str(path)


def scores(model: str, **options: object) -> np.ndarray:
    name = ModelName.of(model, options=options)
    system = fit_table(glass(), name, settings=Settings(training=(("epochs", 3),))).stage.system
    return system.llr_matrix(glass(8, seed=4).values, glass(8, seed=5).values)


@pytest.mark.parametrize("base", ["robust", "ntlm-single-pairs-n1"])
def test_pretraining_starts_elsewhere(base: str, tmp_path: Path) -> None:
    other = glass(50, seed=7, features=6)  # more features than the data has: the neural model takes those that it needs
    plain, after = scores(base), scores(base, pretrain=write(tmp_path / "other.csv", other))
    assert np.isfinite(after).all()
    assert np.abs(after - plain).max() > 1e-6


def test_pretraining_that_cannot_be_is_told(tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", glass(30, features=3))
    with pytest.raises(LindleyError, match=r"few does not have the features .*robust on any table"):
        scores("ntlm-single-pairs-n1", pretrain=few)
    assert np.isfinite(scores("robust", pretrain=few)).all()


def test_a_unit_knows_what_it_was_pretrained_on(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"

    def key() -> str:
        config = ModelConfig(model="robust", options={"pretrain": str(path)})
        experiment = Experiment(name="it", data=DataConfig(data="glass-simulated"), models=(config,))
        return next(iter(unit_keys(make_units(experiment), experiment, "0").values()))

    write(path, glass(30))
    before = key()
    assert key() == before
    write(path, glass(30, seed=2))
    assert key() != before


@pytest.mark.parametrize(
    "model",
    [*(name for name, kind in KINDS.items() if "parts" in kind.can), "quantile:tlm", "yeo-johnson:tlm-kde+logistic"],
)
def test_every_kind_makes_a_system_for_cases(model: str, tmp_path: Path) -> None:
    data = glass(40)
    options = {"epochs": 2} if "epochs" in ModelName.parse(model).kind.options.model_fields else None
    system = train(data, model, options=options, replicates=2)
    system.save(tmp_path / "it.safetensors")
    again = lindley.load(tmp_path / "it.safetensors")
    trace, ref = data.values[:1], data.values[1:3]
    said = again.explain(trace, ref)
    assert said.log10_lr == pytest.approx(system.explain(trace, ref).log10_lr, abs=1e-9)
    assert np.isfinite(said.log10_lr)
    assert said.interval is not None
    np.testing.assert_allclose(sum(share.log10_lr for share in said.features), said.log10_lr_model, atol=1e-9)
    np.testing.assert_allclose(said.log10_similarity - said.log10_typicality, said.log10_lr_model, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "message"),
    [("nplda", "no similarity and no typicality to report"), ("flow:tlm", "bends all features together")],
)
def test_what_cannot_be_explained_is_not_made_into_a_system(model: str, message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        train(glass(40), model)

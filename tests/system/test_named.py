"""Any model by its name, fitted on instances and sources: the same numbers as an experiment's, and plain errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from lindley.calibration import CALIBRATIONS
from lindley.errors import LindleyError
from lindley.models.classical import fit_classical
from lindley.models.two_level import score
from lindley.system.named import FittedModel, ModelChoices, _complete, _on_all_others, draw_part, fit_model
from lindley.system.names import BASES, NEURAL, ModelName
from lindley.table.splits import Part, Protocol, Side, make_split
from lindley.table.table import Table

FEATURES = 3


def instances(n: int = 60, replicates: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), replicates)
    return 4 * rng.normal(size=(n, FEATURES))[source] + rng.normal(size=(len(source), FEATURES)), source


def fitted(model: str, **choices: object) -> FittedModel:
    if ModelName.parse(model).root.base in NEURAL:
        choices.setdefault("options", {"epochs": 2})
    return fit_model(*instances(), ModelChoices.read({"model": model, **choices}))


@pytest.mark.parametrize("base", BASES)
def test_every_model_fits_scores_and_travels(base: str) -> None:
    model = fitted(base)
    x, _ = instances(10, seed=1)
    trace, ref = x[:20, None], x[20:40].reshape(20, 1, -1)
    llr = model.llr_pairs(trace, ref)
    assert llr.shape == (20,)
    assert np.isfinite(llr).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.llr_pairs(trace, ref), llr)
    same = np.arange(20)
    sides = [Side(side[:, 0], same, same.astype(str)) for side in (trace, ref)]
    np.testing.assert_allclose(model.llr_matrix(*sides).diagonal(), llr, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["quantile:tlm", "yeo-johnson:tlm-kde+logistic", "tlm+kde", "tlm+pav+elub", "tlm+iv@cv", "robust+logistic"]
)
def test_transforms_and_calibrations_travel(name: str) -> None:
    model = fitted(name)
    x, _ = instances(10, seed=1)
    trace, ref = x[:20, None], x[20:40, None]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).llr_pairs(trace, ref), model.llr_pairs(trace, ref))


@pytest.mark.parametrize(("name", "between"), [("tlm", "normal"), ("tlm-kde", "kernel")])
def test_a_classical_model_is_that_of_an_experiment(name: str, between: str) -> None:
    split = make_split(Table.from_arrays(*instances(90)), Protocol(splits=1, replicates=3), 0)
    model = fit_model(split.train.values, split.train.source, ModelChoices.read({"model": name}))
    assert len(model.sources) == len(np.unique(split.train.source))
    assert not model.validation_sources.size
    test = split.test
    expected = score(fit_classical([split.train], between), [test.trace], [test.ref])[0]  # type: ignore[arg-type]
    np.testing.assert_allclose(model.llr_matrix(test.trace, test.ref), expected, rtol=1e-9, atol=1e-9)


def test_what_needs_unseen_sources_gets_its_share() -> None:
    x, source = instances()
    for choices, hold_out, kept in [
        ({"model": "tlm"}, False, 0),
        ({"model": "tlm"}, True, 20),
        ({"model": "tlm", "validation": 0}, True, 0),
        ({"model": "tlm+logistic", "validation": 0.5}, False, 30),
        ({"model": "tlm+logistic@cv", "validation": 0}, False, 0),
        ({"model": "ntlm-single-pairs-n1", "options": {"epochs": 1}}, False, 20),
    ]:
        model = fit_model(x, source, ModelChoices.read(choices), hold_out=hold_out)
        assert len(model.validation_sources) == kept
        assert len(model.sources) == 60 - kept
        assert not set(model.sources.tolist()) & set(model.validation_sources.tolist())


def test_groups_stay_together() -> None:
    x, source = instances()
    group = source // 3
    model = fit_model(x, source, ModelChoices.read({"model": "tlm+logistic"}), group=group)
    assert not {s // 3 for s in model.sources.tolist()} & {s // 3 for s in model.validation_sources.tolist()}


def test_the_seed_decides_and_the_order_of_sources_does_not() -> None:
    x, source = instances()
    choices = ModelChoices.read({"model": "tlm+logistic"})
    model = fit_model(x, source, choices)
    backwards = np.argsort(-source, kind="stable")
    again = fit_model(x[backwards], source[backwards], choices)
    np.testing.assert_array_equal(again.validation_sources, model.validation_sources)
    other = fit_model(x, source, ModelChoices.read({"model": "tlm+logistic", "seed": 1}))
    assert other.validation_sources.tolist() != model.validation_sources.tolist()


def test_a_calibration_is_fitted_on_pairs_of_unseen_sources() -> None:
    x, source = instances()
    model = fit_model(x, source, ModelChoices.read({"model": "tlm+logistic+elub"}), n_trace=2, n_ref=2)
    assert model.calibration.names == ("logistic", "elub")
    assert {type(step) for step in model.calibration.steps} == {CALIBRATIONS["logistic"], CALIBRATIONS["elub"]}


@pytest.mark.parametrize("model", ["tlm+logistic", "tlm+logistic@cv"])
def test_a_calibration_leaves_out_sources_with_too_few_instances(model: str) -> None:
    """Pairs of 3 against 2: sources of two instances take no part, and without others there is no calibration."""
    choices = ModelChoices.read({"model": model})
    x, source = instances(60, replicates=5)
    short = (source % 2 == 1) & (np.arange(len(x)) % 5 > 1)  # every other source has two instances
    some = fit_model(x[~short], source[~short], choices, n_trace=3, n_ref=2)
    smaller = fit_model(x[~short], source[~short], choices)
    assert some.calibration.describe() != smaller.calibration.describe()
    assert len(some.sources) == len(smaller.sources)
    two = np.arange(len(x)) % 5 < 2
    with pytest.raises(LindleyError, match=r"of 3 trace and 2 ref instances: 0 of the \d+ sources.* have 5 instances"):
        fit_model(x[two], source[two], choices, n_trace=3, n_ref=2)


def test_calibration_pairs_have_the_shape_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(model: object, traces: list[Side], refs: list[Side]) -> object:
        seen.append((traces[0].count, refs[0].count))
        return score(model, traces, refs)  # type: ignore[arg-type]

    for module in ("named", "held_out"):
        monkeypatch.setattr(f"lindley.system.{module}.score", spy)
    x, source = instances(60, replicates=5)
    keep = (source % 3 > 0) | (np.arange(len(x)) % 5 < 3)
    for model in ("tlm+logistic", "tlm+logistic@cv"):
        fit_model(
            x[keep], source[keep], ModelChoices.read({"model": model}), n_trace=2, n_ref=3, group=source[keep] // 2
        )
    assert seen
    for trace, ref in seen:
        assert set(trace.tolist()) == {2}
        assert set(ref.tolist()) == {3}
        assert len(trace) == len(ref)


def test_a_cross_fit_learns_from_sources_that_are_too_small_to_calibrate_on() -> None:
    x, source = instances(60, replicates=3)
    keep = (source % 2 == 0) | (np.arange(len(x)) % 3 == 0)
    x, source = x[keep], source[keep]
    part = draw_part(x, source.astype(str), (source // 4).astype(str), None, 1, 2)
    some = _complete(part, (1, 2), "sources")
    assert set(some.source.tolist()) == {str(k) for k in range(0, 60, 2)}
    learnt: list[Part] = []
    fit = _on_all_others(lambda rest: learnt.append(rest), some, part)  # type: ignore[arg-type, func-returns-value]
    held_out = np.isin(some.group, ["0", "7"])
    fit(Part(some.values[~held_out], some.source[~held_out], some.is_trace[~held_out], some.group[~held_out]))
    assert set(learnt[0].source.tolist()) == {str(k) for k in range(60) if k // 4 not in (0, 7)}


def test_a_part_keeps_an_instance_for_the_ref() -> None:
    source = np.array(["a", "a", "a", "a", "b", "b", "c"])
    values = np.arange(7.0)[:, None]
    part = draw_part(values, source, None, None, 2, 1)
    assert part.values[:, 0].tolist() == [0, 1, 2, 4, 5, 6]
    assert part.trace.count.tolist() == [2, 1, 1]
    assert part.ref.source.tolist() == ["a", "b"]
    everything = draw_part(values, source, source, np.random.default_rng(0), 1)
    assert sorted(everything.values[:, 0]) == sorted(values[:, 0])
    assert everything.group is not None
    np.testing.assert_array_equal(everything.group, everything.source)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"model": "tml"}, "there is no model 'tml'. Did you mean 'tlm'"),
        ({"model": "tlm", "colour": 5}, "colour: there is no such setting; there are model, integration"),
        ({"model": "tlm", "validaton": 0.2}, "validaton: there is no such setting. Did you mean 'validation'? There are"),
        ({"model": "tlm", "epochs": 5}, "epochs: it is an option of the model: write it under options, as in 'options: {epo"),
        ({"model": "ntlm-single-pairs-n1", "options": {"epoch": 5}}, "options.epoch: there is no such setting. Did you mean"),
        ({"model": "tlm", "options": {"epochs": 5}}, "options (epochs) are for neural models"),
        ({"model": "ntlm-single-pairs-n1", "options": {"epochs": 0}}, "options.epochs: Input should be greater"),
        ({"model": "tlm", "validation": 33}, "validation: Input should be less than 1, and not 33: it is a share, such as"),
        ({"model": "tlm", "calibration": 5}, "it is a list, as in [logistic, elub]"),
        ({"model": "tlm", "options": "fast"}, "not 'fast': write them as in {epochs: 500, learning_rate: 0.003}"),
        ({"model": "tlm+logistic", "validation": 0}, "needs sources that it has not seen"),
        ({"model": "tlm", "label": "mine"}, "a label is for the models of an experiment"),
        ({"model": "tlm", "seed": -1}, "seed: Input should be greater"),
    ],
)  # fmt: skip
def test_wrong_choices_are_told_plainly(choices: dict[str, object], message: str) -> None:
    with pytest.raises(LindleyError) as told:
        ModelChoices.read(choices)
    assert message in str(told.value)
    assert told.value.__suppress_context__


def test_one_calibration_needs_no_list() -> None:
    assert str(ModelChoices.read({"model": "tlm", "calibration": "logistic"}).name) == "tlm+logistic"
    assert str(ModelChoices.read({"model": "tlm", "calibration": ["kde", "elub"]}).name) == "tlm+kde+elub"


def test_settings_of_the_caller_are_named_too() -> None:
    with pytest.raises(LindleyError, match=r"Did you mean 'n_trace_instances'\? There are model.*device, n_trace_inst"):
        ModelChoices.read({"n_trace_instance": 2}, beside=("n_trace_instances", "pairing"))


def test_too_little_data_is_told_plainly() -> None:
    x, source = instances(4)
    for n, verb in ((3, "are"), (1, "is")):
        with pytest.raises(
            LindleyError, match=rf"4 sources .* at least are needed, .* and there {verb} {n}: give more"
        ):
            fit_model(x[: 4 * n], source[: 4 * n], ModelChoices.read({"model": "tlm+logistic"}))
    with pytest.raises(LindleyError, match=r"of 10 sources .* a share of 0.9 leaves 1 to fit on"):
        fit_model(*instances(10), ModelChoices.read({"model": "tlm+logistic", "validation": 0.9}))
    with pytest.raises(LindleyError, match="needs at least two sources, one of them measured twice"):
        fit_model(x, np.arange(len(x)), ModelChoices.read({"model": "tlm"}))
    single = np.arange(len(x))
    single[:2] = 0
    with pytest.raises(LindleyError, match=r"have 2 instances, and two such|one of them measured twice"):
        fit_model(x, single, ModelChoices.read({"model": "tlm+logistic"}))
    with pytest.raises(LindleyError, match=r"row 2 of 16 is not"):
        fit_model(np.where(np.arange(16)[:, None] == 1, np.nan, x), source, ModelChoices.read({"model": "tlm"}))
    with pytest.raises(LindleyError, match=r"the shape is \(48,\)"):
        fit_model(x.reshape(-1), source, ModelChoices.read({"model": "tlm"}))
    model = fitted("tlm")
    with pytest.raises(LindleyError, match=r"this one is \(5, 2\)"):
        model.llr_pairs(np.zeros((5, 2)), np.zeros((5, 2)))
    with pytest.raises(LindleyError, match="5 traces and 4 refs"):
        model.llr_pairs(np.zeros((5, 1, 3)), np.zeros((4, 1, 3)))
    assert model.llr_pairs(np.zeros((0, 1, 3)), np.zeros((0, 1, 3))).shape == (0,)


def test_features_are_called_by_their_names() -> None:
    values, source = instances()
    values[:, 1] = 3.0
    names = [f"element {k}" for k in "ABCDEFGHIJKL"[: values.shape[1]]]
    choices = ModelChoices.read({"model": "tlm"})
    with pytest.raises(LindleyError, match="'element B'"):
        fit_model(values, source, choices, features=names)
    with pytest.raises(LindleyError, match="'feature 2'"):
        fit_model(values, source, choices)

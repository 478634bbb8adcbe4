"""The scikit-learn estimator: its conventions, its numbers, and scikit-learn's own checks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lindley
from lindley.adapters.sklearn import TwoLevelClassifier
from lindley.evaluation import cllr
from lindley.llrs import LLRs

NOT_APPLICABLE = {
    "check_methods_sample_order_invariance": "rows are the two sides of pairs: another order makes other pairs",
    "check_methods_subset_invariance": "it asks for one row, and a pair has two",
    "check_dataframe_column_names_consistency": "columns in another order are to be refused, and here they count by name",
}
"""Of scikit-learn's checks of any estimator. Those of classifiers are not run, as the estimator does not say that it is one:
they ask it to recognise the classes of training in new rows, and it compares rows of any sources. Other models need
more sources than the two or three that the data of the checks have."""


@parametrize_with_checks(
    [TwoLevelClassifier("tlm"), TwoLevelClassifier("tlm-kde")], expected_failed_checks=lambda _: NOT_APPLICABLE
)
@pytest.mark.filterwarnings(
    "ignore::lindley.models.classical.ShrinkageWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def instances(n: int = 80, replicates: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = np.repeat([f"source {k}" for k in range(n)], replicates)
    means = np.repeat(4 * rng.normal(size=(n, 3)), replicates, axis=0)
    return means + rng.normal(size=means.shape), source


@pytest.fixture(scope="module")
def fitted() -> TwoLevelClassifier:
    return TwoLevelClassifier("tlm").fit(*instances())


def pairs(n: int = 20) -> np.ndarray:
    x, _ = instances(n, seed=1)
    return np.concatenate([x.reshape(n, 4, 3)[:, :2], np.stack([x[::4], x[3::-1].repeat(5, axis=0)[:n]], axis=1)])


def test_it_is_at_the_top_of_the_package():
    assert lindley.TwoLevelClassifier is TwoLevelClassifier
    assert "TwoLevelClassifier" in dir(lindley)


def test_pairs_come_in_two_forms(fitted):
    some = pairs()
    llr = fitted.decision_function(some)
    assert llr.shape == (40,)
    assert np.median(llr[:20]) > 0 > np.median(llr[20:])
    np.testing.assert_array_equal(fitted.decision_function(some.reshape(-1, 3)), llr)
    np.testing.assert_allclose(fitted.decision_matrix(some[:, 0], some[:, 1]).diagonal(), llr, atol=1e-9)


def test_several_instances_a_side():
    classifier = TwoLevelClassifier("tlm", n_trace_instances=1, n_ref_instances=3).fit(*instances())
    x, _ = instances(20, seed=1)
    four = x.reshape(20, 4, 3)
    llr = classifier.decision_function(four)
    np.testing.assert_array_equal(classifier.decision_function(x), llr)
    np.testing.assert_allclose(classifier.decision_matrix(four[:, :1], four[:, 1:]).diagonal(), llr, atol=1e-9)
    with pytest.raises(ValueError, match="4 rows make a pair, 1 of the trace and 3 of the ref, and there are 6 rows"):
        classifier.decision_function(x[:6])
    with pytest.raises(ValueError, match=r"an array \(pairs, 4, features\) is needed, and not \(1, 2, 3\)"):
        classifier.decision_function(x[None, :2])


def test_a_pipeline_with_a_scaler_in_front_changes_nothing(fitted):
    pipeline = make_pipeline(StandardScaler(), TwoLevelClassifier("tlm")).fit(*instances())
    rows = pairs().reshape(-1, 3)
    np.testing.assert_allclose(pipeline.decision_function(rows), fitted.decision_function(rows), rtol=1e-8, atol=1e-8)
    assert pipeline.predict_proba(rows).shape == (40, 2)


def test_probabilities_follow_the_prior(fitted):
    some = pairs()
    llr = fitted.decision_function(some)
    even = fitted.predict_proba(some)
    np.testing.assert_allclose(even.sum(axis=1), 1)
    np.testing.assert_allclose(np.log10(even[:, 1] / even[:, 0]), llr, atol=1e-6)
    rare = clone(fitted).set_params(prior=0.01).fit(*instances())
    odds = np.log10(rare.predict_proba(some)[:, 1] / rare.predict_proba(some)[:, 0])
    np.testing.assert_allclose(odds, llr - np.log10(99), atol=1e-6)
    np.testing.assert_array_equal(rare.predict(some), (odds > 0).astype(int))
    with pytest.raises(ValueError, match="the prior is a probability"):
        clone(rare).set_params(prior=1).fit(*instances()).predict(some)


def test_the_score_is_minus_cllr(fitted):
    x, source = instances(30, seed=2)
    four = x.reshape(30, 4, 3)
    llr = fitted.decision_matrix(four[:, 0], four[:, 1])
    off = ~np.eye(30, dtype=bool)
    # Sources are in the order of their names, which is not that of their numbers.
    assert fitted.score(x, source) == pytest.approx(-cllr(LLRs(llr.diagonal(), llr[off])), rel=1e-9)
    with pytest.raises(ValueError, match="two sources at least"):
        fitted.score(x[:1], source[:1])


def test_searches_and_validations_use_it():
    x, source = instances()
    folds = GroupKFold(3)
    scores = cross_val_score(TwoLevelClassifier("tlm"), x, source, groups=source, cv=folds)
    assert (scores > -1).all()
    assert (scores < 0).all()
    search = GridSearchCV(TwoLevelClassifier(), {"model": ["tlm", "tlm-kde", "tlm+logistic"]}, cv=folds)
    search.fit(x, source, groups=source)
    assert search.best_score_ < 0


def test_neural_models_and_calibrations():
    x, source = instances()
    classifier = TwoLevelClassifier("ntlm-double-sources-n1-varying+logistic", options={"epochs": 3}).fit(x, source)
    assert len(classifier.validation_sources_) == 27
    assert len(classifier.sources_) == 53
    llr = classifier.decision_function(pairs())
    assert np.isfinite(llr).all()
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.decision_function(pairs()), llr)
    np.testing.assert_array_equal(clone(classifier).fit(x, source).decision_function(pairs()), llr)


def test_random_states_are_those_of_scikit_learn():
    x, source = instances()
    drawn = [
        TwoLevelClassifier("ntlm-single-pairs-n1", options={"epochs": 1}, random_state=state)
        .fit(x, source)
        .validation_sources_.tolist()
        for state in (np.random.RandomState(3), np.random.RandomState(3), np.random.RandomState(4))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "tml"}, "Did you mean 'tlm'"),
        ({"options": {"epochs": 3}}, "there is no option epochs; its options are pretrain"),
        ({"n_trace_instances": 0}, "n_trace_instances is a number of rows"),
        ({"n_ref_instances": 1.5}, "n_ref_instances is a number of rows"),
        ({"device": "tpu"}, "device is cpu or cuda, and not 'tpu'"),
    ],
)
def test_wrong_parameters_are_told_in_fit(parameters, message):
    classifier = TwoLevelClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        classifier.fit(*instances())


def test_wrong_use_is_told(fitted):
    with pytest.raises(NotFittedError):
        TwoLevelClassifier().decision_function(pairs())
    with pytest.raises(ValueError, match="one of them measured twice"):
        TwoLevelClassifier("tlm").fit(instances()[0][:20], np.arange(20))
    with pytest.raises(ValueError, match=r"\(items, instances, features\) is needed"):
        fitted.decision_matrix(np.zeros(3), np.zeros((1, 3)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_data_frame_count_by_their_names(library):
    frames = pytest.importorskip(library)
    x, source = instances()
    names = ["K39", "Ti49", "Mn55"]

    def frame(values, columns=names):
        return frames.DataFrame({name: values[:, names.index(name)] for name in columns})

    classifier = TwoLevelClassifier("tlm").fit(frame(x), source)
    assert classifier.system_.features == tuple(names)
    new, _ = instances(6, seed=1)
    expected = classifier.decision_matrix(frame(new[:8]), frame(new[8:]))
    backwards = classifier.decision_matrix(frame(new[:8], names[::-1]), frame(new[8:], ["Ti49", "K39", "Mn55"]))
    np.testing.assert_array_equal(backwards, expected)
    rows = frame(new[:8], names[::-1])
    np.testing.assert_array_equal(classifier.decision_function(rows), classifier.decision_function(frame(new[:8])))
    other = frames.DataFrame({"Rb85": new[:, 0], "Ti49": new[:, 1], "Mn55": new[:, 2]})
    with pytest.raises(ValueError, match="Rb85"):
        classifier.decision_matrix(other, frame(new))
    with pytest.raises(ValueError, match="K39"):
        classifier.decision_matrix(frame(new[:8], names[1:]), frame(new[8:]))
    assert classifier.score(frame(x, names[::-1]), source) == classifier.score(frame(x), source)


def test_masked_values_are_missing_here_too() -> None:
    values = np.random.default_rng(2).normal(size=(40, 2))
    masked = np.ma.array(values, mask=values > 2)
    with pytest.raises(ValueError, match="NaN"):
        TwoLevelClassifier("tlm").fit(masked, np.repeat(np.arange(20), 2))
    classifier = TwoLevelClassifier("tlm").fit(values, np.repeat(np.arange(20), 2))
    with pytest.raises(ValueError, match="NaN"):
        classifier.decision_function(masked)

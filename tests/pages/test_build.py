"""A whole report as data: from runs made by hand, and from a real one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from lindley.calibration import Chain
from lindley.evaluation.axes import analyse_axes
from lindley.evaluation.curves import pav_curve
from lindley.evaluation.metrics import cllr, cllr_min, eer
from lindley.experiment.config import Experiment, TrainingConfig
from lindley.experiment.results import ModelResult, SizeResult
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.fitting import History
from lindley.models.two_level import TwoLevel, score
from lindley.pages.run_build import RunChoice, build_report, compare_kinds, data_figure
from lindley.pages.run_figures import Report
from lindley.pages.run_model import loadings, loss_figure
from lindley.pages.run_sketch import sketch
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Protocol, Split, make_splits
from lindley.table.table import Table

Floats = NDArray[np.float64]


def result(validate: list[float], test: list[float] | None = None) -> ModelResult:
    test = validate if test is None else test
    return ModelResult("tlm", tuple(validate), tuple(test), tuple(0.5 * t for t in test), (), 1.0)


@dataclass
class MadeRun:
    """A run without a folder: LLRs by model and split, results computed from them."""

    table: Table
    protocol: Protocol
    llrs: dict[str, list[Floats]]  # test LLRs
    two_level: dict[str, list[TwoLevel]] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    oracle_cllr: list[float] | None = None
    oracle_series: tuple[SizeResult, ...] = ()
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.splits: list[Split] = make_splits(self.table, self.protocol)
        self.models = tuple(self.llrs)
        self.experiment = Experiment(
            name="made", data=DataConfig(data="made.csv"), protocol=self.protocol, models=self.models
        )
        self.content: dict[str, Any] = {
            "data": {
                "name": self.table.name, "rows": len(self.table.values), "sources": len(self.table.sources),
                "groups": len(self.table.sources), "features": list(self.table.features), "sha256": "0",
                "findings": list(self.findings),
            },
            "protocol": {"splits": 1, "replicates": 2, "trace_instances": 1, "shares": [1, 1, 1], "seed": 0},
            "training": {"epochs": 10, "device": "cpu"},
            "environment": {"lindley": "0", "python": "3", "platform": "none"},
        }  # fmt: skip

    def spec(self, name: str) -> ModelName:
        return ModelName.parse(name)

    def pairs(self, name: str, split: int) -> LLRs:
        part = self.splits[split].test
        return LLRs.from_matrix(self.llrs[name][split], part.trace.source, part.ref.source)

    def result(self, name: str) -> ModelResult:
        pairs = [self.pairs(name, split) for split in range(len(self.splits))]
        test = tuple(map(cllr, pairs))
        validate = tuple(1 / value for value in test)  # what is best on validation is worst on test
        return ModelResult(name, validate, test, tuple(map(cllr_min, pairs)), (), 1.0)

    def llr(self, name: str, split: int) -> Floats:
        return self.llrs[name][split]

    def system(self, name: str, split: int) -> System:
        if name in self.two_level:
            return _system(name, self.splits[split], self.two_level[name][split])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few sources
            kernel = fit_classical([self.splits[split].train], "kernel")  # whose LLR is no sum over axes
        return _system(name, self.splits[split], kernel)

    def history(self, name: str, split: int) -> History | None:
        return self.histories.get(name)

    def report(self) -> Report:
        return build_report(cast(SavedRun, self))


def _system(name: str, split: Split, model: TwoLevel) -> System:
    features = tuple(f"f{k}" for k in range(len(split.scaling.mean)))
    chain = (Chain((), ()),)
    return System(name, features, (None,) * len(features), "none", None, (split.scaling,), (), model, chain)


def glass(n: int = 60, replicates: int = 3) -> Table:
    return simulate_table(glass_population(), n, replicates, seed=2)


def shapes(run_table: Table, protocol: Protocol) -> list[tuple[int, int]]:
    splits = make_splits(run_table, protocol)
    return [(len(split.test.trace.source), len(split.test.ref.source)) for split in splits]


def made(table: Table, splits: int, models: tuple[str, ...] = ("tlm",), **more: Any) -> MadeRun:
    """Random LLRs."""
    protocol, rng = Protocol(splits=splits, seed=3), np.random.default_rng(0)
    llrs = {name: [rng.normal(0, 3, shape) for shape in shapes(table, protocol)] for name in models}
    return MadeRun(table, protocol, llrs, **more)


def test_the_median_run_is_the_median() -> None:
    assert RunChoice.of(result([0.5, 0.1, 0.9, 0.3, 0.2])) == RunChoice(best=1, median=3, worst=2)
    assert RunChoice.of(result([0.5, 0.1, 0.9, 0.3])) == RunChoice(best=1, median=3, worst=2)  # the better middle one
    assert RunChoice.of(result([0.2, 0.2, 0.2])) == RunChoice(best=0, median=1, worst=2)
    rng = np.random.default_rng(0)
    values = rng.random(21).tolist()
    assert values[RunChoice.of(result(values)).median] == np.median(values)


def test_runs_are_chosen_by_validation_and_each_is_shown_once() -> None:
    assert RunChoice.of(result([0.1, 0.3, 0.2], [9.0, 1.0, 5.0])).named == {"worst": 1, "median": 2, "best": 0}
    assert RunChoice.of(result([0.1, 0.3])).named == {"worst": 1, "median": 0}
    assert RunChoice.of(result([0.1])).named == {"median": 0}


def test_kinds_side_by_side() -> None:
    names = (
        "ntlm-single-pairs-n2-varying", "tlm+logistic+elub", "tlm+logistic", "ntlm-single-pairs-n2-common", "tlm",
        "ntlm-single-pairs-n2", "ntlm-single-pairs-n2+pav", "tlm-kde", "ntlm-double-pairs-n2-varying",
    )  # fmt: skip
    choices = {name: RunChoice(0, index, 0) for index, name in enumerate(names)}
    single, classical, double = compare_kinds({name: ModelName.parse(name) for name in names}, choices)
    assert single.models == (
        "tlm", "ntlm-single-pairs-n2", "ntlm-single-pairs-n2-common", "ntlm-single-pairs-n2-varying",
    )  # fmt: skip
    assert single.split == names.index("ntlm-single-pairs-n2")  # the median run of the point value, for all of them
    assert single.title == "pairs, N=2, single projection"
    assert classical.models == ("tlm", "tlm+logistic", "tlm+logistic+elub")
    assert classical.split == names.index("tlm")
    assert double.models == ("tlm", "ntlm-double-pairs-n2-varying")
    assert double.split == names.index("ntlm-double-pairs-n2-varying")


def history(train: list[float], validate: list[float], best: int, axes: Floats | None = None) -> History:
    return History(np.array([train]), np.array([validate]), None if axes is None else axes[None], np.array([best]))


def test_loss_figure_by_hand() -> None:
    train = [1.0] * 25
    train[22] = 3.0
    axes = np.arange(50.0).reshape(25, 2)
    figure = loss_figure(history(train, [0.9] * 20 + [0.4] + [0.9] * 4, 20, axes))
    np.testing.assert_array_equal(figure.train.x, np.arange(1, 26))  # epochs count from 1
    np.testing.assert_array_equal(figure.train.y, train)
    assert (figure.best_epoch, figure.best_cllr, figure.spikes) == (21, 0.4, (23,))
    assert [curve.name for curve in figure.axes] == ["axis 0", "axis 1"]
    np.testing.assert_array_equal(figure.axes[1].y, axes[:, 1])


def test_a_long_training_keeps_its_best_epoch_and_its_spikes() -> None:
    rng = np.random.default_rng(0)
    train = np.exp(-np.arange(2000) / 500) + 0.01 * rng.random(2000)
    validate, axes = train * 1.1, np.ones((2000, 3))
    spikes, best = np.array([500, 777, 1500, 1993]), 1234
    train[spikes] *= 3
    validate[best] = 0.001
    axes[1801, 2] = 40.0
    figure = loss_figure(history(train.tolist(), validate.tolist(), best, axes))
    assert figure.spikes == tuple((spikes + 1).tolist())
    for curve in (figure.train, figure.validate, *figure.axes):
        assert len(curve.x) <= 400
        assert {1, 2000, best + 1, *(spikes + 1)} <= set(curve.x)
    np.testing.assert_array_equal(figure.train.y, train[figure.train.x.astype(int) - 1])
    assert figure.axes[2].y.max() == 40.0
    assert figure.axes[2].x[figure.axes[2].y.argmax()] == 1802


def test_loadings_by_hand() -> None:
    column = np.array([0.2, -4.0, 0.0, 3.0, -1.0])
    names = ("a", "b", "c", "d", "e")
    length = np.sqrt(0.04 + 16 + 9 + 1)
    expected = (("b", 4 / length), ("d", -3 / length), ("e", 1 / length))  # turned round: the largest is positive
    assert [name for name, _ in loadings(column, names)] == [name for name, _ in expected]
    assert [value for _, value in loadings(column, names)] == pytest.approx([value for _, value in expected])
    assert [name for name, _ in loadings(column[:2], names)] == ["b", "a"]
    assert loadings(np.zeros(2), names) == (("a", 0.0), ("b", 0.0))


def test_data_figure() -> None:
    """Of a balanced table: the mean of the covariances within, and the covariance of means less what is within."""
    table = glass(80, 3)
    figure, notes = data_figure(table)
    values = table.values.reshape(80, 3, 18)
    within = np.mean([np.cov(source.T) for source in values], axis=0)
    np.testing.assert_allclose(figure.within, within, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(figure.between, np.cov(values.mean(axis=1).T) - within / 3, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(figure.source_means, values.mean(axis=1))
    np.testing.assert_allclose(figure.deviations.reshape(80, 3, 18).sum(axis=1), 0, atol=1e-9)
    assert figure.sources == tuple(sorted(set(table.source.tolist())))
    assert figure.features == table.features
    assert notes == ()


def test_data_figure_of_few_measurements() -> None:
    """Sources that were measured once have no deviation, and what was done to a covariance is told."""
    table = glass(9, 2)
    keep = np.ones(18, dtype=bool)
    keep[[1, 5]] = False
    figure, notes = data_figure(Table.from_arrays(table.values[keep], table.source[keep]))
    assert figure.source_means.shape == (9, 18)
    assert figure.deviations.shape == (14, 18)
    assert len(notes) == 2
    assert "shrunk" in notes[0]


def test_omnibus_and_panels_show_the_median_run() -> None:
    run = made(glass(), 5, ("tlm", "tlm-kde"))
    for model in run.report().models:
        res = run.result(model.name)
        split = int(np.argsort(res.validate_cllr)[2])
        pairs, omnibus = run.pairs(model.name, split), model.omnibus
        assert model.split == split
        assert (omnibus.pairs_same, omnibus.pairs_different) == (len(pairs.same), len(pairs.different))
        assert omnibus.cllr == pytest.approx(cllr(pairs))
        assert omnibus.cllr_min == pytest.approx(cllr_min(pairs))
        assert omnibus.calibration_share == pytest.approx(1 - cllr_min(pairs) / cllr(pairs))
        assert omnibus.eer == pytest.approx(eer(pairs))
        assert omnibus.ece.system[60] == pytest.approx(cllr(pairs), rel=1e-6)  # at prior odds of 1
        assert omnibus.ece.pav[60] == pytest.approx(cllr_min(pairs), rel=1e-9)
        assert (omnibus.tippett.same[0], omnibus.tippett.same[-1]) == (1, 0)
        assert (omnibus.tippett.different[0], omnibus.tippett.different[-1]) == (1, 0)
        assert len(omnibus.tippett.llr) <= 400
        assert [llr for *_, llr in omnibus.misleading_same] == np.sort(pairs.same)[:8].tolist()
        assert [llr for *_, llr in omnibus.misleading_different] == np.sort(pairs.different)[::-1][:8].tolist()
        part = run.splits[split].test
        for trace, ref, llr in (*omnibus.misleading_same, *omnibus.misleading_different):
            i, j = (side.source.tolist().index(name) for side, name in ((part.trace, trace), (part.ref, ref)))
            assert run.llrs[model.name][split][i, j] == llr
        assert all(trace == ref for trace, ref, _ in omnibus.misleading_same)
        assert not any(trace == ref for trace, ref, _ in omnibus.misleading_different)
        assert [panel.which for panel in model.runs.panels] == ["worst", "median", "best"]
        by_panel = [panel.validate for panel in model.runs.panels]
        assert by_panel == [max(res.validate_cllr), np.median(res.validate_cllr), min(res.validate_cllr)]
        for panel in model.runs.panels:
            assert (panel.cllr, panel.cllr_min) == (res.test_cllr[panel.split], res.test_cllr_min[panel.split])
            shown = run.pairs(model.name, panel.split)
            assert [llr for *_, llr in panel.same] == np.sort(shown.same).tolist()
            assert len(panel.different) <= 150
            assert {llr for *_, llr in panel.different} <= set(shown.different.tolist())
            np.testing.assert_array_equal(panel.pav.pav_llr, pav_curve(shown).pav_llr)


def test_axis_panels_are_the_analysis_of_the_test_part() -> None:
    table, protocol = glass(150), Protocol(splits=1, seed=3)
    (split,) = make_splits(table, protocol)
    model = fit_classical([split.train], "normal")
    llr = score(model, [split.test.trace], [split.test.ref])[0]
    kernel = fit_classical([split.train], "kernel")
    run = MadeRun(table, protocol, {"tlm": [llr], "tlm-kde": [llr]}, {"tlm": [model], "tlm-kde": [kernel]})
    normal, kernel_figures = run.report().models
    assert kernel_figures.axes == ()  # does not factor over axes
    analysis = analyse_axes(model, split.test)
    assert len(normal.axes) == 18
    for axis, panel in enumerate(normal.axes):
        assert (panel.axis, panel.kind) == (axis, analysis.kinds[axis])
        assert panel.cllr == pytest.approx(analysis.cllr[axis])
        np.testing.assert_array_equal(panel.qq[0].y, np.sort(analysis.z_h1[:, axis]))  # few pairs: nothing is left out
        np.testing.assert_array_equal(panel.qq[1].y, np.sort(analysis.z_h2[:, axis]))
        assert [(qq.name, len(qq.x)) for qq in panel.qq] == [("h1", len(analysis.z_h1)), ("h2", len(analysis.z_h2))]
        assert len(panel.histogram.same) == 40
        column = model.projection[0, :, axis].numpy()
        first, weight = panel.features[0]
        assert first == table.features[int(np.abs(column).argmax())]
        assert weight == pytest.approx(np.abs(column).max() / np.linalg.norm(column))


def test_summary() -> None:
    names = ("tlm+logistic", "ntlm-double-pairs-n1", "tlm")
    run = made(glass(), 4, names, oracle_cllr=[0.1, 0.2, 0.3, 0.2], findings=("odd",))
    report = run.report()
    assert [row.name for row in report.summary.rows] == list(names)
    assert [row.label for row in report.summary.rows] == ["TLM + logistic", "pairs, N=1", "TLM"]
    assert [row.family for row in report.summary.rows] == ["benchmark", "double", "benchmark"]
    assert [row.calibrated for row in report.summary.rows] == [True, False, False]
    for row in report.summary.rows:
        test = np.array(run.result(row.name).test_cllr)
        assert (row.test, row.test_median) == (pytest.approx(test.mean()), pytest.approx(np.median(test)))
        assert row.test_error == pytest.approx(2 * test.std(ddof=1) / 2)
        assert row.test_min == pytest.approx(np.mean(run.result(row.name).test_cllr_min))
    assert report.summary.oracle == (pytest.approx(0.2), pytest.approx(np.std([0.1, 0.2, 0.3, 0.2], ddof=1)))
    assert report.findings == ("odd",)
    uncalibrated = [row for row in report.summary.rows if not row.calibrated]
    assert report.best == min(uncalibrated, key=lambda row: row.validate).name
    assert report.best != min(uncalibrated, key=lambda row: row.test).name
    assert report.title == "glass-simulated"
    assert report.facts[0] == ("Experiment", "made")
    assert "Training" in dict(report.facts)


def test_the_best_is_not_calibrated_unless_all_are() -> None:
    for others, best in ((("tlm", "tlm-kde"), "tlm-kde"), (("tlm+pav", "tlm-kde+pav"), "tlm+logistic")):
        run = made(glass(), 2, (*others, "tlm+logistic"))
        for factor, name in enumerate((*others, "tlm+logistic"), 1):
            run.llrs[name] = [factor * np.where(s == t, -1.0, 1.0) for s, t in sides(run)]  # the last validates best
        report = run.report()
        assert report.best == best
        assert "Training" not in dict(report.facts)


def sides(run: MadeRun) -> list[tuple[NDArray[np.str_], NDArray[np.str_]]]:
    return [(split.test.trace.source[:, None], split.test.ref.source[None]) for split in run.splits]


@pytest.mark.parametrize("what", ["one split", "few pairs", "equal", "separated", "single measurements"])
def test_odd_runs(what: str) -> None:
    table = glass(6, 2) if what == "few pairs" else glass(30, 2)
    if what == "single measurements":
        keep = np.ones(len(table.values), dtype=bool)
        keep[1::4] = False
        table = Table.from_arrays(table.values[keep], table.source[keep])
    run = made(table, 1 if what == "one split" else 3)
    if what == "equal":
        run.llrs["tlm"] = [np.full_like(llr, 0.25) for llr in run.llrs["tlm"]]
    if what == "separated":
        run.llrs["tlm"] = [np.where(s == t, 5.0, -700.0) for s, t in sides(run)]
    report = run.report()
    (model,) = report.models
    assert model.outliers.without[0] == pytest.approx(np.mean(run.result("tlm").test_cllr))
    assert sum(outlier.cost for outlier in model.outliers.outliers) <= model.outliers.cllr + 1e-12
    assert model.loss is None
    assert report.kinds == ()
    if what == "one split":
        assert [panel.which for panel in model.runs.panels] == ["median"]
        assert report.summary.rows[0].test_error == 0
    if what == "single measurements":
        assert model.omnibus.pairs_same < len(run.splits[model.split].test.trace.source)
    if what == "separated":
        assert set(model.runs.panels[0].pav.pav_llr.tolist()) == {-np.inf, np.inf}
        assert model.omnibus.cllr_min == 0
        assert model.omnibus.calibration_share == 1
    else:
        assert all_finite(model.omnibus)


def all_finite(value: Any) -> bool:
    """Whether every number in a figure is."""
    if is_dataclass(value):
        return all(all_finite(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, tuple):
        return all(map(all_finite, value))
    return isinstance(value, str) or bool(np.isfinite(value).all())


MODELS = (
    "tlm", "tlm-kde", "yeo-johnson:tlm", "tlm+logistic+elub", "ntlm-single-pairs-n2-varying", "ntlm-single-pairs-n2",
    "ntlm-single-pairs-n2-common+logistic",
)  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    """A small run of everything, from its folder."""
    folder: Path = tmp_path_factory.mktemp("run")
    experiment = Experiment(
        name="small",
        data=DataConfig(data="glass-simulated"),
        protocol=Protocol(splits=3, seed=1),
        training=TrainingConfig(epochs=30),
        models=(*MODELS, {"model": "ntlm-double-sources-n1", "label": "our own", "options": {"orthonormal": "qr"}}),
    )
    run_experiment(experiment, glass(150), folder).write(folder)
    return SavedRun.open(folder)


def test_a_real_run(real: SavedRun) -> None:
    report = build_report(real)
    assert tuple(model.name for model in report.models) == tuple(row.name for row in report.summary.rows) == real.models
    assert report.summary.rows[-1].label == "our own"
    assert report.summary.oracle is not None
    neural = [model.name for model in report.models if model.loss is not None]
    assert neural == [*MODELS[4:], "our own"]
    assert [m.name for m in report.models if m.axes] == ["tlm", "yeo-johnson:tlm", *MODELS[4:6], "our own"]
    for model in report.models:
        res = real.result(model.name)
        # LLRs are kept in single precision, results.json has the figures of the full one
        assert model.outliers.cllr == pytest.approx(np.mean(res.test_cllr), rel=1e-5)
        assert model.outliers.without[0] == pytest.approx(model.outliers.cllr, rel=1e-12)
        assert len(model.outliers.without) == 11
        assert model.omnibus.cllr == res.test_cllr[model.split]
        assert res.validate_cllr[model.split] == np.median(res.validate_cllr)
        assert len(model.axes) in (0, 18)
        if model.loss is not None:
            assert len(model.loss.axes) == 18
            assert len(model.loss.train.x) == 30
            assert model.loss.focus is not None
            assert len(model.loss.focus.x) == 30
            assert model.sketch == sketch(real.spec(model.name), 18)
    assert [model.name for model in report.models if model.focus is not None] == [*MODELS[4:6], "our own"]
    for model in report.models:
        if model.focus is not None:
            assert len(model.focus.cllr) == 18
            # few sources: all pairs are counted, with single precision between
            assert model.focus.test_all == pytest.approx(model.omnibus.cllr, rel=1e-6)
            told = real.result(model.name).validate_cllr[model.split]
            assert model.focus.validate_all == pytest.approx(told, rel=1e-6)
    point = next(model for model in report.models if model.name == "ntlm-single-pairs-n2")
    assert point.loss is not None
    assert point.loss.best_cllr == pytest.approx(real.result(point.name).validate_cllr[point.split], rel=1e-3)
    assert [[panel.which for panel in figure.panels] for figure in report.kinds] == [
        ["raw TLM", "after logistic + ELUB"],
        ["raw TLM", "point value", "varying, integrated"],
        ["raw TLM", "point value"],
    ]


def test_the_series_of_a_real_run(real: SavedRun) -> None:
    """Three measurements of every source: 1×1 and 1×2, of all models and of the oracle."""
    figure = build_report(real).series
    assert figure is not None
    assert figure.sizes == ((1, 1), (1, 2))
    assert figure.fitted == (1, 1)
    assert (figure.sources, figure.all_sources) == ((150, 150), 150)
    assert [row.name for row in figure.rows] == [*real.models, "oracle"]
    results = [*(real.result(name).series for name in real.models), real.oracle_series]
    for row, series in zip(figure.rows, results, strict=True):
        for place, at in enumerate(series):
            assert row.cllr[place] == pytest.approx(np.mean(at.cllr))
            assert row.error[place] == pytest.approx(2 * np.std(at.cllr, ddof=1) / np.sqrt(3))
    roots = {row.name: row.root for row in figure.rows}
    assert roots["tlm"] == roots["tlm+logistic+elub"] != roots["yeo-johnson:tlm"]


def test_a_run_without_a_series_has_no_figure_of_it() -> None:
    assert made(glass(), 2).report().series is None


def test_axis_llrs_of_a_real_run_sum_to_its_llrs(real: SavedRun) -> None:
    """The saved model, the parts as it sees them and the saved LLRs belong together."""
    for name in ("yeo-johnson:tlm", "ntlm-single-pairs-n2-varying"):
        system, part = real.system(name, 1), real.splits[1].raw[2]
        same = analyse_axes(system.model, part.with_values(system.prepare(part.values))).omnibus.same
        saved = LLRs.from_matrix(real.llr(name, 1), part.trace.source, part.ref.source).same
        np.testing.assert_allclose(same, saved, rtol=1e-5, atol=1e-5)

"""Everything that a report shows, computed from a saved run: no model is fitted, and every LLR is read once.

Runs are chosen by their validation Cllr and shown on their test pairs, as in the paper: what is shown was not picked by what
it shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from lindley.evaluation.pair_grid import PairGrid
from lindley.experiment.results import ModelResult, SizeResult, two_sem
from lindley.models.classical import Moments, ShrinkageWarning
from lindley.pages.run_figures import (
    CalibrationFigure,
    CalibrationPanel,
    DataFigure,
    ModelFigures,
    Report,
    SeriesFigure,
    SeriesRow,
    SummaryFigure,
    SummaryRow,
)
from lindley.pages.run_model import (
    axis_analysis,
    axis_panels,
    calibration_panel,
    find_outliers,
    loss_figure,
    omnibus_figure,
)
from lindley.pages.run_sketch import focus_figure, sketch
from lindley.pages.run_words import is_neural, kind, label, list_facts, model_labels
from lindley.system.kinds import INTEGRATIONS, Family
from lindley.system.names import ModelName
from lindley.table.table import Table
from lindley.workers import Notify, Workers

if TYPE_CHECKING:
    from lindley.experiment.saved import SavedRun

__all__ = ["build_report"]


@dataclass(frozen=True)
class RunChoice:
    """The runs of a model that are shown, by validation Cllr; of an even number the better middle one is the median."""

    best: int
    median: int
    worst: int

    @classmethod
    def of(cls, result: ModelResult) -> RunChoice:
        """Equal Cllrs count in the order of the splits."""
        order = np.argsort(result.validate_cllr, kind="stable").tolist()
        return cls(order[0], order[(len(order) - 1) // 2], order[-1])

    @property
    def named(self) -> dict[str, int]:
        """The runs to set side by side, each once: a single split is the median, and nothing else."""
        named = {"worst": self.worst, "median": self.median, "best": self.best}
        return {which: run for which, run in named.items() if which == "median" or run != self.median}


@dataclass(frozen=True)
class SideBySide:
    """Models to set side by side on one split."""

    title: str
    split: int
    models: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Shown:
    """What is shown of a run: its test pairs by split, the runs of every model, models side by side, and their figures."""

    run: SavedRun

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process keeps it from one model to the next."""
        return _shown, (self.run,)

    @cached_property
    def grids(self) -> list[PairGrid]:
        tests = [split.test for split in self.run.splits]
        return [PairGrid.of(test.trace.source, test.ref.source, test.weight) for test in tests]

    @cached_property
    def choices(self) -> dict[str, RunChoice]:
        return {name: RunChoice.of(self.run.result(name)) for name in self.run.models}

    @cached_property
    def comparisons(self) -> list[SideBySide]:
        return compare_kinds({name: self.run.spec(name) for name in self.run.models}, self.choices)

    def figures(self, name: str, notify: Notify) -> tuple[ModelFigures, dict[int, CalibrationPanel]]:
        """The figures of a model, and its calibration on every split that a figure shows."""
        run, grids, choice, result = self.run, self.grids, self.choices[name], self.run.result(name)
        llrs = [np.asarray(run.llr(name, split), dtype=np.float64) for split in range(len(grids))]
        wanted = set(choice.named.values()) | {c.split for c in self.comparisons if name in c.models}
        of_split = {
            split: calibration_panel(
                grids[split],
                llrs[split],
                result.test_cllr[split],
                result.test_cllr_min[split],
                split=split,
                validate=result.validate_cllr[split],
            )
            for split in sorted(wanted)
        }
        panels = [replace(of_split[split], which=which) for which, split in choice.named.items()]
        history, at = run.history(name, choice.median), choice.median
        test = axis_analysis(name, at, run, "test")
        validate = axis_analysis(name, at, run, "validate") if is_neural(run.spec(name)) else None
        figures = ModelFigures(
            name=name,
            split=at,
            loss=None if history is None else loss_figure(history),
            axes=() if test is None else axis_panels(name, at, run, test),
            runs=CalibrationFigure(label(name, run.spec(name)), tuple(panels)),
            omnibus=omnibus_figure(of_split[at], grids[at], llrs[at]),
            outliers=find_outliers(grids, llrs),
            sketch=sketch(run.spec(name), len(run.table.features)),
            focus=None if validate is None or test is None else focus_figure(validate, test),
        )
        return figures, of_split


@lru_cache(maxsize=1)
def _shown(run: SavedRun) -> _Shown:
    return _Shown(run)


def build_report(
    run: SavedRun, workers: Workers | None = None, progress: Callable[[float], None] = lambda done: None
) -> Report:
    """All figures of a run; those of a model are one job of the workers. ``progress`` hears the share of models."""
    shown = _Shown(run)
    made: dict[str, tuple[ModelFigures, dict[int, CalibrationPanel]]] = {}
    dearest_first = sorted(run.models, key=lambda name: -run.spec(name).effort)
    for name, figures in (workers or Workers(1)).run(shown.figures, dearest_first):
        made[name] = figures
        progress(len(made) / len(run.models))
    data, notes = data_figure(run.table)
    summary = summary_figure(run)
    return Report(
        title=run.table.name,
        facts=(
            ("Experiment", run.experiment.name),
            *list_facts(run.content, run.experiment.data, any(row.family != "benchmark" for row in summary.rows)),
        ),
        summary=summary,
        kinds=tuple(
            CalibrationFigure(c.title, tuple(replace(made[m][1][c.split], which=kind(run.spec(m))) for m in c.models))
            for c in shown.comparisons
        ),
        models=tuple(made[name][0] for name in run.models),
        data=data,
        findings=(*run.content["data"]["findings"], *notes),
        best=min(summary.rows, key=lambda row: (not row.keeps_reading, row.calibrated, row.validate)).name,
        series=series_figure(run, model_labels(summary)),
    )


def summary_figure(run: SavedRun) -> SummaryFigure:
    """Figure 1: the means over the splits of every model."""
    rows = []
    for name in run.models:
        spec, result = run.spec(name), run.result(name)
        rows.append(
            SummaryRow(
                name=name,
                label=label(name, spec),
                family=spec.kind.family,
                calibrated=bool(spec.calibrations),
                validate=fmean(result.validate_cllr),
                validate_error=two_sem(result.validate_cllr),
                test=fmean(result.test_cllr),
                test_error=two_sem(result.test_cllr),
                test_median=median(result.test_cllr),
                test_min=fmean(result.test_cllr_min),
                is_score="parts" not in spec.kind.can,
            )
        )
    true = run.oracle_cllr
    oracle = None if true is None else (fmean(true), two_sem(true))
    return SummaryFigure(tuple(rows), oracle, len(run.splits))


def series_figure(run: SavedRun, labels: Mapping[str, str]) -> SeriesFigure | None:
    """The means over the splits at every size of the test pairs; nothing if there is one size, or none."""
    series = {name: run.result(name).series for name in run.models}
    sizes = tuple(at.instances for at in series[run.models[0]])
    if len(sizes) < 2:
        return None

    def row(name: str, label: str, family: Family | None, root: str, results: Sequence[SizeResult]) -> SeriesRow:
        means, errors = (tuple(figure(at.cllr) for at in results) for figure in (fmean, two_sem))
        return SeriesRow(name, label, family, root, means, errors)

    specs = {name: run.spec(name) for name in run.models}
    rows = [row(name, labels[name], spec.kind.family, str(spec.root), series[name]) for name, spec in specs.items()]
    if run.oracle_series:
        rows.append(row("oracle", "the oracle (true LRs)", None, "oracle", run.oracle_series))
    count = np.unique(run.table.source, return_counts=True)[1]
    protocol = run.experiment.protocol
    return SeriesFigure(
        sizes=sizes,
        sources=tuple(int((count >= sum(size)).sum()) for size in sizes),
        all_sources=len(count),
        rows=tuple(rows),
        fitted=(protocol.trace_instances, protocol.replicates - protocol.trace_instances),
    )


def compare_kinds(specs: Mapping[str, ModelName], choices: Mapping[str, RunChoice]) -> list[SideBySide]:
    """Figure 5: which models are set side by side, and on which split.

    For a neural model the raw classical TLM, its point value and its integrated predictions; for a classical one before and
    after calibration. All on the median run of the first of its own, so that they show the same pairs.
    """

    def order(name: str) -> tuple[int, int]:
        """Of the models that come from one fit: as it is, integrated, calibrated."""
        return (None, *INTEGRATIONS).index(specs[name].integration), len(specs[name].calibrations)

    families: dict[ModelName, list[str]] = {}
    for name, spec in specs.items():
        if not is_neural(spec) or not spec.calibrations:
            families.setdefault(spec.root, []).append(name)
    raw = [name for name, spec in specs.items() if spec == ModelName(None, "tlm", ())]
    comparisons = []
    for root, members in families.items():
        members = sorted(members, key=order)
        models = (*raw, *members) if is_neural(root) else tuple(members)
        if len(models) > 1:
            title = label(str(root), root) + (f", {root.kind.family} projection" if is_neural(root) else "")
            comparisons.append(SideBySide(title, choices[members[0]].median, models))
    return comparisons


def data_figure(table: Table) -> tuple[DataFigure, tuple[str, ...]]:
    """Figure 7: the moments of the whole table, and what had to be done to get them.

    A source that was measured once has no deviation to show.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShrinkageWarning)
        moments = Moments.estimate(table.values, table.source)
    sources, item, count = np.unique(table.source, return_inverse=True, return_counts=True)
    deviations = table.values - moments.source_means[item]
    figure = DataFigure(
        features=table.features,
        within=moments.within,
        between=moments.between,
        source_means=moments.source_means,
        deviations=deviations[count[item] > 1],
        sources=tuple(sources.tolist()),
    )
    notes = [w.message for w in caught if isinstance(w.message, ShrinkageWarning)]
    return figure, tuple(f"In the covariance tables of the report, {note}." for note in notes)

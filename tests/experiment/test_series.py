"""The systems of a run on test sources with more instances: how Cllr falls, and that nothing else changes for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment import work
from lindley.experiment.config import Experiment
from lindley.experiment.results import SizeResult
from lindley.experiment.runner import on_this_machine, run_experiment
from lindley.experiment.saved import SavedRun
from lindley.experiment.work import Finished, Unit
from lindley.files import json_digest
from lindley.llrs import LLRs
from lindley.system.provenance import run_seed, stream
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, draw_nested, make_splits
from lindley.table.table import Table
from tests.experiment.conftest import make_experiment, without_seconds

ROWS = ("tlm+logistic", "tlm", "tlm-kde+logistic+elub")  # the first is calibrated, and the third's own model is no row
SIZES = [(1, 1), (2, 2), (3, 3)]


def make_table(replicates: int = 6, sources: int = 60) -> Table:
    rng = np.random.default_rng(5)
    source = np.repeat([f"pane {i:02d}" for i in range(sources)], replicates)
    means = np.repeat(rng.normal(size=(sources, 3)), replicates, axis=0)
    return Table.from_arrays(means + rng.normal(size=means.shape), source, name="panes")


def make_run(**changes: object) -> Experiment:
    chosen = {"models": ROWS, "protocol": Protocol(splits=4, seed=2), "training": {"group": 2}}
    return make_experiment(**{**chosen, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    run_experiment(make_run(), make_table(), folder).write(folder)
    return folder


def test_figures_equal_those_of_scoring_by_hand(folder: Path) -> None:
    run = SavedRun.open(folder)
    table = run.table
    for split in run.splits:
        inside = np.flatnonzero(np.isin(table.source, split.test.source))
        draws = draw_nested(table.source[inside], SIZES, stream(run_seed(2, split.index), "series"))
        for place, (rows, is_trace) in enumerate(draws):
            part = Part(table.values[inside[rows]], table.source[inside[rows]], is_trace)
            for row in run.models:
                llr = run.system(row, split.index).llr_sides(part.trace, part.ref)
                llrs = LLRs.from_matrix(llr, part.trace.source, part.ref.source)
                result = run.result(row).series[place]
                assert result.instances == SIZES[place]
                assert result.sources[split.index] == len(part.trace.source) == 20
                assert result.cllr[split.index] == pytest.approx(cllr(llrs), rel=1e-9)
                assert result.cllr_min[split.index] == pytest.approx(cllr_min(llrs), rel=1e-9)


def test_cllr_falls_with_instances(folder: Path) -> None:
    for row in ROWS:
        series = SavedRun.open(folder).result(row).series
        mean = [np.mean(each.cllr_min) for each in series]
        assert mean[0] > mean[1] > mean[2]


def test_the_figures_of_the_protocol_are_those_of_a_run_without_a_series(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "series_sizes", lambda source, session: [])
    without = run_experiment(make_run(), make_table()).models
    for row, result in without.items():
        assert result.series == ()
        made = SavedRun.open(folder).result(row)
        assert (made.validate_cllr, made.test_cllr) == (result.validate_cllr, result.test_cllr)
        assert (made.test_cllr_min, made.calibration) == (result.test_cllr_min, result.calibration)


def test_two_instances_are_no_series() -> None:
    content = run_experiment(make_run(), make_table(2)).to_json()
    assert [entry["series"] for entry in content["models"].values()] == [[], [], []]


def test_the_series_starts_at_one_instance_whatever_the_protocol() -> None:
    protocol = Protocol(splits=1, replicates=6, trace_instances=3)
    result = run_experiment(make_run(protocol=protocol, models=("tlm",)), make_table()).models["tlm"]
    assert [size.instances for size in result.series] == SIZES


def test_a_run_that_goes_on_has_the_series_of_an_undisturbed_one(folder: Path, tmp_path: Path) -> None:
    def broken_off(
        experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
    ) -> Iterator[tuple[Unit, Finished]]:
        yield from islice(on_this_machine(experiment, table, units, report), 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(make_run(), make_table(), tmp_path, executor=broken_off)
    assert len(list((tmp_path / "units").iterdir())) == 1
    run_experiment(make_run(), make_table(), tmp_path).write(tmp_path)
    ours, undisturbed = (json.loads((each / "results.json").read_text()) for each in (tmp_path, folder))
    assert without_seconds(ours) == without_seconds(undisturbed)


def test_a_series_that_is_not_that_of_its_units_is_told(folder: Path) -> None:
    path = folder / "results.json"
    whole = path.read_text()
    content = json.loads(whole)
    content["models"]["tlm"]["series"][1]["cllr"][0] += 1e-9
    content.pop("sha256")
    path.write_text(json.dumps({**content, "sha256": json_digest(content)}))  # by somebody who renews the digest
    try:
        with pytest.raises(LindleyError, match="its figures or facts are not those of the parts it was made of"):
            SavedRun.open(folder)
    finally:
        path.write_text(whole)


def test_sources_with_too_few_instances_are_left_out_of_a_size() -> None:
    table = make_table(4)
    keep = np.ones(len(table.values), dtype=bool)
    keep[2 : 4 * 20 : 4] = False  # twenty sources have three
    some = Table.from_arrays(table.values[keep], table.source[keep])
    result = run_experiment(make_run(models=("tlm",)), some).models["tlm"]
    assert [size.instances for size in result.series] == SIZES[:2]
    assert result.series[0].sources == (20,) * 4
    tests = [split.test.trace.source for split in make_splits(some, Protocol(splits=4, seed=2))]
    assert result.series[1].sources == tuple(int((names >= "pane 20").sum()) for names in tests)


@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")  # few sources
def test_a_size_that_a_split_has_no_pairs_for_is_left_out() -> None:
    """Six sources, half of them with four instances: some test parts of two sources have one of those, or none."""
    rng = np.random.default_rng(0)
    source = np.repeat([f"s{i}" for i in range(6)], [4, 4, 4, 2, 2, 2])
    table = Table.from_arrays(rng.normal(size=(18, 1)) + 9 * np.unique(source, return_inverse=True)[1][:, None], source)
    result = run_experiment(make_run(models=("tlm",), protocol=Protocol(splits=6)), table).models["tlm"]
    assert [size.instances for size in result.series] == [(1, 1)]
    whole = {"instances": [1, 1], "sources": [2], "cllr": [0.5], "cllr_min": [0.25]}
    units = [{"series": [whole, {**whole, "instances": [2, 2]}]}, {"series": [whole]}, {"series": [whole]}]
    assert SizeResult.join(units) == (SizeResult((1, 1), (2, 2, 2), (0.5,) * 3, (0.25,) * 3),)
    assert SizeResult.join([]) == SizeResult.join([{}]) == ()


def test_the_oracle_has_a_series_too(tmp_path: Path) -> None:
    table = simulate_table(glass_population(), 180, 4, seed=1)
    chosen = make_run(models=("tlm",), data=DataConfig(data="glass-simulated"), protocol=Protocol(splits=3, seed=1))
    results = run_experiment(chosen, table, tmp_path)
    assert [size.instances for size in results.oracle_series] == SIZES[:2]
    for ours, theirs in zip(results.oracle_series, results.models["tlm"].series, strict=True):
        assert ours.sources == theirs.sources
        assert np.mean(ours.cllr) < np.mean(theirs.cllr)
    results.write(tmp_path)
    assert SavedRun.open(tmp_path).oracle_series == results.oracle_series

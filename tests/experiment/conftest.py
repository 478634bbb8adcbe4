"""A small table, and a small run that was saved: made once, copied by whoever wants to spoil it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.experiment.config import Experiment, TrainingConfig
from lindley.experiment.runner import on_this_machine, run_experiment
from lindley.experiment.work import Finished, Unit
from lindley.table.config import DataConfig
from lindley.table.splits import Protocol
from lindley.table.table import Table

ROWS = (
    "tlm",
    "tlm-kde+logistic+elub",
    "yeo-johnson:tlm",
    {"model": "ntlm-single-pairs-n2", "label": "the network"},
    "ntlm-single-pairs-n2-common",
    "ntlm-single-pairs-n2-varying+logistic",
    {"model": "ntlm-double-sources-n1", "integration": "varying", "options": {"samples": 20, "epochs": 3}},
)


def make_table(sources: int = 45, features: int = 3, seed: int = 0) -> Table:
    """Sources that are three times as far apart as their measurements, two or three of each."""
    rng = np.random.default_rng(seed)
    source = np.repeat([f"pane {i:02d}" for i in range(sources)], 2 + np.arange(sources) % 2)
    means = 3 * rng.normal(size=(sources, features))
    values = means[np.unique(source, return_inverse=True)[1]] + rng.normal(size=(len(source), features))
    return Table.from_arrays(values, source, name="panes")


def make_experiment(**changes: Any) -> Experiment:
    """Two units of splits, every kind of model."""
    content: dict[str, Any] = {
        "name": "small",
        "data": DataConfig(data="panes.csv"),
        "protocol": Protocol(splits=8, seed=2),
        "training": TrainingConfig(epochs=4, group=7),
        "models": ROWS,
    }
    return Experiment(**{**content, **changes})


def without_seconds(content: dict[str, Any]) -> dict[str, Any]:
    """results.json without what differs from run to run."""
    models = {row: {k: v for k, v in entry.items() if k != "seconds"} for row, entry in content["models"].items()}
    return {**{name: value for name, value in content.items() if name != "sha256"}, "models": models}


@pytest.fixture(scope="session")
def table() -> Table:
    return make_table()


@pytest.fixture(scope="session")
def experiment() -> Experiment:
    return make_experiment()


@dataclass
class Store:
    """The units of a run as they came out, to be handed out again in place of their work; and which ones were asked for."""

    finished: dict[Unit, Finished] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def fill(self, experiment: Experiment, table: Table, units: Sequence[Unit], report: Any) -> Iterator[Any]:
        for unit, finished in on_this_machine(experiment, table, units, report):
            self.finished[unit] = finished
            yield unit, finished

    def hand_out(self, experiment: Experiment, table: Table, units: Sequence[Unit], report: Any) -> Iterator[Any]:
        for unit in units:
            self.asked.append(unit.id)
            yield unit, self.finished[unit]


@pytest.fixture(scope="session")
def _made(table: Table, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Store]:
    folder, store = tmp_path_factory.mktemp("run") / "run", Store()
    folder.mkdir()
    run_experiment(experiment, table, folder, executor=store.fill).write(folder)
    return folder, store


@pytest.fixture(scope="session")
def pristine(_made: tuple[Path, Store]) -> Path:
    """The folder of a finished run; not to be touched."""
    return _made[0]


@pytest.fixture
def store(_made: tuple[Path, Store]) -> Store:
    """The units of that run."""
    return Store(_made[1].finished)


@pytest.fixture
def finished(pristine: Path, tmp_path: Path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(pristine, tmp_path / "run"))

"""What `lindley.run` is: an experiment in one call, with all that ``lindley run`` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment, load_experiment
from lindley.experiment.folder import held_folder
from lindley.experiment.results import Results
from lindley.experiment.runner import Progress, run_experiment
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["run"]


def run(
    experiment: str | Experiment = "demo",
    data: Any = None,
    *,
    models: Sequence[str | Mapping[str, Any]] | None = None,
    splits: int | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    folder: str | Path | None = None,
    progress: Progress = lambda doing, detail, done: None,
) -> Results:
    """Compare models on many splits of a table, as ``lindley run`` does.

    Args:
        experiment: a built-in one (demo, paper, paper-literal), the path of a YAML file, or an `Experiment`.
        data: a `lindley.Table`, or whatever `lindley.read_table` takes; default the experiment's own.
        models: names, or names with options as in an experiment file; default the experiment's own.
        splits: how many random splits of the sources.
        seed: that all splits come from.
        epochs: of the networks.
        folder: for results, systems and report; a run that was broken off there goes on. Without, nothing is written.
        progress: told what is done.

    >>> lindley.run("demo", table, models=["robust", "tlm+logistic"], splits=21)  # doctest: +SKIP
    <Results on glass: 2 models on 21 splits; lowest test Cllr 0.0224 ± 0.0045 (robust)>
    """
    table = None if data is None else data if isinstance(data, Table) else read_table(data)
    if isinstance(experiment, str):
        given = {"splits": splits, "seed": seed}
        overrides: dict[str, dict[str, Any]] = {
            "data": {} if table is None else {"data": table.name},
            "protocol": {key: value for key, value in given.items() if value is not None},
            "training": {} if epochs is None else {"epochs": epochs},
            "experiment": {} if models is None else {"models": list(models)},
        }
        experiment = load_experiment(experiment, overrides)
    elif any(each is not None for each in (models, splits, seed, epochs)):
        raise LindleyError("an Experiment says its models, splits, seed and epochs itself: leave them out")
    table = experiment.data.load() if table is None else table
    where = None if folder is None else Path(folder)
    if where is None:
        return run_experiment(experiment, table, progress=progress)
    with held_folder(where):
        results = run_experiment(experiment, table, where, progress=progress)
        results.write(where)
        if experiment.output.report:
            from lindley.pages.run_page import write_run_report

            write_run_report(where)
    return results

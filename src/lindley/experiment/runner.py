"""Run an experiment: do the units that are not finished, keep each as it comes, and put the results together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.folder import drop_results, read_unit, start_folder, write_unit
from lindley.experiment.plan import ORACLE, Unit, make_units
from lindley.experiment.results import Results
from lindley.experiment.work import Finished, do_unit
from lindley.system.fitting import require_device
from lindley.table.splits import make_split
from lindley.table.table import Table

__all__ = ["Executor", "run_experiment", "serially"]

Progress = Callable[[str, str, float], None]
"""Called with what is being done, a detail of it, and the share of the experiment that is done, 0 to 1."""
Executor = Callable[
    [Experiment, Table, Sequence[Unit], Callable[[Unit, str, float], None]], Iterator[tuple[Unit, Finished]]
]
"""Does the units in any order, and gives each as it is finished; tells of progress in a unit, 0 to 1."""


def serially(
    experiment: Experiment, table: Table, units: Sequence[Unit], report: Callable[[Unit, str, float], None]
) -> Iterator[tuple[Unit, Finished]]:
    """One unit after the other, in this process."""
    require_device(experiment.training)
    for unit in units:
        report(unit, "", 0.0)
        yield unit, do_unit(experiment, table, unit, partial(report, unit))


def run_experiment(
    experiment: Experiment,
    table: Table,
    folder: Path | None = None,
    *,
    progress: Progress = lambda doing, detail, done: None,
    notice: Callable[[str], None] = lambda message: None,
    executor: Executor = serially,
) -> Results:
    """Every model of the experiment on every split.

    With a ``folder``, finished units are kept there, and those that are there already are not done again: a run that was
    killed goes on where it was, and ends with the results that it would have had. Without, nothing is written.
    """
    _refuse_early(experiment, table)
    units = make_units(experiment)
    sha256 = table.sha256()
    keys = {unit: unit.key(experiment, sha256) for unit in units}
    records: dict[Unit, dict[str, Any]] = {}
    if folder is not None:
        start_folder(folder, experiment, table, notice)
        for unit in units:
            record = read_unit(folder, unit.id, keys[unit], notice)
            if record is not None:
                records[unit] = record
        if len(records) < len(units):
            drop_results(folder)
    if records:
        notice(f"{len(records)} of {len(units)} parts of this experiment are finished already, and are used.")

    shares = {unit: float(unit in records) for unit in units}
    total = sum(unit.effort for unit in units)

    def report(unit: Unit, detail: str, share: float) -> None:
        shares[unit] = share
        done = sum(u.effort * s for u, s in shares.items()) / total
        name = "the oracle" if unit.root == ORACLE else str(unit.root)
        first, last = unit.splits[0] + 1, unit.splits[-1] + 1
        splits = f"split {first}" if first == last else f"splits {first}–{last}"
        progress(name, f"{splits} of {experiment.protocol.splits}" + (f", {detail}" if detail else ""), done)

    for unit, finished in executor(experiment, table, [unit for unit in units if unit not in records], report):
        if folder is not None:
            write_unit(folder, unit.id, keys[unit], finished.files, finished.record)
        records[unit] = finished.record
        shares[unit] = 1.0
    progress("done", "", 1.0)
    return Results.join(experiment, table, [(unit, records[unit]) for unit in units])


def _refuse_early(experiment: Experiment, table: Table) -> None:
    """Tell what cannot work now, and not after the training."""
    varying = any(name.integration == "varying" for name in experiment.rows.values())
    for index in range(experiment.protocol.splits):
        split = make_split(table, experiment.protocol, index)
        if varying and len(split.validate.ref.source) < 2:
            raise LindleyError(
                f"{table.name}, split {index + 1}: the law of a varying within variance is fitted on validation sources "
                "that were measured twice, and there are fewer than two. Leave -varying out, or give more sources."
            )

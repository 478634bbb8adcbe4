"""Train the paper's neural two-level models of all runs, on Cllr.

A run comes out the same whether it is trained alone or among 21. On a CPU many runs make two programs, in two worker processes
if it takes a while; few runs, and those on a GPU, make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
import torch

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.blocks import one_thread
from lindley.models.fitting import Fitted, History, Task, require_device, require_replicates
from lindley.models.neural.batches import n_batches
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.neural.program import Program, Progress, Training
from lindley.models.two_level import TwoLevel, take_runs
from lindley.table.scaling import Scaling
from lindley.table.splits import Part
from lindley.table.table import Table
from lindley.workers import Notify, Workers

__all__ = ["Trained", "Training", "fit", "train"]

WORKERS = 2
"""Programs that the runs are dealt to on a CPU, each on one thread.

Steps are short, and two OpenMP threads would meet at a barrier hundreds of times in each. On a machine with other work to
do they wait there for each other: an epoch of 90 ms was seen to take 7 s. Runs have nothing to wait for.
"""
FEW_RUNS = 8
"""Runs that make one program: of so few, what a step costs is to start its operations, and two programs would pay it twice."""
WORTH_WORKERS = 15.0
"""Seconds that a program takes, as it is estimated, from which on there are worker processes; starting one takes two."""
PAIRS_OF_A_PROGRAM = 1 << 22
"""Training pairs of the runs of a program on a CPU: some ten numbers are held for each."""
PRETRAINING_VALIDATION = 1 / 3
"""Share of the sources of a table for pretraining that chooses the epoch."""


def fit(task: Task) -> Fitted:
    """The neural model of every run, of the best epoch on its validation part.

    Options: the fields of `Architecture` and `Training` by their names, and ``pretrain``, a `Table` with all features of the
    data. The same training on that table comes first, and its end is where the training of every run begins.
    """
    require_device(task.device)
    watched: dict[str, Any] = {} if task.watched is None else {"watched": task.watched}
    architecture = Architecture(**_given(task, Architecture))
    training = Training(**_given(task, Training), **watched, device=task.device)
    threads = torch.get_num_threads() if task.threads is None else task.threads
    start = None
    if "pretrain" in task.options:
        sides = _sides(task.options["pretrain"], task.features)
        before = train(architecture, training, sides[:1], sides[1:], [0], threads=threads).parameters
        start = take_runs(before, [0] * len(task.learn))

    def report(epoch: int, best: float) -> None:
        task.progress(f"epoch {epoch} of {training.epochs}, validation Cllr {best:.4f}", epoch / training.epochs)

    trained = train(
        architecture, training, task.learn, task.validate, task.seeds, start=start, progress=report, threads=threads
    )
    return Fitted(trained.model, trained.history)


def _given(task: Task, kind: type[Architecture] | type[Training]) -> dict[str, Any]:
    """The options of a task that are fields of a kind."""
    return {f.name: task.options[f.name] for f in fields(kind) if f.name in task.options}


def _sides(table: Table, features: Sequence[str] | None) -> list[Part]:
    """What another table has to train on and to validate with, standardised by itself."""
    chosen = _with_features(table, features)
    values = Scaling.fit(chosen, features or (), table.name)(chosen)
    rng = np.random.default_rng((0, 11))
    groups = np.unique(table.group)
    kept = rng.permutation(groups)[: max(2, round(PRETRAINING_VALIDATION * len(groups)))]
    validating = np.isin(table.group, kept)
    return [Part.drawn(values[rows], table.source[rows]) for rows in (~validating, validating)]


def _with_features(table: Table, features: Sequence[str] | None) -> Floats:
    if features is None:
        raise LindleyError("pretraining a neural model needs the names of features: it is there in experiments")
    missing = [feature for feature in features if feature not in table.features]
    if missing:
        raise LindleyError(
            f"pretrain: {table.name} does not have the features {', '.join(missing)}. A neural model can be pretrained on a "
            "table with all features of the data; robust on any table."
        )
    return table.values[:, [table.features.index(feature) for feature in features]]


@dataclass(frozen=True, eq=False)
class Trained:
    """The models of the best validation epochs, in float64, and how they came about."""

    model: TwoLevel
    parameters: Parameters
    history: History


def train(
    architecture: Architecture,
    training: Training,
    train_parts: Sequence[Part],
    validate_parts: Sequence[Part],
    seeds: Sequence[int],
    *,
    start: Parameters | None = None,
    progress: Progress | None = None,
    threads: int = WORKERS,
) -> Trained:
    """Train one model per run and keep, per run, the parameters of the epoch with the lowest validation Cllr.

    ``seeds`` has one number per run. ``start`` replaces the architecture's start, for fine-tuning. ``threads`` is how many
    programs may run at the same time on a CPU; it changes the time, and no number.
    """
    numbers = [len(train_parts), len(validate_parts), len(seeds)] + ([] if start is None else [len(start.q_between)])
    if len(set(numbers)) != 1:
        raise ValueError(
            f"{len(train_parts)} training parts, {len(validate_parts)} validation parts, {len(seeds)} seeds"
            + (f" and a start of {numbers[-1]} runs" if start is not None else "")
            + ": there must be one of each per run (take_runs repeats or chooses runs)"
        )
    require_replicates("training", chain(train_parts, validate_parts))
    groups = _groups(train_parts, training)
    finished = [0] * len(groups)
    best = [0.0] * len(groups)

    def report(job: _Job, epoch: int, cllr: float) -> None:
        finished[job.number], best[job.number] = epoch, cllr
        if progress is not None:
            progress(sum(finished) // len(groups), sum(best) / max(1, sum(f > 0 for f in finished)))

    def job(number: int) -> _Job:  # made when its turn comes: parts may be drawn when they are asked for
        runs = groups[number]
        learn, validate = [train_parts[r] for r in runs], [validate_parts[r] for r in runs]
        begin = None if start is None else take_runs(start, runs)
        return _Job(number, (architecture, training, learn, validate, [seeds[r] for r in runs], begin))

    worth = training.device == "cpu" and _seconds(*job(len(groups) - 1).arguments[1:4]) >= WORTH_WORKERS
    with one_thread(), Workers(min(threads, len(groups)) if worth else 1) as workers:
        found = {done.number: result for done, result in workers.run(_run, map(job, range(len(groups))), report)}
    return _joined([found[number] for number in range(len(groups))], [run for runs in groups for run in runs])


@dataclass(frozen=True, eq=False)
class _Job:
    """A program to be made and run."""

    number: int
    arguments: tuple[Any, ...]  # of Program


def _run(job: _Job, notify: Notify) -> tuple[Parameters, History]:
    return Program(*job.arguments).run(notify)


def _seconds(training: Training, learn: Sequence[Part], validate: Sequence[Part]) -> float:
    """About how long a program takes on a core: 2 ms a step, and 5 ns for each pair."""
    all_pairs = training.mode == "sources"
    pairs = sum(float(len(part.source) if all_pairs else len(part.trace.source)) ** 2 for part in learn)
    pairs += sum(float(len(part.trace.source) * len(part.ref.source)) for part in validate)
    steps = n_batches(len(learn[0].trace.source), training.batch) + 1
    return training.epochs * (2e-3 * steps + 5e-9 * pairs)


def _groups(parts: Sequence[Part], training: Training) -> list[list[int]]:
    """Runs that make one tensor program: those with the same number of batches; on a CPU, in two halves if they are many.

    Runs of many sources are dealt to more programs: each would need memory for all its pairs at once.
    """
    by_batches: dict[int, list[int]] = {}
    most = 1
    for run, part in enumerate(parts):
        n = len(part.trace.source)
        most = max(most, n)
        by_batches.setdefault(n_batches(n, training.batch), []).append(run)
    if training.device != "cpu":
        return list(by_batches.values())
    workers, together = (1 if len(parts) <= FEW_RUNS else WORKERS), max(1, PAIRS_OF_A_PROGRAM // most**2)
    programs = []
    for runs in by_batches.values():
        number = max(workers, -(-len(runs) // together))
        programs += [runs[i::number] for i in range(number)]
    return [runs for runs in programs if runs]


def _joined(results: Sequence[tuple[Parameters, History]], order: list[int]) -> Trained:
    """Runs that were trained in groups, back in their order."""
    back = torch.from_numpy(np.argsort(order))
    tensors = [parameters.tensors() for parameters, _ in results]
    parameters = Parameters(**{name: torch.cat([t[name] for t in tensors])[back] for name in tensors[0]})
    history = History.join([history for _, history in results], order)
    return Trained(parameters.two_level(), parameters, history)

"""Train the two-level models of all runs, on Cllr.

A run comes out the same whether it is trained alone or among 21. On a CPU the runs make two programs, side by side; on a
GPU one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Event

import numpy as np
import torch
from torch import nn

from lindley.errors import LindleyError
from lindley.models.blocks import or_stop
from lindley.models.neural.batches import n_batches
from lindley.models.neural.encoder import StackedEncoder
from lindley.models.neural.history import History
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.neural.program import Program, Progress
from lindley.models.neural.settings import Training
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["Trained", "Training", "train"]

WORKERS = 2
"""Programs that the runs are dealt to on a CPU, to run side by side with one thread each.

Steps are short, and two OpenMP threads would meet at a barrier hundreds of times in each. On a machine with other work to
do they wait there for each other: an epoch of 90 ms was seen to take 7 s. Runs have nothing to wait for.
"""


@dataclass(frozen=True, eq=False)
class Trained:
    """The models of the best validation epochs, in float64, and how they came about."""

    model: TwoLevel
    parameters: Parameters
    history: History
    encoder: StackedEncoder | None = None

    def embed(self, parts: Sequence[Part]) -> list[Part]:
        """The parts of every run as the model sees them: sent through the run's encoder, where there is one."""
        if self.encoder is None:
            return list(parts)
        with torch.no_grad():
            return [
                part.with_values(self.encoder(torch.from_numpy(part.values).expand(len(parts), -1, -1))[run].numpy())
                for run, part in enumerate(parts)
            ]


def train(
    architecture: Architecture,
    training: Training,
    train_parts: Sequence[Part],
    validate_parts: Sequence[Part],
    seeds: Sequence[int],
    *,
    start: Parameters | None = None,
    encoder: Callable[[], nn.Module] | None = None,
    progress: Progress | None = None,
    threads: int = WORKERS,
) -> Trained:
    """Train one model per run and keep, per run, the parameters of the epoch with the lowest validation Cllr.

    ``seeds`` has one number per run. ``start`` replaces the architecture's start, for fine-tuning. ``encoder`` makes a
    module that maps (instances, feature) to (instances, embedding); it is trained jointly, one copy per run, in *sources*
    mode. ``threads`` is how many programs run side by side on a CPU; it changes the time, and no number.
    """
    if encoder is not None and training.mode != "sources":
        raise ValueError("an encoder is trained in sources mode: pairs of embeddings cannot be made beforehand")
    if encoder is not None and start is not None:
        raise ValueError("a start holds no encoder, and its axes would not fit the embeddings of a new one")
    n_runs = {len(train_parts), len(validate_parts), len(seeds)} | ({start.n_runs} if start is not None else set())
    if len(n_runs) != 1:
        raise ValueError(
            f"{len(train_parts)} training parts, {len(validate_parts)} validation parts, {len(seeds)} seeds"
            + (f" and a start of {start.n_runs} runs" if start is not None else "")
            + ": there must be one of each per run (Parameters.for_runs repeats or chooses runs)"
        )
    for part in (*train_parts, *validate_parts):
        if len(part.trace.source) < 2 or len(part.ref.source) < 1:
            raise LindleyError(
                "training needs at least two sources, one of them measured twice, in every training and validation part: "
                f"got {len(part.trace.source)} sources, {len(part.ref.source)} of them measured twice"
            )
    groups = _groups(train_parts, training)
    finished = [0] * len(groups)
    best = [0.0] * len(groups)
    stop = Event()

    def one(number: int) -> tuple[Parameters, History, StackedEncoder | None]:
        def report(epoch: int, cllr: float) -> None:
            if stop.is_set():
                raise CancelledError
            finished[number], best[number] = epoch, cllr
            if progress is not None:
                progress(sum(finished) // len(groups), sum(best) / max(1, sum(f > 0 for f in finished)))

        return programs[number].run(report)

    # Made one after the other: an encoder's random start uses torch's one global generator.
    programs = [
        Program(
            architecture, training, [train_parts[r] for r in runs], [validate_parts[r] for r in runs],
            [seeds[r] for r in runs], None if start is None else start.for_runs(runs), encoder,
        )
        for runs in groups
    ]  # fmt: skip
    results = or_stop(one, len(groups), threads if training.device == "cpu" else 1, stop)
    return _joined(results, [run for runs in groups for run in runs])


def _groups(parts: Sequence[Part], training: Training) -> list[list[int]]:
    """Runs that make one tensor program: those with the same number of batches; on a CPU, in two halves."""
    by_batches: dict[int, list[int]] = {}
    for run, part in enumerate(parts):
        by_batches.setdefault(n_batches(len(part.trace.source), training.batch), []).append(run)
    if training.device != "cpu":
        return list(by_batches.values())
    halves = (runs[i::WORKERS] for runs in by_batches.values() for i in range(WORKERS))
    return [half for half in halves if half]


def _joined(results: Sequence[tuple[Parameters, History, StackedEncoder | None]], order: list[int]) -> Trained:
    """Runs that were trained in groups, back in their order."""
    back = torch.from_numpy(np.argsort(order))
    tensors = [parameters.tensors() for parameters, _, _ in results]
    parameters = Parameters(**{name: torch.cat([t[name] for t in tensors])[back] for name in tensors[0]})
    encoders = [encoder for _, _, encoder in results if encoder is not None]
    encoder = StackedEncoder.joined(encoders, back) if encoders else None
    history = History.join([history for _, history, _ in results], order)
    return Trained(parameters.two_level(), parameters, history, encoder)

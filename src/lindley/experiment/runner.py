"""Run an experiment: split, fit, score, calibrate, evaluate. Models that share work share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch

from lindley.calibration import CALIBRATIONS
from lindley.data.simulated import glass_population
from lindley.data.splits import Part, Split, make_splits
from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.experiment.config import Experiment
from lindley.experiment.names import NEURAL, ModelName, parse_models
from lindley.experiment.results import ModelResult, Results
from lindley.integration.common import integrate_common
from lindley.integration.varying import integrate_varying
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.gaussianise import Gaussianiser, fit_gaussianiser
from lindley.models.oracle import oracle
from lindley.models.parameters import Architecture
from lindley.models.two_level import TwoLevel, score
from lindley.training.loop import Training, train

__all__ = ["run_experiment"]

Progress = Callable[[str, str, float], None]
"""Called with what is being done, a detail of it, and the share of the experiment that is done, 0 to 1."""
TRAINING_EFFORT = 100.0
"""A training takes about this many times as long as another step; it only serves the progress bar."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """A model on every split: the model itself where it is not a calibration, its LLRs, and what all of it cost."""

    parts: list[tuple[Part, Part, Part]]
    model: TwoLevel | None
    validate: list[LLRs]
    test: list[LLRs]
    seconds: float


def run_experiment(
    experiment: Experiment, table: Table, progress: Progress = lambda doing, detail, done: None
) -> Results:
    """Every model of the experiment on every split.

    ``seconds`` of a model counts all that it needed, also where it was computed once for several models.
    """
    models = parse_models(experiment.models)
    device = experiment.training.device
    if device == "cuda" and not torch.cuda.is_available():
        raise LindleyError("--device cuda: this machine has no CUDA device that torch can use. Use --device cpu.")
    splits = make_splits(table, experiment.protocol)
    needed = _closure(models)
    for split in splits:  # told now, not after the training
        if len(split.validate.ref.source) < 2 and any(name.integration == "varying" for name in needed):
            raise LindleyError(
                f"{table.name}, split {split.index + 1}: the law of a varying within variance is fitted on validation "
                "sources that were measured twice, and there are fewer than two. Leave -varying out, or give more sources."
            )
    simulated = experiment.data.data == "glass-simulated"
    efforts = [TRAINING_EFFORT if name.base in NEURAL and not name.calibrations else 1.0 for name in needed]
    total, finished = sum(efforts) + simulated, 0.0
    known: dict[ModelName, _Scored] = {}
    results: dict[ModelName, ModelResult] = {}

    for number, (name, effort) in enumerate(zip(needed, efforts, strict=True)):
        progress(str(name), f"{len(splits)} splits", finished / total)

        def report(
            detail: str, share: float, name: ModelName = name, done: float = finished, effort: float = effort
        ) -> None:
            progress(str(name), detail, (done + share * effort) / total)

        known[name] = scored = _run(name, splits, experiment, known, report)
        finished += effort
        if name in models:
            results[name] = ModelResult.of(scored.validate, scored.test, scored.seconds)
        # LLRs are kept only as long as another model builds on them.
        awaited = {other.before for other in needed[number + 1 :]}
        known = {other: value for other, value in known.items() if other in awaited}

    oracle_cllr = None
    if simulated:
        progress("the oracle", f"{len(splits)} splits", finished / total)
        oracle_cllr = _oracle(splits)
    progress("done", "", 1.0)
    return Results(experiment, table, {str(name): results[name] for name in models}, oracle_cllr)


def _closure(models: Sequence[ModelName]) -> list[ModelName]:
    """The models and all that they build on, each before what needs it."""
    needed: dict[ModelName, None] = {}
    for name in models:
        chain: list[ModelName] = []
        step: ModelName | None = name
        while step is not None:
            chain.append(step)
            step = step.before
        needed.update(dict.fromkeys(reversed(chain)))
    # Depth first, so that what is no longer needed can be let go early.
    return sorted(needed, key=lambda n: (list(needed).index(_root(n)), len(n.base), n.calibrations))


def _root(name: ModelName) -> ModelName:
    return name if name.before is None else _root(name.before)


def _run(
    name: ModelName,
    splits: Sequence[Split],
    experiment: Experiment,
    known: dict[ModelName, _Scored],
    report: Callable[[str, float], None],
) -> _Scored:
    started = time.perf_counter()
    before = known[name.before] if name.before is not None else None
    seconds = before.seconds if before is not None else 0.0
    if before is not None and name.calibrations:
        validate, test = _calibrate(name.calibrations[-1], before)
        return _Scored(before.parts, None, validate, test, seconds + time.perf_counter() - started)
    if before is not None:
        parts = before.parts
        model = _integrate(name, cast(TwoLevel, before.model), parts)
    else:
        parts = [_gaussianised(split, name.gaussianiser) for split in splits]
        model = _fit(name, parts, experiment, report)
    validate, test = (_score(model, [p[k] for p in parts]) for k in (1, 2))
    return _Scored(parts, model, validate, test, seconds + time.perf_counter() - started)


def _fit(
    name: ModelName, parts: list[tuple[Part, Part, Part]], experiment: Experiment, report: Callable[[str, float], None]
) -> TwoLevel:
    """Classical models from the training parts; neural ones with the best epoch on the validation parts."""
    train_parts, validate_parts = [p[0] for p in parts], [p[1] for p in parts]
    if name.base not in NEURAL:
        return fit_classical(train_parts, "kernel" if name.base == "tlm-kde" else "normal")
    _, projection, mode, within = name.base.split("-")
    architecture = Architecture(cast(Literal["single", "double"], projection), cast(Literal[1, 2], int(within[1:])))
    training = Training(
        cast(Literal["pairs", "sources"], mode), epochs=experiment.training.epochs, device=experiment.training.device
    )
    seeds = [(experiment.protocol.seed * 1_000_003 + run) % 2**63 for run in range(len(parts))]

    def epochs(epoch: int, best: float) -> None:
        report(f"epoch {epoch} of {training.epochs}, validation Cllr {best:.4f}", epoch / training.epochs)

    return train(architecture, training, train_parts, validate_parts, seeds, progress=epochs).model


def _integrate(name: ModelName, model: TwoLevel, parts: list[tuple[Part, Part, Part]]) -> TwoLevel:
    if name.integration == "common":
        return integrate_common(model, [len(train_part.trace.source) for train_part, _, _ in parts])
    return integrate_varying(model, [validate for _, validate, _ in parts])


def _score(model: TwoLevel, parts: Sequence[Part]) -> list[LLRs]:
    scores = score(model, [part.trace for part in parts], [part.ref for part in parts])
    return [LLRs.from_matrix(llr, part.trace.source, part.ref.source) for llr, part in zip(scores, parts, strict=True)]


def _gaussianised(split: Split, kind: str | None) -> tuple[Part, Part, Part]:
    if kind is None:
        return split.parts
    transform = fit_gaussianiser(cast(Gaussianiser, kind), split.train.values)
    train_part, validate, test = (part.with_values(transform(part.values)) for part in split.parts)
    return train_part, validate, test


def _calibrate(step: str, before: _Scored) -> tuple[list[LLRs], list[LLRs]]:
    """Fitted on the validation pairs of each split, applied to its validation and test pairs."""
    fitted = [CALIBRATIONS[step].fit(llrs) for llrs in before.validate]
    validate = [llrs.map(f) for llrs, f in zip(before.validate, fitted, strict=True)]
    return validate, [llrs.map(f) for llrs, f in zip(before.test, fitted, strict=True)]


def _oracle(splits: Sequence[Split]) -> list[float]:
    population = glass_population()
    return [cllr(_score(oracle(population, split.scaling), [split.test])[0]) for split in splits]

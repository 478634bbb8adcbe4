"""Run an experiment: split, fit, score, calibrate, evaluate. Models that share work share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from lindley.calibration import CALIBRATIONS
from lindley.data.simulated import glass_population
from lindley.data.splits import Part, Split, make_splits
from lindley.data.table import Table
from lindley.evaluation.metrics import cllr
from lindley.experiment.config import Experiment
from lindley.experiment.names import ModelName, parse_models
from lindley.experiment.results import ModelResult, Results
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.gaussianise import Gaussianiser, fit_gaussianiser
from lindley.models.oracle import oracle
from lindley.models.two_level import TwoLevel, score

__all__ = ["run_experiment"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the experiment that is done, 0 to 1."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """The LLRs of a model on every split, and what they cost."""

    validate: list[LLRs]
    test: list[LLRs]
    seconds: float


def run_experiment(experiment: Experiment, table: Table, progress: Progress = lambda doing, done: None) -> Results:
    """Every model of the experiment on every split.

    ``seconds`` of a model counts all that it needed, also where it was computed once for several models.
    """
    models = parse_models(experiment.models)
    splits = make_splits(table, experiment.protocol)
    needed = _closure(models)
    known: dict[ModelName, _Scored] = {}
    results: dict[str, ModelResult] = {}
    simulated = table.name == "glass-simulated"
    n_steps = len(needed) + simulated

    for step, name in enumerate(needed):
        progress(f"{name}, {len(splits)} splits", step / n_steps)
        started = time.perf_counter()
        if name.calibrations:
            before = known[ModelName(name.gaussianiser, name.base, name.calibrations[:-1])]
            validate, test = _calibrate(name.calibrations[-1], before)
        else:
            before = None
            validate, test = _fit_and_score(name, splits)
        seconds = time.perf_counter() - started + (before.seconds if before else 0.0)
        known[name] = _Scored(validate, test, seconds)
        if name in models:
            results[str(name)] = ModelResult.of(validate, test, seconds)

    oracle_cllr = None
    if simulated:
        progress(f"the oracle, {len(splits)} splits", 1 - 1 / n_steps)
        oracle_cllr = _oracle(splits)
    progress("done", 1.0)
    return Results(experiment, table, {str(name): results[str(name)] for name in models}, oracle_cllr)


def _closure(models: Sequence[ModelName]) -> list[ModelName]:
    """The models and all that they build on, each before what needs it."""
    needed: dict[ModelName, None] = {}
    for name in models:
        for n in range(len(name.calibrations) + 1):
            needed.setdefault(ModelName(name.gaussianiser, name.base, name.calibrations[:n]))
    return list(needed)


def _fit_and_score(name: ModelName, splits: Sequence[Split]) -> tuple[list[LLRs], list[LLRs]]:
    """Fitted on the training parts, scored on all pairs of the validation and of the test parts."""
    parts = [_gaussianised(split, name.gaussianiser) for split in splits]
    model = fit_classical([train for train, _, _ in parts], "kernel" if name.base == "tlm-kde" else "normal")
    return _score(model, [validate for _, validate, _ in parts]), _score(model, [test for _, _, test in parts])


def _score(model: TwoLevel, parts: Sequence[Part]) -> list[LLRs]:
    scores = score(model, [part.trace for part in parts], [part.ref for part in parts])
    return [LLRs.from_matrix(llr, part.trace.source, part.ref.source) for llr, part in zip(scores, parts, strict=True)]


def _gaussianised(split: Split, kind: str | None) -> tuple[Part, Part, Part]:
    if kind is None:
        return split.parts
    transform = fit_gaussianiser(cast(Gaussianiser, kind), split.train.values)
    train, validate, test = (part.with_values(transform(part.values)) for part in split.parts)
    return train, validate, test


def _calibrate(step: str, before: _Scored) -> tuple[list[LLRs], list[LLRs]]:
    """Fitted on the validation pairs of each split, applied to its validation and test pairs."""
    fitted = [CALIBRATIONS[step].fit(llrs) for llrs in before.validate]
    validate = [llrs.map(f) for llrs, f in zip(before.validate, fitted, strict=True)]
    return validate, [llrs.map(f) for llrs, f in zip(before.test, fitted, strict=True)]


def _oracle(splits: Sequence[Split]) -> list[float]:
    population = glass_population()
    return [cllr(_score(oracle(population, split.scaling), [split.test])[0]) for split in splits]

"""Do one unit of an experiment: split, fit, score, integrate, calibrate, evaluate. The result is bytes and plain numbers.

It runs with one thread for linear algebra, so that the last bits do not depend on how many cores a machine has; training
puts its runs on two cores by itself.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lindley.calibration import CALIBRATIONS
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import Experiment
from lindley.experiment.plan import ORACLE, Unit, folder_name, split_seed
from lindley.llrs import Floats, LLRs
from lindley.models.blocks import one_thread
from lindley.models.gaussianise import Gaussianiser, fit_gaussianiser
from lindley.models.neural.history import History
from lindley.models.oracle import oracle
from lindley.models.two_level import TwoLevel, score
from lindley.system.fitting import Progress as Report
from lindley.system.fitting import fit_root, integrate, require_device
from lindley.system.held_out import held_out_llrs, join_parts
from lindley.system.names import ModelName
from lindley.system.storage import Model, model_to_bytes
from lindley.table.simulated import glass_population
from lindley.table.splits import Part, Split, make_split
from lindley.table.table import Table

__all__ = ["Finished", "do_unit", "gaussianised", "model_file"]

LARGEST = 3e38
"""LLRs beyond ± this would be infinite in float32."""
Parts = tuple[Part, Part, Part]


@dataclass(frozen=True)
class Finished:
    """What a unit leaves: the content of its files by their paths, and its figures, ready for JSON."""

    files: dict[str, bytes]
    record: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Scored:
    """A model on every split of the unit: the model itself where it is not a calibration, and its LLRs."""

    model: Model | None
    validate: list[LLRs]  # of pairs that the model had not seen
    test: list[Floats]  # (traces, refs), log10
    calibration: list[list[dict[str, Any]]]  # per split, the steps so far and their numbers
    seconds: float


def do_unit(
    experiment: Experiment,
    table: Table,
    unit: Unit,
    report: Report = lambda detail, share: None,
    threads: int | None = None,
) -> Finished:
    """Every model of the unit on its splits.

    ``seconds`` of a model counts all that it needed, also where it was computed once for several models. LLRs are
    stored, in float32, of the models that the experiment asks for; the figures are computed before they are rounded.
    """
    require_device(experiment.training)
    threads = torch.get_num_threads() if threads is None else threads
    rows = set(experiment.rows.values()) | {ORACLE}
    files: dict[str, bytes] = {}
    models: dict[str, Any] = {}
    with one_thread(), threadpool_limits(1):
        started = time.perf_counter()
        splits = [make_split(table, experiment.protocol, index) for index in unit.splits]
        seeds = _seeds(unit, experiment)
        parts = [gaussianised(split, unit.root.gaussianiser, seed) for split, seed in zip(splits, seeds, strict=True)]
        known: dict[ModelName, _Scored] = {}
        for name in unit.models:
            if name.before is None:
                known[name], history = _root(unit, table, splits, parts, experiment, report, threads, started)
                if history is not None:
                    files[model_file(name, unit.span, "history.npz")] = _npz(_history(history))
            else:
                known[name] = _built_on(name, known[name.before], parts, seeds)
            scored = known[name]
            if scored.model is not None and name != ORACLE:
                about = {"model": str(name), "splits": [index + 1 for index in unit.splits]}
                files[model_file(name, unit.span, "model.safetensors")] = model_to_bytes(scored.model, about)
            if name in rows:
                files[model_file(name, unit.span, "llrs.npz")] = _npz(_llr_arrays(unit, scored, parts))
                models[str(name)] = _figures(scored, parts)
    return Finished(files, {"models": models})


def model_file(name: ModelName, span: str, what: str) -> str:
    """Where a file of a model is, inside the folder of results: ``models/tlm/llrs-01-10.npz``."""
    stem, dot, ending = what.partition(".")
    return f"models/{folder_name(name)}/{stem}-{span}{dot}{ending}"


def gaussianised(split: Split, kind: str | None, seed: int) -> Parts:
    """Train, validate and test as a model sees them."""
    if kind is None:
        return split.parts
    learn = split.train
    transform = fit_gaussianiser(
        cast(Gaussianiser, kind), learn.values, source=learn.source, group=learn.group, seed=seed
    )
    train_part, validate, test = (part.with_values(transform(part.values)) for part in split.parts)
    return train_part, validate, test


def _root(
    unit: Unit,
    table: Table,
    splits: Sequence[Split],
    parts: Sequence[Parts],
    experiment: Experiment,
    report: Report,
    threads: int,
    started: float,
) -> tuple[_Scored, History | None]:
    """The model that the unit builds on, scored; one that learns from all but the test part, with pairs held out of a fit."""
    name = unit.root
    if name == ORACLE:
        population = glass_population()
        return _scored([oracle(population, split.scaling) for split in splits], parts, started), None
    learn, validate, test = ([p[k] for p in parts] for k in range(3))
    if name.learns_from_all:
        learn = [join_parts([train_part, validate_part]) for train_part, validate_part, _ in parts]
    seeds = _seeds(unit, experiment)
    fitted = fit_root(
        name, learn, validate, seeds,
        training=experiment.training, features=table.features, progress=report, threads=threads,
    )  # fmt: skip
    if not name.learns_from_all:
        return _scored(fitted.model, parts, started), fitted.history
    assert fitted.again is not None
    held_out = [
        held_out_llrs([part], fitted.again(run), np.random.default_rng((seed, 5)))
        for run, (part, seed) in enumerate(zip(learn, seeds, strict=True))
    ]
    scores = score(fitted.model, [part.trace for part in test], [part.ref for part in test])
    return _Scored(fitted.model, held_out, scores, [[] for _ in parts], time.perf_counter() - started), None


def _seeds(unit: Unit, experiment: Experiment) -> list[int]:
    return [split_seed(experiment, index) for index in unit.splits]


def _built_on(name: ModelName, before: _Scored, parts: Sequence[Parts], seeds: Sequence[int]) -> _Scored:
    started = time.perf_counter() - before.seconds
    if name.calibrations:
        return _calibrated(name.calibrations[-1], before, started)
    assert before.model is not None
    learn, validate, _ = zip(*parts, strict=True)
    model = integrate(name, before.model, learn, validate, seeds)
    return _scored(model, parts, started)


def _scored(model: Model | list[TwoLevel], parts: Sequence[Parts], started: float) -> _Scored:
    """Score validation and test pairs; a model of all runs at once, or one per run."""
    validate, test = [p[1] for p in parts], [p[2] for p in parts]
    if isinstance(model, list):
        both = [
            [score(one, [part.trace], [part.ref])[0] for one, part in zip(model, side, strict=True)]
            for side in (validate, test)
        ]
        whole = None
    else:
        both = [score(model, [part.trace for part in side], [part.ref for part in side]) for side in (validate, test)]
        whole = model
    seen = [_pairs(llr, part) for llr, part in zip(both[0], validate, strict=True)]
    return _Scored(whole, seen, both[1], [[] for _ in parts], time.perf_counter() - started)


def _calibrated(step: str, before: _Scored, started: float) -> _Scored:
    """Fitted on the validation pairs of each split, applied to its validation and test pairs."""
    fitted = [CALIBRATIONS[step].fit(llrs) for llrs in before.validate]
    return _Scored(
        None,
        [llrs.map(f) for f, llrs in zip(fitted, before.validate, strict=True)],
        [f(llr) for f, llr in zip(fitted, before.test, strict=True)],
        [[*steps, {"name": step, **f.describe()}] for steps, f in zip(before.calibration, fitted, strict=True)],
        time.perf_counter() - started,
    )


def _pairs(llr: Floats, part: Part) -> LLRs:
    return LLRs.from_matrix(llr, part.trace.source, part.ref.source)


def _figures(scored: _Scored, parts: Sequence[Parts]) -> dict[str, Any]:
    test = [_pairs(llr, part) for llr, (_, _, part) in zip(scored.test, parts, strict=True)]
    figures: dict[str, Any] = {
        "validate": {"cllr": [float(cllr(llrs)) for llrs in scored.validate]},
        "test": {
            "cllr": [float(cllr(llrs)) for llrs in test],
            "cllr_min": [float(cllr_min(llrs)) for llrs in test],
        },
        "seconds": round(scored.seconds, 3),
    }
    if any(scored.calibration):
        figures["calibration"] = scored.calibration
    return figures


def _llr_arrays(unit: Unit, scored: _Scored, parts: Sequence[Parts]) -> dict[str, NDArray[Any]]:
    """Of every split, ``test_01`` (traces × refs) with the sources of its rows and columns, and the validation pairs."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, (_, _, part), validate, test in zip(unit.splits, parts, scored.validate, scored.test, strict=True):
        number = f"{index + 1:02d}"
        arrays |= {
            f"test_{number}": _single(test),
            f"test_{number}_trace": part.trace.source,
            f"test_{number}_ref": part.ref.source,
            f"validate_{number}_same": _single(validate.same),
            f"validate_{number}_different": _single(validate.different),
        }
        for side in ("same", "different"):
            weight = getattr(validate, f"{side}_weight")
            if weight is not None:
                arrays[f"validate_{number}_{side}_weight"] = weight
    return arrays


def _single(llr: Floats) -> NDArray[np.float32]:
    return np.clip(llr, -LARGEST, LARGEST).astype(np.float32)


def _history(history: History) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "train": history.train,
        "validate": history.validate,
        "best_epoch": history.best_epoch,
    }
    if history.validate_axes is not None:
        arrays["validate_axes"] = history.validate_axes.astype(np.float32)
    return arrays


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    return data.getvalue()

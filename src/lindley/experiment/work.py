"""Do one unit of an experiment: split, fit, score, integrate, calibrate, evaluate. The result is bytes and plain numbers.

It runs with one thread for linear algebra, so that the last bits do not depend on how many cores a machine has; training
puts its runs on two cores by itself.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lindley.calibration import CALIBRATIONS
from lindley.data.simulated import glass_population
from lindley.data.splits import Part, Split, make_split
from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import Experiment
from lindley.experiment.crossfit import held_out_llrs, join_parts
from lindley.experiment.names import NEURAL, ROBUST, ModelName
from lindley.experiment.plan import ORACLE, Unit, folder_name
from lindley.integration.common import integrate_common
from lindley.integration.varying import integrate_varying
from lindley.llrs import Floats, LLRs
from lindley.models.classical import fit_classical
from lindley.models.gaussianise import Gaussianiser, fit_gaussianiser
from lindley.models.oracle import oracle
from lindley.models.orthonormal import OrthonormalKind
from lindley.models.parameters import Architecture
from lindley.models.robust import Robust
from lindley.models.two_level import PairModel, TwoLevel, score
from lindley.storage import Model, model_to_bytes
from lindley.training.history import History
from lindley.training.loop import Training, train
from lindley.training.robust import ALL_STEPS, FittedRobust, fit_robust

__all__ = ["Finished", "do_unit", "gaussianised", "model_file", "require_device"]

LARGEST = 3e38
"""LLRs beyond ± this would be infinite in float32."""
Parts = tuple[Part, Part, Part]
Report = Callable[[str, float], None]
"""Called with what is being done and the share of the unit that is done, 0 to 1."""


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
    experiment: Experiment, table: Table, unit: Unit, report: Report = lambda detail, share: None, threads: int = 2
) -> Finished:
    """Every model of the unit on its splits.

    ``seconds`` of a model counts all that it needed, also where it was computed once for several models. LLRs are
    stored, in float32, of the models that the experiment asks for; the figures are computed before they are rounded.
    """
    require_device(experiment)
    rows = set(experiment.rows.values()) | {ORACLE}
    files: dict[str, bytes] = {}
    models: dict[str, Any] = {}
    with _one_thread():
        started = time.perf_counter()
        splits = [make_split(table, experiment.protocol, index) for index in unit.splits]
        parts = [gaussianised(split, unit.root.gaussianiser) for split in splits]
        known: dict[ModelName, _Scored] = {}
        for name in unit.models:
            if name.before is None:
                history = None
                if name.cross_fitted or name.base == ROBUST:
                    known[name] = _cross_fitted(unit, parts, experiment, report, started)
                else:
                    model, history = _root(unit, splits, parts, experiment, report, threads)
                    known[name] = _scored(model, parts, started)
                if history is not None:
                    files[model_file(name, unit.span, "history.npz")] = _npz(_history(history))
            else:
                known[name] = _built_on(name, known[name.before], parts, _seeds(unit, experiment))
            scored = known[name]
            if scored.model is not None and name != ORACLE:
                about = {"model": str(name), "splits": [index + 1 for index in unit.splits]}
                files[model_file(name, unit.span, "model.safetensors")] = model_to_bytes(scored.model, about)
            if name in rows:
                files[model_file(name, unit.span, "llrs.npz")] = _npz(_llr_arrays(unit, scored, parts))
                models[str(name)] = _figures(scored, parts)
    return Finished(files, {"models": models})


def require_device(experiment: Experiment) -> None:
    """Tell that there is no GPU, where one was asked for."""
    if experiment.training.device == "cuda" and not torch.cuda.is_available():
        raise LindleyError("--device cuda: this machine has no CUDA device that torch can use. Use --device cpu.")


def model_file(name: ModelName, span: str, what: str) -> str:
    """Where a file of a model is, inside the folder of results: ``models/tlm/llrs-01-10.npz``."""
    stem, dot, ending = what.partition(".")
    return f"models/{folder_name(name)}/{stem}-{span}{dot}{ending}"


def gaussianised(split: Split, kind: str | None) -> Parts:
    """Train, validate and test as a model sees them."""
    if kind is None:
        return split.parts
    transform = fit_gaussianiser(cast(Gaussianiser, kind), split.train.values)
    train_part, validate, test = (part.with_values(transform(part.values)) for part in split.parts)
    return train_part, validate, test


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def _root(
    unit: Unit, splits: Sequence[Split], parts: Sequence[Parts], experiment: Experiment, report: Report, threads: int
) -> tuple[Model | list[TwoLevel], History | None]:
    """Classical models from the training parts; neural ones with the best epoch on the validation parts."""
    name = unit.root
    if name == ORACLE:
        population = glass_population()
        return [oracle(population, split.scaling) for split in splits], None
    train_parts, validate_parts = [p[0] for p in parts], [p[1] for p in parts]
    if name.base not in NEURAL:
        return fit_classical(train_parts, _between(name)), None
    architecture, training = _choices(name, experiment)
    seeds = _seeds(unit, experiment)

    def epochs(epoch: int, best: float) -> None:
        report(f"epoch {epoch} of {training.epochs}, validation Cllr {best:.4f}", epoch / training.epochs)

    trained = train(architecture, training, train_parts, validate_parts, seeds, progress=epochs, threads=threads)
    return trained.model, trained.history


def _seeds(unit: Unit, experiment: Experiment) -> list[int]:
    """One per split; those of a split do not depend on how many there are."""
    return [(experiment.protocol.seed * 1_000_003 + index) % 2**63 for index in unit.splits]


def _cross_fitted(
    unit: Unit, parts: Sequence[Parts], experiment: Experiment, report: Report, started: float
) -> _Scored:
    """A model of train and validation sources together, with the LLRs of pairs that were held out of its fit."""
    learnt = [join_parts([train_part, validate_part]) for train_part, validate_part, _ in parts]
    seeds = _seeds(unit, experiment)
    model: Model
    if unit.root.base == ROBUST:

        def steps(step: int, cost: float) -> None:
            report(f"step {step} of {ALL_STEPS}, held-out cost {cost:.4f}", step / ALL_STEPS)

        fitted = fit_robust([[part] for part in learnt], seeds, progress=steps)
        model = fitted.model
        fits: list[Callable[[Part], PairModel]] = [
            partial(_again, fitted=fitted, run=run) for run in range(len(learnt))
        ]
    else:
        kind = _between(unit.root)
        model = fit_classical(learnt, kind)
        fits = [partial(_classical, kind=kind)] * len(learnt)
    validate = [
        held_out_llrs([part], fit, np.random.default_rng((seed, 5)))
        for part, fit, seed in zip(learnt, fits, seeds, strict=True)
    ]
    test = score(model, [part.trace for _, _, part in parts], [part.ref for _, _, part in parts])
    return _Scored(model, validate, test, [[] for _ in parts], time.perf_counter() - started)


def _classical(part: Part, kind: Literal["normal", "kernel"]) -> TwoLevel:
    return fit_classical([part], kind)


def _again(part: Part, fitted: FittedRobust, run: int) -> Robust:
    return fitted.again([[part]], run)


def _between(name: ModelName) -> Literal["normal", "kernel"]:
    return "kernel" if name.base == "tlm-kde" else "normal"


def _choices(name: ModelName, experiment: Experiment) -> tuple[Architecture, Training]:
    """The architecture and the training of a neural model: its own options before the experiment's."""
    _, projection, mode, within = name.base.split("-")
    given: Mapping[str, Any] = dict(name.options)
    architecture = Architecture(
        cast(Literal["single", "double"], projection),
        cast(Literal[1, 2], int(within[1:])),
        given.get("components", 1),
        cast(OrthonormalKind, given.get("orthonormal", "exponential")),
        given.get("start", "random"),
    )
    shared = experiment.training
    training = Training(
        cast(Literal["pairs", "sources"], mode),
        epochs=given.get("epochs", shared.epochs),
        batch=given.get("batch", shared.batch),
        learning_rate=given.get("learning_rate", shared.learning_rate),
        weight_decay=given.get("weight_decay", shared.weight_decay),
        device=shared.device,
    )
    return architecture, training


def _built_on(name: ModelName, before: _Scored, parts: Sequence[Parts], seeds: Sequence[int]) -> _Scored:
    started = time.perf_counter() - before.seconds
    if name.calibrations:
        return _calibrated(name.calibrations[-1], before, started)
    model = cast(TwoLevel, before.model)
    if name.integration == "common":
        model = integrate_common(model, [len(train_part.trace.source) for train_part, _, _ in parts])
    else:
        samples = cast(int | None, dict(name.options).get("samples"))
        model = integrate_varying(model, [validate for _, validate, _ in parts], samples=samples, seeds=seeds)
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

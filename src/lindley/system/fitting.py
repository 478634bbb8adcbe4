"""What the name of a model stands for: how it is fitted, for all runs at once.

Experiments, systems for casework and the interfaces of other programs all come here. They differ in where their sources come
from; a name means the same to each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig, TrainingConfig
from lindley.llrs import Floats
from lindley.models.bayes.fit import fit_full_bayes
from lindley.models.classical import fit_classical
from lindley.models.heavy_tailed.fit import fit_ht_plda
from lindley.models.neural.common import integrate_common
from lindley.models.neural.history import History
from lindley.models.neural.loop import Training, train
from lindley.models.neural.nplda import EPOCHS, fit_nplda
from lindley.models.neural.orthonormal import OrthonormalKind
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.neural.varying import integrate_varying
from lindley.models.robust.fit import ALL_STEPS, fit_robust
from lindley.models.two_level import TwoLevel
from lindley.system.names import CLASSICAL, NPLDA, ROBUST, ModelName
from lindley.system.storage import Model
from lindley.table.scaling import Scaling
from lindley.table.splits import Part
from lindley.table.table import Table

__all__ = ["Fitted", "Progress", "fit_root", "integrate", "require_device", "silent", "whole_part"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, 0 to 1."""
DEFAULTS = TrainingConfig()
PRETRAINING_VALIDATION = 1 / 3
"""Of the sources of a table for pretraining."""


def silent(detail: str, share: float) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The models of all runs, and what else came of it."""

    model: Model
    history: History | None = None  # of a training
    again: Callable[[int], Callable[[Part], Model]] | None = None
    """For a run, the same fit on other sources, with what was chosen for it; None where that would be another training."""


def fit_root(
    name: ModelName,
    learn: Sequence[Part],
    validate: Sequence[Part],
    seeds: Sequence[int],
    *,
    training: TrainingConfig = DEFAULTS,
    watched: int | None = None,
    features: Sequence[str] | None = None,
    progress: Progress = silent,
    threads: int | None = None,
) -> Fitted:
    """Fit or train what a name builds on, without its integration and calibration.

    Args:
        name: of the model.
        learn: what each run learns from.
        validate: where the epoch of a training is chosen; not looked at by other models.
        seeds: one per run.
        training: how, where the name's own options do not say otherwise.
        watched: pairs that a training's history follows; None for its default.
        features: names of the features, for pretraining on another table.
        progress: is told what is done.
        threads: fits or trainings that run side by side, as many as torch may use unless given; they change no number.
    """
    root = name.root
    threads = torch.get_num_threads() if threads is None else threads
    if root.base == ROBUST:
        return _robust(root, learn, seeds, progress, threads)
    if root.base in CLASSICAL:
        fit = partial(_without_training, root.base)
        return Fitted(fit(learn, seeds, progress), again=lambda run: lambda part: fit([part], [seeds[run]], silent))
    given: Mapping[str, Any] = dict(root.options)
    epochs = given.get("epochs", EPOCHS if root.base == NPLDA else training.epochs)

    def report(epoch: int, best: float) -> None:
        what = "detection cost" if root.base == NPLDA else "Cllr"
        progress(f"epoch {epoch} of {epochs}, validation {what} {best:.4f}", epoch / epochs)

    require_device(training)
    if root.base == NPLDA:
        model, _ = fit_nplda(learn, validate, seeds, epochs=epochs, device=training.device, progress=report)
        return Fitted(model)
    architecture, settings = _choices(root, training, watched)
    start = None
    if "pretrain" in given:
        start = _pretrained(given["pretrain"], architecture, settings, features, threads).for_runs([0] * len(learn))
    trained = train(architecture, settings, learn, validate, seeds, start=start, progress=report, threads=threads)
    return Fitted(trained.model, trained.history)


def integrate(
    name: ModelName, model: Model, learn: Sequence[Part], validate: Sequence[Part], seeds: Sequence[int]
) -> Model:
    """The model with its variance integrated out, if its name asks for that."""
    if name.integration is None:
        return model
    two_level = cast(TwoLevel, model)
    if name.integration == "common":
        return integrate_common(two_level, [len(part.trace.source) for part in learn])
    samples = cast(int | None, dict(name.options).get("samples"))
    return integrate_varying(two_level, validate, samples=samples, seeds=seeds)


def require_device(training: TrainingConfig) -> None:
    """Tell that there is no GPU, where one was asked for."""
    if training.device == "cuda" and not torch.cuda.is_available():
        raise LindleyError("--device cuda: this machine has no CUDA device that torch can use. Use --device cpu.")


def whole_part(values: Floats, source: NDArray[np.str_], group: NDArray[np.str_] | None = None) -> Part:
    """All instances: the first of every source as its trace, the others as its ref."""
    _, first = np.unique(source, return_index=True)
    is_trace = np.zeros(len(source), dtype=bool)
    is_trace[first] = True
    return Part(values, source, is_trace, group)


def _without_training(base: str, parts: Sequence[Part], seeds: Sequence[int], progress: Progress) -> Model:
    if base == "tlm-bayes":
        return fit_full_bayes(
            parts, seeds, progress=lambda run: progress(f"split {run} of {len(parts)}", run / len(parts))
        )
    if base == "ht-plda":
        return fit_ht_plda(parts, lambda run, fit: progress(f"split {run} of {len(parts)}", run / len(parts)))
    return fit_classical(parts, "kernel" if base == "tlm-kde" else "normal")


def _robust(name: ModelName, parts: Sequence[Part], seeds: Sequence[int], progress: Progress, threads: int) -> Fitted:
    def steps(step: int, cost: float) -> None:
        progress(f"step {step} of {ALL_STEPS}, held-out cost {cost:.4f}", step / ALL_STEPS)

    other = dict(name.options).get("pretrain")
    centre = {} if other is None else {"centre": _scalars_of(str(other))}
    fitted = fit_robust([[part] for part in parts], seeds, steps, threads=threads, **centre)
    return Fitted(fitted.model, again=lambda run: lambda part: fitted.again([[part]], run))


def _choices(name: ModelName, training: TrainingConfig, watched: int | None) -> tuple[Architecture, Training]:
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
    own = {key: given.get(key, getattr(training, key)) for key in ("epochs", "batch", "learning_rate", "weight_decay")}
    if watched is not None:
        own["watched"] = watched
    return architecture, Training(cast(Literal["pairs", "sources"], mode), device=training.device, **own)


def _scalars_of(other: str) -> torch.Tensor:
    """The robust model's scalars, fitted on all sources of another table."""
    table = DataConfig(data=other).load()
    values = Scaling.fit(table.values, table.features, table.name)(table.values)
    return fit_robust([[whole_part(values, table.source, table.group)]], [0]).scalars[0]


def _pretrained(
    other: str,
    architecture: Architecture,
    training: Training,
    features: Sequence[str] | None,
    threads: int,
) -> Parameters:
    """The parameters that the same training reaches on another table, standardised by itself: one run."""
    table = DataConfig(data=other).load()
    part = _with_features(table, features)
    values = Scaling.fit(part, features or (), table.name)(part)
    rng = np.random.default_rng((0, 11))
    groups = np.unique(table.group)
    kept = rng.permutation(groups)[: max(2, round(PRETRAINING_VALIDATION * len(groups)))]
    validating = np.isin(table.group, kept)
    sides = [whole_part(values[rows], table.source[rows]) for rows in (~validating, validating)]
    return train(architecture, training, sides[:1], sides[1:], [0], threads=threads).parameters


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

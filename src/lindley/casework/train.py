"""Train a system on a table: the model, how sure it is, and what its validation pairs support.

Classical models and the robust one need no validation data of their own. They are *cross-fitted*: the sources are dealt into
folds, each fold is scored by a model that was fitted on the others, and all those LRs together give the calibration, the
bounds and the validation figures; the system itself is fitted on all sources. A neural model stops on validation data, so it
keeps a third of the sources for that, and its figures on them flatter it a little.

How sure the model is of its parameters is told by a bootstrap over sources (or groups of sources): each replicate is the
same model fitted on sources drawn with replacement, or, for the robust model, on half of the sources.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lindley.calibration import CALIBRATIONS, Elub
from lindley.errors import LindleyError
from lindley.evaluation.metrics import summary
from lindley.experiment.config import TrainingConfig
from lindley.experiment.plan import versions
from lindley.llrs import Floats, LLRs
from lindley.models.classical import estimate_moments
from lindley.models.two_level import PairModel, item_squares, score
from lindley.system.fitting import Fitted, fit_root, integrate, whole_part
from lindley.system.held_out import deal_folds
from lindley.system.names import NPLDA, ROBUST, ModelName
from lindley.system.storage import Model
from lindley.system.system import KnownSources, System, instance_digests, today
from lindley.table.scaling import Scaling
from lindley.table.splits import Part, Side
from lindley.table.table import Table
from lindley.version import __version__

__all__ = ["TrainedSystem", "TrainingChoices", "train_system"]

REPLICATES = {"tlm": 100, "tlm-kde": 100, "ht-plda": 20, "tlm-bayes": 10, ROBUST: 10}
NEURAL_REPLICATES = 20
"""Of the bootstrap, unless it is said how many: what is fitted at once gets many, the others take their time."""
OF_OTHERS = {
    ROBUST: "with axes and kernels of the others (its 13 scalars and its shrinkage were fitted on all sources, which "
    "flatters these figures a little)"
}
"""What is made of the other folds of sources in cross-fitting, where it is not all of a model."""
VALIDATION_SHARE = 1 / 3
MIN_SOURCES = 10
Labels = NDArray[np.str_]
Progress = Callable[[str, str, float], None]


@dataclass(frozen=True)
class TrainingChoices:
    """What `train_system` may be told."""

    model: str = "robust"
    replicates: int | None = (
        None  # of the bootstrap; default 10 for robust, 100 for tlm and tlm-kde, 20 for neural models
    )
    epochs: int = 2000
    seed: int = 0
    units: tuple[str | None, ...] = ()
    transform: str = "none"
    reference: str | None = None


DEFAULTS = TrainingChoices()


@dataclass(frozen=True, eq=False)
class TrainedSystem:
    """A system and what its file says about it."""

    system: System
    about: dict[str, Any]


def train_system(
    table: Table, choices: TrainingChoices = DEFAULTS, progress: Progress = lambda doing, detail, done: None
) -> TrainedSystem:
    """Train a system on all sources of a table."""
    name = ModelName.parse(choices.model)
    if name.gaussianiser is not None:
        raise LindleyError(
            f"'{choices.model}': a Gaussianised model is a benchmark of experiments, and not made into a system. Leave "
            f"'{name.gaussianiser}:' out."
        )
    if name.root.base == NPLDA:
        raise LindleyError(
            f"'{choices.model}': neural PLDA is a benchmark of experiments, and not made into a system: its score has no "
            "similarity and no typicality to report."
        )
    _require_data(table)
    rng = np.random.default_rng((choices.seed, 20_26))
    scaling = Scaling.fit(table.values, table.features, table.name)
    values = scaling(table.values)
    make = _trained if name.is_trained else _fitted
    model, held_out = make(table, values, name, choices, rng, progress)
    calibration, llrs = [], held_out.llrs
    for step in name.calibrations:
        fitted = CALIBRATIONS[step].fit(llrs)
        calibration.append(fitted)
        llrs = llrs.map(fitted)
    bounds = Elub.fit(llrs)
    # Perfectly separated pairs have an infinite devPAV, which JSON cannot hold.
    metrics = {key: float(value) if np.isfinite(value) else None for key, value in summary(llrs).items()}
    system = System(
        name=str(name),
        features=table.features,
        units=choices.units or (None,) * len(table.features),
        transform=choices.transform,
        reference=choices.reference,
        mean=scaling.mean,
        sd=scaling.sd,
        model=model,
        calibration=tuple(calibration),
        population=_population(model, values, table.source),
        bounds=(float(bounds.lower), float(bounds.upper)),
        digests=instance_digests(table),
    )
    about = {
        "model": str(name),
        "created": today(),
        "versions": versions(),
        "lindley": __version__,
        "seed": choices.seed,
        "epochs": choices.epochs if name.is_trained else None,
        "data": {
            "name": table.name,
            "sha256": table.sha256(),
            "sources": len(table.sources),
            "groups": len(np.unique(table.group)),
            "rows": len(table.values),
        },
        "validation": {
            "how": held_out.how,
            "pairs_same": len(llrs.same),
            "pairs_different": len(llrs.different),
            **metrics,
        },
        "bootstrap": len(model.centre) - 1,
    }
    progress("done", "", 1.0)
    return TrainedSystem(system, about)


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """LRs of pairs that the model had not seen, and how that came about."""

    llrs: LLRs
    how: str


def _require_data(table: Table) -> None:
    _, counts = np.unique(table.source, return_counts=True)
    if len(counts) < MIN_SOURCES or (counts >= 2).sum() < MIN_SOURCES // 2:
        raise LindleyError(
            f"{table.name}: {len(counts)} sources, {(counts >= 2).sum()} of them measured twice or more, are too few for "
            f"a system: it needs {MIN_SOURCES} at least, half of them with replicates, and hundreds to be of use."
        )


def _cross_fitted(table: Table, fit: Callable[[Part], PairModel], rng: np.random.Generator, of_others: str) -> _HeldOut:
    """Every source is scored by a model that is made of others, none of them of its group; ``of_others`` says how."""
    fold = deal_folds(table.group, rng)
    same, different = [], []
    for number in range(int(fold.max()) + 1):
        inside, rest = fold == number, fold != number
        scaling = Scaling.fit(table.values[rest], table.features, f"{table.name}, fold {number + 1}")
        fitted = fit(whole_part(scaling(table.values[rest]), table.source[rest], table.group[rest]))
        held_out = _one_against_one(scaling(table.values[inside]), table.source[inside], rng)
        if len(held_out.ref.source) < 1 or len(held_out.trace.source) < 2:
            continue
        llrs = _llrs(fitted, held_out)
        same.append(llrs.same)
        different.append(llrs.different)
    if not same:
        raise LindleyError(f"{table.name}: no fold of the sources holds a source measured twice beside another one.")
    by = f"cross-fitting: {fold.max() + 1} folds of sources, each scored by a model {of_others}, one instance against one"
    return _HeldOut(LLRs(np.concatenate(same), np.concatenate(different)), by)


def _trained(
    table: Table,
    values: Floats,
    name: ModelName,
    choices: TrainingChoices,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Model, _HeldOut]:
    """Train on two thirds, stop on the last third; the replicates are trained beside it, in one go."""
    groups = np.unique(table.group)
    order = groups[np.argsort(rng.random(len(groups)), kind="stable")]
    validating = np.isin(table.group, order[: max(2, round(VALIDATION_SHARE * len(groups)))])
    part = whole_part(values[~validating], table.source[~validating])
    validate = _one_against_one(values[validating], table.source[validating], rng)
    replicates = NEURAL_REPLICATES if choices.replicates is None else choices.replicates
    parts = [part, *(_resampled(values, table, ~validating, rng) for _ in range(replicates))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _fit(name, parts, [validate] * len(parts), choices, progress).model
        everything = whole_part(values[validating], table.source[validating])
        model = integrate(name, model, parts, [everything] * len(parts), _seeds(choices, len(parts)))
    runs = len(parts)
    point = model.map(lambda t: t[:1] if t.ndim > 1 and len(t) == runs else t)
    return model, _HeldOut(
        _llrs(point, validate),
        "a third of the sources, kept from training; the training stopped where it did best on them, which flatters "
        "these figures a little; one instance against one",
    )


def _fitted(
    table: Table,
    values: Floats,
    name: ModelName,
    choices: TrainingChoices,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Model, _HeldOut]:
    """Fit on all sources and on replicates of them; what is held out comes from folds."""
    replicates = REPLICATES[name.root.base] if choices.replicates is None else choices.replicates
    everything = np.ones(len(values), dtype=bool)
    draw = partial(_half, values, table) if name.root.base == ROBUST else partial(_resampled, values, table, everything)
    parts = [whole_part(values, table.source, table.group), *(draw(rng) for _ in range(replicates))]
    estimate_moments(parts[:1])  # tells of shrinkage, once and of all sources
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = _fit(name, parts, [], choices, progress)
        assert fitted.again is not None
        return fitted.model, _cross_fitted(
            table, fitted.again(0), rng, OF_OTHERS.get(name.root.base, "fitted on the others")
        )


def _fit(
    name: ModelName, parts: Sequence[Part], validate: Sequence[Part], choices: TrainingChoices, progress: Progress
) -> Fitted:
    def report(detail: str, share: float) -> None:
        progress(str(name), detail, 0.9 * share)

    report("fit, and replicates of it", 0.0)
    training = TrainingConfig(epochs=choices.epochs)
    seeds = _seeds(choices, len(parts))
    return fit_root(name, parts, validate, seeds, training=training, watched=0, progress=report)


def _seeds(choices: TrainingChoices, runs: int) -> list[int]:
    return [choices.seed * 1_000_003 + run for run in range(runs)]


def _half(values: Floats, table: Table, rng: np.random.Generator) -> Part:
    """Half of the sources, drawn without replacement: the robust model's replicate.

    A source that is drawn twice would be its own batch mate, and relatedness would be learnt from it. Half of the sources
    scatter as much as a bootstrap of all of them does: (1 − ½)/(n/2) = 1/n.
    """
    groups = np.unique(table.group)
    chosen = groups[np.argsort(rng.random(len(groups)), kind="stable")[: (len(groups) + 1) // 2]]
    rows = np.isin(table.group, chosen)
    return whole_part(values[rows], table.source[rows], table.group[rows])


def _one_against_one(values: Floats, source: Labels, rng: np.random.Generator) -> Part:
    """Two random instances of every source that has them, one as trace and one as ref."""
    order = np.argsort(rng.random(len(source)), kind="stable")
    shuffled = source[order]
    by_source = np.argsort(shuffled, kind="stable")
    _, start, counts = np.unique(shuffled[by_source], return_index=True, return_counts=True)
    rank = np.arange(len(source)) - np.repeat(start, counts)
    rows = order[by_source][rank < 2]
    return Part(values[rows], source[rows], (rank == 0)[rank < 2])


def _resampled(values: Floats, table: Table, rows: NDArray[np.bool_], rng: np.random.Generator) -> Part:
    """The sources of groups drawn with replacement; a source that comes twice becomes two."""
    groups = np.unique(table.group[rows])
    members = {group: np.flatnonzero(rows & (table.group == group)) for group in groups}
    drawn = groups[rng.integers(len(groups), size=len(groups))]
    index = np.concatenate([members[group] for group in drawn])
    draw = np.repeat(np.arange(len(drawn)), [len(members[group]) for group in drawn]).astype(np.str_)
    sources, of_groups = (
        np.strings.add(np.strings.add(labels[index], "#"), draw) for labels in (table.source, table.group)
    )
    return whole_part(values[index], sources, of_groups)


def _llrs(model: PairModel, part: Part) -> LLRs:
    return LLRs.from_matrix(score(model, [part.trace], [part.ref])[0], part.trace.source, part.ref.source)


def _population(model: PairModel, values: Floats, source: Labels) -> KnownSources:
    """What the training sources looked like."""
    sources, item = np.unique(source, return_inverse=True)
    everything = Side(values, item, sources)
    squares = item_squares(model, everything).numpy()
    var = model.var_within_ref[0].numpy()
    measured = everything.count > 1
    freedom = (everything.count - 1) * var.shape[-1]
    scatter = np.sort((squares / var).sum(axis=1)[measured] / freedom[measured])
    means = everything.mean
    deviations = values - means[item]
    freedom_all = max(1, int((everything.count - 1).sum()))
    within = (deviations**2).sum(axis=0) / freedom_all
    between = np.maximum(means.var(axis=0, ddof=1) - within / everything.count.mean(), 0)
    return KnownSources(
        means=means,
        lowest=values.min(axis=0),
        highest=values.max(axis=0),
        scatter=scatter,
        distance=np.sort(squared_distance(means, means)),
        match_information=0.5 * np.log10(1 + between / np.maximum(within, 1e-12)),
    )


def squared_distance(points: Floats, means: Floats) -> Floats:
    """Squared Mahalanobis distance of points from the mean of the source means, with a little of the diagonal added."""
    covariance = np.cov(means, rowvar=False).reshape(means.shape[1], -1)
    covariance += 1e-3 * np.diag(np.diag(covariance))
    centred = points - means.mean(axis=0)
    return cast(Floats, np.einsum("ij,ij->i", centred, np.linalg.solve(covariance, centred.T).T))

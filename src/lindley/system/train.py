"""Train a system on a table: the model, how sure it is, and what its validation pairs support.

A model that is fitted without validation sources is *cross-fitted*: the sources are dealt into folds, each fold
is scored by a model of the others, and all those LRs together give the calibration, the bounds and the validation figures; the
system itself is fitted on all sources. The training of a network stops by its figures on a share of the sources that
it does not learn from, which flatters these figures a little.

Replicates estimate how uncertain the parameters are: the same model fitted on sources (or groups of sources) drawn
with replacement, or on half of the sources; and calibrated on held-out pairs of these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lindley.calibration import Chain, Elub
from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import bootstrap_llrs
from lindley.evaluation.metrics import cllr, summary
from lindley.llrs import LLRs
from lindley.models.blocks import pieces
from lindley.models.classical import ROWS, estimate_moments
from lindley.models.two_level import item_squares
from lindley.settings import setting
from lindley.system.fit import DEFAULTS, Draw, Material, Settings, Stage, count_folds, fit_family, telling_singular
from lindley.system.kinds import DEFAULT_MODEL, GAUSSIANISERS
from lindley.system.names import ModelName
from lindley.system.provenance import run_seed, stream, today, versions
from lindley.system.system import Casework, KnownSources, System, row_digests, squared_distance
from lindley.table.read import read_table
from lindley.table.splits import (
    MIN_GROUPS_PER_PART,
    Mates,
    Part,
    Side,
    draw_instances,
    have_pairs,
    mate_share,
    session_pairs,
)
from lindley.table.table import Table
from lindley.version import __version__

__all__ = ["DoubtWarning", "Trained", "disguised", "fit_table", "shapes_in", "train"]

VALIDATION = 1 / 3
"""Of the sources, kept from a network."""
MIN_SOURCES = 10
RIVALS = ("tlm+logistic@cv", "ht-plda+logistic@cv")
"""Plain models whose held-out cost is set beside that of the default model."""
PRIVATE_SHARE = 0.1
"""Of the variance between sources that is noise in a private system."""
SHAPE_MOST, SHAPE_SHARE, SHAPE_SOURCES = 6, 0.5, 20
"""Bounds of a case of several measurements come from pairs like it, of so many measurements in all, and of so many sources."""


class DoubtWarning(UserWarning):
    """A system may say nothing, by its own validation."""


Rows = NDArray[np.bool_]
Index = NDArray[np.intp]
Shape = tuple[int, int]
"""Trace and ref instances of a pair."""
Progress = Callable[[str, str, float], None]


def train(
    table: Any,
    model: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    replicates: int | None = None,
    seed: int = 0,
    mates: Mates = "as-in-table",
    device: str = "cpu",
    private: bool = False,
    progress: Progress = lambda doing, detail, done: None,
) -> System:
    """Train a system for casework on all sources of a table.

    Args:
        table: as `lindley.read_table` reads it, or what it reads; or several, as `lindley.join_tables` makes them one.
        model: its name, as in ``lindley run``: ``robust``, ``tlm-kde``, ``tlm+logistic``, ``ntlm-single-pairs-n1-varying`` ….
            Without it a robust system is made, and ``about["rivals"]`` holds the `held_out_cllr` of two plain models beside
            that of its validation.
        options: of the model, such as ``{"epochs": 500}`` of a network.
        replicates: for the interval of a case; default what the kind of model affords, 10 to 100.
        seed: of folds, replicates and training.
        mates: how often another source is of the same group: ``as-in-table``, ``never``, or a share. Fit, calibration,
            bounds and validation go by it.
        device: where a network is trained, cpu or cuda.
        private: learn from sources that were moved at random (`disguised`), so that the system holds the mean of none of them;
            nor does it hold digests of their measurements. It is another one every time.
        progress: called with the model, what is being done, and the share that is done.

    Raises:
        LindleyError: if the table has too few sources, or the model cannot be explained in a case.

    Warns:
        DoubtWarning: if the system may say nothing, by its own validation.

    >>> system = lindley.train(lindley.read_table("glass.csv"))  # doctest: +SKIP
    >>> system  # doctest: +SKIP
    <System robust: 10 features, 326 sources, log10 LR -2.81 to 3.42>
    """
    name = ModelName.of(DEFAULT_MODEL if model is None else model, options=options)
    _require_explainable(name)
    table = table if isinstance(table, Table) else read_table(table)
    _require_data(table)
    replicates = name.kind.replicates if replicates is None else replicates

    def report(detail: str, share: float) -> None:
        progress(str(name), detail, 0.8 * share)

    report("fit, and replicates of it", 0.0)
    settings = Settings(device=device, progress=report)
    with telling_singular(name, table):
        # warns of shrinkage, of all sources
        list(estimate_moments([_drawn(table, np.arange(len(table.values)), None)]))
    to_learn = disguised(table, np.random.default_rng()) if private else table
    fit = partial(fit_table, table, seed=seed, validated=True, mates=mates, to_learn=to_learn)
    rivals: dict[str, float | None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = fit(name, replicates=replicates, settings=settings)
        shapes = tuple((shape, _bounds(find())) for shape, find in zip(trained.shapes, trained.stage.also, strict=True))
        for rival in RIVALS if model is None else ():
            progress(rival, "fit, to compare", 0.8 + 0.1 * len(rivals) / len(RIVALS))
            with suppress(LindleyError):
                rivals[rival] = None
                rivals[rival] = held_out_cllr(fit, ModelName.parse(rival))
    system, llrs = trained.stage.system, trained.stage.held_out[0]
    # Perfectly separated pairs have an infinite devPAV, which JSON cannot hold.
    metrics: dict[str, Any] = {key: float(v) if np.isfinite(v) else None for key, v in summary(llrs).items()}
    interval = bootstrap_llrs(llrs, seed=seed)
    metrics["cllr_interval"] = None if interval is None else [interval.lower, interval.upper]
    converted = [str(each) for each in table.findings if each.code == "unit-converted"]
    about: dict[str, Any] = {
        "model": str(name),
        "created": today(),
        "versions": versions(),
        "lindley": __version__,
        "seed": seed,
        "data": {
            "name": table.name,
            "sha256": table.sha256(),
            "sources": len(table.sources),
            "groups": len(np.unique(table.group)),
            "rows": len(table.values),
            "files": [_origin(each) for each in table.parts or (table,)],
            **({"converted": converted} if converted else {}),
        },
        "validation": {
            "how": trained.how,
            "pairs_same": len(llrs.same),
            "pairs_different": round(float(llrs.weights[1].sum())),  # many are in bins, which weigh their number
            **metrics,
        },
        "bootstrap": replicates,
        "private": private,
    }
    if rivals:
        about["rivals"] = rivals
    held_out = trained.kept if trained.kept.any() else ~trained.kept
    if (pairs := session_pairs(*_labels(table, np.flatnonzero(held_out)))) is not None:
        about["validation"]["sessions"] = pairs
    if (share := mate_share(table, mates)) is not None:
        about["mates"] = {"setting": mates, "share": share}
    with telling_singular(name, table):
        known = _known_sources(system, to_learn)
    progress("done", "", 1.0)
    casework = Casework(_bounds(llrs), known, () if private else row_digests(table.values), shapes)
    system = replace(system, casework=casework, about=about)
    if system.doubt:
        warnings.warn(system.doubt, DoubtWarning, stacklevel=2)
    return system


def held_out_cllr(fit: Callable[[ModelName], Trained], name: ModelName) -> float:
    """Cllr of held-out pairs: those of a fold are scored by a model of the others, and calibrated on the pairs of these.

    ``fit`` is `fit_table` of a table. A calibration that had seen the pairs would separate those of few sources perfectly.
    """
    llrs = fit(name.root).stage.held_out[0]
    if len(llrs.matrices) < 2:  # more pairs than a calibration could learn by heart, which are counted in bins
        return cllr(llrs.map(Chain.fit(name.calibrations, llrs)))
    here = [trace[:, None] == ref for trace, ref, *_ in llrs.matrices]
    folds = np.arange(len(here))
    of_same, of_different = (np.repeat(folds, [int(n.sum()) for n in each]) for each in (here, [~one for one in here]))
    same, different = llrs.same.copy(), llrs.different.copy()
    for fold in folds:
        inside, apart = of_same == fold, of_different == fold
        weight = None if llrs.different_weight is None else llrs.different_weight[~apart]
        chain = Chain.fit(name.calibrations, LLRs(llrs.same[~inside], llrs.different[~apart], None, weight))
        same[inside], different[apart] = chain(llrs.same[inside]), chain(llrs.different[apart])
    return cllr(replace(llrs, same=same, different=different))


def _origin(table: Table) -> dict[str, Any]:
    """Where the measurements come from: a file with its digest; or a table that was in memory, or is known by its name."""
    counts = {"rows": len(table.values), "sources": len(table.sources)}
    if len(table.files) == 1:
        ((name, digest),) = table.files
        return {"file": name, "sha256": digest, **counts}
    return {"table": table.name, "sha256": table.sha256(), **counts}


@dataclass(frozen=True, eq=False)
class Trained:
    """A system that was fitted on one set of sources, and which of them were kept from it."""

    stage: Stage
    kept: Rows  # (rows,) of the table
    how: str  # the pairs were held out
    shapes: tuple[Shape, ...] = ()  # trace and ref instances of the further pairs of the stage


def fit_table(
    table: Table,
    name: ModelName,
    *,
    seed: int = 0,
    replicates: int = 0,
    validation: float = VALIDATION,
    instances: tuple[int, int] = (1, 1),
    keep: bool = False,
    validated: bool = False,
    mates: Mates = "as-in-table",
    to_learn: Table | None = None,
    settings: Settings = DEFAULTS,
) -> Trained:
    """Fit a model on a table that is not split: the system of its first run, and replicates.

    Args:
        table: of which the sources of one group are kept from the model together, or not at all.
        name: of the model.
        seed: of all that is drawn.
        replicates: further runs, fitted on other sources.
        validation: the share of the sources that is kept from a network.
        instances: trace and ref instances of the pairs that a calibration is fitted on; sources with fewer have no part.
        keep: keep that share from any model, for somebody else's use.
        validated: whether LLRs of held-out pairs are wanted also where no calibration needs them, and of pairs of other numbers
            of instances beside them (`shapes_in`).
        mates: how often two different sources are of one group.
        to_learn: the same rows with other values, for the models to learn from; pairs have the values of the table.
        settings: how to fit.

    Raises:
        LindleyError: if there are too few sources, or too few with several instances.
    """
    own, to_learn = run_seed(seed, 0), table if to_learn is None else to_learn
    trained = name.kind.is_trained
    kept = np.zeros(len(table.values), dtype=np.bool_)
    if trained or (keep and validation > 0):
        kept = _kept(table, validation, stream(own, "unseen"))
    seen, unseen = np.flatnonzero(~kept), np.flatnonzero(kept)
    rows = unseen if trained else seen
    learn = partial(_drawn, to_learn, seen, None)
    others = partial(_drawn, table, unseen, None) if trained else None
    pairs = None
    if name.calibrations or validated:
        _require_pairs(table, rows, instances)
        pairs = _later(lambda rng: _drawn(table, rows, rng, *instances), stream(own, "pairs"), len(rows))
    shapes, rng = shapes_in(*_labels(table, rows)) if validated else (), stream(own, "shapes")
    also = [_later(partial(_drawn, table, rows, n_trace=shape[0], n_ref=shape[1]), rng, len(rows)) for shape in shapes]
    groups = [_Groups.of(table, each, instances) for each in (seen, unseen)]
    again = _Replicates(table, to_learn, groups[0], groups[1], name, instances, stream(own, "replicates"))
    materials = [Material(learn, others, pairs, own, table.name, also=tuple(also))]
    materials += [again.one(others, run_seed(seed, run)) for run in range(1, replicates + 1)]
    share = mate_share(table, mates)
    materials = [_with_mates(each, share) for each in materials]
    *_, stage = fit_family(name.family, materials, table, settings)
    return Trained(stage, kept, _how(name, table), shapes)


def shapes_in(source: NDArray[np.str_], session: NDArray[np.str_] | None = None) -> tuple[Shape, ...]:
    """The numbers of trace and ref instances beside 1 × 1 that a table has enough of: up to six in all.

    Enough: half of the sources that give a 1 × 1 pair, and twenty of them at least, have that many instances, of two sessions
    where they have sessions.

    >>> shapes_in(np.repeat(np.arange(30).astype(str), 4))
    ((1, 2), (2, 1), (1, 3), (2, 2), (3, 1))
    """
    shapes = [(n_trace, total - n_trace) for total in range(2, SHAPE_MOST + 1) for n_trace in range(1, total)]
    one, *found = have_pairs(source, session, shapes).sum(axis=1).tolist()
    enough = max(SHAPE_SOURCES, SHAPE_SHARE * one)
    return tuple(shape for shape, sources in zip(shapes[1:], found, strict=True) if sources >= enough)


def _bounds(llrs: LLRs) -> tuple[float, float]:
    """log10 LR: what pairs support."""
    bounds = Elub.fit(llrs)
    return float(bounds.lower), float(bounds.upper)


def disguised(table: Table, rng: np.random.Generator, share: float = PRIVATE_SHARE) -> Table:
    """The same table with every group of sources moved at random, so that nothing learnt from it holds a source's mean.

    A mean m becomes μ + √(1 − s) (m − μ) + √s e, where μ is the mean and e a draw from the covariance of all of them: they
    have the mean and the covariance that they had, and a share s of their variance is noise. Measurements keep their places
    around their source, and sources theirs in their group. Whoever knew the random numbers could undo it, so that they must
    not come from a seed.
    """
    groups, code = np.unique(table.group, return_inverse=True)
    means = np.zeros((len(groups), table.values.shape[1]))
    np.add.at(means, code, table.values)
    means /= np.bincount(code)[:, None]
    centre, covariance = means.mean(axis=0), np.cov(means, rowvar=False).reshape(means.shape[1], -1)
    noise = rng.multivariate_normal(np.zeros(len(centre)), covariance, size=len(groups), method="eigh")
    moved = centre + np.sqrt(1 - share) * (means - centre) + np.sqrt(share) * noise
    return replace(table, values=table.values + (moved - means)[code], raw=None)


def _with_mates(material: Material, share: float | None) -> Material:
    """The same material, with the share of mates that its pairs stand for."""

    def given(draw: Draw) -> Draw:
        return lambda: replace(draw(), mates=share)

    draws = {name: getattr(material, name) for name in ("learn", "unseen", "pairs")}
    parts: dict[str, Any] = {name: given(draw) for name, draw in draws.items() if draw is not None}
    return replace(material, **parts, also=tuple(map(given, material.also)))


def _require_explainable(name: ModelName) -> None:
    if "parts" not in name.kind.can:
        raise LindleyError(
            f"'{name}': {name.kind.label} is a benchmark of experiments, and not made into a system: its score has no "
            "similarity and no typicality to report."
        )
    if name.gaussianiser is not None and not GAUSSIANISERS[name.gaussianiser].marginal:
        raise LindleyError(
            f"'{name}': {name.gaussianiser} bends all features together, so that no feature has a share of the LR that a case "
            f"could report. It is a benchmark of experiments: leave '{name.gaussianiser}:' out."
        )


def _require_data(table: Table) -> None:
    _, counts = np.unique(table.source, return_counts=True)
    if len(counts) < MIN_SOURCES or (counts >= 2).sum() < MIN_SOURCES // 2:
        raise LindleyError(
            f"{table.name}: {len(counts)} sources, {(counts >= 2).sum()} of them measured twice or more, are too few for "
            f"a system: it needs {MIN_SOURCES} at least, half of them with replicates, and hundreds to be of use."
        )


def _how(name: ModelName, table: Table) -> str:
    if name.kind.is_trained:
        return (
            "a third of the sources, kept from training; the training stopped where it did best on them, which flatters "
            "these figures a little; one instance against one"
        )
    folds = count_folds(len(np.unique(table.group)))
    return f"cross-fitting: {folds} folds of sources, each scored by a model {name.kind.of_others}, one instance against one"


def _drawn(
    table: Table,
    rows: Index,
    rng: np.random.Generator | None,
    n_trace: int = 1,
    n_ref: int | None = None,
    *,
    source: NDArray[Any] | None = None,
    group: NDArray[Any] | None = None,
) -> Part:
    """``n_trace`` instances of every source as its trace, and ``n_ref``, or all others, as its ref.

    The rows have the labels of the table, unless others are given.
    """
    source = table.source[rows] if source is None else source
    group, session = table.group[rows] if group is None else group, _labels(table, rows)[1]
    some, is_trace = draw_instances(source, n_trace, n_ref, rng, complete=n_ref is not None, session=session)
    session = None if session is None else session[some]
    return Part(table.values[rows[some]], source[some], is_trace, group[some], session=session)


def _labels(table: Table, rows: Index) -> tuple[NDArray[np.str_], NDArray[np.str_] | None]:
    """The sources, and the sessions where they are known, of some rows."""
    return table.source[rows], None if table.session is None else table.session[rows]


def _require_pairs(table: Table, rows: Index, instances: Shape) -> None:
    """Refuse a table with too few sources for pairs like those that a calibration is for."""
    n_trace, n_ref = instances
    (have,) = have_pairs(*_labels(table, rows), [instances])
    if (enough := int(have.sum())) < 2:
        raise LindleyError(
            f"a calibration needs pairs like those that it is for, of {n_trace} trace and {n_ref} ref "
            f"{'instance' if n_ref == 1 else 'instances'}: {enough} of the {len(have)} sources have {n_trace + n_ref} "
            "instances, and two such sources at least are needed. Give more sources with so many instances, or ask for fewer "
            "instances (n_trace_instances, n_ref_instances)."
        )


def _kept(table: Table, share: float, rng: np.random.Generator) -> Rows:
    """The rows of the sources that are kept from the model."""
    groups, code = np.unique(table.group, return_inverse=True)
    least = MIN_GROUPS_PER_PART
    if len(groups) < 2 * least:
        raise LindleyError(
            f"{2 * least} sources (or groups of sources) at least are needed, {least} to fit on and {least} that are kept "
            f"from the model, and there {'is' if len(groups) == 1 else 'are'} {len(groups)}: give more sources"
        )
    n = max(least, round(share * len(groups)))
    if len(groups) - n < least:
        raise LindleyError(
            f"validation: of {len(groups)} sources (or groups of sources) a share of {share:.3g} leaves {len(groups) - n} to "
            f"fit on, and {least} at least are needed: give a smaller share, or more sources"
        )
    kept = np.zeros(len(groups), dtype=np.bool_)
    kept[np.argsort(rng.random(len(groups)), kind="stable")[:n]] = True
    return cast(Rows, kept[code])


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows of a table by their groups of sources, which are drawn as a whole."""

    rows: Index
    code: Index  # (rows,) the group of each
    number: int  # of groups
    of_source: Index  # (sources,) the group of each source, in the order of names
    n_instances: Index  # (sources,)
    have_pair: NDArray[np.bool_]  # (sources,) of the instances asked for

    @classmethod
    def of(cls, table: Table, rows: Index, instances: Shape) -> _Groups:
        groups, code = np.unique(table.group[rows], return_inverse=True)
        _, first, count = np.unique(table.source[rows], return_index=True, return_counts=True)
        (have,) = have_pairs(*_labels(table, rows), [instances])
        return cls(rows, code, len(groups), code[first], count, have)

    def half(self, rng: np.random.Generator) -> Index:
        """Draw half of the groups at random: their numbers (group,)."""
        return np.argsort(rng.random(self.number), kind="stable")[: (self.number + 1) // 2]

    def among(self, groups: Index) -> Index:
        """The rows of some groups."""
        return self.rows[np.isin(self.code, groups)]

    @cached_property
    def members(self) -> list[Index]:
        """The rows of every group."""
        return np.split(self.rows[np.argsort(self.code, kind="stable")], np.cumsum(np.bincount(self.code))[:-1])


@dataclass(frozen=True, eq=False)
class _Replicates:
    """Other sources that there might have been, to learn from; and pairs of them to calibrate on, where the name asks for it.

    Groups are drawn with replacement, and a source that is drawn twice becomes two. Where such a pair would be taken for two
    related sources, or for two different ones that look the same, half of the sources are drawn instead: they scatter as
    much as a bootstrap of all of them does, (1 − ½)/(n/2) = 1/n.
    """

    table: Table
    to_learn: Table
    seen: _Groups
    unseen: _Groups
    name: ModelName
    instances: Shape
    rng: np.random.Generator

    def one(self, others: Draw | None, seed: int) -> Material:
        """The next one. What it is made of is chosen now, and the instances are drawn when they are asked for."""
        trained, calibrated = self.name.kind.is_trained, bool(self.name.calibrations)
        groups, times = self.seen, None
        if self.name.kind.halves or (calibrated and not trained):
            chosen = groups.half(self.rng)
            learn: Draw = partial(self._half, chosen)
        else:
            chosen = self.rng.integers(groups.number, size=groups.number)
            times = np.bincount(chosen, minlength=groups.number)[groups.of_source].astype(np.int32)
            learn = partial(self._bootstrap, chosen.astype(np.int32))
        pairs = None
        if calibrated:
            if trained:
                groups = self.unseen
                chosen = groups.half(self.rng)
            pairs = self._pairs(groups, chosen)
        return Material(learn, others, pairs, seed, self.table.name, True, times=times)

    def _half(self, chosen: Index) -> Part:
        return _drawn(self.to_learn, self.seen.among(chosen), None)

    def _bootstrap(self, chosen: NDArray[np.int32]) -> Part:
        rows = [self.seen.members[group] for group in chosen]
        index = np.concatenate(rows)
        time = np.repeat(np.arange(len(rows)), [len(each) for each in rows]).astype(np.str_)
        labels = self.to_learn.source, self.to_learn.group
        source, group = (np.strings.add(np.strings.add(each[index], "#"), time) for each in labels)
        return _drawn(self.to_learn, index, None, source=source, group=group)

    def _pairs(self, groups: _Groups, chosen: Index) -> Draw:
        some = np.isin(groups.of_source, chosen)
        found = int(groups.have_pair[some].sum())
        # one more than there are folds: two of them are in one fold
        if found <= (needed := 1 if self.name.kind.is_trained else count_folds(len(chosen))):
            raise LindleyError(
                f"{self.table.name}: the calibration of a replicate is fitted on half of the sources, and {found} of these "
                f"have the measurements for a pair, where it takes {needed + 1} at least. Give more sources with replicates, "
                f"or leave out the interval with {setting('replicates', '0')}."
            )
        n_rows = int(groups.n_instances[some].sum())
        return _later(lambda rng: _drawn(self.table, groups.among(chosen), rng, *self.instances), self.rng, n_rows)


def _later(draw: Callable[[np.random.Generator], Part], rng: np.random.Generator, n_rows: int) -> Draw:
    """A draw among so many rows that can be made at any time, as often as wanted, as if it were made now."""
    then = deepcopy(rng)
    rng.random(n_rows)  # what the draw takes, see `order_instances`
    return lambda: draw(deepcopy(then))


def _known_sources(system: System, table: Table) -> KnownSources:
    """What the training sources looked like."""
    sources, item = np.unique(table.source, return_inverse=True)
    squares = item_squares(system.point, system.prepared(Side(table.values, item, sources))).numpy()
    everything = Side(system.scaling(table.values), item, sources)
    values, means, count = everything.values, everything.mean, everything.count
    var = system.point.var_within_ref[0].numpy()
    measured = count > 1
    freedom = (count - 1) * var.shape[-1]
    scatter = np.sort((squares / var).sum(axis=1)[measured] / freedom[measured])
    lowest, highest = values.min(axis=0), values.max(axis=0)
    for some in pieces(len(values), ROWS):
        values[some] -= means[item[some]]
    np.square(values, out=values)
    within = values.sum(axis=0) / max(1, int((count - 1).sum()))
    between = np.maximum(means.var(axis=0, ddof=1) - within / count.mean(), 0)
    return KnownSources(
        means=means,
        lowest=lowest,
        highest=highest,
        scatter=scatter,
        distance=np.sort(squared_distance(means, means)),
        match_information=0.5 * np.log10(1 + between / np.maximum(within, 1e-12)),
    )

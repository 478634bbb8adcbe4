"""From a name and sources to a fitted system: the one place where that happens.

The caller gives *material*: what each run learns from, sources that it does not learn from, and pairs to calibrate on. Callers
differ in where they take it from. An experiment splits a table three ways, many times (`lindley.experiment.work`); a training
for casework and the interfaces of other programs have one set of sources, and make the material of it
(`lindley.system.train`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray

from lindley.calibration import Chain
from lindley.errors import LindleyError
from lindley.evaluation.pair_grid import PairBlocks, compress_several
from lindley.llrs import Floats, LLRs
from lindley.models.blocks import side_by_side
from lindley.models.fitting import Fitted, History, Progress, Task, caught_warnings, silent
from lindley.models.gaussianise import Gaussianiser, GaussianiserName, fit_gaussianiser
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.two_level import PairModel, TwoLevel, score, score_there, take_runs
from lindley.settings import setting
from lindley.system.kinds import INTEGRATIONS, fetch
from lindley.system.names import ModelName
from lindley.system.provenance import stream
from lindley.system.system import System
from lindley.table.findings import listing
from lindley.table.read import read_table
from lindley.table.scaling import Scaling
from lindley.table.splits import Part, Side, weigh_mates, weights_of_mates
from lindley.table.table import Table

__all__ = [
    "FOLDS",
    "Material",
    "Settings",
    "Stage",
    "count_folds",
    "cross_fitted",
    "deal_folds",
    "fit_family",
    "score_runs",
    "telling_singular",
]

FOLDS = 5
MANY_PAIRS = 1 << 23
"""Held-out pairs that are kept one by one, 64 MiB of LLRs; more are counted in fine bins (`lindley.evaluation.compress`)."""
TILES_AT_ONCE = 2
"""Tiles of pairs that are counted side by side: some 130 MiB each."""
Draw = Callable[[], Part]
Learn = Callable[[Part], tuple[PairModel, Callable[[Part], Part]]]
"""From the sources of other folds to a model, and to what is done to a part before the model sees it."""


@dataclass(frozen=True, eq=False)
class Material:
    """What one run of a fit uses: transformed instances, not standardised.

    They are drawn whenever they are asked for: a hundred replicates of a large table would not fit into memory together.
    """

    learn: Draw
    unseen: Draw | None  # sources kept from the model: where a training stops, and where a variance is integrated out
    pairs: Draw | None  # to calibrate on: of the unseen sources, or else of those to learn from, held out in turns
    seed: int
    where: str = "the sources to fit on"  # for messages
    is_replicate: bool = False  # learns from a draw of the sources of the first run; replicates come last
    also: tuple[
        Draw, ...
    ] = ()  # pairs of other numbers of instances, to be scored like ``pairs``: nothing is fitted on them
    times: NDArray[np.integer[Any]] | None = None
    """Of a replicate with sources drawn again and again: how often each source of the first run was, in the order of names."""


@dataclass(frozen=True)
class Settings:
    """How models are fitted, beside what their names say; none of it but ``training`` and ``device`` changes a number."""

    training: tuple[tuple[str, Any], ...] = ()  # options of trained models that do not have their own
    device: str = "cpu"
    watched: int | None = 0  # pairs that the history of a training follows; None for its default
    threads: int | None = None  # fits or trainings side by side; None for as many as torch may use
    progress: Progress = silent


DEFAULTS = Settings()
_HeldOut = tuple[tuple[LLRs, ...], tuple[Callable[[], LLRs], ...]]
"""LLRs of the pairs of the first runs; and of those of other numbers of instances of the first run, when they are asked for."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One name of a family, fitted in all runs."""

    name: ModelName
    system: System
    held_out: tuple[LLRs, ...]  # of the pairs of the first runs, which the system had not seen
    history: History | None = None  # of a training
    also: tuple[
        Callable[[], LLRs], ...
    ] = ()  # of the pairs of other numbers of instances of the first run, when asked for


def fit_family(
    names: Iterable[ModelName], materials: Sequence[Material], table: Table, settings: Settings = DEFAULTS
) -> Iterator[Stage]:
    """Fit models that build on one root, all runs at once; each name comes after the one that it builds on.

    Every run is calibrated on the pairs of its own sources; runs without pairs take the calibration of the first run.
    ``table`` tells the names, units and transform of the features.

    Raises:
        LindleyError: if the sources do not do, with what is wrong with them.
    """
    done: dict[ModelName, Stage] = {}
    for name in names:
        with telling_singular(name, table):
            if name.before is None:
                family = _Family.of(name, materials, table)
                done[name] = family.root(table, settings)
            elif name.calibrations:
                done[name] = _calibrated(name, done[name.before])
            else:
                done[name] = family.integrated(name, done[name.before], settings)
        yield done[name]


def score_runs(model: PairModel, traces: Sequence[Side], refs: Sequence[Side], settings: Settings) -> list[Floats]:
    """`score`, where a model was trained: on a GPU all runs at once, on a processor each by itself, side by side.

    On a processor a run is scored on one thread, so that the last bits do not depend on how many there are.
    """
    if settings.device != "cpu":
        return score(model.map(lambda t: t.to(settings.device)), traces, refs)

    def one(run: int) -> Floats:
        return score(take_runs(model, [run]), [traces[run]], [refs[run]])[0]

    with torch.no_grad():
        return side_by_side(one, range(len(traces)), model.centre, settings.threads)


@contextmanager
def telling_singular(name: ModelName, table: Table) -> Iterator[None]:
    """Say of a matrix without an inverse what it means for the table, whatever model met it."""
    try:
        yield
    except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        values = [len(np.unique(column)) for column in table.values.T]
        few = [f"'{table.features[place]}' ({values[place]})" for place in np.argsort(values, kind="stable").tolist()]
        raise LindleyError(
            f"{table.name}: {name} cannot be fitted, as some features, or sums of them, hardly vary within sources or between "
            f"them ({error}). Those with the fewest different values are {listing(few, 3)}: leave out what is no "
            f"measurement with {setting('ignore')}, and look at what 'lindley check' says."
        ) from error


@dataclass(frozen=True, eq=False)
class _Family:
    """The material of all runs as their models see it."""

    name: ModelName  # the root
    materials: Sequence[Material]
    scalings: tuple[Scaling, ...]
    gaussianisers: tuple[Gaussianiser, ...]
    times: tuple[NDArray[np.integer[Any]], ...]  # of replicates that are no rows, but how often sources count

    @classmethod
    def of(cls, name: ModelName, materials: Sequence[Material], table: Table) -> _Family:
        times = tuple(each.times for each in materials[1:] if each.times is not None)
        if not name.kind.weighs or name.gaussianiser or len(times) < len(materials) - 1:
            times = ()
        scalings, gaussianisers = [], []
        for each in materials[:1] if times else materials:
            part = each.learn()
            scalings.append(Scaling.fit(part.values, table.features, each.where))
            if name.gaussianiser:
                gaussianisers.append(_gaussianiser(name, _with(part, scalings[-1]), each.seed, scalings[-1]))
        scalings += scalings * len(times)
        return cls(name, materials, tuple(scalings), tuple(gaussianisers), times)

    @property
    def learn(self) -> Sequence[Part]:
        """What models learn from, prepared when it is asked for."""
        return _Drawn([partial(self._prepared, each.learn, run) for run, each in enumerate(self.materials)])

    @property
    def unseen(self) -> Sequence[Part]:
        """The held-out part of every run that has one, prepared when it is asked for."""
        draws = enumerate(each.unseen for each in self.materials)
        return _Drawn([partial(self._prepared, draw, run) for run, draw in draws if draw is not None])

    @property
    def seeds(self) -> list[int]:
        return [each.seed for each in self.materials]

    def root(self, table: Table, settings: Settings) -> Stage:
        """Fit or train."""
        kind, given = self.name.kind, dict(self.name.options)
        options = {key: value for key, value in settings.training if key in kind.from_training} | given
        if "pretrain" in options:
            options["pretrain"] = read_table(options["pretrain"])
        fitted: Fitted = fetch(kind.fit)(
            Task(
                learn=self.learn[:1] if self.times else self.learn,
                times=self.times,
                validate=self.unseen if kind.is_trained else [],
                seeds=self.seeds,
                options={**options, **kind.says},
                device=settings.device,
                features=table.features,
                watched=settings.watched,
                threads=settings.threads,
                progress=settings.progress,
                replicates=sum(each.is_replicate for each in self.materials),
            )
        )
        system = System(
            name=str(self.name),
            features=table.features,
            units=table.units,
            transform=table.transform.kind,
            reference=table.transform.reference,
            reference_unit=table.reference_unit,
            scalings=self.scalings,
            gaussianisers=self.gaussianisers,
            model=fitted.model,
            calibrations=(Chain((), ()),) * len(self.materials),
        )
        held_out, also = self._scored(system, settings) if self.unseen else self._crossed(fitted)
        return Stage(self.name, system, held_out, fitted.history, also)

    def integrated(self, name: ModelName, before: Stage, settings: Settings) -> Stage:
        """The variance integrated out."""
        model = cast(TwoLevel, before.system.model)
        if name.integration == "common":
            model = integrate_common(model, [len(np.unique(part.source)) for part in self.learn])
        else:
            own = INTEGRATIONS["varying"].options
            options: dict[str, Any] = {key: value for key, value in name.options if key in own}
            model = integrate_varying(model, self.unseen, seeds=self.seeds, **options)
        system = replace(before.system, name=str(name), model=model)
        held_out, also = self._scored(system, settings)
        return Stage(name, system, held_out, None, also)

    def _scored(self, system: System, settings: Settings) -> _HeldOut:
        """LLRs of unseen pairs by the models themselves."""
        pairs = {
            run: self._prepared(each.pairs, run) for run, each in enumerate(self.materials) if each.pairs is not None
        }
        if not pairs:
            return (), ()
        also = [partial(self._prepared, draw, 0) for draw in self.materials[0].also]
        found = tuple(partial(_by_one, system.point, draw) for draw in also)
        if any(_n_pairs(part) > MANY_PAIRS for part in pairs.values()):
            each = ((take_runs(system.model, [run]), part) for run, part in pairs.items())
            return tuple(_held_out([one]) for one in each), found
        model, parts = take_runs(system.model, list(pairs)), list(pairs.values())
        matrices = score_runs(model, [part.trace for part in parts], [part.ref for part in parts], settings)
        return tuple(part.llrs(llr) for llr, part in zip(matrices, parts, strict=True)), found

    def _crossed(self, fitted: Fitted) -> _HeldOut:
        """LLRs of pairs by models of other folds, each with a Gaussianiser of its own."""
        found = [
            self._crossed_run(fitted, run, (each.pairs, *each.also))
            for run, each in enumerate(self.materials)
            if each.pairs is not None
        ]
        return tuple(each[0]() for each in found), tuple(found[0][1:]) if found else ()

    def _crossed_run(self, fitted: Fitted, run: int, pairs: Sequence[Draw]) -> list[Callable[[], LLRs]]:
        assert fitted.again is not None
        again, scaling, material = fitted.again(run), self.scalings[run], self.materials[run]

        def learn(rest: Part) -> tuple[PairModel, Callable[[Part], Part]]:
            if not self.name.gaussianiser:
                return again(rest), lambda part: part
            change = _gaussianiser(self.name, rest, material.seed, scaling)
            return again(_with(rest, change)), lambda part: _with(part, change)

        everything = _with(material.learn(), scaling)
        scaled = [partial(_scaled, draw, scaling) for draw in pairs]
        return cross_fitted(everything, scaled, learn, stream(material.seed, "folds"))

    def _prepared(self, draw: Draw, run: int) -> Part:
        scaled = _scaled(draw, self.scalings[run])
        return _with(scaled, self.gaussianisers[run]) if self.gaussianisers else scaled


def _calibrated(name: ModelName, before: Stage) -> Stage:
    """One more calibration, fitted on the pairs of every run that has them."""
    if not before.held_out:
        raise LindleyError(f"{name} is calibrated on pairs that the model has not seen, and there are none")
    fitted = [Chain.fit(name.calibrations[-1:], llrs) for llrs in before.held_out]
    added = [*fitted, *[fitted[0]] * (before.system.runs - len(fitted))]
    chains = tuple(chain.then(one) for chain, one in zip(before.system.calibrations, added, strict=True))
    held_out = tuple(llrs.map(one) for llrs, one in zip(before.held_out, fitted, strict=True))
    also = tuple(partial(_changed, find, fitted[0]) for find in before.also)
    return Stage(name, replace(before.system, name=str(name), calibrations=chains), held_out, None, also)


def _changed(find: Callable[[], LLRs], by: Callable[[Floats], Floats]) -> LLRs:
    return find().map(by)


def _gaussianiser(name: ModelName, part: Part, seed: int, scaling: Scaling) -> Gaussianiser:
    kind, zero = cast(GaussianiserName, name.gaussianiser), -scaling.mean / scaling.sd
    return fit_gaussianiser(kind, part.values, source=part.source, group=part.group, seed=seed, zero=zero)


def _with(part: Part, change: Any) -> Part:
    return part.with_values(change(part.values))


def _scaled(draw: Draw, scaling: Scaling) -> Part:
    return _with(draw(), scaling)


class _Drawn(Sequence[Part]):
    """Parts that are drawn whenever they are asked for, and not held."""

    def __init__(self, draws: Sequence[Draw]) -> None:
        self.draws = draws

    def __len__(self) -> int:
        return len(self.draws)

    @overload
    def __getitem__(self, at: int) -> Part: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Part]: ...
    def __getitem__(self, at: int | slice) -> Part | Sequence[Part]:
        return _Drawn(self.draws[at]) if isinstance(at, slice) else self.draws[at]()


def count_folds(groups: int) -> int:
    """Into how many folds so many groups are dealt: two at least, and otherwise two groups in each."""
    return max(2, min(FOLDS, groups // 2))


def deal_folds(group: NDArray[np.str_], rng: np.random.Generator) -> NDArray[np.intp]:
    """The fold of every row: groups in random order are dealt out in turn."""
    groups, code = np.unique(group, return_inverse=True)
    fold = np.empty(len(groups), dtype=np.intp)
    fold[np.argsort(rng.random(len(groups)), kind="stable")] = np.arange(len(groups)) % count_folds(len(groups))
    return fold[code]


def cross_fitted(
    everything: Part, pairs: Sequence[Draw], learn: Learn, rng: np.random.Generator
) -> list[Callable[[], LLRs]]:
    """LLRs of the pairs inside every fold, by a model of the other folds, when asked for; groups of sources stay in one fold.

    ``pairs`` are traces and refs of sources of ``everything``, perhaps not of all of them, in one part or in several;
    a model learns from all instances of the other folds.
    """
    fold = deal_folds(everything.groups, rng)

    @cache
    def without(number: int) -> tuple[PairModel, Callable[[Part], Part]]:
        with caught_warnings():  # shrinkage is told of the whole
            return learn(everything.rows(fold != number))

    def held_out(draw: Draw) -> LLRs:
        part = draw()
        folds: list[tuple[PairModel, Part]] = []
        for number in range(int(fold.max()) + 1):
            inside = part.rows(np.isin(part.groups, everything.groups[fold == number]))
            if len(inside.ref.source) >= 1 and len(inside.trace.source) >= 2:
                model, prepare = without(number)
                folds.append((model, prepare(inside)))
        if not folds:
            raise LindleyError(
                "cross-fitting needs folds that hold a source measured twice beside another one: give more sources."
            )
        return _held_out(folds)

    return [partial(held_out, draw) for draw in pairs]


def _n_pairs(*parts: Part) -> int:
    return sum(len(part.trace.source) * len(part.ref.source) for part in parts)


def _by_one(model: PairModel, draw: Draw) -> LLRs:
    return _held_out([(model, draw())])


def _held_out(folds: Sequence[tuple[PairModel, Part]]) -> LLRs:
    """The LLRs of all pairs inside every fold, each by its model of one run; in fine bins where there are `MANY_PAIRS`."""
    parts = [part for _, part in folds]
    mates = parts[0].mates
    if _n_pairs(*parts) <= MANY_PAIRS:
        same, different, is_mate = [], [], []
        for model, part in folds:
            (llr,), here = score(model, [part.trace], [part.ref]), part.trace.source[:, None] == part.ref.source
            same.append(llr[here])
            different.append(llr[~here])
            is_mate.append(part.mates_among(slice(None), slice(None))[~here])
        of_mates = weigh_mates(np.concatenate(is_mate), mates)
        return LLRs(
            np.concatenate(same), np.concatenate(different), None, of_mates, tuple(part.names for part in parts)
        )
    weights = weights_of_mates(sum(part.n_mates for part in parts), sum(part.n_different for part in parts), mates)
    threads = min(TILES_AT_ONCE, torch.get_num_threads())
    with torch.no_grad():
        return compress_several(
            [_blocks(model, part, weights) for model, part in folds],
            side_by_side=lambda count, tiles: side_by_side(count, tiles, folds[0][0].centre, threads),
        )


def _blocks(model: PairModel, part: Part, weights: tuple[float, float] | None) -> PairBlocks:
    """The pairs of a part, with the weights of mates and of others."""

    def block(rows: slice, columns: slice) -> torch.Tensor:
        return score_there(model, part.trace[rows], part.ref[columns])

    def weight(rows: slice, columns: slice) -> Floats:
        assert weights is not None
        return np.where(part.mates_among(rows, columns), *weights)

    return PairBlocks(block, part.trace.source, part.ref.source, None if weights is None else weight)

"""The work of an experiment as units that need nothing of each other: a family of models on a split, or on a group of them.

A family is a model that is fitted or trained, its *root*, and everything that builds on it: integration, calibrations. Where
each run is fitted by itself, a unit has one split. Runs that are fitted in one tensor program, as all trainings are, make
groups, because a program of many runs costs little more than one of a few. The last bits of a training depend on which runs
share a program, so the size of the groups is settled before the work begins (`with_groups`) and written down with the
results: a unit gives the same bytes on one machine or on ten, today or after a power cut.

`do_unit` does one: split, fit, score, integrate, calibrate, evaluate. At the end the same systems score the test sources again
with 1×1, 2×2, … instances, as far as the table has them: a *series*. The result is bytes and plain numbers. It runs with one
thread for linear algebra, so that the last bits do not depend on how many cores a machine has; trainings, and the scoring of
several runs, put whole runs on several cores.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import Experiment
from lindley.files import json_digest
from lindley.llrs import Floats, LLRs
from lindley.models.blocks import one_thread
from lindley.models.fitting import Progress, require_device, silent
from lindley.models.oracle import oracle
from lindley.models.two_level import take_runs
from lindley.system.fit import Material, Settings, Stage, fit_family, score_runs
from lindley.system.kinds import fetch
from lindley.system.names import ModelName
from lindley.system.provenance import run_seed, stream, versions
from lindley.system.system import System
from lindley.table.read import read_table
from lindley.table.scaling import Scaling
from lindley.table.simulated import glass_population
from lindley.table.splits import Part, Side, Size, Split, draw_nested, make_split, series_sizes
from lindley.table.table import Table

__all__ = [
    "ORACLE",
    "Finished",
    "Unit",
    "code_digest",
    "do_unit",
    "make_units",
    "model_file",
    "unit_keys",
    "with_groups",
]

LONGEST = 100
"""Letters in the name of a folder; a longer name of a model ends in a digest."""
ORACLE = ModelName(None, "oracle")
"""The true LRs of simulated data: not a model that a user can ask for, and computed whenever they are known."""
ORACLE_EFFORT = 16.0
"""Of a split, beside the `effort` of models: on ``glass-simulated`` it takes a quarter of the time of robust."""
TOGETHER = 32
"""Splits of a group, at most: a program of more runs costs as much as two programs."""
MOST_PAIRS = 1 << 27
"""Test pairs of a group, at most: a unit holds their LLRs, 8 bytes each, a few times over."""
LARGEST = 3e38
"""LLRs beyond ± this would be infinite in float32."""


@dataclass(frozen=True)
class Unit:
    """A root, the models that build on it (each after what it needs, the root first), and the splits, from 0."""

    models: tuple[ModelName, ...]
    splits: tuple[int, ...]

    @property
    def root(self) -> ModelName:
        """The model that is fitted or trained."""
        return self.models[0]

    @property
    def span(self) -> str:
        """The splits as a person counts them, for the names of files."""
        return f"{self.splits[0] + 1:02d}-{self.splits[-1] + 1:02d}"

    @property
    def id(self) -> str:
        """Tells the unit from all others of its experiment, and can be the name of a file."""
        return f"{folder_name(self.root)}.{self.span}"

    @property
    def is_trained(self) -> bool:
        """Whether its root is a training, which uses several threads by itself."""
        return self.root != ORACLE and self.root.kind.is_trained

    @property
    def effort(self) -> float:
        """How long it takes, compared with others."""
        return len(self.splits) * (ORACLE_EFFORT if self.root == ORACLE else self.root.effort)


def unit_keys(units: Iterable[Unit], experiment: Experiment, data_sha256: str) -> dict[Unit, str]:
    """Of every unit a digest of everything that decides its numbers: equal keys, equal results."""
    families: dict[tuple[ModelName, ...], dict[str, Any]] = {}
    keys = {}
    for unit in units:
        if unit.models not in families:
            families[unit.models] = _decisive(unit.models, experiment, data_sha256)
        keys[unit] = json_digest({**families[unit.models], "splits": unit.splits})
    return keys


def _decisive(models: Sequence[ModelName], experiment: Experiment, data_sha256: str) -> dict[str, Any]:
    """What decides the numbers of a family, beside the splits."""
    root = models[0]
    decides: dict[str, Any] = {
        "data": data_sha256,
        "protocol": {name: value for name, value in asdict(experiment.protocol).items() if name != "splits"},
        "models": sorted((str(name), name in experiment.rows.values()) for name in models),
        "versions": versions(),
        "code": code_digest(),
    }
    if root == ORACLE:
        return decides
    kind = root.kind
    if not kind.is_ours:
        source = Path(inspect.getfile(fetch(kind.fit))).read_bytes()
        decides["fit"] = hashlib.sha256(source).hexdigest()
    pretrained = dict(root.options).get("pretrain")
    if pretrained is not None:
        decides["pretrain"] = read_table(str(pretrained)).sha256()
    if kind.is_trained:
        decides["training"] = experiment.training.model_dump(mode="json", exclude={"group"})
    return decides


def make_units(experiment: Experiment, *, all_in_groups: bool = False) -> list[Unit]:
    """All units, family by family; the oracle comes last, where the data are simulated and so their true LRs known.

    ``all_in_groups``: as runs of earlier versions had them, with no unit for a split.
    """
    families: dict[ModelName, dict[ModelName, None]] = {}
    for name in experiment.rows.values():
        families.setdefault(name.root, {}).update(dict.fromkeys(name.family))
    chosen = [tuple(family) for family in families.values()]
    if experiment.data.data == "glass-simulated":
        chosen.append((ORACLE,))
    splits = experiment.protocol.splits
    together = list(_groups(splits, experiment.training.group or TOGETHER))
    one_by_one = together if all_in_groups else list(_groups(splits, 1))
    # A GPU has the true LRs of all splits as soon as those of one.
    of_oracle = one_by_one if experiment.training.device == "cpu" else together
    return [
        Unit(models, group)
        for models in chosen
        for group in (of_oracle if models[0] == ORACLE else one_by_one if models[0].alone else together)
    ]


def with_groups(experiment: Experiment, table: Table, workers: int = 1) -> Experiment:
    """The experiment with the size of its groups settled, where it leaves that open.

    All splits make one group, up to `TOGETHER` of them and `MOST_PAIRS`. Where there are more workers than families that are
    trained, each family is cut into at most as many groups as there are workers for it: 8 workers have 7 groups of 3 of 21
    splits of one family, 2 groups of each of three families, and one of each of five or more. Fewer, and workers would have
    nothing to do; more, and they would work longer, because two groups cost nearly twice as much as one.
    """
    if experiment.training.group is not None:
        return experiment
    protocol = experiment.protocol
    trained = {name.root for name in experiment.rows.values() if name.kind.is_trained}
    n_groups = max(1, workers // len(trained)) if trained else 1
    test_sources = len(table.sources) * protocol.shares[2] / sum(protocol.shares)
    by_memory = max(1, int(MOST_PAIRS / max(1.0, test_sources**2)))
    by_workers = -(-protocol.splits // n_groups) if n_groups > 1 else TOGETHER
    group = min(TOGETHER, by_workers, by_memory)
    return experiment.model_copy(update={"training": experiment.training.model_copy(update={"group": group})})


def folder_name(name: ModelName) -> str:
    """The name of a model as the name of a folder; Windows allows no colon, and no path of more than 260 letters."""
    text = str(name).replace(":", "--")
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@cache
def code_digest() -> str:
    """A digest of the source of every module that numbers pass through.

    A version number does not change with every change of the code. This does, so that a half-finished run is never
    completed by code that computes otherwise.
    """
    root = Path(str(files("lindley")))
    packages = ("table", "models", "system", "calibration", "evaluation", "experiment")
    sources = [root / "llrs.py", *(file for package in packages for file in (root / package).rglob("*"))]
    digest = hashlib.sha256()
    for name, file in sorted((file.relative_to(root).as_posix(), file) for file in sources):
        if name.endswith((".py", ".csv")):
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _groups(splits: int, most: int) -> Iterable[tuple[int, ...]]:
    """Splits in groups of nearly equal size, of ``most`` splits at most."""
    n_groups = -(-splits // most)
    edges = [splits * i // n_groups for i in range(n_groups + 1)]
    return [tuple(range(a, b)) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class Finished:
    """What a unit leaves: the content of its files by their paths, and its figures, ready for JSON."""

    files: dict[str, bytes]
    record: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Scored:
    """A model on every split of the unit."""

    held_out: Sequence[LLRs]  # of pairs that the model had not seen
    test: list[Floats]  # (traces, refs), log10
    calibration: list[list[dict[str, Any]]]  # per split, the steps and their numbers
    seconds: float


def do_unit(
    experiment: Experiment, table: Table, unit: Unit, report: Progress = silent, threads: int | None = None
) -> Finished:
    """Every model of the unit on its splits.

    ``seconds`` of a model counts all that it needed, also where it was computed once for several models. LLRs are
    stored, in float32, of the models that the experiment asks for; the figures are computed before they are rounded.
    """
    training = experiment.training
    require_device(training.device)
    threads = torch.get_num_threads() if threads is None else threads
    rows = set(experiment.rows.values())
    files: dict[str, bytes] = {}
    models: dict[str, Any] = {}
    systems: dict[ModelName, System] = {}
    options = tuple(training.model_dump(exclude={"group", "device"}).items())
    device = training.device if unit.root == ORACLE or "gpu" in unit.root.kind.can else "cpu"
    settings = Settings(options, device=device, watched=None, threads=threads, progress=report)
    with one_thread(), threadpool_limits(1):
        splits = [make_split(table, experiment.protocol, index) for index in unit.splits]
        tests = [split.raw[2] for split in splits]
        sized = _sized_tests(table, splits, experiment.protocol.seed)
        if unit.root == ORACLE:
            return Finished({}, {"models": {str(ORACLE): _oracle(tests, sized, settings)}})
        for stage, scored in _scored(unit, experiment, table, splits, settings):
            name = stage.name
            if stage.history is not None:
                arrays = {what: array for what, array in vars(stage.history).items() if array is not None}
                if "validate_axes" in arrays:  # the largest of them: a curve for every axis
                    arrays["validate_axes"] = arrays["validate_axes"].astype(np.float32)
                files[model_file(name, unit.span, "history.npz")] = _npz(arrays)
            if name in rows:
                system = replace(stage.system, splits=unit.splits)
                files[model_file(name, unit.span, "system.safetensors")] = system.to_bytes()
                files[model_file(name, unit.span, "llrs.npz")] = _npz(_llr_arrays(unit, scored, tests))
                models[str(name)] = _figures(scored, tests)
                systems[name] = system
        for name, series in _series(systems, sized, settings).items():
            models[str(name)]["series"] = series
    return Finished(files, {"models": models})


def model_file(name: ModelName, span: str, what: str) -> str:
    """Where a file of a model is, inside the folder of results: ``models/tlm/llrs-01-10.npz``."""
    stem, dot, ending = what.partition(".")
    return f"models/{folder_name(name)}/{stem}-{span}{dot}{ending}"


def _scored(
    unit: Unit, experiment: Experiment, table: Table, splits: Sequence[Split], settings: Settings
) -> Iterator[tuple[Stage, _Scored]]:
    """Fit the models of the unit one after the other, and score the test pairs; those of a model only once."""
    seed = experiment.protocol.seed
    materials = [_material(unit.root, split, table, run_seed(seed, split.index)) for split in splits]
    traces, refs = ([getattr(split.raw[2], side) for split in splits] for side in ("trace", "ref"))
    raw: dict[ModelName, list[Floats]] = {}  # LLRs of models without calibration
    seconds: dict[ModelName | None, float] = {None: 0.0}
    started = time.perf_counter()
    for stage in fit_family(unit.models, materials, table, settings):
        name, system = stage.name, stage.system
        model = replace(name, calibrations=())
        if model not in raw:
            raw[model] = _uncalibrated(system, traces, refs, settings)
        test = [system.calibrated(llr, run) for run, llr in enumerate(raw[model])]
        seconds[name] = seconds[name.before] + time.perf_counter() - started
        steps = [chain.describe() for chain in system.calibrations]
        yield stage, _Scored(stage.held_out, test, steps, seconds[name])
        started = time.perf_counter()


def _material(root: ModelName, split: Split, table: Table, seed: int) -> Material:
    """The training part to learn from and the validation part to look at; or both to learn from."""
    train, validate, _ = split.raw
    where = f"{table.name}, split {split.index + 1}"
    if not root.learns_from_all:
        return Material(lambda: train, lambda: validate, lambda: validate, seed, where)
    both = partial(train.joined, validate)
    return Material(both, None, both, seed, where)


def _sized_tests(table: Table, splits: Sequence[Split], seed: int) -> dict[Size, list[Part]]:
    """The test sources of every split with instances drawn anew, for every size: those that have enough of them.

    A size is left out if a split has fewer than two such sources, and so no pairs.
    """
    sizes = series_sizes(table.source, table.session)
    drawn: dict[Size, list[Part]] = {size: [] for size in sizes}
    for split in splits:
        inside = np.flatnonzero(np.isin(table.source, split.raw[2].source))
        rng = stream(run_seed(seed, split.index), "series")
        session = None if table.session is None else table.session[inside]
        for size, (some, is_trace) in zip(sizes, draw_nested(table.source[inside], sizes, rng, session), strict=True):
            rows = inside[some]
            drawn[size].append(
                Part(table.values[rows], table.source[rows], is_trace, table.group[rows], split.test.mates)
            )
    return {size: parts for size, parts in drawn.items() if min(len(part.trace.source) for part in parts) > 1}


def _uncalibrated(system: System, traces: Sequence[Side], refs: Sequence[Side], settings: Settings) -> list[Floats]:
    """log10 LRs of the model of every run, scored where it was trained."""
    x, y = ([system.prepared(side, run) for run, side in enumerate(sides)] for sides in (traces, refs))
    return score_runs(system.model, x, y, settings)


def _series(
    systems: Mapping[ModelName, System], sized: Mapping[Size, list[Part]], settings: Settings
) -> dict[ModelName, list[Any]]:
    """Of every system, its figures at every size. Those that share a model share its LLRs, held for one size at a time."""
    sharing: dict[ModelName, list[ModelName]] = {}
    for name in systems:
        sharing.setdefault(replace(name, calibrations=()), []).append(name)
    series: dict[ModelName, list[Any]] = {name: [] for name in systems}
    for names in sharing.values():
        for size, parts in sized.items():
            traces, refs = ([getattr(part, side) for part in parts] for side in ("trace", "ref"))
            raw = _uncalibrated(systems[names[0]], traces, refs, settings)
            for name in names:
                llrs = [systems[name].calibrated(llr, run) for run, llr in enumerate(raw)]
                series[name].append(_at_size(size, parts, llrs))
    return series


def _at_size(size: Size, parts: Sequence[Part], llrs: Sequence[Floats]) -> dict[str, Any]:
    """What `lindley.experiment.results.SizeResult` holds, of the splits of a unit."""
    return {"instances": list(size), "sources": [len(part.trace.source) for part in parts], **_costs(parts, llrs)}


def _oracle(tests: Sequence[Part], sized: Mapping[Size, list[Part]], settings: Settings) -> dict[str, Any]:
    """The figures of the true LRs, of measurements as they are."""
    population = glass_population()
    n = len(population.features)
    model = take_runs(oracle(population, Scaling(np.zeros(n), np.ones(n))), [0] * len(tests))

    def true(parts: Sequence[Part]) -> list[Floats]:
        return score_runs(model, [part.trace for part in parts], [part.ref for part in parts], settings)

    series = [_at_size(size, parts, true(parts)) for size, parts in sized.items()]
    return {"test": _costs(tests, true(tests)), "series": series}


def _figures(scored: _Scored, tests: Sequence[Part]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "validate": {"cllr": [float(cllr(llrs)) for llrs in scored.held_out]},
        "test": _costs(tests, scored.test),
        "seconds": round(scored.seconds, 3),
    }
    if any(scored.calibration):
        figures["calibration"] = scored.calibration
    return figures


def _costs(parts: Sequence[Part], llrs: Sequence[Floats]) -> dict[str, list[float]]:
    """Cllr and Cllr_min of every part."""
    pairs = [part.llrs(llr) for llr, part in zip(llrs, parts, strict=True)]
    return {"cllr": [float(cllr(each)) for each in pairs], "cllr_min": [float(cllr_min(each)) for each in pairs]}


def _llr_arrays(unit: Unit, scored: _Scored, tests: Sequence[Part]) -> dict[str, NDArray[Any]]:
    """Of every split, ``test_01`` (traces × refs) with the sources of its rows and columns, and the validation pairs."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, part, held_out, test in zip(unit.splits, tests, scored.held_out, scored.test, strict=True):
        number = f"{index + 1:02d}"
        arrays |= {
            f"test_{number}": _single(test),
            f"test_{number}_trace": part.trace.source,
            f"test_{number}_ref": part.ref.source,
            f"validate_{number}_same": _single(held_out.same),
            f"validate_{number}_different": _single(held_out.different),
        }
        if held_out.different_weight is not None:
            arrays[f"validate_{number}_weight"] = held_out.different_weight
    return arrays


def _single(llr: Floats) -> NDArray[np.float32]:
    return np.clip(llr, -LARGEST, LARGEST).astype(np.float32)


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    return data.getvalue()

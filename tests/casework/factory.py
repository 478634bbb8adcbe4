"""Small simulated data and systems for the tests of casework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lindley.casework.case import Case, Evidence, Language, Notes, evaluate_case, read_evidence
from lindley.casework.laboratory import load_scale
from lindley.system.names import ModelName
from lindley.system.system import System, load
from lindley.system.train import train
from lindley.table.table import Table

Floats = NDArray[np.float64]
FEATURES = ("K39", "Ti49", "Mn55", "Rb85")
WITHIN_SD = 0.12


def population(n_sources: int, n_instances: int, seed: int, features: int = 4) -> tuple[Floats, NDArray[np.str_]]:
    """Instances (rows, feature) around correlated source means, and the source of each."""
    rng = np.random.default_rng((20_26, seed))
    mixing = np.eye(features) + 0.6 * np.tri(features, k=-1)
    theta = rng.normal(size=(n_sources, features)) @ mixing.T
    values = np.repeat(theta, n_instances, axis=0) + WITHIN_SD * rng.normal(size=(n_sources * n_instances, features))
    return values, np.repeat([f"S{i:03d}" for i in range(n_sources)], n_instances)


def table(n_sources: int = 60, n_instances: int = 4, seed: int = 1, features: Sequence[str] = FEATURES) -> Table:
    values, source = population(n_sources, n_instances, seed, len(features))
    return Table.from_arrays(np.round(values, 6), source, features=features, name="simulated")


@cache
def system(model: str = "tlm-kde", replicates: int = 6, units: tuple[str | None, ...] = ()) -> System:
    options = {"epochs": 20} if ModelName.parse(model).kind.is_trained else None
    data = table() if not units else replace(table(), units=units)
    return train(data, model, options=options, replicates=replicates)


def items(seed: int, n: int, instances: int, features: int = 4) -> list[Floats]:
    """Several items of the same population that no system has seen."""
    values, source = population(n, instances, 1000 + seed, features)
    return [values[source == label] for label in np.unique(source)]


def write_csv(
    path: Path, values: Floats, features: Sequence[str] = FEATURES, source: Sequence[str] | None = None
) -> Path:
    """A case table; with a source column if there are labels for the rows."""
    lines = [",".join([*(["source"] if source is not None else []), *features])]
    for at, row in enumerate(np.atleast_2d(values).tolist()):
        lines.append(",".join([*([source[at]] if source is not None else []), *map(repr, row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def saved(folder: Path, model: str = "tlm-kde", units: tuple[str | None, ...] = ()) -> Path:
    path = folder / "system.safetensors"
    system(model, units=units).save(path)
    return path


def evidence(folder: Path, of: System, trace: Floats, ref: Floats) -> tuple[Evidence, Evidence]:
    paths = write_csv(folder / "trace.csv", trace), write_csv(folder / "ref.csv", ref)
    return read_evidence(of, paths[0], "trace"), read_evidence(of, paths[1], "ref")


def case(
    folder: Path,
    trace: Floats,
    ref: Floats,
    model: str = "tlm-kde",
    language: Language = "en",
    scale: str = "nfi",
    notes: Notes | None = None,
) -> Case:
    """A case from its beginning: a system file and two tables."""
    of = load(saved(folder, model))
    return evaluate_case(of, *evidence(folder, of, trace, ref), load_scale(scale), language, notes)

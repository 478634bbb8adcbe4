"""The work of an experiment as units that need nothing of each other: a family of models on a group of splits.

A family is a model that is fitted or trained, its *root*, and everything that builds on it: integration, calibrations. The
splits are grouped the same way wherever the work is done, because the last bits of a training depend on which runs share a
tensor program. So a unit gives the same bytes on one machine or on ten, today or after a power cut.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from lindley.experiment.config import DataConfig, Experiment
from lindley.system.names import NEURAL, NPLDA, ROBUST, ModelName
from lindley.version import __version__

__all__ = ["LIBRARIES", "Unit", "code_digest", "make_units", "split_seed", "versions"]

EFFORT = {ROBUST: 60.0, "tlm-bayes": 30.0, "ht-plda": 10.0, NPLDA: 30.0} | dict.fromkeys(NEURAL, 100.0)
"""How many times as long as the plain classical fit a model takes, about; it only serves the progress bar."""
LONGEST = 100
"""Letters in the name of a folder; a longer name of a model ends in a digest."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")
"""What the numbers of a result depend on, besides this package."""
ORACLE = ModelName(None, "oracle", ())
"""The true LRs of simulated data: not a model that a user can ask for, and computed whenever they are known."""


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
    def effort(self) -> float:
        """How long it takes, compared with others."""
        return len(self.splits) * EFFORT.get(self.root.base, 1.0)

    def key(self, experiment: Experiment, data_sha256: str) -> str:
        """A digest of everything that decides the numbers of the unit: equal keys, equal results."""
        protocol = {name: value for name, value in asdict(experiment.protocol).items() if name != "splits"}
        decides: dict[str, Any] = {
            "data": data_sha256,
            "protocol": protocol,
            "splits": self.splits,
            "models": sorted((str(name), name in experiment.rows.values()) for name in self.models),
            "versions": versions(),
            "code": code_digest(),
        }
        pretrained = dict(self.root.options).get("pretrain")
        if pretrained is not None:
            decides["pretrain"] = DataConfig(data=str(pretrained)).load().sha256()
        if self.root.is_trained:
            decides["training"] = experiment.training.model_dump(mode="json", exclude={"group"})
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def make_units(experiment: Experiment) -> list[Unit]:
    """All units, family by family; the oracle comes last, where the data are simulated and so their true LRs known."""
    families: dict[ModelName, dict[ModelName, None]] = {}
    for name in experiment.rows.values():
        chain = _chain(name)
        families.setdefault(chain[0], {}).update(dict.fromkeys(chain))
    chosen = [tuple(family) for family in families.values()]
    if experiment.data.data == "glass-simulated":
        chosen.append((ORACLE,))
    groups = _groups(experiment.protocol.splits, experiment.training.group)
    return [Unit(models, splits) for models in chosen for splits in groups]


def split_seed(experiment: Experiment, index: int) -> int:
    """Of one split, from 0; it does not depend on how many there are."""
    return (experiment.protocol.seed * 1_000_003 + index) % 2**63


def folder_name(name: ModelName) -> str:
    """The name of a model as the name of a folder; Windows allows no colon, and no path of more than 260 letters."""
    text = str(name).replace(":", "--")
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def versions() -> dict[str, str]:
    """The versions that the numbers depend on."""
    return {"lindley": __version__, **{library: _installed(library) for library in LIBRARIES}}


@cache
def _installed(library: str) -> str:
    return version(library)


@cache
def code_digest() -> str:
    """A digest of the source of every module that numbers pass through.

    A version number does not change with every change of the code. This does, so that a half-finished run is never
    completed by code that computes otherwise.
    """
    digest = hashlib.sha256()
    lindley = files("lindley")
    sources = [("llrs.py", lindley.joinpath("llrs.py"))]
    for package in ("table", "models", "system", "calibration", "evaluation", "experiment"):
        folder = Path(str(lindley.joinpath(package)))
        sources += [(f"{package}/{file.relative_to(folder).as_posix()}", file) for file in folder.rglob("*")]
    for name, file in sorted(sources, key=lambda source: source[0]):
        if name.endswith((".py", ".csv")):
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _chain(name: ModelName) -> list[ModelName]:
    """The model and all that it builds on, the root first."""
    chain = [name]
    while (before := chain[-1].before) is not None:
        chain.append(before)
    return chain[::-1]


def _groups(splits: int, most: int) -> Iterable[tuple[int, ...]]:
    """Splits in groups of nearly equal size, of ``most`` splits at most."""
    n_groups = -(-splits // most)
    edges = [splits * i // n_groups for i in range(n_groups + 1)]
    return [tuple(range(a, b)) for a, b in pairwise(edges)]

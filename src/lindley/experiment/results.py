"""What an experiment leaves behind: numbers per split, a file, and a table to read."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from lindley import __version__
from lindley.data.export import write_atomically
from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import Experiment
from lindley.experiment.names import parse_models
from lindley.llrs import LLRs

__all__ = ["ModelResult", "Results", "default_folder", "writable_folder"]

SCHEMA = 1
FILE = "results.json"


@dataclass(frozen=True)
class ModelResult:
    """The metrics of one model, in the order of the splits."""

    validate_cllr: tuple[float, ...]
    test_cllr: tuple[float, ...]
    test_cllr_min: tuple[float, ...]
    seconds: float

    @classmethod
    def of(cls, validate: Sequence[LLRs], test: Sequence[LLRs], seconds: float) -> ModelResult:
        """Evaluate the LLRs of every split."""
        return cls(tuple(map(cllr, validate)), tuple(map(cllr, test)), tuple(map(cllr_min, test)), round(seconds, 3))

    def to_json(self) -> dict[str, Any]:
        """The entry of a model in results.json."""
        return {
            "validate": {"cllr": list(self.validate_cllr)},
            "test": {"cllr": list(self.test_cllr), "cllr_min": list(self.test_cllr_min)},
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Results:
    """All models of an experiment on one table."""

    experiment: Experiment
    table: Table
    models: dict[str, ModelResult]
    oracle_cllr: list[float] | None

    def to_json(self) -> dict[str, Any]:
        """The content of results.json."""
        table = self.table
        content: dict[str, Any] = {"schema": SCHEMA}
        content["data"] = {
            **self.experiment.data.model_dump(mode="json", exclude_defaults=True),
            "name": table.name,
            "sha256": table.sha256(),
            "rows": len(table.values),
            "sources": len(table.sources),
            "groups": len(set(table.group.tolist())),
            "features": list(table.features),
            "findings": [str(finding) for finding in table.findings],
        }
        content["protocol"] = asdict(self.experiment.protocol)
        content["training"] = self.experiment.training.model_dump(mode="json")
        if self.oracle_cllr is not None:
            content["oracle"] = {"test": {"cllr": self.oracle_cllr}}
        content["models"] = {name: result.to_json() for name, result in self.models.items()}
        content["environment"] = {
            "lindley": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{package: version(package) for package in ("numpy", "scipy", "scikit-learn", "torch")},
        }
        return content

    def write(self, folder: Path) -> Path:
        """Write ``folder/results.json`` in one step: it is whole, or it is not there."""
        text = json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"
        with writable_folder(folder):
            write_atomically(folder / FILE, text.encode("utf-8"))
        return folder / FILE

    def rows(self) -> list[tuple[str, ...]]:
        """Model, test Cllr (mean ± 2 s.e.m.), median, Cllr_min, validation Cllr, seconds: as text, one row a model."""
        rows: list[tuple[str, ...]] = [
            (
                name,
                _mean_and_error(result.test_cllr),
                f"{median(result.test_cllr):.4f}",
                f"{fmean(result.test_cllr_min):.4f}",
                _mean_and_error(result.validate_cllr),
                f"{result.seconds:.1f}",
            )
            for name, result in self.models.items()
        ]
        if self.oracle_cllr is not None:
            values = self.oracle_cllr
            rows.append(("the oracle (true LRs)", _mean_and_error(values), f"{median(values):.4f}", "", "", ""))
        return rows


@contextmanager
def writable_folder(folder: Path) -> Iterator[None]:
    """Make sure that results can be written to a folder; it is made, and taken away again if the body fails.

    Raises:
        LindleyError: before the body runs, with the cause and the fix.
    """
    made: list[Path] = []
    try:
        for each in (folder, *folder.parents):
            if each.exists():
                break
            made.append(each)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if (folder / FILE).is_dir():
            raise IsADirectoryError(0, f"{FILE} in it is a folder itself")
    except OSError as error:
        _remove(made)
        raise LindleyError(
            f"The results cannot be written to the folder {folder} ({error.strerror or error}). "
            "Name another folder with --out, one that you may write to and that is not the name of a file."
        ) from error
    try:
        yield
    except BaseException:
        _remove(made)
        raise


def _remove(folders: Sequence[Path]) -> None:
    """Take away empty folders, the innermost of which comes first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def default_folder(experiment: Experiment, table: Table) -> Path:
    """Where the results go if nobody says where: ``results/EXPERIMENT-DATA``.

    If another experiment, or other data of that name, left results there, it is the next free one of ``…-2``,
    ``…-3``. The same experiment on the same data replaces its results.
    """
    first = Path("results") / f"{experiment.name}-{table.name}"
    folder, number = first, 1
    while os.path.exists(folder / FILE) and not _same_experiment(folder / FILE, experiment, table):
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder


def _same_experiment(path: Path, experiment: Experiment, table: Table) -> bool:
    """Whether a results.json is of the same data, protocol, training and models."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        there = content["data"]["sha256"], content["protocol"], content["training"], set(content["models"])
    except (OSError, ValueError, KeyError, TypeError):  # not to be read, or not ours
        return False
    protocol = json.loads(json.dumps(asdict(experiment.protocol)))
    training = experiment.training.model_dump(mode="json")
    return there == (table.sha256(), protocol, training, {str(name) for name in parse_models(experiment.models)})


def _mean_and_error(values: Sequence[float]) -> str:
    """The mean ± 2 standard errors; a single split has no error."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{fmean(values):.4f} ± {2 * stdev(values) / math.sqrt(len(values)):.4f}"

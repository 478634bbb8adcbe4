"""What an experiment leaves behind: numbers per split, a file, and a table to read."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from lindley.experiment.config import Experiment
from lindley.experiment.folder import RESULTS, writable_folder
from lindley.experiment.plan import ORACLE, Unit, code_digest, versions
from lindley.system.names import ModelName
from lindley.table.export import write_atomically
from lindley.table.table import Table

__all__ = ["ModelResult", "Results", "mean_and_error", "two_sem"]

SCHEMA = 2


@dataclass(frozen=True)
class ModelResult:
    """The metrics of one model, in the order of the splits."""

    model: str  # its full name; the row may have a label of its own
    validate_cllr: tuple[float, ...]
    test_cllr: tuple[float, ...]
    test_cllr_min: tuple[float, ...]
    calibration: tuple[list[dict[str, Any]], ...]  # per split, the steps and their numbers; empty for raw models
    seconds: float

    @classmethod
    def join(cls, model: str, entries: Sequence[dict[str, Any]]) -> ModelResult:
        """Put the entries of a model in the records of its units together."""

        def values(part: str, metric: str) -> tuple[float, ...]:
            return tuple(float(value) for entry in entries for value in entry[part][metric])

        return cls(
            model,
            values("validate", "cllr"),
            values("test", "cllr"),
            values("test", "cllr_min"),
            tuple(steps for entry in entries for steps in entry.get("calibration", [])),
            round(sum(entry["seconds"] for entry in entries), 3),
        )

    def to_json(self) -> dict[str, Any]:
        """The entry of a model in results.json."""
        return {
            "model": self.model,
            "validate": {"cllr": list(self.validate_cllr)},
            "test": {"cllr": list(self.test_cllr), "cllr_min": list(self.test_cllr_min)},
            **({"calibration": list(self.calibration)} if self.calibration else {}),
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> ModelResult:
        """What `to_json` gave."""
        return cls.join(entry["model"], [entry])


@dataclass(frozen=True, eq=False)
class Results:
    """All models of an experiment on one table."""

    experiment: Experiment
    table: Table
    models: dict[str, ModelResult]  # by the names of their rows
    oracle_cllr: list[float] | None

    @classmethod
    def join(cls, experiment: Experiment, table: Table, records: Sequence[tuple[Unit, dict[str, Any]]]) -> Results:
        """Put the records of all units together, in the order of the splits."""

        def entries(name: ModelName) -> list[dict[str, Any]]:
            return [record["models"][str(name)] for unit, record in records if name in unit.models]

        models = {row: ModelResult.join(str(name), entries(name)) for row, name in experiment.rows.items()}
        oracle = [value for entry in entries(ORACLE) for value in entry["test"]["cllr"]]
        return cls(experiment, table, models, oracle or None)

    def to_json(self) -> dict[str, Any]:
        """The content of results.json."""
        table, experiment = self.table, self.experiment
        content: dict[str, Any] = {"schema": SCHEMA, "experiment": experiment.model_dump(mode="json")}
        content["data"] = {
            "name": table.name,
            "sha256": table.sha256(),
            "rows": len(table.values),
            "sources": len(table.sources),
            "groups": len(set(table.group.tolist())),
            "features": list(table.features),
            "findings": [str(finding) for finding in table.findings],
        }
        content["protocol"] = asdict(experiment.protocol)
        content["training"] = experiment.training.model_dump(mode="json")
        if self.oracle_cllr is not None:
            content["oracle"] = {"test": {"cllr": self.oracle_cllr}}
        content["models"] = {row: result.to_json() for row, result in self.models.items()}
        content["environment"] = {
            **versions(),
            "code_sha256": code_digest(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        }
        return content

    def write(self, folder: Path, notice: Callable[[str], None] = lambda message: None) -> Path:
        """Write ``folder/results.json`` in one step: it is whole, or it is not there."""
        path = folder / RESULTS
        data = (json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n").encode("utf-8")
        with writable_folder(folder):
            if path.is_file() and path.read_bytes() != data:
                notice(f"{path} was damaged, or written on another machine: it is written again.")
            write_atomically(path, data)
        return path

    def rows(self) -> list[tuple[str, ...]]:
        """Model, test Cllr (mean ± 2 s.e.m.), median, Cllr_min, validation Cllr, seconds: as text, one row a model."""
        rows: list[tuple[str, ...]] = [
            (
                row,
                mean_and_error(result.test_cllr),
                f"{median(result.test_cllr):.4f}",
                f"{fmean(result.test_cllr_min):.4f}",
                mean_and_error(result.validate_cllr),
                f"{result.seconds:.1f}",
            )
            for row, result in self.models.items()
        ]
        if self.oracle_cllr is not None:
            values = self.oracle_cllr
            rows.append(("the oracle (true LRs)", mean_and_error(values), f"{median(values):.4f}", "", "", ""))
        return rows


def mean_and_error(values: Sequence[float]) -> str:
    """The mean ± 2 standard errors; a single split has no error."""
    return f"{fmean(values):.4f}" + (f" ± {two_sem(values):.4f}" if len(values) > 1 else "")


def two_sem(values: Sequence[float]) -> float:
    """Two standard errors of the mean; 0 for a single value."""
    return 2 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0

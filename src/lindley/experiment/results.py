"""What an experiment leaves behind: numbers per split, a file, and a table to read."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from lindley.data.export import write_atomically
from lindley.data.table import Table
from lindley.experiment.config import Experiment
from lindley.experiment.folder import RESULTS, writable_folder
from lindley.experiment.plan import code_digest, versions

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

    def write(self, folder: Path) -> Path:
        """Write ``folder/results.json`` in one step: it is whole, or it is not there."""
        text = json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"
        with writable_folder(folder):
            write_atomically(folder / RESULTS, text.encode("utf-8"))
        return folder / RESULTS

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

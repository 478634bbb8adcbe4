"""What an experiment leaves behind: numbers per split, a file, and a table to read."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from lindley import __version__
from lindley.data.table import Table
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.experiment.config import Experiment
from lindley.llrs import LLRs

__all__ = ["ModelResult", "Results"]

SCHEMA = 1


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
        folder.mkdir(parents=True, exist_ok=True)
        path, partial = folder / "results.json", folder / f".results.{os.getpid()}.part"
        partial.write_text(json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
        return path

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


def _mean_and_error(values: Sequence[float]) -> str:
    """The mean ± 2 standard errors; a single split has no error."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{fmean(values):.4f} ± {2 * stdev(values) / math.sqrt(len(values)):.4f}"

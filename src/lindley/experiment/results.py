"""What an experiment leaves behind: numbers per split, a file, and a table to read; and several of them side by side."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.folder import RESULTS, writable_folder
from lindley.experiment.work import ORACLE, Unit, code_digest
from lindley.files import json_digest, write_atomically
from lindley.system.names import ModelName
from lindley.system.provenance import versions
from lindley.table.splits import Size, mate_share, session_pairs
from lindley.table.table import Table

if TYPE_CHECKING:
    from lindley.experiment.saved import SavedRun

__all__ = ["ComparedModel", "Comparison", "ModelResult", "Results", "SizeResult", "compare", "two_sem"]

SCHEMA = 3


@dataclass(frozen=True)
class SizeResult:
    """The test metrics of a model with M × N instances of a pair, in the order of the splits."""

    instances: Size
    sources: tuple[int, ...]  # of the test part that have so many
    cllr: tuple[float, ...]
    cllr_min: tuple[float, ...]

    @classmethod
    def join(cls, entries: Sequence[dict[str, Any]]) -> tuple[SizeResult, ...]:
        """The series of a model, or of the oracle: put together from its units, at the sizes that all of them have."""
        of_units = [{tuple(at["instances"]): at for at in entry.get("series", ())} for entry in entries]
        sizes = [size for size in (of_units[0] if of_units else ()) if all(size in unit for unit in of_units)]

        def values(size: Size, metric: str) -> tuple[Any, ...]:
            return tuple(value for unit in of_units for value in unit[size][metric])

        return tuple(cls(size, *(values(size, metric) for metric in ("sources", "cllr", "cllr_min"))) for size in sizes)

    def to_json(self) -> dict[str, Any]:
        """One of the list ``series`` in results.json."""
        return {name: list(values) for name, values in asdict(self).items()}


@dataclass(frozen=True)
class ModelResult:
    """The metrics of one model, in the order of the splits."""

    model: str  # its full name; the row may have a label of its own
    validate_cllr: tuple[float, ...]
    test_cllr: tuple[float, ...]
    test_cllr_min: tuple[float, ...]
    calibration: tuple[list[dict[str, Any]], ...]  # per split, the steps and their numbers; empty for raw models
    seconds: float
    series: tuple[SizeResult, ...] = ()  # with 1×1, 2×2, … instances, where the table has more than two of a source

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
            SizeResult.join(entries),
        )

    def to_json(self) -> dict[str, Any]:
        """The entry of a model in results.json."""
        return {
            "model": self.model,
            "validate": {"cllr": list(self.validate_cllr)},
            "test": {"cllr": list(self.test_cllr), "cllr_min": list(self.test_cllr_min)},
            **({"calibration": list(self.calibration)} if self.calibration else {}),
            "series": [size.to_json() for size in self.series],
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> ModelResult:
        """What `to_json` gave."""
        return cls.join(entry["model"], [entry])

    def test_figures(self) -> tuple[str, str, str]:
        """On the test pairs, as text: Cllr (mean ± 2 s.e.m.), its median, Cllr_min."""
        return _mean_and_error(self.test_cllr), f"{median(self.test_cllr):.4f}", f"{fmean(self.test_cllr_min):.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """All models of an experiment on one table."""

    experiment: Experiment
    table: Table
    models: dict[str, ModelResult]  # by the names of their rows
    oracle_cllr: list[float] | None
    oracle_series: tuple[SizeResult, ...] = ()

    def __repr__(self) -> str:
        best = min(self.models, key=lambda row: fmean(self.models[row].test_cllr))
        return (
            f"<Results on {self.table.name}: {len(self.models)} models on {self.experiment.protocol.splits} splits; lowest "
            f"test Cllr {_mean_and_error(self.models[best].test_cllr)} ({best})>"
        )

    @classmethod
    def join(cls, experiment: Experiment, table: Table, records: Mapping[Unit, dict[str, Any]]) -> Results:
        """Put the records of all units together, in the order of the splits."""

        def entries(name: ModelName) -> list[dict[str, Any]]:
            return [record["models"][str(name)] for unit, record in records.items() if name in unit.models]

        models = {row: ModelResult.join(str(name), entries(name)) for row, name in experiment.rows.items()}
        oracle = [value for entry in entries(ORACLE) for value in entry["test"]["cllr"]]
        return cls(experiment, table, models, oracle or None, SizeResult.join(entries(ORACLE)))

    def to_json(self) -> dict[str, Any]:
        """The content of results.json."""
        table, experiment = self.table, self.experiment
        content: dict[str, Any] = {"schema": SCHEMA, "experiment": experiment.told()}
        content["data"] = {
            "name": table.name,
            "sha256": table.sha256(),
            "rows": len(table.values),
            "sources": len(table.sources),
            "groups": len(set(table.group.tolist())),
            **({} if (pairs := session_pairs(table.source, table.session)) is None else {"sessions": pairs}),
            **({} if (mates := mate_share(table, experiment.protocol.mates)) is None else {"mates": mates}),
            "features": list(table.features),
            "findings": [str(finding) for finding in table.findings],
        }
        content["protocol"] = asdict(experiment.protocol)
        content["training"] = experiment.training.model_dump(mode="json")
        if self.oracle_cllr is not None:
            series = [size.to_json() for size in self.oracle_series]
            content["oracle"] = {"test": {"cllr": self.oracle_cllr}, "series": series}
        content["models"] = {row: result.to_json() for row, result in self.models.items()}
        content["environment"] = {
            **versions(),
            "code_sha256": code_digest(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        }
        content["sha256"] = json_digest(content)
        return content

    def write(self, folder: Path, notice: Callable[[str], None] = lambda message: None) -> Path:
        """Write ``folder/results.json`` in one step: it is whole, or it is not there."""
        path = folder / RESULTS
        data = (json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n").encode("utf-8")
        with writable_folder(folder):
            if path.is_file() and path.read_bytes() != data:
                notice(f"{path} had other content, of other settings or of another machine: it is written again.")
            write_atomically(path, data)
        return path

    def rows(self) -> list[tuple[str, ...]]:
        """Model, test Cllr (mean ± 2 s.e.m.), median, Cllr_min, validation Cllr, seconds: as text, one row a model."""
        rows: list[tuple[str, ...]] = [
            (row, *result.test_figures(), _mean_and_error(result.validate_cllr), f"{result.seconds:.1f}")
            for row, result in self.models.items()
        ]
        if self.oracle_cllr is not None:
            values = self.oracle_cllr
            rows.append(("the oracle (true LRs)", _mean_and_error(values), f"{median(values):.4f}", "", "", ""))
        return rows


def _mean_and_error(values: Sequence[float], sign: str = "") -> str:
    """The mean ± 2 standard errors; a single split has no error. ``sign``: "+" to have one in front of every mean."""
    return f"{fmean(values):{sign}.4f}" + (f" ± {two_sem(values):.4f}" if len(values) > 1 else "")


def two_sem(values: Sequence[float]) -> float:
    """Two standard errors of the mean; 0 for a single value."""
    return 2 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class ComparedModel:
    """One model of one run, and how it differs from what it is compared with; differences are paired per split."""

    run: str
    model: str
    result: ModelResult
    against: str | None  # run and model that it is compared with; nothing for that one itself
    differences: tuple[float, ...] | None  # test Cllr, per split: negative is better than what it is compared with
    why_not: str = ""  # why there are no differences

    @property
    def difference(self) -> str:
        """Mean paired difference ± 2 s.e.m., and in how many splits the model is better."""
        if self.differences is None:
            return self.why_not
        better = sum(d < 0 for d in self.differences)
        return f"{_mean_and_error(self.differences, '+')}, better in {better} of {len(self.differences)}"

    def row(self) -> tuple[str, ...]:
        """As text: run, model, test Cllr, median, Cllr_min, difference."""
        return self.run, self.model, *self.result.test_figures(), self.difference

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        paired = self.differences
        return {
            "run": self.run,
            "model": self.model,
            "test_cllr": list(self.result.test_cllr),
            "test_cllr_mean": fmean(self.result.test_cllr),
            "test_cllr_2sem": two_sem(self.result.test_cllr),
            "against": self.against,
            "differences": None if paired is None else list(paired),
            "difference_mean": None if paired is None else fmean(paired),
            "difference_2sem": None if paired is None else two_sem(paired),
            "why_not": self.why_not or None,
        }


@dataclass(frozen=True)
class Comparison:
    """All lines, and what a reader must know about them."""

    lines: tuple[ComparedModel, ...]
    remarks: tuple[str, ...]


def compare(runs: Sequence[SavedRun], to: str | None = None) -> Comparison:
    """Every model of every run, against the same model in the first run; or all against model ``to`` of the first run.

    Differences are paired: split p of one run against split p of the other, for as many splits as both have. That needs the
    same data and the same protocol; where they are not, the runs are shown without differences.
    """
    first = runs[0]
    called = dict(zip((run.folder for run in runs), _told_apart([run.folder for run in runs]), strict=True))
    if to is not None:
        first.spec(to)  # says which models there are, if it is not one of them
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise LindleyError("The same folder is named twice: name each once.")
    if len(runs) < 2 and to is None:
        raise LindleyError(
            "One experiment alone has nothing to be compared with: name two folders, or give --to MODEL to compare its "
            f"models with one of them ({', '.join(first.models)})."
        )
    lines, remarks = [], []
    for run in runs:
        obstacle = _obstacle(first, run)
        if obstacle:
            remarks.append(
                f"{called[run.folder]}: {obstacle}, so its splits do not pair with those of {called[first.folder]}."
            )
        for model in run.models:
            other = to if to is not None else model
            result = run.result(model)
            differences, why_not = None, ""
            if run is first and model == other:
                why_not = "is compared with"
            elif obstacle:
                why_not = "not paired"
            elif other not in first.models:
                why_not = "not in the first"
            else:
                pairs = zip(result.test_cllr, first.result(other).test_cllr, strict=False)  # as many as both have
                differences = tuple(a - b for a, b in pairs)
            against = None if differences is None else f"{other} in {called[first.folder]}"
            lines.append(ComparedModel(called[run.folder], model, result, against, differences, why_not))
    return Comparison(tuple(lines), tuple(remarks))


def _told_apart(folders: Sequence[Path]) -> list[str]:
    """Folders by their names, with as many of the folders around them as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len({*parts}):
            break
    return names


def _obstacle(a: SavedRun, b: SavedRun) -> str:
    """Why two runs do not pair; nothing if they do."""
    if a.content["data"]["sha256"] != b.content["data"]["sha256"]:
        return "it has other data"
    if replace(a.experiment.protocol, splits=1) != replace(b.experiment.protocol, splits=1):
        return "it has another protocol (replicates, shares or seed)"
    return ""

"""A run that was saved: everything that a report or a comparison needs, read from its folder without any training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.folder import RESULTS, read_arrays, read_table_file, read_unit_file, read_whole, require_results
from lindley.experiment.results import SCHEMA, ModelResult, Results, SizeResult
from lindley.experiment.work import Unit, make_units, model_file
from lindley.files import json_digest
from lindley.llrs import Floats, LLRs
from lindley.models.fitting import History
from lindley.shown import read_json
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.table.splits import Split, make_splits
from lindley.table.table import Table

__all__ = ["SavedRun"]


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A finished run. Rows are the models as results.json calls them; splits count from 0.

    Files are checked against the digests that their unit names when they are read.
    """

    folder: Path
    content: dict[str, Any]  # results.json
    experiment: Experiment
    table: Table

    @classmethod
    def open(cls, folder: str | Path) -> SavedRun:
        """Read the run in a folder.

        Raises:
            LindleyError: if there is none, if it is not finished, or if it is damaged.
        """
        path = require_results(folder)
        try:
            content = read_json(path.read_bytes())
            schema = content["schema"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LindleyError(f"{path} does not read ({error}). Run the experiment again.") from error
        if schema != SCHEMA:
            raise LindleyError(
                f"{path} was written by another version of lindley (layout {schema}; this one reads {SCHEMA}). Run the "
                "experiment again."
            )
        if content.pop("sha256", None) != json_digest(content):
            raise LindleyError(
                f"{path} was changed after it was written, or is damaged: its digest is another. Give the same 'lindley run' "
                "again: it puts the figures together anew from the parts that they were made of."
            )
        try:
            experiment = Experiment.model_validate(content["experiment"])
            models = {row: ModelResult.from_json(entry) for row, entry in content["models"].items()}
            sha256 = content["data"]["sha256"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LindleyError(f"{path} is damaged ({error}). Run the experiment again.") from error
        if list(models) != list(experiment.rows):
            raise LindleyError(f"{path} is damaged: its models are not those of its experiment.")
        table = read_table_file(Path(folder))
        if table.sha256() != sha256:
            raise LindleyError(f"The data in {folder} are not those of its {RESULTS}. Run the experiment again.")
        run = cls(Path(folder), content, experiment, table)
        run._check()
        return run

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process, to which a run is sent, reads it from its folder, once."""
        return _opened, (self.folder.absolute(),)

    @property
    def models(self) -> tuple[str, ...]:
        """The rows, in order."""
        return tuple(self.experiment.rows)

    @cached_property
    def splits(self) -> list[Split]:
        """All splits."""
        return make_splits(self.table, self.experiment.protocol)

    @property
    def oracle_cllr(self) -> list[float] | None:
        """Test Cllr of the true LRs, where they are known."""
        return self.content["oracle"]["test"]["cllr"] if "oracle" in self.content else None

    @property
    def oracle_series(self) -> tuple[SizeResult, ...]:
        """Test figures of the true LRs at every size of the series, where they are known."""
        return SizeResult.join([self.content.get("oracle", {})])

    def spec(self, row: str) -> ModelName:
        """The model behind a row."""
        try:
            return self.experiment.rows[row]
        except KeyError:
            raise LindleyError(f"{self.folder} holds no model '{row}'. It holds: {', '.join(self.models)}") from None

    def result(self, row: str) -> ModelResult:
        """The figures of a row."""
        self.spec(row)
        return ModelResult.from_json(self.content["models"][row])

    def llr(self, row: str, split: int) -> Floats:
        """log10 LRs of all test pairs (traces, refs)."""
        arrays = self._arrays(self.spec(row), split, "llrs.npz")
        return np.asarray(arrays[f"test_{split + 1:02d}"], dtype=np.float64)

    def validation(self, row: str, split: int) -> LLRs:
        """log10 LRs of the validation pairs: those of the validation sources, or of pairs that cross-fitting held out."""
        arrays = self._arrays(self.spec(row), split, "llrs.npz")
        number = f"validate_{split + 1:02d}"
        return LLRs(arrays[f"{number}_same"], arrays[f"{number}_different"], None, arrays.get(f"{number}_weight"))

    def system(self, row: str, split: int) -> System:
        """The system of one split: it scores what `llr` holds, and anything else."""
        name = self.spec(row)
        return self._systems(self._unit(name, split), name).for_split(split)

    @lru_cache(maxsize=4)  # noqa: B019 - a run lives as long as its report is made
    def _systems(self, unit: Unit, name: ModelName) -> System:
        path = model_file(name, unit.span, "system.safetensors")
        return System.from_bytes(self._bytes(unit, path), str(self.folder / path))

    def history(self, row: str, split: int) -> History | None:
        """The training of one split, of a neural model or of the one that it builds on."""
        name = self.spec(row).root
        unit = self._unit(name, split)
        if model_file(name, unit.span, "history.npz") not in self._records[unit]["files"]:
            return None
        run = unit.splits.index(split)
        arrays = {key: array[run : run + 1] for key, array in self._arrays(name, split, "history.npz").items()}
        axes = arrays.pop("validate_axes", None)
        return History(**arrays, validate_axes=None if axes is None else axes.astype(np.float64))

    @cached_property
    def _records(self) -> dict[Unit, dict[str, Any]]:
        """The units, and what their files say of them."""
        records = {}
        for unit in self._units():
            try:
                records[unit] = read_unit_file(self.folder, unit.id)
            except FileNotFoundError as error:
                missing = f"{error.filename} is missing. Run the experiment again: it does what is missing."
                raise LindleyError(missing) from error
            except LindleyError as error:
                raise LindleyError(f"{error}. Run the experiment again: it redoes what is damaged.") from error
        return records

    def _units(self) -> list[Unit]:
        """As they were done: an earlier version had groups of splits for every model."""
        there = {path.stem for path in (self.folder / "units").glob("*.json")}
        units, before = make_units(self.experiment), make_units(self.experiment, all_in_groups=True)
        missing = {unit.root for unit in units if unit.id not in there}
        earlier = missing - {unit.root for unit in before if unit.id not in there}
        return [unit for unit in units if unit.root not in earlier] + [unit for unit in before if unit.root in earlier]

    def _check(self) -> None:
        """Hold results.json to the units that it was made of."""
        figures = {row: self.result(row) for row in self.models}
        try:
            made = Results.join(self.experiment, self.table, self._records)
            oracle = (made.oracle_cllr, made.oracle_series) == (self.oracle_cllr, self.oracle_series)
            same = oracle and made.models == figures and _facts(made.to_json()) == _facts(self.content)
        except (KeyError, TypeError, ValueError, AttributeError):
            same = False
        if not same:
            raise LindleyError(
                f"{self.folder / RESULTS} is damaged: its figures or facts are not those of the parts it was made of. Run the "
                "experiment again: it puts them together anew."
            )

    def _unit(self, name: ModelName, split: int) -> Unit:
        if not 0 <= split < self.experiment.protocol.splits:
            raise IndexError(f"there is no split {split}: they count from 0 to {self.experiment.protocol.splits - 1}")
        return self._places[name, split]

    @cached_property
    def _places(self) -> dict[tuple[ModelName, int], Unit]:
        """The unit of every model on every split."""
        return {(name, split): unit for unit in self._records for name in unit.models for split in unit.splits}

    def _bytes(self, unit: Unit, name: str) -> bytes:
        data = read_whole(self.folder / name, self._records[unit]["files"].get(name))
        if data is None:
            raise LindleyError(
                f"{self.folder / name} is missing or damaged. Run the experiment again: it redoes what is damaged."
            )
        return data

    def _arrays(self, name: ModelName, split: int, what: str) -> dict[str, NDArray[Any]]:
        return self._load(self._unit(name, split), name, what)

    @lru_cache(maxsize=4)  # noqa: B019 - a run lives as long as its report is made
    def _load(self, unit: Unit, name: ModelName, what: str) -> dict[str, NDArray[Any]]:
        return read_arrays(self._bytes(unit, model_file(name, unit.span, what)))


@lru_cache(maxsize=1)
def _opened(folder: Path) -> SavedRun:
    return SavedRun.open(folder)


def _facts(content: dict[str, Any]) -> Any:
    """What results.json says of the run and can be told from its folder: all but the remarks of the reader, and the machine."""
    told = {name: content[name] for name in ("experiment", "protocol", "training")}
    data = {name: value for name, value in content["data"].items() if name != "findings"}
    return json.loads(json.dumps({**told, "data": data}))

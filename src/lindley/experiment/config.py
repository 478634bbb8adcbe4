"""An experiment: the data, the protocol and the models, from a built-in name, a YAML file, or options."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lindley.data.columns import Columns
from lindley.data.datasets import dataset_names, load_dataset
from lindley.data.read import Examination, examine_table, read_table
from lindley.data.splits import Protocol
from lindley.data.summary import summarise
from lindley.data.table import Table
from lindley.data.transform import Transform
from lindley.errors import LindleyError
from lindley.experiment.names import parse_models

__all__ = ["BUILT_IN", "DataConfig", "Experiment", "TrainingConfig", "load_experiment"]

BUILT_IN = ("demo",)


class DataConfig(BaseModel):
    """A named data set, or a file and how to read it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field(description="a named data set, or the path of a CSV or .xlsx file")
    source_column: str | None = None
    group_column: str | None = None
    instance_column: str | None = None
    include_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    transform: Literal["none", "log10", "ln"] = "none"
    reference_column: str | None = None
    sheet: str | None = None
    allow_duplicates: bool = False

    def load(self) -> Table:
        """Read the table; every problem with it is a `LindleyError`."""
        if self._named():
            return load_dataset(self.data)
        return read_table(self.data, *self._reading(), sheet=self.sheet, allow_duplicates=self.allow_duplicates)

    def examine(self) -> Examination:
        """Read the table and report what is wrong or odd with it, instead of raising."""
        if self._named():
            table = load_dataset(self.data)
            return Examination(table, table.findings, summarise(table))
        return examine_table(self.data, *self._reading(), sheet=self.sheet, allow_duplicates=self.allow_duplicates)

    def _named(self) -> bool:
        """Whether this is a named data set, which knows its columns."""
        if self.data not in dataset_names():
            return False
        if options := self.model_dump(exclude_defaults=True, exclude={"data"}):
            raise LindleyError(
                f"{self.data} is a named data set, and knows its columns: leave out "
                f"{', '.join('--' + name.replace('_', '-') for name in options)}, or write the set to a file with "
                f"'lindley data export {self.data}' and read that."
            )
        return True

    def _reading(self) -> tuple[Columns, Transform]:
        columns = Columns(
            self.source_column,
            self.group_column,
            self.instance_column,
            self.include_columns,
            self.ignore_columns,
        )
        return columns, Transform(self.transform, self.reference_column)


class TrainingConfig(BaseModel):
    """How the neural models are trained; the classical ones have no use for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: int = Field(default=2000, ge=1, description="passes over the training pairs or sources")
    device: Literal["cpu", "cuda"] = "cpu"


class Experiment(BaseModel):
    """Everything that decides the numbers of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    data: DataConfig
    protocol: Protocol = Protocol()
    training: TrainingConfig = TrainingConfig()
    models: tuple[str, ...]

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        """The name becomes part of the name of a folder, and must not lead elsewhere."""
        if not re.fullmatch(r"[^/\\\x00-\x1f]+", name) or not name.strip(" ."):
            raise LindleyError(
                f"the experiment cannot be called '{name}': its name becomes part of the name of a folder. Give a "
                "plain name, without / and \\, such as 'name: glass' in the YAML file."
            )
        return name


_SECTIONS = {"data": "{data: glass.csv}", "protocol": "{splits: 21}", "training": "{epochs: 2000}"}
"""The parts of an experiment that hold names and values, with an example of each."""


def load_experiment(name_or_path: str, overrides: dict[str, dict[str, Any]] | None = None) -> Experiment:
    """A built-in experiment, or one from a YAML file, with some of its values replaced.

    ``overrides`` holds values for ``data``, ``protocol``, ``training`` and, under ``experiment``, for the top level. A new
    ``data`` entry starts afresh: the columns of another table would not fit. In a file, ``data: NAME`` is short
    for ``data: {data: NAME}``.
    """
    content = _read(name_or_path)
    overrides = overrides or {}
    if "data" in overrides.get("data", {}):
        content["data"] = {}
    if isinstance(content.get("data"), str):
        content["data"] = {"data": content["data"]}
    for section, example in _SECTIONS.items():
        given = {} if content.get(section) is None else content[section]
        if not isinstance(given, dict):
            raise LindleyError(
                f"the experiment '{name_or_path}' does not read: {section} must hold names and values, such as "
                f"{section}: {example}, and not {given!r}"
            )
        content[section] = {**given, **overrides.get(section, {})}
    content |= overrides.get("experiment", {})
    try:
        experiment = Experiment.model_validate(content)
    except ValidationError as error:
        problems = "\n".join(f"  {'.'.join(map(str, e['loc'])) or 'experiment'}: {e['msg']}" for e in error.errors())
        raise LindleyError(f"the experiment '{name_or_path}' does not read:\n{problems}") from error
    parse_models(experiment.models)  # a misspelt model is told now, not after the table is read
    return experiment


def _read(name_or_path: str) -> dict[str, Any]:
    if name_or_path in BUILT_IN:
        text, name = files("lindley.experiment").joinpath(f"{name_or_path}.yaml").read_text("utf-8"), name_or_path
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise LindleyError(
                f"there is no experiment '{name_or_path}': give a built-in one ({', '.join(BUILT_IN)}) or the path of "
                "a YAML file"
            )
        text, name = _text(path), path.stem
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # the 40th of January is a ValueError
        raise LindleyError(f"{name_or_path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise LindleyError(f"{name_or_path} must hold the keys data, protocol and models")
    return {"name": name, **content}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} (0x{error.object[error.start]:02x})"
        raise LindleyError(f"{path}: {byte} is not UTF-8 text. Save the file with encoding UTF-8.") from error
    except OSError as error:
        raise LindleyError(
            f"{path} cannot be read ({error.strerror or error}). Check that you may read the file."
        ) from error

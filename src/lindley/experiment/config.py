"""An experiment: the data, the protocol, the models and the output; read from a built-in name or a YAML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from importlib.resources import files
from inspect import getdoc
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from lindley.documents import Document, Place, Section, ShortForm
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.shown import file_name
from lindley.system.kinds import KINDS, MOST
from lindley.system.names import FILES, ModelName
from lindley.table.config import DataConfig
from lindley.table.splits import Protocol

__all__ = [
    "BUILT_IN",
    "Experiment",
    "ModelConfig",
    "OutputConfig",
    "TrainingConfig",
    "json_schema",
    "load_experiment",
]

BUILT_IN = ("demo", "paper", "paper-literal")
LONGEST_NAME = 100
"""Letters in the name of an experiment: Windows allows no path of more than 260."""


class TrainingConfig(Section):
    """How the neural models are trained; the classical ones have no use for it. The defaults are the paper's."""

    epochs: int = Field(default=2000, ge=1, le=MOST, description="passes over the training pairs or sources")
    batch: int = Field(default=50, ge=1, le=MOST, description="same-source pairs, or sources, in a batch")
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False, description="of AdamW")
    weight_decay: float = Field(default=1e-2, ge=0, allow_inf_nan=False, description="of AdamW")
    group: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="splits that are worked on together, at most; default all of them, or as few as give every worker a "
        "training",
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where the neural models are trained")


class ModelConfig(ShortForm):
    """A model by its name; or by its name and what is different about it."""

    model: str = Field(
        description="[transform:]model[+calibration…], as in tlm, yeo-johnson:tlm+logistic+elub, "
        "ntlm-single-sources-n2-varying"
    )
    label: str | None = Field(
        default=None, description="how the model is called in results and report; default its name"
    )
    integration: Literal["common", "varying"] | None = Field(
        default=None,
        description="integrate the variance out; the same as -common or -varying behind the name of a neural model",
    )
    calibration: tuple[Literal["logistic", "kde", "pav", "elub", "iv"], ...] = Field(
        default=(), description="calibrations in their order; the same as +logistic, +elub … behind the name"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="what is different about this model")

    @property
    def name(self) -> ModelName:
        """The model in full."""
        return ModelName.of(
            self.model, integration=self.integration, calibrations=self.calibration, options=self.options
        )

    @field_validator("options")
    @classmethod
    def _of_its_kind(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """The options as the kind of model reads them, so that an error points at the one that is wrong."""
        try:
            kind = ModelName.of(str(info.data.get("model"))).kind
        except LindleyError:
            return options  # told of the model
        if not kind.options.model_fields:
            return options  # told of the model
        return dict(kind.options.model_validate(options).given())

    def told(self) -> Any:
        """As it is written down: a file by its name alone."""
        if not any(option in FILES for option, _ in self.name.options):
            return self.model_dump(mode="json")
        label = {} if self.label is None else {"label": self.label}
        return {"model": str(self.name), **label} if label else str(self.name)

    @property
    def row(self) -> str:
        """How the model is called in results."""
        return self.label if self.label is not None else str(self.name)

    @model_validator(mode="after")
    def _known(self) -> Self:
        try:
            _ = self.name
        except LindleyError as error:
            raise ValueError(str(error)) from error
        if self.label is not None and (not self.label.strip() or not self.label.isprintable()):
            raise ValueError("a label needs at least one letter, on one line")
        return self


class OutputConfig(Section):
    """Where the results go, and what is drawn."""

    folder: str | None = Field(default=None, description="for results and report; default results/EXPERIMENT-DATA")
    report: bool = Field(default=True, description="write report.html and the figures for papers")


class Experiment(Section):
    """Everything that decides the numbers of a run."""

    name: str = Field(description="part of the name of the folder of results; default the name of the file")
    data: DataConfig
    protocol: Protocol = Protocol()
    training: TrainingConfig = TrainingConfig()
    models: tuple[ModelConfig, ...] = Field(
        description="the rows of the results, in this order", json_schema_extra={"minItems": 1}
    )
    output: OutputConfig = OutputConfig()

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        """The name becomes part of the name of a folder, and must not lead elsewhere."""
        if not name.isprintable() or set(name) & set("/\\") or not name.strip(" .") or len(name) > LONGEST_NAME:
            raise ValueError(
                f"the experiment cannot be called {name[:LONGEST_NAME]!r}: its name becomes part of the name of a folder. "
                f"Give a plain name of {LONGEST_NAME} letters at most, without / and \\, such as 'name: glass'."
            )
        return name

    @field_validator("protocol", "training", mode="before")
    @classmethod
    def _no_truth_values(cls, value: Any) -> Any:
        """YAML's yes would be read as the number 1."""
        for name, given in value.items() if isinstance(value, dict) else ():
            if isinstance(given, bool):
                raise ValueError(f"{name} must be a number or a name, and not yes or no")
        return value

    @field_validator("protocol", mode="wrap")
    @classmethod
    def _possible(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Protocol:
        try:
            return handler(value)  # type: ignore[no-any-return]
        except LindleyError as error:
            raise ValueError(str(error)) from error

    @field_validator("models")
    @classmethod
    def _each_once(cls, models: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
        """The same row twice is one row; two rows of one label are a mistake."""
        if not models:
            raise ValueError(
                f"there is no model to run: give at least one, such as {setting('models', 'tlm+logistic')}"
            )
        rows: dict[str, ModelConfig] = {}
        names: dict[str, ModelName] = {}
        for model in models:
            if names.setdefault(str(model.name), model.name) != model.name:
                raise ValueError(
                    f"two models '{model.name}' differ by the folders of their files alone: give the files other names"
                )
            if rows.setdefault(model.row, model).name != model.name:
                raise ValueError(f"two models are called '{model.row}': give one of them another label")
        return tuple(rows.values())

    def told(self) -> dict[str, Any]:
        """As it is written down, all that decides the numbers: files by their names alone, and not where results went.

        A folder may be named after a person, and what is written down goes to others.
        """
        content = self.model_dump(mode="json", exclude={"output": {"folder"}})
        content["models"] = [model.told() for model in self.models]
        data = {"data": content["data"]} if isinstance(content["data"], str) else content["data"]
        data = {**data, "data": file_name(data["data"])}
        content["data"] = data if len(data) > 1 else data["data"]
        return content

    @cached_property
    def rows(self) -> dict[str, ModelName]:
        """The models by the names of their rows, in order."""
        return {model.row: model.name for model in self.models}


def json_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file."""
    schema = Experiment.model_json_schema()
    protocol = schema["$defs"]["Protocol"]
    protocol |= {"description": getdoc(Protocol), "additionalProperties": False}  # as pydantic says itself since 2.14
    for name, about in _PROTOCOL.items():
        protocol["properties"][name] |= about
    every = (kind.options.model_json_schema().get("properties", {}) for kind in KINDS.values())
    schema["$defs"]["Options"] = {
        "type": "object",
        "description": "What is different about one model; each kind knows its own.",
        "properties": {name: about for some in every for name, about in some.items()},
        "additionalProperties": False,
    }
    schema["$defs"]["ModelConfig"]["anyOf"][1]["properties"]["options"] = {"$ref": "#/$defs/Options"}
    schema["required"] = [key for key in schema["required"] if key != "name"]  # a file's name is its default
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_PROTOCOL: dict[str, dict[str, Any]] = {
    "splits": {"minimum": 1, "description": "how many random splits of the sources"},
    "replicates": {"minimum": 2, "description": "measurements drawn from every source, trace and ref together"},
    "trace_instances": {
        "minimum": 1,
        "description": "how many of the replicates are the trace; the others are the ref",
    },
    "shares": {"description": "sizes of the training, validation and test parts, in any unit"},
    "seed": {"minimum": 0, "description": "all splits come from it"},
    "mates": {
        "description": "how often two different sources are of one group: as-in-table, never, or a share; fits, calibrations "
        "and figures go by it",
    },
}
"""What the schema says of a protocol; `Protocol` itself knows no pydantic."""

_SECTIONS = {
    "data": "{data: glass.csv}",
    "protocol": "{splits: 21}",
    "training": "{epochs: 2000}",
    "output": "{folder: results/glass}",
}
"""The parts of an experiment that hold names and values, with an example of each."""

_NO_SUCH = "there is no such setting here; 'lindley schema' lists all"
_PLAIN = {
    "extra_forbidden": _NO_SUCH,
    "unexpected_keyword_argument": _NO_SUCH,
    "model_type": "must be a name, or names and values such as {model: tlm, label: benchmark}",
}
"""What is said of an experiment for some of pydantic's errors."""


def load_experiment(name_or_path: str, overrides: dict[str, dict[str, Any]] | None = None) -> Experiment:
    """A built-in experiment, or one from a YAML file, with some of its values replaced.

    ``overrides`` holds values for the sections (``data``, ``protocol``, ``training``, ``output``) and, under
    ``experiment``, for the top level. A new ``data`` entry starts afresh: the columns of another table would not fit. A
    value of ``training`` counts for all models, also for those with an option of their own. What does not read is told with
    its line.
    """
    document = _read(name_or_path)
    content: dict[str, Any] = {"name": Path(name_or_path).stem, **document.content}
    overrides = overrides or {}
    if "data" in overrides.get("data", {}):
        content["data"] = {}
    if isinstance(content.get("data"), str):
        content["data"] = {"data": content["data"]}
    for section, example in _SECTIONS.items():
        given = {} if content.get(section) is None else content[section]
        if not isinstance(given, dict):
            raise LindleyError(
                f"the experiment '{name_or_path}' does not read: {document.line((section,))}{section} must hold names and "
                f"values, such as {section}: {example}, and not {given!r}"
            )
        content[section] = {**given, **overrides.get(section, {})}
    content |= overrides.get("experiment", {})
    if isinstance(content.get("models"), list):
        content["models"] = [_without(model, overrides.get("training", {})) for model in content["models"]]
    replaced: set[Place] = {(section, key) for section in _SECTIONS for key in overrides.get(section, {})}
    replaced |= {(key,) for key in overrides.get("experiment", {})}

    def place(found: Place, message: str) -> Place:
        """A message about a whole protocol names the value that is wrong."""
        named = [f.name for f in fields(Protocol) if f.name in message and f.name in content["protocol"]]
        return (*found, *named[:1]) if found == ("protocol",) else found

    what = f"the experiment '{name_or_path}' does not read"
    return document.validate(Experiment, what, _PLAIN, content=content, replaced=replaced, place=place)


def _without(model: Any, replaced: Mapping[str, Any]) -> Any:
    """A model without options of its own for what is replaced for all models."""
    if not isinstance(model, dict) or not isinstance(model.get("options"), dict):
        return model
    return {**model, "options": {key: value for key, value in model["options"].items() if key not in replaced}}


def _read(name_or_path: str) -> Document:
    if name_or_path in BUILT_IN:
        document = Document.read(files("lindley.experiment").joinpath(f"{name_or_path}.yaml"), name_or_path)
    elif os.path.isfile(name_or_path):  # which says no of a name that is too long
        document = Document.read(Path(name_or_path))
    else:
        raise LindleyError(
            f"there is no experiment '{name_or_path}': give a built-in one ({', '.join(BUILT_IN)}) or the path of "
            "a YAML file"
        )
    if not isinstance(document.content, dict):
        raise LindleyError(f"{name_or_path} must hold the keys data and models, such as data: glass.csv")
    if "experiments" in document.content and "models" not in document.content:
        raise LindleyError(
            f"{name_or_path}: {document.line(('experiments',))}the key experiments makes it a file of LiR's. Run it with "
            f"'lir {name_or_path}', where LiR is installed: pip install 'lindley[lir]', with Python 3.12 or newer. A file for "
            "'lindley run' holds the keys data and models."
        )
    return document

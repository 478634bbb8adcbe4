"""An experiment: the data, the protocol, the models and the output. `lindley.experiment.load` reads it from a file."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from lindley.errors import LindleyError
from lindley.system.names import INTEGRATIONS, NEURAL, NPLDA, ROBUST, ModelName
from lindley.table.columns import Columns
from lindley.table.datasets import dataset_names, load_dataset
from lindley.table.read import Examination, examine_table, read_table
from lindley.table.splits import Protocol
from lindley.table.summary import summarise
from lindley.table.table import Table
from lindley.table.transform import Transform

__all__ = [
    "DataConfig",
    "Experiment",
    "ModelConfig",
    "OptionsConfig",
    "OutputConfig",
    "TrainingConfig",
    "json_schema",
]


class _Section(BaseModel):
    """A part of an experiment: its fields and no others, and not to be changed once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _ShortForm(_Section):
    """A section with one field that matters most: ``NAME`` is short for ``{that field: NAME}``, read and written."""

    @classmethod
    def _first(cls) -> str:
        return next(iter(cls.model_fields))

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {cls._first(): value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _to_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        given = {name: value for name, value in handler(self).items() if name in self.model_fields_set}
        return given[self._first()] if set(given) == {self._first()} else given

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inside = handler.resolve_ref_schema(handler(schema))
        short = {"type": "string", "description": f"short for {{{cls._first()}: …}}"}
        return {"anyOf": [short, inside]}


class DataConfig(_ShortForm):
    """A named data set, or a file and how to read it."""

    data: str = Field(description="a named data set (see 'lindley data list'), or the path of a CSV or .xlsx file")
    source_column: str | None = Field(default=None, description="the column that names the source; default 'source'")
    group_column: str | None = Field(default=None, description="sources of one group are never split apart")
    instance_column: str | None = Field(
        default=None, description="the column that numbers the measurements of a source"
    )
    include_columns: tuple[str, ...] = Field(default=(), description="use these columns as features, and no others")
    ignore_columns: tuple[str, ...] = Field(default=(), description="leave these columns out")
    transform: Literal["none", "log10", "ln"] = Field(default="none", description="take the logarithm of every feature")
    reference_column: str | None = Field(
        default=None, description="divide every feature by this column before the logarithm"
    )
    sheet: str | None = Field(default=None, description="the sheet of an .xlsx file; default the first")
    allow_duplicates: bool = Field(default=False, description="accept identical rows of one source, with a warning")

    def load(self, *, to_split: bool = True) -> Table:
        """Read the table; every problem with it is a `LindleyError`. One that is not ``to_split`` may hold few sources."""
        if self._named():
            return load_dataset(self.data)
        return read_table(
            self.data,
            *self._reading(),
            sheet=self.sheet,
            allow_duplicates=self.allow_duplicates,
            to_split=to_split,
        )

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
        options = [name for name in type(self).model_fields if name != "data" and name in self.model_fields_set]
        if options := [name for name in options if getattr(self, name) != type(self).model_fields[name].default]:
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


class TrainingConfig(_Section):
    """How the neural models are trained; the classical ones have no use for it. The defaults are the paper's."""

    epochs: int = Field(default=2000, ge=1, description="passes over the training pairs or sources")
    batch: int = Field(default=50, ge=1, description="same-source pairs, or sources, in a batch")
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False, description="of AdamW")
    weight_decay: float = Field(default=1e-2, ge=0, allow_inf_nan=False, description="of AdamW")
    group: int = Field(
        default=11,
        ge=1,
        description="splits that are worked on together, at most: more are faster, fewer lose less when a run is broken off",
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where the neural models are trained")


class OptionsConfig(_Section):
    """What one model does otherwise than the experiment's training and the paper's architecture."""

    epochs: int | None = Field(default=None, ge=1, description="in place of the training's")
    batch: int | None = Field(default=None, ge=1, description="in place of the training's")
    learning_rate: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="in place of the training's"
    )
    weight_decay: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="in place of the training's"
    )
    components: int | None = Field(
        default=None, ge=1, description="of the Gaussian mixture between sources, per axis; default 1"
    )
    orthonormal: Literal["qr", "qr-signed", "exponential", "cayley", "householder"] | None = Field(
        default=None,
        description="how an orthonormal matrix is made of free parameters; default exponential, the paper's is qr",
    )
    start: Literal["random", "maximum-likelihood"] | None = Field(
        default=None, description="where training begins; default random"
    )
    samples: int | None = Field(
        default=None,
        ge=1,
        description="of the variance when it is integrated out as varying; default quadrature, the paper's 2000",
    )
    pretrain: str | None = Field(
        default=None,
        description="another table, a named data set or a file, to learn from first: a neural model starts with what it "
        "learnt there (the table needs all features of the data), robust takes its scalars as the centre of their prior",
    )


class ModelConfig(_ShortForm):
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
    options: OptionsConfig = Field(
        default_factory=OptionsConfig,
        description="of a neural model; robust knows pretrain, and nplda epochs",
    )

    @property
    def name(self) -> ModelName:
        """The model in full."""
        name = ModelName.parse(self.model)
        base = name.base
        given = {key: value for key, value in self.options.model_dump().items() if value is not None}
        neural = name.root.base in NEURAL
        if self.integration is not None:
            if name.integration or not neural:
                raise LindleyError(
                    f"model '{self.model}': integration: {self.integration} is for a neural model without one "
                    f"({' or '.join('-' + law for law in INTEGRATIONS)}) in its name"
                )
            base = f"{base}-{self.integration}"
        known = given if neural else {ROBUST: ("pretrain",), NPLDA: ("epochs",)}.get(name.root.base, ())
        if unknown := [option for option in given if option not in known]:
            raise LindleyError(
                f"model '{self.model}': options ({', '.join(unknown)}) are for neural models (ntlm-…); robust knows pretrain, "
                "and nplda epochs"
            )
        law = base.removeprefix(name.root.base).strip("-")
        if "samples" in given and law != "varying":
            raise LindleyError(f"model '{self.model}': samples is for a model whose variance is integrated as varying")
        if given.get("components", 1) > 1 and law:
            raise LindleyError(f"model '{self.model}': the variance is integrated out of models with one component")
        calibrations = (*name.calibrations, *self.calibration)
        return ModelName(name.gaussianiser, base, calibrations, tuple(sorted(given.items())), name.cross_fitted)

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


class OutputConfig(_Section):
    """Where the results go, and what is drawn."""

    folder: str | None = Field(default=None, description="for results and report; default results/EXPERIMENT-DATA")
    report: bool = Field(default=True, description="write report.html and the figures for papers")


class Experiment(_Section):
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
        if not re.fullmatch(r"[^/\\\x00-\x1f]+", name) or not name.strip(" ."):
            raise ValueError(
                f"the experiment cannot be called '{name}': its name becomes part of the name of a folder. Give a "
                "plain name, without / and \\, such as 'name: glass' in the YAML file."
            )
        return name

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
            raise ValueError("there is no model to run: give at least one, such as --models tlm+logistic")
        rows: dict[str, ModelConfig] = {}
        for model in models:
            if rows.setdefault(model.row, model).name != model.name:
                raise ValueError(f"two models are called '{model.row}': give one of them another label")
        return tuple(rows.values())

    @cached_property
    def rows(self) -> dict[str, ModelName]:
        """The models by the names of their rows, in order."""
        return {model.row: model.name for model in self.models}


def json_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file."""
    schema = Experiment.model_json_schema()
    for name, about in _PROTOCOL.items():
        schema["$defs"]["Protocol"]["properties"][name] |= about
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
}
"""What the schema says of a protocol; `Protocol` itself knows no pydantic."""

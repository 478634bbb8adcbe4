"""Which model, and how it is fitted, as the keys of an architecture in LiR's experiment files say it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from lindley.errors import LindleyError
from lindley.experiment.config import ModelConfig
from lindley.system.kinds import KINDS
from lindley.system.train import VALIDATION

__all__ = ["LIR_MODEL", "Choices"]

LIR_MODEL = "tlm-kde"
"""What LiR's own two-level system is: in its place, with nothing but the architecture changed, it gives the same numbers."""
HINTS = {
    "validation": "it is a share, such as 0.33",
    "calibration": "it is a list, as in [logistic, elub]",
    "options": "write them as in {epochs: 500, learning_rate: 0.003}",
}
"""What a setting looks like, for whoever wrote something else."""


class Choices(ModelConfig):
    """Which model, and how it is fitted."""

    model: str = Field(default=LIR_MODEL, description=str(ModelConfig.model_fields["model"].description))
    validation: float = Field(
        default=VALIDATION,
        ge=0,
        lt=1,
        description="share of the sources that is kept from the model, for what needs sources that it has not seen",
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="of that share, and of a training")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where a neural model is trained")

    @classmethod
    def read(cls, content: Mapping[str, Any], beside: Collection[str] = ()) -> Self:
        """The choices, or what is wrong with them, in plain words.

        ``beside`` names settings that the caller has taken out of the content, so that an error can name them too.
        """
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            raise LindleyError("; ".join(_plain(dict(problem), beside) for problem in error.errors())) from None

    @field_validator("calibration", mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.label is not None:
            raise ValueError("a label is for the models of an experiment: leave it out")
        if self.name.kind.is_trained and not self.validation:
            raise ValueError(
                f"model '{self.name}' needs sources that it has not seen, for the best epoch of its training: give validation "
                "a share above 0, such as 0.33"
            )
        return self


def _plain(problem: dict[str, Any], beside: Collection[str]) -> str:
    place = problem["loc"]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = _no_such_setting(str(place[-1]), place[:-1] == ("options",), problem["input"], beside)
    elif len(place) == 1 and place[0] in HINTS:
        message = f"{message}, and not {problem['input']!r}: {HINTS[place[0]]}"
    return f"{'.'.join(map(str, place))}: {message}" if place else message


def _no_such_setting(name: str, in_options: bool, value: Any, beside: Collection[str]) -> str:
    options = list(dict.fromkeys(option for kind in KINDS.values() for option in kind.options.model_fields))
    if name in options and in_options:
        return "it is an option of other models, and not of this one"
    if name in options:
        return f"it is an option of the model: write it under options, as in 'options: {{{name}: {value}}}'"
    known = options if in_options else [key for key in Choices.model_fields if key != "label"] + list(beside)
    guess = get_close_matches(name, known, n=1)
    meant = f". Did you mean '{guess[0]}'? There" if guess else "; there"
    return f"there is no such setting{meant} are {', '.join(known)}"

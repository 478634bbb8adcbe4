"""A verbal equivalent of an LR, from a scale that is data: a laboratory may bring its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lindley.errors import LindleyError
from lindley.experiment.lines import read_yaml

__all__ = ["BUILT_IN_SCALES", "LANGUAGES", "Scale", "Verbal", "load_scale"]

BUILT_IN_SCALES = ("nfi", "enfsi")
LANGUAGES = ("en", "nl")


class Step(BaseModel):
    """The words for LRs from ``above`` up to the next step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    above: float = Field(ge=1, description="the smallest LR of this step")
    words: dict[str, str] = Field(description="by language")


class Scale(BaseModel):
    """Steps from LR = 1 up. An LR below 1 is described by its inverse, with the propositions exchanged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str = Field(description="where the scale was published")
    sentence: dict[str, str] = Field(description="by language, with {words}, {favoured} and {other} in it")
    neutral: dict[str, str] = Field(description="by language, for the first step, which favours neither proposition")
    propositions: dict[str, tuple[str, str]] = Field(description="by language: same source, another source")
    steps: tuple[Step, ...] = Field(min_length=2)

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        if steps[0].above != 1 or not all(a.above < b.above for a, b in pairwise(steps)):
            raise ValueError("the steps must begin at 1 and increase")
        return steps

    @property
    def languages(self) -> tuple[str, ...]:
        """In which it speaks."""
        return tuple(self.sentence)

    def describe(self, log10_lr: float, language: str = "en") -> Verbal:
        """The words for an LR."""
        if language not in self.languages:
            raise LindleyError(
                f"the scale {self.name} has no words in '{language}': it has {', '.join(self.languages)}"
            )
        size = abs(log10_lr)
        number, step = next(
            (i, step) for i, step in reversed(list(enumerate(self.steps))) if size >= math.log10(step.above)
        )
        words = step.words[language]
        same, other = self.propositions[language]
        favoured, opposed = (same, other) if log10_lr >= 0 else (other, same)
        sentence = self.neutral[language] if number == 0 else self.sentence[language]
        return Verbal(
            self.name,
            language,
            words,
            sentence.format(words=words, favoured=favoured, other=opposed),
            number,
            log10_lr >= 0,
        )


@dataclass(frozen=True)
class Verbal:
    """An LR in words."""

    scale: str
    language: str
    words: str
    sentence: str
    step: int  # 0 favours neither proposition
    favours_same: bool

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"scale": self.scale, "language": self.language, "words": self.words, "sentence": self.sentence}


def load_scale(name_or_path: str) -> Scale:
    """A built-in scale, or one from a YAML file."""
    if name_or_path in BUILT_IN_SCALES:
        text = files("lindley.casework").joinpath("scales", f"{name_or_path}.yaml").read_text("utf-8")
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise LindleyError(
                f"there is no verbal scale '{name_or_path}': give {' or '.join(BUILT_IN_SCALES)}, or a YAML file"
            )
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise LindleyError(f"{path} cannot be read ({error}).") from error
    try:
        content, lines = read_yaml(text)
        return Scale.model_validate(content)
    except (yaml.YAMLError, ValidationError, ValueError) as error:
        if isinstance(error, ValidationError):
            problems = "\n".join(
                f"  {lines.at(e['loc'])}{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
            )
            raise LindleyError(f"the verbal scale {name_or_path} does not read:\n{problems}") from error
        raise LindleyError(f"{name_or_path} is not YAML: {error}") from error

"""A verbal equivalent of an LR, from a scale that is data: a laboratory may bring its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Formatter
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lindley.errors import LindleyError
from lindley.experiment.lines import read_text, read_yaml

__all__ = ["BUILT_IN_SCALES", "LANGUAGES", "Scale", "Verbal", "load_scale"]

BUILT_IN_SCALES = ("nfi", "enfsi")
LANGUAGES = ("en", "nl")


class Step(BaseModel):
    """The words for LRs from ``above`` up to the next step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    above: float = Field(ge=1, allow_inf_nan=False, description="the smallest LR of this step")
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

    @field_validator("sentence", "neutral")
    @classmethod
    def _fillable(cls, sentences: dict[str, str]) -> dict[str, str]:
        for language, sentence in sentences.items():
            names = [name for _, name, _, _ in Formatter().parse(sentence) if name is not None]
            if strange := [name for name in names if name not in ("words", "favoured", "other")]:
                raise ValueError(
                    f"the sentence in '{language}' has {{{strange[0]}}} in it: {{words}}, {{favoured}} and {{other}} are "
                    "what can be filled in"
                )
            if "words" not in names:
                raise ValueError(f"the sentence in '{language}' has no place for {{words}}")
        return sentences

    @model_validator(mode="after")
    def _speaks_throughout(self) -> Self:
        if not self.sentence:
            raise ValueError("the scale has no sentence in any language")
        for language in self.languages:
            lacking = [name for name in ("neutral", "propositions") if language not in getattr(self, name)]
            lacking += [f"the step above {step.above:g}" for step in self.steps if language not in step.words]
            if lacking:
                raise ValueError(f"it speaks '{language}' in its sentence, and not in {', '.join(lacking)}")
        return self

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
        if math.isnan(log10_lr):
            raise LindleyError("there is no LR to describe: it is not a number")
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
        text = read_text(path)
    try:
        content, lines = read_yaml(text)
        return Scale.model_validate(content)
    except (yaml.YAMLError, ValidationError, ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):
            problems = "\n".join(
                f"  {lines.at(e['loc'])}{'.'.join(map(str, e['loc'])) or 'scale'}: "
                f"{e['msg'].removeprefix('Value error, ')}"
                for e in error.errors()
            )
            raise LindleyError(f"the verbal scale {name_or_path} does not read:\n{problems}") from error
        raise LindleyError(f"{name_or_path} is not YAML: {error}") from error

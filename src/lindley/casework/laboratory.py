"""What a laboratory decides, in YAML files that it may write itself: a scale that puts LRs into words, and the criteria that
say which figures of a validation must be how good. What does not read is told by line.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Formatter
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lindley.errors import LindleyError
from lindley.experiment.documents import Document

__all__ = [
    "BUILT_IN_SCALES",
    "FIGURES",
    "LANGUAGES",
    "Criteria",
    "Criterion",
    "Scale",
    "Verbal",
    "criteria_template",
    "load_criteria",
    "load_scale",
]

BUILT_IN_SCALES = ("nfi", "enfsi")
LANGUAGES = ("en", "nl")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Step(_Strict):
    """The words for LRs from ``above`` up to the next step."""

    above: float = Field(ge=1, allow_inf_nan=False, description="the smallest LR of this step")
    words: dict[str, str] = Field(description="by language")


class Scale(_Strict):
    """Steps from LR = 1 up. An LR below 1 is described by its inverse, with the propositions exchanged."""

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
            fields = [field for field in Formatter().parse(sentence) if field[1] is not None]
            names = [name for _, name, _, _ in fields]
            if formatted := [name for _, name, form, conversion in fields if form or conversion]:
                raise ValueError(
                    f"the sentence in '{language}' says how to print {formatted[0]}: write {{{formatted[0]}}}, with nothing "
                    "behind the name"
                )
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
        """The languages that it has sentences in."""
        return tuple(self.sentence)

    def describe(self, log10_lr: float, language: str = "en") -> Verbal:
        """The words for an LR."""
        if language not in self.languages:
            raise LindleyError(
                f"the scale {self.name} has no words in '{language}': it has {', '.join(self.languages)}"
            )
        if math.isnan(log10_lr):
            raise LindleyError("there is no LR to describe: it is not a number")
        number = sum(abs(log10_lr) >= math.log10(step.above) for step in self.steps) - 1
        words = self.steps[number].words[language]
        same, other = self.propositions[language]
        favoured, opposed = (same, other) if log10_lr >= 0 else (other, same)
        sentence = self.neutral[language] if number == 0 else self.sentence[language]
        said = sentence.format(words=words, favoured=favoured, other=opposed)
        return Verbal(self.name, language, words, said, number, log10_lr >= 0)


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
        document = Document.read(files("lindley.casework").joinpath("scales", f"{name_or_path}.yaml"))
    elif os.path.isfile(name_or_path):  # which says no of a name that is too long
        document = Document.read(Path(name_or_path))
    else:
        raise LindleyError(
            f"there is no verbal scale '{name_or_path}': give {' or '.join(BUILT_IN_SCALES)}, or a YAML file"
        )
    return document.validate(Scale, f"the verbal scale {name_or_path} does not read", {})


class Criterion(_Strict):
    """A limit on one figure: the estimate, or the whole of its interval, must keep to it."""

    at_most: float | None = Field(default=None, allow_inf_nan=False)
    at_least: float | None = Field(default=None, allow_inf_nan=False)
    by: Literal["estimate", "interval"] = "estimate"

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("give either at_most or at_least, and a number, such as {at_most: 0.1}")
        return self

    def passes(self, value: float, lower: float, upper: float) -> bool:
        """Whether a figure with its interval keeps to it."""
        if self.at_most is not None:
            return (upper if self.by == "interval" else value) <= self.at_most
        assert self.at_least is not None
        return (lower if self.by == "interval" else value) >= self.at_least

    def describe(self, percent: bool = False) -> str:
        """``≤ 0.1``, or ``≤ 10 %`` for a share."""
        sign, limit = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        assert limit is not None
        text = f"{100 * limit:g} %" if percent else f"{limit:g}"
        return f"{sign} {text}".replace("-", "−") + (", whole interval" if self.by == "interval" else "")


class Criteria(_Strict):
    """All criteria of a validation, by performance characteristic and figure; none unless given."""

    judged: Literal["bounded", "raw"] = "bounded"
    # how close the LRs come to what they should be
    accuracy: dict[Literal["cllr"], Criterion] = {}
    # how well they tell same-source from different-source pairs, whatever their calibration
    discriminating_power: dict[Literal["cllr_min", "eer"], Criterion] = {}
    # whether an LR means what it says
    calibration: dict[Literal["cllr_cal", "devpav"], Criterion] = {}
    # what odd sources and missing measurements do
    robustness: dict[Literal["outliers", "missing_replicates"], Criterion] = {}
    # whether more measurements give better LRs
    coherence: dict[Literal["gain", "largest_rise"], Criterion] = {}
    # whether it does on new data what it did when it was trained
    generalisation: dict[Literal["validation", "other_cllr", "other_change"], Criterion] = {}
    # how often, and how far, an LR points the wrong way
    misleading_evidence: dict[Literal["same", "different", "misleading_beyond_bounds", "beyond_bounds"], Criterion] = {}

    @field_validator("*", mode="before")
    @classmethod
    def _without_gaps(cls, given: Any, info: ValidationInfo) -> Any:
        """A heading, or a figure, with nothing behind it: its limits are commented out."""
        if info.field_name != "judged" and given is None:
            return {}
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, dict) else given

    def of(self, characteristic: str, figure: str) -> Criterion | None:
        """The criterion on one figure."""
        found: Criterion | None = getattr(self, characteristic).get(figure)
        return found

    def to_json(self) -> dict[str, Any]:
        """What was given."""
        return self.model_dump(exclude_none=True, exclude_defaults=True) | {"judged": self.judged}


FIGURES: tuple[tuple[str, str], ...] = tuple(
    (name, figure)
    for name, field in Criteria.model_fields.items()
    if name != "judged"
    for figure in get_args(get_args(field.annotation)[0])
)
"""What there can be criteria on: characteristic and figure."""
_PLAIN = {
    "extra_forbidden": "there is no such figure or setting here; 'lindley evaluate --criteria-template FILE' writes all",
    "dict_type": "must be figures with their limits, such as {cllr: {at_most: 0.1}}",
    "model_type": "must be a limit, such as {at_most: 0.1}",
}


def criteria_template() -> str:
    """A file with every criterion that there is, to copy and to change."""
    return files("lindley.casework").joinpath("criteria.yaml").read_text("utf-8")


def load_criteria(path: str | Path) -> Criteria:
    """Read a file of criteria.

    Raises:
        LindleyError: with the line and the cause of everything that does not read.
    """
    path = Path(path)
    if not os.path.exists(path):
        raise LindleyError(
            f"there is no file {path} of criteria. 'lindley evaluate --criteria-template {path.name}' writes one to change."
        )
    document = Document.read(path)
    if not isinstance(document.content, dict) or not document.content:
        raise LindleyError(f"{path} holds no criteria, such as accuracy: {{cllr: {{at_most: 0.1}}}}")
    criteria = document.validate(Criteria, f"the criteria in {path} do not read", _PLAIN)
    if not set(criteria.to_json()) - {"judged"}:
        raise LindleyError(f"{path} holds no criterion, such as accuracy: {{cllr: {{at_most: 0.1}}}}")
    return criteria

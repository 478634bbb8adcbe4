"""The laboratory's criteria: which figures of a validation must be how good, in YAML; what does not read is told by line."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lindley.errors import LindleyError
from lindley.experiment.lines import read_text, read_yaml

__all__ = ["CHARACTERISTICS", "Criteria", "Criterion", "criteria_template", "load_criteria"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Accuracy(_Strict):
    """How close the LRs come to what they should be."""

    cllr: Criterion | None = None


class DiscriminatingPower(_Strict):
    """How well they tell same-source from different-source pairs, whatever their calibration."""

    cllr_min: Criterion | None = None
    eer: Criterion | None = None


class Calibration(_Strict):
    """Whether an LR means what it says."""

    cllr_cal: Criterion | None = None
    devpav: Criterion | None = None


class Robustness(_Strict):
    """What odd sources and missing measurements do."""

    outliers: Criterion | None = None
    missing_replicates: Criterion | None = None


class Coherence(_Strict):
    """Whether more measurements give better LRs."""

    gain: Criterion | None = None
    largest_rise: Criterion | None = None


class Generalisation(_Strict):
    """Whether it does on new data what it did when it was trained."""

    validation: Criterion | None = None
    other_cllr: Criterion | None = None
    other_change: Criterion | None = None


class MisleadingEvidence(_Strict):
    """How often, and how far, an LR points the wrong way."""

    same: Criterion | None = None
    different: Criterion | None = None
    misleading_beyond_bounds: Criterion | None = None
    beyond_bounds: Criterion | None = None


class Criteria(_Strict):
    """All criteria of a validation; none unless given."""

    judged: Literal["bounded", "raw"] = "bounded"
    accuracy: Accuracy = Accuracy()
    discriminating_power: DiscriminatingPower = DiscriminatingPower()
    calibration: Calibration = Calibration()
    robustness: Robustness = Robustness()
    coherence: Coherence = Coherence()
    generalisation: Generalisation = Generalisation()
    misleading_evidence: MisleadingEvidence = MisleadingEvidence()

    def of(self, characteristic: str, metric: str) -> Criterion | None:
        """The criterion on one figure."""
        found: Criterion | None = getattr(getattr(self, characteristic), metric)
        return found

    def to_json(self) -> dict[str, Any]:
        """What was given."""
        return self.model_dump(exclude_none=True, exclude_defaults=True) | {"judged": self.judged}


CHARACTERISTICS = tuple(name for name in Criteria.model_fields if name != "judged")
_PLAIN = {
    "extra_forbidden": "there is no such figure or setting here; 'lindley evaluate --criteria-template FILE' writes all",
    "model_type": "must be a limit, such as {at_most: 0.1}, or figures with their limits",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
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
    if not path.exists():
        raise LindleyError(
            f"there is no file {path} of criteria. 'lindley evaluate --criteria-template {path.name}' writes one to change."
        )
    text = read_text(path)
    try:
        content, lines = read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise LindleyError(f"{path} is not YAML: {error}") from error
    if not isinstance(content, dict) or not content:
        raise LindleyError(f"{path} holds no criteria, such as accuracy: {{cllr: {{at_most: 0.1}}}}")
    for name in [name for name in CHARACTERISTICS if name in content and content[name] is None]:
        del content[name]  # a heading whose figures are all commented out
    try:
        criteria = Criteria.model_validate(content)
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            message = _PLAIN.get(problem["type"], problem["msg"].removeprefix("Value error, "))
            problems.append(f"  {lines.at(problem['loc'])}{'.'.join(map(str, problem['loc']))}: {message}")
        raise LindleyError(f"the criteria in {path} do not read:\n" + "\n".join(problems)) from error
    if not any(_given(criteria)):
        raise LindleyError(f"{path} holds no criterion, such as accuracy: {{cllr: {{at_most: 0.1}}}}")
    return criteria


def _given(criteria: Criteria) -> list[Criterion]:
    return [
        limit
        for name in CHARACTERISTICS
        for limit in getattr(criteria, name).__dict__.values()
        if isinstance(limit, Criterion)
    ]

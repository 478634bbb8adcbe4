"""What a laboratory decides, in YAML files that it may write itself: a scale that puts LRs into words, what a case and its
items are called, and the criteria that say which figures of a validation must be how good. What does not read is told by line.
And its logo, a picture.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Formatter
from typing import Any, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from lindley.documents import Document, Place, Section
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.shown import file_name
from lindley.table.config import DataConfig

__all__ = [
    "BUILT_IN_SCALES",
    "FIGURES",
    "LANGUAGES",
    "READING",
    "CaseNotes",
    "Criteria",
    "Criterion",
    "Logo",
    "Scale",
    "Verbal",
    "criteria_template",
    "load_criteria",
    "load_logo",
    "load_scale",
    "read_notes",
    "read_options",
]

BUILT_IN_SCALES = ("nfi", "enfsi")
LANGUAGES = ("en", "nl")


class Step(Section):
    """The words for LRs from ``above`` up to the next step."""

    above: float = Field(ge=1, allow_inf_nan=False, description="the smallest LR of this step")
    words: dict[str, str] = Field(description="by language")


class Scale(Section):
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

    def with_propositions(self, language: str, same: str, another: str) -> Scale:
        """The scale with the propositions of a case in place of its own."""
        return self.model_copy(update={"propositions": {**self.propositions, language: (same, another)}})

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


MOST_LETTERS = 500
"""Of a text about a case."""
_ARTICLES = ("the", "a", "an", "this", "these", "de", "het", "een", "dit", "deze", "er")
_CONJUNCTIONS = ("if", "that", "whether", "when", "als", "dat", "indien", "of", "wanneer")
_PLACES = ("trace", "ref")


class CaseNotes(Section):
    """What the laboratory says of a case, by the names of the options of ``lindley case``."""

    case: str | None = None
    examiner: str | None = None
    laboratory: str | None = None
    method: str | None = None
    trace_label: str | None = None
    trace_number: str | None = None
    ref_label: str | None = None
    ref_number: str | None = None
    h1: str | None = None
    h2: str | None = None
    logo: str | None = None

    @field_validator("*")
    @classmethod
    def _short(cls, text: str | None) -> str | None:
        if text is None:
            return None
        if not text.strip():
            raise ValueError("is empty: give a text, or leave it out")
        if len(text) > MOST_LETTERS:
            raise ValueError(f"has {len(text):,} letters, and {MOST_LETTERS} are the most")
        return text

    @field_validator("h1", "h2")
    @classmethod
    def _clause(cls, text: str | None) -> str | None:
        """A sentence as it stands behind "if": without its full stop, and its first word as in the middle of a sentence."""
        if text is None:
            return None
        text = " ".join(text.split()).rstrip(" .")
        first, _, rest = text.partition(" ")
        if not rest or first.lower() in _CONJUNCTIONS:
            raise ValueError(
                "is read behind 'if': write it as a sentence, such as \"the fragment comes from the shop window\", without "
                "a conjunction in front"
            )
        try:
            strange = [name for _, name, form, how in Formatter().parse(text) if name is not None and
                       (name not in _PLACES or form or how)]  # fmt: skip
        except ValueError:
            strange = ["{"]
        if strange:
            raise ValueError("may have {trace} and {ref} in it, for their labels, and no other braces")
        return f"{first.lower()} {rest}" if first.lower() in _ARTICLES else text

    @model_validator(mode="after")
    def _two_propositions(self) -> Self:
        if (self.h1 is None) != (self.h2 is None):
            lacking = "h2" if self.h2 is None else "h1"
            raise ValueError(f"there are two propositions or none, and {lacking} is missing")
        if self.h1 is not None and self.h1 == self.h2:
            raise ValueError("h1 and h2 are the same proposition")
        return self


READING = (
    "source_column", "session_column", "ignore_columns", "header_row", "sheet", "hidden", "decimal", "below_limit",
    "no_profile",
)  # fmt: skip
"""The options of a case that say how its tables are read, which a case file may hold as well."""

_NOTES = {
    "string_type": 'must be a text: put it between quotation marks, such as "2026-17"',
    "extra_forbidden": f"there is no such entry: {', '.join((*CaseNotes.model_fields, *READING))} are those of a case file",
    "model_type": "a case file holds names and values, such as case: 2026-17A",
}


def read_notes(path: str | Path | None, given: Mapping[str, str | None]) -> dict[str, str]:
    """What is said of a case: in a YAML file, and by options or arguments, which win.

    Raises:
        LindleyError: with the line, or the option, and the cause of everything that does not read.
    """
    options = {name: text for name, text in given.items() if text is not None}
    document, what = Document("", {}, None), "what is said of the case does not read"
    if path is not None:
        if not os.path.exists(path):
            raise LindleyError(f"there is no case file {path}")
        document, what = Document.read(Path(path)), f"the case file {path} does not read"
    content: Any = document.content
    if isinstance(content, dict):
        content = {**{name: content[name] for name in content if name not in READING}, **options}
    elif options and content is None:
        content = options

    def place(at: Place, message: str) -> Place:
        return (setting(str(at[0])),) if at and at[0] in options else at

    replaced = [(setting(name),) for name in options]
    notes = document.validate(CaseNotes, what, _NOTES, content=content, replaced=replaced, place=place)
    told: dict[str, str] = notes.model_dump(exclude_none=True)
    if path is not None and "logo" in told and "logo" not in options:
        told["logo"] = str(Path(path).parent / told["logo"])  # a case file says where it is from there
    return told


MOST_LOGO_MB = 5
MOST_LOGO_PIXELS = 5000
"""Of either side of a logo, as it is in its file."""
LOGO_SIZE = (720, 240)
"""Pixels of a logo in a report, at most: it is shown at a third of that, and stays sharp on paper."""


@dataclass(frozen=True)
class Logo:
    """A laboratory's logo, drawn anew from the pixels of its file: nothing else of the file gets into a report."""

    file: str
    sha256: str  # of the file
    png: bytes

    def to_json(self) -> dict[str, str]:
        """For a record."""
        return {"file": self.file, "sha256": self.sha256}


def load_logo(path: str | Path) -> Logo:
    """Read a logo from a PNG or JPEG file, known by what is in it.

    Raises:
        LindleyError: if it is another kind of file, damaged, or too large.
    """
    said = f"the logo {path}"
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_LOGO_MB * 1_000_000 + 1)
    except (OSError, ValueError) as error:
        raise LindleyError(f"{said} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(data) > MOST_LOGO_MB * 1_000_000:
        raise LindleyError(f"{said} is larger than {MOST_LOGO_MB} MB: save it smaller, some hundred pixels wide")
    return Logo(file_name(str(path)), hashlib.sha256(data).hexdigest(), _drawn(data, said))


def _drawn(data: bytes, said: str) -> bytes:
    """A picture of the same pixels, no larger than a report needs it."""
    from PIL import Image, ImageFile, UnidentifiedImageError

    too_many = (
        f"{said} has too many pixels ({{}}), and {MOST_LOGO_PIXELS:,} are the most of a side: save it smaller, some "
    )
    too_many += "hundred pixels wide"
    before, ImageFile.LOAD_TRUNCATED_IMAGES = (
        ImageFile.LOAD_TRUNCATED_IMAGES,
        False,
    )  # which WeasyPrint sets for everybody
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is beside the pixels of a file
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
                if max(image.size) > MOST_LOGO_PIXELS:
                    raise LindleyError(too_many.format(f"{image.width:,} × {image.height:,}"))
                pixels = image.convert("RGBA")
    except LindleyError:
        raise
    except Image.DecompressionBombError as error:
        raise LindleyError(too_many.format("hundreds of millions")) from error
    except UnidentifiedImageError as error:
        raise LindleyError(
            f"{said} is no PNG or JPEG picture. Save it as PNG: other kinds, SVG among them, are not taken, as they may hold "
            "scripts or load other files"
        ) from error
    except Exception as error:  # whatever a damaged picture does to the reader of pictures
        raise LindleyError(f"{said} is damaged: its picture does not read ({error}). Save it again as PNG") from error
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before
    pixels.thumbnail(LOGO_SIZE)
    drawn, written = Image.new("RGBA", pixels.size), io.BytesIO()
    drawn.paste(pixels)
    drawn.save(written, format="PNG", optimize=True)
    return written.getvalue()


def read_options(path: str | Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """How the tables of a case are read, by the names of `DataConfig`: in its YAML file, and by options, which win.

    Raises:
        LindleyError: with the line and the cause of everything that does not read.
    """
    document = None if path is None else Document.read(Path(path))
    if document is None or not isinstance(document.content, dict):
        return dict(given)
    content = {name: document.content[name] for name in READING if name in document.content}
    what = f"the case file {path} does not read"
    told = document.validate(DataConfig, what, {}, content={"data": "", **content}).given
    return {**told, **given}


class Criterion(Section):
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


class Criteria(Section):
    """All criteria of a validation, by performance characteristic and figure; none unless given."""

    judged: Literal["bounded", "raw"] = "bounded"
    # how close the LRs come to what they should be
    accuracy: dict[Literal["cllr"], Criterion] = Field(default={})
    # how well they tell same-source from different-source pairs, whatever their calibration
    discriminating_power: dict[Literal["cllr_min", "eer"], Criterion] = Field(default={})
    # whether an LR means what it says
    calibration: dict[Literal["cllr_cal", "devpav"], Criterion] = Field(default={})
    # what odd sources and missing measurements do
    robustness: dict[Literal["outliers", "missing_replicates"], Criterion] = Field(default={})
    # whether more measurements give better LRs
    coherence: dict[Literal["gain", "largest_rise"], Criterion] = Field(default={})
    # whether it does on new data what it did when it was trained
    generalisation: dict[Literal["validation", "other_cllr", "other_change"], Criterion] = Field(default={})
    # how often, and how far, an LR points the wrong way
    misleading_evidence: dict[Literal["same", "different", "misleading_beyond_bounds", "beyond_bounds"], Criterion] = (
        Field(default={})
    )

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

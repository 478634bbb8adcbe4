"""The record inside the report of a case, and the case computed again from it: ``lindley verify``.

A record is what `Case.to_json` says: the measurements as measured, the digests of system and files, the LR and the words for
it. A .json report is a record; a page holds one as data that no browser runs or shows, with a digest of the rest of the page;
a PDF holds such a page as an attached file.
Digests tell of accidents and of slips of the hand: they have no key, and whoever means to forge can make them anew. That the
LR is the LR of these measurements, and that the page concludes what follows from it, is found by computing it again.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from lindley.casework.applicability import Which
from lindley.casework.case import Case, Evidence, Language, Refusal, evaluate_case, read_evidence
from lindley.casework.laboratory import BUILT_IN_SCALES, Scale, load_scale
from lindley.errors import LindleyError
from lindley.experiment.folder import json_digest
from lindley.limits import limit, limit_text
from lindley.pages.case_words import conclusion
from lindley.pages.numerals import ratio_text
from lindley.pages.pdf import attached_page
from lindley.shown import visible
from lindley.system.system import System, load
from lindley.version import __version__

__all__ = [
    "Record",
    "Verification",
    "case_of",
    "is_matrix",
    "read_record",
    "reports_in",
    "verify_reports",
    "with_record",
]

REPORTS = (".html", ".htm", ".pdf", ".json")
TOLERANCE = 1e-9
"""By so much the same LR may differ from one machine to another."""
_BEFORE, _AFTER = '<script type="application/json" id="record">', "</script>"
_FIGURES = ("log10_lr", "log10_lr_bounded", "log10_lr_model", "log10_similarity", "log10_typicality")


def with_record(page: str, record: Mapping[str, Any]) -> str:
    """A page with its record in the empty place for it."""
    empty = _BEFORE + _AFTER
    if page.count(empty) != 1:
        raise ValueError("the page has no place for a record")
    text = json.dumps({"page_sha256": _digest(page), **record}, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return page.replace(empty, _BEFORE + text + _AFTER)


def _digest(page: str) -> str:
    return hashlib.sha256(page.encode("utf-8")).hexdigest()


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Item(_Part):
    label: str
    measured: list[dict[str, FiniteFloat]] = Field(min_length=1)
    reference: list[FiniteFloat] | None = None


class _System(_Part):
    sha256: str
    file: str = ""


class _Interval(_Part):
    lower: FiniteFloat
    upper: FiniteFloat
    how: str | None = None  # older versions have another interval


class _Verbal(_Part):
    scale: str
    language: Language
    sentence: str


class _Warning(_Part):
    code: str


class Record(_Part):
    """What of a record the LR follows from, and what follows from the LR. Reports of older versions lack some of it."""

    log10_lr: FiniteFloat
    log10_lr_bounded: FiniteFloat
    log10_lr_model: FiniteFloat
    log10_similarity: FiniteFloat
    log10_typicality: FiniteFloat
    bounds: tuple[FiniteFloat, FiniteFloat]
    interval: _Interval | None
    by_group: dict[str, FiniteFloat] | None = None
    verbal: _Verbal
    warnings: list[_Warning]
    system: _System
    trace: _Item
    ref: _Item
    scale: Scale | None = None
    lindley: str

    @property
    def words(self) -> Scale | None:
        """The verbal scale; none if an older version left it out and it is no scale of ours."""
        name = self.verbal.scale.lower()
        return self.scale or (load_scale(name) if name in BUILT_IN_SCALES else None)


@dataclass(frozen=True)
class Verification:
    """What became of one report when it was computed again."""

    report: Path
    record: Record | None  # what the report says, if it could be read
    system: str  # the file that was found, or none
    problems: tuple[str, ...]  # where they part, in sentences

    @property
    def same(self) -> bool:
        """Whether the report says what follows from its measurements."""
        return not self.problems


def reports_in(places: Iterable[Path]) -> list[Path]:
    """The reports that are named, and those in folders that are: files of another kind there are left out."""
    found: list[Path] = []
    for place in places:
        if not place.is_dir():
            found.append(place)
            continue
        inside = [path for path in sorted(place.iterdir()) if path.suffix.lower() in REPORTS and _is_report(path)]
        if not inside:
            raise LindleyError(
                f"the folder {place} holds no report of a case (.html, .pdf or .json, of 'lindley case')"
            )
        found += inside
    return found


def is_matrix(path: Path) -> bool:
    """Whether a file is the page of a matrix, which stands among the reports of a batch and is none."""
    if path.suffix.lower() not in (".html", ".htm") or not path.is_file() or _is_report(path):
        return False
    return '<section id="matrix">' in _text(path)


def _is_report(path: Path) -> bool:
    """Whether a file of a folder is meant as the report of a case; one that is damaged still is."""
    try:
        text = _text(path)
    except LindleyError:
        return path.suffix.lower() != ".pdf"  # one without a page inside may be anything
    return _BEFORE in text or 'id="conclusion"' in text or ('"trace": {' in text and '"log10_lr":' in text)


def verify_reports(reports: Iterable[Path], systems: Iterable[Path] = ()) -> Iterator[Verification]:
    """Compute the case of every report again.

    Args:
        reports: files that ``lindley case`` wrote.
        systems: files and folders where their systems may be; the folder of a report and the working folder are looked into
            as well.
    """
    known = _Systems(systems)
    for report in reports:
        record = None
        try:
            record, page, problems = read_record(report)
            system = known.find(record.system.sha256, report.parent)
        except LindleyError as error:
            yield Verification(report, record, "", (str(error),))
            continue
        if system is None:
            name = f" ('{visible(record.system.file)}')" if record.system.file else ""
            problems.append(
                f"its system{name} is not here: no .safetensors file in the folder of the report, in the working folder, or "
                f"where --systems says, has the SHA-256 {visible(record.system.sha256)}. Name the folder of the archive with "
                "--systems."
            )
        else:
            problems += _parts(record, page, system)
        yield Verification(report, record, system.file if system else "", tuple(problems))


class _Systems:
    """System files, known by their digests; each is read once."""

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = list(places)
        self._digests: dict[Path, str] = {}
        self._loaded: dict[str, System] = {}
        for place in self._places:
            if not place.exists():
                raise LindleyError(f"--systems {place}: there is no such file or folder")

    def find(self, digest: str, beside: Path) -> System | None:
        if digest not in self._loaded:
            for path in self._files(beside):
                if self._digest(path) == digest:
                    self._loaded[digest] = load(path)
                    break
        return self._loaded.get(digest)

    def _files(self, beside: Path) -> Iterator[Path]:
        for place in dict.fromkeys((*self._places, beside, Path())):
            yield from sorted(place.glob("*.safetensors")) if place.is_dir() else [place]

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            try:
                with path.open("rb") as file:
                    self._digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:
                return ""  # nobody can say that it is the one
        return self._digests[path]


def _text(path: Path) -> str:
    try:
        if os.path.getsize(path) > limit("TABLE_MB") * 1_000_000:
            raise LindleyError(f"{path} is too large for a report: {limit_text('TABLE_MB')}.")
        if path.suffix.lower() == ".pdf":
            return _inside(path)
        return path.read_text("utf-8")  # line ends that became those of Windows are no change
    except FileNotFoundError:
        raise LindleyError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise LindleyError(f"{path} is no report of a case: it is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise LindleyError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _inside(path: Path) -> str:
    """The page that is attached to a PDF."""
    page = attached_page(path.read_bytes())
    if page is None:
        raise LindleyError(
            "the PDF holds no page of lindley as an attached file: it was printed by a browser, or saved by another program. "
            "Verify the .html or .json report."
        )
    return page


def read_record(path: Path) -> tuple[Record, str | None, list[str]]:
    """The record of a report, its page without the record, and what the digests say."""
    text, page, problems = _text(path), None, []
    is_page = path.suffix.lower() != ".json"
    if is_page:
        start = text.find(_BEFORE)
        if start < 0 or text.count(_BEFORE) != 1:
            raise LindleyError(
                "the page holds no record: it is no report of one case (a matrix has none of its own), or lindley wrote none "
                "when it was made. Verify its .json report, or repeat the case by the command in it."
            )
        start += len(_BEFORE)
        end = text.find(_AFTER, start)
        text, page = text[start:end], text[:start] + text[end:]
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        page_digest, digest = content.pop("page_sha256", None), content.pop("sha256", None)
        record = Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise LindleyError(f"its record does not read: {visible(where)}: {visible(first['msg'])}") from error
    except (ValueError, RecursionError) as error:
        raise LindleyError(f"its record does not read ({visible(str(error))})") from error
    if page is not None and _digest(page) != page_digest:
        problems.append("the page was changed after it was written: it has not the digest that its record gives")
    if (digest is not None or is_page) and json_digest(content) != digest:
        problems.append("its record was changed after it was written: it has not the digest that it gives")
    return record, page, problems


def _parts(record: Record, page: str | None, system: System) -> list[str]:
    """Where a report and its case, computed again, part."""
    scale = record.words
    try:
        case = case_of(record, system)
    except Refusal as refusal:
        return [f"this version of lindley gives no LR for its measurements: {' '.join(str(refusal).split())}"]
    except LindleyError as error:
        return [f"its measurements do not read: {' '.join(str(error).split())}"]
    said = case.explanation
    pairs = [(name.replace("_", " "), getattr(record, name), getattr(said, name)) for name in _FIGURES]
    pairs += [(f"{end} bound", a, b) for end, a, b in zip(("lower", "upper"), record.bounds, said.bounds, strict=True)]
    problems = []
    if (record.interval is None) != (said.interval is None):
        problems.append("the report has an interval, and the system gives none, or the other way round")
    elif record.interval is not None and said.interval is not None:
        again = (said.interval.lower, said.interval.upper) if record.interval.how else _former_interval(case)
        pairs += [("lower end of the interval", record.interval.lower, again[0]),
                  ("upper end of the interval", record.interval.upper, again[1])]  # fmt: skip
    if record.by_group is not None and said.by_group is not None:
        pairs += [(name.replace("_", " "), value, getattr(said.by_group, name, value))
                  for name, value in record.by_group.items()]  # fmt: skip
    problems += [
        f"{name}: {reported!r} in the report, {again!r} when computed again"
        for name, reported, again in pairs
        if abs(reported - again) > TOLERANCE * max(1.0, abs(again))
    ]
    if scale is not None and record.verbal.sentence != case.verbal.sentence:
        problems.append(f"the report says '{visible(record.verbal.sentence)}', and its LR is '{case.verbal.sentence}'")
    if record.lindley == __version__:
        told = {warning.code for warning in record.warnings}
        if "same-file" in told:  # a record holds measurements, and no files
            told.add("same-measurement")
        untold = sorted({remark.code for remark in case.remarks} - told)
        if untold:
            problems.append(f"the report does not tell of: {', '.join(untold)}")
        if page is not None:
            problems += _unsaid(page, case)
    return problems


def _former_interval(case: Case) -> tuple[float, float]:
    """As records had it that do not say how: the central 90 % of the replicates, moved from their median to the LR."""
    replicates = case.system.llr_replicates(case.trace.side, case.ref.side)
    lower, middle, upper = np.quantile(replicates, [0.05, 0.5, 0.95])
    return case.explanation.log10_lr + lower - middle, case.explanation.log10_lr + upper - middle


def case_of(record: Record, system: System) -> Case:
    """The case of a record, evaluated by a system.

    Raises:
        LindleyError: if its measurements do not read, or there is no LR to give.
    """
    trace, ref = (_evidence(system, which, item) for which, item in (("trace", record.trace), ("ref", record.ref)))
    # What was refused, or asked for all the same, is told by the warnings of the report.
    allowed = {"allow_outside": True, "allow_same_file": True, "force": True}
    scale = record.words or load_scale("nfi")
    return evaluate_case(system, trace, ref, scale, record.verbal.language, None, **allowed)


def _unsaid(page: str, case: Case) -> list[str]:
    """Where what the court reads first is not what it should read."""
    from lindley.pages.case_page import render_case  # which writes records

    conclusion_of_page, expected_conclusion = _verdict(page), _verdict(render_case(case))
    if conclusion_of_page == expected_conclusion:
        return []
    shown = _plain(html.unescape(re.sub(r"<[^>]+>", " ", conclusion_of_page)))
    reported = f"LR = {ratio_text(case.explanation.log10_lr_bounded, case.language)}"
    expected = (_plain(visible(sentence, lines=True)) for sentence in (*conclusion(case), f"{reported} "))
    return [
        f"the conclusion of the page does not say '{each.strip()}', which follows from its measurements"
        for each in expected
        if each not in shown
    ] or ["the conclusion of the page is not, word for word and line for line, what follows from its measurements"]


def _verdict(page: str) -> str:
    """The part of a page with the conclusion."""
    start = page.find('<section class="verdict"')
    return page[start : page.find("</section>", start)]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _evidence(system: System, which: str, item: _Item) -> Evidence:
    """The measurements of an item as a record holds them."""
    side: Which = "trace" if which == "trace" else "ref"
    if any(set(row) != set(system.features) for row in item.measured):
        raise LindleyError(f"those of the {which} are of other features than the system's")
    columns = {name: np.array([row[name] for row in item.measured]) for name in system.features}
    if system.reference is not None:
        if item.reference is None or len(item.reference) != len(item.measured):
            raise LindleyError(f"those of the {which} lack values of {system.reference}")
        columns[system.reference] = np.array(item.reference)
    return read_evidence(system, columns, side)

"""Read the record inside the report of a case, and make the report again from it: ``lindley verify``.

A record is what `Case.to_json` says: the measurements as measured, the digests of system and files, the LR and the words for
it. A .json report is a record; a page holds one as data that no browser runs or shows, with a digest of the rest of the page;
a PDF holds such a page as an attached file.

The case is computed again from the measurements and the system. All that the record says must be what comes out, numbers to
1e-9, and a page must be, to the letter, what is drawn from that. What was typed or read is taken from the record: measurements,
names, propositions, what was noticed about files, date, command, versions, and the pixels of a logo. Digests have no key, so
that anybody can make them anew: they find accidents. Pages of other versions are checked by them alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from lindley.casework.applicability import Which
from lindley.casework.case import FORMAT, Case, Evidence, Language, Notes, Refusal, evaluate_case, read_evidence
from lindley.casework.explanation import Explanation
from lindley.casework.laboratory import BUILT_IN_SCALES, Logo, Scale, load_scale
from lindley.errors import LindleyError
from lindley.files import json_digest, sha256_of
from lindley.limits import limit, limit_text
from lindley.pages.pdf import attached_page, page_as_pdf
from lindley.shown import read_json, visible
from lindley.system.header import OldRobust
from lindley.system.system import System, load
from lindley.table.findings import Finding, Level
from lindley.table.table import Table
from lindley.version import __version__

__all__ = [
    "Record",
    "Report",
    "Verification",
    "case_of",
    "is_matrix",
    "read_report",
    "reports_in",
    "verify_reports",
    "with_record",
]

REPORTS = (".html", ".htm", ".pdf", ".json")
TOLERANCE = 1e-9
"""By so much the same LR may differ from one machine to another."""
MOST_DIFFERENCES, MOST_LETTERS = 5, 60
"""Of the differences between a record and the case computed again, how many are shown; and of a text in them."""
_BEFORE, _AFTER = '<script type="application/json" id="record">', "</script>"
_LOGO = re.compile('<img class="logo" src="data:image/png;base64,([A-Za-z0-9+/=]*)"')
_OF_ALL_VERSIONS = (
    "log10_lr", "log10_lr_bounded", "log10_lr_model", "log10_similarity", "log10_typicality", "bounds", "interval", "by_group",
    "verbal",
)  # fmt: skip
_WITHOUT_DIGEST = ("0.0.", "0.1.")
"""Versions whose .json reports hold no digest of themselves."""
_EXPLANATION = TypeAdapter(Explanation)


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


class _File(_Part):
    file: str
    sha256: str


class _Noticed(_Part):
    level: Level
    code: str
    message: str
    noticed: str = ""
    fix: str = ""
    file: str = ""
    rows: tuple[int, ...] = ()
    column: str | None = None

    @property
    def finding(self) -> Finding:
        return Finding(self.level, self.code, self.noticed or self.message, self.fix, self.file, self.rows, self.column)


class _Item(_Part):
    label: str
    item: str | None = None  # as its table calls it
    number: str | None = None
    measured: list[dict[str, FiniteFloat]] = Field(min_length=1)
    reference: list[FiniteFloat] | None = None
    session: list[str] | None = None  # of every measurement
    files: tuple[_File, ...] = ()
    findings: tuple[_Noticed, ...] = ()


class _System(_Part):
    sha256: str
    file: str = ""
    signed_by: str | None = None


class _Interval(_Part):
    lower: FiniteFloat
    upper: FiniteFloat
    how: str | None = None  # older versions have another interval


class _Verbal(_Part):
    scale: str
    language: Language
    sentence: str


class Record(_Part):
    """What of a record the report follows from, and what follows from the LR. Reports of older versions lack some of it."""

    format: str | None = None
    case: str | None = None
    examiner: str | None = None
    laboratory: str | None = None
    method: str | None = None
    logo: _File | None = None
    date: str = ""
    command: str = ""
    log10_lr: FiniteFloat
    log10_lr_bounded: FiniteFloat
    log10_lr_model: FiniteFloat
    log10_similarity: FiniteFloat
    log10_typicality: FiniteFloat
    bounds: tuple[FiniteFloat, FiniteFloat]
    interval: _Interval | None
    verbal: _Verbal
    system: _System
    trace: _Item
    ref: _Item
    scale: Scale | None = None
    lindley: str
    versions: dict[str, str] = {}

    @property
    def sides(self) -> tuple[tuple[Which, _Item], tuple[Which, _Item]]:
        """The trace and the reference as the record has them, each with its name."""
        return ("trace", self.trace), ("ref", self.ref)

    @property
    def words(self) -> Scale | None:
        """The verbal scale; none if an older version left it out and it is no scale of ours."""
        return self.scale or self.built_in

    @property
    def built_in(self) -> Scale | None:
        """The scale of ours that has its name."""
        name = self.verbal.scale.lower()
        return load_scale(name) if name in BUILT_IN_SCALES else None

    @property
    def of_this_version(self) -> bool:
        """Whether it says that this version wrote it, so that all of it must be as this version has it."""
        return self.format == FORMAT and self.lindley == __version__

    def notes(self, logo: bytes = b"") -> Notes:
        """What the laboratory calls things, with the pixels of its logo."""
        picture = None if self.logo is None else Logo(self.logo.file, self.logo.sha256, logo)
        return Notes(
            self.case, self.examiner, self.trace.label, self.ref.label, self.command, self.date, self.laboratory, self.method,
            self.trace.number, self.ref.number, logo=picture,
        )  # fmt: skip


@dataclass(frozen=True)
class Report:
    """A report as read from its file: its page or JSON text, and the record in it."""

    path: Path
    record: Record
    content: Mapping[str, Any]  # all that the record says
    page: str | None  # the page itself, or the one inside a PDF
    problems: tuple[str, ...]  # what its digests say
    unchecked: tuple[str, ...]  # and do not say


@dataclass(frozen=True)
class Verification:
    """What became of one report when it was computed again."""

    report: Path
    record: Record | None  # what the report says, if it could be read
    system: str = ""  # the file that was found, or none
    problems: tuple[str, ...] = ()  # where they part, in sentences
    unchecked: tuple[str, ...] = ()  # what could not be compared, although its version would have it in one way only
    taken: tuple[str, ...] = ()  # what is the laboratory's own, and may say anything
    computed: bool = True  # whether the case could be computed again

    @property
    def same(self) -> bool:
        """Whether all of the report follows from its measurements."""
        return not self.problems and not self.unchecked


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
    places, known = list(systems), _Systems()
    for place in places:
        if not place.exists():
            raise LindleyError(f"--systems {place}: there is no such file or folder")
    for path in reports:
        record = file = None
        try:
            report = read_report(path)
            record = report.record
            file = known.find(record.system.sha256, [*places, path.parent, Path()])
            system = None if file is None else known.load(file)
        except OldRobust:
            assert record is not None
            assert file is not None
            old = (
                "its system has the recorded SHA-256 and holds the robust model of lindley 0.2.0 or older: the LR itself takes "
                "version 0.2.0. Neither it nor what follows from it was made again; digests were checked"
            )
            found = report.problems, (*report.unchecked, old), tuple(_taken(record))
            yield Verification(path, record, file.name, *found, computed=False)
            continue
        except LindleyError as error:
            yield Verification(path, record, problems=(str(error),))
            continue
        if system is None:
            name = f" ('{visible(record.system.file)}')" if record.system.file else ""
            lacking = (
                f"its system{name} is not here: no .safetensors file in the folder of the report, in the working folder, or "
                f"where --systems says, has the SHA-256 {visible(record.system.sha256)}. Name the folder of the archive with "
                "--systems."
            )
            yield Verification(path, record, problems=(*report.problems, lacking))
            continue
        problems, unchecked = _compared(report, system)
        yield Verification(
            path,
            record,
            system.file,
            (*report.problems, *problems),
            (*report.unchecked, *unchecked),
            tuple(_taken(record)),
        )


class _Systems:
    """System files, known by their digests; each is read once."""

    def __init__(self) -> None:
        self._found: dict[str, Path] = {}
        self._digest = cache(sha256_of)
        self.load = cache(load)

    def find(self, digest: str, places: Iterable[Path]) -> Path | None:
        """The file with this digest, in files and folders."""
        for place in dict.fromkeys(() if digest in self._found else places):
            for path in sorted(place.glob("*.safetensors")) if place.is_dir() else [place]:
                with suppress(OSError):  # one that cannot be read is not the one
                    if self._digest(path) == digest:
                        self._found[digest] = path
                        return path
        return self._found.get(digest)


def _text(path: Path) -> str:
    try:
        if os.path.getsize(path) > limit("TABLE_MB") * 1_000_000:
            raise LindleyError(f"{path} is too large for a report: {limit_text('TABLE_MB')}.")
        if path.suffix.lower() != ".pdf":
            return path.read_text("utf-8")  # line ends that became those of Windows are no change
        page = attached_page(path.read_bytes())
        if page is None:
            raise LindleyError(
                "the PDF holds no page of lindley as an attached file: it was printed by hand, or saved by another program. "
                "Verify the .html or .json report."
            )
        return page
    except FileNotFoundError:
        raise LindleyError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise LindleyError(f"{path} is no report of a case: it is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise LindleyError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error


def read_report(path: Path) -> Report:
    """The record of a report, its page, and what the digests say."""
    text, page, rest = _text(path), None, ""
    if path.suffix.lower() != ".json":
        start = text.find(_BEFORE)
        if start < 0 or text.count(_BEFORE) != 1:
            raise LindleyError(
                "the page holds no record: it is no report of one case (a matrix has none of its own), or lindley wrote none "
                "when it was made. Verify its .json report, or repeat the case by the command in it."
            )
        start += len(_BEFORE)
        end = text.find(_AFTER, start)
        page, rest, text = text, text[:start] + text[end:], text[start:end]
    try:
        content = read_json(text)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        page_digest, digest = content.pop("page_sha256", None), content.pop("sha256", None)
        record = Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise LindleyError(f"its record does not read: {visible(where)}: {visible(first['msg'])}") from error
    except ValueError as error:
        raise LindleyError(f"its record does not read ({visible(str(error))})") from error
    problems, unchecked = [], []
    if page is not None and _digest(rest) != page_digest:
        problems.append("the page was changed after it was written: it has not the digest that its record gives")
    if digest is None and page is None and record.format is None and record.lindley.startswith(_WITHOUT_DIGEST):
        unchecked.append("it holds no digest, as those of lindley 0.1 do not")
    elif digest is None or json_digest(content) != digest:
        problems.append("its record was changed after it was written: it has not the digest that it was given")
    return Report(path, record, content, page, tuple(problems), tuple(unchecked))


def _compared(report: Report, system: System) -> tuple[list[str], list[str]]:
    """Where a report and its case, computed again, part; and what of it could not be compared."""
    record, drawn = report.record, ""
    about = {**system.about, "file": record.system.file}
    if record.system.signed_by is not None:
        about["signed_by"] = record.system.signed_by
    try:
        case = case_of(record, replace(system, about=about), _logo(report.page or ""))
        case = replace(case, versions={"lindley": record.lindley, **record.versions})
        again = read_json(json.dumps(case.to_json()))
        del again["sha256"]
        other_words = _other_words(record)
        problems = [*_differences(report.content, again), *other_words]
        if not problems and report.page is not None:
            from lindley.pages.case_page import render_case  # which writes records

            drawn = render_case(replace(case, explanation=_explanation(report.content)))
            problems += _where_it_differs(report.page, drawn)
    except Refusal as refusal:
        return [f"this version of lindley gives no LR for its measurements: {' '.join(str(refusal).split())}"], []
    except (LindleyError, ValueError) as error:
        return [f"its measurements do not read: {' '.join(str(error).split())}"], []
    others = [] if problems else _missing_warnings(record, system)
    if report.path.suffix.lower() == ".pdf" and (problems or not _prints_as(report.path, drawn)):
        others.append("the pages that the PDF shows were not compared, but the report inside it")
    if not problems or record.of_this_version:
        return problems[:MOST_DIFFERENCES], others
    rest = "the page itself" if report.page else "the rest of it"
    version = visible(record.lindley)
    made = f"{rest} was not compared, as lindley {version} wrote it otherwise; LR, bounds, interval and words were"
    return list(_differences(*_of_all_versions(report, case, again), common=True)), [made, *other_words, *others]


def case_of(record: Record, system: System, logo: bytes = b"") -> Case:
    """The case of a record, evaluated by a system; ``logo``: the pixels of its logo.

    Raises:
        LindleyError: if its measurements do not read, or there is no LR to give.
    """
    trace, ref = (_evidence(system, which, item) for which, item in record.sides)
    # Warnings of the report say what was given all the same.
    allowed = {"allow_outside": True, "allow_same_file": True, "force": True}
    scale = record.words or load_scale("nfi")
    return evaluate_case(system, trace, ref, scale, record.verbal.language, record.notes(logo), **allowed)


def _evidence(system: System, which: Which, item: _Item) -> Evidence:
    """The measurements of an item as a record holds them, with what it says was noticed about its file."""
    items = _measurements(system, which, item)
    labels = np.full(len(items.values), item.label if item.item is None else item.item)
    files = tuple((each.file, each.sha256) for each in item.files)
    findings = tuple(each.finding for each in item.findings)
    session = None if item.session is None else np.array(item.session, dtype=np.str_)
    return Evidence(which, replace(items, source=labels, group=labels, session=session, files=files, findings=findings))


def _measurements(system: System, which: Which, item: _Item) -> Table:
    if any(set(row) != set(system.features) for row in item.measured):
        raise LindleyError(f"those of the {which} are of other features than the system's")
    columns = {name: np.array([row[name] for row in item.measured]) for name in system.features}
    if system.reference is not None:
        if item.reference is None or len(item.reference) != len(item.measured):
            raise LindleyError(f"those of the {which} lack values of {system.reference}")
        columns[system.reference] = np.array(item.reference)
    return read_evidence(system, columns, which).items


def _missing_warnings(record: Record, system: System) -> list[str]:
    """A sentence with the codes of warnings that reading the measurements gives, and the record lacks; if any."""
    noticed, recorded = set[str](), set[str]()
    for which, item in record.sides:
        noticed |= {each.code for each in _measurements(system, which, item).findings if each.level == "warning"}
        recorded |= {each.code for each in item.findings}
    codes = ", ".join(sorted(noticed - recorded))
    said = f"the report does not tell of {codes}, which is noticed when its measurements are read again"
    return [said] if codes else []


def _differences(said: Any, again: Any, where: str = "", *, common: bool = False) -> Iterator[str]:
    """Where two records part; of the keys that both have, if ``common``."""
    if isinstance(said, dict) and isinstance(again, dict):
        names = [name for name in again if name in said] if common else list(dict.fromkeys((*again, *said)))
        for name in names:
            inside = f"{where} {name.replace('_', ' ')}".strip()
            yield from _differences(said.get(name), again.get(name), inside, common=common)
            if (name in said) != (name in again):
                yield f"{visible(inside)}: stands in one of the report and what is computed again, and not in the other"
    elif isinstance(said, list) and isinstance(again, list) and len(said) == len(again):
        for place, (one, other) in enumerate(zip(said, again, strict=True), start=1):
            yield from _differences(one, other, f"{where} {place}", common=common)
    elif type(again) is float and type(said) in (int, float):
        if abs(said - again) > TOLERANCE * max(1.0, abs(again)):
            yield _parted(where, said, again)
    elif type(said) is not type(again) or said != again:
        yield _parted(where, said, again)


def _parted(where: str, said: Any, again: Any) -> str:
    one, other = (_some(json.dumps(each, ensure_ascii=False)) for each in (said, again))
    return f"{visible(where)}: {one} in the report, {other} when computed again"


def _some(text: str, at: int = 0) -> str:
    """`MOST_LETTERS` of a text, around a place in it."""
    start = max(0, at - MOST_LETTERS // 2)
    end = start + MOST_LETTERS
    return visible(f"{'…' * (start > 0)}{text[start:end]}{'…' * (len(text) > end)}")


def _other_words(record: Record) -> list[str]:
    """Whether its scale has the name of one of ours, and other words."""
    ours, its = record.built_in, record.scale
    if ours is None or its is None or its.model_copy(update={"propositions": ours.propositions}) == ours:
        return []
    return [f"its scale has the name {ours.name}, and not the words and steps of {ours.source}"]


def _where_it_differs(page: str, drawn: str) -> list[str]:
    """The first place where a page is not what it should be."""
    if page == drawn:
        return []
    unlike = (place for place, (one, other) in enumerate(zip(page, drawn, strict=False)) if one != other)
    at = next(unlike, min(len(page), len(drawn)))
    line, reads, follows = page.count("\n", 0, at) + 1, _some(page, at), _some(drawn, at)
    return [f"the page is not what follows from its record: line {line} reads '{reads}', and not '{follows}'"]


def _of_all_versions(report: Report, case: Case, again: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the record of any version and the case computed again say of its LR."""
    said = {name: report.content[name] for name in _OF_ALL_VERSIONS if name in report.content}
    interval = report.record.interval
    if interval is not None and interval.how is None:
        again = {**again, "interval": dict(zip(("lower", "upper"), _former_interval(case), strict=True))}
    if report.record.words is None:
        del said["verbal"]
    return said, again


def _former_interval(case: Case) -> tuple[float, float]:
    """As records had it that do not say how: the central 90 % of the replicates, moved from their median to the LR."""
    replicates = case.system.llr_replicates(case.trace.side, case.ref.side)
    lower, middle, upper = np.quantile(replicates, [0.05, 0.5, 0.95]).tolist()
    return case.explanation.log10_lr + lower - middle, case.explanation.log10_lr + upper - middle


def _explanation(content: Mapping[str, Any]) -> Explanation:
    """The explanation as the record has it: computed again on another machine, its last digits may differ."""
    axes = [{**axis, "features": list(axis["features"].items())} for axis in content["axes"]]
    counts = {f"n_{which}": content[which]["instances"] for which in ("trace", "ref")}
    return _EXPLANATION.validate_python({**content, "axes": axes, **counts})


def _logo(page: str) -> bytes:
    found = _LOGO.search(page)
    try:
        return b"" if found is None else base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return b""  # and the page drawn with it is another


def _prints_as(path: Path, page: str) -> bool:
    """Whether a PDF is, byte for byte, what is made of a page here."""
    try:
        return page_as_pdf(page, "report.html") == path.read_bytes()
    except (LindleyError, OSError):
        return False


def _taken(record: Record) -> Iterator[str]:
    """What of a report is the laboratory's own, and may say anything."""
    ours = record.built_in
    if ours is None:
        yield f"the words are of the scale '{visible(record.verbal.scale)}', which is not one of lindley's"
    said = () if record.scale is None else record.scale.propositions.get(record.verbal.language, ())
    if said and (ours is None or said != ours.propositions[record.verbal.language]):
        yield "the propositions are " + " and ".join(f"'{visible(each)}'" for each in said)
    if codes := sorted({each.code for _, item in record.sides for each in item.findings if each.level == "warning"}):
        yield f"what was noticed about the files of trace and reference is as the record has it: {visible(', '.join(codes))}"
    if record.logo is not None:
        yield "what its logo shows was not compared"
    if record.system.signed_by is not None:
        yield (
            f"that its system was signed with the key {visible(record.system.signed_by)} was not checked: 'lindley info "
            "--require-signature' does"
        )

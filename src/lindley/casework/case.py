"""A case on paper: what went in, what came out, what to know about it, and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from platform import python_version
from typing import Any, Literal

import numpy as np

from lindley.casework.applicability import (
    Remark,
    Which,
    check_items,
    check_llr,
    check_sessions,
    check_sides,
    check_system,
)
from lindley.casework.explanation import Explanation, explain
from lindley.casework.laboratory import Logo, Scale, Verbal, load_logo, load_scale, read_notes
from lindley.errors import LindleyError
from lindley.files import json_digest, write_atomically
from lindley.llrs import Floats
from lindley.settings import spoken
from lindley.shown import json_text, visible
from lindley.system.provenance import today, versions
from lindley.system.storage import require_finite
from lindley.system.system import System
from lindley.table.columns import BelowLimit, Decimal
from lindley.table.frames import columns_of
from lindley.table.read import read_table
from lindley.table.splits import Side
from lindley.table.table import ROLES, Table
from lindley.table.workbook import Hidden
from lindley.version import __version__

__all__ = [
    "FORMAT",
    "Batch",
    "Case",
    "Evidence",
    "Notes",
    "Refusal",
    "evaluate_batch",
    "evaluate_case",
    "make_case",
    "read_evidence",
]

FORMAT = "lindley-case/2"
"""Of the record of a case, from which its whole report follows. Records up to 0.2.0 name none and hold less."""
Language = Literal["en", "nl"]


class Refusal(LindleyError):
    """No LR can be given: with every reason."""

    def __init__(self, remarks: list[Remark], language: str = "en") -> None:
        super().__init__(remarks, language)
        self.remarks, self.language = remarks, language

    def __str__(self) -> str:
        reasons = (visible(spoken(remark.in_language(self.language))) for remark in self.remarks)
        return "\n  ".join(["no LR is given for this case:", *reasons])


def system_facts(system: System) -> dict[str, Any]:
    """What a report says of its system, for ``--json``."""
    about = {key: value for key, value in system.about.items() if key not in ("file", "file_sha256")}
    return {
        "file": system.file,
        "sha256": system.sha256,
        "features": list(system.features),
        "units": list(system.units),
        "transform": system.transform,
        "reference": system.reference,
        "reference_unit": system.reference_unit,
        "bounds": list(system.bounds),
        **about,
    }


@dataclass(frozen=True, eq=False)
class Evidence:
    """The traces, or the refs: a table of items in the features of a system."""

    which: Which
    items: Table

    @cached_property
    def side(self) -> Side:
        """The items, transformed."""
        return Side(self.items.values, self.items.item, np.array(self.items.labels))

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the items."""
        return self.items.labels

    def one(self, label: str) -> Evidence:
        """One of the items, as if it were alone."""
        items = self.items
        rows = items.source == label
        labels = {role: found[rows] for role in ROLES if (found := getattr(items, role)) is not None}
        raw = None if items.raw is None else items.raw[rows]
        return replace(self, items=replace(items, values=items.values[rows], raw=raw, **labels))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done with the table and gives no cause for a remark."""
        return tuple(f"{finding}" for finding in self.items.findings if finding.level == "note")

    def findings_json(self) -> list[dict[str, Any]]:
        """For ``--json``: everything that was noticed about the table, of every level, as a sentence and in its parts."""
        return [
            {**asdict(each), "message": str(each), "noticed": spoken(each.message), "fix": spoken(each.fix)}
            for each in self.items.findings
        ]

    def to_json(self, system: System) -> dict[str, Any]:
        """For ``--json``: of one item."""
        return {
            "label": self.labels[0],
            "item": self.labels[0],
            "instances": len(self.items.values),
            "measured": [dict(zip(system.features, row, strict=True)) for row in self.items.measured.tolist()],
            **({} if self.items.divisor is None else {"reference": self.items.divisor.tolist()}),
            **({} if self.items.session is None else {"session": self.items.session.tolist()}),
            "files": [{"file": name, "sha256": digest} for name, digest in self.items.files],
            "findings": self.findings_json(),
        }


@dataclass(frozen=True)
class Notes:
    """What the laboratory calls things."""

    case: str | None = None
    examiner: str | None = None
    trace_label: str | None = None
    ref_label: str | None = None
    command: str = ""
    date: str = field(default_factory=today)
    laboratory: str | None = None
    method: str | None = None
    trace_number: str | None = None
    ref_number: str | None = None
    h1: str | None = None  # the propositions, in place of those of the scale
    h2: str | None = None
    logo: Logo | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One trace and one ref, evaluated."""

    system: System
    trace: Evidence
    ref: Evidence
    explanation: Explanation
    scale: Scale
    verbal: Verbal
    remarks: tuple[Remark, ...]
    notes: Notes
    language: Language
    versions: Mapping[str, str] = field(default_factory=lambda: {**versions(), "Python": python_version()})
    """Of all that took part in the computation."""

    def __repr__(self) -> str:
        said = self.explanation
        number = f" {self.notes.case}" if self.notes.case else ""
        return (
            f"<Case{number}: {self.trace_label} × {self.ref_label}, log10 LR {said.log10_lr_bounded:.2f} to report "
            f"({said.log10_lr:.2f} calculated), {len(self.remarks)} remarks>"
        )

    def write(self, path: str | Path, *, replace: bool = True) -> None:
        """Write the report, as .html or .pdf, or everything in it as .json; over a file that is there only if ``replace``."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending not in (".html", ".htm", ".pdf", ".json"):
            raise LindleyError(f"{path}: the report of a case is .html, .pdf or .json")
        if ending == ".json":
            data = (json_text(self.to_json(), indent=1) + "\n").encode("utf-8")
        else:
            from lindley.pages.case_page import case_file

            data = case_file(self, ending)
        write_atomically(path, data, replace=replace)

    @property
    def trace_label(self) -> str:
        """What the laboratory calls the trace."""
        return self.notes.trace_label or self.trace.labels[0]

    @property
    def ref_label(self) -> str:
        """What the laboratory calls the ref."""
        return self.notes.ref_label or self.ref.labels[0]

    @property
    def propositions(self) -> tuple[str, str]:
        """What the measurements are judged under."""
        return self.scale.propositions[self.language]

    def to_json(self) -> dict[str, Any]:
        """One object with everything in it, and a digest of it: the record that ``lindley verify`` reads in a report."""
        said = asdict(self.explanation)
        first = "log10_lr", "log10_lr_bounded", "log10_similarity", "log10_typicality", "log10_lr_model", "calibrated"
        content = {
            "format": FORMAT,
            "case": self.notes.case,
            "examiner": self.notes.examiner,
            "laboratory": self.notes.laboratory,
            "method": self.notes.method,
            **({} if self.notes.logo is None else {"logo": self.notes.logo.to_json()}),
            "propositions": list(self.propositions),
            "date": self.notes.date,
            **{key: said[key] for key in first},
            "bounds": list(said["bounds"]),
            "bounds_of": list(said["bounds_of"]),
            "interval": said["interval"],
            **{name: said[name] for name in ("by_group", "relatedness") if said[name] is not None},
            "as_near": said["as_near"],
            "verbal": self.verbal.to_json(),
            "axes": [{**axis, "features": dict(axis["features"])} for axis in said["axes"]],
            "features": list(said["features"]),
            "warnings": [remark.to_json() for remark in self.remarks],
            "system": system_facts(self.system),
            "trace": {**self.trace.to_json(self.system), "label": self.trace_label, "number": self.notes.trace_number},
            "ref": {**self.ref.to_json(self.system), "label": self.ref_label, "number": self.notes.ref_number},
            "scale": self.scale.model_dump(mode="json"),
            "lindley": self.versions["lindley"],
            "versions": dict(self.versions),
            "command": self.notes.command,
        }
        return {**content, "sha256": json_digest(content)}


@dataclass(frozen=True, eq=False)
class Batch:
    """Many traces against many refs."""

    system: System
    trace: Evidence
    ref: Evidence
    log10_lr: Floats  # (traces, refs)
    remarks: tuple[Remark, ...]
    command: str = ""
    language: Language = "en"
    notes: Notes = field(default_factory=Notes)
    propositions: tuple[str, str] | None = None  # of the scale; those of the notes go before them

    @cached_property
    def bounds(self) -> Floats:
        """What the validation pairs support of every LR, by its numbers of measurements: (2, traces, refs)."""
        return self.system.bounds_of_pairs(self.trace.side.count, self.ref.side.count)

    @property
    def bounded(self) -> Floats:
        """Within what the validation pairs support."""
        return np.clip(self.log10_lr, *self.bounds)

    def to_json(self) -> dict[str, Any]:
        """One object with everything in it."""
        return {
            "traces": list(self.trace.labels),
            "refs": list(self.ref.labels),
            "log10_lr": self.log10_lr.tolist(),
            "log10_lr_bounded": self.bounded.tolist(),
            "bounds": dict(zip(("lower", "upper"), self.bounds.tolist(), strict=True)),
            "warnings": [remark.to_json() for remark in self.remarks],
            "system": system_facts(self.system),
            "files": {
                evidence.which: [{"file": name, "sha256": digest} for name, digest in evidence.items.files]
                for evidence in (self.trace, self.ref)
            },
            "findings": {evidence.which: evidence.findings_json() for evidence in (self.trace, self.ref)},
            **{name: getattr(self.notes, name) for name in ("case", "examiner", "laboratory", "method", "date")},
            "lindley": __version__,
            "command": self.command,
        }


def make_case(
    system: System,
    trace: Any,
    ref: Any,
    *,
    case: str | None = None,
    examiner: str | None = None,
    trace_label: str | None = None,
    ref_label: str | None = None,
    laboratory: str | None = None,
    method: str | None = None,
    trace_number: str | None = None,
    ref_number: str | None = None,
    h1: str | None = None,
    h2: str | None = None,
    logo: str | Path | None = None,
    scale: str = "nfi",
    language: Language = "en",
    source: str | None = None,
    session: str | None = None,
    ignore: Sequence[str] = (),
    header_row: int | None = None,
    sheet: str | None = None,
    hidden: Hidden | None = None,
    decimal: Decimal | None = None,
    below_limit: BelowLimit | None = None,
    allow_outside: bool = False,
    allow_same_file: bool = False,
    force: bool = False,
) -> Case:
    """Evaluate a case: one trace and one ref.

    Args:
        system: that was trained for casework.
        trace: a file, a data frame, or an array of instances × features, as measured.
        ref: likewise.
        case: the number of the case.
        examiner: who examined it.
        trace_label: what the trace is called.
        ref_label: what the ref is called.
        laboratory: where it was examined.
        method: how it was measured, such as the number of a procedure.
        trace_number: the number of the trace in the laboratory's books.
        ref_number: that of the ref.
        h1: the proposition of the same source, as a sentence: "the fragment comes from the shop window".
        h2: the proposition of another source. Both or none; default, those of the scale. ``{trace}`` and ``{ref}`` in them
            stand for the labels.
        logo: of the laboratory, a PNG or JPEG file.
        scale: the verbal scale: nfi, enfsi, or a YAML file.
        language: of the sentences for the court, en or nl.
        source: the column that tells items apart; default ``source``, where there is one.
        session: the column that names the session of a measurement: what it shares with others, such as a fragment, a day or an
            instrument; default ``session``, where there is one.
        ignore: columns that differ within an item and do not matter, such as remarks; other such columns are an error.
        header_row: of a file, the row of the header as Excel counts; else the first, or the one below a title.
        sheet: of an .xlsx file.
        hidden: what to do with hidden rows and columns of an .xlsx file, ``include`` or ``ignore``; else they are an error.
        decimal: the decimal mark, where numbers such as 1,934 could be 1.934 or 1934.
        below_limit: what <0.02 is read as: ``half`` of the limit, the ``limit``, or ``sqrt2``; else it is an error.
        allow_outside: give an LR of items that look like another unit or another method all the same; the report says so.
        allow_same_file: give an LR of one file, or of the same measurements, on both sides, as a test of the method; the report
            says so.
        force: give an LR of a system that may say nothing by its own validation (a Cllr of 1 or more, or an interval that
            reaches 1) all the same; the report says so.

    Raises:
        Refusal: if an LR would be meaningless; with every reason.
        TableError: with everything that is wrong with the measurements.
    """
    sides: dict[Which, Any] = {"trace": trace, "ref": ref}
    reading: dict[str, Any] = {"source": source, "session": session, "ignore": ignore, "sheet": sheet}
    reading |= {"header_row": header_row, "hidden": hidden, "decimal": decimal, "below_limit": below_limit}
    traces, refs = (read_evidence(system, data, which, **reading) for which, data in sides.items())
    given = {
        "case": case, "examiner": examiner, "laboratory": laboratory, "method": method, "trace_label": trace_label,
        "trace_number": trace_number, "ref_label": ref_label, "ref_number": ref_number, "h1": h1, "h2": h2,
    }  # fmt: skip
    notes = Notes(**read_notes(None, given), logo=None if logo is None else load_logo(logo))
    allowed = {"allow_outside": allow_outside, "allow_same_file": allow_same_file, "force": force}
    return evaluate_case(system, traces, refs, load_scale(scale), language, notes, **allowed)


def read_evidence(
    system: System,
    data: Any,
    which: Which,
    **reading: Any,
) -> Evidence:
    """Read items in the features of a system: a table, a folder of tables, a data frame, or an array of one item.

    ``reading`` says how, by the names of `read_table`.
    """
    name = None if isinstance(data, str | Path) else which
    if name is not None and columns_of(data) is None:
        data = dict(zip(system.columns, system.instances(data, which).T, strict=True))
    return Evidence(which, read_table(data, **reading, **system.table, purpose="case", name=name))


def evaluate_case(
    system: System,
    trace: Evidence,
    ref: Evidence,
    scale: Scale,
    language: Language = "en",
    notes: Notes | None = None,
    *,
    allow_outside: bool = False,
    allow_same_file: bool = False,
    force: bool = False,
) -> Case:
    """One trace against one ref.

    Raises:
        Refusal: if an LR would be meaningless; with every reason.
    """
    for evidence in (trace, ref):
        if len(evidence.labels) != 1:
            raise LindleyError(f"one {evidence.which} is needed, and there are {len(evidence.labels)}")
    remarks = _checked(system, trace, ref, language, allow_outside, allow_same_file, force)
    explanation = explain(system, trace.side, ref.side)
    remarks += check_llr(explanation.log10_lr, explanation.bounds)
    notes = notes if notes is not None else Notes()
    if notes.h1 is not None and notes.h2 is not None:
        labels = {"trace": notes.trace_label or trace.labels[0], "ref": notes.ref_label or ref.labels[0]}
        scale = scale.with_propositions(language, notes.h1.format(**labels), notes.h2.format(**labels))
    verbal = scale.describe(explanation.log10_lr_bounded, language)
    return Case(system, trace, ref, explanation, scale, verbal, tuple(remarks), notes, language)


def evaluate_batch(
    system: System,
    trace: Evidence,
    ref: Evidence,
    command: str = "",
    language: Language = "en",
    *,
    scale: Scale | None = None,
    notes: Notes | None = None,
    allow_outside: bool = False,
    allow_same_file: bool = False,
    force: bool = False,
) -> Batch:
    """Every trace against every ref; ``scale`` and ``notes`` say what the propositions are, and what the case is called.

    Raises:
        Refusal: if an LR of any of them would be meaningless; with every reason.
    """
    remarks = _checked(system, trace, ref, language, allow_outside, allow_same_file, force)
    llr = system.llr_sides(trace.side, ref.side)
    require_finite(llr)
    propositions = None if scale is None else scale.propositions[language]
    batch = Batch(system, trace, ref, llr, (), command, language, notes or Notes(), propositions)
    if beyond := np.count_nonzero(batch.bounded != llr):
        message = (
            f"{beyond} of {llr.size} log10 LRs lie outside what the validation pairs support. Report the bounded LRs."
        )
        dutch = (
            f"{beyond} van {llr.size} log10 LR's liggen buiten wat de validatieparen ondersteunen. Rapporteer de LR's "
            "binnen de grenzen."
        )
        remarks.append(Remark("beyond-bounds", message, translations={"nl": dutch}))
    return replace(batch, remarks=tuple(remarks))


def _checked(
    system: System,
    trace: Evidence,
    ref: Evidence,
    language: str,
    allow_outside: bool,
    allow_same_file: bool,
    force: bool,
) -> list[Remark]:
    remarks = check_system(system, force=force)
    remarks += [
        remark
        for evidence in (trace, ref)
        for remark in check_items(system, evidence.side, evidence.items, evidence.which, allow_outside=allow_outside)
    ]
    remarks += check_sides(system, trace.items, ref.items, allow_same_file=allow_same_file)
    remarks += check_sessions(system, trace.items, ref.items)
    if refusals := [remark for remark in remarks if remark.refusal]:
        raise Refusal(refusals, language)
    return remarks

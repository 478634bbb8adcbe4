"""A case on paper: what went in, what came out, what to know about it, and how to repeat it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from lindley.casework.applicability import Remark, Which, check_items, check_pair, same_rows
from lindley.casework.explanation import Explanation, explain
from lindley.casework.explanation import to_json as numbers_of
from lindley.casework.verbal import Scale, Verbal
from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.system.system import System, load_with_about, today
from lindley.table.items import TABLES, Items, read_items
from lindley.table.splits import Side
from lindley.table.transform import Transform, TransformKind
from lindley.version import __version__

__all__ = [
    "Batch",
    "Case",
    "Evidence",
    "Notes",
    "Refusal",
    "SystemFile",
    "evaluate_batch",
    "evaluate_case",
    "read_evidence",
]

Language = Literal["en", "nl"]


class Refusal(LindleyError):
    """No LR can be given: with every reason."""

    def __init__(self, remarks: list[Remark], language: str = "en") -> None:
        self.remarks = remarks
        reasons = "\n".join(f"  {remark.in_language(language)}" for remark in remarks)
        super().__init__(f"no LR is given for this case:\n{reasons}")


@dataclass(frozen=True, eq=False)
class SystemFile:
    """A system, what its file says about it, and the file."""

    system: System
    about: dict[str, Any]
    name: str
    sha256: str

    @classmethod
    def open(cls, path: str | Path) -> SystemFile:
        """Read it."""
        system, about = load_with_about(path)
        return cls(system, about, Path(path).name, about["file_sha256"])

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        about = {key: value for key, value in self.about.items() if key != "file_sha256"}
        return {
            "file": self.name,
            "sha256": self.sha256,
            "features": list(self.system.features),
            "units": list(self.system.units),
            "transform": self.system.transform,
            "reference": self.system.reference,
            "bounds": list(self.system.bounds),
            **about,
        }


@dataclass(frozen=True, eq=False)
class Evidence:
    """The traces, or the refs: as they were measured, and as the model sees them."""

    which: Which
    items: Items
    side: Side
    files: tuple[tuple[str, str], ...]  # name and SHA-256

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the items."""
        return self.items.labels

    def to_json(self, system: System) -> dict[str, Any]:
        """For ``--json``: of one item."""
        return {
            "label": self.labels[0],
            "instances": len(self.items.values),
            "measured": [dict(zip(system.features, row, strict=True)) for row in self.items.measured.tolist()],
            **({} if self.items.divisor is None else {"reference": self.items.divisor.tolist()}),
            "files": [{"file": name, "sha256": digest} for name, digest in self.files],
        }


@dataclass(frozen=True)
class Notes:
    """What the laboratory calls things."""

    case: str | None = None
    examiner: str | None = None
    trace: str | None = None
    ref: str | None = None
    command: str = ""
    date: str = field(default_factory=today)


@dataclass(frozen=True, eq=False)
class Case:
    """One trace and one ref, evaluated."""

    file: SystemFile
    trace: Evidence
    ref: Evidence
    explanation: Explanation
    scale: Scale
    verbal: Verbal
    remarks: tuple[Remark, ...]
    notes: Notes
    language: Language

    @property
    def system(self) -> System:
        """The system that evaluated it."""
        return self.file.system

    @property
    def trace_label(self) -> str:
        """What the laboratory calls the trace."""
        return self.notes.trace or self.trace.labels[0]

    @property
    def ref_label(self) -> str:
        """What the laboratory calls the ref."""
        return self.notes.ref or self.ref.labels[0]

    def to_json(self) -> dict[str, Any]:
        """One object with everything in it."""
        numbers = numbers_of(self.explanation)
        return {
            "case": self.notes.case,
            "examiner": self.notes.examiner,
            "date": self.notes.date,
            "log10_lr": numbers.pop("log10_lr"),
            "log10_lr_bounded": numbers.pop("log10_lr_bounded"),
            "log10_similarity": numbers.pop("log10_similarity"),
            "log10_typicality": numbers.pop("log10_typicality"),
            "log10_lr_model": self.explanation.log10_lr_model,
            "calibrated": self.explanation.calibrated,
            "bounds": list(self.explanation.bounds),
            "interval": numbers.pop("interval"),
            "verbal": self.verbal.to_json(),
            **numbers,
            "warnings": [remark.to_json() for remark in self.remarks],
            "system": self.file.to_json(),
            "trace": {**self.trace.to_json(self.system), "label": self.trace_label},
            "ref": {**self.ref.to_json(self.system), "label": self.ref_label},
            "lindley": __version__,
            "command": self.notes.command,
        }


@dataclass(frozen=True, eq=False)
class Batch:
    """Many traces against many refs."""

    file: SystemFile
    trace: Evidence
    ref: Evidence
    log10_lr: Floats  # (traces, refs)
    remarks: tuple[Remark, ...]
    command: str = ""

    @property
    def bounded(self) -> Floats:
        """Within what the validation pairs support."""
        return np.clip(self.log10_lr, *self.file.system.bounds)

    def to_json(self) -> dict[str, Any]:
        """One object with everything in it."""
        return {
            "traces": list(self.trace.labels),
            "refs": list(self.ref.labels),
            "log10_lr": self.log10_lr.tolist(),
            "log10_lr_bounded": self.bounded.tolist(),
            "bounds": list(self.file.system.bounds),
            "warnings": [remark.to_json() for remark in self.remarks],
            "system": self.file.to_json(),
            "files": {
                evidence.which: [{"file": name, "sha256": digest} for name, digest in evidence.files]
                for evidence in (self.trace, self.ref)
            },
            "lindley": __version__,
            "command": self.command,
        }


def read_evidence(
    system: System, path: str | Path, which: Which, *, source_column: str | None = None, sheet: str | None = None
) -> Evidence:
    """Read a table, or a folder of tables, of items in the features of a system."""
    transform = Transform(cast(TransformKind, system.transform), system.reference)
    items = read_items(path, system.features, system.units, transform, source_column=source_column, sheet=sheet)
    side = system.side_of_transformed(items.values, items.item, which, list(items.labels))
    return Evidence(which, items, side, _digests(Path(path)))


def evaluate_case(
    file: SystemFile,
    trace: Evidence,
    ref: Evidence,
    scale: Scale,
    language: Language = "en",
    notes: Notes | None = None,
) -> Case:
    """One trace against one ref.

    Raises:
        Refusal: if an LR would be meaningless; with every reason.
    """
    for evidence in (trace, ref):
        if len(evidence.labels) != 1:
            raise LindleyError(f"one {evidence.which} is needed, and there are {len(evidence.labels)}")
    remarks = _checked(file.system, trace, ref, language)
    explanation = explain(file.system, trace.side, ref.side)
    remarks += check_pair(file.system, explanation.log10_lr, trace.items, ref.items)
    verbal = scale.describe(explanation.log10_lr_bounded, language)
    notes = notes if notes is not None else Notes()
    return Case(file, trace, ref, explanation, scale, verbal, tuple(remarks), notes, language)


def evaluate_batch(
    file: SystemFile, trace: Evidence, ref: Evidence, command: str = "", language: Language = "en"
) -> Batch:
    """Every trace against every ref.

    Raises:
        Refusal: if an LR of any of them would be meaningless; with every reason.
    """
    system = file.system
    remarks = _checked(system, trace, ref, language)
    if copied := same_rows(trace.items, ref.items):
        some = ", ".join(f"'{label}'" for label in copied[:4]) + (" …" if len(copied) > 4 else "")
        message = f"Measurements of {some} are among those of the traces and of the refs, to the last digit."
        remarks.append(Remark("same-measurement", message, which="trace", items=tuple(copied)))
    llr = system.llr_sides(trace.side, ref.side)
    lower, upper = system.bounds
    spoken = f"{lower:.2f} to {upper:.2f}".replace("-", "−")
    beyond = np.count_nonzero((llr < lower) | (llr > upper))
    if beyond:
        message = (
            f"{beyond} of {llr.size} log10 LRs lie outside {spoken}, which is as far as the validation "
            "pairs support them. Report the bounded LRs."
        )
        remarks.append(Remark("beyond-bounds", message))
    return Batch(file, trace, ref, llr, tuple(remarks), command)


def _checked(system: System, trace: Evidence, ref: Evidence, language: str) -> list[Remark]:
    remarks = [
        remark
        for evidence in (trace, ref)
        for remark in check_items(system, evidence.side, evidence.items, evidence.which)
    ]
    if refusals := [remark for remark in remarks if remark.refusal]:
        raise Refusal(refusals, language)
    return remarks


def _digests(path: Path) -> tuple[tuple[str, str], ...]:
    files = [path]
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in TABLES and f.name[0] not in ".~")
    return tuple((file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files)

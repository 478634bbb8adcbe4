"""A validation in words and as JSON: the names of its figures, how to read them, and what is needed to repeat it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lindley.casework.performance import LEVEL, Estimate
from lindley.casework.validation import Line, Validation
from lindley.experiment.plan import versions
from lindley.system.system import System, today
from lindley.table.table import Table
from lindley.version import __version__

__all__ = ["CHARACTERISTICS", "FORMAT", "METRICS", "Metric", "Record", "grouped", "limit", "rows", "shown", "times"]

FORMAT = "lindley-validation/1"

CHARACTERISTICS = {
    "accuracy": "Accuracy",
    "discriminating_power": "Discriminating power",
    "calibration": "Calibration",
    "robustness": "Robustness",
    "coherence": "Coherence",
    "generalisation": "Generalisation",
    "misleading_evidence": "Misleading evidence",
}


@dataclass(frozen=True)
class Metric:
    """How a figure is called, in which unit it is, and how to read it."""

    title: str
    unit: Literal["bits", "share", "log10"]
    reading: str


METRICS = {
    ("accuracy", "cllr"): Metric("Cllr", "bits", "What the LRs cost. 0 is perfect, 1 is no better than no LR."),
    ("discriminating_power", "cllr_min"): Metric(
        "Cllr_min", "bits", "Cllr after the best recalibration: what is left is overlap of the two kinds of pairs."
    ),
    ("discriminating_power", "eer"): Metric(
        "Equal error rate", "share", "The error rate where both kinds of errors are equally frequent."
    ),
    ("calibration", "cllr_cal"): Metric(
        "Cllr_cal", "bits", "Cllr − Cllr_min: the part of the cost for want of calibration."
    ),
    ("calibration", "devpav"): Metric(
        "devPAV", "log10", "How far the LRs are from what they should be, on average, in powers of ten."
    ),
    ("robustness", "outliers"): Metric(
        "Worst 1 % of sources",
        "bits",
        "What the costliest 1 % of the sources add to Cllr. Much: the figures stand on a few.",
    ),
    ("robustness", "missing_replicates"): Metric(
        "Missing replicates", "bits", "Cllr of one measurement each, minus Cllr of all measurements that there are."
    ),
    ("coherence", "gain"): Metric(
        "Gain of more measurements", "bits", "Cllr of 1×1 minus Cllr of the most measurements. Above 0: more is better."
    ),
    ("coherence", "largest_rise"): Metric(
        "Largest rise", "bits", "The most that Cllr rises when one measurement is added. 0 or less: it never rises."
    ),
    ("generalisation", "validation"): Metric(
        "Since training", "bits", "Cllr of 1×1 on this table minus Cllr of 1×1 in the system's own validation."
    ),
    ("generalisation", "other_cllr"): Metric("Cllr on another table", "bits", "What the LRs cost on the other table."),
    ("generalisation", "other_change"): Metric(
        "Change on another table", "bits", "Cllr on the other table minus Cllr on this one."
    ),
    ("misleading_evidence", "same"): Metric(
        "Same source, LR < 1", "share", "Share of the same-source pairs whose LR points to different sources."
    ),
    ("misleading_evidence", "different"): Metric(
        "Different sources, LR > 1", "share", "Share of the different-source pairs whose LR points to one source."
    ),
    ("misleading_evidence", "misleading_beyond_bounds"): Metric(
        "Misleading beyond the bounds",
        "share",
        "Pairs whose raw LR misleads by more than the bounds allow, mean of the shares of both kinds of pairs.",
    ),
    ("misleading_evidence", "beyond_bounds"): Metric(
        "Beyond the bounds",
        "share",
        "Pairs whose raw LR is beyond the bounds, and is reported as the bound; mean of the shares of both kinds.",
    ),
}


@dataclass(frozen=True, eq=False)
class Record:
    """A validation with what it was made of and from."""

    validation: Validation
    system: System
    about: dict[str, Any]
    file: str  # of the system
    table: Table
    other: Table | None
    criteria_file: str | None

    def facts(self) -> list[tuple[str, str]]:
        """What is needed to repeat it, in the order of a table."""
        v, about, settings = self.validation, self.about, self.validation.settings
        trained = about.get("data", {})
        lower, upper = v.bounds
        n = len(v.sources)
        pairs = f"{grouped(n)} same-source and {grouped(n * (n - 1))} different-source pairs"
        return [
            ("System", f"{self.file}, SHA-256 {about.get('file_sha256', 'not known')}"),
            ("Model", self.system.name),
            (
                "Trained",
                f"{about.get('created', '')}, on {trained.get('sources', '?')} sources of {trained.get('name', '?')}",
            ),
            ("Its own validation", _own(about.get("validation", {}))),
            ("Features", ", ".join(_with_unit(self.system))),
            ("Bounds", f"log10 LR from {_plain(lower, 2)} to {_plain(upper, 2)}"),
            ("Table", _table(self.table)),
            *([] if self.other is None else [("Other table", _table(self.other))]),
            ("Overlap", f"{v.overlap}" if v.overlap.rows else "none of the measurements was used to train the system"),
            ("Comparison", f"{times(settings.instances)} measurements, {n} sources: {pairs}"),
            ("Criteria", self.criteria_file or "none"),
            ("Intervals", f"{LEVEL:.0%}, bootstrap over sources (or groups of them), {settings.replicates} replicates"),
            (
                "Draws",
                f"seed {settings.seed}; {settings.draws} draws of the measurements where figures are means over draws",
            ),
            ("Made", f"{today()}, with " + ", ".join(f"{name} {number}" for name, number in versions().items())),
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; null stands for an infinite end of an interval."""
        v = self.validation
        return {
            "format": FORMAT,
            "verdict": v.verdict,
            "judged": v.judged,
            "lines": [_line(line) for line in v.lines],
            "coherence": [
                {
                    "trace": step.instances[0],
                    "ref": step.instances[1],
                    "cllr": {"raw": _estimate(step.raw), "bounded": _estimate(step.bounded)},
                    "cllr_min": step.cllr_min,
                }
                for step in v.steps
            ],
            "coherence_sources": v.step_sources,
            "costliest_sources": [{"source": source, "adds_to_cllr": cost} for source, cost in v.costliest],
            "remarks": list(v.remarks),
            "overlap": asdict(v.overlap),
            "criteria": None if v.criteria is None else v.criteria.to_json(),
            "settings": {**asdict(v.settings), "interval": LEVEL},
            "sources": len(v.sources),
            "system": {
                "file": self.file,
                "sha256": self.about.get("file_sha256"),
                "model": self.system.name,
                "created": self.about.get("created"),
                "features": list(self.system.features),
                "units": list(self.system.units),
                "transform": self.system.transform,
                "reference": self.system.reference,
                "bounds": list(v.bounds),
                "validation": self.about.get("validation"),
                "data": self.about.get("data"),
            },
            "data": _data(self.table),
            "other": None if self.other is None else _data(self.other),
            "made": {"date": today(), "lindley": __version__, "versions": versions()},
        }


def grouped(number: int) -> str:
    """A count with a narrow space between thousands."""
    return f"{number:,}".replace(",", "\u202f")


def times(shape: tuple[int, int]) -> str:
    """``2×3``: trace and ref measurements."""
    return f"{shape[0]}×{shape[1]}"


def shown(value: float, unit: str) -> str:
    """A figure as a person reads it: a share in per cent, everything else with three decimals."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if unit == "share":
        percent = 100 * value
        digits = 2 if abs(percent) < 10 else 1
        return f"{_plain(percent, digits)} %"
    return _plain(value, 2 if unit == "log10" else 4 if abs(value) < 0.1 else 3)


def limit(line: Line) -> str:
    """The criterion of a line, in the unit of its figure."""
    if line.criterion is None:
        return "–"
    return line.criterion.describe(METRICS[line.characteristic, line.metric].unit == "share")


def rows(validation: Validation) -> list[tuple[str, str, str, str, str, str]]:
    """The matrix as text: characteristic, metric, figure judged, interval, criterion, outcome."""
    table: list[tuple[str, str, str, str, str, str]] = []
    before = ""
    for line in validation.lines:
        metric = METRICS[line.characteristic, line.metric]
        name = CHARACTERISTICS[line.characteristic]
        value, interval = "–", "–"
        if line.estimate is not None:
            value = shown(line.estimate.value, metric.unit)
            interval = f"{shown(line.estimate.lower, metric.unit)} to {shown(line.estimate.upper, metric.unit)}"
        criterion = limit(line)
        table.append(("" if name == before else name, metric.title, value, interval, criterion, line.outcome))
        before = name
    return table


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}".replace("-", "−")
    return text.removeprefix("−") if float(text.replace("−", "-")) == 0 else text


def _own(validation: dict[str, Any]) -> str:
    cllr = validation.get("cllr")
    if not isinstance(cllr, int | float):
        return "not in the file"
    return f"Cllr {shown(float(cllr), 'bits')} of the raw LRs ({validation.get('how', 'not known how')})"


def _with_unit(system: System) -> list[str]:
    return [
        name if unit is None else f"{name} [{unit}]" for name, unit in zip(system.features, system.units, strict=True)
    ]


def _table(table: Table) -> str:
    return f"{table.name}: {len(table.values)} measurements of {len(table.sources)} sources, SHA-256 {table.sha256()}"


def _data(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "sha256": table.sha256(),
        "rows": len(table.values),
        "sources": len(table.sources),
        "findings": [str(finding) for finding in table.findings],
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "characteristic": line.characteristic,
        "metric": line.metric,
        "title": METRICS[line.characteristic, line.metric].title,
        "unit": METRICS[line.characteristic, line.metric].unit,
        "judged": line.judged,
        "raw": _estimate(line.raw),
        "bounded": _estimate(line.bounded),
        "criterion": None if line.criterion is None else line.criterion.model_dump(exclude_none=True),
        "outcome": line.outcome,
        "why": line.why,
    }


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    found = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}

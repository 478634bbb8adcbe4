"""The validation of a system on data that it has not seen.

After D. Meuwly, D. Ramos and R. Haraksim (2017), A guideline for the validation of likelihood ratio methods used for
forensic evidence evaluation, Forensic Science International 276, 142–153: *performance characteristics* (accuracy,
discriminating power, calibration; robustness, coherence, generalisation), each with its *metrics*, the laboratory's
*criterion* on a metric, and the decision, pass or fail.

A figure is computed on the LRs of the system as they are, raw, and on those within the bounds of the system, as a case report
gives them. The criteria say which of the two is judged. Intervals are central 95 % intervals of a bootstrap over sources (or
groups of them); where a figure is a difference, both its parts are taken of the same sources drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from lindley.casework.applicability import ABSURD_SD, known_rows, looks_foreign, sd_outside
from lindley.casework.laboratory import FIGURES, Criteria, Criterion, load_criteria
from lindley.casework.performance import (
    DEFAULTS,
    Figures,
    Kind,
    LadderStep,
    Pair,
    Scores,
    Settings,
    Sources,
    coherence,
    generalisation,
    missing_replicates,
)
from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import Estimate
from lindley.evaluation.pair_grid import PairGrid
from lindley.llrs import Floats
from lindley.settings import setting
from lindley.system.system import System, row_digests
from lindley.table.findings import listing, quoted
from lindley.table.table import Table

__all__ = ["Line", "Outcome", "Overlap", "Validation", "find_overlap", "require_new", "require_unit", "validate"]

OTHER = 1_000_003

Outcome = Literal["pass", "fail", "not judged", "no criterion"]


@dataclass(frozen=True)
class Line:
    """A line of the validation matrix."""

    characteristic: str
    metric: str
    raw: Estimate | None
    bounded: Estimate | None
    judged: Kind  # which of the two the criterion is for
    criterion: Criterion | None
    outcome: Outcome
    why: str = ""  # there is no figure, or it cannot be judged

    @property
    def estimate(self) -> Estimate | None:
        """The figure that is judged."""
        return self.raw if self.judged == "raw" else self.bounded


@dataclass(frozen=True)
class Overlap:
    """How much of a table the system was trained on."""

    rows: int
    sources: int  # with one such row at least
    all_rows: int
    all_sources: int
    labels: tuple[str, ...] = ()  # of these sources

    def __str__(self) -> str:
        return (
            f"{self.rows} of {self.all_rows} measurements, of {self.sources} of {self.all_sources} sources "
            f"({listing(quoted(self.labels), 8)}), are among those that the system was trained on"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Validation:
    """Everything that a validation found, and what it was made of."""

    system: System
    table: Table
    other: Table | None
    lines: tuple[Line, ...]
    steps: tuple[LadderStep, ...]  # of coherence; empty where the table has no more than two measurements a source
    step_sources: int
    llr: Floats  # (sources, sources) raw log10 LRs of the comparison judged, same-source on the diagonal
    grid: PairGrid  # of these pairs, with their weights
    sources: Sources
    overlap: Overlap
    costliest: tuple[tuple[str, float], ...]  # the worst 1 % of the sources, and what each adds to the raw Cllr
    remarks: tuple[str, ...]
    criteria: Criteria | None
    criteria_file: str | None
    settings: Settings

    def __repr__(self) -> str:
        cllr = self.line("accuracy", "cllr").estimate
        found = "" if cllr is None else f"Cllr {cllr.value:.4f} ({cllr.lower:.4f} to {cllr.upper:.4f}), "
        return f"<Validation of {self.system.name} on {self.table.name}: {len(self.sources)} sources, {found}{self.verdict}>"

    def write(self, folder: str | Path, *, pdf: bool = False) -> None:
        """Write the report, validation.html (and .pdf), and its figures, validation.json, into a folder that is there."""
        from lindley.pages.validation_page import write_validation

        write_validation(self, Path(folder), pdf=pdf)

    @property
    def bounds(self) -> tuple[float, float]:
        """log10 LR: as far as a case of so many measurements is reported."""
        return self.system.bounds_for(*self.settings.instances)[0]

    @property
    def judged(self) -> Kind:
        """The LRs that criteria are applied to."""
        return (self.criteria or Criteria()).judged

    @property
    def verdict(self) -> Literal["pass", "fail", "no criteria"]:
        """Pass only if every criterion passes; one that cannot be judged does not."""
        outcomes = {line.outcome for line in self.lines} - {"no criterion"}
        if not outcomes:
            return "no criteria"
        return "pass" if outcomes == {"pass"} else "fail"

    def line(self, characteristic: str, metric: str) -> Line:
        """One line of the matrix."""
        return next(each for each in self.lines if (each.characteristic, each.metric) == (characteristic, metric))


Progress = Callable[[str, str, float], None]


def validate(
    system: System,
    table: Table,
    criteria: Criteria | str | Path | None = None,
    *,
    other: Table | None = None,
    settings: Settings = DEFAULTS,
    progress: Progress = lambda doing, detail, done: None,
) -> Validation:
    """Validate a system on a table, and perhaps on another one.

    Args:
        system: of which the tables have the features, transformed as it wants them.
        table: data that the system has not seen.
        criteria: of the laboratory, or the YAML file that holds them; without them nothing passes or fails.
        other: for generalisation, data of another origin.
        settings: numbers of measurements, draws and replicates, and the seed.
        progress: told of what is being done.

    Raises:
        LindleyError: if the system was trained on some of the data, unless ``settings`` allow it; or if they are too few,
            or of another unit.
    """
    file = None if criteria is None or isinstance(criteria, Criteria) else Path(criteria)
    limits = load_criteria(file) if file is not None else cast(Criteria | None, criteria)
    overlap, remarks = find_overlap(system, table), []
    for each in (table, *([] if other is None else [other])):
        remarks += require_new(system, each, settings.allow_overlap) + require_unit(system, each)
    if other is not None and (shared := len(set(row_digests(other.values)) & set(row_digests(table.values)))):
        remarks.append(f"{other.name}: {shared} measurements are in {table.name} too, so that it is not another table")
    progress("validating", "LRs", 0.0)
    main = Scores.of(system, table, settings)
    there = None if other is None else Scores.of(system, other, settings, stream=OTHER)
    remarks += [*main.remarks, *([] if there is None else there.remarks)]
    progress("validating", "bootstrap", 0.1)
    figures: Figures = main.figures()
    costliest, figures["robustness", "outliers"] = main.outliers()
    progress("validating", "missing replicates", 0.5)
    figures["robustness", "missing_replicates"] = missing_replicates(system, table, settings)
    progress("validating", "coherence", 0.6)
    steps, n_steps, found = coherence(system, table, settings)
    figures |= found
    progress("validating", "generalisation", 0.9)
    figures |= generalisation(system, table, there, main, settings)
    progress("done", "", 1.0)
    return Validation(
        system=system,
        table=table,
        other=other,
        lines=tuple(_line(*key, figures[key], limits or Criteria()) for key in FIGURES),
        steps=steps,
        step_sources=n_steps,
        llr=main.llr,
        grid=main.grid,
        sources=main.sources,
        overlap=overlap,
        costliest=costliest,
        remarks=tuple(remarks),
        criteria=limits,
        criteria_file=None if file is None else file.name,
        settings=settings,
    )


def find_overlap(system: System, table: Table) -> Overlap:
    """How much of a table the system was trained on."""
    known = known_rows(system, table)
    labels = tuple(dict.fromkeys(table.source[known].tolist()))
    return Overlap(int(known.sum()), len(labels), len(known), len(table.sources), labels)


def require_new(system: System, table: Table, allowed: bool) -> list[str]:
    """Refuse a table that the system was trained on, or say so where that is ``allowed``."""
    if not system.digests:
        return [f"{table.name}: the system is private, and cannot tell whether it was trained on these measurements"]
    overlap = find_overlap(system, table)
    if not overlap.rows:
        return []
    if not allowed:
        raise LindleyError(
            f"{table.name}: {overlap}. Figures on data that a system has seen flatter it: give a table of other sources, or "
            f"{setting('allow_overlap')} if that is what you want, and the report will say so."
        )
    return [f"{table.name}: {overlap}. Figures on them flatter the system"]


def require_unit(system: System, table: Table) -> list[str]:
    """Refuse a table that lies far outside the population: it is in another unit, or of another material."""
    values, population = system.scaling(table.values), system.population
    absurd, foreign = sd_outside(system, values) > ABSURD_SD, looks_foreign(system, table.values)
    if foreign.mean() > 0.5 and not absurd.any(axis=1).mean() > 0.5:
        raise LindleyError(
            f"{table.name}: {foreign.mean():.0%} of the measurements lie far outside the population of the system on half of "
            "the features or more at once. They are in another unit or of another method, and the system was not made for them."
        )
    if absurd.any(axis=1).mean() > 0.5:
        feature = system.features[int(absurd.mean(axis=0).argmax())]
        raise LindleyError(
            f"{table.name}: {absurd.any(axis=1).mean():.0%} of the measurements lie more than {ABSURD_SD:.0f} standard "
            f"deviations outside the population of the system, {feature} most of all. They are in another unit or of "
            "another material, and the system was not made for them."
        )
    remarks = []
    if foreign.any() and not absurd.any():
        remarks.append(
            f"{table.name}: {foreign.sum()} measurements lie far outside the population of the system on half of the features "
            "or more at once, as another unit or another method would: their cases would be refused"
        )
    if absurd.any():
        remarks.append(
            f"{table.name}: {absurd.any(axis=1).sum()} measurements lie more than {ABSURD_SD:.0f} standard deviations outside "
            "the population of the system: no case of theirs would get an LR"
        )
    sources, item = np.unique(table.source, return_inverse=True)
    means = np.zeros((len(sources), values.shape[1]))
    np.add.at(means, item, values)
    means /= np.bincount(item)[:, None]
    if far := int((population.distance_of(means) > population.distance[-1]).sum()):
        remarks.append(
            f"{table.name}: {far} of {len(sources)} sources lie further from the centre of the population than any of the "
            f"{len(population.means)} training sources"
        )
    return remarks


def _line(characteristic: str, metric: str, found: Pair | str, criteria: Criteria) -> Line:
    """Set a figure against its criterion."""
    criterion = criteria.of(characteristic, metric)
    if isinstance(found, str):
        outcome: Outcome = "no criterion" if criterion is None else "not judged"
        return Line(characteristic, metric, None, None, criteria.judged, criterion, outcome, found)
    judged = criteria.judged if criteria.judged in found else "raw"
    estimate, why = found[judged], ""
    if criterion is None:
        outcome = "no criterion"
    elif not np.isfinite(estimate.value):
        outcome = "not judged"
    else:
        outcome = "pass" if criterion.passes(estimate.value, estimate.lower, estimate.upper) else "fail"
    if not np.isfinite(estimate.value):
        why = "the LRs separate all pairs, so that their calibration cannot be known"
    return Line(characteristic, metric, found.get("raw"), found.get("bounded"), judged, criterion, outcome, why)

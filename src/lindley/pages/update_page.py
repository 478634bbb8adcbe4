"""What changed when a system was given more background: its data, its validation, its bounds, and the LRs of past cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lindley.casework.case import Case
from lindley.casework.laboratory import Verbal
from lindley.errors import LindleyError
from lindley.pages.case_record import Record, case_of, read_report
from lindley.pages.case_words import described_file
from lindley.pages.comparison_page import Section
from lindley.pages.numerals import UNKNOWN, figure, fixed, grouped, shorten, signed
from lindley.pages.page import render_page
from lindley.pages.validation_page import write_pair
from lindley.system.provenance import today
from lindley.system.system import System
from lindley.version import __version__

__all__ = ["PastCase", "Update", "past_cases", "update_json", "write_update"]

FORMAT = "lindley-update/1"
FIGURES = {
    "cllr": ("Cllr", "bits"),
    "cllr_min": ("Cllr_min", "bits"),
    "cllr_cal": ("Cllr_cal", "bits"),
    "eer": ("Equal error rate", "share"),
    "misleading_same": ("Same source, LR < 1", "share"),
    "misleading_different": ("Different sources, LR > 1", "share"),
}
"""Of the validation that a system has of itself: name and unit."""


@dataclass(frozen=True, eq=False)
class PastCase:
    """The case of a report, by the old and by the new system; or why there is no LR."""

    report: Path
    record: Record
    old: Case | str
    new: Case | str
    remarks: tuple[str, ...]

    @property
    def words_change(self) -> bool:
        """Whether the LR has other words on the verbal scale of the report, or none any more."""
        if isinstance(self.old, str) or isinstance(self.new, str):
            return isinstance(self.old, str) != isinstance(self.new, str)
        return _place(self.old.verbal) != _place(self.new.verbal)


@dataclass(frozen=True, eq=False)
class Update:
    """The old system, the new one, and past cases by both."""

    old: System
    new: System
    cases: tuple[PastCase, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What to know of it."""
        told = [
            "Each system was validated on its own background, so that their figures are of other pairs: 'lindley evaluate' "
            "compares the two on the same new data."
        ]
        before, now = self.old.about.get("lindley"), self.new.about.get("lindley")
        if before != now:
            told.append(f"The old system was made by lindley {before}, the new one by {now}: that may change LRs too.")
        return told + [f"{each.report.name}: {remark}" for each in self.cases for remark in each.remarks]

    @property
    def conclusions(self) -> list[str]:
        """In sentences: the data, and every past case whose words change."""
        before, now = self.old.about["data"], self.new.about["data"]
        said = [
            f"The background grew from {grouped(before['rows'])} measurements of {grouped(before['sources'])} sources to "
            f"{grouped(now['rows'])} of {grouped(now['sources'])}."
        ]
        changed = [each for each in self.cases if each.words_change]
        if self.cases:
            n = len(self.cases)
            cases = "the past case" if n == 1 else f"the {n} past cases"
            said.append(
                f"The words for {cases} are the same."
                if not changed
                else f"The words change in {len(changed)} of {n} past case{'s' * (n > 1)}."
            )
        said += [f"{each.report.name}: before, {_words(each.old)} Now, {_words(each.new)}" for each in changed]
        return said

    def sections(self) -> list[Section]:
        """The tables of the report."""
        before, now = self.old.about, self.new.about
        data = [
            (title, *(_count(about["data"].get(key)) for about in (before, now)))
            for title, key in (("Measurements", "rows"), ("Sources", "sources"), ("Groups of sources", "groups"))
        ]
        head = ("", "old", "new", "change")
        bounds = tuple(
            (title, *(fixed(system.bounds[end]) for system in (self.old, self.new)),
             signed(fixed(self.new.bounds[end] - self.old.bounds[end])))
            for end, title in enumerate(("Least log10 LR to report", "Largest log10 LR to report"))
        )  # fmt: skip
        shown = [
            Section("Background", head[:3], tuple(data)),
            Section("Validation, each on its own background", head, tuple(self._figures())),
            Section("Bounds", head, bounds, "What the validation pairs of each support."),
        ]
        if self.cases:
            how = (
                "log10 LR to report, and as it was calculated, with its 90 % interval. Words are those of the verbal scale of "
                "the report."
            )
            rows = tuple(_case_row(each) for each in self.cases)
            columns = ("report", "words", *head[1:], "old, calculated", "new, calculated")
            shown.append(Section("Past cases, log10 LR", columns, rows, how, names=2))
        return shown

    def _figures(self) -> Iterable[tuple[str, ...]]:
        before, now = (system.about["validation"] for system in (self.old, self.new))
        for key, (title, unit) in FIGURES.items():
            values = [_number(each.get(key)) for each in (before, now)]
            texts = [UNKNOWN if value is None else figure(value, unit) for value in values]
            change = UNKNOWN if None in values else signed(figure(values[1] - values[0], unit))  # type: ignore[operator]
            yield title, *texts, change

    def facts(self) -> list[tuple[str, str]]:
        """What is needed to repeat it."""
        return [
            ("Old system", f"{self.old.file}, {self.old.name}, SHA-256 {self.old.sha256}"),
            ("New system", f"{self.new.file}, {self.new.name}, SHA-256 {self.new.sha256}"),
            *(
                ("Background" if place == 0 else "", described_file(each))
                for place, each in enumerate(self.new.background)
            ),
            (
                "Settings",
                f"those of the old system: seed {self.new.about['seed']}, {self.new.about['bootstrap']} replicates",
            ),
            ("Made", f"{today()}, with lindley {__version__}"),
        ]


def past_cases(reports: Iterable[Path], old: System, new: System) -> tuple[PastCase, ...]:
    """The cases of reports, evaluated by both systems.

    Raises:
        LindleyError: if a report cannot be read.
    """
    found = []
    for report in reports:
        try:
            read = read_report(report)
        except LindleyError as error:
            raise LindleyError(f"{report}: {error}") from error
        record, remarks = read.record, list(read.problems)
        if record.system.sha256 != old.sha256:
            remarks.append("it was made with another system than the old one, which computed its LR again")
        before, now = (_evaluated(record, system) for system in (old, new))
        seen = {
            remark.code for remark in (() if isinstance(now, str) else now.remarks) if remark.code == "seen-in-training"
        } - {remark.code for remark in (() if isinstance(before, str) else before.remarks)}
        if seen:
            remarks.append("its measurements are in the new background, so that the new system has seen the case")
        found.append(PastCase(report, record, before, now, tuple(remarks)))
    return tuple(found)


def write_update(update: Update, page: Path) -> None:
    """The page, and everything in it as JSON of the same name."""
    text = render_page(
        "sections.html",
        language="en",
        kicker="Update of a likelihood ratio system",
        title=f"{update.new.file} in place of {update.old.file}",
        lede=update.conclusions,
        remarks=update.remarks,
        sections=update.sections(),
        listed=update.facts(),
    )
    write_pair(page.parent, (page.name, page.with_suffix(".json").name), text, update_json(update))


def update_json(update: Update) -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "format": FORMAT,
        "conclusions": update.conclusions,
        "remarks": update.remarks,
        **{
            name: {
                "file": system.file,
                "sha256": system.sha256,
                "model": system.name,
                "bounds": list(system.bounds),
                "data": system.about["data"],
                "validation": system.about["validation"],
                "lindley": system.about.get("lindley"),
            }
            for name, system in (("old", update.old), ("new", update.new))
        },
        "cases": [
            {
                "report": each.report.name,
                "reported_with": each.record.system.sha256,
                "words_change": each.words_change,
                "remarks": list(each.remarks),
                "old": _case_json(each.old),
                "new": _case_json(each.new),
            }
            for each in update.cases
        ],
        "made": {"date": today(), "lindley": __version__},
    }


def _evaluated(record: Record, system: System) -> Case | str:
    try:
        return case_of(record, system)
    except LindleyError as error:
        return " ".join(str(error).split())


def _place(verbal: Verbal) -> tuple[int, bool]:
    """On the scale; the first step favours neither proposition."""
    return verbal.step, verbal.favours_same or verbal.step == 0


def _words(case: Case | str) -> str:
    return f"no LR: {case}" if isinstance(case, str) else _sentence(case.verbal.sentence)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _case_row(each: PastCase) -> tuple[str, ...]:
    reported, calculated = [], []
    for case in (each.old, each.new):
        said = None if isinstance(case, str) else case.explanation
        ends = None if said is None else said.interval
        interval = "" if ends is None else f" ({fixed(ends.lower)} … {fixed(ends.upper)})"
        reported.append("no LR" if said is None else fixed(said.log10_lr_bounded))
        calculated.append(UNKNOWN if said is None else f"{fixed(said.log10_lr)}{interval}")
    change = UNKNOWN
    if isinstance(each.old, Case) and isinstance(each.new, Case):
        change = signed(fixed(each.new.explanation.log10_lr_bounded - each.old.explanation.log10_lr_bounded))
    words = "changed" if each.words_change else "the same"
    return shorten(each.report.name), words, *reported, change, *calculated


def _case_json(case: Case | str) -> dict[str, Any]:
    if isinstance(case, str):
        return {"refused": case}
    said = case.explanation
    interval = None if said.interval is None else {"lower": said.interval.lower, "upper": said.interval.upper}
    return {
        "log10_lr": said.log10_lr,
        "log10_lr_bounded": said.log10_lr_bounded,
        "interval": interval,
        "verbal": case.verbal.to_json(),
    }


def _count(value: object) -> str:
    return grouped(value) if isinstance(value, int) else UNKNOWN


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None

"""The report of a case: one HTML file, for the court first, for the expert below, on paper all of it.

Its one script unfolds the details for printing, in browsers that cannot do so by style; the page is whole without it. What
`Case.to_json` says stands in it once more, as data that no browser runs or shows: `lindley verify` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lindley.casework.applicability import CHECKS
from lindley.casework.case import Case
from lindley.pages import case_drawings as drawings, case_figures as figures
from lindley.pages.case_record import with_record
from lindley.pages.case_words import WORDS, calibration_steps, conclusion, decided, verbal_range
from lindley.pages.numerals import UNKNOWN, aligned, capital, fixed, measured, number, percent, ratio_text, with_units
from lindley.pages.page import asset, render_page
from lindley.system.names import ModelName
from lindley.table.table import with_unit
from lindley.version import __version__

__all__ = ["render_case"]

WIDTHS = {"wide": 760.0, "narrow": 350.0}
MOST_COLUMNS = 8
"""Measurements side by side in a table. Of more, the court's shows the mean and the range, and the expert's goes on below."""


def render_case(case: Case) -> str:
    """The page as text."""
    words, said = WORDS[case.language], case.explanation
    scale, sides = figures.scale_figure(case), (case.trace, case.ref)
    transform = _transform(case, words)
    page = render_page(
        "case.html",
        {"first": asset("case.js")},
        language=case.language,
        case=case,
        said=said,
        t=words,
        key=drawings.key_marks(),
        conclusion=conclusion(case),
        identity=_identity(case),
        reported=ratio_text(said.log10_lr_bounded, case.language),
        propositions=[f"{capital(text)}." for text in case.propositions],
        remarks=[remark.in_language(case.language) for remark in case.remarks],
        notes=[note for evidence in sides for note in evidence.notes],
        measured=_measured(case),
        blocks={e.which: _blocks(len(e.items.values)) for e in sides},
        times={e.which: _times(len(e.items.values), words) for e in sides},
        strips=[(strip, drawings.draw_strip(strip, words)) for strip in figures.strips(case)],
        scatters=_scatters(case),
        shares={name: drawings.draw_shares(said.features, words, width) for name, width in WIDTHS.items()},
        scale_figure=scale,
        scale={name: drawings.draw_scale(scale, words, width) for name, width in WIDTHS.items()},
        verbal_range=verbal_range(case),
        decided=decided(case),
        calibration=calibration_steps(case.system),
        transform=transform,
        system_facts=_system_facts(case, transform),
        checks=_checks(case),
        versions=case.versions,
        version=__version__,
        pairs=_pairs(case),
    )
    return with_record(page, case.to_json())


def _identity(case: Case) -> list[tuple[str, str]]:
    """What the case and its items are called, where it is known."""
    words, notes = WORDS[case.language], case.notes

    def item(label: str, number: str | None) -> str:
        return label if number is None else f"{label} ({words['number']} {number})"

    facts = [
        (words["laboratory"], notes.laboratory),
        (words["case"], notes.case),
        (words["trace"], item(case.trace_label, notes.trace_number)),
        (words["ref"], item(case.ref_label, notes.ref_number)),
        (words["examiner"], notes.examiner),
        (words["d_method"], notes.method),
        (words["date"], notes.date),
        (words["system"], case.system.file),
    ]
    return [(name, fact) for name, fact in facts if fact]


def _scatters(case: Case) -> list[Markup]:
    """The whole population, and the neighbourhood of trace and ref where that shows more."""
    figure, words = figures.scatter_figure(case), WORDS[case.language]
    if figure is None:
        return []
    near = [] if figure.near is None else [drawings.draw_scatter(figure, words, figure.near)]
    return [drawings.draw_scatter(figure, words), *near]


@dataclass(frozen=True)
class Measured:
    """The table of measurements that the court sees: a row per feature."""

    columns: tuple[tuple[str, str], ...]  # which side, heading
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    whole: bool  # every measurement is in it


def _measured(case: Case) -> Measured:
    words, sides = WORDS[case.language], [(e.which, e.items.measured) for e in (case.trace, case.ref)]
    whole = sum(len(values) for _, values in sides) <= MOST_COLUMNS
    columns: list[tuple[str, str]] = []
    for which, values in sides:
        headings = map(str, range(1, len(values) + 1)) if whole else (words["mean"], words["range"])
        columns += [(which, heading) for heading in headings]
    rows = []
    for k, feature in enumerate(with_units(case.system.features, case.system.units)):
        cells: list[str] = []
        for _, values in sides:
            column = values[:, k]
            if whole:
                cells += map(measured, column)
            else:
                cells += [measured(column.mean()), f"{measured(column.min())} – {measured(column.max())}"]
        rows.append((feature, aligned(cells) if whole else tuple(cells)))
    if whole and case.system.reference is not None:
        cells = [measured(v) for e in (case.trace, case.ref) if e.items.divisor is not None for v in e.items.divisor]
        rows.append((with_unit(case.system.reference, case.system.reference_unit), aligned(cells)))
    return Measured(tuple(columns), tuple(rows), whole)


def _blocks(rows: int) -> list[range]:
    """Measurements that stand side by side."""
    return [range(start, min(start + MOST_COLUMNS, rows)) for start in range(0, rows, MOST_COLUMNS)]


def _times(count: int, words: dict[str, str]) -> str:
    return words["once"] if count == 1 else words["n_times"].format(n=count)


def _transform(case: Case, words: dict[str, str]) -> str:
    if case.system.transform == "none":
        return words["none"]
    reference = case.system.reference and with_unit(case.system.reference, case.system.reference_unit)
    ratio = f"({words['feature'].lower()} / {reference})" if reference else ""
    return f"{case.system.transform}{ratio}"


def _system_facts(case: Case, transform: str) -> list[tuple[str, str]]:
    about, system, words = case.system.about, case.system, WORDS[case.language]
    data, validation = about["data"], about["validation"]
    rows, sources, name = _count(data.get("rows")), data.get("sources", UNKNOWN), data.get("name", UNKNOWN)
    trained = words["trained_on_text"].format(rows=rows, sources=sources, data=name)
    cllr, least, rest, devpav = (number(validation.get(key)) for key in ("cllr", "cllr_min", "cllr_cal", "devpav"))
    eer, same, different = (percent(validation.get(k)) for k in ("eer", "misleading_same", "misleading_different"))
    made_with = ", ".join(f"{package} {version}" for package, version in sorted(about["versions"].items()))
    lower, upper = map(fixed, system.bounds)
    return [
        (words["system"], f"{case.system.file}, SHA-256 {case.system.sha256}" + _signed(case)),
        (words["model"], f"{system.name}: {ModelName.parse(system.name).words}"),
        (words["features"], f"{len(system.features)}: {', '.join(with_units(system.features, system.units))}"),
        (words["transform"], transform),
        (words["trained_on"], f"{trained}, SHA-256 {data.get('sha256', UNKNOWN)}"),
        (words["created"], f"{about.get('created', UNKNOWN)}; {made_with}"),
        (words["validation"], str(validation.get("how", UNKNOWN))),
        (words["pairs"], words["pairs_text"].format(**_pairs(case))),
        (words["cllr"], words["cllr_text"].format(cllr=cllr, min=least, cal=rest)),
        (words["eer"], eer),
        (words["misleading"], words["misleading_text"].format(same=same, different=different)),
        ("devPAV", devpav),
        (words["bounds"], f"{lower} … {upper}; {words['bounds_how']}"),
        *_mates(case),
    ]


def _mates(case: Case) -> list[tuple[str, str]]:
    """How often different sources are of one group, where the system knows groups."""
    words, mates = WORDS[case.language], case.system.about.get("mates")
    if not isinstance(mates, dict) or not isinstance(mates.get("share"), int | float):
        return []
    share = percent(mates["share"])
    return [(words["mates"], words["mates_text"].format(share=share, setting=mates.get("setting", UNKNOWN)))]


def _checks(case: Case) -> list[tuple[str, str | None]]:
    """Every check, with what it noticed; those that refuse are passed, or there would be no report."""
    said: dict[str, list[str]] = {}
    for remark in case.remarks:
        said.setdefault(remark.code, []).append(remark.in_language(case.language))
    codes = [*CHECKS, *(code for code in said if code not in CHECKS)]
    return [(code, " ".join(said[code]) if code in said else None) for code in codes]


def _pairs(case: Case) -> dict[str, str]:
    validation = case.system.about["validation"]
    return {key: _count(validation.get(f"pairs_{key}")) for key in ("same", "different")}


def _signed(case: Case) -> str:
    key = case.system.about.get("signed_by")
    return WORDS[case.language]["signed"].format(key=key) if key else ""


def _count(value: Any) -> str:
    """A number that a file of a system may not have."""
    return f"{value:,}" if isinstance(value, int) else UNKNOWN

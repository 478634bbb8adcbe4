"""The report of a case: one HTML file, for the court first, for the expert below, on paper all of it.

Its one script unfolds the details for printing, in browsers that cannot do so by style; the page is whole without it. What
`Case.to_json` says stands in it once more, as data that no browser runs or shows: `lindley verify` reads it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup, escape

from lindley.casework.applicability import CHECKS
from lindley.casework.case import Case, Notes
from lindley.pages import case_drawings as drawings, case_figures as figures
from lindley.pages.case_record import with_record
from lindley.pages.case_words import WORDS, calibration_steps, conclusion, decided, translated, verbal_range
from lindley.pages.numerals import (
    UNKNOWN,
    aligned,
    capital,
    fixed,
    grouped,
    measured,
    number,
    percent,
    ratio_text,
    with_units,
)
from lindley.pages.page import asset, own, render_page
from lindley.pages.pdf import page_as_pdf
from lindley.shown import in_marks
from lindley.system.names import ModelName
from lindley.table.table import with_unit

__all__ = ["case_file", "identity", "logo", "page_words", "render_case", "sentences"]

WIDTHS = {"wide": 760.0, "narrow": 350.0}
MOST_COLUMNS = 8
"""Measurements side by side in a table. Of more, the court's shows the mean and the range, and the expert's goes on below."""


def render_case(case: Case) -> str:
    """The page as text."""
    words, said, language = WORDS[case.language], case.explanation, case.language
    scale, sides = figures.scale_figure(case), (case.trace, case.ref)
    transform = _transform(case, words)
    page = render_page(
        "case.html",
        {"first": asset("case.js")},
        language=language,
        case=case,
        system=case.system,
        said=said,
        t=page_words(language),
        key=drawings.key_marks(),
        conclusion=conclusion(case),
        identity=identity(case.notes, language, case.system.file, _items(case)),
        logo=logo(case.notes),
        reported=ratio_text(said.log10_lr_bounded, language),
        propositions=sentences(case.propositions),
        remarks=[remark.in_language(language) for remark in case.remarks],
        urgent=[remark.in_language(language) for remark in case.remarks if remark.code == "uninformative"],
        notes=[note for evidence in sides for note in evidence.notes],
        measured=_measured(case),
        blocks={e.which: _blocks(len(e.items.values)) for e in sides},
        times={e.which: _times(len(e.items.values), words) for e in sides},
        strips=[(strip, drawings.draw_strip(strip, language)) for strip in figures.strips(case)],
        scatters=_scatters(case),
        shares={name: drawings.draw_shares(said.features, language, width) for name, width in WIDTHS.items()},
        scale_figure=scale,
        scale={name: drawings.draw_scale(scale, language, width) for name, width in WIDTHS.items()},
        verbal_range=verbal_range(case),
        decided=decided(case),
        calibration=calibration_steps(case.system, language),
        steps=[(_threshold(step.above, language), step.words[language]) for step in case.scale.steps],
        transform=transform,
        system_facts=_system_facts(case, transform),
        checks=_checks(case),
        versions=case.versions,
        version=case.versions["lindley"],
        pairs=_pairs(case),
    )
    return with_record(page, case.to_json())


def sentences(propositions: tuple[str, str]) -> list[str]:
    """Two propositions, each by itself."""
    return [f"{capital(text)}." for text in propositions]


def case_file(case: Case, ending: str) -> bytes:
    """The report as a file: a page, or a PDF with the page inside it."""
    page = render_case(case)
    return page_as_pdf(page, "report.html") if ending == ".pdf" else page.encode("utf-8")


def page_words(language: str) -> dict[str, Markup]:
    """The words of a language for a template: what is filled in is escaped, unless it is markup of ours."""
    return {name: Markup(text) for name, text in WORDS[language].items()}


def identity(
    notes: Notes, language: str, system: str, items: list[tuple[str, Markup]] | None = None
) -> list[tuple[str, Markup]]:
    """What the laboratory calls a case, and the ``items`` of it, where it is known."""
    words = WORDS[language]
    facts = [
        (words["laboratory"], notes.laboratory),
        (words["case"], notes.case),
        *(items or []),
        (words["examiner"], notes.examiner),
        (words["d_method"], notes.method),
        (words["date"], notes.date),
        (words["system"], system),
    ]
    return [(name, own(fact) if type(fact) is str else Markup(fact)) for name, fact in facts if fact]


def _items(case: Case) -> list[tuple[str, Markup]]:
    """Trace and ref, with their numbers in the laboratory's books."""
    words, notes = WORDS[case.language], case.notes

    def item(label: str, number: str | None) -> Markup:
        return own(label) if number is None else Markup("{} ({} {})").format(own(label), words["number"], own(number))

    return [
        (words["trace"], item(case.trace_label, notes.trace_number)),
        (words["ref"], item(case.ref_label, notes.ref_number)),
    ]


def logo(notes: Notes) -> str:
    """The laboratory's logo as the address of a picture inside the page; empty if there is none."""
    return "" if notes.logo is None else f"data:image/png;base64,{base64.b64encode(notes.logo.png).decode('ascii')}"


def _threshold(above: float, language: str) -> str:
    """The LR at which a step of a verbal scale begins."""
    return in_marks(f"{above:,.6g}" if above < 1e6 else f"{above:,.0f}", language)


def _said(text: str, language: str) -> Markup:
    """What another part of lindley says, in the language of the page; or as it is, marked as English."""
    found = translated(text, language)
    return Markup('<span lang="en">{}</span>').format(text) if found is None else escape(found)


def _scatters(case: Case) -> list[Markup]:
    """The whole population, and the neighbourhood of trace and ref where that shows more."""
    figure = figures.scatter_figure(case)
    if figure is None:
        return []
    near = [] if figure.near is None else [drawings.draw_scatter(figure, case.language, figure.near)]
    return [drawings.draw_scatter(figure, case.language), *near]


@dataclass(frozen=True)
class Measured:
    """The table of measurements that the court sees: a row per feature."""

    columns: tuple[tuple[str, str], ...]  # which side, heading
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    whole: bool  # every measurement is in it


def _measured(case: Case) -> Measured:
    words, sides = WORDS[case.language], [(e.which, e.items.measured) for e in (case.trace, case.ref)]
    shown, in_line = partial(measured, language=case.language), partial(aligned, language=case.language)
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
                cells += map(shown, column)
            else:
                cells += [shown(column.mean()), f"{shown(column.min())} – {shown(column.max())}"]
        rows.append((feature, in_line(cells) if whole else tuple(cells)))
    if whole and case.system.reference is not None:
        cells = [shown(v) for e in (case.trace, case.ref) if e.items.divisor is not None for v in e.items.divisor]
        rows.append((with_unit(case.system.reference, case.system.reference_unit), in_line(cells)))
    return Measured(tuple(columns), tuple(rows), whole)


def _blocks(rows: int) -> list[range]:
    """Measurements that stand side by side."""
    return [range(start, min(start + MOST_COLUMNS, rows)) for start in range(0, rows, MOST_COLUMNS)]


def _times(count: int, words: dict[str, str]) -> str:
    return words["once"] if count == 1 else words["n_times"].format(n=count)


def _transform(case: Case, words: dict[str, str]) -> Markup:
    if case.system.transform == "none":
        return escape(words["none"])
    transform = own(case.system.transform)
    if not case.system.reference:
        return transform
    reference = own(with_unit(case.system.reference, case.system.reference_unit))
    return Markup("{}({} / {})").format(transform, words["feature"].lower(), reference)


def _system_facts(case: Case, transform: Markup) -> list[tuple[str, Markup | str]]:
    about, system, language = case.system.about, case.system, case.language
    words, data, validation = page_words(language), about["data"], about["validation"]
    figures_of, shares_of = (
        ("cllr", "cllr_min", "cllr_cal", "devpav"),
        ("eer", "misleading_same", "misleading_different"),
    )
    cllr, least, rest, devpav = (number(validation.get(key), language=language) for key in figures_of)
    eer, same, different = (percent(validation.get(key), language=language) for key in shares_of)
    trained = words["trained_on_text"].format(
        rows=_count(data.get("rows"), language),
        sources=_count(data.get("sources"), language),
        data=own(data.get("name", UNKNOWN)),
    )
    name = ModelName.parse(system.name)
    described = Markup("; ").join(_said(part, language) for part in name.parts)
    made_with = ", ".join(f"{package} {version}" for package, version in sorted(about["versions"].items()))
    lower, upper = (fixed(bound, language=language) for bound in system.bounds)
    return [
        (words["system"], own(f"{system.file}, SHA-256 {system.sha256}") + _signed(case)),
        (words["model"], Markup("{}: {}").format(own(system.name), described)),
        (
            words["features"],
            Markup("{}: {}").format(len(system.features), own(", ".join(with_units(system.features, system.units)))),
        ),
        (words["transform"], transform),
        (words["trained_on"], Markup("{}, {}").format(trained, own(f"SHA-256 {data.get('sha256', UNKNOWN)}"))),
        (words["created"], own(f"{about.get('created', UNKNOWN)}; {made_with}")),
        (words["validation"], _said(str(validation.get("how", UNKNOWN)), language)),
        (words["pairs"], words["pairs_text"].format(**_pairs(case))),
        (words["cllr"], words["cllr_text"].format(cllr=cllr, min=least, cal=rest)),
        (words["eer"], eer),
        (words["misleading"], words["misleading_text"].format(same=same, different=different)),
        ("devPAV", devpav),
        (words["bounds"], Markup("{} … {}; {}").format(lower, upper, words["bounds_how"])),
        *_mates(case),
    ]


def _mates(case: Case) -> list[tuple[str, Markup | str]]:
    """How often different sources are of one group, where the system knows groups."""
    words, mates = page_words(case.language), case.system.about.get("mates")
    if not isinstance(mates, dict) or not isinstance(mates.get("share"), int | float):
        return []
    share = percent(mates["share"], language=case.language)
    return [(words["mates"], words["mates_text"].format(share=share, setting=own(mates.get("setting", UNKNOWN))))]


def _checks(case: Case) -> list[tuple[str, str | None]]:
    """Every check, with what it noticed; those that refuse are passed, or there would be no report."""
    said: dict[str, list[str]] = {}
    for remark in case.remarks:
        said.setdefault(remark.code, []).append(remark.in_language(case.language))
    codes = [*CHECKS, *(code for code in said if code not in CHECKS)]
    return [(code, " ".join(said[code]) if code in said else None) for code in codes]


def _pairs(case: Case) -> dict[str, str]:
    validation = case.system.about["validation"]
    return {key: _count(validation.get(f"pairs_{key}"), case.language) for key in ("same", "different")}


def _signed(case: Case) -> Markup:
    key = case.system.about.get("signed_by")
    return page_words(case.language)["signed"].format(key=own(key)) if key else Markup("")


def _count(value: Any, language: str) -> str:
    """A number that a file of a system may not have."""
    return grouped(value, language=language) if isinstance(value, int) else UNKNOWN

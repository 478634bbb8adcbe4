"""One HTML file that holds a whole case: for the court first, for the expert below, on paper all of it.

Nothing is fetched, and the page's own policy forbids it. The one script, known by its hash, unfolds the details for printing in
browsers that cannot do so by style; the page is whole without it. Names come from users' tables and are escaped by jinja2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from platform import python_version
from typing import Any

from markupsafe import Markup

from lindley.casework.applicability import CHECKS
from lindley.casework.case import Case, Evidence
from lindley.experiment.plan import versions
from lindley.pages import case_drawings as drawings
from lindley.pages import case_figures as figures
from lindley.pages.case_words import WORDS, conclusion, ratio_text, verbal_range
from lindley.pages.palette import number, plain
from lindley.pages.templates import asset, template
from lindley.system.names import BASES, CALIBRATION_NAMES, ModelName
from lindley.table.export import write_atomically
from lindley.version import __version__

__all__ = ["render_case", "write_case"]

WIDTHS = {"wide": 760.0, "narrow": 350.0}
MOST_COLUMNS = 8
"""Measurements side by side in a table. Of more, the court's shows the mean and the range, and the expert's goes on below."""


def write_case(case: Case, path: Path) -> None:
    """Write the report of a case in one step."""
    write_atomically(path, render_case(case).encode("utf-8"))


def render_case(case: Case) -> str:
    """The page as text."""
    words, said = WORDS[case.language], case.explanation
    script = asset("lindley.pages", "case.js")
    scale = figures.scale_figure(case)
    shares = figures.share_rows(case)
    page = template(
        "lindley.pages", "case.html", plain=plain, number=number, signed=_signed, value=_value, capital=_capital
    )
    return page.render(
        case=case,
        said=said,
        t=words,
        conclusion=conclusion(case),
        reported=ratio_text(said.log10_lr_bounded, case.language),
        propositions=[_sentence(text) for text in case.scale.propositions[case.language]],
        remarks=[remark.in_language(case.language) for remark in case.remarks],
        notes=[str(f) for e in (case.trace, case.ref) for f in e.items.findings if f.level == "note"],
        measured=_measured(case),
        blocks={e.which: _blocks(len(e.items.values)) for e in (case.trace, case.ref)},
        times={e.which: _times(e, words) for e in (case.trace, case.ref)},
        strips=[(strip, drawings.draw_strip(strip, words)) for strip in figures.strips(case)],
        scatters=_scatters(case),
        shares={name: drawings.draw_shares(shares, words, width) for name, width in WIDTHS.items()},
        scale_figure=scale,
        scale={name: drawings.draw_scale(scale, words, width) for name, width in WIDTHS.items()},
        verbal_range=verbal_range(case),
        calibration=", ".join(CALIBRATION_NAMES[step] for step in ModelName.parse(case.system.name).calibrations),
        transform=_transform(case, words),
        facts=_system_facts(case),
        checks=_checks(case),
        versions={"lindley": __version__, "Python": python_version(), **versions()},
        version=__version__,
        pairs=_pairs(case),
        style=Markup(asset("lindley.pages", "style.css") + asset("lindley.pages", "case.css")),
        script=Markup(script),
        policy=_policy(script),
    )


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
    sides = [(e.which, e.items.measured) for e in (case.trace, case.ref)]
    whole = sum(len(values) for _, values in sides) <= MOST_COLUMNS
    words = WORDS[case.language]
    columns: list[tuple[str, str]] = []
    for which, values in sides:
        columns += (
            [(which, str(i + 1)) for i in range(len(values))]
            if whole
            else [(which, words["mean"]), (which, words["range"])]
        )
    rows = []
    for k, (feature, unit) in enumerate(zip(case.system.features, case.system.units, strict=True)):
        cells: list[str] = []
        for _, values in sides:
            column = values[:, k]
            if whole:
                cells += [_value(v) for v in column]
            else:
                cells += [_value(column.mean()), f"{_value(column.min())} – {_value(column.max())}"]
        rows.append((f"{feature} [{unit}]" if unit else feature, _aligned(cells) if whole else tuple(cells)))
    if whole and case.system.reference is not None:
        cells = [_value(v) for e in (case.trace, case.ref) if e.items.divisor is not None for v in e.items.divisor]
        rows.append((case.system.reference, _aligned(cells)))
    return Measured(tuple(columns), tuple(rows), whole)


def _blocks(rows: int) -> list[range]:
    """Measurements that stand side by side."""
    return [range(start, min(start + MOST_COLUMNS, rows)) for start in range(0, rows, MOST_COLUMNS)]


def _times(evidence: Evidence, words: dict[str, str]) -> str:
    n = len(evidence.items.values)
    return words["once"] if n == 1 else words["n_times"].format(n=n)


def _transform(case: Case, words: dict[str, str]) -> str:
    if case.system.transform == "none":
        return words["none"]
    ratio = f"({words['feature'].lower()} / {case.system.reference})" if case.system.reference else ""
    return f"{case.system.transform}{ratio}"


def _system_facts(case: Case) -> list[tuple[str, str]]:
    about, system, words = case.file.about, case.system, WORDS[case.language]
    data, validation = about["data"], about["validation"]
    name = ModelName.parse(system.name)
    described = "; ".join([BASES.get(name.base, name.base), *(CALIBRATION_NAMES[step] for step in name.calibrations)])
    features = ", ".join(f"{f} [{u}]" if u else f for f, u in zip(system.features, system.units, strict=True))
    get = partial(_figure, validation)
    share = partial(_share, validation)
    trained = words["trained_on_text"].format(
        rows=_count(data), sources=data.get("sources", "–"), data=data.get("name", "–")
    )
    return [
        (words["system"], f"{case.file.name}, SHA-256 {case.file.sha256}"),
        (words["model"], f"{system.name}: {described}"),
        (words["features"], f"{len(system.features)}: {features}"),
        (words["transform"], _transform(case, words)),
        (words["trained_on"], f"{trained}, SHA-256 {data.get('sha256', '–')}"),
        (words["created"], f"{about.get('created', '–')}; {_listed(about['versions'])}"),
        (words["validation"], f"{validation.get('how', '–')}. {words['validation_how']}"),
        (
            words["pairs"],
            words["pairs_text"].format(**_pairs(case)),
        ),
        (words["cllr"], words["cllr_text"].format(cllr=get("cllr"), min=get("cllr_min"), cal=get("cllr_cal"))),
        (words["eer"], share("eer")),
        (
            words["misleading"],
            words["misleading_text"].format(same=share("misleading_same"), different=share("misleading_different")),
        ),
        ("devPAV", get("devpav")),
        (words["bounds"], f"{_signed(system.bounds[0])} … {_signed(system.bounds[1])}; {words['bounds_how']}"),
    ]


def _checks(case: Case) -> list[tuple[str, str | None]]:
    """Every check, with what it noticed; those that refuse are passed, or there would be no report."""
    said: dict[str, list[str]] = {}
    for remark in case.remarks:
        said.setdefault(remark.code, []).append(remark.in_language(case.language))
    codes = [*CHECKS, *(code for code in said if code not in CHECKS)]
    return [(code, " ".join(said[code]) if code in said else None) for code in codes]


def _pairs(case: Case) -> dict[str, str]:
    found = {key: case.file.about["validation"].get(f"pairs_{key}") for key in ("same", "different")}
    return {key: f"{n:,}" if isinstance(n, int) else "–" for key, n in found.items()}


def _figure(validation: dict[str, Any], key: str) -> str:
    return "–" if validation.get(key) is None else number(validation[key])


def _share(validation: dict[str, Any], key: str) -> str:
    return "–" if validation.get(key) is None else f"{100 * validation[key]:.2g} %"


def _listed(numbers: dict[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items()))


def _count(data: dict[str, Any]) -> str:
    return f"{data['rows']:,}" if isinstance(data.get("rows"), int) else "–"


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _value(value: float) -> str:
    """A measurement as it is in the file, up to six digits."""
    return f"{float(value):.6g}".replace("-", "−")


def _aligned(cells: Sequence[str]) -> tuple[str, ...]:
    """With equally many decimals, so that points stand under each other."""
    if any("e" in cell for cell in cells):
        return tuple(cells)
    split = [cell.partition(".") for cell in cells]
    decimals = max(len(part) for _, _, part in split)
    return tuple(f"{whole}.{part:0<{decimals}}" if decimals else whole for whole, _, part in split)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    return f"{_capital(text)}."


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )

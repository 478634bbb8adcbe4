"""Several systems on the same data: sentences, tables and facts, for a page without scripts, for JSON and for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lindley.casework.comparison import COMPARED, Compared, Comparison
from lindley.casework.performance import KINDS, Kind
from lindley.casework.validation import Overlap
from lindley.evaluation.bootstrap import LEVEL, Estimate
from lindley.pages.numerals import UNKNOWN, figure, grouped, shorten, signed, times
from lindley.pages.page import render_page
from lindley.pages.validation_page import METRICS, estimate_json, table_json, write_pair
from lindley.system.provenance import today, versions
from lindley.version import __version__

__all__ = ["Section", "comparison_json", "conclusions", "sections", "write_comparison"]

FORMAT = "lindley-comparison/1"
FILES = ("comparison.html", "comparison.json")
TITLES: dict[Kind, str] = {"bounded": "Bounded LRs, as cases report them", "raw": "Raw LRs, as they are calculated"}


@dataclass(frozen=True)
class Section:
    """A table of a page or of a terminal; its first ``names`` columns are words, the others figures."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    how: str = ""
    names: int = 1


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """The page, comparison.html, and everything in it as comparison.json."""
    page = render_page(
        "sections.html",
        language="en",
        kicker="Comparison of likelihood ratio systems",
        title=f"{len(comparison.systems)} systems on {comparison.table.name}",
        lede=conclusions(comparison),
        remarks=[_sentence(remark) for remark in comparison.remarks],
        sections=sections(comparison),
        listed=facts(comparison),
    )
    write_pair(folder, FILES, page, comparison_json(comparison))


def conclusions(comparison: Comparison) -> list[str]:
    """What the comparison says, a sentence for each system but the first."""
    first, *others = comparison.systems
    said = []
    for other in others:
        found = other.differences[COMPARED[0]]["bounded"]
        assert found is not None
        less = f"the Cllr of the one less that of the other is {_with_interval(found, 'bits', sign=True)}"
        judged = {
            None: f"These data do not tell {other.name} and {first.name} apart",
            True: f"{other.name} did better than {first.name} on these data",
            False: f"{other.name} did worse than {first.name} on these data",
        }[other.better]
        said.append(f"{judged}: {less}, of reported LRs, with its 95 % interval.")
    return said


def sections(comparison: Comparison) -> list[Section]:
    """The figures of all systems and their differences from the first, of the bounded and of the raw LRs."""
    first = comparison.systems[0]
    shown: list[Section] = []
    for kind in reversed(KINDS):
        rows = []
        for key in COMPARED:
            metric = METRICS[key]
            for number, each in enumerate(comparison.systems):
                value = _with_interval(each.figures[key][kind], metric.unit)
                less = UNKNOWN
                if number and (found := each.differences[key][kind]) is not None:
                    less = _with_interval(found, metric.unit, sign=True)
                elif number:
                    less = "the same pairs of both" if each.figures[key][kind].value else "no such pair of either"
                rows.append((metric.title if number == 0 else "", _short(each), value, less))
        how = "In bits or per cent, with 95 % intervals. A difference below 0 is an improvement on the first system."
        head = ("figure", "system", "value", f"less {_short(first)}")
        shown.append(Section(TITLES[kind], head, tuple(rows), how, names=2))
    return shown


def _short(each: Compared) -> str:
    """Its name in a table: that of its file without the ending, which all have."""
    return shorten(each.name.replace(".safetensors", ""))


def _with_interval(estimate: Estimate, unit: str, *, sign: bool = False) -> str:
    value, lower, upper = (figure(each, unit) for each in (estimate.value, estimate.lower, estimate.upper))
    if sign:
        value, lower, upper = map(signed, (value, lower, upper))
    return f"{value} ({lower} to {upper})"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def facts(comparison: Comparison) -> list[tuple[str, str]]:
    """What is needed to repeat it, in the order of a table."""
    settings, n = comparison.settings, len(comparison.sources)
    pairs = f"{grouped(n)} same-source and {grouped(n * (n - 1))} different-source pairs, the same of every system"
    table = comparison.table
    systems = [(each.name, _system(each)) for each in comparison.systems]
    return [
        *systems,
        ("Table", f"{table.name}: {len(table.values)} measurements of {len(table.sources)} sources"),
        *(("", f"{name}, SHA-256 {digest}") for name, digest in table.files),
        ("Comparison", f"{times(settings.instances)} measurements, {n} sources: {pairs}"),
        (
            "Intervals",
            f"{LEVEL:.0%}, bootstrap over sources (or groups of them), {settings.replicates} replicates, paired",
        ),
        ("Draws", f"seed {settings.seed}"),
        ("Made", f"{today()}, with " + ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]


def _system(each: Compared) -> str:
    lower, upper = (figure(bound, "log10") for bound in each.system.bounds)
    seen = f"; {each.overlap}" if each.overlap.rows else ""
    return f"{each.system.name}, log10 LR from {lower} to {upper}, SHA-256 {each.system.sha256}{seen}"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Everything, as plain values; null stands for an infinite end of an interval, or for no figure."""
    return {
        "format": FORMAT,
        "conclusions": conclusions(comparison),
        "systems": [_compared_json(each) for each in comparison.systems],
        "remarks": list(comparison.remarks),
        "settings": {**asdict(comparison.settings), "interval": LEVEL},
        "sources": len(comparison.sources),
        "data": table_json(comparison.table),
        "made": {"date": today(), "lindley": __version__, "versions": versions()},
    }


def _compared_json(each: Compared) -> dict[str, Any]:
    def by_name(found: Mapping[tuple[str, str], Mapping[Kind, Estimate | None]]) -> dict[str, Any]:
        return {
            (metric if characteristic != "misleading_evidence" else f"misleading_{metric}"): {
                kind: estimate_json(estimate) for kind, estimate in pair.items()
            }
            for (characteristic, metric), pair in found.items()
        }

    overlap: Overlap = each.overlap
    return {
        "name": each.name,
        "file": each.system.file,
        "sha256": each.system.sha256,
        "model": each.system.name,
        "features": list(each.system.features),
        "bounds": list(each.system.bounds),
        "overlap": asdict(overlap),
        "figures": by_name({key: dict(pair) for key, pair in each.figures.items()}),
        "less_the_first": by_name(each.differences) if each.differences else None,
        "better": each.better if each.differences else None,
    }

"""What tables of figures are made of: columns of devices and machines, rows side by side, numbers with three digits.

Machines are named A, B, …; a column is a device of a machine. What was not measured is a dash, and what was left out is told
below its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

__all__ = [
    "DASH",
    "GIB",
    "MIB",
    "SECTIONS",
    "Column",
    "Result",
    "Table",
    "columns",
    "count",
    "duration",
    "loads",
    "merged",
    "of_rows",
    "sections",
    "short",
    "side_by_side",
    "times",
]

Result = dict[str, Any]
MIB, GIB = 2**20, 2**30
DASH = "–"
IDENTITY = ("cpu", "cores", "threads", "gpu", "numpy", "lindley")
"""Files that agree in these, and in the version of torch, are of one machine."""
SECTIONS = ("training", "scoring", "lir", "memory", "growth", "units", "cases", "train", "large", "paper", "curves")


@dataclass(frozen=True)
class Table:
    """A table and what is to be said below it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def plain(self) -> str:
        """For a terminal: the first column to the left, the others to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.header))]
        texts = [
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *(f"  {text}" for text in texts), *(f"  {note}" for note in self.notes)])

    def markdown(self) -> str:
        """For the documentation; the title is that of the page's section."""
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{table}\n\n{notes}" if notes else table


@dataclass(frozen=True)
class Column:
    """A device of a machine."""

    label: str
    result: Result
    device: str

    def rows(self, section: str) -> list[dict[str, Any]]:
        """Of this device, in a section that was measured."""
        found = self.result.get(section, {})
        rows: list[dict[str, Any]] = found.get("series" if section == "growth" else "rows", [])
        return [row for row in rows if row["device"] == self.device]


def merged(results: Sequence[Result]) -> list[Result]:
    """Files of one machine as one, machines without a GPU first; what a later file has measured again counts."""
    together: dict[str, Result] = {}
    for result in results:
        machine = result["machine"]
        key = repr([machine[name] for name in IDENTITY] + [machine["torch"].partition("+")[0]])
        together[key] = _joined(together[key], result) if key in together else result
    return sorted(together.values(), key=lambda result: result["machine"]["gpu"] is not None)


def _joined(old: Result, new: Result) -> Result:
    """Two files of one machine: sections of both, and of a section in both the rows of all devices."""
    result = {**old, **new}
    result["files"] = [*old["files"], *new["files"]]
    result["loads"] = [*loads(old), *loads(new)]
    versions = {
        name: ", ".join(dict.fromkeys([*old["machine"][name].split(", "), new["machine"][name]]))
        for name in ("python", "torch")
    }
    result["machine"] = {**new["machine"], **versions}  # LiR wants another Python
    result["devices"] = list(dict.fromkeys([*old["devices"], *new["devices"]]))
    for name in SECTIONS:
        if name in old and name in new:
            result[name] = {**old[name], **new[name]}
            for part in ("rows", "series"):
                if part in old[name] and part in new[name]:
                    again = {row.get("device") for row in new[name][part]}
                    kept = [row for row in old[name][part] if row.get("device") not in again]
                    result[name][part] = [*kept, *new[name][part]]
            if "differences" in result[name]:
                result[name]["differences"] = {**old[name]["differences"], **new[name]["differences"]}
    return result


def loads(result: Result) -> list[float]:
    """Of every file of a machine that tells it."""
    alone = [] if result["machine"]["load"] is None else [result["machine"]["load"]]
    return list(result.get("loads", alone))


def columns(results: Sequence[Result], section: str) -> list[Column]:
    """The devices of all machines that have figures of a section."""
    found = []
    for letter, result in zip(ascii_uppercase, results, strict=False):
        name = f"{letter}, " if len(results) > 1 else ""
        machine = result["machine"]
        if "cpu" in result["devices"]:
            found.append(Column(f"{name}{count(machine['threads'], 'thread')}", result, "cpu"))
        if "cuda" in result["devices"] and machine["gpu"] is not None:
            found.append(Column(f"{name}{machine['gpu']['name']}", result, "cuda"))
    return [place for place in found if place.rows(section)]


def of_rows(
    results: Sequence[Result], section: str, what: str, label: Callable[[Any], str], cells: Callable[[Any], list[str]]
) -> tuple[list[Column], list[list[str]], list[str]]:
    """The rows of a kind, as the columns of every device side by side; and what was left out, or is not there."""
    places = [p for p in columns(results, section) if any(row["what"] == what for row in p.rows(section))]
    found = {p.label: {label(row): row for row in p.rows(section) if row["what"] == what} for p in places}
    width = max(
        (len(cells(row)) for rows in found.values() for row in rows.values() if "left_out" not in row), default=0
    )
    lines = []
    notes = [f"{letter}{s['left_out']}" for letter, s in sections(results, section) if "left_out" in s]
    for key in dict.fromkeys(key for rows in found.values() for key in rows):
        line = [key]
        for place in places:
            row = found[place.label].get(key)
            if row is not None and "left_out" in row:
                notes.append(f"left out: {key} on {place.label}: {row['left_out']}")
            line += [DASH] * width if row is None or "left_out" in row else cells(row)
        lines.append(line)
    return places, lines, list(dict.fromkeys(notes))


def side_by_side(first: str, places: Sequence[Column], names: Sequence[str]) -> list[str]:
    """The header of such columns; the first of a device names it."""
    return [first, *(f"{p.label}: {name}" if k == 0 else name for p in places for k, name in enumerate(names))]


def sections(results: Sequence[Result], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A section of every machine that has it, behind the machine's name."""
    for letter, result in zip(ascii_uppercase, results, strict=False):
        if name in result:
            yield f"{letter}: " if len(results) > 1 else "", result[name]


def short(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3, 123, 12,300."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:#.3g}"


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{short(seconds / factor)} {unit}"
    return f"{short(seconds / 1e-9)} ns"


def times(ratio: float | None) -> str:
    return DASH if ratio is None else short(ratio)


def count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"

"""Tables of units, cases and very many pairs: what is done with whole systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.layout import DASH, MIB, Result, Table, duration, of_rows, sections, short, side_by_side, times

__all__ = ["cases", "large", "large_fit", "train", "unit_costs", "unit_splits"]


def unit_costs(results: Sequence[Result]) -> Table:
    """Time and memory of thousands of units."""

    def cells(row: Any) -> list[str]:
        memory = [DASH if row[key] is None else short(row[key] / MIB) for key in ("memory_early", "memory")]
        return [f"{row['units']:,}", duration(row["itself"]), _signed(row["cost"]), " → ".join(memory)]

    places, rows, notes = of_rows(results, "units", "cost", lambda row: row["way"], cells)
    names = ("units", "a unit by itself", "what it costs beside", "MiB, after a quarter → at the end")
    return Table("What a unit costs", side_by_side("", places, names), rows, notes)


def _signed(seconds: float) -> str:
    """Other work on a machine can make a run cost less than its units by themselves: then it is told."""
    return duration(seconds) if seconds >= 0 else f"−{duration(-seconds)}"


def unit_splits(results: Sequence[Result]) -> Table:
    """One process, and several."""

    def cells(row: Any) -> list[str]:
        return [duration(row["seconds"]), times(row["times_faster"]), short(row["best_possible"])]

    places, rows, notes = of_rows(results, "units", "splits", lambda row: row["way"], cells)
    for letter, section in sections(results, "units"):
        for row in [row for row in section["rows"] if row["what"] == "splits"][:1]:
            notes.append(
                f"{letter}{row['units']} splits of {row['sources']} sources, a unit each; each process has one thread"
            )
    names = ("seconds", "× one", "at best")
    return Table("Splits of `robust`, by processes", side_by_side("", places, names), rows, notes)


def cases(results: Sequence[Result]) -> Table:
    """Commands, and LRs in Python."""

    def label(row: Any) -> str:
        if row["what"] == "command":
            return f"{row['way']}, from a cold shell"
        return f"`system.llr`, `{row['model']}`, {row['instances'][0]} × {row['instances'][1]} measurements"

    lines: list[list[str]] = []
    notes: list[str] = []
    for what in ("command", "llr"):
        places, rows, left_out = of_rows(
            results, "cases", what, label, lambda row: [duration(row["median"]), duration(row["best"])]
        )
        lines, notes = [*lines, *rows], list(dict.fromkeys([*notes, *left_out]))
    for letter, section in sections(results, "cases"):
        if section["rows"]:
            notes.append(f"{letter}systems of {section['sources']} sources and {section['features']} features")
    return Table("Cases", side_by_side("", places, ("median", "best")), lines, notes)


def large(results: Sequence[Result]) -> Table:
    """All pairs by every kind of model."""

    def cells(row: Any) -> list[str]:
        about = "" if row["pairs"] == row["items"] ** 2 else "≈ "
        return [f"{row['pairs']:,}", f"{about}{duration(row['whole'])}", short(row["highest"] / MIB)]

    places, rows, notes = of_rows(results, "large", "pairs", lambda row: f"`{row['model']}`", cells)
    for letter, section in sections(results, "large"):
        row = next(row for row in section["rows"] if row["what"] == "pairs")
        notes.append(f"{letter}{row['items']:,} × {row['items']:,} pairs, {row['features']} features; ≈ by proportion")
    return Table("Very many pairs", side_by_side("", places, ("pairs", "all of them", "highest, MiB")), rows, notes)


def large_fit(results: Sequence[Result]) -> Table:
    """The fit of robust on a large table."""

    def label(row: Any) -> str:
        return f"fit of `{row['model']}`, {row['items']:,} sources × {row['features']} features"

    def cells(row: Any) -> list[str]:
        size = short(row["table"] / MIB)
        return [duration(row["seconds"]), duration(row["processor_seconds"]), size, short(row["highest"] / MIB)]

    places, rows, notes = of_rows(results, "large", "fit", label, cells)
    names = ("seconds", "of a processor", "table, MiB", "highest above it, MiB")
    return Table("A large fit", side_by_side("", places, names), rows, notes)


def train(results: Sequence[Result]) -> Table:
    """Whole trainings by kind and size, and what they may take."""

    def label(row: Any) -> str:
        return f"`{row['model']}`, {row['sources']:,} sources × {row['instances']} × {row['features']}"

    def cells(row: Any) -> list[str]:
        sizes = row["table"], row["highest"], row["promised"]
        return [duration(row["seconds"]), duration(row["processor_seconds"]), *(short(size / MIB) for size in sizes)]

    places, rows, notes = of_rows(results, "train", "train", label, cells)
    names = ("seconds", "of a processor", "table, MiB", "process at most, MiB", "promised, MiB")
    return Table("Whole trainings", side_by_side("", places, names), rows, notes)

"""Before and after: what two versions of lindley took on the same kind of machine, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from bench.layout import DASH, MIB, Column, Result, Table, columns, duration, short
from bench.tables import WAYS, describe_case, describe_line

__all__ = ["before_and_after", "changes"]

COMPARED = ("training", "paper", "scoring", "memory", "growth")
Figure = tuple[float, bool]
"""A number, and whether more of it is better."""


def before_and_after(results: Sequence[Result]) -> list[tuple[Column, Column]]:
    """Devices of the same kind of machine that were measured with an earlier version of lindley, and with the latest."""
    places = {place.label: place for section in COMPARED for place in columns(results, section)}
    kinds: dict[str, list[Column]] = {}
    for place in places.values():
        machine = place.result["machine"]
        gpu = None if machine["gpu"] is None else machine["gpu"]["name"]
        threads = machine["threads"] if place.device == "cpu" else None
        kinds.setdefault(repr([machine["cpu"], machine["cores"], gpu, place.device, threads]), []).append(place)
    pairs = []
    for same in kinds.values():
        by_version = sorted(same, key=lambda place: _number(place.result["machine"]["lindley"]))
        first, last = by_version[0], by_version[-1]
        if first.result["machine"]["lindley"] != last.result["machine"]["lindley"] and _shared(first, last):
            pairs.append((first, last))
    return pairs


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _shared(before: Column, after: Column) -> list[str]:
    later = _figures(after)
    return [name for name in _figures(before) if name in later]


def _figures(place: Column) -> dict[str, Figure]:
    """What can be set beside what another version gave, by what it is of."""
    found: dict[str, Figure] = {}
    for row in place.rows("training"):
        found[f"an epoch of all runs: {WAYS[row['way']]}"] = row["median"], False
    for row in place.rows("paper"):
        found[f"training, `{row['model']}`"] = row["seconds"], False
    for row in place.rows("scoring"):
        if "median" in row:
            where = ", stays there" if row["way"] == "stays" else ""
            found[f"million pairs/s, `{row['model']}`{where}"] = row["median"] / 1e6, True
    for row in place.rows("memory"):
        if "highest" in row:
            found[f"MiB, {describe_case(row)}"] = row["highest"] / MIB, False
    for line in place.rows("growth"):
        for point in line["points"][-1:]:  # the largest: the page has all of them further down
            found[f"{describe_line(line)}, {point['size']:,} {line['along']}"] = point["best"], False
    return found


def changes(results: Sequence[Result]) -> Table:
    """Before and after, side by side, of every device that was measured with two versions."""
    pairs = before_and_after(results)
    both = [(_figures(before), _figures(after)) for before, after in pairs]
    names = list(dict.fromkeys(name for before, after in pairs for name in _shared(before, after)))
    rows = []
    for name in names:
        line = [name]
        for before, after in both:
            if name not in before or name not in after:
                line += [DASH, DASH, DASH]
                continue
            (old, more_is_better), (new, _) = before[name], after[name]
            told = short if more_is_better or name.startswith("MiB") else duration
            line += [told(old), told(new), short(new / old if more_is_better else old / new)]
        rows.append(line)
    header = [""]
    for before, after in pairs:
        version = [place.result["machine"]["lindley"] for place in (before, after)]
        header += [f"{before.label}: {version[0]}", f"{after.label}: {version[1]}", "× better"]
    return Table("Before and after", header, rows)

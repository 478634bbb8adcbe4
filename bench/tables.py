"""The figures of one or more machines as tables, for a terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import Any

from bench import tables_of_work
from bench.layout import (
    DASH,
    GIB,
    MIB,
    SECTIONS,
    Column,
    Result,
    Table,
    columns,
    count,
    duration,
    loads,
    sections,
    short,
    times,
)

__all__ = ["MAKERS", "WAYS", "describe_case", "describe_line", "make"]

WAYS = {
    "loop": "plain loop, run by run",
    "one": "lindley, run by run",
    "all": "lindley, all runs at once",
    "double": "the same, double precision",
}


def _machines(results: Sequence[Result]) -> Table:
    facts: dict[str, Callable[[Result], str]] = {
        "processor": lambda r: r["machine"]["cpu"],
        "cores": lambda r: str(r["machine"]["cores"]),
        "threads": lambda r: str(r["machine"]["threads"]),
        "memory": lambda r: _gib(r["machine"]["bytes"]),
        "GPU": lambda r: _gpu(r["machine"]["gpu"]),
        "lindley": lambda r: r["machine"]["lindley"],
        "torch": lambda r: r["machine"]["torch"],
        "NumPy": lambda r: r["machine"]["numpy"],
        "Python": lambda r: r["machine"]["python"],
        "load": lambda r: ", ".join(f"{load:.1f}" for load in loads(r)) or DASH,
        "date": lambda r: r["date"],
        "figures": lambda r: ", ".join(r["files"]) or DASH,
    }
    rows = [[name, *(fact(result) for result in results)] for name, fact in facts.items()]
    return Table("Machines", ["machine", *ascii_uppercase[: len(results)]], rows)


def _gpu(gpu: dict[str, Any] | None) -> str:
    return DASH if gpu is None else f"{gpu['name']}, {_gib(gpu['bytes'])}"


def _gib(size: int | None) -> str:
    return DASH if size is None else f"{size / GIB:.0f} GiB"


def _training(results: Sequence[Result]) -> Table:
    places = columns(results, "training")
    rows = []
    for way, text in WAYS.items():
        cells = []
        for place in places:
            row = next((row for row in place.rows("training") if row["way"] == way), None)
            cells += [DASH, DASH] if row is None else [duration(row["median"]), times(row.get("times_faster"))]
        rows.append([text, *cells])
    header = ["an epoch of all runs", *(cell for p in places for cell in (p.label, "× the loop"))]
    notes = []
    for letter, section in sections(results, "training"):
        before = [
            f"{duration(row['before'])} ({WAYS[row['way']]}, {row['device']})"
            for row in section["rows"]
            if row["way"] in ("all", "double")
        ]
        check = section["check"]
        notes.append(
            f"{letter}{section['runs']} runs, {section['sources']} training sources each, {section['features']} features, "
            f"`{section['model']}`; before the first epoch {', '.join(before)}. At the parameters that lindley found, the "
            f"loop's model gives the same ln LRs to {check['ln_lr']:.0e}, and its loss the same validation Cllr to "
            f"{check['cllr']:.0e} (single precision)."
        )
    return Table("Training: time of an epoch of all runs, median of rounds in turn", header, rows, notes)


def _scoring(results: Sequence[Result]) -> Table:
    places = [
        (p, way)
        for p in columns(results, "scoring")
        for way in (("numpy",) if p.device == "cpu" else ("numpy", "stays"))
    ]
    names = list(dict.fromkeys(row["model"] for p, _ in places for row in p.rows("scoring")))
    rows, notes = [], []
    for name in names:
        cells = []
        for place, way in places:
            row = next((r for r in place.rows("scoring") if (r["model"], r["way"]) == (name, way)), None)
            if row is not None and "left_out" in row:
                notes.append(f"left out: `{name}` on {place.label}: {row['left_out']}")
            measured = row is not None and "median" in row
            cells.append(f"{short(row['median'] / 1e6)} ({short(row['best'] / 1e6)})" if row and measured else DASH)
        rows.append([f"`{name}`", *cells])
    header = [
        "million pairs/s, median (best)",
        *(p.label + (", stays there" if w == "stays" else "") for p, w in places),
    ]
    for letter, section in sections(results, "scoring"):
        items = sorted({row["items"] for row in section["rows"] if "items" in row})
        sides = f"{items[0]:,}" if len(items) == 1 else f"{items[0]:,} to {items[-1]:,}"
        notes.append(
            f"{letter}{section['features']} features, models of {section['sources']} sources, {sides} traces against "
            "as many refs"
        )
        if section["differences"]:
            worst = max(section["differences"].values())
            notes.append(f"{letter}largest difference between CPU and GPU: {worst:.0e} in log10 LR")
    return Table("Scoring", header, rows, notes)


def _lir(results: Sequence[Result]) -> Table:
    rows, notes = [], []
    for letter, section in sections(results, "lir"):
        if "left_out" in section:
            notes.append(f"{letter}{section['left_out']}.")
            continue
        for row in section["rows"]:
            rates = [short(row["median"]), short(row["best"]), times(row["times_faster"])]
            rows.append([f"{letter}{row['way']}", f"{row['pairs']:,}", *rates])
        low, high = section["llr_range"]
        notes.append(
            f"{letter}`tlm-kde`, {section['sources']} sources, {section['features']} features. Largest difference of "
            f"{section['compared']:,} log10 LRs from {low:.0f} to {high:.1f}: {section['difference']:.0e}."
        )
    return Table("Beside LiR", ["", "pairs", "pairs/s, median", "best", "× LiR"], rows, notes)


def _memory(results: Sequence[Result]) -> Table:
    places = columns(results, "memory")
    keys = list(dict.fromkeys(describe_case(row) for place in places for row in place.rows("memory")))
    rows, notes = [], []
    for key in keys:
        cells = []
        for place in places:
            row = next((row for row in place.rows("memory") if describe_case(row) == key), None)
            if row is not None and "left_out" in row:
                notes.append(f"left out: {key} on {place.label}: {row['left_out']}")
            if row is None or "left_out" in row:
                cells += [DASH, DASH]
            else:
                cells += [short(row["held"] / MIB), short(row["highest"] / MIB)]
        rows.append([key, *cells])
    header = ["MiB", *(cell for p in places for cell in (f"{p.label}: held", "highest"))]
    return Table("Memory", header, rows, list(dict.fromkeys(notes)))


def describe_case(row: dict[str, Any]) -> str:
    """What a row of the memory is of."""
    if row["what"] == "score":
        return f"score {row['items']:,} × {row['items']:,}, `{row['model']}` of {row['sources']:,} sources"
    runs = count(row["runs"], "run")
    return f"train {runs} × {row['sources']:,} sources, {row['model']} mode"


def _growth(along: str) -> Callable[[Sequence[Result]], Table]:
    def table(results: Sequence[Result]) -> Table:
        lines = [(p, s) for p in columns(results, "growth") for s in _series(p, along)]
        sizes = sorted({point["size"] for _, line in lines for point in line["points"]})
        rows, notes = [], []
        for place, line in lines:
            at = {point["size"]: duration(point["best"]) for point in line["points"]}
            trend = DASH if line["slope"] is None else f"{line['slope']:z.2f}"
            rows.append([describe_line(line), place.label, *(at.get(size, DASH) for size in sizes), trend])
            if line["left_out"]:
                at_sizes = ", ".join(f"{left['size']:,}" for left in line["left_out"] if left["size"] is not None)
                where = f"{place.label}, at {at_sizes}" if at_sizes else place.label
                notes.append(f"left out: {describe_line(line)}, {where}: {line['left_out'][0]['why']}")
        return Table(f"Growth with {along}", [along, "on", *(f"{s:,}" for s in sizes), "slope"], rows, notes)

    return table


def describe_line(line: dict[str, Any]) -> str:
    """What a line of the growth is of."""
    if line["what"] == "epoch":
        return f"epoch, {line['model']} mode"
    return f"{'fit' if line['what'] == 'fit' else 'a pair'}, `{line['model']}`"


def _series(place: Column, along: str) -> list[dict[str, Any]]:
    kinds = ("fit", "epoch", "score")
    found = [s for s in place.rows("growth") if s["along"] == along]
    return sorted(found, key=lambda s: kinds.index(s["what"]))


def _paper(results: Sequence[Result]) -> Table:
    places = columns(results, "paper")
    names = list(dict.fromkeys(row["model"] for p in places for row in p.rows("paper")))
    rows = []
    for name in names:
        cells = []
        for place in places:
            row = next((row for row in place.rows("paper") if row["model"] == name), None)
            cells += [DASH, DASH] if row is None else [
                duration(row["seconds"]), f"{row['cllr']:.4f} ± {row['error']:.4f}"
            ]  # fmt: skip
        rows.append([f"`{name}`", *cells])
    header = ["the paper's trainings", *(cell for p in places for cell in (p.label, "test Cllr"))]
    totals = [_total(place) for place in places]
    rows.append(["all six, one after the other", *(cell for one, _ in totals for cell in (one, ""))])
    rows.append(["all six, side by side", *(cell for _, all_six in totals for cell in (all_six, ""))])
    notes = [
        f"{letter}{s['runs']} runs × {s['epochs']} epochs; to integrate the varying variance out took "
        f"{duration(max(row['integration'] for row in s['rows']))} each at most, and is counted in *side by side*"
        for letter, s in sections(results, "paper")
    ]
    return Table("The paper's six trainings", header, rows, notes)


def _total(place: Column) -> tuple[str, str]:
    """Seconds of all trainings of a column, one after the other and side by side."""
    together = place.result["paper"]["together"].get(place.device)
    return duration(sum(row["seconds"] for row in place.rows("paper"))), DASH if together is None else duration(
        together
    )


def _curves(results: Sequence[Result]) -> Table:
    rows = [
        [
            f"{place.label}, {row['precision']}",
            *(f"{row[curve]:.1e}" for curve in ("train", "validate")),
            *(f"{row[best]:.6f} (epoch {row[epoch] + 1})" for best, epoch in _BEST),
        ]
        for place in columns(results, "curves")
        for row in place.rows("curves")
    ]
    header = [
        "largest difference of the loss curves",
        "training Cllr",
        "validation Cllr",
        "best, all at once",
        "best, loop",
    ]
    notes = [
        f"{letter}`{s['model']}`: run {s['run']} of {s['runs']}, {s['epochs']} epochs, against a plain loop on the same batches"
        for letter, s in sections(results, "curves")
    ]
    return Table("All runs at once beside a plain loop", header, rows, notes)


_BEST = (("best", "best_epoch"), ("best_loop", "best_epoch_loop"))


MAKERS: dict[str, Callable[[Sequence[Result]], Table]] = {
    "machines": _machines,
    "training": _training,
    "scoring": _scoring,
    "lir": _lir,
    "memory": _memory,
    **{f"growth-{along}": _growth(along) for along in ("sources", "features", "kernels")},
    "units-cost": tables_of_work.unit_costs,
    "units-splits": tables_of_work.unit_splits,
    "cases": tables_of_work.cases,
    "train": tables_of_work.train,
    "large-pairs": tables_of_work.large,
    "large-fit": tables_of_work.large_fit,
    "paper": _paper,
    "curves": _curves,
}
"""By the names that tables have on the page: that of a section comes first."""


def make(results: Sequence[Result]) -> dict[str, Table]:
    """All tables that the results have figures for, by name."""
    there = {name for result in results for name in SECTIONS if name in result} | {"machines"}
    return {name: maker(results) for name, maker in MAKERS.items() if name.split("-")[0] in there}

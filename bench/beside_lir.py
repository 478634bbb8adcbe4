"""Scoring speed beside LiR's `TwoLevelModelNormalKDE`: the same pairs, the same numbers, in one process.

Run with a Python that has LiR (`make bench-lir`). Both are fitted on the same sources. LiR scores some of the pairs, as its
speed does not depend on how many there are; lindley scores all of them, from given pairs (as LiR gets them) and as a matrix
of all traces against all refs; and, for comparison, pairs of which no two have an item in common, where there is no matrix
to gain from. Rounds of both alternate, so that other work on the machine slows both down. Prints a table,
and with --json FILE writes the figures.

The data are those of nfi-glass where LINDLEY_DATA names a folder that has them, and simulated ones otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lir.lrsystems.two_level import TwoLevelModelNormalKDE

from lindley.data.datasets import load_dataset
from lindley.data.splits import Protocol, make_split
from lindley.data.table import Table
from lindley.experiment.named import ModelChoices, fit_model

ROUNDS, LIR_PAIRS, UNRELATED_PAIRS = 5, 1500, 10_000


def measure(table: Table, rounds: int = ROUNDS, lir_pairs: int = LIR_PAIRS) -> dict[str, Any]:
    """Pairs per second of both, the ratio in every round, and the largest difference of their log10 LRs."""
    split = make_split(table, Protocol(splits=1, replicates=2, shares=(1, 1, 1), seed=0), 0)
    # Two thirds of the sources to fit on: LiR keeps none for validation.
    fit_on = [split.scaling.undo(part.values) for part in (split.train, split.validate)]
    source = np.concatenate([split.train.source, split.validate.source])
    values = np.concatenate(fit_on)
    theirs = TwoLevelModelNormalKDE().fit_on_unpaired_instances(values, source)
    ours = fit_model(values, source, ModelChoices.read({"model": "tlm-kde"}))
    sides = [
        type(side)(split.scaling.undo(side.values), side.item, side.source)
        for side in (split.test.trace, split.test.ref)
    ]
    i, j = (index.reshape(-1) for index in np.indices((len(sides[0].source), len(sides[1].source))))
    trace, ref = sides[0].values[i][:, None], sides[1].values[j][:, None]
    some = _some(i == j, lir_pairs)

    jitter = np.random.default_rng(0).normal(size=(2, UNRELATED_PAIRS, 1, values.shape[1])) * 1e-9 * values.std(axis=0)
    unrelated = trace[:UNRELATED_PAIRS] + jitter[0, : len(trace)], ref[:UNRELATED_PAIRS] + jitter[1, : len(ref)]

    def matrix() -> np.ndarray:
        return ours.llr_matrix(*sides).reshape(-1)

    ways: dict[str, tuple[Callable[[], np.ndarray], int]] = {
        "LiR": (lambda: theirs.transform(trace[some], ref[some]), len(some)),
        "lindley, given pairs": (lambda: ours.llr_pairs(trace, ref), len(i)),
        "lindley, matrix": (matrix, len(i)),
        "lindley, unrelated pairs": (lambda: ours.llr_pairs(*unrelated), len(unrelated[0])),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    llr: dict[str, np.ndarray] = {}
    for _ in range(rounds + 1):
        for way, (score, n) in ways.items():
            started = time.perf_counter()
            llr[way] = score()
            rates[way].append(n / (time.perf_counter() - started))
    rates = {way: each[1:] for way, each in rates.items()}  # the first round warms up
    difference = np.max(
        [np.abs(llr["LiR"] - llr[f"lindley, {way}"][some]) for way in ("given pairs", "matrix")], axis=0
    )
    return {
        "data": table.name,
        "machine": _machine(),
        "sources_fitted": len(np.unique(source)),
        "features": values.shape[1],
        "pairs": {way: n for way, (_, n) in ways.items()},
        "pairs_per_second": {way: {"median": statistics.median(r), "best": max(r)} for way, r in rates.items()},
        "ratio": {
            way: statistics.median(a / b for a, b in zip(rates[way], rates["LiR"], strict=True))
            for way in ways
            if way != "LiR"
        },
        "largest_difference": float(difference.max()),
        "largest_relative_difference": float((difference / np.maximum(1, np.abs(llr["LiR"]))).max()),
        "llr_range": [float(llr["LiR"].min()), float(llr["LiR"].max())],
    }


def _some(same: np.ndarray, n: int) -> np.ndarray:
    """Every same-source pair up to half of n, and different-source pairs spread over all others."""
    ours, others = np.flatnonzero(same)[: n // 2], np.flatnonzero(~same)
    return np.concatenate([ours, others[:: max(1, len(others) // (n - len(ours)))][: n - len(ours)]])


def _machine() -> dict[str, Any]:
    cpu = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def simulated(n: int = 900, features: int = 10) -> Table:
    """Sources whose between variances run from 4 to 400 times the within variance, as glass has them."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n, features)) * np.geomspace(2, 20, features)
    values = np.repeat(means, 3, axis=0) + rng.normal(size=(3 * n, features))
    return Table.from_arrays(values, np.repeat(np.arange(n), 3), name="simulated")


def data() -> Table:
    """nfi-glass where it is at hand, and simulated data otherwise."""
    return load_dataset("nfi-glass") if os.environ.get("LINDLEY_DATA") else simulated()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--threads", type=int, default=1, help="of linear algebra, for both")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = measure(data())
    machine = figures["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, torch {machine['torch']}")
    print(f"{figures['data']}: {figures['sources_fitted']} sources fitted, {figures['features']} features")
    print(f"{'':26}{'pairs':>9}{'pairs/s, median':>18}{'best':>12}{'× LiR':>8}")
    for way, rate in figures["pairs_per_second"].items():
        n, ratio = figures["pairs"][way], figures["ratio"].get(way, 1.0)
        print(f"{way:26}{n:9,}{rate['median']:18,.0f}{rate['best']:12,.0f}{ratio:8,.0f}")
    print(
        f"largest difference of log10 LRs: {figures['largest_difference']:.1e}, relative "
        f"{figures['largest_relative_difference']:.1e} (they run from {figures['llr_range'][0]:.0f} to "
        f"{figures['llr_range'][1]:.1f})"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

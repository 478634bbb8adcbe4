"""Compare one raw model with the best calibrated rows on fourteen tables: python -m bench.gauntlet [--quick] [--json FILE].

The tables lie in the folder that the environment variable LINDLEY_DATA names (docs/research.md says which they are, and where
they come from); a table that cannot be read is left out, and the last lines say why. For every table and seed one `lindley run`
fits all rows on the same splits. With c the test Cllr of the raw model, in the mean over splits and seeds, and c_r that of a
calibrated row r, its figure is the ratio c / min_r c_r, and the figure of all tables the geometric mean of these ratios.

A choice of the model is made on `held_out`, the mean validation Cllr inside train and validation sources, over all tables
together; the test figures are for judging a model that is finished.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lindley
from lindley.errors import LindleyError
from lindley.experiment.results import ModelResult
from lindley.table.table import Table

RIVALS = (
    "tlm+logistic+elub", "tlm-kde+logistic", "tlm-kde+logistic+elub", "tlm+logistic@cv", "tlm+logistic+elub@cv",
    "tlm-kde+logistic@cv", "ht-plda+logistic", "ht-plda+logistic+elub", "ht-plda+logistic@cv", "ht-plda+logistic+elub@cv",
)  # fmt: skip
QUICK, FULL = (5, (0,)), (21, (0, 11))
"""Splits, and the seeds of the protocol."""


@dataclass(frozen=True)
class Entry:
    """A table: the name of a data set, or a file below LINDLEY_DATA with a column ``source``, and columns to leave out."""

    name: str
    file: str = ""
    ignore: tuple[str, ...] = ()

    def read(self, folder: Path) -> Table:
        """Read it whole; repeated measurements of coarse instruments are no mistake in these tables."""
        if not self.file:
            return lindley.read_table(self.name)
        return lindley.read_table(folder / self.file, source="source", ignore=self.ignore, allow_duplicates=True)


TABLES = (
    Entry("nfi-glass"),
    Entry("fiu-vehicle-glass"),
    Entry("glass-simulated"),
    Entry("onze-vowels"),
    Entry("peterson-barney", "peterson_barney/peterson_barney.csv", ("replicate",)),
    Entry("cvl-handwriting", "cvl_handwriting/cvl_handwriting.csv", ("replicate",)),
    Entry("paint-ftir", "paint_ftir/paint_ftir.csv"),
    Entry("xtc", "xtc/xtc.csv", ("replicate",)),
    Entry("zadora-glass", "zadora_glass/zadora_glass.csv", ("fragment",)),
    Entry("libri-xvectors", "libri_xvectors_pca64/libri_xvectors_pca64.csv"),
    Entry("olive-oils", "olive_oils_ftir/olive_oils_ftir.csv", ("group",)),
    Entry("bones-humerus", "bones_humerus/bones_humerus.csv"),
    Entry("touch-keystrokes", "touch_keystrokes/touch_keystrokes.csv"),
    Entry("parakeet-calls", "parakeet_contact_calls/parakeet_contact_calls.csv"),
)


def figures(runs: list[dict[str, ModelResult]], model: str) -> dict[str, Any]:
    """The figures of one table from the rows of its runs, one run a seed."""

    def cost(row: str) -> float:
        return float(np.mean([run[row].test_cllr for run in runs]))

    best = min((row for row in runs[0] if row != model), key=cost)
    return {
        "cllr": cost(model),
        "cllr_min": float(np.mean([run[model].test_cllr_min for run in runs])),
        "held_out": float(np.mean([run[model].validate_cllr for run in runs])),
        "best": best,
        "cllr_of_best": cost(best),
        "ratio": cost(model) / cost(best),
        "rows": {row: cost(row) for row in runs[0]},
        "sizes": {
            f"{m}x{n}": {
                row: float(
                    np.mean([c for run in runs for at in run[row].series if at.instances == (m, n) for c in at.cllr])
                )
                for row in runs[0]
            }
            for m, n in [at.instances for at in runs[0][model].series]
        },
    }


def summary(tables: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Geometric mean of the ratios, and the largest."""
    ratios = [table["ratio"] for table in tables.values()]
    return {"geometric_mean": math.exp(float(np.mean(np.log(ratios)))), "worst": max(ratios)}


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="robust", help="the raw model")
    parser.add_argument("--tables", nargs="*", choices=[entry.name for entry in TABLES], metavar="TABLE")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK[0]} splits of one seed, not {FULL[0]} of two")
    parser.add_argument("--rivals", nargs="*", default=RIVALS, metavar="ROW")
    parser.add_argument(
        "--folder", type=Path, default=Path("results/gauntlet"), help="runs; finished ones are read again"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(given)
    data = Path(os.environ.get("LINDLEY_DATA", "."))
    splits, seeds = QUICK if arguments.quick else FULL
    found: dict[str, dict[str, Any]] = {}
    missing = []
    print(f"{'table':18} {arguments.model:>8} {'min':>7} {'held':>7} {'best':>7} {'ratio':>6}")
    for entry in TABLES:
        if arguments.tables and entry.name not in arguments.tables:
            continue
        try:
            table = entry.read(data)
        except LindleyError as error:
            missing.append(f"{entry.name}: {error}")
            continue
        started = time.perf_counter()
        runs = []
        for seed in seeds:
            folder = arguments.folder / f"{entry.name}-{seed}-{splits}"
            models = [arguments.model, *arguments.rivals]
            results = lindley.run("demo", table, models=models, splits=splits, seed=seed, folder=folder)
            runs.append(dict(results.models))
        row = {**figures(runs, arguments.model), "seconds": time.perf_counter() - started}
        found[entry.name] = row
        print(
            f"{entry.name:18} {row['cllr']:8.4f} {row['cllr_min']:7.4f} {row['held_out']:7.4f} {row['cllr_of_best']:7.4f} "
            f"{row['ratio']:6.2f}  {row['best']}",
            flush=True,
        )  # fmt: skip
    if found:
        both = summary(found)
        print(
            f"{len(found)} tables: geometric mean of the ratios {both['geometric_mean']:.3f}, worst {both['worst']:.2f}"
        )
    for reason in missing:
        print(f"left out: {reason}")
    if arguments.json:
        text = json.dumps({"splits": splits, "seeds": seeds, "tables": found, "missing": missing}, indent=1)
        arguments.json.write_text(text, "utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())

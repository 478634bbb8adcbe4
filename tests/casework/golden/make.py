"""Make golden systems and what they answer: ``python -m tests.casework.golden.make robust``, or without a name all of them.

They are committed, and made again only when what a system holds changes: what they answer must never change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lindley.system.system import System
from lindley.system.train import train
from lindley.table.scaling import Transform
from lindley.table.table import Table
from tests.casework.factory import FEATURES, items, population

FOLDER = Path(__file__).parent
SYSTEMS: dict[str, dict[str, Any]] = {
    "kernel-ratio": {"model": "tlm-kde", "replicates": 4},
    "trained-varying": {"model": "ntlm-double-pairs-n2-varying", "replicates": 3, "options": {"epochs": 40}, "seed": 3},
    "normal-logistic": {"model": "tlm+logistic", "replicates": 4},
    "robust": {"model": "robust", "replicates": 3},
}
SIZES = ((1, 1), (1, 3), (2, 2), (3, 5))


def measured(system: System, values: np.ndarray) -> np.ndarray:
    """Values as they would be measured: the reference behind them, where the system divides by one."""
    if system.reference is None:
        return values
    rows = len(values)
    return np.column_stack([10.0**values * 700, np.full(rows, 700.0)])


def answers(system: System) -> list[dict[str, object]]:
    """Same-source and different-source pairs of several sizes."""
    answered = []
    for number, (m, n) in enumerate(SIZES):
        a, b = items(number, 2, m + n)
        for trace, ref in ((a[:m], a[m:]), (a[:m], b[m:])):
            trace, ref = (np.round(measured(system, side), 6).tolist() for side in (trace, ref))
            said = system.explain(trace, ref)
            answered.append(
                {
                    "trace": trace,
                    "ref": ref,
                    "log10_lr": said.log10_lr,
                    "log10_lr_bounded": said.log10_lr_bounded,
                    "log10_similarity": said.log10_similarity,
                    "log10_typicality": said.log10_typicality,
                    "interval": None if said.interval is None else [said.interval.lower, said.interval.upper],
                }
            )
    return answered


def main(names: Sequence[str]) -> None:
    for name in names or SYSTEMS:
        settings = SYSTEMS[name]
        values, source = population(40, 3, 7)
        table = Table.from_arrays(np.round(values, 5), source, features=FEATURES, name="simulated")
        if name == "kernel-ratio":
            table = replace(table, units=("ppm",) * len(FEATURES), transform=Transform("log10", "Si28"))
        system = train(table, **settings)
        system.save(FOLDER / f"{name}.safetensors")
        (FOLDER / f"{name}.json").write_text(json.dumps(answers(system), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

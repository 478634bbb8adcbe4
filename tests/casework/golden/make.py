"""Make the golden systems and what they answer: ``python -m tests.casework.golden.make``.

They are committed, and made again only when the layout of system files changes: what they answer must never change.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lindley.casework.train import TrainingChoices, train_system
from lindley.system.system import System
from lindley.table.table import Table
from tests.casework.factory import FEATURES, items, population

FOLDER = Path(__file__).parent
SYSTEMS = {
    "kernel-ratio": TrainingChoices("tlm-kde", 4, units=("ppm",) * 4, transform="log10", reference="Si28"),
    "trained-varying": TrainingChoices("ntlm-double-pairs-n2-varying", 3, epochs=40, seed=3),
    "normal-logistic": TrainingChoices("tlm+logistic", 4),
    "robust": TrainingChoices("robust", 3),
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


def main() -> None:
    for name, choices in SYSTEMS.items():
        values, source = population(40, 3, 7)
        table = Table.from_arrays(np.round(values, 5), source, features=FEATURES, name="simulated")
        trained = train_system(table, choices)
        trained.system.save(FOLDER / f"{name}.safetensors", trained.about)
        (FOLDER / f"{name}.json").write_text(json.dumps(answers(trained.system), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""A case: how long a person waits, at the command line and in Python.

*Commands* run in a process of their own each time, as from a shell that has just been opened, but for files that the system
has read before: a case whose trace is a file that is not there, and a whole case with its report. *system.llr* is the LR of one
trace and one ref in a process that goes on, after a first one. Systems are of few sources: with more, an LR takes no longer,
but for kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.plan import Plan
from bench.timing import rounds, summary
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.table import Table, export_csv

__all__ = ["measure"]

ROOT = Path(__file__).parents[1]
SOURCES, FEATURES, INSTANCES = 40, 4, 6
NETWORK = "ntlm-single-pairs-n2"
SIZES = ((1, 1), (2, 3))
MODELS = ("tlm", "robust", NETWORK)


def measure(plan: Plan) -> dict[str, Any]:
    """Seconds of two commands, and of an LR by every kind of model and number of measurements."""
    table = _table(SOURCES, seed=0)
    options = {NETWORK: {"epochs": 20}}
    systems = {name: train(table, name, options=options.get(name), replicates=2) for name in MODELS}
    item = _table(2, seed=1).values.reshape(2, INSTANCES, FEATURES)
    rows = _commands(plan, systems["robust"])
    for name, system in systems.items():
        for m, n in SIZES:

            def llr(system: System = system, m: int = m, n: int = n) -> float:
                return system.llr(item[0, :m], item[1, :n])

            found = summary(rounds(llr, most=200, enough=plan.enough))
            rows.append({"what": "llr", "model": name, "instances": [m, n], "device": "cpu", **found})
    return {"sources": SOURCES, "features": FEATURES, "rows": rows}


def _table(sources: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    means = 5 * np.repeat(rng.normal(size=(sources, FEATURES)), INSTANCES, axis=0)
    names = np.repeat([f"{seed}-{i:02d}" for i in range(sources)], INSTANCES)
    return Table.from_arrays(means + rng.normal(size=means.shape), names)


def _commands(plan: Plan, system: System) -> list[dict[str, Any]]:
    with TemporaryDirectory() as place:
        folder = Path(place)
        system.save(folder / "system.safetensors")
        for name, seed in (("trace", 2), ("ref", 3)):
            export_csv(_table(1, seed), folder / f"{name}.csv")
        ways: dict[str, tuple[list[str], int]] = {
            "a file that is not there": (["--trace", "none.csv", "--ref", "ref.csv"], 2),
            "a whole case with its report": (
                ["--trace", "trace.csv", "--ref", "ref.csv", "--out", "report.html", "--force"],
                0,
            ),
        }
        rows = []
        for way, (arguments, status) in ways.items():
            command = _command(folder, ["case", "system.safetensors", *arguments], status)
            if plan.rounds > 1:
                command()  # so that files have been read, and what Python compiles is there
            times = [command() for _ in range(plan.rounds)]
            work = min(seconds for _, seconds in times)
            rows.append(
                {"what": "command", "way": way, "device": "cpu", "processor_seconds": work, **summary([t for t, _ in times])}
            )  # fmt: skip
        return rows


def _command(folder: Path, arguments: list[str], status: int) -> Callable[[], tuple[float, float]]:
    """A command that must end with a status: how long it took, and the processor time of it."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *(path for path in sys.path if path)]),
    }

    def run() -> tuple[float, float]:
        started, before = time.perf_counter(), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "lindley", *arguments], cwd=folder, env=environment, capture_output=True, check=False
        )
        seconds, after = time.perf_counter() - started, os.times()
        if done.returncode != status:
            raise RuntimeError(f"{arguments}\n{done.stderr.decode()}")
        work = (after.children_user + after.children_system) - (before.children_user + before.children_system)
        return seconds, work

    return run

"""Measure this machine: python -m bench [--sections …] [--json FILE]. See `bench`."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from bench import beside_lir, growth, large, memory, same_batches, scoring, tables, training
from bench.machine import describe
from bench.plan import FULL, PATIENT, QUICK, Plan

LAYOUT = 1


def _whole(name: str) -> Callable[[Plan], dict[str, Any]]:
    """A section of whole systems, experiments or cases, which wants more than torch, NumPy and SciPy."""

    def measure(plan: Plan) -> dict[str, Any]:
        try:
            section = import_module(f"bench.{name}")
        except ModuleNotFoundError as error:
            return {"rows": [], "left_out": f"`{name}` needs {error.name}, which is not installed here"}
        found: dict[str, Any] = section.measure(plan)
        return found

    return measure


SECTIONS: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "training": training.measure,
    "scoring": scoring.measure,
    "lir": beside_lir.measure,
    "memory": memory.measure,
    "growth": growth.measure,
    "units": _whole("units"),
    "cases": _whole("cases"),
    "train": _whole("train"),
    "large": large.measure,
    "paper": training.measure_paper,
    "curves": same_batches.measure,
}
LONG = ("large", "paper", "curves")
USUAL = [name for name in SECTIONS if name not in LONG]
SAME_LN_LR, SAME_CLLR = 1e-8, 1e-4
"""Largest differences from the loop's model, in double precision and in the single precision of a training."""


def main(given: list[str] | None = None) -> int:
    arguments = _parser().parse_args(given)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    devices = [d for d in arguments.devices.split(",") if d == "cpu" or torch.cuda.is_available()]
    plan = QUICK if arguments.quick else PATIENT if arguments.patient else FULL
    plan = replace(plan, devices=tuple(devices), threads=torch.get_num_threads())
    if arguments.growth_seconds:
        plan = replace(plan, growth_seconds=arguments.growth_seconds)
    result: dict[str, Any] = {
        "layout": LAYOUT,
        "date": datetime.now(UTC).date().isoformat(),
        "quick": arguments.quick,
        "devices": devices,
        "machine": describe(plan.threads),
        "seconds": {},
    }
    failed = []
    for name in arguments.sections:
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        started = time.perf_counter()
        try:
            result[name] = SECTIONS[name](plan)
        except Exception:  # the other sections can still be measured
            traceback.print_exc()
            failed.append(f"section {name} failed: see above")
        result["seconds"][name] = round(time.perf_counter() - started, 1)
        print(f"{result['seconds'][name]:.0f} s", file=sys.stderr, flush=True)
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for table in tables.make([{**result, "files": []}]).values():
        print(f"\n{table.plain()}")
    failed += differences(result)
    for problem in failed:
        print(f"\n{problem}", file=sys.stderr)
    return 1 if failed else 0


def differences(result: dict[str, Any]) -> list[str]:
    """Where numbers differ that should be the same."""
    found = []
    check = result.get("training", {}).get("check", {"ln_lr": 0.0, "cllr": 0.0})
    if not (check["ln_lr"] < SAME_LN_LR and check["cllr"] < SAME_CLLR):
        found.append(
            f"lindley and the loop's model differ by {check['ln_lr']:.1e} in ln LR, {check['cllr']:.1e} in Cllr"
        )
    difference = result.get("lir", {}).get("difference", 0.0)
    if not difference < beside_lir.SAME:
        found.append(f"lindley and LiR differ by {difference:.1e} in log10 LR")
    for name, between in result.get("scoring", {}).get("differences", {}).items():
        if not between < beside_lir.SAME:
            found.append(f"{name}: CPU and GPU differ by {between:.1e} in log10 LR")
    for row in result.get("curves", {}).get("rows", []):
        if not row["same"]:
            apart = max(row["train"], row["validate"])
            found.append(f"loss curves in {row['precision']} are up to {apart:.1e} from those of the loop")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure lindley on this machine.")
    parser.add_argument(
        "--sections", type=_sections, default=USUAL, help=f"of {', '.join(SECTIONS)}; all but the last three"
    )
    parser.add_argument("--devices", default="cpu,cuda", help="cuda where torch sees a GPU; default: cpu,cuda")
    parser.add_argument("--threads", type=int, help="of torch; default: torch's own choice")
    parser.add_argument(
        "--growth-seconds", type=float, help=f"for all points of the growth; default: {FULL.growth_seconds:g}"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs")
    sizes.add_argument("--patient", action="store_true", help="all points of the growth, however long they take")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def _sections(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in names]


if __name__ == "__main__":
    sys.exit(main())

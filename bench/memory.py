"""Memory: how high it gets while pairs are scored and while models are trained, beside what is held in the end.

On a CPU every case runs in a process of its own. Linux keeps the highest resident memory of a process (VmHWM) and resets it on
request, so that what is told is of the case alone; a small case comes first, which loads libraries. What was freed before is
handed back to the system first (glibc's malloc_trim), or it would be used again unseen; pieces of 2 MiB and more are handed
back whenever they are freed. On a GPU it is `torch.cuda.max_memory_allocated`, and what is on the host does not count.

Both figures are above what there was before. ``held`` of a scoring is the matrix of LLRs that it returns, and of a training
what it keeps between epochs; ``highest`` includes it, and of a training the making of its batches, too. A training has as
many validation sources as training sources, as in a split into thirds.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.machine import rss_bytes
from bench.plan import Plan
from bench.scoring import score_part
from bench.subjects import MODELS, model_to_score, sources
from lindley.models.neural.fit import Training
from lindley.models.neural.parameters import Architecture
from lindley.models.neural.program import Program
from lindley.table.splits import Part

__all__ = ["measure", "needed"]

ROOT = Path(__file__).parents[1]
UNREADABLE = "the highest memory of a process cannot be reset here: that takes Linux"
LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
HANDED_BACK = str(2 << 20)
"""Bytes from which freed memory goes back to the system at once."""
Case = dict[str, Any]


def cases(plan: Plan) -> list[Case]:
    """Every model at all numbers of items; tlm-kde with more kernels; trainings of many runs, and of many sources."""
    shared = {"features": plan.features, "threads": plan.threads}
    scored = [(name, items, plan.kernels) for name in MODELS for items in plan.memory_items]
    scored += [("tlm-kde", plan.memory_items[0], kernels) for kernels in plan.memory_kernels]
    third = plan.table_sources // 3
    trained = [(mode, plan.runs, third) for mode in ("pairs", "sources")]
    trained += [(mode, 1, n) for mode in ("pairs", "sources") for n in plan.memory_sources]
    return [
        *({"what": "score", "model": m, "items": n, "sources": k, **shared} for m, n, k in scored),
        *({"what": "train", "model": m, "runs": r, "sources": n, **shared} for m, r, n in trained),
    ]


def measure(plan: Plan) -> dict[str, Any]:
    """What is held and how high memory gets, in bytes, for every case and device."""
    rows = []
    for device in plan.devices:
        for case in cases(plan):
            apart = device == "cpu" and plan.apart
            found = _in_a_child(case) if apart else needed({**case, "device": device})
            rows.append({**case, "device": device, **found})
    return {"rows": rows}


def _in_a_child(case: Case, module: str = "bench.memory", *, handed_back: bool = True) -> dict[str, Any]:
    environment = dict(os.environ)
    if handed_back:
        environment |= {"MALLOC_MMAP_THRESHOLD_": HANDED_BACK, "MALLOC_TRIM_THRESHOLD_": HANDED_BACK}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps({**case, "device": "cpu"})],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode < 0:
        return {"left_out": f"the process was ended by signal {-done.returncode}: memory was short"}
    if done.returncode:
        raise RuntimeError(f"{case}\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def needed(case: Case) -> dict[str, Any]:
    """``held`` and ``highest`` of one case, in this process."""
    device, held = case["device"], []
    if case["what"] == "score":
        part = sources(case["items"], case["features"], seed=1)
        try:
            model = model_to_score(case["model"], sources(case["sources"], case["features"], seed=0))
        except ModuleNotFoundError as error:
            return {"left_out": str(error)}
        model = model.map(lambda t: t.to(device))
        score_part(model, sources(20, case["features"], seed=1))  # loads libraries
        held.append(8 * case["items"] ** 2)
        highest = _highest(device, lambda: score_part(model, part))
    else:
        parts, small = _parts(case), _parts({**case, "runs": 1, "sources": 60})
        _program(case, small).run(lambda epoch, cllr: None)  # loads libraries

        def run() -> None:
            before = _now(device)
            program = _program(case, parts)
            held.append(_now(device) - before)
            program.run(lambda epoch, cllr: None)

        highest = _highest(device, run)
    return {"left_out": UNREADABLE} if highest is None else {"held": held[0], "highest": highest}


def _parts(case: Case) -> tuple[list[Part], list[Part]]:
    """Training and validation sources of every run."""
    train, validate = (
        [sources(case["sources"], case["features"], seed=first + run) for run in range(case["runs"])]
        for first in (0, 1000)
    )
    return train, validate


def _program(case: Case, parts: tuple[list[Part], list[Part]]) -> Program:
    training = Training(case["model"], epochs=2, device=case["device"])
    return Program(Architecture("single", 2), training, *parts, list(range(len(parts[0]))), None)


def _now(device: str) -> int:
    """What is in use; on a CPU, after what was freed is handed back."""
    gc.collect()
    if device == "cuda":
        return torch.cuda.memory_allocated()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)
    return rss_bytes() or 0


def _highest(device: str, function: Callable[[], object]) -> int | None:
    """How high memory gets above what it is now; None where the system does not tell."""
    before = _now(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        function()
        return torch.cuda.max_memory_allocated() - before
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    function()
    high = rss_bytes(peak=True)
    return None if high is None else max(0, high - before)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    print(json.dumps(needed(given)))

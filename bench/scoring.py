"""Scoring: pairs per second of every kind of model, all traces against all refs, one instance each, in float64.

Times are those of `lindley.models.two_level.score`, from NumPy arrays to NumPy arrays. On a GPU they hold the way there and
back; ``way`` "stays" leaves that out. The number of items is the smallest with which a round takes a fifth of a second, or the
largest of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bench.plan import Plan
from bench.subjects import MODELS, model_to_score, sources
from bench.timing import rounds, seconds_of, summary
from lindley.models.two_level import PairModel, score
from lindley.table.splits import Part

__all__ = ["measure", "score_part"]

LONG_ENOUGH = 0.2
FEWEST_ITEMS = 250
COMPARED = 200
"""Items of the block that is scored on the CPU and on the GPU."""


def score_part(model: PairModel, part: Part) -> np.ndarray:
    """log10 LRs of all traces against all refs of a part."""
    return score(model, [part.trace], [part.ref])[0]


def measure(plan: Plan) -> dict[str, Any]:
    """Pairs per second, best and median; and the largest difference between devices."""
    train = sources(plan.kernels, plan.features, seed=0)
    rows: list[dict[str, Any]] = []
    differences: dict[str, float] = {}
    for name in MODELS:
        try:
            model = model_to_score(name, train)
        except ModuleNotFoundError as error:
            rows += [{"model": name, "device": d, "way": "numpy", "left_out": str(error)} for d in plan.devices]
            continue
        for device in plan.devices:
            there = model.map(lambda t, device=device: t.to(device))  # type: ignore[misc]
            rows.append({"model": name, "device": device, "way": "numpy", **_rate(plan, there, score_part)})
            if device != "cpu":
                rows.append({"model": name, "device": device, "way": "stays", **_rate(plan, there, _stays)})
                few = sources(COMPARED, plan.features, seed=1)
                differences[name] = float(np.abs(score_part(model, few) - score_part(there, few)).max())
    return {"features": plan.features, "sources": plan.kernels, "rows": rows, "differences": differences}


def _rate(plan: Plan, model: PairModel, way: Callable[[PairModel, Part], object]) -> dict[str, Any]:
    items = min(FEWEST_ITEMS, plan.most_items)
    way(model, sources(items, plan.features, seed=1))  # warms up
    while True:
        part = sources(items, plan.features, seed=1)
        part.trace.mean, part.ref.mean  # noqa: B018 - computed once, as for any later scoring
        if items >= plan.most_items or seconds_of(lambda part=part: way(model, part)) >= LONG_ENOUGH:  # type: ignore[misc]
            break
        items = min(2 * items, plan.most_items)
    found = summary(rounds(lambda: way(model, part), least=plan.rounds + 2, enough=plan.enough))
    pairs = items**2
    return {"items": items, "best": pairs / found["best"], "median": pairs / found["median"], "rounds": found["rounds"]}


def _stays(model: PairModel, part: Part) -> None:
    """The LLRs of the part, left where they were computed."""
    x, y = (torch.from_numpy(side.mean).to(model.centre)[None] for side in (part.trace, part.ref))
    with torch.inference_mode():
        model.ln_lr(x, y)
    torch.cuda.synchronize()

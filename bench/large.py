"""Very many pairs: Cllr, Cllr_min and the Tippett curve of all of them, and the memory that it takes, for every kind of model.

All traces against all refs go through `System.llrs_sides`, tile by tile. Memory is that above what there was when system and
items were there (see `bench.memory`), on a CPU in a process of its own for every kind. A kind that would need long for all
pairs gets fewer traces and all refs: whole rows of tiles, so that memory is what it would be. One for which a row of tiles
would take too long gets one tile. ``pairs`` tells how many there were, ``whole`` the seconds of all: by proportion, where not
all were computed.

Beside them, the fit of `robust` on a large table: its time, and its memory above that of the table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from bench.memory import UNREADABLE, _highest, _in_a_child
from bench.plan import Plan
from bench.subjects import model_to_score
from lindley.evaluation import cllr, cllr_min, compress, tippett
from lindley.evaluation.pair_grid import TILE
from lindley.llrs import LLRs
from lindley.models.bayes.averaged import Averaged
from lindley.models.bayes.fit import DRAWS
from lindley.models.classical import fit_classical
from lindley.models.gaussianise import fit_gaussianiser
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.neural.nplda import Quadratic
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.robust.fit import fit_robust
from lindley.models.two_level import PairModel, TwoLevel, score_there
from lindley.table.scaling import Scaling
from lindley.table.splits import Part, Side

__all__ = ["NAMES", "measure", "needed", "scorer"]

NAMES = (
    "tlm", "tlm-kde", "tlm-bayes", "ht-plda", "robust", "nplda",
    "ntlm-double-pairs-n2", "ntlm-double-pairs-n2-common", "ntlm-double-pairs-n2-varying",
    "flow:tlm", "quantile:tlm", "tlm+logistic", "tlm-kde+kde+elub", "tlm+pav",
)  # fmt: skip
FEATURES, SOURCES, FEW_SOURCES = 64, 2000, 300
"""Features; sources that a model is made of, fewer where its size does not depend on them."""
QUICKLY = 4, 40, 40
FEW, FEW_MORE = 250, 8
"""Traces and refs that tell how long all of them would take; and those beside a tile whose sources are on both sides."""
INSTANCES = 3
"""Of every source of the table that robust is fitted on."""


def sources(n: int, features: int, seed: int, instances: int = 2) -> Part:
    """Instances of each of n sources, of which many look alike: so that Cllr is not zero with many features."""
    rng = np.random.default_rng((seed, n, features))
    means = rng.normal(size=(n, features)) * np.geomspace(0.2, 1.2, features)
    values = np.repeat(means, instances, axis=0) + rng.normal(size=(instances * n, features))
    source = np.repeat([f"{i:06d}" for i in range(n)], instances)
    return Part(values, source, np.arange(instances * n) % instances == 0)


def measure(plan: Plan) -> dict[str, Any]:
    """Seconds and the highest memory, in bytes, of all pairs by every kind on every device, and of the fit."""
    sizes = QUICKLY if plan.large_items < FEW else (FEATURES, SOURCES, FEW_SOURCES)
    shared = dict(zip(("features", "sources", "few_sources"), sizes, strict=True))
    limits = {"items": plan.large_items, "enough": plan.large_enough, "limit": plan.large_limit}
    rows = []
    for device in plan.devices:
        for name in NAMES:
            case = {"what": "pairs", "model": name, **shared, **limits, "threads": plan.threads, "device": device}
            rows.append({**case, **_found(case, plan)})
    if "cpu" in plan.devices:
        case = {"what": "fit", "model": "robust", "items": plan.large_fit, "features": shared["features"]}
        case |= {"threads": plan.threads, "device": "cpu"}
        rows.append({**case, **_found(case, plan)})
    return {"rows": rows}


def _found(case: dict[str, Any], plan: Plan) -> dict[str, Any]:
    return _in_a_child(case, "bench.large") if case["device"] == "cpu" and plan.apart else needed(case)


def needed(case: dict[str, Any]) -> dict[str, Any]:
    """The figures of one case, in this process."""
    return _fit(case) if case["what"] == "fit" else _pairs(case)


def _pairs(case: dict[str, Any]) -> dict[str, Any]:
    part = sources(case["items"], case["features"], seed=1)
    try:
        scored = scorer(case["model"], case["features"], case["sources"], case["few_sources"])
    except ModuleNotFoundError as error:
        return {"left_out": str(error)}
    device, items = case["device"], case["items"]
    _evaluated(scored, part, slice(FEW), slice(FEW), device)  # loads libraries
    some = slice(min(items, TILE)), slice(min(items, FEW))
    a_pair = _evaluated(scored, part, *some, device)["seconds"] / (some[0].stop * some[1].stop)
    rows, columns = _as_many(items, a_pair, case["enough"], case["limit"])
    found, highest = _watched(device, lambda: _evaluated(scored, part, rows, columns, device))
    if highest is None:
        return {"left_out": UNREADABLE}
    return {**found, "whole": found["seconds"] * items**2 / found["pairs"], "highest": highest}


def _as_many(items: int, a_pair: float, enough: float, limit: float) -> tuple[slice, slice]:
    """All traces and refs; or traces of as many rows of tiles as take ``enough`` seconds, one at least; or a tile.

    A tile is of different sources but for a few traces more, whose sources are among the refs.
    """
    row = a_pair * TILE * items
    if items <= TILE or a_pair * items**2 <= enough:
        return slice(items), slice(items)
    if row <= limit:
        return slice(min(items, TILE * max(1, int(enough / row)))), slice(items)
    return slice(TILE + FEW_MORE), slice(TILE, 2 * TILE)


def _watched(device: str, function: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int | None]:
    """What a function gave, and how high memory got above what it was."""
    found: list[dict[str, Any]] = []
    highest = _highest(device, lambda: found.append(function()))
    return (found[0] if found else {}), highest


def _fit(case: dict[str, Any]) -> dict[str, Any]:
    """Of the table as it is; a small one comes first, which loads libraries."""
    if case["items"] > FEW:
        fit_robust([sources(FEW, 4, seed=3, instances=INSTANCES)])
    part = sources(case["items"], case["features"], seed=4, instances=INSTANCES)

    def run() -> dict[str, Any]:
        started, worked = time.perf_counter(), time.process_time()
        fit_robust([part])
        seconds, work = time.perf_counter() - started, time.process_time() - worked
        return {"seconds": seconds, "processor_seconds": work, "instances": INSTANCES}

    found, highest = _watched(case["device"], run)
    return {"left_out": UNREADABLE} if highest is None else {**found, "table": part.values.nbytes, "highest": highest}


Scorer = Callable[[Side, Side, str], LLRs]
"""LLRs of all pairs of traces and refs, on a device."""


def scorer(name: str, features: int, n_sources: int, n_few: int) -> Scorer:
    """`System.llrs_sides` of a system of that name, without a long fit: as large as a fitted one, with other numbers.

    With torch, NumPy and SciPy alone there are no systems: a model is then scored and counted as a system does it.
    """
    try:
        return partial(_of_system, system_to_score(name, features, n_sources, n_few))
    except ModuleNotFoundError:
        if name != _plain(name):
            raise
        return partial(_of_model, _model(name, *_parts(name, features, n_sources, n_few)))


def _plain(name: str) -> str:
    """Without what stands in front of a model and behind it."""
    return name.split("+")[0].split(":")[-1]


def _parts(name: str, features: int, n_sources: int, n_few: int) -> tuple[Part, Part]:
    """What a model is made of, and a few sources for what is fitted to it."""
    few = sources(n_few, features, seed=0)
    return few if _plain(name) in ("tlm-bayes", "ht-plda") else sources(n_sources, features, seed=0), few


def _of_system(system: Any, trace: Side, ref: Side, device: str) -> LLRs:
    found: LLRs = system.llrs_sides(trace, ref, device=device)
    return found


def _of_model(model: PairModel, trace: Side, ref: Side, device: str) -> LLRs:
    there = model.map(lambda t: t.to(device))
    return compress(lambda rows, columns: score_there(there, trace[rows], ref[columns]), trace.source, ref.source)


def system_to_score(name: str, features: int, n_sources: int, n_few: int) -> Any:
    """A system of that name, without a long fit."""
    from lindley.calibration import Chain
    from lindley.system.names import ModelName
    from lindley.system.system import System

    spec, (part, few) = ModelName.parse(name), _parts(name, features, n_sources, n_few)
    same = Scaling(np.zeros(features), np.ones(features))
    gaussianisers = ()
    if spec.gaussianiser:
        gaussianisers = (fit_gaussianiser(spec.gaussianiser, few.values, source=few.source),)  # type: ignore[arg-type]
    columns = tuple(f"f{i}" for i in range(features))
    parts: Any = (None,) * features, "none", None, (same,), gaussianisers, _model(_plain(name), part, few)
    system = System(name, columns, *parts, (Chain((), ()),))
    if not spec.calibrations:
        return system
    llrs = few.llrs(system.llr_sides(few.trace, few.ref))
    return replace(system, calibrations=(Chain.fit(spec.calibrations, llrs),))


def _model(name: str, part: Part, few: Part) -> PairModel:
    if name == "tlm-bayes":
        start = fit_classical([part], "normal")
        return Averaged(
            start, tuple(_moved(start, k) for k in range(DRAWS)), torch.zeros(1, DRAWS).double().log_softmax(-1)
        )
    if name in ("ht-plda", "nplda"):
        start = fit_classical([part], "normal")
        law: Any = start.between
        eight = torch.full((1, 1, 1), 8.0, dtype=torch.float64)
        other: Any = HeavyTailed(law.mean, law.var, eight, 2 * eight)
        if name == "nplda":
            other = Quadratic.of_normal(law, start.var_within_trace)
        return TwoLevel(start.centre, start.projection, start.var_within_trace, start.var_within_ref, other)
    if name.startswith("ntlm"):
        start = Parameters.maximum_likelihood(Architecture("double", 2), [part]).two_level()
        if name.endswith("-common"):
            return integrate_common(start, [len(part.trace.source)])
        return integrate_varying(start, [few]) if name.endswith("-varying") else start
    return model_to_score(name, part)


def _moved(model: TwoLevel, seed: int) -> TwoLevel:
    """The same model with other axes and variances, as a draw from a posterior has them."""
    noise = torch.randn(model.projection.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    law: Any = model.between
    return replace(
        model,
        projection=model.projection @ torch.linalg.matrix_exp(0.01 * noise),
        between=replace(law, var=law.var * (0.1 * noise[:, :1]).exp()),
    )


def _evaluated(scored: Scorer, part: Part, rows: slice, columns: slice, device: str) -> dict[str, float]:
    """Cllr, Cllr_min and the Tippett curve of some traces against some refs, and how long they took."""
    started, worked = time.perf_counter(), time.process_time()
    trace, ref = part.trace[rows], part.ref[columns]
    llrs = scored(trace, ref, device)
    curve = tippett(llrs)
    misled = float(np.interp(0.0, curve.llr, curve.different))
    figures = {"cllr": cllr(llrs), "cllr_min": cllr_min(llrs), "misled": misled}
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return {"pairs": len(trace.source) * len(ref.source), "seconds": seconds, "processor_seconds": work, **figures}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    print(json.dumps(needed(given)))

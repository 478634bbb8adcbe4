"""Very many pairs: Cllr, Cllr_min and the Tippett curve of all of them, and the memory that it takes, for every kind of model.

All traces against all refs go through `System.llrs_sides`. Memory is that above what there was when system and items were there
(see `bench.memory`). It does not grow with the number of pairs: where all of them would take long, one whole tile of them is
scored, and ``pairs`` says how many that were.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bench.memory import UNREADABLE, _highest, _in_a_child
from bench.plan import Plan
from bench.subjects import model_to_score
from lindley.calibration import Chain
from lindley.evaluation import cllr, cllr_min, tippett
from lindley.evaluation.pair_grid import TILE
from lindley.models.bayes.averaged import Averaged
from lindley.models.bayes.fit import DRAWS
from lindley.models.classical import fit_classical
from lindley.models.gaussianise import fit_gaussianiser
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.neural.nplda import Quadratic
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.two_level import PairModel, TwoLevel
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.table.scaling import Scaling
from lindley.table.splits import Part

__all__ = ["NAMES", "measure", "needed", "system_to_score"]

NAMES = (
    "tlm", "tlm-kde", "tlm-bayes", "ht-plda", "robust", "nplda",
    "ntlm-double-pairs-n2", "ntlm-double-pairs-n2-common", "ntlm-double-pairs-n2-varying",
    "flow:tlm", "quantile:tlm", "tlm+logistic", "tlm-kde+kde+elub", "tlm+pav",
)  # fmt: skip
ITEMS, FEATURES, SOURCES, FEW_SOURCES = 20_000, 64, 2000, 300
"""Traces and refs; features; sources that a model is made of, fewer where its size does not depend on them."""
QUICKLY = 260, 4, 60, 60
LONG_ENOUGH = 20.0
"""Seconds: a model that would need longer for all pairs is asked for fewer."""
FEW, FEW_MORE = 250, 8
"""Traces and refs that tell how long all of them would take; and those beside a tile whose sources are on both sides."""


def sources(n: int, features: int, seed: int) -> Part:
    """Two instances of each of n sources, of which many look alike: so that Cllr is not zero with many features."""
    rng = np.random.default_rng((seed, n, features))
    means = rng.normal(size=(n, features)) * np.geomspace(0.2, 1.2, features)
    values = np.repeat(means, 2, axis=0) + rng.normal(size=(2 * n, features))
    return Part(values, np.repeat([f"{i:06d}" for i in range(n)], 2), np.arange(2 * n) % 2 == 0)


def measure(plan: Plan) -> dict[str, Any]:
    """Pairs per second and the highest memory, in bytes, of every kind and device."""
    quick = plan.most_items < FEW
    sizes = QUICKLY if quick else (ITEMS, FEATURES, SOURCES, FEW_SOURCES)
    shared = dict(zip(("items", "features", "sources", "few_sources"), sizes, strict=True))
    rows = []
    for device in plan.devices:
        for name in NAMES:
            case = {"model": name, **shared, "threads": plan.threads, "device": device}
            apart = device == "cpu" and not quick
            rows.append({**case, **(_in_a_child(case, "bench.large") if apart else needed(case))})
    return {"rows": rows}


def needed(case: dict[str, Any], seconds: float = LONG_ENOUGH) -> dict[str, Any]:
    """The figures of one system, in this process."""
    part = sources(case["items"], case["features"], seed=1)
    try:
        system = system_to_score(case["model"], case["features"], case["sources"], case["few_sources"])
    except ModuleNotFoundError as error:
        return {"left_out": str(error)}
    device, items = case["device"], case["items"]
    _evaluated(system, part, slice(FEW), slice(FEW), device)  # loads libraries
    a_pair = _evaluated(system, part, slice(2 * FEW), slice(FEW), device)["seconds"] / (2 * FEW**2)
    rows = columns = slice(items)
    if a_pair * items**2 > seconds and items > 2 * TILE:
        # A tile of different-source pairs, and a few traces more whose sources are among the refs.
        rows, columns = slice(TILE + FEW_MORE), slice(TILE, 2 * TILE)
    found: list[dict[str, float]] = []
    highest = _highest(device, lambda: found.append(_evaluated(system, part, rows, columns, device)))
    return {"left_out": UNREADABLE} if highest is None else {**found[0], "highest": highest}


def system_to_score(name: str, features: int, n_sources: int, n_few: int) -> System:
    """A system of that name, without a long fit: as large as a fitted one, with numbers that are not those of one."""
    spec = ModelName.parse(name)
    few = sources(n_few, features, seed=0)
    same = Scaling(np.zeros(features), np.ones(features))
    gaussianisers = ()
    if spec.gaussianiser:
        gaussianisers = (fit_gaussianiser(spec.gaussianiser, few.values, source=few.source),)  # type: ignore[arg-type]
    root = str(ModelName.parse(name.split("+")[0].split(":")[-1]))
    model = _model(root, few if root in ("tlm-bayes", "ht-plda") else sources(n_sources, features, seed=0), few)
    none = Chain((), ())
    system = System(
        name, tuple(f"f{i}" for i in range(features)), (None,) * features, "none", None, (same,), gaussianisers, model, (none,)
    )  # fmt: skip
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


def _evaluated(system: System, part: Part, rows: slice, columns: slice, device: str) -> dict[str, float]:
    """Cllr, Cllr_min and the Tippett curve of some traces against some refs, and how long they took."""
    started, worked = time.perf_counter(), time.process_time()
    trace, ref = part.trace[rows], part.ref[columns]
    llrs = system.llrs_sides(trace, ref, device=device)
    curve = tippett(llrs)
    misled = float(np.interp(0.0, curve.llr, curve.different))
    figures = {"cllr": cllr(llrs), "cllr_min": cllr_min(llrs), "misled": misled}
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return {"pairs": len(trace.source) * len(ref.source), "seconds": seconds, "processor_seconds": work, **figures}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    print(json.dumps(needed(given)))

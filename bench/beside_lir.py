"""Scoring beside LiR's `TwoLevelModelNormalKDE`: the same pairs, the same numbers, in one process.

Both are fitted on the same sources. LiR scores some of the pairs, as its speed does not depend on how many there are; lindley
scores all of them, from given pairs (as LiR gets them) and as a matrix of all traces against all refs; and, for comparison,
pairs of which no two have an item in common, where there is no matrix to gain from. Rounds of both alternate, so that other
work on the machine slows both down. The numbers must be the same to `SAME` in log10 LR.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.plan import Plan
from bench.scoring import score_part
from bench.subjects import fit, sources
from bench.timing import seconds_of
from lindley.models.pairs import distinct_items, score_pairs

__all__ = ["SAME", "measure"]

SAME = 1e-8
MISSING = "LiR is not installed here: `make bench-lir` runs the same with it (Python 3.12 or newer)"


def measure(plan: Plan) -> dict[str, Any]:
    """Pairs per second of every way, their median ratios to LiR, and the largest difference of log10 LRs."""
    try:
        from lir.lrsystems.two_level import TwoLevelModelNormalKDE
    except ImportError:
        return {"left_out": MISSING}
    train, test = sources(plan.lir_sources, plan.features, seed=0), sources(plan.lir_items, plan.features, seed=1)
    theirs = TwoLevelModelNormalKDE().fit_on_unpaired_instances(train.values, train.source)
    ours = fit("tlm-kde", train)
    i, j = (index.reshape(-1) for index in np.indices((plan.lir_items, plan.lir_items)))
    trace, ref = test.trace.mean[i][:, None], test.ref.mean[j][:, None]  # (pairs, 1, feature)
    some = _some(i == j, plan.lir_pairs)
    apart = sources(plan.unrelated_pairs, plan.features, seed=2)
    unrelated = apart.trace.mean[:, None], apart.ref.mean[:, None]

    def given(traces: np.ndarray, refs: np.ndarray) -> np.ndarray:
        (x, which_x), (y, which_y) = distinct_items(traces), distinct_items(refs)
        return score_pairs(ours, x, y, which_x, which_y)

    ways: dict[str, tuple[Callable[[], np.ndarray], int]] = {
        "LiR": (lambda: theirs.transform(trace[some], ref[some]).reshape(-1), len(some)),
        "lindley, given pairs": (lambda: given(trace, ref), len(i)),
        "lindley, matrix": (lambda: score_part(ours, test).reshape(-1), len(i)),
        "lindley, unrelated pairs": (lambda: given(*unrelated), plan.unrelated_pairs),
    }
    if "cuda" in plan.devices:
        on_gpu = ours.map(lambda t: t.cuda())
        ways["lindley, matrix, GPU"] = (lambda: score_part(on_gpu, test).reshape(-1), len(i))
    llr = {way: np.asarray(score()) for way, (score, _) in ways.items()}  # warms up, too
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(max(plan.rounds, 5)):
        for way, (score, n) in ways.items():
            rates[way].append(n / seconds_of(score))
    same_pairs = [way for way in ways if way not in ("LiR", "lindley, unrelated pairs")]
    difference = max(float(np.abs(llr["LiR"] - llr[way][some]).max()) for way in same_pairs)
    rows = [
        {
            "way": way,
            "pairs": ways[way][1],
            "best": max(found),
            "median": statistics.median(found),
            "times_faster": statistics.median(a / b for a, b in zip(found, rates["LiR"], strict=True)),
        }
        for way, found in rates.items()
    ]
    return {
        "sources": plan.lir_sources,
        "features": plan.features,
        "rows": rows,
        "compared": len(some),
        "difference": difference,
        "llr_range": [float(llr["LiR"].min()), float(llr["LiR"].max())],
    }


def _some(same: np.ndarray, n: int) -> np.ndarray:
    """Every same-source pair up to half of n, and different-source pairs spread over all others."""
    ours, others = np.flatnonzero(same)[: n // 2], np.flatnonzero(~same)
    return np.concatenate([ours, others[:: max(1, len(others) // (n - len(ours)))][: n - len(ours)]])

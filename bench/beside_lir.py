"""Scoring beside LiR's `TwoLevelModelNormalKDE`: the same pairs, the same numbers, in one process.

Both are fitted on the same sources and score the same pairs: all traces against all refs, and some of these (half of them
same-source). lindley gets them as LiR does, every pair with its two items, and all of them as a matrix, too. Pairs of which no
two have an item in common, where nothing is shared, are compared with LiR's rate for some. Rounds of all ways alternate, so
that other work on the machine slows all of them down; LiR scores all pairs once. The numbers must be the same to `SAME` in
log10 LR.
"""

from __future__ import annotations

import statistics
import time
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
LIR_ALL, LIR_SOME = "LiR, all pairs", "LiR, some of them"
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

    ways: dict[str, tuple[Callable[[], np.ndarray], int, str]] = {
        LIR_SOME: (lambda: theirs.transform(trace[some], ref[some]).reshape(-1), len(some), LIR_SOME),
        "lindley, all pairs, given": (lambda: given(trace, ref), len(i), LIR_ALL),
        "lindley, all pairs, matrix": (lambda: score_part(ours, test).reshape(-1), len(i), LIR_ALL),
        "lindley, some of them": (lambda: given(trace[some], ref[some]), len(some), LIR_SOME),
        "lindley, unrelated pairs": (lambda: given(*unrelated), plan.unrelated_pairs, LIR_SOME),
    }
    if "cuda" in plan.devices:
        on_gpu = ours.map(lambda t: t.cuda())
        ways["lindley, all pairs, matrix, GPU"] = (lambda: score_part(on_gpu, test).reshape(-1), len(i), LIR_ALL)
    llr = {way: np.asarray(score()) for way, (score, _, _) in ways.items()}  # warms up, too
    started = time.perf_counter()
    everything = np.asarray(theirs.transform(trace, ref)).reshape(-1)
    rates: dict[str, list[float]] = {LIR_ALL: [len(i) / (time.perf_counter() - started)], **{way: [] for way in ways}}
    for _ in range(max(plan.rounds, 5)):
        for way, (score, n, _) in ways.items():
            rates[way].append(n / seconds_of(score))
    expected = {len(i): everything, len(some): everything[some]}
    difference = max(
        float(np.abs(llr[way] - expected[n]).max())
        for way, (_, n, _) in ways.items()
        if way != "lindley, unrelated pairs"
    )
    pairs_of = {LIR_ALL: len(i), **{way: n for way, (_, n, _) in ways.items()}}
    beside = {LIR_ALL: LIR_ALL, **{way: other for way, (_, _, other) in ways.items()}}
    rows = [
        {
            "way": way,
            "pairs": pairs_of[way],
            "best": max(found),
            "median": statistics.median(found),
            "times_faster": _times(found, rates[beside[way]]),
        }
        for way, found in rates.items()
    ]
    return {
        "sources": plan.lir_sources,
        "features": plan.features,
        "rows": rows,
        "compared": len(everything),
        "difference": difference,
        "llr_range": [float(everything.min()), float(everything.max())],
    }


def _times(rates: list[float], beside: list[float]) -> float:
    """The median of the ratios round by round, or to the one round that there is."""
    return statistics.median(
        a / b for a, b in zip(rates, beside if len(beside) > 1 else beside * len(rates), strict=True)
    )


def _some(same: np.ndarray, n: int) -> np.ndarray:
    """Every same-source pair up to half of n, and different-source pairs spread over all others."""
    ours, others = np.flatnonzero(same)[: n // 2], np.flatnonzero(~same)
    return np.concatenate([ours, others[:: max(1, len(others) // (n - len(ours)))][: n - len(ours)]])

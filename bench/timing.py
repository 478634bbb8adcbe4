"""Rounds of a measurement, what is told of them, and how a time grows.

Of the times t of rounds, best and median are told. A time that grows as t ∝ sizeᵃ is a straight line of slope a in
(ln size, ln t): the least-squares slope over the upper half of the sizes measured, where fixed costs no longer count.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["grow", "rounds", "seconds_of", "slope", "summary"]

WARM_UP = 1.0
"""A first round that takes less than this many seconds warms up, and does not count."""


def seconds_of(function: Callable[[], object]) -> float:
    """Of one call, which must have finished its work when it returns (a GPU's too)."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def rounds(function: Callable[[], object], least: int = 3, most: int = 9, enough: float = 1.0) -> list[float]:
    """Seconds of ``least`` rounds, and of more (up to ``most``) until they add up to ``enough`` seconds."""
    first = seconds_of(function)
    times = [] if first < WARM_UP else [first]
    while len(times) < least or (len(times) < most and sum(times) < enough):
        times.append(seconds_of(function))
    return times


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Best and median."""
    return {"best": min(times), "median": statistics.median(times), "rounds": len(times)}


def slope(times: Mapping[int, float]) -> float | None:
    """a of t ∝ sizeᵃ over the sizes from the (geometric) middle up, two at least; None of fewer than two."""
    if len(times) < 2:
        return None
    sizes = sorted(times)
    middle = math.sqrt(sizes[0] * sizes[-1])
    upper = max([s for s in sizes if s >= middle], sizes[-2:], key=len)
    return float(np.polyfit(np.log(upper), np.log([times[s] for s in upper]), 1)[0])


def grow(
    sizes: Sequence[int],
    times: Callable[[int, float], Sequence[float]],
    refuse: Callable[[int, float], str | None],
    work: Callable[[int], float] = float,
) -> dict[str, Any]:
    """Best and median at every size, and the slope of the best.

    Args:
        sizes: in increasing order.
        times: the seconds of the rounds at a size, given what a round is expected to take.
        refuse: why a size is left out, given the seconds that a round is expected to take; None if it is not.
        work: what the time goes with, as far as is known beforehand, to foresee the next point.
    """
    points: list[dict[str, Any]] = []
    left_out = []
    for size in sizes:
        expected = _expected(points, size, work)
        why = refuse(size, expected)
        if why is None:
            try:
                points.append({"size": size, **summary(times(size, expected))})
            except RuntimeError as error:  # torch's way to tell that there is no memory, on a CPU; a GPU's is one, too
                if "memory" not in str(error):
                    raise
                why = "memory was short"
        if why is not None:
            left_out.append({"size": size, "why": why})
    return {"points": points, "left_out": left_out, "slope": slope({p["size"]: p["best"] for p in points})}


def _expected(points: Sequence[Mapping[str, Any]], size: int, work: Callable[[int], float]) -> float:
    """Seconds of a round: as the last two points went on, or in proportion to the work if that is more; 0 at first."""
    if not points:
        return 0.0
    last = points[-1]
    exponent = 1.0
    if len(points) > 1 and work(last["size"]) > work(points[-2]["size"]):
        more = work(last["size"]) / work(points[-2]["size"])
        exponent = max(1.0, math.log(last["best"] / points[-2]["best"]) / math.log(more))
    return float(last["best"] * (work(size) / work(last["size"])) ** exponent)

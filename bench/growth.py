"""Growth: how long fitting, scoring and an epoch take with the number of sources, of features and of kernels.

Scoring is that of a block of 1000 × 1000 pairs (500 × 500 for the slow models), by models of so many sources: what a pair
costs does not depend on how many there are. Fits and epochs are of one run. Each axis changes alone: 10 features along
sources and kernels, 500 sources along features. Data and models are made before the clock starts.

The search of ``robust`` looks at `MOST_SEARCHED` sources at most; its densities have a kernel for every source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.plan import Plan
from bench.scoring import score_part
from bench.subjects import VARYING, fit, model_to_score, sources
from bench.timing import grow, rounds
from bench.training import epoch_seconds
from lindley.models.robust.fit import MOST_SEARCHED

__all__ = ["measure"]

LONG = 10.0
"""Seconds of a round, as far as they can be told beforehand, from which one round is enough."""
VALIDATED = 200
"""Validation sources of an epoch."""


@dataclass(frozen=True)
class Series:
    """One line of the picture."""

    what: str  # fit, score or epoch
    model: str  # or the mode of a training
    along: str  # sources, features or kernels
    device: str


def measure(plan: Plan) -> dict[str, Any]:
    """Every line: its points in seconds (of a pair, where pairs are scored), what is left out, and its slope.

    Lines that take long come last, so that what is left out when time is up is theirs.
    """
    started = time.perf_counter()
    in_order = list(_all_series(plan))
    found: dict[Series, dict[str, Any]] = {}
    for series in sorted(in_order, key=lambda s: (s.what == "fit" and s.model == "robust", s.device == "cpu")):

        def times(size: int, expected: float, series: Series = series) -> list[float]:
            return _TIMES[series.what](plan, series, size, _least(plan, expected))

        refuse = partial(_refuse, plan, series, started)
        try:
            line = grow(_sizes(plan, series.along), times, refuse, partial(_work, series))
        except ModuleNotFoundError as error:
            line = {"points": [], "left_out": [{"size": None, "why": str(error)}], "slope": None}
        if series.what == "score":
            _per_pair(line, _block(plan, series) ** 2)
        found[series] = {**vars(series), **line}
    return {
        "features": plan.features,
        "sources_along_features": plan.sources_along_features,
        "block": plan.block,
        "slow_block": plan.slow_block,
        "most_searched": MOST_SEARCHED,
        "series": [found[series] for series in in_order],
    }


def _all_series(plan: Plan) -> Iterator[Series]:
    fitted = ("tlm", "tlm-kde", "robust")
    scored = {"sources": fitted, "features": (*fitted, VARYING), "kernels": ("tlm-kde", "robust")}
    for along in ("sources", "features", "kernels"):
        if along != "kernels" and "cpu" in plan.devices:
            yield from (Series("fit", name, along, "cpu") for name in fitted)
        for device in plan.devices:
            yield from (Series("score", name, along, device) for name in scored[along])
            if along != "kernels":
                yield from (Series("epoch", mode, along, device) for mode in ("pairs", "sources"))


def _sizes(plan: Plan, along: str) -> Sequence[int]:
    return {"sources": plan.growth_sources, "features": plan.growth_features, "kernels": plan.growth_kernels}[along]


def _shape(plan: Plan, series: Series, size: int) -> tuple[int, int]:
    """Sources and features at a size."""
    return (plan.sources_along_features, size) if series.along == "features" else (size, plan.features)


def _fit_times(plan: Plan, series: Series, size: int, least: int) -> list[float]:
    part = sources(*_shape(plan, series, size), seed=0)
    return rounds(lambda: fit(series.model, part), least, enough=plan.enough)


def _score_times(plan: Plan, series: Series, size: int, least: int) -> list[float]:
    n, features = _shape(plan, series, size)
    model = model_to_score(series.model, sources(n, features, seed=0)).map(lambda t: t.to(series.device))
    block = sources(_block(plan, series), features, seed=1)
    return rounds(lambda: score_part(model, block), least, enough=plan.enough)


def _epoch_times(plan: Plan, series: Series, size: int, least: int) -> list[float]:
    n, features = _shape(plan, series, size)
    part, validate = sources(n, features, seed=0), sources(VALIDATED, features, seed=1)
    return epoch_seconds(series.model, part, validate, series.device, epochs=1 + least)


_TIMES: dict[str, Callable[[Plan, Series, int, int], list[float]]] = {
    "fit": _fit_times,
    "score": _score_times,
    "epoch": _epoch_times,
}


def _block(plan: Plan, series: Series) -> int:
    return plan.slow_block if series.model in ("robust", VARYING) else plan.block


def _work(series: Series, size: int) -> float:
    """What the time goes with, as far as it is bounded: in a fit of robust, the sources of its search."""
    bounded = series.model == "robust" and series.what == "fit" and series.along != "features"
    return float(min(size, MOST_SEARCHED)) if bounded else float(size)


def _least(plan: Plan, expected: float) -> int:
    """Rounds of a point, one if it takes long."""
    return plan.rounds if expected < LONG else 1


def _refuse(plan: Plan, series: Series, started: float, size: int, expected: float) -> str | None:
    """Why a point is left out before it is begun, if it is."""
    limit = plan.fit_limit if series.what == "fit" else plan.limit
    if expected > limit:
        return f"a round would take some {expected:.0f} s, and {limit:g} s is the limit"
    if time.perf_counter() - started + _least(plan, expected) * expected > plan.growth_seconds:
        return "the time for all points is up"
    return None


def _per_pair(line: dict[str, Any], pairs: int) -> None:
    for point in line["points"]:
        point["best"] /= pairs
        point["median"] /= pairs

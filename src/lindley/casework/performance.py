"""The figures of a validation: computed on square matrices of LLRs, one trace and one ref of every source.

See `lindley.casework.validation` for what they are for. A figure is a pair of estimates, of the raw and of the bounded LRs,
or one of them, or the reason why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lindley.casework.draws import Draw, Shape, counts, draw, ladder
from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import percentiles
from lindley.evaluation.metrics import cllr_min, devpav, eer
from lindley.evaluation.square import Costs, draw_sources, rates, replicates, square_llrs
from lindley.llrs import Floats
from lindley.system.system import System
from lindley.table.table import Table

__all__ = [
    "DEFAULTS",
    "KINDS",
    "LEVEL",
    "Comparison",
    "Estimate",
    "Figures",
    "Kind",
    "Settings",
    "Step",
    "coherence",
    "generalisation",
    "missing_replicates",
]

MIN_SOURCES = 10
FEW_SOURCES = 100
MOST_SOURCES = 1500
"""Of a larger table so many sources are drawn: two million pairs are enough, and the bootstrap holds them all."""
MOST_REPEATED = 600
"""… and so many for the figures that are means over draws, which score every pair a few dozen times."""
WORST_SHARE = 0.01
LADDER_SHARE, LADDER_SOURCES, LADDER_MOST = 0.25, 20, 10
"""The ladder of coherence ends where fewer than a quarter of the sources, or 20, have so many measurements."""
LEVEL = 0.95

Kind = Literal["raw", "bounded"]
KINDS: tuple[Kind, Kind] = ("raw", "bounded")
Sources = NDArray[np.str_]


@dataclass(frozen=True)
class Settings:
    """What `validate` may be told."""

    instances: Shape = (1, 1)  # trace and ref, of the comparison that most figures are of
    seed: int = 0
    draws: int = 5  # of the measurements, where figures are means over draws
    replicates: int = 500  # of the bootstrap
    allow_overlap: bool = False


DEFAULTS = Settings()


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval."""

    value: float
    lower: float
    upper: float

    @classmethod
    def of(cls, value: float, replicated: Floats) -> Estimate:
        """The estimate on the sources as they are, and the central part of the replicates."""
        return cls(float(value), *percentiles(replicated, LEVEL))


@dataclass(frozen=True)
class Step:
    """A step of the ladder of coherence: M × N measurements, mean over the draws."""

    instances: Shape
    raw: Estimate  # Cllr
    bounded: Estimate
    cllr_min: float  # of the raw LRs


Pair = dict[Kind, Estimate]
Figures = dict[tuple[str, str], Pair | str]
"""By characteristic and metric."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The LRs of all sources that have the measurements for it, in one draw."""

    sources: Sources
    llr: Floats
    times: Floats  # (replicates, sources)
    remarks: list[str]

    @classmethod
    def of(cls, system: System, table: Table, settings: Settings, stream: int = 0) -> Comparison:
        """Score one draw. ``stream``: tables are resampled independently of each other if these differ."""
        m, n = settings.instances
        enough = table.sources[counts(table) >= m + n]
        remarks = []
        if len(enough) < MIN_SOURCES:
            raise LindleyError(
                f"{table.name}: {len(enough)} of {len(table.sources)} sources have the {m + n} measurements that a comparison "
                f"of {m}×{n} takes, and a validation needs {MIN_SOURCES} sources at least, and hundreds to be of use."
            )
        if left := len(table.sources) - len(enough):
            remarks.append(f"{table.name}: {left} sources have fewer than {m + n} measurements, and are left out")
        sources = _some(enough, settings.seed, MOST_SOURCES)
        if len(sources) < len(enough):
            remarks.append(f"{table.name}: {len(sources)} of {len(enough)} sources are used, drawn at random")
        if len(sources) < FEW_SOURCES:
            remarks.append(f"{table.name}: {len(sources)} sources are few: look at the intervals")
        llr = draw(table, sources, settings.seed, 0).llr(system, settings.instances)
        times = draw_sources(_groups(table, sources), settings.replicates, settings.seed + stream)
        return cls(sources, llr, times, remarks)

    def figures(self, bounds: tuple[float, float]) -> Figures:
        """Accuracy, discriminating power, calibration and misleading evidence."""
        found: dict[Kind, dict[tuple[str, str], Estimate]] = {
            "raw": _figures(self.llr, self.times),
            "bounded": _figures(np.clip(self.llr, *bounds), self.times),
        }
        lower, upper = bounds
        beyond, low, high = (
            (rates(hit), rates(hit, self.times))
            for hit in ((self.llr < lower) | (self.llr > upper), self.llr < lower, self.llr > upper)
        )
        raw = {
            "misleading_beyond_bounds": ((low[0][0] + high[0][1]) / 2, (low[1][0] + high[1][1]) / 2),
            "beyond_bounds": ((beyond[0][0] + beyond[0][1]) / 2, (beyond[1][0] + beyond[1][1]) / 2),
        }
        figures: Figures = {key: {kind: found[kind][key] for kind in KINDS} for key in found["raw"]}
        for name, (value, drawn) in raw.items():
            figures["misleading_evidence", name] = {"raw": Estimate.of(float(value[0]), drawn)}
        return figures

    def outliers(self, bounds: tuple[float, float]) -> tuple[tuple[tuple[str, float], ...], Pair]:
        """The costliest 1 % of the sources, one at least, and what they add to Cllr."""
        number = int(np.ceil(WORST_SHARE * len(self.sources)))
        pair: Pair = {}
        costliest: tuple[tuple[str, float], ...] = ()
        for kind, llr in _both(self.llr, bounds):
            costs = Costs.of([llr])
            shares = costs.shares()
            worst = np.argsort(-shares, kind="stable")[:number]
            kept = np.ones(len(shares))
            kept[worst] = 0
            change = costs.cllr()[0] - costs.cllr(kept)[0]
            pair[kind] = Estimate.of(change, costs.cllr(self.times) - costs.cllr(self.times * kept))
            if kind == "raw":
                costliest = tuple((str(self.sources[i]), float(shares[i])) for i in worst)
        return costliest, pair


def _both(llr: Floats, bounds: tuple[float, float]) -> tuple[tuple[Kind, Floats], ...]:
    return ("raw", llr), ("bounded", np.clip(llr, *bounds))


def _some(sources: Sources, seed: int, most: int) -> Sources:
    """All sources, or so many of them drawn at random."""
    if len(sources) <= most:
        return sources
    chosen = np.argsort(np.random.default_rng((seed, 2)).random(len(sources)), kind="stable")[:most]
    return sources[np.sort(chosen)]


def _groups(table: Table, sources: Sources) -> Sources:
    """The group of every source."""
    names, first = np.unique(table.source, return_index=True)
    return table.group[first[np.searchsorted(names, sources)]]


def _figures(llr: Floats, times: Floats) -> dict[tuple[str, str], Estimate]:
    """The metrics of a square matrix of LLRs, with their intervals."""
    llrs, costs = square_llrs(llr), Costs.of([llr])
    drawn = replicates(llr, times, {"cllr_min": cllr_min, "eer": eer, "devpav": devpav})
    value, drawn_cllr = costs.cllr()[0], costs.cllr(times)
    low, high = (llr < 0), (llr > 0)
    return {
        ("accuracy", "cllr"): Estimate.of(value, drawn_cllr),
        ("discriminating_power", "cllr_min"): Estimate.of(cllr_min(llrs), drawn["cllr_min"]),
        ("discriminating_power", "eer"): Estimate.of(eer(llrs), drawn["eer"]),
        ("calibration", "cllr_cal"): Estimate.of(value - cllr_min(llrs), drawn_cllr - drawn["cllr_min"]),
        ("calibration", "devpav"): Estimate.of(devpav(llrs), drawn["devpav"]),
        ("misleading_evidence", "same"): Estimate.of(rates(low)[0][0], rates(low, times)[0]),
        ("misleading_evidence", "different"): Estimate.of(rates(high)[1][0], rates(high, times)[1]),
    }


def _mean_costs(system: System, draws: list[Draw], shape: Shape | None) -> tuple[dict[Kind, Costs], list[Floats]]:
    matrices = [each.llr(system, shape) for each in draws]
    bounded = [np.clip(llr, *system.bounds) for llr in matrices]
    return {"raw": Costs.of(matrices), "bounded": Costs.of(bounded)}, matrices


def _draws(table: Table, sources: Sources, settings: Settings) -> list[Draw]:
    return [draw(table, sources, settings.seed, 1, number) for number in range(settings.draws)]


def missing_replicates(system: System, table: Table, settings: Settings) -> Pair | str:
    """What one measurement each costs, where the table has more: Cllr of 1×1 less Cllr of all."""
    sources = _some(table.sources[counts(table) >= 3], settings.seed, MOST_REPEATED)
    if len(sources) < MIN_SOURCES:
        return f"{len(sources)} sources have three measurements or more, and it takes {MIN_SOURCES}"
    times = draw_sources(_groups(table, sources), settings.replicates, settings.seed)
    drawn = _draws(table, sources, settings)
    one, every = (_mean_costs(system, drawn, shape)[0] for shape in ((1, 1), None))
    return {
        kind: Estimate.of(one[kind].cllr()[0] - every[kind].cllr()[0], one[kind].cllr(times) - every[kind].cllr(times))
        for kind in KINDS
    }


def coherence(system: System, table: Table, settings: Settings) -> tuple[tuple[Step, ...], int, Figures]:
    """Cllr as measurements are added, of the sources that have the most of them."""
    number = counts(table)
    wanted = max(LADDER_SOURCES, LADDER_SHARE * int((number >= 2).sum()))
    most = max((total for total in range(2, LADDER_MOST + 1) if (number >= total).sum() >= wanted), default=0)
    if most < 3:
        why = f"too few sources have three measurements or more ({int((number >= 3).sum())} of {len(number)})"
        return (), 0, {("coherence", "gain"): why, ("coherence", "largest_rise"): why}
    sources = _some(table.sources[number >= most], settings.seed, MOST_REPEATED)
    times = draw_sources(_groups(table, sources), settings.replicates, settings.seed)
    drawn = _draws(table, sources, settings)
    steps: list[Step] = []
    values: dict[Kind, list[tuple[float, Floats]]] = {kind: [] for kind in KINDS}
    for shape in ladder(most):
        costs, matrices = _mean_costs(system, drawn, shape)
        for kind in KINDS:
            values[kind].append((float(costs[kind].cllr()[0]), costs[kind].cllr(times)))
        after_pav = float(np.mean([cllr_min(square_llrs(llr)) for llr in matrices]))
        raw, bounded = (Estimate.of(*values[kind][-1]) for kind in KINDS)
        steps.append(Step(shape, raw, bounded, after_pav))
    gain: Pair = {}
    rise: Pair = {}
    for kind, found in values.items():
        (first, first_drawn), (last, last_drawn) = found[0], found[-1]
        gain[kind] = Estimate.of(first - last, first_drawn - last_drawn)
        at = int(np.argmax([b[0] - a[0] for a, b in pairwise(found)]))
        rise[kind] = Estimate.of(found[at + 1][0] - found[at][0], found[at + 1][1] - found[at][1])
    return tuple(steps), len(sources), {("coherence", "gain"): gain, ("coherence", "largest_rise"): rise}


def generalisation(
    system: System,
    table: Table,
    other: Comparison | None,
    main: Comparison,
    trained: dict[str, Any] | None,
    settings: Settings,
) -> Figures:
    """Cllr here against that in the system's file, which is of raw LRs of 1×1; and on another table against that here."""
    figures: Figures = {}
    before = (trained or {}).get("cllr")
    if isinstance(before, int | float):
        sources = main.sources
        llr = main.llr if settings.instances == (1, 1) else draw(table, sources, settings.seed, 0).llr(system, (1, 1))
        costs = Costs.of([llr])
        change = Estimate.of(costs.cllr()[0] - before, costs.cllr(main.times) - before)
        figures["generalisation", "validation"] = {"raw": change}
    else:
        figures["generalisation", "validation"] = "the system's file does not hold a validation of its own"
    if other is None:
        why = "no other table was given (--other)"
        return figures | {("generalisation", "other_cllr"): why, ("generalisation", "other_change"): why}
    cllr: Pair = {}
    difference: Pair = {}
    for (kind, here_llr), (_, llr) in zip(_both(main.llr, system.bounds), _both(other.llr, system.bounds), strict=True):
        here_costs, costs = Costs.of([here_llr]), Costs.of([llr])
        cllr[kind] = Estimate.of(costs.cllr()[0], costs.cllr(other.times))
        difference[kind] = Estimate.of(
            costs.cllr()[0] - here_costs.cllr()[0], costs.cllr(other.times) - here_costs.cllr(main.times)
        )
    return figures | {("generalisation", "other_cllr"): cllr, ("generalisation", "other_change"): difference}

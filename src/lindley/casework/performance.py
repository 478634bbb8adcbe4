"""The figures of a validation: computed on square matrices of LLRs, one trace and one ref of every source.

See `lindley.casework.validation` for what they are for. A figure is a pair of estimates, of the raw and of the bounded LRs,
or one of them, or the reason why there is none.

The measurements of sources are drawn as traces and refs: so many of each, at random, and nested. In a draw those of every
source stand in a random order. A comparison of M × N measurements takes them from the front, in the order trace, ref, ref,
trace, ref, trace, ref, …; so that 1×2 is 1×1 with one measurement more, 2×2 is 1×2 with one more, and so on: what changes
from one to the next is that measurement and nothing else. Of a source with several sessions the trace takes them from the front
of one, and the ref from the front of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.evaluation.bootstrap import Estimate, draw_sources, proportion, replicates
from lindley.evaluation.metrics import cllr_min, devpav, eer
from lindley.evaluation.pair_grid import PairGrid, PairSums
from lindley.llrs import Floats
from lindley.system.system import System
from lindley.table.splits import Side, have_pairs, order_instances, pair_weights, session_first, session_pairs
from lindley.table.table import Table

__all__ = [
    "DEFAULTS",
    "KINDS",
    "Figures",
    "Kind",
    "LadderStep",
    "Scores",
    "Settings",
    "coherence",
    "comparisons",
    "draw",
    "generalisation",
    "ladder",
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

Kind = Literal["raw", "bounded"]
KINDS: tuple[Kind, Kind] = ("raw", "bounded")
Sources = NDArray[np.str_]
Index = NDArray[np.intp]
Shape = tuple[int, int]
Pair = dict[Kind, Estimate]
Figures = dict[tuple[str, str], Pair | str]
"""By characteristic and metric."""
SIDES = ("same", "different")
METRICS = (
    ("accuracy", "cllr"),
    ("discriminating_power", "cllr_min"),
    ("discriminating_power", "eer"),
    ("calibration", "cllr_cal"),
    ("calibration", "devpav"),
)


@dataclass(frozen=True)
class Settings:
    """What `validate` may be told."""

    instances: Shape = (1, 1)  # trace and ref, of the comparison that most figures are of
    seed: int = 0
    draws: int = 5  # of the measurements: figures are means over draws
    replicates: int = 500  # of the bootstrap
    allow_overlap: bool = False


DEFAULTS = Settings()


@dataclass(frozen=True)
class LadderStep:
    """A step of the ladder of coherence: M × N measurements, mean over the draws."""

    instances: Shape
    raw: Estimate  # Cllr
    bounded: Estimate
    cllr_min: float  # of the raw LRs


def counts(table: Table) -> Index:
    """Measurements of every source (sources,), in the order of ``table.sources``."""
    return np.unique(table.source, return_counts=True)[1]


def ladder(most: int) -> list[Shape]:
    """1×1, 1×2, 2×2, 2×3, …: one measurement more at every step, up to ``most`` in all.

    >>> ladder(5)
    [(1, 1), (1, 2), (2, 2), (2, 3)]
    """
    return [(total // 2, total - total // 2) for total in range(2, most + 1)]


@dataclass(frozen=True, eq=False)
class Draw:
    """The measurements of some sources in a random order each."""

    table: Table
    sources: Sources  # (sources,)
    rows: tuple[Index, ...]  # of every source, in the order of the draw
    front: Index  # (sources,) rows in front that are the session of the trace; none of a source with one session

    def sides(self, shape: Shape | None = None) -> tuple[Side, Side]:
        """Traces and refs of M × N measurements; or of all: half as trace, or its session, and the others as ref."""
        taken = [_taken(rows, front, shape) for rows, front in zip(self.rows, self.front.tolist(), strict=True)]
        trace, ref = (self._side([each[side] for each in taken]) for side in (0, 1))
        return trace, ref

    def llr(self, system: System, shape: Shape | None = None) -> Floats:
        """log10 LRs (sources, sources) of the `sides`."""
        llr = system.llr_sides(*self.sides(shape))
        if not np.isfinite(llr).all():
            i, j = np.argwhere(~np.isfinite(llr))[0]
            raise LindleyError(
                f"{self.table.name}: the LR of '{self.sources[i]}' and '{self.sources[j]}' is not finite. Look at their "
                "measurements with 'lindley check'."
            )
        return llr

    def _side(self, rows: list[Index]) -> Side:
        item = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        return Side(self.table.values[np.concatenate(rows)], item, self.sources)


def draw(table: Table, sources: Sources, *seed: int, shapes: Sequence[Shape] = ((1, 1),)) -> Draw:
    """Shuffle the measurements of the sources that are named, for comparisons of some numbers of measurements."""
    rows, count = order_instances(table.source, np.random.default_rng(seed))
    rows, front = session_first(rows, count, table.session, shapes)
    each, which = np.split(rows, np.cumsum(count)[:-1]), np.searchsorted(table.sources, sources)
    return Draw(table, sources, tuple(each[i] for i in which.tolist()), front[which])


def _taken(rows: Index, front: int, shape: Shape | None) -> tuple[Index, Index]:
    """Of the measurements of a source those of its trace and those of its ref."""
    if front:
        m, n = shape or (front, len(rows))
        return rows[:front][:m], rows[front:][:n]
    trace, ref = _places(shape or (len(rows) // 2, len(rows) - len(rows) // 2))
    return rows[trace], rows[ref]


def _places(shape: Shape) -> tuple[list[int], list[int]]:
    """Where the traces and the refs stand: turn by turn from trace, ref, ref, trace, ref, trace, … until each has its own."""
    trace, ref = [0], [1]
    while len(trace) < shape[0] or len(ref) < shape[1]:
        place = len(trace) + len(ref)
        to_ref = len(ref) < shape[1] and (len(ref) <= len(trace) or len(trace) == shape[0])
        (ref if to_ref else trace).append(place)
    return trace, ref


@dataclass(frozen=True, eq=False)
class Scores:
    """The LRs of all sources that have the measurements for it, in several draws of traces and refs.

    Figures are means over the draws. For their intervals the sources are resampled, and each resampling takes one of the draws
    in turn: which measurements happened to be compared is a chance like that of the sources.
    """

    sources: Sources
    matrices: tuple[Floats, ...]  # log10 LRs (sources, sources), one of every draw
    grid: PairGrid
    bounds: tuple[float, float]
    times: Floats  # (1 + replicates, sources), as `draw_sources` has them
    groups: int  # of the sources, each of them independent of the others
    remarks: list[str]

    @classmethod
    def of(cls, system: System, table: Table, settings: Settings, stream: int = 0) -> Scores:
        """Score the draws. ``stream``: tables are resampled independently of each other if these differ."""
        m, n = settings.instances
        enough = table.sources[have_pairs(table.source, table.session, [settings.instances])[0]]
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
        bounds, shape = system.bounds_for(m, n)
        if shape != settings.instances:
            remarks.append(
                f"the system's bounds are those of {shape[0]}×{shape[1]} measurements: its training data had too few sources "
                f"with the {m + n} of {m}×{n}"
            )
        some = np.isin(table.source, sources)
        if pairs := session_pairs(table.source[some], None if table.session is None else table.session[some]):
            remarks.append(
                f"{table.name}: of the same-source pairs {pairs['two_sessions']} are of two sessions and "
                f"{pairs['one_session']} of one"
            )
        groups = len(np.unique(_groups(table, sources)))
        return cls(
            sources,
            tuple(each.llr(system, settings.instances) for each in comparisons(table, sources, settings)),
            square(system, table, sources),
            bounds,
            _times(table, sources, settings, stream),
            groups,
            remarks,
        )

    @property
    def llr(self) -> Floats:
        """Of the first draw, for plots."""
        return self.matrices[0]

    def cllr(self) -> dict[Kind, Floats]:
        """Cllr of both kinds, for every row of ``times``."""
        return {kind: self._of_kind(kind, _cllr)["cllr"] for kind in KINDS}

    def drawn(self, kind: Kind) -> dict[tuple[str, str], Floats]:
        """Figures by characteristic and metric, (1 + replicates,): on the sources as they are, and as they are drawn."""
        found, rates = self._of_kind(kind, _by_order), self._of_kind(kind, _misleading)
        by_order = {(characteristic, metric): found[metric] for characteristic, metric in METRICS}
        return by_order | {("misleading_evidence", side): rates[side] for side in SIDES}

    def figures(self) -> Figures:
        """Accuracy, discriminating power, calibration and misleading evidence."""
        drawn = {kind: self.drawn(kind) for kind in KINDS}
        figures: Figures = {key: {kind: self.estimate(key, drawn[kind][key]) for kind in KINDS} for key in drawn["raw"]}
        for name, rate in (("misleading_beyond_bounds", self._misleading_beyond), ("beyond_bounds", self._beyond)):
            rates = self._of_kind("raw", rate)
            sides = [self.estimate(("misleading_evidence", side), rates[side]) for side in SIDES]
            mean = (float(np.mean([getattr(each, end) for each in sides])) for end in ("value", "lower", "upper"))
            figures["misleading_evidence", name] = {"raw": Estimate(*mean)}
        return figures

    def estimate(self, key: tuple[str, str], drawn: Floats) -> Estimate:
        """A figure with its interval; the limits of a share of pairs are right also where none was seen."""
        if key[0] == "misleading_evidence":
            pairs = self.groups * (self.groups - 1) / 2  # independent at the best: one, whichever is the trace
            return proportion(drawn, self.groups, pairs if key[1] == "different" else self.groups)
        return Estimate.of(drawn)

    def outliers(self) -> tuple[tuple[tuple[str, float], ...], Pair]:
        """The costliest 1 % of the sources, one at least, by the raw LRs; and what they add to Cllr, each kind its own."""
        number = int(np.ceil(WORST_SHARE * len(self.sources)))
        pair: Pair = {}
        costliest: list[tuple[str, float]] = []
        for kind, costs in _costs(self.grid, self.matrices, [self.bounds] * len(self.matrices)).items():
            shares = np.sum(costs.shares(), axis=0)
            worst = np.argsort(-shares, kind="stable")[:number]
            kept = ~np.isin(np.arange(len(shares)), worst)

            def added(grid: PairGrid, llr: Floats, times: Floats, kept: NDArray[np.bool_] = kept) -> dict[str, Floats]:
                costs = PairSums.costs(grid, llr)
                return {"added": costs.mean(times) - costs.mean(times * kept)}

            pair[kind] = Estimate.of(self._of_kind(kind, added)["added"])
            costliest += [(str(self.sources[i]), float(shares[i])) for i in worst if kind == "raw"]
        return tuple(costliest), pair

    def _of_kind(
        self, kind: Kind, figures: Callable[[PairGrid, Floats, Floats], dict[str, Floats]]
    ) -> dict[str, Floats]:
        """Figures (1 + replicates,) of raw or bounded LRs: first their mean over the draws, then every replicate's own."""
        found = []
        for number, llr in enumerate(self.matrices):
            rows = np.r_[0, np.arange(1 + number, len(self.times), len(self.matrices))]
            found.append(figures(self.grid, llr if kind == "raw" else np.clip(llr, *self.bounds), self.times[rows]))
        return {
            name: np.concatenate([[np.mean([each[name][0] for each in found])], *(each[name][1:] for each in found)])
            for name in found[0]
        }

    def _misleading_beyond(self, grid: PairGrid, llr: Floats, times: Floats) -> dict[str, Floats]:
        return _rates(grid, llr < self.bounds[0], llr > self.bounds[1], times)

    def _beyond(self, grid: PairGrid, llr: Floats, times: Floats) -> dict[str, Floats]:
        beyond = (llr < self.bounds[0]) | (llr > self.bounds[1])
        return _rates(grid, beyond, beyond, times)


def square(system: System, table: Table, sources: Sources) -> PairGrid:
    """The pairs of one trace and one ref of every source; those of one group weigh what the system was made for."""
    number, group = np.arange(len(sources)), _groups(table, sources)
    weight = pair_weights(number[:, None] == number, np.asarray(group[:, None] == group), system.mates)
    return PairGrid.of(number, number, weight)


def _groups(table: Table, sources: Sources) -> NDArray[np.str_]:
    """The group of every source."""
    names, first = np.unique(table.source, return_index=True)
    return table.group[first[np.searchsorted(names, sources)]]


def _costs(
    grid: PairGrid, matrices: Sequence[Floats], bounds: Sequence[tuple[float, float] | Floats]
) -> dict[Kind, PairSums]:
    """Of the raw and of the bounded LRs, mean over several matrices, each with its bounds."""
    bounded = (np.clip(each, *ends) for each, ends in zip(matrices, bounds, strict=True))
    return {"raw": PairSums.costs(grid, *matrices), "bounded": PairSums.costs(grid, *bounded)}


def _rates(grid: PairGrid, same: NDArray[np.bool_], different: NDArray[np.bool_], times: Floats) -> dict[str, Floats]:
    """Of how many pairs something holds, of the same-source ones and of the others."""
    sums = PairSums.of(grid, same.diagonal().astype(np.float64), different.astype(np.float64))
    return dict(zip(SIDES, sums.means(times), strict=True))


def _misleading(grid: PairGrid, llr: Floats, times: Floats) -> dict[str, Floats]:
    return _rates(grid, llr < 0, llr > 0, times)


def _cllr(grid: PairGrid, llr: Floats, times: Floats) -> dict[str, Floats]:
    return {"cllr": PairSums.costs(grid, llr).mean(times)}


def _some(sources: Sources, seed: int, most: int) -> Sources:
    """All sources, or so many of them drawn at random."""
    if len(sources) <= most:
        return sources
    chosen = np.argsort(np.random.default_rng((seed, 2)).random(len(sources)), kind="stable")[:most]
    return sources[np.sort(chosen)]


def _times(table: Table, sources: Sources, settings: Settings, stream: int = 0) -> Floats:
    """The sources resampled, those of one group together."""
    return draw_sources(_groups(table, sources), settings.replicates, settings.seed + stream)


def _by_order(grid: PairGrid, llr: Floats, times: Floats) -> dict[str, Floats]:
    """The `METRICS` of a square matrix of LLRs, for every row of ``times``."""
    cllr = PairSums.costs(grid, llr).mean(times)
    found = replicates(grid, llr, times, {"cllr_min": cllr_min, "eer": eer, "devpav": devpav})
    found["devpav"][0] = devpav(grid.llrs(llr))  # exactly, where replicates are close enough
    return {"cllr": cllr, "cllr_cal": cllr - found["cllr_min"], **found}


def comparisons(table: Table, sources: Sources, settings: Settings) -> list[Draw]:
    """The draws of the comparison that most figures are of."""
    return [
        draw(table, sources, settings.seed, 0, *([number] if number else []), shapes=[settings.instances])
        for number in range(settings.draws)
    ]


def _draws(table: Table, sources: Sources, settings: Settings, shapes: Sequence[Shape]) -> list[Draw]:
    return [draw(table, sources, settings.seed, 1, number, shapes=shapes) for number in range(settings.draws)]


def missing_replicates(system: System, table: Table, settings: Settings) -> Pair | str:
    """What one measurement each costs, where the table has more: Cllr of 1×1 less Cllr of all."""
    sources = _some(table.sources[counts(table) >= 3], settings.seed, MOST_REPEATED)
    if len(sources) < MIN_SOURCES:
        return f"{len(sources)} sources have three measurements or more, and it takes {MIN_SOURCES}"
    times, drawn = _times(table, sources, settings), _draws(table, sources, settings, [(1, 1)])
    grid = square(system, table, sources)
    one = _costs(grid, [each.llr(system, (1, 1)) for each in drawn], [system.bounds] * len(drawn))
    bounds = [system.bounds_of_pairs(*(side.count for side in each.sides())) for each in drawn]
    every = _costs(grid, [each.llr(system) for each in drawn], bounds)
    return {kind: Estimate.of(one[kind].mean(times) - every[kind].mean(times)) for kind in KINDS}


def coherence(system: System, table: Table, settings: Settings) -> tuple[tuple[LadderStep, ...], int, Figures]:
    """Cllr as measurements are added, of the sources that have the most of them."""
    every = ladder(LADDER_MOST)
    have = have_pairs(table.source, table.session, every)
    number = have.sum(axis=1)
    shapes = every[: max(np.flatnonzero(number >= max(LADDER_SOURCES, LADDER_SHARE * number[0])), default=-1) + 1]
    if len(shapes) < 2:
        why = f"too few sources have three measurements or more ({number[1]} of {have.shape[1]})"
        return (), 0, {("coherence", "gain"): why, ("coherence", "largest_rise"): why}
    sources = _some(table.sources[have[len(shapes) - 1]], settings.seed, MOST_REPEATED)
    times, drawn = _times(table, sources, settings), _draws(table, sources, settings, shapes)
    grid = square(system, table, sources)
    steps: list[LadderStep] = []
    cllr: dict[Kind, list[Floats]] = {kind: [] for kind in KINDS}  # of every step, for every row of times
    for shape in shapes:
        matrices = [each.llr(system, shape) for each in drawn]
        for kind, costs in _costs(grid, matrices, [system.bounds_for(*shape)[0]] * len(matrices)).items():
            cllr[kind].append(costs.mean(times))
        after_pav = float(np.mean([cllr_min(grid.llrs(llr)) for llr in matrices]))
        steps.append(LadderStep(shape, Estimate.of(cllr["raw"][-1]), Estimate.of(cllr["bounded"][-1]), after_pav))
    gain: Pair = {kind: Estimate.of(each[0] - each[-1]) for kind, each in cllr.items()}
    rise: Pair = {
        kind: Estimate.of(max((b - a for a, b in pairwise(each)), key=lambda step: step[0]))
        for kind, each in cllr.items()
    }
    return tuple(steps), len(sources), {("coherence", "gain"): gain, ("coherence", "largest_rise"): rise}


def generalisation(system: System, table: Table, other: Scores | None, main: Scores, settings: Settings) -> Figures:
    """Cllr here against that in the system's file, which is of raw LRs of 1×1; and on another table against that here."""
    figures: Figures = {}
    before = system.about.get("validation", {}).get("cllr")
    if isinstance(before, int | float):
        at_one = main
        if settings.instances != (1, 1):
            drawn = comparisons(table, main.sources, settings)
            at_one = replace(main, matrices=tuple(each.llr(system, (1, 1)) for each in drawn))
        change = at_one.cllr()["raw"] - before
        figures["generalisation", "validation"] = {"raw": Estimate.of(change)}
    else:
        figures["generalisation", "validation"] = "the system's file does not hold a validation of its own"
    if other is None:
        why = "no other table was given (--other)"
        return figures | {("generalisation", "other_cllr"): why, ("generalisation", "other_change"): why}
    here, there = main.cllr(), other.cllr()
    return figures | {
        ("generalisation", "other_cllr"): {kind: Estimate.of(there[kind]) for kind in KINDS},
        ("generalisation", "other_change"): {kind: Estimate.of(there[kind] - here[kind]) for kind in KINDS},
    }

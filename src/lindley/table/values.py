"""Find numbers that are probably no measurements, rows that summarise others, and tables that need a logarithm.

Measurements are compared with the others of their source, and sources with all others, in units of the usual deviation. Both
are medians, which a few wrong values do not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lindley.settings import setting
from lindley.table.check import Measurements
from lindley.table.findings import Finding, Level, listing, quoted
from lindley.table.scaling import TransformKind, leaves_range, spread
from lindley.table.units import Units, power_between

__all__ = ["check_concentrations", "check_growth", "check_summaries", "check_values"]

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

FAR = 10.0
"""Times the usual deviation from which a measurement is far from the others of its source, or a source from all others (more
in small tables, whose usual deviation is uncertain) …"""
TAIL = 5.0
"""… if it is also so many times further than 99 % of them in its column. Tails are heavy: of 4,610 sources of fourteen public
tables, 46 hold a measurement that is reported, by this or the next (28 of them in one table), and one is reported itself."""
WIDE = 5.0
"""Times the usual deviation, and beyond 99 % of them, that a measurement is from the others in half of its features at once."""
FITS = 4.0
"""Times the usual deviation within which a measurement agrees with the others, once its decimal is put back."""
BEYOND = 2.0
"""Standard deviations between sources that a source is beyond the range of all others, in half of the features at once."""
REPEATED = 3
"""Cells of a column that hold one and the same value far from all others: a code, and no measurement."""
BY_CHANCE = 0.01
"""Rows that may be expected to be the mean of others by chance; in a table where it would be more, nothing is concluded."""
GROWS = 0.5
"""Power of the level by which the scatter grows; a logarithm is right for 1, no logarithm for 0."""
RANGE = 1.5
"""Times that levels must differ between the lower and the upper third of the sources for a logarithm to matter."""
FEWEST = 10
"""Sources below which nothing is said of sources …"""
SPARE = 6
"""… and rows beyond one of each source, below which nothing is said of rows."""
FEW = 3
"""Sources that may be wrong at once, and do not hide each other."""
_CELLS = 1 << 16  # that are looked at together
_MOST = 1000  # sources of equal size whose means are looked for one by one


class _Sources:
    """The rows of a table by their sources: ``codes`` (rows,) from 0, and ``counts`` (sources,)."""

    def __init__(self, data: Measurements) -> None:
        _, self.codes, self.counts = np.unique(data.labels.source, return_inverse=True, return_counts=True)
        self.order = np.argsort(self.codes, kind="stable")
        self.start = np.cumsum(self.counts) - self.counts

    def by_size(self, least: int = 1) -> Iterator[tuple[Places, Places]]:
        """Sources with equally many measurements, and their rows (source, measurement) in the order of the table."""
        for size in np.unique(self.counts):
            if size >= least:
                which = np.flatnonzero(self.counts == size)
                yield which, self.order[self.start[which][:, None] + np.arange(size)]

    def medians(self, values: Floats) -> tuple[Floats, Floats]:
        """The median of every source (source, feature), and for every row that of the others of its source; NaN without."""
        own, others = np.empty((len(self.counts), values.shape[1])), np.full(values.shape, np.nan)
        for which, rows in self.by_size():
            size = rows.shape[1]
            turn = np.argsort(values[rows], axis=1)
            ordered = np.take_along_axis(values[rows], turn, 1)
            own[which] = (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2
            if size < 2:
                continue
            rank = np.argsort(turn, axis=1)
            others[rows] = 0.0
            # of the others: one place further where the measurement itself stands before them
            for place in ((size - 2) // 2, (size - 1) // 2):
                others[rows] += np.where(rank <= place, ordered[:, [place + 1]], ordered[:, [place]]) / 2
        return own, others


def _usual(deviations: Floats) -> Floats:
    """The standard deviation by the median of absolute deviations, along the first axis; where that is 0, of the others."""
    size = np.abs(deviations)
    usual = np.median(size, axis=0)
    for place in np.flatnonzero(usual == 0):
        other = size[size[:, place] > 0, place]
        usual[place] = np.median(other) if len(other) else np.inf
    return np.asarray(1.4826 * usual)


def _tail(deviations: Floats, besides: int) -> Floats:
    """What 99 % of deviations are below (feature,), or all of them ``besides`` so many."""
    share = 1 - max(0.01, besides / len(deviations))
    return np.asarray(np.quantile(np.abs(deviations), max(share, 0.5), axis=0))


def check_values(data: Measurements, transform: TransformKind = "none") -> list[Finding]:
    """Codes in place of values, measurements far from the others of their source, and sources far from all others."""
    codes = _codes(data)
    sources = _Sources(data)
    coded = [data.features.index(str(finding.column)) for finding in codes]
    usable = np.isfinite(data.transformed).all(axis=0) & ~leaves_range(data.transformed)
    places = np.setdiff1d(np.flatnonzero(usable), coded)
    if not len(places):
        return codes
    cells = _Cells(data, sources, len(places))
    medians = np.empty((len(sources.counts), len(places)))
    relative = np.zeros(len(places), dtype=bool)
    block = max(1, _CELLS // len(data.raw))
    for first in range(0, len(places), block):
        part = slice(first, first + block)
        values, relative[part] = _natural(data, sources, places[part], transform)
        medians[:, part], others = sources.medians(values)
        if len(data.raw) >= len(sources.counts) + SPARE:
            cells.add(places[part], values, others, medians[:, part], relative[part])
    return codes + cells.findings() + _far_sources(data, sources, places, medians, relative)


def _natural(
    data: Measurements, sources: _Sources, places: Places, transform: TransformKind
) -> tuple[Floats, NDArray[np.bool_]]:
    """Columns as their scatter is about equal at every level, and which of them are natural logarithms."""
    if transform != "none":
        return data.transformed[:, places] * (np.log(10) if transform == "log10" else 1.0), np.ones(len(places), bool)
    values = data.raw[:, places]
    relative = np.asarray((values > 0).all(axis=0))
    if relative.any():
        correlation, level, scatter, limit = _growth(values[:, relative], sources)
        relative[relative] = (correlation > limit) & (scatter > GROWS * level)
        values[:, relative] = np.log(values[:, relative])
    return values, relative


class _Cell(NamedTuple):
    """A measurement that is far from the others of its source."""

    times: float  # the usual deviation
    row: int
    place: int
    others: float  # the median of the others
    mark: str  # what it may be


class _Cells:
    """Search some features at a time for measurements that are far from the others of their source.

    One may be far in a single feature, or less far in half of all ``n_features``. Codes among other values are found here too.
    """

    def __init__(self, data: Measurements, sources: _Sources, n_features: int) -> None:
        self.data, self.sources, self.n_features = data, sources, n_features
        self.codes: list[Finding] = []
        self.cells: list[_Cell] = []
        rows = len(data.raw)
        self.count = np.zeros(rows, dtype=np.intp)  # of the features in which a row is rather far
        # of every row, the feature in which it is furthest
        self.times, self.others, self.place = np.zeros(rows), np.zeros(rows), np.zeros(rows, dtype=np.intp)

    def add(self, places: Places, values: Floats, others: Floats, medians: Floats, relative: NDArray[np.bool_]) -> None:
        """Look at features in ``places``: values and medians of the others (row, feature), medians (source, feature)."""
        known = np.isfinite(others[:, 0])
        away = values - others
        size = np.abs(away)
        usual, tail = _usual(away[known]), _tail(away[known], FEWEST)
        slipped = np.zeros(values.shape, dtype=bool)
        limit = FAR * (1 + FEWEST / (len(values) - len(medians))) * usual
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            for power in (-3, -2, -1, 1, 2, 3):
                put_back = np.where(relative, away - power * np.log(10), values * 10.0**-power - others)
                slipped |= (size > limit) & (np.abs(put_back) < FITS * usual)
            # where 0 is near, or the scatter is large, anything agrees
            slipped &= np.where(relative, np.log(10), np.abs(others)) > 5 * FITS * usual
            hits = (size > np.maximum(limit, TAIL * tail)) | slipped
            times = np.nan_to_num(size / usual)
            middle = np.where(relative, self.data.raw[:, places] / np.exp(away), others)
            self.count += (size > np.maximum(WIDE / FAR * limit, tail)).sum(axis=1)
        most = times.argmax(axis=1)
        rows = np.flatnonzero(times.max(axis=1) > self.times)
        at = rows, most[rows]
        self.times[rows], self.others[rows], self.place[rows] = times[at], middle[at], places[at[1]]

        own = np.abs(values - medians[self.sources.codes]) > limit / 2  # of two, each is half as far from their median
        for column, place in enumerate(places.tolist()):
            if code := _codes_among(self.data, place, self.sources, own[:, column]):
                self.codes.append(code)
                hits[:, column] = False
        from_all = np.abs(values - np.median(medians, axis=0))
        for row, column in np.argwhere(hits).tolist():
            of_source = np.flatnonzero(self.sources.codes == self.sources.codes[row])
            # of two measurements, the one further from all sources is wrong; else the others of a good one hold the bad one
            by, share = (from_all, 1.0) if len(of_source) == 2 else (size, 0.75)
            if by[row, column] < share * by[of_source, column].max():
                continue
            if slipped[row, column]:
                mark = ": a slipped decimal?"
            else:
                mark = "" if relative[column] else _shift(float(away[row, column]), float(usual[column]))
            self.cells.append(_Cell(times[row, column], row, int(places[column]), middle[row, column], mark))

    def findings(self) -> list[Finding]:
        """The codes, and one finding for every row with measurements that are far, the furthest first."""
        by_row: dict[int, list[_Cell]] = {}
        for cell in self.cells:
            by_row.setdefault(cell.row, []).append(cell)
        for row in np.flatnonzero(self.count >= max(2, self.n_features / 2)).tolist():
            if self.times[row] > 0.75 * self.times[self.sources.codes == self.sources.codes[row]].max():
                mark = f", and {self.count[row]} of {self.n_features} features are: a measurement of another source?"
                by_row.setdefault(row, [_Cell(self.times[row], row, int(self.place[row]), self.others[row], mark)])
        ordered = [sorted(cells, key=lambda cell: -cell.times) for cells in by_row.values()]
        return self.codes + [self._of_row(cells) for cells in sorted(ordered, key=lambda cells: -cells[0].times)]

    def _of_row(self, cells: Sequence[_Cell]) -> Finding:
        data, (times, row, place, others, mark) = self.data, cells[0]
        value, column, source = float(data.raw[row, place]), data.features[place], quoted([data.labels.source[row]])[0]
        factor = data.raw[:, place].min() > 0 or mark.startswith(": a slip")
        by = f"{value / others:.3g} times " if factor else "far from "
        message = f"{value:g} is {by}the other measurements of source {source} ({others:.4g}), {times:,.0f} "
        message += f"standard deviations within sources away{mark}"
        if len(cells) > 1:
            features = listing(quoted(data.features[each.place] for each in cells), 6)
            message = f"{features} are far from other measurements of the source. Of {quoted([column])[0]}, {message}"
        fix = "Check it against the instrument's record"
        where = None if len(cells) > 1 else column
        return Finding("warning", "far-from-replicates", message, fix, data.file, (data.rows[row],), where)


def _shift(away: float, usual: float) -> str:
    """What a difference of about 1 is between logarithms, or one of ln 10, if it is that of a factor of ten."""
    for kind, unit in (("log10", 1.0), ("ln", float(np.log(10)))):
        for power in (1, 2, 3):
            if unit > 5 * FITS * usual and abs(abs(away) - power * unit) < FITS * usual:
                return f": if these are {kind}, that is a factor of {10**power:,}, a slipped decimal?"
    return ""


def _far_sources(
    data: Measurements, sources: _Sources, places: Places, medians: Floats, relative: NDArray[np.bool_]
) -> list[Finding]:
    """Sources far from all others in a feature, or a little beyond them in half of the features at once."""
    if len(medians) < FEWEST:
        return []
    centre = np.median(medians, axis=0)
    away = medians - centre
    sd = _usual(away)
    trimmed = max(FEW - 1, len(medians) // 100)  # that may be there too
    small = 1 + FEWEST / len(medians)
    ordered = np.sort(medians, axis=0)
    outside = np.maximum(medians - ordered[-1 - trimmed], ordered[trimmed] - medians) > BEYOND * small * sd
    limit = FAR * small * sd
    far = np.abs(away) > np.maximum(limit, TAIL * _tail(away, FEW))
    hits = np.flatnonzero(far.any(axis=1) | (outside.sum(axis=1) >= max(2, len(places) / 2)))
    findings = []
    for source in hits.tolist():
        those = np.flatnonzero(far[source] | outside[source])
        most = those[np.argmax(np.abs(away[source, those]) / sd[those])]
        rows = np.flatnonzero(sources.codes == source)
        name, here = data.features[places[most]], float(np.median(data.raw[rows, places[most]]))
        by = float(np.exp(away[source, most])) if relative[most] else None
        if by is None and min(here, centre[most]) > 0:
            by = here / float(centre[most])
        level = f"{here:.4g}" + (f", {by:,.3g} times the median of the sources" if by is not None else "")
        several = f"{len(those)} of {len(places)} features, such as " if len(those) > 1 else ""
        label = quoted([data.labels.source[rows[0]]])[0]
        message = (
            f"the source {label} is far from all others in {several}'{name}' ({level}): another unit, or a wrong entry?"
        )
        fix = "Check its measurements against the instrument's record"
        where = tuple(data.rows[row] for row in rows.tolist())
        findings.append(Finding("warning", "far-from-sources", message, fix, data.file, where))
    return findings


def _codes(data: Measurements) -> list[Finding]:
    """One value that several cells of a column hold, far below or above all others: such as -999."""
    findings = []
    for place, values in enumerate(data.raw.T):
        for code in (values.min(), values.max()):
            held = values == code
            rest = values[~held]
            if held.sum() < REPEATED or len(np.unique(rest)) < REPEATED:  # or there is a NaN
                continue
            with np.errstate(over="ignore"):
                gap, rest_spread = np.abs(rest - code).min(), float(spread(rest))
            if gap > rest_spread or (code < 0 <= rest.min() and gap > rest_spread / FEWEST):
                findings.append(_code(data, place, float(code), held))
    return findings


def _code(data: Measurements, place: int, code: float, held: NDArray[np.bool_]) -> Finding:
    name, rest = data.features[place], data.raw[~held, place]
    rows = tuple(data.rows[row] for row in np.flatnonzero(held).tolist())
    others = f"{rest.min():g} to {rest.max():g}"
    message = f"{code:g} stands in {len(rows)} cells, and the others are {others}: is it a code for what is missing?"
    fix = f"Give the measured values; else leave the column out with {setting('ignore', name)}"
    return Finding("warning", "code-for-missing", message, fix, data.file, rows, name)


def _codes_among(data: Measurements, place: int, sources: _Sources, far: NDArray[np.bool_]) -> Finding | None:
    """One value among the others that most measurements hold that are far from their sources, of three sources or more."""
    if far.sum() < REPEATED:
        return None
    values = data.raw[:, place]
    kinds, counts = np.unique(values[far], return_counts=True)
    held = values == kinds[counts.argmax()]
    often = max(REPEATED, far.sum() / 2, held.sum() / 2)
    if counts.max() < often or len(np.unique(sources.codes[held & far])) < REPEATED:
        return None
    return _code(data, place, float(values[held][0]), held)


def check_concentrations(
    file: str, rows: Sequence[int], columns: Sequence[str], units: Units, values: Floats
) -> list[Finding]:
    """Concentrations of more than the whole, or of less than nothing, where the unit is known; values (row, column)."""
    findings = []
    for name, unit, column in zip(columns, units, values.T, strict=True):
        power = power_between("%", unit)
        if not unit or power is None:
            continue
        whole = 100 * 10.0**power
        enter = "If it stands for what was not detected, give the measured value; if it is a logarithm, it has no unit"
        for code, hits, message, fix in (
            (
                "more-than-whole", column > whole,
                f"{column.max():,.10g} {unit} is more than the whole, which is {whole:,.0f} {unit}",
                "Check the cell and the unit",
            ),
            ("negative-concentration", column < 0, f"{column.min():g} {unit} is less than nothing", enter),
        ):  # fmt: skip
            if those := tuple(rows[place] for place in np.flatnonzero(hits).tolist()):
                findings.append(Finding("warning", code, message, fix, file, those, name))
    return findings


def _growth(values: Floats, sources: _Sources) -> tuple[Floats, Floats, Floats, float]:
    """How the scatter within sources grows with their level, of features that are positive (rows, feature).

    By feature, the rank correlation of the two, and the differences in ln level and in ln scatter between the lower and the
    upper third of the sources; and what a correlation is above, by three standard errors, if there is one.
    """
    ordered, several = values[sources.order], sources.counts > 1
    mean = np.add.reduceat(ordered, sources.start) / sources.counts[:, None]
    square = np.add.reduceat((ordered - np.repeat(mean, sources.counts, axis=0)) ** 2, sources.start)
    mean = mean[several]
    sd = np.sqrt(square[several] / (sources.counts[several] - 1)[:, None])
    n = len(mean)
    if n < FEWEST:
        nothing = np.zeros(values.shape[1])
        return nothing, nothing, nothing, np.inf
    turn = np.argsort(mean, axis=0)
    ranks = np.argsort(turn, axis=0) - np.argsort(np.argsort(sd, axis=0), axis=0)
    correlation = 1 - 6 * (ranks.astype(np.float64) ** 2).sum(axis=0) / (n * (n**2 - 1))
    lower, upper = (
        np.array([np.median(np.take_along_axis(each, part, 0), axis=0) for each in (mean, sd)])
        for part in (turn[: n // 3], turn[-(n // 3) :])
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        level, scatter = np.log(upper / lower)
    usable = np.isfinite(scatter) & (level > 0)
    correlation, level, scatter = (np.where(usable, each, 0.0) for each in (correlation, level, scatter))
    return correlation, level, scatter, 3 / float(np.sqrt(n - 1))


def check_growth(data: Measurements) -> list[Finding]:
    """Whether the scatter within sources grows with the level over all features, as that of concentrations does."""
    if not data.features or not (data.raw > 0).all() or leaves_range(data.raw).any():
        return []
    correlation, level, scatter, limit = _growth(data.raw, _Sources(data))
    square = float((level**2).sum())
    if not square or correlation.mean() < limit:
        return []
    power = float((scatter * level).sum()) / square
    if power < GROWS or np.sqrt(square / len(data.features)) < np.log(RANGE):
        return []
    message = f"where the level is 10 times higher, the scatter within sources is {10**power:.2g} times higher"
    fix = (
        f"Take logarithms with {setting('transform', 'log10')}, as models suppose one scatter at every level; or compare "
        "both in one run: tlm and log10:tlm"
    )
    return [Finding("warning", "scatter-grows", message, fix, data.file)]


def check_summaries(data: Measurements, *, allowed: bool = False, of_a_case: bool = False) -> list[Finding]:
    """Rows that are the mean, or the standard deviation, of other rows of their source in every feature.

    To the digits in which they are printed, and only where chance would not make one such row in a hundred tables. The others
    are all of the source, those above it or those below it, without rows that were found to be such themselves.
    """
    values = data.raw
    sources = _Sources(data)
    if not values.size or not np.isfinite(values).all() or sources.counts.max() < 3 or leaves_range(values).any():
        return []
    some = values[:: -(-len(values) // 1000)]
    step = _last_digit(some).min(axis=0) + 1e-9 * np.abs(some).max(axis=0)
    usual = _usual(np.concatenate([_from_others(values[rows]) for _, rows in sources.by_size(3)]))
    if _chance(step, usual, len(values)) > BY_CHANCE:
        return []
    best = np.argsort(step / usual)[:8]  # the features in which chance agrees least
    near = 10 * step + (0.02 if len(best) > 2 else 0.0) * usual  # a mean may be printed with fewer digits
    cases: dict[int, str] = {}
    for _, rows in sources.by_size(3):
        some = values[rows][:, :, best]
        candidates = np.zeros(rows.shape, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            for statistic in _statistics(some):
                candidates |= (np.abs(some - statistic) <= near[best]).all(axis=2)
        for source in np.flatnonzero(candidates.any(axis=1))[:_MOST]:
            cases |= _summaries_of(values, rows[source], step, usual)
    if not cases:
        return []
    names = [
        f"row {data.rows[row]} is {what} of source {quoted([data.labels.source[row]])[0]}"
        for row, what in cases.items()
    ]
    message = f"{listing(names)}: that is no measurement, and counts as one"
    accept = "" if of_a_case else f"; if it was truly measured so, allow it with {setting('allow_duplicates')}"
    level: Level = "warning" if allowed or of_a_case else "error"
    fix = "" if allowed and not of_a_case else f"Leave it out{accept}"
    return [Finding(level, "summary-row", message, fix, data.file, tuple(sorted(data.rows[row] for row in cases)))]


def _last_digit(values: Floats) -> Floats:
    """What the last decimal of each value is worth; 0 for one of more than twelve."""
    step = np.zeros(values.shape)
    for decimals in range(12, -1, -1):
        step[np.abs(np.round(values, decimals) - values) <= 1e-14 * np.abs(values)] = 10.0**-decimals
    return step


def _chance(step: Floats, usual: Floats, rows: int) -> float:
    """How many of the rows agree with one of six statistics of the others by chance, to so many digits in every feature.

    0.8 is twice the density of a normal law at its top.
    """
    agree = np.where((usual > step) & np.isfinite(usual), 0.8 * step / usual, 1.0)
    return float(6 * rows * np.prod(agree))


def _from_others(values: Floats) -> Floats:
    """Every measurement less the mean of the others of its source (source, measurement, feature), as (rows, feature)."""
    size = values.shape[1]
    away = (values - values.mean(axis=1, keepdims=True)) * (size / (size - 1))
    return np.asarray(away.reshape(-1, values.shape[2]))


def _statistics(values: Floats) -> Iterator[Floats]:
    """Means and standard deviations of the others, of those above and of those below (source, measurement, feature)."""
    centre = values.mean(axis=1, keepdims=True)
    centred, size = values - centre, values.shape[1]
    sums, squares = np.cumsum(centred, axis=1), np.cumsum(centred**2, axis=1)
    at = np.arange(size)[:, None]
    above = at, sums - centred, squares - centred**2
    below = size - 1 - at, sums[:, -1:] - sums, squares[:, -1:] - squares
    others = size - 1 + 0 * at, sums[:, -1:] - centred, squares[:, -1:] - centred**2
    for count, total, square in (others, above, below):
        counted = np.where(count > 1, count, np.nan)
        yield centre + total / counted
        deviation = np.maximum(square - total**2 / counted, 0)
        yield np.sqrt(deviation / (counted - 1))
        yield np.sqrt(deviation / counted)


def _summaries_of(values: Floats, rows: Places, step: Floats, usual: Floats) -> dict[int, str]:
    """Which rows of a source are statistics of which others, in words."""
    found: dict[int, str] = {}
    before = -1
    while before < len(found):
        before = len(found)
        for row in rows.tolist():
            measured = np.array([each for each in rows.tolist() if each != row and each not in found], dtype=np.intp)
            own = values[row]
            tolerance = 0.5 * (_last_digit(own) + step)
            if row in found or _chance(2 * tolerance, usual, len(values)) > BY_CHANCE:
                continue
            for those in (measured, measured[measured < row], measured[measured > row]):
                if len(those) < 2 or (values[those] == own).all(axis=1).any():
                    continue
                some = values[those]
                for what, statistic in (
                    ("the mean", some.mean(axis=0)),
                    ("the standard deviation", some.std(axis=0, ddof=1)),
                    ("the standard deviation", some.std(axis=0)),
                ):
                    if (np.abs(own - statistic) <= tolerance).all():
                        found.setdefault(row, f"{what} of {len(those)} others")
    return found

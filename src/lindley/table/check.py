"""What ``lindley check`` says of a whole table, once its cells are numbers.

The checks find what would spoil a likelihood ratio unseen; the summary gives the size and the scatter of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.settings import setting
from lindley.shown import visible
from lindley.table.findings import Finding, Level, listing, quoted
from lindley.table.labels import Labels
from lindley.table.scaling import LARGEST, leaves_range, rounding_error, spread
from lindley.table.splits import session_pairs
from lindley.table.table import Table

__all__ = [
    "MIN_GROUPS",
    "FeatureSummary",
    "Measurements",
    "Summary",
    "check_counts",
    "check_features",
    "check_range",
    "check_rows",
    "render_summary",
    "summarise",
    "summary_rows",
]

MIN_GROUPS = 6
"""Two groups each to train, to validate and to test on."""

_NEARLY_SINGULAR = 1e-10  # an eigenvalue of correlations below which features are looked at one by one
_MOST_COMPARED = 1000  # features

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measurements:
    """What the checks look at: values as measured and as transformed, NaN where a cell is in error."""

    file: str
    rows: tuple[int, ...]
    features: tuple[str, ...]
    raw: Floats  # (rows, features)
    transformed: Floats  # (rows, features)
    labels: Labels


def check_counts(data: Measurements, *, to_split: bool = True) -> list[Finding]:
    """Enough sources to split, enough measurements of each, and not more features than they can carry.

    Where the table is not ``to_split``, few sources and single measurements are no errors.
    """
    findings = []
    sources, counts = np.unique(data.labels.source, return_counts=True)
    groups = len(np.unique(data.labels.group))
    if to_split and groups < MIN_GROUPS:
        what, one = ("sources", "source") if groups == len(sources) else ("groups of sources", "group of sources")
        message = (
            f"{groups} {what if groups != 1 else one} cannot be split: "
            f"it takes {MIN_GROUPS} at least, two each to train, to validate and to test on"
        )
        findings.append(Finding("error", "too-few-sources", message, "Measure more sources", data.file))
    single = sources[counts == 1]
    if to_split and len(single) == len(sources):
        message = "no source has two measurements, so that their scatter within a source cannot be known"
        fix = "Measure sources twice or more, one row each, and check that the source column is the right one"
        findings.append(Finding("error", "no-replicates", message, fix, data.file))
    elif len(single):
        row_of = dict(zip(data.labels.source.tolist(), data.rows, strict=True))
        rows = tuple(sorted(row_of[label] for label in single.tolist()))
        have = f"{len(single)} sources have" if len(single) > 1 else "1 source has"
        message = f"{have} one measurement only, and so no same-source pair: {listing(quoted(single), 10)}"
        findings.append(Finding("warning", "single-measurement", message, file=data.file, rows=rows))
    features = len(data.features)
    if groups >= MIN_GROUPS and features > groups / 6:
        message = (
            f"{features} features for {groups} sources or groups: a third of these to train on is fewer than "
            "2 per feature, so that covariances will be shrunk"
        )
        fix = f"Measure more sources, or choose fewer features with {setting('include')}"
        findings.append(Finding("warning", "many-features", message, fix, data.file))
    return findings


def check_features(data: Measurements, *, logged: bool, to_split: bool = False) -> list[Finding]:
    """Features that tell nothing or cannot be computed with.

    These are constant ones, copies of another, ones that follow from others, ones whose squares leave the range of floating
    point, and, where all labels are known, ones that never vary within a source or between them, and numbers of rows. Of a
    table ``to_split`` with one source, `check_counts` has said what is wrong.
    """
    findings: list[Finding] = []
    sound: list[int] = []
    codes = np.unique(data.labels.source, return_inverse=True)[1]
    first: dict[bytes, str] = {}
    for place, name in enumerate(data.features):
        values = data.transformed[:, place]
        finite = np.isfinite(values)
        if finite.sum() < 2:
            continue
        leave_out = f"Leave it out with {setting('ignore', name)}"
        # the difference of two logs is constant up to rounding only
        tolerance = float(rounding_error(values[finite], 1.0 if logged else 0.0))
        if spread(values[finite]) <= tolerance:
            size = float(values[finite][0])
            when = " after the transform" if logged else ""
            message = f"the feature is constant ({size:g}{when}) and tells nothing"
            findings.append(Finding("error", "constant-feature", message, leave_out, data.file, (), name))
        elif leaves_range(values[finite]):
            findings.append(_value_range(data, place, leave_out))
        elif finite.all() and (same := first.setdefault(values.tobytes(), name)) != name:
            message = f"the feature has the values of '{same}' in every row, and would count twice"
            findings.append(Finding("error", "repeated-feature", message, leave_out, data.file, (), name))
        elif not data.labels.complete:
            continue
        elif _constant_within(values[finite], codes[finite], tolerance):
            message = (
                "the feature is the same in all measurements of a source: it describes the source and is not "
                "a measurement, and would make every likelihood ratio infinite"
            )
            findings.append(Finding("error", "no-within-variation", message, leave_out, data.file, (), name))
        elif finite.all():
            kind = _running_number(data.raw[:, place], codes)
            alike = (codes.max() > 0 or not to_split) and _constant_between(values, codes, tolerance)
            if kind is not None:
                message = f"the feature looks like {kind}, not like a measurement"
                fix = f"If so, leave it out with {setting('ignore', name)}"
                if kind != "a row number":
                    fix += f", or name it as the instance with {setting('instance', name)}"
                level: Level = "error" if alike else "warning"  # one mean in every source has no solution
                findings.append(Finding(level, "looks-like-instance", message, fix, data.file, (), name))
            elif alike:
                message = "the feature has the same mean in every source, and tells nothing about sources"
                findings.append(Finding("error", "no-between-variation", message, leave_out, data.file, (), name))
            else:
                sound.append(place)
    return findings + _dependent(data, sound)


def _dependent(data: Measurements, places: Sequence[int]) -> list[Finding]:
    """Features that are a sum of multiples of others, and a constant: no matrix of their covariances has an inverse.

    A total is one, and the last of the shares that sum to 100 %. Nothing is concluded from few rows, where any feature is.
    """
    values = data.transformed[:, places]
    if not 2 <= len(places) <= min(_MOST_COMPARED, len(values) - 3):
        return []
    scaled = values - values.mean(axis=0)
    size = np.sqrt(np.einsum("rf,rf->f", scaled, scaled) / len(scaled))
    scaled /= size
    if np.linalg.eigvalsh(scaled.T @ scaled / len(scaled))[0] > _NEARLY_SINGULAR:
        return []
    tolerance = 1e-9 + 1e-12 * float((np.maximum(values.max(axis=0), -values.min(axis=0)) / size).max())
    findings, kept = [], [0]
    for place in range(1, len(places)):
        weights = np.linalg.lstsq(scaled[:, kept], scaled[:, place], rcond=None)[0]
        if np.abs(scaled[:, place] - scaled[:, kept] @ weights).max() > tolerance:
            kept.append(place)
            continue
        others = quoted(data.features[places[each]] for each in np.array(kept)[np.abs(weights) > 1e-6])
        name = data.features[places[place]]
        message = (
            f"the feature follows from {listing(others, 8)} in every row, as a sum does, or the last of the shares of a whole: "
            "it would count twice"
        )
        fix = f"Leave one of them out, such as with {setting('ignore', name)}"
        findings.append(Finding("error", "dependent-feature", message, fix, data.file, (), name))
    return findings


def _source_means(values: Floats, codes: NDArray[np.intp]) -> Floats:
    means = np.zeros((codes.max() + 1, *values.shape[1:]))
    np.add.at(means, codes, values)
    counts = np.bincount(codes).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(means / counts)


def _constant_between(values: Floats, codes: NDArray[np.intp], tolerance: float) -> bool:
    """Whether all sources have one mean, up to the rounding of a mean."""
    return bool(spread(_source_means(values, codes)) <= 10 * tolerance)


def check_range(data: Measurements) -> list[Finding]:
    """Values of a case that are so large that nothing can be computed of them."""
    large = np.flatnonzero((np.abs(data.transformed) > LARGEST).any(axis=0))
    return [_value_range(data, place, "Check the cell") for place in large.tolist()]


def check_rows(data: Measurements, *, allow_duplicates: bool = False, of_a_case: bool = False) -> list[Finding]:
    """Rows that occur twice: copies within a source, and sources that share a measurement.

    In a case, copies are most likely one measurement that was pasted twice, and items may well share one.
    """
    first: dict[tuple[bytes, str], int] = {}
    holders: dict[bytes, dict[str, int]] = {}
    copies: list[tuple[int, int, str]] = []
    if not data.features:
        return []
    values = np.ascontiguousarray(data.raw + 0.0)  # a −0.0 becomes 0.0
    usable = np.asarray(np.isfinite(values).all(axis=1))
    for row, ok, record, source in zip(data.rows, usable, values, data.labels.source.tolist(), strict=True):
        if not ok:
            continue
        key = record.tobytes()
        known = first.setdefault((key, source), row)
        if known != row:
            copies.append((row, known, source))
        holders.setdefault(key, {}).setdefault(source, row)
    if of_a_case:
        if not copies:
            return []
        cases = [f"row {row} repeats row {known} of {quoted([source])[0]}" for row, known, source in copies]
        message = f"identical measurements would count more than once: {listing(cases)}"
        rows = tuple(sorted({place for row, known, _ in copies for place in (row, known)}))
        return [Finding("warning", "repeated-row", message, "If one was copied, leave it out", data.file, rows)]
    findings = []
    if copies:
        cases = [f"row {row} repeats row {known} of source {quoted([source])[0]}" for row, known, source in copies]
        message = f"{listing(cases)}: a copied row makes replicates look better than they are"
        fix = f"Delete the copies; if they were truly measured so, allow them with {setting('allow_duplicates')}"
        rows = tuple(row for row, _, _ in copies)
        level: Level = "warning" if allow_duplicates else "error"
        findings.append(Finding(level, "duplicate-row", message, "" if allow_duplicates else fix, data.file, rows))
    shared = [each for each in holders.values() if len(each) > 1]
    if shared:
        findings.append(_shared_rows(data.file, shared))
    return findings


def _shared_rows(file: str, shared: Sequence[dict[str, int]]) -> Finding:
    pairs: dict[tuple[str, ...], list[int]] = {}
    for holder in shared:
        pairs.setdefault(tuple(holder), []).extend(holder.values())
    cases = [f"{listing(quoted(names), 4)} (rows {listing(rows, 6)})" for names, rows in pairs.items()]
    message = f"different sources share an identical row: {listing(cases, 5)}"
    fix = "If they are one source under two names, give them one label and keep the row once"
    rows = tuple(sorted(row for each in pairs.values() for row in each))
    return Finding("warning", "shared-row", message, fix, file, rows)


def _value_range(data: Measurements, place: int, leave_out: str) -> Finding:
    """A feature of 1e200 has a variance of 1e400, which is no float64; neither is 1e-400."""
    values, name = data.transformed[:, place], data.features[place]
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if len(large):
        what = f"{values[large[0]]:g} is so large that its square leaves the range of floating point"
    else:
        what = f"the values differ by {float(spread(values[np.isfinite(values)])):.2g} at most: that is so small that "
        what += "the square leaves the range of floating point"
    fix = f"Give the feature in another unit, of ordinary numbers, or {leave_out[0].lower()}{leave_out[1:]}"
    rows = tuple(data.rows[each] for each in large.tolist())
    return Finding("error", "value-range", what, fix, data.file, rows, name)


def _constant_within(values: Floats, codes: NDArray[np.intp], tolerance: float) -> bool:
    """Whether every source with replicates has equal ones; false if there is no such source."""
    order = np.argsort(codes, kind="stable")
    values, codes = values[order], codes[order]
    same = codes[1:] == codes[:-1]
    return bool(same.any()) and bool((np.abs(np.diff(values))[same] <= tolerance).all())


def _running_number(values: Floats, codes: NDArray[np.intp]) -> str | None:
    """What a column of whole numbers seems to count: rows of the table, or instances within each source."""
    start = values.min()
    if start not in (0, 1) or (values != np.round(values)).any():
        return None
    if np.array_equal(values, np.arange(len(values)) + start):
        return "a row number"
    order = np.lexsort((values, codes))
    values, codes = values[order], codes[order]
    begin = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    sizes = np.diff(np.r_[begin, len(codes)])
    counted = np.arange(len(codes)) - np.repeat(begin, sizes)
    if np.array_equal(values, counted + start):
        return "an instance number, which counts up within every source"
    sets = {tuple(np.unique(part).tolist()) for part in np.split(values, begin[1:])}
    if len(sets) == 1:
        numbers = sets.pop()
        if len(numbers) > 1 and numbers == tuple(start + np.arange(len(numbers))):
            return f"an instance number, the same {start:g} to {numbers[-1]:g} within every source"
    return None


@dataclass(frozen=True)
class FeatureSummary:
    """One feature after the transform, by a one-way analysis of variance over sources.

    ``replicate_correlation`` is the intraclass correlation ICC(1): the share of the variance that lies
    between sources, near 1 for a feature that tells them apart. It is about 0, even negative, for one that
    does not.
    """

    name: str
    min: float
    mean: float
    max: float
    within_sd: float
    between_sd: float
    replicate_correlation: float


@dataclass(frozen=True)
class Summary:
    """Counts of a table, and a summary of each feature."""

    name: str
    rows: int
    sources: int
    groups: int
    sessions: dict[str, int] | None  # as `session_pairs` counts them
    replicates: tuple[tuple[int, int], ...]  # (measurements per source, sources that have as many)
    replicates_median: float
    features: tuple[FeatureSummary, ...]

    @property
    def replicates_min(self) -> int:
        """The fewest measurements of a source."""
        return self.replicates[0][0]

    @property
    def replicates_max(self) -> int:
        """The most measurements of a source."""
        return self.replicates[-1][0]


def summarise(table: Table) -> Summary:
    """Count a table and split the variance of each feature into its parts within and between sources."""
    _, codes, counts = np.unique(table.source, return_inverse=True, return_counts=True)
    sizes, how_many = np.unique(counts, return_counts=True)
    with np.errstate(over="ignore"):  # a value of 1e300 is odd, but no reason to stop
        means = table.values.mean(axis=0)
        within, between, correlation = _variance_parts(table.values, codes, counts)
    low, high = table.values.min(axis=0), table.values.max(axis=0)
    figures = np.column_stack([low, means, high, np.sqrt(within), np.sqrt(between), correlation])
    features = tuple(FeatureSummary(name, *row) for name, row in zip(table.features, figures.tolist(), strict=True))
    replicates = tuple(zip(sizes.tolist(), how_many.tolist(), strict=True))
    groups, median = len(np.unique(table.group)), float(np.median(counts))
    sessions = session_pairs(table.source, table.session)
    return Summary(table.name, len(table.values), len(counts), groups, sessions, replicates, median, features)


def _variance_parts(values: Floats, codes: NDArray[np.intp], counts: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Variance within, variance between and ICC(1) of each feature, for unequal counts (Donner 1986)."""
    rows, sources = len(values), len(counts)
    centred = values - values.mean(axis=0)
    means = np.zeros((sources, values.shape[1]))
    np.add.at(means, codes, centred)
    means /= counts[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where a part cannot be known
        square_within = np.divide(((centred - means[codes]) ** 2).sum(axis=0), rows - sources)
        square_between = np.divide((counts[:, None] * means**2).sum(axis=0), sources - 1)
        typical = np.divide(rows - (counts**2).sum() / rows, sources - 1)
        between = np.maximum((square_between - square_within) / typical, 0.0)
        correlation = (square_between - square_within) / (square_between + (typical - 1) * square_within)
    return square_within, between, correlation


def summary_rows(summary: Summary) -> tuple[list[str], tuple[str, ...], list[tuple[str, ...]]]:
    """The summary as text: a line of counts and a line of replicates; header and rows of a table of the features."""
    if summary.replicates_min == summary.replicates_max:
        replicates = f"{summary.replicates_min} measurements of every source"
    else:
        counts = ", ".join(f"{many} × {size}" for size, many in summary.replicates[:8])
        more = f", and {len(summary.replicates) - 8} counts more" if len(summary.replicates) > 8 else ""
        replicates = (
            f"{summary.replicates_min} to {summary.replicates_max} measurements of a source, median "
            f"{summary.replicates_median:g} (sources × measurements: {counts}{more})"
        )
    groups = f" in {summary.groups} groups" if summary.groups != summary.sources else ""
    if summary.sessions is not None:
        replicates += f"; {summary.sessions['two_sessions']} sources in two sessions or more"
    head = ("feature", "min", "mean", "max", "sd within", "sd between", "correlation")
    body = [
        (visible(each.name), *(f"{number:.4g}" for number in astuple(each)[1:-1]), f"{each.replicate_correlation:.3f}")
        for each in summary.features
    ]
    measured = f"{summary.rows} measurements of {summary.sources} sources{groups}, {len(body)} features"
    return [f"{visible(summary.name)}: {measured}", replicates], head, body


def render_summary(summary: Summary) -> str:
    """The summary as plain text: a line of counts, a line of replicates, and a table of the features."""
    counts, head, body = summary_rows(summary)
    widths = [max(len(line[k]) for line in (head, *body)) for k in range(len(head))]
    table = [
        "  ".join([line[0].ljust(widths[0]), *(line[k].rjust(widths[k]) for k in range(1, len(head)))])
        for line in (head, *body)
    ]
    return "\n".join([*counts, "", *table])

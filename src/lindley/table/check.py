"""Checks of a whole table, once its cells are numbers: what would spoil a likelihood ratio unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.table.findings import Finding, listing, option_list, option_value, quoted
from lindley.table.labels import Labels
from lindley.table.spread import LARGEST, leaves_range, rounding_error, spread

__all__ = ["MIN_GROUPS", "Measurements", "check_counts", "check_features", "check_rows"]

MIN_GROUPS = 6
"""Two groups each to train, to validate and to test on."""

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
        what = "sources" if groups == len(sources) else "groups of sources"
        message = (
            f"{groups} {what if groups != 1 else what.replace('sources', 'source', 1)} cannot be split: "
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
        many = len(single) > 1
        message = (
            f"{len(single)} sources have" if many else "1 source has"
        ) + f" one measurement only, and so no same-source pair: {listing(quoted(single), 10)}"
        findings.append(Finding("warning", "single-measurement", message, file=data.file, rows=rows))
    features = len(data.features)
    if groups >= MIN_GROUPS and features > groups / 6:
        message = (
            f"{features} features for {groups} sources or groups: a third of these to train on is fewer than "
            "2 per feature, so that covariances will be shrunk"
        )
        fix = "Measure more sources, or choose fewer features with --include-columns"
        findings.append(Finding("warning", "many-features", message, fix, data.file))
    return findings


def check_features(data: Measurements, *, logged: bool) -> list[Finding]:
    """Features that tell nothing or cannot be computed with.

    These are constant ones, ones whose squares leave the range of floating point, and, where all labels are known,
    ones that never vary within a source and numbers of rows.
    """
    findings = []
    codes = np.unique(data.labels.source, return_inverse=True)[1]
    for place, name in enumerate(data.features):
        values = data.transformed[:, place]
        finite = np.isfinite(values)
        if finite.sum() < 2:
            continue
        leave_out = f"Leave it out with --ignore-columns {option_list(name)}"
        # the difference of two logs is constant up to rounding only
        tolerance = float(rounding_error(values[finite], 1.0 if logged else 0.0))
        if spread(values[finite]) <= tolerance:
            size = float(values[finite][0])
            when = " after the transform" if logged else ""
            message = f"the feature is constant ({size:g}{when}) and tells nothing"
            findings.append(Finding("error", "constant-feature", message, leave_out, data.file, (), name))
        elif leaves_range(values[finite]):
            findings.append(_value_range(data, place, leave_out))
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
            if kind is not None:
                message = f"the feature looks like {kind}, not like a measurement"
                fix = f"If so, use --ignore-columns {option_list(name)}"
                if kind != "a row number":
                    fix += f" or --instance-column {option_value(name)}"
                findings.append(Finding("warning", "looks-like-instance", message, fix, data.file, (), name))
    return findings


def check_rows(data: Measurements, *, allow_duplicates: bool) -> list[Finding]:
    """Rows that occur twice: copies within a source, and sources that share a measurement."""
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
    findings = []
    if copies:
        cases = [f"row {row} repeats row {known} of source '{source}'" for row, known, source in copies]
        message = f"{listing(cases)}: a copied row makes replicates look better than they are"
        fix = "Delete the copies; if they were truly measured so, allow them with --allow-duplicates"
        rows = tuple(row for row, _, _ in copies)
        if allow_duplicates:
            findings.append(Finding("warning", "duplicate-row", message, "", data.file, rows))
        else:
            findings.append(Finding("error", "duplicate-row", message, fix, data.file, rows))
    shared = [each for each in holders.values() if len(each) > 1]
    if shared:
        findings.append(_shared_rows(data.file, shared))
    return findings


def _shared_rows(file: str, shared: Sequence[dict[str, int]]) -> Finding:
    pairs: dict[tuple[str, ...], list[int]] = {}
    for holder in shared:
        pairs.setdefault(tuple(holder), []).extend(holder.values())
    cases = [f"{' and '.join(quoted(names))} (rows {listing(rows, 6)})" for names, rows in pairs.items()]
    message = f"different sources share an identical row: {listing(cases, 5)}"
    fix = "If they are one source under two names, give them one label and keep the row once"
    rows = tuple(sorted(row for each in pairs.values() for row in each))
    return Finding("warning", "shared-row", message, fix, file, rows)


def _value_range(data: Measurements, place: int, leave_out: str) -> Finding:
    """A feature of 1e200 has a variance of 1e400, which is no float64; neither is 1e-400."""
    values, name = data.transformed[:, place], data.features[place]
    sizes = np.abs(values)
    large = np.flatnonzero(sizes > LARGEST)
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
    if (values != np.round(values)).any():
        return None
    start = values.min()
    if start not in (0, 1):
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

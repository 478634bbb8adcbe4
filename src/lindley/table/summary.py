"""The size and the scatter of a table: what ``lindley check`` prints below its findings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lindley.table.table import Table

__all__ = ["FeatureSummary", "Summary", "render_summary", "summarise"]


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
    features = tuple(
        FeatureSummary(
            name,
            float(table.values[:, k].min()),
            float(means[k]),
            float(table.values[:, k].max()),
            float(np.sqrt(within[k])),
            float(np.sqrt(between[k])),
            float(correlation[k]),
        )
        for k, name in enumerate(table.features)
    )
    return Summary(
        table.name,
        len(table.values),
        len(counts),
        len(np.unique(table.group)),
        tuple((int(size), int(many)) for size, many in zip(sizes, how_many, strict=True)),
        float(np.median(counts)),
        features,
    )


def _variance_parts(
    values: NDArray[np.float64], codes: NDArray[np.intp], counts: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
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


def render_summary(summary: Summary) -> str:
    """The summary as plain text: a line of counts, a line of replicates, and a table of the features."""
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
    head = ("feature", "min", "mean", "max", "sd within", "sd between", "correlation")
    body = [
        (
            feature.name,
            *(
                f"{number:.4g}"
                for number in (feature.min, feature.mean, feature.max, feature.within_sd, feature.between_sd)
            ),
            f"{feature.replicate_correlation:.3f}",
        )
        for feature in summary.features
    ]
    widths = [max(len(line[k]) for line in (head, *body)) for k in range(len(head))]
    table = [
        "  ".join([line[0].ljust(widths[0]), *(line[k].rjust(widths[k]) for k in range(1, len(head)))])
        for line in (head, *body)
    ]
    return "\n".join(
        [
            f"{summary.name}: {summary.rows} measurements of {summary.sources} sources{groups}, "
            f"{len(summary.features)} features",
            replicates,
            "",
            *table,
        ]
    )

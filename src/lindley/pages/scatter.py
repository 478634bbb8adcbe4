"""A scatter matrix of many features as one picture: every pair of features, drawn as one set of points.

Three hundred little axes take matplotlib half a minute; one axis with the cells computed by hand takes a second.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from lindley.llrs import Floats
from lindley.pages import palette
from lindley.pages.palette import shorten

__all__ = ["MOST_FEATURES", "draw_scatter_matrix"]

MOST_FEATURES = 18
"""More cells than this on a page cannot be read."""
MOST_POINTS = 2000
"""More points than this in a cell are a blot; a fixed random choice of them is drawn, with every extreme."""
_CORE = 0.86  # the share of a cell's width that points may use


def draw_scatter_matrix(features: tuple[str, ...], values: Floats) -> Figure:
    """Scatter plots below the diagonal, histograms on it, correlations above."""
    names = features[:MOST_FEATURES]
    chosen = _choose(values[:, : len(names)])
    d = len(names)
    paper = Figure(figsize=(7.5, 7.5))
    ax = paper.add_axes((0.085, 0.055, 0.91, 0.94))
    ax.set(xlim=(0, d), ylim=(d, 0))
    low, high = values[:, :d].min(axis=0), values[:, :d].max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    unit = (chosen - low) / width * _CORE + (1 - _CORE) / 2  # (points, d) inside a cell
    size = float(np.clip(60 / np.sqrt(len(unit)) * 4 / d, 0.35, 4.0))
    rows, columns = np.tril_indices(d, -1)
    x = (unit[:, columns] + columns).reshape(-1)
    y = (rows + 1 - unit[:, rows]).reshape(-1)
    ax.plot(x, y, "o", ms=size, mew=0, alpha=0.55, color=palette.SAME, rasterized=True)
    correlation = _correlation(values[:, :d])
    for i in range(d):
        count, edges = np.histogram(values[:, i], 24, (low[i], low[i] + width[i]))
        height = count / max(count.max(), 1) * _CORE
        ax.stairs(
            i + 1 - height,
            (edges - low[i]) / width[i] * _CORE + (1 - _CORE) / 2 + i,
            baseline=i + 1,
            fill=True,
            color=palette.MUTED,
            lw=0,
        )
        for j in range(i + 1, d):
            r = correlation[i, j]
            colour = palette.SAME if r >= 0 else palette.BANDS[1]
            ax.fill([j, j + 1, j + 1, j], [i, i, i + 1, i + 1], color=colour, alpha=0.45 * abs(r), lw=0)
            ax.text(j + 0.5, i + 0.5, f"{r:.2f}".replace("-", "−"), ha="center", va="center", fontsize=min(9, 110 / d))
    ax.hlines(range(d + 1), 0, d, color=palette.GRID, lw=0.6)
    ax.vlines(range(d + 1), 0, d, color=palette.GRID, lw=0.6)
    labels = [shorten(name, 8) for name in names]
    ax.set_xticks(np.arange(d) + 0.5, labels, rotation=90 if d > 9 else 0)
    ax.set_yticks(np.arange(d) + 0.5, labels)
    ax.tick_params(length=0, labelsize=min(9, 130 / d))
    ax.spines[:].set_visible(False)
    return paper


def _choose(values: Floats) -> Floats:
    if len(values) <= MOST_POINTS:
        return values
    extremes = np.concatenate([values.argmin(axis=0), values.argmax(axis=0)])
    others = np.random.default_rng(0).choice(len(values), MOST_POINTS - len(extremes), replace=False)
    chosen: Floats = values[np.unique(np.concatenate([extremes, others]))]
    return chosen


def _correlation(values: Floats) -> Floats:
    """Correlations; 0 where a feature does not vary."""
    deviation = values - values.mean(axis=0)
    length = np.sqrt((deviation**2).sum(axis=0))
    unit = deviation / np.where(length > 0, length, 1.0)
    return np.asarray(unit.T @ unit, dtype=np.float64)

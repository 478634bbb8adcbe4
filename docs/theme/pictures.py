"""Draw the pictures of "The model in ten equations", from simulated data with fixed seeds: the same bytes every time.

python docs/theme/pictures.py            # writes docs/images/model-*.svg
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from lindley.calibration import Logistic
from lindley.evaluation import cllr, cllr_min, pav_curve
from lindley.llrs import LLRs
from lindley.pages.palette import DIFFERENT, GRID, IDENTITY, INK, MUTED, NEUTRAL, SAME, VALIDATE

IMAGES = Path(__file__).parents[1] / "images"
STYLE = {
    "font.family": "DejaVu Sans",  # it comes with matplotlib, so that every machine has it
    "font.size": 9.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "lindley",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}
BETWEEN, WITHIN = 1.0, 0.02
"""Variances on the one axis of these pictures."""
LIMITS = (-4.5, 2.5)
"""Of the plots of calibration."""


def log10_lr(x: np.ndarray, y: np.ndarray, between: float = BETWEEN, within: float = WITHIN) -> np.ndarray:
    """Equation 6 on one axis, one instance each, with the mean of the sources at 0; natural there, log10 here."""
    d = e = within
    delta = between * d + between * e + d * e
    ln = (
        0.5 * np.log((between + d) * (between + e) / delta)
        - 0.5 * x**2 * between**2 / ((between + d) * delta)
        - 0.5 * y**2 * between**2 / ((between + e) * delta)
        + x * y * between / delta
    )
    return ln / np.log(10)


def two_levels(figure: Figure) -> None:
    """Sources scatter around the population, measurements around their source."""
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.35))
    grid = np.linspace(-3.2, 3.2, 801)
    above.fill_between(grid, stats.norm.pdf(grid, 0, 1), color=VALIDATE, alpha=0.5, linewidth=0)
    above.plot(grid, stats.norm.pdf(grid, 0, 1), color=SAME)
    above.set_title("Between: where the windows of the population lie")
    above.set_yticks([])
    rng = np.random.default_rng(7)
    sources = np.sort(rng.normal(0, 1, 9))
    for row, theta in enumerate(sources):
        width = np.sqrt(WITHIN)
        near = np.linspace(theta - 4 * width, theta + 4 * width, 121)
        below.fill_between(
            near, row, row + 0.75 * np.exp(-0.5 * ((near - theta) / width) ** 2), color=GRID, linewidth=0
        )
        below.plot(rng.normal(theta, width, 5), np.full(5, row + 0.12), "o", color=SAME, markersize=3.5)
        below.plot([theta, theta], [row, row + 0.75], color=DIFFERENT, linewidth=1.5)
        above.plot([theta, theta], [0, stats.norm.pdf(theta)], color=DIFFERENT, linewidth=1.5)
    below.set_title("Within: five measurements (dots) of each of nine windows (lines)")
    below.set_yticks([])
    below.set_xlabel("a feature, or an axis of the model")


def similarity_and_typicality(figure: Figure) -> None:
    """The same distance, among common windows and among rare ones."""
    panels = figure.subplots(1, 2, sharey=True)
    for panel, y, name in zip(panels, (0.2, 2.3), ("A common window", "A rare window"), strict=True):
        x = y + 0.25
        grid = np.linspace(-3.2, 3.2, 1601)
        centre = BETWEEN / (BETWEEN + WITHIN) * y
        width = np.sqrt(WITHIN + BETWEEN * WITHIN / (BETWEEN + WITHIN))
        panel.plot(
            grid, stats.norm.pdf(grid, 0, np.sqrt(BETWEEN + WITHIN)), color=DIFFERENT, label="p(trace | another source)"
        )
        panel.plot(grid, stats.norm.pdf(grid, centre, width), color=SAME, label="p(trace | ref, same source)")
        typicality = float(stats.norm.pdf(x, 0, np.sqrt(BETWEEN + WITHIN)))
        similarity = float(stats.norm.pdf(x, centre, width))
        panel.plot([x, x], [0, similarity], ":", color=MUTED)
        panel.plot([x], [similarity], "o", color=SAME)
        panel.plot([x], [typicality], "o", color=DIFFERENT)
        panel.plot([y], [0], "^", color=INK, clip_on=False)
        panel.plot([x], [0], "v", color=NEUTRAL, clip_on=False)
        panel.set_title(f"{name}: LR = {similarity:.2g} / {typicality:.2g} = {similarity / typicality:.2g}")
        panel.set_xlabel("▲ ref, ▼ trace")
        panel.set_yticks([])
        panel.set_ylim(0, 2.6)
    panels[0].legend(loc="upper left", fontsize=8.5)


def surface(figure: Figure) -> None:
    """log10 LR over trace and ref."""
    axes = figure.subplots()
    grid = np.linspace(-3, 3, 481)
    x, y = np.meshgrid(grid, grid)
    levels = [-30, -10, -3, -1, 0, 1, 1.5, 2]
    values = log10_lr(x, y)
    colours = mpl.colors.LinearSegmentedColormap.from_list("llr", [DIFFERENT, "#ffffff", SAME])
    scaled = np.where(values < 0, -np.log1p(np.maximum(-values, 0)) / np.log1p(100), values / 3)
    axes.pcolormesh(x, y, scaled, cmap=colours, vmin=-1, vmax=1, shading="auto", rasterized=True)
    lines = axes.contour(x, y, values, levels=levels, colors=INK, linewidths=0.7, linestyles="solid")
    places = [
        (1.8, -1.2),
        (1.2, -0.5),
        (0.4, -0.5),
        (-0.4, -0.9),
        (-1.1, -1.35),
        (-1.5, -1.2),
        (-2.0, -2.2),
        (2.6, 2.6),
    ]
    axes.clabel(lines, levels=levels, fmt="%g", fontsize=8, manual=places)
    axes.plot(grid, grid, ":", color=MUTED, linewidth=0.8)
    axes.set_aspect("equal")
    axes.set_xlabel("trace")
    axes.set_ylabel("ref")
    axes.set_title("log10 LR")


def heavy_tails(figure: Figure) -> None:
    """A variance that differs between sources makes tails, and tails make an LR that gives in."""
    left, right = figure.subplots(1, 2)
    z = np.linspace(-8, 8, 801)
    alpha = 2.0
    left.semilogy(z, stats.norm.pdf(z), color=DIFFERENT, linestyle="--", label="one variance for all: normal")
    left.semilogy(z, stats.t.pdf(z, 2 * alpha, scale=np.sqrt(0.5)), color=SAME, label="variances differ: Student-t")
    left.set_ylim(1e-9, 1)
    left.set_title("Density of a measurement around its source")
    left.set_xlabel("distance, in standard deviations")
    left.legend(loc="lower center", fontsize=8.5)
    difference = np.linspace(0, 1.6, 161)
    nodes = (np.arange(400) + 0.5) / 400
    variances = stats.invgamma.ppf(nodes, alpha, scale=WITHIN * (alpha - 1))[:, None]
    x, y = difference / 2, -difference / 2
    single = [_normal(x, BETWEEN + v) for v in variances]
    pair = [
        single_x * _normal(y - BETWEEN / (BETWEEN + v) * x, v + BETWEEN * v / (BETWEEN + v))
        for single_x, v in zip(single, variances, strict=True)
    ]
    varying = np.log10(np.mean(pair, axis=0) / np.mean(single, axis=0) ** 2)
    right.plot(difference, log10_lr(x, y), "--", color=DIFFERENT, label="one variance for all")
    right.plot(difference, varying, color=SAME, label="variance integrated out")
    right.axhline(0, color=MUTED, linewidth=0.8)
    right.set_title("log10 LR as trace and ref move apart")
    right.set_xlabel("difference of trace and ref")
    right.legend(loc="lower left", fontsize=8.5)


def _normal(x: np.ndarray, variance: float | np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * x**2 / variance) / np.sqrt(2 * np.pi * variance)


def cost(figure: Figure) -> None:
    """What one pair adds to Cllr."""
    axes = figure.subplots()
    llr = np.linspace(-4, 4, 401)
    axes.plot(llr, np.log2(1 + 10.0**-llr), color=SAME, label="the pair has one source")
    axes.plot(llr, np.log2(1 + 10.0**llr), "--", color=DIFFERENT, label="the pair has two sources")
    axes.plot([0], [1], "o", color=INK)
    axes.annotate("LR = 1 costs 1 bit", (0, 1), (1.1, 2.0), arrowprops={"arrowstyle": "-", "color": MUTED})
    axes.set_ylim(0, 10)
    axes.set_xlabel("log10 LR that was given")
    axes.set_ylabel("cost in bits")
    axes.legend(loc="upper center", fontsize=8.5)


def calibration(figure: Figure) -> None:
    """A model that is too sure of itself, and what a logistic calibration makes of it."""
    rng = np.random.default_rng(11)
    llrs = [_overconfident(rng, 2500) for _ in range(2)]
    logistic = Logistic.fit(llrs[0])
    after = llrs[1].map(logistic)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, pairs, name in zip(panels, (llrs[1], after), ("As computed", "After logistic calibration"), strict=True):
        curve = pav_curve(pairs)
        panel.plot(LIMITS, LIMITS, "--", color=IDENTITY, label="LLRs that mean what they say")
        panel.plot(curve.llr, curve.pav_llr, color=SAME, label="these LLRs")
        panel.set_xlim(LIMITS)
        panel.set_ylim(LIMITS)
        panel.set_aspect("equal")
        panel.set_title(f"{name}: \nCllr {cllr(pairs):.2f}, Cllr_min {cllr_min(pairs):.2f}")
        panel.set_xlabel("log10 LR that was given")
    panels[0].set_ylabel("log10 LR that it should have been")
    panels[0].legend(loc="upper left", fontsize=8.5)


def _overconfident(rng: np.random.Generator, n: int) -> LLRs:
    """Pairs on one axis whose within variance is four times what the model takes it for."""
    truth = 4 * WITHIN
    theta, other = rng.normal(0, 1, (2, n))
    x, y, z = (rng.normal(mean, np.sqrt(truth)) for mean in (theta, theta, other))
    return LLRs(log10_lr(x, y), log10_lr(x, z))


PICTURES: dict[str, tuple[Callable[[Figure], None], tuple[float, float]]] = {
    "model-two-levels.svg": (two_levels, (6.4, 4.2)),
    "model-similarity-typicality.svg": (similarity_and_typicality, (7.6, 3.1)),
    "model-surface.svg": (surface, (4.8, 4.4)),
    "model-heavy-tails.svg": (heavy_tails, (7.6, 3.3)),
    "model-cost.svg": (cost, (5.2, 3.2)),
    "model-calibration.svg": (calibration, (7.4, 4.5)),
}
"""The pictures by file name: what draws them, and their size in inches."""


def draw(folder: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "svg"}):
        for name, (paint, size) in PICTURES.items():
            figure = Figure(figsize=size, layout="constrained", facecolor="white")
            paint(figure)
            figure.savefig(folder / name, format="svg", dpi=110, metadata={"Date": None, "Creator": None})
    return [folder / name for name in PICTURES]


if __name__ == "__main__":
    print(*draw(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES), sep="\n")

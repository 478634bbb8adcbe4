"""Plots of log10 LRs of pairs whose truth is known, on matplotlib axes: Tippett, PAV, ECE, DET and histogram.

Each function takes the LLRs of same-source and of different-source pairs as two arrays, or as one `lindley.llrs.LLRs`, draws
on ``ax`` and returns it; without ``ax`` it makes a figure. The functions ``draw_…`` below draw what was computed before, for
the figures of a report.

    >>> ax = tippett([2.0, 0.5, -0.1], [-3.0, -1.0, 0.2])
    >>> ax.figure.savefig("tippett.svg")  # doctest: +SKIP

Colours are Okabe and Ito's or close to them, chosen so that the two of a pair differ in lightness too: they stay apart in
greyscale and for every common colour blindness. Nothing is told by colour alone: dashes say it again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from lindley.evaluation import curves
from lindley.llrs import Floats, LLRs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["det", "ece", "histogram", "pav", "tippett"]

INK = "#1c2733"
MUTED = "#5d6a76"
GRID = "#e4e8ec"
SAME = "#00588f"  # dark blue; lightness 36
DIFFERENT = "#e69f00"  # orange; lightness 71
AFTER_PAV = "#007f63"
IDENTITY = "#c8921a"  # the yellow reference line of the paper, dark enough for paper
DASHES: dict[str, tuple[int, tuple[float, ...]]] = {
    "dash": (0, (5, 2.5)),
    "dashdot": (0, (6, 2, 1, 2)),
    "dot": (0, (1, 1.6)),
    "longdash": (0, (9, 3)),
}
"""How often a line is drawn and left out, by plotly's names."""
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in the name of a source is a dollar
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
}
"""matplotlib's settings for a figure that is made here. Axes that are given keep their own."""

SIZE = (4.4, 3.9)
"""Inches, of a figure that is made here."""
LIMIT = 10.0
"""A PAV plot goes no further out than this LLR: beyond it, one pair would decide the scale."""
LIMIT_TIPPETT = 12.0
"""… and a Tippett plot no further than this."""
MARKS = 400
"""Places below a PAV plot that pairs are marked at: those closer together would not be told apart."""
ERROR_TICKS = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)

Data = TypeVar("Data")


def tippett(same: ArrayLike | LLRs, different: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Tippett plot: the share of the pairs of each kind with an LLR at or above x."""
    return _drawn(draw_tippett, curves.tippett(LLRs.of(same, different)), ax)


def pav(same: ArrayLike | LLRs, different: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """PAV plot: LLRs before and after the best monotone recalibration; on the diagonal if they mean what they say.

    A triangle stands where only one kind of pairs occurs, and the recalibrated LLR is infinite. The marks below are the
    pairs, ``|`` same-source and ``+`` different-source.
    """
    llrs = LLRs.of(same, different)
    curve = curves.pav_curve(llrs)
    limits = pav_limits(llrs.same, curve)
    at_same, at_different = _marked(llrs.same, limits), _marked(llrs.different, limits)
    return _drawn(partial(draw_pav, limits=limits, same=at_same, different=at_different), curve, ax)


def ece(
    same: ArrayLike | LLRs,
    different: ArrayLike | None = None,
    *,
    prior_log10_odds: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Empirical cross-entropy over prior log10 odds, −3 to 3 by default; at 0 it is Cllr."""
    return _drawn(draw_ece, curves.ece(LLRs.of(same, different), prior_log10_odds), ax)


def det(same: ArrayLike | LLRs, different: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """DET plot: false negatives against false positives on normal-deviate axes, and the equal error rate.

    Normally distributed LLRs give a straight line, the further to the lower left the better they tell sources apart.
    """
    return _drawn(draw_det, curves.det(LLRs.of(same, different)), ax)


def histogram(
    same: ArrayLike | LLRs,
    different: ArrayLike | None = None,
    *,
    bins: int = 60,
    limits: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the LLRs, the shares of each kind in ``bins`` over ``limits``; what is beyond is in the outermost bins.

    By default the limits are those that show the same-source LLRs well, see
    `lindley.evaluation.curves.histogram_limits`.
    """
    llrs = LLRs.of(same, different)
    return _drawn(draw_histogram, curves.histogram(llrs, bins, limits or curves.histogram_limits(llrs)), ax)


def draw_tippett(ax: Axes, curve: curves.Tippett) -> None:
    """Both shares over the LLR."""
    ax.plot(curve.llr, curve.same, color=SAME, label="same-source")
    ax.plot(curve.llr, curve.different, color=DIFFERENT, ls=DASHES["dash"], label="different-source")
    ax.axvline(0, color=MUTED, lw=0.8, ls=DASHES["dot"])
    ax.set(xlabel="LLR (log10)", ylabel="share of pairs at or above")
    ax.set_xlim(max(float(curve.llr[0]), -LIMIT_TIPPETT), min(float(curve.llr[-1]), LIMIT_TIPPETT))


def draw_pav(
    ax: Axes, curve: curves.PavCurve, limits: tuple[float, float], same: ArrayLike, different: ArrayLike
) -> None:
    """The line of finite LLRs, a triangle where they become infinite, and marks at the LLRs ``same`` and ``different``."""
    low, high = limits
    ax.plot([low, high], [low, high], color=IDENTITY, lw=1.2, ls=DASHES["dash"])
    shown = np.isfinite(curve.pav_llr)
    ax.plot(curve.llr[shown], curve.pav_llr[shown], color=SAME, lw=1.5)
    for infinite, marker, y in ((-np.inf, "v", low + 0.03 * (high - low)), (np.inf, "^", high)):
        ends = curve.llr[curve.pav_llr == infinite]
        if ends.size:
            x = min(max(float(ends.max() if infinite < 0 else ends.min()), low), high)
            ax.plot([x], [y], marker, ms=5, color=SAME, clip_on=False)
    for marks, label, marker, colour, y in (
        (same, "same-source", "|", SAME, 0.105),
        (different, "different-source", "+", DIFFERENT, 0.055),
    ):
        at = np.asarray(marks)
        ax.plot(at, np.full(at.shape, low + y * (high - low)), marker, ms=4, mew=0.7, color=colour, label=label)
    ax.set(xlim=limits, ylim=limits, xlabel="LLR as given", ylabel="LLR after PAV")
    ax.set_aspect("equal")
    ax.grid()


def draw_ece(ax: Axes, curve: curves.Ece) -> None:
    """The system as it is, after PAV, and what it costs to have no LR."""
    prior = curve.prior_log10_odds
    ax.plot(prior, curve.neutral, color=MUTED, ls=DASHES["dot"], label="no LR (LR = 1)")
    ax.plot(prior, curve.system, color=SAME, label="this system")
    ax.plot(prior, curve.pav, color=AFTER_PAV, ls=DASHES["dash"], label="after PAV")
    ax.set(xlabel="prior log10 odds", ylabel="empirical cross-entropy (bits)")
    at_even_odds = float(np.interp(0.0, prior, curve.system))
    ax.set_ylim(0, max(1.03, 1.1 * at_even_odds) if at_even_odds < 2 else 2.0)


def draw_det(ax: Axes, curve: curves.Det) -> None:
    """The line of both errors, held within what the axes show, with the diagonal and the equal error rate on it."""
    errors = np.concatenate([curve.false_positive, curve.false_negative])
    smallest = min(float(errors[errors > 0].min()), 0.01)
    low, high = max([tick for tick in ERROR_TICKS if tick <= smallest], default=ERROR_TICKS[0]) / 2, 0.995
    ax.set_xscale("function", functions=(ndtri, ndtr))
    ax.set_yscale("function", functions=(ndtri, ndtr))
    ax.plot([low, high], [low, high], color=MUTED, lw=0.8, ls=DASHES["dot"])
    ax.plot(np.clip(curve.false_positive, low, high), np.clip(curve.false_negative, low, high), color=SAME)
    at = min(max(curve.eer, low), high)
    ax.plot([at], [at], "o", ms=5, color=SAME, clip_on=False, label=f"equal error rate {100 * curve.eer:.3g} %")
    ticks = [tick for tick in ERROR_TICKS if low <= tick <= high]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{100 * tick:g}" for tick in ticks])
        axis.set_ticks([], minor=True)
    ax.set(xlim=(low, high), ylim=(low, high), xlabel="false positives (%)", ylabel="false negatives (%)")
    ax.set_aspect("equal")
    ax.grid()


def draw_histogram(ax: Axes, bins: curves.Histogram) -> None:
    """Different-source light, same-source dark over it: apart in greyscale too."""
    ax.stairs(bins.different, bins.edges, fill=True, color=DIFFERENT, alpha=0.75, lw=0, label="different-source")
    ax.stairs(bins.same, bins.edges, fill=True, color=SAME, alpha=0.7, lw=0, label="same-source")
    ax.axvline(0, color=MUTED, lw=0.6, ls=DASHES["dot"], zorder=0)
    ax.set(xlabel="LLR (log10)", ylabel="share of pairs")
    ax.set_ylim(0, None)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def pav_limits(same: Floats, *shown: curves.PavCurve) -> tuple[float, float]:
    """One view for the PAV curves: where they are finite and same-source LLRs are, at most ±`LIMIT`."""
    values = [np.array([-2.0, 2.0]), same]
    for curve in shown:
        finite = np.isfinite(curve.pav_llr)
        values += [curve.llr[finite], curve.pav_llr[finite]]
    every = np.concatenate(values)
    low, high = max(float(every.min()), -LIMIT), min(float(every.max()), LIMIT)
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _marked(llr: Floats, limits: tuple[float, float]) -> Floats:
    """The LLRs within the limits, one for all that fall on one place of `MARKS`."""
    inside = np.sort(llr[(llr >= limits[0]) & (llr <= limits[1])])
    _, first = np.unique(np.floor((inside - limits[0]) / (limits[1] - limits[0]) * MARKS), return_index=True)
    return inside[first]


def _drawn(draw: Callable[[Axes, Data], None], data: Data, ax: Axes | None) -> Axes:
    """Draw, with a legend, on the axes given or on those of a new figure in the style of a report."""
    if ax is not None:
        draw(ax, data)
        ax.legend()
        return ax
    from matplotlib import pyplot, rc_context

    with rc_context(STYLE):
        _, new = pyplot.subplots(figsize=SIZE, layout="constrained")
        draw(new, data)
        new.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return new

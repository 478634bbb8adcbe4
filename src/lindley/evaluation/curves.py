"""The data of evaluation plots. Nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lindley.calibration.counted import pav
from lindley.evaluation.metrics import eer, error_rates, log2_cost, mean
from lindley.llrs import Floats, LLRs, weight_above

__all__ = [
    "Det",
    "Ece",
    "Histogram",
    "PavCurve",
    "Tippett",
    "det",
    "ece",
    "histogram",
    "histogram_limits",
    "pav_curve",
    "tippett",
]

CORE = (0.02, 0.98)
"""The share of the same-source LLRs that a histogram is laid out for."""
REACH = 2.0
"""How far a histogram goes beyond that core, in widths of it."""


@dataclass(frozen=True, eq=False)
class PavCurve:
    """PAV plot: LLR before (x) and after (y) PAV, as the corners of a line. The identity is perfect."""

    llr: Floats  # (n_corner,) non-decreasing
    pav_llr: Floats  # (n_corner,) non-decreasing; −inf or inf at the ends where only one hypothesis occurs


def pav_curve(llrs: LLRs) -> PavCurve:
    """Both ends of every PAV block."""
    blocks = pav(llrs)
    ends = np.stack([blocks.lower, blocks.upper], axis=1).reshape(-1)
    return PavCurve(ends, np.repeat(blocks.llr, 2))


@dataclass(frozen=True, eq=False)
class Ece:
    """Empirical cross-entropy in bits over prior log10 odds; at prior odds 1, ``system`` is Cllr."""

    prior_log10_odds: Floats  # (n_prior,)
    system: Floats  # (n_prior,) the LLRs as they are
    pav: Floats  # (n_prior,) after PAV: discrimination alone
    neutral: Floats  # (n_prior,) with LR = 1 for every pair: the entropy of the prior


def ece(llrs: LLRs, prior_log10_odds: ArrayLike | None = None) -> Ece:
    """Empirical cross-entropy, Ramos and Gonzalez-Rodriguez (2013), Forensic Science International 230,
    156–169.

    With prior probability P and odds o = P / (1 − P),

        ECE = P ⟨log2(1 + 1/(o LR))⟩_same + (1 − P) ⟨log2(1 + o LR)⟩_different.

    ``prior_log10_odds``: −3 to 3 in steps of 0.05 unless given.
    """
    prior = np.linspace(-3.0, 3.0, 121) if prior_log10_odds is None else np.asarray(prior_log10_odds, dtype=np.float64)
    p_same, p_different = np.exp2(-log2_cost(-prior)), np.exp2(-log2_cost(prior))
    system = [
        p1 * mean(log2_cost(-llrs.same - o), llrs.same_weight)
        + p2 * mean(log2_cost(llrs.different + o), llrs.different_weight)
        for o, p1, p2 in zip(prior, p_same, p_different, strict=True)
    ]
    blocks = pav(llrs)
    mixed = np.isfinite(blocks.llr)  # the others cost nothing at any prior
    posterior = prior[:, None] + blocks.llr[mixed]  # (n_prior, n_block)
    share_same = blocks.same[mixed] / blocks.same.sum()
    share_different = blocks.different[mixed] / blocks.different.sum()
    after_pav = p_same * np.sum(share_same * log2_cost(-posterior), axis=1) + p_different * np.sum(
        share_different * log2_cost(posterior), axis=1
    )
    neutral = p_same * log2_cost(-prior) + p_different * log2_cost(prior)
    return Ece(prior, np.array(system), after_pav, neutral)


@dataclass(frozen=True, eq=False)
class Tippett:
    """Tippett plot: share of the pairs of each hypothesis with an LLR of at least x."""

    llr: Floats  # (n_point,) increasing
    same: Floats  # (n_point,) from 1 to 0
    different: Floats  # (n_point,) from 1 to 0


def tippett(llrs: LLRs, llr: Floats | None = None) -> Tippett:
    """Shares P(LLR ≥ x) under each hypothesis.

    ``llr``: the increasing x. By default 300 where a histogram shows LLRs, see `histogram_limits`, and 50 to either side
    out to the furthest LLR, so that both curves run from 1 to 0.
    """
    if llr is None:
        low, high = histogram_limits(llrs)
        margin = 0.02 * (high - low)
        lowest, highest = llrs.range
        sides = np.linspace(min(lowest, low) - margin, low, 50), np.linspace(high, max(highest, high) + margin, 50)
        llr = np.unique(np.concatenate([*sides, np.linspace(low, high, 300)]))
    at = np.asarray(llr, dtype=np.float64)
    both = zip((llrs.same, llrs.different), llrs.weights, strict=True)
    same, different = (np.minimum(weight_above(values, weight, at) / weight.sum(), 1.0) for values, weight in both)
    return Tippett(at, same, different)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Histogram of the LLRs: the share of each hypothesis' pairs in every bin. The shares sum to 1."""

    edges: Floats  # (n_bin + 1,) log10
    same: Floats  # (n_bin,)
    different: Floats  # (n_bin,)


def histogram(llrs: LLRs, bins: int = 60, limits: tuple[float, float] | None = None) -> Histogram:
    """Shares in ``bins`` bins of equal width over ``limits`` (all LLRs by default).

    LLRs beyond ``limits`` count in the outermost bin, so that nothing disappears from sight.
    """
    if limits is None:
        lowest, highest = llrs.range
        limits = (lowest, highest) if highest > lowest else (lowest - 0.5, highest + 0.5)
    edges = np.linspace(*limits, bins + 1)
    weight_same, weight_different = llrs.weights
    same, _ = np.histogram(np.clip(llrs.same, *limits), edges, weights=weight_same)
    different, _ = np.histogram(np.clip(llrs.different, *limits), edges, weights=weight_different)
    return Histogram(edges, same / same.sum(), different / different.sum())


def histogram_limits(llrs: LLRs) -> tuple[float, float]:
    """Limits within which the LLRs of both hypotheses are told apart by eye; what is beyond goes into the outermost bins.

    Laid out for the central same-source LLRs, with `REACH` times their width (at least that many units of log10) to both
    sides where there are LLRs: most different-source LLRs of a good system are far below all that matters, and a handful of
    extreme LLRs would squash the rest. LLR = 0 is always there, and the whole is at least one unit wide, so that an axis
    that says nothing is seen as a spike.
    """
    (low, high), (lowest, highest) = np.quantile(llrs.same, CORE), llrs.range
    reach = REACH * max(high - low, 1.0)
    low, high = min(max(low - reach, lowest), 0.0), max(min(high + reach, highest), 0.0)
    widen = max(1.0 - (high - low), 0.0) / 2
    return float(low - widen), float(high + widen)


@dataclass(frozen=True, eq=False)
class Det:
    """Detection error trade-off: the two errors of deciding "same source" where LLR ≥ t, over all thresholds t."""

    false_positive: Floats  # (n_point,) P(LLR ≥ t | different), from 1 to 0
    false_negative: Floats  # (n_point,) P(LLR < t | same), from 0 to 1
    eer: float  # where the two are equal


def det(llrs: LLRs) -> Det:
    """Both errors at the thresholds between the LLRs, Martin et al. (1997), Proc. Eurospeech, 1895–1898.

    Normally distributed LLRs give a straight line where either error is drawn as its normal deviate.
    """
    false_negative, false_positive = error_rates(llrs)
    return Det(false_positive, false_negative, eer(llrs))

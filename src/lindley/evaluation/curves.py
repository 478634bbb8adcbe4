"""The data of evaluation plots. Nothing is drawn here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lindley.calibration.pav import pav
from lindley.evaluation.metrics import log2_cost, mean
from lindley.llrs import LN10, Floats, LLRs

__all__ = ["Ece", "Histogram", "PavCurve", "Tippett", "ece", "histogram", "pav_curve", "tippett"]


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


def ece(llrs: LLRs, prior_log10_odds: Floats | None = None) -> Ece:
    """Empirical cross-entropy, Ramos and Gonzalez-Rodriguez (2013), Forensic Science International 230,
    156–169.

    With prior probability P and odds o = P / (1 − P),

        ECE = P ⟨log2(1 + 1/(o LR))⟩_same + (1 − P) ⟨log2(1 + o LR)⟩_different.

    ``prior_log10_odds``: −3 to 3 in steps of 0.05 unless given.
    """
    prior = np.linspace(-3.0, 3.0, 121) if prior_log10_odds is None else np.asarray(prior_log10_odds)
    prior = prior.astype(np.float64)
    p_same, p_different = np.exp(-LN10 * _softplus10(-prior)), np.exp(-LN10 * _softplus10(prior))
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
    """Shares P(LLR ≥ x) under each hypothesis; ``llr``: the increasing x (default: 1001 over all LLRs)."""
    if llr is None:
        lowest = min(llrs.same.min(), llrs.different.min())
        highest = max(llrs.same.max(), llrs.different.max())
        margin = 0.02 * (highest - lowest) or 1.0
        llr = np.linspace(lowest - margin, highest + margin, 1001)
    at = np.asarray(llr, dtype=np.float64)
    weight_same, weight_different = llrs.weights
    return Tippett(at, _share_from(at, llrs.same, weight_same), _share_from(at, llrs.different, weight_different))


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
        lowest = float(min(llrs.same.min(), llrs.different.min()))
        highest = float(max(llrs.same.max(), llrs.different.max()))
        limits = (lowest, highest) if highest > lowest else (lowest - 0.5, highest + 0.5)
    edges = np.linspace(*limits, bins + 1)
    weight_same, weight_different = llrs.weights
    same, _ = np.histogram(np.clip(llrs.same, *limits), edges, weights=weight_same)
    different, _ = np.histogram(np.clip(llrs.different, *limits), edges, weights=weight_different)
    return Histogram(edges, same / same.sum(), different / different.sum())


def _softplus10(x: Floats) -> Floats:
    """log10(1 + 10ˣ)."""
    return log2_cost(x) * (math.log(2.0) / LN10)


def _share_from(at: Floats, values: Floats, weight: Floats) -> Floats:
    """Share of the weight at or above each of the increasing points."""
    reached = np.searchsorted(at, values, side="right")
    by_reached = np.bincount(reached, weight, minlength=at.size + 1)
    share = np.cumsum(by_reached[::-1])[::-1][1:] / weight.sum()
    return np.asarray(np.minimum(share, 1.0), dtype=np.float64)

"""Per-axis analysis of a two-level model: what every axis contributes, and whether its data follow the model.

The LLR of a pair is a sum over axes where the law between sources factors over them: the terms are their own LLRs. Nothing is
drawn here, and torch is loaded only when an analysis is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lindley.evaluation.metrics import cllr, cllr_min
from lindley.llrs import LN10, Floats, LLRs
from lindley.table.splits import choose_pairs

if TYPE_CHECKING:
    from lindley.models.two_level import PairModel
    from lindley.table.splits import Part, Side

__all__ = ["QQ", "AxisAnalysis", "AxisKind", "analyse_axes", "classify"]

AxisKind = Literal["discriminating", "neutral", "bias", "mixed"]
Index = NDArray[np.intp]

CENTRAL = 0.9
"""The share of the LLRs, around their median, that decides what kind of axis it is: a few outliers do not."""
NEUTRAL_LLR = 0.05
"""The central LLRs of a neutral axis are closer to 0 than this (log10: factors of 0.89 to 1.12)."""
BIAS_SPREAD = 0.1
"""The central LLRs of a bias axis, of both hypotheses together, spread less than this."""
DISCRIMINATING_GAP = 0.1
"""The median same-source LLR of a discriminating axis is above the different-source one by more than this …"""
DISCRIMINATING_CLLR_MIN = 0.9
"""… and its Cllr after the best recalibration is below this. A shift of all LLRs does not hide discrimination."""

BLOCK_PAIRS = 1 << 16


@dataclass(frozen=True, eq=False)
class QQ:
    """QQ-norm data: the points (quantile, z) of every axis lie on the identity if z is standard normal.

    A slope below 1: the data vary less than the variance of the model.
    """

    quantile: Floats  # (n,) standard normal quantiles at (i − ½)/n
    z: Floats  # (n, axis) increasing


@dataclass(frozen=True, eq=False)
class AxisAnalysis:
    """LLRs, z-scores and kinds of the axes of one run. Axes are columns, counted from 0."""

    same: Floats  # (same-source pairs, axis) log10 LRs
    different: Floats  # (different-source pairs, axis) log10 LRs
    z_h1: Floats  # (same-source pairs, axis), the paper's Eq. 4
    z_h2: Floats  # (traces, axis), the paper's Eq. 5

    @property
    def n_axes(self) -> int:
        """The number of axes."""
        return int(self.same.shape[1])

    def llrs(self, axis: int) -> LLRs:
        """The LLRs of one axis."""
        return LLRs(self.same[:, axis], self.different[:, axis])

    @cached_property
    def omnibus(self) -> LLRs:
        """The LLRs of all axes together: the sums."""
        return LLRs(self.same.sum(axis=1), self.different.sum(axis=1))

    @cached_property
    def cllr(self) -> Floats:
        """Cllr of every axis on its own (axis,); above 1 is worse than no LR."""
        return np.array([cllr(self.llrs(axis)) for axis in range(self.n_axes)])

    @cached_property
    def cllr_min(self) -> Floats:
        """Cllr of every axis after PAV (axis,): what it could discriminate."""
        return np.array([cllr_min(self.llrs(axis)) for axis in range(self.n_axes)])

    @cached_property
    def kinds(self) -> tuple[AxisKind, ...]:
        """The kind of every axis, see `classify`."""
        return tuple(classify(self.llrs(axis)) for axis in range(self.n_axes))

    @property
    def qq_h1(self) -> QQ:
        """QQ data of the same-source pairs under H1."""
        return _qq(self.z_h1)

    @property
    def qq_h2(self) -> QQ:
        """QQ data of the traces under H2."""
        return _qq(self.z_h2)

    def summary(self) -> list[dict[str, str | int | float]]:
        """One flat dictionary per axis, of what JSON can hold."""
        quantiles = {}
        for name, values in (("same", self.same), ("different", self.different)):
            for share, label in (((1 - CENTRAL) / 2, "low"), (0.5, "median"), ((1 + CENTRAL) / 2, "high")):
                quantiles[f"llr_{name}_{label}"] = np.quantile(values, share, axis=0)
        columns = {
            "cllr": self.cllr,
            "cllr_min": self.cllr_min,
            **quantiles,
            "z_h1_rms": np.sqrt(np.mean(self.z_h1**2, axis=0)),
            "z_h2_mean": self.z_h2.mean(axis=0),
            "z_h2_rms": np.sqrt(np.mean(self.z_h2**2, axis=0)),
        }
        return [
            {"axis": axis, "kind": kind, **{name: float(column[axis]) for name, column in columns.items()}}
            for axis, kind in enumerate(self.kinds)
        ]


def classify(llrs: LLRs) -> AxisKind:
    """What an axis is for, by the central 90 % of its same-source and of its different-source LLRs.

    *neutral*
        All within ±`NEUTRAL_LLR`: training has silenced the axis.
    *bias*
        All within one interval shorter than `BIAS_SPREAD`, but not around 0: the axis shifts every LLR by about the same
        amount, which other axes make up for. The paper's histogram spikes off LR = 1.
    *discriminating*
        The same-source median is more than `DISCRIMINATING_GAP` above the different-source one, and Cllr_min is below
        `DISCRIMINATING_CLLR_MIN`.
    *mixed*
        None of these: LLRs vary, and tell the hypotheses apart badly or not at all.
    """
    ends = [(1 - CENTRAL) / 2, (1 + CENTRAL) / 2]
    central = np.concatenate([np.quantile(llrs.same, ends), np.quantile(llrs.different, ends)])
    if np.abs(central).max() < NEUTRAL_LLR:
        return "neutral"
    if np.ptp(central) < BIAS_SPREAD:
        return "bias"
    gap = np.median(llrs.same) - np.median(llrs.different)
    if gap > DISCRIMINATING_GAP and cllr_min(llrs) < DISCRIMINATING_CLLR_MIN:
        return "discriminating"
    return "mixed"


def analyse_axes(
    model: PairModel, part: Part, *, run: int | None = None, most_different: int | None = 20_000, seed: int = 0
) -> AxisAnalysis:
    """LLRs and z-scores per axis of one run on the part that belongs to it, in float64.

    With d = var_within_trace/M and e = var_within_ref/N,

        z₁ = (trace − ref)/√(d + e)        for same-source pairs (the paper's Eq. 4),
        z₂ = (trace − μ_B)/√(d + var_B)    for traces (the paper's Eq. 5).

    A mixture between sources enters Eq. 5 with its mean and its variance, a model whose within variance is integrated
    out with the variances that were trained.

    Args:
        model: its law between sources must factor over axes.
        part: traces and refs, scaled as the model expects.
        run: which run of the model; needed unless there is one only.
        most_different: a random choice of that many different-source pairs, or ``None`` for all of them.
        seed: of that choice.

    Raises:
        TypeError: if the law does not factor over axes.
    """
    import torch

    from lindley.models.two_level import take_runs

    runs = model.centre.shape[0]
    if run is None and runs != 1:
        raise ValueError(f"the model has {runs} runs: say which one to analyse")
    at = 0 if run is None else run
    if not 0 <= at < runs:
        raise ValueError(f"there is no run {at} in a model of {runs} runs")
    one = take_runs(model, [at]).map(lambda t: t.double())
    trace, ref = part.trace, part.ref
    i_same, j_same, i_different, j_different = choose_pairs(trace, ref, most_different, seed)
    with torch.inference_mode():
        same = _llr_pairs(one, trace, ref, i_same, j_same)
        different = _llr_pairs(one, trace, ref, i_different, j_different)
        mean, var = (t[0].cpu().numpy() for t in one.between_moments())
        x, y = (one.project(torch.from_numpy(side.mean).to(one.centre))[0].cpu().numpy() for side in (trace, ref))
        var_trace, var_ref = (v[0].cpu().numpy() for v in (one.var_within_trace, one.var_within_ref))
    d, e = var_trace / trace.count[:, None], var_ref / ref.count[:, None]  # (items, axis)
    z_h1 = (x[i_same] - y[j_same]) / np.sqrt(d[i_same] + e[j_same])
    z_h2 = (x - mean) / np.sqrt(d + var)
    return AxisAnalysis(same, different, z_h1, z_h2)


def _llr_pairs(model: PairModel, trace: Side, ref: Side, i: Index, j: Index) -> Floats:
    """log10 LRs (pairs, axis) of the traces i and the refs j."""
    from lindley.models.pairs import equal_numbers, means_and_scatter

    llr = np.empty((len(i), model.projection.shape[-1]))
    for some in equal_numbers(trace, ref, i, j, BLOCK_PAIRS):
        given = means_and_scatter(model, trace, ref, i[some], j[some])
        llr[some] = model.ln_lr_pairs(*given)[0].cpu().numpy() / LN10
    return llr


def _qq(z: Floats) -> QQ:
    n = len(z)
    return QQ(ndtri((np.arange(n) + 0.5) / n), np.sort(z, axis=0))

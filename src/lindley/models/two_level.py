"""The two-level model: a projection, a within law and a between law, for all runs and all pairs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.data.splits import Side
from lindley.llrs import LN10
from lindley.models.axes import AxisLaw
from lindley.models.between import Between

__all__ = ["PairModel", "TwoLevel", "map_tensors", "score"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

BLOCK_PAIRS = 1 << 23
"""Pairs scored at a time, over all runs: 64 MiB of LLRs, and a few times that on the way."""


class PairModel(Protocol):
    """What scoring needs of a model: one per run, with all pairs at once."""

    @property
    def centre(self) -> Tensor:
        """A typical instance (run, 1, feature)."""
        ...

    def ln_lr(self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1) -> Tensor:
        """ln LR of all pairs of means of instances, (run, traces, refs)."""
        ...


@dataclass(frozen=True, eq=False)
class TwoLevel:
    """Instances are centred and projected onto axes on which all covariances are diagonal.

    A trace and a ref may have variances of their own ("N=2" in the paper); the classical model has one.
    Shapes carry a leading run dimension: one model per split, scored together.
    """

    centre: Tensor  # (run, 1, feature)
    projection: Tensor  # (run, feature, axis)
    var_within_trace: Tensor  # (run, 1, axis)
    var_within_ref: Tensor  # (run, 1, axis)
    between: Between

    def map(self, function: Callable[[Tensor], Tensor]) -> TwoLevel:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
        return map_tensors(self, function)

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis)."""
        return (values - self.centre) @ self.projection

    def ln_lr(self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances; under normal scatter within a
        source the mean is all there is to know.
        """
        d, e = self.var_within_trace / n_trace, self.var_within_ref / n_ref
        return self.between.ln_lr(self.project(trace), self.project(ref), d, e)

    def ln_lr_pairs(self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1) -> Tensor:
        """ln LR per axis of given pairs: trace and ref (run, pairs, feature), the result (run, pairs, axis)."""
        d, e = self.var_within_trace / n_trace, self.var_within_ref / n_ref
        return self._axis_law().ln_lr_pairs(self.project(trace), self.project(ref), d, e)

    def _axis_law(self) -> AxisLaw:
        if not isinstance(self.between, AxisLaw):
            raise TypeError(f"{type(self.between).__name__} does not factor over axes")
        return self.between


def score(model: PairModel, traces: Sequence[Side], refs: Sequence[Side]) -> list[Floats]:
    """log10 LRs of all pairs of every run: one (traces, refs) matrix per run.

    Runs may differ in their numbers of items, and items in their numbers of instances. For more pairs than fit into
    memory, score parts of the sides (``trace[i:j]``) one after the other.
    """
    n_runs = model.centre.shape[0]
    if not n_runs == len(traces) == len(refs):
        raise ValueError(f"a model of {n_runs} runs got {len(traces)} sets of traces and {len(refs)} of refs")
    scores = [np.empty((len(t.source), len(r.source))) for t, r in zip(traces, refs, strict=True)]
    edge = max(1, int((BLOCK_PAIRS / n_runs) ** 0.5))
    # d and e belong to a number of instances, so items of equal numbers are scored together.
    for n_trace, n_ref in product(_counts(traces), _counts(refs)):
        rows = [np.flatnonzero(side.count == n_trace) for side in traces]
        columns = [np.flatnonzero(side.count == n_ref) for side in refs]
        for i, j in product(range(0, _longest(rows), edge), range(0, _longest(columns), edge)):
            some_rows = [index[i : i + edge] for index in rows]
            some_columns = [index[j : j + edge] for index in columns]
            x, y = _padded(traces, some_rows, model.centre), _padded(refs, some_columns, model.centre)
            with torch.inference_mode():
                llr = model.ln_lr(x, y, n_trace, n_ref).div_(LN10).cpu().numpy()
            for run, (r, c) in enumerate(zip(some_rows, some_columns, strict=True)):
                scores[run][np.ix_(r, c)] = llr[run, : len(r), : len(c)]
    return scores


T = TypeVar("T")


def map_tensors(value: T, function: Callable[[Tensor], Tensor]) -> T:
    """A dataclass of tensors, nested or not, with every tensor sent through ``function``."""
    if isinstance(value, Tensor):
        return cast(T, function(value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: map_tensors(getattr(value, f.name), function) for f in fields(value)})
    return value


def _counts(sides: Sequence[Side]) -> list[int]:
    return [int(n) for n in np.unique(np.concatenate([side.count for side in sides]))]


def _longest(indices: Sequence[Index]) -> int:
    return max(len(index) for index in indices)


def _padded(sides: Sequence[Side], indices: Sequence[Index], like: Tensor) -> Tensor:
    """The means of the chosen items of every run, (run, items, feature), filled up with the centre."""
    values = like.expand(-1, _longest(indices), -1).clone()
    for run, (side, index) in enumerate(zip(sides, indices, strict=True)):
        values[run, : len(index)] = torch.from_numpy(side.mean[index])
    return values

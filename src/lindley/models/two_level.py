"""The two-level model: a projection, a within law and a between law, for all runs and all pairs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Protocol, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.llrs import LN10, Floats
from lindley.models.between import AxisLaw, Between, KernelBetween, Scatter
from lindley.models.blocks import keep_memory, pieces
from lindley.table.splits import Side

__all__ = [
    "SHARED",
    "PairModel",
    "TwoLevel",
    "item_scatter",
    "item_squares",
    "ln_lr_on_diagonals",
    "map_tensors",
    "score",
    "score_there",
    "take_runs",
]

Index = NDArray[np.intp]

BLOCK_PAIRS = 1 << 23
"""Pairs scored at a time, over all runs: 64 MiB of LLRs, and a few times that on the way."""
BLOCK_OF_MEANS = 1 << 20
"""The same on a processor where only means count: so little is computed for a pair that a new page of memory costs more.

Memory of this size is used again for the next block. Other models do much for each item alone: large blocks serve them better.
"""
BLOCK_DIAGONAL = 32
"""Given pairs at a time, as the diagonal of a matrix."""
ROWS = 1 << 13
"""Instances whose squares are computed at a time."""
WORTH_KEEPING = 1 << 16
"""Pairs from which on memory is asked to stay."""


class PairModel(Protocol):
    """What is asked of a model, by scoring, by casework and by reports: one model per run, all pairs at once.

    Instances come as (run, items, feature). Every model looks at them on axes that are uncorrelated within and between
    sources.
    """

    @property
    def centre(self) -> Tensor:
        """A typical instance (run, 1, feature)."""

    @property
    def projection(self) -> Tensor:
        """How features load on axes (run, feature, axis)."""

    @property
    def var_within_trace(self) -> Tensor:
        """Variance of one instance of a trace around its source, on the axes (run, 1, axis)."""

    @property
    def var_within_ref(self) -> Tensor:
        """Variance of one instance of a ref (run, 1, axis)."""

    @property
    def uses_scatter(self) -> bool:
        """Whether more than the means of instances counts."""

    @property
    def has_axis_shares(self) -> bool:
        """Whether the LLR can be shared out over the axes, by `ln_lr_pairs`."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same model with every tensor sent through ``function``."""

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis)."""

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the axes, (run, 1, axis) each."""

    def scatter_of(self, instances: Tensor) -> Tensor:
        """What a `Scatter` for the model holds of items (run, items, instance, feature): (run, items, …)."""

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of means of instances, (run, traces, refs)."""

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity and typicality of all pairs: their difference is the ln LR."""

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """What every axis adds to the ln LR of given pairs (run, pairs, axis)."""

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""


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

    @property
    def uses_scatter(self) -> bool:
        """Whether the within variance is integrated out, so that the scatter of instances tells of it."""
        return self.between.uses_scatter

    @property
    def has_axis_shares(self) -> bool:
        """Whether the LLR is a sum of LLRs per axis."""
        return isinstance(self.between, AxisLaw)

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the axes, (run, 1, axis) each."""
        return self.between.moments()

    def map(self, function: Callable[[Tensor], Tensor]) -> TwoLevel:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
        return map_tensors(self, function)

    def project(self, values: Tensor) -> Tensor:
        """(run, items, feature) → (run, items, axis)."""
        return (values - self.centre) @ self.projection

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances. Where the within variance is known, the
        mean is all there is to know; where it is integrated out, ``scatter`` tells the rest.
        """
        return self.between.ln_lr(self.project(trace), self.project(ref), *self.variances(n_trace, n_ref), scatter)

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity ln p(trace | ref, one source) and typicality ln p(trace | another source) of all pairs.

        Their difference is the ln LR. They are densities of the (mean) trace in the features that go into the model: where
        there are as many axes as features, ln |det projection| takes them there from the axes.
        """
        variances = self.variances(n_trace, n_ref)
        numerator, denominator = self.between.ln_parts(self.project(trace), self.project(ref), *variances, scatter)
        jacobian = self.ln_jacobian()[:, None, None]
        return numerator + jacobian, (denominator + jacobian).expand_as(numerator)

    def ln_jacobian(self) -> Tensor:
        """ln |det projection| (run,), or zero where there are fewer axes than features."""
        if self.projection.shape[-1] != self.projection.shape[-2]:
            return torch.zeros_like(self.projection[:, 0, 0])
        ln_det: Tensor = torch.linalg.slogdet(self.projection).logabsdet
        return ln_det

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR per axis of given pairs: trace and ref (run, pairs, feature), the result (run, pairs, axis)."""
        if not isinstance(self.between, AxisLaw):
            raise TypeError(f"{type(self.between).__name__} does not factor over axes")
        x, y = self.project(trace), self.project(ref)
        return self.between.ln_lr_pairs(x, y, *self.variances(n_trace, n_ref), scatter)

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        if self.has_axis_shares:
            return self.ln_lr_pairs(trace, ref, n_trace, n_ref, scatter).sum(-1)
        if isinstance(self.between, KernelBetween):
            x, y = self.project(trace), self.project(ref)
            return self.between.ln_lr_given(x, y, *self.variances(n_trace, n_ref))
        return ln_lr_on_diagonals(self, trace, ref, n_trace, n_ref, scatter)

    def scatter_of(self, instances: Tensor) -> Tensor:
        """Sums of squares of the instances (run, items, instance, feature) around their means, on the axes."""
        return squares_around_mean(self.project(instances.flatten(1, 2)).reshape(*instances.shape[:3], -1))

    def variances(self, n_trace: int, n_ref: int) -> tuple[Tensor, Tensor]:
        """Of the means of so many instances of a trace and of a ref, (run, 1, axis) each."""
        return self.var_within_trace / n_trace, self.var_within_ref / n_ref


def ln_lr_on_diagonals(
    model: PairModel, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
) -> Tensor:
    """`PairModel.ln_lr_given` from `PairModel.ln_lr` of some of the traces with some of the refs at a time."""
    found = []
    for some in pieces(trace.shape[1], BLOCK_DIAGONAL):
        part = scatter and replace(scatter, trace=scatter.trace[:, some], ref=scatter.ref[:, some])
        found.append(model.ln_lr(trace[:, some], ref[:, some], n_trace, n_ref, part).diagonal(dim1=1, dim2=2))
    return torch.cat(found, 1)


def score(model: PairModel, traces: Sequence[Side], refs: Sequence[Side]) -> list[Floats]:
    """log10 LRs of all pairs of every run: one (traces, refs) matrix per run.

    Runs may differ in their numbers of items, and items in their numbers of instances. For more pairs than fit into
    memory, score parts of the sides (``trace[i:j]``) one after the other, as `lindley.evaluation.compress` does.
    """
    n_runs = model.centre.shape[0]
    if not n_runs == len(traces) == len(refs):
        raise ValueError(f"a model of {n_runs} runs got {len(traces)} sets of traces and {len(refs)} of refs")
    scores = [np.empty((len(t.source), len(r.source))) for t, r in zip(traces, refs, strict=True)]
    for rows, columns, found in _blocks(model, traces, refs):
        llr = found.cpu().numpy()
        for run, (r, c) in enumerate(zip(rows, columns, strict=True)):
            scores[run][_places(r, c)] = llr[run, : len(r), : len(c)]
    return scores


def _places(rows: Index, columns: Index) -> tuple[slice, slice] | tuple[Index, ...]:
    """Of a block in a matrix. Rows and columns in ascending order mostly have no gap: to write them as a whole is faster."""
    ends = [(int(each[0]), int(each[-1]) + 1) if len(each) else (0, 0) for each in (rows, columns)]
    if all(last - first == len(each) for (first, last), each in zip(ends, (rows, columns), strict=True)):
        return slice(*ends[0]), slice(*ends[1])
    return np.ix_(rows, columns)


def score_there(model: PairModel, trace: Side, ref: Side) -> Tensor:
    """`score` by a model of one run, as a tensor (traces, refs) where the model is, to be counted there."""
    shape = len(trace.source), len(ref.source)
    scores: Tensor | None = None
    for (rows,), (columns,), found in _blocks(model, [trace], [ref]):
        if found.shape[1:] == shape:  # all at once, and so in their order
            return found[0]
        scores = found.new_empty(shape) if scores is None else scores
        places = _places(rows, columns)
        scores[tuple(each if isinstance(each, slice) else torch.from_numpy(each) for each in places)] = found[0]
    return model.centre.new_empty(shape) if scores is None else scores


def _blocks(
    model: PairModel, traces: Sequence[Side], refs: Sequence[Side]
) -> Iterator[tuple[list[Index], list[Index], Tensor]]:
    """log10 LRs of some items of every run at a time: their rows, their columns and (run, rows, columns), filled up."""
    pairs = BLOCK_PAIRS
    if model.centre.device.type == "cpu":
        pairs = pairs if model.uses_scatter else BLOCK_OF_MEANS
        if sum(len(t.source) * len(r.source) for t, r in zip(traces, refs, strict=True)) > WORTH_KEEPING:
            keep_memory()
    edge = max(1, int((pairs / len(traces)) ** 0.5))
    # d and e belong to a number of instances, so items of equal numbers are scored together.
    for n_trace, n_ref in product(_counts(traces), _counts(refs)):
        rows = [np.flatnonzero(side.count == n_trace) for side in traces]
        columns = [np.flatnonzero(side.count == n_ref) for side in refs]
        for i, j in product(range(0, _longest(rows), edge), range(0, _longest(columns), edge)):
            some_rows = [index[i : i + edge] for index in rows]
            some_columns = [index[j : j + edge] for index in columns]
            x, y = _padded(traces, some_rows, model.centre), _padded(refs, some_columns, model.centre)
            with torch.inference_mode():
                scatter = None
                if model.uses_scatter and n_trace + n_ref > 2:
                    of_x, of_y = _padded_scatter(model, traces, some_rows), _padded_scatter(model, refs, some_columns)
                    scatter = Scatter(of_x, of_y, n_trace - 1, n_ref - 1)
                llr = model.ln_lr(x, y, n_trace, n_ref, scatter).div_(LN10)
            yield some_rows, some_columns, llr


T = TypeVar("T")
SHARED = {"shared": True}
"""Metadata of a field whose tensor all runs share, such as the nodes of a quadrature: it has no run dimension."""


def map_tensors(value: T, function: Callable[[Tensor], Tensor]) -> T:
    """A dataclass of tensors, nested or not, with every tensor sent through ``function``; so are those in tuples and lists."""
    if isinstance(value, Tensor):
        return cast(T, function(value))
    if isinstance(value, list | tuple):
        return cast(T, type(value)(map_tensors(part, function) for part in value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: map_tensors(getattr(value, f.name), function) for f in fields(value)})
    return value


def take_runs(model: T, runs: Sequence[int]) -> T:
    """The models of the given runs, in that order; a run may come more than once.

    The first dimension of every tensor counts runs, except in fields that are marked as `SHARED`.
    """
    if isinstance(model, Tensor):
        return cast(T, model[None, runs[0]] if len(runs) == 1 else model[list(runs)])  # of one run, a view
    if isinstance(model, tuple):
        return cast(T, tuple(take_runs(part, runs) for part in model))
    if is_dataclass(model) and not isinstance(model, type):
        own = [f.name for f in fields(model) if not f.metadata.get("shared")]
        return replace(model, **{name: take_runs(getattr(model, name), runs) for name in own})
    return model


def _counts(sides: Sequence[Side]) -> list[int]:
    return [int(n) for n in np.unique(np.concatenate([side.count for side in sides]))]


def _longest(indices: Sequence[Index]) -> int:
    return max(len(index) for index in indices)


def _padded(sides: Sequence[Side], indices: Sequence[Index], like: Tensor) -> Tensor:
    """The means of the chosen items of every run, (run, items, feature), filled up with the centre."""
    if len(sides) == 1:
        return torch.from_numpy(sides[0].mean[indices[0]]).to(like)[None]
    values = like.expand(-1, _longest(indices), -1).clone()
    for run, (side, index) in enumerate(zip(sides, indices, strict=True)):
        values[run, : len(index)] = torch.from_numpy(side.mean[index])
    return values


def item_squares(model: PairModel, side: Side) -> Tensor:
    """Sums of squares of the instances of every item around its mean, on the axes of a model of one run: (items, axis)."""
    blocks = pieces(len(side.values), ROWS)
    projected = (model.project(torch.from_numpy(side.values[some]).to(model.centre)[None])[0] for some in blocks)
    values = torch.cat(list(projected))
    item = torch.from_numpy(side.item).to(values.device)
    zeros = values.new_zeros((len(side.source), values.shape[-1]))
    means = zeros.index_add(0, item, values) / torch.from_numpy(side.count).to(values)[:, None]
    for some in blocks:
        zeros.index_add_(0, item[some], (values[some] - means[item[some]]) ** 2)
    return zeros


def squares_around_mean(values: Tensor) -> Tensor:
    """Sums of squares of instances (run, items, instance, direction) around their means: (run, items, direction)."""
    return ((values - values.mean(2, keepdim=True)) ** 2).sum(2)


def item_scatter(model: PairModel, side: Side, items: Index) -> Tensor:
    """What a `Scatter` for a model of one run holds of some items, all of equally many instances: (items, …)."""
    order = np.argsort(side.item, kind="stable")
    first = np.cumsum(side.count) - side.count
    rows = order[first[items][:, None] + np.arange(side.count[items[0]])]
    return model.scatter_of(torch.from_numpy(side.values[rows]).to(model.centre)[None])[0]


def _padded_scatter(model: PairModel, sides: Sequence[Side], indices: Sequence[Index]) -> Tensor:
    """The scatter of the chosen items of every run, (run, items, …), filled up with zeros."""
    if len(sides) == 1:
        return item_scatter(model, sides[0], indices[0])[None]
    runs = enumerate(zip(sides, indices, strict=True))
    found = {run: item_scatter(take_runs(model, [run]), side, index) for run, (side, index) in runs if len(index)}
    some = next(iter(found.values()))
    scatter = some.new_zeros((len(sides), _longest(indices), some.shape[-1]))
    for run, of_run in found.items():
        scatter[run, : len(of_run)] = of_run
    return scatter

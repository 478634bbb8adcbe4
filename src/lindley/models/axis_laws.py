"""Laws that factor over axes: their LLR is a sum of LLRs per axis, which are what an analyst reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

__all__ = ["AxisLaw", "Scatter"]


@dataclass(frozen=True, eq=False)
class Scatter:
    """How the instances of an item scatter around their mean: what they tell of a within variance that is not known.

    Sums of squares per axis, or along the directions that a model asks for (`lindley.models.two_level.scatter_squares`); each
    has as many degrees of freedom as the item has instances, less one.
    """

    trace: Tensor  # (run, traces, axis)
    ref: Tensor  # (run, refs, axis)
    freedom_trace: int
    freedom_ref: int


class AxisLaw(ABC):
    """A law given by its two densities on one axis.

    ``ln_parts_axis`` takes values that broadcast to (run, i, j); everything else follows from it. A law with a faster
    form for all pairs overrides ``ln_lr``.
    """

    uses_scatter: ClassVar[bool] = False
    """Whether more than the means of the instances counts: where the within variance is known, it does not."""

    @abstractmethod
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of source means, (run, 1, axis) each."""

    @abstractmethod
    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x | y, one source) and ln p(x | another source) on one axis.

        x and y broadcast to (run, i, j); their variances d and e are (run, 1, 1). Sums of squares in ``scatter`` have the
        shapes of x and y.
        """

    def ln_marginal(self, x: Tensor, d: Tensor) -> Tensor:
        """ln p(x) of means of instances (run, items, axis), (run, items): of them as traces from another source."""
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            x_k, d_k = x[:, :, axis, None], d[:, :, axis, None]
            total = total + self.ln_parts_axis(axis, x_k, x_k, d_k, d_k)[1][..., 0]
        return total

    def ln_lr_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR on one axis, of x and y that broadcast to (run, i, j)."""
        numerator, denominator = self.ln_parts_axis(axis, x, y, d, e, scatter)
        return numerator - denominator

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln LR of all pairs of x (run, traces, axis) and y (run, refs, axis): (run, traces, refs)."""
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            total = total + self.ln_lr_on(axis, x, y, d, e, scatter)
        return total

    def ln_parts(
        self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """ln p(x | y, one source) and ln p(x | another source) of all pairs, (run, traces, refs) and (run, traces, 1)."""
        numerator = denominator = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            up, down = self.ln_parts_axis(axis, *_columns(axis, x, y, d, e), _on_axis(axis, scatter))
            numerator, denominator = numerator + up, denominator + down
        return numerator, denominator

    def ln_lr_on(self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """The part of one axis in ``ln_lr``, (run, traces, refs)."""
        return self.ln_lr_axis(axis, *_columns(axis, x, y, d, e), _on_axis(axis, scatter))

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """ln LR per axis of given pairs: x and y are (run, pairs, axis), and so is the result."""
        llrs = []
        for axis in range(x.shape[-1]):
            one = None
            if scatter is not None:
                one = replace(scatter, trace=scatter.trace[:, :, axis, None], ref=scatter.ref[:, :, axis, None])
            x_k, y_k, d_k, e_k = (t[:, :, axis, None] for t in (x, y, d, e))
            llrs.append(self.ln_lr_axis(axis, x_k, y_k, d_k, e_k, one))
        return torch.cat(llrs, -1)


def _columns(axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One axis of traces as rows and of refs as columns, with their variances."""
    return x[:, :, axis, None], y[:, None, :, axis], d[:, :, axis, None], e[:, :, axis, None]


def _on_axis(axis: int, scatter: Scatter | None) -> Scatter | None:
    if scatter is None:
        return None
    return replace(scatter, trace=scatter.trace[:, :, axis, None], ref=scatter.ref[:, None, :, axis])

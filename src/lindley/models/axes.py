"""Laws that factor over axes: their LLR is a sum of LLRs per axis, which are what an analyst reads."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

__all__ = ["AxisLaw"]


class AxisLaw(ABC):
    """A law given by its LLR on one axis.

    ``ln_lr_axis`` takes values that broadcast to (run, i, j); everything else follows from it. A law with a faster
    form for all pairs overrides ``ln_lr``.
    """

    @abstractmethod
    def ln_lr_axis(self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln LR on one axis, of x and y that broadcast to (run, i, j), with variances d and e (run, 1, 1)."""

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln LR of all pairs of x (run, traces, axis) and y (run, refs, axis): (run, traces, refs)."""
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for axis in range(x.shape[-1]):
            total = total + self.ln_lr_on(axis, x, y, d, e)
        return total

    def ln_lr_on(self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """The part of one axis in ``ln_lr``, (run, traces, refs)."""
        return self.ln_lr_axis(axis, x[:, :, axis, None], y[:, None, :, axis], d[:, :, axis, None], e[:, :, axis, None])

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor) -> Tensor:
        """ln LR per axis of given pairs: x and y are (run, pairs, axis), and so is the result."""
        return torch.cat(
            [
                self.ln_lr_axis(
                    axis, x[:, :, axis, None], y[:, :, axis, None], d[:, :, axis, None], e[:, :, axis, None]
                )
                for axis in range(x.shape[-1])
            ],
            -1,
        )

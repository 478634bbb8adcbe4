"""Where a single instance lies: with its source, or off, by contamination or by a spike (`tails`).

One instance tells nothing of its scatter, and there is no other one that would tell that it is off. If it is as usual, it lies
where sources are, f; if it is off, where the background of `population` is, seen with the variance that it has then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lindley.models.exponentials import ln_sum_exp
from lindley.models.robust.kept import kept
from lindley.models.robust.population import FREEDOM, ln_background
from lindley.models.robust.tails import OFF_SCALES, SPIKE_SCALES, Tails, ln_sum

__all__ = ["SingleInstance"]


@dataclass(frozen=True, eq=False)
class SingleInstance:
    """The law of one instance on the axes, of every run."""

    tails: Tails
    var_between: Tensor  # λ (run, 1, axis)
    var_within: Tensor  # w (run, 1, axis)
    directions: Tensor  # u_f, of the features (run, feature, axis)

    def ln_density(self, points: Tensor, ln_f: Tensor) -> Tensor:
        """ln p(x) of instances (run, points, axis), from ln f(x) (run, points)."""
        usual, one, spike = self._ln_chances
        square = points**2
        return ln_sum([usual + ln_f, one + self._ln_far(square), spike + self._ln_spiked(points, square)])

    @kept
    def _ln_chances(self) -> list[Tensor]:
        return [t[..., 0].log() for t in self.tails.chances(1)]

    def _ln_far(self, square: Tensor) -> Tensor:
        """Where contaminated instances lie: the background, seen with their variance; from x² (run, points, axis)."""
        inverse, at_zero = self._far
        power = 0.5 * (FREEDOM + square.shape[-1])
        return ln_sum_exp(at_zero[:, None] - power * torch.log1p(square @ inverse), -1) - math.log(len(OFF_SCALES))

    @kept
    def _far(self) -> tuple[Tensor, Tensor]:
        return _background(self.var_between + self._column([2 * s - 1 for s in OFF_SCALES]) * self.var_within)

    def _ln_spiked(self, points: Tensor, square: Tensor) -> Tensor:
        """Where instances with a spike lie: the background, seen with the variance 1 + k u_f u_fᵀ of any feature."""
        inverse, at_zero, directions, shares, ln_spread = self._spiked
        along = (points @ directions).square()
        left = (square @ inverse)[..., None] - along[:, :, None] * shares  # (run, points, k, feature)
        terms = -0.5 * (ln_spread + (FREEDOM + points.shape[-1]) * torch.log1p(left.clamp_min(0.0)))
        return at_zero + ln_sum_exp(terms.flatten(2), -1) - math.log(terms.shape[2] * terms.shape[3])

    @kept
    def _spiked(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """1/3λ and ln of the background at zero; what takes a point to its features; k/3(1 + k |u|²) and ln(1 + k |u|²)."""
        total = self.var_between + self.var_within
        directions = self.directions * self.var_within.sqrt()
        k = 2 * (self._column(SPIKE_SCALES) - 1)
        spread = 1 + k * (directions**2 / total).sum(-1)[:, None]  # (run, k, feature)
        shares = (k / spread / FREEDOM)[:, None]
        return *_background(total), (directions / total).mT, shares, spread.log()[:, None]

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=self.var_within.dtype, device=self.var_within.device)[:, None]


def _background(total: Tensor) -> tuple[Tensor, Tensor]:
    """1/3v (run, axis, scale) and ln of the background at zero (run, scale), of squared scales v (run, scale, axis)."""
    at_zero = ln_background(torch.zeros_like(total), total)
    return (1 / (FREEDOM * total)).mT, at_zero

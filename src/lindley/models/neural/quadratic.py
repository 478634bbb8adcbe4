r"""A score that is quadratic in a pair, per axis: the form of neural PLDA, and of the normal two-level model.

    s(x, y) = Σ_axis [q (x̃² + ỹ²) + 2 p x̃ ỹ] + c,      x̃ = x − o,  ỹ = y − o

Ramoji, Krishnan and Ganapathy (2020), *NPLDA: a deep neural PLDA model for speaker verification*, Odyssey, write the ln LR of
the normal model so, and train P = diag(p), Q = diag(q) and the axes as the weights of a network. It is a score that was
trained to tell pairs apart, and not a ratio of two densities: there is neither a similarity nor a typicality.

The numbers are trained for a fixed number of instances: of several instances the means are scored, and the variances d and e
of the means are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.axis_laws import AxisLaw, Scatter
from lindley.models.between import NormalBetween, coupled

__all__ = ["Quadratic"]


@dataclass(frozen=True, eq=False)
class Quadratic(AxisLaw):
    """The score of the module. Its share of an axis has an even share of c."""

    origin: Tensor  # o (run, 1, axis)
    square: Tensor  # q (run, 1, axis)
    cross: Tensor  # p (run, 1, axis)
    constant: Tensor  # c (run, 1, 1)
    var: Tensor  # of source means in the training part (run, 1, axis): for pictures, not for the score

    @classmethod
    def of_normal(cls, law: NormalBetween, var_within: Tensor) -> Quadratic:
        """The ln LR of a normal law for one instance against one, with the same variance within for both.

        With Δ = 2bw + w²: q = −½ b²/((b + w) Δ), p = ½ b/Δ and c = ½ Σ ln[(b + w)²/Δ].
        """
        b, w = law.var, var_within
        delta = 2 * b * w + w**2
        constant = 0.5 * ((b + w) ** 2 / delta).log().sum(-1, keepdim=True)
        return cls(law.mean, -0.5 * b**2 / ((b + w) * delta), 0.5 * b / delta, constant, b)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean (zero: axes start at the mean of the sources) and variance of the source means it was trained on."""
        return torch.zeros_like(self.var), self.var

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> NoReturn:
        """There are none."""
        raise LindleyError(
            "neural PLDA gives a score that was trained to tell pairs apart. It is not a ratio of two densities, so there is "
            "no similarity and no typicality to show: use another model to see them."
        )

    def ln_parts(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> NoReturn:
        """There are none."""
        self.ln_parts_axis(0, x, y, d, e)

    def ln_lr_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> Tensor:
        """q (x̃² + ỹ²) + 2 p x̃ ỹ on one axis, and its part of c."""
        o, q, p = (t[:, :, axis, None] for t in (self.origin, self.square, self.cross))
        return self._score(x - o, y - o, q, p)

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """All axes of given pairs at once, (run, pairs, axis)."""
        return self._score(x - self.origin, y - self.origin, self.square, self.cross)

    def _score(self, x: Tensor, y: Tensor, q: Tensor, p: Tensor) -> Tensor:
        return q * (x**2 + y**2) + 2 * p * x * y + self.constant / self.square.shape[-1]

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """The scores of all pairs, (run, traces, refs): only 2 p x̃ ỹ couples a pair."""
        x, y = x - self.origin, y - self.origin
        rows = (self.square * x**2).sum(-1) + self.constant[..., 0]
        return coupled(2 * self.cross * x, y, rows, (self.square * y**2).sum(-1))

"""A Gaussian mixture per axis as the law of source means, as in the paper; one component is the normal law."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lindley.models.axis_laws import AxisLaw, Scatter
from lindley.models.between import LN_2PI

__all__ = ["MixtureBetween"]


@dataclass(frozen=True, eq=False)
class MixtureBetween(AxisLaw):
    """On every axis, source means are Σ_k w_k N(μ_k, b_k), with components of the axis's own.

    With the prior predictive N(x; μ_k, b_k + d) and the joint N((x, y); (μ_k, μ_k), [[b_k + d, b_k], [b_k, b_k + e]]),

        ln LR = ln Σ_k w_k p_k(x, y) − ln Σ_k w_k p_k(x) − ln Σ_k w_k p_k(y).
    """

    means: Tensor  # μ_k (run, component, axis)
    var: Tensor  # b_k (run, component, axis)
    ln_weights: Tensor  # ln w_k (run, component, axis)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Σ_k w_k μ_k, and Σ_k w_k (b_k + (μ_k − mean)²)."""
        weight = self.ln_weights.exp()
        mean = (weight * self.means).sum(1, keepdim=True)
        return mean, (weight * (self.var + (self.means - mean) ** 2)).sum(1, keepdim=True)

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """The sums in the formula of the class."""
        joint, trace, ref = [], [], []
        for k in range(self.means.shape[1]):
            mean, b, ln_w = (t[:, k, axis, None, None] for t in (self.means, self.var, self.ln_weights))
            u, v = x - mean, y - mean
            delta = b * d + b * e + d * e
            # (b+e)u² + (b+d)v² − 2buv as a sum of squares, which cannot cancel.
            squares = b * (u - v) ** 2 + e * u**2 + d * v**2
            joint.append(ln_w - 0.5 * (squares / delta + delta.log() + 2 * LN_2PI))
            trace.append(ln_w - 0.5 * (u**2 / (b + d) + (b + d).log() + LN_2PI))
            ref.append(ln_w - 0.5 * (v**2 / (b + e) + (b + e).log() + LN_2PI))
        return _ln_sum(joint) - _ln_sum(ref), _ln_sum(trace)


def _ln_sum(terms: list[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(terms), 0)

r"""A feature or two that are off, while all others are as good as ever: an inclusion in glass, a formant that was missed.

On axes where a difference δ has the variance v, let d = δ/√v. A spike of feature f moves d along its direction u_f (the
feature's row of the projection, scaled to length one) with a variance k: d is multivariate t with the covariance 1 + k u_f u_fᵀ
and 2α degrees of freedom, α being the shape of a source's scatter (`tails`). With two features off and p in all,

    s(δ) = ∏ v^−½ { (1 − κ) Σ_f Σ_k t_2α(d; 1 + k u_f u_fᵀ) / 2p
                    + κ Σ_{f,g} Σ_k t_2α(d; 1 + k₀ u_f u_fᵀ + k u_g u_gᵀ) / 2(p choose 2) }.

The sum over pairs {f, g} is taken over those with the feature that explains most of d by itself, which gets k₀: p − 1 pairs
instead of p (p − 1)/2. The others are smaller, and of the same sign: s is a little below its value. 1 + k is 30 or 1000, and
1 + k₀ is 1000, for M = N = 1: variances in units of what a feature has when all others are known, since the squared length of
its row of the projection is the inverse of that.

Rank-one updates keep it cheap: with c_f = u_f · d,  dᵀ (1 + k u_f u_fᵀ)⁻¹ d = |d|² − k c_f² / (1 + k |u_f|²).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lindley.models.between import LN_2PI

__all__ = ["Differences", "ln_spiked", "ln_spikes"]

SPIKE_SCALES = (30.0, 1000.0)
"""1 + k."""
WORST_SCALE = 1000.0
"""1 + k₀."""


@dataclass(frozen=True, eq=False)
class Differences:
    """δ of pairs in any arrangement, axis by axis and feature by feature; w is the variance within sources."""

    x: Tensor  # on the axes (run, …, axis)
    y: Tensor  # broadcasts against x
    along_x: Tensor  # u_f · x/√w (run, …, feature)
    along_y: Tensor
    var_within: Tensor  # w (run, axis)

    @classmethod
    def of_all(cls, x: Tensor, y: Tensor, directions: Tensor, var_within: Tensor) -> Differences:
        """All pairs of x (run, traces, axis) and y (run, refs, axis).

        ``directions`` u_f are (run, feature, axis), and ``var_within`` is (run, 1, axis).
        """
        given = cls.of_given(x, y, directions, var_within)
        return replace(
            given, x=x[:, :, None], y=y[:, None], along_x=given.along_x[:, :, None], along_y=given.along_y[:, None]
        )

    @classmethod
    def of_given(cls, x: Tensor, y: Tensor, directions: Tensor, var_within: Tensor) -> Differences:
        """Given pairs: x and y are (run, pairs, axis)."""
        along_x, along_y = ((t * var_within.rsqrt()) @ directions.mT for t in (x, y))
        return cls(x, y, along_x, along_y, var_within[:, 0])

    def block(self, traces: slice, refs: slice) -> Differences:
        """Of all pairs, those of some traces and some refs."""
        return replace(
            self,
            x=self.x[:, traces],
            y=self.y[:, :, refs],
            along_x=self.along_x[:, traces],
            along_y=self.along_y[:, :, refs],
        )

    def squares(self) -> Iterator[Tensor]:
        """δ² of one axis after the other, each (run, …)."""
        return ((self.x[..., axis] - self.y[..., axis]) ** 2 for axis in range(self.x.shape[-1]))

    def square(self) -> Tensor:
        """Σ δ²/w over the axes, (run, …)."""
        total: Tensor | None = None
        for axis, square in enumerate(self.squares()):
            one = square / self.var_within[:, axis].reshape(-1, *(1,) * (square.dim() - 1))
            total = one if total is None else total + one
        assert total is not None
        return total

    def along(self) -> Tensor:
        """u_f · δ/√w (run, …, feature)."""
        return self.along_x - self.along_y


def ln_spikes(
    differences: Differences, factor: float, directions: Tensor, strength: float, shape: Tensor, second: Tensor
) -> Tensor:
    """ln s(δ) of pairs (run, …).

    Args:
        differences: of the pairs.
        factor: v/w, by which their variance without spikes is that within sources.
        directions: u_f (run, feature, axis), of length one, or less where axes are left out.
        strength: by which k is multiplied: 1 for one instance against one.
        shape: α (run, 1, 1).
        second: κ (run, 1, 1).
    """
    square, along = differences.square()[..., None], differences.along()
    n_axes, n_features = directions.shape[-1], directions.shape[-2]
    per_run = (-1, *(1,) * (square.dim() - 1))
    alpha, kappa = shape.reshape(per_run), second.reshape(per_run)
    power, unit = alpha + 0.5 * n_axes, 2 * factor * alpha
    overlap = directions @ directions.mT  # u_f · u_g (run, feature, feature)
    length2 = overlap.diagonal(dim1=1, dim2=2).reshape(len(overlap), *(1,) * (square.dim() - 2), n_features)
    singles = _updated(square, along, length2, strength)
    lowest = _lowest([left for left, _ in singles])
    if n_features == 1:
        base, (total,) = _sums([singles], lowest, power, unit)
    else:
        k = strength * (WORST_SCALE - 1)
        share = k / (1 + k * length2)
        worst = (along**2 * share).detach().argmax(-1, keepdim=True)
        run = torch.arange(len(overlap), device=overlap.device).reshape(per_run[:-1])
        its_overlap = overlap[run, worst[..., 0]]  # with all features (run, …, feature)
        its_share, its_length2 = (t.expand_as(along).gather(-1, worst) for t in (share, length2))
        along_worst = its_share * along.gather(-1, worst)
        doubles = _updated(
            square - along_worst * along.gather(-1, worst),
            along - along_worst * its_overlap,
            length2 - its_share * its_overlap**2,
            strength,
        )
        itself = torch.arange(n_features, device=worst.device) == worst
        doubles = [(left, weight.masked_fill(itself, 0.0)) for left, weight in doubles]
        lowest = torch.minimum(lowest, _lowest([left for left, _ in doubles]))
        base, (one, two) = _sums([singles, doubles], lowest, power, unit)
        two = two * (1 + k * its_length2).rsqrt() * (n_features / math.comb(n_features, 2))
        total = (1 - kappa) * one + kappa * two
    ln_w = differences.var_within.log().sum(-1).reshape(per_run)
    constant = torch.lgamma(power) - torch.lgamma(alpha) - 0.5 * (n_axes * (math.pi * unit).log() + ln_w)
    return (total.log() - power * base + constant)[..., 0]


def _updated(square: Tensor, along: Tensor, length2: Tensor, strength: float) -> list[tuple[Tensor, Tensor]]:
    """|d|² less what the spike of each feature explains, and (1 + k |u_f|²)^−½, for each k: (…, feature) each."""
    own, terms = along**2, []
    for scale in SPIKE_SCALES:
        k = strength * (scale - 1)
        det = 1 + k * length2
        terms.append((square - own * (k / det), det.rsqrt()))
    return terms


def _lowest(lefts: list[Tensor]) -> Tensor:
    return torch.stack([left.amin(-1, keepdim=True) for left in lefts]).amin(0)


def _sums(
    kinds: list[list[tuple[Tensor, Tensor]]], lowest: Tensor, power: Tensor, unit: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """b = ln(1 + lowest/unit), and means over features and k of weight · (1 + left/unit)^−power e^(power b)."""
    base = torch.log1p(lowest / unit)
    sums = []
    for terms in kinds:
        densities = [torch.exp(power * (base - torch.log1p(left / unit))) * weight for left, weight in terms]
        sums.append(torch.stack([d.mean(-1, keepdim=True) for d in densities]).mean(0))
    return base, sums


def ln_spiked(points: Tensor, variance: Tensor, directions: Tensor, strength: float) -> Tensor:
    """ln Σ_f Σ_k N(x; 0, V + k u_f u_fᵀ) / 2p of points (run, points, axis): where instances with one spike lie.

    Args:
        points: x.
        variance: V, diagonal (run, 1, axis).
        directions: u_f (run, feature, axis).
        strength: by which k is multiplied.
    """
    along = (points / variance) @ directions.mT  # (run, points, feature)
    length2 = (directions**2 / variance).sum(-1)[:, None]  # (run, 1, feature)
    square = (points**2 / variance + variance.log() + LN_2PI).sum(-1, keepdim=True)
    terms = []
    for scale in SPIKE_SCALES:
        k = strength * (scale - 1)
        spread = 1 + k * length2
        terms.append(-0.5 * (square - along**2 * k / spread + spread.log()))
    return torch.logsumexp(torch.cat(terms, -1), -1) - math.log(len(terms) * directions.shape[1])

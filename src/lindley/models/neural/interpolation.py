"""A smooth function of all pairs from its values at few of them: polynomials in Chebyshev points, piece by piece.

On one axis, ln p(x, y) of every pair of a thousand traces and a thousand refs is a million sums over nodes; but it is one
smooth function of two numbers. So the line is cut into pieces [(2k − 1) h, (2k + 1) h]. On each, the function of x is a
polynomial through its values at p points ξ, for every y at once:

    f(x, y) = Σ_m a_m(y) T_m(x/h − 2k),     a_m = (2 − δ_m0)/p Σ_c f(ξ_c, y) cos(m π (c + ½)/p),     m = 0 … p − 1,

a matrix product with p columns. The same along y gives the f(ξ, y). Where a function is analytic within some h around a piece,
the a_m fall off geometrically: the last ones tell what is left out. If any of them is not negligible, there is no such
polynomial, and the caller has to compute the function itself. Pieces do not depend on which items there are, and so nor does
what is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["interpolated"]

POINTS = 28
"""p, of every piece."""
NEGLIGIBLE = 1e-11
"""The last coefficients, at most: with ln LRs in double precision, little more than rounding."""
WORTH_IT = 1.25
"""The points must be fewer than the items by this factor."""


def interpolated(function: Callable[[Tensor], Tensor], at: Tensor, half: float) -> Tensor | None:
    """f at so many places (items,), (items, j), from its values at fewer points (points,) → (points, j).

    ``half`` is h. None if it is not worth it, or f is not smooth enough.
    """
    if len(at) < WORTH_IT * POINTS:
        return None
    piece = (at / (2 * half)).round()
    order = piece.argsort()
    centres, numbers = piece[order].unique_consecutive(return_counts=True)  # type: ignore[no-untyped-call]
    if len(centres) * POINTS * WORTH_IT > len(at):
        return None
    angles = (torch.arange(POINTS, dtype=at.dtype, device=at.device) + 0.5) * (math.pi / POINTS)
    degree = torch.arange(POINTS, dtype=at.dtype, device=at.device)[:, None]
    to_coefficients = (degree * angles).cos() * (2 / POINTS)
    to_coefficients[0] /= 2
    points = (2 * centres[:, None] + angles.cos()) * half  # (piece, point)
    values = function(points.flatten())
    coefficients = to_coefficients @ values.reshape(*points.shape, -1)  # (piece, degree, j)
    if not bool((coefficients[:, -2:].abs() <= NEGLIGIBLE).all()):
        return None
    inside = (at[order] / half - 2 * piece[order]).clamp(-1, 1)  # beyond ±1 by rounding alone
    polynomials = (inside.arccos()[:, None] * degree[:, 0]).cos()  # (items, degree)
    result = values.new_empty((len(at), values.shape[1]))
    begin = 0
    for k, number in enumerate(numbers.tolist()):
        result.index_copy_(0, order[begin : begin + number], polynomials[begin : begin + number] @ coefficients[k])
        begin += number
    return result

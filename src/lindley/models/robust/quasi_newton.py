"""BFGS with a backtracking line search, for a cost of few parameters that is dear to evaluate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["minimise"]

LONGEST_STEP = 1.0
"""In the units of the parameters, which are logarithms."""
ARMIJO, SHRINK, HALVINGS = 1e-4, 0.3, 6


def minimise(
    cost: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int = 40,
    tolerance: float = 3e-6,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Tensor, float]:
    """The parameters (k,) at a minimum, and their cost.

    Args:
        cost: of parameters, with a gradient.
        start: parameters (k,).
        steps: at most.
        tolerance: a step that gains less than this is the last.
        progress: called with the step and the cost.
    """

    def evaluate(at: Tensor) -> tuple[float, Tensor]:
        at = at.detach().requires_grad_()
        value = cost(at)
        (gradient,) = torch.autograd.grad(value, at)
        return float(value.detach()), gradient

    theta = start.detach().clone()
    value, slope = evaluate(theta)
    identity = torch.eye(len(theta), dtype=theta.dtype)
    inverse = identity * (0.3 / max(float(slope.norm()), 1e-12))
    for step in range(steps):
        if progress is not None:
            progress(step, value)
        direction = -(inverse @ slope)
        if float(direction @ slope) >= 0:
            direction = -slope
        direction = direction * min(1.0, LONGEST_STEP / max(float(direction.norm()), 1e-30))
        gain = float(direction @ slope)

        for halving in range(HALVINGS + 1):  # until the cost falls (Armijo)
            length = SHRINK**halving
            new = theta + length * direction
            new_value, new_slope = evaluate(new)
            if new_value <= value + ARMIJO * length * gain:
                break
        else:
            break

        moved, turned = new - theta, new_slope - slope
        curvature = float(moved @ turned)
        if curvature > 1e-14:
            if step == 0:
                inverse = identity * (curvature / max(float(turned @ turned), 1e-30))
            left = identity - torch.outer(moved, turned) / curvature
            inverse = left @ inverse @ left.T + torch.outer(moved, moved) / curvature
        gained = value - new_value
        theta, value, slope = new, new_value, new_slope
        if gained <= tolerance:
            break
    return theta, value

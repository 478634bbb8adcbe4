"""BFGS for many small problems at once: one per run, all evaluated together, each with its own steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["minimise"]

LONGEST_STEP = 1.0
"""In the units of the parameters, which are logarithms."""
ARMIJO, SHRINK, HALVINGS = 1e-4, 0.3, 6


def minimise(
    cost: Callable[[Tensor, Tensor], Tensor],
    start: Tensor,
    *,
    steps: int = 40,
    tolerance: float = 3e-6,
    progress: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """The parameters (problem, k) at a minimum of every problem's cost.

    Args:
        cost: of parameters (some problems, k), and of the numbers of these problems, to their costs (some problems,).
        start: parameters (problem, k).
        steps: at most.
        tolerance: a problem is left alone once a step gains less than this.
        progress: called with the step and the costs (problem,).
    """

    def evaluate(at: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        at = at.detach().requires_grad_()
        value = cost(at, which)
        (gradient,) = torch.autograd.grad(value.sum(), at)
        return value.detach(), gradient

    n, k = start.shape
    identity = torch.eye(k, dtype=start.dtype)
    theta, active = start.detach().clone(), torch.arange(n)
    value, slope = evaluate(theta, active)
    inverse = identity * (0.3 / slope.norm(dim=-1).clamp_min(1e-12))[:, None, None]
    for step in range(steps):
        if progress is not None:
            progress(step, value)
        here, g = theta[active], slope[active]
        direction = -(inverse[active] @ g[..., None])[..., 0]
        uphill = (direction * g).sum(-1, keepdim=True) >= 0
        direction = torch.where(uphill, -g, direction)
        direction = direction * (LONGEST_STEP / direction.norm(dim=-1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)
        gain = (direction * g).sum(-1)

        # Each problem shortens its own step until the cost falls (Armijo).
        length = torch.ones(len(active), dtype=start.dtype)
        new = here + direction
        new_value, new_slope = evaluate(new, active)
        for _ in range(HALVINGS):
            failed = (~(new_value <= value[active] + ARMIJO * length * gain)).nonzero()[:, 0]
            if len(failed) == 0:
                break
            length[failed] *= SHRINK
            new[failed] = here[failed] + length[failed, None] * direction[failed]
            new_value[failed], new_slope[failed] = evaluate(new[failed], active[failed])
        fell = new_value <= value[active] + ARMIJO * length * gain
        gained = torch.where(fell, value[active] - new_value, 0.0)
        moved = torch.where(fell[:, None], new - here, 0.0)
        turned = torch.where(fell[:, None], new_slope - g, 0.0)

        curvature = (moved * turned).sum(-1)
        usable = curvature > 1e-14
        estimate = inverse[active]
        if step == 0:
            scale = curvature / (turned**2).sum(-1).clamp_min(1e-30)
            estimate = torch.where(usable[:, None, None], identity * scale[:, None, None], estimate)
        weight = torch.where(usable, 1 / curvature.clamp_min(1e-30), 0.0)[:, None, None]
        left = identity - weight * moved[..., None] * turned[:, None]
        inverse[active] = left @ estimate @ left.mT + weight * moved[..., None] * moved[:, None]
        theta[active] = here + moved
        value[active] = torch.where(fell, new_value, value[active])
        slope[active] = g + turned
        active = active[gained > tolerance]
        if len(active) == 0:
            break
    return theta

"""Adam, by torch's own function: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← (1 − η λ) θ − η m̂ / (√v̂ + ε).

With a weight decay λ it is AdamW (Loshchilov and Hutter 2019). torch's class for it imports a compiler when it is made, only to
be left alone by it: a second and a half in every process that trains anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

__all__ = ["Adam"]

_ADAMW: Any = adamw  # its types are not told


class Adam:
    """Takes steps down a cost, with parameters that are changed in their place."""

    def __init__(
        self, parameters: Iterable[Tensor], learning_rate: float, weight_decay: float = 0.0, *, fused: bool = False
    ) -> None:
        """``fused``: all of a step in one operation, which is faster, and rounds otherwise."""
        self.parameters = list(parameters)
        for parameter in self.parameters:
            parameter.data = parameter.data.contiguous()  # the fused operation is wrong where one is not in one piece
        self.learning_rate, self.weight_decay, self.fused = learning_rate, weight_decay, fused
        on_gpu = fused and self.parameters[0].device.type == "cuda"
        self.moments = [[torch.zeros_like(p) for p in self.parameters] for _ in range(2)]
        where = self.parameters[0].device if on_gpu else torch.device("cpu")
        self.steps = [torch.zeros((), dtype=torch.float32, device=where) for _ in self.parameters]
        self.on_gpu = on_gpu

    @property
    def state(self) -> list[Tensor]:
        """What it keeps between steps; zero at first."""
        return [*self.moments[0], *self.moments[1], *self.steps]

    def step(self, cost: Tensor) -> None:
        """One step, by the gradient of a cost."""
        gradients = [gradient.contiguous() for gradient in torch.autograd.grad(cost, self.parameters)]
        with torch.no_grad():
            _ADAMW(
                self.parameters, gradients, *self.moments, [], self.steps,
                fused=self.fused, foreach=False, capturable=self.on_gpu, amsgrad=False, maximize=False,
                beta1=0.9, beta2=0.999, eps=1e-8, lr=self.learning_rate, weight_decay=self.weight_decay,
            )  # fmt: skip

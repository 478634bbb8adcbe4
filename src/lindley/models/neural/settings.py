"""How a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

__all__ = ["Training"]


@dataclass(frozen=True)
class Training:
    """How a model is trained. The defaults are the paper's.

    ``mode``
        *pairs*: batches of ``batch`` same-source pairs with their share of different-source pairs, one instance against
        one. *sources*: batches of ``batch`` sources with all their instances; same-source pairs inside the batch,
        different-source pairs against a store of all instances of earlier batches.
    ``watched``
        how many different-source validation pairs are followed axis by axis; 0 switches that off.
    """

    mode: Literal["pairs", "sources"] = "pairs"
    epochs: int = 2000
    batch: int = 50
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    watched: int = 1000
    device: str = "cpu"
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")

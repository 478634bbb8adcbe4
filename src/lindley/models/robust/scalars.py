"""The numbers of the robust model that are fitted, each with its prior: weak, and the same for every table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

__all__ = ["SCALARS", "SD", "START", "ln_prior", "values_of"]


@dataclass(frozen=True)
class Scalar:
    """One number, what it is, and its prior: normal in its logarithm, or in its log odds."""

    name: str
    words: str
    start: float
    sd: float
    kind: Literal["positive", "share", "rare"] = "positive"

    def fitted(self, value: float) -> float:
        """A value in the form that is fitted: its logarithm, or its log odds."""
        if self.kind == "positive":
            return math.log(value)
        most = 0.5 if self.kind == "rare" else 1.0
        return math.log(value / (most - value))

    def value(self, fitted: Tensor) -> Tensor:
        """The number itself: positive, between 0 and 1, or (a rare event) between 0 and one half."""
        if self.kind == "positive":
            return fitted.exp()
        return torch.sigmoid(fitted) * (0.5 if self.kind == "rare" else 1.0)


SCALARS = (
    Scalar("scale", "a, variance within a source in units of W", 1.0, 0.7),
    Scalar("shape", "α, how little that varies from source to source", 3.0, 1.2),
    Scalar("spread", "d, how much the logarithm of a source's distance from the centre varies", 0.6, 0.7),
    Scalar("width", "h, of a kernel", 0.4, 1.0, "share"),
    Scalar("weight", "b, of the kernels in the population", 0.5, 1.5, "share"),
    Scalar("trust", "β, how far both laws are believed", 0.9, 3.0, "share"),
    Scalar("heavy", "η, share of the heavy-tailed law in what is believed", 0.3, 1.5, "share"),
    Scalar("wrong", "σ, how often a feature of one of two measurements is wrong", 0.01, 1.5, "rare"),
    Scalar("foreign", "ε, how often an item is foreign", 0.003, 1.0, "rare"),
    Scalar("alike", "ρ, how often two sources are as alike as one is to itself", 0.001, 2.0, "rare"),
    Scalar("variant", "ρ_v, how often in all features but one", 0.003, 1.5, "rare"),
    Scalar("shared", "g, share of the variance within a source that measurements of an item share", 0.02, 1.5, "share"),
    Scalar("steady", "σ_s, how often all of several measurements are wrong in a feature", 0.001, 1.5, "rare"),
)
START = torch.tensor([s.fitted(s.start) for s in SCALARS], dtype=torch.float64)
"""Centres of the priors, in the form that is fitted (scalar,)."""
SD = torch.tensor([s.sd for s in SCALARS], dtype=torch.float64)


def ln_prior(theta: Tensor, centre: Tensor = START, sd: Tensor = SD) -> Tensor:
    """ln of the prior of fitted forms (…, scalar), up to a constant."""
    return -0.5 * (((theta - centre) / sd) ** 2).sum(-1)


def values_of(theta: Tensor) -> dict[str, Tensor]:
    """The numbers by name (…,), from their fitted form (…, scalar)."""
    return {s.name: s.value(theta[..., i]) for i, s in enumerate(SCALARS)}

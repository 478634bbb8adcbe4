"""The few numbers of the robust model that are fitted: where they start, how firmly, and where they go in the model.

Each is fitted as a logarithm (a probability as log odds) under a normal prior around its start. The priors are weak: they
say what is usual of measurements of sources, and matter where a table is small or silent on a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from lindley.models.robust.model import Robust, Tails
from lindley.models.robust.population import Population
from lindley.models.robust.stabilise import Stabiliser

__all__ = ["SCALARS", "START", "Scalar", "assemble", "ln_prior", "values_of"]


@dataclass(frozen=True)
class Scalar:
    """One number: its start value, and the standard deviation of its prior in the logarithm."""

    name: str
    start: float
    sd: float
    is_probability: bool = False


SCALARS = (
    Scalar("within", 1.0, 0.5),  # variance within sources, in units of the basis's own
    Scalar("width", 0.35, 0.5),  # h
    Scalar("narrow_width", 0.08, 1.0),  # h_n
    Scalar("narrow_weight", 0.1, 1.0, True),  # η
    Scalar("background", 0.1, 1.0, True),  # π
    Scalar("nu", 10.0, 1.0),  # ν
    Scalar("scatter_shape", 6.0, 1.0),  # α
    Scalar("contamination", 0.003, 1.0, True),  # ε
    Scalar("spike", 0.01, 1.5, True),  # σ
    Scalar("second_spike", 0.1, 1.0, True),  # κ
    Scalar("relatedness", 0.001, 1.5, True),  # ρ
    Scalar("variants", 0.1, 1.0, True),  # ψ
    Scalar("batch_var", 0.01, 1.5),  # γ
)
START = torch.tensor(
    [math.log(s.start) - (math.log1p(-s.start) if s.is_probability else 0.0) for s in SCALARS], dtype=torch.float64
)
"""The fitted form of the start values (scalar,)."""
SD = torch.tensor([s.sd for s in SCALARS], dtype=torch.float64)


def ln_prior(theta: Tensor, centre: Tensor = START) -> Tensor:
    """ln of the prior of ``theta`` (…, scalar) around a centre (scalar,), up to a constant."""
    return -0.5 * (((theta - centre) / SD) ** 2).sum(-1)


def values_of(theta: Tensor) -> dict[str, Tensor]:
    """The numbers themselves by name, (run, 1, 1) each, from their fitted form (run, scalar)."""
    return {
        s.name: (torch.sigmoid(theta[:, i]) if s.is_probability else theta[:, i].exp())[:, None, None]
        for i, s in enumerate(SCALARS)
    }


def assemble(
    theta: Tensor,
    *,
    stabiliser: Stabiliser,
    centre: Tensor,
    projection: Tensor,
    var_between: Tensor,
    centres: Tensor,
    ln_weights: Tensor,
) -> Robust:
    """A model from scalars, a basis and kernels."""
    value = values_of(theta)
    # W⁻¹ = A Aᵀ: the squared length of a feature's row of A is the inverse of its variance given all others.
    directions = projection / projection.norm(dim=-1, keepdim=True)
    return Robust(
        stabiliser=stabiliser,
        centre=centre,
        projection=projection,
        var_within=value["within"].expand(-1, -1, var_between.shape[-1]),
        directions=directions,
        population=Population(
            centres=centres,
            ln_weights=ln_weights,
            var=var_between,
            **{name: value[name] for name in ("width", "narrow_width", "narrow_weight", "background")},
        ),
        tails=Tails(**{f.name: value[f.name] for f in fields(Tails)}),
    )

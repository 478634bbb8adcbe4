r"""Heavy tails within a source: what two sets of replicates of one source, and of two related ones, may differ by.

A source has a scatter τ of its own, shared by all axes, and on each axis another that makes a Student-t of a normal law.
Instances share both, so the difference δ of a trace's mean of M instances and a ref's mean of N, with variance
v = (1/M + 1/N) · var_within, has the density

    g(δ; v) = Σ_q ω_q ∏_axis t_ν(δ; τ_q v),      ω_q ∝ τ_q^−α exp(−α/τ_q)  (an inverse gamma law on a few scales).

Rarely, an instance is contaminated (a wrong fragment, a disturbed ablation), or all of a source's are. With s = 10,
100, 1000, 10,000, alike likely,

    a trace instance:  ∏ t_ν(δ; v + 2 (s − 1) var_within / M²)   and the source is where the ref says,
    a ref instance:    ∏ t_ν(δ; v + 2 (s − 1) var_within / N²)   and the source is where the trace says,
    all of them:       ∏ t_ν(δ; s v)                             and the source is in between, as without contamination.

For M = N = 1 the three laws of δ are the same. More than one contaminated instance among M + N is neglected.

Two sources of one batch may differ by a little or more, 2 γ λ being usual: ∏ t_ν(δ; v + 2 j γ λ) with j = 0.1, 1, 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["BATCH_SCALES", "CONTAMINATION_SCALES", "LN_SCATTER", "ln_scatter_weights", "ln_student"]

LN_SCATTER = tuple(-1.4 + 1.1 * q for q in range(5))
"""ln τ_q."""
CONTAMINATION_SCALES = (10.0, 100.0, 1000.0, 10_000.0)
"""s."""
BATCH_SCALES = (0.1, 1.0, 10.0)
"""j."""
AXES_PER_LOGARITHM, LARGEST = 8, 1e35
"""Factors up to about `LARGEST` are multiplied for this many axes before a logarithm is taken: no overflow, few logarithms."""


def ln_scatter_weights(shape: Tensor) -> Tensor:
    """ln ω_q (run, node) of the inverse gamma shapes α (run, 1, 1)."""
    alpha = shape.reshape(-1, 1)
    u = torch.tensor(LN_SCATTER, dtype=shape.dtype, device=shape.device)
    return torch.log_softmax(-alpha * u - alpha * torch.exp(-u), -1)


def ln_student(squares: Iterable[Tensor], scales: Tensor, nu: Tensor) -> list[Tensor]:
    """Σ_axis ln t_ν(δ; scale) for several scales at once.

    Args:
        squares: δ² of one axis after the other, each (run, …).
        scales: squared scales (run, node, axis).
        nu: degrees of freedom ν (run, 1, 1).

    Returns:
        One tensor (run, …) per node.
    """
    n_nodes, n_axes = scales.shape[1:]
    factor = 1 / (nu * scales)
    most = LARGEST / factor.amax(1)  # (run, axis)
    # In place takes one pass over the memory instead of three, for one run and without a gradient.
    numbers = factor[0].tolist() if len(factor) == 1 and not torch.is_grad_enabled() else None
    products: list[Tensor | None] = [None] * n_nodes
    logarithms: list[Tensor | float] = [0.0] * n_nodes
    shape: tuple[int, ...] = ()
    for axis, square in enumerate(squares):
        shape = (-1, *(1,) * (square.dim() - 1))
        square = torch.minimum(square, most[:, axis].reshape(shape))
        for node in range(n_nodes):
            if numbers is None:
                products[node] = _multiply(products[node], square, factor[:, node, axis].reshape(shape))
            else:
                products[node] = _multiply_in_place(products[node], square, numbers[node][axis])
        if axis % AXES_PER_LOGARITHM == AXES_PER_LOGARITHM - 1 or axis == n_axes - 1:
            for node, product in enumerate(products):
                assert product is not None
                logarithms[node] = logarithms[node] + product.log()
            products = [None] * n_nodes
    one = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
    constant = n_axes * one[..., 0] - 0.5 * scales.log().sum(-1)  # (run, node)
    power = (0.5 * (nu + 1)).reshape(shape)
    return [constant[:, node].reshape(shape) - power * logarithms[node] for node in range(n_nodes)]


def _multiply(product: Tensor | None, square: Tensor, factor: Tensor) -> Tensor:
    """product · (1 + square · factor)."""
    term = 1 + square * factor
    return term if product is None else product * term


def _multiply_in_place(product: Tensor | None, square: Tensor, factor: float) -> Tensor:
    """The same, in the place of the product."""
    if product is None:
        return torch.add(torch.ones_like(square), square, alpha=factor)
    return product.addcmul_(product, square, value=factor)

"""The slow, obvious forms: joint covariance matrices and multivariate normal densities, one pair at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal


def ln_normal(x: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    return MultivariateNormal(mean, covariance).log_prob(x)


def ln_pair(x: Tensor, y: Tensor, mean: Tensor, between: Tensor, d: Tensor, e: Tensor) -> Tensor:
    """ln N((x, y); (μ, μ), [[B + D, B], [B, B + E]]) for vectors x, y and matrices B, D, E."""
    covariance = torch.cat([torch.cat([between + d, between], 1), torch.cat([between, between + e], 1)], 0)
    return ln_normal(torch.cat([x, y]), torch.cat([mean, mean]), covariance)


def ln_lr(x: Tensor, y: Tensor, centres: Tensor, ln_weights: Tensor, between: Tensor, d: Tensor, e: Tensor) -> Tensor:
    """ln LR of one pair under Σ_k w_k N(μ_k, B): centres (kernel, axis)."""
    pair = torch.stack([ln_pair(x, y, mu, between, d, e) for mu in centres])
    trace = torch.stack([ln_normal(x, mu, between + d) for mu in centres])
    ref = torch.stack([ln_normal(y, mu, between + e) for mu in centres])
    return (
        torch.logsumexp(pair + ln_weights, 0)
        - torch.logsumexp(trace + ln_weights, 0)
        - torch.logsumexp(ref + ln_weights, 0)
    )


def all_pairs(x: Tensor, y: Tensor, *law: Tensor) -> Tensor:
    """The matrix of `ln_lr` over all pairs of (traces, axis) and (refs, axis)."""
    return torch.stack([torch.stack([ln_lr(a, b, *law) for b in y]) for a in x])

"""Exponentials in their place: the same numbers as torch's, also where most terms underflow."""

from __future__ import annotations

import pytest
import torch

from lindley.models.exponentials import exp_, ln_sum_exp


@pytest.mark.parametrize("largest", [0.0, -300.0, -2000.0, 4000.0])
def test_the_sum_is_that_of_torch(largest: float) -> None:
    generator = torch.Generator().manual_seed(1)
    terms = largest - 1500 * torch.rand(7, 40, dtype=torch.float64, generator=generator)
    for dim in (0, 1):
        torch.testing.assert_close(ln_sum_exp(terms.clone(), dim), torch.logsumexp(terms, dim), rtol=1e-14, atol=1e-13)


def test_nothing_sums_to_nothing() -> None:
    terms = torch.full((2, 3), -torch.inf, dtype=torch.float64)
    terms[1, 0] = 5.0
    assert ln_sum_exp(terms).tolist() == [-torch.inf, 5.0]


def test_terms_with_a_gradient_are_left_alone() -> None:
    terms = torch.tensor([[1.0, -800.0, 0.5]], dtype=torch.float64, requires_grad=True)
    gradient = torch.autograd.grad(ln_sum_exp(terms).sum(), terms)[0]
    torch.testing.assert_close(gradient, torch.softmax(terms, -1))


def test_exponentials_of_every_size() -> None:
    exponents = torch.linspace(-700.0, 700.0, 2801, dtype=torch.float64)
    torch.testing.assert_close(exp_(exponents.clone()), exponents.exp(), rtol=3e-13, atol=0.0)

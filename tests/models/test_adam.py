"""The steps are those of torch's optimisers, bit for bit, without the compiler that these import."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from lindley.models.adam import Adam


def parameters() -> list[Tensor]:
    """One that lies across, and two that lie between each other."""
    torch.manual_seed(3)
    both = torch.randn(2, 2, 3)
    return [torch.randn(2, 4, 5).mT.requires_grad_(), *(both[:, i].detach().requires_grad_() for i in (0, 1))]


def cost(at: list[Tensor]) -> Tensor:
    return (
        (at[0].mT @ torch.linspace(0, 1, 5)).square().sum()
        + at[0].mT.exp().sum()
        + at[1].exp().sum()
        + at[2].sin().sum()
    )


@pytest.mark.parametrize(("decay", "fused"), [(0.0, False), (0.01, False), (0.01, True)])
def test_they_equal_those_of_torch(decay: float, fused: bool) -> None:
    ours, theirs = parameters(), [each.detach().clone(memory_format=torch.contiguous_format) for each in parameters()]
    theirs = [each.requires_grad_() for each in theirs]
    optimiser = Adam(ours, 0.02, decay, fused=fused)
    usual = torch.optim.AdamW if decay else torch.optim.Adam
    reference = usual(theirs, lr=0.02, fused=fused, foreach=False, **({"weight_decay": decay} if decay else {}))
    for _ in range(25):
        optimiser.step(cost(ours))
        reference.zero_grad()
        cost(theirs).backward()  # type: ignore[no-untyped-call]
        reference.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def test_no_compiler_is_imported() -> None:
    program = """
import sys, torch
from lindley.models.adam import Adam
at = torch.ones(3, requires_grad=True)
Adam([at], 0.1, 0.1, fused=True).step(at.square().sum())
assert float(at[0].detach()) < 1
assert not {"torch._dynamo", "sympy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)

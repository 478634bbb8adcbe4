from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from lindley.models.neural.parameters import OrthonormalKind, fixed_part, free_start, orthonormal

SMOOTH = [kind for kind in get_args(OrthonormalKind) if kind != "qr"]


def random_q(seed: int, d: int = 6, runs: int = 3) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(runs, d, d, generator=g, dtype=torch.float64))[0]


def noise(seed: int, like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)


def is_orthonormal(matrix: Tensor) -> bool:
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    return bool(((matrix.mT @ matrix - identity).abs() <= 1e-10).all())


@pytest.mark.parametrize("kind", get_args(OrthonormalKind))
@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
def test_always_orthonormal(kind: OrthonormalKind, size: float) -> None:
    base = random_q(1)
    free = free_start(kind, base) + size * noise(2, base)
    assert is_orthonormal(orthonormal(kind, free, fixed_part(kind, base)))
    assert not is_orthonormal(base + 1e-3)


@pytest.mark.parametrize("kind", get_args(OrthonormalKind))
def test_starts_where_told(kind: OrthonormalKind) -> None:
    start = random_q(3) * torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0, 1.0], dtype=torch.float64)  # signs of no QR
    q = orthonormal(kind, free_start(kind, start), fixed_part(kind, start))
    torch.testing.assert_close(q, start, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", get_args(OrthonormalKind))
def test_gradient(kind: OrthonormalKind) -> None:
    base = random_q(4, d=4, runs=2)
    free = (free_start(kind, base) + 0.3 * noise(5, base)).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: orthonormal(kind, f, fixed_part(kind, base)), free, atol=1e-6)


def test_exponential_is_that_of_torch() -> None:
    free = 2 * noise(6, random_q(0, d=18))
    skew = torch.tril(free, -1) - torch.tril(free, -1).mT
    eye = torch.eye(18, dtype=torch.float64).expand(3, -1, -1)
    torch.testing.assert_close(orthonormal("exponential", free, eye), torch.matrix_exp(skew), rtol=0, atol=1e-8)


def _largest_jump(kind: OrthonormalKind) -> float:
    """The largest change of Q along a straight way of 2000 small steps through the free parameters."""
    base = random_q(7, d=5, runs=1)
    a, b = free_start(kind, base) + noise(8, base), free_start(kind, base) + noise(9, base)
    way = torch.linspace(0, 1, 2000, dtype=torch.float64)[:, None, None]
    q = orthonormal(kind, a + way * (b - a), fixed_part(kind, base).expand(2000, -1, -1))
    return float((q[1:] - q[:-1]).abs().max())


@pytest.mark.parametrize("kind", ["exponential", "cayley", "householder"])
def test_small_steps_move_the_axes_little(kind: OrthonormalKind) -> None:
    assert _largest_jump(kind) < 0.02


def test_qr_jumps() -> None:
    """LAPACK flips the sign of a column: the cause of the paper's loss spikes. Fixing the signs does away with it."""
    assert _largest_jump("qr") > 0.5
    assert _largest_jump("qr-signed") < 0.1

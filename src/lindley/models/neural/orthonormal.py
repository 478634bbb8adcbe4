"""Orthonormal matrices as smooth (or not so smooth) functions of free parameters, batched over runs.

    kind          Q as a function of the free matrix A                       smooth?
    qr            the Q of torch.linalg.qr(A), as in the paper               no: LAPACK's column signs jump
    qr-signed     the Q of A = QR with a positive diagonal of R              yes (Gram and Schmidt's Q)
    exponential   Q₀ exp(K), K = L − Lᵀ with L the strict lower part of A    yes
    cayley        Q₀ (1 + K)⁻¹ (1 − K)                                       yes
    householder   −Q₀ H₁ H₂ … of the reflections along A's columns           yes

The column signs of ``qr`` depend on the sign of single entries, so that an arbitrarily small step can flip columns. A
single projection meets a flipped axis with a mean of the wrong sign; in a double one a flip within scrambles the axes
between: the loss spikes of the paper. The last three keep a fixed Q₀ in front, so that any start is reached at A = 0; ``qr``
keeps a fixed sign for each column.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

__all__ = ["ORTHONORMAL_KINDS", "OrthonormalKind", "fixed_part", "free_start", "is_orthonormal", "orthonormal"]

OrthonormalKind = Literal["qr", "qr-signed", "exponential", "cayley", "householder"]
ORTHONORMAL_KINDS: tuple[OrthonormalKind, ...] = get_args(OrthonormalKind)


def orthonormal(kind: OrthonormalKind, free: Tensor, base: Tensor) -> Tensor:
    """Q (run, d, d) from the free matrix (run, d, d) and what `fixed_part` gave for the start, which stays as it is."""
    q: Tensor
    if kind in ("qr", "qr-signed"):
        q, r = torch.linalg.qr(free)
        if kind == "qr":
            return q @ base
        sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q.dtype)
        return q * sign[..., None, :]
    strict = torch.tril(free, -1)
    identity = torch.eye(free.shape[-1], dtype=free.dtype, device=free.device)
    if kind == "householder":
        # v_j = e_j + the free entries below; H = 1 − 2 v vᵀ / vᵀv.
        vectors = strict + identity
        scale = 2 / (vectors**2).sum(-2)
        q = torch.linalg.householder_product(vectors, scale)
        return -base @ q
    skew = strict - strict.mT
    if kind == "cayley":
        q, _ = torch.linalg.solve_ex(identity + skew, identity - skew)
    else:
        q = _exponential(skew)
    return base @ q


SQUARINGS, DEGREE = 6, 8
"""Measured against torch.matrix_exp: an error of 4e-13 at a spectral norm of 8, and of 1e-7 at 32."""


def _exponential(skew: Tensor) -> Tensor:
    """exp(K) = (Taylor polynomial of K/2ˢ)^(2ˢ): matrix products alone.

    ``torch.matrix_exp`` chooses its degree on the host, by the norm, which a CUDA graph cannot hold.
    """
    small = skew / 2**SQUARINGS
    identity = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    result: Tensor = identity + small / DEGREE
    for degree in range(DEGREE - 1, 0, -1):  # Horner's scheme
        result = identity + (small @ result) / degree
    for _ in range(SQUARINGS):
        result = result @ result
    return result


def free_start(kind: OrthonormalKind, start: Tensor) -> Tensor:
    """The free matrix at which `orthonormal` gives ``start`` (run, d, d)."""
    if kind in ("qr", "qr-signed"):
        return start.clone()
    return torch.zeros_like(start)


def fixed_part(kind: OrthonormalKind, start: Tensor) -> Tensor:
    """What does not train, (run, d, d): the start itself, or for ``qr`` the signs that LAPACK gives its columns."""
    if kind != "qr":
        return start.clone()
    return torch.diag_embed(torch.sign((torch.linalg.qr(start)[0] * start).sum(-2)))


def is_orthonormal(matrix: Tensor, tolerance: float = 1e-6) -> bool:
    """Whether QᵀQ = 1 for every matrix of the batch."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return bool(((matrix.mT @ matrix - identity).abs() <= tolerance).all())

"""The paper's neural two-level models: the choice of one, its parameters as mathematics has them, and as they are trained.

Orthonormal matrices are smooth (or not so smooth) functions of free parameters:

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

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from lindley.errors import LindleyError
from lindley.models.between import LN_2PI, AxisLaw, Between, NormalBetween, Scatter
from lindley.models.classical import estimate_moments
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["Architecture", "MixtureBetween", "NeuralTwoLevel", "OrthonormalKind", "Parameters", "orthonormal"]

OrthonormalKind = Literal["qr", "qr-signed", "exponential", "cayley", "householder"]


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
        q = _Exponential.apply(skew)  # type: ignore[no-untyped-call]
    return base @ q


SQUARINGS, DEGREE = 6, 8
"""Measured against torch.matrix_exp: an error of 4e-13 at a spectral norm of 8, and of 1e-7 at 32."""


class _Exponential(torch.autograd.Function):
    """exp(K) = (Taylor polynomial of K/2ˢ)^(2ˢ) and its gradient: matrix products alone, and few of them.

    ``torch.matrix_exp`` chooses its degree on the host, by the norm, which a CUDA graph cannot hold. With the gradient G of a
    cost by exp(K), the gradient by K is the derivative of exp at Kᵀ in the direction of G (Higham 2008, *Functions of
    Matrices*, 3.2). It goes through the same polynomial and squarings, whose results are there already: each product A B adds a
    derivative A′ B + A B′.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        """exp(K) of every run."""
        small = matrix / 2**SQUARINGS
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
        sums = [torch.add(identity, small, alpha=1 / DEGREE)]
        for degree in range(DEGREE - 1, 0, -1):  # Horner's scheme
            sums.append(torch.baddbmm(identity, small, sums[-1], alpha=1 / degree))
        squares = [sums.pop()]
        for _ in range(SQUARINGS):
            squares.append(torch.bmm(squares[-1], squares[-1]))
        result: Tensor = squares.pop()
        ctx.save_for_backward(small, *sums, *squares)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """By K."""
        small, *saved = (t.mT for t in ctx.saved_tensors)
        direction = gradient / 2**SQUARINGS
        found: Tensor = direction / DEGREE
        for degree, of_sum in zip(range(DEGREE - 1, 0, -1), saved, strict=False):
            found = torch.baddbmm(torch.bmm(direction, of_sum), small, found, beta=1 / degree, alpha=1 / degree)
        for square in saved[DEGREE - 1 :]:
            found = torch.baddbmm(torch.bmm(square, found), found, square)
        return found


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


@dataclass(frozen=True, eq=False)
class MixtureBetween(AxisLaw):
    """On every axis, source means are Σ_k w_k N(μ_k, b_k), with components of the axis's own.

    With the prior predictive N(x; μ_k, b_k + d) and the joint N((x, y); (μ_k, μ_k), [[b_k + d, b_k], [b_k, b_k + e]]),

        ln LR = ln Σ_k w_k p_k(x, y) − ln Σ_k w_k p_k(x) − ln Σ_k w_k p_k(y).
    """

    means: Tensor  # μ_k (run, component, axis)
    var: Tensor  # b_k (run, component, axis)
    ln_weights: Tensor  # ln w_k (run, component, axis)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Σ_k w_k μ_k, and Σ_k w_k (b_k + (μ_k − mean)²)."""
        weight = self.ln_weights.exp()
        mean = (weight * self.means).sum(1, keepdim=True)
        return mean, (weight * (self.var + (self.means - mean) ** 2)).sum(1, keepdim=True)

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """The sums in the formula of the class."""
        mean, b, ln_w = (t[:, :, axis, None, None] for t in (self.means, self.var, self.ln_weights))
        u, v, d, e = x[:, None] - mean, y[:, None] - mean, d[:, None], e[:, None]  # (run, component, i, j)
        delta = b * d + b * e + d * e
        # (b+e)u² + (b+d)v² − 2buv as a sum of squares, which cannot cancel.
        squares = b * (u - v) ** 2 + e * u**2 + d * v**2
        joint = torch.logsumexp(ln_w - 0.5 * (squares / delta + delta.log() + 2 * LN_2PI), 1)
        trace, ref = (
            torch.logsumexp(ln_w - 0.5 * (each**2 / total + total.log() + LN_2PI), 1)
            for each, total in ((u, b + d), (v, b + e))
        )
        return joint - ref, trace


@dataclass(frozen=True)
class Architecture:
    """Which two-level model: a choice for each of its parts.

    ``projection``
        *single*: z = d Q. *double* (the paper's Eq. 3): z = d Q_w diag(1/√var_within) Q_b; instances are whitened within
        sources, so that one within variance is 1 on every axis.
    ``within``
        1: trace and ref share their within variance (the "TLM-formula"). 2: each has its own.
    ``components``
        of the Gaussian mixture between sources, per axis; 1 is the normal law.
    ``orthonormal``
        how Q is made of free parameters: see the table of the module.
    ``start``
        *random*: random axes, unit variances. *maximum-likelihood*: the classical solution of the training part.
    """

    projection: Literal["single", "double"] = "single"
    within: Literal[1, 2] = 1
    components: int = 1
    orthonormal: OrthonormalKind = "exponential"
    start: Literal["random", "maximum-likelihood"] = "random"

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ValueError(f"a mixture needs at least one component, not {self.components}")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Axes, variances, means and weights, one set per run: where a training begins, and what it leaves behind.

    A single projection has neither ``q_within`` nor ``var_whiten``.
    """

    q_between: Tensor  # (run, d, axis): Q, or Q_b of a double projection
    var_within: Tensor  # (run, N, axis)
    mean_between: Tensor  # (run, K, axis)
    var_between: Tensor  # (run, K, axis)
    ln_weights: Tensor  # (run, K, axis)
    q_within: Tensor | None = None  # Q_w (run, d, d)
    var_whiten: Tensor | None = None  # (run, 1, d)

    @classmethod
    def random(cls, architecture: Architecture, d: int, seeds: Sequence[int]) -> Parameters:
        """Random axes and unit variances, as standardised features have them."""
        draws = torch.stack(
            [torch.randn(2, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
        )
        q_b, q_w = (torch.linalg.qr(draws[:, i])[0] for i in (0, 1))
        one = torch.ones(len(seeds), 1, d, dtype=torch.float64)
        return cls._make(architecture, q_b, q_w, one, one, one, torch.zeros_like(one))

    @classmethod
    def maximum_likelihood(cls, architecture: Architecture, train: Sequence[Part]) -> Parameters:
        """The classical solution of every training part.

        A double projection holds it exactly. One orthonormal basis cannot diagonalise both covariances: a single
        projection takes the eigenvectors of the within covariance, and the between variances along them.
        """
        starts = []
        for m in estimate_moments(train):
            var_whiten, q_w = np.linalg.eigh(m.within)
            if architecture.projection == "double":
                whiten = q_w / np.sqrt(var_whiten)
                var_between, q_b = np.linalg.eigh(whiten.T @ m.between @ whiten)
                basis, var_within = whiten @ q_b, np.ones_like(var_between)
            else:
                q_b = basis = q_w
                var_within, var_between = var_whiten, (q_w * (m.between @ q_w)).sum(axis=0)
            mean = m.source_means.mean(axis=0) @ basis
            # An axis without between variance keeps a trace of it, or its logarithm could not be trained.
            starts.append((q_b, q_w, var_whiten, var_within, np.maximum(var_between, 1e-3 * var_within), mean))
        axes_b, axes_w, *vectors = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*starts, strict=True))
        return cls._make(architecture, axes_b, axes_w, *(vector[:, None] for vector in vectors))

    @classmethod
    def _make(
        cls,
        architecture: Architecture,
        q_b: Tensor,
        q_w: Tensor,
        var_whiten: Tensor,
        var_within: Tensor,
        var_between: Tensor,
        mean: Tensor,
    ) -> Parameters:
        k, double = architecture.components, architecture.projection == "double"
        # Equal components would stay equal: they start spread over ± one standard deviation.
        spread = torch.linspace(-1, 1, k, dtype=mean.dtype)[:, None] if k > 1 else torch.zeros(1, 1, dtype=mean.dtype)
        return cls(
            q_between=q_b,
            var_within=var_within.repeat(1, architecture.within, 1),
            mean_between=mean + spread * var_between.sqrt(),
            var_between=var_between.repeat(1, k, 1),
            ln_weights=torch.full_like(var_between.repeat(1, k, 1), -np.log(k)),
            q_within=q_w if double else None,
            var_whiten=var_whiten if double else None,
        )

    def two_level(self) -> TwoLevel:
        """The two-level models that the parameters stand for."""
        projection = self.q_between
        if self.q_within is not None and self.var_whiten is not None:
            projection = (self.q_within * self.var_whiten.rsqrt()) @ projection
        law: Between
        if self.mean_between.shape[1] == 1:
            law = NormalBetween(self.mean_between, self.var_between)
        else:
            law = MixtureBetween(self.mean_between, self.var_between, self.ln_weights)
        centre = torch.zeros_like(projection[:, None, :, 0])
        return TwoLevel(centre, projection, self.var_within[:, :1], self.var_within[:, -1:], law)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        return {f.name: t for f in fields(self) if (t := getattr(self, f.name)) is not None}


class NeuralTwoLevel(nn.Module):
    """Trainable parameters of one two-level model per run; calling it gives the `TwoLevel` that they stand for.

    Variances are exponentials, and mixture weights softmaxes, of free parameters.
    """

    base_w: Tensor
    base_b: Tensor

    def __init__(self, architecture: Architecture, start: Parameters, paper_seeds: Sequence[int] | None = None) -> None:
        """Begin at ``start``, which must fit the architecture.

        With ``paper_seeds`` and the orthonormal kind "qr", the free matrices are plain random numbers, as in the paper,
        instead of matrices that are orthonormal already.
        """
        super().__init__()
        self.architecture = a = architecture
        fits = (start.q_within is not None) == (a.projection == "double")
        if not fits or start.mean_between.shape[1] != a.components or start.var_within.shape[1] not in (1, a.within):
            raise LindleyError(f"the start does not fit the architecture {a}")
        fixed, free = self._axes(start.q_between, 0, paper_seeds)
        self.register_buffer("base_b", fixed)
        self.free_b = nn.Parameter(free)
        if start.q_within is not None and start.var_whiten is not None:
            fixed, free = self._axes(start.q_within, 1, paper_seeds)
            self.register_buffer("base_w", fixed)
            self.free_w = nn.Parameter(free)
            self.ln_var_whiten = nn.Parameter(start.var_whiten.log())
        if a.projection == "single" or a.within == 2:
            # A start with one within variance serves a model with two.
            self.ln_var_within = nn.Parameter(start.var_within.log().expand(-1, a.within, -1).clone())
        self.mean_between = nn.Parameter(start.mean_between.clone())
        self.ln_var_between = nn.Parameter(start.var_between.log())
        if a.components > 1:
            self.logits = nn.Parameter(start.ln_weights.clone())

    def _axes(self, q: Tensor, which: int, paper_seeds: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        """What is fixed and what is free of axes that begin at ``q`` (run, d, d)."""
        kind, d = self.architecture.orthonormal, q.shape[-1]
        if kind != "qr" or paper_seeds is None:
            return fixed_part(kind, q), free_start(kind, q)
        draws = [torch.randn(2, d, d, generator=torch.Generator().manual_seed(s), dtype=q.dtype) for s in paper_seeds]
        return torch.eye(d, dtype=q.dtype).expand_as(q).clone(), torch.stack(draws)[:, which]

    def mathematical(self) -> Parameters:
        """The mathematical parameters, as functions of the trainable ones."""
        a = self.architecture
        q_within = var_whiten = None
        if a.projection == "double":
            both = torch.cat([self.free_w, self.free_b]), torch.cat([self.base_w, self.base_b])
            q_within, q_between = orthonormal(a.orthonormal, *both).chunk(2)
            var_whiten = torch.exp(self.ln_var_whiten)
        else:
            q_between = orthonormal(a.orthonormal, self.free_b, self.base_b)
        if a.projection == "double" and a.within == 1:
            var_within = torch.ones_like(self.ln_var_whiten)  # by the whitening
        else:
            var_within = torch.exp(self.ln_var_within)
        return Parameters(
            q_between=q_between,
            var_within=var_within,
            mean_between=self.mean_between,
            var_between=torch.exp(self.ln_var_between),
            ln_weights=torch.log_softmax(self.logits, 1) if a.components > 1 else torch.zeros_like(self.mean_between),
            q_within=q_within,
            var_whiten=var_whiten,
        )

    def forward(self) -> TwoLevel:
        """The two-level models of the current parameters."""
        return self.mathematical().two_level()

"""The paper's neural two-level models: the parts of a two-level model as trainable parameters, one set per run."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lindley.errors import LindleyError
from lindley.models.neural.orthonormal import fixed_part, free_start, orthonormal
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.two_level import TwoLevel

__all__ = ["NeuralTwoLevel"]


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
        fits = (start.q_within is not None) == (a.projection == "double") and start.mean_between.shape[
            1
        ] == a.components
        if not fits or start.var_within.shape[1] not in (1, a.within):
            raise LindleyError(f"the start does not fit the architecture {a}")
        self.register_buffer("base_b", self._fixed(start.q_between, paper_seeds))
        self.free_b = nn.Parameter(self._free(start.q_between, paper_seeds, 0))
        if start.q_within is not None and start.var_whiten is not None:
            self.register_buffer("base_w", self._fixed(start.q_within, paper_seeds))
            self.free_w = nn.Parameter(self._free(start.q_within, paper_seeds, 1))
            self.ln_var_whiten = nn.Parameter(start.var_whiten.log())
        if a.projection == "single" or a.within == 2:
            # A start with one within variance serves a model with two.
            self.ln_var_within = nn.Parameter(start.var_within.log().expand(-1, a.within, -1).clone())
        self.mean_between = nn.Parameter(start.mean_between.clone())
        self.ln_var_between = nn.Parameter(start.var_between.log())
        if a.components > 1:
            self.logits = nn.Parameter(start.ln_weights.clone())

    def _fixed(self, q: Tensor, paper_seeds: Sequence[int] | None) -> Tensor:
        if self.architecture.orthonormal == "qr" and paper_seeds is not None:
            return torch.eye(q.shape[-1], dtype=q.dtype).expand_as(q).clone()
        return fixed_part(self.architecture.orthonormal, q)

    def _free(self, q: Tensor, paper_seeds: Sequence[int] | None, which: int) -> Tensor:
        kind = self.architecture.orthonormal
        if kind != "qr" or paper_seeds is None:
            return free_start(kind, q)
        d = q.shape[-1]
        draws = [torch.randn(2, d, d, generator=torch.Generator().manual_seed(s), dtype=q.dtype) for s in paper_seeds]
        return torch.stack(draws)[:, which]

    def mathematical(self) -> Parameters:
        """The mathematical parameters, as functions of the trainable ones."""
        a = self.architecture
        q_within = var_whiten = None
        if a.projection == "double":
            q_within = orthonormal(a.orthonormal, self.free_w, self.base_w)
            var_whiten = torch.exp(self.ln_var_whiten)
        if a.projection == "double" and a.within == 1:
            var_within = torch.ones_like(self.ln_var_whiten)  # by the whitening
        else:
            var_within = torch.exp(self.ln_var_within)
        return Parameters(
            q_between=orthonormal(a.orthonormal, self.free_b, self.base_b),
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

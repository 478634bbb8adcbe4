r"""Normal two-level models averaged as densities: what they say of a pair is added up, and not their LLRs.

With weights w_k and the densities p_k of the members, in the features that go into them,

    p(x, y | H) = Σ_k w_k p_k(x, y | H),      LR = Σ_k w_k p_k(x, y | H1) / Σ_k w_k p_k(x, y | H2).

The members are draws from a posterior (`lindley.models.bayes.fit`). A member that finds the pair impossible says nothing, where
a mean of LLRs would let it decide.

A member sees features v on axes of its own, so ln |det ∂axes/∂v| counts. Its within law is N(0, W_k) for one instance: the mean
of several instances is all that it needs. But the members differ in W_k, and the scatter of the instances tells which of them
to believe. With S the sum of squares and products of the instances of an item around their mean, f degrees of freedom, the
item counts with a further

    ln p_k(S) = −½ f (p ln 2π + ln |W_k|) − ½ tr(W_k⁻¹ S).

S has p (p + 1)/2 different entries. They come as sums of squares along as many directions: the p axes a_l of ``typical``, and
the sums a_l + a_m of every two of them, as S_lm = ½ [S(a_l + a_m) − S(a_l) − S(a_m)].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from lindley.models.between import LN_2PI, NormalBetween, Scatter, ln_sum_of_products
from lindley.models.blocks import at_a_time, pieces
from lindley.models.exponentials import ln_sum_exp
from lindley.models.two_level import TwoLevel, ln_lr_on_diagonals, map_tensors, squares_around_mean

__all__ = ["Averaged"]

TERMS = 1 << 18
"""Densities of pairs under all members that are held at a time: 2 MiB, which a processor keeps close at hand."""
FACTORS = 1 << 22
"""Numbers of items on the axes of all members that are held at a time: 32 MiB of traces, and twice that of refs."""


@dataclass(frozen=True, eq=False)
class Averaged:
    """An average of two-level models with normal laws, one average per run.

    ``typical`` gives the centre, axes, variances and moments for pictures of the model on axes; it has no part in the LR.
    """

    typical: TwoLevel
    members: tuple[TwoLevel, ...]
    ln_weights: Tensor  # ln w_k (run, member)

    uses_scatter: ClassVar[bool] = True
    has_axis_shares: ClassVar[bool] = False

    def __post_init__(self) -> None:
        shape = tuple(self.typical.projection.shape)
        for m in self.members:
            if not isinstance(m, TwoLevel) or not isinstance(m.between, NormalBetween):
                raise TypeError("an average is one of two-level models with normal laws between sources")
            if tuple(m.projection.shape) != shape or shape[1] != shape[2]:
                raise ValueError(
                    "averaged models have one run each per run, and as many axes as features: got projections of shapes "
                    f"{shape} and {tuple(m.projection.shape)}"
                )
        if tuple(self.ln_weights.shape) != (shape[0], len(self.members)) or not self.members:
            raise ValueError(
                f"{len(self.members)} models of {shape[0]} runs got weights of shape {tuple(self.ln_weights.shape)}"
            )

    @property
    def centre(self) -> Tensor:
        """A typical instance (run, 1, feature), by ``typical``."""
        return self.typical.centre

    @property
    def projection(self) -> Tensor:
        """How features load on the axes of ``typical`` (run, feature, axis)."""
        return self.typical.projection

    @property
    def var_within_trace(self) -> Tensor:
        """Variance of one instance of a trace on these axes (run, 1, axis)."""
        return self.typical.var_within_trace

    @property
    def var_within_ref(self) -> Tensor:
        """Variance of one instance of a ref (run, 1, axis)."""
        return self.typical.var_within_ref

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the source means on the axes of ``typical``, (run, 1, axis) each."""
        return self.typical.between_moments()

    def project(self, values: Tensor) -> Tensor:
        """Onto the axes of ``typical``."""
        return self.typical.project(values)

    def scatter_of(self, instances: Tensor) -> Tensor:
        """Sums of squares of instances (run, items, instance, feature) along p (p + 1)/2 directions: their covariance."""
        on_axes = self.project(instances.flatten(1, 2)).reshape(*instances.shape[:3], -1)
        first, second = torch.triu_indices(*(on_axes.shape[-1],) * 2, 1, device=instances.device)
        return squares_around_mean(torch.cat([on_axes, on_axes[..., first] + on_axes[..., second]], -1))

    def map(self, function: Callable[[Tensor], Tensor]) -> Averaged:
        """The same model with every tensor sent through ``function``: another precision or device."""
        return map_tensors(self, function)

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of all pairs of traces (run, traces, feature) and refs (run, refs, feature), (run, traces, refs).

        ``trace`` and ``ref`` hold the means of ``n_trace`` and ``n_ref`` instances. Without ``scatter`` the means alone count.
        """
        same, different, _ = self._ln_pairs(trace, ref, n_trace, n_ref, scatter)
        return same - different

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Similarity ln p(trace | ref, H1) and typicality ln p(trace | ref, H2) of all pairs, (run, traces, refs) each.

        Under H2 the ref matters too, by what it tells of the members. They are densities of the (mean) trace in the
        features, and with ``scatter`` of the mean and of the contrasts of its instances.
        """
        same, different, ln_ref = self._ln_pairs(trace, ref, n_trace, n_ref, scatter)
        return same - ln_ref[:, None], different - ln_ref[:, None]

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """Raises TypeError: every member has axes of its own."""
        raise TypeError("an average of models does not factor over axes")

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        return ln_lr_on_diagonals(self, trace, ref, n_trace, n_ref, scatter)

    def _ln_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ln p(x, y | H1) and ln p(x, y | H2) (run, traces, refs), and ln p(y) (run, refs)."""
        every = _stacked(self.members)
        found = []
        for run, ln_weights in enumerate(self.ln_weights):
            one = every.map(lambda t, run=run: t[run])  # type: ignore[misc]  # members in the place of runs
            law, (d, e) = cast(NormalBetween, one.between), one.variances(n_trace, n_ref)
            ln_det = one.ln_jacobian()[:, None]
            told_x, told_y = ln_weights[:, None], torch.zeros_like(ln_weights)[:, None]  # (member, 1 or items)
            if scatter is not None:
                told_x = told_x + self._ln_scatter(run, one, one.var_within_trace, scatter.trace, scatter.freedom_trace)
                told_y = self._ln_scatter(run, one, one.var_within_ref, scatter.ref, scatter.freedom_ref)
            told_x, told_y = (t.expand(-1, side.shape[1]) for t, side in ((told_x, trace), (told_y, ref)))
            some = max(1, at_a_time(FACTORS, trace) // one.projection[..., 0].numel())  # items
            columns = []
            for j in pieces(ref.shape[1], 2 * some):
                y = one.project(ref[run : run + 1, j])  # (member, items, axis)
                of_y = told_y[:, j] + law.ln_marginal(y, e) + ln_det
                right = _add_column(law.ln_joint_factors(y[:, :0], y, d, e)[1], -1, told_y[:, j])
                rows = []
                for i in pieces(trace.shape[1], some):
                    x = one.project(trace[run : run + 1, i])
                    of_x = told_x[:, i] + law.ln_marginal(x, d) + ln_det
                    left = _add_column(law.ln_joint_factors(x, x[:, :0], d, e)[0], -2, told_x[:, i] + 2 * ln_det)
                    rows.append((_ln_sums(left, right), ln_sum_of_products(of_x.mT[None], of_y.mT[None])[0]))
                same, different = (torch.cat(part) for part in zip(*rows, strict=True))
                columns.append((same, different, ln_sum_exp(of_y + ln_weights[:, None], 0)))
            found.append([torch.cat(part, -1) for part in zip(*columns, strict=True)])
        same, different, ln_ref = (torch.stack(part) for part in zip(*found, strict=True))
        return same, different, ln_ref

    def _ln_scatter(self, run: int, members: TwoLevel, var: Tensor, squares: Tensor, freedom: int) -> Tensor:
        """ln p_k(S) of the module's formula (member, items), from sums of squares (run, items, direction)."""
        p = self.projection.shape[-1]
        if squares.shape[-1] != p * (p + 1) // 2:
            raise ValueError(
                f"an average of models of {p} axes takes sums of squares along {p * (p + 1) // 2} directions, as "
                f"scatter_of gives them: got {squares.shape[-1]}"
            )
        turned = torch.linalg.solve(self.projection[run], members.projection)  # axes of typical → axes of a member
        inverse = (turned / var) @ turned.mT  # W_k⁻¹ on the axes of typical
        first, second = torch.triu_indices(p, p, 1, device=squares.device)
        along = torch.cat([2 * inverse.diagonal(dim1=-2, dim2=-1) - inverse.sum(-1), inverse[..., first, second]], -1)
        ln_det = var.log().sum((-2, -1)) - 2 * members.ln_jacobian()  # ln |W_k|
        return -0.5 * (along @ squares[run].mT + freedom * (p * LN_2PI + ln_det)[:, None])


def _stacked(members: tuple[TwoLevel, ...]) -> TwoLevel:
    """All members as one model, whose tensors are (run, member, …)."""

    def stack(name: str, parts: tuple[object, ...] = members) -> Tensor:
        return torch.stack([getattr(part, name) for part in parts], 1)

    laws = tuple(m.between for m in members)
    centre, projection, trace, ref = map(stack, ("centre", "projection", "var_within_trace", "var_within_ref"))
    return TwoLevel(centre, projection, trace, ref, NormalBetween(stack("mean", laws), stack("var", laws)))


def _ln_sums(left: Tensor, right: Tensor) -> Tensor:
    """ln Σ_k exp(left_k rightᵀ_k) of factors (member, items, column): (traces, refs), some of both at a time."""
    pairs = max(1, at_a_time(TERMS, right) // len(right))
    n_columns = min(math.isqrt(pairs), max(1, right.shape[1]))
    blocks = [(pairs // n_columns, left), (n_columns, right)]
    rows, columns = (torch.split(factor, max(1, number), 1) for number, factor in blocks)
    return torch.cat([torch.cat([ln_sum_exp(some @ other.mT, 0) for other in columns], 1) for some in rows])


def _add_column(factor: Tensor, column: int, amount: Tensor) -> Tensor:
    """A factor (member, items, column) with (member, items) added to one of its columns."""
    result = factor.clone()
    result[..., column] += amount
    return result

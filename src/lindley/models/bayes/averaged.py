r"""Several models averaged as densities: what they say of a pair is added up, and not their LLRs.

With weights w_k and the densities p_k of the members, in the features that go into them,

    p(x, y | H) = Σ_k w_k p_k(x, y | H),      LR = Σ_k w_k p_k(x, y | H1) / Σ_k w_k p_k(x, y | H2).

The members may be draws from a posterior (`lindley.models.bayes.fit`), fits to resampled sources, or rivals. A member that
finds the pair impossible says nothing, where a mean of LLRs would let it decide.

A member sees features v on axes of its own, so ln |det ∂axes/∂v| counts. Where its within law is N(0, W_k) for one instance,
the mean of several instances is all that it needs, but the members differ in W_k, and the scatter of the instances tells which
of them to believe. With S the sum of squares and products of the instances of an item around their mean, f degrees of freedom,
the item counts with a further

    ln p_k(S) = −½ f (p ln 2π + ln |W_k|) − ½ tr(W_k⁻¹ S).

S has p (p + 1)/2 different entries. They come as sums of squares along as many directions: the p axes a_l of ``typical``, and
the sums a_l + a_m of every two of them, as S_lm = ½ [S(a_l + a_m) − S(a_l) − S(a_m)].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor

from lindley.models.axis_laws import Scatter
from lindley.models.between import LN_2PI, NormalBetween, ln_sum_of_products
from lindley.models.blocks import at_a_time
from lindley.models.robust.model import Robust
from lindley.models.two_level import TwoLevel, map_tensors

__all__ = ["Averaged", "Member", "average"]

Member = TwoLevel | Robust
TERMS = 1 << 17
"""Densities of pairs under all members that are held at a time: 1 MiB, which a processor keeps close at hand."""
NEGLIGIBLE = -100.0
"""Terms of a sum that are below e^−100 of the largest count as that: numbers too small for floating point are slow."""
BLOCK_DIAGONAL = 64
"""Given pairs at a time, as the diagonal of a matrix."""


@dataclass(frozen=True, eq=False)
class Averaged:
    """An average of models of one kind, one average per run.

    ``typical`` lends its centre, axes, variances and moments to whoever wants to look at the model on axes; it has no part in
    the LR. Members that integrate the within variance out themselves are not averaged.

    Of `Robust` members the means of instances alone count, as they do in such a member itself.
    """

    typical: Member
    members: tuple[Member, ...]
    ln_weights: Tensor  # ln w_k (run, member)

    has_axis_shares: ClassVar[bool] = False

    def __post_init__(self) -> None:
        kinds = {type(m) for m in (self.typical, *self.members)}
        if not self.members or len(kinds) > 1:
            raise ValueError(f"an average is one of models of one kind: got {[k.__name__ for k in kinds] or 'none'}")
        shape = len(self.typical.centre), len(self.members)
        if tuple(self.ln_weights.shape) != shape:
            raise ValueError(
                f"{shape[1]} models of {shape[0]} runs got weights of shape {tuple(self.ln_weights.shape)}"
            )
        for m in (self.typical, *self.members):
            if m.uses_scatter:
                raise TypeError(
                    "models that integrate the within variance out are not averaged: their scatter has no density"
                )
            if len(m.centre) != shape[0] or m.projection.shape[-1] != m.projection.shape[-2]:
                raise ValueError(
                    "averaged models have one run each per run, and as many axes as features: got projections of shapes "
                    f"{tuple(self.typical.projection.shape)} and {tuple(m.projection.shape)}"
                )

    @property
    def uses_scatter(self) -> bool:
        """Whether the scatter of instances tells which members to believe: where their within laws are normal."""
        return isinstance(self.typical, TwoLevel)

    @property
    def centre(self) -> Tensor:
        """Of ``typical``."""
        return self.typical.centre

    @property
    def projection(self) -> Tensor:
        """Of ``typical``."""
        return self.typical.projection

    @property
    def var_within_trace(self) -> Tensor:
        """Of ``typical``."""
        return self.typical.var_within_trace

    @property
    def var_within_ref(self) -> Tensor:
        """Of ``typical``."""
        return self.typical.var_within_ref

    def between_moments(self) -> tuple[Tensor, Tensor]:
        """Of ``typical``."""
        return self.typical.between_moments()

    def project(self, values: Tensor) -> Tensor:
        """Onto the axes of ``typical``."""
        return self.typical.project(values)

    def project_scatter(self, values: Tensor) -> Tensor:
        """Onto the p (p + 1)/2 directions along which the scatter of instances is wanted."""
        on_axes = self.project(values)
        first, second = torch.triu_indices(*(on_axes.shape[-1],) * 2, 1, device=values.device)
        return torch.cat([on_axes, on_axes[..., first] + on_axes[..., second]], -1)

    def map(self, function: Callable[[Tensor], Tensor]) -> Averaged:
        """The same model with every tensor sent through ``function``: another precision, device or choice of runs."""
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
        """Not there: every member has axes of its own."""
        raise TypeError("an average of models does not factor over axes")

    def ln_lr_given(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        """ln LR of given pairs: trace and ref (run, pairs, feature), the result (run, pairs)."""
        found = [trace.new_empty((len(trace), 0))]
        for start in range(0, trace.shape[1], BLOCK_DIAGONAL):
            some = slice(start, start + BLOCK_DIAGONAL)
            part = None
            if scatter is not None:
                part = replace(scatter, trace=scatter.trace[:, some], ref=scatter.ref[:, some])
            ln_lr = self.ln_lr(trace[:, some], ref[:, some], n_trace, n_ref, part)
            found.append(ln_lr.diagonal(dim1=1, dim2=2))
        return torch.cat(found, 1)

    def _ln_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, scatter: Scatter | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ln p(x, y | H1) and ln p(x, y | H2) (run, traces, refs), and ln p(y) (run, refs)."""
        told_x = told_y = torch.zeros_like(self.ln_weights)[:, None]  # (run, 1 or items, member)
        if scatter is not None:
            told_x = self._ln_scatter(scatter.trace, scatter.freedom_trace, "trace")
            told_y = self._ln_scatter(scatter.ref, scatter.freedom_ref, "ref")
        told_x = told_x + self.ln_weights[:, None]
        of_y = told_y + self._ln_singles(ref, n_ref, "ref")
        ln_ref = torch.logsumexp(of_y + self.ln_weights[:, None], -1)
        if isinstance(self.typical, Robust):
            return (*self._sum_parts(trace, ref, n_trace, n_ref, told_x, of_y), ln_ref)
        different = ln_sum_of_products(told_x + self._ln_singles(trace, n_trace, "trace"), of_y)
        if all(isinstance(cast(TwoLevel, m).between, NormalBetween) for m in self.members):
            same = self._ln_same_normal(trace, ref, n_trace, n_ref, told_x, told_y)
        else:
            same, _ = self._sum_parts(trace, ref, n_trace, n_ref, told_x, of_y)
        return same, different, ln_ref

    def _ln_singles(self, values: Tensor, number: int, of: Literal["trace", "ref"]) -> Tensor:
        """ln p_k of means of instances, in the features: (run, items, member)."""
        return torch.stack([_ln_single(m, values, number, of) for m in self.members], -1)

    def _sum_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, told_x: Tensor, of_y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Both densities of all pairs, one member after the other."""
        same = different = torch.full((), -torch.inf, dtype=trace.dtype, device=trace.device)
        for k, member in enumerate(self.members):
            similarity, typicality = member.ln_parts(trace, ref, n_trace, n_ref)
            rest = told_x[..., k, None] + of_y[:, None, :, k]
            same, different = torch.logaddexp(same, similarity + rest), torch.logaddexp(different, typicality + rest)
        return same, different

    def _ln_same_normal(
        self, trace: Tensor, ref: Tensor, n_trace: int, n_ref: int, told_x: Tensor, told_y: Tensor
    ) -> Tensor:
        """ln p(x, y | H1) of normal laws: a matrix product for all members at once, then a sum over members."""
        every = _stacked(cast(tuple[TwoLevel, ...], self.members))
        rows = told_x + 2 * torch.linalg.slogdet(every.projection).logabsdet[:, None]
        runs = []
        for run in range(len(trace)):
            one = every.map(lambda t, run=run: t[run])  # type: ignore[misc]  # members in the place of runs
            law = cast(NormalBetween, one.between)
            x, y = one.project(trace[run : run + 1]), one.project(ref[run : run + 1])
            left, right = law.ln_joint_factors(x, y, one.var_within_trace / n_trace, one.var_within_ref / n_ref)
            left, right = _add_column(left, -2, rows[run].mT), _add_column(right, -1, told_y[run].mT)
            block = max(1, at_a_time(TERMS, right) // max(1, right.shape[0] * right.shape[1]))
            runs.append(torch.cat([_ln_sum(some @ right.mT) for some in torch.split(left, block, 1)]))
        return torch.stack(runs)

    def _ln_scatter(self, squares: Tensor, freedom: int, of: Literal["trace", "ref"]) -> Tensor:
        """ln p_k(S) of the module's formula from sums of squares (run, items, direction): (run, items, member)."""
        if not isinstance(self.typical, TwoLevel):
            raise TypeError(f"of a {type(self.typical).__name__} the means of instances alone count")
        p = self.projection.shape[-1]
        if squares.shape[-1] != p * (p + 1) // 2:
            raise ValueError(
                f"an average of models of {p} axes takes sums of squares along {p * (p + 1) // 2} directions, as "
                f"scatter_squares gives them: got {squares.shape[-1]}"
            )
        var = torch.stack([m.var_within_trace if of == "trace" else m.var_within_ref for m in self.members], 1)
        projection = torch.stack([m.projection for m in self.members], 1)  # (run, member, feature, axis)
        turned = torch.linalg.solve(self.projection[:, None], projection)  # axes of typical → axes of a member
        inverse = (turned / var) @ turned.mT  # W_k⁻¹ on the axes of typical
        first, second = torch.triu_indices(p, p, 1, device=squares.device)
        along = torch.cat([2 * inverse.diagonal(dim1=-2, dim2=-1) - inverse.sum(-1), inverse[..., first, second]], -1)
        ln_det: Tensor = var.log().sum((-2, -1)) - 2 * torch.linalg.slogdet(projection).logabsdet  # ln |W_k|
        return -0.5 * (squares @ along.mT + freedom * (p * LN_2PI + ln_det)[:, None])


def average(members: Sequence[Member], typical: Member | None = None) -> Averaged:
    """The average of models with equal weights; ``typical`` is the first of them unless given."""
    if not members:
        raise ValueError("an average needs a model")
    ln_weights = members[0].centre.new_zeros((len(members[0].centre), len(members))).log_softmax(-1)
    return Averaged(members[0] if typical is None else typical, tuple(members), ln_weights)


def _ln_single(member: Member, values: Tensor, number: int, of: Literal["trace", "ref"]) -> Tensor:
    """ln p of means of instances under one member, in the features: (run, items)."""
    if isinstance(member, TwoLevel):
        return member.ln_single(values, number, of)
    _, on_axes = member._at(member.project(values), number)
    ln_det: Tensor = torch.linalg.slogdet(member.projection).logabsdet
    return on_axes + ln_det[:, None] + member.stabiliser.ln_slope(values).sum(-1)


def _stacked(members: tuple[TwoLevel, ...]) -> TwoLevel:
    """Models of equal shapes as one, whose tensors are (run, member, …)."""
    together = iter([torch.stack(t, 1) for t in zip(*(_tensors(m) for m in members), strict=True)])
    return map_tensors(members[0], lambda t: next(together))


def _tensors(value: object) -> list[Tensor]:
    """The tensors of a nested dataclass, in the order of `map_tensors`."""
    if isinstance(value, Tensor):
        return [value]
    assert is_dataclass(value)
    return [t for f in fields(value) for t in _tensors(getattr(value, f.name))]


def _ln_sum(terms: Tensor) -> Tensor:
    """ln Σ exp over the first dimension."""
    largest = terms.amax(0)
    return (terms - largest).clamp_min(NEGLIGIBLE).exp().sum(0).log() + largest


def _add_column(factor: Tensor, column: int, amount: Tensor) -> Tensor:
    """A factor (member, items, column) with (member, items) added to one of its columns."""
    result = factor.clone()
    result[..., column] += amount
    return result

"""What pairs cost: Cllr of all pairs of some traces with some refs, and its gradient.

    C = c Σ_ij o_ij ln(1 + exp(s_ij z_ij))

with the ln LR z of a pair, s = −1 if it is of one source and else 1, and its weight o, which for most pairs is 1. For any law
of pairs this is one line, and autograd goes back through it.

For the normal law on a processor that line is not fast: matrices of all pairs go to memory and back a dozen times, through
functions that are slow ones. There z = l rᵀ is a product of two narrow matrices, and so is what goes back: g r by l and gᵀ l by
r, with the slopes g = o s / (1 + exp(−s z)). Some pairs at a time, as many as a processor keeps close at hand, z is multiplied
out, turned into costs and into slopes, and those are multiplied back: nothing about a pair is kept. With e = eᶻ, a power of
two, the functions are ln(1 + e) and e/(1 + e).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lindley.models.between import Between, NormalBetween, factors
from lindley.models.blocks import at_a_time, pieces
from lindley.models.exponentials import LN2, LOG2_E

__all__ = ["OfPairs", "PairWeights", "cost", "rows_of"]


class OfPairs(Protocol):
    """A number for every pair: a tensor (run, n, m), or what makes one of some runs and some of their traces."""

    def __getitem__(self, part: tuple[slice, slice], /) -> Tensor:
        """Of these runs and traces (run, n, m)."""


ALL = slice(None)


@dataclass(frozen=True, eq=False)
class PairWeights:
    """c, o and s of all pairs of n traces with m refs. What is not there weighs nothing."""

    traces: Tensor  # 1, or 0 for what is not there (run, n)
    refs: Tensor  # (run, m)
    own: Tensor  # k refs of the same source as a trace (run, n, k): others that are not there, where it has fewer
    of_own: Tensor  # o of the pairs with them (run, n, k)
    of_others: OfPairs | None  # o of all other pairs; 1 where None
    unit: Tensor  # c (run,)

    @classmethod
    def as_cllr(
        cls, traces: Tensor, refs: Tensor, own: Tensor, is_pair: Tensor, different: Tensor, of_others: OfPairs | None
    ) -> PairWeights:
        """Each kind of pairs weighs one half.

        ``is_pair`` (run, n, k) is 1 for pairs with its own refs that count, else 0; ``different`` (run,) is how many others
        there are, or what they weigh.
        """
        different = different.clamp_min(1)
        of_own = is_pair * (different / is_pair.sum((1, 2)).clamp_min(1))[:, None, None]
        return cls(traces, refs, own, of_own, of_others, 0.5 * LOG2_E / different)

    def signed(self, runs: slice = ALL, rows: slice = ALL) -> Tensor:
        """c s o of all pairs of some runs and some of their traces (run, rows, m): negative for pairs of one source."""
        weight = self.traces[runs, rows, None] * self.refs[runs, None]
        if self.of_others is not None:
            weight *= self.of_others[runs, rows]
        weight.scatter_(2, self.own[runs, rows], -self.of_own[runs, rows])
        return weight.mul_(self.unit[runs, None, None])

    def cost(self, ln_lr: Tensor, rows: slice = ALL) -> Tensor:
        """C (run,) of ln LRs (run, rows, m), of all traces or some of them: the formula of the module."""
        weight = self.signed(rows=rows)
        return (weight.abs() * softplus(weight.sign() * ln_lr)).sum((1, 2))


def cost(law: Between, points: Tensor, variances: tuple[Tensor, Tensor], weights: PairWeights) -> Tensor:
    """C of the module (run,) of all pairs of traces and refs, which stand one after the other (run, n + m, axis).

    ``variances`` are those of a trace and of a ref around their source (run, 1, axis).
    """
    if isinstance(law, NormalBetween) and points.device.type == "cpu":
        return _Cost.apply(points - law.mean, *law.ln_lr_terms(*variances), weights)  # type: ignore[no-any-return,no-untyped-call]
    x, y = points.tensor_split([weights.traces.shape[1]], 1)
    if torch.is_grad_enabled() and points.requires_grad:
        return weights.cost(law.ln_lr(x, y, *variances))
    total = torch.zeros_like(x[:, 0, 0])
    for rows in pieces(x.shape[1], at_a_time(AT_A_TIME, x) // max(1, len(x) * y.shape[1])):
        total += weights.cost(law.ln_lr(x[:, rows], y, *variances), rows)
    return total


AT_A_TIME = 1 << 18
"""Pairs at a time on a processor: a number for each of them is 1 MiB, which it keeps close at hand."""
FEWEST = 16
"""Traces at a time, at least: with fewer the time would go into fetching the refs."""


NEVER = 1e30
"""What is taken off the ln LR of a pair that is not there: it costs nothing then, and has no slope."""


class _Cost(torch.autograd.Function):
    """C of the normal law, whose gradient is computed on the way, if it is wanted."""

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, constant: Tensor, of_x: Tensor, of_y: Tensor, of_both: Tensor, weights: PairWeights
    ) -> Tensor:
        """C (run,) of traces and then refs as deviations from the mean (run, n + m, axis), and `NormalBetween.ln_lr_terms`."""
        n = weights.traces.shape[1]
        x, y = points[:, :n], points[:, n:]
        x_squares, y_squares = x * x, y * y
        rows = torch.addcmul(constant, of_x, x_squares, value=-0.5).sum(-1).add_(weights.traces - 1, alpha=NEVER)
        columns = (y_squares * (-0.5 * of_y)).sum(-1).add_(weights.refs - 1, alpha=NEVER)
        left, right = factors(of_both * x, y, rows, columns)
        total, by_left, by_right = _in_blocks(left, right, weights, any(ctx.needs_input_grad))
        if any(ctx.needs_input_grad):
            by_x, by_row = by_left[..., :-2], by_left[..., -2:-1]
            by_y, by_column = by_right[..., :-2], by_right[..., -1:]
            by_points = torch.empty_like(points)
            torch.mul(of_both, by_x, out=by_points[:, :n]).addcmul_(of_x * x, by_row, value=-1)
            torch.addcmul(by_y, of_y * y, by_column, value=-1, out=by_points[:, n:])
            ctx.save_for_backward(
                weights.unit, by_points, by_row.sum(1, keepdim=True).expand_as(constant),
                x_squares.mul_(by_row).sum(1, keepdim=True).mul_(-0.5),
                y_squares.mul_(by_column).sum(1, keepdim=True).mul_(-0.5), by_x.mul_(x).sum(1, keepdim=True),
            )  # fmt: skip
        return weights.unit * total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """By the points and the terms."""
        unit, *found = ctx.saved_tensors
        of_run = (gradient * unit)[:, None, None]
        return *(of_run * each for each in found), None


def _in_blocks(left: Tensor, right: Tensor, weights: PairWeights, with_slopes: bool) -> tuple[Tensor, Tensor, Tensor]:
    """C/c (run,) of z = l rᵀ, and its gradients by l (run, n, factor) and r (run, m, factor), if they are wanted."""
    n, m = left.shape[1], right.shape[1]
    by_left, by_right = torch.empty_like(left), torch.zeros_like(right)
    # Several runs at a time, or some traces of one run.
    some_runs, some_rows = max(1, AT_A_TIME // max(1, n * m)), max(FEWEST, AT_A_TIME // max(1, m))

    def by_run(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        return zip(*(torch.split(t, some_runs) for t in tensors), strict=True)

    def by_rows(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        return zip(*(torch.split(t, some_rows, 1) for t in tensors), strict=True)

    room = left.new_empty(2, min(some_runs, len(left)) * min(some_rows, n) * m)
    least, most = RANGE[left.dtype]
    totals = []
    of_runs = by_run(right, by_right, left, by_left, weights.own, weights.of_own)
    for number, (in_right, to_right, *of_rows) in enumerate(of_runs):
        total = left.new_zeros(len(in_right))
        for place, (in_left, to_left, own, of_own) in enumerate(by_rows(*of_rows)):
            shape = (*in_left.shape[:2], m)
            z, costs = (r[: math.prod(shape)].view(shape) for r in room)
            torch.baddbmm(z, in_left, in_right.mT, beta=0, alpha=LOG2_E, out=z)  # as the exponents of powers of two
            minus = z.gather(2, own).mul_(-LN2)
            z.scatter_(2, own, -NEVER)
            total += (of_own * softplus(minus)).sum((1, 2))
            of_others = None
            if weights.of_others is not None:
                runs, rows = number * some_runs, place * some_rows
                of_others = weights.of_others[runs : runs + shape[0], rows : rows + shape[1]]
            if z.amax().item() > most:
                beyond = z.sub(most).clamp_min_(0).mul_(LN2)
                total += (beyond if of_others is None else beyond.mul_(of_others)).sum((1, 2))
            e = z.clamp_(least, most).exp2_()
            if of_others is None:
                total += _sum_log1p(e.flatten(1), costs.flatten(1))
            else:
                total += torch.log1p(e, out=costs).mul_(of_others).sum((1, 2))
            if with_slopes:
                slopes = e.div_(torch.add(e, 1, out=costs))
                if of_others is not None:
                    slopes *= of_others
                slopes.scatter_(2, own, minus.sigmoid_().mul_(of_own).neg_())
                torch.bmm(slopes, in_right, out=to_left)
                to_right.baddbmm_(slopes.mT, in_left)
        totals.append(total)
    return torch.cat(totals), by_left, by_right


def _sum_log1p(e: Tensor, room: Tensor) -> Tensor:
    """Σ ln(1 + e) over the columns, by a quarter as many logarithms: (1 + a)(1 + b) = 1 + (a + b + ab)."""
    quarter = e.shape[1] // 4
    a, b, rest = e.tensor_split([2 * quarter, 4 * quarter], 1)
    two, four = room[:, : 2 * quarter], room[:, 2 * quarter : 3 * quarter]
    torch.addcmul(a, a, b, out=two).add_(b)
    a, b = two.tensor_split(2, 1)
    torch.addcmul(a, a, b, out=four).add_(b)
    return four.log1p_().sum(1).add_(rest.log1p().sum(1))


RANGE = {torch.float32: (-100.0, 31.0), torch.float64: (-1000.0, 255.0)}
"""Powers of two that have all digits, and four of which can be multiplied; the slope beyond is that at the end."""


def rows_of(values: Tensor, which: Tensor) -> Tensor:
    """Items (run, …) of values (run, item, feature): (run, …, feature). Whole rows are copied, where a gather takes numbers."""
    first = values.shape[1] * torch.arange(len(values), device=values.device)
    where = which + first.view(-1, *[1] * (which.ndim - 1))
    return values.flatten(0, 1).index_select(0, where.flatten()).view(*which.shape, values.shape[2])

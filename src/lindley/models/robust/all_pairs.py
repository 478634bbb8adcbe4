"""All pairs of traces and refs by the robust model: in blocks, and only in views that may change an LR."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lindley.models.blocks import at_a_time, pieces, side_by_side, workspace
from lindley.models.robust.tails import LN_SCATTER, ln_sum

if TYPE_CHECKING:
    from lindley.models.robust.model import Items, Robust, View

__all__ = ["all_pairs", "over_views"]

BLOCK = 5 << 16
"""Pairs × features computed at a time: many enough for what belongs to an item alone to be little, few enough for the cache."""
OUTER = 1 << 18
"""Pairs whose kernels are summed over at a time, for each scatter: 512 traces and 512 refs."""
WORKSPACE = 12
"""Times the size of a block that is kept for what is computed on the way."""
LEAST_WEIGHT = math.log(1e-9)
"""A view of an item that is less probable than that is left out where many pairs are scored."""


def over_views(model: Robust, x: list[View], y: list[View]) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, summed over what may be off, by a model of one run.

    (1, traces, refs) each. Beside those with all instances, few items have a view that is worth a look: only these are paired.
    """
    ln_x, ln_y = (ln_sum([view.ln_joint for view in side]) for side in (x, y))
    total: tuple[Tensor, Tensor] | None = None
    for of_x in x:
        for of_y in y:
            i, j = (_worth_a_look(v, p) for v, p in ((of_x, ln_x), (of_y, ln_y)))
            if total is None:
                i, j = (torch.arange(p.shape[1], device=p.device) for p in (ln_x, ln_y))
            if not len(i) or not len(j):
                continue
            some_x, some_y = of_x.items.map(lambda t, i=i: t[:, i]), of_y.items.map(lambda t, j=j: t[:, j])  # type: ignore[misc]
            weight = (of_x.ln_joint[:, i] - some_x.ln_p)[:, :, None] + (of_y.ln_joint[:, j] - some_y.ln_p)[:, None]
            ln_h1, ln_h2 = (ln_p.add_(weight) for ln_p in all_pairs(model, some_x, some_y))
            if total is None:
                total = ln_h1, ln_h2
                continue
            corner = slice(None), i[:, None], j
            for so_far, more in zip(total, (ln_h1, ln_h2), strict=True):
                so_far[corner] = torch.logaddexp(so_far[corner], more)
    assert total is not None
    return total


def _worth_a_look(view: View, ln_p: Tensor) -> Tensor:
    """The numbers of the items whose view may change an LR."""
    return torch.nonzero(view.ln_joint[0] - ln_p[0] > LEAST_WEIGHT)[:, 0]


def all_pairs(model: Robust, x: Items, y: Items) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, by a model of one run: (1, traces, refs) each.

    Kernels are summed over in large blocks, where what belongs to an item alone is little; the rest is done in small ones.
    """
    edge = math.isqrt(at_a_time(BLOCK, x.mean) // model.directions.shape[1])
    n_x, n_y, number = x.mean.shape[1], y.mean.shape[1], x.number + y.number
    # Nine large blocks at least, if they are not too small for that: work for some threads.
    outer_edge = min(math.isqrt(at_a_time(OUTER, x.mean)), max(edge, math.ceil(max(n_x, n_y) / 3)))
    ln_h1, ln_h2 = (x.mean.new_empty((1, n_x, n_y)) for _ in range(2))

    def block(corner: tuple[slice, slice]) -> None:
        rows, columns = corner
        some_x, some_y = x.map(lambda t: t[:, rows]), y.map(lambda t: t[:, columns])
        density = partial(model.population.ln_density_between, some_x.mean, some_y.mean, x.number / number)
        ln_f = torch.stack([density(math.exp(u) * model.var_within / number) for u in LN_SCATTER], 1)
        memory = x.mean.new_empty(WORKSPACE * edge**2 * model.directions.shape[1])
        for i in pieces(some_x.mean.shape[1], edge):
            for j in pieces(some_y.mean.shape[1], edge):
                here_x, here_y = some_x.map(lambda t: t[:, i, None]), some_y.map(lambda t: t[:, None, j])
                here = slice(None), _inside(rows, i), _inside(columns, j)
                with workspace(memory):
                    ln_h1[here], ln_h2[here] = model.ln_pair(here_x, here_y, ln_f[:, :, i, j])

    side_by_side(block, [(i, j) for i in pieces(n_x, outer_edge) for j in pieces(n_y, outer_edge)], x.mean)
    return ln_h1, ln_h2


def _inside(outer: slice, inner: slice) -> slice:
    """A piece of a piece."""
    return slice(outer.start + inner.start, outer.start + inner.stop)

"""All pairs of traces and refs by the robust model: in blocks, and only in views that may change an LR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lindley.models.blocks import at_a_time, pieces, side_by_side
from lindley.models.robust.tails import LN_SCATTER, ln_sum

if TYPE_CHECKING:
    from lindley.models.robust.model import Items, Robust, View

__all__ = ["all_pairs", "over_views"]

BLOCK = 1 << 18
"""Pairs × features computed at a time: many enough for what belongs to an item alone to be little, few enough for the cache."""
OUTER = len(LN_SCATTER) << 18
"""Pairs × scatters whose kernels are summed over at a time: 512 traces and 512 refs."""
LEAST_WEIGHT = math.log(1e-9)
"""A view of an item that is less probable than that is left out where many pairs are scored."""


def over_views(model: Robust, x: list[View], y: list[View]) -> Tensor:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, summed over what may be off, by a model of one run.

    (1, traces, refs, 2). Beside those with all instances, few items have a view that is worth a look: only these are paired.
    """
    ln_x, ln_y = (ln_sum([view.ln_joint for view in side]) for side in (x, y))
    total: Tensor | None = None
    for of_x in x:
        for of_y in y:
            i, j = (_worth_a_look(v, p) for v, p in ((of_x, ln_x), (of_y, ln_y)))
            if total is None:
                i, j = (torch.arange(p.shape[1], device=p.device) for p in (ln_x, ln_y))
            if not len(i) or not len(j):
                continue
            some_x, some_y = of_x.items.map(lambda t, i=i: t[:, i]), of_y.items.map(lambda t, j=j: t[:, j])  # type: ignore[misc]
            both = all_pairs(model, some_x, some_y, lambda h1, h2: torch.stack([h1, h2], -1))
            weight = (of_x.ln_joint[:, i] - some_x.ln_p)[:, :, None] + (of_y.ln_joint[:, j] - some_y.ln_p)[:, None]
            both = both + weight[..., None]
            if total is None:
                total = both
            else:
                total[:, i[:, None], j] = torch.logaddexp(total[:, i[:, None], j], both)
    assert total is not None
    return total


def _worth_a_look(view: View, ln_p: Tensor) -> Tensor:
    """The numbers of the items whose view may change an LR."""
    return torch.nonzero(view.ln_joint[0] - ln_p[0] > LEAST_WEIGHT)[:, 0]


def all_pairs(model: Robust, x: Items, y: Items, result: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The ``result`` of ln p(x, y | H1) and ln p(x, y | H2) of all pairs, by a model of one run: (1, traces, refs, …).

    Kernels are summed over in large blocks, where what belongs to an item alone is little; the rest is done in small ones.
    """
    edge = math.isqrt(at_a_time(BLOCK, x.mean) // model.directions.shape[1])
    outer_edge = math.isqrt(at_a_time(OUTER, x.mean) // len(LN_SCATTER))
    number = x.number + y.number

    def outer(rows: slice, columns: slice) -> Tensor:
        some_x, some_y = x.map(lambda t: t[:, rows]), y.map(lambda t: t[:, columns])

        def at_means(u: float) -> Tensor:
            error = math.exp(u) * model.var_within / number
            return model.population.ln_density_between(some_x.mean, some_y.mean, x.number / number, error)

        ln_f = side_by_side(at_means, LN_SCATTER, x.mean)

        def inner(tile: tuple[slice, slice]) -> Tensor:
            i, j = tile
            here_x, here_y = some_x.map(lambda t: t[:, i, None]), some_y.map(lambda t: t[:, None, j])
            return result(*model.ln_pair(here_x, here_y, [t[:, i, j] for t in ln_f]))

        down, across = (pieces(side.mean.shape[1], edge) for side in (some_x, some_y))
        tiles = side_by_side(inner, [(i, j) for i in down for j in across], x.mean)
        n = len(across)
        return torch.cat([torch.cat(tiles[i * n : (i + 1) * n], 2) for i in range(len(down))], 1)

    all_rows, all_columns = (pieces(side.mean.shape[1], outer_edge) for side in (x, y))
    return torch.cat([torch.cat([outer(i, j) for j in all_columns], 2) for i in all_rows], 1)

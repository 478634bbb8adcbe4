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
    from lindley.models.robust.population import Half

__all__ = ["all_pairs", "over_views"]

BLOCK = 5 << 16
"""Pairs × features computed at a time: many enough for what belongs to an item alone to be little, few enough for the cache."""
REFS = 1024
"""Refs whose kernels are summed over at a time."""
WORK_PER_FEATURE, WORK_PER_SCATTER = 12, 8
"""Numbers per pair that are kept at hand for what is computed on the way."""
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
            elif not len(i) or not len(j):
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


@torch.no_grad()
def all_pairs(model: Robust, x: Items, y: Items) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, by a model of one run: (1, traces, refs) each, without a gradient.

    Kernels are summed over for some traces and many refs at a time, as what belongs to an item alone is little then; the rest
    is done for some refs at a time.
    """
    n_x, n_y, number, n_features = x.mean.shape[1], y.mean.shape[1], x.number + y.number, model.directions.shape[1]
    scatters = len(LN_SCATTER) if number == 2 else len(LN_SCATTER) ** 2
    edge = math.isqrt(at_a_time(BLOCK, x.mean) // max(n_features, scatters))
    errors = [math.exp(u) * model.var_within / number for u in LN_SCATTER]
    ln_h1, ln_h2 = (x.mean.new_empty((1, n_x, n_y)) for _ in range(2))
    free: list[Tensor] = []  # memory that no thread uses now

    def half(items: Items, some: slice, error: Tensor) -> Half:
        return model.population.half(items.mean[:, some] * (items.number / number), error)

    def some_traces(columns: slice, of_y: list[Half], rows: slice) -> None:
        of_x = [half(x, rows, error) for error in errors]
        ln_f = torch.stack([model.population.ln_density_between(*both) for both in zip(of_x, of_y, strict=True)], 1)
        here_x = x.map(lambda t: t[:, rows, None])
        try:
            memory = free.pop()
        except IndexError:
            size = (WORK_PER_FEATURE * n_features + WORK_PER_SCATTER * scatters) * min(edge, n_x) * min(edge, n_y)
            memory = x.mean.new_empty(
                size if x.mean.device.type == "cpu" else 0
            )  # a GPU's memory is kept by torch itself
        for j in pieces(columns.stop - columns.start, edge):
            refs = slice(columns.start + j.start, columns.start + j.stop)
            here_y = y.map(lambda t, refs=refs: t[:, None, refs])  # type: ignore[misc]
            with workspace(memory):
                ln_h1[:, rows, refs], ln_h2[:, rows, refs] = model.ln_pair(here_x, here_y, ln_f[..., j])
        free.append(memory)

    if n_x == 0 or n_y == 0:
        return ln_h1, ln_h2
    for columns in pieces(n_y, max(edge, REFS)):
        of_y = side_by_side(partial(half, y, columns), errors, x.mean)
        side_by_side(partial(some_traces, columns, of_y), pieces(n_x, edge), x.mean)
    return ln_h1, ln_h2

"""All pairs of traces and refs by the robust model: in blocks, and only in views that may change an LR."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lindley.models.blocks import at_a_time, one_thread, pieces, side_by_side, workspace
from lindley.models.exponentials import ln_sum_exp
from lindley.models.robust.items import Items, Views, counts
from lindley.models.robust.tails import LN_SCATTER
from lindley.models.two_level import take_runs

if TYPE_CHECKING:
    from lindley.models.robust.model import Robust
    from lindley.models.robust.population import Half

__all__ = ["all_pairs", "distinct", "of_given_pairs", "over_views"]

Index = NDArray[np.intp]

BLOCK = 5 << 16
"""Pairs × features computed at a time: many enough for what belongs to an item alone to be little, few enough for the cache."""
REFS = 1024
"""Refs whose kernels are summed over at a time."""
WORK_PER_FEATURE, WORK_PER_SCATTER = 12, 8
"""Numbers per pair that are kept at hand for what is computed on the way."""
FEW = 256
"""Pairs that are computed at once, in all views: of more, what belongs to an item alone is worth being computed once."""
WORTH_THREADS = 1 << 16
"""Pairs from which on blocks go on side by side: of fewer, threads take longer to start than they save."""
SHARE_OF_GPU = 8
"""Of the memory of a GPU, a block takes about one part of so many."""
FEW_IN_VIEWS = 1 << 13
"""Given pairs × pairs of views that are computed at once."""
WORTH_ALL = 16
"""Pairs of all traces and refs, for each given one, up to which the law of sources is looked up for all of them."""
LEAST_WEIGHT = math.log(1e-9)
"""A view of an item that is less probable than that is left out where many pairs are scored."""


def over_views(model: Robust, x: Views, y: Views) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, summed over what may be off: (run, traces, refs) each.

    A few pairs are computed at once, in all views. Of many, run by run, those with all instances are, and as few items have
    another view that is worth a look, only these are paired.
    """
    if 0 < x.ln_joint.shape[1] * y.ln_joint.shape[1] <= FEW:
        sides = x.map(lambda t: t[:, :, None, :, None]), y.map(lambda t: t[:, None, :, None])
        is_worth = _is_worth_a_look(x)[:, :, None, :, None] & _is_worth_a_look(y)[:, None, :, None]
        is_worth[..., 0, 0] = True
        return _in_views(model, *sides, is_worth)
    found = []
    for run, one in enumerate(model.by_run):
        of_x, of_y = (take_runs(side, [run]) for side in (x, y))
        found.append(_many(one, of_x, of_y))
    same, different = (torch.cat(each) for each in zip(*found, strict=True))
    return same, different


def of_given_pairs(model: Robust, x: Views, y: Views, i: Index, j: Index) -> tuple[Tensor, Tensor]:
    """The same of given pairs (run, pairs), traces i and refs j, in all views; with a gradient if it is wanted."""
    rows, columns = (torch.from_numpy(index).to(x.ln_joint.device) for index in (i, j))
    at_means = None
    if not torch.is_grad_enabled() and x.ln_joint.shape[1] * y.ln_joint.shape[1] <= WORTH_ALL * len(i):
        at_means = _looked_up(model, x.items, y.items, rows, columns)
    found = []
    for some in pieces(len(i), max(1, FEW_IN_VIEWS // (len(x) * len(y)))):
        of_x, of_y = (index[some] for index in (rows, columns))
        sides = x.map(lambda t, at=of_x: t[:, at, :, None]), y.map(lambda t, at=of_y: t[:, at, None])  # type: ignore[misc]
        found.append(_in_views(model, *sides, at_means=None if at_means is None else at_means[:, :, some]))
    same, different = (torch.cat(each, 1) for each in zip(*found, strict=True))
    return same, different


def _looked_up(model: Robust, x: Items, y: Items, rows: Tensor, columns: Tensor) -> Tensor:
    """ln f_q at the means of given pairs in all views (run, scatter, pair, view, view).

    By matrix products at those of all traces and refs, which takes less time where each is in many pairs.
    """
    assert isinstance(x.number, tuple)
    assert isinstance(y.number, tuple)
    found = x.mean.new_empty((len(x.mean), len(LN_SCATTER), len(rows), len(x.number), len(y.number)))
    for a, m in enumerate(x.number):
        for b, n in enumerate(y.number):
            for q, u in enumerate(LN_SCATTER):
                error = math.exp(u) * model.var_within / (m + n)
                halves = (
                    model.population.half(t[:, :, view] * (number / (m + n)), error)
                    for t, view, number in ((x.mean, a, m), (y.mean, b, n))
                )
                found[:, q, :, a, b] = model.population.ln_density_between(*halves)[:, rows, columns]
    return found


def distinct(*sides: Tensor | None) -> tuple[Index, Index]:
    """Of items by what is known of each (run, items, …): the numbers of those that differ, and which of these each item is.

    An item is in many pairs, and what belongs to it alone is computed once.
    """
    rows = (
        torch.cat([t.detach().movedim(1, 0).flatten(1) for t in sides if t is not None], 1).cpu().contiguous().numpy()
    )
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def _in_views(
    model: Robust, x: Views, y: Views, is_worth: Tensor | None = None, at_means: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Of pairs (run, …, view of x, view of y), summed over the views: (run, …) each; ``at_means`` has ln f_q if it is known."""
    of_x, of_y, (m, n) = x.items, y.items, counts(x.items, y.items)
    assert isinstance(m, Tensor)
    assert isinstance(n, Tensor)
    if at_means is None:
        z = (m[..., None] * of_x.mean + n[..., None] * of_y.mean) / (m + n)[..., None]
        shape = z.shape[1:-1]
        at_means = model.ln_seen_with(z.flatten(1, -2), (m + n).expand(shape).flatten()).reshape(len(z), -1, *shape)
    weight = (x.ln_joint - of_x.ln_p) + (y.ln_joint - of_y.ln_p)
    if is_worth is not None:
        weight = torch.where(is_worth, weight, -torch.inf)
    same, different = ((ln_p + weight).flatten(-2) for ln_p in model.ln_pair(of_x, of_y, at_means))
    return ln_sum_exp(same, -1), ln_sum_exp(different, -1)


def _many(model: Robust, x: Views, y: Views) -> tuple[Tensor, Tensor]:
    """Of many pairs, by a model of one run."""
    total: tuple[Tensor, Tensor] | None = None
    worth_x, worth_y = (_is_worth_a_look(side)[0] for side in (x, y))
    for a in range(len(x)):
        for b in range(len(y)):
            i, j = (torch.nonzero(worth[:, view])[:, 0] for worth, view in ((worth_x, a), (worth_y, b)))
            if total is not None and (not len(i) or not len(j)):
                continue
            if total is None:
                i, j = (torch.arange(len(worth), device=worth.device) for worth in (worth_x, worth_y))
            (of_x, ln_x), (of_y, ln_y) = x.one(a), y.one(b)
            some_x, some_y = of_x.map(lambda t, i=i: t[:, i]), of_y.map(lambda t, j=j: t[:, j])  # type: ignore[misc]
            weight = (ln_x[:, i] - some_x.ln_p)[:, :, None] + (ln_y[:, j] - some_y.ln_p)[:, None]
            ln_h1, ln_h2 = (ln_p.add_(weight) for ln_p in all_pairs(model, some_x, some_y))
            if total is None:
                total = ln_h1, ln_h2
                continue
            corner = slice(None), i[:, None], j
            for so_far, more in zip(total, (ln_h1, ln_h2), strict=True):
                so_far[corner] = torch.logaddexp(so_far[corner], more)
    assert total is not None
    return total


def _is_worth_a_look(side: Views) -> Tensor:
    """Whether a view may change an LR (run, items, view)."""
    return side.ln_joint - side.ln_p[..., None] > LEAST_WEIGHT


def _at_a_time(where: Tensor) -> int:
    """Pairs × features of a block. On a GPU they are as many as there is memory for: every operation costs time to start."""
    if where.device.type != "cuda":
        return at_a_time(BLOCK, where)
    memory = torch.cuda.get_device_properties(where.device).total_memory // where.element_size()
    return max(at_a_time(BLOCK, where), memory // (SHARE_OF_GPU * (WORK_PER_FEATURE + WORK_PER_SCATTER)))


@torch.no_grad()
def all_pairs(model: Robust, x: Items, y: Items) -> tuple[Tensor, Tensor]:
    """ln p(x, y | H1) and ln p(x, y | H2) of all pairs, by a model of one run: (1, traces, refs) each, without a gradient.

    Kernels are summed over for some traces and many refs at a time, as what belongs to an item alone is little then; the rest
    is done for some refs at a time.
    """
    assert isinstance(x.number, int)
    assert isinstance(y.number, int)
    n_x, n_y, number, n_features = x.mean.shape[1], y.mean.shape[1], x.number + y.number, model.directions.shape[1]
    scatters = len(LN_SCATTER) if number == 2 else len(LN_SCATTER) ** 2
    edge = math.isqrt(_at_a_time(x.mean) // max(n_features, scatters))
    errors = [math.exp(u) * model.var_within / number for u in LN_SCATTER]
    ln_h1, ln_h2 = (x.mean.new_empty((1, n_x, n_y)) for _ in range(2))
    free: list[Tensor] = []  # memory that no thread uses now

    def half(items: Items, some: slice, error: Tensor) -> Half:
        assert isinstance(items.number, int)
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
    with one_thread() if n_x * n_y < WORTH_THREADS else nullcontext():
        for columns in pieces(n_y, max(edge, REFS)):
            of_y = side_by_side(partial(half, y, columns), errors, x.mean)
            side_by_side(partial(some_traces, columns, of_y), pieces(n_x, edge), x.mean)
    return ln_h1, ln_h2

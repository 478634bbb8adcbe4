"""Items as the robust model compares them: in views, and what hangs on numbers of instances alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor

from lindley.models.robust.kept import kept
from lindley.models.robust.tails import LN_GROSS, LN_SCATTER, Left, Number

__all__ = ["Apart", "Items", "Numbers", "Views", "WaysToSee", "are_gross", "counts", "numbers_kept", "ways_to_see"]


@dataclass(frozen=True, eq=False)
class Items:
    """Traces or refs on the axes of a model, with what belongs to an item alone.

    All have equally many instances; or they come in views (run, …, view), each with a number of its own.
    """

    number: int | tuple[int, ...]  # M, of instances, or that of each view
    mean: Tensor  # (run, …, axis)
    along: Tensor  # u_f · mean/√w (run, …, feature)
    ln_f: Tensor  # ln f(mean) (run, …)
    ln_p: Tensor  # ln p(item) (run, …)
    ln_within: Tensor  # ln p(S), of the instances around their mean (run, …); zero for one instance
    squares: Tensor | None = None  # S, their sum of squares (run, …, axis); None for one instance
    ln_tau: Tensor | None = None  # the mean of ln τ, given S (run, …); None for one instance
    is_gross: bool | tuple[bool, ...] = False  # whether their scatter is one of LN_GROSS, and not of LN_SCATTER

    def map(self, function: Callable[[Tensor], Tensor]) -> Items:
        """Every tensor sent through ``function``."""
        return Items(
            self.number,
            function(self.mean),
            function(self.along),
            function(self.ln_f),
            function(self.ln_p),
            function(self.ln_within),
            None if self.squares is None else function(self.squares),
            None if self.ln_tau is None else function(self.ln_tau),
            self.is_gross,
        )


@dataclass(frozen=True, eq=False)
class Views:
    """Items as they look if some of their instances are off: the others, and the density of all instances then."""

    items: Items  # in views; the first one has all instances
    ln_joint: Tensor  # ln p(item, these are off) (run, items, view)

    def __len__(self) -> int:
        return self.ln_joint.shape[-1]

    def map(self, function: Callable[[Tensor], Tensor]) -> Views:
        """Every tensor (run, items, view, …) sent through ``function``."""
        return Views(self.items.map(function), function(self.ln_joint))

    def some(self, items: slice, number: int) -> Views:
        """Some of the items, all of so many instances, in the views of these."""
        kept = numbers_kept(number)
        found = self.map(lambda t: t[:, items, : len(kept)])
        return replace(found, items=replace(found.items, number=kept, is_gross=are_gross(number)))

    @cached_property
    def ln_p(self) -> Tensor:
        """ln p(item), of all instances (run, items)."""
        return torch.logsumexp(self.ln_joint, -1)

    def one(self, view: int) -> tuple[Items, Tensor]:
        """Items as one of the views has them, and `ln_joint` of it (run, items)."""
        assert isinstance(self.items.number, tuple)
        assert isinstance(self.items.is_gross, tuple)
        items = self.items.map(lambda t: t[:, :, view])
        items = replace(items, number=self.items.number[view], is_gross=self.items.is_gross[view])
        if items.number == 1:
            items = replace(items, squares=None, ln_tau=None)
        return items, self.ln_joint[..., view]


@dataclass(frozen=True, eq=False)
class Apart:
    """How far pairs of items are apart, and what is left of that if something is off."""

    squares: Tensor  # δ² (run, axis, …)
    contaminated: Left
    spiked: list[Left]
    within: Tensor | None  # Σ (S_x + S_y)/w (run, …); None of one instance against one

    def times(self, factor: Tensor) -> Apart:
        """What is left in another unit, by a factor (run, 1, 1)."""
        contaminated, *spiked = ((left * factor, weight) for left, weight in (self.contaminated, *self.spiked))
        return replace(self, contaminated=contaminated, spiked=spiked)


@dataclass(frozen=True, eq=False)
class Numbers:
    """What hangs on numbers of instances alone, of a pair or of all pairs of views (view of x, view of y).

    Of each pair of scatters (node, …): τ of both, the node of ln f next to that of their mean, and where their weights are in
    `Robust._ln_weights_of_all`. Where pairs of views differ in how many there are, those that are none have no weight.
    """

    m: Number
    n: Number
    tau_x: Tensor
    tau_y: Tensor
    nearest: Tensor
    weight_x: Tensor
    weight_y: Tensor

    @kept
    def together(self) -> Number:
        """1/M + 1/N, the variance of δ in units of w."""
        return 1 / self.m + 1 / self.n

    @kept
    def known(self) -> Number:
        """γ, if all M or all N are off."""
        return 1 / self.together

    @classmethod
    def of(cls, x: Items, y: Items) -> Numbers:
        """Of two items, or of two items in views."""
        return _numbers(x.number, x.is_gross, y.number, y.is_gross, x.ln_f.dtype, x.ln_f.device)


@cache
def _numbers(
    m: int | tuple[int, ...],
    gross_x: bool | tuple[bool, ...],
    n: int | tuple[int, ...],
    gross_y: bool | tuple[bool, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> Numbers:
    with torch.inference_mode(False):
        if isinstance(m, int) and isinstance(n, int):
            table = torch.tensor(_pairs_of_scatters(m, bool(gross_x), n, bool(gross_y)), dtype=torch.float64).T.to(
                device
            )
            return Numbers(m, n, table[0].to(dtype), table[1].to(dtype), *table[2:].long())
        assert isinstance(m, tuple)
        assert isinstance(n, tuple)
        assert isinstance(gross_x, tuple)
        assert isinstance(gross_y, tuple)
        pairs = [_pairs_of_scatters(*x, *y) for x in zip(m, gross_x, strict=True) for y in zip(n, gross_y, strict=True)]
        most = max(map(len, pairs))
        none = (1.0, 1.0, 0, NO_WEIGHT, NO_WEIGHT)
        table = torch.tensor([pair + [none] * (most - len(pair)) for pair in pairs], dtype=torch.float64)
        table = table.to(device).movedim(0, -1).reshape(most, -1, len(m), len(n))  # (node, column, view, view)
        of_x, of_y = table[:, 0].to(dtype), table[:, 1].to(dtype)
        number_x, number_y = (torch.tensor(each, dtype=dtype, device=device) for each in (m, n))
        return Numbers(number_x[:, None], number_y, of_x, of_y, *table[:, 2:].long().unbind(1))


USUAL, GROSS, MEAN = (range(len(LN_SCATTER)), range(len(LN_SCATTER), len(LN_SCATTER) + len(LN_GROSS)), range(8, 13))
ALL_WEIGHT, NO_WEIGHT = 13, 14
"""Where the weights of scatters are in `Robust._ln_weights_of_all`."""


def _pairs_of_scatters(m: int, gross_x: bool, n: int, gross_y: bool) -> list[tuple[float, float, int, int, int]]:
    """τ of both items, which node is next to the scatter of their mean, and the places of both weights.

    For one instance against one, the two scatters are taken as their mean.
    """
    if m == n == 1:
        return [(math.exp(u), math.exp(u), q, MEAN[q], ALL_WEIGHT) for q, u in enumerate(LN_SCATTER)]
    (of_x, at_x), (of_y, at_y) = ((LN_GROSS, GROSS) if gross else (LN_SCATTER, USUAL) for gross in (gross_x, gross_y))
    found = []
    for u, p in zip(of_x, at_x, strict=True):
        for v, q in zip(of_y, at_y, strict=True):
            of_mean = math.log((m + n) / (m / math.exp(u) + n / math.exp(v)))
            nearest = min(USUAL, key=lambda node: abs(of_mean - LN_SCATTER[node]))
            found.append((math.exp(u), math.exp(v), nearest, p, q))
    return found


def counts(x: Items, y: Items) -> tuple[Number, Number]:
    """M and N; of items in views (view of x, 1) and (view of y,)."""
    numbers = Numbers.of(x, y)
    return numbers.m, numbers.n


@dataclass(frozen=True, eq=False)
class WaysToSee:
    """The views of items of so many instances, in order: what hangs on these numbers alone.

    All; all with a gross scatter; single instances, the first and the last; then those with more than one left if the first r
    are off, or the others are. Items have a number each, or all the same. Where one has fewer instances than another, it is
    filled up with instances that no view keeps, and with views that mean nothing (`Views.some` leaves them out).
    """

    is_gross: tuple[bool, ...]
    total: Number  # M, or that of each item (item, 1)
    count: Tensor  # of instances that are kept (1 or item, view)
    is_kept: Tensor  # 1 for an instance that is kept, 0 for others (1 or item, view, instance)
    last: Tensor | None  # +∞ for instances that fill up, 0 for others (item, instance, 1); None where there are none
    off: Tensor  # r − 1 of the views but the first two (1 or item, view − 2)
    known: Tensor  # γ of every r (1 or item, r)
    ln_tau: Tensor  # (node, 1, view)
    share: Tensor  # τ/M, the error of a mean in units of w (node, 1 or item, view)
    weight: Tensor  # where the weights of the nodes are in `Robust._ln_weights_of_all` (node, 1, view)


@cache
def ways_to_see(numbers: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> WaysToSee:
    """Of items of so many instances each, two or more; one number stands for any number of items."""
    most, differ = max(numbers), len(numbers) > 1
    each = [_views(number) for number in numbers]
    each = [views + [views[0]] * (2 * most - len(views)) for views in each]
    is_gross = are_gross(most)
    gross = [*zip(LN_GROSS, GROSS, strict=True), (0.0, NO_WEIGHT), (0.0, NO_WEIGHT)]
    nodes = [gross if view else list(zip(LN_SCATTER, USUAL, strict=True)) for view in is_gross]
    with torch.inference_mode(False):
        ln_tau, weight = torch.tensor(nodes, dtype=torch.float64).movedim(0, -1)[:, :, None].unbind(1)
        r, total = torch.arange(1, most, dtype=torch.float64), torch.tensor(numbers, dtype=torch.float64)[:, None]
        known = torch.where(r < total, r * (1 - r / total), 1.0)
        last = torch.where(torch.arange(most) < total, 0.0, torch.inf)[..., None]
        count = torch.tensor([[len(some) for _, some in views] for views in each], dtype=torch.float64)
        is_kept = torch.tensor([[[i in some for i in range(most)] for _, some in views] for views in each])
        off = torch.tensor([[max(r, 1) - 1 for r, _ in views[2:]] for views in each], device=device)
        floats = (t.to(device, dtype) for t in (total, count, is_kept, last, known, ln_tau, ln_tau.exp() / count))
        total, count, is_kept, last, known, ln_tau, share = floats
        return WaysToSee(
            is_gross=is_gross,
            total=total if differ else most,
            count=count,
            is_kept=is_kept,
            last=last if differ else None,
            off=off,
            known=known,
            ln_tau=ln_tau,
            share=share,
            weight=weight.long().to(device),
        )


def _views(number: int) -> list[tuple[int, range]]:
    """r, and which instances are kept, of every view of an item of so many: 2 M views, but one of a single instance."""
    splits = [(r, some) for r in range(1, number) for some in (range(r, number), range(r))]
    several, alone = ([each for each in splits if (len(each[1]) == 1) is single] for single in (False, True))
    whole = (0, range(number))
    return [whole, whole, *sorted(alone, key=lambda each: each[1].start), *several] if number > 1 else [whole]


@cache
def numbers_kept(number: int) -> tuple[int, ...]:
    """How many instances every view keeps of an item of so many."""
    return tuple(len(some) for _, some in _views(number))


@cache
def are_gross(number: int) -> tuple[bool, ...]:
    """Whether the instances that a view keeps scatter grossly, of an item of so many."""
    return tuple(view == 1 for view in range(len(_views(number))))

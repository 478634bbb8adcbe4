r"""Train neural PLDA (Ramoji, Krishnan and Ganapathy 2020) in all runs at once: a quadratic score, on a detection cost.

The score is that of `quadratic`, on axes that are an affine map of the features. At the start it is the ln LR of
the classical normal model, `tlm`, for one instance against one. With its axes z (W = 1, B = diag(λ)),

    x = (z + √(1 + λ) v)(1 + T),    q + p = (q + p)₀ + r/(1 + λ),    q − p = (q − p)₀ eᵃ,    c = c₀ + 10 g

and T, v, r, a and g are trained from zero: each is a change of the order of one, so that one learning rate does for all.
As (q − p)₀ ≤ 0, of two pairs with the same midpoint the closer one never has the lower score.

The loss is the soft detection cost at two operating points β, for prior odds of 1 to β or a false acceptance that costs β
times as much as a miss:

    C = ½ Σ_β [ mean over same-source pairs of σ(α (ln β − s)) + β · mean over different-source pairs of σ(α (s − ln β)) ]

with the logistic function σ in place of a step. Where this differs from the paper:

- The paper learns a threshold for each β beside a score of any scale. Here the thresholds are Bayes', ln β, and c and the scale
  of p and q are learnt: the same family of decisions, as an affine map takes any two thresholds there, and the score is trained
  to be an LLR at these two points. Nothing makes it one elsewhere, and far from ln β the cost is flat: calibrate it.
- The paper has two affine layers with a normalisation to unit length between them, which is for embeddings of speech; values
  of a table keep their length, and the two layers are one. Its p is a square and its q free; here q − p keeps its sign.
- α = 1, as a score in nats has a unit; the paper takes 15 for its scores of unit vectors. β are the paper's: 99 and 199, for
  prior probabilities of 1 % and 0.5 %.

Every epoch is one step of Adam on all trace–ref pairs of the training part; of parts with more than 512 sources, on those of
512 that are drawn anew. Kept is the epoch with the lowest cost on the validation part; epoch 0 is the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.between import NormalBetween
from lindley.models.classical import fit_classical
from lindley.models.neural.history import History
from lindley.models.neural.program import Progress
from lindley.models.neural.quadratic import Quadratic
from lindley.models.two_level import TwoLevel
from lindley.table.splits import Part

__all__ = ["BETAS", "EPOCHS", "WARP", "fit_nplda", "soft_detection_cost"]

BETAS = (99.0, 199.0)
WARP = 1.0
"""α."""
EPOCHS, LEARNING_RATE = 300, 3e-3
MOST_SOURCES = 512
"""Sources whose pairs make a step."""


def soft_detection_cost(score: Tensor, same: Tensor, different: Tensor) -> Tensor:
    """C of the module (run,), of scores (run, traces, refs).

    ``same`` weighs every same-source pair by one over their number, ``different`` every different-source pair; zeros elsewhere.
    """
    sign = torch.where(same > 0, -WARP, WARP)
    total = torch.zeros(len(score), dtype=score.dtype, device=score.device)
    for beta in BETAS:
        total = total + ((same + beta * different) * torch.sigmoid(sign * (score - math.log(beta)))).sum((1, 2))
    return total / len(BETAS)


def fit_nplda(
    train_parts: Sequence[Part],
    validate_parts: Sequence[Part],
    seeds: Sequence[int],
    *,
    epochs: int = EPOCHS,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[TwoLevel, History]:
    """One model per run, in float64, and the soft detection cost of its epochs: 0, the start, to ``epochs``.

    Args:
        train_parts: one per run.
        validate_parts: one per run, for the choice of the epoch.
        seeds: one per run, for the draws of sources where there are too many.
        epochs: steps of Adam.
        device: where the training runs.
        progress: called with the epoch and the mean of the lowest validation costs, now and then.

    Raises:
        LindleyError: if a part has fewer than two sources, or none that was measured twice.
    """
    if not len(train_parts) == len(validate_parts) == len(seeds):
        raise ValueError(
            f"{len(train_parts)} training parts, {len(validate_parts)} validation parts, {len(seeds)} seeds"
        )
    for part in (*train_parts, *validate_parts):
        if len(part.trace.source) < 2 or len(part.ref.source) < 1:
            raise LindleyError(
                "neural PLDA needs at least two sources, one of them measured twice, in every training and validation part: "
                f"got {len(part.trace.source)} sources, {len(part.ref.source)} of them measured twice"
            )
    start = fit_classical(train_parts, "normal").map(lambda t: t.to(device))
    weights = _Weights.zero(start)
    train, validate = (_Items.of(parts, start.centre) for parts in (train_parts, validate_parts))
    validate = validate.draw([np.random.default_rng((seed, 10)) for seed in seeds])
    generators = [np.random.default_rng((seed, 9)) for seed in seeds]
    optimiser = torch.optim.Adam(weights.free, lr=LEARNING_RATE)

    runs = len(seeds)
    costs = np.empty((2, runs, epochs + 1))
    lowest = torch.full((runs,), torch.inf, dtype=torch.float64, device=start.centre.device)
    best_epoch = torch.zeros(runs, dtype=torch.long)
    best = [t.detach().clone() for t in weights.free]
    for epoch in range(epochs + 1):
        model = weights.model(start)
        cost = train.draw(generators).cost(model)
        with torch.no_grad():
            held_out = validate.cost(model)
            better = held_out < lowest
            lowest = torch.where(better, held_out, lowest)
            best_epoch[better.cpu()] = epoch
            for kept, now in zip(best, weights.free, strict=True):
                kept[better] = now[better]
        costs[0, :, epoch], costs[1, :, epoch] = cost.detach().cpu().numpy(), held_out.cpu().numpy()
        if progress is not None and (epoch % 10 == 0 or epoch == epochs):
            progress(epoch, float(lowest.mean()))
        if epoch < epochs:
            optimiser.zero_grad(set_to_none=True)
            cost.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model = _Weights(weights.start, best).model(start).map(lambda t: t.detach().cpu().contiguous())
    return model, History(costs[0], costs[1], None, best_epoch.numpy())


@dataclass(frozen=True, eq=False)
class _Weights:
    """T, v, r, a and g of all runs, and the score that they change."""

    start: Quadratic
    free: list[Tensor]  # (run, axis, axis), three times (run, 1, axis), and (run, 1, 1)

    @classmethod
    def zero(cls, start: TwoLevel) -> _Weights:
        law = start.between
        assert isinstance(law, NormalBetween)
        runs, _, axes = law.var.shape
        shapes = [(runs, axes, axes), (runs, 1, axes), (runs, 1, axes), (runs, 1, axes), (runs, 1, 1)]
        score = Quadratic.of_normal(law, start.var_within_trace)
        return cls(score, [torch.zeros(shape).to(law.var).requires_grad_() for shape in shapes])

    def model(self, start: TwoLevel) -> TwoLevel:
        """The formulas of the module, with the start's axes turned."""
        law, (t, v, r, a, g) = self.start, self.free
        turn = t + torch.eye(t.shape[-1]).to(t)
        spread = 1 + law.var
        both = law.square + law.cross + r / spread
        apart = (law.square - law.cross) * a.exp()
        score = Quadratic(
            origin=-(spread.sqrt() * v) @ turn,
            square=(both + apart) / 2,
            cross=(both - apart) / 2,
            constant=law.constant + 10 * g,
            var=law.var @ turn**2,
        )
        within = start.var_within_trace @ turn**2
        return TwoLevel(start.centre, start.projection @ turn, within, within, score)


@dataclass(frozen=True, eq=False)
class _Items:
    """The mean trace and the mean ref of every source of a part of every run: a pair is of one source on the diagonal."""

    x: Tensor  # (run, source, feature)
    y: Tensor  # (run, source, feature)
    has_trace: Tensor  # (run, source): 1, or 0
    has_ref: Tensor  # (run, source)

    @classmethod
    def of(cls, parts: Sequence[Part], like: Tensor) -> _Items:
        """The items of the parts; ``like`` is a tensor of the precision and on the device that is wanted."""
        sources = [np.union1d(part.trace.source, part.ref.source) for part in parts]
        longest = max(len(s) for s in sources)
        sides = np.zeros((2, len(parts), longest, parts[0].values.shape[1]))
        has = np.zeros((2, len(parts), longest))
        for run, part in enumerate(parts):
            for number, side in enumerate((part.trace, part.ref)):
                place = np.searchsorted(sources[run], side.source)
                sides[number, run, place], has[number, run, place] = side.mean, 1.0
        x, y, has_trace, has_ref = (torch.from_numpy(a).to(like) for a in (*sides, *has))
        return cls(x, y, has_trace, has_ref)

    def draw(self, generators: Sequence[np.random.Generator]) -> _Items:
        """The items of `MOST_SOURCES` sources of every run, drawn at random; all, where there are not more."""
        if self.x.shape[1] <= MOST_SOURCES:
            return self
        chosen = np.zeros((len(generators), MOST_SOURCES), dtype=np.int64)
        there = np.zeros((len(generators), MOST_SOURCES))
        known = torch.maximum(self.has_trace, self.has_ref).cpu().numpy() > 0
        for run, rng in enumerate(generators):
            own = np.flatnonzero(known[run])
            some = own[np.argsort(rng.random(len(own)), kind="stable")[:MOST_SOURCES]]
            chosen[run, : len(some)], there[run, : len(some)] = some, 1.0
        index, used = (torch.from_numpy(a).to(self.x.device) for a in (chosen, there))
        wide = index[..., None].expand(-1, -1, self.x.shape[-1])
        x, y = self.x.gather(1, wide), self.y.gather(1, wide)
        return _Items(x, y, self.has_trace.gather(1, index) * used, self.has_ref.gather(1, index) * used)

    @cached_property
    def shares(self) -> tuple[Tensor, Tensor]:
        """Of same-source and of different-source pairs, one over their number (run, source, source); zeros elsewhere."""
        pairs = self.has_trace[..., :, None] * self.has_ref[..., None, :]
        same = torch.diag_embed(pairs.diagonal(dim1=1, dim2=2))
        both = same, pairs - same
        return both[0] / _number(both[0]), both[1] / _number(both[1])

    def cost(self, model: TwoLevel) -> Tensor:
        """The soft detection cost of all pairs (run,)."""
        return soft_detection_cost(model.ln_lr(self.x, self.y), *self.shares)


def _number(pairs: Tensor) -> Tensor:
    return pairs.sum((1, 2), keepdim=True).clamp_min(1)

"""Train neural PLDA (Ramoji, Krishnan and Ganapathy 2020) in all runs at once: a quadratic score, on a detection cost.

The score is quadratic in a pair, per axis, on axes that are an affine map of the features:

    s(x, y) = Σ_axis [q (x̃² + ỹ²) + 2 p x̃ ỹ] + c,      x̃ = x − o,  ỹ = y − o

Ramoji, Krishnan and Ganapathy (2020), *NPLDA: a deep neural PLDA model for speaker verification*, Odyssey, write the ln LR of
the normal model so, and train P = diag(p), Q = diag(q) and the axes as the weights of a network. It is a score that was
trained to tell pairs apart, and not a ratio of two densities: there is neither a similarity nor a typicality. The numbers are
trained for a fixed number of instances: of several instances the means are scored, and the variances d and e of the means are
ignored.

At the start the score is the ln LR of the classical normal model, `tlm`, for one instance against one. With its axes z (W = 1,
B = diag(λ)),

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.adam import Adam
from lindley.models.between import AxisLaw, NormalBetween, Scatter, coupled
from lindley.models.classical import fit_classical
from lindley.models.fitting import Fitted, History, Task, require_device, require_replicates
from lindley.models.neural.batches import MateWeights
from lindley.models.two_level import TwoLevel, map_tensors
from lindley.table.splits import Part

__all__ = ["Quadratic", "fit", "soft_detection_cost", "train"]


@dataclass(frozen=True, eq=False)
class Quadratic(AxisLaw):
    """The score of the module. Its share of an axis has an even share of c."""

    origin: Tensor  # o (run, 1, axis)
    square: Tensor  # q (run, 1, axis)
    cross: Tensor  # p (run, 1, axis)
    constant: Tensor  # c (run, 1, 1)
    var: Tensor  # of source means in the training part (run, 1, axis): for pictures, not for the score

    @classmethod
    def of_normal(cls, law: NormalBetween, var_within: Tensor) -> Quadratic:
        """The ln LR of a normal law for one instance against one, with the same variance within for both.

        With Δ = 2bw + w²: q = −½ b²/((b + w) Δ), p = ½ b/Δ and c = ½ Σ ln[(b + w)²/Δ].
        """
        b, w = law.var, var_within
        delta = 2 * b * w + w**2
        constant = 0.5 * ((b + w) ** 2 / delta).log().sum(-1, keepdim=True)
        return cls(law.mean, -0.5 * b**2 / ((b + w) * delta), 0.5 * b / delta, constant, b)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean (zero: axes start at the mean of the sources) and variance of the source means it was trained on."""
        return torch.zeros_like(self.var), self.var

    def ln_parts_axis(
        self, axis: int, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None
    ) -> NoReturn:
        """Raises LindleyError: a score is not a ratio of two densities."""
        raise LindleyError(
            "neural PLDA gives a score that was trained to tell pairs apart. It is not a ratio of two densities, so there is "
            "no similarity and no typicality to show: use another model to see them."
        )

    def ln_lr_pairs(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """q (x̃² + ỹ²) + 2 p x̃ ỹ and its part of c, of all axes of given pairs at once, (run, pairs, axis)."""
        x, y = x - self.origin, y - self.origin
        return self.square * (x**2 + y**2) + 2 * self.cross * x * y + self.constant / self.square.shape[-1]

    def ln_lr(self, x: Tensor, y: Tensor, d: Tensor, e: Tensor, scatter: Scatter | None = None) -> Tensor:
        """The scores of all pairs, (run, traces, refs): only 2 p x̃ ỹ couples a pair."""
        x, y = x - self.origin, y - self.origin
        rows = (self.square * x**2).sum(-1) + self.constant[..., 0]
        return coupled(2 * self.cross * x, y, rows, (self.square * y**2).sum(-1))


BETAS = (99.0, 199.0)
"""β: the two operating points."""
WARP = 1.0
"""α: how steep the logistic function is that stands in for a step."""
EPOCHS, LEARNING_RATE = 300, 3e-3
MOST_SOURCES = 512
"""Sources whose pairs make a step, at most."""


def soft_detection_cost(score: Tensor, same: Tensor, different: Tensor) -> Tensor:
    """C of the module (run,), of scores (run, traces, refs).

    ``same`` weighs every same-source pair by one over their number, ``different`` every different-source pair; zeros elsewhere.
    """
    sign = torch.where(same > 0, -WARP, WARP)
    total = torch.zeros(len(score), dtype=score.dtype, device=score.device)
    for beta in BETAS:
        total = total + ((same + beta * different) * torch.sigmoid(sign * (score - math.log(beta)))).sum((1, 2))
    return total / len(BETAS)


def fit(task: Task) -> Fitted:
    """Neural PLDA of every run, of the best epoch on its validation part. Option: ``epochs``."""
    return Fitted(train(task)[0])


def train(task: Task) -> tuple[TwoLevel, History]:
    """One model per run, in float64, and the soft detection cost of its epochs, from 0, the start, on.

    The seeds are for the draws of sources where there are too many.

    Raises:
        LindleyError: if a part has fewer than two sources, or none that was measured twice.
    """
    require_device(task.device)
    epochs, seeds = int(task.options.get("epochs", EPOCHS)), task.seeds
    if not len(task.learn) == len(task.validate) == len(seeds):
        raise ValueError(f"{len(task.learn)} training parts, {len(task.validate)} validation parts, {len(seeds)} seeds")
    require_replicates("neural PLDA", (*task.learn, *task.validate))
    start = fit_classical(task.learn, "normal").map(lambda t: t.to(task.device))
    weights = _Weights.zero(start)
    learn, validate = (_Items.of(parts, start.centre) for parts in (task.learn, task.validate))
    validate = validate.draw([np.random.default_rng((seed, 10)) for seed in seeds])
    generators = [np.random.default_rng((seed, 9)) for seed in seeds]
    optimiser = Adam(weights.free, LEARNING_RATE)

    runs = len(seeds)
    costs = np.empty((2, runs, epochs + 1))
    lowest = torch.full((runs,), torch.inf, dtype=torch.float64, device=start.centre.device)
    best_epoch = torch.zeros(runs, dtype=torch.long)
    best = [t.detach().clone() for t in weights.free]
    for epoch in range(epochs + 1):
        model = weights.model(start)
        cost = learn.draw(generators).cost(model)
        with torch.no_grad():
            held_out = validate.cost(model)
            better = held_out < lowest
            lowest = torch.where(better, held_out, lowest)
            best_epoch[better.cpu()] = epoch
            for kept, now in zip(best, weights.free, strict=True):
                kept[better] = now[better]
        costs[0, :, epoch], costs[1, :, epoch] = cost.detach().cpu().numpy(), held_out.cpu().numpy()
        if epoch % 10 == 0 or epoch == epochs:
            told = f"epoch {epoch} of {epochs}, validation detection cost {float(lowest.mean()):.4f}"
            task.progress(told, epoch / max(1, epochs))
        if epoch < epochs:
            optimiser.step(cost.sum())
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
    mates: MateWeights | None

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
        mates = MateWeights.of(parts, like.dtype)
        return cls(x, y, has_trace, has_ref, mates and map_tensors(mates, lambda t: t.to(like.device)))

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
        x, y = (side.take_along_dim(index[..., None], 1) for side in (self.x, self.y))
        mates = self.mates and replace(self.mates, group=self.mates.group.gather(1, index))
        return _Items(x, y, self.has_trace.gather(1, index) * used, self.has_ref.gather(1, index) * used, mates)

    @cached_property
    def shares(self) -> tuple[Tensor, Tensor]:
        """Of same-source and of different-source pairs, one over their weight (run, source, source); zeros elsewhere."""
        pairs = self.has_trace[..., :, None] * self.has_ref[..., None, :]
        same = torch.diag_embed(pairs.diagonal(dim1=1, dim2=2))
        different = pairs - same
        if self.mates is not None:
            everyone = torch.arange(pairs.shape[1], device=pairs.device).expand(len(pairs), -1)
            different = different * self.mates.between(everyone, everyone)[:, :]
        of_same, of_different = (k / k.sum((1, 2), keepdim=True).clamp_min(1) for k in (same, different))
        return of_same, of_different

    def cost(self, model: TwoLevel) -> Tensor:
        """The soft detection cost of all pairs (run,)."""
        return soft_detection_cost(model.ln_lr(self.x, self.y), *self.shares)

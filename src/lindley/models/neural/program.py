"""One tensor program: an epoch of training and validation of several runs at once.

Every step computes the batch of every run together. Optimiser, losses and gradients are separate per run because no
operation mixes runs. On a GPU an epoch is captured once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lindley.errors import LindleyError
from lindley.models.adam import Adam
from lindley.models.between import AxisLaw
from lindley.models.blocks import keep_memory
from lindley.models.fitting import History
from lindley.models.neural.batches import Dealt, Evaluation, PairBatches, SourceBatches
from lindley.models.neural.cost import cost, rows_of
from lindley.models.neural.parameters import Architecture, NeuralTwoLevel, Parameters
from lindley.models.two_level import TwoLevel, map_tensors
from lindley.table.splits import Part

__all__ = ["Program", "Progress", "Training"]

T = TypeVar("T")
CAPTURABLE = {"exponential"}
"""Orthonormal kinds that a CUDA graph can hold; the others ask the host for decisions on the way."""
ONE_CAPTURE = Lock()
"""A device is not to be waited for while an epoch is captured on it, and every capture begins with waiting for it."""
Progress = Callable[[int, float], None]
"""Called with the number of finished epochs and the mean validation Cllr so far, now and then."""


@dataclass(frozen=True)
class Training:
    """How a model is trained. The defaults are the paper's.

    ``mode``
        *pairs*: batches of ``batch`` same-source pairs with their share of different-source pairs, one instance against
        one. *sources*: batches of ``batch`` sources with all their instances; same-source pairs inside the batch,
        different-source pairs against a store of all instances of earlier batches.
    ``watched``
        how many different-source validation pairs are followed axis by axis; 0 switches that off.
    """

    mode: Literal["pairs", "sources"] = "pairs"
    epochs: int = 2000
    batch: int = 50
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    watched: int = 1000
    device: str = "cpu"
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")


class Program:
    """The runs of one program, which have the same number of batches."""

    def __init__(
        self,
        architecture: Architecture,
        training: Training,
        train_parts: Sequence[Part],
        validate_parts: Sequence[Part],
        seeds: Sequence[int],
        start: Parameters | None,
    ) -> None:
        keep_memory()
        self.training = t = training
        self.device = torch.device(t.device)
        make = PairBatches if t.mode == "pairs" else SourceBatches
        self.batches: PairBatches | SourceBatches = _to(
            make.of(train_parts, t.batch, t.epochs, seeds, t.dtype), self.device
        )
        self.evaluation = _to(Evaluation.of(validate_parts, t.dtype, t.watched, seeds), self.device)
        self.net = self._net(architecture, train_parts, seeds, start).to(self.device, t.dtype)
        self.parameters = list(self.net.parameters())
        self.optimiser = Adam(self.parameters, t.learning_rate, t.weight_decay, fused=True)
        n_runs, n_axes = self.net.free_b.shape[:2]
        self.epoch = torch.zeros(1, dtype=torch.long, device=self.device)
        self.best = [p.detach().clone() for p in self.parameters]
        self.best_cllr = self._full(n_runs, value=torch.inf)
        self.best_epoch = torch.zeros(n_runs, dtype=torch.long, device=self.device)
        self.losses = self._full(t.epochs, 2, n_runs)
        self.axes = self._full(t.epochs, n_runs, n_axes) if t.watched else None
        self.focus = self._full(t.epochs, n_runs) if t.watched else None

    def _full(self, *shape: int, value: float = 0.0) -> Tensor:
        return torch.full(shape, value, dtype=self.training.dtype, device=self.device)

    def _net(
        self, architecture: Architecture, parts: Sequence[Part], seeds: Sequence[int], start: Parameters | None
    ) -> NeuralTwoLevel:
        d = self.evaluation.items.shape[-1]
        if start is not None:
            if (found := start.q_between.shape[-1]) != d:
                raise LindleyError(f"the start is for {found} features, and the table has {d}")
            return NeuralTwoLevel(architecture, start)
        if architecture.start == "maximum-likelihood":
            return NeuralTwoLevel(architecture, Parameters.maximum_likelihood(architecture, parts))
        return NeuralTwoLevel(architecture, Parameters.random(architecture, d, seeds), seeds)

    def run(self, progress: Progress) -> tuple[Parameters, History]:
        """All epochs; then, of each run, the parameters of the best one, in float64."""
        every = max(1, self.training.epochs // 100)
        with self._stream():
            step = self._captured() if self.device.type == "cuda" else self._epoch
            for epoch in range(self.training.epochs):
                step()
                if (epoch + 1) % every == 0 or epoch + 1 == self.training.epochs:
                    progress(epoch + 1, float(self.best_cllr.mean()))
        if not bool(torch.isfinite(self.best_cllr).all()):
            raise LindleyError(
                "training diverged: the validation Cllr of a run was never finite. Try a smaller learning rate, or "
                "another orthonormal kind."
            )
        with torch.no_grad():
            for parameter, best in zip(self.parameters, self.best, strict=True):
                parameter.copy_(best)
            parameters = map_tensors(self.net.double().mathematical(), lambda t: t.detach().cpu())
        losses = self.losses.double().cpu().numpy()
        return parameters, History(
            losses[:, 0].T,
            losses[:, 1].T,
            None if self.axes is None else self.axes.double().cpu().numpy().transpose(1, 0, 2),
            self.best_epoch.cpu().numpy(),
            None if self.focus is None else self.focus.double().cpu().numpy().T,
        )

    def _captured(self) -> Callable[[], None]:
        """An epoch as a CUDA graph. A capture wants everything warm: that is done first, and undone."""
        state = [self.best_cllr, self.best_epoch, self.losses, self.epoch, *self.parameters, *self.best]
        state += [watched for watched in (self.axes, self.focus) if watched is not None]
        state += [self.batches.stored] if isinstance(self.batches, SourceBatches) else []
        kept = [t.detach().clone() for t in state]
        self._epoch()
        with torch.no_grad():
            for tensor, value in zip(state, kept, strict=True):
                tensor.copy_(value)
            for moment in self.optimiser.state:
                moment.zero_()
        if self.net.architecture.orthonormal not in CAPTURABLE:
            return self._epoch
        graph = torch.cuda.CUDAGraph()
        with ONE_CAPTURE, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._epoch()
        return graph.replay

    def _stream(self) -> AbstractContextManager[None]:
        """On a GPU a queue of its own, so that programs of several threads run side by side."""
        if self.device.type != "cuda":
            return nullcontext()
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        return torch.cuda.stream(stream)

    def _epoch(self) -> None:
        """One pass over the batches, then the validation."""
        n = len(self.batches.rows)
        total = torch.zeros_like(self.best_cllr)
        dealt = self.batches.deal(self.epoch)
        for batch in range(n):
            loss = self._loss(self.net(), dealt, batch)
            self.optimiser.step(loss.sum())
            total += loss.detach()
        self._validate(total / n)

    def _loss(self, model: TwoLevel, dealt: Dealt | Tensor, batch: int) -> Tensor:
        """Cllr of a batch, (run,)."""
        items, weights = cast(Any, self.batches).take(dealt, batch)
        return cost(model.between, model.project(items), model.variances(1, 1), weights)

    @torch.no_grad()
    def _validate(self, train_loss: Tensor) -> None:
        """Write the losses of this epoch, and keep the parameters of the runs that have improved."""
        v, model = self.evaluation, self.net()
        points, variances = model.project(v.items), model.variances(1, 1)
        cllr = cost(model.between, points, variances, v.weights)
        self.losses.index_copy_(0, self.epoch, torch.stack([train_loss, cllr])[None])
        if self.axes is not None and self.focus is not None:
            x, y = (rows_of(points, which) for which in v.watched.unbind(-1))
            signed = cast(AxisLaw, model.between).ln_lr_pairs(x, y, *variances).mul_(v.watched_sign[..., None])
            of_axes = softplus(signed).mul_(v.watched_weight[..., None]).sum(1)
            focused = signed.mul_((of_axes <= 1)[:, None]).sum(-1)
            self.axes.index_copy_(0, self.epoch, of_axes[None])
            self.focus.index_copy_(0, self.epoch, (v.watched_weight * softplus(focused)).sum(1)[None])
        better = cllr < self.best_cllr
        self.best_cllr.copy_(torch.where(better, cllr, self.best_cllr))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))
        for best, parameter in zip(self.best, self.parameters, strict=True):
            best.copy_(torch.where(better.view(-1, *[1] * (parameter.ndim - 1)), parameter, best))
        self.epoch += 1


def _to(value: T, device: torch.device) -> T:
    """A dataclass of tensors, lists of tensors and shuffles, on a device; a tensor that is shared stays shared."""
    there: dict[int, Tensor] = {}
    return map_tensors(value, lambda t: there.setdefault(id(t), t.to(device)))

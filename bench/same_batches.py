"""One run of a training again, written plainly, on the same batches: its loss curves must lie on those of all runs at once.

What both have in common is the order in which an epoch visits the sources (`Shuffle`). All else is written here as a formula
has it: pairs are listed one by one, a run has a model of its own, densities are torch's, and gradients autograd's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from bench.plan import Plan
from bench.reference import cllr
from lindley.models.neural.batches import Shuffle, n_batches
from lindley.models.neural.fit import Training, train
from lindley.models.neural.parameters import Architecture
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, make_splits

__all__ = ["loss_curves", "measure"]

Index = list[int]
SAME = {torch.float64: 1e-6, torch.float32: 1e-2}
"""How far the curves may be apart after 2000 epochs: rounding grows with every step, and a step amplifies it."""


class PlainNetwork(nn.Module):
    """The paper's two-level network of one run: single or double projection, one within variance or two."""

    start: Tensor

    def __init__(self, architecture: Architecture, d: int, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.kind, self.double, self.within = (
            architecture.orthonormal,
            architecture.projection == "double",
            architecture.within,
        )
        draws = torch.randn(2, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.register_buffer("start", torch.linalg.qr(draws)[0].to(dtype))
        self.free = nn.Parameter(draws.to(dtype) if self.kind == "qr" else torch.zeros_like(self.start))
        self.ln_whiten = nn.Parameter(torch.zeros(d, dtype=dtype))
        self.ln_within = nn.Parameter(torch.zeros(architecture.within, d, dtype=dtype))
        self.ln_between = nn.Parameter(torch.zeros(d, dtype=dtype))
        self.mean = nn.Parameter(torch.zeros(d, dtype=dtype))

    def axes(self, which: int) -> Tensor:
        """Q (feature, axis): 0 between, 1 within."""
        if self.kind == "qr":
            return torch.linalg.qr(self.free[which])[0]
        lower = torch.tril(self.free[which], -1)
        return self.start[which] @ torch.matrix_exp(lower - lower.T)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """ln LR (pairs,) of traces and refs (pairs, feature)."""
        trace, ref = self.ln_within[0].exp(), self.ln_within[-1].exp()
        if self.double:
            whiten = self.axes(1) @ torch.diag(self.ln_whiten.exp().rsqrt())
            x, y = x @ whiten, y @ whiten
            if self.within == 1:
                trace = ref = torch.ones_like(trace)
        x, y = x @ self.axes(0), y @ self.axes(0)
        b = self.ln_between.exp()
        mean, var = self.mean + (y - self.mean) * b / (b + ref), b * ref / (b + ref)
        numerator = Normal(mean, (var + trace).sqrt()).log_prob(x)  # type: ignore[no-untyped-call]
        denominator = Normal(self.mean, (b + trace).sqrt()).log_prob(x)  # type: ignore[no-untyped-call]
        return (numerator - denominator).sum(-1)  # type: ignore[no-any-return]


def loss_curves(
    architecture: Architecture, training: Training, learn: Part, validate: Part, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation Cllr of every epoch (epoch,), of one run with traces and refs of one instance each."""
    net = PlainNetwork(architecture, learn.values.shape[1], seed, training.dtype)
    optimiser = torch.optim.AdamW(net.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    batches = (
        _pair_batches(learn, training, seed) if training.mode == "pairs" else _source_batches(learn, training, seed)
    )
    values = torch.from_numpy(learn.values).to(training.dtype)
    x, y = (torch.from_numpy(side.mean).to(training.dtype) for side in (validate.trace, validate.ref))
    is_same = torch.from_numpy(validate.trace.source[:, None] == validate.ref.source)
    same, different = torch.nonzero(is_same).T, torch.nonzero(~is_same).T
    curves = []
    for epoch in batches:
        costs = []
        for (i, j), (k, l) in epoch:
            cost = cllr(net(values[i], values[j]), net(values[k], values[l]))
            optimiser.zero_grad()
            cost.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            costs.append(cost.item())
        with torch.no_grad():
            told = cllr(net(x[same[0]], y[same[1]]), net(x[different[0]], y[different[1]]))
        curves.append((sum(costs) / len(costs), float(told)))
    train_curve, validate_curve = np.array(curves).T
    return train_curve, validate_curve


Pairs = tuple[Index, Index]
"""Rows of traces, and of the refs that they are compared with."""
Batch = tuple[Pairs, Pairs]
"""Same-source and different-source pairs."""


def _orders(n: int, training: Training, seed: int) -> Iterator[list[Index]]:
    """Of every epoch, its batches of sources: 0 … n − 1 in the order of the epoch, cut into pieces."""
    shuffle, number = Shuffle.draw([n], training.epochs, [seed]), n_batches(n, training.batch)
    edges = [round(n * b / number) for b in range(number + 1)]
    for epoch in range(training.epochs):
        order = shuffle.of(torch.tensor([epoch]))[0].tolist()
        yield [order[begin:end] for begin, end in pairwise(edges)]


def _pair_batches(part: Part, training: Training, seed: int) -> Iterator[list[Batch]]:
    """Sources in a circle: each, as the trace, against itself and against the refs of the half circle that follows."""
    names = np.unique(part.source)
    trace, ref = (
        [int(np.flatnonzero(rows & (part.source == name))[0]) for name in names]
        for rows in (part.is_trace, ~part.is_trace)
    )
    n = len(names)
    for batches in _orders(n, training, seed):
        order, place, epoch = [source for batch in batches for source in batch], 0, []
        for batch in batches:
            i, j, k, l = [], [], [], []
            for source in batch:
                i.append(trace[source])
                j.append(ref[source])
                for step in range(1, n // 2 + 1):
                    if 2 * step < n or place < n / 2:  # for even n, those who face each other meet once
                        k.append(trace[source])
                        l.append(ref[order[(place + step) % n]])
                place += 1
            epoch.append(((i, j), (k, l)))
        yield epoch


def _source_batches(part: Part, training: Training, seed: int) -> Iterator[list[Batch]]:
    """All instances of some sources: paired within each source, and with all instances of others that were seen so far."""
    names = np.unique(part.source)
    rows = [np.flatnonzero(part.source == name).tolist() for name in names]
    seen: set[int] = set()
    for batches in _orders(len(names), training, seed):
        epoch = []
        for batch in batches:
            seen.update(batch)
            same = [pair for source in batch for pair in combinations(rows[source], 2)]
            different = [
                (row, other)
                for source in batch
                for row in rows[source]
                for stored in sorted(seen - {source})
                for other in rows[stored]
            ]
            epoch.append((_apart(same), _apart(different)))
        yield epoch


def _apart(pairs: list[tuple[int, int]]) -> Pairs:
    return [first for first, _ in pairs], [second for _, second in pairs]


def measure(plan: Plan) -> dict[str, Any]:
    """The training of all runs, and one of them again by the loop, for all epochs of the paper: how far their curves part."""
    table = simulate_table(glass_population(), plan.table_sources, 6, seed=0)
    splits = make_splits(table, Protocol(splits=plan.runs))
    run = plan.runs // 2
    rows = []
    for dtype in (torch.float64, torch.float32):
        training = Training("pairs", epochs=plan.paper_epochs, watched=0, dtype=dtype)
        architecture = Architecture("single", 2)
        split = splits[run]
        plain = loss_curves(architecture, training, split.train, split.validate, split.index)
        for device in plan.devices:
            trained = train(
                architecture,
                Training("pairs", epochs=plan.paper_epochs, watched=0, dtype=dtype, device=device),
                [s.train for s in splits],
                [s.validate for s in splits],
                [s.index for s in splits],
                threads=min(2, plan.threads),
            )
            ours = trained.history.train[run], trained.history.validate[run]
            apart = [float(np.abs(a - b).max()) for a, b in zip(ours, plain, strict=True)]
            rows.append(
                {
                    "device": device,
                    "precision": str(dtype).removeprefix("torch."),
                    "train": apart[0],
                    "validate": apart[1],
                    "best_epoch": int(trained.history.best_epoch[run]),
                    "best_epoch_loop": int(plain[1].argmin()),
                    "best": float(ours[1].min()),
                    "best_loop": float(plain[1].min()),
                    "same": max(apart) < SAME[dtype] and math.isfinite(max(apart)),
                }
            )
    return {
        "runs": plan.runs,
        "run": run + 1,
        "epochs": plan.paper_epochs,
        "model": "ntlm-single-pairs-n2",
        "rows": rows,
    }

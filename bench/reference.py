"""The paper's training written plainly: one run at a time, a Dataset of pairs, a DataLoader.

What the training of all runs at once is measured against, and checked with: `PlainTwoLevel.holding` is the same model with
given parameters.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, Dataset

from lindley.models.neural.parameters import Parameters
from lindley.table.splits import Part, Split

__all__ = ["PlainTwoLevel", "cllr", "ln_lr_matrix", "train_plainly"]


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Given pairs of traces and refs."""

    def __init__(self, x: Tensor, y: Tensor, i: np.ndarray, j: np.ndarray) -> None:
        self.x, self.y, self.i, self.j = x, y, i.tolist(), j.tolist()

    def __len__(self) -> int:
        return len(self.i)

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
        return self.x[self.i[k]], self.y[self.j[k]]


class PlainTwoLevel(nn.Module):
    """Single projection, N=2, normal between: prior and posterior predictive densities of each pair."""

    base: Tensor

    def __init__(self, d: int, seed: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.register_buffer("base", torch.linalg.qr(torch.randn(d, d, generator=g))[0])
        self.free = nn.Parameter(torch.zeros(d, d))
        self.ln_var_trace, self.ln_var_ref = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.ln_var_between, self.mean = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))

    @classmethod
    def holding(cls, parameters: Parameters, run: int) -> PlainTwoLevel:
        """The model with the parameters of a run of lindley's, in double precision."""
        net = cls(parameters.q_between.shape[1], seed=0).double()
        net.base = parameters.q_between[run].clone()
        with torch.no_grad():
            net.ln_var_trace.copy_(parameters.var_within[run, 0].log())
            net.ln_var_ref.copy_(parameters.var_within[run, -1].log())
            net.ln_var_between.copy_(parameters.var_between[run, 0].log())
            net.mean.copy_(parameters.mean_between[run, 0])
        return net

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        lower = torch.tril(self.free, -1)
        q = self.base @ torch.matrix_exp(lower - lower.T)
        x, y = x @ q, y @ q
        d, e, b = self.ln_var_trace.exp(), self.ln_var_ref.exp(), self.ln_var_between.exp()
        posterior_mean, posterior_var = self.mean + (y - self.mean) * b / (b + e), b * e / (b + e)
        numerator = Normal(posterior_mean, (posterior_var + d).sqrt()).log_prob(x)  # type: ignore[no-untyped-call]
        denominator = Normal(self.mean, (b + d).sqrt()).log_prob(x)  # type: ignore[no-untyped-call]
        ln_lr: Tensor = (numerator - denominator).sum(-1)
        return ln_lr


def cllr(same: Tensor, different: Tensor) -> Tensor:
    softplus = torch.nn.functional.softplus
    return 0.5 * (softplus(-same).mean() + softplus(different).mean()) / math.log(2)


def train_plainly(split: Split, epochs: int, seed: int) -> tuple[PlainTwoLevel, float]:
    """One run; the model of the best validation epoch, and seconds per epoch."""
    torch.manual_seed(seed)
    training, (x, y) = _single(split.train), _single(split.validate)
    n = len(training[0])
    diagonal, (i, j) = np.arange(n), np.triu_indices(n, 1)
    same = DataLoader(Pairs(*training, diagonal, diagonal), batch_size=math.ceil(n / (n // 50)), shuffle=True)
    different = DataLoader(Pairs(*training, i, j), batch_size=math.ceil(len(i) / len(same)), shuffle=True)
    m = len(x)
    k, l = np.nonzero(~np.eye(m, dtype=bool))
    off = torch.from_numpy(k), torch.from_numpy(l)
    net = PlainTwoLevel(x.shape[1], seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    best, kept, started = math.inf, net.state_dict(), time.perf_counter()
    for _ in range(epochs):
        for (xs, ys), (xd, yd) in zip(same, different, strict=True):
            loss = cllr(net(xs, ys), net(xd, yd))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            value = float(cllr(net(x, y), net(x[off[0]], y[off[1]])))
        if value < best:
            best, kept = value, {name: t.clone() for name, t in net.state_dict().items()}
    seconds = (time.perf_counter() - started) / epochs
    net.load_state_dict(kept)
    return net, seconds


def _single(part: Part) -> tuple[Tensor, Tensor]:
    """Traces and refs, of one instance each, in single precision."""
    return torch.from_numpy(part.trace.values).float(), torch.from_numpy(part.ref.values).float()


@torch.no_grad()
def ln_lr_matrix(net: PlainTwoLevel, part: Part) -> Tensor:
    """ln LRs of all traces (rows) against all refs (columns) of one instance each, row by row."""
    x, y = (torch.from_numpy(side.mean).to(net.mean) for side in (part.trace, part.ref))
    return torch.stack([net(x[i].expand(len(y), -1), y) for i in range(len(x))])

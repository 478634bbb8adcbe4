"""The paper's training written plainly: one run at a time, a Dataset of pairs, a DataLoader. See `bench/training.py`."""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, Dataset

from lindley.data.splits import Split


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

    def __init__(self, d: int, seed: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.register_buffer("base", torch.linalg.qr(torch.randn(d, d, generator=g))[0])
        self.free = nn.Parameter(torch.zeros(d, d))
        self.ln_var_trace, self.ln_var_ref = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.ln_var_between, self.mean = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        lower = torch.tril(self.free, -1)
        q = self.base @ torch.matrix_exp(lower - lower.T)  # type: ignore[operator]
        x, y = x @ q, y @ q
        d, e, b = self.ln_var_trace.exp(), self.ln_var_ref.exp(), self.ln_var_between.exp()
        posterior_mean, posterior_var = self.mean + (y - self.mean) * b / (b + e), b * e / (b + e)
        numerator = Normal(posterior_mean, (posterior_var + d).sqrt()).log_prob(x)
        denominator = Normal(self.mean, (b + d).sqrt()).log_prob(x)
        return (numerator - denominator).sum(-1)


def cllr(same: Tensor, different: Tensor) -> Tensor:
    softplus = torch.nn.functional.softplus
    return 0.5 * (softplus(-same).mean() + softplus(different).mean()) / math.log(2)


def train_plainly(split: Split, epochs: int, seed: int) -> tuple[PlainTwoLevel, float]:
    """One run; the model of the best validation epoch, and seconds per epoch."""
    torch.manual_seed(seed)
    parts = [
        [torch.from_numpy(side.values).float() for side in (part.trace, part.ref)]
        for part in (split.train, split.validate)
    ]
    n = len(parts[0][0])
    diagonal, (i, j) = np.arange(n), np.triu_indices(n, 1)
    same = DataLoader(Pairs(*parts[0], diagonal, diagonal), batch_size=math.ceil(n / (n // 50)), shuffle=True)
    different = DataLoader(Pairs(*parts[0], i, j), batch_size=math.ceil(len(i) / len(same)), shuffle=True)
    m = len(parts[1][0])
    k, l = np.nonzero(~np.eye(m, dtype=bool))
    (x, y), off = parts[1], (torch.from_numpy(k), torch.from_numpy(l))
    net = PlainTwoLevel(parts[0][0].shape[1], seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    best, kept, started = math.inf, net.state_dict(), time.perf_counter()
    for _ in range(epochs):
        for (xs, ys), (xd, yd) in zip(same, different, strict=True):
            loss = cllr(net(xs, ys), net(xd, yd))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            value = float(cllr(net(x, y), net(x[off[0]], y[off[1]])))
        if value < best:
            best, kept = value, {name: t.clone() for name, t in net.state_dict().items()}
    seconds = (time.perf_counter() - started) / epochs
    net.load_state_dict(kept)
    return net, seconds


@torch.no_grad()
def test_cllr(net: PlainTwoLevel, split: Split) -> float:
    x, y = (torch.from_numpy(side.values).float() for side in (split.test.trace, split.test.ref))
    n = len(x)
    ln_lr = torch.stack([net(x[i].expand(n, -1), y) for i in range(n)])
    off = ~torch.eye(n, dtype=torch.bool)
    return float(cllr(ln_lr.diagonal(), ln_lr[off]))

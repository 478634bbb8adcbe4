"""The cost of pairs in one pass equals the formula, in value and in gradient, whatever is missing and however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from lindley.models.between import NormalBetween
from lindley.models.neural import cost as of_cost
from lindley.models.neural.batches import WeightsOfMates
from lindley.models.neural.cost import PairWeights, cost, rows_of
from lindley.models.neural.parameters import MixtureBetween

AXES = 3


def draw(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape))


def some_weights(rng: np.random.Generator, runs: int, n: int, m: int, k: int, kind: str) -> PairWeights:
    """Of traces and refs of which some are not there, and of own refs of which some do not count."""
    traces, refs = (torch.from_numpy(rng.random((runs, size)) < 0.8).double() for size in (n, m))
    own = torch.from_numpy(np.stack([[rng.permutation(m)[:k] for _ in range(n)] for _ in range(runs)]))
    there = traces[..., None] * refs[:, None].expand(-1, n, -1).gather(2, own)
    is_pair = there * torch.from_numpy(rng.integers(0, 2, own.shape))
    group_x, group_y = (torch.from_numpy(rng.integers(0, 3, (runs, size))) for size in (n, m))
    of_others = {
        "none": None,
        "mates": WeightsOfMates(group_x, group_y, torch.from_numpy(rng.random((runs, 1, 1)))),
        "band": torch.from_numpy(rng.integers(0, 2, (1, n, m))).double().expand(runs, -1, -1),
    }[kind]
    return PairWeights.as_cllr(traces, refs, own, is_pair, torch.full((runs,), 7.0).double(), of_others)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(2, 9), st.integers(1, 2), st.sampled_from(["none", "mates", "band"]),
    st.sampled_from([0.3, 3.0, 60.0]), st.integers(1, 300), st.integers(0, 100),
)  # fmt: skip
def test_one_pass_is_the_formula(
    runs: int, n: int, m: int, k: int, kind: str, size: float, block: int, seed: int
) -> None:
    """Also of ln LRs of thousands, which are beyond what a power of two can hold."""
    rng = np.random.default_rng(seed)
    weights = some_weights(rng, runs, n, m, k, kind)
    points = size * draw(rng, runs, n + m, AXES)
    mean, variances = draw(rng, runs, 1, AXES), [draw(rng, runs, 1, AXES).exp() for _ in range(3)]
    used = [t.requires_grad_() for t in (points, mean, *variances)]

    def both() -> tuple[Tensor, Tensor]:
        law = NormalBetween(mean, variances[0])
        x, y = points[:, :n] * 1, points[:, n:] * 1
        ln_lr = law.ln_lr(x, y, variances[1], variances[2])
        weight = weights.signed()
        plain = (weight.abs() * torch.logaddexp(torch.zeros_like(weight), weight.sign() * ln_lr)).sum((1, 2))
        return cost(law, points, (variances[1], variances[2]), weights), plain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_cost, "AT_A_TIME", block)
        patch.setattr(of_cost, "FEWEST", 1)
        fast, plain = both()
        with torch.no_grad():
            torch.testing.assert_close(both()[0], fast, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-12)
    of_run = torch.from_numpy(rng.random(runs))
    for ours, theirs in zip(*(torch.autograd.grad((of_run * c).sum(), used) for c in (fast, plain)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9 * float(theirs.abs().max() + 1))


@given(st.integers(0, 20), st.integers(1, 60))
def test_any_law_in_blocks(seed: int, block: int) -> None:
    """With a gradient all pairs are taken at once, and without some traces at a time."""
    rng = np.random.default_rng(seed)
    weights = some_weights(rng, 2, 6, 5, 1, "mates")
    law = MixtureBetween(*(draw(rng, 2, 2, AXES) for _ in range(3)))
    law = MixtureBetween(law.means, law.var.exp(), law.ln_weights)
    points, one = draw(rng, 2, 11, AXES).requires_grad_(), torch.ones(2, 1, AXES, dtype=torch.float64)
    whole = cost(law, points, (one, one), weights)
    expected = weights.cost(law.ln_lr(points[:, :6], points[:, 6:], one, one))
    torch.testing.assert_close(whole, expected)
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_cost, "AT_A_TIME", block)
        torch.testing.assert_close(cost(law, points, (one, one), weights), expected)


def test_single_precision_tells_small_costs() -> None:
    """A model that is almost sure of all pairs still has something to improve, below the 6e-8 that 1 + e could tell."""
    n, found = 8, []
    for dtype in (torch.float32, torch.float64):
        one, there = torch.ones(1, 1, 1, dtype=dtype), torch.ones(1, n, dtype=dtype)
        own, none = torch.arange(n)[None, :, None], torch.zeros(1, n, 1, dtype=dtype)
        weights = PairWeights.as_cllr(there, there, own, none, torch.tensor([56.0]).to(dtype), None)
        x = torch.linspace(-30, 30, n, dtype=dtype)[None, :, None]
        found.append(float(cost(NormalBetween(0 * one, 300 * one), torch.cat([x, x], 1), (one, one), weights)))
    assert found[1] < 6e-8
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_rows_of_every_run() -> None:
    values = torch.arange(12.0).view(2, 3, 2)
    found = rows_of(values, torch.tensor([[[0, 2]], [[1, 1]]]))
    assert found.tolist() == [[[[0, 1], [4, 5]]], [[[8, 9], [8, 9]]]]

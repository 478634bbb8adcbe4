"""A function of all pairs from few of them: as exact as rounding lets it be, or not at all."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lindley.models.between import NormalBetween
from lindley.models.neural import integration
from lindley.models.neural.integration import VaryingVariance, quadrature_nodes
from lindley.models.neural.interpolation import NEGLIGIBLE, POINTS, interpolated
from tests.models.neural.simulate import inverse_gamma

LN10 = math.log(10)


def places(number: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return scale * torch.randn(number, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_smooth_function_is_found_from_few_points() -> None:
    at, y = places(500, 3.0), torch.linspace(-2, 2, 7, dtype=torch.float64)
    asked: list[int] = []

    def student(x: Tensor) -> Tensor:
        asked.append(len(x))
        return -2.5 * torch.log1p((x[:, None] - y) ** 2 / 4)

    found = interpolated(student, at, 1.5)
    assert found is not None
    torch.testing.assert_close(found, student(at), rtol=0, atol=NEGLIGIBLE)
    assert asked[0] % POINTS == 0
    assert asked[0] < 400


def test_what_is_found_does_not_depend_on_the_other_items() -> None:
    at = places(500, 3.0)
    found, of_half = (interpolated(lambda x: torch.cos(x)[:, None], some, 1.5) for some in (at, at[:400]))
    assert found is not None
    assert of_half is not None
    torch.testing.assert_close(found[:400], of_half, rtol=0, atol=1e-15)


def test_what_is_not_smooth_or_not_worth_it_is_left_to_the_caller() -> None:
    at = places(500)
    assert interpolated(lambda x: x.abs()[:, None], at, 1.5) is None
    assert interpolated(lambda x: torch.full_like(x, torch.nan)[:, None], at, 1.5) is None
    assert interpolated(lambda x: x[:, None], at[:30], 1.5) is None
    assert interpolated(lambda x: x[:, None], 100 * at, 1.5) is None


def law_of_runs(alphas: list[float]) -> VaryingVariance:
    """A run for every α: sources that scatter 25 times as much as their measurements, trace and ref with laws of their own."""
    nodes = [quadrature_nodes(inverse_gamma(alpha, alpha + 1)) for alpha in alphas]
    most = max(len(sigma2) for sigma2, _ in nodes)
    scale, ln_weight = (torch.full((len(alphas), most, 1), fill, dtype=torch.float64) for fill in (1.0, -torch.inf))
    for run, (sigma2, ln_w) in enumerate(nodes):
        scale[run, : len(sigma2), 0], ln_weight[run, : len(sigma2), 0] = (torch.from_numpy(t) for t in (sigma2, ln_w))
    mean, var = (torch.full((len(alphas), 1, 1), value, dtype=torch.float64) for value in (0.3, 25.0))
    return VaryingVariance(NormalBetween(mean, var), scale, 0.5 + 0.7 * scale, ln_weight)


def test_all_pairs_are_what_each_pair_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of laws that are heavy-tailed and nearly normal, with an item that is far from all others; to 1e-11 in log10 LR."""
    law = law_of_runs([2 + 1e-6, 5.0, 300.0])
    x, y = (
        torch.stack([places(n, 3.0, seed=k + 3 * run) for run in range(3)])[..., None] for k, n in enumerate((300, 260))
    )
    x[:, 7] = 900.0
    one = torch.ones((3, 1, 1), dtype=torch.float64)
    computed: list[int] = []
    real = integration._ln_sum

    def counting(values: list[Tensor], *more: Tensor) -> Tensor:
        computed.append(math.prod(torch.broadcast_shapes(*(v.shape for v in values))))  # type: ignore[no-untyped-call]
        return real(values, *more)

    monkeypatch.setattr(integration, "_ln_sum", counting)
    with torch.inference_mode():
        all_pairs = law.ln_lr(x, y, one, one)
        assert sum(computed) < 0.6 * 3 * 300 * 260
        i, j = (index.flatten() for index in torch.meshgrid(torch.arange(300), torch.arange(260), indexing="ij"))
        each = law.ln_lr_pairs(x[:, i], y[:, j], one, one)[..., 0]
    torch.testing.assert_close(all_pairs.flatten(1), each, rtol=0, atol=1e-11 * LN10)


def test_with_a_gradient_every_pair_is_computed() -> None:
    law = law_of_runs([3.0])
    x, y = places(120)[None, :, None].requires_grad_(), places(90, seed=1)[None, :, None]
    one = torch.ones((1, 1, 1), dtype=torch.float64)
    law.ln_lr(x, y, one, one).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    step = torch.full_like(x, 1e-5)
    with torch.inference_mode():
        up, down = (law.ln_lr(x + sign * step, y, one, one).sum(-1) for sign in (1, -1))
    torch.testing.assert_close(x.grad[..., 0], (up - down) / 2e-5, rtol=1e-5, atol=1e-5)

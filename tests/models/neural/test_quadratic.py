"""A quadratic score: the normal model is one, all pairs equal single ones, and it has no densities to show."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.between import NormalBetween, Scatter
from lindley.models.neural.nplda import Quadratic
from lindley.models.two_level import TwoLevel

RUNS, AXES = 2, 4


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def any_law() -> Quadratic:
    return Quadratic(
        normal(1, RUNS, 1, AXES), normal(2, RUNS, 1, AXES), normal(3, RUNS, 1, AXES), normal(4, RUNS, 1, 1),
        normal(5, RUNS, 1, AXES).exp(),
    )  # fmt: skip


def variance(seed: int) -> Tensor:
    return normal(seed, RUNS, 1, AXES).exp()


def test_the_normal_law_is_quadratic() -> None:
    between = NormalBetween(normal(1, RUNS, 1, AXES), variance(2))
    between.var[..., 0] = 0.0  # an axis on which sources do not differ
    within = variance(3)
    x, y = normal(4, RUNS, 6, AXES), normal(5, RUNS, 5, AXES)
    quadratic = Quadratic.of_normal(between, within)
    torch.testing.assert_close(
        quadratic.ln_lr(x, y, within, within), between.ln_lr(x, y, within, within), rtol=1e-12, atol=1e-12
    )


def test_all_pairs_are_single_pairs_and_sums_over_axes() -> None:
    law, d = any_law(), variance(6)
    x, y = normal(7, RUNS, 3, AXES), normal(8, RUNS, 5, AXES)
    matrix = law.ln_lr(x, y, d, d)
    q, p = (torch.diag_embed(t[:, 0]) for t in (law.square, law.cross))
    for i in range(3):
        for j in range(5):
            a, b = (x[:, i] - law.origin[:, 0])[..., None], (y[:, j] - law.origin[:, 0])[..., None]
            dense = a.mT @ q @ a + b.mT @ q @ b + 2 * a.mT @ p @ b + law.constant
            torch.testing.assert_close(matrix[:, i, j], dense[:, 0, 0])
    shares = law.ln_lr_pairs(x.repeat_interleave(5, 1), y.repeat(1, 3, 1), d, d)
    torch.testing.assert_close(shares.sum(-1).unflatten(1, (3, 5)), matrix)


def test_variances_and_scatter_are_ignored() -> None:
    law = any_law()
    x, y = normal(7, RUNS, 3, AXES), normal(8, RUNS, 5, AXES)
    scatter = Scatter(x**2, y**2, 1, 2)
    assert not law.uses_scatter
    assert torch.equal(law.ln_lr(x, y, variance(1), variance(2)), law.ln_lr(x, y, variance(3), variance(4), scatter))


def test_there_is_no_similarity() -> None:
    law, ones = any_law(), torch.ones(RUNS, 1, AXES, dtype=torch.float64)
    model = TwoLevel(torch.zeros_like(ones), torch.eye(AXES, dtype=torch.float64).expand(RUNS, -1, -1), ones, ones, law)
    assert model.has_axis_shares
    with pytest.raises(LindleyError, match="no similarity"):
        model.ln_parts(normal(7, RUNS, 3, AXES), normal(8, RUNS, 5, AXES))


def test_moments_are_those_of_the_sources() -> None:
    law = any_law()
    mean, var = law.moments()
    assert torch.equal(mean, torch.zeros_like(var))
    assert torch.equal(var, law.var)

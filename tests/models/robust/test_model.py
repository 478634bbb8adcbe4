"""The robust model: its mixtures against a loop over their formulas, and the laws of an LR."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from lindley.models.between import Scatter
from lindley.models.robust.model import Basis, Robust
from lindley.models.robust.scalars import values_of
from lindley.models.two_level import take_runs
from tests.models.robust.dense import ln_lr_of_pair
from tests.models.robust.simulate import case, instances, items, ln_lr, make

NUMBERS = [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2)]


@pytest.fixture
def all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what two items are hardly ever seen as."""
    monkeypatch.setattr("lindley.models.robust.law.NEGLIGIBLE", -math.inf)


def pairs(
    model: Robust, n: int, m_n: tuple[int, int], seed: int, spread: float = 0.05
) -> tuple[torch.Tensor, torch.Tensor]:
    """Traces and refs, every other one of the same source."""
    x, y = (instances(model, n, k, seed + k, spread) for k in m_n)
    y[:, ::2] += x[:, ::2].mean(2, keepdim=True) - y[:, ::2].mean(2, keepdim=True)
    y[:, ::2] += spread * instances(model, n, 1, seed + 7, 0.0)[:, ::2]
    return x, y


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.usefixtures("all_views")
def test_it_is_the_mixture_of_its_formula(numbers: tuple[int, int]) -> None:
    model = make(3, 2, 3, 5, features=4)
    x, y = pairs(model, 2, numbers, 1)
    x[1, 0, 0, 1] += 5.0  # a measurement with a wrong feature
    found = ln_lr(model, x, y)
    expected = [[ln_lr_of_pair(model, run, x[run, i].numpy(), y[run, i].numpy()) for i in range(2)] for run in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    of_all = model.ln_lr(*case(model, x, y))
    torch.testing.assert_close(of_all.diagonal(dim1=1, dim2=2), found, rtol=1e-9, atol=1e-9)
    same, different = model.ln_parts(*case(model, x, y))
    torch.testing.assert_close(same - different, of_all, rtol=1e-9, atol=1e-8)


def test_blocks_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(4, axes=3)
    sides = case(model, *pairs(model, 5, (2, 3), 1))
    whole = model.ln_lr(*sides)
    monkeypatch.setattr("lindley.models.robust.model.TERMS", 200)
    torch.testing.assert_close(model.ln_lr(*sides), whole, rtol=1e-11, atol=1e-11)


def test_densities_of_an_item_are_in_its_features() -> None:
    """Typicality integrates to one, in any unit, where a model has as many axes as features and knows one law."""
    model = make(5, 1, 2, 3, heavy=1e-9, bases=1)
    one = replace(model, bases=(replace(model.bases[0], share=torch.ones(1, 1, 1).double()),)).unrelated()
    line = 40 * torch.linspace(-1, 1, 161, dtype=torch.float64)
    points = torch.cartesian_prod(line, line)[None] @ torch.linalg.inv(one.projection) + one.centre
    step = 0.5**2 / float(torch.linalg.det(one.projection).abs())
    density = one.ln_parts(points, points[:, :1])[1][0, :, 0].exp()
    assert float(density.sum()) * step == pytest.approx(1, abs=0.02)  # within 40 units of W there is nearly everything


# Laws of an LR.


@given(st.integers(0, 10_000), st.sampled_from(NUMBERS))
@settings(max_examples=6)
def test_places_orders_and_signs_change_nothing(seed: int, numbers: tuple[int, int]) -> None:
    model = make(seed, 1, 3, features=4)
    x, y = pairs(model, 5, numbers, seed)
    x[:, 1, 0, 2] += 10.0
    expected = ln_lr(model, x, y)
    torch.testing.assert_close(ln_lr(model, y, x), expected, rtol=1e-8, atol=1e-8)
    rng = np.random.default_rng(seed)
    features, axes = (torch.from_numpy(rng.permutation(k)) for k in (4, 3))
    sign = torch.from_numpy(rng.choice([-1.0, 1.0], 3))

    def turned(basis: Basis) -> Basis:
        return Basis(
            basis.centre[..., features],
            (basis.projection * sign)[:, features][..., axes],
            basis.var[..., axes],
            (basis.kernels * sign)[..., axes],
            basis.known,
            basis.share,
        )

    beside = replace(
        model.beside, centre=model.beside.centre[..., features], projection=model.beside.projection[:, features]
    )
    other = replace(model, bases=tuple(map(turned, model.bases)), beside=beside)
    a, b = (side[:, :, rng.permutation(side.shape[2])][..., features] for side in (x, y))
    torch.testing.assert_close(ln_lr(other, a, b), expected, rtol=1e-8, atol=1e-8)


@given(st.integers(0, 10_000), st.sampled_from(NUMBERS), st.floats(1e-5, 0.1))
@settings(max_examples=6)
def test_the_bounds_of_the_formula(seed: int, numbers: tuple[int, int], rho: float) -> None:
    """No LR above 1/ρ, nor below what an error or a foreign item makes of it, however wild the values."""
    model = make(seed, 1, 4, alike=rho, variant=0.01, wrong=0.02)
    base = torch.cat([items(model, 4, seed, scale) for scale in (1.0, 30.0, 1e5)], 1)[:, :, None]
    x, y = (base + 1e-3 * instances(model, 12, k, seed + k) for k in numbers)
    y[:, ::3, 0, 0] += 1.0
    v, related = values_of(model.scalars), model.how_related[0]
    assert float(model.ln_ceiling) == pytest.approx(-math.log(rho))
    s, steady = float(v["wrong"]) / 8, float(v["steady"]) / 2
    least = sum(min(4 * s**k + (steady if k > 1 else 0.0) for k in range(1, number + 1)) for number in numbers)
    wrong = min(least, float(related[1]))
    floor = min(float(v["foreign"]), wrong / float(related[1]), (1 - float(v["wrong"]) - float(v["foreign"])) / rho)
    assert float(ln_lr(model, x, y).max()) <= -math.log(rho) + 1e-9
    plain = replace(model, relatedness=model.relatedness * torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert float(ln_lr(plain, x, y).min()) >= math.log(floor) - 1e-5  # exponents of wild values are 1e10


@pytest.mark.parametrize(("axes", "m", "n"), [(1, 1, 1), (60, 1, 1), (1, 3, 2), (20, 3, 2)])
def test_finite_at_extremes(axes: int, m: int, n: int) -> None:
    """Values 1e8 and 1e12 standard deviations off, at the centre, identical ones, and sides without items."""
    model = make(1, 1, axes)
    base = torch.cat([items(model, 3, 1), items(model, 2, 2, 1e12), items(model, 2, 3, 1e8)], 1)
    base = torch.cat([base, torch.zeros(1, 1, axes, dtype=torch.float64)], 1)[:, :, None]
    for spread in (0.0, 1e8):
        x, y = (base + spread * instances(model, base.shape[1], k, k, 1.0, 0.0) for k in (m, n))
        found = model.ln_lr(*case(model, x, y))
        assert found.dtype == torch.float64
        assert torch.isfinite(found).all()
        assert torch.isfinite(ln_lr(model, x, y)).all()
    means = base[:, :, 0]
    assert torch.isfinite(model.ln_lr(means, means, m, n)).all()  # of whose scatter nothing is known
    assert model.ln_lr(means[:, :0], means, m, n).shape == (1, 0, 8)


def test_a_steady_clash_is_no_support_and_a_single_one_leaves_the_others_their_say() -> None:
    model = make(2, 1, 4, alike=1e-3)
    model = replace(model, bases=tuple(replace(basis, var=100 * basis.var) for basis in model.bases))
    x, y = (side[:, ::2] for side in pairs(model, 40, (3, 2), 1, 0.01))
    one, every = x.clone(), x.clone()
    one[:, :, 1, 1] += 30.0
    every[:, :, :, 1] += 30.0
    assert (ln_lr(model, x, y) > 0).all()
    assert (ln_lr(model, one, y) > 0).all()
    assert (ln_lr(model, every, y) <= 0).all()


def test_more_measurements_tell_more() -> None:
    """In the mean, of items that are as the law says: larger LRs of one source, up to the ceiling."""
    model = make(6, 1, 3, alike=1e-5, shared=0.01, heavy=1e-9, bases=1)
    basis, g, found = model.bases[0], torch.Generator().manual_seed(0), []
    source = torch.randn((1, 200, 1, 3), generator=g, dtype=torch.float64) * basis.var.sqrt()
    for number in (1, 2, 4):
        noise = torch.randn((2, 1, 200, number, 3), generator=g, dtype=torch.float64) * model.var_within_trace.sqrt()
        x, y = (source + noise) @ torch.linalg.inv(basis.projection[0]) + basis.centre
        found.append(float(ln_lr(model, x, y).mean()))
    assert found[0] < found[1] < found[2] < float(model.ln_ceiling)


def test_a_gradient_passes_and_runs_are_taken_and_mapped() -> None:
    model = make(7, 2, 3)
    x, y = pairs(model, 3, (2, 1), 1)
    mean, ref, m, n, scatter = case(model, x.requires_grad_(), y)
    model.ln_lr(mean, ref, m, n, scatter).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    x = x.detach()
    second, double = take_runs(model, [1]), model.map(lambda t: t[[0, 1, 1]])
    torch.testing.assert_close(ln_lr(second, x[1:], y[1:]), ln_lr(model, x, y)[1:], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        ln_lr(double, x[[0, 1, 1]], y[[0, 1, 1]])[:2], ln_lr(model, x, y), rtol=1e-12, atol=1e-12
    )


def test_a_scatter_that_is_not_known_is_left_out() -> None:
    model = make(8, 1, 3)
    x, y = pairs(model, 4, (2, 2), 1)
    known = Scatter(model.scatter_of(x), model.scatter_of(y), 1, 1)
    with_it, without = (model.ln_lr(x.mean(2), y.mean(2), 2, 2, scatter) for scatter in (known, None))
    assert (with_it - without).abs().max() > 1e-3
    with pytest.raises(TypeError, match="axes"):
        model.ln_lr_pairs(x.mean(2), y.mean(2))

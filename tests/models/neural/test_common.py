"""Common within variance: Student-t predictive laws, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

from lindley.models.between import KernelBetween, NormalBetween
from lindley.models.neural.integration import CommonVariance, integrate_common
from lindley.models.two_level import TwoLevel
from tests.models.neural.simulate import identity_model, row


def dense(x: float, y: float, mu: float, b: float, d: float, e: float, n: int) -> float:
    """The module's docstring, step by step."""

    def ln_t(m: float, v: float) -> float:
        alpha, beta, nu = 2 + n / 2, 3 * v + n * v / 2, 0 + n
        scale = np.sqrt(beta * (nu + 1) / (alpha * nu))
        return float(stats.t.logpdf(x, df=2 * alpha, loc=m, scale=scale))

    return ln_t(mu + (y - mu) * b / (b + e), d + b * e / (b + e)) - ln_t(mu, b + d)


def random_model(seed: int, runs: int, axes: int) -> TwoLevel:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    law = NormalBetween(normal(runs, 1, axes), normal(runs, 1, axes).exp())
    within = [normal(runs, 1, axes).exp() for _ in range(2)]
    return TwoLevel(normal(runs, 1, axes), normal(runs, axes, axes), *within, law)


@pytest.mark.parametrize(("n_trace", "n_ref"), [(1, 1), (3, 1), (1, 4), (2, 5)])
def test_equals_the_dense_t_laws(n_trace: int, n_ref: int) -> None:
    model, numbers = random_model(3, 2, 3), [351, 7]
    common = integrate_common(model, numbers)
    g = torch.Generator().manual_seed(1)
    trace, ref = (3 * torch.randn(2, n, 3, generator=g, dtype=torch.float64) for n in (4, 5))
    per_axis = common.ln_lr_pairs(trace, ref[:, :4], n_trace, n_ref)
    omnibus = common.ln_lr(trace, ref, n_trace, n_ref)
    x, y = model.project(trace), model.project(ref)
    assert isinstance(model.between, NormalBetween)
    law = model.between
    for r in range(2):
        expected = np.empty((4, 5, 3))
        for i, j, a in np.ndindex(4, 5, 3):
            d, e = model.var_within_trace[r, 0, a].item() / n_trace, model.var_within_ref[r, 0, a].item() / n_ref
            mu, b = law.mean[r, 0, a].item(), law.var[r, 0, a].item()
            expected[i, j, a] = dense(x[r, i, a].item(), y[r, j, a].item(), mu, b, d, e, numbers[r])
        np.testing.assert_allclose(omnibus[r], expected.sum(-1), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(per_axis[r], np.einsum("iia->ia", expected[:, :4]), rtol=1e-10, atol=1e-10)


def test_tends_to_the_point_model_with_ever_more_sources() -> None:
    model = random_model(5, 1, 4)
    g = torch.Generator().manual_seed(2)
    trace, ref = (torch.randn(1, 6, 4, generator=g, dtype=torch.float64) for _ in range(2))
    point = model.ln_lr(trace, ref)
    off = [(integrate_common(model, [n]).ln_lr(trace, ref) - point).abs().max().item() for n in (100, 10_000, 10**8)]
    assert off[0] > 20 * off[1] > 400 * off[2]
    assert off[2] < 1e-4


def test_few_sources_temper_outliers() -> None:
    """A same-source pair that the point model finds impossible."""
    model = identity_model([1.0], [1.0], [100.0])
    pair = row([10.0]), row([-10.0])
    llr = [integrate_common(model, [n]).ln_lr(*pair).item() for n in (10, 351)] + [model.ln_lr(*pair).item()]
    assert llr[2] < llr[1] < llr[0] < 0


@given(st.integers(0, 10_000))
def test_signs_order_and_units_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, mean = (torch.from_numpy(rng.normal(size=(1, 3, 4))) for _ in range(3))
    b, d, e = (torch.from_numpy(np.exp(rng.normal(size=(1, 1, 4)))) for _ in range(3))
    n = torch.full((1, 1, 1), 20.0, dtype=torch.float64)
    expected = CommonVariance(NormalBetween(mean[:, :1], b), n).ln_lr(x, y, d, e)
    order, scale = torch.from_numpy(rng.permutation(4)), torch.from_numpy(rng.choice([-1e3, -1.0, 1.0, 1e-3], 4))
    moved = [(t * f)[..., order] for t, f in [(x, scale), (y, scale), (d, scale**2), (e, scale**2)]]
    law = CommonVariance(NormalBetween((mean[:, :1] * scale)[..., order], (b * scale**2)[..., order]), n)
    torch.testing.assert_close(law.ln_lr(*moved), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("within", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("distance", [1e-3, 1.0, 1e6])
def test_finite_at_extremes(within: float, distance: float) -> None:
    model = integrate_common(identity_model([within] * 2, [3 * within] * 2, [1.0, 2.0]), [1])
    x = distance * torch.tensor([[[1.0, -2.0], [0.0, 0.0], [-3.0, 1.0]]], dtype=torch.float64)
    assert torch.isfinite(model.ln_lr(x, -x)).all()
    assert torch.isfinite(model.ln_lr(x, x)).all()


def test_llr_vanishes_as_the_within_variance_grows() -> None:
    model = integrate_common(identity_model([1e9], [1e9], [1.0]), [351])
    x = torch.linspace(-5, 5, 7, dtype=torch.float64)[None, :, None]
    assert model.ln_lr(x, x).abs().max() < 1e-6


def test_refuses_what_it_cannot_integrate() -> None:
    model = identity_model([1.0], [1.0], [1.0])
    with pytest.raises(ValueError, match="1 or more"):
        integrate_common(model, [0])
    with pytest.raises(ValueError, match="1 runs got 2"):
        integrate_common(model, [5, 5])
    kernels = KernelBetween(row([0.0]), row([1.0]), torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(TypeError, match="normal law"):
        integrate_common(TwoLevel(row([0.0]), row([1.0]), row([1.0]), row([1.0]), kernels), [5])

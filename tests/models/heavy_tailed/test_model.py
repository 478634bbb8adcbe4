"""Heavy-tailed PLDA: its lattice equals fine grids and all instances at once, and it keeps the laws of an LR."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from torch import Tensor

from lindley.llrs import LN10
from lindley.models.between import NormalBetween, Scatter
from lindley.models.heavy_tailed.model import HeavyTailed, scale_lattice
from lindley.models.two_level import TwoLevel, score
from lindley.table.splits import Side

Floats = NDArray[np.float64]


def law(var: list[float] | Floats, nu: float, nu_between: float, mean: float = 0.0) -> HeavyTailed:
    b = torch.as_tensor(np.asarray(var), dtype=torch.float64)[None, None]
    scalar = torch.ones(1, 1, 1, dtype=torch.float64)
    return HeavyTailed(torch.full_like(b, mean), b, nu * scalar, nu_between * scalar)


def draw(between: HeavyTailed, n: int, m: int, seed: int, heavy: bool = True) -> tuple[Tensor, Tensor]:
    """Traces and refs: the first min(n, m) of either are of the same sources."""
    rng = np.random.default_rng(seed)
    p = between.var.shape[-1]

    def scale(nu: Tensor, size: int) -> Floats:
        half = float(nu.reshape(-1)[0]) / 2
        return np.sqrt(half / rng.gamma(half, size=(size, 1))) if heavy else np.ones((size, 1))

    theta = rng.normal(size=(max(n, m), p)) * scale(between.nu_between, max(n, m)) * between.var[0].sqrt().numpy()
    x, y = (theta[:k] + rng.normal(size=(k, p)) * scale(between.nu, k) + between.mean[0].numpy() for k in (n, m))
    return torch.from_numpy(x)[None], torch.from_numpy(y)[None]


def ones(between: HeavyTailed) -> Tensor:
    return torch.ones_like(between.var)


def ln_prior(u: Floats, nu: float) -> Floats:
    """Of ln τ."""
    a = nu / 2
    return a * math.log(a) - gammaln(a) - a * u - a * np.exp(-u)


def on_a_grid(between: HeavyTailed, x: Floats, y: Floats, low: float, high: float, step: float) -> float:
    """ln LR of one pair of vectors by the trapezium rule in all three of ln τ_x, ln τ_y and ln ω, axis by axis."""
    nu, nu_b = float(between.nu), float(between.nu_between)
    b, mean = between.var[0, 0].numpy(), between.mean[0, 0].numpy()
    x, y = x - mean, y - mean
    u = np.arange(low, high, step)
    scale = np.exp(u)
    d, e, w = scale[:, None, None], scale[None, :, None], scale[None, None, :]
    joint = ln_prior(u, nu)[:, None, None] + ln_prior(u, nu)[None, :, None] + ln_prior(u, nu_b)[None, None, :]
    for k in range(len(b)):
        v = w * b[k]
        delta = v * d + v * e + d * e
        joint = joint - 0.5 * ((v * (x[k] - y[k]) ** 2 + e * x[k] ** 2 + d * y[k] ** 2) / delta + np.log(delta))
    alone = []
    for z in (x, y):
        single = ln_prior(u, nu)[:, None] + ln_prior(u, nu_b)[None]
        for k in range(len(b)):
            total = scale[:, None] + scale[None] * b[k]
            single = single - 0.5 * (z[k] ** 2 / total + np.log(total))
        alone.append(logsumexp(single) + 2 * math.log(step))
    return float(logsumexp(joint) + 3 * math.log(step) - alone[0] - alone[1])


def of_instances(between: HeavyTailed, x: Floats, y: Floats, low: float, high: float, step: float) -> float:
    """ln LR of instances (M, axis) and (N, axis): joint covariance matrices of all of them, at every point of a grid."""
    nu, nu_b = float(between.nu), float(between.nu_between)
    u = np.arange(low, high, step)
    b, mean = between.var[0, 0].numpy(), between.mean[0, 0].numpy()

    def ln_density(values: Floats, owner: NDArray[np.intp], items: int) -> float:
        grids = np.meshgrid(*[u] * (items + 1), indexing="ij")
        total = sum(ln_prior(g, nu) for g in grids[:items]) + ln_prior(grids[-1], nu_b)
        tau = np.stack([np.exp(grids[k]) for k in owner], -1)  # (…, instances)
        for k in range(len(b)):
            covariance = tau[..., None] * np.eye(len(owner)) + np.exp(grids[-1])[..., None, None] * b[k]
            v = values[:, k] - mean[k]
            solved = np.linalg.solve(covariance, np.broadcast_to(v[:, None], (*covariance.shape[:-1], 1)))[..., 0]
            total = total - 0.5 * (np.linalg.slogdet(covariance)[1] + solved @ v + len(v) * math.log(2 * math.pi))
        return float(logsumexp(total) + (items + 1) * math.log(step))

    zeros, more = np.zeros(len(x), dtype=np.intp), np.ones(len(y), dtype=np.intp)
    joint = ln_density(np.concatenate([x, y]), np.concatenate([zeros, more]), 2)
    return joint - ln_density(x, zeros, 1) - ln_density(y, 0 * more, 1)


CASES = [
    ([30.0], 3.0, 8.0),
    ([1.0, 50.0, 400.0], 2.0, 4.0),
    ([0.0, 3.0, 1000.0, 10_000.0], 5.0, 30.0),
    (np.geomspace(0.5, 2000, 10), 4.0, 10.0),
    (np.geomspace(0.5, 2000, 10), 30.0, 3.0),
    (np.geomspace(1, 300, 18), 6.0, 100.0),
]


@pytest.mark.parametrize(("var", "nu", "nu_between"), CASES)
def test_ln_lr_equals_a_fine_grid(var: Floats, nu: float, nu_between: float) -> None:
    """To 1e-3 where |log10 LR| < 6, for pairs of one source, of two, and ones that differ a little."""
    between = law(var, nu, nu_between, mean=0.3)
    x, y = draw(between, 5, 5, seed=1)
    near = y[:, :1] + torch.linspace(0, 3, 5, dtype=torch.float64)[None, :, None] * torch.ones_like(y[:, :1])
    x = torch.cat([x, near], 1)
    fast = between.ln_lr(x, y, ones(between), ones(between))[0].numpy()
    checked = 0
    for i in range(x.shape[1]):
        for j in (0, i % 5):
            if abs(fast[i, j]) < 6 * LN10 + 1:
                slow = on_a_grid(
                    between, x[0, i].numpy(), y[0, j].numpy(), *(-6, 14, 0.25) if nu_between < 50 else (-3, 8, 0.11)
                )
                assert fast[i, j] == pytest.approx(slow, abs=1e-3)
                checked += 1
    assert checked >= 5


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 1), (2, 3)])
def test_instances_count_through_their_means_and_scatter(m: int, n: int) -> None:
    between = law([20.0, 3.0], 4.0, 6.0, mean=-0.5)
    model = TwoLevel(
        torch.zeros(1, 1, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)[None], ones(between), ones(between),
        between,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    traces, refs = rng.normal(size=(3, m, 2)) * [4, 1.5], rng.normal(size=(2, n, 2)) * [4, 1.5]
    traces[0] *= 0.1
    refs[0] *= 0.1  # a close pair
    sides = [
        Side(v.reshape(-1, 2), np.repeat(np.arange(len(v)), v.shape[1]), np.arange(len(v)).astype(np.str_))
        for v in (traces, refs)
    ]
    llr = score(model, [sides[0]], [sides[1]])[0]
    for i, j in ((0, 0), (1, 0), (2, 1)):
        slow = of_instances(between, traces[i], refs[j], -5, 11, 0.4) / LN10
        assert llr[i, j] == pytest.approx(slow, abs=5e-4)


def test_scatter_tells_of_the_scale() -> None:
    """Replicates that scatter wildly make a difference between trace and ref less telling."""
    between = law([100.0, 100.0], 4.0, 20.0)
    x, y = torch.tensor([[[3.0, 0.0]]], dtype=torch.float64), torch.zeros(1, 1, 2, dtype=torch.float64)
    half = ones(between) / 2
    calm, wild = (
        between.ln_lr(x, y, half, half, Scatter(k * torch.ones_like(x), k * torch.ones_like(y), 1, 1))
        for k in (0.2, 20.0)
    )
    assert calm.item() < wild.item()


def test_marginal_is_a_density() -> None:
    between = law([5.0], 3.0, 4.0, mean=1.0)
    grid = 1 + torch.sinh(torch.linspace(-12, 12, 20_001, dtype=torch.float64))
    x = grid[None, :, None]
    density = between.ln_marginal(x, ones(between), torch.zeros_like(x), 0).exp()[0]
    assert torch.trapezoid(density, grid).item() == pytest.approx(1.0, abs=1e-5)


def test_parts_are_densities_and_their_difference_the_ln_lr() -> None:
    between = law([5.0], 3.0, 4.0, mean=1.0)
    grid = 1 + torch.sinh(torch.linspace(-12, 12, 4001, dtype=torch.float64))
    y = torch.tensor([[[2.5]]], dtype=torch.float64)
    similarity, typicality = between.ln_parts(grid[None, :, None], y, ones(between), ones(between))
    for part in (similarity, typicality):
        assert torch.trapezoid(part[0, :, 0].exp(), grid).item() == pytest.approx(1.0, abs=1e-3)
    ln_lr = between.ln_lr(grid[None, :, None], y, ones(between), ones(between))
    torch.testing.assert_close(similarity - typicality, ln_lr)


@pytest.mark.parametrize("counts", [(1, 1), (2, 4)])
def test_without_tails_it_is_the_normal_law(counts: tuple[int, int]) -> None:
    between = law(np.geomspace(1, 100, 5), 1e7, 1e7, mean=0.2)
    x, y = draw(between, 6, 5, seed=2, heavy=False)
    d, e = (ones(between) / k for k in counts)
    squares = [torch.rand(1, k, 5, generator=torch.Generator().manual_seed(k), dtype=torch.float64) for k in (6, 5)]
    scatter = Scatter(squares[0], squares[1], counts[0] - 1, counts[1] - 1)
    normal = NormalBetween(between.mean, between.var).ln_lr(x, y, d, e)
    assert normal.abs().max() > 10
    torch.testing.assert_close(between.ln_lr(x, y, d, e, scatter), normal, rtol=1e-3, atol=2e-3)


def test_gradient_equals_differences_of_the_grid() -> None:
    """In x, in b and in ν: what the lattice depends on, its values do not."""
    var, nu, nu_between = np.array([20.0, 3.0]), 4.0, 7.0
    x, y = np.array([1.0, -0.7]), np.array([0.2, 0.4])

    def slow(var: Floats, nu: float, nu_between: float, x: Floats) -> float:
        return on_a_grid(law(var, nu, nu_between), x, y, -6, 14, 0.25)

    between = law(var, nu, nu_between)
    leaves = [between.var, between.nu, between.nu_between, torch.from_numpy(x)[None, None].clone()]
    for leaf in leaves:
        leaf.requires_grad_()
    value = between.ln_lr(leaves[3], torch.from_numpy(y)[None, None], ones(between).detach(), ones(between).detach())
    of_var, of_nu, of_nu_between, of_x = torch.autograd.grad(value.sum(), leaves)
    h = 1e-4
    step = np.array([h, 0.0])
    at = (var, nu, nu_between, x)
    for found, up, down in [
        (of_var[0, 0, 0], (var + step, *at[1:]), (var - step, *at[1:])),
        (of_nu, (var, nu + h, nu_between, x), (var, nu - h, nu_between, x)),
        (of_nu_between, (var, nu, nu_between + h, x), (var, nu, nu_between - h, x)),
        (of_x[0, 0, 0], (var, nu, nu_between, x + step), (var, nu, nu_between, x - step)),
    ]:
        assert float(found) == pytest.approx((slow(*up) - slow(*down)) / (2 * h), abs=2e-3)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(1.5, 50), st.floats(1.5, 50))
def test_signs_order_and_symmetry(seed: int, nu: float, nu_between: float) -> None:
    """Flipping or reordering axes changes nothing; swapping trace and ref transposes, if they are measured alike."""
    between = law([0.5, 4.0, 60.0, 7.0], nu, nu_between)
    x, y = draw(between, 4, 3, seed)
    ln_lr = between.ln_lr(x, y, ones(between), ones(between))
    torch.testing.assert_close(between.ln_lr(y, x, ones(between), ones(between)).mT, ln_lr, rtol=1e-9, atol=1e-9)
    g = np.random.default_rng(seed)
    order, sign = torch.from_numpy(g.permutation(4)), torch.from_numpy(g.choice([-1.0, 1.0], 4))
    moved = HeavyTailed(between.mean, between.var[..., order], between.nu, between.nu_between)
    torch.testing.assert_close(
        moved.ln_lr(x[..., order] * sign, y[..., order] * sign, ones(between), ones(between)),
        ln_lr,
        rtol=1e-9,
        atol=1e-9,
    )


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(1.0, 1000), st.floats(1.0, 1000))
def test_the_lr_of_a_pair_falls_with_its_distance(seed: int, nu: float, nu_between: float) -> None:
    """… around a midpoint that stays, and never below what tails allow: finite at any distance."""
    between = law([40.0, 900.0, 15.0], nu, nu_between)
    middle, _ = draw(between, 1, 1, seed)
    away = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 1, 3)))
    lengths = [0.0, 1.0, 4.0, 16.0, 100.0]
    ln_lr = [between.ln_lr(middle + k * away, middle - k * away, ones(between), ones(between)).item() for k in lengths]
    assert np.isfinite(ln_lr).all()
    assert ln_lr[0] > ln_lr[1] > ln_lr[2]


@pytest.mark.parametrize(
    ("within", "distance", "axes", "nu"),
    [(1e-12, 1.0, 3, 3.0), (1e12, 1.0, 3, 3.0), (1.0, 1e6, 3, 1.0), (1.0, 3.0, 200, 1e3)],
)
def test_finite_at_extremes(within: float, distance: float, axes: int, nu: float) -> None:
    between = law(np.full(axes, 2.0), nu, nu)
    x, y = draw(between, 4, 4, seed=3)
    ln_lr = between.ln_lr(distance * x, distance * y, within * ones(between), within * ones(between))
    assert torch.isfinite(ln_lr).all()


def test_an_axis_without_between_variance() -> None:
    """b = 0 on the only axis: all sources are alike, and one far from the other says nothing of the source."""
    between = law([0.0], 1e6, 5.0)
    x, y = draw(between, 4, 3, seed=4, heavy=False)
    ln_lr = between.ln_lr(x, y, ones(between), ones(between))
    torch.testing.assert_close(ln_lr, torch.zeros_like(ln_lr), rtol=0, atol=1e-3)


def test_runs_do_not_meet_and_given_pairs_are_those_of_the_matrix() -> None:
    laws = [law([5.0, 50.0], 3.0, 9.0, 0.1), law([1.0, 500.0], 12.0, 4.0)]
    both = HeavyTailed(*(torch.cat([getattr(one, f) for one in laws]) for f in ("mean", "var", "nu", "nu_between")))
    data = [draw(one, 4, 4, seed=k) for k, one in enumerate(laws)]
    x, y = (torch.cat([d[k] for d in data]) for k in (0, 1))
    ln_lr = both.ln_lr(x, y, ones(both), ones(both))
    for run, one in enumerate(laws):
        alone = one.ln_lr(x[run : run + 1], y[run : run + 1], ones(one), ones(one))
        torch.testing.assert_close(ln_lr[run : run + 1], alone)
    square = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    model = TwoLevel(torch.zeros_like(ones(both)), square, ones(both), ones(both), both)
    given_pairs = model.ln_lr_given(x, y)
    torch.testing.assert_close(given_pairs, ln_lr.diagonal(dim1=1, dim2=2))
    assert not model.has_axis_shares


@pytest.mark.parametrize("freedom", [(10, 10, 10), (50, 10, 10), (1, 1, 1)])
def test_a_finer_lattice_covers_the_same_range(freedom: tuple[int, int, int]) -> None:
    (coarse, of_coarse), (fine, of_fine) = (scale_lattice((2.0, 2.0, 5.0), freedom, 40.0, t) for t in (1e-3, 1e-6))
    assert of_fine < of_coarse
    assert (fine.min(0) <= coarse.min(0)).all()
    assert (fine.max(0) >= coarse.max(0)).all()
    # Every node stands for the same area.
    assert len(fine) * math.exp(of_fine) == pytest.approx(len(coarse) * math.exp(of_coarse), rel=0.35)


def test_the_lattice_of_three_alike_scales_is_hexagonal() -> None:
    """In the metric of the three logarithms, where differences have covariance [[2, 1], [1, 2]]: six nearest neighbours."""
    nodes, ln_cell = scale_lattice((2.0, 2.0, 2.0), (10, 10, 10), 40.0, 1e-3)
    inner = nodes[np.abs(nodes).sum(1).argmin()]
    metric = np.linalg.inv(np.array([[2.0, 1.0], [1.0, 2.0]]))
    distance = np.sort(np.einsum("ni,ij,nj->n", nodes - inner, metric, nodes - inner))
    np.testing.assert_allclose(distance[1:7], distance[1], rtol=1e-4)
    assert distance[7] > 2 * distance[1]
    assert len(nodes) < 800
    assert ln_cell < 0

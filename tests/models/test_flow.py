"""The flow is one-to-one, knows its determinant, leaves normal sources alone and straightens warped ones."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.models import flow as flow_module
from lindley.models.classical import fit_classical
from lindley.models.flow import BOX, Flow, Law, Replicates, fit_flow
from lindley.models.two_level import score
from lindley.system.storage import from_bytes, to_bytes
from lindley.table.splits import Part

pytest.importorskip("zuko")

Floats = NDArray[np.float64]
SIZES = [1, 2, 5, 20, 60]


def bent(features: int, seed: int = 0, strength: float = 1.0) -> Flow:
    """A flow with random numbers for its network: far from the identity."""
    splines = flow_module._identity(features, seed)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in splines.parameters():
            parameter += strength * torch.randn(parameter.shape, generator=g, dtype=torch.float64)
    rng = np.random.default_rng(seed)
    state = {name: tensor.numpy() for name, tensor in splines.state_dict().items()}
    return Flow(rng.normal(size=features), np.exp(rng.normal(size=features)), tuple(state), tuple(state.values()))


def near_and_far(flow: Flow, seed: int) -> Floats:
    """Values inside the box, on its faces, and far outside."""
    rng = np.random.default_rng(seed)
    size = len(flow.centre)
    x = np.concatenate(
        [2 * rng.normal(size=(30, size)), 50 * rng.normal(size=(10, size)), 1e9 * rng.normal(size=(5, size))]
    )
    x[:3, 0] = (-BOX, BOX, 0)
    result: Floats = x * flow.scale + flow.centre
    return result


def sources(seed: int, n: int, features: int, replicates: int = 2) -> Part:
    """Sources of one two-level normal population, a tenth of the standard deviation being within."""
    mix = np.eye(features) + 0.3 * np.random.default_rng(features).normal(size=(features, features))
    rng = np.random.default_rng((features, seed))
    means = rng.normal(size=(n, 1, features)) @ mix
    values = (means + 0.1 * rng.normal(size=(n, replicates, features)) @ mix).reshape(-1, features)
    names = np.repeat([f"s{i:04d}" for i in range(n)], replicates)
    return Part(values, names, np.arange(len(names)) % replicates == 0)


def warped(part: Part) -> Part:
    """A banana, a skew and a kink of the first three features."""
    a, b, c = part.values[:, :3].T
    return part.with_values(np.c_[np.exp(0.7 * a), b + 0.7 * a**2, np.sinh(1.2 * c), part.values[:, 3:]])


def tlm_cllr(train: Part, test: Part) -> float:
    llr = score(fit_classical([train], "normal"), [test.trace], [test.ref])[0]
    return cllr(LLRs.from_matrix(llr, test.trace.source, test.ref.source))


# The law against the dense form.


def dense_ln_density(values: Tensor, law: Law) -> Tensor:
    """ln p of n instances of one source (n, feature), as one normal vector of n · feature numbers."""
    n, d = values.shape
    between = law.means - law.within / n
    covariance = torch.kron(torch.eye(n).double(), law.within) + torch.kron(torch.ones(n, n).double(), between)
    return torch.distributions.MultivariateNormal(law.mean.repeat(n), covariance).log_prob(values.reshape(n * d))


@pytest.mark.parametrize(("n", "features"), [(1, 2), (2, 1), (2, 3), (5, 4)])
def test_value_and_gradient_of_the_density_equal_the_dense_form(n: int, features: int) -> None:
    part = sources(n + features, 12, features, n)
    rows = Replicates.of(part.source)
    values = torch.from_numpy(part.values).requires_grad_()
    law = Law.fit(values.detach(), rows, Law.of_features(values.detach(), rows), 2)
    fast = law.ln_density(values, rows)
    slow = torch.stack([dense_ln_density(one, law) for one in values.reshape(12, n, features)])
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-9)
    weight = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (a,), (b,) = (torch.autograd.grad((weight * value).sum(), values) for value in (fast, slow))
    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_order_of_rows_changes_nothing_and_counts_may_differ() -> None:
    part = sources(3, 9, 2, 3)
    keep = np.arange(27) % 7 != 2  # sources of one, two and three instances
    order = np.random.default_rng(0).permutation(keep.sum())
    both = []
    for index in (np.flatnonzero(keep), np.flatnonzero(keep)[order]):
        values, rows = torch.from_numpy(part.values[index]), Replicates.of(part.source[index])
        law = Law.fit(values, rows, Law.of_features(values, rows), 2)
        both.append(law.ln_density(values, rows))
    assert set(rows.count.tolist()) == {2.0, 3.0}
    torch.testing.assert_close(both[0], both[1], rtol=1e-10, atol=1e-10)


def test_moments_are_the_likeliest_law() -> None:
    """Which is why the descent need not differentiate it."""
    part = sources(5, 400, 2)
    values, rows = torch.from_numpy(part.values), Replicates.of(part.source)
    law = Law.fit(values, rows, Law.of_features(values, rows), 0)
    leaves = {name: getattr(law, name).clone().requires_grad_() for name in ("mean", "means", "within")}
    value = Law(**leaves).ln_density(values, rows).mean()
    for gradient in torch.autograd.grad(value, list(leaves.values())):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-9)


# The map.


def ln_det_of(flow: Flow, values: Floats) -> Floats:
    """ln |det| of the derivative of the transform at values (rows, feature), (rows,)."""
    with torch.no_grad():
        ln_det = flow_module._bend(flow._splines(), flow._standardised(values))[1]
    return ln_det.numpy() - np.log(flow.scale).sum()


def undone(flow: Flow, values: Floats) -> Floats:
    """The values that the transform sends to these, (rows, feature)."""
    u = torch.from_numpy(values)
    with torch.no_grad():
        inside = u.clamp(-BOX, BOX)
        x = flow._splines()().inv(inside) + (u - inside)
    return x.numpy() * flow.scale + flow.centre


@pytest.mark.parametrize("features", SIZES)
def test_one_to_one_and_finite_also_far_away(features: int) -> None:
    flow = bent(features, features)
    values = near_and_far(flow, 1)
    new, ln_det = flow(values), ln_det_of(flow, values)
    assert np.isfinite(new).all()
    assert np.isfinite(ln_det).all()
    assert np.abs(new - (values - flow.centre) / flow.scale).max() > 0.5
    np.testing.assert_allclose(undone(flow, new), values, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=25)
def test_increasing_along_every_feature(seed: int, features: int) -> None:
    flow = bent(features, seed)
    rng = np.random.default_rng(seed)
    for k in range(features):
        line = np.tile(2 * rng.normal(size=features), (201, 1))
        line[:, k] = np.sort(np.r_[np.linspace(-8, 8, 199), -1e6, 1e6])
        new = flow(line * flow.scale + flow.centre)
        assert (np.diff(new[:, k]) > 0).all()
        np.testing.assert_allclose(new[:, :k], np.broadcast_to(new[:1, :k], (201, k)), rtol=0, atol=1e-12)  # triangular


def test_beyond_the_box_it_is_a_shift() -> None:
    flow = bent(3, 4)
    inside = np.array([[0.3, 0, -1.0]]) * np.ones((4, 1))
    inside[:, 1] = (BOX, 6, 70, 1e6)
    new = flow(inside * flow.scale + flow.centre)
    np.testing.assert_allclose(new[:, 1], inside[:, 1], rtol=1e-9)
    np.testing.assert_allclose(new[:, [0, 2]], new[:1, [0, 2]] * np.ones((4, 1)), rtol=1e-9)


@pytest.mark.parametrize("features", SIZES)
def test_ln_det_is_that_of_autograd(features: int) -> None:
    flow = bent(features, 7)
    values = near_and_far(flow, 2)[[3, 4, 5, 33]]
    splines = flow._splines()

    def one(value: Tensor) -> Tensor:
        scaled = (value - torch.from_numpy(flow.centre)) / torch.from_numpy(flow.scale)
        return flow_module._bend(splines, scaled[None])[0][0]

    for value, ln_det in zip(torch.from_numpy(values), ln_det_of(flow, values), strict=True):
        jacobian = torch.autograd.functional.jacobian(one, value)
        assert float(torch.linalg.slogdet(jacobian).logabsdet) == pytest.approx(ln_det, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("features", SIZES)
def test_the_start_is_the_identity(features: int) -> None:
    splines = flow_module._identity(features, 3)
    x = 3 * torch.randn(40, features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, ln_det = flow_module._bend(splines, x)
    torch.testing.assert_close(u, x, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ln_det, torch.zeros(40).double(), rtol=0, atol=1e-12)


# The fit.


@pytest.mark.parametrize("features", [1, 4])
def test_normal_sources_are_nearly_left_alone(features: int) -> None:
    train, test = sources(1, 300, features), sources(2, 300, features)
    flow = fit_flow(train.values, train.source, seed=0)
    new = flow(test.values)
    straight = np.c_[test.values, np.ones(len(new))]
    rest = new - straight @ np.linalg.lstsq(straight, new, rcond=None)[0]
    assert rest.std() < 0.05
    bent_train, bent_test = (part.with_values(flow(part.values)) for part in (train, test))
    assert tlm_cllr(bent_train, bent_test) < tlm_cllr(train, test) + 0.005


def test_where_no_step_helps_lrs_are_those_without_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "_best_number_of_steps", lambda *_: 0)
    train, test = warped(sources(1, 50, 3)), warped(sources(2, 40, 3))
    flow = fit_flow(train.values, train.source)
    new_train, new_test = (part.with_values(flow(part.values)) for part in (train, test))
    plain = score(fit_classical([train], "normal"), [test.trace], [test.ref])[0]
    behind = score(fit_classical([new_train], "normal"), [new_test.trace], [new_test.ref])[0]
    np.testing.assert_allclose(behind, plain, rtol=1e-8, atol=1e-8)


def test_a_warped_population_is_told_apart_better() -> None:
    train, test = (warped(sources(seed, 400, 3)) for seed in (1, 2))
    flow = fit_flow(train.values, train.source, seed=0)
    new_train, new_test = (part.with_values(flow(part.values)) for part in (train, test))
    assert tlm_cllr(new_train, new_test) < 0.7 * tlm_cllr(train, test)


@pytest.mark.parametrize("features", SIZES)
def test_any_number_of_features(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "STEPS", 30)
    part = sources(features, 40, features)
    flow = fit_flow(np.exp(part.values), part.source, seed=1)
    assert flow(part.values).shape == part.values.shape
    assert np.isfinite(flow(part.values * 1e6)).all()


def test_the_same_seed_gives_the_same_bits_whatever_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "STEPS", 30)
    part = warped(sources(1, 60, 3))
    first = fit_flow(part.values, part.source, seed=5)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.manual_seed(99)
    torch.set_num_threads(threads % 2 + 1)
    try:
        before = torch.get_rng_state()
        second = fit_flow(part.values, part.source, seed=5)
        assert torch.equal(torch.get_rng_state(), before)
        np.testing.assert_array_equal(second(part.values), first(part.values))
        assert torch.get_num_threads() == threads % 2 + 1
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
    assert (fit_flow(part.values, part.source, seed=6)(part.values) != first(part.values)).any()


@pytest.mark.parametrize("features", [1, 4])
def test_pickled_or_stored_it_is_numbers_and_transforms_to_the_same_bits(features: int) -> None:
    flow = bent(features, 2)
    values = near_and_far(flow, 3)
    kinds = {"Flow": Flow}
    stored, _ = from_bytes(to_bytes(flow, "lindley-flow/1", {}, kinds), "a flow", Flow, "lindley-flow/1", kinds)
    for again in (stored, pickle.loads(pickle.dumps(flow))):
        np.testing.assert_array_equal(again(values), flow(values))
        assert all(isinstance(array, np.ndarray) for array in again.arrays)


def test_every_source_counts_the_same() -> None:
    part = sources(1, 30, 2)
    many = np.r_[np.arange(60), np.tile([0, 1], 50)]  # the first source, measured 102 times
    rows = [Replicates.of(part.source), Replicates.of(part.source[many])]
    for a, b in zip(
        flow_module._moments(part.values, rows[0]), flow_module._moments(part.values[many], rows[1]), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_sources_of_one_group_are_held_out_together() -> None:
    group = np.repeat([f"g{i}" for i in range(12)], 5)
    out = flow_module._held_out(group, np.random.default_rng(0)).reshape(12, 5)
    assert (out.all(1) | ~out.any(1)).all()
    assert out[:, 0].sum() == 3


def test_replicates_that_agree_to_the_last_digit() -> None:
    part = sources(1, 40, 3)
    values = part.values.copy()
    values[1::2, 1] = values[::2, 1]
    values[:, 2] = 1.5
    flow = fit_flow(values, part.source)
    assert np.isfinite(flow(values)).all()


def test_too_few_sources_and_values_that_are_none() -> None:
    part = sources(1, 7, 2)
    with pytest.raises(LindleyError, match="8 sources"):
        fit_flow(part.values, part.source)
    with pytest.raises(LindleyError, match="finite"):
        fit_flow(np.full((20, 2), math.nan), np.arange(20))
    with pytest.raises(LindleyError, match="2 features got values of shape"):
        bent(2)(np.zeros((3, 4)))


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_some_instances_at_a_time_are_bent_alike(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = bent(3)
    values = near_and_far(flow, 1)
    whole = flow(values)
    monkeypatch.setattr(flow_module, "ROWS", rows)
    np.testing.assert_allclose(flow(values), whole, rtol=1e-12, atol=1e-12)

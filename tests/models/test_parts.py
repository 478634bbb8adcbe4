"""Similarity and typicality, and several instances: against dense densities of all instances at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from lindley.llrs import LN10
from lindley.models.between import KernelBetween, NormalBetween, Scatter
from lindley.models.neural.integration import VaryingVariance, integrate_common, integrate_varying
from lindley.models.neural.parameters import MixtureBetween
from lindley.models.oracle import ScaleMixture
from lindley.models.two_level import TwoLevel, score
from lindley.table.splits import Part, Side

AXES = 3


def normal_model(seed: int = 0) -> TwoLevel:
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    law = NormalBetween(draw(1, 1, AXES), draw(1, 1, AXES).exp() * 4)
    within = [draw(1, 1, AXES).exp() * 0.3 for _ in range(2)]
    return TwoLevel(draw(1, 1, AXES), draw(1, AXES, AXES), *within, law)


def variants() -> dict[str, TwoLevel]:
    model = normal_model()
    g = torch.Generator().manual_seed(1)
    centres = torch.randn(1, 7, AXES, generator=g, dtype=torch.float64) * 2
    weights = torch.randn(1, 7, generator=g, dtype=torch.float64).log_softmax(1)
    kernel = KernelBetween(centres, torch.full((1, 1, AXES), 0.4, dtype=torch.float64), weights)
    scales = torch.tensor([-1.0, 0.0, 1.5], dtype=torch.float64)
    ln_weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log()
    mixture = MixtureBetween(
        centres[:, :2], centres[:, 2:4].exp(), torch.full((1, 2, AXES), -np.log(2), dtype=torch.float64)
    )
    nodes = torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)[None, :, None].expand(1, 3, AXES)
    varying = VaryingVariance(model.between, nodes, nodes * 1.1, ln_weights[None, :, None].expand(1, 3, AXES))  # type: ignore[arg-type]
    return {
        "normal": model,
        "kernel": replace(model, between=kernel),
        "scale": replace(model, between=ScaleMixture(kernel, scales, ln_weights)),
        "mixture": replace(model, between=mixture),
        "common": integrate_common(model, [20]),
        "varying": replace(model, between=varying),
    }


def sides(m: int, n: int, seed: int = 3) -> tuple[Side, Side]:
    rng = np.random.default_rng(seed)
    made = []
    for count, items in ((m, 4), (n, 5)):
        values = rng.normal(size=(count * items, AXES)) * 1.5
        made.append(Side(values, np.repeat(np.arange(items), count), np.array([f"s{i}" for i in range(items)])))
    return made[0], made[1]


@pytest.mark.parametrize("name", variants())
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3)])
def test_the_lr_is_similarity_over_typicality(name: str, m: int, n: int) -> None:
    model = variants()[name]
    trace, ref = sides(m, n)
    x, y = (torch.from_numpy(side.mean)[None] for side in (trace, ref))
    g = torch.Generator().manual_seed(5)
    squares = [torch.rand(1, k, AXES, generator=g, dtype=torch.float64) for k in (4, 5)]
    scatter = Scatter(squares[0], squares[1], m - 1, n - 1)
    similarity, typicality = model.ln_parts(x, y, m, n, scatter)
    torch.testing.assert_close(similarity - typicality, model.ln_lr(x, y, m, n, scatter), rtol=1e-11, atol=1e-11)
    # What is typical does not depend on the ref.
    torch.testing.assert_close(typicality, typicality[..., :1].expand_as(typicality))
    # A known within variance learns nothing from scatter.
    if not model.between.uses_scatter:
        torch.testing.assert_close(model.ln_lr(x, y, m, n), model.ln_lr(x, y, m, n, scatter))


def test_densities_of_the_normal_model_in_the_features() -> None:
    """p(trace | ref) and p(trace), dense, in the features and not on the axes."""
    model = normal_model()
    trace, ref = sides(2, 3)
    x, y = (torch.from_numpy(side.mean)[None] for side in (trace, ref))
    similarity, typicality = (t[0].numpy() for t in model.ln_parts(x, y, 2, 3))
    back = np.linalg.inv(model.projection[0].numpy())  # axes → features: z = (v − c) P
    law = model.between
    assert isinstance(law, NormalBetween)
    between = back.T @ np.diag(law.var[0, 0].numpy()) @ back
    d, e = (
        back.T @ np.diag(v[0, 0].numpy()) @ back / count
        for v, count in ((model.var_within_trace, 2), (model.var_within_ref, 3))
    )
    mean = model.centre[0, 0].numpy() + law.mean[0, 0].numpy() @ back
    joint = np.block([[between + d, between], [between, between + e]])
    for i, t in enumerate(trace.mean):
        assert typicality[i, 0] == pytest.approx(multivariate_normal(mean, between + d).logpdf(t), abs=1e-9)
        for j, r in enumerate(ref.mean):
            both = multivariate_normal(np.r_[mean, mean], joint).logpdf(np.r_[t, r])
            alone = multivariate_normal(mean, between + e).logpdf(r)
            assert similarity[i, j] == pytest.approx(both - alone, abs=1e-9)


def dense_ln(instances: np.ndarray, var: np.ndarray, mean: float, b: float) -> float:
    """ln N of instances on one axis: variances of their own, and a source mean with variance b that they share."""
    n = len(instances)
    return float(multivariate_normal(np.full(n, mean), np.diag(var) + b).logpdf(instances))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_varying_is_exact_for_any_number_of_instances(m: int, n: int) -> None:
    """All instances at once, every node: on each axis the LR of Eq. 6."""
    model = variants()["varying"]
    law = model.between
    assert isinstance(law, VaryingVariance)
    trace, ref = sides(m, n)
    found = score(model, [trace], [ref])[0] * LN10
    z_t, z_r = (model.project(torch.from_numpy(s.values)[None])[0].numpy() for s in (trace, ref))
    for i in range(4):
        for j in range(5):
            total = 0.0
            for k in range(AXES):
                x, y = z_t[trace.item == i, k], z_r[ref.item == j, k]
                mean, b = float(law.base.mean[0, 0, k]), float(law.base.var[0, 0, k])
                joint, p_x, p_y = [], [], []
                for q in range(3):
                    v_x = np.full(m, float(model.var_within_trace[0, 0, k] * law.scale_trace[0, q, k]))
                    v_y = np.full(n, float(model.var_within_ref[0, 0, k] * law.scale_ref[0, q, k]))
                    w = float(law.ln_weight[0, q, k])
                    joint.append(w + dense_ln(np.r_[x, y], np.r_[v_x, v_y], mean, b))
                    p_x.append(w + dense_ln(x, v_x, mean, b))
                    p_y.append(w + dense_ln(y, v_y, mean, b))
                total += logsumexp(joint) - logsumexp(p_x) - logsumexp(p_y)
            assert found[i, j] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 1), (2, 3)])
def test_a_scale_mixture_is_exact_for_any_number_of_instances(m: int, n: int) -> None:
    model = variants()["scale"]
    law = model.between
    assert isinstance(law, ScaleMixture)
    trace, ref = sides(m, n)
    found = score(model, [trace], [ref])[0] * LN10
    z_t, z_r = (model.project(torch.from_numpy(s.values)[None])[0].numpy() for s in (trace, ref))

    def ln_density(values: np.ndarray, var: np.ndarray) -> float:
        """Instances (n, axis) with variances (n, axis), and a source mean from the kernels."""
        terms = [
            float(w) + sum(dense_ln(values[:, k], var[:, k], float(c[k]), 0.4) for k in range(AXES))
            for c, w in zip(law.base.centres[0], law.base.ln_weights[0], strict=True)
        ]
        return float(logsumexp(terms))

    d, e = (v[0, 0].numpy() for v in (model.var_within_trace, model.var_within_ref))
    for i, j in ((0, 0), (3, 4), (1, 2)):
        x, y = z_t[trace.item == i], z_r[ref.item == j]
        joint, p_x, p_y = [], [], []
        for u, w in zip(law.ln_scales.tolist(), law.ln_weights.tolist(), strict=True):
            v_x, v_y = np.tile(d * np.exp(u), (m, 1)), np.tile(e * np.exp(u), (n, 1))
            joint.append(w + ln_density(np.r_[x, y], np.r_[v_x, v_y]))
            p_x.append(w + ln_density(x, v_x))
            p_y.append(w + ln_density(y, v_y))
        assert found[i, j] == pytest.approx(logsumexp(joint) - logsumexp(p_x) - logsumexp(p_y), abs=1e-9)


def test_gradient_of_the_parts() -> None:
    """Through both densities, with scatter."""
    model = variants()["varying"]
    law = model.between
    assert isinstance(law, VaryingVariance)
    g = torch.Generator().manual_seed(2)
    x, y, s, t = (torch.rand(1, 2, AXES, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(4))

    def both(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return model.ln_parts(x, y, 3, 2, Scatter(s, t, 2, 1))

    assert torch.autograd.gradcheck(both, (x, y, s, t))


def test_two_instances_that_agree_say_more_than_their_mean() -> None:
    """A source that scatters little is known to: a close pair then weighs more, and a distant one less."""
    rng = np.random.default_rng(0)
    source = np.repeat([f"{i:03d}" for i in range(200)], 4)
    tau = rng.gamma(3, size=200) ** -1 * 2
    values = np.repeat(rng.normal(size=(200, AXES)) * 5, 4, axis=0) + rng.normal(size=(800, AXES)) * np.repeat(
        np.sqrt(tau), 4
    ).reshape(-1, 1)
    model = integrate_varying(
        TwoLevel(
            torch.zeros(1, 1, AXES, dtype=torch.float64),
            torch.eye(AXES, dtype=torch.float64)[None],
            torch.ones(1, 1, AXES, dtype=torch.float64),
            torch.ones(1, 1, AXES, dtype=torch.float64),
            NormalBetween(
                torch.zeros(1, 1, AXES, dtype=torch.float64), torch.full((1, 1, AXES), 25.0, dtype=torch.float64)
            ),
        ),
        [Part(values, source, np.tile([True, False, False, False], 200))],
    )
    tight, loose = (
        Side(np.array([[h] * AXES, [-h] * AXES, [h / 2] * AXES, [-h / 2] * AXES]), np.zeros(4, int), np.array(["a"]))
        for h in (0.05, 2.0)
    )
    near, far = (Side(np.full((1, AXES), shift), np.zeros(1, int), np.array(["b"])) for shift in (0.1, 4.0))
    llr = {
        (a, b): score(model, [t], [r])[0].item()
        for a, t in (("tight", tight), ("loose", loose))
        for b, r in (("near", near), ("far", far))
    }
    assert llr["tight", "near"] > llr["loose", "near"]
    assert llr["tight", "far"] < llr["loose", "far"]

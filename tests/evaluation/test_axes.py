"""Per-axis analysis: sums, z-scores and kinds of axes, on models that were made for the purpose."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

from lindley.evaluation import analyse_axes, cllr
from lindley.evaluation.axes import BIAS_SPREAD, NEUTRAL_LLR, AxisAnalysis, classify
from lindley.llrs import LLRs
from lindley.models.between import KernelBetween, NormalBetween
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.neural.parameters import MixtureBetween
from lindley.models.two_level import TwoLevel, score
from lindley.table.splits import Part

AXES = 4
WITHIN, BETWEEN = np.array([1.0, 0.5, 2.0, 1.0]), np.array([50.0, 20.0, 1.0, 3.0])


def row(values: np.ndarray | list[float]) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))[None, None]


def simulated(seed: int, n: int, counts: tuple[tuple[int, int], ...] = ((1, 1),)) -> Part:
    """n sources on four axes; the numbers of trace and ref instances go round in ``counts``."""
    rng = np.random.default_rng(seed)
    values, source, is_trace = [], [], []
    for i in range(n):
        n_trace, n_ref = counts[i % len(counts)]
        mean = rng.normal(size=AXES) * np.sqrt(BETWEEN)
        values.append(mean + rng.normal(size=(n_trace + n_ref, AXES)) * np.sqrt(WITHIN))
        source += [f"{i:04d}"] * (n_trace + n_ref)
        is_trace += [True] * n_trace + [False] * n_ref
    return Part(np.concatenate(values), np.array(source), np.array(is_trace))


def true_model(trace: np.ndarray = WITHIN, ref: np.ndarray = WITHIN, between: np.ndarray = BETWEEN) -> TwoLevel:
    zero = torch.zeros(1, 1, AXES, dtype=torch.float64)
    law = NormalBetween(zero, row(between))
    return TwoLevel(zero, torch.eye(AXES, dtype=torch.float64)[None], row(trace), row(ref), law)


def variant(name: str, part: Part) -> TwoLevel:
    model = true_model(trace=2 * WITHIN)
    if name == "common":
        return integrate_common(model, [30])
    if name == "varying":
        return integrate_varying(model, [part])
    if name == "mixture":
        g = torch.Generator().manual_seed(0)
        means, var, w = (torch.randn(1, 3, AXES, generator=g, dtype=torch.float64) for _ in range(3))
        return replace(model, between=MixtureBetween(3 * means, 5 * var.exp(), w.log_softmax(1)))
    return model


@pytest.mark.parametrize("name", ["normal", "mixture", "common", "varying"])
def test_axes_sum_to_the_omnibus(name: str) -> None:
    """Every law, with unequal numbers of instances, and one source that has no ref."""
    part = simulated(1, 40, ((1, 1), (2, 1), (1, 3), (2, 2)))
    lonely = Part(part.values, part.source, part.is_trace | (part.source == "0003"))
    model = variant(name, part)
    found = analyse_axes(model, lonely, most_different=None)
    (matrix,) = score(model, [lonely.trace], [lonely.ref])
    expected = LLRs.from_matrix(matrix, lonely.trace.source, lonely.ref.source)
    assert found.same.shape == (39, AXES)
    assert found.different.shape == (40 * 39 - 39, AXES)
    np.testing.assert_allclose(found.omnibus.same, expected.same, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.omnibus.different, expected.different, rtol=0, atol=1e-9)
    assert found.cllr == pytest.approx([cllr(found.llrs(axis)) for axis in range(AXES)])
    assert np.isfinite(found.z_h1).all()
    assert found.z_h2.shape == (40, AXES)


def test_a_subset_is_random_seeded_and_of_different_sources_only() -> None:
    part, model = simulated(2, 60), true_model()
    everything = analyse_axes(model, part, most_different=None)
    some = analyse_axes(model, part, most_different=200, seed=3)
    assert some.different.shape == (200, AXES)
    np.testing.assert_array_equal(some.same, everything.same)
    known = {tuple(llr) for llr in everything.different}
    assert len({tuple(llr) for llr in some.different} & known) == 200  # each one of them, none twice
    np.testing.assert_array_equal(some.different, analyse_axes(model, part, most_different=200, seed=3).different)
    assert not np.array_equal(some.different, analyse_axes(model, part, most_different=200, seed=4).different)
    assert len(analyse_axes(model, part, most_different=10**6).different) == 60 * 59


def test_z_scores_by_their_definition() -> None:
    """Eqs. 4 and 5 written out, with the variances of trace and ref, M and N, a centre and a projection."""
    part = simulated(3, 12, ((1, 1), (2, 1), (1, 3)))
    rng = np.random.default_rng(0)
    projection, centre, mu = rng.normal(size=(AXES, AXES)), rng.normal(size=AXES), rng.normal(size=AXES)
    law = NormalBetween(row(mu), row(BETWEEN))
    model = TwoLevel(row(centre), torch.from_numpy(projection)[None], row(3 * WITHIN), row(WITHIN), law)
    found = analyse_axes(model, part)
    for i, name in enumerate(np.unique(part.source)):
        own = part.source == name
        traces, refs = part.values[own & part.is_trace], part.values[own & ~part.is_trace]
        x, y = ((rows.mean(axis=0) - centre) @ projection for rows in (traces, refs))
        np.testing.assert_allclose(found.z_h1[i], (x - y) / np.sqrt(3 * WITHIN / len(traces) + WITHIN / len(refs)))
        np.testing.assert_allclose(found.z_h2[i], (x - mu) / np.sqrt(3 * WITHIN / len(traces) + BETWEEN))


def test_a_mixture_enters_with_its_mean_and_variance() -> None:
    part = simulated(4, 10)
    means, weight, var = np.array([-2.0, 5.0]), np.array([0.3, 0.7]), np.array([1.0, 4.0])
    mu = weight @ means
    total = weight @ (var + means**2) - mu**2
    components = [torch.tensor(v)[None, :, None].expand(1, 2, AXES) for v in (means, var, np.log(weight))]
    found = analyse_axes(replace(true_model(), between=MixtureBetween(*components)), part)
    np.testing.assert_allclose(found.z_h2, (part.trace.mean - mu) / np.sqrt(WITHIN + total))


def test_true_models_have_standard_normal_scores() -> None:
    found = analyse_axes(true_model(), simulated(5, 2000, ((1, 1), (2, 3))), most_different=100)
    for z in (found.z_h1, found.z_h2):
        assert all(stats.kstest(column, "norm").pvalue > 0.005 for column in z.T)
    for qq in (found.qq_h1, found.qq_h2):
        middle = slice(20, -20)
        np.testing.assert_allclose(qq.z[middle], np.tile(qq.quantile[middle, None], AXES), atol=0.35)
    blown_up = analyse_axes(true_model(trace=100 * WITHIN, ref=100 * WITHIN), simulated(5, 500), most_different=100)
    assert [entry["z_h1_rms"] for entry in blown_up.summary()] == pytest.approx([0.1] * AXES, rel=0.1)  # slope


def test_qq_uses_the_middle_of_every_rank() -> None:
    z = np.array([[3.0], [-1.0], [2.0]])
    qq = AxisAnalysis(z, z, z, z).qq_h1
    np.testing.assert_allclose(qq.quantile, stats.norm.ppf([1 / 6, 1 / 2, 5 / 6]), atol=1e-12)
    np.testing.assert_array_equal(qq.z[:, 0], [-1.0, 2.0, 3.0])


def test_kinds_of_axes_of_a_constructed_model() -> None:
    """One axis left as it is, one silenced by a huge within variance, a bias axis, and one that knows too little.

    LLRs shift by a constant where within and between variances are both blown up, and the data are tiny beside them.
    """
    trace = np.array([1.0, 1e6, 1e6, 0.002])
    between = np.array([50.0, 20.0, 1e6, 0.002])
    found = analyse_axes(true_model(trace, trace, between), simulated(6, 300))
    assert found.kinds[:3] == ("discriminating", "neutral", "bias")
    constant = 0.5 * np.log10((2 * 2) / 3)  # ½ log10 (b+d)(b+e)/Δ with b = d = e
    np.testing.assert_allclose(found.same[:, 2], constant, atol=1e-3)
    np.testing.assert_allclose(found.different[:, 2], constant, atol=1e-3)
    assert found.cllr[0] < 0.6
    assert found.cllr[1] == pytest.approx(1, abs=1e-3)
    assert found.cllr[2] > 1
    assert found.cllr[3] > 1.5  # far too sure of itself


@pytest.mark.parametrize(
    ("same", "different", "kind"),
    [
        ((0.0, 0.01), (0.0, 0.01), "neutral"),
        ((-0.4, 0.01), (-0.4, 0.01), "bias"),
        ((0.3, 0.01), (0.3, 0.01), "bias"),
        ((1.0, 0.3), (-1.0, 0.8), "discriminating"),
        ((-2.0, 0.3), (-4.0, 0.8), "discriminating"),  # and a shift, which does not hide it
        ((0.0, 1.0), (0.0, 1.0), "mixed"),
        ((-1.0, 0.3), (1.0, 0.3), "mixed"),  # the wrong way round
        ((0.1, 0.5), (0.0, 0.5), "mixed"),
        ((0.0, 0.01), (0.0, 0.5), "mixed"),
    ],
)
def test_kinds_by_their_histograms(same: tuple[float, float], different: tuple[float, float], kind: str) -> None:
    rng = np.random.default_rng(0)
    llrs = LLRs(rng.normal(*same, 300), rng.normal(*different, 5000))
    assert classify(llrs) == kind
    outliers = LLRs(np.append(llrs.same, [-30.0] * 3), np.append(llrs.different, [20.0] * 50))
    assert classify(outliers) == kind


@given(st.floats(-3, 3), st.integers(0, 100))
def test_a_constant_axis_is_neutral_or_bias(shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    llrs = LLRs(*(shift + 0.3 * BIAS_SPREAD * (rng.random(n) - 0.5) for n in (50, 200)))
    near, far = abs(shift) + 0.15 * BIAS_SPREAD, abs(shift) - 0.15 * BIAS_SPREAD
    if near < NEUTRAL_LLR:
        assert classify(llrs) == "neutral"
    if far > NEUTRAL_LLR:
        assert classify(llrs) == "bias"


def test_summary_is_plain_json() -> None:
    found = analyse_axes(true_model(), simulated(7, 50))
    summary = found.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert [entry["axis"] for entry in summary] == [0, 1, 2, 3]
    assert summary[0]["kind"] == found.kinds[0] == "discriminating"
    assert summary[1]["cllr"] == found.cllr[1] >= summary[1]["cllr_min"]
    assert summary[2]["llr_same_median"] == pytest.approx(np.median(found.same[:, 2]))
    assert summary[2]["llr_different_low"] == pytest.approx(np.quantile(found.different[:, 2], 0.05))


def test_one_run_among_several() -> None:
    part, one = simulated(8, 30), true_model()
    for single in (one, integrate_common(one, [10])):
        several = single.map(lambda t: torch.cat([5 * t, t, 2 * t]))
        found, expected = analyse_axes(several, part, run=1), analyse_axes(single, part)
        for name in ("same", "different", "z_h1", "z_h2"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert not np.array_equal(analyse_axes(several, part, run=2).same, expected.same)
    with pytest.raises(ValueError, match="3 runs"):
        analyse_axes(several, part)
    with pytest.raises(ValueError, match="no run 3"):
        analyse_axes(several, part, run=3)


def test_float32_models_are_analysed_in_float64() -> None:
    part, model = simulated(9, 30), true_model()
    found, expected = analyse_axes(model.map(lambda t: t.float()), part), analyse_axes(model, part)
    assert found.same.dtype == np.float64
    np.testing.assert_allclose(found.same, expected.same, rtol=1e-5, atol=1e-5)


def test_refuses_laws_without_axes_and_parts_without_pairs() -> None:
    part, model = simulated(10, 10), true_model()
    assert isinstance(model.between, NormalBetween)
    kernels = KernelBetween(model.between.mean, model.between.var, torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(TypeError, match="KernelBetween does not factor"):
        analyse_axes(replace(model, between=kernels), part)


def test_importing_evaluation_does_not_load_torch() -> None:
    code = "import sys, lindley.evaluation, lindley.evaluation.axes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

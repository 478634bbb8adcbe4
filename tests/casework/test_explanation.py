"""Laws of explanations: parts that sum, directions that make sense, and a dense computation that agrees."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from lindley.models.between import KernelBetween, NormalBetween
from lindley.models.oracle import ScaleMixture
from lindley.system.system import System
from tests.casework.factory import FEATURES, Floats, items, system

MODELS = ["tlm", "tlm-kde", "tlm-kde+logistic", "ntlm-double-pairs-n2", "ntlm-single-pairs-n1-varying"]
SIZES = [(1, 1), (1, 3), (2, 2), (4, 1)]


def dense(fitted: System, trace: Floats, ref: Floats) -> float:
    """log10 LR from the joint normal density of all instances, kernel by kernel: no means, no matrix products."""
    model = fitted.point
    between = model.between
    assert isinstance(between, KernelBetween | NormalBetween)
    z = [((fitted.scaling(v) - model.centre[0].numpy()) @ model.projection[0].numpy()) for v in (trace, ref)]
    var = [v[0, 0].numpy() for v in (model.var_within_trace, model.var_within_ref)]
    if isinstance(between, KernelBetween):
        centres, b, weights = between.centres[0].numpy(), between.var[0, 0].numpy(), between.ln_weights[0].numpy()
    else:
        centres, b, weights = between.mean[0].numpy(), between.var[0, 0].numpy(), np.zeros(1)

    def ln_density(sides: list[int]) -> float:
        terms = []
        for centre, weight in zip(centres, weights, strict=True):
            total = weight
            for axis in range(len(b)):
                values = np.concatenate([z[side][:, axis] for side in sides])
                noise = np.concatenate([np.full(len(z[side]), var[side][axis]) for side in sides])
                covariance = b[axis] + np.diag(noise)
                total += multivariate_normal(np.full(len(values), centre[axis]), covariance).logpdf(values)
            terms.append(total)
        return float(logsumexp(terms))

    return (ln_density([0, 1]) - ln_density([0]) - ln_density([1])) / math.log(10)


@pytest.mark.parametrize("model", ["tlm", "tlm-kde", "ntlm-double-pairs-n2"])
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_any_m_and_n_are_exact(model: str, m: int, n: int) -> None:
    fitted = system(model)
    a, b = items(m + 10 * n, 2, m + n)
    for trace, ref in ((a[:m], a[m:]), (a[:m], b[m:])):
        assert fitted.llr(trace, ref) == pytest.approx(dense(fitted, trace, ref), abs=1e-8, rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_the_parts_sum(model: str, m: int, n: int) -> None:
    fitted = system(model)
    a, b = items(m + 10 * n, 2, m + n)
    for trace, ref in ((a[:m], a[m:]), (a[:m], b[m:])):
        said = fitted.explain(trace, ref)
        assert said.log10_lr == pytest.approx(fitted.llr(trace, ref), abs=1e-9)
        assert said.log10_similarity - said.log10_typicality == pytest.approx(said.log10_lr_model, abs=1e-8)
        assert sum(f.log10_lr for f in said.features) == pytest.approx(said.log10_lr_model, abs=1e-8)
        assert sum(x.log10_lr for x in said.axes) == pytest.approx(said.log10_lr_model, abs=1e-8)
        for f in said.features:
            assert f.match + f.rarity + f.difference == pytest.approx(f.log10_lr, abs=1e-12)
        assert (said.bounds, said.bounds_of) == fitted.bounds_for(m, n)
        assert said.log10_lr_bounded == np.clip(said.log10_lr, *said.bounds)
        assert said.calibrated == ("+" in model)
        assert (said.log10_lr == said.log10_lr_model) or said.calibrated
        assert (said.n_trace, said.n_ref) == (m, n)
        assert [f.feature for f in said.features] == list(FEATURES)
        assert said.interval is not None
        assert said.interval.lower <= said.interval.upper


@pytest.mark.parametrize("model", ["tlm", "tlm-kde", "ntlm-single-pairs-n1-varying"])
def test_trace_and_ref_may_change_places(model: str) -> None:
    """One within variance, as many instances on each side."""
    fitted = system(model)
    a, b = items(7, 2, 2)
    there, back = fitted.explain(a, b), fitted.explain(b, a)
    assert there.log10_lr == pytest.approx(back.log10_lr, abs=1e-9)
    for x, y in zip(there.features, back.features, strict=True):
        assert (x.match, x.rarity, x.difference) == pytest.approx((y.match, y.rarity, y.difference), abs=1e-7)


@given(st.integers(0, 30), st.sampled_from(["tlm", "tlm-kde"]))
def test_moving_the_trace_away_lowers_the_lr_and_its_difference(seed: int, model: str) -> None:
    fitted = system(model)
    ref = items(seed, 1, 2)[0]
    direction = np.random.default_rng(seed).normal(size=4)
    direction /= np.linalg.norm(direction)
    said = [fitted.explain(ref + distance * direction, ref) for distance in (0.0, 0.3, 0.8, 2.0)]
    llrs = [s.log10_lr for s in said]
    differences = [sum(f.difference for f in s.features) for s in said]
    assert llrs == sorted(llrs, reverse=True)
    assert differences == sorted(differences, reverse=True)
    assert differences[0] == pytest.approx(0, abs=1e-9)


def test_a_rarer_match_raises_rarity() -> None:
    fitted = system("tlm")
    centre = fitted.scaling.undo(fitted.population.means.mean(axis=0))
    out = fitted.scaling.undo(fitted.population.means.mean(axis=0) + np.array([1.0, 0, 0, 0])) - centre
    said = [fitted.explain(centre + k * out, centre + k * out) for k in (0.0, 1.0, 2.0, 3.0)]
    rarity = [sum(f.rarity for f in s.features) for s in said]
    assert rarity == sorted(rarity)
    assert rarity[0] == pytest.approx(0, abs=1e-9)
    assert [s.log10_lr for s in said] == sorted(s.log10_lr for s in said)
    matches = [sum(f.match for f in s.features) for s in said]
    assert matches == pytest.approx([matches[0]] * 4)


def test_instances_that_agree_make_it_surer() -> None:
    """More of the same measurements: a same-source LR grows."""
    fitted = system("tlm")
    a = items(3, 1, 1)[0]
    llrs = [fitted.llr(np.repeat(a, n, axis=0), np.repeat(a, n, axis=0)) for n in (1, 2, 4, 8)]
    assert llrs == sorted(llrs)


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_is_its_cases(model: str) -> None:
    fitted = system(model)
    traces = [item[: 1 + k % 3] for k, item in enumerate(items(20, 7, 3))]
    refs = [item[: 1 + k % 2] for k, item in enumerate(items(21, 5, 3))]
    matrix = fitted.llr_matrix(traces, refs)
    assert matrix.shape == (7, 5)
    for i, trace in enumerate(traces):
        for j, ref in enumerate(refs):
            assert matrix[i, j] == pytest.approx(fitted.llr(trace, ref), abs=1e-9, rel=1e-11)


def test_a_heavy_tail_shared_by_all_axes_is_explained_too() -> None:
    """A law that does not factor over axes, and learns from the scatter of instances."""
    fitted = system("tlm-kde")
    nodes = torch.tensor([-0.5, 0.0, 0.7], dtype=torch.float64)
    between = ScaleMixture(fitted.model.between, nodes, torch.full_like(nodes, -math.log(3)))  # type: ignore[arg-type]
    heavy = replace(fitted, model=replace(fitted.model, between=between))
    a = items(5, 1, 5)[0]
    said = heavy.explain(a[:2], a[2:])
    assert said.log10_lr == pytest.approx(heavy.llr(a[:2], a[2:]), abs=1e-9)
    assert said.log10_similarity - said.log10_typicality == pytest.approx(said.log10_lr, abs=1e-8)
    assert sum(f.log10_lr for f in said.features) == pytest.approx(said.log10_lr, abs=1e-8)


def test_percentiles_and_values_are_those_of_the_features() -> None:
    fitted = system()
    trace, ref = items(9, 1, 3)[0][:1], items(9, 1, 3)[0][1:]
    means = fitted.scaling.undo(fitted.population.means)
    for k, f in enumerate(fitted.explain(trace, ref).features):
        assert (f.trace, f.ref) == pytest.approx((trace[0, k], ref[:, k].mean()))
        assert f.trace_percentile == pytest.approx(100 * np.mean(means[:, k] < trace[0, k]))


def test_without_replicates_there_is_no_interval() -> None:
    from lindley.system.train import train
    from tests.casework.factory import table

    fitted = train(table(), "tlm", replicates=0)
    assert fitted.runs == 1
    assert fitted.explain(*items(1, 2, 1)).interval is None

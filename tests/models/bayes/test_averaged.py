"""An average of models is a mixture of their densities: against dense ones, and the laws it must keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from torch import Tensor

from lindley.llrs import LN10
from lindley.models.bayes import averaged
from lindley.models.bayes.averaged import Averaged
from lindley.models.between import NormalBetween, Scatter
from lindley.models.neural.parameters import MixtureBetween
from lindley.models.pairs import score_pairs
from lindley.models.two_level import TwoLevel, item_scatter, item_squares, score, take_runs
from lindley.system.storage import from_bytes, stored_classes, to_bytes
from lindley.table.splits import Side
from tests.models.robust import simulate as robust

Floats = NDArray[np.float64]
AXES, RUNS = 3, 2


def two_level(seed: int, runs: int = RUNS) -> TwoLevel:
    """A model of its own in everything, with variances for trace and ref that differ."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    between = NormalBetween(normal(runs, 1, AXES), normal(runs, 1, AXES).exp() * 4)
    within = [0.5 * normal(runs, 1, AXES).exp() for _ in range(2)]
    projection = torch.eye(AXES, dtype=torch.float64) + 0.4 * normal(runs, AXES, AXES)
    return TwoLevel(0.3 * normal(runs, 1, AXES), projection, *within, between)


def average(members: list[TwoLevel], typical: TwoLevel | None = None) -> Averaged:
    """With equal weights."""
    ln_weights = torch.zeros(len((typical or members[0]).centre), len(members)).double().log_softmax(1)
    return Averaged(members[0] if typical is None else typical, tuple(members), ln_weights)


def mixture(size: int = 4, runs: int = RUNS, seed: int = 0) -> Averaged:
    g = torch.Generator().manual_seed(seed)
    ln_weights = torch.randn(runs, size, generator=g, dtype=torch.float64).log_softmax(1)
    members = tuple(two_level(100 * seed + k, runs) for k in range(1, size + 1))
    return Averaged(two_level(100 * seed, runs), members, ln_weights)


def sides(m: int, n: int, runs: int = RUNS, scale: float = 1.5, seed: int = 3) -> tuple[list[Side], list[Side]]:
    rng = np.random.default_rng(seed)
    made = [
        [
            Side(
                rng.normal(size=(count * items, AXES)) * scale,
                np.repeat(np.arange(items), count),
                np.array([f"s{i}" for i in range(items)]),
            )
            for _ in range(runs)
        ]
        for count, items in ((m, 3), (n, 4))
    ]
    return made[0], made[1]


def tensors(these: list[Side]) -> Tensor:
    return torch.from_numpy(np.stack([side.mean for side in these]))


def scatter_of(model: Averaged, trace: list[Side], ref: list[Side], m: int, n: int) -> Scatter:
    of_x, of_y = (
        torch.stack([item_scatter(take_runs(model, [run]), s, np.arange(len(s.source))) for run, s in enumerate(these)])
        for these in (trace, ref)
    )
    return Scatter(of_x, of_y, m - 1, n - 1)


# The dense forms: all instances at once, in the features.


def dense_ln(member: TwoLevel, run: int, trace: Floats, ref: Floats) -> float:
    """ln of the density of all instances (rows, feature) of one source, the first of them a trace's, the others a ref's."""
    back = np.linalg.inv(member.projection[run].numpy())
    law = member.between
    assert isinstance(law, NormalBetween)
    mean = member.centre[run, 0].numpy() + law.mean[run, 0].numpy() @ back
    between, of_trace, of_ref = (
        back.T @ np.diag(v[run, 0].numpy()) @ back for v in (law.var, member.var_within_trace, member.var_within_ref)
    )
    n = len(trace) + len(ref)
    covariance = np.kron(np.ones((n, n)), between)
    for i in range(n):
        block = slice(i * AXES, (i + 1) * AXES)
        covariance[block, block] += of_trace if i < len(trace) else of_ref
    return float(multivariate_normal(np.tile(mean, n), covariance).logpdf(np.concatenate([trace, ref]).reshape(-1)))


NONE = np.empty((0, AXES))


def dense_parts(model: Averaged, run: int, x: Floats, y: Floats) -> tuple[float, float, float]:
    """ln p(x, y | H1), ln p(x, y | H2) and ln p(y) of instances (rows, feature)."""
    weights = model.ln_weights[run].tolist()
    same, different, alone = [], [], []
    for member, w in zip(model.members, weights, strict=True):
        ln_x, ln_y = dense_ln(member, run, x, NONE), dense_ln(member, run, NONE, y)
        same.append(w + dense_ln(member, run, x, y))
        different.append(w + ln_x + ln_y)
        alone.append(w + ln_y)
    return float(logsumexp(same)), float(logsumexp(different)), float(logsumexp(alone))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 1)])
def test_the_lr_is_that_of_the_mixture_of_all_instances(m: int, n: int) -> None:
    model = mixture()
    trace, ref = sides(m, n)
    found = score(model, trace, ref)
    for run in range(RUNS):
        for i in range(3):
            for j in range(4):
                x, y = (s.values[s.item == k] for s, k in ((trace[run], i), (ref[run], j)))
                same, different, _ = dense_parts(model, run, x, y)
                assert found[run][i, j] * LN10 == pytest.approx(same - different, abs=1e-8)


def test_similarity_and_typicality_are_densities_of_the_trace() -> None:
    model = mixture()
    trace, ref = sides(1, 1)
    similarity, typicality = model.ln_parts(tensors(trace), tensors(ref))
    for run, i, j in ((0, 0, 0), (1, 2, 3)):
        same, different, alone = dense_parts(model, run, trace[run].values[[i]], ref[run].values[[j]])
        assert float(similarity[run, i, j]) == pytest.approx(same - alone, abs=1e-8)
        assert float(typicality[run, i, j]) == pytest.approx(different - alone, abs=1e-8)


def test_with_scatter_they_are_densities_of_mean_and_contrasts() -> None:
    """Of two instances: their mean and their difference over √2."""
    model = mixture()
    trace, ref = sides(2, 1)
    similarity, typicality = model.ln_parts(tensors(trace), tensors(ref), 2, 1, scatter_of(model, trace, ref, 2, 1))
    for run, i, j in ((0, 0, 0), (1, 2, 3)):
        x, y = trace[run].values[trace[run].item == i], ref[run].values[[j]]
        same, different, alone = dense_parts(model, run, x, y)
        # dx₁ dx₂ = 2^(p/2) d(mean) d(contrast)
        ln_volume = AXES / 2 * np.log(2)
        assert float(similarity[run, i, j]) == pytest.approx(same - alone + ln_volume, abs=1e-8)
        assert float(typicality[run, i, j]) == pytest.approx(different - alone + ln_volume, abs=1e-8)


# Laws.


def test_an_average_of_equals_is_the_model_itself() -> None:
    member = two_level(1)
    model = average([member] * 5)
    trace, ref = (tensors(these) for these in sides(1, 1, scale=0.7))
    torch.testing.assert_close(model.ln_lr(trace, ref, 2, 3), member.ln_lr(trace, ref, 2, 3), rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(model.ln_parts(trace, ref), member.ln_parts(trace, ref), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    a, b = sides(2, 3)  # a known within variance learns nothing from scatter
    np.testing.assert_allclose(score(model, a, b), score(member, a, b), rtol=1e-9, atol=1e-9)


def test_the_order_of_the_members_does_not_matter() -> None:
    model = mixture()
    order = [2, 0, 3, 1]
    turned = replace(model, members=tuple(model.members[k] for k in order), ln_weights=model.ln_weights[:, order])
    trace, ref = sides(2, 3)
    np.testing.assert_allclose(score(turned, trace, ref), score(model, trace, ref), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("typical", [1, 7, 11])
def test_the_axes_that_are_shown_have_no_part_in_the_lr(typical: int) -> None:
    model = mixture()
    trace, ref = sides(2, 3)
    other = replace(model, typical=two_level(typical))
    np.testing.assert_allclose(score(other, trace, ref), score(model, trace, ref), rtol=1e-8, atol=1e-8)
    for shown in (other, two_level(typical)):
        torch.testing.assert_close(shown.project(tensors(trace)), other.project(tensors(trace)))
        torch.testing.assert_close(shown.var_within_ref, other.var_within_ref)
        torch.testing.assert_close(shown.between_moments()[1], other.between_moments()[1])


def test_a_member_of_no_weight_is_not_there() -> None:
    model = mixture()
    ln_weights = model.ln_weights.clone()
    ln_weights[:, 1] = -torch.inf
    keep = [0, 2, 3]
    fewer = replace(model, members=tuple(model.members[k] for k in keep), ln_weights=ln_weights[:, keep])
    trace, ref = sides(2, 1)
    without = score(replace(model, ln_weights=ln_weights), trace, ref)
    assert np.isfinite(without).all()
    np.testing.assert_allclose(without, score(fewer, trace, ref), rtol=1e-10, atol=1e-10)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_linear_maps_of_the_features_change_nothing(seed: int) -> None:
    """All densities get the same factor, whichever member they are of."""
    model = mixture(seed=seed % 7)
    rng = np.random.default_rng(seed)
    matrix = np.linalg.qr(rng.normal(size=(AXES, AXES)))[0] * np.exp(rng.normal(size=AXES))
    forth, back = torch.from_numpy(matrix), torch.from_numpy(np.linalg.inv(matrix))

    def mapped(m: TwoLevel) -> TwoLevel:
        return replace(m, centre=m.centre @ forth, projection=back @ m.projection)

    other = Averaged(
        mapped(model.typical),  # type: ignore[arg-type]
        tuple(mapped(m) for m in model.members),  # type: ignore[arg-type]
        model.ln_weights,
    )
    trace, ref = sides(2, 1, seed=seed)
    moved = [[Side(s.values @ matrix, s.item, s.source) for s in these] for these in (trace, ref)]
    np.testing.assert_allclose(score(other, *moved), score(model, trace, ref), rtol=1e-7, atol=1e-7)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_trace_and_ref_may_change_places(seed: int) -> None:
    model = mixture(seed=seed % 5)

    def swapped(m: TwoLevel) -> TwoLevel:
        return replace(m, var_within_trace=m.var_within_ref, var_within_ref=m.var_within_trace)

    other = replace(model, members=tuple(swapped(m) for m in model.members))  # type: ignore[arg-type]
    trace, ref = sides(2, 3, seed=seed)
    for one, two in zip(score(model, trace, ref), score(other, ref, trace), strict=True):
        np.testing.assert_allclose(one, two.T, rtol=1e-9, atol=1e-9)


def test_densities_are_averaged_and_not_llrs() -> None:
    """Two members that differ in the within variance alone: the narrow one finds a distant pair impossible.

    Its LLR would drag the mean of LLRs down; as a density, it leaves the word to the other.
    """
    wide = TwoLevel(
        torch.zeros(1, 1, 1, dtype=torch.float64),
        torch.ones(1, 1, 1, dtype=torch.float64),
        torch.ones(1, 1, 1, dtype=torch.float64),
        torch.ones(1, 1, 1, dtype=torch.float64),
        NormalBetween(torch.zeros(1, 1, 1, dtype=torch.float64), torch.full((1, 1, 1), 25.0, dtype=torch.float64)),
    )
    small = torch.full_like(wide.var_within_trace, 0.01)
    narrow = replace(wide, var_within_trace=small, var_within_ref=small)
    trace, ref = torch.tensor([[[-1.5]]], dtype=torch.float64), torch.tensor([[[1.5]]], dtype=torch.float64)
    alone = [float(m.ln_lr(trace, ref)) for m in (wide, narrow)]
    together = float(average([wide, narrow]).ln_lr(trace, ref))
    assert alone[1] < -100
    assert together == pytest.approx(alone[0] - np.log(2), abs=0.1)


def test_instances_that_scatter_choose_the_member() -> None:
    """Means alone leave it open which member is right; replicates that lie far apart say that it is the wide one."""
    model = mixture()
    trace, ref = sides(3, 2)
    x, y = tensors(trace), tensors(ref)
    scatter = scatter_of(model, trace, ref, 3, 2)
    from_score = torch.from_numpy(np.stack(score(model, trace, ref))) * LN10
    torch.testing.assert_close(model.ln_lr(x, y, 3, 2, scatter), from_score, rtol=1e-10, atol=1e-10)
    assert float((model.ln_lr(x, y, 3, 2) - from_score).abs().max()) > 0.1


def test_given_pairs_are_those_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.models.two_level.BLOCK_DIAGONAL", 2)
    model = mixture()
    trace, ref = sides(2, 3)
    x, y = tensors(trace), tensors(ref)[:, :3]
    scatter = scatter_of(model, trace, ref, 2, 3)
    scatter = replace(scatter, ref=scatter.ref[:, :3])
    expected = model.ln_lr(x, y, 2, 3, scatter).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(model.ln_lr_given(x, y, 2, 3, scatter), expected, rtol=1e-11, atol=1e-11)
    assert model.ln_lr_given(x[:, :0], y[:, :0]).shape == (RUNS, 0)


def test_pairs_one_by_one() -> None:
    model = mixture(runs=1)
    trace, ref = sides(1, 1, 1)
    i, j = np.array([0, 2, 1]), np.array([3, 0, 1])
    matrix = score(model, trace, ref)[0]
    np.testing.assert_allclose(score_pairs(model, trace[0], ref[0], i, j), matrix[i, j], rtol=1e-10, atol=1e-10)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mixture()
    trace, ref = sides(1, 1)
    whole = score(model, trace, ref)
    monkeypatch.setattr(averaged, "TERMS", 1)
    np.testing.assert_allclose(score(model, trace, ref), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [30.0, 1000.0])
def test_distant_pairs_are_finite_and_exact(scale: float) -> None:
    model = mixture()
    trace, ref = sides(1, 1, scale=scale)
    found = score(model, trace, ref)
    for run, i, j in ((0, 0, 1), (1, 2, 3)):
        same, different, _ = dense_parts(model, run, trace[run].values[[i]], ref[run].values[[j]])
        assert np.isfinite(found[run][i, j])
        assert found[run][i, j] * LN10 == pytest.approx(same - different, rel=1e-9)


def test_runs_are_chosen_as_in_every_model() -> None:
    """Also where the number of runs is that of features and of members."""
    model = mixture(size=AXES, runs=AXES)
    trace, ref = sides(2, 1, runs=AXES)
    whole = score(model, trace, ref)
    for run in range(AXES):
        one = take_runs(model, [run])
        np.testing.assert_allclose(score(one, trace[run : run + 1], ref[run : run + 1])[0], whole[run], rtol=1e-10)


def test_it_can_be_stored() -> None:
    kinds = stored_classes()
    model = mixture()
    stored, _ = from_bytes(to_bytes(model, "lindley-model/1", {}, kinds), "x", Averaged, "lindley-model/1", kinds)
    trace, ref = sides(2, 1)
    np.testing.assert_array_equal(score(stored, trace, ref), score(model, trace, ref))


# The parts of it in other modules.


def test_other_models_take_their_scatter_on_their_axes() -> None:
    member, model, (trace, _) = two_level(1, runs=1), mixture(runs=1), sides(3, 1)
    torch.testing.assert_close(item_scatter(member, trace[1], np.arange(3)), item_squares(member, trace[1]))
    torch.testing.assert_close(item_scatter(member, trace[1], np.array([2, 0])), item_squares(member, trace[1])[[2, 0]])
    assert item_squares(model, trace[1]).shape == (3, AXES)
    assert item_scatter(model, trace[1], np.arange(3)).shape == (3, AXES * (AXES + 1) // 2)


# What it refuses.


def test_what_cannot_be_averaged() -> None:
    member = two_level(1)
    with pytest.raises(ValueError, match="weights of shape"):
        Averaged(member, (member, member), torch.zeros(RUNS, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="0 models of 2 runs"):
        average([], member)
    flat = replace(member, projection=member.projection[..., :2])
    with pytest.raises(ValueError, match="as many axes as features"):
        average([flat], flat)
    with pytest.raises(ValueError, match="one run each per run"):
        average([member, two_level(2, runs=3)])
    law = MixtureBetween(*(torch.zeros(RUNS, 2, AXES, dtype=torch.float64) for _ in range(3)))
    for other in (replace(member, between=law), robust.make(1, RUNS, AXES)):
        with pytest.raises(TypeError, match="normal laws"):
            average([member, other])  # type: ignore[list-item]


def test_no_shares_of_axes_and_no_scatter_on_axes_alone() -> None:
    model = mixture()
    trace, ref = sides(2, 2)
    x, y = tensors(trace), tensors(ref)
    assert not model.has_axis_shares
    with pytest.raises(TypeError, match="does not factor over axes"):
        model.ln_lr_pairs(x, y)
    on_axes = [
        torch.stack([item_squares(take_runs(model, [run]), s) for run, s in enumerate(these)]) for these in (trace, ref)
    ]
    with pytest.raises(ValueError, match="along 6 directions"):
        model.ln_lr(x, y, 2, 2, Scatter(on_axes[0], on_axes[1], 1, 1))


@pytest.mark.parametrize(("factors", "terms"), [(1, 1), (25, 13), (10_000, 7)])
def test_blocks_of_any_size_give_the_same(factors: int, terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Averaged(
        two_level(0), tuple(two_level(k) for k in range(1, 4)), torch.zeros(RUNS, 3).double().log_softmax(-1)
    )
    rng = np.random.default_rng(5)
    traces, refs = (rng.normal(size=(RUNS, n, 3, AXES)) for n in (11, 7))
    x, y = (torch.from_numpy(values) for values in (traces, refs))
    scatter = Scatter(model.scatter_of(x), model.scatter_of(y), 2, 2)
    whole = model.ln_lr(x.mean(2), y.mean(2), 3, 3, scatter), *model.ln_parts(x.mean(2), y.mean(2), 3, 3, scatter)
    monkeypatch.setattr(averaged, "FACTORS", factors)
    monkeypatch.setattr(averaged, "TERMS", terms)
    blocks = model.ln_lr(x.mean(2), y.mean(2), 3, 3, scatter), *model.ln_parts(x.mean(2), y.mean(2), 3, 3, scatter)
    for one, other in zip(whole, blocks, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)

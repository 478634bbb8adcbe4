"""Fitting heavy-tailed PLDA: the truth comes back, the estimate is a maximum, and tails are worth having."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.models.between import Scatter
from lindley.models.classical import fit_classical
from lindley.models.fitting import Progress, Task, silent
from lindley.models.heavy_tailed import fit as heavy_fit
from lindley.models.heavy_tailed.fit import fit
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.two_level import PairModel, TwoLevel, item_squares, score, take_runs
from lindley.table.splits import Part

Floats = NDArray[np.float64]

MIX = np.random.default_rng(99).normal(size=(4, 4)) + 2 * np.eye(4)
LAMBDA = np.array([400.0, 80.0, 20.0, 5.0])


def simulate(n: int, nu: float, nu_between: float, seed: int, counts: tuple[int, int] = (1, 1), p: int = 4) -> Part:
    """A trace and a ref of every source, with scales of their own: W = MIXᵀ MIX, B = MIXᵀ diag(λ) MIX."""
    rng = np.random.default_rng(seed)

    def scale(k: float, *shape: int) -> Floats:
        return np.sqrt(k / 2 / rng.gamma(k / 2, size=shape)) if np.isfinite(k) else np.ones(shape)

    theta = rng.normal(size=(n, p)) * np.sqrt(LAMBDA[:p]) * scale(nu_between, n, 1)
    values, source, is_trace = [], [], []
    for trace, count in zip((True, False), counts, strict=True):
        e = rng.normal(size=(n, count, p)) * scale(nu, n, 1, 1)
        values.append((theta[:, None] + e).reshape(-1, p) @ MIX[:p, :p] + 3.0)
        source.append(np.repeat([f"S{i:04d}" for i in range(n)], count))
        is_trace.append(np.full(n * count, trace))
    return Part(np.concatenate(values), np.concatenate(source), np.concatenate(is_trace))


def test_cllr(model: PairModel, part: Part) -> float:
    llr = score(model, [part.trace], [part.ref])[0]
    return float(cllr(LLRs.from_matrix(llr, part.trace.source, part.ref.source)))


test_cllr.__test__ = False  # type: ignore[attr-defined]


def fitted(parts: list[Part], progress: Progress = silent) -> TwoLevel:
    model = fit(Task(parts, progress=progress)).model
    assert isinstance(model, TwoLevel)
    return model


def covariances(model: TwoLevel) -> tuple[Floats, Floats]:
    """W and B of the features."""
    law = model.between
    assert isinstance(law, HeavyTailed)
    back = np.linalg.inv(model.projection[0].numpy())
    return back.T @ back, (back.T * law.var[0, 0].numpy()) @ back


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
def test_the_truth_comes_back(counts: tuple[int, int]) -> None:
    part = simulate(800, 4.0, 6.0, seed=1, counts=counts)
    model = fitted([part])
    law = model.between
    assert isinstance(law, HeavyTailed)
    assert float(law.nu) == pytest.approx(4.0, rel=0.3)
    assert float(law.nu_between) == pytest.approx(6.0, rel=0.45)
    within, between = covariances(model)
    true_within, true_between = MIX.T @ MIX, (MIX.T * LAMBDA) @ MIX
    for found, true in ((within, true_within), (between, true_between)):
        # In the metric of the truth: eigenvalues near one.
        ratio = np.linalg.eigvals(np.linalg.solve(true, found)).real
        assert ((ratio > 0.75) & (ratio < 1.35)).all()
    np.testing.assert_allclose(model.centre[0, 0].numpy(), 3.0, atol=4 * np.sqrt(true_between.diagonal().max() / 800))


def test_tails_are_worth_having_and_their_absence_is_seen() -> None:
    train, test = simulate(300, 3.0, 6.0, seed=2), simulate(300, 3.0, 6.0, seed=3)
    heavy, plain = fitted([train]), fit_classical([train], "normal")
    assert test_cllr(heavy, test) < 0.8 * test_cllr(plain, test)

    train, test = simulate(300, np.inf, np.inf, seed=4), simulate(300, np.inf, np.inf, seed=5)
    heavy, plain = fitted([train]), fit_classical([train], "normal")
    law = heavy.between
    assert isinstance(law, HeavyTailed)
    assert float(law.nu) > 20
    assert float(law.nu_between) > 20
    assert test_cllr(heavy, test) == pytest.approx(test_cllr(plain, test), abs=0.01)


def ln_likelihood(model: TwoLevel, part: Part) -> float:
    """Of the instances of all sources, from the law itself: ln p(trace, ref, scatter) and the volume of the axes."""
    law = model.between
    assert isinstance(law, HeavyTailed)
    x, y = (model.project(torch.from_numpy(side.mean)[None]) for side in (part.trace, part.ref))
    m, n = int(part.trace.count[0]), int(part.ref.count[0])
    scatter = Scatter(item_squares(model, part.trace)[None], item_squares(model, part.ref)[None], m - 1, n - 1)
    ones = torch.ones_like(law.var)
    pairs = law.ln_joint(x, y, ones / m, ones / n, scatter)[0].diagonal()
    volume = torch.linalg.slogdet(model.projection).logabsdet[0] * len(part.values)
    return float(pairs.sum() + volume)


@pytest.mark.parametrize("counts", [(1, 1), (2, 2)])
def test_the_estimate_is_a_maximum_of_the_likelihood(counts: tuple[int, int]) -> None:
    part = simulate(120, 5.0, 8.0, seed=6, counts=counts)
    model = fitted([part])
    law = model.between
    assert isinstance(law, HeavyTailed)
    best = ln_likelihood(model, part)
    # A turn that mixes two axes, stretched axes, a moved centre, wider sources, other tails: each way is downhill.
    turn = torch.eye(4, dtype=torch.float64)
    turn[0, 3] = 0.1
    others = [
        replace(model, projection=model.projection @ t) for t in (turn, turn.mT, 2 * torch.eye(4).double() - turn)
    ]
    others += [
        replace(model, projection=model.projection * k, between=replace(law, var=law.var * k**2)) for k in (0.9, 1.1)
    ]
    others += [replace(model, between=replace(law, var=law.var * k)) for k in (0.8, 1.25)]
    others += [replace(model, between=replace(law, mean=law.mean + k * law.var.sqrt())) for k in (-0.25, 0.25)]
    others += [replace(model, between=replace(law, nu=law.nu * k)) for k in (0.7, 1.4)]
    others += [replace(model, between=replace(law, nu_between=law.nu_between * k)) for k in (0.6, 1.6)]
    for other in others:
        assert ln_likelihood(other, part) < best


def test_units_and_other_runs_do_not_matter() -> None:
    part, other = simulate(80, 4.0, 8.0, seed=7), simulate(60, 9.0, 9.0, seed=8)
    mixed = Part((part.values - 3) @ np.diag([1e-3, 1.0, 50.0, 2.0]) + 7, part.source, part.is_trace)
    model = fitted([part, other, mixed])
    llrs = score(model, [p.trace for p in (part, other, mixed)], [p.ref for p in (part, other, mixed)])
    np.testing.assert_allclose(llrs[2], llrs[0], atol=1e-3)
    alone = fitted([part])
    np.testing.assert_allclose(score(alone, [part.trace], [part.ref])[0], llrs[0], atol=1e-9)


@pytest.mark.parametrize("n", [3, 5, 9])
@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
def test_few_sources(n: int) -> None:
    """Fewer degrees of freedom than features: the prior keeps the estimate where LRs are finite and a help."""
    train, test = simulate(n, 4.0, 8.0, seed=9), simulate(100, 4.0, 8.0, seed=10)
    model = fitted([train])
    llr = score(model, [test.trace], [test.ref])[0]
    assert np.isfinite(llr).all()
    assert llr.diagonal().mean() > llr.mean()


def test_sources_without_a_ref_count_too() -> None:
    whole = simulate(120, 4.0, 8.0, seed=11)
    keep = whole.is_trace | (whole.source < "S0080")
    part = Part(whole.values[keep], whole.source[keep], whole.is_trace[keep])
    fewer = Part(*(a[whole.source < "S0080"] for a in (whole.values, whole.source, whole.is_trace)))
    seen: list[tuple[str, float]] = []
    model = fitted([part, fewer], lambda detail, share: seen.append((detail, share)))
    assert seen == [("split 1 of 2", 0.5), ("split 2 of 2", 1.0)]
    assert not torch.allclose(model.centre[0], model.centre[1], atol=1e-3)
    assert test_cllr(take_runs(model, [0]), simulate(100, 4.0, 8.0, seed=12)) < 0.5


def test_what_cannot_be_fitted_is_told() -> None:
    part = simulate(10, 4.0, 8.0, seed=13)
    with pytest.raises(LindleyError, match="measured twice"):
        fitted([Part(part.values[:10], part.source[:10], part.is_trace[:10])])
    values = part.values.copy()
    values[3, 1] = np.inf
    with pytest.raises(LindleyError, match="finite"):
        fitted([part.with_values(values)])


def test_sources_some_at_a_time_give_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    part = simulate(40, 5.0, 8.0, seed=11, counts=(1, 2), p=2)
    whole = fit(Task([part], seeds=[0])).model
    monkeypatch.setattr(heavy_fit, "SQUARES", 7 * heavy_fit.LEAST_SQUARES)  # seven sources
    assert max(len(items) for items, _ in heavy_fit._Data.of(part).groups) == 7
    some = fit(Task([part], seeds=[0])).model
    for one, other in zip((whole.projection, whole.centre, *whole.between_moments()),
                          (some.projection, some.centre, *some.between_moments()), strict=True):  # fmt: skip
        torch.testing.assert_close(one.abs(), other.abs(), rtol=1e-7, atol=1e-9)

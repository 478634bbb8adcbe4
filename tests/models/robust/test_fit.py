"""Fitting the robust model: folds, draws, scalars; odd tables; a population whose truth is known."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.models.classical import fit_classical
from lindley.models.fitting import Sources
from lindley.models.robust import fit as fit_module, folds as crossfit
from lindley.models.robust.eigenbasis import fit_eigenbasis, fit_stabiliser
from lindley.models.robust.fit import fit_robust, minimise
from lindley.models.robust.folds import deal, held_out, ln_parts_held_out
from lindley.models.robust.model import Robust
from lindley.models.robust.population import ln_kernel_sum, ln_population
from lindley.models.two_level import PairModel, score
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, make_splits
from lindley.table.table import Table

Floats = NDArray[np.float64]


def draw(n: int, p: int, reps: int = 2, *, seed: int = 0, noise: float = 0.1) -> Table:
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) / math.sqrt(p)
    theta = rng.normal(size=(n, p)) @ mix
    scatter = noise / np.sqrt(rng.chisquare(6, size=(n, 1, 1)) / 6)
    values = theta[:, None] + scatter * rng.normal(size=(n, reps, p))
    return Table.from_arrays(values.reshape(-1, p), np.repeat([f"S{i:04d}" for i in range(n)], reps))


def fit(table: Table, **protocol: int) -> tuple[Robust, list[Part]]:
    splits = make_splits(table, Protocol(**{"splits": 1, **protocol}))
    seeds = range(len(splits))
    return fit_robust([(s.train, s.validate) for s in splits], list(seeds)).model, [s.test for s in splits]


def test_cllr(model: PairModel, parts: list[Part]) -> float:
    scores = score(model, [p.trace for p in parts], [p.ref for p in parts])
    return float(
        np.mean([cllr(LLRs.from_matrix(a, p.trace.source, p.ref.source)) for a, p in zip(scores, parts, strict=True)])
    )


test_cllr.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("n", "p", "reps"),
    [(12, 3, 2), (30, 4, 2), (30, 60, 2), (30, 5, 6), (200, 1, 2)],
    ids=["twelve sources", "thirty sources", "more features than sources", "many replicates", "one feature"],
)
def test_small_and_odd_tables(n: int, p: int, reps: int) -> None:
    model, parts = fit(draw(n, p, reps), splits=2, replicates=reps)
    assert test_cllr(model, parts) < (1.0 if p > 1 else 1.05)


def test_a_nearly_constant_feature_and_an_outlier_change_little() -> None:
    table = draw(90, 4)
    model, parts = fit(table)
    plain = test_cllr(model, parts)
    odd = np.column_stack([table.values, np.where(np.arange(180) == 7, 1e-3, 0.0)])
    odd[2, :4] += 100.0  # one wild instance
    model, parts = fit(replace(table, values=odd, features=(*table.features, "flat"), units=()))
    assert test_cllr(model, parts) < plain + 0.2


def test_rounded_values_with_equal_replicates() -> None:
    table = draw(90, 4, noise=0.02)
    model, parts = fit(replace(table, values=table.values.round(1)))
    assert test_cllr(model, parts) < 0.6


def test_sources_measured_once_are_used_too() -> None:
    table = draw(80, 3)
    kept = np.ones(160, dtype=bool)
    kept[1:80:2] = False  # half of the sources lose an instance
    model, parts = fit(Table.from_arrays(table.values[kept], table.source[kept]))
    assert test_cllr(model, parts) < 0.9


def test_too_few_sources_are_refused() -> None:
    values, source = np.random.default_rng(0).normal(size=(8, 2)), np.repeat(list("abcd"), 2)
    part = Part(values, source, np.tile([True, False], 4))
    once = Part(values, np.array(list("abcdefgh")), np.tile([True, False], 4))
    with pytest.raises(LindleyError, match=r"too few|at least three"):
        fit_robust([(Part(values[:4], source[:4], part.is_trace[:4]),)], [0])
    with pytest.raises(LindleyError, match=r"too few|at least three"):
        fit_robust([(once,)], [0])


def test_the_same_seed_gives_the_same_model_and_runs_do_not_disturb_one_another() -> None:
    splits = make_splits(draw(60, 3), Protocol(splits=2))
    sides = [(s.train, s.validate) for s in splits]
    together, again = fit_robust(sides, [5, 6]).model, fit_robust(sides, [5, 6]).model
    torch.testing.assert_close(together.tails.nu, again.tails.nu, rtol=0, atol=0)
    torch.testing.assert_close(together.projection, again.projection, rtol=0, atol=0)
    alone = fit_robust(sides[1:], [6]).model
    trace = torch.from_numpy(splits[1].test.trace.mean)[None]
    torch.testing.assert_close(
        together.map(lambda t: t[1:]).ln_lr(trace, trace), alone.ln_lr(trace, trace), rtol=0, atol=0
    )
    by_two = fit_robust(sides, [5, 6], threads=2).model
    torch.testing.assert_close(by_two.tails.nu, together.tails.nu, rtol=0, atol=0)


def test_progress_goes_up_and_an_interrupt_stops_all_runs() -> None:
    splits = make_splits(draw(60, 3), Protocol(splits=3))
    sides = [(s.train, s.validate) for s in splits]
    shares: list[float] = []

    def progress(detail: str, share: float) -> None:
        shares.append(share)
        told = re.fullmatch(r"step (\d+) of 160, held-out cost (.*)", detail)
        assert told is not None
        assert int(told[1]) == round(160 * share)
        assert 0 < float(told[2]) < 2

    fit_robust(sides, [0, 1, 2], progress, threads=1)
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1

    calls = []

    def interrupt(detail: str, share: float) -> None:
        calls.append(share)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_robust(sides, [0, 1, 2], interrupt, threads=2)
    assert len(calls) <= 3  # the other run is told at its next report, and the third is never begun


def test_units_of_features_and_order_of_rows_change_nothing() -> None:
    splits = make_splits(draw(60, 3), Protocol(splits=1))
    scale, shift = np.array([1e-3, 1.0, 50.0]), np.array([5.0, 0.0, -1.0])

    def changed(part: Part) -> Part:
        rows = np.argsort(part.source, kind="stable")[::-1]
        # the order of the instances of a source is kept, that of the sources is not
        rows = rows.reshape(-1, 2)[:, ::-1].reshape(-1)
        return Part(part.values[rows] * scale + shift, part.source[rows], part.is_trace[rows])

    split = splits[0]
    plain = fit_robust([(split.train, split.validate)], [1]).model
    other = fit_robust([(changed(split.train), changed(split.validate))], [1]).model
    trace, ref = (torch.from_numpy(side.mean)[None] for side in (split.test.trace, split.test.ref))
    llr = plain.ln_lr(trace, ref)
    moved = other.ln_lr(
        trace * torch.from_numpy(scale) + torch.from_numpy(shift),
        ref * torch.from_numpy(scale) + torch.from_numpy(shift),
    )
    torch.testing.assert_close(llr, moved, rtol=1e-4, atol=1e-4)


def test_raw_lrs_beat_the_classical_model_on_simulated_glass() -> None:
    table = simulate_table(glass_population(), 300, 2, seed=3)
    splits = make_splits(table, Protocol(splits=2))
    model = fit_robust([(s.train, s.validate) for s in splits], [0, 1]).model
    tests = [s.test for s in splits]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classical = fit_classical([s.train for s in splits], "normal")
    robust = test_cllr(model, tests)
    assert robust < 0.5 * test_cllr(classical, tests)
    assert robust < 0.06


def test_more_replicates_help() -> None:
    table = draw(300, 8, 6, noise=0.4, seed=4)
    few, tests = fit(table, replicates=2)
    rows = np.isin(table.source, tests[0].source, invert=True)
    everything = Part(table.values[rows], table.source[rows], np.ones(rows.sum(), dtype=bool))
    splits = make_splits(table, Protocol(splits=1))
    many = fit_robust([(everything.with_values(splits[0].scaling(everything.values)),)], [0]).model
    assert test_cllr(many, tests) < test_cllr(few, tests)


def test_folds_keep_groups_together_and_are_even() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat([f"{i:03d}" for i in range(50)], 2)
    group = np.repeat([f"g{i // 3}" for i in range(50)], 2)
    sources = Sources.of(rng.normal(size=(100, 2)), source, group)
    fold = deal(sources, rng)
    for g in np.unique(sources.group):
        assert len(np.unique(fold[sources.group == g])) == 1
    assert np.ptp(np.bincount(fold)) <= 6


def test_held_out_pairs_are_not_of_the_basis_and_their_weights_are_unbiased() -> None:
    splits = make_splits(draw(120, 3, noise=0.5), Protocol(splits=1))
    train = splits[0].train
    sources = Sources.of(train.values, train.source)
    folds, shrunk = held_out(sources, np.random.default_rng(0), (0.02, 0.5))
    torch.testing.assert_close((shrunk.trace, shrunk.ref, shrunk.weight), (folds.trace, folds.ref, folds.weight))
    assert (shrunk.instances - folds.instances).abs().max() > 1e-3  # the same pairs, on other axes
    assert len(folds.instances) == 5
    total = torch.where(folds.same, folds.weight, 0.0).sum(-1) * 2 * math.log(2)
    torch.testing.assert_close(total, torch.ones(5, dtype=torch.float64))
    different = torch.where(folds.same, 0.0, folds.weight).sum(-1) * 2 * math.log(2)
    assert (different - 1).abs().max() < 0.15
    kernels = torch.isfinite(folds.model.population.ln_weights).sum(-1)
    assert (kernels == 32).all()  # of 40 sources
    # the fast form of the fit equals the model's own
    x, y = (folds.instances.gather(1, i[..., None].expand(-1, -1, 3)) for i in (folds.trace, folds.ref))
    identity = torch.eye(3, dtype=torch.float64).expand(5, 3, 3)
    plain = replace(
        folds.model,
        stabiliser=folds.model.stabiliser.__class__(
            *(torch.full((5, 1, 3), v).double() for v in (0.0, 1.0, 0.0, 0.0, 0.0))
        ),
        centre=torch.zeros(5, 1, 3).double(),
        projection=identity,
    )
    ln_h1, ln_h2 = ln_parts_held_out(folds, folds.model)
    torch.testing.assert_close(ln_h1 - ln_h2, plain.ln_lr_given(x, y), rtol=1e-5, atol=1e-5)


def test_kernel_sums_of_the_fit_and_their_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    points, centres = (torch.randn(2, n, 4, generator=g, dtype=torch.float64) * 3 for n in (7, 9))
    var = torch.rand(2, 1, 4, generator=g, dtype=torch.float64).add(0.2).requires_grad_()
    ln_weights = torch.log_softmax(torch.randn(2, 9, generator=g, dtype=torch.float64), -1)
    seed = torch.randn(2, 7, generator=g, dtype=torch.float64)
    slow = torch.logsumexp(
        ln_weights[:, None]
        - 0.5
        * ((points[:, :, None] - centres[:, None]) ** 2 / var[:, None] + (2 * math.pi * var[:, None]).log()).sum(-1),
        -1,
    )
    fast = ln_kernel_sum(points, var, centres, ln_weights)
    torch.testing.assert_close(fast, slow, rtol=1e-6, atol=1e-6)
    expected, found = (torch.autograd.grad((v * seed).sum(), var)[0] for v in (slow, fast))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_population_of_the_fit_equals_that_of_the_model() -> None:
    model, parts = fit(draw(60, 3))
    points = model.project(torch.from_numpy(parts[0].trace.mean)[None])
    fast = ln_population(model.population, points, model.var_within)
    torch.testing.assert_close(fast, model.population.ln_density(points, model.var_within), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", [(1.0, -2.0, 0.5), (0.0, 3.0, 3.0), (0.0, 0.0, 0.0)])
def test_minimise_finds_the_minimum(target: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TOLERANCE", 1e-14)

    def cost(theta: torch.Tensor) -> torch.Tensor:
        a = theta - torch.tensor(target)
        return (a**2 * torch.tensor([1.0, 10.0, 0.1])).sum() + (a**4).sum() + 7

    found, value = minimise(cost, torch.zeros(3, dtype=torch.float64), steps=100)
    torch.testing.assert_close(found, torch.tensor(target).double(), rtol=0, atol=1e-4)
    assert value == pytest.approx(7)


def test_minimise_steps_back_from_where_the_cost_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TOLERANCE", 1e-12)
    tried: list[float] = []

    def cost(theta: torch.Tensor) -> torch.Tensor:
        tried.append(theta.item())
        return (5 * theta - 0.1 * theta.log()).sum()

    found, value = minimise(cost, torch.tensor([0.2]).double())
    assert min(tried) <= 0
    assert found.item() == pytest.approx(0.02, rel=1e-3)
    assert value == pytest.approx(0.1 - 0.1 * math.log(0.02))


def test_the_basis_is_not_turned_by_an_outlier() -> None:
    table = draw(200, 3, seed=2)
    sources = Sources.of(table.values, table.source)
    clean = fit_eigenbasis(sources)
    values = sources.values.copy()
    values[0] += 100.0
    dirty = fit_eigenbasis(replace(sources, values=values))
    np.testing.assert_allclose(dirty.var_between[1:], clean.var_between[1:], rtol=0.5)
    within = clean.axes.T @ np.cov(sources.contrasts()[0].T) @ clean.axes
    np.testing.assert_allclose(within - np.diag(np.diag(within)), 0, atol=0.3)


def test_the_stabiliser_finds_a_trend_and_leaves_a_level_feature_alone() -> None:
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(400, 1, 2))
    values = theta + 0.05 * np.exp(np.array([0.6, 0.0]) * theta) * rng.normal(size=(400, 2, 2))
    sources = Sources.of(values.reshape(-1, 2), np.repeat([f"{i:03d}" for i in range(400)], 2))
    slope = fit_stabiliser(sources).slope[0, 0]
    assert 0.3 < slope[0] < 0.7
    assert abs(slope[1]) < 0.12


def test_it_is_saved_and_loaded_as_plain_tensors(tmp_path: Path) -> None:
    model, parts = fit(draw(60, 3), splits=2)

    def flat(value: object, prefix: str) -> dict[str, torch.Tensor]:
        if isinstance(value, torch.Tensor):
            return {prefix: value}
        assert is_dataclass(value)
        return {k: t for f in fields(value) for k, t in flat(getattr(value, f.name), f"{prefix}.{f.name}").items()}

    save_file(flat(model, "robust"), tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    assert set(stored) == set(flat(model, "robust"))
    values = iter(flat(model, "robust"))
    loaded = fit(draw(40, 3), splits=2)[0].map(lambda t: stored[next(values)])  # another model's fields, in their order
    trace = [torch.from_numpy(part.trace.mean)[None] for part in parts]
    x = torch.cat([t[:, :10] for t in trace])
    torch.testing.assert_close(loaded.ln_lr(x, x), model.ln_lr(x, x), rtol=0, atol=0)


def test_a_large_table_is_subsampled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (crossfit.MOST_KERNELS, crossfit.MOST_SOURCES) == (2000, 400)
    monkeypatch.setattr(crossfit, "MOST_KERNELS", 150)
    monkeypatch.setattr(crossfit, "MOST_SOURCES", 30)
    model, parts = fit(draw(330, 2))
    assert model.population.centres.shape[1] == 150
    part = parts[0]
    llr = score(model, [part.trace[:50]], [part.ref[:50]])[0]
    assert np.isfinite(llr).all()

"""Fitting the robust model: folds, draws, scalars; odd tables; a population whose truth is known."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.models.between import NormalBetween
from lindley.models.classical import fit_classical
from lindley.models.fitting import Sources
from lindley.models.robust import fit as fit_module, folds as crossfit
from lindley.models.robust.eigenbasis import Bases, Shrinkage, fit_eigenbasis, fit_stabiliser
from lindley.models.robust.fit import ALL_STEPS, fit_robust, minimise
from lindley.models.robust.folds import (
    PRIOR,
    PRIOR_PAIRS,
    PRIOR_RELATED,
    SCALARS,
    START,
    Folds,
    HeldOut,
    Scalar,
    deal,
    learn_relatedness,
    ln_lr_held_out,
    ln_parts_held_out,
    model_of,
    stabilised,
)
from lindley.models.robust.model import WAYS, Robust
from lindley.models.robust.population import Population, ln_kernel_sum, ln_population
from lindley.models.robust.tails import ln_products
from lindley.models.two_level import PairModel, TwoLevel, score, take_runs
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, make_splits
from lindley.table.table import Table
from tests.models.robust.simulate import plain

Floats = NDArray[np.float64]


def draw(n: int, p: int, reps: int = 2, *, seed: int = 0, noise: float = 0.1) -> Table:
    """Sources that scatter differently."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) / math.sqrt(p)
    theta = rng.normal(size=(n, p)) @ mix
    scatter = noise / np.sqrt(rng.chisquare(6, size=(n, 1, 1)) / 6)
    values = theta[:, None] + scatter * rng.normal(size=(n, reps, p))
    return Table.from_arrays(values.reshape(-1, p), np.repeat([f"S{i:04d}" for i in range(n)], reps))


def learn(table: Table, **protocol: int) -> tuple[list[Part], list[Part]]:
    """What each run learns from, and is tested on."""
    splits = make_splits(table, Protocol(**{"splits": 1, **protocol}))
    return [s.train.joined(s.validate) for s in splits], [s.test for s in splits]


def fit(table: Table, **protocol: int) -> tuple[Robust, list[Part]]:
    parts, tests = learn(table, **protocol)
    return fit_robust(parts, list(range(len(parts)))).model, tests


def cllr_of(model: PairModel, parts: list[Part]) -> float:
    scores = score(model, [p.trace for p in parts], [p.ref for p in parts])
    assert all(np.isfinite(matrix).all() for matrix in scores)
    return float(
        np.mean([cllr(LLRs.from_matrix(a, p.trace.source, p.ref.source)) for a, p in zip(scores, parts, strict=True)])
    )


def assert_equal(a: Robust, b: Robust, tolerance: float = 0.0) -> None:
    """All tensors of two models."""
    flat_a, flat_b = flat(a), flat(b)
    assert set(flat_a) == set(flat_b)
    for name, tensor in flat_a.items():
        torch.testing.assert_close(
            tensor, flat_b[name], rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def flat(value: object, prefix: str = "robust") -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    assert is_dataclass(value)
    return {k: t for f in fields(value) for k, t in flat(getattr(value, f.name), f"{prefix}.{f.name}").items()}


# Tables.


@pytest.mark.parametrize(
    ("n", "p", "reps"),
    [(15, 3, 2), (36, 40, 2), (30, 5, 6), (150, 1, 2)],
    ids=["ten sources", "more features than sources", "many replicates", "one feature"],
)
def test_small_and_odd_tables(n: int, p: int, reps: int) -> None:
    model, tests = fit(draw(n, p, reps), replicates=reps)
    assert cllr_of(model, tests) < (1.0 if p > 1 else 1.05)


@pytest.mark.usefixtures("short_search")
def test_of_many_features_there_are_fewer_axes() -> None:
    model, tests = fit(draw(45, 70, noise=0.3))
    assert model.projection.shape[1] == 70
    assert 5 <= model.projection.shape[2] <= 60
    assert (model.directions.norm(dim=-1) < 1 + 1e-9).all()
    assert cllr_of(model, tests) < 0.5
    several = [replace(part, is_trace=np.zeros_like(part.is_trace)) for part in tests]
    found = score(model, [part.ref for part in several], [part.ref for part in several])  # two instances each
    assert all(np.isfinite(matrix).all() for matrix in found)


def test_a_nearly_constant_feature_and_an_outlier_change_little() -> None:
    table = draw(90, 4)
    model, tests = fit(table)
    clean = cllr_of(model, tests)
    odd = np.column_stack([table.values, np.where(np.arange(180) == 7, 1e-3, 0.0)])
    odd[2, :4] += 100.0  # one wild instance
    model, tests = fit(replace(table, values=odd, features=(*table.features, "flat"), units=()))
    assert cllr_of(model, tests) < clean + 0.2


def test_rounded_values_with_equal_replicates() -> None:
    table = draw(90, 4, noise=0.02)
    model, tests = fit(replace(table, values=table.values.round(1)))
    assert cllr_of(model, tests) < 0.6


def test_sources_measured_once_are_used_too() -> None:
    table = draw(80, 3)
    kept = np.ones(160, dtype=bool)
    kept[1:80:2] = False  # half of the sources lose an instance
    model, tests = fit(Table.from_arrays(table.values[kept], table.source[kept]))
    assert cllr_of(model, tests) < 0.9


def test_too_few_sources_are_refused() -> None:
    values, source = np.random.default_rng(0).normal(size=(8, 2)), np.repeat(list("abcd"), 2)
    is_trace = np.tile([True, False], 4)
    with pytest.raises(LindleyError, match=r"too few|at least three"):
        fit_robust([Part(values[:4], source[:4], is_trace[:4])], [0])
    with pytest.raises(LindleyError, match=r"8 sources, 0 of them measured twice or more"):
        fit_robust([Part(values, np.array(list("abcdefgh")), is_trace)], [0])
    with pytest.raises(LindleyError, match="finite values"):
        fit_robust([Part(np.where(values == values[0, 0], np.nan, values), source, is_trace)], [0])
    with pytest.raises(ValueError, match="1 runs got 2 seeds"):
        fit_robust([Part(values, source, is_trace)], [0, 1])


# What must not matter.


@pytest.mark.usefixtures("short_search")
def test_seeds_threads_runs_and_a_second_time_change_nothing() -> None:
    parts, tests = learn(draw(45, 3), splits=2)
    fitted = fit_robust(parts, [5, 6], threads=1)
    assert_equal(fit_robust(parts, [5, 6], threads=2).model, fitted.model)
    assert_equal(fitted.again([parts[1], parts[0]], 1).map(lambda t: t[:1]), take_runs(fitted.model, [1]), 1e-12)
    other = fit_robust(parts[1:], [7]).model
    assert (other.tails.nu - fitted.model.tails.nu[1:]).abs() > 1e-6  # other folds, other pairs
    # Of runs of other sizes, kernels are padding.
    alone = fit_robust(parts[1:], [6]).model
    trace = torch.from_numpy(tests[1].trace.mean)[None]
    together = take_runs(fitted.model, [1])
    torch.testing.assert_close(together.ln_lr(trace, trace), alone.ln_lr(trace, trace), rtol=1e-12, atol=1e-12)


def test_runs_of_other_numbers_of_axes_change_nothing() -> None:
    """Of many features, each run chooses its number of axes: those of a run are filled up to the most of any."""
    parts, tests = learn(draw(60, 8))
    sources = Sources.of(parts[0].values, parts[0].source)
    few, many = (Shrinkage(components=True, axes=n) for n in (4, 8))
    scalars, related, mates = START.expand(2, -1), PRIOR[None, :1].expand(2, -1, -1), torch.zeros(2, 1, 1).double()
    both = model_of([stabilised(sources)] * 2, scalars, related, mates, [few, many])
    alone = model_of([stabilised(sources)], scalars[:1], related[:1], mates[:1], [few])
    trace, ref = (torch.from_numpy(side.mean)[None] for side in (tests[0].trace, tests[0].ref))
    torch.testing.assert_close(take_runs(both, [0]).ln_lr(trace, ref), alone.ln_lr(trace, ref), rtol=1e-6, atol=1e-6)


def halved(table: Table) -> tuple[Part, list[Part], tuple[torch.Tensor, torch.Tensor]]:
    """What is learnt from, its halves, and the means of both sides of the test pairs."""
    (everything,), (test,) = learn(table)
    sources = np.unique(everything.source)
    halves = [everything.rows(np.isin(everything.source, sources[k::2])) for k in (0, 1)]
    return everything, halves, (torch.from_numpy(test.trace.mean)[None], torch.from_numpy(test.ref.mean)[None])


@pytest.mark.usefixtures("short_search")
def test_replicates_change_nothing_in_the_first_run() -> None:
    """How many there are, and on how many threads, changes no other run."""
    everything, halves, pairs = halved(draw(60, 3))
    alone = fit_robust([everything], [5])
    one = fit_robust([everything, halves[0]], [5, 6], replicates=1)
    both = fit_robust([everything, *halves], [5, 6, 7], threads=2, replicates=2)
    for fitted in (one, both):
        assert torch.equal(fitted.scalars[0], alone.scalars[0])
        torch.testing.assert_close(
            take_runs(fitted.model, [0]).ln_lr(*pairs), alone.model.ln_lr(*pairs), rtol=1e-12, atol=1e-12
        )
    assert torch.equal(one.scalars[1], both.scalars[1])
    assert set(both.shrinkage) == {alone.shrinkage[0]}
    assert ((both.scalars[1:] - alone.scalars).abs().amax(-1) > 1e-3).all()  # they are fits of their own


def test_replicates_start_where_the_first_run_ended() -> None:
    """They take its shrinkage and few steps, and end nearer to a fit from the usual start than to that run."""
    everything, halves, pairs = halved(draw(90, 4))
    both, anew = fit_robust([everything, *halves], [5, 6, 7], replicates=2), fit_robust(halves, [6, 7])
    all_sources = take_runs(both.model, [0]).ln_lr(*pairs)
    for run in (0, 1):
        warm, cold = (take_runs(m, [r]).ln_lr(*pairs) for m, r in ((both.model, run + 1), (anew.model, run)))
        close = cold.abs() < 7  # LRs within a thousand
        assert (warm - cold)[close].abs().mean() < 0.5 * (cold - all_sources)[close].abs().mean()


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("what", ["instances", "everything"])
def test_the_order_of_rows_changes_nothing(what: str) -> None:
    (part,), _ = learn(draw(36, 2, 3), replicates=3)
    plainly = fit_robust([part], [1]).model
    rng, n = np.random.default_rng(0), len(part.values)
    order = {
        "instances": np.lexsort((rng.random(n), part.source)),
        "everything": rng.permutation(n),
    }[what]
    moved = Part(part.values[order], part.source[order], part.is_trace[order])
    assert_equal(fit_robust([moved], [1]).model, plainly, 1e-9)


@pytest.mark.usefixtures("short_search")
def test_units_of_features_change_nothing() -> None:
    """A constant added to all values, or another unit: the same LRs, up to where the steps of the fit end."""
    (part,), (test,) = learn(draw(45, 3))
    plainly = fit_robust([part], [1]).model
    trace, ref = (torch.from_numpy(side.mean)[None] for side in (test.trace, test.ref))
    expected = plainly.ln_lr(trace, ref)
    for scale, shift in ((1.0, 64.0), (np.array([1e-3, 1.0, 50.0]), np.array([5.0, 0.0, -1.0]))):
        model = fit_robust([part.with_values(part.values * scale + shift)], [1]).model
        x, y = (t * torch.as_tensor(scale) + torch.as_tensor(shift) for t in (trace, ref))
        torch.testing.assert_close(model.ln_lr(x, y), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("short_search")
def test_progress_goes_up_and_an_interrupt_stops_all_runs() -> None:
    parts, _ = learn(draw(36, 2), splits=3)
    shares: list[float] = []

    def progress(detail: str, share: float) -> None:
        shares.append(share)
        told = re.fullmatch(rf"step (\d+) of {ALL_STEPS}, held-out cost (.*)", detail)
        assert told is not None
        assert int(told[1]) == round(ALL_STEPS * share)
        assert 0 < float(told[2]) < 2

    fit_robust(parts, [0, 1, 2], progress, threads=1)
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1

    calls = []

    def interrupt(detail: str, share: float) -> None:
        calls.append(share)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_robust(parts, [0, 1, 2], interrupt, threads=2)
    assert len(calls) <= 3  # the other run is told at its next report, and the third is never begun


# Truths.


def test_near_the_true_model_on_a_normal_population() -> None:
    rng = np.random.default_rng(1)
    n, p, within = 400, 4, 0.3
    values = rng.normal(size=(n, 1, p)) + within * rng.normal(size=(n, 2, p))
    source = np.repeat([f"{i:03d}" for i in range(n)], 2)
    is_trace = np.tile([True, False], n)
    known, new = slice(0, 500), slice(500, 2 * n)
    rows = values.reshape(-1, p)
    model = fit_robust([Part(rows[known], source[known], is_trace[known])], [0]).model
    one, zero = torch.ones(1, 1, p, dtype=torch.float64), torch.zeros(1, 1, p, dtype=torch.float64)
    eye = torch.eye(p, dtype=torch.float64)[None]
    truth = TwoLevel(zero, eye, within**2 * one, within**2 * one, NormalBetween(zero, one))
    test = [Part(rows[new], source[new], is_trace[new])]
    assert cllr_of(model, test) < 1.2 * cllr_of(truth, test) + 0.01


def test_raw_lrs_beat_the_classical_model_on_simulated_glass() -> None:
    parts, tests = learn(simulate_table(glass_population(), 300, 2, seed=3))
    robust, classical = cllr_of(fit_robust(parts, [0]).model, tests), cllr_of(fit_classical(parts, "normal"), tests)
    assert robust < 0.5 * classical
    assert robust < 0.06


def test_more_replicates_help() -> None:
    """In the mean over two tables. Of six like these, one had a slightly lower Cllr with two replicates than with six."""
    few, many = [], []
    for seed in (3, 4):
        table = draw(180, 8, 6, noise=0.4, seed=seed)
        model, tests = fit(table, replicates=2)
        split = make_splits(table, Protocol(splits=1))[0]
        rows = np.isin(table.source, tests[0].source, invert=True)
        everything = Part(split.scaling(table.values[rows]), table.source[rows], np.ones(rows.sum(), dtype=bool))
        few.append(cllr_of(model, tests))
        many.append(cllr_of(fit_robust([everything], [0]).model, tests))
    assert np.mean(many) < np.mean(few)


# Folds and pairs.


def test_folds_keep_groups_together_and_are_even() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat([f"{i:03d}" for i in range(50)], 2)
    group = np.repeat([f"g{i // 3}" for i in range(50)], 2)
    sources = Sources.of(rng.normal(size=(100, 2)), source, group)
    fold = deal(sources, rng)
    for g in np.unique(sources.group):
        assert len(np.unique(fold[sources.group == g])) == 1
    assert np.ptp(np.bincount(fold)) <= 6


def held_out(n: int = 60, p: int = 3, noise: float = 0.5) -> tuple[Folds, HeldOut]:
    table = draw(n, p, noise=noise)
    folds = Folds(Sources.of(table.values, table.source), 0.0, np.random.default_rng(0), Shrinkage())
    return folds, folds.held_out(Shrinkage())


def test_held_out_pairs_are_not_of_the_basis_and_their_weights_are_unbiased() -> None:
    drawn, folds = held_out(80)
    shrunk = drawn.held_out(Shrinkage(within=0.6))
    torch.testing.assert_close((shrunk.trace, shrunk.ref, shrunk.weight), (folds.trace, folds.ref, folds.weight))
    assert (shrunk.instances - folds.instances).abs().max() > 1e-3  # the same pairs, on other axes
    assert len(folds.instances) == 5
    total = torch.where(folds.same, folds.weight, 0.0).sum(-1) * 2 * math.log(2)
    torch.testing.assert_close(total, torch.ones(5, dtype=torch.float64))
    different = torch.where(folds.same, 0.0, folds.weight).sum(-1) * 2 * math.log(2)
    assert (different - 1).abs().max() < 0.15
    kernels = torch.isfinite(folds.model.population.ln_weights).sum(-1)
    assert (kernels == 64).all()  # of 80 sources
    # The fast form of the fit equals the model's own.
    x, y = (folds.instances.gather(1, i[..., None].expand(-1, -1, 3)) for i in (folds.trace, folds.ref))
    own = replace(plain(folds.model), directions=folds.model.directions)
    found = ln_lr_held_out(ln_parts_held_out(folds, START), PRIOR, 0.0)
    torch.testing.assert_close(found, own.ln_lr_given(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mates", [0.0, 0.03, 0.5])
def test_mates_have_the_share_of_the_cost_that_they_are_to_have(mates: float) -> None:
    """Groups of three, dealt as a whole: a fold holds five times as many of them as the table does."""
    table = draw(60, 3, noise=0.5)
    group = np.repeat([f"g{i // 3:02d}" for i in range(60)], 2)
    folds = Folds(Sources.of(table.values, table.source, group), mates, np.random.default_rng(0), Shrinkage())
    held = folds.held_out(Shrinkage())
    for own, drawn, mate in zip(folds.own, folds.drawn, held.mate, strict=True):
        of, item = own.group[own.item], own.item
        expected = (of[drawn.trace] == of[drawn.ref]) & (item[drawn.trace] != item[drawn.ref])
        np.testing.assert_array_equal(mate.numpy()[: len(expected)], expected)
    different = held.weight * ~held.same
    assert float((different * held.mate).sum() / different.sum()) == pytest.approx(mates, rel=0.05)
    assert float(different.sum()) == pytest.approx(5 * 0.5 / math.log(2), rel=0.05)
    # What they teach of relatedness does not depend on that: 60 pairs of mates, and all others that a fold has.
    assert float((held.count * held.mate).sum()) == pytest.approx(60, rel=0.05)
    assert float((held.count * ~held.mate).sum()) == pytest.approx(5 * 66 - 60, rel=0.05)


@pytest.mark.usefixtures("short_search")
def test_a_large_table_is_subsampled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (crossfit.MOST_KERNELS, crossfit.MOST_SOURCES) == (2000, 400)
    monkeypatch.setattr(crossfit, "MOST_KERNELS", 150)
    monkeypatch.setattr(crossfit, "MOST_SOURCES", 30)
    model, tests = fit(draw(330, 2))
    assert model.population.centres.shape[1] == 150
    assert np.isfinite(score(model, [tests[0].trace[:50]], [tests[0].ref[:50]])[0]).all()


@pytest.mark.usefixtures("short_search")
def test_of_very_many_sources_whole_groups_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Basis and kernels are of all sources; those of few are searched with all, whatever the seed."""
    assert fit_module.MOST_SEARCHED == 10_000
    table = draw(60, 2)
    group = np.repeat([f"g{i // 3:02d}" for i in range(60)], 2)
    sources = Sources.of(table.values, table.source, group)
    assert fit_module._some(sources, np.random.default_rng(0)) is sources
    monkeypatch.setattr(fit_module, "MOST_SEARCHED", 31)
    some, again, other = (fit_module._some(sources, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert len(some) == 33  # eleven groups of three
    assert (np.bincount(some.group)[np.unique(some.group)] == 3).all()
    np.testing.assert_array_equal(some.values, again.values)
    assert not np.isin(some.values, other.values).all()
    part = Part.drawn(table.values, table.source, None)
    fitted = fit_robust([part], [0])
    assert fitted.model.population.centres.shape[1] == 60
    chosen = fit_module._some(fit_module._sources(part), np.random.default_rng((0, 7)))
    assert len(chosen) == 31
    searched = fit_module._fit(chosen, 0.0, np.random.default_rng((0, 6)), START, lambda cost: None)
    assert torch.equal(fitted.scalars[0], searched.scalars)


def test_bases_of_one_shrinkage_after_the_other_are_those_of_each() -> None:
    table = draw(60, 4, 3)
    sources = Sources.of(table.values, table.source)
    bases = Bases(sources)
    for components, axes in ((False, None), (True, 3), (True, 2)):
        for within, between in ((0.1, 0.3), (0.6, 0.3), (0.6, 1.0), (0.1, 0.3)):
            shrinkage = Shrinkage(within, between, components, axes)
            both = (vars(basis).values() for basis in (bases(shrinkage), fit_eigenbasis(sources, shrinkage)))
            for found, expected in zip(*both, strict=True):
                np.testing.assert_array_equal(found, expected)


# Scalars and their gradients.


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: s.name)
def test_a_scalar_and_its_fitted_form(scalar: Scalar) -> None:
    assert float(scalar.value(torch.tensor(scalar.fitted, dtype=torch.float64))) == pytest.approx(
        scalar.start, rel=1e-12
    )
    wild = scalar.value(torch.linspace(-30, 30, 7, dtype=torch.float64))
    assert (wild.diff() >= 0).all()
    assert (wild >= scalar.least).all()
    if scalar.kind != "positive":
        assert (wild <= 1).all()


def test_kernel_sums_of_the_fit_and_their_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    points, centres = (torch.randn(2, n, 4, generator=g, dtype=torch.float64) * 3 for n in (7, 9))
    lam, ln_weights = torch.rand(2, 1, 4, generator=g).double() + 0.5, torch.randn(2, 9, generator=g).double()
    width = torch.rand(2, 1, 1, generator=g).double().mul(0.9).requires_grad_()
    error = torch.rand(2, 3, generator=g).double().add(0.2).requires_grad_()
    law = Population(centres, torch.log_softmax(ln_weights, -1), lam, width, torch.full((2, 1, 1), 0.1).double())
    seed = torch.randn(2, 3, 7, generator=g, dtype=torch.float64)
    var = (width**2 * lam + error[..., None])[:, :, None, None]
    apart = points[:, None, :, None] - ((1 - width**2).sqrt() * centres)[:, None, None]
    square = apart**2 / var + (2 * math.pi * var).log()
    slow = torch.logsumexp(law.ln_weights[:, None, None] - 0.5 * square.sum(-1), -1)
    fast = ln_kernel_sum(law, points, width, error)
    torch.testing.assert_close(fast, slow, rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(ln_kernel_sum(law, points, width, error), fast, rtol=1e-6, atol=1e-6)
    expected, found = (torch.autograd.grad((v * seed).sum(), (width, error)) for v in (slow, fast))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_products_of_the_fit_and_their_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    squares = torch.rand(2, 12, 7, generator=g).double() * 50
    factors = torch.rand(2, 3, 12, generator=g).double().requires_grad_()
    fast, _ = ln_products([squares], [factors])
    slow = torch.log1p(squares[:, None] * factors[..., None]).sum(2)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    expected, found = (torch.autograd.grad((v**2).sum(), factors) for v in (slow, fast))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_population_of_the_fit_equals_that_of_the_model() -> None:
    _, folds = held_out()
    law, errors = folds.model.population, torch.tensor([0.3, 2.0]).double().expand(len(folds.instances), 2)
    fast = ln_population(law, folds.instances, errors)
    for i in range(2):
        slow = law.ln_density(folds.instances, errors[:, None, i : i + 1].expand(-1, 1, law.var.shape[-1]))
        torch.testing.assert_close(fast[:, i], slow, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_the_cost() -> None:
    """Against differences: exponentials in single precision leave an error of some 1e-7 in the cost."""
    _, folds = held_out()
    cost = partial(fit_module._cost, folds, PRIOR, START, 0.01)
    theta = (START + 0.2 * torch.randn(len(START), generator=torch.Generator().manual_seed(1))).requires_grad_()
    (slope,) = torch.autograd.grad(cost(theta), theta)
    step = 3e-3 * torch.eye(len(START), dtype=torch.float64)
    with torch.no_grad():
        differences = torch.stack([(cost(theta + s) - cost(theta - s)) / 6e-3 for s in step])
    assert (slope.abs() > 1e-4).all()
    torch.testing.assert_close(slope, differences, rtol=1e-3, atol=1e-5)


# How often sources are related.


def toy(ln_ratios: Floats) -> tuple[HeldOut, tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]]:
    """Different-source pairs with given ln p(pair | related in a way)/p(pair | unrelated), (pair, way)."""
    n = len(ln_ratios)
    _, folds = held_out(20)
    weight = torch.full((1, n + 1), 0.5 / math.log(2) / n, dtype=torch.float64)
    same = torch.zeros(1, n + 1, dtype=torch.bool)
    same[0, -1] = True  # counts for nothing here
    count = torch.where(same, 0.0, 1.0).double()
    pairs = replace(folds, same=same, weight=weight, count=count, mate=torch.zeros_like(same))
    mates = [torch.from_numpy(np.r_[column, 500.0])[None] for column in ln_ratios.T]
    return pairs, (torch.zeros(1, n + 1).double(), mates, torch.zeros(1, n + 1).double())


def test_relatedness_without_pairs_that_tell_is_its_prior() -> None:
    found = learn_relatedness(*toy(np.full((50, len(WAYS)), -60.0)))[0]
    torch.testing.assert_close(found, PRIOR_RELATED / (PRIOR_PAIRS + 50), rtol=1e-6, atol=0)
    assert PRIOR_RELATED.sum() < PRIOR_PAIRS


def test_relatedness_maximises_its_penalised_likelihood() -> None:
    """EM climbs Σ ln p(pair) + Σ prior counts · ln ρ: no step from where it ends goes up."""
    rng = np.random.default_rng(0)
    ratios = rng.normal(size=(300, len(WAYS))) * 2 - 1
    rho = learn_relatedness(*toy(ratios))[0].numpy()
    prior = np.r_[PRIOR_PAIRS - PRIOR_RELATED.sum(), PRIOR_RELATED]

    def objective(ln_odds: Floats) -> float:
        share = np.exp(np.r_[0.0, ln_odds])
        share = share / share.sum()
        return float(np.log(share[0] + np.exp(ratios) @ share[1:]).sum() + prior @ np.log(share))

    at = np.log(rho / (1 - rho.sum()))
    best = objective(at)
    for way in range(len(WAYS)):
        for step in (-0.05, 0.05):
            assert objective(at + step * np.eye(len(WAYS))[way]) < best


def test_relatedness_is_near_its_posterior_mean() -> None:
    """Brute force over ρ of one way, the others being out of the question."""
    rng = np.random.default_rng(1)
    related = np.arange(400) < 20
    point = np.where(related, 0.1, 3.0) * rng.normal(size=400)
    ln_ratio = math.log(30) - 0.5 * point**2 * (1 / 0.1**2 - 1 / 3.0**2)
    ratios = np.full((400, len(WAYS)), -80.0)
    ratios[:, 2] = ln_ratio
    rho = learn_relatedness(*toy(ratios))[0]
    a = float(PRIOR_RELATED[2])
    grid = np.linspace(1e-4, 0.3, 3000)
    ln_posterior = (a - 1) * np.log(grid) + (PRIOR_PAIRS - a - 1) * np.log1p(-grid)
    ln_posterior += np.log1p(grid[:, None] * np.expm1(ln_ratio)).sum(1)
    weight = np.exp(ln_posterior - ln_posterior.max())
    mean = float((weight * grid).sum() / weight.sum())
    assert float(rho[2]) == pytest.approx(mean, rel=0.05)
    assert 0.02 < float(rho[2]) < 0.08  # 20 of 400 pairs, and a hundred that the prior counts as
    assert float(rho.sum()) < 1


def test_relatedness_recovers_known_proportions() -> None:
    """Pairs of all ways, told apart by where they lie; the prior counts as a hundred unrelated pairs."""
    rng = np.random.default_rng(2)
    truth = np.array([0.02, 0.05, 0.1, 0.04, 0.08])
    n = 5000
    way = rng.choice(6, size=n, p=np.r_[1 - truth.sum(), truth])
    at, sd = np.arange(6) * 3.0, 1.0
    point = at[way] + sd * rng.normal(size=n)
    ln_density = -0.5 * (point[:, None] - at) ** 2
    rho = learn_relatedness(*toy(ln_density[:, 1:] - ln_density[:, :1]))[0].numpy()
    np.testing.assert_allclose(rho * (n + 100) / n, truth, atol=0.012)


# The search.


@pytest.mark.parametrize("target", [(1.0, -2.0, 0.5), (0.0, 3.0, 3.0), (0.0, 0.0, 0.0)])
def test_minimise_finds_the_minimum(target: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TOLERANCE", 1e-14)

    def cost(theta: torch.Tensor) -> torch.Tensor:
        a = theta - torch.tensor(target)
        return (a**2 * torch.tensor([1.0, 10.0, 0.1])).sum() + (a**4).sum() + 7

    found, value, inverse = minimise(cost, torch.zeros(3, dtype=torch.float64), steps=100)
    torch.testing.assert_close(found, torch.tensor(target).double(), rtol=0, atol=1e-4)
    assert value == pytest.approx(7)
    again, _, _ = minimise(cost, torch.zeros(3, dtype=torch.float64), inverse, steps=100)
    torch.testing.assert_close(again, found, rtol=0, atol=1e-3)


def test_nobody_goes_on_from_the_last_step_of_a_trial() -> None:
    """The same minimum and cost, and a gradient less."""
    slopes: list[bool] = []

    def cost(theta: torch.Tensor) -> torch.Tensor:
        slopes.append(theta.requires_grad)
        return ((theta - 3) ** 2).sum() + (theta**4).sum()

    start = torch.tensor([2.0, -1.0]).double()
    ends = [minimise(cost, start, steps=2, to_go_on=to_go_on) for to_go_on in (True, False)]
    torch.testing.assert_close(ends[0][:2], ends[1][:2], rtol=0, atol=0)
    assert slopes[: len(slopes) // 2] == [True] * (len(slopes) // 2)
    assert slopes[-1] is False


def test_minimise_steps_back_from_where_the_cost_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TOLERANCE", 1e-12)
    tried: list[float] = []

    def cost(theta: torch.Tensor) -> torch.Tensor:
        tried.append(theta.item())
        return (5 * theta - 0.1 * theta.log()).sum()

    found, value, _ = minimise(cost, torch.tensor([0.2]).double())
    assert min(tried) <= 0
    assert found.item() == pytest.approx(0.02, rel=1e-3)
    assert value == pytest.approx(0.1 - 0.1 * math.log(0.02))


def test_the_basis_is_not_turned_by_an_outlier() -> None:
    table = draw(200, 3, seed=2)
    sources = Sources.of(table.values, table.source)
    clean = fit_eigenbasis(sources, Shrinkage())
    values = sources.values.copy()
    values[0] += 100.0
    dirty = fit_eigenbasis(replace(sources, values=values), Shrinkage())
    np.testing.assert_allclose(dirty.var_between[1:], clean.var_between[1:], rtol=0.5)
    within = clean.axes.T @ np.cov(sources.contrasts()[0].T) @ clean.axes
    np.testing.assert_allclose(within - np.diag(np.diag(within)), 0, atol=0.3)


def test_all_components_are_the_features_turned() -> None:
    """With all components and diagonals that hardly count, the axes are those of the features, up to their signs."""
    table = draw(300, 4, 3, seed=3)
    sources = Sources.of(table.values, table.source)
    features, turned = (
        fit_eigenbasis(sources, Shrinkage(within=1e-6, between=1e-6, components=c)) for c in (False, True)
    )
    np.testing.assert_allclose(turned.var_between, features.var_between, rtol=0.1)
    cosine = (turned.axes * features.axes).sum(0) / np.linalg.norm(turned.axes, axis=0)
    cosine = np.abs(cosine / np.linalg.norm(features.axes, axis=0))
    assert (cosine > 0.98).all()
    np.testing.assert_allclose(np.linalg.norm(turned.directions, axis=1), 1)


def test_the_stabiliser_finds_a_trend_and_leaves_a_level_feature_alone() -> None:
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(400, 1, 2))
    values = theta + 0.05 * np.exp(np.array([0.6, 0.0]) * theta) * rng.normal(size=(400, 2, 2))
    sources = Sources.of(values.reshape(-1, 2), np.repeat([f"{i:03d}" for i in range(400)], 2))
    slope = fit_stabiliser(sources).slope[0, 0]
    assert 0.3 < slope[0] < 0.7
    assert abs(slope[1]) < 0.12


@pytest.mark.usefixtures("short_search")
def test_it_is_saved_and_loaded_as_plain_tensors(tmp_path: Path) -> None:
    model, tests = fit(draw(60, 3))
    save_file(flat(model), tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    assert set(stored) == set(flat(model))
    names = iter(flat(model))
    loaded = model.map(lambda t: torch.zeros_like(t)).map(lambda t: stored[next(names)])  # fields in their order
    x = torch.from_numpy(tests[0].trace.mean)[None]
    torch.testing.assert_close(loaded.ln_lr(x, x), model.ln_lr(x, x), rtol=0, atol=0)

"""Training: the loss is Cllr, runs do not touch each other, the truth is recovered."""

from __future__ import annotations

from itertools import chain
from typing import cast, get_args

import numpy as np
import pytest
import torch

from lindley.errors import LindleyError
from lindley.evaluation import analyse_axes, cllr
from lindley.llrs import LLRs
from lindley.models.between import NormalBetween
from lindley.models.fitting import find_spikes
from lindley.models.neural.batches import PairBatches, SourceBatches, _at
from lindley.models.neural.fit import Training, train
from lindley.models.neural.parameters import Architecture, OrthonormalKind, Parameters
from lindley.models.neural.program import Program
from lindley.models.two_level import TwoLevel, map_tensors, score, take_runs
from lindley.table.splits import Part
from tests.models.neural.test_batches import epoch_of
from tests.models.test_classical import labels, sources

MODES = ["pairs", "sources"]
MIX = np.array([[1.0, 0.5, 0.0], [-0.3, 1.0, 0.4], [0.2, -0.6, 1.0]])


def normal_sources(seed: int, n: int) -> Part:
    """A normal–normal model with known covariances: within 1, between (9, 4, 1), mixed by a fixed matrix."""
    rng = np.random.default_rng(seed)
    means = np.repeat(rng.normal(size=(n, 3)) * [3.0, 2.0, 1.0], 2, axis=0)
    values = (means + rng.normal(size=means.shape)) @ MIX / 3
    return Part(values, np.repeat(labels(n), 2), np.arange(2 * n) % 2 == 0)


def cllr_of(model: TwoLevel, parts: list[Part]) -> list[float]:
    scores = score(model, [p.trace for p in parts], [p.ref for p in parts])
    return [cllr(LLRs.from_matrix(s, p.trace.source, p.ref.source)) for s, p in zip(scores, parts, strict=True)]


def quick(mode: str, epochs: int, **more: object) -> Training:
    return Training(mode, epochs=epochs, batch=20, learning_rate=0.02, watched=50, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("projection", ["single", "double"])
@pytest.mark.parametrize("components", [1, 2])
def test_learns_and_keeps_the_best_epoch(mode: str, projection: str, components: int) -> None:
    tr, va = [normal_sources(s, 80) for s in (1, 2)], [normal_sources(s, 70) for s in (3, 4)]
    architecture = Architecture(projection, 2, components)  # type: ignore[arg-type]
    trained = train(architecture, quick(mode, 25), tr, va, [5, 6])
    history = trained.history
    assert history.train.shape == history.validate.shape == (2, 25)
    assert (history.validate[:, -1] < 0.9 * history.validate[:, 0]).all()
    np.testing.assert_array_equal(history.best_epoch, history.validate.argmin(axis=1))
    assert history.validate_axes is not None
    assert history.validate_axes.shape == (2, 25, 3)
    assert trained.model.projection.dtype == torch.float64
    # The kept model has the validation Cllr of its best epoch, as the evaluation module computes it.
    np.testing.assert_allclose(cllr_of(trained.model, va), history.validate.min(axis=1), rtol=1e-3)


def test_the_focus_is_the_cllr_of_the_axes_that_do_not_mislead() -> None:
    """Where all pairs are watched, that of the model which was kept is known; one feature is noise to validation sources."""
    tr, va = [normal_sources(s, 40) for s in (1, 2)], [normal_sources(s, 40) for s in (3, 4)]
    noise = np.random.default_rng(7).normal(size=(80, 3)) * [0.0, 0.0, 4.0]
    va = [part.with_values(part.values + noise) for part in va]
    training = Training(epochs=4, batch=20, watched=10**6, dtype=torch.float64)
    trained = train(Architecture("single", 2), training, tr, va, [5, 6])
    history, left_out = trained.history, 0
    assert history.validate_focus is not None
    assert history.validate_focus.shape == (2, 4)
    for run, part in enumerate(va):
        analysis = analyse_axes(trained.model, part, run=run, most_different=None)
        chosen = analysis.cllr <= 1
        left_out += int((~chosen).sum())
        focused = LLRs(analysis.same[:, chosen].sum(1), analysis.different[:, chosen].sum(1))
        assert history.validate_focus[run, history.best_epoch[run]] == pytest.approx(cllr(focused), rel=1e-9)
    assert 0 < left_out < 6


@pytest.mark.parametrize("mode", MODES)
def test_a_run_alone_equals_the_run_among_others(mode: str) -> None:
    """Runs of different sizes, in different groups of batch numbers: each depends on its own data and seed alone."""
    n = [80, 83, 55, 81, 61]
    tr, va = [normal_sources(i, k) for i, k in enumerate(n)], [normal_sources(i + 9, k) for i, k in enumerate(n)]
    seeds = [11, 12, 13, 14, 15]
    training = quick(mode, 6, dtype=torch.float64)
    together = train(Architecture("double", 2), training, tr, va, seeds)
    for run in range(5):
        alone = train(Architecture("double", 2), training, [tr[run]], [va[run]], [seeds[run]])
        np.testing.assert_allclose(together.history.train[run], alone.history.train[0], rtol=1e-9)
        np.testing.assert_allclose(together.history.validate[run], alone.history.validate[0], rtol=1e-9)
        for name, tensor in alone.parameters.tensors().items():
            torch.testing.assert_close(together.parameters.tensors()[name][run], tensor[0], rtol=1e-7, atol=1e-9)


def test_what_single_precision_costs() -> None:
    tr, va = [normal_sources(1, 80)], [normal_sources(2, 80)]
    results = [
        train(Architecture(), quick("pairs", 30, dtype=dtype), tr, va, [1]).history.validate
        for dtype in (torch.float32, torch.float64)
    ]
    assert np.abs(results[0] - results[1]).max() < 1e-3  # of a Cllr that falls from 0.82 to 0.50


def test_the_pairs_loss_is_the_cllr_of_its_pairs() -> None:
    part = sources(1, 30, 2, 3)
    program = Program(
        Architecture("single", 2), Training("pairs", epochs=1, batch=30, watched=0, dtype=torch.float64),
        [part], [part], [0], None,
    )  # fmt: skip
    model = program.net()
    same, different = (list(chain(*pairs)) for pairs in epoch_of(cast(PairBatches, program.batches), 0))
    (llr,) = score(model.map(torch.Tensor.detach), [part.trace], [part.ref])
    expected = cllr(LLRs([llr[pair] for pair in same], [llr[pair] for pair in different]))  # type: ignore[arg-type]
    assert program._loss(model, program.batches.deal(program.epoch), 0).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("counts", [2, 3, "ragged"])
def test_the_sources_loss_and_its_store(counts: int | str) -> None:
    """First batch: only its own instances are stored. After an epoch: everything is, and the loss is that of all pairs."""
    n = 40
    replicates = np.arange(n) % 3 + 1 if counts == "ragged" else int(counts)
    part = sources(1, n, replicates, 3)  # type: ignore[arg-type]
    training = Training("sources", epochs=3, batch=20, watched=0, learning_rate=0.0, dtype=torch.float64)
    program = Program(Architecture("single", 2), training, [part], [part], [0], None)
    model, batches = program.net(), cast(SourceBatches, program.batches)

    def batch_of(batch: int) -> list[int]:
        return _at(batches.rows[batch], batches.deal(program.epoch))[0].tolist()

    def loss(batch: int) -> float:
        return program._loss(model, program.batches.deal(program.epoch), batch).item()

    def expected(batch: int, stored: list[int]) -> float:
        codes = np.unique(part.source, return_inverse=True)[1]
        own = np.array(batch_of(batch))
        values = torch.from_numpy(part.values)[None]
        rows, columns = (np.flatnonzero(np.isin(codes, which)) for which in (own, stored))
        with torch.no_grad():
            ln_lr = model.ln_lr(values[:, rows], values[:, columns])[0].numpy() / np.log(10)
            within = model.ln_lr(values, values)[0].numpy() / np.log(10)
        same = [within[i, j] for i in rows for j in range(len(codes)) if codes[i] == codes[j] and i < j]
        return cllr(LLRs(np.array(same), ln_lr[codes[rows][:, None] != codes[columns][None, :]]))

    assert loss(0) == pytest.approx(expected(0, batch_of(0)), rel=1e-9)
    assert loss(1) == pytest.approx(expected(1, batch_of(0) + batch_of(1)), rel=1e-9)
    assert int(batches.stored.sum()) == len(part.values)
    program.epoch += 1
    assert loss(0) == pytest.approx(expected(0, list(range(n))), rel=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_recovery(mode: str) -> None:
    """Data from the model: after training, test Cllr is within 10 % of the oracle's."""
    one = torch.ones(1, 1, 3, dtype=torch.float64)
    truth = TwoLevel(
        0 * one, torch.from_numpy(np.linalg.inv(MIX / 3))[None], one, one,
        NormalBetween(0 * one, torch.tensor([[[9.0, 4.0, 1.0]]], dtype=torch.float64)),
    )  # fmt: skip
    test = [normal_sources(3, 600)]
    training = Training(mode, epochs=80, learning_rate=0.02, watched=0)  # type: ignore[arg-type]
    trained = train(Architecture("double", 1), training, [normal_sources(1, 400)], [normal_sources(2, 300)], [0])
    (ours,), (oracle,) = cllr_of(trained.model, test), cllr_of(truth, test)
    assert ours < 1.10 * oracle


def test_fine_tuning_starts_where_the_first_training_ended() -> None:
    tr, va = [normal_sources(1, 60)], [normal_sources(2, 60)]
    first = train(Architecture("double", 1), quick("pairs", 20), tr, va, [1])
    frozen = Training("pairs", epochs=1, learning_rate=0.0, weight_decay=0.0, dtype=torch.float64)
    second = train(Architecture("double", 1), frozen, tr, va, [1], start=first.parameters)
    np.testing.assert_allclose(second.history.validate[0, 0], first.history.validate.min(), rtol=1e-3)
    many = take_runs(first.parameters, [0, 0, 0])
    third = train(Architecture("double", 2), quick("sources", 2), tr * 3, va * 3, [1, 2, 3], start=many)
    assert third.history.validate[:, 0].max() < 1.2 * first.history.validate.min()


@pytest.mark.parametrize("kind", get_args(OrthonormalKind))
@pytest.mark.parametrize("projection", ["single", "double"])
def test_fine_tuning_begins_at_its_start(kind: str, projection: str) -> None:
    tr, va = [normal_sources(1, 60)], [normal_sources(2, 60)]
    architecture = Architecture(projection, 1, orthonormal=kind)  # type: ignore[arg-type]
    first = train(architecture, quick("pairs", 10, dtype=torch.float64), tr, va, [1])
    frozen = Training("pairs", epochs=1, learning_rate=0.0, weight_decay=0.0, dtype=torch.float64)
    second = train(architecture, frozen, tr, va, [1], start=first.parameters)
    assert second.history.validate[0, 0] == pytest.approx(first.history.validate.min(), rel=1e-9)


def test_what_cannot_be_trained_is_told() -> None:
    tr, va = [normal_sources(1, 30)], [normal_sources(2, 30)]
    with pytest.raises(ValueError, match="epochs must be 1 or more"):
        Training(epochs=0)
    start = Parameters.random(Architecture(), 3, [0])
    with pytest.raises(ValueError, match="one of each per run"):
        train(Architecture(), quick("pairs", 1), tr, va, [0], start=take_runs(start, [0, 0]))
    with pytest.raises(ValueError, match="one of each per run"):
        train(Architecture(), quick("pairs", 1), tr, va + va, [0])
    with pytest.raises(LindleyError, match="for 4 features, and the table has 3"):
        train(Architecture(), quick("pairs", 1), tr, va, [0], start=Parameters.random(Architecture(), 4, [0]))
    broken = map_tensors(start, lambda t: t * torch.nan)
    with pytest.raises(LindleyError, match="diverged"):
        train(Architecture(), quick("pairs", 1), tr, va, [0], start=broken)


def test_one_source_has_no_different_source_pair() -> None:
    with pytest.raises(LindleyError, match="at least two sources"):
        train(Architecture(), quick("pairs", 1), [sources(1, 1, 2, 3)], [sources(2, 5, 2, 3)], [0])


def test_an_interrupt_stops_all_programs() -> None:
    """What the progress callback raises, as Ctrl-C does, ends the training soon, and not after its last epoch."""
    parts = [normal_sources(seed, 60) for seed in range(4)]
    calls = []

    def progress(epoch: int, cllr: float) -> None:
        calls.append(epoch)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Architecture(), quick("pairs", 20_000), parts, parts, [0, 1, 2, 3], progress=progress)
    assert len(calls) <= 2  # the other program is told at its next report


def test_spikes() -> None:
    loss = np.linspace(1, 0.5, 100)
    assert find_spikes(loss).size == 0
    loss[40:43] = 3
    loss[70] = 1.5
    np.testing.assert_array_equal(find_spikes(loss), [40, 70])
    assert find_spikes(loss[:10]).size == 0

"""Training neural PLDA: its start, its cost and the gradient of that, and runs that do not meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.classical import fit_classical
from lindley.models.fitting import History, Progress, Task, silent
from lindley.models.neural import nplda
from lindley.models.neural.nplda import BETAS, Quadratic, soft_detection_cost, train
from lindley.models.two_level import TwoLevel, score
from lindley.table.splits import Part


def simulate(n: int, seed: int, p: int = 3, refs: int | None = None) -> Part:
    """Sources with heavy tails within; of all or of the first ``refs`` of them a ref."""
    rng = np.random.default_rng(seed)
    theta = 3 * rng.normal(size=(n, p))
    noise = rng.normal(size=(2, n, p)) / np.sqrt(rng.gamma(1.5, size=(2, n, 1)) / 1.5)
    values = (theta + noise).reshape(-1, p)
    source = np.array([f"S{i:04d}" for i in range(n)] * 2)
    is_trace = np.arange(2 * n) < n
    keep = np.arange(2 * n) < n + (n if refs is None else refs)
    return Part(values[keep], source[keep], is_trace[keep])


def parts(runs: int = 2) -> tuple[list[Part], list[Part]]:
    return [simulate(60 + 5 * k, k) for k in range(runs)], [simulate(50 + 3 * k, 100 + k) for k in range(runs)]


def trained(
    learn: list[Part], validate: list[Part], seeds: list[int], progress: Progress = silent, **options: int
) -> tuple[TwoLevel, History]:
    return train(Task(learn, validate, seeds, options, progress=progress))


def hard_cost(score: Tensor, same: Tensor, beta: float) -> float:
    """P_miss + β P_fa, by counting."""
    accepted = score > math.log(beta)
    return float((~accepted[same]).double().mean() + beta * accepted[~same].double().mean())


def weights(same: Tensor) -> tuple[Tensor, Tensor]:
    return same.double() / same.sum(), (~same).double() / (~same).sum()


def test_the_start_is_the_classical_model() -> None:
    learn, validate = parts()
    model, history = trained(learn, validate, [0, 1], epochs=0)
    plain = fit_classical(learn, "normal")
    traces, refs = [p.trace for p in validate], [p.ref for p in validate]
    for a, b in zip(score(model, traces, refs), score(plain, traces, refs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert isinstance(model.between, Quadratic)
    torch.testing.assert_close(model.between.var, plain.between_moments()[1])
    assert history.train.shape == history.validate.shape == (2, 1)


def test_the_cost_of_clear_scores_is_that_of_counting() -> None:
    """Scores far from the thresholds: the logistic function is a step."""
    g = torch.Generator().manual_seed(0)
    scores = 60 * torch.randn(1, 30, 30, generator=g, dtype=torch.float64)
    far = (scores.abs() - 5).abs() > 15
    scores = torch.where(far, scores, 40.0)
    same = torch.eye(30, dtype=torch.bool)[None]
    expected = sum(hard_cost(scores, same, beta) for beta in BETAS) / 2
    assert soft_detection_cost(scores, *weights(same)).item() == pytest.approx(expected, abs=1e-4)


def test_gradient_of_the_cost() -> None:
    g = torch.Generator().manual_seed(1)
    scores = 4 * torch.randn(2, 5, 6, generator=g, dtype=torch.float64)
    same = torch.eye(5, 6, dtype=torch.bool).expand(2, -1, -1)
    same_weight, different_weight = weights(same)
    assert torch.autograd.gradcheck(
        lambda s: soft_detection_cost(s, same_weight, different_weight), scores.requires_grad_()
    )


def test_gradient_in_the_weights() -> None:
    """All that is trained moves the cost, as differences say."""
    learn, _ = parts(1)
    start = fit_classical(learn, "normal")
    free = nplda._Weights.zero(start)
    items = nplda._Items.of(learn, start.centre)
    with torch.no_grad():
        for k, t in enumerate(free.free):
            t += 0.05 * torch.randn(t.shape, generator=torch.Generator().manual_seed(k), dtype=t.dtype)

    def cost(*tensors: Tensor) -> Tensor:
        return items.cost(nplda._Weights(free.start, list(tensors)).model(start))

    assert torch.autograd.gradcheck(cost, tuple(free.free), eps=1e-6, atol=1e-6)


def test_training_lowers_the_cost_and_keeps_the_best_epoch() -> None:
    learn, validate = parts()
    model, history = trained(learn, validate, [0, 1], epochs=100)
    at = history.best_epoch
    assert (at > 0).all()
    rows = np.arange(2)
    assert (history.validate[rows, at] < history.validate[:, 0]).all()
    assert (history.validate[rows, at] == history.validate.min(axis=1)).all()
    assert (history.train[:, -1] < history.train[:, 0]).all()
    # The model that came back is the one of that epoch.
    for run, part in enumerate(validate):
        llr = score(model, [p.trace for p in validate], [p.ref for p in validate])[run]
        ln_lr = torch.from_numpy(llr * math.log(10))[None]
        same = torch.from_numpy(part.trace.source[:, None] == part.ref.source)[None]
        cost = soft_detection_cost(ln_lr, *weights(same)).item()
        assert cost == pytest.approx(history.validate[run, at[run]], rel=1e-9)


def test_a_run_alone_equals_a_run_among_others_and_the_next_time() -> None:
    learn, validate = parts(3)
    whole, of_whole = trained(learn, validate, [5, 6, 7], epochs=40)
    again, _ = trained(learn, validate, [5, 6, 7], epochs=40)
    assert torch.equal(whole.projection, again.projection)
    for run in range(3):
        alone, history = trained(learn[run : run + 1], validate[run : run + 1], [5 + run], epochs=40)
        torch.testing.assert_close(alone.projection[0], whole.projection[run], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(history.validate[0], of_whole.validate[run], rtol=1e-8)


def test_of_many_sources_some_are_drawn_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nplda, "MOST_SOURCES", 30)
    learn, validate = parts(1)
    one, two, other = (trained(learn, validate, [seed], epochs=10) for seed in (1, 1, 2))
    assert torch.equal(one[0].projection, two[0].projection)
    assert not np.array_equal(one[1].train, other[1].train)
    # Every epoch has other sources: the cost on the training part is not that of all.
    monkeypatch.setattr(nplda, "MOST_SOURCES", 512)
    assert trained(learn, validate, [1], epochs=0)[1].train[0, 0] != one[1].train[0, 0]


def test_sources_without_a_ref_are_traces_only() -> None:
    part = simulate(40, 3, refs=25)
    items = nplda._Items.of([part, simulate(50, 4)], torch.zeros(1, dtype=torch.float64))
    same, different = items.shares
    assert torch.count_nonzero(same[0]) == 25
    assert torch.count_nonzero(different[0]) == 40 * 25 - 25
    torch.testing.assert_close(same.sum((1, 2)), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(different.sum((1, 2)), torch.ones(2, dtype=torch.float64))


def test_progress_and_errors() -> None:
    learn, validate = parts(1)
    seen: list[tuple[str, float]] = []
    trained(learn, validate, [0], lambda detail, share: seen.append((detail.partition(",")[0], share)), epochs=12)
    assert seen == [("epoch 0 of 12", 0.0), ("epoch 10 of 12", 10 / 12), ("epoch 12 of 12", 1.0)]
    with pytest.raises(LindleyError, match="measured twice"):
        trained(learn, [simulate(10, 1, refs=0)], [0])
    with pytest.raises(ValueError, match="2 seeds"):
        trained(learn, validate, [0, 1])

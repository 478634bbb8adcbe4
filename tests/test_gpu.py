"""On a GPU: the numbers of a processor. Skipped where torch sees none."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
import pytest
import torch

from lindley.models.fitting import Task
from lindley.models.neural.fit import Training, train
from lindley.models.neural.nplda import train as train_nplda
from lindley.models.neural.parameters import Architecture
from lindley.models.pairs import score_pairs
from lindley.models.two_level import score, take_runs
from lindley.system.fit import Settings, score_runs
from lindley.table.splits import Side
from tests.kinds import MODELS, PARTS
from tests.models.test_classical import labels, sources

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")


def items(seed: int, n: int) -> Side:
    """Items of one, two or three instances."""
    part = sources(seed, n, np.arange(n) % 3 + 1, 3)
    return Side(part.values, np.unique(part.source, return_inverse=True)[1], labels(n))


@pytest.mark.parametrize("kind", MODELS)
def test_llrs(kind: str) -> None:
    model = MODELS[kind]()
    there = model.map(lambda t: t.to("cuda"))
    traces, refs = [items(3, 40), items(4, 31)], [items(5, 35), items(6, 20)]
    for ours, theirs in zip(score(there, traces, refs), score(model, traces, refs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["trained", "mixture", "common", "varying", "varying, sampled", "quadratic"])
def test_an_experiment_scores_where_it_trains(kind: str) -> None:
    """The runs of a unit, with the LLRs of a processor to 1e-12 of a power of ten."""
    model = MODELS[kind]()
    traces, refs = [items(3, 40), items(4, 31)], [items(5, 35), items(6, 20)]
    there, here = (score_runs(model, traces, refs, Settings(device=device)) for device in ("cuda", "cpu"))
    for ours, theirs in zip(there, here, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_given_pairs(kind: str) -> None:
    model = take_runs(MODELS[kind](), [0])
    there = model.map(lambda t: t.to("cuda"))
    traces, refs = items(3, 40), items(5, 35)
    few = np.arange(5)
    for i, j in ((few, few), (np.repeat(np.arange(40), 35), np.tile(np.arange(35), 40))):
        ours, theirs = (score_pairs(m, traces, refs, i, j) for m in (there, model))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("orthonormal", ["exponential", "householder"])
@pytest.mark.parametrize(("mode", "components"), list(product(("pairs", "sources"), (1, 2))))
def test_training(
    mode: Literal["pairs", "sources"],
    components: int,
    orthonormal: Literal["exponential", "householder"],
    dtype: torch.dtype,
) -> None:
    """With a captured graph and without; what a capture runs to warm up leaves no trace."""
    architecture = Architecture("double", 2, components, orthonormal=orthonormal)
    here, there = (
        train(
            architecture,
            Training(mode, epochs=12, batch=10, device=device, dtype=dtype),
            PARTS,
            PARTS,
            [1, 2],
        )
        for device in ("cpu", "cuda")
    )
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-7}
    np.testing.assert_allclose(there.history.validate, here.history.validate, **close)
    np.testing.assert_array_equal(there.history.best_epoch, here.history.best_epoch)
    sides = [p.trace for p in PARTS], [p.ref for p in PARTS]
    for ours, theirs in zip(score(there.model, *sides), score(here.model, *sides), strict=True):
        np.testing.assert_allclose(ours, theirs, **close)


def test_nplda() -> None:
    here, there = (train_nplda(Task(PARTS, PARTS, [1, 2], {"epochs": 10}, device))[0] for device in ("cpu", "cuda"))
    sides = [p.trace for p in PARTS], [p.ref for p in PARTS]
    for ours, theirs in zip(score(there, *sides), score(here, *sides), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)

"""A training in two worker processes gives the same numbers, and ends as a whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from lindley.models.neural import fit
from lindley.models.neural.fit import Trained, Training, train
from lindley.models.neural.parameters import Architecture
from lindley.workers import Workers
from tests.models.neural.test_training import normal_sources

TRAINING = Training("sources", epochs=6, batch=15, watched=5)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many workers each training wanted, as few runs make two programs, each worth one."""
    monkeypatch.setattr(fit, "WORTH_WORKERS", 0.0)
    monkeypatch.setattr(fit, "FEW_RUNS", 1)
    wanted: list[int] = []
    begin = Workers.__init__
    monkeypatch.setattr(Workers, "__init__", lambda self, number: (wanted.append(number), begin(self, number))[1])
    return wanted


def trained(runs: int = 3, **options: Any) -> Trained:
    learn, validate = ([normal_sources(seed + run, 30) for run in range(runs)] for seed in (1, 11))
    return train(Architecture("double", 2), TRAINING, learn, validate, list(range(runs)), **options)


def test_the_same_numbers(started: list[int]) -> None:
    told: list[int] = []
    ours = trained(progress=lambda epoch, _: told.append(epoch))
    assert max(told) == TRAINING.epochs
    alone = trained(threads=1)
    assert started == [2, 1]
    for name, values in alone.parameters.tensors().items():
        assert torch.equal(ours.parameters.tensors()[name], values), name
    for f in fields(alone.history):
        np.testing.assert_array_equal(getattr(ours.history, f.name), getattr(alone.history, f.name), f.name)


def test_it_ends_when_the_training_is_broken_off(started: list[int]) -> None:
    def stop(epoch: int, cllr: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(progress=stop)
    assert started == [2]

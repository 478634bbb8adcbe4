"""A training whose second half has a process of its own gives the same numbers, and ends as a whole."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from lindley.models.neural import fit
from lindley.models.neural.fit import Trained, Training, train
from lindley.models.neural.parameters import Architecture
from tests.models.neural.test_training import normal_sources

TRAINING = Training("sources", epochs=6, batch=15, watched=5)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were started, as every program but the first has one, and few runs make two."""
    monkeypatch.setattr(fit, "WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr(fit, "FEW_RUNS", 1)
    made: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        made.append(start(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    return made


def trained(runs: int = 3, **options: Any) -> Trained:
    learn, validate = ([normal_sources(seed + run, 30) for run in range(runs)] for seed in (1, 11))
    return train(Architecture("double", 2), TRAINING, learn, validate, list(range(runs)), **options)


def test_the_same_numbers(started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    ours = trained(progress=lambda epoch, _: told.append(epoch))
    assert len(started) == 1
    assert max(told) == TRAINING.epochs
    monkeypatch.setattr(fit, "WORTH_A_PROCESS", 1e9)
    threads = trained()
    assert len(started) == 1
    for name, values in threads.parameters.tensors().items():
        assert torch.equal(ours.parameters.tensors()[name], values), name
    for f in fields(threads.history):
        np.testing.assert_array_equal(getattr(ours.history, f.name), getattr(threads.history, f.name), f.name)


def test_on_one_thread_there_is_one_process(started: list[subprocess.Popen[bytes]]) -> None:
    trained(threads=1)
    assert not started


def test_it_ends_when_the_training_is_broken_off(started: list[subprocess.Popen[bytes]]) -> None:
    def stop(epoch: int, cllr: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(progress=stop)
    assert all(process.poll() is not None for process in started)

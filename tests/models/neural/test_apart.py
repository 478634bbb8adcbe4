"""A program in a process of its own gives the same numbers, tells how far it is, and ends with whoever started it."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from lindley.errors import LindleyError
from lindley.models.neural import apart, fit
from lindley.models.neural.fit import Trained, Training, train
from lindley.models.neural.parameters import Architecture, Parameters
from tests.models.neural.test_training import normal_sources

TRAINING = Training("sources", epochs=6, batch=15, watched=5)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were started, as every program but the first has one."""
    monkeypatch.setattr(fit, "WORTH_A_PROCESS", 0.0)
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


def test_its_errors_arrive(started: list[subprocess.Popen[bytes]]) -> None:
    part = normal_sources(1, 30)
    start = Parameters.random(Architecture(), 2, [0])  # the table has three features
    with pytest.raises(LindleyError, match="2 features"):
        apart.run_apart((Architecture(), TRAINING, [part], [part], [0], start), lambda *_: None)
    assert started[0].poll() is not None


def test_a_process_that_is_gone_is_told(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "__name__", "lindley.models.neural.gone")
    with pytest.raises(LindleyError, match="ended before it was done"):
        trained()


def test_where_no_process_can_be_started_it_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained()
    monkeypatch.setattr(fit, "WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr(apart.sys, "executable", "/there/is/no/such/python")
    for name, values in trained().parameters.tensors().items():
        assert torch.equal(expected.parameters.tensors()[name], values), name

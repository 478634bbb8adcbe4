"""What a laboratory needs of a system, on public glass: one by one or as a batch the same LRs, and quickly."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lindley.system.system import System
from lindley.system.train import train
from lindley.table.datasets import load_dataset
from lindley.table.table import Table
from tests.casework.factory import Floats

CASES = 200


@pytest.fixture(scope="module")
def parts(data_folder: Path) -> tuple[Table, Table]:
    """Two thirds of the sources to train on, and the others."""
    table = load_dataset("nfi-glass", data_folder)
    order = np.random.default_rng(0).permutation(table.sources)
    held_out = np.isin(table.source, order[: len(order) // 3])

    def some(rows: np.ndarray) -> Table:
        chosen = {name: getattr(table, name)[rows] for name in ("values", "source", "group", "instance")}
        return replace(table, **chosen)

    return some(~held_out), some(held_out)


@pytest.fixture(scope="module", params=["tlm-kde", "tlm-kde+logistic"])
def system(request: pytest.FixtureRequest, parts: tuple[Table, Table]) -> System:
    return train(parts[0], request.param, replicates=20)


@pytest.fixture(scope="module")
def pairs(parts: tuple[Table, Table]) -> tuple[list[Floats], list[Floats]]:
    """One measurement of every held-out source as its trace, two as its ref."""
    held_out = parts[1]
    found = [held_out.values[held_out.source == label] for label in held_out.sources]
    chosen = [values for values in found if len(values) >= 3][:CASES]
    return [values[:1] for values in chosen], [values[1:3] for values in chosen]


def test_one_by_one_and_as_a_batch(system: System, pairs: tuple[list[Floats], list[Floats]]) -> None:
    traces, refs = pairs
    assert len(traces) == CASES
    system.llr(traces[0], refs[0])
    taken, one_by_one = [], []
    for trace, ref in zip(traces, refs, strict=True):
        started = time.perf_counter()
        one_by_one.append(system.llr(trace, ref))
        taken.append(time.perf_counter() - started)
    batch = system.llr_matrix(traces, refs)
    np.testing.assert_allclose(np.diag(batch), one_by_one, rtol=1e-9, atol=1e-9)
    assert np.median(taken) < 0.050
    explained = [system.explain(trace, ref).log10_lr for trace, ref in zip(traces[:20], refs[:20], strict=True)]
    np.testing.assert_allclose(explained, one_by_one[:20], rtol=1e-9, atol=1e-9)


def test_a_million_pairs_a_second(system: System, pairs: tuple[list[Floats], list[Floats]]) -> None:
    traces, refs = (list(side) * 6 for side in pairs)
    best = 0.0
    for _ in range(4):  # a busy machine gets a few tries
        started = time.perf_counter()
        matrix = system.llr_matrix(traces, refs)
        best = max(best, matrix.size / (time.perf_counter() - started))
        if best > 1e6:
            break
    assert best > 1e6


def test_held_out_sources_are_told_apart(system: System, pairs: tuple[list[Floats], list[Floats]]) -> None:
    llr = np.clip(system.llr_matrix(*pairs), *system.bounds)
    same = np.eye(len(llr), dtype=bool)
    assert (llr[same] > 0).mean() > 0.97
    assert (llr[~same] < 0).mean() > 0.97

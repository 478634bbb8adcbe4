"""Laws of memory: what a training and a reading may take, and that replicates from weights are those from rows."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from bench.machine import rss_bytes
from bench.memory import _in_a_child

from lindley import read_table
from lindley.models.classical import fit_classical
from lindley.system.train import train
from lindley.table.numbers import NumberCells
from lindley.table.splits import Part
from lindley.table.table import Table


@pytest.mark.skipif(rss_bytes(peak=True) is None, reason="the highest memory of a process is read as Linux tells it")
@pytest.mark.parametrize("model", ["tlm", "tlm-kde", "ntlm-single-pairs-n1"])
def test_a_training_takes_six_times_the_table_and_half_a_gigabyte(model: str) -> None:
    case = {"model": model, "sources": 1000, "instances": 10, "features": 64, "threads": 1}
    found = _in_a_child(case, "bench.train", handed_back=False)
    assert found["table"] == 8 * 1000 * 10 * 64
    assert found["highest"] < 6 * found["table"] + (512 << 20)


def test_no_replicate_is_drawn_as_rows_where_weights_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred replicates of tlm, none asks for instances: with rows, time and memory would grow with their number."""
    rng = np.random.default_rng(1)
    table = Table.from_arrays(
        np.repeat(5 * rng.normal(size=(40, 3)), 3, axis=0) + rng.normal(size=(120, 3)), np.arange(120) // 3
    )
    drawn: list[int] = []
    real = Part.with_values
    monkeypatch.setattr(Part, "with_values", lambda part, values: (drawn.append(len(values)), real(part, values))[1])
    calls = []
    for replicates in (0, 100):
        drawn.clear()
        assert train(table, "tlm", replicates=replicates).runs == 1 + replicates
        calls.append(len(drawn))
    assert calls[0] == calls[1]


@pytest.mark.parametrize("between", ["normal", "kernel"])
@pytest.mark.parametrize(("n", "features"), [(60, 3), (15, 12)])  # the second is shrunk
def test_a_source_that_counts_twice_is_two_sources(between: str, n: int, features: int) -> None:
    rng = np.random.default_rng(n)
    count = rng.integers(1, 5, size=n)
    source = np.repeat([f"{i:03d}" for i in range(n)], count)
    values = np.repeat(3 * rng.normal(size=(n, features)), count, axis=0) + rng.normal(size=(len(source), features))
    part = Part.drawn(values, source)
    times = np.bincount(rng.integers(n, size=n), minlength=n)
    rows = np.concatenate([np.flatnonzero(source == f"{i:03d}") for i in range(n) for _ in range(times[i])])
    copies = [f"{i:03d}#{copy}" for i in range(n) for copy in range(times[i]) for _ in range(count[i])]
    again = Part.drawn(values[rows], np.array(copies))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighed = fit_classical([part], between, [times])  # type: ignore[arg-type]
        plain = [fit_classical([one], between) for one in (part, again)]  # type: ignore[arg-type]
    for run, one in enumerate(plain):
        signs = torch.sign((weighed.projection[run] * one.projection[0]).sum(0))
        assert torch.allclose(weighed.projection[run] * signs, one.projection[0], atol=1e-9)
        assert torch.allclose(weighed.centre[run], one.centre[0], atol=1e-12)
        for own, other in zip(weighed.between_moments(), one.between_moments(), strict=True):
            assert torch.allclose((own[run] * signs).abs(), (other[0] * signs).abs(), atol=1e-9)


def test_numeric_arrays_are_read_without_an_object_for_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own numbers would take four times the array, in rows and in columns."""
    rng = np.random.default_rng(2)
    values, source = rng.normal(size=(3000, 60)), np.repeat(np.arange(600), 5).astype(str)
    looked_at: list[int] = []
    real = NumberCells.__iter__
    monkeypatch.setattr(NumberCells, "__iter__", lambda cells: (looked_at.append(len(cells)), real(cells))[1])
    read_table(values[:300], source=source[:300])  # loads what is needed
    tracemalloc.start()
    table = read_table(values, source=source)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(table.values, values)
    assert looked_at == []
    assert highest < 6 * values.nbytes


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict"])
def test_data_frames_of_numbers_are_read_as_they_are(kind: str) -> None:
    rng = np.random.default_rng(3)
    values, source = rng.normal(size=(30, 4)), [f"s{i // 3}" for i in range(30)]
    columns = {"source": source, **{f"x{i}": values[:, i] for i in range(4)}, "whole": np.arange(30) * 7 % 11}
    data = columns if kind == "dict" else pytest.importorskip(kind).DataFrame(columns)
    table = read_table(data)
    assert np.array_equal(table.values[:, :4], values)
    assert np.array_equal(table.values[:, 4], columns["whole"])

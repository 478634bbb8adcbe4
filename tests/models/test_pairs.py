"""Given pairs score as they do in the matrix of all traces against all refs, whatever the law and however they come."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from lindley.errors import LindleyError
from lindley.models import pairs
from lindley.models.classical import fit_classical
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.pairs import distinct_items, score_pairs
from lindley.models.two_level import TwoLevel, score
from lindley.table.splits import Part, Side

FEATURES = 3


def sources(n: int = 60, replicates: int = 3, seed: int = 0) -> Part:
    rng = np.random.default_rng(seed)
    values = np.repeat(4 * rng.normal(size=(n, FEATURES)), replicates, axis=0)
    values += rng.normal(size=values.shape)
    return Part(
        values, np.repeat([f"{i:03d}" for i in range(n)], replicates), np.arange(n * replicates) % replicates == 0
    )


def models() -> dict[str, TwoLevel]:
    part = sources()
    normal = fit_classical([part], "normal")
    mixture = Parameters.random(Architecture(components=2, within=2), FEATURES, [5]).two_level()
    return {
        "normal": normal,
        "kernel": fit_classical([part], "kernel"),
        "mixture": mixture,
        "common": integrate_common(normal, [60]),
        "varying": integrate_varying(normal, [part]),
    }


@pytest.fixture(scope="module", params=["normal", "kernel", "mixture", "common", "varying"])
def model(request: pytest.FixtureRequest) -> TwoLevel:
    return models()[request.param]


def items(counts: list[int], seed: int) -> Side:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(sum(counts), FEATURES)) * 5
    return Side(values, np.repeat(np.arange(len(counts)), counts), np.arange(len(counts)).astype(np.str_))


@pytest.mark.parametrize("many", [0, 10**9], ids=["one by one", "matrix"])
def test_pairs_are_entries_of_the_matrix(model: TwoLevel, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "BY_AXES", many)
    monkeypatch.setattr(pairs, "OTHERWISE", many)
    monkeypatch.setattr(pairs, "BY_KERNELS", many)
    monkeypatch.setattr(pairs, "BLOCK_MATRIX", 40)
    monkeypatch.setattr(pairs, "BLOCK_PAIRS", 7)
    monkeypatch.setattr(pairs, "BLOCK_KERNELS", 7)
    traces, refs = items([1, 2, 1, 3, 1, 2], 1), items([2, 1, 1, 2, 3, 1, 1, 1, 4, 1], 2)
    rng = np.random.default_rng(3)
    i, j = rng.integers(6, size=80), rng.integers(10, size=80)
    matrix = score(model, [traces], [refs])[0]
    np.testing.assert_allclose(score_pairs(model, traces, refs, i, j), matrix[i, j], rtol=1e-10, atol=1e-10)


def test_no_pairs(model: TwoLevel) -> None:
    none = np.array([], dtype=np.intp)
    assert score_pairs(model, items([1], 1), items([1], 2), none, none).shape == (0,)


def test_distant_pairs_do_not_underflow() -> None:
    model = models()["kernel"]
    traces, refs = items([1, 1], 1), items([1, 1], 2)
    far = Side(refs.values + 1e3, refs.item, refs.source)
    llr = score_pairs(model, traces, far, np.array([0, 1]), np.array([0, 1]))
    assert np.isfinite(llr).all()
    assert (llr < -1000).all()


def test_one_run_at_a_time() -> None:
    model = models()["normal"].map(lambda t: torch.cat([t, t]))
    with pytest.raises(ValueError, match="has 2"):
        score_pairs(model, items([1], 1), items([1], 2), np.array([0]), np.array([0]))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_equal_items_are_one_item(which: list[int]) -> None:
    values = np.arange(4.0 * 2 * 3).reshape(4, 2, 3)
    side, found = distinct_items(values[which])
    assert len(side.source) == len(set(which))
    np.testing.assert_array_equal(side.values.reshape(-1, 2, 3)[found], values[which])


def test_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        def integers(self, *_: object, size: int, **__: object) -> np.ndarray:
            return np.zeros(size, dtype=np.uint64)

    monkeypatch.setattr(np.random, "default_rng", lambda _: Zeros())
    values = np.array([[[1.0, 2.0]], [[2.0, 1.0]], [[1.0, 2.0]]])  # equal sums of bits
    side, which = distinct_items(values)
    assert len(side.source) == 2
    np.testing.assert_array_equal(side.values[which], values[:, 0])


def test_instances_that_were_not_measured() -> None:
    values = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [np.nan, 1.0]]])
    side, which = distinct_items(values)
    assert side.count[which].tolist() == [2, 1]
    np.testing.assert_array_equal(side.mean[which], [[2.0, 3.0], [5.0, 6.0]])
    with pytest.raises(LindleyError, match="pair 2: no instance is without NaN"):
        distinct_items(np.array([[[1.0]], [[np.nan]]]))
    with pytest.raises(LindleyError, match="pair 1: a value is infinite"):
        distinct_items(np.array([[[np.inf]], [[1.0]]]))

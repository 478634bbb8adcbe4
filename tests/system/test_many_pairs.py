"""Very many pairs: every kind of model gives the figures of all of them without a matrix, and holds only a block on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from bench.large import NAMES, sources, system_to_score
from torch.utils._python_dispatch import TorchDispatchMode

from lindley.calibration import Logistic
from lindley.errors import LindleyError
from lindley.evaluation import cllr, cllr_min, compress, summary, tippett
from lindley.llrs import LLRs
from lindley.models.bayes import averaged
from lindley.models.classical import fit_classical
from lindley.models.two_level import TwoLevel, score_there
from lindley.system import fit, system as system_module
from lindley.system.fit import cross_fitted
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Side

FEATURES = 40
LARGEST = 5_500_000
"""Numbers of the largest tensor that may be made: blocks of all models are smaller."""


@cache
def made(name: str, features: int = 5) -> System:
    return system_to_score(name, features, max(80, 3 * features), max(60, 3 * features))


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_the_whole_matrix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "compress", partial(compress, tile=37))
    part, system = sources(90, 5, seed=3), made(name)
    shuffled = np.random.default_rng(0).permutation(90)
    trace = Side(part.trace.values[shuffled], part.trace.item, part.trace.source[shuffled])
    dense = LLRs.from_matrix(system.llr_sides(trace, part.ref), trace.source, part.ref.source)
    small = system.llrs_sides(trace, part.ref)
    np.testing.assert_allclose(small.same, np.sort(dense.same), rtol=1e-9, atol=1e-9)
    assert cllr_min(small) == pytest.approx(cllr_min(dense), rel=1e-9)
    assert cllr(small) == pytest.approx(cllr(dense), rel=1e-7)
    at = np.linspace(-6, 4, 400) + 1e-5
    found = tippett(small, at).different
    assert (found <= tippett(dense, at - 1 / 4000).different + 1e-9).all()
    assert (found >= tippett(dense, at + 1 / 4000).different - 1e-9).all()


class _Largest(TorchDispatchMode):
    """Looks at every tensor that an operation gives: how many numbers the largest has that is no view of a smaller one."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, torch.Tensor):
                self.numbers = max(self.numbers, each.untyped_storage().nbytes() // 8)
        return result


@pytest.mark.parametrize("name", [name for name in NAMES if "+" not in name])
def test_no_tensor_has_a_number_for_every_pair_and_axis(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 × 400 pairs on 40 axes are 6.4 million numbers; 160,000 pairs, and blocks, are fewer."""
    monkeypatch.setattr(averaged, "FACTORS", 1 << 20)  # of 400 members: its blocks are larger than these few pairs
    system, part = made(name, FEATURES), sources(400, FEATURES, seed=4)
    with _Largest() as largest:
        score_there(system.point, system.prepared(part.trace), system.prepared(part.ref))
    assert 400 * 400 <= largest.numbers < LARGEST < 400 * 400 * FEATURES


def test_the_largest_tensor_is_seen() -> None:
    with _Largest() as largest:
        (torch.zeros(300, 1, 40) - torch.zeros(1, 200, 40)).sum(-1)
    assert largest.numbers == 300 * 200 * 40 // 2  # single precision


def test_sides_are_given_as_measurements() -> None:
    system, part = made("tlm"), sources(30, 5, seed=5)
    traces, refs = ([each[None] for each in side.mean] for side in (part.trace, part.ref))
    llrs = system.llrs(traces, refs, part.trace.source.tolist(), part.ref.source.tolist())
    dense = LLRs.from_matrix(system.llr_matrix(traces, refs), part.trace.source, part.ref.source)
    assert summary(llrs)["n_different"] == 30 * 29
    assert cllr_min(llrs) == pytest.approx(cllr_min(dense), rel=1e-12)
    with pytest.raises(LindleyError, match="30 refs and 29 sources"):
        system.llrs(traces, refs, part.trace.source.tolist(), part.ref.source.tolist()[1:])


def grouped(n: int) -> Part:
    """Three sources a group, a few without a ref; half of the different-source pairs are to be mates."""
    part = sources(n, 4, seed=6)
    group = np.repeat([f"g{i // 3}" for i in range(n)], 2)
    kept = part.is_trace | (np.arange(2 * n) % 7 > 0)
    return Part(part.values[kept], part.source[kept], part.is_trace[kept], group[kept], 0.5)


def test_mates_are_counted_without_a_matrix() -> None:
    part = grouped(31)
    groups = dict(zip(part.source.tolist(), part.groups.tolist(), strict=True))
    of_trace, of_ref = (np.array([groups[source] for source in side.source]) for side in (part.trace, part.ref))
    different = part.trace.source[:, None] != part.ref.source
    expected = (of_trace[:, None] == of_ref) & different
    np.testing.assert_array_equal(part.is_mate, expected)
    np.testing.assert_array_equal(part.mates_among(slice(3, 11), slice(8, 30)), expected[3:11, 8:30])
    assert part.n_mates == expected.sum()
    assert part.n_different == different.sum()
    assert part.weight is not None
    assert part.mate_ratio == part.weight[expected][0] / part.weight[different & ~expected][0]


def test_held_out_pairs_of_a_large_table_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    part = grouped(60)

    def learn(rest: Part) -> tuple[TwoLevel, Callable[[Part], Part]]:
        return fit_classical([rest], "normal"), lambda part: part

    dense = cross_fitted(part, [lambda: part], learn, np.random.default_rng(1))[0]()
    monkeypatch.setattr(fit, "MANY_PAIRS", 10)
    small = cross_fitted(part, [lambda: part], learn, np.random.default_rng(1))[0]()
    np.testing.assert_allclose(small.same, np.sort(dense.same), rtol=1e-12)
    assert cllr_min(small) == pytest.approx(cllr_min(dense), rel=1e-12)
    assert cllr(small) == pytest.approx(cllr(dense), rel=1e-7)
    assert small.weights[1].sum() == pytest.approx(dense.weights[1].sum(), rel=1e-12)
    one, other = Logistic.fit(dense), Logistic.fit(small)
    assert (other.slope, other.intercept) == pytest.approx((one.slope, one.intercept), abs=1e-6)


@pytest.mark.parametrize("model", ["tlm+logistic", "ntlm-single-pairs-n1+pav"])
def test_a_system_of_many_held_out_pairs(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = simulate_table(glass_population(), 60, 3, seed=2)
    options = {"epochs": 3} if "ntlm" in model else None
    dense = train(table, model, replicates=1, options=options)
    monkeypatch.setattr(fit, "MANY_PAIRS", 10)
    small = train(table, model, replicates=1, options=options)
    assert small.bounds == pytest.approx(dense.bounds, abs=0.011)  # a step of ELUB
    before, after = dense.about["validation"], small.about["validation"]
    assert after["pairs_different"] == before["pairs_different"]
    assert after["cllr"] == pytest.approx(before["cllr"], rel=1e-4)
    for run in range(2):
        points = np.linspace(-3, 3, 50)
        np.testing.assert_allclose(small.calibrated(points, run), dense.calibrated(points, run), atol=2e-3)

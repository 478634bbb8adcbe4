"""The oracle is the floor, and it is calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from lindley.evaluation.metrics import cllr, cllr_cal
from lindley.llrs import LN10, LLRs
from lindley.models.classical import fit_classical
from lindley.models.oracle import oracle
from lindley.models.two_level import score
from lindley.table.scaling import Scaling
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part


@pytest.fixture(scope="module")
def parts() -> tuple[Part, Part]:
    table = simulate_table(glass_population(), 1200, 2, seed=7)
    is_trace = np.arange(len(table.values)) % 2 == 0
    whole = Part(table.values, table.source, is_trace)
    return _rows(whole, slice(0, 1400)), _rows(whole, slice(1400, None))


def _rows(part: Part, rows: slice) -> Part:
    return Part(part.values[rows], part.source[rows], part.is_trace[rows])


def _llrs(model: object, part: Part) -> LLRs:
    (llr,) = score(model, [part.trace], [part.ref])  # type: ignore[arg-type]
    return LLRs.from_matrix(llr, part.trace.source, part.ref.source)


def test_the_oracle_is_the_floor_and_calibrated(parts: tuple[Part, Part]) -> None:
    train, test = parts
    unit = Scaling(np.zeros(18), np.ones(18))
    truth = _llrs(oracle(glass_population(), unit), test)
    fitted = _llrs(fit_classical([train], "kernel"), test)
    assert cllr(truth) < 0.3 * cllr(fitted)
    assert cllr(truth) < 0.01
    assert cllr_cal(truth) < 0.004
    # The mean LR of different-source pairs is one for true LRs (Good, 1950): here within its own spread.
    lr = np.exp(LN10 * truth.different)
    assert abs(lr.mean() - 1) < 4 * lr.std() / np.sqrt(len(test.trace.source))


def test_scaling_is_undone(parts: tuple[Part, Part]) -> None:
    test = _rows(parts[1], slice(0, 40))
    unit = Scaling(np.zeros(18), np.ones(18))
    scaling = Scaling.fit(parts[0].values, glass_population().features, "here")
    raw = _llrs(oracle(glass_population(), unit), test)
    scaled = _llrs(oracle(glass_population(), scaling), test.with_values(scaling(test.values)))
    np.testing.assert_allclose(scaled.different, raw.different, rtol=1e-8, atol=1e-8)

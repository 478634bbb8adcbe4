"""Three levels, population, group and source, from simulated truth through the fit: both propositions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lindley.evaluation.metrics import cllr
from lindley.llrs import LN10, Floats
from lindley.models.robust.fit import fit_robust
from lindley.models.robust.model import WAYS, Robust
from lindley.models.two_level import score
from lindley.table.splits import Part

BETWEEN, GROUP = np.array([60.0, 40.0, 30.0]), np.array([6.0, 4.0, 3.0])
"""Variances of groups, and of the sources of a group, where replicates have variance one."""


def draw(groups: int, seed: int, size: int = 3, mates: float | None = None) -> Part:
    """Two instances of every source, each feature being an axis."""
    rng = np.random.default_rng(seed)
    n = groups * size
    of_group = np.sqrt(BETWEEN) * rng.normal(size=(groups, 3))
    of_source = np.repeat(of_group, size, axis=0) + np.sqrt(GROUP) * rng.normal(size=(n, 3))
    values = np.repeat(of_source, 2, axis=0) + rng.normal(size=(2 * n, 3))
    source = np.repeat([f"s{i:04d}" for i in range(n)], 2)
    group = np.repeat([f"g{i // size:04d}" for i in range(n)], 2)
    return Part.drawn(values, source, group, mates=mates)


def truth(part: Part, *, mates: bool) -> Floats:
    """True log10 LRs of all pairs, if the other source is of the same group, or of another."""
    x, y = part.trace.values[:, None], part.ref.values[None]
    total, shared = BETWEEN + GROUP + 1, BETWEEN + GROUP

    def ln_joint(covariance: Floats) -> Floats:
        determinant = total**2 - covariance**2
        square = (total * (x**2 + y**2) - 2 * covariance * x * y) / determinant
        return np.asarray(-0.5 * (square + np.log(determinant)).sum(-1))

    return (ln_joint(shared) - ln_joint(BETWEEN if mates else 0 * BETWEEN)) / LN10


@pytest.fixture(scope="module")
def fitted() -> Robust:
    return fit_robust([draw(40, 0, mates=0.01)]).model


@pytest.mark.parametrize("mates", [False, True])
def test_both_propositions_are_near_the_truth(fitted: Robust, mates: bool) -> None:
    test = draw(70, 1)
    matrix = score(fitted.under(float(mates)), [test.trace], [test.ref])[0]
    same = test.trace.source[:, None] == test.ref.source
    other = test.is_mate if mates else ~same & ~test.is_mate
    best, found = (cllr(llr[same], llr[other]) for llr in (truth(test, mates=mates), matrix))
    assert found < best + 0.07
    if mates:  # the LR for the wrong proposition would mislead
        wrong = score(fitted.under(0.0), [test.trace], [test.ref])[0]
        assert cllr(wrong[same], wrong[other]) > found + 0.2


def test_h2_is_a_mixture_of_both(fitted: Robust) -> None:
    """1/LR is linear in how often H2 means a mate: p(x, y | H2) is, and H1 does not know of it."""
    test = draw(10, 2)
    others, mates, some = (10 ** -score(fitted.under(m), [test.trace], [test.ref])[0] for m in (0.0, 1.0, 0.3))
    np.testing.assert_allclose(some, 0.7 * others + 0.3 * mates, rtol=1e-9)
    assert float(fitted.mates) == 0.01
    assert float(fitted.under(1.0).ln_ceiling) < float(fitted.under(0.0).ln_ceiling)
    assert fitted.relatedness.shape == (1, 2, len(WAYS))


@pytest.mark.usefixtures("short_search")
def test_without_groups_nothing_is_known_of_them() -> None:
    model = fit_robust([draw(30, 4, size=1)]).model
    assert not model.knows_mates
    assert float(model.mates) == 0
    assert model.relatedness.shape[1] == 1


@pytest.mark.usefixtures("short_search")
def test_groups_that_are_there_count_as_often_as_in_the_part_unless_a_share_is_given() -> None:
    part = draw(12, 5)
    given = Part.drawn(part.values, part.source, part.group, mates=part.mate_share)
    one, two = (fit_robust([each]).model for each in (part, given))
    torch.testing.assert_close(one.relatedness, two.relatedness)
    assert float(one.mates) == pytest.approx(2 / 35)

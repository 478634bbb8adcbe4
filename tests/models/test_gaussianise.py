from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, norm, skew

from lindley.models.flow import Flow
from lindley.models.gaussianise import GAUSSIANISERS, Gaussianiser, fit_gaussianiser


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_skewed_features_become_normal(kind: Gaussianiser) -> None:
    rng = np.random.default_rng(0)
    # A flow bends up to five standard deviations from the mean, where some of a stronger skew is.
    n, strength, least = (500, 0.5, 1.3) if kind == "flow" else (3000, 1.0, 2.0)
    train, test = np.exp(strength * rng.normal(size=(2, n, 2)))
    transform = fit_gaussianiser(kind, train, source=np.arange(n))
    new = transform(test)
    assert np.abs(skew(test)).min() > least
    assert np.abs(skew(new)).max() < (0.3 if kind == "flow" else 0.2)
    if kind == "quantile":
        assert kstest(new[:, 0], "norm").pvalue > 0.01


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_monotone_finite_and_fitted_on_train_only(kind: Gaussianiser) -> None:
    rng = np.random.default_rng(1)
    train = rng.normal(size=(500, 1))
    transform = fit_gaussianiser(kind, train, source=np.arange(500))
    grid = np.linspace(-50, 50, 1001)[:, None]
    new = transform(grid)
    assert np.isfinite(new).all()
    assert (np.diff(new[:, 0]) >= 0).all()
    np.testing.assert_array_equal(transform(grid[:10]), new[:10])


def test_extremes_of_the_quantile_transform_are_those_of_normal_values() -> None:
    values = np.random.default_rng(2).normal(size=(700, 2)) ** 3
    new = fit_gaussianiser("quantile", values)(np.r_[values, [[1e9, -1e9]]])
    assert np.abs(new).max() == pytest.approx(norm.isf(0.5 / 700))
    assert np.sort(new[:700, 0])[-2] > 2.5  # and the second largest is not far behind


def test_a_flow_gets_sources_groups_and_seed() -> None:
    values = np.exp(np.random.default_rng(3).normal(size=(80, 2)))
    source = np.repeat(np.arange(40), 2)
    kinds = {"plain": {}, "grouped": {"group": source // 4}, "seeded": {"seed": 1}}
    made = {
        name: fit_gaussianiser("flow", values, source=source, **more)(values)  # type: ignore[arg-type]
        for name, more in kinds.items()
    }
    assert isinstance(fit_gaussianiser("flow", values, source=source), Flow)
    assert (made["plain"] != made["grouped"]).any()
    assert (made["plain"] != made["seeded"]).any()
    with pytest.raises(ValueError, match="which one every row is of"):
        fit_gaussianiser("flow", values)

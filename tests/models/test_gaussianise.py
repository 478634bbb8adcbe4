from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, norm, skew

from lindley.models.gaussianise import GAUSSIANISERS, Gaussianiser, fit_gaussianiser


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_skewed_features_become_normal(kind: Gaussianiser) -> None:
    rng = np.random.default_rng(0)
    train, test = np.exp(rng.normal(size=(2, 3000, 2)))
    transform = fit_gaussianiser(kind, train)
    new = transform(test)
    assert np.abs(skew(test)).min() > 2
    assert np.abs(skew(new)).max() < 0.2
    if kind == "quantile":
        assert kstest(new[:, 0], "norm").pvalue > 0.01


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_monotone_finite_and_fitted_on_train_only(kind: Gaussianiser) -> None:
    rng = np.random.default_rng(1)
    train = rng.normal(size=(500, 1))
    transform = fit_gaussianiser(kind, train)
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

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest, norm, skew
from sklearn.preprocessing import PowerTransformer, QuantileTransformer

from lindley.errors import LindleyError
from lindley.models.flow import Flow
from lindley.models.gaussianise import (
    GAUSSIANISERS,
    GaussianiserName,
    Logarithm,
    Quantile,
    YeoJohnson,
    fit_gaussianiser,
)
from lindley.system.storage import from_bytes, to_bytes

KINDS = {kind.__name__: kind for kind in (Logarithm, Quantile, YeoJohnson, Flow)}


def features(n: int) -> NDArray[np.float64]:
    """Skewed, rounded to few values, bounded above, tiny, large, normal; the rounded one has many equal quantiles."""
    x = np.random.default_rng(n).normal(size=(n, 6))
    columns = [np.exp(x[:, 0]), np.round(x[:, 1]), -np.exp(x[:, 2]), 1e-6 * x[:, 3], 1e4 + x[:, 4] ** 3, x[:, 5]]
    return np.stack(columns, 1)


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_skewed_features_become_normal(kind: GaussianiserName) -> None:
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


@pytest.mark.parametrize("kind", [kind for kind in GAUSSIANISERS if kind != "log10"])
def test_monotone_finite_and_fitted_on_train_only(kind: GaussianiserName) -> None:
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


@pytest.mark.parametrize("n", [5, 300, 1700])
def test_marginal_transforms_are_those_of_scikit_learn(n: int) -> None:
    train = features(n)
    at = np.concatenate([train, features(n + 1), train.min(0)[None] - 3, train.max(0)[None] + 3])
    theirs = QuantileTransformer(n_quantiles=min(1000, n), output_distribution="normal", subsample=None).fit(train)
    end = norm.isf(0.5 / n)
    expected = np.clip(theirs.transform(at), -end, end)
    np.testing.assert_allclose(fit_gaussianiser("quantile", train)(at), expected, rtol=1e-12, atol=1e-12)
    power = PowerTransformer(method="yeo-johnson", standardize=True).fit(train[:, :3])
    np.testing.assert_allclose(
        fit_gaussianiser("yeo-johnson", train[:, :3])(at[:, :3]), power.transform(at[:, :3]), rtol=1e-12, atol=1e-12
    )


def test_the_logarithm_is_that_of_what_was_measured() -> None:
    """Standardised or not; and what has none is refused."""
    values = np.exp(np.random.default_rng(5).normal(size=(200, 3)))
    mean, sd = values.mean(axis=0), values.std(axis=0)
    logs = np.log10(values)
    made = fit_gaussianiser("log10", (values - mean) / sd, zero=-mean / sd)
    np.testing.assert_allclose(made((values - mean) / sd), (logs - logs.mean(axis=0)) / logs.std(axis=0), atol=1e-12)
    for bad in (0.0, -1.0):
        with pytest.raises(LindleyError, match="not positive"):
            made((np.full((1, 3), bad) - mean) / sd - 1e-12)
        with pytest.raises(LindleyError, match="not positive"):
            fit_gaussianiser("log10", np.full((4, 3), bad))


def test_powers_that_are_logarithms() -> None:
    """λ = 0 above zero and λ = 2 below it; next to them the transform is nearly the same."""
    x = np.linspace(-3, 3, 13)[:, None]
    zero, one = np.zeros(1), np.ones(1)
    np.testing.assert_allclose(YeoJohnson(zero, zero, one)(x[x >= 0][:, None]), np.log1p(x[x >= 0])[:, None])
    np.testing.assert_allclose(YeoJohnson(2 * one, zero, one)(x[x < 0][:, None]), -np.log1p(-x[x < 0])[:, None])
    for power in (0.0, 2.0):
        exact, near = (YeoJohnson(np.array([p]), zero, one)(x) for p in (power, power + 1e-9))
        np.testing.assert_allclose(near, exact, atol=1e-7)


@pytest.mark.parametrize("kind", GAUSSIANISERS)
def test_pickled_or_stored_they_are_numbers_and_transform_to_the_same_bits(kind: GaussianiserName) -> None:
    train = features(60)
    made = fit_gaussianiser(kind, train, source=np.arange(60) // 2, zero=-1e9)
    stored, _ = from_bytes(to_bytes(made, "lindley-it/1", {}, KINDS), "it", type(made), "lindley-it/1", KINDS)
    for again in (stored, pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(again(features(61)), made(features(61)))

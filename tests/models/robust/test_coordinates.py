"""Coordinates: what they make of covariances, of few sources, and of outliers."""

from __future__ import annotations

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.models.fitting import Sources
from lindley.models.robust.coordinates import LEAST_LAMBDA, Coordinates, Setting
from lindley.models.robust.folds import in_order
from tests.models.robust.simulate import Floats, part_of, table


def sources_of(values: Floats) -> Sources:
    return in_order(part_of(values))


def test_both_covariances_are_diagonal_on_all_axes() -> None:
    coordinates = Coordinates(sources_of(table(80, 4, 3)))
    setting = Setting(0.1, 1.0, 4)
    axes = coordinates.axes(setting)
    projection = axes.projection * coordinates.spread[:, None]
    within, (_, total) = coordinates.within(setting.within), coordinates.between(setting.between)
    np.testing.assert_allclose(projection.T @ within @ projection, np.eye(4), atol=1e-6)
    between = projection.T @ (total - within / 3) @ projection
    np.testing.assert_allclose(between, np.diag(axes.var), rtol=1e-6, atol=1e-6 * axes.var[0])
    assert (np.diff(axes.var) <= 0).all()
    few = coordinates.axes(Setting(0.1, 1.0, 2))
    np.testing.assert_allclose(few.projection, axes.projection[:, :2], rtol=1e-6, atol=1e-9)


def test_shrinkage_goes_from_nothing_to_the_diagonal() -> None:
    coordinates = Coordinates(sources_of(table(600, 5, 3, tails=1e6)))
    scatter = np.diag(coordinates.within(1.0))
    none, all_of_it = coordinates.within(1e-9), coordinates.within(1e9)
    np.testing.assert_allclose(all_of_it, np.diag(np.diag(all_of_it)), atol=1e-6 * scatter.max())
    truth = np.cov(coordinates.contrasts.T, bias=True)
    correlation = none / np.sqrt(np.outer(np.diag(none), np.diag(none)))
    expected = truth / np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    np.testing.assert_allclose(correlation, expected, atol=0.06)
    off = [
        np.abs(coordinates.between(c)[1] - np.diag(np.diag(coordinates.between(c)[1]))).sum()
        for c in (0.01, 1.0, 100.0)
    ]
    assert off[0] > off[1] > off[2]
    few = coordinates.distinct((1e-5, 1e-4, 1e-3, 10.0, 100.0))  # of those that change next to nothing, one
    assert few == [1e-3, 10.0, 100.0]


def test_units_of_features_scale_the_projection_only() -> None:
    values, unit = table(40, 3), np.array([1e-3, 1.0, 50.0])
    here, there = (Coordinates(sources_of(v)).axes(Setting(0.1, 0.1, 3)) for v in (values, values * unit + 5.0))
    np.testing.assert_allclose(there.var, here.var, rtol=1e-6)
    np.testing.assert_allclose(there.projection * unit[:, None], here.projection, rtol=1e-5, atol=1e-8)


def test_they_are_not_turned_by_an_outlier() -> None:
    values = table(200, 3, seed=2)
    clean = Coordinates(sources_of(values)).axes(Setting(0.1, 0.1, 3))
    values[0, 0] += 100.0
    values[1] += 100.0
    dirty = Coordinates(sources_of(values)).axes(Setting(0.1, 0.1, 3))
    np.testing.assert_allclose(dirty.var[1:], clean.var[1:], rtol=0.7)
    cosine = np.abs((clean.projection * dirty.projection).sum(0))
    cosine /= np.linalg.norm(clean.projection, axis=0) * np.linalg.norm(dirty.projection, axis=0)
    assert cosine.min() > 0.9


def test_more_features_than_sources_and_features_that_say_nothing() -> None:
    values = table(12, 30)
    values[..., 3] = 7.0
    values[..., 5] = values[..., 4]
    values[..., 6] = values[:, :1, 6]  # equal replicates
    coordinates = Coordinates(sources_of(values))
    assert coordinates.most_axes == 30
    axes = coordinates.axes(Setting(0.001, 0.001, 30))
    assert np.isfinite(axes.projection).all()
    assert (axes.var >= LEAST_LAMBDA).all()


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(LindleyError, match="three sources"):
        Coordinates(sources_of(table(2, 2)))
    with pytest.raises(LindleyError, match="finite"):
        sources_of(np.where(np.arange(3)[:, None, None] == 0, np.nan, table(3, 2)))

"""The embedded data set is what it says, on every machine."""

from __future__ import annotations

import numpy as np

from lindley.table.simulated import glass_population, simulate_table, simulated_table


def test_the_table_never_changes() -> None:
    table = simulated_table()
    assert table.values.shape == (6318, 18)
    assert len(table.sources) == 1053
    assert table.features[0] == "Al27"
    np.testing.assert_allclose(table.values[0, :3], FIRST, rtol=0, atol=1e-12)
    # Six decimals as whole numbers: no rounding of sums can hide a change.
    assert int(np.abs(np.rint(table.values * 1e6)).sum()) == CHECKSUM


FIRST = [-0.340387, -0.345488, 0.061869]
CHECKSUM = 21507023149


def test_population() -> None:
    population = glass_population()
    for matrix in (population.within, population.between):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix)[0] > 0
    assert population.within[0, 0] == 2.78e-4  # Al27 in the paper's Table 1
    assert population.between[17, 17] == 3.56e-2  # Zr90 in its Table 2
    assert abs(population.batch_weights.sum() - 1) < 1e-12
    n = 1053
    share_alone = (population.batch_weights * (1 - population.batch_weights) ** (n - 1)).sum()
    assert 0.4 < share_alone < 0.6


def test_moments_of_many_draws_are_those_of_the_population() -> None:
    population = glass_population()
    table = simulate_table(population, 20_000, 2, seed=3)
    first, second = table.values[0::2], table.values[1::2]
    within = (first - second).T @ (first - second) / (2 * len(first))
    scale = np.sqrt(np.outer(population.within.diagonal(), population.within.diagonal()))
    assert np.abs((within - population.within) / scale).max() < 0.1  # τ has a heavy tail, with mean one
    cross = np.cov(first.T, second.T)[:18, 18:]
    batches = population.batch_means - population.batch_weights @ population.batch_means
    expected = (population.batch_weights[:, None] * batches).T @ batches + 0.003 * population.between
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs((cross - expected) / scale).max() < 0.05


def test_seeds_differ() -> None:
    population = glass_population()
    one, other = (simulate_table(population, 10, 2, seed) for seed in (1, 2))
    assert not np.array_equal(one.values, other.values)

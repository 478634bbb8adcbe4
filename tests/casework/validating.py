"""Systems and tables for the tests of validation: simulated glass, small."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from lindley.models.oracle import oracle
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.simulated import GlassPopulation, glass_population, simulate_table
from lindley.table.table import Table


def part(table: Table, rows: np.ndarray, name: str | None = None) -> Table:
    """Some of the rows of a table."""
    return Table(
        name or table.name, table.values[rows], table.features, table.source[rows], table.group[rows],
        table.instance[rows],
    )  # fmt: skip


@cache
def population(features: int) -> GlassPopulation:
    """The population of simulated glass in some of its features."""
    full, keep = glass_population(), np.arange(features)
    return replace(
        full,
        features=full.features[:features],
        within=full.within[np.ix_(keep, keep)],
        between=full.between[np.ix_(keep, keep)],
        batch_means=full.batch_means[:, keep],
    )


@cache
def simulated(sources: int, replicates: int, seed: int, features: int = 6) -> Table:
    """Simulated glass in some of its features."""
    return replace(simulate_table(population(features), sources, replicates, seed), name=f"glass-{seed}")


@cache
def trained(model: str = "tlm", features: int = 6) -> System:
    """A system trained on 200 sources of simulated glass."""
    return train(simulated(200, 4, 1, features), model, replicates=3)


def truth(features: int) -> System:
    """A system that knows the population: its LRs are the true ones."""
    system = trained("tlm", features).for_runs([0])
    assert system.casework is not None
    casework = replace(system.casework, bounds=(-4.0, 4.0))
    return replace(system, model=oracle(population(features), system.scaling), casework=casework)

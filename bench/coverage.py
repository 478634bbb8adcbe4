"""Does the interval of a case hold what it claims? python -m bench.coverage [--models …] [--sources …] [--tables …].

Tables of n sources are drawn from a population that is known, a system with its replicates is trained on each, and all of them
give the LRs of the same pairs, with an interval. It claims to hold the LR that this model would give of a pair whichever n
sources it had learnt from: the mean over tables, here the other ones. How often it holds the true LR is told beside it; no
interval knows how far a model is from the truth, so that this is high only where the model's assumptions hold. And how often
all of it says more than the truth: *overstated*, as most of those that miss the truth on the other side are only cautious.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lindley.casework.explanation import interval
from lindley.models.oracle import oracle
from lindley.models.two_level import score
from lindley.system.fit import Settings
from lindley.system.names import ModelName
from lindley.system.train import fit_table
from lindley.table.scaling import Scaling
from lindley.table.simulated import GlassPopulation, glass_population
from lindley.table.splits import Side
from lindley.table.table import Table

Floats = NDArray[np.float64]
Given = tuple[str, str, int, int, int, str]
"""Population, model, sources, the number of the table, replicates, device."""
FEATURES, REPLICATES, TEST_SOURCES = 4, 3, 40
OF_GLASS = [0, 2, 5, 8, 11, 14]
MODELS = {
    "normal": ("tlm", "tlm-kde", "tlm-bayes", "ht-plda", "robust", "ntlm-single-pairs-n1", "tlm+logistic"),
    "glass": ("tlm-kde", "ht-plda", "robust"),
}


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", help="of one population: normal/tlm, glass/robust; default all")
    parser.add_argument("--sources", nargs="*", type=int, default=[60, 200, 600])
    parser.add_argument("--tables", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(given)
    wanted = arguments.models or [f"{population}/{model}" for population, names in MODELS.items() for model in names]
    rows = []
    for each in wanted:
        population, _, model = each.partition("/")
        for n in arguments.sources:
            rows.append(covered(population, model, n, arguments.tables, arguments.jobs, arguments.device))
            print(line(rows[-1]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def line(row: dict[str, Any]) -> str:
    """For the screen."""
    shares = " ".join(f"{name} {row[name]:.2f}" for name in ("same", "near", "far", "all", "truth", "overstated"))
    where = f"{row['population']:7}{row['model']:24}{row['sources']:5} sources {row['tables']:4} tables"
    return f"{where}  {shares}  {row['seconds']:.0f} s"


def covered(
    population: str,
    model: str,
    n: int,
    tables: int,
    jobs: int = 1,
    device: str = "cpu",
    replicates: int | None = None,
) -> dict[str, Any]:
    """The shares of tables and pairs whose interval holds the mean over the other tables, and the truth."""
    started = time.perf_counter()
    replicates = ModelName.of(model).kind.replicates if replicates is None else replicates
    given = [(population, model, n, number, replicates, device) for number in range(tables)]
    found = np.array(list(_systems(given, jobs)))  # (table, 3, pair)
    llr, lower, upper = np.moveaxis(found, 1, 0)
    others = (llr.sum(axis=0) - llr) / (len(llr) - 1)
    true = truth(population)
    held, holds_truth = ((lower <= target) & (target <= upper) for target in (others, true))
    is_same = np.arange(len(true)) < TEST_SOURCES
    overstated = np.where(is_same, lower > true, upper < true)
    kinds = {
        "same": slice(0, TEST_SOURCES),
        "near": slice(TEST_SOURCES, None, 2),
        "far": slice(TEST_SOURCES + 1, None, 2),
    }
    return {
        "population": population, "model": model, "sources": n, "tables": len(llr),
        **{name: float(held[:, which].mean()) for name, which in kinds.items()},
        "all": float(held.mean()), "truth": float(holds_truth.mean()), "overstated": float(overstated.mean()),
        "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _systems(given: list[Given], jobs: int) -> Iterator[Floats]:
    if jobs == 1:
        yield from map(_one, given)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_one, each) for each in given]):
            yield done.result()


def _one(given: Given) -> Floats:
    """log10 LRs of the test pairs, and both ends of their intervals, (3, pair), of a system trained on one table."""
    population, model, n, number, replicates, device = given
    torch.set_num_threads(1)
    name = ModelName.of(model)
    values = draw(population, n, np.random.default_rng((31, n, number)))
    source = np.repeat([f"{i:06}" for i in range(n)], REPLICATES)
    table = Table.from_arrays(values.reshape(len(source), -1), source, name=population)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = Settings(device=device)
        system = fit_table(table, name, seed=number, replicates=replicates, settings=settings).stage.system
    test, pairs = compared(population)
    trace, ref = sides(test)
    scores = system.uncalibrated([trace] * system.runs, [ref] * system.runs)
    llr = np.array([system.calibrated(each, run)[tuple(pairs.T)] for run, each in enumerate(scores)])
    ends = [interval(one, again) for one, again in zip(llr[0].tolist(), llr[1:].T, strict=True)]
    return np.array([llr[0], [each.lower for each in ends], [each.upper for each in ends]])


def draw(population: str, n: int, rng: np.random.Generator, replicates: int = REPLICATES) -> Floats:
    """Measurements (n, replicates, features) of n new sources."""
    if population == "normal":
        within, between = covariances()
        mean = rng.multivariate_normal(np.zeros(FEATURES), between, size=n)
        return mean[:, None] + rng.multivariate_normal(np.zeros(FEATURES), within, size=(n, replicates))
    glass = some_glass()
    batch = rng.choice(len(glass.batch_weights), p=glass.batch_weights, size=n)
    zero = np.zeros(len(glass.features))
    mean = glass.batch_means[batch] + rng.multivariate_normal(zero, glass.batch_share * glass.between, size=n)
    scale = np.sqrt(glass.scale / rng.gamma(glass.shape, size=n))[:, None, None]
    return mean[:, None] + scale * rng.multivariate_normal(zero, glass.within, size=(n, replicates))


def covariances() -> tuple[Floats, Floats]:
    """Within and between sources, of the normal population."""
    rng = np.random.default_rng(5)
    one, other = (np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0] for _ in range(2))
    return one * [0.04, 0.03, 0.02, 0.05] @ one.T, other * [1.0, 0.8, 0.5, 1.5] @ other.T


def some_glass() -> GlassPopulation:
    """Six elements of the simulated glass."""
    glass, square = glass_population(), np.ix_(OF_GLASS, OF_GLASS)
    return replace(
        glass,
        features=tuple(glass.features[i] for i in OF_GLASS),
        within=glass.within[square],
        between=glass.between[square],
        batch_means=glass.batch_means[:, OF_GLASS],
    )


def compared(population: str) -> tuple[Floats, NDArray[np.intp]]:
    """The test sources, measured twice, and pairs of them: each with itself, with its nearest other and one further off."""
    test = draw(population, TEST_SOURCES, np.random.default_rng(99), 2)
    distance = np.abs(test[:, 0][:, None] - test[:, 1][None]).sum(-1)
    pairs = [(i, i) for i in range(TEST_SOURCES)]
    for i, order in enumerate(np.argsort(distance, axis=1)):
        others = order[order != i]
        pairs += [(i, int(others[0])), (i, int(others[len(others) // 4]))]
    return test, np.array(pairs)


def sides(test: Floats) -> tuple[Side, Side]:
    """The first measurements as traces, the second ones as refs."""
    items = np.arange(len(test))
    return Side(test[:, 0], items, items.astype(str)), Side(test[:, 1], items, items.astype(str))


def truth(population: str) -> Floats:
    """The true log10 LRs of the test pairs."""
    test, pairs = compared(population)
    if population == "glass":
        features = test.shape[-1]
        model = oracle(some_glass(), Scaling(np.zeros(features), np.ones(features)))
        trace, ref = sides(test)
        return score(model, [trace], [ref])[0][tuple(pairs.T)]
    within, between = covariances()
    one, zero = within + between, np.zeros(FEATURES)
    both = multivariate_normal(np.zeros(2 * FEATURES), np.block([[one, between], [between, one]]))
    alone = multivariate_normal(zero, one)
    x, y = test[pairs[:, 0], 0], test[pairs[:, 1], 1]
    return np.asarray((both.logpdf(np.hstack([x, y])) - alone.logpdf(x) - alone.logpdf(y)) / np.log(10))


if __name__ == "__main__":
    main()

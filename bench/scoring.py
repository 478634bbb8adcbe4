"""All-pairs scoring speed of the classical models: 10 features, one trace instance against one ref instance.

Run by `make bench`. Prints million pairs per second: best and median of several rounds, on this machine.
"""

from __future__ import annotations

import os
import platform
import statistics
import time

import numpy as np
import torch

from lindley.data.splits import Part
from lindley.models.classical import fit_classical
from lindley.models.two_level import TwoLevel, score

FEATURES, KERNELS, ITEMS, ROUNDS = 10, 325, 4000, 7


def sources(n: int, rng: np.random.Generator) -> Part:
    """Sources whose between variances run from 4 to 400 times the within variance, as glass has them."""
    spread = np.geomspace(2, 20, FEATURES)
    values = np.repeat(rng.normal(size=(n, FEATURES)) * spread, 2, axis=0) + rng.normal(size=(2 * n, FEATURES))
    return Part(values, np.repeat([f"{i:06d}" for i in range(n)], 2), np.arange(2 * n) % 2 == 0)


def pairs_per_second(model: TwoLevel, part: Part) -> list[float]:
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        n = score(model, [part.trace], [part.ref])[0].size
        rates.append(n / (time.perf_counter() - started))
    return rates[1:]  # the first round warms up


def main() -> None:
    rng = np.random.default_rng(0)
    train, test = sources(KERNELS, rng), sources(ITEMS, rng)
    print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{ITEMS} × {ITEMS} pairs, {FEATURES} features, {KERNELS} kernels, float64; million pairs/s")
    print(f"{'between':10} {'best':>8} {'median':>8} {'mark':>8}")
    for kind, mark in (("normal", 20), ("kernel", 1)):
        rates = pairs_per_second(fit_classical([train], kind), test)  # type: ignore[arg-type]
        print(f"{kind:10} {max(rates) / 1e6:8.1f} {statistics.median(rates) / 1e6:8.1f} {mark:8}")


if __name__ == "__main__":
    main()

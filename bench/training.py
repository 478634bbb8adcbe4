"""Training: all runs at once against the plain loop, run by run, on the same splits of the same table.

The time of an epoch is that between the first and the last epoch of a training; what comes before the first one (batches, a
CUDA graph) is told apart. Rounds of all ways alternate, so that other work on the machine slows all of them down, and ratios
are medians over the rounds. Both sides train in single precision, as `lindley.models.neural` does unless told otherwise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch

from bench.plan import Plan
from bench.reference import PlainTwoLevel, cllr, ln_lr_matrix, train_plainly
from bench.timing import summary
from lindley.llrs import LN10
from lindley.models.neural.fit import Trained, Training, train
from lindley.models.neural.integration import integrate_varying
from lindley.models.neural.parameters import Architecture
from lindley.models.two_level import TwoLevel, score
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.splits import Part, Protocol, Split, make_splits

__all__ = ["check", "epoch_seconds", "measure", "measure_paper"]

ARCHITECTURE = Architecture("single", 2)
REPLICATES = 6


def make(plan: Plan) -> list[Split]:
    """Splits of simulated glass: with all 1053 sources it is the embedded data set."""
    table = simulate_table(glass_population(), plan.table_sources, REPLICATES, seed=0)
    return make_splits(table, Protocol(splits=plan.runs))


def measure(plan: Plan) -> dict[str, Any]:
    """Seconds per epoch of all runs, by every way and on every device; and that the loop's model gives the same numbers."""
    splits = make(plan)
    ways: dict[tuple[str, str], Callable[[int], tuple[float, float]]] = {}
    if "cpu" in plan.devices:
        ways["loop", "cpu"] = lambda _: (sum(train_plainly(s, 1, run)[1] for run, s in enumerate(splits)), 0.0)
    for device in plan.devices:
        ways["one", device] = partial(_one, plan, splits, device)
        ways["all", device] = partial(_all, plan, splits, device, torch.float32)
        ways["double", device] = partial(_all, plan, splits, device, torch.float64)
    train_plainly(splits[0], 1, 0)  # warms up
    results: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in ways}
    for number in range(plan.rounds):
        for key, way in ways.items():
            results[key].append(way(number))
    rows = []
    loop = [seconds for seconds, _ in results.get(("loop", "cpu"), [])]
    for (name, device), found in results.items():
        seconds = [each for each, _ in found]
        row = {"way": name, "device": device, **summary(seconds), "before": statistics.median(b for _, b in found)}
        if loop:
            row["times_faster"] = statistics.median(a / b for a, b in zip(loop, seconds, strict=True))
        rows.append(row)
    trained = _train(plan, splits, plan.devices[0], torch.float32, plan.epochs)[0]
    n, d = len(splits[0].train.trace.source), splits[0].train.values.shape[1]
    return {
        "runs": plan.runs,
        "sources": n,
        "features": d,
        "model": "ntlm-single-pairs-n2",
        "rows": rows,
        "check": check(trained, splits),
    }


def _one(plan: Plan, splits: Sequence[Split], device: str, number: int) -> tuple[float, float]:
    """One run trained alone, times the number of runs; another run in every round."""
    split = splits[number % len(splits)]
    _, seconds, before = _train(plan, [split], device, torch.float32, _epochs(plan, device))
    return seconds * len(splits), before * len(splits)


def _all(plan: Plan, splits: Sequence[Split], device: str, dtype: torch.dtype, number: int) -> tuple[float, float]:
    _, seconds, before = _train(plan, splits, device, dtype, _epochs(plan, device))
    return seconds, before


def _epochs(plan: Plan, device: str) -> int:
    return plan.epochs if device == "cpu" else plan.gpu_epochs


def _train(
    plan: Plan, splits: Sequence[Split], device: str, dtype: torch.dtype, epochs: int
) -> tuple[Trained, float, float]:
    """What came out, seconds per epoch, and seconds before the first."""
    training = Training("pairs", epochs=epochs, device=device, dtype=dtype)
    parts = [s.train for s in splits], [s.validate for s in splits]
    clock = Clock()
    trained = train(
        ARCHITECTURE, training, *parts, [s.index for s in splits], progress=clock, threads=min(2, plan.threads)
    )
    seconds = clock.per_epoch()
    return trained, seconds, max(0.0, time.perf_counter() - clock.started - epochs * seconds)


class Clock:
    """When a training had finished each of its epochs."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.at: dict[int, float] = {}

    def __call__(self, epoch: int, cllr: float) -> None:
        self.at.setdefault(epoch, time.perf_counter())

    def per_epoch(self) -> float:
        """Mean seconds of the epochs after the first that was told."""
        first, last = min(e for e in self.at if e > 0), max(self.at)
        return (self.at[last] - self.at[first]) / (last - first)

    def each(self) -> list[float]:
        """Seconds of every epoch after the first, where each was told."""
        times = [self.at[e] for e in sorted(self.at) if e > 0]
        return [b - a for a, b in pairwise(times)]


def epoch_seconds(mode: str, part: Part, validate: Part, device: str, epochs: int = 4) -> list[float]:
    """Seconds of every epoch but the first, of one run."""
    clock = Clock()
    training = Training(mode, epochs=epochs, watched=0, device=device)  # type: ignore[arg-type]
    train(Architecture("single", 2), training, [part], [validate], [0], progress=clock, threads=1)
    return clock.each()


def check(trained: Trained, splits: Sequence[Split]) -> dict[str, float]:
    """Largest differences between lindley and the loop's model at the parameters that lindley found.

    ``ln_lr``: of the test pairs, both in double precision. ``cllr``: of the validation pairs, between what the training wrote
    down in single precision and what the loop's own loss gives.
    """
    ours = score(trained.model, [s.test.trace for s in splits], [s.test.ref for s in splits])
    ln_lr, cost = [], []
    for run, split in enumerate(splits):
        net = PlainTwoLevel.holding(trained.parameters, run)
        ln_lr.append(np.abs(LN10 * ours[run] - ln_lr_matrix(net, split.test).numpy()).max())
        matrix = ln_lr_matrix(net, split.validate)
        off = ~torch.eye(len(matrix), dtype=torch.bool)
        told = trained.history.validate[run, trained.history.best_epoch[run]]
        cost.append(abs(float(cllr(matrix.diagonal(), matrix[off])) - told))
    return {"ln_lr": float(max(ln_lr)), "cllr": float(max(cost))}


def measure_paper(plan: Plan) -> dict[str, Any]:
    """The paper's six trainings in full: seconds of each and of its integration, mean test Cllr and two standard errors.

    On a GPU they come once more, all six side by side: an epoch is one launch there, and most of the GPU has nothing to do.
    """
    splits = make(plan)
    rows: list[dict[str, Any]] = []
    together = {}
    kinds = list(product(("single", "double"), (("pairs", 1), ("pairs", 2), ("sources", 2))))

    def one(device: str, kind: tuple[str, tuple[str, int]]) -> dict[str, Any]:
        projection, (mode, within) = kind
        training = Training(mode, epochs=plan.paper_epochs, device=device)  # type: ignore[arg-type]
        started = time.perf_counter()
        trained = train(
            Architecture(projection, within),  # type: ignore[arg-type]
            training,
            [s.train for s in splits],
            [s.validate for s in splits],
            [s.index for s in splits],
            threads=min(2, plan.threads),
        )
        seconds = time.perf_counter() - started
        integrate_varying(trained.model, [s.validate for s in splits])
        integration = time.perf_counter() - started - seconds
        found = _test_cllrs(trained.model, splits)
        return {
            "model": f"ntlm-{projection}-{mode}-n{within}", "device": device, "seconds": seconds,
            "integration": integration, "cllr": float(found.mean()), "error": 2 * float(found.std(ddof=1)) / len(found) ** 0.5,
        }  # fmt: skip

    for device in plan.devices:
        rows += [one(device, kind) for kind in kinds]
        if device != "cpu":
            started = time.perf_counter()
            with ThreadPoolExecutor(len(kinds)) as pool:
                again = list(pool.map(partial(one, device), kinds))
            together[device] = time.perf_counter() - started
            assert [row["cllr"] for row in again] == [row["cllr"] for row in rows[-len(kinds) :]]
    return {"runs": plan.runs, "epochs": plan.paper_epochs, "rows": rows, "together": together}


def _test_cllrs(model: TwoLevel, splits: Sequence[Split]) -> np.ndarray:
    llr = score(model, [s.test.trace for s in splits], [s.test.ref for s in splits])
    found = []
    for matrix, split in zip(llr, splits, strict=True):
        same = torch.from_numpy(split.test.trace.source[:, None] == split.test.ref.source[None, :])
        ln_lr = torch.from_numpy(LN10 * matrix)
        found.append(float(cllr(ln_lr[same], ln_lr[~same])))
    return np.array(found)

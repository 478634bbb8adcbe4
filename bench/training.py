"""Training speed: all runs at once against a plain per-run pair-loader implementation, in one process.

    python bench/training.py                  the comparison, at few epochs (minutes)
    python bench/training.py --full           and the paper's six trainings, 21 runs × 2000 epochs each
    PYTHONPATH=src python bench/training.py --full --device cuda --no-reference

Glass-simulated: 351 sources a split, 18 axes. Needs torch, numpy and scipy alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import numpy as np
import torch
from reference import test_cllr, train_plainly

from lindley.data.simulated import simulated_table
from lindley.data.splits import Part, Protocol, Split, make_splits
from lindley.models.parameters import Architecture
from lindley.models.two_level import TwoLevel, score
from lindley.training.loop import Trained, Training, train

SIX = [(p, m, n) for p in ("single", "double") for m, n in (("pairs", 1), ("pairs", 2), ("sources", 2))]


def fit(splits: list[Split], architecture: Architecture, training: Training) -> tuple[Trained, float]:
    started = time.perf_counter()
    parts: list[list[Part]] = [[s.train for s in splits], [s.validate for s in splits]]
    trained = train(architecture, training, *parts, list(range(len(splits))))
    return trained, time.perf_counter() - started


def test_cllrs(model: TwoLevel, splits: list[Split]) -> np.ndarray:
    tests = [s.test for s in splits]
    ln_lr = [np.log(10) * s for s in score(model, [t.trace for t in tests], [t.ref for t in tests])]
    same = [t.trace.source[:, None] == t.ref.source[None, :] for t in tests]
    return np.array(
        [
            (np.logaddexp(0, -l[s]).mean() + np.logaddexp(0, l[~s]).mean()) / np.log(4)
            for l, s in zip(ln_lr, same, strict=True)
        ]
    )


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments.add_argument("--runs", type=int, default=21)
    arguments.add_argument("--epochs", type=int, default=2000, help="of the six trainings")
    arguments.add_argument("--full", action="store_true")
    arguments.add_argument("--no-reference", action="store_true")
    given = arguments.parse_args()
    where = torch.cuda.get_device_name() if given.device == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{where}, torch {torch.__version__}; {given.runs} runs, 351 sources a split, 18 axes")
    splits = make_splits(simulated_table(), Protocol(splits=given.runs))

    if not given.no_reference:
        epochs, plain_runs = 40, 2
        plain = [train_plainly(splits[run], epochs, run) for run in range(plain_runs)]
        per_epoch = float(np.mean([seconds for _, seconds in plain])) * given.runs
        trained, seconds = fit(splits, Architecture("single", 2), Training("pairs", epochs=epochs, device=given.device))
        ours = test_cllrs(trained.model, splits)
        theirs = [test_cllr(net, split) for (net, _), split in zip(plain, splits, strict=False)]
        print(f"single, pairs, N=2, {epochs} epochs; seconds per epoch of all {given.runs} runs")
        print(f"  plain pair loader, run by run   {per_epoch:8.3f}   (measured on {plain_runs} runs)")
        print(
            f"  all runs at once                {seconds / epochs:8.3f}   {per_epoch / (seconds / epochs):.0f} times faster"
        )
        print("  test Cllr of runs 1, 2: plain " + ", ".join(f"{c:.4f}" for c in theirs), end="; ")
        print("at once " + ", ".join(f"{c:.4f}" for c in ours[:plain_runs]))

    if given.full:
        total = 0.0
        for projection, mode, within in SIX:
            training = Training(mode, epochs=given.epochs, device=given.device)  # type: ignore[arg-type]
            trained, seconds = fit(splits, Architecture(projection, within), training)  # type: ignore[arg-type]
            cllr = test_cllrs(trained.model, splits)
            error = 2 * cllr.std(ddof=1) / len(cllr) ** 0.5
            total += seconds
            name = f"{projection}-{mode}-n{within}"
            print(f"  {name:18} {seconds:7.1f} s   test Cllr {cllr.mean():.4f} ± {error:.4f}", flush=True)
        print(f"  all six            {total:7.1f} s")


if __name__ == "__main__":
    main()

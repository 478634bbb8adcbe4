"""What is measured, and how large."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["FULL", "PATIENT", "QUICK", "Plan"]


@dataclass(frozen=True)
class Plan:
    """Sizes of all sections. Those given here are what the documentation shows."""

    devices: tuple[str, ...] = ("cpu",)
    threads: int = 1
    rounds: int = 3
    enough: float = 1.0
    """Seconds that the rounds of a point add up to, or there are more of them."""
    apart: bool = True
    """Whether memory on a CPU is measured in processes of their own."""

    # Training: the embedded data set, thirds of its sources, one model per split.
    runs: int = 21
    table_sources: int = 1053
    epochs: int = 30
    gpu_epochs: int = 300
    paper_epochs: int = 2000

    # Scoring: all pairs of up to so many traces and refs, by models of so many sources.
    features: int = 10
    kernels: int = 325
    most_items: int = 4000

    # Beside LiR: all pairs of 300 traces and 300 refs, by models of 600 sources.
    lir_sources: int = 600
    lir_items: int = 300
    lir_pairs: int = 1500
    unrelated_pairs: int = 10_000

    # Memory: items of a side, and sources of a training.
    memory_items: tuple[int, ...] = (1000, 2000)
    memory_kernels: tuple[int, ...] = (1000, 10_000)
    memory_sources: tuple[int, ...] = (1500, 5000)

    # Units: how many to see what one costs; sources of the table whose splits are dealt out to so many workers, or none.
    units: int = 2000
    split_sources: int = 150
    workers: int = 8

    # Very many pairs: traces and refs; seconds that are enough for a kind, and that a row of tiles may take; sources of a fit.
    large_items: int = 20_000
    large_enough: float = 20.0
    large_limit: float = 40.0
    large_fit: int = 50_000

    # Whole trainings: sources, measurements of each and features, of all kinds and of those without a search.
    train_size: tuple[int, int, int] = (300, 10, 16)
    train_sizes: tuple[tuple[int, int, int], ...] = ((1000, 10, 64), (1000, 10, 256), (5000, 10, 64), (20_000, 10, 50))

    train_replicates: int | None = None
    """For the interval of a case; none given, as many as the kind affords."""

    # Growth: the sizes along each axis, and what stays the same along the others.
    growth_sources: tuple[int, ...] = (500, 1500, 5000, 15_000, 50_000)
    growth_features: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    growth_kernels: tuple[int, ...] = (100, 300, 1000, 2000, 5000, 10_000)
    sources_along_features: int = 500
    block: int = 1000
    slow_block: int = 500
    """Items of a side of the block of pairs that is timed; the second one for robust and varying."""
    limit: float = 8.0
    fit_limit: float = 20.0
    """Seconds that a round of a point may take: one that would take longer is left out, and the table says so."""
    growth_seconds: float = 360.0
    """For all points: with the other sections that is less than ten minutes on two cores."""


FULL = Plan()
PATIENT = replace(FULL, limit=300.0, fit_limit=300.0, growth_seconds=3600.0, large_limit=600.0)
"""Nothing is left out for its time: half an hour on two cores."""
QUICK = Plan(
    rounds=1,
    enough=0.0,
    apart=False,
    runs=2,
    table_sources=180,
    epochs=3,
    gpu_epochs=6,
    paper_epochs=3,
    features=4,
    kernels=60,
    most_items=60,
    lir_sources=60,
    lir_items=20,
    lir_pairs=60,
    unrelated_pairs=50,
    memory_items=(200,),
    memory_kernels=(),
    memory_sources=(),
    units=4,
    workers=0,
    large_items=60,
    large_fit=18,
    train_size=(30, 3, 2),
    train_sizes=((31, 3, 2),),
    train_replicates=1,
    growth_sources=(30, 60),
    growth_features=(3, 6),
    growth_kernels=(40, 80),
    sources_along_features=30,
    block=50,
    slow_block=40,
    limit=2.0,
    fit_limit=0.1,
)
"""Seconds instead of minutes: to see that everything runs, not to measure anything."""

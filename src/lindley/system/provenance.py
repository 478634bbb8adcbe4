"""What makes numbers repeatable: the seeds that they come from, the versions that they depend on, and the date."""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib.metadata import version
from typing import Literal

import numpy as np

from lindley.version import __version__

__all__ = ["run_seed", "stream", "today", "versions"]

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")
"""What the numbers of a result depend on, besides this package."""
Purpose = Literal["folds", "unseen", "pairs", "replicates", "series", "shapes"]
_STREAMS: dict[Purpose, int] = {"folds": 5, "unseen": 7, "pairs": 17, "replicates": 19, "series": 23, "shapes": 29}


def run_seed(seed: int, run: int) -> int:
    """The seed of one run, from 0, of an experiment or a training; it does not depend on how many runs there are."""
    return (seed * 1_000_003 + run) % 2**63


def stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """Random numbers for one purpose of one run, of their own: none changes with how much is drawn for another."""
    return np.random.default_rng((seed, _STREAMS[purpose]))


def versions() -> dict[str, str]:
    """Of this package and of the libraries."""
    return {"lindley": __version__, **{library: _installed(library) for library in LIBRARIES}}


@cache
def _installed(library: str) -> str:
    return version(library)


def today() -> str:
    """The date, as people and files write it."""
    return date.today().isoformat()

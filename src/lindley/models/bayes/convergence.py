"""Whether Markov chains have reached what they sample, and how many independent draws they are worth.

With the chains cut in halves, W the mean variance inside a half of n draws and B/n the variance of the halves' means,

    R̂ = √[((n − 1)/n · W + B/n) / W]

is near one if the halves agree (Gelman et al. 2013, *Bayesian Data Analysis*, 11.4). With ρ_t the autocorrelation at lag t,
from the same two variances, N draws are worth N / (1 + 2 Σ_t ρ_t) independent ones; the sum over pairs of lags ends where a
pair is no longer positive, and pairs never increase (Geyer 1992, Statist. Sci. 7, 473).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST_R_HAT",
    "Convergence",
    "ConvergenceWarning",
    "diagnose",
    "effective_draws",
    "split_r_hat",
    "warn_once",
]

Floats = NDArray[np.float64]

LARGEST_R_HAT = 1.05


class ConvergenceWarning(UserWarning):
    """Markov chains that do not agree with one another."""


@dataclass(frozen=True)
class Convergence:
    """Of every watched quantity, how well its chains agree and how many independent draws they are worth."""

    r_hat: Mapping[str, float]
    effective: Mapping[str, float]

    @property
    def worst(self) -> str:
        """The quantity with the largest R̂."""
        return max(self.r_hat, key=lambda name: self.r_hat[name])

    @property
    def agreed(self) -> bool:
        """Whether no R̂ is above `LARGEST_R_HAT`."""
        return self.r_hat[self.worst] <= LARGEST_R_HAT


def diagnose(watched: Mapping[str, Floats]) -> Convergence:
    """From the chains (chain, draw) of every quantity."""
    return Convergence(
        {name: split_r_hat(chains) for name, chains in watched.items()},
        {name: effective_draws(chains) for name, chains in watched.items()},
    )


def split_r_hat(chains: Floats) -> float:
    """R̂ of chains (chain, draw), each cut in halves."""
    inside, together = _variances(_halves(chains))
    return float(np.sqrt(together / inside))


def effective_draws(chains: Floats) -> float:
    """How many independent draws chains (chain, draw) are worth."""
    halves = _halves(chains)
    n = halves.shape[1]
    inside, together = _variances(halves)
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / (n - 1)
    rho = 1 - (inside - covariance) / together
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0] if ends.size else len(pairs)])
    return float(halves.size / max(2 * pairs.sum() - 1, 1 / np.log10(halves.size)))


def warn_once(found: Sequence[Convergence], what: str, remedy: str) -> None:
    """One `ConvergenceWarning` for all runs in which ``what`` has an R̂ above `LARGEST_R_HAT`."""
    bad = [c for c in found if not c.agreed]
    if bad:
        most = max(bad, key=lambda c: c.r_hat[c.worst])
        where = "" if len(found) == 1 else f" in {len(bad)} of {len(found)} splits"
        warnings.warn(
            ConvergenceWarning(
                f"the chains of {what} do not agree{where}: R-hat is {most.r_hat[most.worst]:.2f} for {most.worst}, where "
                f"{LARGEST_R_HAT} is the most. {remedy}"
            ),
            stacklevel=3,
        )


def _halves(chains: Floats) -> Floats:
    n = chains.shape[1] // 2
    if n < 2:
        raise ValueError(f"chains of {chains.shape[1]} draws are too short: 4 are the least")
    result: Floats = np.concatenate([chains[:, :n], chains[:, -n:]])
    return result


def _variances(halves: Floats) -> tuple[float, float]:
    """W, and ((n − 1) W + B)/n; W is above zero even if nothing moves."""
    n = halves.shape[1]
    inside = float(halves.var(axis=1, ddof=1).mean())
    inside = max(inside, np.finfo(np.float64).tiny)
    return inside, (n - 1) / n * inside + float(halves.mean(axis=1).var(ddof=1))

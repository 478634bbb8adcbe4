"""What is measured: simulated sources, and models fitted on them."""

from __future__ import annotations

from functools import cache

import numpy as np

from lindley.models.classical import fit_classical
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.robust.fit import FittedRobust, fit_robust
from lindley.models.two_level import PairModel
from lindley.table.splits import Part

__all__ = ["MODELS", "VARYING", "fit", "model_to_score", "sources"]

VARYING = "ntlm-double-pairs-n1-varying"
MODELS = ("tlm", "tlm-kde", "robust", VARYING)


def sources(n: int, features: int, seed: int) -> Part:
    """Two instances of each of n sources; variances between run from 4 to 400 times the variance within, as in glass."""
    rng = np.random.default_rng((seed, n, features))
    means = rng.normal(size=(n, features)) * np.geomspace(2, 20, features)
    values = np.repeat(means, 2, axis=0) + rng.normal(size=(2 * n, features))
    return Part(values, np.repeat([f"{i:06d}" for i in range(n)], 2), np.arange(2 * n) % 2 == 0)


def fit(name: str, part: Part) -> PairModel:
    """A model that is fitted, and not trained."""
    if name == "robust":
        return fit_robust([part]).model
    return fit_classical([part], {"tlm": "normal", "tlm-kde": "kernel"}[name])  # type: ignore[arg-type]


def model_to_score(name: str, part: Part) -> PairModel:
    """A model of that kind whose basis and kernels are made of the part, without a long fit.

    ``robust`` gets scalars and coordinates that were found on few sources. The neural model is the one that a training from the
    maximum-likelihood start begins with: its numbers are not those of a trained one, and take as long.
    """
    if name == "robust":
        return _some_scalars().again(part)
    if name == VARYING:
        from lindley.models.neural.integration import integrate_varying

        start = Parameters.maximum_likelihood(Architecture("double", 1), [part]).two_level()
        return integrate_varying(start, [sources(300, part.values.shape[1], seed=7)])
    return fit(name, part)


@cache
def _some_scalars() -> FittedRobust:
    return fit_robust([sources(60, 4, seed=8)])

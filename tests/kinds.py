"""A model of every kind, two runs each, made in a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
import pytest
import torch

from lindley.models.bayes.averaged import Averaged
from lindley.models.bayes.fit import fit_full_bayes
from lindley.models.classical import fit_classical
from lindley.models.fitting import Task
from lindley.models.heavy_tailed.fit import fit as fit_heavy_tailed
from lindley.models.neural.fit import Training, train
from lindley.models.neural.integration import integrate_common, integrate_varying
from lindley.models.neural.nplda import train as train_nplda
from lindley.models.neural.parameters import Architecture
from lindley.models.oracle import ScaleMixture
from lindley.models.robust.fit import fit_robust
from lindley.models.robust.model import Robust
from lindley.models.two_level import TwoLevel
from tests.conftest import shorten_search
from tests.models.test_classical import sources

__all__ = ["MODELS", "PARTS"]

PARTS = [sources(seed, n, 2, 3) for seed, n in ((1, 30), (2, 26))]


def trained(components: int) -> TwoLevel:
    training = Training("pairs", epochs=2, batch=10)
    return train(Architecture("single", 2, components), training, PARTS, PARTS, [1, 2]).model


def scaled() -> TwoLevel:
    kernel = fit_classical(PARTS, "kernel")
    nodes = torch.tensor([-0.5, 0.0, 0.7], dtype=torch.float64)
    return replace(kernel, between=ScaleMixture(kernel.between, nodes, torch.full_like(nodes, -np.log(3))))  # type: ignore[arg-type]


def searched() -> Robust:
    with pytest.MonkeyPatch.context() as patch:
        shorten_search(patch)
        return fit_robust(PARTS).model


MODELS: dict[str, Callable[[], TwoLevel | Robust | Averaged]] = {
    "normal": cache(lambda: fit_classical(PARTS, "normal")),
    "kernel": cache(lambda: fit_classical(PARTS, "kernel")),
    "scale mixture": cache(scaled),
    "trained": cache(lambda: trained(1)),
    "mixture": cache(lambda: trained(3)),
    "common": cache(lambda: integrate_common(trained(1), [30, 26])),
    "varying": cache(lambda: integrate_varying(trained(1), PARTS)),
    "varying, sampled": cache(lambda: integrate_varying(trained(1), PARTS, samples=12)),
    "heavy-tailed": cache(lambda: cast(TwoLevel, fit_heavy_tailed(Task(PARTS)).model)),
    "quadratic": cache(lambda: train_nplda(Task(PARTS, PARTS, [1, 2], {"epochs": 2}))[0]),
    "averaged": cache(lambda: fit_full_bayes(PARTS, [1, 2], draws=8)),
    "robust": cache(searched),
}

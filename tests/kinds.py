"""A model of every kind, two runs each, made in a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from lindley.models.bayes.averaged import Averaged
from lindley.models.bayes.fit import fit_full_bayes
from lindley.models.classical import fit_classical
from lindley.models.heavy_tailed.fit import fit_ht_plda
from lindley.models.neural.common import integrate_common
from lindley.models.neural.loop import Training, train
from lindley.models.neural.nplda import fit_nplda
from lindley.models.neural.parameters import Architecture
from lindley.models.neural.varying import integrate_varying
from lindley.models.robust.fit import fit_robust
from lindley.models.robust.model import Robust
from lindley.models.scale import ScaleMixture
from lindley.models.two_level import TwoLevel
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


MODELS: dict[str, Callable[[], TwoLevel | Robust | Averaged]] = {
    "normal": lambda: fit_classical(PARTS, "normal"),
    "kernel": lambda: fit_classical(PARTS, "kernel"),
    "scale mixture": scaled,
    "trained": lambda: trained(1),
    "mixture": lambda: trained(3),
    "common": lambda: integrate_common(trained(1), [30, 26]),
    "varying": lambda: integrate_varying(trained(1), PARTS),
    "varying, sampled": lambda: integrate_varying(trained(1), PARTS, samples=12),
    "heavy-tailed": lambda: fit_ht_plda(PARTS),
    "quadratic": lambda: fit_nplda(PARTS, PARTS, [1, 2], epochs=2)[0],
    "averaged": lambda: fit_full_bayes(PARTS, [1, 2], draws=8),
    "robust": lambda: fit_robust([[part] for part in PARTS], [1, 2]).model,
}

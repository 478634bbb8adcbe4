"""All runs at once against a plain loop over one of them: the same batches, and the same loss curves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bench.same_batches import loss_curves

from lindley.models.neural.fit import Training, train
from lindley.models.neural.parameters import Architecture
from tests.models.neural.test_training import normal_sources

EPOCHS = 25


@pytest.mark.parametrize("mode", ["pairs", "sources"])
@pytest.mark.parametrize(
    ("projection", "within", "orthonormal"),
    [("single", 1, "exponential"), ("single", 2, "qr"), ("double", 1, "qr"), ("double", 2, "exponential")],
)
def test_the_curves_of_a_run_are_those_of_a_plain_loop(
    mode: str, projection: str, within: int, orthonormal: str
) -> None:
    """Of two runs with an odd and an even number of sources, 31 and 40, in batches of 15 or 16 and of 20."""
    learn, validate = [normal_sources(1, 31), normal_sources(2, 40)], [normal_sources(3, 20), normal_sources(4, 20)]
    architecture = Architecture(projection, within, orthonormal=orthonormal)  # type: ignore[arg-type]
    training = Training(mode, EPOCHS, batch=15, learning_rate=0.02, dtype=torch.float64)  # type: ignore[arg-type]
    history = train(architecture, training, learn, validate, [5, 6]).history
    for run, seed in enumerate((5, 6)):
        curves = loss_curves(architecture, training, learn[run], validate[run], seed)
        for ours, plain in zip((history.train[run], history.validate[run]), curves, strict=True):
            assert plain.shape == (EPOCHS,)
            assert np.ptp(plain) > 0.01  # something happens to agree on
            np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-9)

"""What holds of every kind of model."""

from __future__ import annotations

import pytest
import torch

from tests.kinds import MODELS


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("traces", "refs"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_sides_without_items(kind: str, traces: int, refs: int) -> None:
    model = MODELS[kind]()
    x, y = (torch.zeros(2, n, 3, dtype=torch.float64) for n in (traces, refs))
    with torch.no_grad():
        assert model.ln_lr(x, y).shape == (2, traces, refs)
        assert torch.isfinite(model.ln_lr(x, y)).all()

"""Blocks side by side: the same numbers, and torch's threads left as they were."""

from __future__ import annotations

import pytest
import torch

from lindley.models.parallel import side_by_side
from tests.models.test_robust import items, make


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.models.robust.BLOCK", 60)
    model = make(3, 2, 5)
    trace, ref = items(model, 13, 1), items(model, 11, 2)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.inference_mode():
            alone = model.ln_lr(trace, ref)
        torch.set_num_threads(threads)
        with torch.inference_mode():
            together = model.ln_lr(trace, ref)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone, together)


def test_a_gradient_passes() -> None:
    weight = torch.ones(3, requires_grad=True)
    torch.stack(side_by_side(lambda i: weight[i] * i, range(3))).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0, 1.0, 2.0]


def test_errors_come_out() -> None:
    def fail(_: int) -> torch.Tensor:
        raise ValueError("it")

    with torch.no_grad(), pytest.raises(ValueError, match="it"):
        side_by_side(fail, range(4))

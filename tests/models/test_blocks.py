"""Blocks: all of the work once, the same numbers on any number of threads, and torch's threads left as they were."""

from __future__ import annotations

from threading import Thread

import pytest
import torch

from lindley.models.blocks import ON_GPU, at_a_time, pieces, room, side_by_side, workspace
from tests.models.robust.simulate import items, make


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.models.robust.all_pairs.BLOCK", 60)
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


def test_room_is_lent_from_a_workspace_until_it_ends_or_is_full() -> None:
    assert room(2) is None
    memory = torch.zeros(10)
    with workspace(memory):
        first, second = room(2, 3), room(4)
        assert first is not None
        assert second is not None
        first.fill_(1.0)
        second.fill_(2.0)
        assert room(1) is None
        with workspace(None):
            assert room(1) is None
    assert memory.tolist() == [1.0] * 6 + [2.0] * 4
    assert room(2) is None
    with workspace(memory):
        again = room(1)
    assert again is not None
    assert again.item() == 1.0  # the same memory


def test_a_workspace_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all the room that is asked for, with some of it, and with none."""
    model = make(3, 1, 5)
    trace, ref = items(model, 13, 1), items(model, 11, 2)
    expected = model.ln_lr(trace, ref)
    for per_feature, per_scatter in ((4, 2), (0, 0)):
        monkeypatch.setattr("lindley.models.robust.all_pairs.WORK_PER_FEATURE", per_feature)
        monkeypatch.setattr("lindley.models.robust.all_pairs.WORK_PER_SCATTER", per_scatter)
        assert torch.equal(model.ln_lr(trace, ref), expected)


def test_a_gradient_passes() -> None:
    weight = torch.ones(3, requires_grad=True)
    torch.stack(side_by_side(lambda i: weight[i] * i, range(3), weight)).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0, 1.0, 2.0]


def test_errors_come_out() -> None:
    def fail(_: int) -> torch.Tensor:
        raise ValueError("it")

    with torch.no_grad(), pytest.raises(ValueError, match="it"):
        side_by_side(fail, range(4), torch.zeros(1))


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (10, 4), (12, 4), (13, 4), (5, 1), (5, 0)])
def test_pieces_are_even_and_cover_everything(n: int, size: int) -> None:
    found = pieces(n, size)
    assert [i for piece in found for i in range(n)[piece]] == list(range(n))
    lengths = [piece.stop - piece.start for piece in found]
    assert max(lengths) <= max(1, size)
    assert max(lengths) - min(lengths) <= 1


def test_blocks_are_larger_on_a_gpu() -> None:
    assert at_a_time(1000, torch.zeros(1)) == 1000
    elsewhere = torch.zeros(1, device="meta")  # any device that is not the processor
    assert at_a_time(1000, elsewhere) == ON_GPU
    assert at_a_time(2 * ON_GPU, elsewhere) == 2 * ON_GPU


def test_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with torch.no_grad():
            side_by_side(lambda at: torch.tensor(at), range(4), torch.zeros(1))
        found: list[int] = []
        new = Thread(target=lambda: found.append(torch.get_num_threads()))
        new.start()
        new.join()
        assert found == [torch.get_num_threads()] == [3]
    finally:
        torch.set_num_threads(before)

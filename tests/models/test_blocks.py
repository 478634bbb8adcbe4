"""Blocks: all of the work once, the same numbers on any number of threads, and torch's threads left as they were."""

from __future__ import annotations

from threading import Thread

import pytest
import torch

from lindley.models.blocks import ON_GPU, at_a_time, pieces, side_by_side


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    trace, ref = torch.randn(2, 7, 40, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def block(at: int) -> torch.Tensor:
        return torch.cdist(trace[at], ref[at]).exp().sum(-1)

    with torch.inference_mode():
        alone = [block(at) for at in range(7)]
        together = side_by_side(block, range(7), trace, threads)
    assert all(map(torch.equal, together, alone))


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

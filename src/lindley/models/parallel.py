"""Blocks of work side by side, each on one thread.

The operations on a block are short, and threads inside them would meet at a barrier after each. On a machine with other work to
do they wait there for one another: scoring was seen to take a hundred times as long. Blocks have nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["one_thread", "side_by_side"]

T = TypeVar("T")


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, for the time being."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(function: Callable[[T], Tensor], arguments: Sequence[T]) -> list[Tensor]:
    """``function`` of every argument, on as many threads as torch may use; with a gradient or on a GPU, one by one."""
    threads = min(torch.get_num_threads(), len(arguments))
    if threads < 2 or torch.is_grad_enabled() or torch.cuda.is_available():
        return [function(argument) for argument in arguments]
    inference = torch.is_inference_mode_enabled()

    def alone(argument: T) -> Tensor:
        with torch.inference_mode(inference), torch.no_grad():
            return function(argument)

    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(alone, arguments))

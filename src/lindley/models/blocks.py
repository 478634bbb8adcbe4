"""Blocks of work: how large they are on a processor and on a GPU, and blocks side by side, each on one thread.

On a processor, what a block holds should stay close at hand. On a GPU every operation costs some microseconds to start, however
little there is to do: blocks are large there.

On a processor the operations on a block are short, and threads inside them would meet at a barrier after each. On a machine
with other work to do they wait there for one another: scoring was seen to take a hundred times as long. Blocks have nothing to
wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["at_a_time", "keep_memory", "one_thread", "pieces", "side_by_side"]

T = TypeVar("T")
R = TypeVar("R")

ON_GPU = 1 << 24
"""Numbers of a block on a GPU: 128 MiB in double precision."""


def at_a_time(on_cpu: int, where: Tensor) -> int:
    """Numbers of a block: ``on_cpu`` on a processor, or what keeps a GPU busy if ``where`` is on one."""
    return on_cpu if where.device.type == "cpu" else max(on_cpu, ON_GPU)


def pieces(n: int, size: int) -> list[slice]:
    """0 … n − 1 in pieces of about the same size, none longer than ``size``; one empty piece of nothing.

    >>> pieces(10, 4)
    [slice(0, 4, None), slice(4, 7, None), slice(7, 10, None)]
    """
    number = max(1, -(-n // max(1, size)))
    edges = [-(-n * i // number) for i in range(number + 1)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def keep_memory() -> None:
    """Ask that memory which is freed and needed again a moment later stays with the process.

    glibc gives what is free above a limit back to the system, and then gets it again page by page: of an epoch of training that
    was a quarter, and of scoring a matrix two thirds. The limit is twice the largest block that was ever freed, up to 32 MiB.
    """
    torch.empty(28 << 20, dtype=torch.uint8)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, for the time being."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(
    function: Callable[[T], R], arguments: Sequence[T], where: Tensor, threads: int | None = None
) -> list[R]:
    """``function`` of every argument, on so many threads, or as many as torch may use.

    With a gradient, or if ``where`` is on a GPU, they are computed one by one: a GPU is handed its work from one thread.
    """
    threads = min(torch.get_num_threads() if threads is None else threads, len(arguments))
    if threads < 2 or torch.is_grad_enabled() or where.device.type != "cpu":
        return [function(argument) for argument in arguments]
    inference = torch.is_inference_mode_enabled()

    def alone(argument: T) -> R:
        with torch.inference_mode(inference), torch.no_grad():
            return function(argument)

    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(alone, arguments))
    finally:
        torch.set_num_threads(before)  # for threads that are made later, too

"""What `test_workers` has done elsewhere. A worker imports this module, which needs little."""

from __future__ import annotations

import os
import time
import warnings

from lindley.errors import LindleyError
from lindley.workers import Notify


def double(number: int, notify: Notify) -> int:
    notify("doubling", number)
    return 2 * number


def own_process(number: int, notify: Notify) -> int:
    time.sleep(0.05)  # so that one worker does not do all
    return os.getpid()


def warn(number: int, notify: Notify) -> int:
    warnings.warn(f"few sources: {number}", RuntimeWarning, stacklevel=1)
    return number


def fail(number: int, notify: Notify) -> None:
    raise LindleyError(f"{number} has no inverse")


class Odd(Exception):
    """An error that cannot be made again from what pickle keeps of it."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one}, {two}")


def fail_oddly(number: int, notify: Notify) -> None:
    raise Odd("one", "two")


def die_elsewhere(parent: int, notify: Notify) -> int:
    """Not in the process of the test itself."""
    if os.getpid() != parent:
        os._exit(7)
    return parent


def go_on(number: int, notify: Notify) -> None:
    while True:
        notify(number)
        time.sleep(0.01)

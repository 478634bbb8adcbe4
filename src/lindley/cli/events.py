"""How far a command is, for another program: lines of JSON at the end of the file that LINDLEY_EVENTS names.

A line tells what is being done (``doing``, ``detail``, ``done`` from 0 to 1), what was said on the way (``level``, ``said``),
or how the command ended (``status``). A command that was killed leaves no ``status``. `lindley.app` shows them; without the
variable nothing is written.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

__all__ = ["EVENTS", "tell", "tell_progress"]

EVENTS = "LINDLEY_EVENTS"
APART = 0.4
"""Seconds between two lines about the same thing being done."""

_last: tuple[str, float] = ("", 0.0)


def tell(**event: Any) -> None:
    """Add a line; a disk that is full does not end the work."""
    path = os.environ.get(EVENTS)
    if path:
        with suppress(OSError), open(path, "a", encoding="ascii") as file:
            file.write(json.dumps({"time": time.time(), **event}) + "\n")


def tell_progress(doing: str, detail: str, done: float) -> None:
    """Add a line about progress, where there is something new to tell."""
    global _last
    now = time.monotonic()
    if doing != _last[0] or now - _last[1] > APART:
        _last = (doing, now)
        tell(doing=doing, detail=detail, done=done)

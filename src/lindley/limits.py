"""How large a file, a label or a count may be before it is refused, so that no input can fill the memory or run for ever.

Every limit is far beyond what a laboratory writes. Whoever needs more raises it with an environment variable.
"""

from __future__ import annotations

import os
from typing import Literal

from lindley.errors import LindleyError

__all__ = ["LIMITS", "Limit", "limit", "limit_text"]

Limit = Literal["TABLE_MB", "COLUMNS", "LETTERS", "YAML_KB", "SPLITS"]

LIMITS: dict[Limit, tuple[int, str]] = {
    "TABLE_MB": (200, "MB"),  # of a table's file, of a workbook when it is unpacked, and of the labels in memory
    "COLUMNS": (16_384, "columns"),  # as many as Excel has
    "LETTERS": (255, "letters"),  # of a label or the name of a column
    "YAML_KB": (200, "KB"),  # of an experiment, a scale or criteria, with every alias written out
    "SPLITS": (10_000, "splits"),
}
"""By the end of the name of its variable: the limit where that is not set, and what it counts."""


def limit(name: Limit) -> int:
    """The limit that holds now.

    >>> limit("SPLITS")
    10000
    """
    variable, given = f"LINDLEY_MAX_{name}", os.environ.get(f"LINDLEY_MAX_{name}")
    if given is None:
        return LIMITS[name][0]
    if not (given.isascii() and given.isdigit() and 0 < len(given) <= 12 and int(given) > 0):
        raise LindleyError(f"the environment variable {variable} is '{given[:40]}': give a whole number above 0")
    return int(given)


def limit_text(name: Limit) -> str:
    """Half a sentence: the limit, and how to raise it.

    >>> limit_text("COLUMNS")
    'the limit is 16,384 columns, which the environment variable LINDLEY_MAX_COLUMNS raises'
    """
    return f"the limit is {limit(name):,} {LIMITS[name][1]}, which the environment variable LINDLEY_MAX_{name} raises"

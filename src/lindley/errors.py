"""The one exception whose message is meant for the person at the keyboard."""

from __future__ import annotations

from collections.abc import Collection

from lindley.settings import spoken
from lindley.shown import visible

__all__ = ["LindleyError"]


class LindleyError(Exception):
    """Something that the user can mend; the message says what, where and how.

    The command line prints the message alone and ends with status 2. `lindley.settings.setting` names a setting in it.
    A further line begins with two spaces; any other line end, and all control characters, come from names in other people's
    files, and are shown as such.
    """

    options: Collection[str] | None = None
    """Of the command that it ended: its message names no others."""

    def __str__(self) -> str:
        return "\n  ".join(map(visible, spoken(super().__str__()).split("\n  ")))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

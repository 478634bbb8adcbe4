"""The one exception whose message is meant for the person at the keyboard."""

from __future__ import annotations

from lindley.settings import spoken

__all__ = ["LindleyError"]


class LindleyError(Exception):
    """Something that the user can mend; the message says what, where and how.

    The command line prints the message alone and ends with status 2. `lindley.settings.setting` names a setting in it.
    """

    def __str__(self) -> str:
        return spoken(super().__str__())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

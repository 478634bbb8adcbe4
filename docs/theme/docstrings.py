"""Examples in docstrings, for mkdocstrings: it knows them only under a heading, and these stand without one."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Lines from ``>>>`` to the next blank line become a block of code, and ``::`` before a block one colon."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The docstring with its examples between fences."""
    text = re.sub(
        r"^>>> .*?(?=\n\s*\n|\Z)", lambda match: f"```pycon\n{_plain(match.group())}\n```", text, flags=re.M | re.S
    )
    return re.sub(r"(?<=\w)::$", ":", text, flags=re.M)


def _plain(example: str) -> str:
    return re.sub(r"\s*# doctest: .*$", "", example, flags=re.M)

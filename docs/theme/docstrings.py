"""Docstrings for mkdocstrings: examples, which it knows only under a heading; lists of terms; and comments of fields."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Readable(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """The docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = listed(fenced(obj.docstring.value))

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """What the comments behind the fields of a class say is part of its docstring."""
        if cls.docstring is not None and (found := fields(cls.source)):
            cls.docstring.value += "\n\n" + found


def fields(source: str) -> str:
    """A list of the fields that have a comment behind them."""
    rows = re.findall(r"^    ([a-z]\w*): [^#\n]+  # (?!type:|noqa)(.*)$", source, re.M)
    return "\n".join(f"- `{name}`: {about}" for name, about in rows)


def listed(text: str) -> str:
    """Terms on lines of their own, each with an indented text below, as a list."""
    entry = r"^(``\w+``|\*[\w-]+\*)\n((?:    .*(?:\n|\Z))+)"
    return re.sub(entry, lambda match: f"- {match[1]}: {' '.join(match[2].split())}\n", text, flags=re.M)


def fenced(text: str) -> str:
    """The docstring with its examples between fences, and one colon where ``::`` stands before a block."""
    text = re.sub(
        r"^>>> .*?(?=\n\s*\n|\Z)", lambda match: f"```pycon\n{_plain(match.group())}\n```", text, flags=re.M | re.S
    )
    return re.sub(r"(?<=\w)::$", ":", text, flags=re.M)


def _plain(example: str) -> str:
    return re.sub(r"\s*# doctest: .*$", "", example, flags=re.M)

"""``lindley.yaml`` in a folder of tables: the options that describe them, so that nobody types them for every command.

It holds those options and nothing else: no path, no code. What a command is given wins, and what was taken from the file is
said, and written down with the results.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from lindley.documents import Document
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.datasets import dataset_names
from lindley.table.findings import did_you_mean, listing, quoted

__all__ = ["PROFILE", "profile_beside", "profile_text", "read_keys", "said"]

PROFILE = "lindley.yaml"


def profile_beside(data: str) -> Path | None:
    """Where the profile of a table, or of a folder of tables, would be; a named data set has none."""
    if data in dataset_names() or not os.path.exists(data):  # which says no of a name that is too long
        return None
    path = Path(data)
    return (path if path.is_dir() else path.parent) / PROFILE


def read_keys(place: Path, keys: Collection[str]) -> Document | None:
    """The file, if it is there and holds no other keys than these; their values are not looked at.

    Raises:
        LindleyError: with the line of the first key that it should not hold, or if it is no plain file.
    """
    if not os.path.lexists(place):
        return None
    if place.is_symlink() or not place.is_file():  # a link may lead out of the folder, and a pipe never ends
        raise LindleyError(f"{place} is no ordinary file. Remove it, or leave it alone with {setting('no_profile')}.")
    document = Document.read(place)
    if not isinstance(document.content, dict) or not document.content:
        raise LindleyError(f"{place} holds no options, such as source_column: item. Remove it, or write some.")
    for key in document.content:
        if key not in keys:
            meant = did_you_mean(str(key), sorted(keys))
            raise LindleyError(
                f"{place}: {document.line((key,))}there is no option {quoted([key])[0]} of a table. {meant}"
                f"The options are {listing(sorted(keys), 30)}. If the file is for something else, leave it alone with "
                f"{setting('no_profile')}."
            )
    return document


def said(options: Mapping[str, Any]) -> str:
    """Options in the words of whoever is spoken to."""
    return listing([_said(name, value) for name, value in options.items()], 30)


def _said(name: str, value: Any) -> str:
    plain = name.removesuffix("_columns").removesuffix("_column")
    values = value if isinstance(value, tuple) else () if value is True else (str(value),)
    return setting(plain, *values)


def profile_text(options: Mapping[str, Any]) -> str:
    """What a profile of these options holds."""
    content = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    head = "# How the tables in this folder are read by lindley. Options of a command win over it; --no-profile ignores it.\n"
    return head + yaml.safe_dump(content, allow_unicode=True, sort_keys=False, default_flow_style=None)

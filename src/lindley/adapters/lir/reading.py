"""Tables for LiR: found where LiR looks for files, and with errors in the words of its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lir.data.io import search_path
from pydantic import ValidationError

from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig
from lindley.table.datasets import dataset_names

__all__ = ["in_yaml", "reading", "told_in_yaml"]

_LIST = re.compile(r"--(include|ignore)-columns (\"[^\"]*\"|'[^']*'|\S+?)(?=[.;,]?(?:\s|$))")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])")


def reading(data: str, options: Mapping[str, Any]) -> DataConfig:
    """How a table is read: a named data set, or a file that is looked for where LiR looks for its own."""
    try:
        config = DataConfig.model_validate({"data": data, **options})
    except ValidationError as error:
        known = ", ".join(name for name in DataConfig.model_fields if name != "data")
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise LindleyError(f"{problems}. Beside data there are {known}.") from None
    if config.data in dataset_names():
        return config
    found = search_path(config.data)
    return config.model_copy(update={"data": str(found)}) if found.exists() else config


@contextmanager
def told_in_yaml() -> Iterator[None]:
    """Errors name keys of an experiment file, where lindley's own name options of its command."""
    try:
        yield
    except LindleyError as error:
        raise LindleyError(in_yaml(str(error))) from None


def in_yaml(text: str) -> str:
    """A message with options of the command turned into keys of an experiment file.

    >>> in_yaml("leave it out with --ignore-columns Fe, or use --device cpu")
    'leave it out with ignore_columns: [Fe], or use device: cpu'
    """
    text = _LIST.sub(lambda found: f"{found[1]}_columns: [{found[2]}]", text)
    text = text.replace("--allow-duplicates", "allow_duplicates: true")
    return _OPTION.sub(lambda found: found[1].replace("-", "_") + ":", text)

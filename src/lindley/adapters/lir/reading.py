"""Tables for LiR: found where LiR looks for files, of any number of sources, and with errors in the words of its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from lir.data.io import search_path
from pydantic import ValidationError

from lindley.data.columns import Columns, assign_roles
from lindley.data.datasets import dataset_names
from lindley.data.findings import Finding, TableError
from lindley.data.labels import read_labels
from lindley.data.numbers import parse_numbers
from lindley.data.read import read_grid
from lindley.data.table import Table
from lindley.data.transform import Transform
from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig
from lindley.llrs import Floats

__all__ = ["in_yaml", "load", "reading", "told_in_yaml"]

COUNTS = ("too-few-sources", "no-replicates")
"""Findings on a table that is to be split three ways, and nothing to one that LiR splits."""

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


def load(config: DataConfig) -> Table:
    """Read the table; every problem with it is a `LindleyError`, but not that it has few sources."""
    examined = config.examine()
    if examined.table is not None:
        return examined.table
    findings = tuple(finding for finding in examined.findings if finding.code not in COUNTS)
    if any(finding.level == "error" for finding in findings):
        raise TableError(findings)
    return _of_few_sources(config, findings)


def _of_few_sources(config: DataConfig, findings: tuple[Finding, ...]) -> Table:
    """A table in which nothing else was wrong."""
    path, transform = Path(config.data), Transform(config.transform, config.reference_column)
    columns = Columns(
        config.source_column, config.group_column, config.instance_column, config.include_columns, config.ignore_columns
    )
    grid, _ = read_grid(path, config.sheet)
    assert grid is not None
    roles, _ = assign_roles(grid, columns, transform.reference)
    labels, _ = read_labels(grid, roles)
    assert labels is not None
    raw, reference = (
        [parse_numbers(grid.columns[place]).values for place in places if place is not None]
        for places in (roles.features, [roles.reference])
    )
    values: Floats = transform.apply(np.column_stack(raw) + 0.0, reference[0] if reference else None)
    names = tuple(grid.header[place] for place in roles.features)
    return Table(path.stem, values, names, labels.source, labels.group, labels.instance, findings)


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

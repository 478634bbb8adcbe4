"""How a table is read: the options of a command or of a section ``data``, and ``lindley.yaml`` in a folder of tables.

That file holds the options that describe its tables, so that nobody types them for every command, and nothing else: no path,
no code. What a command is given wins, and what was taken from the file is said, and written down with the results.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, PrivateAttr

from lindley.documents import Document, ShortForm
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.shown import file_name
from lindley.table.columns import BelowLimit, Decimal, Purpose
from lindley.table.datasets import dataset_names
from lindley.table.findings import Finding, TableError, did_you_mean, listing, quoted
from lindley.table.read import read_table
from lindley.table.table import Table
from lindley.table.workbook import Hidden

__all__ = ["PROFILE", "DataConfig", "profile_beside", "profile_text"]

PROFILE = "lindley.yaml"


class DataConfig(ShortForm):
    """A named data set, or a file and how to read it."""

    data: str = Field(description="a named data set (see 'lindley data list'), or the path of a CSV or .xlsx file")
    source_column: str | None = Field(default=None, description="the column that names the source; default 'source'")
    group_column: str | None = Field(default=None, description="sources of one group are never split apart")
    session_column: str | None = Field(
        default=None, description="what some measurements of a source share: the fragment, day or instrument"
    )
    instance_column: str | None = Field(
        default=None, description="the column that numbers the measurements of a source"
    )
    include_columns: tuple[str, ...] = Field(default=(), description="use these columns as features, and no others")
    ignore_columns: tuple[str, ...] = Field(default=(), description="leave these columns out")
    transform: Literal["none", "log10", "ln"] = Field(default="none", description="take the logarithm of every feature")
    reference_column: str | None = Field(
        default=None, description="divide every feature by this column before the logarithm"
    )
    header_row: int | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=2**20,
        description="the row of the header, as Excel counts; default the first, or the one below a title",
    )
    sheet: str | None = Field(default=None, description="the sheet of an .xlsx file; default the first that is seen")
    hidden: Hidden | None = Field(
        default=None, description="include hidden rows and columns of an .xlsx file, or ignore them; default: an error"
    )
    decimal: Decimal | None = Field(
        default=None, description="the decimal mark, where numbers such as 1,934 could be 1.934 or 1934"
    )
    below_limit: BelowLimit | None = Field(
        default=None,
        description="read values below the detection limit, such as <0.02, as half of it, as the limit, or over √2 (sqrt2)",
    )
    allow_duplicates: bool = Field(default=False, description="accept identical rows of one source, with a warning")
    units: str | None = Field(
        default=None,
        description="units of the features: 'ppm' for all, or 'K39=ppm,Fe57=%'; a header 'K39 [ppm]' tells it too",
    )
    no_profile: bool = Field(
        default=False, description=f"take nothing from {PROFILE}, the options that are kept beside the table"
    )
    _noted: tuple[Finding, ...] = PrivateAttr(default=())

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The fields that describe a table."""
        return tuple(name for name in cls.model_fields if name not in ("data", "no_profile"))

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, and not left to their defaults."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set - {"data"}
        }

    @property
    def noted(self) -> tuple[Finding, ...]:
        """What was taken from a profile."""
        return self._noted

    def with_profile(self, used: Collection[str] = ()) -> Self:
        """With what the profile beside the table says and nobody gave; a finding of the table will tell of it.

        A command that has some of the options only names those that are ``used``: it leaves the others alone.
        """
        place = None if self.no_profile else profile_beside(self.data)
        document = None if place is None else _read_keys(place, self.options())
        if document is None:
            return self
        content = {**document.content, "data": self.data}
        told = document.validate(type(self), f"{place} does not read", {}, content=content).given
        taken = {name: told[name] for name in told if name in (used or told) and name not in self.given}
        others = {name: told[name] for name in told if name not in taken}
        message = (
            f"{PROFILE} in its folder was used: {_said(taken)}"
            if taken
            else f"{PROFILE} in its folder says nothing new"
        )
        if others:
            message += f". Not used of it, as the command or the system settles that: {_said(others)}"
        config = type(self)(data=self.data, **{**taken, **self.given, "no_profile": True})
        config._noted = (Finding("note", "profile", message, file=file_name(self.data)),)
        return config

    def load(self, purpose: Purpose = "split", **further: Any) -> Table:
        """Read the table with `read_table`, which takes ``further`` settings; every problem with it is a `LindleyError`."""
        try:
            table = read_table(self.data, **{**self._settings(), "purpose": purpose, **further})
        except TableError as error:
            raise TableError((*error.findings, *self._noted)) from error
        return replace(table, findings=(*table.findings, *self._noted))

    def _settings(self) -> dict[str, Any]:
        """By the names that `read_table` has for them."""
        return {name.removesuffix("_columns").removesuffix("_column"): getattr(self, name) for name in self.options()}


def profile_beside(data: str) -> Path | None:
    """Where the profile of a table, or of a folder of tables, would be; a named data set has none."""
    if data in dataset_names() or not os.path.exists(data):  # which says no of a name that is too long
        return None
    path = Path(data)
    return (path if path.is_dir() else path.parent) / PROFILE


def _read_keys(place: Path, keys: Collection[str]) -> Document | None:
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


def _said(options: Mapping[str, Any]) -> str:
    """Options in the words of whoever is spoken to."""
    return listing([_option(name, value) for name, value in options.items()], 30)


def _option(name: str, value: Any) -> str:
    plain = name.removesuffix("_columns").removesuffix("_column")
    values = value if isinstance(value, tuple) else () if value is True else (str(value),)
    return setting(plain, *values)


def profile_text(options: Mapping[str, Any]) -> str:
    """What a profile of these options holds."""
    content = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    head = "# How the tables in this folder are read by lindley. Options of a command win over it; --no-profile ignores it.\n"
    return head + yaml.safe_dump(content, allow_unicode=True, sort_keys=False, default_flow_style=None)

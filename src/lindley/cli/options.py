"""The options of the command line that say how a table is read: shared by all commands that read one."""

from __future__ import annotations

import csv
from enum import StrEnum
from typing import Annotated, Any

import typer

from lindley.errors import LindleyError

__all__ = [
    "AllowDuplicates",
    "GroupColumn",
    "IgnoreColumns",
    "IncludeColumns",
    "InstanceColumn",
    "ReferenceColumn",
    "Sheet",
    "SourceColumn",
    "TransformKind",
    "TransformOption",
    "data_options",
    "names",
]


class TransformKind(StrEnum):
    """How measurements are transformed before anything else."""

    none = "none"
    log10 = "log10"
    ln = "ln"


TABLE = "Reading a table"
SourceColumn = Annotated[
    str | None,
    typer.Option(help="The column that names the source. Default: the column called 'source'.", rich_help_panel=TABLE),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(help="Sources of one group are never split apart (two windows of a vehicle).", rich_help_panel=TABLE),
]
InstanceColumn = Annotated[
    str | None,
    typer.Option(help="The column that numbers the measurements of a source.", rich_help_panel=TABLE),
]
IncludeColumns = Annotated[
    str | None,
    typer.Option(help="Use these columns as features, and no others: A,B,… or '\"Na, %\",B'.", rich_help_panel=TABLE),
]
IgnoreColumns = Annotated[
    str | None,
    typer.Option(help="Leave these columns out: A,B,… or '\"Na, %\",B'.", rich_help_panel=TABLE),
]
TransformOption = Annotated[
    TransformKind | None, typer.Option(help="Take the logarithm of every feature.", rich_help_panel=TABLE)
]
ReferenceColumn = Annotated[
    str | None,
    typer.Option(help="Divide every feature by this column before the logarithm (Si28).", rich_help_panel=TABLE),
]
Sheet = Annotated[
    str | None, typer.Option(help="The sheet of an .xlsx file. Default: the first.", rich_help_panel=TABLE)
]
AllowDuplicates = Annotated[
    bool,
    typer.Option(
        "--allow-duplicates",
        help="Accept identical rows of one source, with a warning.",
        rich_help_panel=TABLE,
    ),
]


def names(text: str, option: str) -> tuple[str, ...]:
    """A list of names as one line of CSV: ``K39,"Na, %"``."""
    try:
        fields = [field for line in csv.reader([text], skipinitialspace=True, strict=True) for field in line]
    except csv.Error as error:
        raise LindleyError(
            f"{option} {text} does not read as a list of names ({error}): put commas between the names, and a name "
            "that holds a comma between quotation marks, as in '\"Na, %\",K39'."
        ) from error
    return tuple(name.strip() for name in fields if name.strip())


def data_options(
    source_column: str | None,
    group_column: str | None,
    instance_column: str | None,
    include_columns: str | None,
    ignore_columns: str | None,
    transform: TransformKind | None,
    reference_column: str | None,
    sheet: str | None,
    allow_duplicates: bool,
) -> dict[str, Any]:
    """The options that were given, by the names of `DataConfig`."""
    include = names(include_columns, "--include-columns") if include_columns is not None else None
    if include == ():
        raise LindleyError(
            "--include-columns names no column: name one at least, or leave the option out to use all columns."
        )
    options = {
        "source_column": source_column,
        "group_column": group_column,
        "instance_column": instance_column,
        "include_columns": include,
        "ignore_columns": names(ignore_columns, "--ignore-columns") if ignore_columns is not None else None,
        "transform": transform.value if transform is not None else None,
        "reference_column": reference_column,
        "sheet": sheet,
        "allow_duplicates": allow_duplicates or None,
    }
    return {name: value for name, value in options.items() if value is not None}

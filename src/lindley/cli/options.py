"""The options that several commands take: above all those that say how a table is read."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lindley.cli.console import warn
from lindley.errors import LindleyError
from lindley.files import is_special, require_name
from lindley.settings import option_list, option_value
from lindley.shown import file_name

if TYPE_CHECKING:
    from lindley.table.config import DataConfig
    from lindley.table.findings import Finding
    from lindley.table.table import Table

__all__ = [
    "CALIBRATIONS",
    "CASE_READING",
    "EVALUATE_READING",
    "MATES",
    "MODELS",
    "MOST",
    "MOST_SEED",
    "NEURAL",
    "READING",
    "SYSTEM_ENDING",
    "AsJson",
    "SameLabels",
    "Signed",
    "SystemFile",
    "Tables",
    "all_given",
    "command_line",
    "described_sides",
    "described_tables",
    "load_table",
    "load_tables",
    "names",
    "no_data_set",
    "read_mates",
    "read_tables",
    "reads_table",
    "require_files",
    "require_place",
    "takes_options",
    "tell_findings",
]

# what help texts say that there is: the names themselves are in lindley.system.names, which takes long to import
MODELS = "robust, tlm, tlm-kde, tlm-bayes, ht-plda"
NEURAL = "ntlm-{single,double}-{pairs,sources}-{n1,n2} with -common or -varying behind"
CALIBRATIONS = "+logistic, +kde, +pav, +elub, +iv"
MATES = (
    "How often another source is of the same group (--group-column): as-in-table, never, or a share such as 0.01. Fits, "
    "calibrations and figures all go by it."
)
MOST = 10**6
"""Splits, epochs, replicates or measurements that an option takes: more is a slip of the keys."""
MOST_SEED = 2**63 - 1
MOST_ROWS = 2**20
"""As many as Excel has."""
SYSTEM_ENDING = ".safetensors"

SystemFile = Annotated[Path, typer.Argument(help="A system file that 'lindley train' wrote.")]
Tables = Annotated[list[str], typer.Argument(help="CSV or .xlsx files, or named data sets.", metavar="TABLE…")]
SameLabels = Annotated[
    Literal["same", "different"] | None,
    typer.Option(help="What a label stands for that is in two of the tables: the same source, or different ones."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Signed = Annotated[
    Path | None,
    typer.Option(
        "--require-signature",
        metavar="PUBLIC_KEY",
        help="Refuse a system that was not signed with the private key of this one ('lindley sign').",
    ),
]

READING: dict[str, tuple[Any, str]] = {
    "source_column": (str | None, "The column that names the source. Default: the column called 'source'."),
    "group_column": (str | None, "Sources of one group are never split apart (two windows of a vehicle)."),
    "session_column": (
        str | None,
        "What some measurements of a source share: the fragment, day or instrument. Trace and ref of a source that has two "
        "are then of different ones.",
    ),
    "instance_column": (str | None, "The column that numbers the measurements of a source."),
    "include_columns": (str | None, "Use these columns as features, and no others: A,B,… or '\"Na, %\",B'."),
    "ignore_columns": (str | None, "Leave these columns out: A,B,… or '\"Na, %\",B'."),
    "transform": (Literal["none", "log10", "ln"] | None, "Take the logarithm of every feature."),
    "reference_column": (str | None, "Divide every feature by this column before the logarithm (Si28)."),
    "units": (
        str | None,
        "Units of the features: 'ppm' for all, or 'K39=ppm,Fe57=%'. A header such as 'K39 (ppm)' tells it too. Cases in other "
        "units are refused.",
    ),
    "header_row": (
        int | None,
        "The row of the header, as Excel counts: 4 if three rows of title stand above it. Default: the first row, or the one "
        "below a title where no other can be meant.",
    ),
    "sheet": (str | None, "The sheet of an .xlsx file. Default: the first that is not hidden."),
    "hidden": (
        Literal["include", "ignore"] | None,
        "Hidden rows and columns of an .xlsx file: include them, or ignore them. Default: they are an error.",
    ),
    "decimal": (
        Literal[".", ","] | None,
        "The decimal mark, where numbers such as 1,934 could be 1.934 or 1934. Default: these are an error.",
    ),
    "below_limit": (
        Literal["half", "limit", "sqrt2"] | None,
        "Read values below the detection limit, such as <0.02, as half of it, as the limit, or as the limit over √2. Default: "
        "these are an error.",
    ),
    "allow_duplicates": (bool, "Accept identical rows of one source, with a warning."),
    "no_profile": (bool, "Take nothing from lindley.yaml, the options that are kept in the folder of the table."),
}
"""How a table is read: what each option takes, and its help, by the names of `DataConfig`."""
CASE_READING = (
    "session_column", "ignore_columns", "header_row", "sheet", "hidden", "decimal", "below_limit", "no_profile",
)  # fmt: skip
EVALUATE_READING = (
    "source_column", "group_column", "session_column", "instance_column", "header_row", "sheet", "hidden", "decimal",
    "below_limit", "allow_duplicates", "no_profile",
)  # fmt: skip
"""Those of commands that read tables for a system, which itself says what the features are."""


def reads_table(*some: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that say how its table is read, all or ``some`` of them.

    The command takes what was given of them as one argument, ``reading``, by the names of `DataConfig`.
    """
    options = {name: READING[name] for name in some or READING}
    return takes_options("reading", "Reading a table", options, data_options)


def takes_options(
    argument: str,
    panel: str,
    options: Mapping[str, tuple[Any, str]],
    read: Callable[[Mapping[str, Any]], Any] = dict,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command further options, shown as a ``panel`` of its help: what each takes, and its help, by name.

    The command takes what ``read`` makes of them as one ``argument``.
    """
    added = [_parameter(name, *option, panel) for name, option in options.items()]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != argument]

        @wraps(command)
        def with_options(**given: Any) -> None:
            command(**{argument: read({each.name: given.pop(each.name) for each in added})}, **given)

        with_options.__signature__ = Signature([*own, *added])  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        return with_options

    return decorate


def _parameter(name: str, kind: Any, text: str, panel: str) -> Parameter:
    # a flag has no opposite: --allow-duplicates, and no --no-allow-duplicates
    declared = (f"--{name.replace('_', '-')}",) if kind is bool else ()
    rows = {"min": 1, "max": MOST_ROWS} if kind == int | None else {}
    annotation = Annotated[kind, typer.Option(*declared, help=text, rich_help_panel=panel, **rows)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=False if kind is bool else None, annotation=annotation)


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


def read_mates(text: str) -> Any:
    """A word, or a share: what is neither is told where the table is known."""
    try:
        return text if "_" in text else float(text)  # 0_1 is no number to anybody but Python
    except ValueError:
        return text


def data_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, their lists of names read."""
    options = {name: value for name, value in given.items() if value not in (None, False)}
    for name in ("include_columns", "ignore_columns"):
        if name in options:
            options[name] = names(options[name], f"--{name.replace('_', '-')}")
    if options.get("include_columns") == ():
        raise LindleyError(
            "--include-columns names no column: name one at least, or leave the option out to use all columns."
        )
    return options


def described_sides(paths: Iterable[Path], reading: Mapping[str, Any]) -> list[DataConfig]:
    """The tables of a case with the options that were given, and each with what is kept in its own folder."""
    from lindley.casework.laboratory import READING as OF_A_CASE
    from lindley.table.config import DataConfig

    return [DataConfig(data=no_data_set(path), **reading).with_profile(OF_A_CASE) for path in paths]


def no_data_set(path: Path) -> str:
    """The path with a folder in front, so that it is never taken for the name of a data set."""
    return os.path.join(os.curdir, path)


def described_tables(tables: Sequence[str], reading: Mapping[str, Any], used: Collection[str] = ()) -> list[DataConfig]:
    """Tables that are read as one, with the options that were given and those that are kept beside them, which must agree.

    What is written down of a system says once how its tables were read.
    """
    from lindley.table.config import DataConfig
    from lindley.table.datasets import dataset_names

    several = len(tables) > 1
    described = [
        DataConfig(data=each, **({} if several and each in dataset_names() else reading)).with_profile(used)
        for each in tables
    ]
    files = [each for each in described if each.data not in dataset_names()]
    for each in files[1:]:
        if _told(each) != _told(files[0]):
            raise LindleyError(
                f"what is kept beside {files[0].data} and beside {each.data} says different things of their tables. Give the "
                "options that hold for all of them, and --no-profile."
            )
    return described


def _told(described: DataConfig) -> dict[str, Any]:
    return {name: value for name, value in described.given.items() if name in described.options()}


def all_given(described: Iterable[DataConfig]) -> dict[str, Any]:
    """The options of tables that are read as one."""
    return {name: value for each in described for name, value in each.given.items()}


def command_line(*words: object, **options: object) -> str:
    """A command as it would be typed where its files are, so that somebody can repeat it; folders of paths are left out."""

    def typed(value: object) -> str:
        if isinstance(value, tuple):
            return option_list(*value)
        return option_value(file_name(str(value)) if isinstance(value, Path) else str(value))

    given = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {typed(value)}")
        for name, value in options.items()
        if value is not None
    ]
    return " ".join(["lindley", *map(typed, words), *given])


def load_tables(tables: Sequence[DataConfig], same_labels: Any = None, **further: Any) -> Table:
    """What `read_tables` reads, after a warning of everything that is odd with it."""
    return tell_findings(read_tables(tables, same_labels, **further))


def read_tables(tables: Sequence[DataConfig], same_labels: Any = None, **further: Any) -> Table:
    """One table, or several as one (`join_tables`); ``further`` settings are those of `read_table`."""
    from lindley.table.findings import TableError
    from lindley.table.join import join_tables

    if len(tables) == 1:
        if same_labels is not None:
            raise LindleyError("--same-labels is about labels of several tables, and there is one: leave it out.")
        return tables[0].load(**further)
    parts: list[Table] = []
    problems: list[Finding] = []
    for each in tables:
        try:
            parts.append(each.load(**{"purpose": "part", **further}))
        except TableError as error:
            problems += error.findings
    if problems:
        raise TableError(problems)
    allowed = any(each.allow_duplicates for each in tables)
    return join_tables(parts, same_labels=same_labels, allow_duplicates=allowed)


def load_table(data: DataConfig, **further: Any) -> Table:
    """The table, after a warning of everything that is odd with it; ``further`` settings are those of `read_table`."""
    return tell_findings(data.load(**further))


def tell_findings(table: Table) -> Table:
    """Warn of everything that is odd with a table."""
    for finding in table.findings:
        warn(str(finding), finding.level)
    return table


def require_files(
    systems: Iterable[str | Path], tables: Iterable[str], signed_by: Path | None = None, *, old_robust: bool = False
) -> None:
    """Refuse what is no system, or was not signed, and tables that are not there, before the work.

    ``old_robust``: a system with the robust model of lindley 0.2.0 or older is not refused. It is told within half a second:
    torch, which computes with them, takes longer to load.
    """
    from lindley.system.header import read_header, read_system

    for each in systems:
        data = read_system(each)
        read_header(data, str(each), old_robust=old_robust)
        if signed_by is not None:
            from lindley.system.signature import verify

            verify(data, Path(each), signed_by)
    from lindley.table.read import require_files as require_tables

    require_tables(tables)


def require_place(out: Path, endings: tuple[str, ...], inputs: tuple[Path, ...] = (), *, force: bool) -> None:
    """Refuse before the work, and not after it: a place that cannot be written, and what is there unless ``force``."""
    if out.suffix.lower() not in endings:
        raise LindleyError(f"--out {out}: give a file that ends in {', '.join(endings)}")
    require_name(out)
    if not out.parent.is_dir():
        raise LindleyError(f"--out {out}: there is no folder {out.parent}. Make it first.")
    inside = any(path.is_dir() and out.resolve().parent == path.resolve() for path in inputs)
    if out.is_dir() or inside or (out.exists() and any(path.exists() and out.samefile(path) for path in inputs)):
        raise LindleyError(f"--out {out} is a folder, or among the files that are read: give another name")
    if is_special(out):
        return
    if os.path.lexists(out) and not force:
        raise LindleyError(f"{out} is there already. Give another name, or --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(out))):
            pass
    except OSError as error:
        raise LindleyError(
            f"--out {out}: nothing can be written to the folder {out.parent} ({error.strerror or error}). Name a file in "
            "another folder."
        ) from error

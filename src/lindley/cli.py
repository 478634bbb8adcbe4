"""The command ``lindley``. Heavy imports wait until a command needs them, so that ``--help`` answers at once."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from lindley import __version__
from lindley.errors import LindleyError

if TYPE_CHECKING:
    from lindley.experiment.results import Results

__all__ = ["app", "main"]

WIDTH_IN_A_PIPE = 120


class _Interrupted(Exception):
    """Ctrl-C."""


class _Commands(typer.core.TyperGroup):
    """Tell of Ctrl-C: typer would end the command without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Feature-based likelihood ratios for forensic source comparison.",
)
data_app = typer.Typer(no_args_is_help=True, help="Named data sets: list them, or write one to a CSV file.")
app.add_typer(data_app, name="data")


class TransformKind(StrEnum):
    """How measurements are transformed before anything else."""

    none = "none"
    log10 = "log10"
    ln = "ln"


class Device(StrEnum):
    """Where neural models are trained."""

    cpu = "cpu"
    cuda = "cuda"


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


def main() -> None:
    """Run the command; what a user can mend is told in plain words, with exit status 2."""
    try:
        with _plain_warnings():
            app()
    except LindleyError as error:
        _stderr().print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except (_Interrupted, KeyboardInterrupt):
        _stderr().print("Interrupted; no results were written.")
        sys.exit(130)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"lindley {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def check(
    table: Annotated[str, typer.Argument(help="A CSV or .xlsx file, or a named data set.")],
    source_column: SourceColumn = None,
    group_column: GroupColumn = None,
    instance_column: InstanceColumn = None,
    include_columns: IncludeColumns = None,
    ignore_columns: IgnoreColumns = None,
    transform: TransformOption = None,
    reference_column: ReferenceColumn = None,
    sheet: Sheet = None,
    allow_duplicates: AllowDuplicates = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings.")] = False,
) -> None:
    """Check a table: everything that is wrong or odd with it, and a summary.

    Exit status: 0 if it can be used, 1 if there are warnings and --strict was given, 2 if there are errors.
    """
    from lindley.data.findings import exit_status, render_findings
    from lindley.data.summary import render_summary
    from lindley.experiment.config import DataConfig

    config = DataConfig(
        data=table,
        **_data_options(
            source_column, group_column, instance_column, include_columns, ignore_columns,
            transform, reference_column, sheet, allow_duplicates,
        ),
    )  # fmt: skip
    examination = config.examine()
    if examination.summary is not None:
        typer.echo(render_summary(examination.summary))
    if examination.findings:
        typer.echo(render_findings(examination.findings))
    else:
        typer.echo("No problems found.")
    raise typer.Exit(exit_status(examination.findings, strict))


@app.command()
def run(
    experiment: Annotated[
        str, typer.Argument(help="A built-in experiment (demo) or a YAML file; options replace its values.")
    ] = "demo",
    data: Annotated[
        str | None, typer.Option(help="A named data set (see 'lindley data list'), or a CSV or .xlsx file.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Models, comma-separated: tlm, tlm-kde, or the neural ntlm-{single,double}-{pairs,sources}-{n1,n2} "
            "with -common or -varying behind; each with +logistic, +kde, +pav, +elub, +iv appended in order, and "
            "quantile: or yeo-johnson: in front. Example: tlm+logistic+elub"
        ),
    ] = None,
    splits: Annotated[int | None, typer.Option(help="How many random splits of the sources.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed that all splits come from.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of the neural models. Default: 2000.")] = None,
    device: Annotated[Device | None, typer.Option(help="Where the neural models are trained. Default: cpu.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results.json, which is replaced if it is there. Default: results/EXPERIMENT-DATA, with "
            "-2, -3, … behind it if that holds other results."
        ),
    ] = None,
    source_column: SourceColumn = None,
    group_column: GroupColumn = None,
    instance_column: InstanceColumn = None,
    include_columns: IncludeColumns = None,
    ignore_columns: IgnoreColumns = None,
    transform: TransformOption = None,
    reference_column: ReferenceColumn = None,
    sheet: Sheet = None,
    allow_duplicates: AllowDuplicates = False,
) -> None:
    """Run an experiment: split the sources again and again, fit, calibrate, evaluate, and compare the models."""
    from lindley.experiment.config import load_experiment

    data_options = _data_options(
        source_column, group_column, instance_column, include_columns, ignore_columns,
        transform, reference_column, sheet, allow_duplicates,
    )  # fmt: skip
    overrides: dict[str, dict[str, Any]] = {
        "data": {**({"data": data} if data is not None else {}), **data_options},
        "protocol": {k: v for k, v in (("splits", splits), ("seed", seed)) if v is not None},
        "training": {
            **({"epochs": epochs} if epochs is not None else {}),
            **({"device": device.value} if device is not None else {}),
        },
        "experiment": {"models": _names(models, "--models")} if models is not None else {},
    }
    config = load_experiment(experiment, overrides)
    table = config.data.load()
    for finding in table.findings:
        _stderr().print(f"[yellow]{finding.level}:[/] {escape(str(finding))}", soft_wrap=True, highlight=False)

    from lindley.experiment.results import default_folder, writable_folder

    folder = out if out is not None else default_folder(config, table)
    with writable_folder(folder):
        from lindley.experiment.runner import run_experiment  # brings torch

        with _progress() as progress:
            results = run_experiment(config, table, progress)
        _print_table(results)
        path = results.write(folder)
    typer.echo(f"\nResults: {path}")
    if out is None and folder.name != f"{config.name}-{table.name}":
        first = folder.with_name(f"{config.name}-{table.name}")
        typer.echo(f"({first} holds results of other data or of another experiment, and was left as it is.)")


@data_app.command("list")
def data_list() -> None:
    """The named data sets: what they hold, their terms, and where they are found."""
    from lindley.data.datasets import list_datasets

    for info in list_datasets():
        typer.echo(f"{info.name}\n    {info.description} {info.size}\n    Terms: {info.terms}\n    {info.where}")


@data_app.command("export")
def data_export(
    name: Annotated[str, typer.Argument(help="A named data set, see 'lindley data list'.")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write. Default: NAME.csv.")] = None,
) -> None:
    """Write a named data set to a CSV file."""
    from lindley.data.datasets import load_dataset
    from lindley.data.export import export_csv

    table = load_dataset(name)
    path = out if out is not None else Path(f"{name}.csv")
    export_csv(table, path)
    typer.echo(f"{path}: {len(table.values)} rows, {len(table.sources)} sources, {len(table.features)} features")


def _names(text: str, option: str) -> tuple[str, ...]:
    """A list of names as one line of CSV: ``K39,"Na, %"``."""
    try:
        fields = [field for line in csv.reader([text], skipinitialspace=True, strict=True) for field in line]
    except csv.Error as error:
        raise LindleyError(
            f"{option} {text} does not read as a list of names ({error}): put commas between the names, and a name "
            "that holds a comma between quotation marks, as in '\"Na, %\",K39'."
        ) from error
    return tuple(name.strip() for name in fields if name.strip())


def _data_options(
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
    include = _names(include_columns, "--include-columns") if include_columns is not None else None
    if include == ():
        raise LindleyError(
            "--include-columns names no column: name one at least, or leave the option out to use all columns."
        )
    options = {
        "source_column": source_column,
        "group_column": group_column,
        "instance_column": instance_column,
        "include_columns": include,
        "ignore_columns": _names(ignore_columns, "--ignore-columns") if ignore_columns is not None else None,
        "transform": transform.value if transform is not None else None,
        "reference_column": reference_column,
        "sheet": sheet,
        "allow_duplicates": allow_duplicates or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _stderr() -> Console:
    return Console(stderr=True)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one plain line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _stderr().print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True, highlight=False)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal; in a pipe, a line for every model that starts."""
    console = _stderr()
    if not console.is_terminal:
        begun = set()

        def line(doing: str, detail: str, done: float) -> None:
            if doing not in begun and done < 1:
                begun.add(doing)
                console.print(f"{doing}, {detail}", soft_wrap=True, highlight=False, markup=False)

        yield line
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda doing, detail, done: bar.update(task, description=escape(f"{doing}: {detail}"), completed=done)


def _print_table(results: Results) -> None:
    from rich.table import Table as RichTable

    protocol, table = results.experiment.protocol, results.table
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_IN_A_PIPE)
    shown = RichTable(
        title=f"{table.name}: {len(table.sources)} sources, {len(table.features)} features, "
        f"{protocol.splits} splits, seed {protocol.seed}",
        caption="Cllr: 0 is perfect, 1 says nothing. Mean ± 2 s.e.m. over the splits; Cllr_min: what perfect "
        "calibration would leave.",
    )
    shown.add_column("model", no_wrap=True)
    for column in ("test Cllr", "median", "Cllr_min", "validation Cllr", "seconds"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in results.rows():
        shown.add_row(*map(escape, row))
    console.print(shown)

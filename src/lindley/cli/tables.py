"""Tables: ``check`` looks at one, ``data`` lists the named data sets and writes them to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lindley.cli.console import fits, print_table, say, say_prose
from lindley.cli.options import SameLabels, Tables, read_tables, reads_table, require_place

__all__ = ["check", "data_app"]

data_app = typer.Typer(no_args_is_help=True, help="Named data sets: list them, or write one to a CSV file.")


@reads_table()
def check(
    tables: Tables,
    reading: dict[str, Any],
    same_labels: SameLabels = None,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings.")] = False,
) -> None:
    """Check a table: everything that is wrong or odd with it, and a summary; or several, as one background.

    Exit status: 0 if it can be used, 1 if there are warnings and --strict was given, 2 if there are errors.
    """
    from lindley.table.check import render_summary, summary_rows
    from lindley.table.findings import TableError, exit_status, render_findings
    from lindley.table.read import Examination

    try:
        table = read_tables(tables, reading, same_labels)
        examination = Examination(table, table.findings)
    except TableError as error:
        examination = Examination(None, error.findings)
    if examination.summary is not None:
        summary = render_summary(examination.summary)
        if fits(summary):
            say(summary)
        else:
            counts, head, rows = summary_rows(examination.summary)
            say_prose("\n".join(counts))
            print_table("", head, rows)
    say(render_findings(examination.findings) if examination.findings else "No problems found.")
    raise typer.Exit(exit_status(examination.findings, strict))


@data_app.command("list")
def data_list() -> None:
    """The named data sets: what they hold, their terms, and where they are found."""
    from lindley.table.datasets import list_datasets

    for each in list_datasets():
        say(f"{each.name}\n    {each.description} {each.size}\n    Terms: {each.terms}\n    {each.where}")


@data_app.command("export")
def data_export(
    name: Annotated[str, typer.Argument(help="A named data set, see 'lindley data list'.")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write. Default: NAME.csv.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a named data set to a CSV file."""
    from lindley.table.datasets import dataset_names, load_dataset
    from lindley.table.table import export_csv

    path = out if out is not None else Path(f"{name}.csv")
    if name in dataset_names():
        require_place(path, (".csv",), force=force)
    table = load_dataset(name)
    export_csv(table, path, replace=force)
    say(f"{path}: {len(table.values)} rows, {len(table.sources)} sources, {len(table.features)} features")

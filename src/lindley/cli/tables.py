"""Tables: ``check`` looks at one, ``data`` lists the named data sets and writes them to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lindley.cli.console import fits, print_table, say, say_prose
from lindley.cli.options import SameLabels, Tables, described_tables, read_tables, reads_table, require_place
from lindley.errors import LindleyError
from lindley.files import write_new

__all__ = ["check", "data_app"]

data_app = typer.Typer(no_args_is_help=True, help="Named data sets: list them, or write one to a CSV file.")


@reads_table()
def check(
    tables: Tables,
    reading: dict[str, Any],
    same_labels: SameLabels = None,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings.")] = False,
    keep_profile: Annotated[
        bool,
        typer.Option(
            "--keep-profile",
            help="Write the options that are given to lindley.yaml in the folder of the table, where every command finds them.",
        ),
    ] = False,
) -> None:
    """Check a table: everything that is wrong or odd with it, and a summary; or several, as one background.

    Rows of title above the header, and a row of units under it, are found and told, or asked about. Options that describe
    the table may be kept in its folder (--keep-profile): then all commands read the tables there in the same way.

    Exit status: 0 if it can be used, 1 if there are warnings and --strict was given, 2 if there are errors.
    """
    from lindley.table.check import render_summary, summary_rows
    from lindley.table.findings import TableError, exit_status, render_findings
    from lindley.table.read import Examination

    place, text = _profile(tables, reading) if keep_profile else (None, "")
    described = described_tables(tables, reading)
    try:
        table = read_tables(described, same_labels)
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
    if place is not None and examination.table is None:
        say(f"\n{place} was not written, as the table cannot be used.")
    elif place is not None:
        write_new(place, text)
        say(f"\n{place} holds these options: commands take them for the tables in that folder.")
    raise typer.Exit(exit_status(examination.findings, strict))


def _profile(tables: list[str], reading: dict[str, Any]) -> tuple[Path, str]:
    """The profile of the options that were given: where it is to be written, and what it holds."""
    from lindley.table.config import DataConfig, profile_beside, profile_text

    if len(tables) > 1:
        raise LindleyError("--keep-profile keeps the options of one table: check one at a time.")
    described = DataConfig(data=tables[0], **reading)
    place = profile_beside(described.data)
    options = {name: value for name, value in described.given.items() if name in described.options()}
    if place is None:
        raise LindleyError(f"--keep-profile: {described.data} is no file, beside which options could be kept")
    if os.path.lexists(place):
        raise LindleyError(f"{place} is there already. Change it in an editor, or remove it first.")
    if not options:
        raise LindleyError("--keep-profile: no option was given that describes the table, such as --source-column item")
    return place, profile_text(options)


@data_app.command("list")
def data_list() -> None:
    """The named data sets: what they hold, their terms, and where they are found."""
    from lindley.table.datasets import list_datasets

    for each in list_datasets():
        say_prose(f"{each.name}\n    {each.description} {each.size}\n    Terms: {each.terms}\n    {each.where}")


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

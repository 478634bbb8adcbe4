"""The command ``lindley evaluate``: validate a system on data that it has not seen."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lindley.cli.console import print_table, show_progress, warn
from lindley.cli.options import AllowDuplicates, GroupColumn, InstanceColumn, Sheet, SourceColumn
from lindley.errors import LindleyError

if TYPE_CHECKING:
    from lindley.pages.validation_record import Record
    from lindley.system.system import System
    from lindley.table.table import Table

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Give ``lindley`` its command ``evaluate``."""
    app.command("evaluate")(evaluate)


def _template(path: Path | None) -> None:
    if path is not None:
        from lindley.casework.criteria import criteria_template
        from lindley.table.export import write_new

        write_new(path, criteria_template())
        typer.echo(f"{path} holds criteria to change. Decide on them before you look at the data.")
        raise typer.Exit


def evaluate(
    system: Annotated[str, typer.Argument(help="A system that 'lindley train' wrote.")],
    table: Annotated[str, typer.Argument(help="Data that it has not seen: a CSV or .xlsx file, or a named data set.")],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the report, validation.html, and its figures, validation.json."),
    ],
    criteria: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The laboratory's criteria, YAML; each figure then passes or fails."),
    ] = None,
    criteria_template: Annotated[
        Path | None,
        typer.Option(
            "--criteria-template",
            metavar="FILE",
            callback=_template,
            is_eager=True,
            help="Write a file of criteria to change, and stop.",
        ),
    ] = None,
    other: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Data of another origin, for generalisation.")
    ] = None,
    trace_instances: Annotated[int, typer.Option(min=1, help="Measurements of a trace in the comparisons judged.")] = 1,
    ref_instances: Annotated[int, typer.Option(min=1, help="Measurements of a ref in the comparisons judged.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws of measurements, and of the bootstrap.")] = 0,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Accept data that the system was trained on; the report says so.")
    ] = False,
    source_column: SourceColumn = None,
    group_column: GroupColumn = None,
    instance_column: InstanceColumn = None,
    sheet: Sheet = None,
    allow_duplicates: AllowDuplicates = False,
) -> None:
    """Validate a system: its performance on data that it has not seen, against the laboratory's criteria.

    Features, units and transform are the system's. Exit status: 0 if every criterion passes or none was given, 1 if one
    fails or cannot be judged, 2 after an error.
    """
    reading = {
        "source_column": source_column,
        "group_column": group_column,
        "instance_column": instance_column,
        "sheet": sheet,
        "allow_duplicates": allow_duplicates,
    }
    from lindley.casework.criteria import load_criteria

    limits = None if criteria is None else load_criteria(criteria)

    from lindley.casework.performance import Settings
    from lindley.system.system import load_with_about

    loaded, about = load_with_about(system)
    here = _read(loaded, table, reading)
    there = None if other is None else _read(loaded, other, reading, named_knows=True)

    from lindley.casework.validation import validate
    from lindley.experiment.folder import writable_folder
    from lindley.pages.validation_record import Record

    with writable_folder(out):
        settings = Settings((trace_instances, ref_instances), seed, allow_overlap=allow_overlap)
        with show_progress() as progress:
            validation = validate(
                loaded, here, limits,
                trained=about.get("validation"), other=there, settings=settings, progress=progress.step,
            )  # fmt: skip
        record = Record(
            validation, loaded, about, Path(system).name, here, there, None if criteria is None else criteria.name
        )
        _write(record, out)
    _print(record)
    typer.echo(f"\nReport:  {out / 'validation.html'}\nFigures: {out / 'validation.json'}")
    raise typer.Exit(1 if validation.verdict == "fail" else 0)


def _read(system: System, data: str, reading: dict[str, Any], named_knows: bool = False) -> Table:
    """A table with the features, the units and the transform of the system."""
    from lindley.table.columns import Columns
    from lindley.table.datasets import dataset_names, load_dataset
    from lindley.table.known import read_known, select_known
    from lindley.table.transform import Transform

    if data in dataset_names():
        given = ["--" + name.replace("_", "-") for name, value in reading.items() if value]
        if given and not named_knows:
            raise LindleyError(f"{data} is a named data set, and knows its columns: leave out {', '.join(given)}.")
        if system.transform != "none":
            raise LindleyError(
                f"the system takes the logarithm of measurements, and {data} is read as it is: write it to a file with "
                f"'lindley data export {data}', and make sure that it holds measurements and not their logarithms."
            )
        table = select_known(load_dataset(data), system.features)
    else:
        columns = Columns(reading["source_column"], reading["group_column"], reading["instance_column"])
        table = read_known(
            data,
            system.features,
            system.units,
            Transform(system.transform, system.reference),  # type: ignore[arg-type]
            columns,
            sheet=reading["sheet"],
            allow_duplicates=reading["allow_duplicates"],
        )
    for finding in table.findings:
        warn(str(finding), finding.level)
    return table


def _write(record: Record, folder: Path) -> None:
    """Both files, or neither: they take their names when both are written in full."""
    from lindley.pages.validation_page import render

    files = {
        "validation.json": json.dumps(record.to_json(), indent=1, ensure_ascii=False, allow_nan=False),
        "validation.html": render(record),
    }
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".validation-") as beside:
            for name, text in files.items():
                (Path(beside) / name).write_text(text, encoding="utf-8", newline="\n")
            for name in files:
                os.replace(Path(beside) / name, folder / name)
    except OSError as error:
        raise LindleyError(f"The report cannot be written to {folder} ({error.strerror or error}).") from error


def _print(record: Record) -> None:
    from lindley.pages.validation_record import rows, times

    validation = record.validation
    print_table(
        f"{record.system.name} on {record.table.name}: {len(validation.sources)} sources, "
        f"{times(validation.settings.instances)} measurements",
        ("characteristic", "figure", f"of {validation.judged} LRs", "95 % interval", "criterion", "outcome"),
        rows(validation),
        "Figures in bits, per cent or (devPAV) log10. Since training, and beyond the bounds: of raw LRs.",
        names=2,
    )
    for remark in validation.remarks:
        warn(remark, "note")
    if validation.steps:
        steps = ", ".join(
            f"{times(step.instances)} {(step.raw if validation.judged == 'raw' else step.bounded).value:.4f}"
            for step in validation.steps
        )
        typer.echo(f"Cllr as measurements are added ({validation.step_sources} sources): {steps}")
    verdict = {
        "pass": "PASS: every criterion is met.",
        "fail": "FAIL: not every criterion is met.",
        "no criteria": "No criteria were given (--criteria), so nothing passes or fails.",
    }
    typer.echo(verdict[validation.verdict])

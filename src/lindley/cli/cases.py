"""The commands of casework: ``lindley train`` makes a system, ``lindley case`` evaluates cases with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lindley.cli.console import print_table, show_progress, warn
from lindley.cli.options import (
    AllowDuplicates,
    GroupColumn,
    IgnoreColumns,
    IncludeColumns,
    InstanceColumn,
    ReferenceColumn,
    Sheet,
    SourceColumn,
    TransformOption,
    data_options,
)
from lindley.errors import LindleyError

if TYPE_CHECKING:
    from lindley.casework.case import Batch, Case, Evidence

__all__ = ["add_commands"]

DEFAULT_MODEL = "robust"
REPORT = "What the report says"
SYSTEM_ENDING = ".safetensors"
REPORT_ENDINGS = (".html", ".htm", ".json", ".csv")


class Language(StrEnum):
    """Of the sentences for the court."""

    en = "en"
    nl = "nl"


def add_commands(app: typer.Typer) -> None:
    """Add ``train`` and ``case`` to the command line."""
    app.command()(train)
    app.command()(case)


def train(
    table: Annotated[str, typer.Argument(help="A CSV or .xlsx file, or a named data set.")],
    out: Annotated[Path, typer.Option(help=f"The system file to write: NAME{SYSTEM_ENDING}.")],
    model: Annotated[
        str,
        typer.Option(
            help="robust, tlm, tlm-kde, tlm-bayes, ht-plda, or a neural ntlm-{single,double}-{pairs,sources}-{n1,n2} with "
            "-common or -varying behind; +logistic, +kde, +elub … behind that calibrate it afterwards."
        ),
    ] = DEFAULT_MODEL,
    replicates: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Bootstrap replicates, which give the interval. Default: 10; 100 of tlm and tlm-kde, 20 of ht-plda and of a "
            "neural model.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of a neural model.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of folds, bootstrap and training.")] = 0,
    units: Annotated[
        str | None,
        typer.Option(
            help="Units of the features: 'ppm' for all, or 'K39=ppm,Fe57=%'. A header such as 'K39 (ppm)' tells it too. "
            "Cases in other units are refused."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the system file if it is there.")] = False,
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
    """Train a system on a table, and write it to one file, with its validation and its provenance.

    The file holds numbers and names, and no code. 'lindley case' evaluates cases with it.
    """
    _require_new(out, table, force)
    from lindley.experiment.config import DataConfig
    from lindley.system.names import ModelName

    ModelName.parse(model)
    reading = data_options(
        source_column, group_column, instance_column, include_columns, ignore_columns,
        transform, reference_column, sheet, allow_duplicates,
    )  # fmt: skip
    config = DataConfig(data=table, **reading)
    data = config.load()
    for finding in data.findings:
        warn(str(finding), finding.level)

    from lindley.table.units import parse_units, without_units

    data, known, reference = without_units(data, config.reference_column)
    known = parse_units(units, data.features, known) if units is not None else known

    from lindley.casework.train import TrainingChoices, train_system  # brings torch
    from lindley.pages.case_text import describe_training

    choices = TrainingChoices(model, replicates, epochs, seed, known, config.transform, reference)
    with show_progress() as progress:
        trained = train_system(data, choices, progress.step)
    configuration = {"data": Path(table).name, **reading, "model": model, "replicates": trained.about["bootstrap"]}
    trained.system.save(out, {**trained.about, "configuration": configuration})
    typer.echo(describe_training(trained))
    typer.echo(f"\nSystem: {out}")


def case(
    system: Annotated[Path, typer.Argument(help="A system file that 'lindley train' wrote.")],
    trace: Annotated[Path, typer.Option(help="The measurements of the trace: a table; or a folder of tables.")],
    ref: Annotated[Path, typer.Option(help="The measurements of the reference: a table; or a folder of tables.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the report (.html or .json); of several traces or refs, the matrix of LRs (.csv or .json)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    source_column: Annotated[
        str | None,
        typer.Option(
            help="The column that tells items apart. Default: 'source', where there is one; else a file is one item."
        ),
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of .xlsx files. Default: the first.")] = None,
    scale: Annotated[
        str, typer.Option(help="Verbal scale: nfi, enfsi, or a YAML file.", rich_help_panel=REPORT)
    ] = "nfi",
    language: Annotated[
        Language, typer.Option(help="Of the sentences for the court.", rich_help_panel=REPORT)
    ] = Language.en,
    case_id: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="The number of the case.", rich_help_panel=REPORT)
    ] = None,
    examiner: Annotated[str | None, typer.Option(help="Who examined it.", rich_help_panel=REPORT)] = None,
    trace_label: Annotated[str | None, typer.Option(help="What the trace is called.", rich_help_panel=REPORT)] = None,
    ref_label: Annotated[str | None, typer.Option(help="What the reference is called.", rich_help_panel=REPORT)] = None,
) -> None:
    """Evaluate a case: the LR of a trace and a reference, what it is made of, and whether it can be trusted.

    Tables with several traces or references give the matrix of all LRs. Exit status: 0, or 2 with the reason if there is no
    LR to give; then nothing is printed on standard output, and nothing is written.
    """
    if out is not None:
        _require_report_place(out, (system, trace, ref))
    from lindley.casework.verbal import load_scale

    words = load_scale(scale)

    from lindley.casework.case import Notes, SystemFile, evaluate_batch, evaluate_case, read_evidence  # brings torch

    file = SystemFile.open(system)
    evidence = partial(read_evidence, file.system, source_column=source_column, sheet=sheet)
    traces, refs = _every_problem(lambda: evidence(trace, "trace"), lambda: evidence(ref, "ref"))
    command = _command(
        system, trace=trace, ref=ref, source_column=source_column, sheet=sheet, scale=None if scale == "nfi" else scale,
        language=None if language is Language.en else language.value, case=case_id, examiner=examiner,
        trace_label=trace_label, ref_label=ref_label, out=out,
    )  # fmt: skip
    if len(traces.labels) == len(refs.labels) == 1:
        notes = Notes(case_id, examiner, trace_label, ref_label, command)
        _show_case(evaluate_case(file, traces, refs, words, language.value, notes), out, as_json)
        return
    if out is not None and out.suffix.lower() in (".html", ".htm"):
        raise LindleyError(
            f"there are {len(traces.labels)} traces and {len(refs.labels)} refs, and a report is of one of each: give "
            "--out matrix.csv or matrix.json for the matrix of LRs."
        )
    _show_batch(evaluate_batch(file, traces, refs, command, language.value), out, as_json)


def _show_case(evaluated: Case, out: Path | None, as_json: bool) -> None:
    from lindley.pages.case_text import describe_case

    content = json.dumps(evaluated.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    if out is not None and out.suffix.lower() == ".csv":
        raise LindleyError("--out of one case is .html or .json; .csv is for the matrix of several.")
    if out is not None:
        _write(out, content, lambda: _page(evaluated))
    typer.echo(content if as_json else describe_case(evaluated))
    if out is not None and not as_json:
        typer.echo(f"\nReport: {out}")


def _show_batch(batch: Batch, out: Path | None, as_json: bool) -> None:
    from lindley.pages.case_text import batch_csv, batch_rows, describe_batch

    content = json.dumps(batch.to_json(), ensure_ascii=False, allow_nan=False) if as_json or out is not None else ""
    if out is not None:
        _write(out, content, lambda: batch_csv(batch))
    if as_json:
        typer.echo(content)
        return
    shown = batch_rows(batch)
    if shown is not None:
        print_table("log10 LR", *shown, "* beyond what validation supports")
    typer.echo(describe_batch(batch))
    if out is not None:
        typer.echo(f"\nMatrix: {out}")
    elif shown is None:
        typer.echo("\nThe matrix is large: write it with --out matrix.csv, or print it with --json.")


def _every_problem(trace: Callable[[], Evidence], ref: Callable[[], Evidence]) -> tuple[Evidence, Evidence]:
    """Read both sides, and tell of the problems of both at once."""
    from lindley.table.findings import TableError

    try:
        traces = trace()
    except TableError as error:
        try:
            ref()
        except TableError as other:
            raise TableError((*error.findings, *other.findings)) from error
        raise
    return traces, ref()


def _page(evaluated: Case) -> str:
    from lindley.pages.case_page import render_case

    return render_case(evaluated)


def _write(out: Path, content: str, other: Callable[[], str]) -> None:
    """JSON or the other form, by the ending of the file."""
    from lindley.table.export import write_atomically

    write_atomically(out, (content + "\n" if out.suffix.lower() == ".json" else other()).encode("utf-8"))


def _require_new(out: Path, table: str, force: bool) -> None:
    """Refuse before the work, and not after it."""
    if out.suffix.lower() != SYSTEM_ENDING:
        raise LindleyError(f"--out {out}: a system file is called NAME{SYSTEM_ENDING}")
    if not out.parent.is_dir():
        raise LindleyError(f"--out {out}: there is no folder {out.parent}. Make it first.")
    if out.is_dir() or _is_one_of(out, (Path(table),)):
        raise LindleyError(f"--out {out} is {'a folder' if out.is_dir() else 'the table itself'}: give another name")
    if out.exists() and not force:
        raise LindleyError(f"{out} is there already. Give another name, or --force to replace it.")


def _require_report_place(out: Path, inputs: tuple[Path, ...]) -> None:
    if out.suffix.lower() not in REPORT_ENDINGS:
        raise LindleyError(f"--out {out}: give a file that ends in {', '.join(REPORT_ENDINGS)}")
    if not out.parent.is_dir():
        raise LindleyError(f"--out {out}: there is no folder {out.parent}. Make it first.")
    inside = any(path.is_dir() and out.resolve().parent == path.resolve() for path in inputs)
    if out.is_dir() or inside or _is_one_of(out, inputs):
        raise LindleyError(f"--out {out} is a folder, or among the files of the case: give another name")


def _is_one_of(out: Path, inputs: tuple[Path, ...]) -> bool:
    return out.exists() and any(path.exists() and out.samefile(path) for path in inputs)


def _command(system: Path, **options: object) -> str:
    """The command as it would be typed, so that somebody can repeat it."""
    from lindley.table.findings import option_value

    given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value is not None]
    return " ".join(
        ["lindley case", option_value(str(system)), *(f"{name} {option_value(value)}" for name, value in given)]
    )

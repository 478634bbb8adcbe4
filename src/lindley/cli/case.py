"""Cases: ``case`` evaluates them, and writes their reports, their matrix and their log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lindley.cli.console import print_table, say, say_json, say_prose, show_progress
from lindley.cli.options import (
    CASE_READING,
    AsJson,
    Signed,
    SystemFile,
    command_line,
    described_sides,
    no_data_set,
    reads_table,
    require_files,
    require_place,
    takes_options,
)
from lindley.errors import LindleyError
from lindley.files import is_special, write_atomically
from lindley.settings import setting
from lindley.shown import file_name

if TYPE_CHECKING:
    from lindley.casework.case import Batch, Case, Evidence
    from lindley.table.config import DataConfig
    from lindley.table.table import Table

__all__ = ["case"]

REPORT = "What the report says"
REPORT_ENDINGS = (".html", ".htm", ".pdf", ".json", ".csv", ".xlsx")
NOTES: dict[str, tuple[Any, str]] = {
    "case": (str | None, "The number of the case."),
    "examiner": (str | None, "Who examined it."),
    "laboratory": (str | None, "Where it was examined."),
    "method": (str | None, "How it was measured."),
    "trace_label": (str | None, "What the trace is called."),
    "trace_number": (str | None, "Its number in the books."),
    "ref_label": (str | None, "What the reference is called."),
    "ref_number": (str | None, "Its number in the books."),
    "h1": (
        str | None,
        "The proposition of the same source, as a sentence; {trace} and {ref} in it are their labels. Default: that of the "
        "scale.",
    ),
    "h2": (str | None, "The proposition of another source, likewise."),
    "logo": (str | None, "The laboratory's logo, a PNG or JPEG file."),
}
"""What is said of a case, by the names of `CaseNotes`."""


@reads_table(*CASE_READING)
@takes_options("given", REPORT, NOTES)
def case(
    system: SystemFile,
    trace: Annotated[Path, typer.Option(help="The measurements of the trace: a table; or a folder of tables.")],
    ref: Annotated[Path, typer.Option(help="The measurements of the reference: a table; or a folder of tables.")],
    reading: dict[str, Any],
    given: dict[str, str | None],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the report (.html, .pdf or .json); of several traces or refs, the matrix of LRs (.html, .pdf, .xlsx, "
            ".csv or .json). A name without an ending is a folder: a report of every trace with every ref, and their matrix."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the file of --out if it is there; and give an LR of a system that may say nothing by its own "
            "validation (a Cllr of 1 or more, or an interval that reaches 1) all the same: the report says so.",
        ),
    ] = False,
    as_json: AsJson = False,
    source_column: Annotated[
        str | None,
        typer.Option(
            help="The column that tells items apart. Default: 'source', where there is one; else a file is one item.",
            rich_help_panel="Reading a table",
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Verbal scale: nfi, enfsi, or a YAML file.", rich_help_panel=REPORT)
    ] = "nfi",
    language: Annotated[
        Literal["en", "nl"], typer.Option(help="Of the sentences for the court.", rich_help_panel=REPORT)
    ] = "en",
    case_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A YAML file with case, examiner, laboratory, method, logo, labels and numbers, h1 and h2, or how tables are "
            "read (header_row: 3); options win.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    allow_outside: Annotated[
        bool,
        typer.Option(
            "--allow-outside",
            help="Give an LR of items that look like another unit or another method all the same; the report says so.",
        ),
    ] = False,
    allow_same_file: Annotated[
        bool,
        typer.Option(
            "--allow-same-file",
            help="Give an LR of one file, or of the same rows, on both sides, to test the method; the report says so.",
        ),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="LINDLEY_LOG",
            help="Add the case to this log (lindley-log.jsonl), which is begun if it is not there; 'lindley log' checks it.",
        ),
    ] = None,
    require_signature: Signed = None,
) -> None:
    """Evaluate a case: the LR of a trace and a reference, what it is made of, and whether it can be trusted.

    Tables with several traces or references give the matrix of all LRs. Exit status: 0, or 2 with the reason if there is no
    LR to give; then nothing is printed on standard output, and nothing is written.
    """
    into_folder = out is not None and (out.is_dir() or not out.suffix)
    if (
        out is not None
        and into_folder
        and any(path.is_dir() and out.resolve() == path.resolve() for path in (trace, ref))
    ):
        raise LindleyError(f"--out {out} is a folder that is read: give another")
    if out is not None and not into_folder:
        require_place(out, REPORT_ENDINGS, (system, trace, ref), force=force)
        if out.suffix.lower() == ".pdf":
            from lindley.pages.pdf import require_pdf

            require_pdf()
    if log is not None and any(path.resolve() == log.resolve() for path in (system, trace, ref, out or system)):
        raise LindleyError(f"--log {log} is among the files that are read or written: give another name")
    if log is not None and out is not None and is_special(out):
        raise LindleyError(f"--log keeps the SHA-256 of the report, and --out {out} is no file: give the name of one")
    require_files([system], map(no_data_set, (trace, ref)), require_signature)

    from lindley.casework.laboratory import load_logo, load_scale, read_notes, read_options
    from lindley.casework.log import add_to_log, entry_of, require_log
    from lindley.system.header import read_system, table_of

    words = load_scale(scale)
    told = read_notes(case_file, given)
    picture = told.pop("logo", None)
    drawn = None if picture is None else load_logo(picture)
    if source_column is not None:
        reading = {"source_column": source_column, **reading}
    reading = read_options(case_file, reading)
    if log is not None:
        require_log(log)
    one, other = described_sides((trace, ref), reading)
    # what is wrong with them is told before torch is loaded
    wanted = table_of(read_system(system), str(system))
    tables = None if wanted is None else _load_sides(one, other, wanted)

    with show_progress() as progress:
        progress.step("reading the system", "", 0.0)
        from lindley.casework.case import Evidence, Notes, evaluate_batch, evaluate_case  # brings torch
        from lindley.system.system import load

        loaded = load(system, signed_by=require_signature)
    if tables is None or wanted != loaded.table:
        tables = _load_sides(one, other, loaded.table)
    traces, refs = Evidence("trace", tables[0]), Evidence("ref", tables[1])
    command = command_line(
        "case", system, trace=trace, ref=ref, **(one.given if one.given == other.given else reading),
        scale=None if scale == "nfi" else file_name(scale), language=None if language == "en" else language,
        **told, logo=picture and Path(picture), allow_outside=allow_outside or None, allow_same_file=allow_same_file or None,
        require_signature=require_signature, force=(force and bool(loaded.doubt)) or None, out=out,
    )  # fmt: skip
    notes = Notes(**told, command=command, logo=drawn)

    def keep(*made: tuple[Case | Batch, Path | None]) -> None:
        if log is not None:
            add_to_log(log, [entry_of(evaluated, notes, report) for evaluated, report in made])

    allowed = {"allow_outside": allow_outside, "allow_same_file": allow_same_file, "force": force}

    def evaluate_pair(one: Evidence, other: Evidence) -> Case:
        return evaluate_case(loaded, one, other, words, language, notes, **allowed)

    if len(traces.labels) == len(refs.labels) == 1 and not into_folder:
        with show_progress() as progress, _all_or_none(out):
            progress.step("comparing trace and reference", "", 0.0)
            evaluated = evaluate_pair(traces, refs)
            if out is not None:
                progress.step("drawing the report", "", 0.5)
                if out.suffix.lower() in (".csv", ".xlsx"):
                    raise LindleyError(
                        f"--out of one case is .html, .pdf or .json; {out.suffix.lower()} is for the matrix of several."
                    )
                evaluated.write(out, replace=force)
            keep((evaluated, out))
        _show_case(evaluated, out, as_json)
        return
    _refuse_names_of_one(told, traces, refs)
    with show_progress() as progress, _all_or_none(None if into_folder else out):
        progress.step("comparing all traces with all references", "", 0.0)
        batch = evaluate_batch(loaded, traces, refs, command, language, scale=words, notes=notes, **allowed)
        if out is not None and not into_folder:
            progress.step("writing the matrix", "", 0.5)
            from lindley.pages.matrix import matrix_file

            write_atomically(out, matrix_file(batch, out.suffix.lower()), replace=force)
        if not into_folder:
            keep((batch, out))
    if out is not None and into_folder:
        _write_reports(batch, evaluate_pair, out, force, keep)
    _show_batch(batch, out, as_json)


@contextmanager
def _all_or_none(*paths: Path | None) -> Iterator[None]:
    """Take away the files that the body has made, if it fails: reports that are in no log; and the command can be repeated."""
    made = [path for path in paths if path is not None and not path.exists()]
    try:
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise


def _refuse_names_of_one(told: Mapping[str, str], *sides: Evidence) -> None:
    """A label or a number is of one item; those of several are in their table."""
    for evidence in sides:
        for name in (f"{evidence.which}_label", f"{evidence.which}_number"):
            if name in told and len(evidence.labels) > 1:
                raise LindleyError(
                    f"{setting(name)} names one {evidence.which}, and there are {len(evidence.labels)}: leave it out, and they "
                    "are called as in their table"
                )


def _show_case(evaluated: Case, out: Path | None, as_json: bool) -> None:
    from lindley.pages.case_words import describe_case

    if as_json:
        say_json(evaluated.to_json(), indent=1)
        return
    say_prose(describe_case(evaluated))
    if out is not None:
        say(f"\nReport: {out}")


def _write_reports(
    batch: Batch,
    evaluate: Callable[[Evidence, Evidence], Case],
    folder: Path,
    force: bool,
    keep: Callable[..., None],
) -> None:
    """A report of every trace with every ref, and the matrix of them all, which leads to each."""
    from lindley.experiment.folder import writable_folder
    from lindley.pages.matrix import matrix_file, report_names

    names = report_names(batch)
    matrices = [folder / name for name in ("matrix.html", "matrix.xlsx")]
    places = {pair: folder / name for pair, name in names.items()}
    there = [path for path in (*matrices, *places.values()) if path.exists()]
    if there and not force:
        raise LindleyError(f"{there[0]} is there already. Name another folder, or --force to replace it.")
    traces, refs = ([side.one(label) for label in side.labels] for side in (batch.trace, batch.ref))
    made: list[tuple[Case, Path]] = []
    with writable_folder(folder), show_progress() as progress, _all_or_none(*matrices, *places.values()):
        for number, ((i, k), path) in enumerate(places.items()):
            progress.step("drawing the reports", f"step {number + 1} of {len(names)}", number / len(names))
            evaluated = evaluate(traces[i], refs[k])
            evaluated.write(path, replace=force)
            made.append((evaluated, path))
        progress.step("writing the matrix", "", 0.99)
        for path in matrices:
            write_atomically(path, matrix_file(batch, path.suffix, names), replace=force)
        keep(*made)


def _show_batch(batch: Batch, out: Path | None, as_json: bool) -> None:
    from lindley.pages.case_words import batch_table, describe_batch

    if as_json:
        say_json(batch.to_json())
        return
    shown = batch_table(batch)
    if shown is not None:
        print_table(*shown)
    say_prose(describe_batch(batch))
    if out is not None and out.is_dir():
        say(f"\nReports: {batch.log10_lr.size}, in {out}\nMatrix:  {out / 'matrix.html'} and {out / 'matrix.xlsx'}")
    elif out is not None:
        say(f"\nMatrix: {out}")
    elif shown is None:
        say("\nThe matrix is large: write it with --out matrix.csv, or print it with --json.")


def _load_sides(trace: DataConfig, ref: DataConfig, wanted: Mapping[str, Any]) -> tuple[Table, Table]:
    """Read both sides as the system wants it, and tell of the problems of both at once."""
    from lindley.table.findings import TableError

    try:
        traces = trace.load("case", **wanted)
    except TableError as error:
        try:
            ref.load("case", **wanted)
        except TableError as other:
            raise TableError((*error.findings, *other.findings)) from error
        raise
    return traces, ref.load("case", **wanted)

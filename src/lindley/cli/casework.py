"""The commands of casework: ``train`` makes a system, ``info`` tells what it is, ``keys`` and ``sign`` vouch for it, ``case``
evaluates cases with it, ``verify`` computes their reports again, ``log`` checks the log of cases, ``evaluate`` validates it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lindley.cli.console import print_table, say, say_json, say_prose, show_progress, warn
from lindley.cli.options import (
    CALIBRATIONS,
    MATES,
    MODELS,
    MOST,
    MOST_SEED,
    NEURAL,
    load_table,
    read_mates,
    reads_table,
)
from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.shown import file_name

if TYPE_CHECKING:
    from lindley.casework.case import Batch, Case, Evidence
    from lindley.casework.validation import Validation

__all__ = ["case", "evaluate", "info", "keys", "log", "sign", "train", "verify"]

REPORT = "What the report says"
SYSTEM_ENDING = ".safetensors"
REPORT_ENDINGS = (".html", ".htm", ".pdf", ".json", ".csv", ".xlsx")
Signed = Annotated[
    Path | None,
    typer.Option(
        "--require-signature",
        metavar="PUBLIC_KEY",
        help="Refuse a system that was not signed with the private key of this one ('lindley sign').",
    ),
]


@reads_table()
def train(
    table: Annotated[str, typer.Argument(help="A CSV or .xlsx file, or a named data set.")],
    out: Annotated[Path, typer.Option(help=f"The system file to write: NAME{SYSTEM_ENDING}.")],
    reading: dict[str, Any],
    model: Annotated[
        str, typer.Option(help=f"{MODELS}, or a neural {NEURAL}; {CALIBRATIONS} behind that calibrate it afterwards.")
    ] = "robust",
    replicates: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST,
            help="Bootstrap replicates, which give the interval. Default: 10; 100 of tlm and tlm-kde, 20 of ht-plda and of a "
            "neural model.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Epochs of a neural model. Default: 2000.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of folds, bootstrap and training.")] = 0,
    mates: Annotated[str, typer.Option(help=MATES)] = "as-in-table",
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="Hold the mean of no training source: sources are moved at random first. Another system every time.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the system file if it is there.")] = False,
) -> None:
    """Train a system on a table, and write it to one file, with its validation and its provenance.

    The file holds numbers and names, and no code. 'lindley case' evaluates cases with it.
    """
    require_place(out, (SYSTEM_ENDING,), (Path(table),), force=force)
    from lindley.experiment.config import DataConfig
    from lindley.system.names import ModelName

    kind = ModelName.parse(model).kind
    data = load_table(DataConfig(data=table, **reading))

    from lindley.pages.case_words import describe_training
    from lindley.system.train import train as train_system  # brings torch

    options = {"epochs": epochs} if epochs is not None and "epochs" in kind.options.model_fields else None
    with show_progress() as progress:
        system = train_system(
            data,
            model,
            options=options,
            replicates=replicates,
            seed=seed,
            mates=read_mates(mates),
            private=private,
            progress=progress.step,
        )
        configuration = {"data": Path(table).name, **reading, "model": model, "replicates": system.about["bootstrap"]}
        if "mates" in system.about:
            configuration["mates"] = mates
        system = replace(system, about={**system.about, "configuration": configuration})
        progress.step("writing the system", "", 0.99)
        system.save(out, replace=force)
    say_prose(describe_training(system))
    say(f"\nSystem:  {out}\nSHA-256: {system.sha256}\n         Keep it in the laboratory's archive.")


def info(
    system: Annotated[Path, typer.Argument(help="A system file that 'lindley train' wrote.")],
    require_signature: Signed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell what a system is: its model, features, training data and validation, and what the file gives away."""
    from lindley.casework.case import system_facts
    from lindley.pages.case_words import describe_system
    from lindley.system.signature import signed_with
    from lindley.system.system import load

    loaded = load(system, signed_by=require_signature)
    if as_json:
        say_json(system_facts(loaded))
    else:
        say_prose(describe_system(loaded, None if require_signature else signed_with(system)))


def keys(
    name: Annotated[Path, typer.Argument(help="NAME.private.pem and NAME.public.pem are written.")],
) -> None:
    """Make a pair of keys: 'lindley sign' signs with the private one, and the public one checks it.

    Needs the extra 'signing'.
    """
    from lindley.system.signature import make_keys

    private, public = make_keys(name)
    say(
        f"Private key: {private}\n             Signs systems. Keep it where nobody else can read it, and not beside them."
        f"\nPublic key:  {public}\n             Give it to everybody who evaluates cases: --require-signature {public.name}"
    )


def sign(
    system: Annotated[Path, typer.Argument(help="A system file that 'lindley train' wrote.")],
    key: Annotated[Path, typer.Option(help="The private key: NAME.private.pem, as 'lindley keys' writes it.")],
) -> None:
    """Sign a system: SYSTEM.sig is written beside it, for --require-signature. The system stays as it is.

    Needs the extra 'signing'.
    """
    from lindley.system.signature import sign as sign_system
    from lindley.system.system import System, read_system

    data = read_system(system)
    loaded = System.from_bytes(data, str(system))
    place, fingerprint = sign_system(data, system, key)
    say(f"Signature: {place}\nKey:       {fingerprint}\nSHA-256:   {loaded.sha256}")


@reads_table("ignore_columns", "sheet", "hidden", "decimal", "below_limit")
def case(
    system: Annotated[Path, typer.Argument(help="A system file that 'lindley train' wrote.")],
    trace: Annotated[Path, typer.Option(help="The measurements of the trace: a table; or a folder of tables.")],
    ref: Annotated[Path, typer.Option(help="The measurements of the reference: a table; or a folder of tables.")],
    reading: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the report (.html, .pdf or .json); of several traces or refs, the matrix of LRs (.html, .pdf, .xlsx, "
            ".csv or .json). A name without an ending is a folder: a report of every trace with every ref, and their matrix."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --out if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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
    case_id: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="The number of the case.", rich_help_panel=REPORT)
    ] = None,
    examiner: Annotated[str | None, typer.Option(help="Who examined it.", rich_help_panel=REPORT)] = None,
    laboratory: Annotated[str | None, typer.Option(help="Where it was examined.", rich_help_panel=REPORT)] = None,
    method: Annotated[str | None, typer.Option(help="How it was measured.", rich_help_panel=REPORT)] = None,
    trace_label: Annotated[str | None, typer.Option(help="What the trace is called.", rich_help_panel=REPORT)] = None,
    trace_number: Annotated[str | None, typer.Option(help="Its number in the books.", rich_help_panel=REPORT)] = None,
    ref_label: Annotated[str | None, typer.Option(help="What the reference is called.", rich_help_panel=REPORT)] = None,
    ref_number: Annotated[str | None, typer.Option(help="Its number in the books.", rich_help_panel=REPORT)] = None,
    h1: Annotated[
        str | None,
        typer.Option(
            help="The proposition of the same source, as a sentence; {trace} and {ref} in it are their labels. Default: that "
            "of the scale.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    h2: Annotated[
        str | None, typer.Option(help="The proposition of another source, likewise.", rich_help_panel=REPORT)
    ] = None,
    logo: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The laboratory's logo, PNG or JPEG.", rich_help_panel=REPORT),
    ] = None,
    case_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A YAML file with case, examiner, laboratory, method, logo, labels and numbers, h1 and h2; options win.",
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
    from lindley.casework.laboratory import load_logo, load_scale, read_notes

    words = load_scale(scale)
    given = {
        "case": case_id, "examiner": examiner, "laboratory": laboratory, "method": method, "trace_label": trace_label,
        "trace_number": trace_number, "ref_label": ref_label, "ref_number": ref_number, "h1": h1, "h2": h2,
        "logo": None if logo is None else str(logo),
    }  # fmt: skip
    told = read_notes(case_file, given)
    picture = told.pop("logo", None)
    drawn = None if picture is None else load_logo(picture)

    from lindley.casework.case import Notes, evaluate_batch, evaluate_case, read_evidence  # brings torch
    from lindley.casework.log import add_to_log, entry_of, require_log
    from lindley.system.system import load

    if log is not None:
        require_log(log)
    with show_progress() as progress:
        progress.step("reading the system", "", 0.0)
        loaded = load(system, signed_by=require_signature)
    settings = {"source": source_column} | {name.removesuffix("_columns"): value for name, value in reading.items()}
    traces, refs = _every_problem(
        lambda: read_evidence(loaded, trace, "trace", **settings), lambda: read_evidence(loaded, ref, "ref", **settings)
    )
    command = _command(
        system, trace=trace, ref=ref, source_column=source_column, **reading,
        scale=None if scale == "nfi" else file_name(scale), language=None if language == "en" else language,
        **told, logo=picture and Path(picture), allow_outside=allow_outside or None, allow_same_file=allow_same_file or None,
        require_signature=require_signature, out=out,
    )  # fmt: skip
    notes = Notes(**told, command=command, logo=drawn)

    def keep(evaluated: Case | Batch, report: Path | None) -> None:
        if log is None:
            return
        try:
            add_to_log(log, [entry_of(evaluated, notes, report)])
        except LindleyError as error:
            written = "" if report is None else f" {report} was written, and is not in the log."
            raise LindleyError(f"{error}{written}") from error

    allowed = {"allow_outside": allow_outside, "allow_same_file": allow_same_file}

    def evaluate_pair(one: Evidence, other: Evidence) -> Case:
        return evaluate_case(loaded, one, other, words, language, notes, **allowed)

    if len(traces.labels) == len(refs.labels) == 1 and not into_folder:
        with show_progress() as progress:
            progress.step("comparing trace and reference", "", 0.0)
            evaluated = evaluate_pair(traces, refs)
            if out is not None:
                progress.step("drawing the report", "", 0.5)
            _write_case(evaluated, out, force)
        keep(evaluated, out)
        _show_case(evaluated, out, as_json)
        return
    _refuse_names_of_one(told, traces, refs)
    with show_progress() as progress:
        progress.step("comparing all traces with all references", "", 0.0)
        batch = evaluate_batch(loaded, traces, refs, command, language, scale=words, notes=notes, **allowed)
        if out is not None and not into_folder:
            progress.step("writing the matrix", "", 0.5)
            _write_matrix(batch, out, force)
    if out is not None and into_folder:
        _write_reports(batch, evaluate_pair, out, force, keep)
    else:
        keep(batch, out)
    _show_batch(batch, out, as_json)


def _refuse_names_of_one(told: Mapping[str, str], *sides: Evidence) -> None:
    """A label or a number is of one item; those of several are in their table."""
    for evidence in sides:
        for name in (f"{evidence.which}_label", f"{evidence.which}_number"):
            if name in told and len(evidence.labels) > 1:
                raise LindleyError(
                    f"{setting(name)} names one {evidence.which}, and there are {len(evidence.labels)}: leave it out, and they "
                    "are called as in their table"
                )


def _write_case(evaluated: Case, out: Path | None, force: bool) -> None:
    if out is not None and out.suffix.lower() in (".csv", ".xlsx"):
        raise LindleyError(
            f"--out of one case is .html, .pdf or .json; {out.suffix.lower()} is for the matrix of several."
        )
    if out is not None:
        evaluated.write(out, replace=force)


def _show_case(evaluated: Case, out: Path | None, as_json: bool) -> None:
    from lindley.pages.case_words import describe_case

    if as_json:
        say_json(evaluated.to_json(), indent=1)
        return
    say_prose(describe_case(evaluated))
    if out is not None:
        say(f"\nReport: {out}")


def _write_matrix(batch: Batch, out: Path, force: bool) -> None:
    from lindley.pages.matrix import matrix_file
    from lindley.table.table import write_atomically

    write_atomically(out, matrix_file(batch, out.suffix.lower()), replace=force)


def _write_reports(
    batch: Batch,
    evaluate: Callable[[Evidence, Evidence], Case],
    folder: Path,
    force: bool,
    keep: Callable[[Case, Path], None],
) -> None:
    """A report of every trace with every ref, and the matrix of them all, which leads to each."""
    from lindley.experiment.folder import writable_folder
    from lindley.pages.matrix import matrix_file, report_names
    from lindley.table.table import write_atomically

    names = report_names(batch)
    matrices = ("matrix.html", "matrix.xlsx")
    there = [name for name in (*matrices, *names.values()) if (folder / name).exists()]
    if there and not force:
        raise LindleyError(f"{folder / there[0]} is there already. Name another folder, or --force to replace it.")
    traces, refs = ([side.one(label) for label in side.labels] for side in (batch.trace, batch.ref))
    with writable_folder(folder), show_progress() as progress:
        for number, ((i, k), name) in enumerate(names.items()):
            progress.step("drawing the reports", f"step {number + 1} of {len(names)}", number / len(names))
            evaluated = evaluate(traces[i], refs[k])
            evaluated.write(folder / name, replace=force)
            keep(evaluated, folder / name)
        progress.step("writing the matrix", "", 0.99)
        for name in matrices:
            write_atomically(folder / name, matrix_file(batch, Path(name).suffix, names), replace=force)


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


def verify(
    reports: Annotated[
        list[Path],
        typer.Argument(
            help="Reports that 'lindley case' wrote, .html, .pdf or .json; or folders of them.", metavar="REPORT…"
        ),
    ],
    systems: Annotated[
        list[Path] | None,
        typer.Option(
            help="A system, or a folder of systems, to look into; may be given several times.", metavar="PATH"
        ),
    ] = None,
) -> None:
    """Compute the cases of reports again, and say whether it is the same LR, or where they part.

    The measurements come from the report; its system is found by its SHA-256, in the folder of the report and in --systems.
    Exit status: 0 if every report says what follows from its measurements, else 2.
    """
    from lindley.pages.case_record import reports_in, verify_reports
    from lindley.pages.numerals import fixed
    from lindley.version import __version__

    found = reports_in(reports)
    parted = 0
    for each in verify_reports(found, systems or ()):
        parted += not each.same
        if each.record is None or not each.same:
            say(f"{each.report}: not verified")
            for problem in each.problems:
                say_prose(f"  • {problem}")
            continue
        written = "" if each.record.lindley == __version__ else f", written by lindley {each.record.lindley}"
        say_prose(
            f"{each.report}: the same LR, log10 {fixed(each.record.log10_lr_bounded)} reported and "
            f"{fixed(each.record.log10_lr)} calculated; system {each.system}{written}"
        )
        if each.report.suffix.lower() == ".pdf":
            say_prose(
                f"  This is of the report attached to the PDF. Compare what its pages say: {each.record.verbal.sentence}"
            )
    if len(found) > 1:
        say(f"\n{len(found) - parted} of {len(found)} reports verified.")
    raise typer.Exit(2 if parted else 0)


def log(
    file: Annotated[Path, typer.Argument(help="A log that 'lindley case --log' wrote.")],
    holds: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256", help="Say whether the entry with this digest, which was kept elsewhere, is there."
        ),
    ] = None,
) -> None:
    """Check a log of cases: tell of entries that are missing or edited, and of reports beside it that were changed.

    Exit status: 0 if nothing is wrong, else 2.
    """
    from lindley.casework.log import changed_reports, read_log

    read = read_log(file)
    problems = [*read.problems, *changed_reports(read, file.parent)]
    if holds is not None and not any(entry["sha256"] == holds.strip().lower() for entry in read.entries):
        problems.append(f"no entry has the digest {holds}: the end was cut off, or entries were made anew")
    for problem in problems:
        say_prose(f"  • {problem}")
    number = "1 entry" if len(read.entries) == 1 else f"{len(read.entries)} entries"
    say(f"{file}: {number}, {'nothing is wrong' if not problems else f'{len(problems)} problems'}")
    say(f"Last entry: {read.last}")
    say_prose("            Keep it elsewhere: --holds tells later whether it is still there.")
    raise typer.Exit(2 if problems else 0)


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


def require_place(out: Path, endings: tuple[str, ...], inputs: tuple[Path, ...] = (), *, force: bool) -> None:
    """Refuse before the work, and not after it: a place that cannot be written, and what is there unless ``force``."""
    if out.suffix.lower() not in endings:
        raise LindleyError(f"--out {out}: give a file that ends in {', '.join(endings)}")
    if not out.parent.is_dir():
        raise LindleyError(f"--out {out}: there is no folder {out.parent}. Make it first.")
    inside = any(path.is_dir() and out.resolve().parent == path.resolve() for path in inputs)
    if out.is_dir() or inside or (out.exists() and any(path.exists() and out.samefile(path) for path in inputs)):
        raise LindleyError(f"--out {out} is a folder, or among the files that are read: give another name")
    if out.exists() and not force:
        raise LindleyError(f"{out} is there already. Give another name, or --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise LindleyError(
            f"--out {out}: nothing can be written to the folder {out.parent} ({error.strerror or error}). Name a file in "
            "another folder."
        ) from error


def _command(system: Path, **options: object) -> str:
    """The command as it would be typed where its files are, so that somebody can repeat it; folders are nobody's business."""
    from lindley.settings import option_list, option_value

    def typed(value: object) -> str:
        if isinstance(value, tuple):
            return option_list(*value)
        return option_value(file_name(str(value)) if isinstance(value, Path) else str(value))

    given = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {typed(value)}")
        for name, value in options.items()
        if value is not None
    ]
    return " ".join(["lindley case", typed(system), *given])


def _template(path: Path | None) -> None:
    if path is not None:
        from lindley.casework.laboratory import criteria_template
        from lindley.table.table import write_new

        write_new(path, criteria_template())
        say(f"{path} holds criteria to change. Decide on them before you look at the data.")
        raise typer.Exit


@reads_table(
    "source_column", "group_column", "instance_column", "sheet", "hidden", "decimal", "below_limit", "allow_duplicates"
)
def evaluate(
    system: Annotated[str, typer.Argument(help="A system that 'lindley train' wrote.")],
    table: Annotated[str, typer.Argument(help="Data that it has not seen: a CSV or .xlsx file, or a named data set.")],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the report, validation.html, and its figures, validation.json."),
    ],
    reading: dict[str, Any],
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
    trace_instances: Annotated[
        int, typer.Option(min=1, max=MOST, help="Measurements of a trace in the comparisons judged.")
    ] = 1,
    ref_instances: Annotated[
        int, typer.Option(min=1, max=MOST, help="Measurements of a ref in the comparisons judged.")
    ] = 1,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of the draws of measurements, and of the bootstrap.")
    ] = 0,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Accept data that the system was trained on; the report says so.")
    ] = False,
    require_signature: Signed = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write validation.pdf too (needs the extra 'pdf').")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a validation that is in the folder.")] = False,
) -> None:
    """Validate a system: its performance on data that it has not seen, against the laboratory's criteria.

    Features, units and transform are the system's. Exit status: 0 if every criterion passes or none was given, 1 if one
    fails or cannot be judged, 2 after an error.
    """
    from lindley.casework.laboratory import load_criteria

    if pdf:
        from lindley.pages.pdf import require_pdf

        require_pdf()
    if not force and any((out / name).exists() for name in ("validation.html", "validation.pdf", "validation.json")):
        raise LindleyError(f"{out} holds a validation already. Name another folder, or give --force to replace it.")
    if criteria is not None:
        load_criteria(criteria)  # tells what is wrong with them before anything is computed

    from lindley.casework.performance import Settings
    from lindley.experiment.config import DataConfig
    from lindley.system.system import load
    from lindley.table.datasets import dataset_names

    loaded = load(system, signed_by=require_signature)
    of_system = {name: getattr(loaded, name) for name in ("features", "transform", "reference")}
    of_system["units"] = loaded.column_units
    here = load_table(DataConfig(data=table, **reading), **of_system)
    there = None
    if other is not None:
        there = load_table(DataConfig(data=other, **({} if other in dataset_names() else reading)), **of_system)

    from lindley.casework.validation import validate
    from lindley.experiment.folder import held_folder

    with held_folder(out):
        settings = Settings((trace_instances, ref_instances), seed, allow_overlap=allow_overlap)
        with show_progress() as progress:
            validation = validate(loaded, here, criteria, other=there, settings=settings, progress=progress.step)
            progress.step("drawing the report", "", 0.99)
            validation.write(out, pdf=pdf)
    _show_validation(validation)
    say(
        f"\nReport:  {out / 'validation.html'}{' and validation.pdf' if pdf else ''}\nFigures: {out / 'validation.json'}"
    )
    raise typer.Exit(1 if validation.verdict == "fail" else 0)


def _show_validation(validation: Validation) -> None:
    from lindley.pages.numerals import times
    from lindley.pages.validation_page import rows

    print_table(
        f"{validation.system.name} on {validation.table.name}: {len(validation.sources)} sources, "
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
        say_prose(f"Cllr as measurements are added ({validation.step_sources} sources): {steps}")
    verdict = {
        "pass": "PASS: every criterion is met.",
        "fail": "FAIL: not every criterion is met.",
        "no criteria": "No criteria were given (--criteria), so nothing passes or fails.",
    }
    say_prose(verdict[validation.verdict])

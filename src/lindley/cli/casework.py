"""The commands of casework: ``train`` makes a system, ``info`` tells what it is, ``keys`` and ``sign`` vouch for it, ``case``
evaluates cases with it, ``evaluate`` validates it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
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
from lindley.shown import file_name, json_text

if TYPE_CHECKING:
    from lindley.casework.case import Batch, Case, Evidence
    from lindley.casework.validation import Validation

__all__ = ["case", "evaluate", "info", "keys", "sign", "train"]

REPORT = "What the report says"
SYSTEM_ENDING = ".safetensors"
REPORT_ENDINGS = (".html", ".htm", ".json", ".csv")
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
            help="Write the report (.html or .json); of several traces or refs, the matrix of LRs (.csv or .json)."
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
    trace_label: Annotated[str | None, typer.Option(help="What the trace is called.", rich_help_panel=REPORT)] = None,
    ref_label: Annotated[str | None, typer.Option(help="What the reference is called.", rich_help_panel=REPORT)] = None,
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
    require_signature: Signed = None,
) -> None:
    """Evaluate a case: the LR of a trace and a reference, what it is made of, and whether it can be trusted.

    Tables with several traces or references give the matrix of all LRs. Exit status: 0, or 2 with the reason if there is no
    LR to give; then nothing is printed on standard output, and nothing is written.
    """
    if out is not None:
        require_place(out, REPORT_ENDINGS, (system, trace, ref), force=force)
    from lindley.casework.laboratory import load_scale

    words = load_scale(scale)

    from lindley.casework.case import Notes, evaluate_batch, evaluate_case, read_evidence  # brings torch
    from lindley.system.system import load

    loaded = load(system, signed_by=require_signature)
    settings = {"source": source_column} | {name.removesuffix("_columns"): value for name, value in reading.items()}
    traces, refs = _every_problem(
        lambda: read_evidence(loaded, trace, "trace", **settings), lambda: read_evidence(loaded, ref, "ref", **settings)
    )
    command = _command(
        system, trace=trace, ref=ref, source_column=source_column, **reading,
        scale=None if scale == "nfi" else file_name(scale), language=None if language == "en" else language,
        case=case_id, examiner=examiner, trace_label=trace_label, ref_label=ref_label,
        allow_outside=allow_outside or None, allow_same_file=allow_same_file or None,
        require_signature=require_signature, out=out,
    )  # fmt: skip
    allowed = {"allow_outside": allow_outside, "allow_same_file": allow_same_file}
    if len(traces.labels) == len(refs.labels) == 1:
        notes = Notes(case_id, examiner, trace_label, ref_label, command)
        evaluated = evaluate_case(loaded, traces, refs, words, language, notes, **allowed)
        _show_case(evaluated, out, as_json, force)
        return
    if out is not None and out.suffix.lower() in (".html", ".htm"):
        raise LindleyError(
            f"there are {len(traces.labels)} traces and {len(refs.labels)} refs, and a report is of one of each: give "
            "--out matrix.csv or matrix.json for the matrix of LRs."
        )
    _show_batch(evaluate_batch(loaded, traces, refs, command, language, **allowed), out, as_json, force)


def _show_case(evaluated: Case, out: Path | None, as_json: bool, force: bool) -> None:
    from lindley.pages.case_words import describe_case

    if out is not None and out.suffix.lower() == ".csv":
        raise LindleyError("--out of one case is .html or .json; .csv is for the matrix of several.")
    if out is not None:
        evaluated.write(out, replace=force)
    if as_json:
        say_json(evaluated.to_json(), indent=1)
        return
    say_prose(describe_case(evaluated))
    if out is not None:
        say(f"\nReport: {out}")


def _show_batch(batch: Batch, out: Path | None, as_json: bool, force: bool) -> None:
    from lindley.pages.case_words import batch_csv, batch_rows, describe_batch
    from lindley.table.table import write_atomically

    if out is not None:
        text = json_text(batch.to_json()) + "\n" if out.suffix.lower() == ".json" else batch_csv(batch)
        write_atomically(out, text.encode("utf-8"), replace=force)
    if as_json:
        say_json(batch.to_json())
        return
    shown = batch_rows(batch)
    if shown is not None:
        print_table("log10 LR", *shown, "* beyond what validation supports")
    say_prose(describe_batch(batch))
    if out is not None:
        say(f"\nMatrix: {out}")
    elif shown is None:
        say("\nThe matrix is large: write it with --out matrix.csv, or print it with --json.")


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
    force: Annotated[bool, typer.Option("--force", help="Replace a validation that is in the folder.")] = False,
) -> None:
    """Validate a system: its performance on data that it has not seen, against the laboratory's criteria.

    Features, units and transform are the system's. Exit status: 0 if every criterion passes or none was given, 1 if one
    fails or cannot be judged, 2 after an error.
    """
    from lindley.casework.laboratory import load_criteria

    if not force and any((out / name).exists() for name in ("validation.html", "validation.json")):
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
        validation.write(out)
    _show_validation(validation)
    say(f"\nReport:  {out / 'validation.html'}\nFigures: {out / 'validation.json'}")
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
    say(verdict[validation.verdict])

"""``evaluate`` validates a system on data that it has not seen, or sets several side by side on the same data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lindley.cli.console import print_table, say, say_json, say_prose, show_progress, warn
from lindley.cli.options import (
    EVALUATE_READING,
    MOST,
    MOST_SEED,
    SYSTEM_ENDING,
    AsJson,
    Signed,
    reads_table,
    require_files,
    tell_findings,
)
from lindley.errors import LindleyError
from lindley.files import write_new

if TYPE_CHECKING:
    from lindley.casework.validation import Validation

__all__ = ["evaluate"]

VALIDATION = ("validation.html", "validation.pdf", "validation.json")
COMPARISON = ("comparison.html", "comparison.json")


def _template(path: Path | None) -> None:
    if path is not None:
        from lindley.casework.laboratory import criteria_template

        write_new(path, criteria_template())
        say(f"{path} holds criteria to change. Decide on them before you look at the data.")
        raise typer.Exit


@reads_table(*EVALUATE_READING)
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM… [TABLE]",
            help="A system that 'lindley train' wrote, or several to compare; behind them the data, unless --data names them.",
        ),
    ],
    reading: dict[str, Any],
    data: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Data that no system has seen: a CSV or .xlsx file, or a named data set."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the report, validation.html, and its figures, validation.json; of several systems "
            "comparison.html and comparison.json, which may be left out.",
        ),
    ] = None,
    as_json: AsJson = False,
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
    pdf: Annotated[bool, typer.Option("--pdf", help="Write validation.pdf too, of one system.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a validation that is in the folder.")] = False,
) -> None:
    """Validate a system on data that it has not seen, against the laboratory's criteria; or compare several on the same data.

    Several systems are compared on the same pairs of the same data. Features, units and transform are each system's own. Exit
    status: 0 if every criterion passes or none was given, 1 if one fails or cannot be judged, 2 after an error.
    """
    systems, table = (files, data) if data is not None else (files[:-1], files[-1])
    if not systems or (data is None and table.lower().endswith(SYSTEM_ENDING)):
        raise LindleyError(
            "Systems and the data to evaluate them on are needed: lindley evaluate glass.safetensors new.xlsx --out DIR, or "
            "lindley evaluate glass.safetensors other.safetensors --data new.xlsx."
        )
    if pdf:
        from lindley.pages.pdf import require_pdf

        require_pdf()
    of_several = len(systems) > 1
    what, names = ("a comparison", COMPARISON) if of_several else ("a validation", VALIDATION)
    if out is not None and not force and any((out / name).exists() for name in names):
        raise LindleyError(f"{out} holds {what} already. Name another folder, or give --force to replace it.")

    settings = {"instances": (trace_instances, ref_instances), "seed": seed, "allow_overlap": allow_overlap}
    if of_several:
        for option, given in (("--criteria", criteria), ("--other", other), ("--pdf", pdf or None)):
            if given is not None:
                raise LindleyError(f"{option} is for the validation of one system: leave it out, or give one system.")
        require_files(systems, [table], require_signature)
        _compare(systems, table, reading, settings, out, as_json, require_signature)
        return
    if out is None:
        raise LindleyError("--out DIR is needed: the folder for the report of the validation.")
    if as_json:
        raise LindleyError("--json is for several systems; the figures of a validation are written to --out DIR.")
    require_files(systems, [table] if other is None else [table, other], require_signature)
    _validate(systems[0], table, reading, settings, criteria, other, out, require_signature, pdf)


def _validate(
    system: str,
    table: str,
    reading: dict[str, Any],
    settings: dict[str, Any],
    criteria: Path | None,
    other: str | None,
    out: Path,
    require_signature: Path | None,
    pdf: bool,
) -> None:
    from lindley.casework.laboratory import load_criteria

    if criteria is not None:
        load_criteria(criteria)  # tells what is wrong with them before anything is computed

    from lindley.system.header import read_system, table_of
    from lindley.table.config import DataConfig
    from lindley.table.datasets import dataset_names

    described = [DataConfig(data=table, **reading).with_profile(EVALUATE_READING)]
    if other is not None:
        theirs = DataConfig(data=other, **({} if other in dataset_names() else reading))
        described.append(theirs.with_profile(EVALUATE_READING))
    # what is wrong with them is told before torch is loaded
    wanted = table_of(read_system(system), system)
    tables = None if wanted is None else [each.load(**wanted) for each in described]

    from lindley.casework.performance import Settings  # brings torch
    from lindley.casework.validation import validate
    from lindley.experiment.folder import held_folder
    from lindley.system.system import load

    loaded = load(system, signed_by=require_signature)
    if tables is None or wanted != loaded.table:
        tables = [each.load(**loaded.table) for each in described]
    here, *others = map(tell_findings, tables)
    there = others[0] if others else None

    with held_folder(out), show_progress() as progress:
        validation = validate(
            loaded, here, criteria, other=there, settings=Settings(**settings), progress=progress.step
        )
        progress.step("drawing the report", "", 0.99)
        validation.write(out, pdf=pdf)
    _show_validation(validation)
    say(
        f"\nReport:  {out / 'validation.html'}{' and validation.pdf' if pdf else ''}\nFigures: {out / 'validation.json'}"
    )
    raise typer.Exit(1 if validation.verdict == "fail" else 0)


def _compare(
    systems: list[str],
    table: str,
    reading: dict[str, Any],
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    require_signature: Path | None,
) -> None:
    from contextlib import nullcontext

    from lindley.casework.comparison import compare_systems  # brings torch
    from lindley.casework.performance import Settings
    from lindley.experiment.folder import held_folder
    from lindley.pages.comparison_page import comparison_json, conclusions, sections, write_comparison
    from lindley.system.system import load
    from lindley.table.config import DataConfig

    loaded = [load(each, signed_by=require_signature) for each in systems]
    described = DataConfig(data=table, **reading).with_profile(EVALUATE_READING)
    how = {name.removesuffix("_column"): value for name, value in described.given.items() if name != "no_profile"}
    with nullcontext() if out is None else held_folder(out), show_progress() as progress:
        comparison = compare_systems(loaded, table, settings=Settings(**settings), progress=progress.step, **how)
        comparison = replace(comparison, remarks=(*comparison.remarks, *map(str, described.noted)))
        if out is not None:
            progress.step("drawing the report", "", 0.99)
            write_comparison(comparison, out)
    if as_json:
        say_json(comparison_json(comparison), indent=1)
        return
    for section in sections(comparison):
        print_table(section.title, section.head, section.rows, section.how, names=section.names)
    for remark in comparison.remarks:
        warn(remark, "note")
    say_prose("\n".join(conclusions(comparison)))
    if out is not None:
        say(f"\nReport:  {out / COMPARISON[0]}\nFigures: {out / COMPARISON[1]}")


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

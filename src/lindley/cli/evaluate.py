"""``evaluate`` validates a system on data that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lindley.cli.console import print_table, say, say_prose, show_progress, warn
from lindley.cli.options import MOST, MOST_SEED, Signed, load_table, reads_table
from lindley.errors import LindleyError

if TYPE_CHECKING:
    from lindley.casework.validation import Validation

__all__ = ["evaluate"]


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

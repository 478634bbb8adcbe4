"""Experiments: ``run`` makes one, ``report`` draws it again, ``compare`` sets several side by side; ``schema`` helps to write
one.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lindley.cli.console import print_table, say, say_json, show_progress, warn
from lindley.cli.options import (
    CALIBRATIONS,
    MATES,
    MODELS,
    MOST,
    MOST_SEED,
    NEURAL,
    load_table,
    names,
    read_mates,
    reads_table,
)
from lindley.errors import LindleyError
from lindley.files import write_new

if TYPE_CHECKING:
    from lindley.experiment.results import ModelResult
    from lindley.experiment.runner import Executor

__all__ = ["Interrupted", "compare", "report", "run", "schema"]

MOST_WORKERS = 1000


class Interrupted(Exception):
    """Ctrl-C; the message says what is left of the work."""


@reads_table()
def run(
    reading: dict[str, Any],
    experiment: Annotated[
        str,
        typer.Argument(
            help="demo, paper or paper-literal, which are built in, or a YAML file; options replace its values."
        ),
    ] = "demo",
    data: Annotated[
        str | None, typer.Option(help="A named data set (see 'lindley data list'), or a CSV or .xlsx file.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help=f"Models, comma-separated: {MODELS}, nplda, or the neural {NEURAL}; each with {CALIBRATIONS} appended in "
            "order, and log10:, quantile:, yeo-johnson: or flow: in front; @cv behind a classical one cross-fits it. Example: "
            "tlm+logistic+elub"
        ),
    ] = None,
    splits: Annotated[int | None, typer.Option(max=MOST, help="How many random splits of the sources.")] = None,
    seed: Annotated[int | None, typer.Option(max=MOST_SEED, help="The seed that all splits come from.")] = None,
    mates: Annotated[str | None, typer.Option(help=MATES)] = None,
    epochs: Annotated[int | None, typer.Option(max=MOST, help="Epochs of the neural models. Default: 2000.")] = None,
    device: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="Where the neural models are trained. Default: cpu.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results and the report. If a run of this experiment was broken off there, it goes on. "
            "Default: results/EXPERIMENT-DATA, with -2, -3, … behind it if that holds other results."
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Work in so many processes of this machine, each on one core; auto for as many as there are cores. Default: "
            "as many as there are cores, eight at most, if there is more than a little to do.",
            rich_help_panel="Many processes",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work on the Dask cluster whose scheduler has this address, such as tcp://192.168.1.20:8786.",
            rich_help_panel="Many machines (needs the extra 'cluster')",
        ),
    ] = None,
    report: Annotated[
        bool | None, typer.Option("--report/--no-report", help="Write report.html and figures. Default: yes.")
    ] = None,
) -> None:
    """Run an experiment: split the sources again and again, fit, calibrate, evaluate, and compare the models.

    Finished parts are kept in the folder of results. A run that was broken off, by whatever, goes on where it was when the
    same command is given again, and ends with the same results.
    """
    from lindley.experiment.config import load_experiment

    options: dict[str, dict[str, Any]] = {
        "data": {"data": data, **reading},
        "protocol": {"splits": splits, "seed": seed, "mates": None if mates is None else read_mates(mates)},
        "training": {"epochs": epochs, "device": device},
        "output": {"folder": None if out is None else str(out), "report": report},
        "experiment": {"models": None if models is None else names(models, "--models")},
    }
    overrides = {
        section: {name: value for name, value in given.items() if value is not None}
        for section, given in options.items()
    }
    count = None if workers is None else _workers(workers)
    if count is not None and cluster is not None:
        raise LindleyError("Give --workers for this machine or --cluster for others, and not both.")
    config = load_experiment(experiment, overrides)
    config = config.model_copy(update={"data": config.data.with_profile()})
    table = load_table(config.data)

    from lindley.experiment.folder import default_folder, first_folder, held_folder

    named = config.output.folder
    folder = Path(named) if named is not None else default_folder(config, table)
    with held_folder(folder):
        from lindley.experiment.runner import run_experiment  # brings torch

        try:
            with show_progress() as progress:
                executor, n_workers = _executor(count, cluster, config.training.device)
                results = run_experiment(
                    config, table, folder, progress=progress.step, notice=progress.notice,
                    executor=executor, workers=n_workers,
                    row_is_done=lambda row, result: progress.result(_figures(row, result)),
                )  # fmt: skip
        except KeyboardInterrupt as error:
            message = "Interrupted. What is finished is kept: the same command goes on where it was."
            raise Interrupted(message) from error
        print_table(
            f"{table.name}: {len(table.sources)} sources, {len(table.features)} features, "
            f"{config.protocol.splits} splits, seed {config.protocol.seed}",
            ("model", "test Cllr", "median", "Cllr_min", "validation Cllr", "seconds"),
            results.rows(),
            "Cllr: 0 is perfect, 1 says nothing. Mean ± 2 s.e.m. over the splits; Cllr_min: what perfect "
            "calibration would leave.",
        )
        path = results.write(folder, lambda message: warn(message, "note"))
        say(f"\nResults: {path}")
        if config.output.report:
            from lindley.pages.run_page import write_run_report

            with show_progress() as progress:
                page = write_run_report(folder, progress.step, workers=count)
            say(f"Report:  {page}")
    first = first_folder(config, table)
    if named is None and folder != first:
        say(f"({first} holds results of other data or of another experiment, and was left as it is.)")


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that 'lindley run' wrote.", metavar="DIR")],
    pdf: Annotated[bool, typer.Option("--pdf", help="Write report.pdf too.")] = False,
) -> None:
    """Draw the report of a finished run again, from its results: nothing is trained."""
    from lindley.experiment.folder import held_folder, require_results

    require_results(folder)

    from lindley.experiment.saved import SavedRun  # brings torch
    from lindley.pages.pdf import require_pdf
    from lindley.pages.run_page import write_run_report

    if pdf:
        require_pdf()
    SavedRun.open(folder)  # tells of a folder that holds none, before anything is made there
    with held_folder(folder), show_progress() as progress:
        page = write_run_report(folder, progress.step, pdf=pdf)
    say(f"Report: {page}" + (f" and {page.with_suffix('.pdf').name}" if pdf else ""))


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'lindley run' wrote.", metavar="DIR…")],
    to: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Compare everything with this model of the first folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Set experiments side by side, with paired differences per split."""
    from lindley.experiment.folder import require_results

    for folder in folders:
        require_results(folder)

    from lindley.experiment.results import compare as compare_runs  # brings torch
    from lindley.experiment.saved import SavedRun

    comparison = compare_runs([SavedRun.open(folder) for folder in folders], to)
    if as_json:
        say_json([line.to_json() for line in comparison.lines], indent=1)
    else:
        print_table(
            f"compared with {f'{to} of ' if to else 'the same model of '}{comparison.lines[0].run}",
            ("run", "model", "test Cllr", "median", "Cllr_min", "difference in test Cllr"),
            [line.row() for line in comparison.lines],
            "Mean ± 2 s.e.m. over the splits; differences are paired per split, negative is better.",
            names=2,
        )
    for remark in comparison.remarks:
        warn(remark)


def _figures(row: str, result: ModelResult) -> str:
    """A row of the results in a line, to be read while the others are worked on."""
    test, _, lowest = result.test_figures()
    return f"  {row}: test Cllr {test}, Cllr_min {lowest}"


def _workers(text: str) -> int:
    """What ``--workers`` says."""
    if text == "auto":
        from lindley.experiment.cores import usable_cores

        return usable_cores()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_WORKERS:
        raise LindleyError(
            f"--workers '{text[:20]}': give a number from 1 to {MOST_WORKERS}, or auto for one per core."
        )
    return int(text)


def _executor(workers: int | None, cluster: str | None, device: str) -> tuple[Executor, int]:
    """Where the work is done, and by how many; trainings on a GPU of this machine are not dealt out."""
    from lindley.experiment.runner import on_cluster, on_this_machine, workers_at

    if cluster is not None:
        return on_cluster(cluster), workers_at(cluster)
    return partial(on_this_machine, workers=workers), 1 if workers is None or device != "cpu" else workers


def schema(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file instead.")] = None,
) -> None:
    """Print the JSON schema of experiment files, for editors that check YAML as it is typed."""
    from lindley.experiment.config import json_schema

    if out is None:
        say(json.dumps(json_schema(), indent=1))
    else:
        write_new(out, json.dumps(json_schema(), indent=1) + "\n")
        say(f"{out} holds the JSON schema of experiment files.")

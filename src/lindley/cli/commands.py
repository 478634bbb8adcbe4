"""The command ``lindley``. Heavy imports wait until a command needs them, so that ``--help`` answers at once."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import typer.core

from lindley.cli.casework import case, evaluate, info, keys, log, require_place, sign, train, verify
from lindley.cli.console import (
    fail,
    fits,
    plain_warnings,
    print_table,
    say,
    say_json,
    say_prose,
    show_progress,
    stderr,
    warn,
)
from lindley.cli.last_net import unforeseen
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
from lindley.settings import offer, offered, speaking
from lindley.shown import visible
from lindley.version import __version__

if TYPE_CHECKING:
    from lindley.experiment.runner import Executor

__all__ = ["app", "main"]


class _Interrupted(Exception):
    """Ctrl-C; the message says what is left of the work."""


class _Commands(typer.core.TyperGroup):
    """Name settings by the options of the command, and tell of Ctrl-C: typer would end the command without a word.

    What was typed wrongly is told by typer, without the control characters that may be in it.
    """

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _shown_usage():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        try:
            with speaking("shell"), _shown_usage():
                try:
                    return super().invoke(ctx)
                except LindleyError as error:
                    error.options = offered()
                    raise
        except KeyboardInterrupt as error:
            raise _Interrupted("Interrupted.") from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            offer({option for parameter in command.params for option in parameter.opts})
        return name, command, rest


@contextmanager
def _shown_usage() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of usage, whose class typer keeps to itself
            error.message = visible(str(error.message))  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Feature-based likelihood ratios for forensic source comparison.",
)
data_app = typer.Typer(no_args_is_help=True, help="Named data sets: list them, or write one to a CSV file.")
app.add_typer(data_app, name="data")

MACHINES = "Many processes or machines (needs the extra 'cluster')"


def main() -> None:
    """Run the command; what a user can mend is told in plain words, with exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            # Windows would write another into a pipe, which knows few of our letters
            stream.reconfigure(encoding="utf-8")
    try:
        with plain_warnings():
            app()
    except LindleyError as error:
        with speaking("shell"):
            offer(error.options)
            fail(str(error))
        sys.exit(2)
    except (_Interrupted, KeyboardInterrupt) as error:
        stderr().print(str(error) or "Interrupted.", soft_wrap=True)
        sys.exit(130)
    except Exception as error:
        fail(unforeseen(error))
        sys.exit(2)


def _version(show: bool) -> None:
    if show:
        say(f"lindley {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
@reads_table()
def check(
    table: Annotated[str, typer.Argument(help="A CSV or .xlsx file, or a named data set.")],
    reading: dict[str, Any],
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if there are warnings.")] = False,
) -> None:
    """Check a table: everything that is wrong or odd with it, and a summary.

    Exit status: 0 if it can be used, 1 if there are warnings and --strict was given, 2 if there are errors.
    """
    from lindley.experiment.config import DataConfig
    from lindley.table.check import render_summary, summary_rows
    from lindley.table.findings import exit_status, render_findings

    examination = DataConfig(data=table, **reading).examine()
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


@app.command()
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
            "order, and quantile:, yeo-johnson: or flow: in front; @cv behind a classical one cross-fits it. Example: "
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
        int | None,
        typer.Option(min=1, max=1000, help="Work on so many processes of this machine.", rich_help_panel=MACHINES),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work on the Dask cluster whose scheduler has this address, such as tcp://192.168.1.20:8786.",
            rich_help_panel=MACHINES,
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
    config = load_experiment(experiment, overrides)
    table = load_table(config.data)

    from lindley.experiment.folder import default_folder, first_folder, held_folder

    named = config.output.folder
    folder = Path(named) if named is not None else default_folder(config, table)
    with held_folder(folder):
        from lindley.experiment.runner import run_experiment  # brings torch

        try:
            with show_progress() as progress:
                results = run_experiment(
                    config, table, folder,
                    progress=progress.step, notice=progress.notice, executor=_executor(workers, cluster),
                )  # fmt: skip
        except KeyboardInterrupt as error:
            message = "Interrupted. What is finished is kept: the same command goes on where it was."
            raise _Interrupted(message) from error
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

            say(f"Report:  {write_run_report(folder)}")
    first = first_folder(config, table)
    if named is None and folder != first:
        say(f"({first} holds results of other data or of another experiment, and was left as it is.)")


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that 'lindley run' wrote.", metavar="DIR")],
) -> None:
    """Draw the report of a finished run again, from its results: nothing is trained."""
    from lindley.experiment.folder import held_folder
    from lindley.experiment.saved import SavedRun
    from lindley.pages.run_build import build_report
    from lindley.pages.run_page import write_report

    run = SavedRun.open(folder)  # tells of a folder that holds none, before anything is made there
    with held_folder(folder):
        say(f"Report: {write_report(build_report(run), folder)}")


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'lindley run' wrote.", metavar="DIR…")],
    to: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Compare everything with this model of the first folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Set experiments side by side, with paired differences per split."""
    from lindley.experiment.results import compare as compare_runs
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


for command in (train, info, case, verify, log, evaluate, keys, sign):
    app.command()(command)


@app.command()
def schema(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file instead.")] = None,
) -> None:
    """Print the JSON schema of experiment files, for editors that check YAML as it is typed."""
    from lindley.experiment.config import json_schema
    from lindley.table.table import write_new

    if out is None:
        say(json.dumps(json_schema(), indent=1))
    else:
        write_new(out, json.dumps(json_schema(), indent=1) + "\n")
        say(f"{out} holds the JSON schema of experiment files.")


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


def _executor(workers: int | None, cluster: str | None) -> Executor:
    """Where the work is done."""
    from lindley.experiment.runner import on_cluster, serially

    if workers is not None and cluster is not None:
        raise LindleyError("Give --workers for this machine or --cluster for others, and not both.")
    return serially if workers is None and cluster is None else on_cluster(cluster, workers)

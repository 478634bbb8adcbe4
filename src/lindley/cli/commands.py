"""The command ``lindley``. Heavy imports wait until a command needs them, so that ``--help`` answers at once."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
import typer.core

from lindley.cli.app import app as bench
from lindley.cli.case import case
from lindley.cli.console import fail, plain_warnings, say, speak_everywhere, stderr
from lindley.cli.evaluate import evaluate
from lindley.cli.events import tell
from lindley.cli.experiment import Interrupted, compare, report, run, schema
from lindley.cli.last_net import unforeseen
from lindley.cli.records import log, review, verify
from lindley.cli.system import info, keys, sign, train, update
from lindley.cli.tables import check, data_app
from lindley.errors import LindleyError
from lindley.settings import offer, offered, speaking
from lindley.shown import visible
from lindley.version import __version__

__all__ = ["app", "main"]


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
            raise Interrupted("Interrupted.") from error

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
for command in (
    check,
    run,
    report,
    compare,
    train,
    update,
    info,
    case,
    verify,
    review,
    log,
    evaluate,
    keys,
    sign,
    schema,
):
    app.command()(command)
app.command("app")(bench)
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command; what a user can mend is told in plain words, with exit status 2.

    At the end of the process nobody looks for cycles among all that torch has loaded, which would take half a second.
    """
    atexit.unregister(gc.freeze)  # once, also where a process runs several commands
    atexit.register(gc.freeze)
    try:
        _main()
    except SystemExit as ended:
        tell(status=ended.code or 0)
        raise
    tell(status=0)


def _main() -> None:
    speak_everywhere()
    try:
        with plain_warnings():
            app()
    except LindleyError as error:
        with speaking("shell"):
            offer(error.options)
            fail(str(error))
        sys.exit(2)
    except (Interrupted, KeyboardInterrupt) as error:
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

"""The bench: ``app`` opens it in a browser, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lindley.cli.console import say
from lindley.cli.last_net import unforeseen
from lindley.errors import LindleyError

__all__ = ["app"]


def app(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where tables, runs, systems and cases are kept; it is made if it is not there. Default: lindley-bench in "
            "your home folder.",
            metavar="DIR",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The port to listen on. Default: 8760, or another that is free."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    job_memory: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100_000,
            metavar="GB",
            help="The most memory that one job may take. Default: three quarters of this machine's.",
        ),
    ] = None,
    job_hours: Annotated[
        float, typer.Option(min=0.01, max=10_000, metavar="HOURS", help="The most time that one job may take.")
    ] = 48.0,
) -> None:
    """Open the bench: tables, comparisons, systems and cases in a browser, on this machine and without a network.

    What it does, the other commands could have done, and every page shows which. Needs the extra 'app'.
    """
    try:
        from lindley.app.jobs import Limits
        from lindley.app.server import serve
    except ImportError as error:
        raise LindleyError(
            f"the app needs packages that are not installed ({error.name}): pip install 'lindley[app]'."
        ) from error
    place = folder if folder is not None else Path.home() / "lindley-bench"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LindleyError(
            f"--folder {place} cannot be made ({error.strerror or error}). Name one that you may write to."
        ) from error
    limits = Limits(int((job_memory or 0) * 1e9), job_hours)
    serve(place, port, browser=not no_browser, limits=limits, say=say, unforeseen=unforeseen)

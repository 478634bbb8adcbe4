"""The command line in this process, as its users meet it: what it prints, and how it ends."""

from __future__ import annotations

import io
import sys
import unicodedata
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from lindley.cli import commands as cli

COMMAND = typer.main.get_command(cli.app)
"""As typer makes it of the functions, which takes longer than most commands of these tests."""


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def lindley(*arguments: str | Path, width: int | None = None) -> Answer:
    """Run a command in a pipe, or on a terminal of so many columns."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")  # the command prints warnings, and goes on
        patch.setattr(sys, "argv", ["lindley", *map(str, arguments)])
        patch.setattr(cli, "app", COMMAND)
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "NO_COLOR"):
            patch.delenv(name, raising=False)
        if width is not None:
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", str(width))
        with redirect_stdout(out), redirect_stderr(err):
            try:
                cli.main()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
    return Answer(status, out.getvalue(), err.getvalue())


def sent(text: str) -> list[str]:
    """Characters that a terminal would obey, or that nobody sees, in what was printed into a pipe."""
    unseen = "\u034f\u115f\u1160\u3164\ufe0f\uffa0"
    return [c for c in text if c != "\n" and (c in unseen or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp"))]

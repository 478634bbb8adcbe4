"""The command in this process, which has its imports behind it: for tests of what it does, and not of its process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from lindley.cli import commands
from lindley.errors import LindleyError
from lindley.pages.pdf import require_pdf

ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
"""That of the command, here or in a process of its own."""


def here(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``lindley`` with these arguments; its status, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["lindley", *arguments]),
        patch.dict(os.environ, ENVIRONMENT),
        contextlib.chdir(cwd or os.curdir),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            commands.main()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def missing_for_pdf() -> str:
    """Why no PDF can be written on this machine, in the words that a user gets; empty if one can."""
    try:
        require_pdf()
    except LindleyError as error:
        return str(error)
    return ""

"""What nobody foresaw: one sentence for the person at the keyboard, and a file with the details for whoever mends it.

The file can be sent to others: it holds where the program was, its version and the platform, and nothing of the case: no
message of the error, which may quote a cell, no values, no paths of the user's.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lindley.version import __version__

__all__ = ["unforeseen"]

LIBRARIES = ("numpy", "scipy", "torch", "pydantic", "typer", "rich", "openpyxl", "distributed")
MOST_FRAMES = 60


def unforeseen(error: Exception) -> str:
    """What is said of an error that no other part of the program has words for."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{_named(error)} cannot be used" if error.filename is not None else "A file cannot be used"
        hint = "Check the name, the disk and that you may use it"
        if error.errno == errno.ENAMETOOLONG:
            hint = "Give a shorter name"
        return f"{where} ({error.strerror}). {hint}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Give a smaller table, fewer models or smaller counts."
    try:
        kept = f"The details are in {_write(error)}: send that file to your support; it holds no data of the case."
    except OSError:
        kept = "The details could not be kept, as no folder for temporary files can be written to."
    return f"lindley came upon something that it was not made for ({type(error).__name__}), and stopped. {kept}"


def _named(error: OSError) -> str:
    name = error.filename
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return text if len(text) <= 100 else f"{text[:60]}…{text[-30:]}"


def _write(error: BaseException) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="lindley-error-", suffix=".txt", delete=False, encoding="utf-8", newline="\n"
    ) as file:
        file.write(details(error))
    return Path(file.name)


def details(error: BaseException) -> str:
    """Where the program was, and what it runs on."""
    lines = [
        f"lindley {__version__}",
        f"Python {platform.python_version()}",
        platform.platform(),
        f"{os.name}, {sys.byteorder}",
    ]
    lines += [f"{name} {_installed(name)}" for name in LIBRARIES]
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    for each in chain:
        lines += ["", type(each).__name__]
        frames = traceback.extract_tb(each.__traceback__)
        lines += [
            f"  {_short(frame.filename)}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames[-MOST_FRAMES:]
        ]
    return "\n".join(lines) + "\n"


def _short(file: str) -> str:
    """A place in the code without the folders of the user's that it is installed in."""
    parts = Path(file).parts
    for root in ("site-packages", "src"):
        if root in parts:
            return "/".join(parts[parts.index(root) + 1 :])
    return parts[-1]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

"""Files written whole or not at all, under names that every system takes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import IO, Any

from lindley.errors import LindleyError

__all__ = [
    "is_special",
    "json_digest",
    "lock",
    "refused_by_windows",
    "require_name",
    "sha256_of",
    "write_atomically",
    "write_new",
    "write_together",
    "write_whole",
]

Content = bytes | IO[bytes]
ON_WINDOWS = os.name == "nt"
WINDOWS_PATH = 259
"""Letters of a path on Windows, unless the machine was told to allow more."""
PATIENCE = 2.0
"""Seconds to wait for a program that looks into a new file, as virus scanners on Windows do."""
BEYOND = 2**30
"""The byte that is locked on Windows, where nobody else can read it: behind all text. The package filelock locks the first."""
_TAKEN = PermissionError if ON_WINDOWS else BlockingIOError
"""What the operating system raises where another has the lock."""
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9¹²³]) *(\..*)?", re.IGNORECASE)
_NO_LETTERS = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def write_whole(path: Path, content: Content, *, replace: bool = True) -> None:
    """Write one file whole or not at all, as `write_together` does."""
    write_together({path: content}, replace=replace)


def write_together(files: Mapping[Path, Content], *, replace: bool = True) -> None:
    """Write files, all or none: each under another name beside its own, then all are renamed.

    A power cut leaves the old file or the new one. A link stays a link: the file that it leads to is replaced. A device or a
    pipe is written to.

    Args:
        files: the content of each file: bytes, or a file to copy from where it stands.
        replace: if not, a file of that name is an error, also one that came up since anybody looked.

    Raises:
        OSError: if one of them cannot be written.
    """
    written: list[tuple[Path, Path]] = []
    claimed: list[Path] = []
    try:
        for path, content in files.items():
            source = io.BytesIO(content) if isinstance(content, bytes) else content
            if is_special(path):
                with path.open("wb") as special:
                    shutil.copyfileobj(source, special)
                continue
            target = Path(os.path.realpath(path)) if replace and path.is_symlink() else path
            beside = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.part")
            written.append((beside, target))
            with beside.open("xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
        for beside, path in written:
            if not replace:
                path.open("xb").close()  # takes the name, or finds it taken
                claimed.append(path)
            _rename(beside, path)
        claimed.clear()
    finally:
        for unfinished in (*claimed, *(beside for beside, _ in written)):
            with suppress(OSError):  # it was renamed, or could never be made
                unfinished.unlink()


def _rename(beside: Path, path: Path) -> None:
    """Rename a file, and wait a moment where another program is looking into it.

    On Windows no file is renamed or replaced that somebody has open.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            os.replace(beside, path)
            return
        except PermissionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def lock(file: IO[bytes], where: Path, care: str, patience: float = 0.0) -> bool:
    """Lock a file, open to append, until it is closed; False if somebody else still has it after ``patience`` seconds.

    The operating system keeps the lock and takes it from a process that ends, however it ends: a crash leaves none behind.
    Some disks of a network have none: a warning says so of ``where``, with the ``care`` to take, and the file counts as locked.
    """
    until = time.monotonic() + patience
    while True:
        try:
            _lock_at_once(file.fileno())
            return True
        except _TAKEN:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(f"{where} is on a disk that has no locks ({reason}): take care that {care}", stacklevel=3)
            return True


def _lock_at_once(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, BEYOND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_digest(content: Mapping[str, Any]) -> str:
    """A digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_special(path: Path) -> bool:
    """Whether this is a device, a pipe or a socket, or a link to one: it is written to, and never replaced by a file."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_atomically(path: Path, data: bytes, *, replace: bool = True) -> None:
    """`write_whole`, with an error that says how to mend it."""
    if not path.name or "\0" in str(path):
        raise LindleyError(f"'{path}' is not the name of a file. Give one, such as results.csv.")
    require_name(path)
    try:
        write_whole(path, data, replace=replace)
    except FileExistsError:
        raise LindleyError(f"{path} is there already. Give another name, or remove it first.") from None
    except OSError as error:
        letters = len(str(path.absolute()))
        if ON_WINDOWS and letters > WINDOWS_PATH:
            raise LindleyError(
                f"{path} cannot be written ({error.strerror or error}). With its folders, its name has {letters} letters, and "
                f"Windows allows {WINDOWS_PATH} letters as a rule. Choose a folder with a shorter name, such as C:\\cases."
            ) from error
        raise LindleyError(
            f"{path} cannot be written ({error.strerror or error}). "
            "Check that the folder is there and may be written to, and close the file if Excel has it open."
        ) from error


def write_new(path: Path, text: str) -> None:
    """Write a text file, UTF-8, that is not there yet: what somebody has changed is not written over."""
    write_atomically(path, text.encode("utf-8"), replace=False)


def require_name(path: Path) -> None:
    """Refuse a name that Windows would not take, or would take for something else, where this is Windows."""
    if ON_WINDOWS and (why := refused_by_windows(path)):
        raise LindleyError(f"'{path}' cannot be the name of a file on Windows: {why}. Give another name.")


def refused_by_windows(path: str | Path) -> str | None:
    """Why Windows has no such file or folder; none if it can.

    >>> refused_by_windows("2026:017.html")
    "':' cannot be in a name"
    """
    whole = PureWindowsPath(path)
    for part in whole.parts[bool(whole.anchor) :]:
        if found := _NO_LETTERS.search(part):
            return f"{found[0]!r} cannot be in a name"
        if _DEVICE.fullmatch(part):
            return f"it keeps the name '{part.partition('.')[0].strip()}' for a device"
        if part not in (".", "..") and part.endswith((".", " ")):
            return f"it takes off the '{part[-1]}' with which '{part}' ends"
    return None

"""A small disk of its own, for tests of what happens when it is full; skipped where none can be mounted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PAGE = 4096
"""Bytes; a tmpfs gives out no less."""


class SmallDisk:
    """A tmpfs, of which all but some pages can be taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / ".filler"

    @property
    def free(self) -> int:
        """Pages."""
        return os.statvfs(self.folder).f_bavail

    def leave(self, pages: int) -> None:
        """Take all but so many pages."""
        self.make_room()
        for taken in range(self.free - pages, 0, -1):  # others may write meanwhile
            with suppress(OSError), open(self._filler, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, taken * PAGE)
                return

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int = 64) -> Iterator[SmallDisk]:
    """Mount one, and take it away."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("mount") is None:
        pytest.skip("no disk can be mounted here")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here: that needs root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)

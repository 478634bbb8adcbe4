"""Where the files of a named data set are: the user's folder, the cache, or a download."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from lindley.errors import LindleyError
from lindley.table.export import write_atomically

__all__ = ["DATA_VARIABLE", "cache_folder", "check_sha256", "download", "find_file"]

DATA_VARIABLE = "LINDLEY_DATA"
"""The environment variable that names the folder of the user's data sets."""

_TIMEOUT_S = 30.0


def cache_folder() -> Path:
    """The folder of this user in which downloads are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("lindley"))


def find_file(file: str, subfolder: str, folder: str | Path | None = None) -> Path | None:
    """The path of a file of a data set, or ``None``.

    With ``folder`` only that is searched, so that an explicit choice is never overruled. Otherwise it is
    $LINDLEY_DATA, then the cache; in each the data set's subfolder comes before the folder itself.
    """
    for root in _roots(folder):
        for candidate in (root / subfolder / file, root / file):
            if candidate.is_file():
                return candidate
    return None


def _roots(folder: str | Path | None) -> Iterator[Path]:
    """The folders to search, one at a time: the cache, which needs platformdirs, is asked for only if it is reached."""
    if folder is not None:
        yield Path(folder)
        return
    if chosen := os.environ.get(DATA_VARIABLE):
        yield Path(chosen)
    yield cache_folder()


def check_sha256(data: bytes, expected: str, where: str) -> None:
    """Refuse content that is not the published one, bit for bit."""
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise LindleyError(
            f"{where} is not the published file: its SHA-256 is {found}, not {expected}. "
            "Delete it and get it again; git and editors may change line ends, so download the raw file."
        )


def download(url: str, expected: str, target: Path) -> None:
    """Fetch a file into the cache; it is put there only if it is the published one."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read()
    except OSError as error:  # no network, no such page, too slow: all of them are OSErrors
        raise LindleyError(f"{url} could not be downloaded ({error}).") from error
    check_sha256(data, expected, url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LindleyError(f"The folder {target.parent} cannot be made ({error.strerror or error}).") from error
    write_atomically(target, data)

"""Files of a bench: written whole or not at all, and named without anything that a file system obeys."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from contextlib import suppress
from pathlib import Path

__all__ = ["plain_file_name", "write_whole"]

LONGEST = 80
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the path, and rename: a power cut leaves the old file or the new one."""
    beside = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.part")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink()


def plain_file_name(name: str) -> str:
    r"""A name for a file that somebody sent: letters, digits and a few marks; no folder, no name that Windows keeps for itself.

    >>> plain_file_name(r"C:\\cases\\glas <b>2026</b>.xlsx"), plain_file_name("../../etc/passwd"), plain_file_name("con.csv")
    ('b_.xlsx', 'passwd', '_con.csv')
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    plain = re.sub(r"[^\w ()+,=.-]", "_", last).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 10:
        stem, dot, ending = plain, "", ""
    plain = f"{stem[: LONGEST - len(ending)].strip(' .') or 'table'}{dot}{ending}"
    return f"_{plain}" if _RESERVED.match(plain) or plain.startswith("-") else plain

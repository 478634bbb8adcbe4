"""Files of a bench: written whole or not at all, and named without anything that a file system obeys."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import IO

from lindley.errors import LindleyError
from lindley.limits import limit, limit_text

__all__ = ["ENDINGS", "keep_sent", "plain_file_name", "sent_table", "write_whole"]

ENDINGS = (".xlsx", ".xlsm", ".csv", ".tsv", ".tab", ".txt")
"""Of tables."""
BLOCK = 1 << 20

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


def sent_table(name: str, file: IO[bytes]) -> tuple[str, str]:
    """The name that a table is kept under, and the SHA-256 of what was sent; refused if it is none, empty or too large."""
    plain = plain_file_name(name)
    if Path(plain).suffix.lower() not in ENDINGS:
        raise LindleyError(f"{name[:100]}: this is no table that can be read. Give an Excel file (.xlsx) or CSV.")
    digest, size, most = hashlib.sha256(), 0, limit("TABLE_MB") * 1_000_000
    while block := file.read(BLOCK):
        digest.update(block)
        size += len(block)
        if size > most:
            raise LindleyError(f"{name[:100]} is too large: {limit_text('TABLE_MB')}.")
    if not size:
        raise LindleyError(f"{name[:100]} is empty. Save it again, and send it once more.")
    return plain, digest.hexdigest()


def keep_sent(file: IO[bytes], place: Path) -> None:
    """Copy what was sent to its place, whole or not at all."""
    beside = place.with_name(f".{secrets.token_hex(8)}.part")
    file.seek(0)
    try:
        with open(beside, "wb") as copy:
            shutil.copyfileobj(file, copy, BLOCK)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


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

"""Files that were sent to a bench: refused if they are no tables, and named without anything that a file system obeys."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path
from typing import IO

from lindley.errors import LindleyError
from lindley.files import refused_by_windows
from lindley.limits import limit, limit_text

__all__ = ["ENDINGS", "plain_file_name", "sent_table"]

ENDINGS = (".xlsx", ".xlsm", ".csv", ".tsv", ".tab", ".txt")
"""Of tables."""
BLOCK = 1 << 20

LONGEST = 80


def sent_table(name: str, file: IO[bytes]) -> tuple[str, str]:
    """The name that a table is kept under, and the SHA-256 of what was sent; refused if it is none, empty or too large.

    The file stands at its begin again.
    """
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
    file.seek(0)
    return plain, digest.hexdigest()


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
    return f"_{plain}" if refused_by_windows(plain) or plain.startswith("-") else plain

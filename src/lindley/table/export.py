"""Write a table as CSV that reads back as the same table, and write files whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from lindley.errors import LindleyError
from lindley.table.table import Table

__all__ = ["export_csv", "write_atomically", "write_new"]


def export_csv(table: Table, path: str | Path) -> None:
    """Write source, group (if any differs from its source), instance and features: commas, points, UTF-8.

    Numbers are written in full, so that `lindley.table.read_table` gives back exactly the same ones.
    """
    reserved = [name for name in table.features if name.casefold() in ("source", "group", "instance")]
    if reserved:
        raise LindleyError(
            f"The feature '{reserved[0]}' has the name of a label column and would be read back as one. Rename it."
        )
    grouped = not np.array_equal(table.group, table.source)
    labels = [table.source.tolist(), *([table.group.tolist()] if grouped else []), table.instance.tolist()]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["source", *(["group"] if grouped else []), "instance", *table.features])
    for *row_labels, values in zip(*labels, table.values.tolist(), strict=True):
        writer.writerow([*row_labels, *map(repr, values)])
    write_atomically(Path(path), text.getvalue().encode("utf-8"))


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename, so that a broken run never leaves half a file under that name."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        raise LindleyError(
            f"{path} cannot be written ({error.strerror or error}). "
            "Check that the folder is there and may be written to, and close the file if Excel has it open."
        ) from error
    finally:
        with suppress(OSError):  # it was renamed, or could never be made
            beside.unlink()


def write_new(path: Path, text: str) -> None:
    """Write a text file, UTF-8, that is not there yet: what somebody has changed is not written over."""
    if path.exists():
        raise LindleyError(f"{path} is there already. Give another name, or remove it first.")
    write_atomically(path, text.encode("utf-8"))

"""Float glass from casework of the Netherlands Forensic Institute: three files, made one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lindley.errors import LindleyError
from lindley.table.columns import Columns
from lindley.table.findings import Finding, listing
from lindley.table.locate import DATA_VARIABLE, cache_folder, check_sha256, download, find_file
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["FILES", "SUBFOLDER", "URL", "load_nfi_glass"]

NAME = "nfi-glass"
SUBFOLDER = "nfi_glass"
URL = (
    "https://raw.githubusercontent.com/NetherlandsForensicInstitute/elemental_composition_glass/"
    "acc6a83d47b4801d002087be3b127d5ecc05e19e/"
)
FILES = {
    "training.csv": "4baa136f9100612cdc9380b09b936d034e4f630f75e925dfe00fca18e4e32c02",
    "duplo.csv": "d973b34b6b02d3d2b380fd7aae73edc125362d5e5dfeeda7910eaef0a8e28438",
    "triplo.csv": "7ab4eed80b6b89583c0803a2f31a725a3a7e127e1ecd2fb3943dfe9d4ad12a42",
}
_COLUMNS = Columns(source="Item", instance="Piece", ignore=("id",))


@dataclass(frozen=True)
class _Row:
    """Where a pooled row came from, to name it when it is left out."""

    file: str
    row: int
    source: str
    instance: str


def load_nfi_glass(folder: str | Path | None = None) -> Table:
    """The 976 distinct sources, with three or five measurements each.

    ``duplo.csv`` and ``triplo.csv`` hold the same 320 items, so they are pooled as ``validation-…`` beside
    ``training-…``. Some sources were filed twice. Sources that share an identical row are one source, under
    the label that comes first, and each row is kept once: a copy in another split would make a method look
    better than it is. The notes of the table name everything that was merged.
    """
    rows: list[_Row] = []
    parts = []
    features: tuple[str, ...] = ()
    for file, path in _paths(folder).items():
        check_sha256(path.read_bytes(), FILES[file], str(path))
        part = read_table(path, _COLUMNS)
        kind = path.stem
        prefix = "training" if kind == "training" else "validation"
        for place, (item, piece) in enumerate(zip(part.source, part.instance, strict=True)):
            # the published files have no blank rows, so that the header is row 1 and the data start in row 2
            rows.append(_Row(file, place + 2, f"{prefix}-{item}", f"{kind}-{piece}"))
        parts.append(part.values)
        features = part.features
    values = np.vstack(parts)
    keys = [record.tobytes() for record in values]
    label = _merged_labels(keys, [row.source for row in rows])
    kept: list[int] = []
    original: dict[bytes, int] = {}
    copies: list[tuple[_Row, _Row]] = []
    for place, (key, row) in enumerate(zip(keys, rows, strict=True)):
        first = original.setdefault(key, place)
        if first == place:
            kept.append(place)
        else:
            copies.append((row, rows[first]))
    source = np.array([label[rows[place].source] for place in kept], dtype=np.str_)
    instance = np.array([rows[place].instance for place in kept], dtype=np.str_)
    return Table(NAME, values[kept], features, source, source, instance, tuple(_notes(copies, label)))


def _paths(folder: str | Path | None) -> dict[str, Path]:
    found = {file: find_file(file, SUBFOLDER, folder) for file in FILES}
    missing = [file for file, path in found.items() if path is None]
    if missing and folder is not None:
        raise LindleyError(f"{listing(missing)} not found in {folder}. {_by_hand(Path(folder))}")
    for file in missing:
        target = cache_folder() / SUBFOLDER / file
        try:
            download(URL + file, FILES[file], target)
        except LindleyError as error:
            raise LindleyError(f"{error} {_by_hand(cache_folder() / SUBFOLDER)}") from error
        found[file] = target
    return {file: path for file, path in found.items() if path is not None}


def _by_hand(folder: Path) -> str:
    return (
        f"Without a network: fetch {listing([URL + file for file in FILES])} on another machine and put the "
        f"three files in {folder}, or in a folder that the environment variable {DATA_VARIABLE} names."
    )


def _merged_labels(keys: Sequence[bytes], sources: Sequence[str]) -> dict[str, str]:
    """For every source the label it gets: the first of all sources that it is tied to by identical rows."""
    parent = {source: source for source in sources}

    def root(source: str) -> str:
        while parent[source] != source:
            source = parent[source]
        return source

    rank = {source: place for place, source in enumerate(dict.fromkeys(sources))}
    holder: dict[bytes, str] = {}
    for key, source in zip(keys, sources, strict=True):
        one, other = sorted((root(holder.setdefault(key, source)), root(source)), key=rank.__getitem__)
        parent[other] = one
    return {source: root(source) for source in parent}


def _notes(copies: Sequence[tuple[_Row, _Row]], label: dict[str, str]) -> list[Finding]:
    """One note for each pair of sources, or of files, that repeat each other."""
    cases: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for copy, original in copies:
        key = (copy.source, original.source, copy.file, original.file)
        cases.setdefault(key, []).append((copy.row, original.row))
    findings = []
    for (source, first, file, first_file), pairs in cases.items():
        rows = tuple(row for row, _ in pairs)
        there = listing([row for _, row in pairs])
        place = f"{first_file}, {'row' if len(pairs) == 1 else 'rows'} {there}"
        if source == first:
            message = f"{source} repeats {place}: kept once"
            findings.append(Finding("note", "dropped-copy", message, file=file, rows=rows))
        else:
            message = f"{source} repeats {first} ({place}): one source, {label[source]}, with these rows kept once"
            findings.append(Finding("note", "merged-sources", message, file=file, rows=rows))
    return findings

"""Data sets by name, for a first try, for teaching and to compare methods on.

Their files are in the user's folder, in the cache, or downloaded once. Float glass from casework of the Netherlands
Forensic Institute is three files, made one table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lindley.errors import LindleyError
from lindley.files import write_atomically
from lindley.table.findings import Finding, did_you_mean, errors_first, listing
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["DatasetInfo", "dataset_names", "list_datasets", "load_dataset"]

DATA_VARIABLE = "LINDLEY_DATA"
"""The environment variable that names the folder of the user's data sets."""

NFI_GLASS_URL = (
    "https://raw.githubusercontent.com/NetherlandsForensicInstitute/elemental_composition_glass/"
    "acc6a83d47b4801d002087be3b127d5ecc05e19e/"
)
NFI_GLASS_FILES = {
    "training.csv": "4baa136f9100612cdc9380b09b936d034e4f630f75e925dfe00fca18e4e32c02",
    "duplo.csv": "d973b34b6b02d3d2b380fd7aae73edc125362d5e5dfeeda7910eaef0a8e28438",
    "triplo.csv": "7ab4eed80b6b89583c0803a2f31a725a3a7e127e1ecd2fb3943dfe9d4ad12a42",
}


@dataclass(frozen=True)
class DatasetInfo:
    """A named data set: what it is, what one may do with it, and where it is or how to get it."""

    name: str
    description: str
    sources: int
    replicates: str
    features: int
    terms: str
    citation: str
    origin: str
    where: str
    files: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)  # of its one file, as `read_table` takes them

    @property
    def size(self) -> str:
        """Sources × replicates × features."""
        return f"{self.sources} × {self.replicates} × {self.features}"

    @property
    def subfolder(self) -> str:
        """Where its files may be, in the folder of all data sets."""
        return self.name.replace("-", "_")


def load_dataset(name: str, folder: str | Path | None = None) -> Table:
    """Load a data set by its name, from ``folder`` if given, else from $LINDLEY_DATA or the user's cache.

    ``nfi-glass`` is downloaded once if it is in neither, and no ``folder`` was given.
    """
    if name not in _DATASETS:
        meant = did_you_mean(name.replace("_", "-"), list(_DATASETS))
        raise LindleyError(f"There is no data set '{name}'. {meant}Choose {listing(list(_DATASETS), 8)}.")
    if name == "glass-simulated":
        from lindley.table.simulated import simulated_table  # drawn only when asked for

        return simulated_table()
    return _nfi_glass(folder) if name == "nfi-glass" else _load_file(_DATASETS[name], folder)


def dataset_names() -> tuple[str, ...]:
    """The names alone, without a look at any folder."""
    return tuple(_DATASETS)


def list_datasets() -> list[DatasetInfo]:
    """All data sets; ``where`` says in which folder one is, or how to get it. Nothing is downloaded."""
    listed = []
    for info in _DATASETS.values():
        paths = [_find_file(file, info.subfolder) for file in info.files]
        found = sorted({str(path.parent) for path in paths if path is not None})
        listed.append(replace(info, where="found in " + " and ".join(found)) if None not in paths and found else info)
    return listed


def _load_file(info: DatasetInfo, folder: str | Path | None) -> Table:
    """Read a data set of one file, and warn if it is not of the size that others have published on."""
    (file,) = info.files
    path = _find_file(file, info.subfolder, folder)
    if path is None:
        target = (cache_folder() if folder is None else Path(folder)) / info.subfolder
        raise LindleyError(
            f"The data set {info.name} is not on this machine. Put {file} in {target}"
            + (f", or in a folder that the environment variable {DATA_VARIABLE} names" if folder is None else "")
            + f". It comes from {info.origin}."
        )
    table = read_table(path, name=info.name, **info.columns)
    if (len(table.sources), len(table.features)) == (info.sources, info.features):
        return table
    here = f"{len(table.sources)} sources and {len(table.features)} features"
    message = f"{here}, where {info.name} has {info.sources} and {info.features}"
    fix = "Results will not compare with published ones"
    unexpected = Finding("warning", "unexpected-size", message, fix, file)
    return replace(table, findings=errors_first([*table.findings, unexpected]))


def _nfi_glass(folder: str | Path | None) -> Table:
    """The 976 distinct sources, with three or five measurements each.

    ``duplo.csv`` and ``triplo.csv`` hold the same 320 items, so they are pooled as ``validation-…`` beside
    ``training-…``. Some sources were filed twice. Sources that share an identical row are one source, under
    the label that comes first, and each row is kept once: a copy in another split would make a method look
    better than it is. The notes of the table name everything that was merged.
    """
    parts: list[Table] = []
    places: list[tuple[str, int]] = []  # file and row
    source: list[str] = []
    instance: list[str] = []
    for file, path in _paths(folder).items():
        _check_sha256(path.read_bytes(), NFI_GLASS_FILES[file], str(path))
        part = read_table(path, source="Item", instance="Piece", ignore=("id",))
        prefix = "training" if path.stem == "training" else "validation"
        # the published files have no blank rows, so that the header is row 1 and the data start in row 2
        places += [(file, row + 2) for row in range(len(part.values))]
        source += [f"{prefix}-{item}" for item in part.source]
        instance += [f"{path.stem}-{piece}" for piece in part.instance]
        parts.append(part)
    values = np.vstack([part.values for part in parts])
    seen: dict[bytes, int] = {}
    original = [seen.setdefault(record.tobytes(), row) for row, record in enumerate(values)]
    copies = [(row, first) for row, first in enumerate(original) if first != row]
    label = _merged_labels(source, [(source[row], source[first]) for row, first in copies])
    kept = list(seen.values())
    labels = np.array([label[source[row]] for row in kept], dtype=np.str_)
    pieces = np.array([instance[row] for row in kept], dtype=np.str_)
    notes = _notes([(source[row], source[first], *places[row], *places[first]) for row, first in copies], label)
    return Table("nfi-glass", values[kept], parts[0].features, labels, labels, pieces, notes)


def _paths(folder: str | Path | None) -> dict[str, Path]:
    found = {file: _find_file(file, "nfi_glass", folder) for file in NFI_GLASS_FILES}
    missing = [file for file, path in found.items() if path is None]
    if missing and folder is not None:
        raise LindleyError(f"{listing(missing)} not found in {folder}. {_by_hand(Path(folder))}")
    for file in missing:
        target = cache_folder() / "nfi_glass" / file
        try:
            _download(NFI_GLASS_URL + file, NFI_GLASS_FILES[file], target)
        except LindleyError as error:
            raise LindleyError(f"{error} {_by_hand(cache_folder() / 'nfi_glass')}") from error
        found[file] = target
    return {file: path for file, path in found.items() if path is not None}


def _by_hand(folder: Path) -> str:
    urls = listing([NFI_GLASS_URL + file for file in NFI_GLASS_FILES])
    return (
        f"Without a network: fetch {urls} on another machine and put the three files in {folder}, or in a folder that the "
        f"environment variable {DATA_VARIABLE} names."
    )


def _merged_labels(sources: Sequence[str], ties: Sequence[tuple[str, str]]) -> dict[str, str]:
    """For every source the label it gets: the first of all sources that it is tied to by identical rows."""
    parent = {source: source for source in sources}
    rank = {source: place for place, source in enumerate(parent)}

    def root(source: str) -> str:
        while parent[source] != source:
            source = parent[source]
        return source

    for pair in ties:
        one, other = sorted(map(root, pair), key=rank.__getitem__)
        parent[other] = one
    return {source: root(source) for source in parent}


def _notes(copies: Sequence[tuple[str, str, str, int, str, int]], label: dict[str, str]) -> tuple[Finding, ...]:
    """One note for each pair of sources, or of files, that repeat each other."""
    cases: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for source, first, file, row, first_file, first_row in copies:
        cases.setdefault((source, first, file, first_file), []).append((row, first_row))
    findings = []
    for (source, first, file, first_file), pairs in cases.items():
        rows, there = zip(*pairs, strict=True)
        place = f"{first_file}, {'row' if len(pairs) == 1 else 'rows'} {listing(there)}"
        code, message = "dropped-copy", f"{source} repeats {place}: kept once"
        if source != first:
            code = "merged-sources"
            message = f"{source} repeats {first} ({place}): one source, {label[source]}, with these rows kept once"
        findings.append(Finding("note", code, message, file=file, rows=rows))
    return tuple(findings)


def cache_folder() -> Path:
    """The folder of this user in which downloads are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("lindley"))


def _find_file(file: str, subfolder: str, folder: str | Path | None = None) -> Path | None:
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


def _check_sha256(data: bytes, expected: str, where: str) -> None:
    """Refuse content that is not the published one, bit for bit."""
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise LindleyError(
            f"{where} is not the published file: its SHA-256 is {found}, not {expected}. "
            "Delete it and get it again; git and editors may change line ends, so download the raw file."
        )


def _download(url: str, expected: str, target: Path) -> None:
    """Fetch a file into the cache; it is put there only if it is the published one."""
    import urllib.request  # on demand: most tables are files

    try:
        with urllib.request.urlopen(url, timeout=30.0) as answer:
            data: bytes = answer.read()
    except OSError as error:  # no network, no such page, too slow: all of them are OSErrors
        raise LindleyError(f"{url} could not be downloaded ({error}).") from error
    _check_sha256(data, expected, url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LindleyError(f"The folder {target.parent} cannot be made ({error.strerror or error}).") from error
    write_atomically(target, data)


_DATASETS = {
    info.name: info
    for info in (
        DatasetInfo(
            "glass-simulated",
            "Simulated casework glass, log10 element/Si, by published covariances: the true LR is known",
            1053, "6", 18,
            terms="Apache-2.0, as this package",
            citation="lindley",
            origin="this package",
            where="part of this package",
        ),
        DatasetInfo(
            "nfi-glass",
            "Float glass from Netherlands Forensic Institute casework, LA-ICP-MS, log10 element/Si",
            976, "3 or 5", 10,
            terms="Apache-2.0",
            citation="Vergeer et al., Science & Justice 56 (2016) 482-491; "
            "van Es et al., Science & Justice 57 (2017) 181-192",
            origin=NFI_GLASS_URL,
            where=f"downloaded when it is first used, from {NFI_GLASS_URL}",
            files=tuple(NFI_GLASS_FILES),
        ),
        DatasetInfo(
            "fiu-vehicle-glass",
            "Vehicle glass, LA-ICP-MS, natural logs of concentrations; split by vehicle",
            759, "9", 15,
            terms="GPL-2 or later (the R package SK4FGA)",
            citation="Florida International University, Vehicle Glass Database V2, via the CRAN package SK4FGA",
            origin="the CRAN package SK4FGA, written as one row per replicate with the columns item, vehicle and replicate",
            where=f"put fiu_vehicle_glass.csv (from the CRAN package SK4FGA) where {DATA_VARIABLE} points",
            files=("fiu_vehicle_glass.csv",),
            # windows of one vehicle are related: they are kept on one side of every split
            columns={"source": "item", "group": "vehicle", "instance": "replicate"},
        ),
        DatasetInfo(
            "onze-vowels",
            "Vowel formants of New Zealand English speakers: median F1 and F2 of ten vowels",
            468, "6", 20,
            terms="MIT (the R package nzilbb.vowels)",
            citation="Origins of New Zealand English project, via the CRAN package nzilbb.vowels",
            origin="the CRAN package nzilbb.vowels: medians per random sixth of a speaker's tokens, with the columns speaker, "
            "rep, gender and yob",
            where=f"put onze_vowels.csv (from the CRAN package nzilbb.vowels) where {DATA_VARIABLE} points",
            files=("onze_vowels.csv",),
            columns={"source": "speaker", "instance": "rep", "ignore": ("gender", "yob")},
        ),
    )
}  # fmt: skip

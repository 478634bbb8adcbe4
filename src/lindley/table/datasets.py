"""Data sets by name, for a first try, for teaching and to compare methods on."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lindley.errors import LindleyError
from lindley.table import nfi_glass
from lindley.table.columns import Columns
from lindley.table.findings import Finding, errors_first, listing
from lindley.table.locate import DATA_VARIABLE, cache_folder, find_file
from lindley.table.read import read_table
from lindley.table.table import Table

__all__ = ["DatasetInfo", "dataset_names", "list_datasets", "load_dataset"]


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
    files: tuple[str, ...] = ()
    subfolder: str = ""
    where: str = ""

    @property
    def size(self) -> str:
        """Sources × replicates × features."""
        return f"{self.sources} × {self.replicates} × {self.features}"


@dataclass(frozen=True)
class _Dataset:
    info: DatasetInfo
    load: Callable[[DatasetInfo, str | Path | None], Table]
    how: str  # to get it when it is not here


def load_dataset(name: str, folder: str | Path | None = None) -> Table:
    """Load a data set by its name, from ``folder`` if given, else from $LINDLEY_DATA or the user's cache.

    ``nfi-glass`` is downloaded once if it is in neither, and no ``folder`` was given.
    """
    if name not in _DATASETS:
        close = difflib.get_close_matches(name.casefold().replace("_", "-"), _DATASETS, 1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise LindleyError(f"There is no data set '{name}'. {hint}Choose {listing(list(_DATASETS), 8)}.")
    dataset = _DATASETS[name]
    return dataset.load(dataset.info, folder)


def dataset_names() -> tuple[str, ...]:
    """The names alone, without a look at any folder."""
    return tuple(_DATASETS)


def list_datasets() -> list[DatasetInfo]:
    """All data sets; ``where`` says in which folder one is, or how to get it. Nothing is downloaded."""
    listed = []
    for dataset in _DATASETS.values():
        info = dataset.info
        paths = [find_file(file, info.subfolder) for file in info.files]
        found = sorted({str(path.parent) for path in paths if path is not None})
        where = "found in " + " and ".join(found) if None not in paths and found else dataset.how
        listed.append(replace(info, where=where))
    return listed


def _load_simulated(info: DatasetInfo, folder: str | Path | None) -> Table:
    from lindley.table.simulated import simulated_table  # drawn only when asked for

    return simulated_table()


def _load_nfi_glass(info: DatasetInfo, folder: str | Path | None) -> Table:
    return nfi_glass.load_nfi_glass(folder)


def _load_file(info: DatasetInfo, columns: Columns, folder: str | Path | None) -> Table:
    """Read a data set of one file, and warn if it is not of the size that others have published on."""
    (file,) = info.files
    path = find_file(file, info.subfolder, folder)
    if path is None:
        target = (cache_folder() if folder is None else Path(folder)) / info.subfolder
        raise LindleyError(
            f"The data set {info.name} is not on this machine. Put {file} in {target}"
            + (f", or in a folder that the environment variable {DATA_VARIABLE} names" if folder is None else "")
            + f". It comes from {info.origin}."
        )
    table = read_table(path, columns, name=info.name)
    if (len(table.sources), len(table.features)) == (info.sources, info.features):
        return table
    message = (
        f"{len(table.sources)} sources and {len(table.features)} features, where {info.name} has "
        f"{info.sources} and {info.features}"
    )
    fix = "Results will not compare with published ones"
    unexpected = Finding("warning", "unexpected-size", message, fix, file)
    return replace(table, findings=errors_first([*table.findings, unexpected]))


def _load_fiu(info: DatasetInfo, folder: str | Path | None) -> Table:
    # windows of one vehicle are related: they are kept on one side of every split
    return _load_file(info, Columns(source="item", group="vehicle", instance="replicate"), folder)


def _load_onze(info: DatasetInfo, folder: str | Path | None) -> Table:
    return _load_file(info, Columns(source="speaker", instance="rep", ignore=("gender", "yob")), folder)


_DATASETS = {
    dataset.info.name: dataset
    for dataset in (
        _Dataset(
            DatasetInfo(
                "glass-simulated",
                "Simulated casework glass, log10 element/Si, by published covariances: the true LR is known",
                1053,
                "6",
                18,
                "Apache-2.0, as this package",
                "lindley",
                "this package",
            ),
            _load_simulated,
            "part of this package",
        ),
        _Dataset(
            DatasetInfo(
                nfi_glass.NAME,
                "Float glass from Netherlands Forensic Institute casework, LA-ICP-MS, log10 element/Si",
                976,
                "3 or 5",
                10,
                "Apache-2.0",
                "Vergeer et al., Science & Justice 56 (2016) 482-491; "
                "van Es et al., Science & Justice 57 (2017) 181-192",
                nfi_glass.URL,
                tuple(nfi_glass.FILES),
                nfi_glass.SUBFOLDER,
            ),
            _load_nfi_glass,
            f"downloaded when it is first used, from {nfi_glass.URL}",
        ),
        _Dataset(
            DatasetInfo(
                "fiu-vehicle-glass",
                "Vehicle glass, LA-ICP-MS, natural logs of concentrations; split by vehicle",
                759,
                "9",
                15,
                "GPL-2 or later (the R package SK4FGA)",
                "Florida International University, Vehicle Glass Database V2, via the CRAN package SK4FGA",
                "the CRAN package SK4FGA, written as one row per replicate with the columns item, vehicle "
                "and replicate",
                ("fiu_vehicle_glass.csv",),
                "fiu_vehicle_glass",
            ),
            _load_fiu,
            f"put fiu_vehicle_glass.csv (from the CRAN package SK4FGA) where {DATA_VARIABLE} points",
        ),
        _Dataset(
            DatasetInfo(
                "onze-vowels",
                "Vowel formants of New Zealand English speakers: median F1 and F2 of ten vowels",
                468,
                "6",
                20,
                "MIT (the R package nzilbb.vowels)",
                "Origins of New Zealand English project, via the CRAN package nzilbb.vowels",
                "the CRAN package nzilbb.vowels: medians per random sixth of a speaker's tokens, with the "
                "columns speaker, rep, gender and yob",
                ("onze_vowels.csv",),
                "onze_vowels",
            ),
            _load_onze,
            f"put onze_vowels.csv (from the CRAN package nzilbb.vowels) where {DATA_VARIABLE} points",
        ),
    )
}

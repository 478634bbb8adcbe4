"""The folder of a run: what is finished is in it, whole, and known to be whole.

    experiment.yaml         the resolved configuration: `lindley run` on it repeats the run
    data.npz                the table as it was used
    units/ID.json           a finished unit: its key, its figures, and the digests of its files
    models/MODEL/…          LLRs, models and training histories, per group of splits
    results.json            all figures, once every unit is finished
    report.html, figures/   what is drawn from them

Every file is written beside its name and renamed. A unit counts as finished when its JSON reads and has its own digest, has
the key that this run would give it, and all of its files have the digests that it names; anything else is done again, and
damage is told. results.json is there only while every unit is finished: it goes before the first of them is done again.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.settings import setting
from lindley.table.columns import plain_names
from lindley.table.table import Table, write_atomically

__all__ = [
    "EXPERIMENT",
    "RESULTS",
    "default_folder",
    "drop_results",
    "json_digest",
    "read_arrays",
    "read_table_file",
    "read_unit",
    "read_unit_file",
    "read_whole",
    "resolved",
    "start_folder",
    "writable_folder",
    "write_unit",
]

EXPERIMENT, DATA, RESULTS = "experiment.yaml", "data.npz", "results.json"
Notice = Callable[[str], None]
LEFT_BEHIND = 600.0
"""Seconds after which a half-written file is what a killed run left: no writing takes that long, in another run either."""


@contextmanager
def writable_folder(folder: Path) -> Iterator[None]:
    """Make sure that results can be written to a folder; it is made, and taken away again if the body leaves it empty.

    Raises:
        LindleyError: before the body runs, with the cause and the fix.
    """
    made: list[Path] = []  # the innermost first
    try:
        try:
            made += takewhile(lambda each: not each.exists(), (folder, *folder.parents))
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            if (folder / RESULTS).is_dir():
                raise IsADirectoryError(0, f"{RESULTS} in it is a folder itself")
        except OSError as error:
            raise LindleyError(
                f"The results cannot be written to the folder {folder} ({error.strerror or error}). "
                f"Name another folder with {setting('folder')}, one that you may write to and that is not the name of a file."
            ) from error
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise


def start_folder(folder: Path, experiment: Experiment, table: Table, notice: Notice = lambda message: None) -> None:
    """Write what the run is about, before any of its work.

    The configuration comes last: a folder that has it is one that a run can go on in.
    """
    _sweep(folder)
    arrays = {"name": np.array(table.name), "features": np.array(table.header), "values": table.values}
    labels = {"source": table.source, "group": table.group, "instance": table.instance}
    data = io.BytesIO()
    np.savez_compressed(data, **arrays, **labels)  # type: ignore[arg-type]
    _write(folder, DATA, data.getvalue(), notice)
    _write(folder, EXPERIMENT, resolved(experiment).encode("utf-8"), notice)


def resolved(experiment: Experiment) -> str:
    """The configuration with all that it leaves to defaults, as YAML: it reads back as the same experiment."""
    text = "# The resolved configuration of this run; 'lindley run' on this file repeats it.\n"
    configuration = experiment.model_dump(mode="json")
    return text + yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True, width=120)


def _write(folder: Path, name: str, data: bytes, notice: Notice) -> None:
    """Write a file unless it is there already, the same: a run that goes on rewrites nothing."""
    path = folder / name
    with suppress(OSError):
        if path.read_bytes() == data:
            return
        notice(f"{path} is damaged, or of another run: it is written again.")
    _write_whole(folder, name, data)


def _write_whole(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LindleyError(
            f"The folder {path.parent} cannot be made ({error.strerror or error}). Check that the disk is not full and that "
            f"no file has that name, or name another folder with {setting('folder')}."
        ) from error
    write_atomically(path, data)


def _sweep(folder: Path) -> None:
    """Take away what killed runs left half-written; the age spares a run that is at work in the folder now."""
    for path in folder.rglob(".*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_BEHIND:
                path.unlink()


def drop_results(folder: Path) -> None:
    """Take results.json away: some of what it was made of is not there, or is of another experiment."""
    try:
        (folder / RESULTS).unlink(missing_ok=True)
    except OSError as error:
        raise LindleyError(
            f"{folder / RESULTS} is of another run and cannot be replaced ({error.strerror or error}). Close it if another "
            f"program has it open, or name another folder with {setting('folder')}."
        ) from error


def read_table_file(folder: Path) -> Table:
    """The table of a run, as it was used."""
    path = folder / DATA
    try:
        arrays = read_arrays(path.read_bytes())
    except FileNotFoundError as error:
        raise LindleyError(f"{path} is missing. Run the experiment again: it does what is missing.") from error
    except Exception as error:  # zipfile, zlib and numpy have a dozen ways to tell of damage
        raise LindleyError(
            f"{path} is damaged ({error}). Run the experiment again: it redoes what is damaged."
        ) from error
    try:
        labels = {name: arrays[name].astype(np.str_) for name in ("source", "group", "instance")}
        features, units = plain_names(list(map(str, arrays["features"])))
        return Table(str(arrays["name"]), arrays["values"], features, **labels, units=units)
    except (KeyError, ValueError) as error:
        raise LindleyError(f"{path} is damaged: {error}. Run the experiment again.") from error


def read_arrays(data: bytes) -> dict[str, Any]:
    """The arrays of an npz file, by its bytes: numpy leaves a damaged file open. Objects that would run code are refused."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def read_whole(path: Path, digest: str | None) -> bytes | None:
    """The content of a file; nothing if it is not there, or has not the digest that it should have."""
    with suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() == digest:
            return data
    return None


def write_unit(folder: Path, unit_id: str, key: str, files: Mapping[str, bytes], record: Mapping[str, Any]) -> None:
    """Write the files of a unit, and then, in one step, that it is finished."""
    for name, data in files.items():
        _write_whole(folder, name, data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    content: dict[str, Any] = {"key": key, "files": digests, **record}
    content["sha256"] = json_digest(content)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    _write_whole(folder, f"units/{unit_id}.json", text.encode("utf-8"))


def read_unit_file(folder: Path, unit_id: str) -> dict[str, Any]:
    """The record of a unit, if it is as it was written.

    Raises:
        FileNotFoundError: if there is none.
        LindleyError: if it is damaged.
    """
    path = folder / "units" / f"{unit_id}.json"
    try:
        content = json.loads(path.read_bytes())
        if content.pop("sha256") != json_digest(content):
            raise ValueError("its digest is another")
        if set(content) != {"key", "files", "models"}:
            raise ValueError("it has other parts")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LindleyError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    return content  # type: ignore[no-any-return]


def json_digest(content: Mapping[str, Any]) -> str:
    """A digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_unit(folder: Path, unit_id: str, key: str, notice: Notice) -> dict[str, Any] | None:
    """The record of a finished unit; nothing if it is not there, is of other settings, or is damaged, which is told."""
    try:
        record = read_unit_file(folder, unit_id)
    except FileNotFoundError:
        return None
    except LindleyError as error:
        notice(f"{error}: its part of the work is done again.")
        return None
    if record["key"] != key:
        notice(f"{unit_id} was made with other settings or another version: its part of the work is done again.")
        return None
    for name, digest in record["files"].items():
        if read_whole(folder / name, digest) is None:
            notice(f"{folder / name} is missing or damaged: its part of the work is done again.")
            return None
    return record


def default_folder(experiment: Experiment, table: Table) -> Path:
    """Where the results go if nobody says where: ``results/EXPERIMENT-DATA``.

    If another experiment, or other data of that name, is there, finished or not, it is the next free one of ``…-2``,
    ``…-3``. The same experiment on the same data goes on where it was.
    """
    first = Path("results") / f"{experiment.name}-{table.name}"
    folder, number = first, 1
    while any((folder / name).exists() for name in (EXPERIMENT, RESULTS)) and not _same(folder, experiment, table):
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder


def _same(folder: Path, experiment: Experiment, table: Table) -> bool:
    """Whether a folder is of the same data and configuration; the output may differ."""
    try:
        there = yaml.safe_load((folder / EXPERIMENT).read_text(encoding="utf-8"))
        there = Experiment.model_validate(there).model_dump(exclude={"output"})
        return there == experiment.model_dump(exclude={"output"}) and read_table_file(folder).sha256() == table.sha256()
    except (OSError, ValueError, yaml.YAMLError, LindleyError):  # not to be read, or not ours
        return False

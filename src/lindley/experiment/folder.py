"""The folder of a run: what is finished is in it, whole, and known to be whole.

    experiment.yaml         the resolved configuration: `lindley run` on it repeats the run
    data.npz                the table as it was used
    units/ID.json           a finished unit: its key, its figures, and the digests of its files
    models/MODEL/…          LLRs, models and training histories, per group of splits
    results.json            all figures, once every unit is finished, and a digest of them
    report.html, figures/   what is drawn from them
    .lock                   while somebody is at work there

Every file is written beside its name and renamed. A unit counts as finished when its JSON reads and has its own digest, has
the key that this run would give it, and all of its files have the digests that it names; anything else is done again, and
damage is told. results.json is there only while every unit is finished: it goes before the first of them is done again.
Digests tell of accidents and of slips of the hand. They have no key: whoever means to forge can make them anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.files import ON_WINDOWS, json_digest, lock, write_atomically
from lindley.settings import setting
from lindley.shown import read_json
from lindley.table.datasets import dataset_names
from lindley.table.table import ROLES, Table
from lindley.table.units import plain_names

__all__ = [
    "EXPERIMENT",
    "RESULTS",
    "default_folder",
    "drop_results",
    "first_folder",
    "group_in",
    "held_folder",
    "read_arrays",
    "read_table_file",
    "read_unit",
    "read_unit_file",
    "read_whole",
    "require_results",
    "resolved",
    "start_folder",
    "writable_folder",
    "write_unit",
]

EXPERIMENT, DATA, RESULTS, LOCK = "experiment.yaml", "data.npz", "results.json", ".lock"
Notice = Callable[[str], None]
LONGEST = 100
"""Letters in the name of a folder that we make up."""
LONGEST_TOLD = 400
"""Letters of a path in a message."""
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
        except (OSError, ValueError, RecursionError) as error:  # a NUL in the name; a path of a thousand folders
            reason = getattr(error, "strerror", None) or error
            raise LindleyError(
                f"The results cannot be written to the folder {_named(folder)} ({reason}). "
                f"Name another folder with {setting('folder')}, one that you may write to and that is not the name of a file."
            ) from error
        yield
    except BaseException:
        for each in made:
            with suppress(OSError, ValueError):
                each.rmdir()
        raise


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """A `writable_folder` that nobody else works in meanwhile.

    Raises:
        LindleyError: before the body runs, with who is at work there.
    """
    with writable_folder(folder), ExitStack() as stack:
        path = folder / LOCK
        while True:
            file = stack.enter_context(path.open("a+b"))
            if not lock(file, folder, "no other run is at work there"):
                raise LindleyError(
                    f"Somebody is at work in the folder {folder}: {_holder(path)}. Wait until that is done, or name another "
                    f"folder with {setting('folder')}."
                )
            with suppress(OSError):
                if ON_WINDOWS or os.path.samefile(path, file.fileno()):
                    break  # else the last holder has taken the file away since
        now = datetime.now().astimezone().isoformat(" ", "minutes")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {now}".encode())
        file.flush()
        try:
            yield
        finally:
            if ON_WINDOWS:
                file.close()  # no file is taken away that is open
            with suppress(OSError):
                path.unlink()


def _holder(path: Path) -> str:
    with suppress(OSError):
        if text := path.read_bytes()[:200].decode("utf-8", "replace"):
            return text
    return "a process that has not said who it is"


def _named(folder: Path) -> str:
    text = str(folder)
    return text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]}…"


def start_folder(folder: Path, experiment: Experiment, table: Table, notice: Notice = lambda message: None) -> None:
    """Write what the run is about, before any of its work.

    The configuration comes last: a folder that has it is one that a run can go on in.

    Raises:
        LindleyError: if a named data set is not what it was when the run began: that is no other table, but a changed one.
    """
    _refuse_changed(folder, experiment, table)
    _sweep(folder)
    arrays = {"name": np.array(table.name), "features": np.array(table.header), "values": table.values}
    labels = {role: found for role in ROLES if (found := getattr(table, role)) is not None}
    data = io.BytesIO()
    np.savez_compressed(data, **arrays, **labels)  # type: ignore[arg-type]
    if (there := _read(folder / DATA)) != data.getvalue():
        if there is not None:
            notice(f"{folder / DATA} holds {_why_other_data(folder)}: it is written again.")
        _write_whole(folder, DATA, data.getvalue())
    text = resolved(experiment).encode("utf-8")
    if (there := _read(folder / EXPERIMENT)) != text:
        if there is not None and (why := _why_other_settings(folder, experiment)):
            notice(f"{folder / EXPERIMENT} {why}: it is written again.")
        _write_whole(folder, EXPERIMENT, text)


def resolved(experiment: Experiment) -> str:
    """The configuration with all that it leaves to defaults, as YAML: it reads back as the same experiment."""
    text = (
        "# The resolved configuration of this run; 'lindley run' on this file repeats it. Files are named without their\n"
        "# folders: run it where they are, or name the table with --data.\n"
    )
    return text + yaml.safe_dump(experiment.told(), sort_keys=False, allow_unicode=True, width=120)


def _read(path: Path) -> bytes | None:
    with suppress(OSError):
        return path.read_bytes()
    return None


def _why_other_data(folder: Path) -> str:
    try:
        return f"other data, of {read_table_file(folder).name}"
    except LindleyError:
        return "no table that can be read"


def _why_other_settings(folder: Path, experiment: Experiment) -> str:
    """Why a configuration is replaced; nothing to say if it differs in its output alone."""
    there = _settings_in(folder)
    if there is None:
        return "is damaged"
    return "" if there == _settings(experiment) else "is of other settings"


def _refuse_changed(folder: Path, experiment: Experiment, table: Table) -> None:
    if experiment.data.data not in dataset_names() or _settings_in(folder) is None:
        return
    try:
        before = read_table_file(folder)
    except LindleyError:
        return
    if before.name == table.name and before.sha256() != table.sha256():
        raise LindleyError(
            f"{table.name} is not what it was when the run in {folder} began: its SHA-256 was {before.sha256()}, and is "
            f"{table.sha256()}. Find out who changed it; to run on what it is now, name another folder with "
            f"{setting('folder')}."
        )


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


def require_results(folder: str | Path) -> Path:
    """Where the results of a finished run in a folder are.

    Raises:
        LindleyError: if there are none.
    """
    path = Path(folder) / RESULTS
    if not path.is_file():
        mend = "Name the folder that 'lindley run' wrote to."
        if (Path(folder) / EXPERIMENT).is_file():
            mend = "Its run is not finished: give the same 'lindley run' again, and it goes on where it was."
        raise LindleyError(f"{folder} holds no {RESULTS}. {mend}")
    return path


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
        labels = {role: arrays[role].astype(np.str_) for role in ROLES if role in arrays or role != "session"}
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
        content = read_json(path.read_bytes())
        if content.pop("sha256") != json_digest(content):
            raise ValueError("its digest is another")
        if set(content) != {"key", "files", "models"}:
            raise ValueError("it has other parts")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LindleyError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    return content  # type: ignore[no-any-return]


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


def first_folder(experiment: Experiment, table: Table) -> Path:
    """``results/EXPERIMENT-DATA``."""
    return Path("results") / _short(f"{experiment.name}-{table.name}")


def default_folder(experiment: Experiment, table: Table) -> Path:
    """Where the results go if nobody says where: ``results/EXPERIMENT-DATA``.

    If another experiment, or other data of that name, is there, finished or not, it is the next free one of ``…-2``,
    ``…-3``. The same experiment on the same data goes on where it was.
    """
    first = first_folder(experiment, table)
    folder, number = first, 1
    while any((folder / name).exists() for name in (EXPERIMENT, RESULTS)) and not _same(folder, experiment, table):
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder


def _same(folder: Path, experiment: Experiment, table: Table) -> bool:
    """Whether a folder is of the same data and configuration; the output may differ."""
    try:
        there, here = _settings_in(folder), _settings(experiment)
        if there is not None and experiment.training.group is None:  # the run there has settled it
            here["training"]["group"] = there["training"]["group"]
        return there == here and read_table_file(folder).sha256() == table.sha256()
    except LindleyError:  # not to be read, or not ours
        return False


def group_in(folder: Path) -> int | None:
    """How many splits the run in a folder works on together; nothing if there is none, or none that reads."""
    there = _settings_in(folder)
    return None if there is None else there["training"]["group"]


def _settings_in(folder: Path) -> dict[str, Any] | None:
    """What decides the numbers of the run in a folder; nothing if there is none, or none that reads."""
    try:
        there = yaml.safe_load((folder / EXPERIMENT).read_text(encoding="utf-8"))
        return _settings(Experiment.model_validate(there))
    except (OSError, ValueError, yaml.YAMLError, RecursionError, LindleyError):
        return None


def _settings(experiment: Experiment) -> dict[str, Any]:
    return {name: value for name, value in experiment.told().items() if name != "output"}


def _short(name: str) -> str:
    """A name for a folder on every disk; what is left out of a long one is told by a digest."""
    name = re.sub(r'[<>:"|?*]', "_", name).rstrip(" .")
    if len(name.encode()) <= LONGEST:
        return name
    kept = name.encode()[: LONGEST - 9].decode("utf-8", "ignore")
    return f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

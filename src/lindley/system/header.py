"""A system file before its numbers are read: its bytes, what its header says, and how tables are read for it.

Nothing here brings torch, which takes a second or more to load: what is wrong with the files of a case is told before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from lindley.errors import LindleyError
from lindley.shown import CONTROLS, read_json

__all__ = [
    "FORMAT",
    "KEY",
    "OLDEST",
    "OldRobust",
    "has_old_robust",
    "may_say_nothing",
    "not_held",
    "printable",
    "read_header",
    "read_system",
    "table_of",
]

FORMAT = "lindley-system/5"
OLDEST = 3
"""The first layout that is still read. Since 4 a file holds the unit of the reference; before, it is not known. Since 5 it
holds the bounds of cases of several measurements; before, those of one against one do."""
KEY = "lindley"
HEADER_LENGTH = 8
TRANSFORMS = ("none", "log10", "ln")
OLD_LAW = {"Stabiliser", "Tails", "Population"}
"""Parts of the robust model as it was up to lindley 0.2.0."""


class OldRobust(LindleyError):
    """A system holds the robust model of lindley 0.2.0 or older, which this version does not compute."""


def read_system(path: str | Path) -> bytes:
    """The content of what may be a system file."""
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise LindleyError(f"{path} cannot be read: it is not a file.")
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise LindleyError(f"there is no file {path}. 'lindley train' writes systems.") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is the latter
        raise LindleyError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    except MemoryError:
        raise LindleyError(f"{path} is larger than the memory of this machine: it is not a system.") from None


def read_header(
    data: bytes, name: str, form: str = FORMAT, oldest: int | None = OLDEST, *, old_robust: bool = False
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The header of a safetensors file, what lindley wrote into it, and the number of its layout.

    ``oldest`` is the first layout that is still read; ``old_robust``: a system with the old robust model is not refused.
    Nothing is known yet of whether the numbers belong to it.

    Raises:
        OldRobust: if it holds the robust model of lindley 0.2.0 or older.
        LindleyError: if the file is foreign, cut off, of another format or of another version; it says which.
    """
    what, _, version = form.rpartition("/")
    try:
        length = int.from_bytes(data[:HEADER_LENGTH], "little")
        if len(data) < HEADER_LENGTH or length > len(data) - HEADER_LENGTH:
            raise ValueError("it is cut off, or it is not a safetensors file")
        whole = read_json(data[HEADER_LENGTH : HEADER_LENGTH + length])
        metadata = whole.get("__metadata__") or {}
        if KEY not in metadata:
            raise ValueError("it was not written by lindley")
        header = read_json(metadata[KEY])
        layout = _layout(header.get("format"), what, int(version) if oldest is None else oldest, int(version), name)
    except LindleyError:
        raise
    except Exception as error:  # whatever a damaged or forged file makes of the reader of JSON
        not_held(name, what, error)
    if has_old_robust(header) and not old_robust:
        raise OldRobust(
            f"{name} holds the robust model of lindley 0.2.0 or older, which this version does not compute: train it anew with "
            "'lindley train', or with 'lindley update' if there are further measurements and the tables that it was trained "
            "on, or use lindley 0.2.0 for it."
        )
    return whole, header, layout


def has_old_robust(header: Mapping[str, Any]) -> bool:
    """Whether a header tells of the robust model of lindley 0.2.0 or older."""
    try:
        model = header["structure"]["fields"]["model"]
        return model["kind"] == "Robust" and any(part.get("kind") in OLD_LAW for part in model["fields"].values())
    except (AttributeError, KeyError, TypeError):
        return False


def not_held(name: str, what: str, error: Exception) -> NoReturn:
    """Say that a file does not hold what it should, and why."""
    detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else str(error)
    raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: {printable(detail)}") from error


def table_of(data: bytes, name: str) -> dict[str, Any] | None:
    """How tables are read for the system in a file, by the names of `read_table`, as its header says; see `System.table`.

    Nothing if the header is odd: whoever reads the whole system will say how.

    Raises:
        LindleyError: as `read_header` does.
    """
    _, header, _ = read_header(data, name)
    try:
        said: Mapping[str, Any] = {key: _plain(part) for key, part in header["structure"]["fields"].items()}
        features, units, reference = said["features"], said["units"], said["reference"]
        if reference is not None:
            units = (*units, said.get("reference_unit"))
        columns = (*features, *([] if reference is None else [reference]))
        words = (*columns, *(unit for unit in units if unit is not None))
        if (
            not features
            or not isinstance(features, tuple)
            or not isinstance(units, tuple)
            or len(columns) != len(units)
            or said["transform"] not in TRANSFORMS
            or not all(isinstance(word, str) and word and not CONTROLS.search(word) for word in words)
        ):
            return None
    except (AttributeError, KeyError, TypeError, RecursionError):
        return None
    return {"features": features, "units": units, "transform": said["transform"], "reference": reference}


def may_say_nothing(validation: Mapping[str, Any]) -> bool:
    """Whether the validation of a system on its own sources gives a Cllr of 1 or more, or an interval that reaches 1.

    1 is the Cllr of a system that gives every pair an LR of 1, to the last digits. Systems of lindley 0.2 and before have no
    interval.
    """
    return bool(max([validation["cllr"], *(validation.get("cllr_interval") or ())]) >= 1 - 1e-9)


def _plain(part: Any) -> Any:
    """The plain value, or the tuple of them, that a branch of a header holds; nothing if it holds anything else."""
    if "tuple" in part:
        return tuple(_plain(each) for each in part["tuple"])
    return part.get("value")


def _layout(found: Any, what: str, oldest: int, version: int, name: str) -> int:
    """The number of the layout, if it can be read."""
    kind, _, number = str(found).rpartition("/")
    if kind != what:
        raise ValueError(f"it holds a {kind.replace('-', ' ') or 'file of another kind'}")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise ValueError(f"its layout {number[:20]} is not known")
    if int(number) > version:
        raise LindleyError(
            f"{name} was written by a newer version of lindley (layout {number}; this one reads {version}). Install that "
            "version, or train again with this one."
        )
    if int(number) < oldest:
        reads = version if oldest == version else f"{oldest} to {version}"
        raise LindleyError(
            f"{name} was written by an older version of lindley (layout {number}; this one reads {reads}). Use it with that "
            "version, or train the system again on the same table with this one."
        )
    return int(number)


def printable(value: Any) -> Any:
    """Text, or plain JSON, with control characters made visible: it is printed some day, and a terminal would obey them."""
    if isinstance(value, dict):
        return {printable(key): printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [printable(each) for each in value]
    return CONTROLS.sub("�", value) if isinstance(value, str) else value

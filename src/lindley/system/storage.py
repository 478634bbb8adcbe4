"""Systems as bytes and back: numbers and the names of known parts, never code.

What is stored is a tree of dataclasses with tensors, arrays and plain values as its leaves. It becomes a safetensors file:
the tensors under their paths (``model.between.mean``), and in the header, as JSON, the class and the plain values of every
branch, with a digest of all of it. Only the classes that the reader names are ever made from a file, and only with exactly
their own fields. A field with the metadata ``stored=False`` does not go into the tree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lindley.calibration import Chain, Elub, InvarianceBounds, Kernel, Logistic, Pav
from lindley.errors import LindleyError
from lindley.llrs import LN10
from lindley.models.flow import Flow
from lindley.models.gaussianise import Quantile, YeoJohnson
from lindley.models.two_level import take_runs
from lindley.system.kinds import KINDS, fetch
from lindley.table.scaling import Scaling, Transform, TransformKind

if TYPE_CHECKING:
    from lindley.system.system import System

__all__ = ["from_bytes", "require_consistent", "stored_classes", "to_bytes"]

KEY = "lindley"
HEADER_LENGTH = 8
T = TypeVar("T")
Classes = Mapping[str, type[Any]]


def stored_classes(*others: type[Any]) -> dict[str, type[Any]]:
    """Every class that a system may consist of, by its name: those of all kinds of models, and ``others``."""
    of_models = [fetch(place) for kind in KINDS.values() for place in kind.stores]
    around = (Scaling, Quantile, YeoJohnson, Flow, Chain, Logistic, Kernel, Pav, Elub, InvarianceBounds)
    return {each.__name__: each for each in (*of_models, *around, *others)}


def to_bytes(value: Any, form: str, about: Mapping[str, Any], classes: Classes) -> bytes:
    """Anything of the given classes as a safetensors file of the format ``form``, such as ``lindley-system/3``.

    ``about`` is plain JSON that travels with it.
    """
    tensors: dict[str, Tensor] = {}
    structure = _structure(value, "", tensors, classes)
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    header: dict[str, Any] = {"format": form, "structure": structure, "about": dict(about)}
    header["sha256"] = _digest(header, tensors)
    # One key: safetensors writes several in an order that changes from run to run.
    return save(tensors, {KEY: json.dumps(header, allow_nan=False)})


def from_bytes(
    data: bytes, name: str, kind: type[T], form: str, classes: Classes, oldest: int | None = None
) -> tuple[T, dict[str, Any]]:
    """What `to_bytes` wrote, and what travelled with it; ``oldest`` is the first layout that is still read.

    A field with the metadata ``since`` is not in files of older layouts, and has its default then.

    Raises:
        LindleyError: if the file is damaged, foreign, of another format or of another version; it says which.
    """
    what, _, version = form.rpartition("/")
    try:
        length = int.from_bytes(data[:HEADER_LENGTH], "little")
        if len(data) < HEADER_LENGTH or length > len(data) - HEADER_LENGTH:
            raise ValueError("it is cut off, or it is not a safetensors file")
        metadata = json.loads(data[HEADER_LENGTH : HEADER_LENGTH + length]).get("__metadata__") or {}
        if KEY not in metadata:
            raise ValueError("it was not written by lindley")
        header = json.loads(metadata[KEY])
        layout = _layout(header.get("format"), what, int(version) if oldest is None else oldest, int(version), name)
        tensors = load(data)
        if header["sha256"] != _digest({key: header[key] for key in ("format", "structure", "about")}, tensors):
            raise ValueError("its content was changed after it was written, or it is damaged")
        value = _made(header["structure"], "", tensors, classes, layout)
        about = dict(header["about"])
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else str(error)
        raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: {detail}") from error
    if not isinstance(value, kind) or tensors:
        raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: it has other parts than one")
    return value, about


def require_consistent(system: System, about: Mapping[str, Any]) -> None:
    """Refuse a file whose parts are whole and do not fit together."""
    n, model, runs = len(system.features), system.model, system.runs
    if type(model).__name__ not in stored_classes():
        raise ValueError("it has no model")
    if not all(isinstance(name, str) and name for name in (system.name, *system.features)):
        raise ValueError("its features have no names")
    if not all(unit is None or isinstance(unit, str) for unit in (*system.units, system.reference_unit)):
        raise ValueError("its units are no words")
    if not all(isinstance(split, int) for split in system.splits) or len(system.splits) not in (0, runs):
        raise ValueError("its splits are not those of its runs")
    Transform(cast(TransformKind, system.transform), system.reference)
    _ = system.spec
    shapes: dict[str, tuple[Any, Any]] = {
        "features": (len(set(system.columns)), max(len(system.columns), 1)),
        "units": (len(system.units), n),
        "runs": ({len(system.scalings), len(system.calibrations), len(system.gaussianisers) or runs}, {runs}),
        "mean and sd": ({array.shape for each in system.scalings for array in (each.mean, each.sd)}, {(n,)}),
        "centre": (tuple(model.centre.shape[1:]), (1, n)),
        "projection": (tuple(model.projection.shape[:2]), (runs, n)),
    }
    if system.casework is not None:
        population, bounds = system.population, system.bounds
        if len(bounds) != 2 or not -np.inf < bounds[0] <= 0 <= bounds[1] < np.inf:
            raise ValueError("bounds")
        shapes |= {
            "population": (population.means.shape[1:], (n,)),
            "range": (population.lowest.shape, population.highest.shape),
            "match_information": (population.match_information.shape, (n,)),
        }
    if wrong := [part for part, (found, right) in shapes.items() if found != right]:
        raise ValueError(f"shapes of {', '.join(wrong)}")
    for scaling in system.scalings:
        if not (np.isfinite(scaling.mean).all() and np.isfinite(scaling.sd).all() and (scaling.sd > 0).all()):
            raise ValueError("mean and sd")
    if system.casework is not None and not all(
        isinstance(about.get(key), dict) for key in ("data", "validation", "versions")
    ):
        raise ValueError("nothing about its making")
    _require_lrs(system)


def _require_lrs(system: System) -> None:
    """Of something near the middle of what it knows."""
    with torch.inference_mode():
        for run in range(system.runs):
            middle = torch.from_numpy(system.prepare(system.scalings[run].mean[None], run))
            one = middle.expand(1, 1, -1).to(system.model.centre)
            llr = take_runs(system.model, [run]).ln_lr(one, one) / LN10
            trial = system.calibrated(llr.cpu().numpy(), run)
            if trial.shape != (1, 1, 1) or not np.isfinite(trial).all():
                raise ValueError("its model gives no LR")


def _layout(found: Any, what: str, oldest: int, version: int, name: str) -> int:
    """The number of the layout, if it can be read."""
    kind, _, number = str(found).rpartition("/")
    if kind != what:
        raise ValueError(f"it holds a {kind.replace('-', ' ') or 'file of another kind'}")
    if not number.isdecimal():
        raise ValueError(f"its layout {number} is not known")
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


def _digest(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"\0{name} {t.dtype} {tuple(t.shape)}\0".encode() + t.numpy().tobytes())
    return digest.hexdigest()


def _stored(kind: Any, layout: float = np.inf) -> list[str]:
    return [f.name for f in fields(kind) if f.metadata.get("stored", True) and f.metadata.get("since", 0) <= layout]


def _structure(value: Any, path: str, tensors: dict[str, Tensor], classes: Classes) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"tensor": True}
    if isinstance(value, np.ndarray):
        tensors[path] = torch.from_numpy(np.ascontiguousarray(value))
        return {"array": True}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        if classes.get(kind) is not type(value):
            raise TypeError(f"{kind} is not one of the kinds that can be stored: {', '.join(classes)}")
        inside = {
            name: _structure(getattr(value, name), _join(path, name), tensors, classes) for name in _stored(value)
        }
        return {"kind": kind, "fields": inside}
    if isinstance(value, tuple):
        return {"tuple": [_structure(v, _join(path, str(i)), tensors, classes) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"{path}: a {type(value).__name__} cannot be stored")


def _made(structure: Any, path: str, tensors: dict[str, Tensor], classes: Classes, layout: int) -> Any:
    """Build a branch; the tensors that it takes are taken out of ``tensors``."""
    if len(structure) == 1 and ("tensor" in structure or "array" in structure):
        tensor = tensors.pop(path)
        if tensor.is_floating_point() and torch.isnan(tensor).any():
            raise ValueError(f"{path} holds NaN")
        return tensor if "tensor" in structure else tensor.numpy()
    if set(structure) == {"value"}:
        return structure["value"]
    if set(structure) == {"tuple"}:
        parts = enumerate(structure["tuple"])
        return tuple(_made(part, _join(path, str(i)), tensors, classes, layout) for i, part in parts)
    kind = classes[structure["kind"]]
    inside = structure["fields"]
    if set(inside) != set(_stored(kind, layout)):
        raise ValueError(f"{path or 'it'} does not have the fields of a {kind.__name__}")
    return kind(**{name: _made(part, _join(path, name), tensors, classes, layout) for name, part in inside.items()})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

"""Models as bytes and back: numbers and the names of known parts, never code.

What is stored is a tree of dataclasses with tensors, arrays and plain values as its leaves. It becomes a safetensors file:
the tensors under their paths (``between.base.mean``), and in the header, as JSON, the class and the plain values of every
branch, with a digest of all of it. Only the classes that the reader names are ever made from a file, and only with exactly
their own fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lindley.calibration import Elub, InvarianceBounds, Kernel, Logistic, Pav
from lindley.errors import LindleyError
from lindley.models.bayes.averaged import Averaged
from lindley.models.between import KernelBetween, NormalBetween
from lindley.models.heavy_tailed.model import HeavyTailed
from lindley.models.neural.common import CommonVariance
from lindley.models.neural.mixture import MixtureBetween
from lindley.models.neural.quadratic import Quadratic
from lindley.models.neural.varying import VaryingVariance
from lindley.models.robust.model import Robust, Tails
from lindley.models.robust.population import Population
from lindley.models.robust.stabilise import Stabiliser
from lindley.models.scale import ScaleMixture
from lindley.models.two_level import TwoLevel

__all__ = ["KINDS", "MODEL", "Model", "from_bytes", "model_from_bytes", "model_to_bytes", "to_bytes"]

MODEL = "lindley-model/1"
KEY = "lindley"
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        TwoLevel, NormalBetween, MixtureBetween, KernelBetween, ScaleMixture, CommonVariance, VaryingVariance,
        HeavyTailed, Quadratic, Averaged, Robust, Stabiliser, Population, Tails,
        Logistic, Kernel, Pav, Elub, InvarianceBounds,
    )
}  # fmt: skip
HEADER_LENGTH = 8
Model = TwoLevel | Robust | Averaged
"""What can be fitted, stored and scored."""
T = TypeVar("T")


def model_to_bytes(model: Model, about: Mapping[str, Any] | None = None) -> bytes:
    """A model as a safetensors file; ``about`` is plain JSON that travels with it."""
    return to_bytes(model, MODEL, about)


def model_from_bytes(data: bytes, name: str) -> tuple[Model, dict[str, Any]]:
    """What `model_to_bytes` wrote; ``name`` is for the message of the error if it is anything else."""
    return from_bytes(data, name, (TwoLevel, Robust, Averaged), MODEL)


def to_bytes(
    value: Any, form: str, about: Mapping[str, Any] | None = None, kinds: Mapping[str, type[Any]] = KINDS
) -> bytes:
    """Anything of the given kinds as a safetensors file of the format ``form``, such as ``lindley-model/1``."""
    tensors: dict[str, Tensor] = {}
    structure = _structure(value, "", tensors, kinds)
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    header: dict[str, Any] = {"format": form, "structure": structure, "about": dict(about or {})}
    header["sha256"] = _digest(header, tensors)
    # One key: safetensors writes several in an order that changes from run to run.
    return save(tensors, {KEY: json.dumps(header, allow_nan=False)})


def from_bytes(
    data: bytes, name: str, kind: type[T] | tuple[type[T], ...], form: str, kinds: Mapping[str, type[Any]] = KINDS
) -> tuple[T, dict[str, Any]]:
    """What `to_bytes` wrote.

    Raises:
        LindleyError: if the file is damaged, foreign, of another format or of a newer version; it says which.
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
        _require_format(header.get("format"), what, int(version), name)
        tensors = load(data)
        if header["sha256"] != _digest({key: header[key] for key in ("format", "structure", "about")}, tensors):
            raise ValueError("its content was changed after it was written, or it is damaged")
        value = _made(header["structure"], "", tensors, kinds)
        about = dict(header["about"])
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else str(error)
        raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: {detail}") from error
    if not isinstance(value, kind) or tensors:
        raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: it has other parts than one")
    return value, about


def _require_format(found: Any, what: str, version: int, name: str) -> None:
    kind, _, number = str(found).rpartition("/")
    if kind != what:
        raise ValueError(f"it holds a {kind.replace('-', ' ') or 'file of another kind'}")
    if number.isdecimal() and int(number) > version:
        raise LindleyError(
            f"{name} was written by a newer version of lindley (layout {number}; this one reads {version}). Install that "
            "version, or train again with this one."
        )
    if number != str(version):
        raise ValueError(f"its layout {number} is not read any more")


def _digest(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"\0{name} {t.dtype} {tuple(t.shape)}\0".encode() + t.numpy().tobytes())
    return digest.hexdigest()


def _structure(value: Any, path: str, tensors: dict[str, Tensor], kinds: Mapping[str, type[Any]]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"tensor": True}
    if isinstance(value, np.ndarray):
        tensors[path] = torch.from_numpy(np.ascontiguousarray(value))
        return {"array": True}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        if kinds.get(kind) is not type(value):
            raise TypeError(f"{kind} is not one of the kinds that can be stored: {', '.join(kinds)}")
        inside = {
            f.name: _structure(getattr(value, f.name), _join(path, f.name), tensors, kinds) for f in fields(value)
        }
        return {"kind": kind, "fields": inside}
    if isinstance(value, tuple):
        return {"tuple": [_structure(v, _join(path, str(i)), tensors, kinds) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"{path}: a {type(value).__name__} cannot be stored")


def _made(structure: Any, path: str, tensors: dict[str, Tensor], kinds: Mapping[str, type[Any]]) -> Any:
    """Build a branch; the tensors that it takes are taken out of ``tensors``."""
    if len(structure) == 1 and ("tensor" in structure or "array" in structure):
        tensor = tensors.pop(path)
        if tensor.is_floating_point() and torch.isnan(tensor).any():
            raise ValueError(f"{path} holds NaN")
        return tensor if "tensor" in structure else tensor.numpy()
    if set(structure) == {"value"}:
        return structure["value"]
    if set(structure) == {"tuple"}:
        return tuple(_made(part, _join(path, str(i)), tensors, kinds) for i, part in enumerate(structure["tuple"]))
    kind = kinds[structure["kind"]]
    inside = structure["fields"]
    if set(inside) != {f.name for f in fields(kind)}:
        raise ValueError(f"{path or 'it'} does not have the fields of a {kind.__name__}")
    return kind(**{name: _made(part, _join(path, name), tensors, kinds) for name, part in inside.items()})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

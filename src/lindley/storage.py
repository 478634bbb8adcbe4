"""Models as bytes and back: numbers and the names of known parts, never code.

A model is a tree of dataclasses with tensors as its leaves. It is stored as a safetensors file: the tensors under their
paths (``between.base.mean``), and in the header, as JSON, the class of every branch. Only the classes of `KINDS` are ever
made from a file, and only with exactly their own fields, each of its own type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lindley.errors import LindleyError
from lindley.integration.common import CommonVariance
from lindley.integration.varying import VaryingVariance
from lindley.models.between import Between, KernelBetween, NormalBetween
from lindley.models.mixture import MixtureBetween
from lindley.models.scale import ScaleMixture
from lindley.models.two_level import TwoLevel

__all__ = ["FORMAT", "KINDS", "model_from_bytes", "model_to_bytes"]

FORMAT = "lindley-model/1"
KEY = "lindley"
LAWS = (NormalBetween, MixtureBetween, KernelBetween, ScaleMixture, CommonVariance, VaryingVariance)
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (TwoLevel, *LAWS)}
TENSOR = "tensor"
HEADER_LENGTH = 8


def model_to_bytes(model: TwoLevel, about: Mapping[str, Any] | None = None) -> bytes:
    """The model as a safetensors file; ``about`` is plain JSON that travels with it."""
    tensors: dict[str, Tensor] = {}
    structure = _structure(model, "", tensors)
    header = {"format": FORMAT, "structure": structure, "about": dict(about or {})}
    # One key: safetensors writes several in an order that changes from run to run.
    return save({name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}, {KEY: json.dumps(header)})


def model_from_bytes(data: bytes, name: str) -> tuple[TwoLevel, dict[str, Any]]:
    """What `model_to_bytes` wrote; ``name`` is for the message of the error if it is anything else."""
    try:
        length = int.from_bytes(data[:HEADER_LENGTH], "little")
        metadata = json.loads(data[HEADER_LENGTH : HEADER_LENGTH + length]).get("__metadata__", {})
        header = json.loads(metadata.get(KEY, "{}"))
        if header.get("format") != FORMAT:
            raise LindleyError(
                f"{name} is not a model of this version of lindley: its format is {header.get('format')!r}, and not "
                f"{FORMAT!r}"
            )
        tensors = load(data)
        model, about = _made(header["structure"], "", tensors), header["about"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LindleyError(f"{name} does not hold a model: {type(error).__name__}: {error}") from error
    if not isinstance(model, TwoLevel) or tensors or not isinstance(about, dict):
        raise LindleyError(f"{name} does not hold a model: it has the wrong parts")
    return model, about


def _structure(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return TENSOR
    kind = type(value).__name__
    if KINDS.get(kind) is not type(value):
        raise TypeError(f"{path or 'the model'}: {kind} is not one of the kinds that can be stored: {', '.join(KINDS)}")
    inside = {f.name: _structure(getattr(value, f.name), _join(path, f.name), tensors) for f in fields(value)}
    return {"kind": kind, "fields": inside}


def _made(structure: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Build a branch; the tensors that it takes are taken out of ``tensors``."""
    if structure == TENSOR:
        tensor = tensors.pop(path)
        if not tensor.is_floating_point() or torch.isnan(tensor).any():
            raise ValueError(f"{path} holds something else than numbers")
        return tensor
    kind = KINDS[structure["kind"]]
    inside = structure["fields"]
    if set(inside) != {f.name for f in fields(kind)}:
        raise ValueError(f"{path or 'the model'} does not have the fields of a {kind.__name__}")
    made = {name: _made(part, _join(path, name), tensors) for name, part in inside.items()}
    for name, hint in get_type_hints(kind).items():
        if not isinstance(made[name], LAWS if hint is Between else hint):
            raise ValueError(f"{_join(path, name)} of a {kind.__name__} cannot be a {type(made[name]).__name__}")
    return kind(**made)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

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
from safetensors.torch import load, save
from torch import Tensor

from lindley.calibration import Chain, Elub, InvarianceBounds, Kernel, Logistic, Pav
from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.flow import Flow
from lindley.models.gaussianise import Logarithm, Quantile, YeoJohnson
from lindley.shown import CONTROLS
from lindley.system.header import KEY, has_old_robust, not_held, printable, read_header
from lindley.system.kinds import KINDS, fetch
from lindley.table.scaling import LARGEST, SMALLEST, Scaling, Transform, TransformKind
from lindley.table.splits import Side

if TYPE_CHECKING:
    from lindley.system.system import System

__all__ = [
    "from_bytes",
    "require_consistent",
    "require_finite",
    "require_names",
    "stored_classes",
    "to_bytes",
]

BOUND_STEP = 0.011
"""Bounds lie on a grid, and may be a step of it beyond what pairs support."""
FIGURES = ("cllr", "cllr_min", "cllr_cal", "misleading_same", "misleading_different")
"""Of the validation."""
T = TypeVar("T")
Classes = Mapping[str, type[Any]]


def stored_classes(*others: type[Any]) -> dict[str, type[Any]]:
    """Every class that a system may consist of, by its name: those of all kinds of models, and ``others``."""
    of_models = [fetch(place) for kind in KINDS.values() for place in kind.stores]
    around = (Scaling, Logarithm, Quantile, YeoJohnson, Flow, Chain, Logistic, Kernel, Pav, Elub, InvarianceBounds)
    return {each.__name__: each for each in (*of_models, *around, *others)}


def to_bytes(value: Any, form: str, about: Mapping[str, Any], classes: Classes) -> bytes:
    """Anything of the given classes as a safetensors file of the format ``form``, such as ``lindley-system/3``.

    ``about`` is plain JSON that travels with it.
    """
    tensors: dict[str, Tensor] = {}
    structure = _structure(value, "", tensors, classes)
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    header: dict[str, Any] = {"format": form, "structure": structure, "about": printable(dict(about))}
    header["sha256"] = _digest(header, tensors)
    # One key: safetensors writes several in an order that changes from run to run.
    return save(tensors, {KEY: json.dumps(header, allow_nan=False)})


def from_bytes(
    data: bytes,
    name: str,
    kind: type[T],
    form: str,
    classes: Classes,
    oldest: int | None = None,
    *,
    old_robust: bool = False,
) -> tuple[T, dict[str, Any]]:
    """What `to_bytes` wrote, and what travelled with it; ``oldest`` is the first layout that is still read.

    A field with the metadata ``since`` is not in files of older layouts, and has its default then. ``old_robust``: a system
    with the robust model of lindley 0.2.0 or older is read, and has None in place of its model.

    Raises:
        OldRobust: if it holds that model, and was not asked for.
        LindleyError: if the file is damaged, foreign, of another format or of another version; it says which.
    """
    what = form.rpartition("/")[0]
    whole, header, layout = read_header(data, name, form, oldest, old_robust=old_robust)
    try:
        if any(max(entry["shape"], default=0) > len(data) for name, entry in whole.items() if name != "__metadata__"):
            raise ValueError("it says that it holds more than it is long")
        tensors = load(data)
        if header["sha256"] != _digest({key: header[key] for key in ("format", "structure", "about")}, tensors):
            raise ValueError("its content was changed after it was written, or it is damaged")
        if has_old_robust(header):
            header["structure"]["fields"]["model"] = {"value": None}
            tensors = {path: t for path, t in tensors.items() if not path.startswith("model.")}
        value = _made(header["structure"], "", tensors, classes, layout)
        about = dict(header["about"])
        if about != printable(about):
            raise ValueError("what it says of itself holds control characters")
    except LindleyError:
        raise
    except Exception as error:  # whatever a damaged or forged file makes of the reader of safetensors
        not_held(name, what, error)
    if not isinstance(value, kind) or tensors:
        raise LindleyError(f"{name} does not hold a {what.replace('-', ' ')}: it has other parts than one")
    return value, about


def require_names(system: System) -> None:
    """Refuse what nobody could read, or what a terminal would obey: names are printed, and columns are found by them."""
    if not all(isinstance(name, str) and name for name in (system.name, *system.columns)):
        raise LindleyError("its features have no names")
    if not all(unit is None or isinstance(unit, str) for unit in system.column_units):
        raise LindleyError("its units are no words")
    for word in (system.name, *system.columns, *system.column_units):
        if word is not None and CONTROLS.search(word):
            raise LindleyError(f"the name or unit {word!r} holds a control character: rename the column")


def require_finite(llr: Floats) -> None:
    """No LR is better than none that is a number."""
    if not np.isfinite(llr).all():
        raise LindleyError(
            "the system gives no LR that is a number: the measurements are beyond all that it can compute with, or its file is "
            "damaged. Look at the measurements with 'lindley check', and compare the SHA-256 of the system with the archive."
        )


def require_consistent(system: System, about: Mapping[str, Any], *, old_robust: bool = False) -> None:
    """Refuse a file whose parts are whole and do not fit together; ``old_robust``: it may have no model."""
    require_names(system)
    whole = system.computes or not old_robust
    if whole:
        _require_model(system)
    if system.casework is not None:
        _require_population(system)
        _require_facts(system, about)
    if whole:
        _require_lrs(system)


def _require_model(system: System) -> None:
    """The model, and what surrounds it in every run."""
    n, model = len(system.features), system.model
    if type(model).__name__ not in stored_classes():
        raise ValueError("it has no model")
    runs, axes = len(model.centre), model.projection.shape[-1]
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
        "model": (_first_dimensions(model), {runs}),
        "axes": ({tuple(var.shape) for var in (model.var_within_trace, model.var_within_ref)}, {(runs, 1, axes)}),
    }
    if wrong := [part for part, (found, right) in shapes.items() if found != right]:
        raise ValueError(f"shapes of {', '.join(wrong)}")
    for scaling in system.scalings:
        if not ((np.abs(scaling.mean) <= LARGEST) & (scaling.sd >= SMALLEST) & (scaling.sd <= LARGEST)).all():
            raise ValueError("mean and sd")
    if not ((model.var_within_trace > 0).all() and (model.var_within_ref > 0).all()):
        raise ValueError("variances within sources")


def _require_population(system: System) -> None:
    """What a case is compared with."""
    n, known = len(system.features), system.population
    arrays = {name: getattr(known, name) for name in _stored(known)}
    if wrong := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise ValueError(f"population: {', '.join(wrong)}")
    shapes = {
        "means": (known.means.shape[1:], (n,)),
        "range": ((known.lowest.shape, known.highest.shape), ((n,), (n,))),
        "match_information": (known.match_information.shape, (n,)),
        "distance": (known.distance.shape, (len(known.means),)),
        "scatter": (known.scatter.shape, (known.scatter.size,)),
    }
    if wrong := [part for part, (found, right) in shapes.items() if found != right]:
        raise ValueError(f"shapes of {', '.join(wrong)}")
    if len(known.means) < 2 or (known.match_information < 0).any():
        raise ValueError("population")
    if (known.means < known.lowest - 1e-9).any() or (known.means > known.highest + 1e-9).any():
        raise ValueError("the means of its population are not in its range")
    if not np.allclose(np.sort(known.distance_of(known.means)), known.distance, rtol=1e-6, atol=1e-9):
        raise ValueError("the distances of its population are not those of its means")
    if (known.scatter < 0).any() or (np.diff(known.scatter) < 0).any():
        raise ValueError("scatter of its population")
    if not all(isinstance(digest, str) for digest in system.digests):
        raise ValueError("digests")


def _require_facts(system: System, about: Mapping[str, Any]) -> None:
    """What a file says of its making and its validation agrees with what else is in it.

    Whoever forges one number must forge those that hang together with it. Against somebody who does, there are signatures.
    """
    if not all(isinstance(about.get(key), dict) for key in ("data", "validation", "versions")):
        raise ValueError("nothing about its making")
    data, validation = about["data"], about["validation"]
    for part, keys in ((data, ("sources", "rows")), (validation, ("pairs_same", "pairs_different"))):
        if not all(type(part.get(key)) is int and 0 < part[key] < 2**53 for key in keys):
            raise ValueError(f"{' and '.join(keys)} are no counts")
    sources, same, different = data["sources"], validation["pairs_same"], validation["pairs_different"]
    if sources != len(system.population.means) or len(system.digests) not in (0, data["rows"]):
        raise ValueError(
            f"it says that it was trained on {data['rows']} measurements of {sources} sources, and holds others"
        )
    if same > sources or different > sources**2:
        raise ValueError(f"{same} and {different} pairs are more than {sources} sources have")
    bounds = system.bounds
    if len(bounds) != 2 or not all(isinstance(bound, float) for bound in bounds) or not bounds[0] <= 0 <= bounds[1]:
        raise ValueError("bounds")
    if bounds[0] < -np.log10(same + 1) - BOUND_STEP or bounds[1] > np.log10(different + 1) + BOUND_STEP:
        raise ValueError(
            f"bounds of {bounds[0]:g} and {bounds[1]:g} are more than {same} and {different} pairs support"
        )
    most = -np.log10(sources + 1) - BOUND_STEP, np.log10(sources**2 + 1) + BOUND_STEP
    for shape, (lower, upper) in system.casework.shapes if system.casework is not None else ():
        if not (len(shape) == 2 and all(type(count) is int and 0 < count < 1000 for count in shape)):
            raise ValueError(f"numbers of measurements {shape}")
        if not (isinstance(lower, float) and isinstance(upper, float) and most[0] <= lower <= 0 <= upper <= most[1]):
            raise ValueError(f"bounds of {shape} measurements")
    if not isinstance(validation.get("how"), str) or about.get("bootstrap") != system.runs - 1:
        raise ValueError("its validation, or the number of its replicates")
    figures = [validation.get(key) for key in FIGURES]
    if not all(isinstance(value, float) and value > -1e-9 for value in figures):
        raise ValueError("figures of the validation")
    cllr, least, rest, *misleading = figures
    interval = validation.get("cllr_interval")
    if interval is not None and not (
        isinstance(interval, list)
        and [type(end) for end in interval] == [float] * 2
        and 0 <= interval[0] <= interval[1]
    ):
        raise ValueError("the interval of its Cllr")
    # a misleading LR costs one bit at least
    if max(*misleading, least) > 1 or cllr < sum(misleading) / 2 - 1e-9 or abs(cllr - least - rest) > 1e-9:
        raise ValueError("figures of the validation contradict each other")


def _first_dimensions(model: Any) -> set[int]:
    """Of all tensors of a model but those that all runs share."""
    if isinstance(model, Tensor):
        return {model.shape[0] if model.ndim else 0}
    if isinstance(model, tuple):
        return set().union(*map(_first_dimensions, model))
    if is_dataclass(model) and not isinstance(model, type):
        own = (getattr(model, f.name) for f in fields(model) if not f.metadata.get("shared"))
        return set().union(*map(_first_dimensions, own))
    return set()


def _require_lrs(system: System) -> None:
    """Of something near the middle of what it knows, measured once and twice, in all runs at once."""
    for instances in (1, 2):
        middle = [
            Side(
                np.repeat(scaling.mean[None], instances, axis=0),
                np.zeros(instances, dtype=np.intp),
                np.array(["middle"]),
            )
            for scaling in system.scalings
        ]
        matrices = system.uncalibrated(middle, middle)
        trial = [system.calibrated(llr, run) for run, llr in enumerate(matrices)]
        if any(llr.shape != (1, 1) or not np.isfinite(llr).all() for llr in (*matrices, *trial)):
            raise ValueError("its model gives no LR")
    if "parts" in system.spec.kind.can:
        one = torch.from_numpy(system.prepare(system.scalings[0].mean[None])).expand(1, 1, -1).to(system.model.centre)
        with torch.inference_mode():
            similarity, typicality = system.point.ln_parts(one, one)
        if not np.isfinite([float(similarity), float(typicality)]).all():
            raise ValueError("its model has no similarity and no typicality")


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
        if tensor.dtype not in (torch.float64, torch.float32, torch.int64, torch.bool):
            raise ValueError(f"{path} holds {tensor.dtype}")
        if torch.isnan(tensor).any():
            raise ValueError(f"{path} holds NaN")
        field = path.rpartition(".")[2]
        # the logarithm of a weight of 0 is −∞
        if torch.isposinf(tensor).any() or (torch.isneginf(tensor).any() and not field.startswith("ln_")):
            raise ValueError(f"{path} holds infinite values")
        if field.startswith("var") and (tensor < 0).any():
            raise ValueError(f"{path} holds negative variances")
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

"""Models as bytes: the same bits and the same LLRs back, and nothing but models."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.classical import fit_classical
from lindley.models.two_level import TwoLevel, score
from lindley.system.header import HEADER_LENGTH, KEY
from lindley.system.kinds import KINDS, fetch
from lindley.system.storage import _digest, from_bytes, stored_classes, to_bytes
from lindley.table.splits import Part
from tests.kinds import MODELS, PARTS

MODEL = "lindley-model/4"
STORED = [kind for kind in MODELS if kind != "scale mixture"]  # of the oracle, which is never stored


def model_to_bytes(model: Any, about: dict[str, Any] | None = None) -> bytes:
    return to_bytes(model, MODEL, about or {}, stored_classes())


def model_from_bytes(data: bytes, name: str) -> tuple[Any, dict[str, Any]]:
    return from_bytes(data, name, PairModels, MODEL, stored_classes())


PairModels: Any = tuple({fetch(kind.stores[0]) for kind in KINDS.values()})


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, tuple):
        return {p: leaf for i, part in enumerate(value) for p, leaf in leaves(part, f"{path}.{i}").items()}
    if not is_dataclass(value):
        return {path: value}
    return {p: leaf for f in fields(value) for p, leaf in leaves(getattr(value, f.name), f"{path}.{f.name}").items()}


def llrs(model: TwoLevel, parts: list[Part]) -> list[Any]:
    return score(model, [part.trace for part in parts], [part.ref for part in parts])


@pytest.mark.parametrize("kind", STORED)
def test_the_same_bits_come_back(kind: str) -> None:
    model = MODELS[kind]()
    data = model_to_bytes(model, {"model": kind, "splits": [1, 2]})
    again, about = model_from_bytes(data, "it")
    assert about == {"model": kind, "splits": [1, 2]}
    assert type(again) is type(model)
    before, after = leaves(model), leaves(again)
    assert list(before) == list(after)
    for path, tensor in before.items():
        assert after[path].dtype == tensor.dtype, path
        assert torch.equal(after[path], tensor), path
    for ours, theirs in zip(llrs(again, PARTS), llrs(model, PARTS), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model_to_bytes(again, about) == data


def test_every_kind_is_tried() -> None:
    """All kinds that a model can be made of; calibrations have tests of their own."""

    def kinds(value: Any) -> set[str]:
        if isinstance(value, tuple):
            return set().union(*map(kinds, value))
        if not is_dataclass(value):
            return set()
        return {type(value).__name__}.union(*(kinds(getattr(value, f.name)) for f in fields(value)))

    tried = set().union(*(kinds(MODELS[kind]()) for kind in STORED))
    assert tried == {fetch(place).__name__ for kind in KINDS.values() for place in kind.stores}


def test_bytes_depend_on_the_numbers_alone() -> None:
    """Views, gradients and the order in memory leave no trace."""
    model = MODELS["normal"]()
    odd = model.map(lambda t: torch.stack([t, t])[1].mT.contiguous().mT.requires_grad_())
    assert model_to_bytes(odd) == model_to_bytes(model) == model_to_bytes(MODELS["normal"]())
    assert model_to_bytes(model.map(lambda t: t + 1e-9)) != model_to_bytes(model)


def test_other_things_are_not_stored() -> None:
    model = MODELS["normal"]()
    with pytest.raises(TypeError, match="centre: a list cannot be stored"):
        model_to_bytes(replace(model, centre=model.centre.tolist()))  # type: ignore[arg-type]

    @dataclass
    class NormalBetween:
        mean: Tensor

    with pytest.raises(TypeError, match="NormalBetween is not one of the kinds"):
        model_to_bytes(replace(model, between=NormalBetween(model.centre)))  # type: ignore[arg-type]


GOOD = model_to_bytes(fit_classical(PARTS, "normal"))


def parts_of(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    model, _ = model_from_bytes(data, "it")
    length = int.from_bytes(data[:HEADER_LENGTH], "little")
    header = json.loads(json.loads(data[HEADER_LENGTH : HEADER_LENGTH + length])["__metadata__"][KEY])
    return header, {path.removeprefix("."): tensor for path, tensor in leaves(model).items()}


def forged(change: Callable[[dict[str, Any], dict[str, Tensor]], object], digest: bool = True) -> bytes:
    """A file that was changed, and, if its digest is renewed too, changed with intent."""
    header, tensors = parts_of(GOOD)
    change(header, tensors)
    if digest:
        parts = {key: header.get(key) for key in ("format", "structure", "about")}
        header["sha256"] = _digest(parts, tensors)
    return save(tensors, {KEY: json.dumps(header)})


def nest(header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    inner = header["structure"]
    for _ in range(3):
        inner = {**header["structure"], "fields": {**header["structure"]["fields"], "between": inner}}
    header["structure"] = inner


def only_the_law(header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    header["structure"] = header["structure"]["fields"]["between"]
    for name in list(tensors):
        tensor = tensors.pop(name)
        if name.startswith("between."):
            tensors[name.removeprefix("between.")] = tensor


def structured(**changes: Any) -> bytes:
    return forged(lambda header, tensors: header["structure"].update(changes))


def raw_header(text: str) -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode()


class Bomb:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


CHANGED = "its content was changed after it was written"
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is cut off"),
    "half of it": (GOOD[: len(GOOD) // 2], "does not hold a lindley model"),
    "a byte less": (GOOD[:-1], "does not hold a lindley model"),
    "a byte more": (GOOD + b"\0", "does not hold a lindley model"),
    "only a length": (GOOD[:8], "it is cut off"),
    "a header of the wrong length": (bytes([GOOD[0] ^ 1]) + GOOD[1:], "does not hold a lindley model"),
    "a header of 2^63 bytes": (b"\xff" * 7 + b"\x7f" + GOOD[8:], "it is cut off"),
    "a flipped bit in the header": (GOOD[:9] + bytes([GOOD[9] ^ 4]) + GOOD[10:], "does not hold a lindley model"),
    "a flipped bit in a number": (GOOD[:-3] + bytes([GOOD[-3] ^ 4]) + GOOD[-2:], CHANGED),
    "text": (b"source,instance,K39\n" * 50, "it is cut off, or it is not a safetensors file"),
    "a list for a header": (raw_header("[1, 2]"), "does not hold a lindley model"),
    "a number for metadata": (raw_header('{"__metadata__": 3}'), "does not hold a lindley model"),
    "safetensors of others": (save({"w": torch.ones(3)}), "it was not written by lindley"),
    "with other metadata": (save({"w": torch.ones(3)}, {"format": "pt"}), "it was not written by lindley"),
    "a newer version": (forged(lambda h, t: h.update(format="lindley-model/5")), "a newer version of lindley"),
    "an older version": (forged(lambda h, t: h.update(format="lindley-model/3")), "an older version of lindley"),
    "another format": (forged(lambda h, t: h.update(format="lindley-case/1")), "it holds a lindley case"),
    "no format": (forged(lambda h, t: h.pop("format")), "does not hold a lindley model"),
    "no structure": (forged(lambda h, t: h.pop("structure")), "KeyError: 'structure'"),
    "no about": (forged(lambda h, t: h.pop("about")), "KeyError: 'about'"),
    "no digest": (forged(lambda h, t: h.pop("sha256"), digest=False), "KeyError: 'sha256'"),
    "another about": (forged(lambda h, t: h.update(about={"splits": [1]}), digest=False), CHANGED),
    "another number": (forged(lambda h, t: t["centre"].add_(1.0), digest=False), CHANGED),
    "about is a list of numbers": (forged(lambda h, t: h.update(about=[1])), "does not hold a lindley model"),
    "an unknown kind": (structured(kind="Popen"), "KeyError: 'Popen'"),
    "a kind by its path": (structured(kind="subprocess.Popen"), "KeyError"),
    "a law is no model": (forged(only_the_law), "it has other parts than one"),
    "a field is missing": (
        forged(lambda h, t: h["structure"]["fields"].pop("centre")), "it does not have the fields of a TwoLevel",
    ),
    "a field too many": (
        forged(lambda h, t: h["structure"]["fields"].update(__class__={"value": 1})), "does not have the fields",
    ),
    "a tensor is missing": (forged(lambda h, t: t.pop("projection")), "KeyError: 'projection'"),
    "a tensor too many": (forged(lambda h, t: t.update(more=torch.ones(2))), "it has other parts than one"),
    "NaN": (forged(lambda h, t: t["centre"].view(-1)[1:2].fill_(float("nan"))), "centre holds NaN"),
    "models inside models": (forged(nest), "does not hold a lindley model"),
    "deep nesting": (
        save({"w": torch.ones(1)}, {KEY: '{"format": "' + MODEL + '", "structure": ' + "[" * 100_000 + "]" * 100_000 + "}"}),
        "does not hold a lindley model: it is nested too deeply",
    ),
    "a pickle": (pickle.dumps([1, 2, 3]), "it is cut off"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_anything_else_is_refused(what: str) -> None:
    data, message = BAD[what]
    with pytest.raises(LindleyError, match=message) as caught:
        model_from_bytes(data, "models/tlm/model-01-07.safetensors")
    assert str(caught.value).startswith("models/tlm/model-01-07.safetensors ")


def test_no_code_runs(tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "ran"))
    pickle.loads(bomb)
    assert (tmp_path / "ran").is_file()  # it would go off
    (tmp_path / "ran").unlink()
    header, tensors = parts_of(GOOD)
    header["structure"]["fields"]["centre"] = {"kind": "Path", "fields": {"touch": str(tmp_path / "ran")}}
    for data in (bomb, GOOD[:8] + bomb, save(tensors, {KEY: json.dumps(header)})):
        with pytest.raises(LindleyError):
            model_from_bytes(data, "it")
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_bit_anywhere_is_refused() -> None:
    """… or stands where it means nothing, and the model is the same."""
    rng = np.random.default_rng(0)
    expected = llrs(model_from_bytes(GOOD, "it")[0], PARTS)
    for place in rng.choice(len(GOOD), 400, replace=False):
        data = bytearray(GOOD)
        data[place] ^= 1 << int(rng.integers(8))
        try:
            model, _ = model_from_bytes(bytes(data), "it")
        except LindleyError:
            continue
        for ours, theirs in zip(llrs(model, PARTS), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)

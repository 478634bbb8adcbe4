"""System files that are damaged, foreign, newer or forged: each is refused with its message, and none is half believed."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as load_tensors, save
from torch import Tensor

from lindley.errors import LindleyError
from lindley.models.classical import fit_classical
from lindley.system.header import HEADER_LENGTH, KEY
from lindley.system.storage import _digest, stored_classes, to_bytes
from lindley.system.system import load
from tests.casework.factory import saved
from tests.casework.golden.make import FOLDER
from tests.models.test_classical import sources

Change = Callable[[dict[str, Any], dict[str, Tensor]], object]


@cache
def good() -> bytes:
    return (FOLDER / "normal-logistic.safetensors").read_bytes()


def header_of(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:HEADER_LENGTH], "little")
    found: dict[str, Any] = json.loads(json.loads(data[HEADER_LENGTH : HEADER_LENGTH + length])["__metadata__"][KEY])
    return found


def forged(change: Change, digest: bool = True) -> bytes:
    """A file that was changed, and, if its digest is renewed too, changed with intent."""
    header, tensors = header_of(good()), load_tensors(good())
    change(header, tensors)
    if digest:
        header["sha256"] = _digest({key: header.get(key) for key in ("format", "structure", "about")}, tensors)
    return save(tensors, {KEY: json.dumps(header)})


def fields_of(header: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = header["structure"]["fields"]
    return found


def casework_of(header: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields_of(header)["casework"]["fields"]
    return found


def put(name: str, value: Any) -> Change:
    return lambda header, tensors: fields_of(header).update({name: {"value": value}})


def tensor(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    return lambda header, tensors: tensors.update({name: change(tensors[name])})


def gone(name: str) -> Change:
    return lambda header, tensors: tensors.pop(name)


def drop_array(header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    tensors.pop("scalings.0.mean")
    fields_of(header)["scalings"]["tuple"][0]["fields"]["mean"] = {"value": "zero"}


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data.pkl", b"x")
    return content.getvalue()


def flipped() -> bytes:
    data = bytearray(good())
    data[-5] ^= 1
    return bytes(data)


def kind(name: str) -> Change:
    return lambda header, tensors: header["structure"]["fields"]["model"].update(kind=name)


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "cut off, or it is not a safetensors file"),
    "three bytes": (lambda: good()[:3], "cut off"),
    "cut in the header": (lambda: good()[:500], "cut off"),
    "cut in half": (lambda: good()[: len(good()) // 2], "does not hold a lindley system"),
    "last byte gone": (lambda: good()[:-1], "does not hold a lindley system"),
    "a byte more": (lambda: good() + b"\0", "does not hold a lindley system"),
    "one bit flipped": (flipped, "changed after it was written, or it is damaged"),
    "a pickle": (lambda: pickle.dumps({"model": print}), "does not hold a lindley system"),
    "a torch archive": (zipped, "does not hold a lindley system"),
    "a CSV table": (lambda: b"source,K39\nA,1.0\n" * 40, "does not hold a lindley system"),
    "foreign safetensors": (lambda: save({"weight": torch.zeros(3)}), "it was not written by lindley"),
    "a model of an experiment": (
        lambda: to_bytes(fit_classical([sources(1, 30, 2, 3)], "normal"), "lindley-model/1", {}, stored_classes()),
        "it holds a lindley model",
    ),
    "a newer layout": (
        lambda: forged(lambda h, t: h.update(format="lindley-system/6")),
        "written by a newer version of lindley",
    ),
    "an older layout": (
        lambda: forged(lambda h, t: h.update(format="lindley-system/1")),
        r"written by an older version of lindley \(layout 1; this one reads 3 to 5\)\. Use it with that version, or train",
    ),
    "no layout": (lambda: forged(lambda h, t: h.pop("format")), "does not hold a lindley system"),
    "edited bounds": (lambda: forged(lambda h, t: casework_of(h)["bounds"]["tuple"][1].update(value=9.0), False), "changed"),
    "edited validation": (lambda: forged(lambda h, t: h["about"]["validation"].update(cllr=0.0), False), "changed after"),
    "edited feature": (lambda: forged(lambda h, t: fields_of(h)["features"]["tuple"][0].update(value="K40"), False), "changed"),
    "a tensor gone": (lambda: forged(gone("model.projection")), "does not hold a lindley system: KeyError: 'model.projection'"),
    "a tensor too many": (lambda: forged(lambda h, t: t.update(extra=torch.zeros(2))), "other parts than one"),
    "NaN": (lambda: forged(tensor("model.var_within_ref", lambda t: t * torch.nan)), "model.var_within_ref holds NaN"),
    "a negative variance": (lambda: forged(tensor("model.var_within_ref", lambda t: -t)), "holds negative variances"),
    "a zero sd": (lambda: forged(tensor("scalings.0.sd", lambda t: 0 * t)), r"do not fit together \(mean and sd\)"),
    "an infinite mean": (
        lambda: forged(tensor("scalings.0.mean", lambda t: t / 0)),
        r"scalings\.0\.mean holds (NaN|infinite values)",
    ),
    "a feature fewer": (lambda: forged(lambda h, t: fields_of(h)["features"]["tuple"].pop()), "do not fit together"),
    "a feature twice": (
        lambda: forged(lambda h, t: fields_of(h)["features"]["tuple"][0].update(value="Ti49")),
        "shapes of features",
    ),
    "a narrower projection": (lambda: forged(tensor("model.projection", lambda t: t[:, :3].clone())), "projection"),
    "fewer runs": (lambda: forged(tensor("model.projection", lambda t: t[:1].clone())), "shapes of projection"),
    "axes that differ": (lambda: forged(tensor("model.projection", lambda t: t[:, :, :2].clone())), "do not fit together"),
    "bounds upside down": (
        lambda: forged(lambda h, t: casework_of(h)["bounds"]["tuple"].reverse()),
        r"do not fit together \(bounds\)",
    ),
    "an unknown transform": (lambda: forged(put("transform", "sqrt")), "There is no transform 'sqrt'"),
    "a ratio without a log": (lambda: forged(put("reference", "Si28")), "needs a log"),
    "text for a model": (lambda: forged(put("name", 3)), "its features have no names"),
    "an unknown model": (lambda: forged(put("name", "tml")), "there is no model 'tml'"),
    "splits of another run": (lambda: forged(lambda h, t: fields_of(h)["splits"]["tuple"].append({"value": 1})), "its splits"),
    "a calibration fewer": (lambda: forged(lambda h, t: fields_of(h)["calibrations"]["tuple"].pop()), "shapes of runs"),
    "text for numbers": (lambda: forged(drop_array), "do not fit together"),
    "another kind": (lambda: forged(kind("NormalBetween")), "does not hold a lindley system"),
    "a kind that runs code": (lambda: forged(kind("Popen")), "does not hold a lindley system: KeyError: 'Popen'"),
    "no validation": (lambda: forged(lambda h, t: h["about"].pop("validation")), "nothing about its making"),
    "a field more": (lambda: forged(put("__reduce__", "os.system")), "does not have the fields of a System"),
    "structure of nothing": (lambda: forged(lambda h, t: h.update(structure=None)), "does not hold a lindley system"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused_with_its_message(name: str, tmp_path: Path) -> None:
    make, message = BAD[name]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(make())
    with pytest.raises(LindleyError, match=message) as caught:
        load(path)
    assert "bad.safetensors" in str(caught.value)


def test_the_good_one_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.safetensors"
    path.write_bytes(forged(lambda header, tensors: None))
    assert load(path).name == "tlm+logistic"


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match=r"there is no file .*nowhere\.safetensors\. 'lindley train' writes systems"):
        load(tmp_path / "nowhere.safetensors")
    with pytest.raises(LindleyError, match="cannot be read"):
        load(tmp_path)


def test_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    data = saved(tmp_path, "tlm").read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in range(0, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:length])
        with pytest.raises(LindleyError):
            load(path)

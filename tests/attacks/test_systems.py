"""System files that are damaged, forged, or asked to be what they are not; and signatures of them.

A file whose bytes were changed is refused by its digest. A *forged* one has a new digest: its parts must still fit together,
and what it says of itself must agree with what is in it. What a forger can make agree, only a signature can tell.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors, save
from torch import Tensor
from typer.testing import CliRunner

import lindley
from lindley.casework.performance import Settings
from lindley.cli import app
from lindley.errors import LindleyError
from lindley.system.header import FORMAT, KEY
from lindley.system.storage import _digest
from lindley.system.system import System, load, row_digests
from lindley.system.train import disguised, train
from tests.casework.factory import FEATURES, items, population, table, write_csv
from tests.casework.golden.make import FOLDER
from tests.casework.test_bad_systems import casework_of, fields_of, forged, good, header_of, put, tensor

RUNNER = CliRunner()
Header = dict[str, Any]
Tensors = dict[str, Tensor]
Change = Callable[[Header, Tensors], object]


@cache
def golden() -> System:
    return load(FOLDER / "normal-logistic.safetensors")


def about(part: str, **facts: Any) -> Change:
    return lambda header, tensors: header["about"][part].update(facts)


def bounds(lower: Any, upper: Any) -> Change:
    def change(header: Header, tensors: Tensors) -> None:
        casework_of(header)["bounds"]["tuple"] = [{"value": lower}, {"value": upper}]

    return change


def name(place: int, text: Any) -> Change:
    return lambda header, tensors: fields_of(header)["features"]["tuple"][place].update(value=text)


def both(*changes: Change) -> Change:
    return lambda header, tensors: [change(header, tensors) for change in changes]


def known(field: str, change: Callable[[Tensor], Tensor]) -> Change:
    return tensor(f"casework.population.{field}", change)


def set_at(place: tuple[int, ...], value: float) -> Callable[[Tensor], Tensor]:
    def change(t: Tensor) -> Tensor:
        t = t.clone()
        t[place] = value
        return t

    return change


INF, NAN = float("inf"), float("nan")
FORGED: dict[str, tuple[Change, str]] = {
    # what the validation supports
    "bounds of ±6": (bounds(-6.0, 6.0), "bounds of -6 and 6 are more than 40 and 280 pairs support"),
    "an upper bound of 6": (bounds(-1.0, 6.0), "are more than 40 and 280 pairs support"),
    "a lower bound of −2": (bounds(-2.0, 1.0), "are more than 40 and 280 pairs support"),
    "bounds of ±6, and pairs for them": (
        both(bounds(-6.0, 6.0), about("validation", pairs_same=10**7, pairs_different=10**7)),
        "pairs are more than 40 sources have",
    ),
    "bounds, pairs and sources": (
        both(bounds(-6.0, 6.0), about("validation", pairs_same=10**7, pairs_different=10**7), about("data", sources=10**7)),
        "and holds others",
    ),
    "bounds upside down": (bounds(1.0, -1.0), "bounds"),
    "bounds on one side": (bounds(0.5, 1.0), "bounds"),
    "three bounds": (lambda h, t: casework_of(h)["bounds"]["tuple"].append({"value": 1.0}), "bounds"),
    "one bound": (lambda h, t: casework_of(h)["bounds"]["tuple"].pop(), "bounds"),
    "words for bounds": (bounds("-1", "1"), "do not fit together"),
    "no bounds": (bounds(None, None), "do not fit together"),
    "whole numbers for bounds": (bounds(-1, 1), "bounds"),
    "true and false for bounds": (bounds(False, True), "bounds"),
    "no counts of pairs": (about("validation", pairs_same=None), "are no counts"),
    "negative counts of pairs": (about("validation", pairs_same=-5), "are no counts"),
    "no pairs": (about("validation", pairs_different=0), "are no counts"),
    "half a pair": (about("validation", pairs_same=0.5), "are no counts"),
    "words for pairs": (about("validation", pairs_same="40"), "are no counts"),
    "true for pairs": (about("validation", pairs_same=True), "are no counts"),
    "a Cllr below its least": (about("validation", cllr_min=0.2, cllr=0.01, cllr_cal=0.0), "contradict each other"),
    "a Cllr that does not add up": (about("validation", cllr=0.01, cllr_min=0.0), "contradict each other"),
    "a Cllr with too much that misleads": (about("validation", misleading_same=0.5), "contradict each other"),
    "more than all mislead": (about("validation", misleading_different=1.5), "contradict each other"),
    "a negative Cllr": (about("validation", cllr=-1.0), "figures of the validation"),
    "words for a Cllr": (about("validation", cllr="0.01"), "figures of the validation"),
    "no Cllr": (about("validation", cllr=None), "figures of the validation"),
    "a list for a Cllr": (about("validation", cllr=[0.1]), "figures of the validation"),
    "nothing on how": (about("validation", how=None), "its validation"),
    "more replicates than there are": (lambda h, t: h["about"].update(bootstrap=1000), "number of its replicates"),
    "other sources": (about("data", sources=41), "trained on 120 measurements of 41 sources, and holds others"),
    "other rows": (about("data", rows=121), "and holds others"),
    "words for sources": (about("data", sources="40"), "are no counts"),
    "no data": (lambda h, t: h["about"].update(data=[]), "nothing about its making"),
    "no versions": (lambda h, t: h["about"].pop("versions"), "nothing about its making"),
    "about is a list": (lambda h, t: h.update(about=[]), "nothing about its making"),
    "about is a word": (lambda h, t: h.update(about="all is well"), "does not hold a lindley system"),
    # names
    "a feature twice": (name(0, "Ti49"), "shapes of features"),
    "a feature without a name": (name(0, ""), "its features have no names"),
    "a number for a feature": (name(0, 39), "its features have no names"),
    "a feature that clears the screen": (name(0, "K39\x1b[2J"), "control character"),
    "a feature with a NUL": (name(0, "K39\0"), "control character"),
    "a feature with a line of its own": (name(0, "K39\nNo problems found."), "control character"),
    "a feature with a C1 control": (name(0, "K39\x9b2J"), "control character"),
    "a unit that rings": (lambda h, t: fields_of(h)["units"]["tuple"][0].update(value="ppm\x07"), "control character"),
    "a number for a unit": (lambda h, t: fields_of(h)["units"]["tuple"][0].update(value=1), "units are no words"),
    "a unit fewer": (lambda h, t: fields_of(h)["units"]["tuple"].pop(), "shapes of units"),
    "a list for a unit": (
        lambda h, t: fields_of(h)["units"]["tuple"].__setitem__(0, {"tuple": []}),
        "units are no words",
    ),
    "the reference is a feature": (both(put("transform", "log10"), put("reference", "K39")), "shapes of features"),
    "a name that escapes": (put("name", "tlm+logistic\x1b]52;c;x\x07"), "control character"),
    "a name of another model": (put("name", "nothing"), "there is no model 'nothing'"),
    "a transform that escapes": (put("transform", "log\x1b[2J"), r"There is no transform 'log\\x1b"),
    "a layout that escapes": (lambda h, t: h.update(format="\x1b[2J/3"), "it holds a �"),
    "a class that escapes": (lambda h, t: h["structure"].update(kind="\x1b[2J"), "does not hold a lindley system"),
    "a class that is a dictionary": (lambda h, t: h["structure"].update(kind={"\x1b": 1}), "does not hold a lindley system"),
    "data with an escape": (about("data", name="glass\x1b[31m"), "control characters"),
    "a key with an escape": (lambda h, t: h["about"].update({"\x1b[2J": 1}), "control characters"),
    "a nested escape": (lambda h, t: h["about"].update(configuration={"a": [{"b": "\x07"}]}), "control characters"),
    # the model
    "a variance of 0": (tensor("model.var_within_ref", lambda t: 0 * t), "variances within sources"),
    "a negative variance of a replicate": (tensor("model.var_within_ref", set_at((2, 0, 0), -1.0)), "holds negative variances"),
    "a variance without end": (tensor("model.var_within_ref", lambda t: t + INF), "holds infinite values"),
    "one NaN": (tensor("model.projection", set_at((0, 0, 0), NAN)), "model.projection holds NaN"),
    "half precision": (tensor("model.projection", lambda t: t.half()), "holds torch.float16"),
    "complex": (tensor("model.projection", lambda t: t.to(torch.complex64)), "does not hold a lindley system"),
    "whole numbers": (tensor("model.projection", lambda t: t.long()), "do not fit together|gives no LR"),
    "bytes": (tensor("model.projection", lambda t: t.to(torch.uint8)), "holds torch.uint8"),
    "no axes": (tensor("model.projection", lambda t: t[:, :, :0].clone()), "shapes of axes"),
    "one axis": (tensor("model.projection", lambda t: t[:, :, :1].clone()), "shapes of axes"),
    "no runs": (tensor("model.centre", lambda t: t[:0].clone()), "shapes of runs"),
    "a dimension more": (tensor("model.projection", lambda t: t[..., None].clone()), "do not fit together|projection"),
    "a scalar": (tensor("model.centre", lambda t: t[0, 0, 0].clone()), "do not fit together"),
    "a mean of NaN": (tensor("scalings.1.mean", set_at((0,), NAN)), "scalings.1.mean holds NaN"),
    "a negative sd": (tensor("scalings.1.sd", lambda t: -t), "mean and sd"),
    "another class": (lambda h, t: h["structure"].update(kind="Chain"), "does not hold a lindley system"),
    "a class that is not known": (lambda h, t: h["structure"].update(kind="os.system"), "KeyError: 'os.system'"),
    "a class that is a number": (lambda h, t: h["structure"].update(kind=1), "does not hold a lindley system"),
    "a calibration of NaN": (
        lambda h, t: fields_of(h)["calibrations"]["tuple"][0]["fields"]["steps"]["tuple"][0]["fields"]["slope"].update(
            value=None
        ),
        "do not fit together",
    ),
    "a calibration with words": (
        lambda h, t: fields_of(h)["calibrations"]["tuple"][1]["fields"]["steps"]["tuple"][0]["fields"]["slope"].update(
            value="steep"
        ),
        "do not fit together",
    ),
    # the population
    "no population": (known("means", lambda t: t[:0].clone()), "do not fit together"),
    "one source": (known("means", lambda t: t[:1].clone()), "do not fit together"),
    "a source fewer": (known("means", lambda t: t[:-1].clone()), "shapes of distance"),
    "a feature fewer": (known("means", lambda t: t[:, :-1].clone()), "shapes of means"),
    "a mean without end": (known("means", set_at((0, 0), INF)), "holds infinite values"),
    "a range upside down": (known("lowest", lambda t: t + 100), "not in its range"),
    "a range of one": (known("highest", lambda t: t[:1].clone()), "shapes of range"),
    "negative information": (known("match_information", lambda t: -t - 1), "population"),
    "distances out of order": (known("distance", lambda t: t.flip(0)), "distances of its population"),
    "no distances": (known("distance", lambda t: t[:0].clone()), "shapes of distance"),
    "a table of scatter": (known("scatter", lambda t: t[None].clone()), "shapes of scatter"),
    "negative scatter": (known("scatter", lambda t: -t), "scatter of its population"),
    "digests of numbers": (lambda h, t: casework_of(h)["digests"]["tuple"][0].update(value=7), "digests"),
    "a digest fewer": (lambda h, t: casework_of(h)["digests"]["tuple"].pop(), "and holds others"),
    "means of another size": (known("means", lambda t: 2 * t), "not in its range"),
    "means of nothing": (known("means", lambda t: 0 * t), "do not fit together"),
    "other means": (known("means", lambda t: t.flip(1)), "not in its range|distances of its population"),
    "variances of more runs": (tensor("model.between.var", lambda t: torch.cat([t, t])), "shapes of model"),
    "variances without runs": (tensor("model.between.var", lambda t: t[0].clone()), "do not fit together"),
    "a mean of 1e300": (tensor("scalings.0.mean", set_at((0,), 1e300)), "mean and sd"),
    "an sd of 1e-300": (tensor("scalings.0.sd", set_at((0,), 1e-300)), "mean and sd"),
    # the layout
    "layout 3 with the unit of a reference": (lambda h, t: h.update(format="lindley-system/3") or
        fields_of(h).update(reference_unit={"value": None}), "does not have the fields of a System"),
    "layout 4 without it": (lambda h, t: h.update(format="lindley-system/4"), "does not have the fields of a System"),
    "layout −1": (lambda h, t: h.update(format="lindley-system/-1"), "is not known"),
    "layout 3.5": (lambda h, t: h.update(format="lindley-system/3.5"), "is not known"),
    "a layout of many digits": (lambda h, t: h.update(format="lindley-system/" + "9" * 5000), "does not hold|newer"),
    "a layout in other digits": (lambda h, t: h.update(format="lindley-system/３"), "is not known|do not fit|does not"),
    "a list for a layout": (lambda h, t: h.update(format=[]), "does not hold a lindley system"),
    "a tuple of a million": (
        lambda h, t: fields_of(h)["splits"].update(tuple=[{"value": 1}] * 100_000), "its splits are not those of its runs",
    ),
    "a deep tree": (lambda h, t: h.update(structure=deep(150)), "does not hold a lindley system"),
}  # fmt: skip


def deep(levels: int) -> Any:
    tree: Any = {"value": 1}
    for _ in range(levels):
        tree = {"tuple": [tree]}
    return tree


@pytest.mark.parametrize("case", FORGED)
def test_forged_files_are_refused(case: str, tmp_path: Path) -> None:
    change, message = FORGED[case]
    path = tmp_path / "forged.safetensors"
    path.write_bytes(forged(change))
    with pytest.raises(LindleyError, match=message) as caught:
        load(path)
    assert "forged.safetensors" in str(caught.value)
    assert not set(map(chr, range(32))) & set(str(caught.value))


def rewritten(change: Callable[[str], str]) -> bytes:
    """The outer header as text, changed; the tensors behind it as they were."""
    data = good()
    length = int.from_bytes(data[:8], "little")
    text = change(data[8 : 8 + length].decode()).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def inner(change: Callable[[str], str]) -> bytes:
    """The header of lindley as text, changed, with its digest renewed where it still reads as JSON."""
    header, tensors = header_of(good()), load_tensors(good())
    text = change(json.dumps(header))
    return save(tensors, {KEY: text})


def shape(header: str, dimensions: list[int]) -> str:
    content = json.loads(header)
    content["model.projection"]["shape"] = dimensions
    return json.dumps(content)


def seed(digits: str) -> Callable[[], bytes]:
    return lambda: inner(lambda text: text.replace('"seed": 0', f'"seed": {digits}', 1))


RAW: dict[str, tuple[Callable[[], bytes], str]] = {
    "a key twice": (
        lambda: inner(lambda text: text.replace('"about": {', '"about": {"model": "x", ', 1)),
        "stands twice in it",
    ),
    "a key twice, outside": (
        lambda: rewritten(lambda text: text.replace('{"__metadata__"', '{"__metadata__":{},"__metadata__"', 1)),
        "stands twice in it",
    ),
    "1e999": (seed("1e999"), "it holds the number 1e999"),
    "NaN": (seed("NaN"), "it holds the number NaN"),
    "Infinity": (seed("-Infinity"), "it holds the number -Infinity"),
    "400 digits": (seed("9" * 400), "it holds the number 9999"),
    "10,000 digits": (seed("9" * 10_000), "it holds the number 9999"),
    "not JSON": (lambda: inner(lambda text: text[:-3]), "Unterminated string"),
    "a list": (lambda: inner(lambda text: "[]"), "AttributeError"),
    "a number": (lambda: inner(lambda text: "7"), "AttributeError"),
    "nothing": (lambda: inner(lambda text: ""), "Expecting value"),
    "brackets": (lambda: inner(lambda text: "[" * 100_000), "nested too deeply"),
    "a shape of 2**62": (lambda: rewritten(lambda text: shape(text, [2**62, 4, 4])), "more than it is long"),
    "a shape of 0 × 2**62": (lambda: rewritten(lambda text: shape(text, [0, 2**62, 4])), "more than it is long"),
    "a negative shape": (lambda: rewritten(lambda text: shape(text, [-5, 4, 4])), "invalid"),
    "a shape of words": (lambda: rewritten(lambda text: text.replace('"shape":[', '"shape":["', 1)), "delimiter"),
    "offsets beyond the end": (
        lambda: rewritten(lambda text: text.replace('"data_offsets":[', '"data_offsets":[9', 1)),
        "[Oo]ffset",
    ),
    "an unknown dtype": (lambda: rewritten(lambda text: text.replace('"F64"', '"F65"', 1)), "F65"),
    "a header of 2**63": (lambda: struct.pack("<Q", 2**63) + good()[8:], "cut off"),
    "a header of nothing": (lambda: struct.pack("<Q", 0) + good()[8:], "Expecting value"),
    "a header that is short": (lambda: struct.pack("<Q", 10) + good()[8:], ""),
    "bytes that are no UTF-8": (lambda: good()[:8] + b"\xff\xfe" + good()[10:], ""),
    "two files in one": (lambda: good() + good(), ""),
    "zeros": (lambda: bytes(5000), "Expecting value"),
    "a NUL": (lambda: b"\0", "cut off"),
    "a symlink's text": (lambda: b"../../etc/passwd", "cut off"),
    "HTML": (lambda: b"<html><body>404</body></html>" * 20, "cut off"),
    "a git-lfs pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\nsize 20968\n", "cut off"),
    "a gzip": (lambda: b"\x1f\x8b\x08\0\0\0\0\0" + good()[:200], "cut off"),
}


@pytest.mark.parametrize("case", RAW)
def test_damaged_files_are_refused(case: str, tmp_path: Path) -> None:
    make, message = RAW[case]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(make())
    with pytest.raises(LindleyError, match=rf"bad\.safetensors does not hold a lindley system: .*{message}"):
        load(path)


@pytest.mark.parametrize("at", [0, 3, 7, 8, 9, 100, 3000, 6000, 9000, 12_000, 13_000, -1, -8, -200])
@pytest.mark.parametrize("bit", [1, 128])
def test_one_bit_is_found(at: int, bit: int, tmp_path: Path) -> None:
    data = bytearray(good())
    data[at] ^= bit
    (tmp_path / "s.safetensors").write_bytes(bytes(data))
    with pytest.raises(LindleyError):
        load(tmp_path / "s.safetensors")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "NUL", "long", "dangling"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no pipes here")
        os.mkfifo(path)
    elif kind == "device":
        path = Path(os.devnull)
    elif kind == "NUL":
        path = tmp_path / "a\0b.safetensors"
    elif kind == "long":
        path = tmp_path / ("x" * 300)
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LindleyError):
        load(path)


def test_a_file_cannot_say_of_itself_that_it_was_signed(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    path.write_bytes(forged(lambda header, tensors: header["about"].update(signed_by="the laboratory", file="other")))
    loaded = load(path)
    assert "signed_by" not in loaded.about
    assert loaded.file == "s.safetensors"


def test_layout_3_is_read_as_it_was_and_written_anew(tmp_path: Path) -> None:
    old = load(FOLDER / "kernel-ratio.safetensors")
    assert old.column_units == ("ppm",) * 4 + (None,)
    old.save(tmp_path / "new.safetensors")
    assert header_of((tmp_path / "new.safetensors").read_bytes())["format"] == FORMAT
    a, b = items(1, 2, 2)
    trace, ref = (np.column_stack([10.0**each * 700, [700.0, 700.0]]) for each in (a, b))
    assert load(tmp_path / "new.safetensors").llr(trace, ref) == old.llr(trace, ref)
    assert old.bounds_for(2, 2) == (old.bounds, (1, 1))  # which it knew none of


def test_a_system_without_its_replicates_is_a_system(tmp_path: Path) -> None:
    golden().for_runs([0]).save(tmp_path / "s.safetensors")
    loaded = load(tmp_path / "s.safetensors")
    trace, ref = items(3, 1, 4)[0][:2], items(3, 1, 4)[0][2:]
    assert loaded.llr(trace, ref) == golden().llr(trace, ref)
    assert loaded.explain(trace, ref).interval is None


def test_names_that_could_not_be_read_back_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match=r"'K39\\x1b\[2J' holds a control character: rename the column"):
        replace(golden(), features=("K39\x1b[2J", *FEATURES[1:])).save(tmp_path / "s.safetensors")
    assert not list(tmp_path.iterdir())
    data = {**golden().about["data"], "name": "glass\x1b[2J"}
    replace(golden(), about={**golden().about, "data": data}).save(tmp_path / "s.safetensors")
    assert load(tmp_path / "s.safetensors").about["data"]["name"] == "glass\N{REPLACEMENT CHARACTER}[2J"


# Signatures


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A signed system, with the keys lab.private.pem and lab.public.pem beside it."""
    pytest.importorskip("cryptography")
    (tmp_path / "s.safetensors").write_bytes(good())
    assert RUNNER.invoke(app, ["keys", str(tmp_path / "lab")], catch_exceptions=False).exit_code == 0
    result = RUNNER.invoke(
        app,
        ["sign", str(tmp_path / "s.safetensors"), "--key", str(tmp_path / "lab.private.pem")],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    assert golden().sha256 in result.stdout
    return tmp_path / "s.safetensors"


def key(system: Path) -> Path:
    return system.with_name("lab.public.pem")


def test_a_signed_system_is_the_same_system_and_says_who_vouches(signed: Path) -> None:
    assert signed.read_bytes() == good()
    loaded = lindley.load(signed, signed_by=key(signed))
    fingerprint = loaded.about["signed_by"]
    assert len(fingerprint) == 32
    assert loaded.to_bytes() == load(signed).to_bytes()
    trace, ref = items(3, 1, 4)[0][:2], items(3, 1, 4)[0][2:]
    case = loaded.case(trace, ref)
    assert case.to_json()["system"]["signed_by"] == fingerprint
    assert case.explanation.log10_lr == pytest.approx(golden().llr(trace, ref), abs=1e-9)
    case.write(signed.with_name("r.html"))
    assert fingerprint in signed.with_name("r.html").read_text(encoding="utf-8")
    if os.name != "nt":
        assert signed.with_name("lab.private.pem").stat().st_mode & 0o77 == 0


def edit(**changes: Any) -> Callable[[Path], None]:
    def change(system: Path) -> None:
        place = system.with_name("s.safetensors.sig")
        place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))

    return change


def forge(change: Change) -> Callable[[Path], None]:
    return lambda system: system.write_bytes(forged(change)) and None


def forge_with_digest(change: Change) -> Callable[[Path], None]:
    def both_files(system: Path) -> None:
        system.write_bytes(forged(change))
        edit(sha256=load(system).sha256)(system)

    return both_files


def another_key(system: Path) -> None:
    RUNNER.invoke(app, ["keys", str(system.with_name("thief"))])
    RUNNER.invoke(app, ["sign", str(system), "--key", str(system.with_name("thief.private.pem"))])


def another_key_that_says_it_is_ours(system: Path) -> None:
    ours = json.loads(system.with_name("s.safetensors.sig").read_text())["key"]
    another_key(system)
    edit(key=ours)(system)


def swap(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda system: system.with_name(name).write_bytes(content) and None


def another_letter_for_the_same_bits(system: Path) -> None:
    said = json.loads(system.with_name("s.safetensors.sig").read_text())["signature"]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    edit(signature=f"{said[:-3]}{last[last.index(said[-3]) + 1]}==")(system)


UNSIGNED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no signature": (
        lambda s: s.with_name("s.safetensors.sig").unlink(),
        "is not signed: there is no s.safetensors.sig",
    ),
    "bounds of 1": (forge(bounds(-1.0, 1.0)), "is not what was signed"),
    "a Cllr of 0": (forge(about("validation", cllr=0.0, cllr_min=0.0, cllr_cal=0.0)), "is not what was signed"),
    "bounds, and the digest beside": (forge_with_digest(bounds(-1.0, 1.0)), "it is forged or damaged"),
    "another key": (another_key, "was signed with another key"),
    "another key that says it is ours": (another_key_that_says_it_is_ours, "it is forged or damaged"),
    "a signature of zeros": (edit(signature=base64.b64encode(bytes(64)).decode()), "it is forged or damaged"),
    "a signature that is short": (edit(signature="AAAA"), "it is forged or damaged"),
    "a signature that is no base64": (edit(signature="!!!!"), "it is forged or damaged"),
    "another last letter": (another_letter_for_the_same_bits, "it is forged or damaged"),
    "a key twice": (
        lambda s: s.with_name("s.safetensors.sig").write_text('{"key": "", "key": ""}'),
        "is not a signature of lindley",
    ),
    "a number for a signature": (edit(signature=1), "is not a signature of lindley"),
    "no digest": (edit(sha256=None), "is not a signature of lindley"),
    "another form": (edit(format="lindley-signature/2"), "not a signature that this version of lindley reads"),
    "an escape in the key": (edit(key="\x1b[2J"), "not a signature that this version of lindley reads"),
    "an empty signature": (swap("s.safetensors.sig", b""), "is not a signature of lindley"),
    "a list": (swap("s.safetensors.sig", b"[]"), "is not a signature of lindley"),
    "brackets": (swap("s.safetensors.sig", b"[" * 9000), "is not a signature of lindley"),
    "a large signature": (swap("s.safetensors.sig", b"x" * 20_000), "too large"),
    "no UTF-8": (swap("s.safetensors.sig", b"\xff\xfe"), "is not a signature of lindley"),
    "no key": (lambda s: key(s).unlink(), r"there is no key .*lab\.public\.pem"),
    "an empty key": (swap("lab.public.pem", b""), "is not an Ed25519 key"),
    "a damaged key": (lambda s: key(s).write_bytes(key(s).read_bytes()[:60]), "is not an Ed25519 key"),
    "the private key": (lambda s: key(s).write_bytes(s.with_name("lab.private.pem").read_bytes()), "is a private key"),
    "a large key": (swap("lab.public.pem", b"x" * 20_000), "too large"),
    "a folder for a key": (lambda s: (key(s).unlink(), key(s).mkdir()), "is not a file"),
}


@pytest.mark.parametrize("case", UNSIGNED)
def test_what_is_not_signed_is_refused_at_every_door(case: str, signed: Path) -> None:
    change, message = UNSIGNED[case]
    change(signed)
    with pytest.raises(LindleyError, match=message):
        lindley.load(signed, signed_by=key(signed))
    values = write_csv(signed.with_name("t.csv"), items(3, 1, 4)[0])
    commands = (
        ["case", str(signed), "--trace", str(values), "--ref", str(values)],
        ["evaluate", str(signed), str(values), "--out", str(signed.with_name("out"))],
        ["info", str(signed)],
    )
    for command in commands:
        result = RUNNER.invoke(app, [*command, "--require-signature", str(key(signed))])
        assert isinstance(result.exception, LindleyError)
        assert result.stdout == ""
    assert not signed.with_name("out").exists()


def test_keys_are_never_written_over_and_only_systems_are_signed(signed: Path) -> None:
    before = key(signed).read_bytes()
    result = RUNNER.invoke(app, ["keys", str(signed.with_name("lab"))])
    assert "is there already" in str(result.exception)
    assert key(signed).read_bytes() == before
    other = signed.with_name("other.safetensors")
    other.write_bytes(b"no system")
    result = RUNNER.invoke(app, ["sign", str(other), "--key", str(signed.with_name("lab.private.pem"))])
    assert "does not hold a lindley system" in str(result.exception)
    assert not other.with_name("other.safetensors.sig").exists()
    result = RUNNER.invoke(app, ["sign", str(signed), "--key", str(key(signed))])
    assert "is a public key" in str(result.exception)


def test_without_the_package_it_is_said_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography", None)
    (tmp_path / "s.safetensors").write_bytes(good())
    for command in (
        ["keys", str(tmp_path / "lab")],
        ["info", str(tmp_path / "s.safetensors"), "--require-signature", "k"],
    ):
        assert "pip install 'lindley[signing]'" in str(RUNNER.invoke(app, command).exception)


def test_info_says_what_a_system_is_and_what_it_gives_away(signed: Path) -> None:
    told = " ".join(RUNNER.invoke(app, ["info", str(signed)]).stdout.split())
    assert golden().sha256 in told
    assert "holds the mean of each of its 40 training sources exactly" in told
    assert "not checked: --require-signature does that" in told
    assert "The digest finds accidents. It has no key" in told
    told = " ".join(RUNNER.invoke(app, ["info", str(signed), "--require-signature", str(key(signed))]).stdout.split())
    assert "checked, key " in told
    facts = json.loads(RUNNER.invoke(app, ["info", str(signed), "--json"]).stdout)
    assert facts["sha256"] == golden().sha256


# Private systems


@cache
def private(model: str) -> System:
    return train(table(), model, replicates=2, private=True)


@pytest.mark.parametrize("model", ["tlm", "tlm-kde", "tlm-kde+pav", "quantile:tlm"])
def test_a_private_system_holds_no_mean_of_a_source(model: str) -> None:
    data = table()
    sources, item = np.unique(data.source, return_inverse=True)
    means = np.zeros((len(sources), 4))
    np.add.at(means, item, data.values)
    means /= np.bincount(item)[:, None]
    for made, held in ((train(data, model, replicates=2), True), (private(model), False)):
        kept = made.scaling.undo(made.population.means)
        nearest = np.abs(means[:, None] - kept).max(axis=2).min(axis=1)
        assert (nearest < 1e-9).all() == held
        assert held or (nearest > 1e-3).all()
        assert bool(made.digests) == held
        if "kde" in model:
            kernels = made.model.between.centres  # type: ignore[attr-defined]
            projected = made.model.project(torch.from_numpy(made.prepare(means))[None].expand(3, -1, -1))
            near = (projected[0, :, None] - kernels[0]).abs().amax(-1).amin(-1)
            assert bool((near < 1e-6).all()) == held
            assert held or bool((near > 1e-3).all())


def test_no_value_of_the_training_data_is_in_the_file_of_a_private_system() -> None:
    plain, hidden = (train(table(), "tlm-kde", replicates=2, private=each).to_bytes() for each in (False, True))
    digests = row_digests(table().values)
    assert all(digest.encode() in plain for digest in digests)
    assert not any(digest.encode() in hidden for digest in digests)


def test_it_is_another_one_every_time_and_no_seed_undoes_it() -> None:
    first, second = (train(table(), "tlm", replicates=0, private=True, seed=3) for _ in range(2))
    assert np.abs(first.population.means - second.population.means).max() > 0.01


def test_disguise_keeps_the_moments_and_the_scatter() -> None:
    values, source = population(400, 3, 5)
    data = lindley.read_table(values, source=source)
    moved = disguised(data, np.random.default_rng(1))
    _, item = np.unique(source, return_inverse=True)
    for each in np.unique(item)[:20]:
        rows = item == each
        np.testing.assert_allclose(np.ptp(moved.values[rows], axis=0), np.ptp(values[rows], axis=0), atol=1e-9)
    np.testing.assert_allclose(np.cov(moved.values, rowvar=False), np.cov(values, rowvar=False), rtol=0.15, atol=0.15)
    np.testing.assert_allclose(moved.values.mean(axis=0), values.mean(axis=0), atol=0.1)


def test_a_private_system_says_what_it_cannot_tell(tmp_path: Path) -> None:
    private("tlm").save(tmp_path / "s.safetensors")
    loaded = load(tmp_path / "s.safetensors")
    seen = write_csv(tmp_path / "t.csv", table().values[:2])
    case = loaded.case(seen, write_csv(tmp_path / "r.csv", items(1, 1, 2)[0]))
    codes = {(remark.code, remark.which) for remark in case.remarks}
    assert {("training-unknown", "trace"), ("training-unknown", "ref")} <= codes
    assert "seen-in-training" not in {code for code, _ in codes}
    told = " ".join(RUNNER.invoke(app, ["info", str(tmp_path / "s.safetensors")]).stdout.split())
    assert "Private: its training sources were moved at random" in told
    assert "exactly" not in told
    validation = loaded.evaluate(table(40, 3, 9), settings=Settings(draws=1, replicates=20))
    assert any("cannot tell whether it was trained on" in remark for remark in validation.remarks)
    validation.write(tmp_path)
    page = (tmp_path / "validation.html").read_text(encoding="utf-8")
    assert "not known: the system is private" in page


def test_training_prints_the_digest_for_the_archive(tmp_path: Path) -> None:
    values, source = population(30, 3, 7)
    write_csv(tmp_path / "glass.csv", values, source=source.tolist())
    out = tmp_path / "g.safetensors"
    command = ["train", str(tmp_path / "glass.csv"), "--model", "tlm", "--replicates", "0", "--out", str(out)]
    result = RUNNER.invoke(app, command, catch_exceptions=False)
    assert f"SHA-256: {load(out).sha256}" in result.stdout
    assert "holds the mean of each of its 30 training sources exactly" in " ".join(result.stdout.split())
    result = RUNNER.invoke(app, [*command, "--force", "--private"], catch_exceptions=False)
    assert load(out).digests == ()
    assert "Private: " in result.stdout


def test_the_digest_helper_of_these_tests_is_that_of_the_reader() -> None:
    header = header_of(good())
    parts = {part: header[part] for part in ("format", "structure", "about")}
    assert _digest(parts, load_tensors(good())) == header["sha256"]

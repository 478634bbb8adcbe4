"""Systems: the same bits and the same LRs back, golden answers, and arrays in whatever form they come."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import lindley
from lindley.casework.explanation import _Pair, interval
from lindley.errors import LindleyError
from lindley.llrs import LN10
from lindley.system.system import System, load
from lindley.system.train import train
from lindley.table.table import Table
from tests.casework.factory import FEATURES, items, population, saved, system, table
from tests.casework.golden.make import FOLDER, SYSTEMS, measured

MODELS = [
    "tlm",
    "tlm-kde",
    "tlm-kde+logistic+elub",
    "tlm+kde",
    "tlm+pav",
    "ntlm-single-sources-n1",
    "ntlm-double-pairs-n2-common",
]


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, tuple) and any(map(is_dataclass, value)):
        return {p: leaf for i, v in enumerate(value) for p, leaf in leaves(v, f"{path}.{i}").items()}
    if not is_dataclass(value):
        return {path: value}
    return {p: leaf for f in fields(value) for p, leaf in leaves(getattr(value, f.name), f"{path}.{f.name}").items()}


def flat(value: Any) -> list[float]:
    if isinstance(value, dict):
        return flat(list(value.values()))
    if isinstance(value, list | tuple):
        return [number for part in value for number in flat(part)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize("model", MODELS)
def test_the_same_bits_come_back(model: str, tmp_path: Path) -> None:
    made = system(model, replicates=3)
    path = tmp_path / "a.safetensors"
    made.save(path)
    again = load(path)
    assert again.file == "a.safetensors"
    assert again.sha256 == made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert again.about == {**json.loads(json.dumps(made.about)), "file": again.file, "file_sha256": again.sha256}
    before, after = (leaves(replace(each, about={})) for each in (made, again))
    assert list(before) == list(after)
    for name, value in before.items():
        other = after[name]
        same = torch.equal(value, other) if isinstance(value, torch.Tensor) else np.array_equal(value, other)
        assert same, name
        assert getattr(value, "dtype", None) == getattr(other, "dtype", None), name
    a, b = items(3, 2, 4)
    assert again.llr(a[:1], a[1:]) == made.llr(a[:1], a[1:])
    ours, theirs = (asdict(each.explain(a[:2], b)) for each in (again, made))
    assert flat(ours) == pytest.approx(flat(theirs), abs=1e-9)  # products of matrices may differ in the last bit
    again.save(tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == path.read_bytes()


FIGURES = ("log10_lr", "log10_lr_bounded", "log10_similarity", "log10_typicality")


@pytest.mark.parametrize("name", SYSTEMS)
def test_golden_systems_answer_as_ever(name: str) -> None:
    """The same inputs give the same LR on every machine, to 1e-9."""
    path = FOLDER / f"{name}.safetensors"
    assert path.stat().st_size < 200_000
    golden = lindley.load(path)
    for answer in json.loads((FOLDER / f"{name}.json").read_text()):
        trace, ref = answer.pop("trace"), answer.pop("ref")
        if len(trace) + len(ref) <= 4:
            said = golden.explain(trace, ref)
            assert said.interval is not None
            again = [said.interval.lower, said.interval.upper]
            found = {key: getattr(said, key) for key in FIGURES}
        else:  # what an explanation of many measurements does besides takes `robust` seconds, and is not among the answers
            found, again = figures(golden, trace, ref)
        assert set(answer) == {*FIGURES, "interval"}
        for key in FIGURES:
            assert found[key] == pytest.approx(answer[key], abs=1e-9, rel=1e-9), key
        assert again == pytest.approx(answer["interval"], abs=1e-9, rel=1e-9)
        assert golden.llr(trace, ref) == pytest.approx(answer["log10_lr"], abs=1e-9, rel=1e-9)


def figures(system: System, trace: Any, ref: Any) -> tuple[dict[str, float], list[float]]:
    """The figures of an explanation, made of its parts alone, and its interval."""
    one, other = system.side([trace], "trace"), system.side([ref], "ref")
    pair = _Pair.of(system.point, system.prepared(one), system.prepared(other))
    with torch.inference_mode():
        parts = [float(part.reshape(())) / LN10 for part in pair.ln_parts()]
    llr = float(system.calibrated(np.array([parts[0] - parts[1]]))[0])
    bounded = float(np.clip(llr, *system.bounds_for(len(trace), len(ref))[0]))
    found = interval(llr, system.llr_replicates(one, other))
    assert found is not None
    return dict(zip(FIGURES, (llr, bounded, *parts), strict=True)), [found.lower, found.upper]


def test_training_gives_the_same_bytes_again() -> None:
    first, second = (train(table(), "tlm-kde", replicates=3, seed=5) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    assert train(table(), "tlm-kde", replicates=3, seed=6).to_bytes() != first.to_bytes()


def test_the_package_offers_load_and_stays_cheap() -> None:
    code = "import sys, lindley; assert {'torch', 'numpy'}.isdisjoint(sys.modules); assert 'load' in dir(lindley)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 0
    assert lindley.load is load
    assert lindley.System is System
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lindley.nothing  # type: ignore[attr-defined]


def test_arrays_lists_single_instances_and_names_are_the_same_case() -> None:
    fitted = system()
    trace, ref = items(2, 1, 3)[0][:1], items(2, 1, 3)[0][1:]
    llr = fitted.llr(trace, ref)
    assert fitted.llr(trace.tolist(), ref.tolist()) == llr
    assert fitted.llr(trace[0], ref) == llr
    assert fitted.llr(trace[0].tolist(), tuple(map(tuple, ref))) == llr
    shuffled = {name: ref[:, FEATURES.index(name)] for name in reversed(FEATURES)}
    assert fitted.llr({name: float(trace[0, k]) for k, name in enumerate(FEATURES)}, shuffled) == llr
    assert fitted.llr_matrix(trace, [ref]) == llr  # an array of items measured once
    assert fitted.llr(trace.astype(np.float32), ref) == pytest.approx(llr, abs=1e-3)


def test_a_reference_is_found_by_name_or_as_the_last_column() -> None:
    golden = load(FOLDER / "kernel-ratio.safetensors")
    a = items(4, 1, 4)[0]
    trace, ref = measured(golden, a[:2]), measured(golden, a[2:])
    llr = golden.llr(trace, ref)
    assert golden.columns == (*FEATURES, "Si28")
    named = [{name: side[:, k] for k, name in enumerate(golden.columns)} for side in (trace, ref)]
    assert golden.llr(*named) == llr
    assert golden.llr(2 * trace, 0.5 * ref) == pytest.approx(llr, abs=1e-9)  # how much was ablated does not matter
    with pytest.raises(LindleyError, match=r"instances × 5 columns is needed \(K39, Ti49, Mn55, Rb85, Si28\)"):
        golden.llr(trace[:, :4], ref)
    with pytest.raises(LindleyError, match="the logarithm needs values above 0"):
        golden.llr(trace - 1e6, ref)


WHOLE = {name: [0.1, 0.2] for name in FEATURES}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"Sr88": [5.0, 7.0]},
        {"item": ["w1", "w1"], "source": [3, 3]},
        {"note": ["shard", None]},
        {"time": [datetime.date(2026, 1, 1)] * 2},
        {"instance": [1, 2]},
    ],
    ids=["none", "another feature", "one label", "a note", "a date", "numbers"],
)
@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_other_columns_of_one_item_take_no_part(kind: Any, more: dict[str, list[Any]]) -> None:
    plain = np.column_stack(list(WHOLE.values()))
    assert system().llr(kind({**more, **WHOLE}), plain[:1]) == system().llr(plain, plain[:1])


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ([], r"instances × 4 columns is needed"),
        ([1.0, 2.0, 3.0], r"and it has the shape \(3,\)"),
        (np.zeros((2, 5)), r"and it has the shape \(2, 5\)"),
        (np.zeros((2, 3, 4)), r"and it has the shape \(2, 3, 4\)"),
        ([[1.0, 2.0, np.nan, 4.0]], "trace 1: 1 values are missing or not finite numbers"),
        ([["a", "b", "c", "d"]], "trace 1: 'a' is text, where a number is needed"),
        ([[1.0, 2.0], [3.0]], "trace 1: not an array of numbers"),
        ({"K39": [1.0]}, "trace 1: the system needs 'Ti49', 'Mn55' and 'Rb85', and the table has no such column"),
        ({"K39": [1, 2], "Ti49": [1], "Mn55": [1], "Rb85": [1]}, "all columns need as many rows"),
        ({"K39": [1.0], "Ti_49": [1.0], "Mn55": [1.0], "Rb85": [1.0]}, r"needs 'Ti49', .* Did you mean 'Ti_49'\?"),
        (pd.DataFrame([[1.0] * 4], columns=["K39", "Ti49", "Mn", "Rb85"]), r"needs 'Mn55', .* Did you mean 'Mn'\?"),
        (
            {**WHOLE, "item": ["w1", "w2"]},
            r"trace 1, column 'item': the column differs within what would be one item \('w1' and 'w2'\)",
        ),
        (
            {**WHOLE, "time": [datetime.date(2026, 1, day) for day in (1, 2)]},
            "column 'time': the column differs within",
        ),
        ({**WHOLE, "Source": [1, 2]}, r"trace 1: its rows are of several items \('1' and '2'\)"),
        (
            pl.DataFrame({**WHOLE, "piece": ["a", None]}).vstack(pl.DataFrame({**WHOLE, "piece": ["b", "b"]})),
            "column 'piece': the column differs within",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_told(trace: Any, message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        system().llr(trace, np.zeros((1, 4)))


def test_a_series_counts_by_the_names_in_its_index() -> None:
    row = pd.Series([2.1, 3.2, 4.3, 5.4], index=FEATURES)
    ref = np.array([[2.0, 3.0, 4.0, 5.0]])
    llr = system().llr(row.to_numpy(), ref)
    assert system().llr(row, ref) == system().llr(row[::-1], ref) == system().llr(row[::-1].astype(object), ref) == llr
    assert system().llr(row.reset_index(drop=True), ref) == llr  # values without names, in the order of the features
    assert system().case(row[::-1], ref, allow_outside=True).explanation.log10_lr == pytest.approx(llr, abs=1e-12)
    source = {"trace_source": ["a"], "ref_source": ["a"]}
    assert np.isclose(system().llrs([row[::-1]], [ref, ref], ["a"], ["a", "b"]).same, llr).all(), source


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (pd.Series([1.0, 2.0, 3.0, 4.0], index=["a", "b", "c", "d"]), "the system needs 'K39'"),
        (pd.Series([1.0, 2.0, 3.0, 4.0], index=[7, 8, 9, 10]), "the index of a Series names no features"),
        (pd.Series([1.0, 2.0, 3.0, 4.0], name="K39"), "the system needs 'Ti49', 'Mn55' and 'Rb85'"),
        (pl.Series("K39", [1.0, 2.0, 3.0, 4.0]), "the system needs 'Ti49', 'Mn55' and 'Rb85'"),
        (pd.Series([1.0, 2.0, 3.0, 4.0], index=["K39"] * 2 + ["Mn55", "Rb85"]), "gives one name to two values"),
        ([pd.Series([1.0, 2.0, 3.0, 4.0], index=FEATURES[::-1])], "a list of rows with names"),
        (pd.DataFrame(WHOLE, index=pd.Index(["a", "b"], name="source")), "its rows are of several items"),
        (pd.DataFrame(WHOLE, index=["a", "b"]), "column 'index': the column differs within"),
        (
            pd.DataFrame({**WHOLE, "position": [1, 1]}).iloc[[0, 0, 1]].assign(position=[1, 1, 2]),
            "'position': the column",
        ),
        ([True, 1.0, 2.0, 3.0], "trace 1: True is a truth value"),
        (np.array([True, False, True, True]), "trace 1: True is a truth value"),
        (np.array([1.0, np.True_, 2, 3], dtype=object), "trace 1: True is a truth value"),
        ({**WHOLE, "K39": [True, 0.2]}, "'True' is not a number"),
        (["2_63", 1.0, 2.0, 3.0], "trace 1: '2_63' is text"),
        ({**WHOLE, "K39": ["2_63", "0.2"]}, "'2_63' is not a number"),
        (np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0]), "1 values are missing"),
        ([np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0])], "1 values are missing"),
        ({**WHOLE, "K39": np.ma.array([0.1, 0.2], mask=[0, 1])}, "the cell is empty"),
        (np.array(["2026-01-01"] * 4, dtype="M8[D]"), "2026-01-01 is a date"),
        ([1j, 2.0, 3.0, 4.0], "is a complex number"),
        ([10**400, 2.0, 3.0, 4.0], "not an array of numbers"),
    ],
)
def test_no_door_takes_what_only_passes_for_numbers_or_for_one_item(item: Any, message: str) -> None:
    ref = np.zeros((1, 4))
    for door in (system().llr, system().case, lambda a, b: system().llrs([a], [b], ["x"], ["y"])):
        with pytest.raises(LindleyError) as caught:
            door(item, ref)
        told = str(caught.value)
        several = "one trace is needed" in told or "several items" in message  # whose words are of the door
        assert several or re.search(message, told.replace("trace:", "trace 1:")), told


def test_nothing_and_a_mapping_are_no_lists_of_items() -> None:
    with pytest.raises(LindleyError, match="there is no trace"):
        system().llr_matrix([], [np.zeros(4)])
    with pytest.raises(LindleyError, match="put it in brackets"):
        system().llr_matrix({"K39": [1.0]}, [np.zeros(4)])


def test_a_system_of_one_feature_takes_plain_lists_of_replicates() -> None:
    values, source = population(40, 3, 2, features=1)
    one = train(Table.from_arrays(values, source, features=["RI"]), "tlm-kde", replicates=4)
    assert one.llr([0.1, 0.12], [0.11]) == one.llr([[0.1], [0.12]], [[0.11]])
    assert one.llr([0.1], [0.11]) > 0 > one.llr([0.1], [2.0])
    assert sum(share.log10_lr for share in one.explain([0.1], [0.11]).features) == pytest.approx(one.llr([0.1], [0.11]))


def test_a_killed_save_leaves_nothing_and_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()
    made = system("tlm")

    def killed(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(LindleyError, match="cannot be written"):
        made.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("model", "message"),
    [("flow:tlm", "bends all features together"), ("tlm-kd", "tlm-kde"), ("tlm+nothing", "nothing")],
)
def test_models_that_cannot_be_systems(model: str, message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        train(table(), model)


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(LindleyError, match="are too few for a system"):
        train(table(8), "tlm")


def test_perfectly_separated_pairs_make_a_system_too(tmp_path: Path) -> None:
    """devPAV is infinite there, and JSON knows no infinity."""
    values, source = population(30, 3, 11)
    apart = Table.from_arrays(values + 50 * (values // 1), source, features=FEATURES)
    far = Table.from_arrays(np.repeat(np.arange(30.0)[:, None] ** 1.5, 3, axis=0) * [1, 2, -1, 0.5] + 0.01 * values, source,
                            features=FEATURES)  # fmt: skip
    for data in (apart, far):
        train(data, "tlm", replicates=2).save(tmp_path / "far.safetensors")
        assert load(tmp_path / "far.safetensors").features == FEATURES

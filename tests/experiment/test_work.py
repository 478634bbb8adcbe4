"""The work as units: every split once, names that any file system takes, and keys that know what decides a number."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.experiment import work
from lindley.experiment.config import Experiment, load_experiment
from lindley.experiment.work import (
    LONGEST,
    ORACLE,
    code_digest,
    do_unit,
    folder_name,
    make_units,
    model_file,
    unit_keys,
    with_groups,
)
from lindley.system import fit
from lindley.system.kinds import KINDS, register
from lindley.table.splits import Protocol
from lindley.table.table import Table
from tests.experiment.conftest import make_experiment, make_table

DATA = "5" * 64


@pytest.mark.parametrize("splits", range(1, 61))
def test_groups_cover_the_splits_once(splits: int) -> None:
    units = make_units(make_experiment(models=("tlm", "ntlm-single-pairs-n1"), protocol=Protocol(splits=splits)))
    for root in ("tlm", "ntlm-single-pairs-n1"):
        groups = [unit.splits for unit in units if str(unit.root) == root]
        assert [split for group in groups for split in group] == list(range(splits))
        sizes = [len(group) for group in groups]
        assert max(sizes) <= 7
        assert max(sizes) - min(sizes) <= 1
        assert len(groups) == -(-splits // 7)


@pytest.mark.parametrize("name", ["robust", "ht-plda", "tlm-bayes", "flow:tlm", "flow:ht-plda+logistic"])
def test_what_is_fitted_by_itself_is_a_unit_of_its_own(name: str) -> None:
    units = make_units(make_experiment(models=(name,), protocol=Protocol(splits=9)))
    assert [unit.splits for unit in units] == [(split,) for split in range(9)]


@pytest.mark.parametrize("name", ["tlm", "tlm@cv", "nplda", "ntlm-single-pairs-n1", "flow:ntlm-single-pairs-n1"])
def test_what_shares_a_program_is_one_unit(name: str) -> None:
    (unit,) = make_units(make_experiment(models=(name,), protocol=Protocol(splits=21), training={}))
    assert unit.splits == tuple(range(21))


def test_what_the_registry_says_of_a_kind_decides() -> None:
    with register(replace(KINDS["tlm"], name="slow", alone=True)):
        assert len(make_units(make_experiment(models=("slow", "tlm"), protocol=Protocol(splits=5)))) == 5 + 1


NETWORKS = tuple(f"ntlm-{p}-{m}-n{n}" for p in ("single", "double") for m in ("pairs", "sources") for n in (1, 2))


@pytest.mark.parametrize(
    ("workers", "networks", "groups"),
    [(1, 1, 1), (2, 1, 2), (8, 1, 7), (8, 2, 4), (8, 3, 2), (8, 5, 1), (8, 8, 1), (16, 6, 2), (100, 1, 21)],
)
def test_every_worker_has_a_training(workers: int, networks: int, groups: int) -> None:
    """And no family is cut into more groups than that takes: of 21 splits on eight workers, seven groups of three."""
    rows = ("tlm", "robust", *NETWORKS[:networks], f"{NETWORKS[0]}-varying+logistic")
    chosen = make_experiment(models=rows, protocol=Protocol(splits=21), training={})
    settled = with_groups(chosen, make_table(), workers)
    units = make_units(settled)
    for name in NETWORKS[:networks]:
        assert sum(str(unit.root) == name for unit in units) == groups
    assert with_groups(settled, make_table(), 3) is settled
    assert chosen.training.group is None


@pytest.mark.parametrize(("sources", "group"), [(45, 32), (10_000, 12), (40_000, 1)])
def test_a_group_fits_into_memory(sources: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(45)
    monkeypatch.setattr(Table, "sources", np.arange(sources))
    assert with_groups(make_experiment(training={}), table).training.group == group


def test_a_family_is_one_unit_and_the_root_comes_first() -> None:
    units = make_units(make_experiment(protocol=Protocol(splits=3)))
    assert [str(unit.root) for unit in units] == [
        "tlm", "tlm-kde", "yeo-johnson:tlm", "ntlm-single-pairs-n2", "ntlm-double-sources-n1[epochs=3]",
    ]  # fmt: skip
    for unit in units:
        for number, name in enumerate(unit.models):
            assert name.before is None if number == 0 else name.before in unit.models[:number]
    assert [str(name) for name in units[3].models] == [
        "ntlm-single-pairs-n2",
        "ntlm-single-pairs-n2-common",
        "ntlm-single-pairs-n2-varying",
        "ntlm-single-pairs-n2-varying+logistic",
    ]


def test_only_simulated_data_have_an_oracle() -> None:
    """Split by split: of all splits in one unit, eight workers would wait for the one that has it."""
    demo = load_experiment("demo")
    oracles = [unit for unit in make_units(demo) if unit.root == ORACLE]
    assert [unit.splits for unit in oracles] == [(split,) for split in range(demo.protocol.splits)]
    on_gpu = make_units(load_experiment("demo", {"training": {"device": "cuda"}}))
    assert [unit.splits for unit in on_gpu if unit.root == ORACLE] == [tuple(range(demo.protocol.splits))]
    assert ORACLE not in [unit.root for unit in make_units(make_experiment())]


LONG = "+".join(["quantile:ntlm-double-sources-n2-varying", *["logistic"] * 7])
OPTIONS = {
    "batch": 7,
    "epochs": 3,
    "learning_rate": 0.000012345,
    "orthonormal": "householder",
    "start": "maximum-likelihood",
}


@pytest.mark.parametrize(
    "chosen",
    [
        load_experiment("paper"),
        load_experiment("paper-literal"),
        make_experiment(),
        make_experiment(
            protocol=Protocol(splits=250),
            models=(
                LONG,
                LONG + "+pav",
                {"model": "ntlm-single-pairs-n1", "options": {**OPTIONS, "weight_decay": 0.0625}},
            ),
        ),
    ],
)
def test_ids_are_unique_and_can_be_names_of_files(chosen: Experiment) -> None:
    """Also on Windows: no reserved sign, no dot or space at the end, no difference by case alone, and not too long."""
    units = make_units(chosen)
    paths = [f"units/{unit.id}.json" for unit in units]
    paths += [
        model_file(name, unit.span, what)
        for unit in units
        for name in unit.models
        for what in ("model.safetensors", "llrs.npz", "history.npz")
    ]
    assert len({path.casefold() for path in paths}) == len(paths)
    assert max(map(len, paths)) < 150
    for path in paths:
        for part in path.split("/"):
            assert re.fullmatch(r"[A-Za-z0-9_.,=+\[\]-]+", part), part
            assert not part.endswith((".", " "))
            assert len(part) < 128
            assert part.split(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT1"}


def test_long_names_stay_apart() -> None:
    one, other = (make_experiment(models=(LONG + end,)).models[0].name for end in ("", "+pav"))
    assert len(folder_name(one)) == len(folder_name(other)) == LONGEST
    assert folder_name(one) != folder_name(other)


def keys(changes: dict[str, Any] | None = None, data: str = DATA) -> dict[str, str]:
    chosen = make_experiment(**(changes or {}))
    units = make_units(chosen)
    return {unit.id: key for unit, key in unit_keys(units, chosen, data).items()}


BEFORE = keys()


def test_keys_are_apart_and_repeatable() -> None:
    assert len(set(BEFORE.values())) == len(BEFORE) == 10
    assert keys() == BEFORE


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": Protocol(splits=8, seed=3)},
        {"protocol": Protocol(splits=8, seed=2, replicates=3)},
        {"protocol": Protocol(splits=8, seed=2, replicates=3, trace_instances=2)},
        {"protocol": Protocol(splits=8, seed=2, shares=(2, 1, 1))},
    ],
)
def test_the_protocol_decides_all_numbers(changes: dict[str, Any]) -> None:
    after = keys(changes)
    assert set(after) == set(BEFORE)
    assert not set(after.values()) & set(BEFORE.values())


def test_the_data_decide_all_numbers() -> None:
    assert not set(keys(data="6" * 64).values()) & set(BEFORE.values())


@pytest.mark.parametrize("change", [{"epochs": 5}, {"batch": 49}, {"learning_rate": 2e-3}, {"device": "cuda"}])
def test_training_decides_the_numbers_of_neural_models_only(change: dict[str, Any]) -> None:
    after = keys({"training": {"epochs": 4, "group": 7, **change}})
    assert {unit for unit in BEFORE if after[unit] != BEFORE[unit]} == {unit for unit in BEFORE if "ntlm-" in unit}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"output": {"folder": "elsewhere", "report": False}},
        {"data": "a copy of panes.csv"},
        {"data": {"data": "panes.csv", "source_column": "pane"}},
        {"models": tuple(reversed(make_experiment().models))},
    ],
)
def test_what_decides_no_number_changes_no_key(changes: dict[str, Any]) -> None:
    assert keys(changes) == BEFORE


def test_a_label_changes_no_key() -> None:
    rows = make_experiment().models[:4]
    labelled = [{"model": str(row.name), "label": f"row {number}"} for number, row in enumerate(rows)]
    assert keys({"models": labelled}) == keys({"models": rows})


def test_a_model_more_changes_the_key_of_its_family_only() -> None:
    after = keys({"models": (*make_experiment().models, "tlm+pav")})
    assert {unit for unit in BEFORE if after[unit] != BEFORE[unit]} == {"tlm.01-04", "tlm.05-08"}


def test_more_splits_keep_what_they_can() -> None:
    """Groups of the same splits have the same keys, whatever the number of splits."""
    fewer, more = keys({"protocol": Protocol(splits=7, seed=2)}), keys({"protocol": Protocol(splits=14, seed=2)})
    shared = set(fewer) & set(more)
    assert shared == set(fewer)
    assert all(fewer[unit] == more[unit] for unit in shared)


@pytest.fixture
def copy_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    copy = tmp_path / "lindley"
    shutil.copytree(str(files("lindley")), copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(work, "files", lambda package: copy)
    code_digest.cache_clear()
    yield copy
    code_digest.cache_clear()


def test_the_code_decides_all_numbers(copy_of_the_package: Path) -> None:
    assert keys() == BEFORE
    touched = [
        "models/between.py",
        "models/neural/fit.py",
        "table/glass_within.csv",
        "experiment/work.py",
        "llrs.py",
        "system/storage.py",
    ]
    for name in touched:
        path = copy_of_the_package / name
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        code_digest.cache_clear()
        assert not set(keys().values()) & set(BEFORE.values()), name
        path.write_bytes(text)
    (copy_of_the_package / "models" / "new.py").write_text("")
    code_digest.cache_clear()
    assert not set(keys().values()) & set(BEFORE.values())


def test_what_is_only_shown_decides_nothing(copy_of_the_package: Path) -> None:
    for name in ("cli/commands.py", "cli/console.py", "pages/run_words.py", "experiment/demo.yaml"):
        path = copy_of_the_package / name
        path.write_bytes(path.read_bytes() + b"\n")
    code_digest.cache_clear()
    assert keys() == BEFORE


def test_the_libraries_decide_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.system.provenance._installed", lambda library: "0.1")
    assert not set(keys().values()) & set(BEFORE.values())


@pytest.mark.parametrize("number", [0, 3, 4])
def test_threads_change_no_bit(number: int, table: Table) -> None:
    """Of a fit, of a training with its integrations, and of all that is scored."""
    chosen = make_experiment(protocol=Protocol(splits=3))
    unit = make_units(chosen)[number]
    one, *others = (do_unit(chosen, table, unit, threads=threads) for threads in (1, 2, 3))
    for other in others:
        assert other.files == one.files
        for name, figures in one.record["models"].items():
            assert {**other.record["models"][name], "seconds": 0} == {**figures, "seconds": 0}


def test_several_runs_are_scored_side_by_side(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    real = fit.side_by_side

    def look(function: Any, arguments: Any, where: Any, threads: int | None = None) -> Any:
        used.append((len(arguments), threads))
        return real(function, arguments, where, threads)

    monkeypatch.setattr(fit, "side_by_side", look)
    chosen = make_experiment(models=("ntlm-single-pairs-n2-varying",), protocol=Protocol(splits=3))
    (unit,) = make_units(chosen)
    do_unit(chosen, table, unit, threads=2)
    assert used == [(3, 2)] * 4  # validation and test pairs, of the network and of what is made of it

"""The benchmarks: they run, their numbers agree, they need little, and the page shows what was measured."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench.changes import before_and_after, changes
from bench.draw import FIGURES, PAGE, PICTURE, draw, filled, read
from bench.large import FEW_MORE, _as_many
from bench.layout import columns, duration, merged, short
from bench.reference import PlainTwoLevel, cllr, ln_lr_matrix
from bench.subjects import sources
from bench.timing import grow, rounds, slope

from bench import __main__ as program, tables, tables_of_work
from lindley.evaluation.pair_grid import TILE
from lindley.models.neural.parameters import Architecture, Parameters
from lindley.models.two_level import score
from tests.conftest import SHORT_SEARCH

ROOT = Path(__file__).parents[2]


def measured(sections: Iterable[str], *more: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """``python -m bench`` in a process of its own, with small sizes and few steps of the robust model."""
    options = ["--quick", "--devices", "cpu", "--threads", "1", "--sections", ",".join(sections), *more]
    code = f"""
import runpy, sys
{before}
from lindley.models.robust import fit
vars(fit).update({SHORT_SEARCH})
sys.argv[1:] = {options}
runpy.run_module("bench", run_name="__main__", alter_sys=True)
"""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A whole run of small size."""
    path = tmp_path_factory.mktemp("bench") / "quick.json"
    done = measured(program.SECTIONS, "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    result["printed"] = done.stdout
    return result


def test_many_pairs_of_every_kind_are_evaluated(quick: dict[str, Any]) -> None:
    rows = {row["model"]: row for row in quick["large"]["rows"] if row["what"] == "pairs"}
    assert {name.split("+")[0].split(":")[-1].removesuffix("-n2") for name in rows} > {"tlm", "tlm-bayes", "robust"}
    for row in rows.values():
        assert row["pairs"] == row["items"] ** 2
        assert row["whole"] == row["seconds"]
        assert 0 <= row["cllr_min"] <= row["cllr"]
        assert 0 <= row["highest"] < 1 << 30
    assert "Very many pairs" in quick["printed"]
    (fitted,) = (row for row in quick["large"]["rows"] if row["what"] == "fit")
    assert fitted["seconds"] > 0


@pytest.mark.parametrize(
    ("a_pair", "rows", "columns"),
    [(1e-9, 20_000, 20_000), (2e-7, 2 * TILE, 20_000), (8e-7, TILE, 20_000), (1e-4, TILE + FEW_MORE, TILE)],
)
def test_of_slow_models_rows_of_tiles_are_enough(a_pair: float, rows: int, columns: int) -> None:
    """All pairs in 20 s; two rows of tiles, or one, that may take 40 s; or a tile."""
    found = _as_many(20_000, a_pair, 20.0, 40.0)
    assert [len(range(20_000)[some]) for some in found] == [rows, columns]


def test_units_are_timed_beside_what_they_take_by_themselves(quick: dict[str, Any]) -> None:
    rows = {row["way"]: row for row in quick["units"]["rows"]}
    assert set(rows) == {"in this process", "through Dask"}
    for row in rows.values():
        assert row["itself"] > 0
        assert row["units"] == 4


def test_cases_are_timed(quick: dict[str, Any]) -> None:
    rows = quick["cases"]["rows"]
    commands = {row["way"]: row["best"] for row in rows if row["what"] == "command"}
    assert 0 < commands["a file that is not there"] < commands["a whole case with its report"]
    assert {(row["model"], *row["instances"]) for row in rows if row["what"] == "llr"} == {
        (model, *size) for model in ("tlm", "robust", "ntlm-single-pairs-n2") for size in ((1, 1), (2, 3))
    }


def test_several_processes_stand_beside_one(quick: dict[str, Any]) -> None:
    one = {
        "what": "splits",
        "way": "1 process",
        "device": "cpu",
        "workers": 1,
        "units": 21,
        "sources": 150,
        "seconds": 60.0,
    }
    eight = {**one, "way": "8 processes", "workers": 8, "seconds": 9.0, "best_possible": 7.0, "times_faster": 60 / 9}
    result = {**quick, "units": {"rows": [{**one, "best_possible": 1.0, "times_faster": 1.0}, eight]}, "files": []}
    table = tables.make([result])["units-splits"]
    assert list(table.rows) == [["1 process", "60.0 s", "1.00", "1.00"], ["8 processes", "9.00 s", "6.67", "7.00"]]
    assert "21 splits of 150 sources" in table.plain()


def test_a_section_that_cannot_be_measured_says_what_it_needs() -> None:
    result = {
        "devices": ["cpu"],
        "machine": {"threads": 1, "gpu": None},
        "units": {"rows": [], "left_out": "`units` needs dask"},
    }
    assert "needs dask" in tables_of_work.unit_costs([result]).plain()
    assert "needs dask" in tables_of_work.unit_splits([result]).plain()


def test_two_versions_are_set_side_by_side(quick: dict[str, Any]) -> None:
    before, after = ({**copy.deepcopy(quick), "files": []} for _ in range(2))
    before["machine"]["lindley"] = "0.0.9"
    assert before_and_after([after]) == []
    for row in before["training"]["rows"]:
        row["median"] *= 3
    for row in before["scoring"]["rows"]:
        row["median"] /= 4
    table = changes([before, after])
    ratios = {row[0]: row[3] for row in table.rows}
    assert ratios["an epoch of all runs: lindley, all runs at once"] == "3.00"
    assert ratios["million pairs/s, `tlm`"] == "4.00"
    assert ratios["MiB, train 2 runs × 60 sources, pairs mode"] == "1.00"
    assert table.header[1:3] == ["A, 1 thread: 0.0.9", f"B, 1 thread: {after['machine']['lindley']}"]


def test_the_machine_is_named(quick: dict[str, Any]) -> None:
    machine = quick["machine"]
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert machine["threads"] == 1
    assert machine["torch"] == torch.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", quick["date"])


def test_every_way_of_training_is_timed(quick: dict[str, Any]) -> None:
    rows = {row["way"]: row for row in quick["training"]["rows"]}
    assert set(rows) == set(tables.WAYS)
    for row in rows.values():
        assert 0 < row["best"] <= row["median"]
        assert row["rounds"] == 1
    assert rows["loop"]["times_faster"] == 1
    assert quick["training"]["check"]["ln_lr"] < program.SAME_LN_LR
    assert quick["training"]["check"]["cllr"] < program.SAME_CLLR


def test_every_model_is_scored(quick: dict[str, Any]) -> None:
    rows = quick["scoring"]["rows"]
    assert [row["model"] for row in rows] == ["tlm", "tlm-kde", "robust", "ntlm-double-pairs-n1-varying"]
    assert all(0 < row["median"] <= row["best"] and row["rounds"] == 3 for row in rows)


def test_lir_is_compared_or_told_to_be_missing(quick: dict[str, Any]) -> None:
    if importlib.util.find_spec("lir") is None:
        assert "make bench-lir" in quick["lir"]["left_out"]
        assert "make bench-lir" in quick["printed"]
    else:
        assert quick["lir"]["difference"] < 1e-8


@pytest.mark.skipif(sys.platform != "linux", reason="the highest memory of a process can be reset on Linux alone")
def test_memory_is_at_least_what_is_returned(quick: dict[str, Any]) -> None:
    scored = [row for row in quick["memory"]["rows"] if row["what"] == "score"]
    trained = [row for row in quick["memory"]["rows"] if row["what"] == "train"]
    assert len(scored) == 4
    assert len(trained) == 2
    assert all(row["highest"] >= row["held"] == 8 * 200**2 for row in scored)
    assert all(row["highest"] >= row["held"] for row in trained)


def test_every_line_of_the_growth_has_points_and_a_slope(quick: dict[str, Any]) -> None:
    series = quick["growth"]["series"]
    assert {(line["what"], line["along"]) for line in series} == {
        *((what, along) for what in ("fit", "score", "epoch") for along in ("sources", "features")),
        ("score", "kernels"),
    }
    for line in series:
        assert len(line["points"]) + len(line["left_out"]) == 2
        assert all(0 < point["best"] <= point["median"] and point["rounds"] >= 1 for point in line["points"])
        assert len(line["points"]) < 2 or math.isfinite(line["slope"])


def test_the_tables_hold_the_figures(quick: dict[str, Any]) -> None:
    found = tables.make([{**quick, "files": ["quick.json"]}])
    assert set(found) == {
        "machines", "training", "scoring", "lir", "memory", "growth-sources", "growth-features", "growth-kernels", "paper",
        "curves", "units-cost", "units-splits", "cases", "train", "large-pairs", "large-fit",
    }  # fmt: skip
    loop = next(row for row in quick["training"]["rows"] if row["way"] == "loop")
    assert duration(loop["median"]) in found["training"].plain()
    assert duration(loop["median"]) in found["training"].markdown()
    for table in found.values():
        assert all(len(row) == len(table.header) for row in table.rows)
        assert table.plain() in quick["printed"] or table.title == "Machines"


def test_files_of_one_machine_are_joined(quick: dict[str, Any]) -> None:
    cpu, gpu = ({**copy.deepcopy(quick), "files": [name]} for name in ("cpu", "gpu"))
    for result in (cpu, gpu):
        result["machine"]["gpu"] = {"name": "A GPU", "bytes": 2**30}
    del cpu["growth"]
    gpu["devices"] = ["cuda"]
    for section in ("training", "scoring", "memory", "paper", "curves"):
        gpu[section]["rows"] = [{**row, "device": "cuda"} for row in gpu[section]["rows"]]
    (joined,) = merged([cpu, gpu])
    assert joined["files"] == ["cpu", "gpu"]
    assert [c.label for c in columns([joined], "training")] == ["1 thread", "A GPU"]
    assert len(joined["scoring"]["rows"]) == 2 * len(quick["scoring"]["rows"])
    assert joined["growth"] == gpu["growth"]
    other = copy.deepcopy(cpu)
    other["machine"]["cpu"] = "another"
    assert len(merged([cpu, other])) == 2


def test_differences_fail(quick: dict[str, Any]) -> None:
    assert program.differences(quick) == []
    worse = copy.deepcopy(quick)
    worse["training"]["check"]["ln_lr"] = 1e-3
    worse["lir"] = {"difference": math.nan}
    worse["scoring"]["differences"] = {"tlm": 1e-7}
    worse["curves"]["rows"][0]["same"] = False
    assert len(program.differences(worse)) == 4


def test_the_loops_model_is_the_two_level_model_and_so_is_its_gradient() -> None:
    part = sources(30, 3, seed=4)
    parameters = Parameters.random(Architecture("single", 2), 3, [5])
    var = torch.tensor([[[0.5, 1.0, 2.0], [1.5, 0.7, 0.3]]], dtype=torch.float64)
    parameters = Parameters(**{**parameters.tensors(), "var_within": var})
    net = PlainTwoLevel.holding(parameters, 0)
    ours = score(parameters.two_level(), [part.trace], [part.ref])[0] * math.log(10)
    np.testing.assert_allclose(ln_lr_matrix(net, part).numpy(), ours, rtol=1e-10, atol=1e-10)

    mean = parameters.mean_between.clone().requires_grad_()
    model = Parameters(**{**parameters.tensors(), "mean_between": mean}).two_level()
    x, y = (torch.from_numpy(side.mean) for side in (part.trace, part.ref))
    different = ~torch.eye(30, dtype=torch.bool)
    ln_lr = model.ln_lr(x[None], y[None])[0]
    (expected,) = torch.autograd.grad(cllr(ln_lr.diagonal(), ln_lr[different]), mean)
    i, j = different.nonzero(as_tuple=True)
    cllr(net(x, y), net(x[i], y[j])).backward()  # type: ignore[no-untyped-call]
    assert net.mean.grad is not None
    torch.testing.assert_close(net.mean.grad, expected[0, 0])


def test_a_power_law_has_its_exponent_as_slope() -> None:
    assert slope({n: 3e-6 * n**1.7 for n in (10, 30, 100, 300, 1000)}) == pytest.approx(1.7)
    fixed = {n: 1.0 + 1e-6 * n**2 for n in (10, 100, 1000, 10_000, 100_000)}
    assert slope(fixed) == pytest.approx(2, abs=0.2)  # the lower half, where a fixed cost counts, does not
    assert slope({10: 1.0}) is None
    assert slope({10: 1.0, 20: 2.0, 1000: 100.0}) == pytest.approx(1)


def test_points_that_would_take_too_long_are_left_out() -> None:
    asked: list[int] = []

    def times(size: int, expected: float) -> list[float]:
        asked.append(size)
        return [size**2 / 1e4, size**2 / 5e3]

    def refuse(size: int, expected: float) -> str | None:
        return f"{expected:.0f} s" if expected > 5 else None

    line = grow((10, 100, 1000, 10_000), times, refuse)
    assert asked == [10, 100]
    assert line["left_out"] == [{"size": 1000, "why": "100 s"}, {"size": 10_000, "why": "10000 s"}]
    assert line["slope"] == pytest.approx(2)
    bounded = grow((10, 100, 1000), times, refuse, work=lambda size: min(size, 100))
    assert [point["size"] for point in bounded["points"]] == [10, 100, 1000]  # no more work than at 100: not foreseen
    assert grow((10,), times, lambda size, expected: "no")["left_out"] == [{"size": 10, "why": "no"}]


def test_points_that_memory_is_too_short_for_are_left_out() -> None:
    def times(size: int, expected: float) -> list[float]:
        if size > 20:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return [1.0]

    line = grow((10, 20, 30), times, lambda size, expected: None)
    assert [point["size"] for point in line["points"]] == [10, 20]
    assert line["left_out"] == [{"size": 30, "why": "memory was short"}]


def test_rounds_warm_up_and_go_on_until_it_is_enough() -> None:
    calls: list[int] = []
    assert len(rounds(lambda: calls.append(1), least=3, most=5)) == 5
    assert len(calls) == 6
    assert len(rounds(lambda: None, least=2, most=9, enough=0.0)) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (12.34, "12.3"), (99.96, "100"), (123456.0, "123,000")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2.00 s"), (0.0456, "45.6 ms"), (7e-6, "7.00 µs"), (3.21e-8, "32.1 ns")]
)
def test_durations_have_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_page_shows_the_committed_figures(tmp_path: Path) -> None:
    results = read(sorted(FIGURES.glob("*.json")))
    assert results
    page = PAGE.read_text("utf-8")
    assert not any(result["quick"] for result in results)
    assert filled(page, results) == page, "python -m bench.draw"
    marked = re.findall(r"<!-- bench:([\w-]+) -->", page)
    assert {*tables.MAKERS, "changes"} - {"curves"} == set(marked)  # the curves are told in words
    with pytest.raises(KeyError):
        filled("<!-- bench:nothing -->\n<!-- end -->", results)
    draw(results, tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").stat().st_size > 10_000
    assert PICTURE.exists()
    assert f"images/{PICTURE.name}" in page


def test_torch_numpy_and_scipy_are_enough() -> None:
    """With every other package of the project out of reach, the whole program is imported and a section runs."""
    absent = ["pydantic", "yaml", "typer", "rich", "openpyxl", "platformdirs", "safetensors", "threadpoolctl", "jinja2"]
    absent += ["matplotlib", "plotly", "sklearn", "lir"]
    without = f"""
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {absent}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
sys.meta_path.insert(0, Absent())
"""
    done = measured(["scoring", "lir", "units", "cases"], before=without)
    assert done.returncode == 0, done.stderr
    assert "million pairs/s" in done.stdout
    assert "`units` needs" in done.stdout
    assert "`cases` needs" in done.stdout

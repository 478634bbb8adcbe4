"""Sessions in casework: training and validation on pairs of two sessions, and a case of one session, which says so."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lindley
from lindley.casework.performance import Draw, Settings, draw, ladder
from lindley.casework.validation import validate
from lindley.errors import LindleyError
from lindley.experiment.runner import run_experiment
from lindley.pages.case_words import describe_training
from lindley.pages.run_words import list_facts
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.system.train import fit_table
from lindley.system.update import read_background
from lindley.table.splits import Protocol
from lindley.table.table import Table, export_csv
from tests.casework.validating import simulated
from tests.command import here
from tests.experiment.conftest import make_experiment

QUICK = Settings(replicates=40, draws=2)
SHIFT = 1.5
"""Standard deviation within sources of what a session shares, in units of that of its measurements."""


@cache
def fragments(sources: int, seed: int, single: int = 0) -> Table:
    """Simulated glass, two fragments of three measurements of every source that differ; of some, one fragment."""
    table = simulated(sources, 6, seed, 4)
    rng, names = np.random.default_rng(seed), np.tile(np.repeat(["f1", "f2"], 3), sources)
    within = table.values.reshape(sources, 6, -1).std(axis=1, ddof=1).mean(axis=0)
    shift = np.repeat(rng.normal(0, SHIFT * within, (2 * sources, len(within))), 3, axis=0)
    names[: 6 * single] = "f1"
    return replace(table, values=table.values + shift, session=names)


@cache
def trained(model: str = "tlm+logistic") -> System:
    return lindley.train(fragments(150, 1), model, replicates=2)


def without(table: Table) -> Table:
    return replace(table, session=None)


def test_a_system_is_calibrated_and_validated_on_pairs_of_two_sessions() -> None:
    system, other = trained(), lindley.train(without(fragments(150, 1)), "tlm+logistic", replicates=2)
    assert system.about["validation"]["sessions"] == {"two_sessions": 150, "one_session": 0}
    assert "150 are of two sessions and 0 of one" in " ".join(describe_training(system).split())
    assert "sessions" not in other.about["validation"]
    assert "sessions" not in describe_training(other)
    # pairs that mix a fragment with itself flatter
    assert system.about["validation"]["cllr"] > 1.05 * other.about["validation"]["cllr"]
    assert {shape for shape, _ in system.casework.shapes} == {  # type: ignore[union-attr]
        (1, 2), (2, 1), (1, 3), (2, 2), (3, 1), (2, 3), (3, 2), (3, 3),
    }  # fmt: skip


def test_replicates_are_calibrated_on_two_sessions_too() -> None:
    """Two fragments of three measurements allow no 4 × 1, from whichever of the two the trace is taken."""
    name = ModelName.parse("tlm+logistic")
    fit_table(fragments(60, 3), name, instances=(3, 3), replicates=1)
    fit_table(without(fragments(60, 3)), name, instances=(4, 1))
    with pytest.raises(LindleyError, match="0 of the 60 sources have"):
        fit_table(fragments(60, 3), name, instances=(4, 1))


def test_validation_draws_two_sessions_and_says_so(tmp_path: Path) -> None:
    table = fragments(60, 2, single=7)
    done = validate(trained(), table, settings=QUICK)
    said = "of the same-source pairs 53 are of two sessions and 7 of one"
    assert any(said in each for each in done.remarks)
    done.write(tmp_path)
    for name in ("validation.json", "validation.html"):
        assert said in " ".join((tmp_path / name).read_text("utf-8").split())
    assert not any("sessions" in each for each in validate(trained(), without(table), settings=QUICK).remarks)
    assert [step.instances for step in done.steps] == ladder(6)  # three and three, and no further


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 3), None])
def test_no_comparison_of_a_source_is_within_a_session(shape: tuple[int, int] | None) -> None:
    table = fragments(30, 4, single=5)
    assert table.session is not None
    place = {tuple(row): number for number, row in enumerate(table.values.tolist())}

    def sessions(drawn: Draw) -> list[list[set[str]]]:
        return [
            [{str(table.session[place[tuple(row)]]) for row in side.values[side.item == k].tolist()} for k in range(30)]  # type: ignore[index]
            for side in drawn.sides(shape)
        ]

    trace, ref = sessions(draw(table, table.sources, 0, 1, shapes=ladder(6)))
    for k in range(30):
        assert (trace[k] & ref[k] == set()) == (k >= 5)
    counts = {
        (int(m), int(n)) for m, n in zip(*(s.count for s in draw(table, table.sources, 0, 1).sides(shape)), strict=True)
    }
    assert counts == {shape or (3, 3)}


def test_one_session_everywhere_is_as_without() -> None:
    table = fragments(40, 5)
    one = replace(table, session=np.full(len(table.values), "day"))
    drawn = [draw(each, table.sources, 0, 3, shapes=ladder(4)) for each in (one, without(table))]
    for shape in (None, (2, 1)):
        for side, other in zip(drawn[0].sides(shape), drawn[1].sides(shape), strict=True):
            np.testing.assert_array_equal(side.values, other.values)


def test_an_experiment_tells_of_them() -> None:
    table = fragments(90, 6)
    chosen = make_experiment(models=("tlm",), protocol=Protocol(splits=2))
    results = run_experiment(chosen, table)
    content = results.to_json()
    assert content["data"]["sessions"] == {"two_sessions": 90, "one_session": 0}
    facts = dict(list_facts(content, chosen.data, neural=False))
    assert facts["Sessions"].startswith("90 sources have two or more")
    assert [size.instances for size in results.models["tlm"].series] == [(1, 1), (2, 2), (3, 3)]
    assert "sessions" not in run_experiment(chosen, without(table)).to_json()["data"]


# ── cases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def item(number: int, label: str | None = None) -> dict[str, Any]:
    """Three measurements that no system has seen."""
    table = fragments(40, 9)
    columns: dict[str, Any] = dict(zip(table.features, table.values[6 * number : 6 * number + 3].T, strict=True))
    return columns if label is None else {**columns, "day": [label] * 3}


def codes(case: Any) -> set[str]:
    return {each["code"] for each in case.to_json()["warnings"]}


def test_a_case_of_one_session_says_so() -> None:
    case = trained().case(item(0, "Monday"), item(1, "Monday"), session="day")
    (remark,) = [each for each in case.remarks if each.code == "same-session"]
    assert "'Monday'" in remark.message
    assert "150 same-source pairs of two sessions" in remark.message
    assert "etiket van één sessie, 'Monday'" in remark.in_language("nl")
    record = case.to_json()
    assert record["trace"]["session"] == record["ref"]["session"] == ["Monday"] * 3
    other = trained().case(item(0, "Monday"), item(1, "Tuesday"), session="day")
    assert codes(case) - codes(other) == {"same-session"}
    assert other.to_json()["ref"]["session"] == ["Tuesday"] * 3
    plain = trained().case(item(0), item(1))
    assert "session" not in plain.to_json()["trace"]
    assert plain.explanation.log10_lr == case.explanation.log10_lr


def test_a_system_without_sessions_claims_no_validation_of_them() -> None:
    system = lindley.train(without(fragments(60, 3)), "tlm", replicates=0)
    (remark,) = [
        each for each in system.case(item(0, "x"), item(1, "x"), session="day").remarks if each.code == "same-session"
    ]
    assert "validation" not in remark.message


def write(folder: Path, name: str, columns: dict[str, Any]) -> None:
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    (folder / name).write_text("\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("how", ["option", "case file", "beside"])
def test_the_command_and_its_report(how: str, tmp_path: Path) -> None:
    trained().save(tmp_path / "glass.safetensors")
    write(tmp_path, "trace.csv", item(0, "Monday"))
    write(tmp_path, "ref.csv", item(1, "Monday"))
    words = ["case", "glass.safetensors", "--trace", "trace.csv", "--ref", "ref.csv", "--out", "report.html"]
    if how == "option":
        words += ["--session-column", "day"]
    else:
        (tmp_path / ("case.yaml" if how == "case file" else "lindley.yaml")).write_text("session_column: day\n")
        words += ["--case-file", "case.yaml"] if how == "case file" else []
    told = here(*words, "--language", "nl", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "etiket van één sessie" in " ".join((tmp_path / "report.html").read_text("utf-8").split())
    verified = here("verify", "report.html", "--systems", "glass.safetensors", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_several_items_keep_theirs(tmp_path: Path) -> None:
    trained().save(tmp_path / "glass.safetensors")
    one, other = item(0, "Monday"), item(1, "Tuesday")
    both = {name: [*one[name], *other[name]] for name in one}
    write(tmp_path, "trace.csv", {"source": ["a"] * 3 + ["b"] * 3, **both})
    write(tmp_path, "ref.csv", item(2, "Tuesday"))
    words = [
        "case",
        "glass.safetensors",
        "--trace",
        "trace.csv",
        "--ref",
        "ref.csv",
        "--session-column",
        "day",
        "--out",
        "all",
    ]
    assert here(*words, cwd=tmp_path).returncode == 0
    told = here(*words[:-2], "--json", cwd=tmp_path)
    assert "same-session" in {each["code"] for each in json.loads(told.stdout)["warnings"]}
    reports = sorted(path for path in (tmp_path / "all").glob("*.html") if path.name != "matrix.html")
    assert ["labelled with one session" in path.read_text("utf-8") for path in reports] == [False, True]


def test_a_background_is_found_again_with_its_sessions(tmp_path: Path) -> None:
    export_csv(fragments(30, 7), tmp_path / "glass.csv")
    words = [
        "train",
        "glass.csv",
        "--model",
        "tlm",
        "--replicates",
        "0",
        "--session-column",
        "session",
        "--out",
        "g.safetensors",
    ]
    assert here(*words, cwd=tmp_path).returncode == 0
    system = lindley.load(tmp_path / "g.safetensors")
    (table,) = read_background(system, [tmp_path / "glass.csv"]).tables
    assert table.session is not None
    assert table.sha256() == system.about["data"]["sha256"]


def test_public_glass(data_folder: Path) -> None:
    path = data_folder / "zadora_glass" / "zadora_glass.csv"
    table = lindley.read_table(path, session="fragment", allow_duplicates=True)
    about = lindley.train(table, "tlm+logistic", replicates=0).about
    assert about["validation"]["sessions"] == {"two_sessions": 200, "one_session": 0}
    assert about["validation"]["pairs_same"] == 200

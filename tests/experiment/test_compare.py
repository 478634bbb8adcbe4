"""Runs side by side: paired where the splits are the same, told where they are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from lindley.cli import commands as cli
from lindley.errors import LindleyError
from lindley.experiment.results import compare
from lindley.experiment.runner import run_experiment
from lindley.experiment.saved import SavedRun
from lindley.table.splits import Protocol
from lindley.table.table import Table
from tests.experiment.conftest import make_experiment, make_table


@pytest.fixture(scope="module")
def folders(table: Table, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of classical models: one and its like with other models; other data; another seed; one split."""
    root = tmp_path_factory.mktemp("runs")
    protocol = Protocol(splits=4, seed=2)
    labelled = {"model": "quantile:tlm", "label": "tlm"}
    chosen = {
        "first": (make_experiment(protocol=protocol, models=("tlm", "tlm-kde")), table),
        "second": (make_experiment(protocol=protocol, models=("tlm-kde", labelled, "tlm+pav")), table),
        "data": (make_experiment(protocol=protocol, models=("tlm",)), make_table(seed=4)),
        "seed": (make_experiment(protocol=Protocol(splits=4, seed=3), models=("tlm",)), table),
        "one": (make_experiment(protocol=Protocol(splits=1, seed=2), models=("tlm", "tlm-kde")), table),
    }  # fmt: skip
    for name, (experiment, of) in chosen.items():
        (root / name).mkdir()
        run_experiment(experiment, of, root / name).write(root / name)
    return {name: root / name for name in chosen}


def opened(folders: dict[str, Path], *names: str) -> list[SavedRun]:
    return [SavedRun.open(folders[name]) for name in names]


def test_the_same_rows_of_two_runs(folders: dict[str, Path]) -> None:
    first, second = opened(folders, "first", "second")
    comparison = compare([first, second])
    assert comparison.remarks == ()
    assert [(line.run, line.model) for line in comparison.lines] == [
        ("first", "tlm"), ("first", "tlm-kde"), ("second", "tlm-kde"), ("second", "tlm"), ("second", "tlm+pav"),
    ]  # fmt: skip
    itself, _, same, relabelled, alone = comparison.lines
    assert (itself.differences, itself.difference) == (None, "is compared with")
    assert same.differences == (0.0,) * 4
    assert same.difference == "+0.0000 ± 0.0000, better in 0 of 4"
    expected = np.subtract(second.result("tlm").test_cllr, first.result("tlm").test_cllr)
    np.testing.assert_array_equal(relabelled.differences, expected)  # type: ignore[arg-type]
    better = int((expected < 0).sum())
    error = 2 * expected.std(ddof=1) / 2
    assert relabelled.difference == f"{expected.mean():+.4f} ± {error:.4f}, better in {better} of 4"
    assert relabelled.against == "tlm in first"
    assert (alone.differences, alone.difference) == (None, "not in the first")


def test_all_against_one_model(folders: dict[str, Path]) -> None:
    first, second = opened(folders, "first", "second")
    comparison = compare([first, second], "tlm-kde")
    base = np.array(first.result("tlm-kde").test_cllr)
    assert [line.differences is None for line in comparison.lines] == [False, True, False, False, False]
    for line in comparison.lines:
        if line.differences is not None:
            np.testing.assert_array_equal(line.differences, np.array(line.result.test_cllr) - base)
            assert line.against == "tlm-kde in first"
    alone = compare([first], "tlm-kde")
    assert [line.differences for line in alone.lines] == [line.differences for line in comparison.lines[:2]]


def test_one_split_has_no_error(folders: dict[str, Path]) -> None:
    (line, _) = compare(opened(folders, "one"), "tlm-kde").lines
    assert "±" not in "".join(line.row())
    assert line.difference.endswith(("better in 0 of 1", "better in 1 of 1"))


@pytest.mark.parametrize(
    ("other", "why"),
    [("data", "it has other data"), ("seed", "it has another protocol")],
)
def test_what_does_not_pair_is_told(folders: dict[str, Path], other: str, why: str) -> None:
    comparison = compare(opened(folders, "first", other))
    (remark,) = comparison.remarks
    assert remark.startswith(f"{other}: {why}")
    assert remark.endswith("those of first.")
    for line in comparison.lines[2:]:
        assert (line.differences, line.against, line.difference) == (None, None, "not paired")
        assert line.row()[2].startswith(f"{np.mean(line.result.test_cllr):.4f}")
        assert line.to_json()["differences"] is None
        assert line.to_json()["why_not"] == "not paired"


def test_runs_of_other_lengths_pair_as_far_as_both_go(folders: dict[str, Path]) -> None:
    comparison = compare(opened(folders, "first", "one"))
    assert comparison.remarks == ()
    paired = [line for line in comparison.lines if line.run == "one" and line.differences is not None]
    assert paired
    assert all(len(line.differences or ()) == 1 for line in paired)


def test_errors(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = opened(folders, "first", "second")
    with pytest.raises(LindleyError, match=r"name two folders, or give --to MODEL .*\(tlm, tlm-kde\)"):
        compare([first])
    with pytest.raises(LindleyError, match=r"holds no model 'tlm\+pav'. It holds: tlm, tlm-kde"):
        compare([first, second], "tlm+pav")
    monkeypatch.chdir(folders["first"].parent)
    with pytest.raises(LindleyError, match="The same folder is named twice"):
        compare([first, second, SavedRun.open("second")])


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["lindley", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


class TestCommand:
    def test_table(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(folders["first"].parent)
        code, out, err = command(monkeypatch, capsys, "compare", "first", "second", "seed")
        assert code == 0
        assert "compared with the same model of first" in out
        assert "differences are paired per split, negative is better" in " ".join(out.split())
        assert "+0.0000 ± 0.0000, better in 0 of 4" in out
        assert err.startswith("warning: seed: it has another protocol")
        code, out, err = command(monkeypatch, capsys, "compare", "first", "--to", "tlm")
        assert (code, err) == (0, "")
        assert "compared with tlm of first" in out

    def test_json(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        both = [str(folders[name]) for name in ("first", "data")]
        code, out, err = command(monkeypatch, capsys, "compare", *both, "--json", "--to", "tlm-kde")
        assert code == 0
        assert "it has other data" in err
        lines = json.loads(out)
        assert [line["model"] for line in lines] == ["tlm", "tlm-kde", "tlm"]
        first = json.loads((folders["first"] / "results.json").read_bytes())["models"]
        pairs = zip(first["tlm"]["test"]["cllr"], first["tlm-kde"]["test"]["cllr"], strict=True)
        assert lines[0]["differences"] == [a - b for a, b in pairs]
        assert lines[0]["difference_mean"] == pytest.approx(np.mean(lines[0]["differences"]))
        assert lines[0]["test_cllr"] == first["tlm"]["test"]["cllr"]
        assert [line["why_not"] for line in lines] == [None, "is compared with", "not paired"]

    def test_errors(
        self,
        folders: dict[str, Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        for arguments, message in (
            ([str(folders["first"])], "name two folders"),
            ([str(folders["first"]), str(tmp_path)], "holds no results.json"),
            ([str(folders["first"]), "--to", "tml"], "holds no model 'tml'"),
        ):
            code, out, err = command(monkeypatch, capsys, "compare", *arguments)
            assert (code, out) == (2, "")
            assert message in err

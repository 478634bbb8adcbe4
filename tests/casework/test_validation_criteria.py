"""The laboratory's criteria: read with lines, set against figures, pass or fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from lindley.casework.laboratory import FIGURES, Criteria, Criterion, criteria_template, load_criteria
from lindley.casework.performance import Settings
from lindley.casework.validation import _line, validate
from lindley.errors import LindleyError
from lindley.evaluation import Estimate
from lindley.pages.validation_page import CHARACTERISTICS as TITLES, METRICS, limit, rows
from tests.casework.validating import simulated, trained


def read(tmp_path: Path, text: str) -> Criteria:
    path = tmp_path / "criteria.yaml"
    path.write_text(text, encoding="utf-8")
    return load_criteria(path)


def test_the_template_reads_and_names_every_figure(tmp_path: Path) -> None:
    criteria = read(tmp_path, criteria_template())
    assert criteria.judged == "bounded"
    named = read(tmp_path, criteria_template().replace("# other_", "other_").replace("# beyond", "beyond"))
    assert all(named.of(*key) is not None for key in FIGURES)
    assert set(METRICS) == set(FIGURES)
    assert list(TITLES) == list(dict.fromkeys(characteristic for characteristic, _ in FIGURES))


def test_limits(tmp_path: Path) -> None:
    criteria = read(
        tmp_path,
        "judged: raw\naccuracy:\n  cllr: {at_most: 0.1, by: interval}\ncoherence: {gain: {at_least: 0}}\nrobustness:\n",
    )
    assert criteria.of("accuracy", "cllr") == Criterion(at_most=0.1, by="interval")
    assert criteria.of("calibration", "devpav") is None
    assert criteria.to_json() == {
        "judged": "raw",
        "accuracy": {"cllr": {"at_most": 0.1, "by": "interval"}},
        "coherence": {"gain": {"at_least": 0.0}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accuracy:\n  cllr: {at_most: 0.1}\n  clr: {at_most: 1}\n", "line 3, accuracy.clr: there is no such figure"),
        ("judged: bounded\nacuracy: {cllr: {at_most: 1}}\n", "line 2, acuracy: there is no such figure"),
        ("accuracy: {cllr: {at_most: 1}}\nacuracy:\n", "line 2, acuracy: there is no such figure"),
        ("accuracy:\n  cllr: 0.1\n", "line 2, accuracy.cllr: must be a limit"),
        ("accuracy: 0.1\n", "line 1, accuracy: must be figures with their limits"),
        ("accuracy:\n  cllr: {at_most: low}\n", "line 2, accuracy.cllr.at_most: must be a number"),
        ("accuracy:\n  cllr:\n    at_most: .nan\n", "line 3, accuracy.cllr.at_most: must be a finite number"),
        ("accuracy:\n  cllr: {}\n", "line 2, accuracy.cllr: give either at_most or at_least"),
        ("accuracy:\n  cllr: {at_most: 1, at_least: 0}\n", "line 2, accuracy.cllr: give either"),
        ("accuracy:\n  cllr: {at_most: 1, by: median}\n", "line 2, accuracy.cllr.by: Input should be 'estimate'"),
        ("judged: both\naccuracy: {cllr: {at_most: 1}}\n", "line 1, judged: Input should be 'bounded' or 'raw'"),
        ("accuracy: {cllr: {at_most: 1}}\naccuracy: {}\n", "line 2: the key 'accuracy' stands on line 1"),
        ("accuracy: [\n", "is not YAML"),
        ("judged: raw\naccuracy:\n", "holds no criterion"),
        ("", "holds no criteria"),
        ("- cllr\n", "holds no criteria"),
    ],
)
def test_what_does_not_read_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LindleyError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert "criteria.yaml" in str(error.value)


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match=r"--criteria-template none.yaml"):
        load_criteria(tmp_path / "none.yaml")
    with pytest.raises(LindleyError, match="cannot be read"):
        load_criteria(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"# crit\xe8re\n")
    with pytest.raises(LindleyError, match="not UTF-8"):
        load_criteria(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("criterion", "outcome"),
    [
        ({"at_most": 0.1}, "pass"),
        ({"at_most": 0.0999}, "fail"),
        ({"at_most": 0.12, "by": "interval"}, "fail"),
        ({"at_most": 0.13, "by": "interval"}, "pass"),
        ({"at_least": 0.1}, "pass"),
        ({"at_least": 0.09, "by": "interval"}, "fail"),
        ({"at_least": 0.08, "by": "interval"}, "pass"),
        (None, "no criterion"),
    ],
)
@pytest.mark.parametrize("judged", ["raw", "bounded"])
def test_pass_and_fail(criterion: dict[str, object] | None, outcome: str, judged: str) -> None:
    good, bad = Estimate(0.1, 0.08, 0.13), Estimate(9.0, -9.0, 9.0)
    criteria = Criteria.model_validate({"judged": judged, "accuracy": {"cllr": criterion}})
    pair = {"raw": good, "bounded": bad} if judged == "raw" else {"raw": bad, "bounded": good}
    line = _line("accuracy", "cllr", pair, criteria)  # type: ignore[arg-type]
    assert (line.outcome, line.estimate) == (outcome, good)


def test_infinite_and_missing_figures_are_not_judged() -> None:
    criteria = Criteria.model_validate({"calibration": {"devpav": {"at_most": 1}}})
    endless = Estimate(float("inf"), 0.1, float("inf"))
    line = _line("calibration", "devpav", {"raw": endless, "bounded": endless}, criteria)
    assert (line.outcome, "cannot be known" in line.why) == ("not judged", True)
    line = _line("calibration", "devpav", "there is none", criteria)
    assert (line.outcome, line.why) == ("not judged", "there is none")
    assert _line("calibration", "devpav", "there is none", Criteria()).outcome == "no criterion"


def test_the_verdict_is_pass_only_if_all_pass(tmp_path: Path) -> None:
    system, table, quick = trained(), simulated(60, 3, 4), Settings(replicates=20, draws=2)
    easy = {"accuracy": {"cllr": {"at_most": 5}}, "misleading_evidence": {"different": {"at_most": 1}}}
    passed = validate(system, table, Criteria.model_validate(easy), settings=quick)
    assert passed.verdict == "pass"
    assert validate(system, table, settings=quick).verdict == "no criteria"
    hard = easy | {"discriminating_power": {"eer": {"at_least": 0.9}}}
    failed = validate(system, table, Criteria.model_validate(hard), settings=quick)
    assert failed.verdict == "fail"
    assert [line.outcome for line in failed.lines if line.criterion is not None] == ["pass", "fail", "pass"]
    assert limit(failed.line("discriminating_power", "eer")) == "≥ 90 %"
    texts = {row[1]: row for row in rows(failed)}
    assert texts["Equal error rate"][4:] == ("≥ 90 %", "fail")
    assert texts["Cllr_min"][4:] == ("–", "no criterion")
    assert texts["Cllr"][0] == "Accuracy"

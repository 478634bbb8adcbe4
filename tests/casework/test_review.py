"""A reviewer's second signature: in the log, beside the report, of exact bytes, and never by the examiner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lindley.casework.log import add_to_log, read_log
from lindley.casework.review import OnePerson, may_be_one, read_review, review_file, review_reports
from lindley.cli.commands import app
from lindley.errors import LindleyError
from tests.casework.test_batch import SYSTEM, folder  # noqa: F401 - a fixture


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return result.exit_code, " ".join(result.stdout.split())


@pytest.fixture
def reports(folder: Path) -> Path:  # noqa: F811
    words = ["case", SYSTEM, "--trace", folder / "traces.csv", "--ref", folder / "refs.csv", "--allow-same-file"]
    more = ["--out", folder / "reports", "--log", folder / "log.jsonl", "--case", "A-1", "--examiner", "J. de Vries"]
    status, said = run(*words, *more)
    assert status == 0, said
    return folder / "reports"


def test_a_review_is_in_the_log_and_beside_the_report_and_verify_tells_of_it(reports: Path) -> None:
    log, first = reports.parent / "log.jsonl", sorted(reports.glob("1-*.html"))[0]
    before = len(read_log(log).entries)
    status, said = run("review", first, "--reviewer", "A. Nother", "--log", log, "--remark", "sound")
    assert status == 0
    assert f"reviewed, see {first.name}.review.json" in said
    read = read_log(log)
    assert not read.problems
    entry = read.entries[before]
    assert (entry["reviewer"], entry["examiner"], entry["reviews"], entry["remark"]) == (
        "A. Nother", "J. de Vries", 1, "sound",
    )  # fmt: skip
    assert f"{before + 1} entries, 1 of them a review, nothing is wrong" in run("log", log)[1]
    status, said = run("verify", first, "--systems", SYSTEM)
    assert status == 0
    assert "Reviewed by A. Nother" in said
    page = first.read_bytes()
    place = review_file(first)
    place.write_text(place.read_text().replace("A. Nother", "B. Third"))
    status, said = run("verify", first, "--systems", SYSTEM)
    assert status == 2
    assert "the review beside it was changed after it was written" in said
    assert first.read_bytes() == page


@pytest.mark.parametrize(
    ("reviewer", "said"),
    [
        ("J. de Vries", "examined this case: another has to review it"),
        ("j de vries", "examined this case"),
        ("J.  DE VRIES ", "examined this case"),
        ("Ｊ. de Vries", "examined this case"),
        ("", "a review has a name under it"),
        (" . ", "a review has a name under it"),
        ("x" * 201, "200 letters at most"),
    ],
)
def test_the_examiner_and_nobody_do_not_review(reviewer: str, said: str, reports: Path) -> None:
    log, first = reports.parent / "log.jsonl", sorted(reports.glob("1-*.html"))[0]
    before = log.read_bytes()
    with pytest.raises(LindleyError, match=said):
        review_reports([first], reviewer, log)
    assert log.read_bytes() == before
    assert read_review(first) == (None, "")


ONE_PERSON = [
    ("J. de Vries", "dr. J. de Vries"),
    ("J. de Vries", "de Vries, J."),
    ("J. de Vries", "Vries, J. de"),
    ("J. de Vries", "Prof. dr. ir. J. de Vries, PhD"),
    ("J. de Vries", "Jan de Vries"),
    ("J. de Vries", "J.P. de Vries"),
    ("JP de Vries", "J.P. de Vries"),
    ("J. de Vries", "Vries"),
    ("J. de Vries", "J. dе Vrіеs"),  # letters that are Cyrillic
    ("R. Jański", "R. Janski"),
    ("J. de Vries and A. Nother", "A. Nother"),
    ("J. DE VRIES", "Mw. de Vries"),
]
TWO_PEOPLE = [
    ("J. de Vries", "A. de Vries"),
    ("J. de Vries", "J. de Wit"),
    ("J. de Vries", "Piet de Vries"),
    ("J. de Vries", "J. Jansen"),
    ("Jan Jansen", "Jan Visser"),
    ("M.A. Jansen", "P. Jansen"),
    ("J. de Vries", "de Boer"),
    ("王伟", "李娜"),
]


@pytest.mark.parametrize("pair", ONE_PERSON)
def test_law_what_may_be_one_person_is_so_in_both_directions(pair: tuple[str, str]) -> None:
    assert may_be_one(*pair)
    assert may_be_one(*pair[::-1])
    assert not may_be_one("", pair[0])


@pytest.mark.parametrize("pair", TWO_PEOPLE)
def test_law_what_are_two_people_is_not_asked_about(pair: tuple[str, str]) -> None:
    assert not may_be_one(*pair)
    assert not may_be_one(*pair[::-1])


@pytest.mark.parametrize("reviewer", ["dr. J. de Vries", "Vries, J. de", "J. dе Vries"])
def test_another_spelling_of_the_examiner_is_asked_about_and_the_answer_is_recorded(
    reviewer: str, reports: Path
) -> None:
    log, first = reports.parent / "log.jsonl", sorted(reports.glob("1-*.html"))[0]
    before = log.read_bytes()
    with pytest.raises(OnePerson, match="in another spelling: another has to review it"):
        run("review", first, "--reviewer", reviewer, "--log", log)
    assert log.read_bytes() == before
    assert read_review(first) == (None, "")
    with pytest.raises(LindleyError, match="examined this case"):
        run("review", first, "--reviewer", "J. de Vries", "--log", log, "--other-person")
    assert run("review", first, "--reviewer", reviewer, "--log", log, "--other-person")[0] == 0
    assert read_log(log).entries[-1]["other_person"] is True
    assert "said to be another than the examiner" in run("verify", first, "--systems", SYSTEM)[1]
    review_reports([first], "A. Nother", log, other_person=True)
    assert "other_person" not in read_log(log).entries[-1]


def test_what_was_not_logged_was_changed_or_was_reviewed_already_is_refused_as_a_whole(reports: Path) -> None:
    log = reports.parent / "log.jsonl"
    one, two = sorted(reports.glob("[12]-*.html"))
    before = log.read_bytes()
    two.write_bytes(two.read_bytes() + b" ")
    with pytest.raises(LindleyError, match="is not in the log"):
        review_reports([one, two], "A. Nother", log)
    with pytest.raises(LindleyError, match="is not the report that you read"):
        review_reports([one], "A. Nother", log, seen=["0" * 64])
    assert log.read_bytes() == before
    review_reports([one], "A. Nother", log)
    with pytest.raises(LindleyError, match="already"):
        review_reports([one], "A Nother", log)
    review_reports([one], "B. Third", log)  # another may
    add_to_log(log, [{"report": "x.html", "report_sha256": "0"}])
    log.write_bytes(log.read_bytes().replace(b"B. Third", b"B. Fourth"))
    with pytest.raises(LindleyError, match="damaged"):
        review_reports([one], "C. Fifth", log)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', "[" * 100_000, json.dumps({"sha256": 1}), '{"sha256": "0", "sha256": "1"}']
)
def test_a_review_that_does_not_read_is_told(text: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("a report")
    review_file(report).write_text(text)
    assert read_review(report) == (None, "the review beside it does not read")

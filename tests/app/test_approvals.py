"""Approvals of systems: of exact bytes, kept twice, never taken out; and everything that must not get one through."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lindley.app import approvals
from lindley.app.bench import Bench
from lindley.app.words import Words
from lindley.errors import LindleyError
from tests.app.conftest import Client

GOLDEN = Path(__file__).parents[1] / "casework" / "golden"
T = Words("en")


def put(bench: Bench, golden: str = "robust", name: str = "glass") -> approvals.System:
    """A system that somebody copied into the folder."""
    shutil.copy(GOLDEN / f"{golden}.safetensors", bench.folder / "systems" / f"{name}.safetensors")
    return next(each for each in approvals.systems(bench) if each.file == f"{name}.safetensors")


def validation(bench: Bench, of: approvals.System, verdict: str = "pass", name: str = "one") -> approvals.Validated:
    folder = bench.folder / "systems" / "validations" / name
    folder.mkdir(parents=True)
    lines = [{"characteristic": "accuracy", "title": "Cllr", "outcome": "pass" if verdict == "pass" else "fail"}]
    said = {"verdict": verdict, "system": {"sha256": of.sha256}, "data": {"name": "new.csv"}, "lines": lines}
    (folder / "validation.json").write_text(json.dumps(said))
    (folder / "validation.html").write_text("<h1>Validation</h1>")
    found = approvals.read_validation(bench, f"systems/validations/{name}")
    assert found is not None
    return found


def approve(bench: Bench, of: approvals.System, **given: Any) -> approvals.System:
    passed = given.pop("validation", None) or validation(bench, of, name=given.pop("name", "one"))
    said = {"seen": of.sha256, "who": "A. Analyst", "why": "valid for casework", "exception": "", **given}
    approvals.approve(bench, T, of.id, validation=passed, **said)
    return again(bench, of)


def again(bench: Bench, of: approvals.System) -> approvals.System:
    found = approvals.system(bench, of.id)
    assert found is not None
    return found


def test_only_what_was_approved_is_offered_for_cases(client: Client) -> None:
    bench = client.bench
    first, second = put(bench), put(bench, "normal-logistic", "other")
    assert approvals.approved(bench) == []
    assert approve(bench, first).state == "approved"
    assert [each.file for each in approvals.approved(bench)] == ["glass.safetensors"]
    assert again(bench, second).state == "none"
    beside = json.loads((bench.folder / "systems" / "glass.approvals.json").read_text())
    assert beside["system"] == "glass.safetensors"
    (entry,) = beside["entries"]
    assert entry["who"] == "A. Analyst"
    assert entry["sha256"] == first.sha256
    assert entry["validation"] == "systems/validations/one"
    assert entry["verdict"] == "pass"


def test_a_withdrawal_stands_behind_the_approval_and_nothing_is_taken_out(client: Client) -> None:
    bench = client.bench
    one = approve(bench, put(bench))
    approvals.withdraw(bench, T, one.id, "B. Reviewer", "the laser was replaced")
    one = again(bench, one)
    assert [entry.what for entry in one.entries] == ["approved", "withdrawn"]
    assert one.state == "withdrawn"
    assert approvals.approved(bench) == []
    with pytest.raises(LindleyError, match="nothing to withdraw"):
        approvals.withdraw(bench, T, one.id, "B. Reviewer", "again")
    assert approve(bench, one, name="two").state == "approved"
    assert len(again(bench, one).entries) == 3
    for change in ("DELETE FROM approvals", "UPDATE approvals SET who = 'somebody else'"):
        with pytest.raises(sqlite3.IntegrityError, match="is not"), bench.database.change() as database:
            database.execute(change)


def test_a_file_that_changed_is_no_longer_approved_and_is_again_when_it_is_back(client: Client) -> None:
    bench = client.bench
    one = approve(bench, put(bench))
    path = bench.folder / one.relative
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert again(bench, one).state == "changed"
    assert approvals.approved(bench) == []
    path.write_bytes(whole)
    assert again(bench, one).state == "approved"
    path.unlink()
    assert approvals.systems(bench) == []


def test_without_a_validation_that_passes_a_reason_is_needed_and_is_kept(client: Client) -> None:
    bench = client.bench
    one = put(bench)
    failed = validation(bench, one, "fail")
    assert failed.failed == (("accuracy", "Cllr"),)
    for chosen in (None, failed, validation(bench, one, "no criteria", "none")):
        with pytest.raises(LindleyError, match="No validation that passes"):
            approvals.approve(bench, T, one.id, one.sha256, "A", "because", chosen, " ")
    approvals.approve(bench, T, one.id, one.sha256, "A", "because", failed, "urgent, agreed with the head")
    (entry,) = again(bench, one).entries
    assert (entry.verdict, entry.exception) == ("fail", "urgent, agreed with the head")


def test_a_validation_of_another_file_counts_for_nothing(client: Client) -> None:
    bench = client.bench
    one, other = put(bench), put(bench, "normal-logistic", "other")
    with pytest.raises(LindleyError, match="of another file"):
        approve(bench, one, validation=validation(bench, other))
    assert again(bench, one).entries == ()


def test_what_was_swapped_between_page_and_click_is_refused(client: Client) -> None:
    bench = client.bench
    one = put(bench)
    passed = validation(bench, one)
    seen = one.sha256
    put(bench, "normal-logistic")
    with pytest.raises(LindleyError, match="was changed since its page was shown"):
        approve(bench, one, seen=seen, validation=passed)
    assert approvals.approved(bench) == []


def test_two_who_approve_at_once_leave_one_approval(client: Client) -> None:
    bench = client.bench
    one = approve(bench, put(bench))
    with pytest.raises(LindleyError, match=r"approved already, by A\. Analyst"):
        approve(bench, one, who="B", name="two")
    assert len(again(bench, one).entries) == 1


def test_of_many_who_approve_at_the_same_moment_one_does(client: Client) -> None:
    bench = client.bench
    one = put(bench)
    passed = validation(bench, one)

    def decide(number: int) -> str:
        try:
            approvals.approve(bench, T, one.id, one.sha256, f"Analyst {number}", "good", passed, "")
        except LindleyError as error:
            return str(error)
        return "approved"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(decide, range(16)))
    assert said.count("approved") == 1
    assert sum("approved already" in each for each in said) == 15
    assert len(again(bench, one).entries) == 1
    assert again(bench, one).state == "approved"


def test_a_validation_that_was_changed_after_the_approval_is_told(client: Client) -> None:
    one = approve(client.bench, put(client.bench))
    told = "its figures were changed since"
    assert told not in client.get(f"/systems/{one.id}").text
    place = client.bench.folder / "systems/validations/one/validation.json"
    place.write_text(place.read_text().replace("new.csv", "other.csv"))
    assert told in client.get(f"/systems/{one.id}").text
    place.unlink()
    assert told in client.get(f"/systems/{one.id}").text


@pytest.mark.parametrize(
    ("who", "why", "said"),
    [
        ("", "because", "who decides"),
        (" \u00a0\n", "because", "who decides"),
        ("A", "  ", "and why"),
        ("A" * 201, "because", "200 letters at most"),
        ("A", "b" * 2001, "a reason 2,000"),
        ("A", "b" * 60_000, "write less"),
    ],
)
def test_who_and_why_are_written_and_not_endless(client: Client, who: str, why: str, said: str) -> None:
    one = put(client.bench)
    with pytest.raises(LindleyError, match=said):
        approve(client.bench, one, who=who, why=why)
    assert again(client.bench, one).entries == ()


def _another_name(text: str) -> str:
    return text.replace("A. Analyst", "C. Crook")


def _one_more(text: str) -> str:
    said = json.loads(text)
    return json.dumps({**said, "entries": [*said["entries"], said["entries"][0]]})


@pytest.mark.parametrize(
    "change",
    [
        _another_name,
        _one_more,
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace("lindley-approvals/1", "lindley-approvals/2"),
        lambda text: text.replace('"who": "A. Analyst"', '"who": ["A. Analyst"]'),
        lambda text: "[" * 100_000,
        lambda text: None,
    ],
    ids=["another name", "one more", "empty", "a list", "another format", "no text", "deep", "gone"],
)
def test_lists_that_differ_are_told_and_mended_by_a_new_approval(
    client: Client, change: Callable[[str], str | None]
) -> None:
    bench = client.bench
    one = approve(bench, put(bench))
    place = bench.folder / "systems" / "glass.approvals.json"
    forged = change(place.read_text())
    place.unlink()
    if forged is not None:
        place.write_text(forged)
    assert again(bench, one).state == "differs"
    assert approvals.approved(bench) == []
    assert "is not that in the database" in client.get(f"/systems/{one.id}").text
    assert approve(bench, one, who="D. Head", name="two").state == "approved"
    assert [entry.who for entry in again(bench, one).entries] == ["A. Analyst", "D. Head"]
    aside = list(place.parent.glob("glass.approvals-1-as-found.json"))
    assert [path.read_text() for path in aside] == ([] if forged is None else [forged])


def test_a_database_that_was_lost_is_filled_from_the_files(make_client: Callable[..., Client]) -> None:
    first = make_client()
    approve(first.bench, put(first.bench))
    odd = first.bench.folder / "systems" / "odd.approvals.json"
    odd.write_text('{"format": "lindley-approvals/1", "system": "odd.safetensors", "entries": [{"file": 1}]}')
    first.__exit__(None, None, None)
    for path in first.bench.folder.glob("bench.sqlite*"):
        path.unlink()
    second = make_client()
    (one,) = approvals.approved(second.bench)
    assert one.last is not None
    assert one.last.who == "A. Analyst"


def test_an_approval_whose_file_cannot_be_written_is_none(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    one = put(client.bench)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(approvals, "write_whole", full)
    with pytest.raises(LindleyError, match="No space left on device"):
        approve(client.bench, one)
    assert again(client.bench, one).entries == ()
    assert again(client.bench, one).state == "none"

"""The log of cases: entries that follow each other, and what tells that they do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from lindley.casework import log as logs
from lindley.casework.log import add_to_log, read_log, require_log
from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.files import json_digest, lock
from tests.casework.test_batch import SYSTEM, folder  # noqa: F401 - a fixture


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return result.exit_code, result.stdout


def case(folder: Path, *more: str | Path) -> None:  # noqa: F811
    words = ["case", SYSTEM, "--trace", folder / "traces.csv", "--ref", folder / "refs.csv", "--allow-same-file", *more]
    status, said = run(*words)
    assert status == 0, said


@pytest.fixture
def five(tmp_path: Path) -> Path:
    path = tmp_path / "lindley-log.jsonl"
    for number in range(5):
        add_to_log(path, [{"case": f"A-{number}", "log10_lr": number / 3}])
    return path


def test_every_report_of_a_batch_is_logged(folder: Path) -> None:  # noqa: F811
    out, path = folder / "reports", folder / "reports" / "lindley-log.jsonl"
    out.mkdir()
    case(folder, "--out", out, "--log", path, "--case", "A-1", "--examiner", "J. de Vries")
    log = read_log(path)
    assert not log.problems
    assert [entry["number"] for entry in log.entries] == [1, 2, 3, 4, 5, 6]
    first = log.entries[0]
    assert (first["case"], first["examiner"], first["trace"], first["ref"]) == ("A-1", "J. de Vries", "=1+1", "CON")
    assert first["report"] == "1-1-1-CON.html"
    assert first["previous"] == "0" * 64
    status, said = run("log", path)
    assert status == 0
    assert "6 entries, nothing is wrong" in said
    assert log.last in said
    (out / "3-SUM-A1-CON.html").write_text("another")
    status, said = run("log", path)
    assert status == 2
    assert "3-SUM-A1-CON.html is not the report that entry 3 is about" in " ".join(said.split())


def test_a_matrix_and_a_case_without_a_report_are_logged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    path = folder / "log.jsonl"
    monkeypatch.setenv("LINDLEY_LOG", str(path))
    case(folder, "--out", folder / "matrix.csv")
    case(folder)
    first, second = read_log(path).entries
    assert first["report"] == "matrix.csv"
    assert second["report"] is None
    assert first["log10_lr_bounded"] == second["log10_lr_bounded"]
    assert len(first["trace"]) == 3


def edited(lines: list[str], at: int, *, renew: bool) -> list[str]:
    entry = json.loads(lines[at])
    entry["log10_lr"] = 9.0
    if renew:
        del entry["sha256"]
        entry["sha256"] = json_digest(entry)
    return [*lines[:at], json.dumps(entry), *lines[at + 1 :]]


DAMAGE: dict[str, tuple[Callable[[list[str]], list[str]], list[str]]] = {
    "edited": (lambda n: edited(n, 2, renew=False), ["line 3: entry 3 was edited: it has not the digest that it gives"]),
    "edited, digest renewed": (lambda n: edited(n, 2, renew=True), ["line 4: entry 4 does not follow the one before it"]),
    "one taken out": (lambda n: n[:2] + n[3:], ["line 3: entry 3 is missing before entry 4"]),
    "two taken out": (lambda n: n[:1] + n[3:], ["line 2: entries 2 to 3 are missing before entry 4"]),
    "the first taken out": (lambda n: n[1:], ["line 1: entry 1 is missing before entry 2"]),
    "copied": (lambda n: [*n, n[2]], ["line 6: entry 3 stands behind entry 5"]),
    "exchanged": (lambda n: [n[0], n[2], n[1], *n[3:]], ["line 2: entry 2 is missing", "line 3: entry 2 stands behind"]),
    "no JSON": (lambda n: [*n[:2], "what?", *n[3:]], ["line 3: it is no entry of a log"]),
    "an empty line": (lambda n: [*n, ""], ["line 6: it is no entry of a log"]),
    "a list": (lambda n: [*n[:4], "[]"], ["line 5: it is no entry of a log"]),
    "a number in words": (lambda n: [*n[:4], n[4].replace('"number": 5', '"number": "5"')], ["line 5: it is no entry"]),
    "a key twice": (lambda n: [*n[:4], n[4].replace('"log10_lr"', '"log10_lr": 9.0, "log10_lr"')], ["line 5: it is no entry"]),
    "no digest": (lambda n: [*n[:4], re.sub(', "sha256": "[^"]*"', "", n[4])], ["line 5: it is no entry of a log"]),
    "no previous": (lambda n: [*n[:4], re.sub(', "previous": "[^"]*"', "", n[4])], ["line 5: it is no entry of a log"]),
    "nested": (lambda n: [*n[:4], "[" * 100_000], ["line 5: it is no entry of a log"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_and_nothing_is_added_to_it(name: str, five: Path) -> None:
    damage, messages = DAMAGE[name]
    five.write_text("\n".join(damage(five.read_text().splitlines())) + "\n")
    before = five.read_bytes()
    problems = "\n".join(read_log(five).problems)
    for message in messages:
        assert message in problems
    if len(messages) == 1:
        assert problems.count("line ") == 1
    assert run("log", five)[0] == 2
    with pytest.raises(LindleyError, match="is damaged, and nothing is added to it"):
        require_log(five)  # as every command does before its work
    assert five.read_bytes() == before


AT_THE_END: dict[str, tuple[Callable[[list[str]], str], str]] = {
    "edited": (lambda n: "\n".join(edited(n, 4, renew=False)) + "\n", "entry 5 was edited: it has not the digest"),
    "no JSON": (lambda n: "\n".join([*n, "what?"]) + "\n", "it is no entry of a log"),
    "an empty line": (lambda n: "\n".join(n) + "\n\n", "it is no entry of a log"),
    "half a line": (lambda n: "\n".join(n)[:-9], "it is not whole"),
    "half of the first": (lambda n: n[0][:50], "it is not whole"),
    "long, and no entry": (lambda n: "\n".join([*n, "x" * 50_000]) + "\n", "it is no entry of a log"),
    "a number in words": (lambda n: n[4].replace('"number": 5', '"number": "5"') + "\n", "it is no entry of a log"),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_THE_END)
def test_nothing_is_added_behind_a_damaged_end(name: str, five: Path) -> None:
    damage, message = AT_THE_END[name]
    five.write_text(damage(five.read_text().splitlines()))
    before = five.read_bytes()
    with pytest.raises(LindleyError, match=f"is damaged, and nothing is added to it: the last line: {message}"):
        add_to_log(five, [{"case": "B"}])
    assert five.read_bytes() == before


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("letters", [0, logs.BLOCK - 300, logs.BLOCK, 5 * logs.BLOCK])
def test_entries_follow_the_last_one_however_long_it_is(letters: int, end: str, five: Path) -> None:
    add_to_log(five, [{"case": "x" * letters}])
    five.write_bytes(five.read_bytes().replace(b"\n", end.encode()))
    add_to_log(five, [{"case": "B"}, {"case": "C"}])
    log = read_log(five)
    assert not log.problems
    assert [entry["number"] for entry in log.entries] == list(range(1, 9))


def test_adding_reads_the_end_of_the_log_and_no_more(five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_to_log(five, [{"case": f"C-{number}"} for number in range(2000)])
    seen: list[int] = []
    whole = logs._checked
    monkeypatch.setattr(logs, "_checked", lambda data, **how: seen.append(len(data)) or whole(data, **how))
    add_to_log(five, [{"case": "B"}])
    assert max(seen) < 400


def test_half_a_line_is_told(five: Path) -> None:
    five.write_bytes(five.read_bytes()[:-9])
    assert read_log(five).problems == ("line 5: it is not whole",)


def test_an_end_that_was_cut_off_is_told_by_a_digest_kept_elsewhere(five: Path) -> None:
    last = read_log(five).last
    assert run("log", five, "--holds", last)[0] == 0
    five.write_text("".join(five.read_text().splitlines(keepends=True)[:-1]))
    status, said = run("log", five)
    assert status == 0
    assert "Nothing else tells of an end that was cut off" in " ".join(said.split())
    status, said = run("log", five, "--holds", last)
    assert status == 2
    assert "the end was cut off" in said


def test_line_ends_of_windows_are_no_damage(five: Path) -> None:
    five.write_bytes(five.read_bytes().replace(b"\n", b"\r\n"))
    assert not read_log(five).problems


def test_threads_and_processes_at_once_tear_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = "import sys\nfrom pathlib import Path\nfrom lindley.casework.log import add_to_log\n"
    text += "for n in range(20): add_to_log(Path(sys.argv[1]), [{'by': sys.argv[2], 'n': n}])\n"
    others = [subprocess.Popen([sys.executable, "-c", text, str(path), who]) for who in "ab"]
    threads = [Thread(target=lambda: [add_to_log(path, [{"n": n}]) for n in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait() for other in others] == [0, 0]
    log = read_log(path)
    assert not log.problems
    assert len(log.entries) == 100


def test_a_log_that_somebody_holds_is_waited_for_and_then_told(five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PATIENCE", 0.05)
    before = five.read_bytes()
    with five.open("r+b") as file:
        assert lock(file, five, "")
        with pytest.raises(LindleyError, match="somebody else has been writing to the log"):
            add_to_log(five, [{"case": "B"}])
    assert five.read_bytes() == before


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("no/log.jsonl", "there is no folder"),
        ("traces.csv", "is among the files that are read or written"),
        ("m.csv", "is among the files that are read or written"),
        ("other.txt", "is damaged, and nothing is added to it: line 1: it is no entry of a log"),
        ("reports", "cannot be read"),
    ],
)
def test_a_log_that_cannot_be_is_refused_before_the_work(folder: Path, log: str, message: str) -> None:  # noqa: F811
    (folder / "other.txt").write_text("a letter\n")
    (folder / "reports").mkdir()
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(LindleyError, match=message):
        case(folder, "--out", folder / "m.csv", "--log", folder / log)
    assert {path.name for path in folder.iterdir()} == before
    assert (folder / "other.txt").read_text() == "a letter\n"


def test_a_refused_case_begins_no_log(folder: Path) -> None:  # noqa: F811
    (folder / "refs.csv").write_text("K39,Ti49,Mn55,Rb85\n1e6,1e6,1e6,1e6\n")
    with pytest.raises(LindleyError, match="no LR is given"):
        case(folder, "--log", folder / "log.jsonl")
    assert not (folder / "log.jsonl").exists()


def test_there_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match="there is no log"):
        run("log", tmp_path / "none.jsonl")

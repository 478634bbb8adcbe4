"""What the laboratory calls a case and its items, and the propositions: from options, from a case file, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lindley.casework.laboratory import load_scale, read_notes
from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.pages.case_page import render_case
from lindley.pages.case_record import verify_reports
from lindley.settings import speaking
from lindley.system.system import load
from tests.casework.golden.make import FOLDER
from tests.casework.test_page import text_of
from tests.casework.test_verify import pair

H1, H2 = "the glass on the jacket is of the shop window", "the glass on the jacket is of another window"
SYSTEM = FOLDER / "normal-logistic.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    system = load(SYSTEM)
    for name, values in zip(("trace", "ref"), pair(system), strict=True):
        rows = [",".join(system.columns), *(",".join(map(repr, row)) for row in values.tolist())]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def run(folder: Path, *more: str | Path) -> str:
    words = ["case", SYSTEM, "--trace", folder / "trace.csv", "--ref", folder / "ref.csv", *more]
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("language", ["en", "nl"])
def test_propositions_are_spoken_wherever_there_are_any(language: str) -> None:
    system = load(SYSTEM)
    trace, ref = pair(system)
    case = system.case(trace, ref, h1=H1, h2=H2, language=language)
    text = text_of(render_case(case))
    for default in load_scale("nfi").propositions[language]:
        assert f"{default}." not in text.lower()
    said = text.replace("The glass", "the glass")
    assert said.count(H1) >= 4  # the verbal equivalent, the LR, what it is not, the list; and the ends of the interval
    assert said.count(H2) >= 3
    assert case.to_json()["propositions"] == [H1, H2]
    assert H1 in case.verbal.sentence


def test_below_1_the_propositions_change_places() -> None:
    system = load(SYSTEM)
    case = system.case(pair(system, 11)[0], pair(system, 14)[1], h1=H1, h2=H2)
    assert case.explanation.log10_lr_bounded < 0
    assert case.verbal.sentence.index(H2) < case.verbal.sentence.index(H1)


def test_a_case_file_and_options_that_win(folder: Path) -> None:
    given = {
        "case": "2026-17A", "examiner": "A. Analyst", "laboratory": "Glass & paint", "method": "LA-ICP-MS, G-12",
        "trace_label": "the fragment", "trace_number": "AAAB1234NL", "ref_label": "the window", "ref_number": "X-2",
        "h1": "{trace} comes from {ref}.", "h2": "{trace} comes from elsewhere",
    }  # fmt: skip
    (folder / "case.yaml").write_text(yaml.safe_dump(given), "utf-8")
    out = folder / "report.html"
    content = json.loads(
        run(folder, "--case-file", folder / "case.yaml", "--examiner", "J. de Vries", "--json", "--out", out)
    )
    assert content["examiner"] == "J. de Vries"
    assert (content["laboratory"], content["method"], content["case"]) == (
        "Glass & paint",
        "LA-ICP-MS, G-12",
        "2026-17A",
    )
    assert (content["trace"]["number"], content["ref"]["number"]) == ("AAAB1234NL", "X-2")
    assert content["propositions"] == ["the fragment comes from the window", "the fragment comes from elsewhere"]
    assert '--laboratory "Glass & paint"' in content["command"]
    text = text_of(out.read_text("utf-8"))
    for shown in ("Glass &amp; paint", "LA-ICP-MS, G-12", "the fragment (no. AAAB1234NL)", "the window (no. X-2)"):
        assert shown in text
    (one,) = verify_reports([out], [SYSTEM])
    assert one.same, one.problems


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ("The glass is of the window.", "the glass is of the window"),
        ("  The glass\n is of it ", "the glass is of it"),
        ("Het glas van de ruit komt.", "het glas van de ruit komt"),
        ("Mr. Jones' jacket held it", "Mr. Jones' jacket held it"),
        ("AAAB1 is of AAAB2...", "AAAB1 is of AAAB2"),
    ],
)
def test_a_sentence_becomes_a_clause(given: str, clause: str) -> None:
    assert read_notes(None, {"h1": given, "h2": H2})["h1"] == clause


WRONG: dict[str, tuple[str, str]] = {
    "no such entry": ("labratory: Glass\n", "line 1, labratory: there is no such entry: case, examiner, laboratory"),
    "a number": ("\ncase: 2026\n", 'line 2, case: must be a text: put it between quotation marks, such as "2026-17"'),
    "a date": ("case: 2026-01-17\n", "line 1, case: must be a text: put it between quotation marks"),
    "a list": ("examiner: [A, B]\n", "line 1, examiner: must be a text"),
    "empty": ('method: " "\n', "line 1, method: is empty"),
    "long": (f"method: {'x' * 501}\n", "line 1, method: has 501 letters, and 500 are the most"),
    "one proposition": ("h1: the glass is of it\n", "there are two propositions or none, and h2 is missing"),
    "the same twice": ("h1: the glass is of it\nh2: The glass is of it.\n", "h1 and h2 are the same proposition"),
    "a conjunction": ("h1: that the glass is of it\nh2: it is not\n", "line 1, h1: is read behind 'if'"),
    "one word": ("h1: guilty\nh2: not guilty\n", "line 1, h1: is read behind 'if'"),
    "braces": ("h1: 'the glass {0.__class__} is'\nh2: it is not\n", "may have {trace} and {ref} in it"),
    "a conversion": ("h1: 'the glass of {trace!r}'\nh2: it is not\n", "may have {trace} and {ref} in it"),
    "half a brace": ("h1: 'the glass { is'\nh2: it is not\n", "may have {trace} and {ref} in it"),
    "no names": ("- a\n", "a case file holds names and values"),
    "nothing": ("", "a case file holds names and values"),
    "twice": ("case: A\ncase: B\n", "the key 'case' stands on line 1 already"),
    "code": ("case: !!python/object/apply:os.system [ls]\n", "is not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_case_file_that_does_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    text, message = WRONG[name]
    path.write_text(text, "utf-8")
    with pytest.raises(LindleyError) as caught:
        read_notes(path, {})
    assert message in str(caught.value)
    assert "case.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "shell", "python"),
    [
        ({"method": ""}, "--method: is empty", "method=...: is empty"),
        ({"h1": "if so it is", "h2": H2}, "--h1: is read behind 'if'", "h1=...: is read behind 'if'"),
    ],
)
def test_an_option_is_told_in_the_words_of_its_door(given: dict[str, str], shell: str, python: str) -> None:
    with pytest.raises(LindleyError) as caught:
        read_notes(None, given)
    assert python in str(caught.value)
    with speaking("shell"):
        assert shell in str(caught.value)


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match="there is no case file"):
        read_notes(tmp_path / "none.yaml", {})


def test_a_label_of_one_is_not_for_several(folder: Path) -> None:
    rows = (folder / "trace.csv").read_text().splitlines()
    (folder / "trace.csv").write_text(f"source,{rows[0]}\nA,{rows[1]}\nB,{rows[2]}\n")
    with pytest.raises(LindleyError) as caught, speaking("shell"):
        run(folder, "--trace-label", "the fragment")
    with speaking("shell"):
        assert "--trace-label names one trace, and there are 2" in str(caught.value)

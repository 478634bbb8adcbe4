"""Reports, logs, reviews, signatures, systems and YAML files with something changed in them at random.

Every one of them ends in a verdict or in a `LindleyError`, and none that was changed is told to be the same. A few of each are
tried with all tests; ``python -m tests.attacks.test_mutations MINUTES [SEED]`` goes on for as long as it is asked to.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lindley.casework.applicability import CHECKS
from lindley.casework.case import Case, Notes, evaluate_case
from lindley.casework.laboratory import load_criteria, load_scale, read_notes, read_options
from lindley.casework.log import add_to_log, entry_of, read_log
from lindley.casework.review import read_review, review_file, review_reports
from lindley.cli.commands import app
from lindley.errors import LindleyError
from lindley.experiment.config import load_experiment
from lindley.files import json_digest
from lindley.pages import case_record
from lindley.pages.case_page import render_case
from lindley.pages.case_record import with_record
from lindley.shown import json_text, read_json
from lindley.system.signature import make_keys, sign, signature_file, verify
from lindley.system.system import System, load
from lindley.table.findings import Finding
from tests.casework.golden.make import FOLDER
from tests.casework.test_bad_systems import forged
from tests.casework.test_verify import RECORD, evaluated, pair

SYSTEM = FOLDER / "kernel-ratio.safetensors"
BITS = (
    *' 09-.e<>&,:"\'\\aA%#|~\n\r\t\0\ufeff\u202e\u0430', "E400", "NaN", "null", "true", "[]", "{}", "&lt;", "<!--", "-->",
    "<b hidden>", "</p>", "</section>", "</script>", "<script>", "<style>*{display:none}</style>", "\\ud800", "\\u0000",
    "{trace}", "*a", "&a ", "!!python/object:os.system", "- ", "  ",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2.5, 1e308, -1e-308, 10**18, 10**30, "", "x", "NaN", "\ud800", "\x1b[2J", "<b>", "{trace}", [],
    {}, [[]], [None], {"a": None}, "0.1.9", "9" * 300,
)  # fmt: skip
TEXT = r"<p[^>]*>[^<]*</p>"
MARKUP = (
    (r"<p\b", "<p hidden"), (r"<section\b", "<section hidden"), (r"<b>", "<b style='display:none'>"), (TEXT, r"<!--\g<0>-->"),
    (r"</style>", ".says{display:none}</style>"), (TEXT, ""), (TEXT, r"\g<0>\g<0>"), (r"<li>[^<]*</li>", ""), (r"\d", "7"),
    (r"[a-z]{4,}", "certain"), (r"class=\"[a-z]+\"", ""), (r"</div>", ""), (r"<div>", "<div title='x'>"), (r"\n", "\n\n"),
    (r"\n", " "), (r"#[0-9a-f]{3,6}", "#fff"), (r" d=\"[^\"]*\"", ""), (r"default-src", "x-src"), (r"<body", "<body onload=x"),
    (r"charset=\"utf-8\"", 'charset="utf-7"'), (r"lang=\"\w+\"", 'lang="xx"'), (r"</head>", "<base href='x'></head>"),
)  # fmt: skip


def characters(text: str, rng: random.Random) -> str:
    """A letter, or a few, put in, taken out, doubled, moved or replaced."""
    at, length = rng.randrange(len(text) + 1), rng.choice((1, 1, 1, 2, 5, 40, 2000))
    piece, other = text[at : at + length], rng.randrange(len(text) + 1)
    what = rng.randrange(6)
    put = ("", piece * 2, rng.choice(BITS), rng.choice(BITS) + piece, piece[::-1], text[other : other + length])[what]
    return text[:at] + put + text[at + length :]


def markup(text: str, rng: random.Random) -> str:
    """A tag, an attribute, a style or a comment that says or hides something else."""
    old, new = rng.choice(MARKUP)
    places = list(re.finditer(old, text))
    if not places:
        return text
    found = rng.choice(places)
    return text[: found.start()] + found.expand(new) + text[found.end() :]


def value(content: Any, rng: random.Random) -> None:
    """Something in plain JSON that is another value, is gone, is there once more, or has another name; in place."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(content[key], dict | list) and rng.random() < 0.8:
            content = content[key]
            continue
        what = rng.randrange(6)
        if what == 0:
            del content[key]
        elif what == 1 and isinstance(content, dict):
            content[rng.choice((*keys, "x", "sha256", "format"))] = content.pop(key)
        elif what == 2 and type(content[key]) in (int, float):
            content[key] *= rng.choice((1 + 1e-6, -1, 2, 1e5))
        elif what == 3 and isinstance(content[key], str):
            content[key] = characters(content[key], rng)
        else:
            content[key] = rng.choice(VALUES)
        return


def renewed(content: dict[str, Any]) -> dict[str, Any]:
    """With its digest made anew."""
    content = {name: each for name, each in content.items() if name not in ("sha256", "page_sha256")}
    return {**content, "sha256": json_digest(content)}


# One kind of file each: what it is, how else it is changed, and whether what came of it is as it must be.


@cache
def reported(language: str) -> Case:
    """A case with its own propositions, whose trace is of a file in which something was noticed."""
    case = evaluated("kernel-ratio", language=language, h1="it is the pane", h2="it is another")
    noticed = Finding("warning", "repeated-row", "row 2 repeats row 1", "Look at it", "trace.csv", (1, 2), "K39")
    trace = replace(case.trace, items=replace(case.trace.items, findings=(noticed,), files=(("trace.csv", "0" * 64),)))
    return evaluate_case(case.system, trace, case.ref, case.scale, case.language, case.notes)


def of_report(folder: Path, name: str, text: str) -> case_record.Verification:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    [found] = case_record.verify_reports([path], [SYSTEM])
    assert all((*found.problems, *found.unchecked))
    return found


INPUTS = ("command", "date", "case", "examiner", "laboratory", "method", "versions", "lindley")
"""Of a record: what was typed, and follows from nothing."""


def what_follows(content: dict[str, Any]) -> Any:
    """A record without what is the laboratory's own; the words of a scale that is not ours are."""
    own = {*INPUTS, "sha256", "page_sha256", "warnings", "propositions", "scale", "verbal"}
    kept = {name: each for name, each in content.items() if name not in own}
    kept["system"] = {name: each for name, each in kept["system"].items() if name not in ("file", "signed_by")}
    kept["codes"] = [each["code"] for each in content["warnings"] if each["code"] in CHECKS]
    if content["scale"]["name"] == "NFI":
        kept["scale"] = {name: each for name, each in content["scale"].items() if name != "propositions"}
        kept["verbal"] = {name: each for name, each in content["verbal"].items() if name != "sentence"}
    for side in ("trace", "ref"):
        typed = ("label", "item", "number", "files", "findings")
        kept[side] = {name: each for name, each in kept[side].items() if name not in typed}
    return kept


def try_page(folder: Path, rng: random.Random) -> str:
    language = rng.choice(("en", "nl"))
    page = render_case(reported(language))
    text = page
    if rng.random() < 0.4:
        record = json.loads(RECORD.search(page)[2])
        value(record, rng)
        if rng.random() < 0.5:
            record = renewed(record)
        text = RECORD.sub(lambda found: found[1] + json.dumps(record).replace("<", "\\u003c") + found[3], page)
    else:
        for _ in range(rng.choice((1, 1, 2, 5))):
            text = rng.choice((characters, markup, markup))(text, rng)
    if rng.random() < 0.7 and (found := RECORD.search(text)):
        with suppress(ValueError, AttributeError, RecursionError):
            text = with_record(RECORD.sub(r"\1\3", text), renewed(json.loads(found[2])))
    said = of_report(folder, "report.html", text)
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    assert not said.same or normal == page or inputs_only(normal, page), "a changed page is told to be the same"
    return "same" if said.same else "in part" if not said.problems else "told"


def inputs_only(text: str, page: str) -> bool:
    """Whether pages differ in what is the laboratory's own alone, and stands nowhere but in the record."""
    (one, record), (other, whole) = ((RECORD.sub("", each), RECORD.search(each)) for each in (text, page))
    return one == other and close(what_follows(read_json(record[2])), what_follows(read_json(whole[2])))


def try_record(folder: Path, rng: random.Random) -> str:
    original = reported(rng.choice(("en", "nl"))).to_json()
    text = json_text(original, indent=1) + "\n"
    if rng.random() < 0.6:
        content = json.loads(text)
        for _ in range(rng.choice((1, 1, 3))):
            value(content, rng)
        text = json.dumps(renewed(content) if rng.random() < 0.8 else content)
    else:
        text = characters(text, rng)
    said = of_report(folder, "report.json", text)
    if said.same:
        assert close(what_follows(read_json(text)), what_follows(read_json(json.dumps(original)))), (
            "told to be the same"
        )
    return "same" if said.same else "in part" if not said.problems else "told"


def close(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return bool(abs(one - other) <= 1e-9 * max(1.0, abs(other)))
    return bool(one == other and type(one) is type(other))


def logged(folder: Path) -> Path:
    """A log of five cases, the last of them reviewed."""
    path, report = folder / "log.jsonl", folder / "reviewed.html"
    if not path.exists():
        report.write_text(render_case(reported("en")), "utf-8")
        case = reported("en")
        add_to_log(path, [entry_of(case, Notes(case=f"A-{n}", examiner="J. de Vries"), report) for n in range(5)])
        review_reports([report], "A. Nother", path)
        (folder / "log.whole").write_bytes(path.read_bytes())
        (folder / "review.whole").write_bytes(review_file(report).read_bytes())
    return path


def try_log(folder: Path, rng: random.Random) -> str:
    path = logged(folder)
    whole = (folder / "log.whole").read_text("utf-8")
    text = characters(whole, rng)
    if rng.random() < 0.4:
        lines = whole.splitlines()
        at = rng.randrange(len(lines))
        entry = json.loads(lines[at])
        value(entry, rng)
        lines[at] = json.dumps(renewed(entry) if rng.random() < 0.5 else entry)
        text = "\n".join(lines) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    log = read_log(path)
    known = [json.loads(line) for line in whole.splitlines()]
    told = list(log.entries)
    # The end has nothing behind it: that it was cut off, or written anew with its digest, only --holds tells.
    assert log.problems or told == known[: len(told)] or (told[:-1] == known[: len(told) - 1]), (
        "a changed log is in order"
    )
    CliRunner().invoke(app, ["log", str(path)], catch_exceptions=False)
    return "told" if log.problems else "in order"


def try_review(folder: Path, rng: random.Random) -> str:
    logged(folder)
    report = folder / "reviewed.html"
    whole = json.loads((folder / "review.whole").read_text("utf-8"))
    text = json.dumps(whole, indent=1)
    if rng.random() < 0.5:
        content = json.loads(text)
        value(content, rng)
        text = json.dumps(content)
    else:
        text = characters(text, rng)
    review_file(report).write_bytes(text.encode("utf-8", "surrogatepass"))
    said, doubt = read_review(report)
    assert said is None or doubt or {**said, "sha256": whole["sha256"]} == whole, "a changed review is believed"
    return "told" if doubt else "in order"


def try_signature(folder: Path, rng: random.Random) -> str:
    key, system = folder / "lab", folder / "signed.safetensors"
    data = SYSTEM.read_bytes()
    if not system.exists():
        system.write_bytes(data)
        make_keys(key)
        sign(data, system, key.with_name("lab.private.pem"))
        (folder / "signature.whole").write_bytes(signature_file(system).read_bytes())
    whole = (folder / "signature.whole").read_text("utf-8")
    signature_file(system).write_bytes(characters(whole, rng).encode("utf-8", "surrogatepass"))
    try:
        verify(data, system, key.with_name("lab.public.pem"))
    except LindleyError:
        return "told"
    said = read_json(signature_file(system).read_bytes())
    assert {name: said[name] for name in json.loads(whole)} == json.loads(whole), "another signature is believed"
    return "believed"


@cache
def answer() -> float:
    return float(load(SYSTEM).llr(*pair(load(SYSTEM))))


def try_system(folder: Path, rng: random.Random) -> str:
    path = folder / "mutated.safetensors"
    if rng.random() < 0.4:
        return try_forged(path, rng)
    data = bytearray(SYSTEM.read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(rng.choice((16, header, len(data))))
        what = rng.randrange(4)
        if what == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            data[at : at + rng.choice((1, 8, 100))] = b""
        elif what == 2:
            data[at:at] = rng.choice(BITS).encode("utf-8")
        else:
            data[at : at + 4] = bytes(rng.randrange(256) for _ in range(4))
    path.write_bytes(data)
    try:
        system: System = load(path)
    except LindleyError:
        return "refused"
    assert float(system.llr(*pair(system))) == answer(), "a changed system gives another LR"
    return "the same numbers"


def try_forged(path: Path, rng: random.Random) -> str:
    """A header that says something else, with its digest made anew: what agrees with itself only a signature can tell."""
    with suppress(ValueError):  # what no JSON can hold
        path.write_bytes(forged(lambda header, tensors: value(header, rng)))
        try:
            system = load(path)
            float(system.llr(*pair(system)))
        except LindleyError:
            return "refused"
        return "another system"
    return "refused"


CASE_FILE = """case: "2026-017"
examiner: J. de Vries
trace_label: the fragment from the jacket
h1: "{trace} comes from {ref}"
h2: "{trace} comes from another window"
header_row: 4
decimal: ","
"""
YAMLS: dict[str, tuple[Callable[[], str], Callable[[Path], Any]]] = {
    "run": (lambda: text_of("experiment/demo.yaml"), lambda path: load_experiment(str(path))),
    "paper": (lambda: text_of("experiment/paper.yaml"), lambda path: load_experiment(str(path))),
    "scale": (lambda: text_of("casework/scales/nfi.yaml"), lambda path: load_scale(str(path)).describe(1.5)),
    "criteria": (lambda: text_of("casework/criteria.yaml"), load_criteria),
    "case": (lambda: CASE_FILE, lambda path: (read_notes(path, {}), read_options(path, {}))),
}


@cache
def text_of(place: str) -> str:
    return files("lindley").joinpath(place).read_text("utf-8")


def try_yaml(folder: Path, rng: random.Random) -> str:
    whole, read = rng.choice(list(YAMLS.values()))
    text = whole()
    for _ in range(rng.choice((1, 1, 3))):
        text = characters(text, rng)
    path = folder / "mutated.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read(path)
    except LindleyError as error:
        return "told" if str(error).strip() else "DEFECT: nothing is said"
    return "valid"


KINDS = {
    "page": try_page,
    "record": try_record,
    "log": try_log,
    "review": try_review,
    "signature": try_signature,
    "system": try_system,
    "YAML": try_yaml,
}


@pytest.mark.parametrize("kind", KINDS)
def test_law_nothing_that_was_changed_is_the_same(kind: str, tmp_path: Path) -> None:
    if kind == "signature":
        pytest.importorskip("cryptography")
    rng = random.Random(2026)
    came = Counter(KINDS[kind](tmp_path, rng) for _ in range(60))
    assert came["told"] + came["refused"] > 20  # or nothing was tried


def test_what_was_not_changed_is_the_same(tmp_path: Path) -> None:
    """Or the law above would hold of a command that says no to everything."""
    for language in ("en", "nl"):
        for name, text in (
            ("a.html", render_case(reported(language))),
            ("a.json", json_text(reported(language).to_json())),
        ):
            found = of_report(tmp_path, name, text)
            assert found.same, found
    assert not read_log(logged(tmp_path)).problems
    assert read_review(tmp_path / "reviewed.html")[1] == ""


def main() -> None:
    """Try each kind in turn, for some minutes, and print what came of them; a defect is printed with its seed, and kept."""
    minutes, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    warnings.simplefilter("ignore")
    came: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            for kind, attempt in KINDS.items():
                seed += 1
                try:
                    came[kind][attempt(Path(folder), random.Random(seed))] += 1
                except Exception as error:  # whatever it is, it is what is looked for
                    came[kind][f"DEFECT {type(error).__name__}"] += 1
                    print(f"{kind}, seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    for kind, outcomes in came.items():
        print(f"{kind}: {sum(outcomes.values())} tried: {dict(outcomes)}")


if __name__ == "__main__":
    main()

"""``lindley verify``: a report that says what follows from its measurements, and reports that do not."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lindley.casework.case import Case
from lindley.cli.commands import app
from lindley.pages.case_page import render_case
from lindley.pages.case_record import verify_reports, with_record
from lindley.system.system import System, load
from tests.casework.factory import items
from tests.casework.golden.make import FOLDER, measured

REPORTS = FOLDER / "reports"
RECORD = re.compile(r'(?s)(<script type="application/json" id="record">)(.*?)(</script>)')


def pair(system: System, seed: int = 11) -> tuple[np.ndarray, np.ndarray]:
    values = np.round(measured(system, items(seed, 1, 5)[0]), 6)
    return values[:2], values[2:]


@cache
def evaluated(system: str, **notes: str) -> Case:
    loaded = load(FOLDER / f"{system}.safetensors")
    return loaded.case(*pair(loaded), **{"case": "A-1", "examiner": "J. de Vries", **notes})


@cache
def page(system: str) -> str:
    return render_case(evaluated(system))


def write(folder: Path, name: str = "report.html", system: str = "kernel-ratio", **notes: str) -> Path:
    shutil.copy(FOLDER / f"{system}.safetensors", folder)
    if name.endswith(".html") and not notes:
        (folder / name).write_text(page(system), "utf-8")
    else:
        evaluated(system, **notes).write(folder / name)
    return folder / name


def problems(report: Path, *systems: Path) -> str:
    (one,) = verify_reports([report], systems)
    return "\n".join(one.problems)


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["verify", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("system", "ending"),
    [
        ("kernel-ratio", "html"),
        ("kernel-ratio", "json"),
        ("normal-logistic", "html"),
        ("robust", "html"),
        ("trained-varying", "html"),
    ],
)
def test_a_report_of_every_kind_of_model_is_verified(tmp_path: Path, system: str, ending: str) -> None:
    assert problems(write(tmp_path, f"report.{ending}", system)) == ""


@pytest.mark.parametrize("notes", [{"language": "nl"}, {"scale": "enfsi"}, {"case": "</script><b>&amp; \u202e ${x}"}])
def test_what_is_written_into_a_report_does_no_harm(tmp_path: Path, notes: dict[str, str]) -> None:
    report = write(tmp_path, **notes)
    assert problems(report) == ""
    assert report.read_text("utf-8").count("</script>") == 2


def test_a_report_of_an_older_version(tmp_path: Path) -> None:
    """These files are never made again: what was reported then must be found again now, and what is not checked is said."""
    status, said = run(REPORTS, "--systems", FOLDER)
    assert status == 3, said
    assert said.count("the LR was not computed again, log10 2.02 reported and 2.02 calculated; system old-robust") == 1
    assert said.count("the same LR, log10 2.35 reported and 4.05 calculated; system kernel-ratio.safetensors") == 2
    assert said.count("the same LR, log10 2.35 reported and 2.58 calculated; system kernel-ratio.safetensors") == 1
    assert "4 of 4 reports verified, 4 of them in part." in said
    said = " ".join(said.split())
    assert "written by lindley 0.0.1 • the page itself was not compared, as lindley 0.0.1 wrote it otherwise" in said
    assert "it holds no digest" in said
    assert said.count("verified in part") == 4
    assert "the page itself was not compared, as lindley 0.2.0 wrote it otherwise" in said


@pytest.mark.parametrize("ending", ["html", "json"])
@pytest.mark.parametrize("version", ["0.1.9", "0.2.0", "99.0"])
def test_another_version_in_the_record_switches_nothing_off_unsaid(tmp_path: Path, version: str, ending: str) -> None:
    report = write(tmp_path, f"report.{ending}")

    def older(record: dict) -> None:
        del record["format"]
        record["lindley"] = version
        record["warnings"] = []

    renewed(report, older, lambda page: page.replace("Report the bounded LR.", "Report the larger LR."))
    status, said = run(report)
    assert status == 3
    assert "the same LR and" not in said
    assert "not compared" in said
    renewed(report, set_to("log10_lr_bounded", value=4.0))
    assert run(report)[0] == 2


@pytest.mark.parametrize("version", ["0.2.0", "0.1.9"])
def test_a_digest_that_was_taken_out(tmp_path: Path, version: str) -> None:
    report = write(tmp_path, "report.json")
    record = json.loads(report.read_text("utf-8"))
    del record["sha256"]
    report.write_text(json.dumps(record), "utf-8")
    assert "has not the digest that it was given" in problems(report)
    del record["format"]
    report.write_text(json.dumps({**record, "lindley": version}), "utf-8")
    status, said = run(report)
    assert (status, "it holds no digest" in said) == ((2, False) if version == "0.2.0" else (3, True))


@pytest.mark.parametrize("ending", ["html", "json"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, ending: str) -> None:
    """Readers take the first or the last of them, as they like."""
    report = write(tmp_path, f"report.{ending}")
    text = report.read_text("utf-8")
    report.write_text(text.replace('"log10_lr":', '"log10_lr": 9.9, "log10_lr":', 1), "utf-8")
    status, said = run(report)
    assert status == 2
    assert "the key 'log10_lr' stands twice in it" in said


@pytest.mark.parametrize("ending", ["html", "json"])
def test_what_is_the_laboratorys_own_is_named(tmp_path: Path, ending: str) -> None:
    pixels = tmp_path / "logo.png"
    Image.new("RGB", (30, 20), "navy").save(pixels)
    own = tmp_path / "own.yaml"
    own.write_text(
        files("lindley.casework").joinpath("scales/nfi.yaml").read_text("utf-8").replace("name: NFI", "name: Ours")
    )
    notes = {
        "h1": "it is the pane",
        "h2": "it is another",
        "logo": str(pixels),
        "scale": str(own),
        "trace_label": "a chip",
    }
    report = write(tmp_path, f"report.{ending}", **notes)
    assert problems(report) == ""
    status, said = run(report)
    said = " ".join(said.split())
    assert status == 0, said
    assert "the words are of the scale 'Ours', which is not one of lindley's" in said
    assert "the propositions are 'it is the pane' and 'it is another'" in said
    assert "what its logo shows was not compared" in said


def test_a_scale_of_our_name_has_our_words(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    nfi = files("lindley.casework").joinpath("scales/nfi.yaml").read_text("utf-8")
    own.write_text(nfi.replace("much more probable", "certain"))
    assert "its scale has the name NFI, and not the words" in problems(write(tmp_path, scale=str(own)))


@pytest.mark.parametrize("language", ["en", "nl"])
def test_what_was_noticed_about_the_files_is_drawn_again(tmp_path: Path, language: str) -> None:
    system = FOLDER / "kernel-ratio.safetensors"
    loaded = load(system)
    trace, ref = pair(loaded)
    columns = [*loaded.features, loaded.reference]
    for name, values in (("trace", trace), ("ref", ref)):
        rows = [columns, *values.tolist(), *values[:1].tolist()]  # one stands twice
        (tmp_path / f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    words = ["case", system, "--trace", tmp_path / "trace.csv", "--ref", tmp_path / "ref.csv", "--language", language]
    told = CliRunner().invoke(app, [str(word) for word in (*words, "--out", tmp_path / "report.html")])
    assert told.exit_code == 0, told.output
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "repeated-row" in text
    assert ("rij" in text) == (language == "nl")
    status, said = run(tmp_path / "report.html", "--systems", system)
    assert status == 0, said
    assert "noticed about the files of trace and reference is as the record has it: repeated-row" in " ".join(
        said.split()
    )
    told = CliRunner().invoke(app, [str(word) for word in (*words, "--out", tmp_path / "report.json")])
    assert told.exit_code == 0, told.output

    def silent(record: dict) -> None:
        for side in ("trace", "ref"):
            record[side]["findings"] = [each for each in record[side]["findings"] if each["code"] != "repeated-row"]
        record["warnings"] = [each for each in record["warnings"] if each["code"] != "repeated-row"]

    renewed(tmp_path / "report.json", silent)
    status, said = run(tmp_path / "report.json", "--systems", system)
    assert status == 3, said
    assert "does not tell of repeated-row, which is noticed when its measurements are read again" in " ".join(
        said.split()
    )


def test_line_ends_of_windows_are_no_change(tmp_path: Path) -> None:
    report = write(tmp_path)
    report.write_bytes(report.read_bytes().replace(b"\n", b"\r\n"))
    assert problems(report) == ""


def renewed(report: Path, change: Callable[[dict], None], shown: Callable[[str], str] = lambda page: page) -> None:
    """A forgery with all digests made anew."""
    from lindley.files import json_digest

    text = report.read_text("utf-8")
    record = json.loads(text if report.suffix == ".json" else RECORD.search(text)[2])
    for name in ("page_sha256", "sha256"):
        record.pop(name, None)
    change(record)
    record["sha256"] = json_digest(record)
    text = json.dumps(record) if report.suffix == ".json" else with_record(shown(RECORD.sub(r"\1\3", text)), record)
    report.write_text(text, "utf-8")


def set_to(*path: str | int, value: object) -> Callable[[dict], None]:
    def change(record: dict) -> None:
        at = record
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


FORGERIES: dict[str, tuple[Callable[[dict], None], str]] = {
    "the LR": (set_to("log10_lr", value=5.5), "log10 lr: 5.5 in the report, 2.57556"),
    "the LR a little": (set_to("log10_lr", value=2.57557), "log10 lr: 2.57557 in the report"),
    "the reported LR": (set_to("log10_lr_bounded", value=4.0), "log10 lr bounded: 4.0 in the report, 2.35"),
    "similarity": (set_to("log10_similarity", value=9.0), "log10 similarity: 9.0"),
    "typicality": (set_to("log10_typicality", value=-9.0), "log10 typicality: -9.0"),
    "the bounds": (set_to("bounds", value=[-1.6, 6.0]), "bounds 2: 6.0 in the report, 2.35"),
    "the interval": (set_to("interval", "lower", value=4.0), "interval lower: 4.0"),
    "no interval": (set_to("interval", value=None), "interval: null in the report"),
    "a measurement": (set_to("trace", "measured", 0, "K39", value=400.0), "log10 lr: 2.57556"),
    "the divisor": (set_to("ref", "reference", 0, value=800.0), "log10 lr: 2.57556"),
    "a measurement less": (lambda record: (record["ref"]["measured"].pop(), record["ref"]["reference"].pop()), "log10 lr"),
    "another divisor count": (set_to("ref", "reference", value=[700.0]), "lack values of Si28"),
    "another feature": (set_to("ref", "measured", value=[{"Xe": 1.0}]), "of other features than the system's"),
    "the words": (set_to("verbal", "sentence", value="It is certain."), 'verbal sentence: "It is certain." in the report'),
    "the warnings": (set_to("warnings", value=[]), 'warnings: [] in the report, [{"code": "beyond-bounds"'),
    "another system": (set_to("system", "sha256", value="0" * 64), "is not here"),
    "a measurement far out": (set_to("trace", "measured", 0, "K39", value=1e300), "gives no LR for its measurements"),
    "a negative one": (set_to("trace", "measured", 0, "K39", value=-4.0), "do not read"),
    "no LR": (lambda record: record.pop("log10_lr"), "its record does not read: log10_lr"),
    "an LR in words": (set_to("log10_lr", value="much"), "its record does not read: log10_lr"),
    "no measurements": (set_to("trace", "measured", value=[]), "its record does not read: trace.measured"),
    "a language": (set_to("verbal", "language", value="xx"), "its record does not read: verbal.language"),
}  # fmt: skip


@pytest.mark.parametrize("ending", ["html", "json"])
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forger_who_renews_the_digests_is_told_apart(tmp_path: Path, name: str, ending: str) -> None:
    report = write(tmp_path, f"report.{ending}")
    change, message = FORGERIES[name]
    renewed(report, change)
    status, said = run(report)
    assert status == 2
    assert message in said


@pytest.mark.parametrize("ending", ["html", "json"])
def test_a_digest_that_is_made_anew_tells_nothing(tmp_path: Path, ending: str) -> None:
    """Or the forgeries below would be found by their digests alone."""
    report = write(tmp_path, f"report.{ending}")
    renewed(report, set_to("examiner", value="A. Other"), lambda page: page.replace("J. de Vries", "A. Other"))
    assert problems(report) == ""


# Pages that say something else than what follows, with every digest made anew: each said "the same LR" in 0.2.0.
LIES: dict[str, tuple[str, str]] = {
    "commented out, another shown": ('<p class="says">', '<p class="says">It is certain.</p><!-- <section class="verdict"'),
    "a copy before it": ('<section class="verdict" id="conclusion">', '<div class="verdict">LR = 220,000</div>\\g<0>'),
    "a copy behind it": ("</section>", '</section><section class="verdict"><p>LR = 220,000</p></section>'),
    "hidden": ('<section class="verdict"', "<div hidden>\\g<0>"),
    "hidden by a style": ("</style>", ".verdict { display: none } .top::after { content: 'LR = 220,000' }</style>"),
    "written by a style": ("</style>", ".ratio b { font-size: 0 } .ratio b::after { content: 'LR = 220,000' }</style>"),
    "a warning rewritten": ("Report the bounded LR.", "Report the larger LR."),
    "a warning taken out": ("(?s)<aside.*?</aside>", ""),
    "the steps of the scale": ("slightly more probable", "practically certain"),
    "the reviewer": ('<div><dt>Name</dt></div>', '<div><span class="filled">A. Nother</span><dt>Name</dt></div>'),
    "the LR of the experts": ("(?<=calculated</th><td>)[^<]*", "9.9999"),
    "another policy": ("default-src &#39;none&#39;", "default-src *"),
    "a measured value": ('(?<=<td class="num trace">)[^<]*', "1.0"),
    "a blank": ("</body>", " </body>"),
    "a line at the end": (r"\Z", "\n"),
    "a mark of its bytes at the beginning": (r"\A", "\ufeff"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_page_that_lies_is_not_the_page_of_its_record(name: str, tmp_path: Path) -> None:
    report = write(tmp_path)
    old, new = LIES[name]
    text = report.read_text("utf-8")
    assert re.search(old, text), "there is nothing to forge"
    renewed(report, lambda record: None, lambda page: re.sub(old, new, page, count=1))
    status, said = run(report)
    assert status == 2
    assert "the same" not in said
    assert "the page is not what follows from its record: line" in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("J. de Vries</bdi></dd>", "A. Other</bdi></dd>", "the page was changed after it was written"),
        ('"examiner": "J. de Vries"', '"examiner": "A. Other"', "its record was changed after it was written"),
        ('"page_sha256": "', '"page_sha256": "f', "the page was changed"),
        ('id="record">{', 'id="record">', "its record does not read"),
        ('id="record">{', 'id="record">[{', "its record does not read"),
        ('"log10_lr": ', '"log10_lr": NaN, "other": ', "its record does not read (it holds the number NaN)"),
        ('id="record">', 'id="other">', "holds no record"),
    ],
)
def test_a_slip_of_the_hand(tmp_path: Path, old: str, new: str, message: str) -> None:
    report = write(tmp_path)
    text = report.read_text("utf-8")
    assert old in text
    report.write_text(text.replace(old, new, 1), "utf-8")
    assert message in problems(report)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1, 2]", b"[" * 100_000, b"\xff\xfe", b"null", b'{"log10_lr": 1e999}']
)
@pytest.mark.parametrize("ending", ["html", "json"])
def test_what_is_no_report(tmp_path: Path, content: bytes, ending: str) -> None:
    report = tmp_path / f"report.{ending}"
    report.write_bytes(content)
    status, said = run(report)
    assert status == 2
    assert "not verified" in said
    assert "Traceback" not in said


def test_a_folder_and_an_archive(tmp_path: Path) -> None:
    for name in ("one.html", "two.json"):
        write(tmp_path, name)
    (tmp_path / "matrix.json").write_text('{"log10_lr": [[1.0]]}')
    (tmp_path / "page.html").write_text("<!doctype html>")
    archive = tmp_path / "archive"
    archive.mkdir()
    (tmp_path / "kernel-ratio.safetensors").rename(archive / "2026-renamed.safetensors")
    status, said = run(tmp_path)
    assert status == 2
    assert said.count("its system ('kernel-ratio.safetensors') is not here") == 2
    for systems in (archive, archive / "2026-renamed.safetensors"):
        status, said = run(tmp_path, "--systems", systems)
        assert status == 0
        assert "2 of 2 reports verified." in said

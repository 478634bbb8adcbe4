"""``lindley verify``: a report that says what follows from its measurements, and reports that do not."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
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
    """These files are never made again: what was reported then must be found again now."""
    status, said = run(REPORTS, "--systems", FOLDER)
    assert status == 0, said
    assert said.count("the same LR, log10 2.35 reported and 4.05 calculated; system kernel-ratio.safetensors") == 2
    assert "2 of 2 reports verified." in said
    assert "written by lindley 0.0.1" in said


def test_line_ends_of_windows_are_no_change(tmp_path: Path) -> None:
    report = write(tmp_path)
    report.write_bytes(report.read_bytes().replace(b"\n", b"\r\n"))
    assert problems(report) == ""


def renewed(report: Path, change: Callable[[dict], None], shown: Callable[[str], str] = lambda page: page) -> None:
    """A forgery with all digests made anew."""
    from lindley.experiment.folder import json_digest

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
    "the bounds": (set_to("bounds", value=[-1.6, 6.0]), "upper bound: 6.0 in the report, 2.35"),
    "the interval": (set_to("interval", "lower", value=4.0), "lower end of the interval: 4.0"),
    "no interval": (set_to("interval", value=None), "has an interval"),
    "a measurement": (set_to("trace", "measured", 0, "K39", value=400.0), "log10 lr: 2.57556"),
    "the divisor": (set_to("ref", "reference", 0, value=800.0), "log10 lr: 2.57556"),
    "a measurement less": (lambda record: (record["ref"]["measured"].pop(), record["ref"]["reference"].pop()), "log10 lr"),
    "another divisor count": (set_to("ref", "reference", value=[700.0]), "lack values of Si28"),
    "another feature": (set_to("ref", "measured", value=[{"Xe": 1.0}]), "of other features than the system's"),
    "the words": (set_to("verbal", "sentence", value="It is certain."), "the report says 'It is certain.'"),
    "the warnings": (set_to("warnings", value=[]), "does not tell of: beyond-bounds"),
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
    renewed(report, set_to("examiner", value="A. Other"))
    assert problems(report) == ""


def test_a_page_that_concludes_otherwise_than_its_record(tmp_path: Path) -> None:
    report = write(tmp_path)
    renewed(report, lambda record: None, lambda page: page.replace("LR = 220", "LR = 220,000"))
    assert problems(report) == "the conclusion of the page does not say 'LR = 220', which follows from its measurements"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<p class="says">', '<p class="says">It is certain. '),
        ('<p class="prior">', '<p class="prior">It was he. '),
        ('<p class="ratio">', '<p class="ratio" hidden>'),
        ("<figure>", "<figure hidden>"),
    ],
)
def test_a_conclusion_with_more_or_less_in_it(tmp_path: Path, old: str, new: str) -> None:
    report = write(tmp_path)
    renewed(report, lambda record: None, lambda page: page.replace(old, new, 1))
    assert "is not, word for word and line for line, what follows" in problems(report)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("J. de Vries</bdi></dd>", "A. Other</bdi></dd>", "the page was changed after it was written"),
        ('"examiner": "J. de Vries"', '"examiner": "A. Other"', "its record was changed after it was written"),
        ('"page_sha256": "', '"page_sha256": "f', "the page was changed"),
        ('id="record">{', 'id="record">', "its record does not read"),
        ('id="record">{', 'id="record">[{', "its record does not read"),
        ('"log10_lr": ', '"log10_lr": NaN, "other": ', "its record does not read: log10_lr"),
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

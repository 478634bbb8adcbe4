"""Reports as PDF files: the same pages, nothing loaded, and the report of a case inside.

By WeasyPrint and by a browser; where one of them is missing, its tests are skipped, and say what is missing.
"""

from __future__ import annotations

import io
import socket
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from pypdf import PdfReader

from lindley.errors import LindleyError
from lindley.pages import pdf
from lindley.pages.case_record import reports_in, verify_reports
from lindley.pages.pdf import attached_page, find_browser, page_as_pdf
from lindley.pages.run_page import write_report
from lindley.pages.validation_page import write_validation
from tests.attacks.door import lindley
from tests.attacks.test_logos import case
from tests.attacks.test_screen import validation
from tests.casework import factory
from tests.casework.golden.make import FOLDER
from tests.command import missing_for_pdf
from tests.pages.factory import make_report


def only(writer: str, patch: pytest.MonkeyPatch) -> None:
    """Have PDF files written by this one alone; the test is skipped, with the reason, where it is not there."""
    found, missing = pdf._weasyprint()
    if writer == "weasyprint":
        if found is None:
            pytest.skip(missing)
        patch.setattr(pdf, "find_browser", lambda: None)
    else:
        if find_browser() is None:
            pytest.skip("neither Chrome, Chromium nor Edge was found")
        patch.setattr(pdf, "_weasyprint", lambda: (None, "WeasyPrint is left out"))


@pytest.fixture(params=["weasyprint", "browser"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What writes PDF files in a test."""
    only(request.param, monkeypatch)


@pytest.fixture
def any_writer() -> None:
    if missing := missing_for_pdf():
        pytest.skip(missing)


by_each = pytest.mark.usefixtures("writer")


def pages(data: bytes) -> int:
    return len(PdfReader(io.BytesIO(data)).pages)


def text_of(data: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


@by_each
def test_a_case_as_pdf_is_verified(tmp_path: Path) -> None:
    out = tmp_path / "report.pdf"
    assert case(tmp_path, "--out", tmp_path / "report.html").status == 0
    answer = case(tmp_path, "--out", out, "--language", "nl")
    assert answer.status == 0, answer.err
    assert f"Report: {out}" in answer.out
    data = out.read_bytes()
    assert data.startswith(b"%PDF")
    assert 4 <= pages(data) <= 12
    assert b"http://" not in data.replace(b"http://www.w3.org", b"").replace(b"http://ns.adobe.com", b"")
    page = attached_page(data)
    assert page is not None
    assert "Conclusie" in page
    shown = " ".join(text_of(data).split())
    assert "De bevindingen zijn" in shown
    assert "Elk van deze punten is nagegaan" in shown, "what is folded in the page is not folded on paper"
    told = lindley("verify", out, "--systems", FOLDER)
    assert told.status == 0, told.text
    assert "the same LR and the same pages" in told.out
    import weasyprint

    attached = [weasyprint.Attachment(string=page, name="report.html")]
    lying = weasyprint.HTML(string="<p>LR = 220 000</p>").write_pdf(attachments=attached)
    for forged in (lying, data + b"\n"):
        out.write_bytes(forged)
        told = lindley("verify", out, "--systems", FOLDER)
        said = " ".join(told.out.split())
        assert told.status == 3, told.text
        assert "the same LR, log10" in said
        assert "the pages that the PDF shows were not compared" in said
        assert "Compare what it shows: De bevindingen zijn" in said
    assert reports_in([tmp_path]) == [tmp_path / "report.html", out]


@pytest.mark.usefixtures("any_writer")
def test_what_is_inside_and_was_changed_is_told(tmp_path: Path) -> None:
    assert case(tmp_path, "--out", tmp_path / "report.html").status == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "forged.pdf").write_bytes(
        page_as_pdf(page.replace("much more probable", "more probable"), "report.html")
    )
    [found] = verify_reports([tmp_path / "forged.pdf"], [FOLDER])
    assert "the page was changed after it was written" in " ".join(found.problems)


@by_each
def test_nothing_is_loaded_and_no_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the key of the archive")
    (tmp_path / "secret.js").write_text("document.write('the key of the archive')")
    secret, script = (tmp_path / "secret.txt").as_uri(), (tmp_path / "secret.js").as_uri()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        there = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        hostile = "".join(
            f'<img src="{address}"><link rel="stylesheet" href="{address}"><link rel="attachment" href="{address}">'
            f'<a rel="attachment" href="{address}">x</a><object data="{address}"></object><embed src="{address}">'
            f'<iframe src="{address}"></iframe><svg><image href="{address}"/></svg><link rel="preconnect" href="{address}">'
            f'<style>@import url("{address}"); @font-face {{ font-family: x; src: url("{address}") }}</style>'
            "<style>p { font-family: x }</style>"
            f'<META HTTP-EQUIV="refresh" CONTENT="0; url={address}"><base href="{address}"><form action="{address}"></form>'
            for address in (secret, there)
        )
        scripts = (
            '<script>document.write("n" + "o")</script><SCRIPT>document.write("n" + "o")</SCRIPT><svg onload="alert(1)"></svg>'
            f'<script src="{script}"></script><img src="x" onerror="document.body.textContent=1 + 1">'
        )
        data = page_as_pdf(f"<html><body>{scripts}<p>yes</p>{hostile}<noscript><p>without</p></noscript></body></html>")
        with pytest.raises(BlockingIOError):
            server.accept()
    shown = text_of(data)
    assert "yes" in shown
    assert "without" in shown
    assert "no" not in shown.replace("without", "")
    assert "key" not in shown
    assert attached_page(data) is None


@by_each
def test_the_same_page_gives_the_same_file() -> None:
    page = "<html><head><title>x</title></head><body><p>1\u202f234,5</p></body></html>"
    assert page_as_pdf(page, "report.html") == page_as_pdf(page, "report.html")
    assert attached_page(page_as_pdf(page, "report.html")) == page


@by_each
def test_a_validation_and_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.pages.run_page.draw_pictures", lambda report, **_: {})  # takes seconds
    write_validation(validation(), tmp_path, pdf=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["validation.html", "validation.json", "validation.pdf"]
    assert 3 <= pages((tmp_path / "validation.pdf").read_bytes()) <= 8
    write_report(make_report(axes=3, neural=0, sources=20), tmp_path / "run", pdf=True)
    assert 4 <= pages((tmp_path / "run" / "report.pdf").read_bytes()) <= 30
    write_report(make_report(axes=3, neural=0, sources=20), tmp_path / "run")
    assert not (tmp_path / "run" / "report.pdf").exists()  # it would be of another page
    assert reports_of(tmp_path / "validation.pdf") == "the PDF holds no page of lindley as an attached file"
    write_validation(validation(), tmp_path)
    assert not (tmp_path / "validation.pdf").exists()


@by_each
def test_a_matrix(tmp_path: Path) -> None:
    labels = [f"{side} {number}" for side in ("left", "right") for number in (1, 2)]
    factory.write_csv(tmp_path / "items.csv", np.concatenate(factory.items(8, 4, 1)), source=labels)
    given = ("--trace", tmp_path / "items.csv", "--ref", tmp_path / "items.csv", "--allow-same-file")
    answer = lindley("case", FOLDER / "normal-logistic.safetensors", *given, "--out", tmp_path / "matrix.pdf")
    assert answer.status == 0, answer.err
    assert pages((tmp_path / "matrix.pdf").read_bytes()) in (1, 2)


def reports_of(path: Path) -> str:
    [found] = verify_reports([path])
    return found.problems[0].split(":")[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"%PDF-1.7", b"/EmbeddedFile stream\nnot packed", b"/EmbeddedFile >>stream\n" + zlib.compress(b"\xff\xfe"),
     b"/EmbeddedFile >>stream\n" + zlib.compress(b"x" * 1000)[:-6], b"/EmbeddedFile >>stream\n" * 2],
)  # fmt: skip
def test_a_pdf_of_another_program_is_told(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(data)
    [found] = verify_reports([tmp_path / "scan.pdf"])
    assert "holds no page of lindley as an attached file" in found.problems[0]
    with pytest.raises(LindleyError, match="holds no report"):
        reports_in([tmp_path])


def test_a_bomb_inside_a_pdf_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "limit", lambda name: 1)
    bomb = io.BytesIO()
    packer = zlib.compressobj()
    for _ in range(20):
        bomb.write(packer.compress(bytes(1_000_000)))
    assert attached_page(b"/EmbeddedFile >>stream\n" + bomb.getvalue() + packer.flush()) is None


class Broken:
    """WeasyPrint that is not there, or does not find its libraries."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "weasyprint":
            raise self.error


@pytest.fixture(
    params=[(ImportError("no"), "WeasyPrint is not installed"), (OSError("no"), "does not find the library Pango")]
)
def what_is_missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    error, message = request.param
    for name in [name for name in sys.modules if name.startswith("weasyprint")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(error), *sys.meta_path])
    return str(message)


def test_without_either_it_says_what_is_missing_and_how_to_print(
    what_is_missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "find_browser", lambda: None)
    answer = case(tmp_path, "--out", tmp_path / "report.pdf")
    assert (answer.status, answer.out) == (2, "")
    said = " ".join(answer.err.split())
    assert what_is_missing in said
    assert "neither Chrome, Chromium nor Edge was found" in said
    assert "print it there to a PDF file" in said
    assert not (tmp_path / "report.pdf").exists()


@pytest.mark.usefixtures("what_is_missing")
def test_without_weasyprint_the_browser_prints() -> None:
    if find_browser() is None:
        pytest.skip("neither Chrome, Chromium nor Edge was found")
    assert attached_page(page_as_pdf("<p>x</p>", "report.html")) == "<p>x</p>"


BROKEN = {
    "ends": ("#!/bin/sh\necho no display >&2\nexit 3\n", "status 3; it said: no display"),
    "hangs": ("#!/bin/sh\nexec sleep 60\n", "status TimeoutExpired"),
    "is none": ("", "status "),
}


@pytest.mark.skipif(sys.platform == "win32", reason="scripts of a POSIX shell")
@pytest.mark.parametrize(("script", "message"), BROKEN.values(), ids=BROKEN)
def test_a_browser_that_prints_nothing_is_told(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(script)
    browser.chmod(0o755)
    monkeypatch.setattr(pdf, "_weasyprint", lambda: (None, ""))
    monkeypatch.setattr(pdf, "find_browser", lambda: str(browser))
    monkeypatch.setattr(pdf, "TIMEOUT", 0.5)
    with pytest.raises(LindleyError, match="printed no PDF") as told:
        page_as_pdf("<p>x</p>")
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("platform", "environment", "place"),
    [
        ("win32", "PROGRAMFILES(X86)", "Microsoft/Edge/Application/msedge.exe"),
        ("win32", "LOCALAPPDATA", "Google/Chrome/Application/chrome.exe"),
        ("linux", "PATH", "google-chrome-stable"),
        ("linux", "PATH", "microsoft-edge"),
    ],
)
def test_browsers_are_found_where_they_are_installed(
    platform: str, environment: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROGRAMFILES(X86)", "PROGRAMFILES", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pdf, "BROWSERS_ON_A_MAC", ())
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert find_browser() is None
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch(0o755)
    monkeypatch.setenv(environment, str(tmp_path))
    assert find_browser() == str(tmp_path / place)

"""Reports as PDF files: the same pages, nothing loaded, and the report of a case inside. Skipped without WeasyPrint."""

from __future__ import annotations

import io
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.pages import pdf
from lindley.pages.case_record import reports_in, verify_reports
from lindley.pages.pdf import attached_page, page_as_pdf, require_pdf
from lindley.pages.run_page import write_report
from lindley.pages.validation_page import write_validation
from tests.attacks.door import lindley
from tests.attacks.test_logos import case
from tests.attacks.test_screen import validation
from tests.casework import factory
from tests.casework.golden.make import FOLDER
from tests.pages.factory import make_report


def is_there() -> bool:
    try:
        require_pdf()
    except LindleyError:
        return False
    return True


needs_pdf = pytest.mark.skipif(not is_there(), reason="WeasyPrint is not installed: pip install 'lindley[pdf]'")


def pages(data: bytes) -> int:
    """As the file says, in its parts that are packed."""
    unpacked = b"".join(_streams(data))
    return len(re.findall(rb"/Type /Page\b", data + unpacked))


def _streams(data: bytes) -> Any:
    for found in re.finditer(rb"stream\r?\n", data):
        try:
            yield zlib.decompressobj().decompress(data[found.end() :])
        except zlib.error:
            continue


@needs_pdf
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


@needs_pdf
def test_what_is_inside_and_was_changed_is_told(tmp_path: Path) -> None:
    assert case(tmp_path, "--out", tmp_path / "report.html").status == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "forged.pdf").write_bytes(
        page_as_pdf(page.replace("much more probable", "more probable"), "report.html")
    )
    [found] = verify_reports([tmp_path / "forged.pdf"], [FOLDER])
    assert "the page was changed after it was written" in " ".join(found.problems)


@needs_pdf
def test_nothing_is_loaded_and_no_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the key of the archive")
    secret = (tmp_path / "secret.txt").as_uri()
    hostile = (
        f'<img src="{secret}"><img src="http://127.0.0.1:9/x.png"><link rel="stylesheet" href="{secret}">'
        f'<link rel="attachment" href="{secret}"><a rel="attachment" href="{secret}">x</a><object data="{secret}"></object>'
        f'<style>@import url("{secret}"); @font-face {{ font-family: x; src: url("{secret}") }}</style>'
        f'<svg><image href="{secret}"/></svg><embed src="{secret}"><script>document.write("no")</script><p>yes</p>'
    )
    data = page_as_pdf(f"<html><body>{hostile}</body></html>")
    assert b"the key of the archive" not in data + b"".join(_streams(data))
    assert attached_page(data) is None


@needs_pdf
def test_the_same_page_gives_the_same_file() -> None:
    page = "<html><head><title>x</title></head><body><p>1\u202f234,5</p></body></html>"
    assert page_as_pdf(page, "report.html") == page_as_pdf(page, "report.html")
    assert attached_page(page_as_pdf(page, "report.html")) == page


@needs_pdf
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


@needs_pdf
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


@pytest.mark.parametrize(("error", "message"), [(ImportError("no"), "needs the extra 'pdf'"), (OSError("no"), "Pango")])
def test_without_the_extra_it_says_how_to_print(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "weasyprint":
                raise error

    for name in [name for name in sys.modules if name.startswith("weasyprint")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    answer = case(tmp_path, "--out", tmp_path / "report.pdf")
    assert (answer.status, answer.out) == (2, "")
    said = " ".join(answer.err.split())
    assert message in said
    assert "print it there to a PDF file" in said
    assert not (tmp_path / "report.pdf").exists()

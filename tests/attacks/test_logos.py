"""Files given as a laboratory's logo: what is no picture gets into no report, and nothing but pixels of what is one."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image, ImageFile, PngImagePlugin

from lindley.casework import laboratory
from lindley.casework.laboratory import LOGO_SIZE, load_logo
from lindley.errors import LindleyError
from tests.attacks.door import Answer, lindley
from tests.casework import factory
from tests.casework.golden.make import FOLDER

SECRET = "gps=52.04,4.49 <script>alert(1)</script>"


def png(size: tuple[int, int] = (60, 20), **more: object) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, "#0b4775").save(data, format="PNG", **more)
    return data.getvalue()


def jpeg(**more: object) -> bytes:
    data = io.BytesIO()
    Image.new("CMYK" if more.pop("cmyk", False) else "RGB", (60, 20), 7).save(data, format="JPEG", **more)
    return data.getvalue()


def other(kind: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (6, 6)).save(data, format=kind)
    return data.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def claims(width: int, height: int) -> bytes:
    """A PNG file of some bytes that says that it has so many pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


NO_PICTURE = "is no PNG or JPEG picture"
HOSTILE = {
    "a drawing that runs scripts": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', NO_PICTURE),
    "a drawing that loads": (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://x/y.png"/></svg>', NO_PICTURE),
    "a page": (b"<html><script>alert(1)</script></html>", NO_PICTURE),
    "nothing": (b"", NO_PICTURE),
    "text": (b"logo", NO_PICTURE),
    "a program": (b"MZ\x90\x00" + bytes(200), NO_PICTURE),
    "a moving picture": (other("GIF"), NO_PICTURE),
    "a bitmap": (other("BMP"), NO_PICTURE),
    "a TIFF": (other("TIFF"), NO_PICTURE),
    "a WebP": (other("WEBP"), NO_PICTURE),
    "an icon": (other("ICO"), NO_PICTURE),
    "Postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(ls) run", NO_PICTURE),
    "a PDF": (b"%PDF-1.7\n1 0 obj\n", NO_PICTURE),
    "a zip": (b"PK\x03\x04" + bytes(60), NO_PICTURE),
    "the first bytes of a PNG": (png()[:8], "logo"),
    "half a PNG": (png((300, 300), compress_level=0)[:2000], "is damaged"),
    "half a JPEG": (jpeg(quality=95)[:300], "logo"),
    "a PNG with a broken part": (png().replace(b"IDAT", b"IDAX"), "logo"),
    "a PNG whose sum is wrong": (png()[:40] + b"\xff" + png()[41:], "logo"),
    "a bomb of pixels": (claims(60_000, 60_000), "5,000 are the most of a side"),
    "a bomb in one direction": (claims(1, 2_000_000), "5,000 are the most of a side"),
    "no pixels": (claims(0, 0), "logo"),
    "fewer pixels than it says": (claims(4000, 4000), "is damaged"),
    "megabytes": (png() + bytes(5_000_001), "larger than 5 MB"),
}  # fmt: skip


def case(folder: Path, *more: str | Path) -> Answer:
    a = factory.items(3, 1, 5)[0]
    factory.write_csv(folder / "trace.csv", a[:2])
    factory.write_csv(folder / "ref.csv", a[2:])
    system = FOLDER / "normal-logistic.safetensors"
    return lindley("case", system, "--trace", folder / "trace.csv", "--ref", folder / "ref.csv", *more)


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_logo_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, message = HOSTILE[what]
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint does
    (tmp_path / "logo.png").write_bytes(data)
    with pytest.raises(LindleyError, match=message) as told:
        load_logo(tmp_path / "logo.png")
    assert str(told.value).startswith(f"the logo {tmp_path / 'logo.png'} ")
    assert "Traceback" not in str(told.value)


@pytest.mark.parametrize("place", ["missing.png", "folder", "a\x00b.png"])
def test_what_cannot_be_read_is_told(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LindleyError, match="cannot be read"):
        load_logo(tmp_path / place)


def test_a_refused_logo_leaves_no_report(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(HOSTILE["a drawing that runs scripts"][0])
    answer = case(tmp_path, "--logo", tmp_path / "logo.svg", "--out", tmp_path / "report.html")
    assert (answer.status, answer.out) == (2, "")
    assert "SVG among them, are not taken" in " ".join(answer.err.split())
    assert not (tmp_path / "report.html").exists()


def info() -> PngImagePlugin.PngInfo:
    kept = PngImagePlugin.PngInfo()
    kept.add_text("Comment", SECRET)
    return kept


@pytest.mark.parametrize(
    "data",
    [png(), png((4000, 1000)), png(pnginfo=info()), png() + SECRET.encode(), jpeg(), jpeg(comment=SECRET.encode()),
     jpeg(cmyk=True), png().replace(b"PNG", b"PNG")],
    ids=["PNG", "large", "with a comment", "with more behind it", "JPEG", "JPEG with a comment", "of a printer", "again"],
)  # fmt: skip
def test_nothing_but_pixels_gets_into_a_report(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "our logo.jpg").write_bytes(data)  # known by its content, and not by its name
    answer = case(tmp_path, "--logo", tmp_path / "our logo.jpg", "--out", tmp_path / "report.html")
    assert answer.status == 0, answer.err
    page = (tmp_path / "report.html").read_text("utf-8")
    [address] = re.findall(r'<img class="logo" src="([^"]+)"', page)
    kind, _, content = address.partition(",")
    assert kind == "data:image/png;base64"
    picture = base64.b64decode(content)
    assert SECRET.encode() not in picture
    with Image.open(io.BytesIO(picture)) as shown:
        assert shown.width <= LOGO_SIZE[0]
        assert shown.height <= LOGO_SIZE[1]
        assert not shown.info.get("Comment")
    record = json.loads(page.split('id="record">')[1].split("</script>")[0])
    assert record["logo"] == {"file": "our logo.jpg", "sha256": hashlib.sha256(data).hexdigest()}
    assert '--logo "our logo.jpg"' in record["command"]
    assert str(tmp_path) not in page
    assert lindley("verify", tmp_path / "report.html", "--systems", FOLDER).status == 0


def test_a_case_file_names_a_logo_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "logo.png").write_bytes(png())
    (tmp_path / "lab" / "case.yaml").write_text("laboratory: Glass\nlogo: logo.png\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    answer = case(tmp_path, "--case-file", "lab/case.yaml", "--out", tmp_path / "report.html")
    assert answer.status == 0, answer.err
    assert '<img class="logo"' in (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "lab" / "case.yaml").write_text("logo: 17\n", "utf-8")
    assert "must be a text" in case(tmp_path, "--case-file", "lab/case.yaml").err


def test_a_matrix_has_the_logo_too(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(png())
    answer = case(tmp_path, "--logo", tmp_path / "logo.png", "--out", tmp_path / "reports")
    assert answer.status == 0, answer.err
    pages = list((tmp_path / "reports").glob("*.html"))
    assert len(pages) == 2
    assert all('<img class="logo"' in page.read_text("utf-8") for page in pages)


def test_one_limit_is_where_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(laboratory, "MOST_LOGO_PIXELS", 59)
    (tmp_path / "logo.png").write_bytes(png())
    with pytest.raises(LindleyError, match="has too many pixels \\(60 × 20\\), and 59 are the most"):
        load_logo(tmp_path / "logo.png")

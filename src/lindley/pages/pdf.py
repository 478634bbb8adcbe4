"""A page as a PDF file: by WeasyPrint, the extra ``pdf``, where its libraries are; else by the browser of the machine.

Nothing is loaded from anywhere, and no script runs. The report of a case is inside its PDF once more, as an attached file: the
page with its record, from which ``lindley verify`` computes the case again.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from lindley.errors import LindleyError
from lindley.limits import limit

__all__ = ["attached_page", "find_browser", "page_as_pdf", "require_pdf"]

Write = Callable[[str, str | None], bytes]
INSTEAD = "Or write .html, open it in a browser, and print it there to a PDF file"
TIMEOUT = 100
"""Seconds for a browser, which takes two on an idle machine."""
BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "microsoft-edge-stable",
)  # fmt: skip
BROWSERS_ON_WINDOWS = ("Microsoft/Edge/Application/msedge.exe", "Google/Chrome/Application/chrome.exe")
BROWSERS_ON_A_MAC = ("Google Chrome", "Microsoft Edge", "Chromium")
_HEAD = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:\">"
)
_SCRIPTS = re.compile(r"<script\b.*?</script>", re.S)
_ATTACHED = re.compile(rb"/EmbeddedFile\b.{,500}?stream\r?\n", re.S)


def require_pdf() -> Write:
    """What writes PDF files on this machine; or what to do where there is nothing."""
    weasyprint, missing = _weasyprint()
    if weasyprint is not None:
        return partial(_by_weasyprint, weasyprint)
    browser = find_browser()
    if browser is not None:
        return partial(_by_browser, browser)
    raise LindleyError(
        f"a PDF needs WeasyPrint or a browser: {missing}, and neither Chrome, Chromium nor Edge was found (see 'On paper and "
        f"as PDF' in the documentation of reports). {INSTEAD}"
    )


def page_as_pdf(page: str, attached: str | None = None) -> bytes:
    """The pages on paper, as `style.css` prints them; with the page itself attached, by the name ``attached``."""
    return require_pdf()(page, attached)


def find_browser() -> str | None:
    """The program of a browser that prints without a window, of the usual names and places."""
    if sys.platform == "win32":
        folders = filter(None, map(os.environ.get, ("PROGRAMFILES(X86)", "PROGRAMFILES", "LOCALAPPDATA")))
        places = [Path(folder, program) for folder in folders for program in BROWSERS_ON_WINDOWS]
    else:
        places = [Path(f"/Applications/{name}.app/Contents/MacOS/{name}") for name in BROWSERS_ON_A_MAC]
    return next((str(place) for place in places if place.is_file()), None) or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )


def _weasyprint() -> tuple[Any, str]:
    """Import WeasyPrint; return None and the reason where it cannot be imported."""
    try:
        with redirect_stdout(io.StringIO()):  # it prints advice that is not for users of lindley
            import weasyprint
    except ImportError:
        return None, "WeasyPrint is not installed (pip install 'lindley[pdf]')"
    except OSError:
        return None, "WeasyPrint is installed, and does not find the library Pango on this machine"
    return weasyprint, ""


def _by_weasyprint(weasyprint: Any, page: str, attached: str | None) -> bytes:
    from weasyprint.urls import URLFetcher

    logging.getLogger("weasyprint").setLevel(logging.CRITICAL)  # it tells of every rule that is for browsers
    document = weasyprint.HTML(string=_SCRIPTS.sub("", page), url_fetcher=URLFetcher(allowed_protocols=("data",)))
    inside = []
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)  # else the same page gives another file every second
    if attached is not None:
        dates = {"created": long_ago, "modified": long_ago}
        inside = [weasyprint.Attachment(string=page, name=attached, description="The page of this report", **dates)]
    with _environment(
        "SOURCE_DATE_EPOCH", f"{long_ago.timestamp():.0f}"
    ):  # of fonts, where fontTools makes them smaller
        return bytes(document.write_pdf(attachments=inside))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _by_browser(browser: str, page: str, attached: str | None) -> bytes:
    """Print a page by a browser, from a temporary file and with a temporary profile; nothing is loaded, and no script runs."""
    from pypdf import PdfWriter
    from pypdf.generic import NameObject

    shown = _SCRIPTS.sub("", page)
    for found, instead in (("</?noscript>", ""), ("<details", "<details open"), ("http-equiv", "data-unused")):
        shown = re.sub(found, instead, shown, flags=re.IGNORECASE)  # the last could lead to another page
    with tempfile.TemporaryDirectory(prefix="lindley-pdf-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        source, printed, said = folder / "page.html", folder / "page.pdf", folder / "said.txt"
        source.write_text(_HEAD + shown, "utf-8", newline="")
        command = [
            browser, "--headless", "--disable-gpu", "--disable-extensions", "--disable-background-networking", "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", "--no-pdf-header-footer",
            "--print-to-pdf-no-header",
            *(["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []),
            f"--print-to-pdf={printed}", source.as_uri(),
        ]  # fmt: skip
        try:
            with said.open("wb") as output:
                status: object = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=TIMEOUT, check=False
                ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            status = type(error).__name__
        if not printed.is_file():
            last = said.read_text("utf-8", "replace").strip().rpartition("\n")[2]
            raise LindleyError(f"{browser} printed no PDF (status {status}; it said: {last[:200]}). {INSTEAD}")
        writer = PdfWriter(clone_from=io.BytesIO(printed.read_bytes()))
    kept = {key: value for key, value in (writer.metadata or {}).items() if not key.endswith("Date")}
    writer.metadata = kept  # else the same page gives another file every second
    if attached is not None:
        file: Any = writer.add_attachment(attached, zlib.compress(page.encode("utf-8")))
        file.pdf_object["/EF"]["/F"][NameObject("/Filter")] = NameObject("/FlateDecode")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def attached_page(data: bytes) -> str | None:
    """The page inside a PDF file that `page_as_pdf` wrote; none if there is not exactly one."""
    found = list(_ATTACHED.finditer(data))
    if len(found) != 1:
        return None
    unpacked = zlib.decompressobj()
    try:
        text = unpacked.decompress(data[found[0].end() :], int(limit("TABLE_MB") * 1_000_000))
        return text.decode("utf-8") if unpacked.eof else None
    except (zlib.error, UnicodeDecodeError):
        return None

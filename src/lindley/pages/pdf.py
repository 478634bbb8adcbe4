"""A page as a PDF file, without a browser: by WeasyPrint, the extra ``pdf``.

Nothing is loaded from anywhere, and no script runs. The report of a case is inside its PDF once more, as an attached file: the
page with its record, from which ``lindley verify`` computes the case again.
"""

from __future__ import annotations

import logging
import re
import zlib
from datetime import UTC, datetime
from typing import Any

from lindley.errors import LindleyError
from lindley.limits import limit

__all__ = ["attached_page", "page_as_pdf", "require_pdf"]

INSTEAD = "Or write .html, open it in a browser, and print it there to a PDF file"
_SCRIPTS = re.compile(r"<script\b.*?</script>", re.S)
_ATTACHED = re.compile(rb"/EmbeddedFile\b.{,500}?stream\r?\n", re.S)


def require_pdf() -> Any:
    """WeasyPrint; or what to do where it is not there."""
    try:
        import weasyprint
    except ImportError as error:
        raise LindleyError(f"a PDF needs the extra 'pdf': pip install 'lindley[pdf]'. {INSTEAD}") from error
    except OSError as error:
        raise LindleyError(
            "a PDF needs the library Pango, which WeasyPrint does not find on this machine (see 'A PDF' in the "
            f"documentation of reports). {INSTEAD}"
        ) from error
    return weasyprint


def page_as_pdf(page: str, attached: str | None = None) -> bytes:
    """The pages on paper, as `style.css` prints them; with the page itself attached, by the name ``attached``."""
    weasyprint = require_pdf()
    from weasyprint.urls import URLFetcher

    logging.getLogger("weasyprint").setLevel(logging.CRITICAL)  # it tells of every rule that is for browsers
    document = weasyprint.HTML(string=_SCRIPTS.sub("", page), url_fetcher=URLFetcher(allowed_protocols=("data",)))
    inside = []
    if attached is not None:
        long_ago = datetime(2000, 1, 1, tzinfo=UTC)  # else the same page gives another file every second
        dates = {"created": long_ago, "modified": long_ago}
        inside = [weasyprint.Attachment(string=page, name=attached, description="The page of this report", **dates)]
    return bytes(document.write_pdf(attachments=inside))


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

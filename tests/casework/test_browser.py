"""The report of a case in a real browser. Without Chromium on the machine these tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lindley.casework.case import Notes
from lindley.pages.pdf import find_browser
from tests.casework.factory import case, items
from tests.casework.test_page import HOSTILE

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = find_browser()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt install chromium")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("case")
    a, b = items(3, 2, 6)
    notes = Notes(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    case(folder, a[:2], b[2:], notes=notes).write(folder / "case.html")
    return (folder / "case.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width", [1366, 390])
@pytest.mark.parametrize("scripts", [True, False])
def test_it_opens_without_complaint_request_or_sideways_scroll(
    browser: playwright.Browser, address: str, width: int, scripts: bool
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, java_script_enabled=scripts)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    shown = "wide" if width > 620 else "narrow"
    assert page.locator(f"#conclusion .{shown} svg").is_visible()
    assert page.locator("#where .strip svg").count() == 4
    assert not page.is_visible("#expert table")
    page.click("#expert summary >> nth=0")
    assert page.is_visible("#expert table >> nth=0")
    if scripts:
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert HOSTILE in page.title()
    assert complaints == []
    assert [r for r in requests if not r.startswith("data:")] == [address]
    page.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_it_prints_with_all_details(browser: playwright.Browser, address: str, tmp_path: Path, scripts: bool) -> None:
    page = browser.new_page(viewport={"width": 681, "height": 970}, java_script_enabled=scripts)
    page.goto(address)
    page.emulate_media(media="print")
    if scripts:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tables = page.locator("#expert table")
    assert tables.count() > 8
    assert all(tables.nth(k).is_visible() for k in range(tables.count()))
    assert page.is_visible("#sign")
    if scripts:
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
        page.pdf(path=tmp_path / "case.pdf", prefer_css_page_size=True)
        assert (tmp_path / "case.pdf").read_bytes().startswith(b"%PDF")
    page.close()


def test_colours_survive_greyscale(browser: playwright.Browser, address: str) -> None:
    """The marks of trace and ref, and the parts of a bar, differ in lightness."""
    from lindley.pages.case_drawings import REF, TRACE
    from lindley.pages.palette import DIFFERENT, TEST, VALIDATE

    def lightness(colour: str) -> float:
        r, g, b = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
        return 0.299 * r + 0.587 * g + 0.114 * b

    assert abs(lightness(TRACE) - lightness(REF)) > 80
    assert abs(lightness(TEST) - lightness(VALIDATE)) > 80
    assert abs(lightness(TEST) - lightness(DIFFERENT)) > 80  # and this one is hatched

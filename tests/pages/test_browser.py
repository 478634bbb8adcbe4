"""The page in a real browser. Without Chromium on the machine these tests are skipped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lindley.pages.page import picture, sheet
from lindley.pages.pdf import find_browser
from lindley.pages.run_page import write_report
from tests.pages.factory import HOSTILE, make_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = find_browser()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt install chromium")

TABS = ["result", "model", "kinds", "data", "outliers", "made"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a report. Its pictures, which show where there are no scripts, are all the same: to draw them takes long."""
    report = make_report(axes=10, neural=1, epochs=60, sources=60, hostile=True)
    one = picture(lambda: sheet(6, 4)[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lindley.pages.run_drawings.picture", lambda draw: one)
        return write_report(report, tmp_path_factory.mktemp("report")).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Watched:
    """A page, with whatever it complains of or asks for."""

    def __init__(self, browser: playwright.Browser, width: int, **options: object) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, **options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))


@dataclass(frozen=True)
class Opening:
    """How a page was when it had opened, before anybody touched it."""

    seconds: float  # until the first figure was there
    scrolled: float
    top_of_title: float
    tabs: list[str]


def visible_tabs(page: playwright.Page) -> list[str]:
    return [tab for tab in TABS if page.is_visible(f"#{tab}")]


class Opened(Watched):
    """The report, which takes seconds to load: once for each width, and every test goes on where the last one left it."""

    def __init__(self, browser: playwright.Browser, width: int, address: str) -> None:
        super().__init__(browser, width)
        page, start = self.page, time.perf_counter()
        page.goto(address)
        page.wait_for_selector("html.ready")
        page.wait_for_timeout(300)  # a browser that follows an address does so when all is there
        scrolled = page.evaluate("window.scrollY")
        top = page.evaluate("document.querySelector('h1').getBoundingClientRect().top")
        tabs = visible_tabs(page)
        page.locator("#result .plot").first.scroll_into_view_if_needed()  # below the title on a phone
        page.wait_for_selector("#result .plot .main-svg")
        self.first = Opening(time.perf_counter() - start, scrolled, top, tabs)
        page.evaluate("window.scrollTo(0, 0)")


@pytest.fixture(scope="module", params=[1366, 390])
def opened(request: pytest.FixtureRequest, browser: playwright.Browser, address: str) -> Iterator[Opened]:
    watched = Opened(browser, request.param, address)
    yield watched
    watched.page.close()


wide = pytest.mark.parametrize("opened", [1366], indirect=True)


def test_it_opens_at_its_title(opened: Opened) -> None:
    assert opened.first.scrolled == 0
    assert opened.first.top_of_title > 0
    assert opened.first.tabs == ["result"]
    opened.page.click("#tab-outliers")
    assert opened.page.evaluate("window.location.hash") == "#outliers"


def test_all_is_drawn_without_complaint_request_or_sideways_scroll(opened: Opened, address: str) -> None:
    page = opened.page
    for tab in TABS:
        page.click(f"#tab-{tab}")
        height = page.evaluate("document.documentElement.scrollHeight")
        for top in range(0, height, 600):
            page.evaluate(f"window.scrollTo(0, {top})")
            page.wait_for_timeout(40)
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{tab} is {wide} px too wide"
        undrawn = page.evaluate(
            "[...document.querySelectorAll('.plot')].filter(e => e.getClientRects().length && !e.dataset.drawn).length"
        )
        assert undrawn == 0
    assert opened.complaints == []
    assert [r for r in opened.requests if not r.startswith("data:")] == [address]


def test_tabs_open_by_click_and_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-data")
    assert visible_tabs(page) == ["data"]
    page.keyboard.press("ArrowRight")
    assert visible_tabs(page) == ["outliers"]
    assert page.get_attribute("#tab-outliers", "aria-selected") == "true"
    page.keyboard.press("End")
    assert visible_tabs(page) == ["made"]
    page.keyboard.press("ArrowRight")
    assert visible_tabs(page) == ["result"]


def test_the_model_chooser_and_the_links_of_the_table_change_the_model(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-model")
    assert page.locator("#model .of-model:visible").count() == 1
    page.select_option("#choose-model", "1")
    assert page.get_attribute("#model .of-model:visible", "data-model") == "1"
    page.wait_for_selector("#model [data-model='1'] .plot .main-svg")
    page.click("#tab-outliers")
    assert page.input_value("#choose-model-outliers") == "1"
    assert page.get_attribute("#outliers .of-model:visible", "data-model") == "1"
    page.click("#tab-result")
    page.click(".open-model[data-name='tlm+logistic']")
    assert page.get_attribute("#model .of-model:visible", "data-name") == "tlm+logistic"
    assert opened.complaints == []


@wide
def test_hover_names_the_source_and_the_pair(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-outliers")
    bar = page.locator("#outliers .of-model:visible .plot[data-figure=cost] .bars .point path").first
    bar.wait_for()
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    label = page.locator("#outliers .hoverlayer .hovertext")
    label.first.wait_for()
    assert HOSTILE in label.first.text_content()  # as text: nothing of it is markup
    page.click("#tab-model")
    mark = (
        page.locator("#model .of-model:visible .plot[data-figure=histogram] .scatterlayer .trace")
        .last.locator("path")
        .first
    )
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    label = page.locator("#model .hoverlayer .hovertext")
    label.first.wait_for()
    assert "same-source pair" in label.first.text_content()
    assert " – " in label.first.text_content()
    assert opened.complaints == []


def test_two_features_can_be_chosen_for_the_scatter_plot(browser: playwright.Browser, address: str) -> None:
    watched = Watched(browser, 1366)
    page = watched.page
    page.goto(address + "#data")  # a tab can be linked to
    page.wait_for_selector("#scatter .main-svg")
    assert HOSTILE in page.text_content("#feature-x")
    page.select_option("#feature-y", "3")
    assert page.text_content("#scatter .ytitle") == "Ce140"
    assert watched.complaints == []
    page.close()


@wide
def test_it_opens_quickly(opened: Opened, browser: playwright.Browser, address: str) -> None:
    """Two seconds on a quiet machine; a busy one gets more, and three tries."""
    taken = [opened.first.seconds]
    while len(taken) < 3 and not any(each < 6.0 for each in taken):
        again = Opened(browser, 1366, address)
        taken.append(again.first.seconds)
        again.page.close()
    assert min(taken) < 6.0


def test_it_prints_all_parts_with_figures(browser: playwright.Browser, address: str, tmp_path: Path) -> None:
    watched = Watched(browser, 1366)
    page = watched.page
    page.goto(address)
    page.wait_for_selector("#result .plot .main-svg")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert all(page.is_visible(f"#{tab} h2") for tab in TABS)
    drawn = "[...document.querySelectorAll('.plot')].filter(e => e.getClientRects().length).map(e => e.dataset.drawn)"
    assert all(page.evaluate(drawn))
    wide = "[...document.querySelectorAll('.plot .main-svg')].filter(e => e.getBoundingClientRect().width > 681).length"
    assert page.evaluate(wide) == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert visible_tabs(page) == ["result"]
    path = tmp_path / "report.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    assert path.read_bytes().startswith(b"%PDF")
    assert path.stat().st_size > 100_000
    assert watched.complaints == []
    page.close()


def test_without_scripts_tables_text_and_pictures_are_there(browser: playwright.Browser, address: str) -> None:
    watched = Watched(browser, 1366, java_script_enabled=False)
    page = watched.page
    page.goto(address)
    assert all(page.is_visible(f"#{tab} h2") for tab in TABS)
    assert page.is_visible(".results")
    assert page.is_visible("#result img.still")
    assert not page.is_visible("#choose-model")
    page.close()

"""The app in a real browser. Without Chromium on the machine these tests are skipped."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lindley.app.server import _open
from tests.app.conftest import Started, Watched, csv_bytes, glass, workbook


@pytest.mark.parametrize("width", [1280, 800])
def test_a_table_is_sent_seen_and_read_otherwise(
    width: int, browser: Any, start: Callable[..., Started], tmp_path: Path
) -> None:
    rows = [["Glass of 2026"], glass()[0], ["", "mg/kg", "mg/kg", "mg/kg"], *glass()[1:]]
    rows[9][2] = "n.d."
    (tmp_path / "glass <b>.xlsx").write_bytes(workbook(rows))
    watched = Watched(browser, start(), width)
    page = watched.page
    page.click("text=Tables >> nth=0")
    page.wait_for_selector("html.js")  # a test is quicker than a person
    page.set_input_files("#file", tmp_path / "glass <b>.xlsx")  # is sent at once
    page.wait_for_selector(".cells")
    assert page.inner_text("h1") == "glass <b>.xlsx"
    assert "cannot be used" in page.inner_text(".verdict")
    page.focus("#part-0")
    page.select_option("#part-0", "source")
    page.wait_for_selector("#part-0.source")
    assert page.evaluate("document.activeElement.id") == "part-0"
    cell = page.locator("td.marked.error")
    assert cell.count() == 1
    assert "n.d. Error" in cell.inner_text()
    page.select_option("#part-2", "ignore")
    page.wait_for_selector(".verdict.pass")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.screenshot(path=tmp_path / f"table-{width}.png", full_page=True)
    assert watched.complaints == []
    assert watched.outside == []


def test_models_are_compared_cancelled_gone_on_with_and_reported(
    browser: Any, start: Callable[..., Started], tmp_path: Path
) -> None:
    rows = [["source", *glass()[0][1:]], *glass(24, 3)[1:]]
    (tmp_path / "glass.csv").write_bytes(csv_bytes(rows))
    started = start()
    watched = Watched(browser, started)
    page = watched.page
    page.goto(f"{watched.home}/tables")
    page.wait_for_selector("html.js")
    page.set_input_files("#file", tmp_path / "glass.csv")
    page.wait_for_selector(".verdict.pass")
    page.click("text=Compare models on it")
    for number in (1, 2, 4, 5):
        page.uncheck(f"#model-{number}")
    page.fill("#splits", "0")
    page.evaluate("document.querySelector('#splits').min = ''")
    page.dblclick("text=Start")  # two clicks, one answer
    assert "from 1 to" in page.inner_text("main .problem")
    assert page.is_checked("#model-3")
    assert not page.is_checked("#model-1")
    page.fill("#splits", "150")
    page.dblclick("text=Start")
    page.wait_for_selector("progress")
    while page.evaluate("document.querySelector('progress').value") < 2:  # by events: the page is not loaded again
        page.wait_for_timeout(100)
    page.click("text=Cancel")
    page.wait_for_selector("text=Cancelled. What is finished is kept.")
    page.click("text=Go on")
    page.wait_for_selector("progress")
    other = Watched(browser, started)  # a second browser, and the first is closed
    page.close()
    other.page.goto(f"{other.home}/compare/1")
    other.page.wait_for_selector("iframe.report", timeout=120_000)
    report = other.page.frame_locator("iframe.report")
    report.locator("#result .plot").first.scroll_into_view_if_needed()  # it is drawn when it comes into sight
    report.locator("#result .plot .main-svg").first.wait_for()
    answer = other.page.request.get(f"{other.home}/compare/1/report")
    assert "sandbox allow-scripts" in answer.headers["content-security-policy"]
    assert "allow-same-origin" not in answer.headers["content-security-policy"]
    inside = other.page.frames[-1]
    assert inside.evaluate("window.origin") == "null"
    assert inside.evaluate("fetch('/').then(() => 'read', () => 'refused')") == "refused"
    other.page.goto(f"{other.home}/jobs")
    assert other.page.locator("tbody tr").count() == 1
    assert watched.complaints == [
        "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    ]
    assert [text for text in other.complaints if "Content Security Policy" not in text] == []  # of the fetch above
    assert watched.outside == other.outside == []


def test_a_browser_comes_in_by_the_file_that_is_opened(
    browser: Any, start: Callable[..., Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: None)
    started = start()
    _open(tmp_path, started.address, True, lambda text: None)
    door = tmp_path / "open.html"
    assert os.name == "nt" or door.stat().st_mode & 0o077 == 0
    page = browser.new_page()
    page.goto(door.as_uri())
    page.wait_for_url(f"{started.home}/")
    assert page.title() == "Bench – lindley"
    assert page.evaluate("document.cookie") == ""
    page.close()


def test_a_page_of_a_stranger_gets_nothing(browser: Any, start: Callable[..., Started], tmp_path: Path) -> None:
    """Another page in the same browser, which has the cookie: of another site, and of another port of this machine."""
    started = start()
    watched = Watched(browser, started)
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "index.html").write_text(
        f"""<form id="f" method="post" action="{started.home}/language"><input name="language" value="nl"></form>
        <iframe id="i" src="{started.home}/tables"></iframe><img id="m" src="{started.home}/static/style.css">"""
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        for name in ("127.0.0.1", "localhost"):
            page = watched.context.new_page()
            statuses: list[tuple[str, int]] = []
            page.on("response", lambda answer: statuses.append((answer.url, answer.status)))  # noqa: B023
            page.goto(f"http://{name}:{server.server_port}/")
            read = page.evaluate(
                "url => fetch(url, {credentials: 'include'}).then(r => r.text()).catch(() => 'refused')", started.home
            )
            assert read == "refused"
            page.evaluate("document.getElementById('f').submit()")
            page.wait_for_url(f"{started.home}/language")
            here = [status for url, status in statuses if url.startswith(started.home)]
            assert len(here) >= 2
            assert set(here) == {403}
            page.close()
    finally:
        server.shutdown()
        server.server_close()
    watched.page.reload()
    assert watched.page.get_attribute("html", "lang") == "en"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

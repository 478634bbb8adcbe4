"""The app in a real browser. Without Chromium on the machine these tests are skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Started, Watched, glass, workbook


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

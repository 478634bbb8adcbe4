"""The whole walk in a real browser: a table, a comparison, a system, its approval, a case, its report, review and verification.

The power fails on the way, and everything goes on. Without Chromium on the machine these tests are skipped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.app.conftest import Started, Watched, csv_bytes, glass, workbook

PATIENCE = 120_000
"""Milliseconds that a job may take on a machine that has more to do."""
DROP = """([selector, name, content]) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name));
    const dropped = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector(selector).dispatchEvent(dropped);
}"""


def settle(page: Any) -> None:
    """Wait until the page is the last one of a double click, with its scripts at work: a test is quicker than a person."""
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("html.js")


def drop(page: Any, selector: str, name: str, content: bytes) -> None:
    """Drop a file, as from the desktop."""
    settle(page)
    page.evaluate(DROP, [selector, name, base64.b64encode(content).decode()])


def power_cut(started: Started, folder: Path) -> None:
    """End the server and the job that is at work, without a word to either."""
    started.process.kill()
    started.process.wait(20)
    job = psutil.Process(json.loads((folder / "jobs" / "1" / "job.json").read_text())["process"])
    for each in [*job.children(recursive=True), job]:
        each.kill()


def finished(folder: Path) -> int:
    """Files of the run that are on the disk."""
    return sum(path.is_file() for path in (folder / "runs").rglob("*"))


def test_from_a_table_to_a_verified_report(browser: Any, start: Callable[..., Started], tmp_path: Path) -> None:
    started = start()
    watched = Watched(browser, started)
    page, folder = watched.page, tmp_path / "bench"

    # a table with a title row is dropped, and its columns get their parts by clicks
    units = ["", "mg/kg", "mg/kg", "mg/kg"]
    rows = glass(45, 4, 3)
    page.click("text=Tables >> nth=0")
    drop(page, ".drop", "background.xlsx", workbook([["Glass of 2026"], rows[0], units, *rows[1:]]))
    page.wait_for_selector(".cells")
    assert "cannot be used" in page.inner_text(".verdict")
    page.select_option("#part-0", "source")
    page.wait_for_selector("#part-0.source")
    page.select_option("#transform", "log10")
    page.wait_for_selector(".verdict.pass")

    # models are compared; a power cut ends the server and its job, and both go on
    page.click("text=Compare models on it")
    for box in page.locator("input[name=models]").all():
        box.set_checked(box.get_attribute("value") == "tlm")
    page.fill("#splits", "400")  # two seconds: a quiet machine is done with a hundred before anybody looks
    page.click("text=Start")
    page.wait_for_selector("progress")
    while page.evaluate("document.querySelector('progress').value") < 3:  # by events: the page is not loaded again
        page.wait_for_timeout(20)
    run = page.url.removeprefix(watched.home)
    assert watched.complaints == []
    power_cut(started, folder)
    before = finished(folder)
    assert before > 0
    watched.context.close()
    started = start()
    second = Watched(browser, started)
    page = second.page
    assert "This was broken off before it was done" in page.inner_text("main .problem")
    page.click("text=Go on")
    page.wait_for_selector("iframe.report", timeout=PATIENCE)
    assert page.url == second.home + run
    assert finished(folder) >= before

    # a system is trained and approved
    page.goto(f"{second.home}/systems/train")
    page.click("summary")
    page.fill("#other", "tlm")
    page.fill("#replicates", "2")
    page.fill("#name", "glass")
    page.click("button:has-text('Train')")
    page.wait_for_selector("text=Done.", timeout=PATIENCE)
    page.goto(f"{second.home}/systems")
    page.click("text=glass.safetensors")
    page.fill("#who", "Q. Manager")
    page.fill("#why", "glass, for this walk")
    page.fill("#exception", "a test of the bench, and no casework")
    page.click("button:has-text('Approve for casework')")
    page.wait_for_selector(".verdict.pass")

    # a case: what is recognised is seen first, then it is computed
    page.goto(f"{second.home}/cases/new")
    page.fill("#case", "2026-017 <b>")
    page.fill("#examiner", "R. Okafor")
    page.fill("#h1", "{trace} comes from {ref}")
    page.fill("#h2", "{trace} comes from another window")
    page.dblclick("text=Go on to the files")
    page.wait_for_selector("#trace")
    windows = glass(2, 5, 7)
    title = [["Port Elder"], [*windows[0]], units]
    trace = [[f"F{1 + place}", *row[1:]] for place in (0, 1) for row in windows[1 + 5 * place : 3 + 5 * place]]
    drop(page, "#trace .drop", "fragments.xlsx", workbook([*title, *trace], "Run 3"))
    page.wait_for_selector("#trace .file")
    assert "the column differs within what would be one item" in page.inner_text("#trace")
    assert page.is_disabled("text=Compute it")
    page.select_option("#trace-source", "item")
    page.click("#trace >> text=Read them so")
    page.wait_for_selector("#trace .file td.num")
    assert "Run 3" in page.inner_text("#trace .file")
    settle(page)
    page.set_input_files("#ref-file", {"name": "W1.csv", "mimeType": "text/csv", "buffer": csv_bytes(
        [["K39 [mg/kg]", "Ti49 [mg/kg]", "Mn55 [mg/kg]"], *(row[1:] for row in windows[3:6])]
    )})  # fmt: skip
    page.wait_for_selector("#ref .file td.num")
    assert "Traces: 2; references: 1." in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.click("button:has-text('Compute it')")
    page.wait_for_selector("iframe.report", timeout=PATIENCE)
    assert "Computed from the files that you saw" in page.inner_text(".verdict")
    inside = page.frame_locator("iframe.report")
    inside.locator("text=F1 comes from W1").first.wait_for()
    page.click(".matrix tbody tr:nth-child(2) a")
    page.wait_for_selector("h2:has-text('F2 × W1')")
    with page.expect_download() as kept:
        page.click("text=Keep the report (HTML)")
    assert kept.value.suggested_filename == "2026-017-b-1-2-F2-W1.html"

    # another reads and signs it, and it is computed again from the reports; in Dutch
    page.click("text=Nederlands")
    page.wait_for_selector("html[lang=nl]")
    page.fill("#reviewer", "A. Nother")
    page.check("#read")
    page.click("button:text-is('Tekenen')")
    page.wait_for_selector("text=Beoordeeld door A. Nother")
    page.click("button:has-text('Narekenen')")
    page.wait_for_selector(".verdict.pass", timeout=PATIENCE)
    assert "opnieuw berekend zijn de LR's en de pagina's dezelfde" in page.inner_text(".verdict")
    page.goto(f"{second.home}/cases?q=okafor+F2")
    assert page.locator("tbody tr").count() == 1
    page.goto(f"{second.home}/cases/log")
    assert "4 regels, er is niets mis." in page.inner_text(".verdict")

    page.set_viewport_size({"width": 800, "height": 900})
    for path in ("/", "/tables/1", run, "/systems", "/systems/1", "/cases", "/cases/1", "/cases/log", "/jobs"):
        page.goto(second.home + path)
        assert second.obstacles() == []
    assert second.complaints == []
    assert watched.outside == second.outside == []


def test_a_newcomer_sees_a_whole_case_with_two_clicks(browser: Any, start: Callable[..., Started]) -> None:
    watched = Watched(browser, start())
    page = watched.page
    page.click("text=Try it out with simulated glass")
    page.wait_for_selector(".tryout")
    page.wait_for_selector("button:has-text('Compute it'):not([disabled])", timeout=PATIENCE)
    page.click("button:has-text('Compute it')")
    page.wait_for_selector("iframe.report", timeout=PATIENCE)
    page.frame_locator("iframe.report").locator(
        "text=TRY-OUT with simulated glass: this is no evidence"
    ).first.wait_for()
    assert "nothing here is evidence" in page.inner_text(".tryout")
    assert watched.obstacles() == []
    assert watched.complaints == []
    assert watched.outside == []

"""Whoever cannot use a mouse, or does not see the page, or reads it on a tablet: every page, in both languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lindley.app import approvals
from lindley.app.bench import Bench
from lindley.app.words import dutch
from tests.app.conftest import Started, Watched, csv_bytes, glass, workbook
from tests.app.test_approvals import T, put, validation

PAGES = (
    "/", "/tables", "/tables/1", "/tables/2", "/compare", "/compare/3", "/systems", "/systems/train", "/systems/criteria",
    "/systems/versions", "/systems/1", "/systems/2", "/systems/3", "/systems/validations/1", "/systems/validations/2",
    "/cases", "/cases/new", "/cases/1", "/cases/log", "/jobs", "/jobs/4", "/nowhere",
)  # fmt: skip

ENGLISH = {text for text in dutch() if "{" not in text and len(text) > 20 and dutch()[text] != text}
"""Sentences that no page in Dutch has."""


def furnish(folder: Path) -> None:
    """A bench with something on every page: tables with findings, systems in every state, jobs that ended in every way."""
    bench = Bench(folder)
    odd = [["Glass of 2026"], glass()[0], ["", "mg/kg", "mg/kg", "mg/kg"], *glass()[1:]]
    odd[9][2] = "n.d."
    for name, content in (("glass.xlsx", workbook(odd)), ("new.csv", csv_bytes(glass()))):
        path = folder / name
        path.write_bytes(content)
        with open(path, "rb") as file:
            bench.store(name, file)
    bench.choose(1, {"source_column": "item"})
    (folder / "criteria").mkdir()
    (folder / "criteria" / "ours.yaml").write_text("accuracy: {cllr: {at_most: 0.1}}\n")
    first, second, third = put(bench), put(bench, "normal-logistic", "second"), put(bench, "kernel-ratio", "third")
    passed, failed = validation(bench, first), validation(bench, second, "fail", "two")
    approvals.approve(bench, T, first.id, first.sha256, "A. Analyst", "for glass", passed, "")
    approvals.approve(bench, T, second.id, second.sha256, "A. Analyst", "for glass", failed, "agreed with the head")
    approvals.withdraw(bench, T, second.id, "B. Reviewer", "the laser was replaced")
    approvals.approve(bench, T, third.id, third.sha256, "A. Analyst", "for glass", None, "for a test")
    put(bench, "trained-varying", "third")  # changed since
    for kind, output, about, state in (
        ("validate", passed.folder, {"system": first.file, "criteria": "ours.yaml"}, "done"),
        ("validate", failed.folder, {"system": second.file, "criteria": "ours.yaml"}, "done"),
        ("run", None, {}, "broken"),
        ("train", None, {}, "failed"),
    ):
        job = bench.queue.add(kind, f"{kind} {state}", ["info", f"{kind}-{state}-{output}"], output=output, about=about)
        (bench.queue.place(job.id) / "output.txt").write_text("printed\n" * 80)
        with bench.database.change() as database:
            said = "It ended without a word: it was killed, or the machine went off."
            database.execute("UPDATE jobs SET state = ?, said = ? WHERE id = ?", (state, said, job.id))
    bench.cases.create({"case": "2026-017", "examiner": "R. Okafor"}, {"language": "en", "scale": "nfi"})
    bench.close()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("access") / "bench"
    furnish(folder)
    started = Started(folder)
    yield started
    started.end()


@pytest.mark.parametrize(("language", "width"), [("en", 1280), ("nl", 800)])
def test_every_page_can_be_read_by_everybody(language: str, width: int, browser: Any, furnished: Started) -> None:
    watched = Watched(browser, furnished, width)
    page = watched.page
    page.click(f"button[name=language][value={language}]")
    page.wait_for_selector(f"html[lang={language}]")
    obstacles, titles = [], {}
    for path in PAGES:
        page.goto(f"{watched.home}{path}")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        obstacles += watched.obstacles()
        titles[path] = page.title()
        assert page.locator("h1").count() == 1, path
        assert page.locator("main").count() == 1, path
        assert page.get_attribute("html", "lang") == language
        page.evaluate(
            "document.querySelectorAll('body [translate=no], body [lang=en]').forEach((each) => each.remove())"
        )
        shown = {line.strip() for line in page.inner_text("body").splitlines()}
        assert language == "en" or shown & ENGLISH == set(), path
    assert obstacles == []
    assert all(title.endswith(" – lindley") and len(title) > 10 for title in titles.values()), titles
    assert watched.outside == []
    assert [said for said in watched.complaints if "404" not in said] == []  # of /nowhere


def test_a_system_is_approved_and_withdrawn_without_a_mouse(
    browser: Any, start: Callable[..., Started], tmp_path: Path
) -> None:
    folder = tmp_path / "bench"
    bench = Bench(folder)
    put(bench)
    bench.close()
    watched = Watched(browser, start(folder=folder))
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"  # the first stop leads past the navigation
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    reach(page, "a[href='/systems']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/systems")
    reach(page, "a[href='/systems/1']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/systems/1")
    reach(page, "#who")
    page.keyboard.type("A. Analyst")
    reach(page, "#why")
    page.keyboard.type("for window glass")
    reach(page, "#exception")
    page.keyboard.type("a test of the keyboard")
    reach(page, "form[action$='/approve'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".verdict.pass")
    assert "A. Analyst" in page.inner_text(".verdict")
    reach(page, "summary:has-text('Withdraw')")
    page.keyboard.press("Enter")
    reach(page, "#withdraw-who")
    page.keyboard.type("B. Reviewer")
    reach(page, "#withdraw-why")
    page.keyboard.type("enough seen")
    reach(page, "form[action$='/withdraw'] button")
    page.keyboard.press("Space")
    page.wait_for_selector(".verdict:has-text('withdrawn by B. Reviewer')")
    assert watched.complaints == []


def reach(page: Any, wanted: str) -> None:
    """Press Tab until the focus is there; wherever it is, it can be seen."""
    for _ in range(80):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]; })()"
        )
        assert style[0] != "none", page.evaluate("document.activeElement.outerHTML")
        assert style[1] != "0px", page.evaluate("document.activeElement.outerHTML")
        if page.locator(wanted).first.evaluate("(each) => each === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is not reached by the keyboard")

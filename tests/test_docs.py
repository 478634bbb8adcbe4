"""The documentation holds: Python blocks and commands run, YAML reads, links lead somewhere, and the site builds.

A page is run from top to bottom in a folder of its own, as a reader would. Every Python block runs as it stands, with names of
its own. Of every other block, and of indented ones, the lines that begin with ``lindley`` run, in this process. So that it does
not take long, `smaller` gives commands small sizes, the robust model takes few steps, pictures of a run are not drawn, the
simulated data set has few sources, and it stands in for ``nfi-glass``. With LINDLEY_DOCS=as-written nothing is replaced, and
the pages that need only named data sets run in full.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import openpyxl
import pytest
import yaml

from lindley.casework.laboratory import load_criteria, read_notes
from lindley.cli import commands as cli
from lindley.experiment.config import load_experiment
from lindley.experiment.results import SCHEMA
from lindley.pages.pdf import find_browser
from lindley.system.header import FORMAT, OLDEST
from lindley.table import simulated
from lindley.table.config import DataConfig
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.table import export_csv

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
AS_WRITTEN = os.environ.get("LINDLEY_DOCS") == "as-written"
FULL = ("tutorial.md", "install.md")
"""Pages that need no file of the reader's, and so can run as written."""
CHROMIUM = find_browser()

Block = tuple[str, str]  # what follows ```, and the text; indented blocks have "indented"


def blocks(path: Path) -> list[Block]:
    """The code blocks of a page in order."""
    found: list[Block] = []
    lines = iter(path.read_text("utf-8").splitlines())
    for line in lines:
        if line.startswith("```"):
            inside = []
            for text in lines:
                if text.startswith("```"):
                    break
                inside.append(text)
            found.append((line[3:].strip(), "\n".join(inside) + "\n"))
        elif line.startswith("    lindley "):
            inside = [line.strip()]
            while inside[-1].endswith("\\"):
                inside.append(next(lines).strip())
            found.append(("indented", "\n".join(inside) + "\n"))
    return found


def commands(text: str) -> list[list[str]]:
    """The ``lindley`` commands of a block, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("lindley ") and "…" not in line]


PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RUNNING = [
    page
    for page in PAGES
    if any(kind == "python" or (kind not in ("text", "yaml") and commands(text)) for kind, text in blocks(page))
]
YAMLS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate((text for kind, text in blocks(page) if kind == "yaml"), 1)
]
SKIPPED = ("--workers", "--cluster")
"""Commands with these options need other processes or machines; tests of their own run them."""
OTHERWISE = {("--units", "ppm", "--out", "glass.safetensors"): ("--units", "ppm", "--out", "own.safetensors")}
"""What would undo an earlier step of the page, which a reader does instead of it."""


def smaller(words: list[str], page: str) -> list[str]:
    """The same command with small sizes; of options that are given twice, the last one counts."""
    words = ["glass-simulated" if word == "nfi-glass" else word for word in words]
    for given, instead in OTHERWISE.items():
        for start in range(len(words)):
            if tuple(words[start : start + len(given)]) == given:
                words[start : start + len(given)] = instead
    if words[1] == "run":
        words += ["--splits", "2", *([] if page == "tutorial.md" else ["--no-report"])]
        if "--models" not in words:
            words += ["--models", "tlm,tlm+logistic"]
        if "--data" not in words and not any(word.endswith(".yaml") for word in words):
            words += ["--data", "glass.xlsx", "--source-column", "item"]
    if words[1:3] == ["data", "export"]:
        words += ["--force"]  # over a file that stands in for it
    if words[1] == "case":
        words += ["--force"]  # a system of so few sources may say nothing
    if words[1] == "train":
        words += ["--replicates", "2", "--force"]
        if "--model" not in words and page != "tutorial.md":
            words += ["--model", "tlm"]
    return words


def stand_ins(page: str, folder: Path) -> None:
    """The files that a reader has and the page only names."""
    table = simulate_table(glass_population(), 60, 3, seed=5)
    labels = {"item": table.source, **({"date": table.source, "operator": table.source} if page == "README.md" else {})}
    values, features = table.values, list(table.features)
    if page == "casework.md":  # as measured, before the logarithm and the ratio
        values, features = np.column_stack([10**values, np.full(len(values), 2.0)]), [*features, "Si28"]
    rows = [[*labels, *features]]
    rows += [[*names, *row] for *names, row in zip(*labels.values(), values.tolist(), strict=True)]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(folder / "glass.xlsx")
    if page == "tables.md":
        named = ["fragment", *("f1" if k % 3 else "f2" for k in range(len(values)))]
        _write_csv(folder / "fragments.csv", [[row[0], name, *row[1:]] for row, name in zip(rows, named, strict=True)])
        book.active.insert_rows(2)
        book.active.insert_rows(1, 3)
        for place, text in {"A1": "Glass, float", "A2": "Operator", "B2": "J. de Vries", "A5": "unit"}.items():
            book.active[place] = text
        for column in range(2, len(rows[0]) + 1):
            book.active.cell(5, column, "ppm")
        (folder / "glass-2026").mkdir()
        book.save(folder / "glass-2026" / "lab.xlsx")
    vehicle = ["vehicle", *(f"v{int(name[1:]) // 2}" for name in table.source)] if page == "experiments.md" else None
    if vehicle is not None:
        rows = [[*row[:1], name, *(np.abs(cell) + 1 if k else cell for cell in row[1:])]
                for k, (row, name) in enumerate(zip(rows, vehicle, strict=True))]  # fmt: skip
    _write_csv(folder / "glass.csv", rows)
    export_csv(table, folder / "train.csv")
    export_csv(simulate_table(glass_population(), 40, 4, seed=6), folder / "new.csv")
    windows = simulate_table(glass_population(), 3, 5, seed=2026)
    header, cells = [list(windows.features)], windows.values.tolist()
    _write_csv(folder / "trace.csv", header + cells[:2])
    _write_csv(folder / "ref.csv", header + cells[2:5])
    _write_csv(
        folder / "traces.csv",
        [["source", *windows.features], *([f"t{k // 5}", *row] for k, row in enumerate(cells) if k % 5 < 2)],
    )
    (folder / "windows").mkdir()
    for name, first in (("shop.csv", 0), ("car.csv", 5)):
        _write_csv(folder / "windows" / name, header + cells[first + 2 : first + 5])
    for text in (text for kind, text in blocks(_page(page)) if kind == "yaml"):
        for entry, name in (("models", "mine.yaml"), ("case", "case.yaml")):
            if entry in yaml.safe_load(text):
                (folder / name).write_text(text, "utf-8")
    if page == "experiments.md":
        for name in ("a", "b"):
            run = f"lindley run --data glass.xlsx --source-column item --models tlm,tlm+logistic --out results/{name}"
            assert _lindley(smaller(run.split(), page)) == 0


def _page(name: str) -> Path:
    return next(page for page in PAGES if page.name == name)


def _write_csv(path: Path, rows: list[list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _lindley(words: list[str]) -> int:
    """Run a command in this process; its exit status."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")  # the command prints warnings, and goes on
        patch.setattr(sys, "argv", words)
        try:
            cli.main()
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")  # of so few sources
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_a_page_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    full = AS_WRITTEN and page.name in FULL
    monkeypatch.chdir(tmp_path)
    if not full:
        few = 90 if page.name == "tutorial.md" else 240  # 240: a third of them does for 18 features, without a warning
        monkeypatch.setattr(simulated, "N_SOURCES", few)
        request.getfixturevalue("short_search")
        request.getfixturevalue("undrawn")
        stand_ins(page.name, tmp_path)
    for kind, text in blocks(page):
        capsys.readouterr()
        if kind == "python":
            exec(compile(text, f"{page.name}: {text[:60]} …", "exec"), {})
            assert capsys.readouterr().out, f"a block of {page.name} prints nothing:\n{text}"
        elif kind not in ("text", "yaml"):
            for words in commands(text):
                if not any(option in words for option in SKIPPED):
                    words, _, file = _redirected(words)
                    status = _lindley(words if full else smaller(words, page.name))
                    said = capsys.readouterr()
                    fine = (0, 1) if "--criteria" in words else (0,)  # so few data need not pass
                    assert status in fine, f"{page.name}: {shlex.join(words)}\n{said.err}"
                    assert said.out, f"{page.name}: {shlex.join(words)} prints nothing"
                    if file:
                        Path(file).write_text(said.out, "utf-8")


def _redirected(words: list[str]) -> tuple[list[str], str, str]:
    if ">" in words:
        at = words.index(">")
        return words[:at], ">", words[at + 1]
    return words, "", ""


def test_there_are_blocks() -> None:
    texts = [text for page in RUNNING for kind, text in blocks(page) if kind not in ("text", "yaml", "python")]
    assert sum(len(commands(text)) for text in texts) >= 25
    assert {"README.md", "tutorial.md", "casework.md", "validation.md", "experiments.md"} <= {p.name for p in RUNNING}


@pytest.mark.parametrize("text", YAMLS)
def test_yaml_reads(text: str, tmp_path: Path) -> None:
    path = tmp_path / "block.yaml"
    path.write_text(text, "utf-8")
    content = yaml.safe_load(text)
    if "experiments" in content:  # LiR's own; where LiR is installed, the tests of the adapter run these
        assert {"output_path", "experiments"} <= set(content)
    elif "models" in content:
        assert load_experiment(str(path)).rows
    elif "case" in content:
        assert read_notes(path, {})
    elif set(content) <= set(DataConfig.options()):
        assert DataConfig(data="lab.xlsx", **content)
    else:
        assert load_criteria(path)


def test_links_lead_somewhere() -> None:
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
            file = path.parent / target if target else path
            made = file.relative_to(DOCS).as_posix() if file.is_relative_to(DOCS) else ""
            assert file.exists() or made in reference().GENERATED, f"{path.name} links to {target}"
            if anchor and file.exists():
                headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.M)
                slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
                assert anchor in slugs or anchor.startswith("eq-"), f"{path.name} links to {target}#{anchor}"


def test_the_navigation_lists_every_page() -> None:
    listed = list(_leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    there = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*there, *reference().GENERATED]), "mkdocs.yml: nav"
    decisions = (DOCS / "decisions" / "README.md").read_text("utf-8")
    assert all(path.name in decisions for path in (DOCS / "decisions").glob("0*.md"))


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _leaves(part)


def _module(name: str) -> ModuleType:
    """A script of docs/theme, which is no package."""
    spec = importlib.util.spec_from_file_location(f"lindley_docs_{name}", DOCS / "theme" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference() -> ModuleType:
    return _module("reference")


def test_reference_pages_say_what_the_program_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = reference().command_line()
    for command in (["run"], ["train"], ["case"], ["evaluate"], ["check"], ["data", "export"]):
        assert _lindley(["lindley", *command, "--help"]) == 0
        options = set(re.findall(r"(?<![\w-])--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        section = page.split(f"## lindley {' '.join(command)}\n")[1].split("\n## ")[0]
        assert options
        assert all(f"{option}" in section for option in options)
    entries = reference().experiment_file()
    for entry in ("group_column", "trace_instances", "learning_rate", "orthonormal", "calibration", "folder"):
        assert f"| `{entry}` |" in entries
    assert "[Experiments](../experiments.md)" in entries


def test_the_page_on_stability_names_what_is_read() -> None:
    page = (DOCS / "stability.md").read_text("utf-8")
    assert f"layouts {OLDEST} to {FORMAT.rpartition('/')[2]}:" in page
    assert f"`results.json` of schema {SCHEMA}," in page


def test_equations_become_mathml() -> None:
    text = "a\n\n$$\nx = 1 \\tag{4}\n$$\n"
    assert reference().equations(text, lambda latex: f"<math>{latex}</math>") == (
        'a\n\n<div class="equation" id="eq-4"><math>x = 1</math><span>(4)</span></div>\n'
    )


def test_pictures_are_drawn_by_their_script(tmp_path: Path) -> None:
    drawn = {path.name for path in _module("pictures").draw(tmp_path)}
    assert drawn == {path.name for path in (DOCS / "images").glob("model-*.svg")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install -e '.[docs]'")
    pytest.importorskip("material", reason="MkDocs Material is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_names_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        text = page.read_text("utf-8")
        outside = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>", text)
        assert not outside, f"{page.name}: {outside}"
        assert "$$" not in text, f"{page.name}: an equation is left as it was typed"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text("utf-8"))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt install chromium")
def test_the_site_works_from_a_folder(site: Path) -> None:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as session:
        browser = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        complaints: list[str] = []
        for width in (1366, 390):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("request", lambda request: complaints.append(request.url) if "file:" not in request.url else None)
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            for name in ("index.html", "ten-equations.html", "reference/command-line.html", "python.html"):
                page.goto((site / name).as_uri())
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
            if width == 1366:
                page.wait_for_selector("iframe", state="attached")  # which the search runs in
                page.locator(".md-search__input").press_sequentially("calibration", delay=30)
                page.wait_for_selector(".md-search-result__link")
            page.close()
        browser.close()
    assert complaints == []

"""`lindley evaluate` as its users meet it, and its report in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from lindley.casework.laboratory import Criteria
from lindley.casework.performance import Settings
from lindley.casework.validation import validate
from lindley.cli.evaluate import evaluate
from lindley.errors import LindleyError
from lindley.pages.pdf import find_browser
from lindley.pages.validation_page import render_validation
from lindley.table.table import Table, export_csv
from tests.casework.validating import part, simulated, trained
from tests.command import here

HOSTILE = "<img src=x onerror=alert(1)></style><script>alert(2)</script>"
CHROMIUM = find_browser()
app = typer.Typer(pretty_exceptions_enable=False)
app.callback()(lambda: None)
app.command()(evaluate)


def evaluate(*arguments: object) -> Any:
    """The command; what it would tell on standard error is raised."""
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    if isinstance(result.exception, LindleyError):
        raise result.exception
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system, and tables of all kinds."""
    folder = tmp_path_factory.mktemp("evaluate")
    trained().save(folder / "glass.safetensors")
    table = simulated(60, 4, 2)
    export_csv(table, folder / "new.csv")
    export_csv(simulated(40, 2, 3), folder / "other.csv")
    export_csv(simulated(200, 4, 1), folder / "seen.csv")
    mixed_up = Table("m", table.values[:, ::-1], table.features[::-1], table.source, table.group, table.instance)
    export_csv(mixed_up, folder / "mixed-up.csv")
    less = Table("l", table.values[:, 1:], table.features[1:], table.source, table.group, table.instance)
    export_csv(less, folder / "less.csv")
    (folder / "easy.yaml").write_text("accuracy: {cllr: {at_most: 5}}\n")
    (folder / "hard.yaml").write_text("accuracy: {cllr: {at_most: 0}}\ngeneralisation: {other_cllr: {at_most: 5}}\n")
    (folder / "wrong.yaml").write_text("judged: raw\naccuracy: {clr: {at_most: 5}}\n")
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures, which take longer than all the rest: for tests of figures."""
    names = ("tippett", "ece", "pav", "coherence")
    monkeypatch.setattr("lindley.pages.validation_page._figures", lambda validation: dict.fromkeys(names, ""))


def test_without_criteria_figures_are_reported(files: Path, tmp_path: Path) -> None:
    result = evaluate(files / "glass.safetensors", files / "new.csv", "--out", tmp_path / "a" / "b")
    assert result.exit_code == 0
    assert "No criteria were given" in result.stdout
    assert "Cllr as measurements are added (60 sources): 1×1" in result.stdout
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["validation.html", "validation.json"]
    found = json.loads((tmp_path / "a" / "b" / "validation.json").read_text("utf-8"))
    assert found["verdict"] == "no criteria"
    assert {line["outcome"] for line in found["lines"]} == {"no criterion"}
    assert found["overlap"] == {"rows": 0, "sources": 0, "all_rows": 240, "all_sources": 60, "labels": []}
    assert found["system"]["model"] == "tlm"
    assert [(step["trace"], step["ref"]) for step in found["coherence"]] == [(1, 1), (1, 2), (2, 2)]
    cllr = next(line for line in found["lines"] if line["metric"] == "cllr")
    assert cllr["raw"]["lower"] <= cllr["raw"]["value"] <= cllr["raw"]["upper"]


@pytest.mark.usefixtures("undrawn")
def test_exit_status_says_pass_or_fail(files: Path, tmp_path: Path) -> None:
    system, new = files / "glass.safetensors", files / "new.csv"
    passed = evaluate(system, new, "--out", tmp_path, "--criteria", files / "easy.yaml")
    assert (passed.exit_code, "PASS" in passed.stdout) == (0, True)
    with pytest.raises(LindleyError, match="holds a validation already"):
        evaluate(system, new, "--out", tmp_path, "--criteria", files / "hard.yaml")
    failed = evaluate(system, new, "--out", tmp_path, "--criteria", files / "hard.yaml", "--force")
    assert (failed.exit_code, "FAIL" in failed.stdout) == (1, True)
    page = (tmp_path / "validation.html").read_text("utf-8")
    assert "The system does not pass" in page
    assert "it cannot be judged, as no other table was given" in page
    with_other = evaluate(
        system, new, "--out", tmp_path, "--criteria", files / "hard.yaml", "--other", files / "other.csv", "--force"
    )
    assert with_other.exit_code == 1
    found = json.loads((tmp_path / "validation.json").read_text("utf-8"))
    assert [line["outcome"] for line in found["lines"] if line["criterion"]] == ["fail", "pass"]
    assert found["other"]["sources"] == 40


@pytest.mark.usefixtures("undrawn")
def test_features_are_found_by_name_in_any_order(files: Path, tmp_path: Path) -> None:
    results = []
    for name in ("new.csv", "mixed-up.csv"):
        evaluate(files / "glass.safetensors", files / name, "--out", tmp_path / name)
        results.append(json.loads((tmp_path / name / "validation.json").read_text("utf-8"))["lines"])
    assert results[0] == results[1]


@pytest.mark.usefixtures("undrawn")
def test_the_seed_counts(files: Path, tmp_path: Path) -> None:
    texts = []
    for seed in (0, 0, 1):
        evaluate(files / "glass.safetensors", files / "new.csv", "--out", tmp_path, "--seed", seed, "--force")
        texts.append((tmp_path / "validation.json").read_text("utf-8"))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/glass.safetensors", "{}/seen.csv"], "seen: 800 of 800 measurements, of 200 of 200 sources"),
        (["{}/glass.safetensors", "{}/less.csv"], "the system needs 'Al27', and the table has no such column"),
        (["{}/glass.safetensors", "{}/none.csv"], "there is no such file"),
        (["{}/glass.safetensors", "{}/new.csv", "--other", "{}/less.csv"], "the system needs 'Al27'"),
        (["{}/glass.safetensors", "{}/new.csv", "--other", "{}/seen.csv"], "seen: 800 of 800"),
        (["{}/glass.safetensors", "{}/new.csv", "--criteria", "{}/wrong.yaml"], "line 2, accuracy.clr"),
        (["{}/glass.safetensors", "{}/new.csv", "--criteria", "{}/none.yaml"], "there is no file"),
        (["{}/glass.safetensors", "{}/new.csv", "--ref-instances", "4"], "0 of 60 sources have the 5 measurements"),
        (["{}/glass.safetensors", "{}/new.csv", "--source-column", "panel"], "there is no column 'panel'"),
        (["{}/glass.safetensors", "glass-simulated", "--source-column", "panel"], "knows its columns"),
        (["{}/none.safetensors", "{}/new.csv"], "there is no file"),
        (["{}/new.csv", "{}/new.csv"], "new.csv"),
    ],
)
def test_errors_leave_nothing_behind(files: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    out = tmp_path / "out" / "deep"
    with pytest.raises(LindleyError) as error:
        evaluate(*(argument.format(files) for argument in arguments), "--out", out)
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_command_ends_with_status_2_after_an_error(files: Path, tmp_path: Path) -> None:
    ended = here("evaluate", *map(str, (files / "glass.safetensors", files / "seen.csv", "--out", tmp_path / "out")))
    assert ended.returncode == 2
    assert "Error: seen: 800 of 800 measurements" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_failed_report_leaves_the_old_one(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("validation.json", "validation.html"):
        (tmp_path / name).write_text("old")
    monkeypatch.setattr("lindley.pages.validation_page.render_validation", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(files / "glass.safetensors", files / "new.csv", "--out", tmp_path, "--force")
    monkeypatch.undo()
    monkeypatch.setattr("lindley.files.os.replace", _refuse)
    monkeypatch.setattr("lindley.files.PATIENCE", 0.0)
    with pytest.raises(LindleyError, match="cannot be written"):
        evaluate(files / "glass.safetensors", files / "new.csv", "--out", tmp_path, "--force")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "validation.json": "old",
        "validation.html": "old",
    }


def _refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.usefixtures("undrawn")
def test_overlap_is_allowed_when_told_and_said(files: Path, tmp_path: Path) -> None:
    evaluate(files / "glass.safetensors", files / "seen.csv", "--out", tmp_path, "--allow-overlap")
    assert json.loads((tmp_path / "validation.json").read_text("utf-8"))["overlap"]["rows"] == 800
    assert "Not all of these data are new to the system: 800 of 800" in (tmp_path / "validation.html").read_text(
        "utf-8"
    )


@pytest.mark.usefixtures("undrawn")
def test_the_transform_and_the_units_of_the_system_are_honoured(tmp_path: Path) -> None:
    """Measurements as ratios to Si28, in ppm; the system takes log10 of the ratios. The same LRs as of the logs."""
    system = trained()
    units = ("ppm",) * len(system.features)
    replace(system, transform="log10", reference="Si28", units=units).save(tmp_path / "logs.safetensors")
    table = simulated(60, 4, 2)
    header = ["source", *(f"{feature} (ppm)" for feature in table.features), "Si28", "note"]
    lines = [",".join(header)]
    for source, row in zip(table.source, table.values, strict=True):
        lines.append(",".join([source, *(repr(float(v)) for v in 3 * 10**row), "3", "x"]))
    path = tmp_path / "measured.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    evaluate(tmp_path / "logs.safetensors", path, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "validation.json").read_text("utf-8"))
    expected = validate(system, table)
    cllr = expected.line("accuracy", "cllr").raw
    assert cllr is not None
    assert found["lines"][0]["raw"]["value"] == pytest.approx(cllr.value, rel=1e-6)
    path.write_text(path.read_text("utf-8").replace("(ppm)", "(mg/L)"), encoding="utf-8")
    with pytest.raises(LindleyError, match="the values are in mg/L, and the system was trained on ppm"):
        evaluate(tmp_path / "logs.safetensors", path, "--out", tmp_path / "volume")
    with pytest.raises(LindleyError, match="takes the logarithm"):
        evaluate(tmp_path / "logs.safetensors", "glass-simulated", "--out", tmp_path / "named")


def test_the_template_is_written_once_and_reads(tmp_path: Path) -> None:
    from lindley.casework.laboratory import load_criteria

    path = tmp_path / "mine.yaml"
    assert evaluate("--criteria-template", path).exit_code == 0
    assert load_criteria(path).of("accuracy", "cllr") is not None
    with pytest.raises(LindleyError, match=r"mine.yaml is there already. Give another name"):
        evaluate("--criteria-template", path)
    path.write_text(path.read_text("utf-8"), encoding="utf-16")  # as PowerShell and Notepad may save it
    assert load_criteria(path).of("accuracy", "cllr") is not None


@pytest.fixture(scope="module")
def page() -> str:
    """A report with hostile names, every kind of outcome, and remarks."""
    system = trained()
    table = simulated(50, 4, 2)
    named = Table(HOSTILE, table.values, table.features, table.source, table.group, table.instance)
    called = np.where(table.source == "S0001", HOSTILE, table.source)
    table = replace(named, source=called, group=called)
    criteria = Criteria.model_validate(
        {
            "accuracy": {"cllr": {"at_most": 0}},
            "discriminating_power": {"eer": {"at_most": 0.5}},
            "generalisation": {"other_cllr": {"at_most": 1}},
        }
    )
    found = validate(system, table, criteria, settings=Settings(replicates=30, draws=2))
    called_so = replace(system, about={**system.about, "file": HOSTILE})
    return render_validation(
        replace(found, system=called_so, costliest=((HOSTILE, 0.1),), criteria_file="criteria.yaml")
    )


def test_the_page_is_self_contained_and_harmless(page: str) -> None:
    assert "<script" not in page
    assert HOSTILE not in page
    assert "&lt;img src=x" in page
    assert "default-src 'none'; script-src 'none'" in unescape(page)
    for target in re.findall(r'(?:href|src)="([^"]*)"', page):
        assert target.startswith(("data:", "#")), target
    assert "http-equiv" in page
    assert "url(http" not in page


def test_the_page_says_pass_and_fail_in_words(page: str) -> None:
    assert page.count("✓ pass") == 1
    assert page.count("✗ fail") == 1
    assert page.count("✗ not judged") == 1
    assert page.count("no criterion") >= 10
    assert page.count("<svg") == 4
    assert page.count('role="img"') == 4
    ids = re.findall(r'<[^>]* id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_table_without_replicates_has_no_coherence_plot() -> None:
    system = trained()
    table = simulated(50, 4, 2)
    pairs = part(table, np.isin(table.instance, ["1", "2"]))
    found = validate(system, pairs, settings=Settings(replicates=10))
    page = render_validation(found)
    assert page.count("<svg") == 3
    assert "No criteria were given" in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt install chromium")
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width", [1366, 390])
def test_it_opens_without_requests_and_prints(browser: Any, page: str, tmp_path: Path, width: int) -> None:
    path = tmp_path / "validation.html"
    path.write_text(page, encoding="utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 800})
    complaints: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(path.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert all(
        box["height"] > 100 for box in (figure.bounding_box() for figure in opened.query_selector_all("figure svg"))
    )
    assert opened.is_visible("text=Validated by")
    pdf = opened.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert complaints == []
    assert [request for request in requests if not request.startswith("data:")] == [path.as_uri()]
    opened.close()

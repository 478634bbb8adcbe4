"""The page: self-contained, harmless whatever the names, complete without scripts, small enough."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jinja2
import numpy as np
import pytest

from lindley.pages.page import Picture, picture, render_page
from lindley.pages.palette import STYLE_COLOURS
from lindley.pages.run_drawings import draw_outliers, draw_pictures, draw_scatter_matrix, save_pictures
from lindley.pages.run_figures import Report
from lindley.pages.run_page import MOST_COLUMNS, covariance_table, render_run, write_report
from lindley.pages.run_words import headline, series_words
from tests.pages.factory import HOSTILE, make_report

NO_PICTURES: dict[str, Picture] = {}


class Page(HTMLParser):
    """Elements, the text of scripts, and all other text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._script: dict[str, str | None] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))
        else:
            self.text += data


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report(axes=4, neural=2, epochs=20, sources=30)


@pytest.fixture(scope="module")
def pictures(report: Report) -> dict[str, Picture]:
    return draw_pictures(report)


@pytest.fixture(scope="module")
def hostile() -> Page:
    return Page(render_run(make_report(axes=3, neural=1, epochs=10, sources=12, hostile=True), NO_PICTURES))


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return Page(render_run(report, NO_PICTURES))


def test_hostile_names_make_no_element_and_end_no_script(hostile: Page) -> None:
    # plotly's own script, the page's two, and data blocks: nothing else
    assert sum("type" not in attributes for attributes, _ in hostile.scripts) == 3
    assert not any("onerror" in attributes for _, attributes in hostile.elements)
    assert not any(attributes.get("src") == "x" for _, attributes in hostile.elements)
    for attributes, content in hostile.scripts:
        if attributes.get("type") == "application/json":
            json.loads(content)
            assert "<" not in content
    assert HOSTILE in hostile.text  # shown as it is


def test_only_the_three_scripts_may_run_and_nothing_may_be_loaded(page: Page) -> None:
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    run = [content for attributes, content in page.scripts if "type" not in attributes]
    assert {base64.b64encode(hashlib.sha256(c.encode()).digest()).decode() for c in run} == allowed


def test_a_template_that_asks_for_what_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="report"):
        render_page("run.html", language="en")


def test_the_style_sheet_has_the_colours_of_the_pictures(report: Report) -> None:
    style = render_run(report, NO_PICTURES).split("</style>")[0]
    used = set(re.findall(r"var\(--([a-z]+)\)", style))
    assert used == {
        *re.findall(r"--([a-z]+):", style),
        "paper",
    }  # each is there, none for nothing; run.js sets that one
    assert {f"--{name}: {colour};" for name, colour in STYLE_COLOURS.items()} <= set(
        re.findall(r"--[a-z]+: [^;]+;", style)
    )


def test_no_element_points_outside_the_page(page: Page) -> None:
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, name, value)


def test_every_place_has_its_figure(page: Page) -> None:
    sets = {a["id"]: json.loads(c) for a, c in page.scripts if (a.get("id") or "").startswith("set-")}
    places = [a for _, a in page.elements if a.get("class") == "plot" and "data-set" in a]
    assert len(places) > 100
    for place in places:
        assert place["data-figure"] in sets[f"set-{place['data-set']}"]
        assert place["aria-label"]


def test_tables_and_text_need_no_script(page: Page, report: Report) -> None:
    for row in report.summary.rows:
        assert row.name in page.text
    assert "raw: similarity over typicality kept" in page.text
    assert "post-hoc calibrated" in page.text
    for model in report.models:
        assert model.outliers.outliers[0].source in page.text
    for name, value in report.facts:
        assert name in page.text
        assert value in page.text


def test_headings_are_in_order(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_controls_have_labels_and_pictures_have_words(report: Report, pictures: dict[str, Picture]) -> None:
    page = Page(render_run(report, pictures))
    labelled = {a.get("for") for tag, a in page.elements if tag == "label"}
    assert {a["id"] for tag, a in page.elements if tag == "select"} <= labelled
    images = [a for tag, a in page.elements if tag == "img"]
    # scatter matrices, and still pictures of all else but the series, whose table says the same
    assert len(images) == 2 + 8 + len(report.kinds)
    assert all(a.get("alt") for a in images)


def test_findings_are_shown_only_if_there_are_any(page: Page, hostile: Page) -> None:
    assert "check of the table" not in page.text
    assert "3 rows are the same as another row" in hostile.text


def test_the_headline_names_the_best_model_the_benchmarks_and_the_floor(report: Report) -> None:
    said = " ".join(headline(report))
    best = next(row for row in report.summary.rows if row.name == report.best)
    assert f"“{best.label}, {best.family}”" in said
    assert "post-hoc calibrated" in said
    assert "floor" in said
    alone = replace(report, summary=replace(report.summary, rows=(best,), oracle=None, splits=1))
    assert len(headline(alone)) == 1
    assert "one split" in headline(alone)[0]


def test_the_series_says_what_was_done_and_marks_the_lowest_model(report: Report, page: Page) -> None:
    assert report.series is not None
    said = series_words(report)
    assert "From 1×1 to 2×3 measurements" in said[0]
    assert f"falls for {len(report.models)} of {len(report.models)} models" in said[0]
    assert "fitted as the protocol says, with 1×1" in said[1]
    assert "Calibrations were fitted" in said[2]
    assert "fewer sources" in said[3]
    assert all(sentence in page.text for sentence in said)
    assert "28 of 30" in page.text  # sources with enough measurements
    assert sum("best" in (a.get("class") or "").split() for tag, a in page.elements if tag == "td") == 3
    (raw,) = [row for row in report.series.rows if row.name == "tlm"]
    alone = replace(report, series=replace(report.series, rows=(raw,), sources=(30, 30, 30)), best="tlm")
    assert series_words(alone)[0].endswith(".")
    assert "models" not in series_words(alone)[0]
    assert len(series_words(alone)) == 3


@pytest.mark.usefixtures("undrawn")
def test_a_table_of_one_size_has_no_series_in_its_report(report: Report) -> None:
    without = replace(report, series=None)
    assert "More measurements" not in render_run(without, NO_PICTURES)
    assert set(draw_pictures(report, every_loss=False)) - set(draw_pictures(without, every_loss=False)) == {"series"}


def test_a_score_does_not_claim_similarity_over_typicality(report: Report) -> None:
    row = replace(report.summary.rows[0], is_score=True)
    alone = replace(report, summary=replace(report.summary, rows=(row,), oracle=None), best=row.name)
    assert not row.keeps_reading
    assert "similarity over typicality" not in " ".join(headline(alone))
    scored = replace(report, summary=replace(report.summary, rows=(row, *report.summary.rows[1:])))
    assert "a trained score, without densities" in render_run(scored, NO_PICTURES)


def test_a_model_without_training_and_a_report_without_kinds(report: Report) -> None:
    classical = tuple(m for m in report.models if m.loss is None)
    rows = tuple(row for row in report.summary.rows if row.family == "benchmark")
    less = replace(
        report, models=classical, kinds=(), best="tlm", summary=replace(report.summary, rows=rows, oracle=None)
    )
    page = Page(render_run(less, NO_PICTURES))
    assert not any(a.get("id") == "kinds" for _, a in page.elements)
    assert "tlm" in page.text


def test_equal_figures_are_kept_once(report: Report) -> None:
    twice = replace(report, models=(*report.models, replace(report.models[0], name="copy")))
    assert len(render_run(twice, NO_PICTURES)) < len(render_run(report, NO_PICTURES)) + 40_000


def test_the_paper_at_full_size_stays_below_15_mb() -> None:
    """26 models with 18 axes each, loss curves and QQ plots as long as the computing part gives them."""
    report = make_report(axes=18, neural=11, epochs=400, sources=351)
    assert len(report.models) == 26
    assert len(render_run(report).encode()) < 14_200_000  # and 0.8 MB are left for long names


def test_a_report_is_the_same_every_time(report: Report, pictures: dict[str, Picture]) -> None:
    again = draw_pictures(report, every_loss=False)
    assert {name: pictures[name] for name in again} == again
    assert render_run(report, pictures) == render_run(report, again)


@pytest.mark.usefixtures("undrawn")
def test_the_folder_holds_the_page_and_pictures_and_nothing_else(report: Report, tmp_path: Path) -> None:
    path = write_report(replace(report, models=report.models[:1]), tmp_path / "new")
    assert path == tmp_path / "new" / "report.html"
    assert sorted(p.name for p in path.parent.iterdir()) == ["figures", "report.html"]
    assert {p.suffix for p in (path.parent / "figures").iterdir()} == {".svg", ".png"}


@pytest.mark.usefixtures("undrawn")
def test_networks_have_a_sketch_and_their_focus_axes_on_the_page_and_in_the_folder(
    report: Report, tmp_path: Path
) -> None:
    html = render_run(report, NO_PICTURES)
    networks = sum(model.sketch is not None for model in report.models)
    assert networks == sum(model.loss is not None for model in report.models) > 0
    assert html.count("How the model is built") == html.count(">Focus axes<") == networks
    assert html.count('<svg xmlns="http://www.w3.org/2000/svg" class="drawn"') == 2 * networks
    few = tuple(model for model in report.models if model.name == report.best)
    figures = write_report(replace(report, models=few), tmp_path).parent / "figures"
    for name, first in (("best-sketch", "Sketch of the model"), ("best-focus", "Validation Cllr of every axis")):
        drawn = (figures / f"{name}.svg").read_text("utf-8")
        assert drawn in html
        assert first in drawn


def test_saved_pictures_are_svg_and_png_with_a_loss_per_neural_model(
    report: Report, pictures: dict[str, Picture], tmp_path: Path
) -> None:
    paths = save_pictures(tmp_path, pictures)
    stems = {path.stem for path in paths}
    assert {
        "summary",
        "series",
        "best-omnibus",
        "best-axes-llr",
        "best-outliers",
        "data-source-means",
        "data-deviations",
    } <= stems
    assert {f"loss-{m.name}" for m in report.models if m.loss is not None} <= stems
    assert len(paths) == 2 * len(stems) < 60
    for path in paths:
        start = path.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in start


def test_pictures_take_dollars_and_letters_that_the_font_lacks(report: Report) -> None:
    worst = replace(report.models[0].outliers.outliers[0], source="$\\frac{玻璃}$")
    assert picture(partial(draw_outliers, replace(report.models[0].outliers, outliers=(worst,)))).png


def test_scatter_matrices_of_one_feature_and_of_constant_ones() -> None:
    values = np.random.default_rng(0).normal(size=(30, 3))
    values[:, 1] = 2.0
    for d in (1, 3):
        assert picture(partial(draw_scatter_matrix, ("a", "b", "c")[:d], values[:, :d])).png


def test_covariances_are_tinted_by_correlation() -> None:
    table = covariance_table(("a", "b", "c"), np.array([[4.0, -2.0, 0.0], [-2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    assert table.rows[0][1].text == "−2.00e0"
    assert table.rows[0][1].correlation == -1.0
    assert table.rows[0][2].correlation == 0.0
    assert covariance_table(tuple("x" * 40), np.eye(40)).left_out == 40 - MOST_COLUMNS

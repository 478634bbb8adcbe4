"""What is drawn is what the figures hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from lindley.evaluation.curves import Histogram, PavCurve
from lindley.pages import run_screen
from lindley.pages.run_figures import Report, SummaryFigure, calibration_limits, series_layout, summary_layout
from lindley.pages.run_screen.one_model import calibration_figure, histogram_figure
from lindley.pages.run_screen.parts import rounded, safe
from tests.pages.factory import HOSTILE, make_report


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report(axes=4, neural=2, epochs=30, sources=40)


def close(drawn: list[float | None], values: object) -> bool:
    return bool(np.allclose(np.array(drawn, dtype=float), np.asarray(values, dtype=float), rtol=1e-3, atol=1e-12))


def test_the_summary_shows_every_model_on_validation_and_test(report: Report) -> None:
    figure = run_screen.summary_figure(report.summary)
    for part, word in (("validate", "validation"), ("test", "test")):
        for family, symbol in (("single", "square"), ("double", "circle"), ("benchmark", "diamond")):
            trace = next(t for t in figure["data"] if t["name"] == f"{word}, {family}")
            rows = [row for row in report.summary.rows if row.family == family]
            assert close(trace["x"], [getattr(row, part) for row in rows])
            assert close(trace["error_x"]["array"], [getattr(row, f"{part}_error") for row in rows])
            assert trace["marker"]["symbol"] == symbol
            assert [data[1] for data in trace["customdata"]] == [safe(row.name) for row in rows]


def test_single_and_double_share_a_line_and_benchmarks_come_last(report: Report) -> None:
    layout = summary_layout(report.summary)
    place = {row.name: at for row, at in zip(report.summary.rows, layout.places, strict=True)}
    assert abs(place["ntlm-single-pairs-n1"] - place["ntlm-double-pairs-n1"]) < 0.5
    assert max(at for name, at in place.items() if name.startswith("ntlm")) < min(place["tlm"], place["tlm+logistic"])
    assert len(layout.labels) == 6
    assert layout.benchmarks == 4


def test_equal_labels_of_one_family_get_a_line_each(report: Report) -> None:
    first = report.summary.rows[0]
    layout = summary_layout(SummaryFigure((first, replace(first, name="other")), None, 3))
    assert layout.labels == (first.label, f"{first.label} (other)")


def test_bands_are_the_best_benchmarks_by_validation_the_oracle_and_neutral(report: Report) -> None:
    layout = summary_layout(report.summary)
    rows = {row.name: row for row in report.summary.rows}
    calibrated = min((rows["tlm+logistic"], rows["tlm-kde+logistic+elub"]), key=lambda row: row.validate)
    raw = min((rows["tlm"], rows["yeo-johnson:tlm"]), key=lambda row: row.validate)
    assert [band.mean for band in layout.bands] == sorted([calibrated.test, raw.test, 0.011, 1.0], reverse=True)
    assert len({band.dash for band in layout.bands}) == 4  # told apart without colour
    lines = [
        s for s in run_screen.summary_figure(report.summary)["layout"]["shapes"] if s["type"] == "line" and "yref" in s
    ]
    assert [line["x0"] for line in lines] == [band.mean for band in layout.bands]


def test_the_series_shows_every_model_and_the_oracle_at_every_size(report: Report) -> None:
    assert report.series is not None
    figure = run_screen.series_figure(report.series)
    assert figure["layout"]["xaxis"]["ticktext"] == ["1×1", "2×2", "2×3"]
    assert figure["layout"]["yaxis"]["type"] == "log"
    for trace, row in zip(figure["data"], report.series.rows, strict=True):
        shown = trace["y"] if row.family is not None else trace["y"][:2]  # a log axis has no place for the oracle's 0
        assert close(shown, row.cllr[: len(shown)])
        assert close(trace["error_y"]["array"], row.error)
        assert [round(x) for x in trace["x"]] == [0, 1, 2]
    assert figure["data"][-1]["y"][2] is None
    lines = series_layout(report.series).lines
    look = {line.row.name: (line.colour, line.dash) for line in lines}
    assert look["tlm"][0] == look["tlm+logistic"][0]  # of one fit
    assert look["tlm"][1] != look["tlm+logistic"][1]
    assert look["tlm"][0] != look["yeo-johnson:tlm"][0]


def test_the_series_of_one_split_has_no_error_bars(report: Report) -> None:
    assert report.series is not None
    rows = tuple(replace(row, error=(0.0, 0.0, 0.0), cllr=(0.4, 0.3, 0.2)) for row in report.series.rows)
    figure = run_screen.series_figure(replace(report.series, rows=rows))
    assert not any(trace["error_y"]["visible"] for trace in figure["data"])
    assert "type" not in figure["layout"]["yaxis"]


@pytest.mark.parametrize(("highest", "log"), [(0.05, False), (3.0, True)])
def test_the_axis_is_log_when_values_span_more_than_a_decade(report: Report, highest: float, log: bool) -> None:
    row = report.summary.rows[0]
    rows = tuple(replace(row, name=str(v), label=str(v), validate=v, test=v) for v in (0.02, highest))
    layout = summary_layout(SummaryFigure(rows, None, 5))
    assert layout.log is log
    assert layout.limits[0] < 0.02
    assert layout.limits[1] > highest


def test_error_bars_of_a_log_axis_stay_on_it(report: Report) -> None:
    row = replace(report.summary.rows[0], test=0.05, test_error=0.4)
    layout = summary_layout(SummaryFigure((row, replace(row, name="b", label="b", test=2.0)), None, 5))
    below, above = layout.span(0.05, 0.4)
    assert 0.05 - below >= layout.limits[0] > 0
    assert above == 0.4


def test_one_split_and_only_benchmarks_can_be_drawn(report: Report) -> None:
    rows = tuple(replace(r, test_error=0.0, validate_error=0.0) for r in report.summary.rows if r.family == "benchmark")
    figure = run_screen.summary_figure(SummaryFigure(rows, None, 1))
    assert len(figure["data"]) == 2
    json.dumps(figure, allow_nan=False)


def test_loss_axes_and_omnibus_hold_the_numbers(report: Report) -> None:
    model = report.models[0]
    figures = run_screen.model_figures(model)
    assert model.loss is not None
    loss = {trace["name"]: trace for trace in figures["loss"]["data"]}
    assert close(loss["training"]["y"], model.loss.train.y)
    assert close(loss["validation"]["y"], model.loss.validate.y)
    assert [t["meta"] for t in figures["loss"]["data"] if "meta" in t] == [curve.name for curve in model.loss.axes]
    assert {shape.get("x0") for shape in figures["loss"]["layout"]["shapes"]} >= {model.loss.best_epoch}
    panel = model.axes[2]
    bars = {trace["name"]: trace["y"] for trace in figures["axis-2"]["data"]}
    assert close(bars["same-source"], panel.histogram.same)
    assert close(bars["different-source"], panel.histogram.different)
    assert close(figures["h1-2"]["data"][1]["y"], panel.qq[0].y)
    assert close(figures["h2-2"]["data"][1]["x"], panel.qq[1].x)
    assert close(figures["ece"]["data"][1]["y"], model.omnibus.ece.system)
    assert close(figures["tippett"]["data"][0]["y"], model.omnibus.tippett.same)
    marks = figures["histogram"]["data"][3]
    assert [data[0] for data in marks["customdata"]] == [f"{t} – {r}" for t, r, _ in model.omnibus.misleading_same]
    cost = figures["cost"]["data"]
    assert close(cost[0]["x"], [o.same for o in model.outliers.outliers])
    assert close(cost[1]["x"], [o.different for o in model.outliers.outliers])
    assert close(figures["without"]["data"][0]["y"], model.outliers.without)


def test_every_figure_is_json_with_a_height(report: Report) -> None:
    sets = [run_screen.model_figures(model) for model in report.models] + [run_screen.kind_figures(report.kinds)]
    for figures in sets:
        for figure in figures.values():
            json.dumps(figure, allow_nan=False)
            assert figure["layout"]["height"] > 0


def test_infinite_ends_of_pav_become_triangles_and_pairs_are_named(report: Report) -> None:
    panel = replace(
        report.models[0].runs.panels[0],
        pav=PavCurve(
            np.array([-9.0, -2.0, -1.0, 1.0, 2.0, 5.0]), np.array([-np.inf, -np.inf, 0.1, 0.1, np.inf, np.inf])
        ),
        same=(("a", "a", 1.0),),
        different=(("a", "b", -1.0),),
    )
    traces = calibration_figure(panel, (-3.0, 3.0))["data"]
    assert traces[1]["x"] == [-1, 1]
    assert [t["x"] for t in traces if t.get("marker", {}).get("symbol") == "triangle-down"] == [[-2]]
    assert [t["x"] for t in traces if t.get("marker", {}).get("symbol") == "triangle-up"] == [[2]]
    assert [t["customdata"] for t in traces if "customdata" in t] == [[["a – b", "−1.00"]], [["a – a", "1.00"]]]


def test_calibration_panels_share_limits_that_outliers_do_not_stretch(report: Report) -> None:
    figure = report.models[0].runs
    far = replace(figure.panels[0], pav=PavCurve(np.array([-80.0, 90.0]), np.array([-1.0, 1.0])))
    low, high = calibration_limits(replace(figure, panels=(far, *figure.panels[1:])))
    assert -12 < low < -10
    assert 10 < high < 12


def test_uneven_bins_keep_their_widths() -> None:
    trace = histogram_figure(Histogram(np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.5]), np.array([1.0, 0.0])), 100)[
        "data"
    ][0]
    assert trace["x"] == [0.5, 2]
    assert trace["width"] == [1, 2]


def test_names_cannot_bring_markup_or_templates_into_a_figure() -> None:
    report = make_report(axes=2, neural=1, epochs=10, sources=12, hostile=True)
    figures = {**run_screen.model_figures(report.models[0]), "summary": run_screen.summary_figure(report.summary)}
    text = json.dumps(figures)
    assert "<script" not in text.lower()
    assert "<img" not in text
    assert safe(HOSTILE) in text.replace('\\"', '"')
    for figure in figures.values():
        for trace in figure["data"]:
            assert "alert" not in trace.get("hovertemplate", "")


def test_numbers_are_short_and_gaps_are_null() -> None:
    assert rounded([1 / 3, math.nan, math.inf, 2.0, 1234567.0]) == [0.33333, None, None, 2, 1234600]

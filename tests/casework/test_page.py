"""The report of a case as text: complete, self-contained, and safe from whatever labels hold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lindley.casework.applicability import CHECKS
from lindley.casework.case import Case, Language, Notes
from lindley.pages import case_figures as figures
from lindley.pages.case_page import render_case
from tests.casework.factory import FEATURES, case, items

HOSTILE = "</title><script>alert(1)</script>\"'<img src=x onerror=alert(2)> & ${{7*7}} {x}"


def make(folder: Path, model: str = "tlm-kde", same: bool = True, language: Language = "en", **options: str) -> Case:
    a, b = items(3, 2, 5)
    notes = Notes("2026-17", "J. de Vries", "jacket", "window", "lindley case …", "2026-01-01")
    return case(folder, a[:2], a[2:] if same else b[2:], model, language, notes=notes, **options)


def text_of(page: str) -> str:
    body = re.sub(r"(?s)<(style|script)\b[^>]*>.*?</\1>", "", page)
    body = re.sub(r"</?bdi\b[^>]*>", "", body)  # inside a sentence
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_everything_the_issue_asks_for_is_there(tmp_path: Path) -> None:
    one = make(tmp_path)
    page = render_case(one)
    text = text_of(page)
    for section in ("conclusion", "remarks", "propositions", "measured", "where", "why", "limits", "sign", "expert"):
        assert f'id="{section}"' in page
    assert one.verbal.sentence in text
    assert text.index("Conclusion") < text.index("Propositions") < text.index("For the expert")
    assert all(name in text for name in FEATURES)
    assert one.system.sha256 in text
    assert all(digest in text for e in (one.trace, one.ref) for _, digest in e.items.files)
    assert "lindley case …" in text
    assert all(code in text for code in CHECKS)
    assert page.count('class="strip"') == 4
    assert all(f"{value:.6g}".replace("-", "−") in text for value in one.trace.items.measured.ravel())
    assert page.count("<details>") == 9


def test_nothing_is_asked_of_the_world(tmp_path: Path) -> None:
    page = render_case(make(tmp_path))
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "url(" not in re.sub(r"url\(#[a-z]+-\d+\)", "", page)
    assert len(page) < 400_000


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("model", ["tlm", "tlm-kde+logistic", "ntlm-double-pairs-n2-common"])
@pytest.mark.parametrize("language", ["en", "nl"])
def test_every_model_in_both_languages(model: str, language: Language, same: bool, tmp_path: Path) -> None:
    one = make(tmp_path, model, same, language, scale="enfsi")
    page = render_case(one)
    assert f'<html lang="{language}">' in page
    calibrated = {"en": "not similarity over typicality", "nl": "niet similarity gedeeld door typicality"}[language]
    assert (calibrated in text_of(page)) == ("+" in model)
    assert "nan" not in re.sub(r"(?s)<style>.*?</style>", "", page).casefold().replace("onafhankelijk", "").split()
    assert "{" not in text_of(page)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    a = items(3, 1, 4)[0]
    notes = Notes(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    page = render_case(case(tmp_path, a[:1], a[1:], notes=notes))
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "alert(1)&lt;/script&gt;" in page


def test_hostile_features_and_units_stay_text(tmp_path: Path) -> None:
    one = make(tmp_path)
    names = (HOSTILE, "a</text></svg><script>", 'b" onload="alert(3)', "Rb85")
    said = replace(
        one.explanation,
        features=tuple(
            replace(f, feature=n, unit=HOSTILE) for f, n in zip(one.explanation.features, names, strict=True)
        ),
        axes=tuple(replace(a, features=((HOSTILE, 1.0),)) for a in one.explanation.axes),
    )
    about = {**one.system.about, "file": HOSTILE, "data": {"name": HOSTILE}}
    system = replace(one.system, features=names, units=(HOSTILE,) * 4, about=about)
    page = render_case(replace(one, explanation=said, system=system))
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert ' onload="alert' not in page


def test_the_same_case_gives_the_same_page(tmp_path: Path) -> None:
    assert render_case(make(tmp_path)) == render_case(make(tmp_path))


def test_many_measurements_are_summed_up_for_the_court(tmp_path: Path) -> None:
    a = items(3, 1, 14)[0]
    page = render_case(case(tmp_path, a[:2], a[2:]))
    assert "mean and their range" in text_of(page)
    assert all(f"{value:.6g}".replace("-", "−") in page for value in a.ravel())  # … and all are there for the expert


def test_pictures_hold_what_they_show(tmp_path: Path) -> None:
    one = make(tmp_path)
    for k, strip in enumerate(figures.strips(one)):
        low, high = strip.limits
        assert low < min(strip.trace.min(), strip.ref.min())
        assert high > max(strip.trace.max(), strip.ref.max())
        assert strip.hill[:, 1].max() == 1
        assert (np.diff(strip.hill[:, 0]) > 0).all()
        assert all(low <= at <= high for at, _ in strip.ticks)
        np.testing.assert_array_equal(strip.trace, one.trace.items.values[:, k])
    scatter = figures.scatter_figure(one)
    assert scatter is not None
    assert scatter.sources.shape == (60, 2)
    assert scatter.trace.shape == (2, 2)
    assert scatter.sources[:, 0].var() >= scatter.sources[:, 1].var()
    assert scatter.near is not None
    assert sum(share.log10_lr for share in one.explanation.features) == pytest.approx(one.explanation.log10_lr)


def test_the_picture_of_the_lr_holds_its_bounds_and_its_band(tmp_path: Path) -> None:
    for same in (True, False):
        one = make(tmp_path, same=same)
        figure = figures.scale_figure(one)
        assert figure.limits[0] < figure.bounds[0] <= figure.bounded <= figure.bounds[1] < figure.limits[1]
        assert figure.band[0] <= figure.bounded <= figure.band[1]
        assert (figure.bounded > 0) == same
    assert not figure.raw_visible  # 1e-400 is off the paper


@pytest.mark.parametrize("transform", ["log10", "ln"])
def test_a_log_scale_is_labelled_as_measured(transform: str) -> None:
    back = (lambda v: 10**v) if transform == "log10" else np.exp
    for limits in ((0.0, 3.0), (0.1, 0.12), (-5.0, 9.0)):
        for at, label in figures._ticks(limits, transform):
            assert float(label.replace("−", "-")) == pytest.approx(float(back(at)), rel=1e-3)

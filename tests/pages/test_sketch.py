"""How a network is built and which of its axes are in focus: the numbers, the words and the drawings."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from lindley.evaluation.axes import AxisAnalysis
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.pages.run_sketch import FocusFigure, draw_focus, draw_sketch, focus_figure, focus_words, sketch
from lindley.system.kinds import KINDS
from lindley.system.names import ModelName

SVG = "{http://www.w3.org/2000/svg}"


def analysis(seed: int, shifts: tuple[float, ...]) -> AxisAnalysis:
    """An axis for every shift of its same-source LLRs above, and different-source LLRs below, zero."""
    rng = np.random.default_rng(seed)
    same, different = rng.normal(shifts, 0.3, (50, len(shifts))), rng.normal(-np.array(shifts), 0.3, (400, len(shifts)))
    z = np.zeros((50, len(shifts)))
    return AxisAnalysis(same, different, z, z)


def test_axes_are_chosen_by_validation_and_judged_on_test() -> None:
    validate, test = analysis(1, (1.0, -0.5, 0.4)), analysis(2, (1.0, 0.6, -0.2))
    figure = focus_figure(validate, test)
    assert figure.chosen == (0, 2)  # by validation; on test pairs it is the last one that misleads
    assert figure.cllr == tuple(validate.cllr)
    for part, focused, whole in (
        (validate, figure.validate_focus, figure.validate_all),
        (test, figure.test_focus, figure.test_all),
    ):
        assert whole == pytest.approx(cllr(LLRs(part.same.sum(1), part.different.sum(1))))
        kept = LLRs(part.same[:, [0, 2]].sum(1), part.different[:, [0, 2]].sum(1))
        assert focused == pytest.approx(cllr(kept))
    assert "2 of 3 axes" in focus_words(figure)
    assert "cost more" in focus_words(figure)
    assert figure.test_focus > figure.test_all


def test_words_where_nothing_is_left_out_and_where_it_helps() -> None:
    assert "None of the 2 axes" in focus_words(FocusFigure((0.4, 1.0), 0.2, 0.2, 0.3, 0.3))
    helps = focus_words(FocusFigure((0.4, 1.01), 0.2, 0.1, 0.31, 0.123))
    assert "cost less" in helps
    assert "Cllr 0.123 instead of 0.310 on test pairs" in helps


@pytest.mark.parametrize("cllrs", [(0.5,), (0.5, 1.0, 1.2), tuple(np.geomspace(0.01, 30, 200)), (2.0, 3.0), (0.0, 1.0)])
def test_every_axis_is_a_mark(cllrs: tuple[float, ...]) -> None:
    figure = FocusFigure(cllrs, 0.1, 0.2, 0.3, 0.4)
    root = ElementTree.fromstring(draw_focus(figure))
    circles = list(root.iter(f"{SVG}circle"))
    assert len(circles) == len(cllrs)
    rings = [circle for circle in circles if circle.get("fill") == "#fff"]
    assert len(rings) == len(cllrs) - len(figure.chosen)
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for circle in circles:
        assert 0 < float(str(circle.get("cx"))) < width
        assert 0 < float(str(circle.get("cy"))) < height
    heights = [float(str(circle.get("cy"))) for circle in circles]
    assert heights == sorted(heights, reverse=True)  # the lowest Cllr first


NETWORKS = [name for name, kind in KINDS.items() if "projection" in kind.says]


@pytest.mark.parametrize("law", ["", "-common", "-varying"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_every_network_has_a_sketch_that_tells_it_from_the_others(kind: str, law: str) -> None:
    name = ModelName.parse(f"{kind}{law}")
    found = sketch(name, 18)
    assert found is not None
    titles = [box.title for box in found.boxes]
    said = " ".join(line for box in found.boxes for line in box.lines)
    assert ("whiten within" in titles) == (name.kind.says["projection"] == "double")
    assert ("σ_trace" in said) == (name.kind.says["within"] == 2)
    assert ("Student-t" in said) == (law == "-common")
    assert ("gamma, integrated" in said) == (law == "-varying")
    assert ("sources" in found.training) == (name.kind.says["mode"] == "sources")
    root = ElementTree.fromstring(draw_sketch(found))
    boxes = list(root.iter(f"{SVG}rect"))
    assert len(boxes) == len(titles)
    thick = [float(str(box.get("stroke-width"))) > 2 for box in boxes]
    assert thick == [box.trained for box in found.boxes]
    width = float(str(boxes[0].get("width")))
    for text in root.iter(f"{SVG}text"):
        if text.text != found.training:
            assert 6.8 * len(str(text.text)) < width, text.text  # the widest letters of a plain font
    others = [sketch(ModelName.parse(f"{other}{law}"), 18) for other in NETWORKS if other != kind]
    assert found not in others


def test_options_are_on_the_sketch_and_other_models_have_none() -> None:
    options = sketch(ModelName.parse("ntlm-double-pairs-n1[components=1000,orthonormal=householder]"), 5)
    assert options is not None
    lines = [line for box in options.boxes for line in box.lines]
    assert lines.count("(by householder)") == 2
    assert "between: 1000 N(μ, σ_b)" in lines
    assert sketch(ModelName.parse("tlm"), 5) is None
    assert sketch(ModelName.parse("robust"), 5) is None

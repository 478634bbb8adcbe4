"""Two pictures of a network, as SVG written by hand: how it is built, and which of its axes do not mislead by themselves.

The *sketch* is the model as boxes, from two measurements to the LLR. The *focus axes* are those whose own Cllr on validation
pairs is 1 or less; what the LLRs of these axes alone would cost is told beside what all of them cost. Nothing is told by colour
alone: what is trained has a thick border, and an axis that is left out is a ring with a cross.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from lindley.evaluation.axes import AxisAnalysis
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.pages.numerals import log_ticks, number, tick_label
from lindley.pages.palette import GRID, INK, MUTED, NEUTRAL, RULE, TEST
from lindley.system.names import ModelName

__all__ = ["Box", "FocusFigure", "Sketch", "draw_focus", "draw_sketch", "focus_figure", "focus_words", "sketch"]

MISLEADS = 1.0
"""The Cllr above which an axis, by itself, is worse than no LR: the paper's limit."""
WIDTH = 760.0
FONT = "system-ui, 'Segoe UI', 'Liberation Sans', sans-serif"
PALE = "#e8f1f8"


@dataclass(frozen=True)
class FocusFigure:
    """Cllr of every axis on validation pairs, and what the chosen ones alone would cost, on the same pairs as all of them."""

    cllr: tuple[float, ...]  # of every axis by itself, on validation pairs
    validate_all: float
    validate_focus: float
    test_all: float
    test_focus: float

    @property
    def chosen(self) -> tuple[int, ...]:
        """The focus axes, from 0."""
        return tuple(axis for axis, value in enumerate(self.cllr) if value <= MISLEADS)


def focus_figure(validate: AxisAnalysis, test: AxisAnalysis) -> FocusFigure:
    """Choose axes by what they cost on validation pairs; the test pairs choose nothing."""
    chosen = validate.cllr <= MISLEADS

    def focused(analysis: AxisAnalysis) -> float:
        return cllr(LLRs(analysis.same[:, chosen].sum(axis=1), analysis.different[:, chosen].sum(axis=1)))

    return FocusFigure(
        cllr=tuple(validate.cllr.tolist()),
        validate_all=cllr(validate.omnibus),
        validate_focus=focused(validate),
        test_all=cllr(test.omnibus),
        test_focus=focused(test),
    )


def draw_focus(figure: FocusFigure) -> Markup:
    """A point per axis, the least misleading first, on a log scale of Cllr; those above the neutral line are left out."""
    height, left, right, top, bottom = 230.0, 52.0, 16.0, 14.0, 44.0
    order = sorted(range(len(figure.cllr)), key=lambda axis: figure.cllr[axis])
    shown = [max(figure.cllr[axis], 1e-6) for axis in order]
    low, high = min([*shown, MISLEADS]) / 1.15, max([*shown, MISLEADS]) * 1.15

    def up(value: float) -> float:
        return height - bottom - math.log(value / low) / math.log(high / low) * (height - top - bottom)

    step = (WIDTH - left - right) / max(1, len(order))
    parts = []
    for tick in log_ticks(low, high):
        parts += [
            _line(left, up(tick), WIDTH - right, up(tick), GRID),
            _text(left - 7, up(tick) + 4, tick_label(tick), "end"),
        ]
    at_one = up(MISLEADS)
    parts += [
        f'<path d="M{left:.1f} {at_one:.1f}H{WIDTH - right:.1f}" stroke="{NEUTRAL}" stroke-dasharray="6 4"/>',
        _text(left + 6, at_one - 6, "neutral: above it an axis misleads by itself", "start", NEUTRAL),
    ]
    every = max(1, math.ceil(16 / step))  # room for a number
    for place, axis in enumerate(order):
        x, y = left + (place + 0.5) * step, up(shown[place])
        if axis in figure.chosen:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{TEST}"/>')
        else:
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#fff" stroke="{NEUTRAL}" stroke-width="1.5"/>'
                f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6" stroke="{NEUTRAL}" stroke-width="1.2"/>'
            )
        if place % every == 0:
            parts.append(_text(x, height - bottom + 17, str(axis), "middle"))
    parts += [
        _line(left, height - bottom, WIDTH - right, height - bottom, MUTED),
        _text((left + WIDTH - right) / 2, height - 8, "axis, the one with the lowest Cllr first", "middle", INK),
        f'<text transform="translate(13 {(top + height - bottom) / 2:.0f}) rotate(-90)" text-anchor="middle" font-size="12" '
        f'fill="{INK}">validation Cllr of the axis alone</text>',
    ]
    label = f"Validation Cllr of every axis alone: {len(figure.chosen)} of {len(figure.cllr)} are 1 or less"
    return _svg(height, label, parts)


@dataclass(frozen=True)
class Box:
    """A step of a model."""

    title: str
    lines: tuple[str, ...]
    trained: bool


@dataclass(frozen=True)
class Sketch:
    """A network as steps from left to right, and what its training looks at."""

    boxes: tuple[Box, ...]
    training: str


def sketch(name: ModelName, features: int) -> Sketch | None:
    """How a network of so many features is built; nothing for other models."""
    says = name.kind.says
    if "projection" not in says:
        return None
    double, own, options = says["projection"] == "double", says["within"] == 2, dict(name.options)
    by = (f"(by {options['orthonormal']})",) if "orthonormal" in options else ()
    inputs = Box("trace and ref", ("a row each of", f"{features} features,", "standardised"), trained=False)
    if double:
        steps = [
            Box("whiten within", ("times Q_w,", "orthonormal", *by, "over √σ_w, by axis"), trained=True),
            Box("project between", ("times Q_b,", "orthonormal", *by, f"{features} axes"), trained=True),
        ]
    else:
        steps = [Box("project", ("times Q,", "orthonormal", *by, f"{features} axes"), trained=True)]
    if own:
        within: tuple[str, ...] = ("within: σ_trace,", "and σ_ref")
    else:
        within = ("within: 1, whitened",) if double else ("within: σ_w of both",)
    count = int(options.get("components", 1))
    between = "between: N(μ, σ_b)" if count == 1 else f"between: {count} N(μ, σ_b)"
    law = {
        None: (),
        "common": ("integrated out:", "Student-t laws"),
        "varying": ("varying: inverse", "gamma, integrated"),
    }[name.integration]
    per_axis = Box("on every axis", ("p(trace | ref, H₁)", "over p(trace | H₂)", between, *within, *law), trained=True)
    total = Box("add up", (f"LLRs of {features} axes", "= LLR of the pair"), trained=False)
    unit = "pairs of measurements" if says["mode"] == "pairs" else "sources, paired with those seen before"
    return Sketch((inputs, *steps, per_axis, total), f"training: gradients of Cllr, on batches of {unit}")


def draw_sketch(figure: Sketch) -> Markup:
    """Boxes from left to right; a thick border is trained. A dashed line leads back from the LLR to what is trained."""
    gap, top, line = 22.0, 12.0, 16.0
    lines = max(len(box.lines) for box in figure.boxes)
    width, inner = (WIDTH - 12 - gap * (len(figure.boxes) - 1)) / len(figure.boxes), 34 + line * lines
    height, middle = top + inner + 52, top + inner / 2
    starts = [6 + at * (width + gap) for at in range(len(figure.boxes))]
    parts = []
    for x, box in zip(starts, figure.boxes, strict=True):
        fill, stroke, thick = (PALE, TEST, 2.4) if box.trained else ("#fff", RULE, 1.0)
        parts.append(
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{inner:.1f}" rx="5" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{thick}"/>'
        )
        parts.append(_text(x + width / 2, top + 20, box.title, "middle", INK, bold=True))
        parts += [_text(x + width / 2, top + 41 + line * at, text, "middle", INK) for at, text in enumerate(box.lines)]
    for before, after in pairwise(starts):
        parts.append(_arrow(before + width + 3, middle, after - 4, middle))
    trained = [x + width / 2 for x, box in zip(starts, figure.boxes, strict=True) if box.trained]
    end, low = starts[-1] + width / 2, top + inner + 22
    back = f"M{end:.1f} {top + inner:.1f}V{low:.1f}H{min(trained):.1f}"
    parts.append(f'<path d="{back}" fill="none" stroke="{TEST}" stroke-width="1.4" stroke-dasharray="5 4"/>')
    parts += [_arrow(x, low, x, top + inner + 4, TEST, dashed=True) for x in trained]
    parts.append(_text((min(trained) + end) / 2, low + 19, figure.training, "middle", TEST))
    label = "Sketch of the model: " + ", then ".join(box.title for box in figure.boxes)
    return _svg(height, label, parts)


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str = MUTED, dashed: bool = False) -> str:
    """A straight line, to the right or upwards, with a head at its end."""
    head = "l-7 -4v8z" if y1 == y2 else "l-4 7h8z"
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    shaft = f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="1.4"{dash}/>'
    return shaft + f'<path d="M{x2:.1f} {y2:.1f}{head}" fill="{colour}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = MUTED, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    look = f'text-anchor="{anchor}" font-size="11.5" fill="{colour}"{weight}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'


def _svg(height: float, label: str, parts: Sequence[str]) -> Markup:
    """As wide as the page, and a file of its own too."""
    box = f'viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" font-family="{FONT}"'
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" {box}>{"".join(parts)}</svg>')


def focus_words(figure: FocusFigure) -> str:
    """What leaving the others out would do, in a sentence."""
    chosen, count = len(figure.chosen), len(figure.cllr)
    if chosen == count:
        return f"None of the {count} axes misleads by itself, so that nothing is left out."
    change = "cost more" if figure.test_focus > figure.test_all else "cost less"
    return (
        f"{chosen} of {count} axes are 1 or less. By them alone the LLRs would {change}: Cllr {number(figure.test_focus)} "
        f"instead of {number(figure.test_all)} on test pairs, and {number(figure.validate_focus)} instead of "
        f"{number(figure.validate_all)} on validation pairs."
    )

"""The pictures of a case as SVG, written by hand: sharp on screen and paper, and text stays text.

Nothing is told by colour alone: the trace is a dark triangle, the ref a light circle with a dark rim, and the parts of a bar
differ in lightness and hatching. Names come from users' tables, and are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from lindley.casework.explanation import FeatureShare
from lindley.pages.case_figures import Limits, ScaleFigure, ScatterFigure, Strip
from lindley.pages.case_words import WORDS
from lindley.pages.numerals import fixed, grouped, nice_ticks, number, plain, power, shorten, signed, tick_label
from lindley.pages.palette import DIFFERENT, GRID, INK, MUTED, TEST, VALIDATE

__all__ = ["draw_scale", "draw_scatter", "draw_shares", "draw_strip", "key_marks"]

TRACE, REF, HILL, PALE = TEST, DIFFERENT, "#dde3e8", "#9aa6b1"
TEXT = {
    "tick": f'font-size="11.5" fill="{MUTED}"',
    "label": f'font-size="12.5" fill="{INK}"',
    "strong": f'font-size="13.5" font-weight="600" fill="{INK}"',
}
"""Sizes of text by its class: in the pictures themselves, as a writer of PDF files gives them no style of the page."""


def draw_strip(strip: Strip, language: str) -> Markup:
    """A hill over a line, triangles above the line, circles below it."""
    width, height, base, top = 380.0, 92.0, 56.0, 14.0
    at = _Line(strip.limits, (8.0, width - 8.0))
    start, end = map(at, strip.limits)
    hill = " ".join(f"{at(v):.1f},{base - d * (base - top):.1f}" for v, d in strip.hill)
    parts = [
        f'<polygon points="{start:.1f},{base} {hill} {end:.1f},{base}" fill="{HILL}"/>',
        _line(start, base, end, base, MUTED),
    ]
    for tick, label in strip.ticks:
        x = at(tick)
        anchor = "start" if x < 24 else "end" if x > width - 24 else "middle"
        parts += [_line(x, base, x, base + 4, MUTED), _text(x, height - 6, label, anchor, "tick")]
    parts += [_circle(at(value), base + 9) for value in strip.ref]
    parts += [_triangle(at(value), base - 1) for value in strip.trace]
    trace, ref = f"{strip.share.trace_percentile:.0f}", f"{strip.share.ref_percentile:.0f}"
    higher = WORDS[language]["higher_than"].format(trace=trace, ref=ref)
    return _svg(width, height, f"{strip.share.feature}: {higher}", parts)


def draw_scatter(figure: ScatterFigure, language: str, near: tuple[Limits, Limits] | None = None) -> Markup:
    """Training sources as dots, and the trace and the ref among them; ``near``: of a neighbourhood alone."""
    size, left, top = 430.0, 46.0, 8.0
    right, bottom = size - 8, size - 44
    if near is None:
        every = [*figure.sources, *figure.trace, *figure.ref]
        near = _around([x for x, _ in every]), _around([y for _, y in every])
    across, up = _Line(near[0], (left, right)), _Line(near[1], (bottom, top))
    parts = [_rect(left, top, right, bottom, "none", GRID)]
    for tick in nice_ticks(*across.limits, 6):
        x = across(tick)
        parts += [
            _line(x, top, x, bottom, GRID),
            _text(x, bottom + 14, tick_label(tick, language=language), "middle", "tick"),
        ]
    for tick in nice_ticks(*up.limits, 6):
        y = up(tick)
        label = tick_label(tick, language=language)
        parts += [_line(left, y, right, y, GRID), _text(left - 5, y + 3.5, label, "end", "tick")]
    inside = ((x, y) for x, y in figure.sources if x in across and y in up)
    dots = "".join(f"M{across(x):.1f} {up(y):.1f}h0" for x, y in inside)
    parts.append(f'<path d="{dots}" stroke="{PALE}" stroke-width="3.4" stroke-linecap="round" fill="none"/>')
    rx, ry = (max(figure.ring * abs(line.scale), 2) for line in (across, up))
    cx, cy = across(figure.ref_mean[0]), up(figure.ref_mean[1])
    parts.append(
        f'<ellipse cx="{cx:.1f}" cy="{cy:.1f}" rx="{rx:.1f}" ry="{ry:.1f}" fill="none" stroke="{INK}" '
        'stroke-width="1.2" stroke-dasharray="4 3"/>'
    )
    parts += [_circle(across(x), up(y)) for x, y in figure.ref]
    parts += [_triangle(across(x), up(y) + 3) for x, y in figure.trace]
    form = WORDS[language]["scatter_axis"]
    names = [form.format(n=axis + 1, features=shorten(text, 40)) for axis, text in figure.axes]
    parts.append(_text((left + right) / 2, size - 6, names[0], "middle", "label"))
    upwards = _text(0, 0, names[1], "middle", "label")
    parts.append(f'<g transform="translate(12 {bottom / 2}) rotate(-90)">{upwards}</g>')
    return _svg(size, size, f"{names[0]}; {names[1]}", parts)


def draw_shares(rows: Sequence[FeatureShare], language: str, width: float) -> Markup:
    """A bar for every feature: match, rarity and difference, and a diamond at their sum."""
    words = WORDS[language]
    step, top, hatch = 24.0, 30.0, f"hatch-{width:.0f}"
    left = min(34 + 7.0 * max(len(shorten(row.feature, 16)) for row in rows), 150.0)
    right = width - 56
    height = top + step * len(rows) + 26
    bars = [_bar((row.match, row.rarity, row.difference)) for row in rows]
    ends = [0.0, *(end for bar in bars for ends in bar for end in ends)]
    margin = 0.03 * (max(ends) - min(ends)) or 1.0
    at = _Line((min(ends) - margin, max(ends) + margin), (left, right))
    parts = []
    for tick in nice_ticks(*at.limits, 7 if width > 500 else 4):
        x = at(tick)
        label = tick_label(tick, language=language)
        parts += [_line(x, top - 6, x, height - 22, GRID), _text(x, height - 8, label, "middle", "tick")]
    zero = at(0.0)
    parts.append(_line(zero, top - 10, zero, height - 22, INK))
    if zero - left > 90:
        parts.append(_text(zero - 8, top - 12, words["against"], "end", "tick"))
    if right - zero > 90:
        parts.append(_text(zero + 8, top - 12, words["for"], "start", "tick"))
    for place, (row, bar) in enumerate(zip(rows, bars, strict=True)):
        y = top + step * place
        parts.append(_text(left - 8, y + step / 2 + 1, shorten(row.feature, 16), "end", "label", own=True))
        for (start, end), fill in zip(bar, (VALIDATE, TEST, f"url(#{hatch})"), strict=True):
            a, b = sorted((at(start), at(end)))
            if b - a > 0.05:
                parts.append(_rect(a, y + 3, b, y + step - 6, fill, INK, 0.6))
        total = (fixed if abs(row.log10_lr) < 1000 else number)(row.log10_lr, language=language)
        parts.append(_diamond(at(row.log10_lr), y + step / 2 - 1.5, 5, "#fff", INK))
        parts.append(_text(width - 4, y + step / 2 + 1, signed(total), "end", "label"))
    return _svg(width, height, words["shares"], parts, _pattern(hatch, 6, f'fill="{DIFFERENT}"', INK))


def draw_scale(figure: ScaleFigure, language: str, width: float) -> Markup:
    """The LR on a log axis: verbal steps as bands, what validation does not support as hatching."""
    words = WORDS[language]
    height, top, base, hatch = 148.0, 44.0, 92.0, f"unsupported-{width:.0f}"
    at = _Line(figure.limits, (10.0, width - 10.0))
    low, high = figure.limits
    parts = []
    for a, b in pairwise([low, *(step for step in figure.steps if low < step < high), high]):
        strength = sum(abs(step) <= abs((a + b) / 2) for step in figure.steps) / max(1, len(figure.steps) // 2)
        shade = f"rgb({247 - 62 * strength / 2:.0f} {249 - 48 * strength / 2:.0f} {250 - 34 * strength / 2:.0f})"
        parts += [_rect(at(a), top, at(b), base, shade), _line(at(a), top, at(a), base, "#fff")]
    for a, b in ((low, figure.bounds[0]), (figure.bounds[1], high)):
        if b > a:
            parts.append(_rect(at(a), top, at(b), base, f"url(#{hatch})"))
    parts += [_line(at(bound), top - 5, at(bound), base + 3, INK) for bound in figure.bounds]
    a, b = (at(min(max(edge, low), high)) for edge in figure.band)
    parts.append(_rect(a, top, b, base, "none", INK, 1.6))
    for tick in range(math.ceil(low), math.floor(high) + 1):
        x = at(tick)
        parts.append(_line(x, base, x, base + 4, MUTED))
        if width > 500 or tick % 2 == 0:
            parts.append(_text(x, base + 17, _axis_label(tick, language), "middle", "tick"))
    middle = (top + base) / 2
    if figure.interval is not None and figure.interval_visible:
        a, b = (at(min(max(end, low), high)) for end in figure.interval)
        parts.append(_stroke(f"M{a:.1f} {middle}H{b:.1f}M{a:.1f} {middle - 5}v10M{b:.1f} {middle - 5}v10"))
    raw_x, raw_text = at(figure.raw), words["calculated_here"]
    if not figure.raw_visible:
        raw_x, sign = (width - 12, 1) if figure.raw > high else (12.0, -1)
        raw_text = f"{raw_text}: {power(figure.raw)}"
        parts.append(_stroke(f"M{raw_x - 22 * sign} {middle}H{raw_x}m{-8 * sign} -5l{8 * sign} 5l{-8 * sign} 5"))
    if figure.raw != figure.bounded:
        parts.append(_edge_text(raw_x, base + 38, raw_text, width, "tick"))
        if figure.raw_visible:
            parts.append(_diamond(raw_x, middle, 6, "#fff", INK))
            parts.append(_line(raw_x, base + 21, raw_x, base + 28, MUTED))
    reported = at(figure.bounded)
    parts.append(_diamond(reported, middle, 9, TEST, "#fff"))
    parts.append(_line(reported, top - 7, reported, middle - 10, INK))
    parts.append(_edge_text(reported, top - 26, figure.words, width, "strong"))
    parts.append(_edge_text(reported, top - 11, words["reported_here"], width, "tick"))
    pattern = _pattern(hatch, 7, 'fill="#fff" fill-opacity=".55"', PALE)
    bounded = fixed(figure.bounded, language=language)
    return _svg(width, height, f"{words['reported_here']}: log10 LR {bounded}", parts, pattern)


def key_marks() -> dict[str, Markup]:
    """The marks of these pictures, small, for the keys beside them."""
    stripes = "M0 12L12 0M5 14L16 3", "M2 12L12 2M8 12L15 5"
    marks = {
        "trace": _triangle(8, 12),
        "ref": _circle(8, 7),
        "reported": _diamond(8, 7, 6, TEST, TEST, 0),
        "calculated": _diamond(8, 7, 5, "#fff", INK),
        "interval": _stroke("M1 7H15M1 3v8M15 3v8"),
        "unsupported": _rect(0, 0, 16, 14, "#e9edf1") + _stroke(stripes[0], PALE),
        "match": _rect(1, 2, 15, 12, VALIDATE, INK, 0.6),
        "rarity": _rect(1, 2, 15, 12, TEST, INK, 0.6),
        "difference": _rect(1, 2, 15, 12, DIFFERENT, INK, 0.6) + _stroke(stripes[1]),
    }
    return {name: Markup(f'<svg viewBox="0 0 16 14" aria-hidden="true">{mark}</svg>') for name, mark in marks.items()}


class _Line:
    """From values to places along a line."""

    def __init__(self, limits: Limits, ends: Limits) -> None:
        self.limits = limits
        self.scale = (ends[1] - ends[0]) / (limits[1] - limits[0])
        self._start = ends[0]

    def __call__(self, value: float) -> float:
        return self._start + (float(value) - self.limits[0]) * self.scale

    def __contains__(self, value: float) -> bool:
        return self.limits[0] <= value <= self.limits[1]


def _around(values: Sequence[float]) -> Limits:
    margin = 0.04 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin


def _bar(values: Iterable[float]) -> list[Limits]:
    """Where each part of a bar begins and ends: what is above 0 goes on to the right, what is below it to the left."""
    reached, ends = {True: 0.0, False: 0.0}, []
    for value in values:
        start = reached[value >= 0]
        reached[value >= 0] = start + value
        ends.append((start, start + value))
    return ends


def _axis_label(exponent: int, language: str) -> str:
    """LRs from 1/1000 to 1000 in full, others as powers of ten."""
    if abs(exponent) > 3:
        return power(exponent)
    size = grouped(10 ** abs(exponent), language=language)
    return size if exponent >= 0 else f"1/{size}"


def _pattern(name: str, size: int, ground: str, line: str) -> str:
    """Diagonal lines. Its name must be its own: a browser ignores patterns of a picture that it does not show."""
    return (
        f'<defs><pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="{size}" height="{size}" {ground}/>'
        f'<line x1="0" x2="0" y1="0" y2="{size}" stroke="{line}" stroke-width="1.6"/></pattern></defs>'
    )


def _svg(width: float, height: float, label: str, parts: Sequence[str], defs: str = "") -> Markup:
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="sans-serif" aria-label="{escape(plain(label))}"'
    return Markup(f"<svg {box}>{defs}{''.join(parts)}</svg>")


def _text(x: float, y: float, text: str, anchor: str, kind: str, own: bool = False) -> str:
    """``own``: a name of the user's, which nothing is to translate."""
    named = ' translate="no"' if own else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}" {TEXT[kind]}{named}'
    return f"<text {place}>{escape(plain(text))}</text>"


def _edge_text(x: float, y: float, text: str, width: float, kind: str) -> str:
    """Text around a place, kept on the paper: 7 units a letter is wide."""
    half = 3.5 * len(text)
    if x < half:
        return _text(4.0, y, text, "start", kind)
    if x > width - half:
        return _text(width - 4, y, text, "end", kind)
    return _text(x, y, text, "middle", kind)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _rect(x1: float, y1: float, x2: float, y2: float, fill: str, stroke: str = "none", line: float = 1) -> str:
    box = f'x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}"'
    return f'<rect {box} fill="{fill}" stroke="{stroke}" stroke-width="{line}"/>'


def _stroke(path: str, colour: str = INK) -> str:
    return f'<path d="{path}" stroke="{colour}" stroke-width="1.6" fill="none"/>'


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.6" fill="{REF}" stroke="{INK}" stroke-width="1.1"/>'


def _triangle(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}l-5.2 -9.4h10.4z" fill="{TRACE}" stroke="#fff" stroke-width="1" stroke-linejoin="round"/>'


def _diamond(x: float, y: float, r: float, fill: str, stroke: str, line: float = 1.4) -> str:
    path = f"M{x:.1f} {y - r:.1f}l{r} {r}l{-r} {r}l{-r} {-r}z"
    return f'<path d="{path}" fill="{fill}" stroke="{stroke}" stroke-width="{line}"/>'

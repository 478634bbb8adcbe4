"""The pictures of a case as SVG, written by hand: sharp on screen and paper, and text stays text.

Nothing is told by colour alone: the trace is a dark triangle, the ref a light circle with a dark rim, and the parts of a bar
differ in lightness and hatching. Names come from users' tables, and are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from lindley.pages.case_figures import ScaleFigure, ScatterFigure, ShareRow, Strip, nice_ticks, tick_label
from lindley.pages.case_words import power
from lindley.pages.palette import DIFFERENT, GRID, INK, MUTED, TEST, VALIDATE, number, plain, shorten

__all__ = ["draw_scale", "draw_scatter", "draw_shares", "draw_strip"]

TRACE, REF, HILL = TEST, DIFFERENT, "#dde3e8"
Words = Mapping[str, str]


def draw_strip(strip: Strip, words: Words) -> Markup:
    """A hill over a line, triangles above the line, circles below it."""
    width, height, base = 380.0, 92.0, 56.0
    at = _Line(strip.limits, (8.0, width - 8.0))
    top = 14.0
    points = " ".join(f"{at(v):.1f},{base - d * (base - top):.1f}" for v, d in strip.hill)
    parts = [
        f'<polygon points="{at(strip.limits[0]):.1f},{base} {points} {at(strip.limits[1]):.1f},{base}" fill="{HILL}"/>',
        f'<line x1="8" x2="{width - 8}" y1="{base}" y2="{base}" stroke="{MUTED}"/>',
    ]
    for tick, label in strip.ticks:
        x = at(tick)
        anchor = "start" if x < 24 else "end" if x > width - 24 else "middle"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}" stroke="{MUTED}"/>')
        parts.append(_text(x, height - 6, label, anchor, "tick"))
    parts += [_circle(at(value), base + 9) for value in strip.ref]
    parts += [_triangle(at(value), base - 1) for value in strip.trace]
    label = f"{strip.feature}: " + words["higher_than"].format(
        trace=f"{strip.trace_percentile:.0f}", ref=f"{strip.ref_percentile:.0f}"
    )
    return _svg(width, height, label, parts)


Limits = tuple[float, float]


def draw_scatter(figure: ScatterFigure, words: Words, near: tuple[Limits, Limits] | None = None) -> Markup:
    """Training sources as dots, and the trace and the ref among them; ``near``: of a neighbourhood alone."""
    size, left, bottom = 430.0, 46.0, 44.0
    limits = near
    if limits is None:
        every = [*figure.sources, *figure.trace, *figure.ref]
        limits = _around([x for x, _ in every]), _around([y for _, y in every])
    across, up = _Line(limits[0], (left, size - 8)), _Line(limits[1], (size - bottom, 8.0))
    inside = [
        (x, y) for x, y in figure.sources if limits[0][0] <= x <= limits[0][1] and limits[1][0] <= y <= limits[1][1]
    ]
    parts = [
        f'<rect x="{left}" y="8" width="{size - 8 - left}" height="{size - bottom - 8}" fill="none" stroke="{GRID}"/>'
    ]
    for tick in nice_ticks(*across.limits, 6):
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{size - bottom}" stroke="{GRID}"/>')
        parts.append(_text(x, size - bottom + 14, tick_label(tick), "middle", "tick"))
    for tick in nice_ticks(*up.limits, 6):
        y = up(tick)
        parts.append(f'<line x1="{left}" x2="{size - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(left - 5, y + 3.5, tick_label(tick), "end", "tick"))
    dots = "".join(f"M{across(x):.1f} {up(y):.1f}h0" for x, y in inside)
    parts.append(f'<path d="{dots}" stroke="#9aa6b1" stroke-width="3.4" stroke-linecap="round" fill="none"/>')
    rx, ry = figure.ring * across.scale, figure.ring * abs(up.scale)
    cx, cy = across(figure.ref_mean[0]), up(figure.ref_mean[1])
    parts.append(
        f'<ellipse cx="{cx:.1f}" cy="{cy:.1f}" rx="{max(rx, 2):.1f}" ry="{max(ry, 2):.1f}" fill="none" stroke="{INK}" '
        'stroke-width="1.2" stroke-dasharray="4 3"/>'
    )
    parts += [_circle(across(x), up(y)) for x, y in figure.ref]
    parts += [_triangle(across(x), up(y) + 3) for x, y in figure.trace]
    names = [words["scatter_axis"].format(n=axis + 1, features=shorten(text, 40)) for axis, text in figure.axes]
    parts.append(_text((left + size - 8) / 2, size - 6, names[0], "middle", "label"))
    parts.append(
        f'<g transform="translate(12 {(size - bottom) / 2}) rotate(-90)">{_text(0, 0, names[1], "middle", "label")}</g>'
    )
    return _svg(size, size, f"{names[0]}; {names[1]}", parts)


def _around(values: Sequence[float]) -> Limits:
    margin = 0.04 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin


def draw_shares(rows: Sequence[ShareRow], words: Words, width: float) -> Markup:
    """A bar for every feature: match, rarity and difference, and a diamond at their sum."""
    step, top, hatch = 24.0, 30.0, f"hatch-{width:.0f}"
    letters = max(len(shorten(row.feature, 16)) for row in rows)
    left, right = min(34 + 7.0 * letters, 150.0), 56.0
    height = top + step * len(rows) + 26
    ends = [end for row in rows for end in _ends(row)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = 0.03 * (high - low) or 1.0
    at = _Line((low - margin, high + margin), (left, width - right))
    parts = []
    for tick in nice_ticks(*at.limits, 7 if width > 500 else 4):
        x = at(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{height - 22}" stroke="{GRID}"/>')
        parts.append(_text(x, height - 8, tick_label(tick), "middle", "tick"))
    zero = at(0.0)
    parts.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top - 10}" y2="{height - 22}" stroke="{INK}"/>')
    if zero - left > 90:
        parts.append(_text(zero - 8, top - 12, words["against"], "end", "tick"))
    if width - right - zero > 90:
        parts.append(_text(zero + 8, top - 12, words["for"], "start", "tick"))
    for place, row in enumerate(rows):
        y = top + step * place
        parts.append(_text(left - 8, y + step / 2 + 1, shorten(row.feature, 16), "end", "label"))
        sides = {True: 0.0, False: 0.0}
        for value, fill in ((row.match, VALIDATE), (row.rarity, TEST), (row.difference, f"url(#{hatch})")):
            start = sides[value >= 0]
            sides[value >= 0] = start + value
            a, b = sorted((at(start), at(start + value)))
            if b - a > 0.05:
                parts.append(
                    f'<rect x="{a:.1f}" y="{y + 3}" width="{b - a:.1f}" height="{step - 9}" fill="{fill}" stroke="{INK}" '
                    'stroke-width=".6"/>'
                )
        parts.append(_diamond(at(row.total), y + step / 2 - 1.5, 5, "#fff", INK))
        parts.append(_text(width - 4, y + step / 2 + 1, _signed(row.total), "end", "label"))
    return _svg(width, height, words["shares"], parts, _pattern(hatch, 6, f'fill="{DIFFERENT}"', INK))


def draw_scale(figure: ScaleFigure, words: Words, width: float) -> Markup:
    """The LR on a log axis: verbal steps as bands, what validation does not support as hatching."""
    height, top, base, hatch = 148.0, 44.0, 92.0, f"unsupported-{width:.0f}"
    at = _Line(figure.limits, (10.0, width - 10.0))
    low, high = figure.limits
    parts = []
    edges = [low, *(step for step in figure.steps if low < step < high), high]
    for a, b in pairwise(edges):
        strength = sum(abs(step) <= abs((a + b) / 2) for step in figure.steps) / max(1, len(figure.steps) // 2)
        shade = f"rgb({247 - 62 * strength / 2:.0f} {249 - 48 * strength / 2:.0f} {250 - 34 * strength / 2:.0f})"
        parts.append(
            f'<rect x="{at(a):.1f}" y="{top}" width="{at(b) - at(a):.1f}" height="{base - top}" fill="{shade}"/>'
        )
        parts.append(f'<line x1="{at(a):.1f}" x2="{at(a):.1f}" y1="{top}" y2="{base}" stroke="#fff"/>')
    for a, b in ((low, figure.bounds[0]), (figure.bounds[1], high)):
        if b > a:
            parts.append(
                f'<rect x="{at(a):.1f}" y="{top}" width="{at(b) - at(a):.1f}" height="{base - top}" fill="url(#{hatch})"/>'
            )
    for bound in figure.bounds:
        parts.append(f'<line x1="{at(bound):.1f}" x2="{at(bound):.1f}" y1="{top - 5}" y2="{base + 3}" stroke="{INK}"/>')
    a, b = (at(min(max(edge, low), high)) for edge in figure.band)
    parts.append(
        f'<rect x="{a:.1f}" y="{top}" width="{b - a:.1f}" height="{base - top}" fill="none" stroke="{INK}" stroke-width="1.6"/>'
    )
    every = 1 if width > 500 else 2
    for tick in range(math.ceil(low), math.floor(high) + 1):
        x = at(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}" stroke="{MUTED}"/>')
        if tick % every == 0:
            parts.append(_text(x, base + 17, _axis_label(tick), "middle", "tick"))
    middle = (top + base) / 2
    if figure.interval is not None and figure.interval_visible:
        a, b = (min(max(end, low), high) for end in figure.interval)
        parts.append(
            f'<path d="M{at(a):.1f} {middle}H{at(b):.1f}M{at(a):.1f} {middle - 5}v10M{at(b):.1f} {middle - 5}v10" '
            f'stroke="{INK}" stroke-width="1.6" fill="none"/>'
        )
    reported = at(figure.bounded)
    if not figure.raw_visible:
        edge, sign = (width - 12, 1) if figure.raw > high else (12.0, -1)
        parts.append(
            f'<path d="M{edge - 22 * sign} {middle}H{edge}m{-8 * sign} -5l{8 * sign} 5l{-8 * sign} 5" stroke="{INK}" '
            'stroke-width="1.6" fill="none"/>'
        )
        raw_x, raw_text = edge, f"{words['calculated_here']}: {power(figure.raw)}"
    else:
        raw_x, raw_text = at(figure.raw), words["calculated_here"]
        if figure.raw != figure.bounded:
            parts.append(_diamond(raw_x, middle, 6, "#fff", INK))
    if figure.raw != figure.bounded:
        parts.append(_edge_text(raw_x, base + 38, raw_text, width, "tick"))
        if figure.raw_visible:
            parts.append(
                f'<line x1="{raw_x:.1f}" x2="{raw_x:.1f}" y1="{base + 21}" y2="{base + 28}" stroke="{MUTED}"/>'
            )
    parts.append(_diamond(reported, middle, 9, TEST, "#fff"))
    parts.append(f'<line x1="{reported:.1f}" x2="{reported:.1f}" y1="{top - 7}" y2="{middle - 10}" stroke="{INK}"/>')
    parts.append(_edge_text(reported, top - 26, figure.words, width, "strong"))
    parts.append(_edge_text(reported, top - 11, words["reported_here"], width, "tick"))
    pattern = _pattern(hatch, 7, 'fill="#fff" fill-opacity=".55"', "#9aa6b1")
    return _svg(width, height, f"{words['reported_here']}: log10 LR {figure.bounded:.2f}", parts, pattern)


class _Line:
    """From values to places along a line."""

    def __init__(self, limits: tuple[float, float], ends: tuple[float, float]) -> None:
        self.limits = limits
        self.scale = (ends[1] - ends[0]) / (limits[1] - limits[0])
        self._start = ends[0]

    def __call__(self, value: float) -> float:
        return self._start + (float(value) - self.limits[0]) * self.scale


def _pattern(name: str, size: int, ground: str, line: str) -> str:
    """Diagonal lines. Its name must be its own: a browser ignores patterns of a picture that it does not show."""
    return (
        f'<defs><pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="{size}" height="{size}" {ground}/>'
        f'<line x1="0" x2="0" y1="0" y2="{size}" stroke="{line}" stroke-width="1.6"/></pattern></defs>'
    )


def _svg(width: float, height: float, label: str, parts: Sequence[str], defs: str = "") -> Markup:
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(plain(label))}"'
    return Markup(f"<svg {box}>{defs}{''.join(parts)}</svg>")


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(plain(text))}</text>'


def _edge_text(x: float, y: float, text: str, width: float, kind: str) -> str:
    """Text around a place, kept on the paper: 7 units a letter is wide."""
    half = 3.5 * len(text)
    if x < half:
        return _text(4.0, y, text, "start", kind)
    if x > width - half:
        return _text(width - 4, y, text, "end", kind)
    return _text(x, y, text, "middle", kind)


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.6" fill="{REF}" stroke="{INK}" stroke-width="1.1"/>'


def _triangle(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}l-5.2 -9.4h10.4z" fill="{TRACE}" stroke="#fff" stroke-width="1" stroke-linejoin="round"/>'


def _diamond(x: float, y: float, r: float, fill: str, stroke: str) -> str:
    return f'<path d="M{x:.1f} {y - r:.1f}l{r} {r}l{-r} {r}l{-r} {-r}z" fill="{fill}" stroke="{stroke}" stroke-width="1.4"/>'


def _ends(row: ShareRow) -> tuple[float, float]:
    parts = (row.match, row.rarity, row.difference)
    return sum(part for part in parts if part < 0), sum(part for part in parts if part > 0)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if abs(value) < 1000 else number(value)


def _axis_label(exponent: int) -> str:
    """LRs from 1/1000 to 1000 in full, others as powers of ten."""
    if abs(exponent) > 3:
        return power(exponent)
    return f"{10**exponent}" if exponent >= 0 else f"1/{10**-exponent}"

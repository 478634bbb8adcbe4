"""Colours and marks of the reports, on the screen and in print, beside those that `lindley.plot` has for LLRs.

The two of a pair differ in lightness too: they stay apart in greyscale. Nothing is told by colour alone: marks and dashes say
it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lindley.plot import AFTER_PAV, DASHES, DIFFERENT, GRID, IDENTITY, INK, MUTED, SAME
from lindley.system.kinds import Family

__all__ = [
    "BANDS",
    "BEST",
    "DASHES",
    "DIFFERENT",
    "GRID",
    "IDENTITY",
    "INK",
    "LINES",
    "LINE_DASHES",
    "MARKS",
    "MUTED",
    "NEUTRAL",
    "RULE",
    "SAME",
    "STYLE_COLOURS",
    "TEST",
    "VALIDATE",
    "Mark",
]

RULE = "#b9c2ca"  # a line that only parts
VALIDATE = "#8cc1e3"  # light blue
TEST = "#0b4775"  # dark blue
NEUTRAL = "#b3401f"  # the line of a system that says nothing
BEST = "#00775a"  # the epoch that was kept
BANDS = (AFTER_PAV, NEUTRAL)  # the best benchmark as it is, and the best one after calibration
LINES = (SAME, DIFFERENT, AFTER_PAV, NEUTRAL, VALIDATE, MUTED)  # of models in one plot, those of one fit alike,
LINE_DASHES = ("solid", "dash", "dashdot", "dot", "longdash")  # and told apart by dashes

STYLE_COLOURS = {"ink": INK, "muted": MUTED, "accent": TEST, "same": SAME, "different": DIFFERENT, "validate": VALIDATE}
"""Colours by the names that the style sheet has for them."""


@dataclass(frozen=True)
class Mark:
    """The mark of a family of models: as a letter, for plotly and for matplotlib."""

    letter: str
    screen: str
    print: str


MARKS: dict[Family, Mark] = {
    "single": Mark("■", "square", "s"),
    "double": Mark("●", "circle", "o"),
    "robust": Mark("▲", "triangle-up", "^"),
    "benchmark": Mark("◆", "diamond", "D"),
}

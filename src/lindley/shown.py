"""Text that somebody else wrote, as people see it: labels, names of columns, sheets and files, keys of a YAML file.

A terminal obeys control characters, letters may have no width, and a mark of direction turns what follows around: such
characters are shown by their number, and never sent. A spreadsheet program computes what begins like a formula: in files
for it, such labels stand behind an apostrophe, which our reader takes off again.

And numbers, in the marks of a language (`in_marks`); and JSON, written and read (`json_text`, `read_json`).
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from pathlib import PureWindowsPath
from typing import Any

__all__ = [
    "CONTROLS",
    "as_text_cell",
    "csv_bytes",
    "file_name",
    "from_text_cell",
    "in_marks",
    "json_text",
    "read_json",
    "starts_formula",
    "visible",
]

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
"""What a terminal obeys."""

_WITHOUT_WIDTH = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that count as printable, and that nobody sees."""
_FORMULA = re.compile(r"(^|[,;\t\r\n])('*)(?=[=+\-@\t\r\n＝＋－＠])")
"""Where a cell begins as a formula does, behind any apostrophes; also where another separator would begin a cell."""

_MARKS = {"en": str.maketrans("-", "−"), "nl": str.maketrans("-.,", "−,\u202f")}
"""Of numbers, by language: a true minus; in Dutch a decimal comma, and a narrow space between thousands, as a point there is
read as a decimal point by whoever reads English too."""


def in_marks(number: str, language: str = "en") -> str:
    """A number as Python writes it, in the marks of a language.

    >>> in_marks("-1,234.5"), in_marks("-0.5", "nl")
    ('−1,234.5', '−0,5')
    """
    return number.translate(_MARKS[language])


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with every character that has no shape of its own as its number; line ends stay if ``lines``.

    >>> print(visible("pane\x1b[2J"))
    pane\x1b[2J
    """
    if text.isprintable() and not _WITHOUT_WIDTH.search(text):
        return text
    return "".join(each if _has_shape(each) or (lines and each == "\n") else _number(each) for each in text)


def _has_shape(each: str) -> bool:
    printable = each.isprintable() or unicodedata.category(each) == "Zs"  # spaces have a width
    return printable and not _WITHOUT_WIDTH.match(each)


def _number(each: str) -> str:
    return each.encode("unicode_escape").decode("ascii")


def file_name(path: str) -> str:
    r"""A path as it is written down: without its folders, whose names may be those of people.

    >>> file_name(r"C:\Users\j.smith\glass.csv"), file_name("cases/glass.csv")
    ('glass.csv', 'glass.csv')
    """
    return PureWindowsPath(path).name or "."  # which knows both kinds of slashes


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON for people and programs: what `visible` would show by its number is escaped, so that it reads back the same."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(each if each == "\n" or _has_shape(each) else json.dumps(each)[1:-1] for each in text)


def read_json(text: bytes | str) -> Any:
    """What JSON says, where it can be read in one way only: UTF-8, no key twice, and every number finite.

    Raises:
        ValueError: with what is wrong.
    """

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        once = dict(found)
        if len(once) < len(found):
            [(twice, _)] = Counter(name for name, _ in found).most_common(1)
            raise ValueError(f"the key '{visible(twice[:40])}' stands twice in it")
        return once

    def number(digits: str) -> float:
        if not math.isfinite(value := float(digits)):
            raise ValueError(f"it holds the number {digits[:20]}")
        return value

    def count(digits: str) -> int:
        if len(digits) > 19:
            raise ValueError(f"it holds the number {digits[:20]}…")
        return int(digits)

    plain = text if isinstance(text, str) else text.decode("utf-8")
    try:
        return json.loads(plain, object_pairs_hook=pairs, parse_float=number, parse_int=count, parse_constant=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def starts_formula(text: str) -> bool:
    """Whether a spreadsheet program would compute the text, or a part of it."""
    return any(not found[2] for found in _FORMULA.finditer(text))


def as_text_cell(text: str) -> str:
    """A label for a CSV file that people open: behind an apostrophe where a program would compute it.

    >>> as_text_cell("=1+1"), as_text_cell("'=1+1"), as_text_cell("pane 1")
    ("'=1+1", "''=1+1", 'pane 1')
    """
    return _FORMULA.sub(r"\1\2'", text)


def csv_bytes(text: str) -> bytes:
    """A CSV file that people open: UTF-8, with a byte-order mark where there are letters that Excel would take for others."""
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")


def from_text_cell(text: str) -> str:
    """What `as_text_cell` was given."""
    return _FORMULA.sub(lambda found: found[1] + found[2][1:], text)

"""Labels that a reader takes for one, although they are different texts: ``1`` and ``01``, ``A`` and a Cyrillic ``А``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["look_alikes", "plain_letters", "unmistakable"]

# The letters of other alphabets that look like Latin ones, small or capital, and the many dashes and quotation marks.
_LETTERS = "авекмнорстхуіјѕԁԛԝ" + "αβεζηικνορτυχ"
_FOREIGN = _LETTERS + "‐‑‒–—―−" + "‘’ʼ`´"
_LATIN = "abekmhopctxyijsdqw" + "abezhiknoptyx" + "-------" + "'''''"
_TWINS = str.maketrans(_FOREIGN, _LATIN)
_FOREIGN_LETTERS = frozenset(_LETTERS + _LETTERS.upper())
# Spaces, and characters that count as letters or accents and are not drawn; what else is not drawn is not printable.
_UNSEEN = frozenset(" \u034f\u115f\u1160\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
_NUMBER = re.compile(r"\+?(?P<sign>-?)0*(?P<whole>\d*)(?:[.,](?P<part>\d*?)0*)?")
_LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_SHOWN = 40


def look_alikes(labels: Iterable[str]) -> list[list[str]]:
    """Groups of different labels that look alike.

    They differ by capitals, spaces, characters that are not seen, zeros, or letters that another alphabet or another way to
    compose an accent has for the same sight.

    >>> look_alikes(["A1", "a 1", "A01", "B"]), look_alikes(["1", "1.0", "2"])
    ([['A1', 'a 1', 'A01']], [['1', '1.0']])
    """
    sights: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        sights.setdefault(_sight(label), []).append(label)
    return [group for group in sights.values() if len(group) > 1]


def unmistakable(label: str) -> str:
    """A label between quotation marks, with what could not be told apart by eye as its number in Unicode.

    >>> unmistakable("S1\u200b"), unmistakable("caf\u00e9"), unmistakable("cafe\u0301")
    ("'S1<U+200B>'", "'café'", "'cafe<U+0301>'")
    """
    shown = label if len(label) <= _SHOWN else label[: _SHOWN - 3] + "..."
    return "'" + "".join(f"<U+{ord(each):04X}>" if _deceives(each) else each for each in shown) + "'"


def plain_letters(text: str) -> str:
    """Small letters, Latin ones in place of those of other alphabets that look the same.

    >>> plain_letters("Аlpha")  # the first letter is Cyrillic
    'alpha'
    """
    folded = text.casefold()
    return folded if folded.isascii() else unicodedata.normalize("NFKC", folded).casefold().translate(_TWINS)


def _sight(label: str) -> str:
    """The same for all labels that look alike."""
    folded = "".join(each for each in plain_letters(label) if each.isprintable() and each not in _UNSEEN)
    number = _NUMBER.fullmatch(folded)
    if number and any(map(str.isdigit, folded)):
        return f"{number['sign']}{number['whole'] or 0}.{number['part'] or ''}"
    return _LEADING_ZEROS.sub("", folded)


def _deceives(character: str) -> bool:
    if " " <= character <= "~":
        return False
    return unicodedata.category(character)[0] in "CZM" or character in _UNSEEN or character in _FOREIGN_LETTERS

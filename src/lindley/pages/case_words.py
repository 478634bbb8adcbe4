"""What a case report says, in English and in Dutch: plain sentences for the court, and the names of its parts."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from lindley.casework.verbal import LANGUAGES, Scale

if TYPE_CHECKING:
    from lindley.casework.case import Case

__all__ = ["WORDS", "conclusion", "lr_text", "power", "ratio_text", "reading", "verbal_range"]

_SUPERSCRIPT = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
_LARGE = {"en": ("million", "billion"), "nl": ("miljoen", "miljard")}
_BARELY = 1.1
"""LRs below this are told as equal probabilities."""


def _load() -> dict[str, dict[str, str]]:
    """By language and by the name of the text."""
    texts = yaml.safe_load(files("lindley.pages").joinpath("case_words.yaml").read_text(encoding="utf-8"))
    return {language: {name: text[language] for name, text in texts.items()} for language in LANGUAGES}


WORDS = _load()


def power(log10_lr: float) -> str:
    """``10³·⁴`` has no place in a sentence: a whole power of ten, cut towards 1.

    >>> power(33.9), power(-580.2)
    ('10³³', '10⁻⁵⁸⁰')
    """
    return "10" + str(int(log10_lr)).translate(_SUPERSCRIPT)


def lr_text(log10_lr: float, language: str = "en") -> str:
    """An LR of 1 or more as a person says it, cut to two digits: never more than it is.

    >>> lr_text(2.76), lr_text(7.29), lr_text(7.29, "nl"), lr_text(0.31), lr_text(15.2)
    ('570', '19 million', '19 miljoen', '2.0', '10¹⁵')
    """
    if log10_lr >= 12:
        return power(log10_lr)
    exponent = math.floor(log10_lr + 1e-12)
    mantissa = math.floor(10 ** (log10_lr - exponent + 1) + 1e-9)  # 10 to 99
    mantissa = min(max(mantissa, 10), 99)
    for size, word in zip((6, 9), _LARGE[language], strict=True):
        if size <= exponent < size + 3:
            return f"{_plain(mantissa, exponent - size - 1, language)} {word}"
    return _plain(mantissa, exponent - 1, language)


def _plain(mantissa: int, exponent: int, language: str) -> str:
    text = f"{mantissa * 10**exponent:,}" if exponent >= 0 else f"{mantissa / 10:.1f}"
    return text if language == "en" else text.translate(str.maketrans(",.", ".,"))


def reading(log10_lr: float, scale: Scale, language: str) -> str:
    """The LR as a sentence."""
    same, another = scale.propositions[language]
    favoured, other = (same, another) if log10_lr >= 0 else (another, same)
    size = abs(log10_lr)
    form = WORDS[language]["equal" if size < math.log10(_BARELY) else "times"]
    return form.format(times=lr_text(size, language), favoured=favoured, other=other)


def conclusion(case: Case) -> list[str]:
    """What the court reads first: the verbal equivalent, the LR, and what became of a stronger one."""
    said = case.explanation
    sentences = [case.verbal.sentence, reading(said.log10_lr_bounded, case.scale, case.language)]
    if said.log10_lr != said.log10_lr_bounded:
        raw, reported = (ratio_text(v, case.language) for v in (said.log10_lr, said.log10_lr_bounded))
        sentences.append(WORDS[case.language]["bounded"].format(raw=raw, reported=reported))
    return sentences


def ratio_text(log10_lr: float, language: str) -> str:
    """An LR of any size: ``1/420`` for one below 1."""
    if log10_lr <= -12:
        return power(log10_lr)
    return lr_text(log10_lr, language) if log10_lr >= 0 else f"1/{lr_text(-log10_lr, language)}"


def verbal_range(case: Case) -> str:
    """The verbal equivalents at both ends of the interval, within the bounds."""
    interval = case.explanation.interval
    if interval is None:
        return ""
    lower, upper = case.explanation.bounds
    ends = [
        case.scale.describe(min(max(end, lower), upper), case.language).sentence
        for end in (interval.lower, interval.upper)
    ]
    return ends[0] if ends[0] == ends[1] else " … ".join(ends)

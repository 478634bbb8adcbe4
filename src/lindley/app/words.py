"""The words of the pages: English in the templates, and what ``dutch.yaml`` has for it.

Whatever a page says goes through `Words.__call__`, in templates by the name ``t``: ``{{ t("{n} sources", n=12) }}``. The
English sentence is the key. Names and numbers stand between braces, and are put in after translation; what users wrote is
never translated and is escaped like everything else on a page.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from lindley.shown import in_marks, visible

__all__ = ["LANGUAGES", "Words", "dutch"]

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
LANGUAGES = {"en": "English", "nl": "Nederlands"}


@cache
def dutch() -> dict[str, str]:
    """The catalogue: every English sentence, and the Dutch one; models are called as in the reports."""
    found: dict[str, str] = {}
    for package in ("lindley.pages", "lindley.app"):
        found |= yaml.safe_load(files(package).joinpath("dutch.yaml").read_text(encoding="utf-8")) or {}
    return found


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The sentences of the catalogue with {} in them, those with most words first."""
    found = sorted((text for text in dutch() if "{}" in text), key=len, reverse=True)
    return [(re.compile("(.+?)".join(map(re.escape, text.split("{}"))), re.DOTALL), dutch()[text]) for text in found]


class Words:
    """Sentences in the language of one reader."""

    def __init__(self, language: str = "en") -> None:
        self.language = language if language in LANGUAGES else "en"

    def __call__(self, text: str, **put_in: Any) -> str:
        """The sentence in the reader's language; English where there is no other."""
        said = self._dutch(text) if self.language == "nl" else text
        return said.format(**{name: self._shown(value) for name, value in put_in.items()}) if put_in else said

    def _dutch(self, text: str) -> str:
        """What the catalogue has for a sentence; of one that came with names and numbers in it, what it has with {} there."""
        if text in dutch():
            return dutch()[text]
        for pattern, said in _patterns():
            if found := pattern.fullmatch(text):
                return said.format(
                    *(in_marks(part, "nl") if _NUMBER.fullmatch(part) else part for part in found.groups())
                )
        return text

    def _shown(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return visible(str(value))
        return in_marks(f"{value:,}", self.language)

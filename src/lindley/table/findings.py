"""What the checks say about a table: where, what is wrong and how to mend it."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from lindley.errors import LindleyError
from lindley.settings import spoken
from lindley.shown import visible

__all__ = [
    "Finding",
    "Level",
    "TableError",
    "did_you_mean",
    "errors_first",
    "exit_status",
    "listing",
    "quoted",
    "render_findings",
    "stop",
]

Level = Literal["error", "warning", "note"]
_ORDER: dict[Level, int] = {"error": 0, "warning": 1, "note": 2}
_MORE = "more-of-"

MOST_OF_A_KIND = 20
"""Findings of one code that are told one by one, such as one for each of a thousand columns."""


@dataclass(frozen=True)
class Finding:
    """One thing noticed about a table, however many cells it touches.

    ``rows`` are counted as an editor or Excel counts them: the header of an ordinary file is row 1; of a data frame or
    arrays, as Python counts them: from 0. ``code`` is stable, so that a script can act on it; the wording may change.
    An error stops the table, a warning is for the analyst to judge, a note only records what was done.
    """

    level: Level
    code: str
    message: str
    fix: str = ""
    file: str = ""
    rows: tuple[int, ...] = ()
    column: str | None = None

    def __str__(self) -> str:
        place = [self.file] if self.file else []
        if self.rows:
            place.append(("row " if len(self.rows) == 1 else "rows ") + listing(self.rows))
        if self.column is not None:
            place.append(f"column '{self.column}'")
        where = ", ".join(place)
        text = _sentence(f"{where}: {self.message}" if where else self.message)
        return f"{text} {_sentence(self.fix)}" if self.fix else text


class TableError(LindleyError):
    """A table cannot be used. Holds every finding, not only the first, so that all are mended in one go."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = errors_first(findings)
        super().__init__(self.findings)  # as pickle makes it again: worker processes raise this too

    def __str__(self) -> str:
        return render_findings(self.findings)


def stop(code: str, message: str, fix: str, file: str, rows: tuple[int, ...] = ()) -> NoReturn:
    """Raise an error that keeps a file from being read any further."""
    raise TableError([Finding("error", code, message, fix, file, rows)])


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then notes; each in the order in which they were found. Of many of one kind, some and a count."""
    kept: list[Finding] = []
    kinds: dict[tuple[Level, str], int] = Counter()
    for finding in findings:
        kind = finding.level, finding.code
        kinds[kind] += 1
        if kinds[kind] <= MOST_OF_A_KIND or finding.code.startswith(_MORE):
            kept.append(finding)
    for (level, code), count in kinds.items():
        if count > MOST_OF_A_KIND and not code.startswith(_MORE):
            message = f"{count - MOST_OF_A_KIND:,} more findings of the kind {code}"
            kept.append(Finding(level, f"{_MORE}{code}", message))
    return tuple(sorted(kept, key=lambda finding: _ORDER[finding.level]))


def render_findings(findings: Iterable[Finding]) -> str:
    """All findings as text, one a line, errors first, under a line that counts them."""
    ordered = errors_first(findings)
    if not ordered:
        return "No errors, warnings or notes."
    counts = Counter(finding.level for finding in ordered)  # errors first, too
    head = ", ".join(f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts.items())
    return "\n".join([f"{head}:", *(f"{finding.level}: {finding}" for finding in ordered)])


def exit_status(findings: Iterable[Finding], strict: bool = False) -> int:
    """The status with which a command ends: 2 with an error, 1 with a warning if ``strict``, else 0."""
    levels = {finding.level for finding in findings}
    if "error" in levels:
        return 2
    return 1 if strict and "warning" in levels else 0


def listing(items: Sequence[object], shown: int = 3) -> str:
    """``2, 3, 4 and 1996 more``; a list that is only one longer than ``shown`` is given whole."""
    if len(items) == 1:
        return str(items[0])
    if len(items) <= shown + 1:
        return ", ".join(map(str, items[:-1])) + f" and {items[-1]}"
    return ", ".join(map(str, items[:shown])) + f" and {len(items) - shown} more"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """``Did you mean 'K39'? ``, of the name that is closest whatever its capitals; or nothing."""
    folded = {each.casefold(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), 1)
    return f"Did you mean '{folded[close[0]]}'? " if close else ""


def quoted(items: Iterable[object]) -> list[str]:
    """Each item between quotes, cut where a whole paragraph was pasted into a cell."""
    texts = (" ".join(str(item).split()) for item in items)
    return [f"'{text if len(text) <= 40 else text[:37] + '...'}'" for text in texts]


def _sentence(text: str) -> str:
    text = visible(spoken(text))
    return text if text.endswith((".", "?", "!")) else text + "."

"""What the checks say about a table: where, what is wrong and how to mend it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lindley.errors import LindleyError

__all__ = [
    "Finding",
    "Level",
    "TableError",
    "errors_first",
    "exit_status",
    "listing",
    "option_list",
    "option_value",
    "quoted",
    "render_findings",
]

Level = Literal["error", "warning", "note"]
_ORDER: dict[Level, int] = {"error": 0, "warning": 1, "note": 2}
_PLAIN_IN_A_SHELL = str.maketrans("", "", "_-.,")


@dataclass(frozen=True)
class Finding:
    """One thing noticed about a table, however many cells it touches.

    ``rows`` are counted as an editor or Excel counts them: the header of an ordinary file is row 1. ``code``
    is stable, so that a script can act on it; the wording may change. An error stops the table, a warning is
    for the analyst to judge, a note only records what was done.
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
        super().__init__(render_findings(self.findings))

    def __reduce__(self) -> tuple[type[TableError], tuple[tuple[Finding, ...]]]:
        """Pickle the findings, which are what the constructor takes: worker processes raise this too."""
        return type(self), (self.findings,)


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then notes; each in the order in which they were found."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.level]))


def render_findings(findings: Iterable[Finding]) -> str:
    """All findings as text, one a line, errors first, under a line that counts them."""
    ordered = errors_first(findings)
    counts = []
    for level in _ORDER:
        count = sum(finding.level == level for finding in ordered)
        if count:
            counts.append(f"{count} {level}{'s' if count > 1 else ''}")
    if not counts:
        return "No errors, warnings or notes."
    lines = [f"{finding.level}: {finding}" for finding in ordered]
    return "\n".join([", ".join(counts) + ":", *lines])


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


def quoted(items: Iterable[object]) -> list[str]:
    """Each item between quotes, cut where a whole paragraph was pasted into a cell."""
    texts = (" ".join(str(item).split()) for item in items)
    return [f"'{text if len(text) <= 40 else text[:37] + '...'}'" for text in texts]


def option_value(name: str) -> str:
    """A column name as it is typed in a shell after an option that takes one name."""
    return _shell(name)


def option_list(*names: str) -> str:
    """Column names as they are typed in a shell after an option that takes a list of them.

    The list is a line of CSV, so that a name that holds a comma stands between quotation marks, and these are
    kept from the shell by another pair.
    """
    return _shell(",".join(_csv_field(name) for name in names))


def _csv_field(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name


def _shell(text: str) -> str:
    if text.isascii() and text.translate(_PLAIN_IN_A_SHELL).isalnum():
        return text
    if not set(text) & set('"$`\\!'):
        return f'"{text}"'  # these quotation marks are understood by every shell
    if os.name == "nt":
        return '"' + text.replace('"', '\\"') + '"'
    return shlex.quote(text)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else text + "."

"""What the command line shows: progress, tables, warnings and errors. Quiet and plain in a pipe.

Every text goes through here, and is shown as it is: brackets of a label are no markup, its control characters are shown and
not sent (`lindley.shown.visible`), and no figure is cut, however narrow the terminal.
"""

from __future__ import annotations

import codecs
import io
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from lindley.cli.events import tell, tell_progress
from lindley.shown import json_text, visible

__all__ = [
    "Progress",
    "fail",
    "fits",
    "plain_warnings",
    "print_table",
    "say",
    "say_json",
    "say_prose",
    "show_progress",
    "speak_everywhere",
    "warn",
]

WIDTH_IN_A_PIPE = 120
NARROWEST = 40
"""Columns that a table takes at least; a terminal that has fewer breaks the lines itself."""
NAMES = 0.4
"""Of the width of a table that is too wide, for the columns of names."""


SPELLED = {
    "−": "-", "–": "-", "—": "-", "≥": ">=", "≤": "<=", "×": "x", "·": "*", "…": "...", "→": "->", "≈": "~",
    "\u202f": " ", "\u00a0": " ", "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip
"""Marks by letters that every console has: the minus of an LR is not to become a question mark."""


def speak_everywhere() -> None:
    """Let standard output and standard error take every letter.

    Into a pipe or a file goes UTF-8: Windows would write another encoding, which knows few of our letters. A console that
    knows few of them, as old ones of Windows, gets the others spelled.
    """
    codecs.register_error("lindley-spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="lindley-spelled")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(SPELLED.get(each) or each.encode("unicode_escape").decode("ascii") for each in letters), error.end


def stderr() -> Console:
    """Standard error, as it is now: tests replace it."""
    return Console(stderr=True)


def say(text: str) -> None:
    """Lines on standard output, as they are: what can be copied stays whole."""
    typer.echo(visible(text, lines=True))


def say_prose(text: str) -> None:
    """Paragraphs and figures on standard output; lines that are too long for a terminal are broken between words."""
    width = _width()
    say(text if width is None else "\n".join(_broken(line, width) for line in text.split("\n")))


def say_json(content: Any, indent: int | None = None) -> None:
    """One value on standard output."""
    typer.echo(json_text(content, indent))


def _width() -> int | None:
    """Of the terminal; none in a pipe."""
    console = Console()
    return max(NARROWEST, console.width) if console.is_terminal else None


def fits(text: str) -> bool:
    """Whether no line of a text is wider than the terminal."""
    width = _width()
    return width is None or all(Text(line).cell_len <= width for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * min(len(line) - len(line.lstrip()) + 2, width // 4)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _tell(level: str, style: str, message: str, console: Console | None = None) -> None:
    (console or stderr()).print(Text.assemble((f"{level}:", style), " ", message), soft_wrap=True, highlight=False)


def warn(message: str, level: str = "warning", console: Console | None = None) -> None:
    """One line on standard error."""
    tell(level=level, said=visible(message))
    _tell(level, "yellow", visible(message), console)


def fail(message: str) -> None:
    """Why the command ends, on standard error."""
    tell(level="error", said=visible(message, lines=True))
    _tell("Error", "bold red", visible(message, lines=True))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one plain line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(" ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@dataclass(frozen=True)
class Progress:
    """Where a run reports to."""

    step: Callable[[str, str, float], None]
    notice: Callable[[str], None]
    result: Callable[[str], None]  # a line of what has come out already


def _print_line(console: Console, text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True, highlight=False)


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A bar on a terminal; in a pipe, a line for every part that starts."""
    console = stderr()
    if not console.is_terminal:
        begun = set()

        def line(doing: str, detail: str, done: float) -> None:
            tell_progress(visible(doing), visible(detail), done)
            what = detail.split(",")[0]
            if what.startswith(("step ", "epoch ")):  # only a bar shows how far a part has come
                what = ""
            if (doing, what) not in begun and done < 1:
                begun.add((doing, what))
                _print_line(console, f"{doing}, {what}" if what else doing)

        yield Progress(line, lambda message: warn(message, "note", console), partial(_print_line, console))
        return
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield Progress(
            lambda doing, detail, done: bar.update(
                task, description=visible(f"{doing}: {detail}" if detail else doing), completed=done
            ),
            lambda message: warn(message, "note", bar.console),
            partial(_print_line, bar.console),
        )


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", names: int = 1
) -> None:
    """A table on standard output; the first ``names`` columns are words, the others figures.

    Where it is wider than the terminal, words are broken, and the figures go below each other in several tables, each with
    the words in front: no figure is left out or cut.
    """
    from rich.table import Table as RichTable

    head = [visible(name) for name in columns]
    body = [[visible(cell) for cell in row] for row in rows]
    figures = [max((Text(row[k]).cell_len for row in body), default=1) for k in range(names, len(head))]
    widths = [max(Text(line[k]).cell_len for line in (head, *body)) for k in range(len(head))]
    whole = 1 + sum(width + 3 for width in widths)
    width = _width() or max(WIDTH_IN_A_PIPE, whole)
    most = [*widths]
    groups = [list(range(names, len(head)))]
    if whole > width:
        room = max(4, int(width * NAMES) // max(names, 1) - 3)
        most[:names] = [min(widths[k], room) for k in range(names)]
        left = width - 1 - sum(each + 3 for each in most[:names])
        most[names:] = [min(max(own, min(widths[names + k], 12)), left - 3) for k, own in enumerate(figures)]
        groups = _grouped(most[names:], left, names)
    console = Console(width=width)
    for number, group in enumerate(groups):
        first, last = number == 0, number == len(groups) - 1
        shown = RichTable(
            title=Text(visible(title)) if first else None, caption=Text(visible(caption)) if last else None
        )
        for k in (*range(names), *group):
            justify: Any = "left" if k < names else "right"
            shown.add_column(Text(head[k]), justify=justify, overflow="fold", min_width=most[k], max_width=most[k])
        for row in body:
            shown.add_row(*(Text(row[k]) for k in (*range(names), *group)))
        console.print(shown)


def _grouped(widths: Sequence[int], left: int, first: int) -> list[list[int]]:
    """Columns that fit beside each other, in order."""
    groups: list[list[int]] = [[]]
    taken = 0
    for k, width in enumerate(widths):
        if groups[-1] and taken + width + 3 > left:
            groups.append([])
            taken = 0
        groups[-1].append(first + k)
        taken += width + 3
    return groups

"""What the command line shows: progress, tables, warnings and errors. Quiet and plain in a pipe."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

__all__ = ["Progress", "plain_warnings", "print_table", "show_progress", "stderr", "warn"]

WIDTH_IN_A_PIPE = 120


def stderr() -> Console:
    """Standard error, as it is now: tests replace it."""
    return Console(stderr=True)


def warn(message: str, level: str = "warning", console: Console | None = None) -> None:
    """One line on standard error."""
    (console or stderr()).print(f"[yellow]{level}:[/] {escape(message)}", soft_wrap=True, highlight=False)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one plain line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@dataclass(frozen=True)
class Progress:
    """Where a run reports to."""

    step: Callable[[str, str, float], None]
    notice: Callable[[str], None]


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A bar on a terminal; in a pipe, a line for every part that starts."""
    console = stderr()
    if not console.is_terminal:
        begun = set()

        def line(doing: str, detail: str, done: float) -> None:
            what = detail.split(",")[0]
            if what.startswith(("step ", "epoch ")):  # only a bar shows how far a part has come
                what = ""
            if (doing, what) not in begun and done < 1:
                begun.add((doing, what))
                console.print(f"{doing}, {what}" if what else doing, soft_wrap=True, highlight=False, markup=False)

        yield Progress(line, lambda message: warn(message, "note", console))
        return
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield Progress(
            lambda doing, detail, done: bar.update(task, description=escape(f"{doing}: {detail}"), completed=done),
            lambda message: warn(message, "note", bar.console),
        )


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", names: int = 1
) -> None:
    """A table on standard output; the first ``names`` columns are words, the others numbers."""
    from rich.table import Table as RichTable

    console = Console()
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        console = Console(width=max(WIDTH_IN_A_PIPE, 4 + sum(widths) + 3 * len(columns)))
    shown = RichTable(title=title, caption=caption)
    for number, column in enumerate(columns):
        shown.add_column(column, justify="left" if number < names else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*map(escape, row))
    console.print(shown)

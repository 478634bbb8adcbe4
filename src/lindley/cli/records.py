"""What was written before, checked: ``verify`` computes reports again, ``log`` reads the log of cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lindley.cli.console import say, say_prose

__all__ = ["log", "verify"]


def verify(
    reports: Annotated[
        list[Path],
        typer.Argument(
            help="Reports that 'lindley case' wrote, .html, .pdf or .json; or folders of them.", metavar="REPORT…"
        ),
    ],
    systems: Annotated[
        list[Path] | None,
        typer.Option(
            help="A system, or a folder of systems, to look into; may be given several times.", metavar="PATH"
        ),
    ] = None,
) -> None:
    """Compute the cases of reports again, and say whether it is the same LR, or where they part.

    The measurements come from the report; its system is found by its SHA-256, in the folder of the report, in this one, and in
    --systems. Exit status: 0 if every report says what follows from its measurements, else 2.
    """
    from lindley.pages.case_record import reports_in, verify_reports
    from lindley.pages.numerals import fixed
    from lindley.version import __version__

    found = reports_in(reports)
    parted = 0
    for each in verify_reports(found, systems or ()):
        parted += not each.same
        if each.record is None or not each.same:
            say(f"{each.report}: not verified")
            for problem in each.problems:
                say_prose(f"  • {problem}")
            continue
        written = "" if each.record.lindley == __version__ else f", written by lindley {each.record.lindley}"
        say_prose(
            f"{each.report}: the same LR, log10 {fixed(each.record.log10_lr_bounded)} reported and "
            f"{fixed(each.record.log10_lr)} calculated; system {each.system}{written}"
        )
        if each.report.suffix.lower() == ".pdf":
            say_prose(
                f"  This is of the report attached to the PDF. Compare what its pages say: {each.record.verbal.sentence}"
            )
    if len(found) > 1:
        say(f"\n{len(found) - parted} of {len(found)} reports verified.")
    raise typer.Exit(2 if parted else 0)


def log(
    file: Annotated[Path, typer.Argument(help="A log that 'lindley case --log' wrote.")],
    holds: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256", help="Say whether the entry with this digest, which was kept elsewhere, is there."
        ),
    ] = None,
) -> None:
    """Check a log of cases: tell of entries that are missing or edited, and of reports beside it that were changed.

    Exit status: 0 if nothing is wrong, else 2.
    """
    from lindley.casework.log import changed_reports, read_log

    read = read_log(file)
    problems = [*read.problems, *changed_reports(read, file.parent)]
    if holds is not None and not any(entry["sha256"] == holds.strip().lower() for entry in read.entries):
        problems.append(f"no entry has the digest {holds}: the end was cut off, or entries were made anew")
    for problem in problems:
        say_prose(f"  • {problem}")
    number = "1 entry" if len(read.entries) == 1 else f"{len(read.entries)} entries"
    say(f"{file}: {number}, {'nothing is wrong' if not problems else f'{len(problems)} problems'}")
    say(f"Last entry: {read.last}")
    say_prose("            Keep it elsewhere: --holds tells later whether it is still there.")
    raise typer.Exit(2 if problems else 0)

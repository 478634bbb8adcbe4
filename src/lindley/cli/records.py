"""What was written before: ``verify`` computes reports again, ``review`` signs them, ``log`` reads the log of cases."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from lindley.cli.console import say, say_prose
from lindley.errors import LindleyError
from lindley.shown import visible

__all__ = ["log", "review", "verify"]


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
    """Compute the cases of reports again, draw their pages again, and say whether all is the same, or where they part.

    The measurements come from the report; its system is found by its SHA-256, in the folder of the report, in the
    working folder, and in --systems. The matrix of a batch, which stands among its reports, is told and passed over.
    Exit status: 0 if all of every report follows from its measurements; 3 if some of it could not be compared, as of
    another version's page, of what a PDF shows, or of the LR of a robust system of lindley 0.2.0 or older; 2 if anything is
    amiss.
    """
    if not any(map(os.path.exists, reports)):
        for path in reports:
            _say_not_verified(path, [f"there is no file {path}"])
        _say_how_many(0, len(reports))
        raise typer.Exit(2)

    from lindley.casework.review import read_review
    from lindley.pages.case_record import is_matrix, reports_in, verify_reports  # brings torch
    from lindley.pages.numerals import fixed
    from lindley.version import __version__

    matrices = [path for path in reports if is_matrix(path)]
    found = reports_in(path for path in reports if path not in matrices)
    if not found:
        raise LindleyError("these are matrices, which cannot be verified themselves: name the reports of their pairs.")
    parted = in_part = 0
    for each in verify_reports(found, systems or ()):
        reviewed, doubt = read_review(each.report)
        problems = [*each.problems, *filter(None, [doubt])]
        if each.record is None or problems:
            parted += 1
            _say_not_verified(each.report, problems)
            continue
        record = each.record
        same = "the same LR" if each.unchecked else f"the same LR and the same {_kind(each.report)}"
        same = same if each.computed else "the LR was not computed again"
        called = f" (in the report '{visible(record.system.file)}')" if each.system != record.system.file else ""
        written = "" if record.lindley == __version__ else f", written by lindley {visible(record.lindley)}"
        say_prose(
            f"{each.report}: {same}, log10 {fixed(record.log10_lr_bounded)} reported and {fixed(record.log10_lr)} calculated; "
            f"system {each.system}{called}{written}"
        )
        for sentence in (*each.unchecked, *each.taken):
            say_prose(f"  • {sentence}")
        if each.unchecked:
            in_part += 1
            say_prose(f"  • verified in part. Compare what it shows: {visible(record.verbal.sentence)}")
        if reviewed is not None:
            said = ", said to be another than the examiner" if reviewed.get("other_person") else ""
            say_prose(f"  Reviewed by {visible(reviewed['reviewer'])}{said}, {visible(reviewed['time'][:10])}.")
    for path in matrices:
        say_prose(f"{path}: a matrix, which is not verified itself: compare its LRs with those of the reports")
    _say_how_many(len(found) - parted - in_part, len(found), in_part)
    raise typer.Exit(2 if parted else 3 if in_part else 0)


def review(
    reports: Annotated[
        list[Path], typer.Argument(help="Reports that 'lindley case --log' wrote and logged.", metavar="REPORT…")
    ],
    reviewer: Annotated[str, typer.Option(help="Who read them; not the examiner.")],
    log: Annotated[
        Path,
        typer.Option(metavar="FILE", envvar="LINDLEY_LOG", help="The log that they are in; the review is added to it."),
    ],
    remark: Annotated[str, typer.Option(help="What the reviewer has to say.")] = "",
    other_person: Annotated[
        bool,
        typer.Option(
            "--other-person",
            help="The reviewer is not the examiner, although the names may be two spellings of one; it is recorded.",
        ),
    ] = False,
) -> None:
    """Put a second signature under reports: who read them, when, and which bytes.

    It stands in the log, and beside each report as REPORT.review.json, where 'lindley verify' finds it. Names have no keys:
    it is a statement, and no proof of who made it. A name that may be the examiner's in another spelling is asked about.
    """
    from lindley.casework.review import review_file, review_reports

    review_reports(reports, reviewer, log, remark, other_person=other_person)
    for path in reports:
        say(f"{path}: reviewed, see {review_file(path).name}")


def _say_not_verified(report: Path, problems: Iterable[str]) -> None:
    say(f"{report}: not verified")
    for problem in problems:
        say_prose(f"  • {problem}")


def _kind(report: Path) -> str:
    return {".pdf": "pages", ".json": "record"}.get(report.suffix.lower(), "page")


def _say_how_many(verified: int, reports: int, in_part: int = 0) -> None:
    if reports > 1:
        others = f", {in_part} of them in part" if in_part else ""
        say(f"\n{verified + in_part} of {reports} reports verified{others}.")


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

    An end that was cut off, or a log that was written anew, is told by --holds alone. Exit status: 0 if nothing is wrong,
    else 2.
    """
    from lindley.casework.log import changed_reports, read_log

    read = read_log(file)
    problems = [*read.problems, *changed_reports(read, file.parent)]
    if holds is not None and not any(entry["sha256"] == holds.strip().lower() for entry in read.entries):
        problems.append(f"no entry has the digest {holds}: the end was cut off, or entries were made anew")
    for problem in problems:
        say_prose(f"  • {problem}")
    number = "1 entry" if len(read.entries) == 1 else f"{len(read.entries)} entries"
    if reviews := sum("reviewer" in entry for entry in read.entries):
        number += ", 1 of them a review" if reviews == 1 else f", {reviews} of them reviews"
    say(f"{file}: {number}, {'nothing is wrong' if not problems else f'{len(problems)} problems'}")
    named = {Path(entry["report"]).name for entry in read.entries if isinstance(entry.get("report"), str)}
    if elsewhere := sum(not os.path.isfile(file.parent / name) for name in named):
        say_prose(f"Not compared: {elsewhere} of {len(named)} reports that it names, which are not beside it.")
    say(f"Last entry: {read.last}")
    say_prose(
        "            Keep it elsewhere: --holds tells later whether it is still there. Nothing else tells of an end that was "
        "cut off, or of a log that was written anew."
    )
    raise typer.Exit(2 if problems else 0)

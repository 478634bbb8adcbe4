"""A reviewer's second signature under reports: who read them, when, and exactly which bytes.

A review is an entry of the log of cases (`lindley.casework.log`), which ties it to the report by its SHA-256 and to everything
that was logged before it; the same entry stands beside the report, as ``report.html.review.json``, for whoever has the report
alone. It is a statement, and no proof of who made it: names have no keys. Whoever examined a case does not review it: names
are compared, and nothing else; one that may be another spelling of the examiner's is asked about.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lindley.casework.log import Log, add_to_log, read_log
from lindley.errors import LindleyError
from lindley.files import json_digest, sha256_of, write_atomically
from lindley.settings import setting
from lindley.shown import json_text, read_json, visible
from lindley.table.lookalikes import plain_letters
from lindley.version import __version__

__all__ = ["OnePerson", "may_be_one", "read_review", "review_file", "review_reports"]

FORMAT = "lindley-review/1"
LONGEST_NAME, LONGEST_REMARK = 200, 2000
"""Letters."""
LARGEST = 1_000_000
"""Bytes of a review: it has some hundred."""
_OF_THE_CASE = ("case", "examiner", "trace", "ref", "system", "report", "report_sha256")
_TITLES = {
    "bsc", "dhr", "dr", "drs", "heer", "ing", "ir", "jr", "llm", "mba", "mevr", "mevrouw", "mr", "mrs", "ms", "msc", "mw",
    "phd", "prof", "professor", "sr",
}  # fmt: skip
_SMALL = {"de", "den", "der", "het", "la", "le", "of", "ten", "ter", "van", "von"}
"""Words of a surname that many have."""


class OnePerson(LindleyError):
    """The reviewer's name may be the examiner's in another spelling: ask, and give `review_reports` the answer."""


def review_file(report: Path) -> Path:
    """Where the review of a report stands."""
    return report.with_name(f"{report.name}.review.json")


def review_reports(
    reports: Iterable[Path],
    reviewer: str,
    log: Path,
    remark: str = "",
    seen: Sequence[str] = (),
    *,
    other_person: bool = False,
) -> list[dict[str, Any]]:
    """Sign reports that are in a log: all of them, or none.

    Args:
        reports: files as ``lindley case`` wrote them.
        reviewer: who read them.
        log: the log that they are in, which gets an entry for each.
        remark: what the reviewer has to say.
        seen: the SHA-256 of each report as the reviewer saw it, where that is known.
        other_person: the reviewer is not the examiner, although their names may be two spellings of one; it is recorded.

    Raises:
        OnePerson: if they may be, and ``other_person`` was not given.
        LindleyError: if the reviewer is the examiner, a report is not what was logged or seen, or was reviewed already.
    """
    reviewer, remark, paths = " ".join(reviewer.split()), remark.strip(), list(reports)
    if not _letters(reviewer):
        raise LindleyError("a review has a name under it: give that of the reviewer")
    if len(reviewer) > LONGEST_NAME or len(remark) > LONGEST_REMARK:
        raise LindleyError(f"the reviewer's name has {LONGEST_NAME} letters at most, and a remark {LONGEST_REMARK:,}")
    read = read_log(log)
    if read.problems:
        raise LindleyError(f"the log {log} is damaged, and nothing is added to it: {read.problems[0]}")
    entries = [_entry(path, reviewer, remark, read, other_person) for path in paths]
    for path, entry, digest in zip(paths, entries, seen, strict=False):
        if entry["report_sha256"] != digest:
            raise LindleyError(f"{path.name} is not the report that you read: it was changed since. Read it again.")
    if not entries:
        raise LindleyError("no report was named that could be reviewed")
    add_to_log(log, entries)
    for path, entry in zip(paths, entries, strict=True):
        content = {"format": FORMAT, **entry}
        text = json_text({**content, "sha256": json_digest(content)}, indent=1)
        write_atomically(review_file(path), (text + "\n").encode("utf-8"))
    return entries


def read_review(report: Path) -> tuple[Mapping[str, Any] | None, str]:
    """The review beside a report, if there is one, and what is wrong with it."""
    place = review_file(report)
    if not place.is_file():
        return None, ""
    try:
        if place.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        said = read_json(place.read_bytes())
        digest = said.pop("sha256")
        if said["format"] != FORMAT or not all(isinstance(said[name], str) for name in ("reviewer", "time")):
            raise ValueError("it is no review")
        if json_digest(said) != digest:
            return said, "the review beside it was changed after it was written"
        if sha256_of(report) != said["report_sha256"]:
            return said, "the review beside it is of another report: one of the two was changed"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, "the review beside it does not read"
    return said, ""


def _entry(path: Path, reviewer: str, remark: str, log: Log, other_person: bool) -> dict[str, Any]:
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise LindleyError(f"{path} cannot be read ({error.strerror or error})") from error
    about = [entry for entry in log.entries if entry.get("report_sha256") == digest]
    evaluated = next((entry for entry in reversed(about) if "reviewer" not in entry), None)
    if evaluated is None:
        raise LindleyError(
            f"{path.name} is not in the log: it was changed after it was written, or evaluated without --log. Only what was "
            "logged can be reviewed."
        )
    examiner = evaluated.get("examiner")
    if not examiner:
        raise LindleyError(
            f"{path.name} does not say who examined the case, so that nobody can tell whether another reviews it. Evaluate it "
            "with --examiner."
        )
    if _letters(str(examiner)) == _letters(reviewer):
        raise LindleyError(f"{visible(reviewer)} examined this case: another has to review it")
    alike = may_be_one(str(examiner), reviewer)
    if alike and not other_person:
        raise OnePerson(
            f"'{visible(reviewer)}' may be '{visible(str(examiner))}', who examined this case, in another spelling: another "
            f"has to review it. If they are two people, say so with {setting('other_person')}: it is recorded."
        )
    for entry in about:
        if "reviewer" in entry and _letters(str(entry["reviewer"])) == _letters(reviewer):
            raise LindleyError(f"{visible(reviewer)} reviewed {path.name} already, on {str(entry.get('time'))[:10]}")
    return {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        **{name: evaluated.get(name) for name in _OF_THE_CASE},
        "reviewer": reviewer,
        **({"remark": remark} if remark else {}),
        **({"other_person": True} if alike else {}),
        "reviews": evaluated["number"],
        "lindley": __version__,
    }


def may_be_one(name: str, other: str) -> bool:
    """Whether two names may be spellings of one: titles, the order, initials for names, parts left out, look-alike letters.

    >>> may_be_one("dr. J.P. de Vries", "Vries, J. de"), may_be_one("J. de Vries", "A. de Vries")
    (True, False)
    """
    shorter, longer = sorted((_words(name), _words(other)), key=len)
    alike = [word for word in shorter if word in longer and len(word) > 1 and word not in _SMALL]
    for word in sorted(shorter, key=lambda word: word not in longer):  # whole words first, and then initials
        found = next((each for each in longer if each == word), None) or next(
            (each for each in longer if each[0] == word[0] and 1 in (len(each), len(word))), None
        )
        if found is None:
            return False
        longer.remove(found)
    return bool(alike)


def _words(name: str) -> list[str]:
    """The words of a name in plain letters, initials one by one, without titles."""
    shown = re.sub(r"\b[A-Z]{2,3}\b", lambda found: " ".join(found[0]), name) if re.search("[a-z]", name) else name
    bare = "".join(
        each for each in unicodedata.normalize("NFKD", plain_letters(shown)) if not unicodedata.combining(each)
    )
    return [word for word in re.findall(r"[^\W_]+", bare) if word not in _TITLES]


def _letters(name: str) -> str:
    """What is left of a name that is written in another way: J. de Vries, j de vries."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(each for each in plain if each.isalnum())

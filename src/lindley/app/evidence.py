"""What the pages of cases ask of files: what was recognised in those of a draft, what came out, and whether it still holds.

Runs in the process of `lindley.app.reader`, and never loads torch. Everything is plain data: texts and numbers for a template.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lindley.app.files import ENDINGS
from lindley.app.headers import doubt
from lindley.app.look import column_names, settings_of, told
from lindley.casework.laboratory import READING, read_notes
from lindley.casework.log import Log, read_log
from lindley.casework.review import OnePerson, read_review, review_reports
from lindley.errors import LindleyError
from lindley.files import sha256_of, write_atomically
from lindley.settings import speaking
from lindley.shown import read_json, visible
from lindley.system.header import read_header, read_system, table_of
from lindley.table.config import DataConfig
from lindley.table.findings import Finding, TableError
from lindley.table.read import column_parts, file_rows
from lindley.table.table import Table
from lindley.table.units import split_unit

__all__ = ["evidence", "log_of_cases", "notes", "pdf", "results", "review", "try_out"]

MOST_ITEMS = 500
"""That are shown of a file."""
MOST_ENTRIES = 300
"""Of a log that are shown: the latest."""
_BEFORE, _AFTER = b'<script type="application/json" id="record">', b"</script>"
"""Around the record of a report, as `lindley.pages.case_record` writes it, which brings torch."""


def notes(given: Mapping[str, str]) -> dict[str, str]:
    """What is said of a case, as the command would take it; what it would refuse is refused."""
    with speaking("shell"):
        return read_notes(None, {name: text for name, text in given.items() if text})


def evidence(trace: str, ref: str, system: str) -> dict[str, Any]:
    """Both sides of a draft as the command would read them: folders of files, and the features of a system."""
    with speaking("shell"):
        data = read_system(Path(system))
        wanted = table_of(data, Path(system).name)
        if wanted is None:
            raise LindleyError("The header of this system does not read. Choose another system.")
        sides = {name: _side(Path(folder), wanted) for name, folder in (("trace", trace), ("ref", ref))}
    digests = [{file["sha256"] for file in side["files"]} for side in sides.values()]
    units = list(wanted["units"])
    return {
        **sides,
        "features": [
            {"name": visible(name), "unit": unit, "columns": _columns_of(name, sides)}
            for name, unit in zip(wanted["features"], units, strict=False)
        ],
        "transform": wanted["transform"],
        "reference": None if wanted["reference"] is None else visible(wanted["reference"]),
        "doubt": doubt(read_header(data, Path(system).name)[1]),
        "shared": bool(digests[0] & digests[1]),
        "usable": all(side["usable"] for side in sides.values()) and not digests[0] & digests[1],
    }


def _side(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.name[0] not in ".~")
    files = [_file(path, wanted) for path in paths]
    whole = DataConfig(data=str(folder if len(paths) != 1 else paths[0])).with_profile(READING)
    table, findings = _read(whole, wanted) if paths else (None, ())
    return {
        "files": files,
        "usable": table is not None,
        "items": [] if table is None else list(table.labels),
        "measurements": 0 if table is None else len(table.values),
        "findings": [told(finding) for finding in findings],
        "reading": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in whole.given.items()
            if name != "no_profile"
        },
        "others": _once(other for file in files for other in file["others"]),
        "sheets": _once(sheet for file in files for sheet in file["sheets"]),
    }


def _file(path: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """One file: its items, which of its columns are the system's features, and which are not."""
    described = DataConfig(data=str(path)).with_profile(READING)
    table, _ = _read(described, wanted)
    sheets: dict[str, bool] = {}
    sheet, names, parts = "", list[str](), dict[str, str]()
    with suppress(LindleyError):
        sheets, sheet, rows = file_rows(path, described.sheet, described.header_row)
        names = column_names(path.name, rows, described)
    with suppress(LindleyError):
        parts = column_parts(path, **{**settings_of(described, "case"), **wanted})
        names = list(parts)
    features = {*wanted["features"], *filter(None, [wanted["reference"]])}
    matched = {split_unit(name)[0]: name for name in names if split_unit(name)[0] in features}
    items = [] if table is None else _items(table)
    return {
        "name": visible(path.name),
        "sha256": sha256_of(path),
        "sheet": visible(sheet),
        "sheets": [name for name, seen in sheets.items() if seen],
        "usable": table is not None,
        "items": items[:MOST_ITEMS],
        "more": max(0, len(items) - MOST_ITEMS),
        "matched": {name: visible(column) for name, column in matched.items()},
        "missing": sorted(features - matched.keys()) if names else [],
        "others": [name for name in names if name not in matched.values()],
    }


def _read(described: DataConfig, wanted: Mapping[str, Any]) -> tuple[Table | None, Sequence[Finding]]:
    try:
        table = described.load("case", **wanted)
    except TableError as error:
        return None, error.findings
    return table, table.findings


def _items(table: Table) -> list[dict[str, Any]]:
    labels, counts = np.unique(table.source, return_counts=True)
    count_of = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    return [{"label": visible(label), "measurements": count_of[label]} for label in table.labels]


def _columns_of(feature: str, sides: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """What the column of a feature is called in the files of each side."""
    return {
        which: _once(file["matched"][feature] for file in side["files"] if feature in file["matched"])
        for which, side in sides.items()
    }


def _once(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def results(output: str, log: str) -> dict[str, Any]:
    """The reports that a case left, each with what its record and the log say of it, and its reviews."""
    place = Path(output)
    paths = [place] if place.suffix else sorted(path for path in place.glob("*.html") if path.name != "matrix.html")
    try:
        read = read_log(Path(log))
    except LindleyError as error:
        read = Log((), (str(error),))
    found = [_result(path, read) for path in paths if path.is_file()]
    return {
        "reports": found,
        "traces": _once(each["trace"] for each in found),
        "refs": _once(each["ref"] for each in found),
        "matrix": [name for name in ("matrix.html", "matrix.xlsx") if not place.suffix and (place / name).is_file()],
        "log": list(read.problems),
    }


def _result(path: Path, log: Log) -> dict[str, Any]:
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    about = [entry for entry in log.entries if entry.get("report_sha256") == digest]
    entry = next((entry for entry in about if "reviewer" not in entry), None)
    record = _record(data)
    beside, doubt = read_review(path)
    system = record.get("system") or {}
    files = {
        which: {str(each["file"]): str(each["sha256"]) for each in (record.get(which) or {}).get("files", ())}
        for which in ("trace", "ref")
    }
    return {
        "name": path.name,
        "sha256": digest,
        "logged": entry is not None,
        "number": None if entry is None else entry["number"],
        "trace": visible(str((record.get("trace") or {}).get("label", "?"))),
        "ref": visible(str((record.get("ref") or {}).get("label", "?"))),
        "sentence": visible(str((record.get("verbal") or {}).get("sentence", ""))),
        "reported": _number(record.get("log10_lr_bounded")),
        "calculated": _number(record.get("log10_lr")),
        "files": files,
        "system": str(system.get("sha256", "")),
        "reviews": [
            {name: visible(str(entry.get(name, ""))) for name in ("reviewer", "time", "remark")}
            | {"other_person": entry.get("other_person") is True}
            for entry in about
            if "reviewer" in entry
        ],
        "review_beside": beside is not None,
        "doubt": doubt,
        "pdf": path.with_suffix(".pdf").is_file(),
    }


def _record(data: bytes) -> dict[str, Any]:
    start = data.find(_BEFORE)
    end = data.find(_AFTER, start)
    with suppress(ValueError):
        found = read_json(data[start + len(_BEFORE) : end]) if start >= 0 else None
        if isinstance(found, dict):
            return found
    return {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def review(reports: Sequence[str], reviewer: str, remark: str, log: str, seen: Sequence[str], other: bool) -> bool:
    """Sign reports, as ``lindley review`` does, if they still are what the reviewer saw; false if there is a question first.

    ``other``: the reviewer is another than the examiner, however alike their names.
    """
    with speaking("shell"):
        try:
            review_reports([Path(each) for each in reports], reviewer, Path(log), remark, seen, other_person=other)
        except OnePerson:
            return False
        return True


def pdf(report: str) -> None:
    """Write a report as a PDF beside it, with the page inside, as ``lindley case --out report.pdf`` does."""
    from lindley.pages.pdf import page_as_pdf

    path = Path(report)
    write_atomically(path.with_suffix(".pdf"), page_as_pdf(path.read_text("utf-8"), "report.html"))


def log_of_cases(log: str, folder: str) -> dict[str, Any]:
    """The log, the latest entry first, what is wrong with it, and reports that are not what was logged."""
    path = Path(log)
    if not path.exists():
        return {"entries": [], "problems": [], "changed": [], "count": 0, "last": ""}
    read = read_log(path)
    logged = {entry.get("report_sha256") for entry in read.entries}
    reports = [*Path(folder).glob("*/report.html"), *Path(folder).glob("*/reports/*.html")]
    changed = [
        visible(report.relative_to(folder).as_posix())
        for report in sorted(reports)
        if report.name != "matrix.html" and sha256_of(report) not in logged
    ]
    return {
        "entries": [_shown_entry(entry) for entry in reversed(read.entries[-MOST_ENTRIES:])],
        "problems": list(read.problems),
        "changed": changed,
        "count": len(read.entries),
        "last": read.last,
    }


def _shown_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    said = {
        name: visible(str(entry.get(name) if entry.get(name) is not None else ""))
        for name in ("number", "time", "case", "examiner", "reviewer", "trace", "ref", "report")
    }
    return {**said, "reported": _number(entry.get("log10_lr_bounded"))}


LEVELS = {"K39": 2500, "Ti49": 180, "Mn55": 70, "Rb85": 2.5, "Sr88": 60, "Zr90": 55, "Ba137": 25, "Pb208": 2}
"""Features of the embedded glass that a try-out has, and about how much of each is in a window, in mg/kg."""
SOURCES, FRAGMENTS = 300, 2


def try_out(folder: str) -> dict[str, str]:
    """Write a table, traces and a ref of the embedded glass, as an instrument would; files that are there stay."""
    from lindley.table.simulated import simulated_table

    table = simulated_table()
    columns = [table.features.index(name) for name in LEVELS]
    amounts = np.array(list(LEVELS.values()))
    windows: list[list[list[str]]] = []
    for source in table.labels[: SOURCES + FRAGMENTS]:
        log10 = table.values[table.source == source][:, columns]
        windows.append([[f"{amount:.4g}" for amount in row] for row in amounts * 10.0**log10])
    same, another = windows[SOURCES], windows[SOURCES + 1]
    written = {
        "table": [(f"B{number:03}", window) for number, window in enumerate(windows[:SOURCES], 1)],
        "trace": [("fragment 1", same[:2]), ("fragment 2", another[:2])],
        "ref": [("shop window", same[2:])],
    }
    names = {"table": "try-out glass.csv", "trace": "fragments.csv", "ref": "window.csv"}
    places = {what: Path(folder) / name for what, name in names.items()}
    for what, items in written.items():
        if not places[what].exists():
            text = io.StringIO(newline="")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(["Glass of the try-out: simulated, no evidence"])
            writer.writerow(["item", *(f"{name} [mg/kg]" for name in LEVELS)])
            writer.writerows([label, *row] for label, rows in items for row in rows)
            write_atomically(places[what], text.getvalue().encode("utf-8"))
    return {what: str(place) for what, place in places.items()}

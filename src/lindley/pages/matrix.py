"""The LRs of all traces against all refs, as files: .csv, .json, .xlsx, and a page. Labels in them are never formulas."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from lindley.casework.case import Batch
from lindley.errors import LindleyError
from lindley.pages.case_words import WORDS
from lindley.pages.numerals import fixed
from lindley.pages.page import render_page
from lindley.shown import as_text_cell, json_text, visible
from lindley.version import __version__

__all__ = ["matrix_file", "report_names"]

MOST_REPORTS = 1000
"""Cases of one command that each get a report."""
MOST_ON_A_PAGE = 20_000
"""LRs on one page."""
MOST_COLUMNS = 16_383
"""Refs in one sheet of a workbook."""


def matrix_file(batch: Batch, ending: str, reports: Mapping[tuple[int, int], str] | None = None) -> bytes:
    """The matrix as the file that its ending says; ``reports``: files beside it, by trace and ref."""
    if ending in (".html", ".htm"):
        return _page(batch, reports or {}).encode("utf-8")
    if ending == ".xlsx":
        return _workbook(batch)
    text = json_text(batch.to_json()) + "\n" if ending == ".json" else _csv(batch)
    return text.encode("utf-8")


def report_names(batch: Batch) -> dict[tuple[int, int], str]:
    """A file name for the report of every pair: its number, and what is left of its labels on every disk."""
    traces, refs = batch.log10_lr.shape
    if traces * refs > MOST_REPORTS:
        raise LindleyError(
            f"{traces} traces against {refs} refs are {traces * refs:,} cases, and {MOST_REPORTS:,} are the most that get a "
            "report each in one go: give fewer, or --out matrix.xlsx for their LRs alone"
        )
    width = len(str(traces * refs))
    return {
        (i, k): f"{i * refs + k + 1:0{width}d}-{_plain_name(trace)}-{_plain_name(ref)}.html"
        for i, trace in enumerate(batch.trace.labels)
        for k, ref in enumerate(batch.ref.labels)
    }


def _plain_name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", label)[:40].strip("-") or "item"


def _matrices(batch: Batch) -> dict[str, list[list[float]]]:
    """The LRs that are reported, within the bounds, and those that were calculated."""
    return {"reported": batch.bounded.tolist(), "calculated": batch.log10_lr.tolist()}


def _csv(batch: Batch) -> str:
    """A row for every trace, a column for every ref, numbers in full: first the reported LRs, then the calculated ones."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trace", "log10_lr", *map(as_text_cell, batch.ref.labels)])
    for which, matrix in _matrices(batch).items():
        for label, row in zip(batch.trace.labels, matrix, strict=True):
            writer.writerow([as_text_cell(label), which, *map(repr, row)])
    return text.getvalue()


def _workbook(batch: Batch) -> bytes:
    """A sheet of the reported LRs, one of the calculated ones, and one that says where they come from."""
    from openpyxl import Workbook

    if len(batch.ref.labels) > MOST_COLUMNS:
        raise LindleyError(
            f"there are {len(batch.ref.labels):,} refs, and a sheet has {MOST_COLUMNS:,} at most: give .csv"
        )
    book = Workbook()
    book.remove(book.active)
    for which, matrix in _matrices(batch).items():
        sheet = book.create_sheet(f"log10 LR {which}")
        for column, label in enumerate(("trace", *batch.ref.labels), start=1):
            _text_cell(sheet, 1, column, label)
        for row, (label, llrs) in enumerate(zip(batch.trace.labels, matrix, strict=True), start=2):
            _text_cell(sheet, row, 1, label)
            for column, llr in enumerate(llrs, start=2):
                sheet.cell(row, column, llr).number_format = "0.00"
        sheet.freeze_panes = "B2"
    about = book.create_sheet("about")
    lower, upper = batch.system.bounds
    facts = [
        ("reported", f"within the bounds, log10 LR {fixed(lower)} to {fixed(upper)}: report these"),
        *((f"remark {n}", remark.message) for n, remark in enumerate(batch.remarks, start=1)),
        ("command", batch.command),
        *_files(batch),
        ("lindley", __version__),
    ]
    for row, (name, fact) in enumerate(facts, start=1):
        _text_cell(about, row, 1, name)
        _text_cell(about, row, 2, fact)
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def _text_cell(sheet: Any, row: int, column: int, text: str) -> None:
    """A text that stays one: also when somebody opens the cell and presses Enter."""
    cell = sheet.cell(row, column)
    cell.value = visible(text)[:32_767]
    cell.data_type = "s"
    cell.quotePrefix = True


def _page(batch: Batch, reports: Mapping[tuple[int, int], str]) -> str:
    if batch.log10_lr.size > MOST_ON_A_PAGE:
        raise LindleyError(
            f"there are {batch.log10_lr.size:,} LRs, and a page has {MOST_ON_A_PAGE:,} at most: give .xlsx or .csv"
        )
    reported, calculated = _matrices(batch).values()
    rows = [
        (label, [(f"{fixed(a)}{'' if a == b else '*'}", reports.get((i, k), ""))
                 for k, (a, b) in enumerate(zip(reported[i], calculated[i], strict=True))])
        for i, label in enumerate(batch.trace.labels)
    ]  # fmt: skip
    return render_page(
        "matrix.html",
        language=batch.language,
        t=WORDS[batch.language],
        batch=batch,
        bounds=batch.system.bounds,
        refs=batch.ref.labels,
        rows=rows,
        remarks=[remark.in_language(batch.language) for remark in batch.remarks],
        files=_files(batch),
        version=__version__,
    )


def _files(batch: Batch) -> list[tuple[str, str]]:
    files = [(batch.system.file, batch.system.sha256), *batch.trace.items.files, *batch.ref.items.files]
    return [(name, f"SHA-256 {digest}") for name, digest in files]

"""The LRs of all traces against all refs, as files: .csv, .json, .xlsx, and a page (.html, .pdf).

Labels in them are never formulas.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from lindley.casework.case import Batch
from lindley.errors import LindleyError
from lindley.pages.case_page import identity, logo, page_words, sentences
from lindley.pages.case_words import WORDS, batch_bounds, matrix_cells
from lindley.pages.page import own, render_page
from lindley.pages.pdf import page_as_pdf
from lindley.shown import as_text_cell, csv_bytes, json_text, visible
from lindley.version import __version__

__all__ = ["matrix_file", "report_names"]

MOST_REPORTS = 1000
"""Cases of one command that each get a report."""
MOST_ON_A_PAGE = 20_000
"""LRs on one page."""
MOST_COLUMNS = 16_383
"""Refs in one sheet of a workbook."""
MOST_ON_PAPER = 8
"""Refs side by side in a PDF; the others follow below them."""


def matrix_file(batch: Batch, ending: str, reports: Mapping[tuple[int, int], str] | None = None) -> bytes:
    """The matrix as the file that its ending says; ``reports``: files beside it, by trace and ref."""
    if ending in (".html", ".htm"):
        return _page(batch, reports or {}).encode("utf-8")
    if ending == ".pdf":
        return page_as_pdf(_page(batch, {}, MOST_ON_PAPER))
    if ending == ".xlsx":
        return _workbook(batch)
    if ending == ".json":
        return (json_text(batch.to_json()) + "\n").encode("utf-8")
    return csv_bytes(_csv(batch))


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
    """A sheet of the reported LRs, one of the calculated ones, and one that says where they come from.

    Their words are in the language of the batch. LRs are numbers, which Excel shows with the marks of its own language.
    """
    from openpyxl import Workbook

    if len(batch.ref.labels) > MOST_COLUMNS:
        raise LindleyError(
            f"there are {len(batch.ref.labels):,} refs, and a sheet has {MOST_COLUMNS:,} at most: give .csv"
        )
    book = Workbook()
    book.remove(book.active)
    words, names = WORDS[batch.language], ("matrix_table", "matrix_calculated")
    for name, matrix in zip(names, _matrices(batch).values(), strict=True):
        sheet = book.create_sheet(words[name].replace(",", ""))
        for column, label in enumerate((words["trace"].lower(), *batch.ref.labels), start=1):
            _text_cell(sheet, 1, column, label)
        for row, (label, llrs) in enumerate(zip(batch.trace.labels, matrix, strict=True), start=2):
            _text_cell(sheet, row, 1, label)
            for column, llr in enumerate(llrs, start=2):
                sheet.cell(row, column, llr).number_format = "0.00"
        sheet.freeze_panes = "B2"
    about = book.create_sheet(words["matrix_about"])
    lower, upper = batch_bounds(batch)
    remarks = (remark.in_language(batch.language) for remark in batch.remarks)
    facts = [
        *((name, fact.striptags()) for name, fact in identity(batch.notes, batch.language, batch.system.file)),
        *zip((words["h1"], words["h2"]), _propositions(batch), strict=False),
        (words["reported_here"], words["matrix_report_these"].format(lower=lower, upper=upper)),
        *((f"{words['remark']} {n}", remark) for n, remark in enumerate(remarks, start=1)),
        (words["command"], batch.command),
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


def _page(batch: Batch, reports: Mapping[tuple[int, int], str], side_by_side: int | None = None) -> str:
    if batch.log10_lr.size > MOST_ON_A_PAGE:
        raise LindleyError(
            f"there are {batch.log10_lr.size:,} LRs, and a page has {MOST_ON_A_PAGE:,} at most: give .xlsx or .csv"
        )
    refs = len(batch.ref.labels)
    step = side_by_side or refs
    rows = [
        (label, [(text, reports.get((i, k), "")) for k, text in enumerate(cells)])
        for i, (label, cells) in enumerate(zip(batch.trace.labels, matrix_cells(batch), strict=True))
    ]
    return render_page(
        "matrix.html",
        language=batch.language,
        t=page_words(batch.language),
        batch=batch,
        system=batch.system,
        identity=identity(batch.notes, batch.language, batch.system.file),
        logo=logo(batch.notes),
        bounds=batch_bounds(batch),
        propositions=_propositions(batch),
        refs=batch.ref.labels,
        rows=rows,
        blocks=[range(first, min(first + step, refs)) for first in range(0, refs, step)],
        remarks=[remark.in_language(batch.language) for remark in batch.remarks],
        urgent=[remark.in_language(batch.language) for remark in batch.remarks if remark.code == "uninformative"],
        files=[(own(name), own(digest)) for name, digest in _files(batch)],
        version=__version__,
    )


def _propositions(batch: Batch) -> list[str]:
    """What the measurements of every pair are judged under."""
    words, notes, both = WORDS[batch.language], batch.notes, batch.propositions
    if notes.h1 is not None and notes.h2 is not None:
        named = {"trace": words["the_trace"], "ref": words["the_ref"]}
        both = notes.h1.format(**named), notes.h2.format(**named)
    return [] if both is None else sentences(both)


def _files(batch: Batch) -> list[tuple[str, str]]:
    files = [(batch.system.file, batch.system.sha256), *batch.trace.items.files, *batch.ref.items.files]
    return [(name, f"SHA-256 {digest}") for name, digest in files]

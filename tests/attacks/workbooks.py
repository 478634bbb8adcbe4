"""Excel workbooks written by hand, so that they may hold what no program would write."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def letters(column: int) -> str:
    """The name of a column, from 1."""
    text = ""
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text


def cell(row: int, column: int, value: Any, style: int | None = None) -> str:
    """A text, or a number as ``repr`` writes it; bytes stand as they are between the tags of a value."""
    place = f'r="{letters(column)}{row}"' + (f' s="{style}"' if style is not None else "")
    if isinstance(value, str):
        return f'<c {place} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f"<c {place}><v>{value.decode() if isinstance(value, bytes) else repr(value)}</v></c>"


def line(row: int, values: Sequence[Any], attributes: str = "") -> str:
    """A row of a sheet."""
    cells = "".join(cell(row, at, value) for at, value in enumerate(values, 1) if value is not None)
    return f'<row r="{row}" {attributes}>{cells}</row>'


def sheet(rows: Sequence[Sequence[Any]], more: str = "", before: str = "") -> str:
    """A sheet of rows, with more rows as XML behind them, and what stands before them."""
    return f"{before}<sheetData>{''.join(line(row, values) for row, values in enumerate(rows, 1))}{more}</sheetData>"


def book(
    *sheets: str, states: Sequence[str] = (), names: Sequence[str] = (), formats: Sequence[str] = (), more: str = ""
) -> bytes:
    """A workbook; style ``k`` of a cell is the k-th of the formats, from 1. ``more`` stands behind the sheets' XML."""
    numbers = range(1, len(sheets) + 1)
    states, names = states or ["visible"] * len(sheets), names or [f"Sheet{k}" for k in numbers]
    codes = "".join(f'<numFmt numFmtId="{163 + k}" formatCode={quoteattr(code)}/>' for k, code in enumerate(formats, 1))
    styles = "".join(
        f'<xf numFmtId="{163 + k}" fontId="0" fillId="0" borderId="0"/>' for k in range(1, len(formats) + 1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="{KIND}.worksheet+xml"/>' for k in numbers
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>'
        + "".join(
            f'<sheet name="{escape(name)}" sheetId="{k}" state="{state}" r:id="rId{k}"/>'
            for k, name, state in zip(numbers, names, states, strict=True)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="rId{k}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in numbers
        )
        + "</Relationships>",
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts>{codes}</numFmts><fonts><font/></fonts>'
        "<fills><fill><patternFill/></fill></fills>"
        '<borders><border/></borders><cellStyleXfs><xf numFmtId="0"/></cellStyleXfs>'
        f'<cellXfs><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>{styles}</cellXfs></styleSheet>',
    }
    parts |= {
        f"xl/worksheets/sheet{k}.xml": f'<worksheet xmlns="{MAIN}">{text}</worksheet>{more}'
        for k, text in enumerate(sheets, 1)
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return stream.getvalue()

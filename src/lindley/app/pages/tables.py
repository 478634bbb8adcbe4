"""Tables: a file is sent, shown with what was found in it, and its columns are given their parts."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from lindley.app.bench import Stored
from lindley.app.forms import Form, post
from lindley.app.jobs import typed
from lindley.app.site import page, part, words
from lindley.errors import LindleyError

__all__ = ["ROUTES", "options_of", "wanted_table"]

PARTS = {
    "source": "source",
    "feature": "feature",
    "group": "group",
    "session": "session",
    "instance": "number of the measurement",
    "reference": "divide by it",
    "ignore": "leave out",
}
"""What a column can be taken for, in the words of the page."""
CHOICES: dict[str, dict[str, str]] = {
    "transform": {"": "as they are", "log10": "log10", "ln": "ln"},
    "decimal": {"": "as found", ".": "point: 1.934", ",": "comma: 1,934"},
    "below_limit": {"": "not allowed", "half": "half of the limit", "limit": "the limit", "sqrt2": "the limit / √2"},
    "hidden": {"": "not allowed", "include": "count them", "ignore": "leave them out"},
}
"""Settings of the whole table, beside those of its columns, and what each can be."""
MOST_ROW = 2**20


def wanted_table(request: Request) -> Stored:
    """The table of an address, ``{id:int}`` in its route; 404 if there is none."""
    stored = request.app.state.bench.table(request.path_params["id"])
    if stored is None:
        raise HTTPException(404)
    return stored  # type: ignore[no-any-return]


def options_of(reading: dict[str, Any]) -> list[str]:
    """Options of a command that say how a table is read."""
    given = []
    for name, value in reading.items():
        if value in (None, False, []):  # as it is without the option
            continue
        given.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            given.append(
                ",".join('"' + each.replace('"', '""') + '"' if set(each) & set(',"') else each for each in value)
            )
        elif value is not True:
            given.append(str(value))
    return given


async def index(request: Request) -> Response:
    return page(request, "tables.html", tables=request.app.state.bench.tables())


async def send(request: Request, form: Form) -> str:
    """Keep what was sent; the page of the first of them follows."""
    files = form.files("file")
    if not files:
        raise LindleyError(words(request)("Choose a file first."))
    bench = request.app.state.bench
    stored = [await asyncio.to_thread(bench.store, file.filename or "", file.file) for file in files]
    return f"/tables/{stored[0].id}"


async def one(request: Request) -> Response:
    stored = wanted_table(request)
    return page(request, "table.html", stored=stored, shown=await _shown(request, stored))


async def _shown(request: Request, stored: Stored, problem: str = "") -> str:
    try:
        seen = await request.app.state.bench.look(stored)
    except LindleyError as error:
        return part(request, "look.html", stored=stored, seen=None, problem=problem or str(error))
    marks: dict[str, list[dict[str, Any]]] = {"error": [], "warning": [], "note": []}
    for number, finding in enumerate(seen["findings"]):
        marks[finding["level"]].append({**finding, "number": number})
    command = typed(["check", stored.relative, *options_of(stored.reading)])
    return part(
        request, "look.html", stored=stored, seen=seen, marks=marks, parts=PARTS, choices=CHOICES, command=command,
        problem=problem, by_place={column["place"]: column for column in seen["columns"]},
    )  # fmt: skip


async def read_otherwise(request: Request, form: Form) -> Response:
    """Another part of a column, header, sheet or setting: checked again at once."""
    stored, bench = wanted_table(request), request.app.state.bench
    reading = _reading(stored, form)
    if bench.path(stored.relative).with_name("lindley.yaml").exists():
        reading["no_profile"] = True  # the form says all that there is to say
    bench.choose(stored.id, reading)
    problem = ""
    try:
        await bench.look(wanted_table(request))
    except LindleyError as error:  # such as a unit that is none: what was chosen before stays
        problem = str(error)
        bench.choose(stored.id, stored.reading)
    shown = await _shown(request, wanted_table(request), problem)
    if request.headers.get("hx-request") == "true":
        return HTMLResponse(shown)
    return page(request, "table.html", stored=stored, shown=shown)


def _reading(stored: Stored, form: Form) -> dict[str, Any]:
    """The options that the whole form says; a part that only one column can play goes to the one that was changed last."""
    if form.text("forget"):
        return {}
    sheet, header = form.text("sheet"), form.text("header_row")
    reading: dict[str, Any] = {}
    if sheet and (sheet != form.text("sheet_found") or "sheet" in stored.reading):
        reading["sheet"] = sheet
    if header.isascii() and header.isdigit() and 1 <= int(header) <= MOST_ROW:
        reading["header_row"] = int(header)
    for name, allowed in CHOICES.items():
        if form.text(name) in allowed and form.text(name):
            reading[name] = form.text(name)
    if form.text("units"):
        reading["units"] = form.text("units")
    if form.text("allow_duplicates") == "yes":
        reading["allow_duplicates"] = True
    if sheet != form.text("sheet_found") or header != form.text("header_found"):
        return reading  # other columns: what they are is looked at anew
    names, parts = form.starting("name-"), form.starting("part-")
    changed = form.text("changed")
    given = {place: part for place, part in parts.items() if part in PARTS and place in names}
    for single in ("source", "group", "session", "instance", "reference"):
        holders = [place for place, part in given.items() if part == single]
        chosen = changed if changed in holders else holders[0] if holders else None
        for place in holders:
            if place != chosen:
                given[place] = "ignore"
        if chosen is not None and (single == "reference" or names[chosen].casefold() != single):
            reading[f"{single}_column"] = names[chosen]
    if ignored := [names[place] for place, part in given.items() if part == "ignore"]:
        reading["ignore_columns"] = ignored
    if "reference_column" in reading:
        reading.setdefault("transform", "log10")
    return reading


async def keep(request: Request, form: Form) -> str:
    """Write what was chosen to lindley.yaml beside the table."""
    stored, bench = wanted_table(request), request.app.state.bench
    await bench.reader.ask("keep", path=str(bench.path(stored.relative)), reading=stored.reading)
    bench.choose(stored.id, {})
    return f"/tables/{stored.id}"


ROUTES = [
    Route("/tables", index),
    post("/tables", send),
    Route("/tables/{id:int}", one),
    post("/tables/{id:int}/reading", read_otherwise, once=False),
    post("/tables/{id:int}/keep", keep),
]

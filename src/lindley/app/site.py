"""The pages as one application: templates, language, errors, static files, and the list of pages."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from lindley.app.bench import Bench
from lindley.app.database import is_full
from lindley.app.forms import Form, new_key, post
from lindley.app.guard import REPORT_POLICY
from lindley.app.words import LANGUAGES, Words
from lindley.errors import LindleyError
from lindley.shown import visible
from lindley.version import __version__

__all__ = ["make_site", "page", "part", "report", "words"]

LANGUAGE = "lindley-language"
"""The cookie that keeps the language."""
WARM_AFTER = 1.0
"""Seconds from the start: the first page has the machine for itself."""
STATIC = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "htmx.LICENSE": "text/plain",
}
"""Files that pages load; no other name is looked for."""


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("lindley.app", "templates"),
        autoescape=True,
        finalize=lambda value: visible(value, lines=True) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def words(request: Request) -> Words:
    """In the language that was chosen, or the first of the browser's that there is."""
    chosen = request.cookies.get(LANGUAGE, "")
    if chosen in LANGUAGES:
        return Words(chosen)
    asked = request.headers.get("accept-language", "").split(",")[0].strip().lower()
    return Words("nl" if asked.startswith("nl") else "en")


def page(request: Request, template: str, status: int = 200, **content: Any) -> HTMLResponse:
    """A whole page. Its template extends base.html, and has ``t`` for words, ``csrf`` and ``new_key()`` for forms."""
    from lindley.app.pages import NAVIGATION

    return HTMLResponse(
        part(request, template, navigation=NAVIGATION, version=__version__, **content),
        status,
        headers={"Vary": "Cookie"},
    )


def part(request: Request, template: str, **content: Any) -> str:
    """A part of a page, as text."""
    t = words(request)
    shared = {
        "t": t,
        "language": t.language,
        "languages": LANGUAGES,
        "csrf": request.state.csrf,
        "new_key": new_key,
        "path": request.url.path,
        "problem": "",
    }
    return _environment().get_template(template).render({**shared, **content})


def report(path: Path) -> Response:
    """A report that a command wrote, to be shown in a frame (``frame`` of parts.html): a page that runs as a stranger.

    It comes from a file of somebody's data, and has scripts of its own (`lindley.app.guard.REPORT_POLICY`).
    """
    try:
        content = path.read_bytes()
    except OSError:
        raise HTTPException(404) from None
    return Response(
        content,
        media_type="text/html",
        headers={"Content-Security-Policy": REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"},
    )


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    return Response(_static_file(name), media_type=STATIC[name])


@cache
def _static_file(name: str) -> bytes:
    own = files("lindley.app").joinpath("static").joinpath(name).read_bytes()
    if name == "style.css":  # the reports' style sheet, and what pages have beside it
        return files("lindley.pages").joinpath(name).read_bytes() + b"\n" + own
    return own


async def _choose_language(request: Request, form: Form) -> Response:
    chosen, back = form.text("language"), form.text("back")
    answer = RedirectResponse(back if back.startswith("/") and back[1:2] not in ("/", "\\") else "/", 303)
    if chosen in LANGUAGES:
        answer.set_cookie(LANGUAGE, chosen, max_age=10 * 365 * 24 * 3600, httponly=True, samesite="strict", path="/")
    return answer


async def _refused(request: Request, error: Exception) -> Response:
    """What a user can mend, and addresses that lead nowhere, as a page; in a part of a page, as a line of it."""
    status = error.status_code if isinstance(error, HTTPException) else 422
    said = error.detail if isinstance(error, HTTPException) else str(error)
    return _problem(request, words(request)("There is no such page." if status == 404 else said), status)


def _problem(request: Request, said: str, status: int) -> Response:
    if request.headers.get("hx-request") == "true":
        return HTMLResponse(part(request, "problem.html", problem=said), status)
    return page(request, "refused.html", status, problem=said)


async def _unwritten(request: Request, error: Exception) -> Response:
    """A full disk: nothing was done."""
    if not is_full(error):
        return await _unforeseen(request, error)
    return _problem(request, words(request)("The disk is full: nothing was done. Make room, and do it once more."), 507)


async def _unforeseen(request: Request, error: Exception) -> Response:
    return page(request, "refused.html", 500, problem=request.app.state.bench.unforeseen(error))


def make_site(bench: Bench) -> Starlette:
    """All pages, without the guard."""
    from lindley.app.pages import ROUTES

    @contextlib.asynccontextmanager
    async def at_work(site: Starlette) -> AsyncIterator[None]:
        bench.queue.start()
        soon = threading.Timer(WARM_AFTER, bench.reader.warm)
        soon.daemon = True
        soon.start()
        try:
            yield
        finally:
            soon.cancel()
            bench.close()

    site = Starlette(
        routes=[
            Route("/static/{name}", _static),
            post("/language", _choose_language, once=False),
            *ROUTES,
        ],
        exception_handlers={
            HTTPException: _refused,
            LindleyError: _refused,
            OSError: _unwritten,
            sqlite3.Error: _unwritten,
            Exception: _unforeseen,
        },
        lifespan=at_work,
    )
    site.state.bench = bench
    return site

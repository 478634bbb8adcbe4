"""What a form sends: read within limits, known to come from a page of the bench, and done once however often it is sent.

Every page that takes a form is made with `post`, and there is no other way. A form carries ``csrf``, which only pages of the
bench know, and ``once``, a key of its own: a form that is sent again (a double click, the back button, a page that is loaded
anew) gets the answer of the first time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message

from lindley.limits import limit

__all__ = ["Form", "new_key", "post"]

MOST_FIELDS = 2000
MOST_FILES = 20
LONGEST_FIELD = 64 * 1024
"""Bytes; a page has no larger text to send."""
ALLOWANCE = 4 * 1024 * 1024
"""Bytes of a form beside its files."""
_KEY = re.compile(r"[A-Za-z0-9_-]{20,64}")


class Form:
    """The fields of a form, each a text of bounded length, and its files."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str, default: str = "") -> str:
        """A field, without blanks at its ends."""
        found = self._data.get(name, default)
        return found.strip() if isinstance(found, str) else default

    def texts(self, name: str) -> list[str]:
        """All fields of a name, as of check boxes."""
        return [each for each in self._data.getlist(name) if isinstance(each, str)]

    def files(self, name: str) -> list[UploadFile]:
        """The files that were chosen; none of an input that was left empty."""
        return [each for each in self._data.getlist(name) if isinstance(each, UploadFile) and each.filename]

    def starting(self, prefix: str) -> dict[str, str]:
        """The fields whose names begin so, by the rest of their names."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._data.multi_items()
            if name.startswith(prefix) and isinstance(value, str)
        }


def new_key() -> str:
    """For a form that is shown."""
    return secrets.token_urlsafe(18)


Act = Callable[[Request, Form], Awaitable[Response | str]]
"""Does what a form asks for: the address of the page that follows, or an answer of its own where nothing was done."""


def post(path: str, act: Act, *, once: bool = True) -> Route:
    """A route that takes a form, and leads on to the address that ``act`` gives.

    Not ``once`` is for a form that may well be done again, such as a choice: it needs no key.
    """

    async def endpoint(request: Request) -> Response:
        data = await _read(request)
        try:
            given = request.headers.get("x-csrf") or data.get("csrf")
            if not isinstance(given, str) or not hmac.compare_digest(given.encode(), request.state.csrf.encode()):
                raise HTTPException(403, "This form is of another session. Open the page anew, and send it again.")
            if once:
                return await _once(request, Form(data), act)
            answer = await act(request, Form(data))
            return _follow(request, answer) if isinstance(answer, str) else answer
        finally:
            await data.close()

    endpoint.takes_form = True  # type: ignore[attr-defined]
    return Route(path, endpoint, methods=["POST"])


async def _once(request: Request, form: Form, act: Act) -> Response:
    """Do it, or lead to where it led before; who comes meanwhile waits for the first."""
    bench = request.app.state.bench
    key = form.text("once")
    if not _KEY.fullmatch(key):
        raise HTTPException(400, "This form lacks its key. Open the page anew, and send it again.")
    async with bench.sending.setdefault(key, asyncio.Lock()):
        before = bench.database.one("SELECT place FROM once WHERE key = ?", key)
        if before is not None:
            return _follow(request, before["place"])
        answer = await act(request, form)
        if not isinstance(answer, str):
            return answer
        with contextlib.suppress(sqlite3.Error), bench.database.change() as database:  # what was done is done
            database.execute("INSERT INTO once VALUES (?, ?, ?)", (key, answer, time.time()))
        return _follow(request, answer)


def _follow(request: Request, place: str) -> Response:
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)


async def _read(request: Request) -> FormData:
    """The form, while its size is counted: no more is read than is allowed, whatever its head says."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        raise HTTPException(415, "Forms are sent here, and nothing else.")
    most = ALLOWANCE + (2_000_000 * limit("TABLE_MB") if kind == "multipart/form-data" else 0)
    too_large = HTTPException(
        413,
        f"This is larger than {most // 1_000_000:,} MB. The environment variable LINDLEY_MAX_TABLE_MB raises the limit.",
    )
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > most:
        raise too_large
    taken = 0
    receive = request.receive

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise too_large
        return message

    bounded = Request(request.scope, counted)
    try:
        if kind == "multipart/form-data":
            parts = MultiPartParser(
                request.headers, bounded.stream(),
                max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD,
            )  # fmt: skip
            return await parts.parse()
        parser = FormParser(request.headers, bounded.stream(), max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD)
        return await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, f"This form cannot be read: {error.message}") from error

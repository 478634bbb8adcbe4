"""Who may speak to the bench: the browser that was opened with its address, from its own pages, and nobody else.

The server listens on this machine only, where other programs, other people's processes, and every web page that is open in the
same browser can still knock. What each request must show:

==================  ========================================================================================================
Host                exactly ``127.0.0.1:PORT`` or ``localhost:PORT``: a name of a stranger that leads here is refused (DNS
                    rebinding)
cookie              a secret, given for the token in the address that ``lindley app`` opens; HttpOnly, SameSite=Strict
Sec-Fetch-Site      where a browser sends it: nothing but ``same-origin`` or ``none``, except to open a page as a whole
Origin              of everything that is not GET or HEAD: the address of the bench itself
csrf                of every form: a value that only pages of the bench know, as a field or as the header ``X-CSRF``
                    (`lindley.app.forms`)
==================  ========================================================================================================

What is answered runs no script but the bench's own files, loads nothing from elsewhere, and is kept in no cache.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "REPORT_POLICY", "Guard"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Of a report, which is a page of its own with scripts inside: it runs as a stranger. A sandbox without an origin cannot read
pages, cookies or answers of the bench, and may send nothing. Its own policy, by hashes of its scripts, holds as well."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers call the origin of our own forms null
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LONGEST_ADDRESS = 4000
"""Letters of a path and its query."""
GREETING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lindley</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/"></head>
<body><p><a href="/">lindley</a></p></body></html>
"""
"""Leads on to the bench. A redirection would not do: a browser that came from elsewhere keeps a strict cookie back on it."""
STRANGER = (
    "This address belongs to a lindley that is running. Open it with the whole address that 'lindley app' shows, which ends in "
    "a token.\n"
)


class Guard:
    """Lets requests through to the pages, or answers them itself."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"lindley-{port}"  # a browser sends cookies of one port to all others of a host

    @property
    def csrf(self) -> str:
        """What forms must hold."""
        return hmac.new(self._session.encode(), b"csrf", hashlib.sha256).hexdigest()

    @property
    def session(self) -> str:
        """What the cookie holds."""
        return self._session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page speaks over a WebSocket
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._refusal(scope)
        if answer is None:
            scope.setdefault("state", {})["csrf"] = self.csrf
            await self.app(scope, receive, _with_headers(send))
        else:
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return _no("This is not the address of a lindley.", 421)
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > LONGEST_ADDRESS:
            return _no("This address is too long.", 414)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no("Nothing here is done in that way.", 405)
        if (refused := self._from_elsewhere(scope, headers)) is not None:
            return refused
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
            if len(given) == 1 and _same(given[0], self.token):
                answer = HTMLResponse(GREETING)
                answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
                return answer
            return _no(STRANGER, 403)
        return None if self._known(headers) else _no(STRANGER, 403)

    def _from_elsewhere(self, scope: Scope, headers: Headers) -> Response | None:
        site = headers.get("sec-fetch-site", "none")
        opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
        if scope["method"] == "POST":
            if headers.getlist("origin") != [f"http://{headers['host']}"] or site not in ("none", "same-origin"):
                return _no("This was sent from another page than one of this lindley.", 403)
        elif site not in ("none", "same-origin") and not opened:
            return _no("Another page asked for this.", 403)
        return None

    def _known(self, headers: Headers) -> bool:
        """Whether one of the cookies is ours: other programs on this machine may have set some of any kind."""
        given = (each.strip().partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
        return any(name == self.cookie and _same(value, self._session) for name, _, value in given)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def _no(text: str, status: int) -> Response:
    return PlainTextResponse(text, status)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent

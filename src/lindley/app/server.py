"""``lindley app``: a socket on this machine, the bench behind its guard, and the browser that is let in."""

from __future__ import annotations

import html
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from lindley.app.bench import Bench
from lindley.app.guard import Guard
from lindley.app.jobs import Limits
from lindley.app.reader import Reader
from lindley.app.site import make_site
from lindley.errors import LindleyError

__all__ = ["guarded", "serve"]

DOOR = "open.html"
"""In the bench's folder, for its owner alone: leads a browser in. The address with its token is in no list of processes."""
BESIDE = 8760
"""The port that is tried first."""


def guarded(bench: Bench, port: int) -> Guard:
    """The pages of a bench, behind their guard."""
    site: ASGIApp = make_site(bench)
    return Guard(site, port)


def serve(
    folder: Path,
    port: int | None = None,
    *,
    browser: bool = True,
    limits: Limits | None = None,
    say: Callable[[str], None] = print,
    unforeseen: Callable[[Exception], str] = lambda error: type(error).__name__,
) -> None:
    """Answer until somebody ends it."""
    with _listening(port) as listening:
        bound = int(listening.getsockname()[1])
        guard = guarded(Bench(folder, limits, Reader(), unforeseen), bound)
        address = f"http://127.0.0.1:{bound}/?token={guard.token}"
        config = uvicorn.Config(
            guard, log_level="critical", access_log=False, lifespan="on", server_header=False, date_header=False,
            ws="none", http="h11", loop="asyncio", timeout_graceful_shutdown=2, h11_max_incomplete_event_size=65536,
        )  # fmt: skip
        server = _Server(config, lambda: _open(folder, address, browser, say))
        try:
            with suppress(KeyboardInterrupt):  # by which it is ended
                server.run(sockets=[listening])
        finally:
            with suppress(OSError):
                (folder / DOOR).unlink()
    say("The bench is closed.")


class _Server(uvicorn.Server):
    """Tells when it can be asked."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _listening(port: int | None) -> socket.socket:
    for wanted in (BESIDE, 0) if port is None else (port,):
        # the protocol is named, as asyncio sends at once (TCP_NODELAY) only then: else every answer waits for 40 ms
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform == "win32":  # where another program could take the port as well
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", wanted))
            listening.listen()  # until then another can take it as well
        except (OSError, OverflowError) as error:
            listening.close()
            if port is not None:
                reason = getattr(error, "strerror", None) or error
                raise LindleyError(
                    f"--port {port} cannot be used ({reason}). Give another, or leave it out."
                ) from error
            continue
        return listening
    raise LindleyError("No port of this machine can be used.")


def _open(folder: Path, address: str, browser: bool, say: Callable[[str], None]) -> None:
    say(f"The bench in {folder} is open:\n\n    {address}\n\nThe address is for you alone. Ctrl-C ends it.")
    if not browser:
        return
    door = folder / DOOR
    with suppress(OSError):
        door.unlink()
    leads = html.escape(address, quote=True)
    text = f'<!doctype html><meta charset="utf-8"><title>lindley</title><meta http-equiv="refresh" content="0; url={leads}">'
    with suppress(OSError):
        with os.fdopen(os.open(door, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + f'<p><a href="{leads}">lindley</a></p>\n')
        threading.Thread(target=webbrowser.open, args=(door.resolve().as_uri(),), daemon=True).start()

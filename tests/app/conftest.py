"""The app, in this process (`client`) and as it is started for real (`started`), and a browser that looks at it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

pytest.importorskip("starlette", reason="the extra 'app' is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would rather have httpx2 than httpx
    from starlette.testclient import TestClient

from lindley.app import jobs
from lindley.app.bench import Bench
from lindley.app.jobs import Limits
from lindley.app.reader import Reader
from lindley.app.server import guarded
from lindley.pages.pdf import find_browser
from tests.app import warm

PORT = 8760
HOME = f"http://127.0.0.1:{PORT}"
AXE = next(
    (
        path / "axe.min.js"
        for path in map(Path, getattr(find_spec("axe_core_python"), "submodule_search_locations", ()))
    ),
    None,
)
CHROMIUM = find_browser()


class Client(TestClient):
    """A browser that was let in: it has the cookie, says where its posts come from, and sends the secrets of the form."""

    csrf: str
    bench: Bench

    def submit(self, path: str, once: str | None = None, files: Any = None, **fields: Any) -> Any:
        """Send a form, as its page would."""
        key = once if once is not None else os.urandom(16).hex()
        data = {"csrf": self.csrf, "once": key, **fields}
        return self.post(path, data=data, files=files, headers={"Origin": HOME}, follow_redirects=False)

    def upload(self, name: str, content: bytes) -> int:
        """Send a table; its number."""
        answer = self.submit("/tables", files={"file": (name, content)})
        assert answer.status_code == 303, answer.text
        return int(answer.headers["location"].rsplit("/", 1)[1])


@pytest.fixture(scope="session")
def reader() -> Iterator[Reader]:
    """One process for all tests: it takes half a second to start."""
    shared = Reader()
    yield shared
    Reader.close(shared)


@pytest.fixture(scope="session")
def _warm_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    path = str(tmp_path_factory.mktemp("warm") / "door")
    program = (sys.executable, warm.__file__)
    with subprocess.Popen(
        [*program, "serve", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUTF8": "1"}
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield (*program, "run", path)
        server.communicate()


@pytest.fixture(scope="module")
def quick_jobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Jobs without the seconds in which each of them imports torch; where nothing can be forked, they are as they are."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(os, "fork"):
            patch.setattr(jobs, "PROGRAM", request.getfixturevalue("_warm_program"))
        yield


@pytest.fixture
def make_client(tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Opens a bench in a folder, in this process; a second call opens it again, as after a restart."""
    monkeypatch.setattr(Reader, "close", lambda self: None)
    opened: list[Client] = []

    def make(folder: Path = tmp_path / "bench", limits: Limits | None = None) -> Client:
        bench = Bench(folder, limits, reader)
        guard = guarded(bench, PORT)
        client = Client(guard, base_url=HOME, raise_server_exceptions=True)
        client.__enter__()
        client.cookies.set(guard.cookie, guard.session)
        client.csrf, client.bench = guard.csrf, bench
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(make_client: Callable[..., Client]) -> Client:
    """A bench in an empty folder."""
    return make_client()


def glass(sources: int = 12, replicates: int = 3, seed: int = 0) -> list[list[Any]]:
    """Rows of a small table: header, then measurements of sources that differ."""
    draw = np.random.default_rng(seed)
    rows: list[list[Any]] = [["item", "K39", "Ti49", "Mn55"]]
    for source in range(sources):
        mean = draw.normal(5, 1, 3)
        rows += [
            [f"W{source + 1}", *np.exp(mean + draw.normal(0, 0.05, 3)).round(4).tolist()] for _ in range(replicates)
        ]
    return rows


def csv_bytes(rows: list[list[Any]]) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


def workbook(rows: list[list[Any]], title: str = "Sheet") -> bytes:
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


class Started:
    """``lindley app`` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lindley", "app", "--folder", str(folder), "--no-browser", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address, said = "", []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line):
                self.address = found[0]
                break
        assert self.address, f"the app did not start: {''.join(said)}"

    @property
    def home(self) -> str:
        return self.address.partition("/?")[0]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts the app for real; what was started is ended."""
    all_started: list[Started] = []

    def begin(*options: str, folder: Path = tmp_path / "bench") -> Started:
        all_started.append(Started(folder, *options))
        return all_started[-1]

    yield begin
    for each in all_started:
        each.end()


class Watched:
    """A page in Chromium, let in, with whatever it complains of or asks for."""

    def __init__(self, browser: Any, started: Started, width: int = 1280) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.context.set_default_timeout(120_000)  # of a busy machine; nobody waits for it where things work
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.home = started.home
        self.page.goto(started.address)
        self.page.wait_for_url(f"{self.home}/")

    def obstacles(self) -> list[str]:
        """What keeps people out of the page that is shown: axe-core's serious findings, a page wider than its window."""
        if AXE is None:
            pytest.skip("axe-core-python is not installed")
        self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations'], iframes: false})")["violations"]
        told = [
            f"{self.page.url}: {each['id']} ({each['impact']}): {node['html'][:200]}"
            for each in found
            for node in each["nodes"]
            if each["impact"] in ("serious", "critical")
        ]
        if self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            told.append(f"{self.page.url}: wider than its window")
        return told

    @property
    def outside(self) -> list[str]:
        """Requests to anywhere but the app."""
        return [url for url in self.requests if not url.startswith((f"{self.home}/", "data:", "blob:"))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt install chromium")
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()

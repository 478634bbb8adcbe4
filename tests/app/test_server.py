"""The app as a process: quick to answer, small, alone in its folder, and back after whatever ended it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from lindley.app.bench import Bench
from lindley.app.server import _listening
from lindley.cli.last_net import unforeseen
from lindley.pages.palette import STYLE_COLOURS
from tests.app.conftest import HOME, Client, Started, csv_bytes, glass
from tests.attacks.door import lindley

TABLE = csv_bytes([["source", *glass()[0][1:]], *glass(24, 3)[1:]])


class Outside:
    """What a browser does, over the wire."""

    def __init__(self, started: Started) -> None:
        self.http = httpx.Client(base_url=started.home, timeout=30)
        self.http.get(started.address)
        text = self.http.get("/tables").text
        self.csrf = text.partition('name="csrf" value="')[2].partition('"')[0]
        self.home = started.home

    def submit(self, path: str, files: Any = None, **fields: Any) -> str:
        data = {"csrf": self.csrf, "once": os.urandom(16).hex(), **fields}
        answer = self.http.post(path, data=data, files=files, headers={"Origin": self.home})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def begin_run(self, splits: int) -> str:
        place = self.submit("/tables", files={"file": ("glass.csv", TABLE)})
        table = place.rpartition("/")[2]
        return self.submit("/compare", table=table, models="tlm+logistic", splits=str(splits), seed="0")

    def until(self, path: str, *texts: str, within: float = 60.0) -> str:
        end = time.monotonic() + within
        while time.monotonic() < end:
            shown = self.http.get(path).text
            if any(text in shown for text in texts):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{path} never said {texts}: {shown}")


@pytest.fixture
def visit(start: Callable[..., Started]) -> Iterator[Callable[..., tuple[Started, Outside]]]:
    """Starts the app for real, and comes in."""
    visits: list[Outside] = []

    def begin(*options: str, **more: Any) -> tuple[Started, Outside]:
        started = start(*options, **more)
        visits.append(Outside(started))
        return started, visits[-1]

    yield begin
    for each in visits:
        each.http.close()


def job_of(folder: Path, number: int = 1) -> dict[str, Any]:
    return dict(json.loads((folder / "jobs" / str(number) / "job.json").read_text()))


def test_the_first_page_comes_soon_and_without_torch_or_numpy(visit: Callable[..., Any]) -> None:
    started, outside = visit()
    assert "Bench" in outside.http.get("/").text
    process = psutil.Process(started.process.pid)
    assert sum(process.cpu_times()[:2]) < 1.0  # of the processor: this machine may have more to do
    outside.submit("/tables", files={"file": ("glass.csv", TABLE)})
    assert "This table can be used." in outside.http.get("/tables/1").text
    assert process.memory_info().rss < 150e6
    if sys.platform == "linux":
        for each in (process, *process.children(recursive=True)):
            assert not [place.path for place in each.memory_maps() if "torch" in place.path]
        assert not [place.path for place in process.memory_maps() if "numpy" in place.path]


def test_the_server_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; import lindley.app.server, lindley.app.pages, lindley.cli; "
        "print([name for name in ('torch', 'numpy', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_listens_on_this_machine_alone(start: Callable[..., Started]) -> None:
    started = start()
    for each in psutil.Process(started.process.pid).net_connections("tcp"):
        assert each.laddr.ip == "127.0.0.1"
    assert httpx.get(started.home).status_code == 403


def test_a_bench_is_open_once(start: Callable[..., Started]) -> None:
    started = start()
    again = lindley("app", "--folder", started.folder, "--no-browser")
    assert again.status == 2
    assert "is open already" in again.err
    taken = lindley(
        "app", "--folder", started.folder.with_name("other"), "--no-browser", "--port", started.home.rpartition(":")[2]
    )
    assert taken.status == 2
    assert "cannot be used" in taken.err


def test_without_the_extra_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lindley.app", sys.modules["lindley.app"])  # that it is imported anew is undone there, too
    for name in [each for each in sys.modules if each.startswith("lindley.app")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = lindley("app", "--folder", tmp_path, "--no-browser")
    assert answer.status == 2
    assert "pip install 'lindley[app]'" in answer.err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_a_run_survives_the_death_of_the_server_and_of_its_own_process(visit: Callable[..., Any]) -> None:
    started, outside = visit()
    page = outside.begin_run(splits=150)
    outside.until(page, "of 150", "Done.")
    folder = started.folder
    started.process.send_signal(signal.SIGKILL)
    started.process.wait()
    job = job_of(folder)
    assert job["state"] == "running"
    worker = psutil.Process(job["process"])
    assert worker.is_running()  # it has lost nothing but its audience

    _, second = visit(folder=folder)
    assert "At work" in second.http.get("/").text
    worker.kill()
    shown = second.until(page, "Broken off before it was done.")
    assert "Go on" in shown
    assert "This was broken off" in second.http.get("/").text
    units = sorted((folder / job["output"] / "units").iterdir())
    before = {path.name: path.stat().st_mtime_ns for path in units}
    assert second.submit("/jobs/1/go-on") == page
    results = folder / job["output"] / "results.json"
    while not results.exists():
        second.until(page, "Cancel")
    second.submit("/jobs/1/cancel")  # the report, which takes longer, is drawn in test_browser
    after = {path.name: path.stat().st_mtime_ns for path in (folder / job["output"] / "units").iterdir()}
    assert before.items() <= after.items()  # what was finished was not done again
    assert list(json.loads(results.read_text())["models"]) == ["tlm+logistic"]


def test_a_bench_that_is_closed_ends_its_job_which_can_go_on(visit: Callable[..., Any]) -> None:
    started, outside = visit()
    page = outside.begin_run(splits=400)
    outside.until(page, "of 400")
    worker = psutil.Process(job_of(started.folder)["process"])
    started.end()
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert job_of(started.folder)["state"] == "broken"
    _, second = visit(folder=started.folder)
    assert "The program was closed." in second.http.get(page).text


def test_a_bench_without_its_database_finds_tables_and_jobs_again(make_client: Callable[..., Client]) -> None:
    client = make_client()
    number = client.upload("glass <1>.csv", TABLE)
    client.bench.queue.stop()
    client.submit("/compare", table=str(number), models="tlm", splits="1", seed="0")
    client.bench.queue.cancel(1)
    client.bench.database.close()
    for kind in ("gone", "damaged"):
        for path in client.bench.folder.glob("bench.sqlite*"):
            path.unlink() if kind == "gone" else path.write_bytes(b"nonsense" * 1000)
        again = Bench(client.bench.folder, reader=client.bench.reader)
        assert [table.name for table in again.tables()] == ["glass _1_.csv"]
        assert [(job.id, job.state, job.kind) for job in again.queue.jobs()] == [(1, "cancelled", "run")]
        again.database.close()
    assert len(list(client.bench.folder.glob("bench.sqlite.damaged-*"))) == 1


def test_two_that_start_at_the_same_moment_have_a_port_each() -> None:
    with _listening(None) as one, _listening(None) as other:
        assert one.getsockname() != other.getsockname()
        one.listen(), other.listen()


def test_a_transaction_that_fails_leaves_nothing(client: Client) -> None:
    def twice() -> None:
        with client.bench.database.change() as database:
            for _ in range(2):
                database.execute("INSERT INTO once VALUES ('a', '/', 1)")

    with pytest.raises(sqlite3.IntegrityError):
        twice()
    assert client.bench.database.all("SELECT * FROM once") == []


def test_what_nobody_foresaw_is_one_sentence(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(number: int) -> None:
        raise RuntimeError("with a cell of a case in it")

    monkeypatch.setattr(client.bench, "table", broken)
    monkeypatch.setattr(client._transport, "raise_server_exceptions", False)
    monkeypatch.setattr(client.bench, "unforeseen", unforeseen)
    answer = client.get("/tables/1")
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert "cell of a case" not in answer.text
    assert "Traceback" not in answer.text
    assert "content-security-policy" in answer.headers


def test_the_colours_are_those_of_the_reports(client: Client) -> None:
    sheet = client.get("/static/style.css").text
    for name, colour in STYLE_COLOURS.items():
        assert f"--{name}: {colour};" in sheet


def test_a_page_is_of_one_language_which_a_cookie_keeps(client: Client) -> None:
    assert '<html lang="en">' in client.get("/").text
    assert '<html lang="nl">' in client.get("/", headers={"Accept-Language": "nl-NL,nl;q=0.9"}).text
    answer = client.submit("/language", language="nl", back="/tables")
    assert answer.headers["location"] == "/tables"
    assert '<html lang="nl">' in client.get("/").text
    client.submit("/language", language="en", back="/")
    assert '<html lang="en">' in client.get("/", headers={"Accept-Language": "nl"}).text


def test_pages_say_nothing_of_a_report_that_is_not_there(client: Client) -> None:
    client.bench.queue.stop()
    job = client.bench.queue.add("run", "a", ["run"], output="runs/none")
    client.bench.queue.cancel(job.id)
    assert client.get(f"/compare/{job.id}/report").status_code == 404
    assert client.get(f"/compare/{job.id}").status_code == 200
    other = client.bench.queue.add("train", "b", ["train"])
    assert client.get(f"/compare/{other.id}").status_code == 404
    assert client.post("/compare", headers={"Origin": HOME}).status_code == 415

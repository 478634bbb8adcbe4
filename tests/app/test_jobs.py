"""The queue: one command at a time, whatever happens to it, to the server, or to the machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from lindley.app import jobs
from lindley.app.database import Database
from lindley.app.jobs import Events, Job, Limits, Queue
from tests.app.conftest import Client

SLEEPER = """
import os, subprocess, sys, time
from lindley.cli.events import tell, tell_progress
what = sys.argv[1]
if what == "children":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
if what == "memory":
    held = b"x" * 300_000_000
for step in range(3 if what == "quick" else 300):
    tell_progress("working", f"step {step}", step / 300)
    time.sleep(0.05)
if what == "wrong":
    tell(level="error", said="the cell is wrong")
tell(status=0)
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose commands are small programs, and not those of lindley."""
    script = tmp_path / "work.py"
    script.write_text(SLEEPER)
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(script)))
    made = Queue(Database(tmp_path / "bench.sqlite"), tmp_path)
    yield made
    made.stop()
    made.database.close()


def until(queue: Queue, number: int, *states: str, within: float = 15.0) -> Job:
    end = time.monotonic() + within
    while time.monotonic() < end:
        job = queue.job(number)
        assert job is not None
        if job.state in states:
            return job
        time.sleep(0.02)
    raise AssertionError(f"{job} is not {states}")


def process_of(queue: Queue, number: int) -> psutil.Process:
    until(queue, number, "running")
    while (row := queue.database.one("SELECT process FROM jobs WHERE id = ?", number)) is None or not row["process"]:
        time.sleep(0.02)
    return psutil.Process(row["process"])


def test_jobs_are_done_one_after_the_other(queue: Queue) -> None:
    first, second = (queue.add("run", name, ["quick", name]) for name in "ab")
    queue.start()
    until(queue, first.id, "running")
    assert until(queue, second.id, "waiting", "running").state == "waiting"
    ended = until(queue, second.id, "done")
    before = queue.job(first.id)
    assert before is not None
    assert before.state == "done"
    assert before.ended is not None
    assert ended.started is not None
    assert before.ended <= ended.started


def test_the_same_command_is_not_added_twice_while_it_waits(queue: Queue) -> None:
    assert queue.add("run", "a", ["quick"]).id == queue.add("run", "a", ["quick"]).id
    assert queue.add("run", "a", ["slow"]).id == 2


def test_a_cancelled_job_ends_with_all_that_it_started_and_can_go_on(queue: Queue) -> None:
    job = queue.add("run", "a", ["children"])
    queue.start()
    process = process_of(queue, job.id)
    while not (children := process.children()):
        time.sleep(0.02)
    queue.cancel(job.id)
    until(queue, job.id, "cancelled")
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    psutil.wait_procs(children, timeout=5)
    assert not any(child.is_running() for child in children)
    queue.go_on(job.id)
    until(queue, job.id, "running")


def test_a_cancel_that_comes_too_late_is_forgotten(queue: Queue) -> None:
    job = queue.add("run", "a", ["slow"])
    queue.cancel(job.id)
    queue.cancel(job.id)  # of another browser, which has not heard of the first
    queue.go_on(job.id)
    queue.start()
    until(queue, job.id, "running")
    time.sleep(0.5)
    assert until(queue, job.id, "running", "cancelled").state == "running"
    done = queue.add("run", "b", ["quick"])
    queue.cancel(job.id)
    until(queue, done.id, "done")
    queue.cancel(done.id)
    assert until(queue, done.id, "done", "cancelled").state == "done"


def test_a_job_that_waits_is_cancelled_before_it_begins(queue: Queue) -> None:
    job = queue.add("run", "a", ["slow"])
    queue.cancel(job.id)
    assert until(queue, job.id, "cancelled").started is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_a_killed_process_is_told_as_broken_off(queue: Queue) -> None:
    job = queue.add("run", "a", ["slow"])
    queue.start()
    os.kill(process_of(queue, job.id).pid, signal.SIGKILL)
    assert "without a word" in until(queue, job.id, "broken").said


def test_a_job_of_too_much_memory_or_time_is_ended_with_the_reason(queue: Queue) -> None:
    queue.limits = Limits(memory=150_000_000)
    job = queue.add("run", "a", ["memory"])
    queue.start()
    assert "more than 0.1 GB of memory" in until(queue, job.id, "failed").said
    queue.limits = Limits(hours=0.5 / 3600)
    job = queue.add("run", "b", ["slow"])
    assert "hours" in until(queue, job.id, "failed").said


def test_a_server_that_comes_back_waits_for_what_it_left_running(queue: Queue, tmp_path: Path) -> None:
    job = queue.add("run", "a", ["slow"])
    row = queue.database.one("SELECT * FROM jobs")
    assert row is not None
    process = queue._begin(row)  # and the server is gone before it looks at it
    later = Queue(queue.database, tmp_path)
    later.start()
    time.sleep(0.3)
    assert until(later, job.id, "running")
    process.terminate()
    process.wait()
    assert until(later, job.id, "broken")
    later.stop()


def test_a_job_that_ended_while_no_server_looked_is_known_by_its_events(queue: Queue, tmp_path: Path) -> None:
    job = queue.add("run", "a", ["quick"])
    row = queue.database.one("SELECT * FROM jobs")
    assert row is not None
    queue._begin(row).wait()
    later = Queue(queue.database, tmp_path)
    later.start()
    assert until(later, job.id, "done")
    later.stop()


def test_jobs_are_found_again_without_the_database(queue: Queue, tmp_path: Path) -> None:
    job = queue.add("run", "a <b>", ["quick", "--data", "x y"], output="runs/1", about={"splits": 3})
    other = Queue(Database(tmp_path / "other.sqlite"), tmp_path)
    other.rebuild()
    assert other.job(job.id) == job
    other.database.close()


def test_progress_leaves_a_line_that_is_not_whole_and_forgets_a_file_that_is_new(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = Events(path)
    assert events.progress().doing == ""
    path.write_text(
        '{"time": 100, "doing": "a", "detail": "", "done": 0.1}\nnonsense\n[1]\n{"done": []}\n{"time": 110, "doi'
    )
    assert (events.progress().doing, events.progress().done, events.progress().status) == ("a", 0.1, None)
    with open(path, "a") as file:
        file.write('ng": "b", "detail": "c", "done": 0.2}\n{"time": 111, "status": 0}\n')
    assert (events.progress().doing, events.progress().detail, events.progress().status) == ("b", "c", 0)
    path.write_text('{"time": 100, "doing": "anew", "detail": "", "done": 7}\n')
    assert (events.progress().doing, events.progress().done, events.progress().status) == ("anew", 1.0, None)


def test_a_page_tells_of_progress_as_it_comes(
    make_client: Callable[..., Client], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    job = client.bench.queue.add("run", "a", ["slow"])
    until(client.bench.queue, job.id, "running")
    while not client.bench.queue.progress(job.id).doing:
        time.sleep(0.02)
    assert 'data-events="/jobs/1/events"' in client.get("/jobs/1").text
    shown, progress = threading.Event(), client.bench.queue.progress
    monkeypatch.setattr(client.bench.queue, "progress", lambda number: (shown.set(), progress(number))[1])

    def cancel() -> int:
        shown.wait(60)  # until the stream has told something
        return client.submit(f"/jobs/{job.id}/cancel").status_code

    with ThreadPoolExecutor(1) as other:
        cancelled = other.submit(cancel)
        with client.stream("GET", "/jobs/1/events") as stream:
            text = "".join(stream.iter_text())
    assert cancelled.result() == 303
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert "event: part" in text
    assert "step " in text
    assert text.endswith("event: end\ndata: \n\n")

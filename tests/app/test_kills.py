"""The app is killed at random moments while it works, and started again: what it holds is whole, and the work is done at last.

For as many seconds as LINDLEY_KILL_SECONDS says, else some; afterwards the numbers are printed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from lindley.app.bench import Bench
from lindley.casework.log import read_log
from tests.app.conftest import Started, csv_bytes, glass
from tests.app.test_lasting import require_sound
from tests.app.test_server import Outside

SECONDS = float(os.environ.get("LINDLEY_KILL_SECONDS", "12"))


def _act(outside: Outside, draw: random.Random, number: int) -> None:
    """What somebody does on the pages, until the server is gone."""
    place = outside.submit("/tables", files={"file": (f"t{number}.csv", csv_bytes(glass(12, seed=draw.randrange(5))))})
    table = place.rpartition("/")[2]
    form = {"source": "item", "part-0": "source", "name-0": "item", "part-1": "feature", "name-1": "K39"}
    outside.http.post(f"{place}/reading", data={"csrf": outside.csrf, **form}, headers={"Origin": outside.home})
    common = {"table": table, "seed": "0"}
    while True:
        number += 1
        match draw.randrange(5):
            case 0:
                outside.submit("/compare", models="tlm", splits="1", **{**common, "seed": str(draw.randrange(10**6))})
            case 1:
                outside.submit(
                    "/systems/train", model="tlm", name=f"s{draw.randrange(10**9)}", replicates="0", **common
                )
            case 2:
                case = outside.submit("/cases/new", case=f"k{draw.randrange(10**9)}", examiner="E")
                rows = csv_bytes(glass(1, 2, seed=number))
                outside.submit(f"{case}/trace", files={"file": ("trace.csv", rows)})
                outside.submit(f"{case}/reading", side="trace", source_column="item")
            case 3:
                outside.submit("/tables", files={"file": ("x.csv", csv_bytes(glass(6, seed=draw.randrange(10**6))))})
            case 4:
                outside.submit("/tryout")


def _left(folder: Path) -> None:
    """End the processes of a folder that outlive their server, with their workers."""
    left = [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=30)


def _wait_until_idle(bench: Bench) -> None:
    """Wait until no job is waiting or at work: nothing is written then."""
    until = time.monotonic() + 300
    while any(job.active for job in bench.queue.jobs()):
        assert time.monotonic() < until, "a job is still at work after 300 s"
        time.sleep(0.2)


def test_a_bench_that_is_killed_again_and_again_stays_whole(tmp_path: Path) -> None:
    draw, folder = random.Random(0), tmp_path / "bench"
    kills, end, known = 0, time.monotonic() + SECONDS, 0
    while time.monotonic() < end or not kills:
        started = Started(folder)
        try:
            outside = Outside(started)
            if draw.random() < 0.5:  # at any moment
                at = time.monotonic() + draw.choice([draw.uniform(0.0, 3.0), draw.uniform(3.0, 15.0)])
                pid = os.fork()
                if pid == 0:
                    time.sleep(max(0.0, at - time.monotonic()))
                    os.kill(started.process.pid, signal.SIGKILL)
                    os._exit(0)
                with suppress(httpx.HTTPError, AssertionError):
                    _act(outside, draw, kills)
                os.waitpid(pid, 0)
            else:  # while a job is at work, or ends
                time.sleep(draw.uniform(0.0, 3.0))
                started.process.send_signal(signal.SIGKILL)
            outside.http.close()
        finally:
            started.process.wait()
            started.end()
        kills += 1
        if draw.random() < 0.3:
            _left(folder)
        bench = Bench(folder)
        try:
            _left(folder)  # they would write on, while files are compared
            for path in folder.rglob("*.part"):  # what a kill leaves has no name that anybody reads
                path.unlink()
            for path in folder.rglob("*.before"):
                path.unlink()
            require_sound(bench)
            assert bench.database.damaged == []
            found = len(bench.queue.jobs()) + len(bench.cases.all()) + len(bench.tables())
            assert found >= known  # nothing that was there is lost
            known = found
            for log in folder.glob("*/lindley-log.jsonl"):
                assert read_log(log).problems == ()
        finally:
            bench.close()
    _left(folder)
    bench = Bench(folder)
    for job in bench.queue.jobs():
        if job.state == "waiting":
            bench.queue.cancel(job.id)
    bench.queue.start()
    _wait_until_idle(bench)  # a job that was at work is seen to be broken off
    broken = [job.id for job in bench.queue.jobs() if job.state in ("broken", "failed")][:5]
    for number in broken:
        bench.queue.go_on(number)
    _wait_until_idle(bench)
    states = Counter(job.state for job in bench.queue.jobs())
    ended = [bench.queue.job(number) for number in broken]
    print(f"\n{kills} kills, {known} jobs, cases and tables; {dict(states)}; of 5 that were broken off: {ended}")
    assert all(job.state == "done" for job in ended if job.kind == "run"), [job.said for job in ended]
    require_sound(bench)
    bench.close()

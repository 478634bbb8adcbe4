"""What a full disk and a damaged database do to a bench: nothing stops for ever, nothing is half done, and the pages say so."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lindley.app import approvals, database, jobs
from lindley.app.approvals import systems
from lindley.app.bench import Bench
from lindley.app.database import Database
from lindley.app.jobs import Queue
from lindley.app.words import Words
from lindley.system.train import DoubtWarning, train
from lindley.table.read import read_table
from tests.app.conftest import Client, csv_bytes, glass
from tests.app.test_approvals import approve
from tests.app.test_cases import begin, done, finished, new, send, trained, wait
from tests.app.test_jobs import SLEEPER, until
from tests.full_disk import SmallDisk, small_disk

__all__ = ["done", "finished", "trained"]  # fixtures

pytestmark = pytest.mark.usefixtures("quick_jobs")


def require_sound(bench: Bench) -> None:
    """The database is whole, says what the files say, and no file is half written."""
    with bench.database.change() as database:
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    for row in bench.database.all("SELECT * FROM jobs"):
        told = json.loads((bench.queue.place(row["id"]) / jobs.JOB).read_bytes())
        assert told == {**row, "command": json.loads(row["command"]), "about": json.loads(row["about"])}
    for row in bench.database.all("SELECT * FROM cases"):
        assert json.loads((bench.path(row["folder"]) / "bench.json").read_bytes()) == {
            **row, "about": json.loads(row["about"])
        }  # fmt: skip
    for table in bench.tables():
        assert hashlib.sha256(bench.path(table.relative).read_bytes()).hexdigest() == table.sha256
    assert [one.file for one in systems(bench) if one.differs] == []
    assert [path for path in bench.folder.rglob("*") if path.name.endswith((".part", ".before"))] == []


# a full disk


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    monkeypatch.setattr(jobs, "PAUSE", 0.05)
    with small_disk(tmp_path / "disk") as made:
        yield made


def test_the_queue_goes_on_when_an_end_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work.py").write_text(SLEEPER)
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(tmp_path / "work.py")))
    monkeypatch.setattr(jobs, "PAUSE", 0.02)
    queue = Queue(Database(tmp_path / "bench.sqlite"), tmp_path)
    written, full = database.write_whole, True

    def write(path: Path, data: bytes) -> None:
        if full and b'"state": "done"' in data:
            raise OSError(28, "No space left on device")
        written(path, data)

    monkeypatch.setattr(database, "write_whole", write)
    one, two = (queue.add("run", name, ["quick", name]) for name in "ab")
    queue.start()
    ended = until(queue, one.id, "done")  # which its page says, though nothing else knows
    assert queue.is_unwritten(ended)
    time.sleep(0.1)
    assert queue.database.one("SELECT state FROM jobs WHERE id = ?", one.id) == {"state": "running"}
    assert queue.job(two.id).state == "waiting"
    seen = set()
    for _ in range(50):
        seen.add(queue.trouble)
        time.sleep(0.01)
    assert "No space left on device" in seen
    full = False
    until(queue, two.id, "done")
    assert queue.trouble == ""
    assert json.loads((queue.place(one.id) / jobs.JOB).read_bytes())["state"] == "done"
    queue.stop()
    queue.database.close()


def test_whatever_happens_in_the_queue_the_next_job_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work.py").write_text(SLEEPER)
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(tmp_path / "work.py")))
    monkeypatch.setattr(jobs, "PAUSE", 0.02)
    queue = Queue(Database(tmp_path / "bench.sqlite"), tmp_path)
    errors = iter(
        [RuntimeError("odd"), sqlite3.OperationalError("disk I/O error"), OSError(28, "full"), ValueError("odd")]
    )
    end, begin_job = queue._end, queue._begin

    def odd(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if (error := next(errors, None)) is not None:
                raise error
            return function(*given)

        return call

    monkeypatch.setattr(queue, "_end", odd(end))
    monkeypatch.setattr(queue, "_begin", odd(begin_job))
    added = [queue.add("run", name, ["quick", name]) for name in "abc"]
    queue.start()
    assert {until(queue, job.id, "done", "failed").state for job in added} <= {"done", "failed"}
    assert queue.job(added[-1].id).state == "done"
    queue.stop()
    queue.database.close()


def test_jobs_on_a_full_disk_wait_and_are_done_when_there_is_room(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(SLEEPER.replace("0.05", "0.02"))
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(tmp_path / "work.py")))
    bench = Bench(disk.folder / "bench")
    for pages in (0, 1, 2, 3, 5, 8):
        names = [f"{pages}-{number}" for number in range(2)]
        added = [bench.queue.add("run", name, ["quick", name]) for name in names]
        bench.queue.start()
        disk.leave(pages)
        time.sleep(0.5)
        disk.make_room()
        for job in added:
            assert until(bench.queue, job.id, "done", "failed", "broken").state == "done", pages
        bench.queue.stop()
        bench.queue._stop.clear()
        require_sound(bench)
    bench.close()


def _actions(client: Client, trained: Path) -> dict[str, Callable[[], Any]]:
    """What pages do, each once for every number of pages that are left."""
    bench, count = client.bench, iter(range(1000))

    def draft() -> Any:
        return bench.cases.all()[0]

    def decide(what: str) -> Any:
        one = systems(bench)[0]
        if what == "approve":
            return client.submit(
                f"/systems/{one.id}/approve", seen=one.sha256, who="A", why="B", exception="C", validation=""
            )
        return client.submit(f"/systems/{one.id}/withdraw", who="A", why="B")

    def fresh(kind: str) -> bytes:
        return csv_bytes([*glass(12), [kind, next(count) + 1, 1, 1], [kind, 2, 2, 2]])

    return {
        "upload": lambda: client.submit("/tables", files={"file": ("a.csv", fresh("table"))}),
        "queue": lambda: client.submit(
            "/compare", table=str(bench.tables()[-1].id), models="tlm", splits="1", seed=str(next(count))
        ),
        "approve": lambda: decide("approve"),
        "case": lambda: client.submit("/cases/new", case=f"case {next(count)}", examiner="E"),
        "file": lambda: send(client, draft(), "trace", f"{next(count)}.csv", fresh("trace")),
        "reading": lambda: client.submit(f"/cases/{draft().id}/reading", side="trace", source_column="item"),
        "say": lambda: client.submit(f"/cases/{draft().id}/notes", case=f"other {next(count)}", examiner="E" * 400),
        "criteria": lambda: client.submit(
            "/systems/criteria", name="c", text=f"accuracy: {{cllr: {{at_most: 0.{next(count)}}}}}"
        ),
        "withdraw": lambda: decide("withdraw"),
    }  # fmt: skip


def test_what_pages_do_on_a_full_disk_is_done_or_not_done(
    disk: SmallDisk, make_client: Callable[..., Client], trained: Path
) -> None:
    client = make_client(disk.folder / "bench")
    bench = client.bench
    bench.queue.stop()
    shutil.copy(trained, bench.folder / "systems" / "glass.safetensors")
    bench.choose(client.upload("first.csv", csv_bytes(glass(12))), {"source_column": "item"})
    refused = 0
    for name, act in _actions(client, trained).items():
        for pages in range(12):
            disk.leave(pages)
            answer = act()
            disk.make_room()
            require_sound(bench)
            if answer.status_code == 303:
                break
            refused += 1
            assert answer.status_code in (422, 507), (name, pages, answer.text)
            assert re.search("disk is full|No space left|cannot be written", answer.text), (name, pages)
        else:
            raise AssertionError(f"{name} is never done")
        if name not in ("approve", "withdraw"):
            assert act().status_code == 303
    assert refused > 10
    client.bench.database.close()
    again = Bench(bench.folder, reader=bench.reader)
    require_sound(again)
    assert again.database.damaged == []
    again.database.close()


# a damaged database


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> tuple[Path, dict[str, Any]]:
    """A bench with tables, systems, approvals, cases and jobs, closed; and what it lists."""
    bench = Bench(tmp_path_factory.mktemp("filled") / "bench")
    for number in range(10):
        path = bench.folder / "upload.csv"
        path.write_bytes(csv_bytes(glass(3, seed=number)))
        with open(path, "rb") as file:
            bench.store(f"table{number}.csv", file)
        path.unlink()
    for name in ("a", "b", "c"):
        shutil.copy(trained, bench.folder / "systems" / f"{name}.safetensors")
    for one in systems(bench):
        approvals.approve(bench, Words(), one.id, one.sha256, "Q. Manager", "long " * 300, None, "a test")
    approvals.withdraw(bench, Words(), systems(bench)[0].id, "Q. Manager", "a doubt")
    for number in range(16):
        bench.cases.create({"case": f"2026-{number}", "examiner": "E", "method": "m" * 300}, {"language": "en"})
        job = bench.queue.add("run", f"run {number}", ["run", "demo", str(number), "x" * 400], about={"number": number})
        bench.queue.cancel(job.id)
    bench.database.close()
    return bench.folder, listed(bench.folder)


def listed(folder: Path) -> dict[str, Any]:
    bench = Bench(folder)
    found = {
        "tables": sorted(table.sha256 for table in bench.tables()),
        "systems": sorted((one.file, one.state, one.entries) for one in systems(bench)),
        "cases": [(case.id, case.number, case.notes) for case in bench.cases.all()],
        "jobs": bench.queue.jobs(),
    }
    require_sound(bench)
    bench.close()
    return found


@pytest.mark.parametrize("fill", ["zeros", "ones", "noise", "half"])
def test_every_page_of_the_database_can_be_destroyed(
    filled: tuple[Path, dict[str, Any]], tmp_path: Path, fill: str
) -> None:
    folder, expected = filled
    data = (folder / "bench.sqlite").read_bytes()
    size = int.from_bytes(data[16:18], "big")
    count = len(data) // size
    assert count >= 18
    put_aside = 0
    for page in range(count):
        place = Path(shutil.copytree(folder, tmp_path / str(page)))
        start, end = page * size, (page + 1) * size
        if fill == "half":
            start += size // 2
        junk = {"zeros": bytes(size), "ones": b"\xff" * size}.get(fill, os.urandom(size))[: end - start]
        (place / "bench.sqlite").write_bytes(data[:start] + junk + data[end:])
        assert listed(place) == expected, page
        put_aside += bool(list(place.glob("bench.sqlite.damaged-*")))
        shutil.rmtree(place)
    assert put_aside >= 0.8 * count  # of the others nothing was lost


def test_a_database_that_was_cut_or_is_older_than_the_files_is_filled(
    filled: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, expected = filled
    data = (folder / "bench.sqlite").read_bytes()
    for number, length in enumerate((0, 10, 100, 4096, len(data) // 2, len(data) - 4096, len(data) - 1)):
        place = Path(shutil.copytree(folder, tmp_path / str(number)))
        (place / "bench.sqlite").write_bytes(data[:length])
        assert listed(place) == expected, length
    place = Path(shutil.copytree(folder, tmp_path / "quoted"))  # bytes that are no text, in a message of SQLite
    (place / "bench.sqlite").write_bytes(data.replace(b"CREATE TABLE jobs", b"CREATE \xa4ABLE jobs"))
    assert listed(place) == expected
    assert list(place.glob("bench.sqlite.damaged-*"))
    place = Path(shutil.copytree(folder, tmp_path / "older"))
    database = sqlite3.connect(place / "bench.sqlite")
    database.executescript(
        "DELETE FROM jobs WHERE id > 9; DELETE FROM cases WHERE id > 5; DELETE FROM tables WHERE id > 5"
    )
    database.commit()
    database.close()
    assert listed(place) == expected


def test_damage_is_told_on_the_first_page_with_what_was_lost(
    filled: tuple[Path, dict[str, Any]], make_client: Callable[..., Client], tmp_path: Path
) -> None:
    place = Path(shutil.copytree(filled[0], tmp_path / "bench"))
    assert "was damaged" not in make_client(place).get("/").text
    place = Path(shutil.copytree(filled[0], tmp_path / "other"))
    (place / "bench.sqlite").write_bytes(b"\xff" * 40_000)
    (place / "systems" / "b.approvals.json").write_text("{")
    client = make_client(place)
    page = client.get("/").text
    (aside,) = place.glob("bench.sqlite.damaged-*")
    assert re.fullmatch(r"bench\.sqlite\.damaged-\d{4}-\d\d-\d\d-\d{6}", aside.name)
    assert aside.name in page
    assert "lost: when and under which name a table was sent" in page
    assert "b.approvals.json" in page
    assert [one.file for one in approvals.approved(client.bench)] == ["a.safetensors"]
    aside.unlink()
    assert "was damaged" not in client.get("/").text


@pytest.mark.parametrize("nonsense", [{"title": [1]}, {"id": 10**30}, {"about": 5}, {"command": 7}, {"state": "?"}])
def test_a_file_of_a_job_that_holds_nonsense_stops_nothing(tmp_path: Path, nonsense: dict[str, Any]) -> None:
    bench = Bench(tmp_path)
    job = bench.queue.add("run", "as it was", ["run"])
    row = json.loads((bench.queue.place(job.id) / jobs.JOB).read_bytes())
    bench.close()
    place = tmp_path / "jobs" / str(nonsense.get("id", job.id))
    place.mkdir(exist_ok=True)
    (place / jobs.JOB).write_text(json.dumps({**row, **nonsense}))
    bench = Bench(tmp_path)
    assert [each.title for each in bench.queue.jobs()] == ["as it was"]
    assert bench.database.damaged == []
    bench.close()


def test_a_database_of_whole_pages_that_hold_nonsense_is_made_again(
    filled: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, expected = filled
    for number, change in enumerate(
        (
            "UPDATE jobs SET command = 'no JSON'",
            "UPDATE jobs SET said = CAST(x'ff' AS TEXT)",
            "UPDATE cases SET about = '[]'",
            "UPDATE tables SET reading = '{'",
            "DROP TABLE approvals",
            "ALTER TABLE jobs RENAME COLUMN title TO name",
        )
    ):
        place = Path(shutil.copytree(folder, tmp_path / str(number)))
        database = sqlite3.connect(place / "bench.sqlite")
        database.executescript(change)
        database.close()
        assert listed(place) == expected, change


def test_damage_that_is_met_later_is_mended_while_the_bench_is_open(client: Client) -> None:
    client.bench.queue.stop()
    for number in range(60):
        client.bench.queue.cancel(client.bench.queue.add("run", f"run {number}", ["x", str(number), "y" * 900]).id)
    connection = client.bench.database._connection
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA cache_size=0")
    connection.execute("PRAGMA shrink_memory")
    with open(client.bench.database.path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    refused = client.get("/jobs")
    assert refused.status_code == 422
    assert "made again from the files" in refused.text
    assert client.get("/jobs").status_code == 200
    assert len(client.bench.queue.jobs()) == 60
    assert "was damaged" in client.get("/").text
    require_sound(client.bench)


# what was withdrawn


@pytest.mark.parametrize("how", ["gone", "renamed", "another"])
def test_a_case_of_a_withdrawn_system_is_not_signed_whatever_became_of_its_file(done: Client, how: str) -> None:
    bench, case = done, done.bench.cases.all()[0]
    one = systems(bench.bench)[0]
    approvals.withdraw(bench.bench, Words(), one.id, "Q. Manager", "a doubt")
    path = bench.bench.path(one.relative)
    if how == "gone":
        path.unlink()
    elif how == "renamed":
        path.rename(path.with_name("new name.safetensors"))
    else:  # another file of the same name, which is approved
        shutil.copy(Path(__file__).parents[1] / "casework/golden/robust.safetensors", path)
        approve(bench.bench, systems(bench.bench)[0], exception="a test")
    page = bench.get(f"/cases/{case.id}").text
    assert "The approval of the system was withdrawn on" in page
    digest = hashlib.sha256(bench.get(f"/cases/{case.id}/keep/1").content).hexdigest()
    answer = bench.submit(f"/cases/{case.id}/review", reviewer="A. Nother", read="yes", seen=digest)
    assert "cannot be signed" in answer.text
    assert not list(bench.bench.path(case.folder).glob("*.review.json"))


def test_a_case_is_not_signed_when_nothing_is_known_of_its_approval(done: Client) -> None:
    folder = done.bench.folder
    done.bench.queue.stop()
    done.bench.database.close()
    for path in (*folder.glob("bench.sqlite*"), *folder.glob("systems/*")):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    done.bench.database = Database(folder / "bench.sqlite")
    done.bench.queue.database = done.bench.database
    done.bench.rebuild()
    case = done.bench.cases.all()[0]
    assert "No approval of the system is known any more." in done.get(f"/cases/{case.id}").text


# what belongs to a job


def test_a_queued_job_keeps_the_reading_that_was_seen(client: Client) -> None:
    client.bench.queue.stop()
    number = client.upload("glass.csv", csv_bytes(glass(12)))
    table = client.bench.table(number)
    profile = client.bench.path(table.relative).with_name("lindley.yaml")
    profile.write_text("source_column: item\ntransform: log10\nallow_duplicates: false\nignore_columns: []\n")
    client.bench.choose(number, {"ignore_columns": ["Mn55"]})
    sent = [
        client.submit("/systems/train", table=str(number), model="tlm", name="s", replicates="0", seed="0"),
        client.submit("/compare", table=str(number), models="tlm", splits="1", seed="0"),
    ]
    assert [answer.status_code for answer in sent] == [303, 303]
    for job in client.bench.queue.jobs():
        command = list(job.command)
        for option, value in (("--source-column", "item"), ("--transform", "log10"), ("--ignore-columns", "Mn55")):
            assert command[command.index(option) + 1] == value
        assert "--no-profile" in command
        assert job.about["files"] == {table.relative: table.sha256}
    client.bench.choose(number, {"transform": "ln", "source_column": "K39"})
    profile.write_text("transform: none\nsource_column: Ti49\n")
    client.bench.queue._stop.clear()
    client.bench.queue.start()
    assert wait(client, 1).state == "done", client.bench.queue.printed(1)
    assert wait(client, 2).state == "done", client.bench.queue.printed(2)
    (made,) = (client.bench.folder / "systems").glob("*.safetensors")
    header = made.read_bytes()
    assert b"Mn55" not in header.partition(b"about")[0]
    assert b"Ti49" in header
    assert b"log10" in header


def test_a_job_does_not_begin_with_other_files_than_were_seen(client: Client) -> None:
    client.bench.queue.stop()
    number = client.upload("glass.csv", csv_bytes(glass(12)))
    client.bench.choose(number, {"source_column": "item", "transform": "log10"})
    table = client.bench.table(number)
    for _ in range(2):
        client.submit("/systems/train", table=str(number), model="tlm", name="s", replicates="0", seed="0")
    client.bench.path(table.relative).write_bytes(csv_bytes(glass(12, seed=9)))
    client.bench.queue._stop.clear()
    client.bench.queue.start()
    assert wait(client, 1).state == "failed"
    assert "is not the file any more that this was asked for with" in client.get("/systems/training/1").text
    assert list((client.bench.folder / "systems").glob("*.safetensors")) == []


# a system that may say nothing


@pytest.fixture
def doubtful(client: Client) -> Path:
    """An approved system that was trained on noise."""
    draw = __import__("numpy").random.default_rng(1)
    rows = [["item", "K39", "Ti49", "Mn55"]]
    rows += [[f"W{n // 3}", *draw.lognormal(0, 0.2, 3).round(4).tolist()] for n in range(120)]
    place = client.bench.folder / "noise.csv"
    place.write_bytes(csv_bytes(rows))
    with pytest.warns(DoubtWarning):
        made = train(read_table(place, source="item", transform="log10"), "tlm", replicates=2)
    made.save(client.bench.folder / "systems" / "noise.safetensors")
    approve(client.bench, systems(client.bench)[0], exception="a test")
    return place


@pytest.mark.parametrize("language", ["en", "nl"])
def test_the_bench_says_that_a_system_may_say_nothing_and_computes_only_if_told(
    client: Client, doubtful: Path, language: str
) -> None:
    client.cookies.set("lindley-language", language)
    said = {"en": "this system may say nothing: Cllr ", "nl": "zegt dit systeem misschien niets: Cllr "}[language]
    one = systems(client.bench)[0]
    assert said in client.get(f"/systems/{one.id}").text
    case = new(client, language=language)
    rows = doubtful.read_text().splitlines()
    for side, some in (("trace", rows[1:3]), ("ref", rows[4:6])):
        changed = [line.replace(".", ".9") for line in some]
        send(client, case, side, f"{side}.csv", "\n".join([rows[0], *changed]).encode() + b"\n")
        client.submit(f"/cases/{case.id}/reading", side=side, source_column="item")
    page = client.get(f"/cases/{case.id}").text
    assert said in page
    refused = begin(client, case)
    assert refused.status_code == 422
    assert client.bench.queue.jobs() == []
    digest = re.search(r'name="seen" value="([^"]*)"', page)[1]
    assert client.submit(f"/cases/{case.id}/start", seen=digest, force="yes").status_code == 303
    assert wait(client, 1).state == "done", client.bench.queue.printed(1)
    report = client.get(f"/cases/{case.id}/reports/1").text
    words = "By its own validation" if language == "en" else "Volgens de eigen validatie"
    assert words in report[: report.index('<section class="verdict"')]

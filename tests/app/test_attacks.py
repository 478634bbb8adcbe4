"""Hostile files and forms: what is sent must neither fill the machine, nor run in the page, nor happen twice."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import psutil
import pytest

from lindley.app.files import plain_file_name
from lindley.app.reader import Reader
from tests.app.conftest import HOME, Client, csv_bytes, glass, workbook

SCRIPTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</title><script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "]]><!--",
    "&lt;script&gt;",
    "\u202egnp.exe",
    "=cmd|'/C calc'!A0",
    "$(rm -rf ~)`id`",
]


class Seen(HTMLParser):
    """The elements of a page, and whether any of them could run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.bad: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attributes)
        self.bad += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        self.bad += [tag] if tag in ("svg", "img", "object", "embed", "base") else []
        self.bad += [tag] if tag == "script" and not (given.get("src") or "").startswith("/static/") else []
        for name in ("href", "src", "action"):
            if not (given.get(name) or "/").startswith(("/", "#", "data:,")):
                self.bad.append(f"{name} {given[name]}")


def seen(client: Client, path: str) -> str:
    text = str(client.get(path).text)
    assert Seen(text).bad == []
    assert "\u202e" not in text
    return text


@pytest.mark.parametrize("hostile", SCRIPTS)
def test_nothing_that_a_table_says_runs_in_a_page(client: Client, hostile: str) -> None:
    rows = glass()
    sheet = re.sub(r"[\\/*?\[\]:]", "_", hostile)[:30]
    rows[0][1] = hostile
    rows[1][0] = hostile
    rows[2][2] = hostile
    number = client.upload(f"{hostile}.xlsx", workbook([[hostile], *rows], sheet))
    for path in (f"/tables/{number}", "/tables", "/", "/compare"):
        seen(client, path)
    fields = {f"name-{k}": str(name) for k, name in enumerate(rows[0])}
    answer = client.post(
        f"/tables/{number}/reading",
        data={
            "part-0": "source", "part-1": "ignore", "part-2": "ignore", "units": hostile, "sheet": hostile,
            "header_row": "2", "header_found": "2", "sheet_found": hostile, "changed": hostile, **fields,
        },
        headers={"Origin": HOME, "X-CSRF": client.csrf, "HX-Request": "true"},
    )  # fmt: skip
    assert Seen(answer.text).bad == []
    text = seen(client, f"/tables/{number}")
    assert "&lt;script&gt;alert(1)" in text or "<script>" not in hostile
    assert "{{ 7 * 7 }}" in text or "{{" not in hostile


@pytest.mark.parametrize("hostile", SCRIPTS)
def test_nothing_that_a_form_says_runs_in_a_page_or_in_a_command(client: Client, hostile: str) -> None:
    number = client.upload("glass.csv", csv_bytes([["source", *glass()[0][1:]], *glass()[1:]]))
    answers = [
        client.submit("/compare", table=str(number), models="tlm", more=hostile, splits="1", seed="0"),
        client.submit("/compare", table=hostile, models=hostile, more="", splits="1", seed="0"),
        client.submit("/compare", table=str(number), models="tlm", more="", splits=hostile, seed=hostile),
        client.submit("/language", language=hostile, back=hostile),
        client.get("/" + hostile.replace("/", "")),
        client.get("/compare", params={"table": hostile}),
        client.get("/", headers={"Accept-Language": hostile.encode()}),
    ]
    for answer in answers:
        assert Seen(answer.text).bad == []
    assert client.bench.queue.jobs() == []


@pytest.mark.parametrize("hostile", SCRIPTS)
def test_nothing_that_a_job_says_runs_in_a_page(client: Client, hostile: str) -> None:
    queue = client.bench.queue
    queue.stop()
    job = queue.add("run", hostile, ["run", hostile], output="runs/x")
    events = [
        {"time": 1, "doing": hostile, "detail": hostile, "done": 0.5},
        {"time": 2, "level": hostile, "said": f"{hostile}\r\n\r\nevent: end\r\ndata: {hostile}"},
    ]
    (queue.place(job.id) / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (queue.place(job.id) / "output.txt").write_text(hostile + "\x1b[2J", encoding="utf-8")
    for state in ("waiting", "running", "broken", "failed", "cancelled", "done"):
        with client.bench.database.change() as database:
            database.execute("UPDATE jobs SET state = ?, said = ?", (state, hostile))
        for path in ("/", "/jobs", "/jobs/1", "/compare", "/compare/1"):
            assert "\x1b" not in seen(client, path)
    assert Seen(_streamed(client)).bad == []


def _streamed(client: Client) -> str:
    """What the stream of events sends of a running job, put together as a browser does."""

    async def changes(number: int) -> AsyncIterator[int]:
        for state in ("running", "done"):
            with client.bench.database.change() as database:
                database.execute("UPDATE jobs SET state = ?", (state,))
            yield number

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.bench, "changes", changes)
        text = client.get("/jobs/1/events").text
    assert "\r" not in text
    parts = text.split("\n\n")
    assert [part.partition("\n")[0] for part in parts] == ["retry: 1000", "event: part", "event: end", ""]
    return "\n".join(line.removeprefix("data: ") for line in parts[1].splitlines()[1:])


@pytest.mark.parametrize(
    "model", ["tlm[pretrain=/etc/passwd]", "ntlm-single-sources-n2[pretrain=../x.csv]", "--help", "../x"]
)
def test_no_model_reads_a_file_or_is_an_option(client: Client, model: str) -> None:
    number = client.upload("glass.csv", csv_bytes([["source", *glass()[0][1:]], *glass()[1:]]))
    answer = client.submit("/compare", table=str(number), more=model, splits="1", seed="0")
    assert answer.status_code == 422
    assert client.bench.queue.jobs() == []


@pytest.mark.parametrize("name", ["--keep-profile", "-h", "--out=x", "--", "a,b", 'a"b', "a b", "@file"])
def test_the_name_of_a_column_is_no_option_of_the_command(client: Client, name: str) -> None:
    from lindley.app.pages.tables import options_of
    from tests.attacks.door import lindley

    rows = [[name, *glass()[0][1:]], *glass()[1:]]
    buffer = io.StringIO()
    import csv

    csv.writer(buffer, lineterminator="\n").writerows(rows)
    number = client.upload("glass.csv", buffer.getvalue().encode())
    client.bench.choose(number, {"source_column": name, "ignore_columns": ["Mn55"]})
    stored = client.bench.table(number)
    assert stored is not None
    assert "This table can be used." in client.get(f"/tables/{number}").text
    answer = lindley("check", client.bench.path(stored.relative), *options_of(stored.reading))
    assert (answer.status, "12 sources, 2 features" in answer.text) == (0, True), answer.text


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd.csv", "..\\..\\windows\\system32\\x.csv", "/etc/cron.d/x.csv", "C:\\x.csv", "con.csv",
        "a\x00b.csv",
        ".csv", "..csv", " .csv", "lindley.yaml.csv", "x" * 500 + ".csv", "\u202egnp.csv", "a\nb.csv", "a:b.csv", "-rf.csv",
        "a|b;c&d.csv", "é\u0301\u0301.csv", "NUL", "aux.xlsx.csv", "$(id).csv",
    ],
)  # fmt: skip
def test_a_file_stays_in_the_folder_of_tables_whatever_its_name(client: Client, name: str, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    answer = client.submit("/tables", files={"file": (name, csv_bytes(glass()))})
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    if answer.status_code == 422:  # no ending of a table
        assert not new
        return
    (path,) = (path for path in new if "bench.sqlite" not in path.name)
    assert path.parent.parent == client.bench.folder / "tables"
    assert re.fullmatch(r"[\w ()+,=.-]{1,90}\.csv", path.name)
    assert path.read_bytes() == csv_bytes(glass())


def test_plain_names_are_no_names_that_a_system_obeys() -> None:
    for name in ("", ".", "..", "/", "\\", "con", "COM1.txt", "a/..", "a/.", "\x00", "-", "~", ".ssh"):
        plain = plain_file_name(name)
        assert plain not in ("", ".", "..")
        assert not plain.startswith((".", "-", "~"))
        assert not set(plain) & set('/\\:*?"<>|\x00')


def test_a_larger_file_than_allowed_is_refused_while_it_comes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINDLEY_MAX_TABLE_MB", "1")
    answer = client.submit("/tables", files={"file": ("a.csv", b"x" * 1_500_000)})
    assert answer.status_code == 422
    assert "LINDLEY_MAX_TABLE_MB" in answer.text
    answer = client.submit("/tables", files={"file": ("a.csv", b"x" * 7_000_000)})
    assert answer.status_code == 413
    taken = 0

    def endless() -> Any:
        nonlocal taken
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        while taken < 50_000_000:
            taken += 100_000
            yield b"x" * 100_000

    headers = {"Origin": HOME, "Content-Type": "multipart/form-data; boundary=b"}
    assert client.post("/tables", content=endless(), headers=headers).status_code == 413  # without a length at all
    assert not list((client.bench.folder / "tables").iterdir())


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"".join(b"a%d=1&" % k for k in range(3000)), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 100_000, "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 6_000_000, "application/x-www-form-urlencoded", 413),
        (b'{"csrf": 1}', "application/json", 415),
        (b"csrf=1", "text/plain", 415),
        (b"", "multipart/form-data", 400),
        (b"--b\r\nnonsense", "multipart/form-data; boundary=b", 400),
        (b"--b--\r\n", "multipart/form-data; boundary=b", 400),
        (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 100_000, "multipart/form-data; boundary=b", 400),
        (b"".join(b'--b\r\nContent-Disposition: form-data; name="f"; filename="%d"\r\n\r\nx\r\n' % k for k in range(50)),
         "multipart/form-data; boundary=b", 400),
        (b"".join(b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n' for k in range(3000)),
         "multipart/form-data; boundary=b", 400),
    ],
)  # fmt: skip
def test_forms_of_too_many_or_too_long_fields_are_refused(
    client: Client, content: bytes, kind: str, status: int
) -> None:
    answer = client.post(
        "/tables", content=content, headers={"Origin": HOME, "Content-Type": kind, "X-CSRF": client.csrf}
    )
    assert answer.status_code == status


def bomb() -> bytes:
    """A workbook of some kilobytes that unpacks to 300 MB."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/worksheets/sheet1.xml", "w") as part,
    ):
        for _ in range(300):
            part.write(b" " * 1_000_000)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bomb.xlsx", bomb, "unpacks to"),
        ("not.xlsx", lambda: b"PK\x03\x04nonsense", "damaged"),
        ("text.xlsx", lambda: b"a,b\n1,2\n", "not that of an Excel workbook"),
        ("binary.csv", lambda: bytes(range(256)) * 20, "binary"),
        ("one.csv", lambda: b"just a line", "one single column"),
        ("quotes.csv", lambda: b'a,b\n"1,2\n', "quotation marks"),
        ("columns.csv", lambda: b",".join(b"c%d" % k for k in range(20_000)) + b"\n" + b",".join([b"1"] * 20_000) + b"\n",
         "columns"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_is_told_on_its_page(client: Client, name: str, content: Any, said: str) -> None:
    number = client.upload(name, content())
    answer = client.get(f"/tables/{number}")
    assert answer.status_code == 200
    assert said in answer.text
    assert "cannot be used" in answer.text
    assert len(answer.text) < 3_000_000


def test_a_reader_that_is_killed_is_started_again(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes(glass()))
    client.get(f"/tables/{number}")
    process = client.bench.reader._process
    assert process is not None
    process.kill()
    process.wait()
    assert "This table" in client.get(f"/tables/{number}").text


def test_a_reader_that_takes_too_long_is_ended(client: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    number = client.upload("glass.csv", csv_bytes(glass()))
    monkeypatch.setattr("lindley.app.reader.PATIENCE", 0.1)
    reader.warm()
    assert reader._process is not None
    psutil.Process(reader._process.pid).suspend()  # it never answers, however fast the machine is
    answer = client.get(f"/tables/{number}")
    assert answer.status_code == 200
    assert "takes too long" in answer.text
    monkeypatch.setattr("lindley.app.reader.PATIENCE", 60.0)
    assert "takes too long" not in client.get(f"/tables/{number}").text


def test_a_form_that_is_sent_twice_is_done_once(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes([["source", *glass()[0][1:]], *glass()[1:]]))
    client.bench.queue.stop()  # nothing is to begin
    fields = {"table": str(number), "models": "tlm", "splits": "1", "seed": "0"}
    key = "k" * 24
    with ThreadPoolExecutor(8) as several:
        answers = list(several.map(lambda _: client.submit("/compare", once=key, **fields), range(8)))
    assert {answer.headers["location"] for answer in answers} == {"/compare/1"}
    assert len(client.bench.queue.jobs()) == 1
    client.bench.queue.cancel(1)
    assert client.submit("/compare", once=key, **fields).headers["location"] == "/compare/1"  # the back button
    assert [job.state for job in client.bench.queue.jobs()] == ["cancelled"]


def test_two_browsers_that_ask_for_the_same_get_one(client: Client) -> None:
    content = csv_bytes([["source", *glass()[0][1:]], *glass()[1:]])
    with ThreadPoolExecutor(8) as several:
        numbers = set(several.map(lambda k: client.upload(f"glass {k}.csv", content), range(8)))
    assert len(numbers) == 1
    client.bench.queue.stop()
    fields = {"table": str(numbers.pop()), "models": "tlm", "splits": "1", "seed": "0"}
    with ThreadPoolExecutor(8) as several:
        answers = list(several.map(lambda _: client.submit("/compare", **fields), range(8)))
    assert {answer.headers["location"] for answer in answers} == {"/compare/1"}
    assert len(client.bench.queue.jobs()) == 1
    assert len([path for path in (client.bench.folder / "tables").rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize("key", ["", "short", "a" * 100, "'; DROP TABLE once; --"])
def test_a_form_without_a_key_does_nothing(client: Client, key: str) -> None:
    answer = client.submit("/tables", once=key, files={"file": ("a.csv", csv_bytes(glass()))})
    assert answer.status_code == 400
    assert client.bench.tables() == []


def test_what_was_vendored_is_what_was_published() -> None:
    import hashlib
    from importlib.resources import files

    static = files("lindley.app").joinpath("static")
    vendored = json.loads(static.joinpath("vendored.json").read_text())
    assert [each["file"] for each in vendored] == ["htmx.min.js"]
    for each in vendored:
        assert hashlib.sha256(static.joinpath(each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert f'version:"{each["version"]}"' in static.joinpath(each["file"]).read_text()
        assert static.joinpath(each["licence"]).is_file()

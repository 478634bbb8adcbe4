"""Cases: what is recognised before anything is computed, what decides that it is computed, its review, log and verification."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lindley.app.approvals import approve, system, systems, withdraw
from lindley.app.bench import Bench
from lindley.app.cases import Case
from lindley.app.pages.cases import _outcome
from lindley.app.reader import Reader
from lindley.app.server import guarded
from lindley.app.words import Words
from lindley.pages.pdf import attached_page
from tests.app.conftest import HOME, PORT, Client, csv_bytes, glass, workbook
from tests.command import here, missing_for_pdf

pytestmark = pytest.mark.usefixtures("quick_jobs")
NUMBER = "2026-017"


def halves(count: int = 1, seed: int = 7) -> tuple[bytes, bytes]:
    """A trace and a ref of the same windows."""
    rows = glass(count, 5, seed)
    trace, ref = [rows[0]], [rows[0]]
    for source in range(count):
        mine = rows[1 + 5 * source : 6 + 5 * source]
        trace += [[f"F{source + 1}", *row[1:]] for row in mine[:2]]
        ref += [[f"W{source + 1}", *row[1:]] for row in mine[2:]]
    return csv_bytes(trace), csv_bytes(ref)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small system, trained once for all tests."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "glass.csv").write_bytes(csv_bytes(glass(60, 5, 3)))
    command = (
        "train glass.csv --model tlm --replicates 2 --source-column item --transform log10 --out glass.safetensors"
    )
    answer = here(*command.split(), cwd=folder)  # the app does so in a job; here nobody waits for its page
    assert answer.returncode == 0, answer.stderr
    return folder / "glass.safetensors"


@pytest.fixture
def bench(client: Client, trained: Path) -> Client:
    """A bench with one approved system."""
    approved(client, trained)
    return client


@pytest.fixture(scope="module")
def finished(trained: Path, reader: Reader, quick_jobs: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bench in which one pair was computed."""
    folder = tmp_path_factory.mktemp("finished") / "bench"
    client = opened(folder, reader)
    approved(client, trained)
    case = with_files(client, h1="{trace} comes from {ref}", h2="{trace} comes from another window")
    assert "Computed from the files that you saw" in computed(client, case)
    client.bench.queue.stop()
    client.bench.database.close()
    return folder


@pytest.fixture
def done(finished: Path, make_client: Callable[..., Client], tmp_path: Path) -> Client:
    """A copy of it."""
    return make_client(Path(shutil.copytree(finished, tmp_path / "bench")))


def opened(folder: Path, reader: Reader) -> Client:
    bench = Bench(folder, None, reader)
    guard = guarded(bench, PORT)
    client = Client(guard, base_url=HOME)
    client.cookies.set(guard.cookie, guard.session)
    client.csrf, client.bench = guard.csrf, bench
    bench.queue.start()
    return client


def approved(client: Client, trained: Path, name: str = "glass.safetensors") -> int:
    shutil.copy(trained, client.bench.folder / "systems" / name)
    found = next(each for each in systems(client.bench) if each.file == name)
    approve(client.bench, Words(), found.id, found.sha256, "Q. Manager", "for these tests", None, "a test")
    return found.id


def new(client: Client, number: str = NUMBER, **more: str) -> Case:
    answer = client.submit("/cases/new", **{"case": number, "examiner": "R. Okafor", **more})
    assert answer.status_code == 303, answer.text
    found = client.bench.cases.case(int(answer.headers["location"].rsplit("/", 1)[1]))
    assert found is not None
    return found


def send(client: Client, case: Case, side: str, name: str, content: bytes) -> Any:
    return client.submit(f"/cases/{case.id}/{side}", files={"file": (name, content)})


def with_files(client: Client, count: int = 1, **more: str) -> Case:
    case = new(client, **more)
    for side, content in zip(("trace", "ref"), halves(count), strict=True):
        assert send(client, case, side, f"{side}.csv", content).status_code == 303
        client.submit(f"/cases/{case.id}/reading", side=side, source_column="item")
    return case


def seen(client: Client, case: Case) -> str:
    found = re.search(r'name="seen" value="([^"]*)"', client.get(f"/cases/{case.id}").text)
    assert found is not None
    return found[1]


def begin(client: Client, case: Case, digest: str | None = None) -> Any:
    return client.submit(f"/cases/{case.id}/start", seen=seen(client, case) if digest is None else digest)


def wait(client: Client, number: int) -> Any:
    for _ in range(600):
        job = client.bench.queue.job(number)
        if job is not None and not job.active:
            return job
        time.sleep(0.1)
    raise AssertionError("the job did not end")


def computed(client: Client, case: Case) -> str:
    assert begin(client, case).status_code == 303
    now = client.bench.cases.case(case.id)
    assert now is not None
    assert now.job is not None
    job = wait(client, now.job)
    assert job.state == "done", job.said
    return client.get(f"/cases/{case.id}").text


def test_items_features_and_units_are_seen_before_anything_is_computed(bench: Client) -> None:
    case = new(bench)
    trace = [["Fragments of 9 June"], ["item", "K39", "Ti49", "Mn55", "remark"]]
    trace += [[*row, "edge"] for row in glass(2, 2, 7)[1:]]
    send(bench, case, "trace", "fragments.xlsx", workbook(trace, "Run 3"))
    send(bench, case, "ref", "window.csv", halves()[1])
    shown = bench.get(f"/cases/{case.id}").text
    assert "the column differs within what would be one item" in shown
    assert re.search(r"<button disabled>Compute it", shown)
    bench.submit(f"/cases/{case.id}/reading", side="trace", source_column="item", ignore_columns="remark")
    shown = bench.get(f"/cases/{case.id}").text
    assert "sheet <bdi" in shown
    assert "Run 3" in shown
    for label in ("W1", "W2", "window"):
        assert re.search(rf'<th scope="row" class="name"><bdi[^>]*>{label}</bdi></th><td class="num">', shown)
    assert "All features of the system are there." in shown
    assert "Traces: 2; references: 1. That makes 2 reports" in shown
    profile = bench.bench.path(f"{case.folder}/trace/lindley.yaml").read_text()
    assert profile == "source_column: item\nignore_columns:\n- remark\n"
    assert bench.bench.queue.jobs() == []


def test_the_session_of_an_item_is_a_column_of_its_file(bench: Client) -> None:
    case = new(bench)
    head, *rows = glass(1, 2, 7)
    send(bench, case, "trace", "trace.csv", csv_bytes([[*head, "day"], *([*row, "Monday"] for row in rows)]))
    assert "Column that names the session" in bench.get(f"/cases/{case.id}").text
    bench.submit(
        f"/cases/{case.id}/reading", side="trace", source_column="item", session_column="day", ignore_columns="day"
    )
    profile = bench.bench.path(f"{case.folder}/trace/lindley.yaml").read_text()
    assert profile == "source_column: item\nsession_column: day\n"
    shown = bench.get(f"/cases/{case.id}").text
    assert '<option value="day" selected>day</option>' in shown
    assert re.search(r'<th scope="row" class="name"><bdi[^>]*>W1</bdi></th><td class="num">', shown)


def test_a_report_is_kept_as_pdf_or_the_page_says_what_is_missing(done: Client) -> None:
    case = done.bench.cases.all()[0]
    answer = done.get(f"/cases/{case.id}/pdf/1")
    missing = missing_for_pdf()
    if missing:
        assert answer.status_code == 422
        assert missing[:60] in html.unescape(answer.text)
        pytest.skip(missing)
    assert attached_page(answer.content) == done.get(f"/cases/{case.id}/keep/1").text  # verify finds the page inside


def test_a_missing_feature_and_a_file_on_both_sides_stop_it(bench: Client) -> None:
    case = new(bench)
    rows = [row[:3] for row in glass(1, 2, 7)]
    send(bench, case, "trace", "a.csv", csv_bytes(rows))
    send(bench, case, "ref", "b.csv", csv_bytes(rows))
    shown = bench.get(f"/cases/{case.id}").text
    assert "Features of the system that are missing:" in shown
    assert "Mn55" in shown
    assert "One file is on both sides" in shown
    answer = begin(bench, case)
    assert answer.status_code == 422
    assert bench.bench.queue.jobs() == []


def test_one_pair_is_computed_shown_kept_reviewed_and_verified(done: Client) -> None:
    bench, case = done, done.bench.cases.all()[0]
    shown = bench.get(f"/cases/{case.id}").text
    assert "Computed from the files that you saw" in shown
    assert "F1 comes from W1" in shown
    framed = bench.get(f"/cases/{case.id}/reports/1")
    assert "sandbox" in framed.headers["content-security-policy"]
    kept = bench.get(f"/cases/{case.id}/keep/1")
    assert kept.content == framed.content
    assert kept.headers["content-disposition"].startswith("attachment; filename*=UTF-8''2026-017-1-report.html")
    assert bench.get(f"/cases/{case.id}/reports/2").status_code == 404
    assert bench.get(f"/cases/{case.id}/matrix/xlsx").status_code == 404

    digests = hashlib.sha256(kept.content).hexdigest()
    refused = bench.submit(f"/cases/{case.id}/review", reviewer="r okafor", read="yes", seen=digests)
    assert "examined this case: another has to review it" in refused.text
    refused = bench.submit(f"/cases/{case.id}/review", reviewer="Okafor, dr. R.", read="yes", seen=digests)
    assert refused.status_code == 422
    assert "may be the name of the examiner in another spelling" in refused.text
    assert 'name="other"' in refused.text
    assert 'value="Okafor, dr. R."' in refused.text
    assert 'name="other"' not in bench.get(f"/cases/{case.id}").text
    refused = bench.submit(f"/cases/{case.id}/review", reviewer="A. Nother", read="yes", seen="0" * 64)
    assert "is not the report that you read" in refused.text
    refused = bench.submit(f"/cases/{case.id}/review", reviewer="A. Nother", seen=digests)
    assert "Say first that you have read" in refused.text
    once = "a" * 24
    for _ in range(2):  # a double click
        answer = bench.submit(f"/cases/{case.id}/review", once=once, reviewer="A. Nother", read="yes", seen=digests)
        assert answer.status_code == 303
    again = bench.submit(f"/cases/{case.id}/review", reviewer="A. Nother", read="yes", seen=digests)
    assert "reviewed report.html already" in again.text
    shown = bench.get(f"/cases/{case.id}").text
    assert "Reviewed by A. Nother" in shown
    beside = json.loads(bench.bench.path(f"{case.folder}/report.html.review.json").read_text())
    assert (beside["reviewer"], beside["report_sha256"], beside["examiner"]) == ("A. Nother", digests, "R. Okafor")
    log = bench.get("/cases/log").text
    assert "2 entries, nothing is wrong." in log
    other = {"reviewer": "Rob Okafor", "other": "yes"}
    assert bench.submit(f"/cases/{case.id}/review", **other, read="yes", seen=digests).status_code == 303
    assert "Said to be another person than the examiner" in bench.get(f"/cases/{case.id}").text
    hostile = "<script>alert(1)</script> =1+1"
    answer = bench.submit(f"/cases/{case.id}/review", reviewer=hostile, read="yes", seen=digests, remark=hostile)
    assert answer.status_code == 303
    shown = bench.get(f"/cases/{case.id}").text + bench.get("/cases/log").text
    assert "<script>alert" not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt; =1+1") == 3

    answer = bench.submit(f"/cases/{case.id}/verify")
    job = wait(bench, int(answer.headers["location"].rsplit("/", 1)[1]))
    shown = bench.get(answer.headers["location"]).text
    assert job.state == "done", bench.bench.queue.printed(job.id)
    assert "computed again, the LRs and the pages are the same" in shown
    assert "Reviewed by" in shown

    report = bench.bench.path(f"{case.folder}/report.html")
    report.write_bytes(report.read_bytes().replace(b"W1", b"W9"))
    shown = bench.get(f"/cases/{case.id}").text
    assert "is not what was logged: it was changed after it was written" in shown
    assert "the review beside it is of another report" in shown
    assert "is not what was logged" in bench.get("/cases/log").text
    refused = bench.submit(f"/cases/{case.id}/review", reviewer="B. Third", read="yes", seen=digests)
    assert "There are doubts about these reports" in refused.text
    answer = bench.submit("/cases/verify")
    wait(bench, int(answer.headers["location"].rsplit("/", 1)[1]))
    assert "At least one report is not verified" in bench.get(answer.headers["location"]).text


@pytest.mark.parametrize(
    ("state", "printed", "outcome"),
    [
        ("done", "r.html: the same LR and the same page", "same"),
        ("failed", "r.html: the same LR\n  • verified in part. Compare what it shows: …", "in part"),
        (
            "failed",
            "a.html: the same LR\n  • verified in part. …\nb.html: not verified\n  • the page was changed",
            "parted",
        ),
        ("failed", "Error: there is no folder", ""),
        ("running", "r.html: not verified", ""),
    ],
)
def test_what_a_verification_came_to(state: str, printed: str, outcome: str) -> None:
    assert _outcome(SimpleNamespace(state=state), printed) == outcome


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "formula": '=HYPERLINK("http://evil")',
    "path": "../../../etc/passwd",
    "windows path": r"C:\Windows\system32",
    "reserved": "CON",
    "reserved with ending": "nul.txt",
    "template": "{{ 7 * 7 }} {% raw %}",
    "quote": "\"'><img src=x onerror=alert(1)>",
    "yaml": "a: [b, *c]",
    "option": "--force",
    "turned around": "\u202e7102",
    "dots": "...",
    "umlauts": "Żółć ſ 案",
}


@pytest.mark.parametrize("number", HOSTILE.values(), ids=HOSTILE)
def test_hostile_case_numbers_are_texts_and_no_more(number: str, bench: Client) -> None:
    h1 = f"the pane {number.replace('{', '').replace('}', '')} broke"
    case = new(bench, number, trace_label=number, laboratory=number, h1=h1, h2="it did not break")
    folder = bench.bench.path(case.folder)
    assert folder.parent == bench.bench.folder / "cases"
    assert re.fullmatch(r"_?[A-Za-z0-9_-]+", folder.name)
    shown = bench.get(f"/cases/{case.id}").text + bench.get("/cases").text
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown
    assert "49 " not in shown
    assert "\u202e" not in shown
    assert bench.get("/cases", params={"q": number}).status_code == 200
    outside = {path.relative_to(bench.bench.folder).parts[0] for path in bench.bench.folder.rglob("*")}
    assert outside <= {"tables", "runs", "systems", "cases", "tryout", "jobs", "bench.sqlite", "bench.sqlite-wal"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"case": ""}, "Give the number of the case"),
        ({"examiner": "   "}, "Give the number of the case"),
        ({"case": "x" * 501}, "500 letters at most"),
        ({"h1": "x " * 20_000}, "500 letters at most"),
        ({"h1": "it broke"}, "two propositions or none"),
        ({"h1": "{trace.__class__} broke", "h2": "it did not"}, "no other braces"),
        ({"case": "a\x00b"}, "characters that nobody can see"),
        ({"examiner": "a\x1b[2Jb"}, "characters that nobody can see"),
    ],
)
def test_what_cannot_be_said_is_refused_and_stays_in_the_form(fields: dict[str, str], said: str, bench: Client) -> None:
    answer = bench.submit("/cases/new", **{"case": "A-1", "examiner": "R. Okafor", "method": "G-12", **fields})
    assert answer.status_code == 422
    assert said in answer.text
    assert 'value="G-12"' in answer.text
    assert bench.bench.cases.all() == []


def test_hostile_items_get_a_report_and_no_more(bench: Client) -> None:
    rows = glass(4, 4, 7)
    names = ["<script>alert(1)</script>", "=1+1", "../../x", "CON"]
    trace = [rows[0]] + [[names[place], *row[1:]] for place in range(4) for row in rows[1 + 4 * place : 3 + 4 * place]]
    ref = [rows[0]] + [["NUL", *row[1:]] for row in rows[3:5]]
    case = new(bench, "A <b>1</b>")
    for side, table in (("trace", trace), ("ref", ref)):
        send(bench, case, side, "../../..\\evil<script>.csv", csv_bytes(table))
        bench.submit(f"/cases/{case.id}/reading", side=side, source_column="item")
    files = sorted(path.name for path in bench.bench.path(f"{case.folder}/trace").iterdir())
    assert files == ["evil_script_.csv", "lindley.yaml"]
    shown = computed(bench, case)
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    reports = sorted(path.name for path in bench.bench.path(f"{case.folder}/reports").iterdir())
    assert reports == [
        "1-script-alert-1-script-NUL.html", "2-1-1-NUL.html", "3-x-NUL.html", "4-CON-NUL.html", "matrix.html", "matrix.xlsx",
    ]  # fmt: skip
    assert b"<script>alert" not in bench.get(f"/cases/{case.id}/reports/1").content
    assert bench.get(f"/cases/{case.id}/matrix/xlsx").content[:2] == b"PK"
    assert bench.get(f"/cases/{case.id}/matrix/..%2f..").status_code == 404
    assert bench.get(f"/cases/{case.id}?report=99999999999").status_code == 200
    assert "alert(1)" in bench.get("/cases/log").text


def test_the_same_number_twice_is_asked_about(bench: Client) -> None:
    new(bench, "2026-017")
    answer = bench.submit("/cases/new", case=" 2026-017 ", examiner="B")
    assert answer.status_code == 422
    assert "There is a case with the number 2026-017 already" in answer.text
    assert len(bench.bench.cases.all()) == 1
    answer = bench.submit("/cases/new", case="2026-017", examiner="B", again="yes")
    assert answer.status_code == 303
    first, second = bench.bench.cases.all()
    assert first.folder != second.folder


def test_a_double_click_makes_one_case_and_one_result(bench: Client) -> None:
    for _ in range(2):
        assert bench.submit("/cases/new", once="b" * 24, case="A-1", examiner="B").status_code == 303
    assert len(bench.bench.cases.all()) == 1
    case = with_files(bench)
    digest = seen(bench, case)
    assert begin(bench, case, digest).status_code == 303
    assert begin(bench, case, digest).status_code == 303  # another window: it leads to the same
    assert len(bench.bench.queue.jobs("case")) == 1
    assert send(bench, case, "trace", "more.csv", halves()[0]).status_code == 422
    bench.bench.queue.cancel(bench.bench.queue.jobs("case")[0].id)


def test_a_file_that_was_swapped_after_the_look_is_not_computed(bench: Client) -> None:
    case = with_files(bench)
    digest = seen(bench, case)
    path = bench.bench.path(f"{case.folder}/trace/trace.csv")
    path.write_bytes(halves(1, seed=8)[0])
    answer = begin(bench, case, digest)
    assert answer.status_code == 422
    assert "The case is not what you saw" in answer.text
    assert bench.bench.queue.jobs() == []


def test_a_file_that_was_swapped_in_the_queue_is_told_by_its_digest(
    bench: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = with_files(bench)
    path = bench.bench.path(f"{case.folder}/trace/trace.csv")
    add = bench.bench.queue.add

    def late(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(bench.bench.queue, "add", add)
        files = bench.bench.cases.files
        monkeypatch.setattr(bench.bench.cases, "files", lambda *which: before[which[1]])
        before = {side: files(case, side) for side in ("trace", "ref")}
        path.write_bytes(halves(1, seed=8)[0])
        return add(*given, **more)

    monkeypatch.setattr(bench.bench.queue, "add", late)
    assert begin(bench, case).status_code == 303
    now = bench.bench.cases.case(case.id)
    assert now is not None
    assert now.job is not None
    assert wait(bench, now.job).state == "failed"
    assert "is not the file any more that this was asked for with" in bench.get(f"/cases/{case.id}").text
    assert not bench.bench.path(f"{case.folder}/report.html").exists()


def test_only_systems_that_are_approved_at_that_moment_are_used(bench: Client, trained: Path) -> None:
    case = with_files(bench)
    digest = seen(bench, case)
    number = systems(bench.bench)[0].id
    withdraw(bench.bench, Words(), number, "Q. Manager", "a doubt")
    answer = begin(bench, case, digest)
    assert answer.status_code == 422
    assert "is not approved for casework" in answer.text
    answer = bench.submit(f"/cases/{case.id}/system", system=hashlib.sha256(trained.read_bytes()).hexdigest())
    assert answer.status_code == 422
    shown = bench.get(f"/cases/{case.id}").text
    assert "<option" not in shown.partition('name="system"')[2].partition("</select>")[0]
    assert bench.bench.queue.jobs() == []
    other = approved(bench, trained, "other.safetensors")
    path = bench.bench.folder / "systems" / "other.safetensors"
    path.write_bytes(path.read_bytes() + b" ")  # another file than the one that was approved
    found = system(bench.bench, other)
    assert found is not None
    answer = bench.submit(f"/cases/{case.id}/system", system=found.sha256)
    assert answer.status_code == 422


def test_an_approval_that_was_withdrawn_later_is_told_at_the_report(done: Client) -> None:
    bench, case = done, done.bench.cases.all()[0]
    withdraw(bench.bench, Words(), systems(bench.bench)[0].id, "Q. Manager", "a doubt")
    assert "The approval of the system was withdrawn on" in bench.get(f"/cases/{case.id}").text


def test_what_the_command_refuses_is_told_and_the_case_can_be_changed(bench: Client) -> None:
    case = new(bench)
    far = [glass()[0], ["F1", 1e9, 1e9, 1e9], ["F1", 1.1e9, 1e9, 1e9]]
    send(bench, case, "trace", "trace.csv", csv_bytes(far))
    send(bench, case, "ref", "ref.csv", halves()[1])
    assert begin(bench, case).status_code == 303
    now = bench.bench.cases.case(case.id)
    assert now is not None
    assert now.job is not None
    assert wait(bench, now.job).state == "failed"
    shown = bench.get(f"/cases/{case.id}").text
    assert "no LR is given for this case" in shown
    left = bench.bench.path(f"{case.folder}/report.html")
    left.write_text("what a command left that was broken off")
    bench.submit(f"/cases/{case.id}/change")
    assert not left.exists()
    assert (left.parent / f"report-broken-off-{now.job}.html").exists()
    digest = hashlib.sha256(csv_bytes(far)).hexdigest()
    bench.submit(f"/cases/{case.id}/remove", side="trace", sha256=digest)
    send(bench, case, "trace", "trace.csv", halves()[0])
    assert not re.search(r"<button disabled>Compute it", bench.get(f"/cases/{case.id}").text)


def test_files_of_one_name_and_of_another_kind(bench: Client) -> None:
    case = new(bench)
    one, other = halves()
    assert send(bench, case, "trace", "a.csv", one).status_code == 303
    assert send(bench, case, "trace", "A.csv", one).status_code == 303  # the same once more
    refused = send(bench, case, "trace", "A.csv", other)
    assert refused.status_code == 422
    assert "is here already, and holds something else" in refused.text
    for name in ("a.exe", "lindley.yaml", "case.yaml", ".csv", "", "con"):
        assert send(bench, case, "trace", name, one).status_code == 422, name
    assert send(bench, case, "trace", "empty.csv", b"").status_code == 422
    assert [name for name, _ in bench.bench.cases.files(case, "trace")] == ["a.csv"]


def test_old_cases_are_found_by_number_item_examiner_date_and_system(done: Client) -> None:
    bench, case = done, done.bench.cases.all()[0]
    new(bench, "B-2 100%_")
    date = case.added[:10]
    for words in ("2026-017", "f1", "okafor 2026-017", f"{date} W1", "glass.safetensors f1"):
        shown = bench.get("/cases", params={"q": words}).text
        assert f'href="/cases/{case.id}"' in shown, words
    assert "No case holds all these words." in bench.get("/cases", params={"q": "okafor nobody"}).text
    shown = bench.get("/cases", params={"q": "%_"}).text
    assert f'href="/cases/{case.id}"' not in shown
    assert "B-2" in shown


def test_cases_are_there_again_when_the_database_is_lost(
    bench: Client, make_client: Callable[..., Client], tmp_path: Path
) -> None:
    case = with_files(bench)
    bench.bench.close()
    (tmp_path / "bench" / "bench.sqlite").write_bytes(b"no database at all, " * 100)
    again = make_client()
    found = again.bench.cases.case(case.id)
    assert found is not None
    assert (found.number, found.folder, found.system) == (case.number, case.folder, case.system)
    assert "Compute it" in again.get(f"/cases/{case.id}").text


def test_a_draft_can_be_discarded_and_a_result_cannot(done: Client) -> None:
    bench, other = done, done.bench.cases.all()[0]
    case = with_files(bench, number="B-2")
    folder = bench.bench.path(case.folder)
    assert bench.submit(f"/cases/{case.id}/discard").status_code == 303
    assert not folder.exists()
    assert bench.get(f"/cases/{case.id}").status_code == 404
    assert new(bench, "B-3").id > case.id  # no folder is used twice
    assert bench.submit(f"/cases/{other.id}/discard").status_code == 422
    assert bench.submit(f"/cases/{other.id}/change").status_code == 422


def test_a_try_out_is_a_whole_case_and_stays_apart(client: Client) -> None:
    answer = client.submit("/tryout")
    number = int(answer.headers["location"].rsplit("/", 1)[1])
    assert "nothing here is evidence" in client.get(f"/cases/{number}").text
    wait(client, client.bench.queue.jobs("tryout")[0].id)
    case = client.bench.cases.case(number)
    assert case is not None
    shown = client.get(f"/cases/{number}").text
    assert "Traces: 2; references: 1." in shown
    shown = computed(client, case)
    assert "nothing here is evidence" in shown
    report = client.get(f"/cases/{number}/reports/1").text
    assert "TRY-OUT with simulated glass: this is no evidence" in report
    assert not (client.bench.folder / "cases" / "lindley-log.jsonl").exists()
    assert "2 entries, nothing is wrong" in client.get("/cases/log?of=tryout").text
    assert systems(client.bench) == []
    real = new(client)
    shown = client.get(f"/cases/{real.id}").text
    assert "No system is approved for casework." in shown
    sha256 = hashlib.sha256((client.bench.folder / "tryout" / "try-out-glass.safetensors").read_bytes()).hexdigest()
    assert client.submit(f"/cases/{real.id}/system", system=sha256).status_code == 422
    assert len(client.bench.tables()) == 1
    client.submit("/tryout")
    assert len(client.bench.tables()) == 1
    assert len(client.bench.queue.jobs("tryout")) == 1

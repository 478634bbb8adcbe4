"""Systems: trained, validated, approved and set side by side; each as the command that the page shows."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import pytest

from lindley.app import approvals
from lindley.app.headers import headers
from lindley.app.jobs import Job, Queue
from lindley.app.pages.systems import FOR_A_SYSTEM, MODELS, STATES
from lindley.cli.options import EVALUATE_READING
from lindley.system.names import ModelName
from tests.app.conftest import HOME, Client, csv_bytes, glass
from tests.app.test_approvals import GOLDEN, put, validation

NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }} \u202e"
CRITERIA = "accuracy:\n  cllr: {at_most: 0.000001}\nmisleading_evidence:\n  same: {at_most: 1}\n"


def new_rows(sources: int = 20) -> list[list[Any]]:
    """Measurements in the features of the golden systems, which have not seen them."""
    draw = np.random.default_rng(77)
    means = draw.normal(size=(sources, 4)) @ (np.eye(4) + 0.6 * np.tri(4, k=-1)).T
    rows = np.repeat(means, 3, axis=0) + 0.12 * draw.normal(size=(3 * sources, 4))
    return [
        ["item", "K39", "Ti49", "Mn55", "Rb85"],
        *([f"N{k // 3}", *row] for k, row in enumerate(rows.round(5).tolist())),
    ]


def table(client: Client, name: str = "glass.csv", sources: int = 30, seed: int = 0) -> int:
    number = client.upload(name, csv_bytes(glass(sources, seed=seed)))
    client.bench.choose(number, {"source_column": "item", "transform": "log10"})
    return number


def ended(client: Client, location: str, patience: float = 90) -> Job:
    """The job of a page, when it has ended."""
    number = int(location.rsplit("/", 1)[1])
    until = time.monotonic() + patience
    while time.monotonic() < until:
        job = client.bench.queue.job(number)
        assert job is not None
        if not job.active:
            return job
        time.sleep(0.1)
    raise AssertionError(f"{location} did not end")


def _report(client: Client, one: approvals.System, verdict: str = "pass") -> str:
    """A validation of the system, as a job that is done; its number."""
    found = validation(client.bench, one, verdict)
    job = client.bench.queue.add("validate", "Validate", ["info", "x"], output=found.folder, about={"system": one.file})
    with client.bench.database.change() as database:
        database.execute("UPDATE jobs SET state = 'done' WHERE id = ?", (job.id,))
    return str(job.id)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the queue is begun."""
    monkeypatch.setattr(Queue, "start", lambda self: None)


def test_a_system_is_validated_against_criteria_that_it_fails_and_approved_for_a_reason(client: Client) -> None:
    system = put(client.bench, "normal-logistic")
    new = client.upload("new.csv", csv_bytes(new_rows()))
    client.bench.choose(new, {"source_column": "item"})
    assert client.submit("/systems/criteria", name="ours", text=CRITERIA).status_code == 303
    page = client.get(f"/systems/{system.id}").text
    assert "Not approved for casework." in page
    key = re.search(r'<option value="([0-9a-f]{16})">ours-', page)
    assert key is not None
    sent = client.submit(f"/systems/{system.id}/validate", table=new, criteria=key[1])
    job = ended(client, sent.headers["location"])
    assert job.state == "done", job.said  # that a criterion fails is an answer
    assert '--criteria "criteria/ours-' in job.typed
    shown = client.get(sent.headers["location"]).text
    assert "Does not pass" in shown
    assert "<li>Accuracy: Cllr</li>" in shown
    report = client.get(f"{sent.headers['location']}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "Accuracy" in report.text
    decided = {"seen": system.sha256, "who": "A. Analyst", "why": "for glass", "validation": str(job.id)}
    refused = client.submit(f"/systems/{system.id}/approve", **decided)
    assert refused.status_code == 422
    assert "No validation that passes was chosen" in refused.text
    assert "A. Analyst" in refused.text  # what was written is not lost
    assert client.submit(f"/systems/{system.id}/approve", **decided, exception="agreed").status_code == 303
    assert [each.file for each in approvals.approved(client.bench)] == ["glass.safetensors"]
    page = client.get(f"/systems/{system.id}").text
    assert "Approved for casework by A. Analyst" in page
    assert "Although no validation passed:" in page


def test_headers_of_every_golden_system_are_read_and_a_forged_one_is_told(client: Client) -> None:
    for path in sorted(GOLDEN.glob("*.safetensors")):
        put(client.bench, path.stem, path.stem)
    (client.bench.folder / "systems" / "forged.safetensors").write_bytes(b"\xff" * 1000)
    shown = client.get("/systems").text
    assert shown.count("simulated") == len(list(GOLDEN.glob("*.safetensors")))
    assert "it is cut off, or it is not a safetensors file" in shown
    for each in approvals.systems(client.bench):
        assert client.get(f"/systems/{each.id}").status_code == 200
    forged = next(each for each in approvals.systems(client.bench) if each.file == "forged.safetensors")
    assert f'action="/systems/{forged.id}/approve"' not in client.get(f"/systems/{forged.id}").text


def test_a_header_that_lies_is_shown_as_text_or_left_out(tmp_path: Any) -> None:
    data = (GOLDEN / "robust.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    for old, new in ((b'\\"rows\\": 120', b'\\"rows\\": "a"'), (b'\\"simulated\\"', b'\\"<script>\\" ')):
        changed = data[8 : 8 + length].replace(old, new)
        if changed == data[8 : 8 + length]:
            changed = changed.replace(old.replace(b": ", b":"), new.replace(b": ", b":"))
        path = tmp_path / "lies.safetensors"
        path.write_bytes(len(changed).to_bytes(8, "little") + changed + data[8 + length :])
        (told,) = headers([str(path)])
        assert told["error"] or told["rows"] in (None, 120)


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there only")
def test_files_with_odd_names_hide_no_other(client: Client) -> None:
    systems = client.bench.folder / "systems"
    whole = (GOLDEN / "robust.safetensors").read_bytes()
    for name in ("\udcff", "a\nb", "<script>alert(1)<", "x" * 200, "-x", "..."):
        (systems / f"{name}.safetensors").write_bytes(whole)
    (systems / "folder.safetensors").mkdir()
    (systems / "nowhere.safetensors").symlink_to("/nowhere")
    shown = client.get("/systems").text
    assert "<script>alert" not in shown
    names = {each.file for each in approvals.systems(client.bench)}
    assert names == {f"{name}.safetensors" for name in ("a\nb", "<script>alert(1)<", "x" * 200, "-x")}
    for each in approvals.systems(client.bench):
        assert client.get(f"/systems/{each.id}").status_code == 200
        said = {"seen": each.sha256, "who": "A", "why": "b", "exception": "c"}
        assert client.submit(f"/systems/{each.id}/approve", **said).status_code == 303
    assert len(approvals.approved(client.bench)) == 4


@pytest.mark.usefixtures("still")
class TestWithoutWork:
    """What pages ask for, with a queue that stands still."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"table": "99"}, "Choose a table."),
            ({"table": "../../etc/passwd"}, "Choose a table."),
            ({"other": "tlm+nonsense"}, "nonsense"),
            ({"other": "--out=x"}, "--out"),
            ({"other": "ntlm-single-pairs-n1[pretrain=/etc/passwd]"}, "without files"),
            ({"replicates": "1e9"}, "Bootstrap replicates: give a whole number"),
            ({"replicates": "99999"}, "from 0 to 1,000"),
            ({"seed": "-1"}, "Seed: give a whole number"),
            ({"name": "taken"}, "There is a system called taken already"),
        ],
    )
    def test_a_training_that_cannot_be_is_told_at_once(self, client: Client, change: dict[str, str], said: str) -> None:
        put(client.bench, name="taken")
        fields = {
            "table": str(table(client)),
            "model": "robust",
            "other": "",
            "name": "",
            "replicates": "",
            "seed": "0",
        }
        refused = client.submit("/systems/train", **{**fields, **change})
        assert refused.status_code == 422
        assert said in refused.text
        assert client.bench.queue.jobs() == []

    @pytest.mark.parametrize(
        "name", ["../../up", "/etc/x", "..", "a\x00b", "con", "-x", "a" * 500, NASTY, "x.safetensors"]
    )
    def test_a_name_never_leaves_the_folder(self, client: Client, name: str) -> None:
        fields = {"table": str(table(client)), "model": "robust", "seed": "0", "name": name}
        sent = client.submit("/systems/train", **fields)
        assert sent.status_code == 303, sent.text
        (job,) = client.bench.queue.jobs()
        assert re.fullmatch(r"systems/[^/\\<>:|?*\"\x00-\x1f]{1,100}\.safetensors", job.output or "")
        assert (client.bench.folder / (job.output or "")).resolve().parent == client.bench.folder / "systems"
        shown = client.get(sent.headers["location"]).text
        assert "<script>alert" not in shown

    def test_models_that_are_offered_are_known_and_options_are_those_of_the_command(self) -> None:
        for name, _ in MODELS:
            assert str(ModelName.parse(name)) == name
        assert set(FOR_A_SYSTEM) == set(EVALUATE_READING)
        assert set(STATES) == {"approved", "none", "withdrawn", "changed", "differs"}

    def test_the_same_validation_asked_twice_is_one_and_a_changed_system_another(self, client: Client) -> None:
        one, new = put(client.bench), table(client)
        ask = f"/systems/{one.id}/validate"
        fields = {"table": str(new), "criteria": ""}
        refused = client.submit(ask, **fields)
        assert refused.status_code == 422  # the table lacks Rb85
        assert "Rb85" in refused.text
        rows = new_rows()
        fields["table"] = str(client.upload("whole.csv", csv_bytes(rows)))
        client.bench.choose(int(fields["table"]), {"source_column": "item", "ignore_columns": ["Mn55"]})
        first = client.submit(ask, **fields).headers["location"]
        assert client.submit(ask, **fields).headers["location"] == first
        (job,) = client.bench.queue.jobs()
        assert "--source-column item" in job.typed
        assert "--ignore" not in job.typed
        put(client.bench, "normal-logistic")
        assert client.submit(ask, **fields).headers["location"] != first
        assert client.submit(ask, **{**fields, "criteria": "0" * 16}).status_code == 422

    def test_two_systems_are_set_side_by_side_and_compared_on_one_table(self, client: Client) -> None:
        first, second = put(client.bench), put(client.bench, "normal-logistic", "other")
        shown = client.get(f"/systems/versions?first={first.id}&second={second.id}").text
        assert "tlm+logistic" in shown
        assert "robust" in shown
        rows = new_rows()
        data = client.upload("whole.csv", csv_bytes(rows))
        client.bench.choose(data, {"source_column": "item"})
        same = client.submit("/systems/versions", first=first.id, second=first.id, table=data)
        assert "Choose two systems." in same.text
        sent = client.submit("/systems/versions", first=first.id, second=second.id, table=data)
        (job,) = client.bench.queue.jobs()
        assert job.command[:5] == ("evaluate", first.relative, second.relative, "--data", job.command[4])
        assert client.get(sent.headers["location"]).status_code == 200
        for odd in ("?first=x&second=y", "?first=999999999999999999999", "?first=-1&second=1"):
            assert client.get(f"/systems/versions{odd}").status_code == 200

    def test_more_background_names_the_old_tables_by_their_digests(self, client: Client) -> None:
        one, new = put(client.bench), table(client)
        sent = client.submit(f"/systems/{one.id}/update", table=new, same_labels="different")
        (job,) = client.bench.queue.jobs()
        assert job.output == "systems/glass-2.safetensors"
        assert "--same-labels different" in job.typed
        assert client.get(sent.headers["location"]).status_code == 200
        again = client.submit(f"/systems/{one.id}/update", table=new, same_labels="--force")
        assert again.status_code == 422  # it is being made
        assert len(client.bench.queue.jobs()) == 1

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("accuracy: {cllr: {at_most: much}}", "line 1"),
            ("acuracy: {cllr: {at_most: 1}}", "there is no such figure"),
            ("a: &a [x, x]\nb: [*a, *a]", "line 2, b: there is no such figure"),
            ("", "holds no criteri"),
            ("!!python/object/apply:os.system ['true']", "is not YAML"),
            (NASTY, "holds no criteria"),
            ("[" * 1000, "nested too deeply"),
        ],
    )
    def test_criteria_that_do_not_read_are_told_by_line_and_not_kept(
        self, client: Client, text: str, said: str
    ) -> None:
        refused = client.submit("/systems/criteria", name="ours", text=text)
        assert refused.status_code == 422
        assert said in refused.text
        assert "<script>alert" not in refused.text
        assert str(client.bench.folder) not in refused.text
        assert list((client.bench.folder / "criteria").iterdir()) == []

    def test_criteria_are_sent_as_a_file_kept_and_never_replaced(self, client: Client) -> None:
        for content in (CRITERIA, CRITERIA.replace("0.000001", "0.5")):
            sent = client.submit("/systems/criteria", files={"file": ("../ours.yaml", content.encode())})
            assert sent.status_code == 303, sent.text
        kept = sorted(path.name for path in (client.bench.folder / "criteria").iterdir())
        assert [re.sub("-[0-9a-f]{8}", "", name) for name in kept] == ["ours.yaml", "ours.yaml"]
        assert "ours-" in client.get("/systems/criteria").text

    def test_an_approval_with_the_secret_of_another_session_or_none_is_refused(self, client: Client) -> None:
        one = put(client.bench)
        fields = {"seen": one.sha256, "who": "C", "why": "mine", "exception": "mine", "once": "k" * 24}
        for csrf in ("", "0" * 64, client.csrf[:-1], client.csrf.upper()):
            answer = client.post(f"/systems/{one.id}/approve", data={**fields, "csrf": csrf}, headers={"Origin": HOME})
            assert answer.status_code == 403
        away = {"Origin": "http://evil.example"}
        assert (
            client.post(f"/systems/{one.id}/approve", data={**fields, "csrf": client.csrf}, headers=away).status_code
            == 403
        )
        assert client.get(f"/systems/{one.id}/approve").status_code == 405
        assert approvals.approved(client.bench) == []

    def test_a_double_click_is_one_approval_and_the_back_button_another_refusal(self, client: Client) -> None:
        one = put(client.bench)
        report = _report(client, one)
        fields = {"seen": one.sha256, "who": "A", "why": "good", "validation": report}
        for _ in range(3):
            assert client.submit(f"/systems/{one.id}/approve", once="o" * 24, **fields).status_code == 303
        again = client.submit(f"/systems/{one.id}/approve", **fields)
        assert again.status_code == 422
        assert "approved already, by A" in again.text
        found = approvals.system(client.bench, one.id)
        assert found is not None
        assert len(found.entries) == 1

    def test_a_system_that_was_swapped_between_page_and_click_is_refused(self, client: Client) -> None:
        one = put(client.bench)
        report = _report(client, one)
        seen = re.search(r'name="seen" value="([0-9a-f]{64})"', client.get(f"/systems/{one.id}").text)
        assert seen is not None
        put(client.bench, "normal-logistic")
        fields = {"who": "A", "why": "good", "validation": report}
        refused = client.submit(f"/systems/{one.id}/approve", seen=seen[1], **fields)
        assert "was changed since its page was shown" in refused.text
        now = approvals.system(client.bench, one.id)
        assert now is not None
        refused = client.submit(f"/systems/{one.id}/approve", seen=now.sha256, **fields)
        assert "of another file" in refused.text
        assert approvals.approved(client.bench) == []

    def test_a_changed_file_is_told_on_its_page(self, client: Client) -> None:
        one = put(client.bench)
        fields = {"seen": one.sha256, "who": "A", "why": "good", "exception": "all the same"}
        client.submit(f"/systems/{one.id}/approve", **fields)
        put(client.bench, "normal-logistic")
        shown = client.get(f"/systems/{one.id}").text
        assert "the file was changed since it was approved" in shown
        assert one.sha256[:16] in shown
        assert STATES["changed"] in client.get("/systems").text

    def test_names_and_reasons_are_shown_and_never_run(self, client: Client) -> None:
        one = put(client.bench)
        who, why = NASTY, NASTY + "\n" + "x" * 1800
        sent = client.submit(f"/systems/{one.id}/approve", seen=one.sha256, who=who, why=why, exception=NASTY)
        assert sent.status_code == 303, sent.text
        assert client.submit(f"/systems/{one.id}/withdraw", who=NASTY, why=NASTY).status_code == 303
        for path in ("/systems", f"/systems/{one.id}", "/systems/versions"):
            shown = client.get(path).text
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
            assert "\u202e" not in shown
            assert "{{ 7 * 7 }}" in shown or path != f"/systems/{one.id}"
        refused = client.submit(
            f"/systems/{one.id}/approve", seen=one.sha256, who="A" * 5000, why="b" * 60_000, exception="c"
        )
        assert refused.status_code == 422
        refused = client.submit(
            f"/systems/{one.id}/approve", seen=one.sha256, who="A", why="b" * 100_000, exception="c"
        )
        assert refused.status_code == 400  # no field of a form is so long

    def test_addresses_of_what_is_not_there_lead_nowhere(self, client: Client) -> None:
        for path in (
            "1", "999999999999999999999999", "-1", "x", "training/1", "validations/1", "validations/1/report",
            "comparisons/7/report", "updates/7/report", "1/validate", "../bench.sqlite", "glass.safetensors",
        ):  # fmt: skip
            assert client.get(f"/systems/{path}").status_code in (404, 405), path
        for act in ("validate", "approve", "withdraw", "update"):
            assert client.submit(f"/systems/9/{act}", who="A", why="b").status_code == 404

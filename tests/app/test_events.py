"""What a command tells another program of its progress, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lindley.cli import events
from tests.app.conftest import csv_bytes, glass
from tests.attacks.door import lindley


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("LINDLEY_EVENTS", str(path))
    (tmp_path / "glass.csv").write_bytes(csv_bytes([["source", *glass()[0][1:]], *glass()[1:]]))
    return lambda: [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_a_command_that_ends_well_says_so(told: Any, tmp_path: Path) -> None:
    assert lindley("check", tmp_path / "glass.csv").status == 0
    assert [event["status"] for event in told()] == [0]


def test_a_command_that_fails_says_why_and_its_status(told: Any, tmp_path: Path) -> None:
    answer = lindley("train", tmp_path / "no.csv", "--out", tmp_path / "x.safetensors")
    assert answer.status == 2
    error, end = told()
    assert error["level"] == "error"
    assert "no.csv" in error["said"]
    assert end["status"] == 2


def test_wrong_options_have_a_status_too(told: Any) -> None:
    assert lindley("check").status == 2
    assert told()[-1]["status"] == 2


def test_progress_is_told_but_not_all_the_time(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_last", ("", 0.0))
    for step in range(1000):
        events.tell_progress("fitting", f"step {step} of \u00e9", step / 1000)
    events.tell_progress("drawing", "", 0.0)
    assert [event["doing"] for event in told()] == ["fitting", "drawing"]


def test_a_place_that_cannot_be_written_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINDLEY_EVENTS", str(tmp_path / "no" / "events.jsonl"))
    events.tell(status=0)
    assert not (tmp_path / "no").exists()

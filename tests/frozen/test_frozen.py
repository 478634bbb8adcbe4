"""What lindley promises to its users is what it was: names, formats, texts and numbers (`make.py`)."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra 'app' is not installed")

from tests.frozen.make import FOLDER, NUMBERS, make, settled

MEANT = "if this change is meant, run make freeze and say it in CHANGELOG.md"


def test_nothing_that_was_promised_has_changed(tmp_path: Path) -> None:
    kept = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir() if path.suffix in (".json", ".txt")}
    made = make(tmp_path)
    made[NUMBERS] = settled(made[NUMBERS], kept.get(NUMBERS, ""))
    differences = [
        line
        for name in sorted({*kept, *made})
        for line in unified_diff(
            *(files.get(name, "").splitlines() for files in (kept, made)),
            *(f"{which}/{name}" for which in ("promised", "now")),
            lineterm="",
        )
    ]
    if differences:
        pytest.fail("\n".join([*differences, MEANT]), pytrace=False)

"""Every Python block of the documentation runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.M | re.S), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_block(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {})
    assert capsys.readouterr().out


def test_there_are_blocks_and_links_lead_somewhere() -> None:
    assert len(BLOCKS) >= 2
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"

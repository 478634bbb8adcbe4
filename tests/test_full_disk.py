"""Commands on a disk that is full after any number of pages: a clear message, no half file, and the same once there is room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lindley.casework.log import read_log
from lindley.system.system import load
from tests.casework.factory import items, population, saved, write_csv
from tests.command import here
from tests.full_disk import SmallDisk, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        values, source = population(12, 3, 7)
        write_csv(made.folder / "t.csv", values, source=list(source))
        saved(made.folder, "tlm-kde+logistic")
        for name, (item,) in (("trace", items(1, 1, 2)), ("ref", items(2, 1, 2))):
            write_csv(made.folder / f"{name}.csv", item)
        yield made


CASE = "case system.safetensors --trace trace.csv --ref ref.csv"
COMMANDS = {
    "check": ("check t.csv --keep-profile --transform none", "lindley.yaml"),
    "train": ("train t.csv --model tlm+logistic --replicates 0 --out made.safetensors", "made.safetensors"),
    "case": (f"{CASE} --out r.html --log log.jsonl", "r.html"),
    "folder": (f"{CASE} --out reports --log log.jsonl", "reports/matrix.xlsx"),
    "run": ("run demo --data t.csv --models tlm --splits 1 --out runs", "runs/report.html"),
}


@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")
@pytest.mark.filterwarnings("ignore::lindley.models.classical.ShrinkageWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_a_full_disk_says_so_and_does_its_work_when_there_is_room(disk: SmallDisk, name: str) -> None:
    command, made = COMMANDS[name]
    before = sorted(disk.folder.iterdir())
    refused = 0
    for pages in (0, 8, 55) if name == "run" else (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
        disk.leave(pages)
        answer = here(*command.split(), cwd=disk.folder)
        disk.make_room()
        assert [path.name for path in disk.folder.rglob("*.part")] == []
        if answer.returncode:
            refused += 1
            assert answer.returncode == 2
            assert "No space left on device" in answer.stderr, (pages, answer.stderr)
            assert not (disk.folder / made).exists()
            if (log := disk.folder / "log.jsonl").exists():
                assert read_log(log).problems == ()
            answer = here(*command.split(), cwd=disk.folder)
        assert answer.returncode == 0, (pages, answer.stderr)
        if name == "train":
            assert load(disk.folder / made).features
        if name in ("case", "folder"):
            verified = here("verify", "r.html" if name == "case" else "reports", "--systems", ".", cwd=disk.folder)
            assert verified.returncode == 0, verified.stdout
            assert len(read_log(disk.folder / "log.jsonl").entries) == 1
        assert (disk.folder / made).stat().st_size > 0
        for path in disk.folder.iterdir():
            if path not in before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refused > 0

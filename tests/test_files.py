"""Files written whole or not at all; and what is no file, which is written to and stays what it is."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lindley import files
from lindley.errors import LindleyError
from lindley.files import is_special, write_atomically, write_new, write_together, write_whole
from tests.attacks.door import lindley

needs_posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no named pipes")


def through_a_pipe(path: Path, write: Callable[[], object]) -> bytes:
    """What a reader of a named pipe gets."""
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    write()
    reader.join(10)
    assert not reader.is_alive()
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(path.parent.iterdir()) == [path]
    return got[0]


@needs_posix
@pytest.mark.parametrize("replace", [True, False])
def test_a_pipe_is_written_to(replace: bool, tmp_path: Path) -> None:
    pipe, data = tmp_path / "a.csv", bytes(range(256)) * 1000
    assert through_a_pipe(pipe, lambda: write_atomically(pipe, data, replace=replace)) == data


@needs_posix
def test_a_command_writes_to_a_pipe_without_force(tmp_path: Path) -> None:
    pipe = tmp_path / "a.csv"
    export = ("data", "export", "glass-simulated", "--out", pipe)
    assert through_a_pipe(pipe, lambda: lindley(*export)).startswith(b"source,")


@needs_posix
def test_a_device_stays_one(tmp_path: Path) -> None:
    """/dev/null itself where this is not root, as a mistake would cost the machine its device."""
    device = Path(os.devnull)
    if os.geteuid() == 0:
        device = tmp_path / "null"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            device.write_bytes(b"")
        except OSError:
            pytest.skip("this root may make no devices")
    link = tmp_path / "null.csv"
    link.symlink_to(device)
    for path in (device, link):
        for replace in (True, False):
            write_atomically(path, b"gone", replace=replace)
        assert is_special(path)
        assert path.read_bytes() == b""
    assert lindley("data", "export", "glass-simulated", "--out", link).status == 0
    assert lindley("schema", "--out", device).status == 0
    assert link.is_symlink()
    assert is_special(device)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_device_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("/dev/full")
    with pytest.raises(LindleyError, match="No space left"):
        write_atomically(tmp_path / "a.csv", b"x")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one_and_its_file_is_replaced(there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target, link, further = folder / "a.csv", tmp_path / "link.csv", tmp_path / "further.csv"
    if there:
        target.write_bytes(b"old")
    link.symlink_to(Path("elsewhere") / "a.csv")
    further.symlink_to(link)
    write_atomically(further, b"new")
    assert (link.is_symlink(), further.is_symlink(), target.is_symlink()) == (True, True, False)
    assert target.read_bytes() == b"new"
    assert list(folder.iterdir()) == [target]
    with pytest.raises(LindleyError, match="is there already"):
        write_new(link, "newer")
    assert target.read_bytes() == b"new"


def test_a_link_that_leads_nowhere_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "none.csv")
    refused = lindley("data", "export", "glass-simulated", "--out", tmp_path / "a.csv")
    assert refused.status == 2
    assert "--force to replace it" in refused.err
    assert lindley("data", "export", "glass-simulated", "--out", tmp_path / "a.csv", "--force").status == 0
    assert (tmp_path / "none.csv").is_file()


@needs_posix
def test_a_log_wants_a_report_that_can_be_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.html")
    sides = [tmp_path / "a.csv", tmp_path / "b.csv"]
    given = ("--trace", sides[0], "--ref", sides[1], "--out", tmp_path / "report.html", "--log", tmp_path / "log.jsonl")
    refused = lindley("case", tmp_path / "a.safetensors", *given)
    assert refused.status == 2
    assert "is no file" in refused.err


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_all_files_or_none(broken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first file, at the second, or as soon as both are written."""
    real, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == broken + 1:
            raise OSError(28, "No space left on device")
        real(descriptor)

    def no_rename(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    if broken == 2:
        monkeypatch.setattr(os, "replace", no_rename)
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        write_together({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_is_copied_from_where_it_stands(tmp_path: Path) -> None:
    source = io.BytesIO(b"0123456789")
    source.seek(4)
    write_whole(tmp_path / "a", source)
    assert (tmp_path / "a").read_bytes() == b"456789"


def test_no_other_place_renames_or_replaces_what_somebody_named() -> None:
    """One function writes files whole; the others rename within a folder of the app, what nobody named."""
    source = Path(files.__file__).parent
    found = {
        path.relative_to(source).as_posix() for path in source.rglob("*.py") if "os.replace(" in path.read_text("utf-8")
    }
    assert found == {"files.py"}

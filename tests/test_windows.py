"""What Windows does otherwise, and cannot be run here: names of files, files that others have open, consoles, Excel."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lindley import files
from lindley.cli import commands, options
from lindley.errors import LindleyError
from lindley.experiment.folder import first_folder
from lindley.files import refused_by_windows, write_atomically
from lindley.pages import matrix, validation_page
from lindley.table.read import read_table
from lindley.table.table import Table, export_csv


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("CON.html", "keeps the name"),
        ("nul", "keeps the name"),
        ("Aux.report.json", "keeps the name"),
        ("com1.csv", "keeps the name"),
        ("LPT9", "keeps the name"),
        ("com¹.csv", "keeps the name"),
        ("prn .html", "keeps the name"),
        ("2026:017.html", ":"),
        ('reports"', '"'),
        ("F1?.html", "?"),
        ("F1*.html", "*"),
        ("a<b.html", "<"),
        ("a|b.html", "|"),
        ("case.", "ends"),
        ("case.html ", "ends"),
        ("case\t1.html", "\\t"),
    ],
)
def test_names_that_windows_refuses(name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why in (refused_by_windows(Path(name)) or "")
    assert refused_by_windows(Path("cases", name, "report.html"))  # a folder is no better than a file
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    with pytest.raises(LindleyError, match="on Windows"):
        write_atomically(tmp_path / name, b"LR")
    assert not list(tmp_path.iterdir())
    with pytest.raises(LindleyError, match="on Windows"):  # before the work, and not after it
        options.require_place(tmp_path / f"{name}/x.html", (".html",), force=False)


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\Zoë\case 17.html",
        "case-017.html",
        "..",
        ".",
        "contents.html",
        "com10.csv",
        "a.con",
        ".lock",
        r"\\srv\lab\x.csv",
    ],
)
def test_names_that_windows_takes(path: str) -> None:
    assert refused_by_windows(path) is None


def test_elsewhere_a_colon_is_a_letter(tmp_path: Path) -> None:
    if files.ON_WINDOWS:
        pytest.skip("Windows")
    write_atomically(tmp_path / "2026:017.html", b"LR")
    assert (tmp_path / "2026:017.html").read_bytes() == b"LR"


def test_folder_of_an_experiment_has_a_name_for_every_disk() -> None:
    class Named:
        name = 'glass: "first" try?'

    table = Table.from_arrays(np.zeros((2, 1)), ["a", "b"], name="a|b.")
    folder = first_folder(Named(), table)  # type: ignore[arg-type]
    assert refused_by_windows(folder) is None
    assert folder.name.startswith("glass_ _first_ try_-a_b")


def looked_into(times: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A virus scanner that has a new file open while somebody renames it, so many times."""
    real, tried = os.replace, []

    def replace(source: str, target: str) -> None:
        tried.append(str(target))
        if len(tried) <= times:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(files, "PATIENCE", 0.3)
    return tried


def test_a_scanner_that_looks_for_a_moment_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = looked_into(2, monkeypatch)
    write_atomically(tmp_path / "units.json", b"{}", replace=False)
    assert len(tried) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["units.json"]


def test_a_page_and_its_json_wait_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_into(1, monkeypatch)
    validation_page.write_pair(tmp_path, ("page.html", "page.json"), "page", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.json"]


def test_excel_that_keeps_it_open_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_into(10_000, monkeypatch)
    (tmp_path / "matrix.csv").write_bytes(b"old")
    with pytest.raises(LindleyError, match="close the file if Excel has it open"):
        write_atomically(tmp_path / "matrix.csv", b"new")
    assert (tmp_path / "matrix.csv").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_path_that_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    monkeypatch.setattr(Path, "open", lambda self, mode: os.stat("/nowhere/at/all"))  # what Windows says then
    place = tmp_path / ("a" * 200) / f"{'b' * 60}.html"
    with pytest.raises(LindleyError, match=r"Windows allows 259 letters .* a shorter name"):
        write_atomically(place, b"LR")


class Console(io.TextIOWrapper):
    """A console, or a file that output was sent to, in an encoding of Windows."""

    def __init__(self, encoding: str, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def shown(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "utf-8"])
@pytest.mark.parametrize("terminal", [True, False])
def test_every_console_shows_the_sign_of_an_lr(encoding: str, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Console(encoding, terminal), Console(encoding, terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(commands, "app", lambda: out.write("log10 LR −2.47 ≥ σ — 1\u202f234 … \udcff\n"))
    commands.main()
    shown = out.shown()
    if terminal and encoding != "utf-8":
        assert shown.startswith("log10 LR -2.47 ")
        assert "1 234 ..." in shown.replace("…", "...")
    else:
        assert "log10 LR −2.47 ≥ σ — 1\u202f234 …" in shown
    assert "\\udcff" in shown
    assert "?" not in shown


@pytest.mark.parametrize(
    "arguments", [["--help"], ["data", "list"], ["check", "glass-simulated"], ["case", "−.safetensors"]]
)
def test_commands_answer_where_output_is_windows_1252(arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252:strict", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "lindley", *arguments]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode in (0, 2)
    assert b"UnicodeEncodeError" not in done.stderr + done.stdout
    assert (done.stdout + done.stderr).decode("utf-8")


@pytest.mark.parametrize(("label", "marked"), [("pane 1", False), ("vitre brisée", True)])
def test_excel_reads_the_letters_of_a_csv(label: str, marked: bool, tmp_path: Path) -> None:
    """Excel takes a CSV file for Windows-1252 unless a byte-order mark says UTF-8; other programs do better without one."""
    sources = [label, *"bcdefg"]
    values = np.random.default_rng(1).normal(size=(14, 2)) + np.repeat(np.arange(7), 2)[:, None]
    table = Table.from_arrays(values, np.repeat(sources, 2), features=["Na", "K"])
    export_csv(table, tmp_path / "glass.csv")
    data = (tmp_path / "glass.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == marked
    assert set(read_table(tmp_path / "glass.csv").sources.tolist()) == set(sources)


def test_excel_reads_the_letters_of_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_csv", lambda batch: "trace,Scheibe für F1\n")
    assert matrix.matrix_file(None, ".csv").startswith(b"\xef\xbb\xbf")  # type: ignore[arg-type]


def test_a_process_that_windows_starts_anew_does_not_run_the_command_again() -> None:
    done = subprocess.run([sys.executable, "-c", "import lindley.__main__"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")

"""What is wrong with files and options is told before torch is loaded, which takes longer than anybody waits for a slip."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lindley.table.table import export_csv
from tests.casework.factory import items, saved, table, write_csv

SYSTEM, CASE = "system.safetensors", "case system.safetensors"
REFUSALS = {
    "no system": ("case none.safetensors --trace t.csv --ref r.csv", "there is no file none.safetensors"),
    "a table for a system": ("case t.csv --trace t.csv --ref r.csv", "t.csv does not hold a lindley system"),
    "a folder for a system": ("case folder --trace t.csv --ref r.csv", "folder cannot be read: it is not a file"),
    "no trace": (f"{CASE} --trace none.csv --ref r.csv", "none.csv: there is no such file in"),
    "no ref": (f"{CASE} --trace t.csv --ref none.csv", "none.csv: there is no such file in"),
    "neither": (f"{CASE} --trace here.csv --ref there.csv", "2 errors"),
    "a data set for a trace": (f"{CASE} --trace glass-simulated --ref r.csv", "there is no such file"),
    "a system for a ref": (f"{CASE} --trace t.csv --ref {SYSTEM}", "the ending '.safetensors' is not known"),
    "a word for a number": (f"{CASE} --trace word.csv --ref r.csv", "is not a number"),
    "a feature that lacks": (f"{CASE} --trace t.csv --ref lacks.csv", "Rb85"),
    "no key": (f"{CASE} --trace t.csv --ref r.csv --require-signature no.pem", "there is no key no.pem"),
    "no scale": (f"{CASE} --trace t.csv --ref r.csv --scale none.yaml", "none.yaml"),
    "no case file": (f"{CASE} --trace t.csv --ref r.csv --case-file none.yaml", "none.yaml"),
    "no folder for the log": (f"{CASE} --trace t.csv --ref r.csv --log no/log.jsonl", "there is no folder no"),
    "no place": (f"{CASE} --trace t.csv --ref r.csv --out no/report.html", "there is no folder no"),
    "no log": ("log none.jsonl", "there is no log none.jsonl"),
    "evaluate no system": ("evaluate none.safetensors new.csv --out v", "there is no file none.safetensors"),
    "evaluate no table": (f"evaluate {SYSTEM} none.csv --out v", "none.csv: there is no such file"),
    "evaluate no other": (f"evaluate {SYSTEM} new.csv --other none.csv --out v", "none.csv: there is no such file"),
    "evaluate no criteria": (f"evaluate {SYSTEM} new.csv --criteria none.yaml --out v", "there is no file none.yaml"),
    "evaluate a bad table": (f"evaluate {SYSTEM} lacks.csv --out v", "Rb85"),
    "evaluate nowhere": (f"evaluate {SYSTEM} new.csv", "--out DIR is needed"),
    "two and criteria": (f"evaluate {SYSTEM} {SYSTEM} --data new.csv --criteria c.yaml", "of one system"),
    "compare with none": (f"evaluate {SYSTEM} none.safetensors --data new.csv", "there is no file none.safetensors"),
    "compare on no table": (f"evaluate {SYSTEM} {SYSTEM} --data none.csv", "none.csv: there is no such file"),
    "info": ("info none.safetensors", "there is no file none.safetensors"),
    "sign": ("sign none.safetensors --key k.pem", "there is no file none.safetensors"),
    "update none": ("update none.safetensors new.csv", "there is no file none.safetensors"),
    "update by none": (f"update {SYSTEM} none.csv", "none.csv: there is no such file"),
    "train": ("train none.csv --out s.safetensors", "none.csv: there is no such file"),
    "train on a bad table": ("train word.csv --out s.safetensors", "is not a number"),
    "run": ("run demo --data none.csv", "none.csv: there is no such file"),
    "report": ("report nowhere", "nowhere holds no results.json. Name the folder"),
    "report unfinished": ("report unfinished", "Its run is not finished: give the same 'lindley run' again"),
    "compare": ("compare unfinished nowhere --to tlm", "unfinished holds no results.json"),
    "compare a file": ("compare t.csv --to tlm", "t.csv holds no results.json"),
    "verify": ("verify none.html", "none.html: not verified • there is no file none.html"),
    "verify two": ("verify none.html no/other.pdf", "no/other.pdf 0 of 2 reports verified."),
    "workers": ("run demo --workers many", "--workers 'many': give a number from 1 to 1000, or auto"),
    "both": ("run demo --workers auto --cluster tcp://127.0.0.1:9", "and not both"),
    "check": ("check none.csv", "none.csv: there is no such file"),
}
RUN_ALL = """
import contextlib, io, json, sys
from lindley.cli import main
answers = {}
for name, line in json.load(sys.stdin).items():
    sys.argv = ["lindley", *line.split()]
    said = io.StringIO()
    status = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as exit:
            status = exit.code
    answers[name] = [status, " ".join(said.getvalue().split()), "torch" in sys.modules]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of all commands, one after the other in one process that has not loaded torch: status, words, and whether it has now."""
    folder = tmp_path_factory.mktemp("files")
    saved(folder, "tlm")
    (folder / "folder").mkdir()
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "experiment.yaml").write_text("data: t.csv\n", encoding="utf-8")
    trace, ref = items(1, 2, 2)
    for name, values in (("t.csv", trace), ("r.csv", ref)):
        write_csv(folder / name, values)
    write_csv(folder / "lacks.csv", ref[:, :3], ("K39", "Ti49", "Mn55"), source=["A", "A"])
    (folder / "word.csv").write_text("source,K39,Ti49,Mn55,Rb85\nA,1,2,3,glass\n", encoding="utf-8")
    export_csv(table(seed=9), folder / "new.csv")
    lines = {name: line for name, (line, _) in REFUSALS.items()}
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(lines), capture_output=True, text=True, encoding="utf-8", cwd=folder, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not any(path.suffix in (".html", ".jsonl", ".json") for path in Path(folder).rglob("*"))
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_told_before_torch_is_loaded(answers: dict[str, Any], name: str) -> None:
    status, said, torch_is_loaded = answers[name]
    assert REFUSALS[name][1] in said
    assert status == 2
    assert not torch_is_loaded


def test_a_whole_case_loads_neither_statistics_nor_excel_nor_drawing(tmp_path: Path) -> None:
    saved(tmp_path, "tlm")
    trace, ref = items(1, 2, 2)
    for name, values in (("t.csv", trace), ("r.csv", ref)):
        write_csv(tmp_path / name, values)
    code = (
        f"import sys; sys.argv = 'lindley {CASE} --trace t.csv --ref r.csv --out report.html'.split(); "
        "from lindley.cli import app; app(standalone_mode=False); "
        "slow = {'scipy.stats', 'openpyxl', 'matplotlib', 'sklearn', 'plotly', 'pandas', 'distributed', 'narwhals'}; "
        "sys.exit(' '.join(slow & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()

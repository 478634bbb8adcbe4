"""Killed at any moment, the same command goes on where it was, and ends with the results of an undisturbed run."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lindley.table.table import export_csv
from tests.command import ENVIRONMENT, here
from tests.experiment.conftest import make_table

COLD, WARM = 2, 10
"""Kills of the command as a user starts it, and of one that has its imports behind it, which saves seconds each."""
UNITS = 24
EXPERIMENT = """\
data: panes.csv
protocol: {splits: 42, seed: 6}
training: {epochs: 5, group: 7}
output: {report: false}
models:
  - tlm
  - tlm+logistic+elub
  - yeo-johnson:tlm
  - ntlm-single-pairs-n1
  - ntlm-single-pairs-n1-varying
  - {model: ntlm-double-sources-n2, label: sources, options: {epochs: 3}}
"""
KILLED = ["run", "panes.yaml", "--out", "killed"]
FORKS = f"""\
import os, sys, time
import lindley.experiment.runner
from lindley.cli.commands import main
rename = os.replace
def slowly(*names):
    time.sleep(0.05)
    rename(*names)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        if line == "slowly\\n":
            os.replace = slowly
        sys.argv = ["lindley", *{KILLED}]
        main()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs the command once for every line that it reads; on request with a slow disk, where files are half-written longer."""


def start(where: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lindley", *KILLED],
        cwd=where, env=ENVIRONMENT, text=True, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def half_written(folder: Path) -> set[str]:
    return {name for name in files(folder) if name.endswith(".part")}


def wait_for(condition: Callable[[], object], alive: Callable[[], bool]) -> None:
    end = time.monotonic() + 120.0
    while time.monotonic() < end and not condition() and alive():
        time.sleep(0.01)  # a fifth of the time that a file stays half-written


def kill_cold(rng: np.random.Generator, where: Path, attempt: int) -> bool:
    """While it starts, or as soon as it has written something; whether it was hit."""
    process = start(where)
    before = files(where / "killed")
    if attempt == 0:
        time.sleep(rng.uniform(0.0, 1.0))
    else:
        wait_for(lambda: files(where / "killed") - before, lambda: process.poll() is None)
    alive = process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    return alive and (os.name != "posix" or process.returncode == -signal.SIGKILL)


def kill_warm(rng: np.random.Generator, where: Path, forks: subprocess.Popen[str], attempt: int, moment: float) -> bool:
    """After some files and a random moment more, or with a file half-written; whether it was hit."""
    folder = where / "killed"
    before, writing = files(folder), attempt % 2 == 0
    assert forks.stdin is not None
    assert forks.stdout is not None
    out = forks.stdout
    forks.stdin.write("slowly\n" if writing else "\n")
    forks.stdin.flush()
    child = int(out.readline())

    def alive() -> bool:
        return not select.select([out], [], [], 0)[0]

    if writing:
        wait_for(lambda: half_written(folder) - before, alive)
    else:
        more = int(rng.integers(1, 4))
        wait_for(lambda: len(files(folder) - before) >= more, alive)
        time.sleep(rng.uniform(0.0, moment))
    if alive():
        os.kill(child, signal.SIGKILL)
    return int(out.readline()) == -signal.SIGKILL


def comparable(folder: Path) -> bytes:
    """results.json, times and the digest over them aside."""
    text = (folder / "results.json").read_text(encoding="utf-8")
    text, times = re.subn(r'"seconds": [0-9.e+-]+', '"seconds": 0', text)
    assert times == 6
    text, digests = re.subn(r'^ "sha256": "\w{64}"$', "", text, flags=re.MULTILINE)
    assert digests == 1
    return text.encode()


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    export_csv(make_table(45), folder / "panes.csv")
    (folder / "panes.yaml").write_text(EXPERIMENT)
    return folder


def test_killed_again_and_again_the_results_are_the_same(where: Path) -> None:
    undisturbed = here("run", "panes.yaml", "--out", "undisturbed", cwd=where)
    assert undisturbed.returncode == 0, undisturbed.stderr

    networks = json.loads((where / "undisturbed" / "results.json").read_bytes())["models"]["ntlm-single-pairs-n1"]
    moment = 0.7 * networks["seconds"] / 6  # of the time that a training takes on this machine

    rng = np.random.default_rng(20240229)
    kills = sum(kill_cold(rng, where, attempt) for attempt in range(COLD if os.name == "posix" else COLD + WARM))
    if os.name == "posix":
        with subprocess.Popen(
            [sys.executable, "-c", FORKS], cwd=where, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as forks:
            kills += sum(kill_warm(rng, where, forks, attempt, moment) for attempt in range(WARM))
            forks.stdin.close()  # type: ignore[union-attr]
    folder, reference = where / "killed", where / "undisturbed"
    left = half_written(folder)
    assert kills >= 10
    assert not (folder / "results.json").exists()
    units = {p.stem for p in (folder / "units").glob("*.json")}
    assert 0 < len(units) < UNITS  # it was on its way, and not at the end

    last = start(where)
    output, _ = last.communicate(timeout=300)
    assert last.returncode == 0, output
    told = re.search(rf"(\d+) of {UNITS} parts of this experiment are finished already, and are used", output)
    assert told is not None, output
    assert int(told[1]) == len(units)  # nothing that was finished was done again
    assert "damaged" not in output

    assert comparable(folder) == comparable(reference)
    assert files(folder) - left == files(reference)
    assert left or os.name != "posix", "no kill hit a file that was being written"
    for name in sorted(files(reference)):
        if name.startswith("models/") or name == "data.npz":
            assert (folder / name).read_bytes() == (reference / name).read_bytes(), name
    for name in (name for name in files(reference) if name.startswith("units/")):
        ours, theirs = (json.loads((root / name).read_bytes()) for root in (folder, reference))
        assert (ours["key"], ours["files"]) == (theirs["key"], theirs["files"])


def test_leftovers_of_killed_runs_do_no_harm_and_go_in_time(where: Path) -> None:
    """After the test above: a finished run again. Young leftovers stay, for they could be a living run's; old ones go."""
    folder = where / "killed"
    if not (folder / "results.json").is_file():
        pytest.skip("needs the run that was killed")
    before = comparable(folder)
    for number, name in enumerate(sorted(half_written(folder))):
        age = 0 if number == 0 else 3600
        os.utime(folder / name, (time.time() - age, time.time() - age))
    again = here(*KILLED, cwd=where)
    assert again.returncode == 0, again.stderr
    assert f"{UNITS} of {UNITS} parts" in again.stderr
    assert len(half_written(folder)) <= 1
    assert comparable(folder) == before

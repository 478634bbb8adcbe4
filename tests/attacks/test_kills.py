"""A run with workers, killed at random moments: the same command goes on, and ends with the results of an unbroken run.

The command is killed, or interrupted, or one of its workers is killed: each once; for so many minutes as LINDLEY_KILL_MINUTES
says, where it is set.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from lindley.table.table import export_csv
from tests.command import ENVIRONMENT
from tests.experiment.conftest import make_table, without_seconds

MINUTES = float(os.environ.get("LINDLEY_KILL_MINUTES", "0"))
EXPERIMENT = """\
data: panes.csv
protocol: {splits: 9, seed: 6}
training: {epochs: 60, group: 3}
models: [tlm+logistic+elub, yeo-johnson:tlm, ht-plda, ntlm-single-pairs-n1, ntlm-single-pairs-n1-varying]
output: {report: false}
"""
WAYS = ("command", "worker", "interrupt")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals to send")


def start(where: Path, out: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lindley", "run", "panes.yaml", "--out", out, "--workers", "2"],
        cwd=where, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def of_session(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def workers(session: int) -> list[psutil.Process]:
    found = []
    for process in of_session(session):
        with suppress(psutil.Error):
            if "LokyProcess" in " ".join(process.cmdline()):
                found.append(process)
    return found


def results(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    content = json.loads((folder / "results.json").read_bytes())
    content["experiment"].pop("output")
    models = {p.relative_to(folder).as_posix(): p.read_bytes() for p in (folder / "models").rglob("*") if p.is_file()}
    return without_seconds(content), models


def test_killed_at_random_moments(tmp_path: Path) -> None:
    export_csv(make_table(24), tmp_path / "panes.csv")
    (tmp_path / "panes.yaml").write_text(EXPERIMENT)
    begun = time.monotonic()
    whole = start(tmp_path, "whole")
    _, err = whole.communicate(timeout=600)
    assert whole.returncode == 0, err
    takes, reference = time.monotonic() - begun, results(tmp_path / "whole")
    rng, counts = np.random.default_rng(), Counter[str]()
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end or not set(WAYS) <= set(counts):
        way = WAYS[counts.total() % 3] if counts.total() < 3 else str(rng.choice(WAYS))
        process = start(tmp_path, "killed")
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.0, 0.9 * takes))
        alive = process.poll() is None
        if way == "worker":
            there = workers(process.pid)
            for each in there[:1]:
                with suppress(psutil.Error):
                    each.kill()
            alive = alive and bool(there)
        elif way == "command":
            process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        hit = time.monotonic()
        out, err = process.communicate(timeout=600)
        took, gone = time.monotonic() - hit, hit + 30
        while (left := of_session(process.pid)) and time.monotonic() < gone:
            time.sleep(0.1)
        said = f"{way}: status {process.returncode} after {took:.1f} s\n{out}\n{err}"
        assert left == [], said
        if alive:
            counts[way] += 1
        if way == "worker" or process.returncode == 0:
            assert process.returncode == 0, said
        if way == "interrupt" and alive and process.returncode != 0:
            assert took < 20, said
            # Ctrl-C before the command has its own words for it is Python's.
            assert err.count("Traceback") <= ("Interrupted" not in err), said
        if process.returncode == 0:
            assert "Traceback" not in err, said
            assert results(tmp_path / "killed") == reference, said
            counts["finished"] += 1
            shutil.rmtree(tmp_path / "killed")
    process = start(tmp_path, "killed")
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert results(tmp_path / "killed") == reference
    print(dict(counts), f"an unbroken run takes {takes:.0f} s")

"""How many cores there are to use, by what the system says of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lindley.experiment import cores
from lindley.experiment.cores import usable_cores


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixteen cores, and control groups in a folder of ours."""
    monkeypatch.setattr(cores, "_allowed", lambda: 16)
    monkeypatch.setattr(cores, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cores, "OWN_CGROUPS", tmp_path / "own")
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, 16),
        ({"own": "0::/\n", "cgroup/cpu.max": "max 100000\n"}, 16),
        ({"own": "0::/\n", "cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"own": "0::/\n", "cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"own": "0::/\n", "cgroup/cpu.max": "250000 100000\n"}, 3),
        ({"own": "0::/\n", "cgroup/cpu.max": "6400000 100000\n"}, 16),
        ({"own": "0::/a/b\n", "cgroup/a/b/cpu.max": "max 100000\n", "cgroup/a/cpu.max": "200000 100000\n"}, 2),
        ({"own": "0::/a/b\n", "cgroup/a/b/cpu.max": "300000 100000\n", "cgroup/a/cpu.max": "800000 100000\n"}, 3),
        ({"own": "0::/not/seen/here\n", "cgroup/cpu.max": "200000 100000\n"}, 2),
        (
            {
                "own": "5:memory:/m\n4:cpu,cpuacct:/job\n",
                "cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "500000\n",
                "cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            5,
        ),
        ({"own": "4:cpu:/\n", "cgroup/cpu/cpu.cfs_quota_us": "-1\n", "cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 16),
        ({"own": "0::/\n", "cgroup/cpu.max": "nonsense\n"}, 16),
    ],
)
def test_containers(machine: Path, files: dict[str, str], found: int) -> None:
    write(machine, files)
    assert usable_cores() == found


def test_here() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity to set")
def test_affinity() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    if sys.platform == "linux":
        assert cores._allowed() == len(before)

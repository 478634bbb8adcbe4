"""How many cores this process may use: fewer than the machine has where a scheduler or a container says so."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["usable_cores"]

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The cores that this process may run on, or as many as its container has time for, if that is less; one at least."""
    return max(1, min(_allowed(), *_limits()))


def _allowed() -> int:
    """By affinity: what ``taskset``, a batch system or the task manager of Windows has left of the machine."""
    if sys.platform == "win32":
        import ctypes

        process, system = ctypes.c_size_t(), ctypes.c_size_t()
        kernel = ctypes.windll.kernel32
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        kernel.GetProcessAffinityMask.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        if kernel.GetProcessAffinityMask(kernel.GetCurrentProcess(), ctypes.byref(process), ctypes.byref(system)):
            return process.value.bit_count() or (os.cpu_count() or 1)
    elif hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limits() -> list[int]:
    """By control groups of Linux, this process's own and those around it; a part of a core counts as one."""
    limits = [sys.maxsize]
    for folder in _cgroups():
        with suppress(OSError, ValueError):  # not there, or "max"
            quota, period = (folder / "cpu.max").read_text().split()
            limits.append(-(-int(quota) // int(period)))
        with suppress(OSError, ValueError):
            limit, span = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            if limit > 0:
                limits.append(-(-limit // span))
    return limits


def _cgroups() -> list[Path]:
    """Of version 2, and the one for processor time of version 1."""
    found = []
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds or "cpu" in kinds.split(","):
                root = CGROUPS / kinds
                own = root / path.strip("/")
                found += [own, *(each for each in own.parents if each.is_relative_to(root))]
    return [*found, CGROUPS, CGROUPS / "cpu"]
